// Signals in contexts' streams: when they take effect, in several contexts at once, and what is
// still to come.
#include <gmock/gmock.h>

#include <memory>

#include "tests/support/covers.h"
#include "vidsch/scheduler_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::IsEmpty;
using Retired = FakeEngine::Retired;

class SchedulerSignalTest : public SchedulerTest {
 protected:
  uint64_t fence() { return scheduler_->sync_objects().value(kFence); }
  void signal_by_cpu(uint64_t value) {
    ASSERT_EQ(scheduler_->sync_objects().signal(std::vector<SyncPoint>{{kFence, value}}),
              Status::kSuccess);
  }
  void signal_at_submission(ContextId context, uint64_t packet, uint64_t value) {
    ASSERT_EQ(scheduler_->queue(context, {.id = PacketId{packet},
                                          .kind = PacketKind::kSignal,
                                          .points = {{kFence, value}},
                                          .at_submission = true}),
              Status::kSuccess);
    ASSERT_TRUE(scheduler_->validate());
  }
  void broadcast_to(ContextId context, uint64_t packet, std::shared_ptr<Broadcast> broadcast,
                    std::vector<SyncPoint> points) {
    ASSERT_EQ(scheduler_->queue(context, {.id = PacketId{packet},
                                          .kind = PacketKind::kSignal,
                                          .points = std::move(points),
                                          .broadcast = std::move(broadcast)}),
              Status::kSuccess);
    ASSERT_TRUE(scheduler_->validate());
  }
};

TEST_F(SchedulerSignalTest, AtSubmissionMeansWithTheHardwareNotDone) {
  DXGKIT_COVERS("SYNC-05", "SYNC-12");
  start(1);
  make_fence();
  queue(kA, 1);
  signal_at_submission(kA, 2, 5);
  EXPECT_EQ(fence(), 5U) << "1 is on hardware";
  queue(kA, 3);
  signal_at_submission(kA, 4, 6);
  queue(kA, 5);
  EXPECT_EQ(fence(), 5U) << "3 is not";
  complete(1);
  EXPECT_EQ(fence(), 6U);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(2, 1, 4));
  complete(2);
  EXPECT_EQ(engine_.submitted_packets().back(), 5U) << "a signal holds nothing back";
}

TEST_F(SchedulerSignalTest, AtSubmissionStillWaitsForTheStreamBeforeIt) {
  DXGKIT_COVERS("SYNC-05");
  start(1);
  make_fence();
  wait(kA, 1, 1);
  signal_at_submission(kA, 2, 5);
  EXPECT_EQ(fence(), 0U);
  signal_by_cpu(1);
  EXPECT_EQ(fence(), 5U);
  scheduler_->set_suspended(kB, true);
  signal_at_submission(kB, 3, 6);
  EXPECT_EQ(fence(), 5U) << "nothing of a suspended context moves";
  scheduler_->set_suspended(kB, false);
  EXPECT_EQ(fence(), 6U);
}

TEST_F(SchedulerSignalTest, ABroadcastTakesEffectWhenTheLastContextHasComeToIt) {
  DXGKIT_COVERS("SYNC-06", "SYNC-07");
  start(2);
  make_fence();
  int events = 0;
  const auto broadcast = std::make_shared<Broadcast>(2, [&] {
    ++events;
    EXPECT_EQ(fence(), 9U) << "the objects first";
  });
  queue(kA, 1);
  queue(kB, 2);
  broadcast_to(kA, 3, broadcast, {{kFence, 9}});
  broadcast_to(kB, 4, broadcast, {{kFence, 9}});
  complete(1);
  EXPECT_EQ(fence(), 0U) << "B has not come to it";
  EXPECT_EQ(events, 0);
  complete(2);
  EXPECT_EQ(fence(), 9U);
  EXPECT_EQ(events, 1);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(1, 3, 2, 4));
}

// With no event, and with nothing but one.
TEST_F(SchedulerSignalTest, ABroadcastNeedsNeitherEventNorObjects) {
  DXGKIT_COVERS("SYNC-07");
  start(2);
  make_fence();
  broadcast_to(kA, 1, std::make_shared<Broadcast>(1), {{kFence, 3}});
  EXPECT_EQ(fence(), 3U);
  int events = 0;
  broadcast_to(kA, 2, std::make_shared<Broadcast>(1, [&] { ++events; }), {});
  EXPECT_EQ(events, 1);
  EXPECT_THAT(engine_.retirements, ElementsAre(Retired{1, PacketOutcome::kCompleted, false},
                                               Retired{2, PacketOutcome::kCompleted, false}));
}

TEST_F(SchedulerSignalTest, ABroadcastCancelledOnTheWayNeverTakesEffect) {
  DXGKIT_COVERS("SYNC-06");
  start(2);
  make_fence();
  int events = 0;
  const auto broadcast = std::make_shared<Broadcast>(2, [&] { ++events; });
  queue(kB, 1);
  broadcast_to(kA, 2, broadcast, {{kFence, 9}});
  broadcast_to(kB, 3, broadcast, {{kFence, 9}});
  scheduler_->fail_context(kB);
  complete(1);
  EXPECT_EQ(scheduler_->packets_of(kA) + scheduler_->packets_of(kB), 0U);
  EXPECT_EQ(fence(), 0U);
  EXPECT_EQ(events, 0);
}

