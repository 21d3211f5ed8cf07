// Carries a power plan out while a job runs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/power_plan.h"

namespace dxgkit::tool {

/// One executed step of a plan.
struct PowerDone {
  PlannedPower planned;
  uint64_t packets = 0;  // completed when it began
  Status status = Status::kSuccess;
  dxgk::PowerOutcome outcome;
  runtime::DurationNs time_ns = 0;  // down and up again
};

/// Made inside the runtime of `system`. Starts a thread that waits for the adapter's packets. The
/// job may end before the plan does; the rest of the plan is then not executed.
class PowerRunner {
 public:
  /// `unplug` pulls the device out of its slot.
  PowerRunner(runtime::Runtime& runtime, dxgk::System& system, dxgk::Luid adapter, PowerPlan plan,
              std::function<void()> unplug);
  /// Ends the rest of the plan and joins the thread. Call finish() first to get the executed steps.
  ~PowerRunner();
  /// The executed steps. The adapter is awake or removed.
  std::vector<PowerDone> finish();
  /// The adapter's statistics right before it was removed.
  const std::optional<dxgk::AdapterStatistics>& last_statistics() const { return last_; }

 private:
  void run();
  runtime::Runtime& runtime_;
  dxgk::System& system_;
  const dxgk::Luid adapter_;
  const PowerPlan plan_;
  const std::function<void()> unplug_;
  std::atomic<bool> cancelled_{false};  // the thread reads it each time the adapter makes progress
  std::vector<PowerDone> done_;         // used by the thread until it is joined
  std::optional<dxgk::AdapterStatistics> last_;
  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace dxgkit::tool
