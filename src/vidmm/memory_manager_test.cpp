// Which allocations exist, their content, and the reports about them.
#include "base/id_slot.h"
#include "trace/trace.h"
#include "vidmm/memory_manager_fixture_test.h"

namespace dxgkit::vidmm {
namespace {

TEST_F(MemoryManagerTest, CreationRefusesWhatCouldNeverBePlaced) {
  const AllocationId id{1};
  const auto refused = [&](const AllocationDesc& d) {
    EXPECT_EQ(memory_->create(id, d), Status::kInvalidParameter);
    EXPECT_FALSE(memory_->contains(id));
  };
  refused(desc(17));
  refused(desc(9, bits({2})));
  refused(desc(9, bits({3})));  // address space for 16 pages, but only 8 may be committed
  refused(desc(0));
  refused(desc(1, 0));
  refused(desc(1, bits({1, 4})));
  AllocationDesc d = desc(1);
  d.eviction = bits({7});
  refused(d);
  d = desc(1);
  d.preferred[2].segment = SegmentId{5};
  refused(d);
  d.preferred[2].segment = SegmentId{33};
  refused(d);
  d = desc(1);
  d.alignment_bytes = 2048;
  refused(d);
  d.alignment_bytes = 3 * kPageBytes;
  refused(d);
  d = desc(1);
  d.size_bytes = ~uint64_t{0};
  refused(d);
  d = desc(1);
  d.priority = 0;
  refused(d);
  d = desc(1);
  d.supported_write = bits({1, 4});
  refused(d);
  EXPECT_EQ(memory_->create(id, desc(16)), Status::kSuccess);
  EXPECT_EQ(memory_->placement(id), Placement{});
}

// An id carries its slot, which serves again: only the id of the day is known.
TEST_F(MemoryManagerTest, AnIdOfBeforeIsUnknownWhereItsSlotServesAgain) {
  const uint64_t slot = 3;
  const AllocationId before{uint64_t{5} << kIdSlotBits | slot};
  const AllocationId now{uint64_t{6} << kIdSlotBits | slot};
  ASSERT_EQ(memory_->create(before, desc(2)), Status::kSuccess);
  ASSERT_TRUE(memory_->destroy(before).has_value());
  EXPECT_FALSE(memory_->contains(before));
  ASSERT_EQ(memory_->create(now, desc(2)), Status::kSuccess);
  EXPECT_TRUE(memory_->contains(now));
  EXPECT_FALSE(memory_->contains(before));
  ASSERT_TRUE(memory_->destroy(now).has_value());
  EXPECT_FALSE(memory_->contains(now));
  EXPECT_FALSE(memory_->contains(AllocationId{})) << "no allocation has this id";
}

TEST_F(MemoryManagerTest, DestructionWaitsForPinsLocksAndOperations) {
  const AllocationId a = add(4);
  const ResidencyPlan plan = resident(a, true);
  EXPECT_EQ(memory_->destroy(a).error(), Status::kGraphicsAllocationBusy);
  release(a, true);
  EXPECT_EQ(memory_->destroy(a).error(), Status::kGraphicsAllocationBusy) << "the fill has not run";
  EXPECT_EQ(memory_->pending_operations(a), 1U);
  run(plan.operations);
  memory_->lock(a);
  EXPECT_EQ(memory_->destroy(a).error(), Status::kGraphicsAllocationBusy);
  EXPECT_TRUE(memory_->unlock(a));
  EXPECT_FALSE(memory_->unlock(a));
  const auto ops = memory_->destroy(a);
  ASSERT_TRUE(ops.has_value());
  EXPECT_THAT(kinds(*ops), ElementsAre(Kind::kDiscard)) << "dirty content of the dead is not saved";
  EXPECT_FALSE(memory_->contains(a));
  EXPECT_EQ(memory_->usage(kVram).free_bytes, 16 * kPageBytes);
  run(*ops);
}

// Kept in less room than it is given in, and nothing of it is lost.
TEST_F(MemoryManagerTest, DescriptionsComeBackWhole) {
  AllocationDesc full = desc(3, bits({1, 3}));
  full.size_bytes = 3 * kPageBytes - 7;
  full.alignment_bytes = uint64_t{1} << 40;
  full.pitch_aligned_size_bytes = 4 * kPageBytes;
  full.supported_write = bits({1});
  full.eviction = bits({3});
  full.preferred = {{{kVram, SearchFrom::kTop}, {kVram2}, {kSystemMemory}, {kAperture}, {kVram}}};
  full.banks = {{{4, SearchFrom::kTop}, {0}, {0x7FFFFFFF}, {1}}};
  full.priority = 0xA0000000;
  for (uint32_t flags = 0; flags < 32; ++flags) {
    full.from_end_of_segment = (flags & 1) != 0;
    full.cpu_visible = (flags & 2) != 0;
    full.cached = (flags & 4) != 0;
    full.permanent_system_memory = (flags & 8) != 0;
    full.pinned = (flags & 16) != 0;
    const AllocationId id = add(full);
    const AllocationDesc back = memory_->description(id);
    EXPECT_EQ(back.size_bytes, full.size_bytes);
    EXPECT_EQ(back.alignment_bytes, full.alignment_bytes);
    EXPECT_EQ(back.pitch_aligned_size_bytes, full.pitch_aligned_size_bytes);
    EXPECT_EQ(back.supported_read, full.supported_read);
    EXPECT_EQ(back.supported_write, full.supported_write);
    EXPECT_EQ(back.eviction, full.eviction);
    for (size_t i = 0; i < full.preferred.size(); ++i) {
      EXPECT_EQ(back.preferred[i].segment, full.preferred[i].segment);
      EXPECT_EQ(back.preferred[i].from, full.preferred[i].from);
    }
    for (size_t i = 0; i < full.banks.size(); ++i) {
      EXPECT_EQ(back.banks[i].bank, full.banks[i].bank);
      EXPECT_EQ(back.banks[i].from, full.banks[i].from);
    }
    EXPECT_EQ(back.priority, full.priority);
    EXPECT_EQ(back.from_end_of_segment, full.from_end_of_segment);
    EXPECT_EQ(back.cpu_visible, full.cpu_visible);
    EXPECT_EQ(back.cached, full.cached);
    EXPECT_EQ(back.permanent_system_memory, full.permanent_system_memory);
    EXPECT_EQ(back.pinned, full.pinned);
  }
}

TEST_F(MemoryManagerTest, FirstUseFillsAndContentComesBackAfterEviction) {
  const AllocationId a = add(2);
  EXPECT_THAT(kinds(use(a).operations), ElementsAre(Kind::kFill));
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kDiscard)) << "never written";
  EXPECT_THAT(kinds(use(a, true).operations), ElementsAre(Kind::kFill)) << "still no content";
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kTransferOut));
  EXPECT_THAT(kinds(use(a).operations), ElementsAre(Kind::kTransferIn));
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kDiscard)) << "read only since";
  EXPECT_THAT(kinds(use(a).operations), ElementsAre(Kind::kTransferIn));
  EXPECT_THAT(kinds(use(a, true).operations), IsEmpty()) << "already there";
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kTransferOut));
  EXPECT_THAT(*memory_->evict(a), IsEmpty());
  const Statistics& s = memory_->statistics();
  EXPECT_EQ(s.fills, 2U);
  EXPECT_EQ(s.page_ins, 2U);
  EXPECT_EQ(s.page_outs, 2U);
  EXPECT_EQ(s.bytes_out, 4 * kPageBytes);
  EXPECT_EQ(s.clean_drops, 2U);
  EXPECT_EQ(s.evictions, 4U);
  EXPECT_EQ(s.returns, 3U) << "the last eviction was for good";
}

