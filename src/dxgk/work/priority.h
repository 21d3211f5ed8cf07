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
/// SCHED-12: the class of the process has changed; its contexts on this adapter take it. Not on the
/// lane.
void follow_priority_class(WorkFloor& floor, const Process& process);

}  // namespace dxgkit::dxgk
