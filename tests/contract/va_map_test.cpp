// Arguments of Map, Reserve and Free, one rule at a time: the exact status, and nothing changed.
#include "dxgk/adapter/adapter.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using VaMapTest = GpuVaTest;

constexpr uint64_t k64 = 64 * kKibibyte;

/// Everything a refused call may not touch: the kernel's objects, and each entry of the tables.
struct Unchanged {
  Unchanged(GpuVaStack& stack, VaClient& client) : stack_(stack), client_(client) {
    stack.drive();
    before_ = digest(stack, {&client});
    updates_ = stack.gpu.calls().updates.size();
  }
  ~Unchanged() {
    stack_.drive();
    EXPECT_EQ(digest(stack_, {&client_}), before_);
    EXPECT_EQ(stack_.gpu.calls().updates.size(), updates_);
  }
  GpuVaStack& stack_;
  VaClient& client_;
  Digest before_;
  size_t updates_ = 0;
};

TEST_F(VaMapTest, RefusesWhatTheRulesForbid) {
  DXGKIT_COVERS("VA-14", "VA-16", "VA-17", "VA-18", "VA-19", "VA-20", "VA-21", "VA-25");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE allocation = client.make_allocation(4 * kPage, kMemorySet);
    client.list({allocation});
    const uint64_t taken = client.make_mapping(allocation, 4);
    const uint64_t end = uint64_t{1} << stack.adapter().gpu_va_model()->geometry.va_bits;
    const D3DKMT_HANDLE gone = client.make_allocation(4 * kPage, kMemorySet);
    EXPECT_EQ(client.destroy_allocation(gone), 0);
    using Args = D3DDDI_MAPGPUVIRTUALADDRESS;
    const std::vector<std::pair<const char*, std::function<void(Args&)>>> rows = {
        {"base misaligned", [&](Args& a) { a.BaseAddress = taken + 8 * kPage + 1; }},
        {"minimum misaligned", [](Args& a) { a.MinimumAddress = 0x4000'0001; }},
        {"maximum misaligned", [](Args& a) { a.MaximumAddress = 0x0800'0001; }},
        {"minimum above maximum",
         [](Args& a) {
           a.MinimumAddress = 0x0900'0000;
           a.MaximumAddress = 0x0800'0000;
         }},
        {"no pages", [](Args& a) { a.SizeInPages = 0; }},
        {"past the allocation", [](Args& a) { a.SizeInPages = 5; }},
        {"offset past the allocation", [](Args& a) { a.OffsetInPages = 4; }},
        {"sum wraps",
         [](Args& a) {
           a.OffsetInPages = UINT64_MAX;
           a.SizeInPages = 2;
         }},
        {"size wraps", [](Args& a) { a.SizeInPages = UINT64_MAX; }},
        {"size in bytes wraps", [](Args& a) { a.SizeInPages = uint64_t{1} << 52; }},
        {"base at the end", [](Args& a) { a.BaseAddress = uint64_t{1} << 62; }},
        {"base at the driver's end", [&](Args& a) { a.BaseAddress = end; }},
        {"past the driver's end", [&](Args& a) { a.BaseAddress = end - 2 * kPage; }},
        {"half of it taken", [&](Args& a) { a.BaseAddress = taken + 2 * kPage; }},
        {"an allocation that is gone", [&](Args& a) { a.hAllocation = gone; }},
        {"base wraps", [](Args& a) { a.BaseAddress = ~uint64_t{4095}; }},
        {"address 0 page", [](Args& a) { a.BaseAddress = kPage; }},
        {"no access with an allocation", [](Args& a) { a.Protection.Value = kNoAccess; }},
        {"zero with an allocation", [](Args& a) { a.Protection.Value = kZero; }},
        {"no allocation",
         [](Args& a) {
           a.hAllocation = 0;
           a.Protection.Value = kWrite;
         }},
        {"zero and no access",
         [](Args& a) {
           a.hAllocation = 0;
           a.Protection.Value = kZero | kNoAccess;
         }},
        {"zero and write",
         [](Args& a) {
           a.hAllocation = 0;
           a.Protection.Value = kZero | kWrite;
         }},
        {"no access and execute",
         [](Args& a) {
           a.hAllocation = 0;
           a.Protection.Value = kNoAccess | kExecute;
         }},
        {"system use", [](Args& a) { a.Protection.Value = kWrite | kSystemUseOnly; }},
        {"unknown protection", [](Args& a) { a.Protection.Value = kWrite | 32; }},
        {"reserved 0", [](Args& a) { a.Reserved0 = 1; }},
        {"reserved 1", [](Args& a) { a.Reserved1 = 1; }},
        {"no queue", [](Args& a) { a.hPagingQueue = 0; }},
        {"no such queue", [&](Args& a) { a.hPagingQueue = allocation; }},
        {"no such allocation", [&](Args& a) { a.hAllocation = client.queue.handle; }},
    };
    for (const auto& [what, change] : rows) {
      SCOPED_TRACE(what);
      Unchanged unchanged(stack, client);
      Args args = client.map_args(allocation, 4);
      args.VirtualAddress = args.PagingFenceValue = 0x5C5C;
      change(args);
      EXPECT_EQ(client.map(args), nt_status(Status::kInvalidParameter));
      EXPECT_EQ(args.VirtualAddress, 0x5C5CU);
      EXPECT_EQ(args.PagingFenceValue, 0x5C5CU);
    }
    // Bounds with nothing between them are no wrong argument.
    Unchanged unchanged(stack, client);
    Args args = client.map_args(allocation, 4);
    args.MinimumAddress = end;
    EXPECT_EQ(client.map(args), nt_status(Status::kNoMemory));
    args.MinimumAddress = 0;
    args.MaximumAddress = 3 * kPage;
    EXPECT_EQ(client.map(args), nt_status(Status::kNoMemory));
  });
}

// What the driver withheld when the process was created is nobody's to map, reserve or free, unless
// it lets clients map there; and freeing that does not make it the client's.
TEST_F(VaMapTest, RangesOfTheDriverAreItsOwn) {
  DXGKIT_COVERS("VA-09", "VA-12", "VA-32", "VA-41");
  for (const bool mappable : {false, true}) {
    SCOPED_TRACE(mappable);
    running(
        [&](GpuVaStack& stack) {
          VaClient client(stack);
          const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
          client.list({a});
          const auto reservations = stack.gpu.calls().reservations;
          ASSERT_EQ(reservations.size(), 1U);
          ASSERT_EQ(reservations[0].first, 0);
          const uint64_t base = reservations[0].second;
          {
            Unchanged unchanged(stack, client);
            EXPECT_EQ(client.free_va(base, kPage), nt_status(Status::kInvalidParameter));
            D3DDDI_RESERVEGPUVIRTUALADDRESS reserve{};
            reserve.hPagingQueue = client.queue.handle;
            reserve.BaseAddress = base;
            reserve.Size = k64;
            EXPECT_EQ(client.reserve(reserve), nt_status(Status::kInvalidParameter));
          }
          if (mappable) {
            EXPECT_EQ(client.make_mapping(a, 4, base + kPage), base + kPage);
            EXPECT_TRUE(client.walk(base + 4 * kPage).valid);
            return;
          }
          Unchanged unchanged(stack, client);
          auto args = client.map_args(a, 4, base + kPage);
          EXPECT_EQ(client.map(args), nt_status(Status::kInvalidParameter));
        },
        [&](GpuVaStack& stack) {
          stack.gpu.config.reservations = {
              {.size = 4 * kMebibyte, .base = 16 * kMebibyte, .user_mappable = mappable}};
        });
  }
}

TEST_F(VaMapTest, TheQueueBelongsToTheCaller) {
  DXGKIT_COVERS("VA-10", "VA-07");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    VaClient other(stack, "other");
    const D3DKMT_HANDLE allocation = client.make_allocation(4 * kPage, kMemorySet);
    client.list({allocation});
    const uint64_t va = client.make_mapping(allocation, 4);
    // The other process has the same address free, and nothing of ours.
    const D3DKMT_HANDLE theirs = other.make_allocation(4 * kPage, kMemorySet);
    EXPECT_EQ(other.make_mapping(theirs, 4, va), va);
    {
      Unchanged unchanged(stack, other);
      EXPECT_EQ(other.free_va(va + k64, kPage), nt_status(Status::kInvalidParameter));
    }
    const D3DKMT_HANDLE gone = client.queue.handle;
    EXPECT_EQ(client.destroy_queue(gone), 0);
    Unchanged unchanged(stack, client);
    auto args = client.map_args(allocation, 4);
    EXPECT_EQ(client.map(args), nt_status(Status::kInvalidParameter));
    client.queue = {};
  });
}

