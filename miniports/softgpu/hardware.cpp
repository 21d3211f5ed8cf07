// Registers, rings and interrupts; preemption; what happens when an engine stops.
#include "miniports/softgpu/driver.h"

namespace softgpu {
namespace {

void write_node(const Node& node, ULONG offset, ULONG value) {
  write32(*node.adapter, SGPU_NODE_REG(node.ordinal, offset), value);
}

InFlight& slot(Node* node, UINT number) { return node->in_flight[number % kRingEntries]; }

void ring_doorbell(Node* node) {
  // The entry must be in memory before the engine hears of it.
  KeMemoryBarrier();
  write_node(*node, SGPU_NODE_RING_TAIL, node->next % kRingEntries);
}

// --- reports to the kernel: device level ---

DXGKARGCB_NOTIFY_INTERRUPT_DATA report_of(DXGK_INTERRUPT_TYPE type) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));  // = {} need not clear more than the union's first member
  data.InterruptType = type;
  return data;
}

void notify(const Node& node, DXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  node.adapter->dxgk.DxgkCbNotifyInterrupt(node.adapter->dxgk.DeviceHandle, &data);
  node.adapter->dpc_wanted = true;
}

/// After any number of reports: one DPC is enough for all of them.
void queue_wanted_dpc(Adapter* adapter) {
  if (adapter->dpc_wanted) adapter->dxgk.DxgkCbQueueDpc(adapter->dxgk.DeviceHandle);
  adapter->dpc_wanted = false;
}

/// Nothing up to `fence` will be looked at again.
void retire(Node* node, UINT fence) {
  node->state.completed_fence = fence;
  while (node->first != node->next && !newer(slot(node, node->first).entry.fence, fence)) {
    ++node->first;
  }
}

/// What left the bus answers with ones, also between the cause and what it is about.
bool is_gone(const Adapter& adapter) { return read32(adapter, SGPU_REG_ID) != SGPU_ID_VALUE; }

void report_completed(Node* node) {
  const UINT completed = read_node(*node, SGPU_NODE_COMPLETED_FENCE);
  if (completed == ~UINT{0} && is_gone(*node->adapter)) return;
  // One report covers every fence up to it. A cause whose fence went out with an earlier report is
  // no news, and repeating one is an error.
  if (!newer(completed, node->state.completed_fence)) return;
  // What was refused is no news either: the kernel counts it itself. Then the one before it is.
  bool refused = false;
  UINT before = 0;  // no fence has this number
  for (UINT i = node->first; i != node->next; ++i) {
    const InFlight& submission = slot(node, i);
    if (newer(submission.entry.fence, completed)) break;
    refused = submission.refused && submission.entry.fence == completed;
    if (!submission.refused) before = submission.entry.fence;
  }
  retire(node, completed);
  if (refused && before == 0) return;
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data = report_of(DXGK_INTERRUPT_DMA_COMPLETED);
  data.DmaCompleted.SubmissionFenceId = refused ? before : completed;
  data.DmaCompleted.NodeOrdinal = node->ordinal;
  notify(*node, data);
}

