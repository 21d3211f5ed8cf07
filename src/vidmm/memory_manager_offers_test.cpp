// Offered content, and the switches that take it, or places, otherwise.
#include "vidmm/memory_manager_fixture_test.h"

namespace dxgkit::vidmm {
namespace {

class MemoryManagerOffers : public MemoryManagerTest {};

TEST_F(MemoryManagerOffers, LowGoesBeforeNormalBeforeHighBeforeTheRest) {
  DXGKIT_COVERS("ALLOC-44", "ALLOC-47");
  const AllocationId kept = add(4);
  const AllocationId high = add(4);
  const AllocationId normal = add(4);
  const AllocationId low = add(4);
  for (const AllocationId id : {kept, high, normal, low}) use(id, true);
  memory_->offer(high, OfferPriority::kHigh);
  memory_->offer(normal, OfferPriority::kNormal);
  memory_->offer(low, OfferPriority::kLow);
  const auto next_victims = [&](Kind how) {
    const ResidencyPlan plan = use(add(4));
    EXPECT_THAT(kinds(plan.operations), ElementsAre(how, Kind::kFill));
    return leavers(plan);
  };
  EXPECT_THAT(next_victims(Kind::kDiscard), ElementsAre(low));
  EXPECT_THAT(next_victims(Kind::kDiscard), ElementsAre(normal));
  EXPECT_THAT(next_victims(Kind::kDiscard), ElementsAre(high));
  EXPECT_THAT(next_victims(Kind::kTransferOut), ElementsAre(kept)) << "used longest ago";
  EXPECT_EQ(memory_->statistics().offers_discarded, 3U);
  EXPECT_EQ(memory_->statistics().offers_kept, 0U);
  EXPECT_EQ(memory_->statistics().clean_drops, 0U);
  for (const AllocationId id : {high, normal, low}) {
    EXPECT_TRUE(memory_->reclaim(id));
    EXPECT_FALSE(memory_->reclaim(id)) << "told once";
  }
  EXPECT_FALSE(memory_->reclaim(kept));
  EXPECT_EQ(kinds(use(low).operations).back(), Kind::kFill) << "it starts again";
}

/// The pages of offered content that lies in system memory may go: then there is nothing to bring
/// back.
TEST_F(MemoryManagerOffers, ContentThatWasGivenUpInSystemMemoryDoesNotComeBack) {
  DXGKIT_COVERS("ALLOC-44");
  const AllocationId written = add(2);
  const AllocationId empty = add(2);
  run(use(written, true).operations);
  const std::vector<PagingOp> out = *memory_->evict(written);
  EXPECT_THAT(kinds(out), ElementsAre(Kind::kTransferOut));
  run(out);
  for (const AllocationId id : {written, empty}) {
    memory_->offer(id, OfferPriority::kLow);
    memory_->give_up_content(id);
  }
  EXPECT_TRUE(memory_->reclaim(written));
  EXPECT_FALSE(memory_->reclaim(empty)) << "it had none";
  EXPECT_THAT(kinds(use(written).operations), ElementsAre(Kind::kFill));
}

TEST_F(MemoryManagerOffers, AutoGoesAsItsPrioritySays) {
  DXGKIT_COVERS("ALLOC-44");
  const AllocationId offered = add(8);
  const AllocationId lower = add(8);
  use(offered, true);
  use(lower, true);
  memory_->set_priority(lower, 0x50000000);
  memory_->offer(offered, OfferPriority::kAuto);
  EXPECT_THAT(leavers(use(add(8))), ElementsAre(lower));
  EXPECT_THAT(leavers(use(add(8))), ElementsAre(offered));
  EXPECT_TRUE(memory_->reclaim(offered)) << "given up all the same";
}

TEST_F(MemoryManagerOffers, TheLatestOfferCountsUntilItIsReclaimed) {
  DXGKIT_COVERS("ALLOC-44");
  const AllocationId a = add(8);
  const AllocationId b = add(8);
  use(a, true);
  use(b, true);
  memory_->offer(a, OfferPriority::kLow);
  memory_->offer(b, OfferPriority::kNormal);
  memory_->offer(a, OfferPriority::kHigh);
  EXPECT_FALSE(memory_->reclaim(b)) << "it is still there";
  EXPECT_THAT(leavers(use(add(8))), ElementsAre(a));
  EXPECT_THAT(kinds(*memory_->evict(b)), ElementsAre(Kind::kTransferOut)) << "kept again";
}

TEST_F(MemoryManagerOffers, WhatBackingPagesHoldIsNotLost) {
  const AllocationId clean = add(2);
  const AllocationId mapped = add(2, bits({3}));
  memory_->mark_cpu_written(clean);
  use(clean);
  use(mapped, true);
  for (const AllocationId id : {clean, mapped}) {
    memory_->offer(id, OfferPriority::kLow);
    ASSERT_TRUE(memory_->evict(id).has_value());
    EXPECT_FALSE(memory_->reclaim(id));
  }
  EXPECT_THAT(kinds(use(clean).operations), ElementsAre(Kind::kTransferIn));
  EXPECT_EQ(memory_->statistics().offers_discarded, 0U);
}

TEST_F(MemoryManagerOffers, TheOfferedAreNotParked) {
  DXGKIT_COVERS("ALLOC-47");
  const AllocationId a = add(parkable(6));
  use(a, true);
  memory_->offer(a, OfferPriority::kNormal);
  EXPECT_THAT(kinds(use(add(16)).operations), ElementsAre(Kind::kDiscard, Kind::kFill));
  EXPECT_EQ(memory_->placement(a), Placement{});
}

// --- switches ---

TEST_F(MemoryManagerOffers, KeptOffersAreWrittenBack) {
  DXGKIT_COVERS("REND-28");
  memory_->set_switches({.keep_offers = true});
  const AllocationId a = add(2);
  use(a, true);
  memory_->offer(a, OfferPriority::kLow);
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kTransferOut));
  EXPECT_FALSE(memory_->reclaim(a));
  EXPECT_EQ(memory_->statistics().offers_kept, 1U);
  EXPECT_EQ(memory_->statistics().offers_discarded, 0U);
  EXPECT_THAT(kinds(use(a).operations), ElementsAre(Kind::kTransferIn));
  memory_->offer(a, OfferPriority::kLow);
  ASSERT_TRUE(memory_->evict(a).has_value());
  EXPECT_EQ(memory_->statistics().offers_kept, 1U) << "a clean one needs no keeping";
}

