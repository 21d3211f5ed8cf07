// What configuration space of a device says of its capabilities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bus/function.h"

namespace dxgkit::vfio {

/// The part of configuration space in which capabilities are.
inline constexpr size_t kConfigBytesAsked = 256;

struct ConfigLayout {
  /// Copies for the function on our bus, in their order: power, MSI, vendor-specific, PCI Express,
  /// MSI-X, Advanced Features. Software may change nothing but the byte that resets the function.
  std::vector<bus::PciCapability> capabilities;
  std::optional<uint32_t> msix_bar;  // the BAR that holds the table of MSI-X
};

/// Reads the list of capabilities. A list that runs in a circle, leaves the space, or does not fit
/// into the function on our bus ends there.
ConfigLayout read_layout(std::span<const std::byte, kConfigBytesAsked> config);

}  // namespace dxgkit::vfio
