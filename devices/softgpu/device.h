// softgpu as a device that is made by name.
#pragma once

#include "bus/device.h"

namespace dxgkit::softgpu {

/// "softgpu": video memory, what of it survives, a screen. Offers faults, and a screen if it has
/// one.
bus::DeviceType device_type();

}  // namespace dxgkit::softgpu
