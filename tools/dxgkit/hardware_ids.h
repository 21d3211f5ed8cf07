// The devices that a driver is for, by the hardware ids in its file and in INF files beside it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

struct HardwareId {
  uint16_t vendor = 0, device = 0;
  auto operator<=>(const HardwareId&) const = default;
};

/// "PCI\VEN_1AF4&DEV_1050" as plain text or UTF-16, in upper or lower case. In order, each once, at
/// most kHardwareIdsMost. `bytes` may be anything.
std::vector<HardwareId> find_hardware_ids(std::string_view bytes);
inline constexpr size_t kHardwareIdsMost = 64;

/// Those of the driver's file and of INF files in its folder that name the file. Unreadable files
/// have none.
std::vector<HardwareId> hardware_ids(const std::string& driver_path);

/// The device of the catalogue that has one of the ids, if it is the only one; nullopt for the
/// default device, too, which needs no choice.
std::optional<DeviceChoice> only_fitting_device(const std::vector<HardwareId>& ids);

/// A sentence without a full stop: which --device has an id that the driver names. Empty if the
/// driver names none, or one that `used` has.
std::string device_advice(const std::vector<HardwareId>& ids, const DeviceChoice& used);

/// The device for a driver without --device. If its hardware ids choose one, a line on stderr says
/// so.
DeviceChoice device_of_driver(const std::string& driver_path);

}  // namespace dxgkit::tool
