// What the driver builds, run by the real engines: tables made by paging operations alone, buffers
// submitted through them.
#include "devices/softgpu/test_rig.h"
#include "miniports/softgpu/gpuva_world.h"

namespace softgpu {
namespace {

namespace device = dxgkit::softgpu;

constexpr UINT64 kPage = 4096;

/// Memory of one GPU and the driver's page tables in it, managed as a kernel would.
class GpuVaEngine : public GpuVa {
 protected:
  using Rig = device::testing::Rig;

  /// One space: its tables, by level and first address.
  struct Space {
    Client client;
    bool system = false;
    std::map<std::pair<UINT, UINT64>, D3DGPU_PHYSICAL_ADDRESS> tables;
    UINT root_entries = 0;
  };

  void in_device(const std::function<void(Rig&)>& body) {
    const auto runtime = dxgkit::runtime::make_sim_runtime(1);
    runtime->run_main([&] {
      Rig one(*runtime, {.vram_bytes = 16 << 20, .timing = {}, .faults = {}});
      rig = &one;
      next_vram = 0x10000;
      load_and_start();
      paging = make_space(0, true);
      // Where paging buffers will be: the first thing in the kernel's own space.
      buffer = one.system_memory(kDmaBytes);
      map(&paging, kBuffer, pages_of(0, buffer, kDmaBytes / kPage));
      body(one);
      destroy(paging.client);
      stop_and_expect_nothing_left();
    });
  }

  static constexpr UINT64 kBuffer = 0x00800000;  // in the paging space
  static UINT levels() { return four() ? 4 : 2; }
  static UINT shift(UINT level) { return 12 + 9 * level; }

  static std::vector<DXGK_PTE> pages_of(UINT segment, UINT64 offset, UINT64 count) {
    std::vector<DXGK_PTE> entries;
    for (UINT64 i = 0; i < count; ++i) entries.push_back(pte(segment, offset / kPage + i));
    return entries;
  }

  D3DGPU_PHYSICAL_ADDRESS new_table(bool system) {
    if (!four() || large() || system) return place(0, rig->system_memory(kPage));
    next_vram += kPage;
    return place(kSegmentVram, next_vram - kPage);
  }
  Space make_space(UINT64 handle, bool system) {
    Space space;
    space.system = system;
    space.client = create_client(handle, system ? SGPU_NODE_COPY : SGPU_NODE_3D, system);
    const UINT root = levels() - 1;
    space.tables[{root, 0}] = new_table(system);
    space.root_entries = four() ? 512 : 64;
    set_root(space.client.context, space.tables[{root, 0}], space.root_entries);
    std::vector<DXGK_PTE> invalid(1);
    update_entries(space, root, 0, 0, &invalid, 512);
    return space;
  }
  /// The table of `level` that covers `va`; made, with invalid entries, if there is none.
  D3DGPU_PHYSICAL_ADDRESS table_for(Space* space, UINT level, UINT64 va) {
    const UINT64 first = level == levels() - 1 ? 0 : va >> shift(level + 1) << shift(level + 1);
    const auto found = space->tables.find({level, first});
    if (found != space->tables.end()) return found->second;
    const D3DGPU_PHYSICAL_ADDRESS table = new_table(space->system);
    space->tables[{level, first}] = table;
    std::vector<DXGK_PTE> invalid(1);
    update_entries(*space, level, va, 0, &invalid, 512);
    (void)table_for(space, level + 1, va);
    std::vector<DXGK_PTE> up = {pte(table.SegmentId, table.SegmentOffset / kPage)};
    update_entries(*space, level + 1, va, (va >> shift(level + 1)) % 512, &up);
    return table;
  }
  /// Through DxgkDdiBuildPagingBuffer, by whichever means the model has.
  void update_entries(Space& space, UINT level, UINT64 va, UINT64 start,
                      std::vector<DXGK_PTE>* entries, UINT repeat = 0) {
    const D3DGPU_PHYSICAL_ADDRESS table = table_for(&space, level, va);
    Update what = {.level = level, .start = static_cast<UINT>(start), .count = repeat};
    what.repeat = repeat != 0;
    if (space.system || !four()) {
      what.cpu = rig->at(table.SegmentOffset);
      EXPECT_TRUE(build_once(update(what, entries), 0).status == STATUS_SUCCESS);
      return;
    }
    what.mode = DXGK_PAGETABLEUPDATE_GPU_PHYSICAL;
    what.physical = table;
    run_paging(update(what, entries));
  }
  void map(Space* space, UINT64 va, std::vector<DXGK_PTE> entries) {
    for (size_t done = 0; done < entries.size();) {
      const UINT64 at = va + done * kPage;
      const UINT64 start = at / kPage % 512;
      const size_t count = std::min<size_t>(entries.size() - done, 512 - start);
      (void)table_for(space, 0, at);
      std::vector<DXGK_PTE> some(entries.begin() + static_cast<ptrdiff_t>(done),
                                 entries.begin() + static_cast<ptrdiff_t>(done + count));
      update_entries(*space, 0, at, start, &some);
      done += count;
    }
  }
  void flush_space(const Space& space, UINT64 start, UINT64 end) {
    run_paging(flush(space.tables.at({levels() - 1, 0}), start, end));
  }

