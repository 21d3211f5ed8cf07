// `dxgkit run --clients processes`.
#pragma once

#include "tools/dxgkit/options.h"
#include "tools/dxgkit/session.h"

namespace dxgkit::tool {

/// Names the first option that works with threads only; empty: there is none.
std::string only_with_threads(const RunOptions& options);

/// Runs the job and prints its outcome. The exit code of the command.
int run_separately(const RunOptions& options, const SessionConfig& config, const Plan& plan,
                   const Picture& source, uint64_t page_bytes);

}  // namespace dxgkit::tool
