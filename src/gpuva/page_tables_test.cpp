// Shapes of page tables that are refused, and the steps of single plans: what comes before what.
#include "gpuva/page_tables.h"

#include <gtest/gtest.h>

#include <string>

#include "gpuva/table_memory_test.h"
#include "tests/support/covers.h"

namespace dxgkit::gpuva {
namespace {

Geometry four_levels() {
  Geometry geometry;
  geometry.level_count = 4;
  geometry.va_bits = 48;
  for (uint32_t level = 0; level < 4; ++level)
    geometry.levels[level] = {.index_bits = 9, .table_bytes = 4096, .alignment_bytes = 4096};
  geometry.invalid_entries_not_cached = true;
  return geometry;
}
Geometry two_levels() {
  Geometry geometry = four_levels();
  geometry.level_count = 2;
  geometry.va_bits = 40;
  geometry.levels[1] = {.index_bits = 0, .table_bytes = 0, .alignment_bytes = 4096};
  return geometry;
}

TEST(Geometry, AValidOneAndEachWayToBreakIt) {
  DXGKIT_COVERS("VA-02", "VA-03");
  constexpr uint32_t kLocal = 1U << 1;  // segment 2 is local memory
  EXPECT_FALSE(check_geometry(four_levels(), kLocal, 3).has_value());
  EXPECT_FALSE(check_geometry(two_levels(), kLocal, 3).has_value());
  const auto refused = [&](const char* rule, const char* word, auto change) {
    Geometry geometry = four_levels();
    change(geometry);
    const auto fault = check_geometry(geometry, kLocal, 3);
    ASSERT_TRUE(fault.has_value()) << word;
    EXPECT_EQ(fault->rule, std::string(rule)) << fault->what;
    EXPECT_NE(fault->what.find(word), std::string::npos) << fault->what;
  };
  refused("VA-02", "PageTableLevelCount is 1", [](Geometry& g) { g.level_count = 1; });
  refused("VA-02", "PageTableLevelCount is 7", [](Geometry& g) { g.level_count = 7; });
  refused("VA-02", "VirtualAddressBitCount is 64", [](Geometry& g) { g.va_bits = 64; });
  refused("VA-02", "VirtualAddressBitCount is 0", [](Geometry& g) { g.va_bits = 0; });
  refused("VA-02", "take 48 bits", [](Geometry& g) { g.va_bits = 49; });
  refused("VA-02", "take 47 bits", [](Geometry& g) { g.levels[2].index_bits = 8; });
  refused("VA-02", "level 1: PageTableIndexBitCount is 0",
          [](Geometry& g) { g.levels[1].index_bits = 0; });
  refused("VA-02", "level 0: PageTableIndexBitCount is 40",
          [](Geometry& g) { g.levels[0].index_bits = 40; });
  refused("VA-03", "level 3: PageTableSizeInBytes is 4097",
          [](Geometry& g) { g.levels[3].table_bytes = 4097; });
  refused("VA-03", "level 3: PageTableSizeInBytes is 0",
          [](Geometry& g) { g.levels[3].table_bytes = 0; });
  refused("VA-03", "not a power of two", [](Geometry& g) { g.levels[0].alignment_bytes = 12288; });
  refused("VA-03", "segment 4 of 3", [](Geometry& g) { g.levels[0].segment = SegmentId{4}; });
  refused("VA-03", "8192 bytes in system memory",
          [](Geometry& g) { g.levels[0].table_bytes = 8192; });
  refused("VA-03", "LeafPageTableSizeFor64KPagesInBytes is 100",
          [](Geometry& g) { g.leaf_table_bytes_64k = 100; });
  refused("VA-03", "by CPU address but live in local memory segment 2", [](Geometry& g) {
    g.update_mode = UpdateMode::kCpuVirtual;
    g.levels[0].segment = SegmentId{2};
  });
  Geometry elsewhere = four_levels();
  elsewhere.update_mode = UpdateMode::kCpuVirtual;
  elsewhere.levels[0].segment = SegmentId{1};
  EXPECT_FALSE(check_geometry(elsewhere, kLocal, 3).has_value());
  Geometry narrow = two_levels();
  narrow.va_bits = 21;
  EXPECT_TRUE(check_geometry(narrow, kLocal, 3).has_value());
}

/// Pieces by hand.
class Pieces : public PieceSource {
 public:
  void pieces_in(PageSpan window, std::vector<Piece>* pieces) const override {
    for (const Piece& piece : all) {
      const uint64_t first = std::max(piece.span.first_page, window.first_page);
      const uint64_t end = std::min(piece.span.end_page(), window.end_page());
      if (first >= end) continue;
      Piece part = piece;
      part.span = {first, end - first};
      part.source = piece.source.after(first - piece.span.first_page);
      part.offset_pages += first - piece.span.first_page;
      pieces->push_back(part);
    }
  }
  std::vector<Piece> all;
};

class PageTablesTest : public ::testing::Test {
 protected:
  void use(const Geometry& geometry) {
    tables_ = std::make_unique<PageTables>(geometry);
    memory_ = std::make_unique<TableMemory>(geometry);
  }
  static PteSource run(uint64_t first, uint32_t segment = 1) {
    return {.kind = PteSource::Kind::kRun, .segment = SegmentId{segment}, .first_page = first};
  }
  /// Plans and carries out; the plan as text, one word per step.
  std::string update(std::vector<PageSpan> changed, uint64_t spare_root = 0) {
    PageTables::Draft draft = tables_->draft(changed, pieces_);
    needs_ = draft.needs();
    plan_.clear();
    tables_->commit(std::move(draft), memory_->allocate(needs_, spare_root), &plan_);
    memory_->execute(plan_);
    EXPECT_TRUE(tables_->validate());
    return text();
  }
  std::string text() const {
    std::string text;
    for (const Step& step : plan_.steps) {
      if (!text.empty()) text += " ";
      switch (step.kind) {
        case Step::Kind::kInvalidate:
          text += step.initial ? "init" : "invalidate";
          break;
        case Step::Kind::kWriteEntries:
          text += step.large_page ? "large" : step.source.valid() ? "write" : "clear";
          break;
        case Step::Kind::kWriteDirectory:
          text += plan_.children[step.first_child].table == kNoTable &&
                          plan_.children[step.first_child].table_64k == kNoTable
                      ? "cut"
                      : "link";
          break;
        case Step::Kind::kSetRoot:
          text += "root";
          break;
        case Step::Kind::kFlush:
          text += "flush";
          break;
        case Step::Kind::kFree:
          text += "free";
          break;
      }
      if (step.kind != Step::Kind::kFlush) text += std::to_string(step.level);
      if (step.of_64k_pages) text += "k";
    }
    return text;
  }

