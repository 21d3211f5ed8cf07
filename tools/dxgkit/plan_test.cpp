#include "tools/dxgkit/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

namespace dxgkit::tool {
namespace {

using softgpu::reference::Image;

Image cut(const Picture& picture, const Rect& rect) {
  Image image{.width = rect.width, .height = rect.height, .rgba = {}};
  for (uint32_t y = 0; y < rect.height; ++y) {
    const auto row = picture.pixels.begin() +
                     static_cast<ptrdiff_t>((rect.y + y) * picture.pitch() + rect.x * kPixelBytes);
    image.rgba.insert(image.rgba.end(), row,
                      row + static_cast<ptrdiff_t>(rect.width * kPixelBytes));
  }
  return image;
}

class PlanOfSize : public ::testing::TestWithParam<std::tuple<uint32_t, uint32_t, uint32_t>> {};

// Tiles with their halos, each taken through the chain alone, give the bytes of the whole picture:
// the halos are wide enough and the picture's edges are treated alike. Sizes cover odd ones, one
// pixel, a last tile thinner than the halo, and a single tile.
TEST_P(PlanOfSize, TilesAddUpToTheWholePicture) {
  const auto [width, height, side] = GetParam();
  const Picture source = draw_picture(width, height, 7);
  const Picture expected = reference_result(source);
  const Plan plan = make_plan(width, height, side);
  Picture result{.width = expected.width,
                 .height = expected.height,
                 .pixels = std::vector<uint8_t>(expected.size_bytes())};
  for (const Tile& tile : plan.tiles) {
    const Image blurred = softgpu::reference::convolve_part(
        cut(source, tile.source), blur_filter(), tile.blurred.x - tile.source.x,
        tile.blurred.y - tile.source.y, tile.blurred.width, tile.blurred.height);
    const Image edges = softgpu::reference::convolve_part(
        blurred, edge_filter(), tile.edges.x - tile.blurred.x, tile.edges.y - tile.blurred.y,
        tile.edges.width, tile.edges.height);
    const Image small = softgpu::reference::downscale(edges);
    ASSERT_EQ(small.width, tile.result.width);
    ASSERT_EQ(small.height, tile.result.height);
    EXPECT_EQ(softgpu::reference::checksum_fnv1a64(small.rgba),
              reference_checksum(expected, tile.result));
    for (uint32_t y = 0; y < small.height; ++y) {
      std::copy_n(
          small.rgba.begin() + static_cast<ptrdiff_t>(y * small.width * kPixelBytes),
          small.width * kPixelBytes,
          result.pixels.begin() + static_cast<ptrdiff_t>((tile.result.y + y) * result.pitch() +
                                                         tile.result.x * kPixelBytes));
    }
  }
  EXPECT_TRUE(result == expected);
}

INSTANTIATE_TEST_SUITE_P(Sizes, PlanOfSize,
                         ::testing::Values(std::tuple(1U, 1U, 64U), std::tuple(7U, 3U, 2U),
                                           std::tuple(64U, 64U, 64U), std::tuple(65U, 66U, 64U),
                                           std::tuple(130U, 67U, 32U), std::tuple(37U, 101U, 16U)));

// The default cut: 64 tiles of 512 for the drawn picture, so that a quarter of the working set is
// far more than one submission needs.
TEST(Plan, DefaultPictureLeavesRoomInAQuarterOfItsWorkingSet) {
  const Plan large = make_plan(4096, 4096);
  EXPECT_EQ(large.tile_side, 512U);
  EXPECT_EQ(large.tiles.size(), 64U);
  EXPECT_GT(large.working_set_bytes / 4, 8 * large.vram_least_bytes);
  const Plan small = make_plan(256, 256);
  EXPECT_EQ(small.tile_side, 64U);
  EXPECT_EQ(small.tiles.size(), 16U);
  EXPECT_GT(small.working_set_bytes / 4, 4 * small.vram_least_bytes);
}

}  // namespace
}  // namespace dxgkit::tool
