#include "port/ddi/gpu_va.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/gpu_va_paging.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kSetRootPageTable{"DxgkDdiSetRootPageTable", nt::kPassiveLevel,
                                    DdiClass::kScheduler};
constexpr DdiInfo kGetRootPageTableSize{"DxgkDdiGetRootPageTableSize", nt::kPassiveLevel,
                                        DdiClass::kLevelZero};

template <typename Out, typename In>
Status query_exactly(PortCore& core, DXGK_QUERYADAPTERINFOTYPE type, In in, Out* out) {
  std::memset(out, std::to_integer<int>(core.output_fill), sizeof(*out));
  return core.query(type, &in, sizeof(in), out, sizeof(*out));
}

GpuMmuCaps caps_of(const DXGK_GPUMMUCAPS& caps, uint32_t version) {
  GpuMmuCaps result;
  result.read_only = caps.ReadOnlyMemorySupported != 0;
  result.no_execute = caps.NoExecuteMemorySupported != 0;
  result.zero_in_pte = caps.ZeroInPteSupported != 0;
  result.explicit_invalidation = caps.ExplicitPageTableInvalidation != 0;
  result.cache_coherent = caps.CacheCoherentMemorySupported != 0;
  result.update_needs_idle = caps.PageTableUpdateRequireAddressSpaceIdle != 0;
  result.large_page = caps.LargePageSupported != 0;
  result.dual_pte = caps.DualPteSupported != 0;
  if (version >= kInterfaceWddm21) {
    result.unaligned_large_page = caps.AllowNonAlignedLargePageAddress != 0;
    result.system_64kb_pages = caps.SysMem64KBPageSupported != 0;
  }
  if (version >= kInterfaceWddm26) result.invalid_not_cached = caps.InvalidTlbEntriesNotCached != 0;
  if (version >= kInterfaceWddm29) result.system_large_page = caps.SysMemLargePageSupported != 0;
  if (version >= kInterfaceWddm31) result.cached_page_tables = caps.CachedPageTables != 0;
  result.source_page_table_in_transfer = caps.LegacyBehaviors.SourcePageTableVaInTransfer != 0;
  result.update_mode =
      static_cast<PageTableUpdateMode>(static_cast<uint32_t>(caps.PageTableUpdateMode));
  result.va_bits = caps.VirtualAddressBitCount;
  result.leaf_bytes_for_64kb = caps.LeafPageTableSizeFor64KPagesInBytes;
  result.level_count = caps.PageTableLevelCount;
  return result;
}

}  // namespace

Result<GpuMmuCaps> GpuVaPort::query_gpu_mmu() {
  if (core_.version < kInterfaceWddm20) return Error(Status::kNotSupported);
  DXGK_GPUMMUCAPS caps{};
  Status status = query_exactly(core_, DXGKQAITYPE_GPUMMUCAPS, DXGK_QUERYGPUMMUCAPSIN{}, &caps);
  if (!is_success(status)) return Error(status);
  GpuMmuCaps result = caps_of(caps, core_.version);
  if (result.level_count == 0 || result.level_count > kMaxPageTableLevels) return result;
  for (uint32_t level = 0; level < result.level_count; ++level) {
    DXGK_QUERYPAGETABLELEVELDESCIN in{};
    in.LevelIndex = static_cast<WORD>(level);
    DXGK_PAGE_TABLE_LEVEL_DESC desc;
    status = query_exactly(core_, DXGKQAITYPE_PAGETABLELEVELDESC, in, &desc);
    if (!is_success(status)) return Error(status);
    result.levels.push_back({.index_bits = desc.PageTableIndexBitCount,
                             .segment = desc.PageTableSegmentId,
                             .paging_process_segment = desc.PagingProcessPageTableSegmentId,
                             .table_bytes = desc.PageTableSizeInBytes,
                             .table_alignment_bytes = desc.PageTableAlignmentInBytes});
  }
  // dxgk refuses a leaf that covers more than the whole address space.
  const uint32_t leaf_bits = result.levels.front().index_bits;
  core_.leaf_coverage = leaf_bits < 40 ? kPageBytes << leaf_bits : 0;
  core_.va_bits = result.va_bits;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->life.has(result);
  return result;
}

Status GpuVaPort::set_root_page_table(void* context, const RootPageTable& root) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.version < kInterfaceWddm20 || core_.ddi.DxgkDdiSetRootPageTable == nullptr)
    return Status::kNotSupported;
  DXGKARG_SETROOTPAGETABLE arguments{};
  arguments.hContext = context;
  arguments.Address = abi_address_of(root.address);
  arguments.NumEntries = root.entry_count;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->paging.root_set(context, root);
  DdiCall call(core_, kSetRootPageTable, root.address.offset);
  return call.no_answer(core_.ddi.DxgkDdiSetRootPageTable, core_.context,
                        static_cast<const DXGKARG_SETROOTPAGETABLE*>(&arguments));
}

Result<uint64_t> GpuVaPort::get_root_page_table_size(uint32_t entry_count) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (core_.version < kInterfaceWddm20 || core_.ddi.DxgkDdiGetRootPageTableSize == nullptr)
    return Error(Status::kNotSupported);
  DXGKARG_GETROOTPAGETABLESIZE arguments{};
  arguments.NumberOfPte = entry_count;
  SIZE_T bytes = 0;
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kGetRootPageTableSize, entry_count);
    status = call.value(core_.ddi.DxgkDdiGetRootPageTableSize, &bytes, core_.context, &arguments);
  }
  if (!is_success(status)) return Error(status);
  // The description of a level has 32 bits for the size of its tables, too.
  if (bytes == 0 || bytes % kPageBytes != 0 || bytes > UINT32_MAX) {
    return Error(core_.violation(
        "VA-05", kGetRootPageTableSize.name,
        fmt::format("It answered {} bytes for {} entries.", bytes, entry_count),
        "The size of the root page table: a multiple of the page size of its segment, below 4 GiB.",
        "Multiply by the size of an entry and round up to 4096 bytes.",
        Status::kDeviceConfigurationError));
  }
  if (arguments.NumberOfPte < entry_count) {
    (void)core_.violation(
        "VA-05", kGetRootPageTableSize.name,
        fmt::format("It was asked for {} entries and set NumberOfPte to {}.", entry_count,
                    arguments.NumberOfPte),
        "The number of entries that a table of the answered size has: no fewer than asked for.",
        "Leave NumberOfPte, or set it to what fits into the size.", Status::kSuccess);
  }
  return uint64_t{bytes};
}

}  // namespace dxgkit::port
