// System threads, handles, object references, DPCs, timers and time.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "nt/executive.h"
#include "nt/system_time.h"

namespace dxgkit::nt {
namespace {

using StartRoutine = void(DXGKIT_NT_ABI*)(void*);

void run_system_thread(Kernel& kernel, const std::shared_ptr<ThreadObject>& object,
                       StartRoutine routine, void* context) {
  {
    CallFrame frame(kernel, kSystemThread, kPassiveLevel);
    frame.thread = object.get();
    frame.call_void(routine, context);
  }
  runtime::MutexLock lock(kernel.impl().dispatcher_lock);
  object->header.signal_state = 1;
  object->ended = true;
  release_waiters(kernel);
}

DXGKIT_NT_ABI int32_t ps_create_system_thread(void** handle, uint32_t, ObjectAttributes*, void*,
                                              void*, StartRoutine routine, void* context) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "PsCreateSystemThread", kPassiveLevel);
  Kernel& kernel = frame.kernel();
  Kernel::Impl& state = kernel.impl();
  if (state.allocation_fails("PsCreateSystemThread")) return ntstatus::kInsufficientResources;
  auto object = make_in<ThreadObject>(state.heap);
  object->header.type = static_cast<uint8_t>(ObjectType::kThread);
  object->header.size = sizeof(DispatcherHeader) / 4;
  uint64_t value = 0;
  {
    runtime::MutexLock lock(state.dispatcher_lock);
    value = state.next_handle;
    state.next_handle += 4;
    object->sequence = value;
    object->started_by = origin_of(frame);
    object->name = fmt::format("driver thread {}", value / 4);
    state.threads.emplace(object.get(), object);
    state.handles.emplace(value, HandleEntry{.kind = HandleEntry::Kind::kThread,
                                             .thread = object,
                                             .key = {},
                                             .event = {},
                                             .sequence = value,
                                             .taken = origin_of(frame)});
    *handle = reinterpret_cast<void*>(value);
  }
  // The new thread may end before this assignment: only joins read it, after the driver is done.
  auto thread = kernel.runtime().spawn(object->name, [&kernel, object, routine, context] {
    run_system_thread(kernel, object, routine, context);
  });
  runtime::MutexLock lock(state.dispatcher_lock);
  object->thread = std::move(thread);
  return ntstatus::kSuccess;
}

DXGKIT_NT_ABI int32_t ps_terminate_system_thread(int32_t) {
  CallFrame* frame = &CallFrame::current();
  if (std::string_view(frame->name()) != kSystemThread) {
    frame->kernel().violation("IRQL-12", "PsTerminateSystemThread",
                              "It was called outside a system thread of the driver.",
                              "A system thread ends itself with it.",
                              "Return from the DDI or callback instead.");
    return ntstatus::kInvalidParameter;
  }
  frame->abandon();
}

DXGKIT_NT_ABI int32_t ke_set_priority_thread(void*, int32_t) { return 8; }
DXGKIT_NT_ABI int32_t ke_set_base_priority_thread(void*, int32_t) { return 0; }
DXGKIT_NT_ABI int32_t ke_query_priority_thread(void*) { return 8; }
DXGKIT_NT_ABI uint8_t ke_set_stack_swap(uint8_t) { return 1; }

DXGKIT_NT_ABI int32_t ke_delay_execution_thread(uint8_t, uint8_t, const int64_t* interval) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KeDelayExecutionThread", kApcLevel);
  check_sleep(frame, "KeDelayExecutionThread");
  frame.kernel().runtime().sleep_until(
      std::min(deadline_of(frame.kernel(), interval), hang_deadline(frame)));
  check_sleep(frame, "KeDelayExecutionThread");
  if (frame.kernel().impl().ending.load(std::memory_order_relaxed) != 0) frame.abandon();
  return ntstatus::kSuccess;
}

DXGKIT_NT_ABI void ke_stall_execution_processor(uint32_t microseconds) {
  CallFrame& frame = CallFrame::current();
  check_sleep(frame, "KeStallExecutionProcessor");
  runtime::Runtime& runtime = frame.kernel().runtime();
  const runtime::DurationNs length = int64_t{microseconds} * runtime::kMicrosecond;
  runtime.sleep_until(runtime.now() + length);
  count_stall(frame, length);
}

