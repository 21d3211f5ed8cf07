// Inherited priorities: whose counts, and when they are looked at again.
#include "vidsch/scheduler_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

class InheritanceEdgesTest : public SchedulerTest {
 protected:
  static constexpr ContextId kHigh{110}, kMiddle{111};
  InheritanceEdgesTest() {
    start();
    make_fence();
    add(kHigh, 6);
    add(kMiddle, 3);
  }
  size_t level(ContextId id) const { return scheduler_->effective_level(id); }
  static size_t of(int32_t priority) { return level_of(PriorityClass::kNormal, priority); }
};

// When the level is computed anew, the highest waiter counts, not the last.
TEST_F(InheritanceEdgesTest, TheHighestCountsInWhateverOrderTheyWait) {
  queue(kA, 1);
  signal(kA, 2, 1);
  queue(kA, 3);
  signal(kA, 4, 2);
  wait(kHigh, 5, 2);
  wait(kMiddle, 6, 2);
  ASSERT_EQ(level(kA), of(6));
  complete(1);  // the first signal is given
  EXPECT_EQ(level(kA), of(6));
  complete(2);
  EXPECT_EQ(level(kA), of(0));
}

// A context that is raised while it waits hands the level on to the context that it waits for.
TEST_F(InheritanceEdgesTest, ARiseIsHandedOn) {
  queue(kA, 1);
  signal(kA, 2, 1);
  wait(kMiddle, 3, 1);
  ASSERT_EQ(level(kA), of(3));
  ASSERT_EQ(scheduler_->set_priority(kMiddle, 5), Status::kSuccess);
  EXPECT_EQ(level(kA), of(5));
  scheduler_->set_priority_class(kMiddle, PriorityClass::kHigh);
  EXPECT_EQ(level(kA), level_of(PriorityClass::kHigh, 5));
}

// A signal that only waits for hardware is still to come: it keeps its context up.
TEST_F(InheritanceEdgesTest, ASignalBehindHardwareStillCounts) {
  queue(kA, 1);
  signal(kA, 2, 1);
  wait(kHigh, 3, 1);
  ASSERT_EQ(level(kA), of(6));
  ASSERT_EQ(scheduler_->set_priority(kA, -5), Status::kSuccess);
  EXPECT_EQ(level(kA), of(6));
  complete(1);
  EXPECT_EQ(level(kA), of(-5));
}

}  // namespace
}  // namespace dxgkit::vidsch
