// Resets: which packets are hit, which go on, and with which ids.
#include <gmock/gmock.h>

#include "tests/support/covers.h"
#include "vidsch/fake_engine_test.h"
#include "vidsch/scheduler.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr NodeOrdinal kNode{0}, kOther{1};
constexpr ContextId kGuilty{100}, kInnocent{101}, kElsewhere{102}, kPagingContext{103};

class SchedulerResetTest : public ::testing::Test {
 protected:
  SchedulerResetTest() {
    const std::vector<NodeDesc> nodes{
        {.node = kNode, .hardware_queue_depth = 4, .preemptible = true},
        {.node = kOther, .hardware_queue_depth = 4, .preemptible = true}};
    scheduler_ = std::make_unique<Scheduler>(engine_, nodes);
    for (const auto& [id, node] :
         {std::pair(kGuilty, kNode), {kInnocent, kNode}, {kElsewhere, kOther}}) {
      EXPECT_EQ(scheduler_->create_context(id, {.node = node}), Status::kSuccess);
    }
    EXPECT_EQ(scheduler_->create_context(kPagingContext, {.node = kNode, .is_system = true}),
              Status::kSuccess);
  }
  void queue(ContextId context, uint64_t packet, PacketKind kind = PacketKind::kRender) {
    ASSERT_EQ(scheduler_->queue(context, {PacketId{packet}, kind, {}}), Status::kSuccess);
  }
  void page(uint64_t packet) { queue(kPagingContext, packet, PacketKind::kPaging); }
  EngineReset reset(uint32_t last_aborted) {
    scheduler_->begin_reset(kNode);
    const EngineReset reset =
        scheduler_->engine_was_reset(kNode, SubmissionFenceId{last_aborted}, ++now_);
    EXPECT_TRUE(scheduler_->validate());
    return reset;
  }
  uint32_t last_completed() const { return scheduler_->node_status(kNode).last_completed.value; }
  std::vector<FakeEngine::Submitted> new_submissions() {
    std::vector<FakeEngine::Submitted> fresh(
        engine_.submitted.begin() + static_cast<std::ptrdiff_t>(seen_), engine_.submitted.end());
    seen_ = engine_.submitted.size();
    return fresh;
  }

  FakeEngine engine_;
  std::unique_ptr<Scheduler> scheduler_;
  int64_t now_ = 0;
  size_t seen_ = 0;
};

// Fences 1 and 2 had finished when the reset came, fence 3 hung, and fence 4 waited behind it.
TEST_F(SchedulerResetTest, WhatIsNewerThanTheAbortedPacketIsSubmittedAgain) {
  DXGKIT_COVERS("TDR-16", "TDR-17");
  queue(kInnocent, 1);
  page(2);
  queue(kGuilty, 3);
  queue(kInnocent, 4);
  ASSERT_EQ(new_submissions().size(), 4U);
  const EngineReset result = reset(3);
  EXPECT_TRUE(result.in_range);
  EXPECT_TRUE(result.on_hardware);
  EXPECT_EQ(result.context, kGuilty);
  EXPECT_EQ(result.packet, PacketId{3});
  EXPECT_EQ(result.finished, 2U);
  EXPECT_EQ(result.innocent, 1U);
  EXPECT_EQ(last_completed(), 3U);
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kCompleted, true},
                          FakeEngine::Retired{2, PacketOutcome::kCompleted, true},
                          FakeEngine::Retired{3, PacketOutcome::kFaulted, true}));
  EXPECT_THAT(new_submissions(), ElementsAre(FakeEngine::Submitted{4, 0, 5, true}));
}

TEST_F(SchedulerResetTest, InnocentPagingGoesFirstInOldOrderWithOldIds) {
  DXGKIT_COVERS("TDR-17");
  queue(kGuilty, 1);
  queue(kInnocent, 2);
  page(3);
  page(4);
  ASSERT_EQ(new_submissions().size(), 4U);
  EXPECT_TRUE(scheduler_->request_preemption(kNode));  // takes id 5, and is never answered
  reset(1);
  EXPECT_THAT(new_submissions(), ElementsAre(FakeEngine::Submitted{3, 0, 3, true},
                                             FakeEngine::Submitted{4, 0, 4, true},
                                             FakeEngine::Submitted{2, 0, 6, true}));
  EXPECT_FALSE(scheduler_->node_status(kNode).preemption_pending);
}

