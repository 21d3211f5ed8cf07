// What goes wrong with packets: render, patch, paging, submission, interrupts, preemption.
#include "miniports/softgpu/driver.h"
#include "tests/mutants/mutants.h"

namespace mutants {
namespace {

// --- render ---

NTSTATUS NTAPI render_oddly(IN_CONST_HANDLE, INOUT_PDXGKARG_RENDER) { return STATUS_UNSUCCESSFUL; }
void render_odd_status(DRIVER_INITIALIZATION_DATA* table) { table->DxgkDdiRender = render_oddly; }

NTSTATUS NTAPI render_too_far(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  auto* const end = static_cast<UCHAR*>(args->pDmaBuffer) + args->DmaSize;
  const NTSTATUS status = original.DxgkDdiRender(context, args);
  if (NT_SUCCESS(status)) args->pDmaBuffer = end + 8;
  return status;
}
void render_advances_past_end(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiRender = render_too_far;
}

NTSTATUS NTAPI render_behind(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  auto* const end = static_cast<volatile UCHAR*>(args->pDmaBuffer) + args->DmaSize;
  const NTSTATUS status = original.DxgkDdiRender(context, args);
  for (UINT i = 0; i < 8; ++i) end[i] = 0x77;
  return status;
}
void render_writes_behind(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiRender = render_behind;
}

NTSTATUS NTAPI render_behind_private(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  auto* const end =
      static_cast<volatile UCHAR*>(args->pDmaBufferPrivateData) + args->DmaBufferPrivateDataSize;
  const NTSTATUS status = original.DxgkDdiRender(context, args);
  for (UINT i = 0; i < 4; ++i) end[i] = 0x77;
  return status;
}
void render_writes_behind_private(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiRender = render_behind_private;
}

NTSTATUS NTAPI render_never_enough(IN_CONST_HANDLE, INOUT_PDXGKARG_RENDER) {
  return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}
void render_without_progress(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiRender = render_never_enough;
}

// --- submission at DISPATCH_LEVEL ---

PVOID paged_notes;
NTSTATUS NTAPI submit_from_notes(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  static_cast<volatile ULONG*>(paged_notes)[5] = args->SubmissionFenceId;
  return original.DxgkDdiSubmitCommand(context, args);
}
NTSTATUS NTAPI start_with_notes(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                                IN_PDXGKRNL_INTERFACE table, OUT_PULONG sources,
                                OUT_PULONG children) {
  paged_notes = ExAllocatePoolWithTag(PagedPool, 200, 0x65746F4E);  // "Note"
  return original.DxgkDdiStartDevice(context, info, table, sources, children);
}
void submit_touches_paged_pool(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = start_with_notes;
  table->DxgkDdiSubmitCommand = submit_from_notes;
}

// --- patch ---

NTSTATUS NTAPI patch_failing(IN_CONST_HANDLE, IN_CONST_PDXGKARG_PATCH) {
  return STATUS_UNSUCCESSFUL;
}
void patch_fails(DRIVER_INITIALIZATION_DATA* table) { table->DxgkDdiPatch = patch_failing; }

NTSTATUS NTAPI patch_beyond(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_PATCH args) {
  const NTSTATUS status = original.DxgkDdiPatch(context, args);
  if (args->DmaBufferSubmissionEndOffset + 8 <= args->DmaBufferSize) {
    static_cast<volatile UCHAR*>(args->pDmaBuffer)[args->DmaBufferSubmissionEndOffset + 4] ^= 0xFF;
  }
  return status;
}
void patch_touches_neighbour(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiPatch = patch_beyond;
}

NTSTATUS NTAPI patch_off_by_page(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_PATCH args) {
  const NTSTATUS status = original.DxgkDdiPatch(context, args);
  if (args->Flags.Paging == 0 && args->PatchLocationListSubmissionLength != 0) {
    const auto& patch = args->pPatchLocationList[args->PatchLocationListSubmissionStart];
    auto* word = static_cast<UCHAR*>(args->pDmaBuffer) + patch.PatchOffset;
    UINT64 value = 0;
    RtlCopyMemory(&value, word, sizeof(value));
    value += PAGE_SIZE;
    RtlCopyMemory(word, &value, sizeof(value));
  }
  return status;
}
void patch_wrong_address(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiPatch = patch_off_by_page;
}

NTSTATUS NTAPI patch_with_cpu_address(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_PATCH args) {
  const NTSTATUS status = original.DxgkDdiPatch(context, args);
  const auto& gpu = *static_cast<const softgpu::Adapter*>(adapter);
  for (UINT i = 0; i < args->PatchLocationListSubmissionLength; ++i) {
    const auto& patch = args->pPatchLocationList[args->PatchLocationListSubmissionStart + i];
    const auto& entry = args->pAllocationList[patch.AllocationIndex];
    if (entry.SegmentId != softgpu::kSegmentVram) continue;
    const UINT64 address = static_cast<UINT64>(entry.PhysicalAddress.QuadPart) - SGPU_VRAM_BASE +
                           static_cast<UINT64>(gpu.vram_cpu_address.QuadPart) +
                           patch.AllocationOffset;
    RtlCopyMemory(static_cast<UCHAR*>(args->pDmaBuffer) + patch.PatchOffset, &address,
                  sizeof(address));
  }
  return status;
}
void patch_cpu_address(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiPatch = patch_with_cpu_address;
}

NTSTATUS NTAPI render_patchless(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  auto* const patches = args->pPatchLocationListOut;
  const NTSTATUS status = original.DxgkDdiRender(context, args);
  args->pPatchLocationListOut = patches;
  return status;
}
void render_without_patches(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiRender = render_patchless;
}

NTSTATUS NTAPI patch_raised(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_PATCH args) {
  const NTSTATUS status = original.DxgkDdiPatch(context, args);
  KIRQL old = 0;
  KeRaiseIrql(DISPATCH_LEVEL, &old);
  return status;
}
void patch_keeps_irql(DRIVER_INITIALIZATION_DATA* table) { table->DxgkDdiPatch = patch_raised; }

// --- paging ---

NTSTATUS NTAPI paging_oddly(IN_CONST_HANDLE, IN_PDXGKARG_BUILDPAGINGBUFFER) {
  return STATUS_NO_MEMORY;
}
void paging_odd_status(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiBuildPagingBuffer = paging_oddly;
}

NTSTATUS NTAPI paging_standing(IN_CONST_HANDLE context, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  PVOID const start = args->pDmaBuffer;
  const NTSTATUS status = original.DxgkDdiBuildPagingBuffer(context, args);
  args->pDmaBuffer = start;
  return status;
}
void paging_stands_still(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiBuildPagingBuffer = paging_standing;
}

NTSTATUS NTAPI paging_too_far(IN_CONST_HANDLE context, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  auto* const end = static_cast<UCHAR*>(args->pDmaBuffer) + args->DmaSize;
  const NTSTATUS status = original.DxgkDdiBuildPagingBuffer(context, args);
  args->pDmaBuffer = end + 4;
  return status;
}
void paging_advances_past_end(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiBuildPagingBuffer = paging_too_far;
}

NTSTATUS NTAPI paging_private_far(IN_CONST_HANDLE context, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  auto* const end =
      static_cast<UCHAR*>(args->pDmaBufferPrivateData) + args->DmaBufferPrivateDataSize;
  const NTSTATUS status = original.DxgkDdiBuildPagingBuffer(context, args);
  args->pDmaBufferPrivateData = end + 1;
  return status;
}
void paging_private_past_end(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiBuildPagingBuffer = paging_private_far;
}

NTSTATUS NTAPI paging_busily(IN_CONST_HANDLE, IN_PDXGKARG_BUILDPAGINGBUFFER) {
  return STATUS_GRAPHICS_ALLOCATION_BUSY;
}
void paging_always_busy(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiBuildPagingBuffer = paging_busily;
}

NTSTATUS NTAPI paging_never_enough(IN_CONST_HANDLE, IN_PDXGKARG_BUILDPAGINGBUFFER) {
  return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}
void paging_without_progress(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiBuildPagingBuffer = paging_never_enough;
}

NTSTATUS NTAPI paging_to_nowhere(IN_CONST_HANDLE context, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation != DXGK_OPERATION_FILL)
    return original.DxgkDdiBuildPagingBuffer(context, args);
  args->Fill.Destination.SegmentAddress.QuadPart = 0x7000000000000000;
  return original.DxgkDdiBuildPagingBuffer(context, args);
}
void paging_faults_engine(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiBuildPagingBuffer = paging_to_nowhere;
}

// --- submission ---

NTSTATUS NTAPI submit_busy(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  if (args->Flags.Paging == 0) return STATUS_DEVICE_BUSY;
  return original.DxgkDdiSubmitCommand(context, args);
}
void submit_refuses_load(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSubmitCommand = submit_busy;
}

NTSTATUS NTAPI submit_to_nobody(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  if (args->Flags.Paging == 0) return STATUS_SUCCESS;
  return original.DxgkDdiSubmitCommand(context, args);
}
void submit_loses_packet(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSubmitCommand = submit_to_nobody;
}

// --- reports ---

void report(DXGKARGCB_NOTIFY_INTERRUPT_DATA& data) {
  dxgk->DxgkCbNotifyInterrupt(dxgk->DeviceHandle, &data);
}
BOOLEAN NTAPI report_and_queue(PVOID context) {
  report(*static_cast<DXGKARGCB_NOTIFY_INTERRUPT_DATA*>(context));
  dxgk->DxgkCbQueueDpc(dxgk->DeviceHandle);
  return TRUE;
}
void report_at_device_level(DXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  BOOLEAN result = FALSE;
  (void)dxgk->DxgkCbSynchronizeExecution(dxgk->DeviceHandle, report_and_queue, &data, 0, &result);
}
DXGKARGCB_NOTIFY_INTERRUPT_DATA completed(UINT fence, UINT node) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
  data.DmaCompleted.SubmissionFenceId = fence;
  data.DmaCompleted.NodeOrdinal = node;
  return data;
}

