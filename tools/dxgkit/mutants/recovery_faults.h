// Faults of completions, preemptions, resets and sleeps, for mutant.cpp.
#pragma once

#include "tools/dxgkit/mutants/start_faults.h"

namespace {

constexpr ULONG kNodes = 2;
UINT submitted[kNodes], reported[kNodes];  // fences, the last of each node
DXGKCB_NOTIFY_INTERRUPT notify_interrupt;

NTSTATUS NTAPI remember_submission(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  submitted[args->NodeOrdinal % kNodes] = args->SubmissionFenceId;
  return whole.DxgkDdiSubmitCommand(adapter, args);
}
NTSTATUS NTAPI blame_newest(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_RESETENGINE args) {
  const NTSTATUS status = whole.DxgkDdiResetEngine(adapter, args);
  args->LastAbortedFenceId = submitted[args->NodeOrdinal % kNodes];
  return status;
}
NTSTATUS NTAPI always_responsive(IN_CONST_HANDLE, INOUT_PDXGKARG_QUERYENGINESTATUS args) {
  args->EngineStatus.Value = 0;
  args->EngineStatus.Responsive = 1;
  return STATUS_SUCCESS;
}
/// As if nothing had been done since the last question, or the last request.
NTSTATUS NTAPI never_responsive(IN_CONST_HANDLE, INOUT_PDXGKARG_QUERYENGINESTATUS args) {
  args->EngineStatus.Value = 0;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI leave_status(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_QUERYENGINESTATUS args) {
  const DXGK_ENGINESTATUS before = args->EngineStatus;
  const NTSTATUS status = whole.DxgkDdiQueryEngineStatus(adapter, args);
  args->EngineStatus = before;
  return status;
}
/// If the engine finished its last packet before the reset, the one behind it is blamed.
NTSTATUS NTAPI blame_another_than_reported(IN_CONST_HANDLE adapter,
                                           INOUT_PDXGKARG_RESETENGINE args) {
  const NTSTATUS status = whole.DxgkDdiResetEngine(adapter, args);
  if (args->LastAbortedFenceId == reported[args->NodeOrdinal % kNodes]) ++args->LastAbortedFenceId;
  return status;
}
/// Engines that were at work beside one that was reset report one completion too few.
BOOLEAN missed[kNodes];
NTSTATUS NTAPI reset_deafens(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_RESETENGINE args) {
  for (UINT node = 0; node < kNodes; ++node)
    missed[node] = node != args->NodeOrdinal && submitted[node] != reported[node];
  return whole.DxgkDdiResetEngine(adapter, args);
}
VOID NTAPI miss_one(IN_CONST_HANDLE device, IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  if (data->InterruptType == DXGK_INTERRUPT_DMA_COMPLETED) {
    const UINT node = data->DmaCompleted.NodeOrdinal % kNodes;
    const BOOLEAN miss = missed[node];
    missed[node] = FALSE;
    if (miss) return;
    reported[node] = data->DmaCompleted.SubmissionFenceId;
  }
  notify_interrupt(device, data);
}
/// One completion of sixteen is told only to whom asks for the fence.
struct Held {
  BOOLEAN any;
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
} held[kNodes];
ULONG completions;
DXGKRNL_INTERFACE kernel;
VOID NTAPI hold_some(IN_CONST_HANDLE device, IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  if (data->InterruptType == DXGK_INTERRUPT_DMA_COMPLETED) {
    Held& mine = held[data->DmaCompleted.NodeOrdinal % kNodes];
    mine.any = ++completions % 16 == 0;
    mine.data = *data;
    if (mine.any) return;
  }
  notify_interrupt(device, data);
}
BOOLEAN NTAPI tell_held(PVOID context) {
  auto& mine = *static_cast<Held*>(context);
  notify_interrupt(kernel.DeviceHandle, &mine.data);
  return kernel.DxgkCbQueueDpc(kernel.DeviceHandle);
}
NTSTATUS NTAPI answer_with_held(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  Held& mine = held[args->NodeOrdinal % kNodes];
  BOOLEAN queued = FALSE;
  if (mine.any) {
    mine.any = FALSE;
    kernel.DxgkCbSynchronizeExecution(kernel.DeviceHandle, tell_held, &mine, 0, &queued);
  }
  return whole.DxgkDdiQueryCurrentFence(adapter, args);
}
BOOLEAN deaf;  // to submissions, since the restart
NTSTATUS NTAPI restart_deaf(IN_CONST_HANDLE adapter) {
  deaf = TRUE;
  return whole.DxgkDdiRestartFromTimeout(adapter);
}
NTSTATUS NTAPI drop_submission(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  return deaf ? STATUS_SUCCESS : whole.DxgkDdiSubmitCommand(adapter, args);
}
VOID NTAPI note_report(IN_CONST_HANDLE device, IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  if (data->InterruptType == DXGK_INTERRUPT_DMA_COMPLETED)
    reported[data->DmaCompleted.NodeOrdinal % kNodes] = data->DmaCompleted.SubmissionFenceId;
  if (data->InterruptType == DXGK_INTERRUPT_DMA_PREEMPTED)
    reported[data->DmaPreempted.NodeOrdinal % kNodes] = data->DmaPreempted.LastCompletedFenceId;
  notify_interrupt(device, data);
}
VOID NTAPI blame_the_next(IN_CONST_HANDLE device, IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA changed = *data;
  if (data->InterruptType == DXGK_INTERRUPT_DMA_FAULTED) ++changed.DmaFaulted.FaultedFenceId;
  notify_interrupt(device, &changed);
}
/// The packet has come to an end, whatever kind of end.
VOID NTAPI hush_fault(IN_CONST_HANDLE device, IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA changed = *data;
  if (data->InterruptType == DXGK_INTERRUPT_DMA_FAULTED) {
    RtlZeroMemory(&changed, sizeof(changed));
    changed.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
    changed.DmaCompleted.SubmissionFenceId = data->DmaFaulted.FaultedFenceId;
    changed.DmaCompleted.NodeOrdinal = data->DmaFaulted.NodeOrdinal;
  }
  notify_interrupt(device, &changed);
}
/// Ids of fences are never expected to wrap.
VOID NTAPI report_higher(IN_CONST_HANDLE device, IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  if (data->InterruptType == DXGK_INTERRUPT_DMA_COMPLETED) {
    UINT& last = reported[data->DmaCompleted.NodeOrdinal % kNodes];
    if (data->DmaCompleted.SubmissionFenceId <= last) return;
    last = data->DmaCompleted.SubmissionFenceId;
  }
  notify_interrupt(device, data);
}
/// A request for a preemption is forgotten when its engine faults.
BOOLEAN faulted[kNodes];
VOID NTAPI forget_preemption(IN_CONST_HANDLE device,
                             IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  if (data->InterruptType == DXGK_INTERRUPT_DMA_FAULTED)
    faulted[data->DmaFaulted.NodeOrdinal % kNodes] = TRUE;
  if (data->InterruptType == DXGK_INTERRUPT_DMA_COMPLETED)
    faulted[data->DmaCompleted.NodeOrdinal % kNodes] = FALSE;
  if (data->InterruptType == DXGK_INTERRUPT_DMA_PREEMPTED &&
      faulted[data->DmaPreempted.NodeOrdinal % kNodes])
    return;
  notify_interrupt(device, data);
}
/// What was stopped midway begins anew: nobody remembers where it was.
NTSTATUS NTAPI begin_anew(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  const UINT start = args->DmaBufferPrivateDataSubmissionStartOffset;
  RtlZeroMemory(static_cast<UCHAR*>(args->pDmaBufferPrivateData) + start,
                args->DmaBufferPrivateDataSubmissionEndOffset - start);
  return whole.DxgkDdiSubmitCommand(adapter, args);
}
/// The same for the parts behind the first of a buffer alone.
NTSTATUS NTAPI begin_part_anew(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  const bool later = args->DmaBufferSubmissionStartOffset != 0 && args->Flags.Paging == 0;
  return later ? begin_anew(adapter, args) : whole.DxgkDdiSubmitCommand(adapter, args);
}
/// What is behind a fault comes out of the recovery with the next submission only.
NTSTATUS NTAPI submit_behind_fault(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  faulted[args->NodeOrdinal % kNodes] = FALSE;
  return whole.DxgkDdiSubmitCommand(adapter, args);
}
VOID NTAPI lose_last(IN_CONST_HANDLE device, IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  if (data->InterruptType == DXGK_INTERRUPT_DMA_COMPLETED &&
      faulted[data->DmaCompleted.NodeOrdinal % kNodes])
    return;
  if (data->InterruptType == DXGK_INTERRUPT_DMA_FAULTED)
    faulted[data->DmaFaulted.NodeOrdinal % kNodes] = TRUE;
  notify_interrupt(device, data);
}
DXGKCB_NOTIFY_INTERRUPT notify_instead;
NTSTATUS NTAPI start_between(const PVOID adapter, PDXGK_START_INFO start,
                             PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  DXGKRNL_INTERFACE changed = *interface;
  kernel = changed;
  notify_interrupt = changed.DxgkCbNotifyInterrupt;
  changed.DxgkCbNotifyInterrupt = notify_instead;
  RtlZeroMemory(reported, sizeof(reported));
  return whole.DxgkDdiStartDevice(adapter, start, &changed, sources, children);
}
NTSTATUS NTAPI know_no_fence(IN_CONST_HANDLE, INOUT_PDXGKARG_QUERYCURRENTFENCE) {
  return STATUS_UNSUCCESSFUL;
}
/// While its device sleeps each interrupt on the line is its own.
BOOLEAN asleep;
NTSTATUS NTAPI note_sleep(const PVOID adapter, ULONG uid, DEVICE_POWER_STATE state,
                          POWER_ACTION action) {
  asleep = state != PowerDeviceD0;
  return whole.DxgkDdiSetPowerState(adapter, uid, state, action);
}
/// Something is read from the device for each answer.
NTSTATUS NTAPI query_registers(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  if (asleep) static_cast<void>(whole.DxgkDdiInterruptRoutine(adapter, 0));
  return whole.DxgkDdiQueryAdapterInfo(adapter, args);
}
BOOLEAN NTAPI claim_asleep(const PVOID adapter, ULONG message) {
  return whole.DxgkDdiInterruptRoutine(adapter, message) || asleep;
}
/// The first cause of an interrupt stays up until the next start.
BOOLEAN interrupted;
NTSTATUS NTAPI start_undisturbed(const PVOID adapter, PDXGK_START_INFO start,
                                 PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  interrupted = FALSE;
  return whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
}
BOOLEAN NTAPI dismiss_nothing(const PVOID adapter, ULONG message) {
  if (whole.DxgkDdiInterruptRoutine(adapter, message)) interrupted = TRUE;
  return interrupted;
}
/// The device forgets its contexts in a sleep, and nobody sets them up again.
constexpr ULONG kContextsKept = 256;
struct KeptContext {
  HANDLE context;
  LONG naps;
} kept_contexts[kContextsKept];
LONG kept_count, naps;
NTSTATUS NTAPI keep_context(IN_CONST_HANDLE device, INOUT_PDXGKARG_CREATECONTEXT args) {
  const NTSTATUS status = whole.DxgkDdiCreateContext(device, args);
  const auto place = static_cast<ULONG>(InterlockedIncrement(&kept_count)) % kContextsKept;
  if (NT_SUCCESS(status)) kept_contexts[place] = {args->hContext, naps};
  return status;
}
NTSTATUS NTAPI lose_contexts(const PVOID adapter, ULONG uid, DEVICE_POWER_STATE state,
                             POWER_ACTION action) {
  if (state != PowerDeviceD0) InterlockedIncrement(&naps);
  return whole.DxgkDdiSetPowerState(adapter, uid, state, action);
}
NTSTATUS NTAPI render_in_lost_context(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  // The youngest of that handle: memory comes again.
  for (ULONG back = 0; back < kContextsKept; ++back) {
    const KeptContext& one = kept_contexts[(static_cast<ULONG>(kept_count) - back) % kContextsKept];
    if (one.context != context) continue;
    if (one.naps != naps) return STATUS_ILLEGAL_INSTRUCTION;
    break;
  }
  return whole.DxgkDdiRender(context, args);
}
/// What is completed is forgotten in a sleep or a reset, until the next submission.
BOOLEAN forgetful;
NTSTATUS NTAPI forget_asleep(const PVOID adapter, ULONG uid, DEVICE_POWER_STATE state,
                             POWER_ACTION action) {
  forgetful = TRUE;
  return whole.DxgkDdiSetPowerState(adapter, uid, state, action);
}
NTSTATUS NTAPI forget_in_reset(IN_CONST_HANDLE adapter) {
  forgetful = TRUE;
  return whole.DxgkDdiResetFromTimeout(adapter);
}
NTSTATUS NTAPI remember_again(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  forgetful = FALSE;
  return whole.DxgkDdiSubmitCommand(adapter, args);
}
NTSTATUS NTAPI answer_forgetfully(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  const NTSTATUS status = whole.DxgkDdiQueryCurrentFence(adapter, args);
  if (forgetful) args->CurrentFence = 0;
  return status;
}
NTSTATUS NTAPI answer_from_memory(IN_CONST_HANDLE, INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  args->CurrentFence = reported[args->NodeOrdinal % kNodes];
  return STATUS_SUCCESS;
}
/// After hibernation each completion is told only to whom asks for the fence.
BOOLEAN hibernated;
NTSTATUS NTAPI note_hibernation(const PVOID adapter, ULONG uid, DEVICE_POWER_STATE state,
                                POWER_ACTION action) {
  if (action == PowerActionHibernate) hibernated = TRUE;
  return whole.DxgkDdiSetPowerState(adapter, uid, state, action);
}
VOID NTAPI hold_after_hibernation(IN_CONST_HANDLE device,
                                  IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  if (hibernated && data->InterruptType == DXGK_INTERRUPT_DMA_COMPLETED) {
    held[data->DmaCompleted.NodeOrdinal % kNodes] = {TRUE, *data};
    return;
  }
  notify_interrupt(device, data);
}
/// The register of an engine that has slept holds 0, which is taken for a fence that has completed
/// if it is a newer one.
BOOLEAN NTAPI tell_zero(PVOID context) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
  data.DmaCompleted.NodeOrdinal = *static_cast<const UINT*>(context);
  notify_interrupt(kernel.DeviceHandle, &data);
  return kernel.DxgkCbQueueDpc(kernel.DeviceHandle);
}
NTSTATUS NTAPI answer_with_newer_zero(IN_CONST_HANDLE adapter,
                                      INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  UINT node = args->NodeOrdinal;
  BOOLEAN queued = FALSE;
  if (forgetful && static_cast<INT>(0 - reported[node % kNodes]) > 0)
    kernel.DxgkCbSynchronizeExecution(kernel.DeviceHandle, tell_zero, &node, 0, &queued);
  return whole.DxgkDdiQueryCurrentFence(adapter, args);
}

}  // namespace
