#include "vidsch/scheduler.h"

#include <gmock/gmock.h>

#include <array>

#include "tests/support/covers.h"
#include "trace/causes.h"
#include "trace/trace.h"
#include "vidsch/scheduler_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Prepare = EnginePort::Prepare;

// --- software and hardware queues ---

// One context, a queue of depth two: packets go in queue order, never more than two at once.
TEST_F(SchedulerTest, HardwareQueueIsBoundedAndContextsAreFifo) {
  DXGKIT_COVERS("SCHED-06", "SCHED-07");
  start(2);
  for (uint64_t p = 1; p <= 5; ++p) queue(kA, p);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2));
  EXPECT_EQ(scheduler_->node_status(kNode).hardware_queue_length, 2U);
  complete(1);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 3));
  complete(3);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 3, 4, 5));
  complete(5);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(scheduler_->packets_of(kA), 0U);
}

// Who queues several packets, or answers a client first, selects when all is done.
TEST_F(SchedulerTest, APacketToBeSelectedLaterWaitsForWhoeverSelectsNext) {
  DXGKIT_COVERS("SCHED-06");
  start(4);
  EXPECT_EQ(scheduler_->queue(kA, {.id = PacketId{1}, .selected_later = true}), Status::kSuccess);
  EXPECT_THAT(engine_.submitted_packets(), IsEmpty());
  EXPECT_EQ(scheduler_->packets_of(kA), 1U);
  scheduler_->pump();
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1));
  EXPECT_EQ(scheduler_->queue(kA, {.id = PacketId{2}, .selected_later = true}), Status::kSuccess);
  queue(kB, 3);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 3));
}

// A packet whose paging is slow holds its context's later packets, not the neighbour's.
TEST_F(SchedulerTest, LaterPacketsOfAContextNeverOvertake) {
  DXGKIT_COVERS("SCHED-06");
  start(4);
  engine_.answers[1] = Prepare::kWaiting;
  queue(kA, 1);
  queue(kA, 2);
  queue(kB, 3);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(3));
  scheduler_->packet_ready(PacketId{1});
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(3, 1, 2));
}

TEST_F(SchedulerTest, FencesRiseByNodeSkipZeroAndSurviveTheWrap) {
  DXGKIT_COVERS("SUB-13", "SUB-14");
  const NodeOrdinal second{1};
  start({{.node = kNode, .hardware_queue_depth = 4, .first_fence = SubmissionFenceId{0xFFFFFFFE}},
         {.node = second}});
  add(kA);
  add(kB, 0, second);
  for (uint64_t p = 1; p <= 4; ++p) queue(kA, p);
  queue(kB, 5);
  EXPECT_THAT(engine_.submitted, ElementsAre(FakeEngine::Submitted{1, 0, 0xFFFFFFFE, false},
                                             FakeEngine::Submitted{2, 0, 0xFFFFFFFF, false},
                                             FakeEngine::Submitted{3, 0, 1, false},
                                             FakeEngine::Submitted{4, 0, 2, false},
                                             FakeEngine::Submitted{5, 1, 1, false}));
  EXPECT_EQ(complete(1), FenceReport::kAccepted);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 2, 3));
}

TEST_F(SchedulerTest, FencesThatWereSkippedStayWithinHalfOfAllOfWhatCompleted) {
  DXGKIT_COVERS("SUB-13", "SUB-14");
  constexpr uint32_t kQuarter = 1U << 30;
  const NodeOrdinal second{1};
  start({{.node = kNode}, {.node = second}});
  add(kA);
  add(kB, 0, second);
  const auto run = [&](ContextId context, uint64_t packet) {
    queue(context, packet);
    const uint32_t fence = engine_.submitted.back().fence;
    EXPECT_EQ(complete(fence, context == kA ? kNode : second), FenceReport::kAccepted);
    return fence;
  };
  EXPECT_EQ(run(kA, 1), 1U);
  EXPECT_EQ(run(kB, 2), 1U);
  scheduler_->skip_fences(8);
  EXPECT_EQ(run(kA, 3), kQuarter - 8);
  scheduler_->skip_fences(8);
  EXPECT_EQ(run(kA, 4), 2 * kQuarter - 8);
  // Nothing has completed on the second node meanwhile: that would be too far.
  scheduler_->skip_fences(8);
  EXPECT_EQ(run(kB, 5), 2 * kQuarter - 8);
  EXPECT_EQ(run(kA, 6), 3 * kQuarter - 8);
  scheduler_->skip_fences(0);
  EXPECT_EQ(run(kA, 7), 3 * kQuarter);
  scheduler_->skip_fences(0);
  EXPECT_EQ(run(kA, 8), 1U) << "not 0";
  EXPECT_TRUE(scheduler_->validate());
}

TEST_F(SchedulerTest, ThePagingContextGoesFirst) {
  DXGKIT_COVERS("SCHED-14");
  start(1, false);
  add(ContextId{1}, 7);
  queue(kA, 1);
  queue(ContextId{1}, 2);
  page(3);
  complete(last_fence());
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 3));
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2)) << "paging needs no residency";
}

