// The records of one allocation and of one segment. Private to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "vidmm/eviction_policy.h"
#include "vidmm/range_index.h"
#include "vidmm/traits.h"
#include "vidmm/types.h"

namespace dxgkit::vidmm {

class RecordTable;

/// There may be a million of these: every byte counts (bench, alloc.vidmm_bytes_each_1e6).
struct Record {
  AllocationId id;
  uint64_t size_bytes = 0;
  const Traits* traits = nullptr;               // of the memory manager's table
  RangeIndex::Index range = RangeIndex::kNone;  // its first page while it is in a segment
  uint64_t plan = 0;  // the plan that names it; it is no victim of that plan
  uint32_t priority = 0;
  uint32_t pins = 0;
  uint32_t locks = 0;
  uint32_t item = 0;           // its index in the list of the plan that names it
  uint32_t pending = 0;        // operations planned, not reported done
  uint32_t pending_out = 0;    // pending operations that carry content out of a memory segment
  uint8_t segment_number = 0;  // the segment it is in; 0: system memory
  OfferPriority offer = OfferPriority::kNone;
  bool live : 1 = false;  // this slot of the table is an allocation
  // Content: none yet, or in the backing pages, or (dirty) only in the memory segment.
  bool has_content : 1 = false;
  bool dirty : 1 = false;
  bool lost : 1 = false;       // its segment lost it while it was pinned
  bool discarded : 1 = false;  // while it was offered
  bool parked : 1 =
      false;  // evicted into an aperture (ALLOC-09): its next use looks for a better place
  bool evicted : 1 = false;     // and it has not come back since
  bool journaled : 1 = false;   // the journal has its old place
  bool used_again : 1 = false;  // used while it was pinned: the last release tells the policy

  SegmentId segment() const { return SegmentId{segment_number}; }
  bool resident() const { return segment_number != 0; }
  Shape shape() const { return {size_bytes, *traits}; }
};

struct Segment {
  /// The owner of ranges where nothing may be placed.
  static constexpr uint32_t kInvalid = 0xFFFFFFFF;

  Segment(const SegmentDesc& desc_in, uint32_t group_in);

  /// The bytes that the allocation takes here: whole pages, 64 KiB pages where asked, and its
  /// pitched size where pitched (SEG-39, SEG-42).
  uint64_t bytes_of(const Shape& allocation) const;
  uint64_t alignment_of(const Shape& allocation) const;
  /// True if the allocation may move from here. A CPU lock holds content on its side, so it does
  /// not hold an aperture mapping.
  bool may_leave(const Record& record) const {
    return record.pins == 0 && !record.traits->pinned && (record.locks == 0 || !is_memory());
  }
  /// The lowest offset where it may start (ALLOC-49).
  uint64_t lowest_offset(const Shape& allocation) const;
  /// Whether an empty segment could hold it.
  bool could_hold(const Shape& allocation) const;
  bool is_memory() const { return desc.kind == SegmentKind::kMemory; }
  uint64_t most_bytes() const;
  /// The GPU address of an offset: computed here only (SEG-17).
  Placement at(uint64_t offset) const { return {desc.id, offset, desc.base_address + offset}; }

  /// Finds room without eviction, inside [low, high), within the commit limit.
  std::optional<uint64_t> find_free(const Shape& allocation, SearchFrom from, uint64_t low,
                                    uint64_t high) const;
  struct Window {
    uint64_t offset = 0;
    std::vector<Record*> victims;  // in victim order
  };
  /// Finds room that victims leave. Candidates are taken in victim order until a hole is wide
  /// enough, so the most valuable victim is the least valuable possible. Of the candidates only
  /// those in the way (or needed for the commit limit) are returned. Allocations that plan number
  /// `plan` names are not candidates. Cost: O(candidates).
  std::optional<Window> find_window(const Shape& allocation, SearchFrom from, uint64_t plan,
                                    EvictionPolicy& policy, RecordTable& records);

  SegmentDesc desc;
  uint32_t group = 0;  // its group in the eviction policy
  RangeIndex ranges;
  uint64_t committed = 0;
  size_t allocations = 0;
  std::vector<ByteRange> usable;  // the segment without its invalid ranges
  uint64_t invalid_bytes = 0;
};

}  // namespace dxgkit::vidmm
