// Offered content that gives its pages back to the system.
#include <cstring>

#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr uint64_t kPages = kUnit / 4096;
const HANDLE kOwn = reinterpret_cast<HANDLE>(static_cast<intptr_t>(-1));

/// Rendering without residency lists: what work names is brought in.
class Commitments : public ContractTest {
 protected:
  static ScriptedAllocation described() {
    ScriptedAllocation description;
    description.size = kUnit;
    description.supported_read = description.supported_write = 1U << 1;
    return description;
  }
  static NTSTATUS offer(Client& client, D3DKMT_HANDLE handle, D3DKMT_OFFER_PRIORITY priority,
                        bool allow_decommit = true, bool immediately = false) {
    D3DKMT_OFFERALLOCATIONS args{};
    args.hDevice = client.device;
    args.HandleList = &handle;
    args.NumAllocations = 1;
    args.Priority = priority;
    args.Flags.AllowDecommit = allow_decommit ? 1 : 0;
    args.Flags.OfferImmediately = immediately ? 1 : 0;
    return client.call([&] { return D3DKMTOfferAllocations(&args); });
  }
  static NTSTATUS reclaim(Client& client, D3DKMT_HANDLE handle, BOOL* lost) {
    D3DKMT_RECLAIMALLOCATIONS args{};
    args.hDevice = client.device;
    args.HandleList = &handle;
    args.NumAllocations = 1;
    args.pDiscarded = lost;
    return client.call([&] { return D3DKMTReclaimAllocations(&args); });
  }
  struct Trim {
    uint64_t bytes = UINT64_MAX;
    bool lazy = false, only_repurposed = false;
  };
  static uint64_t trim(Client& client, const Trim& what) {
    D3DKMT_TRIMPROCESSCOMMITMENT args{};
    args.cbSize = sizeof args;
    args.hProcess = kOwn;
    args.Flags.Lazy = what.lazy ? 1 : 0;
    args.Flags.OnlyRepurposed = what.only_repurposed ? 1 : 0;
    args.DecommitRequested = what.bytes;
    client.stack.blocking(
        [&] { EXPECT_EQ(client.call([&] { return D3DKMTTrimProcessCommitment(&args); }), 0); });
    return args.NumBytesDecommitted;
  }
  static D3DKMT_QUERYPROCESSOFFERINFO offers(Client& client) {
    D3DKMT_QUERYPROCESSOFFERINFO args{};
    args.cbSize = sizeof args;
    args.hProcess = kOwn;
    EXPECT_EQ(client.call([&] { return D3DKMTQueryProcessOfferInfo(&args); }), 0);
    return args;
  }
  static void use(Stack& stack, Client& client, ContextBuffers& context, D3DKMT_HANDLE handle) {
    EXPECT_EQ(client.render(context, work_on({handle})), 0);
    stack.drive();
  }
};

void four_places(ScriptedMiniport& miniport) { miniport.config.segments[1].size = 4 * kUnit; }

TEST_F(Commitments, TrimmingTakesThePagesOfOffersAndReclaimingGivesThemBack) {
  DXGKIT_COVERS("ALLOC-59", "THUNK-57");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE resident = client.make_allocation(described());
        const D3DKMT_HANDLE never_used = client.make_allocation(described());
        const D3DKMT_HANDLE stays = client.make_allocation(described());
        use(stack, client, context, resident);
        const uint64_t free_pages = stack.machine.free_page_count();
        EXPECT_EQ(offers(client).DecommittableBytes, 0U);
        const uint64_t uniqueness = offers(client).DecommitUniqueness;
        ASSERT_EQ(offer(client, resident, D3DKMT_OFFER_PRIORITY_NORMAL), 0);
        ASSERT_EQ(offer(client, never_used, D3DKMT_OFFER_PRIORITY_HIGH), 0);
        ASSERT_EQ(offer(client, stays, D3DKMT_OFFER_PRIORITY_LOW, /*allow_decommit=*/false), 0);
        EXPECT_EQ(offers(client).DecommittableBytes, 2 * kUnit);
        EXPECT_NE(offers(client).DecommitUniqueness, uniqueness);
        EXPECT_EQ(trim(client, {}), 2 * kUnit);
        EXPECT_EQ(stack.machine.free_page_count(), free_pages + 2 * kPages);
        EXPECT_EQ(offers(client).DecommittableBytes, 0U);
        EXPECT_EQ(trim(client, {}), 0U) << "nothing is left";

        BOOL lost = 7;
        EXPECT_EQ(reclaim(client, resident, &lost), 0);
        EXPECT_EQ(lost, 1);
        EXPECT_EQ(reclaim(client, never_used, &lost), 0);
        EXPECT_EQ(lost, 0) << "it had no content";
        EXPECT_EQ(reclaim(client, stays, &lost), 0);
        EXPECT_EQ(lost, 0);
        EXPECT_EQ(stack.machine.free_page_count(), free_pages);
        const uint64_t fills = stack.statistics().fills;
        use(stack, client, context, resident);
        EXPECT_EQ(stack.statistics().fills, fills + 1) << "it starts over";
        void* address = nullptr;
        ASSERT_EQ(client.lock(never_used, &address), 0);
        std::memset(address, 1, kUnit);
        EXPECT_EQ(client.unlock(never_used), 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      four_places);
}

