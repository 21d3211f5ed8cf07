// The mapped layer of an address space beside a std::map of the same ranges: large enough for nodes
// of all levels of its trees to split, share, join and go, and over several trees.
#include <map>
#include <random>

#include "gpuva/address_space_test.h"

namespace dxgkit::gpuva {
namespace {

constexpr uint64_t kTreePages = uint64_t{1} << 30;  // pages of one tree: 4 TiB

AllocationId allocation(uint64_t number, uint64_t slot) {
  return AllocationId{number << kIdSlotBits | slot};
}
// Slots far apart, and not in order of their numbers.
const AllocationId kSome[] = {allocation(1, 70'000), allocation(2, 3), allocation(3, 130),
                              allocation(4, 128)};

bool follows(const Mapping& a, const Mapping& b) {
  return a.span.end_page() == b.span.first_page && a.allocation == b.allocation &&
         a.offset_pages + a.span.pages == b.offset_pages && a.protection == b.protection &&
         a.driver_protection == b.driver_protection;
}
/// Adds what comes next; one with the last if it continues that.
void append(std::vector<Mapping>* list, const Mapping& mapping) {
  if (!list->empty() && follows(list->back(), mapping)) {
    list->back().span.pages += mapping.span.pages;
  } else {
    list->push_back(mapping);
  }
}

class Layers {
 public:
  Layers(uint64_t seed, uint64_t pages)
      : random_(seed), pages_(pages), space_({.end = pages * kPage}) {}

  uint64_t below(uint64_t limit) { return random_() % limit; }
  AddressSpace& space() { return space_; }

  void put(uint64_t begin, uint64_t end) {
    Mapping mapping{.span = {begin, end - begin},
                    .allocation = kSome[below(4)],
                    .offset_pages = below(2) == 0 ? begin : below(1000),
                    .protection = {.write = below(3) == 0},
                    .driver_protection = below(4)};
    carve(mapping.span);
    ranges_[begin] = mapping;
    PageSpans changed;
    space_.apply({.mapping = mapping, .sequence = 1}, &changed);
    ASSERT_EQ(changed, (PageSpans{mapping.span}));
  }
  void erase(uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    const PageSpan span{begin, end - begin};
    PageSpans gone = carve(span);
    PageSpans changed;
    space_.apply({.mapping = {.span = span, .protection = {.no_access = true}}, .sequence = 1},
                 &changed);
    ASSERT_EQ(changed, gone);
  }
  /// The mappings that meet a window, from the space and from the model.
  void compare(PageSpan window) {
    std::vector<Mapping> said, right;
    space_.for_each_in(window, [&](const Mapping& mapping) { append(&said, mapping); });
    auto range = ranges_.upper_bound(window.first_page);
    if (range != ranges_.begin()) --range;
    for (; range != ranges_.end() && range->first < window.end_page(); ++range) {
      if (range->second.span.end_page() > window.first_page)
        append(&right, clipped(range->second, window));
    }
    ASSERT_EQ(said, right);
    const auto here = space_.lookup(window.address());
    const bool mapped = !right.empty() && right[0].span.first_page == window.first_page;
    ASSERT_EQ(here.has_value(), mapped);
    if (!mapped) return;
    ASSERT_EQ(here->allocation, right[0].allocation);
    ASSERT_EQ(here->allocation_page(window.first_page - here->span.first_page),
              right[0].offset_pages);
  }
  void compare_some() {
    const uint64_t first = below(pages_);
    compare({first, 1 + below(std::min<uint64_t>(pages_ - first, 500))});
  }
  void compare_all() {
    ASSERT_TRUE(space_.validate());
    ASSERT_NO_FATAL_FAILURE(compare({0, pages_}));
    std::map<AllocationId, std::vector<Mapping>> of;
    size_t count = 0;
    space_.for_each_in({0, pages_}, [&](const Mapping& mapping) {
      of[mapping.allocation].push_back(mapping);
      ++count;
    });
    ASSERT_EQ(space_.mapped_ranges(), count);
    for (const AllocationId id : kSome) {
      std::vector<Mapping> mappings;
      space_.mappings_of(id, &mappings);
      ASSERT_EQ(mappings, of[id]);
      ASSERT_EQ(space_.mapping_count(id), mappings.size());
    }
  }
  void grow_and_shrink(uint64_t ranges, uint64_t longest) {
    for (uint64_t round = 0; round < 2; ++round) {
      for (uint64_t i = 0; i < ranges; ++i) {
        const uint64_t begin = below(pages_ - longest);
        ASSERT_NO_FATAL_FAILURE(put(begin, begin + 1 + below(longest)));
        if (i % 4 == 0) {
          ASSERT_NO_FATAL_FAILURE(compare_some());
        }
      }
      ASSERT_NO_FATAL_FAILURE(compare_all());
      // Wide stretches that empty whole nodes, then many small ones.
      for (uint64_t i = 0; i < 12; ++i) {
        const uint64_t begin = below(pages_);
        ASSERT_NO_FATAL_FAILURE(erase(begin, std::min(pages_, begin + below(pages_ / 30))));
        ASSERT_NO_FATAL_FAILURE(compare_some());
      }
      ASSERT_NO_FATAL_FAILURE(compare_all());
      for (uint64_t from = 0; from < pages_; from += pages_ / 800 + 1) {
        ASSERT_NO_FATAL_FAILURE(erase(from, std::min(pages_, from + below(pages_ / 1000))));
        ASSERT_NO_FATAL_FAILURE(compare_some());
      }
      ASSERT_NO_FATAL_FAILURE(compare_all());
      ASSERT_NO_FATAL_FAILURE(erase(round, pages_));
      ASSERT_NO_FATAL_FAILURE(compare_all());
    }
  }

 private:
  /// Takes a span out of the ranges; returns what it had of them, joined.
  PageSpans carve(PageSpan span) {
    PageSpans gone;
    auto range = ranges_.lower_bound(span.first_page);
    if (range != ranges_.begin() && std::prev(range)->second.span.end_page() > span.first_page)
      --range;
    while (range != ranges_.end() && range->first < span.end_page()) {
      const Mapping old = range->second;
      range = ranges_.erase(range);
      const PageSpan cut = clipped(old, span).span;
      if (!gone.empty() && gone.back().end_page() == cut.first_page) {
        gone.back().pages += cut.pages;
      } else {
        gone.push_back(cut);
      }
      if (old.span.first_page < span.first_page)
        ranges_[old.span.first_page] =
            clipped(old, {old.span.first_page, span.first_page - old.span.first_page});
      if (old.span.end_page() > span.end_page())
        ranges_[span.end_page()] =
            clipped(old, {span.end_page(), old.span.end_page() - span.end_page()});
    }
    return gone;
  }

  std::mt19937_64 random_;
  uint64_t pages_;
  AddressSpace space_;
  std::map<uint64_t, Mapping> ranges_;  // what was mapped, as it was
};

TEST(AddressSpaceTree, AgreesWithAMapOfRangesWhileItGrowsAndShrinks) {
  Layers layers(3, 900'000);
  layers.grow_and_shrink(12'000, 60);
}

TEST(AddressSpaceTree, SpreadsOverSeveralTreesOfFourTebibytes) {
  Layers layers(4, 5 * kTreePages);
  layers.grow_and_shrink(2'000, uint64_t{1} << 21);
  ASSERT_FALSE(::testing::Test::HasFatalFailure());
  for (uint64_t border = 1; border < 5; ++border) {
    const uint64_t at = border * kTreePages;
    layers.put(at - 10, at + 10);
    layers.put(at - 3, at + 3);
    layers.compare({at - 12, 24});
    layers.compare({at, 1});
    layers.erase(at - 1, at + 1);
    ASSERT_NO_FATAL_FAILURE(layers.compare_all());
  }
  // Trees in the middle stay empty.
  layers.erase(2, 4 * kTreePages - 20);
  ASSERT_NO_FATAL_FAILURE(layers.compare_all());
  layers.erase(kTreePages + 5, 4 * kTreePages - 5);
  layers.put(1, 5 * kTreePages);  // over all of them
  ASSERT_NO_FATAL_FAILURE(layers.compare_all());
}

TEST(AddressSpaceTree, WhatIsFirstMayGoAndComeBack) {
  // Ranges that come in order fill nodes of 31: three levels of nodes over the leaves. The lowest
  // of each level go, one after the other, and what comes below those that are left finds its
  // place.
  constexpr uint64_t kRanges = 31 * 31 * 34;
  for (const uint64_t gone : {31 * 31, 31 * 31 * 3 + 40}) {
    Layers layers(gone, 4 * kRanges);
    for (uint64_t i = 0; i < kRanges; ++i) layers.put(4 * i, 4 * i + 2);
    layers.erase(0, 4 * gone - 1);
    ASSERT_NO_FATAL_FAILURE(layers.compare({0, 8 * gone}));
    for (uint64_t i = 0; i < 120; ++i) {
      layers.put(4 * (120 - i) + 1, 4 * (120 - i) + 2);
      ASSERT_NO_FATAL_FAILURE(layers.compare({4 * (120 - i), 4}));
    }
    for (uint64_t i = gone > 200 ? gone - 200 : 0; i < gone; ++i) layers.put(4 * i, 4 * i + 3);
    ASSERT_NO_FATAL_FAILURE(layers.compare_all());
  }
}

TEST(AddressSpaceTree, MemoryOfWhatWentIsUsedAgain) {
  // The same comes and goes: nothing is used twice as much. Then three quarters of all ranges go
  // in no order: what is left joins, so that others have room in the memory they had.
  constexpr uint64_t kRanges = 20'000;
  std::vector<uint64_t> order(kRanges);
  for (uint64_t i = 0; i < kRanges; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(5));
  AddressSpace space({.end = kEnd});
  const auto apply = [&](uint64_t page, bool maps) {
    Mapping mapping{.span = {page, 1}, .protection = {.zero = true}};
    if (!maps) mapping.protection = {.no_access = true};
    space.apply({.mapping = mapping, .sequence = 1}, nullptr);
  };
  size_t full = 0;
  for (int round = 0; round < 3; ++round) {
    for (const uint64_t i : order) apply(2 * i, true);
    if (round == 0) full = space.bytes();
    // 20 bytes for each, over the fill of nodes.
    EXPECT_LT(space.bytes() / kRanges, 30U);
    if (round == 2) break;
    for (const uint64_t i : order) apply(2 * i, false);
    EXPECT_EQ(space.mapped_ranges(), 0U);
  }
  EXPECT_LT(space.bytes(), full + full / 20);
  // All at once, so that nodes become empty.
  for (int round = 0; round < 3; ++round) {
    space.apply(
        {.mapping = {.span = {0, 2 * kRanges}, .protection = {.no_access = true}}, .sequence = 1},
        nullptr);
    EXPECT_EQ(space.mapped_ranges(), 0U);
    // The numbers of the nodes that may be used again are counted too.
    EXPECT_GE(space.bytes(), full + kRanges / 31 * sizeof(uint32_t) / 2);
    for (const uint64_t i : order) apply(2 * i, true);
  }
  EXPECT_LT(space.bytes(), full + full / 20);
  for (uint64_t k = 0; k < kRanges / 4 * 3; ++k) apply(2 * order[k], false);
  EXPECT_TRUE(space.validate());
  for (uint64_t i = 0; i < kRanges / 2; ++i) apply(4 * kRanges + 2 * i, true);
  EXPECT_LT(space.bytes(), full + full / 20);
  EXPECT_TRUE(space.validate());
}

TEST(AddressSpaceTree, LargeOnesAreNotFromTheHeap) {
  // Nodes beyond 8 MiB come in large pages of 2 MiB, and are counted separately.
  constexpr size_t kLarge = size_t{2} << 20;
  constexpr uint64_t kRanges = 31 * 31 * 600;
  AddressSpace space({.end = kEnd});
  size_t small_most = 0;
  for (uint64_t i = 0; i < kRanges; ++i) {
    space.apply({.mapping = {.span = {2 * i, 1}, .protection = {.zero = true}}, .sequence = 1},
                nullptr);
    if (space.outside_heap() == 0) small_most = space.bytes();
  }
  const size_t nodes = (kRanges / 31 + kRanges / 31 / 31) * 640;
  EXPECT_GE(small_most, size_t{8} << 20);
  EXPECT_LT(small_most, (size_t{8} << 20) + (size_t{2} << 20));
  EXPECT_EQ(space.outside_heap() % kLarge, 0U);
  EXPECT_GE(space.outside_heap(), 2 * kLarge);
  EXPECT_GE(space.bytes(), nodes);
  EXPECT_LT(space.bytes(), nodes + kLarge + (size_t{1} << 20));
  EXPECT_LT(space.bytes() - space.outside_heap(), small_most + 65536);
  EXPECT_GE(space.bytes() - space.outside_heap(), small_most - 65536);
}

}  // namespace
}  // namespace dxgkit::gpuva