TEST_F(SchedulerResetTest, TheGuiltyContextRunsNothingMore) {
  DXGKIT_COVERS("TDR-18");
  queue(kGuilty, 1);
  queue(kGuilty, 2);
  queue(kInnocent, 3);
  new_submissions();
  reset(1);
  EXPECT_THAT(new_submissions(), ElementsAre(FakeEngine::Submitted{3, 0, 4, true}));
  scheduler_->fail_context(kGuilty);
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kFaulted, true},
                          FakeEngine::Retired{2, PacketOutcome::kCancelled, true}));
  EXPECT_THAT(engine_.reached, ElementsAre(Reached::kHardware, Reached::kGivenBack));
  EXPECT_EQ(scheduler_->completed(kNode, SubmissionFenceId{4}, ++now_), FenceReport::kAccepted);
}

// The queue ran dry behind the snapshot: the driver names the last id that finished.
TEST_F(SchedulerResetTest, AnIdThatHadCompletedBlamesWhoseItWas) {
  DXGKIT_COVERS("TDR-15");
  queue(kGuilty, 1);
  queue(kInnocent, 2);
  ASSERT_EQ(scheduler_->completed(kNode, SubmissionFenceId{1}, ++now_), FenceReport::kAccepted);
  new_submissions();
  const EngineReset result = reset(1);
  EXPECT_TRUE(result.in_range);
  EXPECT_FALSE(result.on_hardware);
  EXPECT_EQ(result.context, kGuilty);
  EXPECT_EQ(last_completed(), 1U);
  EXPECT_THAT(new_submissions(), ElementsAre(FakeEngine::Submitted{2, 0, 3, true}));
}

class OutOfRange : public SchedulerResetTest, public ::testing::WithParamInterface<uint32_t> {};
TEST_P(OutOfRange, ChangesNothing) {
  DXGKIT_COVERS("TDR-14");
  queue(kInnocent, 1);
  queue(kGuilty, 2);
  ASSERT_EQ(scheduler_->completed(kNode, SubmissionFenceId{1}, ++now_), FenceReport::kAccepted);
  new_submissions();
  engine_.retirements.clear();
  const EngineReset result = reset(GetParam());
  EXPECT_FALSE(result.in_range);
  EXPECT_EQ(result.context.value, 0U) << "nobody is blamed";
  EXPECT_EQ(result.finished + result.innocent, 0U);
  EXPECT_THAT(engine_.retirements, IsEmpty());
  EXPECT_THAT(new_submissions(), IsEmpty());
  EXPECT_EQ(last_completed(), 1U);
  EXPECT_EQ(scheduler_->node_status(kNode).hardware_queue_length, 1U);
}
INSTANTIATE_TEST_SUITE_P(BelowAndAbove, OutOfRange, ::testing::Values(0U, 3U, 0xFFFFFFFFU));

TEST_F(SchedulerResetTest, NothingIsSubmittedUntilTheResetIsOver) {
  DXGKIT_COVERS("TDR-09");
  queue(kGuilty, 1);
  new_submissions();
  scheduler_->begin_reset(kNode);
  queue(kInnocent, 2);
  queue(kElsewhere, 3);
  EXPECT_FALSE(scheduler_->request_preemption(kNode));
  EXPECT_THAT(new_submissions(), ElementsAre(FakeEngine::Submitted{3, 1, 1, false}))
      << "other nodes go on";
  scheduler_->end_reset(kNode);
  EXPECT_THAT(new_submissions(), ElementsAre(FakeEngine::Submitted{2, 0, 2, false}));
}

TEST_F(SchedulerResetTest, AnAdapterResetEmptiesEveryNode) {
  DXGKIT_COVERS("TDR-25");
  queue(kGuilty, 1);
  page(2);
  queue(kElsewhere, 3);
  queue(kInnocent, 4);
  EXPECT_TRUE(scheduler_->request_preemption(kNode));
  new_submissions();
  scheduler_->begin_adapter_reset();
  for (const ContextId id : {kGuilty, kInnocent, kElsewhere}) scheduler_->fail_context(id);
  scheduler_->adapter_was_reset(++now_);
  EXPECT_TRUE(scheduler_->validate());
  page(5);
  EXPECT_THAT(new_submissions(), IsEmpty());
  for (const NodeOrdinal node : {kNode, kOther}) {
    const NodeStatus status = scheduler_->node_status(node);
    EXPECT_EQ(status.last_completed, status.last_submitted);
    EXPECT_EQ(status.hardware_queue_length, 0U);
    EXPECT_FALSE(status.preemption_pending);
  }
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kFaulted, true},
                          FakeEngine::Retired{2, PacketOutcome::kCancelled, true},
                          FakeEngine::Retired{4, PacketOutcome::kFaulted, true},
                          FakeEngine::Retired{3, PacketOutcome::kFaulted, true}));
  scheduler_->end_adapter_reset();
  EXPECT_THAT(new_submissions(), ElementsAre(FakeEngine::Submitted{5, 0, 5, false}))
      << "the paging context survives, and ids go on";
}

