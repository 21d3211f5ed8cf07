// dxgkit verify --mutate: exercises a driver's error paths.
#pragma once

#include <string>

#include "nt/kernel.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/verify/plugin.h"

namespace dxgkit::tool::verify {

/// Runs all steps in simulation once unchanged, then again with one thing wrong each time, every
/// run in a process of its own. Prints a line each. Exit codes as without --mutate. The options are
/// checked.
int mutate(const VerifyOptions& options, const std::string& driver_path,
           const nt::KernelConfig& kernel_config, const Plugin* plugin);

}  // namespace dxgkit::tool::verify
