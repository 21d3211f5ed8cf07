// Dispatcher objects, waits, spin locks, IRQL, interlocked lists.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "nt/executive.h"
#include "nt/thread_delay.h"

namespace dxgkit::nt {
namespace {

constexpr uint32_t kMaximumWaitObjects = 64;

uint64_t this_thread(CallFrame& frame) {
  return uint64_t{frame.kernel().runtime().thread_number()} + 1;
}

void initialize_header(DispatcherHeader& header, ObjectType type, uint8_t words, int32_t state) {
  header = {};
  header.type = static_cast<uint8_t>(type);
  header.size = words;
  header.signal_state = state;
  header.wait_list[0] = header.wait_list[1] = &header.wait_list;
}

bool is_signalled(const DispatcherHeader& header, uint64_t thread) {
  if (static_cast<ObjectType>(header.type) == ObjectType::kMutant && header.signal_state <= 0) {
    return reinterpret_cast<const Kmutant&>(header).owner == thread;
  }
  return header.signal_state > 0;
}

void consume(DispatcherHeader& header, uint64_t thread) {
  switch (static_cast<ObjectType>(header.type)) {
    case ObjectType::kSynchronizationEvent:
    case ObjectType::kSynchronizationTimer:
      header.signal_state = 0;
      break;
    case ObjectType::kSemaphore:
      --header.signal_state;
      break;
    case ObjectType::kMutant:
      --header.signal_state;
      reinterpret_cast<Kmutant&>(header).owner = thread;
      break;
    default:
      break;
  }
}

/// Takes the objects of the wait if it can be satisfied now. Dispatcher lock held.
bool try_satisfy(Waiter& waiter) {
  if (waiter.wait_all) {
    for (const DispatcherHeader* object : waiter.objects) {
      if (!is_signalled(*object, waiter.thread)) return false;
    }
    for (DispatcherHeader* object : waiter.objects) consume(*object, waiter.thread);
    waiter.satisfied_index = 0;
    return true;
  }
  for (size_t i = 0; i < waiter.objects.size(); ++i) {
    if (!is_signalled(*waiter.objects[i], waiter.thread)) continue;
    consume(*waiter.objects[i], waiter.thread);
    waiter.satisfied_index = static_cast<int32_t>(i);
    return true;
  }
  return false;
}

std::string describe_wait(Kernel& kernel, const Waiter& waiter) {
  std::string text;
  for (const DispatcherHeader* object : waiter.objects) {
    if (!text.empty()) text += waiter.wait_all ? " and " : " or ";
    text += describe_object(kernel, object);
  }
  return text;
}

}  // namespace

void release_waiters(Kernel& kernel) {
  Kernel::Impl& state = kernel.impl();
  for (auto it = state.waiters.begin(); it != state.waiters.end();) {
    Waiter& waiter = **it;
    if (!try_satisfy(waiter)) {
      ++it;
      continue;
    }
    it = state.waiters.erase(it);
    // The waiter leaves its stack frame only after it has taken the dispatcher lock, which we hold.
    waiter.woken.store(1, std::memory_order_release);
    kernel.runtime().wake_all(waiter.woken);
  }
}

runtime::TimeNs deadline_of(Kernel& kernel, const int64_t* timeout) {
  return deadline_of(kernel.runtime().now(), timeout);
}

int32_t wait_for_objects(const char* function, std::span<DispatcherHeader* const> objects,
                         bool wait_all, const int64_t* timeout) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  Kernel::Impl& state = kernel.impl();
  const bool polls = timeout != nullptr && *timeout == 0;
  if (polls) {
    require_irql(frame, function, kDispatchLevel);
  } else if (frame.irql() >= kDispatchLevel) {
    kernel.violation("NT-17", function,
                     fmt::format("{} waits at {}.", function, irql_name(frame.irql())),
                     "A wait with a timeout other than zero is made below DISPATCH_LEVEL.",
                     "Wait in a thread, or poll with a zero timeout.");
  }
  const runtime::TimeNs deadline = polls ? 0 : deadline_of(kernel, timeout);
  Waiter waiter;
  waiter.objects = objects;
  waiter.wait_all = wait_all;
  waiter.thread = this_thread(frame);
  if (state.ending.load(std::memory_order_relaxed) != 0) frame.abandon();
  // The objects are touched under the lock, and they may be no memory.
  std::list<Waiter*>::iterator position;
  bool waits = false;
  {
    runtime::MutexLock lock(state.dispatcher_lock);
    waits = !try_satisfy(waiter);
    if (waits && !polls) position = state.waiters.insert(state.waiters.end(), &waiter);
  }
  if (!waits) return wait_all ? ntstatus::kSuccess : waiter.satisfied_index;
  if (polls) {
    // A driver that polls in a loop must not keep a simulation from going on.
    kernel.runtime().yield();
    return ntstatus::kTimeout;
  }
  {
    const runtime::TimeNs hangs = hang_deadline(frame);
    {
      const WaitingCalls::Scope waits_here(state.waiting_calls, frame);
      while (waiter.woken.load(std::memory_order_acquire) == 0) {
        if (kernel.runtime().wait(waiter.woken, 0, std::min(deadline, hangs)) ==
            runtime::WaitResult::kTimedOut)
          break;
      }
    }
    uint32_t woken = 0;
    {
      runtime::MutexLock lock(state.dispatcher_lock);
      woken = waiter.woken.load(std::memory_order_relaxed);
      if (woken == 0) state.waiters.erase(position);
    }
    if (woken == 2) frame.abandon();
    if (woken == 0) {
      if (hangs < deadline) report_wait(frame, function, describe_wait(kernel, waiter));
      return ntstatus::kTimeout;
    }
  }
  // Other threads come first: what they do must not depend on this one being quick.
  const runtime::DurationNs late = state.thread_delay.load(std::memory_order_relaxed);
  if (late != 0 && std::string_view(frame.name()) == kSystemThread) {
    kernel.runtime().sleep_until(kernel.runtime().now() + late);
    if (state.ending.load(std::memory_order_relaxed) != 0) frame.abandon();
  }
  return wait_all ? ntstatus::kSuccess : waiter.satisfied_index;
}

