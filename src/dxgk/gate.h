// A gate clients pass while they use an adapter; stopping closes it and waits for those inside.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/runtime.h"

namespace dxgkit::dxgk {

/// Thread-safe. The word holds the number inside; the top bit says closed.
class Gate {
 public:
  /// False once closed.
  bool enter() {
    // Acquire pairs with reopen-free close: who enters sees everything done before the gate was
    // made.
    uint32_t seen = word_.load(std::memory_order_acquire);
    while ((seen & kClosed) == 0) {
      if (word_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }
  void leave() {
    if (word_.fetch_sub(1, std::memory_order_release) == (kClosed | 1U)) {
      runtime::Runtime::current().wake_all(word_);
    }
  }
  /// Nobody enters any more. False if it was closed already.
  bool close() { return (word_.fetch_or(kClosed, std::memory_order_acq_rel) & kClosed) == 0; }
  bool closed() const { return (word_.load(std::memory_order_acquire) & kClosed) != 0; }
  /// After close: returns when nobody is inside.
  void wait_empty() {
    for (uint32_t seen = word_.load(std::memory_order_acquire); seen != kClosed;
         seen = word_.load(std::memory_order_acquire)) {
      runtime::Runtime::current().wait(word_, seen);
    }
  }

 private:
  static constexpr uint32_t kClosed = 1U << 31;
  std::atomic<uint32_t> word_{0};
};

/// Holds a gate open for a scope, if it could be entered.
class GatePass {
 public:
  explicit GatePass(Gate& gate) : gate_(gate), inside_(gate.enter()) {}
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
