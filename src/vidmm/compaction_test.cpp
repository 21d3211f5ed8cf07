// Fragments joined by moves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/covers.h"
#include "vidmm/memory_manager.h"

namespace dxgkit::vidmm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = PagingOp::Kind;

constexpr SegmentId kVram{1}, kAperture{2};
constexpr uint64_t kPage = 4096;

/// A memory segment and an aperture of 16 pages each; sizes in pages throughout.
class Compaction : public ::testing::Test {
 protected:
  Compaction() {
    std::vector<SegmentDesc> segments(2);
    segments[0] = {.id = kVram,
                   .base_address = uint64_t{1} << 32,
                   .size_bytes = 16 * kPage,
                   .commit_limit_bytes = 16 * kPage,
                   .bank_end_offsets = {}};
    segments[1] = {.id = kAperture,
                   .kind = SegmentKind::kAperture,
                   .base_address = uint64_t{2} << 32,
                   .size_bytes = 16 * kPage,
                   .commit_limit_bytes = 16 * kPage,
                   .bank_end_offsets = {}};
    memory_ = std::make_unique<MemoryManager>(segments);
  }
  AllocationId add(uint64_t pages, SegmentId segment = kVram, uint64_t alignment = 1) {
    const AllocationId id{++last_};
    EXPECT_EQ(memory_->create(id, {.size_bytes = pages * kPage,
                                   .alignment_bytes = alignment * kPage,
                                   .supported_read = segment_bit(segment),
                                   .supported_write = segment_bit(segment)}),
              Status::kSuccess);
    return id;
  }
  std::vector<PagingOp> use(AllocationId id, bool write = true) {
    const Use one{id, write};
    auto plan = memory_->make_resident(std::span(&one, 1));
    EXPECT_TRUE(plan.has_value());
    EXPECT_TRUE(memory_->validate());
    if (!plan.has_value()) return {};
    memory_->release(std::span(&one, 1));
    for (const PagingOp& op : plan->operations) memory_->operation_done(op);
    return plan->operations;
  }
  void drop(AllocationId id) {
    auto gone = memory_->destroy(id);
    ASSERT_TRUE(gone.has_value());
  }
  /// 0..3 A, 4..7 free, 8..11 C, 12..15 free.
  void fragment(SegmentId segment, bool write = true) {
    a_ = add(4, segment);
    const AllocationId b = add(4, segment);
    c_ = add(4, segment);
    const AllocationId d = add(4, segment);
    for (const AllocationId id : {a_, b, c_, d}) use(id, write);
    drop(b);
    drop(d);
  }
  uint64_t page_of(AllocationId id) const {
    EXPECT_NE(memory_->placement(id).segment, kSystemMemory);
    return memory_->placement(id).offset_bytes / kPage;
  }
  static std::vector<std::pair<Kind, uint64_t>> steps(const std::vector<PagingOp>& operations) {
    std::vector<std::pair<Kind, uint64_t>> found;
    for (const PagingOp& op : operations) found.emplace_back(op.kind, op.allocation.value);
    return found;
  }
  static std::pair<Kind, uint64_t> step(Kind kind, AllocationId id) { return {kind, id.value}; }

  std::unique_ptr<MemoryManager> memory_;
  uint64_t last_ = 0;
  AllocationId a_, c_;
};

TEST_F(Compaction, MovesWhoIsInTheWayIntoAnotherHoleAndNobodyLeaves) {
  DXGKIT_COVERS("RES-22");
  fragment(kVram);
  const AllocationId wide = add(8);
  // A moves to the hole behind C, or C to the hole behind A: both cost four pages.
  EXPECT_THAT(steps(use(wide)), ElementsAre(step(Kind::kTransferOut, a_),
                                            step(Kind::kTransferIn, a_), step(Kind::kFill, wide)));
  EXPECT_EQ(page_of(wide), 0U);
  EXPECT_EQ(page_of(a_), 12U);
  EXPECT_EQ(page_of(c_), 8U);
  EXPECT_EQ(memory_->statistics().evictions, 0U);
  EXPECT_EQ(memory_->statistics().moves, 1U);
  EXPECT_THAT(use(a_), IsEmpty()) << "it never left";
}

