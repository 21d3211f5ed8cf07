// Residency where numbers differ: what is to be trimmed, who is first, what an answer stands for.
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr auto kLocal = D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL;
constexpr auto kNonLocal = D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL;
constexpr NTSTATUS kWaits = nt_status(Status::kPending);
constexpr NTSTATUS kNoRoom = nt_status(Status::kNoMemory);

class ResEdgesTest : public ContractTest {
 protected:
  static void listing(const std::function<void(Stack&)>& body,
                      const std::function<void(ScriptedMiniport&)>& more = nullptr) {
    running(
        [&](Stack& stack) {
          body(stack);
          stack.miniport.hooks = {};
        },
        [&](ScriptedMiniport& miniport) {
          explicit_residency(miniport);
          if (more) more(miniport);
        });
  }
  static size_t transfers(Stack& stack) {
    size_t count = 0;
    for (const auto& call : stack.miniport.calls().paging)
      count += call.args.Operation == DXGK_OPERATION_TRANSFER;
    return count;
  }
};

// What was evicted and destroyed waits for older work, also where the adapter fails before that.
TEST_F(ResEdgesTest, WhatIsOnItsWayOutOfAFailedAdapterGoesOnce) {
  DXGKIT_COVERS("RES-16", "LIFE-18");
  listing([](Stack& stack) {
    ListingClient client(stack);
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE leaves = client.make(1), stays = client.make(1);
    ASSERT_EQ(client.make_resident({leaves, stays}), kWaits);
    stack.drive();
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    ASSERT_EQ(client.wait_gpu(context, fence, 1), 0);
    ASSERT_EQ(client.render(context, work_on({})), 0);  // queued as long as the adapter lives
    stack.settle();
    ASSERT_EQ(client.evict({leaves}), 0);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    ASSERT_EQ(client.destroy_allocation(leaves), 0);
    stack.settle();
    stack.miniport.raise(ScriptedMiniport::completed_data(0, 0x70000000));
    stack.settle();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"INT-11"});
    EXPECT_EQ(client.destroy_device(client.device), 0);
    client.end();
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    EXPECT_EQ(stack.machine.free_page_count(), stack.pages_at_start);
  });
}

// Who is asked to trim already, and then asks for more than there is, is told the larger amount.
TEST_F(ResEdgesTest, ARefusalTellsAtLeastWhatWasToBeTrimmedAnyway) {
  DXGKIT_COVERS("RES-17", "RES-05");
  listing([](Stack& stack) {
    ListingClient first(stack, "first"), second(stack, "second");
    ASSERT_EQ(first.make_resident({first.make(12)}), kWaits);
    ASSERT_EQ(second.make_resident({second.make(8)}), kWaits);
    stack.drive();
    NTSTATUS status = 0;
    const D3DDDI_MAKERESIDENT args =
        first.make_resident({first.make(5)}, &status, cant_trim());  // one more than there is
    EXPECT_EQ(status, kNoRoom);
    EXPECT_EQ(args.NumBytesToTrim, 4 * kUnit) << "it is four over its half";
    EXPECT_EQ(first.memory().CurrentUsage, 12 * kUnit);
  });
}

// Both groups too small: the larger overshoot is told, whichever group comes last.
TEST_F(ResEdgesTest, TheLargerOvershootOfTwoGroupsIsTold) {
  DXGKIT_COVERS("RES-05", "RES-20");
  for (const uint64_t local : {3U, 1U}) {
    SCOPED_TRACE(local);
    listing(
        [&](Stack& stack) {
          ListingClient client(stack);
          ASSERT_EQ(client.make_resident(
                        {client.make(14), client.make_allocation(7 * kUnit, kApertureSet)}),
                    kWaits);
          stack.drive();
          NTSTATUS status = 0;
          const D3DDDI_MAKERESIDENT args =
              client.make_resident({client.make(2 + local),
                                    client.make_allocation((1 + 4 - local) * kUnit, kApertureSet)},
                                   &status, cant_trim());
          EXPECT_EQ(status, kNoRoom);
          EXPECT_EQ(args.NumBytesToTrim, 3 * kUnit);
          EXPECT_EQ(client.memory(kLocal).CurrentUsage, 14 * kUnit);
          EXPECT_EQ(client.memory(kNonLocal).CurrentUsage, 7 * kUnit);
        },
        [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = 8 * kUnit; });
  }
}