TEST_F(MemoryManagerTest, CpuWritesCountAsContent) {
  const AllocationId a = add(2);
  memory_->mark_cpu_written(a);
  EXPECT_THAT(kinds(use(a).operations), ElementsAre(Kind::kTransferIn));
  memory_->lock(a);  // in a memory segment: the CPU may write through its window
  EXPECT_EQ(memory_->evict(a).error(), Status::kGraphicsAllocationBusy);
  memory_->unlock(a);
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kTransferOut));
}

TEST_F(MemoryManagerTest, AperturesMapAndMoveNothing) {
  const AllocationId a = add(2, bits({3}));
  EXPECT_THAT(kinds(use(a, true).operations), ElementsAre(Kind::kMapAperture));
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kUnmapAperture));
  EXPECT_EQ(memory_->statistics().page_ins, 0U) << "the first map brings nothing back";
  EXPECT_THAT(kinds(use(a).operations), ElementsAre(Kind::kMapAperture));
  const Statistics& s = memory_->statistics();
  EXPECT_EQ(s.page_ins, 1U);
  EXPECT_EQ(s.returns, 1U);
  EXPECT_EQ(s.page_outs, 0U) << "its content was in system memory all the time";
  EXPECT_EQ(s.bytes_in + s.bytes_out, 0U);
}

