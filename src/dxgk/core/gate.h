// A gate clients pass while they use an adapter; stopping closes it and waits for those inside.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/runtime.h"

namespace dxgkit::dxgk {

/// Thread-safe. The word holds the number inside; the top bit says closed, the three below it count
/// who holds the gate.
class Gate {
 public:
  /// False once closed. Waits while held, which the lane must not.
  bool enter() {
    // Acquire pairs with reopen-free close: who enters sees everything done before the gate was
    // made.
    uint32_t seen = word_.load(std::memory_order_acquire);
    while ((seen & kClosed) == 0) {
      if ((seen & kHeld) != 0) {
        runtime::Runtime::current().wait(word_, seen);
        seen = word_.load(std::memory_order_acquire);
        continue;
      }
      if (word_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }
  /// As enter, and not kept waiting by who holds the gate: for calls that disturb no transition.
  bool enter_beside() {
    uint32_t seen = word_.load(std::memory_order_acquire);
    while ((seen & kClosed) == 0) {
      if (word_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }
  /// Nobody enters until as many release(); those inside stay. At most seven at a time.
  void hold() { word_.fetch_add(kHolder, std::memory_order_acq_rel); }
  void release() {
    if ((word_.fetch_sub(kHolder, std::memory_order_acq_rel) & kHeld) == kHolder)
      runtime::Runtime::current().wake_all(word_);
  }
  void leave() {
    if ((word_.fetch_sub(1, std::memory_order_release) & ~kHeld) == (kClosed | 1U)) {
      runtime::Runtime::current().wake_all(word_);
    }
  }
  /// Nobody enters any more. False if it was closed already.
  bool close() {
    const uint32_t before = word_.fetch_or(kClosed, std::memory_order_acq_rel);
    if ((before & kHeld) != 0) runtime::Runtime::current().wake_all(word_);
    return (before & kClosed) == 0;
  }
  bool closed() const { return (word_.load(std::memory_order_acquire) & kClosed) != 0; }
  /// After close: returns when nobody is inside.
  void wait_empty() {
    for (uint32_t seen = word_.load(std::memory_order_acquire); (seen & ~kHeld) != kClosed;
         seen = word_.load(std::memory_order_acquire)) {
      runtime::Runtime::current().wait(word_, seen);
    }
  }

 private:
  static constexpr uint32_t kClosed = 1U << 31, kHolder = 1U << 28, kHeld = 7 * kHolder;
  std::atomic<uint32_t> word_{0};
};

/// Holds a gate open for a scope, if it could be entered.
class GatePass {
 public:
  enum class Transitions { kWait, kBeside };
  explicit GatePass(Gate& gate, Transitions transitions = Transitions::kWait)
      : gate_(gate),
        inside_(transitions == Transitions::kWait ? gate.enter() : gate.enter_beside()) {}
  ~GatePass() {
    if (inside_) gate_.leave();
  }
  GatePass(const GatePass&) = delete;
  GatePass& operator=(const GatePass&) = delete;
  explicit operator bool() const { return inside_; }

 private:
  Gate& gate_;
  const bool inside_;
};

}  // namespace dxgkit::dxgk