// What is within the total, and still fits nowhere, is told as a whole.
TEST_F(ResEdgesTest, WhatFitsNowhereIsTheSumOfTheList) {
  DXGKIT_COVERS("RES-05");
  listing([](Stack& stack) {
    ListingClient client(stack);
    std::vector<D3DKMT_HANDLE> list;
    for (const uint64_t units : {2U, 3U, 1U}) {  // at 0 or at 8, and nowhere else
      list.push_back(client.make_allocation({.size = units * kUnit,
                                             .alignment = static_cast<uint32_t>(8 * kUnit),
                                             .supported_read = kMemorySet,
                                             .supported_write = kMemorySet}));
    }
    NTSTATUS status = 0;
    const D3DDDI_MAKERESIDENT args = client.make_resident(list, &status);
    EXPECT_EQ(status, kNoRoom);
    EXPECT_EQ(args.NumBytesToTrim, 6 * kUnit);
    list.pop_back();
    EXPECT_EQ(client.make_resident(list), kWaits);
    stack.drive();
  });
}

// Listed twice while its content is still on its way: usable when that has come, not before.
TEST_F(ResEdgesTest, WhatIsOnItsWayIsNotThere) {
  DXGKIT_COVERS("RES-06");
  listing([](Stack& stack) {
    ListingClient client(stack);
    const D3DKMT_HANDLE a = client.make(2);
    ASSERT_EQ(client.make_resident({a}), kWaits);
    NTSTATUS status = 0;
    const D3DDDI_MAKERESIDENT again = client.make_resident({a}, &status);
    EXPECT_EQ(status, kWaits);
    EXPECT_EQ(again.PagingFenceValue, 2U);
    EXPECT_EQ(client.queue.value(), 0U);
    stack.drive();
    EXPECT_EQ(client.queue.value(), 2U);
    const D3DDDI_MAKERESIDENT third = client.make_resident({a}, &status);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(third.PagingFenceValue, 0U);
  });
}

// Of two devices that wait for the same room with equal priority the first to ask is the first
// served.
TEST_F(ResEdgesTest, EqualsAreServedInTheOrderTheyAsked) {
  DXGKIT_COVERS("PAGE-44", "RES-03");
  listing([](Stack& stack) {
    ListingClient holder(stack, "holder"), first(stack, "first"), second(stack, "second");
    const D3DKMT_HANDLE all = holder.make(kMemoryUnits);
    ContextBuffers work = holder.make_context();
    ASSERT_EQ(holder.make_resident({all}), kWaits);
    stack.drive();
    ASSERT_EQ(holder.render(work, work_on({all})), 0);
    stack.settle();
    ASSERT_EQ(first.make_resident({first.make(12)}, cant_trim()), kWaits);
    ASSERT_EQ(second.make_resident({second.make(12)}, cant_trim()), kWaits);
    ASSERT_TRUE(stack.miniport.complete_next(0));
    for (int i = 0; i < 40 && first.queue.value() == 0; ++i) {
      stack.settle();
      ASSERT_EQ(second.queue.value(), 0U);
      static_cast<void>(stack.miniport.complete_next(1));
      stack.settle();
    }
    EXPECT_EQ(first.queue.value(), 1U);
    stack.drive();
    EXPECT_EQ(second.queue.value(), 1U);
  });
}

// Two devices whose work overlaps without end would keep the memory of a third for ever. After some
// refusals of its list an idle one of them waits its turn.
TEST_F(ResEdgesTest, WorkThatComesAllTheTimeGivesWay) {
  DXGKIT_COVERS("RES-03", "RES-13");
  listing([](Stack& stack) {
    ListingClient waiting(stack, "waiting"), one(stack, "one"), other(stack, "other");
    const D3DKMT_HANDLE one_has = one.make(5), other_has = other.make(5);
    ContextBuffers one_works = one.make_context(), other_works = other.make_context();
    ASSERT_EQ(one.make_resident({one_has}), kWaits);
    ASSERT_EQ(other.make_resident({other_has}), kWaits);
    stack.drive();
    ASSERT_EQ(one.render(one_works, work_on({one_has})), 0);
    stack.settle();
    ASSERT_EQ(waiting.make_resident({waiting.make(14)}, cant_trim()), kWaits);
    int turns = 0;
    for (; turns < 40 && waiting.queue.value() == 0; ++turns) {
      // The next one of the other is there before the last one of this ends.
      ListingClient& next = turns % 2 == 0 ? other : one;
      ASSERT_EQ(next.render(turns % 2 == 0 ? other_works : one_works,
                            work_on({turns % 2 == 0 ? other_has : one_has})),
                0);
      stack.settle();
      static_cast<void>(stack.miniport.complete_next(0));
      stack.settle();
      while (stack.miniport.complete_next(1)) stack.settle();  // paging
    }
    EXPECT_EQ(waiting.queue.value(), 1U);
    EXPECT_GT(turns, 3) << "not at the first refusal";
    stack.drive();
    EXPECT_EQ(one.wait_for_idle(), 0);
    EXPECT_EQ(other.wait_for_idle(), 0);
    EXPECT_EQ(stack.statistics().packets_faulted, 0U);
  });
}