void set_thread_delay(Kernel& kernel, runtime::DurationNs delay_ns) {
  kernel.impl().thread_delay.store(delay_ns, std::memory_order_relaxed);
}

void abandon_waiters(Kernel& kernel) {
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.dispatcher_lock);
  state.ending.store(1);
  for (Waiter* waiter : state.waiters) {
    waiter->woken.store(2, std::memory_order_release);
    kernel.runtime().wake_all(waiter->woken);
  }
  state.waiters.clear();
  if (state.word_waiters.load() != 0) kernel.runtime().wake_all(state.ending);
}

int32_t set_event(Kernel& kernel, Kevent& event) {
  runtime::MutexLock lock(kernel.impl().dispatcher_lock);
  const int32_t old = event.header.signal_state;
  event.header.signal_state = 1;
  release_waiters(kernel);
  return old;
}

namespace {

// --- events, semaphores, mutexes

/// NT-35, for events: memory of zeros looks like one but for its list.
void require_initialized(CallFrame& frame, const char* function, const DispatcherHeader& header) {
  const auto type = static_cast<ObjectType>(header.type);
  const bool event =
      type == ObjectType::kNotificationEvent || type == ObjectType::kSynchronizationEvent;
  if (!event || header.wait_list[0] != nullptr) return;
  frame.kernel().violation(
      "NT-35", function,
      fmt::format("{} was given the event at {}, which was never initialised.", function,
                  static_cast<const void*>(&header)),
      "KeInitializeEvent makes memory an event before anything else is done with it.",
      "Initialise it where the structure that it lies in is made.");
}

DXGKIT_NT_ABI void ke_initialize_event(Kevent* event, uint32_t type, uint8_t state) {
  if (type > 1) {
    CallFrame::current().kernel().violation(
        "NT-35", "KeInitializeEvent", fmt::format("Type is {}.", type),
        "NotificationEvent (0) or SynchronizationEvent (1).", "Name one of the two.");
  }
  initialize_header(event->header,
                    type == 0 ? ObjectType::kNotificationEvent : ObjectType::kSynchronizationEvent,
                    sizeof(Kevent) / 4, state != 0 ? 1 : 0);
}

DXGKIT_NT_ABI int32_t ke_set_event(Kevent* event, int32_t, uint8_t) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KeSetEvent", kDispatchLevel);
  require_initialized(frame, "KeSetEvent", event->header);
  return set_event(frame.kernel(), *event);
}

