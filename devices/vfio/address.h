// The place of a PCI function in the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dxgkit::vfio {

/// Domain, bus, device and function.
struct HostAddress {
  uint16_t domain = 0;
  uint8_t bus = 0, device = 0, function = 0;  // device below 32, function below 8
  bool operator==(const HostAddress&) const = default;
};

/// Reads "0000:01:00.0": four, two and two hexadecimal digits and one digit. nullopt for any other
/// text.
std::optional<HostAddress> parse_address(std::string_view text);
/// The same backwards, as the folders of Linux spell it.
std::string to_text(const HostAddress& address);

}  // namespace dxgkit::vfio
