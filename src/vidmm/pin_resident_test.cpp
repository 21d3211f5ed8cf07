// Pinning what is resident already, beside make_resident.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/arithmetic.h"
#include "vidmm/memory_manager.h"

namespace dxgkit::vidmm {
namespace {

constexpr SegmentSet kFirst = segment_bit(SegmentId{1});
constexpr SegmentSet kSecond = segment_bit(SegmentId{2});

class PinResidentTest : public ::testing::Test {
 protected:
  PinResidentTest() : memory_(segments()) {}
  static std::vector<SegmentDesc> segments() {
    std::vector<SegmentDesc> both(2);
    for (uint32_t i = 0; i < 2; ++i) {
      both[i] = {.id = SegmentId{i + 1},
                 .base_address = uint64_t{1} << 32,
                 .size_bytes = 16 * kPageBytes,
                 .commit_limit_bytes = 16 * kPageBytes,
                 .bank_end_offsets = {}};
    }
    return both;
  }
  AllocationId add(SegmentSet read, SegmentSet write) {
    const AllocationId id{next_id_++};
    EXPECT_EQ(memory_.create(id, {.size_bytes = kPageBytes,
                                  .alignment_bytes = kPageBytes,
                                  .supported_read = read,
                                  .supported_write = write}),
              Status::kSuccess);
    return id;
  }
  std::vector<PagingOp> make_resident(AllocationId id) {
    const Use use{id, false};
    auto plan = memory_.make_resident(std::span(&use, 1));
    EXPECT_TRUE(plan.has_value());
    return plan->operations;
  }
  bool pin(std::vector<Use> uses) {
    const bool answer = memory_.pin_resident(uses);
    EXPECT_TRUE(memory_.validate());
    return answer;
  }
  void release(AllocationId id, bool write = false) {
    memory_.release(std::vector<Use>{{id, write}});
  }

