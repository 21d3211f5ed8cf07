// One segment: what an allocation takes there, and where room is.
#include "vidmm/segment.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/arithmetic.h"
#include "tests/support/covers.h"

namespace dxgkit::vidmm {
namespace {

SegmentDesc memory(uint64_t pages) {
  return {.id = SegmentId{1},
          .base_address = uint64_t{1} << 32,
          .size_bytes = pages * kPageBytes,
          .commit_limit_bytes = pages * kPageBytes,
          .bank_end_offsets = {}};
}
AllocationDesc allocation(uint64_t pages, uint64_t alignment = 1) {
  AllocationDesc desc;
  desc.size_bytes = pages * kPageBytes;
  desc.alignment_bytes = alignment * kPageBytes;
  return desc;
}

TEST(Segment, SizesAreWholePagesOfItsKind) {
  DXGKIT_COVERS("SEG-39", "SEG-42");
  AllocationDesc desc = allocation(2);
  desc.size_bytes -= 1;
  desc.pitch_aligned_size_bytes = 3 * kPageBytes + 1;
  SegmentDesc plain = memory(64);
  EXPECT_EQ(Segment(plain, 0).bytes_of(desc), 2 * kPageBytes);
  EXPECT_EQ(Segment(plain, 0).alignment_of(desc), kPageBytes);
  SegmentDesc pitched = memory(64);
  pitched.pitch_alignment = true;
  EXPECT_EQ(Segment(pitched, 0).bytes_of(desc), 4 * kPageBytes);
  EXPECT_EQ(Segment(pitched, 0).bytes_of(allocation(2)), 2 * kPageBytes) << "it has no pitch";
  SegmentDesc large = memory(64);
  large.use_64kb_pages = true;
  EXPECT_EQ(Segment(large, 0).bytes_of(desc), 16 * kPageBytes);
  EXPECT_EQ(Segment(large, 0).alignment_of(desc), 16 * kPageBytes);
  EXPECT_EQ(Segment(large, 0).alignment_of(allocation(1, 32)), 32 * kPageBytes);
  desc.size_bytes = ~uint64_t{0};
  EXPECT_FALSE(Segment(plain, 0).could_hold(desc)) << "its whole pages are 2^64 bytes";
}

TEST(Segment, HoldsWhatOneOfItsHolesHolds) {
  DXGKIT_COVERS("SEG-45");
  SegmentDesc desc = memory(16);
  desc.invalid_ranges = {
      {0, kPageBytes}, {8 * kPageBytes, kPageBytes}, {15 * kPageBytes, kPageBytes}};
  const Segment segment(desc, 0);
  EXPECT_EQ(segment.invalid_bytes, 3 * kPageBytes);
  ASSERT_EQ(segment.usable.size(), 2U);
  EXPECT_EQ(segment.usable[0], (ByteRange{kPageBytes, 7 * kPageBytes}));
  EXPECT_EQ(segment.usable[1], (ByteRange{9 * kPageBytes, 6 * kPageBytes}));
  EXPECT_TRUE(segment.could_hold(allocation(7)));
  EXPECT_FALSE(segment.could_hold(allocation(8)));
  EXPECT_TRUE(segment.could_hold(allocation(4, 4)));
  EXPECT_FALSE(segment.could_hold(allocation(5, 4)))
      << "from 4 there are four pages, from 12 three";
  EXPECT_FALSE(segment.could_hold(allocation(1, 16)));
  AllocationDesc overlay = allocation(2);
  overlay.last_fifth = true;
  EXPECT_TRUE(segment.could_hold(overlay));
  overlay.size_bytes += kPageBytes;
  EXPECT_FALSE(segment.could_hold(overlay)) << "13 and 14: 15 is bad";
}

TEST(Segment, AnAlignmentThatWrapsIsHeldNowhere) {
  constexpr uint64_t kHalf = uint64_t{1} << 51;  // of all pages
  SegmentDesc desc = memory(kHalf + 8);
  EXPECT_TRUE(Segment(desc, 0).could_hold(allocation(1, kHalf)));
  desc.invalid_ranges = {{0, kHalf * kPageBytes}};
  EXPECT_TRUE(Segment(desc, 0).could_hold(allocation(1, kHalf)));
  desc.invalid_ranges = {{0, (kHalf + 1) * kPageBytes}};
  EXPECT_FALSE(Segment(desc, 0).could_hold(allocation(1, kHalf)));
  EXPECT_TRUE(Segment(desc, 0).could_hold(allocation(7)));
}

TEST(Segment, AnApertureHoldsNoMoreThanMayBeCommitted) {
  DXGKIT_COVERS("SEG-30");
  SegmentDesc desc = memory(16);
  desc.commit_limit_bytes = 8 * kPageBytes;
  EXPECT_EQ(Segment(desc, 0).most_bytes(), 16 * kPageBytes) << "memory has no limit of its own";
  desc.kind = SegmentKind::kAperture;
  EXPECT_EQ(Segment(desc, 0).most_bytes(), 8 * kPageBytes);
  EXPECT_TRUE(Segment(desc, 0).could_hold(allocation(8)));
  EXPECT_FALSE(Segment(desc, 0).could_hold(allocation(9)));
  desc.commit_limit_bytes = 99 * kPageBytes;
  EXPECT_EQ(Segment(desc, 0).most_bytes(), 16 * kPageBytes);
}

TEST(Segment, FreeRoomIsInsideTheWindowAndTheLimit) {
  SegmentDesc desc = memory(20);
  desc.kind = SegmentKind::kAperture;
  desc.commit_limit_bytes = 8 * kPageBytes;
  Segment segment(desc, 0);
  const auto find = [&](const AllocationDesc& wanted, uint64_t low, uint64_t high) {
    return segment.find_free(wanted, SearchFrom::kBottom, low * kPageBytes, high * kPageBytes);
  };
  EXPECT_EQ(find(allocation(8), 3, 20), 3 * kPageBytes);
  EXPECT_EQ(find(allocation(8), 3, 11), 3 * kPageBytes);
  EXPECT_FALSE(find(allocation(8), 3, 10).has_value());
  EXPECT_FALSE(find(allocation(1), 3, 3).has_value());
  AllocationDesc overlay = allocation(2);
  overlay.last_fifth = true;
  EXPECT_EQ(find(overlay, 0, 20), 16 * kPageBytes);
  EXPECT_FALSE(find(overlay, 0, 16).has_value()) << "a bank that ends before the last fifth";
  segment.committed = 7 * kPageBytes;
  EXPECT_EQ(find(allocation(1), 0, 20), 0U);
  EXPECT_FALSE(find(allocation(2), 0, 20).has_value());
}

}  // namespace
}  // namespace dxgkit::vidmm