TEST_F(SchedulerTest, HighestPriorityFirstAndRoundRobinAmongEquals) {
  DXGKIT_COVERS("SCHED-08");
  policy_.quantum_ns = policy_.least_charge_ns;  // a turn is one packet
  start(1, false);
  add(ContextId{1}, 3);
  queue(kA, 1);
  queue(kA, 2);
  queue(kA, 3);
  queue(kB, 4);
  queue(kB, 5);
  queue(ContextId{1}, 6);
  while (engine_.submitted.size() < 6) complete(last_fence());
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 6, 4, 2, 5, 3));
}

// A stream of high-priority work lets a low-priority context through once in ten.
TEST_F(SchedulerTest, LowerPrioritiesGetOneChoiceInTen) {
  start(1, false);
  add(ContextId{1}, 7);
  queue(ContextId{1}, 1);
  queue(kA, 1000);
  for (uint64_t p = 2; p <= 30; ++p) queue(ContextId{1}, p);
  while (engine_.submitted.size() < 15) complete(last_fence());
  const std::vector<uint64_t> order = engine_.submitted_packets();
  EXPECT_EQ(std::ranges::find(order, 1000U) - order.begin(), 10);
}

TEST_F(SchedulerTest, ChangedPriorityHoldsFromTheNextChoice) {
  start(1, false);
  queue(kA, 1);
  queue(kA, 2);
  queue(kB, 3);
  EXPECT_EQ(scheduler_->set_priority(kA, 8), Status::kInvalidParameter);
  EXPECT_EQ(scheduler_->set_priority(kA, -8), Status::kInvalidParameter);
  ASSERT_EQ(scheduler_->set_priority(kA, 7), Status::kSuccess);
  complete(last_fence());
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2));
}

TEST_F(SchedulerTest, SuspendedContextIsSkippedAndItsNeighbourRuns) {
  DXGKIT_COVERS("SCHED-17");
  start(2);
  scheduler_->set_suspended(kA, true);
  queue(kA, 1);
  queue(kB, 2);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(2));
  EXPECT_THAT(engine_.prepared, ElementsAre(2));
  scheduler_->set_suspended(kA, false);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(2, 1));
}

TEST_F(SchedulerTest, ContextsAreRefusedForUnknownNodesAndPriorities) {
  start();
  EXPECT_EQ(scheduler_->create_context(ContextId{1}, {.node = NodeOrdinal{1}}),
            Status::kInvalidParameter);
  EXPECT_EQ(scheduler_->create_context(ContextId{1}, {.node = kNode, .priority = 8}),
            Status::kInvalidParameter);
  EXPECT_EQ(scheduler_->create_context(ContextId{1}, {.node = kNode, .priority = -8}),
            Status::kInvalidParameter);
  add(ContextId{1}, -7);  // the id stayed free
}

TEST_F(SchedulerTest, PagingOutsideASystemContextIsRefused) {
  start();
  EXPECT_EQ(scheduler_->queue(kA, {PacketId{1}, PacketKind::kPaging, {}}),
            Status::kInvalidParameter);
  EXPECT_EQ(scheduler_->packets_of(kA), 0U);
  EXPECT_THAT(engine_.submitted, IsEmpty());
}

// --- preparation ---

// Packets are prepared while others run, up to depth + 1 of them, in queue order.
TEST_F(SchedulerTest, LooksAheadByDepthPlusOne) {
  start(2);
  for (uint64_t p = 1; p <= 9; ++p) queue(kA, p);
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2, 3, 4, 5));
  complete(1);
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(SchedulerTest, NothingBehindAnUnsatisfiedWaitIsPrepared) {
  start(2);
  make_fence();
  wait(kA, 1, 1);
  queue(kA, 2);
  EXPECT_THAT(engine_.prepared, IsEmpty());
  ASSERT_EQ(scheduler_->sync_objects().signal(std::vector<SyncPoint>{{kFence, 1}}),
            Status::kSuccess);
  EXPECT_THAT(engine_.prepared, ElementsAre(2));
}

TEST_F(SchedulerTest, BusyPacketIsAskedAgainAfterEveryRetirementAndThenRuns) {
  start(2);
  queue(kA, 1);
  engine_.answers[2] = Prepare::kBusy;
  queue(kA, 2);
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2));
  engine_.answers[2] = Prepare::kReady;
  complete(1);
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2, 2));
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2));
}

// A big packet is refused while small ones hold memory. Without the gate small ones would go on
// taking what is freed, from a context whose turn is later.
TEST_F(SchedulerTest, RefusedPacketHoldsBackItsEqualsUntilItGetsMemory) {
  start(2);
  queue(kB, 0);
  complete(1);  // so that kB has its turn before kA
  queue(kA, 1);
  engine_.answers[2] = Prepare::kBusy;
  queue(kB, 2);
  queue(kA, 3);
  queue(kA, 4);
  EXPECT_THAT(engine_.prepared, ElementsAre(0, 1, 2)) << "3 and 4 must not take the memory 2 needs";
  engine_.answers[2] = Prepare::kReady;
  complete(2);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(0, 1, 2, 3));
}

