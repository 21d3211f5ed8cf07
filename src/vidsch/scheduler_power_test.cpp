// The scheduler in power transitions: it holds work, knows when nothing is left, and gives up
// packets that lost their power.
#include <gmock/gmock.h>

#include "tests/support/covers.h"
#include "vidsch/scheduler_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Prepare = EnginePort::Prepare;
using Retired = FakeEngine::Retired;
using Submitted = FakeEngine::Submitted;

constexpr NodeOrdinal kOtherNode{1};

class SchedulerPowerTest : public SchedulerTest {
 protected:
  /// Completes what is on hardware until nothing is.
  void run_dry() {
    while (scheduler_->node_status(kNode).hardware_queue_length != 0) {
      ASSERT_EQ(complete(last_fence()), FenceReport::kAccepted);
    }
  }
};

TEST_F(SchedulerPowerTest, WhileHeldOnlyWhatIsPreparedAndPagingRun) {
  start(1);
  for (uint64_t p = 1; p <= 5; ++p) queue(kA, p);
  ASSERT_THAT(engine_.prepared, ElementsAre(1, 2, 3));
  scheduler_->set_held(true);
  scheduler_->set_held(true);
  page(6);
  run_dry();
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 6, 2, 3));
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2, 3)) << "4 would take memory";
  EXPECT_TRUE(scheduler_->drained());
  EXPECT_EQ(scheduler_->packets_of(kA), 2U);
  queue(kB, 7);
  EXPECT_TRUE(scheduler_->drained());
  scheduler_->set_held(false);
  run_dry();
  EXPECT_EQ(scheduler_->packets_of(kA) + scheduler_->packets_of(kB), 0U);
}

TEST_F(SchedulerPowerTest, WhileHeldRefusedPacketsAreNotAskedAgain) {
  start(2);
  engine_.answers[2] = Prepare::kBusy;
  queue(kA, 1);
  queue(kB, 2);
  scheduler_->set_held(true);
  complete(1);
  scheduler_->retry_busy();
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2));
  engine_.answers[2] = Prepare::kReady;
  scheduler_->set_held(false);
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2, 2));
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2));
}

// Prepared packets of a suspended context hold memory until they have run. So a hold lets the
// context run, and suspends it again afterwards.
TEST_F(SchedulerPowerTest, WhileHeldSuspendedContextsRunOutWhatTheyHold) {
  start(1);
  for (uint64_t p = 1; p <= 4; ++p) queue(kA, p);
  queue(kB, 5);
  scheduler_->set_suspended(kB, true);
  scheduler_->set_suspended(kA, true);
  complete(1);
  ASSERT_THAT(engine_.submitted_packets(), ElementsAre(1)) << "suspended";
  EXPECT_TRUE(scheduler_->holds_memory(kA));
  EXPECT_FALSE(scheduler_->holds_memory(kB));
  scheduler_->set_held(true);
  run_dry();
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 3));
  EXPECT_FALSE(scheduler_->holds_memory(kA));
  EXPECT_TRUE(scheduler_->drained());
  scheduler_->set_held(false);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 3)) << "suspended again";
  scheduler_->set_suspended(kB, false);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 3, 5));
  scheduler_->set_suspended(kA, false);
  run_dry();
  EXPECT_EQ(engine_.submitted_packets().back(), 4U);
}

// Suspended only then, it has to give up its memory all the same: nothing would come to rest.
TEST_F(SchedulerPowerTest, WhoIsSuspendedWhileHeldRunsOutWhatItHoldsToo) {
  DXGKIT_COVERS("SCHED-17");
  start(1);
  for (uint64_t p = 1; p <= 4; ++p) queue(kA, p);
  scheduler_->set_held(true);
  scheduler_->set_suspended(kA, true);
  run_dry();
  EXPECT_TRUE(scheduler_->drained());
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 3));
  scheduler_->set_held(false);
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2, 3)) << "suspended from now on";
  scheduler_->set_suspended(kA, false);
  run_dry();
  EXPECT_EQ(scheduler_->packets_of(kA), 0U);
}

// A context that is resumed, or suspended once more, while a hold lets it run keeps that state when
// the hold ends.
TEST_F(SchedulerPowerTest, SuspensionAskedForWhileHeldCountsAfterwards) {
  for (const bool suspended : {false, true}) {
    engine_ = {};
    start(1);
    for (uint64_t p = 1; p <= 4; ++p) queue(kA, p);
    scheduler_->set_suspended(kA, true);
    scheduler_->set_held(true);
    scheduler_->set_suspended(kA, false);
    if (suspended) scheduler_->set_suspended(kA, true);
    run_dry();
    scheduler_->set_held(false);
    run_dry();
    EXPECT_EQ(scheduler_->packets_of(kA), suspended ? 1U : 0U);
    EXPECT_TRUE(scheduler_->validate());
  }
}

