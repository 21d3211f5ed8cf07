// The screen: vertical syncs on time, addresses taken at them or at once, interrupts with what is
// shown.
#include <gtest/gtest.h>

#include "devices/softgpu/test_rig.h"

namespace dxgkit::softgpu {
namespace {

using testing::kVram;
using testing::Rig;

constexpr uint64_t kFrame = 64 * 1024;

class SoftGpuScanout : public ::testing::Test {
 protected:
  /// In simulation, with a screen of 4 x 2 pixels that shows nothing yet.
  static void screen(const std::function<void(Rig&)>& body, uint32_t hz = 60) {
    const auto runtime = runtime::make_sim_runtime(1);
    runtime->run_main([&] {
      SoftGpuConfig config;
      config.vram_bytes = 1 << 20;
      config.refresh_hz = hz;
      Rig rig(*runtime, config);
      rig.set32(SGPU_REG_SCANOUT_SIZE, 4 | 2 << 16);
      rig.set32(SGPU_REG_SCANOUT_PITCH, 32);
      rig.set32(SGPU_REG_SCANOUT_CONTROL, SGPU_SCANOUT_ENABLE);
      body(rig);
    });
  }
};

TEST_F(SoftGpuScanout, WithoutAScreenItsRegistersAreSilent) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    Rig rig(*runtime);
    rig.set64(SGPU_REG_SCANOUT_ADDRESS, kVram);
    rig.set32(SGPU_REG_INT_ENABLE, SGPU_INT_ALL | SGPU_INT_VSYNC);
    EXPECT_EQ(rig.get32(SGPU_REG_SCANOUTS), 0U);
    EXPECT_EQ(rig.get64(SGPU_REG_SCANOUT_ADDRESS), 0U);
    EXPECT_EQ(rig.get32(SGPU_REG_INT_ENABLE), SGPU_INT_ALL);
    EXPECT_TRUE(rig.gpu.screen().pixels.empty());
  });
}

TEST_F(SoftGpuScanout, AnAddressIsTakenAtTheNextVerticalSync) {
  screen([](Rig& rig) {
    EXPECT_EQ(rig.get32(SGPU_REG_SCANOUT_REFRESH), 60U);
    const runtime::DurationNs period = runtime::kSecond / 60;
    rig.runtime.sleep_until(period * 3 + period / 2);
    rig.set64(SGPU_REG_SCANOUT_ADDRESS, kVram);
    EXPECT_EQ(rig.get64(SGPU_REG_SCANOUT_SHOWN), 0U);
    rig.runtime.sleep_until(period * 4 - 1);
    EXPECT_EQ(rig.get64(SGPU_REG_SCANOUT_SHOWN), 0U);
    rig.runtime.sleep_until(period * 4 + 1);
    EXPECT_EQ(rig.get64(SGPU_REG_SCANOUT_SHOWN), kVram);
    rig.set64(SGPU_REG_SCANOUT_ADDRESS, (kVram + kFrame) | SGPU_SCANOUT_NOW);
    EXPECT_EQ(rig.get64(SGPU_REG_SCANOUT_SHOWN), kVram + kFrame) << "at once";
    EXPECT_EQ(rig.get32(SGPU_REG_SCANOUT_LINE), 0U);
    rig.runtime.sleep_until(period * 5 - 2);
    EXPECT_EQ(rig.get32(SGPU_REG_SCANOUT_LINE), SGPU_SCANOUT_IN_BLANK);
  });
}

TEST_F(SoftGpuScanout, TheInterruptComesEveryPeriodWhileItIsEnabled) {
  screen([](Rig& rig) {
    const runtime::DurationNs period = runtime::kSecond / 60;
    const auto came = [&] {
      const bool set = (rig.get32(SGPU_REG_INT_STATUS) & SGPU_INT_VSYNC) != 0;
      rig.set32(SGPU_REG_INT_ACK, SGPU_INT_VSYNC);
      return set;
    };
    rig.runtime.sleep_until(period * 2);
    EXPECT_FALSE(came()) << "nobody would notice";
    rig.gpu.function().interrupt_line().connect(nullptr);
    rig.set32(SGPU_REG_INT_ENABLE, SGPU_INT_VSYNC);
    for (int frame = 3; frame < 10; ++frame) {
      rig.runtime.sleep_until(period * frame + 10);
      EXPECT_TRUE(came());
      EXPECT_FALSE(came());
    }
    rig.set32(SGPU_REG_INT_ENABLE, 0);
    static_cast<void>(came());
    rig.runtime.sleep_until(period * 12);
    static_cast<void>(came());  // one may have been under way
    rig.runtime.sleep_until(period * 20);
    EXPECT_FALSE(came());
  });
}

TEST_F(SoftGpuScanout, ThePictureIsWhatMemoryHolds) {
  screen([](Rig& rig) {
    std::vector<ScreenPicture> flips;
    rig.gpu.on_flip([&](const ScreenPicture& picture) { flips.push_back(picture); });
    ASSERT_TRUE(rig.run(
        0, testing::Commands().fill(kVram, 64, 0x00112233).fill(kVram + kFrame, 64, 0x00445566)));
    rig.set64(SGPU_REG_SCANOUT_ADDRESS, kVram | SGPU_SCANOUT_NOW);
    rig.set64(SGPU_REG_SCANOUT_ADDRESS, (kVram + kFrame) | SGPU_SCANOUT_NOW);
    ASSERT_EQ(flips.size(), 2U);
    EXPECT_EQ(flips[0].width, 4U);
    EXPECT_EQ(flips[0].height, 2U);
    EXPECT_EQ(std::vector<uint8_t>(flips[0].pixels.begin(), flips[0].pixels.begin() + 4),
              (std::vector<uint8_t>{0x11, 0x22, 0x33, 0xFF}));
    EXPECT_EQ(flips[1].pixels[0], 0x44);
    EXPECT_EQ(rig.gpu.screen().pixels, flips[1].pixels);
    rig.set64(SGPU_REG_SCANOUT_ADDRESS, (kVram + (1 << 20) - 8) | SGPU_SCANOUT_NOW);
    EXPECT_TRUE(rig.gpu.screen().pixels.empty()) << "beyond the memory there is nothing";
    rig.set32(SGPU_REG_SCANOUT_CONTROL, 0);
    EXPECT_TRUE(rig.gpu.screen().pixels.empty());
  });
}

}  // namespace
}  // namespace dxgkit::softgpu
