#include "devices/vfio/config_layout.h"

#include "base/arithmetic.h"

namespace dxgkit::vfio {
namespace {

constexpr size_t kStatus = 0x06, kFirst = 0x34, kHeaderBytes = 64;
constexpr uint8_t kStatusCapabilities = 0x10;
constexpr size_t kCapabilityBytesMost = 192;  // of a function on our bus
constexpr uint8_t kPower = 0x01, kMsi = 0x05, kVendor = 0x09, kExpress = 0x10, kMsix = 0x11,
                  kAdvanced = 0x13;

/// The bytes of a capability with its id and next pointer; 0: of no kind that is copied.
size_t size_of(std::span<const std::byte, kConfigBytesAsked> config, size_t at) {
  const auto byte = [&](size_t offset) {
    return at + offset < config.size() ? std::to_integer<uint8_t>(config[at + offset]) : uint8_t{0};
  };
  switch (byte(0)) {
    case kPower:
      return 8;
    case kMsi: {
      const bool wide = (byte(2) & 0x80) != 0, masks = (byte(3) & 0x01) != 0;
      return 10 + (wide ? size_t{4} : 0) + (masks ? size_t{10} : 0);
    }
    case kVendor:
      return byte(2) < 3 ? 0 : byte(2);
    case kExpress:
      return (byte(2) & 0x0F) >= 2 ? 0x3C : 0x14;
    case kMsix:
      return 12;
    case kAdvanced:
      return 6;
    default:
      return 0;
  }
}

}  // namespace

ConfigLayout read_layout(std::span<const std::byte, kConfigBytesAsked> config) {
  ConfigLayout layout;
  if ((std::to_integer<uint8_t>(config[kStatus]) & kStatusCapabilities) == 0) return layout;
  const auto link = [&](size_t at) { return std::to_integer<size_t>(config[at]) & 0xFC; };
  size_t used = 0;
  size_t at = link(kFirst);
  for (size_t steps = 0; at >= kHeaderBytes && steps < kCapabilityBytesMost / 4; ++steps) {
    const auto id = std::to_integer<uint8_t>(config[at]);
    const size_t bytes = size_of(config, at);
    if (bytes != 0 && range_within(at, bytes, config.size())) {
      if (id == kMsix) layout.msix_bar = std::to_integer<uint32_t>(config[at + 4]) & 7U;
      used += align_up(bytes, 4);
      if (used > kCapabilityBytesMost) return layout;
      bus::PciCapability& copy = layout.capabilities.emplace_back();
      copy.id = id;
      copy.body.assign(config.begin() + static_cast<ptrdiff_t>(at + 2),
                       config.begin() + static_cast<ptrdiff_t>(at + bytes));
      // Messages are the kernel's business: the enable bits of MSI and MSI-X read as off.
      if (id == kMsi) copy.body[0] &= std::byte{0xFE};
      if (id == kMsix) copy.body[1] &= std::byte{0x7F};
    }
    at = link(at + 1);
  }
  return layout;
}

}  // namespace dxgkit::vfio
