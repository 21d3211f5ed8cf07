#include "dxgk/display/pointer.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint32_t kPointerPitchMax = 1U << 16;
/// Bits of DXGK_POINTERFLAGS.
constexpr uint32_t kPointerMonochrome = 1, kPointerColor = 2, kPointerMaskedColor = 4;

}  // namespace

Status Pointer::set_shape(const port::PointerShape& shape) {
  const DisplayLock lock(display_);
  if (!core_.running()) return Status::kDeviceRemoved;
  const port::DisplayCaps caps = port::display_caps_of(core_.caps(), core_.interface_version());
  uint32_t needed_flag = kPointerColor;
  if (shape.format == port::PointerShape::Format::kMonochrome) needed_flag = kPointerMonochrome;
  if (shape.format == port::PointerShape::Format::kMaskedColor) needed_flag = kPointerMaskedColor;
  if ((caps.pointer_flags & needed_flag) == 0) return Status::kNotSupported;
  if (!display_.has_source(shape.source)) return Status::kInvalidParameter;
  if (shape.width > caps.max_pointer_width) return Status::kInvalidParameter;
  if (shape.height > caps.max_pointer_height) return Status::kInvalidParameter;
  // A monochrome pointer is an AND mask above an XOR mask, one bit per pixel.
  const bool monochrome = shape.format == port::PointerShape::Format::kMonochrome;
  const uint64_t row = monochrome ? (uint64_t{shape.width} + 7) / 8 : uint64_t{shape.width} * 4;
  const uint64_t rows = monochrome ? uint64_t{shape.height} * 2 : shape.height;
  if (shape.pitch_bytes < row || shape.pitch_bytes > kPointerPitchMax)
    return Status::kInvalidParameter;
  if (shape.pixels.size() < uint64_t{shape.pitch_bytes} * (rows - 1) + row)
    return Status::kInvalidParameter;
  // The hot spot is a pixel of the pointer, so an empty pointer is refused, too.
  if (shape.hot_x >= shape.width || shape.hot_y >= shape.height) return Status::kInvalidParameter;
  // A driver may refuse a shape without a finding: the client then draws the pointer in software.
  return core_.port().scanout().set_pointer_shape(shape);
}

Status Pointer::set_position(uint32_t source, int32_t x, int32_t y, bool visible) {
  const DisplayLock lock(display_);
  if (!core_.running()) return Status::kDeviceRemoved;
  const port::DisplayCaps caps = port::display_caps_of(core_.caps(), core_.interface_version());
  if (caps.pointer_flags == 0) return Status::kNotSupported;
  if (!display_.has_source(source)) return Status::kInvalidParameter;
  return core_.port().scanout().set_pointer_position(source, x, y, visible);
}

}  // namespace dxgkit::dxgk
