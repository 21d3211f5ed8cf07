// The page tables that exist. Private to the module.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <unordered_map>
#include <vector>

#include "gpuva/leaf_table.h"
#include "gpuva/page_tables.h"
#include "gpuva/valid_bits.h"

namespace dxgkit::gpuva {

inline constexpr uint64_t kUnit = 16;  // entries of 4 KiB in a page of 64 KiB

/// A table, named by the addresses that it covers: directory `number` of its level, or leaf
/// `number`.
struct TableKey {
  uint32_t level = 0;
  uint64_t number = 0;
  bool of_64k_pages = false;  // dual entries only
  auto operator<=>(const TableKey&) const = default;
};

struct Directory {
  TableId table;
  uint64_t children = 0;  // valid entries
};

/// The target of one entry of a level-1 directory.
struct Leaf {
  TableId table, table_64k;  // single entries: `table` only, of either kind
  ValidBits valid, valid_64k;
  bool of_64k_pages = false;  // single entries: `table` is of 64 KiB pages
  bool linked = false;        // the directory's entry has been written
  bool large = false;         // no table: the entry is a large page, this one:
  PteSource large_source;
  AllocationId large_allocation = kNoAllocation;
  uint64_t large_offset_pages = 0;
  bool has_table() const { return table != kNoTable || table_64k != kNoTable; }
};

enum class Shape : uint8_t {
  kTable,    // entries of 4 KiB pages
  kTable64,  // single entries, 64 KiB pages
  kDual,
  kLarge,
};

/// The tables of one address space by the addresses that they cover, without pointers between them.
/// A leaf stands for an entry of a level-1 directory that is in use.
struct TableTree {
  explicit TableTree(const Geometry& g) : geometry(g) {}

  uint32_t leaf_bits() const { return geometry.levels[0].index_bits; }
  uint64_t leaf_pages() const { return geometry.leaf_pages(); }
  uint32_t root_level() const { return geometry.root_level(); }
  bool has_64k() const { return geometry.leaf_table_bytes_64k != 0 && leaf_pages() >= kUnit; }
  bool dual() const { return has_64k() && geometry.dual_ptes; }
  PageSpan leaf_span(uint64_t number) const { return {number << leaf_bits(), leaf_pages()}; }
  /// The directory of `level` that has a leaf below it, and the index in it on the way to the leaf.
  uint64_t directory_of(uint32_t level, uint64_t leaf) const {
    if (level == root_level()) return 0;
    return leaf << leaf_bits() >> geometry.entry_shift(level + 1);
  }
  uint64_t index_in(uint32_t level, uint64_t leaf) const {
    const uint64_t entry = leaf << leaf_bits() >> geometry.entry_shift(level);
    if (level == root_level()) return entry;
    return entry & ((uint64_t{1} << geometry.levels[level].index_bits) - 1);
  }
  /// The first leaf below table `number` of a level, itself on level 0; not of the root's.
  uint64_t first_leaf(uint32_t level, uint64_t number) const {
    return number << geometry.entry_shift(level + 1) >> leaf_bits();
  }
  uint64_t entries_of(uint32_t level) const {
    return level == root_level() ? root_entries : uint64_t{1} << geometry.levels[level].index_bits;
  }
  PageSpan span_of(const TableKey& key) const {
    if (key.level == root_level()) {
      const uint64_t pages = root_entries << geometry.entry_shift(key.level);
      return {0, std::min(pages, geometry.space_pages())};
    }
    const uint32_t shift = geometry.entry_shift(key.level + 1);
    return {key.number << shift, uint64_t{1} << shift};
  }
  Directory* directory(uint32_t level, uint64_t number) {
    const auto found = directories[level].find(number);
    return found == directories[level].end() ? nullptr : &found->second;
  }
  bool run_may_be_64k(const Piece& piece) const;
  bool fits_64k(const Piece& piece) const;
  PageSpan units_of(const Piece& piece) const;

  Geometry geometry;
  uint64_t version = 0;
  uint64_t root_entries = 0;
  LeafTable<Leaf> leaves;
  std::array<std::map<uint64_t, Directory>, Geometry::kLevelsMost> directories;  // by level
  std::unordered_map<uint64_t, TableKey> tables;  // by id; never iterated
};

}  // namespace dxgkit::gpuva
