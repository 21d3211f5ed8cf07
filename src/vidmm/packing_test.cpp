// Whether lists fit into empty segments, and how.
#include "vidmm/packing.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/arithmetic.h"

namespace dxgkit::vidmm {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

/// Sizes and offsets in pages.
class PackingTest : public ::testing::Test {
 protected:
  void add_segment(uint64_t pages, std::vector<ByteRange> bad = {}) {
    add_segment({.id = SegmentId{static_cast<uint32_t>(segments_.size()) + 1},
                 .size_bytes = pages * kPageBytes,
                 .commit_limit_bytes = pages * kPageBytes,
                 .bank_end_offsets = {},
                 .invalid_ranges = std::move(bad)});
  }
  void add_segment(const SegmentDesc& desc) {
    segments_.push_back(std::make_unique<Segment>(desc, static_cast<uint32_t>(segments_.size())));
    views_.push_back(segments_.back().get());
  }
  static PackItem item(uint64_t pages, std::vector<uint32_t> segments = {0},
                       uint64_t alignment = 1) {
    AllocationDesc desc;
    desc.size_bytes = pages * kPageBytes;
    desc.alignment_bytes = alignment * kPageBytes;
    return {.desc = desc, .segments = std::move(segments), .fixed = std::nullopt};
  }
  static PackItem fixed(uint64_t pages, uint64_t at) {
    PackItem one = item(pages);
    one.fixed = Placement{SegmentId{1}, at * kPageBytes, 0};
    return one;
  }
  std::optional<Packing> packed(const std::vector<PackItem>& items) const {
    return pack(views_, items);
  }
  bool fits(const std::vector<PackItem>& items) const { return packed(items).has_value(); }

  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<const Segment*> views_;
};

TEST_F(PackingTest, TheGivenOrderAndPreferencesAreTriedFirst) {
  add_segment(8);
  add_segment(8);
  const auto packing = packed({item(2, {1, 0}), item(6, {0, 1}), item(6, {1, 0}), item(2)});
  ASSERT_TRUE(packing.has_value());
  EXPECT_THAT(packing->order, ElementsAre(0U, 1U, 2U, 3U));
  EXPECT_THAT(packing->segments, ElementsAre(1U, 0U, 1U, 0U));
  EXPECT_FALSE(fits({item(8), item(1)}));
  EXPECT_TRUE(fits({}));
}

// |X|    5    |XXXXX|  4  |XXX|, whichever of the three that stay comes first, and before or behind
// what is to be placed.
TEST_F(PackingTest, EachThatCannotMoveHasItsOwnSize) {
  add_segment(16);
  std::vector<PackItem> stay{fixed(1, 0), fixed(4, 6), fixed(2, 14)};
  for (int turn = 0; turn < 3; ++turn) {
    std::rotate(stay.begin(), stay.begin() + 1, stay.end());
    for (const size_t at : {0U, 1U, 3U}) {
      const auto with = [&](uint64_t a, uint64_t b) {
        std::vector<PackItem> items = stay;
        items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), {item(a), item(b)});
        return fits(items);
      };
      EXPECT_TRUE(with(5, 4));
      EXPECT_TRUE(with(4, 5));
      EXPECT_FALSE(with(5, 5));
      EXPECT_FALSE(with(6, 1));
    }
  }
}

// |  2  |XXXX|   6   |XXXX|  4  |
TEST_F(PackingTest, WhatCannotMoveLeavesHoles) {
  add_segment(16);
  const std::vector<PackItem> two{fixed(2, 2), fixed(2, 10)};
  const auto with = [&](std::vector<uint64_t> sizes) {
    std::vector<PackItem> items = two;
    for (const uint64_t pages : sizes) items.push_back(item(pages));
    return packed(items);
  };
  EXPECT_TRUE(with({6, 2, 4}).has_value());
  EXPECT_TRUE(with({2, 4, 6}).has_value());
  EXPECT_FALSE(with({7}).has_value());
  EXPECT_FALSE(with({6, 5}).has_value());
  EXPECT_FALSE(with({6, 2, 4, 1}).has_value());
  const auto packing = with({6});
  EXPECT_THAT(packing->order, ElementsAre(2U)) << "only what may be placed anywhere";
  EXPECT_THAT(packing->segments, SizeIs(3U));
}

TEST_F(PackingTest, WhatCannotMoveMayStandAtTheEdges) {
  add_segment(16);
  EXPECT_TRUE(fits({fixed(4, 0), fixed(4, 12), item(8)}));
  EXPECT_FALSE(fits({fixed(4, 0), fixed(4, 12), item(9)}));
  EXPECT_FALSE(fits({fixed(16, 0), item(1)}));
}

TEST_F(PackingTest, BadMemoryIsNoRoom) {
  add_segment(16, {{0, kPageBytes}, {8 * kPageBytes, 2 * kPageBytes}});
  EXPECT_TRUE(fits({item(7), item(6)}));
  EXPECT_FALSE(fits({item(8)}));
  EXPECT_FALSE(fits({item(7), item(7)}));
}

TEST_F(PackingTest, ACommitLimitHoldsWhateverAddressSpaceThereIs) {
  add_segment({.id = SegmentId{1},
               .kind = SegmentKind::kAperture,
               .size_bytes = 16 * kPageBytes,
               .commit_limit_bytes = 8 * kPageBytes,
               .bank_end_offsets = {}});
  EXPECT_TRUE(fits({item(4), item(4)}));
  EXPECT_FALSE(fits({item(4), item(5)}));
  EXPECT_FALSE(fits({fixed(4, 12), item(5)}));
}

