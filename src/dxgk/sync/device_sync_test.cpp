// Sync objects of a device without a driver: what clients have open goes with them, and what waits
// through a lost device waits no longer.
#include "dxgk/sync/device_sync.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "dxgk/core/process.h"
#include "dxgk/core/test_core.h"
#include "dxgk/system.h"
#include "tests/support/covers.h"

namespace dxgkit::dxgk {
namespace {

class IdlePort : public vidsch::EnginePort {
 public:
  Prepare prepare(PacketId) override { return Prepare::kReady; }
  Submit submit(PacketId, NodeOrdinal, SubmissionFenceId, bool) override { return Submit::kTaken; }
  void retired(PacketId, vidsch::PacketOutcome, vidsch::Reached) override {}
  void preempt(NodeOrdinal, SubmissionFenceId) override {}
};

/// A device that has nothing but sync objects.
class TestDevice : public DeviceCore {
 public:
  TestDevice(SyncFloor& floor, Process& process) : DeviceCore(process), sync(floor, *this) {}
  DeviceSync sync;

 private:
  void end_work(DeviceState) override {
    sync.cancel_waits();
    sync.release_fences_of_lost();
  }
};

template <typename Body>
void on_device(Body body) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    IdlePort port;
    TestCore test;
    const std::vector<vidsch::NodeDesc> nodes(1);
    test.core.set_scheduler(std::make_unique<vidsch::Scheduler>(port, nodes));
    const auto whole = make_object<TestAdapter>();  // which every sync object keeps
    SyncFloor floor(test.core, *whole);
    System system(test.core.runtime(), test.machine, test.kernel, test.findings);
    Process& process = system.create_process("client");
    const auto device = make_object<TestDevice>(floor, process);
    body(test, *device);
    for (SyncObject* object : std::vector(device->sync.objects)) {
      const Ref<SyncObject> open(object);
      process.handles().erase(open->handle);
      open->close();
    }
  });
}

TEST(DeviceSync, AWaitThroughALostDeviceEnds) {
  DXGKIT_COVERS("SYNC-22");
  on_device([](TestCore& test, TestDevice& device) {
    const auto fence = device.sync.create_sync_object({.initial = 1});
    ASSERT_TRUE(fence.has_value());
    const auto loser = test.core.runtime().spawn(
        "loser", [&] { test.core.lane().run([&] { device.set_error(DeviceState::kHung); }); });
    const vidsch::SyncPoint point{.object = (*fence)->id, .value = 2};
    const Status status =
        device.sync.wait_from_cpu(std::span(&point, 1), vidsch::WaitMode::kAll, -1);
    EXPECT_EQ(status, Status::kDeviceRemoved);
    loser->join();
    EXPECT_EQ(device.sync.signal_from_cpu(std::span(&point, 1)), Status::kDeviceRemoved);
  });
}

TEST(DeviceSync, FencesOfALostDeviceAreAtTheirMaximumUnlessTheirHandlesSayOtherwise) {
  DXGKIT_COVERS("SYNC-13");
  on_device([](TestCore& test, TestDevice& device) {
    const auto plain = device.sync.create_sync_object({});
    const auto kept = device.sync.create_sync_object({.use = {.keeps_value_on_reset = true}});
    const auto waited_for = device.sync.create_sync_object({.use = {.no_signal = true}});
    ASSERT_TRUE(plain.has_value() && kept.has_value() && waited_for.has_value());
    test.core.lane().run([&] { device.set_error(DeviceState::kReset); });
    const vidsch::SyncObjects& objects = test.core.scheduler().sync_objects();
    EXPECT_EQ(objects.value((*plain)->id), UINT64_MAX);
    EXPECT_EQ(objects.value((*kept)->id), 0U);
    EXPECT_EQ(objects.value((*waited_for)->id), 0U);
  });
}

}  // namespace
}  // namespace dxgkit::dxgk