ULONG submissions;
using AfterSubmit = void (*)(const DXGKARG_SUBMITCOMMAND& args);
AfterSubmit after_submit;
/// The third packet of a client is the one something happens to.
NTSTATUS NTAPI submit_and_more(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  const NTSTATUS status = original.DxgkDdiSubmitCommand(context, args);
  if (NT_SUCCESS(status) && args->Flags.Paging == 0 && is_call(&submissions, 3))
    after_submit(*args);
  return status;
}
template <typename After>
void with_submit(DRIVER_INITIALIZATION_DATA* table, After after) {
  after_submit = after;
  table->DxgkDdiSubmitCommand = submit_and_more;
}
void fence_beyond_submitted(DRIVER_INITIALIZATION_DATA* table) {
  with_submit(table, [](const DXGKARG_SUBMITCOMMAND& args) {
    report_at_device_level(completed(args.SubmissionFenceId + 1000, args.NodeOrdinal));
  });
}
void fence_of_no_node(DRIVER_INITIALIZATION_DATA* table) {
  with_submit(table, [](const DXGKARG_SUBMITCOMMAND& args) {
    report_at_device_level(completed(args.SubmissionFenceId, 9));
  });
}
void preempted_unasked(DRIVER_INITIALIZATION_DATA* table) {
  with_submit(table, [](const DXGKARG_SUBMITCOMMAND& args) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
    data.DmaPreempted.PreemptionFenceId = 77;
    data.DmaPreempted.LastCompletedFenceId = args.SubmissionFenceId - 1;
    data.DmaPreempted.NodeOrdinal = args.NodeOrdinal;
    report_at_device_level(data);
  });
}
void report_at_dispatch(DRIVER_INITIALIZATION_DATA* table) {
  with_submit(table, [](const DXGKARG_SUBMITCOMMAND& args) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data = completed(args.SubmissionFenceId, args.NodeOrdinal);
    data.InterruptType = DXGK_INTERRUPT_MICACAST_CHUNK_PROCESSING_COMPLETE;  // nothing to act on
    report(data);
  });
}
void callback_with_other_handle(DRIVER_INITIALIZATION_DATA* table) {
  with_submit(table, [](const DXGKARG_SUBMITCOMMAND&) {
    dxgk->DxgkCbQueueDpc(reinterpret_cast<HANDLE>(ULONG_PTR{0x1234}));
  });
}
void callback_above_its_level(DRIVER_INITIALIZATION_DATA* table) {
  with_submit(table, [](const DXGKARG_SUBMITCOMMAND&) {
    // SubmitCommand runs at DISPATCH_LEVEL, this one is for PASSIVE_LEVEL.
    DXGK_DEVICE_INFO info;
    RtlZeroMemory(&info, sizeof(info));
    (void)dxgk->DxgkCbGetDeviceInformation(dxgk->DeviceHandle, &info);
  });
}
void synchronize_other_message(DRIVER_INITIALIZATION_DATA* table) {
  with_submit(table, [](const DXGKARG_SUBMITCOMMAND&) {
    BOOLEAN result = FALSE;
    (void)dxgk->DxgkCbSynchronizeExecution(
        dxgk->DeviceHandle, [](PVOID) -> BOOLEAN { return TRUE; }, nullptr, 3, &result);
  });
}

