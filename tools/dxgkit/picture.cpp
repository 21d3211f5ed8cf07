#include "tools/dxgkit/picture.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/dxgkit/files.h"

namespace dxgkit::tool {

namespace {

/// A value for each point of a grid, from the point and the seed alone.
uint32_t hash_point(uint32_t x, uint32_t y, uint64_t seed) {
  uint64_t h = (uint64_t{x} << 32 | y) ^ (seed * 0x9E3779B97F4A7C15U);
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9U;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBU;
  return static_cast<uint32_t>(h >> 40);  // 24 bits
}

/// Smooth noise on a grid of 2^shift pixels: 24-bit values, interpolated with weights 0..256 along
/// a smooth step.
class NoiseRow {
 public:
  NoiseRow(uint32_t width, uint32_t shift, uint64_t seed)
      : shift_(shift), seed_(seed), left_((width >> shift) + 2) {}

  void start_row(uint32_t y) {
    const uint32_t cell = y >> shift_;
    const uint32_t weight = weight_of(y);
    for (uint32_t x = 0; x < left_.size(); ++x) {
      left_[x] = mix(hash_point(x, cell, seed_), hash_point(x, cell + 1, seed_), weight);
    }
  }
  int32_t at(uint32_t x) const {
    return mix(left_[x >> shift_], left_[(x >> shift_) + 1], weight_of(x));
  }

 private:
  uint32_t weight_of(uint32_t position) const {
    const uint32_t t = ((position & ((1U << shift_) - 1)) << 8) >> shift_;  // 0..255
    return (t * t * (768 - 2 * t)) >> 16;                                   // 3t^2 - 2t^3
  }
  static int32_t mix(uint32_t a, uint32_t b, uint32_t weight) {
    return mix(static_cast<int32_t>(a), static_cast<int32_t>(b), weight);
  }
  static int32_t mix(int32_t a, int32_t b, uint32_t weight) {
    return a + static_cast<int32_t>((int64_t{b} - a) * weight / 256);
  }

  uint32_t shift_;
  uint64_t seed_;
  std::vector<int32_t> left_;
};

struct Colour {
  int32_t r, g, b;
};
// Sea, shore, meadow, wood, rock, snow; heights in 1/256 of the range.
struct Band {
  int32_t height;
  Colour colour;
};
constexpr std::array<Band, 8> kBands{{{0, {18, 42, 92}},
                                      {96, {36, 96, 158}},
                                      {112, {222, 206, 152}},
                                      {122, {126, 168, 84}},
                                      {146, {58, 118, 66}},
                                      {168, {112, 98, 84}},
                                      {190, {170, 164, 160}},
                                      {256, {250, 250, 252}}}};

Colour colour_of(int32_t height) {
  for (size_t i = 1; i < kBands.size(); ++i) {
    if (height >= kBands[i].height) continue;
    const Band& low = kBands[i - 1];
    const Band& high = kBands[i];
    const int32_t span = high.height - low.height;
    const int32_t at = height - low.height;
    const auto mix = [&](int32_t a, int32_t b) { return a + (b - a) * at / span; };
    return {mix(low.colour.r, high.colour.r), mix(low.colour.g, high.colour.g),
            mix(low.colour.b, high.colour.b)};
  }
  return kBands.back().colour;
}

}  // namespace

std::expected<Picture, std::string> read_png(const std::string& path) {
  std::expected<std::string, std::string> file = read_file(path);
  if (!file.has_value()) return std::unexpected(file.error());

  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto failure = [&] {
    std::string text = fmt::format("{}: not a readable PNG: {}", path, image.message);
    png_image_free(&image);
    return std::unexpected(std::move(text));
  };
  if (png_image_begin_read_from_memory(&image, file->data(), file->size()) == 0) return failure();
  if (image.width > kPictureSideMax || image.height > kPictureSideMax ||
      uint64_t{image.width} * image.height > kPicturePixelsMax) {
    std::string text =
        fmt::format("{}: {} x {} pixels are too many: at most {} per side and {} in all", path,
                    image.width, image.height, kPictureSideMax, kPicturePixelsMax);
    png_image_free(&image);
    return std::unexpected(std::move(text));
  }
  image.format = PNG_FORMAT_RGBA;
  Picture picture{.width = image.width, .height = image.height, .pixels = {}};
  picture.pixels.resize(picture.size_bytes());
  if (png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr) == 0)
    return failure();
  return picture;
}

