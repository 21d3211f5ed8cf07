// Residency: lists, counts, who waits and who gives way.
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr UINT kOnlyIfNecessary = 1, kNotWrittenTo = 2;

class ResTest : public ContractTest {
 protected:
  static void listing(const std::function<void(Stack&)>& body) {
    running(
        [&](Stack& stack) {
          body(stack);
          stack.miniport.hooks = {};
        },
        explicit_residency);
  }
  static void listing(const std::function<void(Stack&, ListingClient&)>& body) {
    listing([&](Stack& stack) {
      ListingClient client(stack);
      body(stack, client);
    });
  }
  /// Paging operations of a kind the driver was asked to build so far.
  static size_t operations(Stack& stack, DXGK_BUILDPAGINGBUFFER_OPERATION kind) {
    size_t count = 0;
    for (const auto& call : stack.miniport.calls().paging) count += call.args.Operation == kind;
    return count;
  }
  /// Submissions to a node that are on hardware.
  static size_t running_on(Stack& stack, uint32_t node) {
    stack.settle();
    return stack.miniport.outstanding(node).size();
  }
};

TEST_F(ResTest, CountsKeepItInUntilTheLastEvict) {
  DXGKIT_COVERS("RES-01", "RES-06", "RES-07", "RES-10", "PAGE-45", "THUNK-06");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE a = client.make(1), b = client.make(1);
    NTSTATUS status = 0;
    D3DDDI_MAKERESIDENT args = client.make_resident({a, b}, &status);
    EXPECT_EQ(status, nt_status(Status::kPending));
    EXPECT_EQ(args.PagingFenceValue, 1U);
    EXPECT_EQ(args.NumAllocations, 2U);
    EXPECT_EQ(args.NumBytesToTrim, 0U);
    EXPECT_FALSE(client.in_memory(a)) << "on its way";
    EXPECT_EQ(client.queue.value(), 0U);
    stack.drive();
    EXPECT_EQ(client.queue.value(), 1U);
    EXPECT_TRUE(client.in_memory(a));
    const size_t fills = operations(stack, DXGK_OPERATION_FILL);
    args = client.make_resident({a}, &status);
    EXPECT_EQ(status, 0) << "usable now";
    EXPECT_EQ(args.PagingFenceValue, 0U);
    EXPECT_EQ(args.NumAllocations, 1U);
    EXPECT_EQ(client.evict({a}), 0);
    stack.drive();
    EXPECT_TRUE(client.in_memory(a)) << "one count is left";
    EXPECT_EQ(client.memory().CurrentUsage, 2 * kUnit);
    EXPECT_EQ(client.evict({a}), 0);
    EXPECT_EQ(client.memory().CurrentUsage, kUnit);
    stack.drive();
    EXPECT_EQ(client.where(a), D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT);
    EXPECT_TRUE(client.in_memory(b));
    EXPECT_EQ(operations(stack, DXGK_OPERATION_FILL), fills);
    EXPECT_EQ(operations(stack, DXGK_OPERATION_TRANSFER), 1U) << "its content went home";
    EXPECT_EQ(client.make_resident({a}), nt_status(Status::kPending));
    stack.drive();
    EXPECT_EQ(operations(stack, DXGK_OPERATION_TRANSFER), 2U) << "and came back";
  });
}

TEST_F(ResTest, DuplicatesCountOncePerOccurrence) {
  DXGKIT_COVERS("RES-08", "RES-09");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE a = client.make(1), b = client.make(1);
    EXPECT_EQ(client.make_resident({a, a, b, a}), nt_status(Status::kPending));
    stack.drive();
    EXPECT_EQ(client.memory().CurrentUsage, 2 * kUnit) << "counted thrice, there once";
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.evict({b, a, a, a, a}), nt_status(Status::kInvalidParameter))
        << "one too many";
    EXPECT_EQ(client.evict({a, b, b}), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(client.memory().CurrentUsage, 2 * kUnit);
    EXPECT_EQ(client.evict({a, a}), 0);
    stack.drive();
    EXPECT_TRUE(client.in_memory(a));
    EXPECT_EQ(client.evict({b, a}), 0);
    EXPECT_EQ(client.memory().CurrentUsage, 0U);
    EXPECT_EQ(client.evict({a}), nt_status(Status::kInvalidParameter)) << "the count is 0";
  });
}