/// The last fence of a finished packet, once more.
NTSTATUS NTAPI submit_after_repeat(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  const softgpu::Node& node = static_cast<softgpu::Adapter*>(context)->node[args->NodeOrdinal];
  if (args->Flags.Paging == 0 && is_call(&submissions, 3) && node.state.completed_fence != 0)
    report_at_device_level(completed(node.state.completed_fence, args->NodeOrdinal));
  return original.DxgkDdiSubmitCommand(context, args);
}
void fence_twice(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSubmitCommand = submit_after_repeat;
}

BOOLEAN NTAPI interrupt_denied(IN_CONST_PVOID context, IN_ULONG message) {
  (void)original.DxgkDdiInterruptRoutine(context, message);
  return FALSE;
}
void isr_denies_its_interrupt(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiInterruptRoutine = interrupt_denied;
}

BOOLEAN NTAPI swallow_dpc(HANDLE) { return TRUE; }
BOOLEAN NTAPI interrupt_without_dpc(IN_CONST_PVOID context, IN_ULONG message) {
  auto* gpu = static_cast<softgpu::Adapter*>(context);
  const auto queue = gpu->dxgk.DxgkCbQueueDpc;
  gpu->dxgk.DxgkCbQueueDpc = swallow_dpc;
  const BOOLEAN mine = original.DxgkDdiInterruptRoutine(context, message);
  gpu->dxgk.DxgkCbQueueDpc = queue;
  return mine;
}
void isr_without_dpc(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiInterruptRoutine = interrupt_without_dpc;
}

