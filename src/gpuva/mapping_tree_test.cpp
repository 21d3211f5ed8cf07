// The tree of mapped ranges beside a std::map of the same ranges: large enough for nodes of all
// levels to split, share, join and go.
#include "gpuva/mapping_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace dxgkit::gpuva {
namespace {

using Entry = MappingTree::Entry;
using Value = MappingTree::Value;

/// Keeps its own books of what it is told.
struct Client {
  Value after(Value value, uint64_t k) const {
    value.where += k;
    return value;
  }
  bool continues(const Value& a, const Value& b) const {
    return a.attribute == b.attribute && a.where + a.pages == b.where;
  }
  void added(const Entry& entry) { ++known[entry.begin]; }
  void gone(const Entry& entry) {
    if (--known[entry.begin] == 0) known.erase(entry.begin);
  }
  void moved(const Entry& old, const Entry& now) {
    added(now);
    gone(old);
  }
  static bool wants_cuts() { return true; }
  void cut(uint64_t first, uint64_t end) { cut_pages += end - first; }
  std::map<uint64_t, int> known;
  uint64_t cut_pages = 0;
};

struct Range {
  uint64_t end = 0;
  uint32_t attribute = 0;
  uint64_t where = 0;
};

class Pair {
 public:
  explicit Pair(uint64_t seed, uint64_t space) : random_(seed), space_(space) {}

  uint64_t below(uint64_t limit) { return random_() % limit; }
  void put(uint64_t begin, uint64_t end) {
    const Value value{.pages = 0,
                      .attribute = static_cast<uint32_t>(below(3)),
                      .where = below(2) == 0 ? begin : below(1000)};
    carve(begin, end);
    tree_.put(begin, end, value, client_);
    ranges_[begin] = {end, value.attribute, value.where};
    pages_ += end - begin;
  }
  void erase(uint64_t begin, uint64_t end) {
    client_.cut_pages = 0;
    const uint64_t before = pages_;
    carve(begin, end);
    tree_.erase(begin, end, client_);
    ASSERT_EQ(client_.cut_pages, before - pages_);
  }
  void lookup(uint64_t page) const {
    Entry entry;
    const bool found = tree_.find(page, &entry);
    auto range = ranges_.upper_bound(page);
    if (range == ranges_.begin() || std::prev(range)->second.end <= page) {
      ASSERT_FALSE(found);
      Entry next;
      const bool some = tree_.find_behind(page, &next);
      ASSERT_EQ(some, range != ranges_.end());
      if (some) {
        ASSERT_EQ(next.begin, range->first);
      }
      return;
    }
    --range;
    ASSERT_TRUE(found);
    ASSERT_EQ(entry.value.attribute, range->second.attribute);
    ASSERT_EQ(entry.value.where + (page - entry.begin),
              range->second.where + (page - range->first));
    Entry same;
    ASSERT_TRUE(tree_.find_behind(page, &same));
    ASSERT_EQ(same.begin, entry.begin);
  }
  void compare() const {
    ASSERT_TRUE(tree_.validate());
    ASSERT_EQ(client_.known.size(), tree_.size());
    auto range = ranges_.begin();
    uint64_t page = 0;
    Entry entry;
    for (uint64_t from = 0; tree_.find_behind(from, &entry); from = entry.end()) {
      ASSERT_TRUE(client_.known.contains(entry.begin));
      // One entry is one range, or several that continue each other, or part of one.
      for (page = entry.begin; page < entry.end();) {
        ASSERT_NE(range, ranges_.end());
        ASSERT_LE(range->first, page);
        ASSERT_EQ(range->second.attribute, entry.value.attribute);
        ASSERT_EQ(range->second.where + (page - range->first),
                  entry.value.where + (page - entry.begin));
        page = std::min(range->second.end, entry.end());
        if (page == range->second.end) ++range;
      }
    }
    ASSERT_EQ(range, ranges_.end());
  }
  size_t size() const { return tree_.size(); }
  size_t bytes() const { return tree_.bytes(); }
  uint64_t space() const { return space_; }

