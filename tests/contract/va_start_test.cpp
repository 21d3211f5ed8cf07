// What a driver with GPU virtual addresses must say at start.
#include <fmt/format.h>

#include "dxgk/adapter/adapter.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using VaStartTest = GpuVaTest;

/// The start fails with one finding, and nothing is left behind.
void expect_refused(GpuVaStack& stack, const std::string& rule, const std::string& said,
                    Status status = Status::kDeviceConfigurationError) {
  EXPECT_EQ(stack.start(), status);
  const verifier::Finding finding = stack.only_finding();
  EXPECT_EQ(finding.rule, rule);
  EXPECT_EQ(finding.severity, verifier::Severity::kStartFail);
  EXPECT_THAT(finding.actual, ::testing::HasSubstr(said));
  EXPECT_FALSE(finding.expected.empty() || finding.fix.empty());
  EXPECT_EQ(stack.miniport.count("DxgkDdiStopDevice"), 1U);
  EXPECT_EQ(stack.miniport.count("DxgkDdiRemoveDevice"), 1U);
  EXPECT_EQ(stack.miniport.count("DxgkDdiCreateProcess"), 0U);
  EXPECT_EQ(stack.miniport.live_objects(), 0U);
}

TEST_F(VaStartTest, BothKindsOfDriverStartWithTheirTablesKnown) {
  DXGKIT_COVERS("VA-01", "VA-02", "VA-03");
  running(GpuVaConfig::gpu_physical_four_level(), [](GpuVaStack& stack) {
    const dxgk::GpuVaModel* model = stack.adapter().gpu_va_model();
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->geometry.level_count, 4U);
    EXPECT_EQ(model->geometry.va_bits, 48U);
    EXPECT_EQ(model->geometry.levels[3].segment, SegmentId{2});
    EXPECT_EQ(model->geometry.levels[3].paging_process_segment, kSystemMemory);
    EXPECT_EQ(model->geometry.levels[3].table_bytes, 4096U);
    EXPECT_EQ(model->geometry.update_mode, gpuva::UpdateMode::kGpuPhysical);
    EXPECT_TRUE(model->geometry.read_only && model->geometry.no_execute && model->geometry.zero);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
  running(GpuVaConfig::cpu_virtual_two_level(), [](GpuVaStack& stack) {
    const dxgk::GpuVaModel* model = stack.adapter().gpu_va_model();
    ASSERT_NE(model, nullptr);
    EXPECT_TRUE(model->geometry.root_grows());
    EXPECT_EQ(model->geometry.update_mode, gpuva::UpdateMode::kCpuVirtual);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(VaStartTest, OneModelIsNamedOrNone) {
  DXGKIT_COVERS("VA-01");
  struct Row {
    bool virtual_addressing, gpu_mmu, io_mmu;
    Status status;
  };
  constexpr Status kRefused = Status::kDeviceConfigurationError;
  for (const Row& row :
       {Row{true, true, true, kRefused}, Row{true, false, false, kRefused},
        Row{false, true, false, kRefused}, Row{false, false, true, kRefused},
        Row{false, true, true, kRefused}, Row{true, false, true, Status::kNotSupported}}) {
    const std::string said = fmt::format(
        "VirtualAddressingSupported = {:d}, GpuMmuSupported = {:d}, IoMmuSupported = "
        "{:d}",
        row.virtual_addressing, row.gpu_mmu, row.io_mmu);
    SCOPED_TRACE(said);
    bare(GpuVaConfig::gpu_physical_four_level(), [&](GpuVaStack& stack) {
      stack.miniport.config.caps = [&](DXGK_DRIVERCAPS& caps) {
        caps.MemoryManagementCaps.VirtualAddressingSupported = row.virtual_addressing ? 1 : 0;
        caps.MemoryManagementCaps.GpuMmuSupported = row.gpu_mmu ? 1 : 0;
        caps.MemoryManagementCaps.IoMmuSupported = row.io_mmu ? 1 : 0;
      };
      expect_refused(stack, "VA-01", said, row.status);
    });
  }
  // None: the driver is not asked for tables, and starts as it always did.
  running(
      GpuVaConfig::gpu_physical_four_level(),
      [](GpuVaStack& stack) {
        EXPECT_EQ(stack.adapter().gpu_va_model(), nullptr);
        for (const testing::QueryCall& query : stack.miniport.calls().queries)
          EXPECT_NE(query.args.Type, DXGKQAITYPE_GPUMMUCAPS);
      },
      [](GpuVaStack& stack) { stack.miniport.config.caps = nullptr; });
}

TEST_F(VaStartTest, LevelsAndBitsAgree) {
  DXGKIT_COVERS("VA-02");
  using Break = void (*)(GpuVaConfig&);
  const std::pair<Break, const char*> rows[] = {
      {[](GpuVaConfig& config) { config.levels.resize(1); }, "PageTableLevelCount is 1"},
      {[](GpuVaConfig& config) { config.levels.resize(7, config.levels[0]); },
       "PageTableLevelCount is 7"},
      {[](GpuVaConfig& config) { config.va_bits = 47; }, "take 48 bits"},
      {[](GpuVaConfig& config) { config.va_bits = 64; }, "VirtualAddressBitCount is 64"},
      {[](GpuVaConfig& config) { config.levels[1].index_bits = 10; }, "take 49 bits"},
      {[](GpuVaConfig& config) { config.levels[2].index_bits = 0; }, "level 2"},
      {[](GpuVaConfig& config) {
         config = GpuVaConfig::two_level(port::PageTableUpdateMode::kGpuPhysical, 2);
         config.va_bits = 20;
       },
       "two levels"},
  };
  for (const auto& [break_it, said] : rows) {
    SCOPED_TRACE(said);
    GpuVaConfig config = GpuVaConfig::gpu_physical_four_level();
    break_it(config);
    bare(config, [&](GpuVaStack& stack) { expect_refused(stack, "VA-02", said); });
  }
}

TEST_F(VaStartTest, TablesAreWhereAndAsLargeAsTheyMayBe) {
  DXGKIT_COVERS("VA-03", "PAGE-32");
  using Break = void (*)(GpuVaConfig&);
  const std::pair<Break, const char*> rows[] = {
      {[](GpuVaConfig& config) { config.levels[1].table_bytes = 5000; },
       "level 1: PageTableSizeInBytes is 5000"},
      {[](GpuVaConfig& config) { config.levels[3].table_bytes = 0; }, "level 3"},
      {[](GpuVaConfig& config) {
         config.levels[2].table_bytes = 8192;
         config.levels[2].segment = 0;
       },
       "level 2: tables of 8192 bytes in system memory"},
      {[](GpuVaConfig& config) { config.levels[0].table_bytes = 8192; },
       "level 0: tables of 8192 bytes in system memory"},
      {[](GpuVaConfig& config) {
         config.levels[0].table_bytes = 8192;
         config.levels[0].segment = 4;
         config.levels[0].paging_process_segment = 0;
       },
       "level 0: tables of 8192 bytes in system memory"},
      {[](GpuVaConfig& config) { config.levels[0].segment = 5; }, "segment 5 of 3"},
      {[](GpuVaConfig& config) { config.levels[0].table_alignment_bytes = 12288; }, "power of two"},
      {[](GpuVaConfig& config) { config.update_mode = port::PageTableUpdateMode::kCpuVirtual; },
       "live in local memory segment 2"},
      {[](GpuVaConfig& config) { config.update_mode = static_cast<port::PageTableUpdateMode>(3); },
       "PageTableUpdateMode is 3"},
  };
  for (const auto& [break_it, said] : rows) {
    SCOPED_TRACE(said);
    GpuVaConfig config = GpuVaConfig::gpu_physical_four_level();
    break_it(config);
    bare(config, [&](GpuVaStack& stack) { expect_refused(stack, "VA-03", said); });
  }
  // Nothing is wrong with these; they are not done here.
  bare(GpuVaConfig::two_level(port::PageTableUpdateMode::kCpuVirtual, 3), [&](GpuVaStack& stack) {
    expect_refused(stack, "VA-03", "aperture segment 3", Status::kNotSupported);
  });
  GpuVaConfig legacy = GpuVaConfig::gpu_physical_four_level();
  legacy.caps = [](DXGK_GPUMMUCAPS& caps) { caps.LegacyBehaviors.SourcePageTableVaInTransfer = 1; };
  bare(legacy, [&](GpuVaStack& stack) {
    expect_refused(stack, "PAGE-32", "SourcePageTableVaInTransfer", Status::kNotSupported);
  });
}

// The id behind the driver's own segments is system memory, with tables of any size.
TEST_F(VaStartTest, TheSegmentBehindTheDriversIsSystemMemory) {
  DXGKIT_COVERS("VA-03");
  GpuVaConfig config = GpuVaConfig::gpu_physical_four_level();
  for (port::PageTableLevelDesc& level : config.levels) {
    level.segment = level.paging_process_segment = 4;
    level.table_bytes = 8192;
  }
  running(config, [](GpuVaStack& stack) {
    const dxgk::GpuVaModel* model = stack.adapter().gpu_va_model();
    ASSERT_NE(model, nullptr);
    for (uint32_t level = 0; level < 4; ++level) {
      EXPECT_EQ(model->geometry.levels[level].segment, kSystemMemory);
      EXPECT_EQ(model->geometry.levels[level].paging_process_segment, kSystemMemory);
      EXPECT_EQ(model->geometry.levels[level].table_bytes, 8192U);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Where the processor writes all tables, they may lie in a segment of system memory that it sees;
// one that it does not see gets no table.
TEST_F(VaStartTest, TablesOfTheProcessorLieWhereItSeesThem) {
  DXGKIT_COVERS("VA-03");
  for (const bool seen : {true, false}) {
    running(
        GpuVaConfig::two_level(port::PageTableUpdateMode::kCpuVirtual, 1),
        [seen](GpuVaStack& stack) {
          ListingClient client(stack);
          stack.drive();
          const Digest before = digest(stack, {&client});
          D3DKMT_CREATECONTEXTVIRTUAL args{};
          args.hDevice = client.device;
          NTSTATUS status = 1;
          stack.blocking(
              [&] { status = client.call([&] { return D3DKMTCreateContextVirtual(&args); }); });
          EXPECT_EQ(status, seen ? 0 : nt_status(Status::kNoMemory));
          if (!seen) {
            Digest after = digest(stack, {&client});
            after.driver_calls = before.driver_calls;  // its context came and went
            EXPECT_EQ(after, before);
          }
          for (const auto& update : stack.gpu.calls().updates) {
            EXPECT_NE(update.args.PageTableAddress.CpuVirtual, nullptr);
          }
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [seen](GpuVaStack& stack) {
          stack.miniport.config.segments[0].flags.PopulatedFromSystemMemory = 1;
          stack.miniport.config.segments[0].flags.CpuVisible = seen ? 1 : 0;
        });
  }
}

// The processor writes the tables of paging's own process, in any model: they may lie in local
// memory that it sees, and nowhere else there.
TEST_F(VaStartTest, TablesOfPagingLieWhereTheProcessorSeesThem) {
  DXGKIT_COVERS("VA-03", "PAGE-02");
  GpuVaConfig config = GpuVaConfig::gpu_physical_four_level(2);
  for (port::PageTableLevelDesc& level : config.levels) level.paging_process_segment = 1;
  running(config, [](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
    client.list({a});
    stack.drive();
    const uint64_t va = client.make_mapping(a, 4);
    EXPECT_TRUE(client.walk(va + 3 * kPage).valid) << client.walk(va + 3 * kPage).why;
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
  for (port::PageTableLevelDesc& level : config.levels) level.paging_process_segment = 2;
  bare(config, [](GpuVaStack& stack) {
    const uint64_t pages = stack.machine.free_page_count();
    EXPECT_EQ(stack.start(), Status::kNoMemory);
    EXPECT_EQ(stack.miniport.live_objects(), 0U);
    EXPECT_EQ(stack.machine.free_page_count(), pages);
  });
}

TEST_F(VaStartTest, TheEntriesOfTheModelAreThere) {
  DXGKIT_COVERS("CAPS-04");
  using Clear = void (*)(DRIVER_INITIALIZATION_DATA&);
  struct Row {
    const char* name;
    Clear clear;
  };
  const Row rows[] = {
      {"DxgkDdiCreateProcess", [](auto& table) { table.DxgkDdiCreateProcess = nullptr; }},
      {"DxgkDdiDestroyProcess", [](auto& table) { table.DxgkDdiDestroyProcess = nullptr; }},
      {"DxgkDdiSetRootPageTable", [](auto& table) { table.DxgkDdiSetRootPageTable = nullptr; }},
      {"DxgkDdiSubmitCommandVirtual",
       [](auto& table) { table.DxgkDdiSubmitCommandVirtual = nullptr; }},
      {"DxgkDdiGetRootPageTableSize",
       [](auto& table) { table.DxgkDdiGetRootPageTableSize = nullptr; }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    bare(GpuVaConfig::cpu_virtual_two_level(), [&](GpuVaStack& stack) {
      stack.miniport.config.table = [&, make = stack.miniport.config.table](auto& table) {
        make(table);
        row.clear(table);
      };
      expect_refused(stack, "CAPS-04", row.name);
    });
  }
}

TEST_F(VaStartTest, ADriverThatFailsTheQuestionDoesNotStart) {
  DXGKIT_COVERS("LIFE-12");
  bare(GpuVaConfig::gpu_physical_four_level(), [](GpuVaStack& stack) {
    stack.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
      if (args->Type == DXGKQAITYPE_PAGETABLELEVELDESC) return nt_status(Status::kNoMemory);
      if (args->Type != DXGKQAITYPE_GPUMMUCAPS)
        return stack.miniport.default_query_adapter_info(args);
      auto* caps = static_cast<DXGK_GPUMMUCAPS*>(args->pOutputData);
      caps->PageTableLevelCount = 4;
      return nt_status(Status::kSuccess);
    };
    EXPECT_EQ(stack.start(), Status::kNoMemory);
    EXPECT_EQ(stack.only_finding().rule, "LIFE-12");
    EXPECT_EQ(stack.only_finding().ddi, "DxgkDdiQueryAdapterInfo(GPUMMUCAPS)");
    EXPECT_EQ(stack.miniport.count("DxgkDdiRemoveDevice"), 1U);
  });
}

// Paging's own process needs room for its windows, and where tables are written by address for the
// tables: a space that has none is refused, and nothing is left behind.
TEST_F(VaStartTest, ASpaceTooSmallForPagingIsNoSpace) {
  DXGKIT_COVERS("PAGE-02");
  using port::PageTableUpdateMode;
  GpuVaConfig windows = GpuVaConfig::cpu_virtual_two_level();
  windows.va_bits = 24;
  GpuVaConfig tables = GpuVaConfig::two_level(PageTableUpdateMode::kGpuVirtual, 2);
  tables.va_bits = 28;
  for (const GpuVaConfig& config : {windows, tables}) {
    SCOPED_TRACE(config.va_bits);
    bare(config, [](GpuVaStack& stack) {
      const uint64_t pages = stack.machine.free_page_count();
      EXPECT_EQ(stack.start(), Status::kNoMemory);
      EXPECT_EQ(stack.only_finding().actual, "Paging could not start: STATUS_NO_MEMORY.");
      EXPECT_EQ(stack.miniport.live_objects(), 0U);
      EXPECT_EQ(stack.machine.free_page_count(), pages);
    });
  }
}

// What clients are told of the MMU, flag by flag and of the one physical adapter there is.
TEST_F(VaStartTest, ClientsAreToldOfTheMmuFlagByFlag) {
  DXGKIT_COVERS("THUNK-40", "VA-02");
  for (const int flag : {0, 1, 2, 3}) {  // the last: none
    SCOPED_TRACE(flag);
    GpuVaConfig config = GpuVaConfig::gpu_physical_four_level();
    config.read_only = flag == 0;
    config.no_execute = flag == 1;
    config.cache_coherent = flag == 2;
    running(config, [flag](GpuVaStack& stack) {
      VaClient client(stack);
      D3DKMT_QUERY_GPUMMU_CAPS caps{};
      D3DKMT_QUERYADAPTERINFO args{};
      args.hAdapter = client.adapter;
      args.Type = KMTQAITYPE_QUERY_GPUMMU_CAPS;
      args.pPrivateDriverData = &caps;
      args.PrivateDriverDataSize = sizeof caps;
      EXPECT_EQ(client.call([&] { return D3DKMTQueryAdapterInfo(&args); }), 0);
      EXPECT_EQ(caps.Caps.Flags.ReadOnlyMemorySupported, flag == 0 ? 1U : 0U);
      EXPECT_EQ(caps.Caps.Flags.NoExecuteMemorySupported, flag == 1 ? 1U : 0U);
      EXPECT_EQ(caps.Caps.Flags.CacheCoherentMemorySupported, flag == 2 ? 1U : 0U);
      EXPECT_EQ(caps.Caps.VirtualAddressBitCount, 48U);
      caps.PhysicalAdapterIndex = 1;
      EXPECT_EQ(client.call([&] { return D3DKMTQueryAdapterInfo(&args); }),
                nt_status(Status::kInvalidParameter));
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