TEST_F(PackingTest, OverlaysTakeTheLastFifthOnly) {
  add_segment(20);
  PackItem overlay = item(4);
  overlay.desc.last_fifth = true;
  EXPECT_TRUE(fits({overlay, item(16)}));
  EXPECT_FALSE(fits({overlay, item(17)}));
  PackItem larger = item(5);
  larger.desc.last_fifth = true;
  EXPECT_FALSE(fits({larger}));
}

TEST_F(PackingTest, TheMostConstrainedGoFirstIfTheGivenOrderFails) {
  add_segment(16);
  add_segment(8);
  const auto packing = packed({item(8, {0, 1}), item(16)});
  ASSERT_TRUE(packing.has_value());
  EXPECT_THAT(packing->order, ElementsAre(1U, 0U));
  EXPECT_THAT(packing->segments, ElementsAre(1U, 0U));
}

// The first one placed begins at 0, and the coarsely aligned one can begin nowhere else.
TEST_F(PackingTest, TheCoarselyAlignedGoBeforeTheOthers) {
  add_segment(8);
  const auto packing = packed({item(5), item(3, {0}, 8)});
  ASSERT_TRUE(packing.has_value());
  EXPECT_THAT(packing->order, ElementsAre(1U, 0U));
}

TEST_F(PackingTest, LargerOnesGoBeforeSmallerOnesOfOneKind) {
  add_segment(8);
  add_segment(4);
  // The small one takes the first pages of the first segment, and the large one has no place.
  const auto packing = packed({item(1, {0, 1}), item(4, {0, 1}), item(7, {0, 1})});
  ASSERT_TRUE(packing.has_value());
  EXPECT_THAT(packing->order, ElementsAre(2U, 1U, 0U));
  EXPECT_THAT(packing->segments, ElementsAre(0U, 1U, 0U));
}

// An allocation that may only be in the first segment does not go before one that must begin there.
TEST_F(PackingTest, TheLargestGoFirstIfThatFailsToo) {
  add_segment(16);
  add_segment(8);
  const auto packing = packed({item(2), item(12, {0, 1}, 8)});
  ASSERT_TRUE(packing.has_value());
  EXPECT_THAT(packing->order, ElementsAre(1U, 0U));
  EXPECT_THAT(packing->segments, ElementsAre(0U, 0U));
}

// Largest first: 4 4 | 3 3 3, and the last 3 has no place; 4 3 3 | 4 3 3 needs a search.
TEST_F(PackingTest, AFewAreSearchedForAWayThatNoOrderFinds) {
  add_segment(10);
  add_segment(10);
  const std::vector<uint32_t> both{0, 1};
  std::vector<PackItem> items;
  for (const uint64_t pages : {4U, 4U, 3U, 3U, 3U, 3U}) items.push_back(item(pages, both));
  const auto packing = packed(items);
  ASSERT_TRUE(packing.has_value());
  std::vector<uint64_t> filled(2);
  for (size_t i = 0; i < items.size(); ++i)
    filled[packing->segments[i]] += items[i].desc.size_bytes / kPageBytes;
  EXPECT_THAT(filled, ElementsAre(10U, 10U));
  EXPECT_THAT(packing->order, SizeIs(6U));
  items.push_back(item(1, both));
  EXPECT_FALSE(fits(items)) << "there are 20 pages";
}

TEST_F(PackingTest, MoreThanTwelveAreNotSearched) {
  add_segment(10);
  add_segment(10);
  add_segment(7);
  std::vector<PackItem> items;
  for (const uint64_t pages : {4U, 4U, 3U, 3U, 3U, 3U}) items.push_back(item(pages, {0, 1}));
  for (int i = 0; i < 6; ++i) items.push_back(item(1, {2}));
  EXPECT_TRUE(fits(items));
  items.push_back(item(1, {2}));
  EXPECT_FALSE(fits(items)) << "a way exists, but what finds it would cost too much";
}

// Twelve of three pages into six segments of eight: two in each. With one of seven among them there
// is no way, and far too many that would have to be tried to be sure.
TEST_F(PackingTest, TheSearchIsBounded) {
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < 6; ++i) {
    add_segment(8);
    all.push_back(i);
  }
  std::vector<PackItem> items;
  for (int i = 0; i < 12; ++i) items.push_back(item(3, all));
  EXPECT_TRUE(fits(items));
  items.back() = item(7, all);
  EXPECT_FALSE(fits(items));
}

// A multiple of the alignment that is behind the last number there is.
TEST_F(PackingTest, AnAlignmentThatWrapsFitsNowhere) {
  constexpr uint64_t kHalf = uint64_t{1} << 51;  // of all pages
  add_segment(kHalf + 8);
  EXPECT_TRUE(fits({item(1, {0}, kHalf), item(kHalf)})) << "at 0, or at half";
  EXPECT_FALSE(fits({item(kHalf + 1), item(1, {0}, kHalf), item(7)}));
  EXPECT_FALSE(fits({fixed(kHalf + 1, 0), item(1, {0}, kHalf)}));
}

}  // namespace
}  // namespace dxgkit::vidmm
