// Page tables without memory: what fails changes nothing, what cannot fail lets nobody reach what
// is not his any more, and what could not be written is made up for.
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr uint64_t kLeaf = 2 * kMebibyte;  // what a leaf table covers
constexpr uint64_t k64 = 64 * kKibibyte;

/// Tables in system memory, where tests decide whether there is any.
class VaMemoryTest : public GpuVaTest {
 protected:
  static void everywhere(const Body& body, const Body& prepare = nullptr) {
    for (const GpuVaConfig& config :
         {GpuVaConfig::cpu_virtual_two_level(), GpuVaConfig::gpu_physical_four_level(0)}) {
      SCOPED_TRACE(config.levels.size());
      running(config, body, prepare);
      if (HasFatalFailure()) return;
    }
  }
};

/// The machine gives out `pages_left` times more, then nothing, as long as it lives.
class Shortage {
 public:
  Shortage(GpuVaStack& stack, uint64_t left) : machine_(stack.machine), left_(left) {
    machine_.set_page_fault([this](uint64_t) {
      if (left_ == 0) {
        hit_ = true;
        return true;
      }
      --left_;
      return false;
    });
  }
  ~Shortage() { machine_.set_page_fault(nullptr); }
  bool hit() const { return hit_; }

 private:
  bus::Machine& machine_;
  uint64_t left_;
  bool hit_ = false;
};

/// A second device of the client's process, with a context.
D3DKMT_HANDLE another_context(VaClient& client) {
  const D3DKMT_HANDLE first = std::exchange(client.device, client.make_device());
  const D3DKMT_HANDLE context = client.make_context_virtual();
  client.device = first;
  return context;
}

