#include "gpuva/page_tables.h"

#include <algorithm>
#include <set>

#include "base/arithmetic.h"
#include "base/check.h"
#include "gpuva/mapped_layer.h"
#include "gpuva/table_tree.h"
#include "gpuva/table_writer.h"

namespace dxgkit::gpuva {
PageTables::Draft::Draft() : body_(std::make_unique<Body>()) {}
PageTables::Draft::~Draft() = default;
PageTables::Draft::Draft(Draft&&) noexcept = default;
PageTables::Draft& PageTables::Draft::operator=(Draft&&) noexcept = default;
const std::vector<TableNeed>& PageTables::Draft::needs() const { return body_->needs; }

PageTables::PageTables(const Geometry& geometry) : state_(std::make_unique<State>(geometry)) {}
PageTables::~PageTables() = default;
PageTables::PageTables(PageTables&&) noexcept = default;
PageTables& PageTables::operator=(PageTables&&) noexcept = default;
const Geometry& PageTables::geometry() const { return state_->geometry; }

// --- draft.
// ---------------------------------------------------------------------------------------

namespace {

/// The part of a piece inside a window it meets.
Piece clipped(const Piece& piece, PageSpan window) {
  const uint64_t first = std::max(piece.span.first_page, window.first_page);
  const uint64_t end = std::min(piece.span.end_page(), window.end_page());
  Piece part = piece;
  part.span = {first, end - first};
  part.source = piece.source.after(first - piece.span.first_page);
  part.offset_pages += first - piece.span.first_page;
  return part;
}

/// Leaves that meet the changed spans and matter: they exist or something is mapped there. Each
/// comes once, with the smallest window that has all changes.
class LeafCollector {
 public:
  explicit LeafCollector(uint32_t leaf_bits) : leaf_bits_(leaf_bits) {}
  void add(uint64_t leaf, PageSpan span) {
    const uint64_t first = std::max(span.first_page, leaf << leaf_bits_);
    const uint64_t end = std::min(span.end_page(), (leaf + 1) << leaf_bits_);
    if (!windows_.empty() && windows_.back().number == leaf) {
      LeafWork& work = windows_.back();
      PageSpan& window = work.window;
      if (first == window.first_page && end == window.end_page()) return;
      work.several = true;
      window.pages = std::max(end, window.end_page()) - window.first_page;
      return;
    }
    windows_.push_back({.number = leaf, .window = {first, end - first}});
  }
  std::vector<LeafWork> take() { return std::move(windows_); }

