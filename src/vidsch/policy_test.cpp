// The shares of an engine, in simulated time.
#include "vidsch/policy.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/support/covers.h"
#include "vidsch/shared_engine_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;

constexpr NodeOrdinal kNode{0};
constexpr SyncObjectId kFence{1};

std::vector<NodeDesc> one_node(bool preemptible, uint32_t depth = 2) {
  return {{.node = kNode, .hardware_queue_depth = depth, .preemptible = preemptible}};
}

/// How long each run of submissions of one context is.
std::vector<size_t> runs(const std::vector<uint64_t>& order) {
  std::vector<size_t> lengths;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || order[i] != order[i - 1]) lengths.push_back(0);
    ++lengths.back();
  }
  return lengths;
}

// The set: all below any level, found right across both words.
TEST(LevelSetTest, FindsTheHighestBelow) {
  LevelSet set;
  EXPECT_EQ(set.highest(), kLevels);
  const std::vector<size_t> members{0, 1, 37, 63, 64, 65, kSystemLevel};
  for (const size_t level : members) set.set(level, true);
  for (size_t level = 0; level <= kLevels; ++level) {
    size_t expected = kLevels;
    for (const size_t member : members) {
      if (member < level) expected = member;
    }
    EXPECT_EQ(set.below(level), expected) << level;
  }
  set.set(kSystemLevel, false);
  EXPECT_EQ(set.highest(), 65U);
  EXPECT_FALSE(set.contains(kSystemLevel));
  EXPECT_TRUE(set.contains(64));
}

// Two equals with packets of 1 ms take turns of 20, give or take what is on hardware when a turn
// ends.
TEST(PolicyTest, EqualsTakeTurnsOfAQuantum) {
  DXGKIT_COVERS("SCHED-08", "SCHED-10");
  SharedEngine engine(one_node(false));
  engine.add(1, {.node = kNode}, kMs, 8);
  engine.add(2, {.node = kNode}, kMs, 8);
  engine.run_until(1000 * kMs);
  std::vector<size_t> lengths = runs(engine.order);
  lengths.erase(lengths.begin());
  lengths.pop_back();
  EXPECT_GE(lengths.size(), 40U);
  EXPECT_THAT(lengths, Each(AllOf(Ge(14U), Le(26U))));
  EXPECT_LE(engine.unfairness(), 1.05);
}

struct Mix {
  const char* name;
  std::vector<int64_t> lengths_ns;  // of the packets, context by context, repeating
  bool preemptible;
};
class FairnessTest : public ::testing::TestWithParam<Mix> {};