DXGKIT_NT_ABI Kevent* io_create_event(bool notification, void** handle) {
  Kernel::Impl& state = CallFrame::current().kernel().impl();
  auto object = make_in<NamedEventObject>(state.heap);
  object->event.header.type = static_cast<uint8_t>(
      notification ? ObjectType::kNotificationEvent : ObjectType::kSynchronizationEvent);
  object->event.header.size = sizeof(Kevent) / 4;
  object->event.header.signal_state = 1;  // as on Windows: created signalled
  runtime::MutexLock lock(state.dispatcher_lock);
  const uint64_t value = state.next_handle;
  state.next_handle += 4;
  state.handles.emplace(value, HandleEntry{.kind = HandleEntry::Kind::kEvent,
                                           .thread = {},
                                           .key = {},
                                           .event = object,
                                           .sequence = value,
                                           .taken = origin_of(CallFrame::current())});
  *handle = reinterpret_cast<void*>(value);
  return &object->event;
}
DXGKIT_NT_ABI Kevent* io_create_notification_event(UnicodeString*, void** handle) {
  return io_create_event(true, handle);
}
DXGKIT_NT_ABI Kevent* io_create_synchronization_event(UnicodeString*, void** handle) {
  return io_create_event(false, handle);
}

// --- DPCs

DXGKIT_NT_ABI void ke_initialize_dpc(Kdpc* dpc, DeferredRoutine routine, void* context) {
  *dpc = {};
  dpc->type = 0x13;
  dpc->importance = 1;
  dpc->routine = routine;
  dpc->context = context;
}
/// A DPC that KeInitializeDpc has made, or none.
void require_routine(CallFrame& frame, const char* function, const Kdpc* dpc) {
  if (dpc == nullptr || dpc->routine != nullptr) return;
  frame.kernel().bug_check(
      "NT-01", function, 0xD1, 0,
      fmt::format("{} was called with a KDPC without a routine.", function),
      "The KDPC is as KeInitializeDpc has made it.",
      "Call KeInitializeDpc once, before the DPC is queued for the first time.");
}

/// A threaded DPC may run at DISPATCH_LEVEL: routines ask for their level.
DXGKIT_NT_ABI void ke_initialize_threaded_dpc(Kdpc* dpc, DeferredRoutine routine, void* context) {
  ke_initialize_dpc(&required("KeInitializeThreadedDpc", "Dpc", dpc), routine, context);
  dpc->type = 0x1A;
}
DXGKIT_NT_ABI uint8_t ke_remove_queue_dpc(Kdpc* dpc) {
  CallFrame& frame = CallFrame::current();
  if (frame.remove_dpc(required("KeRemoveQueueDpc", "Dpc", dpc))) return 1;
  // If another thread queued it, it is about to run there: the driver may free it once we return.
  while (frame.irql() < kDispatchLevel &&
         __atomic_load_n(&dpc->queued, __ATOMIC_ACQUIRE) != nullptr) {
    frame.kernel().runtime().yield();
  }
  return 0;
}
DXGKIT_NT_ABI void ke_set_target_processor_dpc(Kdpc* dpc, int8_t number) {
  // A processor that is not there: the DPC runs where it was queued.
  const auto target = static_cast<uint8_t>(number);
  const bool exists = target < CallFrame::current().kernel().config().processors;
  required("KeSetTargetProcessorDpc", "Dpc", dpc).number = exists ? target : 0;
}
DXGKIT_NT_ABI int32_t ke_set_target_processor_dpc_ex(Kdpc* dpc, const uint32_t* number) {
  // PROCESSOR_NUMBER: the group in the lower half, then the number in it.
  const uint32_t given = required("KeSetTargetProcessorDpcEx", "ProcNumber", number);
  const uint32_t target = given >> 16 & 0xFF;
  if ((given & 0xFFFF) != 0 || target >= CallFrame::current().kernel().config().processors)
    return ntstatus::kInvalidParameter;
  required("KeSetTargetProcessorDpcEx", "Dpc", dpc).number = static_cast<uint16_t>(target);
  return ntstatus::kSuccess;
}
DXGKIT_NT_ABI uint8_t ke_insert_queue_dpc(Kdpc* dpc, void* argument1, void* argument2) {
  CallFrame& frame = CallFrame::current();
  require_routine(frame, "KeInsertQueueDpc", dpc);
  return frame.queue_dpc(*dpc, argument1, argument2) ? 1 : 0;
}
DXGKIT_NT_ABI void ke_set_importance_dpc(Kdpc* dpc, uint32_t importance) {
  dpc->importance = static_cast<uint8_t>(importance);
}
DXGKIT_NT_ABI void ke_flush_queued_dpcs() {
  CallFrame& frame = CallFrame::current();
  if (!require_irql(frame, "KeFlushQueuedDpcs", kPassiveLevel)) return;
  frame.kernel().flush_dpcs();
}

