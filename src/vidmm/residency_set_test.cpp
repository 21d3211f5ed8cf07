#include "vidmm/residency_set.h"

#include <gtest/gtest.h>

#include "base/arithmetic.h"
#include "tests/support/covers.h"

namespace dxgkit::vidmm {
namespace {

using Kind = PagingOp::Kind;

constexpr SegmentId kVram{1};
constexpr AllocationId kListed{1}, kSecond{2}, kThird{3};

class ResidencySetTest : public ::testing::Test {
 protected:
  ResidencySetTest() {
    create(kListed);
    set_.add(kListed);
  }
  ~ResidencySetTest() override { EXPECT_TRUE(memory_.validate()); }

  static std::vector<SegmentDesc> segments() {
    std::vector<SegmentDesc> one(1);
    one[0] = {.id = kVram,
              .base_address = 0x100000000,
              .size_bytes = 16 * kPageBytes,
              .commit_limit_bytes = 16 * kPageBytes,
              .bank_end_offsets = {}};
    return one;
  }
  /// Of one page.
  void create(AllocationId id) {
    AllocationDesc desc;
    desc.size_bytes = desc.alignment_bytes = kPageBytes;
    desc.supported_read = desc.supported_write = segment_bit(kVram);
    ASSERT_EQ(memory_.create(id, desc), Status::kSuccess);
  }
  void finish(const std::vector<PagingOp>& operations) {
    for (const PagingOp& op : operations) memory_.operation_done(op);
  }
  void hold() {
    const auto held = set_.hold();
    ASSERT_TRUE(held.has_value());
    finish(held->operations);
  }
  /// How it leaves its place.
  Kind evict() {
    const auto operations = memory_.evict(kListed);
    EXPECT_TRUE(operations.has_value());
    if (!operations.has_value() || operations->empty()) return Kind::kFill;
    finish(*operations);
    return operations->back().kind;
  }

