// What a failed start says of itself, beside its findings.
#pragma once

#include <string>
#include <vector>

#include "nt/call_log.h"
#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

/// The driver's last calls and the device, a line each, unless a finding has them; then the device
/// that would fit, if the driver names it. `log` is of the thread that has started the driver.
std::vector<std::string> start_story(const nt::CallLog& log, const std::string& driver_path,
                                     const DeviceChoice& device);

/// The lines, indented, each with its end; empty without lines.
std::string story_text(const std::vector<std::string>& lines);

}  // namespace dxgkit::tool
