// Page tables in simulated memory: executes plans step by step and walks the result like a device.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "gpuva/page_tables.h"

namespace dxgkit::gpuva {

class TableMemory {
 public:
  explicit TableMemory(const Geometry& geometry) : geometry_(geometry) {}

  struct Entry {
    Pte pte;  // of a leaf, or a large page
    uint64_t driver_protection = 0;
    ChildTables child;  // of a directory
    bool leads() const { return child.table != kNoTable || child.table_64k != kNoTable; }
  };
  struct Table {
    uint32_t level = 0;
    bool of_64k_pages = false;
    bool initialised = false;
    std::vector<Entry> entries;
  };
  /// A device's translation of a page. nullopt: a fault.
  struct Translation {
    Pte pte;  // the page itself
    uint64_t driver_protection = 0;
    bool operator==(const Translation&) const = default;
  };

  /// Memory for what a draft needs.
  std::vector<TableGrant> allocate(const std::vector<TableNeed>& needs, uint64_t spare_root = 0) {
    std::vector<TableGrant> grants;
    for (const TableNeed& need : needs) {
      const uint64_t entries = need.entries + (need.grows_root ? spare_root : 0);
      EXPECT_EQ(need.grows_root, need.bytes == 0);
      Table table{.level = need.level, .of_64k_pages = need.of_64k_pages, .entries = {}};
      // The previous content of memory is no translation.
      table.entries.resize(entries, {.pte = {kPteValid, 0xDEAD}, .child = {}});
      const TableId id{++last_};
      tables_.emplace(id, std::move(table));
      grants.push_back({id, entries});
    }
    return grants;
  }

  void execute(const Plan& plan) {
    for (const Step& step : plan.steps) {
      ASSERT_NO_FATAL_FAILURE(execute(step, plan));
      if (after_step) {
        ASSERT_NO_FATAL_FAILURE(after_step());
      }
    }
  }
  std::function<void()> after_step;

  std::optional<Translation> walk(uint64_t page) const {
    const TableId root = root_;
    if (root == kNoTable) return std::nullopt;
    TableId at = root;
    for (uint32_t level = geometry_.root_level(); level > 0; --level) {
      const Table& table = live(at);
      const uint64_t entry = page >> geometry_.entry_shift(level);
      const uint64_t index =
          level == geometry_.root_level()
              ? entry
              : entry & ((uint64_t{1} << geometry_.levels[level].index_bits) - 1);
      if (level == geometry_.root_level() && index >= root_entries_) return std::nullopt;
      const Entry& found = table.entries.at(index);
      if ((found.pte.flags & kPteLargePage) != 0) {
        EXPECT_EQ(level, 1U);
        EXPECT_EQ(found.driver_protection, 0U);
        Pte pte = found.pte;
        pte.flags &= ~kPteLargePage;
        pte.page += page & (geometry_.leaf_pages() - 1);
        return Translation{pte, 0};
      }
      if (level > 1) {
        if (found.child.table == kNoTable) return std::nullopt;
        at = found.child.table;
        continue;
      }
      return leaf(found.child, page & (geometry_.leaf_pages() - 1));
    }
    return std::nullopt;
  }

  const Table& live(TableId id) const {
    const auto found = tables_.find(id);
    if (found == tables_.end() || !found->second.initialised) {
      ADD_FAILURE() << "the walk meets a table that is not there";
      static const Table nothing{.entries = std::vector<Entry>(1 << 12)};
      return nothing;
    }
    return found->second;
  }
  size_t size() const { return tables_.size(); }
  TableId root() const { return root_; }
  /// Translations a device may have kept, dropped by flushes.
  std::map<uint64_t, std::optional<Translation>> tlb;

