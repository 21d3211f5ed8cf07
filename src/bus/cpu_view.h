// What else can be done with a CpuView (machine.h).
#pragma once

#include "bus/machine.h"

namespace dxgkit::bus {

/// What the view showed is gone, and somebody still has its address: from now on it shows zeros,
/// and what is written there goes nowhere. No retarget may follow. Any thread; no error.
void show_nothing(CpuView& view);

}  // namespace dxgkit::bus
