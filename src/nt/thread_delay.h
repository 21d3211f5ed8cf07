// Threads of a driver that are slow.
#pragma once

#include "runtime/runtime.h"

namespace dxgkit::nt {

class Kernel;

/// From now on a thread of PsCreateSystemThread that leaves a wait goes on so much later: whoever
/// relies on it waits for it. 0, the default: at once.
void set_thread_delay(Kernel& kernel, runtime::DurationNs delay_ns);

}  // namespace dxgkit::nt
