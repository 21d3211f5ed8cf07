// What configuration space of a device says of its interrupts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace dxgkit::vfio {

/// The part of configuration space in which capabilities are.
inline constexpr size_t kConfigBytesAsked = 256;

struct ConfigLayout {
  std::optional<uint32_t> msix_bar;  // the BAR that holds the table of MSI-X
  /// The capabilities of MSI and MSI-X: offset and bytes.
  std::vector<std::pair<size_t, size_t>> messages;

  /// True if the range touches one of them.
  bool is_of_messages(size_t offset, size_t bytes) const;
};

/// Reads the list of capabilities. A list that runs in a circle or leaves the space ends there.
ConfigLayout read_layout(std::span<const std::byte, kConfigBytesAsked> config);

}  // namespace dxgkit::vfio
