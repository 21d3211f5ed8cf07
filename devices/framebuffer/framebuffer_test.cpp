// The device alone: where its pixels lie on the bus, and what it takes for a mode.
#include "devices/framebuffer/framebuffer.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/runtime.h"

namespace dxgkit::framebuffer {
namespace {

class FrameBufferTest : public ::testing::Test {
 protected:
  static void in_runtime(const std::function<void()>& body) {
    runtime::make_sim_runtime(1)->run_main(body);
  }
};

TEST_F(FrameBufferTest, APixelWrittenThroughTheBusIsOnTheScreen) {
  in_runtime([] {
    bus::Machine machine(1 << 20);
    auto made = FrameBuffer::create({.width = 64, .height = 32, .pitch_bytes = 320});
    ASSERT_TRUE(made.has_value());
    FrameBuffer& display = **made;
    ASSERT_EQ(machine.add_function(display.function()), Status::kSuccess);
    const bus::Bar& bar = display.function().bars()[0];
    auto* pixels = static_cast<std::byte*>(machine.map_io(bar.base, bar.size));
    ASSERT_NE(pixels, nullptr);
    const uint32_t color = 0x00112233;
    std::memcpy(pixels + 5 * 320 + 7 * 4, &color, sizeof color);
    EXPECT_EQ(display.pixel(7, 5), 0x112233U);
    const Screen screen = display.screen();
    const uint8_t* out = screen.pixels.data() + (5 * 64 + 7) * 4;
    EXPECT_EQ(out[0], 0x11);
    EXPECT_EQ(out[1], 0x22);
    EXPECT_EQ(out[2], 0x33);
    EXPECT_EQ(out[3], 0xFF);
    EXPECT_EQ(display.pixel(64, 0), 0U);
    EXPECT_TRUE(machine.unmap_io(pixels, bar.size));
  });
}

TEST_F(FrameBufferTest, FirmwareLeftItsModeOnThePostDeviceOnly) {
  in_runtime([] {
    auto post = FrameBuffer::create({.width = 800, .height = 600, .offset_bytes = 4096});
    ASSERT_TRUE(post.has_value());
    const auto display = (*post)->function().post_display();
    ASSERT_TRUE(display.has_value());
    EXPECT_EQ(display->width, 800U);
    EXPECT_EQ(display->height, 600U);
    EXPECT_EQ(display->pitch_bytes, 3200U);
    EXPECT_EQ(display->offset_bytes, 4096U);
    auto second = FrameBuffer::create({.is_post_device = false});
    ASSERT_TRUE(second.has_value());
    EXPECT_FALSE((*second)->function().post_display().has_value());
  });
}

TEST_F(FrameBufferTest, RefusesModesThatCannotBe) {
  in_runtime([] {
    const FrameBufferConfig bad[] = {
        {.width = 0},
        {.height = 0},
        {.width = 16385},
        {.height = 16385},
        {.width = 64, .pitch_bytes = 255},
        {.width = 64, .pitch_bytes = 258},
        {.width = 64, .pitch_bytes = UINT32_MAX - 3},
        {.offset_bytes = 2},
        {.offset_bytes = UINT64_MAX - 3},
    };
    for (const FrameBufferConfig& config : bad) {
      const auto made = FrameBuffer::create(config);
      ASSERT_FALSE(made.has_value());
      EXPECT_EQ(made.error(), Status::kInvalidParameter);
    }
  });
}

}  // namespace
}  // namespace dxgkit::framebuffer