TEST_F(ResTest, HostileArgumentsChangeNothing) {
  DXGKIT_COVERS("RES-04", "RES-11", "THUNK-03", "THUNK-05");
  listing([](Stack& stack) {
    ListingClient client(stack), stranger(stack, "stranger");
    // Handles are per process: one whose value is no handle here.
    for (int i = 0; i < 8; ++i) static_cast<void>(stranger.make(1));
    const D3DKMT_HANDLE a = client.make(1), theirs = stranger.make(1), gone = client.make(1);
    ASSERT_EQ(client.destroy_allocation(gone, 2), 0);
    const D3DKMT_HANDLE second_device = client.make_device();
    D3DKMT_HANDLE elsewhere = 0;
    ASSERT_EQ(client.create_allocation({}, &elsewhere, second_device), 0);
    ASSERT_EQ(client.make_resident({a}), nt_status(Status::kPending));
    stack.drive();
    const Digest before = digest(stack, {&client, &stranger});
    const NTSTATUS invalid = nt_status(Status::kInvalidParameter);
    for (const D3DKMT_HANDLE bad :
         {theirs, gone, elsewhere, client.device, client.queue.handle, D3DKMT_HANDLE{0}}) {
      NTSTATUS status = 0;
      const D3DDDI_MAKERESIDENT args = client.make_resident({a, bad}, &status);
      EXPECT_EQ(status, invalid) << std::hex << bad;
      EXPECT_EQ(args.PagingFenceValue, 0x5C5C5C5CU) << "outputs stay";
      EXPECT_EQ(args.NumAllocations, 2U);
      EXPECT_EQ(args.NumBytesToTrim, 0x5C5C5C5CU);
      uint64_t trim = 0;
      EXPECT_EQ(client.evict({a, bad}, 0, &trim), invalid) << std::hex << bad;
      EXPECT_EQ(trim, 0x5C5C5C5CU);
    }
    D3DDDI_MAKERESIDENT_FLAGS flags{};
    flags.MustSucceed = 1;
    EXPECT_EQ(client.make_resident({a}, flags), invalid) << "MustSucceed alone";
    for (UINT bit = 2; bit < 32; ++bit) {
      flags.Value = 1U << bit;
      EXPECT_EQ(client.make_resident({a}, flags), invalid) << bit;
      EXPECT_EQ(client.evict({a}, 1U << bit), invalid) << bit;
    }
    EXPECT_EQ(client.make_resident({}), invalid);
    EXPECT_EQ(client.evict({}), invalid);
    D3DDDI_MAKERESIDENT args{};
    args.hPagingQueue = client.queue.handle;
    args.AllocationList = &a;
    D3DKMT_EVICT out{};
    out.hDevice = client.device;
    out.AllocationList = &a;
    args.NumAllocations = out.NumAllocations = UINT32_MAX;
    EXPECT_EQ(client.call([&] { return D3DKMTMakeResident(&args); }), invalid);
    EXPECT_EQ(client.call([&] { return D3DKMTEvict(&out); }), invalid);
    args.NumAllocations = out.NumAllocations = 1;
    args.AllocationList = out.AllocationList = nullptr;
    EXPECT_EQ(client.call([&] { return D3DKMTMakeResident(&args); }), invalid);
    EXPECT_EQ(client.call([&] { return D3DKMTEvict(&out); }), invalid);
    args.AllocationList = out.AllocationList = reinterpret_cast<D3DKMT_HANDLE*>(uintptr_t{0x10});
    EXPECT_EQ(client.call([&] { return D3DKMTMakeResident(&args); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(client.call([&] { return D3DKMTEvict(&out); }), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client, &stranger}), before);
    EXPECT_EQ(client.memory().CurrentUsage, kUnit);
    EXPECT_EQ(client.evict({a}), 0) << "the one count it has";
    EXPECT_EQ(client.evict({a}), invalid);
  });
}

TEST_F(ResTest, LegacyContextsHaveTheirAllocationListsOnly) {
  DXGKIT_COVERS("RES-24");
  running([](Stack& stack) {
    ListingClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(kUnit, kMemorySet);
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.make_resident({a}), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(client.evict({a}), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
    ContextBuffers context = client.make_context();
    EXPECT_EQ(client.render(context, work_on({a})), 0);
    stack.drive();
    EXPECT_TRUE(client.in_memory(a)) << "the packet's list brought it in";
    EXPECT_EQ(client.memory().CurrentUsage, kUnit);
  });
}

TEST_F(ResTest, NoContextRunsBeforeTheWholeListIsThere) {
  DXGKIT_COVERS("RES-02");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE a = client.make(1), b = client.make(1);
    ContextBuffers first = client.make_context(), second = client.make_context();
    ASSERT_EQ(client.make_resident({a, b}), nt_status(Status::kPending));
    ASSERT_EQ(client.render(first, work_on({a})), 0);
    ASSERT_EQ(client.render(second, work_on({})), 0) << "names nothing, and waits all the same";
    EXPECT_EQ(running_on(stack, 0), 0U);
    while (stack.miniport.complete_next(1)) stack.settle();
    EXPECT_EQ(running_on(stack, 0), 2U);
    const auto submits = stack.miniport.calls().patches;
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_faulted, 0U);
  });
}

