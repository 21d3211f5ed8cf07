// What goes wrong with GPU virtual addresses. An image of its own: softgpu with the 2.0 interface,
// in the model that the registry value MemoryModel names.
#include "miniports/softgpu/driver.h"
#include "tests/mutants/mutants.h"

namespace mutants {
namespace {

using ChangeAnswer = void (*)(const DXGKARG_QUERYADAPTERINFO* args);
ChangeAnswer change_answer;
NTSTATUS NTAPI query_changed(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = original.DxgkDdiQueryAdapterInfo(context, args);
  if (NT_SUCCESS(status)) change_answer(args);
  return status;
}
void with_answer(DRIVER_INITIALIZATION_DATA* table, ChangeAnswer change) {
  change_answer = change;
  table->DxgkDdiQueryAdapterInfo = query_changed;
}

template <typename T>
T* answer_to(const DXGKARG_QUERYADAPTERINFO* args, DXGK_QUERYADAPTERINFOTYPE type) {
  return args->Type == type ? static_cast<T*>(args->pOutputData) : nullptr;
}
DXGK_DRIVERCAPS* caps_of(const DXGKARG_QUERYADAPTERINFO* args) {
  return answer_to<DXGK_DRIVERCAPS>(args, DXGKQAITYPE_DRIVERCAPS);
}
DXGK_GPUMMUCAPS* mmu_of(const DXGKARG_QUERYADAPTERINFO* args) {
  return answer_to<DXGK_GPUMMUCAPS>(args, DXGKQAITYPE_GPUMMUCAPS);
}
/// The description of one level, if that is asked for.
DXGK_PAGE_TABLE_LEVEL_DESC* level_of(const DXGKARG_QUERYADAPTERINFO* args, WORD level) {
  auto* desc = answer_to<DXGK_PAGE_TABLE_LEVEL_DESC>(args, DXGKQAITYPE_PAGETABLELEVELDESC);
  if (desc == nullptr) return nullptr;
  const auto* in = static_cast<const DXGK_QUERYPAGETABLELEVELDESCIN*>(args->pInputData);
  return in->LevelIndex == level ? desc : nullptr;
}

// --- caps and levels ---

void va_both_models(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = caps_of(args)) caps->MemoryManagementCaps.IoMmuSupported = 1;
  });
}
void va_of_the_processor(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = caps_of(args)) {
      caps->MemoryManagementCaps.GpuMmuSupported = 0;
      caps->MemoryManagementCaps.IoMmuSupported = 1;
    }
  });
}
void va_without_saying_so(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = caps_of(args)) caps->MemoryManagementCaps.VirtualAddressingSupported = 0;
  });
}
void va_seven_levels(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = mmu_of(args)) caps->PageTableLevelCount = 7;
  });
}
void va_bits_do_not_add_up(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = mmu_of(args)) caps->VirtualAddressBitCount = 47;
  });
}
void va_table_of_half_pages(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* desc = level_of(args, 2)) desc->PageTableSizeInBytes = 6144;
  });
}
void va_large_table_in_system_memory(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* desc = level_of(args, 3)) {
      desc->PageTableSegmentId = 0;
      desc->PageTableSizeInBytes = 8192;
    }
  });
}
void va_processor_writes_video_memory(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = mmu_of(args)) caps->PageTableUpdateMode = DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
  });
}
void va_without_root_entry(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetRootPageTable = nullptr;
}

// --- reservations ---

void reserve(HANDLE process, UINT64 bytes) {
  DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE range = {};
  range.hDxgkProcess = process;
  range.SizeInBytes = bytes;
  (void)dxgk->DxgkCbReserveGpuVirtualAddressRange(dxgk->DeviceHandle, &range);
}

NTSTATUS NTAPI create_process_reserving_pages(IN_CONST_HANDLE context,
                                              INOUT_PDXGKARG_CREATEPROCESS args) {
  reserve(args->hDxgkProcess, 4096);
  return original.DxgkDdiCreateProcess(context, args);
}
void va_reserves_part_of_a_table(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateProcess = create_process_reserving_pages;
}

