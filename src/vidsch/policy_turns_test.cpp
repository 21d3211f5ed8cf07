// Whose turn it is, one decision at a time.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/support/covers.h"
#include "vidsch/scheduler_fixture_test.h"
#include "vidsch/shared_engine_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using Submitted = FakeEngine::Submitted;

class TurnsTest : public SchedulerTest {
 protected:
  void add_to_process(ContextId id, const ContextDesc& desc) {
    ASSERT_EQ(scheduler_->create_context(id, desc), Status::kSuccess);
  }
};

TEST_F(TurnsTest, PagingContextsAreServedInTheOrderTheyAsked) {
  DXGKIT_COVERS("SCHED-14");
  start(1, false);
  const ContextId second{1};
  ASSERT_EQ(scheduler_->create_context(second, {.node = kNode, .is_system = true}),
            Status::kSuccess);
  queue(kA, 1);
  page(2);
  queue(second, 3, PacketKind::kPaging);
  complete(1);
  EXPECT_EQ(engine_.submitted_packets(), (std::vector<uint64_t>{1, 2}));
  complete(2);
  EXPECT_EQ(engine_.submitted_packets(), (std::vector<uint64_t>{1, 2, 3}));
}

// Twice a quantum at a time, on hardware that is not preempted: one turn in two is passed over.
TEST_F(TurnsTest, ADebtIsPaidWithTurnsPassedOver) {
  DXGKIT_COVERS("SCHED-10");
  SharedEngine engine({{.node = kNode, .hardware_queue_depth = 1}});
  engine.add(1, {.node = kNode}, 40 * kMs);
  engine.add(2, {.node = kNode}, 20 * kMs);
  engine.run_until(400 * kMs);
  engine.order.resize(9);
  EXPECT_THAT(engine.order, ElementsAre(1, 2, 2, 1, 2, 2, 1, 2, 2));
}

// SCHED-15 keeps a share for everyone but the idle class: from the lowest there is above it.
TEST_F(TurnsTest, TheLowestPriorityThatHasAShareGetsIt) {
  DXGKIT_COVERS("SCHED-15");
  SharedEngine engine({{.node = kNode}});
  engine.add(1, {.node = kNode}, kMs, 8);
  engine.add(2, {.node = kNode, .priority = -7, .priority_class = PriorityClass::kBelowNormal}, kMs,
             8);
  engine.run_until(2000 * kMs);
  EXPECT_NEAR(engine.served_ms(2), 200, 20);
}

TEST_F(TurnsTest, OfTwoThatWereNeverServedTheHigherGetsTheShareFirst) {
  DXGKIT_COVERS("SCHED-15");
  start(1, false);
  add(ContextId{1}, 7);
  add(ContextId{2}, -3);
  queue(ContextId{1}, 1);
  queue(kA, 1000);
  queue(ContextId{2}, 2000);
  for (uint64_t p = 2; p <= 60; ++p) queue(ContextId{1}, p);
  while (engine_.submitted.size() < 40) complete(last_fence());
  const std::vector<uint64_t> order = engine_.submitted_packets();
  const auto higher = std::ranges::find(order, 1000U);
  const auto lower = std::ranges::find(order, 2000U);
  EXPECT_LT(higher, lower);
  EXPECT_NE(lower, order.end()) << "and the lower one after it";
}

TEST_F(TurnsTest, InProcessPriorityGoesFirstOnItsNodeAndAtItsPriority) {
  DXGKIT_COVERS("SCHED-13");
  const ContextId plain{1}, ahead{2};
  start(1, false);
  add_to_process(plain, {.node = kNode, .process = 5});
  add_to_process(ahead, {.node = kNode, .process = 5, .ahead_in_process = true});
  queue(kA, 1);
  queue(plain, 2);
  queue(ahead, 3);
  complete(1);
  EXPECT_EQ(engine_.submitted.back().packet, 3U);
  complete(2);
  EXPECT_EQ(engine_.submitted.back().packet, 2U);
}

TEST_F(TurnsTest, InProcessPriorityDoesNotCountAgainstAHigherPriority) {
  DXGKIT_COVERS("SCHED-08", "SCHED-13");
  const ContextId plain{1}, ahead{2};
  start(1, false);
  add_to_process(plain, {.node = kNode, .process = 5});
  add_to_process(ahead, {.node = kNode, .priority = -1, .process = 5, .ahead_in_process = true});
  queue(kA, 1);
  queue(ahead, 2);
  queue(plain, 3);
  complete(1);
  EXPECT_EQ(engine_.submitted.back().packet, 3U);
}

