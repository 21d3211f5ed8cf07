// Reports that come at odd moments, and what the scheduler says of itself.
#include <gmock/gmock.h>

#include "tests/support/covers.h"
#include "vidsch/scheduler_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Prepare = EnginePort::Prepare;
using Retired = FakeEngine::Retired;

class SchedulerReportTest : public SchedulerTest {};

// From inside a callback: the driver has not been asked yet, so it has nothing to answer.
TEST_F(SchedulerReportTest, AnAnswerBeforeTheRequestWasSentIsUnexpected) {
  DXGKIT_COVERS("PREEMPT-05", "INT-14");
  start(2);
  std::vector<FenceReport> reports;
  engine_.on_submit = [&](uint64_t packet) {
    if (packet != 1 || !reports.empty()) return true;
    EXPECT_TRUE(scheduler_->request_preemption(kNode));
    EXPECT_THAT(engine_.preemptions, IsEmpty());
    reports.push_back(
        scheduler_->preempted(kNode, SubmissionFenceId{2}, SubmissionFenceId{0}, ++now_));
    return true;
  };
  queue(kA, 1);
  EXPECT_THAT(reports, ElementsAre(FenceReport::kUnexpectedPreemption));
  ASSERT_THAT(engine_.preemptions, ElementsAre(std::pair(0U, 2U)));
  EXPECT_EQ(scheduler_->node_status(kNode).hardware_queue_length, 1U);
  EXPECT_EQ(preempted(2, 0), FenceReport::kAccepted);
}

// For timeouts: the packet that was running, as long as nothing completes, and its time.
TEST_F(SchedulerReportTest, CountsHowOftenThePacketAtTheHeadCameBack) {
  DXGKIT_COVERS("TDR-34");
  start(2);
  const auto back = [&] { return scheduler_->node_status(kNode).given_back; };
  const auto give_back = [&](uint32_t last) {
    EXPECT_TRUE(scheduler_->request_preemption(kNode));
    now_ += 10;
    EXPECT_EQ(preempted(engine_.preemptions.back().second, last), FenceReport::kAccepted);
  };
  EXPECT_EQ(back().times, 0U);
  queue(kA, 1);
  queue(kA, 2);
  scheduler_->pump(++now_);
  give_back(0);
  const int64_t once = back().ran_ns;
  EXPECT_EQ(back().times, 1U);
  EXPECT_EQ(back().packet, PacketId{1});
  EXPECT_EQ(once, 11);
  give_back(0);
  EXPECT_EQ(back().times, 2U);
  EXPECT_EQ(back().packet, PacketId{1});
  EXPECT_EQ(back().ran_ns, once + 11);
  const uint32_t first = scheduler_->packets_on(kNode).at(0).second.value;
  EXPECT_EQ(complete(first), FenceReport::kAccepted);
  give_back(first);
  EXPECT_EQ(back().times, 1U) << "another packet";
  EXPECT_EQ(back().packet, PacketId{2});
  EXPECT_EQ(complete(scheduler_->packets_on(kNode).at(0).second.value), FenceReport::kAccepted);
  EXPECT_TRUE(scheduler_->request_preemption(kNode));
  EXPECT_EQ(preempted(engine_.preemptions.back().second,
                      scheduler_->node_status(kNode).last_completed.value),
            FenceReport::kAccepted);
  EXPECT_EQ(back().times, 0U) << "an idle engine gives nothing back";
}

TEST_F(SchedulerReportTest, ReadinessIsToldOnceAndOnlyOfWhatWaitsForIt) {
  start(1);
  engine_.answers[2] = Prepare::kWaiting;
  queue(kA, 1);
  queue(kB, 2);
  queue(kB, 3);
  for (const uint64_t packet : {1U, 3U, 99U}) {
    scheduler_->packet_ready(PacketId{packet});
    EXPECT_TRUE(scheduler_->validate());
  }
  complete(1);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1)) << "2 has not got its memory";
  scheduler_->packet_ready(PacketId{2});
  scheduler_->packet_ready(PacketId{2});
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2));
  complete(2);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 3));
}

