#include "vidmm/range_index.h"

#include "base/check.h"

namespace dxgkit::vidmm {
namespace {

constexpr size_t kMarksFewest = 64;
constexpr size_t kMarksKept = 4096;  // places; a larger table is freed with the marks

size_t spread(uint64_t page) { return static_cast<size_t>((page * 0x9E3779B97F4A7C15ULL) >> 32); }

}  // namespace

std::variant<RangeIndex::Narrow, RangeIndex::Wide> RangeIndex::make_tree(uint64_t pages) {
  if (pages < 0xFFFFFFFF) return Narrow(static_cast<uint32_t>(pages));
  return Wide(pages);
}

RangeIndex::RangeIndex(uint64_t size_bytes)
    : tree_(make_tree(size_bytes / kPageBytes)), size_(size_bytes) {
  DXGKIT_CHECK(size_bytes % kPageBytes == 0);
}

RangeIndex::About RangeIndex::about(uint64_t page) const {
  DXGKIT_CHECK(page < size_ / kPageBytes);
  if (const Narrow* narrow = std::get_if<Narrow>(&tree_)) {
    const auto range = narrow->at(static_cast<uint32_t>(page));
    return {range.begin, range.end, range.value};
  }
  const auto range = std::get<Wide>(tree_).at(page);
  return {range.begin, range.end, range.value};
}

std::optional<uint64_t> RangeIndex::find(uint64_t size_bytes, uint64_t alignment, SearchFrom from,
                                         uint64_t low, uint64_t high) const {
  if (size_bytes > size_ || low >= size_) return std::nullopt;
  const uint64_t size = align_up(size_bytes, kPageBytes) / kPageBytes;
  const uint64_t first = align_up(low, kPageBytes) / kPageBytes;
  const uint64_t last = std::min(high, size_) / kPageBytes;
  const Fit fit = from == SearchFrom::kBottom ? Fit::kLowest : Fit::kHighest;
  if (const Narrow* narrow = std::get_if<Narrow>(&tree_)) {
    const auto page = narrow->find(static_cast<uint32_t>(size), alignment / kPageBytes, fit,
                                   static_cast<uint32_t>(first), static_cast<uint32_t>(last));
    return page.has_value() ? std::optional(uint64_t{*page} * kPageBytes) : std::nullopt;
  }
  const auto page = std::get<Wide>(tree_).find(size, alignment / kPageBytes, fit, first, last);
  return page.has_value() ? std::optional(*page * kPageBytes) : std::nullopt;
}

RangeIndex::Index RangeIndex::place(uint64_t offset, uint64_t size_bytes, uint32_t owner) {
  DXGKIT_CHECK(offset % kPageBytes == 0 && size_bytes % kPageBytes == 0);
  DXGKIT_CHECK(range_within(offset, size_bytes, size_));
  const uint64_t page = offset / kPageBytes;
  const uint64_t pages = size_bytes / kPageBytes;
  clear_marks();
  if (Narrow* narrow = std::get_if<Narrow>(&tree_)) {
    narrow->place(static_cast<uint32_t>(page), static_cast<uint32_t>(pages), owner);
  } else {
    std::get<Wide>(tree_).place(page, pages, owner);
  }
  return page;
}

void RangeIndex::release(Index range) {
  DXGKIT_CHECK(range < size_ / kPageBytes);
  clear_marks();
  if (Narrow* narrow = std::get_if<Narrow>(&tree_)) {
    narrow->release(static_cast<uint32_t>(range));
  } else {
    std::get<Wide>(tree_).release(range);
  }
}

RangeIndex::Index RangeIndex::next(Index range) const {
  const uint64_t after = about(range).end;
  return after == size_ / kPageBytes ? kNone : after;
}

RangeIndex::Index RangeIndex::previous(Index range) const {
  return range == 0 ? kNone : about(range - 1).begin;
}

uint64_t RangeIndex::largest_free() const {
  return std::visit([](const auto& tree) { return uint64_t{tree.largest_free()}; }, tree_) *
         kPageBytes;
}

uint64_t RangeIndex::free_bytes() const {
  return std::visit([](const auto& tree) { return uint64_t{tree.free()}; }, tree_) * kPageBytes;
}

size_t RangeIndex::bytes() const {
  return std::visit([](const auto& tree) { return tree.bytes(); }, tree_) +
         marks_.capacity() * sizeof(Mark);
}

bool RangeIndex::validate() const {
  return std::visit([](const auto& tree) { return tree.validate(); }, tree_);
}

void RangeIndex::clear_marks() {
  ++epoch_;
  marks_live_ = 0;
  if (marks_.size() > kMarksKept) marks_ = std::vector<Mark>();  // {} would keep the memory
}

/// The place of a range in the table: its own, or the unused one for it.
RangeIndex::Mark& RangeIndex::slot_of(Index range) {
  size_t slot = spread(range) & (marks_.size() - 1);
  while (marks_[slot].epoch == epoch_ && marks_[slot].range != range)
    slot = (slot + 1) & (marks_.size() - 1);
  return marks_[slot];
}

const RangeIndex::Mark* RangeIndex::lookup(Index range) const {
  if (marks_live_ == 0) return nullptr;
  const Mark& mark = const_cast<RangeIndex*>(this)->slot_of(range);
  return mark.epoch == epoch_ ? &mark : nullptr;
}

const RangeIndex::Mark* RangeIndex::find_mark(Index range) const {
  const Mark* mark = lookup(range);
  return mark != nullptr && mark->used ? mark : nullptr;
}

RangeIndex::Mark& RangeIndex::add_mark(Index range) {
  if (marks_.size() < 2 * (marks_live_ + 1)) {
    std::vector<Mark> old(std::max(kMarksFewest, 2 * marks_.size()));
    old.swap(marks_);
    for (const Mark& mark : old) {
      if (mark.epoch == epoch_) slot_of(mark.range) = mark;
    }
  }
  Mark& mark = slot_of(range);
  if (mark.epoch != epoch_) {
    mark = {.epoch = epoch_, .range = range, .other = range, .used = false};
    ++marks_live_;
  }
  return mark;
}

RangeIndex::Run RangeIndex::mark(Index range) {
  Index before = kNone;
  Index after = kNone;
  bool before_free = false;
  bool after_free = false;
  std::visit(
      [&](const auto& tree) {
        const auto around = tree.around(static_cast<decltype(tree.end())>(range));
        DXGKIT_CHECK(around.self.begin == range && around.self.value != 0);
        if (around.before.size() > 0) before = around.before.begin;
        before_free = around.before.value == 0;
        if (around.after.size() > 0) after = around.after.begin;
        after_free = around.after.value == 0;
      },
      tree_);
  // The end of the run that has this range at its edge.
  const auto far_end = [&](Index edge) {
    const Mark* mark = lookup(edge);
    return mark != nullptr ? mark->other : edge;
  };
  Run run{range, range};
  if (before != kNone && (before_free || marked(before))) run.first = far_end(before);
  if (after != kNone && (after_free || marked(after))) run.last = far_end(after);
  add_mark(range).used = true;
  add_mark(run.first).other = run.last;
  add_mark(run.last).other = run.first;
  return run;
}

}  // namespace dxgkit::vidmm
