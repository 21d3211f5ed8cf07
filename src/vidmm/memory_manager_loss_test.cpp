// Content that is lost, or saved, when power or the adapter goes away.
#include "vidmm/memory_manager_fixture_test.h"

namespace dxgkit::vidmm {
namespace {

class MemoryManagerLoss : public MemoryManagerTest {};

TEST_F(MemoryManagerLoss, ResetLosesWhatOnlyMemorySegmentsHeld) {
  const AllocationId dirty = add(2);
  const AllocationId clean = add(2);
  const AllocationId mapped = add(2, bits({3}));
  const AllocationId leaving = add(2);
  use(dirty, true);
  memory_->mark_cpu_written(clean);
  resident(clean);
  use(mapped, true);
  use(leaving, true);
  const auto out = memory_->evict(leaving);  // planned, not executed
  const LostContent lost = memory_->lose_memory_segments();
  EXPECT_THAT(lost.allocations, ElementsAre(dirty, clean, leaving));
  EXPECT_THAT(kinds(lost.operations), ElementsAre(Kind::kContentLost, Kind::kContentLost));
  EXPECT_EQ(lost.operations[1].allocation, clean);
  EXPECT_EQ(lost.operations[1].place.segment, kVram) << "where it was";
  EXPECT_TRUE(memory_->validate());
  EXPECT_EQ(memory_->placement(clean), Placement{});
  EXPECT_EQ(memory_->placement(mapped).segment, kAperture);
  release(clean);
  EXPECT_THAT(kinds(use(dirty).operations), ElementsAre(Kind::kFill));
  EXPECT_THAT(kinds(use(clean).operations), ElementsAre(Kind::kTransferIn));
  EXPECT_THAT(kinds(use(leaving).operations), ElementsAre(Kind::kFill));
}

TEST_F(MemoryManagerLoss, LostOffersAreToldWhenTheyAreReclaimed) {
  const AllocationId a = add(2);
  const AllocationId clean = add(2);
  run(use(a, true).operations);
  memory_->mark_cpu_written(clean);
  run(use(clean).operations);
  memory_->offer(a, OfferPriority::kHigh);
  memory_->offer(clean, OfferPriority::kHigh);
  EXPECT_THAT(memory_->lose_memory_segments().allocations, ElementsAre(a, clean));
  EXPECT_TRUE(memory_->reclaim(a));
  EXPECT_FALSE(memory_->reclaim(clean)) << "its backing pages have it";
}

// Writes of the GPU after the reset have no effect.
TEST_F(MemoryManagerLoss, PacketsThatEndAfterAResetHaveWrittenNothing) {
  DXGKIT_COVERS("RES-21");
  const AllocationId a = add(2);
  run(resident(a, true).operations);
  memory_->pin(std::vector<Use>{{a, true}});
  run(memory_->lose_memory_segments().operations);
  EXPECT_TRUE(memory_->validate());
  EXPECT_EQ(memory_->placement(a), Placement{});
  EXPECT_EQ(memory_->pin_count(a), 2U);
  release(a, true);
  release(a, true);
  EXPECT_THAT(kinds(use(a, true).operations), ElementsAre(Kind::kFill));
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kTransferOut))
      << "written since, which counts again";
}

TEST_F(MemoryManagerLoss, LossesAreToldInOrderOfIds) {
  DXGKIT_COVERS("PAGE-22");
  AllocationDesc told = desc(2);
  told.notify_residency = true;
  const AllocationId late{(uint64_t{1} << 22) | 1};  // the first slot, but the larger number
  const AllocationId early{2};
  for (const AllocationId id : {late, early}) {
    ASSERT_EQ(memory_->create(id, told), Status::kSuccess);
    run(use(id, true).operations);
  }
  const LostContent lost = memory_->lose_memory_segments();
  EXPECT_THAT(lost.allocations, ElementsAre(early, late));
  EXPECT_THAT(kinds(lost.operations), ElementsAre(Kind::kNotifyNotResident, Kind::kContentLost,
                                                  Kind::kNotifyNotResident, Kind::kContentLost));
  EXPECT_EQ(lost.operations[1].allocation, early);
  EXPECT_EQ(lost.operations[2].allocation, late);
  EXPECT_EQ(memory_->pending_operations(late), 2U);
  run(lost.operations);
  EXPECT_EQ(memory_->pending_operations(late), 0U);
}

