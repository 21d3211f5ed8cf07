#include "devices/framebuffer/device.h"

#include <array>

#include "devices/framebuffer/framebuffer.h"

namespace dxgkit::framebuffer {
namespace {

class FrameBufferDevice final : public bus::Device, private bus::DeviceScreen {
 public:
  explicit FrameBufferDevice(std::unique_ptr<FrameBuffer> display) : display_(std::move(display)) {
    functions_ = {&display_->function()};
  }
  std::span<bus::PciFunction* const> functions() override { return functions_; }
  bus::DeviceScreen* screen() override { return this; }

 private:
  bus::ScreenImage image() override {
    Screen screen = display_->screen();
    return {screen.width, screen.height, std::move(screen.pixels)};
  }
  // The screen shows every write at once, so there are no flips.
  void on_flip(std::function<void(const bus::ScreenImage&)>) override {}

  const std::unique_ptr<FrameBuffer> display_;
  std::array<bus::PciFunction*, 1> functions_{};
};

std::expected<FrameBufferConfig, std::string> read_config(const bus::DeviceOptions& options) {
  FrameBufferConfig config;
  const struct {
    const char* name;
    uint32_t* to;
    uint64_t least, most;
  } numbers[] = {{"width", &config.width, 1, 16384},
                 {"height", &config.height, 1, 16384},
                 {"pitch", &config.pitch_bytes, 4, 131072}};
  for (const auto& number : numbers) {
    const auto value = options.number(number.name, *number.to, number.least, number.most);
    if (!value.has_value()) return std::unexpected(value.error());
    *number.to = static_cast<uint32_t>(*value);
  }
  if (config.pitch_bytes % 4 != 0 ||
      (config.pitch_bytes != 0 && config.pitch_bytes < config.width * 4))
    return std::unexpected("pitch: a multiple of 4, at least 4 bytes per pixel of a row");
  const auto post = options.on_off("post", true);
  if (!post.has_value()) return std::unexpected(post.error());
  config.is_post_device = *post;
  return config;
}

}  // namespace

bus::DeviceType device_type() {
  bus::DeviceType type;
  type.name = "framebuffer";
  type.summary = "a display of the plainest kind: what is written into BAR 0 is on the screen";
  type.ids = {{kVendorId, kDeviceId}};
  type.options = {{"width", "PIXELS", "of the mode that firmware set (1024)"},
                  {"height", "PIXELS", "of that mode (768)"},
                  {"pitch", "BYTES", "from row to row (4 * width)"},
                  {"post", "on|off", "whether firmware set a mode on this card (on)"}};
  type.configure =
      [](const bus::DeviceOptions& options) -> std::expected<bus::DeviceMaker, std::string> {
    const auto config = read_config(options);
    if (!config.has_value()) return std::unexpected(config.error());
    return [config = *config](
               const bus::DeviceHost&) -> std::expected<std::unique_ptr<bus::Device>, std::string> {
      auto made = FrameBuffer::create(config);
      if (!made.has_value()) return std::unexpected("there is no memory for the frame buffer");
      return std::make_unique<FrameBufferDevice>(std::move(*made));
    };
  };
  return type;
}

}  // namespace dxgkit::framebuffer
