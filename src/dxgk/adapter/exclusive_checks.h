// What levels two and three promise, checked at each such DDI.
#pragma once

#include "base/ids.h"
#include "dxgk/core/adapter_core.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Alone with the driver: the hardware is idle, and at level three memory is empty where it has to
/// be. A broken promise is our bug and aborts.
class ExclusiveChecks {
 public:
  /// All on the lane.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// The adapter stops after it has run: StopDevice, RemoveDevice.
    virtual bool leaves() const = 0;
    virtual bool paging_is_idle() const DXGKIT_REQUIRES(on_lane) = 0;
    /// The power state the adapter goes to, or is in, keeps nothing of the segment.
    virtual bool must_be_empty(SegmentId segment) const DXGKIT_REQUIRES(on_lane) = 0;
  };
  ExclusiveChecks(AdapterCore& core, const Owner& owner) : core_(core), owner_(owner) {}

  /// Any thread.
  void before(const char* ddi, port::AdapterHost::SyncLevel level);

 private:
  void check_idle(const char* ddi, port::AdapterHost::SyncLevel level) DXGKIT_REQUIRES(on_lane);

  AdapterCore& core_;
  const Owner& owner_;
};

}  // namespace dxgkit::dxgk
