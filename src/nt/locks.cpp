// The rarer locks: in-stack queued and reader-writer spin locks, guarded mutexes, events by handle,
// timers of the Ex family.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "nt/executive.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

struct QueueHandle {  // KLOCK_QUEUE_HANDLE
  void* next;
  uint64_t* lock;
  uint8_t old_irql;
};
static_assert(sizeof(QueueHandle) == 24);

DXGKIT_NT_ABI void acquire_queued(uint64_t* lock, QueueHandle* handle) {
  QueueHandle& given = required("KeAcquireInStackQueuedSpinLock", "LockHandle", handle);
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KeAcquireInStackQueuedSpinLock", kDispatchLevel);
  given.next = nullptr;
  given.lock = lock;
  given.old_irql = frame.raise(kDispatchLevel);
  acquire_driver_spin_lock("KeAcquireInStackQueuedSpinLock", lock);
}
DXGKIT_NT_ABI void release_queued(QueueHandle* handle) {
  const QueueHandle given = required("KeReleaseInStackQueuedSpinLock", "LockHandle", handle);
  release_driver_spin_lock("KeReleaseInStackQueuedSpinLock", given.lock);
  CallFrame::current().lower(given.old_irql);
}
DXGKIT_NT_ABI void acquire_queued_dpc(uint64_t* lock, QueueHandle* handle) {
  QueueHandle& given = required("KeAcquireInStackQueuedSpinLockAtDpcLevel", "LockHandle", handle);
  given = {nullptr, lock, CallFrame::current().irql()};
  acquire_driver_spin_lock("KeAcquireInStackQueuedSpinLockAtDpcLevel", lock);
}
DXGKIT_NT_ABI void release_queued_dpc(QueueHandle* handle) {
  release_driver_spin_lock(
      "KeReleaseInStackQueuedSpinLockFromDpcLevel",
      required("KeReleaseInStackQueuedSpinLockFromDpcLevel", "LockHandle", handle).lock);
}
/// For a routine that may be a threaded DPC: raises if need be.
DXGKIT_NT_ABI Irql acquire_for_dpc(uint64_t* lock) {
  const Irql old = CallFrame::current().raise(kDispatchLevel);
  acquire_driver_spin_lock("KeAcquireSpinLockForDpc", lock);
  return old;
}
DXGKIT_NT_ABI void release_for_dpc(uint64_t* lock, Irql old) {
  release_driver_spin_lock("KeReleaseSpinLockForDpc", lock);
  CallFrame::current().lower(old);
}
DXGKIT_NT_ABI uint8_t test_spin_lock(const uint64_t* lock) {
  return (__atomic_load_n(&required("KeTestSpinLock", "SpinLock", lock), __ATOMIC_ACQUIRE) &
          UINT32_MAX) == 0
             ? 1
             : 0;
}

// --- EX_SPIN_LOCK: 0 free, -1 exclusive, n shared

using SharedLock = std::atomic<uint32_t>;
static_assert(sizeof(SharedLock) == 4);
constexpr uint32_t kExclusive = UINT32_MAX;