// Whether a list fits counts what it would keep: offered content goes for it.
TEST_F(ResEdgesTest, OfferedContentIsInNobodysWay) {
  DXGKIT_COVERS("RES-03", "ALLOC-47");
  listing([](Stack& stack) {
    ListingClient holder(stack, "holder"), client(stack);
    const D3DKMT_HANDLE given = client.make(12), theirs = holder.make(8), more = client.make(10);
    ASSERT_EQ(client.make_resident({given}), kWaits);
    stack.drive();
    D3DKMT_OFFERALLOCATIONS offer{};
    offer.hDevice = client.device;
    offer.HandleList = &given;
    offer.NumAllocations = 1;
    offer.Priority = D3DKMT_OFFER_PRIORITY_NORMAL;
    ASSERT_EQ(client.call([&] { return D3DKMTOfferAllocations(&offer); }), 0);
    ContextBuffers work = holder.make_context();
    ASSERT_EQ(holder.make_resident({theirs}), kWaits);
    stack.drive();
    ASSERT_EQ(holder.render(work, work_on({theirs})), 0);
    stack.settle();
    EXPECT_EQ(client.make_resident({more}, cant_trim()), kWaits) << "it fits when they are done";
    stack.drive();
    EXPECT_TRUE(client.in_memory(more));
  });
}

// Usage counts in the group of the segment an allocation came to, which is not always the one it
// would rather be in.
TEST_F(ResEdgesTest, UsageCountsWhereItCameTo) {
  DXGKIT_COVERS("RES-20", "SEG-43");
  listing([](Stack& stack) {
    ListingClient holder(stack, "holder"), client(stack);
    const D3DKMT_HANDLE theirs = holder.make(14);
    ContextBuffers work = holder.make_context();
    ASSERT_EQ(holder.make_resident({theirs}), kWaits);
    stack.drive();
    ASSERT_EQ(holder.render(work, work_on({theirs})), 0);
    stack.settle();
    const D3DKMT_HANDLE anywhere = client.make_allocation(4 * kUnit, kMemorySet | kApertureSet);
    ASSERT_EQ(client.make_resident({anywhere}), kWaits);
    stack.drive();
    ASSERT_EQ(client.where(anywhere), D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY);
    EXPECT_EQ(client.memory(kLocal).CurrentUsage, 0U);
    EXPECT_EQ(client.memory(kNonLocal).CurrentUsage, 4 * kUnit);
    ASSERT_EQ(client.evict({anywhere}), 0);
    EXPECT_EQ(client.memory(kNonLocal).CurrentUsage, 0U);
    stack.drive();
  });
}

// That one device has not written says nothing of the other that has it on its list.
TEST_F(ResEdgesTest, NotWrittenByOneIsNotCleanForTheOther) {
  DXGKIT_COVERS("RES-15");
  listing([](Stack& stack) {
    ListingClient maker(stack, "maker"), user(stack, "user");
    ScriptedAllocation data{
        .size = kUnit, .supported_read = kMemorySet, .supported_write = kMemorySet};
    D3DDDI_ALLOCATIONINFO2 info{};
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = maker.device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    create.Flags.CreateResource = create.Flags.CreateShared = 1;
    ASSERT_EQ(maker.call([&] { return D3DKMTCreateAllocation2(&create); }), 0);
    D3DDDI_OPENALLOCATIONINFO2 opened{};
    std::byte total[sizeof data];
    D3DKMT_OPENRESOURCE open{};
    open.hDevice = user.device;
    open.hGlobalShare = create.hGlobalShare;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &opened;
    open.pTotalPrivateDriverDataBuffer = total;
    open.TotalPrivateDriverDataBufferSize = sizeof total;
    ASSERT_EQ(user.call([&] { return D3DKMTOpenResource2(&open); }), 0);
    ASSERT_EQ(maker.make_resident({info.hAllocation}), kWaits);
    static_cast<void>(user.make_resident({opened.hAllocation}));
    stack.drive();
    ASSERT_EQ(maker.evict({info.hAllocation}, /*NotWrittenTo*/ 2), 0);
    stack.drive();
    EXPECT_TRUE(user.in_memory(opened.hAllocation));
    const size_t before = transfers(stack);
    ASSERT_EQ(user.evict({opened.hAllocation}), 0);
    stack.drive();
    EXPECT_EQ(transfers(stack) - before, 1U) << "the user may have written";
  });
}

}  // namespace
}  // namespace dxgkit::contract