// --- a reset in the middle of things ---

TEST_F(MemoryManagerLoss, AResetEndsWhatWasUnderWay) {
  DXGKIT_COVERS("PAGE-22");
  const AllocationId leaving = add(2);
  const AllocationId returning = add(2);
  const AllocationId safe = add(2);
  for (const AllocationId id : {leaving, returning, safe}) run(use(id, true).operations);
  run(*memory_->evict(safe));
  ASSERT_TRUE(memory_->evict(leaving).has_value());
  ASSERT_TRUE(memory_->evict(returning).has_value());
  use(returning);  // what it is to read again was never written
  const LostContent lost = memory_->lose_in_reset();
  EXPECT_TRUE(memory_->validate());
  EXPECT_THAT(lost.allocations, ElementsAre(leaving, returning));
  ASSERT_THAT(kinds(lost.operations), ElementsAre(Kind::kContentLost));
  EXPECT_EQ(lost.operations[0].allocation, returning) << "only it was in a segment";
  EXPECT_EQ(memory_->pending_operations(leaving), 0U);
  run(lost.operations);
  EXPECT_EQ(memory_->pending_operations(returning), 0U);
  EXPECT_THAT(kinds(use(leaving).operations), ElementsAre(Kind::kFill));
  EXPECT_THAT(kinds(use(returning).operations), ElementsAre(Kind::kFill));
  EXPECT_THAT(kinds(use(safe).operations), ElementsAre(Kind::kTransferIn));
}

TEST_F(MemoryManagerLoss, AnOfferOnItsWayOutIsDiscardedByAReset) {
  const AllocationId a = add(2);
  run(use(a, true).operations);
  ASSERT_TRUE(memory_->evict(a).has_value());
  memory_->offer(a, OfferPriority::kNormal);
  EXPECT_THAT(memory_->lose_in_reset().allocations, ElementsAre(a));
  EXPECT_TRUE(memory_->reclaim(a));
  EXPECT_FALSE(memory_->reclaim(a));
}

// Of a packet on the engine nobody knows how far it has come.
TEST_F(MemoryManagerLoss, WhatAPacketWritesIsContentFromItsSubmissionOn) {
  for (const bool placed_already : {false, true}) {
    SCOPED_TRACE(placed_already);
    const AllocationId a = add(2);
    const std::vector<Use> uses{{a, true}};
    if (placed_already) {
      run(use(a).operations);
      ASSERT_TRUE(memory_->pin_resident(uses));
    } else {
      run(resident(uses).operations);
    }
    const LostContent lost = memory_->lose_in_reset();
    EXPECT_THAT(lost.allocations, ElementsAre(a));
    run(lost.operations);
    memory_->release(uses);
  }
}

TEST_F(MemoryManagerLoss, AResetEmptiesAperturesAndKeepsWhatTheyShow) {
  AllocationDesc d = desc(2, bits({1, 3}));
  d.preferred[0].segment = kAperture;
  const AllocationId mapped = add(d);
  const AllocationId other = add(2);
  run(resident({{mapped, true}, {other}}).operations);
  const LostContent lost = memory_->lose_in_reset();
  EXPECT_TRUE(memory_->validate());
  EXPECT_THAT(lost.allocations, ElementsAre(other));
  EXPECT_THAT(kinds(lost.operations), ElementsAre(Kind::kContentLost, Kind::kUnmapAperture));
  EXPECT_EQ(memory_->pending_operations(mapped), 1U);
  run(lost.operations);
  EXPECT_EQ(memory_->placement(mapped), Placement{});
  EXPECT_EQ(memory_->usage(kAperture).allocations, 0U);
  EXPECT_EQ(memory_->pin_count(mapped), 1U);
  memory_->release(std::vector<Use>{{mapped, true}, {other}});
  EXPECT_TRUE(memory_->validate());
  d.preferred[0].segment = kVram;
  ASSERT_EQ(memory_->redescribe(mapped, d), Status::kSuccess);
  EXPECT_THAT(kinds(use(mapped).operations), ElementsAre(Kind::kTransferIn)) << "its content is";
}