 private:
  uint32_t leaf_bits_;
  std::vector<LeafWork> windows_;
};

}  // namespace

PageTables::Draft PageTables::draft(std::span<const PageSpan> changed,
                                    const PieceSource& source) const {
  const State& state = *state_;
  Draft draft;
  Draft::Body& body = *draft.body_;
  body.version = state.version;
  PageSpans spans(changed.begin(), changed.end());
  std::erase_if(spans, [](const PageSpan& span) { return span.pages == 0; });
  normalise(&spans, 0);
  if (state.has_64k()) {
    for (PageSpan& span : spans) {
      const uint64_t end = align_up(span.end_page(), kUnit);
      span.first_page = align_down(span.first_page, kUnit);
      span.pages = end - span.first_page;
    }
    normalise(&spans, 0);
  }

  // Which leaves: by what is mapped, and by which exist.
  LeafCollector collector(state.leaf_bits());
  std::vector<Piece> mapped;  // of all spans
  for (const PageSpan& span : spans) {
    DXGKIT_CHECK(span.end_page() <= state.geometry.space_pages());
    const size_t first_piece = mapped.size();
    source.pieces_in(span, &mapped);
    auto leaf = state.leaves.lower_bound(span.first_page >> state.leaf_bits());
    const uint64_t last = (span.end_page() - 1) >> state.leaf_bits();
    const auto add_existing_below = [&](uint64_t limit) {
      for (; leaf != state.leaves.end() && leaf->first < limit; ++leaf)
        collector.add(leaf->first, span);
    };
    for (const Piece& piece : std::span(mapped).subspan(first_piece)) {
      if (!piece.source.valid()) continue;
      const uint64_t first = piece.span.first_page >> state.leaf_bits();
      const uint64_t end = ((piece.span.end_page() - 1) >> state.leaf_bits()) + 1;
      for (uint64_t number = first; number < end; ++number) {
        add_existing_below(number);
        if (leaf != state.leaves.end() && leaf->first == number) ++leaf;
        collector.add(number, span);
      }
    }
    add_existing_below(last + 1);
  }
  body.works = collector.take();

  std::set<TableKey> wanted;
  uint64_t root_entries = 0;
  const auto want = [&](const TableKey& key, bool grows_root, uint64_t entries, uint32_t bytes,
                        bool of_64k_pages = false) {
    if (!wanted.insert(key).second) return;
    const PageSpan span = key.level == state.root_level()
                              ? PageSpan{0, entries << state.geometry.entry_shift(key.level)}
                              : state.span_of(key);
    body.needs.push_back({.level = key.level,
                          .of_64k_pages = of_64k_pages,
                          .grows_root = grows_root,
                          .span = span,
                          .entries = entries,
                          .bytes = bytes,
                          .alignment_bytes = state.geometry.levels[key.level].alignment_bytes});
    body.keys.push_back(key);
  };
  // A growing root is wanted once, in its final size, and before all others.
  if (state.geometry.root_grows()) {
    for (const LeafWork& work : body.works) root_entries = std::max(root_entries, work.number + 1);
    if (root_entries > state.root_entries) {
      const uint64_t initial = uint64_t{1} << std::min(state.geometry.levels[1].index_bits, 31U);
      const uint64_t most = state.geometry.root_entries_most();
      root_entries = std::min(std::max(root_entries, initial), most);
    }
  }
  const auto want_directories = [&](uint64_t leaf) {
    for (uint32_t level = state.root_level(); level > 0; --level) {
      const uint64_t number = state.directory_of(level, leaf);
      if (level == state.root_level() && state.geometry.root_grows()) {
        if (root_entries > state.root_entries) want({level, 0}, true, root_entries, 0);
        continue;
      }
      if (state.directories[level].contains(number)) continue;
      want({level, number}, false, uint64_t{1} << state.geometry.levels[level].index_bits,
           state.geometry.levels[level].table_bytes);
    }
  };

  const uint32_t bytes_4k = state.geometry.levels[0].table_bytes;
  const uint32_t bytes_64k = state.geometry.leaf_table_bytes_64k;
  auto known = mapped.begin();  // the first piece that may concern the next leaf
  std::vector<LeafWork> kept;
  kept.reserve(body.works.size());
  for (LeafWork& work : body.works) {
    const auto found = state.leaves.find(work.number);
    const Leaf* const leaf = found == state.leaves.end() ? nullptr : &found->second;
    work.first_piece = body.pieces.size();
    const auto read = [&](PageSpan window) {
      work.window = window;
      body.pieces.resize(work.first_piece);
      source.pieces_in(window, &body.pieces);
      work.pieces = body.pieces.size() - work.first_piece;
    };
    const auto any = [&](auto predicate) {
      return std::any_of(body.pieces.begin() + static_cast<std::ptrdiff_t>(work.first_piece),
                         body.pieces.end(), predicate);
    };
    const auto is_valid = [](const Piece& piece) { return piece.source.valid(); };
    const PageSpan whole = state.leaf_span(work.number);
    while (known != mapped.end() && known->span.end_page() <= work.window.first_page) ++known;
    if (work.several) {
      read(work.window);
    } else {
      for (auto piece = known;
           piece != mapped.end() && piece->span.first_page < work.window.end_page(); ++piece) {
        body.pieces.push_back(clipped(*piece, work.window));
      }
      work.pieces = body.pieces.size() - work.first_piece;
    }
    if (leaf != nullptr && leaf->large && work.window != whole) read(whole);
    if (state.is_large(work, body.pieces.data() + work.first_piece)) {
      work.shape = Shape::kLarge;
      want_directories(work.number);
      kept.push_back(work);
      continue;
    }
    const bool anything = any(is_valid);
    const bool tables = leaf != nullptr && leaf->has_table();
    if (!tables && !anything) {
      if (leaf != nullptr) {  // a large page goes
        work.nothing_left = true;
        kept.push_back(work);
      }
      continue;
    }
    if (state.dual()) {
      work.shape = Shape::kDual;
    } else if (state.has_64k()) {
      const bool fits = !any([&](const Piece& piece) { return !state.fits_64k(piece); });
      if (fits && (!tables || leaf->of_64k_pages)) {
        work.shape = Shape::kTable64;
      } else if (tables && leaf->of_64k_pages) {
        work.falls_back = true;
        read(whole);
      }
    }
    if (anything) {
      want_directories(work.number);
      const uint64_t entries = state.leaf_pages();
      if (work.shape == Shape::kDual) {
        bool small = false;
        bool big = false;
        for (size_t i = 0; i < work.pieces; ++i) {
          const Piece& piece = body.pieces[work.first_piece + i];
          if (!piece.source.valid()) continue;
          const PageSpan middle = state.units_of(piece);
          big = big || middle.pages > 0;
          small = small || middle.pages < piece.span.pages;
        }
        if (small && (leaf == nullptr || leaf->table == kNoTable))
          want({0, work.number}, false, entries, bytes_4k);
        if (big && (leaf == nullptr || leaf->table_64k == kNoTable))
          want({0, work.number, true}, false, entries, bytes_64k, true);
      } else if (!tables) {
        // Single entries: the same memory serves both page sizes.
        const uint32_t bytes = state.has_64k() ? std::max(bytes_4k, bytes_64k) : bytes_4k;
        want({0, work.number}, false, entries, bytes, work.shape == Shape::kTable64);
      }
    } else if (work.pieces == 0) {
      const uint64_t first = work.window.first_page - whole.first_page;
      const uint64_t elsewhere = leaf->valid.count() - leaf->valid.count(first, work.window.pages) +
                                 leaf->valid_64k.count() -
                                 leaf->valid_64k.count(first, work.window.pages);
      if (elsewhere == 0) {
        std::vector<Piece> all;
        source.pieces_in(whole, &all);
        work.nothing_left = all.empty();
      }
    }
    kept.push_back(work);
  }
  body.works = std::move(kept);
  return draft;
}

// --- commit.
// --------------------------------------------------------------------------------------

void PageTables::commit(Draft&& draft, std::span<const TableGrant> grants, Plan* plan) {
  State& state = *state_;
  const Draft::Body& body = *draft.body_;
  DXGKIT_CHECK(body.version == state.version);
  DXGKIT_CHECK(grants.size() == body.needs.size());
  ++state.version;
  TableWriter writer(state, plan);
  for (size_t i = 0; i < grants.size(); ++i) {
    DXGKIT_CHECK(!body.needs[i].grows_root || grants[i].entries >= body.needs[i].entries);
    writer.create(body.keys[i], body.needs[i], grants[i]);
  }
  // What goes goes last: directories stay while others need them.
  for (const bool going : {false, true}) {
    for (const LeafWork& work : body.works) {
      if (work.nothing_left == going) writer.write(work, body.pieces.data() + work.first_piece);
    }
  }
  writer.finish();
}

void PageTables::relocated(TableId table, Plan* plan) const {
  const State& state = *state_;
  const auto found = state.tables.find(table.value);
  DXGKIT_CHECK(found != state.tables.end());
  TableWriter writer(*state_, plan);
  if (found->second.level == state.root_level()) {
    writer.set_root();
  } else {
    writer.link(found->second);
  }
  writer.flush(state.span_of(found->second));
  writer.finish();
}

void PageTables::destroy(Plan* plan) {
  State& state = *state_;
  ++state.version;
  if (state.tables.empty()) return;
  TableWriter writer(state, plan);
  writer.flush({0, state.geometry.space_pages()});
  for (const auto& [number, leaf] : state.leaves) writer.discard_leaf_tables(number, leaf);
  for (uint32_t level = 1; level < state.geometry.level_count; ++level) {
    for (const auto& [number, directory] : state.directories[level])
      writer.discard(writer.directory_table({.level = level, .number = number}));
  }
  writer.finish();
  state.leaves.clear();
  for (auto& level : state.directories) level.clear();
  state.root_entries = 0;
}

std::optional<std::vector<PageTables::CopyRange>> PageTables::copy(uint64_t source_page,
                                                                   PageSpan destination) {
  State& state = *state_;
  const uint64_t source_end = source_page + destination.pages;
  if (source_page < destination.end_page() && destination.first_page < source_end)
    return std::nullopt;
  std::vector<CopyRange> ranges;
  const auto leaf_of = [&](uint64_t page, uint64_t count) -> Leaf* {
    const auto found = state.leaves.find(page >> state.leaf_bits());
    if (found == state.leaves.end()) return nullptr;
    Leaf& leaf = found->second;
    if (leaf.table == kNoTable || leaf.of_64k_pages) return nullptr;
    const uint64_t index = page & (state.leaf_pages() - 1);
    return leaf.valid_64k.count(index, count) == 0 ? &leaf : nullptr;
  };
  const auto for_each_range = [&](auto visit) {
    for (uint64_t done = 0; done < destination.pages;) {
      const uint64_t from = source_page + done;
      const uint64_t to = destination.first_page + done;
      const uint64_t mask = state.leaf_pages() - 1;
      const uint64_t count = std::min({destination.pages - done, state.leaf_pages() - (from & mask),
                                       state.leaf_pages() - (to & mask)});
      Leaf* const source = leaf_of(from, count);
      Leaf* const target = leaf_of(to, count);
      if (source == nullptr || target == nullptr) return false;
      visit(*source, *target, from & mask, to & mask, count);
      done += count;
    }
    return true;
  };
  const bool possible =
      for_each_range([&](Leaf& source, Leaf& target, uint64_t from, uint64_t to, uint64_t count) {
        ranges.push_back({source.table, target.table, from, to, count});
      });
  if (!possible) return std::nullopt;
  ++state.version;
  for_each_range([&](Leaf& source, Leaf& target, uint64_t from, uint64_t to, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      if (source.valid.has(from + i)) {
        target.valid.set(to + i, 1);
      } else {
        target.valid.unset(to + i, 1);
      }
    }
  });
  return ranges;
}

