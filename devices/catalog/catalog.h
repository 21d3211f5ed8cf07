// Every device that comes with dxgkit, by name.
#pragma once

#include "bus/device.h"

namespace dxgkit::devices {

/// softgpu, framebuffer, ram with its spellings none and pci:VENDOR:DEVICE, virtio-gpu, vfio with
/// the spelling vfio:DDDD:BB:DD.F, vfio-user with the spelling vfio-user:SOCKET, and plug-ins
/// (device_plugin.h) by path. Any thread; lives for the process's life.
const bus::DeviceRegistry& catalog();

}  // namespace dxgkit::devices