// Who had no packet under way when the reset came loses nothing of what a packet writes later.
TEST_F(MemoryManagerLoss, WhatIsWrittenAfterAResetCounts) {
  AllocationDesc d = desc(2, bits({1, 3}));
  d.preferred[0].segment = kAperture;
  const AllocationId mapped = add(d);
  run(use(mapped, true).operations);
  run(memory_->lose_in_reset().operations);
  d.preferred[0].segment = kVram;
  ASSERT_EQ(memory_->redescribe(mapped, d), Status::kSuccess);
  run(resident(mapped, true).operations);
  memory_->assume_clean(mapped);
  release(mapped, true);
  EXPECT_THAT(kinds(*memory_->evict(mapped)), ElementsAre(Kind::kTransferOut));
}

// --- power ---

TEST_F(MemoryManagerLoss, LossesOfPowerAreToldInOrderOfIds) {
  DXGKIT_COVERS("PWR-05");
  const AllocationId late{(uint64_t{1} << 22) | 1};  // the first slot, but the larger number
  const AllocationId early{2};
  for (const AllocationId id : {late, early}) {
    ASSERT_EQ(memory_->create(id, desc(2)), Status::kSuccess);
    run(use(id, true).operations);
  }
  EXPECT_THAT(memory_->lose_power([](SegmentId) { return uint64_t{0}; }), ElementsAre(early, late));
}

TEST_F(MemoryManagerLoss, PurgingTakesWhatDoesNotLieWhollyInWhatKeepsPower) {
  DXGKIT_COVERS("SEG-33", "PWR-07");
  auto segments = usual_segments();
  segments[0].invalid_ranges = {{12 * kPageBytes, kPageBytes}};
  start(segments);
  const AllocationId below = add(4);
  const AllocationId across = add(4);
  const AllocationId above = add(2);
  for (const AllocationId id : {below, across, above}) run(use(id, true).operations);
  memory_->offer(above, OfferPriority::kHigh);
  const auto ops = memory_->purge(kVram, 5 * kPageBytes);
  ASSERT_TRUE(ops.has_value());
  ASSERT_THAT(kinds(*ops), ElementsAre(Kind::kTransferOut, Kind::kDiscard));
  EXPECT_EQ((*ops)[0].allocation, across);
  EXPECT_EQ((*ops)[1].allocation, above);
  run(*ops);
  EXPECT_TRUE(memory_->validate());
  EXPECT_TRUE(memory_->reclaim(above));
  EXPECT_EQ(memory_->placement(below).segment, kVram);
  EXPECT_EQ(memory_->placement(across), Placement{});
  EXPECT_THAT(*memory_->purge(kVram, 4 * kPageBytes), IsEmpty()) << "it ends there";
  EXPECT_THAT(kinds(*memory_->purge(kVram, 4 * kPageBytes - 1)), ElementsAre(Kind::kTransferOut));
}

TEST_F(MemoryManagerLoss, PurgingMindsPinsAndLocksButNotTheDrivers) {
  DXGKIT_COVERS("RES-21");
  AllocationDesc d = desc(2);
  d.pinned = true;
  const AllocationId drivers = add(d);
  const AllocationId a = add(2);
  run(use(drivers, true).operations);
  run(resident(a).operations);
  EXPECT_EQ(memory_->purge(kVram, 0).error(), Status::kGraphicsAllocationBusy);
  EXPECT_EQ(memory_->usage(kVram).allocations, 2U) << "nobody left";
  release(a);
  memory_->lock(a);
  EXPECT_EQ(memory_->purge(kVram, 0).error(), Status::kGraphicsAllocationBusy);
  memory_->unlock(a);
  const auto ops = memory_->purge(kVram, 0);
  ASSERT_TRUE(ops.has_value());
  EXPECT_THAT(kinds(*ops), ElementsAre(Kind::kTransferOut, Kind::kTransferOut));
  const AllocationId mapped = add(2, bits({3}));
  use(mapped);
  memory_->lock(mapped);
  EXPECT_THAT(kinds(*memory_->purge(kAperture, 0)), ElementsAre(Kind::kUnmapAperture))
      << "a lock holds content, not a mapping";
}

