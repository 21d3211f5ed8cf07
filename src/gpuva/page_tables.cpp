#include "gpuva/page_tables.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "base/check.h"
#include "gpuva/table_drafter.h"
#include "gpuva/table_tree.h"
#include "gpuva/table_writer.h"

namespace dxgkit::gpuva {
PageTables::Draft::Draft() = default;
PageTables::Draft::~Draft() = default;
PageTables::Draft::Draft(Draft&&) noexcept = default;
PageTables::Draft& PageTables::Draft::operator=(Draft&&) noexcept = default;
const std::vector<TableNeed>& PageTables::Draft::needs() const {
  DXGKIT_CHECK(body_ != nullptr);
  return body_->work.needs;
}

PageTables::PageTables(const Geometry& geometry) : state_(std::make_unique<State>(geometry)) {}
PageTables::~PageTables() = default;
PageTables::PageTables(PageTables&&) noexcept = default;
PageTables& PageTables::operator=(PageTables&&) noexcept = default;
const Geometry& PageTables::geometry() const { return state_->geometry; }

PageTables::Draft PageTables::draft(std::span<const PageSpan> changed, const PieceSource& source,
                                    bool with_root) const {
  Draft draft;
  draft.body_ = std::move(state_->spare);
  if (draft.body_ == nullptr) draft.body_ = std::make_unique<Draft::Body>();
  TableDrafter(*state_, source, &draft.body_->work).make(changed, with_root);
  return draft;
}

void PageTables::commit(Draft&& draft, std::span<const TableGrant> grants, Plan* plan) {
  State& state = *state_;
  DXGKIT_CHECK(draft.body_ != nullptr);
  const DraftWork& work = draft.body_->work;
  DXGKIT_CHECK(work.version == state.version);
  DXGKIT_CHECK(grants.size() == work.needs.size());
  ++state.version;
  TableWriter writer(state, plan);
  for (size_t i = 0; i < grants.size(); ++i) {
    DXGKIT_CHECK(!work.needs[i].grows_root || grants[i].entries >= work.needs[i].entries);
    writer.create(work.keys[i], work.needs[i], grants[i]);
  }
  // Tables are freed last: directories stay while other tables need them.
  for (const bool going : {false, true}) {
    for (const LeafWork& leaf : work.leaves) {
      if (leaf.nothing_left == going) writer.write(leaf, work.pieces.data() + leaf.first_piece);
    }
  }
  writer.finish();
  state.spare = std::move(draft.body_);
}

void PageTables::destroy(Plan* plan) {
  State& state = *state_;
  ++state.version;
  if (state.tables.empty()) return;
  TableWriter writer(state, plan);
  writer.flush({0, state.geometry.space_pages()});
  state.leaves.for_each(
      [&](uint64_t number, const Leaf& leaf) { writer.discard_leaf_tables(number, leaf); });
  for (uint32_t level = 1; level < state.geometry.level_count; ++level) {
    for (const auto& [number, directory] : state.directories[level])
      writer.discard(writer.directory_table({.level = level, .number = number}));
  }
  writer.finish();
  state.leaves.clear();
  for (auto& level : state.directories) level.clear();
  state.root_entries = 0;
}

bool PageTables::contains(TableId table) const { return state_->tables.contains(table.value); }

std::vector<PageTables::WalkStep> PageTables::walk(uint64_t page) const {
  State& state = *state_;
  std::vector<WalkStep> steps;
  const uint64_t number = page >> state.leaf_bits();
  const Leaf* const leaf = state.leaves.find(number);
  for (uint32_t level = state.root_level(); level > 0; --level) {
    const Directory* const directory = state.directory(level, state.directory_of(level, number));
    if (directory == nullptr) return steps;
    WalkStep& step = steps.emplace_back();
    step.level = level;
    step.table = directory->table;
    step.index = state.index_in(level, number);
    step.valid = level > 1
                     ? state.directory(level - 1, state.directory_of(level - 1, number)) != nullptr
                     : leaf != nullptr;
    step.large_page = level == 1 && leaf != nullptr && leaf->large;
    if (!step.valid || step.large_page) return steps;
  }
  const uint64_t index = page - state.leaf_span(number).first_page;
  const auto says = [&](const ValidBits& bits) { return bits.count(index, 1) != 0; };
  const bool big = leaf->table == kNoTable || says(leaf->valid_64k);
  steps.push_back({.level = 0,
                   .table = big ? leaf->table_64k : leaf->table,
                   .index = index,
                   .valid = says(leaf->valid) || says(leaf->valid_64k),
                   .of_64k_pages = big || leaf->of_64k_pages});
  return steps;
}

TableId PageTables::root() const {
  const auto& roots = state_->directories[state_->root_level()];
  return roots.empty() ? kNoTable : roots.begin()->second.table;
}

uint64_t PageTables::root_entries() const { return state_->root_entries; }
size_t PageTables::table_count() const { return state_->tables.size(); }

bool PageTables::validate() const {
  const State& state = *state_;
  size_t tables = 0;
  const auto known = [&](TableId table, const TableKey& key) {
    ++tables;
    const auto found = state.tables.find(table.value);
    return found != state.tables.end() && found->second == key;
  };
  std::map<TableKey, uint64_t> children;
  bool right = true;
  state.leaves.for_each([&](uint64_t number, const Leaf& leaf) {
    ++children[{1, state.directory_of(1, number)}];
    right = right && leaf.large != leaf.has_table();
    right = right && (leaf.table == kNoTable || known(leaf.table, {0, number}));
    right = right && (leaf.table_64k == kNoTable || known(leaf.table_64k, {0, number, true}));
    for (uint64_t page = 0; page < state.leaf_pages(); ++page) {
      right = right && !(leaf.valid.has(page) && leaf.valid_64k.has(page));  // VA-44
    }
  });
  if (!right) return false;
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