// Asking first changes nothing: TDR-15's two answers, and ids that are neither.
TEST_F(SchedulerResetTest, WhatAResetWouldFindIsToldBeforehand) {
  DXGKIT_COVERS("TDR-14", "TDR-15");
  EXPECT_EQ(scheduler_->find_aborted(kNode, SubmissionFenceId{0}).context.value, 0U)
      << "nothing has run here";
  queue(kInnocent, 1);
  page(2);
  queue(kGuilty, 3);
  ASSERT_EQ(scheduler_->completed(kNode, SubmissionFenceId{1}, ++now_), FenceReport::kAccepted);
  const EngineReset over = scheduler_->find_aborted(kNode, SubmissionFenceId{1});
  EXPECT_TRUE(over.in_range);
  EXPECT_FALSE(over.on_hardware);
  EXPECT_EQ(over.context, kInnocent);
  EXPECT_EQ(over.innocent, 2U);
  const EngineReset paging = scheduler_->find_aborted(kNode, SubmissionFenceId{2});
  EXPECT_TRUE(paging.in_range && paging.on_hardware);
  EXPECT_EQ(paging.kind, PacketKind::kPaging) << "that needs an adapter reset";
  EXPECT_EQ(paging.packet, PacketId{2});
  EXPECT_EQ(paging.finished, 0U);
  EXPECT_EQ(paging.innocent, 1U);
  const EngineReset last = scheduler_->find_aborted(kNode, SubmissionFenceId{3});
  EXPECT_EQ(last.context, kGuilty);
  EXPECT_EQ(last.kind, PacketKind::kRender);
  EXPECT_EQ(last.finished, 1U);
  EXPECT_EQ(last.innocent, 0U);
  EXPECT_FALSE(scheduler_->find_aborted(kNode, SubmissionFenceId{4}).in_range);
  EXPECT_EQ(scheduler_->node_status(kNode).hardware_queue_length, 2U);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1));
}

TEST_F(SchedulerResetTest, WhoIsOnHardwareIsToldOldestFirst) {
  EXPECT_THAT(scheduler_->contexts_on(kNode), IsEmpty());
  EXPECT_THAT(scheduler_->packets_on(kNode), IsEmpty());
  queue(kInnocent, 1);
  queue(kGuilty, 2);
  queue(kInnocent, 3);
  queue(kElsewhere, 4);
  EXPECT_THAT(scheduler_->contexts_on(kNode), ElementsAre(kInnocent, kGuilty)) << "each once";
  EXPECT_THAT(scheduler_->packets_on(kNode),
              ElementsAre(std::pair(PacketId{1}, SubmissionFenceId{1}),
                          std::pair(PacketId{2}, SubmissionFenceId{2}),
                          std::pair(PacketId{3}, SubmissionFenceId{3})));
  EXPECT_THAT(scheduler_->contexts_on(kOther), ElementsAre(kElsewhere));
  ASSERT_EQ(scheduler_->completed(kNode, SubmissionFenceId{2}, ++now_), FenceReport::kAccepted);
  EXPECT_THAT(scheduler_->contexts_on(kNode), ElementsAre(kInnocent));
}

// Its device failed for another reason while the packet hung: the reset finds it all the same.
TEST_F(SchedulerResetTest, AContextThatFailedAlreadyIsStillTheOneHit) {
  DXGKIT_COVERS("TDR-18");
  queue(kGuilty, 1);
  queue(kInnocent, 2);
  new_submissions();
  scheduler_->fail_context(kGuilty);
  const EngineReset result = reset(1);
  EXPECT_EQ(result.context, kGuilty);
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kFaulted, true}));
  EXPECT_THAT(new_submissions(), ElementsAre(FakeEngine::Submitted{2, 0, 3, true}));
  EXPECT_TRUE(scheduler_->destroy_context(kGuilty));
}

