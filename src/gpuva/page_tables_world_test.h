// Random mappings, evictions and moves, planned, carried out in simulated table memory, and read
// back by a page walk: every page after every change, and what stands in between. For the model
// test and the fuzzer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "gpuva/table_memory_test.h"
#include "tests/support/choices.h"

namespace dxgkit::gpuva {

/// Of the whole space. Small ones are for fuzzers: every step looks at every page.
enum class SpaceSize : uint32_t { kSmall = 256, kLarge = 4096 };

/// The mapped pages, page by page.
class TaggedPages : public PieceSource {
 public:
  TaggedPages() = default;
  explicit TaggedPages(uint64_t count) : pages(count), frames(count) {}
  struct Page {
    uint64_t tag = 0;  // 0: nothing is mapped; pages of one mapping have the same
    PteSource::Kind kind = PteSource::Kind::kInvalid;
    SegmentId segment;
    uint64_t frame = 0;
    uint64_t driver_protection = 0;
    bool read_only = false;
    bool pages_64k = false;
    bool large_pages = false;
  };
  void pieces_in(PageSpan window, std::vector<Piece>* pieces) const override {
    for (uint64_t number = window.first_page; number < window.end_page();) {
      const Page& first = pages[number];
      uint64_t end = number + 1;
      while (end < window.end_page() && pages[end].tag == first.tag) ++end;
      if (first.tag != 0) {
        Piece piece{
            .span = {number, end - number},
            .source = {.kind = first.kind, .read_only = first.read_only, .segment = first.segment},
            .driver_protection = first.driver_protection,
            .allocation = AllocationId{first.tag},
            .pages_64k = first.pages_64k,
            .large_pages = first.large_pages};
        if (first.kind == PteSource::Kind::kRun || first.kind == PteSource::Kind::kSame)
          piece.source.first_page = first.frame;
        if (first.kind == PteSource::Kind::kFrames) piece.source.frames = &frames[number];
        pieces->push_back(piece);
      }
      number = end;
    }
  }
  std::optional<TableMemory::Translation> expected(uint64_t number) const {
    const Page& page = pages[number];
    if (page.tag == 0 || page.kind == PteSource::Kind::kInvalid) return std::nullopt;
    PteSource source{.kind = page.kind, .read_only = page.read_only, .segment = page.segment};
    Pte pte{source.flags(), page.frame};
    if (page.kind == PteSource::Kind::kZero) pte.page = 0;
    if (page.kind == PteSource::Kind::kFrames) pte.page = frames[number];
    return TableMemory::Translation{pte, page.driver_protection};
  }
  std::vector<Page> pages;
  std::vector<uint64_t> frames;
};

inline Geometry some_geometry(testing::Choices& random, SpaceSize size) {
  static const std::vector<std::vector<uint32_t>> kLarge = {
      {6, 6}, {5, 7}, {4, 3, 5}, {5, 2, 3, 2}, {6, 2, 2, 2}, {4, 1, 2, 2, 1, 2}};
  static const std::vector<std::vector<uint32_t>> kSmall = {
      {4, 4}, {5, 3}, {4, 2, 2}, {5, 1, 2}, {4, 1, 1, 2}, {4, 1, 1, 1, 1}};
  const auto& shapes = size == SpaceSize::kSmall ? kSmall : kLarge;
  const std::vector<uint32_t>& bits = shapes[random() % shapes.size()];
  Geometry geometry;
  geometry.level_count = static_cast<uint32_t>(bits.size());
  geometry.va_bits = size == SpaceSize::kSmall ? 20 : 24;
  for (size_t i = 0; i < bits.size(); ++i)
    geometry.levels[i] = {.index_bits = bits[i], .table_bytes = 4096, .alignment_bytes = 4096};
  if (geometry.root_grows()) geometry.levels[1].index_bits = static_cast<uint32_t>(random() % 3);
  if (random() % 2 == 0) geometry.leaf_table_bytes_64k = 4096;
  geometry.dual_ptes = random() % 2 == 0;
  geometry.large_pages = random() % 2 == 0;
  geometry.unaligned_large_pages = random() % 4 == 0;
  geometry.system_64k_pages = random() % 2 == 0;
  geometry.explicit_invalidation = random() % 2 == 0;
  geometry.idle_for_updates = random() % 4 == 0;
  geometry.invalid_entries_not_cached = random() % 2 == 0;
  geometry.read_only = geometry.zero = true;
  return geometry;
}

class PageTablesWorld {
 public:
  explicit PageTablesWorld(testing::Choices choices, SpaceSize size = SpaceSize::kLarge)
      : random_(choices),
        space_pages_(static_cast<uint64_t>(size)),
        geometry_(some_geometry(random_, size)),
        memory_(geometry_),
        tables_(geometry_),
        pages_(space_pages_) {}

  void step() {
    before_ = pages_.pages;
    before_frames_ = pages_.frames;
    std::vector<PageSpan> changed;
    const uint64_t changes = 1 + below(3);
    for (uint64_t i = 0; i < changes; ++i) change(&changed);
    PageTables::Draft draft = tables_.draft(changed, pages_);
    if (below(8) == 0) draft = tables_.draft(changed, pages_);
    const auto grants = memory_.allocate(draft.needs(), below(3));
    Plan plan;
    tables_.commit(std::move(draft), grants, &plan);
    ASSERT_TRUE(plan.contexts_idle || plan.steps.empty() || !geometry_.idle_for_updates);
    // Contexts run meanwhile unless they are told to be idle.
    memory_.after_step = nullptr;
    if (!plan.contexts_idle) memory_.after_step = [this] { check_between(); };
    ASSERT_NO_FATAL_FAILURE(memory_.execute(plan));
    ASSERT_NO_FATAL_FAILURE(compare());
  }
  void end() {
    // Without tables there is nothing a device could have been told of.
    if (memory_.size() == 0) memory_.tlb.clear();
    Plan plan;
    tables_.destroy(&plan);
    memory_.after_step = nullptr;
    memory_.execute(plan);
    ASSERT_EQ(memory_.size(), 0U);
    ASSERT_TRUE(memory_.tlb.empty());
  }

