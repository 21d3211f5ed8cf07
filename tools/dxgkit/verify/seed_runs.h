// `dxgkit verify --seeds` and `--thorough`: the steps again and again, each run in a process.
#pragma once

#include <cstdio>
#include <expected>
#include <string>

#include "nt/kernel.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/verify/plugin.h"
#include "tools/dxgkit/verify/report.h"

namespace dxgkit::tool::verify {

/// Runs the steps in simulation, once for each seed of options.seeds; with options.thorough from
/// options.seed on, until every situation that can come up came up three times, or until several
/// runs in a row brought none of them nearer. A run may end its process. Prints a line for each
/// mistake when a seed shows it first. In the report a step has the findings of all runs, each with
/// its lowest seed. The error is one sentence: the file is no driver, or a process cannot be
/// started. Call it outside any runtime, with one thread.
std::expected<VerifyReport, std::string> run_seeds(const VerifyOptions& options,
                                                   const std::string& driver_path,
                                                   const nt::KernelConfig& kernel_config,
                                                   const Plugin* plugin, std::FILE* out);

}  // namespace dxgkit::tool::verify