DXGKIT_NT_ABI int32_t ke_reset_event(Kevent* event) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KeResetEvent", kDispatchLevel);
  runtime::MutexLock lock(frame.kernel().impl().dispatcher_lock);
  return std::exchange(event->header.signal_state, 0);
}

DXGKIT_NT_ABI void ke_clear_event(Kevent* event) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KeClearEvent", kDispatchLevel);
  runtime::MutexLock lock(frame.kernel().impl().dispatcher_lock);
  event->header.signal_state = 0;
}

DXGKIT_NT_ABI int32_t ke_read_state_event(Kevent* event) {
  runtime::MutexLock lock(CallFrame::current().kernel().impl().dispatcher_lock);
  return event->header.signal_state;
}

DXGKIT_NT_ABI void ke_initialize_semaphore(Ksemaphore* semaphore, int32_t count, int32_t limit) {
  initialize_header(semaphore->header, ObjectType::kSemaphore, sizeof(Ksemaphore) / 4, count);
  semaphore->limit = limit;
}

DXGKIT_NT_ABI int32_t ke_release_semaphore(Ksemaphore* semaphore, int32_t, int32_t adjustment,
                                           uint8_t) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KeReleaseSemaphore", kDispatchLevel);
  Kernel& kernel = frame.kernel();
  int32_t old = 0;
  {
    runtime::MutexLock lock(kernel.impl().dispatcher_lock);
    old = semaphore->header.signal_state;
    if (adjustment > 0 && old <= semaphore->limit - adjustment) {
      semaphore->header.signal_state = old + adjustment;
      release_waiters(kernel);
      return old;
    }
  }
  kernel.bug_check(
      "NT-30", "KeReleaseSemaphore", 0x1E, 0xC0000047,
      fmt::format("The count would go from {} past its limit {}.", old, semaphore->limit),
      "A semaphore is released at most to its limit.", "Release only what was taken.");
}

DXGKIT_NT_ABI void ke_initialize_mutex(Kmutant* mutex, uint32_t) {
  *mutex = {};
  initialize_header(mutex->header, ObjectType::kMutant, sizeof(Kmutant) / 4, 1);
}

DXGKIT_NT_ABI int32_t ke_release_mutex(Kmutant* mutex, uint8_t) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  require_irql(frame, "KeReleaseMutex", kDispatchLevel);
  {
    runtime::MutexLock lock(kernel.impl().dispatcher_lock);
    if (mutex->owner == this_thread(frame)) {
      const int32_t old = mutex->header.signal_state++;
      if (mutex->header.signal_state == 1) {
        mutex->owner = 0;
        release_waiters(kernel);
      }
      return old;
    }
  }
  kernel.bug_check("NT-30", "KeReleaseMutex", 0x1E, 0xC0000046,
                   "The calling thread does not own the mutex.", "The owner releases.",
                   "Pair waits and releases in one thread.");
}

/// NT-40.
void judge_wait_reason(const char* function, uint32_t reason) {
  constexpr uint32_t kExecutive = 0, kUserRequest = 6;
  if (reason == kExecutive || reason == kUserRequest) return;
  CallFrame::current().kernel().violation(
      "NT-40", function, fmt::format("WaitReason is {}.", reason),
      "Executive (0), or UserRequest (6) in work for a user, in that user's thread.",
      "Name one of the two.");
}

DXGKIT_NT_ABI int32_t ke_wait_for_single_object(DispatcherHeader* object, uint32_t reason, uint8_t,
                                                uint8_t, const int64_t* timeout) {
  judge_wait_reason("KeWaitForSingleObject", reason);
  require_initialized(CallFrame::current(), "KeWaitForSingleObject", *object);
  DispatcherHeader* const objects[] = {object};
  return wait_for_objects("KeWaitForSingleObject", objects, false, timeout);
}