 private:
  void carve(uint64_t begin, uint64_t end) {
    auto range = ranges_.lower_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second.end > begin) --range;
    while (range != ranges_.end() && range->first < end) {
      const uint64_t old_begin = range->first;
      const Range old = range->second;
      range = ranges_.erase(range);
      pages_ -= std::min(old.end, end) - std::max(old_begin, begin);
      if (old_begin < begin) ranges_[old_begin] = {begin, old.attribute, old.where};
      if (old.end > end) ranges_[end] = {old.end, old.attribute, old.where + (end - old_begin)};
    }
  }
  std::mt19937_64 random_;
  uint64_t space_;
  MappingTree tree_;
  Client client_;
  std::map<uint64_t, Range> ranges_;
  uint64_t pages_ = 0;
};

void grow_and_shrink(Pair& pair, uint64_t ranges, uint64_t longest) {
  for (uint64_t round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < ranges; ++i) {
      const uint64_t begin = pair.below(pair.space() - longest);
      pair.put(begin, begin + 1 + pair.below(longest));
      pair.lookup(pair.below(pair.space()));
    }
    ASSERT_NO_FATAL_FAILURE(pair.compare());
    ASSERT_GT(pair.size(), ranges / 4);
    // From many sides: in stretches, then wide ones that empty whole nodes.
    for (uint64_t i = 0; i < 20; ++i) {
      const uint64_t begin = pair.below(pair.space());
      pair.erase(begin, std::min(pair.space(), begin + pair.below(pair.space() / 20)));
      if (i % 4 == 0) {
        ASSERT_NO_FATAL_FAILURE(pair.compare());
      }
    }
    for (uint64_t from = 0; from < pair.space(); from += pair.space() / 400 + 1) {
      pair.erase(from, std::min(pair.space(), from + pair.below(pair.space() / 300)));
      pair.lookup(pair.below(pair.space()));
    }
    ASSERT_NO_FATAL_FAILURE(pair.compare());
    pair.erase(round, pair.space());
    ASSERT_NO_FATAL_FAILURE(pair.compare());
    if (round == 0) {
      ASSERT_EQ(pair.size(), 0U);
    }
  }
}

