// Descriptors and sizes of monitors, compared with the device's.
#include "tools/dxgkit/verify/monitor_judge.h"

#include <gtest/gtest.h>

#include "tests/support/covers.h"

namespace dxgkit::tool::verify {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> all;
  for (const int value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}

const std::vector<bus::DeviceMonitor> kTwo{
    {.descriptor = bytes({1, 2, 3}), .sizes = {{640, 480}}},
    {.descriptor = bytes({1, 2, 4}), .sizes = {{800, 600}, {64, 64}}}};

TEST(MonitorJudge, ADescriptorIsOneOfTheDevices) {
  DXGKIT_COVERS("CAPS-18");
  EXPECT_EQ(judge_descriptor(bytes({1, 2, 3}), kTwo, 0), "");
  EXPECT_EQ(judge_descriptor(bytes({1, 2, 3}), kTwo, 1), "") << "outputs may have another order";
  EXPECT_EQ(judge_descriptor({}, kTwo, 0), "it gives no descriptor, and the device has one");
  EXPECT_EQ(judge_descriptor(bytes({1, 9, 3}), kTwo, 0), "byte 1 is 0x09, and the device has 0x02");
  EXPECT_EQ(judge_descriptor(bytes({1, 2}), kTwo, 0), "it gives 2 bytes, and the device has 3");
  EXPECT_EQ(judge_descriptor(bytes({1, 2, 3, 4}), kTwo, 0),
            "it gives 4 bytes, and the device has 3");
  EXPECT_EQ(judge_descriptor(bytes({7}), kTwo, 2), "the device has no such descriptor");
  const std::vector<bus::DeviceMonitor> undescribed{{.descriptor = {}, .sizes = {{640, 480}}}};
  const std::vector<std::byte> block(128);
  EXPECT_EQ(judge_descriptor(block, undescribed, 0), "") << "it may have one of its own";
  EXPECT_EQ(judge_descriptor(bytes({7}), undescribed, 0),
            "it gives 1 byte, which are no blocks, and the device has none");
  EXPECT_EQ(judge_descriptor({}, undescribed, 0), "");
}

TEST(MonitorJudge, EachSizeIsOffered) {
  DXGKIT_COVERS("DISP-41");
  const std::vector<dxgk::DisplayMode> modes{{800, 600}, {640, 480}};
  EXPECT_FALSE(missing_size(kTwo[0], modes).has_value());
  EXPECT_EQ(missing_size(kTwo[1], modes), (bus::DeviceMonitor::Size{64, 64}));
  EXPECT_EQ(missing_size(kTwo[0], {}), (bus::DeviceMonitor::Size{640, 480}));
}

TEST(MonitorJudge, AMonitorIsFoundByItsDescriptorFirst) {
  EXPECT_EQ(monitor_of(bytes({1, 2, 4}), kTwo, 0), &kTwo[1]);
  EXPECT_EQ(monitor_of({}, kTwo, 0), &kTwo[0]);
  EXPECT_EQ(monitor_of({}, kTwo, 2), nullptr);
}

}  // namespace
}  // namespace dxgkit::tool::verify