TEST_F(MemoryManagerTest, LockedContentStaysOnItsSideButMayBeMapped) {
  DXGKIT_COVERS("ALLOC-43");
  const AllocationId a = add(2, bits({1, 3}));
  memory_->lock(a);
  const ResidencyPlan plan = resident(a);
  EXPECT_EQ(plan.placements[0].segment, kAperture) << "not into memory while the CPU holds it";
  release(a);
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kUnmapAperture));
  const AllocationId b = add(2);
  memory_->lock(b);
  const auto refused = attempt({{b}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsAllocationBusy);
  memory_->unlock(b);
  resident(b);
}

TEST_F(MemoryManagerTest, DuplicateUsesPinOncePerUse) {
  const AllocationId a = add(2);
  const ResidencyPlan plan = resident({{a}, {a, true}});
  EXPECT_EQ(plan.placements.size(), 2U);
  EXPECT_EQ(plan.operations.size(), 1U);
  EXPECT_EQ(memory_->pin_count(a), 2U);
  memory_->release(std::vector<Use>{{a}, {a, true}});
  EXPECT_EQ(memory_->pin_count(a), 0U);
}

TEST_F(MemoryManagerTest, OneWriteAmongSeveralUsesIsAWrite) {
  for (const bool first : {true, false}) {
    const AllocationId a = add(2);
    const std::vector<Use> uses = {{a, first}, {a, !first}};
    resident(uses);
    memory_->release(uses);
    EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kTransferOut)) << first;
    // And it may be only where both may.
    const AllocationId b = add([&] {
      AllocationDesc d = desc(2, bits({1, 2}));
      d.supported_write = bits({2});
      return d;
    }());
    EXPECT_EQ(resident({{b, first}, {b, !first}}).placements[0].segment, kVram2);
    memory_->release(std::vector<Use>{{b, first}, {b, !first}});
  }
}

TEST_F(MemoryManagerTest, GroupsSumTheSegmentsThatCount) {
  DXGKIT_COVERS("SEG-43");
  std::vector<SegmentDesc> segments = usual_segments();
  segments[2].group = SegmentGroup::kNonLocal;
  segments[1].application_target = false;
  start(segments);
  use(add(3));
  use(add(2, bits({2})));
  use(add(5, bits({3})));
  EXPECT_EQ(memory_->group_of(kVram2), SegmentGroup::kLocal);
  EXPECT_EQ(memory_->group_of(kAperture), SegmentGroup::kNonLocal);
  EXPECT_EQ(memory_->group_usage(SegmentGroup::kLocal),
            (GroupUsage{.size_bytes = 16 * kPageBytes, .committed_bytes = 3 * kPageBytes}));
  EXPECT_EQ(memory_->group_usage(SegmentGroup::kNonLocal),
            (GroupUsage{.size_bytes = 8 * kPageBytes, .committed_bytes = 5 * kPageBytes}))
      << "an aperture counts with its commit limit";
}