TEST_F(Compaction, CleanContentIsNotWrittenBackFirst) {
  DXGKIT_COVERS("PAGE-24");
  fragment(kVram);
  memory_->assume_clean(a_);
  const AllocationId wide = add(8);
  EXPECT_THAT(steps(use(wide)), ElementsAre(step(Kind::kDiscard, a_), step(Kind::kTransferIn, a_),
                                            step(Kind::kFill, wide)));
}

TEST_F(Compaction, AMappingMovesByUnmappingAndMapping) {
  DXGKIT_COVERS("PAGE-26");
  fragment(kAperture);
  const AllocationId wide = add(8, kAperture);
  EXPECT_THAT(steps(use(wide)),
              ElementsAre(step(Kind::kUnmapAperture, a_), step(Kind::kMapAperture, a_),
                          step(Kind::kMapAperture, wide)));
  EXPECT_EQ(page_of(a_), 12U);
}

TEST_F(Compaction, WhatMayNotMoveStaysAndSomebodyElseMoves) {
  DXGKIT_COVERS("RES-22");
  fragment(kVram);
  const Use pin{a_, false};
  ASSERT_TRUE(memory_->make_resident(std::span(&pin, 1)).has_value());
  const AllocationId wide = add(8);
  EXPECT_THAT(steps(use(wide)), ElementsAre(step(Kind::kTransferOut, c_),
                                            step(Kind::kTransferIn, c_), step(Kind::kFill, wide)));
  EXPECT_EQ(page_of(a_), 0U);
  EXPECT_EQ(page_of(c_), 12U);
  EXPECT_EQ(page_of(wide), 4U);
  memory_->release(std::span(&pin, 1));
}

TEST_F(Compaction, NobodyMovesWhereAllArePinned) {
  DXGKIT_COVERS("RES-22");
  fragment(kVram);
  const std::vector<Use> pins{{a_, false}, {c_, false}};
  ASSERT_TRUE(memory_->make_resident(pins).has_value());
  const AllocationId wide = add(8);
  const Use one{wide, true};
  const auto refused = memory_->make_resident(std::span(&one, 1));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsAllocationBusy);
  EXPECT_EQ(page_of(a_), 0U);
  EXPECT_EQ(page_of(c_), 8U);
  EXPECT_EQ(memory_->statistics().moves, 0U);
  EXPECT_TRUE(memory_->validate());
  memory_->release(pins);
}

TEST_F(Compaction, MovingMoreThanIsWantedIsDearerThanEvicting) {
  DXGKIT_COVERS("RES-22");
  const AllocationId big = add(6);
  const AllocationId gap = add(2);
  const AllocationId other = add(6);
  const AllocationId last = add(2);
  for (const AllocationId id : {big, gap, other, last}) use(id);
  drop(gap);
  drop(last);
  // Four pages are free in two pieces, and only what has six could make way.
  const AllocationId wide = add(4);
  use(wide);
  EXPECT_EQ(memory_->statistics().moves, 0U);
  EXPECT_EQ(memory_->statistics().evictions, 1U);
  EXPECT_EQ(memory_->placement(big).segment, kSystemMemory) << "the least recently used";
}

TEST_F(Compaction, WhoFindsNoHoleStaysAndThePolicySaysWhoLeaves) {
  DXGKIT_COVERS("RES-22");
  // 0..3 A, 4..5 free, 6..7 pinned, 8..11 C, 12..13 free, 14..15 pinned: two holes of two pages.
  const AllocationId a = add(4);
  const AllocationId b = add(2);
  const AllocationId p = add(2);
  const AllocationId c = add(4);
  const AllocationId d = add(2);
  const AllocationId q = add(2);
  for (const AllocationId id : {a, b, p, c, d, q}) use(id);
  drop(b);
  drop(d);
  memory_->set_priority(c, 1);
  const std::vector<Use> pins{{p, false}, {q, false}};
  ASSERT_TRUE(memory_->make_resident(pins).has_value());
  const AllocationId wide = add(4);
  use(wide);
  EXPECT_EQ(page_of(a), 0U) << "C is worth less";
  EXPECT_EQ(memory_->placement(c).segment, kSystemMemory);
  EXPECT_EQ(memory_->statistics().moves, 0U);
  EXPECT_EQ(memory_->statistics().evictions, 1U);
  memory_->release(pins);
}

