#include "gpuva/table_writer.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "base/check.h"
#include "gpuva/mapped_layer.h"

namespace dxgkit::gpuva {

void TableWriter::invalidate(const Table& table, bool initial) {
  plan_.steps.push_back({.kind = Step::Kind::kInvalidate,
                         .table = table.id,
                         .level = table.key.level,
                         .count = table.entries,
                         .repeat = true,
                         .initial = initial,
                         .of_64k_pages = table.of_64k_pages,
                         .span = tree_.span_of(table.key),
                         .source = {}});
}

void TableWriter::link(const TableKey& child) { links_.insert({child.level, child.number}); }

/// The directory entry that a leaf stands for; makes it if it is new.
Leaf& TableWriter::leaf_at(uint64_t number) {
  if (Leaf* const leaf = tree_.leaves.find(number)) return *leaf;
  Directory* const parent = tree_.directory(1, tree_.directory_of(1, number));
  DXGKIT_CHECK(parent != nullptr);
  ++parent->children;
  return tree_.leaves.make(number);
}

void TableWriter::create(const TableKey& key, const TableNeed& need, const TableGrant& grant) {
  DXGKIT_CHECK(grant.table != kNoTable);
  const bool fresh = tree_.tables.emplace(grant.table.value, key).second;
  DXGKIT_CHECK(fresh);
  if (key.level == 0) {
    Leaf& leaf = leaf_at(key.number);
    if (leaf.linked) flush(tree_.leaf_span(key.number));  // a valid directory entry changes
    leaf.large = false;
    (key.of_64k_pages ? leaf.table_64k : leaf.table) = grant.table;
    (key.of_64k_pages ? leaf.valid_64k : leaf.valid).reset(tree_.leaf_pages());
    leaf.of_64k_pages = need.of_64k_pages && !tree_.dual();
    invalidate({grant.table, key, tree_.leaf_pages(), need.of_64k_pages}, true);
    return link(key);
  }
  if (key.level == tree_.root_level()) return create_root(grant);
  tree_.directories[key.level][key.number].table = grant.table;
  const uint64_t leaf = tree_.first_leaf(key.level, key.number);
  Directory* const parent = tree_.directory(key.level + 1, tree_.directory_of(key.level + 1, leaf));
  DXGKIT_CHECK(parent != nullptr);
  ++parent->children;
  invalidate(directory_table(key), true);
  link(key);
}

/// The first root, or a larger root in place of the present one: it leads to the same tables
/// (VA-05).
void TableWriter::create_root(const TableGrant& grant) {
  const TableKey key{.level = tree_.root_level(), .number = 0};
  Directory& root = tree_.directories[key.level][0];
  const bool replaces = root.table != kNoTable;
  if (replaces) discard(directory_table(key));
  const uint64_t old_entries = tree_.root_entries;
  tree_.root_entries = tree_.geometry.root_grows()
                           ? grant.entries
                           : uint64_t{1} << tree_.geometry.levels[key.level].index_bits;
  DXGKIT_CHECK(tree_.root_entries > old_entries);
  root.table = grant.table;
  invalidate(directory_table(key), true);
  sets_root_ = true;
  if (!replaces) return;
  tree_.leaves.for_each([&](uint64_t number, const Leaf& leaf) {
    if (leaf.large) {
      write_large(number, leaf);
    } else {
      link({.level = 0, .number = number});
    }
  });
}

TableWriter::Table TableWriter::directory_table(const TableKey& key) const {
  return {tree_.directories[key.level].at(key.number).table, key, tree_.entries_of(key.level)};
}

void TableWriter::discard(const Table& table) {
  freed_.push_back(table);
  tree_.tables.erase(table.id.value);
}

void TableWriter::discard_leaf_tables(uint64_t number, const Leaf& leaf) {
  if (leaf.table != kNoTable)
    discard({leaf.table, {.level = 0, .number = number}, tree_.leaf_pages(), leaf.of_64k_pages});
  if (leaf.table_64k != kNoTable) {
    discard({leaf.table_64k,
             {.level = 0, .number = number, .of_64k_pages = true},
             tree_.leaf_pages(),
             true});
  }
}

/// Writes consecutive entries of one leaf table. With a null or invalid piece, valid entries become
/// invalid.
void TableWriter::write_range(uint64_t number, Leaf& leaf, bool to_64k, PageSpan span,
                              const Piece* piece) {
  if (span.pages == 0) return;
  ValidBits& bits = to_64k ? leaf.valid_64k : leaf.valid;
  const uint64_t first = span.first_page - (number << tree_.leaf_bits());
  const uint64_t before = bits.count(first, span.pages);
  const bool valid = piece != nullptr && piece->source.valid();
  if (!valid && before == 0) return;
  Step step{.kind = Step::Kind::kWriteEntries,
            .table = to_64k ? leaf.table_64k : leaf.table,
            .start_index = first,
            .count = span.pages,
            .of_64k_pages = to_64k || leaf.of_64k_pages,
            .span = span,
            .source = {}};
  if (piece != nullptr) {
    const uint64_t skipped = span.first_page - piece->span.first_page;
    step.source = piece->source.after(skipped);
    step.driver_protection = piece->driver_protection;
    step.allocation = piece->allocation;
    step.offset_pages = piece->offset_pages + skipped;
  }
  step.repeat =
      step.source.kind != PteSource::Kind::kRun && step.source.kind != PteSource::Kind::kFrames;
  plan_.steps.push_back(step);
  // PAGE-37: also where the device remembers that an entry was invalid.
  if (before > 0 || !tree_.geometry.invalid_entries_not_cached) flush(span);
  if (valid) {
    bits.set(first, span.pages);
  } else {
    bits.unset(first, span.pages);
  }
}

void TableWriter::write_plain(const LeafWork& work, Leaf& leaf, const Piece* pieces) {
  uint64_t page = work.window.first_page;
  for (size_t i = 0; i < work.pieces; ++i) {
    const Piece& piece = pieces[i];
    write_range(work.number, leaf, false, {page, piece.span.first_page - page}, nullptr);
    write_range(work.number, leaf, false, piece.span, &piece);
    page = piece.span.end_page();
  }
  write_range(work.number, leaf, false, {page, work.window.end_page() - page}, nullptr);
}

/// Each 64 KiB are in one of the two tables:
///
///   piece           |--head--|=====64 KiB=====|=====64 KiB=====|--tail--|
///   4 KiB table     | valid  |              invalid            | valid  |
///   64 KiB table  invalid    |     valid      |      valid     |   invalid
///
/// Entries that must become invalid are written first, so that the two are never valid together
/// (VA-44).
void TableWriter::write_dual(const LeafWork& work, Leaf& leaf, const Piece* pieces) {
  const auto for_each_part = [&](auto visit) {  // visit(span, piece, whether in 64 KiB pages)
    uint64_t page = work.window.first_page;
    const auto part = [&](uint64_t end, const Piece* piece, bool units) {
      if (end > page) visit(PageSpan{page, end - page}, piece, units);
      page = std::max(page, end);
    };
    for (size_t i = 0; i < work.pieces; ++i) {
      const Piece& piece = pieces[i];
      part(piece.span.first_page, nullptr, false);
      const PageSpan units = tree_.units_of(piece);
      part(units.first_page, &piece, false);
      part(units.end_page(), &piece, true);
      part(piece.span.end_page(), &piece, false);
    }
    part(work.window.end_page(), nullptr, false);
  };
  for_each_part([&](PageSpan span, const Piece* piece, bool units) {
    if (!units) {
      // The span meets these 64 KiB pages, so their entries become invalid.
      const uint64_t first = align_down(span.first_page, kUnit);
      span = {first, align_up(span.end_page(), kUnit) - first};
    }
    const Piece gone{.span = span,
                     .source = {},
                     .driver_protection = piece != nullptr ? piece->driver_protection : 0};
    write_range(work.number, leaf, !units, span, &gone);
  });
  for_each_part([&](PageSpan span, const Piece* piece, bool units) {
    write_range(work.number, leaf, units, span, piece);
  });
}

void TableWriter::write_large(uint64_t number, const Leaf& leaf) {
  const uint64_t index = tree_.index_in(1, number);
  const TableId table = tree_.directories[1].at(tree_.directory_of(1, number)).table;
  if (!plan_.steps.empty()) {
    Step& last = plan_.steps.back();
    if (last.kind == Step::Kind::kWriteEntries && last.large_page && last.table == table &&
        last.start_index + last.count == index && last.allocation == leaf.large_allocation &&
        last.source.after(last.count * tree_.leaf_pages()) == leaf.large_source) {
      ++last.count;
      last.span.pages += tree_.leaf_pages();
      return;
    }
  }
  plan_.steps.push_back({.kind = Step::Kind::kWriteEntries,
                         .table = table,
                         .level = 1,
                         .start_index = index,
                         .count = 1,
                         .large_page = true,
                         .span = tree_.leaf_span(number),
                         .source = leaf.large_source,
                         .allocation = leaf.large_allocation,
                         .offset_pages = leaf.large_offset_pages});
}

void TableWriter::write(const LeafWork& work, const Piece* pieces) {
  if (work.nothing_left) return remove(work.number);
  const PageSpan whole = tree_.leaf_span(work.number);
  if (work.shape == Shape::kLarge) {
    if (work.leaf != nullptr || !tree_.geometry.invalid_entries_not_cached) flush(whole);
    Leaf& leaf = work.leaf != nullptr ? *work.leaf : leaf_at(work.number);
    discard_leaf_tables(work.number, leaf);
    leaf = Leaf();
    leaf.linked = leaf.large = true;
    leaf.large_source = pieces[0].source;
    leaf.large_allocation = pieces[0].allocation;
    leaf.large_offset_pages = pieces[0].offset_pages;
    return write_large(work.number, leaf);
  }
  Leaf& leaf = work.leaf != nullptr ? *work.leaf : leaf_at(work.number);
  if (work.falls_back) {
    plan_.contexts_idle = true;
    leaf.of_64k_pages = false;
    if (leaf.valid.count() > 0) flush(whole);
    leaf.valid.reset(tree_.leaf_pages());
    invalidate({leaf.table, {.level = 0, .number = work.number}, tree_.leaf_pages()}, false);
    link({.level = 0, .number = work.number});
  }
  if (work.shape == Shape::kDual) return write_dual(work, leaf, pieces);
  write_plain(work, leaf, pieces);
}

/// Nothing is mapped there any more: frees its tables, and directories that become empty with them.
void TableWriter::remove(uint64_t number) {
  const Leaf& leaf = *tree_.leaves.find(number);
  flush(tree_.leaf_span(number));
  discard_leaf_tables(number, leaf);
  tree_.leaves.erase(number);
  TableKey gone{.level = 0, .number = number};
  for (uint32_t level = 1;; ++level) {
    const uint64_t parent_number = tree_.directory_of(level, number);
    Directory& parent = tree_.directories[level].at(parent_number);
    --parent.children;
    if (parent.children > 0 || level == tree_.root_level()) return link(gone);
    gone = {.level = level, .number = parent_number};
    discard(directory_table(gone));
    tree_.directories[level].erase(parent_number);
  }
}

/// Writes the directory entries that lead to tables, or to none any more, from the leaf up.
void TableWriter::write_links() {
  for (const auto& [child_level, number] : links_) {
    const uint64_t leaf_number = tree_.first_leaf(child_level, number);
    const uint32_t level = child_level + 1;
    const Directory* const parent = tree_.directory(level, tree_.directory_of(level, leaf_number));
    if (parent == nullptr) continue;  // went as well
    ChildTables child;
    if (child_level == 0) {
      if (Leaf* const leaf = tree_.leaves.find(number)) {
        if (leaf->large) continue;
        leaf->linked = true;
        child = {leaf->table, leaf->table_64k, leaf->of_64k_pages};
      }
    } else if (const Directory* const directory = tree_.directory(child_level, number)) {
      child.table = directory->table;
    }
    const uint64_t index = tree_.index_in(level, leaf_number);
    const PageSpan covered = tree_.span_of({.level = child_level, .number = number});
    if (!plan_.steps.empty()) {
      Step& last = plan_.steps.back();
      if (last.kind == Step::Kind::kWriteDirectory && last.table == parent->table &&
          last.start_index + last.count == index) {
        ++last.count;
        last.span.pages += covered.pages;
        plan_.children.push_back(child);
        continue;
      }
    }
    plan_.steps.push_back({.kind = Step::Kind::kWriteDirectory,
                           .table = parent->table,
                           .level = level,
                           .start_index = index,
                           .count = 1,
                           .span = covered,
                           .source = {},
                           .first_child = plan_.children.size()});
    plan_.children.push_back(child);
  }
}

void TableWriter::finish() {
  write_links();
  if (sets_root_) {
    const TableId root = tree_.directories[tree_.root_level()].at(0).table;
    plan_.steps.push_back({.kind = Step::Kind::kSetRoot,
                           .table = root,
                           .level = tree_.root_level(),
                           .count = tree_.root_entries,
                           .span = tree_.span_of({.level = tree_.root_level(), .number = 0}),
                           .source = {}});
    plan_.contexts_idle = true;  // VA-06
  }
  if (tree_.geometry.explicit_invalidation) {
    for (const Table& freed : freed_) invalidate(freed, false);
  }
  normalise(&flushes_, 0);
  for (const PageSpan& span : flushes_)
    plan_.steps.push_back({.kind = Step::Kind::kFlush, .span = span, .source = {}});
  for (const Table& freed : freed_) {
    plan_.steps.push_back({.kind = Step::Kind::kFree,
                           .table = freed.id,
                           .level = freed.key.level,
                           .of_64k_pages = freed.of_64k_pages,
                           .span = {},
                           .source = {}});
  }
  if (tree_.geometry.idle_for_updates && !plan_.steps.empty()) plan_.contexts_idle = true;
}

}  // namespace dxgkit::gpuva