TEST_F(TurnsTest, InProcessPriorityOnAnotherNodeDoesNotCount) {
  DXGKIT_COVERS("SCHED-01", "SCHED-13");
  const NodeOrdinal other{1};
  start({{.node = kNode, .hardware_queue_depth = 1}, {.node = other, .hardware_queue_depth = 1}});
  const ContextId plain{1}, ahead{2};
  add_to_process(plain, {.node = kNode, .process = 5});
  add_to_process(ahead, {.node = other, .process = 5, .ahead_in_process = true});
  queue(plain, 1);
  queue(plain, 2);
  for (uint64_t p = 11; p <= 13; ++p) queue(ahead, p);
  complete(1);
  EXPECT_EQ(engine_.submitted.back(), (Submitted{2, 0, 2, false}));
  complete(1, other);
  EXPECT_EQ(engine_.submitted.back(), (Submitted{12, 1, 2, false}));
}

// The packets it has queued itself are no reason to take the engine from a context.
TEST_F(TurnsTest, AContextDoesNotPreemptItself) {
  DXGKIT_COVERS("SCHED-10");
  start(1);
  for (uint64_t p = 1; p <= 5; ++p) queue(kA, p);
  scheduler_->pump(0);
  EXPECT_FALSE(scheduler_->quantum_deadline().has_value());
  queue(kB, 6);
  EXPECT_TRUE(scheduler_->quantum_deadline().has_value());
}

TEST_F(TurnsTest, AQuantumBeginsWhenTheTimeIsKnown) {
  DXGKIT_COVERS("SCHED-10");
  start(1);
  queue(kA, 1);
  queue(kB, 2);
  EXPECT_FALSE(scheduler_->quantum_deadline().has_value());
  scheduler_->pump(100 * kMs);
  EXPECT_EQ(scheduler_->quantum_deadline(), 121 * kMs);
  scheduler_->pump(121 * kMs - 1);
  EXPECT_TRUE(engine_.preemptions.empty());
  scheduler_->pump(121 * kMs);
  EXPECT_EQ(engine_.preemptions.size(), 1U);
  EXPECT_FALSE(scheduler_->quantum_deadline().has_value()) << "asked already";
}

// Contexts of two nodes that do not fit into memory together. The contexts of one node leave some
// of it to those of the other. On hardware that begins a preempted packet again, a context in debt
// may run only because those whose turn it is wait for the memory that its own packet holds: it
// must come to its end, or nobody does.
TEST_F(TurnsTest, EachContextGetsOnThoughMemoryIsShortAndPacketsBeginAgain) {
  DXGKIT_COVERS("SCHED-10");
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    std::minstd_rand random(seed);
    const bool preemptible = seed % 2 != 0;
    SharedEngine engine({{.node = NodeOrdinal{0}, .preemptible = preemptible},
                         {.node = NodeOrdinal{1}, .preemptible = preemptible}},
                        {}, SharedEngine::OnPreemption::kStartOver);
    constexpr uint32_t kMemory = 8;
    uint32_t used = 0;
    std::map<uint64_t, uint32_t> needs;  // by context
    engine.on_prepare = [&](uint64_t context) {
      if (used + needs[context] > kMemory) return EnginePort::Prepare::kBusy;
      used += needs[context];
      return EnginePort::Prepare::kReady;
    };
    engine.on_retired = [&](uint64_t context) { used -= needs[context]; };
    constexpr uint64_t kContexts = 6;
    for (uint64_t id = 1; id <= kContexts; ++id) {
      needs[id] = 1 + static_cast<uint32_t>(random() % kMemory);
      const int64_t length_ns = (1 + static_cast<int64_t>(random() % 60)) * kMs;
      engine.add(id, {.node = NodeOrdinal{static_cast<uint32_t>(id % 2)}}, length_ns,
                 1 + random() % 4);
    }
    for (int minute = 1; minute <= 3; ++minute) {
      std::map<uint64_t, size_t> before;
      for (const auto& [id, context] : engine.contexts) before[id] = context.done;
      engine.run_until(minute * 60'000 * kMs);
      for (const auto& [id, context] : engine.contexts)
        ASSERT_GT(context.done, before[id]) << "context " << id << " in minute " << minute;
    }
  }
}

