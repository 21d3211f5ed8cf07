#include "base/tile_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/tile_tree_units_test.h"

namespace dxgkit {
namespace {

using Narrow = TileTree<uint32_t, uint32_t>;
using Wide = TileTree<uint64_t, uint64_t>;

TEST(TileTree, AgreesWithAnArrayOfUnits) {
  const uint32_t seed = 20261121;
  RecordProperty("seed", static_cast<int>(seed));
  for (uint32_t i = 0; i < 20; ++i) {
    compare_with_units<Narrow, uint32_t>(testing::Choices(seed + i), {200, 12, 4, 20'000});
    compare_with_units<Wide, uint64_t>(testing::Choices(seed + i), {200, 12, 4, 20'000});
  }
  for (uint32_t i = 0; i < 2; ++i) {
    compare_with_units<Narrow, uint32_t>(testing::Choices(seed + i),
                                         {5'000, 3, 2, 60'000});  // three levels
    compare_with_units<Wide, uint64_t>(testing::Choices(seed + i), {5'000, 40, 10, 60'000});
  }
}

// Too many units for an array: a map of what is used, and nothing but what must hold.
TEST(TileTree, KeepsWhatItWasGivenThroughAMillionSteps) {
  const uint32_t seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 generator(seed);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  constexpr uint32_t kEnd = 0xFFFFFFFE;  // the largest there is
  Narrow tree(kEnd);
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> used;  // begin -> size, value
  std::vector<uint32_t> live;
  uint32_t free = kEnd;
  for (uint32_t step = 0; step < 1'000'000; ++step) {
    const uint32_t target = (step / 100'000) % 2 == 0 ? 70 : 30;
    if (live.empty() || random() % 100 < target) {
      const uint32_t size = 1 + (random() % 0xFFFFF >> random() % 20);
      const Fit fit = random() % 4 == 0 ? Fit::kHighest : Fit::kLowest;
      const auto found = tree.find(size, 1, fit, 0, kEnd);
      if (!found.has_value()) {
        ASSERT_LT(tree.largest_free(), size);
        continue;
      }
      ASSERT_LE(size, kEnd - *found);
      const auto after = used.lower_bound(*found);
      if (after != used.end()) {
        ASSERT_LE(*found + size, after->first);
      }
      if (after != used.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second.first, *found);
      }
      tree.place(*found, size, step + 1);
      used[*found] = {size, step + 1};
      live.push_back(*found);
      free -= size;
    } else {
      std::swap(live[random() % live.size()], live.back());
      const auto it = used.find(live.back());
      const auto range = tree.at(live.back() + random() % it->second.first);
      ASSERT_EQ(range.begin, it->first);
      ASSERT_EQ(range.size(), it->second.first);
      ASSERT_EQ(range.value, it->second.second);
      tree.release(live.back());
      free += it->second.first;
      used.erase(it);
      live.pop_back();
    }
    ASSERT_EQ(tree.free(), free);
    if (step % 50'000 == 0) {
      ASSERT_TRUE(tree.validate()) << "step " << step;
    }
  }
  ASSERT_TRUE(tree.validate());
  // Everything goes: one free range in one node is left.
  for (const uint32_t begin : live) tree.release(begin);
  EXPECT_TRUE(tree.validate());
  EXPECT_EQ(tree.largest_free(), kEnd);
  EXPECT_EQ(tree.at(12345).end, kEnd);
}

TEST(TileTree, HoldsAtItsEdges) {
  for (const uint32_t end : {1U, 2U, 0xFFFFFFFEU}) {
    Narrow tree(end);
    EXPECT_EQ(tree.find(end, 1, Fit::kLowest, 0, end), 0U);
    EXPECT_EQ(tree.find(end, 1, Fit::kHighest, 0, 0xFFFFFFFF), 0U);
    EXPECT_EQ(tree.find(0, 1, Fit::kLowest, 0, end), std::nullopt);
    EXPECT_EQ(tree.find(1, 1, Fit::kHighest, 0, end), end - 1);
    EXPECT_EQ(tree.find(1, 1, Fit::kLowest, end - 1, end), end - 1);
    EXPECT_EQ(tree.find(1, 1, Fit::kLowest, end, end), std::nullopt);
    EXPECT_EQ(tree.find(1, 1, Fit::kLowest, end, 0), std::nullopt);
    // Only 0 is a multiple of these.
    EXPECT_EQ(tree.find(1, uint64_t{1} << 63, Fit::kLowest, 0, end), 0U);
    EXPECT_EQ(tree.find(1, uint64_t{1} << 63, Fit::kHighest, 0, end), 0U);
    EXPECT_EQ(tree.find(1, uint64_t{1} << 63, Fit::kLowest, 1, end), std::nullopt);
    EXPECT_EQ(tree.find(1, uint64_t{1} << 33, Fit::kHighest, 0, end), 0U);
    tree.place(0, end, 9);
    EXPECT_EQ(tree.largest_free(), 0U);
    EXPECT_EQ(tree.find(1, 1, Fit::kLowest, 0, end), std::nullopt);
    EXPECT_EQ(tree.at(end - 1).value, 9U);
    EXPECT_TRUE(tree.validate());
    tree.release(0);
    EXPECT_EQ(tree.free(), end);
    EXPECT_TRUE(tree.validate());
  }
}

// The next multiple of an alignment may be behind the last number there is.
TEST(TileTree, AlignmentsDoNotWrap) {
  constexpr uint64_t kEnd = ~uint64_t{0} - 1;
  constexpr uint64_t kHalf = uint64_t{1} << 63;
  const Wide tree(kEnd);
  const auto find = [&](uint64_t size, Fit fit, uint64_t low) {
    return tree.find(size, kHalf, fit, low, kEnd);
  };
  EXPECT_EQ(find(1, Fit::kLowest, kHalf), kHalf);
  EXPECT_EQ(find(1, Fit::kLowest, kHalf + 1), std::nullopt);
  EXPECT_EQ(find(1, Fit::kHighest, kHalf + 1), std::nullopt);
  EXPECT_EQ(find(1, Fit::kHighest, 0), kHalf);
  EXPECT_EQ(find(kHalf, Fit::kHighest, 0), 0U);
  EXPECT_EQ(find(kHalf - 2, Fit::kLowest, 1), kHalf);
  EXPECT_EQ(find(kHalf - 1, Fit::kLowest, 1), std::nullopt);
}

// A comb with single free units, then every order of filling the gaps and emptying again.
TEST(TileTree, LivesThroughTheWorstFragmentation) {
  constexpr uint32_t kTeeth = 20'000;
  Narrow tree(2 * kTeeth);
  for (uint32_t i = 0; i < kTeeth; ++i) tree.place(2 * i, 1, i + 1);
  EXPECT_TRUE(tree.validate());
  EXPECT_EQ(tree.largest_free(), 1U);
  EXPECT_EQ(tree.find(2, 1, Fit::kLowest, 0, 2 * kTeeth), std::nullopt);
  EXPECT_EQ(tree.find(1, 2, Fit::kLowest, 0, 2 * kTeeth), std::nullopt);  // holes are odd
  EXPECT_EQ(tree.find(1, 1, Fit::kHighest, 0, 2 * kTeeth), 2 * kTeeth - 1);
  EXPECT_EQ(tree.find(1, 1, Fit::kHighest, 0, 2 * kTeeth - 1), 2 * kTeeth - 3);
  EXPECT_EQ(tree.find(1, 1, Fit::kLowest, 777, 2 * kTeeth), 777U);
  // The last tooth of each 64 goes: the only room for three, on the right side of a pow of two.
  for (uint32_t i = 63; i < kTeeth; i += 64) tree.release(2 * i);
  EXPECT_EQ(tree.find(3, 1, Fit::kLowest, 0, 2 * kTeeth), 125U);
  EXPECT_EQ(tree.find(2, 2, Fit::kLowest, 200, 2 * kTeeth), 254U);
  // From both ends inwards.
  for (uint32_t i = 0; i < kTeeth / 2; ++i) {
    for (const uint32_t tooth : {i, kTeeth - 1 - i}) {
      if (tooth % 64 != 63) tree.release(2 * tooth);
    }
  }
  EXPECT_TRUE(tree.validate());
  EXPECT_EQ(tree.largest_free(), 2 * kTeeth);
  EXPECT_LT(tree.bytes(), size_t{700} * 1024);  // nodes are used again, not kept
}

// A node that loses its last entry joins the node behind it and begins where that node began.
TEST(TileTree, AnEmptiedNodeTakesOverTheOneBehindIt) {
  Narrow tree(10'000);
  // Growing at the end fills nodes with 31 entries: the second one has 31 to 61, and so on.
  for (uint32_t i = 0; i < 310; ++i) tree.place(i, 1, i + 1);
  for (uint32_t i = 100; i < 106; ++i) tree.release(i);  // 26 entries in the fourth
  for (uint32_t i = 62; i < 93; ++i) tree.release(i);    // 1 in the third, too many beside it
  tree.release(61);  // the second is full: the third is empty and can only join the fourth
  ASSERT_TRUE(tree.validate());
  EXPECT_EQ(tree.at(92).begin, 61U);
  EXPECT_EQ(tree.at(93).begin, 93U);
  EXPECT_EQ(tree.at(93).value, 94U);
}

using TileTreeDeathTest = ::testing::Test;
TEST(TileTreeDeathTest, RefusesWhatCannotBe) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  Narrow tree(100);
  tree.place(10, 10, 1);
  EXPECT_DEATH(tree.place(5, 6, 2), "size <= ");
  EXPECT_DEATH(tree.place(15, 1, 2), "== 0");
  EXPECT_DEATH(tree.place(99, 2, 2), "size <= ");
  EXPECT_DEATH(tree.place(50, 1, 0), "value != 0");
  EXPECT_DEATH(tree.release(0), "value != 0");
  EXPECT_DEATH(tree.release(11), "begin == begin");
  EXPECT_DEATH(tree.release(100), "unit < end_");
  EXPECT_DEATH(Narrow(0), "end > 0");
  EXPECT_DEATH(Narrow(0xFFFFFFFF), "end < kFiller");
}

}  // namespace
}  // namespace dxgkit