TEST_F(Compaction, AlignmentCountsForWhoComesAndForWhoMoves) {
  DXGKIT_COVERS("ALLOC-10");
  // 0..1 A, 2..3 free, 4..5 C, 6..7 free, 8..15 E: C needs a multiple of four pages.
  const AllocationId a = add(2);
  const AllocationId b = add(2);
  const AllocationId c = add(2, kVram, 4);
  const AllocationId d = add(2);
  const AllocationId e = add(8);
  for (const AllocationId id : {a, b, c, d, e}) use(id);
  ASSERT_EQ(page_of(c), 4U);
  drop(b);
  drop(d);
  const AllocationId wide = add(4, kVram, 4);
  use(wide);
  EXPECT_EQ(page_of(wide) % 4, 0U);
  EXPECT_EQ(page_of(c) % 4, 0U);
  EXPECT_EQ(memory_->statistics().evictions, 0U);
  EXPECT_EQ(memory_->statistics().moves, 1U);
  EXPECT_EQ(page_of(e), 8U);
}

TEST_F(Compaction, WhereMovingFailsSomebodyLeaves) {
  DXGKIT_COVERS("REND-28");
  memory_->set_switches({.fail_compaction = true});
  fragment(kVram);
  const AllocationId wide = add(8);
  use(wide);
  EXPECT_EQ(memory_->statistics().moves, 0U);
  EXPECT_EQ(memory_->statistics().compactions_failed, 1U);
  EXPECT_EQ(memory_->statistics().evictions, 1U);
}

// Beyond 4,096 allocations looking costs more than evicting.
TEST_F(Compaction, TooManyNeighboursAreNotLookedAt) {
  for (const uint64_t count : {4096U, 4097U}) {
    std::vector<SegmentDesc> segments(1);
    segments[0] = {.id = kVram,
                   .base_address = uint64_t{1} << 32,
                   .size_bytes = 2 * count * kPage,
                   .commit_limit_bytes = 2 * count * kPage,
                   .bank_end_offsets = {}};
    memory_ = std::make_unique<MemoryManager>(segments);
    last_ = 0;
    std::vector<Use> all;
    for (uint64_t i = 0; i < 2 * count; ++i) all.push_back({add(1), false});
    auto plan = memory_->make_resident(all);
    ASSERT_TRUE(plan.has_value());
    memory_->release(all);
    for (const PagingOp& op : plan->operations) memory_->operation_done(op);
    for (size_t i = 0; i < all.size(); i += 2) drop(all[i].allocation);
    use(add(2));
    EXPECT_EQ(memory_->statistics().moves, count == 4096 ? 1U : 0U);
    EXPECT_EQ(memory_->statistics().evictions, count == 4096 ? 0U : 1U);
  }
}

TEST_F(Compaction, UnmoveableOnesStay) {
  DXGKIT_COVERS("RES-22");
  AllocationDesc d{.size_bytes = 4 * kPage,
                   .alignment_bytes = kPage,
                   .supported_read = segment_bit(kVram),
                   .supported_write = segment_bit(kVram)};
  fragment(kVram);
  d.unmoveable = true;
  ASSERT_EQ(memory_->redescribe(a_, d), Status::kSuccess);
  use(add(8));
  EXPECT_EQ(page_of(a_), 0U);
  EXPECT_EQ(page_of(c_), 12U);
}

TEST_F(Compaction, ACommitLimitIsNotMadeRoomByMoving) {
  DXGKIT_COVERS("SEG-30");
  std::vector<SegmentDesc> segments(1);
  segments[0] = {.id = kAperture,
                 .kind = SegmentKind::kAperture,
                 .base_address = uint64_t{2} << 32,
                 .size_bytes = 16 * kPage,
                 .commit_limit_bytes = 15 * kPage,
                 .bank_end_offsets = {}};
  memory_ = std::make_unique<MemoryManager>(segments);
  const AllocationId a = add(4, kAperture);
  const AllocationId b = add(4, kAperture);
  const AllocationId c = add(4, kAperture);
  for (const AllocationId id : {a, b, c}) use(id);
  drop(b);  // four free pages here and four at the end, of which seven may be used
  use(add(8, kAperture));
  EXPECT_EQ(memory_->statistics().moves, 0U);
  EXPECT_EQ(memory_->statistics().evictions, 1U);
}

