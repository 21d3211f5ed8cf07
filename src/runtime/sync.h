// Mutex and Event over Runtime's futex-class wait: the same code in os and sim mode.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "runtime/runtime.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::runtime {

namespace detail {
/// Where a simulation may switch to another thread.
inline void interleave() {
  if (t_simulation != nullptr) [[unlikely]]
    t_simulation->interleave();
}
}  // namespace detail

/// A mutual exclusion lock. Not recursive. In sim each lock and unlock may switch to another
/// thread.
class DXGKIT_CAPABILITY("mutex") Mutex {
 public:
  void lock() DXGKIT_ACQUIRE() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
    if (!try_lock()) [[unlikely]]
      wait_for_turn();
  }
  bool try_lock() DXGKIT_TRY_ACQUIRE(true) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
    detail::interleave();
    uint32_t expected = kUnlocked;
    return state_.compare_exchange_strong(expected, kLocked, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  /// The next holder may destroy the mutex: unlock touches no memory of it once it is free.
  void unlock() DXGKIT_RELEASE() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
    const uint32_t before = state_.exchange(kUnlocked, std::memory_order_release);
    if (before != kLocked) [[unlikely]]
      wake_next(before);
    detail::interleave();
  }

 private:
  static constexpr uint32_t kUnlocked = 0, kLocked = 1, kContended = 2;  // held with waiters
  void wait_for_turn();
  /// It is unlocked already, and may be gone: only its address is used. Aborts unless it was held.
  void wake_next(uint32_t before);

  std::atomic<uint32_t> state_{kUnlocked};
};

/// Holds a mutex for a scope. The locks of a thread form a list, so that code which leaves scopes
/// without their destructors can release what they hold.
class DXGKIT_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) DXGKIT_ACQUIRE(mutex)
      : mutex_(mutex), slots_(detail::t_thread_slots) {
    mutex_.lock();
    if (slots_ != nullptr) outer_ = std::exchange(slots_[kSlot], this);
  }
  ~MutexLock() DXGKIT_RELEASE() {
    if (slots_ != nullptr) slots_[kSlot] = outer_;
    mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  /// Releases the calling thread's locks whose scopes lie on the stack below `limit`: a jump over
  /// them follows, and their destructors will not run.
  static void release_below(const void* limit) DXGKIT_NO_THREAD_SAFETY_ANALYSIS;

 private:
  static constexpr auto kSlot = static_cast<size_t>(ThreadSlot::kLocks);

  Mutex& mutex_;
  void** const slots_;
  void* outer_ = nullptr;
};

/// Manual-reset event.
class Event {
 public:
  void set();
  void reset();
  bool is_set() const { return state_.load(std::memory_order_acquire) != 0; }
  /// kTimedOut if `deadline` passed first.
  WaitResult wait(TimeNs deadline = kForever);

 private:
  std::atomic<uint32_t> state_{0};
};

}  // namespace dxgkit::runtime
