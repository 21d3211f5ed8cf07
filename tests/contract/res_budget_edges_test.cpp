// Budgets where the two groups, the processes and the reservations differ.
#include "dxgk/core/process.h"
#include "tests/contract/res_fixture.h"
#include "trace/trace.h"

namespace dxgkit::contract {
namespace {

constexpr auto kLocal = D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL;
constexpr auto kNonLocal = D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL;
constexpr NTSTATUS kWaits = nt_status(Status::kPending);
constexpr NTSTATUS kNoRoom = nt_status(Status::kNoMemory);

class BudgetEdgesTest : public ContractTest {
 protected:
  static void listing(const std::function<void(Stack&)>& body,
                      const std::function<void(ScriptedMiniport&)>& more = nullptr) {
    running(body, [&](ScriptedMiniport& miniport) {
      explicit_residency(miniport);
      if (more) more(miniport);
    });
  }
  static void small_aperture(ScriptedMiniport& miniport) {
    miniport.config.segments[1].size = 8 * kUnit;
  }
  static D3DKMT_HANDLE shown(ListingClient& client, uint64_t units) {
    return client.make_allocation(units * kUnit, kApertureSet);
  }
  static NTSTATUS reserve(ListingClient& client, uint64_t units,
                          D3DKMT_MEMORY_SEGMENT_GROUP group = kLocal) {
    D3DKMT_CHANGEVIDEOMEMORYRESERVATION args{};
    args.hAdapter = client.adapter;
    args.MemorySegmentGroup = group;
    args.Reservation = units * kUnit;
    return client.call([&] { return D3DKMTChangeVideoMemoryReservation(&args); });
  }
  static uint64_t units(uint64_t bytes) {
    EXPECT_EQ(bytes % kUnit, 0U);
    return bytes / kUnit;
  }
};

// A recording says each change of a usage: whose, of which group, the budget, the usage. What is
// only tried is no change.
TEST_F(BudgetEdgesTest, ARecordingHasEachChangeOfAUsage) {
  DXGKIT_COVERS("RES-18");
  listing([](Stack& stack) {
    ListingClient first(stack, "first"), client(stack);
    const D3DKMT_HANDLE theirs = first.make(5), a = client.make(2), b = client.make(1),
                        c = shown(client, 3);
    ASSERT_EQ(first.make_resident({theirs}), kWaits);
    stack.drive();
    std::vector<std::vector<uint64_t>> changes;
    {
      trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
      trace::set_current(&recorder);
      EXPECT_EQ(client.make_resident({a, b, a}), kWaits);
      stack.drive();
      EXPECT_EQ(client.make_resident({c}), kWaits);
      EXPECT_EQ(client.make_resident({b}), kWaits) << "counted already";
      stack.drive();
      EXPECT_EQ(client.evict({a, b}), 0);
      EXPECT_EQ(client.evict({c}), 0);
      EXPECT_EQ(client.evict({a}), 0);
      stack.drive();
      for (const trace::Event& event : recorder.events()) {
        if (event.kind != static_cast<uint16_t>(trace::EventKind::kBudget)) continue;
        changes.push_back({event.a, event.b, event.c / kUnit, event.d / kUnit});
      }
      trace::set_current(nullptr);
    }
    const uint64_t who = client.process->number(), local = kMemoryUnits - 5,
                   shared = client.memory(kNonLocal).Budget / kUnit;
    const std::vector<std::vector<uint64_t>> wanted = {{who, 0, local, 2},
                                                       {who, 0, local, 3},
                                                       {who, 1, shared, 3},
                                                       {who, 1, shared, 0},
                                                       {who, 0, local, 1}};
    EXPECT_EQ(changes, wanted);
  });
}

// What the driver says of a segment's group goes before what its kind says, both ways.
TEST_F(BudgetEdgesTest, TheDriversWordDecidesTheGroup) {
  DXGKIT_COVERS("SEG-43", "RES-20");
  listing(
      [](Stack& stack) {
        ListingClient client(stack);
        EXPECT_EQ(units(client.memory(kLocal).Budget), 8U);
        EXPECT_EQ(units(client.memory(kNonLocal).Budget), kMemoryUnits);
        ASSERT_EQ(client.make_resident({client.make(3), shown(client, 2)}), kWaits);
        stack.drive();
        EXPECT_EQ(units(client.memory(kLocal).CurrentUsage), 2U);
        EXPECT_EQ(units(client.memory(kNonLocal).CurrentUsage), 3U);
      },
      [](ScriptedMiniport& miniport) {
        small_aperture(miniport);
        miniport.config.segments[0].flags.NonLocalBudgetGroup = 1;
        miniport.config.segments[1].flags.LocalBudgetGroup = 1;
      });
}

// Of an aperture counts what may be committed to it.
TEST_F(BudgetEdgesTest, AnApertureIsAsLargeAsItsCommitLimit) {
  DXGKIT_COVERS("RES-20", "SEG-30");
  listing(
      [](Stack& stack) {
        ListingClient client(stack);
        EXPECT_EQ(units(client.memory(kNonLocal).Budget), 5U);
        EXPECT_EQ(units(client.memory(kNonLocal).AvailableForReservation * 2), 5U);
      },
      [](ScriptedMiniport& miniport) {
        small_aperture(miniport);
        miniport.config.segments[1].commit_limit = 5 * kUnit;
      });
}

// What would be over budget in one group and may go to the other goes to the other.
TEST_F(BudgetEdgesTest, TheOtherGroupTakesWhatTheFirstHasNoBudgetFor) {
  DXGKIT_COVERS("RES-18", "RES-20");
  listing([](Stack& stack) {
    ListingClient holder(stack, "holder"), client(stack);
    ASSERT_EQ(holder.make_resident({holder.make(kMemoryUnits)}), kWaits);
    stack.drive();
    EXPECT_EQ(client.make_resident({client.make(9)}), kNoRoom) << "over its half";
    const D3DKMT_HANDLE anywhere = client.make_allocation(9 * kUnit, kMemorySet | kApertureSet);
    EXPECT_EQ(client.make_resident({anywhere}), kWaits);
    stack.drive();
  });
}

// An allocation that a process has opened twice is there once, until the last opening lets it go.
TEST_F(BudgetEdgesTest, OpenedTwiceItCountsOnce) {
  DXGKIT_COVERS("RES-20", "RES-01");
  listing([](Stack& stack) {
    ListingClient client(stack);
    ScriptedAllocation data{
        .size = 3 * kUnit, .supported_read = kMemorySet, .supported_write = kMemorySet};
    D3DDDI_ALLOCATIONINFO2 info{};
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    create.Flags.CreateResource = create.Flags.CreateShared = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&create); }), 0);
    D3DDDI_OPENALLOCATIONINFO2 opened{};
    std::byte total[sizeof data];
    D3DKMT_OPENRESOURCE open{};
    open.hDevice = client.device;
    open.hGlobalShare = create.hGlobalShare;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &opened;
    open.pTotalPrivateDriverDataBuffer = total;
    open.TotalPrivateDriverDataBufferSize = sizeof total;
    ASSERT_EQ(client.call([&] { return D3DKMTOpenResource2(&open); }), 0);
    ASSERT_EQ(client.make_resident({info.hAllocation}), kWaits);
    stack.drive();
    EXPECT_GE(client.make_resident({opened.hAllocation}), 0);
    stack.drive();
    EXPECT_EQ(units(client.memory().CurrentUsage), 3U);
    ASSERT_EQ(client.evict({info.hAllocation}), 0);
    stack.drive();
    EXPECT_EQ(units(client.memory().CurrentUsage), 3U);
    EXPECT_TRUE(client.in_memory(opened.hAllocation));
    ASSERT_EQ(client.evict({opened.hAllocation}), 0);
    stack.drive();
    EXPECT_EQ(units(client.memory().CurrentUsage), 0U);
  });
}