// --- timers

void timer_fired(Kernel& kernel, Ktimer* timer) {
  Kernel::Impl& state = kernel.impl();
  Kdpc* dpc = nullptr;
  {
    runtime::MutexLock lock(state.dispatcher_lock);
    const auto found = state.timers.find(timer);
    if (found == state.timers.end() || !found->second.armed) return;
    timer->header.signal_state = 1;
    dpc = timer->dpc;
    if (found->second.period_ns > 0) {
      timer->due_time += static_cast<uint64_t>(found->second.period_ns);
      found->second.timer->arm(static_cast<runtime::TimeNs>(timer->due_time));
    } else {
      found->second.armed = false;
    }
    release_waiters(kernel);
  }
  if (dpc == nullptr) return;
  CallFrame frame(kernel, "timer", kDispatchLevel);
  frame.queue_dpc(*dpc, nullptr, nullptr);
}

DXGKIT_NT_ABI void ke_initialize_timer_ex(Ktimer* timer, uint32_t type) {
  *timer = {};
  timer->header.type = static_cast<uint8_t>(type == 0 ? ObjectType::kNotificationTimer
                                                      : ObjectType::kSynchronizationTimer);
  timer->header.size = sizeof(Ktimer) / 4;
}
DXGKIT_NT_ABI void ke_initialize_timer(Ktimer* timer) { ke_initialize_timer_ex(timer, 0); }

DXGKIT_NT_ABI uint8_t ke_set_timer_ex(Ktimer* timer, int64_t due, int32_t period_ms, Kdpc* dpc) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KeSetTimerEx", kDispatchLevel);
  required("KeSetTimerEx", "Timer", timer);
  require_routine(frame, "KeSetTimerEx", dpc);
  return set_kernel_timer(frame.kernel(), *timer, due, int64_t{std::max(period_ms, 0)} * 1'000'000,
                          dpc)
             ? 1
             : 0;
}
/// The tolerable delay lets Windows group wake-ups; on time is within it.
DXGKIT_NT_ABI uint8_t ke_set_coalescable_timer(Ktimer* timer, int64_t due, uint32_t period_ms,
                                               uint32_t, Kdpc* dpc) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KeSetCoalescableTimer", kDispatchLevel);
  required("KeSetCoalescableTimer", "Timer", timer);
  require_routine(frame, "KeSetCoalescableTimer", dpc);
  return set_kernel_timer(frame.kernel(), *timer, due, int64_t{period_ms} * 1'000'000, dpc) ? 1 : 0;
}
DXGKIT_NT_ABI uint8_t ke_set_timer(Ktimer* timer, int64_t due, Kdpc* dpc) {
  return ke_set_timer_ex(timer, due, 0, dpc);
}

DXGKIT_NT_ABI uint8_t ke_cancel_timer(Ktimer* timer) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KeCancelTimer", kDispatchLevel);
  Kernel::Impl& state = frame.kernel().impl();
  runtime::MutexLock lock(state.dispatcher_lock);
  const auto found = state.timers.find(timer);
  if (found == state.timers.end() || !found->second.armed) return 0;
  found->second.armed = false;
  (void)found->second.timer->cancel();
  return 1;
}
DXGKIT_NT_ABI uint8_t ke_read_state_timer(Ktimer* timer) {
  runtime::MutexLock lock(CallFrame::current().kernel().impl().dispatcher_lock);
  return timer->header.signal_state > 0 ? 1 : 0;
}

// --- time: all of it is the runtime's clock

int64_t units_since_start() { return CallFrame::current().kernel().runtime().now() / 100; }