TEST_F(Commitments, TheLeastValuableOffersGoFirstAndNoMoreThanAsked) {
  DXGKIT_COVERS("ALLOC-59", "THUNK-57");
  with_client([](Stack&, Client& client) {
    const D3DKMT_HANDLE high = client.make_allocation(described());
    const D3DKMT_HANDLE low = client.make_allocation(described());
    const D3DKMT_HANDLE normal = client.make_allocation(described());
    // Content of the CPU: what it loses tells which of them went.
    for (const D3DKMT_HANDLE one : {high, low, normal}) {
      void* address = nullptr;
      ASSERT_EQ(client.lock(one, &address), 0);
      std::memset(address, 1, kUnit);
      ASSERT_EQ(client.unlock(one), 0);
    }
    ASSERT_EQ(offer(client, high, D3DKMT_OFFER_PRIORITY_HIGH), 0);
    ASSERT_EQ(offer(client, low, D3DKMT_OFFER_PRIORITY_LOW), 0);
    ASSERT_EQ(offer(client, normal, D3DKMT_OFFER_PRIORITY_NORMAL), 0);
    EXPECT_EQ(trim(client, {.bytes = 0}), 0U);
    EXPECT_EQ(trim(client, {.bytes = kUnit + 1}), 2 * kUnit) << "whole allocations";
    BOOL lost = 7;
    EXPECT_EQ(reclaim(client, high, &lost), 0);
    EXPECT_EQ(lost, 0);
    EXPECT_EQ(reclaim(client, low, &lost), 0);
    EXPECT_EQ(lost, 1);
    EXPECT_EQ(reclaim(client, normal, &lost), 0);
    EXPECT_EQ(lost, 1);
  });
}

TEST_F(Commitments, LazyTrimmingMovesNothingAndRepurposedIsWhatOthersPushedOut) {
  DXGKIT_COVERS("THUNK-57");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE pushed_out = client.make_allocation(described());
        const D3DKMT_HANDLE resident = client.make_allocation(described());
        use(stack, client, context, pushed_out);
        use(stack, client, context, resident);
        ASSERT_EQ(offer(client, pushed_out, D3DKMT_OFFER_PRIORITY_LOW), 0);
        ASSERT_EQ(offer(client, resident, D3DKMT_OFFER_PRIORITY_HIGH), 0);
        EXPECT_EQ(trim(client, {.only_repurposed = true}), 0U);
        EXPECT_EQ(trim(client, {.lazy = true}), 0U) << "both are in video memory";
        for (int i = 0; i < 3; ++i)
          use(stack, client, context, client.make_allocation(described()));
        EXPECT_EQ(trim(client, {.only_repurposed = true}), kUnit);
        EXPECT_EQ(trim(client, {.lazy = true}), 0U);
        EXPECT_EQ(trim(client, {}), kUnit);
      },
      four_places);
}

TEST_F(Commitments, AnAllocationThatIsWantedTakesThePagesOfOffers) {
  DXGKIT_COVERS("ALLOC-59");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE offered = client.make_allocation(described());
    ASSERT_EQ(offer(client, offered, D3DKMT_OFFER_PRIORITY_NORMAL), 0);
    int asked = 0;
    stack.machine.set_page_fault([&](uint64_t) { return ++asked == 1; });
    D3DKMT_HANDLE made = 0;
    EXPECT_EQ(client.create_allocation(described(), &made), 0);
    EXPECT_EQ(asked, 2);
    EXPECT_EQ(offers(client).DecommittableBytes, 0U) << "they are gone";
    asked = 0;
    EXPECT_EQ(client.create_allocation(described(), &made), nt_status(Status::kNoMemory))
        << "nothing more is offered";
    EXPECT_EQ(asked, 1);
    stack.machine.set_page_fault({});
  });
}

