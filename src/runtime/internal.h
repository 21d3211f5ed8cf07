// Shared by the files of src/runtime. No other module includes it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "runtime/runtime.h"
#include "runtime/sync.h"

namespace dxgkit::runtime {

/// The runtime that the calling OS thread belongs to; Runtime::current reads it.
extern constinit thread_local Runtime* t_runtime;

/// splitmix64 to spread a seed, xoshiro256++ to draw. Both are published, public-domain algorithms.
class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9E3779B97F4A7C15u;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
      word = z ^ (z >> 31);
    }
  }
  uint64_t next() {
    const uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }
  /// Uniform in [0, bound). `bound` is > 0 and small beside 2^32, so the bias is too small to
  /// matter for a schedule.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }

 private:
  static constexpr uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

/// Timers of one runtime. One thread, started by the first arm, runs the callbacks in the order of
/// their due times. The same code serves os and sim. `spawn_service` makes a thread that run_main
/// does not wait for.
class TimerQueue {
 public:
  using SpawnService = std::function<std::unique_ptr<Thread>(std::function<void()>)>;
  TimerQueue(Runtime& runtime, SpawnService spawn_service)
      : runtime_(runtime), spawn_service_(std::move(spawn_service)) {}
  ~TimerQueue();
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  std::unique_ptr<Timer> make(std::function<void()> callback);
  /// Ends the thread. Armed timers stay armed, and run only if another timer is armed later.
  void stop();

 private:
  class QueuedTimer;
  using Key = std::pair<TimeNs, uint64_t>;  // due, then order of arming

  void serve();
  bool disarm(QueuedTimer& timer) DXGKIT_REQUIRES(mutex_);

  Runtime& runtime_;
  SpawnService spawn_service_;
  Mutex mutex_;
  std::map<Key, QueuedTimer*> armed_ DXGKIT_GUARDED_BY(mutex_);
  uint64_t next_sequence_ DXGKIT_GUARDED_BY(mutex_) = 0;
  QueuedTimer* running_ DXGKIT_GUARDED_BY(mutex_) = nullptr;
  bool stopping_ DXGKIT_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Thread> thread_ DXGKIT_GUARDED_BY(mutex_);
  uint32_t thread_number_ DXGKIT_GUARDED_BY(mutex_) = UINT32_MAX;
  std::atomic<uint32_t> changed_{0};  // written under mutex_: the serving thread sleeps on it
  std::atomic<uint32_t> finished_{
      0};  // written under mutex_: callbacks done, destructors sleep on it
};

}  // namespace dxgkit::runtime
