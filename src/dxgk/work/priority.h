// Who may have which scheduling priority.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace dxgkit::dxgk {

class Process;

/// SCHED-11, for contexts of either kind: kInvalidParameter outside -7..+7, kPrivilegeNotHeld above
/// 0 without the privilege.
Status check_priority(const Process& process, int32_t priority);

}  // namespace dxgkit::dxgk