TEST_F(SchedulerSignalTest, SignalsThatAreStillToComeAreListed) {
  start(1);
  make_fence();
  EXPECT_THAT(scheduler_->queued_signals(), IsEmpty());
  const SyncObjectId other{8};
  ASSERT_EQ(scheduler_->sync_objects().create(other, {.kind = SyncKind::kFence}), Status::kSuccess);
  queue(kB, 1);
  signal(kB, 2, 4);  // in flight behind 1
  queue(kA, 3);
  queue(kA, 4, PacketKind::kSignal, {{kFence, 5}, {other, 6}});
  wait(kA, 5, 4);
  signal(kA, 6, 7);
  EXPECT_THAT(scheduler_->queued_signals(),
              ElementsAre(FieldsAre(kA, FieldsAre(kFence, 5, false)),
                          FieldsAre(kA, FieldsAre(other, 6, false)),
                          FieldsAre(kA, FieldsAre(kFence, 7, false)),
                          FieldsAre(kB, FieldsAre(kFence, 4, false))));
  complete(1);
  EXPECT_EQ(scheduler_->queued_signals().size(), 3U) << "B's is made";
  complete(2);
  EXPECT_THAT(scheduler_->queued_signals(), IsEmpty());
}

// A cancelled signal no longer counts as one that is still to come.
TEST_F(SchedulerSignalTest, CancelledSignalsAreNotStillToCome) {
  DXGKIT_COVERS("SCHED-06");
  start(1);
  make_fence();
  queue(kA, 1);
  signal(kA, 2, 4);  // both in flight behind 1
  signal(kA, 3, 5);
  queue(kA, 4);
  signal(kA, 5, 6);
  ASSERT_EQ(scheduler_->queued_signals().size(), 3U);
  engine_.on_retired = [&](uint64_t packet) {
    EXPECT_THAT(scheduler_->queued_signals(), IsEmpty()) << "at packet " << packet;
  };
  scheduler_->fail_context(kA);
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(2, 3, 4, 5)) << "1 is on hardware";
}

// A wait that is let through takes what it waited for, and only then what is behind it moves.
TEST_F(SchedulerSignalTest, AMutexPassesFromContextToContext) {
  DXGKIT_COVERS("SYNC-02", "SYNC-05");
  start(2);
  const SyncObjectId mutex{8};
  ASSERT_EQ(scheduler_->sync_objects().create(mutex, {.kind = SyncKind::kMutex}), Status::kSuccess);
  queue(kA, 1, PacketKind::kWait, {{mutex}});
  queue(kA, 2);
  queue(kA, 3, PacketKind::kSignal, {{mutex}});
  queue(kB, 4, PacketKind::kWait, {{mutex}});
  queue(kB, 5);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(2));
  complete(1);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(2, 5));
  EXPECT_EQ(scheduler_->sync_objects().value(mutex), 1U) << "B's now";
}

// SYNC-27 through the scheduler: whose context failed or went leaves its mutexes.
TEST_F(SchedulerSignalTest, AContextThatEndsLeavesItsMutex) {
  DXGKIT_COVERS("SYNC-27");
  for (const bool fails : {false, true}) {
    engine_ = {};
    start(2);
    const SyncObjectId mutex{8};
    ASSERT_EQ(scheduler_->sync_objects().create(mutex, {.kind = SyncKind::kMutex}),
              Status::kSuccess);
    queue(kA, 1, PacketKind::kWait, {{mutex}});
    queue(kA, 2);
    queue(kB, 3, PacketKind::kWait, {{mutex}});
    queue(kB, 4);
    if (fails) scheduler_->fail_context(kA);
    EXPECT_THAT(engine_.submitted_packets(), ElementsAre(2)) << "still at work in it";
    complete(1);
    if (!fails) {
      EXPECT_THAT(engine_.submitted_packets(), ElementsAre(2));
      EXPECT_TRUE(scheduler_->destroy_context(kA));
    }
    EXPECT_THAT(engine_.submitted_packets(), ElementsAre(2, 4));
  }
}

TEST_F(SchedulerSignalTest, DrainingLetsSatisfiedWaitsThroughAndFailsAtTheFirstThatIsNot) {
  DXGKIT_COVERS("SCHED-22");
  start(1);
  make_fence();
  signal_by_cpu(1);
  queue(kA, 1);
  wait(kA, 2, 1);
  queue(kA, 3);
  wait(kA, 4, 2);
  queue(kA, 5);
  scheduler_->drain_context(kA);
  EXPECT_THAT(engine_.retirements, IsEmpty()) << "its turn has not come";
  complete(1);
  EXPECT_THAT(engine_.submitted_packets(), ElementsAre(1, 3));
  EXPECT_THAT(engine_.retirements, ElementsAre(Retired{1, PacketOutcome::kCompleted, true},
                                               Retired{2, PacketOutcome::kCompleted, false},
                                               Retired{4, PacketOutcome::kCancelled, false},
                                               Retired{5, PacketOutcome::kCancelled, false}));
  complete(2);
  EXPECT_EQ(engine_.retirements.back(), (Retired{3, PacketOutcome::kFaulted, true}));
  scheduler_->drain_context(kA);
  EXPECT_TRUE(scheduler_->destroy_context(kA));
}

}  // namespace
}  // namespace dxgkit::vidsch