TEST_F(MemoryManagerLoss, PowerTakesWhatWasOnlyWhereItIsOff) {
  const AllocationId kept = add(3);
  const AllocationId across = add(3);
  const AllocationId clean = add(2);
  const AllocationId mapped = add(2, bits({3}));
  const AllocationId outside = add(2);
  memory_->mark_cpu_written(clean);
  memory_->mark_cpu_written(outside);
  for (const AllocationId id : {kept, across, mapped}) run(use(id, true).operations);
  run(use(clean).operations);
  const Statistics before = memory_->statistics();
  const auto lost =
      memory_->lose_power([](SegmentId segment) { return segment == kVram ? 4 * kPageBytes : 0; });
  EXPECT_TRUE(memory_->validate());
  EXPECT_THAT(lost, ElementsAre(across));
  EXPECT_EQ(memory_->statistics().page_outs, before.page_outs);
  EXPECT_EQ(memory_->placement(kept).segment, kVram);
  for (const AllocationId id : {across, clean, mapped, outside})
    EXPECT_EQ(memory_->placement(id), Placement{});
  EXPECT_THAT(kinds(use(across).operations), ElementsAre(Kind::kFill));
  EXPECT_THAT(kinds(use(clean).operations), ElementsAre(Kind::kTransferIn));
  EXPECT_THAT(kinds(use(outside).operations), ElementsAre(Kind::kTransferIn));
  EXPECT_THAT(kinds(use(mapped).operations), ElementsAre(Kind::kMapAperture));
  EXPECT_THAT(kinds(*memory_->evict(kept)), ElementsAre(Kind::kTransferOut));
}

TEST_F(MemoryManagerLoss, WhatEndsWherePowerEndsIsKept) {
  const AllocationId a = add(3);
  run(use(a, true).operations);
  EXPECT_THAT(memory_->lose_power([](SegmentId) { return 3 * kPageBytes; }), IsEmpty());
  EXPECT_EQ(memory_->placement(a).segment, kVram);
  EXPECT_THAT(memory_->lose_power([](SegmentId) { return 3 * kPageBytes - 1; }), ElementsAre(a));
}

TEST_F(MemoryManagerLoss, UnfinishedOperationsAreNotFinishedWithoutPower) {
  const auto all = [](SegmentId) { return 16 * kPageBytes; };
  const AllocationId filling = add(2);
  const AllocationId reading = add(2);
  const AllocationId leaving = add(2);
  memory_->mark_cpu_written(reading);
  run(use(leaving, true).operations);
  use(filling, true);
  use(reading);
  ASSERT_TRUE(memory_->evict(leaving).has_value());
  EXPECT_THAT(memory_->lose_power(all), ElementsAre(filling, leaving));
  EXPECT_TRUE(memory_->validate());
  for (const AllocationId id : {filling, reading, leaving}) {
    EXPECT_EQ(memory_->pending_operations(id), 0U);
    EXPECT_EQ(memory_->placement(id), Placement{});
    EXPECT_THAT(kinds(use(id).operations),
                ElementsAre(id == reading ? Kind::kTransferIn : Kind::kFill));
  }
}

TEST_F(MemoryManagerLoss, PowerMindsNeitherPinsNorOffers) {
  const auto none = [](SegmentId) { return uint64_t{0}; };
  const AllocationId pinned = add(2);
  const AllocationId offered = add(2);
  run(resident(pinned, true).operations);
  run(use(offered, true).operations);
  memory_->offer(offered, OfferPriority::kLow);
  EXPECT_THAT(memory_->lose_power(none), ElementsAre(pinned)) << "who offered is told elsewhere";
  EXPECT_TRUE(memory_->validate());
  EXPECT_TRUE(memory_->reclaim(offered));
  EXPECT_EQ(memory_->pin_count(pinned), 1U);
  release(pinned, true);
  EXPECT_THAT(kinds(use(pinned).operations), ElementsAre(Kind::kFill))
      << "the packet wrote nothing";
}

}  // namespace
}  // namespace dxgkit::vidmm
