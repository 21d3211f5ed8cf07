#include "vidmm/memory_manager.h"

#include <gmock/gmock.h>

#include "base/arithmetic.h"
#include "tests/support/covers.h"

namespace dxgkit::vidmm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Kind = PagingOp::Kind;

constexpr SegmentId kVram{1};
constexpr SegmentId kVram2{2};
constexpr SegmentId kAperture{3};
constexpr uint64_t kBase = 0x100000000;

constexpr SegmentSet bits(std::initializer_list<uint32_t> ids) {
  SegmentSet set = 0;
  for (const uint32_t id : ids) set |= segment_bit(SegmentId{id});
  return set;
}

/// Sizes in pages throughout: the segments are 16, 8 and 16 pages; the aperture may commit 8.
class MemoryManagerTest : public ::testing::Test {
 protected:
  MemoryManagerTest() { start(); }

  static std::vector<SegmentDesc> usual_segments() {
    std::vector<SegmentDesc> segments(3);
    segments[0] = {.id = kVram,
                   .base_address = kBase,
                   .size_bytes = 16 * kPageBytes,
                   .commit_limit_bytes = 16 * kPageBytes,
                   .bank_end_offsets = {}};
    segments[1] = {.id = kVram2,
                   .base_address = 2 * kBase,
                   .size_bytes = 8 * kPageBytes,
                   .commit_limit_bytes = 8 * kPageBytes,
                   .bank_end_offsets = {}};
    segments[2] = {.id = kAperture,
                   .kind = SegmentKind::kAperture,
                   .base_address = 3 * kBase,
                   .size_bytes = 16 * kPageBytes,
                   .commit_limit_bytes = 8 * kPageBytes,
                   .bank_end_offsets = {}};
    return segments;
  }
  void start(std::vector<SegmentDesc> segments = usual_segments()) {
    memory_ = std::make_unique<MemoryManager>(segments);
  }
  static AllocationDesc desc(uint64_t pages, SegmentSet set = bits({1})) {
    return {.size_bytes = pages * kPageBytes,
            .alignment_bytes = kPageBytes,
            .supported_read = set,
            .supported_write = set};
  }
  AllocationId add(const AllocationDesc& d) {
    const AllocationId id{next_id_++};
    EXPECT_EQ(memory_->create(id, d), Status::kSuccess);
    return id;
  }
  AllocationId add(uint64_t pages, SegmentSet set = bits({1})) { return add(desc(pages, set)); }
  std::expected<ResidencyPlan, ResidencyFailure> attempt(std::vector<Use> uses) {
    auto plan = memory_->make_resident(uses);
    EXPECT_TRUE(memory_->validate());
    return plan;
  }
  ResidencyPlan resident(std::vector<Use> uses) {
    auto plan = attempt(std::move(uses));
    EXPECT_TRUE(plan.has_value()) << (plan.has_value() ? "" : status_name(plan.error().status));
    return plan.value_or(ResidencyPlan{});
  }
  ResidencyPlan resident(AllocationId id, bool write = false) { return resident({{id, write}}); }
  void release(AllocationId id, bool write = false) {
    memory_->release(std::vector<Use>{{id, write}});
    EXPECT_TRUE(memory_->validate());
  }
  /// Used once: resident, then released.
  ResidencyPlan use(AllocationId id, bool write = false) {
    ResidencyPlan plan = resident(id, write);
    release(id, write);
    return plan;
  }
  void run(const std::vector<PagingOp>& ops) {
    for (const PagingOp& op : ops) memory_->operation_done(op);
  }
  uint64_t page_of(AllocationId id) const {
    return memory_->placement(id).offset_bytes / kPageBytes;
  }
  static std::vector<Kind> kinds(const std::vector<PagingOp>& ops) {
    std::vector<Kind> found;
    for (const PagingOp& op : ops) found.push_back(op.kind);
    return found;
  }
  static std::vector<AllocationId> leavers(const ResidencyPlan& plan) {
    std::vector<AllocationId> found;
    for (const PagingOp& op : plan.operations) {
      if (op.kind == Kind::kTransferOut || op.kind == Kind::kDiscard ||
          op.kind == Kind::kUnmapAperture) {
        found.push_back(op.allocation);
      }
    }
    return found;
  }

  std::unique_ptr<MemoryManager> memory_;
  uint64_t next_id_ = 1;
};

// --- creation ---

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
  EXPECT_EQ(memory_->create(id, desc(16)), Status::kSuccess);
  EXPECT_EQ(memory_->placement(id), Placement{});
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

