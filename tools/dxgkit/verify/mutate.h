// dxgkit verify --mutate: what a driver's error paths do.
#pragma once

#include <string>

#include "nt/kernel.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/verify/plugin.h"

namespace dxgkit::tool::verify {

/// All steps in simulation once as they are, then again with one thing wrong each time, every run
/// in a process of its own. Prints a line each; exit codes as without --mutate. The options were
/// checked.
int mutate(const VerifyOptions& options, const std::string& driver_path,
           const nt::KernelConfig& kernel_config, const Plugin* plugin);

}  // namespace dxgkit::tool::verify