/// Everything that is still in flight counts as preempted.
void report_preempted(Node* node) {
  auto data = report_of(DXGK_INTERRUPT_DMA_PREEMPTED);
  data.DmaPreempted.PreemptionFenceId = node->preemption_id;
  data.DmaPreempted.LastCompletedFenceId = node->state.completed_fence;
  data.DmaPreempted.NodeOrdinal = node->ordinal;
  node->first = node->next;
  node->preemption_id = 0;
  ++node->state.preemptions;
  notify(*node, data);
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

void answer_preemption(Node* node) {
  const UINT done = read_node(*node, SGPU_NODE_PREEMPT_DONE);
  if (node->preemption_id == 0 || done != node->preemption_id) return;
  // What finished between the request and the stop is complete, not preempted.
  report_completed(node);
  leave_word(node, read_node(*node, SGPU_NODE_PREEMPT_FENCE),
             read_node(*node, SGPU_NODE_PREEMPT_OFFSET));
  report_preempted(node);
}

void report_fault(Node* node) {
  const UINT reason = read_node(*node, SGPU_NODE_FAULT_REASON);
  if (reason == SGPU_FAULT_NONE || reason == ~UINT{0} || node->recovering) return;
  report_completed(node);
  UINT fence = read_node(*node, SGPU_NODE_FAULT_FENCE);
  // A fault of the ring itself belongs to whoever would have been next.
  if (fence == 0 && node->first != node->next) fence = slot(node, node->first).entry.fence;
  HANDLE process = nullptr;
  for (UINT i = node->first; i != node->next; ++i) {
    if (slot(node, i).entry.fence == fence) process = slot(node, i).process;
  }
  retire(node, fence);
  node->state.last_fault_reason = reason;
  ++node->state.faults;
  // The engine is stopped for good. Resetting it takes time that an ISR does not have: ask for it
  // here, look after it from a timer.
  node->recovering = true;
#if SOFTGPU_HAS_GPU_VA
  // From 2.0 on DMA_FAULTED is the system's: whatever it was, it is said with a code.
  const DXGKARGCB_NOTIFY_INTERRUPT_DATA data =
      page_fault_report(*node, fence, process, reason == SGPU_FAULT_PAGE);
  write_node(*node, SGPU_NODE_CONTROL, SGPU_CONTROL_RESET);  // which clears what was just read
#else
  (void)process;
  write_node(*node, SGPU_NODE_CONTROL, SGPU_CONTROL_RESET);
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data = report_of(DXGK_INTERRUPT_DMA_FAULTED);
  data.DmaFaulted.FaultedFenceId = fence;
  data.DmaFaulted.Status = STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE;
  data.DmaFaulted.NodeOrdinal = node->ordinal;
#endif
  notify(*node, data);
}

/// Looks at every cause in `causes`. Device level.
void service(Adapter* adapter, ULONG causes) {
  // Acknowledge first: a cause that comes while the registers are read then interrupts again,
  // instead of getting lost.
  write32(*adapter, SGPU_REG_INT_ACK, causes);
  for (Node& node : adapter->node) {
    if ((causes & SGPU_INT_COMPLETE(node.ordinal)) != 0) report_completed(&node);
    if ((causes & SGPU_INT_FAULT(node.ordinal)) != 0) report_fault(&node);
    if ((causes & SGPU_INT_PREEMPTED(node.ordinal)) != 0) answer_preemption(&node);
  }
#if SOFTGPU_HAS_SCREEN
  // Behind what the engines have done: a flip may wait for it.
  if ((causes & SGPU_INT_VSYNC) != 0) report_vsync(adapter);
#endif
  queue_wanted_dpc(adapter);
}

// --- recovery of a faulted engine ---

void configure(Node* node, UINT fence) {
  write64(*node->adapter, SGPU_NODE_REG(node->ordinal, SGPU_NODE_RING_BASE),
          static_cast<ULONG64>(node->ring_address.QuadPart));
  write_node(*node, SGPU_NODE_RING_SIZE, kRingEntries);
  write_node(*node, SGPU_NODE_COMPLETED_FENCE, fence);
  write_node(*node, SGPU_NODE_CONTROL, SGPU_CONTROL_ENABLE);
}

/// Puts what waited behind the fault into the ring of the reset engine.
void requeue(Node* node) {
  const UINT count = node->next - node->first;
  for (UINT i = 0; i < count; ++i) node->scratch[i] = slot(node, node->first + i);
  node->first = 0;
  node->next = count;
  for (UINT i = 0; i < count; ++i) {
    node->in_flight[i] = node->scratch[i];
    node->ring[i] = node->scratch[i].entry;
  }
  configure(node, node->state.completed_fence);
  if (count != 0) ring_doorbell(node);
}

/// Device level. True while an engine is not ready yet.
bool recover(Adapter* adapter) {
  bool again = false;
  for (Node& node : adapter->node) {
    if (!node.recovering) continue;
    if ((read_node(node, SGPU_NODE_STATUS) & SGPU_STATUS_RESETTING) != 0) {
      again = true;
      continue;
    }
    node.recovering = false;
    ++node.state.resets;
    if (node.preemption_id != 0) {
      // The reset swallowed the request. Nothing runs, so it can be answered right here.
      leave_word(&node, 0, 0);
      report_preempted(&node);
    }
    requeue(&node);
  }
  queue_wanted_dpc(adapter);
  return again;
}

void arm_recovery(Adapter* adapter) {
  LARGE_INTEGER due;
  due.QuadPart = -1000;  // 100 microseconds from now
  KeSetTimer(&adapter->recovery_timer, due, &adapter->recovery_dpc);
}

void NTAPI recovery_dpc(PKDPC, PVOID context, PVOID, PVOID) {
  auto* adapter = static_cast<Adapter*>(context);
  bool again = false;
  (void)at_device_level(adapter, [&] { again = recover(adapter); });
  if (again) arm_recovery(adapter);
}

/// The engine that a DDI's arguments name; null if there is none.
template <typename Arguments>
Node* find_node(HANDLE adapter, const Arguments* args) {
  if (args->NodeOrdinal >= SGPU_NODE_COUNT || args->EngineOrdinal != 0) return nullptr;
  return &static_cast<Adapter*>(adapter)->node[args->NodeOrdinal];
}

/// `states`: one per node. Unlocked: single numbers, that may be a moment apart.
void read_states(const Adapter& adapter, bool ask_hardware, SgpuUmdNodeState* states) {
  for (const Node& node : adapter.node) {
    SgpuUmdNodeState& state = states[node.ordinal];
    state = node.state;
    if (ask_hardware) state.hardware_status = read_node(node, SGPU_NODE_STATUS);
  }
}

/// Stops an engine at once and waits until it cannot touch memory any more. Below DISPATCH_LEVEL.
NTSTATUS reset_engine(Node* node) {
  write_node(*node, SGPU_NODE_CONTROL, SGPU_CONTROL_RESET);
  // A command may be in the middle of a large transfer: give it a second.
  for (UINT i = 0; i < 100000; ++i) {
    const ULONG status = read_node(*node, SGPU_NODE_STATUS);
    if (status == ~ULONG{0}) return STATUS_DEVICE_REMOVED;  // it touches nothing any more
    if ((status & SGPU_STATUS_RESETTING) == 0) {
      ++node->state.resets;
      return STATUS_SUCCESS;
    }
    KeStallExecutionProcessor(10);
  }
  return STATUS_IO_DEVICE_ERROR;
}

}  // namespace

