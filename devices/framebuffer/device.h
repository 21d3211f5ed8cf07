// framebuffer as a device that is made by name.
#pragma once

#include "bus/device.h"

namespace dxgkit::framebuffer {

/// "framebuffer": the mode firmware set, and whether firmware set one on this card. Offers a
/// screen.
bus::DeviceType device_type();

}  // namespace dxgkit::framebuffer
