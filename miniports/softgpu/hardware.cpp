// Registers, rings and interrupts; preemption; what happens when an engine stops.
#include "miniports/softgpu/driver.h"

namespace softgpu {
namespace {

template <typename Word>
volatile Word* register_at(const Adapter& adapter, ULONG offset) {
  return reinterpret_cast<volatile Word*>(adapter.registers + offset);
}

ULONG read_node(const Adapter& adapter, const Node& node, ULONG offset) {
  return read32(adapter, SGPU_NODE_REG(node.ordinal, offset));
}
void write_node(const Adapter& adapter, const Node& node, ULONG offset, ULONG value) {
  write32(adapter, SGPU_NODE_REG(node.ordinal, offset), value);
}

InFlight& slot(Node* node, UINT number) { return node->in_flight[number % kRingEntries]; }

void ring_doorbell(Adapter* adapter, Node* node) {
  // The entry must be in memory before the engine hears of it.
  KeMemoryBarrier();
  write_node(*adapter, *node, SGPU_NODE_RING_TAIL, node->next % kRingEntries);
}

// --- reports to the kernel: device level ---

void notify(Adapter* adapter, DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
  adapter->dxgk.DxgkCbNotifyInterrupt(adapter->dxgk.DeviceHandle, data);
}

/// Nothing up to `fence` will be looked at again.
void retire(Node* node, UINT fence) {
  node->reported_fence = fence;
  while (node->first != node->next && !newer(slot(node, node->first).entry.fence, fence)) {
    ++node->first;
  }
}

/// True if the kernel was told something.
bool report_completed(Adapter* adapter, Node* node) {
  const UINT completed = read_node(*adapter, *node, SGPU_NODE_COMPLETED_FENCE);
  // One report covers every fence up to it. A cause whose fence went out with an earlier report is
  // no news, and repeating one is an error.
  if (!newer(completed, node->reported_fence)) return false;
  retire(node, completed);
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
  data.DmaCompleted.SubmissionFenceId = completed;
  data.DmaCompleted.NodeOrdinal = node->ordinal;
  notify(adapter, &data);
  return true;
}

/// Everything that is still in flight counts as preempted.
void report_preempted(Adapter* adapter, Node* node) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
  data.DmaPreempted.PreemptionFenceId = node->preemption_id;
  data.DmaPreempted.LastCompletedFenceId = node->reported_fence;
  data.DmaPreempted.NodeOrdinal = node->ordinal;
  node->first = node->next;
  node->preemption_id = 0;
  ++node->preemptions;
  notify(adapter, &data);
}

/// Before submissions are dropped: they come back with other fences but the same private data, the
/// place to leave word of what need not, and must not, run twice. `stopped` is the fence that was
/// stopped midway, 0 for none; others keep where an earlier stop had left them.
void leave_word(Node* node, UINT stopped, UINT offset) {
  for (UINT i = node->first; i != node->next; ++i) {
    const InFlight& submission = slot(node, i);
    const UINT resume =
        stopped != 0 && submission.entry.fence == stopped ? offset : submission.entry.start_offset;
    // Parts of a split buffer share a record: one that has nothing to say leaves it alone.
    if (resume == 0 || submission.record == nullptr) continue;
    submission.record->slice_start = submission.slice_start;
    submission.record->resume_offset = resume;
  }
}

bool answer_preemption(Adapter* adapter, Node* node) {
  const UINT done = read_node(*adapter, *node, SGPU_NODE_PREEMPT_DONE);
  if (node->preemption_id == 0 || done != node->preemption_id) return false;
  // What finished between the request and the stop is complete, not preempted.
  report_completed(adapter, node);
  leave_word(node, read_node(*adapter, *node, SGPU_NODE_PREEMPT_FENCE),
             read_node(*adapter, *node, SGPU_NODE_PREEMPT_OFFSET));
  report_preempted(adapter, node);
  return true;
}

bool report_fault(Adapter* adapter, Node* node) {
  const UINT reason = read_node(*adapter, *node, SGPU_NODE_FAULT_REASON);
  if (reason == SGPU_FAULT_NONE || node->recovering) return false;
  report_completed(adapter, node);
  UINT fence = read_node(*adapter, *node, SGPU_NODE_FAULT_FENCE);
  // A fault of the ring itself belongs to whoever would have been next.
  if (fence == 0 && node->first != node->next) fence = slot(node, node->first).entry.fence;
  retire(node, fence);
  node->last_fault_reason = reason;
  ++node->faults;
  // The engine is stopped for good. Resetting it takes time that an ISR does not have: ask for it
  // here, look after it from a timer.
  node->recovering = true;
  write_node(*adapter, *node, SGPU_NODE_CONTROL, SGPU_CONTROL_RESET);
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_FAULTED;
  data.DmaFaulted.FaultedFenceId = fence;
  data.DmaFaulted.Status = STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE;
  data.DmaFaulted.NodeOrdinal = node->ordinal;
  notify(adapter, &data);
  return true;
}

/// Looks at every cause in `causes`. Device level.
void service(Adapter* adapter, ULONG causes) {
  // Acknowledge first: a cause that comes while the registers are read then interrupts again,
  // instead of getting lost.
  write32(*adapter, SGPU_REG_INT_ACK, causes);
  bool told = false;
  for (Node& node : adapter->node) {
    if ((causes & SGPU_INT_COMPLETE(node.ordinal)) != 0) told |= report_completed(adapter, &node);
    if ((causes & SGPU_INT_FAULT(node.ordinal)) != 0) told |= report_fault(adapter, &node);
    if ((causes & SGPU_INT_PREEMPTED(node.ordinal)) != 0) told |= answer_preemption(adapter, &node);
  }
  if (told) adapter->dxgk.DxgkCbQueueDpc(adapter->dxgk.DeviceHandle);
}

BOOLEAN NTAPI service_all_routine(PVOID context) {
  auto* adapter = static_cast<Adapter*>(context);
  // Status, not pending: a cause whose interrupt got lost is not to be missed here.
  service(adapter, read32(*adapter, SGPU_REG_INT_STATUS));
  return TRUE;
}

// --- recovery of a faulted engine ---

void configure(Adapter* adapter, Node* node, UINT fence) {
  write64(*adapter, SGPU_NODE_REG(node->ordinal, SGPU_NODE_RING_BASE),
          static_cast<ULONG64>(node->ring_address.QuadPart));
  write_node(*adapter, *node, SGPU_NODE_RING_SIZE, kRingEntries);
  write_node(*adapter, *node, SGPU_NODE_COMPLETED_FENCE, fence);
  write_node(*adapter, *node, SGPU_NODE_CONTROL, SGPU_CONTROL_ENABLE);
}

/// Puts what waited behind the fault into the ring of the reset engine.
void requeue(Adapter* adapter, Node* node) {
  const UINT count = node->next - node->first;
  for (UINT i = 0; i < count; ++i) node->scratch[i] = slot(node, node->first + i);
  node->first = 0;
  node->next = count;
  for (UINT i = 0; i < count; ++i) {
    node->in_flight[i] = node->scratch[i];
    node->ring[i] = node->scratch[i].entry;
  }
  configure(adapter, node, node->reported_fence);
  if (count != 0) ring_doorbell(adapter, node);
}

/// TRUE while an engine is not ready yet.
BOOLEAN NTAPI recover_routine(PVOID context) {
  auto* adapter = static_cast<Adapter*>(context);
  BOOLEAN again = FALSE;
  bool told = false;
  for (Node& node : adapter->node) {
    if (!node.recovering) continue;
    if ((read_node(*adapter, node, SGPU_NODE_STATUS) & SGPU_STATUS_RESETTING) != 0) {
      again = TRUE;
      continue;
    }
    node.recovering = false;
    ++node.resets;
    if (node.preemption_id != 0) {
      // The reset swallowed the request. Nothing runs, so it can be answered right here.
      leave_word(&node, 0, 0);
      report_preempted(adapter, &node);
      told = true;
    }
    requeue(adapter, &node);
  }
  if (told) adapter->dxgk.DxgkCbQueueDpc(adapter->dxgk.DeviceHandle);
  return again;
}

void arm_recovery(Adapter* adapter) {
  LARGE_INTEGER due;
  due.QuadPart = -1000;  // 100 microseconds from now
  KeSetTimer(&adapter->recovery_timer, due, &adapter->recovery_dpc);
}

void NTAPI recovery_dpc(PKDPC dpc, PVOID context, PVOID argument1, PVOID argument2) {
  UNREFERENCED_PARAMETER(dpc);
  UNREFERENCED_PARAMETER(argument1);
  UNREFERENCED_PARAMETER(argument2);
  auto* adapter = static_cast<Adapter*>(context);
  if (at_device_level(adapter, recover_routine, adapter)) arm_recovery(adapter);
}

}  // namespace