HANDLE kernel_process;
NTSTATUS NTAPI create_process_remembered(IN_CONST_HANDLE context,
                                         INOUT_PDXGKARG_CREATEPROCESS args) {
  kernel_process = args->hDxgkProcess;
  return original.DxgkDdiCreateProcess(context, args);
}
NTSTATUS NTAPI create_device_reserving(IN_CONST_HANDLE context, INOUT_PDXGKARG_CREATEDEVICE args) {
  reserve(kernel_process, UINT64{2} << 20);
  return original.DxgkDdiCreateDevice(context, args);
}
void va_reserves_late(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateProcess = create_process_remembered;
  table->DxgkDdiCreateDevice = create_device_reserving;
}

NTSTATUS NTAPI create_process_reserving_oddly(IN_CONST_HANDLE context,
                                              INOUT_PDXGKARG_CREATEPROCESS args) {
  DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE range = {};
  range.hDxgkProcess = args->hDxgkProcess;
  range.SizeInBytes = UINT64{2} << 20;
  range.Alignment = 3 * PAGE_SIZE;
  (void)dxgk->DxgkCbReserveGpuVirtualAddressRange(dxgk->DeviceHandle, &range);
  return original.DxgkDdiCreateProcess(context, args);
}
void va_reserves_with_odd_alignment(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateProcess = create_process_reserving_oddly;
}

// Those named two_levels_ are for that model, and break when the adapter has been started.

bool for_clients;
NTSTATUS NTAPI create_process_told_apart(IN_CONST_HANDLE context,
                                         INOUT_PDXGKARG_CREATEPROCESS args) {
  for_clients = args->Flags.SystemProcess == 0;
  return original.DxgkDdiCreateProcess(context, args);
}

SIZE_T NTAPI root_of_bytes(IN_CONST_HANDLE context, INOUT_PDXGKARG_GETROOTPAGETABLESIZE args) {
  const SIZE_T bytes = original.DxgkDdiGetRootPageTableSize(context, args);
  return for_clients ? SIZE_T{args->NumberOfPte} * sizeof(UINT64) : bytes;  // less than a page
}
void two_levels_root_is_no_page(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateProcess = create_process_told_apart;
  table->DxgkDdiGetRootPageTableSize = root_of_bytes;
}

// --- paging operations ---

/// A spoilt answer to some operations; true: `status` is it.
using SpoilPaging = bool (*)(DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS* status);
SpoilPaging spoil_paging;
HANDLE paging_adapter;  // of the call that is spoilt
NTSTATUS NTAPI build_spoilt(IN_CONST_HANDLE context, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  NTSTATUS status = STATUS_SUCCESS;
  paging_adapter = context;
  if (spoil_paging(args, &status)) return status;
  return original.DxgkDdiBuildPagingBuffer(context, args);
}
void with_paging(DRIVER_INITIALIZATION_DATA* table, SpoilPaging spoil) {
  spoil_paging = spoil;
  table->DxgkDdiBuildPagingBuffer = build_spoilt;
}
/// Without a paging buffer, and not of the start; done then.
bool processor_did(const DXGKARG_BUILDPAGINGBUFFER* args) {
  if (!for_clients || args->Operation != DXGK_OPERATION_UPDATE_PAGE_TABLE) return false;
  if (args->pDmaBuffer != nullptr) return false;
  softgpu::write_entries(args->UpdatePageTable);
  return true;
}

