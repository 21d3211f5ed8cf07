// What paging operations are.
#include "port/core/situation_tables_test.h"

namespace dxgkit::port {
namespace {

struct Built {
  PagingOperation operation;
  BuildPagingArgs args;
  BuildPagingResult result{.room_bytes = 512};
};
/// Of the kind, built into a buffer with room.
Built built(PagingOperation::Kind kind) {
  Built one;
  one.operation.kind = kind;
  one.args.buffer = reinterpret_cast<std::byte*>(&g_objects[0]);
  return one;
}
void build(SituationWorld& world, const Built& one) {
  BuildPagingArgs args = one.args;
  args.operation = &one.operation;
  world.all.paging.built(args, one.result);
}

TEST(PagingSituations, PagingOperationsOfEachKind) {
  using Kind = PagingOperation::Kind;
  const struct {
    Kind kind;
    Ids ids;
  } rows[] = {
      {Kind::kFill, {"fill.zero"}},
      {Kind::kFillVirtual, {"fill.zero", "fill-virtual.any"}},
      {Kind::kDiscardContent, {"paging.discard"}},
      {Kind::kMapAperture, {"aperture.map"}},
      {Kind::kUnmapAperture, {"aperture.unmap"}},
      {Kind::kInitContextResource, {"paging.init-context-resource"}},
      {Kind::kReadPhysical, {"paging.read-physical"}},
      {Kind::kWritePhysical, {"paging.write-physical"}},
      {Kind::kNotifyResidency, {"paging.notify-residency"}},
      {Kind::kNotifyEviction, {}},
      {Kind::kTransferVirtual, {"transfer-virtual.to-system"}},
      {Kind::kFlushTlb, {"tlb.all"}},
      {Kind::kCopyPageTableEntries, {}},
      {Kind::kUpdateContextAllocation, {}},
      {Kind::kTransfer, {"transfer.nothing"}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(static_cast<int>(row.kind));
    SituationWorld world;
    Built one = built(row.kind);
    build(world, one);
    EXPECT_EQ(world.reached(), row.ids);
    // What is said of any operation.
    one.args.buffer_offset = 1;
    one.result.status = Status::kGraphicsInsufficientDmaBuffer;
    Ids more = row.ids;
    more.insert({"paging.behind-other-work", "paging.insufficient"});
    build(world, one);
    EXPECT_EQ(world.reached(), more);
  }
}

TEST(PagingSituations, Transfers) {
  static constexpr uint64_t kInOrder[] = {7, 8, 9, 10};
  static constexpr uint64_t kScattered[] = {7, 8, 9, 11};
  Built base = built(PagingOperation::Kind::kTransfer);
  base.operation.allocation = &g_objects[1];
  base.operation.source.pages = kInOrder;
  base.operation.destination.pages = kScattered;  // not looked at
  base.operation.destination.segment = SegmentId{1};
  base.operation.size_bytes = 4 * 4096;
  const Ids plain{"transfer.to-segment", "transfer.not-idle", "transfer.contiguous-pages"};
  const auto and_also = [&](const char* id) {
    Ids ids = plain;
    ids.insert(id);
    return ids;
  };
  expect_each<Built>(
      base,
      {
          {"plain", nullptr, plain},
          {"out",
           [](auto& b) { std::swap(b.operation.source, b.operation.destination); },
           {"transfer.to-system", "transfer.not-idle", "transfer.contiguous-pages"}},
          {"out of order",
           [](auto& b) { b.operation.source.pages = kScattered; },
           {"transfer.to-segment", "transfer.not-idle", "transfer.scattered-pages"}},
          {"between segments",
           [](auto& b) { b.operation.source.segment = SegmentId{2}; },
           {"transfer.between-segments", "transfer.not-idle"}},
          {"system memory both",
           [](auto& b) { b.operation.destination.segment = kSystemMemory; },
           {"transfer.not-idle"}},
          {"offset", [](auto& b) { b.operation.transfer_offset = 1; },
           and_also("transfer.behind-start")},
          {"pages behind the first", [](auto& b) { b.operation.mdl_offset_pages = 1; },
           and_also("transfer.mdl-behind-start")},
          {"first part", [](auto& b) { b.operation.transfer_end = false; }, plain},
          {"last part", [](auto& b) { b.operation.transfer_start = false; }, plain},
          {"middle", [](auto& b) { b.operation.transfer_start = b.operation.transfer_end = false; },
           and_also("transfer.middle")},
          {"later pass", [](auto& b) { b.args.multipass_offset = 1; },
           and_also("transfer.second-pass")},
          {"idle",
           [](auto& b) { b.operation.allocation_is_idle = true; },
           {"transfer.to-segment", "transfer.idle", "transfer.contiguous-pages"}},
          {"no allocation", [](auto& b) { b.operation.allocation = nullptr; },
           and_also("transfer.no-allocation")},
          {"little room", [](auto& b) { b.result.room_bytes = 511; },
           and_also("transfer.little-room")},
          {"by the CPU",
           [](auto& b) {
             b.args.buffer = nullptr;
             b.result.room_bytes = 0;
           },
           plain},
          {"three pages", [](auto& b) { b.operation.size_bytes = 3 * 4096; },
           and_also("transfer.odd-pages")},
          {"two pages", [](auto& b) { b.operation.size_bytes = 2 * 4096; }, plain},
          {"one page",
           [](auto& b) { b.operation.size_bytes = 4096; },
           {"transfer.to-segment", "transfer.not-idle", "transfer.one-page"}},
      },
      build);
}

TEST(PagingSituations, FillsAndApertures) {
  static constexpr uint64_t kInOrder[] = {4, 5, 6};
  static constexpr uint64_t kScattered[] = {4, 6, 5};
  for (const bool is_virtual : {false, true}) {
    const Ids also = is_virtual ? Ids{"fill-virtual.any"} : Ids{};
    const auto ids = [&](Ids some) {
      some.insert(also.begin(), also.end());
      return some;
    };
    expect_each<Built>(
        built(is_virtual ? PagingOperation::Kind::kFillVirtual : PagingOperation::Kind::kFill),
        {
            {"pattern", [](auto& b) { b.operation.fill_pattern = 1; }, ids({"fill.pattern"})},
            {"later pass", [](auto& b) { b.args.multipass_offset = 1; },
             ids({"fill.zero", "fill.second-pass"})},
            {"little room", [](auto& b) { b.result.room_bytes = 511; },
             ids({"fill.zero", "fill.little-room"})},
        },
        build);
  }
  Built map = built(PagingOperation::Kind::kMapAperture);
  map.operation.pages = kInOrder;
  expect_each<Built>(map,
                     {
                         {"plain", nullptr, {"aperture.map"}},
                         {"behind the start",
                          [](auto& b) { b.operation.offset_pages = 1; },
                          {"aperture.map", "aperture.map-behind-start"}},
                         {"part",
                          [](auto& b) { b.operation.mdl_offset_pages = 1; },
                          {"aperture.map", "aperture.map-part"}},
                         {"scattered",
                          [](auto& b) { b.operation.pages = kScattered; },
                          {"aperture.map", "aperture.map-scattered"}},
                         {"coherent",
                          [](auto& b) { b.operation.cache_coherent = true; },
                          {"aperture.map", "aperture.map-cache-coherent"}},
                         {"later pass",
                          [](auto& b) { b.args.multipass_offset = 1; },
                          {"aperture.map", "aperture.second-pass"}},
                     },
                     build);
  expect_each<Built>(built(PagingOperation::Kind::kUnmapAperture),
                     {{"later pass",
                       [](auto& b) { b.args.multipass_offset = 1; },
                       {"aperture.unmap", "aperture.second-pass"}}},
                     build);
}

TEST(PagingSituations, VirtualTransfersAndFlushes) {
  using Direction = VirtualTransfer::Direction;
  expect_each<Built>(
      built(PagingOperation::Kind::kTransferVirtual),
      {
          {"in",
           [](auto& b) { b.operation.transfer.direction = Direction::kSystemToLocal; },
           {"transfer-virtual.to-segment"}},
          {"inside",
           [](auto& b) { b.operation.transfer.direction = Direction::kLocalToLocal; },
           {}},
          {"later pass",
           [](auto& b) { b.args.multipass_offset = 1; },
           {"transfer-virtual.to-system", "transfer-virtual.second-pass"}},
      },
      build);
  expect_each<Built>(
      built(PagingOperation::Kind::kFlushTlb),
      {
          {"from 0", [](auto& b) { b.operation.flush.end = 4096; }, {"tlb.range"}},
          {"from elsewhere", [](auto& b) { b.operation.flush.start = 4096; }, {"tlb.range"}},
      },
      build);
}

TEST(PagingSituations, PageTables) {
  // Of a leaf: invalid, system memory, segment 3, zero, read only, no execute.
  static constexpr PageTableEntry kEntries[] = {{.flags = 8 | 3 << 5}, {.flags = 1},
                                                {.flags = 1 | 3 << 5}, {.flags = 1 | 2},
                                                {.flags = 1 | 8},      {.flags = 1 | 16}};
  const auto entries = [](Built& b, uint32_t first, uint32_t count) {
    b.operation.page_table.entries = kEntries + first;
    b.operation.page_table.count = count;
  };
  const Ids leaf{"page-table.leaf"};
  const auto and_also = [&](Ids some) {
    some.insert(leaf.begin(), leaf.end());
    return some;
  };
  expect_each<Built>(
      built(PagingOperation::Kind::kUpdatePageTable),
      {
          {"leaf", nullptr, leaf},
          {"by the CPU", [](auto& b) { b.args.buffer = nullptr; }, and_also({"page-table.by-cpu"})},
          {"by address",
           [](auto& b) { b.operation.page_table.mode = PageTableUpdateMode::kGpuVirtual; },
           and_also({"page-table.by-virtual-address"})},
          {"by place",
           [](auto& b) { b.operation.page_table.mode = PageTableUpdateMode::kGpuPhysical; },
           and_also({"page-table.by-physical-address"})},
          {"start", [](auto& b) { b.operation.page_table.start_index = 1; },
           and_also({"page-table.behind-start"})},
          {"initial", [](auto& b) { b.operation.page_table.initial_update = true; },
           and_also({"page-table.initial"})},
          {"64 KiB", [](auto& b) { b.operation.page_table.use_64kb_pages = true; },
           and_also({"page-table.64kb"})},
          {"later pass", [](auto& b) { b.args.multipass_offset = 1; },
           and_also({"page-table.second-pass"})},
          {"protection", [](auto& b) { b.operation.page_table.driver_protection = 1; },
           and_also({"page-table.driver-protection"})},
          {"invalid", [&](auto& b) { entries(b, 0, 1); }, and_also({"page-table.invalid"})},
          {"system memory", [&](auto& b) { entries(b, 1, 1); },
           and_also({"page-table.system-memory"})},
          {"segment", [&](auto& b) { entries(b, 2, 1); }, and_also({"page-table.memory-segment"})},
          {"zero", [&](auto& b) { entries(b, 3, 1); },
           and_also({"page-table.zero", "page-table.system-memory"})},
          {"read only", [&](auto& b) { entries(b, 4, 1); },
           and_also({"page-table.read-only", "page-table.system-memory"})},
          {"no execute", [&](auto& b) { entries(b, 5, 1); },
           and_also({"page-table.no-execute", "page-table.system-memory"})},
          {"behind an invalid one", [&](auto& b) { entries(b, 0, 3); },
           and_also(
               {"page-table.invalid", "page-table.system-memory", "page-table.memory-segment"})},
          {"repeated: the first only",
           [&](auto& b) {
             entries(b, 2, 2);
             b.operation.page_table.repeat = true;
           },
           and_also({"page-table.repeat", "page-table.memory-segment"})},
          {"repeated once",
           [&](auto& b) {
             entries(b, 2, 1);
             b.operation.page_table.repeat = true;
           },
           and_also({"page-table.memory-segment"})},
          {"no entries to look at", [](auto& b) { b.operation.page_table.count = 3; }, leaf},
          {"directory",
           [&](auto& b) {
             entries(b, 0, 6);
             b.operation.page_table.level = 1;
           },
           {"page-table.directory"}},
      },
      build);
  SituationWorld world;
  Built one = built(PagingOperation::Kind::kUpdatePageTable);
  const auto of = [&](void* process) {
    one.operation.page_table.process = process;
    build(world, one);
    return world.reached();
  };
  EXPECT_EQ(of(&g_objects[1]), leaf);
  EXPECT_EQ(of(nullptr), leaf) << "the paging process";
  EXPECT_EQ(of(&g_objects[1]), leaf);
  EXPECT_EQ(of(&g_objects[2]), and_also({"page-table.second-process"}));
  world.all.paging.root_set(&g_objects[1], {});
  EXPECT_EQ(world.reached(), Ids{"root.set"});
  world.all.paging.root_set(&g_objects[2], {});
  EXPECT_EQ(world.reached(), Ids{"root.set"}) << "another context's first";
  RootPageTable grown;
  grown.entry_count = 5;
  world.all.paging.root_set(&g_objects[1], grown);
  EXPECT_EQ(world.reached(), (Ids{"root.set", "root.again"}));
}

TEST(PagingSituations, Facts) {
  using Fact = SituationFact;
  const auto operation = [](Status status, uint32_t private_bytes) {
    return learned([&](SituationWorld& world) {
      Built one = built(PagingOperation::Kind::kDiscardContent);
      one.result.status = status;
      one.result.private_bytes_written = private_bytes;
      build(world, one);
    });
  };
  EXPECT_EQ(operation(Status::kSuccess, 0), Facts{});
  EXPECT_EQ(operation(Status::kGraphicsAllocationBusy, 0), Facts{Fact::kAllocationBusy});
  EXPECT_EQ(operation(Status::kSuccess, 1), Facts{Fact::kPagingPrivateData});
}

}  // namespace
}  // namespace dxgkit::port
