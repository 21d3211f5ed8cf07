// Offer and reclaim: content that may be given up, when it is, and what its owner is told.
#include <cstring>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using OfferTest = ContractTest;

constexpr uint64_t kUnit = 64 * kKibibyte;

/// The hidden segment has room for four of our allocations.
void four_places(ScriptedMiniport& miniport) { miniport.config.segments[1].size = 4 * kUnit; }

ScriptedAllocation described(uint32_t segments = kHidden) {
  ScriptedAllocation description;
  description.size = kUnit;
  description.supported_read = description.supported_write = segments;
  return description;
}

D3DKMT_OFFERALLOCATIONS offer_args(Client& client, const D3DKMT_HANDLE* list, UINT count,
                                   D3DKMT_OFFER_PRIORITY priority) {
  D3DKMT_OFFERALLOCATIONS args{};
  args.hDevice = client.device;
  args.HandleList = list;
  args.NumAllocations = count;
  args.Priority = priority;
  return args;
}
NTSTATUS offer(Client& client, D3DKMT_HANDLE handle,
               D3DKMT_OFFER_PRIORITY priority = D3DKMT_OFFER_PRIORITY_NORMAL) {
  const D3DKMT_OFFERALLOCATIONS args = offer_args(client, &handle, 1, priority);
  return client.call([&] { return D3DKMTOfferAllocations(&args); });
}
/// Whether the content was lost; -1 for a failing call.
int reclaim(Client& client, D3DKMT_HANDLE handle) {
  BOOL lost = 77;
  D3DKMT_RECLAIMALLOCATIONS args{};
  args.hDevice = client.device;
  args.HandleList = &handle;
  args.NumAllocations = 1;
  args.pDiscarded = &lost;
  return client.call([&] { return D3DKMTReclaimAllocations(&args); }) == 0 ? lost : -1;
}

/// Uses `handle`, to the end; where it was.
uint64_t use(Stack& stack, Client& client, ContextBuffers& context, D3DKMT_HANDLE handle) {
  EXPECT_EQ(client.render(context, work_on({handle})), 0);
  stack.drive();
  return stack.miniport.calls().patches.back().allocations.at(0).physical_address;
}
/// Operations of one kind the driver was asked for.
size_t operations(Stack& stack, DXGK_BUILDPAGINGBUFFER_OPERATION kind) {
  size_t count = 0;
  for (const auto& call : stack.miniport.calls().paging) count += call.args.Operation == kind;
  return count;
}

TEST_F(OfferTest, OfferedContentGoesFirstLowBeforeNormalBeforeHighAndIsNotWrittenBack) {
  DXGKIT_COVERS("ALLOC-44", "ALLOC-47", "ALLOC-46");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        // In order of use: without offers the first would leave first.
        const D3DKMT_HANDLE kept = client.make_allocation(described());
        const D3DKMT_HANDLE high = client.make_allocation(described());
        const D3DKMT_HANDLE normal = client.make_allocation(described());
        const D3DKMT_HANDLE low = client.make_allocation(described());
        const uint64_t kept_at = use(stack, client, context, kept);
        const uint64_t high_at = use(stack, client, context, high);
        const uint64_t normal_at = use(stack, client, context, normal);
        const uint64_t low_at = use(stack, client, context, low);
        ASSERT_EQ(offer(client, high, D3DKMT_OFFER_PRIORITY_HIGH), 0);
        ASSERT_EQ(offer(client, low, D3DKMT_OFFER_PRIORITY_LOW), 0);
        ASSERT_EQ(offer(client, normal, D3DKMT_OFFER_PRIORITY_NORMAL), 0);
        const uint64_t expected[] = {low_at, normal_at, high_at, kept_at};
        for (const uint64_t place : expected) {
          EXPECT_EQ(stack.statistics().page_outs, 0U);
          EXPECT_EQ(use(stack, client, context, client.make_allocation(described())), place);
        }
        EXPECT_EQ(stack.statistics().page_outs, 1U) << "the one nobody offered";
        EXPECT_EQ(operations(stack, DXGK_OPERATION_DISCARD_CONTENT), 3U);
        EXPECT_EQ(reclaim(client, low), 1);
        EXPECT_EQ(reclaim(client, normal), 1);
        EXPECT_EQ(reclaim(client, high), 1);
        EXPECT_EQ(reclaim(client, kept), 0) << "never offered, never lost";
        EXPECT_EQ(reclaim(client, low), 0) << "told once";
        // What was lost starts over, what was not comes back.
        const uint64_t fills = stack.statistics().fills, ins = stack.statistics().page_ins;
        use(stack, client, context, low);
        EXPECT_EQ(stack.statistics().fills, fills + 1);
        EXPECT_EQ(stack.statistics().page_ins, ins);
        use(stack, client, context, kept);
        EXPECT_EQ(stack.statistics().page_ins, ins + 1);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      four_places);
}

