// GPU virtual addresses: what the driver's MMU is, root page tables, virtual submission, and the
// paging operations of that model.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "nt/paged.h"
#include "port/adapter_impl.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kSetRootPageTable{"DxgkDdiSetRootPageTable", nt::kPassiveLevel,
                                    DdiClass::kScheduler};
constexpr DdiInfo kGetRootPageTableSize{"DxgkDdiGetRootPageTableSize", nt::kPassiveLevel,
                                        DdiClass::kLevelZero};
constexpr DdiInfo kSubmitCommandVirtual{"DxgkDdiSubmitCommandVirtual", nt::kDispatchLevel,
                                        DdiClass::kScheduler};
constexpr DdiInfo kValidateSubmitCommand{"DxgkDdiValidateSubmitCommand", nt::kPassiveLevel,
                                         DdiClass::kLevelZero};
constexpr const char* kQueryName = "DxgkDdiQueryAdapterInfo";
constexpr int kPoisonByte = 0xA5;

static_assert(sizeof(PageTableEntry) == sizeof(DXGK_PTE));
static_assert(offsetof(PageTableEntry, page) == offsetof(DXGK_PTE, PageAddress));
static_assert(sizeof(D3DGPU_PHYSICAL_ADDRESS) == 16);
static_assert(ValidateSubmitArgs::kMaxContexts ==
              std::size(decltype(DXGKARG_VALIDATESUBMITCOMMAND::Context){}));

D3DGPU_PHYSICAL_ADDRESS to_abi(const GpuPhysicalAddress& address) {
  D3DGPU_PHYSICAL_ADDRESS out{};
  out.SegmentId = address.segment.value;
  out.SegmentOffset = address.offset;
  return out;
}

DXGK_PTE* to_abi(const PageTableEntry* entries) {
  return reinterpret_cast<DXGK_PTE*>(const_cast<PageTableEntry*>(entries));
}

/// Asks with room behind the structure and tells when the driver wrote there.
template <typename Out, typename In>
Status query_exactly(AdapterPort::Impl& port, DXGK_QUERYADAPTERINFOTYPE type, In in, Out* out) {
  struct {
    Out value;
    std::array<std::byte, 32> tail;
  } room;
  std::memset(&room.value, 0, sizeof(room.value));
  std::memset(room.tail.data(), kPoisonByte, room.tail.size());
  const Status status = port.query(type, &in, sizeof(in), &room.value, sizeof(room.value));
  if (!is_success(status)) return status;
  if (!std::ranges::all_of(room.tail, [](std::byte b) { return b == std::byte{kPoisonByte}; })) {
    return port.violation("LIFE-13", kQueryName,
                          fmt::format("It wrote past OutputDataSize, {} bytes, of query type {}.",
                                      sizeof(Out), static_cast<uint32_t>(type)),
                          "The answer fits.",
                          "Check OutputDataSize; build for one interface version.",
                          Status::kDeviceConfigurationError);
  }
  *out = room.value;
  return status;
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
      out.PageTableAddress.GpuPhysical = to_abi(update.table_physical);
      break;
  }
  out.pPageTableEntries = to_abi(update.entries);
  out.pPageTableEntries64KB = to_abi(update.entries_64kb);
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
      arguments.FlushTlb.RootPageTableAddress = to_abi(operation.flush.root);
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

Result<GpuMmuCaps> AdapterPort::query_gpu_mmu() {
  Impl& port = *impl_;
  if (port.version < kInterfaceWddm20) return Error(Status::kNotSupported);
  DXGK_GPUMMUCAPS caps{};
  Status status = query_exactly(port, DXGKQAITYPE_GPUMMUCAPS, DXGK_QUERYGPUMMUCAPSIN{}, &caps);
  if (!is_success(status)) return Error(status);
  GpuMmuCaps result = caps_of(caps, port.version);
  if (result.level_count == 0 || result.level_count > kMaxPageTableLevels) return result;
  for (uint32_t level = 0; level < result.level_count; ++level) {
    DXGK_QUERYPAGETABLELEVELDESCIN in{};
    in.LevelIndex = static_cast<WORD>(level);
    DXGK_PAGE_TABLE_LEVEL_DESC desc{};
    status = query_exactly(port, DXGKQAITYPE_PAGETABLELEVELDESC, in, &desc);
    if (!is_success(status)) return Error(status);
    result.levels.push_back({.index_bits = desc.PageTableIndexBitCount,
                             .segment = desc.PageTableSegmentId,
                             .paging_process_segment = desc.PagingProcessPageTableSegmentId,
                             .table_bytes = desc.PageTableSizeInBytes,
                             .table_alignment_bytes = desc.PageTableAlignmentInBytes});
  }
  // A leaf that covers more than the address space has is refused by dxgk.
  const uint32_t leaf_bits = result.levels.front().index_bits;
  port.leaf_coverage = leaf_bits < 40 ? kPageBytes << leaf_bits : 0;
  port.va_bits = result.va_bits;
  return result;
}

