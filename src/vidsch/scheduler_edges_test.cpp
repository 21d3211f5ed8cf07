// The scheduler where two conditions meet: each of them is seen to count.
#include <gmock/gmock.h>

#include "tests/support/covers.h"
#include "vidsch/scheduler_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using Prepare = EnginePort::Prepare;

class SchedulerEdgesTest : public SchedulerTest {
 protected:
  size_t asked(uint64_t packet) const {
    return static_cast<size_t>(std::ranges::count(engine_.prepared, packet));
  }
  uint64_t fence() const { return scheduler_->sync_objects().value(kFence); }
};

// Fence 0 is no fence: it says that nothing has completed, which is wrong once something has.
TEST_F(SchedulerEdgesTest, APreemptionReportForgetsNoCompletion) {
  DXGKIT_COVERS("PREEMPT-09");
  start();
  for (uint64_t packet = 1; packet <= 3; ++packet) queue(kA, packet);
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  const uint32_t asked_with = engine_.preemptions.back().second;
  EXPECT_EQ(preempted(asked_with, 0), FenceReport::kUnknownFence);
  EXPECT_TRUE(scheduler_->node_status(kNode).preemption_pending);
  EXPECT_EQ(scheduler_->node_status(kNode).hardware_queue_length, 2U) << "nothing has changed";
  EXPECT_EQ(preempted(asked_with, 1), FenceReport::kAccepted);
}

// Paging that waits for room goes next in any case: a preemption would only cost time.
TEST_F(SchedulerEdgesTest, NobodyIsPreemptedWhilePagingGoesNext) {
  DXGKIT_COVERS("SCHED-09", "SCHED-14");
  start(1);
  constexpr ContextId kHigh{110};
  add(kHigh, 5);
  queue(kA, 1);
  page(2);
  queue(kHigh, 3);
  EXPECT_TRUE(engine_.preemptions.empty());
  complete(last_fence());
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2));
  EXPECT_TRUE(engine_.preemptions.empty()) << "nor is paging itself preempted";
  complete(last_fence());
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 3));
}

// A packet that the driver refused behind others, and that came back with them, is submitted as
// if for the first time.
TEST_F(SchedulerEdgesTest, ARefusalIsForgottenWithThePreemption) {
  DXGKIT_COVERS("SUB-29", "PREEMPT-08");
  start();
  engine_.refused = {2};
  queue(kA, 1);
  queue(kB, 2);
  ASSERT_THAT(engine_.submitted_packets(), ElementsAre(1, 2));
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  engine_.refused.clear();
  ASSERT_EQ(preempted(engine_.preemptions.back().second, 0), FenceReport::kAccepted);
  ASSERT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 1, 2));
  EXPECT_EQ(complete(engine_.submitted[2].fence), FenceReport::kAccepted);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1)) << "the other one is taken this time";
  EXPECT_EQ(complete(engine_.submitted[3].fence), FenceReport::kAccepted);
  EXPECT_EQ(engine_.retirements.back().outcome, PacketOutcome::kCompleted);
}

// A signal that cannot be given is its own failure: those behind it are given.
TEST_F(SchedulerEdgesTest, ASignalThatFailsHoldsUpNoOther) {
  DXGKIT_COVERS("SYNC-03", "SYNC-05");
  start();
  make_fence();
  constexpr SyncObjectId kFull{8};
  ASSERT_EQ(scheduler_->sync_objects().create(
                kFull, {.kind = SyncKind::kSemaphore, .initial = 2, .maximum = 2}),
            Status::kSuccess);
  queue(kA, 1);
  queue(kA, 2, PacketKind::kSignal, {{kFull, 0}});
  queue(kA, 3);
  signal(kA, 4, 6);
  complete(1);
  complete(2);
  EXPECT_EQ(engine_.retirements.at(1).outcome, PacketOutcome::kFaulted);
  EXPECT_EQ(fence(), 6U);
  EXPECT_EQ(scheduler_->packets_of(kA), 0U);
}

// Refused packets ask again oldest first, and one that is refused again holds back those below it,
// though they were let past while asking was hopeless.
TEST_F(SchedulerEdgesTest, ARefusedPacketHoldsBackThoseBelowWhenAskedAgain) {
  DXGKIT_COVERS("SCHED-08");
  start();
  constexpr ContextId kHigh{110}, kOther{111};
  add(kHigh, 5);
  add(kOther, 6);
  engine_.answers = {{10, Prepare::kBusy}, {20, Prepare::kBusy}};
  queue(kHigh, 10);
  queue(kA, 20);
  ASSERT_EQ(asked(20), 1U) << "hopeless: nothing could free memory for the first";
  queue(kOther, 1);
  ASSERT_THAT(engine_.submitted_packets(), ElementsAre(1));
  const size_t before = asked(10);
  scheduler_->retry_busy();
  EXPECT_EQ(asked(10), before + 1);
  EXPECT_EQ(asked(20), 1U) << "what runs may free memory, for the first";
  engine_.answers.clear();
  complete(last_fence());
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 10, 20));
}

// A packet that was refused eight times gets its memory before any other packet, of whatever
// priority.
TEST_F(SchedulerEdgesTest, TheEighthRefusalHoldsBackHigherPrioritiesToo) {
  DXGKIT_COVERS("SCHED-08");
  start(4, false);
  constexpr ContextId kHigh{110}, kHighest{111};
  add(kHigh, 5);
  add(kHighest, 7);
  queue(kHigh, 1);  // on hardware: there is hope
  engine_.answers = {{10, Prepare::kBusy}};
  queue(kA, 10);
  while (asked(10) < 7) scheduler_->retry_busy();
  queue(kHighest, 20);
  EXPECT_EQ(asked(20), 1U);
  scheduler_->retry_busy();
  ASSERT_EQ(asked(10), 8U);
  queue(kHighest, 21);
  EXPECT_EQ(asked(21), 0U);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 20));
  engine_.answers.clear();
  complete(1);
  EXPECT_EQ(asked(21), 1U);
  EXPECT_EQ(engine_.submitted.size(), 4U);
}

