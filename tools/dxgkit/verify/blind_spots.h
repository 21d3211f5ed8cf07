// dxgkit verify --blind-spots: would a run have noticed?
#pragma once

#include <string>

#include "nt/kernel.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/verify/plugin.h"

namespace dxgkit::tool::verify {

/// Runs the steps in simulation once, and then again for each situation that came up, in a process
/// of its own: there the driver's entry is not called where the situation comes up, and success is
/// answered for it. Such a driver is wrong. Prints a line each: by which rule it was found, or that
/// nothing noticed. Exit codes: 0 if all were found, 1 if not, 2 for bad input. The options are
/// checked.
int find_blind_spots(const VerifyOptions& options, const std::string& driver_path,
                     const nt::KernelConfig& kernel_config, const Plugin* plugin);

}  // namespace dxgkit::tool::verify