// What a process has reserved is its budget at least, and is no budget of others, however many want
// the memory; a reservation is of its group.
TEST_F(BudgetEdgesTest, AReservationIsKept) {
  DXGKIT_COVERS("RES-20", "THUNK-36");
  listing(
      [](Stack& stack) {
        ListingClient owner(stack, "owner"), a(stack, "a"), b(stack, "b"), idle(stack, "idle");
        ASSERT_EQ(reserve(owner, 8), 0);
        ASSERT_EQ(reserve(owner, 3, kNonLocal), 0);
        EXPECT_EQ(units(owner.memory(kLocal).CurrentReservation), 8U);
        EXPECT_EQ(units(owner.memory(kNonLocal).CurrentReservation), 3U);
        EXPECT_EQ(units(idle.memory(kLocal).AvailableForReservation), 0U);
        EXPECT_EQ(units(idle.memory(kNonLocal).AvailableForReservation), 1U);
        ASSERT_GE(a.make_resident({a.make(12)}, cant_trim()), 0);
        EXPECT_EQ(units(idle.memory(kLocal).Budget), 4U) << "half of what is not reserved";
        ASSERT_GE(b.make_resident({b.make(12)}, cant_trim()), 0);
        ListingClient c(stack, "c");
        ASSERT_GE(c.make_resident({c.make(12)}, cant_trim()), 0);
        EXPECT_EQ(units(owner.memory(kLocal).Budget), 8U) << "though four share sixteen";
        stack.drive();
      },
      small_aperture);
}