DXGKIT_NT_ABI int32_t ke_wait_for_multiple_objects(uint32_t count, DispatcherHeader* const* objects,
                                                   uint32_t type, uint32_t reason, uint8_t,
                                                   uint8_t, const int64_t* timeout, void*) {
  judge_wait_reason("KeWaitForMultipleObjects", reason);
  if (count == 0 || count > kMaximumWaitObjects) return ntstatus::kInvalidParameter;
  return wait_for_objects("KeWaitForMultipleObjects", {objects, count}, type == 0, timeout);
}

// --- fast mutexes: a futex word in Count, as drivers initialise it inline

std::atomic<uint32_t>& word_of(int32_t* count) {
  return *reinterpret_cast<std::atomic<uint32_t>*>(count);
}
constexpr uint32_t kFree = 1, kHeld = 0, kContended = UINT32_MAX;

DXGKIT_NT_ABI void ex_initialize_fast_mutex(FastMutex* mutex) {
  *mutex = {};
  mutex->count = 1;
  ke_initialize_event(&mutex->event, 1, 0);
}

void acquire_fast_mutex(const char* function, FastMutex* mutex, Irql raise_to) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kApcLevel);
  const uint64_t self = this_thread(frame);
  std::atomic<uint32_t>& word = word_of(&mutex->count);
  uint32_t expected = kFree;
  if (!word.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) {
    if (__atomic_load_n(&mutex->owner, __ATOMIC_RELAXED) == self) {
      frame.kernel().bug_check(
          "NT-30", function, 0xBE, 0, "The calling thread owns this fast mutex already.",
          "Fast mutexes are not recursive.", "Restructure the code so that it is taken once.");
    }
    const runtime::TimeNs hangs = hang_deadline(frame);
    while (word.exchange(kContended, std::memory_order_acquire) != kFree) {
      if (wait_for_word(frame, word, kContended, hangs)) continue;
      const uint64_t owner = __atomic_load_n(&mutex->owner, __ATOMIC_RELAXED);
      report_wait(frame, function,
                  fmt::format("fast mutex {}, held by {}", static_cast<const void*>(mutex),
                              owner_name(frame.kernel(), owner)));
    }
  }
  __atomic_store_n(&mutex->owner, self, __ATOMIC_RELAXED);
  mutex->old_irql = frame.raise(raise_to);
}

void release_fast_mutex(const char* function, FastMutex* mutex, bool lower) {
  CallFrame& frame = CallFrame::current();
  if (mutex->owner != this_thread(frame)) {
    frame.kernel().bug_check("NT-30", function, 0x1E, 0xC0000046,
                             "The calling thread does not own the fast mutex.",
                             "The owner releases.", "Pair acquire and release in one thread.");
  }
  const Irql old = static_cast<Irql>(mutex->old_irql);
  __atomic_store_n(&mutex->owner, uint64_t{0}, __ATOMIC_RELAXED);
  std::atomic<uint32_t>& word = word_of(&mutex->count);
  if (word.exchange(kFree, std::memory_order_release) == kContended)
    frame.kernel().runtime().wake_one(word);
  if (lower) frame.lower(old);
}

DXGKIT_NT_ABI void ex_acquire_fast_mutex(FastMutex* mutex) {
  acquire_fast_mutex("ExAcquireFastMutex", mutex, kApcLevel);
}
DXGKIT_NT_ABI void ex_release_fast_mutex(FastMutex* mutex) {
  release_fast_mutex("ExReleaseFastMutex", mutex, true);
}
DXGKIT_NT_ABI void ex_acquire_fast_mutex_unsafe(FastMutex* mutex) {
  acquire_fast_mutex("ExAcquireFastMutexUnsafe", mutex, kPassiveLevel);
}
DXGKIT_NT_ABI void ex_release_fast_mutex_unsafe(FastMutex* mutex) {
  release_fast_mutex("ExReleaseFastMutexUnsafe", mutex, false);
}
DXGKIT_NT_ABI uint8_t ex_try_to_acquire_fast_mutex(FastMutex* mutex) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ExTryToAcquireFastMutex", kApcLevel);
  uint32_t expected = kFree;
  if (!word_of(&mutex->count).compare_exchange_strong(expected, kHeld, std::memory_order_acquire))
    return 0;
  __atomic_store_n(&mutex->owner, this_thread(frame), __ATOMIC_RELAXED);
  mutex->old_irql = frame.raise(kApcLevel);
  return 1;
}

