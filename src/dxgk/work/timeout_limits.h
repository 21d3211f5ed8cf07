// How often recoveries from timeouts may happen.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dxgk/core/timeout_policy.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Device;
class RecoveryLog;
struct WorkFloor;

/// Lane: the adapter's.
class TimeoutLimits {
 public:
  /// `policy` is read when a limit is looked at.
  TimeoutLimits(WorkFloor& floor, RecoveryLog& log, const TimeoutPolicy& policy)
      : floor_(floor), log_(log), policy_(policy) {}

  /// The adapter is about to be reset. True: it has been too often, and has failed now (TDR-05).
  bool past_limit(const std::string& cause) DXGKIT_REQUIRES(on_lane);
  /// A device of the process has caused the reset of an engine. Too many, and the process is kept
  /// from the GPU (TDR-06).
  void note_engine_timeout(Device& guilty) DXGKIT_REQUIRES(on_lane);
  /// It hung the GPU too often.
  bool is_blocked(uint32_t process) const DXGKIT_REQUIRES(on_lane) {
    return blocked_.contains(process);
  }

 private:
  WorkFloor& floor_;
  RecoveryLog& log_;
  const TimeoutPolicy& policy_;
  std::vector<int64_t> adapter_reset_times_ DXGKIT_GUARDED_BY(on_lane);
  std::map<uint32_t, std::vector<int64_t>> engine_timeouts_
      DXGKIT_GUARDED_BY(on_lane);                          // by process
  std::set<uint32_t> blocked_ DXGKIT_GUARDED_BY(on_lane);  // processes
};

}  // namespace dxgkit::dxgk