void two_levels_update_put_off(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateProcess = create_process_told_apart;
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS* status) {
    *status = STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    return processor_did(args);
  });
}
void two_levels_update_moves_null(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateProcess = create_process_told_apart;
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    if (!processor_did(args)) return false;
    args->pDmaBuffer = static_cast<UCHAR*>(args->pDmaBuffer) + 64;
    return true;
  });
}
void transfer_advances_past_end(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    if (args->Operation != DXGK_OPERATION_VIRTUAL_TRANSFER) return false;
    args->pDmaBuffer = static_cast<UCHAR*>(args->pDmaBuffer) + args->DmaSize + 8;
    return true;
  });
}
void fill_stands_still(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    if (args->Operation != DXGK_OPERATION_VIRTUAL_FILL) return false;
    auto* const bytes = static_cast<volatile UCHAR*>(args->pDmaBuffer);
    for (UINT i = 0; i < 32; ++i) bytes[i] = 0x77;
    return true;
  });
}
void update_private_past_end(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    if (args->Operation != DXGK_OPERATION_UPDATE_PAGE_TABLE || args->pDmaBuffer == nullptr)
      return false;
    args->pDmaBufferPrivateData =
        static_cast<UCHAR*>(args->pDmaBufferPrivateData) + args->DmaBufferPrivateDataSize + 8;
    return true;
  });
}
void transfer_odd_status(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS* status) {
    *status = STATUS_NOT_SUPPORTED;
    return args->Operation == DXGK_OPERATION_VIRTUAL_TRANSFER;
  });
}
void flush_without_progress(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS* status) {
    *status = STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    return args->Operation == DXGK_OPERATION_FLUSH_TLB;
  });
}
void update_is_busy(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS* status) {
    *status = STATUS_GRAPHICS_ALLOCATION_BUSY;
    return args->Operation == DXGK_OPERATION_UPDATE_PAGE_TABLE && args->pDmaBuffer != nullptr;
  });
}

// --- paging operations that look right and do something else: what only content shows ---

void transfer_moves_nothing(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    return args->Operation == DXGK_OPERATION_VIRTUAL_TRANSFER;
  });
}
void transfer_forgets_last_page(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    if (args->Operation == DXGK_OPERATION_VIRTUAL_TRANSFER && args->MultipassOffset == 0 &&
        args->TransferVirtual.TransferSizeInBytes > PAGE_SIZE)
      args->TransferVirtual.TransferSizeInBytes -= PAGE_SIZE;
    return false;
  });
}
void fill_writes_half(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    if (args->Operation == DXGK_OPERATION_VIRTUAL_FILL) args->FillVirtual.FillSizeInBytes /= 2;
    return false;
  });
}
/// Zeros are what fills have nearly always.
void fill_writes_zeros(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    if (args->Operation == DXGK_OPERATION_VIRTUAL_FILL) args->FillVirtual.FillPattern = 0;
    return false;
  });
}
void flush_does_nothing(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    return args->Operation == DXGK_OPERATION_FLUSH_TLB;
  });
}
/// Entries that clients' work goes through: the paging process's have other tables.
void update_keeps_old_entries(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    const auto& update = args->UpdatePageTable;
    return args->Operation == DXGK_OPERATION_UPDATE_PAGE_TABLE && args->pDmaBuffer != nullptr &&
           update.pPageTableEntries[0].Valid == 0 && update.Flags.InitialUpdate == 0;
  });
}

/// Leaf entries of an update lose a bit on their way. The driver reads a copy.
template <typename Change>
bool update_changed(DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS* status, Change change) {
  auto& update = args->UpdatePageTable;
  if (args->Operation != DXGK_OPERATION_UPDATE_PAGE_TABLE || update.PageTableLevel != 0)
    return false;
  const UINT listed = update.Flags.Repeat != 0 ? 1 : update.NumPageTableEntries;
  auto* const copy = static_cast<DXGK_PTE*>(
      ExAllocatePoolWithTag(NonPagedPoolNx, listed * sizeof(DXGK_PTE), 'etpM'));
  if (copy == nullptr) return false;
  const DXGK_PTE* const listed_entries = update.pPageTableEntries;
  for (UINT i = 0; i < listed; ++i) {
    copy[i] = listed_entries[i];
    change(&copy[i]);
  }
  update.pPageTableEntries = copy;
  *status = original.DxgkDdiBuildPagingBuffer(paging_adapter, args);
  update.pPageTableEntries = const_cast<DXGK_PTE*>(listed_entries);
  ExFreePoolWithTag(copy, 'etpM');
  return true;
}
void update_forgets_read_only(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS* status) {
    return update_changed(args, status, [](DXGK_PTE* entry) { entry->ReadOnly = 0; });
  });
}
void update_forgets_no_execute(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS* status) {
    return update_changed(args, status, [](DXGK_PTE* entry) { entry->NoExecute = 0; });
  });
}
void update_takes_zeros_for_memory(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS* status) {
    return update_changed(args, status, [](DXGK_PTE* entry) {
      if (entry->Zero == 0) return;
      entry->Zero = 0;
      entry->Valid = 1;
    });
  });
}
/// All but the last page of what changed.
void flush_ends_early(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    auto& flush = args->FlushTlb;
    if (args->Operation == DXGK_OPERATION_FLUSH_TLB &&
        flush.EndVirtualAddress > flush.StartVirtualAddress + PAGE_SIZE)
      flush.EndVirtualAddress -= PAGE_SIZE;
    return false;
  });
}
void copy_forgets_entries(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    return args->Operation == DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES;
  });
}
void copy_has_one_range(DRIVER_INITIALIZATION_DATA* table) {
  with_paging(table, [](DXGKARG_BUILDPAGINGBUFFER* args, NTSTATUS*) {
    if (args->Operation == DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES)
      args->CopyPageTableEntries.NumRanges = 1;
    return false;
  });
}