TEST_F(ResTest, NamingWhatIsNotListedRemovesTheDevice) {
  DXGKIT_COVERS("RES-25", "THUNK-07", "THUNK-28");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE a = client.make(1), b = client.make(1);
    ASSERT_EQ(client.make_resident({a, b}), nt_status(Status::kPending));
    stack.drive();
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({a, b})), 0);
    stack.drive();
    ASSERT_EQ(client.evict({b}, kOnlyIfNecessary), 0);
    EXPECT_TRUE(client.in_memory(b)) << "still there, and yet not listed";
    const size_t renders = stack.miniport.count("DxgkDdiRender");
    EXPECT_EQ(client.render(context, work_on({a, b})), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(stack.miniport.count("DxgkDdiRender"), renders) << "the driver never sees it";
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
    EXPECT_EQ(client.render(context, work_on({a})), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(client.make_resident({b}), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(client.evict({a}), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(client.memory().CurrentUsage, 0U);
  });
}

TEST_F(ResTest, ItIsAllOrNothing) {
  DXGKIT_COVERS("RES-05", "RES-07", "RES-17", "THUNK-05");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE a = client.make(kMemoryUnits - 2), b = client.make(1), c = client.make(4);
    ASSERT_EQ(client.make_resident({a}), nt_status(Status::kPending));
    stack.drive();
    const Digest before = digest(stack, {&client});
    for (const bool further : {false, true}) {
      NTSTATUS status = 0;
      const D3DDDI_MAKERESIDENT args =
          client.make_resident({b, c}, &status, further ? cant_trim() : kNoFlags);
      EXPECT_EQ(status, nt_status(Status::kNoMemory));
      EXPECT_EQ(args.NumBytesToTrim, 3 * kUnit) << "the overshoot";
      EXPECT_EQ(args.NumAllocations, 0U) << "none of them";
      EXPECT_EQ(args.PagingFenceValue, 0x5C5C5C5CU);
    }
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(client.memory().CurrentUsage, (kMemoryUnits - 2) * kUnit);
    EXPECT_EQ(client.evict({b}), nt_status(Status::kInvalidParameter)) << "it has no count";
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE) << "a plain failure is no error";
    EXPECT_EQ(client.make_resident({b}), nt_status(Status::kPending)) << "what fits still fits";
  });
}

