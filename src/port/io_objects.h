// The I/O manager's objects that drivers see: their own driver object, and the device object that
// the bus driver made for their adapter.
#pragma once

#include <ntddk.h>

#include <string>

namespace dxgkit::port {

/// A driver object as the I/O manager prepares it for DriverEntry: every request goes to a routine
/// that answers STATUS_INVALID_DEVICE_REQUEST. Not copyable, because it points into itself. Drivers
/// write to it.
struct DriverObject {
  /// `name`: the name of the object, such as "\Driver\softgpu". `base` and `bytes`: the image, if
  /// the driver is mapped as one.
  DriverObject(std::u16string name, void* base, size_t bytes, PDRIVER_INITIALIZE entry);
  DriverObject(const DriverObject&) = delete;
  DriverObject& operator=(const DriverObject&) = delete;

  DRIVER_OBJECT object = {};

 private:
  DRIVER_EXTENSION extension_ = {};
  std::u16string name_, service_;
};

/// The physical device object of an adapter, made by the PCI bus driver.
struct PhysicalDevice {
  PhysicalDevice();
  PhysicalDevice(const PhysicalDevice&) = delete;
  PhysicalDevice& operator=(const PhysicalDevice&) = delete;

  DEVICE_OBJECT object = {};

 private:
  DriverObject bus_;
};

}  // namespace dxgkit::port
