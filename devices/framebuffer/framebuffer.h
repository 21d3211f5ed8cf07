// The simplest display: a VGA-class PCI function whose BAR 0 is the picture on the screen.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "bus/machine.h"

namespace dxgkit::framebuffer {

inline constexpr uint16_t kVendorId = 0x1D4B;
inline constexpr uint16_t kDeviceId = 0x0FB0;

/// The mode that firmware set. There is no other mode, because no register changes it.
struct FrameBufferConfig {
  uint32_t width = 1024, height = 768;  // pixels, 1..16384
  uint32_t pitch_bytes = 0;             // 0: width * 4; else a multiple of 4, at least that
  uint64_t offset_bytes = 0;            // of the first pixel in BAR 0, a multiple of 4
  /// False for a second card, which firmware did not turn on: drivers find no POST display on it.
  bool is_post_device = true;
};

/// Rows top to bottom without padding, four bytes per pixel: R, G, B, A (always 255).
struct Screen {
  uint32_t width = 0, height = 0;
  std::vector<uint8_t> pixels;
};

/// One device. Plug it in with `machine.add_function(display.function())`. It has no registers, no
/// interrupts and no threads. Any thread. A picture taken while a driver writes may be torn, as on
/// a screen.
class FrameBuffer {
 public:
  /// kInvalidParameter: a size out of range; kNoMemory: no memory for the screen.
  static Result<std::unique_ptr<FrameBuffer>> create(const FrameBufferConfig& config = {});
  ~FrameBuffer();
  FrameBuffer(const FrameBuffer&) = delete;
  FrameBuffer& operator=(const FrameBuffer&) = delete;

  bus::PciFunction& function();
  const FrameBufferConfig& config() const;
  /// The picture on the screen now.
  Screen screen() const;
  /// One pixel as 0xRRGGBB; 0 outside the screen.
  uint32_t pixel(uint32_t x, uint32_t y) const;
  /// Fills the whole screen, as firmware would. `color` is 0xRRGGBB.
  void clear(uint32_t color);

 private:
  struct Impl;
  explicit FrameBuffer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::framebuffer
