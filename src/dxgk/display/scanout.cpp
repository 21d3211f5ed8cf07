#include "dxgk/display/scanout.h"

namespace dxgkit::dxgk {

Scanout picture_of(const std::byte* pixels, const DisplayMode& mode, uint64_t pitch_bytes) {
  Scanout picture;
  picture.width = mode.width;
  picture.height = mode.height;
  picture.pixels.resize(size_t{mode.width} * mode.height * kPixelBytes);
  uint8_t* out = picture.pixels.data();
  for (uint32_t y = 0; y < mode.height; ++y) {
    const auto* in = reinterpret_cast<const uint8_t*>(pixels) + y * pitch_bytes;
    for (uint32_t x = 0; x < mode.width; ++x, in += kPixelBytes, out += kPixelBytes) {
      out[0] = in[2];
      out[1] = in[1];
      out[2] = in[0];
      out[3] = 0xFF;
    }
  }
  return picture;
}

}  // namespace dxgkit::dxgk