TEST_F(ResTest, WhatMustSucceedAndCannotPutsTheDeviceInError) {
  DXGKIT_COVERS("RES-07", "RES-12");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE a = client.make(kMemoryUnits), b = client.make(1);
    ASSERT_EQ(client.make_resident({a}, cant_trim(true)), nt_status(Status::kPending));
    stack.drive();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    NTSTATUS status = 0;
    EXPECT_EQ(client.make_resident({b}, &status, cant_trim(true)).NumAllocations, 0U);
    EXPECT_EQ(status, nt_status(Status::kNoMemory));
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
    EXPECT_EQ(client.make_resident({b}), nt_status(Status::kDeviceRemoved));
  });
}

TEST_F(ResTest, AListWithoutRoomWaitsWhileOthersRun) {
  DXGKIT_COVERS("RES-03", "RES-13", "RES-21");
  listing([](Stack& stack) {
    ListingClient first(stack, "first"), second(stack, "second");
    const D3DKMT_HANDLE a = first.make(12), b = second.make(12);
    ContextBuffers work_a = first.make_context(), work_b = second.make_context();
    ASSERT_EQ(first.make_resident({a}), nt_status(Status::kPending));
    stack.drive();
    ASSERT_EQ(first.render(work_a, work_on({a})), 0);
    EXPECT_EQ(running_on(stack, 0), 1U);
    EXPECT_EQ(second.make_resident({b}), nt_status(Status::kNoMemory)) << "over its half";
    EXPECT_EQ(second.make_resident({b}, cant_trim()), nt_status(Status::kPending))
        << "over budget, but the memory is there";
    ASSERT_EQ(second.render(work_b, work_on({b})), 0);
    EXPECT_EQ(running_on(stack, 0), 1U) << "suspended";
    EXPECT_EQ(running_on(stack, 1), 0U) << "nothing leaves under work in flight";
    EXPECT_EQ(second.state(), D3DKMT_DEVICEEXECUTION_ACTIVE) << "and not failed";
    ASSERT_EQ(first.render(work_a, work_on({a})), 0);
    // Each gets its turn; nobody is lost.
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_faulted, 0U);
    EXPECT_EQ(second.queue.value(), 1U);
    EXPECT_EQ(first.wait_for_idle(), 0);
    EXPECT_EQ(second.wait_for_idle(), 0);
    EXPECT_GE(stack.statistics().evictions, 1U);
    for (int turn = 0; turn < 4; ++turn) {
      ASSERT_EQ(first.render(work_a, work_on({a})), 0);
      ASSERT_EQ(second.render(work_b, work_on({b})), 0);
    }
    stack.drive();
    EXPECT_EQ(first.wait_for_idle(), 0);
    EXPECT_EQ(second.wait_for_idle(), 0);
  });
}

TEST_F(ResTest, LazyEvictionWaitsForSomebodyWhoNeedsTheRoom) {
  DXGKIT_COVERS("RES-14");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE a = client.make(8), b = client.make(8), c = client.make(8);
    ASSERT_EQ(client.make_resident({a, a, b}), nt_status(Status::kPending));
    stack.drive();
    const size_t paging = stack.miniport.count("DxgkDdiBuildPagingBuffer");
    ASSERT_EQ(client.evict({a}, kOnlyIfNecessary), 0) << "a count is left: says nothing";
    ASSERT_EQ(client.evict({a}, kOnlyIfNecessary), 0);
    stack.drive();
    EXPECT_TRUE(client.in_memory(a)) << "nobody needs the room";
    EXPECT_EQ(stack.miniport.count("DxgkDdiBuildPagingBuffer"), paging);
    EXPECT_EQ(client.make_resident({a}), 0) << "back without a copy";
    ASSERT_EQ(client.evict({a}, kOnlyIfNecessary), 0);
    EXPECT_EQ(client.make_resident({c}), nt_status(Status::kPending));
    stack.drive();
    EXPECT_EQ(client.where(a), D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT);
    EXPECT_TRUE(client.in_memory(b));
    EXPECT_TRUE(client.in_memory(c));
    ASSERT_EQ(client.evict({b}), 0);
    stack.drive();
    EXPECT_EQ(client.where(b), D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT) << "without the flag";
  });
}