BOOLEAN NTAPI interrupt_raised(IN_CONST_PVOID context, IN_ULONG message) {
  const BOOLEAN mine = original.DxgkDdiInterruptRoutine(context, message);
  KIRQL old = 0;
  KeRaiseIrql(HIGH_LEVEL, &old);
  return mine;
}
void isr_keeps_irql(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiInterruptRoutine = interrupt_raised;
}

// --- preemption, cancellation ---

NTSTATUS NTAPI preempt_failing(IN_CONST_HANDLE, IN_CONST_PDXGKARG_PREEMPTCOMMAND) {
  return STATUS_UNSUCCESSFUL;
}
void preempt_fails(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiPreemptCommand = preempt_failing;
}

/// Says that everything was preempted while the engine goes on with it.
NTSTATUS NTAPI preempt_too_early(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_PREEMPTCOMMAND args) {
  const softgpu::Node& node = static_cast<softgpu::Adapter*>(context)->node[args->NodeOrdinal];
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
  data.DmaPreempted.PreemptionFenceId = args->PreemptionFenceId;
  data.DmaPreempted.LastCompletedFenceId = node.state.completed_fence;
  data.DmaPreempted.NodeOrdinal = args->NodeOrdinal;
  report_at_device_level(data);
  return STATUS_SUCCESS;
}
void preempted_too_early(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiPreemptCommand = preempt_too_early;
}

NTSTATUS NTAPI cancel_failing(IN_CONST_HANDLE, IN_CONST_PDXGKARG_CANCELCOMMAND) {
  return STATUS_UNSUCCESSFUL;
}
void cancel_fails(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCancelCommand = cancel_failing;
}

}  // namespace

const Mutant kWorkMutants[] = {
    {"submit_touches_paged_pool", submit_touches_paged_pool, nullptr},
    {"render_odd_status", render_odd_status, nullptr},
    {"render_advances_past_end", render_advances_past_end, nullptr},
    {"render_writes_behind", render_writes_behind, nullptr},
    {"render_writes_behind_private", render_writes_behind_private, nullptr},
    {"render_without_progress", render_without_progress, nullptr},
    {"patch_fails", patch_fails, nullptr},
    {"patch_touches_neighbour", patch_touches_neighbour, nullptr},
    {"patch_wrong_address", patch_wrong_address, nullptr},
    {"patch_cpu_address", patch_cpu_address, nullptr},
    {"render_without_patches", render_without_patches, nullptr},
    {"patch_keeps_irql", patch_keeps_irql, nullptr},
    {"paging_odd_status", paging_odd_status, nullptr},
    {"paging_stands_still", paging_stands_still, nullptr},
    {"paging_advances_past_end", paging_advances_past_end, nullptr},
    {"paging_private_past_end", paging_private_past_end, nullptr},
    {"paging_always_busy", paging_always_busy, nullptr},
    {"paging_without_progress", paging_without_progress, nullptr},
    {"paging_faults_engine", paging_faults_engine, nullptr},
    {"submit_refuses_load", submit_refuses_load, nullptr},
    {"submit_loses_packet", submit_loses_packet, nullptr},
    {"fence_beyond_submitted", fence_beyond_submitted, nullptr},
    {"fence_of_no_node", fence_of_no_node, nullptr},
    {"fence_twice", fence_twice, nullptr},
    {"preempted_unasked", preempted_unasked, nullptr},
    {"report_at_dispatch", report_at_dispatch, nullptr},
    {"callback_with_other_handle", callback_with_other_handle, nullptr},
    {"callback_above_its_level", callback_above_its_level, nullptr},
    {"synchronize_other_message", synchronize_other_message, nullptr},
    {"isr_denies_its_interrupt", isr_denies_its_interrupt, nullptr},
    {"isr_without_dpc", isr_without_dpc, nullptr},
    {"isr_keeps_irql", isr_keeps_irql, nullptr},
    {"preempt_fails", preempt_fails, nullptr},
    {"preempted_too_early", preempted_too_early, nullptr},
    {"cancel_fails", cancel_fails, nullptr},
    {nullptr, nullptr, nullptr},
};

}  // namespace mutants
