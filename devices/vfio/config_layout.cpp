#include "devices/vfio/config_layout.h"

#include <algorithm>

#include "base/arithmetic.h"

namespace dxgkit::vfio {
namespace {

constexpr size_t kStatus = 0x06, kFirst = 0x34, kHeaderBytes = 64;
constexpr uint8_t kStatusCapabilities = 0x10;
constexpr uint8_t kMsi = 0x05, kMsix = 0x11;
constexpr size_t kMsiBytes = 24, kMsixBytes = 12;  // of MSI, the longest form
constexpr size_t kCapabilitiesMost = (kConfigBytesAsked - kHeaderBytes) / 4;

}  // namespace

bool ConfigLayout::is_of_messages(size_t offset, size_t bytes) const {
  return std::ranges::any_of(messages, [&](const std::pair<size_t, size_t>& one) {
    return offset < one.first + one.second && one.first < offset + bytes;
  });
}

ConfigLayout read_layout(std::span<const std::byte, kConfigBytesAsked> config) {
  ConfigLayout layout;
  if ((std::to_integer<uint8_t>(config[kStatus]) & kStatusCapabilities) == 0) return layout;
  const auto link = [&](size_t at) { return std::to_integer<size_t>(config[at]) & 0xFC; };
  size_t at = link(kFirst);
  for (size_t steps = 0; at >= kHeaderBytes && steps < kCapabilitiesMost; ++steps) {
    const auto id = std::to_integer<uint8_t>(config[at]);
    const size_t bytes = id == kMsi ? kMsiBytes : id == kMsix ? kMsixBytes : 0;
    if (bytes != 0) layout.messages.emplace_back(at, std::min(bytes, config.size() - at));
    if (id == kMsix && range_within(at, kMsixBytes, config.size()))
      layout.msix_bar = std::to_integer<uint32_t>(config[at + 4]) & 7U;
    at = link(at + 1);
  }
  return layout;
}

}  // namespace dxgkit::vfio