TEST_F(ResTest, WhatNobodyWroteNeedsNoWriteBack) {
  DXGKIT_COVERS("RES-15");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE a = client.make(1);
    ContextBuffers context = client.make_context();
    const auto cycle = [&](std::initializer_list<UINT> evictions, bool write) {
      for (size_t i = 0; i < evictions.size(); ++i) {
        const NTSTATUS status = client.make_resident({a});
        EXPECT_TRUE(status == 0 || status == nt_status(Status::kPending));
      }
      stack.drive();
      const size_t before = operations(stack, DXGK_OPERATION_TRANSFER);
      size_t left = evictions.size();
      for (const UINT flags : evictions) {
        if (write && --left == 0) {
          EXPECT_EQ(client.render(context, work_on({a})), 0);
          stack.drive();
        }
        EXPECT_EQ(client.evict({a}, flags), 0);
      }
      stack.drive();
      EXPECT_EQ(client.where(a), D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT);
      return operations(stack, DXGK_OPERATION_TRANSFER) - before;
    };
    EXPECT_EQ(cycle({0}, false), 1U) << "written, for all we know";
    EXPECT_EQ(cycle({kNotWrittenTo}, false), 0U);
    EXPECT_EQ(cycle({kNotWrittenTo, 0}, false), 0U) << "whichever of them says it";
    EXPECT_EQ(cycle({0, kNotWrittenTo, 0}, false), 0U);
    EXPECT_EQ(cycle({0, 0}, false), 1U) << "each time anew";
    EXPECT_EQ(cycle({kNotWrittenTo, 0}, true), 1U) << "a list says it was written since";
  });
}

TEST_F(ResTest, EarlierWorkStillFindsIt) {
  DXGKIT_COVERS("RES-16", "RES-21");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE a = client.make(1), fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    ASSERT_EQ(client.make_resident({a}), nt_status(Status::kPending));
    stack.drive();
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.wait_gpu(context, fence, 1), 0);
    ASSERT_EQ(client.render(context, work_on({a})), 0);
    ASSERT_EQ(client.evict({a}), 0) << "returns at once";
    EXPECT_EQ(client.memory().CurrentUsage, 0U);
    stack.drive();
    EXPECT_TRUE(client.in_memory(a)) << "queued work needs it";
    // Listed again and gone again: the first eviction has no say any more.
    ASSERT_EQ(client.make_resident({a}), 0);
    ASSERT_EQ(client.render(context, work_on({a})), 0);
    ASSERT_EQ(client.signal_cpu(fence, 1), 0);
    ASSERT_EQ(running_on(stack, 0), 2U);
    ASSERT_TRUE(stack.miniport.complete_next(0));
    stack.drive();
    EXPECT_TRUE(client.in_memory(a)) << "it is on the list";
    ASSERT_EQ(client.wait_gpu(context, fence, 2), 0);
    ASSERT_EQ(client.render(context, work_on({a})), 0);
    ASSERT_EQ(client.evict({a}), 0);
    ASSERT_EQ(client.signal_cpu(fence, 2), 0);
    EXPECT_EQ(running_on(stack, 0), 1U);
    EXPECT_EQ(running_on(stack, 1), 0U);
    EXPECT_TRUE(client.in_memory(a)) << "in flight";
    stack.drive();
    EXPECT_EQ(client.where(a), D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT);
  });
}

