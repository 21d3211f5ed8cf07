// The reset of a whole adapter after a timeout.
#pragma once

#include <cstdint>
#include <functional>

#include "base/ids.h"
#include "base/status.h"
#include "dxgk/core/adapter_core.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Device;
class Process;
class RecoveryLog;
class StaleReports;
struct WorkFloor;

/// DxgkDdiResetFromTimeout, DxgkDdiRestartFromTimeout, and all that has to be given up between the
/// two (TDR-04, TDR-21..28). Runs on the thread of Timeout, which may wait.
class AdapterReset {
 public:
  /// What power and displays do in a reset.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// A process of the kernel's own: its devices survive, as the system device (TDR-32).
    virtual bool is_kernels(const Process& process) const = 0;
    /// The hardware shows nothing any more.
    virtual void displays_were_reset() DXGKIT_REQUIRES(on_lane) = 0;
    /// What CPUs have locked is shown where it is now (TDR-28).
    virtual void show_locked() DXGKIT_REQUIRES(on_lane) = 0;
    /// The driver runs again: modes are set once more. Not on the lane.
    virtual void show_again() = 0;
  };
  AdapterReset(WorkFloor& floor, Owner& owner, RecoveryLog& log, StaleReports& stale)
      : floor_(floor), owner_(owner), log_(log), stale_(stale) {}

  /// From here on nothing is prepared or submitted.
  void begin() DXGKIT_REQUIRES(on_lane);
  /// The reset itself, once begun. `node`: whose packet hung. `patience_ns`: how long others may
  /// take to leave the driver (TdrDdiDelay). `forget` runs on the lane right before the hardware is
  /// reset. False: the adapter has failed. Not on the lane.
  bool run(NodeOrdinal node, int64_t patience_ns, const std::function<void()>& forget);
  /// The adapter is about to be reset, or is being reset. A thread that waits for idle hardware
  /// with the driver to itself gives that up, and tries again after the reset.
  bool under_way() const DXGKIT_REQUIRES(on_lane) { return under_way_; }
  uint64_t resets() const DXGKIT_REQUIRES(on_lane) { return resets_; }

 private:
  bool reset_hardware(NodeOrdinal node, const std::function<void()>& forget);
  void report_working_hardware() DXGKIT_REQUIRES(on_lane);
  void refuse_reset(const char* ddi, Status status);
  void clean_up(Device* guilty) DXGKIT_REQUIRES(on_lane);
  void come_back();

  WorkFloor& floor_;
  Owner& owner_;
  RecoveryLog& log_;
  StaleReports& stale_;
  bool under_way_ DXGKIT_GUARDED_BY(on_lane) = false;
  uint64_t resets_ DXGKIT_GUARDED_BY(on_lane) = 0;
};

}  // namespace dxgkit::dxgk