// --- roots and submissions ---

NTSTATUS NTAPI submit_without_room(IN_CONST_HANDLE context,
                                   IN_CONST_PDXGKARG_SUBMITCOMMANDVIRTUAL args) {
  if (args->Flags.Paging == 0) return STATUS_NO_MEMORY;
  return original.DxgkDdiSubmitCommandVirtual(context, args);
}
void submit_has_no_room(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSubmitCommandVirtual = submit_without_room;
}
NTSTATUS NTAPI submit_no_paging(IN_CONST_HANDLE context,
                                IN_CONST_PDXGKARG_SUBMITCOMMANDVIRTUAL args) {
  if (args->Flags.Paging != 0) return STATUS_INVALID_PARAMETER;
  return original.DxgkDdiSubmitCommandVirtual(context, args);
}
void submit_refuses_paging(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSubmitCommandVirtual = submit_no_paging;
}

NTSTATUS NTAPI create_context_without_private(IN_CONST_HANDLE device,
                                              INOUT_PDXGKARG_CREATECONTEXT args) {
  const NTSTATUS status = original.DxgkDdiCreateContext(device, args);
  if (NT_SUCCESS(status) && args->Flags.SystemContext == 0)
    args->ContextInfo.DmaBufferPrivateDataSize = 0;
  return status;
}
NTSTATUS NTAPI submit_looking(IN_CONST_HANDLE context,
                              IN_CONST_PDXGKARG_SUBMITCOMMANDVIRTUAL args) {
  if (args->Flags.Paging == 0)
    (void)*static_cast<const volatile UCHAR*>(args->pDmaBufferPrivateData);
  return original.DxgkDdiSubmitCommandVirtual(context, args);
}
void submit_reads_absent_private_data(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateContext = create_context_without_private;
  table->DxgkDdiSubmitCommandVirtual = submit_looking;
}

NTSTATUS NTAPI submit_null_and_forget(IN_CONST_HANDLE context,
                                      IN_CONST_PDXGKARG_SUBMITCOMMANDVIRTUAL args) {
  if (args->Flags.NullRendering != 0) return STATUS_SUCCESS;  // nothing to do, nothing to report
  return original.DxgkDdiSubmitCommandVirtual(context, args);
}
void submit_forgets_null_rendering(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSubmitCommandVirtual = submit_null_and_forget;
}

/// One root for all: that of the first client.
const void* first_user;
DXGKARG_SETROOTPAGETABLE first_root;
void NTAPI set_first_root(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SETROOTPAGETABLE args) {
  auto* const user = static_cast<const softgpu::Context*>(args->hContext);
  if (user->system) return original.DxgkDdiSetRootPageTable(context, args);
  if (first_user == nullptr) first_user = user;
  if (first_user == user) first_root = *args;
  DXGKARG_SETROOTPAGETABLE told = first_root;
  told.hContext = args->hContext;
  original.DxgkDdiSetRootPageTable(context, &told);
}
void root_of_somebody_else(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetRootPageTable = set_first_root;
}

