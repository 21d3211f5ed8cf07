#include "tools/dxgkit/plan.h"

#include <algorithm>
#include <bit>

#include "base/arithmetic.h"
#include "base/check.h"
#include "miniports/softgpu/softgpu_umd.h"

namespace dxgkit::tool {
namespace {

/// `rect` with `halo` more pixels on each side, as far as the picture goes.
Rect grown(const Rect& rect, uint32_t halo, uint32_t width, uint32_t height) {
  const uint32_t left = rect.x - std::min(rect.x, halo);
  const uint32_t top = rect.y - std::min(rect.y, halo);
  return {.x = left,
          .y = top,
          .width = std::min(width, rect.x + rect.width + halo) - left,
          .height = std::min(height, rect.y + rect.height + halo) - top};
}

constexpr uint32_t half(uint32_t pixels) { return (pixels + 1) / 2; }

}  // namespace

uint64_t surface_bytes(uint32_t width, uint32_t height, uint64_t page_bytes) {
  const uint64_t pitch = align_up(uint64_t{width} * kPixelBytes, SGPU_UMD_PITCH_ALIGNMENT);
  return align_up(pitch * height, page_bytes);
}

Plan make_plan(uint32_t width, uint32_t height, uint32_t tile_side, uint64_t page_bytes) {
  DXGKIT_CHECK(width >= 1 && width <= kPictureSideMax && height >= 1 && height <= kPictureSideMax);
  Plan plan{.width = width, .height = height, .tile_side = tile_side, .tiles = {}};
  if (plan.tile_side == 0)
    plan.tile_side = std::clamp(std::bit_ceil(std::max(width, height)) / 8, 64U, 512U);
  DXGKIT_CHECK(plan.tile_side >= 2 && plan.tile_side % 2 == 0);

  for (uint32_t y = 0; y < height; y += plan.tile_side) {
    for (uint32_t x = 0; x < width; x += plan.tile_side) {
      Tile tile;
      tile.edges = {.x = x,
                    .y = y,
                    .width = std::min(plan.tile_side, width - x),
                    .height = std::min(plan.tile_side, height - y)};
      tile.blurred = grown(tile.edges, kEdgeHalo, width, height);
      tile.source = grown(tile.blurred, kBlurHalo, width, height);
      tile.result = {.x = x / 2,
                     .y = y / 2,
                     .width = half(tile.edges.width),
                     .height = half(tile.edges.height)};
      const auto bytes = [&](const Rect& rect) {
        return surface_bytes(rect.width, rect.height, page_bytes);
      };
      const uint64_t source = bytes(tile.source);
      const uint64_t blurred = bytes(tile.blurred);
      const uint64_t edges = bytes(tile.edges);
      const uint64_t result = bytes(tile.result);
      const uint64_t checksum = page_bytes;
      plan.working_set_bytes += source + blurred + edges + result + checksum;
      plan.vram_least_bytes = std::max(
          {plan.vram_least_bytes, source + blurred, blurred + edges, edges + result + checksum});
      plan.tiles.push_back(tile);
    }
  }
  return plan;
}

softgpu::reference::Filter blur_filter() {
  return softgpu::reference::gauss_filter(2 * kBlurHalo + 1);
}
softgpu::reference::Filter edge_filter() { return softgpu::reference::sobel_filter(); }

Picture reference_result(const Picture& source) {
  using softgpu::reference::Image;
  const Image image{.width = source.width, .height = source.height, .rgba = source.pixels};
  Image edges = softgpu::reference::convolve(softgpu::reference::convolve(image, blur_filter()),
                                             edge_filter());
  Image result = softgpu::reference::downscale(edges);
  return {.width = result.width, .height = result.height, .pixels = std::move(result.rgba)};
}

uint64_t reference_checksum(const Picture& result, const Rect& part) {
  std::vector<uint8_t> rows;
  rows.reserve(size_t{part.width} * part.height * kPixelBytes);
  for (uint32_t y = 0; y < part.height; ++y) {
    const uint8_t* row =
        result.pixels.data() + (size_t{part.y} + y) * result.pitch() + size_t{part.x} * kPixelBytes;
    rows.insert(rows.end(), row, row + size_t{part.width} * kPixelBytes);
  }
  return softgpu::reference::checksum_fnv1a64(rows);
}

}  // namespace dxgkit::tool
