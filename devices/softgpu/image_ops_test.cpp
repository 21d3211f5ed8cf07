#include "devices/softgpu/image_ops.h"

#include <gtest/gtest.h>

#include "devices/softgpu/reference.h"
#include "devices/softgpu/test_rig.h"

namespace dxgkit::softgpu {
namespace {

using testing::Lcg;

SgpuConvolve command_for(const reference::Image& image, const reference::Filter& filter) {
  SgpuConvolve command{};
  command.source_pitch = image.width * 4;
  command.destination_pitch = image.width * 4;
  command.source_width = image.width;
  command.source_height = image.height;
  command.output_width = image.width;
  command.output_height = image.height;
  command.kernel_width = filter.width;
  command.kernel_height = filter.height;
  command.divisor = filter.divisor;
  command.bias = filter.bias;
  if (filter.magnitude == reference::Magnitude::kAbsolute) command.flags |= SGPU_CONVOLVE_ABS;
  if (filter.magnitude == reference::Magnitude::kGradient) command.flags |= SGPU_CONVOLVE_GRADIENT;
  if (filter.alpha == reference::Alpha::kKeep) command.flags |= SGPU_CONVOLVE_KEEP_ALPHA;
  std::ranges::copy(filter.weights, command.kernel);
  std::ranges::copy(filter.second_weights, command.kernel2);
  return command;
}

reference::Image run(const reference::Image& image, const SgpuConvolve& command) {
  Convolver convolver(command, reinterpret_cast<const std::byte*>(image.rgba.data()));
  reference::Image out{command.output_width, command.output_height, {}};
  out.rgba.resize(size_t{out.width} * out.height * 4);
  for (uint32_t y = 0; y < out.height; ++y) {
    convolver.next_row(reinterpret_cast<std::byte*>(out.rgba.data()) + size_t{y} * out.width * 4);
  }
  return out;
}

reference::Image noise(uint32_t width, uint32_t height, uint64_t seed) {
  return {width, height, Lcg(seed).bytes(size_t{width} * height * 4)};
}

// The filters the tool offers, on sizes around every vector and tile edge.
TEST(ImageOps, NamedFiltersEqualTheReference) {
  const std::vector<reference::Filter> filters = {
      reference::box_filter(1),   reference::box_filter(3),   reference::box_filter(5),
      reference::box_filter(7),   reference::gauss_filter(3), reference::gauss_filter(5),
      reference::gauss_filter(7), reference::sobel_filter()};
  for (const auto& [width, height] : std::vector<std::pair<uint32_t, uint32_t>>{{1, 1},
                                                                                {2, 1},
                                                                                {1, 2},
                                                                                {3, 3},
                                                                                {5, 2},
                                                                                {2, 9},
                                                                                {17, 5},
                                                                                {127, 3},
                                                                                {128, 4},
                                                                                {129, 4},
                                                                                {300, 7}}) {
    const reference::Image image = noise(width, height, width * 31 + height);
    for (const auto& filter : filters) {
      SCOPED_TRACE(::testing::Message() << width << "x" << height << " kernel " << filter.width);
      EXPECT_EQ(run(image, command_for(image, filter)), reference::convolve(image, filter));
    }
  }
}

// Random kernels with extreme weights, divisors and biases; random output rectangles: exact to the
// byte.
TEST(ImageOps, RandomKernelsEqualTheReference) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Lcg random(seed);
    const auto image = noise(static_cast<uint32_t>(1 + random.below(40)),
                             static_cast<uint32_t>(1 + random.below(20)), seed);
    reference::Filter filter;
    filter.width = static_cast<uint32_t>(1 + 2 * random.below(4));
    filter.height = static_cast<uint32_t>(1 + 2 * random.below(4));
    const uint64_t spread = seed % 3 == 0 ? 65536 : 17;
    for (uint32_t i = 0; i < filter.width * filter.height; ++i) {
      filter.weights.push_back(static_cast<int16_t>(random.below(spread) - spread / 2));
      filter.second_weights.push_back(static_cast<int16_t>(random.below(spread) - spread / 2));
    }
    const uint64_t divisors[] = {
        1, 2, 3, 7, 255, 65535, SGPU_DIVISOR_MAX, 1 + random.below(SGPU_DIVISOR_MAX)};
    filter.divisor = static_cast<int32_t>(divisors[random.below(std::size(divisors))]);
    filter.bias = static_cast<int32_t>(random.below(511)) - 255;
    filter.magnitude = static_cast<reference::Magnitude>(random.below(3));
    filter.alpha = static_cast<reference::Alpha>(random.below(2));
    SgpuConvolve command = command_for(image, filter);
    command.output_x = static_cast<uint32_t>(random.below(image.width));
    command.output_y = static_cast<uint32_t>(random.below(image.height));
    command.output_width = static_cast<uint32_t>(1 + random.below(image.width - command.output_x));
    command.output_height =
        static_cast<uint32_t>(1 + random.below(image.height - command.output_y));
    EXPECT_EQ(run(image, command),
              reference::convolve_part(image, filter, command.output_x, command.output_y,
                                       command.output_width, command.output_height));
  }
}

