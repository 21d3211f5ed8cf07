// A lock for short sections of observers: what only looks on must not change how threads take
// turns.
#pragma once

#include <atomic>

namespace dxgkit {

/// Unlike runtime::Mutex it is no scheduling point of a simulation, where all fibers share one OS
/// thread: a section that holds no scheduling point never meets contention there. Any thread, any
/// IRQL. Not recursive.
class SpinLock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) {
      while (held_.load(std::memory_order_relaxed)) __builtin_ia32_pause();
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace dxgkit