TEST_F(SchedulerTest, RefusedPacketThatNothingCanHelpHoldsBackNobody) {
  start(2);
  engine_.answers[1] = Prepare::kBusy;  // say, a CPU lock is in the way
  queue(kA, 1);
  queue(kB, 2);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(2));
  complete(1);
  engine_.answers[1] = Prepare::kReady;
  scheduler_->retry_busy();
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(2, 1));
}

TEST_F(SchedulerTest, TheOldestRefusedPacketGetsMemoryFirst) {
  start(2);
  add(ContextId{1}, 5);
  queue(kA, 1);
  engine_.answers[2] = Prepare::kBusy;
  engine_.answers[3] = Prepare::kBusy;
  queue(kB, 2);
  queue(ContextId{1}, 3);  // higher priority: may pass the gate, and is refused too
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2, 3));
  engine_.prepared.clear();
  complete(1);
  EXPECT_THAT(engine_.prepared, ElementsAre(2, 3));
}

TEST_F(SchedulerTest, FailedPrepareCancelsThePacketAndStopsTheContext) {
  start(2);
  make_fence();
  engine_.on_prepare = [&](uint64_t packet) {
    if (packet != 1) return Prepare::kReady;
    scheduler_->fail_context(kA);
    return Prepare::kFailed;
  };
  queue(kB, 5);
  queue(kA, 1);
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kCancelled, false}));
  EXPECT_EQ(scheduler_->queue(kA, {PacketId{2}, PacketKind::kRender, {}}), Status::kDeviceRemoved);
}

// A packet that does not fit is cut from inside prepare, more than once; the parts run in order,
// ahead of what came later.
TEST_F(SchedulerTest, PartsOfASplitPacketRunInOrder) {
  DXGKIT_COVERS("REND-25");
  start(1);
  queue(kB, 9);
  engine_.on_prepare = [&](uint64_t packet) {
    if (packet == 1) {
      scheduler_->insert_after(PacketId{1}, PacketId{3});
      scheduler_->insert_after(PacketId{1}, PacketId{2});
    }
    if (packet == 3) scheduler_->insert_after(PacketId{3}, PacketId{4});
    EXPECT_TRUE(scheduler_->validate());
    return Prepare::kReady;
  };
  queue(kA, 1);
  queue(kA, 5);
  while (engine_.submitted.size() < 6) complete(last_fence());
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(9, 1, 2, 3, 4, 5));
  complete(last_fence());
  EXPECT_EQ(scheduler_->packets_of(kA), 0U);
}

TEST_F(SchedulerTest, DrainingContextFailsAtAWaitNobodySatisfied) {
  DXGKIT_COVERS("SCHED-22");
  start(2);
  make_fence();
  queue(kA, 1);
  wait(kA, 2, 1);
  queue(kA, 3);
  scheduler_->drain_context(kA);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(2, 3)) << "cancelled behind the wait";
  complete(1);
  EXPECT_TRUE(scheduler_->destroy_context(kA));
  queue(kB, 4);
  scheduler_->drain_context(kB);
  complete(last_fence());
  EXPECT_EQ(engine_.retirements.back().outcome, PacketOutcome::kCompleted) << "nothing held it";
}

TEST_F(SchedulerTest, PortMayCallBackFromEverywhere) {
  start(2);
  make_fence();
  // Paging queued and finished from inside prepare, the next packet queued from inside submit and
  // retired.
  engine_.on_prepare = [&](uint64_t packet) {
    if (packet == 1) page(50);
    scheduler_->packet_ready(PacketId{packet});
    EXPECT_TRUE(scheduler_->validate());
    return Prepare::kWaiting;
  };
  engine_.on_submit = [&](uint64_t packet) {
    if (packet == 1) queue(kA, 2);
    return true;
  };
  engine_.on_retired = [&](uint64_t packet) {
    EXPECT_TRUE(scheduler_->validate());
    if (packet == 2) queue(kB, 3);
    if (packet == 50) {
      EXPECT_EQ(scheduler_->completed(kNode, SubmissionFenceId{2}, 5), FenceReport::kAccepted);
    }
  };
  queue(kA, 1);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(50, 1));
  complete(1);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(50, 1));
  complete(3);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(50, 1, 2, 3));
}

// --- fence reports ---

TEST_F(SchedulerTest, CompletionCoversEveryEarlierPacket) {
  DXGKIT_COVERS("INT-10");
  start(4);
  for (uint64_t p = 1; p <= 4; ++p) queue(kA, p);
  EXPECT_EQ(complete(3), FenceReport::kAccepted);
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kCompleted, true},
                          FakeEngine::Retired{2, PacketOutcome::kCompleted, true},
                          FakeEngine::Retired{3, PacketOutcome::kCompleted, true}));
  EXPECT_EQ(scheduler_->node_status(kNode).last_completed, SubmissionFenceId{3});
}

