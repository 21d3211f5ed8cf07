// The display worker serves what is announced, in order, and nobody waits for what it will not do.
#include "dxgk/display/display_worker.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "dxgk/core/test_core.h"

namespace dxgkit::dxgk {
namespace {

class RecordingOwner : public DisplayWorker::Owner {
 public:
  void show_after_reset() override { ++shown; }
  bool work_on_flips() override { return flips > 0 && flips-- > 0; }
  void monitor_changed(uint32_t child, bool connected) override {
    changes.emplace_back(child, connected);
  }

  int shown = 0, flips = 0;
  std::vector<std::pair<uint32_t, bool>> changes;
};

template <typename Body>
void with_worker(Body body) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    TestCore test;
    RecordingOwner owner;
    DisplayWorker worker(test.core, owner);
    body(test.core, owner, worker);
    worker.stop();
  });
}

TEST(DisplayWorker, HotPlugsAreServedInTheOrderOfTheCalls) {
  with_worker([](AdapterCore&, RecordingOwner& owner, DisplayWorker& worker) {
    worker.start();
    worker.add_hot_plug(7, true);
    worker.add_hot_plug(8, true);
    worker.add_hot_plug(7, false);
    worker.wait_for_hot_plug();
    const std::vector<std::pair<uint32_t, bool>> expected = {{7, true}, {8, true}, {7, false}};
    EXPECT_EQ(owner.changes, expected);
  });
}

TEST(DisplayWorker, HotPlugsThatWillNotBeServedAreNotWaitedFor) {
  with_worker([](AdapterCore&, RecordingOwner& owner, DisplayWorker& worker) {
    worker.add_hot_plug(7, true);
    worker.start();
    worker.stop();
    worker.wait_for_hot_plug();
    worker.add_hot_plug(8, true);
    worker.wait_for_hot_plug();
    EXPECT_LE(owner.changes.size(), 1U) << "the one before the stop at most";
  });
}

TEST(DisplayWorker, AllWorkOfFlipsIsDoneBeforeMonitors) {
  with_worker([](AdapterCore&, RecordingOwner& owner, DisplayWorker& worker) {
    owner.flips = 3;
    worker.add_hot_plug(7, true);
    worker.start();
    worker.wait_for_hot_plug();
    EXPECT_EQ(owner.flips, 0);
  });
}

TEST(DisplayWorker, WhoeverWaitsForAResetGoesOnOnceTheScreensAreThere) {
  with_worker([](AdapterCore& core, RecordingOwner& owner, DisplayWorker& worker) {
    worker.wait_for_reset();  // there was none
    worker.start();
    core.lane().run([&] { worker.hardware_was_reset(); });
    int shown_before = -1;
    const auto waiting = core.runtime().spawn("waiting", [&] {
      worker.wait_for_reset();
      shown_before = owner.shown;
    });
    core.runtime().sleep_for(runtime::kMillisecond);
    EXPECT_EQ(shown_before, -1) << "nothing is shown yet";
    worker.set_again();
    waiting->join();
    EXPECT_EQ(shown_before, 1);
  });
}

}  // namespace
}  // namespace dxgkit::dxgk