  std::unique_ptr<PageTables> tables_;
  std::unique_ptr<TableMemory> memory_;
  Pieces pieces_;
  Plan plan_;
  std::vector<TableNeed> needs_;
};

TEST_F(PageTablesTest, NewTablesAreInvalidThenFilledThenLinkedFromTheLeafUp) {
  DXGKIT_COVERS("PAGE-33", "PAGE-34", "PAGE-35", "VA-45", "VA-23");
  use(four_levels());
  pieces_.all = {{.span = {513, 4},
                  .source = run(0x800),
                  .driver_protection = 9,
                  .allocation = AllocationId{5},
                  .offset_pages = 3}};
  EXPECT_EQ(update({{513, 4}}), "init3 init2 init1 init0 write0 link1 link2 link3 root3");
  EXPECT_EQ(needs_.size(), 4U);
  EXPECT_TRUE(plan_.contexts_idle);  // the root is new
  const Step& write = plan_.steps[4];
  EXPECT_EQ(write.start_index, 1U);
  EXPECT_EQ(write.count, 4U);
  EXPECT_EQ(write.driver_protection, 9U);
  EXPECT_EQ(write.offset_pages, 3U);
  EXPECT_FALSE(write.repeat);
  std::array<Pte, 2> ptes;
  fill_step(write, 1, ptes, 512);
  EXPECT_EQ(ptes[0], (Pte{kPteValid | uint64_t{1} << 5, 0x801}));
  EXPECT_EQ(ptes[1], (Pte{kPteValid | uint64_t{1} << 5, 0x802}));
  for (const Step& step : plan_.steps) EXPECT_TRUE(step.level == 0 || step.driver_protection == 0);
  // The next ones in the same leaf: entries and nothing else, no flush from invalid to valid.
  pieces_.all.push_back({.span = {600, 1}, .source = {.kind = PteSource::Kind::kZero}});
  EXPECT_EQ(update({{600, 1}}), "write0");
  EXPECT_TRUE(plan_.steps[0].repeat);
  EXPECT_FALSE(plan_.contexts_idle);
}

TEST_F(PageTablesTest, AChangedValidEntryIsFlushed) {
  DXGKIT_COVERS("PAGE-37", "PAGE-38", "VA-29");
  use(four_levels());
  pieces_.all = {{.span = {513, 4}, .source = run(0x800)}};
  update({{513, 4}});
  pieces_.all[0].source = run(0x900);  // moved
  EXPECT_EQ(update({{513, 4}}), "write0 flush");
  EXPECT_EQ(plan_.steps[1].span, (PageSpan{513, 4}));
  pieces_.all[0].source = {};  // evicted: the tables stay, coming back needs nothing
  EXPECT_EQ(update({{513, 4}}), "clear0 flush");
  EXPECT_TRUE(needs_.empty());
  EXPECT_EQ(update({{513, 4}}), "");
  pieces_.all[0].source = run(0x700);
  EXPECT_EQ(update({{513, 4}}), "write0");
  EXPECT_TRUE(needs_.empty());
  // A device that remembers invalid entries.
  Geometry geometry = four_levels();
  geometry.invalid_entries_not_cached = false;
  geometry.idle_for_updates = true;
  use(geometry);
  update({{513, 4}});
  EXPECT_EQ(plan_.steps.back().kind, Step::Kind::kFlush);
  pieces_.all.push_back({.span = {520, 1}, .source = run(5)});
  EXPECT_EQ(update({{520, 1}}), "write0 flush");
  EXPECT_TRUE(plan_.contexts_idle);
}

TEST_F(PageTablesTest, TablesGoWhenNothingIsMappedInThem) {
  DXGKIT_COVERS("PAGE-39");
  for (const bool explicit_invalidation : {false, true}) {
    Geometry geometry = four_levels();
    geometry.explicit_invalidation = explicit_invalidation;
    use(geometry);
    pieces_.all = {{.span = {513, 4}, .source = run(1)}, {.span = {1 << 20, 4}, .source = run(9)}};
    update({{513, 4}, {1 << 20, 4}});
    const size_t before = tables_->table_count();
    pieces_.all.erase(pieces_.all.begin() + 1);
    EXPECT_EQ(update({{1 << 20, 4}}), explicit_invalidation
                                          ? "cut2 invalidate0 invalidate1 flush free0 free1"
                                          : "cut2 flush free0 free1");
    EXPECT_EQ(tables_->table_count(), before - 2);
    EXPECT_EQ(memory_->size(), tables_->table_count());
  }
}

TEST_F(PageTablesTest, ATableStaysWhileSomethingEvictedIsMappedInIt) {
  DXGKIT_COVERS("VA-29");
  use(four_levels());
  pieces_.all = {{.span = {513, 4}, .source = run(1)}, {.span = {600, 4}, .source = run(9)}};
  update({{513, 4}, {600, 4}});
  pieces_.all[0].source = {};
  EXPECT_EQ(update({{513, 4}}), "clear0 flush");
  pieces_.all.pop_back();
  EXPECT_EQ(update({{600, 4}}), "clear0 flush");
  EXPECT_EQ(tables_->table_count(), 4U);
  pieces_.all.clear();
  EXPECT_EQ(update({{513, 4}}), "cut3 flush free0 free1 free2");
}

TEST_F(PageTablesTest, ARootOfTwoLevelsGrowsByAnother) {
  DXGKIT_COVERS("VA-05", "VA-06");
  use(two_levels());
  pieces_.all = {{.span = {3 * 512, 4}, .source = run(1)}};
  EXPECT_EQ(update({{3 * 512, 4}}), "init1 init0 write0 link1 root1");
  ASSERT_TRUE(needs_[0].grows_root);
  EXPECT_EQ(needs_[0].entries, 4U);
  const TableId first = tables_->root();
  EXPECT_FALSE(memory_->walk(9 * 512).has_value());  // an index past its entries
  pieces_.all.push_back({.span = {9 * 512, 1}, .source = run(50)});
  EXPECT_EQ(update({{9 * 512, 1}}, 6), "init1 init0 write0 link1 link1 root1 free1");
  EXPECT_EQ(needs_[0].entries, 10U);
  EXPECT_EQ(tables_->root_entries(), 16U);  // the driver gave more
  EXPECT_NE(tables_->root(), first);
  EXPECT_TRUE(plan_.contexts_idle);
  EXPECT_EQ(memory_->walk(3 * 512 + 1)->pte.page, 2U);
  EXPECT_EQ(memory_->walk(9 * 512)->pte.page, 50U);
  pieces_.all.push_back({.span = {15 * 512, 1}, .source = run(60)});
  EXPECT_EQ(update({{15 * 512, 1}}), "init0 write0 link1");
}

TEST_F(PageTablesTest, ARootIsMadeForASpaceThatMapsNothing) {
  DXGKIT_COVERS("VA-05", "VA-06");
  for (const Geometry& geometry : {two_levels(), four_levels()}) {
    use(geometry);
    for (const bool again : {false, true}) {
      PageTables::Draft draft = tables_->draft({}, pieces_, true);
      EXPECT_EQ(draft.needs().size(), again ? 0U : 1U);
      plan_.clear();
      const std::vector<TableNeed> needs = draft.needs();
      tables_->commit(std::move(draft), memory_->allocate(needs), &plan_);
      memory_->execute(plan_);
      const std::string level = std::to_string(geometry.root_level());
      EXPECT_EQ(text(), again ? "" : "init" + level + " root" + level);
      EXPECT_FALSE(memory_->walk(0).has_value());
    }
    EXPECT_EQ(tables_->table_count(), 1U);
  }
}

TEST_F(PageTablesTest, SixtyFourKibPagesFallBackForGood) {
  DXGKIT_COVERS("VA-43", "VA-44");
  Geometry geometry = four_levels();
  geometry.leaf_table_bytes_64k = 4096;
  use(geometry);
  Piece big{.span = {512, 64}, .source = run(160), .pages_64k = true};
  pieces_.all = {big};
  EXPECT_EQ(update({big.span}), "init3 init2 init1 init0k write0k link1 link2 link3 root3");
  EXPECT_TRUE(plan_.children[plan_.steps[5].first_child].of_64k_pages);
  // One page that is none: contexts idle, the leaf anew, then the entry that leads to it.
  pieces_.all.push_back({.span = {700, 1}, .source = run(7)});
  EXPECT_EQ(update({{700, 1}}), "invalidate0 write0 write0 link1 flush");
  EXPECT_TRUE(plan_.contexts_idle);
  EXPECT_FALSE(plan_.children[plan_.steps[3].first_child].of_64k_pages);
  pieces_.all.pop_back();
  EXPECT_EQ(update({{700, 1}}), "clear0 flush");
  // Misfits from the beginning: address and place differ modulo 64 KiB, or it is no such segment.
  for (const bool marked : {false, true}) {
    use(geometry);
    big.source = run(marked ? 161 : 160);
    big.pages_64k = marked;
    pieces_.all = {big};
    EXPECT_EQ(update({big.span}), "init3 init2 init1 init0 write0 link1 link2 link3 root3");
  }
}

TEST_F(PageTablesTest, DualEntriesSplitARangeOverTwoTables) {
  DXGKIT_COVERS("VA-44");
  Geometry geometry = four_levels();
  geometry.leaf_table_bytes_64k = 4096;
  geometry.dual_ptes = true;
  use(geometry);
  //  |--4 KiB--|====64 KiB====|--4 KiB--|
  //  520      528            544       550
  pieces_.all = {{.span = {520, 30}, .source = run(168), .pages_64k = true}};
  EXPECT_EQ(update({{520, 30}}),
            "init3 init2 init1 init0 init0k write0 write0k write0 link1 link2 link3 root3");
  EXPECT_FALSE(plan_.contexts_idle && memory_->size() == 0);
  // The 64 KiB page gives way to a small one: first it goes, then its rest comes in 4 KiB.
  pieces_.all = {{.span = {520, 10}, .source = run(168), .pages_64k = true},
                 {.span = {530, 1}, .source = run(5)},
                 {.span = {531, 19}, .source = run(179), .pages_64k = true}};
  EXPECT_EQ(update({{530, 1}}), "clear0k write0 write0 write0 flush");
  for (uint64_t page = 520; page < 550; ++page)
    EXPECT_EQ(memory_->walk(page)->pte.page, page == 530 ? 5 : page - 352);
}

TEST_F(PageTablesTest, LargePagesAreDirectoryEntries) {
  DXGKIT_COVERS("VA-46", "PAGE-35");
  Geometry geometry = four_levels();
  geometry.large_pages = true;
  use(geometry);
  Piece large{.span = {1024, 1024}, .source = run(4096), .large_pages = true};
  pieces_.all = {large};
  EXPECT_EQ(update({large.span}), "init3 init2 init1 large1 link2 link3 root3");
  EXPECT_EQ(plan_.steps[3].count, 2U);
  std::array<Pte, 2> ptes;
  fill_step(plan_.steps[3], 0, ptes, 512);
  EXPECT_EQ(ptes[1], (Pte{kPteValid | kPteLargePage | uint64_t{1} << 5, 4096 + 512}));
  // A hole in one of them: a leaf for it.
  pieces_.all = {{.span = {1024, 100}, .source = run(4096), .large_pages = true},
                 {.span = {1125, 923}, .source = run(4197), .large_pages = true}};
  EXPECT_EQ(update({{1124, 1}}), "init0 write0 write0 link1 flush");
  EXPECT_EQ(plan_.steps.back().span, (PageSpan{1024, 512}));
  // Whole again, the leaf goes.
  pieces_.all = {large};
  EXPECT_EQ(update({{1024, 512}}), "large1 flush free0");
  // Forbidden for the allocation, misplaced, or with a driver protection, which stays in leaves.
  for (int why = 0; why < 3; ++why) {
    use(geometry);
    Piece other = large;
    if (why == 0) other.large_pages = false;
    if (why == 1) other.source = run(4097);
    if (why == 2) other.driver_protection = 1;
    pieces_.all = {other};
    EXPECT_EQ(update({other.span}).find("large"), std::string::npos);
  }
}

TEST_F(PageTablesTest, EntriesAreCopiedBetweenTablesThatExist) {
  DXGKIT_COVERS("PAGE-40");
  use(four_levels());
  pieces_.all = {{.span = {512, 100}, .source = run(1)}, {.span = {1500, 60}, .source = run(700)}};
  update({{512, 100}, {1500, 60}});
  // Two tables at the destination's side.
  const auto ranges = tables_->copy(512, {1500, 60});
  ASSERT_TRUE(ranges.has_value());
  ASSERT_EQ(ranges->size(), 2U);
  EXPECT_EQ((*ranges)[0].from_index, 0U);
  EXPECT_EQ((*ranges)[0].to_index, 1500U - 1024);
  EXPECT_EQ((*ranges)[0].count, 36U);
  EXPECT_EQ((*ranges)[1].from_index, 36U);
  EXPECT_EQ((*ranges)[1].to_index, 0U);
  EXPECT_NE((*ranges)[0].to, (*ranges)[1].to);
  EXPECT_FALSE(tables_->copy(512, {520, 10}).has_value());               // onto itself
  EXPECT_FALSE(tables_->copy(512, {uint64_t{1} << 30, 4}).has_value());  // no table
  // Invalid entries are copied as well, and known to be.
  ASSERT_TRUE(tables_->copy(800, {1500, 60}).has_value());
  pieces_.all.pop_back();
  PageTables::Draft draft = tables_->draft(std::vector<PageSpan>{{1500, 60}}, pieces_);
  plan_.clear();
  tables_->commit(std::move(draft), {}, &plan_);
  EXPECT_EQ(text().find("clear"), std::string::npos);
}

TEST_F(PageTablesTest, ATableThatMovedIsLinkedAnew) {
  use(four_levels());
  pieces_.all = {{.span = {513, 4}, .source = run(1)}};
  update({{513, 4}});
  for (uint64_t id = 1; id <= 4; ++id) {
    const auto info = tables_->find(TableId{id});
    ASSERT_TRUE(info.has_value());
    plan_.clear();
    tables_->relocated(TableId{id}, &plan_);
    if (info->level == 3) {
      EXPECT_EQ(text(), "root3 flush");
      EXPECT_TRUE(plan_.contexts_idle);
      EXPECT_EQ(info->parent, kNoTable);
      continue;
    }
    EXPECT_EQ(text(), "link" + std::to_string(info->level + 1) + " flush");
    EXPECT_EQ(plan_.steps[0].table, info->parent);
    EXPECT_EQ(plan_.steps[0].start_index, info->index_in_parent);
    EXPECT_EQ(plan_.children[0].table, TableId{id});
    EXPECT_EQ(plan_.steps[1].span, info->span);
  }
  EXPECT_FALSE(tables_->find(TableId{99}).has_value());
}

}  // namespace
}  // namespace dxgkit::gpuva