TEST_F(ResTest, WorkQueuedBeforeTheMemoryCameFindsItThoughEvictedSince) {
  DXGKIT_COVERS("RES-16", "RES-02");
  listing([](Stack& stack) {
    ListingClient holder(stack, "holder"), client(stack);
    const D3DKMT_HANDLE wide = holder.make(kMemoryUnits), a = client.make(2);
    ContextBuffers theirs = holder.make_context(), work = client.make_context();
    ASSERT_EQ(holder.make_resident({wide}), nt_status(Status::kPending));
    stack.drive();
    ASSERT_EQ(holder.render(theirs, work_on({wide})), 0);
    ASSERT_EQ(client.make_resident({a}, cant_trim()), nt_status(Status::kPending));
    ASSERT_EQ(client.render(work, work_on({a})), 0);
    ASSERT_EQ(client.evict({a}), 0) << "not even there yet";
    EXPECT_EQ(running_on(stack, 0), 1U);
    ASSERT_TRUE(stack.miniport.complete_next(0));
    for (int i = 0; i < 10 && running_on(stack, 0) == 0; ++i) stack.miniport.complete_next(1);
    ASSERT_EQ(running_on(stack, 0), 1U);
    EXPECT_EQ(stack.miniport.calls().patches.back().allocations.at(0).segment(), 1U);
    EXPECT_TRUE(client.in_memory(a));
    stack.drive();
    EXPECT_EQ(client.where(a), D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT);
  });
}

TEST_F(ResTest, ARefusalLeavesWhatWasOnItsWayOutOnItsWay) {
  DXGKIT_COVERS("RES-05", "RES-16");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE a = client.make(8), b = client.make(kMemoryUnits);
    ContextBuffers work = client.make_context();
    ASSERT_EQ(client.make_resident({a}), nt_status(Status::kPending));
    stack.drive();
    ASSERT_EQ(client.render(work, work_on({a})), 0);
    ASSERT_EQ(client.evict({a}), 0);
    EXPECT_EQ(client.make_resident({a, b}, cant_trim()), nt_status(Status::kNoMemory));
    stack.drive();
    EXPECT_EQ(client.where(a), D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT);
    EXPECT_EQ(client.make_resident({b}), nt_status(Status::kPending));
    stack.drive();
    EXPECT_TRUE(client.in_memory(b));
  });
}

TEST_F(ResTest, LowPriorityLeavesFirstThenTheLeastRecentlyUsed) {
  DXGKIT_COVERS("RES-22");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE old = client.make(4), middle = client.make(4), young = client.make(4),
                        low = client.make(4);
    for (const D3DKMT_HANDLE one : {old, middle, young, low})
      ASSERT_EQ(client.make_resident({one}), nt_status(Status::kPending));
    stack.drive();
    const UINT priority = 0x77FFFFFF;  // in between: numbers, not classes
    D3DKMT_SETALLOCATIONPRIORITY args{};
    args.hDevice = client.device;
    args.phAllocationList = &low;
    args.AllocationCount = 1;
    args.pPriorities = &priority;
    ASSERT_EQ(client.call([&] { return D3DKMTSetAllocationPriority(&args); }), 0);
    ASSERT_EQ(client.evict({old, middle, young, low}, kOnlyIfNecessary), 0);
    ASSERT_EQ(client.make_resident({old}), 0);
    ASSERT_EQ(client.evict({old}, kOnlyIfNecessary), 0) << "used last now";
    const std::vector<D3DKMT_HANDLE> order = {low, middle, young, old};
    for (size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(client.make_resident({client.make(4)}), nt_status(Status::kPending));
      stack.drive();
      for (size_t j = 0; j < order.size(); ++j)
        EXPECT_EQ(client.in_memory(order[j]), j > i) << i << " left, " << j;
    }
  });
}

