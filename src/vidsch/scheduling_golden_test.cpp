// Exactly what runs when, in random worlds: the model test says what must hold of every schedule,
// this one that it is the same schedule as before. Another order, an earlier preemption or another
// level shows here, where a change of the scheduler means none; a change that means one gives the
// numbers anew, which the failure prints.
#include <gtest/gtest.h>

#include <initializer_list>

#include "vidsch/scheduler_world_test.h"

namespace dxgkit::vidsch {
namespace {

/// A world that writes down all that its scheduler does, as one number.
class NotedWorld : public World {
 public:
  NotedWorld(uint32_t seed, const SchedulingPolicy& policy)
      : World(testing::Choices(seed), policy) {}

  Prepare prepare(PacketId id) override {
    note({1, id.value});
    const Prepare answer = World::prepare(id);
    note({2, id.value, static_cast<uint64_t>(answer)});
    return answer;
  }
  Submit submit(PacketId id, NodeOrdinal node, SubmissionFenceId fence,
                bool resubmission) override {
    note({3, id.value, node.value, fence.value, resubmission ? 1U : 0U});
    return World::submit(id, node, fence, resubmission);
  }
  void retired(PacketId id, PacketOutcome outcome, Reached reached) override {
    note({4, id.value, static_cast<uint64_t>(outcome), static_cast<uint64_t>(reached)});
    World::retired(id, outcome, reached);
  }
  void preempt(NodeOrdinal node, SubmissionFenceId fence) override {
    note({5, node.value, fence.value});
    World::preempt(node, fence);
  }
  /// What can be asked between the steps.
  void look() {
    const Scheduler& now = scheduler();
    for (uint32_t n = 0; n < now.node_count(); ++n) {
      const NodeStatus status = now.node_status(NodeOrdinal{n});
      note({6, status.last_submitted.value, status.last_completed.value,
            status.hardware_queue_length, status.preemption_pending ? 1U : 0U,
            static_cast<uint64_t>(status.progress_ns), status.resetting ? 1U : 0U});
      for (const ContextId id : now.contexts_on(NodeOrdinal{n})) {
        note({7, id.value, now.effective_level(id), now.packets_of(id),
              now.on_hardware(id) ? 1U : 0U, now.holds_memory(id) ? 1U : 0U});
      }
    }
    note({8, static_cast<uint64_t>(now.quantum_deadline().value_or(0)), now.drained() ? 1U : 0U,
          now.anything_on_hardware() ? 1U : 0U, now.minds_time() ? 1U : 0U});
  }
  uint64_t sum() const { return sum_; }

 private:
  void note(std::initializer_list<uint64_t> values) {
    for (const uint64_t value : values) {
      sum_ ^= value + 0x9E3779B97F4A7C15 + (sum_ << 12) + (sum_ >> 4);
      sum_ *= 0xFF51AFD7ED558CCD;
    }
  }
  uint64_t sum_ = 0;
};

TEST(SchedulingGolden, RunsExactlyThis) {
  struct Row {
    uint32_t seed;
    bool short_turns;
    size_t retirements;
    uint64_t sum;
  };
  const Row rows[] = {
      {101, true, 833, 0x26e756b1397022a7}, {102, false, 870, 0xB1A67F1770D5A11C},
      {103, true, 911, 0x53BDCBE63AC88229}, {104, false, 784, 0x1a019441894d9673},
      {105, true, 824, 0xd569fb3b28e8da83}, {106, false, 746, 0x5126e6e56bd38b8},
      {107, true, 827, 0x199394A3347E51D8}, {108, false, 779, 0x5fa0b3dc66323309},
      {109, true, 778, 0x67a634fa862c8075}, {110, false, 879, 0x170B141A71D5A5DD},
      {111, true, 817, 0x5212445D4FD4DFE1}, {112, false, 799, 0x7547364ED70A7102},
      {113, true, 852, 0xbd64b715187efb90}, {114, false, 777, 0xb412c3bc5f02b205},
      {115, true, 845, 0x50270B272D75265F}, {116, false, 827, 0x999ece93e584ef71},
  };
  for (const Row& row : rows) {
    SchedulingPolicy policy;
    if (row.short_turns) {
      policy.quantum_ns = 200'000;
      policy.grace_ns = 10'000;
    }
    NotedWorld world(row.seed, policy);
    for (int i = 0; i < 2500; ++i) {
      world.step();
      world.look();
      if (row.short_turns && i % 16 == 0) world.preempt_everywhere();
    }
    world.drain();
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << row.seed;
    EXPECT_TRUE(world.retirements() == row.retirements && world.sum() == row.sum)
        << "seed " << row.seed << " gives {" << row.seed << ", "
        << (row.short_turns ? "true" : "false") << ", " << world.retirements() << ", 0x" << std::hex
        << world.sum() << "}";
  }
}

}  // namespace
}  // namespace dxgkit::vidsch