void acquire_shared_lock(const char* function, SharedLock* lock, bool exclusive) {
  SharedLock& word = required(function, "SpinLock", lock);
  CallFrame& frame = CallFrame::current();
  runtime::TimeNs hangs = 0;
  for (;;) {
    uint32_t seen = word.load(std::memory_order_relaxed);
    const bool can = exclusive ? seen == 0 : seen < kExclusive - 1;
    if (can && word.compare_exchange_weak(seen, exclusive ? kExclusive : seen + 1,
                                          std::memory_order_acquire)) {
      frame.hold_spin_lock(lock);
      return;
    }
    if (can) continue;
    if (hangs == 0) hangs = hang_deadline(frame);
    if (wait_for_word(frame, word, seen, hangs)) continue;
    report_wait(frame, function,
                fmt::format("reader-writer spin lock {}, held {}", static_cast<const void*>(lock),
                            seen == kExclusive ? "exclusively" : "shared"));
  }
}
void release_shared_lock(const char* function, SharedLock* lock, bool exclusive) {
  SharedLock& word = required(function, "SpinLock", lock);
  Kernel& kernel = CallFrame::current().kernel();
  uint32_t seen = word.load(std::memory_order_relaxed);
  while (seen != 0 && exclusive == (seen == kExclusive)) {
    if (word.compare_exchange_weak(seen, exclusive ? 0 : seen - 1, std::memory_order_release)) {
      CallFrame::current().drop_spin_lock(lock);
      kernel.runtime().wake_all(word);
      return;
    }
  }
  kernel.bug_check("NT-16", function, 0x10, 0, "The spin lock is not held this way.",
                   "A reader-writer spin lock is released once, the way it was acquired.",
                   "Pair acquire and release.");
}
Irql raise_and_acquire(const char* function, SharedLock* lock, bool exclusive) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kDispatchLevel);
  const Irql old = frame.raise(kDispatchLevel);
  acquire_shared_lock(function, lock, exclusive);
  return old;
}
DXGKIT_NT_ABI Irql acquire_exclusive(SharedLock* lock) {
  return raise_and_acquire("ExAcquireSpinLockExclusive", lock, true);
}
DXGKIT_NT_ABI Irql acquire_shared(SharedLock* lock) {
  return raise_and_acquire("ExAcquireSpinLockShared", lock, false);
}
DXGKIT_NT_ABI void release_exclusive(SharedLock* lock, Irql old) {
  release_shared_lock("ExReleaseSpinLockExclusive", lock, true);
  CallFrame::current().lower(old);
}
DXGKIT_NT_ABI void release_shared(SharedLock* lock, Irql old) {
  release_shared_lock("ExReleaseSpinLockShared", lock, false);
  CallFrame::current().lower(old);
}
DXGKIT_NT_ABI void acquire_exclusive_dpc(SharedLock* lock) {
  acquire_shared_lock("ExAcquireSpinLockExclusiveAtDpcLevel", lock, true);
}
DXGKIT_NT_ABI void acquire_shared_dpc(SharedLock* lock) {
  acquire_shared_lock("ExAcquireSpinLockSharedAtDpcLevel", lock, false);
}
DXGKIT_NT_ABI void release_exclusive_dpc(SharedLock* lock) {
  release_shared_lock("ExReleaseSpinLockExclusiveFromDpcLevel", lock, true);
}
DXGKIT_NT_ABI void release_shared_dpc(SharedLock* lock) {
  release_shared_lock("ExReleaseSpinLockSharedFromDpcLevel", lock, false);
}
DXGKIT_NT_ABI uint32_t try_convert(SharedLock* lock) {
  uint32_t one = 1;
  return required("ExTryConvertSharedSpinLockExclusive", "SpinLock", lock)
                 .compare_exchange_strong(one, kExclusive, std::memory_order_acquire)
             ? 1
             : 0;
}

// --- events by handle

std::shared_ptr<NamedEventObject> event_of(Kernel& kernel, void* handle, int32_t* status) {
  runtime::MutexLock lock(kernel.impl().dispatcher_lock);
  const auto found = kernel.impl().handles.find(reinterpret_cast<uint64_t>(handle));
  *status = found == kernel.impl().handles.end() ? kInvalidHandle : kObjectTypeMismatch;
  if (found == kernel.impl().handles.end() || found->second.kind != HandleEntry::Kind::kEvent)
    return nullptr;
  *status = kSuccess;
  return found->second.event;
}

DXGKIT_NT_ABI int32_t zw_create_event(void** handle, uint32_t, const ObjectAttributes* attributes,
                                      uint32_t type, uint8_t state) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ZwCreateEvent", kPassiveLevel);
  void*& out = required("ZwCreateEvent", "EventHandle", handle);
  if (type > 1) return kInvalidParameter;
  if (attributes != nullptr && attributes->name != nullptr && attributes->name->length > 0)
    return kNotSupported;  // no other code could open it by name
  auto event = make_in<NamedEventObject>(frame.kernel().impl().heap);
  event->event.header.type = static_cast<uint8_t>(type == 0 ? ObjectType::kNotificationEvent
                                                            : ObjectType::kSynchronizationEvent);
  event->event.header.size = sizeof(Kevent) / 4;
  event->event.header.signal_state = state != 0 ? 1 : 0;
  out = make_handle(frame.kernel(), {.kind = HandleEntry::Kind::kEvent,
                                     .thread = {},
                                     .key = {},
                                     .event = std::move(event),
                                     .sequence = 0});
  return kSuccess;
}
DXGKIT_NT_ABI int32_t zw_set_event(void* handle, int32_t* previous) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ZwSetEvent", kPassiveLevel);
  int32_t status = 0;
  const auto event = event_of(frame.kernel(), handle, &status);
  if (event == nullptr) return status;
  const int32_t old = set_event(frame.kernel(), event->event);
  if (previous != nullptr) *previous = old;
  return kSuccess;
}
int32_t reset(const char* function, void* handle, int32_t* previous) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kPassiveLevel);
  int32_t status = 0;
  const auto event = event_of(frame.kernel(), handle, &status);
  if (event == nullptr) return status;
  int32_t old = 0;
  {
    runtime::MutexLock lock(frame.kernel().impl().dispatcher_lock);
    old = std::exchange(event->event.header.signal_state, 0);
  }
  if (previous != nullptr) *previous = old;
  return kSuccess;
}
DXGKIT_NT_ABI int32_t zw_clear_event(void* handle) {
  return reset("ZwClearEvent", handle, nullptr);
}
DXGKIT_NT_ABI int32_t zw_reset_event(void* handle, int32_t* previous) {
  return reset("ZwResetEvent", handle, previous);
}
DXGKIT_NT_ABI int32_t zw_wait_for_single_object(void* handle, uint8_t, const int64_t* timeout) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ZwWaitForSingleObject", kPassiveLevel);
  Kernel::Impl& state = frame.kernel().impl();
  HandleEntry entry;
  {
    runtime::MutexLock lock(state.dispatcher_lock);
    const auto found = state.handles.find(reinterpret_cast<uint64_t>(handle));
    if (found == state.handles.end()) return kInvalidHandle;
    entry = found->second;
  }
  DispatcherHeader* header = nullptr;
  if (entry.kind == HandleEntry::Kind::kEvent) header = &entry.event->event.header;
  if (entry.kind == HandleEntry::Kind::kThread) header = &entry.thread->header;
  if (header == nullptr) return kObjectTypeMismatch;
  DispatcherHeader* const objects[] = {header};
  return wait_for_objects("ZwWaitForSingleObject", objects, false, timeout);
}