// --- spin locks: word 0 free, 1 held, 2 held with waiters; the upper half names the owner

struct SpinLock {
  uint32_t word;
  uint32_t owner;
};
static_assert(sizeof(SpinLock) == 8);

void acquire_spin_lock(CallFrame& frame, const char* function, SpinLock* lock) {
  const uint32_t self = static_cast<uint32_t>(this_thread(frame));
  auto& word = *reinterpret_cast<std::atomic<uint32_t>*>(&lock->word);
  uint32_t expected = 0;
  if (!word.compare_exchange_strong(expected, 1, std::memory_order_acquire)) {
    if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == self) {
      std::string actual =
          "The calling thread holds this spin lock already: on one processor it would spin for "
          "ever.";
      if (const CallFrame::HeldLock* const held = frame.held_lock(lock)) {
        actual += fmt::format(" It was acquired at {}.",
                              to_text(frame.kernel(), {held->caller, held->ddi}));
      }
      frame.kernel().bug_check("NT-16", function, 0xF, 0, std::move(actual),
                               "Spin locks are not recursive.",
                               "Restructure the code so that it is taken once.");
    }
    const runtime::TimeNs hangs = hang_deadline(frame);
    while (word.exchange(2, std::memory_order_acquire) != 0) {
      if (wait_for_word(frame, word, 2, hangs)) continue;
      const uint64_t owner = __atomic_load_n(&lock->owner, __ATOMIC_RELAXED);
      report_wait(frame, function,
                  fmt::format("spin lock {}, held by {}", static_cast<const void*>(lock),
                              owner_name(frame.kernel(), owner)));
    }
  }
  __atomic_store_n(&lock->owner, self, __ATOMIC_RELAXED);
  frame.hold_spin_lock(lock);
}

void release_spin_lock(CallFrame& frame, const char* function, SpinLock* lock) {
  if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) !=
      static_cast<uint32_t>(this_thread(frame))) {
    frame.kernel().bug_check(
        "NT-16", function, 0x10, 0, "The calling thread does not hold this spin lock.",
        "The thread that acquired a spin lock releases it.", "Pair acquire and release.");
  }
  __atomic_store_n(&lock->owner, 0U, __ATOMIC_RELAXED);
  frame.drop_spin_lock(lock);
  auto& word = *reinterpret_cast<std::atomic<uint32_t>*>(&lock->word);
  if (word.exchange(0, std::memory_order_release) == 2) frame.kernel().runtime().wake_one(word);
}

DXGKIT_NT_ABI void ke_initialize_spin_lock(SpinLock* lock) { *lock = {}; }

DXGKIT_NT_ABI Irql ke_acquire_spin_lock_raise_to_dpc(SpinLock* lock) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KeAcquireSpinLockRaiseToDpc", kDispatchLevel);
  const Irql old = frame.raise(kDispatchLevel);
  acquire_spin_lock(frame, "KeAcquireSpinLockRaiseToDpc", lock);
  return old;
}
DXGKIT_NT_ABI void ke_acquire_spin_lock(SpinLock* lock, Irql* old) {
  *old = ke_acquire_spin_lock_raise_to_dpc(lock);
}

DXGKIT_NT_ABI void ke_release_spin_lock(SpinLock* lock, Irql irql) {
  CallFrame& frame = CallFrame::current();
  release_spin_lock(frame, "KeReleaseSpinLock", lock);
  frame.lower(irql);
}

DXGKIT_NT_ABI void ke_acquire_spin_lock_at_dpc_level(SpinLock* lock) {
  CallFrame& frame = CallFrame::current();
  if (frame.irql() < kDispatchLevel && !frame.irql_was_reported())
    report_irql(frame, "KeAcquireSpinLockAtDpcLevel", kDispatchLevel, kHighLevel);
  acquire_spin_lock(frame, "KeAcquireSpinLockAtDpcLevel", lock);
}
DXGKIT_NT_ABI void ke_release_spin_lock_from_dpc_level(SpinLock* lock) {
  release_spin_lock(CallFrame::current(), "KeReleaseSpinLockFromDpcLevel", lock);
}