TEST_F(SchedulerTest, OddFenceReportsAreNamedAndChangeNothing) {
  DXGKIT_COVERS("INT-11", "INT-12");
  start(4);
  for (uint64_t p = 1; p <= 4; ++p) queue(kA, p);
  complete(2);
  const auto retired_before = engine_.retirements;
  EXPECT_EQ(complete(2), FenceReport::kRepeated);
  EXPECT_EQ(complete(1), FenceReport::kUnknownFence) << "older than the last completed";
  EXPECT_EQ(complete(5), FenceReport::kUnknownFence) << "newer than the last submitted";
  EXPECT_EQ(complete(0), FenceReport::kUnknownFence);
  EXPECT_EQ(complete(3, NodeOrdinal{1}), FenceReport::kUnknownNode);
  EXPECT_EQ(complete(3, NodeOrdinal{0xFFFFFFFF}), FenceReport::kUnknownNode);
  EXPECT_EQ(engine_.retirements, retired_before);
  EXPECT_EQ(scheduler_->node_status(kNode).hardware_queue_length, 2U);
  // A preempted id is unknown too: it will never complete.
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  ASSERT_EQ(preempted(engine_.preemptions.back().second, 2), FenceReport::kAccepted);
  EXPECT_EQ(complete(3), FenceReport::kUnknownFence);
}

TEST_F(SchedulerTest, FaultCompletesEarlierPacketsAndStopsItsContext) {
  DXGKIT_COVERS("SCHED-17");
  start(3);
  make_fence();
  queue(kB, 1);
  queue(kA, 2);
  signal(kA, 3, 1);
  queue(kB, 4);
  queue(kA, 5);
  PacketId guilty;
  EXPECT_EQ(scheduler_->faulted(kNode, SubmissionFenceId{2}, 1, &guilty), FenceReport::kAccepted);
  EXPECT_EQ(guilty, PacketId{2});
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kCompleted, true},
                          FakeEngine::Retired{2, PacketOutcome::kFaulted, true}));
  EXPECT_EQ(scheduler_->sync_objects().value(kFence), 0U);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 4)) << "5 waits for fail_context";
  scheduler_->fail_context(kA);
  EXPECT_EQ(engine_.retirements[2], (FakeEngine::Retired{3, PacketOutcome::kCancelled, false}));
  EXPECT_EQ(engine_.retirements[3], (FakeEngine::Retired{5, PacketOutcome::kCancelled, false}));
  EXPECT_EQ(scheduler_->sync_objects().value(kFence), 0U);
  EXPECT_EQ(scheduler_->faulted(kNode, SubmissionFenceId{2}, 1, nullptr), FenceReport::kRepeated);
  EXPECT_EQ(scheduler_->faulted(kNode, SubmissionFenceId{9}, 1, nullptr),
            FenceReport::kUnknownFence);
  EXPECT_EQ(scheduler_->faulted(NodeOrdinal{4}, SubmissionFenceId{9}, 1, nullptr),
            FenceReport::kUnknownNode);
}

// The signal between a completed packet and the faulted one has only completed work before it.
TEST_F(SchedulerTest, SignalsBeforeAFaultFireAndThoseBehindItDoNot) {
  DXGKIT_COVERS("SYNC-05");
  start(3);
  make_fence();
  queue(kA, 1);
  signal(kA, 2, 1);
  queue(kA, 3);
  signal(kA, 4, 2);
  EXPECT_EQ(scheduler_->faulted(kNode, SubmissionFenceId{2}, 1, nullptr), FenceReport::kAccepted);
  EXPECT_EQ(scheduler_->sync_objects().value(kFence), 1U);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 2, 3));
}

// --- preemption ---

TEST_F(SchedulerTest, PreemptedPacketsComeBackInOrderWithNewerFences) {
  DXGKIT_COVERS("SUB-25", "SUB-26", "INT-13", "PREEMPT-03", "PREEMPT-08");
  start(4);
  make_fence();
  queue(kA, 1);
  queue(kA, 2);
  signal(kA, 3, 1);
  queue(kB, 4);
  queue(kA, 5);
  queue(kA, 6);
  ASSERT_EQ(engine_.submitted_packets(), (std::vector<uint64_t>{1, 2, 4, 5}));
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  ASSERT_THAT(engine_.preemptions, ElementsAre(std::pair(0U, 5U))) << "newer than all queued";
  queue(kB, 7);
  EXPECT_EQ(engine_.submitted.size(), 4U) << "nothing is submitted behind a preemption request";
  engine_.submitted.clear();
  engine_.prepared.clear();
  EXPECT_EQ(preempted(5, 1), FenceReport::kAccepted);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1));
  EXPECT_EQ(scheduler_->sync_objects().value(kFence), 0U) << "2 did not complete";
  // 2 before its context's 5; B's turn is its own. Ids go on after the preemption's.
  ASSERT_EQ(engine_.submitted.size(), 4U);
  std::vector<uint64_t> of_a;
  uint32_t fence = 5;
  for (const auto& s : engine_.submitted) {
    EXPECT_EQ(s.fence, ++fence);
    EXPECT_EQ(s.resubmission, s.packet == 2 || s.packet == 4 || s.packet == 5);
    if (s.packet == 2 || s.packet == 5 || s.packet == 6) of_a.push_back(s.packet);
  }
  EXPECT_TRUE(std::ranges::is_sorted(of_a));
  for (const uint64_t p : engine_.prepared) EXPECT_TRUE(p == 6 || p == 7) << "pins are kept";
  complete(last_fence());
  EXPECT_EQ(scheduler_->sync_objects().value(kFence), 1U);
}

