// A device is lost once, for the first reason that is given.
#include "dxgk/core/device_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "dxgk/core/test_core.h"
#include "dxgk/system.h"

namespace dxgkit::dxgk {
namespace {

using ::testing::ElementsAre;

class TestDevice : public DeviceCore {
 public:
  explicit TestDevice(Process& process) : DeviceCore(process) {}
  std::vector<DeviceState> ends;

 private:
  void end_work(DeviceState state) override {
    EXPECT_TRUE(lost()) << "whoever looks meanwhile sees it";
    ends.push_back(state);
  }
};

TEST(DeviceCore, TheFirstErrorWinsAndEndsTheWork) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([] {
    TestCore test;
    System system(test.core.runtime(), test.machine, test.kernel, test.findings);
    TestDevice device(system.create_process("client"));
    EXPECT_FALSE(device.lost());
    EXPECT_EQ(device.state(), DeviceState::kActive);
    device.set_error(DeviceState::kHung);
    device.set_error(DeviceState::kReset);
    EXPECT_EQ(device.state(), DeviceState::kHung);
    EXPECT_THAT(device.ends, ElementsAre(DeviceState::kHung));
  });
}

}  // namespace
}  // namespace dxgkit::dxgk