// --- EX_TIMER: a KTIMER with a DPC, allocated by the executive

using TimerCallback = void(DXGKIT_NT_ABI*)(void*, void*);
struct ExTimer {
  Ktimer timer{};  // first: the timer can be waited for
  Kdpc dpc{};
  TimerCallback callback = nullptr;
  void* context = nullptr;
};
constexpr uint32_t kHighResolution = 0x4, kNoWake = 0x8, kNotification = 0x80000000;
constexpr const char* kTimerKind = "executive timer";

DXGKIT_NT_ABI void run_timer_callback(Kdpc*, void* context, void*, void*) {
  auto& timer = *static_cast<ExTimer*>(context);
  call_driver("timer callback", timer.callback, context, timer.context);
}

DXGKIT_NT_ABI ExTimer* ex_allocate_timer(TimerCallback callback, void* context,
                                         uint32_t attributes) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ExAllocateTimer", kDispatchLevel);
  if ((attributes & ~(kHighResolution | kNoWake | kNotification)) != 0 ||
      (attributes & (kHighResolution | kNoWake)) == (kHighResolution | kNoWake)) {
    return nullptr;
  }
  if (frame.kernel().impl().allocation_fails("ExAllocateTimer")) return nullptr;
  auto timer = make_in<ExTimer>(frame.kernel().impl().heap);
  timer->callback = callback;
  timer->context = context;
  timer->timer.header.type =
      static_cast<uint8_t>((attributes & kNotification) != 0 ? ObjectType::kNotificationTimer
                                                             : ObjectType::kSynchronizationTimer);
  timer->timer.header.size = sizeof(Ktimer) / 4;
  timer->dpc.type = 0x13;
  timer->dpc.importance = 1;
  timer->dpc.routine = &run_timer_callback;
  timer->dpc.context = timer.get();
  ExTimer* const address = timer.get();
  Executive& state = executive_of(frame.kernel());
  runtime::MutexLock lock(state.lock);
  state.registrations.emplace(address,
                              Registration{kTimerKind, state.next_sequence++, std::move(timer)});
  return address;
}

void require_timer(const char* function, const void* timer) {
  Executive& state = executive();
  bool known = false;
  {
    runtime::MutexLock lock(state.lock);
    const auto found = state.registrations.find(timer);
    known = found != state.registrations.end() && found->second.kind == kTimerKind;
  }
  if (known) return;
  CallFrame::current().kernel().bug_check(
      "NT-31", function, 0xC7, static_cast<uint32_t>(reinterpret_cast<uint64_t>(timer)),
      fmt::format("{} is no timer of ExAllocateTimer.", timer),
      "A timer is used between ExAllocateTimer and ExDeleteTimer.", "Look for a use after delete.");
}