// --- registers and rings ---

ULONG read32(const Adapter& adapter, ULONG offset) {
  return READ_REGISTER_ULONG(register_at<ULONG>(adapter, offset));
}
void write32(const Adapter& adapter, ULONG offset, ULONG value) {
  WRITE_REGISTER_ULONG(register_at<ULONG>(adapter, offset), value);
}
ULONG64 read64(const Adapter& adapter, ULONG offset) {
  return READ_REGISTER_ULONG64(register_at<ULONG64>(adapter, offset));
}
void write64(const Adapter& adapter, ULONG offset, ULONG64 value) {
  WRITE_REGISTER_ULONG64(register_at<ULONG64>(adapter, offset), value);
}

NTSTATUS allocate_rings(Adapter* adapter) {
  PHYSICAL_ADDRESS lowest, highest, boundary;
  lowest.QuadPart = 0;
  highest.QuadPart = static_cast<LONGLONG>(SGPU_SYSTEM_LIMIT - 1);  // what the engines can address
  boundary.QuadPart = 0;
  for (Node& node : adapter->node) {
    constexpr SIZE_T kBytes = kRingEntries * sizeof(SgpuRingEntry);
    node.ring = static_cast<SgpuRingEntry*>(
        MmAllocateContiguousMemorySpecifyCache(kBytes, lowest, highest, boundary, MmCached));
    if (node.ring == nullptr) return STATUS_NO_MEMORY;
    RtlZeroMemory(node.ring, kBytes);
    node.ring_address = MmGetPhysicalAddress(node.ring);
  }
  return STATUS_SUCCESS;
}