// To be trimmed is what is over in both groups together.
TEST_F(BudgetEdgesTest, WhatIsToBeTrimmedIsTheSumOfBothGroups) {
  DXGKIT_COVERS("RES-17");
  listing(
      [](Stack& stack) {
        ListingClient first(stack, "first"), second(stack, "second");
        const D3DKMT_HANDLE one = first.make(1);
        ASSERT_EQ(first.make_resident({first.make(11), one, shown(first, 6)}), kWaits);
        stack.drive();
        ASSERT_EQ(second.make_resident({second.make(8), shown(second, 4)}), kWaits);
        stack.drive();
        uint64_t trim = 0;
        ASSERT_EQ(first.evict({one}, 0, &trim), 0);
        EXPECT_EQ(units(trim), (11U - 8U) + (6U - 4U));
        stack.drive();
      },
      small_aperture);
}

// A budget counts only where there is no room left, and the last byte is room.
TEST_F(BudgetEdgesTest, WhatJustFitsNeedsNoBudget) {
  DXGKIT_COVERS("RES-18");
  listing([](Stack& stack) {
    ListingClient owner(stack, "owner"), client(stack);
    ASSERT_EQ(reserve(owner, 4), 0);
    EXPECT_EQ(units(client.memory().Budget), 12U);
    EXPECT_EQ(client.make_resident({client.make(kMemoryUnits)}), kWaits);
    stack.drive();
  });
}

// A request that is over in both groups is told the larger overshoot.
TEST_F(BudgetEdgesTest, ARequestIsToldTheLargerOvershoot) {
  DXGKIT_COVERS("RES-05", "RES-17");
  listing(
      [](Stack& stack) {
        ListingClient holder(stack, "holder"), client(stack);
        ASSERT_EQ(holder.make_resident({holder.make(12), shown(holder, 6)}), kWaits);
        stack.drive();
        for (const uint64_t local : {3U, 1U}) {
          SCOPED_TRACE(local);
          NTSTATUS status = 0;
          const D3DDDI_MAKERESIDENT args = client.make_resident(
              {client.make(8 + local), shown(client, 4 + (4 - local))}, &status);
          EXPECT_EQ(status, kNoRoom);
          EXPECT_EQ(units(args.NumBytesToTrim), 3U);
        }
      },
      small_aperture);
}

// Where packets bring in what they use, usage is of the process and of the group, too.
TEST_F(BudgetEdgesTest, UsageOfPacketsIsPerProcessAndGroup) {
  DXGKIT_COVERS("RES-20");
  running([](Stack& stack) {
    Client first(stack, "first"), second(stack, "second");
    const auto use = [&](Client& client, std::initializer_list<D3DKMT_HANDLE> list) {
      ContextBuffers context = client.make_context();
      EXPECT_EQ(client.render(context, work_on(list)), 0);
      stack.drive();
    };
    use(first, {first.make_allocation(3 * kUnit, 1U << 1), first.make_allocation(2 * kUnit, 4)});
    use(second, {second.make_allocation(kUnit, 1U << 0)});
    const auto usage = [&](Client& client, D3DKMT_MEMORY_SEGMENT_GROUP group) {
      D3DKMT_QUERYVIDEOMEMORYINFO args{};
      args.hAdapter = client.adapter;
      args.MemorySegmentGroup = group;
      EXPECT_EQ(client.call([&] { return D3DKMTQueryVideoMemoryInfo(&args); }), 0);
      return units(args.CurrentUsage);
    };
    EXPECT_EQ(usage(first, kLocal), 3U);
    EXPECT_EQ(usage(first, kNonLocal), 2U);
    EXPECT_EQ(usage(second, kLocal), 1U);
    EXPECT_EQ(usage(second, kNonLocal), 0U);
  });
}

// A list that waits when its device is lost waits no more: whoever waits for its fence goes on.
TEST_F(BudgetEdgesTest, AListOfALostDeviceWaitsNoMore) {
  DXGKIT_COVERS("PAGE-46", "RES-03");
  listing([](Stack& stack) {
    ListingClient holder(stack, "holder"), client(stack);
    const D3DKMT_HANDLE all = holder.make(kMemoryUnits);
    ContextBuffers theirs = holder.make_context(), own = client.make_context(1);
    ASSERT_EQ(holder.make_resident({all}), kWaits);
    stack.drive();
    ASSERT_EQ(client.render(own, work_on({})), 0);
    ASSERT_EQ(holder.render(theirs, work_on({all})), 0);
    stack.settle();
    ASSERT_EQ(client.make_resident({client.make(4)}, cant_trim()), kWaits);
    EXPECT_EQ(client.queue.value(), 0U);
    stack.miniport.faulted(1, stack.miniport.outstanding(1).at(0),
                           nt_status(Status::kUnsuccessful));
    stack.settle();
    ASSERT_NE(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(client.queue.value(), 1U);
    stack.drive();
  });
}

}  // namespace
}  // namespace dxgkit::contract