DXGKIT_NT_ABI uint8_t ke_try_to_acquire_spin_lock_at_dpc_level(SpinLock* lock) {
  CallFrame& frame = CallFrame::current();
  uint32_t expected = 0;
  if (!reinterpret_cast<std::atomic<uint32_t>*>(&lock->word)
           ->compare_exchange_strong(expected, 1, std::memory_order_acquire)) {
    return 0;
  }
  __atomic_store_n(&lock->owner, static_cast<uint32_t>(this_thread(frame)), __ATOMIC_RELAXED);
  frame.hold_spin_lock(lock);
  return 1;
}

// --- guarded mutexes: fast mutexes that leave the level alone

DXGKIT_NT_ABI void ke_acquire_guarded_mutex(FastMutex* mutex) {
  acquire_fast_mutex("KeAcquireGuardedMutex", mutex, kPassiveLevel);
}
DXGKIT_NT_ABI void ke_release_guarded_mutex(FastMutex* mutex) {
  release_fast_mutex("KeReleaseGuardedMutex", mutex, false);
}
DXGKIT_NT_ABI uint8_t ke_try_to_acquire_guarded_mutex(FastMutex* mutex) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KeTryToAcquireGuardedMutex", kApcLevel);
  uint32_t expected = kFree;
  if (!word_of(&mutex->count).compare_exchange_strong(expected, kHeld, std::memory_order_acquire))
    return 0;
  __atomic_store_n(&mutex->owner, this_thread(frame), __ATOMIC_RELAXED);
  mutex->old_irql = frame.irql();
  return 1;
}

DXGKIT_NT_ABI int32_t ke_read_state(const DispatcherHeader* header) {
  runtime::MutexLock lock(CallFrame::current().kernel().impl().dispatcher_lock);
  return header->signal_state;
}
/// Releases the present waiters, then resets the signal.
DXGKIT_NT_ABI int32_t ke_pulse_event(Kevent* event, int32_t, uint8_t) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "KePulseEvent", kDispatchLevel);
  runtime::MutexLock lock(frame.kernel().impl().dispatcher_lock);
  const int32_t old = event->header.signal_state;
  event->header.signal_state = 1;
  release_waiters(frame.kernel());
  event->header.signal_state = 0;
  return old;
}

DXGKIT_NT_ABI Irql ke_get_current_irql() { return CallFrame::current().irql(); }

DXGKIT_NT_ABI Irql kf_raise_irql(Irql irql) {
  CallFrame& frame = CallFrame::current();
  if (irql < frame.irql()) {
    frame.kernel().bug_check(
        "IRQL-12", "KeRaiseIrql", 0x9, irql,
        fmt::format("A raise from {} to {}.", irql_name(frame.irql()), irql_name(irql)),
        "KeRaiseIrql never lowers.", "Use KeLowerIrql with the saved level.");
  }
  return frame.raise(irql);
}
DXGKIT_NT_ABI void ke_raise_irql(Irql irql, Irql* old) { *old = kf_raise_irql(irql); }
DXGKIT_NT_ABI Irql ke_raise_irql_to_dpc_level() { return kf_raise_irql(kDispatchLevel); }
DXGKIT_NT_ABI void ke_lower_irql(Irql irql) {
  CallFrame& frame = CallFrame::current();
  if (irql > frame.irql()) {
    frame.kernel().bug_check(
        "IRQL-12", "KeLowerIrql", 0xA, irql,
        fmt::format("A lowering from {} to {}.", irql_name(frame.irql()), irql_name(irql)),
        "KeLowerIrql never raises.", "Pair it with KeRaiseIrql.");
  }
  frame.lower(irql);
}

// --- interlocked lists, under the caller's spin lock, any IRQL

DXGKIT_NT_ABI ListEntry* ex_interlocked_insert_tail_list(ListEntry* head, ListEntry* entry,
                                                         SpinLock* lock) {
  CallFrame& frame = CallFrame::current();
  acquire_spin_lock(frame, "ExInterlockedInsertTailList", lock);
  ListEntry* const last = head->previous;
  entry->next = head;
  entry->previous = last;
  last->next = entry;
  head->previous = entry;
  release_spin_lock(frame, "ExInterlockedInsertTailList", lock);
  return last == head ? nullptr : last;
}

