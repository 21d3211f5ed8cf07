#include "dxgk/display/gamma.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dxgkit::dxgk {
namespace {

constexpr float kFull = 65535.0F;

uint16_t value_of(float level) {
  // A level that is no number counts as 0.
  const float inside = level > 0 ? std::min(level, 1.0F) : 0.0F;
  return static_cast<uint16_t>(std::lround(inside * kFull));
}

}  // namespace

GammaTable GammaTable::identity() {
  GammaTable table;
  for (auto& colour : table.colours) {
    for (size_t i = 0; i < kEntries; ++i) colour[i] = static_cast<uint16_t>(i * 257);
  }
  return table;
}

std::vector<std::byte> GammaTable::bytes() const {
  std::vector<std::byte> result(sizeof colours);
  std::memcpy(result.data(), &colours, sizeof colours);
  return result;
}

GammaTable table_of_curve(const Colour& scale, const Colour& offset, const Colour* curve,
                          size_t points) {
  GammaTable table;
  for (size_t i = 0; i < GammaTable::kEntries; ++i) {
    const size_t at = i * (points - 1), below = at / (GammaTable::kEntries - 1);
    const float part = static_cast<float>(at % (GammaTable::kEntries - 1)) /
                       static_cast<float>(GammaTable::kEntries - 1);
    const size_t above = std::min(below + 1, points - 1);
    for (size_t colour = 0; colour < 3; ++colour) {
      const float level = curve[below][colour] * (1 - part) + curve[above][colour] * part;
      table.colours[colour][i] = value_of(level * scale[colour] + offset[colour]);
    }
  }
  return table;
}

GammaTable adjusted(const GammaTable& table, const Colour& scale, const Colour& offset) {
  GammaTable result;
  for (size_t colour = 0; colour < 3; ++colour) {
    for (size_t i = 0; i < GammaTable::kEntries; ++i) {
      result.colours[colour][i] = value_of(
          static_cast<float>(table.colours[colour][i]) / kFull * scale[colour] + offset[colour]);
    }
  }
  return result;
}

}  // namespace dxgkit::dxgk
