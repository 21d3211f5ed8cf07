// A random world around the scheduler: memory that runs out, slow paging, preemption, failures,
// suspended contexts. The world keeps its own plain account of what must be true and checks every
// callback against it. For the model test and the fuzzer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/choices.h"
#include "vidsch/scheduler.h"

namespace dxgkit::vidsch {

class World : public EnginePort {
 public:
  explicit World(testing::Choices choices, const SchedulingPolicy& policy = {}) : random_(choices) {
    std::vector<NodeDesc> nodes;
    const uint32_t count = 1 + below(3);
    for (uint32_t n = 0; n < count; ++n) {
      nodes.push_back({.node = NodeOrdinal{n},
                       .hardware_queue_depth = 1 + below(4),
                       .preemptible = below(3) != 0,
                       .first_fence = SubmissionFenceId{0xFFFFFFFFU - below(60)}});
      nodes_.push_back(
          {.depth = nodes.back().hardware_queue_depth, .preemptible = nodes.back().preemptible});
    }
    scheduler_ = std::make_unique<Scheduler>(*this, nodes, policy);
    scheduler_->set_clock([this] { return now_; });
    EXPECT_EQ(scheduler_->sync_objects().create(kFence, {.kind = SyncKind::kFence}),
              Status::kSuccess);
    EXPECT_EQ(scheduler_->create_context(kSystem, {.node = NodeOrdinal{0}, .is_system = true}),
              Status::kSuccess);
    contexts_[kSystem.value] = {.node = 0};
    for (int i = 0; i < 6; ++i) add_context();
    calm_ = below(3) == 0;
  }

  // --- the port ---

  Prepare prepare(PacketId id) override {
    Packet& packet = packets_.at(id.value);
    EXPECT_EQ(packet.kind, PacketKind::kRender);
    EXPECT_FALSE(packet.pinned);
    EXPECT_FALSE(contexts_.at(packet.context).suspended);
    // In queue order, and never behind a wait that holds.
    for (const uint64_t earlier : contexts_.at(packet.context).order) {
      if (earlier == id.value) break;
      const Packet& before = packets_.at(earlier);
      EXPECT_TRUE(before.kind != PacketKind::kRender || before.pinned) << "out of order";
      if (before.kind == PacketKind::kWait) {
        EXPECT_GE(fence_value(), before.value) << "prepared behind a wait";
      }
    }
    if (!packet.more && below(6) == 0) split(id);
    if (used_ + packet.memory > kMemory) return Prepare::kBusy;
    used_ += packet.memory;
    packet.pinned = true;
    switch (below(4)) {
      case 0: {  // paging of its own, finished when it retires
        const uint64_t paging = queue(kSystem.value, PacketKind::kPaging);
        packets_.at(paging).readies = id.value;
        packets_.at(id.value).waiting = true;
        return Prepare::kWaiting;
      }
      case 1:
        scheduler_->packet_ready(id);
        return Prepare::kWaiting;  // done before we return
      default:
        return Prepare::kReady;
    }
  }

