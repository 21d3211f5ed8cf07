// Which allocations are evicted, where to, and which may not be evicted.
#include <array>

#include "trace/causes.h"
#include "trace/trace.h"
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

// The trace says of each allocation that leaves for which allocation and packet, and of one that
// was asked to leave that it was.
TEST_F(MemoryManagerVictims, WhySomebodyLeavesIsTraced) {
  trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
  const AllocationId a = add(8);
  const AllocationId b = add(8);
  use(a);
  use(b);
  const AllocationId c = add(8);
  trace::set_current(&recorder);
  memory_->plan_for_packet(77);
  use(c);
  memory_->plan_for_packet(0);
  run(*memory_->evict(b));
  run(*memory_->evict_segment(kVram));
  trace::set_current(nullptr);
  std::vector<std::array<uint64_t, 4>> causes;
  for (const trace::Event& event : recorder.events()) {
    if (event.kind == static_cast<uint16_t>(trace::EventKind::kWhyEvicted))
      causes.push_back({event.a, event.b, event.c, event.d});
  }
  const auto reason = [](trace::EvictionReason why) { return static_cast<uint64_t>(why); };
  using Row = std::array<uint64_t, 4>;
  EXPECT_THAT(causes, ElementsAre(Row{a.value, reason(trace::EvictionReason::kRoom), c.value, 77},
                                  Row{b.value, reason(trace::EvictionReason::kAsked), 0, 0},
                                  Row{c.value, reason(trace::EvictionReason::kEmptied), 0, 0}));
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

TEST_F(MemoryManagerVictims, WhoWasToMoveKeepsItsTurnWhereThePlanFails) {
  // It is read where it is, but written only in the other segment, which is in use.
  DXGKIT_COVERS("RES-22");
  AllocationDesc moves = desc(4);
  moves.supported_read = bits({1, 2});
  moves.supported_write = bits({2});
  moves.preferred[0].segment = kVram;
  std::vector<AllocationId> ids{add(4), add(moves), add(4), add(4)};
  for (const AllocationId id : ids) use(id);
  ASSERT_EQ(memory_->placement(ids[1]).segment, kVram);
  const AllocationId busy = add(8, bits({2}));
  resident(busy);
  const auto refused = attempt({{ids[1], true}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsAllocationBusy);
  EXPECT_EQ(memory_->placement(ids[1]).segment, kVram);
  EXPECT_EQ(page_of(ids[1]), 4U);
  for (const AllocationId id : ids)
    EXPECT_THAT(leavers(use(add(4))), ElementsAre(id)) << "in the order of their last uses";
}

TEST_F(MemoryManagerVictims, WhoMovedIsTheLastToLeave) {
  AllocationDesc moves = desc(4);
  moves.supported_read = bits({1, 2});
  moves.supported_write = bits({2});
  moves.preferred[0].segment = kVram;
  const AllocationId a = add(moves);
  use(a);
  ASSERT_EQ(memory_->placement(a).segment, kVram);
  const AllocationId b = add(4, bits({2}));
  use(b);
  use(a, true);
  ASSERT_EQ(memory_->placement(a).segment, kVram2);
  const ResidencyPlan plan = use(add(4, bits({2})));
  EXPECT_THAT(leavers(plan), ElementsAre(b));
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
  const AllocationId victim = add(parkable(6, bits({1, 3})));
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
  use(add(4, bits({3})), true);  // the aperture may commit eight pages
  const AllocationId victim = add(parkable(6));
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
  const AllocationId victim = add(parkable(6));
  use(victim, true);
  EXPECT_THAT(kinds(use(add(16), true).operations), ElementsAre(Kind::kTransferOut, Kind::kFill));
  EXPECT_EQ(memory_->placement(victim), Placement{});
}

TEST_F(MemoryManagerVictims, ARefusalLeavesParkedAllocationsParked) {
  const AllocationId parked = add(parkable(6, bits({1, 3})));
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

// Uses while it is pinned count when the last pin goes, at the latest: what is released last was
// used last.
TEST_F(MemoryManagerVictims, UsesOfPinnedOnesAreNotForgotten) {
  DXGKIT_COVERS("RES-22");
  for (const bool learning : {false, true}) {
    for (const bool again : {false, true}) {
      start();
      const AllocationId before = add(16);
      if (learning) {
        run(use(before).operations);
        run(*memory_->evict(before));
      }
      const AllocationId a = add(8);
      const AllocationId b = add(8);
      run(use(a).operations);
      run(use(b).operations);
      const std::vector<Use> pin{{a}};
      ASSERT_TRUE(memory_->pin_resident(pin));
      use(b);
      if (again) {
        ASSERT_TRUE(memory_->pin_resident(pin));
        memory_->release(pin);
      }
      memory_->release(pin);
      EXPECT_THAT(leavers(use(add(8))), ElementsAre(again ? b : a));
    }
  }
}

TEST_F(MemoryManagerVictims, TheParkedAreNotWhereTheyShouldBe) {
  DXGKIT_COVERS("ALLOC-09");
  AllocationDesc told = parkable(6, bits({1, 3}));
  told.notify_residency = true;
  const AllocationId a = add(told);
  run(use(a, true).operations);
  EXPECT_TRUE(memory_->pin_resident(std::vector<Use>{{a}}));
  release(a);
  const AllocationId large = add(16);
  const ResidencyPlan plan = resident(large);
  EXPECT_THAT(kinds(plan.operations), ElementsAre(Kind::kNotifyNotResident, Kind::kMapAperture,
                                                  Kind::kTransferOut, Kind::kFill));
  run(plan.operations);
  EXPECT_FALSE(memory_->pin_resident(std::vector<Use>{{a}}));
  EXPECT_EQ(memory_->pin_count(a), 0U);
  // No room where it wants to be: it is used where it was parked, and resident again.
  EXPECT_THAT(kinds(use(a).operations), ElementsAre(Kind::kNotifyResident));
  EXPECT_FALSE(memory_->parked(a));
  EXPECT_EQ(memory_->placement(a).segment, kAperture);
}

TEST_F(MemoryManagerVictims, DestroyingAParkedOneTellsNobodyTwice) {
  DXGKIT_COVERS("PAGE-41");
  AllocationDesc told = parkable(6);
  told.notify_residency = true;
  const AllocationId a = add(told);
  run(use(a, true).operations);
  run(use(add(16)).operations);
  ASSERT_TRUE(memory_->parked(a));
  const auto ops = memory_->destroy(a);
  ASSERT_TRUE(ops.has_value());
  EXPECT_THAT(kinds(*ops), ElementsAre(Kind::kUnmapAperture));
}

TEST_F(MemoryManagerVictims, TheFirstApertureOfTheEvictionSetWithRoomIsTaken) {
  DXGKIT_COVERS("ALLOC-09");
  std::vector<SegmentDesc> segments = usual_segments();
  segments.push_back(segments[2]);
  segments[3].id = SegmentId{4};
  segments[3].base_address = 4 * kBase;
  start(segments);
  AllocationDesc with_a_choice = desc(6);
  with_a_choice.eviction = bits({3, 4});
  const AllocationId a = add(with_a_choice);
  const AllocationId b = add(with_a_choice);
  use(a, true);
  use(b, true);
  use(add(16));
  EXPECT_EQ(memory_->placement(a).segment, kAperture);
  EXPECT_EQ(memory_->placement(b).segment, SegmentId{4}) << "the first may commit eight pages";
}

TEST_F(MemoryManagerVictims, AMappingThatIsEvictedIsNotMappedElsewhere) {
  AllocationDesc d = desc(6, bits({3}));
  d.eviction = bits({3});
  const AllocationId a = add(d);
  use(a, true);
  EXPECT_THAT(kinds(use(add(6, bits({3}))).operations),
              ElementsAre(Kind::kUnmapAperture, Kind::kMapAperture));
  EXPECT_EQ(memory_->placement(a), Placement{});
}

TEST_F(MemoryManagerVictims, EmptyingASegmentMindsWhatHoldsThere) {
  const AllocationId a = add(4);
  const AllocationId mapped = add(4, bits({3}));
  use(a, true);
  use(mapped);
  memory_->lock(a);
  memory_->lock(mapped);
  EXPECT_EQ(memory_->evict_segment(kVram, Pinned::kLeave).error(), Status::kGraphicsAllocationBusy);
  EXPECT_THAT(kinds(*memory_->evict_segment(kAperture, Pinned::kLeave)),
              ElementsAre(Kind::kUnmapAperture))
      << "a lock holds content, not a mapping";
  use(mapped);
  EXPECT_THAT(kinds(*memory_->evict_segment(kAperture)), ElementsAre(Kind::kUnmapAperture));
  EXPECT_THAT(*memory_->evict_segment(kVram2), IsEmpty());
  EXPECT_TRUE(memory_->validate());
}

// Of those not in the way only as many leave as the commit limit asks for.
TEST_F(MemoryManagerVictims, TheCommitLimitTakesThoseUsedLongestAgo) {
  DXGKIT_COVERS("SEG-30");
  const AllocationId a = add(2, bits({3}));
  const AllocationId b = add(2, bits({3}));
  const AllocationId c = add(4, bits({3}));
  for (const AllocationId id : {a, b, c}) use(id);
  use(a);
  EXPECT_THAT(leavers(use(add(2, bits({3})))), ElementsAre(b));
  EXPECT_THAT(leavers(use(add(6, bits({3})))), ElementsAre(c, a));
}

// --- which of the marked ones are in the way ---

class MemoryManagerWindows : public MemoryManagerTest {
 protected:
  /// Neighbours from the bottom of a segment on, by their sizes.
  std::vector<AllocationId> fill(const std::vector<uint64_t>& sizes, uint32_t segment) {
    std::vector<AllocationId> ids;
    for (const uint64_t pages : sizes) {
      ids.push_back(add(pages, bits({segment})));
      use(ids.back());
    }
    return ids;
  }
  void use_in_order(const std::vector<AllocationId>& ids, std::initializer_list<size_t> order) {
    for (const size_t i : order) use(ids[i]);
  }
};

// | 2 | 3 | 3 | in a segment of 8: neither the first nor the last is enough for 5; with the one
// between them it can be either of them.
TEST_F(MemoryManagerWindows, OfTwoWaysWithAsManyVictimsTheDirectionDecides) {
  for (const bool top : {false, true}) {
    for (const bool wider_first : {false, true}) {
      start();
      const std::vector<AllocationId> ids =
          fill(wider_first ? std::vector<uint64_t>{3, 3, 2} : std::vector<uint64_t>{2, 3, 3}, 2);
      use_in_order(ids, {0, 2, 1});
      AllocationDesc d = desc(5, bits({2}));
      d.from_end_of_segment = top;
      const AllocationId wanted = add(d);
      const ResidencyPlan plan = use(wanted);
      EXPECT_EQ(page_of(wanted), top ? 3U : 0U);
      EXPECT_THAT(leavers(plan), UnorderedElementsAre(ids[1], ids[top ? 2 : 0]));
    }
  }
}

// The same with ends that an alignment leaves over: |used| 1 | 3 | 3 | 1 |used, wanted is 4 at a
// multiple of 2.
TEST_F(MemoryManagerWindows, WhatAnAlignmentLeavesOverIsNotInTheWay) {
  for (const bool top : {false, true}) {
    start();
    const std::vector<AllocationId> ids = fill({1, 1, 3, 3, 1, 7}, 1);
    resident({{ids[0]}, {ids[5]}});
    use_in_order(ids, {1, 4, 3, 2});
    AllocationDesc d = desc(4);
    d.alignment_bytes = 2 * kPageBytes;
    d.from_end_of_segment = top;
    const AllocationId wanted = add(d);
    const ResidencyPlan plan = use(wanted);
    EXPECT_EQ(page_of(wanted), top ? 4U : 2U);
    EXPECT_THAT(leavers(plan), UnorderedElementsAre(ids[2], ids[3]));
  }
}

TEST_F(MemoryManagerWindows, FewerVictimsCountMoreThanTheDirection) {
  // | 1 | 1 | 3 | 3 |, wanted 6: from 0 it takes all of them, from 2 two.
  const std::vector<AllocationId> ids = fill({1, 1, 3, 3}, 2);
  use_in_order(ids, {0, 1, 3, 2});
  const AllocationId wanted = add(6, bits({2}));
  EXPECT_THAT(leavers(use(wanted)), UnorderedElementsAre(ids[2], ids[3]));
  EXPECT_EQ(page_of(wanted), 2U);
}

/// An aperture of ten pages, eight of which may be committed.
class MemoryManagerLimits : public MemoryManagerWindows {
 protected:
  MemoryManagerLimits() {
    std::vector<SegmentDesc> segments = usual_segments();
    segments[2].size_bytes = 10 * kPageBytes;
    start(segments);
  }
};

TEST_F(MemoryManagerLimits, WhoIsInTheWayCountsForTheLimit) {
  DXGKIT_COVERS("SEG-30");
  const std::vector<AllocationId> ids = fill({2, 2, 4}, 3);
  use_in_order(ids, {0, 2, 1});
  const AllocationId wanted = add(4, bits({3}));
  EXPECT_THAT(leavers(use(wanted)), ElementsAre(ids[2]))
      << "the first came first, but is too small";
  EXPECT_EQ(page_of(wanted), 4U);
}

TEST_F(MemoryManagerLimits, NoMoreLeaveThanTheLimitAsksFor) {
  DXGKIT_COVERS("SEG-30");
  // | a 2 | pinned 1 | b 2 | c 3 | free 2 |, wanted 5: c is in the way, and two pages too few.
  const std::vector<AllocationId> ids = fill({2, 1, 2, 3}, 3);
  resident(ids[1]);
  use_in_order(ids, {0, 2, 3});
  const AllocationId wanted = add(5, bits({3}));
  EXPECT_THAT(leavers(use(wanted)), UnorderedElementsAre(ids[0], ids[3]));
  EXPECT_EQ(page_of(wanted), 5U);
  EXPECT_EQ(memory_->placement(ids[2]).segment, kAperture);
}

}  // namespace
}  // namespace dxgkit::vidmm
