// Causes, mask and line. A cause that is set and enabled drives the line until it is acknowledged.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "bus/machine.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"

namespace dxgkit::softgpu {

/// Thread-safe. The register side (status, acknowledge, enable) takes no lock, so a handler may use
/// it freely.
class Interrupts {
 public:
  Interrupts(runtime::Runtime& runtime, bus::InterruptLine& line);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;

  // --- device side
  /// Sets a cause and, if it is enabled, runs the connected handler on this thread.
  void set(uint32_t cause);
  /// Sets the cause without an interrupt.
  void set_silently(uint32_t cause) { status_.fetch_or(cause, std::memory_order_acq_rel); }
  /// As set(), `delay` from now, on the interrupt thread.
  void set_later(uint32_t cause, runtime::DurationNs delay);

  // --- register side
  uint32_t status() const { return status_.load(std::memory_order_acquire); }
  uint32_t enabled() const { return enable_.load(std::memory_order_acquire); }
  void acknowledge(uint32_t causes) { status_.fetch_and(~causes, std::memory_order_acq_rel); }
  /// Sets the mask. Unmasking a pending cause drives the line from the interrupt thread, never from
  /// the caller's.
  void enable(uint32_t causes);

  /// Resets: no cause, nothing enabled, no late interrupt.
  void lose_power();

  /// How often the line stayed up although the handler had claimed the interrupt kRoundsMax times
  /// in a row.
  uint32_t storms() const { return storms_.load(std::memory_order_relaxed); }
  static constexpr int kRoundsMax = 64;

 private:
  struct Late {
    runtime::TimeNs due;
    uint32_t cause;
  };
  void deliver();
  void run();

  runtime::Runtime& runtime_;
  bus::InterruptLine& line_;
  std::atomic<uint32_t> status_{0};
  std::atomic<uint32_t> enable_{0};
  std::atomic<uint32_t> storms_{0};

  // Read outside the line's lock. A second raiser checks again before it raises, so that a cause
  // that the first one's handler served gives no spurious interrupt.
  runtime::Mutex deliver_mutex_;

  std::atomic<uint32_t> bell_{0};  // counts reasons for the interrupt thread to look
  std::atomic<bool> stop_{false};
  std::atomic<bool> unmasked_{false};
  runtime::Mutex late_mutex_;
  std::vector<Late> late_ DXGKIT_GUARDED_BY(late_mutex_);
  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace dxgkit::softgpu
