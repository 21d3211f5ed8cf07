// What a driver says of monitors that the device knows.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bus/device.h"
#include "dxgk/display/display_types.h"
#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

/// What is wrong with a descriptor that the driver gave; empty: nothing. `place` counts the
/// connected outputs: the device's monitors need not be in their order, but where no descriptor is
/// one of the device's, it says which differs from where on.
std::string judge_descriptor(std::span<const std::byte> told,
                             std::span<const bus::DeviceMonitor> monitors, size_t place);
/// The first size of the monitor that is not offered.
std::optional<bus::DeviceMonitor::Size> missing_size(const bus::DeviceMonitor& monitor,
                                                     std::span<const dxgk::DisplayMode> modes);

/// Compares descriptors and modes with the device's monitors, if it knows them. A difference is a
/// finding (CAPS-18, DISP-41), and the error. The adapter runs and has outputs.
Answer<void> check_monitors(Bench& bench);

}  // namespace dxgkit::tool::verify