DXGKIT_NT_ABI uint8_t ex_set_timer(ExTimer* timer, int64_t due, int64_t period, const void*) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ExSetTimer", kDispatchLevel);
  require_timer("ExSetTimer", timer);
  return set_kernel_timer(frame.kernel(), timer->timer, due, std::max<int64_t>(period, 0) * 100,
                          timer->callback == nullptr ? nullptr : &timer->dpc)
             ? 1
             : 0;
}
DXGKIT_NT_ABI uint8_t ex_cancel_timer(ExTimer* timer, void*) {
  require_timer("ExCancelTimer", timer);
  return export_function<uint8_t DXGKIT_NT_ABI(Ktimer*)>("KeCancelTimer")(&timer->timer);
}
DXGKIT_NT_ABI uint8_t ex_delete_timer(ExTimer* timer, uint8_t cancel, uint8_t wait, const void*) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ExDeleteTimer", wait != 0 ? kApcLevel : kDispatchLevel);
  require_timer("ExDeleteTimer", timer);
  const uint8_t cancelled = ex_cancel_timer(timer, nullptr);
  if (cancel == 0 && cancelled != 0) {
    frame.kernel().violation(
        "NT-31", "ExDeleteTimer", "The timer is armed and not to be cancelled.",
        "A timer is deleted when it is not armed, or with Cancel set.", "Pass TRUE for Cancel.");
  }
  if (wait != 0) frame.kernel().flush_dpcs();
  Executive& state = executive_of(frame.kernel());
  runtime::MutexLock lock(state.lock);
  const auto found = state.registrations.find(timer);
  if (found == state.registrations.end()) return cancelled;
  // Its callback may run on another thread, so the memory is freed with the driver's last object.
  state.retired.push_back(std::move(found->second.storage));
  state.registrations.erase(found);
  return cancelled;
}

}  // namespace

std::span<const Export> lock_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("ExAcquireSpinLockExclusive", acquire_exclusive, kSupported, ""),
      DXGKIT_EXPORT("ExAcquireSpinLockExclusiveAtDpcLevel", acquire_exclusive_dpc, kSupported, ""),
      DXGKIT_EXPORT("ExAcquireSpinLockShared", acquire_shared, kSupported, ""),
      DXGKIT_EXPORT("ExAcquireSpinLockSharedAtDpcLevel", acquire_shared_dpc, kSupported, ""),
      DXGKIT_EXPORT("ExAllocateTimer", ex_allocate_timer, kPartial,
                    "attributes of resolution and wake have no effect"),
      DXGKIT_EXPORT("ExCancelTimer", ex_cancel_timer, kSupported, ""),
      DXGKIT_EXPORT("ExDeleteTimer", ex_delete_timer, kPartial, "no delete callback"),
      DXGKIT_EXPORT("ExReleaseSpinLockExclusive", release_exclusive, kSupported, ""),
      DXGKIT_EXPORT("ExReleaseSpinLockExclusiveFromDpcLevel", release_exclusive_dpc, kSupported,
                    ""),
      DXGKIT_EXPORT("ExReleaseSpinLockShared", release_shared, kSupported, ""),
      DXGKIT_EXPORT("ExReleaseSpinLockSharedFromDpcLevel", release_shared_dpc, kSupported, ""),
      DXGKIT_EXPORT("ExSetTimer", ex_set_timer, kPartial, "no tolerable delay"),
      DXGKIT_EXPORT("ExTryConvertSharedSpinLockExclusive", try_convert, kSupported, ""),
      DXGKIT_EXPORT("KeAcquireInStackQueuedSpinLock", acquire_queued, kSupported, ""),
      DXGKIT_EXPORT("KeAcquireInStackQueuedSpinLockAtDpcLevel", acquire_queued_dpc, kSupported, ""),
      DXGKIT_EXPORT("KeAcquireInStackQueuedSpinLockForDpc", acquire_queued, kSupported, ""),
      DXGKIT_EXPORT("KeAcquireSpinLockForDpc", acquire_for_dpc, kSupported, ""),
      DXGKIT_EXPORT("KeReleaseInStackQueuedSpinLock", release_queued, kSupported, ""),
      DXGKIT_EXPORT("KeReleaseInStackQueuedSpinLockForDpc", release_queued, kSupported, ""),
      DXGKIT_EXPORT("KeReleaseInStackQueuedSpinLockFromDpcLevel", release_queued_dpc, kSupported,
                    ""),
      DXGKIT_EXPORT("KeReleaseSpinLockForDpc", release_for_dpc, kSupported, ""),
      DXGKIT_EXPORT("KeTestSpinLock", test_spin_lock, kSupported, ""),
      DXGKIT_EXPORT("ZwClearEvent", zw_clear_event, kSupported, ""),
      DXGKIT_EXPORT("ZwCreateEvent", zw_create_event, kPartial, "events without a name"),
      DXGKIT_EXPORT("ZwResetEvent", zw_reset_event, kSupported, ""),
      DXGKIT_EXPORT("ZwSetEvent", zw_set_event, kSupported, ""),
      DXGKIT_EXPORT("ZwWaitForSingleObject", zw_wait_for_single_object, kPartial,
                    "never alertable: there are no APCs"),
  };
  return kTable;
}

}  // namespace dxgkit::nt