  MemoryManager memory_{segments()};
  ResidencySet set_{memory_};
};

TEST_F(ResidencySetTest, WhatWasHeldIsWrittenBack) {
  DXGKIT_COVERS("RES-15");
  for (int round = 0; round < 2; ++round) {
    hold();
    EXPECT_TRUE(set_.held());
    set_.release(true);
    EXPECT_EQ(evict(), Kind::kTransferOut);
  }
}

// While the list is not held, other work may move its allocations. One comes back clean, to a place
// that the list did not choose, and the device works on it again.
TEST_F(ResidencySetTest, WhatOthersBroughtBackIsWrittenBackOnceHeldAgain) {
  DXGKIT_COVERS("RES-15");
  hold();
  set_.release(true);
  EXPECT_EQ(evict(), Kind::kTransferOut);
  const Use use{kListed, false};
  const auto plan = memory_.make_resident(std::span(&use, 1));
  ASSERT_TRUE(plan.has_value());
  finish(plan->operations);
  memory_.release(std::span(&use, 1));
  hold();
  set_.release(true);
  EXPECT_EQ(evict(), Kind::kTransferOut);
}

TEST_F(ResidencySetTest, WhatLeavesTheListIsFreeToGo) {
  create(kSecond);
  create(kThird);
  EXPECT_TRUE(set_.add(kSecond));
  EXPECT_FALSE(set_.add(kListed));  // a second reason
  hold();
  EXPECT_TRUE(set_.add(kThird));
  EXPECT_FALSE(set_.held());
  EXPECT_TRUE(set_.holds_any());
  EXPECT_FALSE(set_.remove(kListed));
  EXPECT_TRUE(set_.contains(kListed));
  // Pinned by the list: not to be had. Off the list: evicted.
  EXPECT_FALSE(memory_.evict(kListed).has_value());
  EXPECT_TRUE(set_.remove(kListed));
  EXPECT_FALSE(set_.contains(kListed));
  EXPECT_EQ(evict(), Kind::kTransferOut);
  EXPECT_TRUE(set_.remove(kThird));  // was never held
  EXPECT_EQ(set_.size(), 1U);
  EXPECT_EQ(set_.at(0), kSecond);
  EXPECT_TRUE(set_.held());
  EXPECT_TRUE(set_.remove(kSecond));
  EXPECT_EQ(set_.size(), 0U);
  EXPECT_FALSE(set_.holds_any());
}

TEST_F(ResidencySetTest, WaitsForWhatIsNotThereYetWhoeverPlannedIt) {
  auto held = set_.hold();
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(held->operations.size(), 1U);
  EXPECT_TRUE(held->must_wait);
  EXPECT_EQ(held->first, 0U);
  finish(held->operations);
  held = set_.hold();
  ASSERT_TRUE(held.has_value());
  EXPECT_FALSE(held->must_wait) << "it is held";
  EXPECT_EQ(held->first, 1U);
  EXPECT_EQ(memory_.pin_count(kListed), 1U);
  set_.release(false);
  held = set_.hold();
  ASSERT_TRUE(held.has_value());
  EXPECT_TRUE(held->operations.empty());
  EXPECT_FALSE(held->must_wait) << "it is where it was, and nothing is under way";
  set_.release(false);
  evict();
  const Use use{kListed, false};
  const auto plan = memory_.make_resident(std::span(&use, 1));
  ASSERT_TRUE(plan.has_value());
  held = set_.hold();
  ASSERT_TRUE(held.has_value());
  EXPECT_TRUE(held->operations.empty());
  EXPECT_TRUE(held->must_wait) << "somebody else's plan brings it in";
  finish(plan->operations);
  memory_.release(std::span(&use, 1));
}

// What joins a list that is held is held beside the others: it counts as written, the list waits
// for it, and of what was held before nothing is asked again.
TEST_F(ResidencySetTest, WhatJoinsAHeldListIsHeldAsTheFirstWere) {
  DXGKIT_COVERS("RES-15");
  create(kSecond);
  create(kThird);
  hold();
  // The second comes by somebody else's plan, which is still under way.
  const Use use{kSecond, false};
  const auto plan = memory_.make_resident(std::span(&use, 1));
  ASSERT_TRUE(plan.has_value());
  set_.add(kSecond);
  auto held = set_.hold();
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(held->first, 1U);
  EXPECT_TRUE(held->operations.empty());
  EXPECT_TRUE(held->must_wait);
  finish(plan->operations);
  memory_.release(std::span(&use, 1));
  // The third comes by the list's own; what stays where it is does not wait.
  set_.add(kThird);
  held = set_.hold();
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(held->first, 2U);
  ASSERT_EQ(held->operations.size(), 1U);
  EXPECT_EQ(held->operations[0].allocation, kThird);
  EXPECT_TRUE(held->must_wait);
  finish(held->operations);
  for (const AllocationId id : {kListed, kSecond, kThird}) EXPECT_EQ(memory_.pin_count(id), 1U);
  set_.release(true);
  for (const AllocationId id : {kListed, kSecond, kThird}) {
    EXPECT_EQ(memory_.pin_count(id), 0U);
    const auto operations = memory_.evict(id);
    ASSERT_TRUE(operations.has_value());
    ASSERT_FALSE(operations->empty());
    EXPECT_EQ(operations->back().kind, Kind::kTransferOut) << id.value;
    finish(*operations);
  }
}

TEST_F(ResidencySetTest, OnlyAUsedListIsTheMostRecentlyUsed) {
  DXGKIT_COVERS("RES-22");
  for (const bool used : {false, true}) {
    MemoryManager memory{segments()};
    ResidencySet set{memory};
    constexpr AllocationId kOther{2};
    AllocationDesc desc;
    desc.size_bytes = 8 * kPageBytes;
    desc.alignment_bytes = kPageBytes;
    desc.supported_read = desc.supported_write = segment_bit(kVram);
    for (const AllocationId id : {kListed, kOther, kThird})
      ASSERT_EQ(memory.create(id, desc), Status::kSuccess);
    set.add(kListed);
    ASSERT_TRUE(set.hold().has_value());
    const Use other{kOther, false};
    ASSERT_TRUE(memory.make_resident(std::span(&other, 1)).has_value());
    memory.release(std::span(&other, 1));
    set.release(used);
    const Use third{kThird, false};
    ASSERT_TRUE(memory.make_resident(std::span(&third, 1)).has_value());
    EXPECT_EQ(memory.placement(used ? kOther : kListed), Placement{});
    EXPECT_EQ(memory.placement(used ? kListed : kOther).segment, kVram);
  }
}

TEST_F(ResidencySetTest, ARefusalHoldsNothing) {
  constexpr AllocationId kLarge{2};
  AllocationDesc desc;
  desc.size_bytes = 16 * kPageBytes;
  desc.alignment_bytes = kPageBytes;
  desc.supported_read = desc.supported_write = segment_bit(kVram);
  ASSERT_EQ(memory_.create(kLarge, desc), Status::kSuccess);
  set_.add(kLarge);
  const auto held = set_.hold();
  ASSERT_FALSE(held.has_value());
  EXPECT_EQ(held.error(), Status::kGraphicsNoVideoMemory);
  EXPECT_FALSE(set_.held());
  EXPECT_FALSE(set_.holds_any());
  EXPECT_EQ(memory_.pin_count(kListed), 0U);
  EXPECT_TRUE(set_.remove(kLarge));
  hold();
  EXPECT_TRUE(set_.held());
}

}  // namespace
}  // namespace dxgkit::vidmm