// Two packets of one context fault one after the other, the second when the context has failed.
TEST_F(SchedulerReportTest, AFaultInAContextThatIsGoneIsAccepted) {
  DXGKIT_COVERS("SCHED-17");
  start(3);
  for (uint64_t p = 1; p <= 3; ++p) queue(kA, p);
  EXPECT_EQ(scheduler_->faulted(kNode, SubmissionFenceId{1}, ++now_, nullptr),
            FenceReport::kAccepted);
  PacketId guilty;
  EXPECT_EQ(scheduler_->faulted(kNode, SubmissionFenceId{2}, ++now_, &guilty),
            FenceReport::kAccepted);
  EXPECT_EQ(guilty, PacketId{2});
  scheduler_->fail_context(kA);
  scheduler_->fail_context(kA);
  EXPECT_EQ(scheduler_->faulted(kNode, SubmissionFenceId{3}, ++now_, &guilty),
            FenceReport::kAccepted);
  EXPECT_EQ(guilty, PacketId{3});
  EXPECT_THAT(engine_.retirements, ElementsAre(Retired{1, PacketOutcome::kFaulted, true},
                                               Retired{2, PacketOutcome::kFaulted, true},
                                               Retired{3, PacketOutcome::kFaulted, true}));
  EXPECT_TRUE(scheduler_->destroy_context(kA));
}

TEST_F(SchedulerReportTest, NothingHasCompletedSoFarIsNoFenceToFault) {
  start(2);
  queue(kA, 1);
  EXPECT_EQ(scheduler_->faulted(kNode, SubmissionFenceId{0}, ++now_, nullptr),
            FenceReport::kUnknownFence);
  EXPECT_THAT(engine_.retirements, IsEmpty());
}

TEST_F(SchedulerReportTest, AHaltedSchedulerTakesContextsAndNoWork) {
  start(2);
  scheduler_->halt();
  add(ContextId{1});
  EXPECT_EQ(scheduler_->queue(ContextId{1}, {PacketId{1}, PacketKind::kRender, {}}),
            Status::kDeviceRemoved);
  EXPECT_EQ(scheduler_->queue(kPagingContext, {PacketId{2}, PacketKind::kPaging, {}}),
            Status::kDeviceRemoved);
  EXPECT_EQ(scheduler_->packets_of(ContextId{1}), 0U);
  EXPECT_TRUE(scheduler_->destroy_context(ContextId{1}));
}

// The driver's failure comes while a preemption is under way: nothing is left of either.
TEST_F(SchedulerReportTest, HaltEndsPreemption) {
  start(2);
  queue(kA, 1);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  scheduler_->halt();
  EXPECT_FALSE(scheduler_->node_status(kNode).preemption_pending);
  EXPECT_EQ(preempted(2, 0), FenceReport::kUnexpectedPreemption);
  EXPECT_FALSE(scheduler_->quantum_deadline().has_value());
}

TEST_F(SchedulerReportTest, QueuesOfTheHardwareAreNoEngines) {
  const NodeOrdinal queue_node{2};
  start({{.node = kNode},
         {.node = NodeOrdinal{1}},
         {.node = queue_node, .hardware_queue_depth = 1, .of_queue = true}});
  EXPECT_EQ(scheduler_->node_count(), 2U);
  add(kA, 0, queue_node);
  EXPECT_FALSE(scheduler_->anything_on_hardware());
  for (uint64_t p = 1; p <= 3; ++p) queue(kA, p);
  EXPECT_TRUE(scheduler_->anything_on_hardware()) << "in whatever queue";
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1));
}