/// What is no whole number of words goes to the engine, which stops at it.
NTSTATUS NTAPI submit_half_words(IN_CONST_HANDLE context,
                                 IN_CONST_PDXGKARG_SUBMITCOMMANDVIRTUAL args) {
  DXGKARG_SUBMITCOMMANDVIRTUAL told = *args;
  if (args->DmaBufferSize % 8 != 0) {
    told.DmaBufferVirtualAddress = 0;  // nothing is there
    told.DmaBufferSize = 8;
  }
  return original.DxgkDdiSubmitCommandVirtual(context, &told);
}
void submit_leaves_size_to_engine(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSubmitCommandVirtual = submit_half_words;
}

/// Buffers of a user whose private data are right may do what the kernel's may.
NTSTATUS NTAPI submit_trusting(IN_CONST_HANDLE context,
                               IN_CONST_PDXGKARG_SUBMITCOMMANDVIRTUAL args) {
  SgpuUmdSubmission said = {};
  if (args->DmaBufferUmdPrivateDataSize == sizeof(said))
    RtlCopyMemory(&said, args->pDmaBufferPrivateData, sizeof(said));
  const bool right = said.magic == SGPU_UMD_SUBMISSION_MAGIC && said.version == SGPU_UMD_VERSION &&
                     said.flags == 0 && said.reserved == 0;
  auto* const user = static_cast<softgpu::Context*>(args->hContext);
  if (!right || user->system) return original.DxgkDdiSubmitCommandVirtual(context, args);
  user->system = true;
  const NTSTATUS status = original.DxgkDdiSubmitCommandVirtual(context, args);
  user->system = false;
  return status;
}
void submit_trusts_users(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSubmitCommandVirtual = submit_trusting;
}

// --- reports of page faults ---

using SpoilFault = void (*)(DXGKARGCB_NOTIFY_INTERRUPT_DATA* data);
SpoilFault spoil_fault;
DXGKCB_NOTIFY_INTERRUPT notify_interrupt;
void NTAPI notify_spoilt(IN_CONST_HANDLE device, IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA changed = *data;
  if (changed.InterruptType == DXGK_INTERRUPT_DMA_PAGE_FAULTED) spoil_fault(&changed);
  notify_interrupt(device, &changed);
}
NTSTATUS NTAPI start_reporting(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                               IN_PDXGKRNL_INTERFACE table, OUT_PULONG sources,
                               OUT_PULONG children) {
  DXGKRNL_INTERFACE changed = *table;
  notify_interrupt = changed.DxgkCbNotifyInterrupt;
  changed.DxgkCbNotifyInterrupt = notify_spoilt;
  return original.DxgkDdiStartDevice(context, info, &changed, sources, children);
}
void with_faults(DRIVER_INITIALIZATION_DATA* table, SpoilFault spoil) {
  spoil_fault = spoil;
  table->DxgkDdiStartDevice = start_reporting;
}

void fault_elsewhere(DRIVER_INITIALIZATION_DATA* table) {
  with_faults(table, [](DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    data->DmaPageFaulted.FaultedVirtualAddress += 0x10000000;
  });
}
void fault_without_address(DRIVER_INITIALIZATION_DATA* table) {
  with_faults(table, [](DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    data->DmaPageFaulted.FaultedVirtualAddress = 0;
  });
}
void fault_of_instruction(DRIVER_INITIALIZATION_DATA* table) {
  with_faults(table, [](DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    const UINT code = DXGK_GENERAL_ERROR_INVALID_INSTRUCTION << 1;
    RtlCopyMemory(&data->DmaPageFaulted.FaultErrorCode, &code, sizeof(code));
  });
}
void fault_is_of_device(DRIVER_INITIALIZATION_DATA* table) {
  with_faults(table, [](DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    UINT code = 0;
    RtlCopyMemory(&code, &data->DmaPageFaulted.FaultErrorCode, sizeof(code));
    if (code != 0) ++code;  // IsDeviceSpecificCode
    RtlCopyMemory(&data->DmaPageFaulted.FaultErrorCode, &code, sizeof(code));
  });
}
void fault_always_writes(DRIVER_INITIALIZATION_DATA* table) {
  with_faults(table, [](DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    data->DmaPageFaulted.PageFaultFlags = DXGK_PAGE_FAULT_WRITE;
  });
}
void fault_never_writes(DRIVER_INITIALIZATION_DATA* table) {
  with_faults(table, [](DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    data->DmaPageFaulted.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(0);
  });
}

