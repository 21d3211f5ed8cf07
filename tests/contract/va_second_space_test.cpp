// A process's second address space (VA-34): what batches map there is copied entry by entry, in a
// context of the kernel's, from where the kernel sees the pools.
#include <functional>
#include <set>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/timeout.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using dxgkit::testing::GpuVaCalls;
using dxgkit::testing::GpuWalk;
using port::PageTableUpdateMode;

constexpr uint64_t k64 = 64 * kKibibyte;
constexpr uint64_t kLeaf = 2 * kMebibyte;  // what a leaf table covers

class VaSecondSpaceTest : public GpuVaTest {
 protected:
  /// Every kind of MMU whose tables the GPU writes.
  static void everywhere(const Body& body, const Body& prepare = nullptr) {
    GpuVaConfig by_address = GpuVaConfig::gpu_physical_four_level();
    by_address.update_mode = PageTableUpdateMode::kGpuVirtual;
    const std::vector<std::pair<const char*, GpuVaConfig>> all = {
        {"four levels, GPU physical", GpuVaConfig::gpu_physical_four_level()},
        {"four levels in system memory", GpuVaConfig::gpu_physical_four_level(0)},
        {"four levels, GPU virtual", by_address},
        {"two levels, GPU physical", GpuVaConfig::two_level(PageTableUpdateMode::kGpuPhysical, 2)},
        {"two levels, GPU virtual", GpuVaConfig::two_level(PageTableUpdateMode::kGpuVirtual, 2)},
    };
    for (const auto& [name, config] : all) {
      SCOPED_TRACE(name);
      running(config, body, prepare);
      if (HasFatalFailure()) return;
    }
  }
};

/// A client with a resident pool and a fence, and no reservation yet.
struct Batches {
  explicit Batches(GpuVaStack& stack_in) : stack(stack_in), client(stack_in) {
    pool = client.make_allocation(16 * kPage, kMemorySet);
    client.list({pool});
    stack.drive();
    fence = client.make_sync(D3DDDI_MONITORED_FENCE);
  }
  void update(std::vector<UpdateOperation> operations) {
    ASSERT_EQ(client.update(client.context, fence, ++value, std::move(operations), true), 0);
    stack.drive();
  }
  bool has_second() const {
    bool has = false;
    stack.adapter().core().lane().run([&] {
      has = stack.adapter().floor().spaces->second_of(client.process->number()) != nullptr;
    });
    return has;
  }
  /// Where the pool's content is, as the client's own mapping shows it.
  GpuWalk of_pool(uint64_t page) const { return client.walk(mapped + page * kPage); }

  GpuVaStack& stack;
  VaClient client;
  D3DKMT_HANDLE pool = 0, fence = 0;
  uint64_t value = 0, mapped = 0;
};

/// Page tables that are there, of all processes.
size_t rooms_of(GpuVaStack& stack) {
  size_t count = 0;
  stack.adapter().core().lane().run([&] {
    stack.adapter().floor().tables->for_each([&](gpuva::TableId, const auto&) { ++count; });
  });
  return count;
}

size_t new_tables(const GpuVaCalls& calls) {
  size_t count = 0;
  for (const auto& update : calls.updates) count += update.args.Flags.InitialUpdate != 0 ? 1 : 0;
  return count;
}

/// Entries of leaf tables that were written valid, by the segment and offset of the table.
std::set<std::pair<uint32_t, uint64_t>> written_leaves(const GpuVaCalls& calls, bool by_va) {
  std::set<std::pair<uint32_t, uint64_t>> leaves;
  for (const auto& update : calls.updates) {
    if (update.args.PageTableLevel != 0) continue;
    const bool valid = std::ranges::any_of(update.entries, [](const port::PageTableEntry& entry) {
      return (entry.flags & gpuva::kPteValid) != 0;
    });
    if (!valid) continue;
    const auto& address = update.args.PageTableAddress;
    if (by_va) {
      leaves.emplace(~uint32_t{0}, address.GpuVirtual);
    } else {
      leaves.emplace(address.GpuPhysical.SegmentId, address.GpuPhysical.SegmentOffset);
    }
  }
  return leaves;
}

