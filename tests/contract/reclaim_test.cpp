// Reclaim on a paging queue: what the device lists as resident comes back, and a fence says when.
#include <cstring>

#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

using ReclaimTest = ContractTest;

void listing(const std::function<void(Stack&, ListingClient&)>& body) {
  struct Access : ContractTest {
    using ContractTest::running;
  };
  Access::running(
      [&](Stack& stack) {
        ListingClient client(stack);
        body(stack, client);
        stack.miniport.hooks = {};
      },
      explicit_residency);
}

NTSTATUS offer(Client& client, D3DKMT_HANDLE handle) {
  D3DKMT_OFFERALLOCATIONS args{};
  args.hDevice = client.device;
  args.HandleList = &handle;
  args.NumAllocations = 1;
  args.Priority = D3DKMT_OFFER_PRIORITY_NORMAL;
  return client.call([&] { return D3DKMTOfferAllocations(&args); });
}

struct Reclaimed {
  NTSTATUS status = 0;
  D3DDDI_RECLAIM_RESULT result = static_cast<D3DDDI_RECLAIM_RESULT>(77);
  UINT64 fence = 0x5C5C;
};
Reclaimed reclaim(ListingClient& client, D3DKMT_HANDLE handle) {
  Reclaimed out;
  D3DKMT_RECLAIMALLOCATIONS2 args{};
  args.hPagingQueue = client.queue.handle;
  args.HandleList = &handle;
  args.NumAllocations = 1;
  args.pResults = &out.result;
  args.PagingFenceValue = out.fence;
  out.status = client.call([&] { return D3DKMTReclaimAllocations2(&args); });
  out.fence = args.PagingFenceValue;
  return out;
}

TEST_F(ReclaimTest, OfferedContentMakesRoomAlthoughItIsListedAndComesBackWithAFence) {
  DXGKIT_COVERS("ALLOC-47", "ALLOC-46", "ALLOC-44");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE given = client.make(kMemoryUnits / 2);
    const D3DKMT_HANDLE kept = client.make(kMemoryUnits / 4);
    ASSERT_EQ(client.make_resident({given, kept}), nt_status(Status::kPending));
    stack.drive();
    ASSERT_TRUE(client.in_memory(given));
    ASSERT_EQ(offer(client, given), 0);
    EXPECT_TRUE(client.in_memory(given)) << "nobody needs the room yet";
    const D3DKMT_HANDLE more = client.make(kMemoryUnits / 2);
    NTSTATUS status = 0;
    static_cast<void>(client.make_resident({more}, &status, cant_trim()));
    EXPECT_GE(status, 0);
    stack.drive();
    EXPECT_FALSE(client.in_memory(given));
    EXPECT_TRUE(client.in_memory(kept));
    EXPECT_EQ(stack.statistics().page_outs, 0U) << "discarded, not written back";
    // There is room again: it comes back, empty.
    ASSERT_EQ(client.evict({more}), 0);
    stack.drive();
    const Reclaimed back = reclaim(client, given);
    EXPECT_EQ(back.status, nt_status(Status::kPending));
    EXPECT_EQ(back.result, D3DDDI_RECLAIM_RESULT_DISCARDED);
    EXPECT_GT(back.fence, client.queue.value());
    stack.drive();
    EXPECT_EQ(client.queue.value(), back.fence);
    EXPECT_TRUE(client.in_memory(given));
    // Once offered, reclaimed in time: nothing is lost, and nothing is to be waited for.
    ASSERT_EQ(offer(client, given), 0);
    const Reclaimed again = reclaim(client, given);
    EXPECT_EQ(again.status, 0);
    EXPECT_EQ(again.result, D3DDDI_RECLAIM_RESULT_OK);
    EXPECT_EQ(again.fence, 0U);
    // Its count is what it was.
    EXPECT_EQ(client.evict({given}), 0);
    EXPECT_EQ(client.evict({given}), kInvalid);
  });
}

TEST_F(ReclaimTest, WhatIsNotListedIsNotBroughtIn) {
  DXGKIT_COVERS("ALLOC-47");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE handle = client.make(1);
    ASSERT_EQ(offer(client, handle), 0);
    const Reclaimed back = reclaim(client, handle);
    EXPECT_EQ(back.status, 0);
    EXPECT_EQ(back.result, D3DDDI_RECLAIM_RESULT_OK);
    EXPECT_EQ(back.fence, 0U);
    stack.drive();
    EXPECT_FALSE(client.in_memory(handle));
  });
}

