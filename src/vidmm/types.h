// Vocabulary of the video memory manager.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace dxgkit::vidmm {

enum class SegmentKind { kMemory, kAperture };

/// Bytes of a segment, whole pages.
struct ByteRange {
  uint64_t offset_bytes = 0, size_bytes = 0;
  bool operator==(const ByteRange&) const = default;
};

/// The budget of a process in which a segment counts (SEG-43, RES-20).
enum class SegmentGroup { kLocal, kNonLocal };

/// One segment as the driver described it. Flags and sizes are checked already.
struct SegmentDesc {
  SegmentId id;
  SegmentKind kind = SegmentKind::kMemory;
  uint64_t base_address = 0;  // the GPU address of offset o is base_address + o
  uint64_t size_bytes = 0;    // multiple of 4096
  uint64_t commit_limit_bytes =
      0;  // aperture: most committed bytes; memory: equals size (SEG-29, SEG-30)
  bool cpu_visible = false;
  bool cache_coherent = false;
  bool pitch_alignment = false;         // SEG-39
  bool use_64kb_pages = false;          // SEG-42
  uint64_t cpu_translated_address = 0;  // bus address of the CPU window, when cpu_visible
  std::vector<uint64_t>
      bank_end_offsets;  // strictly increasing; the last is size_bytes; empty: no banking
  bool agp = false;      // an aperture whose page table is the machine's GART (SEG-18, SEG-36)
  SegmentGroup group = SegmentGroup::kLocal;
  bool application_target = true;  // it counts in the budget (SEG-43)
  std::vector<ByteRange> invalid_ranges =
      {};  // nothing is placed there (SEG-45); sorted, inside, neither overlap nor touch
};

/// A set of segments: bit n stands for segment id n + 1 (ALLOC-07).
using SegmentSet = uint32_t;
constexpr SegmentSet segment_bit(SegmentId id) { return id.value == 0 ? 0U : 1U << (id.value - 1); }

enum class SearchFrom { kBottom, kTop };
struct SegmentPreference {
  SegmentId segment;  // kSystemMemory: empty slot
  SearchFrom from = SearchFrom::kBottom;
};
struct BankPreference {
  uint32_t bank = 0;  // one-based; 0: empty slot (ALLOC-11)
  SearchFrom from = SearchFrom::kBottom;
};

/// The part of an allocation's description that vidmm needs; checked by the caller.
struct AllocationDesc {
  uint64_t size_bytes = 0;                // rounded up to whole pages
  uint64_t alignment_bytes = 0;           // power of two, at least 4096
  uint64_t pitch_aligned_size_bytes = 0;  // 0, or at least size
  SegmentSet supported_read = 0;
  SegmentSet supported_write = 0;
  SegmentSet eviction = 0;  // aperture segments only; 0: straight to system pages (ALLOC-09)
  std::array<SegmentPreference, 5> preferred{};
  std::array<BankPreference, 4> banks{};
  uint32_t priority = 0x78000000;
  bool from_end_of_segment = false;
  bool cpu_visible = false;
  bool cached = false;
  bool permanent_system_memory = false;
  bool pinned = false;      // never evicted or moved once resident (DMA buffers, paging buffers)
  bool unmoveable = false;  // making room never moves it to another place of its segment
  bool last_fifth = false;  // only in the last 20 % of a segment (ALLOC-49)
  bool context_resource = false;  // the driver writes its first content (PAGE-42)
  bool notify_residency = false;  // the driver is told when it comes and goes (PAGE-41)
  bool notify_eviction = false;   // the driver is told before it leaves an aperture (PAGE-48)
};

/// Where an allocation is: a segment and an offset, or system memory.
struct Placement {
  SegmentId segment = kSystemMemory;
  uint64_t offset_bytes = 0;  // inside the segment
  uint64_t gpu_address = 0;   // segment base + offset; 0 in system memory
  bool operator==(const Placement&) const = default;
};

/// How early offered content may be discarded (ALLOC-44): kLow first, then kNormal, then kHigh.
/// kAuto goes by its eviction priority. kNone: not offered.
enum class OfferPriority : uint8_t { kNone, kLow, kNormal, kHigh, kAuto };

/// One step of moving content. A plan's operations must be executed in order, and plans in the
/// order they were made: a later operation may reuse space an earlier one frees.
struct PagingOp {
  enum class Kind {
    kFill,         // first use of memory in a memory segment: write zeros (pages never leak between
                   // owners)
    kTransferIn,   // backing pages -> segment
    kTransferOut,  // segment -> backing pages
    kDiscard,      // left its place without write-back (clean, or content given up) (PAGE-24)
    kMapAperture,  // backing pages appear in an aperture range
    kUnmapAperture,      // range returns to the dummy page
    kInitContext,        // the driver writes the first content of a context allocation (PAGE-42)
    kContentLost,        // a reset took the content of `place`; nothing moves (PAGE-22)
    kNotifyResident,     // it is at `place` once the operations before this one are done (PAGE-41)
    kNotifyNotResident,  // it is about to leave (PAGE-41)
    kNotifyEviction,     // its aperture mapping is about to go (PAGE-48)
    // In place, of an allocation with a permanent copy in system memory (ALLOC-48):
    kWriteUp,    // backing pages -> segment, a part of the content
    kWriteBack,  // segment -> backing pages
  };
  Kind kind = Kind::kFill;
  AllocationId allocation;
  Placement place;  // the segment side
  uint64_t size_bytes = 0;
  Placement backing = {};  // kTransferOut: where an aperture shows the backing pages (ALLOC-09),
                           // else system memory
  uint64_t content_offset_bytes = 0;  // kWriteUp: where the part begins in the allocation
  uint32_t fill_pattern = 0;          // kFill; a plan's fills are zeros
};

}  // namespace dxgkit::vidmm
