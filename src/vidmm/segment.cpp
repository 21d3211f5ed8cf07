#include "vidmm/segment.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "vidmm/record_table.h"

namespace dxgkit::vidmm {
namespace {

constexpr uint64_t kLargePageBytes = 65536;

}  // namespace

Segment::Segment(const SegmentDesc& desc_in, uint32_t group_in)
    : desc(desc_in), group(group_in), ranges(desc_in.size_bytes) {
  uint64_t end = 0;
  for (const ByteRange& bad : desc.invalid_ranges) {
    if (bad.offset_bytes > end) usable.push_back({end, bad.offset_bytes - end});
    ranges.place(bad.offset_bytes, bad.size_bytes, kInvalid);
    invalid_bytes += bad.size_bytes;
    end = bad.offset_bytes + bad.size_bytes;
  }
  if (end < desc.size_bytes) usable.push_back({end, desc.size_bytes - end});
}

uint64_t Segment::lowest_offset(const Shape& allocation) const {
  return allocation.last_fifth ? align_up(desc.size_bytes - desc.size_bytes / 5, kPageBytes) : 0;
}

bool Segment::could_hold(const Shape& allocation) const {
  const uint64_t bytes = bytes_of(allocation);
  if (bytes > most_bytes()) return false;
  return std::ranges::any_of(usable, [&](const ByteRange& hole) {
    uint64_t start = std::max(hole.offset_bytes, lowest_offset(allocation));
    if (!checked_align_up(start, alignment_of(allocation), &start)) return false;
    return range_within(start, bytes, hole.offset_bytes + hole.size_bytes);
  });
}

uint64_t Segment::bytes_of(const Shape& allocation) const {
  const uint64_t unit = desc.use_64kb_pages ? kLargePageBytes : kPageBytes;
  const bool pitched = desc.pitch_alignment && allocation.pitch_aligned_size_bytes != 0;
  uint64_t bytes = pitched ? allocation.pitch_aligned_size_bytes : allocation.size_bytes;
  // A size so large that rounding wraps fits nowhere.
  return checked_align_up(bytes, unit, &bytes) ? bytes : ~uint64_t{0};
}

uint64_t Segment::alignment_of(const Shape& allocation) const {
  const uint64_t least = desc.use_64kb_pages ? kLargePageBytes : kPageBytes;
  return std::max(least, allocation.alignment_bytes);
}

uint64_t Segment::most_bytes() const {
  return is_memory() ? desc.size_bytes : std::min(desc.size_bytes, desc.commit_limit_bytes);
}

std::optional<uint64_t> Segment::find_free(const Shape& allocation, SearchFrom from, uint64_t low,
                                           uint64_t high) const {
  const uint64_t bytes = bytes_of(allocation);
  if (!range_within(committed, bytes, most_bytes())) return std::nullopt;
  low = std::max(low, lowest_offset(allocation));
  if (low >= high) return std::nullopt;
  return ranges.find(bytes, alignment_of(allocation), from, low, high);
}

std::optional<Segment::Window> Segment::find_window(const Shape& allocation, SearchFrom from,
                                                    uint64_t plan, EvictionPolicy& policy,
                                                    RecordTable& records) {
  const uint64_t bytes = bytes_of(allocation);
  const uint64_t alignment = alignment_of(allocation);
  if (bytes > most_bytes()) return std::nullopt;
  const uint64_t room = most_bytes() - committed;
  const uint64_t deficit = bytes > room ? bytes - room : 0;

  const uint64_t lowest = lowest_offset(allocation);
  std::optional<uint64_t> offset = ranges.find(bytes, alignment, from, lowest, desc.size_bytes);
  const auto place_in = [&](const RangeIndex::Run& run) -> std::optional<uint64_t> {
    const uint64_t end = ranges.end(run.last);
    uint64_t low = std::max(ranges.offset(run.first), lowest);
    if (!checked_align_up(low, alignment, &low)) return std::nullopt;
    if (!range_within(low, bytes, end)) return std::nullopt;
    const uint64_t high = align_down(end - bytes, alignment);
    size_t in_low = 0;
    size_t in_high = 0;
    for (auto range = run.first;; range = ranges.next(range)) {
      if (ranges.owner(range) != 0) {
        if (ranges.offset(range) < low + bytes && ranges.end(range) > low) ++in_low;
        if (ranges.offset(range) < high + bytes && ranges.end(range) > high) ++in_high;
      }
      if (range == run.last) break;
    }
    if (in_low != in_high) return in_low < in_high ? low : high;
    return from == SearchFrom::kBottom ? low : high;
  };

  ranges.clear_marks();
  std::vector<Record*> candidates;
  uint64_t freed = 0;
  policy.begin_choice(group);
  while (!offset.has_value() || freed < deficit) {
    const EvictionPolicy::Index next = policy.next();
    if (next == EvictionPolicy::kNone) break;
    Record* const record = &records.of_slot(next);
    if (record->plan == plan) continue;
    if (!may_leave(*record)) continue;
    candidates.push_back(record);
    freed += ranges.size(record->range);
    const RangeIndex::Run run = ranges.mark(record->range);
    if (!offset.has_value()) offset = place_in(run);
  }
  if (!offset.has_value() || freed < deficit) return std::nullopt;

  // The candidates in the way. Of the others, in victim order, as many as the commit limit needs.
  uint64_t missing = deficit;
  const auto in_the_way = [&](const Record* record) {
    return ranges.offset(record->range) < *offset + bytes && ranges.end(record->range) > *offset;
  };
  for (const Record* record : candidates) {
    if (in_the_way(record)) missing -= std::min(missing, ranges.size(record->range));
  }
  Window window{.offset = *offset, .victims = {}};
  for (Record* record : candidates) {
    if (!in_the_way(record)) {
      if (missing == 0) continue;
      missing -= std::min(missing, ranges.size(record->range));
    }
    window.victims.push_back(record);
  }
  return window;
}

}  // namespace dxgkit::vidmm
