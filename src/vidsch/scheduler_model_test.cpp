// The scheduler in random worlds; see scheduler_world_test.h.
#include <gtest/gtest.h>

#include "tests/support/covers.h"
#include "vidsch/scheduler_world_test.h"

namespace dxgkit::vidsch {
namespace {

class SchedulerModelTest : public ::testing::TestWithParam<uint32_t> {};

// Thousands of random steps, then everything drains: order, fences, pins, exactly-once retirement
// and freedom from deadlock.
TEST_P(SchedulerModelTest, EveryPacketRetiresOnceInOrderAndNothingDeadlocks) {
  DXGKIT_COVERS("SCHED-06", "SCHED-07", "SUB-13", "SUB-14", "SUB-25", "SUB-26", "PREEMPT-03",
                "PREEMPT-05", "PREEMPT-13", "INT-10", "INT-13");
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  World world{testing::Choices(GetParam())};
  for (int i = 0; i < 3000; ++i) {
    world.step();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "step " << i;
  }
  world.drain();
  EXPECT_GT(world.retirements(), 500U);
}
INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerModelTest, ::testing::Range(1U, 31U));

// One world, run again and again, with a preemption of every node at another step each time: it
// never matters where.
TEST(SchedulerPreemptionTest, AtEveryPoint) {
  DXGKIT_COVERS("SUB-25", "SUB-26", "PREEMPT-08", "PREEMPT-13", "SCHED-06");
  for (const uint32_t seed : {3U, 11U, 19U}) {
    for (int point = 0; point < 120; ++point) {
      World world{testing::Choices(seed)};
      for (int i = 0; i < 120; ++i) {
        world.step();
        if (i == point) world.preempt_everywhere();
      }
      world.drain();
      ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << ", step " << point;
    }
  }
}

// And at every step of one run, with quanta so short that turns end all the time.
TEST(SchedulerPreemptionTest, AtAllPointsOfARun) {
  size_t quanta_used = 0;
  for (uint32_t seed = 40; seed < 50; ++seed) {
    SchedulingPolicy policy;
    policy.quantum_ns = 100'000;
    policy.grace_ns = 10'000;
    World world{testing::Choices(seed), policy};
    for (int i = 0; i < 600; ++i) {
      world.step();
      if (i % 8 == 0) world.preempt_everywhere();
      ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << ", step " << i;
    }
    world.drain();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
    quanta_used += world.quanta_used();
  }
  EXPECT_GE(quanta_used, 10U);
}

// A packet that needs all memory against a stream of small ones: it gets its turn.
class StarvationTest : public ::testing::TestWithParam<int32_t> {};

class SmallMemory : public EnginePort {
 public:
  Prepare prepare(PacketId id) override {
    const uint32_t need = id.value == kBig ? 8 : 1;
    if (used + need > 8) return Prepare::kBusy;
    used += need;
    return Prepare::kReady;
  }
  Submit submit(PacketId id, NodeOrdinal node, SubmissionFenceId fence, bool) override {
    hardware[node.value].push_back(fence);
    big_ran = big_ran || id.value == kBig;
    return Submit::kTaken;
  }
  void retired(PacketId id, PacketOutcome, Reached) override { used -= id.value == kBig ? 8 : 1; }
  void preempt(NodeOrdinal, SubmissionFenceId) override {}
  static constexpr uint64_t kBig = 1000000;
  uint32_t used = 0;
  bool big_ran = false;
  std::map<uint32_t, std::deque<SubmissionFenceId>> hardware;
};

TEST_P(StarvationTest, BigPacketIsNotStarvedOfMemory) {
  SmallMemory port;
  const std::vector<NodeDesc> nodes{{.node = NodeOrdinal{0}}, {.node = NodeOrdinal{1}}};
  Scheduler scheduler(port, nodes);
  // The small ones run on the other node, so only memory stands between them and the big one.
  ASSERT_EQ(scheduler.create_context(ContextId{1}, {.node = NodeOrdinal{0}}), Status::kSuccess);
  ASSERT_EQ(
      scheduler.create_context(ContextId{2}, {.node = NodeOrdinal{1}, .priority = GetParam()}),
      Status::kSuccess);
  uint64_t next = 1;
  const auto feed = [&] {
    ASSERT_EQ(scheduler.queue(ContextId{2}, {.id = PacketId{next++}}), Status::kSuccess);
  };
  for (int i = 0; i < 10; ++i) feed();
  ASSERT_EQ(scheduler.queue(ContextId{1}, {.id = PacketId{SmallMemory::kBig}}), Status::kSuccess);
  int completions = 0;
  while (!port.big_ran && completions < 100) {
    feed();
    ASSERT_FALSE(port.hardware[1].empty()) << "the small ones stopped and the big one did not go";
    const SubmissionFenceId fence = port.hardware[1].front();
    port.hardware[1].pop_front();
    ASSERT_EQ(scheduler.completed(NodeOrdinal{1}, fence, ++completions), FenceReport::kAccepted);
  }
  EXPECT_LE(completions, 20);
}
INSTANTIATE_TEST_SUITE_P(EqualAndHigherPriority, StarvationTest, ::testing::Values(0, 7));

}  // namespace
}  // namespace dxgkit::vidsch
