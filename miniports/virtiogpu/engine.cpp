// Submissions and their fences, preemption, interrupts, recovery. All but the entries at device
// level.
#include "miniports/virtiogpu/driver.h"

namespace virtiogpu {
namespace {

constexpr UCHAR kIsrGone = 0xFF;
// DXGK_FAULT_ERROR_CODE of a general fault: an invalid instruction.
[[maybe_unused]] constexpr UINT kInvalidInstructionCode = 1U << 1;

Submission& slot(Engine& engine, UINT number) {
  return engine.submissions[number % kSubmissionsMost];
}

DXGKARGCB_NOTIFY_INTERRUPT_DATA report_of(DXGK_INTERRUPT_TYPE type) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));  // = {} need not clear more than the union's first member
  data.InterruptType = type;
  return data;
}

/// A submission costs its D3DKMT device; the device under us goes on.
DXGKARGCB_NOTIFY_INTERRUPT_DATA fault_report(UINT fence) {
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
  // From 2.0 on DMA_FAULTED is the system's: whatever it was, it is said with a code. No address is
  // to blame, and nothing is left to the kernel to reset.
  auto data = report_of(DXGK_INTERRUPT_DMA_PAGE_FAULTED);
  data.DmaPageFaulted.FaultedFenceId = fence;
  data.DmaPageFaulted.FaultedPipelineStage = DXGK_RENDER_PIPELINE_STAGE_UNKNOWN;
  const UINT code = kInvalidInstructionCode;
  static_assert(sizeof(data.DmaPageFaulted.FaultErrorCode) == sizeof(code), "bit for bit");
  RtlCopyMemory(&data.DmaPageFaulted.FaultErrorCode, &code, sizeof(code));
#else
  auto data = report_of(DXGK_INTERRUPT_DMA_FAULTED);
  data.DmaFaulted.FaultedFenceId = fence;
  data.DmaFaulted.Status = STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE;
#endif
  return data;
}

/// The next command that is not on the queue yet; null: all are.
DmaCommand* next_command(Submission* submission) {
  while (submission->record != submission->end) {
    const Record& record = *submission->record;
    const UINT position = submission->position;
    auto* command = reinterpret_cast<DmaCommand*>(record.commands + position);
    if (position >= record.bytes || command->bytes < sizeof(DmaCommand)) {
      ++submission->record;
      submission->position = 0;
      continue;
    }
    const UINT offset = record.offset + position;
    if (submission->is_paging || (offset >= submission->start && offset < submission->stop))
      return command;
    submission->position += command->bytes;
  }
  return nullptr;
}

/// A reset of the device has taken what the command needs, and nothing is done in its place: it
/// might meet something of the same number that is there again, empty.
bool is_too_late(const Adapter& adapter, const DmaCommand& command) {
  return command.generation != 0 && command.generation != adapter.generation;
}

/// Puts commands on the queue while there is room. True: the rest will never be there, because of a
/// command that came too late.
bool feed_submission(Adapter* adapter, UINT number) {
  Engine& engine = adapter->engine;
  Submission& submission = slot(engine, number);
  while (DmaCommand* command = next_command(&submission)) {
    if (is_too_late(*adapter, *command)) {
      submission.record = submission.end;
      submission.begun = submission.has_failed = true;
      return true;
    }
    const int place = find_slot(adapter->control);
    if (place < 0) return false;
    submission.begun = true;
    submission.position += command->bytes;
    auto* header = reinterpret_cast<VgpuHeader*>(command + 1);
    // The last one carries the fence: its answer says that everything before it is done.
    const bool is_last = next_command(&submission) == nullptr;
    header->flags = is_last ? VGPU_FLAG_FENCE : 0;
    header->fence_id = is_last ? submission.fence : 0;
    engine.owner[place] = number;
    ++submission.under_way;
    const PHYSICAL_ADDRESS address = MmGetPhysicalAddress(header);  // contiguous memory
    offer(adapter, &adapter->control, place,
          {static_cast<ULONG64>(address.QuadPart), command->request_bytes, command->data,
           command->data_bytes, false});
  }
  return false;
}

