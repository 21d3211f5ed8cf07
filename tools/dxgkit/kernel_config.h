// The kernel as the command line wants it, for the world that a command makes (api/world.h).
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include "api/world.h"
#include "nt/kernel.h"
#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

using api::World;
using api::WorldConfig;

/// TdrDelay with real threads, where the registry does not say: engines that are threads get no
/// processor for a while on a machine that does much else, which is no mistake of the driver's.
inline constexpr int64_t kBusyMachineTdrDelayNs = 10'000'000'000;

/// The kernel as the command line wants it: values of a registry file (TOML or JSON), special pool,
/// imports in the trace. The error is one sentence that begins with the path.
std::expected<nt::KernelConfig, std::string> read_kernel_config(
    const std::optional<std::string>& registry_path, bool special_pool, bool trace_imports);
/// The same with the text of a registry file, or none. `path` begins the error.
std::expected<nt::KernelConfig, std::string> kernel_config_of(
    const std::optional<std::string>& registry_text, const std::string& path, bool special_pool,
    bool trace_imports);

}  // namespace dxgkit::tool