TEST_F(OfferTest, AutoGoesAsItsPrioritySays) {
  DXGKIT_COVERS("ALLOC-44");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        ScriptedAllocation lesser = described();
        lesser.priority = 0x50000000;
        const D3DKMT_HANDLE offered = client.make_allocation(described());
        const D3DKMT_HANDLE least = client.make_allocation(lesser);
        const D3DKMT_HANDLE other = client.make_allocation(described());
        const D3DKMT_HANDLE another = client.make_allocation(described());
        const uint64_t offered_at = use(stack, client, context, offered);
        const uint64_t least_at = use(stack, client, context, least);
        use(stack, client, context, other);
        use(stack, client, context, another);
        ASSERT_EQ(offer(client, offered, D3DKMT_OFFER_PRIORITY_AUTO), 0);
        EXPECT_EQ(use(stack, client, context, client.make_allocation(described())), least_at);
        EXPECT_EQ(stack.statistics().page_outs, 1U);
        EXPECT_EQ(use(stack, client, context, client.make_allocation(described())), offered_at);
        EXPECT_EQ(stack.statistics().page_outs, 1U) << "discarded in its turn";
        EXPECT_EQ(reclaim(client, offered), 1);
      },
      four_places);
}

TEST_F(OfferTest, AnOfferWaitsForWorkQueuedBeforeItAndBlocksNobody) {
  DXGKIT_COVERS("ALLOC-44");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        ContextBuffers held_back = client.make_context(1);
        const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
        const D3DKMT_HANDLE handle = client.make_allocation(described());
        use(stack, client, context, handle);
        // Queued, not on hardware: it waits for the fence, and nothing pins its memory.
        ASSERT_EQ(client.wait_gpu(held_back, fence, 1), 0);
        ASSERT_EQ(client.render(held_back, work_on({handle})), 0);
        stack.settle();
        ASSERT_EQ(offer(client, handle, D3DKMT_OFFER_PRIORITY_LOW), 0) << "returns at once";
        std::vector<D3DKMT_HANDLE> others;
        for (int i = 0; i < 4; ++i) {
          others.push_back(client.make_allocation(described()));
          use(stack, client, context, others.back());
        }
        EXPECT_EQ(stack.statistics().page_outs, 1U) << "the queued work needs the content";
        ASSERT_EQ(client.signal_cpu(fence, 1), 0);
        stack.drive();
        EXPECT_EQ(stack.statistics().page_ins, 1U);
        const uint64_t outs = stack.statistics().page_outs;
        // It has run: now the offer holds.
        const uint64_t last_at =
            stack.miniport.calls().patches.back().allocations.at(0).physical_address;
        EXPECT_EQ(use(stack, client, context, client.make_allocation(described())), last_at);
        EXPECT_EQ(stack.statistics().page_outs, outs) << "discarded";
        EXPECT_EQ(reclaim(client, handle), 1);
      },
      four_places);
}

// What is destroyed, or reclaimed, before its offer could begin is nobody's to give up any more.
TEST_F(OfferTest, AnOfferThatHasNotBegunEndsWithItsAllocation) {
  DXGKIT_COVERS("ALLOC-44", "ALLOC-26");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const size_t objects = stack.miniport.live_objects();
        const D3DKMT_HANDLE kept = client.make_allocation(described()),
                            ends = client.make_allocation(described());
        ASSERT_EQ(client.render(context, work_on({ends, kept})), 0);
        ASSERT_EQ(client.render(context, work_on({kept})), 0);
        stack.settle();
        ASSERT_EQ(offer(client, ends), 0);
        ASSERT_EQ(offer(client, kept), 0);
        ASSERT_EQ(client.destroy_allocation(ends), 0);
        EXPECT_EQ(reclaim(client, kept), 0);
        stack.drive();
        EXPECT_EQ(stack.miniport.live_objects(), objects + 2) << "one allocation and its opening";
        ASSERT_EQ(client.render(context, work_on({kept})), 0);
        stack.drive();
        EXPECT_EQ(stack.statistics().page_ins, 0U) << "it has never left";
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      four_places);
}

