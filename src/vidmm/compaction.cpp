// Makes room by moving allocations inside a segment, if the free room is in fragments.
#include <algorithm>
#include <array>

#include "base/arithmetic.h"
#include "vidmm/memory_state.h"

namespace dxgkit::vidmm {
namespace {

/// Looking at more ranges than this for one placement costs more than an eviction does.
constexpr size_t kMostRanges = 4096;
/// Places that are tried, cheapest first.
constexpr size_t kMostTries = 4;

/// A possible place for the allocation, if the allocations in it move.
struct Opening {
  uint64_t offset = 0, moved_bytes = 0;
  size_t first = 0, last = 0;  // the ranges it touches
};

/// A range of the segment, with sums over the ranges before it.
struct Piece {
  uint64_t offset = 0, end = 0;
  Record* record = nullptr;
  uint64_t moved_before = 0;
  size_t fixed_before = 0;
};

}  // namespace

bool MemoryManager::Impl::place_by_moving(Record& record, const Candidate& option) {
  Segment& where = *option.segment;
  const uint64_t bytes = where.bytes_of(record.shape());
  const uint64_t alignment = where.alignment_of(record.shape());
  if (where.ranges.free_bytes() < bytes || where.allocations > kMostRanges) return false;
  if (!range_within(where.committed, bytes, where.most_bytes())) return false;
  if (switches.fail_compaction) {
    ++statistics.compactions_failed;
    return false;
  }

  std::vector<Piece> pieces;
  Piece sums;
  for (auto range = where.ranges.first(); range != RangeIndex::kNone;
       range = where.ranges.next(range)) {
    const uint32_t owner = where.ranges.owner(range);
    sums.offset = where.ranges.offset(range);
    sums.end = where.ranges.end(range);
    sums.record = owner == 0 || owner == Segment::kInvalid ? nullptr : &records.of_owner(owner);
    pieces.push_back(sums);
    const bool movable = sums.record != nullptr && sums.record->plan != plan &&
                         !sums.record->traits->unmoveable && where.may_leave(*sums.record);
    if (movable) sums.moved_before += sums.end - sums.offset;
    if (owner != 0 && !movable) ++sums.fixed_before;
  }
  sums.offset = sums.end;
  pieces.push_back(sums);  // a sentinel with the totals

  const uint64_t lowest = where.lowest_offset(record.shape());
  std::vector<Opening> openings;
  const auto consider = [&](uint64_t offset) {
    if (offset < lowest || !range_within(offset, bytes, where.desc.size_bytes)) return;
    const auto after = [&](uint64_t at) {  // the first piece that ends behind `at`
      return static_cast<size_t>(std::ranges::upper_bound(pieces, at, {}, &Piece::end) -
                                 pieces.begin());
    };
    const size_t first = after(offset);
    const size_t last = after(offset + bytes - 1);
    const uint64_t moved = pieces[last + 1].moved_before - pieces[first].moved_before;
    if (pieces[last + 1].fixed_before != pieces[first].fixed_before) return;
    if (moved == 0 || moved > bytes) return;  // dearer than to evict
    openings.push_back({offset, moved, first, last});
  };
  for (size_t i = 0; i + 1 < pieces.size(); ++i) {
    // Flush with one end of a range: any other place moves more.
    uint64_t low = 0;
    if (checked_align_up(std::max(pieces[i].offset, lowest), alignment, &low)) consider(low);
    if (pieces[i].end >= bytes) consider(align_down(pieces[i].end - bytes, alignment));
  }
  const auto better = [&](const Opening& a, const Opening& b) {
    if (a.moved_bytes != b.moved_bytes) return a.moved_bytes < b.moved_bytes;
    return option.from == SearchFrom::kBottom ? a.offset < b.offset : a.offset > b.offset;
  };
  const size_t tries = std::min(kMostTries, openings.size());
  std::partial_sort(openings.begin(), openings.begin() + static_cast<std::ptrdiff_t>(tries),
                    openings.end(), better);
  for (size_t i = 0; i < tries; ++i) {
    std::vector<Touched> movers;
    for (size_t p = openings[i].first; p <= openings[i].last; ++p) {
      Record* const mover = pieces[p].record;
      if (mover != nullptr)
        movers.push_back({mover, place_of(*mover), mover->parked, why, needed_by});
    }
    if (move_away(movers, record, where, openings[i].offset)) return true;
  }
  return false;
}

bool MemoryManager::Impl::move_away(std::vector<Touched>& movers, Record& record, Segment& where,
                                    uint64_t offset) {
  const auto larger = [&](const Touched& a, const Touched& b) {
    return where.bytes_of(a.record->shape()) > where.bytes_of(b.record->shape());
  };
  std::ranges::stable_sort(movers, larger);
  for (const Touched& mover : movers) leave(*mover.record);
  enter(record, where, offset);
  size_t moved = 0;
  for (; moved < movers.size(); ++moved) {
    Record& mover = *movers[moved].record;
    const auto hole = where.find_free(mover.shape(), SearchFrom::kBottom, 0, where.desc.size_bytes);
    if (!hole.has_value()) break;
    enter(mover, where, *hole);
    mover.parked = movers[moved].parked;
  }
  if (moved == movers.size()) return true;
  while (moved > 0) leave(*movers[--moved].record);
  leave(record);
  for (const Touched& mover : movers) {
    enter(*mover.record, where, mover.old.offset_bytes);
    mover.record->parked = mover.parked;
  }
  // They compete again as before: an allocation must be evicted.
  returned.clear();
  for (const Touched& mover : movers) {
    if (competes(*mover.record)) returned.push_back({victim(*mover.record), where.group});
  }
  policy.restore(returned);
  return false;
}

}  // namespace dxgkit::vidmm
