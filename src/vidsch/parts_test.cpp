// Parts of one DMA buffer: which packets run between them, and which packets hold back nothing.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/covers.h"
#include "vidsch/scheduler_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Prepare = EnginePort::Prepare;
using Packets = std::vector<uint64_t>;

constexpr ContextId kOther{103}, kElsewhere{104};
constexpr NodeOrdinal kSecond{1};

class PartsTest : public SchedulerTest {
 protected:
  void begin(uint32_t depth = 2, bool preemptible = false) {
    scheduler_.reset();
    engine_ = FakeEngine{};
    cut_.clear();
    start({{.node = kNode, .hardware_queue_depth = depth, .preemptible = preemptible},
           {.node = kSecond, .hardware_queue_depth = depth, .preemptible = preemptible}});
    add(kA);
    add(kB);
    add(kOther, 3);
    add(kElsewhere, 0, kSecond);
    ASSERT_EQ(scheduler_->create_context(kPagingContext, {.node = kNode, .is_system = true}),
              Status::kSuccess);
    engine_.on_prepare = [this](uint64_t id) {
      const auto parts = parts_.find(id);
      if (parts != parts_.end() && !cut_[id]) {
        cut_[id] = true;
        for (auto part = parts->second.rbegin(); part != parts->second.rend(); ++part)
          scheduler_->insert_after(PacketId{id}, PacketId{*part});
      }
      const auto answer = engine_.answers.find(id);
      return answer == engine_.answers.end() ? Prepare::kReady : answer->second;
    };
  }
  /// The packet turns out to need these behind it; the first of them gets no memory yet.
  void in_parts(uint64_t first, Packets rest) {
    engine_.answers[rest.front()] = Prepare::kBusy;
    parts_[first] = std::move(rest);
  }
  void room_for(uint64_t packet) { engine_.answers[packet] = Prepare::kReady; }
  Packets submitted() const { return engine_.submitted_packets(); }

 private:
  std::map<uint64_t, Packets> parts_;
  std::map<uint64_t, bool> cut_;
};

// The memory of the next part becomes free when the part before is done, and another packet is
// ready.
TEST_F(PartsTest, NobodyElseRunsBetweenThem) {
  DXGKIT_COVERS("REND-25");
  begin();
  in_parts(1, {2, 3});
  queue(kA, 1);
  queue(kB, 4);
  queue(kOther, 5);  // of higher priority
  EXPECT_EQ(submitted(), (Packets{1}));
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2)) << "nobody takes the memory it waits for";
  page(6);
  EXPECT_EQ(submitted(), (Packets{1, 6})) << "paging does come between";
  room_for(2);
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{1, 6, 2}));
  ASSERT_EQ(complete(2), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{1, 6, 2, 3}));
  ASSERT_EQ(complete(4), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{1, 6, 2, 3, 5, 4}));
}

// The first part is done; what the next one needs is in use on another node.
TEST_F(PartsTest, WhereHardwareCanBePreemptedOthersDoRunBetweenThem) {
  DXGKIT_COVERS("REND-25");
  for (const bool preemptible : {false, true}) {
    SCOPED_TRACE(preemptible);
    begin(2, preemptible);
    queue(kElsewhere, 7);
    in_parts(1, {2});
    queue(kA, 1);
    ASSERT_EQ(complete(1), FenceReport::kAccepted);
    queue(kOther, 5);
    EXPECT_EQ(submitted(), preemptible ? (Packets{7, 1, 5}) : (Packets{7, 1}));
    room_for(2);
    ASSERT_EQ(complete(1, kSecond), FenceReport::kAccepted);
    EXPECT_EQ(submitted(), preemptible ? (Packets{7, 1, 5, 2}) : (Packets{7, 1, 2, 5}));
  }
}

TEST_F(PartsTest, OtherNodesGoOn) {
  DXGKIT_COVERS("REND-25");
  begin();
  in_parts(1, {2});
  queue(kA, 1);
  add(ContextId{200}, 1, kSecond);  // equals of the refused part wait for memory everywhere
  queue(ContextId{200}, 7);
  EXPECT_EQ(submitted(), (Packets{1, 7}));
}