  MemoryManager memory_;
  uint64_t next_id_ = 1;
};

TEST_F(PinResidentTest, RefusesWhatIsNotThereOrOnItsWay) {
  const AllocationId a = add(kFirst, kFirst);
  EXPECT_FALSE(pin({{a, false}})) << "not resident";
  EXPECT_EQ(memory_.pin_count(a), 0U);
  const std::vector<PagingOp> operations = make_resident(a);
  ASSERT_FALSE(operations.empty());
  EXPECT_FALSE(pin({{a, false}})) << "it is still being filled";
  EXPECT_EQ(memory_.pin_count(a), 1U);
  for (const PagingOp& op : operations) memory_.operation_done(op);
  EXPECT_TRUE(pin({{a, false}}));
  EXPECT_EQ(memory_.pin_count(a), 2U);
}

TEST_F(PinResidentTest, RefusesAllWhereOneMayNotStay) {
  const AllocationId a = add(kFirst, kFirst);
  const AllocationId b = add(kFirst | kSecond, kSecond);
  for (const AllocationId id : {a, b}) {
    for (const PagingOp& op : make_resident(id)) memory_.operation_done(op);
    release(id);
  }
  ASSERT_EQ(memory_.placement(b).segment, SegmentId{1});
  EXPECT_FALSE(pin({{a, false}, {b, true}})) << "it is not written in the first segment";
  EXPECT_EQ(memory_.pin_count(a), 0U);
  EXPECT_TRUE(pin({{a, false}, {b, false}}));
  EXPECT_EQ(memory_.pin_count(a), 1U);
  EXPECT_EQ(memory_.pin_count(b), 1U);
}

TEST_F(PinResidentTest, HoldsAndRemembersWritesAsAPlanDoes) {
  const AllocationId a = add(kFirst, kFirst);
  for (const PagingOp& op : make_resident(a)) memory_.operation_done(op);
  release(a);
  ASSERT_TRUE(pin({{a, true}}));
  EXPECT_EQ(memory_.evict(a).error(), Status::kGraphicsAllocationBusy);
  release(a, true);
  const auto evicted = memory_.evict(a);
  ASSERT_EQ(evicted->size(), 1U);
  EXPECT_EQ(evicted->front().kind, PagingOp::Kind::kTransferOut);
}

// Where the backing pages are the client's own copy, what work may be writing is written back
// before the CPU looks, though that work has not ended.
TEST_F(PinResidentTest, AWriteCountsFromWhenItMayBegin) {
  for (const bool writes : {false, true}) {
    SCOPED_TRACE(writes);
    const AllocationId a{next_id_++};
    ASSERT_EQ(memory_.create(a, {.size_bytes = kPageBytes,
                                 .alignment_bytes = kPageBytes,
                                 .supported_read = kFirst,
                                 .supported_write = kFirst,
                                 .permanent_system_memory = true}),
              Status::kSuccess);
    for (const PagingOp& op : make_resident(a)) memory_.operation_done(op);
    release(a);
    ASSERT_FALSE(memory_.write_back(a).has_value());
    ASSERT_TRUE(pin({{a, writes}}));
    const std::optional<PagingOp> back = memory_.write_back(a);
    ASSERT_EQ(back.has_value(), writes);
    if (back.has_value()) {
      EXPECT_EQ(back->kind, PagingOp::Kind::kWriteBack);
      EXPECT_EQ(back->allocation, a);
      memory_.operation_done(*back);
    }
    // And again as it ends.
    release(a, writes);
    EXPECT_EQ(memory_.write_back(a).has_value(), writes);
    EXPECT_TRUE(memory_.validate());
  }
}

// An allocation that a plan names more than once is one: where all its uses may be, and written if
// any of them writes, whatever stands before or between.
TEST_F(PinResidentTest, SeveralUsesOfAnAllocationAreOne) {
  struct Row {
    const char* what;
    std::vector<int> uses;  // n: reads allocation n; -n: writes it
    bool written;           // allocation 2
    uint32_t segment;       // where it is: it is written in the second one only
  };
  const Row rows[] = {
      {"read once", {1, 2}, false, 1},
      {"read twice", {1, 2, 2}, false, 1},
      {"another is written", {-1, 2, 2}, false, 1},
      {"others are written around it", {-1, 2, -3, 2, -1}, false, 1},
      {"written at last", {1, 2, 2, -2}, true, 2},
      {"written first", {-2, 2, 1, 2}, true, 2},
      {"written in between", {1, 2, -2, 2}, true, 2},
      {"written twice", {3, -2, 1, -2}, true, 2},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    MemoryManager memory(segments());
    for (uint64_t id = 1; id <= 3; ++id) {
      ASSERT_EQ(memory.create(AllocationId{id}, {.size_bytes = kPageBytes,
                                                 .alignment_bytes = kPageBytes,
                                                 .supported_read = kFirst | kSecond,
                                                 .supported_write = id == 2 ? kSecond : kFirst,
                                                 .permanent_system_memory = true}),
                Status::kSuccess);
    }
    std::vector<Use> uses;
    for (const int use : row.uses)
      uses.push_back({AllocationId{static_cast<uint64_t>(std::abs(use))}, use < 0});
    const auto plan = memory.make_resident(uses);
    ASSERT_TRUE(plan.has_value());
    for (const PagingOp& op : plan->operations) memory.operation_done(op);
    EXPECT_EQ(memory.placement(AllocationId{2}).segment, SegmentId{row.segment});
    EXPECT_EQ(memory.pin_count(AllocationId{2}),
              static_cast<uint32_t>(
                  std::ranges::count_if(row.uses, [](int use) { return std::abs(use) == 2; })));
    EXPECT_EQ(memory.write_back(AllocationId{2}).has_value(), row.written);
    ASSERT_EQ(plan->placements.size(), uses.size());
    for (size_t i = 0; i < uses.size(); ++i) {
      EXPECT_EQ(plan->placements[i].segment, memory.placement(uses[i].allocation).segment);
      EXPECT_EQ(plan->placements[i].offset_bytes,
                memory.placement(uses[i].allocation).offset_bytes);
    }
    EXPECT_TRUE(memory.validate());
  }
}

}  // namespace
}  // namespace dxgkit::vidmm
