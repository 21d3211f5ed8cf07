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
  // A moved to the hole behind C; or C to the one behind A: both cost four pages.
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
  for (const PagingOp& op : memory_->write_back(a_)) memory_->operation_done(op);
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

}  // namespace
}  // namespace dxgkit::vidmm
