// The EDID that the device gives for a list of sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dxgkit::virtiogpu {

struct Mode {
  uint32_t width = 0, height = 0;  // pixels: even, kModeLeast to kModeMost
  bool operator==(const Mode&) const = default;
};

inline constexpr uint32_t kModeLeast = 64, kModeMost = 4094;  // 12 bits of a detailed timing
inline constexpr size_t kModesMost = 8;

/// EDID 1.4 of a monitor with these modes at 60 Hz, one to kModesMost, the preferred one first.
/// More than two take an extension block (CTA-861).
std::vector<uint8_t> make_edid(std::span<const Mode> modes, uint32_t scanout);

}  // namespace dxgkit::virtiogpu
