// `dxgkit gl --clients processes`.
#pragma once

#include <string>

#include "tools/dxgkit/gl/gl_options.h"

namespace dxgkit::tool {

/// Names the first option that works with threads only; empty: there is none.
std::string gl_only_with_threads(const GlOptions& options);

/// Runs the program of the options. Its connections have processes of their own, and the kernel has
/// another one, in a jail.
/// @param registry  JSON text of the driver's keys; empty: none
/// The exit code of the command.
int run_gl_separately(const GlOptions& options, const std::string& driver_path,
                      const DeviceChoice& device, uint64_t memory_bytes,
                      const std::string& registry);

}  // namespace dxgkit::tool
