// What `doctor` finds out about a driver, for the commands that sum it up.
#pragma once

#include <string>

#include "nt/kernel.h"
#include "tools/dxgkit/check/summary.h"

namespace dxgkit::tool::check {

/// Diagnoses the driver in a process of its own.
DriverFacts facts_of(const std::string& path, const nt::KernelConfig& config);

}  // namespace dxgkit::tool::check
