#include "devices/framebuffer/framebuffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <optional>

#include "base/arithmetic.h"
#include "base/sealed_memory.h"

namespace dxgkit::framebuffer {

namespace {

constexpr uint32_t kPixelBytes = 4;
constexpr uint32_t kSideMax = 16384;

}  // namespace

struct FrameBuffer::Impl {
  ~Impl() {
    function.reset();
    if (memory != nullptr) munmap(memory, bar_bytes);
    if (fd >= 0) close(fd);
  }
  std::byte* row(uint32_t y) const {
    return memory + config.offset_bytes + uint64_t{y} * config.pitch_bytes;
  }

  FrameBufferConfig config;
  uint64_t bar_bytes = 0;
  int fd = -1;
  std::byte* memory = nullptr;
  std::optional<bus::PciFunction> function;
};

FrameBuffer::FrameBuffer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FrameBuffer::~FrameBuffer() = default;

Result<std::unique_ptr<FrameBuffer>> FrameBuffer::create(const FrameBufferConfig& config) {
  auto impl = std::make_unique<Impl>();
  impl->config = config;
  if (config.width == 0 || config.width > kSideMax) return Error(Status::kInvalidParameter);
  if (config.height == 0 || config.height > kSideMax) return Error(Status::kInvalidParameter);
  const uint32_t row_bytes = config.width * kPixelBytes;
  if (config.pitch_bytes == 0) impl->config.pitch_bytes = row_bytes;
  const FrameBufferConfig& own = impl->config;
  constexpr uint32_t kPitchMax = kSideMax * kPixelBytes * 2;
  if (own.pitch_bytes < row_bytes || own.pitch_bytes > kPitchMax) {
    return Error(Status::kInvalidParameter);
  }
  constexpr uint64_t kOffsetMax = uint64_t{1} << 32;
  if (own.pitch_bytes % kPixelBytes != 0 || own.offset_bytes % kPixelBytes != 0 ||
      own.offset_bytes > kOffsetMax) {
    return Error(Status::kInvalidParameter);
  }
  const uint64_t used = own.offset_bytes + uint64_t{own.pitch_bytes} * own.height;
  impl->bar_bytes = std::bit_ceil(std::max<uint64_t>(used, kPageBytes));
  impl->fd = create_sealed_memory("dxgkit-framebuffer", impl->bar_bytes);
  if (impl->fd < 0) return Error(Status::kNoMemory);
  void* mapped = mmap(nullptr, impl->bar_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, impl->fd, 0);
  if (mapped == MAP_FAILED) return Error(Status::kNoMemory);
  impl->memory = static_cast<std::byte*>(mapped);
  bus::Bar bar;
  bar.kind = bus::BarKind::kMemory;
  bar.size = impl->bar_bytes;
  bar.memory = {.fd = impl->fd, .offset = 0, .size = impl->bar_bytes};
  impl->function.emplace(bus::PciIdentity{.vendor_id = kVendorId,
                                          .device_id = kDeviceId,
                                          .subsystem_vendor_id = kVendorId,
                                          .subsystem_id = kDeviceId,
                                          .sub_class = 0x00},  // VGA-compatible controller
                         std::vector<bus::Bar>{bar, bus::Bar{}});
  if (own.is_post_device) {
    impl->function->set_post_display(bus::PostDisplay{.bar = 0,
                                                      .offset_bytes = own.offset_bytes,
                                                      .width = own.width,
                                                      .height = own.height,
                                                      .pitch_bytes = own.pitch_bytes});
  }
  return std::unique_ptr<FrameBuffer>(new FrameBuffer(std::move(impl)));
}

bus::PciFunction& FrameBuffer::function() { return *impl_->function; }
const FrameBufferConfig& FrameBuffer::config() const { return impl_->config; }

Screen FrameBuffer::screen() const {
  Screen screen;
  screen.width = impl_->config.width;
  screen.height = impl_->config.height;
  screen.pixels.resize(size_t{screen.width} * screen.height * kPixelBytes);
  uint8_t* out = screen.pixels.data();
  for (uint32_t y = 0; y < screen.height; ++y) {
    const auto* in = reinterpret_cast<const uint8_t*>(impl_->row(y));
    for (uint32_t x = 0; x < screen.width; ++x, in += kPixelBytes, out += kPixelBytes) {
      out[0] = in[2];
      out[1] = in[1];
      out[2] = in[0];
      out[3] = 0xFF;
    }
  }
  return screen;
}

uint32_t FrameBuffer::pixel(uint32_t x, uint32_t y) const {
  if (x >= impl_->config.width || y >= impl_->config.height) return 0;
  uint32_t value = 0;
  std::memcpy(&value, impl_->row(y) + size_t{x} * kPixelBytes, sizeof value);
  return value & 0xFFFFFF;
}

void FrameBuffer::clear(uint32_t color) {
  for (uint32_t y = 0; y < impl_->config.height; ++y) {
    for (uint32_t x = 0; x < impl_->config.width; ++x)
      std::memcpy(impl_->row(y) + size_t{x} * kPixelBytes, &color, sizeof color);
  }
}

}  // namespace dxgkit::framebuffer
