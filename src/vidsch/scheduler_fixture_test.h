// One scheduler over a fake engine, two contexts and a paging context: what tests of the
// scheduler's behaviours start from.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "vidsch/fake_engine_test.h"
#include "vidsch/scheduler.h"

namespace dxgkit::vidsch {

inline constexpr NodeOrdinal kNode{0};
inline constexpr ContextId kA{100};
inline constexpr ContextId kB{101};
inline constexpr ContextId kPagingContext{102};
inline constexpr SyncObjectId kFence{7};

class SchedulerTest : public ::testing::Test {
 protected:
  void start(std::vector<NodeDesc> nodes) {
    scheduler_ = std::make_unique<Scheduler>(engine_, nodes, policy_);
  }
  void start(uint32_t depth = 2, bool preemptible = true) {
    start({{.node = kNode, .hardware_queue_depth = depth, .preemptible = preemptible}});
    add(kA);
    add(kB);
    ASSERT_EQ(scheduler_->create_context(kPagingContext, {.node = kNode, .is_system = true}),
              Status::kSuccess);
  }
  void add(ContextId id, int32_t priority = 0, NodeOrdinal node = kNode) {
    ASSERT_EQ(scheduler_->create_context(id, {.node = node, .priority = priority}),
              Status::kSuccess);
  }
  void queue(ContextId context, uint64_t packet, PacketKind kind = PacketKind::kRender,
             std::vector<SyncPoint> points = {}) {
    ASSERT_EQ(scheduler_->queue(context, {PacketId{packet}, kind, std::move(points)}),
              Status::kSuccess);
    ASSERT_TRUE(scheduler_->validate());
  }
  void page(uint64_t packet) { queue(kPagingContext, packet, PacketKind::kPaging); }
  void signal(ContextId context, uint64_t packet, uint64_t value) {
    queue(context, packet, PacketKind::kSignal, {{kFence, value}});
  }
  void wait(ContextId context, uint64_t packet, uint64_t value) {
    queue(context, packet, PacketKind::kWait, {{kFence, value}});
  }
  void make_fence() {
    ASSERT_EQ(scheduler_->sync_objects().create(kFence, {.kind = SyncKind::kFence}),
              Status::kSuccess);
  }
  FenceReport complete(uint32_t fence, NodeOrdinal node = kNode) {
    const FenceReport report = scheduler_->completed(node, SubmissionFenceId{fence}, ++now_);
    EXPECT_TRUE(scheduler_->validate());
    return report;
  }
  FenceReport preempted(uint32_t preemption, uint32_t last) {
    const FenceReport report = scheduler_->preempted(kNode, SubmissionFenceId{preemption},
                                                     SubmissionFenceId{last}, ++now_);
    EXPECT_TRUE(scheduler_->validate());
    return report;
  }
  uint32_t last_fence() const { return engine_.submitted.back().fence; }

  FakeEngine engine_;
  SchedulingPolicy policy_;
  std::unique_ptr<Scheduler> scheduler_;
  int64_t now_ = 0;
};

}  // namespace dxgkit::vidsch