TEST_F(SchedulerTest, PreemptedPagingGoesFirstWithItsOldFence) {
  DXGKIT_COVERS("SUB-26", "PREEMPT-13", "PREEMPT-14");
  start(3);
  queue(kA, 1);
  page(2);
  page(3);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));  // id 4
  page(4);
  ASSERT_EQ(preempted(4, 0), FenceReport::kAccepted) << "0: nothing has completed so far";
  engine_.submitted.erase(engine_.submitted.begin(), engine_.submitted.begin() + 3);
  EXPECT_THAT(engine_.submitted, ElementsAre(FakeEngine::Submitted{2, 0, 2, true},
                                             FakeEngine::Submitted{3, 0, 3, true},
                                             FakeEngine::Submitted{4, 0, 5, false}));
  EXPECT_EQ(complete(2), FenceReport::kAccepted) << "older than the preemption id, and valid";
  EXPECT_EQ(engine_.submitted.back(), (FakeEngine::Submitted{1, 0, 6, true}));
  EXPECT_EQ(complete(6), FenceReport::kAccepted);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(2, 3, 4, 1));
}

TEST_F(SchedulerTest, OnePreemptionAtATimeAndOnlyWhereItIsPossible) {
  DXGKIT_COVERS("PREEMPT-05");
  start({{.node = kNode, .preemptible = true}, {.node = NodeOrdinal{1}}});
  EXPECT_FALSE(scheduler_->request_preemption(NodeOrdinal{1}));
  EXPECT_TRUE(scheduler_->request_preemption(kNode));
  EXPECT_FALSE(scheduler_->request_preemption(kNode));
  EXPECT_EQ(engine_.preemptions.size(), 1U);
  EXPECT_TRUE(scheduler_->node_status(kNode).preemption_pending);
  ASSERT_EQ(preempted(1, 0), FenceReport::kAccepted);
  EXPECT_TRUE(scheduler_->request_preemption(kNode));
  EXPECT_EQ(engine_.preemptions.size(), 2U);
}

TEST_F(SchedulerTest, OddPreemptionReportsAreNamedAndChangeNothing) {
  DXGKIT_COVERS("INT-14", "PREEMPT-09");
  start(4);
  for (uint64_t p = 1; p <= 3; ++p) queue(kA, p);
  EXPECT_EQ(preempted(4, 0), FenceReport::kUnexpectedPreemption) << "none was asked";
  complete(2);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));  // id 4
  EXPECT_EQ(preempted(3, 2), FenceReport::kUnexpectedPreemption);
  EXPECT_EQ(preempted(4, 1), FenceReport::kUnknownFence) << "older than a fence already reported";
  EXPECT_EQ(preempted(4, 9), FenceReport::kUnknownFence) << "newer than the last submitted";
  EXPECT_EQ(scheduler_->preempted(NodeOrdinal{1}, SubmissionFenceId{4}, SubmissionFenceId{2}, 1),
            FenceReport::kUnknownNode);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 2));
  EXPECT_TRUE(scheduler_->node_status(kNode).preemption_pending);
  EXPECT_EQ(preempted(4, 2), FenceReport::kAccepted);
  EXPECT_EQ(preempted(4, 2), FenceReport::kUnexpectedPreemption) << "answered already";
}

TEST_F(SchedulerTest, HigherPriorityPreemptsLowerWorkOnHardware) {
  DXGKIT_COVERS("SCHED-09");
  start(2);
  add(ContextId{1}, 1);
  queue(kA, 1);
  queue(kB, 2);
  EXPECT_THAT(engine_.preemptions, IsEmpty()) << "equals do not preempt";
  queue(ContextId{1}, 3);
  ASSERT_THAT(engine_.preemptions, ElementsAre(std::pair(0U, 3U)));
  ASSERT_EQ(preempted(3, 0), FenceReport::kAccepted);
  ASSERT_EQ(engine_.submitted.size(), 4U);
  EXPECT_EQ(engine_.submitted[2].packet, 3U);
  queue(kB, 4);
  complete(last_fence());
  EXPECT_EQ(engine_.preemptions.size(), 1U);
}

