// What an exercised adapter says of its page tables, and what it sees of a driver that describes
// them in another way.
#include "dxgk/exercise.h"
#include "dxgk/inspection.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using VaExerciseTest = GpuVaTest;

/// The exerciser knows the shape of the tables, what their entries have, and where the root is.
TEST_F(VaExerciseTest, AnExercisedAdapterSaysWhatItsTablesAre) {
  DXGKIT_COVERS("VA-02", "VA-22");
  using Facts = std::vector<uint64_t>;
  for (auto& [name, kind] : kinds()) {
    SCOPED_TRACE(name);
    const bool four = kind.levels.size() == 4;
    for (int which = 0; which < 3; ++which) {
      GpuVaConfig config = kind;
      config.read_only = which == 0;
      config.no_execute = which == 1;
      config.zero_in_pte = which == 2;
      running(config, [&](GpuVaStack& stack) {
        VaClient client(stack);
        Client without(stack, "without");
        dxgk::Exercise exercise = std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
        EXPECT_EQ(exercise.gpu_va_pages(), uint64_t{1} << (four ? 36 : 18));
        const dxgk::Exercise::GpuVaFacts facts = exercise.gpu_va_facts();
        EXPECT_EQ(facts.read_only, which == 0);
        EXPECT_EQ(facts.no_execute, which == 1);
        EXPECT_EQ(facts.zero, which == 2);
        EXPECT_EQ(facts.table_pages, four ? (Facts{512, 512 * 512, 512 * 512 * 512}) : Facts{512});
        const auto root = exercise.gpu_va_root(*client.process);
        ASSERT_TRUE(root.has_value());
        const DXGKARG_SETROOTPAGETABLE told = stack.gpu.calls().roots.back();
        EXPECT_EQ(root->segment.value, told.Address.SegmentId);
        EXPECT_EQ(root->offset_bytes, told.Address.SegmentOffset);
        EXPECT_EQ(root->entries, told.NumEntries);
        EXPECT_EQ(exercise.gpu_va_root(*without.process).error(), Status::kInvalidParameter);
        const auto inspection = dxgk::Inspection::of(*stack.system, stack.luid);
        ASSERT_TRUE(inspection.has_value());
        const auto caps = inspection->gpu_mmu_caps();
        ASSERT_TRUE(caps.has_value());
        EXPECT_EQ(caps->level_count, four ? 4U : 2U);
      });
    }
  }
}

