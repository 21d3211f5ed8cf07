// The picture that a driver leaves behind.
#pragma once

#include "bus/machine.h"
#include "dxgk/core/adapter_core.h"
#include "port/types.h"

namespace dxgkit::dxgk {

/// LIFE-19: who comes next finds the POST display as the driver has left it. DOD-08: a finding, and
/// nothing kept, if that is no linear frame buffer inside the adapter's BAR.
void keep_post_display(AdapterCore& core, bus::PostDisplay post,
                       const port::DisplayInformation& left);

}  // namespace dxgkit::dxgk