// --- questions.
// -----------------------------------------------------------------------------------

std::optional<PageTables::TableInfo> PageTables::find(TableId table) const {
  const State& state = *state_;
  const auto found = state.tables.find(table.value);
  if (found == state.tables.end()) return std::nullopt;
  const TableKey& key = found->second;
  TableInfo info{.level = key.level,
                 .of_64k_pages = key.of_64k_pages,
                 .span = state.span_of(key),
                 .entries = key.level == 0 ? state.leaf_pages() : state.entries_of(key.level),
                 .parent = kNoTable};
  if (key.level == 0 && !key.of_64k_pages)
    info.of_64k_pages = state.leaves.at(key.number).of_64k_pages;
  if (key.level == state.root_level()) return info;
  const uint64_t leaf = state.first_leaf(key.level, key.number);
  const uint32_t above = key.level + 1;
  info.parent = state.directories[above].at(state.directory_of(above, leaf)).table;
  info.index_in_parent = state.index_in(above, leaf);
  return info;
}

TableId PageTables::root() const {
  const auto& roots = state_->directories[state_->root_level()];
  return roots.empty() ? kNoTable : roots.begin()->second.table;
}

uint64_t PageTables::root_entries() const { return state_->root_entries; }
size_t PageTables::table_count() const { return state_->tables.size(); }