/// A driver whose description of its tables depends on what was in the buffer before.
TEST_F(VaExerciseTest, ADescriptionOfTablesThatLeavesMembersOutIsFound) {
  DXGKIT_COVERS("LIFE-29");
  struct Row {
    const char* what;
    void (*change)(DXGK_GPUMMUCAPS& caps, GpuVaConfig& config);
  };
  const Row rows[] = {
      {"nothing", [](auto&, auto&) {}},
      {"read only", [](auto& c, auto&) { c.ReadOnlyMemorySupported ^= 1; }},
      {"no execute", [](auto& c, auto&) { c.NoExecuteMemorySupported ^= 1; }},
      {"zero", [](auto& c, auto&) { c.ZeroInPteSupported ^= 1; }},
      {"invalidation", [](auto& c, auto&) { c.ExplicitPageTableInvalidation ^= 1; }},
      {"coherent", [](auto& c, auto&) { c.CacheCoherentMemorySupported ^= 1; }},
      {"idle", [](auto& c, auto&) { c.PageTableUpdateRequireAddressSpaceIdle ^= 1; }},
      {"large", [](auto& c, auto&) { c.LargePageSupported ^= 1; }},
      {"dual", [](auto& c, auto&) { c.DualPteSupported ^= 1; }},
      {"not aligned", [](auto& c, auto&) { c.AllowNonAlignedLargePageAddress ^= 1; }},
      {"64 KiB", [](auto& c, auto&) { c.SysMem64KBPageSupported ^= 1; }},
      {"cached invalid", [](auto& c, auto&) { c.InvalidTlbEntriesNotCached ^= 1; }},
      {"large system", [](auto& c, auto&) { c.SysMemLargePageSupported ^= 1; }},
      {"cached tables", [](auto& c, auto&) { c.CachedPageTables ^= 1; }},
      {"source", [](auto& c, auto&) { c.LegacyBehaviors.SourcePageTableVaInTransfer ^= 1; }},
      {"mode", [](auto& c, auto&) { c.PageTableUpdateMode = DXGK_PAGETABLEUPDATE_GPU_VIRTUAL; }},
      {"bits", [](auto& c, auto&) { ++c.VirtualAddressBitCount; }},
      {"leaf of 64 KiB", [](auto& c, auto&) { c.LeafPageTableSizeFor64KPagesInBytes = 256; }},
      {"levels", [](auto& c, auto&) { --c.PageTableLevelCount; }},
      {"index of the second", [](auto&, auto& config) { ++config.levels[1].index_bits; }},
      {"segment of the third", [](auto&, auto& config) { config.levels[2].segment ^= 1; }},
      {"segment of paging",
       [](auto&, auto& config) { config.levels[2].paging_process_segment ^= 1; }},
      {"bytes of the last", [](auto&, auto& config) { config.levels[3].table_bytes *= 2; }},
      {"alignment of the first",
       [](auto&, auto& config) { config.levels[0].table_alignment_bytes += 4096; }},
  };
  running(
      GpuVaConfig::gpu_physical_four_level(),
      [&](GpuVaStack& stack) {
        const GpuVaConfig as_started = stack.gpu.config;
        stack.miniport.hooks.get_node_metadata = [](UINT node, DXGKARG_GETNODEMETADATA* args) {
          if (node >= 2) return nt_status(Status::kInvalidParameter);
          *args = {};
          args->EngineType = node == 0 ? DXGK_ENGINE_TYPE_3D : DXGK_ENGINE_TYPE_COPY;
          args->GpuMmuSupported = TRUE;
          return nt_status(Status::kSuccess);
        };
        dxgk::Exercise exercise = std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
        for (const Row& row : rows) {
          SCOPED_TRACE(row.what);
          int asked = 0;
          stack.gpu.config.caps = [&](DXGK_GPUMMUCAPS& caps) {
            stack.gpu.config.levels = as_started.levels;
            if (++asked == 1) row.change(caps, stack.gpu.config);
          };
          const uint64_t before = stack.findings.count("LIFE-29");
          EXPECT_EQ(exercise.repeat_queries(), Status::kSuccess);
          EXPECT_EQ(asked, 0) << "with zeros it is not compared";
          exercise.fill_outputs(std::byte{0x5A});
          EXPECT_EQ(exercise.repeat_queries(), Status::kSuccess);
          exercise.fill_outputs(std::byte{0});
          EXPECT_EQ(asked, 2);
          const bool differs = &row != rows;
          ASSERT_EQ(stack.findings.count("LIFE-29"), before + (differs ? 1 : 0));
          if (!differs) continue;
          const verifier::Finding finding = stack.only_finding();  // the same each time
          EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
          EXPECT_TRUE(finding.actual.starts_with(
              "DXGK_GPUMMUCAPS or the description of a level has changed."));
        }
        stack.gpu.config = as_started;
        stack.miniport.hooks.get_node_metadata = nullptr;
      },
      [](GpuVaStack& stack) { stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM3_1; });
}

/// The driver's own failure comes back, whichever of the two questions it fails.
TEST_F(VaExerciseTest, ADescriptionOfTablesThatFailsStops) {
  DXGKIT_COVERS("LIFE-17");
  for (const int fails : {1, 2}) {
    SCOPED_TRACE(fails);
    running(GpuVaConfig::gpu_physical_four_level(), [&](GpuVaStack& stack) {
      const auto usual = stack.miniport.hooks.query_adapter_info;
      int asked = 0;
      stack.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
        if (args->Type == DXGKQAITYPE_GPUMMUCAPS && ++asked == fails)
          return nt_status(Status::kNoMemory);
        return usual(args);
      };
      dxgk::Exercise exercise = std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
      exercise.fill_outputs(std::byte{0x5A});
      EXPECT_EQ(exercise.repeat_queries(), Status::kNoMemory);
      exercise.fill_outputs(std::byte{0});
      EXPECT_EQ(asked, 2);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      stack.miniport.hooks.query_adapter_info = usual;
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