  /// No decision is left of the fuzzer's input.
  bool exhausted() const { return random_.exhausted(); }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }

  void change(std::vector<PageSpan>* changed) {
    const uint64_t leaf = geometry_.leaf_pages();
    PageSpan span{below(space_pages_), 1 + below(20)};
    if (below(3) == 0) span = {below(space_pages_ / 16) * 16, (1 + below(12)) * 16};
    if (below(4) == 0) span = {below(space_pages_ / leaf) * leaf, (1 + below(3)) * leaf};
    if (below(60) == 0) span = {0, space_pages_};
    span.pages = std::min(span.pages, space_pages_ - span.first_page);
    changed->push_back(span);
    switch (below(6)) {
      case 0:
      case 1:  // unmapped
        for (uint64_t i = 0; i < span.pages; ++i) pages_.pages[span.first_page + i] = {};
        return;
      case 2: {  // what the first page belongs to is evicted, or comes back elsewhere
        const uint64_t tag = pages_.pages[span.first_page].tag;
        if (tag == 0) return;
        const TaggedPages::Page page = some_page(tag);
        for (uint64_t number = 0; number < space_pages_; ++number) {
          if (pages_.pages[number].tag != tag) continue;
          const TaggedPages::Page old = pages_.pages[number];
          pages_.pages[number] = page;
          pages_.pages[number].driver_protection = old.driver_protection;
          if (page.kind == PteSource::Kind::kRun) pages_.pages[number].frame += number;
          pages_.frames[number] = 1'000'000 + below(100'000);
          changed->push_back({number, 1});
        }
        return;
      }
      default: {
        TaggedPages::Page page = some_page(++last_tag_);
        page.driver_protection = below(4) == 0 ? below(5) : 0;
        for (uint64_t i = 0; i < span.pages; ++i) {
          const uint64_t number = span.first_page + i;
          pages_.pages[number] = page;
          if (page.kind == PteSource::Kind::kRun) pages_.pages[number].frame += number;
          pages_.frames[number] = 1'000'000 + below(100'000);
        }
      }
    }
  }
  TaggedPages::Page some_page(uint64_t tag) {
    TaggedPages::Page page;
    page.tag = tag;
    const uint64_t kind = below(10);
    page.kind = kind < 6   ? PteSource::Kind::kRun
                : kind < 7 ? PteSource::Kind::kFrames
                : kind < 8 ? PteSource::Kind::kZero
                : kind < 9 ? PteSource::Kind::kSame
                           : PteSource::Kind::kInvalid;
    page.segment = SegmentId{static_cast<uint32_t>(below(3))};
    if (page.kind == PteSource::Kind::kZero) page.segment = kSystemMemory;
    page.read_only = below(3) == 0;
    // A run: page number plus this. Often equal modulo what pages want.
    page.frame = below(1000) * (below(3) == 0 ? 1 : below(2) == 0 ? 16 : 64);
    page.pages_64k = below(3) != 0;
    page.large_pages = below(2) == 0;
    return page;
  }

  void compare() {
    ASSERT_TRUE(tables_.validate());
    ASSERT_EQ(memory_.size(), tables_.table_count());
    ASSERT_EQ(memory_.root(), tables_.root());
    for (uint64_t page = 0; page < space_pages_; ++page)
      ASSERT_TRUE(same(memory_.walk(page), pages_.expected(page))) << "page " << page;
    // Translations that devices cached are still right (PAGE-37).
    for (const auto& [page, kept] : memory_.tlb)
      ASSERT_EQ(kept, memory_.walk(page)) << "stale translation of page " << page;
    for (uint64_t i = 0; i < 40; ++i) {
      const uint64_t page = below(space_pages_);
      const auto found = memory_.walk(page);
      if (found.has_value() || !geometry_.invalid_entries_not_cached) memory_.tlb[page] = found;
    }
  }
  /// Large pages have no driver protection; the planner does not use them for such ranges.
  static bool same(const std::optional<TableMemory::Translation>& a,
                   const std::optional<TableMemory::Translation>& b) {
    return a == b;
  }
  /// Between two steps a page is what it was, what it will be, or nothing.
  void check_between() {
    TaggedPages old;
    old.pages.swap(before_);
    old.frames.swap(before_frames_);
    for (uint64_t i = 0; i < 16; ++i) {
      const uint64_t page = below(space_pages_);
      const auto found = memory_.walk(page);
      if (!found.has_value()) continue;
      EXPECT_TRUE(found == old.expected(page) || found == pages_.expected(page)) << "page " << page;
    }
    old.pages.swap(before_);
    old.frames.swap(before_frames_);
  }

  testing::Choices random_;
  const uint64_t space_pages_;
  Geometry geometry_;
  TableMemory memory_;
  PageTables tables_;
  TaggedPages pages_;
  std::vector<TaggedPages::Page> before_;
  std::vector<uint64_t> before_frames_;
  uint64_t last_tag_ = 0;
};

}  // namespace dxgkit::gpuva
