// Events that clients name by their descriptors.
#pragma once

#include "base/status.h"

namespace dxgkit::dxgk {

/// A descriptor of the kernel's own for the same event, closed on exec; the caller closes it.
/// kInvalidHandle: there is no such descriptor. kNoMemory: the process has as many as it may have.
/// Either leaves nothing. Any thread; one system call.
Result<int> keep_event(int descriptor);

}  // namespace dxgkit::dxgk
