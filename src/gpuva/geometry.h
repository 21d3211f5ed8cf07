// The shape of an adapter's page tables, and the checks of a shape.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "gpuva/types.h"

namespace dxgkit::gpuva {

enum class UpdateMode : uint8_t { kCpuVirtual, kGpuVirtual, kGpuPhysical };

/// One level, as the driver described it. Level 0 is the leaf.
struct TableLevel {
  uint32_t index_bits = 0;  // with two levels: of the root, the initial number of bits
  SegmentId segment = kSystemMemory;
  SegmentId paging_process_segment = kSystemMemory;
  uint32_t table_bytes = 0;
  uint32_t alignment_bytes = 0;
  /// Tables in system memory may be larger than a page: the driver named it as a segment.
  bool large_in_system_memory = false;
};

/// The facts about the page tables of one adapter.
struct Geometry {
  static constexpr uint32_t kLevelsMost = 6;
  uint32_t level_count = 0;  // 2 to 6
  uint32_t va_bits = 0;      // at most 63
  std::array<TableLevel, kLevelsMost> levels = {};
  UpdateMode update_mode = UpdateMode::kGpuPhysical;
  uint32_t leaf_table_bytes_64k = 0;  // of a leaf of 64 KiB pages; 0: there are none
  bool read_only = false;             // the entries have these bits (VA-22)
  bool no_execute = false;
  bool zero = false;
  bool cache_coherent = false;
  bool explicit_invalidation = false;  // PAGE-39
  bool idle_for_updates = false;       // PAGE-38
  bool large_pages = false;            // VA-46
  bool unaligned_large_pages = false;
  bool dual_ptes = false;
  bool system_64k_pages = false;
  bool invalid_entries_not_cached = false;  // PAGE-37

  bool root_grows() const { return level_count == 2; }
  uint32_t root_level() const { return level_count - 1; }
  /// The number of pages that one entry of a level covers, in bits.
  uint32_t entry_shift(uint32_t level) const;
  /// The number of pages that one leaf table covers.
  uint64_t leaf_pages() const { return uint64_t{1} << levels[0].index_bits; }
  uint64_t leaf_bytes() const { return leaf_pages() * kPageBytes; }
  /// The number of pages of the whole space.
  uint64_t space_pages() const { return uint64_t{1} << (va_bits - 12); }
  /// The largest number of entries of the root: all, if the root does not grow.
  uint64_t root_entries_most() const { return space_pages() >> entry_shift(root_level()); }
};

/// A fault in the driver's description, with the expected value.
struct GeometryFault {
  const char* rule = "";  // "VA-02"
  std::string what;       // member, value, and what was expected
};

/// Checks a geometry. nullopt: it can be used. `local_memory_segments`: bit n for segment id n + 1.
/// Returns the first fault, levels from the leaf up (VA-02, VA-03).
std::optional<GeometryFault> check_geometry(const Geometry& geometry,
                                            uint32_t local_memory_segments, uint32_t segment_count);

}  // namespace dxgkit::gpuva
