#include "devices/catalog/catalog.h"

#include "devices/framebuffer/device.h"
#include "devices/plugin/plugin.h"
#include "devices/ram/ram.h"
#include "devices/softgpu/device.h"
#include "devices/vfio/vfio.h"
#include "devices/vfiouser/remote_device.h"
#include "devices/virtiogpu/device.h"

namespace dxgkit::devices {

const bus::DeviceRegistry& catalog() {
  static const bus::DeviceRegistry registry = [] {
    bus::DeviceRegistry all;
    all.add(softgpu::device_type());
    all.add(framebuffer::device_type());
    all.add(ram::device_type());
    all.add(virtiogpu::device_type());
    all.add(vfio::device_type());
    all.add(vfiouser::device_type());
    all.add_spelling(ram::spelling_none());
    all.add_spelling(ram::spelling_pci());
    all.add_spelling(vfio::spelling());
    all.add_spelling(vfiouser::spelling());
    all.set_loader(plugin::load);
    return all;
  }();
  return registry;
}

}  // namespace dxgkit::devices
