// Quanta, shares and debts at their bounds.
#include <gmock/gmock.h>

#include <map>

#include "tests/support/covers.h"
#include "vidsch/shared_engine_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;

constexpr NodeOrdinal kNode{0};

std::vector<NodeDesc> one_node(bool preemptible, uint32_t depth = 2) {
  return {{.node = kNode, .hardware_queue_depth = depth, .preemptible = preemptible}};
}
size_t count_of(const SharedEngine& engine, uint64_t context, size_t from = 0) {
  return static_cast<size_t>(std::count(engine.order.begin() + static_cast<std::ptrdiff_t>(from),
                                        engine.order.end(), context));
}

// The earliest end of a quantum is told, whichever node it is on.
TEST(PolicyEdgesTest, TheEarliestDeadlineIsTold) {
  DXGKIT_COVERS("SCHED-10");
  for (const uint64_t early : {0U, 1U}) {
    SCOPED_TRACE(early);
    SharedEngine engine({{.node = NodeOrdinal{0}, .preemptible = true},
                         {.node = NodeOrdinal{1}, .preemptible = true}});
    const auto both_on = [&](uint64_t node) {
      const NodeOrdinal ordinal{static_cast<uint32_t>(node)};
      engine.add(10 * node + 1, {.node = ordinal}, 400 * kMs, 1);
      engine.add(10 * node + 2, {.node = ordinal}, 400 * kMs, 1);
    };
    both_on(early);
    engine.scheduler->pump(0);
    engine.now_ns = 5 * kMs;
    both_on(1 - early);
    engine.scheduler->pump(engine.now_ns);
    EXPECT_EQ(engine.scheduler->quantum_deadline(), 21 * kMs);
  }
}

// With any number of contexts in a round, no quantum is shorter than the grace.
TEST(PolicyEdgesTest, AQuantumIsNoShorterThanTheGrace) {
  DXGKIT_COVERS("SCHED-10");
  SchedulingPolicy policy;
  policy.round_ns = 4 * kMs;
  policy.grace_ns = 3 * kMs;
  SharedEngine engine(one_node(true), policy);
  for (uint64_t id = 1; id <= 4; ++id) engine.add(id, {.node = kNode}, 400 * kMs, 1);
  engine.scheduler->pump(0);
  const std::optional<int64_t> first = engine.scheduler->quantum_deadline();
  ASSERT_TRUE(first.has_value());
  engine.run_until(*first);
  ASSERT_EQ(engine.preemptions, 1U);
  const int64_t start = engine.now_ns;
  engine.run_until(start);  // the answer
  EXPECT_EQ(engine.scheduler->quantum_deadline(), start + 6 * kMs) << "three, and the grace";
}

// A packet of a second is repaid by eight turns, not by fifty.
TEST(PolicyEdgesTest, ADebtIsNoMoreThanSoManyTurns) {
  DXGKIT_COVERS("SCHED-15", "SCHED-10");
  SharedEngine engine(one_node(false, 1));
  engine.add(1, {.node = kNode}, 1000 * kMs, 2);
  engine.add(2, {.node = kNode}, kMs, 8);
  engine.run_until(1000 * kMs);
  ASSERT_EQ(count_of(engine, 1), 1U);
  engine.run_until(1140 * kMs);
  EXPECT_EQ(count_of(engine, 1), 1U) << "the other one is repaid";
  engine.run_until(1260 * kMs);
  EXPECT_EQ(count_of(engine, 1), 2U);
}

