// Data of the GPU virtual address model (WDDM 2.0, GpuMmu) that crosses the door to a miniport, in
// our types. Addresses are bytes unless a name says pages; a page is 4096 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "gpuva/pte.h"

namespace dxgkit::port {

/// DXGK_MAX_PAGE_TABLE_LEVEL_COUNT.
inline constexpr uint32_t kMaxPageTableLevels = 6;

/// DXGK_PTE, bit for bit (asserted in the port), so that entries reach the driver without copying.
using PageTableEntry = gpuva::Pte;

/// D3DGPU_PHYSICAL_ADDRESS.
struct GpuPhysicalAddress {
  SegmentId segment;    // kSystemMemory: `offset` is a system physical address
  uint64_t offset = 0;  // bytes inside the segment, without its base
  bool operator==(const GpuPhysicalAddress&) const = default;
};

/// DXGK_PAGETABLEUPDATEMODE: which address of a page table the driver gets.
enum class PageTableUpdateMode : uint32_t { kCpuVirtual = 0, kGpuVirtual = 1, kGpuPhysical = 2 };

/// DXGK_PAGE_TABLE_LEVEL_DESC, as the driver wrote it. dxgk checks the meaning (VA-02, VA-03).
struct PageTableLevelDesc {
  uint32_t index_bits = 0;              // of the virtual address; a resizable root may say 0
  uint32_t segment = 0;                 // of tables of processes; 0: system memory
  uint32_t paging_process_segment = 0;  // of tables of the paging process
  uint32_t table_bytes = 0;
  uint32_t table_alignment_bytes = 0;
};

/// DXGK_GPUMMUCAPS, as the driver wrote it. Bits that its interface version does not have are
/// false.
struct GpuMmuCaps {
  bool read_only = false, no_execute = false, zero_in_pte = false;  // the entry has such a bit
  bool explicit_invalidation = false;                               // PAGE-39
  bool cache_coherent = false;                                      // the entry has such a bit
  bool update_needs_idle = false;              // PageTableUpdateRequireAddressSpaceIdle (PAGE-38)
  bool large_page = false, dual_pte = false;   // VA-46; VA-44
  bool unaligned_large_page = false;           // AllowNonAlignedLargePageAddress, from 2.1 on
  bool system_64kb_pages = false;              // SysMem64KBPageSupported, from 2.1 on
  bool invalid_not_cached = false;             // InvalidTlbEntriesNotCached, from 2.6 on (PAGE-37)
  bool system_large_page = false;              // SysMemLargePageSupported, from 2.9 on
  bool cached_page_tables = false;             // CachedPageTables, from 3.1 on
  bool source_page_table_in_transfer = false;  // LegacyBehaviors (PAGE-32)
  /// The driver's numbers, which may have any value.
  PageTableUpdateMode update_mode = PageTableUpdateMode::kCpuVirtual;
  uint32_t va_bits = 0;              // VirtualAddressBitCount
  uint32_t leaf_bytes_for_64kb = 0;  // LeafPageTableSizeFor64KPagesInBytes
  uint32_t level_count = 0;          // PageTableLevelCount
  /// [0] is the leaf, the last one the root. Empty if level_count is not 1..kMaxPageTableLevels:
  /// then no level was queried.
  std::vector<PageTableLevelDesc> levels;
};

/// DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL without its allocation and size. Addresses are final: the
/// offset is not added (PAGE-31).
struct VirtualTransfer {
  enum class Direction : uint32_t { kLocalToSystem = 0, kSystemToLocal = 1, kLocalToLocal = 2 };
  uint64_t source = 0, destination = 0;  // in the paging process's address space
  Direction direction = Direction::kLocalToSystem;
  bool source_64kb_pages = false, destination_64kb_pages = false;
  /// Virtual addresses; 0 without GpuMmuCaps::source_page_table_in_transfer (PAGE-32).
  uint64_t source_page_table = 0, destination_page_table = 0;
};

/// DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE without its hAllocation. The operation has it; it is null
/// where tables are the target (PAGE-33).
struct PageTableUpdate {
  uint32_t level = 0;  // of the table that is written; 0: leaf
  /// The paging process's own tables are always kCpuVirtual while that process is built (PAGE-02).
  PageTableUpdateMode mode = PageTableUpdateMode::kCpuVirtual;
  // The start of the table. The mode says which of the two addresses counts.
  std::byte* table_cpu = nullptr;
  GpuPhysicalAddress table_physical;
  uint64_t table_virtual = 0;  // in the paging process's address space
  /// `count` entries, or one with `repeat`; read during the call only. entries[0] is for index
  /// `start_index`.
  const PageTableEntry* entries = nullptr;
  /// With dual PTEs (VA-44); else null.
  const PageTableEntry* entries_64kb = nullptr;
  uint32_t start_index = 0, count = 0;
  bool repeat = false;          // one source entry for all (PAGE-34)
  bool initial_update = false;  // the first update of this table (PAGE-33)
  // The entries become invalid because their allocation is evicted.
  bool notify_eviction = false;
  // The table has 64 KiB pages. `start_index` and `count` count entries of 4 KiB all the same, 16
  // to a page, as PageTableIndexBitCount does (our choice: no page of the documentation says).
  bool use_64kb_pages = false;
  uint64_t driver_protection = 0;        // level 0 only (PAGE-35)
  uint64_t allocation_offset_bytes = 0;  // of the first entry's page, with an hAllocation
  void* process = nullptr;               // the driver's handle (create_process)
  uint64_t first_va = 0;                 // the virtual address entries[0] translates
};

/// DXGK_BUILDPAGINGBUFFER_FLUSHTLB (PAGE-37).
struct TlbFlush {
  GpuPhysicalAddress root;
  void* process = nullptr;      // the driver's handle
  uint64_t start = 0, end = 0;  // end exclusive; both 0: the whole address space
};

/// DXGK_BUILDPAGINGBUFFER_COPY_RANGE: entries of tables, by virtual address in the process's second
/// address space (VA-34); both addresses are 64 KiB aligned.
struct PageTableCopy {
  uint64_t source_table = 0, destination_table = 0;
  uint32_t source_index = 0, destination_index = 0, count = 0;
};

/// DXGKARG_SETROOTPAGETABLE.
struct RootPageTable {
  GpuPhysicalAddress address;
  /// A virtual address with a root index of this or more faults (VA-06).
  uint32_t entry_count = 0;
};

/// DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE. The port has checked it: size, base and alignment are
/// multiples of one leaf table's coverage, size is not 0, alignment is a power of two (VA-09).
struct GpuVaReservation {
  uint32_t process = 0;  // as given to create_process
  uint64_t base = 0;     // 0: anywhere
  uint64_t size = 0;
  uint64_t alignment = 0;      // at least the coverage of one leaf table
  bool user_mappable = false;  // AllowUserModeMapping
};

}  // namespace dxgkit::port
