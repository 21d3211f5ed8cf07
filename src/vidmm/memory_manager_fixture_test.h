// A memory manager of a few pages, driven by hand. For the tests of its parts.
#pragma once

#include <gmock/gmock.h>

#include <expected>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "base/arithmetic.h"
#include "tests/support/covers.h"
#include "vidmm/memory_manager.h"

namespace dxgkit::vidmm {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Kind = PagingOp::Kind;

inline constexpr SegmentId kVram{1};
inline constexpr SegmentId kVram2{2};
inline constexpr SegmentId kAperture{3};
inline constexpr uint64_t kBase = 0x100000000;

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
  /// Wants to be in video memory, and leaves it for the aperture while that has room.
  static AllocationDesc parkable(uint64_t pages, SegmentSet set = bits({1})) {
    AllocationDesc d = desc(pages, set);
    d.preferred[0].segment = kVram;
    d.eviction = bits({3});
    return d;
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

}  // namespace dxgkit::vidmm
