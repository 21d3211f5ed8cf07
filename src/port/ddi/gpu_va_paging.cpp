#include "port/ddi/gpu_va_paging.h"

#include "base/check.h"

namespace dxgkit::port {
namespace {

static_assert(sizeof(PageTableEntry) == sizeof(DXGK_PTE));
static_assert(offsetof(PageTableEntry, page) == offsetof(DXGK_PTE, PageAddress));
static_assert(sizeof(D3DGPU_PHYSICAL_ADDRESS) == 16);

DXGK_PTE* abi_entries_of(const PageTableEntry* entries) {
  return reinterpret_cast<DXGK_PTE*>(const_cast<PageTableEntry*>(entries));
}

void fill_update(DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE& out, const PagingOperation& operation) {
  const PageTableUpdate& update = operation.page_table;
  out.PageTableLevel = update.level;
  out.hAllocation = operation.allocation;
  switch (update.mode) {
    case PageTableUpdateMode::kCpuVirtual:
      out.PageTableAddress.CpuVirtual = update.table_cpu;
      break;
    case PageTableUpdateMode::kGpuVirtual:
      out.PageTableAddress.GpuVirtual = update.table_virtual;
      break;
    case PageTableUpdateMode::kGpuPhysical:
      out.PageTableAddress.GpuPhysical = abi_address_of(update.table_physical);
      break;
  }
  out.pPageTableEntries = abi_entries_of(update.entries);
  out.pPageTableEntries64KB = abi_entries_of(update.entries_64kb);
  out.StartIndex = update.start_index;
  out.NumPageTableEntries = update.count;
  out.Flags.Repeat = update.repeat ? 1 : 0;
  out.Flags.InitialUpdate = update.initial_update ? 1 : 0;
  out.Flags.NotifyEviction = update.notify_eviction ? 1 : 0;
  out.Flags.Use64KBPages = update.use_64kb_pages ? 1 : 0;
  out.DriverProtection = update.driver_protection;
  out.AllocationOffsetInBytes = update.allocation_offset_bytes;
  out.hProcess = update.process;
  out.UpdateMode = static_cast<DXGK_PAGETABLEUPDATEMODE>(update.mode);
  out.FirstPteVirtualAddress = update.first_va;
}

}  // namespace

D3DGPU_PHYSICAL_ADDRESS abi_address_of(const GpuPhysicalAddress& address) {
  D3DGPU_PHYSICAL_ADDRESS out{};
  out.SegmentId = address.segment.value;
  out.SegmentOffset = address.offset;
  return out;
}

void fill_virtual_operation(DXGKARG_BUILDPAGINGBUFFER& arguments, const PagingOperation& operation,
                            VirtualScratch* scratch) {
  switch (operation.kind) {
    case PagingOperation::Kind::kTransferVirtual: {
      auto& transfer = arguments.TransferVirtual;
      arguments.Operation = DXGK_OPERATION_VIRTUAL_TRANSFER;
      transfer.hAllocation = operation.allocation;
      transfer.AllocationOffsetInBytes = operation.offset_bytes;
      transfer.TransferSizeInBytes = operation.size_bytes;
      transfer.SourceVirtualAddress = operation.transfer.source;
      transfer.DestinationVirtualAddress = operation.transfer.destination;
      transfer.SourcePageTable = operation.transfer.source_page_table;
      transfer.DestinationPageTable = operation.transfer.destination_page_table;
      transfer.TransferDirection =
          static_cast<DXGK_MEMORY_TRANSFER_DIRECTION>(operation.transfer.direction);
      transfer.Flags.Src64KBPages = operation.transfer.source_64kb_pages ? 1 : 0;
      transfer.Flags.Dst64KBPages = operation.transfer.destination_64kb_pages ? 1 : 0;
      return;
    }
    case PagingOperation::Kind::kFillVirtual:
      arguments.Operation = DXGK_OPERATION_VIRTUAL_FILL;
      arguments.FillVirtual.hAllocation = operation.allocation;
      arguments.FillVirtual.AllocationOffsetInBytes = operation.offset_bytes;
      arguments.FillVirtual.FillSizeInBytes = operation.size_bytes;
      arguments.FillVirtual.FillPattern = operation.fill_pattern;
      arguments.FillVirtual.DestinationVirtualAddress = operation.gpu_va;
      return;
    case PagingOperation::Kind::kUpdatePageTable:
      arguments.Operation = DXGK_OPERATION_UPDATE_PAGE_TABLE;
      fill_update(arguments.UpdatePageTable, operation);
      return;
    case PagingOperation::Kind::kFlushTlb:
      arguments.Operation = DXGK_OPERATION_FLUSH_TLB;
      arguments.FlushTlb.RootPageTableAddress = abi_address_of(operation.flush.root);
      arguments.FlushTlb.hProcess = operation.flush.process;
      arguments.FlushTlb.StartVirtualAddress = operation.flush.start;
      arguments.FlushTlb.EndVirtualAddress = operation.flush.end;
      return;
    case PagingOperation::Kind::kCopyPageTableEntries:
      arguments.Operation = DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES;
      scratch->ranges.resize(operation.copies.size());
      for (size_t i = 0; i < operation.copies.size(); ++i) {
        const PageTableCopy& copy = operation.copies[i];
        DXGK_BUILDPAGINGBUFFER_COPY_RANGE& range = scratch->ranges[i];
        range = {};
        range.NumPageTableEntries = copy.count;
        range.SrcPageTableAddress = copy.source_table;
        range.DstPageTableAddress = copy.destination_table;
        range.SrcStartPteIndex = copy.source_index;
        range.DstStartPteIndex = copy.destination_index;
      }
      arguments.CopyPageTableEntries.NumRanges = static_cast<UINT>(scratch->ranges.size());
      arguments.CopyPageTableEntries.pRanges = scratch->ranges.data();
      return;
    case PagingOperation::Kind::kUpdateContextAllocation: {
      auto& update = arguments.UpdateContextAllocation;
      arguments.Operation = DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION;
      update.ContextAllocation = operation.gpu_va;
      update.ContextAllocationSize = operation.size_bytes;
      update.pDriverPrivateData = operation.private_data.empty()
                                      ? nullptr
                                      : const_cast<std::byte*>(operation.private_data.data());
      update.DriverPrivateDataSize = static_cast<UINT>(operation.private_data.size());
      return;
    }
    default:
      DXGKIT_CHECK(false);
  }
}

}  // namespace dxgkit::port
