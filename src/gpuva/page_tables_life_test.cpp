// Tables over several plans: which stay, which go with the last of their pages, and which come
// again.
#include <gtest/gtest.h>

#include <string>

#include "gpuva/page_tables_plan_test.h"
#include "tests/support/covers.h"

namespace dxgkit::gpuva {
namespace {

// Entries that were valid already are counted once: a table whose pages moved meanwhile goes all
// the same when the last of them is unmapped, and stays while one is mapped.
TEST_F(PageTablesTest, ATableWhosePagesMovedGoesWithTheLastOfThem) {
  DXGKIT_COVERS("PAGE-39");
  for (const uint64_t again : {1U, 2U, 5U}) {
    for (const bool dual : {false, true}) {
      SCOPED_TRACE(again);
      Geometry geometry = four_levels();
      geometry.leaf_table_bytes_64k = dual ? 4096 : 0;
      geometry.dual_ptes = dual;
      use(geometry);
      pieces_.all = {{.span = {520, 30}, .source = run(168), .pages_64k = true}};
      for (uint64_t i = 0; i <= again; ++i) {
        pieces_.all[0].source = run(168 + 16 * i);
        update({{520, 30}});
      }
      // Only the first half goes, which the other half outlives.
      pieces_.all = {{.span = {544, 6}, .source = run(800)}};
      EXPECT_EQ(update({{520, 30}}).find("free"), std::string::npos);
      EXPECT_EQ(memory_->walk(549)->pte.page, 805U);
      EXPECT_FALSE(memory_->walk(543).has_value());
      pieces_.all.clear();
      EXPECT_EQ(update({{544, 6}}),
                dual ? "cut3 flush free0 free0k free1 free2" : "cut3 flush free0 free1 free2");
      EXPECT_EQ(tables_->table_count(), 1U);
    }
  }
}

// After all tables are gone nothing of them is left: the next ones are made as the first were.
TEST_F(PageTablesTest, TablesMayBeMadeAgainAfterAllWereDestroyed) {
  for (const Geometry& geometry : {two_levels(), four_levels()}) {
    use(geometry);
    std::string first;
    for (const bool again : {false, true}) {
      pieces_.all = {{.span = {3 * 512, 4}, .source = run(1)}};
      const std::string steps = update({{3 * 512, 4}});
      if (!again) first = steps;
      EXPECT_EQ(steps, first);
      EXPECT_EQ(tables_->root_entries(), geometry.root_grows() ? 4U : 512U);
      plan_.clear();
      tables_->destroy(&plan_);
      memory_->execute(plan_);
      EXPECT_EQ(memory_->size(), 0U);
      EXPECT_EQ(tables_->table_count(), 0U);
      EXPECT_EQ(tables_->root_entries(), 0U);
      EXPECT_EQ(tables_->root(), kNoTable);
      EXPECT_TRUE(tables_->validate());
      plan_.clear();
      tables_->destroy(&plan_);
      EXPECT_EQ(text(), "") << "there is nothing left to destroy";
    }
  }
}

// In system memory, 64 KiB pages are for those that can have them there; elsewhere for everyone.
TEST_F(PageTablesTest, SixtyFourKibPagesOfSystemMemoryAreACapability) {
  DXGKIT_COVERS("VA-43");
  for (const bool capable : {false, true}) {
    for (const uint32_t segment : {0U, 1U}) {
      for (const bool dual : {false, true}) {
        SCOPED_TRACE(segment);
        Geometry geometry = four_levels();
        geometry.leaf_table_bytes_64k = 4096;
        geometry.system_64k_pages = capable;
        geometry.dual_ptes = dual;
        use(geometry);
        pieces_.all = {{.span = {512, 64}, .source = run(160, segment), .pages_64k = true}};
        const bool large = capable || segment != 0;
        EXPECT_EQ(update({{512, 64}}),
                  large ? "init3 init2 init1 init0k write0k link1 link2 link3 root3"
                        : "init3 init2 init1 init0 write0 link1 link2 link3 root3");
        EXPECT_EQ(memory_->walk(512 + 37)->pte.page, 160U + 37);
      }
    }
  }
}

// What is evicted has no pages that would not fit: a table of 64 KiB pages stays one.
TEST_F(PageTablesTest, EvictionLeavesTablesOf64KibPages) {
  DXGKIT_COVERS("VA-29", "VA-44");
  Geometry geometry = four_levels();
  geometry.leaf_table_bytes_64k = 4096;
  use(geometry);
  pieces_.all = {{.span = {512, 64}, .source = run(160), .pages_64k = true},
                 {.span = {704, 16}, .source = run(320), .pages_64k = true}};
  update({{512, 64}, {704, 16}});
  for (const uint64_t back : {160U, 480U}) {
    pieces_.all[0].source = {};
    EXPECT_EQ(update({{512, 64}}), "clear0k flush");
    EXPECT_FALSE(plan_.contexts_idle);
    EXPECT_FALSE(memory_->walk(515).has_value());
    EXPECT_EQ(memory_->walk(705)->pte.page, 321U);
    pieces_.all[0].source = run(back);
    EXPECT_EQ(update({{512, 64}}), "write0k");
    EXPECT_EQ(memory_->walk(515)->pte.page, back + 3);
  }
}

// A large page takes the place of both tables of its leaf: a driver that wants that hears which
// addresses the entries of each covered.
TEST_F(PageTablesTest, TablesThatALargePageReplacesAreInvalidatedByTheirAddresses) {
  DXGKIT_COVERS("PAGE-39", "VA-46");
  Geometry geometry = four_levels();
  geometry.leaf_table_bytes_64k = 4096;
  geometry.dual_ptes = geometry.large_pages = geometry.explicit_invalidation = true;
  use(geometry);
  const PageSpan leaf{5 * 512, 512};
  pieces_.all = {{.span = {leaf.first_page, 3}, .source = run(8)},
                 {.span = {leaf.first_page + 32, 16}, .source = run(160), .pages_64k = true}};
  EXPECT_EQ(update({leaf}),
            "init3 init2 init1 init0 init0k write0 write0k link1 link2 link3 root3");
  const TableId tables[] = {plan_.steps[3].table, plan_.steps[4].table};
  EXPECT_TRUE(tables_->contains(tables[0]) && tables_->contains(tables[1]));
  pieces_.all = {{.span = leaf, .source = run(1024), .large_pages = true}};
  EXPECT_EQ(update({leaf}), "large1 invalidate0 invalidate0k flush free0 free0k");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(plan_.steps[1 + i].table, tables[i]);
    EXPECT_EQ(plan_.steps[1 + i].span, leaf);
    EXPECT_EQ(plan_.steps[1 + i].count, 512U);
    EXPECT_FALSE(plan_.steps[1 + i].initial);
    EXPECT_EQ(plan_.steps[4 + i].table, tables[i]);
    EXPECT_FALSE(tables_->contains(tables[i]));
  }
  EXPECT_EQ(plan_.steps[3].span, leaf);
}

}  // namespace
}  // namespace dxgkit::gpuva