TEST_F(Compaction, OpeningsForOverlaysAreInTheLastFifthOnly) {
  DXGKIT_COVERS("ALLOC-49");
  std::vector<SegmentDesc> segments(1);
  segments[0] = {.id = kVram,
                 .base_address = uint64_t{1} << 32,
                 .size_bytes = 20 * kPage,
                 .commit_limit_bytes = 20 * kPage,
                 .bank_end_offsets = {}};
  memory_ = std::make_unique<MemoryManager>(segments);
  const AllocationId low = add(4);
  const AllocationId gap = add(2);
  const AllocationId single = add(1);
  const AllocationId other_gap = add(2);
  const AllocationId most = add(8);
  const AllocationId high = add(1);
  for (const AllocationId id : {low, gap, single, other_gap, most, high}) use(id);
  ASSERT_EQ(page_of(high), 17U);
  drop(gap);
  drop(other_gap);
  AllocationDesc d{.size_bytes = 3 * kPage,
                   .alignment_bytes = kPage,
                   .supported_read = segment_bit(kVram),
                   .supported_write = segment_bit(kVram)};
  d.last_fifth = true;
  const AllocationId overlay{++last_};
  ASSERT_EQ(memory_->create(overlay, d), Status::kSuccess);
  use(overlay);
  EXPECT_EQ(page_of(overlay), 17U);
  EXPECT_EQ(page_of(high), 4U) << "moved to a gap";
  EXPECT_EQ(page_of(single), 6U) << "as cheap, but not in the way there";
  EXPECT_EQ(memory_->statistics().evictions, 0U);
}

/// Layouts written as a sequence of sizes, each movable, free or pinned.
class CompactionLayouts : public Compaction {
 protected:
  struct Part {
    uint64_t pages;
    char what;  // 'm'ovable, 'f'ree, 'p'inned
    uint64_t alignment = 1;
  };
  /// The movable ones, in order.
  std::vector<AllocationId> lay_out(const std::vector<Part>& parts) {
    std::vector<AllocationId> all;
    std::vector<AllocationId> movable;
    for (const Part& part : parts) {
      all.push_back(add(part.pages, kVram, part.alignment));
      use(all.back());
      if (part.what == 'm') movable.push_back(all.back());
      if (part.what != 'p') continue;
      const Use pin{all.back(), false};
      EXPECT_TRUE(memory_->pin_resident(std::span(&pin, 1)));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].what == 'f') drop(all[i]);
    }
    return movable;
  }
};

TEST_F(CompactionLayouts, TheCheapestWayIsTaken) {
  const auto movable = lay_out({{3, 'm'}, {2, 'f'}, {1, 'm'}, {3, 'f'}, {7, 'p'}});
  const AllocationId wide = add(5);
  use(wide);
  EXPECT_EQ(page_of(wide), 3U);
  EXPECT_EQ(page_of(movable[0]), 0U) << "it would have had room behind the small one";
  EXPECT_EQ(page_of(movable[1]), 8U);
  EXPECT_EQ(memory_->statistics().moves, 1U);
}

TEST_F(CompactionLayouts, OfEquallyCheapWaysTheDirectionDecides) {
  fragment(kVram);
  AllocationDesc d{.size_bytes = 8 * kPage,
                   .alignment_bytes = kPage,
                   .supported_read = segment_bit(kVram),
                   .supported_write = segment_bit(kVram)};
  d.from_end_of_segment = true;
  const AllocationId wide{++last_};
  ASSERT_EQ(memory_->create(wide, d), Status::kSuccess);
  use(wide);
  EXPECT_EQ(page_of(wide), 8U);
  EXPECT_EQ(page_of(a_), 0U);
  EXPECT_EQ(page_of(c_), 4U);
}

// From the end of the segment on, what ends with a range counts like what begins with one.
TEST_F(CompactionLayouts, FromTheEndThePlaceMayEndWhereARangeEnds) {
  fragment(kVram);
  AllocationDesc d{.size_bytes = 6 * kPage,
                   .alignment_bytes = kPage,
                   .supported_read = segment_bit(kVram),
                   .supported_write = segment_bit(kVram)};
  d.from_end_of_segment = true;
  const AllocationId wide{++last_};
  ASSERT_EQ(memory_->create(wide, d), Status::kSuccess);
  use(wide);
  EXPECT_EQ(page_of(wide), 10U);
  EXPECT_EQ(page_of(a_), 0U);
  EXPECT_EQ(page_of(c_), 4U);
  EXPECT_EQ(memory_->statistics().evictions, 0U);
}

