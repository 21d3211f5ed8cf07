// The software GPU as a device that is made by name.
#pragma once

#include "bus/device.h"

namespace dxgkit::softgpu {

/// "softgpu": options set the size of video memory, the part that survives power loss, and a
/// screen. Offers faults, and a screen if it has one.
bus::DeviceType device_type();

}  // namespace dxgkit::softgpu
