// Hardware ids in files that may hold anything.
#include "tools/dxgkit/hardware_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dxgkit::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string wide(std::string_view text) {
  std::string out;
  for (const char c : text) out += {c, '\0'};
  return out;
}

TEST(HardwareIds, AreFoundInBothWidthsAndInAnyCase) {
  EXPECT_THAT(find_hardware_ids("xxPCI\\VEN_1AF4&DEV_1050&SUBSYS_1"),
              ElementsAre(HardwareId{0x1AF4, 0x1050}));
  EXPECT_THAT(find_hardware_ids(wide("pci\\ven_1af4&dev_1050")),
              ElementsAre(HardwareId{0x1AF4, 0x1050}));
  EXPECT_THAT(find_hardware_ids("x" + wide("PCI\\VEN_1AF4&DEV_1050")),
              ElementsAre(HardwareId{0x1AF4, 0x1050}))
      << "at an odd offset";
  EXPECT_THAT(find_hardware_ids("PCI\\VEN_1234&DEV_0001 PCI\\VEN_1234&DEV_1111;"
                                "PCI\\VEN_1234&DEV_0001"),
              ElementsAre(HardwareId{0x1234, 1}, HardwareId{0x1234, 0x1111}));
}

/// Each prefix of a good text is none, and neither is any text with one byte changed for the worse.
TEST(HardwareIds, WhatOnlyLooksLikeOneIsNone) {
  for (const std::string& good :
       {std::string("PCI\\VEN_1AF4&DEV_1050"), wide("PCI\\VEN_1AF4&DEV_1050")}) {
    const size_t needed = good.size() - (good[1] == 0 ? 1 : 0);  // without the last zero
    for (size_t length = 0; length < needed; ++length)
      EXPECT_THAT(find_hardware_ids(good.substr(0, length)), IsEmpty()) << length;
    for (size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] = '\xFF';
      EXPECT_THAT(find_hardware_ids(bad), IsEmpty()) << at;
    }
  }
  EXPECT_THAT(find_hardware_ids("PCI\\VEN_+1AF&DEV_1050"), IsEmpty());
  EXPECT_THAT(find_hardware_ids("PCI\\VEN_0x1A&DEV_1050"), IsEmpty());
}

TEST(HardwareIds, AreBounded) {
  std::string many;
  for (int i = 0; i < 1000; ++i) {
    char text[32];
    snprintf(text, sizeof text, "PCI\\VEN_0001&DEV_%04X", i);
    many += text;
  }
  EXPECT_EQ(find_hardware_ids(many).size(), kHardwareIdsMost);
}

TEST(HardwareIds, ChooseADeviceOnlyIfOneFits) {
  const HardwareId framebuffer{0x1D4B, 0x0FB0}, ram{0x1B36, 0xD0DD}, softgpu{0x5347, 1};
  const auto chosen = [](const std::vector<HardwareId>& ids) {
    const auto device = only_fitting_device(ids);
    return device.has_value() ? device->text : "";
  };
  EXPECT_EQ(chosen({framebuffer}), "framebuffer");
  EXPECT_EQ(chosen({{1, 2}, framebuffer}), "framebuffer");
  EXPECT_EQ(chosen({ram}), "ram");
  EXPECT_EQ(chosen({framebuffer, ram}), "");
  EXPECT_EQ(chosen({softgpu}), "") << "the default needs no choice";
  EXPECT_EQ(chosen({}), "");
}

TEST(HardwareIds, AdviceIsForWhatDoesNotFit) {
  const HardwareId framebuffer{0x1D4B, 0x0FB0};
  const DeviceChoice softgpu = default_device();
  const DeviceChoice other = *parse_device("pci:1AF4:1050");
  EXPECT_EQ(device_advice({}, softgpu), "");
  EXPECT_EQ(device_advice({{0x5347, 1}}, softgpu), "");
  EXPECT_EQ(device_advice({{0x1AF4, 0x1050}}, other), "") << "options say the id";
  EXPECT_EQ(device_advice({framebuffer}, *parse_device("vfio-user:socket")), "")
      << "only its server knows what it is";
  EXPECT_EQ(device_advice({framebuffer}, other),
            "the driver is for PCI\\VEN_1D4B&DEV_0FB0, which 1 other device has: --device "
            "framebuffer would fit");
  EXPECT_THAT(device_advice({{0x1AF4, 0x1050}, {0x1AF4, 0x1051}}, softgpu),
              ::testing::StartsWith(
                  "the driver is for PCI\\VEN_1AF4&DEV_1050 and 1 hardware id more, which"));
}

}  // namespace
}  // namespace dxgkit::tool