// The trace names the packet on whose behalf a preemption is asked for; none where the kernel asks.
TEST_F(SchedulerTest, WhyAPreemptionIsAskedForIsTraced) {
  trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
  start(2);
  add(ContextId{1}, 1);
  trace::set_current(&recorder);
  queue(kA, 1);
  queue(ContextId{1}, 3);
  ASSERT_EQ(preempted(engine_.preemptions.back().second, 0), FenceReport::kAccepted);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  trace::set_current(nullptr);
  std::vector<std::array<uint64_t, 5>> causes;
  for (const trace::Event& event : recorder.events()) {
    if (event.kind == static_cast<uint16_t>(trace::EventKind::kWhyPreempted))
      causes.push_back({event.a, event.b, event.c, event.d, event.node});
  }
  using Row = std::array<uint64_t, 5>;
  ASSERT_EQ(engine_.preemptions.size(), 2U);
  EXPECT_THAT(causes,
              ElementsAre(Row{3, 1, static_cast<uint64_t>(trace::PreemptionReason::kOutranked),
                              engine_.preemptions[0].second, kNode.value},
                          Row{0, 0, static_cast<uint64_t>(trace::PreemptionReason::kAsked),
                              engine_.preemptions[1].second, kNode.value}));
}

TEST_F(SchedulerTest, NoPreemptionWithoutThePrivilege) {
  start(2, false);
  add(ContextId{1}, 1);
  queue(kA, 1);
  queue(ContextId{1}, 3);
  EXPECT_THAT(engine_.preemptions, IsEmpty());
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 3));
}

// The wait is registered, then preemption puts packets back in front of it: the wake-up must still
// find it.
TEST_F(SchedulerTest, WaitSurvivesPreemptionOfThePacketsBeforeIt) {
  start(1);
  make_fence();
  add(ContextId{1}, 7);
  queue(kA, 1);
  wait(kA, 2, 1);
  queue(kA, 3);
  queue(ContextId{1}, 4);  // preempts, and keeps 1 in front of the wait afterwards
  ASSERT_EQ(preempted(2, 0), FenceReport::kAccepted);
  ASSERT_EQ(engine_.submitted.back().packet, 4U);
  ASSERT_EQ(scheduler_->sync_objects().signal(std::vector<SyncPoint>{{kFence, 1}}),
            Status::kSuccess);
  complete(last_fence());
  complete(last_fence());
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(4, 1, 2));
  EXPECT_EQ(engine_.submitted.back().packet, 3U);
}

// --- sync packets ---

TEST_F(SchedulerTest, SignalFiresWhenEveryEarlierPacketIsDoneAndHoldsNothing) {
  DXGKIT_COVERS("SYNC-05");
  start(4);
  make_fence();
  queue(kA, 1);
  queue(kA, 2);
  signal(kA, 3, 10);
  queue(kA, 4);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 4)) << "a signal holds nothing back";
  complete(1);
  EXPECT_EQ(scheduler_->sync_objects().value(kFence), 0U);
  uint64_t seen_at_retirement = 0;
  engine_.on_retired = [&](uint64_t packet) {
    if (packet == 4) seen_at_retirement = scheduler_->sync_objects().value(kFence);
  };
  complete(3);
  EXPECT_EQ(scheduler_->sync_objects().value(kFence), 10U);
  EXPECT_EQ(seen_at_retirement, 10U) << "the signal precedes the packet behind it";
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 2, 3, 4));
}

TEST_F(SchedulerTest, WaitHoldsLaterPacketsOnly) {
  DXGKIT_COVERS("SYNC-05", "SYNC-20");
  start(4);
  make_fence();
  queue(kA, 1);
  wait(kA, 2, 5);
  queue(kA, 3);
  queue(kB, 4);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 4));
  signal(kB, 5, 5);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 4)) << "4 is not done";
  complete(2);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 4, 3));
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 4, 5, 2));
}

TEST_F(SchedulerTest, SignalBeyondASemaphoresMaximumIsReportedAndHoldsNothing) {
  start(2);
  const SyncObjectId semaphore{8};
  ASSERT_EQ(scheduler_->sync_objects().create(
                semaphore, {.kind = SyncKind::kSemaphore, .initial = 1, .maximum = 1}),
            Status::kSuccess);
  queue(kA, 1, PacketKind::kSignal, {{semaphore}});
  queue(kA, 2);
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kFaulted, false}));
  EXPECT_EQ(scheduler_->sync_objects().value(semaphore), 1U);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(2));
}

TEST_F(SchedulerTest, QueuedSyncPacketsOutliveTheirObject) {
  DXGKIT_COVERS("SYNC-28");
  start(2);
  make_fence();
  wait(kA, 1, 5);
  wait(kA, 2, 6);
  signal(kA, 3, 7);
  queue(kA, 4);
  scheduler_->sync_objects().destroy(kFence);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 2, 3));
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(4));
}

// --- failure and the end ---

