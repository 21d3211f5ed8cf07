// Engines that take their time: contexts with work of given lengths, hardware that runs it in order
// and may be preempted, and an account of the time that each context had.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "vidsch/scheduler.h"

namespace dxgkit::vidsch {

inline constexpr int64_t kMs = 1'000'000;

class SharedEngine : public EnginePort {
 public:
  enum class OnPreemption { kResume, kStartOver };
  explicit SharedEngine(std::vector<NodeDesc> nodes, const SchedulingPolicy& policy = {},
                        OnPreemption on_preemption = OnPreemption::kResume)
      : nodes_(nodes.size()), on_preemption_(on_preemption) {
    scheduler = std::make_unique<Scheduler>(*this, nodes, policy);
    scheduler->set_clock([this] { return now_ns; });
  }

  /// A context that always has `backlog` packets queued, each of `length_ns` on the hardware.
  /// `backlog` 0: only what is queued by hand.
  void add(uint64_t id, ContextDesc desc, int64_t length_ns, size_t backlog = 4) {
    ASSERT_EQ(scheduler->create_context(ContextId{id}, desc), Status::kSuccess);
    contexts[id] = {.length_ns = length_ns, .backlog = backlog};
    for (size_t i = 0; i < backlog; ++i) queue(id);
  }
  uint64_t queue(uint64_t context) {
    const uint64_t id = ++last_packet_;
    packets_[id] = {.context = context, .left_ns = contexts.at(context).length_ns};
    EXPECT_EQ(scheduler->queue(ContextId{context}, {.id = PacketId{id}}), Status::kSuccess);
    return id;
  }
  void sync(uint64_t context, PacketKind kind, SyncPoint point) {
    const uint64_t id = ++last_packet_;
    packets_[id] = {.context = context};
    EXPECT_EQ(
        scheduler->queue(ContextId{context}, {.id = PacketId{id}, .kind = kind, .points = {point}}),
        Status::kSuccess);
  }

  /// Runs until then, or until nothing is on hardware.
  void run_until(int64_t end_ns) {
    while (step(end_ns)) {
    }
    if (now_ns < end_ns) now_ns = end_ns;
  }
  bool step(int64_t end_ns) {
    std::optional<int64_t> next = scheduler->quantum_deadline();
    size_t who = nodes_.size();
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      if (node.hardware.empty() && !node.preemption) continue;
      const int64_t at = node.preemption
                             ? now_ns
                             : node.started_ns + packets_.at(node.hardware.front().id).left_ns;
      if (!next || at < *next) {
        next = at;
        who = n;
      }
    }
    if (!next || *next > end_ns) return false;
    now_ns = std::max(now_ns, *next);
    if (who == nodes_.size()) {
      scheduler->pump(now_ns);
    } else if (nodes_[who].preemption) {
      answer(who);
    } else {
      complete(who);
    }
    return true;
  }

  // --- EnginePort ---
  Prepare prepare(PacketId packet) override {
    return on_prepare ? on_prepare(packets_.at(packet.value).context) : Prepare::kReady;
  }
  Submit submit(PacketId packet, NodeOrdinal node, SubmissionFenceId fence, bool) override {
    Node& at = nodes_.at(node.value);
    if (at.hardware.empty()) at.started_ns = now_ns;
    at.hardware.push_back({packet.value, fence});
    const uint64_t context = packets_.at(packet.value).context;
    order.push_back(context);
    return Submit::kTaken;
  }
  void retired(PacketId packet, PacketOutcome, Reached) override {
    const uint64_t id = packets_.at(packet.value).context;
    const bool work = packets_.at(packet.value).left_ns >= 0;
    packets_.erase(packet.value);
    Context& context = contexts.at(id);
    if (work) ++context.done;
    if (on_retired) on_retired(id);
    if (work && context.backlog != 0) queue(id);
  }
  void preempt(NodeOrdinal node, SubmissionFenceId fence) override {
    nodes_.at(node.value).preemption = fence;
    ++preemptions;
  }

  struct Context {
    int64_t length_ns = 0;
    size_t backlog = 0;
    int64_t served_ns = 0;
    size_t done = 0;
  };
  double served_ms(uint64_t id) const {
    return static_cast<double>(contexts.at(id).served_ns) / static_cast<double>(kMs);
  }
  /// The largest service of any context over the smallest.
  double unfairness() const {
    int64_t least = INT64_MAX, most = 0;
    for (const auto& [id, context] : contexts) {
      least = std::min(least, context.served_ns);
      most = std::max(most, context.served_ns);
    }
    return static_cast<double>(most) / static_cast<double>(std::max<int64_t>(1, least));
  }

  std::unique_ptr<Scheduler> scheduler;
  std::map<uint64_t, Context> contexts;
  std::vector<uint64_t> order;  // contexts, by submission
  std::function<Prepare(uint64_t)> on_prepare;
  std::function<void(uint64_t)> on_retired;
  size_t preemptions = 0;
  int64_t now_ns = 0;

 private:
  struct Packet {
    uint64_t context = 0;
    int64_t left_ns = -1;  // -1: a wait or signal
  };
  struct OnHardware {
    uint64_t id;
    SubmissionFenceId fence;
  };
  struct Node {
    std::deque<OnHardware> hardware{};
    int64_t started_ns = 0;
    std::optional<SubmissionFenceId> preemption{};
    SubmissionFenceId last_completed{};
  };
  void complete(size_t n) {
    Node& node = nodes_[n];
    const OnHardware done = node.hardware.front();
    node.hardware.pop_front();
    contexts.at(packets_.at(done.id).context).served_ns += now_ns - node.started_ns;
    node.started_ns = now_ns;
    node.last_completed = done.fence;
    EXPECT_EQ(scheduler->completed(NodeOrdinal{static_cast<uint32_t>(n)}, done.fence, now_ns),
              FenceReport::kAccepted);
  }
  void answer(size_t n) {
    Node& node = nodes_[n];
    if (!node.hardware.empty()) {
      Packet& head = packets_.at(node.hardware.front().id);
      const int64_t ran_ns = now_ns - node.started_ns;
      contexts.at(head.context).served_ns += ran_ns;
      if (on_preemption_ == OnPreemption::kResume) head.left_ns -= ran_ns;
    }
    node.hardware.clear();
    const SubmissionFenceId fence = *node.preemption;
    node.preemption.reset();
    EXPECT_EQ(scheduler->preempted(NodeOrdinal{static_cast<uint32_t>(n)}, fence,
                                   node.last_completed, now_ns),
              FenceReport::kAccepted);
  }

  std::vector<Node> nodes_;
  const OnPreemption on_preemption_;
  std::map<uint64_t, Packet> packets_;
  uint64_t last_packet_ = 0;
};

}  // namespace dxgkit::vidsch