TEST_F(SchedulerPowerTest, AHeldNodeGetsNothingAndTheOthersGoOn) {
  start({{.node = kNode, .preemptible = true}, {.node = kOtherNode}});
  add(kA);
  add(kB, 0, kOtherNode);
  queue(kA, 1);
  scheduler_->hold_node(kNode, true);
  scheduler_->hold_node(kNode, true);
  queue(kA, 2);
  queue(kB, 3);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 3));
  EXPECT_EQ(complete(1), FenceReport::kAccepted) << "what is on hardware goes on";
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 3));
  scheduler_->hold_node(kNode, false);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 3, 2));
}

TEST_F(SchedulerPowerTest, NoQuantumEndsOnAHeldNode) {
  start(1);
  queue(kA, 1);
  queue(kB, 2);
  scheduler_->pump(0);
  ASSERT_TRUE(scheduler_->quantum_deadline().has_value());
  scheduler_->hold_node(kNode, true);
  EXPECT_FALSE(scheduler_->quantum_deadline().has_value());
  scheduler_->hold_node(kNode, false);
  EXPECT_TRUE(scheduler_->quantum_deadline().has_value());
}

TEST_F(SchedulerPowerTest, DrainedMeansNoMemoryNoPagingNoHardwareNoPreemption) {
  start(1);
  make_fence();
  EXPECT_TRUE(scheduler_->drained());
  wait(kA, 1, 1);
  queue(kA, 2);
  EXPECT_TRUE(scheduler_->drained()) << "what waits has no memory";
  scheduler_->hold_node(kNode, true);
  page(3);
  EXPECT_FALSE(scheduler_->drained()) << "paging that is queued";
  scheduler_->hold_node(kNode, false);
  EXPECT_FALSE(scheduler_->drained()) << "paging on hardware";
  complete(1);
  EXPECT_TRUE(scheduler_->drained());
  scheduler_->hold_node(kNode, true);
  queue(kB, 4);
  EXPECT_FALSE(scheduler_->drained()) << "prepared";
  scheduler_->hold_node(kNode, false);
  complete(2);
  EXPECT_TRUE(scheduler_->drained());
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  EXPECT_FALSE(scheduler_->drained()) << "the driver has yet to answer";
  ASSERT_EQ(preempted(3, 2), FenceReport::kAccepted);
  EXPECT_TRUE(scheduler_->drained());
}

// Whatever starts the selection: a retirement, freed memory, new work.
TEST_F(SchedulerPowerTest, HeldEnginesBecomeIdleAndHardwareQueuesGoOn) {
  const NodeOrdinal queue_node{2};
  start({{.node = kNode, .hardware_queue_depth = 1, .preemptible = true},
         {.node = kOtherNode, .hardware_queue_depth = 1},
         {.node = queue_node, .hardware_queue_depth = 1, .of_queue = true}});
  const ContextId other{110}, queued{111};
  add(kA);
  add(other, 0, kOtherNode);
  add(queued, 0, queue_node);
  for (const uint64_t p : {1U, 2U, 3U}) queue(kA, p);
  for (const uint64_t p : {11U, 12U}) queue(other, p);
  for (const uint64_t p : {21U, 22U}) queue(queued, p);
  ASSERT_THAT(engine_.submitted_packets(), ElementsAre(1, 11, 21));
  scheduler_->hold_engines(true);
  complete(1);
  complete(1, kOtherNode);
  scheduler_->retry_busy();
  add(kB, 7);
  queue(kB, 4);
  scheduler_->pump(++now_);
  EXPECT_EQ(scheduler_->node_status(kNode).hardware_queue_length, 0U);
  EXPECT_EQ(scheduler_->node_status(kOtherNode).hardware_queue_length, 0U);
  EXPECT_FALSE(scheduler_->node_status(kNode).preemption_pending);
  complete(1, queue_node);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 11, 21, 22));
  scheduler_->hold_engines(false);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 11, 21, 22, 4, 12));
}

TEST_F(SchedulerPowerTest, AContextHoldsMemoryFromPreparationToRetirement) {
  start(1);
  queue(kA, 1);
  queue(kB, 2);
  EXPECT_TRUE(scheduler_->holds_memory(kA));
  EXPECT_TRUE(scheduler_->on_hardware(kA));
  EXPECT_TRUE(scheduler_->holds_memory(kB)) << "prepared";
  EXPECT_FALSE(scheduler_->on_hardware(kB));
  EXPECT_TRUE(scheduler_->anything_on_hardware());
  complete(1);
  EXPECT_FALSE(scheduler_->holds_memory(kA));
  EXPECT_TRUE(scheduler_->on_hardware(kB));
  complete(2);
  EXPECT_FALSE(scheduler_->holds_memory(kB));
  EXPECT_FALSE(scheduler_->anything_on_hardware());
}