TEST_F(MemoryManagerTest, DestroyingCountsAsNoEviction) {
  const AllocationId a = add(4);
  run(use(a).operations);
  const auto ops = memory_->destroy(a);
  ASSERT_TRUE(ops.has_value());
  EXPECT_THAT(kinds(*ops), ElementsAre(Kind::kDiscard));
  EXPECT_EQ(memory_->statistics().clean_drops, 0U);
  EXPECT_EQ(memory_->statistics().evictions, 0U);
  EXPECT_EQ(memory_->usage(kVram).allocations, 0U);
  EXPECT_EQ(memory_->usage(kVram).committed_bytes, 0U);
  EXPECT_TRUE(memory_->validate());
}

// It stays where it is until a use finds that it may not.
TEST_F(MemoryManagerTest, AnotherDescriptionCountsFromTheNextUseOn) {
  const AllocationId a = add(2);
  use(a, true);
  AllocationDesc other = desc(2, bits({2}));
  ASSERT_EQ(memory_->redescribe(a, other), Status::kSuccess);
  EXPECT_EQ(memory_->placement(a).segment, kVram);
  EXPECT_EQ(memory_->description(a).supported_read, bits({2}));
  EXPECT_TRUE(memory_->validate());
  EXPECT_THAT(kinds(use(a).operations), ElementsAre(Kind::kTransferOut, Kind::kTransferIn));
  EXPECT_EQ(memory_->placement(a).segment, kVram2);
  other.supported_read = bits({2, 4});
  EXPECT_EQ(memory_->redescribe(a, other), Status::kInvalidParameter);
  other = desc(2, 0);
  EXPECT_EQ(memory_->redescribe(a, other), Status::kInvalidParameter) << "it could be nowhere";
  EXPECT_EQ(memory_->description(a).supported_read, bits({2}));
  EXPECT_EQ(memory_->placement(a).segment, kVram2);
}

TEST_F(MemoryManagerTest, LocksAreCountedAndTheLastUnlockIsAUse) {
  const AllocationId a = add(8);
  const AllocationId b = add(8);
  use(a);
  use(b);
  memory_->lock(a);
  memory_->lock(a);
  EXPECT_EQ(memory_->lock_count(a), 2U);
  EXPECT_TRUE(memory_->unlock(a));
  EXPECT_EQ(memory_->evict(a).error(), Status::kGraphicsAllocationBusy) << "locked once more";
  EXPECT_TRUE(memory_->validate());
  EXPECT_TRUE(memory_->unlock(a));
  EXPECT_TRUE(memory_->validate());
  EXPECT_THAT(leavers(use(add(8))), ElementsAre(b));
}

TEST_F(MemoryManagerTest, AUseCanBeNoted) {
  DXGKIT_COVERS("RES-22");
  const AllocationId a = add(8);
  const AllocationId b = add(8);
  use(a);
  use(b);
  memory_->note_use(a);
  EXPECT_THAT(leavers(use(add(8))), ElementsAre(b));
}

TEST_F(MemoryManagerTest, WhatTheCpuWroteInAMemorySegmentIsWrittenBack) {
  const AllocationId a = add(2);
  use(a);
  memory_->mark_cpu_written(a);
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kTransferOut));
}

TEST_F(MemoryManagerTest, WhatIsAssumedWrittenIsContentWhereverItIs) {
  DXGKIT_COVERS("RES-15");
  const AllocationId a = add(2);
  memory_->assume_written(a);
  EXPECT_THAT(kinds(use(a).operations), ElementsAre(Kind::kTransferIn));
  memory_->assume_written(a);
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kTransferOut));
  memory_->assume_written(a);
  EXPECT_TRUE(memory_->validate()) << "nothing is dirty outside memory segments";
}