// Offers begin in the order in which they were made, and a reclaimed one has no turn any more.
TEST_F(OfferTest, OffersBeginInTheirOrder) {
  DXGKIT_COVERS("ALLOC-44", "REND-28");
  bare([](Stack& stack) {
    four_places(stack.miniport);
    stack.options.verifier.set(dxgk::VerifierSwitch::kAlwaysDiscardOffer);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    ContextBuffers context = client.make_context(0), beside = client.make_context(1);
    const D3DKMT_HANDLE low = client.make_allocation(described()),
                        high = client.make_allocation(described());
    const uint64_t at_low = use(stack, client, context, low);
    const uint64_t at_high = use(stack, client, context, high);
    ASSERT_LT(at_low, at_high);
    ASSERT_EQ(client.render(context, work_on({low, high})), 0);
    ASSERT_EQ(client.render(beside, work_on({})), 0);
    stack.settle();
    ASSERT_EQ(offer(client, low), 0);
    EXPECT_EQ(reclaim(client, low), 0);
    ASSERT_TRUE(stack.miniport.complete_next(1));  // everybody looks whether it is time
    stack.settle();
    ASSERT_EQ(offer(client, high), 0);
    ASSERT_EQ(offer(client, low), 0);
    stack.miniport.clear_calls();
    stack.drive();
    std::vector<uint64_t> gone;
    for (const auto& call : stack.miniport.calls().paging) {
      if (call.args.Operation == DXGK_OPERATION_DISCARD_CONTENT)
        gone.push_back(static_cast<uint64_t>(call.args.DiscardContent.SegmentAddress.QuadPart));
    }
    ASSERT_EQ(gone.size(), 2U);
    EXPECT_GT(gone[0], gone[1]) << "the later allocation was offered first";
    EXPECT_EQ(reclaim(client, high), 1);
    EXPECT_EQ(reclaim(client, low), 1);
  });
}

TEST_F(OfferTest, ReclaimedInTimeNothingIsLost) {
  DXGKIT_COVERS("ALLOC-46", "ALLOC-36", "ALLOC-44");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        ScriptedAllocation description = described(kHidden | kAperture);
        description.flags = 1;
        const D3DKMT_HANDLE handle = client.make_allocation(description);
        void* address = nullptr;
        ASSERT_EQ(client.lock(handle, &address), 0);
        std::memcpy(address, "kept", 5);
        Digest before = digest(stack, {&client});
        EXPECT_EQ(offer(client, handle), kInvalid) << "the CPU has it locked";
        EXPECT_EQ(digest(stack, {&client}), before);
        ASSERT_EQ(client.unlock(handle), 0);
        use(stack, client, context, handle);
        ASSERT_EQ(offer(client, handle), 0);
        before = digest(stack, {&client});
        EXPECT_EQ(client.lock(handle, &address), kInvalid);
        D3DKMT_LOCK old{};
        old.hDevice = client.device;
        old.hAllocation = handle;
        EXPECT_EQ(client.call([&] { return D3DKMTLock(&old); }), kInvalid);
        EXPECT_EQ(client.render(context, work_on({handle})), kInvalid) << "nor may work use it";
        EXPECT_EQ(digest(stack, {&client}), before);
        EXPECT_EQ(reclaim(client, handle), 0);
        ASSERT_EQ(client.lock(handle, &address), 0);
        EXPECT_EQ(client.unlock(handle), 0);
        use(stack, client, context, handle);
        for (int i = 0; i < 4; ++i)
          use(stack, client, context, client.make_allocation(described()));
        EXPECT_EQ(operations(stack, DXGK_OPERATION_DISCARD_CONTENT), 0U) << "it is needed again";
        EXPECT_GE(stack.statistics().page_outs, 2U);
      },
      four_places);
}

