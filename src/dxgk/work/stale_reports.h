// Interrupts that report packets which a reset has ended.
#pragma once

#include <vector>

#include "base/ids.h"
#include "dxgk/core/adapter_core.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

/// Remembers of each node's last reset which fences it ended. Lane: the adapter's.
class StaleReports {
 public:
  explicit StaleReports(AdapterCore& core) : core_(core) {}

  /// The engine is being reset. `before`: the node's status then; `preemption`: what it was asked
  /// last; `aborted`: the packet that the reset ended.
  void engine_was_reset(NodeOrdinal node, const vidsch::NodeStatus& before,
                        SubmissionFenceId preemption, SubmissionFenceId aborted)
      DXGKIT_REQUIRES(on_lane);
  /// All engines are about to be reset, with the adapter.
  void adapter_is_reset() DXGKIT_REQUIRES(on_lane);
  /// A report of a packet from before a reset of its engine, after it: a finding, and nothing else
  /// (TDR-13, TDR-22). `outcome`: what the scheduler said of it.
  bool is_stale(const port::InterruptReport& report, vidsch::FenceReport outcome)
      DXGKIT_REQUIRES(on_lane);

 private:
  struct Reset {
    bool any = false, whole = false;
    SubmissionFenceId after, upto, preemption;
    SubmissionFenceId aborted;  // the last completed one once the reset was done
  };

  AdapterCore& core_;
  std::vector<Reset> last_ DXGKIT_GUARDED_BY(on_lane);  // by node; fewer: no reset
};

}  // namespace dxgkit::dxgk
