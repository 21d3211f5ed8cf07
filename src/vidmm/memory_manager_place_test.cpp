// Where allocations go.
#include "vidmm/memory_manager_fixture_test.h"

namespace dxgkit::vidmm {
namespace {

class MemoryManagerPlaces : public MemoryManagerTest {};

TEST_F(MemoryManagerPlaces, GpuAddressIsSegmentBasePlusOffset) {
  DXGKIT_COVERS("SEG-17");
  const AllocationId a = add(3);
  const AllocationId b = add(2);
  resident(a);
  const ResidencyPlan plan = resident(b);
  EXPECT_THAT(plan.placements,
              ElementsAre(Placement{kVram, 3 * kPageBytes, kBase + 3 * kPageBytes}));
  EXPECT_EQ(memory_->at(kVram, 2 * kPageBytes + 5), a);
  EXPECT_EQ(memory_->at(kVram, 4 * kPageBytes), b);
  EXPECT_EQ(memory_->at(kVram, 5 * kPageBytes), std::nullopt);
  EXPECT_EQ(memory_->at(kVram, 16 * kPageBytes), std::nullopt);
}

TEST_F(MemoryManagerPlaces, PreferencesInOrderThenTheRestByAscendingId) {
  DXGKIT_COVERS("ALLOC-10");
  AllocationDesc d = desc(8, bits({1, 2, 3}));
  d.preferred[1] = {kAperture, SearchFrom::kTop};  // slot 0 is empty
  d.preferred[3] = {kVram2, SearchFrom::kBottom};
  std::vector<AllocationId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(add(d));
  for (const AllocationId id : ids) resident(id);
  EXPECT_EQ(memory_->placement(ids[0]).segment, kAperture);
  EXPECT_EQ(page_of(ids[0]), 8U) << "its direction bit says from the top";
  EXPECT_EQ(memory_->placement(ids[1]).segment, kVram2);
  EXPECT_EQ(memory_->placement(ids[2]).segment, kVram);
  EXPECT_EQ(page_of(ids[2]), 0U);
  EXPECT_EQ(page_of(ids[3]), 8U);
}

TEST_F(MemoryManagerPlaces, BankHintsAreOneBasedAndTriedInOrder) {
  DXGKIT_COVERS("ALLOC-11", "SEG-27");
  auto segments = usual_segments();
  segments[0].bank_end_offsets = {4 * kPageBytes, 10 * kPageBytes, 16 * kPageBytes};
  start(segments);
  AllocationDesc d = desc(3);
  d.preferred[0] = {kVram, SearchFrom::kBottom};
  d.banks[1] = {2, SearchFrom::kTop};  // slot 0 is empty, later ones still count
  d.banks[2] = {3, SearchFrom::kBottom};
  const AllocationId a = add(d);
  const AllocationId b = add(d);
  const AllocationId c = add(d);
  for (const AllocationId id : {a, b, c}) resident(id);
  EXPECT_EQ(page_of(a), 7U);
  EXPECT_EQ(page_of(b), 4U);
  EXPECT_EQ(page_of(c), 10U) << "bank 2 is full, bank 3 from the bottom";
  const AllocationId e = add(d);
  const AllocationId f = add(d);
  resident(e);
  EXPECT_EQ(page_of(e), 13U);
  resident(f);
  EXPECT_EQ(page_of(f), 0U) << "no hinted bank has room: anywhere in the segment";
  AllocationDesc wide = desc(8);
  wide.preferred[0] = {kVram, SearchFrom::kBottom};
  wide.banks[0] = {1, SearchFrom::kBottom};
  for (const AllocationId id : {a, b, c, e, f}) release(id);
  const AllocationId g = add(wide);
  resident(g);
  EXPECT_EQ(memory_->placement(g).segment, kVram) << "wider than its bank, it straddles";
}

TEST_F(MemoryManagerPlaces, FromEndOfSegmentIsTheDefaultDirectionOnly) {
  DXGKIT_COVERS("ALLOC-12");
  AllocationDesc d = desc(2);
  d.from_end_of_segment = true;
  const AllocationId a = add(d);
  resident(a);
  EXPECT_EQ(page_of(a), 14U);
  d.preferred[0] = {kVram, SearchFrom::kBottom};
  const AllocationId b = add(d);
  resident(b);
  EXPECT_EQ(page_of(b), 0U) << "the preference's own direction goes first";
}

TEST_F(MemoryManagerPlaces, AlignmentAndLargePagesAreHonoured) {
  auto segments = usual_segments();
  segments[0].size_bytes = segments[0].commit_limit_bytes = 64 * kPageBytes;
  segments[0].use_64kb_pages = true;
  segments[1].pitch_alignment = true;
  start(segments);
  resident(add(1));
  const AllocationId a = add(1);
  resident(a);
  EXPECT_EQ(page_of(a), 16U) << "64 KiB pages";
  EXPECT_EQ(memory_->usage(kVram).committed_bytes, 32 * kPageBytes);
  AllocationDesc d = desc(2, bits({2}));
  d.pitch_aligned_size_bytes = 3 * kPageBytes;
  const AllocationId b = add(d);
  const ResidencyPlan plan = use(b, true);
  EXPECT_EQ(memory_->usage(kVram2).committed_bytes, 3 * kPageBytes) << "SEG-39";
  EXPECT_EQ(plan.operations[0].size_bytes, 3 * kPageBytes);
  EXPECT_EQ(memory_->evict(b)->at(0).size_bytes, 2 * kPageBytes) << "the backing store is plain";
  d = desc(1, bits({2}));
  d.alignment_bytes = 4 * kPageBytes;
  resident(add(1, bits({2})));
  const AllocationId c = add(d);
  resident(c);
  EXPECT_EQ(page_of(c), 4U);
}

TEST_F(MemoryManagerPlaces, WriteUsesGoToTheWriteSetOnly) {
  AllocationDesc d = desc(2, bits({1, 2}));
  d.supported_read = bits({1});
  d.supported_write = bits({2});
  const AllocationId a = add(d);
  use(a);
  EXPECT_EQ(memory_->placement(a).segment, kVram);
  const ResidencyPlan plan = use(a, true);
  EXPECT_EQ(memory_->placement(a).segment, kVram2);
  EXPECT_THAT(kinds(plan.operations), ElementsAre(Kind::kDiscard, Kind::kFill));
  EXPECT_EQ(memory_->statistics().evictions, 0U) << "it was asked for, nobody pushed it out";
  EXPECT_EQ(memory_->statistics().moves, 0U) << "to another segment";
  const auto both = attempt({{a, true}, {a, false}});
  ASSERT_FALSE(both.has_value());
  EXPECT_EQ(both.error().status, Status::kGraphicsNoVideoMemory);
  EXPECT_EQ(both.error().first_failed_use, 1U);
  EXPECT_EQ(memory_->pin_count(a), 0U);
}

// A limit that a driver says need not be whole pages: the last one does not fit, by one byte.
TEST_F(MemoryManagerPlaces, TheLastByteOfTheCommitLimitCounts) {
  DXGKIT_COVERS("SEG-30");
  for (const uint64_t beyond : {0U, 1U}) {
    auto segments = usual_segments();
    segments[2].commit_limit_bytes = 8 * kPageBytes - beyond;
    start(segments);
    const AllocationId first = add(4, bits({3})), second = add(4, bits({3}));
    for (const AllocationId id : {first, second}) {
      run(use(id).operations);
    }
    EXPECT_EQ(memory_->statistics().evictions, beyond);
    EXPECT_EQ(memory_->placement(second).segment, kAperture);
    EXPECT_EQ(memory_->placement(first).segment, beyond == 0 ? kAperture : kSystemMemory);
    EXPECT_EQ(memory_->usage(kAperture).committed_bytes, (beyond == 0 ? 8 : 4) * kPageBytes);
  }
}

TEST_F(MemoryManagerPlaces, ApertureCommitLimitCapsWhateverAddressSpaceIsLeft) {
  DXGKIT_COVERS("SEG-30");
  const AllocationId a = add(6, bits({3}));
  const AllocationId b = add(3, bits({3}));
  resident(a);
  const auto refused = attempt({{b}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsAllocationBusy);
  EXPECT_EQ(memory_->usage(kAperture).largest_free_bytes, 10 * kPageBytes);
  release(a);
  const ResidencyPlan plan = resident(b);
  EXPECT_THAT(kinds(plan.operations), ElementsAre(Kind::kUnmapAperture, Kind::kMapAperture));
}

// Everything may move, yet one of the named stands in the middle: it is moved, not refused.
TEST_F(MemoryManagerPlaces, NamedAllocationsMoveRatherThanBlockEachOther) {
  const AllocationId low = add(6);
  const AllocationId middle = add(4);
  resident(low);
  use(middle, true);
  release(low);
  ASSERT_EQ(page_of(middle), 6U);
  const AllocationId big = add(12);
  const ResidencyPlan plan = resident({{middle}, {big}});
  EXPECT_EQ(memory_->placement(big).segment, kVram);
  EXPECT_EQ(memory_->placement(middle).segment, kVram);
  EXPECT_THAT(kinds(plan.operations), UnorderedElementsAre(Kind::kDiscard, Kind::kTransferOut,
                                                           Kind::kTransferIn, Kind::kFill));
}

// Greedy in order would put the small one where only the big one fits.
TEST_F(MemoryManagerPlaces, ListsThatFitOnlyInAnotherOrderArePlaced) {
  AllocationDesc small = desc(8, bits({1, 2}));
  small.preferred[0] = {kVram, SearchFrom::kBottom};
  const AllocationId a = add(small);
  const AllocationId b = add(16);
  resident({{a}, {b}});
  EXPECT_EQ(memory_->placement(a).segment, kVram2);
}

TEST_F(MemoryManagerPlaces, NothingIsPlacedInBadMemory) {
  DXGKIT_COVERS("SEG-45");
  std::vector<SegmentDesc> segments = usual_segments();
  segments[0].invalid_ranges = {{0, kPageBytes}, {5 * kPageBytes, 2 * kPageBytes}};
  start(segments);
  EXPECT_EQ(memory_->usage(kVram).free_bytes, 13 * kPageBytes);
  EXPECT_EQ(memory_->usage(kVram).size_bytes, 16 * kPageBytes);
  EXPECT_EQ(memory_->group_usage(SegmentGroup::kLocal).size_bytes, (13 + 8 + 8) * kPageBytes);
  EXPECT_EQ(memory_->create(AllocationId{99}, desc(10)), Status::kInvalidParameter)
      << "no hole is that large, whoever leaves";
  const AllocationId large = add(9);
  const AllocationId small = add(4);
  const AllocationId other = add(1);
  use(small, true);
  EXPECT_EQ(page_of(small), 1U);
  use(large, true);
  EXPECT_EQ(page_of(large), 7U);
  EXPECT_FALSE(memory_->at(kVram, 0).has_value());
  EXPECT_FALSE(memory_->at(kVram, 6 * kPageBytes).has_value());
  EXPECT_EQ(memory_->at(kVram, kPageBytes), small);
  const ResidencyPlan plan = use(other, true);
  EXPECT_THAT(leavers(plan), ElementsAre(small)) << "the oldest goes; the bad page helps nobody";
  EXPECT_EQ(page_of(other), 1U);
  const auto ops = memory_->evict_segment(kVram);
  ASSERT_TRUE(ops.has_value());
  EXPECT_EQ(memory_->usage(kVram).free_bytes, 13 * kPageBytes);
  EXPECT_EQ(memory_->usage(kVram).largest_free_bytes, 9 * kPageBytes);
  EXPECT_TRUE(memory_->validate());
}

TEST_F(MemoryManagerPlaces, OverlaysLiveInTheLastFifthAndStayUntilEveryoneMustGo) {
  DXGKIT_COVERS("ALLOC-49");
  AllocationDesc overlay = desc(2);
  overlay.pinned = overlay.last_fifth = true;
  const AllocationId tenants = add(16);
  use(tenants, true);
  const AllocationId a = add(overlay);
  EXPECT_THAT(leavers(use(a, true)), ElementsAre(tenants));
  EXPECT_GE(page_of(a), 13U) << "16 pages, the last fifth of which begins behind page 12";
  const AllocationId b = add(overlay);
  EXPECT_EQ(attempt({{b, true}}).error().status, Status::kGraphicsAllocationBusy)
      << "three pages, two of which are a's for good";
  EXPECT_EQ(memory_->evict(a).error(), Status::kGraphicsAllocationBusy);
  EXPECT_EQ(attempt({{tenants, true}}).error().status, Status::kGraphicsAllocationBusy);
  overlay.size_bytes = 4 * kPageBytes;
  EXPECT_EQ(memory_->create(AllocationId{99}, overlay), Status::kInvalidParameter)
      << "larger than a fifth of the segment";
  EXPECT_EQ(memory_->evict_segment(kVram).error(), Status::kGraphicsAllocationBusy);
  resident(a, true);
  EXPECT_EQ(memory_->evict_segment(kVram, Pinned::kLeave).error(), Status::kGraphicsAllocationBusy)
      << "the GPU is using it";
  release(a, true);
  const auto ops = memory_->evict_segment(kVram, Pinned::kLeave);
  ASSERT_TRUE(ops.has_value());
  EXPECT_THAT(kinds(*ops), ElementsAre(Kind::kTransferOut));
  EXPECT_TRUE(memory_->validate());
}

TEST_F(MemoryManagerPlaces, WishesThatCannotBeAreIgnored) {
  DXGKIT_COVERS("ALLOC-10", "ALLOC-11");
  auto segments = usual_segments();
  segments[0].bank_end_offsets = {4 * kPageBytes, 16 * kPageBytes};
  start(segments);
  AllocationDesc d = desc(4, bits({1, 2}));
  d.preferred[0] = {kAperture, SearchFrom::kTop};  // not of its set
  d.preferred[1] = {kVram, SearchFrom::kTop};
  d.preferred[2] = {kVram, SearchFrom::kBottom};  // named before
  d.banks[0] = {1, SearchFrom::kBottom};          // of the first preference, which is not taken
  const AllocationId a = add(d);
  resident(a);
  EXPECT_EQ(memory_->placement(a).segment, kVram);
  EXPECT_EQ(page_of(a), 12U);
  d.preferred[0] = {kVram, SearchFrom::kTop};
  d.banks[0] = {3, SearchFrom::kBottom};  // there are two
  const AllocationId b = add(d);
  resident(b);
  EXPECT_EQ(page_of(b), 8U);
  d.banks[0] = {2, SearchFrom::kBottom};
  const AllocationId c = add(d);
  resident(c);
  EXPECT_EQ(page_of(c), 4U) << "where the second bank begins";
}

TEST_F(MemoryManagerPlaces, WhetherAListFitsAloneIsNotAboutThoseWhoAreThere) {
  const AllocationId other = add(16);
  resident(other);
  const AllocationId a = add(8);
  const AllocationId b = add(8);
  const std::vector<Use> both{{a}, {b}};
  EXPECT_TRUE(memory_->fits_alone(both));
  EXPECT_FALSE(memory_->fits_alone(std::vector<Use>{{a}, {b}, {add(1)}}));
  EXPECT_FALSE(memory_->fits_alone(both, std::vector{desc(1)}));
  AllocationDesc elsewhere = desc(8);
  elsewhere.supported_write = bits({2});
  EXPECT_TRUE(memory_->fits_alone(both, std::vector{elsewhere})) << "it would be written there";
  EXPECT_FALSE(memory_->fits_alone(both, std::vector{elsewhere, elsewhere}));
  EXPECT_EQ(memory_->placement(a), Placement{});
  EXPECT_TRUE(memory_->validate());
}

// An allocation that the driver pinned stays where it is, also while the other tenants are absent.
TEST_F(MemoryManagerPlaces, ListsFitAroundWhatTheDriverPinned) {
  const AllocationId low = add(6);
  resident(low);
  AllocationDesc d = desc(4);
  d.pinned = true;
  const AllocationId pinned = add(d);
  use(pinned);
  release(low);
  ASSERT_EQ(page_of(pinned), 6U);
  const AllocationId six = add(6);
  const AllocationId seven = add(7);
  EXPECT_TRUE(memory_->fits_alone(std::vector<Use>{{pinned}, {six}, {low}}));
  EXPECT_FALSE(memory_->fits_alone(std::vector<Use>{{pinned}, {seven}}));
  EXPECT_TRUE(memory_->fits_alone(std::vector<Use>{{seven}})) << "it is not named, so not there";
  EXPECT_EQ(attempt({{pinned}, {seven}}).error().status, Status::kGraphicsNoVideoMemory);
  EXPECT_EQ(attempt({{seven}}).error().status, Status::kGraphicsAllocationBusy);
}

TEST_F(MemoryManagerPlaces, TheUseToSplitBeforeIsTheFirstThatDoesNotFit) {
  DXGKIT_COVERS("REND-21");
  const AllocationId a = add(4);
  const AllocationId b = add(8);
  const AllocationId c = add(8);
  const AllocationId d = add(1);
  for (const std::vector<Use>& uses :
       {std::vector<Use>{{a}, {a}, {b}, {c}, {d}, {d}}, std::vector<Use>{{a}, {b}, {b}, {c}}}) {
    const auto refused = attempt(uses);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().status, Status::kGraphicsNoVideoMemory);
    EXPECT_EQ(refused.error().first_failed_use, 3U);
  }
}

// A packet holds it for reading where it may not be written.
TEST_F(MemoryManagerPlaces, PinnedWhereItMayNotBeWrittenIsBusy) {
  AllocationDesc d = desc(2, bits({1, 2}));
  d.preferred[0].segment = kVram;
  d.supported_write = bits({2});
  const AllocationId a = add(d);
  resident(a);
  ASSERT_EQ(memory_->placement(a).segment, kVram);
  const auto refused = attempt({{a, true}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsAllocationBusy);
  EXPECT_EQ(memory_->placement(a).segment, kVram);
  release(a);
  use(a, true);
  EXPECT_EQ(memory_->placement(a).segment, kVram2);
}

// --- the last resort: all that may leave is put aside and the list is packed ---

class MemoryManagerRepacks : public MemoryManagerTest {
 protected:
  /// `middle` where it is in the way of `big`: behind `below`.
  void put_in_the_middle(AllocationId below, AllocationId middle) {
    resident(below);
    run(use(middle, true).operations);
    release(below);
  }
};

TEST_F(MemoryManagerRepacks, WhoseRoomIsNotNeededStays) {
  const AllocationId low = add(6);
  const AllocationId middle = add(4);
  put_in_the_middle(low, middle);
  AllocationDesc d = desc(2);
  d.from_end_of_segment = true;
  const AllocationId high = add(d);
  use(high, true);
  ASSERT_EQ(page_of(high), 14U);
  const ResidencyPlan plan = resident({{middle}, {add(10)}});
  EXPECT_EQ(page_of(middle), 0U);
  EXPECT_EQ(page_of(high), 14U);
  for (const PagingOp& op : plan.operations) EXPECT_NE(op.allocation, high);
  EXPECT_EQ(memory_->placement(low), Placement{});
  EXPECT_EQ(memory_->statistics().evictions, 1U) << "the low one; the middle one only moved";
  EXPECT_EQ(memory_->statistics().moves, 1U);
}

TEST_F(MemoryManagerRepacks, WhoHasToGoIsParked) {
  DXGKIT_COVERS("ALLOC-09");
  const AllocationId low = add(parkable(6));
  const AllocationId middle = add(4);
  put_in_the_middle(low, middle);
  const uint64_t maps = memory_->statistics().aperture_maps;
  resident({{middle}, {add(12)}});
  EXPECT_EQ(memory_->statistics().aperture_maps, maps + 1);
  EXPECT_TRUE(memory_->parked(low));
  EXPECT_EQ(memory_->placement(low).segment, kAperture);
}

TEST_F(MemoryManagerRepacks, WhatIsParkedElsewhereComesBack) {
  const AllocationId parked = add(parkable(2, bits({1, 3})));
  run(use(parked, true).operations);
  const AllocationId large = add(16);
  run(use(large).operations);
  ASSERT_TRUE(memory_->parked(parked));
  run(*memory_->evict(large));
  const AllocationId low = add(6);
  const AllocationId middle = add(4);
  put_in_the_middle(low, middle);
  resident({{middle}, {parked, true}, {add(10)}});
  EXPECT_EQ(memory_->placement(parked).segment, kVram);
  EXPECT_FALSE(memory_->parked(parked));
  EXPECT_EQ(memory_->usage(kAperture).allocations, 0U);
  EXPECT_EQ(memory_->usage(kVram).free_bytes, 0U);
}

TEST_F(MemoryManagerRepacks, BadMemoryIsNotRoom) {
  DXGKIT_COVERS("SEG-45");
  std::vector<SegmentDesc> segments = usual_segments();
  segments[0].invalid_ranges = {{5 * kPageBytes, kPageBytes}};
  start(segments);
  const AllocationId low = add(5);
  const AllocationId high = add(2);
  const AllocationId middle = add(4);
  resident(low);
  put_in_the_middle(high, middle);
  release(low);
  ASSERT_EQ(page_of(middle), 8U);
  const AllocationId big = add(6);
  resident({{middle}, {big}});
  EXPECT_EQ(page_of(middle), 0U);
  EXPECT_EQ(page_of(big), 6U);
}

// Enough is free or may leave, yet a pinned one stands in the middle of it.
TEST_F(MemoryManagerRepacks, APinInTheMiddleIsInTheWay) {
  const AllocationId low = add(6);
  const AllocationId middle = add(4);
  put_in_the_middle(low, middle);
  resident(middle);
  const auto refused = attempt({{add(10)}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsAllocationBusy);
  EXPECT_EQ(page_of(low), 0U) << "nothing changed";
  EXPECT_EQ(page_of(middle), 6U);
  EXPECT_TRUE(attempt({{add(6)}}).has_value());
}

// Alone both would fit the first segment. Beside a third, which is pinned there, one goes to
// another segment.
TEST_F(MemoryManagerRepacks, WhatMayGoElsewhereMakesWayWhereOthersArePinned) {
  resident(add(1));
  const AllocationId anywhere = add(parkable(8, bits({1, 2})));
  const AllocationId only_here = add(8);
  resident({{anywhere}, {only_here}});
  EXPECT_EQ(memory_->placement(anywhere).segment, kVram2);
  EXPECT_EQ(memory_->placement(only_here).segment, kVram);
}

// So it does when one of the list itself is held where it is.
TEST_F(MemoryManagerRepacks, WhatIsHeldStaysAndTheRestIsPackedAroundIt) {
  const AllocationId low = add(15);
  const AllocationId held = add(1);
  put_in_the_middle(low, held);
  resident(held);
  run(*memory_->evict(low));
  const AllocationId anywhere = add(parkable(8, bits({1, 2})));
  const AllocationId only_here = add(8);
  resident({{anywhere}, {held}, {only_here}});
  EXPECT_EQ(page_of(held), 15U);
  EXPECT_EQ(memory_->placement(anywhere).segment, kVram2);
  EXPECT_EQ(memory_->placement(only_here).segment, kVram);
}

// A CPU-locked allocation stays in system memory.
TEST_F(MemoryManagerRepacks, WhatIsLockedIsPackedIntoAnAperture) {
  const AllocationId locked = add(parkable(2, bits({1, 3})));
  memory_->lock(locked);
  AllocationDesc d = desc(3, bits({1, 3}));
  d.preferred[0].segment = kAperture;
  const AllocationId first = add(d);
  const AllocationId six = add(6, bits({3}));
  resident({{first}, {locked}, {six}});
  EXPECT_EQ(memory_->placement(first).segment, kVram);
  EXPECT_EQ(memory_->placement(locked).segment, kAperture);
  EXPECT_EQ(memory_->placement(six).segment, kAperture);
}

}  // namespace
}  // namespace dxgkit::vidmm
