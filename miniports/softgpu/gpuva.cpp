#include "miniports/softgpu/gpuva.h"

#include "miniports/softgpu/driver.h"

#if SOFTGPU_HAS_GPU_VA

namespace softgpu {

MemoryModel g_memory_model = MemoryModel::kPatch;

namespace {

constexpr UINT64 kPageMask = SGPU_PAGE_BYTES - 1;
// The root of two levels: whole groups of entries, so that it does not move for every table that is
// added below it. System memory limits it to one page.
constexpr UINT kRootGroup = 64;
constexpr UINT kRootGroupBits = 6;
constexpr UINT kTableIndexBits = 9;
constexpr UINT kPageBits = 12;

constexpr UINT kEntriesPerLargePage = SGPU_LARGE_PAGE_BYTES / SGPU_PAGE_BYTES;

UINT level_count() { return has_two_levels() ? 2 : 4; }

/// DXGK_FAULT_ERROR_CODEs, bit for bit: not specific to this device, and DXGK_GENERAL_ERROR_CODE.
constexpr UINT kPageFaultCode = 0U << 1;
constexpr UINT kInvalidInstructionCode = 1U << 1;

template <typename Command>
bool append(PagingBuffer* buffer, SgpuU32 opcode, Command command) {
  if (buffer->size - buffer->used < sizeof(command)) return false;
  command.header = {opcode, sizeof(command)};
  __builtin_memcpy(buffer->bytes + buffer->used, &command, sizeof(command));
  buffer->used += sizeof(command);
  return true;
}

/// An update in the hardware's terms.
struct EntryRun {
  UINT first, count;  // entries of the hardware's table
  UINT stride;        // entries of the kernel's per entry of the hardware's; 0: one for all
};
EntryRun run_of(const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE& update) {
  const bool large = update.PageTableLevel == 0 && update.Flags.Use64KBPages != 0;
  const UINT unit = large ? kEntriesPerLargePage : 1;
  return {update.StartIndex / unit, (update.NumPageTableEntries + unit - 1) / unit,
          update.Flags.Repeat != 0 ? 0 : unit};
}
SgpuU64 entry_at(const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE& update, const EntryRun& run,
                 UINT index) {
  return hardware_entry(update.pPageTableEntries[index * run.stride], update.PageTableLevel);
}

/// Whether a user's private data is what softgpu_umd.h says, or absent.
bool is_sound_private_data(const DXGKARG_SUBMITCOMMANDVIRTUAL& args) {
  if (args.DmaBufferUmdPrivateDataSize == 0) return true;
  if (args.DmaBufferUmdPrivateDataSize != sizeof(SgpuUmdSubmission)) return false;
  SgpuUmdSubmission submission;
  RtlCopyMemory(&submission, args.pDmaBufferPrivateData, sizeof(submission));
  return submission.magic == SGPU_UMD_SUBMISSION_MAGIC && submission.version == SGPU_UMD_VERSION &&
         submission.flags == 0 && submission.reserved == 0;
}

/// Null: the submission has none. A user's own data come first.
SubmissionRecord* record_of(const DXGKARG_SUBMITCOMMANDVIRTUAL& args, bool system) {
  const UINT offset = system ? 0 : sizeof(SgpuUmdSubmission);
  if (args.DmaBufferPrivateDataSize < offset + sizeof(SubmissionRecord)) return nullptr;
  return reinterpret_cast<SubmissionRecord*>(static_cast<UCHAR*>(args.pDmaBufferPrivateData) +
                                             offset);
}

}  // namespace

NTSTATUS read_memory_model(PUNICODE_STRING registry_path, MemoryModel* model) {
  static const WCHAR kName[] = {'M', 'e', 'm', 'o', 'r', 'y', 'M', 'o', 'd', 'e', 'l', 0};
  ULONG number = static_cast<ULONG>(MemoryModel::kPatch);
  *model = MemoryModel::kPatch;
  const NTSTATUS status = read_setting(registry_path, kName, &number);
  if (!NT_SUCCESS(status)) return status;
  if (number > static_cast<UINT>(MemoryModel::kLargePages)) return STATUS_INVALID_PARAMETER;
  *model = static_cast<MemoryModel>(number);
  return STATUS_SUCCESS;
}

UINT64 gpu_address(UINT segment, UINT64 offset) {
  switch (segment) {
    case 0:
      return offset;
    case kSegmentVram:
      return SGPU_VRAM_BASE + offset;
    case kSegmentAperture:
      return SGPU_APERTURE_BASE + offset;
    default:
      return 0;
  }
}

UINT virtual_address_bits() {
  return kPageBits + kTableIndexBits * level_count();  // two levels: as far as one page of root
}

NTSTATUS query_mmu_caps(void* out, UINT bytes) {
  if (bytes < sizeof(DXGK_GPUMMUCAPS)) return STATUS_BUFFER_TOO_SMALL;
  auto* caps = static_cast<DXGK_GPUMMUCAPS*>(out);
  RtlZeroMemory(caps, sizeof(*caps));
  caps->ReadOnlyMemorySupported = 1;
  caps->NoExecuteMemorySupported = 1;
  caps->ZeroInPteSupported = 1;
  caps->CacheCoherentMemorySupported = 1;
  // Entries are stored whole and the engines are told by FlushTlb: nobody needs to be idle.
  caps->PageTableUpdateMode =
      has_two_levels() ? DXGK_PAGETABLEUPDATE_CPU_VIRTUAL : DXGK_PAGETABLEUPDATE_GPU_PHYSICAL;
  if (has_large_pages()) caps->LeafPageTableSizeFor64KPagesInBytes = SGPU_VA_TABLE_BYTES;
  caps->VirtualAddressBitCount = virtual_address_bits();
  caps->PageTableLevelCount = level_count();
  return STATUS_SUCCESS;
}

NTSTATUS query_level(const void* in, UINT in_bytes, void* out, UINT bytes) {
  if (in == nullptr || in_bytes < sizeof(DXGK_QUERYPAGETABLELEVELDESCIN)) {
    return STATUS_INVALID_PARAMETER;
  }
  if (bytes < sizeof(DXGK_PAGE_TABLE_LEVEL_DESC)) return STATUS_BUFFER_TOO_SMALL;
  const UINT level = static_cast<const DXGK_QUERYPAGETABLELEVELDESCIN*>(in)->LevelIndex;
  if (level >= level_count()) return STATUS_INVALID_PARAMETER;
  const bool grows = has_two_levels() && level == 1;
  auto* desc = static_cast<DXGK_PAGE_TABLE_LEVEL_DESC*>(out);
  RtlZeroMemory(desc, sizeof(*desc));
  desc->PageTableIndexBitCount = grows ? kRootGroupBits : kTableIndexBits;
  desc->PageTableSegmentId = memory_model() == MemoryModel::kFourLevels ? kSegmentVram : 0;
  desc->PagingProcessPageTableSegmentId = 0;  // the CPU writes them before any engine runs
  desc->PageTableSizeInBytes = SGPU_VA_TABLE_BYTES;
  desc->PageTableAlignmentInBytes = SGPU_VA_TABLE_BYTES;
  return STATUS_SUCCESS;
}

// --- page tables ---

SgpuU64 hardware_entry(const DXGK_PTE& entry, UINT level) {
  if (entry.Zero != 0) return SGPU_PTE_VALID | SGPU_PTE_ZERO;
  if (entry.Valid == 0) return 0;
  SgpuU64 flags = SGPU_PTE_VALID;
  if (level == 0) {
    if (entry.ReadOnly != 0) flags |= SGPU_PTE_READ_ONLY;
    if (entry.NoExecute != 0) flags |= SGPU_PTE_NO_EXECUTE;
    if (entry.CacheCoherent != 0) flags |= SGPU_PTE_COHERENT;
  }
  if (level == 1 && entry.PageTablePageSize == DXGK_PTE_PAGE_TABLE_PAGE_64KB) flags |= SGPU_PTE_64K;
  const UINT segment = static_cast<UINT>(entry.Segment);
  const SgpuU64 address = gpu_address(segment, entry.PageAddress << kPageBits);
  return flags | (address & SGPU_PTE_ADDRESS_MASK);
}

void write_entries(const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE& update) {
  auto* table = static_cast<volatile SgpuU64*>(update.PageTableAddress.CpuVirtual);
  const EntryRun run = run_of(update);
  for (UINT i = 0; i < run.count; ++i) {
    // One store each: an engine may be reading the entry.
    table[run.first + i] = entry_at(update, run, i);
  }
  KeMemoryBarrier();
}

NTSTATUS build_update(PagingBuffer* buffer, const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE& update,
                      UINT* multipass_offset) {
  const bool physical = update.UpdateMode == DXGK_PAGETABLEUPDATE_GPU_PHYSICAL;
  const auto& where = update.PageTableAddress;
  const UINT64 table =
      physical ? gpu_address(where.GpuPhysical.SegmentId, where.GpuPhysical.SegmentOffset)
               : where.GpuVirtual;
  const EntryRun run = run_of(update);
  const bool repeat = run.stride == 0;
  while (*multipass_offset < run.count) {
    const UINT done = *multipass_offset;
    UINT count = run.count - done;
    if (count > SGPU_PTES_MAX) count = SGPU_PTES_MAX;
    UINT listed = repeat ? 1 : count;
    const UINT room = buffer->size - buffer->used;
    if (room < sizeof(SgpuWritePtes) + sizeof(SgpuU64)) {
      return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    }
    const UINT most = static_cast<UINT>((room - sizeof(SgpuWritePtes)) / sizeof(SgpuU64));
    if (listed > most) listed = count = most;
    const UINT bytes = static_cast<UINT>(sizeof(SgpuWritePtes) + listed * sizeof(SgpuU64));
    SgpuWritePtes command = {};
    command.header = {SGPU_OP_WRITE_PTES, bytes};
    command.table = table + UINT64{sizeof(SgpuU64)} * (UINT64{run.first} + done);
    command.count = count;
    command.flags = (physical ? SGPU_PTES_PHYSICAL : 0) | (repeat ? SGPU_PTES_REPEAT : 0);
    UCHAR* to = buffer->bytes + buffer->used;
    __builtin_memcpy(to, &command, sizeof(command));
    for (UINT i = 0; i < listed; ++i) {
      const SgpuU64 entry = entry_at(update, run, done + i);
      __builtin_memcpy(to + sizeof(command) + i * sizeof(entry), &entry, sizeof(entry));
    }
    buffer->used += bytes;
    *multipass_offset = done + count;
  }
  return STATUS_SUCCESS;
}

SgpuFlushTlb hardware_flush(const DXGK_BUILDPAGINGBUFFER_FLUSHTLB& flush) {
  SgpuFlushTlb command = {};
  const auto& root = flush.RootPageTableAddress;
  command.root = gpu_address(root.SegmentId, root.SegmentOffset) & ~kPageMask;
  // Whole pages, and rather one too many than one too few. What wraps around is everything.
  const UINT64 end = flush.EndVirtualAddress + kPageMask;
  if (end >= flush.EndVirtualAddress && end > flush.StartVirtualAddress) {
    command.start = flush.StartVirtualAddress & ~kPageMask;
    command.end = end & ~kPageMask;
  }
  return command;
}

NTSTATUS build_flush(PagingBuffer* buffer, const DXGK_BUILDPAGINGBUFFER_FLUSHTLB& flush) {
  const bool fits = append(buffer, SGPU_OP_FLUSH_TLB, hardware_flush(flush));
  return fits ? STATUS_SUCCESS : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}

NTSTATUS build_copy_entries(PagingBuffer* buffer,
                            const DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES& copy,
                            UINT* multipass_offset) {
  for (; *multipass_offset < copy.NumRanges; ++*multipass_offset) {
    const DXGK_BUILDPAGINGBUFFER_COPY_RANGE& range = copy.pRanges[*multipass_offset];
    SgpuCopyPtes command = {};
    command.source = range.SrcPageTableAddress + UINT64{sizeof(SgpuU64)} * range.SrcStartPteIndex;
    command.destination =
        range.DstPageTableAddress + UINT64{sizeof(SgpuU64)} * range.DstStartPteIndex;
    command.count = range.NumPageTableEntries;
    if (!append(buffer, SGPU_OP_COPY_PTES, command)) {
      return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    }
  }
  return STATUS_SUCCESS;
}

NTSTATUS flush_by_registers(Adapter* adapter, const SgpuFlushTlb& wanted) {
  // The registers are one set for everybody.
  const NTSTATUS status = at_device_level(adapter, [&] {
    write64(*adapter, SGPU_REG_TLB_ROOT, wanted.root);
    write64(*adapter, SGPU_REG_TLB_START, wanted.start);
    write64(*adapter, SGPU_REG_TLB_END, wanted.end);
    write32(*adapter, SGPU_REG_TLB_FLUSH, 1);
  });
  if (!NT_SUCCESS(status)) return status;
  // An engine may be in the middle of a large transfer: as long as for a reset.
  for (UINT i = 0; i < 100000; ++i) {
    const ULONG busy = read32(*adapter, SGPU_REG_TLB_FLUSH);
    if (busy != 1) return STATUS_SUCCESS;  // over, or the device is gone and uses nothing any more
    KeStallExecutionProcessor(10);
  }
  return STATUS_GRAPHICS_ALLOCATION_BUSY;
}

// --- entry points ---

NTSTATUS NTAPI DdiCreateProcess(IN_CONST_HANDLE, INOUT_PDXGKARG_CREATEPROCESS args) {
  auto* process = make<Process>();
  if (process == nullptr) return STATUS_NO_MEMORY;
  process->handle = args->hDxgkProcess;
  process->system = args->Flags.SystemProcess != 0;
  args->hKmdProcess = process;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyProcess(IN_CONST_HANDLE, IN_CONST_HANDLE process) {
  unmake(process);
  return STATUS_SUCCESS;
}

SIZE_T NTAPI DdiGetRootPageTableSize(IN_CONST_HANDLE, INOUT_PDXGKARG_GETROOTPAGETABLESIZE args) {
  UINT entries = args->NumberOfPte == 0 ? 1 : args->NumberOfPte;
  if (entries > SGPU_VA_ROOT_ENTRIES_MAX_2) entries = SGPU_VA_ROOT_ENTRIES_MAX_2;
  entries = (entries + kRootGroup - 1) & ~(kRootGroup - 1);
  args->NumberOfPte = entries;
  return (SIZE_T{entries} * sizeof(SgpuU64) + kPageMask) & ~SIZE_T{kPageMask};
}

void NTAPI DdiSetRootPageTable(IN_CONST_HANDLE handle, IN_CONST_PDXGKARG_SETROOTPAGETABLE args) {
  auto* adapter = static_cast<Adapter*>(handle);
  auto* context = static_cast<Context*>(args->hContext);
  const UINT most = has_two_levels() ? SGPU_VA_ROOT_ENTRIES_MAX_2 : SGPU_VA_TABLE_ENTRIES;
  RootTable root = {gpu_address(args->Address.SegmentId, args->Address.SegmentOffset),
                    args->NumEntries < most ? args->NumEntries : most};
  // The engines refuse to look at such an entry at all; without entries they fault politely.
  if ((root.address & ~SGPU_PTE_ADDRESS_MASK) != 0) root = {0, 0};
  // Memory that becomes a root may have been another process's: what engines remember by that
  // address is not of these tables. The context is idle, so there is nothing to wait for.
  if (root.address != 0) (void)flush_by_registers(adapter, {{}, root.address & ~kPageMask, 0, 0});
  context->root = root;
  if (context->of_paging) adapter->node[context->node].paging_root = root;
}

NTSTATUS NTAPI DdiSubmitCommandVirtual(IN_CONST_HANDLE handle,
                                       IN_CONST_PDXGKARG_SUBMITCOMMANDVIRTUAL args) {
  auto* adapter = static_cast<Adapter*>(handle);
  if (args->NodeOrdinal >= SGPU_NODE_COUNT) return STATUS_INVALID_PARAMETER;
  Node* node = &adapter->node[args->NodeOrdinal];
  // Null for some paging work: then the node's own paging context is meant.
  const auto* context = static_cast<const Context*>(args->hContext);
  const bool system = context == nullptr || context->system;
  const UINT length = args->DmaBufferSize;
  const bool sound = args->DmaBufferVirtualAddress % 8 == 0 && length % 8 == 0 &&
                     length <= SGPU_DMA_BYTES_MAX && (system || is_sound_private_data(*args));

  InFlight submission = {};
  submission.process = context != nullptr ? context->process : nullptr;
  SgpuRingEntry& entry = submission.entry;
  entry.fence = args->SubmissionFenceId;
  if (!sound || length == 0) {
    // A context switch, or what is refused: either way the fence passes in its place in the line.
    entry.type = SGPU_RING_FENCE;
    entry.flags = sound ? 0 : SGPU_EXECUTE_NO_INTERRUPT;
    submission.refused = !sound;
  } else {
    const RootTable root = context != nullptr ? context->root : node->paging_root;
    entry.type = SGPU_RING_EXECUTE;
    entry.flags = SGPU_EXECUTE_VIRTUAL;
    if (args->Flags.NullRendering != 0) entry.flags |= SGPU_EXECUTE_NULL;
    if (!has_two_levels()) entry.flags |= SGPU_EXECUTE_FOUR_LEVELS;
    if (system) entry.flags |= SGPU_EXECUTE_PRIVILEGED;  // the kernel's buffers, and no others
    entry.root = root.address;
    entry.root_entries = root.entries;
    entry.address = args->DmaBufferVirtualAddress;
    entry.length = length;
    SubmissionRecord* record = record_of(*args, system);
    submission.record = record;
    if (record != nullptr) {
      // Only a preempted submission that comes back has a place to go on from. What else is there
      // may be the user's.
      if (args->Flags.Resubmission != 0 && record->resume_offset < length) {
        entry.start_offset = record->resume_offset;
      }
      RtlZeroMemory(record, sizeof(*record));
    }
  }
  bool accepted = false;
  const NTSTATUS status = at_device_level(adapter, [&] { accepted = submit(node, submission); });
  if (!NT_SUCCESS(status)) return status;
  if (!accepted) return STATUS_INSUFFICIENT_RESOURCES;
  return sound ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
}

NTSTATUS build_virtual(Adapter* adapter, DXGKARG_BUILDPAGINGBUFFER* args, PagingBuffer* buffer) {
  switch (args->Operation) {
    case DXGK_OPERATION_VIRTUAL_TRANSFER: {
      const auto& t = args->TransferVirtual;
      return build_transfer(buffer, {nullptr, t.SourceVirtualAddress},
                            {nullptr, t.DestinationVirtualAddress}, t.TransferSizeInBytes,
                            &args->MultipassOffset);
    }
    case DXGK_OPERATION_VIRTUAL_FILL: {
      const auto& f = args->FillVirtual;
      return build_fill(buffer, f.DestinationVirtualAddress, f.FillSizeInBytes, f.FillPattern);
    }
    case DXGK_OPERATION_UPDATE_PAGE_TABLE:
      return build_update(buffer, args->UpdatePageTable, &args->MultipassOffset);
    case DXGK_OPERATION_FLUSH_TLB:
      return build_flush(buffer, args->FlushTlb);
    case DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES:
      return build_copy_entries(buffer, args->CopyPageTableEntries, &args->MultipassOffset);
    case DXGK_OPERATION_MAP_APERTURE_SEGMENT:
    case DXGK_OPERATION_UNMAP_APERTURE_SEGMENT:
      return build_aperture(adapter, args, buffer);
    default:
      // Addresses of physical operations would be taken for virtual ones. See build_operation().
      return STATUS_NOT_SUPPORTED;
  }
}

bool build_without_buffer(Adapter* adapter, const DXGKARG_BUILDPAGINGBUFFER& args,
                          NTSTATUS* status) {
  *status = STATUS_SUCCESS;
  switch (args.Operation) {
    case DXGK_OPERATION_NOTIFY_RESIDENCY:
    case DXGK_OPERATION_DISCARD_CONTENT:
      return true;  // the driver keeps nothing about places and contents
    case DXGK_OPERATION_UPDATE_PAGE_TABLE:
      if (args.UpdatePageTable.UpdateMode != DXGK_PAGETABLEUPDATE_CPU_VIRTUAL) break;
      write_entries(args.UpdatePageTable);
      return true;
    case DXGK_OPERATION_FLUSH_TLB:
      if (args.pDmaBuffer != nullptr) break;
      *status = flush_by_registers(adapter, hardware_flush(args.FlushTlb));
      return true;
    default:
      break;
  }
  return false;
}

DXGKARGCB_NOTIFY_INTERRUPT_DATA page_fault_report(const Node& node, UINT fence, HANDLE process,
                                                  bool of_page) {
  const ULONG detail = read_node(node, SGPU_NODE_FAULT_DETAIL);
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
  auto& fault = data.DmaPageFaulted;
  fault.FaultedFenceId = fence;
  fault.FaultedPipelineStage = DXGK_RENDER_PIPELINE_STAGE_UNKNOWN;
  // The driver resets its engine and puts back what waited behind: nothing is left to the kernel.
  fault.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(
      (detail & SGPU_DETAIL_WRITE) != 0 ? DXGK_PAGE_FAULT_WRITE : 0);
  fault.FaultedVirtualAddress =
      read64(*node.adapter, SGPU_NODE_REG(node.ordinal, SGPU_NODE_FAULT_ADDRESS));
  fault.NodeOrdinal = node.ordinal;
  fault.PageTableLevel = SGPU_DETAIL_LEVEL(detail);
  // The engine did not like a command, or its own ring: no address is to blame.
  const UINT code = of_page ? kPageFaultCode : kInvalidInstructionCode;
  static_assert(sizeof(fault.FaultErrorCode) == sizeof(code), "bit for bit");
  RtlCopyMemory(&fault.FaultErrorCode, &code, sizeof(code));
  fault.FaultedProcessHandle = process;
  return data;
}

}  // namespace softgpu

#endif