// The earliest of several nodes counts.
TEST_F(TurnsTest, TheEarliestQuantumIsTold) {
  DXGKIT_COVERS("SCHED-10");
  const NodeOrdinal other{1};
  start({{.node = kNode, .hardware_queue_depth = 1, .preemptible = true},
         {.node = other, .hardware_queue_depth = 1, .preemptible = true}});
  add(ContextId{1}, 0, other);
  add(ContextId{2}, 0, other);
  add(kA);
  add(kB);
  queue(ContextId{1}, 1);
  queue(ContextId{2}, 2);
  scheduler_->pump(5 * kMs);
  queue(kA, 3);
  queue(kB, 4);
  scheduler_->pump(8 * kMs);
  EXPECT_EQ(scheduler_->quantum_deadline(), 26 * kMs);
  ASSERT_EQ(scheduler_->completed(other, SubmissionFenceId{1}, 9 * kMs), FenceReport::kAccepted);
  EXPECT_EQ(scheduler_->quantum_deadline(), 29 * kMs) << "nobody waits on the other node now";
}

// How long a turn is depends on how many share the node: not on how many share another one.
TEST_F(TurnsTest, TurnsAreAsLongOnEveryNode) {
  DXGKIT_COVERS("SCHED-10");
  constexpr uint64_t kSharers = 64;
  std::vector<uint64_t> first;
  for (const uint32_t node : {0U, 1U, 2U}) {
    SharedEngine engine(
        {{.node = NodeOrdinal{0}}, {.node = NodeOrdinal{1}}, {.node = NodeOrdinal{2}}});
    for (uint64_t id = 1; id <= kSharers; ++id)
      engine.add(id, {.node = NodeOrdinal{node}}, kMs, 40);
    engine.run_until(1500 * kMs);
    if (first.empty()) first = engine.order;
    EXPECT_EQ(engine.order, first) << node;
  }
  // They share a round, so no context has as many packets in a row as two would have.
  size_t longest = 0, row = 0;
  for (size_t i = 1; i < first.size(); ++i) {
    row = first[i] == first[i - 1] ? row + 1 : 1;
    longest = std::max(longest, row);
  }
  EXPECT_LT(longest, 15U);
}

// The history of a process ends with its last context: later contexts begin anew.
TEST_F(TurnsTest, AProcessBeginsAnewWithItsFirstContext) {
  DXGKIT_COVERS("SCHED-13");
  for (const size_t packets : {1U, 2U, 3U, 5U, 9U}) {
    SCOPED_TRACE(packets);
    start(1, false);
    std::vector<std::vector<uint64_t>> orders;
    uint32_t fence = 0;
    uint64_t packet = 0;
    for (uint64_t round = 0; round < 2; ++round) {
      const ContextId plain{10 * round + 1}, ahead{10 * round + 2};
      add_to_process(plain, {.node = kNode, .process = 5});
      add_to_process(ahead, {.node = kNode, .process = 5, .ahead_in_process = true});
      const uint64_t begin = packet;
      // On hardware, so that both are there when the first is chosen.
      queue(kB, ++packet);
      engine_.submitted.clear();
      for (int i = 0; i < 12; ++i) {
        queue(plain, ++packet);
        queue(ahead, ++packet);
      }
      complete(++fence);
      while (engine_.submitted.size() < packets) complete(++fence);
      std::vector<uint64_t>& order = orders.emplace_back();
      for (const Submitted& one : engine_.submitted) order.push_back(one.packet - begin);
      for (const ContextId id : {plain, ahead}) scheduler_->fail_context(id);
      complete(++fence);
      for (const ContextId id : {plain, ahead}) ASSERT_TRUE(scheduler_->destroy_context(id));
    }
    EXPECT_EQ(orders[0], orders[1]);
  }
}

TEST_F(TurnsTest, PagingHasNoQuantum) {
  DXGKIT_COVERS("SCHED-10", "SCHED-14");
  start(1);
  const ContextId second{1};
  ASSERT_EQ(scheduler_->create_context(second, {.node = kNode, .is_system = true}),
            Status::kSuccess);
  page(1);
  queue(second, 2, PacketKind::kPaging);
  queue(kA, 3);
  scheduler_->pump(0);
  EXPECT_FALSE(scheduler_->quantum_deadline().has_value());
  scheduler_->pump(1000 * kMs);
  EXPECT_TRUE(engine_.preemptions.empty());
}

}  // namespace
}  // namespace dxgkit::vidsch
