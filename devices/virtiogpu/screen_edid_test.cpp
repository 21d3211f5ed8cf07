// The kernel's reader understands what the device writes.
#include "devices/virtiogpu/screen_edid.h"

#include <gtest/gtest.h>

#include "vidpn/edid.h"

namespace dxgkit::virtiogpu {
namespace {

TEST(Edid, NamesTheModes) {
  const std::vector<Mode> all = {{1280, 800}, {1920, 1080}, {640, 480},   {64, 64},   {4094, 4094},
                                 {1024, 768}, {800, 600},   {2560, 1440}, {720, 400}, {1600, 900}};
  ASSERT_EQ(all.size(), kModesMost);
  for (size_t count = 1; count <= all.size(); ++count) {
    const std::vector<Mode> modes(all.begin(), all.begin() + static_cast<ptrdiff_t>(count));
    const std::vector<uint8_t> bytes = make_edid(modes, 3);
    ASSERT_EQ(bytes.size(), count > 2 ? 256U : 128U);
    for (size_t block = 0; block < bytes.size(); block += 128) {
      uint8_t sum = 0;
      for (size_t i = 0; i < 128; ++i) sum = static_cast<uint8_t>(sum + bytes[block + i]);
      EXPECT_EQ(sum, 0) << block;
    }
    std::string why;
    const auto edid = vidpn::parse_edid(std::as_bytes(std::span(bytes)), &why);
    ASSERT_TRUE(edid.has_value()) << why;
    EXPECT_EQ(edid->manufacturer, "DXG");
    EXPECT_EQ(edid->name, count > 8 ? "" : "dxgkit 3");
    EXPECT_EQ(edid->serial, 4U);
    EXPECT_EQ(edid->extension_blocks, count > 2 ? 1U : 0U);
    const size_t in_base = std::min<size_t>(count, count > 8 ? 4 : 2);
    ASSERT_EQ(edid->timings.size(), in_base);
    for (size_t i = 0; i < edid->timings.size(); ++i) {
      EXPECT_EQ(edid->timings[i].width, modes[i].width);
      EXPECT_EQ(edid->timings[i].height, modes[i].height);
      EXPECT_NEAR(edid->timings[i].refresh_millihertz, 60'000, 300);
    }
    if (count > 2) {
      EXPECT_EQ(bytes[128 + 2], 19);
      EXPECT_EQ(bytes[128 + 4], 3 << 5 | 14);  // a vendor's data, up to the timings
    }
    for (size_t i = in_base; i < count; ++i) {  // as in the base block (CTA-861 borrows the format)
      const uint8_t* const timing = bytes.data() + 128 + 19 + 18 * (i - in_base);
      EXPECT_EQ(timing[2] | (timing[4] >> 4) << 8, static_cast<int>(modes[i].width));
      EXPECT_EQ(timing[5] | (timing[7] >> 4) << 8, static_cast<int>(modes[i].height));
    }
    if (count > 2 && count - in_base < 6) {  // the preferred one again
      const uint8_t* const again = bytes.data() + 128 + 19 + 18 * (count - in_base);
      EXPECT_TRUE(std::equal(again, again + 18, bytes.data() + 54));
    }
  }
}

/// Who does not look at head and sum would take another size for the first one.
TEST(Edid, IsNoneWhereItIsDamaged) {
  const std::vector<Mode> modes = {{640, 480}, {800, 600}, {1024, 768}};
  const std::vector<uint8_t> good = make_edid(modes, 0);
  for (const EdidDamage damage : {EdidDamage::kHead, EdidDamage::kSum}) {
    const std::vector<uint8_t> bytes = make_edid(modes, 0, damage);
    ASSERT_EQ(bytes.size(), good.size());
    EXPECT_FALSE(vidpn::parse_edid(std::as_bytes(std::span(bytes))).has_value());
    EXPECT_EQ(bytes[56], good[56] ^ 0x40);
    uint8_t sum = 0;
    for (size_t i = 0; i < 128; ++i) sum = static_cast<uint8_t>(sum + bytes[i]);
    EXPECT_EQ(sum == 0, damage == EdidDamage::kHead);
    EXPECT_EQ(bytes[7] == 0, damage == EdidDamage::kSum);
    EXPECT_TRUE(std::equal(bytes.begin() + 128, bytes.end(), good.begin() + 128));
  }
}

}  // namespace
}  // namespace dxgkit::virtiogpu
