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

/// Who gives up at a deadline leaves nothing behind: level zero goes on, and so does level two.
TEST(SyncLevels, ADeadlineThatPassesChangesNothing) {
  in_both_modes([] {
    runtime::Runtime& runtime = runtime::Runtime::current();
    SyncLevels levels(runtime);
    levels.enter(DdiClass::kLevelZero);
    EXPECT_FALSE(levels.enter_level_two_until(runtime.now() + runtime::kMillisecond));
    levels.enter(DdiClass::kLevelZero);  // not kept out any more
    levels.leave(DdiClass::kLevelZero);
    levels.leave(DdiClass::kLevelZero);
    ASSERT_TRUE(levels.enter_level_two_until(runtime.now() + runtime::kSecond));
    EXPECT_FALSE(levels.enter_level_two_until(runtime.now() + runtime::kMillisecond))
        << "somebody else holds it";
    levels.enter(DdiClass::kLevelTwo);  // still ours
    levels.leave(DdiClass::kLevelTwo);
    levels.leave_level_two();
    levels.enter_level_two();
    levels.leave_level_two();
  });
}

/// The thread inside is the one that has the adapter for itself, and no other.
TEST(SyncLevels, OnlyTheThreadInsideHasTheAdapterForItself) {
  in_both_modes([] {
    runtime::Runtime& runtime = runtime::Runtime::current();
    for (const DdiClass alone : {DdiClass::kLevelTwo, DdiClass::kExclusive}) {
      SyncLevels levels(runtime);
      levels.enter_level_two();
      EXPECT_FALSE(levels.has_adapter_to_itself()) << "nobody is inside";
      levels.enter(alone);
      EXPECT_TRUE(levels.has_adapter_to_itself());
      bool other = true;
      runtime.spawn("other", [&] { other = levels.has_adapter_to_itself(); })->join();
      EXPECT_FALSE(other);
      levels.leave(alone);
      EXPECT_FALSE(levels.has_adapter_to_itself());
      levels.leave_level_two();
      for (const DdiClass beside :
           {DdiClass::kScheduler, DdiClass::kLevelZero, DdiClass::kLevelZeroBeside}) {
        levels.enter(beside);
        EXPECT_FALSE(levels.has_adapter_to_itself());
        levels.leave(beside);
      }
    }
  });
}

/// Which calls may be inside at once, outside and inside of a span of level two (IRQL-02 to
/// IRQL-06). What may not is our bug.
TEST(SyncLevelsDeathTest, ClassesOverlapAsTheRulebookSays) {
  using enum DdiClass;
  constexpr DdiClass kClasses[] = {kScheduler, kLevelZero, kLevelTwo, kExclusive, kLevelZeroBeside};
  const auto enters = [](bool span, DdiClass first, DdiClass second) {
    runtime::make_sim_runtime(1)->run_main([&] {
      SyncLevels levels(runtime::Runtime::current());
      levels.set_lane_check([] { return true; });  // else level zero waits for the span to end
      if (span) levels.enter_level_two();
      levels.enter(first);
      levels.enter(second);
      levels.leave(second);
      levels.leave(first);
      levels.enter(second);  // and one after the other
      levels.leave(second);
      if (span) levels.leave_level_two();
    });
  };
  const auto is_alone = [](DdiClass one) { return one == kLevelTwo || one == kExclusive; };
  for (const bool span : {false, true}) {
    for (const DdiClass first : kClasses) {
      for (const DdiClass second : kClasses) {
        if (!span && first == kLevelTwo) continue;  // it is not there to be inside
        SCOPED_TRACE(::testing::Message() << "span " << span << ", " << static_cast<int>(first)
                                          << " and then " << static_cast<int>(second));
        const bool other = first == kLevelZeroBeside || second == kLevelZeroBeside;
        bool fits = other || (!is_alone(first) && !is_alone(second));
        if (first == kScheduler && second == kScheduler) fits = false;
        if (!span && second == kLevelTwo) fits = false;
        // The lane's own call of level zero is inside its span.
        if (span && first == kLevelZero && is_alone(second)) fits = true;
        if (fits) {
          enters(span, first, second);
        } else {
          EXPECT_DEATH(enters(span, first, second), "CHECK");
        }
      }
    }
  }
}

}  // namespace
}  // namespace dxgkit::port
