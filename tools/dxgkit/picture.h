// The tool's pictures: 8-bit RGBA in memory, PNG on disk, and one that the tool draws itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

namespace dxgkit::tool {

inline constexpr uint32_t kPixelBytes = 4;
/// The largest width and height accepted from outside: the limit of the devices' image commands.
inline constexpr uint32_t kPictureSideMax = 32768;
/// The largest number of pixels accepted from outside (1 GiB of raw pixels).
inline constexpr uint64_t kPicturePixelsMax = uint64_t{1} << 28;

/// Rows top to bottom without padding, four bytes per pixel: R, G, B, A.
struct Picture {
  uint32_t width = 0, height = 0;
  std::vector<uint8_t> pixels;

  size_t pitch() const { return size_t{width} * kPixelBytes; }
  size_t size_bytes() const { return pitch() * height; }
  bool operator==(const Picture&) const = default;
};

/// Reads any PNG, converted to 8-bit RGBA. The error is one sentence naming the file: missing, not
/// a PNG, truncated or damaged, too large.
std::expected<Picture, std::string> read_png(const std::string& path);

/// The bytes of a PNG file. The error is libpng's.
std::expected<std::string, std::string> encode_png(const Picture& picture);

/// Every nth pixel of every nth row, opaque, with the least n that leaves at most `side_most` of
/// each.
Picture smaller(const Picture& picture, uint32_t side_most);

/// Writes through a temporary file beside `path`, so that a failure leaves no file under that name.
std::expected<void, std::string> write_png(const std::string& path, const Picture& picture);

/// The picture that is used if the user gives none: a shaded landscape with contour lines. The same
/// arguments give the same bytes on every machine (integer arithmetic only).
/// @param width, height  1..kPictureSideMax
Picture draw_picture(uint32_t width, uint32_t height, uint64_t seed);

}  // namespace dxgkit::tool