void take_answers(Adapter* adapter) {
  Engine& engine = adapter->engine;
  for (int place = take_used(&adapter->control); place >= 0; place = take_used(&adapter->control)) {
    ULONG type = 0;
    const bool is_awaited = engine.owner[place] == kAwaited;
    RtlCopyMemory(
        &type, is_awaited ? long_answer_of(adapter->control) : answer_of(adapter->control, place),
        sizeof(type));
    const bool is_good = type >= VGPU_OK_NODATA && type < VGPU_ERR_UNSPEC;
    if (!is_good) ++engine.errors;
    const UINT owner = engine.owner[place];
    engine.silent = false;
    if (owner == kAwaited) {
      engine.has_answer = true;
    } else if (owner == kCall) {
      Call* const call = engine.calls[place];
      engine.calls[place] = nullptr;
      call->answer = type;
      call->is_answered = true;
      call->next = engine.answered;
      engine.answered = call;
      engine.dpc_wanted = true;
    } else if (owner == kCursorTransfer) {
      cursor_transferred(adapter);
    } else if (owner == kScreenCommand) {
      --adapter->screen.under_way;
    } else if (owner != kOwnCommand) {
      Submission& submission = slot(engine, owner);
      --submission.under_way;
      submission.has_failed = submission.has_failed || !is_good;
    }
  }
  while (take_used(&adapter->cursor_queue) >= 0) {
  }
}

/// Reports what is done, in order.
void complete(Adapter* adapter) {
  Engine& engine = adapter->engine;
  while (engine.first != engine.next) {
    Submission& submission = slot(engine, engine.first);
    // What has not begun is not done, even if it has no commands: it can still be preempted.
    if (!submission.begun || submission.under_way != 0 || next_command(&submission) != nullptr)
      return;
    ++engine.first;
    engine.completed_fence = submission.fence;
    if (submission.has_failed) {
      notify_kernel(adapter, fault_report(submission.fence));
    } else {
      auto data = report_of(DXGK_INTERRUPT_DMA_COMPLETED);
      data.DmaCompleted.SubmissionFenceId = submission.fence;
      notify_kernel(adapter, data);
    }
  }
}

/// What has not begun is dropped once everything that has is done; it comes again.
void answer_preemption(Adapter* adapter) {
  Engine& engine = adapter->engine;
  if (engine.preemption == 0) return;
  if (engine.first != engine.next && slot(engine, engine.first).begun) return;
  engine.first = engine.next;
  auto data = report_of(DXGK_INTERRUPT_DMA_PREEMPTED);
  data.DmaPreempted.PreemptionFenceId = engine.preemption;
  data.DmaPreempted.LastCompletedFenceId = engine.completed_fence;
  engine.preemption = 0;
  notify_kernel(adapter, data);
}

/// True if a submission went on, so that there may be something to complete.
bool feed(Adapter* adapter) {
  Engine& engine = adapter->engine;
  bool went_on = false;
  for (UINT number = engine.first; number != engine.next; ++number) {
    Submission& submission = slot(engine, number);
    if (!submission.begun && engine.preemption != 0) break;
    if (next_command(&submission) == nullptr) {
      // Nothing to run, but in its place in the line.
      if (!submission.begun) went_on = submission.begun = true;
      continue;
    }
    went_on = feed_submission(adapter, number) || went_on;
    if (next_command(&submission) != nullptr) break;  // the queue is full
  }
  return went_on;
}

}  // namespace

void notify_kernel(Adapter* adapter, const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA copy = data;
  adapter->dxgk.DxgkCbNotifyInterrupt(adapter->dxgk.DeviceHandle, &copy);
  adapter->engine.dpc_wanted = true;
}

