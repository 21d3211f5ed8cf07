// A lock for short sections of observers: what only looks on must not change how threads take
// turns.
#pragma once

#include <atomic>

namespace dxgkit {

/// Unlike runtime::Mutex it is no scheduling point of a simulation, where all fibers share one OS
/// thread: a section that holds no scheduling point never meets contention there. Any thread, any
/// IRQL. Not recursive. Costs two atomic exchanges when nobody contends. Who waits for longer than
/// a short section takes sleeps: its holder may need the processor on which it would spin, and with
/// real-time priorities would never get it.
class SpinLock {
 public:
  void lock() {
    for (int spins = 0; spins < kSpins; ++spins) {
      State expected = State::kFree;
      if (state_.load(std::memory_order_relaxed) == State::kFree &&
          state_.compare_exchange_strong(expected, State::kHeld, std::memory_order_acquire)) {
        return;
      }
      __builtin_ia32_pause();
    }
    while (state_.exchange(State::kAwaited, std::memory_order_acquire) != State::kFree) {
      state_.wait(State::kAwaited, std::memory_order_relaxed);
    }
  }
  void unlock() {
    if (state_.exchange(State::kFree, std::memory_order_release) == State::kAwaited) {
      state_.notify_one();
    }
  }

 private:
  // One to three microseconds: a waiter that sleeps costs its holder about as much.
  static constexpr int kSpins = 64;
  // Of the size that a futex has. kAwaited: perhaps somebody sleeps.
  enum class State : int { kFree, kHeld, kAwaited };

  std::atomic<State> state_{State::kFree};
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