// Sixty-four equals over ten seconds: none gets a tenth more than another, however long their
// packets are.
TEST_P(FairnessTest, SixtyFourEqualsWithinTenPercent) {
  DXGKIT_COVERS("SCHED-08", "SCHED-10");
  SharedEngine engine(one_node(GetParam().preemptible));
  const std::vector<int64_t>& lengths = GetParam().lengths_ns;
  for (uint64_t i = 0; i < 64; ++i) {
    engine.add(i + 1, {.node = kNode}, lengths[i % lengths.size()]);
  }
  engine.run_until(10'000 * kMs);
  RecordProperty("unfairness_percent", static_cast<int>(engine.unfairness() * 100));
  EXPECT_LE(engine.unfairness(), 1.10);
  EXPECT_TRUE(engine.scheduler->validate());
}
INSTANTIATE_TEST_SUITE_P(
    Mixes, FairnessTest,
    ::testing::Values(Mix{"Equal", {kMs}, false}, Mix{"EqualPreemptible", {kMs}, true},
                      Mix{"Short", {kMs / 20}, false},
                      Mix{"Mixed", {kMs / 10, kMs, 4 * kMs}, false},
                      Mix{"MixedPreemptible", {kMs / 10, kMs, 4 * kMs, 50 * kMs}, true}),
    [](const auto& test) { return test.param.name; });

// A packet longer than its quantum on hardware that cannot be preempted: later turns pay for it.
TEST(PolicyTest, LongPacketsArePaidBack) {
  SharedEngine engine(one_node(false));
  engine.add(1, {.node = kNode}, 90 * kMs);
  engine.add(2, {.node = kNode}, kMs, 8);
  engine.run_until(20'000 * kMs);
  EXPECT_LE(engine.unfairness(), 1.10);
  EXPECT_FALSE(engine.scheduler->quantum_deadline().has_value()) << "nothing to preempt with";
}

// A context that submits one packet, waits for it and submits the next is served as much as one
// that never waits, as far as it asks.
TEST(PolicyTest, ContextThatComesAndGoesKeepsItsPlace) {
  SharedEngine engine(one_node(false, 1));
  engine.add(1, {.node = kNode}, kMs, 8);
  engine.add(2, {.node = kNode}, kMs, 1);
  engine.run_until(2000 * kMs);
  EXPECT_GE(engine.served_ms(2), 850);
}

TEST(PolicyTest, UsedUpQuantumPreemptsOnlyIfAnEqualWaits) {
  DXGKIT_COVERS("SCHED-10");
  SchedulingPolicy policy;
  policy.starvation_percent = 0;
  SharedEngine engine(one_node(true), policy);
  engine.add(1, {.node = kNode}, 400 * kMs, 2);
  EXPECT_FALSE(engine.scheduler->quantum_deadline().has_value());
  engine.run_until(100 * kMs);
  engine.add(3, {.node = kNode, .priority = -1}, kMs, 1);
  engine.scheduler->pump(engine.now_ns);
  EXPECT_EQ(engine.preemptions, 0U) << "a lower one waits, which is no reason";
  EXPECT_FALSE(engine.scheduler->quantum_deadline().has_value());
  engine.add(2, {.node = kNode}, kMs, 1);
  // Its quantum is long used up.
  EXPECT_EQ(engine.scheduler->quantum_deadline(), 21 * kMs);
  engine.scheduler->pump(engine.now_ns);
  EXPECT_EQ(engine.preemptions, 1U);
  const size_t so_far = engine.order.size();
  engine.run_until(100 * kMs);
  EXPECT_EQ(engine.order.at(so_far), 2U) << "the equal goes next";
}

TEST(PolicyTest, GraceAndQuantumAreThePolicys) {
  DXGKIT_COVERS("SCHED-10");
  SchedulingPolicy policy;
  policy.quantum_ns = 7 * kMs;
  policy.grace_ns = 2 * kMs;
  SharedEngine engine(one_node(true), policy);
  engine.add(1, {.node = kNode}, 400 * kMs, 2);
  engine.add(2, {.node = kNode}, 400 * kMs, 2);
  engine.scheduler->pump(0);
  EXPECT_EQ(engine.scheduler->quantum_deadline(), 9 * kMs);
  engine.run_until(9 * kMs - 1);
  EXPECT_EQ(engine.preemptions, 0U);
  engine.run_until(9 * kMs);
  EXPECT_EQ(engine.preemptions, 1U);
}

TEST(PolicyTest, PacketThatEndsWithinTheGraceIsNotPreempted) {
  DXGKIT_COVERS("SCHED-10");
  SharedEngine engine(one_node(true, 1));
  engine.add(1, {.node = kNode}, 20 * kMs + kMs / 2);
  engine.add(2, {.node = kNode}, 20 * kMs + kMs / 2);
  engine.run_until(41 * kMs);
  EXPECT_EQ(engine.preemptions, 0U);
  EXPECT_LE(engine.unfairness(), 1.05);
}

// Hardware that starts preempted packets over would never finish packets longer than a quantum.
TEST(PolicyTest, HardwareThatStartsOverGetsThrough) {
  SharedEngine engine(one_node(true), {}, SharedEngine::OnPreemption::kStartOver);
  engine.add(1, {.node = kNode}, 150 * kMs);
  engine.add(2, {.node = kNode}, 150 * kMs);
  engine.run_until(10'000 * kMs);
  EXPECT_GT(engine.preemptions, 0U);
  EXPECT_GE(engine.contexts.at(1).done, 8U);
  EXPECT_GE(engine.contexts.at(2).done, 8U);
}

// High-priority work without end: the rest still gets a tenth of the time, the idle class nothing.
TEST(PolicyTest, LowerPrioritiesGetTheirShareOfTimeAndIdleNone) {
  DXGKIT_COVERS("SCHED-15");
  for (const bool preemptible : {false, true}) {
    SharedEngine engine(one_node(preemptible));
    engine.add(1, {.node = kNode, .priority = 7}, 4 * kMs, 8);
    engine.add(2, {.node = kNode}, kMs, 8);
    engine.add(3, {.node = kNode, .priority = 7, .priority_class = PriorityClass::kBelowNormal},
               kMs / 2, 8);
    engine.add(4, {.node = kNode, .priority = 7, .priority_class = PriorityClass::kIdle}, kMs, 8);
    engine.run_until(10'000 * kMs);
    const double lower = engine.served_ms(2) + engine.served_ms(3);
    EXPECT_GE(lower, 900);
    EXPECT_LE(lower, 1150);
    EXPECT_GE(engine.served_ms(3), 100) << "every level of them";
    EXPECT_EQ(engine.served_ms(4), 0);
  }
}

TEST(PolicyTest, IdleClassRunsWhenNobodyElseDoes) {
  DXGKIT_COVERS("SCHED-12");
  SharedEngine engine(one_node(false));
  engine.add(1, {.node = kNode, .priority_class = PriorityClass::kIdle}, kMs);
  engine.run_until(100 * kMs);
  EXPECT_GE(engine.served_ms(1), 99);
}

// The class counts more than the priority; each class goes before the one below.
TEST(PolicyTest, HigherClassGoesFirst) {
  DXGKIT_COVERS("SCHED-12");
  for (int each = 0; each < 5; ++each) {
    SchedulingPolicy policy;
    policy.starvation_percent = 0;
    SharedEngine engine(one_node(false, 1), policy);
    const auto lower = static_cast<PriorityClass>(each);
    const auto higher = static_cast<PriorityClass>(each + 1);
    engine.add(1, {.node = kNode, .priority = 7, .priority_class = lower}, kMs);
    engine.add(2, {.node = kNode, .priority = -7, .priority_class = higher}, kMs);
    engine.run_until(100 * kMs);
    EXPECT_LE(engine.served_ms(1), 3) << each;
    engine.scheduler->set_priority_class(ContextId{2}, lower);  // now the priority decides
    const double before = engine.served_ms(2);
    engine.run_until(200 * kMs);
    EXPECT_LE(engine.served_ms(2), before + 4) << each;
  }
}

// In-process priority reorders the process's own contexts and takes nothing from others.
TEST(PolicyTest, InProcessPriorityGoesAheadOfItsProcessOnly) {
  DXGKIT_COVERS("SCHED-13");
  SharedEngine engine(one_node(false));
  engine.add(1, {.node = kNode, .process = 5}, kMs, 8);
  engine.add(2, {.node = kNode, .process = 5, .ahead_in_process = true}, kMs, 8);
  engine.add(3, {.node = kNode, .process = 6}, kMs, 8);
  engine.run_until(6000 * kMs);
  EXPECT_GE(engine.served_ms(2), 4.0 * engine.served_ms(1)) << "ahead of its sibling";
  EXPECT_GT(engine.served_ms(1), 100) << "which is not starved";
  EXPECT_NEAR(engine.served_ms(3), 2000, 250) << "and the other process has its third";
  engine.scheduler->set_ahead_in_process(ContextId{2}, false);
  for (auto& [id, context] : engine.contexts) context.served_ns = 0;
  engine.run_until(12'000 * kMs);
  EXPECT_LE(engine.unfairness(), 1.1);
}

// The classical inversion: low will signal what high waits for, and something in between would
// keep low from running.
TEST(PolicyTest, SignallerRunsAtThePriorityOfWhoWaits) {
  SharedEngine engine(one_node(false, 1));
  ASSERT_EQ(engine.scheduler->sync_objects().create(kFence, {.kind = SyncKind::kFence}),
            Status::kSuccess);
  engine.add(1, {.node = kNode, .priority = -5}, kMs, 0);
  engine.add(2, {.node = kNode, .priority = 0}, kMs, 8);
  engine.add(3, {.node = kNode, .priority = 6}, kMs, 0);
  for (int i = 0; i < 20; ++i) engine.queue(1);
  engine.sync(1, PacketKind::kSignal, {kFence, 1});
  for (int i = 0; i < 20; ++i) engine.queue(1);
  EXPECT_EQ(engine.scheduler->effective_level(ContextId{1}), level_of(PriorityClass::kNormal, -5));
  engine.sync(3, PacketKind::kWait, {kFence, 1});
  const uint64_t awaited = engine.queue(3);
  static_cast<void>(awaited);
  EXPECT_EQ(engine.scheduler->effective_level(ContextId{1}), level_of(PriorityClass::kNormal, 6));
  int64_t done_ns = 0;
  engine.on_retired = [&](uint64_t context) {
    if (context == 3 && engine.contexts.at(3).done == 1) done_ns = engine.now_ns;
  };
  engine.run_until(100 * kMs);
  EXPECT_GT(done_ns, 0);
  EXPECT_LE(done_ns, 26 * kMs) << "twenty packets of the signaller, its share below, and its own";
  EXPECT_EQ(engine.scheduler->effective_level(ContextId{1}), level_of(PriorityClass::kNormal, -5))
      << "until it has signalled";
  EXPECT_TRUE(engine.scheduler->validate());
}

// A chain: the context that the high one waits for waits itself. A signal queued after the wait
// counts too.
TEST(PolicyTest, InheritedPriorityIsHandedOn) {
  SharedEngine engine(one_node(false, 1));
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(engine.scheduler->sync_objects().create(SyncObjectId{id}, {.kind = SyncKind::kFence}),
              Status::kSuccess);
  }
  for (uint64_t id = 1; id <= 4; ++id) {
    engine.add(id, {.node = kNode, .priority = static_cast<int32_t>(id) - 1}, kMs, 0);
  }
  const auto level = [&](uint64_t id) { return engine.scheduler->effective_level(ContextId{id}); };
  engine.sync(4, PacketKind::kWait, {SyncObjectId{3}, 1});
  engine.sync(3, PacketKind::kWait, {SyncObjectId{2}, 5});
  engine.sync(3, PacketKind::kSignal, {SyncObjectId{3}, 1});
  EXPECT_EQ(level(3), level(4));
  EXPECT_NE(level(2), level(4));
  engine.sync(2, PacketKind::kWait, {SyncObjectId{1}, 1});
  engine.sync(2, PacketKind::kSignal, {SyncObjectId{2}, 4});
  EXPECT_NE(level(2), level(4)) << "a value that satisfies nobody";
  engine.sync(2, PacketKind::kSignal, {SyncObjectId{2}, 5});
  EXPECT_EQ(level(2), level(4));
  engine.queue(1);
  engine.sync(1, PacketKind::kSignal, {SyncObjectId{1}, 1});
  EXPECT_EQ(level(1), level(4));
  engine.run_until(10 * kMs);
  for (uint64_t id = 1; id <= 4; ++id) {
    EXPECT_EQ(level(id), level_of(PriorityClass::kNormal, static_cast<int32_t>(id) - 1));
    EXPECT_EQ(engine.scheduler->packets_of(ContextId{id}), 0U);
  }
}

// A failed context hands on no level and is not raised.
TEST(PolicyTest, FailureEndsInheritance) {
  SharedEngine engine(one_node(false, 1));
  ASSERT_EQ(engine.scheduler->sync_objects().create(kFence, {.kind = SyncKind::kFence}),
            Status::kSuccess);
  engine.add(1, {.node = kNode, .priority = -5}, kMs, 0);
  engine.add(2, {.node = kNode, .priority = 5}, kMs, 0);
  engine.add(3, {.node = kNode}, kMs, 0);
  engine.queue(3);
  engine.queue(1);
  engine.sync(1, PacketKind::kSignal, {kFence, 1});
  engine.sync(2, PacketKind::kWait, {kFence, 1});
  engine.scheduler->fail_context(ContextId{2});
  engine.scheduler->fail_context(ContextId{1});
  EXPECT_TRUE(engine.scheduler->validate());
  engine.run_until(10 * kMs);
  EXPECT_TRUE(engine.scheduler->destroy_context(ContextId{1}));
  EXPECT_TRUE(engine.scheduler->destroy_context(ContextId{2}));
  EXPECT_TRUE(engine.scheduler->validate());
}

// Two contexts that do not fit into memory together: memory changes hands per turn, not per packet.
// Also when so little is queued that the other one is asked, and refused, all the time.
TEST(PolicyTest, ContextsThatDoNotFitTogetherChangePerTurn) {
  DXGKIT_COVERS("SCHED-10");
  for (const size_t backlog : {2U, 3U, 4U, 8U}) {
    SCOPED_TRACE(backlog);
    SharedEngine engine(one_node(false));
    uint64_t holder = 0;
    size_t held = 0, changes = 0;
    engine.on_prepare = [&](uint64_t context) {
      if (held != 0 && holder != context) return EnginePort::Prepare::kBusy;
      if (holder != context) ++changes;
      holder = context;
      ++held;
      return EnginePort::Prepare::kReady;
    };
    engine.on_retired = [&](uint64_t) { --held; };
    engine.add(1, {.node = kNode}, kMs, backlog);
    engine.add(2, {.node = kNode}, kMs, backlog);
    engine.run_until(4000 * kMs);
    EXPECT_GE(changes, 100U);
    EXPECT_LE(changes, 300U) << "of 4000 packets";
    EXPECT_LE(engine.unfairness(), 1.1);
  }
}

// Same calls, same decisions.
TEST(PolicyTest, Deterministic) {
  std::set<std::vector<uint64_t>> orders;
  for (int i = 0; i < 2; ++i) {
    SharedEngine engine(one_node(true));
    for (uint64_t id = 1; id <= 9; ++id) {
      engine.add(id, {.node = kNode, .priority = static_cast<int32_t>(id % 3)},
                 static_cast<int64_t>(id) * 3 * kMs);
    }
    engine.run_until(3000 * kMs);
    orders.insert(engine.order);
  }
  EXPECT_EQ(orders.size(), 1U);
}

}  // namespace
}  // namespace dxgkit::vidsch
