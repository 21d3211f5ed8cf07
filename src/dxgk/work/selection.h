// When the scheduler is asked to select work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "dxgk/core/adapter_core.h"
#include "runtime/runtime.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Timeout;

/// The scheduler selects when something has changed, and again when a quantum ends (SCHED-10).
class Selection {
 public:
  Selection(AdapterCore& core, Timeout& timeout) : core_(core), timeout_(timeout) {}
  /// Before anything runs.
  void start();
  /// After the last thing has run.
  void stop() { quantum_timer_.reset(); }

  /// Selects, and arms the timeout watch when work is on hardware.
  void pump() DXGKIT_REQUIRES(on_lane);
  /// Runs `work` on the lane with nothing on hardware, and nothing going there meanwhile (level
  /// two, IRQL-03). False, not run: the adapter failed first, or is to be reset. Not on the lane.
  bool run_with_idle_hardware(const std::function<void()>& work);

 private:
  void watch_for_quantum() DXGKIT_REQUIRES(on_lane);

  AdapterCore& core_;
  Timeout& timeout_;
  std::unique_ptr<runtime::Timer> quantum_timer_;
  // Lane:
  std::optional<int64_t> quantum_due_ DXGKIT_GUARDED_BY(on_lane);  // armed for
  uint32_t holds_ DXGKIT_GUARDED_BY(on_lane) = 0;                  // nothing new goes to hardware
};

}  // namespace dxgkit::dxgk