// --- where ---

TEST_F(MemoryManagerTest, GpuAddressIsSegmentBasePlusOffset) {
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

TEST_F(MemoryManagerTest, PreferencesInOrderThenTheRestByAscendingId) {
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

TEST_F(MemoryManagerTest, BankHintsAreOneBasedAndTriedInOrder) {
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

TEST_F(MemoryManagerTest, FromEndOfSegmentIsTheDefaultDirectionOnly) {
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

TEST_F(MemoryManagerTest, AlignmentAndLargePagesAreHonoured) {
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

TEST_F(MemoryManagerTest, WriteUsesGoToTheWriteSetOnly) {
  AllocationDesc d = desc(2, bits({1, 2}));
  d.supported_read = bits({1});
  d.supported_write = bits({2});
  const AllocationId a = add(d);
  use(a);
  EXPECT_EQ(memory_->placement(a).segment, kVram);
  const ResidencyPlan plan = use(a, true);
  EXPECT_EQ(memory_->placement(a).segment, kVram2);
  EXPECT_THAT(kinds(plan.operations), ElementsAre(Kind::kDiscard, Kind::kFill));
  const auto both = attempt({{a, true}, {a, false}});
  ASSERT_FALSE(both.has_value());
  EXPECT_EQ(both.error().status, Status::kGraphicsNoVideoMemory);
  EXPECT_EQ(both.error().first_failed_use, 1U);
  EXPECT_EQ(memory_->pin_count(a), 0U);
}

TEST_F(MemoryManagerTest, ApertureCommitLimitCapsWhateverAddressSpaceIsLeft) {
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

// --- what must be moved ---

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
  EXPECT_EQ(memory_->statistics().bytes_out, 0U);
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

// --- who leaves ---

TEST_F(MemoryManagerTest, LowerPriorityLeavesFirstThenLeastRecentlyUsed) {
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

TEST_F(MemoryManagerTest, OnlyWhatIsInTheWayLeaves) {
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

TEST_F(MemoryManagerTest, WhatIsInUseIsNeverMoved) {
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

TEST_F(MemoryManagerTest, PinnedByTheDriverStaysOnceResident) {
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

TEST_F(MemoryManagerTest, FailureChangesNothing) {
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

TEST_F(MemoryManagerTest, NoVideoMemoryOnlyIfTheListDoesNotFitAlone) {
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

// Everything may move, yet one of the named stands in the middle: it is moved, not refused.
TEST_F(MemoryManagerTest, NamedAllocationsMoveRatherThanBlockEachOther) {
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
TEST_F(MemoryManagerTest, ListsThatFitOnlyInAnotherOrderArePlaced) {
  AllocationDesc small = desc(8, bits({1, 2}));
  small.preferred[0] = {kVram, SearchFrom::kBottom};
  const AllocationId a = add(small);
  const AllocationId b = add(16);
  resident({{a}, {b}});
  EXPECT_EQ(memory_->placement(a).segment, kVram2);
}

TEST_F(MemoryManagerTest, EmptyingASegmentTakesEverybodyOrNobody) {
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

TEST_F(MemoryManagerTest, ResetLosesWhatOnlyMemorySegmentsHeld) {
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

// --- bad memory, the last fifth, groups ---

TEST_F(MemoryManagerTest, NothingIsPlacedInBadMemory) {
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

TEST_F(MemoryManagerTest, OverlaysLiveInTheLastFifthAndStayUntilEveryoneMustGo) {
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

// --- parking, notices, first content ---

TEST_F(MemoryManagerTest, AVictimWithAnEvictionSetIsParkedInItsAperture) {
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

TEST_F(MemoryManagerTest, WithoutRoomInTheApertureAVictimGoesStraightToItsPages) {
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

TEST_F(MemoryManagerTest, APitchedApertureIsNeverUsedForEviction) {
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

TEST_F(MemoryManagerTest, ApertureMappingsShowThePlainSizeOfAPitchedAllocation) {
  DXGKIT_COVERS("SEG-39");
  std::vector<SegmentDesc> segments = usual_segments();
  segments[0].pitch_alignment = segments[2].pitch_alignment = true;
  start(segments);
  for (const SegmentId where : {kVram, kAperture}) {
    AllocationDesc pitched = desc(3, segment_bit(where));
    pitched.pitch_aligned_size_bytes = 5 * kPageBytes;
    const AllocationId id = add(pitched);
    const ResidencyPlan plan = use(id, true);
    EXPECT_EQ(memory_->usage(where).committed_bytes, 5 * kPageBytes);
    EXPECT_EQ(plan.operations[0].size_bytes, (where == kVram ? 5 : 3) * kPageBytes);
    const auto out = memory_->evict(id);
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ((*out)[0].size_bytes, 3 * kPageBytes) << "the backing store has the plain size";
  }
}

TEST_F(MemoryManagerTest, ARefusalLeavesParkedAllocationsParked) {
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

TEST_F(MemoryManagerTest, ResidencyNoticesFollowArrivalAndPrecedeDeparture) {
  DXGKIT_COVERS("PAGE-41");
  AllocationDesc told = desc(2, bits({1, 3}));
  told.preferred[0].segment = kVram;
  told.notify_residency = true;
  const AllocationId id = add(told);
  const ResidencyPlan plan = use(id, true);
  EXPECT_THAT(kinds(plan.operations), ElementsAre(Kind::kFill, Kind::kNotifyResident));
  EXPECT_EQ(plan.operations[1].place, memory_->placement(id));
  EXPECT_THAT(use(id, true).operations, IsEmpty()) << "once per commit";
  const auto out = memory_->evict(id);
  ASSERT_TRUE(out.has_value());
  EXPECT_THAT(kinds(*out), ElementsAre(Kind::kNotifyNotResident, Kind::kTransferOut));
  use(id);
  run(plan.operations);
  run(*out);
  EXPECT_THAT(kinds(memory_->lose_memory_segments().operations),
              ElementsAre(Kind::kNotifyNotResident, Kind::kContentLost));
}

TEST_F(MemoryManagerTest, AnEvictionNoticePrecedesTheUnmapping) {
  DXGKIT_COVERS("PAGE-48");
  AllocationDesc told = desc(2, bits({1, 3}));
  told.preferred[0].segment = kAperture;
  told.notify_eviction = true;
  const AllocationId id = add(told);
  EXPECT_THAT(kinds(use(id, true).operations), ElementsAre(Kind::kMapAperture));
  const auto out = memory_->evict(id);
  ASSERT_TRUE(out.has_value());
  EXPECT_THAT(kinds(*out), ElementsAre(Kind::kNotifyEviction, Kind::kUnmapAperture));
}

TEST_F(MemoryManagerTest, TheDriverWritesTheFirstContentOfAContextResourceOnce) {
  DXGKIT_COVERS("PAGE-42");
  for (const uint32_t segment : {1U, 3U}) {
    AllocationDesc context = desc(2, bits({segment}));
    context.context_resource = true;
    const AllocationId id = add(context);
    const ResidencyPlan plan = use(id, true);
    if (segment == 1) {
      EXPECT_THAT(kinds(plan.operations), ElementsAre(Kind::kInitContext));
    } else {
      EXPECT_THAT(kinds(plan.operations), ElementsAre(Kind::kMapAperture, Kind::kInitContext));
    }
    const auto out = memory_->evict(id);
    ASSERT_TRUE(out.has_value());
    EXPECT_THAT(kinds(*out), ElementsAre(segment == 1 ? Kind::kTransferOut : Kind::kUnmapAperture));
    EXPECT_THAT(kinds(use(id, true).operations),
                ElementsAre(segment == 1 ? Kind::kTransferIn : Kind::kMapAperture))
        << "its content is kept";
  }
}

TEST_F(MemoryManagerTest, CopiesInPlaceMakeEitherSideCurrent) {
  DXGKIT_COVERS("ALLOC-48");
  const AllocationId id = add(2);
  EXPECT_THAT(memory_->write_back(id), IsEmpty());
  EXPECT_THAT(memory_->refresh(id), IsEmpty());
  use(id, true);
  EXPECT_THAT(kinds(memory_->write_back(id)), ElementsAre(Kind::kTransferOut));
  EXPECT_THAT(memory_->write_back(id), IsEmpty()) << "clean now";
  EXPECT_EQ(memory_->placement(id).segment, kVram);
  EXPECT_TRUE(memory_->validate());
  EXPECT_THAT(kinds(memory_->refresh(id)), ElementsAre(Kind::kTransferIn));
  EXPECT_THAT(kinds(*memory_->evict(id)), ElementsAre(Kind::kDiscard))
      << "no transfer for a clean one";
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

}  // namespace
}  // namespace dxgkit::vidmm