TEST_F(CompactionLayouts, AsMuchMayMoveAsIsWanted) {
  const auto movable =
      lay_out({{2, 'm'}, {2, 'm'}, {1, 'p'}, {2, 'f'}, {1, 'p'}, {2, 'f'}, {6, 'p'}});
  const AllocationId wide = add(4);
  use(wide);
  EXPECT_EQ(page_of(wide), 0U);
  EXPECT_EQ(page_of(movable[0]), 5U);
  EXPECT_EQ(page_of(movable[1]), 8U);
  EXPECT_EQ(memory_->statistics().moves, 2U);
  EXPECT_EQ(memory_->statistics().evictions, 0U);
}

// The larger one moves first, as it finds fewer holes.
TEST_F(CompactionLayouts, TheLargerOnesChooseFirst) {
  const auto movable =
      lay_out({{1, 'm'}, {2, 'm'}, {1, 'f'}, {2, 'p'}, {2, 'f'}, {1, 'p'}, {1, 'f'}, {6, 'p'}});
  const AllocationId wide = add(4);
  use(wide);
  EXPECT_EQ(page_of(wide), 0U);
  EXPECT_EQ(page_of(movable[0]), 9U);
  EXPECT_EQ(page_of(movable[1]), 6U);
}

TEST_F(CompactionLayouts, WhoHasMovedComesBackIfTheNextFindsNoHole) {
  const auto movable = lay_out(
      {{2, 'm'}, {2, 'm'}, {1, 'p'}, {2, 'f'}, {1, 'p'}, {1, 'f'}, {1, 'p'}, {1, 'f'}, {5, 'p'}});
  const AllocationId wide = add(4);
  EXPECT_EQ(use(wide).size(), 3U) << "two leave, one comes";
  EXPECT_EQ(page_of(wide), 0U);
  for (const AllocationId id : movable) EXPECT_EQ(memory_->placement(id), Placement{});
  EXPECT_EQ(memory_->statistics().moves, 0U);
  EXPECT_EQ(memory_->statistics().evictions, 2U);
}

// Where who is in the way finds no other hole, dearer places are tried, up to the fourth.
TEST_F(CompactionLayouts, TheFourthCheapestPlaceIsTried) {
  std::vector<SegmentDesc> segments(1);
  segments[0] = {.id = kVram,
                 .base_address = uint64_t{1} << 32,
                 .size_bytes = 36 * kPage,
                 .commit_limit_bytes = 36 * kPage,
                 .bank_end_offsets = {}};
  memory_ = std::make_unique<MemoryManager>(segments);
  // The last eight pages cost four, from the start of one range or to the end of the other; from
  // page 26 on eight cost six. But the aligned one of four fits in neither hole.
  const auto movable = lay_out({{3, 'm', 8},
                                {4, 'f'},
                                {4, 'p'},
                                {3, 'm'},
                                {1, 'm'},
                                {4, 'm'},
                                {2, 'f'},
                                {2, 'p'},
                                {3, 'm'},
                                {2, 'm'},
                                {4, 'm', 4},
                                {4, 'f'}});
  ASSERT_EQ(page_of(movable[6]), 28U);
  const AllocationId wide = add(8);
  use(wide);
  EXPECT_EQ(page_of(wide), 11U);
  EXPECT_EQ(page_of(movable[3]), 3U);
  EXPECT_EQ(page_of(movable[1]), 32U);
  EXPECT_EQ(page_of(movable[2]), 19U);
  EXPECT_EQ(memory_->statistics().moves, 3U);
  EXPECT_EQ(memory_->statistics().evictions, 0U);
}

TEST_F(CompactionLayouts, APinBehindWhoCouldMoveIsInTheWay) {
  const auto movable = lay_out({{2, 'm'}, {2, 'p'}, {2, 'f'}, {2, 'p'}, {2, 'f'}, {6, 'p'}});
  const Use one{add(4), true};
  const auto refused = memory_->make_resident(std::span(&one, 1));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, Status::kGraphicsAllocationBusy);
  EXPECT_EQ(page_of(movable[0]), 0U);
  EXPECT_TRUE(memory_->validate());
}

}  // namespace
}  // namespace dxgkit::vidmm