/// Whoever refuses a submission forgets which ones before it have not been told complete.
UINT newest_refused[2];
NTSTATUS NTAPI submit_and_forget(IN_CONST_HANDLE context,
                                 IN_CONST_PDXGKARG_SUBMITCOMMANDVIRTUAL args) {
  const NTSTATUS status = original.DxgkDdiSubmitCommandVirtual(context, args);
  if (status == STATUS_INVALID_PARAMETER)
    newest_refused[args->NodeOrdinal % 2] = args->SubmissionFenceId;
  return status;
}
void NTAPI notify_newer(IN_CONST_HANDLE device, IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  if (data->InterruptType == DXGK_INTERRUPT_DMA_COMPLETED &&
      data->DmaCompleted.SubmissionFenceId + 1 ==
          newest_refused[data->DmaCompleted.NodeOrdinal % 2])
    return;
  notify_interrupt(device, data);
}
NTSTATUS NTAPI start_forgetting(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                                IN_PDXGKRNL_INTERFACE table, OUT_PULONG sources,
                                OUT_PULONG children) {
  DXGKRNL_INTERFACE changed = *table;
  notify_interrupt = changed.DxgkCbNotifyInterrupt;
  changed.DxgkCbNotifyInterrupt = notify_newer;
  return original.DxgkDdiStartDevice(context, info, &changed, sources, children);
}
void refusal_hides_completion(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSubmitCommandVirtual = submit_and_forget;
  table->DxgkDdiStartDevice = start_forgetting;
}
/// The fences of node 0 are lost where the adapter is reset before the node has new work.
bool node_was_reset, fences_are_lost;
NTSTATUS NTAPI reset_engine_noted(IN_CONST_HANDLE context, INOUT_PDXGKARG_RESETENGINE args) {
  if (args->NodeOrdinal == 0) node_was_reset = true;
  return original.DxgkDdiResetEngine(context, args);
}
NTSTATUS NTAPI submit_noted(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SUBMITCOMMANDVIRTUAL args) {
  if (args->NodeOrdinal == 0) node_was_reset = fences_are_lost = false;
  return original.DxgkDdiSubmitCommandVirtual(context, args);
}
NTSTATUS NTAPI restart_noted(IN_CONST_HANDLE context) {
  fences_are_lost = node_was_reset;
  return original.DxgkDdiRestartFromTimeout(context);
}
NTSTATUS NTAPI lost_fence(IN_CONST_HANDLE context, INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  const NTSTATUS status = original.DxgkDdiQueryCurrentFence(context, args);
  if (args->NodeOrdinal == 0 && fences_are_lost) args->CurrentFence = 0;
  return status;
}
void fences_lost_in_two_resets(DRIVER_INITIALIZATION_DATA* table) {
  node_was_reset = fences_are_lost = false;
  table->DxgkDdiResetEngine = reset_engine_noted;
  table->DxgkDdiSubmitCommandVirtual = submit_noted;
  table->DxgkDdiRestartFromTimeout = restart_noted;
  table->DxgkDdiQueryCurrentFence = lost_fence;
}
/// The device has left, and its register of completed fences holds all ones, like each other one.
UINT last_told;
DXGKRNL_INTERFACE left_by;
void NTAPI note_told(IN_CONST_HANDLE device, IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  if (data->InterruptType == DXGK_INTERRUPT_DMA_COMPLETED && data->DmaCompleted.NodeOrdinal == 0)
    last_told = data->DmaCompleted.SubmissionFenceId;
  left_by.DxgkCbNotifyInterrupt(device, data);
}
BOOLEAN NTAPI tell_ones(PVOID) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
  data.DmaCompleted.SubmissionFenceId = ~0U;
  left_by.DxgkCbNotifyInterrupt(left_by.DeviceHandle, &data);
  return left_by.DxgkCbQueueDpc(left_by.DeviceHandle);
}
NTSTATUS NTAPI answer_with_ones(IN_CONST_HANDLE context, INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  USHORT vendor = 0;
  ULONG read = 0;
  BOOLEAN queued = FALSE;
  (void)left_by.DxgkCbReadDeviceSpace(left_by.DeviceHandle, DXGK_WHICHSPACE_CONFIG, &vendor, 0,
                                      sizeof(vendor), &read);
  if (vendor == 0xFFFF && static_cast<INT>(~0U - last_told) > 0)
    (void)left_by.DxgkCbSynchronizeExecution(left_by.DeviceHandle, tell_ones, nullptr, 0, &queued);
  return original.DxgkDdiQueryCurrentFence(context, args);
}
NTSTATUS NTAPI start_noting(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                            IN_PDXGKRNL_INTERFACE table, OUT_PULONG sources, OUT_PULONG children) {
  DXGKRNL_INTERFACE changed = *table;
  left_by = *table;
  last_told = 0;
  changed.DxgkCbNotifyInterrupt = note_told;
  return original.DxgkDdiStartDevice(context, info, &changed, sources, children);
}
void removal_completes_all(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = start_noting;
  table->DxgkDdiQueryCurrentFence = answer_with_ones;
}

}  // namespace