void queue_wanted_dpc(Adapter* adapter) {
  if (adapter->engine.dpc_wanted) adapter->dxgk.DxgkCbQueueDpc(adapter->dxgk.DeviceHandle);
  adapter->engine.dpc_wanted = false;
}

void serve(Adapter* adapter) {
  if (!adapter->running) return;
  take_answers(adapter);
  do {
    complete(adapter);
    answer_preemption(adapter);
    feed_display(adapter);
  } while (feed(adapter));
}

bool send_own(Adapter* adapter, const void* request, ULONG bytes, UINT owner, Call* call) {
  const int place = find_slot(adapter->control);
  if (place < 0 || bytes > kRequestBytes) return false;
  RtlCopyMemory(request_of(adapter->control, place), request, bytes);
  adapter->engine.owner[place] = owner;
  adapter->engine.calls[place] = call;
  const ULONG64 data = call != nullptr ? call->data : 0;
  const ULONG data_bytes = call != nullptr ? call->data_bytes : 0;
  offer(adapter, &adapter->control, place, {0, bytes, data, data_bytes, owner == kAwaited});
  return true;
}

void forget_work(Adapter* adapter) {
  Engine& engine = adapter->engine;
  engine.first = engine.next = 0;
  engine.preemption = 0;
  engine.broken = engine.silent = engine.dpc_wanted = false;
}

NTSTATUS ask(Adapter* adapter, const void* request, ULONG bytes, void* answer, ULONG answer_bytes) {
  Engine& engine = adapter->engine;
  NTSTATUS status = STATUS_INSUFFICIENT_RESOURCES;
  const NTSTATUS sent = at_device_level(adapter, [&] {
    engine.has_answer = false;
    if (send_own(adapter, request, bytes, kAwaited)) status = STATUS_SUCCESS;
  });
  if (!NT_SUCCESS(sent)) return sent;
  constexpr ULONG64 kPatience = 50'000'000;  // 5 s, in units of 100 ns
  const ULONG64 begin = KeQueryInterruptTime();
  while (NT_SUCCESS(status) && KeQueryInterruptTime() - begin < kPatience) {
    bool is_there = false;
    const NTSTATUS looked = at_device_level(adapter, [&] {
      serve(adapter);  // the interrupt may have come first
      is_there = engine.has_answer;
      if (engine.broken) status = STATUS_IO_DEVICE_ERROR;
      if (is_there) RtlCopyMemory(answer, long_answer_of(adapter->control), answer_bytes);
    });
    if (!NT_SUCCESS(looked)) return looked;
    if (is_there) return STATUS_SUCCESS;
    KeStallExecutionProcessor(10);
  }
  return NT_SUCCESS(status) ? STATUS_IO_TIMEOUT : status;
}

// --- commands that threads send beside submissions

