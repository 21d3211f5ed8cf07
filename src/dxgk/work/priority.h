// Scheduling priorities, as clients set them.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Context;
class Process;
struct WorkFloor;

/// SCHED-11, for contexts of either kind: kInvalidParameter outside -7..+7, kPrivilegeNotHeld above
/// 0 without the privilege.
Status check_priority(const Process& process, int32_t priority);

/// The contexts of the process on one adapter get the priority class that the process has now. Any
/// thread but the lane.
void follow_priority_class(WorkFloor& floor, const Process& process);

/// Of one context. Any thread but the lane.
class ContextPriority {
 public:
  explicit ContextPriority(Context& context) : context_(context) {}

  /// SCHED-11: -7..+7; kPrivilegeNotHeld above 0, which only a privileged process may ask. State
  /// unchanged on failure.
  Status set(int32_t priority);
  int32_t value();
  /// SCHED-13: ahead of the other contexts of its process. kDeviceRemoved.
  Status set_ahead_in_process(bool ahead);
  bool ahead_in_process();

 private:
  Context& context_;
  int32_t priority_ DXGKIT_GUARDED_BY(on_lane) = 0;
  bool ahead_in_process_ DXGKIT_GUARDED_BY(on_lane) = false;
};

}  // namespace dxgkit::dxgk