TEST_F(ReclaimTest, TheOldCallBringsItBackBeforeTheNextWork) {
  DXGKIT_COVERS("ALLOC-46", "ALLOC-47");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE given = client.make(kMemoryUnits);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.make_resident({given}), nt_status(Status::kPending));
    stack.drive();
    ASSERT_EQ(offer(client, given), 0);
    const D3DKMT_HANDLE more = client.make(1);
    ASSERT_GE(client.make_resident({more}, cant_trim()), 0);
    stack.drive();
    ASSERT_FALSE(client.in_memory(given));
    ASSERT_EQ(client.evict({more}), 0);
    stack.drive();
    BOOL lost = 0;
    D3DKMT_RECLAIMALLOCATIONS args{};
    args.hDevice = client.device;
    args.HandleList = &given;
    args.NumAllocations = 1;
    args.pDiscarded = &lost;
    ASSERT_EQ(client.call([&] { return D3DKMTReclaimAllocations(&args); }), 0);
    EXPECT_EQ(lost, 1);
    ASSERT_EQ(client.render(context, work_on({given})), 0);
    stack.drive();
    EXPECT_TRUE(client.in_memory(given));
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

// A resource comes back with all that it has, each with its answer.
TEST_F(ReclaimTest, AResourceIsReclaimedWithItsAllocations) {
  DXGKIT_COVERS("ALLOC-47", "ALLOC-45");
  listing([](Stack& stack, ListingClient& client) {
    D3DDDI_ALLOCATIONINFO2 members[2] = {};
    D3DKMT_CREATEALLOCATION whole{};
    whole.hDevice = client.device;
    whole.NumAllocations = 2;
    whole.pAllocationInfo2 = members;
    whole.Flags.CreateResource = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&whole); }), 0);
    ASSERT_EQ(client.make_resident({members[0].hAllocation, members[1].hAllocation}),
              nt_status(Status::kPending));
    stack.drive();
    D3DKMT_OFFERALLOCATIONS offering{};
    offering.hDevice = client.device;
    offering.pResources = &whole.hResource;
    offering.NumAllocations = 1;
    offering.Priority = D3DKMT_OFFER_PRIORITY_NORMAL;
    ASSERT_EQ(client.call([&] { return D3DKMTOfferAllocations(&offering); }), 0);
    BOOL discarded = 77;
    D3DKMT_RECLAIMALLOCATIONS2 args{};
    args.hPagingQueue = client.queue.handle;
    args.pResources = &whole.hResource;
    args.NumAllocations = 1;
    args.pDiscarded = &discarded;
    const NTSTATUS status = client.call([&] { return D3DKMTReclaimAllocations2(&args); });
    EXPECT_TRUE(status == 0 || status == nt_status(Status::kPending)) << status;
    EXPECT_EQ(discarded, FALSE);
    stack.drive();
    for (const D3DDDI_ALLOCATIONINFO2& member : members)
      EXPECT_TRUE(client.in_memory(member.hAllocation));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What waits for room beside the rest is not asked for twice: the second call is refused, and the