DXGKIT_NT_ABI ListEntry* ex_interlocked_insert_head_list(ListEntry* head, ListEntry* entry,
                                                         SpinLock* lock) {
  CallFrame& frame = CallFrame::current();
  acquire_spin_lock(frame, "ExInterlockedInsertHeadList", lock);
  ListEntry* const first = head->next;
  entry->next = first;
  entry->previous = head;
  first->previous = entry;
  head->next = entry;
  release_spin_lock(frame, "ExInterlockedInsertHeadList", lock);
  return first == head ? nullptr : first;
}

DXGKIT_NT_ABI ListEntry* ex_interlocked_remove_head_list(ListEntry* head, SpinLock* lock) {
  CallFrame& frame = CallFrame::current();
  acquire_spin_lock(frame, "ExInterlockedRemoveHeadList", lock);
  ListEntry* const first = head->next;
  if (first != head) {
    head->next = first->next;
    first->next->previous = head;
  }
  release_spin_lock(frame, "ExInterlockedRemoveHeadList", lock);
  return first == head ? nullptr : first;
}

// --- critical regions: APCs do not exist here, so there is nothing to keep out

DXGKIT_NT_ABI void ke_enter_critical_region() {}
DXGKIT_NT_ABI void ke_leave_critical_region() {}
DXGKIT_NT_ABI void ke_memory_barrier() { std::atomic_thread_fence(std::memory_order_seq_cst); }
DXGKIT_NT_ABI uint8_t ke_invalidate_all_caches() {
  std::atomic_thread_fence(
      std::memory_order_seq_cst);  // one coherent machine: a barrier is all there is to do
  return 1;
}

}  // namespace

void acquire_driver_spin_lock(const char* function, uint64_t* lock) {
  required(function, "SpinLock", lock);
  acquire_spin_lock(CallFrame::current(), function, reinterpret_cast<SpinLock*>(lock));
}
void release_driver_spin_lock(const char* function, uint64_t* lock) {
  required(function, "SpinLock", lock);
  release_spin_lock(CallFrame::current(), function, reinterpret_cast<SpinLock*>(lock));
}