// A packet that has its memory when the first part gets its own goes before it: that memory is
// needed.
TEST_F(PartsTest, WhoHoldsMemoryGoesBeforeTheFirst) {
  DXGKIT_COVERS("REND-30");
  begin(1);
  queue(kB, 1);
  queue(kB, 2);
  engine_.answers[3] = Prepare::kWaiting;
  in_parts(3, {4});
  add(ContextId{200}, 7);
  queue(ContextId{200}, 3);
  queue(kB, 5);
  ASSERT_THAT(engine_.prepared, ElementsAre(1, 2, 3, 4)) << "not 5";
  scheduler_->packet_ready(PacketId{3});
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{1, 2})) << "though 3 is of higher priority";
  ASSERT_EQ(complete(2), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{1, 2, 3}));
  room_for(4);
  ASSERT_EQ(complete(3), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{1, 2, 3, 4}));
  ASSERT_EQ(complete(4), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{1, 2, 3, 4, 5}));
}

// Once the last part has its memory, others get theirs; they run behind it.
TEST_F(PartsTest, OthersArePreparedWhenTheLastPartIs) {
  DXGKIT_COVERS("REND-25");
  begin(1);
  in_parts(1, {2});
  room_for(2);
  queue(kA, 1);
  queue(kOther, 5);
  EXPECT_THAT(engine_.prepared, ElementsAre(1, 2, 5));
  EXPECT_EQ(submitted(), (Packets{1}));
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{1, 2}));
}

// A refused packet of another context of the node neither gets memory before the next part nor
// holds it back.
TEST_F(PartsTest, ARefusedPacketWaitsForThePartsToo) {
  DXGKIT_COVERS("REND-25");
  begin(2);
  queue(kElsewhere, 8);
  engine_.answers[1] = Prepare::kBusy;
  queue(kOther, 1);
  add(ContextId{200}, 5);
  in_parts(3, {4});
  queue(ContextId{200}, 3);
  ASSERT_EQ(submitted(), (Packets{8, 3}));
  ASSERT_EQ(scheduler_->set_priority(ContextId{200}, -5),
            Status::kSuccess);  // the refused is above
  engine_.prepared.clear();
  room_for(1);
  scheduler_->retry_busy();
  EXPECT_THAT(engine_.prepared, ElementsAre(4)) << "not 1, and nothing in the way of 4";
  room_for(4);
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  EXPECT_THAT(engine_.prepared, ElementsAre(4, 4, 1));
  EXPECT_EQ(submitted(), (Packets{8, 3, 4, 1}));
}

// Between the buffer and what is queued before it there may be more than work.
TEST_F(PartsTest, WhatIsQueuedBeforeTheFirstChangesNothing) {
  DXGKIT_COVERS("REND-25");
  begin(1);
  make_fence();
  queue(kOther, 9);
  queue(kA, 10);
  signal(kA, 11, 1);
  in_parts(1, {2});
  queue(kA, 1);
  queue(kB, 4);
  EXPECT_THAT(engine_.prepared, ElementsAre(9, 10, 1, 2));
}

// --- a context that cannot go on holds back nothing ---

// Both began while the other could not: neither waits for the other.
TEST_F(PartsTest, OfTwoThatBeganOneGoesFirst) {
  DXGKIT_COVERS("REND-30");
  begin(1);
  queue(kOther, 9);
  in_parts(1, {2});
  queue(kA, 1);
  scheduler_->set_suspended(kA, true);
  in_parts(3, {4});
  queue(kB, 3);
  scheduler_->set_suspended(kA, false);
  ASSERT_THAT(engine_.prepared, ElementsAre(9, 1, 2, 3, 4, 2));
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{9, 1}));
  room_for(2);
  ASSERT_EQ(complete(2), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{9, 1, 2}));
  ASSERT_EQ(complete(3), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{9, 1, 2, 3}));
}

// The packet that left the memory to the part is asked again when the part gives up.
TEST_F(PartsTest, WhoWasRefusedBeforeIsAskedWhenThePartIsHopeless) {
  DXGKIT_COVERS("REND-30");
  begin(2);
  queue(kElsewhere, 8);
  engine_.answers[1] = Prepare::kBusy;
  queue(kOther, 1);
  add(ContextId{200}, 5);
  in_parts(3, {4});
  queue(ContextId{200}, 3);
  room_for(1);
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  ASSERT_EQ(submitted(), (Packets{8, 3})) << "8 may make room yet";
  ASSERT_EQ(complete(1, kSecond), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{8, 3, 1}));
  room_for(4);
  ASSERT_EQ(complete(2), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{8, 3, 1, 4}));
}

TEST_F(PartsTest, ASuspendedContextLetsOthersRun) {
  DXGKIT_COVERS("REND-30");
  begin();
  in_parts(1, {2});
  queue(kA, 1);
  queue(kB, 4);
  ASSERT_EQ(submitted(), (Packets{1}));
  scheduler_->set_suspended(kA, true);
  EXPECT_EQ(submitted(), (Packets{1, 4}));
  room_for(2);
  scheduler_->set_suspended(kA, false);
  EXPECT_EQ(submitted(), (Packets{1, 4}));
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{1, 4, 2}));
}

