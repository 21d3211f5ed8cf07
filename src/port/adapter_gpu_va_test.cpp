// GPU virtual addresses at the door: what the driver is given, what is taken from it.
#include <cstring>

#include "base/interface_versions.h"
#include "port/fault_injector.h"
#include "port/gpu_va_world_test.h"

namespace dxgkit::port {
namespace {

using Kind = PagingOperation::Kind;

constexpr auto kSuccess = static_cast<NTSTATUS>(Status::kSuccess);
constexpr uint64_t kTable = uint64_t{2} << 20;  // what a leaf covers

void set_every_bit(DXGK_GPUMMUCAPS& caps) { caps.Value = UINT32_MAX; }

TEST(GpuVaStart, TheCapsOfTheDeclaredVersionAndEveryLevelAreAsked) {
  for (const uint32_t version : {uint32_t{DXGKDDI_INTERFACE_VERSION_WDDM2_0}, kInterfaceWddm32}) {
    SCOPED_TRACE(version);
    in_world(
        [&](GpuVaWorld& world) {
          const GpuMmuCaps& caps = world.mmu;
          EXPECT_TRUE(caps.read_only && caps.no_execute && caps.zero_in_pte &&
                      caps.explicit_invalidation && caps.cache_coherent && caps.update_needs_idle &&
                      caps.large_page && caps.dual_pte);
          const bool newer = version == kInterfaceWddm32;
          EXPECT_EQ(caps.unaligned_large_page, newer);
          EXPECT_EQ(caps.system_64kb_pages, newer);
          EXPECT_EQ(caps.invalid_not_cached, newer);
          EXPECT_EQ(caps.system_large_page, newer);
          EXPECT_EQ(caps.cached_page_tables, newer);
          EXPECT_TRUE(caps.source_page_table_in_transfer);
          EXPECT_EQ(caps.update_mode, PageTableUpdateMode::kGpuPhysical);
          EXPECT_EQ(caps.va_bits, 48U);
          EXPECT_EQ(caps.leaf_bytes_for_64kb, 4096U);
          ASSERT_EQ(caps.level_count, 4U);
          ASSERT_EQ(caps.levels.size(), 4U);
          EXPECT_EQ(caps.levels[0].index_bits, 8U) << "[0] is LevelIndex 0";
          EXPECT_EQ(caps.levels[0].segment, 2U);
          EXPECT_EQ(caps.levels[0].paging_process_segment, 1U);
          EXPECT_EQ(caps.levels[0].table_bytes, 12288U);
          EXPECT_EQ(caps.levels[0].table_alignment_bytes, 4096U);
          EXPECT_EQ(caps.levels[3].index_bits, 9U);
          EXPECT_TRUE(world.world.findings.all().empty()) << world.world.findings_text();
        },
        [&](GpuVaWorld& world) {
          world.world.miniport.config.version = version;
          world.gpu.config.levels[0].index_bits = 8;
          world.gpu.config.levels[0].paging_process_segment = 1;
          world.gpu.config.levels[0].table_bytes = 12288;
          world.gpu.config.caps = [](DXGK_GPUMMUCAPS& caps) {
            set_every_bit(caps);
            caps.LegacyBehaviors.SourcePageTableVaInTransfer = 1;
            caps.LeafPageTableSizeFor64KPagesInBytes = 4096;
          };
        });
  }
}

TEST(GpuVaStart, WhatTheDriverSaysWronglyIsNotBelieved) {
  in_world([](GpuVaWorld& world) {
    world.gpu.config.caps = [](DXGK_GPUMMUCAPS& caps) { caps.PageTableLevelCount = 7; };
    const Result<GpuMmuCaps> seven = world.port().gpu_va().query_gpu_mmu();
    ASSERT_TRUE(seven.has_value()) << "the meaning is checked elsewhere";
    EXPECT_EQ(seven->level_count, 7U);
    EXPECT_TRUE(seven->levels.empty()) << "and nobody asks for a seventh level";
    world.gpu.config.caps = [](DXGK_GPUMMUCAPS& caps) { caps.PageTableLevelCount = 0; };
    const Result<GpuMmuCaps> none = world.port().gpu_va().query_gpu_mmu();
    ASSERT_TRUE(none.has_value());
    EXPECT_EQ(none->level_count, 0U);
    EXPECT_TRUE(none->levels.empty());

    world.gpu.config.caps = nullptr;
    world.world.miniport.hooks.query_adapter_info = [](const DXGKARG_QUERYADAPTERINFO* args) {
      std::memset(args->pOutputData, 1, args->OutputDataSize + 1);
      return kSuccess;
    };
    EXPECT_EQ(world.port().gpu_va().query_gpu_mmu().error(), Status::kDeviceConfigurationError);
    ASSERT_EQ(world.world.findings.all().size(), 1U);
    EXPECT_EQ(world.world.findings.all()[0].rule, "NT-33");

    world.world.miniport.hooks.query_adapter_info = [](const DXGKARG_QUERYADAPTERINFO*) {
      return static_cast<NTSTATUS>(Status::kNoMemory);
    };
    EXPECT_EQ(world.port().gpu_va().query_gpu_mmu().error(), Status::kNoMemory);
  });
  in_both_modes([] {
    PortWorld old;
    old.start();
    EXPECT_EQ(old.adapter->gpu_va().query_gpu_mmu().error(), Status::kNotSupported);
    old.stop();
  });
}

TEST(GpuVaObjects, ADriverReservesInsideCreateProcessOnly) {
  DXGKIT_COVERS("VA-09");
  in_world(
      [](GpuVaWorld& world) {
        ASSERT_TRUE(world.port().objects().create_process(0x1240, false).has_value());
        ASSERT_EQ(world.host.asked.size(), 2U) << world.world.findings_text();
        EXPECT_EQ(world.host.asked[0].process, 0x1240U);
        EXPECT_EQ(world.host.asked[0].size, 2 * kTable);
        EXPECT_EQ(world.host.asked[0].base, 0U);
        EXPECT_EQ(world.host.asked[0].alignment, kTable) << "at least one table";
        EXPECT_FALSE(world.host.asked[0].user_mappable);
        EXPECT_EQ(world.host.asked[1].base, 8 * kTable);
        EXPECT_EQ(world.host.asked[1].alignment, 4 * kTable);
        EXPECT_TRUE(world.host.asked[1].user_mappable);
        const auto answers = world.gpu.calls().reservations;
        ASSERT_EQ(answers.size(), 2U);
        EXPECT_EQ(answers[0], (std::pair{kSuccess, uint64_t{0x4000'0000}}));
        EXPECT_TRUE(world.world.findings.all().empty());

        // A refusal of the host is the driver's answer, and not a mistake of the driver.
        world.host.answer = Error(Status::kNoMemory);
        ASSERT_TRUE(world.port().objects().create_process(0x1280, false).has_value());
        EXPECT_EQ(world.gpu.calls().reservations[2].first,
                  static_cast<NTSTATUS>(Status::kNoMemory));
        EXPECT_TRUE(world.world.findings.all().empty());
      },
      [](GpuVaWorld& world) {
        world.gpu.config.reservations = {
            {.size = 2 * kTable},
            {.size = kTable, .base = 8 * kTable, .alignment = 4 * kTable, .user_mappable = true}};
      });

  struct Row {
    const char* what;
    GpuVaConfig::Reservation range;
  };
  const Row rows[] = {
      {"nothing", {.size = 0}},
      {"half a table", {.size = kTable / 2}},
      {"a base inside a table", {.size = kTable, .base = kTable / 2}},
      {"an alignment below a table", {.size = kTable, .alignment = 4096}},
      {"an alignment that is no power of two", {.size = kTable, .alignment = 3 * kTable}},
      {"beyond the address space", {.size = kTable, .base = uint64_t{1} << 48}},
      {"a size that wraps", {.size = uint64_t{} - kTable, .base = 2 * kTable}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    in_world(
        [](GpuVaWorld& world) {
          ASSERT_TRUE(world.port().objects().create_process(0x1240, false).has_value());
          EXPECT_EQ(world.gpu.calls().reservations.at(0),
                    (std::pair{static_cast<NTSTATUS>(Status::kInvalidParameter), uint64_t{0}}));
          EXPECT_TRUE(world.host.asked.empty());
          ASSERT_EQ(world.world.findings.all().size(), 1U);
          EXPECT_EQ(world.world.findings.all()[0].rule, "VA-09");
          EXPECT_EQ(world.world.findings.all()[0].severity, verifier::Severity::kViolation);
        },
        [&](GpuVaWorld& world) { world.gpu.config.reservations = {row.range}; });
  }
}

TEST(GpuVaObjects, ReservingLateOrForAStrangerIsRefused) {
  DXGKIT_COVERS("VA-09");
  const auto reserve = [](GpuVaWorld& world, void* process) {
    DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE range;
    std::memset(&range, 0, sizeof(range));
    range.hDxgkProcess = process;
    range.SizeInBytes = uint64_t{2} << 20;
    const DXGKRNL_INTERFACE& callbacks = world.world.miniport.callbacks();
    return callbacks.DxgkCbReserveGpuVirtualAddressRange(callbacks.DeviceHandle, &range);
  };
  const auto refused = static_cast<NTSTATUS>(Status::kInvalidParameter);
  in_world([&](GpuVaWorld& world) {
    // Inside another DDI, for a process that exists.
    ASSERT_TRUE(world.port().objects().create_process(0x40, false).has_value());
    void* const kernel = world.gpu.kernel_handle(world.gpu.last_process());
    world.world.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      EXPECT_EQ(reserve(world, kernel), refused);
      return kSuccess;
    };
    EXPECT_EQ(world.port().objects().escape(nullptr, nullptr, 0, {}), Status::kSuccess);
    // Inside the right one, for another process.
    world.gpu.on_create_process = [&](DXGKARG_CREATEPROCESS*) {
      EXPECT_EQ(reserve(world, kernel), refused);
    };
    ASSERT_TRUE(world.port().objects().create_process(0x80, false).has_value());
    ASSERT_FALSE(world.world.findings.all().empty());
    for (const verifier::Finding& finding : world.world.findings.all())
      EXPECT_EQ(finding.rule, "VA-09");
    EXPECT_TRUE(world.host.asked.empty());
    // On another thread, while the process is created.
    world.gpu.on_create_process = [&](DXGKARG_CREATEPROCESS* args) {
      world.world.miniport.hooks.escape = [&, args](const DXGKARG_ESCAPE*) {
        EXPECT_EQ(reserve(world, args->hDxgkProcess), refused);
        return kSuccess;
      };
      runtime::Runtime::current()
          .spawn("elsewhere",
                 [&] {
                   EXPECT_EQ(world.port().objects().escape(nullptr, nullptr, 0, {}),
                             Status::kSuccess);
                 })
          ->join();
    };
    ASSERT_TRUE(world.port().objects().create_process(0x100, false).has_value());
    EXPECT_TRUE(world.host.asked.empty());
    // And for its own.
    world.gpu.on_create_process = [&](DXGKARG_CREATEPROCESS* args) {
      EXPECT_EQ(reserve(world, args->hDxgkProcess), kSuccess);
    };
    ASSERT_TRUE(world.port().objects().create_process(0xC0, false).has_value());
    ASSERT_EQ(world.host.asked.size(), 1U);
    EXPECT_EQ(world.host.asked[0].process, 0xC0U);
  });
}

TEST(GpuVaObjects, ProcessDeviceAndContextSayWhatTheyAre) {
  in_world([](GpuVaWorld& world) {
    const Result<void*> system = world.port().objects().create_process(0, true);
    const Result<void*> client = world.port().objects().create_process(0x40, false);
    ASSERT_TRUE(system.has_value() && client.has_value());
    EXPECT_EQ(world.gpu.system_process(), *system);
    EXPECT_EQ(world.gpu.last_process(), *client);
    EXPECT_EQ(world.gpu.calls().processes[0].Flags.Value, 1U);
    EXPECT_EQ(world.gpu.calls().processes[1].Flags.Value, 0U);
    const Result<DeviceInfo> device = world.port().objects().create_device(0x80, false, *client);
    ASSERT_TRUE(device.has_value());
    EXPECT_EQ(world.gpu.calls().devices.at(0).hKmdProcess, *client);
    world.gpu.config.private_bytes = 96;
    const Result<ContextInfo> patching =
        world.port().objects().create_context(device->handle, 0xC0, NodeOrdinal{0}, 1, false, {});
    const Result<ContextInfo> context = world.port().objects().create_context(
        device->handle, 0x100, NodeOrdinal{1}, 1, false, {}, true);
    ASSERT_TRUE(patching.has_value() && context.has_value());
    const auto created = world.world.miniport.calls().create_contexts;
    ASSERT_EQ(created.size(), 2U);
    EXPECT_EQ(created[0].Flags.Value, 0U);
    EXPECT_EQ(created[1].Flags.Value, 4U) << "VirtualAddressing";
    EXPECT_FALSE(patching->no_patching);
    EXPECT_TRUE(context->no_patching);
    EXPECT_EQ(context->dma_private_bytes, 96U);
    EXPECT_EQ(world.gpu.process_of(context->handle), *client);

    EXPECT_EQ(world.port().gpu_va().set_root_page_table(context->handle, {{kHidden, 0x8000}, 512}),
              Status::kSuccess);
    const DXGKARG_SETROOTPAGETABLE root = world.gpu.calls().roots.at(0);
    EXPECT_EQ(root.hContext, context->handle);
    EXPECT_EQ(root.Address.SegmentId, 2U);
    EXPECT_EQ(root.Address.SegmentOffset, 0x8000U);
    EXPECT_EQ(root.NumEntries, 512U);
    EXPECT_EQ(world.port().gpu_va().get_root_page_table_size(1).error(), Status::kNotSupported)
        << "four levels: no entry";
  });
}

TEST(GpuVaObjects, TheSizeOfARootIsWholePages) {
  in_world(GpuVaConfig::two_level(PageTableUpdateMode::kGpuPhysical, 2), [](GpuVaWorld& world) {
    EXPECT_EQ(*world.port().gpu_va().get_root_page_table_size(1), 4096U);
    EXPECT_EQ(*world.port().gpu_va().get_root_page_table_size(513), 8192U);
    EXPECT_EQ(world.gpu.calls().root_sizes.at(1).NumberOfPte, 513U);
    EXPECT_EQ(world.gpu.calls().root_sizes.at(1).PhysicalAdapterIndex, 0U);
    EXPECT_TRUE(world.world.findings.all().empty());
    for (const SIZE_T wrong : {SIZE_T{0}, SIZE_T{4112}, SIZE_T{1} << 32, ~SIZE_T{4095}}) {
      world.gpu.on_root_size = [wrong](const DXGKARG_GETROOTPAGETABLESIZE*) { return wrong; };
      EXPECT_EQ(world.port().gpu_va().get_root_page_table_size(1).error(),
                Status::kDeviceConfigurationError);
      EXPECT_EQ(world.world.findings.all().back().rule, "VA-05");
    }
    EXPECT_EQ(world.world.findings.all().size(), 1U) << "said once";
    // A driver that stops the machine in it has said no size at all.
    world.gpu.on_root_size = [](const DXGKARG_GETROOTPAGETABLESIZE*) -> SIZE_T {
      reinterpret_cast<void(NTAPI*)(uint32_t)>(
          const_cast<void*>(nt::find_export("KeBugCheck")->address))(0x116);
      return 4096;
    };
    EXPECT_EQ(world.port().gpu_va().get_root_page_table_size(1).error(), Status::kDeviceRemoved);
  });
}

TEST(GpuVaObjects, ARootHasAsManyEntriesAsWereAskedFor) {
  in_world(GpuVaConfig::two_level(PageTableUpdateMode::kGpuPhysical, 2), [](GpuVaWorld& world) {
    world.gpu.on_root_size = [](const DXGKARG_GETROOTPAGETABLESIZE* args) -> SIZE_T {
      const_cast<DXGKARG_GETROOTPAGETABLESIZE*>(args)->NumberOfPte = 3;
      return 4096;
    };
    EXPECT_EQ(*world.port().gpu_va().get_root_page_table_size(3), 4096U);
    EXPECT_TRUE(world.world.findings.all().empty());
    EXPECT_EQ(*world.port().gpu_va().get_root_page_table_size(4), 4096U);
    ASSERT_EQ(world.world.findings.all().size(), 1U);
    EXPECT_EQ(world.world.findings.all().back().rule, "VA-05");
  });
}

TEST(GpuVaObjects, ADriverWithoutTheEntriesIsNotCalled) {
  in_both_modes([] {
    PortWorld plain;
    plain.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
    plain.start();
    EXPECT_EQ(plain.adapter->gpu_va().set_root_page_table(nullptr, {}), Status::kNotSupported);
    EXPECT_EQ(plain.adapter->gpu_va().get_root_page_table_size(1).error(), Status::kNotSupported);
    EXPECT_EQ(plain.adapter->submission().submit_virtual({}), Status::kNotSupported);
    EXPECT_EQ(plain.adapter->rendering().validate_submit({}), Status::kNotSupported);
    plain.stop();
  });
}

TEST(GpuVaPaging, EveryMemberOfAnUpdateArrives) {
  DXGKIT_COVERS("PAGE-34");
  in_world([](GpuVaWorld& world) {
    const std::vector<PageTableEntry> entries = {{0x1FFFF, 0xABCDE}, {3, 4}};
    const std::vector<PageTableEntry> wide = {{5, 6}, {7, 8}};
    PagingOperation operation;
    operation.kind = Kind::kUpdatePageTable;
    operation.allocation = &operation;
    PageTableUpdate& update = operation.page_table;
    update.level = 2;
    update.entries = entries.data();
    update.entries_64kb = wide.data();
    update.start_index = 17;
    update.count = 2;
    update.driver_protection = 0x8000'0000'0000'0011;
    update.allocation_offset_bytes = 0x3000;
    update.process = &world;
    update.first_va = 0x1234'5000;
    DXGKARG_BUILDPAGINGBUFFER seen;
    world.gpu.on_build = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
      seen = *args;
      return kSuccess;
    };
    BuildPagingArgs args;
    args.buffer = world.buffer;
    args.buffer_bytes = 512;
    args.buffer_va = 0x7000'0000;
    args.buffer_offset = 0x40;
    args.operation = &operation;
    const auto build = [&] {
      ASSERT_EQ(world.port().paging().build_paging(args).status, Status::kSuccess);
      ASSERT_EQ(seen.Operation, DXGK_OPERATION_UPDATE_PAGE_TABLE);
    };
    update.mode = PageTableUpdateMode::kGpuPhysical;
    update.table_physical = {SegmentId{3}, 0x9000};
    build();
    const auto& got = seen.UpdatePageTable;
    EXPECT_EQ(seen.DmaBufferGpuVirtualAddress, 0x7000'0000U);
    EXPECT_EQ(seen.DmaBufferWriteOffset, 0x40U);
    EXPECT_EQ(got.PageTableLevel, 2U);
    EXPECT_EQ(got.hAllocation, &operation);
    EXPECT_EQ(got.UpdateMode, DXGK_PAGETABLEUPDATE_GPU_PHYSICAL);
    EXPECT_EQ(got.PageTableAddress.GpuPhysical.SegmentId, 3U);
    EXPECT_EQ(got.PageTableAddress.GpuPhysical.SegmentOffset, 0x9000U);
    EXPECT_EQ(static_cast<const void*>(got.pPageTableEntries), entries.data()) << "not copied";
    EXPECT_EQ(static_cast<const void*>(got.pPageTableEntries64KB), wide.data());
    EXPECT_EQ(got.pPageTableEntries[0].Segment, 31U);
    EXPECT_EQ(got.pPageTableEntries[0].PageAddress, 0xABCDEU);
    EXPECT_EQ(got.StartIndex, 17U);
    EXPECT_EQ(got.NumPageTableEntries, 2U);
    EXPECT_EQ(got.DriverProtection, 0x8000'0000'0000'0011U);
    EXPECT_EQ(got.AllocationOffsetInBytes, 0x3000U);
    EXPECT_EQ(got.hProcess, &world);
    EXPECT_EQ(got.FirstPteVirtualAddress, 0x1234'5000U);
    EXPECT_EQ(got.Flags.Repeat + got.Flags.InitialUpdate + got.Flags.NotifyEviction +
                  got.Flags.Use64KBPages,
              0U);
    update.mode = PageTableUpdateMode::kGpuVirtual;
    update.table_virtual = 0x5555'0000;
    update.repeat = true;
    build();
    EXPECT_EQ(got.PageTableAddress.GpuVirtual, 0x5555'0000U);
    EXPECT_EQ(got.Flags.Repeat, 1U);
    EXPECT_EQ(got.Flags.InitialUpdate, 0U);
    update.mode = PageTableUpdateMode::kCpuVirtual;
    update.table_cpu = world.buffer;
    update.repeat = false;
    update.initial_update = true;
    build();
    EXPECT_EQ(got.PageTableAddress.CpuVirtual, world.buffer);
    EXPECT_EQ(got.Flags.InitialUpdate, 1U);
    EXPECT_EQ(got.Flags.NotifyEviction, 0U);
    update.initial_update = false;
    update.notify_eviction = true;
    build();
    EXPECT_EQ(got.Flags.NotifyEviction, 1U);
    EXPECT_EQ(got.Flags.Use64KBPages, 0U);
    update.notify_eviction = false;
    update.use_64kb_pages = true;
    build();
    EXPECT_EQ(got.Flags.Use64KBPages, 1U);
  });
}

TEST(GpuVaPaging, EveryMemberOfTheOtherOperationsArrives) {
  in_world([](GpuVaWorld& world) {
    DXGKARG_BUILDPAGINGBUFFER seen;
    std::vector<DXGK_BUILDPAGINGBUFFER_COPY_RANGE> ranges;
    world.gpu.on_build = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
      seen = *args;
      if (args->Operation == DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES) {
        ranges.assign(args->CopyPageTableEntries.pRanges,
                      args->CopyPageTableEntries.pRanges + args->CopyPageTableEntries.NumRanges);
      }
      return kSuccess;
    };
    PagingOperation operation;
    operation.allocation = &world;
    operation.offset_bytes = 0x11000;
    operation.size_bytes = 0x2'0000'1000;
    operation.fill_pattern = 0xFEEDBEEF;
    operation.gpu_va = 0x7777'0000;
    operation.transfer = {.source = 0x1000'0000,
                          .destination = 0x2000'0000,
                          .direction = VirtualTransfer::Direction::kSystemToLocal,
                          .source_64kb_pages = true,
                          .source_page_table = 0x3000'0000,
                          .destination_page_table = 0x4000'0000};
    operation.kind = Kind::kTransferVirtual;
    ASSERT_EQ(world.build(operation).status, Status::kSuccess);
    ASSERT_EQ(seen.Operation, DXGK_OPERATION_VIRTUAL_TRANSFER);
    const auto& transfer = seen.TransferVirtual;
    EXPECT_EQ(transfer.hAllocation, &world);
    EXPECT_EQ(transfer.AllocationOffsetInBytes, 0x11000U);
    EXPECT_EQ(transfer.TransferSizeInBytes, 0x2'0000'1000U);
    EXPECT_EQ(transfer.SourceVirtualAddress, 0x1000'0000U);
    EXPECT_EQ(transfer.DestinationVirtualAddress, 0x2000'0000U);
    EXPECT_EQ(transfer.SourcePageTable, 0x3000'0000U);
    EXPECT_EQ(transfer.DestinationPageTable, 0x4000'0000U);
    EXPECT_EQ(transfer.TransferDirection, DXGK_MEMORY_TRANSFER_SYSTEM_TO_LOCAL);
    EXPECT_EQ(transfer.Flags.Flags, 1U);
    operation.transfer.source_64kb_pages = false;
    operation.transfer.destination_64kb_pages = true;
    ASSERT_EQ(world.build(operation).status, Status::kSuccess);
    EXPECT_EQ(transfer.Flags.Flags, 2U);

    operation.kind = Kind::kFillVirtual;
    ASSERT_EQ(world.build(operation).status, Status::kSuccess);
    ASSERT_EQ(seen.Operation, DXGK_OPERATION_VIRTUAL_FILL);
    EXPECT_EQ(seen.FillVirtual.hAllocation, &world);
    EXPECT_EQ(seen.FillVirtual.AllocationOffsetInBytes, 0x11000U);
    EXPECT_EQ(seen.FillVirtual.FillSizeInBytes, 0x2'0000'1000U);
    EXPECT_EQ(seen.FillVirtual.FillPattern, 0xFEEDBEEFU);
    EXPECT_EQ(seen.FillVirtual.DestinationVirtualAddress, 0x7777'0000U);

    operation.kind = Kind::kFlushTlb;
    operation.flush = {
        .root = {kHidden, 0x8000}, .process = &operation, .start = 0x1000, .end = 0x3000};
    ASSERT_EQ(world.build(operation).status, Status::kSuccess);
    ASSERT_EQ(seen.Operation, DXGK_OPERATION_FLUSH_TLB);
    EXPECT_EQ(seen.FlushTlb.RootPageTableAddress.SegmentId, 2U);
    EXPECT_EQ(seen.FlushTlb.RootPageTableAddress.SegmentOffset, 0x8000U);
    EXPECT_EQ(seen.FlushTlb.hProcess, &operation);
    EXPECT_EQ(seen.FlushTlb.StartVirtualAddress, 0x1000U);
    EXPECT_EQ(seen.FlushTlb.EndVirtualAddress, 0x3000U);

    operation.kind = Kind::kCopyPageTableEntries;
    const PageTableCopy copies[] = {{0x10000, 0x20000, 1, 2, 3}, {0x30000, 0x40000, 4, 5, 6}};
    operation.copies = copies;
    ASSERT_EQ(world.build(operation).status, Status::kSuccess);
    ASSERT_EQ(ranges.size(), 2U);
    EXPECT_EQ(ranges[1].SrcPageTableAddress, 0x30000U);
    EXPECT_EQ(ranges[1].DstPageTableAddress, 0x40000U);
    EXPECT_EQ(ranges[1].SrcStartPteIndex, 4U);
    EXPECT_EQ(ranges[1].DstStartPteIndex, 5U);
    EXPECT_EQ(ranges[1].NumPageTableEntries, 6U);
    EXPECT_EQ(ranges[0].SrcPageTableAddress, 0x10000U);

    operation.kind = Kind::kUpdateContextAllocation;
    const std::byte data[3] = {};
    operation.private_data = data;
    ASSERT_EQ(world.build(operation).status, Status::kSuccess);
    ASSERT_EQ(seen.Operation, DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION);
    EXPECT_EQ(seen.UpdateContextAllocation.ContextAllocation, 0x7777'0000U);
    EXPECT_EQ(seen.UpdateContextAllocation.ContextAllocationSize, 0x2'0000'1000U);
    EXPECT_EQ(seen.UpdateContextAllocation.pDriverPrivateData, data);
    EXPECT_EQ(seen.UpdateContextAllocation.DriverPrivateDataSize, 3U);
    operation.private_data = std::span(data, 0);
    ASSERT_EQ(world.build(operation).status, Status::kSuccess);
    EXPECT_EQ(seen.UpdateContextAllocation.pDriverPrivateData, nullptr);
    EXPECT_EQ(seen.UpdateContextAllocation.DriverPrivateDataSize, 0U);

    operation.kind = Kind::kInitContextResource;
    operation.segment = kHidden;
    ASSERT_EQ(world.build(operation).status, Status::kSuccess);
    EXPECT_EQ(seen.InitContextResource.Destination.GpuVirtualAddress, 0x7777'0000U);
    EXPECT_TRUE(world.world.findings.all().empty()) << world.world.findings_text();
  });
}

TEST(GpuVaPaging, WithoutABufferTheProcessorHasWrittenTheTable) {
  DXGKIT_COVERS("PAGE-03");
  in_world(GpuVaConfig::cpu_virtual_two_level(), [](GpuVaWorld& world) {
    const std::vector<PageTableEntry> entries = {
        GpuVaWorld::pointing(kHidden, 0x5000),
        GpuVaWorld::pointing(kSystemMemory, 0x1'0000'3000, gpuva::kPteReadOnly)};
    PagingOperation operation;
    operation.kind = Kind::kUpdatePageTable;
    PageTableUpdate& update = operation.page_table;
    update.table_cpu = world.buffer;
    update.entries = entries.data();
    update.start_index = 3;
    update.count = 2;
    update.driver_protection = 77;
    const BuildPagingResult built = world.build(operation, 0);
    EXPECT_EQ(built.status, Status::kSuccess);
    EXPECT_EQ(built.bytes_written, 0U);
    EXPECT_TRUE(world.gpu.calls().updates.at(0).by_cpu);
    const GpuPhysicalAddress table{kSystemMemory, world.buffer_address};
    EXPECT_EQ(world.gpu.entry(table, 2)->word, 0U);
    EXPECT_EQ(world.gpu.entry(table, 3)->address(), 0x5000U);
    EXPECT_EQ(world.gpu.entry(table, 3)->flags(), 0x41U);
    EXPECT_EQ(world.gpu.entry(table, 4)->address(), 0x1'0000'3000U);
    EXPECT_EQ(world.gpu.entry(table, 4)->flags(), 9U);
    EXPECT_EQ(world.gpu.entry(table, 4)->driver_protection(), 77U);
    // Repeat: one entry for all.
    update.repeat = true;
    update.start_index = 100;
    update.count = 50;
    EXPECT_EQ(world.build(operation, 0).status, Status::kSuccess);
    EXPECT_EQ(world.gpu.entry(table, 149)->address(), 0x5000U);
    EXPECT_EQ(world.gpu.entry(table, 150)->word, 0U);
    EXPECT_TRUE(world.world.findings.all().empty());
  });
}

TEST(GpuVaPaging, WithoutABufferNothingIsPutOff) {
  DXGKIT_COVERS("PAGE-03");
  struct Row {
    Status answer;
    bool moves;
  };
  for (const Row& row :
       {Row{Status::kGraphicsInsufficientDmaBuffer, false},
        Row{Status::kGraphicsAllocationBusy, false}, Row{Status::kSuccess, true}}) {
    in_world(GpuVaConfig::cpu_virtual_two_level(), [&](GpuVaWorld& world) {
      world.gpu.on_build = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
        EXPECT_EQ(args->pDmaBuffer, nullptr);
        EXPECT_EQ(args->DmaSize, 0U);
        if (row.moves) args->pDmaBuffer = world.buffer;
        return static_cast<NTSTATUS>(row.answer);
      };
      PagingOperation operation;
      operation.kind = Kind::kUpdatePageTable;
      operation.page_table.table_cpu = world.buffer;
      EXPECT_EQ(world.build(operation, 0).status, Status::kUnsuccessful);
      ASSERT_EQ(world.world.findings.all().size(), 1U);
      EXPECT_EQ(world.world.findings.all()[0].rule, "PAGE-03");
      EXPECT_EQ(world.world.findings.all()[0].severity, verifier::Severity::kViolation);
    });
  }
}

/// Refuses all there is to refuse.
class Refusing : public FaultInjector {
 public:
  std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
  std::optional<Status> before_paging(const PagingOperation&, uint32_t) override {
    return Status::kGraphicsInsufficientDmaBuffer;
  }
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
  void shape(SegmentsInfo*) override {}
};

TEST(GpuVaPaging, AnInjectorIsNotAskedWhereNothingMayFail) {
  Refusing refusing;
  in_world(GpuVaConfig::cpu_virtual_two_level(), [&](GpuVaWorld& world) {
    world.port().set_fault_injector(&refusing);
    PagingOperation operation;
    operation.kind = Kind::kFlushTlb;
    EXPECT_EQ(world.build(operation).status, Status::kGraphicsInsufficientDmaBuffer);
    const PageTableEntry entry;
    operation.kind = Kind::kUpdatePageTable;
    operation.page_table.table_cpu = world.buffer;
    operation.page_table.entries = &entry;
    operation.page_table.count = 1;
    EXPECT_EQ(world.build(operation, 0).status, Status::kSuccess);
    EXPECT_EQ(world.gpu.calls().updates.size(), 1U);
    EXPECT_TRUE(world.world.findings.all().empty()) << world.world.findings_text();
  });
}

TEST(GpuVaPaging, NoVirtualOperationMayBeBusyOrFail) {
  DXGKIT_COVERS("PAGE-07", "PAGE-13");
  for (const Kind kind :
       {Kind::kTransferVirtual, Kind::kFillVirtual, Kind::kUpdatePageTable, Kind::kFlushTlb,
        Kind::kCopyPageTableEntries, Kind::kUpdateContextAllocation}) {
    SCOPED_TRACE(static_cast<int>(kind));
    for (const auto& [status, rule] : {std::pair{Status::kGraphicsAllocationBusy, "PAGE-13"},
                                       std::pair{Status::kInvalidParameter, "PAGE-07"}}) {
      in_world([&](GpuVaWorld& world) {
        world.gpu.on_build = [&](DXGKARG_BUILDPAGINGBUFFER*) {
          return static_cast<NTSTATUS>(status);
        };
        PagingOperation operation;
        operation.kind = kind;
        EXPECT_EQ(world.build(operation).status, Status::kUnsuccessful);
        ASSERT_EQ(world.host.fatal.size(), 1U);
        EXPECT_EQ(world.host.fatal[0].rule, rule);
        EXPECT_EQ(world.host.fatal[0].bugcheck_code, 0x10EU);
      });
    }
  }
}

TEST(GpuVaWork, EveryMemberOfAVirtualSubmissionArrives) {
  in_world([](GpuVaWorld& world) {
    const RootPageTable root = world.make_tables();
    void* const context = world.make_context(0x40, root);
    std::byte data[48] = {std::byte{9}};
    SubmitVirtualArgs submit;
    submit.context = context;
    submit.buffer_va = 0x12'3456'7000;
    submit.buffer_bytes = 1234;
    submit.private_data = data;
    submit.private_bytes = sizeof(data);
    submit.user_private_bytes = 7;
    submit.fence = SubmissionFenceId{99};
    submit.node = NodeOrdinal{1};
    submit.vidpn_source = 3;  // without a flip: not told
    nt::Irql irql = 0;
    world.gpu.on_submit = [&](const DXGKARG_SUBMITCOMMANDVIRTUAL*) {
      irql = nt::CallFrame::current().irql();
      return kSuccess;
    };
    ASSERT_EQ(world.port().submission().submit_virtual(submit), Status::kSuccess);
    EXPECT_EQ(irql, nt::kDispatchLevel);
    const auto call = world.gpu.calls().submits.at(0);
    EXPECT_EQ(call.args.hContext, context);
    EXPECT_EQ(call.args.DmaBufferVirtualAddress, 0x12'3456'7000U);
    EXPECT_EQ(call.args.DmaBufferSize, 1234U);
    EXPECT_EQ(call.args.pDmaBufferPrivateData, data);
    EXPECT_EQ(call.args.DmaBufferPrivateDataSize, 48U);
    EXPECT_EQ(call.args.DmaBufferUmdPrivateDataSize, 7U);
    EXPECT_EQ(call.args.SubmissionFenceId, 99U);
    EXPECT_EQ(call.args.NodeOrdinal, 1U);
    EXPECT_EQ(call.args.EngineOrdinal, 0U);
    EXPECT_EQ(call.args.Flags.Value, 0U);
    EXPECT_EQ(call.args.VidPnSourceId, D3DDDI_ID_UNINITIALIZED);
    submit.flags = {.paging = true, .null_rendering = true, .resubmission = true};
    submit.private_bytes = 0;
    ASSERT_EQ(world.port().submission().submit_virtual(submit), Status::kSuccess);
    const auto flags = world.gpu.calls().submits.at(1).args.Flags;
    EXPECT_TRUE(flags.Paging && flags.NullRendering && flags.Resubmission && !flags.Present);
    EXPECT_NE(world.gpu.calls().submits.at(1).args.pDmaBufferPrivateData, data)
        << "SUB-11: size 0 is a guard page";
  });
}

TEST(GpuVaWork, AVirtualSubmissionMayOnlyBeCalledMalformed) {
  DXGKIT_COVERS("SUB-28");
  struct Row {
    Status answer;
    bool paging;
    Status expected;
  };
  for (const Row& row : {Row{Status::kInvalidParameter, false, Status::kInvalidParameter},
                         Row{Status::kInvalidParameter, true, Status::kUnsuccessful},
                         Row{Status::kNoMemory, false, Status::kUnsuccessful},
                         Row{Status::kPending, false, Status::kUnsuccessful}}) {
    in_world([&](GpuVaWorld& world) {
      void* const context = world.make_context(0x40, {});
      world.gpu.on_submit = [&](const DXGKARG_SUBMITCOMMANDVIRTUAL*) {
        return static_cast<NTSTATUS>(row.answer);
      };
      SubmitVirtualArgs submit;
      submit.context = context;
      submit.fence = SubmissionFenceId{1};
      submit.flags.paging = row.paging;
      EXPECT_EQ(world.port().submission().submit_virtual(submit), row.expected);
      const bool fatal = row.expected == Status::kUnsuccessful;
      ASSERT_EQ(world.host.fatal.size(), fatal ? 1U : 0U);
      if (!fatal) {
        EXPECT_TRUE(world.world.findings.all().empty());
        return;
      }
      EXPECT_EQ(world.host.fatal[0].rule, "SUB-28");
      EXPECT_EQ(world.host.fatal[0].bugcheck_code, 0x119U);
      EXPECT_EQ(world.host.fatal[0].bugcheck_parameter, 2U);
    });
  }
}

TEST(GpuVaWork, ValidationGetsTheWholeCall) {
  in_world(
      [](GpuVaWorld& world) {
        void* const context = world.make_context(0x40, {});
        std::byte data[32] = {};
        void* const contexts[] = {context, &world};
        ValidateSubmitArgs args;
        args.buffer_va = 0x8000'1000;
        args.buffer_bytes = 64;
        args.contexts = contexts;
        args.private_data = data;
        args.private_bytes = 32;
        args.user_private_bytes = 20;
        EXPECT_EQ(world.port().rendering().validate_submit(args), Status::kSuccess);
        const DXGKARG_VALIDATESUBMITCOMMAND call = world.gpu.calls().validations.at(0);
        EXPECT_EQ(call.Commands, 0x8000'1000U);
        EXPECT_EQ(call.CommandLength, 64U);
        EXPECT_EQ(call.Flags.Value, 0U);
        ASSERT_EQ(call.ContextCount, 2U);
        EXPECT_EQ(call.Context[0], context);
        EXPECT_EQ(call.Context[1], &world);
        EXPECT_EQ(call.Context[2], nullptr);
        EXPECT_EQ(call.pPrivateDriverData, data);
        EXPECT_EQ(call.PrivateDriverDataSize, 32U);
        EXPECT_EQ(call.UmdPrivateDataSize, 20U);
        world.gpu.on_validate = [](DXGKARG_VALIDATESUBMITCOMMAND*) {
          return static_cast<NTSTATUS>(Status::kInvalidUserBuffer);
        };
        EXPECT_EQ(world.port().rendering().validate_submit(args), Status::kInvalidUserBuffer);
        EXPECT_TRUE(world.world.findings.all().empty());
      },
      [](GpuVaWorld& world) {
        world.world.miniport.config.version = kInterfaceWddm25;
        world.gpu.on_validate = [](DXGKARG_VALIDATESUBMITCOMMAND*) { return kSuccess; };
      });
}

TEST(GpuVaWork, APageFaultIsToldWhole) {
  for (const bool newer : {false, true}) {
    in_world(
        [&](GpuVaWorld& world) {
          DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
          std::memset(&data, 0, sizeof(data));
          data.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
          data.DmaPageFaulted.FaultedFenceId = 11;
          data.DmaPageFaulted.FaultedPrimitiveAPISequenceNumber = 0x1'0000'0002;
          data.DmaPageFaulted.FaultedPipelineStage = DXGK_RENDER_PIPELINE_STAGE_VERTEX_SHADER;
          data.DmaPageFaulted.FaultedBindTableEntry = 13;
          data.DmaPageFaulted.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(0x81);
          data.DmaPageFaulted.FaultedVirtualAddress = 0xABCD'0123'4000;
          data.DmaPageFaulted.NodeOrdinal = 1;
          data.DmaPageFaulted.EngineOrdinal = 2;
          data.DmaPageFaulted.PageTableLevel = 3;
          data.DmaPageFaulted.FaultErrorCode.IsDeviceSpecificCodeReservedBit = 1;
          data.DmaPageFaulted.FaultErrorCode.DeviceSpecificCode = 0x1234;
          data.DmaPageFaulted.FaultedProcessHandle = &world;
          EXPECT_TRUE(world.world.miniport.raise(data));
          const InterruptReport report = world.host.seen().at(0);
          EXPECT_EQ(report.type, InterruptReport::Type::kDmaPageFaulted);
          EXPECT_EQ(report.fence, 11U);
          EXPECT_EQ(report.primitive, 0x1'0000'0002U);
          EXPECT_EQ(report.pipeline_stage, 2U);
          EXPECT_EQ(report.bind_table_entry, 13U);
          EXPECT_EQ(report.flags, 0x81U);
          EXPECT_EQ(report.address, 0xABCD'0123'4000U);
          EXPECT_EQ(report.node, 1U);
          EXPECT_EQ(report.engine, 2U);
          EXPECT_EQ(report.page_table_level, 3U);
          EXPECT_EQ(report.error_code, 0x2469U);
          EXPECT_EQ(report.process, newer ? &world : nullptr) << "from WDDM 2.2 on";
        },
        [&](GpuVaWorld& world) {
          if (newer) world.world.miniport.config.version = kInterfaceWddm22;
        });
  }
}

TEST(GpuVaWork, PageFaultsOfHardwareQueuesSayWhereTheyWere) {
  in_world([&](GpuVaWorld& world) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    std::memset(&data, 0, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED;
    data.HwQueuePageFaulted.FaultedFenceId = 0x1'0000'000B;
    data.HwQueuePageFaulted.FaultedHwQueue = &data;
    data.HwQueuePageFaulted.NodeOrdinal = 1;
    data.HwQueuePageFaulted.EngineOrdinal = 2;
    data.HwQueuePageFaulted.FaultedVirtualAddress = 0xABCD'0123'4000;
    data.HwQueuePageFaulted.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(0x81);
    data.HwQueuePageFaulted.PageTableLevel = 3;
    EXPECT_TRUE(world.world.miniport.raise(data));
    const InterruptReport report = world.host.seen().at(0);
    EXPECT_EQ(report.type, InterruptReport::Type::kHwQueuePageFaulted);
    EXPECT_EQ(report.fence64, 0x1'0000'000BU);
    EXPECT_EQ(report.handle, &data);
    EXPECT_EQ(report.node, 1U);
    EXPECT_EQ(report.engine, 2U);
    EXPECT_EQ(report.address, 0xABCD'0123'4000U);
    EXPECT_EQ(report.flags, 0x81U);
    EXPECT_EQ(report.page_table_level, 3U);
  });
}

}  // namespace
}  // namespace dxgkit::port