  Submit submit(PacketId id, NodeOrdinal node, SubmissionFenceId fence,
                bool resubmission) override {
    Packet& packet = packets_.at(id.value);
    Context& context = contexts_.at(packet.context);
    Node& at = nodes_.at(node.value);
    EXPECT_EQ(node.value, context.node);
    EXPECT_FALSE(context.failed);
    EXPECT_FALSE(context.suspended && packet.kind != PacketKind::kPaging);
    EXPECT_FALSE(at.preemption.has_value()) << "submitted behind a preemption request";
    EXPECT_FALSE(at.resetting || adapter_resetting_) << "submitted to an engine in reset";
    EXPECT_TRUE(packet.kind == PacketKind::kPaging || (packet.pinned && !packet.waiting));
    EXPECT_EQ(resubmission, packet.submitted) << "SUB-25";
    if (calm_ && !at.preemptible && packet.kind == PacketKind::kRender) {
      for (const auto& [other, state] : contexts_) {
        EXPECT_FALSE(other != packet.context && state.node == node.value && between_parts(state))
            << "REND-25: " << id.value << " came between parts of context " << other;
      }
    }
    EXPECT_NE(fence.value, 0U) << "SUB-14";
    const bool keeps = resubmission && packet.kind == PacketKind::kPaging;
    if (keeps) {
      EXPECT_EQ(fence, packet.fence) << "SUB-26";
    } else if (at.issued.value != 0) {
      EXPECT_TRUE(fence_newer(fence, at.issued)) << "SUB-13";
    }
    if (!at.preempted_paging.empty()) {
      EXPECT_EQ(at.preempted_paging.front(), id.value) << "PREEMPT-13";
      at.preempted_paging.pop_front();
    }
    if (!keeps) at.issued = fence;
    at.last_submitted = fence;
    // FIFO: nothing earlier of the context is still in its software queue.
    for (const uint64_t earlier : context.order) {
      if (earlier == id.value) break;
      const Packet& before = packets_.at(earlier);
      EXPECT_TRUE(before.on_hardware || before.kind == PacketKind::kSignal ||
                  (before.kind == PacketKind::kWait && fence_value() >= before.value))
          << "packet " << id.value << " overtook " << earlier;
    }
    packet.submitted = true;
    packet.on_hardware = true;
    packet.fence = fence;
    at.hardware.push_back(id.value);
    EXPECT_LE(at.hardware.size(), at.depth) << "SCHED-07";
    return Submit::kTaken;
  }

  void retired(PacketId id, PacketOutcome outcome, Reached reached) override {
    ASSERT_TRUE(packets_.contains(id.value)) << "retired twice";
    const Packet packet = packets_.at(id.value);
    Context& context = contexts_.at(packet.context);
    EXPECT_EQ(reached != Reached::kQueue, packet.submitted);
    if (outcome == PacketOutcome::kCompleted) {
      EXPECT_EQ(context.order.front(), id.value) << "completed out of order in its context";
      EXPECT_TRUE(!packet.on_hardware || packet.reported);
      if (packet.kind == PacketKind::kSignal) {
        EXPECT_GE(fence_value(), packet.value);
      }
      if (packet.kind == PacketKind::kWait) {
        EXPECT_GE(fence_value(), packet.value);
      }
    } else {
      EXPECT_TRUE(context.failed || packet.faulted || packet.dropped);
      if (outcome == PacketOutcome::kCancelled) {
        EXPECT_FALSE(packet.on_hardware);
        EXPECT_TRUE(reached != Reached::kHardware || packet.dropped);
      }
    }
    if (packet.pinned) used_ -= packet.memory;
    std::erase(context.order, id.value);
    packets_.erase(id.value);
    ++retirements_;
    if (packet.readies != 0 && packets_.contains(packet.readies)) {
      packets_.at(packet.readies).waiting = false;
      scheduler_->packet_ready(PacketId{packet.readies});
    }
    if (packet.faulted) fail(packet.context);
    EXPECT_TRUE(scheduler_->validate());
  }

  void preempt(NodeOrdinal node, SubmissionFenceId fence) override {
    Node& at = nodes_.at(node.value);
    EXPECT_FALSE(at.preemption.has_value()) << "PREEMPT-05";
    if (at.issued.value != 0) {
      EXPECT_TRUE(fence_newer(fence, at.issued)) << "PREEMPT-03";
    }
    at.issued = fence;
    at.preemption = fence;
  }

  // --- events ---

