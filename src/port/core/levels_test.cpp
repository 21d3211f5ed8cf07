#include "port/core/levels.h"

#include <gtest/gtest.h>

#include <atomic>

#include "port/port_world_test.h"

namespace dxgkit::port {
namespace {

/// Level two waits for the calls of level zero that are inside, and those that come meanwhile wait
/// until it is over (IRQL-02).
TEST(SyncLevels, LevelTwoIsASpanWithoutLevelZero) {
  in_both_modes([] {
    runtime::Runtime& runtime = runtime::Runtime::current();
    SyncLevels levels(runtime);
    levels.enter(DdiClass::kLevelZero);
    EXPECT_FALSE(levels.enter_level_two_until(runtime.now() + runtime::kMillisecond))
        << "somebody is inside";
    levels.leave(DdiClass::kLevelZero);

    levels.enter_level_two();
    std::atomic<uint32_t> entered{0};
    auto thread = runtime.spawn("caller", [&] {
      levels.enter(DdiClass::kLevelZero);
      entered.store(1);
      levels.leave(DdiClass::kLevelZero);
    });
    levels.enter(DdiClass::kLevelTwo);
    EXPECT_TRUE(levels.has_adapter_to_itself());
    EXPECT_EQ(entered.load(), 0U);
    levels.leave(DdiClass::kLevelTwo);
    EXPECT_FALSE(levels.has_adapter_to_itself());
    EXPECT_EQ(entered.load(), 0U) << "the span is not over";
    levels.leave_level_two();
    thread->join();
    EXPECT_EQ(entered.load(), 1U);
  });
}

/// The lane of a full driver holds level two itself: its own calls of level zero pass.
TEST(SyncLevels, TheLanePassesWhileItHoldsLevelTwo) {
  in_both_modes([] {
    SyncLevels levels(runtime::Runtime::current());
    levels.set_lane_check([] { return true; });
    levels.enter_level_two();
    levels.enter(DdiClass::kLevelZero);
    levels.leave(DdiClass::kLevelZero);
    levels.leave_level_two();
  });
}

/// Two calls of the scheduler class at once are our bug (IRQL-06).
TEST(SyncLevelsDeathTest, SchedulerCallsDoNotOverlap) {
  EXPECT_DEATH(runtime::make_sim_runtime(1)->run_main([] {
    SyncLevels levels(runtime::Runtime::current());
    levels.enter(DdiClass::kScheduler);
    levels.enter(DdiClass::kScheduler);
  }),
               "");
}

}  // namespace
}  // namespace dxgkit::port
