// Gamma ramps of sources: what clients asked for, and the table that the driver gets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dxgkit::dxgk {

/// A ramp as D3DDDI_GAMMA_RAMP_RGB256x3x16: red, green, blue.
struct GammaTable {
  static constexpr size_t kEntries = 256;
  std::array<std::array<uint16_t, kEntries>, 3> colours{};
  bool operator==(const GammaTable&) const = default;

  /// Changes nothing: entry i is i of 255.
  static GammaTable identity();
  std::vector<std::byte> bytes() const;
};

/// Red, green, blue, where 1 is full: D3DDDI_DXGI_RGB.
using Colour = std::array<float, 3>;

/// D3DDDI_GAMMA_RAMP_DXGI_1: a curve of 1025 points, then a scale and an offset. Points between
/// those of the curve are on a line. `curve` has `points` elements, at least two.
GammaTable table_of_curve(const Colour& scale, const Colour& offset, const Colour* curve,
                          size_t points);
/// Each value times `scale`, plus `offset`, inside the range.
GammaTable adjusted(const GammaTable& table, const Colour& scale, const Colour& offset);

/// The ramp of one source.
struct Gamma {
  bool is_default = true;  // no ramp was set
  GammaTable ramp = GammaTable::identity();
  Colour scale = {1, 1, 1}, offset = {0, 0, 0};  // D3DKMTAdjustFullscreenGamma
  bool operator==(const Gamma&) const = default;

  /// Nothing differs from the hardware's own ramp.
  bool changes_nothing() const {
    return is_default && scale == Colour{1, 1, 1} && offset == Colour{0, 0, 0};
  }
};

}  // namespace dxgkit::dxgk