TEST_F(OfferTest, LostContentLeavesValidMemoryAndAMissingAnswerIsNoError) {
  DXGKIT_COVERS("ALLOC-46");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE handle = client.make_allocation(described());
        use(stack, client, context, handle);
        ASSERT_EQ(offer(client, handle), 0);
        for (int i = 0; i < 4; ++i)
          use(stack, client, context, client.make_allocation(described()));
        D3DKMT_RECLAIMALLOCATIONS args{};
        args.hDevice = client.device;
        args.HandleList = &handle;
        args.NumAllocations = 1;
        EXPECT_EQ(client.call([&] { return D3DKMTReclaimAllocations(&args); }), 0);
        void* address = nullptr;
        ASSERT_EQ(client.lock(handle, &address), 0);
        std::memset(address, 1, kUnit);
        EXPECT_EQ(client.unlock(handle), 0);
        const uint64_t ins = stack.statistics().page_ins;
        use(stack, client, context, handle);
        EXPECT_EQ(stack.statistics().page_ins, ins + 1) << "what the CPU wrote is content";
      },
      four_places);
}

TEST_F(OfferTest, ResourcesAreOfferedWithAllTheirAllocations) {
  DXGKIT_COVERS("ALLOC-45", "ALLOC-46");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        ScriptedAllocation data[2] = {described(), described()};
        D3DDDI_ALLOCATIONINFO infos[2] = {};
        for (size_t i = 0; i < 2; ++i) {
          infos[i].pPrivateDriverData = &data[i];
          infos[i].PrivateDriverDataSize = sizeof data[i];
        }
        D3DKMT_CREATEALLOCATION create{};
        create.hDevice = client.device;
        create.NumAllocations = 2;
        create.pAllocationInfo = infos;
        create.Flags.CreateResource = 1;
        ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
        use(stack, client, context, infos[0].hAllocation);
        use(stack, client, context, infos[1].hAllocation);
        for (int i = 0; i < 2; ++i)
          use(stack, client, context, client.make_allocation(described()));
        D3DKMT_HANDLE resource = create.hResource;
        D3DKMT_OFFERALLOCATIONS args = offer_args(client, nullptr, 1, D3DKMT_OFFER_PRIORITY_NORMAL);
        args.pResources = &resource;
        args.Flags.AllowDecommit = 1;
        ASSERT_EQ(client.call([&] { return D3DKMTOfferAllocations(&args); }), 0);
        use(stack, client, context, client.make_allocation(described()));
        D3DKMT_HANDLE twice[] = {resource, resource};
        BOOL lost[2] = {};
        D3DKMT_RECLAIMALLOCATIONS back{};
        back.hDevice = client.device;
        back.pResources = twice;
        back.NumAllocations = 2;
        back.pDiscarded = lost;
        ASSERT_EQ(client.call([&] { return D3DKMTReclaimAllocations(&back); }), 0);
        EXPECT_EQ(lost[0], 1) << "one of its two is gone";
        EXPECT_EQ(lost[1], 1) << "whoever asks";
        EXPECT_EQ(client.render(context, work_on({infos[0].hAllocation, infos[1].hAllocation})), 0)
            << "both are back";
        stack.drive();
      },
      four_places);
}

/// Broken calls: exact status and nothing changed; each row breaks both calls alike.
struct BadCall {
  const char* sentence;
  NTSTATUS status;
  void (*broken)(D3DKMT_OFFERALLOCATIONS&, Client&);
  bool offer_only = false;
};
class BadOffer : public ContractTest, public ::testing::WithParamInterface<BadCall> {};
TEST_P(BadOffer, IsRefusedAndNothingChanges) {
  DXGKIT_COVERS("ALLOC-44", "ALLOC-45", "THUNK-03", "THUNK-04", "THUNK-05", "THUNK-01");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE good = client.make_allocation(described(kHidden | kAperture));
    D3DKMT_HANDLE list[2] = {good, good};
    D3DKMT_OFFERALLOCATIONS args = offer_args(client, list, 2, D3DKMT_OFFER_PRIORITY_NORMAL);
    GetParam().broken(args, client);
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTOfferAllocations(&args); }), GetParam().status);
    EXPECT_EQ(digest(stack, {&client}), before);
    void* address = nullptr;
    EXPECT_EQ(client.lock(good, &address), 0) << "it is not offered";
    EXPECT_EQ(client.unlock(good), 0);
    if (GetParam().offer_only) return;
    BOOL lost[2] = {7, 7};
    D3DKMT_RECLAIMALLOCATIONS back{};
    back.hDevice = args.hDevice;
    back.pResources = args.pResources;
    back.HandleList = args.HandleList;
    back.NumAllocations = args.NumAllocations;
    back.pDiscarded = lost;
    EXPECT_EQ(client.call([&] { return D3DKMTReclaimAllocations(&back); }), GetParam().status);
    EXPECT_EQ(lost[0], 7);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}