Status AdapterPort::set_root_page_table(void* context, const RootPageTable& root) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.version < kInterfaceWddm20 || port.ddi.DxgkDdiSetRootPageTable == nullptr)
    return Status::kNotSupported;
  DXGKARG_SETROOTPAGETABLE arguments{};
  arguments.hContext = context;
  arguments.Address = to_abi(root.address);
  arguments.NumEntries = root.entry_count;
  DdiCall call(port, kSetRootPageTable, root.address.offset);
  return call.no_answer(port.ddi.DxgkDdiSetRootPageTable, port.context,
                        static_cast<const DXGKARG_SETROOTPAGETABLE*>(&arguments));
}

Result<uint64_t> AdapterPort::get_root_page_table_size(uint32_t entry_count) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (port.version < kInterfaceWddm20 || port.ddi.DxgkDdiGetRootPageTableSize == nullptr)
    return Error(Status::kNotSupported);
  DXGKARG_GETROOTPAGETABLESIZE arguments{};
  arguments.NumberOfPte = entry_count;
  SIZE_T bytes = 0;
  Status status = Status::kSuccess;
  {
    DdiCall call(port, kGetRootPageTableSize, entry_count);
    status = call.value(port.ddi.DxgkDdiGetRootPageTableSize, &bytes, port.context, &arguments);
  }
  if (!is_success(status)) return Error(status);
  // The description of a level has 32 bits for the size of its tables, too.
  if (bytes == 0 || bytes % kPageBytes != 0 || bytes > UINT32_MAX) {
    return Error(port.violation(
        "VA-05", kGetRootPageTableSize.name,
        fmt::format("It answered {} bytes for {} entries.", bytes, entry_count),
        "The size of the root page table: a multiple of the page size of its segment, below 4 GiB.",
        "Multiply by the size of an entry and round up to 4096 bytes.",
        Status::kDeviceConfigurationError));
  }
  return uint64_t{bytes};
}

Status AdapterPort::submit_virtual(const SubmitVirtualArgs& args) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.version < kInterfaceWddm20 || port.ddi.DxgkDdiSubmitCommandVirtual == nullptr)
    return Status::kNotSupported;
  DXGKARG_SUBMITCOMMANDVIRTUAL arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = args.context;
  arguments.DmaBufferVirtualAddress = args.buffer_va;
  arguments.DmaBufferSize = args.buffer_bytes;
  arguments.pDmaBufferPrivateData = args.private_bytes == 0 ? port.guard_page : args.private_data;
  arguments.DmaBufferPrivateDataSize = args.private_bytes;
  arguments.DmaBufferUmdPrivateDataSize = args.user_private_bytes;
  fill_submission(port, args, &arguments);

  nt::at_level(port.kernel, nt::kDispatchLevel);  // IRQL-13
  DdiCall call(port, kSubmitCommandVirtual, args.fence.value,
               static_cast<uint16_t>(args.node.value));
  const Status status = call(port.ddi.DxgkDdiSubmitCommandVirtual, port.context,
                             static_cast<const DXGKARG_SUBMITCOMMANDVIRTUAL*>(&arguments));
  if (status == Status::kSuccess || !call.completed()) return status;
  if (status == Status::kInvalidParameter && !args.flags.paging) return status;  // SUB-29
  port.fatal("SUB-28", kSubmitCommandVirtual.name, 0x119, 0x2,
             fmt::format("It returned {}{}.", hex(status),
                         args.flags.paging ? " for a paging buffer" : ""),
             "STATUS_SUCCESS, or STATUS_INVALID_PARAMETER for a malformed buffer or malformed "
             "private data of an application.",
             "Check the buffer first and refuse it with STATUS_INVALID_PARAMETER; nothing else may "
             "fail here.");
  return Status::kUnsuccessful;
}

Status AdapterPort::validate_submit(const ValidateSubmitArgs& args) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.version < kInterfaceWddm25 || port.ddi.DxgkDdiValidateSubmitCommand == nullptr)
    return Status::kNotSupported;
  DXGKIT_CHECK(args.contexts.size() <= ValidateSubmitArgs::kMaxContexts);
  DXGKARG_VALIDATESUBMITCOMMAND arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.Commands = args.buffer_va;
  arguments.CommandLength = args.buffer_bytes;
  arguments.Flags.HardwareQueueSubmission = args.hardware_queues ? 1 : 0;
  arguments.ContextCount = static_cast<UINT>(args.contexts.size());
  std::ranges::copy(args.contexts, arguments.Context);
  arguments.pPrivateDriverData = args.private_data;
  arguments.PrivateDriverDataSize = args.private_bytes;
  arguments.UmdPrivateDataSize = args.user_private_bytes;
  arguments.HwQueueProgressFenceId = args.progress_fence;
  DdiCall call(port, kValidateSubmitCommand, args.contexts.size());
  return call(port.ddi.DxgkDdiValidateSubmitCommand, port.context, &arguments);
}

}  // namespace dxgkit::port
