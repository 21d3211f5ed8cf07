#include "vidmm/range_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/arithmetic.h"

namespace dxgkit::vidmm {
namespace {

/// One owner per page: the slow, obvious allocator.
class Pages {
 public:
  explicit Pages(uint64_t pages) : owner_(pages) {}
  std::optional<uint64_t> find(uint64_t size, uint64_t alignment, SearchFrom from, uint64_t low,
                               uint64_t high) const {
    std::optional<uint64_t> found;
    for (uint64_t at = 0; at + size <= owner_.size(); at += alignment) {
      if (at < low || at + size > high) continue;
      bool is_free = true;
      for (uint64_t i = at; i < at + size; ++i) is_free = is_free && owner_[i] == 0;
      if (!is_free) continue;
      found = at;
      if (from == SearchFrom::kBottom) return found;
    }
    return found;
  }
  void set(uint64_t at, uint64_t size, uint64_t owner) {
    for (uint64_t i = at; i < at + size; ++i) owner_[i] = owner;
  }
  uint64_t owner(uint64_t at) const { return owner_[at]; }

 private:
  std::vector<uint64_t> owner_;
};

TEST(RangeIndex, AgreesWithAnArrayOfPages) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint64_t>(random() % n); };
    constexpr uint64_t kPages = 200;
    RangeIndex index(kPages * kPageBytes);
    Pages model(kPages);
    std::map<uint64_t, std::pair<RangeIndex::Index, uint64_t>> live;  // offset -> range, size
    uint32_t next_owner = 1;
    for (int step = 0; step < 3000; ++step) {
      const uint64_t size = 1 + below(12);
      const uint64_t alignment = uint64_t{1} << below(4);
      const uint64_t low = below(3) == 0 ? below(kPages) : 0;
      const uint64_t high = below(3) == 0 ? below(kPages) : kPages;
      const SearchFrom from = below(2) == 0 ? SearchFrom::kBottom : SearchFrom::kTop;
      const auto at = index.find(size * kPageBytes, alignment * kPageBytes, from, low * kPageBytes,
                                 high * kPageBytes);
      const auto expected = model.find(size, alignment, from, low, high);
      ASSERT_EQ(at.has_value(), expected.has_value()) << "step " << step;
      if (at.has_value()) {
        ASSERT_EQ(*at, *expected * kPageBytes);
      }
      if (at.has_value() && below(2) == 0) {
        live[*expected] = {index.place(*at, size * kPageBytes, next_owner), size};
        model.set(*expected, size, next_owner++);
      } else if (!live.empty()) {
        auto it = live.begin();
        std::advance(it, static_cast<std::ptrdiff_t>(below(static_cast<uint32_t>(live.size()))));
        index.release(it->second.first);
        model.set(it->first, it->second.second, 0);
        live.erase(it);
      }
      ASSERT_TRUE(index.validate()) << "step " << step;
      const uint64_t probe = below(kPages);
      ASSERT_EQ(index.owner(index.at(probe * kPageBytes)), model.owner(probe));
    }
  }
}

// Segments of more than 16 TiB have keys of their own kind; nothing else is different.
TEST(RangeIndex, SegmentsBeyond16TiB) {
  constexpr uint64_t kBytes = (uint64_t{1} << 44) + 8 * kPageBytes;
  RangeIndex index(kBytes);
  EXPECT_EQ(index.free_bytes(), kBytes);
  EXPECT_EQ(index.largest_free(), kBytes);
  const RangeIndex::Index most = index.place(0, uint64_t{1} << 44, 1);
  EXPECT_EQ(index.free_bytes(), 8 * kPageBytes);
  EXPECT_EQ(index.find(2 * kPageBytes, kPageBytes, SearchFrom::kBottom, 0, kBytes),
            uint64_t{1} << 44);
  EXPECT_EQ(index.find(2 * kPageBytes, kPageBytes, SearchFrom::kTop, 0, kBytes),
            kBytes - 2 * kPageBytes);
  EXPECT_FALSE(index.find(9 * kPageBytes, kPageBytes, SearchFrom::kTop, 0, kBytes).has_value());
  const RangeIndex::Index last = index.place(kBytes - kPageBytes, kPageBytes, 2);
  EXPECT_EQ(index.owner(index.at(kBytes - 1)), 2U);
  EXPECT_EQ(index.owner(index.next(most)), 0U);
  EXPECT_EQ(index.previous(last), index.next(most));
  EXPECT_EQ(index.previous(index.first()), RangeIndex::kNone);
  EXPECT_EQ(index.size(index.next(most)), 7 * kPageBytes);
  EXPECT_GT(index.bytes(), 0U);
  const RangeIndex::Run run = index.mark(last);
  EXPECT_EQ(run.first, index.next(most));
  EXPECT_TRUE(index.marked(last));
  EXPECT_FALSE(index.marked(most));
  EXPECT_TRUE(index.validate());
  index.release(most);
  EXPECT_FALSE(index.marked(last));
  index.release(last);
  EXPECT_EQ(index.largest_free(), kBytes);
  EXPECT_TRUE(index.validate());
}

