#include "devices/vfio/address.h"

#include <charconv>
#include <cstdio>

namespace dxgkit::vfio {
namespace {

/// Exactly `digits` hexadecimal digits.
std::optional<uint32_t> take_digits(std::string_view& rest, size_t digits) {
  uint32_t value = 0;
  if (rest.size() < digits) return std::nullopt;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + digits, value, 16);
  if (error != std::errc() || end != rest.data() + digits) return std::nullopt;
  rest.remove_prefix(digits);
  return value;
}

bool take_separator(std::string_view& rest, char separator) {
  if (!rest.starts_with(separator)) return false;
  rest.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<HostAddress> parse_address(std::string_view text) {
  const auto domain = take_digits(text, 4);
  if (!domain.has_value() || !take_separator(text, ':')) return std::nullopt;
  const auto bus = take_digits(text, 2);
  if (!bus.has_value() || !take_separator(text, ':')) return std::nullopt;
  const auto device = take_digits(text, 2);
  if (!device.has_value() || *device > 31 || !take_separator(text, '.')) return std::nullopt;
  const auto function = take_digits(text, 1);
  if (!function.has_value() || *function > 7 || !text.empty()) return std::nullopt;
  return HostAddress{static_cast<uint16_t>(*domain), static_cast<uint8_t>(*bus),
                     static_cast<uint8_t>(*device), static_cast<uint8_t>(*function)};
}

std::string to_text(const HostAddress& address) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", address.domain, address.bus, address.device,
                address.function);
  return text;
}

}  // namespace dxgkit::vfio
