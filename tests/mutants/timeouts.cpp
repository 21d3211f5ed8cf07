// Drivers that spoil their own recovery: the device hangs, and then this.
#include "tests/mutants/mutants.h"

namespace mutants {
namespace {

// --- ResetEngine ---

NTSTATUS NTAPI reset_out_of_range(IN_CONST_HANDLE context, INOUT_PDXGKARG_RESETENGINE args) {
  const NTSTATUS status = original.DxgkDdiResetEngine(context, args);
  args->LastAbortedFenceId += 1000;
  return status;
}
void reset_names_other_fence(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiResetEngine = reset_out_of_range;
}

NTSTATUS NTAPI reset_refused(IN_CONST_HANDLE, INOUT_PDXGKARG_RESETENGINE) {
  return STATUS_UNSUCCESSFUL;
}
void reset_engine_fails(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiResetEngine = reset_refused;
}

// The packet that the reset ended is reported complete with the next submission.
UINT ended_fence, ended_node;
bool reported_late;
NTSTATUS NTAPI reset_and_remember(IN_CONST_HANDLE context, INOUT_PDXGKARG_RESETENGINE args) {
  const NTSTATUS status = original.DxgkDdiResetEngine(context, args);
  ended_fence = args->LastAbortedFenceId;
  ended_node = args->NodeOrdinal;
  return status;
}
BOOLEAN NTAPI report_late(PVOID) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
  data.DmaCompleted.SubmissionFenceId = ended_fence;
  data.DmaCompleted.NodeOrdinal = ended_node;
  dxgk->DxgkCbNotifyInterrupt(dxgk->DeviceHandle, &data);
  dxgk->DxgkCbQueueDpc(dxgk->DeviceHandle);
  return TRUE;
}
NTSTATUS NTAPI submit_and_report(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  if (ended_fence != 0 && !reported_late) {
    reported_late = true;
    BOOLEAN result = FALSE;
    (void)dxgk->DxgkCbSynchronizeExecution(dxgk->DeviceHandle, report_late, nullptr, 0, &result);
  }
  return original.DxgkDdiSubmitCommand(context, args);
}
void completes_after_reset(DRIVER_INITIALIZATION_DATA* table) {
  ended_fence = 0;
  reported_late = false;
  table->DxgkDdiResetEngine = reset_and_remember;
  table->DxgkDdiSubmitCommand = submit_and_report;
}

// --- what is asked before ---

NTSTATUS NTAPI group_of_others(IN_CONST_HANDLE, INOUT_DXGKARG_QUERYDEPENDENTENGINEGROUP args) {
  args->DependentNodeOrdinalMask = ULONGLONG{1} << (1 - args->NodeOrdinal);
  return STATUS_SUCCESS;
}
void group_without_itself(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryDependentEngineGroup = group_of_others;
}

NTSTATUS NTAPI status_refused(IN_CONST_HANDLE, INOUT_PDXGKARG_QUERYENGINESTATUS) {
  return STATUS_UNSUCCESSFUL;
}
void engine_status_fails(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryEngineStatus = status_refused;
}

NTSTATUS NTAPI collect_too_much(IN_CONST_HANDLE, IN_CONST_PDXGKARG_COLLECTDBGINFO args) {
  auto* bytes = static_cast<UCHAR*>(args->pBuffer);
  bytes[args->BufferSize] = 1;
  return STATUS_SUCCESS;
}
void debug_info_overruns(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCollectDbgInfo = collect_too_much;
}

// --- the whole adapter ---

NTSTATUS NTAPI never(IN_CONST_HANDLE) { return STATUS_UNSUCCESSFUL; }
void reset_from_timeout_fails(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiResetFromTimeout = never;
}
// What runs is stopped when it is to start again.
NTSTATUS NTAPI reset_later(IN_CONST_HANDLE) { return STATUS_SUCCESS; }
NTSTATUS NTAPI reset_and_restart(IN_CONST_HANDLE context) {
  const NTSTATUS status = original.DxgkDdiResetFromTimeout(context);
  return NT_SUCCESS(status) ? original.DxgkDdiRestartFromTimeout(context) : status;
}
void reset_from_timeout_forgets_engines(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiResetFromTimeout = reset_later;
  table->DxgkDdiRestartFromTimeout = reset_and_restart;
}
void restart_from_timeout_fails(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiRestartFromTimeout = never;
}

}  // namespace

const Mutant kTimeoutMutants[] = {
    {"reset_names_other_fence", reset_names_other_fence, nullptr},
    {"reset_engine_fails", reset_engine_fails, nullptr},
    {"completes_after_reset", completes_after_reset, nullptr},
    {"group_without_itself", group_without_itself, nullptr},
    {"engine_status_fails", engine_status_fails, nullptr},
    {"debug_info_overruns", debug_info_overruns, nullptr},
    {"reset_from_timeout_fails", reset_from_timeout_fails, nullptr},
    {"reset_from_timeout_forgets_engines", reset_from_timeout_forgets_engines, nullptr},
    {"restart_from_timeout_fails", restart_from_timeout_fails, nullptr},
    {nullptr, nullptr, nullptr},
};

}  // namespace mutants
