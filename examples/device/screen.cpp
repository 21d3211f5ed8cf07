// A device model as a plug-in: a screen whose frame buffer is BAR 0. A display-only driver draws on
// it. When the machine goes down, it tells how many pixels the driver has left lit.
//
//     dxgkit run --driver framebuffer.sys --device ./screen.so,width=320
#include <dxgkit/device.h>

#include <charconv>
#include <cstdio>
#include <string_view>

namespace {

constexpr uint32_t kRows = 480, kWidthMost = 1024;

class Screen final : public dxgkit::Device {
 public:
  static constexpr const char* kSummary = "a screen of 480 rows in BAR 0";
  static constexpr DxgkitDeviceOption kOptions[] = {
      {"width", "PIXELS", "pixels of a row, 64 to 1024 (640)"}};

  static std::optional<std::string> check(dxgkit::DeviceSettings settings) {
    if (width_of(settings) != 0) return std::nullopt;
    return "width: a number of pixels from 64 to 1024";
  }
  static Made make(const dxgkit::DeviceHost&, dxgkit::DeviceSettings settings) {
    return std::make_unique<Screen>(width_of(settings));
  }

  explicit Screen(uint32_t width) : width_(width) {}
  ~Screen() override {
    size_t lit = 0;
    for (uint32_t i = 0; i < width_ * kRows; ++i) lit += pixels_[i] != 0;
    std::printf("screen: %u x %u, %zu pixels are lit\n", width_, kRows, lit);
  }

  std::optional<std::string> describe(uint32_t, DxgkitDeviceFunction& out) override {
    out.vendor_id = 0x1D4B;
    out.device_id = 0x5C4E;
    out.base_class = 0x03;  // display controller
    out.bars[0].kind = DXGKIT_DEVICE_BAR_MEMORY;
    out.bars[0].size_bytes = 2u << 20;  // kWidthMost * kRows pixels of four bytes
    out.post_display = {width_, kRows, width_ * 4, /*bar=*/0, /*offset_bytes=*/0};
    return std::nullopt;
  }
  void memory(uint32_t, uint32_t, std::span<std::byte> view) override {
    pixels_ = reinterpret_cast<const uint32_t*>(view.data());
  }

 private:
  /// 0: the value is wrong.
  static uint32_t width_of(dxgkit::DeviceSettings settings) {
    uint32_t width = 640;
    for (const DxgkitDeviceSetting& setting : settings) {  // there is only one
      const std::string_view text = setting.value;
      const auto end = std::from_chars(text.data(), text.data() + text.size(), width);
      if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return 0;
    }
    return width < 64 || width > kWidthMost ? 0 : width;
  }

  const uint32_t width_;
  const uint32_t* pixels_ = nullptr;
};

}  // namespace

DXGKIT_DEVICE_PLUGIN(Screen)