// An earlier turn lets an equal past a refused packet of its own node; on another node turns are
// others.
TEST_F(SchedulerEdgesTest, ATurnCountsOnItsNodeOnly) {
  DXGKIT_COVERS("SCHED-08");
  constexpr NodeOrdinal kSecond{1};
  start({{.node = kNode, .hardware_queue_depth = 2, .preemptible = true},
         {.node = kSecond, .hardware_queue_depth = 2, .preemptible = true}});
  add(kA);
  add(kB);
  constexpr ContextId kThere{110};
  add(kThere, 0, kSecond);
  queue(kB, 1);
  engine_.answers = {{10, Prepare::kBusy}};
  queue(kA, 10);
  queue(kThere, 20);
  EXPECT_EQ(asked(20), 0U);
  engine_.answers.clear();
  complete(1);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 10, 20));
}

// While power goes, suspended contexts run out what they hold; one that holds nothing stays as it
// is, its signals too.
TEST_F(SchedulerEdgesTest, WhileHeldSuspendedContextsWithoutMemoryStayWhereTheyAre) {
  DXGKIT_COVERS("SCHED-17");
  start();
  make_fence();
  scheduler_->set_suspended(kA, true);
  signal(kA, 1, 4);
  scheduler_->set_held(true);
  EXPECT_EQ(fence(), 0U);
  scheduler_->set_held(false);
  EXPECT_EQ(fence(), 0U);
  scheduler_->set_suspended(kA, false);
  EXPECT_EQ(fence(), 4U);
}

// Cancelled packets retire in stream order, before packets behind them that had completed.
TEST_F(SchedulerEdgesTest, CancelledPacketsLeaveInStreamOrder) {
  DXGKIT_COVERS("SCHED-06");
  start();
  make_fence();
  queue(kA, 1);
  signal(kA, 2, 4);
  queue(kA, 3);
  engine_.on_retired = [&](uint64_t packet) {
    if (packet == 1) scheduler_->fail_context(kA);
  };
  complete(2);  // both packets at once
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 2, 3));
  EXPECT_EQ(engine_.retirements.at(1).outcome, PacketOutcome::kCancelled);
  EXPECT_EQ(fence(), 0U);
}

TEST_F(SchedulerEdgesTest, PreemptedPagingOfTwoContextsKeepsItsOrder) {
  DXGKIT_COVERS("PREEMPT-13");
  start(3);
  const ContextId second{1};
  ASSERT_EQ(scheduler_->create_context(second, {.node = kNode, .is_system = true}),
            Status::kSuccess);
  queue(second, 1, PacketKind::kPaging);
  page(2);
  queue(second, 3, PacketKind::kPaging);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));  // id 4
  engine_.submitted.clear();
  ASSERT_EQ(preempted(4, 0), FenceReport::kAccepted);
  EXPECT_THAT(engine_.submitted, ElementsAre(FakeEngine::Submitted{1, 0, 1, true},
                                             FakeEngine::Submitted{2, 0, 2, true},
                                             FakeEngine::Submitted{3, 0, 3, true}));
}

// A packet that the driver refused counts as the last one of its node, and its context as the one
// that ran last, as soon as nothing is before it.
TEST_F(SchedulerEdgesTest, ARefusedPacketIsTheLastOfItsNode) {
  DXGKIT_COVERS("SUB-29", "TDR-15");
  start(4);
  engine_.refused = {2, 4};
  const auto last = [&](uint32_t fence) {
    return scheduler_->find_aborted(kNode, SubmissionFenceId{fence});
  };
  queue(kA, 1);
  complete(last_fence());
  EXPECT_EQ(last(1).context, kA);
  queue(kB, 2);
  EXPECT_EQ(last_fence(), 2U);
  EXPECT_TRUE(last(2).in_range);
  EXPECT_FALSE(last(2).on_hardware);
  EXPECT_EQ(last(2).context, kB);
  queue(kA, 3);
  queue(kB, 4);
  EXPECT_EQ(last(2).context, kB) << "3 is still before it";
  EXPECT_EQ(last(3).context, kA);
  EXPECT_TRUE(last(3).on_hardware);
  complete(3);
  EXPECT_FALSE(last(3).in_range);
  EXPECT_TRUE(last(4).in_range);
  EXPECT_EQ(last(4).context, kB);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 2, 3, 4));
}

// The driver may report the fence it refused once more, and no other that is not on hardware.
TEST_F(SchedulerEdgesTest, ARefusedFenceIsTheOnlyOneThatMayComeAgain) {
  DXGKIT_COVERS("SUB-29");
  start(1);
  engine_.refused = {2};
  engine_.on_refused = [&] { scheduler_->fail_context(kA); };
  queue(kB, 1);
  queue(kA, 2);
  EXPECT_EQ(complete(1), FenceReport::kAccepted);
  EXPECT_EQ(complete(2), FenceReport::kAccepted);
  EXPECT_EQ(complete(1), FenceReport::kUnknownFence);
  EXPECT_EQ(complete(3), FenceReport::kUnknownFence);
  EXPECT_EQ(complete(0), FenceReport::kUnknownFence);
}

}  // namespace
}  // namespace dxgkit::vidsch
