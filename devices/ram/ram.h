// A PCI function whose BARs are memory and do nothing: for drivers of software devices, and for a
// first look at a driver without a model of its hardware.
#pragma once

#include "bus/device.h"

namespace dxgkit::ram {

/// The default ids of a ram: a display controller that does not exist.
inline constexpr uint16_t kVendorId = 0x1B36;
inline constexpr uint16_t kDeviceId = 0xD0DD;
/// The least and the largest size of a BAR in bytes; both are powers of two.
inline constexpr uint64_t kBarBytesLeast = 4096;
inline constexpr uint64_t kBarBytesMost = uint64_t{1} << 30;

/// "ram": ids, class, and up to three BARs with content from a file or from a repeated pattern.
bus::DeviceType device_type();
/// "none": ram without BARs.
bus::DeviceSpelling spelling_none();
/// "pci:VENDOR:DEVICE": ram with these ids.
bus::DeviceSpelling spelling_pci();

}  // namespace dxgkit::ram