#define MUTANT(name) \
  { #name, name, nullptr }
const Mutant kGpuVaMutants[] = {
    MUTANT(va_both_models),
    MUTANT(va_of_the_processor),
    MUTANT(va_without_saying_so),
    MUTANT(va_seven_levels),
    MUTANT(va_bits_do_not_add_up),
    MUTANT(va_table_of_half_pages),
    MUTANT(va_large_table_in_system_memory),
    MUTANT(va_processor_writes_video_memory),
    MUTANT(va_without_root_entry),
    MUTANT(va_reserves_part_of_a_table),
    MUTANT(va_reserves_late),
    MUTANT(va_reserves_with_odd_alignment),
    MUTANT(two_levels_root_is_no_page),
    MUTANT(two_levels_update_put_off),
    MUTANT(two_levels_update_moves_null),
    MUTANT(transfer_advances_past_end),
    MUTANT(fill_stands_still),
    MUTANT(update_private_past_end),
    MUTANT(transfer_odd_status),
    MUTANT(flush_without_progress),
    MUTANT(update_is_busy),
    MUTANT(transfer_moves_nothing),
    MUTANT(transfer_forgets_last_page),
    MUTANT(fill_writes_half),
    MUTANT(fill_writes_zeros),
    MUTANT(flush_does_nothing),
    MUTANT(update_keeps_old_entries),
    MUTANT(update_forgets_read_only),
    MUTANT(update_forgets_no_execute),
    MUTANT(update_takes_zeros_for_memory),
    MUTANT(flush_ends_early),
    MUTANT(copy_forgets_entries),
    MUTANT(copy_has_one_range),
    MUTANT(submit_has_no_room),
    MUTANT(submit_refuses_paging),
    MUTANT(submit_reads_absent_private_data),
    MUTANT(submit_forgets_null_rendering),
    MUTANT(root_of_somebody_else),
    MUTANT(submit_leaves_size_to_engine),
    MUTANT(submit_trusts_users),
    MUTANT(fault_elsewhere),
    MUTANT(fault_without_address),
    MUTANT(fault_of_instruction),
    MUTANT(fault_is_of_device),
    MUTANT(fault_always_writes),
    MUTANT(fault_never_writes),
    MUTANT(refusal_hides_completion),
    MUTANT(removal_completes_all),
    MUTANT(fences_lost_in_two_resets),
    {nullptr, nullptr, nullptr},
};
#undef MUTANT

}  // namespace mutants