TEST_F(SchedulerTest, FailedContextCancelsInOrderAndLetsHardwareFinishAsFaulted) {
  DXGKIT_COVERS("CANCEL-04");
  start(2);
  make_fence();
  queue(kA, 1);
  signal(kA, 2, 1);
  queue(kA, 3);
  queue(kA, 4);
  wait(kA, 5, 99);
  queue(kA, 6);
  queue(kB, 7);
  scheduler_->fail_context(kA);
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{2, PacketOutcome::kCancelled, false},
                          FakeEngine::Retired{4, PacketOutcome::kCancelled, false},
                          FakeEngine::Retired{5, PacketOutcome::kCancelled, false},
                          FakeEngine::Retired{6, PacketOutcome::kCancelled, false}));
  EXPECT_EQ(scheduler_->packets_of(kA), 2U);
  EXPECT_EQ(scheduler_->queue(kA, {PacketId{8}, PacketKind::kRender, {}}), Status::kDeviceRemoved);
  EXPECT_EQ(scheduler_->packets_of(kA), 2U);
  EXPECT_FALSE(scheduler_->destroy_context(kA));
  complete(2);
  EXPECT_EQ(engine_.retirements[4], (FakeEngine::Retired{1, PacketOutcome::kFaulted, true}));
  EXPECT_EQ(engine_.retirements[5], (FakeEngine::Retired{3, PacketOutcome::kFaulted, true}));
  EXPECT_EQ(scheduler_->sync_objects().value(kFence), 0U) << "signals of a failed context drop";
  EXPECT_EQ(engine_.submitted.back().packet, 7U);
  EXPECT_TRUE(scheduler_->destroy_context(kA));
}

TEST_F(SchedulerTest, PreemptedPacketOfAFailedContextIsCancelledButReachedHardware) {
  start(1);
  queue(kA, 1);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  add(ContextId{1}, 7);
  queue(ContextId{1}, 2);
  ASSERT_EQ(preempted(2, 0), FenceReport::kAccepted);
  ASSERT_EQ(engine_.submitted.back().packet, 2U);
  scheduler_->fail_context(kA);
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kCancelled, true}));
  EXPECT_THAT(engine_.reached, ElementsAre(Reached::kGivenBack));
}

// The device is lost first, the hardware gives its packet back then; the driver never took another.
TEST_F(SchedulerTest, WhatComesBackToAFailedContextWasGivenBackUnlessItWasRefused) {
  start(2);
  add(ContextId{1}, 7);
  engine_.refused.insert(2);
  queue(kA, 1);
  queue(kA, 2);
  queue(kA, 3);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  scheduler_->fail_context(kA);
  ASSERT_EQ(preempted(3, 0), FenceReport::kAccepted);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(3, 1, 2));
  EXPECT_THAT(engine_.reached,
              ElementsAre(Reached::kQueue, Reached::kGivenBack, Reached::kHardware));
}

// On hardware again: what it came back from before says nothing.
TEST_F(SchedulerTest, APacketThatRunsAfterAllWasOnHardware) {
  start(1);
  queue(kA, 1);
  ASSERT_TRUE(scheduler_->request_preemption(kNode));
  ASSERT_EQ(preempted(2, 0), FenceReport::kAccepted);
  scheduler_->fail_context(kA);
  ASSERT_EQ(complete(3), FenceReport::kAccepted);
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kFaulted, true}));
  EXPECT_THAT(engine_.reached, ElementsAre(Reached::kHardware));
}

TEST_F(SchedulerTest, HaltRetiresEverythingOnceAndSubmitsNothing) {
  start(2);
  make_fence();
  for (uint64_t p = 1; p <= 3; ++p) queue(kA, p);
  wait(kB, 4, 1);
  scheduler_->halt();
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kFaulted, true},
                          FakeEngine::Retired{2, PacketOutcome::kFaulted, true},
                          FakeEngine::Retired{3, PacketOutcome::kCancelled, false},
                          FakeEngine::Retired{4, PacketOutcome::kCancelled, false}));
  EXPECT_EQ(scheduler_->queue(kB, {PacketId{5}, PacketKind::kRender, {}}), Status::kDeviceRemoved);
  EXPECT_EQ(complete(1), FenceReport::kUnknownFence);
  EXPECT_FALSE(scheduler_->request_preemption(kNode));
  EXPECT_EQ(engine_.submitted.size(), 2U);
  EXPECT_TRUE(scheduler_->validate());
}

TEST_F(SchedulerTest, RefusedSubmissionHaltsTheScheduler) {
  start(2);
  engine_.on_submit = [](uint64_t packet) { return packet != 2; };
  queue(kA, 1);
  queue(kA, 2);
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kFaulted, true},
                          FakeEngine::Retired{2, PacketOutcome::kFaulted, true}));
  EXPECT_EQ(scheduler_->queue(kB, {PacketId{3}, PacketKind::kRender, {}}), Status::kDeviceRemoved);
}

TEST_F(SchedulerTest, WhenIdleCallsBackOnceAfterTheLastRetirement) {
  DXGKIT_COVERS("SCHED-22");
  start(2);
  int calls = 0;
  scheduler_->when_idle(kA, [&] { ++calls; });
  EXPECT_EQ(calls, 1) << "idle already";
  queue(kA, 1);
  queue(kA, 2);
  EXPECT_FALSE(scheduler_->destroy_context(kA));
  scheduler_->when_idle(kA, [&] {
    ++calls;
    EXPECT_EQ(engine_.retirements.size(), 2U);
    EXPECT_TRUE(scheduler_->destroy_context(kA));
  });
  complete(1);
  EXPECT_EQ(calls, 1);
  complete(2);
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(scheduler_->validate());
}