TEST_F(VaMapTest, AGivenBaseIsTakenExactlyOrRefused) {
  DXGKIT_COVERS("VA-11", "VA-12", "VA-13", "VA-26");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(16 * kPage, kMemorySet);
    client.list({a});
    const uint64_t base = 0x0400'0000;
    EXPECT_EQ(client.make_mapping(a, 8, base), base);
    // Inside what Map gave: fine; half inside, half free: refused.
    EXPECT_EQ(client.make_mapping(a, 2, base + 2 * kPage), base + 2 * kPage);
    {
      Unchanged unchanged(stack, client);
      auto args = client.map_args(a, 4, base + 6 * kPage);
      EXPECT_EQ(client.map(args), nt_status(Status::kInvalidParameter));
      // No access and zero are for free and reserved space only.
      args = client.map_args(0, 2, base);
      EXPECT_EQ(client.map(args), nt_status(Status::kInvalidParameter));
      args.Protection = protection(kZero);
      EXPECT_EQ(client.map(args), nt_status(Status::kInvalidParameter));
    }
    const uint64_t reserved = client.make_reservation(4 * k64, 0x0600'0000);
    ASSERT_EQ(reserved, 0x0600'0000U);
    EXPECT_EQ(client.make_mapping(a, 16, reserved + k64), reserved + k64);
    auto zero = client.map_args(0, 16, reserved + 2 * k64);
    zero.Protection = protection(kZero);
    EXPECT_EQ(client.make_mapping(zero), reserved + 2 * k64);
    const auto walk = client.walk(reserved + 2 * k64);
    EXPECT_TRUE(walk.valid && walk.zero) << walk.why;
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(VaMapTest, ChoosesTheLowestFitBetweenTheBounds) {
  DXGKIT_COVERS("VA-15", "VA-16", "VA-17", "VA-08");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(16 * kPage, kMemorySet);
    auto args = client.map_args(a, 16);
    args.MinimumAddress = 0x0500'0000;
    args.MaximumAddress = 0x0500'0000 + 32 * kPage;
    EXPECT_EQ(client.make_mapping(args), 0x0500'0000U);
    EXPECT_EQ(client.make_mapping(args), 0x0500'0000U + 16 * kPage);
    {
      Unchanged unchanged(stack, client);
      EXPECT_EQ(client.map(args), nt_status(Status::kNoMemory));
    }
    // With a base the bounds are not looked at.
    args.BaseAddress = 0x0700'0000;
    args.MinimumAddress = args.MaximumAddress = 1;
    EXPECT_EQ(client.make_mapping(args), 0x0700'0000U);
    EXPECT_NE(client.make_mapping(a, 1), 0U);
    EXPECT_FALSE(client.walk(0).valid);
  });
}

// Without tables of 64 KiB pages there is nothing to gain from an address that agrees with the
// offset: the lowest fit it is, however the allocation is aligned.
TEST_F(VaMapTest, AnAlignedAllocationNeedsNoAlignedAddress) {
  DXGKIT_COVERS("VA-15", "VA-43");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    ScriptedAllocation aligned;
    aligned.size = 32 * kPage;
    aligned.alignment = k64;
    aligned.supported_read = aligned.supported_write = kMemorySet;
    const D3DKMT_HANDLE a = client.make_allocation(aligned);
    client.list({a});
    auto args = client.map_args(a, 3);
    args.MinimumAddress = 0x0500'0000;
    EXPECT_EQ(client.make_mapping(args), 0x0500'0000U);
    args.OffsetInPages = 9;
    EXPECT_EQ(client.make_mapping(args), 0x0500'0000U + 3 * kPage);
    EXPECT_TRUE(client.walk(0x0500'0000U + 5 * kPage).valid);
  });
}

// There is a fence value to wait for only where something is not written yet, or to be forgotten.
TEST_F(VaMapTest, WhatTheProcessorWritesAtOnceHasNoFence) {
  DXGKIT_COVERS("VA-29", "PAGE-37");
  constexpr uint64_t kAt = 16 * kMebibyte;
  for (const bool forgets : {true, false}) {
    GpuVaConfig config = GpuVaConfig::cpu_virtual_two_level();
    config.caps = [&](DXGK_GPUMMUCAPS& caps) { caps.InvalidTlbEntriesNotCached = forgets ? 1 : 0; };
    const auto newer = [](GpuVaStack& stack) {
      stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_6;
    };
    const auto body = [&](GpuVaStack& stack) {
      VaClient client(stack);
      const D3DKMT_HANDLE data = client.make_allocation(4 * kPage, kMemorySet);
      client.list({data});
      stack.drive();
      client.make_mapping(data, 1, kAt);  // its table is there now
      const uint64_t value = client.queue.value();
      for (uint64_t page = 1; page < 4; ++page) {
        auto args = client.map_args(data, 1, kAt + page * kPage);
        EXPECT_EQ(client.map(args), forgets ? 0 : kPendingStatus) << page;
        if (forgets) {
          EXPECT_EQ(args.PagingFenceValue, 0U);
        } else {
          EXPECT_EQ(args.PagingFenceValue, value + page);
        }
        EXPECT_TRUE(client.walk(kAt + page * kPage).valid);
      }
      stack.drive();
      EXPECT_EQ(client.queue.value(), value + 3);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    };
    running(config, body, newer);
  }
}

TEST_F(VaMapTest, RemappingAPartKeepsTheRest) {
  DXGKIT_COVERS("VA-30", "VA-31");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(8 * kPage, kMemorySet);
    const D3DKMT_HANDLE b = client.make_allocation(8 * kPage, kMemorySet);
    client.list({a, b});
    const uint64_t va = client.make_mapping(a, 8);
    const uint64_t again = client.make_mapping(a, 8);
    const auto place_a = client.walk(va).place;
    auto args = client.map_args(b, 2, va + 3 * kPage);
    args.OffsetInPages = 5;
    args.Protection = protection(0);
    ASSERT_EQ(client.make_mapping(args), va + 3 * kPage);
    for (uint64_t page = 0; page < 8; ++page) {
      const auto walk = client.walk(va + page * kPage);
      ASSERT_TRUE(walk.valid) << walk.why;
      const bool remapped = page == 3 || page == 4;
      EXPECT_EQ(walk.writable, !remapped);
      if (!remapped) {
        EXPECT_EQ(walk.place.offset, place_a.offset + page * kPage);
      }
      EXPECT_EQ(client.walk(again + page * kPage).place.offset, place_a.offset + page * kPage);
    }
    EXPECT_NE(client.walk(va + 3 * kPage).place.segment, SegmentId{0});
  });
}

TEST_F(VaMapTest, DriverProtectionReachesTheEntries) {
  DXGKIT_COVERS("VA-23", "VA-24", "PAGE-35");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(8 * kPage, kMemorySet);
    client.list({a});
    auto args = client.map_args(a, 8);
    args.DriverProtection = 0x12'3456;
    const uint64_t va = client.make_mapping(args);
    EXPECT_EQ(client.walk(va).driver_protection, 0x12'3456U);
    // It is given back with each update of the range: after it was away.
    EXPECT_EQ(client.evict({a}), 0);
    stack.drive();
    client.list({a});
    stack.drive();
    EXPECT_EQ(client.walk(va + 7 * kPage).driver_protection, 0x12'3456U);
    for (const auto& update : stack.gpu.calls().updates) {
      if (update.args.PageTableLevel != 0) {
        EXPECT_EQ(update.args.DriverProtection, 0U);
      }
    }
    // Unique: nobody may map the pages with another one.
    const D3DKMT_HANDLE b = client.make_allocation(8 * kPage, kMemorySet);
    args = client.map_args(b, 4);
    args.DriverProtection = uint64_t{1} << 63 | 5;
    const uint64_t unique = client.make_mapping(args);
    {
      Unchanged unchanged(stack, client);
      args.DriverProtection = uint64_t{1} << 63 | 6;
      EXPECT_EQ(client.map(args), nt_status(Status::kInvalidParameter));
    }
    args.OffsetInPages = 4;
    client.make_mapping(args);
    EXPECT_EQ(client.free_va(unique, 4 * kPage), 0);
    args.OffsetInPages = 0;
    client.make_mapping(args);
  });
}

TEST_F(VaMapTest, ReserveTakesMultiplesOf64KiB) {
  DXGKIT_COVERS("VA-32", "VA-33");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    using Args = D3DDDI_RESERVEGPUVIRTUALADDRESS;
    const uint64_t taken = client.make_reservation(k64);
    const uint64_t end = uint64_t{1} << stack.adapter().gpu_va_model()->geometry.va_bits;
    const std::vector<std::pair<const char*, std::function<void(Args&)>>> rows = {
        {"base", [](Args& a) { a.BaseAddress = 0x0400'1000; }},
        {"minimum", [](Args& a) { a.MinimumAddress = 0x0400'1000; }},
        {"maximum", [](Args& a) { a.MaximumAddress = 0x0400'1000; }},
        {"size", [](Args& a) { a.Size = kPage; }},
        {"no size", [](Args& a) { a.Size = 0; }},
        {"size wraps",
         [&](Args& a) {
           a.BaseAddress = taken + k64;
           a.Size = ~(k64 - 1);
         }},
        {"taken", [&](Args& a) { a.BaseAddress = taken; }},
        {"minimum above maximum",
         [](Args& a) {
           a.MinimumAddress = 0x0900'0000;
           a.MaximumAddress = 0x0800'0000;
         }},
        {"past the driver's end",
         [&](Args& a) {
           a.BaseAddress = end - k64;
           a.Size = 2 * k64;
         }},
        {"at the driver's end", [&](Args& a) { a.BaseAddress = end; }},
        {"the lowest leaf", [](Args& a) { a.BaseAddress = k64; }},
        {"meets",
         [&](Args& a) {
           a.BaseAddress = taken - k64;
           a.Size = 2 * k64;
         }},
        {"type",
         [](Args& a) {
           a.ReservationType = static_cast<D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE>(3);
         }},
        {"handle", [](Args& a) { a.hPagingQueue = 0; }},
    };
    for (const auto& [what, change] : rows) {
      SCOPED_TRACE(what);
      Unchanged unchanged(stack, client);
      Args args{};
      args.hPagingQueue = client.queue.handle;
      args.Size = k64;
      args.VirtualAddress = 0x5C5C;
      change(args);
      EXPECT_EQ(client.reserve(args), nt_status(Status::kInvalidParameter));
      EXPECT_EQ(args.VirtualAddress, 0x5C5CU);
    }
    // By the adapter alone: plain, and its reserved members are zero.
    Args args{};
    args.hAdapter = client.adapter;
    args.Size = k64;
    EXPECT_EQ(client.reserve(args), 0);
    EXPECT_NE(args.VirtualAddress, 0U);
    EXPECT_FALSE(client.walk(args.VirtualAddress).valid);
    for (void (*const change)(Args&) :
         {+[](Args& a) { a.Reserved0 = 1; }, +[](Args& a) { a.Reserved1 = 1; },
          +[](Args& a) { a.Reserved2 = 1; }}) {
      Args wrong = args;
      wrong.VirtualAddress = 0x5C5C;
      change(wrong);
      EXPECT_EQ(client.reserve(wrong), nt_status(Status::kInvalidParameter));
      EXPECT_EQ(wrong.VirtualAddress, 0x5C5CU);
    }
    // There are addresses as long as the process has a device there.
    {
      VaClient other(stack, "other");
      Args plain{};
      plain.hAdapter = other.adapter;
      plain.Size = k64;
      EXPECT_EQ(other.reserve(plain), 0);
      EXPECT_EQ(other.destroy_device(other.device), 0);
      stack.drive();
      const uint64_t address = std::exchange(plain.VirtualAddress, 0x5C5C);
      EXPECT_EQ(other.reserve(plain), nt_status(Status::kInvalidParameter));
      EXPECT_EQ(plain.VirtualAddress, 0x5C5CU);
      EXPECT_EQ(other.free_va(address, k64), nt_status(Status::kInvalidParameter));
      other.device = other.make_device();
      EXPECT_EQ(other.free_va(address, k64), nt_status(Status::kInvalidParameter)) << "anew";
      EXPECT_EQ(other.reserve(plain), 0);
      EXPECT_EQ(plain.VirtualAddress, address);
    }
    const uint64_t zero = client.make_reservation(2 * k64, 0, D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO);
    EXPECT_TRUE(client.walk(zero + k64).zero);
    EXPECT_FALSE(client.walk(zero + 2 * k64).valid);
    // Between bounds: only a minimum means up to the end, only a maximum from 0 on.
    args = {};
    args.hPagingQueue = client.queue.handle;
    args.Size = k64;
    args.MinimumAddress = 0x0800'0000;
    EXPECT_EQ(client.reserve(args), 0);
    EXPECT_EQ(args.VirtualAddress, 0x0800'0000U);
    args.MinimumAddress = 0;
    args.MaximumAddress = 0x0800'0000;
    EXPECT_EQ(client.reserve(args), 0);
    EXPECT_LT(args.VirtualAddress, 0x0800'0000U);
  });
}

TEST_F(VaMapTest, FreeTakesWhatTheProcessHasAndGivesItBackAtOnce) {
  DXGKIT_COVERS("VA-41", "VA-42");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(8 * kPage, kMemorySet);
    client.list({a});
    const uint64_t va = client.make_mapping(a, 8);
    for (const auto& [base, size] :
         std::vector<std::pair<uint64_t, uint64_t>>{{va + 1, kPage},
                                                    {va, 0},
                                                    {va, 100},
                                                    {va, 9 * kPage},
                                                    {va - kPage, kPage},
                                                    {va, ~uint64_t{4095}},
                                                    {~uint64_t{4095}, 2 * kPage},
                                                    {0, kPage}}) {
      SCOPED_TRACE(::testing::PrintToString(std::pair(base, size)));
      Unchanged unchanged(stack, client);
      EXPECT_EQ(client.free_va(base, size), nt_status(Status::kInvalidParameter));
    }
    EXPECT_EQ(client.free_va(va + 2 * kPage, 2 * kPage), 0);
    EXPECT_TRUE(client.walk(va + kPage).valid);
    EXPECT_FALSE(client.walk(va + 2 * kPage).valid);
    EXPECT_FALSE(client.walk(va + 3 * kPage).valid);
    EXPECT_TRUE(client.walk(va + 4 * kPage).valid);
    // The hole is the lowest fit for the next, though nothing has run since.
    auto args = client.map_args(a, 2);
    args.MinimumAddress = va;
    EXPECT_EQ(client.map(args) & ~kPendingStatus, 0);
    EXPECT_EQ(args.VirtualAddress, va + 2 * kPage);
    stack.drive();
    EXPECT_TRUE(client.walk(va + 2 * kPage).valid);
    EXPECT_EQ(client.destroy_allocation(a), 0);  // ALLOC-30
    stack.drive();
    EXPECT_FALSE(client.walk(va).valid);
  });
}

TEST_F(VaMapTest, TheModelIsNeededAndContextsAreOfIt) {
  DXGKIT_COVERS("VA-01", "THUNK-13");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    Unchanged unchanged(stack, client);
    ContextBuffers context;
    EXPECT_EQ(client.create_context(&context), nt_status(Status::kInvalidParameter));
  });
}

}  // namespace
}  // namespace dxgkit::contract