// Marking grows runs over free and marked neighbours and stops at the others.
TEST(RangeIndex, MarkedRunsJoin) {
  RangeIndex index(10 * kPageBytes);
  std::vector<RangeIndex::Index> ranges;
  for (uint64_t i = 0; i < 10; ++i)
    ranges.push_back(index.place(i * kPageBytes, kPageBytes, static_cast<uint32_t>(i) + 1));
  index.release(ranges[4]);
  const auto span = [&](const RangeIndex::Run& run) {
    return std::pair(index.offset(run.first) / kPageBytes, index.end(run.last) / kPageBytes);
  };
  EXPECT_EQ(span(index.mark(ranges[2])), std::pair(uint64_t{2}, uint64_t{3}));
  EXPECT_EQ(span(index.mark(ranges[5])), std::pair(uint64_t{4}, uint64_t{6}));
  EXPECT_EQ(span(index.mark(ranges[3])), std::pair(uint64_t{2}, uint64_t{6}));
  EXPECT_EQ(span(index.mark(ranges[1])), std::pair(uint64_t{1}, uint64_t{6}));
  index.clear_marks();
  EXPECT_EQ(span(index.mark(ranges[3])), std::pair(uint64_t{3}, uint64_t{5}));
  EXPECT_TRUE(index.validate());
}

// A hundred thousand ranges, then every second one freed: finding stays logarithmic (this test
// would take hours if not).
TEST(RangeIndex, HandlesAHundredThousandRanges) {
  constexpr uint64_t kCount = 100000;
  RangeIndex index(kCount * 2 * kPageBytes);
  std::vector<RangeIndex::Index> ranges;
  for (uint64_t i = 0; i < kCount; ++i) {
    const auto at =
        index.find(kPageBytes, kPageBytes, SearchFrom::kBottom, 0, kCount * 2 * kPageBytes);
    ASSERT_EQ(at, i * kPageBytes);
    ranges.push_back(index.place(*at, kPageBytes, static_cast<uint32_t>(i) + 1));
  }
  for (uint64_t i = 0; i < kCount; i += 2) index.release(ranges[i]);
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(
        index.find(2 * kPageBytes, kPageBytes, SearchFrom::kBottom, 0, kCount * 2 * kPageBytes),
        kCount * kPageBytes);
  }
  EXPECT_EQ(index.free_bytes(), (kCount + kCount / 2) * kPageBytes);
  EXPECT_TRUE(index.validate());
}

// Far more marks than are kept when they go, every second one first, so that none has a neighbour.
TEST(RangeIndex, ThousandsOfMarksAreFoundAgainAndForgottenTogether) {
  constexpr uint64_t kCount = 9000;
  RangeIndex index(kCount * kPageBytes);
  const size_t empty = index.bytes();
  for (uint64_t i = 0; i < kCount; ++i) index.place(i * kPageBytes, kPageBytes, 1);
  const size_t unmarked = index.bytes();
  EXPECT_GT(unmarked, empty);
  for (uint64_t i = 0; i < 4000; i += 2) index.mark(i);
  const size_t with_a_few = index.bytes();
  EXPECT_GT(with_a_few, unmarked);
  index.clear_marks();
  EXPECT_EQ(index.bytes(), with_a_few) << "the next choice needs them again";
  for (uint64_t i = 0; i < kCount; i += 2) {
    const RangeIndex::Run run = index.mark(i);
    ASSERT_EQ(run.first, i);
    ASSERT_EQ(run.last, i);
  }
  for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(index.marked(i), i % 2 == 0);
  for (uint64_t i = 1; i < kCount; i += 2) {
    const RangeIndex::Run run = index.mark(i);
    ASSERT_EQ(run.first, 0U);
    ASSERT_EQ(run.last, std::min(i + 1, kCount - 1));
  }
  EXPECT_GT(index.bytes(), with_a_few);
  index.clear_marks();
  EXPECT_EQ(index.bytes(), unmarked) << "so many are given back";
  EXPECT_FALSE(index.marked(0));
  const RangeIndex::Run run = index.mark(3);
  EXPECT_EQ(run.first, 3U);
  EXPECT_EQ(run.last, 3U);
}