DXGKIT_NT_ABI uint32_t ke_query_time_increment() { return kSystemTimeTick; }
DXGKIT_NT_ABI uint64_t ke_query_interrupt_time() {
  return static_cast<uint64_t>(units_since_start());
}
DXGKIT_NT_ABI uint64_t ke_query_interrupt_time_precise(uint64_t* counter) {
  *counter = static_cast<uint64_t>(units_since_start());
  return *counter;
}
DXGKIT_NT_ABI uint64_t ke_query_unbiased_interrupt_time() {
  return static_cast<uint64_t>(units_since_start());
}
DXGKIT_NT_ABI void ke_query_system_time(int64_t* time) {
  *time = kSystemTimeAtStart + units_since_start();
}
DXGKIT_NT_ABI uint64_t ke_query_unbiased_interrupt_time_precise(uint64_t* counter) {
  return ke_query_interrupt_time_precise(counter);
}
DXGKIT_NT_ABI uint32_t ex_set_timer_resolution(uint32_t, uint8_t) { return kSystemTimeTick; }
DXGKIT_NT_ABI void ex_query_timer_resolution(uint32_t* maximum, uint32_t* minimum,
                                             uint32_t* current) {
  required("ExQueryTimerResolution", "MaximumTime", maximum) = kSystemTimeTick;
  required("ExQueryTimerResolution", "MinimumTime", minimum) = 5'000;
  required("ExQueryTimerResolution", "CurrentTime", current) = kSystemTimeTick;
}
/// The machine's zone is UTC.
DXGKIT_NT_ABI void ex_same_time(const int64_t* from, int64_t* to) {
  required("ExSystemTimeToLocalTime", "LocalTime", to) =
      required("ExSystemTimeToLocalTime", "SystemTime", from);
}
DXGKIT_NT_ABI int64_t ke_query_performance_counter(int64_t* frequency) {
  if (frequency != nullptr) *frequency = 10'000'000;
  return units_since_start();
}
DXGKIT_NT_ABI void ke_query_tick_count(int64_t* count) {
  *count = units_since_start() / kSystemTimeTick;
}
DXGKIT_NT_ABI uint32_t ke_query_active_processor_count(uint64_t* mask) {
  const Kernel& kernel = CallFrame::current().kernel();
  if (mask != nullptr) *mask = active_processors(kernel);
  return kernel.config().processors;
}
DXGKIT_NT_ABI uint32_t ke_query_active_processor_count_ex(uint16_t group) {
  constexpr uint16_t kAllGroups = 0xFFFF;
  return group == 0 || group == kAllGroups ? CallFrame::current().kernel().config().processors : 0;
}
DXGKIT_NT_ABI uint32_t ke_get_current_processor_number_ex(void* number) {
  const uint32_t current = CallFrame::current().processor();
  const uint32_t packed = current << 16;  // PROCESSOR_NUMBER: group, number
  if (number != nullptr) std::memcpy(number, &packed, sizeof packed);
  return current;
}

}  // namespace

bool set_kernel_timer(Kernel& kernel, Ktimer& timer, int64_t due, int64_t period_ns, Kdpc* dpc) {
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.dispatcher_lock);
  TimerEntry& entry = state.timers[&timer];
  const bool was_armed = entry.armed;
  if (entry.timer == nullptr) {
    entry.timer =
        kernel.runtime().make_timer([&kernel, pointer = &timer] { timer_fired(kernel, pointer); });
  }
  timer.header.signal_state = 0;
  timer.dpc = dpc;
  timer.period_ms = static_cast<uint32_t>(period_ns / 1'000'000);
  entry.period_ns = period_ns;
  const runtime::TimeNs when = due == 0 ? kernel.runtime().now() : deadline_of(kernel, &due);
  timer.due_time = static_cast<uint64_t>(when);
  entry.armed = true;
  if (const CallFrame* frame = CallFrame::current_or_null()) entry.set_by = origin_of(*frame);
  entry.sequence = state.next_timer++;
  entry.timer->arm(when);
  return was_armed;
}

void cancel_all_timers(Kernel& kernel) {
  Kernel::Impl& state = kernel.impl();
  std::map<const void*, TimerEntry> timers;
  {
    runtime::MutexLock lock(state.dispatcher_lock);
    for (auto& [address, entry] : state.timers) entry.armed = false;
    timers.swap(state.timers);
  }
  // The destructors wait for running callbacks, which may need the lock.
  timers.clear();
}

std::span<const Export> thread_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("IoCreateNotificationEvent", io_create_notification_event, kPartial,
                    "names are ignored"),
      DXGKIT_EXPORT("IoCreateSynchronizationEvent", io_create_synchronization_event, kPartial,
                    "names are ignored"),
      DXGKIT_EXPORT("KeDelayExecutionThread", ke_delay_execution_thread, kSupported, ""),
      DXGKIT_EXPORT("KeSetBasePriorityThread", ke_set_base_priority_thread, kPartial,
                    "priorities have no effect"),
      DXGKIT_EXPORT("KeSetPriorityThread", ke_set_priority_thread, kPartial,
                    "priorities have no effect"),
      DXGKIT_EXPORT("KeQueryPriorityThread", ke_query_priority_thread, kPartial,
                    "priorities have no effect"),
      DXGKIT_EXPORT("KeSetKernelStackSwapEnable", ke_set_stack_swap, kPartial,
                    "stacks are never paged out"),
      DXGKIT_EXPORT("KeStallExecutionProcessor", ke_stall_execution_processor, kSupported, ""),
      DXGKIT_EXPORT("PsCreateSystemThread", ps_create_system_thread, kSupported, ""),
      DXGKIT_EXPORT("PsTerminateSystemThread", ps_terminate_system_thread, kSupported, ""),
  };
  return kTable;
}

