// "vfio": a PCI device of the host, by VFIO.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "bus/device.h"
#include "devices/vfio/address.h"
#include "devices/vfio/kernel.h"

namespace dxgkit::vfio {

/// How the device tells of itself.
enum class InterruptChoice {
  kAuto,  // MSI, or else INTx, or else MSI-X
  kIntx,
  kMsi,
  kMsix,
};

/// What an option says.
struct Config {
  HostAddress address;
  bool trap_registers = false;  // every access is a call, checked and in the trace
  InterruptChoice interrupts = InterruptChoice::kAuto;
  bool watch_faults = true;  // follow the log of Linux for faults of the IOMMU
  bool needs_reset = true;   // refuse a device that cannot be reset
};

/// Takes the device over: resets it, maps the memory of the machine for its DMA and lets it be bus
/// master. When the object ends, it is reset again and given back. All of that inside the os
/// runtime of the host. The device must be bound to vfio-pci.
///
/// The error is one sentence without a full stop that says what to do; the device is as before,
/// except that it may have been reset.
std::expected<std::unique_ptr<bus::Device>, std::string> open(std::shared_ptr<Kernel> kernel,
                                                              const Config& config,
                                                              const bus::DeviceHost& host);

/// The type "vfio". It lives in real time only.
bus::DeviceType device_type(std::shared_ptr<Kernel> kernel = linux_kernel());
/// "vfio:DDDD:BB:DD.F" for "vfio,address=DDDD:BB:DD.F".
bus::DeviceSpelling spelling();

}  // namespace dxgkit::vfio
