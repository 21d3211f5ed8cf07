// Pictures of what is on a screen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dxgk/display/display_types.h"

namespace dxgkit::dxgk {

/// What a source shows. Rows top to bottom, no padding: R, G, B, A (255).
struct Scanout {
  uint32_t width = 0, height = 0;
  std::vector<uint8_t> pixels;
};

/// Bytes per pixel of what the kernel shows: blue, green, red, unused.
inline constexpr uint32_t kPixelBytes = 4;

/// Copies `pixels`: mode.height rows, `pitch_bytes` (at least mode.width * kPixelBytes) apart.
Scanout picture_of(const std::byte* pixels, const DisplayMode& mode, uint64_t pitch_bytes);

}  // namespace dxgkit::dxgk