TEST_F(SchedulerTest, ProgressIsTheFirstSubmissionOrTheLastCompletion) {
  start(2);
  scheduler_->pump(1000);
  queue(kA, 1);
  scheduler_->pump(5000);
  EXPECT_EQ(scheduler_->node_status(kNode).progress_ns, 5000) << "stamped by the next timed call";
  queue(kA, 2);
  scheduler_->pump(6000);
  EXPECT_EQ(scheduler_->node_status(kNode).progress_ns, 5000) << "the queue was not empty";
  EXPECT_EQ(scheduler_->completed(kNode, SubmissionFenceId{1}, 7000), FenceReport::kAccepted);
  EXPECT_EQ(scheduler_->node_status(kNode).progress_ns, 7000);
  EXPECT_EQ(scheduler_->completed(kNode, SubmissionFenceId{2}, 8000), FenceReport::kAccepted);
  int64_t clock = 9000;
  scheduler_->set_clock([&] { return clock; });
  queue(kA, 3);
  EXPECT_EQ(scheduler_->node_status(kNode).progress_ns, 9000);
  // A call that says the time is believed, whatever the clock says; one that does not, is not.
  clock = 9100;
  EXPECT_EQ(scheduler_->completed(kNode, SubmissionFenceId{3}, 9500), FenceReport::kAccepted);
  EXPECT_EQ(scheduler_->node_status(kNode).progress_ns, 9500);
  clock = 9700;
  queue(kA, 4);
  EXPECT_EQ(scheduler_->node_status(kNode).progress_ns, 9700);
}

TEST_F(SchedulerTest, ANodeWhoseTimeIsNotKnownIsStampedThoughAnotherOneIs) {
  const NodeOrdinal other{1};
  start({{.node = kNode}, {.node = other}});
  add(kA);
  add(kB, 0, other);
  scheduler_->pump(1000);
  queue(kA, 1);
  scheduler_->set_clock([] { return int64_t{2000}; });
  queue(kB, 2);
  EXPECT_EQ(scheduler_->node_status(other).progress_ns, 2000);
  scheduler_->pump(5000);
  EXPECT_EQ(scheduler_->node_status(kNode).progress_ns, 5000);
  EXPECT_EQ(scheduler_->node_status(other).progress_ns, 2000);
  scheduler_->pump(6000);
  EXPECT_EQ(scheduler_->node_status(kNode).progress_ns, 5000) << "once";
}

TEST_F(SchedulerTest, TellsWhereAPacketIs) {
  start(1);
  queue(kA, 1);
  queue(kA, 2);
  EXPECT_EQ(scheduler_->on_hardware(PacketId{1}), std::pair(kNode, SubmissionFenceId{1}));
  EXPECT_EQ(scheduler_->on_hardware(PacketId{2}), std::nullopt);
  EXPECT_EQ(scheduler_->on_hardware(PacketId{3}), std::nullopt);
}

// The driver takes 1, refuses 2, takes 3 (of another context): the refused fence counts as complete
// when 1 is, and neither before nor later.
TEST_F(SchedulerTest, RefusedFenceCompletesWithTheOnesBeforeIt) {
  DXGKIT_COVERS("SUB-29");
  start(3);
  engine_.refused = {2};
  engine_.on_refused = [&] { scheduler_->fail_context(kA); };
  queue(kB, 1);
  queue(kA, 2);
  queue(kB, 3);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2, 3));
  EXPECT_THAT(engine_.retired_packets(), ElementsAre());
  EXPECT_EQ(scheduler_->node_status(kNode).last_completed.value, 0U);
  EXPECT_EQ(complete(1), FenceReport::kAccepted);
  EXPECT_THAT(engine_.retirements,
              ElementsAre(FakeEngine::Retired{1, PacketOutcome::kCompleted, true},
                          FakeEngine::Retired{2, PacketOutcome::kFaulted, true}));
  EXPECT_EQ(scheduler_->node_status(kNode).last_completed.value, 2U);
  EXPECT_EQ(complete(2), FenceReport::kAccepted) << "the driver may say so";
  EXPECT_EQ(scheduler_->queue(kA, {PacketId{4}}), Status::kDeviceRemoved);
  EXPECT_EQ(complete(3), FenceReport::kAccepted);
  EXPECT_EQ(complete(3), FenceReport::kRepeated);
}

TEST_F(SchedulerTest, RefusedOnAnIdleNodeLeavesAtOnceAndTheNextOneRuns) {
  DXGKIT_COVERS("SUB-29");
  start(1);
  engine_.refused = {1};
  engine_.on_refused = [&] { scheduler_->fail_context(kA); };
  queue(kA, 1);
  EXPECT_EQ(scheduler_->node_status(kNode).hardware_queue_length, 0U);
  queue(kB, 2);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 2));
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1));
}

}  // namespace
}  // namespace dxgkit::vidsch
