// Which contexts a blocked context raises, how far, and for how long.
#include <gmock/gmock.h>

#include "tests/support/covers.h"
#include "vidsch/scheduler_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

constexpr ContextId kLow{1}, kMiddle{2}, kHigh{3};

size_t normal(int32_t priority) { return level_of(PriorityClass::kNormal, priority); }

/// `kLow` at -5 has a packet on hardware; `kMiddle` at 3 and `kHigh` at 5 do nothing so far.
class InheritanceTest : public SchedulerTest {
 protected:
  void SetUp() override {
    start(1, false);
    make_fence();
    add(kLow, -5);
    add(kMiddle, 3);
    add(kHigh, 5);
    queue(kLow, 1);
  }
  size_t level(ContextId id) const { return scheduler_->effective_level(id); }
};

TEST_F(InheritanceTest, TheHighestOfSeveralWhoWaitCounts) {
  signal(kLow, 2, 1);
  EXPECT_EQ(level(kLow), normal(-5));
  wait(kHigh, 3, 1);
  EXPECT_EQ(level(kLow), normal(5));
  wait(kMiddle, 4, 1);
  EXPECT_EQ(level(kLow), normal(5)) << "a lower one takes nothing away";
  complete(1);
  EXPECT_EQ(level(kLow), normal(-5));
  EXPECT_EQ(scheduler_->packets_of(kHigh) + scheduler_->packets_of(kMiddle), 0U);
}

TEST_F(InheritanceTest, ASignalQueuedLaterGetsTheHighestToo) {
  wait(kHigh, 3, 1);
  wait(kMiddle, 4, 1);
  signal(kLow, 2, 1);
  EXPECT_EQ(level(kLow), normal(5));
}

TEST_F(InheritanceTest, WhileAnotherSignalIsWaitedForItsWaiterCounts) {
  signal(kLow, 2, 1);
  queue(kLow, 3);
  signal(kLow, 4, 2);
  wait(kHigh, 5, 1);
  wait(kMiddle, 6, 2);
  EXPECT_EQ(level(kLow), normal(5));
  complete(1);
  EXPECT_EQ(level(kLow), normal(3));
  complete(2);
  EXPECT_EQ(level(kLow), normal(-5));
}

TEST_F(InheritanceTest, ValuesThatSatisfyNobodyRaiseNobody) {
  signal(kLow, 2, 1);
  queue(kLow, 3);
  signal(kLow, 4, 4);
  wait(kHigh, 5, 5);
  EXPECT_EQ(level(kLow), normal(-5));
  wait(kMiddle, 6, 1);
  EXPECT_EQ(level(kLow), normal(3));
  complete(1);
  EXPECT_EQ(level(kLow), normal(-5)) << "4 is still to come and helps nobody";
  signal(kLow, 7, 9);
  EXPECT_EQ(level(kLow), normal(5)) << "beyond 5 is good as well";
}

// Two will signal the same; one is gone: the other one is left to raise.
TEST_F(InheritanceTest, WhoWillNotSignalIsForgottenAndNobodyElse) {
  signal(kLow, 2, 1);
  queue(kA, 3);
  signal(kA, 4, 1);
  scheduler_->fail_context(kA);
  wait(kHigh, 5, 1);
  EXPECT_EQ(level(kLow), normal(5));
  EXPECT_EQ(level(kA), normal(0)) << "it never will";
}

// When the priority of a context falls, its waiters outrank it from that moment on.
TEST_F(InheritanceTest, LoweredWhileSomebodyWaitsItStaysAsHighAsThat) {
  queue(kA, 3);
  signal(kA, 4, 1);
  wait(kB, 5, 1);
  EXPECT_EQ(level(kA), normal(0));
  ASSERT_EQ(scheduler_->set_priority(kA, -6), Status::kSuccess);
  EXPECT_EQ(level(kA), normal(0)) << "B waits, at 0";
  scheduler_->set_priority_class(kA, PriorityClass::kIdle);
  EXPECT_EQ(level(kA), normal(0));
  ASSERT_EQ(scheduler_->set_priority(kLow, 6), Status::kSuccess);
  EXPECT_EQ(level(kLow), normal(6)) << "nobody waits for this one";
  complete(1);
  complete(2);
  EXPECT_EQ(level(kA), level_of(PriorityClass::kIdle, -6)) << "signalled";
}

// Waiting for what it will signal itself must not keep a context where it has been raised to.
TEST_F(InheritanceTest, AContextDoesNotHoldItselfUp) {
  const SyncObjectId own{8};
  ASSERT_EQ(scheduler_->sync_objects().create(own, {.kind = SyncKind::kFence}), Status::kSuccess);
  signal(kLow, 2, 1);
  queue(kLow, 3, PacketKind::kWait, {{own, 5}});
  queue(kLow, 4, PacketKind::kSignal, {{own, 6}});
  wait(kHigh, 5, 1);
  EXPECT_EQ(level(kLow), normal(5));
  complete(1);
  EXPECT_EQ(level(kLow), normal(-5));
}

}  // namespace
}  // namespace dxgkit::vidsch