TEST_F(MemoryManagerTest, WhatIsAssumedCleanIsDroppedUnlessTheCpuHasIt) {
  DXGKIT_COVERS("RES-15");
  const AllocationId a = add(2);
  use(a, true);
  memory_->lock(a);
  memory_->assume_clean(a);
  memory_->unlock(a);
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kTransferOut));
  use(a, true);
  memory_->assume_clean(a);
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kDiscard));
  EXPECT_THAT(kinds(use(a).operations), ElementsAre(Kind::kTransferIn));
}

TEST_F(MemoryManagerTest, PinsOfPinnedOnesAreCounted) {
  const AllocationId a = add(2);
  const std::vector<Use> uses{{a, true}};
  resident(a, true);
  memory_->pin(uses);
  EXPECT_EQ(memory_->pin_count(a), 2U);
  memory_->release(uses);
  EXPECT_EQ(memory_->evict(a).error(), Status::kGraphicsAllocationBusy);
  memory_->release(uses);
  EXPECT_TRUE(memory_->evict(a).has_value());
}

TEST_F(MemoryManagerTest, AnotherNumberOfPlansSaysThatPlacesMayHaveChanged) {
  const AllocationId a = add(2);
  uint64_t plans = memory_->plans();
  const auto changed = [&] {
    const uint64_t before = std::exchange(plans, memory_->plans());
    return before != plans;
  };
  run(use(a).operations);
  EXPECT_TRUE(changed());
  ASSERT_TRUE(memory_->pin_resident(std::vector<Use>{{a}}));
  EXPECT_FALSE(changed()) << "nothing can have moved";
  release(a);
  run(*memory_->evict(a));
  EXPECT_TRUE(changed());
  run(use(a).operations);
  EXPECT_TRUE(changed());
  ASSERT_TRUE(memory_->evict_segment(kVram).has_value());
  EXPECT_TRUE(changed());
  memory_->lose_memory_segments();
  EXPECT_TRUE(changed());
}

TEST_F(MemoryManagerTest, SegmentsAreToldAsTheyWereGiven) {
  const auto segments = memory_->segments();
  ASSERT_EQ(segments.size(), 3U);
  EXPECT_EQ(segments[1].id, kVram2);
  EXPECT_EQ(segments[2].kind, SegmentKind::kAperture);
  use(add(3, bits({2})));
  const SegmentUsage usage = memory_->usage(kVram2);
  EXPECT_EQ(usage.size_bytes, 8 * kPageBytes);
  EXPECT_EQ(usage.committed_bytes, 3 * kPageBytes);
  EXPECT_EQ(usage.free_bytes, 5 * kPageBytes);
  EXPECT_EQ(usage.allocations, 1U);
}

// An executed operation leaves a trace. A notice to the driver, or an operation that moves nothing,
// leaves none.
TEST_F(MemoryManagerTest, ExecutedMovesAreTraced) {
  trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
  AllocationDesc d = desc(2, bits({1, 3}));
  d.preferred[0].segment = kVram;
  d.notify_residency = true;
  const AllocationId a = add(d);
  trace::set_current(&recorder);
  run(use(a, true).operations);  // a fill
  run(*memory_->evict(a));
  run(use(a).operations);
  run(*memory_->evict(a));  // a discard
  memory_->lock(a);         // into the aperture
  run(use(a).operations);
  run(*memory_->evict(a));
  trace::set_current(nullptr);
  std::vector<trace::EventKind> moves;
  for (const trace::Event& event : recorder.events()) {
    const auto kind = static_cast<trace::EventKind>(event.kind);
    if (kind == trace::EventKind::kPlaced || kind == trace::EventKind::kEvicted) continue;
    if (trace::is_cause(event.kind)) continue;
    moves.push_back(kind);
    EXPECT_EQ(event.a, a.value);
    EXPECT_EQ(event.d, 2 * kPageBytes);
  }
  EXPECT_THAT(moves,
              ElementsAre(trace::EventKind::kPageOut, trace::EventKind::kPageIn,
                          trace::EventKind::kApertureMapped, trace::EventKind::kApertureUnmapped));
}

}  // namespace
}  // namespace dxgkit::vidmm