TEST_F(ResTest, PrioritiesOfResourcesAndLists) {
  DXGKIT_COVERS("RES-23", "THUNK-29", "THUNK-05");
  listing([](Stack& stack, ListingClient& client) {
    ScriptedAllocation data;
    data.priority = 0x50000000;
    D3DDDI_ALLOCATIONINFO infos[3]{};
    for (D3DDDI_ALLOCATIONINFO& info : infos) {
      info.pPrivateDriverData = &data;
      info.PrivateDriverDataSize = sizeof data;
    }
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 3;
    create.pAllocationInfo = infos;
    create.Flags.CreateResource = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
    const D3DKMT_HANDLE list[3] = {infos[0].hAllocation, infos[1].hAllocation,
                                   infos[2].hAllocation};
    const auto set = [&](D3DKMT_HANDLE resource, const D3DKMT_HANDLE* which, UINT count,
                         const UINT* priorities) {
      D3DKMT_SETALLOCATIONPRIORITY args{client.device, resource, which, count, priorities};
      return client.call([&] { return D3DKMTSetAllocationPriority(&args); });
    };
    const auto get = [&] {
      std::vector<UINT> out(3);
      D3DKMT_GETALLOCATIONPRIORITY args{client.device, 0, list, 3, out.data()};
      EXPECT_EQ(client.call([&] { return D3DKMTGetAllocationPriority(&args); }), 0);
      return out;
    };
    EXPECT_EQ(get(), std::vector<UINT>(3, 0x50000000));
    const UINT several[3] = {0x78000001, 0x28000000, 0xC8000000}, zero[3] = {1, 0, 1};
    ASSERT_EQ(set(0, list, 3, several), 0);
    EXPECT_EQ(get(), (std::vector<UINT>{0x78000001, 0x28000000, 0xC8000000}));
    ASSERT_EQ(set(create.hResource, nullptr, 0, several), 0);
    EXPECT_EQ(get(), std::vector<UINT>(3, 0x78000001)) << "the first is for all";
    const Digest before = digest(stack, {&client});
    const NTSTATUS invalid = nt_status(Status::kInvalidParameter);
    EXPECT_EQ(set(create.hResource, list, 3, several), invalid) << "not both";
    EXPECT_EQ(set(0, list, 3, zero), invalid) << "0 is no priority";
    EXPECT_EQ(set(0, nullptr, 3, several), invalid);
    EXPECT_EQ(set(0, list, 0, several), invalid);
    EXPECT_EQ(set(0, list, UINT32_MAX, several), invalid);
    EXPECT_EQ(set(0, list, 3, nullptr), invalid);
    EXPECT_EQ(set(list[0], nullptr, 0, several), invalid) << "no resource";
    EXPECT_EQ(set(0, list, 3, reinterpret_cast<const UINT*>(uintptr_t{0x10})),
              nt_status(Status::kInvalidParameter));
    D3DKMT_GETALLOCATIONPRIORITY nowhere{client.device, 0, list, 3, nullptr};
    EXPECT_EQ(client.call([&] { return D3DKMTGetAllocationPriority(&nowhere); }), invalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(get(), std::vector<UINT>(3, 0x78000001));
  });
}

TEST_F(ResTest, AResourceIsWhereItsWorstAllocationIs) {
  DXGKIT_COVERS("RES-27");
  listing([](Stack& stack, ListingClient& client) {
    ScriptedAllocation in_memory, in_aperture;
    in_memory.size = in_aperture.size = kUnit;
    in_memory.supported_read = in_memory.supported_write = kMemorySet;
    in_aperture.supported_read = in_aperture.supported_write = kApertureSet;
    D3DDDI_ALLOCATIONINFO infos[2]{};
    infos[0].pPrivateDriverData = &in_memory;
    infos[1].pPrivateDriverData = &in_aperture;
    infos[0].PrivateDriverDataSize = infos[1].PrivateDriverDataSize = sizeof in_memory;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 2;
    create.pAllocationInfo = infos;
    create.Flags.CreateResource = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
    const auto whole = [&] {
      D3DKMT_ALLOCATIONRESIDENCYSTATUS answer{};
      const D3DKMT_QUERYALLOCATIONRESIDENCY args{client.device, create.hResource, nullptr, 0,
                                                 &answer};
      EXPECT_EQ(client.call([&] { return D3DKMTQueryAllocationResidency(&args); }), 0);
      return answer;
    };
    const D3DKMT_HANDLE memory = infos[0].hAllocation, aperture = infos[1].hAllocation;
    EXPECT_EQ(whole(), D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT);
    ASSERT_EQ(client.make_resident({memory}), nt_status(Status::kPending));
    stack.drive();
    EXPECT_TRUE(client.in_memory(memory));
    EXPECT_EQ(whole(), D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT);
    ASSERT_EQ(client.make_resident({aperture}), nt_status(Status::kPending));
    stack.drive();
    EXPECT_EQ(client.where(aperture), D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY);
    EXPECT_EQ(whole(), D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY);
    const Digest before = digest(stack, {&client});
    D3DKMT_ALLOCATIONRESIDENCYSTATUS answer{};
    const D3DKMT_QUERYALLOCATIONRESIDENCY bad[] = {
        {client.device, create.hResource, &memory, 1, &answer},
        {client.device, 0, &memory, 1, nullptr},
        {client.device, 0, nullptr, 1, &answer},
        {client.device, 0, &memory, 0, &answer},
        {client.device, memory, nullptr, 0, &answer}};
    for (const auto& args : bad) {
      EXPECT_EQ(client.call([&] { return D3DKMTQueryAllocationResidency(&args); }),
                nt_status(Status::kInvalidParameter));
    }
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(ResTest, WhatTheClientDestroysLeavesTheListWithItsWork) {
  DXGKIT_COVERS("RES-16", "ALLOC-27");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE a = client.make(2), b = client.make(1);
    ASSERT_EQ(client.make_resident({a, b}), nt_status(Status::kPending));
    stack.drive();
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({b})), 0);
    const size_t live = stack.miniport.live_objects();
    ASSERT_EQ(client.destroy_allocation(a), 0);
    EXPECT_EQ(client.memory().CurrentUsage, kUnit);
    EXPECT_EQ(running_on(stack, 1), 0U) << "earlier work may use it";
    EXPECT_EQ(stack.miniport.live_objects(), live);
    stack.drive();
    EXPECT_LT(stack.miniport.live_objects(), live);
    ASSERT_EQ(client.render(context, work_on({b})), 0) << "the rest of the list is as it was";
    stack.drive();
    EXPECT_EQ(client.wait_for_idle(), 0);
  });
}

