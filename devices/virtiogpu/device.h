// The virtio GPU by name.
#pragma once

#include "bus/device.h"

namespace dxgkit::virtiogpu {

/// "virtio-gpu", with the options modes, scanouts, memory, resources, edid, messages, 3d, renderer,
/// renderers, timeout.
bus::DeviceType device_type();

}  // namespace dxgkit::virtiogpu