size_t PageTables::bytes() const {
  constexpr size_t kNode = 4 * sizeof(void*);
  const State& state = *state_;
  size_t bytes = sizeof(State) + state.tables.size() * (kNode + sizeof(TableKey));
  for (const auto& [number, leaf] : state.leaves)
    bytes += kNode + sizeof(number) + sizeof(leaf) + leaf.valid.bytes() + leaf.valid_64k.bytes();
  for (const auto& level : state.directories)
    bytes += level.size() * (kNode + sizeof(uint64_t) + sizeof(Directory));
  return bytes;
}

bool PageTables::validate() const {
  const State& state = *state_;
  size_t tables = 0;
  const auto known = [&](TableId table, const TableKey& key) {
    ++tables;
    const auto found = state.tables.find(table.value);
    return found != state.tables.end() && found->second == key;
  };
  std::map<TableKey, uint64_t> children;
  for (const auto& [number, leaf] : state.leaves) {
    ++children[{1, state.directory_of(1, number)}];
    if (leaf.large == leaf.has_table()) return false;
    if (leaf.table != kNoTable && !known(leaf.table, {0, number})) return false;
    if (leaf.table_64k != kNoTable && !known(leaf.table_64k, {0, number, true})) return false;
    for (uint64_t page = 0; page < state.leaf_pages(); ++page) {
      if (leaf.valid.has(page) && leaf.valid_64k.has(page)) return false;  // VA-44
    }
  }
  for (uint32_t level = 1; level < state.geometry.level_count; ++level) {
    for (const auto& [number, directory] : state.directories[level]) {
      if (!known(directory.table, {level, number})) return false;
      if (directory.children != children[{level, number}]) return false;
      if (level == state.root_level()) continue;
      if (directory.children == 0) return false;
      ++children[{level + 1, state.directory_of(level + 1, state.first_leaf(level, number))}];
    }
  }
  return tables == state.tables.size();
}

// --- entries.
// -------------------------------------------------------------------------------------

void fill_step(const Step& step, uint64_t first, std::span<Pte> entries, uint64_t leaf_pages) {
  if (step.kind == Step::Kind::kInvalidate) return fill_ptes({}, entries);
  if (!step.large_page) return fill_ptes(step.source.after(first), entries);
  fill_ptes(step.source.after(first * leaf_pages), entries, kPteLargePage, leaf_pages);
}

Pte directory_pte(SegmentId segment, uint64_t page, bool of_64k_pages) {
  return {kPteValid | (of_64k_pages ? kPteTableOf64kPages : 0) |
              (uint64_t{segment.value} << kPteSegmentShift & kPteSegmentMask),
          page};
}

}  // namespace dxgkit::gpuva