TEST_F(ResTest, RoomThatCostsNoHardwareIsTakenAtOnce) {
  DXGKIT_COVERS("RES-03", "RES-13");
  running(
      [](Stack& stack) {
        // Nothing for an engine to do when content goes: the operation ends while it is built.
        stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
          return args->Operation == DXGK_OPERATION_DISCARD_CONTENT
                     ? nt_status(Status::kSuccess)
                     : stack.miniport.default_build_paging(args);
        };
        ListingClient client(stack);
        const D3DKMT_HANDLE a = client.make_allocation({.size = 12 * kUnit,
                                                        .supported_read = kMemorySet,
                                                        .supported_write = kMemorySet,
                                                        .flags = 1});
        const D3DKMT_HANDLE b = client.make(12);
        ContextBuffers context = client.make_context();
        ASSERT_EQ(client.make_resident({a}), nt_status(Status::kPending));
        stack.drive();
        ASSERT_EQ(client.render(context, work_on({a})), 0);
        // It stays where the CPU sees it, until the work before is done and it is destroyed.
        void* seen = nullptr;
        ASSERT_EQ(client.lock(a, &seen), 0);
        ASSERT_EQ(client.render(context, work_on({a})), 0);
        ASSERT_EQ(client.destroy_allocation(a), 0);
        ASSERT_EQ(client.make_resident({b}, cant_trim()), nt_status(Status::kPending));
        EXPECT_EQ(client.queue.value(), 1U);
        stack.drive();
        EXPECT_EQ(client.queue.value(), 2U) << "nobody else comes to look after it";
        EXPECT_TRUE(client.in_memory(b));
        stack.miniport.hooks = {};
      },
      [](ScriptedMiniport& miniport) {
        explicit_residency(miniport);
        dxgkit::testing::ScriptedSegment& memory = miniport.config.segments[0];
        memory.flags.CpuVisible = 1;
        memory.cpu_translated_address = dxgkit::testing::ScriptedSegment::kBarAddress;
      });
}

}  // namespace
}  // namespace dxgkit::contract