void free_rings(Adapter* adapter) {
  for (Node& node : adapter->node) {
    if (node.ring == nullptr) continue;
    MmFreeContiguousMemorySpecifyCache(node.ring, kRingEntries * sizeof(SgpuRingEntry), MmCached);
    node.ring = nullptr;
  }
}

NTSTATUS reset_engine(Adapter* adapter, Node* node) {
  write_node(*adapter, *node, SGPU_NODE_CONTROL, SGPU_CONTROL_RESET);
  // A command may be in the middle of a large transfer: give it a second.
  for (UINT i = 0; i < 100000; ++i) {
    if ((read_node(*adapter, *node, SGPU_NODE_STATUS) & SGPU_STATUS_RESETTING) == 0) {
      ++node->resets;
      return STATUS_SUCCESS;
    }
    KeStallExecutionProcessor(10);
  }
  return STATUS_IO_DEVICE_ERROR;
}

void start_engine(Adapter* adapter, Node* node, UINT fence) {
  node->first = 0;
  node->next = 0;
  node->submitted_fence = fence;
  node->reported_fence = fence;
  node->preemption_id = 0;
  node->recovering = false;
  configure(adapter, node, fence);
}

void enable_interrupts(Adapter* adapter, bool enable) {
  write32(*adapter, SGPU_REG_INT_ENABLE, enable ? SGPU_INT_ALL : 0);
  // News of a past life is of no use to anybody.
  if (!enable) write32(*adapter, SGPU_REG_INT_ACK, SGPU_INT_ALL);
  adapter->interrupts_on = enable;
}