std::span<const Export> sync_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("ExAcquireFastMutex", ex_acquire_fast_mutex, kSupported, ""),
      DXGKIT_EXPORT("ExAcquireFastMutexUnsafe", ex_acquire_fast_mutex_unsafe, kSupported, ""),
      DXGKIT_EXPORT("ExInitializeFastMutex", ex_initialize_fast_mutex, kSupported, ""),
      DXGKIT_EXPORT("ExInterlockedInsertHeadList", ex_interlocked_insert_head_list, kSupported, ""),
      DXGKIT_EXPORT("ExInterlockedInsertTailList", ex_interlocked_insert_tail_list, kSupported, ""),
      DXGKIT_EXPORT("ExInterlockedRemoveHeadList", ex_interlocked_remove_head_list, kSupported, ""),
      DXGKIT_EXPORT("ExReleaseFastMutex", ex_release_fast_mutex, kSupported, ""),
      DXGKIT_EXPORT("ExReleaseFastMutexUnsafe", ex_release_fast_mutex_unsafe, kSupported, ""),
      DXGKIT_EXPORT("ExTryToAcquireFastMutex", ex_try_to_acquire_fast_mutex, kSupported, ""),
      DXGKIT_EXPORT("KeAcquireGuardedMutex", ke_acquire_guarded_mutex, kSupported, ""),
      DXGKIT_EXPORT("KeAcquireGuardedMutexUnsafe", ke_acquire_guarded_mutex, kSupported, ""),
      DXGKIT_EXPORT("KeEnterGuardedRegion", ke_enter_critical_region, kPartial,
                    "there are no APCs to keep out"),
      DXGKIT_EXPORT("KeInitializeGuardedMutex", ex_initialize_fast_mutex, kSupported, ""),
      DXGKIT_EXPORT("KeLeaveGuardedRegion", ke_leave_critical_region, kPartial,
                    "there are no APCs to keep out"),
      DXGKIT_EXPORT("KePulseEvent", ke_pulse_event, kSupported, ""),
      DXGKIT_EXPORT("KeReadStateMutex", ke_read_state, kSupported, ""),
      DXGKIT_EXPORT("KeReadStateSemaphore", ke_read_state, kSupported, ""),
      DXGKIT_EXPORT("KeReleaseGuardedMutex", ke_release_guarded_mutex, kSupported, ""),
      DXGKIT_EXPORT("KeReleaseGuardedMutexUnsafe", ke_release_guarded_mutex, kSupported, ""),
      DXGKIT_EXPORT("KeTryToAcquireGuardedMutex", ke_try_to_acquire_guarded_mutex, kSupported, ""),
      DXGKIT_EXPORT("KeWaitForMutexObject", ke_wait_for_single_object, kPartial,
                    "never alertable: there are no APCs"),
      DXGKIT_EXPORT("KeAcquireSpinLock", ke_acquire_spin_lock, kSupported, ""),
      DXGKIT_EXPORT("KeAcquireSpinLockAtDpcLevel", ke_acquire_spin_lock_at_dpc_level, kSupported,
                    ""),
      DXGKIT_EXPORT("KeAcquireSpinLockRaiseToDpc", ke_acquire_spin_lock_raise_to_dpc, kSupported,
                    ""),
      DXGKIT_EXPORT("KeClearEvent", ke_clear_event, kSupported, ""),
      DXGKIT_EXPORT("KeEnterCriticalRegion", ke_enter_critical_region, kPartial,
                    "there are no APCs to keep out"),
      DXGKIT_EXPORT("KeGetCurrentIrql", ke_get_current_irql, kSupported, ""),
      DXGKIT_EXPORT("KeInitializeEvent", ke_initialize_event, kSupported, ""),
      DXGKIT_EXPORT("KeInitializeMutex", ke_initialize_mutex, kSupported, ""),
      DXGKIT_EXPORT("KeInitializeSemaphore", ke_initialize_semaphore, kSupported, ""),
      DXGKIT_EXPORT("KeInitializeSpinLock", ke_initialize_spin_lock, kSupported, ""),
      DXGKIT_EXPORT("KeInvalidateAllCaches", ke_invalidate_all_caches, kPartial,
                    "a memory barrier"),
      DXGKIT_EXPORT("KeLeaveCriticalRegion", ke_leave_critical_region, kPartial,
                    "there are no APCs to keep out"),
      DXGKIT_EXPORT("KeLowerIrql", ke_lower_irql, kSupported, ""),
      DXGKIT_EXPORT("KeMemoryBarrier", ke_memory_barrier, kSupported, ""),
      DXGKIT_EXPORT("KeRaiseIrqlToDpcLevel", ke_raise_irql_to_dpc_level, kSupported, ""),
      DXGKIT_EXPORT("KeReadStateEvent", ke_read_state_event, kSupported, ""),
      DXGKIT_EXPORT("KeReleaseMutex", ke_release_mutex, kSupported, ""),
      DXGKIT_EXPORT("KeReleaseSemaphore", ke_release_semaphore, kSupported, ""),
      DXGKIT_EXPORT("KeReleaseSpinLock", ke_release_spin_lock, kSupported, ""),
      DXGKIT_EXPORT("KeReleaseSpinLockFromDpcLevel", ke_release_spin_lock_from_dpc_level,
                    kSupported, ""),
      DXGKIT_EXPORT("KeResetEvent", ke_reset_event, kSupported, ""),
      DXGKIT_EXPORT("KeSetEvent", ke_set_event, kSupported, ""),
      DXGKIT_EXPORT("KeTryToAcquireSpinLockAtDpcLevel", ke_try_to_acquire_spin_lock_at_dpc_level,
                    kSupported, ""),
      DXGKIT_EXPORT("KeWaitForMultipleObjects", ke_wait_for_multiple_objects, kPartial,
                    "never alertable: there are no APCs"),
      DXGKIT_EXPORT("KeWaitForSingleObject", ke_wait_for_single_object, kPartial,
                    "never alertable: there are no APCs"),
      DXGKIT_EXPORT("KfRaiseIrql", kf_raise_irql, kSupported, ""),
      DXGKIT_EXPORT("KeRaiseIrql", ke_raise_irql, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
