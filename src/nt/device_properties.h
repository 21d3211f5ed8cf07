// What the PnP manager knows of a PCI function, as a driver asks for it.
#pragma once

#include "bus/machine.h"
#include "nt/kernel.h"

namespace dxgkit::nt {

/// Fills the properties IoGetDeviceProperty answers (hardware and compatible ids, bus, location,
/// class) from the function's identity and its place on the bus, for one adapter that is about to
/// be added. Properties the configuration gave stay as they are. Any thread, PASSIVE_LEVEL. Cannot
/// fail.
void describe_device(Kernel& kernel, const bus::PciIdentity& identity);

}  // namespace dxgkit::nt