void clear_aperture(Adapter* adapter) {
  if (adapter->aperture_high_water == 0) return;
  write32(*adapter, SGPU_REG_APERTURE_INDEX, 0);
  for (UINT i = 0; i < adapter->aperture_high_water; ++i) {
    write64(*adapter, SGPU_REG_APERTURE_ENTRY, 0);  // moves on by itself
  }
  adapter->aperture_high_water = 0;
}

void prepare_recovery(Adapter* adapter) {
  KeInitializeTimer(&adapter->recovery_timer);
  KeInitializeDpc(&adapter->recovery_dpc, recovery_dpc, adapter);
}

void cancel_recovery(Adapter* adapter) {
  for (Node& node : adapter->node) node.recovering = false;  // the DPC does not arm the timer again
  KeCancelTimer(&adapter->recovery_timer);
  KeFlushQueuedDpcs();
}

bool submit(Adapter* adapter, Node* node, const InFlight& submission) {
  if (node->next - node->first >= kRingEntries - 1) return false;  // a full ring looks empty
  slot(node, node->next) = submission;
  node->submitted_fence = submission.entry.fence;
  ++node->submissions;
  const UINT index = node->next++ % kRingEntries;
  if (node->recovering) return true;  // requeue() takes it along
  node->ring[index] = submission.entry;
  ring_doorbell(adapter, node);
  return true;
}

bool at_device_level(Adapter* adapter, PKSYNCHRONIZE_ROUTINE routine, void* context) {
  BOOLEAN result = FALSE;
  const NTSTATUS status = adapter->dxgk.DxgkCbSynchronizeExecution(adapter->dxgk.DeviceHandle,
                                                                   routine, context, 0, &result);
  return NT_SUCCESS(status) && result != FALSE;
}

// --- interrupts ---

BOOLEAN NTAPI DdiInterruptRoutine(IN_CONST_PVOID context, IN_ULONG message) {
  UNREFERENCED_PARAMETER(message);
  auto* adapter = static_cast<Adapter*>(context);
  if (adapter->registers == nullptr) return FALSE;
  const ULONG causes = read32(*adapter, SGPU_REG_INT_PENDING);
  if (causes == 0) return FALSE;  // the line is shared: somebody else's
  service(adapter, causes);
  return TRUE;
}

void NTAPI DdiDpcRoutine(IN_CONST_PVOID context) {
  auto* adapter = static_cast<Adapter*>(context);
  adapter->dxgk.DxgkCbNotifyDpc(adapter->dxgk.DeviceHandle);
  // Read without the lock: a fault that comes now queues another DPC.
  for (const Node& node : adapter->node) {
    if (node.recovering) {
      arm_recovery(adapter);
      break;
    }
  }
}

NTSTATUS NTAPI DdiControlInterrupt(IN_CONST_HANDLE context, IN_CONST_DXGK_INTERRUPT_TYPE type,
                                   IN_BOOLEAN enable) {
  UNREFERENCED_PARAMETER(context);
  UNREFERENCED_PARAMETER(type);
  UNREFERENCED_PARAMETER(enable);
  // Vertical sync is all that could be asked for, and there is no display.
  return STATUS_NOT_IMPLEMENTED;
}

// --- preemption and progress ---

namespace {

struct PreemptJob {
  Adapter* adapter;
  Node* node;
  UINT id;
};

BOOLEAN NTAPI preempt_routine(PVOID context) {
  auto* job = static_cast<PreemptJob*>(context);
  bool told = report_completed(job->adapter, job->node);
  job->node->preemption_id = job->id;
  if (job->node->first == job->node->next) {
    // All done and reported: there is nothing the hardware could stop.
    report_preempted(job->adapter, job->node);
    told = true;
  } else if (!job->node->recovering) {
    write_node(*job->adapter, *job->node, SGPU_NODE_PREEMPT_REQUEST, job->id);
  }
  if (told) job->adapter->dxgk.DxgkCbQueueDpc(job->adapter->dxgk.DeviceHandle);
  return TRUE;
}

/// Null if there is no such engine.
Node* find_node(Adapter* adapter, UINT node, UINT engine) {
  return node < SGPU_NODE_COUNT && engine == 0 ? &adapter->node[node] : nullptr;
}

}  // namespace

