// The picture that a driver leaves behind.
#pragma once

#include <span>

#include "bus/machine.h"
#include "dxgk/core/adapter_core.h"
#include "port/types.h"

namespace dxgkit::dxgk {

/// LIFE-19: who comes next finds the POST display as the driver has left it. DOD-08: a finding, and
/// nothing kept, if that is no linear frame buffer inside the adapter's BAR; a finding, too, if its
/// format has not 32 bits, or its target is none of the adapter's.
void keep_post_display(AdapterCore& core, bus::PostDisplay post,
                       const port::DisplayInformation& left, std::span<const uint32_t> targets);

}  // namespace dxgkit::dxgk