TEST_F(Commitments, WithoutPagesReclaimingFailsAndTheOfferStays) {
  DXGKIT_COVERS("ALLOC-59", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE kept = client.make_allocation(described());
    const D3DKMT_HANDLE gone = client.make_allocation(described());
    ASSERT_EQ(offer(client, kept, D3DKMT_OFFER_PRIORITY_NORMAL, /*allow_decommit=*/false), 0);
    ASSERT_EQ(offer(client, gone, D3DKMT_OFFER_PRIORITY_NORMAL), 0);
    ASSERT_EQ(trim(client, {}), kUnit);
    stack.machine.set_page_fault([](uint64_t) { return true; });
    const Digest before = digest(stack, {&client});
    const D3DKMT_HANDLE both[] = {kept, gone};
    BOOL lost[2] = {7, 7};
    D3DKMT_RECLAIMALLOCATIONS args{};
    args.hDevice = client.device;
    args.HandleList = both;
    args.NumAllocations = 2;
    args.pDiscarded = lost;
    EXPECT_EQ(client.call([&] { return D3DKMTReclaimAllocations(&args); }),
              nt_status(Status::kNoMemory));
    EXPECT_EQ(lost[0], 7);
    EXPECT_EQ(digest(stack, {&client}), before);
    ContextBuffers context = client.make_context();
    EXPECT_EQ(client.render(context, work_on({kept})), kInvalid) << "still offered";
    stack.machine.set_page_fault({});
    EXPECT_EQ(client.call([&] { return D3DKMTReclaimAllocations(&args); }), 0);
    EXPECT_EQ(client.render(context, work_on({kept, gone})), 0);
    stack.drive();
  });
}

// With a residency list: reclaimed with a queue, each element has a result of its own.
TEST_F(Commitments, AQueueTellsWhichElementsFoundNoPages) {
  DXGKIT_COVERS("ALLOC-59", "ALLOC-47");
  running(
      [](Stack& stack) {
        ListingClient client(stack);
        const D3DKMT_HANDLE kept = client.make(1), gone = client.make(1);
        ASSERT_EQ(client.make_resident({kept, gone}), STATUS_PENDING);
        stack.drive();
        ASSERT_EQ(offer(client, kept, D3DKMT_OFFER_PRIORITY_NORMAL, /*allow_decommit=*/false), 0);
        ASSERT_EQ(offer(client, gone, D3DKMT_OFFER_PRIORITY_NORMAL), 0);
        ASSERT_EQ(trim(client, {}), kUnit);
        NTSTATUS refused = 0;
        const D3DDDI_MAKERESIDENT asked = client.make_resident({gone}, &refused);
        EXPECT_EQ(refused, kInvalid) << "it has no pages";
        EXPECT_EQ(asked.NumBytesToTrim, 0x5C5C5C5CU) << "outputs stay";
        EXPECT_EQ(asked.PagingFenceValue, 0x5C5C5C5CU);
        EXPECT_EQ(asked.NumAllocations, 1U);
        const D3DKMT_HANDLE both[] = {kept, gone};
        D3DDDI_RECLAIM_RESULT results[2] = {};
        D3DKMT_RECLAIMALLOCATIONS2 args{};
        args.hPagingQueue = client.queue.handle;
        args.HandleList = both;
        args.NumAllocations = 2;
        args.pResults = results;
        stack.machine.set_page_fault([](uint64_t) { return true; });
        EXPECT_EQ(client.call([&] { return D3DKMTReclaimAllocations2(&args); }), 0);
        EXPECT_EQ(results[0], D3DDDI_RECLAIM_RESULT_OK);
        EXPECT_EQ(results[1], D3DDDI_RECLAIM_RESULT_NOT_COMMITTED);
        stack.machine.set_page_fault({});
        EXPECT_EQ(client.call([&] { return D3DKMTReclaimAllocations2(&args); }), STATUS_PENDING);
        EXPECT_EQ(results[0], D3DDDI_RECLAIM_RESULT_OK);
        EXPECT_EQ(results[1], D3DDDI_RECLAIM_RESULT_DISCARDED);
        stack.drive();
        EXPECT_TRUE(client.in_memory(gone));
      },
      explicit_residency);
}

TEST_F(Commitments, AnImmediateOfferReturnsWhenItHolds) {
  DXGKIT_COVERS("ALLOC-60");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE handle = client.make_allocation(described());
    ASSERT_EQ(client.render(context, work_on({handle})), 0);
    stack.settle();
    {
      Stack::Background call(stack, [&] {
        EXPECT_EQ(offer(client, handle, D3DKMT_OFFER_PRIORITY_LOW, /*allow_decommit=*/true,
                        /*immediately=*/true),
                  0);
        EXPECT_EQ(offers(client).DecommittableBytes, kUnit) << "it holds already";
      });
      EXPECT_FALSE(call.finished()) << "work uses it";
      EXPECT_EQ(offers(client).DecommittableBytes, 0U);
      call.finish();
    }
    BOOL lost = 7;
    EXPECT_EQ(reclaim(client, handle, &lost), 0);
    EXPECT_EQ(lost, 0);
  });
}

}  // namespace
}  // namespace dxgkit::contract