TEST_F(MemoryManagerOffers, WithoutDemotionNobodyIsParked) {
  DXGKIT_COVERS("REND-28");
  memory_->set_switches({.no_demotion = true});
  const AllocationId a = add(parkable(6));
  use(a, true);
  EXPECT_THAT(kinds(use(add(16)).operations), ElementsAre(Kind::kTransferOut, Kind::kFill));
  EXPECT_EQ(memory_->statistics().demotions_prevented, 1U);
  use(add(16));
  EXPECT_EQ(memory_->statistics().demotions_prevented, 1U) << "the second had no eviction set";
}

TEST_F(MemoryManagerOffers, WithoutDemotionRoomIsMadeWhereItIsPreferred) {
  DXGKIT_COVERS("REND-28");
  AllocationDesc d = desc(4, bits({1, 2}));
  d.preferred[0].segment = kVram;
  for (const bool no_demotion : {false, true}) {
    start();
    memory_->set_switches({.no_demotion = no_demotion});
    const AllocationId tenant = add(16);
    use(tenant, true);
    const AllocationId a = add(d);
    EXPECT_EQ(leavers(use(a)).size(), no_demotion ? 1U : 0U);
    EXPECT_EQ(memory_->placement(a).segment, no_demotion ? kVram : kVram2);
    EXPECT_EQ(memory_->statistics().demotions_prevented, no_demotion ? 1U : 0U);
    use(add(d));
    EXPECT_EQ(memory_->statistics().demotions_prevented, no_demotion ? 1U : 0U)
        << "there is room now";
  }
}

TEST_F(MemoryManagerOffers, WithoutDemotionTheNextSegmentIsTakenWhereNoRoomCanBeMade) {
  DXGKIT_COVERS("REND-28");
  memory_->set_switches({.no_demotion = true});
  AllocationDesc d = desc(4, bits({1, 2}));
  d.preferred[0].segment = kVram;
  const AllocationId tenant = add(16);
  resident(tenant);
  const AllocationId a = add(d);
  use(a, true);
  EXPECT_EQ(memory_->placement(a).segment, kVram2);
  EXPECT_EQ(memory_->statistics().demotions_prevented, 0U);
  const AllocationId b = add(4);
  EXPECT_EQ(attempt({{b}}).error().status, Status::kGraphicsAllocationBusy);
  // Both full: room is made in the first one, and the second had none to offer.
  release(tenant);
  use(add(4, bits({2})), true);
  use(add(d), true);
  EXPECT_EQ(memory_->placement(tenant), Placement{});
  EXPECT_EQ(memory_->statistics().demotions_prevented, 0U);
}

}  // namespace
}  // namespace dxgkit::vidmm