TEST(MappingTree, AgreesWithAMapOfRangesWhileItGrowsAndShrinks) {
  Pair pair(3, 4'000'000);
  grow_and_shrink(pair, 40'000, 60);
}

TEST(MappingTree, SpreadsOverSeveralTreesOfFourTebibytes) {
  // 2^30 pages each; ranges cross their borders.
  Pair pair(4, uint64_t{5} << 30);
  grow_and_shrink(pair, 3'000, uint64_t{1} << 21);
  for (uint64_t border = 1; border < 5; ++border) {
    const uint64_t at = border << 30;
    pair.put(at - 10, at + 10);
    pair.put(at - 3, at + 3);
    pair.lookup(at - 1);
    pair.lookup(at);
    pair.erase(at - 1, at + 1);
    ASSERT_NO_FATAL_FAILURE(pair.compare());
  }
  pair.put(1, uint64_t{5} << 30);  // over all of them
  ASSERT_NO_FATAL_FAILURE(pair.compare());
  ASSERT_EQ(pair.size(), 5U);
}

// What begins where there is no tree goes on with the next one, and leaves those before it alone.
TEST(MappingTree, ErasesBehindATreeThatIsEmpty) {
  Pair pair(5, uint64_t{6} << 30);
  const auto tree = [](uint64_t number) { return number << 30; };
  pair.put(tree(1) + 7, tree(1) + 19);
  pair.put(tree(4) + 7, tree(4) + 19);
  pair.erase(tree(2) + 3, tree(4) + 11);
  ASSERT_NO_FATAL_FAILURE(pair.compare());
  ASSERT_EQ(pair.size(), 2U);
  pair.lookup(tree(1) + 7);
  pair.lookup(tree(4) + 11);
  pair.erase(tree(3), tree(4) + 7);
  ASSERT_EQ(pair.size(), 2U);
}

TEST(MappingTree, KeepsFullNodesWhenItGrowsAtItsEnd) {
  MappingTree tree;
  Client client;
  constexpr uint64_t kRanges = 31 * 31 * 20;
  for (uint64_t i = 0; i < kRanges; ++i) tree.put(2 * i, 2 * i + 1, {}, client);
  ASSERT_TRUE(tree.validate());
  // 640 bytes hold 31 ranges.
  const size_t full = tree.bytes();
  EXPECT_LT(full, kRanges * 23);
  // All nodes are spare then, each with its number.
  tree.erase(0, 2 * kRanges, client);
  EXPECT_EQ(tree.size(), 0U);
  EXPECT_GE(tree.bytes(), full + kRanges / 31 * sizeof(uint32_t));
}

TEST(MappingTree, ANodeBetweenFullOnesGoesWhenItIsEmpty) {
  // Each covers 31 leaves of 31 ranges: none of them has room for the children of another. So it
  // goes with its last child, in whatever order they go, and its memory serves the next one. In the
  // first tree and in another one, where the first one is a single leaf.
  constexpr uint64_t kNode = 31 * 31;
  constexpr uint64_t kNodes = 5;
  const auto check = [](uint64_t base, bool backwards, uint64_t gone) {
    Pair pair(6, base + 4'000'000);
    const auto put = [&](uint64_t from, uint64_t to) {
      for (uint64_t i = from; i < to; ++i) pair.put(base + 2 * i, base + 2 * i + 1);
    };
    const size_t others = base == 0 ? 0 : 1;
    if (base != 0) pair.put(1, 2);
    put(0, kNodes * kNode);
    const size_t full = pair.bytes();
    for (uint64_t leaf = 0; leaf < 31; ++leaf) {
      const uint64_t begin = base + 2 * (gone * kNode + (backwards ? 30 - leaf : leaf) * 31);
      pair.erase(begin, begin + 62);
      if (leaf >= 20) {
        ASSERT_NO_FATAL_FAILURE(pair.compare());
      }
    }
    ASSERT_EQ(pair.size(), (kNodes - 1) * kNode + others);
    for (uint64_t page = 0; page < 2 * kNodes * kNode; page += 7) pair.lookup(base + page);
    put(gone * kNode, (gone + 1) * kNode);
    ASSERT_NO_FATAL_FAILURE(pair.compare());
    ASSERT_EQ(pair.size(), kNodes * kNode + others);
    EXPECT_LT(pair.bytes(), full + full / 4);
  };
  for (const uint64_t base : {uint64_t{0}, uint64_t{3} << 30}) {
    for (const bool backwards : {false, true}) {
      for (uint64_t gone = 0; gone < kNodes; ++gone)
        ASSERT_NO_FATAL_FAILURE(check(base, backwards, gone));
    }
  }
}

TEST(MappingTree, NodesOfALaterTreeJoinUntilOneLeafIsLeft) {
  // Two levels above the leaves, in the fourth tree; the first one is a single leaf. Half of the
  // ranges go, and half of what is left, until there are three.
  constexpr uint64_t kBase = uint64_t{3} << 30, kRanges = 6 * 31 * 31;
  for (const bool backwards : {false, true}) {
    Pair pair(7, kBase + 4'000'000);
    pair.put(1, 2);
    for (uint64_t i = 0; i < kRanges; ++i) pair.put(kBase + 2 * i, kBase + 2 * i + 1);
    const auto erase_but = [&](uint64_t step) {
      for (uint64_t k = 0; k < kRanges; ++k) {
        const uint64_t i = backwards ? kRanges - 1 - k : k;
        if (i % step != 0 && i % (step / 2) == 0) pair.erase(kBase + 2 * i, kBase + 2 * i + 1);
      }
    };
    for (uint64_t step = 2; step < kRanges; step *= 2) {
      erase_but(step);
      ASSERT_NO_FATAL_FAILURE(pair.compare());
    }
    EXPECT_EQ(pair.size(), 1 + 2U);
    pair.erase(kBase, kBase + 4'000'000);
    ASSERT_NO_FATAL_FAILURE(pair.compare());
    EXPECT_EQ(pair.size(), 1U);
    pair.lookup(1);
  }
}

TEST(MappingTree, NodesThatWentServeOthers) {
  // Every other one of the nodes over leaves goes, among full ones that cannot take its leaves.
  // As many come anew behind all others.
  constexpr uint64_t kNodes = 200, kNode = 31 * 31;
  MappingTree tree;
  Client client;
  for (uint64_t i = 0; i < kNodes * kNode; ++i) tree.put(2 * i, 2 * i + 1, {}, client);
  for (uint64_t node = 1; node < kNodes; node += 2) {
    for (uint64_t leaf = 0; leaf < 31; ++leaf) {
      const uint64_t begin = 2 * (node * kNode + leaf * 31);
      tree.erase(begin, begin + 62, client);
    }
  }
  ASSERT_EQ(tree.size(), kNodes / 2 * kNode);
  const size_t before = tree.bytes();
  for (uint64_t i = kNodes * kNode; i < kNodes * kNode * 3 / 2; ++i)
    tree.put(2 * i, 2 * i + 1, {}, client);
  ASSERT_EQ(tree.size(), kNodes * kNode);
  ASSERT_TRUE(tree.validate());
  EXPECT_EQ(tree.bytes(), before);
}

TEST(MappingTree, FullLeavesShareWithTheirNeighboursBeforeTheySplit) {
  // Many small trees, of one level above the leaves, that grow away from their ends: a leaf that
  // splits alone would leave one half full behind each time.
  constexpr uint64_t kTrees = 40, kRanges = 300;
  for (const bool downwards : {true, false}) {
    MappingTree tree;
    Client client;
    for (uint64_t number = 0; number < kTrees; ++number) {
      // Upwards in front of one that is in the tree before.
      const uint64_t base = number << 30;
      if (!downwards) {
        for (uint64_t i = 0; i < 32; ++i)
          tree.put(base + 100'000 + 2 * i, base + 100'001 + 2 * i, {}, client);
      }
      for (uint64_t i = 0; i < kRanges; ++i) {
        const uint64_t page = base + 2 * (downwards ? kRanges - i : i);
        tree.put(page, page + 1, {}, client);
      }
    }
    ASSERT_TRUE(tree.validate());
    // 640 bytes hold 31 ranges; a half full leaf has 40 bytes for each.
    EXPECT_LT(tree.bytes(), tree.size() * 33) << downwards;
  }
}

TEST(MappingTree, ALeafJoinsTheNextOneWhereTheOneBeforeIsFull) {
  // Of three full leaves the last one shrinks, which finds no room beside it, and then the middle
  // one: the two become one, and what is free holds others.
  constexpr uint64_t kThrees = 600;
  MappingTree tree;
  Client client;
  constexpr uint64_t kRanges = kThrees * 3 * 31;
  for (uint64_t i = 0; i < kRanges; ++i) tree.put(2 * i, 2 * i + 1, {}, client);
  const size_t full = tree.bytes();
  for (const uint64_t leaf : {2U, 1U}) {
    for (uint64_t three = 0; three < kThrees; ++three) {
      const uint64_t begin = 2 * 31 * (3 * three + leaf);
      tree.erase(begin + 2 * 5, begin + 2 * 31, client);
    }
  }
  ASSERT_TRUE(tree.validate());
  ASSERT_EQ(tree.size(), kThrees * (31 + 5 + 5));
  for (uint64_t i = kRanges; i < kRanges + kThrees * 31; ++i)
    tree.put(2 * i, 2 * i + 1, {}, client);
  EXPECT_LT(tree.bytes(), full + full / 20);
}

}  // namespace
}  // namespace dxgkit::gpuva
