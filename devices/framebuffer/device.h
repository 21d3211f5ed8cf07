// The frame buffer as a device that is made by name.
#pragma once

#include "bus/device.h"

namespace dxgkit::framebuffer {

/// "framebuffer": options set the mode, and whether firmware has set a mode on this card. Offers a
/// screen.
bus::DeviceType device_type();

}  // namespace dxgkit::framebuffer