TEST_F(SchedulerPowerTest, WhatLostItsPowerIsGivenUpAndTheRestGoesOn) {
  start({{.node = kNode, .hardware_queue_depth = 2, .preemptible = true}, {.node = kOtherNode}});
  add(kA);
  add(kB, 0, kOtherNode);
  ASSERT_EQ(scheduler_->create_context(kPagingContext, {.node = kNode, .is_system = true}),
            Status::kSuccess);
  queue(kA, 1);
  page(2);
  queue(kB, 3);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  page(4);
  scheduler_->abandon_hardware();
  EXPECT_TRUE(scheduler_->validate());
  EXPECT_THAT(engine_.retirements, ElementsAre(Retired{1, PacketOutcome::kFaulted, true},
                                               Retired{2, PacketOutcome::kCancelled, true},
                                               Retired{3, PacketOutcome::kFaulted, true},
                                               Retired{4, PacketOutcome::kCancelled, false}));
  EXPECT_THAT(engine_.reached, ElementsAre(Reached::kHardware, Reached::kHardware,
                                           Reached::kHardware, Reached::kQueue));
  EXPECT_EQ(preempted(3, 0), FenceReport::kUnexpectedPreemption) << "that is over";
  EXPECT_EQ(complete(1), FenceReport::kUnknownFence);
  scheduler_->fail_context(kA);
  add(ContextId{1});
  queue(ContextId{1}, 5);
  EXPECT_EQ(engine_.submitted.back(), (Submitted{5, 0, 4, false}));
  page(6);
  EXPECT_EQ(engine_.submitted.back(), (Submitted{6, 0, 5, false})) << "the system context lives";
}

// Preempted paging waits to go back with its old fence: it goes with the power too.
TEST_F(SchedulerPowerTest, PreemptedPagingIsGivenUpWithThePower) {
  start(2);
  page(1);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  scheduler_->hold_node(kNode, true);
  ASSERT_EQ(preempted(2, 0), FenceReport::kAccepted);
  scheduler_->abandon_hardware();
  EXPECT_THAT(engine_.retirements, ElementsAre(Retired{1, PacketOutcome::kCancelled, true}));
  EXPECT_THAT(engine_.reached, ElementsAre(Reached::kGivenBack));
  scheduler_->hold_node(kNode, false);
  page(3);
  EXPECT_EQ(engine_.submitted.back(), (Submitted{3, 0, 3, false}));
  EXPECT_TRUE(scheduler_->validate());
}

TEST_F(SchedulerPowerTest, NothingIsGivenUpTwice) {
  start(2);
  queue(kA, 1);
  page(2);
  scheduler_->fail_context(kPagingContext);
  scheduler_->abandon_hardware();
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 2));
  scheduler_->abandon_hardware();
  EXPECT_EQ(engine_.retirements.size(), 2U);
  queue(kB, 3);
  scheduler_->halt();
  scheduler_->abandon_hardware();
  scheduler_->halt();
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(scheduler_->validate());
}

TEST_F(SchedulerPowerTest, MindsTimeWhereQuantaCanEnd) {
  start({{.node = kNode, .preemptible = true}, {.node = kOtherNode}});
  add(kA);
  add(kB, 0, kOtherNode);
  EXPECT_FALSE(scheduler_->minds_time());
  queue(kB, 1);
  EXPECT_FALSE(scheduler_->minds_time()) << "this node cannot be preempted";
  queue(kA, 2);
  EXPECT_TRUE(scheduler_->minds_time());
  complete(1);
  EXPECT_FALSE(scheduler_->minds_time());
}

TEST_F(SchedulerPowerTest, PumpingWithoutATimeDoesNotMoveTheClock) {
  start(1);
  scheduler_->pump(1000);
  queue(kA, 1);
  scheduler_->pump();
  scheduler_->pump(5000);
  EXPECT_EQ(scheduler_->node_status(kNode).progress_ns, 5000) << "not stamped before";
}

// Suspended while everything is held: a context with memory for one packet is let through, so that
// the memory comes free; one without waits at once.
TEST_F(SchedulerPowerTest, WhoHoldsMemoryForOnePacketIsLetThrough) {
  start(1);
  queue(kB, 1);
  queue(kA, 2);  // has its memory
  scheduler_->set_held(true);
  queue(kB, 3);  // gets none
  scheduler_->set_suspended(kA, true);
  scheduler_->set_suspended(kB, true);
  run_dry();
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2));
  EXPECT_TRUE(scheduler_->drained());
  queue(kA, 4);
  scheduler_->set_held(false);
  run_dry();
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2)) << "suspended, both";
  scheduler_->set_suspended(kB, false);
  scheduler_->set_suspended(kA, false);
  run_dry();
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace dxgkit::vidsch