  void step() {
    switch (below(26)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        queue_something();
        break;
      case 6:
      case 7:
      case 8:
      case 9:
      case 10:
        complete_something();
        break;
      case 11:
      case 12:
        answer_preemption();
        break;
      case 13: {
        const uint32_t node = below(static_cast<uint32_t>(nodes_.size()));
        scheduler_->request_preemption(NodeOrdinal{node});
        break;
      }
      case 14:
        if (below(6) == 0) fail(any_context());
        break;
      case 15:
        if (calm_) break;
        suspend(any_context(), below(3) == 0);
        break;
      case 16:
        if (below(4) == 0) fault_something();
        break;
      case 17:
        report_nonsense();
        break;
      case 18:
        scheduler_->retry_busy();
        break;
      case 19: {
        const uint64_t context = any_context();
        // Turns are for equals, so most contexts have the same priority.
        const int32_t priority = below(3) == 0 ? static_cast<int32_t>(below(15)) - 7 : 0;
        EXPECT_EQ(scheduler_->set_priority(ContextId{context}, priority), Status::kSuccess);
        break;
      }
      case 20: {
        const uint64_t context = any_context();
        const auto any = static_cast<PriorityClass>(below(6));
        scheduler_->set_priority_class(ContextId{context},
                                       below(3) == 0 ? any : PriorityClass::kNormal);
        break;
      }
      case 21:
        scheduler_->set_ahead_in_process(ContextId{any_context()}, below(2) == 0);
        break;
      case 22:
      case 23:
        pass_time();
        break;
      case 24:
        if (below(3) == 0 && !calm_) reset_engine();
        break;
      case 25:
        if (below(30) == 0) reset_adapter();
        break;
    }
    EXPECT_TRUE(scheduler_->validate());
  }

  /// Every node is asked to give up what it runs, whenever it could be.
  void preempt_everywhere() {
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      scheduler_->request_preemption(NodeOrdinal{n});
      if (nodes_[n].preemption.has_value())
        answer(n, below(static_cast<uint32_t>(nodes_[n].hardware.size()) + 1));
    }
    EXPECT_TRUE(scheduler_->validate());
  }
  size_t quanta_used() const { return quanta_used_; }

  /// All queued packets retire if the hardware goes on and no context is held up: there is no
  /// deadlock in any case.
  void drain() {
    std::vector<uint64_t> ids;
    for (const auto& [id, context] : contexts_) ids.push_back(id);
    for (const uint64_t id : ids) suspend(id, false);
    size_t idle_calls = 0;
    for (const uint64_t id : ids) {
      scheduler_->when_idle(ContextId{id}, [&idle_calls] { ++idle_calls; });
    }
    signal_from_cpu(1 << 30);
    for (size_t round = 0; !packets_.empty(); ++round) {
      ASSERT_LT(round, 20000U) << packets_.size() << " packets are stuck";
      bool moved = false;
      for (uint32_t n = 0; n < nodes_.size(); ++n) {
        if (nodes_[n].preemption.has_value()) {
          answer(n, 0);
          moved = true;
        } else if (!nodes_[n].hardware.empty()) {
          complete(n, 1);
          moved = true;
        }
      }
      ASSERT_TRUE(moved) << packets_.size() << " packets are stuck and no hardware is busy";
    }
    EXPECT_EQ(idle_calls, ids.size());
    EXPECT_EQ(used_, 0U);
    EXPECT_EQ(retirements_, queued_);
    for (const uint64_t id : ids) EXPECT_TRUE(scheduler_->destroy_context(ContextId{id}));
    EXPECT_TRUE(scheduler_->validate());
  }
  size_t retirements() const { return retirements_; }
  const Scheduler& scheduler() const { return *scheduler_; }

  /// The choices that came from a fuzzer are used up.
  bool exhausted() const { return random_.exhausted(); }

 private:
  static constexpr SyncObjectId kFence{1};
  static constexpr ContextId kSystem{1};
  static constexpr uint32_t kMemory = 10;

  struct Packet {
    uint64_t context = 0;
    PacketKind kind = PacketKind::kRender;
    uint32_t memory = 0;
    uint64_t value = 0;    // of the fence: kSignal, kWait
    uint64_t readies = 0;  // kPaging: the packet it pages for
    bool pinned = false, waiting = false, submitted = false, on_hardware = false;
    bool reported = false, faulted = false;
    bool continues = false, more = false;  // a part of a DMA buffer: not the first, not the last
    bool dropped = false;                  // paging that an adapter reset caught
    SubmissionFenceId fence;
  };
  struct Context {
    uint32_t node = 0;
    bool failed = false, suspended = false;
    std::vector<uint64_t> order{};  // queued, not retired
  };
  struct Node {
    uint32_t depth = 1;
    bool preemptible = false;
    std::vector<uint64_t> hardware{};
    std::deque<uint64_t> preempted_paging{};
    SubmissionFenceId issued{}, last_completed{}, last_submitted{};
    std::optional<SubmissionFenceId> preemption{};
    bool resetting = false;
  };

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  uint64_t fence_value() const { return scheduler_->sync_objects().value(kFence); }

