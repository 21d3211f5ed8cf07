// Who leaves, where to, and what may not.
#include "vidmm/memory_manager_fixture_test.h"

namespace dxgkit::vidmm {
namespace {

class MemoryManagerVictims : public MemoryManagerTest {};

TEST_F(MemoryManagerVictims, LowerPriorityLeavesFirstThenLeastRecentlyUsed) {
  DXGKIT_COVERS("RES-22");
  std::vector<AllocationId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(add(4));
  for (const AllocationId id : ids) use(id);
  use(ids[0]);
  memory_->set_priority(ids[3], 0x78000001);  // one more than normal
  memory_->set_priority(ids[2], 0x50000000);
  const auto next_victims = [&] { return leavers(use(add(4))); };
  EXPECT_THAT(next_victims(), ElementsAre(ids[2])) << "lowest priority";
  EXPECT_THAT(next_victims(), ElementsAre(ids[1])) << "least recently used of the normal ones";
  EXPECT_THAT(next_victims(), ElementsAre(ids[0]));
}

TEST_F(MemoryManagerVictims, OnlyWhatIsInTheWayLeaves) {
  std::vector<AllocationId> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(add(2));
  // Least recently used first: 0, 4, 2, 3, ... 4 stands alone, 2 and 3 are neighbours.
  for (const AllocationId id : ids) resident(id);
  for (const AllocationId id : ids) release(id);
  for (const size_t i : {0UL, 4UL, 2UL, 3UL, 1UL, 5UL, 6UL, 7UL}) use(ids[i]);
  const ResidencyPlan plan = use(add(4));
  EXPECT_THAT(leavers(plan), UnorderedElementsAre(ids[2], ids[3]))
      << "0 and 4 came first but left no hole of four pages";
}

TEST_F(MemoryManagerVictims, WhatIsInUseIsNeverMoved) {
  DXGKIT_COVERS("RES-21");
  const AllocationId a = add(8);
  const AllocationId b = add(8);
  resident(a, true);
  resident(b);
  const Placement before = memory_->placement(a);
  const AllocationId c = add(8);
  const auto refused = attempt({{c}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsAllocationBusy);
  EXPECT_EQ(memory_->evict(a).error(), Status::kGraphicsAllocationBusy);
  EXPECT_EQ(memory_->evict_segment(kVram).error(), Status::kGraphicsAllocationBusy);
  EXPECT_EQ(memory_->placement(a), before);
  release(b);
  const ResidencyPlan plan = resident(c);
  EXPECT_THAT(leavers(plan), ElementsAre(b));
  EXPECT_EQ(memory_->placement(a), before);
}

TEST_F(MemoryManagerVictims, PinnedByTheDriverStaysOnceResident) {
  AllocationDesc d = desc(8);
  d.pinned = true;
  const AllocationId a = add(d);
  use(a, true);
  EXPECT_EQ(memory_->evict(a).error(), Status::kGraphicsAllocationBusy);
  const AllocationId b = add(16);
  const auto refused = attempt({{b}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsAllocationBusy) << "fits once a is destroyed";
  EXPECT_EQ(memory_->placement(a).segment, kVram);
}

TEST_F(MemoryManagerVictims, FailureChangesNothing) {
  std::vector<AllocationId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(add(4));
  for (const AllocationId id : ids) use(id, true);
  resident(ids[3]);
  const AllocationId a = add(8);
  const AllocationId b = add(8);
  const Statistics before = memory_->statistics();
  const auto refused = attempt({{a}, {b}});  // a would fit by evicting 0 and 1, b not beside 3
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsAllocationBusy);
  EXPECT_EQ(refused.error().first_failed_use, 1U);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(page_of(ids[i]), 4 * i);
  EXPECT_EQ(memory_->placement(a), Placement{});
  EXPECT_EQ(memory_->pin_count(a), 0U);
  EXPECT_EQ(memory_->statistics().evictions, before.evictions);
  EXPECT_THAT(leavers(use(add(4))), ElementsAre(ids[0])) << "the eviction order is as before";
}

TEST_F(MemoryManagerVictims, NoVideoMemoryOnlyIfTheListDoesNotFitAlone) {
  const AllocationId a = add(8);
  const AllocationId b = add(8);
  const AllocationId c = add(1);
  const AllocationId other = add(16);
  resident(other);
  auto refused = attempt({{a}, {b}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsAllocationBusy);
  EXPECT_EQ(refused.error().first_failed_use, 0U);
  refused = attempt({{a}, {b}, {c}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsNoVideoMemory);
  EXPECT_EQ(refused.error().first_failed_use, 2U) << "split there, both halves fit";
  release(other);
  resident({{a}, {b}});
}

TEST_F(MemoryManagerVictims, EmptyingASegmentTakesEverybodyOrNobody) {
  const AllocationId a = add(4);
  const AllocationId b = add(4);
  use(a, true);
  use(b);
  memory_->lock(b);
  EXPECT_EQ(memory_->evict_segment(kVram).error(), Status::kGraphicsAllocationBusy);
  EXPECT_EQ(memory_->usage(kVram).allocations, 2U);
  memory_->unlock(b);
  const auto ops = memory_->evict_segment(kVram);
  ASSERT_TRUE(ops.has_value());
  EXPECT_THAT(kinds(*ops), ElementsAre(Kind::kTransferOut, Kind::kTransferOut));
  EXPECT_EQ(memory_->usage(kVram).largest_free_bytes, 16 * kPageBytes);
  EXPECT_TRUE(memory_->validate());
}

TEST_F(MemoryManagerVictims, AVictimWithAnEvictionSetIsParkedInItsAperture) {
  DXGKIT_COVERS("ALLOC-09");
  AllocationDesc parkable = desc(6, bits({1, 3}));
  parkable.preferred[0].segment = kVram;
  parkable.eviction = bits({3});
  const AllocationId victim = add(parkable);
  use(victim, true);
  const AllocationId large = add(16);
  const ResidencyPlan plan = use(large, true);
  EXPECT_THAT(kinds(plan.operations),
              ElementsAre(Kind::kMapAperture, Kind::kTransferOut, Kind::kFill));
  EXPECT_EQ(plan.operations[0].place.segment, kAperture);
  EXPECT_EQ(plan.operations[1].place.segment, kVram);
  EXPECT_EQ(plan.operations[1].backing, plan.operations[0].place) << "copied through the aperture";
  EXPECT_EQ(memory_->placement(victim).segment, kAperture);
  run(plan.operations);
  // Its next use goes back to where it wants to be.
  ASSERT_TRUE(memory_->evict(large).has_value());
  const ResidencyPlan back = use(victim);
  EXPECT_THAT(kinds(back.operations), ElementsAre(Kind::kUnmapAperture, Kind::kTransferIn));
  EXPECT_EQ(memory_->placement(victim).segment, kVram);
  EXPECT_EQ(memory_->usage(kAperture).allocations, 0U);
}

TEST_F(MemoryManagerVictims, WithoutRoomInTheApertureAVictimGoesStraightToItsPages) {
  DXGKIT_COVERS("ALLOC-09");
  AllocationDesc parkable = desc(6);
  parkable.eviction = bits({3});
  use(add(4, bits({3})), true);  // the aperture may commit eight pages
  const AllocationId victim = add(parkable);
  use(victim, true);
  EXPECT_THAT(kinds(use(add(16), true).operations), ElementsAre(Kind::kTransferOut, Kind::kFill));
  EXPECT_EQ(memory_->placement(victim), Placement{});
  use(victim, true);
  EXPECT_EQ(memory_->usage(kAperture).allocations, 1U) << "nobody leaves to let a victim park";
}

TEST_F(MemoryManagerVictims, APitchedApertureIsNeverUsedForEviction) {
  DXGKIT_COVERS("SEG-39");
  std::vector<SegmentDesc> segments = usual_segments();
  segments[2].pitch_alignment = true;
  start(segments);
  AllocationDesc parkable = desc(6);
  parkable.eviction = bits({3});
  const AllocationId victim = add(parkable);
  use(victim, true);
  EXPECT_THAT(kinds(use(add(16), true).operations), ElementsAre(Kind::kTransferOut, Kind::kFill));
  EXPECT_EQ(memory_->placement(victim), Placement{});
}

TEST_F(MemoryManagerVictims, ARefusalLeavesParkedAllocationsParked) {
  AllocationDesc parkable = desc(6, bits({1, 3}));
  parkable.preferred[0].segment = kVram;
  parkable.eviction = bits({3});
  const AllocationId parked = add(parkable);
  use(parked, true);
  const AllocationId large = add(16);
  resident(large, true);
  ASSERT_EQ(memory_->placement(parked).segment, kAperture);
  const Placement place = memory_->placement(parked);
  EXPECT_FALSE(attempt({{parked, true}, {add(2), true}}).has_value());
  EXPECT_EQ(memory_->placement(parked), place);
  release(large, true);
  ASSERT_TRUE(memory_->evict(large).has_value());
  use(parked);
  EXPECT_EQ(memory_->placement(parked).segment, kVram) << "still only parked there";
}

}  // namespace
}  // namespace dxgkit::vidmm
