// Mutex and Event over Runtime's futex-class wait: the same code in os and sim mode.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/runtime.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::runtime {

/// A mutual exclusion lock. Not recursive. In sim each lock and unlock may switch to another
/// thread.
class DXGKIT_CAPABILITY("mutex") Mutex {
 public:
  void lock() DXGKIT_ACQUIRE() DXGKIT_NO_THREAD_SAFETY_ANALYSIS;
  bool try_lock() DXGKIT_TRY_ACQUIRE(true) DXGKIT_NO_THREAD_SAFETY_ANALYSIS;
  /// The next holder may destroy the mutex: unlock touches no memory of it once it is free.
  void unlock() DXGKIT_RELEASE() DXGKIT_NO_THREAD_SAFETY_ANALYSIS;

 private:
  std::atomic<uint32_t> state_{0};  // 0 free, 1 held, 2 held with waiters
};

class DXGKIT_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) DXGKIT_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() DXGKIT_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
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
