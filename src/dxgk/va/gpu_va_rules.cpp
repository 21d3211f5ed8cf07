#include "dxgk/va/gpu_va_rules.h"

#include <fmt/format.h>

#include "dxgk/core/segment_flags.h"

namespace dxgkit::dxgk {
namespace {

/// Bit n for segment id n + 1: memory of the device, not system memory in whatever clothes.
uint32_t local_memory(const port::SegmentsInfo& segments) {
  constexpr uint32_t kSystem =
      kSegmentAperture | kSegmentPopulatedFromSystemMemory | kSegmentReservedSysMem;
  uint32_t set = 0;
  for (size_t i = 0; i < segments.segments.size() && i < 32; ++i) {
    if ((segments.segments[i].flags & kSystem) == 0) set |= uint32_t{1} << i;
  }
  return set;
}

gpuva::Geometry geometry_of(const port::GpuMmuCaps& caps) {
  gpuva::Geometry geometry;
  geometry.level_count = caps.level_count;
  geometry.va_bits = caps.va_bits;
  for (size_t i = 0; i < caps.levels.size(); ++i) {
    const port::PageTableLevelDesc& level = caps.levels[i];
    geometry.levels[i] = {.index_bits = level.index_bits,
                          .segment = SegmentId{level.segment},
                          .paging_process_segment = SegmentId{level.paging_process_segment},
                          .table_bytes = level.table_bytes,
                          .alignment_bytes = level.table_alignment_bytes};
  }
  switch (caps.update_mode) {
    case port::PageTableUpdateMode::kCpuVirtual:
      geometry.update_mode = gpuva::UpdateMode::kCpuVirtual;
      break;
    case port::PageTableUpdateMode::kGpuVirtual:
      geometry.update_mode = gpuva::UpdateMode::kGpuVirtual;
      break;
    case port::PageTableUpdateMode::kGpuPhysical:
      geometry.update_mode = gpuva::UpdateMode::kGpuPhysical;
      break;
  }
  geometry.leaf_table_bytes_64k = caps.leaf_bytes_for_64kb;
  geometry.read_only = caps.read_only;
  geometry.no_execute = caps.no_execute;
  geometry.zero = caps.zero_in_pte;
  geometry.cache_coherent = caps.cache_coherent;
  geometry.explicit_invalidation = caps.explicit_invalidation;
  geometry.idle_for_updates = caps.update_needs_idle;
  geometry.large_pages = caps.large_page;
  geometry.unaligned_large_pages = caps.unaligned_large_page;
  geometry.dual_ptes = caps.dual_pte;
  geometry.system_64k_pages = caps.system_64kb_pages;
  geometry.invalid_entries_not_cached = caps.invalid_not_cached;
  return geometry;
}

/// The segment behind the driver's own is system memory, too. The page of the level descriptions
/// limits the size of tables for 0 only.
void name_system_segment(uint32_t segment_count, gpuva::Geometry* geometry) {
  for (gpuva::TableLevel& level : geometry->levels) {
    const bool named_zero =
        level.segment == kSystemMemory || level.paging_process_segment == kSystemMemory;
    for (SegmentId* const segment : {&level.segment, &level.paging_process_segment}) {
      if (segment->value != segment_count + 1) continue;
      *segment = kSystemMemory;
      level.large_in_system_memory = !named_zero;
    }
  }
}

}  // namespace

std::optional<GpuVaRefusal> check_addressing_model(const port::DriverCaps& caps) {
  const bool mmu = caps.gpu_mmu_supported, io_mmu = caps.io_mmu_supported;
  if (!caps.virtual_addressing_supported && !mmu && !io_mmu) return std::nullopt;
  const auto bits = fmt::format(
      "MemoryManagementCaps has VirtualAddressingSupported = {}, GpuMmuSupported = {}, "
      "IoMmuSupported = {}.",
      caps.virtual_addressing_supported ? 1 : 0, mmu ? 1 : 0, io_mmu ? 1 : 0);
  if (!caps.virtual_addressing_supported || mmu == io_mmu) {
    return GpuVaRefusal{
        .rule = "VA-01",
        .actual = bits,
        .expected =
            "VirtualAddressingSupported together with exactly one of GpuMmuSupported and "
            "IoMmuSupported; none of the three for a driver without virtual addresses.",
        .fix = "Set the bits of one model.",
        .why =
            "The kernel builds page tables in one model and shares those of the processor in "
            "the other."};
  }
  if (io_mmu) {
    return GpuVaRefusal{.rule = "VA-01",
                        .status = Status::kNotSupported,
                        .actual = bits,
                        .expected = "GpuMmuSupported: this kernel has no IoMmu model.",
                        .fix =
                            "Nothing is wrong with the driver. To run it here, let it report "
                            "the GpuMmu model, or no virtual addressing.",
                        .why =
                            "In the IoMmu model the device walks the page tables of the "
                            "processor, and there are none in this process that it could walk."};
  }
  return std::nullopt;
}

std::optional<GpuVaRefusal> check_gpu_mmu(const port::GpuMmuCaps& caps,
                                          const port::SegmentsInfo& segments,
                                          gpuva::Geometry* geometry) {
  const auto mode = static_cast<uint32_t>(caps.update_mode);
  if (mode > static_cast<uint32_t>(port::PageTableUpdateMode::kGpuPhysical)) {
    return GpuVaRefusal{.rule = "VA-03",
                        .actual = fmt::format("PageTableUpdateMode is {}.", mode),
                        .expected = "0 (CPU_VIRTUAL), 1 (GPU_VIRTUAL) or 2 (GPU_PHYSICAL).",
                        .fix = "Report how the driver wants page tables addressed.",
                        .why = ""};
  }
  if (caps.source_page_table_in_transfer) {
    return GpuVaRefusal{
        .rule = "PAGE-32",
        .status = Status::kNotSupported,
        .actual = "LegacyBehaviors.SourcePageTableVaInTransfer is 1.",
        .expected =
            "0: this kernel tells the addresses of both sides of a transfer, and no page "
            "table of either.",
        .fix = "Read the addresses through the paging process's tables, and clear the bit.",
        .why = "The bit is for drivers from before transfers had their own address space."};
  }
  gpuva::Geometry described = geometry_of(caps);
  name_system_segment(static_cast<uint32_t>(segments.segments.size()), &described);
  if (const std::optional<gpuva::GeometryFault> fault = gpuva::check_geometry(
          described, local_memory(segments), static_cast<uint32_t>(segments.segments.size()))) {
    const bool sizes = std::string_view(fault->rule) == "VA-03";
    return GpuVaRefusal{
        .rule = fault->rule,
        .actual = fault->what + ".",
        .expected =
            sizes ? "Tables are whole pages in an existing segment, at most 4096 bytes in system "
                    "memory, and reachable for the update mode."
                  : "2 to 6 levels whose index bits and the 12 bits of a page make up "
                    "VirtualAddressBitCount; with two levels the root has the bits that are left.",
        .fix = sizes ? "Correct DXGK_PAGE_TABLE_LEVEL_DESC of that level, or PageTableUpdateMode."
                     : "Make DXGK_GPUMMUCAPS and the levels agree.",
        .why = sizes ? "The kernel allocates tables from these numbers and lets the driver write "
                       "them by that address."
                     : "The kernel finds the entry of an address by these bits."};
  }
  for (uint32_t level = 0; level < described.level_count; ++level) {
    const gpuva::TableLevel& tables = described.levels[level];
    for (const SegmentId id : {tables.segment, tables.paging_process_segment}) {
      if (id == kSystemMemory) continue;
      if ((segments.segments[id.value - 1].flags & kSegmentAperture) == 0) continue;
      return GpuVaRefusal{
          .rule = "VA-03",
          .status = Status::kNotSupported,
          .actual = fmt::format("Tables of level {} are to live in aperture segment {}.", level,
                                id.value),
          .expected =
              "System memory (segment 0) or a memory segment: this kernel puts no tables "
              "behind an aperture.",
          .fix = "Name segment 0: the tables are in the same system pages then.",
          .why = "An aperture is itself a table that would have to be kept true for them."};
    }
  }
  *geometry = described;
  return std::nullopt;
}

}  // namespace dxgkit::dxgk