namespace {

// All waits together are four seconds: longer than a device takes to give a context up that does
// not end, and shorter than the kernel waits for threads before it resets the device (TdrDdiDelay).
constexpr UINT kWaits = 400;
constexpr LONGLONG kWait = -100'000;  // 10 ms, in units of 100 ns

/// Takes a call back that is not `taken`. At device level.
void withdraw(Engine* engine, Call* call) {
  for (UINT place = 0; place < kSlotsMost; ++place) {
    if (engine->calls[place] != call) continue;
    engine->calls[place] = nullptr;
    engine->owner[place] = kOwnCommand;
  }
  for (Call** at = &engine->answered; *at != nullptr; at = &(*at)->next) {
    if (*at != call) continue;
    *at = call->next;
    break;
  }
}

/// Sends it when there is room, and waits until it is sent, or also answered. Interrupts may get
/// lost, so the thread looks for itself between waits.
NTSTATUS converse(Adapter* adapter, const void* request, ULONG bytes, Call* call, bool answered) {
  Engine& engine = adapter->engine;
  for (UINT i = 0; i <= kWaits; ++i) {
    NTSTATUS status = STATUS_PENDING;
    const NTSTATUS looked = at_device_level(adapter, [&] {
      if (!adapter->running) {
        if (!call->is_taken) withdraw(&engine, call);
        status = STATUS_DEVICE_NOT_READY;
        return;
      }
      serve(adapter);
      if (!call->is_sent)
        call->is_sent = send_own(adapter, request, bytes, answered ? kCall : kOwnCommand,
                                 answered ? call : nullptr);
      const bool is_done = answered ? call->is_answered : call->is_sent;
      if (is_done) status = STATUS_SUCCESS;
      if (!is_done && (i == kWaits || engine.broken || engine.silent)) {
        status = STATUS_IO_TIMEOUT;
        engine.silent = true;
      }
      if (status != STATUS_PENDING && !call->is_taken) withdraw(&engine, call);
      queue_wanted_dpc(adapter);
    });
    if (!NT_SUCCESS(looked)) return looked;
    if (status != STATUS_PENDING) {
      // The DPC still has the call in its hands. It never waits.
      if (call->is_taken)
        (void)KeWaitForSingleObject(&call->event, Executive, KernelMode, FALSE, nullptr);
      return status;
    }
    LARGE_INTEGER wait;
    wait.QuadPart = kWait;
    (void)KeWaitForSingleObject(&call->event, Executive, KernelMode, FALSE, &wait);
  }
  return STATUS_IO_TIMEOUT;
}

}  // namespace

NTSTATUS call_device(Adapter* adapter, const void* request, ULONG bytes, ULONG64 data,
                     ULONG data_bytes) {
  Call call;
  RtlZeroMemory(&call, sizeof(call));
  call.data = data;
  call.data_bytes = data_bytes;
  KeInitializeEvent(&call.event, NotificationEvent, FALSE);
  const NTSTATUS status = converse(adapter, request, bytes, &call, true);
  if (!NT_SUCCESS(status)) return status;
  if (call.answer == VGPU_ERR_OUT_OF_MEMORY) return STATUS_NO_MEMORY;
  const bool is_good = call.answer >= VGPU_OK_NODATA && call.answer < VGPU_ERR_UNSPEC;
  return is_good ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
}

NTSTATUS tell_device(Adapter* adapter, const void* request, ULONG bytes) {
  Call call;
  RtlZeroMemory(&call, sizeof(call));
  KeInitializeEvent(&call.event, NotificationEvent, FALSE);
  return converse(adapter, request, bytes, &call, false);
}

void wake_callers(Adapter* adapter) {
  Call* call = nullptr;
  (void)at_device_level(adapter, [&] {
    call = adapter->engine.answered;
    adapter->engine.answered = nullptr;
    for (Call* one = call; one != nullptr; one = one->next) one->is_taken = true;
  });
  while (call != nullptr) {
    Call* const next = call->next;  // once its event is set, the call may be gone
    KeSetEvent(&call->event, IO_NO_INCREMENT, FALSE);
    call = next;
  }
}

// --- entries

BOOLEAN NTAPI DdiInterruptRoutine(IN_CONST_PVOID context, IN_ULONG) {
  auto* adapter = static_cast<Adapter*>(context);
  if (!adapter->ready || adapter->gone) return FALSE;
  // Reading it lowers the line.
  const UCHAR causes = READ_REGISTER_UCHAR(adapter->registers.isr);
  if (causes == 0 || causes == kIsrGone) return FALSE;  // the line is shared: somebody else's
  // A device that wants a reset does nothing any more: the kernel's timeout brings it.
  if ((causes & VIRTIO_ISR_CONFIG) != 0 && needs_reset(*adapter)) adapter->engine.broken = true;
  serve(adapter);
  queue_wanted_dpc(adapter);
  return TRUE;
}