// --- registers and rings ---

NTSTATUS allocate_rings(Adapter* adapter) {
  PHYSICAL_ADDRESS lowest = {}, highest = {}, boundary = {};
  highest.QuadPart = SGPU_SYSTEM_LIMIT - 1;  // what the engines can address
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

void start_engine(Node* node, UINT fence) {
  node->first = node->next = 0;
  node->state.submitted_fence = node->state.completed_fence = fence;
  node->preemption_id = 0;
  node->recovering = false;
  configure(node, fence);
}

void enable_interrupts(Adapter* adapter, bool enable) {
  write32(*adapter, SGPU_REG_INT_ENABLE, enable ? SGPU_INT_ALL | adapter->vsync_cause : 0);
  // News of a past life is of no use to anybody.
  if (!enable) write32(*adapter, SGPU_REG_INT_ACK, SGPU_INT_ALL);
  adapter->interrupts_on = enable;
}

void clear_aperture(Adapter* adapter) {
  write32(*adapter, SGPU_REG_APERTURE_INDEX, 0);
  for (; adapter->aperture_high_water != 0; --adapter->aperture_high_water) {
    write64(*adapter, SGPU_REG_APERTURE_ENTRY, 0);  // the index moves on by itself
  }
}

void prepare_recovery(Adapter* adapter) {
  KeInitializeTimer(&adapter->recovery_timer);
  KeInitializeDpc(&adapter->recovery_dpc, recovery_dpc, adapter);
}

NTSTATUS halt(Adapter* adapter) {
  enable_interrupts(adapter, false);
#if SOFTGPU_HAS_SCREEN
  screen_off(*adapter);
#endif
  for (Node& node : adapter->node) node.recovering = false;  // the DPC does not arm the timer again
  KeCancelTimer(&adapter->recovery_timer);
  KeFlushQueuedDpcs();
  NTSTATUS result = STATUS_SUCCESS;
  for (Node& node : adapter->node) {
    if (const NTSTATUS status = reset_engine(&node); !NT_SUCCESS(status)) result = status;
  }
  return result;
}

bool submit(Node* node, const InFlight& submission) {
  if (node->next - node->first >= kRingEntries - 1) return false;  // a full ring looks empty
  slot(node, node->next) = submission;
  node->state.submitted_fence = submission.entry.fence;
  ++node->state.submissions;
  const UINT index = node->next++ % kRingEntries;
  if (node->recovering) return true;  // requeue() takes it along
  node->ring[index] = submission.entry;
  ring_doorbell(node);
  return true;
}

// --- interrupts ---

BOOLEAN NTAPI DdiInterruptRoutine(IN_CONST_PVOID context, IN_ULONG) {
  auto* adapter = static_cast<Adapter*>(context);
  if (adapter->registers == nullptr) return FALSE;
  const ULONG causes = read32(*adapter, SGPU_REG_INT_PENDING);
  if (causes == 0 || causes == ~ULONG{0}) return FALSE;  // the line is shared: somebody else's
  service(adapter, causes);
  return TRUE;
}

void NTAPI DdiDpcRoutine(IN_CONST_PVOID context) {
  auto* adapter = static_cast<Adapter*>(context);
  adapter->dxgk.DxgkCbNotifyDpc(adapter->dxgk.DeviceHandle);
  // Read without the lock: a fault that comes now queues another DPC.
  bool recovering = false;
  for (const Node& node : adapter->node) recovering |= node.recovering;
  if (recovering) arm_recovery(adapter);
}

// --- preemption and progress ---

NTSTATUS NTAPI DdiPreemptCommand(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_PREEMPTCOMMAND args) {
  Node* node = find_node(context, args);
  if (node == nullptr) return STATUS_INVALID_PARAMETER;
  return at_device_level(node->adapter, [&] {
    report_completed(node);
    node->preemption_id = args->PreemptionFenceId;
    node->executed_when_asked =
        read64(*node->adapter, SGPU_NODE_REG(node->ordinal, SGPU_NODE_EXECUTED));
    if (node->first == node->next) {
      // All done and reported: there is nothing the hardware could stop.
      report_preempted(node);
    } else if (!node->recovering) {
      write_node(*node, SGPU_NODE_PREEMPT_REQUEST, node->preemption_id);
    }
    queue_wanted_dpc(node->adapter);
  });
}

NTSTATUS NTAPI DdiQueryCurrentFence(IN_CONST_HANDLE context,
                                    INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  Node* const node = find_node(context, args);
  if (node == nullptr) return STATUS_INVALID_PARAMETER;
  // The kernel misses a fence. If its interrupt got lost, report it now, the way it would have
  // come; the answer then tells nothing that was not reported. So all causes, not the pending ones.
  const NTSTATUS status = at_device_level(node->adapter, [&] {
    report_completed(node);  // a fence that was refused has no cause
    service(node->adapter, read32(*node->adapter, SGPU_REG_INT_STATUS));
    // Here, before the next interrupt reports more.
    args->CurrentFence = node->state.completed_fence;
  });
  return status;
}

// --- timeouts ---

NTSTATUS NTAPI DdiQueryDependentEngineGroup(IN_CONST_HANDLE context,
                                            INOUT_DXGKARG_QUERYDEPENDENTENGINEGROUP args) {
  if (find_node(context, args) == nullptr) return STATUS_INVALID_PARAMETER;
  args->DependentNodeOrdinalMask = ULONGLONG{1} << args->NodeOrdinal;  // itself and nobody else
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiQueryEngineStatus(IN_CONST_HANDLE context,
                                    INOUT_PDXGKARG_QUERYENGINESTATUS args) {
  Node* node = find_node(context, args);
  if (node == nullptr) return STATUS_INVALID_PARAMETER;
  // Busy for long is no crime as long as something gets done: since the kernel asked for the
  // engine, or since it asked this.
  const ULONG64 executed = read64(*node->adapter, SGPU_NODE_REG(node->ordinal, SGPU_NODE_EXECUTED));
  args->EngineStatus.Value = 0;
  args->EngineStatus.Responsive = executed != node->executed_when_asked ? 1 : 0;
  node->executed_when_asked = executed;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiResetEngine(IN_CONST_HANDLE context, INOUT_PDXGKARG_RESETENGINE args) {
  Node* node = find_node(context, args);
  if (node == nullptr) return STATUS_INVALID_PARAMETER;
  if (const NTSTATUS status = reset_engine(node); !NT_SUCCESS(status)) return status;
  return at_device_level(node->adapter, [&] {
    UINT last_aborted = read_node(*node, SGPU_NODE_ABORTED_FENCE);
    // 0: the queue ran dry before the reset took effect.
    if (last_aborted == 0) last_aborted = read_node(*node, SGPU_NODE_COMPLETED_FENCE);
    write32(*node->adapter, SGPU_REG_INT_ACK,
            (SGPU_INT_COMPLETE(0) | SGPU_INT_PREEMPTED(0) | SGPU_INT_FAULT(0)) << node->ordinal);
    // What came after the aborted one the kernel submits again: the ring starts empty.
    retire(node, last_aborted);
    leave_word(node, 0, 0);
    const UINT submitted = node->state.submitted_fence;
    start_engine(node, last_aborted);
    node->state.submitted_fence = submitted;
    args->LastAbortedFenceId = last_aborted;
  });
}

NTSTATUS NTAPI DdiResetFromTimeout(IN_CONST_HANDLE context) {
  // No other thread is in the driver, but the ISR and the timer may be.
  return halt(static_cast<Adapter*>(context));
}

NTSTATUS NTAPI DdiRestartFromTimeout(IN_CONST_HANDLE context) {
  auto* adapter = static_cast<Adapter*>(context);
  // The kernel has moved everything out; the unmapping it asked for meanwhile never ran.
  clear_aperture(adapter);
  // Whatever was submitted before the reset counts as done, one way or the other.
  for (Node& node : adapter->node) start_engine(&node, node.state.submitted_fence);
  enable_interrupts(adapter, true);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCollectDbgInfo(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_COLLECTDBGINFO args) {
  const auto& adapter = *static_cast<const Adapter*>(context);
  SgpuUmdNodeState states[SGPU_NODE_COUNT];
  read_states(adapter, adapter.registers != nullptr, states);
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
  if (escape->operation == SGPU_UMD_ESCAPE_QUERY_STATE) {
    escape->node_count = SGPU_NODE_COUNT;
    RtlZeroMemory(escape->node, sizeof(escape->node));
    read_states(adapter, hardware, escape->node);
    return STATUS_SUCCESS;
  }
  if (escape->operation != SGPU_UMD_ESCAPE_DOORBELL || !hardware) return STATUS_INVALID_PARAMETER;
  write32(adapter, SGPU_REG_SEM_DOORBELL, 1);
  return STATUS_SUCCESS;
}

}  // namespace softgpu
