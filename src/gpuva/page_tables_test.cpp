// Shapes of page tables that are refused, and the steps of single plans: what comes before what.
#include "gpuva/page_tables.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "gpuva/page_tables_plan_test.h"
#include "tests/support/covers.h"

namespace dxgkit::gpuva {
namespace {

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
  // The other sides of these bounds.
  const auto accepted = [&](const char* what, auto change) {
    Geometry geometry = four_levels();
    change(geometry);
    const auto fault = check_geometry(geometry, kLocal, 3);
    EXPECT_FALSE(fault.has_value()) << what << ": " << fault->what;
  };
  accepted("six levels", [](Geometry& g) {
    g.level_count = 6;
    g.levels[4] = g.levels[5] = {.index_bits = 2, .table_bytes = 4096, .alignment_bytes = 4096};
    g.va_bits = 52;
  });
  accepted("two levels, 13 bits", [](Geometry& g) {
    g.level_count = 2;
    g.levels[0].index_bits = 1;
    g.levels[1] = {};
    g.va_bits = 14;
  });
  accepted("63 bits", [](Geometry& g) {
    for (uint32_t level = 0; level < 3; ++level) g.levels[level].index_bits = 14;
    g.va_bits = 63;
  });
  accepted("index of 24 bits", [](Geometry& g) {
    g.levels[1].index_bits = 24;
    g.va_bits = 63;
  });
  refused("VA-02", "level 1: PageTableIndexBitCount is 25", [](Geometry& g) {
    g.levels[1].index_bits = 25;
    g.va_bits = 63;
  });
  refused("VA-02", "VirtualAddressBitCount is 12", [](Geometry& g) { g.va_bits = 12; });
  refused("VA-02", "VirtualAddressBitCount is 64", [](Geometry& g) {
    for (uint32_t level = 0; level < 4; ++level) g.levels[level].index_bits = 13;
    g.va_bits = 64;
  });
  accepted("no alignment", [](Geometry& g) { g.levels[2].alignment_bytes = 0; });
  accepted("8192 bytes in memory that is not the system's", [](Geometry& g) {
    g.levels[2].table_bytes = 8192;
    g.levels[2].segment = g.levels[2].paging_process_segment = SegmentId{3};
  });
  refused("VA-03", "level 2: tables of 8192 bytes in system memory", [](Geometry& g) {
    g.levels[2].table_bytes = 8192;
    g.levels[2].segment = SegmentId{3};
  });
  refused("VA-03", "level 1: table segment 4 of 3",
          [](Geometry& g) { g.levels[1].paging_process_segment = SegmentId{4}; });
  refused("VA-03", "level 1: tables are updated by CPU address", [](Geometry& g) {
    g.update_mode = UpdateMode::kCpuVirtual;
    g.levels[1].paging_process_segment = SegmentId{2};
  });
  for (const UpdateMode mode : {UpdateMode::kGpuVirtual, UpdateMode::kGpuPhysical}) {
    accepted("local tables that the GPU writes", [mode](Geometry& g) {
      g.update_mode = mode;
      g.levels[1].segment = SegmentId{2};
    });
  }
  accepted("64 KiB pages", [](Geometry& g) { g.leaf_table_bytes_64k = 8192; });
  // Which segments are local is known of 32 of them.
  Geometry many = four_levels();
  many.update_mode = UpdateMode::kCpuVirtual;
  for (const uint32_t segment : {32U, 33U}) {
    many.levels[0].segment = SegmentId{segment};
    EXPECT_EQ(check_geometry(many, 1U << 31 | 1U, 40).has_value(), segment == 32);
  }
  // A root that grows: its table's size is the driver's to say, its index is what is left.
  for (const auto& [bits, fits] : {std::pair(22U, true), {52U, true}, {53U, false}, {21U, false}}) {
    Geometry growing = two_levels();
    growing.va_bits = bits;
    EXPECT_EQ(check_geometry(growing, kLocal, 3).has_value(), !fits) << bits;
  }
  Geometry odd = two_levels();
  odd.levels[1].table_bytes = 100;
  EXPECT_TRUE(check_geometry(odd, kLocal, 3).has_value());
  odd.levels[1].table_bytes = 4096;
  odd.levels[1].index_bits = 60;  // what it begins with
  EXPECT_FALSE(check_geometry(odd, kLocal, 3).has_value());
  Geometry elsewhere = four_levels();
  elsewhere.update_mode = UpdateMode::kCpuVirtual;
  elsewhere.levels[0].segment = SegmentId{1};
  EXPECT_FALSE(check_geometry(elsewhere, kLocal, 3).has_value());
  Geometry narrow = two_levels();
  narrow.va_bits = 21;
  EXPECT_TRUE(check_geometry(narrow, kLocal, 3).has_value());
}

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
  // It covers what its entries lead to, not the space.
  EXPECT_EQ(plan_.steps.front().span, (PageSpan{0, 4 * 512}));
  EXPECT_EQ(plan_.steps.back().span, (PageSpan{0, 4 * 512}));
  EXPECT_FALSE(memory_->walk(9 * 512).has_value());  // an index past its entries
  pieces_.all.push_back({.span = {9 * 512, 1}, .source = run(50)});
  EXPECT_EQ(update({{9 * 512, 1}}, 6), "init1 init0 write0 link1 link1 root1 free1");
  EXPECT_EQ(needs_[0].entries, 10U);
  EXPECT_EQ(tables_->root_entries(), 16U);  // the driver gave more
  EXPECT_NE(tables_->root(), first);
  EXPECT_EQ(plan_.steps.front().span, (PageSpan{0, 16 * 512}));
  EXPECT_TRUE(plan_.contexts_idle);
  EXPECT_EQ(memory_->walk(3 * 512 + 1)->pte.page, 2U);
  EXPECT_EQ(memory_->walk(9 * 512)->pte.page, 50U);
  pieces_.all.push_back({.span = {15 * 512, 1}, .source = run(60)});
  EXPECT_EQ(update({{15 * 512, 1}}), "init0 write0 link1");
  // Of a root with more entries than the space needs, the space.
  Geometry small = two_levels();
  small.va_bits = 23;
  use(small);
  pieces_.all = {{.span = {3 * 512, 4}, .source = run(1)}};
  update({{3 * 512, 4}}, 5);
  EXPECT_EQ(tables_->root_entries(), 9U);
  EXPECT_EQ(plan_.steps.front().span, (PageSpan{0, 4 * 512}));
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

TEST_F(PageTablesTest, ARootThatGrowsBeginsAsLargeAsTheDriverSaysAndHasWhatIsUsed) {
  DXGKIT_COVERS("VA-05");
  constexpr uint64_t kMost = uint64_t{1} << 19;  // of 40 bits of address
  struct Row {
    uint32_t index_bits;
    uint64_t leaf, entries;
  };
  for (const Row& row : {Row{0, 0, 1}, Row{0, 6, 7}, Row{5, 3, 32}, Row{5, 31, 32}, Row{5, 40, 41},
                         Row{5, kMost - 1, kMost}, Row{31, 3, kMost}}) {
    Geometry geometry = two_levels();
    geometry.levels[1].index_bits = row.index_bits;
    use(geometry);
    pieces_.all = {{.span = {512 * row.leaf + 7, 1}, .source = run(1)}};
    update({{512 * row.leaf + 7, 1}});
    ASSERT_FALSE(needs_.empty());
    EXPECT_TRUE(needs_[0].grows_root);
    EXPECT_EQ(needs_[0].entries, row.entries) << row.index_bits << " " << row.leaf;
    EXPECT_EQ(tables_->root_entries(), row.entries);
    // It stays so while that is enough.
    pieces_.all = {{.span = {7, 1}, .source = run(1)}};
    update({{512 * row.leaf + 7, 1}, {7, 1}});
    EXPECT_EQ(tables_->root_entries(), row.entries);
    for (const TableNeed& need : needs_) EXPECT_FALSE(need.grows_root);
  }
}

TEST_F(PageTablesTest, ALeafThatGetsItsSecondTableIsFlushedWhole) {
  // The directory's entry is valid and changes, so what the device remembers of it goes, also where
  // no entry of a leaf was valid.
  DXGKIT_COVERS("VA-44", "PAGE-37");
  Geometry geometry = four_levels();
  geometry.leaf_table_bytes_64k = 4096;
  geometry.dual_ptes = true;
  use(geometry);
  const Piece small{.span = {520, 5}, .source = run(3)};
  const Piece large{.span = {640, 32}, .source = run(160), .pages_64k = true};
  for (const bool small_first : {true, false}) {
    const Piece& first = small_first ? small : large;
    const Piece& second = small_first ? large : small;
    pieces_.all = {first};
    update({{512, 512}});
    pieces_.all = {small, large};
    EXPECT_EQ(update({second.span}),
              small_first ? "init0k write0k link1 flush" : "init0 write0 link1 flush");
    EXPECT_EQ(plan_.steps.back().span, (PageSpan{512, 512}));
    pieces_.all.clear();
    update({{512, 512}});
  }
}

TEST_F(PageTablesTest, APieceOverABorderWithoutA64KibPageIsWrittenAtOnce) {
  DXGKIT_COVERS("VA-44");
  Geometry geometry = four_levels();
  geometry.leaf_table_bytes_64k = 4096;
  geometry.dual_ptes = true;
  use(geometry);
  for (const PageSpan span : {PageSpan{520, 16}, PageSpan{527, 2}, PageSpan{513, 30}}) {
    pieces_.all = {{.span = span, .source = run(span.first_page - 352), .pages_64k = true}};
    EXPECT_EQ(update({span}), "init3 init2 init1 init0 write0 link1 link2 link3 root3");
    EXPECT_EQ(plan_.steps[4].span, span);
    use(geometry);
  }
}

// What becomes invalid in either table has no protection of the driver's.
TEST_F(PageTablesTest, EntriesOfNothingHaveNoDriverProtection) {
  DXGKIT_COVERS("VA-44");
  Geometry geometry = four_levels();
  geometry.leaf_table_bytes_64k = 4096;
  geometry.dual_ptes = true;
  use(geometry);
  const Piece stays{.span = {640, 1}, .source = run(9000)};
  const Piece goes{
      .span = {512, 40}, .source = run(4096), .driver_protection = 5, .pages_64k = true};
  pieces_.all = {goes, stays};
  update({{512, 129}});
  pieces_.all = {stays};
  update({{512, 40}});
  size_t written = 0;
  for (const Step& step : plan_.steps) {
    if (step.kind != Step::Kind::kWriteEntries) continue;
    ++written;
    EXPECT_FALSE(step.source.valid());
    EXPECT_EQ(step.driver_protection, 0U);
  }
  EXPECT_GE(written, 2U);
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
  {  // However many follow each other.
    use(geometry);
    pieces_.all = {{.span = {1024, 5 * 512}, .source = run(4096), .large_pages = true}};
    EXPECT_EQ(update({{1024, 5 * 512}}), "init3 init2 init1 large1 link2 link3 root3");
    EXPECT_EQ(plan_.steps[3].count, 5U);
    EXPECT_EQ(plan_.steps[3].span, (PageSpan{1024, 5 * 512}));
    use(geometry);
    pieces_.all = {large};
    update({large.span});
  }
  // A walk ends with the large page; behind it the directory's next entry is invalid.
  for (const uint64_t page : {1024U, 1536U + 511}) {
    const std::vector<PageTables::WalkStep> walk = tables_->walk(page);
    ASSERT_EQ(walk.size(), 3U);
    for (const PageTables::WalkStep& step : walk) {
      EXPECT_TRUE(step.valid);
      EXPECT_EQ(step.large_page, step.level == 1) << step.level;
    }
    EXPECT_EQ(walk.back().level, 1U);
    EXPECT_EQ(walk.back().index, page / 512);
    EXPECT_EQ(walk.back().table, plan_.steps[3].table);
  }
  ASSERT_EQ(tables_->walk(2048).size(), 3U);
  EXPECT_FALSE(tables_->walk(2048).back().valid);
  EXPECT_FALSE(tables_->walk(2048).back().large_page);
  std::array<Pte, 2> ptes;
  fill_step(plan_.steps[3], 0, ptes, 512);
  EXPECT_EQ(ptes[1], (Pte{kPteValid | kPteLargePage | uint64_t{1} << 5, 4096 + 512}));
  // A hole in one of them: a leaf for it.
  pieces_.all = {{.span = {1024, 100}, .source = run(4096), .large_pages = true},
                 {.span = {1125, 923}, .source = run(4197), .large_pages = true}};
  EXPECT_EQ(update({{1124, 1}}), "init0 write0 write0 link1 flush");
  EXPECT_EQ(tables_->walk(1024).size(), 4U);
  EXPECT_FALSE(tables_->walk(1024)[2].large_page);
  EXPECT_TRUE(tables_->walk(1536).back().large_page);
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
  // A device without them.
  geometry.large_pages = false;
  use(geometry);
  pieces_.all = {large};
  EXPECT_EQ(update({large.span}).find("large"), std::string::npos);
  geometry.large_pages = true;
  // A device that takes large pages from anywhere in a segment.
  geometry.unaligned_large_pages = true;
  use(geometry);
  pieces_.all = {large};
  pieces_.all[0].source = run(4097);
  EXPECT_EQ(update({large.span}), "init3 init2 init1 large1 link2 link3 root3");
  EXPECT_EQ(memory_->walk(1024 + 700)->pte.page, 4097U + 700);
}

TEST_F(PageTablesTest, ALargePageGoesWithItsOwnSpanOnly) {
  // The mapping behind the span has changed as well, but the change was not reported yet.
  DXGKIT_COVERS("VA-46");
  Geometry geometry = four_levels();
  geometry.large_pages = true;
  use(geometry);
  pieces_.all = {{.span = {512, 3 * 512}, .source = run(4096), .large_pages = true}};
  update({{512, 3 * 512}});
  pieces_.all.clear();
  EXPECT_EQ(update({{1024, 512}}), "cut1 flush");
  EXPECT_EQ(plan_.steps[0].count, 1U);
  EXPECT_EQ(memory_->walk(512)->pte.page, 4096U);
  EXPECT_FALSE(memory_->walk(1024).has_value());
  EXPECT_FALSE(memory_->walk(1535).has_value());
  EXPECT_EQ(memory_->walk(1536)->pte.page, 4096U + 1024);
  EXPECT_EQ(update({{1536, 512}}), "cut1 flush");
  EXPECT_EQ(update({{512, 512}}), "cut3 flush free1 free2");
}

TEST_F(PageTablesTest, OneStepWritesLargePagesThatFollowEachOtherInAllThings) {
  // In the table, in memory and in the allocation.
  DXGKIT_COVERS("VA-46");
  Geometry geometry = four_levels();
  geometry.large_pages = true;
  constexpr AllocationId kOne{7}, kOther{8};
  const auto steps_for = [&](uint64_t leaf, PteSource source, AllocationId allocation) {
    use(geometry);
    pieces_.all = {{.span = {4 * 512, 512},
                    .source = run(4096),
                    .allocation = kOne,
                    .offset_pages = 3 * 512,
                    .large_pages = true},
                   {.span = {leaf * 512, 512},
                    .source = source,
                    .allocation = allocation,
                    .offset_pages = 4 * 512,
                    .large_pages = true}};
    update({{4 * 512, 512}, {leaf * 512, 512}});
    EXPECT_EQ(memory_->walk(4 * 512 + 3)->pte.page, 4096U + 3);
    EXPECT_EQ(memory_->walk(leaf * 512 + 3)->pte.page, source.first_page + 3);
    std::vector<Step> large;
    std::ranges::copy_if(plan_.steps, std::back_inserter(large), &Step::large_page);
    // Which part of which allocation each begins with.
    EXPECT_EQ(large.at(0).allocation, kOne);
    EXPECT_EQ(large.at(0).offset_pages, 3U * 512);
    if (large.size() > 1) {
      EXPECT_EQ(large[1].allocation, allocation);
      EXPECT_EQ(large[1].offset_pages, 4U * 512);
    }
    return large.size();
  };
  EXPECT_EQ(steps_for(5, run(4096 + 512), kOne), 1U);
  EXPECT_EQ(steps_for(6, run(4096 + 512), kOne), 2U) << "an entry lies between";
  EXPECT_EQ(steps_for(512 + 5, run(4096 + 512), kOne), 2U) << "the next entry of another table";
  EXPECT_EQ(steps_for(5, run(4096 + 1024), kOne), 2U) << "memory elsewhere";
  EXPECT_EQ(steps_for(5, run(4096 + 512, 2), kOne), 2U) << "another segment";
  EXPECT_EQ(steps_for(5, run(4096 + 512), kOther), 2U) << "another allocation";
}

TEST_F(PageTablesTest, ASpanIsReadOnceHoweverManyLeavesItMeets) {
  // And a leaf that two spans meet is read for itself.
  use(four_levels());
  pieces_.all = {{.span = {512, 2000}, .source = run(1)}};
  update({{512, 2000}});
  EXPECT_EQ(std::exchange(pieces_.reads, 0), 1U);
  pieces_.all[0].source = run(9);
  EXPECT_EQ(update({{512, 10}, {600, 10}, {1100, 5}}), "write0 write0 flush flush");
  EXPECT_EQ(pieces_.reads, 4U);
}

TEST_F(PageTablesTest, ATableIsKnownByWhatItCovers) {
  // Levels whose tables have different numbers of entries, and a page that is first in nothing.
  Geometry geometry = four_levels();
  const uint32_t bits[] = {9, 8, 10, 6};
  for (uint32_t level = 0; level < 4; ++level) {
    geometry.levels[level] = {.index_bits = bits[level],
                              .table_bytes = 4096 * (level + 2),
                              .alignment_bytes = 4096U << level};
  }
  geometry.va_bits = 45;
  use(geometry);
  const uint64_t starts[] = {(uint64_t{3} << 27) + (5 << 17) + (7 << 9),
                             (uint64_t{3} << 27) + (5 << 17), uint64_t{3} << 27, 0};
  const uint64_t pages[] = {1 << 9, 1 << 17, 1 << 27, uint64_t{1} << 33};
  const uint64_t page = starts[0] + 11;
  pieces_.all = {{.span = {page, 2}, .source = run(0x800)}};
  EXPECT_EQ(update({{page, 2}}), "init3 init2 init1 init0 write0 link1 link2 link3 root3");
  ASSERT_EQ(needs_.size(), 4U);
  const std::vector<PageTables::WalkStep> walk = tables_->walk(page);
  ASSERT_EQ(walk.size(), 4U);
  const uint64_t index[] = {11, 7, 5, 3};
  for (uint32_t level = 0; level < 4; ++level) {
    SCOPED_TRACE(level);
    const PageSpan span{starts[level], pages[level]};
    const TableNeed& need = needs_[3 - level];
    EXPECT_EQ(need.level, level);
    EXPECT_EQ(need.span, span);
    EXPECT_EQ(need.entries, uint64_t{1} << bits[level]);
    EXPECT_EQ(need.bytes, 4096 * (level + 2));
    EXPECT_EQ(need.alignment_bytes, 4096U << level);
    const Step& init = plan_.steps[3 - level];
    EXPECT_EQ(init.span, span);
    EXPECT_EQ(init.count, uint64_t{1} << bits[level]);
    EXPECT_TRUE(init.repeat && init.initial);
    EXPECT_TRUE(tables_->contains(init.table));
    EXPECT_EQ(walk[3 - level].level, level);
    EXPECT_EQ(walk[3 - level].table, init.table);
    EXPECT_EQ(walk[3 - level].index, index[level]);
    EXPECT_TRUE(walk[3 - level].valid);
    if (level == 3) continue;
    const Step& link = plan_.steps[5 + level];
    EXPECT_EQ(link.level, level + 1);
    EXPECT_EQ(link.start_index, index[level + 1]);
    EXPECT_EQ(link.count, 1U);
    EXPECT_EQ(link.span, span);
    EXPECT_EQ(plan_.children[link.first_child].table, init.table);
  }
  EXPECT_EQ(plan_.steps.back().count, 64U);
  EXPECT_EQ(plan_.steps.back().span, (PageSpan{0, pages[3]}));
  // Walks that end early: at an invalid entry of each level.
  const auto steps = [&](uint64_t at) { return tables_->walk(at).size(); };
  EXPECT_EQ(steps(page + 2), 4U);
  EXPECT_FALSE(tables_->walk(page + 2).back().valid);
  EXPECT_EQ(steps(page + 512), 3U);
  EXPECT_EQ(steps(page + (1 << 17)), 2U);
  EXPECT_EQ(steps(page + (1 << 27)), 1U);
  EXPECT_FALSE(tables_->walk(page + (1 << 27)).back().valid);
  // All of it goes, with what it covers.
  pieces_.all.clear();
  EXPECT_EQ(update({{page, 2}}), "cut3 flush free0 free1 free2");
  EXPECT_EQ(plan_.steps[1].span, (PageSpan{starts[0], 512}));
  EXPECT_EQ(plan_.steps[0].span, (PageSpan{starts[2], pages[2]}));
  plan_.clear();
  tables_->destroy(&plan_);
  EXPECT_EQ(text(), "flush free3");
  EXPECT_EQ(plan_.steps[0].span, (PageSpan{0, pages[3]}));
  EXPECT_EQ(tables_->table_count(), 0U);
}

TEST_F(PageTablesTest, ALeafMayHaveMoreEntriesThanUsual) {
  // Which entries are valid is known of each of 2048: what is invalid already is not written again.
  Geometry geometry = four_levels();
  geometry.levels[0] = {.index_bits = 11, .segment = SegmentId{1}, .table_bytes = 16384};
  geometry.va_bits = 50;
  use(geometry);
  const auto at = [](uint64_t page, uint64_t pages, uint64_t frame) {
    return Piece{.span = {2048 + page, pages}, .source = run(frame)};
  };
  pieces_.all = {at(500, 30, 1), at(1023, 2, 100), at(2000, 48, 200)};
  EXPECT_EQ(update({{2048, 2048}}),
            "init3 init2 init1 init0 write0 write0 write0 link1 link2 link3 root3");
  for (const uint64_t page :
       {499U, 500U, 529U, 530U, 1022U, 1023U, 1024U, 1025U, 1999U, 2000U, 2047U}) {
    const bool mapped = (page >= 500 && page < 530) || page == 1023 || page == 1024 || page >= 2000;
    EXPECT_EQ(tables_->walk(2048 + page).back().valid, mapped) << page;
    EXPECT_EQ(memory_->walk(2048 + page).has_value(), mapped) << page;
  }
  pieces_.all = {at(500, 12, 1), at(2000, 48, 200)};
  EXPECT_EQ(update({{2048 + 512, 200}, {2048 + 1024, 500}}), "clear0 flush");
  EXPECT_EQ(plan_.steps[1].span, (PageSpan{2048 + 512, 1012})) << "one window for both";
  pieces_.all = {at(500, 12, 1)};
  EXPECT_EQ(update({{2048 + 1500, 548}}), "clear0 flush");
  EXPECT_EQ(update({{2048 + 530, 1518}}), "");
  EXPECT_EQ(update({{2048 + 512, 1536}}), "");
  pieces_.all.clear();
  EXPECT_EQ(update({{2048 + 500, 12}}), "cut3 flush free0 free1 free2");
  // Another table begins with none.
  pieces_.all = {at(0, 1, 9)};
  EXPECT_EQ(update({{2048, 2048}}), "init2 init1 init0 write0 link1 link2 link3");
}

TEST_F(PageTablesTest, AWalkSaysWhichOfTwoLeavesTranslates) {
  DXGKIT_COVERS("VA-44");
  Geometry geometry = four_levels();
  geometry.levels[0].table_bytes = 12288;
  geometry.levels[0].segment = SegmentId{1};
  geometry.leaf_table_bytes_64k = 8192;
  geometry.dual_ptes = true;
  use(geometry);
  pieces_.all = {{.span = {520, 30}, .source = run(168), .pages_64k = true}};
  update({{520, 30}});
  ASSERT_EQ(needs_.size(), 5U);
  EXPECT_EQ(needs_[3].bytes, 12288U);
  EXPECT_FALSE(needs_[3].of_64k_pages);
  EXPECT_EQ(needs_[4].bytes, 8192U);
  EXPECT_TRUE(needs_[4].of_64k_pages);
  EXPECT_EQ(needs_[4].entries, 512U);
  const TableId small = plan_.steps[3].table;
  const TableId big = plan_.steps[4].table;
  ASSERT_NE(small, big);
  EXPECT_EQ(plan_.children[0].table, small);
  EXPECT_EQ(plan_.children[0].table_64k, big);
  EXPECT_FALSE(plan_.children[0].of_64k_pages);
  const auto leaf = [&](uint64_t page) { return tables_->walk(page).back(); };
  for (const uint64_t page : {520U, 527U, 544U, 549U}) {
    EXPECT_EQ(leaf(page).table, small) << page;
    EXPECT_EQ(leaf(page).index, page - 512);
    EXPECT_TRUE(leaf(page).valid && !leaf(page).of_64k_pages);
  }
  for (const uint64_t page : {528U, 543U}) {
    EXPECT_EQ(leaf(page).table, big) << page;
    EXPECT_EQ(leaf(page).index, page - 512);
    EXPECT_TRUE(leaf(page).valid && leaf(page).of_64k_pages);
  }
  for (const uint64_t page : {519U, 550U}) {
    EXPECT_EQ(leaf(page).table, small);
    EXPECT_FALSE(leaf(page).valid || leaf(page).of_64k_pages);
  }
  // A leaf that only has 64 KiB pages.
  use(geometry);
  pieces_.all = {{.span = {528, 16}, .source = run(176), .pages_64k = true}};
  EXPECT_EQ(update({{528, 16}}), "init3 init2 init1 init0k write0k link1 link2 link3 root3");
  EXPECT_TRUE(leaf(528).valid && leaf(528).of_64k_pages);
  EXPECT_FALSE(leaf(527).valid);
  EXPECT_EQ(leaf(527).table, plan_.steps[3].table);
  pieces_.all.clear();
  EXPECT_EQ(update({{528, 16}}), "cut3 flush free0k free1 free2");
}

TEST_F(PageTablesTest, LeavesOfOne64KibPageHaveIt) {
  DXGKIT_COVERS("VA-43");
  for (const uint32_t bits : {3U, 4U}) {
    Geometry geometry = four_levels();
    geometry.levels[0].index_bits = bits;
    geometry.levels[0].table_bytes = 4096;
    geometry.leaf_table_bytes_64k = 8192;
    geometry.va_bits = 39 + bits;
    use(geometry);
    pieces_.all = {{.span = {32, 16}, .source = run(160), .pages_64k = true}};
    update({{32, 16}});
    EXPECT_EQ(needs_.back().of_64k_pages, bits == 4);
    // Single entries: the memory serves both page sizes.
    EXPECT_EQ(needs_.back().bytes, bits == 4 ? 8192U : 4096U);
    EXPECT_EQ(memory_->walk(37)->pte.page, 165U);
  }
}

TEST_F(PageTablesTest, EntriesSayWhatTheirSourceSays) {
  DXGKIT_COVERS("VA-45", "VA-22", "VA-46");
  constexpr uint64_t kFrames[] = {70, 50, 90, 10};
  const auto entry = [&](const Step& step, uint64_t first, size_t which) {
    std::array<Pte, 2> ptes;
    fill_step(step, first, ptes, 512);
    return ptes[which];
  };
  Step step{.kind = Step::Kind::kWriteEntries, .span = {}, .source = {}};
  EXPECT_EQ(entry(step, 0, 0), Pte{});
  step.source = {.kind = PteSource::Kind::kFrames, .segment = SegmentId{31}, .frames = kFrames};
  EXPECT_EQ(entry(step, 0, 0), (Pte{kPteValid | 31 << 5, 70}));
  EXPECT_EQ(entry(step, 2, 0), (Pte{kPteValid | 31 << 5, 90}));
  EXPECT_EQ(entry(step, 2, 1), (Pte{kPteValid | 31 << 5, 10}));
  step.source = {.kind = PteSource::Kind::kSame, .read_only = true, .first_page = 44};
  EXPECT_EQ(entry(step, 3, 0), (Pte{kPteValid | kPteReadOnly, 44}));
  EXPECT_EQ(entry(step, 3, 1), (Pte{kPteValid | kPteReadOnly, 44}));
  step.source = {.kind = PteSource::Kind::kZero, .no_execute = true};
  EXPECT_EQ(entry(step, 3, 1), (Pte{kPteValid | kPteZero | kPteNoExecute, 0}));
  step.source = {.kind = PteSource::Kind::kRun, .cache_coherent = true, .first_page = 1000};
  EXPECT_EQ(entry(step, 3, 0), (Pte{kPteValid | kPteCacheCoherent, 1003}));
  EXPECT_EQ(entry(step, 3, 1), (Pte{kPteValid | kPteCacheCoherent, 1004}));
  step.large_page = true;
  EXPECT_EQ(entry(step, 3, 0),
            (Pte{kPteValid | kPteCacheCoherent | kPteLargePage, 1000 + 3 * 512}));
  EXPECT_EQ(entry(step, 3, 1),
            (Pte{kPteValid | kPteCacheCoherent | kPteLargePage, 1000 + 4 * 512}));
  step.kind = Step::Kind::kInvalidate;
  EXPECT_EQ(entry(step, 3, 0), Pte{});
  EXPECT_EQ(directory_pte(SegmentId{31}, 77, false), (Pte{kPteValid | 31 << 5, 77}));
  EXPECT_EQ(directory_pte(SegmentId{2}, 78, true), (Pte{kPteValid | 2 << 5 | 1 << 17, 78}));
  // An entry has five bits for the segment: the last of 32 leaves its neighbours alone.
  EXPECT_EQ(directory_pte(SegmentId{32}, 79, false), (Pte{kPteValid, 79}));
  step = {.kind = Step::Kind::kWriteEntries, .span = {}, .source = {}};
  step.source = {.kind = PteSource::Kind::kRun, .segment = SegmentId{32}, .first_page = 5};
  EXPECT_EQ(entry(step, 0, 0), (Pte{kPteValid, 5}));
}

TEST_F(PageTablesTest, StepsSayWhatIsMapped) {
  // One span over leaves that become empty, one that stays, and one that is new. What a step has of
  // a piece begins where the step begins.
  use(four_levels());
  for (uint64_t leaf = 1; leaf <= 3; ++leaf)
    pieces_.all.push_back({.span = {512 * leaf + 7, 3}, .source = run(1000 * leaf)});
  update({{512, 1536}});
  pieces_.all = {{.span = {512 * 3 + 500, 20},
                  .source = run(40),
                  .driver_protection = 6,
                  .allocation = AllocationId{9},
                  .offset_pages = 5}};
  EXPECT_EQ(update({{512, 4 * 512}}), "init0 clear0 write0 write0 cut1 link1 flush free0 free0");
  const Step& first = plan_.steps[2];
  EXPECT_EQ(first.start_index, 500U);
  EXPECT_EQ(first.count, 12U);
  EXPECT_EQ(first.source, run(40));
  const Step& second = plan_.steps[3];
  EXPECT_EQ(second.start_index, 0U);
  EXPECT_EQ(second.count, 8U);
  EXPECT_EQ(second.source, run(52));
  EXPECT_EQ(second.span, (PageSpan{512 * 4, 8}));
  EXPECT_EQ(second.driver_protection, 6U);
  EXPECT_EQ(second.allocation, AllocationId{9});
  EXPECT_EQ(second.offset_pages, 17U);
  // Two entries of the directory at once, and a gap.
  EXPECT_EQ(plan_.steps[4].start_index, 1U);
  EXPECT_EQ(plan_.steps[4].count, 2U);
  EXPECT_EQ(plan_.steps[4].span, (PageSpan{512, 1024}));
  EXPECT_EQ(plan_.steps[5].start_index, 4U);
  EXPECT_EQ(plan_.steps[5].count, 1U);
  EXPECT_EQ(plan_.steps[6].span, (PageSpan{512, 1524}));
  EXPECT_EQ(tables_->table_count(), 5U);
}

}  // namespace
}  // namespace dxgkit::gpuva
