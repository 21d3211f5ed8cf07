#include "gpuva/geometry.h"

#include <fmt/format.h>

namespace dxgkit::gpuva {
namespace {

constexpr uint32_t kVaBitsMost = 63;
constexpr uint32_t kVaBitsFewest = 13;
// Beyond these limits a single table would be larger than its 32-bit size in the driver's
// description, and our own record of it too large.
constexpr uint32_t kIndexBitsMost = 24;
constexpr uint32_t kGrowingRootBitsMost = 31;

GeometryFault fault(const char* rule, std::string what) { return {rule, std::move(what)}; }

}  // namespace

uint32_t Geometry::entry_shift(uint32_t level) const {
  uint32_t shift = 0;
  for (uint32_t below = 0; below < level; ++below) shift += levels[below].index_bits;
  return shift;
}

std::optional<GeometryFault> check_geometry(const Geometry& geometry,
                                            uint32_t local_memory_segments,
                                            uint32_t segment_count) {
  if (geometry.level_count < 2 || geometry.level_count > Geometry::kLevelsMost) {
    return fault("VA-02",
                 fmt::format("PageTableLevelCount is {}, not 2 to 6", geometry.level_count));
  }
  if (geometry.va_bits < kVaBitsFewest || geometry.va_bits > kVaBitsMost) {
    return fault("VA-02", fmt::format("VirtualAddressBitCount is {}, not {} to {}",
                                      geometry.va_bits, kVaBitsFewest, kVaBitsMost));
  }
  uint64_t bits = 12;
  for (uint32_t i = 0; i < geometry.level_count; ++i) {
    const TableLevel& level = geometry.levels[i];
    const bool growing = geometry.root_grows() && i == geometry.root_level();
    if (!growing && (level.index_bits == 0 || level.index_bits > kIndexBitsMost)) {
      return fault("VA-02", fmt::format("level {}: PageTableIndexBitCount is {}, not 1 to {}", i,
                                        level.index_bits, kIndexBitsMost));
    }
    if (!growing) bits += level.index_bits;
    if (level.table_bytes % kPageBytes != 0 || (!growing && level.table_bytes == 0)) {
      return fault("VA-03", fmt::format("level {}: PageTableSizeInBytes is {}, not a multiple of "
                                        "4096 above 0",
                                        i, level.table_bytes));
    }
    if (level.alignment_bytes != 0 && !is_power_of_two(level.alignment_bytes)) {
      return fault("VA-03",
                   fmt::format("level {}: PageTableAlignmentInBytes is {}, not a power of two", i,
                               level.alignment_bytes));
    }
    for (const SegmentId segment : {level.segment, level.paging_process_segment}) {
      if (segment.value > segment_count) {
        return fault("VA-03", fmt::format("level {}: table segment {} of {} segments", i,
                                          segment.value, segment_count));
      }
      if (segment == kSystemMemory && level.table_bytes > kPageBytes &&
          !level.large_in_system_memory) {
        return fault("VA-03", fmt::format("level {}: tables of {} bytes in system memory, where "
                                          "they are at most 4096",
                                          i, level.table_bytes));
      }
      const bool local = segment != kSystemMemory && segment.value <= 32 &&
                         (local_memory_segments >> (segment.value - 1) & 1) != 0;
      if (geometry.update_mode == UpdateMode::kCpuVirtual && local) {
        return fault("VA-03", fmt::format("level {}: tables are updated by CPU address but live "
                                          "in local memory segment {}",
                                          i, segment.value));
      }
    }
  }
  if (geometry.leaf_table_bytes_64k % kPageBytes != 0) {
    return fault("VA-03", fmt::format("LeafPageTableSizeFor64KPagesInBytes is {}, not a multiple "
                                      "of 4096",
                                      geometry.leaf_table_bytes_64k));
  }
  if (geometry.root_grows()) {
    if (bits >= geometry.va_bits || geometry.va_bits - bits > kGrowingRootBitsMost) {
      return fault("VA-02", fmt::format("two levels: page and leaf index take {} of {} address "
                                        "bits; the root has to index 1 to {}",
                                        bits, geometry.va_bits, kGrowingRootBitsMost));
    }
    return std::nullopt;
  }
  if (bits != geometry.va_bits) {
    return fault("VA-02", fmt::format("page and table indices take {} bits, VirtualAddressBitCount "
                                      "is {}",
                                      bits, geometry.va_bits));
  }
  return std::nullopt;
}

}  // namespace dxgkit::gpuva