  void add_context() {
    const uint64_t id = next_context_++;
    const uint32_t node = below(static_cast<uint32_t>(nodes_.size()));
    ASSERT_EQ(scheduler_->create_context(ContextId{id}, {.node = NodeOrdinal{node},
                                                         .priority = below(3) == 0 ? -1 : 0,
                                                         .process = below(3),
                                                         .ahead_in_process = below(3) == 0}),
              Status::kSuccess);
    contexts_[id] = {.node = node};
  }
  uint64_t any_context() {
    std::vector<uint64_t> ids;
    for (const auto& [id, context] : contexts_) {
      if (id != kSystem.value && !context.failed) ids.push_back(id);
    }
    return ids[below(static_cast<uint32_t>(ids.size()))];
  }
  uint64_t queue(uint64_t context, PacketKind kind) {
    const uint64_t id = next_packet_++;
    Packet& packet = packets_[id];
    packet.context = context;
    packet.kind = kind;
    PacketDesc desc{.id = PacketId{id}, .kind = kind};
    if (kind == PacketKind::kRender) packet.memory = below(5) == 0 ? kMemory : 1 + below(4);
    if (kind == PacketKind::kSignal) packet.value = ++signalled_;
    // Waits look back at values some queued signal will bring, or forward a little; drain() covers
    // the rest.
    if (kind == PacketKind::kWait) packet.value = signalled_ + below(3);
    if (packet.value != 0) desc.points = {{kFence, packet.value}};
    contexts_.at(context).order.push_back(id);
    ++queued_;
    EXPECT_EQ(scheduler_->queue(ContextId{context}, std::move(desc)), Status::kSuccess);
    return id;
  }
  /// The packet has to run in parts; the rest needs memory of its own.
  void split(PacketId id) {
    const uint64_t rest = next_packet_++;
    Packet& packet = packets_.at(id.value);
    Packet& behind = packets_[rest];
    behind.context = packet.context;
    behind.memory = 1 + below(kMemory);
    behind.continues = true;
    behind.more = std::exchange(packet.more, true);
    std::vector<uint64_t>& order = contexts_.at(packet.context).order;
    order.insert(std::ranges::find(order, id.value) + 1, rest);
    ++queued_;
    scheduler_->insert_after(id, PacketId{rest});
  }
  /// A part of it has been submitted, and the next one not.
  bool between_parts(const Context& context) const {
    if (context.failed) return false;
    for (const uint64_t id : context.order) {
      const Packet& packet = packets_.at(id);
      if (packet.faulted) return false;  // its device is as good as lost
      if (packet.on_hardware || packet.reported) continue;
      return packet.continues;
    }
    return false;
  }
  void queue_something() {
    const uint64_t context = any_context();
    const uint32_t what = below(10);
    queue(context, what == 0   ? PacketKind::kWait
                   : what == 1 ? PacketKind::kSignal
                               : PacketKind::kRender);
    if (below(40) == 0) signal_from_cpu(signalled_);
  }
  void signal_from_cpu(uint64_t value) {
    const std::vector<SyncPoint> points{{kFence, value}};
    EXPECT_EQ(scheduler_->sync_objects().signal(points), Status::kSuccess);
  }
  /// Sometimes exactly to the moment when a quantum ends; then the node belongs to another context.
  void pass_time() {
    const std::optional<int64_t> end = scheduler_->quantum_deadline();
    if (!end) {
      now_ += below(30'000'000);
      scheduler_->pump(now_);
      return;
    }
    size_t asked = 0, asked_after = 0;
    for (const Node& node : nodes_) asked += node.preemption.has_value() ? 1 : 0;
    now_ = std::max(now_, *end - 1);
    if (now_ < *end) {
      scheduler_->pump(now_);
      for (const Node& node : nodes_) asked_after += node.preemption.has_value() ? 1 : 0;
      EXPECT_EQ(asked_after, asked) << "before the quantum was used up";
      asked_after = 0;
    }
    now_ = std::max(now_, *end);
    scheduler_->pump(now_);
    for (const Node& node : nodes_) asked_after += node.preemption.has_value() ? 1 : 0;
    EXPECT_GT(asked_after, asked) << "when it was";
    ++quanta_used_;
  }
  void complete(uint32_t n, size_t count) {
    Node& node = nodes_[n];
    SubmissionFenceId fence;
    for (size_t i = 0; i < count; ++i) {
      fence = packets_.at(node.hardware[i]).fence;
      packets_.at(node.hardware[i]).reported = true;
    }
    node.hardware.erase(node.hardware.begin(),
                        node.hardware.begin() + static_cast<std::ptrdiff_t>(count));
    node.last_completed = fence;
    EXPECT_EQ(scheduler_->completed(NodeOrdinal{n}, fence, ++now_), FenceReport::kAccepted);
  }
  void complete_something() {
    const uint32_t n = below(static_cast<uint32_t>(nodes_.size()));
    const auto length = static_cast<uint32_t>(nodes_[n].hardware.size());
    if (length > 0) complete(n, 1 + below(length));
  }
  /// The device had finished `done` packets when the request reached it.
  void answer(uint32_t n, size_t done) {
    Node& node = nodes_[n];
    for (size_t i = 0; i < node.hardware.size(); ++i) {
      Packet& packet = packets_.at(node.hardware[i]);
      if (i < done) {
        packet.reported = true;
        node.last_completed = packet.fence;
        continue;
      }
      packet.on_hardware = contexts_.at(packet.context).failed;
      if (packet.kind == PacketKind::kPaging) node.preempted_paging.push_back(node.hardware[i]);
    }
    node.hardware.clear();
    const SubmissionFenceId preemption = *node.preemption;
    node.preemption.reset();
    EXPECT_EQ(scheduler_->preempted(NodeOrdinal{n}, preemption, node.last_completed, ++now_),
              FenceReport::kAccepted);
  }
  /// The engine hung in some packet, had finished those before it, and never saw the rest.
  void reset_engine() {
    const uint32_t n = below(static_cast<uint32_t>(nodes_.size()));
    Node& node = nodes_[n];
    scheduler_->begin_reset(NodeOrdinal{n});
    node.resetting = true;
    queue_something();
    const size_t length = node.hardware.size();
    const size_t at = below(static_cast<uint32_t>(length) + 1);  // `length`: it had run dry
    if (at < length && packets_.at(node.hardware[at]).kind == PacketKind::kPaging) {
      node.resetting = false;
      scheduler_->end_reset(NodeOrdinal{n});
      return;
    }
    const bool hit = at < length;
    for (size_t i = 0; i < length; ++i) {
      Packet& packet = packets_.at(node.hardware[i]);
      if (hit && i <= at) {
        packet.reported = true;
        packet.faulted = i == at;
        node.last_completed = packet.fence;
        continue;
      }
      packet.on_hardware = contexts_.at(packet.context).failed;
      if (packet.kind == PacketKind::kPaging) node.preempted_paging.push_back(node.hardware[i]);
    }
    const uint64_t guilty = hit ? node.hardware[at] : 0;
    node.hardware.clear();
    node.preemption.reset();
    node.resetting = false;
    const EngineReset reset =
        scheduler_->engine_was_reset(NodeOrdinal{n}, node.last_completed, ++now_);
    EXPECT_TRUE(reset.in_range);
    EXPECT_EQ(reset.on_hardware, hit);
    EXPECT_EQ(reset.packet.value, guilty);
  }
  void reset_adapter() {
    scheduler_->begin_adapter_reset();
    adapter_resetting_ = true;
    std::vector<uint64_t> ids;
    for (const auto& [id, context] : contexts_) ids.push_back(id);
    for (const uint64_t id : ids) fail(id);
    for (auto& [id, packet] : packets_) {
      if (packet.kind != PacketKind::kPaging) continue;
      packet.dropped = true;
      packet.on_hardware = false;
    }
    for (Node& node : nodes_) {
      node.hardware.clear();
      node.preempted_paging.clear();
      node.preemption.reset();
      node.last_completed = node.last_submitted;
    }
    scheduler_->adapter_was_reset(++now_);
    for (int i = 0; i < 3; ++i) queue_something();
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      const NodeStatus status = scheduler_->node_status(NodeOrdinal{n});
      EXPECT_EQ(status.last_completed, nodes_[n].last_submitted) << "TDR-25";
      EXPECT_EQ(status.hardware_queue_length, 0U);
    }
    adapter_resetting_ = false;
    scheduler_->end_adapter_reset();
  }
  void answer_preemption() {
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      if (!nodes_[n].preemption.has_value()) continue;
      answer(n, below(static_cast<uint32_t>(nodes_[n].hardware.size()) + 1));
      return;
    }
  }
  void fault_something() {
    const uint32_t n = below(static_cast<uint32_t>(nodes_.size()));
    Node& node = nodes_[n];
    if (node.hardware.empty()) return;
    const size_t at = below(static_cast<uint32_t>(node.hardware.size()));
    const uint64_t id = node.hardware[at];
    if (packets_.at(id).kind == PacketKind::kPaging) return;  // that would end the adapter
    for (size_t i = 0; i <= at; ++i) packets_.at(node.hardware[i]).reported = true;
    packets_.at(id).faulted = true;
    const SubmissionFenceId fence = packets_.at(id).fence;
    node.last_completed = fence;
    node.hardware.erase(node.hardware.begin(),
                        node.hardware.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    PacketId guilty;
    EXPECT_EQ(scheduler_->faulted(NodeOrdinal{n}, fence, ++now_, &guilty), FenceReport::kAccepted);
    EXPECT_EQ(guilty.value, id);
  }
  void report_nonsense() {
    const uint32_t n = below(static_cast<uint32_t>(nodes_.size()));
    Node& node = nodes_[n];
    const size_t before = retirements_;
    std::set<uint32_t> known;
    for (const uint64_t id : node.hardware) known.insert(packets_.at(id).fence.value);
    const uint32_t fence = node.issued.value + 1 - below(12);
    if (known.contains(fence)) return;
    if (node.preemption == SubmissionFenceId{fence}) return;
    const bool repeat = fence != 0 && fence == node.last_completed.value;
    EXPECT_EQ(scheduler_->completed(NodeOrdinal{n}, SubmissionFenceId{fence}, ++now_),
              repeat ? FenceReport::kRepeated : FenceReport::kUnknownFence);
    EXPECT_EQ(scheduler_->preempted(NodeOrdinal{n}, SubmissionFenceId{fence}, node.last_completed,
                                    ++now_) == FenceReport::kAccepted,
              false);
    EXPECT_EQ(retirements_, before);
  }
  void fail(uint64_t id) {
    Context& context = contexts_.at(id);
    if (context.failed || id == kSystem.value) return;
    context.failed = true;
    scheduler_->fail_context(ContextId{id});
    add_context();
  }
  void suspend(uint64_t id, bool suspended) {
    if (id == kSystem.value) return;
    contexts_.at(id).suspended = suspended;
    scheduler_->set_suspended(ContextId{id}, suspended);
  }

  testing::Choices random_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<uint64_t, Packet> packets_;
  std::map<uint64_t, Context> contexts_;
  std::vector<Node> nodes_;
  uint32_t used_ = 0;
  bool adapter_resetting_ = false;
  bool calm_ = false;  // no context is suspended, no engine reset
  uint64_t next_packet_ = 1, next_context_ = 2, signalled_ = 0;
  size_t queued_ = 0, retirements_ = 0, quanta_used_ = 0;
  int64_t now_ = 0;
};

}  // namespace dxgkit::vidsch