 private:
  std::optional<Translation> leaf(const ChildTables& child, uint64_t index) const {
    std::optional<Translation> found;
    if (child.table != kNoTable) {
      const Table& table = live(child.table);
      EXPECT_EQ(table.of_64k_pages, child.of_64k_pages);
      found = entry(table, index);
    }
    if (child.table_64k != kNoTable) {
      const Table& table = live(child.table_64k);
      EXPECT_TRUE(table.of_64k_pages);
      const auto other = entry(table, index);
      EXPECT_FALSE(found.has_value() && other.has_value()) << "both leaves are valid (VA-44)";
      if (other.has_value()) found = other;
    }
    return found;
  }
  /// A device reads the first entry of a 64 KiB page only; the others agree.
  static std::optional<Translation> entry(const Table& table, uint64_t index) {
    const uint64_t first = table.of_64k_pages ? index & ~uint64_t{15} : index;
    const Entry& read = table.entries.at(first);
    const Entry& own = table.entries.at(index);
    EXPECT_EQ(read.pte.flags, own.pte.flags);
    if ((read.pte.flags & kPteValid) == 0) return std::nullopt;
    Pte pte = read.pte;
    if ((pte.flags & kPteZero) == 0) {
      if (table.of_64k_pages) {
        EXPECT_EQ(pte.page % 16, 0U);
      }
      pte.page += index - first;
    }
    EXPECT_EQ(pte, own.pte);
    return Translation{pte, read.driver_protection};
  }

  void execute(const Step& step, const Plan& plan) {
    if (step.kind == Step::Kind::kFlush) {
      tlb.erase(tlb.lower_bound(step.span.first_page), tlb.lower_bound(step.span.end_page()));
      return;
    }
    ASSERT_TRUE(tables_.contains(step.table));
    Table& table = tables_.at(step.table);
    ASSERT_EQ(table.level, step.level);
    ASSERT_TRUE(table.initialised || step.kind == Step::Kind::kInvalidate);
    switch (step.kind) {
      case Step::Kind::kInvalidate:
        ASSERT_EQ(step.count, table.entries.size());
        ASSERT_EQ(step.initial, !table.initialised);
        ASSERT_TRUE(step.repeat);
        table.entries.assign(table.entries.size(), Entry());
        table.initialised = true;
        table.of_64k_pages = step.of_64k_pages;
        return;
      case Step::Kind::kWriteEntries: {
        ASSERT_LE(step.start_index + step.count, table.entries.size());
        ASSERT_EQ(step.large_page, step.level == 1);
        ASSERT_TRUE(step.level != 0 || step.of_64k_pages == table.of_64k_pages);
        ASSERT_TRUE(step.level == 0 || step.driver_protection == 0);  // PAGE-35
        std::vector<Pte> ptes(step.repeat ? 1 : step.count);
        fill_step(step, 0, ptes, geometry_.leaf_pages());
        for (uint64_t i = 0; i < step.count; ++i) {
          const Pte pte = ptes[step.repeat ? 0 : i];
          table.entries[step.start_index + i] = {pte, step.driver_protection, {}};
        }
        return;
      }
      case Step::Kind::kWriteDirectory:
        ASSERT_LE(step.start_index + step.count, table.entries.size());
        for (uint64_t i = 0; i < step.count; ++i) {
          Entry entry;
          entry.child = plan.children.at(step.first_child + i);
          table.entries[step.start_index + i] = entry;
        }
        return;
      case Step::Kind::kSetRoot:
        ASSERT_TRUE(plan.contexts_idle);  // VA-06
        ASSERT_EQ(step.count, table.entries.size());
        root_ = step.table;
        root_entries_ = step.count;
        return;
      case Step::Kind::kFree: {
        if (geometry_.explicit_invalidation) {
          for (const Entry& entry : table.entries) {
            ASSERT_EQ(entry.pte.flags, 0U);  // PAGE-39
            ASSERT_FALSE(entry.leads());
          }
        }
        tables_.erase(step.table);
        return;
      }
      case Step::Kind::kFlush:
        return;
    }
  }

  Geometry geometry_;
  std::map<TableId, Table> tables_;
  TableId root_;
  uint64_t root_entries_ = 0;
  uint64_t last_ = 0;
};

}  // namespace dxgkit::gpuva