// count is what it was.
TEST_F(ReclaimTest, ARefusalLeavesTheCount) {
  DXGKIT_COVERS("ALLOC-47", "RES-05");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE given = client.make(kMemoryUnits - 2),
                        other = client.make(kMemoryUnits - 2);
    ASSERT_EQ(client.make_resident({given}), nt_status(Status::kPending));
    stack.drive();
    ASSERT_EQ(offer(client, given), 0);
    ASSERT_EQ(client.make_resident({other}, cant_trim()), nt_status(Status::kPending));
    stack.drive();
    EXPECT_EQ(reclaim(client, given).status, nt_status(Status::kPending));
    const Reclaimed again = reclaim(client, given);
    EXPECT_EQ(again.status, nt_status(Status::kNoMemory));
    EXPECT_EQ(again.fence, 0x5C5CU);
    EXPECT_EQ(client.evict({given}), 0) << "it is counted once, as before";
    EXPECT_EQ(client.evict({given}), kInvalid);
    EXPECT_EQ(client.evict({other}), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(ReclaimTest, BrokenCallsChangeNothing) {
  DXGKIT_COVERS("ALLOC-45", "THUNK-01", "THUNK-04", "THUNK-05");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE handle = client.make(1);
    ASSERT_EQ(client.make_resident({handle}), nt_status(Status::kPending));
    stack.drive();
    ASSERT_EQ(offer(client, handle), 0);
    const D3DKMT_HANDLE freed = client.make(1);
    ASSERT_EQ(client.destroy_allocation(freed, 2), 0);
    const Queue gone = client.make_queue();
    ASSERT_EQ(client.destroy_queue(gone.handle), 0);
    const D3DKMT_HANDLE other_device = client.make_device();
    Queue others;
    ASSERT_EQ(client.create_queue(&others, 0, 0, other_device), 0);
    const D3DKMT_HANDLE with_freed[] = {handle, freed};
    const D3DKMT_HANDLE with_queue[] = {handle, client.queue.handle};
    auto* const nowhere = reinterpret_cast<D3DKMT_HANDLE*>(uintptr_t{0x10});
    D3DKMT_HANDLE resources[] = {handle};
    D3DDDI_ALLOCATIONINFO2 member{};
    D3DKMT_CREATEALLOCATION whole{};
    whole.hDevice = other_device;
    whole.NumAllocations = 1;
    whole.pAllocationInfo2 = &member;
    whole.Flags.CreateResource = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&whole); }), 0);
    D3DKMT_HANDLE foreign[] = {whole.hResource};
    struct Row {
      const char* sentence;
      D3DKMT_HANDLE queue;
      const D3DKMT_HANDLE* list;
      D3DKMT_HANDLE* resources;
      UINT count;
      NTSTATUS status = kInvalid;
      bool bad_results = false;
    };
    const D3DKMT_HANDLE queue = client.queue.handle;
    const Row rows[] = {
        {"queue zero", 0, &handle, nullptr, 1},
        {"queue max", UINT32_MAX, &handle, nullptr, 1},
        {"queue with a stray bit", queue | 1, &handle, nullptr, 1},
        {"the device as the queue", client.device, &handle, nullptr, 1},
        {"a destroyed queue", gone.handle, &handle, nullptr, 1},
        {"another device's queue", others.handle, &handle, nullptr, 1},
        {"both lists", queue, &handle, resources, 1},
        {"no list", queue, nullptr, nullptr, 1},
        {"no elements", queue, &handle, nullptr, 0},
        {"max elements", queue, &handle, nullptr, UINT32_MAX},
        {"a freed allocation", queue, with_freed, nullptr, 2},
        {"a queue as an allocation", queue, with_queue, nullptr, 2},
        {"an allocation as a resource", queue, nullptr, resources, 1},
        {"another device's resource", queue, nullptr, foreign, 1},
        {"an unreadable list", queue, nowhere, nullptr, 1, nt_status(Status::kInvalidParameter)},
        {"unwritable results", queue, &handle, nullptr, 1, nt_status(Status::kInvalidParameter),
         true},
    };
    const Digest before = digest(stack, {&client});
    for (const Row& row : rows) {
      D3DDDI_RECLAIM_RESULT results[2] = {D3DDDI_RECLAIM_RESULT_NOT_COMMITTED};
      D3DKMT_RECLAIMALLOCATIONS2 args{};
      args.hPagingQueue = row.queue;
      args.HandleList = row.list;
      args.pResources = row.resources;
      args.NumAllocations = row.count;
      args.pResults =
          row.bad_results ? reinterpret_cast<D3DDDI_RECLAIM_RESULT*>(uintptr_t{0x10}) : results;
      args.PagingFenceValue = 0x5C5C;
      EXPECT_EQ(client.call([&] { return D3DKMTReclaimAllocations2(&args); }), row.status)
          << row.sentence;
      EXPECT_EQ(args.PagingFenceValue, 0x5C5CU) << row.sentence;
      EXPECT_EQ(results[0], D3DDDI_RECLAIM_RESULT_NOT_COMMITTED) << row.sentence;
    }
    EXPECT_EQ(client.call([] { return D3DKMTReclaimAllocations2(nullptr); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    void* address = nullptr;
    EXPECT_EQ(client.lock(handle, &address), kInvalid) << "offered still";
  });
}

}  // namespace
}  // namespace dxgkit::contract