// The first reservation makes tables though it maps nothing; the second makes none. What a batch
// maps is not written but copied, in a context that the kernel made for it, whose root is not the
// process's; both sides of each copy are tables, at multiples of 64 KiB, and the process's own
// addresses lead to none of it.
TEST_F(VaSecondSpaceTest, TheFirstReservationMakesASpaceForCopiesOfEntries) {
  DXGKIT_COVERS("VA-34", "PAGE-40", "PAGE-01");
  everywhere([](GpuVaStack& stack) {
    Batches batches(stack);
    VaClient& client = batches.client;
    batches.mapped = client.make_mapping(batches.pool, 16);
    EXPECT_FALSE(batches.has_second()) << "nobody has reserved anything";
    const auto own_before = stack.gpu.tables_of(client.process_handle()).tables;
    stack.gpu.clear_calls();
    const uint64_t base = client.make_reservation(4 * k64);
    EXPECT_TRUE(batches.has_second());
    EXPECT_GE(new_tables(stack.gpu.calls()), stack.gpu.config.levels.size());
    EXPECT_EQ(stack.gpu.tables_of(client.process_handle()).tables, own_before)
        << "none of them is the client's";
    stack.gpu.clear_calls();
    static_cast<void>(client.make_reservation(4 * k64));
    EXPECT_EQ(stack.gpu.calls().updates.size(), 0U);

    const size_t contexts = stack.miniport.calls().create_contexts.size();
    batches.update({map_op(batches.pool, base, 8 * kPage, 3 * kPage)});
    const auto created = stack.miniport.calls().create_contexts;
    ASSERT_EQ(created.size(), contexts + 1) << "one of the kernel's, for the client's";
    EXPECT_EQ(created.back().Flags.SystemContext, 1U);
    EXPECT_EQ(created.back().Flags.VirtualAddressing, 1U);
    const GpuVaCalls calls = stack.gpu.calls();
    ASSERT_EQ(calls.roots.size(), 1U);
    const port::RootPageTable second{.address = {SegmentId{calls.roots[0].Address.SegmentId},
                                                 calls.roots[0].Address.SegmentOffset},
                                     .entry_count = calls.roots[0].NumEntries};
    const auto first = stack.gpu.root_of(client.process_handle());
    ASSERT_TRUE(first.has_value());
    EXPECT_NE(second.address, first->address);

    const auto own = stack.gpu.tables_of(client.process_handle()).tables;
    ASSERT_EQ(calls.copies.size(), 1U);
    ASSERT_FALSE(calls.copies[0].empty());
    uint64_t copied = 0;
    for (const auto& range : calls.copies[0]) {
      EXPECT_EQ(range.SrcPageTableAddress % k64, 0U);
      EXPECT_EQ(range.DstPageTableAddress % k64, 0U);
      const GpuWalk from = stack.gpu.walk(second, range.SrcPageTableAddress);
      const GpuWalk to = stack.gpu.walk(second, range.DstPageTableAddress);
      ASSERT_TRUE(from.valid && to.valid) << from.why << to.why;
      const auto& leaves = own.at(0);
      EXPECT_NE(std::ranges::find(leaves, to.place), leaves.end()) << "a table of the process";
      EXPECT_EQ(std::ranges::find(leaves, from.place), leaves.end()) << "one of the kernel's";
      copied += range.NumPageTableEntries;
      // The process itself sees neither, nor does any of its tables lead to one.
      for (const auto& [va, page] : stack.gpu.tables_of(client.process_handle()).pages) {
        EXPECT_NE(page.place, from.place);
        EXPECT_NE(page.place, to.place);
      }
      if (stack.gpu.config.update_mode == PageTableUpdateMode::kGpuPhysical) {
        EXPECT_FALSE(
            written_leaves(calls, false).contains({to.place.segment.value, to.place.offset}))
            << "entries are copied there, not written";
      }
    }
    EXPECT_EQ(copied, 8U);
    for (uint64_t page = 0; page < 8; ++page) {
      const GpuWalk walk = client.walk(base + page * kPage);
      ASSERT_TRUE(walk.valid) << walk.why;
      EXPECT_EQ(walk.place, batches.of_pool(page + 3).place);
      EXPECT_TRUE(walk.writable);
    }
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Also the first one that names the adapter alone: nobody waits for its tables, and they are there.
TEST_F(VaSecondSpaceTest, AReservationByTheAdapterMakesItToo) {
  DXGKIT_COVERS("VA-32", "VA-34");
  everywhere([](GpuVaStack& stack) {
    Batches batches(stack);
    VaClient& client = batches.client;
    ASSERT_FALSE(batches.has_second());
    stack.gpu.clear_calls();
    D3DDDI_RESERVEGPUVIRTUALADDRESS args{};
    args.hAdapter = client.adapter;
    args.Size = 4 * k64;
    EXPECT_EQ(client.reserve(args), 0);
    EXPECT_EQ(args.PagingFenceValue, 0U);
    EXPECT_TRUE(batches.has_second());
    stack.drive();
    EXPECT_GE(new_tables(stack.gpu.calls()), stack.gpu.config.levels.size());
    batches.update({map_op(batches.pool, args.VirtualAddress, 2 * kPage, kPage)});
    EXPECT_EQ(stack.gpu.calls().copies.size(), 1U);
    EXPECT_TRUE(client.walk(args.VirtualAddress + kPage).valid);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Where the CPU writes tables there is nothing to copy with: updates wait, and are written.
TEST_F(VaSecondSpaceTest, TablesWrittenByTheCpuNeedNone) {
  DXGKIT_COVERS("PAGE-40");
  running(GpuVaConfig::cpu_virtual_two_level(), [](GpuVaStack& stack) {
    Batches batches(stack);
    const size_t contexts = stack.miniport.calls().create_contexts.size();
    const uint64_t base = batches.client.make_reservation(k64);
    EXPECT_FALSE(batches.has_second());
    batches.update({map_op(batches.pool, base, kPage)});
    EXPECT_TRUE(batches.client.walk(base).valid);
    EXPECT_TRUE(stack.gpu.calls().copies.empty());
    EXPECT_EQ(stack.miniport.calls().create_contexts.size(), contexts);
  });
}

// A pool is seen there as long as somebody may map it: its entries follow it to another place, so a
// batch that runs then copies those, and are gone with it.
TEST_F(VaSecondSpaceTest, WhatIsCopiedFollowsThePool) {
  DXGKIT_COVERS("VA-34", "VA-39");
  everywhere([](GpuVaStack& stack) {
    Batches batches(stack);
    VaClient& client = batches.client;
    batches.mapped = client.make_mapping(batches.pool, 16);
    const uint64_t base = client.make_reservation(4 * k64);
    batches.update({map_op(batches.pool, base, kPage)});
    const port::GpuPhysicalAddress before = client.walk(base).place;
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(client.evict({batches.pool}), 0);
      stack.drive();
      const D3DKMT_HANDLE other = client.make(1);
      client.list({other});
      stack.drive();
      client.list({batches.pool});
      stack.drive();
      stack.gpu.clear_calls();
      batches.update({map_op(batches.pool, base + kPage, 4 * kPage, 5 * kPage)});
      EXPECT_FALSE(stack.gpu.calls().copies.empty());
      for (uint64_t page = 0; page < 4; ++page)
        EXPECT_EQ(client.walk(base + (page + 1) * kPage).place, batches.of_pool(page + 5).place);
    }
    EXPECT_NE(client.walk(base).place, before) << "it has moved";
    EXPECT_EQ(client.destroy_allocation(batches.pool), 0);
    stack.drive();
    EXPECT_FALSE(client.walk(base).valid);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// More tables than slots, in one batch and in several; protections; copies of addresses; and the
// same after the memory of all tables was lost.
// A large page has no leaf entries that could be copied: the directory's entry is written, and
// other ranges of the same batch are copied as ever.
TEST_F(VaSecondSpaceTest, LargePagesAreWrittenNotCopied) {
  DXGKIT_COVERS("VA-46", "PAGE-40");
  everywhere(
      [](GpuVaStack& stack) {
        Batches batches(stack);
        VaClient& client = batches.client;
        ScriptedAllocation large;
        large.size = 2 * kLeaf;
        large.alignment = kLeaf;
        large.supported_read = large.supported_write = kMemorySet;
        const D3DKMT_HANDLE a = client.make_allocation(large);
        client.list({a});
        stack.drive();
        batches.mapped = client.make_mapping(batches.pool, 16);
        const uint64_t whole = client.make_mapping(a, 2 * kLeaf / kPage, 16 * kLeaf);
        const uint64_t base = client.make_reservation(4 * kLeaf, 64 * kLeaf);
        stack.gpu.clear_calls();
        batches.update(
            {map_op(a, base, kLeaf, kLeaf), map_op(batches.pool, base + kLeaf, 2 * kPage)});
        EXPECT_EQ(client.walk(base).level, 1U);
        for (const uint64_t at : {uint64_t{0}, 5 * kPage, kLeaf - kPage}) {
          ASSERT_TRUE(client.walk(base + at).valid) << client.walk(base + at).why;
          EXPECT_EQ(client.walk(base + at).place, client.walk(whole + kLeaf + at).place);
        }
        EXPECT_EQ(client.walk(base + kLeaf + kPage).place, batches.of_pool(1).place);
        EXPECT_EQ(client.walk(base + kLeaf).level, 0U);
        EXPECT_EQ(stack.gpu.calls().copies.size(), 1U);
        EXPECT_TRUE(stack.gpu.faults().empty());
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](GpuVaStack& stack) { stack.gpu.config.large_page = true; });
}

TEST_F(VaSecondSpaceTest, ManyTablesWaysAndASleep) {
  DXGKIT_COVERS("VA-34", "VA-36", "PAGE-02");
  everywhere([](GpuVaStack& stack) {
    Batches batches(stack);
    VaClient& client = batches.client;
    batches.mapped = client.make_mapping(batches.pool, 16);
    constexpr uint64_t kLeaves = 40;
    const uint64_t base = client.make_reservation(2 * kLeaves * kLeaf);
    void* companion = nullptr;  // the kernel's context
    for (int round = 0; round < 2; ++round) {
      stack.gpu.clear_calls();
      std::vector<UpdateOperation> operations;
      for (uint64_t i = 0; i < kLeaves; ++i)
        operations.push_back(map_op(batches.pool, base + i * kLeaf, 2 * kPage, (i % 15) * kPage));
      UpdateOperation read_only = operations.back();
      read_only.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT;
      read_only.MapProtect.BaseAddress = base + 8 * kPage;
      read_only.MapProtect.SizeInBytes = kPage;
      read_only.MapProtect.hAllocation = batches.pool;
      read_only.MapProtect.AllocationOffsetInBytes = 9 * kPage;
      read_only.MapProtect.AllocationSizeInBytes = kPage;
      read_only.MapProtect.Protection = protection(0);
      read_only.MapProtect.DriverProtection = 0x155;
      operations.push_back(read_only);
      batches.update(operations);
      batches.update({copy_op(base, base + kLeaves * kLeaf, 10 * kPage)});
      const GpuVaCalls calls = stack.gpu.calls();
      EXPECT_GE(calls.copies.size(), kLeaves);
      if (companion == nullptr) companion = calls.roots.at(0).hContext;
      std::set<uint64_t> slots;  // where it has seen tables
      for (const auto& copy : calls.copies) {
        for (const auto& range : copy) {
          slots.insert(range.SrcPageTableAddress);
          slots.insert(range.DstPageTableAddress);
        }
      }
      EXPECT_GT(slots.size(), 2U);
      for (uint64_t i = 0; i < kLeaves; ++i) {
        for (uint64_t page = 0; page < 2; ++page) {
          const GpuWalk walk = client.walk(base + i * kLeaf + page * kPage);
          ASSERT_TRUE(walk.valid) << walk.why;
          ASSERT_EQ(walk.place, batches.of_pool(i % 15 + page).place) << i;
        }
      }
      for (const uint64_t at : {base, base + kLeaves * kLeaf}) {
        const GpuWalk walk = client.walk(at + 8 * kPage);
        ASSERT_TRUE(walk.valid) << walk.why;
        EXPECT_EQ(walk.place, batches.of_pool(9).place);
        EXPECT_FALSE(walk.writable);
        EXPECT_EQ(walk.driver_protection, 0x155U);
        EXPECT_FALSE(client.walk(at + 7 * kPage).valid);
      }
      stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
        if (state == PowerDeviceD3) stack.gpu.lose_power();
        return STATUS_SUCCESS;
      };
      for (const dxgk::PowerTarget target : {dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kD0}) {
        stack.blocking(
            [&] { EXPECT_TRUE(stack.system->set_power(stack.luid, target).has_value()); });
      }
      stack.miniport.hooks.set_power_state = nullptr;
      stack.drive();
      // No table that was seen before is seen after: all places show the page nobody uses.
      std::optional<port::RootPageTable> second;
      for (const auto& root : stack.gpu.calls().roots) {
        if (root.hContext != companion) continue;
        second = {.address = {SegmentId{root.Address.SegmentId}, root.Address.SegmentOffset},
                  .entry_count = root.NumEntries};
      }
      ASSERT_TRUE(second.has_value());
      const uint64_t dummy = stack.adapter().floor().system_objects->dummy_page().value * kPage;
      for (const uint64_t slot : slots) {
        const GpuWalk walk = stack.gpu.walk(*second, slot);
        ASSERT_TRUE(walk.valid) << walk.why;
        EXPECT_EQ(walk.place, (port::GpuPhysicalAddress{kSystemMemory, dummy}));
      }
      ASSERT_EQ(client.submit(client.context, base, 0), 0);  // its list comes back
      stack.drive();
      ASSERT_EQ(client.walk(base + 5 * kLeaf).place, batches.of_pool(5).place);
      batches.update({unmap_op(base, 2 * kLeaves * kLeaf)});
      EXPECT_FALSE(client.walk(base + 5 * kLeaf).valid);
    }
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// The kernel's context goes with the client's, the space with the process, and all memory with it.
TEST_F(VaSecondSpaceTest, ItGoesWithTheProcess) {
  DXGKIT_COVERS("VA-34", "VA-38");
  everywhere([](GpuVaStack& stack) {
    VaClient bystander(stack, "bystander");
    const uint64_t pages = stack.machine.free_page_count();
    const size_t contexts = stack.gpu.contexts().size();
    {
      Batches batches(stack);
      const uint64_t base = batches.client.make_reservation(k64);
      batches.update({map_op(batches.pool, base, kPage)});
      EXPECT_EQ(stack.gpu.contexts().size(), contexts + 2);
      const D3DKMT_HANDLE second = batches.client.make_context_virtual();
      ASSERT_EQ(batches.client.update(second, batches.fence, ++batches.value,
                                      {map_op(batches.pool, base + kPage, kPage)}, true),
                0);
      stack.drive();
      EXPECT_TRUE(batches.client.walk(base + kPage).valid);
      EXPECT_EQ(stack.gpu.contexts().size(), contexts + 4);
      // With a batch on its way to the hardware.
      ASSERT_EQ(batches.client.update(second, batches.fence, ++batches.value,
                                      {map_op(batches.pool, base + 2 * kPage, kPage)}, true),
                0);
      EXPECT_EQ(batches.client.destroy_context(second), 0);
      stack.drive();
      EXPECT_EQ(stack.gpu.contexts().size(), contexts + 2);
    }
    stack.drive();
    EXPECT_EQ(stack.gpu.contexts().size(), contexts);
    EXPECT_EQ(stack.machine.free_page_count(), pages);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// The context is destroyed while its first batch, and the call that gives the kernel's context its
// root, are still behind other paging: the batch runs in a context with a root all the same.
TEST_F(VaSecondSpaceTest, ABatchOutlivesItsContextWithARoot) {
  DXGKIT_COVERS("VA-34", "VA-38");
  everywhere([](GpuVaStack& stack) {
    Batches batches(stack);
    VaClient& client = batches.client;
    const uint64_t base = client.make_reservation(4 * k64);
    const D3DKMT_HANDLE second = client.make_context_virtual();
    const size_t contexts = stack.gpu.contexts().size();
    const size_t created = stack.miniport.calls().create_contexts.size();
    stack.gpu.clear_calls();
    // Until no paging buffer is free.
    for (int i = 0; i < 2000 && stack.adapter().floor().paging->enqueued() < 4000; ++i) {
      D3DDDI_MAPGPUVIRTUALADDRESS args = client.map_args(batches.pool, 1);
      ASSERT_EQ(client.map(args), kPendingStatus);
    }
    ASSERT_EQ(client.update(second, batches.fence, ++batches.value,
                            {map_op(batches.pool, base, 4 * kPage, 2 * kPage)}, true),
              0);
    ASSERT_EQ(stack.miniport.calls().create_contexts.size(), created + 1);
    ASSERT_TRUE(stack.gpu.calls().roots.empty()) << "the paging is not far enough behind";
    EXPECT_EQ(client.destroy_context(second), 0);
    stack.drive();
    EXPECT_FALSE(stack.gpu.calls().roots.empty());
    EXPECT_FALSE(stack.gpu.calls().copies.empty());
    EXPECT_TRUE(client.walk(base + 3 * kPage).valid);
    EXPECT_EQ(stack.gpu.contexts().size(), contexts - 1);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// The adapter is reset while a process is ending, at any step: tables that are on their way out are
// not made again behind it.
TEST_F(VaSecondSpaceTest, AProcessThatEndsAsTheAdapterIsResetLeavesNoTables) {
  DXGKIT_COVERS("VA-34", "PAGE-02");
  bool over = false;
  for (int step = 0; !over && step < 100; ++step) {
    SCOPED_TRACE(step);
    running(GpuVaConfig::gpu_physical_four_level(), [&](GpuVaStack& stack) {
      VaClient bystander(stack, "bystander");
      stack.drive();
      const size_t rooms = rooms_of(stack);
      Batches batches(stack);
      VaClient& client = batches.client;
      const uint64_t base = client.make_reservation(k64);
      batches.update({map_op(batches.pool, base, kPage)});
      {
        Stack::Background end(stack, [&] {
          D3DKMT_DESTROYDEVICE args{.hDevice = client.device};
          EXPECT_EQ(client.call([&] { return D3DKMTDestroyDevice(&args); }), 0);
        });
        for (int i = 0; i < step; ++i) {
          static_cast<void>(end.finished());
          static_cast<void>(stack.miniport.complete_next(stack.miniport.config.paging_node));
        }
        over = end.finished();
        stack.adapter().core().lane().run([&] {
          stack.adapter().floor().timeout->require_adapter_reset(NodeOrdinal{0},
                                                                 "The test wants it.");
        });
        static_cast<void>(end.finished());
      }
      stack.drive();
      for (int i = 0; i < 100 && stack.statistics().adapter_resets == 0; ++i) {
        runtime::Runtime::current().sleep_for(10 * runtime::kMicrosecond);
        stack.drive();
      }
      EXPECT_EQ(stack.statistics().adapter_resets, 1U);
      EXPECT_EQ(rooms_of(stack), rooms);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(over) << "the process's end took more steps than were looked at";
}

// Without memory for it the reservation has not happened; the next one makes it.
TEST_F(VaSecondSpaceTest, WithoutMemoryForItNothingIsReserved) {
  DXGKIT_COVERS("VA-34");
  bool hit = true;
  for (uint64_t left = 0; hit && left < 40; ++left) {
    SCOPED_TRACE(left);
    hit = false;
    running(GpuVaConfig::gpu_physical_four_level(0), [&](GpuVaStack& stack) {
      Batches batches(stack);
      D3DDDI_RESERVEGPUVIRTUALADDRESS args{};
      args.hPagingQueue = batches.client.queue.handle;
      args.BaseAddress = 32 * kLeaf;
      args.Size = k64;
      args.ReservationType = D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS;
      stack.drive();
      const Digest before = digest(stack, {&batches.client});
      uint64_t remaining = left;
      stack.machine.set_page_fault([&](uint64_t) {
        if (remaining == 0) {
          hit = true;
          return true;
        }
        --remaining;
        return false;
      });
      const NTSTATUS status = batches.client.reserve(args);
      stack.machine.set_page_fault(nullptr);
      stack.drive();
      EXPECT_EQ(status == nt_status(Status::kNoMemory), hit) << status;
      EXPECT_EQ(batches.has_second(), !hit);
      if (hit) {
        EXPECT_EQ(digest(stack, {&batches.client}), before);
        EXPECT_EQ(batches.client.free_va(32 * kLeaf, k64), nt_status(Status::kInvalidParameter));
      }
      const uint64_t base = batches.client.make_reservation(k64);
      EXPECT_TRUE(batches.has_second());
      batches.update({map_op(batches.pool, base, kPage)});
      EXPECT_TRUE(batches.client.walk(base).valid);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_FALSE(hit);
}

// A driver that makes no context for it: entries are written.
TEST_F(VaSecondSpaceTest, WithoutAContextForItEntriesAreWritten) {
  DXGKIT_COVERS("VA-34");
  everywhere([](GpuVaStack& stack) {
    Batches batches(stack);
    const auto create = stack.miniport.hooks.create_context;
    int asked = 0;
    stack.miniport.hooks.create_context = [&](void* device, DXGKARG_CREATECONTEXT* args) {
      if (args->Flags.SystemContext == 0) return create(device, args);
      ++asked;
      return STATUS_NO_MEMORY;
    };
    const uint64_t base = batches.client.make_reservation(k64);
    batches.update({map_op(batches.pool, base, 4 * kPage)});
    EXPECT_TRUE(batches.client.walk(base + 3 * kPage).valid);
    batches.update({map_op(batches.pool, base + 8 * kPage, 2 * kPage)});
    EXPECT_TRUE(batches.client.walk(base + 9 * kPage).valid);
    EXPECT_EQ(asked, 1) << "it is not asked for each batch";
    EXPECT_TRUE(stack.gpu.calls().copies.empty());
    stack.miniport.hooks.create_context = create;
    EXPECT_EQ(batches.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// The client's context goes while the driver makes the companion: nobody is left to have it, and
// the driver gets it back. Where it could not make one there is nothing to give back.
TEST_F(VaSecondSpaceTest, ACompanionOfAContextThatIsGoneIsGivenBack) {
  DXGKIT_COVERS("VA-34", "LIFE-18");
  for (const bool made : {true, false}) {
    SCOPED_TRACE(made);
    running(GpuVaConfig::gpu_physical_four_level(), [&](GpuVaStack& stack) {
      Batches batches(stack);
      VaClient& client = batches.client;
      const uint64_t base = client.make_reservation(k64);
      const D3DKMT_HANDLE second = client.make_context_virtual();
      const size_t contexts = stack.gpu.contexts().size();
      const auto create = stack.miniport.hooks.create_context;
      std::optional<Stack::Background> goes;
      size_t asked = 0;
      stack.miniport.hooks.create_context = [&](void* device, DXGKARG_CREATECONTEXT* args) {
        ++asked;
        goes.emplace(stack, [&] {
          const D3DKMT_DESTROYCONTEXT gone{second};
          EXPECT_EQ(client.call([&] { return D3DKMTDestroyContext(&gone); }), 0);
        });
        static_cast<void>(goes->finished());
        return made ? create(device, args) : STATUS_NO_MEMORY;
      };
      NTSTATUS status = 0;
      stack.blocking([&] {
        status = client.update(second, batches.fence, ++batches.value,
                               {map_op(batches.pool, base, 4 * kPage)}, true);
      });
      stack.miniport.hooks.create_context = create;
      goes->finish();
      stack.drive();
      EXPECT_EQ(asked, 1U);
      EXPECT_EQ(status, nt_status(Status::kInvalidParameter));
      EXPECT_EQ(stack.gpu.contexts().size(), contexts - 1);
      EXPECT_FALSE(client.walk(base).valid);
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  }
}

// Its tables could not be made again after sleep: the process goes on, and entries are written.
TEST_F(VaSecondSpaceTest, WithoutItsTablesEntriesAreWritten) {
  DXGKIT_COVERS("VA-34", "PAGE-02");
  running(GpuVaConfig::two_level(PageTableUpdateMode::kGpuPhysical, 2), [](GpuVaStack& stack) {
    Batches batches(stack);
    VaClient& client = batches.client;
    batches.mapped = client.make_mapping(batches.pool, 16);
    const uint64_t base = client.make_reservation(4 * k64);
    batches.update({map_op(batches.pool, base, kPage)});
    ASSERT_FALSE(stack.gpu.calls().copies.empty());
    int asked = 0;
    stack.gpu.on_root_size = [&](const DXGKARG_GETROOTPAGETABLESIZE*) -> SIZE_T {
      // The first one is paging's own; for the others there is no room.
      return ++asked == 1 ? kMebibyte : SIZE_T{4} * 1024 * kMebibyte - kPage;
    };
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
      if (state == PowerDeviceD3) stack.gpu.lose_power();
      return STATUS_SUCCESS;
    };
    for (const dxgk::PowerTarget target : {dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kD0}) {
      stack.blocking([&] { EXPECT_TRUE(stack.system->set_power(stack.luid, target).has_value()); });
    }
    stack.miniport.hooks.set_power_state = nullptr;
    stack.gpu.on_root_size = nullptr;
    stack.drive();
    EXPECT_EQ(asked, 3);
    // The process's own come back as it runs.
    ASSERT_EQ(client.submit(client.context, base, 0), 0);
    stack.drive();
    stack.gpu.clear_calls();
    batches.update({map_op(batches.pool, base + kPage, 4 * kPage, 5 * kPage)});
    EXPECT_TRUE(stack.gpu.calls().copies.empty());
    for (uint64_t page = 0; page < 4; ++page) {
      ASSERT_TRUE(client.walk(base + (page + 1) * kPage).valid);
      EXPECT_EQ(client.walk(base + (page + 1) * kPage).place, batches.of_pool(page + 5).place);
    }
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Tables so large that a second space has no addresses for its slots: no batch could be carried out
// in a reservation, and so there is none. Mappings need no second space.
TEST_F(VaSecondSpaceTest, WithoutAddressesForItNothingIsReserved) {
  DXGKIT_COVERS("VA-34", "PAGE-40");
  GpuVaConfig config = GpuVaConfig::two_level(PageTableUpdateMode::kGpuPhysical, 2);
  config.va_bits = 26;
  for (port::PageTableLevelDesc& level : config.levels) level.paging_process_segment = 1;
  config.levels[0].table_bytes = 2 * kMebibyte;
  running(config, [](GpuVaStack& stack) {
    Batches batches(stack);
    VaClient& client = batches.client;
    D3DDDI_RESERVEGPUVIRTUALADDRESS args{};
    args.hPagingQueue = client.queue.handle;
    args.Size = 4 * k64;
    args.ReservationType = D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS;
    stack.drive();
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.reserve(args), nt_status(Status::kNoMemory));
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_FALSE(batches.has_second());
    batches.mapped = client.make_mapping(batches.pool, 16);
    EXPECT_TRUE(batches.of_pool(15).valid) << batches.of_pool(15).why;
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