// A fault was reported, and before its device is failed the engine hangs in that context's next.
TEST_F(SchedulerResetTest, AFaultedContextMayBeHitAgain) {
  DXGKIT_COVERS("TDR-18");
  queue(kGuilty, 1);
  queue(kGuilty, 2);
  queue(kInnocent, 3);
  ASSERT_EQ(scheduler_->faulted(kNode, SubmissionFenceId{1}, ++now_, nullptr),
            FenceReport::kAccepted);
  new_submissions();
  EXPECT_EQ(reset(2).packet, PacketId{2});
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kFaulted, true},
                          FakeEngine::Retired{2, PacketOutcome::kFaulted, true}));
  EXPECT_THAT(new_submissions(), ElementsAre(FakeEngine::Submitted{3, 0, 4, true}));
}

// The adapter stopped while the engine was in reset: there is nothing left to recover.
TEST_F(SchedulerResetTest, AfterAHaltAResetFindsNothing) {
  queue(kGuilty, 1);
  ASSERT_EQ(scheduler_->completed(kNode, SubmissionFenceId{1}, ++now_), FenceReport::kAccepted);
  queue(kGuilty, 2);
  scheduler_->begin_reset(kNode);
  scheduler_->halt();
  new_submissions();
  engine_.retirements.clear();
  const int64_t progress = scheduler_->node_status(kNode).progress_ns;
  now_ += 1000;
  const EngineReset result = reset(1);
  EXPECT_TRUE(result.in_range);
  EXPECT_FALSE(result.on_hardware);
  EXPECT_EQ(result.innocent, 0U);
  EXPECT_THAT(engine_.retirements, IsEmpty());
  EXPECT_THAT(new_submissions(), IsEmpty());
  EXPECT_EQ(scheduler_->node_status(kNode).progress_ns, progress) << "nothing has gone on";
  EXPECT_TRUE(scheduler_->node_status(kNode).resetting);
}

TEST_F(SchedulerResetTest, ThePreemptionThatLedToTheResetIsOver) {
  DXGKIT_COVERS("TDR-09");
  queue(kGuilty, 1);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  reset(1);
  EXPECT_FALSE(scheduler_->node_status(kNode).preemption_pending);
  EXPECT_FALSE(scheduler_->node_status(kNode).resetting);
  EXPECT_EQ(scheduler_->preempted(kNode, SubmissionFenceId{2}, SubmissionFenceId{1}, ++now_),
            FenceReport::kUnexpectedPreemption);
  EXPECT_TRUE(scheduler_->request_preemption(kNode)) << "and another may be asked";
  EXPECT_EQ(engine_.preemptions.size(), 2U);
}

TEST_F(SchedulerResetTest, AResetThatWasNotNeededLeavesThePreemptionPending) {
  queue(kGuilty, 1);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  scheduler_->begin_reset(kNode);
  EXPECT_TRUE(scheduler_->node_status(kNode).resetting);
  scheduler_->end_reset(kNode);
  EXPECT_FALSE(scheduler_->node_status(kNode).resetting);
  EXPECT_TRUE(scheduler_->node_status(kNode).preemption_pending);
  EXPECT_EQ(scheduler_->preempted(kNode, SubmissionFenceId{2}, SubmissionFenceId{0}, ++now_),
            FenceReport::kAccepted);
}

// A packet that was refused memory before an adapter reset is asked again after it, when all memory
// is free.
TEST_F(SchedulerResetTest, RefusedPacketsAreAskedAgainAfterAnAdapterReset) {
  engine_.answers[1] = EnginePort::Prepare::kBusy;
  queue(kInnocent, 1);
  scheduler_->begin_adapter_reset();
  EXPECT_TRUE(scheduler_->node_status(kOther).resetting) << "every node is";
  EXPECT_FALSE(scheduler_->request_preemption(kOther));
  scheduler_->adapter_was_reset(++now_);
  engine_.answers.clear();
  scheduler_->retry_busy();
  queue(kElsewhere, 2);
  EXPECT_THAT(engine_.prepared, ElementsAre(1)) << "nothing while it lasts";
  scheduler_->end_adapter_reset();
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 1, 2));
  EXPECT_EQ(engine_.submitted_packets(), (std::vector<uint64_t>{1, 2}));
}

TEST_F(SchedulerResetTest, AnAdapterResetItselfMakesRefusedPacketsAskAgain) {
  engine_.answers[1] = EnginePort::Prepare::kBusy;
  queue(kInnocent, 1);
  scheduler_->begin_adapter_reset();
  scheduler_->adapter_was_reset(++now_);
  scheduler_->end_adapter_reset();
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 1));
}

}  // namespace
}  // namespace dxgkit::vidsch