std::expected<std::string, std::string> encode_png(const Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = picture.width;
  image.height = picture.height;
  image.format = PNG_FORMAT_RGBA;
  image.flags = PNG_IMAGE_FLAG_FAST;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.pixels.data(), 0,
                                nullptr) == 0) {
    std::string text = image.message;
    png_image_free(&image);
    return std::unexpected(std::move(text));
  }
  bytes.resize(size);
  return bytes;
}

std::expected<void, std::string> write_png(const std::string& path, const Picture& picture) {
  const auto bytes = encode_png(picture);
  if (!bytes.has_value())
    return std::unexpected(fmt::format("{}: cannot encode the picture: {}", path, bytes.error()));
  return write_file(path, *bytes);
}

Picture draw_picture(uint32_t width, uint32_t height, uint64_t seed) {
  Picture picture{.width = width, .height = height, .pixels = {}};
  picture.pixels.resize(picture.size_bytes());

  // Octaves scale with the picture, so that a small one shows the same kind of land.
  uint32_t top = 3;
  while (top < 13 && (1U << (top + 2)) < std::max(width, height)) ++top;
  std::vector<NoiseRow> octaves;
  for (uint32_t i = 0; i < 6 && top - std::min(top, i) >= 2; ++i)
    octaves.emplace_back(width, top - i, seed + i);

  std::vector<int32_t> heights(size_t{width} + 1), above(size_t{width} + 1);
  const auto fill_row = [&](uint32_t y, std::vector<int32_t>& row) {
    for (NoiseRow& octave : octaves) octave.start_row(y);
    for (uint32_t x = 0; x <= width; ++x) {
      int64_t sum = 0;
      int64_t total = 0;
      for (size_t i = 0; i < octaves.size(); ++i) {
        sum += int64_t{octaves[i].at(std::min(x, width - 1))} << (8 - i);
        total += int64_t{1} << (8 - i);
      }
      row[x] = static_cast<int32_t>(sum / total);  // 24 bits
    }
  };
  fill_row(0, above);
  const int32_t relief =
      static_cast<int32_t>(std::max(width, height) / 64 + 1);  // slopes flatten as pictures grow
  for (uint32_t y = 0; y < height; ++y) {
    fill_row(y, heights);
    uint8_t* out = picture.pixels.data() + y * picture.pitch();
    for (uint32_t x = 0; x < width; ++x) {
      const int32_t level = heights[x] >> 16;  // 0..255
      Colour colour = colour_of(level);
      const int32_t slope = (heights[x + 1] - heights[x]) + (heights[x] - above[x]);
      int32_t shade = 256 + static_cast<int32_t>(
                                std::clamp<int64_t>(int64_t{slope} * relief / 24576, -110, 90));
      const int32_t step = heights[x] >> 19;  // a contour line each 8 levels, on land
      if (level >= 112 && (step != above[x] >> 19 || step != heights[x + 1] >> 19)) {
        shade -= 60;
      }
      const auto put = [&](int32_t channel) {
        *out++ = static_cast<uint8_t>(std::clamp(channel * shade / 256, 0, 255));
      };
      put(colour.r);
      put(colour.g);
      put(colour.b);
      *out++ = 255;
    }
    std::swap(heights, above);
  }
  return picture;
}

Picture smaller(const Picture& picture, uint32_t side_most) {
  const uint32_t side = std::max(picture.width, picture.height);
  const uint32_t step = std::max(1U, (side + side_most - 1) / side_most);
  Picture out{.width = (picture.width + step - 1) / step,
              .height = (picture.height + step - 1) / step,
              .pixels = {}};
  out.pixels.reserve(out.size_bytes());
  for (size_t y = 0; y < picture.height; y += step) {
    for (size_t x = 0; x < picture.width; x += step) {
      const uint8_t* const from = picture.pixels.data() + y * picture.pitch() + x * kPixelBytes;
      out.pixels.insert(out.pixels.end(), {from[0], from[1], from[2], 0xFF});
    }
  }
  return out;
}

}  // namespace dxgkit::tool