TEST_F(SchedulerReportTest, ADepthThatChangedHoldsFromThenOn) {
  DXGKIT_COVERS("SCHED-07");
  start(2);
  scheduler_->set_depth(kNode, 1);
  for (uint64_t p = 1; p <= 6; ++p) queue(kA, p);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1));
  while (scheduler_->anything_on_hardware()) complete(last_fence());
  scheduler_->set_depth(kNode, 3);
  for (uint64_t p = 7; p <= 12; ++p) queue(kA, p);
  EXPECT_EQ(scheduler_->node_status(kNode).hardware_queue_length, 3U);
}

// Nodes need not be numbered without gaps.
TEST_F(SchedulerReportTest, ANodeThatIsNotThereIsUnknown) {
  start({{.node = NodeOrdinal{3}}, {.node = NodeOrdinal{1}}});
  EXPECT_EQ(scheduler_->create_context(kA, {.node = kNode}), Status::kInvalidParameter);
  EXPECT_EQ(complete(1, NodeOrdinal{2}), FenceReport::kUnknownNode);
  add(kA, 0, NodeOrdinal{3});
  queue(kA, 1);
  EXPECT_THAT(engine_.submitted, ElementsAre(FakeEngine::Submitted{1, 3, 1, false}));
  EXPECT_EQ(complete(1, NodeOrdinal{3}), FenceReport::kAccepted);
}

// SCHED-03: sixty-four nodes, and the last one works like the first.
TEST_F(SchedulerReportTest, SixtyFourNodesAllRun) {
  DXGKIT_COVERS("SCHED-03");
  std::vector<NodeDesc> nodes;
  for (uint32_t n = 0; n < 64; ++n) nodes.push_back({.node = NodeOrdinal{n}});
  start(nodes);
  for (uint32_t n = 0; n < 64; ++n) {
    add(ContextId{n + 1}, 0, NodeOrdinal{n});
    queue(ContextId{n + 1}, n + 1);
  }
  EXPECT_EQ(engine_.submitted.size(), 64U);
  EXPECT_EQ(scheduler_->node_count(), 64U);
  for (uint32_t n = 0; n < 64; ++n) EXPECT_EQ(complete(1, NodeOrdinal{n}), FenceReport::kAccepted);
  EXPECT_EQ(engine_.retirements.size(), 64U);
}

// A context may be destroyed from its last packet's retirement, while the loop still has it in
// hand.
TEST_F(SchedulerReportTest, AContextMayGoFromInsideItsLastRetirement) {
  DXGKIT_COVERS("SCHED-22");
  start(2);
  bool gone = false;
  engine_.on_retired = [&](uint64_t packet) {
    if (packet == 2) gone = scheduler_->destroy_context(kA);
  };
  queue(kA, 1);
  queue(kA, 2);
  queue(kB, 3);
  complete(2);
  EXPECT_TRUE(gone);
  EXPECT_EQ(engine_.submitted_packets().back(), 3U);
  EXPECT_TRUE(scheduler_->validate());
  add(kA);  // the id is free again
  queue(kA, 4);
  EXPECT_EQ(engine_.submitted_packets().back(), 4U);
}

TEST_F(SchedulerReportTest, APolicyOutOfBoundsIsNotValid) {
  EXPECT_TRUE(SchedulingPolicy{}.valid());
  EXPECT_TRUE((SchedulingPolicy{.starvation_percent = 99}.valid()));
  EXPECT_FALSE((SchedulingPolicy{.quantum_ns = 0}.valid()));
  EXPECT_FALSE((SchedulingPolicy{.grace_ns = 0}.valid()));
  EXPECT_FALSE((SchedulingPolicy{.round_ns = 0}.valid()));
  EXPECT_FALSE((SchedulingPolicy{.least_charge_ns = 0}.valid()));
  EXPECT_FALSE((SchedulingPolicy{.starvation_percent = 100}.valid()));
  EXPECT_FALSE((SchedulingPolicy{.look_ahead = 0}.valid()));
}

}  // namespace
}  // namespace dxgkit::vidsch