void NTAPI DdiDpcRoutine(IN_CONST_PVOID context) {
  auto* adapter = static_cast<Adapter*>(context);
  adapter->dxgk.DxgkCbNotifyDpc(adapter->dxgk.DeviceHandle);
  if (adapter->has_3d) wake_callers(adapter);
  arm_clock(adapter);  // a flip may wait for it
}

NTSTATUS NTAPI DdiSubmitCommand(IN_CONST_HANDLE handle, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  auto* adapter = static_cast<Adapter*>(handle);
  if (args->NodeOrdinal != 0) return STATUS_INVALID_PARAMETER;
  const UINT start = args->DmaBufferPrivateDataSubmissionStartOffset;
  const UINT end = args->DmaBufferPrivateDataSubmissionEndOffset;
  const auto* records = static_cast<const UCHAR*>(args->pDmaBufferPrivateData);
  Submission submission = {};
  submission.fence = args->SubmissionFenceId;
  submission.is_paging = args->Flags.Paging != 0;
  submission.start = args->DmaBufferSubmissionStartOffset;
  submission.stop = args->DmaBufferSubmissionEndOffset;
  // A context switch has no commands, and of null rendering all but the execution happens.
  if (submission.stop > submission.start && args->Flags.NullRendering == 0 && end > start) {
    submission.record = reinterpret_cast<const Record*>(records + start);
    submission.end = submission.record + (end - start) / sizeof(Record);
  }
  bool accepted = false;
  const NTSTATUS status = at_device_level(adapter, [&] {
    Engine& engine = adapter->engine;
    if (engine.next - engine.first == kSubmissionsMost) return;
    slot(engine, engine.next++) = submission;
    engine.submitted_fence = submission.fence;
    accepted = true;
    serve(adapter);
    queue_wanted_dpc(adapter);
  });
  return NT_SUCCESS(status) && !accepted ? STATUS_INSUFFICIENT_RESOURCES : status;
}

NTSTATUS NTAPI DdiPreemptCommand(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_PREEMPTCOMMAND args) {
  auto* adapter = static_cast<Adapter*>(context);
  if (args->NodeOrdinal != 0) return STATUS_INVALID_PARAMETER;
  return at_device_level(adapter, [&] {
    adapter->engine.preemption = args->PreemptionFenceId;
    serve(adapter);
    queue_wanted_dpc(adapter);
  });
}

NTSTATUS NTAPI DdiQueryCurrentFence(IN_CONST_HANDLE context,
                                    INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  auto* adapter = static_cast<Adapter*>(context);
  if (args->NodeOrdinal != 0) return STATUS_INVALID_PARAMETER;
  // The kernel misses a fence. If its interrupt got lost, it is reported now, the way it would have
  // come; the answer then tells nothing that was not reported.
  return at_device_level(adapter, [&] {
    serve(adapter);
    queue_wanted_dpc(adapter);
    args->CurrentFence = adapter->engine.completed_fence;
  });
}

NTSTATUS NTAPI DdiResetFromTimeout(IN_CONST_HANDLE context) {
  auto* adapter = static_cast<Adapter*>(context);
  // No other thread is in the driver, but the interrupt routine and the clock may be.
  (void)at_device_level(adapter, [&] { adapter->running = false; });
  const NTSTATUS status = reset_device(adapter);
  forget_work(adapter);
  forget_display(adapter);
  return status;
}

NTSTATUS NTAPI DdiRestartFromTimeout(IN_CONST_HANDLE context) {
  auto* adapter = static_cast<Adapter*>(context);
  if (const NTSTATUS status = start_device(adapter); !NT_SUCCESS(status)) return status;
  return at_device_level(adapter, [&] {
    // Whatever was submitted before the reset counts as done, one way or the other.
    adapter->engine.completed_fence = adapter->engine.submitted_fence;
    adapter->running = true;
    serve(adapter);
    queue_wanted_dpc(adapter);
  });
}

}  // namespace virtiogpu
