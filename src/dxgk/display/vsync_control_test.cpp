// When a driver is told to report vertical syncs.
#include "dxgk/display/vsync_control.h"

#include <gtest/gtest.h>

#include <vector>

#include "dxgk/core/test_core.h"

namespace dxgkit::dxgk {
namespace {

class RecordingOwner : public VsyncControl::Owner {
 public:
  bool vsync_needed() const override { return needed; }
  void control_vsync(bool enabled) override { told.push_back(enabled); }

  bool needed = false;
  std::vector<bool> told;
};

struct Whole : Object {
  Whole() : Object(ObjectType::kAdapter) {}
};

/// `body(owner, vsync)` on the lane, with a driver that does not save power at vertical syncs.
template <typename Body>
void on_lane_with_control(Body body) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    TestCore test;
    Whole whole;
    PowerFloor floor(test.core, whole);
    DisplayCore display(floor, 1);
    RecordingOwner owner;
    VsyncControl vsync(display, owner);
    test.core.lane().run([&] {
      body(owner, vsync);
      vsync.end();
    });
  });
}

TEST(VsyncControl, ADriverThatSavesNoPowerReportsThemFromTheStartOn) {
  on_lane_with_control([](RecordingOwner& owner, VsyncControl& vsync) {
    vsync.start();
    EXPECT_EQ(owner.told, std::vector<bool>{true});
    owner.needed = true;
    vsync.look();
    vsync.start();
    EXPECT_EQ(owner.told.size(), 1U) << "it has been told";
  });
}

TEST(VsyncControl, ADriverThatSavesNoPowerIsNotToldToRest) {
  on_lane_with_control([](RecordingOwner& owner, VsyncControl& vsync) {
    vsync.start();
    vsync.rest();
    EXPECT_EQ(owner.told.size(), 1U);
  });
}

TEST(VsyncControl, AResetSwitchesThemOffWithoutWords) {
  on_lane_with_control([](RecordingOwner& owner, VsyncControl& vsync) {
    vsync.start();
    vsync.told(true);
    vsync.hardware_was_reset();
    EXPECT_EQ(owner.told.size(), 1U);
    vsync.start();
    EXPECT_EQ(owner.told, (std::vector<bool>{true, true}));
  });
}

TEST(VsyncControl, NobodyIsToldForWhatNobodyNeeds) {
  on_lane_with_control([](RecordingOwner& owner, VsyncControl& vsync) {
    vsync.look();
    EXPECT_TRUE(owner.told.empty());
    owner.needed = true;
    vsync.look();
    EXPECT_EQ(owner.told, std::vector<bool>{true});
  });
}

}  // namespace
}  // namespace dxgkit::dxgk
