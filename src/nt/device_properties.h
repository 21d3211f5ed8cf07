// The PnP properties of a PCI function, as a driver asks for them.
#pragma once

#include "bus/machine.h"
#include "nt/kernel.h"

namespace dxgkit::nt {

/// Fills the properties that IoGetDeviceProperty answers (hardware and compatible ids, bus,
/// location, class), for one adapter that is about to be added. They come from the function's
/// identity and its place on the bus. Properties that the configuration gave stay as they are. Any
/// thread, PASSIVE_LEVEL. Cannot fail.
void describe_device(Kernel& kernel, const bus::PciIdentity& identity);

}  // namespace dxgkit::nt
