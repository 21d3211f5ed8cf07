// The steps of one plan while it is made. Private to the module.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "gpuva/table_drafter.h"
#include "gpuva/table_tree.h"

namespace dxgkit::gpuva {

/// Changes a TableTree and records the steps. A walk of the tables meanwhile never meets a table
/// before its content: entries of new tables come first, then the entries that lead to them, from
/// the leaf up. Tables that are no longer needed are cut off, flushed, and freed at the end.
class TableWriter {
 public:
  TableWriter(TableTree& tree, Plan* plan) : tree_(tree), plan_(*plan) {}

  /// Makes a new table with all entries invalid (PAGE-33). Its parent must exist.
  void create(const TableKey& key, const TableNeed& need, const TableGrant& grant);
  /// Writes the entries of one leaf. Leaves with `nothing_left` must come after all others.
  void write(const LeafWork& work, const Piece* pieces);
  /// Call it after all entries were written.
  void finish();

  struct Table {
    TableId id;
    TableKey key;
    uint64_t entries = 0;
    bool of_64k_pages = false;
  };
  void invalidate(const Table& table, bool initial);
  /// Records that the entry that leads to the table must be written.
  void link(const TableKey& child);
  void flush(PageSpan span) { flushes_.push_back(span); }
  /// Records that the table must be freed.
  void discard(const Table& table);
  void discard_leaf_tables(uint64_t number, const Leaf& leaf);
  Table directory_table(const TableKey& key) const;

 private:
  void write_range(uint64_t number, Leaf& leaf, bool to_64k, PageSpan span, const Piece* piece);
  void write_plain(const LeafWork& work, Leaf& leaf, const Piece* pieces);
  void write_dual(const LeafWork& work, Leaf& leaf, const Piece* pieces);
  void write_large(uint64_t number, const Leaf& leaf);
  void create_root(const TableGrant& grant);
  void remove(uint64_t number);
  Leaf& leaf_at(uint64_t number);
  void write_links();

  TableTree& tree_;
  Plan& plan_;
  bool sets_root_ = false;
  PageSpans flushes_;
  std::vector<Table> freed_;
  std::set<std::pair<uint32_t, uint64_t>> links_;  // level and number of the child
};

}  // namespace dxgkit::gpuva
