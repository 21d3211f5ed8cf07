#include "gpuva/table_drafter.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "base/check.h"
#include "gpuva/mapped_layer.h"

namespace dxgkit::gpuva {
namespace {

/// The part of a piece inside a window that it meets.
Piece clipped(const Piece& piece, PageSpan window) {
  const uint64_t first = std::max(piece.span.first_page, window.first_page);
  const uint64_t end = std::min(piece.span.end_page(), window.end_page());
  Piece part = piece;
  part.span = {first, end - first};
  part.source = piece.source.after(first - piece.span.first_page);
  part.offset_pages += first - piece.span.first_page;
  return part;
}

/// Prefetches all of a leaf's record.
void expect(const Leaf* leaf) {
  const auto* bytes = reinterpret_cast<const char*>(leaf);
  for (size_t line = 0; leaf != nullptr && line < sizeof(Leaf); line += 64)
    __builtin_prefetch(bytes + line);
}

bool is_valid(const Piece& piece) { return piece.source.valid(); }

}  // namespace

void TableDrafter::make(std::span<const PageSpan> changed, bool with_root) {
  work_.version = tree_.version;
  work_.needs.clear();
  work_.keys.clear();
  work_.leaves.clear();
  work_.pieces.clear();
  work_.mapped.clear();
  take_spans(changed);
  for (const PageSpan& span : work_.spans) collect(span);
  size_root();
  if (with_root) want_root();
  std::erase_if(work_.leaves, [&](LeafWork& work) { return !decide(&work); });
}

/// Sorts the spans, separates them, and extends them to whole 64 KiB pages where there are such
/// pages.
void TableDrafter::take_spans(std::span<const PageSpan> changed) {
  PageSpans& spans = work_.spans;
  spans.assign(changed.begin(), changed.end());
  std::erase_if(spans, [](const PageSpan& span) { return span.pages == 0; });
  if (tree_.has_64k()) {
    for (PageSpan& span : spans) {
      const uint64_t end = align_up(span.end_page(), kUnit);
      span.first_page = align_down(span.first_page, kUnit);
      span.pages = end - span.first_page;
    }
  }
  normalise(&spans, 0);
}

/// The leaves in a span that exist, or in which a page is mapped.
void TableDrafter::collect(const PageSpan& span) {
  DXGKIT_CHECK(span.end_page() <= tree_.geometry.space_pages());
  const size_t first_piece = work_.mapped.size();
  source_.pieces_in(span, &work_.mapped);
  const uint64_t first_leaf = span.first_page >> tree_.leaf_bits();
  const uint64_t last_leaf = (span.end_page() - 1) >> tree_.leaf_bits();
  uint64_t next = first_leaf;  // leaves before it are done
  const auto add_existing_below = [&](uint64_t end) {
    tree_.leaves.for_each_in(next, end,
                             [&](uint64_t number, Leaf& leaf) { add_leaf(number, &leaf, span); });
    next = end;
  };
  for (const Piece& piece : std::span(work_.mapped).subspan(first_piece)) {
    if (!is_valid(piece)) continue;
    const uint64_t first = piece.span.first_page >> tree_.leaf_bits();
    const uint64_t last = (piece.span.end_page() - 1) >> tree_.leaf_bits();
    if (next < first) add_existing_below(first);
    for (; next <= last; ++next) add_leaf(next, tree_.leaves.find(next), span);
  }
  add_existing_below(last_leaf + 1);
}

/// Each leaf is visited once, with the smallest window that has all changes.
void TableDrafter::add_leaf(uint64_t number, Leaf* leaf, const PageSpan& span) {
  const PageSpan whole = tree_.leaf_span(number);
  const uint64_t first = std::max(span.first_page, whole.first_page);
  const uint64_t end = std::min(span.end_page(), whole.end_page());
  if (work_.leaves.empty() || work_.leaves.back().number != number) {
    work_.leaves.push_back({.number = number, .leaf = leaf, .window = {first, end - first}});
    expect(leaf);
    return;
  }
  LeafWork& work = work_.leaves.back();
  if (first >= work.window.first_page && end <= work.window.end_page()) return;
  work.several = true;
  work.window.pages = std::max(end, work.window.end_page()) - work.window.first_page;
}

/// A root that grows does so once, to its final size.
void TableDrafter::size_root() {
  root_entries_ = uint64_t{1} << std::min(tree_.geometry.levels[1].index_bits, 31U);
  if (!work_.leaves.empty())
    root_entries_ = std::max(root_entries_, work_.leaves.back().number + 1);
  root_entries_ = std::min(root_entries_, tree_.geometry.root_entries_most());
}

void TableDrafter::read(LeafWork* work, PageSpan window) {
  work->window = window;
  work_.pieces.resize(work->first_piece);
  source_.pieces_in(window, &work_.pieces);
  work->pieces = work_.pieces.size() - work->first_piece;
}

/// The same from the pieces that were read for the whole span.
void TableDrafter::take_known(LeafWork* work) {
  const std::vector<Piece>& mapped = work_.mapped;
  while (known_ < mapped.size() && mapped[known_].span.end_page() <= work->window.first_page)
    ++known_;
  for (size_t i = known_; i < mapped.size() && mapped[i].span.first_page < work->window.end_page();
       ++i) {
    work_.pieces.push_back(clipped(mapped[i], work->window));
  }
  work->pieces = work_.pieces.size() - work->first_piece;
}

bool TableDrafter::is_large(const LeafWork& work) const {
  if (!tree_.geometry.large_pages || work.pieces != 1) return false;
  const Piece& piece = work_.pieces[work.first_piece];
  if (piece.span != tree_.leaf_span(work.number)) return false;
  if (piece.source.kind != PteSource::Kind::kRun || !piece.large_pages) return false;
  // A driver protection reaches leaf entries only (PAGE-35): such pages stay there.
  if (piece.driver_protection != 0) return false;
  return tree_.geometry.unaligned_large_pages || piece.source.first_page % tree_.leaf_pages() == 0;
}

/// False: there is nothing to do.
bool TableDrafter::decide(LeafWork* work) {
  Leaf* const leaf = work->leaf;
  work->first_piece = work_.pieces.size();
  if (leaf != nullptr && leaf->large) {
    read(work, tree_.leaf_span(work->number));  // all or nothing
  } else if (work->several) {
    read(work, work->window);
  } else {
    take_known(work);
  }
  if (is_large(*work)) {
    work->shape = Shape::kLarge;
    if (leaf == nullptr) want_directories(work->number);
    return true;
  }
  const bool anything = std::ranges::any_of(pieces_of(*work), is_valid);
  const bool has_table = leaf != nullptr && leaf->has_table();
  if (!anything && !has_table) {
    work->nothing_left = true;  // a large page is removed
    return leaf != nullptr;
  }
  decide_shape(work);
  if (anything) {
    if (leaf == nullptr) want_directories(work->number);
    want_leaf(*work);
  } else if (work->pieces == 0) {
    work->nothing_left = maps_nothing(*work);
  }
  return true;
}

void TableDrafter::decide_shape(LeafWork* work) {
  if (tree_.dual()) {
    work->shape = Shape::kDual;
    return;
  }
  if (!tree_.has_64k()) return;
  const Leaf* const leaf = work->leaf;
  const bool has_table = leaf != nullptr && leaf->has_table();
  if (has_table && !leaf->of_64k_pages) return;  // there is no way back (VA-44)
  const auto fits = [&](const Piece& piece) { return tree_.fits_64k(piece); };
  if (std::ranges::all_of(pieces_of(*work), fits)) {
    work->shape = Shape::kTable64;
  } else if (has_table) {
    work->falls_back = true;
    read(work, tree_.leaf_span(work->number));
  }
}

/// True if the rest of a leaf has no pieces either. The window of the leaf must have none.
bool TableDrafter::maps_nothing(const LeafWork& work) const {
  const PageSpan whole = tree_.leaf_span(work.number);
  const uint64_t first = work.window.first_page - whole.first_page;
  for (const ValidBits* bits : {&work.leaf->valid, &work.leaf->valid_64k}) {
    if (bits->count() != bits->count(first, work.window.pages)) return false;
  }
  std::vector<Piece> all;
  source_.pieces_in(whole, &all);
  return all.empty();
}

void TableDrafter::want(const TableKey& key, TableNeed need) {
  if (!wanted_.insert(key).second) return;
  need.level = key.level;
  need.alignment_bytes = tree_.geometry.levels[key.level].alignment_bytes;
  need.span = key.level == tree_.root_level()
                  ? PageSpan{0, need.entries << tree_.geometry.entry_shift(key.level)}
                  : tree_.span_of(key);
  work_.needs.push_back(need);
  work_.keys.push_back(key);
}

/// Adds all directories on the way to a leaf, from the root down.
void TableDrafter::want_directories(uint64_t leaf) {
  want_root();
  for (uint32_t level = tree_.root_level() - 1; level > 0; --level) {
    const uint64_t number = tree_.directory_of(level, leaf);
    if (!tree_.directories[level].contains(number)) want_directory({level, number});
  }
}

void TableDrafter::want_directory(const TableKey& key) {
  const TableLevel& shape = tree_.geometry.levels[key.level];
  want(key, {.span = {}, .entries = uint64_t{1} << shape.index_bits, .bytes = shape.table_bytes});
}

void TableDrafter::want_root() {
  const TableKey root{tree_.root_level(), 0};
  if (!tree_.geometry.root_grows()) {
    if (!tree_.directories[root.level].contains(0)) want_directory(root);
  } else if (root_entries_ > tree_.root_entries) {
    want(root, {.grows_root = true, .span = {}, .entries = root_entries_});
  }
}

/// Adds the leaf tables that the valid pieces of a leaf need and that it does not have.
void TableDrafter::want_leaf(const LeafWork& work) {
  const Leaf* const leaf = work.leaf;
  const uint32_t bytes = tree_.geometry.levels[0].table_bytes;
  const uint32_t bytes_64k = tree_.geometry.leaf_table_bytes_64k;
  TableNeed need{.span = {}, .entries = tree_.leaf_pages(), .bytes = bytes};
  if (work.shape != Shape::kDual) {
    if (leaf != nullptr && leaf->has_table()) return;
    // Single entries: the same memory serves both page sizes.
    if (tree_.has_64k()) need.bytes = std::max(bytes, bytes_64k);
    need.of_64k_pages = work.shape == Shape::kTable64;
    return want({0, work.number}, need);
  }
  bool small = leaf != nullptr && leaf->table != kNoTable;
  bool big = leaf != nullptr && leaf->table_64k != kNoTable;
  for (const Piece& piece : pieces_of(work)) {
    if (!is_valid(piece)) continue;
    const PageSpan units = tree_.units_of(piece);
    if (!small && units.pages < piece.span.pages) {
      small = true;
      want({0, work.number}, need);
    }
    if (!big && units.pages != 0) {
      big = true;
      TableNeed other = need;
      other.bytes = bytes_64k;
      other.of_64k_pages = true;
      want({0, work.number, true}, other);
    }
  }
}

}  // namespace dxgkit::gpuva