std::span<const Export> timer_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("ExLocalTimeToSystemTime", ex_same_time, kPartial, "the zone is UTC"),
      DXGKIT_EXPORT("ExQueryTimerResolution", ex_query_timer_resolution, kPartial,
                    "timers are as exact as the runtime's clock"),
      DXGKIT_EXPORT("ExSetTimerResolution", ex_set_timer_resolution, kPartial,
                    "timers are as exact as the runtime's clock"),
      DXGKIT_EXPORT("ExSystemTimeToLocalTime", ex_same_time, kPartial, "the zone is UTC"),
      DXGKIT_EXPORT("KeInitializeThreadedDpc", ke_initialize_threaded_dpc, kPartial,
                    "runs as an ordinary DPC, at DISPATCH_LEVEL"),
      DXGKIT_EXPORT("KeQueryUnbiasedInterruptTimePrecise", ke_query_unbiased_interrupt_time_precise,
                    kSupported, ""),
      DXGKIT_EXPORT("KeRemoveQueueDpc", ke_remove_queue_dpc, kPartial,
                    "one that another thread queued runs first"),
      DXGKIT_EXPORT("KeSetCoalescableTimer", ke_set_coalescable_timer, kSupported, ""),
      DXGKIT_EXPORT("KeSetTargetProcessorDpc", ke_set_target_processor_dpc, kPartial,
                    "a number to look at: DPCs run on the thread that queued them"),
      DXGKIT_EXPORT("KeSetTargetProcessorDpcEx", ke_set_target_processor_dpc_ex, kPartial,
                    "a number to look at: DPCs run on the thread that queued them"),
      DXGKIT_EXPORT("KeCancelTimer", ke_cancel_timer, kSupported, ""),
      DXGKIT_EXPORT("KeFlushQueuedDpcs", ke_flush_queued_dpcs, kSupported, ""),
      DXGKIT_EXPORT("KeGetCurrentProcessorNumberEx", ke_get_current_processor_number_ex, kPartial,
                    "a number to look at: threads run anywhere"),
      DXGKIT_EXPORT("KeInitializeDpc", ke_initialize_dpc, kSupported, ""),
      DXGKIT_EXPORT("KeInitializeTimer", ke_initialize_timer, kSupported, ""),
      DXGKIT_EXPORT("KeInitializeTimerEx", ke_initialize_timer_ex, kSupported, ""),
      DXGKIT_EXPORT("KeInsertQueueDpc", ke_insert_queue_dpc, kSupported, ""),
      DXGKIT_EXPORT("KeQueryActiveProcessorCount", ke_query_active_processor_count, kSupported, ""),
      DXGKIT_EXPORT("KeQueryActiveProcessorCountEx", ke_query_active_processor_count_ex, kSupported,
                    ""),
      DXGKIT_EXPORT("KeQueryInterruptTime", ke_query_interrupt_time, kSupported, ""),
      DXGKIT_EXPORT("KeQueryInterruptTimePrecise", ke_query_interrupt_time_precise, kSupported, ""),
      DXGKIT_EXPORT("KeQueryPerformanceCounter", ke_query_performance_counter, kSupported, ""),
      DXGKIT_EXPORT("KeQuerySystemTime", ke_query_system_time, kSupported, ""),
      DXGKIT_EXPORT("KeQuerySystemTimePrecise", ke_query_system_time, kSupported, ""),
      DXGKIT_EXPORT("KeQueryTickCount", ke_query_tick_count, kSupported, ""),
      DXGKIT_EXPORT("KeQueryTimeIncrement", ke_query_time_increment, kSupported, ""),
      DXGKIT_EXPORT("KeQueryUnbiasedInterruptTime", ke_query_unbiased_interrupt_time, kSupported,
                    ""),
      DXGKIT_EXPORT("KeReadStateTimer", ke_read_state_timer, kSupported, ""),
      DXGKIT_EXPORT("KeSetImportanceDpc", ke_set_importance_dpc, kPartial, "recorded, no effect"),
      DXGKIT_EXPORT("KeSetTimer", ke_set_timer, kSupported, ""),
      DXGKIT_EXPORT("KeSetTimerEx", ke_set_timer_ex, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
