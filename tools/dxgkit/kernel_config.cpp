#include "tools/dxgkit/kernel_config.h"

#include <fmt/format.h>

#include "nt/registry_store.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool {
namespace {

/// The limit of a call of the driver: in virtual time while it waits, in processor time while it
/// computes. No right driver comes near it, and it ends before the patience of `verify` does.
constexpr runtime::DurationNs kHangLimit = 10 * runtime::kSecond;

}  // namespace

std::expected<nt::KernelConfig, std::string> read_kernel_config(
    const std::optional<std::string>& registry_path, bool special_pool, bool trace_imports) {
  if (!registry_path.has_value())
    return kernel_config_of(std::nullopt, {}, special_pool, trace_imports);
  const std::expected<std::string, std::string> text = read_file(*registry_path);
  if (!text.has_value()) return std::unexpected(text.error());
  return kernel_config_of(*text, *registry_path, special_pool, trace_imports);
}

std::expected<nt::KernelConfig, std::string> kernel_config_of(
    const std::optional<std::string>& registry_text, const std::string& path, bool special_pool,
    bool trace_imports) {
  nt::KernelConfig config;
  config.special_pool = special_pool;
  config.trace_imports = trace_imports;
  config.hang_limit = kHangLimit;
  if (!registry_text.has_value()) return config;
  std::string message;
  const Result<nt::Registry> registry = nt::parse_registry(*registry_text, &message);
  if (!registry.has_value()) return std::unexpected(fmt::format("{}: {}", path, message));
  config.registry = registry->to_map();
  return config;
}

}  // namespace dxgkit::tool