  /// Builds the operation in small buffers and has each run in the paging space.
  void run_paging(DXGKARG_BUILDPAGINGBUFFER args) {
    for (;;) {
      const Built built = build_once(args, 512);
      if (!built.bytes.empty()) {
        std::memcpy(rig->at(buffer), built.bytes.data(), built.bytes.size());
        DXGKARG_SUBMITCOMMANDVIRTUAL submission = virtual_submission(
            paging.client.context, ++fence, kBuffer, static_cast<UINT>(built.bytes.size()));
        submission.NodeOrdinal = SGPU_NODE_COPY;
        submission.Flags.Paging = 1;
        EXPECT_TRUE(run(submission));
      }
      if (built.status == STATUS_SUCCESS) return;
      ASSERT_EQ(built.status, STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
      args.MultipassOffset = built.multipass;
    }
  }
  /// From the driver's ring into the device's. False: it faulted.
  bool run(const DXGKARG_SUBMITCOMMANDVIRTUAL& submission) {
    EXPECT_EQ(submit_virtual(submission), STATUS_SUCCESS);
    const UINT ordinal = submission.NodeOrdinal;
    SgpuRingEntry entry = {};
    EXPECT_TRUE(world.fetch(ordinal, &entry));
    node(ordinal).registers[SGPU_NODE_COMPLETED_FENCE] = entry.fence;
    world.causes |= SGPU_INT_COMPLETE(ordinal);
    world.raise();
    rig->submit(ordinal, entry);
    using device::testing::Served;
    rig->wait([&] {
      return rig->saw({Served::kComplete, ordinal, entry.fence}) ||
             rig->saw({Served::kFault, ordinal, entry.fence});
    });
    return rig->saw({Served::kComplete, ordinal, entry.fence});
  }
  /// A user's commands, at an address mapped for them.
  bool run_user(Space* space, UINT64 va, const device::testing::Commands& commands) {
    const UINT64 memory = rig->system_memory(commands.bytes().size());
    std::memcpy(rig->at(memory), commands.bytes().data(), commands.bytes().size());
    map(space, va, pages_of(0, memory, 1));
    return run(virtual_submission(space->client.context, ++fence, va,
                                  static_cast<UINT>(commands.bytes().size())));
  }

  Rig* rig = nullptr;
  Space paging;
  UINT64 buffer = 0;
  UINT64 next_vram = 0;
  UINT fence = 100;
};

TEST_P(GpuVaEngine, TwoProcessesWorkInTheirOwnSpaces) {
  in_device([&](Rig& device) {
    Space one = make_space(1, false);
    Space two = make_space(2, false);
    const UINT64 va = 0x01FFE000;  // across a leaf table's end
    const UINT64 first = device.system_memory(4 * kPage);
    const UINT64 second = 0x800000;  // in VRAM
    map(&one, va, pages_of(0, first, 4));
    map(&two, va, pages_of(kSegmentVram, second, 4));
    device::testing::Commands commands;
    commands.fill(va, 4 * kPage, 0x11111111);
    EXPECT_TRUE(run_user(&one, 0x100000, commands));
    device::testing::Commands others;
    others.fill(va, 4 * kPage, 0x22222222);
    EXPECT_TRUE(run_user(&two, 0x100000, others));
    for (UINT64 at = 0; at < 4 * kPage; at += 8) {
      ASSERT_EQ(device.word(first + at), 0x1111111111111111U);
      ASSERT_EQ(device.word(SGPU_VRAM_BASE + second + at), 0x2222222222222222U);
    }
    // The signal at an address, by the structure user mode uses.
    SgpuUmdFence signal = {};
    signal.header = {SGPU_UMD_OP_FENCE_WRITE, sizeof(signal)};
    signal.memory = sgpu_umd_at(va + 8);
    signal.value = 12345;
    signal.width = 8;
    device::testing::Commands raw;
    raw.raw(&signal, sizeof(signal));
    EXPECT_TRUE(run_user(&one, 0x104000, raw));
    EXPECT_EQ(device.word(first + 8), 12345U);
    destroy(one.client);
    destroy(two.client);
  });
}

TEST_P(GpuVaEngine, TheKernelMovesMemoryByAddresses) {
  in_device([&](Rig& device) {
    const UINT64 system = device.system_memory(6 * kPage);
    const UINT64 local = 0x900000;
    map(&paging, 0x02000000, pages_of(0, system, 6));
    map(&paging, 0x03000000, pages_of(kSegmentVram, local, 6));
    device::testing::Lcg random(5);
    const auto image = random.bytes(6 * kPage);
    device.put(system, image);
    DXGKARG_BUILDPAGINGBUFFER args = {};
    args.Operation = DXGK_OPERATION_VIRTUAL_TRANSFER;
    args.TransferVirtual.SourceVirtualAddress = 0x02000000;
    args.TransferVirtual.DestinationVirtualAddress = 0x03000000;
    args.TransferVirtual.TransferSizeInBytes = 6 * kPage;
    run_paging(args);
    EXPECT_EQ(device.take(SGPU_VRAM_BASE + local, 6 * kPage), image);
    args = {};
    args.Operation = DXGK_OPERATION_VIRTUAL_FILL;
    args.FillVirtual.DestinationVirtualAddress = 0x02000000 + kPage;
    args.FillVirtual.FillSizeInBytes = kPage;
    args.FillVirtual.FillPattern = 0xCAFE;
    run_paging(args);
    EXPECT_EQ(device.word(system + kPage), 0x0000CAFE0000CAFEU);
    EXPECT_EQ(device.take(system, kPage),
              std::vector<uint8_t>(image.begin(), image.begin() + kPage));
  });
}

TEST_P(GpuVaEngine, ARemapCountsAfterItsFlush) {
  in_device([&](Rig& device) {
    Space space = make_space(1, false);
    const UINT64 va = 0x00A00000;
    const UINT64 before = device.system_memory(kPage);
    const UINT64 after = device.system_memory(kPage);
    device::testing::Commands commands;
    commands.sem_signal(va, 1);
    map(&space, va, pages_of(0, before, 1));
    EXPECT_TRUE(run_user(&space, 0x100000, commands));
    EXPECT_EQ(device.word(before), 1U);
    map(&space, va, pages_of(0, after, 1));
    device.set_word(before, 0);
    EXPECT_TRUE(run_user(&space, 0x104000, commands));
    EXPECT_EQ(device.word(before), 1U) << "the engine still has the old translation";
    EXPECT_EQ(device.word(after), 0U);
    flush_space(space, va, va + kPage);
    EXPECT_TRUE(run_user(&space, 0x108000, commands));
    EXPECT_EQ(device.word(after), 1U);
    destroy(space.client);
  });
}

TEST_P(GpuVaEngine, ProtectionsReachTheEngine) {
  in_device([&](Rig& device) {
    Space space = make_space(1, false);
    const UINT64 va = 0x00A00000;
    const UINT64 memory = device.system_memory(2 * kPage);
    auto entries = pages_of(0, memory, 2);
    entries[0].ReadOnly = 1;
    entries[1].NoExecute = 1;
    DXGK_PTE zero = {};
    zero.Valid = zero.Zero = 1;
    entries.push_back(zero);
    map(&space, va, entries);
    device.set_word(memory + kPage, 7);
    device::testing::Commands copies;
    copies.copy(va + 2 * kPage, va + kPage, 8).copy(va, va + kPage + 8, 8);
    EXPECT_TRUE(run_user(&space, 0x100000, copies));
    EXPECT_EQ(device.word(memory + kPage), 0U) << "read from the zero page";
    device::testing::Commands write;
    write.fence_write(va, 1);
    EXPECT_FALSE(run_user(&space, 0x104000, write));
    EXPECT_EQ(device.node32(0, SGPU_NODE_FAULT_REASON), SGPU_FAULT_PAGE);
    EXPECT_EQ(SGPU_DETAIL_WHY(device.node32(0, SGPU_NODE_FAULT_DETAIL)), SGPU_PAGE_READ_ONLY);
    device.reset(0);
    device.start(0);
    EXPECT_FALSE(run(virtual_submission(space.client.context, ++fence, va + kPage, 64)));
    EXPECT_EQ(SGPU_DETAIL_WHY(device.node32(0, SGPU_NODE_FAULT_DETAIL)), SGPU_PAGE_NO_EXECUTE);
    device.reset(0);
    device.start(0);
    destroy(space.client);
  });
}

TEST_P(GpuVaEngine, AUserCannotRunWhatIsTheKernels) {
  in_device([&](Rig& device) {
    Space space = make_space(1, false);
    const UINT64 victim = device.system_memory(kPage);
    const SgpuWritePtes head = {
        {SGPU_OP_WRITE_PTES, sizeof(SgpuWritePtes) + 8}, victim, 1, SGPU_PTES_PHYSICAL};
    const UINT64 entry = 1;
    device::testing::Commands commands;
    commands.raw(&head, sizeof(head)).raw(&entry, sizeof(entry));
    EXPECT_FALSE(run_user(&space, 0x100000, commands));
    EXPECT_EQ(device.node32(0, SGPU_NODE_FAULT_REASON), SGPU_FAULT_PRIVILEGE);
    EXPECT_EQ(device.word(victim), 0U);
    device.reset(0);
    device.start(0);
    destroy(space.client);
  });
}

TEST_P(GpuVaEngine, PagesOf64KiB) {
  if (!large()) return;
  in_device([&](Rig& device) {
    Space space = make_space(1, false);
    const UINT64 va = UINT64{5} << 40;
    const UINT64 local = 0x800000;
    // The leaf is one of large pages: as the level above says, and all its entries are first made
    // invalid.
    const D3DGPU_PHYSICAL_ADDRESS leaf = new_table(false);
    (void)table_for(&space, 1, va);
    std::vector<DXGK_PTE> up = {pte(0, leaf.SegmentOffset / kPage)};
    up[0].PageTablePageSize = DXGK_PTE_PAGE_TABLE_PAGE_64KB;
    update_entries(space, 1, va, (va >> 21) % 512, &up);
    Update what = {.mode = DXGK_PAGETABLEUPDATE_GPU_PHYSICAL, .physical = leaf, .count = 512};
    what.repeat = what.large = true;
    std::vector<DXGK_PTE> invalid(1);
    run_paging(update(what, &invalid));
    what.repeat = false;
    what.count = 48;
    what.start = 16;
    auto entries = pages_of(kSegmentVram, local, 48);
    run_paging(update(what, &entries));
    const UINT64 first = va + SGPU_LARGE_PAGE_BYTES;
    device::testing::Commands commands;
    commands.fill(first, 3 * SGPU_LARGE_PAGE_BYTES, 0x31313131);
    EXPECT_TRUE(run_user(&space, 0x100000, commands));
    for (UINT64 at = 0; at < 3 * SGPU_LARGE_PAGE_BYTES; at += 8) {
      ASSERT_EQ(device.word(SGPU_VRAM_BASE + local + at), 0x3131313131313131U) << at;
    }
    EXPECT_EQ(device.word(SGPU_VRAM_BASE + local + 3 * SGPU_LARGE_PAGE_BYTES), 0U);
    device::testing::Commands beyond;
    beyond.fence_write(first + 3 * SGPU_LARGE_PAGE_BYTES, 1);
    EXPECT_FALSE(run_user(&space, 0x104000, beyond));
    EXPECT_EQ(SGPU_DETAIL_WHY(device.node32(0, SGPU_NODE_FAULT_DETAIL)), SGPU_PAGE_NOT_VALID);
    device.reset(0);
    device.start(0);
    destroy(space.client);
  });
}

TEST_P(GpuVaEngine, TheRootGrowsToANewPlace) {
  if (four()) return;  // it does not
  in_device([&](Rig& device) {
    Space space = make_space(1, false);
    const UINT64 low = 0x00A00000;
    const UINT64 high = UINT64{100} << 21;
    const UINT64 memory = device.system_memory(2 * kPage);
    map(&space, low, pages_of(0, memory, 1));
    map(&space, high, pages_of(0, memory + kPage, 1));
    device::testing::Commands commands;
    commands.fence_write(low, 1).fence_write(high, 2);
    EXPECT_FALSE(run_user(&space, 0x100000, commands));
    EXPECT_EQ(SGPU_DETAIL_WHY(device.node32(0, SGPU_NODE_FAULT_DETAIL)), SGPU_PAGE_ROOT_INDEX);
    EXPECT_EQ(device.node64(0, SGPU_NODE_FAULT_ADDRESS), high);
    device.reset(0);
    device.start(0);
    DXGKARG_GETROOTPAGETABLESIZE size = {};
    size.NumberOfPte = 101;
    EXPECT_EQ(table().DxgkDdiGetRootPageTableSize(world.adapter, &size), kPage);
    EXPECT_EQ(size.NumberOfPte, 128U);
    const UINT64 old_root = space.tables[{1, 0}].SegmentOffset;
    const UINT64 new_root = device.system_memory(kPage);
    std::memcpy(device.at(new_root), device.at(old_root), kPage);
    std::memset(device.at(old_root), 0, kPage);
    space.tables[{1, 0}] = place(0, new_root);
    set_root(space.client.context, place(0, new_root), size.NumberOfPte);
    EXPECT_TRUE(run_user(&space, 0x104000, commands));
    EXPECT_EQ(device.word(memory), 1U);
    EXPECT_EQ(device.word(memory + kPage), 2U);
    destroy(space.client);
  });
}

SOFTGPU_ALL_MODELS(GpuVaEngine);

}  // namespace
}  // namespace softgpu
