#include "dxgk/core/graphics_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace dxgkit::dxgk {
namespace {

constexpr const char* kGraphicsKey =
    "\\Registry\\Machine\\System\\CurrentControlSet\\Control\\GraphicsDrivers";
constexpr uint32_t kRegDword = 4;

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char one, char other) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return lower(one) == lower(other);
  });
}

}  // namespace

std::optional<uint32_t> graphics_dword(const nt::KernelConfig& config, std::string_view subkey,
                                       std::string_view name) {
  const std::string key =
      subkey.empty() ? std::string(kGraphicsKey) : fmt::format("{}\\{}", kGraphicsKey, subkey);
  for (const auto& [path, values] : config.registry) {
    if (!same_name(path, key)) continue;
    for (const auto& [value_name, value] : values) {
      if (!same_name(value_name, name) || value.type != kRegDword || value.data.size() < 4)
        continue;
      uint32_t number = 0;
      for (size_t i = 0; i < 4; ++i) number |= std::to_integer<uint32_t>(value.data[i]) << (8 * i);
      return number;
    }
  }
  return std::nullopt;
}

}  // namespace dxgkit::dxgk