D3DKMT_HANDLE second[2];
void with_second(D3DKMT_OFFERALLOCATIONS& args, D3DKMT_HANDLE handle) {
  second[0] = args.HandleList[0];
  second[1] = handle;
  args.HandleList = second;
}
const BadCall kBadCalls[] = {
    {"PriorityNone", kInvalid,
     [](auto& a, auto&) { a.Priority = static_cast<D3DKMT_OFFER_PRIORITY>(0); }, true},
    {"PriorityFive", kInvalid,
     [](auto& a, auto&) { a.Priority = static_cast<D3DKMT_OFFER_PRIORITY>(5); }, true},
    {"PriorityMax", kInvalid,
     [](auto& a, auto&) { a.Priority = static_cast<D3DKMT_OFFER_PRIORITY>(INT32_MAX); }, true},
    {"AReservedFlag", kInvalid, [](auto& a, auto&) { a.Flags.Value = 4; }, true},
    {"AllFlags", kInvalid, [](auto& a, auto&) { a.Flags.Value = UINT32_MAX; }, true},
    {"BothLists", kInvalid,
     [](auto& a, auto&) { a.pResources = const_cast<D3DKMT_HANDLE*>(a.HandleList); }},
    {"NoList", kInvalid, [](auto& a, auto&) { a.HandleList = nullptr; }},
    {"NoElements", kInvalid, [](auto& a, auto&) { a.NumAllocations = 0; }},
    {"MaxElements", kInvalid, [](auto& a, auto&) { a.NumAllocations = UINT32_MAX; }},
    {"AnUnreadableList", nt_status(Status::kInvalidParameter),
     [](auto& a, auto&) {
       a.HandleList = reinterpret_cast<const D3DKMT_HANDLE*>(uintptr_t{0x10});
     }},
    {"DeviceZero", kInvalid, [](auto& a, auto&) { a.hDevice = 0; }},
    {"DeviceMax", kInvalid, [](auto& a, auto&) { a.hDevice = UINT32_MAX; }},
    {"AnotherDevice", kInvalid, [](auto& a, auto& c) { a.hDevice = c.make_device(); }},
    {"TheAdapterAsTheDevice", kInvalid, [](auto& a, auto& c) { a.hDevice = c.adapter; }},
    {"AllocationZero", kInvalid, [](auto& a, auto&) { with_second(a, 0); }},
    {"AllocationMax", kInvalid, [](auto& a, auto&) { with_second(a, UINT32_MAX); }},
    {"AllocationWithAStrayBit", kInvalid,
     [](auto& a, auto&) { with_second(a, a.HandleList[0] | 1); }},
    {"TheDeviceAsAnAllocation", kInvalid, [](auto& a, auto& c) { with_second(a, c.device); }},
    {"FreedAllocation", kInvalid,
     [](auto& a, auto& c) {
       const D3DKMT_HANDLE freed = c.make_allocation();
       EXPECT_EQ(c.destroy_allocation(freed, 2), 0);
       with_second(a, freed);
     }},
    {"AResourceOfAnotherDevice", kInvalid,
     [](auto& a, auto& c) {
       D3DDDI_ALLOCATIONINFO member{};
       D3DKMT_CREATEALLOCATION create{};
       create.hDevice = c.make_device();
       create.NumAllocations = 1;
       create.pAllocationInfo = &member;
       create.Flags.CreateResource = 1;
       EXPECT_EQ(c.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
       second[0] = create.hResource;
       a.pResources = second;
       a.HandleList = nullptr;
       a.NumAllocations = 1;
     }},
    {"MemoryOfTheClients", kInvalid,
     [](auto& a, auto& c) {
       alignas(4096) static std::byte memory[kUnit];
       ScriptedAllocation data = described(kAperture);
       data.flags = 1U << 4;  // ExistingSysMem
       D3DDDI_ALLOCATIONINFO info{};
       info.pSystemMem = memory;
       info.pPrivateDriverData = &data;
       info.PrivateDriverDataSize = sizeof data;
       D3DKMT_CREATEALLOCATION create{};
       create.hDevice = c.device;
       create.NumAllocations = 1;
       create.pAllocationInfo = &info;
       EXPECT_EQ(c.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
       with_second(a, info.hAllocation);
     },
     true},
    {"AllocationsAsResources", kInvalid,
     [](auto& a, auto&) {
       a.pResources = const_cast<D3DKMT_HANDLE*>(a.HandleList);
       a.HandleList = nullptr;
     }},
};
INSTANTIATE_TEST_SUITE_P(Rows, BadOffer, ::testing::ValuesIn(kBadCalls),
                         [](const auto& row) { return std::string(row.param.sentence); });

// However many are reclaimed, there is an answer for each and for nobody else.
TEST_F(OfferTest, EachOfAListHasItsAnswer) {
  DXGKIT_COVERS("ALLOC-46");
  with_client([](Stack&, Client& client) {
    std::vector<D3DKMT_HANDLE> all;
    for (UINT count = 1; count <= 32; ++count) {
      all.push_back(client.make_allocation(described(kHidden | kAperture)));
      for (const D3DKMT_HANDLE one : all) ASSERT_EQ(offer(client, one), 0);
      std::vector<BOOL> lost(count + 1, 7);
      D3DKMT_RECLAIMALLOCATIONS args{};
      args.hDevice = client.device;
      args.HandleList = all.data();
      args.NumAllocations = count;
      args.pDiscarded = lost.data();
      ASSERT_EQ(client.call([&] { return D3DKMTReclaimAllocations(&args); }), 0);
      EXPECT_EQ(std::ranges::count(lost, 0), count);
      EXPECT_EQ(lost.back(), 7);
    }
  });
}

TEST_F(OfferTest, TheAnswerMustArrive) {
  DXGKIT_COVERS("THUNK-01", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE handle = client.make_allocation(described(kHidden | kAperture));
    ASSERT_EQ(offer(client, handle), 0);
    D3DKMT_RECLAIMALLOCATIONS args{};
    args.hDevice = client.device;
    args.HandleList = &handle;
    args.NumAllocations = 1;
    args.pDiscarded = reinterpret_cast<BOOL*>(uintptr_t{0x10});
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTReclaimAllocations(&args); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
    void* address = nullptr;
    EXPECT_EQ(client.lock(handle, &address), kInvalid) << "offered still";
    EXPECT_EQ(client.call([] { return D3DKMTReclaimAllocations(nullptr); }), kInvalid);
    EXPECT_EQ(client.call([] { return D3DKMTOfferAllocations(nullptr); }), kInvalid);
    EXPECT_EQ(reclaim(client, handle), 0);
  });
}

// Clients list the same again and again: that may save looking, but nothing of what is seen.
TEST_F(OfferTest, AListLikeTheLastOneIsRefusedAndTranslatedLikeANewOne) {
  DXGKIT_COVERS("REND-04", "REND-06");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE a = client.make_allocation(kUnit, kHidden);
    ContextBuffers context = client.make_context();
    const Work work = work_on({a});
    const auto render = [&] {
      const NTSTATUS status = client.render(context, work);
      stack.drive();
      return status;
    };
    const auto listed = [&] { return stack.miniport.calls().renders.back().allocations.at(0); };
    ASSERT_EQ(render(), 0);
    EXPECT_EQ(listed().segment(), 0U) << "never paged in";
    ASSERT_EQ(render(), 0);
    EXPECT_EQ(listed().segment(), 2U) << "where the first one brought it";
    ASSERT_EQ(offer(client, a), 0);
    EXPECT_EQ(render(), kInvalid);
    ASSERT_EQ(reclaim(client, a), 0);
    ASSERT_EQ(render(), 0);
    ASSERT_EQ(client.destroy_allocation(a), 0);
    EXPECT_EQ(render(), nt_status(Status::kInvalidHandle));
    EXPECT_EQ(stack.miniport.count("DxgkDdiRender"), 3U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
