// That the scripted MMU, which contract tests rely on, does what tables say.
#include <cstring>

#include "base/interface_versions.h"
#include "port/gpu_va_world_test.h"

namespace dxgkit::port {
namespace {

using testing::GpuCommand;
using testing::GpuWalk;
using Kind = PagingOperation::Kind;

TEST(GpuVaMmu, FourLevelsLeadWhereTheTablesSay) {
  DXGKIT_COVERS("VA-04", "VA-45");
  in_world([](GpuVaWorld& world) {
    const RootPageTable root = world.make_tables();
    void* const context = world.make_context(0x40, root);
    const auto& pte = GpuVaWorld::pointing;
    world.update(0, GpuVaWorld::kLeaf, 0,
                 {pte(kHidden, 0x40000, 0), pte(SegmentId{1}, 0x7000, gpuva::kPteReadOnly),
                  pte(kSystemMemory, world.buffer_address, gpuva::kPteNoExecute),
                  pte(kHidden, 0, gpuva::kPteZero), PageTableEntry{}},
                 0x8000'0000'0000'0042);
    void* const process = world.gpu.last_process();
    EXPECT_EQ(world.gpu.process_of(context), process);
    const uint64_t va = GpuVaWorld::kVa;
    const GpuWalk first = world.gpu.walk(process, va + 0x123);
    ASSERT_TRUE(first.valid) << first.why;
    EXPECT_EQ(first.place, (GpuPhysicalAddress{kHidden, 0x40123}));
    EXPECT_TRUE(first.writable && first.executable && !first.zero);
    EXPECT_EQ(first.driver_protection, 0x8000'0000'0000'0042U);
    EXPECT_EQ(first.cpu, world.gpu.memory({kHidden, 0x40123}, 1));
    const GpuWalk second = world.gpu.walk(process, va + 0x1000);
    EXPECT_EQ(second.place, (GpuPhysicalAddress{SegmentId{1}, 0x7000}));
    EXPECT_FALSE(second.writable);
    const GpuWalk third = world.gpu.walk(process, va + 0x2008);
    EXPECT_EQ(third.place, (GpuPhysicalAddress{kSystemMemory, world.buffer_address + 8}));
    EXPECT_FALSE(third.executable);
    EXPECT_EQ(third.cpu, world.buffer + 8);
    EXPECT_TRUE(world.gpu.walk(process, va + 0x3000).zero);
    for (const uint64_t nowhere : {va + 0x4000, va - 1, va + (uint64_t{2} << 20), uint64_t{0},
                                   uint64_t{1} << 47, uint64_t{1} << 48}) {
      EXPECT_FALSE(world.gpu.walk(process, nowhere).valid) << nowhere;
    }
    // A root with fewer entries ends earlier.
    EXPECT_TRUE(world.gpu.walk({root.address, 1}, va).valid);
    EXPECT_FALSE(world.gpu.walk({root.address, 0}, va).valid);
  });
}

TEST(GpuVaMmu, AllThatTablesSayCanBeReadUntilThePowerGoes) {
  in_world([](GpuVaWorld& world) {
    const RootPageTable root = world.make_tables();
    world.make_context(0x40, root);
    world.update(
        0, GpuVaWorld::kLeaf, 5,
        {GpuVaWorld::pointing(kHidden, 0x40000), GpuVaWorld::pointing(SegmentId{1}, 0x7000)});
    void* const process = world.gpu.last_process();
    testing::GpuTables all = world.gpu.tables_of(process);
    ASSERT_EQ(all.pages.size(), 2U);
    EXPECT_EQ(all.pages.begin()->first, GpuVaWorld::kVa + 0x5000);
    EXPECT_EQ(all.pages.begin()->second.place, (GpuPhysicalAddress{kHidden, 0x40000}));
    EXPECT_EQ(all.pages.rbegin()->second.place, (GpuPhysicalAddress{SegmentId{1}, 0x7000}));
    ASSERT_EQ(all.tables.size(), 4U);
    EXPECT_EQ(all.tables[0], std::vector({GpuPhysicalAddress{kHidden, GpuVaWorld::kLeaf}}));
    EXPECT_EQ(all.tables[3], std::vector({root.address}));
    const uint64_t value = 7;
    ASSERT_TRUE(world.gpu.write(process, GpuVaWorld::kVa + 0x6000, value));
    world.gpu.lose_power();
    uint64_t in_bar = 1;
    std::memcpy(&in_bar, world.gpu.memory({SegmentId{1}, 0x7000}, 8), 8);
    EXPECT_EQ(in_bar, 0U);
    all = world.gpu.tables_of(process);
    EXPECT_TRUE(all.pages.empty());
    EXPECT_EQ(all.tables[3], std::vector({root.address})) << "where it was";
  });
}

TEST(GpuVaMmu, AnUpdateThatDoesNotFitIsContinued) {
  in_world([](GpuVaWorld& world) {
    const RootPageTable root = world.make_tables();
    world.make_context(0x40, root);
    std::vector<PageTableEntry> entries;
    for (uint64_t i = 0; i < 512; ++i)
      entries.push_back(GpuVaWorld::pointing(kHidden, (1000 + i) * kPageBytes));
    EXPECT_GT(world.update(0, GpuVaWorld::kLeaf, 0, entries, 0, 1024), 4U) << "passes";
    for (const uint64_t i : std::initializer_list<uint64_t>{0, 119, 120, 255, 511}) {
      EXPECT_EQ(world.gpu.walk(root, GpuVaWorld::kVa + i * kPageBytes).place,
                (GpuPhysicalAddress{kHidden, (1000 + i) * kPageBytes}));
    }
    EXPECT_EQ(world.gpu.calls().updates.size(), 4U) << "one record per operation";
    EXPECT_EQ(world.gpu.calls().updates[3].entries, entries);
  });
}

TEST(GpuVaMmu, PagingBuffersRunInTheAddressSpaceOfTheirContext) {
  in_world([](GpuVaWorld& world) {
    const RootPageTable root = world.make_tables();
    void* const context = world.make_context(0x40, root, true);
    world.update(0, GpuVaWorld::kLeaf, 0,
                 {GpuVaWorld::pointing(kHidden, 0x40000), GpuVaWorld::pointing(kHidden, 0x43000),
                  GpuVaWorld::pointing(kSystemMemory, world.buffer_address)});
    void* const process = world.gpu.system_process();
    const uint64_t va = GpuVaWorld::kVa;
    // A fill over the page boundary, then a copy of it.
    PagingOperation operation;
    operation.kind = Kind::kFillVirtual;
    operation.gpu_va = va + 0xFF8;
    operation.size_bytes = 16;
    operation.fill_pattern = 0x01020304;
    world.run(operation, context);
    EXPECT_EQ(world.gpu.read(process, va + 0xFF8), 0x0102'0304'0102'0304U);
    EXPECT_EQ(world.gpu.read(process, va + 0x1000), 0x0102'0304'0102'0304U);
    EXPECT_EQ(world.gpu.read(process, va + 0xFF0), 0U);
    operation.kind = Kind::kTransferVirtual;
    operation.transfer.source = va + 0xFF8;
    operation.transfer.destination = va + 0x1100;
    world.run(operation, context);
    EXPECT_EQ(world.gpu.read(process, va + 0x1108), 0x0102'0304'0102'0304U);
    uint64_t there = 0;
    std::memcpy(&there, world.gpu.memory({kHidden, 0x43100}, 8), 8);
    EXPECT_EQ(there, 0x0102'0304'0102'0304U);

    // By virtual address: the buffer is fetched through the tables too.
    operation.kind = Kind::kFillVirtual;
    operation.gpu_va = va;
    operation.fill_pattern = 0x55555555;
    const BuildPagingResult built = world.build(operation);
    SubmitVirtualArgs submit;
    submit.context = context;
    submit.buffer_va = va + 0x2000;
    submit.buffer_bytes = built.bytes_written;
    submit.fence = SubmissionFenceId{++world.fence};
    submit.node = NodeOrdinal{1};
    submit.flags.paging = true;
    ASSERT_EQ(world.port().submission().submit_virtual(submit), Status::kSuccess);
    EXPECT_EQ(world.gpu.read(process, va), 0U) << "runs when it is completed";
    EXPECT_TRUE(world.world.miniport.complete(1, world.fence));
    EXPECT_EQ(world.gpu.read(process, va), 0x5555'5555'5555'5555U);
    EXPECT_TRUE(world.gpu.faults().empty());
  });
}

TEST(GpuVaMmu, UserBuffersReadWriteAndFault) {
  in_world(
      [](GpuVaWorld& world) {
        const RootPageTable root = world.make_tables();
        void* const context = world.make_context(0x40, root);
        world.update(0, GpuVaWorld::kLeaf, 0,
                     {GpuVaWorld::pointing(kHidden, 0x40000),
                      GpuVaWorld::pointing(kHidden, 0x41000, gpuva::kPteReadOnly),
                      GpuVaWorld::pointing(kHidden, 0x42000, gpuva::kPteNoExecute),
                      GpuVaWorld::pointing(kHidden, 0, gpuva::kPteZero)});
        void* const process = world.gpu.last_process();
        const uint64_t va = GpuVaWorld::kVa;
        const auto run = [&](std::initializer_list<GpuCommand> commands) {
          const std::vector<std::byte> bytes = testing::gpu_commands(commands);
          EXPECT_TRUE(world.gpu.write(process, va, bytes));
          world.submit_user(context, va, static_cast<uint32_t>(bytes.size()));
          return world.host.seen().back();
        };
        InterruptReport report =
            run({GpuCommand::write(va + 0x800, 0xAB), GpuCommand::read(va + 0x800),
                 GpuCommand::read(va + 0x3000), GpuCommand::write(va + 0x3000, 5),
                 GpuCommand::copy(va + 0x800, va + 0x900), GpuCommand::execute(va + 0x800),
                 GpuCommand{}, GpuCommand::read(va + 0x800)});
        EXPECT_EQ(report.type, InterruptReport::Type::kDmaCompleted);
        EXPECT_EQ(report.fence, world.fence);
        ASSERT_EQ(world.gpu.reads().size(), 2U) << "kEnd ends";
        EXPECT_EQ(world.gpu.reads()[0].value, 0xABU);
        EXPECT_EQ(world.gpu.reads()[1].value, 0U);
        EXPECT_EQ(world.gpu.read(process, va + 0x900), 0xABU);

        struct Row {
          GpuCommand command;
          uint32_t flags, level;
        };
        const Row rows[] = {{GpuCommand::write(va + 0x1000, 1), 1, 0},
                            {GpuCommand::execute(va + 0x2008), 0, 0},
                            {GpuCommand::read(va + 0x4000), 0, 0},
                            {GpuCommand::read(va + (uint64_t{4} << 20)), 0, 1}};
        for (const Row& row : rows) {
          report = run({row.command, GpuCommand::write(va + 0x800, 0xBAD)});
          EXPECT_EQ(report.type, InterruptReport::Type::kDmaPageFaulted);
          EXPECT_EQ(report.fence, world.fence);
          EXPECT_EQ(report.node, 0U);
          EXPECT_EQ(report.address, row.command.va);
          EXPECT_EQ(report.flags, row.flags | InterruptReport::kFaultProcessValid);
          EXPECT_EQ(report.page_table_level, row.level);
          EXPECT_EQ(report.process, process);
          EXPECT_EQ(world.gpu.read(process, va + 0x800), 0xABU) << "nothing runs behind a fault";
        }
        EXPECT_EQ(world.gpu.faults().size(), 4U);
        EXPECT_TRUE(world.world.findings.all().empty()) << world.world.findings_text();
      },
      [](GpuVaWorld& world) { world.world.miniport.config.version = kInterfaceWddm22; });
}

TEST(GpuVaMmu, TranslationsAreOldUntilTheyAreFlushed) {
  in_world([](GpuVaWorld& world) {
    const RootPageTable root = world.make_tables();
    void* const context = world.make_context(0x40, root);
    void* const process = world.gpu.last_process();
    const uint64_t va = GpuVaWorld::kVa;
    world.update(0, GpuVaWorld::kLeaf, 0,
                 {GpuVaWorld::pointing(kHidden, 0x40000), GpuVaWorld::pointing(kHidden, 0x41000)});
    const std::vector<std::byte> bytes = testing::gpu_commands({GpuCommand::read(va + 0x1000)});
    ASSERT_TRUE(world.gpu.write(process, va, bytes));
    ASSERT_TRUE(world.gpu.write(process, va + 0x1000, 1));
    const auto read = [&] {
      world.submit_user(context, va, static_cast<uint32_t>(bytes.size()));
      return world.gpu.reads().back().value;
    };
    EXPECT_EQ(read(), 1U);
    EXPECT_EQ(world.gpu.cached(root.address), 2U);
    world.update(0, GpuVaWorld::kLeaf, 1, {GpuVaWorld::pointing(kHidden, 0x42000)});
    ASSERT_TRUE(world.gpu.write(process, va + 0x1000, 2));
    EXPECT_EQ(read(), 1U) << "the old page";
    PagingOperation flush;
    flush.kind = Kind::kFlushTlb;
    flush.flush.root = root.address;
    flush.flush.start = va + 0x2000;
    flush.flush.end = va + 0x3000;
    world.run(flush);
    EXPECT_EQ(read(), 1U) << "not this one";
    flush.flush.start = va + 0x1000;
    flush.flush.end = va + 0x2000;
    world.run(flush);
    EXPECT_EQ(read(), 2U);
    flush.flush.start = flush.flush.end = 0;
    world.run(flush);
    EXPECT_EQ(world.gpu.cached(root.address), 0U) << "0 and 0: all";
  });
}

}  // namespace
}  // namespace dxgkit::port