// Sums at both ends of their range, where a 16-bit or rounded intermediate would show.
TEST(ImageOps, ExtremeSumsAreExact) {
  reference::Image white{3, 3, std::vector<uint8_t>(36, 255)};
  for (const int16_t weight : {int16_t{-32768}, int16_t{32767}}) {
    for (const int32_t divisor : {1, 1'606'000, SGPU_DIVISOR_MAX}) {
      for (const int32_t bias : {-255, 0, 255}) {
        for (const auto magnitude :
             {reference::Magnitude::kSigned, reference::Magnitude::kGradient}) {
          reference::Filter filter;
          filter.width = filter.height = 7;
          filter.weights.assign(49, weight);
          filter.second_weights.assign(49, weight);
          filter.divisor = divisor;
          filter.bias = bias;
          filter.magnitude = magnitude;
          EXPECT_EQ(run(white, command_for(white, filter)), reference::convolve(white, filter));
        }
      }
    }
  }
}

// A filter applied tile by tile, each tile with its halo, gives the image filtered at once.
TEST(ImageOps, TilesWithHaloEqualTheWhole) {
  const auto image = noise(64, 48, 5);
  const auto filter = reference::gauss_filter(5);
  const auto whole = reference::convolve(image, filter);
  constexpr uint32_t kTile = 16;
  constexpr uint32_t kHalo = 2;
  for (uint32_t y = 0; y < image.height; y += kTile) {
    for (uint32_t x = 0; x < image.width; x += kTile) {
      const uint32_t left = x >= kHalo ? kHalo : 0;
      const uint32_t top = y >= kHalo ? kHalo : 0;
      SgpuConvolve command = command_for(image, filter);
      command.source_width = std::min(image.width, x + kTile + kHalo) - (x - left);
      command.source_height = std::min(image.height, y + kTile + kHalo) - (y - top);
      command.output_x = left;
      command.output_y = top;
      command.output_width = kTile;
      command.output_height = kTile;
      const auto* source = reinterpret_cast<const std::byte*>(image.rgba.data()) +
                           size_t{y - top} * command.source_pitch + size_t{x - left} * 4;
      Convolver convolver(command, source);
      std::vector<uint8_t> row(kTile * 4);
      for (uint32_t j = 0; j < kTile; ++j) {
        convolver.next_row(reinterpret_cast<std::byte*>(row.data()));
        const auto* expected = whole.rgba.data() + (size_t{y + j} * image.width + x) * 4;
        ASSERT_EQ(std::memcmp(row.data(), expected, row.size()), 0) << x << "," << y + j;
      }
    }
  }
}

TEST(ImageOps, DownscaleEqualsTheReference) {
  for (uint32_t width = 1; width <= 19; ++width) {
    for (uint32_t height = 1; height <= 5; ++height) {
      const auto image = noise(width, height, width * 7 + height);
      reference::Image out{(width + 1) / 2, (height + 1) / 2, {}};
      out.rgba.resize(size_t{out.width} * out.height * 4);
      const auto* source = reinterpret_cast<const std::byte*>(image.rgba.data());
      for (uint32_t y = 0; y < out.height; ++y) {
        downscale_row(source + size_t{2 * y} * width * 4,
                      source + size_t{std::min(2 * y + 1, height - 1)} * width * 4, width,
                      reinterpret_cast<std::byte*>(out.rgba.data()) + size_t{y} * out.width * 4);
      }
      EXPECT_EQ(out, reference::downscale(image)) << width << "x" << height;
    }
  }
}

TEST(ImageOps, ChecksumsEqualTheReferenceAndKnownValues) {
  // Published test vectors of FNV-1a, 64 bits: "" and "foobar".
  EXPECT_EQ(reference::checksum_fnv1a64({}), 0xcbf29ce484222325u);
  const std::vector<uint8_t> foobar = {'f', 'o', 'o', 'b', 'a', 'r'};
  EXPECT_EQ(reference::checksum_fnv1a64(foobar), 0x85944171f73967e8u);
  for (const size_t size : {0u, 1u, 7u, 63u, 4097u}) {
    const auto bytes = Lcg(size).bytes(size);
    const auto* raw = reinterpret_cast<const std::byte*>(bytes.data());
    EXPECT_EQ(fnv1a64(kFnvOffset, raw, size), reference::checksum_fnv1a64(bytes));
    EXPECT_EQ(sum_bytes(raw, size), reference::checksum_sum64(bytes));
  }
}

TEST(ImageOps, NamedFiltersKeepAFlatImageFlat) {
  reference::Image grey{9, 9, std::vector<uint8_t>(9 * 9 * 4, 77)};
  for (const uint32_t side : {3u, 5u, 7u}) {
    EXPECT_EQ(reference::convolve(grey, reference::box_filter(side)), grey);
    EXPECT_EQ(reference::convolve(grey, reference::gauss_filter(side)), grey);
  }
  const auto edges = reference::convolve(grey, reference::sobel_filter());
  for (size_t i = 0; i < edges.rgba.size(); ++i) EXPECT_EQ(edges.rgba[i], i % 4 == 3 ? 77 : 0);
}

}  // namespace
}  // namespace dxgkit::softgpu