TEST_F(PartsTest, AContextThatFailsLetsOthersRun) {
  DXGKIT_COVERS("REND-30");
  begin();
  in_parts(1, {2});
  queue(kA, 1);
  queue(kB, 4);
  ASSERT_EQ(submitted(), (Packets{1}));
  scheduler_->fail_context(kA);
  EXPECT_EQ(submitted(), (Packets{1, 4}));
  EXPECT_THAT(engine_.retired_packets(), ElementsAre(2));
}

// Refused with nothing left to free memory: whatever it waits for, it is none of the node's work.
TEST_F(PartsTest, APartThatIsRefusedForNobodysSakeLetsOthersRun) {
  DXGKIT_COVERS("REND-30");
  begin();
  in_parts(1, {2});
  queue(kA, 1);
  queue(kB, 4);
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{1, 4}));
  room_for(2);
  scheduler_->retry_busy();
  EXPECT_EQ(submitted(), (Packets{1, 4, 2}));
}

// It was suspended, with its memory, when the first part was prepared; now it is in the way.
TEST_F(PartsTest, WhoHoldsMemoryAllTheSameGoesBetween) {
  DXGKIT_COVERS("REND-30");
  begin(1);
  queue(kOther, 9);
  queue(kB, 4);
  scheduler_->set_suspended(kB, true);
  in_parts(1, {2});
  queue(kA, 1);
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  ASSERT_EQ(submitted(), (Packets{9, 1}));
  scheduler_->set_suspended(kB, false);
  EXPECT_EQ(submitted(), (Packets{9, 1}));
  ASSERT_EQ(complete(2), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{9, 1, 4}));
  room_for(2);
  ASSERT_EQ(complete(3), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{9, 1, 4, 2}));
}

// Several that are in the way go in the order of their turns.
TEST_F(PartsTest, AllWhoHoldMemoryGoBetweenInTurn) {
  DXGKIT_COVERS("REND-30");
  begin(1);
  const ContextId third{105};
  add(third);
  queue(kOther, 9);
  queue(kB, 4);
  scheduler_->set_suspended(kB, true);
  queue(third, 5);
  scheduler_->set_suspended(third, true);
  in_parts(1, {2});
  queue(kA, 1);
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  ASSERT_EQ(submitted(), (Packets{9, 1}));
  scheduler_->set_suspended(third, false);
  scheduler_->set_suspended(kB, false);
  ASSERT_EQ(complete(2), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{9, 1, 4}));
  ASSERT_EQ(complete(3), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{9, 1, 4, 5}));
  room_for(2);
  ASSERT_EQ(complete(4), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{9, 1, 4, 5, 2}));
}

// On the way to sleep what has its memory runs out, that of suspended contexts too; nothing else
// gets any.
TEST_F(PartsTest, WhileHeldWhoHasMemoryRuns) {
  DXGKIT_COVERS("REND-30");
  begin(1);
  queue(kOther, 9);
  queue(kB, 4);
  scheduler_->set_suspended(kB, true);
  in_parts(1, {2});
  queue(kA, 1);
  ASSERT_EQ(complete(1), FenceReport::kAccepted);
  room_for(2);
  scheduler_->set_held(true);
  ASSERT_EQ(complete(2), FenceReport::kAccepted);
  ASSERT_EQ(submitted(), (Packets{9, 1, 4}));
  ASSERT_EQ(complete(3), FenceReport::kAccepted);
  EXPECT_TRUE(scheduler_->drained());
  scheduler_->set_held(false);
  EXPECT_EQ(submitted(), (Packets{9, 1, 4, 2}));
}

// An engine's reset gives a first part back: nothing of it has been begun.
TEST_F(PartsTest, AFirstPartThatWasGivenBackBeginsAgain) {
  begin(2);
  queue(kB, 1);
  in_parts(2, {3});
  queue(kA, 2);
  ASSERT_EQ(submitted(), (Packets{1, 2}));
  scheduler_->begin_reset(kNode);
  static_cast<void>(scheduler_->engine_was_reset(kNode, SubmissionFenceId{1}, ++now_));
  scheduler_->fail_context(kB);
  EXPECT_EQ(submitted(), (Packets{1, 2, 2}));
  room_for(3);
  ASSERT_EQ(complete(3), FenceReport::kAccepted);
  EXPECT_EQ(submitted(), (Packets{1, 2, 2, 3}));
  EXPECT_TRUE(scheduler_->validate());
}

}  // namespace
}  // namespace dxgkit::vidsch
