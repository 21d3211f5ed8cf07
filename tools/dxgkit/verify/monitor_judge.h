// What a driver says of a monitor, compared with what the device knows. Pure judgments.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bus/device.h"
#include "dxgk/display/display_types.h"

namespace dxgkit::tool::verify {

/// The device's monitor with that descriptor; without one, that of the place, which counts the
/// connected outputs. Null: there is none.
const bus::DeviceMonitor* monitor_of(std::span<const std::byte> told,
                                     std::span<const bus::DeviceMonitor> monitors, size_t place);
/// What is wrong with a descriptor that the driver gave; empty: nothing. `place` counts the
/// connected outputs: the device's monitors need not be in their order, but where no descriptor is
/// one of the device's, it says which differs from where on.
std::string judge_descriptor(std::span<const std::byte> told,
                             std::span<const bus::DeviceMonitor> monitors, size_t place);
/// The first size of the monitor that is not offered.
std::optional<bus::DeviceMonitor::Size> missing_size(const bus::DeviceMonitor& monitor,
                                                     std::span<const dxgk::DisplayMode> modes);

}  // namespace dxgkit::tool::verify
