// Page-table entries as the driver gets them, and the sources of their addresses.
#pragma once

#include <cstdint>
#include <span>

#include "gpuva/types.h"

namespace dxgkit::gpuva {

/// One entry, bit for bit a DXGK_PTE (the port asserts it), so that arrays reach the driver without
/// copying.
struct Pte {
  uint64_t flags = 0;
  uint64_t page = 0;  // address / 4096: offset inside the segment, or system address (VA-45)
  bool operator==(const Pte&) const = default;
};
static_assert(sizeof(Pte) == 16);

inline constexpr uint64_t kPteValid = uint64_t{1} << 0;
inline constexpr uint64_t kPteZero = uint64_t{1} << 1;
inline constexpr uint64_t kPteCacheCoherent = uint64_t{1} << 2;
inline constexpr uint64_t kPteReadOnly = uint64_t{1} << 3;
inline constexpr uint64_t kPteNoExecute = uint64_t{1} << 4;
inline constexpr uint32_t kPteSegmentShift = 5;  // 5 bits
inline constexpr uint64_t kPteSegmentMask = uint64_t{0x1F} << kPteSegmentShift;
inline constexpr uint64_t kPteLargePage = uint64_t{1} << 10;
inline constexpr uint32_t kPteTablePageSizeShift = 17;  // 2 bits: 0: 4 KiB, 1: 64 KiB
inline constexpr uint64_t kPteTableOf64kPages = uint64_t{1} << kPteTablePageSizeShift;

/// The content of consecutive leaf entries.
struct PteSource {
  enum class Kind : uint8_t {
    kInvalid,  // nothing, or nothing resident
    kZero,     // valid entries with the Zero bit
    kRun,      // consecutive pages of a segment from `first_page` on
    kFrames,   // the pages `frames[0..]`; the array outlives the plan's execution
    kSame,     // all of them the page `first_page`
  };
  Kind kind = Kind::kInvalid;
  bool read_only = false;       // set only where the driver has the bit (VA-22)
  bool no_execute = false;      // likewise
  bool cache_coherent = false;  // likewise
  SegmentId segment = kSystemMemory;
  uint64_t first_page = 0;  // kRun, kSame: offset in the segment or system address, in pages
  const uint64_t* frames = nullptr;  // kFrames: page numbers

  /// True if the entries translate.
  constexpr bool valid() const { return kind != Kind::kInvalid; }
  /// The flags of each entry, if they translate.
  constexpr uint64_t flags() const {
    return kPteValid | (kind == Kind::kZero ? kPteZero : 0) |
           (cache_coherent ? kPteCacheCoherent : 0) | (read_only ? kPteReadOnly : 0) |
           (no_execute ? kPteNoExecute : 0) |
           (uint64_t{segment.value} << kPteSegmentShift & kPteSegmentMask);
  }
  /// The source of the entries from the `count`-th on.
  constexpr PteSource after(uint64_t count) const {
    PteSource rest = *this;
    if (kind == Kind::kRun) rest.first_page += count;
    if (kind == Kind::kFrames) rest.frames += count;
    return rest;
  }
  bool operator==(const PteSource&) const = default;
};

/// Writes the first `entries.size()` entries of a source: at about the speed of memory.
/// `extra_flags`: set in each. `stride`: for kRun, pages from one entry to the next.
void fill_ptes(const PteSource& source, std::span<Pte> entries, uint64_t extra_flags = 0,
               uint64_t stride = 1);

}  // namespace dxgkit::gpuva