/// Packets of a lower priority, 1 ms each, in a row behind one packet of 40 ms of the higher one,
/// which comes after `before`.
size_t share_after(const std::function<void(SharedEngine&)>& before) {
  SharedEngine engine(one_node(false, 1));
  engine.add(1, {.node = kNode, .priority = 5}, 40 * kMs, 4);
  engine.add(2, {.node = kNode}, kMs, 0);
  engine.add(3, {.node = kNode, .priority_class = PriorityClass::kIdle}, kMs, 0);
  before(engine);
  const size_t from = engine.order.size();
  for (int i = 0; i < 40; ++i) engine.queue(2);
  const size_t high = count_of(engine, 1);
  while (count_of(engine, 1) < high + 1) EXPECT_TRUE(engine.step(10'000 * kMs));
  return count_of(engine, 2, from);
}

// A share is of the time in which it was wanted. Nothing is saved up in other times, and the wishes
// of the idle class do not count.
TEST(PolicyEdgesTest, AShareIsNotSavedUp) {
  DXGKIT_COVERS("SCHED-15");
  const size_t plain = share_after([](SharedEngine&) {});
  EXPECT_GE(plain, 4U);
  EXPECT_LE(plain, 6U) << "a tenth of the time of the packet before";
  EXPECT_EQ(share_after([](SharedEngine& engine) {
              engine.queue(2);  // takes less than its share, and goes
              engine.run_until(400 * kMs);
            }),
            plain);
  EXPECT_EQ(share_after([](SharedEngine& engine) {
              for (int i = 0; i < 3; ++i) engine.queue(3);
              engine.run_until(2000 * kMs);
            }),
            plain);
}

// One packet of the share at a time: what it takes is known when it is done.
TEST(PolicyEdgesTest, AShareIsTakenOnePacketAtATime) {
  DXGKIT_COVERS("SCHED-15");
  SharedEngine engine(one_node(false, 2));
  engine.add(1, {.node = kNode, .priority = 5}, 40 * kMs, 4);
  engine.add(2, {.node = kNode}, kMs, 4);
  engine.run_until(85 * kMs);
  ASSERT_GE(engine.order.size(), 4U);
  EXPECT_THAT(std::vector(engine.order.begin(), engine.order.begin() + 4), ElementsAre(1, 1, 2, 1));
}

// A long packet of the share is preempted after a quantum, for those above it.
TEST(PolicyEdgesTest, AShareIsTakenAQuantumAtATime) {
  DXGKIT_COVERS("SCHED-15", "SCHED-10");
  SharedEngine engine(one_node(true, 1));
  engine.add(1, {.node = kNode, .priority = 5}, 40 * kMs, 4);
  engine.add(2, {.node = kNode}, 500 * kMs, 1);
  engine.run_until(40 * kMs);
  ASSERT_THAT(engine.order, ElementsAre(1, 2));
  EXPECT_EQ(engine.scheduler->quantum_deadline(), 61 * kMs);
  engine.run_until(62 * kMs);
  EXPECT_THAT(engine.order, ElementsAre(1, 2, 1));
}

// Once nobody above it is left, what was served out of turn goes on: its own next packet ends no
// quantum.
TEST(PolicyEdgesTest, AShareIsNotCutShortForItsOwnContext) {
  DXGKIT_COVERS("SCHED-15", "SCHED-10");
  SharedEngine engine(one_node(true, 1));
  engine.add(1, {.node = kNode, .priority = 5}, 40 * kMs, 4);
  engine.add(2, {.node = kNode}, 500 * kMs, 2);
  engine.run_until(40 * kMs);
  ASSERT_THAT(engine.order, ElementsAre(1, 2));
  ASSERT_TRUE(engine.scheduler->quantum_deadline().has_value());
  engine.contexts.at(1).backlog = 0;
  engine.scheduler->fail_context(ContextId{1});
  EXPECT_FALSE(engine.scheduler->quantum_deadline().has_value());
  engine.run_until(541 * kMs);
  EXPECT_EQ(engine.preemptions, 0U);
  EXPECT_THAT(engine.order, ElementsAre(1, 2, 2));
}

// What is left of a quantum counts, not a whole one for each packet.
TEST(PolicyEdgesTest, AQuantumIsForAllPacketsOfATurn) {
  DXGKIT_COVERS("SCHED-10");
  SharedEngine engine(one_node(true, 1));
  engine.add(1, {.node = kNode}, 15 * kMs, 2);
  engine.add(2, {.node = kNode}, 15 * kMs, 2);
  engine.run_until(15 * kMs);
  ASSERT_THAT(engine.order, ElementsAre(1, 1));
  EXPECT_EQ(engine.scheduler->quantum_deadline(), 21 * kMs) << "five left, and the grace";
}

// A quantum does not end for a packet of lower priority, though that packet is on hardware already.
// It ends for no packet once the context has failed.
TEST(PolicyEdgesTest, OnlyEqualsEndAQuantum) {
  DXGKIT_COVERS("SCHED-10");
  SchedulingPolicy policy;
  policy.starvation_percent = 0;
  SharedEngine engine(one_node(true), policy);
  engine.add(1, {.node = kNode}, 400 * kMs, 0);
  engine.add(2, {.node = kNode, .priority = -3}, 400 * kMs, 0);
  engine.queue(1);
  engine.queue(2);
  engine.scheduler->pump(0);
  ASSERT_THAT(engine.order, ElementsAre(1, 2));
  EXPECT_FALSE(engine.scheduler->quantum_deadline().has_value());
  SharedEngine equals(one_node(true), policy);
  equals.add(1, {.node = kNode}, 400 * kMs, 1);
  equals.add(2, {.node = kNode}, 400 * kMs, 1);
  equals.scheduler->pump(0);
  EXPECT_EQ(equals.scheduler->quantum_deadline(), 21 * kMs);
  equals.scheduler->fail_context(ContextId{1});
  EXPECT_FALSE(equals.scheduler->quantum_deadline().has_value());
}

// Runs that ended for another context's priority are no lost quanta: the packet gets no longer
// runs.
TEST(PolicyEdgesTest, OnlyQuantaThatEndedCountAsLost) {
  DXGKIT_COVERS("SCHED-10", "SCHED-09");
  SharedEngine engine(one_node(true), {}, SharedEngine::OnPreemption::kStartOver);
  engine.add(1, {.node = kNode}, 10'000 * kMs, 1);
  engine.add(2, {.node = kNode}, 10'000 * kMs, 1);
  for (int i = 0; i < 40; ++i) {
    engine.now_ns += 30 * kMs;  // the clock was not read meanwhile
    ASSERT_TRUE(engine.scheduler->request_preemption(kNode));
    engine.run_until(engine.now_ns);
    const std::optional<int64_t> end = engine.scheduler->quantum_deadline();
    ASSERT_TRUE(end.has_value());
    ASSERT_LE(*end, engine.now_ns + 21 * kMs) << i;
  }
}

// A packet that starts over each time gets a longer quantum when it has lost more than eight: twice
// as long for each of these, thirty times at most.
TEST(PolicyEdgesTest, AQuantumDoublesWithEachLostBeyondTheEighth) {
  DXGKIT_COVERS("SCHED-10");
  SharedEngine engine(one_node(true, 1), {}, SharedEngine::OnPreemption::kStartOver);
  engine.add(1, {.node = kNode}, INT64_MAX / 2, 1);
  engine.add(2, {.node = kNode}, INT64_MAX / 2, 1);
  engine.scheduler->pump(0);
  std::map<uint64_t, uint32_t> lost;
  while (lost[1] < 41 || lost[2] < 41) {
    const uint64_t context = engine.order.back();
    const std::optional<int64_t> end = engine.scheduler->quantum_deadline();
    ASSERT_TRUE(end.has_value());
    if (lost[context] <= 8) {
      EXPECT_LE(*end - engine.now_ns, 21 * kMs) << lost[context];
    } else {
      const uint32_t doubled = std::min(lost[context], 38U) - 8;
      EXPECT_EQ(*end - engine.now_ns, (20 * kMs << doubled) + kMs) << lost[context];
    }
    ++lost[context];
    engine.run_until(*end);
    engine.run_until(*end);  // the answer
  }
}

// The debt of a context that left is paid by rounds of all that share, not by each turn of one.
TEST(PolicyEdgesTest, ADebtIsPaidByRoundsNotByTurns) {
  DXGKIT_COVERS("SCHED-10");
  SharedEngine engine(one_node(false, 1));
  engine.add(1, {.node = kNode}, 120 * kMs, 1);
  engine.add(2, {.node = kNode}, kMs, 8);
  engine.add(3, {.node = kNode}, kMs, 8);
  engine.contexts.at(1).backlog = 0;
  engine.run_until(240 * kMs);  // six turns of the others
  ASSERT_EQ(count_of(engine, 1), 1U);
  engine.queue(1);
  engine.run_until(300 * kMs);
  EXPECT_EQ(count_of(engine, 1), 1U) << "five quanta, of which two are paid";
  engine.run_until(500 * kMs);
  EXPECT_EQ(count_of(engine, 1), 2U);
}

// A round is worth as much as those of its level have in it, not a whole quantum.
TEST(PolicyEdgesTest, ARoundPaysWhatAnEqualHasInIt) {
  DXGKIT_COVERS("SCHED-10");
  SchedulingPolicy policy;
  policy.round_ns = 4 * kMs;
  policy.grace_ns = kMs;
  SharedEngine engine(one_node(false, 1), policy);
  engine.add(1, {.node = kNode}, 13 * kMs, 1);
  for (uint64_t id = 2; id <= 4; ++id) engine.add(id, {.node = kNode}, kMs, 8);
  engine.contexts.at(1).backlog = 0;
  engine.run_until(37 * kMs);  // eight turns of each of the others
  ASSERT_EQ(count_of(engine, 1), 1U);
  engine.queue(1);
  engine.run_until(45 * kMs);
  EXPECT_EQ(count_of(engine, 1), 1U) << "a debt of twelve, of which six are paid";
  engine.run_until(90 * kMs);
  EXPECT_EQ(count_of(engine, 1), 2U);
}

// A share is of time, not of memory: while a packet above waits for memory, what is due from below
// gets none.
TEST(PolicyEdgesTest, AShareTakesNoMemoryFromARefusedPacketAbove) {
  DXGKIT_COVERS("SCHED-15", "SCHED-08");
  SharedEngine engine(one_node(false, 1));
  bool full = true;
  std::map<uint64_t, size_t> asked;
  engine.on_prepare = [&](uint64_t context) {
    ++asked[context];
    return context == 3 && full ? EnginePort::Prepare::kBusy : EnginePort::Prepare::kReady;
  };
  engine.add(1, {.node = kNode, .priority = 5}, 40 * kMs, 4);
  engine.add(3, {.node = kNode, .priority = 3}, kMs, 1);
  engine.add(2, {.node = kNode}, kMs, 4);
  engine.run_until(125 * kMs);
  ASSERT_EQ(engine.contexts.at(1).done, 3U);
  EXPECT_GT(asked[3], 1U);
  EXPECT_EQ(asked[2], 0U) << "though a tenth of 120 ms is due";
  full = false;
  engine.run_until(250 * kMs);
  EXPECT_GT(count_of(engine, 3), 0U);
  EXPECT_GT(count_of(engine, 2), 0U);
}

// What is due from below gets its memory one packet at a time.
TEST(PolicyEdgesTest, AShareHoldsMemoryForOnePacketAtATime) {
  DXGKIT_COVERS("SCHED-15");
  SharedEngine engine(one_node(false, 1));
  size_t prepared = 0, most = 0;
  engine.on_prepare = [&](uint64_t context) {
    if (context == 2) most = std::max(most, ++prepared - count_of(engine, 2));
    return EnginePort::Prepare::kReady;
  };
  engine.add(1, {.node = kNode, .priority = 5}, 40 * kMs, 4);
  engine.add(2, {.node = kNode}, kMs, 8);
  engine.run_until(400 * kMs);
  EXPECT_GT(prepared, 8U);
  EXPECT_EQ(most, 1U);
}

}  // namespace
}  // namespace dxgkit::vidsch
