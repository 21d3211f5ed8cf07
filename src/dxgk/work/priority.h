// Who may have which scheduling priority.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace dxgkit::dxgk {

class Process;
struct WorkFloor;

/// SCHED-11, for contexts of either kind: kInvalidParameter outside -7..+7, kPrivilegeNotHeld above
/// 0 without the privilege.
Status check_priority(const Process& process, int32_t priority);

/// The contexts of the process on one adapter get the priority class that the process has now. Any
/// thread but the lane.
void follow_priority_class(WorkFloor& floor, const Process& process);

}  // namespace dxgkit::dxgk