// A large page cannot lose one of its pages without a table for the others. Without memory for
// that table it goes whole: nobody reaches what was freed, and the devices that may have used the
// rest are in error.
TEST_F(VaMemoryTest, FreeInsideALargePageWithoutMemoryTakesAllOfIt) {
  DXGKIT_COVERS("VA-41", "VA-46");
  everywhere(
      [](GpuVaStack& stack) {
        VaClient client(stack);
        VaClient other(stack, "other");
        ScriptedAllocation large;
        large.size = large.alignment = kLeaf;
        large.supported_read = large.supported_write = kMemorySet;
        const D3DKMT_HANDLE a = client.make_allocation(large);
        client.list({a});
        stack.drive();
        const uint64_t va = client.make_mapping(a, kLeaf / kPage, 16 * kLeaf);
        ASSERT_TRUE(client.walk(va).valid) << client.walk(va).why;
        ASSERT_EQ(client.walk(va).level, 1U) << "a large page";
        {
          Shortage shortage(stack, 0);
          EXPECT_EQ(client.free_va(va + 5 * kPage, kPage), 0);
          stack.drive();
          EXPECT_TRUE(shortage.hit());
          for (uint64_t page = 0; page < kLeaf / kPage; ++page)
            ASSERT_FALSE(client.walk(va + page * kPage).valid) << page;
          EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
          EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
        }
        // What was freed is free, and the rest still the client's.
        EXPECT_EQ(client.free_va(va + 5 * kPage, kPage), nt_status(Status::kInvalidParameter));
        EXPECT_EQ(client.free_va(va, 5 * kPage), 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](GpuVaStack& stack) { stack.gpu.config.large_page = true; });
}

// Mapped where there are no tables, resident while there is no memory for them: devices of the
// process pay, others do not, and the next context of the process finds everything in place.
TEST_F(VaMemoryTest, PagesThatCouldNotBeWrittenAreMadeUpFor) {
  DXGKIT_COVERS("VA-29");
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack);
    VaClient other(stack, "other");
    const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
    // Zeros share 64 KiB with the first mapping; the second has no table yet.
    const uint64_t here = 20 * kLeaf, there = 21 * kLeaf, zeros = here + 8 * kPage;
    auto zero = client.map_args(0, 2, zeros);
    zero.Protection = protection(kZero);
    client.make_mapping(zero);
    ASSERT_EQ(client.make_mapping(a, 4, here), here);
    ASSERT_EQ(client.make_mapping(a, 4, there), there);
    ASSERT_TRUE(client.walk(zeros).valid);
    {
      Shortage shortage(stack, 0);
      EXPECT_GE(client.make_resident({a}), 0);
      stack.drive();
      EXPECT_TRUE(shortage.hit());
      for (const uint64_t va : {here, there, zeros}) EXPECT_FALSE(client.walk(va).valid) << va;
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
      EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      // Destroying it asks for no table either.
      EXPECT_EQ(client.free_va(there, 4 * kPage), 0);
    }
    another_context(client);
    stack.drive();
    EXPECT_TRUE(client.walk(zeros).valid && client.walk(zeros + kPage).zero);
    EXPECT_TRUE(client.walk(here).valid) << "nobody has needed its room since";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What is hidden lies in the middle of a table. Where others are mapped around it, they stay as
// they are; where nobody is, nothing is left that the table could say, and it goes.
TEST_F(VaMemoryTest, WhatLiesAroundPagesThatCouldNotBeWrittenStays) {
  DXGKIT_COVERS("VA-29");
  for (const bool alone : {false, true}) {
    SCOPED_TRACE(alone ? "alone" : "between others");
    everywhere([&](GpuVaStack& stack) {
      VaClient client(stack);
      const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
      const uint64_t leaf = 20 * kLeaf, here = leaf + 5 * k64, there = 21 * kLeaf;
      const uint64_t before = leaf + 3 * kPage, after = leaf + 9 * k64;
      const auto map_zeros = [&](uint64_t va) {
        auto args = client.map_args(0, 2, va);
        args.Protection = protection(kZero);
        ASSERT_EQ(client.make_mapping(args), va);
      };
      const auto leaves = [&] {
        const auto tables = stack.gpu.tables_of(client.process_handle()).tables;
        const auto found = tables.find(0);
        return found == tables.end() ? size_t{0} : found->second.size();
      };
      const size_t leaves_before = leaves();
      map_zeros(here + 8 * kPage);  // the table of the first mapping is there
      if (!alone) map_zeros(before);
      if (!alone) map_zeros(after);
      ASSERT_EQ(client.make_mapping(a, 4, here), here);
      ASSERT_EQ(client.make_mapping(a, 4, there), there);
      EXPECT_EQ(leaves(), leaves_before + 1);
      {
        Shortage shortage(stack, 0);
        EXPECT_GE(client.make_resident({a}), 0);
        stack.drive();
        EXPECT_TRUE(shortage.hit());
        for (const uint64_t va : {here, here + 8 * kPage, there})
          EXPECT_FALSE(client.walk(va).valid) << va;
        for (const uint64_t va : {before, before + kPage, after, after + kPage})
          EXPECT_EQ(client.walk(va).valid, !alone) << va;
        EXPECT_EQ(leaves(), leaves_before + (alone ? 0 : 1));
      }
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
    if (HasFatalFailure()) return;
  }
}

// Around what is hidden something is mapped that has no place now. Its entries say nothing, and the
// table stays for it, on whichever side it lies.
TEST_F(VaMemoryTest, ATableStaysForWhatIsAwayBesidePagesThatCouldNotBeWritten) {
  DXGKIT_COVERS("VA-29");
  for (const bool behind : {false, true}) {
    SCOPED_TRACE(behind);
    everywhere([&](GpuVaStack& stack) {
      VaClient client(stack);
      const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
      const D3DKMT_HANDLE away = client.make_allocation(2 * kPage, kMemorySet);
      const uint64_t leaf = 20 * kLeaf, here = leaf + 5 * k64, there = 21 * kLeaf;
      const uint64_t beside = leaf + (behind ? 9 * k64 : 3 * kPage);
      const auto leaves = [&] {
        const auto tables = stack.gpu.tables_of(client.process_handle()).tables;
        const auto found = tables.find(0);
        return found == tables.end() ? size_t{0} : found->second.size();
      };
      const size_t leaves_before = leaves();
      auto zeros = client.map_args(0, 2, here + 8 * kPage);
      zeros.Protection = protection(kZero);
      client.make_mapping(zeros);
      ASSERT_EQ(client.make_mapping(away, 2, beside), beside);
      ASSERT_EQ(client.make_mapping(a, 4, here), here);
      ASSERT_EQ(client.make_mapping(a, 4, there), there);
      ASSERT_EQ(leaves(), leaves_before + 1);
      {
        Shortage shortage(stack, 0);
        EXPECT_GE(client.make_resident({a}), 0);
        stack.drive();
        EXPECT_TRUE(shortage.hit());
        for (const uint64_t va : {here, here + 8 * kPage, beside})
          EXPECT_FALSE(client.walk(va).valid) << va;
        EXPECT_EQ(leaves(), leaves_before + 1);
      }
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
    if (HasFatalFailure()) return;
  }
}

// Of two tables with hidden pages the first has others behind them: it stays, the second goes.
TEST_F(VaMemoryTest, ATableStaysForItsOwnPagesOnly) {
  DXGKIT_COVERS("VA-29");
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
    const uint64_t first = 20 * kLeaf + 5 * k64, second = 21 * kLeaf + 5 * k64, there = 23 * kLeaf;
    const uint64_t behind = 20 * kLeaf + 9 * k64;
    const auto leaves = [&] {
      const auto tables = stack.gpu.tables_of(client.process_handle()).tables;
      const auto found = tables.find(0);
      return found == tables.end() ? size_t{0} : found->second.size();
    };
    const size_t leaves_before = leaves();
    for (const uint64_t va : {first + 8 * kPage, second + 8 * kPage, behind}) {
      auto args = client.map_args(0, 2, va);
      args.Protection = protection(kZero);
      ASSERT_EQ(client.make_mapping(args), va);
    }
    for (const uint64_t va : {first, second, there}) ASSERT_EQ(client.make_mapping(a, 4, va), va);
    ASSERT_EQ(leaves(), leaves_before + 2);
    {
      Shortage shortage(stack, 0);
      EXPECT_GE(client.make_resident({a}), 0);
      stack.drive();
      EXPECT_TRUE(shortage.hit());
      for (const uint64_t va : {first, first + 8 * kPage, second, second + 8 * kPage, there})
        EXPECT_FALSE(client.walk(va).valid) << va;
      EXPECT_TRUE(client.walk(behind).valid);
      EXPECT_EQ(leaves(), leaves_before + 1);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What the process maps next brings what is owed, and itself.
TEST_F(VaMemoryTest, PagesThatAreOwedComeWithTheNextOnes) {
  DXGKIT_COVERS("VA-29");
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
    const uint64_t here = 20 * kLeaf, beside = 22 * kLeaf + 3 * kPage;
    ASSERT_EQ(client.make_mapping(a, 4, here), here);
    // A device of the process that has no context, so nothing it could have seen.
    const D3DKMT_HANDLE first = std::exchange(client.device, client.make_device());
    const Queue survivor = client.make_queue();
    client.device = first;
    {
      Shortage shortage(stack, 0);
      EXPECT_GE(client.make_resident({a}), 0);
      stack.drive();
      EXPECT_TRUE(shortage.hit());
      EXPECT_FALSE(client.walk(here).valid);
    }
    client.queue = survivor;
    auto args = client.map_args(0, 2, beside);
    args.Protection = protection(kZero);
    ASSERT_EQ(client.make_mapping(args), beside);
    EXPECT_TRUE(client.walk(here).valid && client.walk(here + 3 * kPage).valid);
    EXPECT_TRUE(client.walk(beside).zero && client.walk(beside + kPage).zero);
    EXPECT_FALSE(client.walk(beside + 2 * kPage).valid);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Each allocation of a page is refused in turn: all of a batch is seen, or nothing of it, with what
// was there before; the fence comes either way, and whoever is left in the process goes on.
TEST_F(VaMemoryTest, ABatchIsCarriedOutWholeOrNotAtAll) {
  DXGKIT_COVERS("VA-36", "VA-38");
  bool hit = true;
  for (uint64_t left = 0; hit; ++left) {
    SCOPED_TRACE(left);
    hit = false;
    everywhere([&](GpuVaStack& stack) {
      VaClient client(stack);
      const D3DKMT_HANDLE first = std::exchange(client.device, client.make_device());
      const D3DKMT_HANDLE survivor = client.make_context_virtual();
      const D3DKMT_HANDLE survivors_device = std::exchange(client.device, first);
      const D3DKMT_HANDLE pool = client.make_allocation(64 * kPage, kMemorySet);
      client.list({pool});
      stack.drive();
      const uint64_t base = client.make_reservation(4 * kLeaf, 32 * kLeaf);
      D3DKMT_CREATESYNCHRONIZATIONOBJECT2 created{};
      const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE, 0, 1, &created);
      const auto value = [&] {
        return *static_cast<volatile uint64_t*>(
            created.Info.MonitoredFence.FenceValueCPUVirtualAddress);
      };
      ASSERT_EQ(client.update(client.context, fence, 0, {unmap_op(base, 4 * kPage, kZero)}, true),
                0);
      stack.drive();
      ASSERT_TRUE(client.walk(base).zero);
      ASSERT_EQ(client.update(client.context, fence, 3,
                              {map_op(pool, base, 2 * kPage), unmap_op(base + 3 * kPage, kPage),
                               map_op(pool, base + kLeaf, kPage, 5 * kPage),
                               map_op(pool, base + 2 * kLeaf, kPage, 6 * kPage)}),
                0);
      bool failed = false;
      {
        Shortage shortage(stack, left);
        ASSERT_EQ(client.signal_cpu(fence, 3), 0);
        stack.drive();
        failed = shortage.hit();
      }
      hit = hit || failed;
      // A lost device sets its fences free (SYNC-13).
      EXPECT_EQ(value(), failed ? UINT64_MAX : 4U);
      if (failed) {
        for (uint64_t page = 0; page < 4; ++page)
          EXPECT_TRUE(client.walk(base + page * kPage).zero) << page;
        for (const uint64_t va : {base + kLeaf, base + 2 * kLeaf})
          EXPECT_FALSE(client.walk(va).valid);
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
      } else {
        EXPECT_FALSE(client.walk(base).zero);
        EXPECT_TRUE(client.walk(base + 2 * kPage).zero);
        EXPECT_FALSE(client.walk(base + 3 * kPage).valid);
        for (const uint64_t va : {base, base + kPage, base + kLeaf, base + 2 * kLeaf})
          EXPECT_TRUE(client.walk(va).valid);
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      }
      client.device = survivors_device;
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      const D3DKMT_HANDLE own = client.make_sync(D3DDDI_MONITORED_FENCE);
      // What it copies is what the failed batch should have left: the addresses, not only entries.
      EXPECT_EQ(client.update(survivor, own, 0, {copy_op(base, base + 3 * kLeaf, 4 * kPage)}, true),
                0);
      stack.drive();
      EXPECT_TRUE(client.walk(base + 3 * kLeaf + 2 * kPage).zero);
      EXPECT_EQ(client.walk(base + 3 * kLeaf).zero, failed);
      EXPECT_EQ(client.walk(base + 3 * kLeaf + 3 * kPage).zero, failed);
      client.device = first;
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
    if (HasFatalFailure() || left > 20) break;
  }
}

// The same of Map and Reserve: STATUS_NO_MEMORY leaves addresses, entries and pages as they were.
TEST_F(VaMemoryTest, AMapWithoutMemoryForItsTablesChangesNothing) {
  DXGKIT_COVERS("VA-12", "VA-30");
  bool hit = true;
  for (uint64_t left = 0; hit; ++left) {
    SCOPED_TRACE(left);
    hit = false;
    everywhere([&](GpuVaStack& stack) {
      VaClient client(stack);
      const D3DKMT_HANDLE a = client.make_allocation(1024 * kPage, kMemorySet);
      client.list({a});
      stack.drive();
      const uint64_t base = client.make_reservation(4 * kLeaf, 32 * kLeaf);
      auto zero = client.map_args(0, 16, base);
      zero.Protection = protection(kZero);
      client.make_mapping(zero);
      const uint64_t free_place = 64 * kLeaf - 4 * kPage;
      for (const uint64_t at : {base + 8 * kPage, free_place}) {
        stack.drive();
        const Digest before = digest(stack, {&client});
        auto args = client.map_args(a, 1024, at);
        args.VirtualAddress = args.PagingFenceValue = 0x5C5C;
        NTSTATUS status = 0;
        bool failed = false;
        {
          Shortage shortage(stack, left);
          status = client.map(args);
          failed = shortage.hit();
        }
        hit = hit || failed;
        stack.drive();
        if (!failed) {
          EXPECT_TRUE(status == 0 || status == kPendingStatus) << status;
          EXPECT_TRUE(client.walk(at + 1023 * kPage).valid);
          continue;
        }
        EXPECT_EQ(status, nt_status(Status::kNoMemory));
        Digest after = digest(stack, {&client});
        after.driver_calls = before.driver_calls;  // how large a root would be
        EXPECT_EQ(after, before);
        EXPECT_EQ(args.VirtualAddress, 0x5C5CU);
        EXPECT_EQ(args.PagingFenceValue, 0x5C5CU);
        if (at != free_place) {
          EXPECT_TRUE(client.walk(base).zero && client.walk(base + 15 * kPage).zero);
          EXPECT_FALSE(client.walk(base + 16 * kPage).valid);
        }
        EXPECT_FALSE(client.walk(free_place).valid);
        // Free as before: taken by the next one.
        if (at == free_place) {
          EXPECT_EQ(client.make_mapping(a, 1, at), at);
        }
      }
      D3DDDI_RESERVEGPUVIRTUALADDRESS reserve{};
      reserve.hPagingQueue = client.queue.handle;
      reserve.BaseAddress = 96 * kLeaf;
      reserve.Size = 3 * kLeaf;
      reserve.ReservationType = D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO;
      NTSTATUS status = 0;
      bool failed = false;
      {
        Shortage shortage(stack, left);
        status = client.reserve(reserve);
        failed = shortage.hit();
      }
      hit = hit || failed;
      stack.drive();
      EXPECT_EQ(status == nt_status(Status::kNoMemory), failed);
      EXPECT_EQ(client.walk(reserve.BaseAddress).valid, !failed);
      EXPECT_EQ(client.free_va(reserve.BaseAddress, k64),
                nt_status(failed ? Status::kInvalidParameter : Status::kSuccess));
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
    if (HasFatalFailure() || left > 20) break;
  }
}

// What a failed map had taken over is its reservation's again, without a hole.
TEST_F(VaMemoryTest, AMapThatFailedLeavesItsReservationWhole) {
  DXGKIT_COVERS("VA-12", "VA-30");
  everywhere([&](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(1024 * kPage, kMemorySet);
    client.list({a});
    stack.drive();
    const uint64_t base = client.make_reservation(4 * kLeaf, 32 * kLeaf);
    auto args = client.map_args(a, 1024, base + 8 * kPage);
    {
      Shortage shortage(stack, 0);
      EXPECT_EQ(client.map(args), nt_status(Status::kNoMemory));
      ASSERT_TRUE(shortage.hit());
    }
    // Nobody else gets an address in it.
    args = client.map_args(a, 4);
    args.MinimumAddress = base;
    EXPECT_EQ(client.make_mapping(args), base + 4 * kLeaf);
    EXPECT_EQ(client.free_va(base, 4 * kLeaf), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