NTSTATUS NTAPI DdiPreemptCommand(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_PREEMPTCOMMAND args) {
  auto* adapter = static_cast<Adapter*>(context);
  Node* node = find_node(adapter, args->NodeOrdinal, args->EngineOrdinal);
  if (node == nullptr) return STATUS_INVALID_PARAMETER;
  PreemptJob job = {adapter, node, args->PreemptionFenceId};
  return at_device_level(adapter, preempt_routine, &job) ? STATUS_SUCCESS : STATUS_UNSUCCESSFUL;
}

NTSTATUS NTAPI DdiQueryCurrentFence(IN_CONST_HANDLE context,
                                    INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  auto* adapter = static_cast<Adapter*>(context);
  const Node* node = find_node(adapter, args->NodeOrdinal, args->EngineOrdinal);
  if (node == nullptr) return STATUS_INVALID_PARAMETER;
  // The kernel misses a fence. If its interrupt got lost, report it now, the way it would have
  // come; the answer then tells nothing that was not reported.
  if (!at_device_level(adapter, service_all_routine, adapter)) return STATUS_UNSUCCESSFUL;
  args->CurrentFence = node->reported_fence;
  return STATUS_SUCCESS;
}

// --- timeouts ---

NTSTATUS NTAPI DdiQueryDependentEngineGroup(IN_CONST_HANDLE context,
                                            INOUT_DXGKARG_QUERYDEPENDENTENGINEGROUP args) {
  if (find_node(static_cast<Adapter*>(context), args->NodeOrdinal, args->EngineOrdinal) ==
      nullptr) {
    return STATUS_INVALID_PARAMETER;
  }
  args->DependentNodeOrdinalMask = ULONGLONG{1} << args->NodeOrdinal;  // itself and nobody else
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiQueryEngineStatus(IN_CONST_HANDLE context,
                                    INOUT_PDXGKARG_QUERYENGINESTATUS args) {
  auto* adapter = static_cast<Adapter*>(context);
  Node* node = find_node(adapter, args->NodeOrdinal, args->EngineOrdinal);
  if (node == nullptr) return STATUS_INVALID_PARAMETER;
  // Busy for long is no crime as long as something gets done.
  const ULONG64 executed = read64(*adapter, SGPU_NODE_REG(node->ordinal, SGPU_NODE_EXECUTED));
  args->EngineStatus.Value = 0;
  args->EngineStatus.Responsive = executed != node->executed_when_asked ? 1 : 0;
  node->executed_when_asked = executed;
  return STATUS_SUCCESS;
}

namespace {

struct ResetJob {
  Adapter* adapter;
  Node* node;
  UINT last_aborted;
};

BOOLEAN NTAPI restart_routine(PVOID context) {
  auto* job = static_cast<ResetJob*>(context);
  Node* node = job->node;
  UINT last_aborted = read_node(*job->adapter, *node, SGPU_NODE_ABORTED_FENCE);
  // 0: the queue ran dry before the reset took effect.
  if (last_aborted == 0) last_aborted = read_node(*job->adapter, *node, SGPU_NODE_COMPLETED_FENCE);
  const UINT submitted = node->submitted_fence;
  write32(*job->adapter, SGPU_REG_INT_ACK,
          SGPU_INT_COMPLETE(node->ordinal) | SGPU_INT_PREEMPTED(node->ordinal) |
              SGPU_INT_FAULT(node->ordinal));
  // What came after the aborted one the kernel submits again: the ring starts empty.
  retire(node, last_aborted);
  leave_word(node, 0, 0);
  start_engine(job->adapter, node, last_aborted);
  node->submitted_fence = submitted;
  job->last_aborted = last_aborted;
  return TRUE;
}

}  // namespace

NTSTATUS NTAPI DdiResetEngine(IN_CONST_HANDLE context, INOUT_PDXGKARG_RESETENGINE args) {
  auto* adapter = static_cast<Adapter*>(context);
  Node* node = find_node(adapter, args->NodeOrdinal, args->EngineOrdinal);
  if (node == nullptr) return STATUS_INVALID_PARAMETER;
  const NTSTATUS status = reset_engine(adapter, node);
  if (!NT_SUCCESS(status)) return status;
  ResetJob job = {adapter, node, 0};
  if (!at_device_level(adapter, restart_routine, &job)) return STATUS_UNSUCCESSFUL;
  args->LastAbortedFenceId = job.last_aborted;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiResetFromTimeout(IN_CONST_HANDLE context) {
  auto* adapter = static_cast<Adapter*>(context);
  // No other thread is in the driver, but the ISR and the timer may be.
  enable_interrupts(adapter, false);
  cancel_recovery(adapter);
  for (Node& node : adapter->node) {
    const NTSTATUS status = reset_engine(adapter, &node);
    if (!NT_SUCCESS(status)) return status;
  }
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiRestartFromTimeout(IN_CONST_HANDLE context) {
  auto* adapter = static_cast<Adapter*>(context);
  // The kernel has moved everything out; the unmapping it asked for meanwhile never ran.
  clear_aperture(adapter);
  // Whatever was submitted before the reset counts as done, one way or the other.
  for (Node& node : adapter->node) start_engine(adapter, &node, node.submitted_fence);
  enable_interrupts(adapter, true);
  return STATUS_SUCCESS;
}

namespace {

SgpuUmdNodeState node_state(const Adapter& adapter, const Node& node, bool read_hardware) {
  SgpuUmdNodeState state = {};
  state.submitted_fence = node.submitted_fence;
  state.completed_fence = node.reported_fence;
  state.submissions = node.submissions;
  state.preemptions = node.preemptions;
  state.faults = node.faults;
  state.resets = node.resets;
  state.last_fault_reason = node.last_fault_reason;
  if (read_hardware) state.hardware_status = read_node(adapter, node, SGPU_NODE_STATUS);
  return state;
}

}  // namespace

NTSTATUS NTAPI DdiCollectDbgInfo(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_COLLECTDBGINFO args) {
  const auto& adapter = *static_cast<const Adapter*>(context);
  // Nobody can be asked to wait any more: unlocked reads, and only what fits.
  SgpuUmdNodeState states[SGPU_NODE_COUNT];
  for (UINT i = 0; i < SGPU_NODE_COUNT; ++i) {
    states[i] = node_state(adapter, adapter.node[i], adapter.registers != nullptr);
  }
  const SIZE_T bytes = args->BufferSize < sizeof(states) ? args->BufferSize : sizeof(states);
  if (args->pBuffer != nullptr) RtlCopyMemory(args->pBuffer, states, bytes);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiEscape(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_ESCAPE args) {
  const auto& adapter = *static_cast<const Adapter*>(context);
  if (args->pPrivateDriverData == nullptr || args->PrivateDriverDataSize < sizeof(SgpuUmdEscape)) {
    return STATUS_INVALID_PARAMETER;
  }
  auto* escape = static_cast<SgpuUmdEscape*>(args->pPrivateDriverData);
  if (escape->magic != SGPU_UMD_ESCAPE_MAGIC || escape->version != SGPU_UMD_VERSION) {
    return STATUS_GRAPHICS_DRIVER_MISMATCH;
  }
  // Without the flag the kernel does not keep the device in D0 for us.
  const bool hardware = args->Flags.HardwareAccess != 0;
  switch (escape->operation) {
    case SGPU_UMD_ESCAPE_QUERY_STATE:
      escape->node_count = SGPU_NODE_COUNT;
      RtlZeroMemory(escape->node, sizeof(escape->node));
      for (UINT i = 0; i < SGPU_NODE_COUNT; ++i) {
        escape->node[i] = node_state(adapter, adapter.node[i], hardware);
      }
      return STATUS_SUCCESS;
    case SGPU_UMD_ESCAPE_DOORBELL:
      if (!hardware) return STATUS_INVALID_PARAMETER;
      write32(adapter, SGPU_REG_SEM_DOORBELL, 1);
      return STATUS_SUCCESS;
    default:
      return STATUS_INVALID_PARAMETER;
  }
}

}  // namespace softgpu