TEST(RangeIndex, WhetherARangeIsMarkedIsKnownWithAnyNumberOfMarks) {
  // Of one that is not marked too: places for marks do not run out first.
  constexpr uint64_t kCount = 600;
  RangeIndex index(2 * kCount * kPageBytes);
  for (uint64_t i = 0; i < 2 * kCount; ++i) index.place(i * kPageBytes, kPageBytes, 1);
  for (uint64_t i = 0; i < kCount; ++i) {
    index.mark(2 * i);
    ASSERT_TRUE(index.marked(2 * i));
    ASSERT_FALSE(index.marked(2 * i + 1));
    ASSERT_FALSE(index.marked(2 * kCount - 1));
  }
}

TEST(RangeIndex, FindsNothingOutsideTheSegment) {
  RangeIndex index(8 * kPageBytes);
  const auto find = [&](uint64_t size, uint64_t low, uint64_t high) {
    return index.find(size, kPageBytes, SearchFrom::kBottom, low, high);
  };
  EXPECT_EQ(find(8 * kPageBytes, 0, ~uint64_t{0}), 0U);
  EXPECT_FALSE(find(8 * kPageBytes + 1, 0, ~uint64_t{0}).has_value());
  EXPECT_FALSE(find(~uint64_t{0}, 0, ~uint64_t{0}).has_value());
  // One page and 2^32 more.
  EXPECT_FALSE(find((uint64_t{1} << 44) + kPageBytes, 0, ~uint64_t{0}).has_value());
  EXPECT_FALSE(find(kPageBytes, uint64_t{1} << 44, ~uint64_t{0}).has_value());
  EXPECT_EQ(find(kPageBytes, 7 * kPageBytes, 8 * kPageBytes), 7 * kPageBytes);
  EXPECT_FALSE(find(kPageBytes, 8 * kPageBytes, ~uint64_t{0}).has_value());
  EXPECT_FALSE(find(kPageBytes, ~uint64_t{0}, ~uint64_t{0}).has_value());
  EXPECT_EQ(find(1, 1, 8 * kPageBytes), kPageBytes) << "whole pages";
}

TEST(RangeIndex, NeighboursEndAtTheEdges) {
  RangeIndex index(8 * kPageBytes);
  const RangeIndex::Index first = index.place(0, 3 * kPageBytes, 1);
  const RangeIndex::Index last = index.place(3 * kPageBytes, 5 * kPageBytes, 2);
  EXPECT_EQ(index.next(first), last);
  EXPECT_EQ(index.next(last), RangeIndex::kNone);
  EXPECT_EQ(index.previous(last), first);
  EXPECT_EQ(index.previous(first), RangeIndex::kNone);
  EXPECT_EQ(index.size(last), 5 * kPageBytes);
  EXPECT_EQ(index.end(last), 8 * kPageBytes);
  EXPECT_EQ(index.free_bytes(), 0U);
  EXPECT_EQ(index.largest_free(), 0U);
  EXPECT_EQ(index.at(3 * kPageBytes - 1), first);
  EXPECT_EQ(index.at(3 * kPageBytes), last);
}

// The largest segment with small keys, and the smallest with large ones.
TEST(RangeIndex, KeysAreWideEnoughFromTheFirstPageThatNeedsIt) {
  for (const uint64_t pages : {uint64_t{0xFFFFFFFE}, uint64_t{0xFFFFFFFF}, uint64_t{0x100000000}}) {
    RangeIndex index(pages * kPageBytes);
    const auto last = index.find(kPageBytes, kPageBytes, SearchFrom::kTop, 0, pages * kPageBytes);
    ASSERT_EQ(last, (pages - 1) * kPageBytes);
    const RangeIndex::Index range = index.place(*last, kPageBytes, 5);
    EXPECT_EQ(index.owner(index.at(pages * kPageBytes - 1)), 5U);
    EXPECT_EQ(index.next(range), RangeIndex::kNone);
    const RangeIndex::Run run = index.mark(range);
    EXPECT_TRUE(index.marked(range));
    EXPECT_EQ(run.first, 0U);
    EXPECT_EQ(run.last, range);
    EXPECT_TRUE(index.validate());
  }
}

}  // namespace
}  // namespace dxgkit::vidmm
