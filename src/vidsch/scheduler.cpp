#include "vidsch/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "trace/trace.h"
#include "vidsch/scheduler_state.h"

namespace dxgkit::vidsch {
namespace {

/// Position in the hardware queue of the packet with that fence; the queue's length if there is
/// none.
size_t position(const NodeState& node, SubmissionFenceId fence) {
  size_t i = 0;
  while (i < node.ring.size() && node.ring[i]->fence != fence) ++i;
  return i;
}

}  // namespace

Scheduler::Scheduler(EnginePort& port, std::span<const NodeDesc> nodes,
                     const SchedulingPolicy& policy)
    : impl_(std::make_unique<Impl>(port, nodes, policy)) {}
Scheduler::~Scheduler() = default;

Status Scheduler::create_context(ContextId id, const ContextDesc& desc) {
  NodeState* node = impl_->find_node(desc.node);
  if (node == nullptr) return Status::kInvalidParameter;
  if (desc.priority < -kPriorityMost) return Status::kInvalidParameter;
  if (desc.priority > kPriorityMost) return Status::kInvalidParameter;
  DXGKIT_CHECK(impl_->find_context(id) == nullptr);
  auto context = std::make_unique<Context>();
  context->id = id;
  context->desc = desc;
  context->node = static_cast<size_t>(node - impl_->nodes_.data());
  context->level = impl_->own_level(*context);
  context->failed = impl_->halted_;
  impl_->join_process(*context);
  DXGKIT_CHECK(impl_->context_table_.insert(id.value, context.get()));
  impl_->contexts_.emplace(id, std::move(context));
  return Status::kSuccess;
}

bool Scheduler::destroy_context(ContextId id) {
  Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  if (context->packets != 0) return false;
  impl_->unlist(*context);
  if (context->dirty_link.listed) impl_->dirty_.erase(context);
  context->destroyed = true;
  impl_->leave_process(*context);
  impl_->context_table_.erase(id.value);
  auto node = impl_->contexts_.extract(id);
  impl_->graveyard_.push_back(std::move(node.mapped()));
  impl_->sync_.abandon(id);
  impl_->run();
  return true;
}

void Scheduler::fail_context(ContextId id) {
  Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  if (context->failed) return;
  impl_->change_selection(*context, [&] { context->failed = true; });
  impl_->run();
}

void Scheduler::drain_context(ContextId id) {
  Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  context->draining = true;
  if (context->failed) return;
  if (context->blocked != nullptr) {
    impl_->change_selection(*context, [&] { context->failed = true; });
  }
  impl_->mark_dirty(*context);
  impl_->run();
}

Status Scheduler::set_priority(ContextId id, int32_t priority) {
  Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  if (priority < -kPriorityMost) return Status::kInvalidParameter;
  if (priority > kPriorityMost) return Status::kInvalidParameter;
  context->desc.priority = priority;
  impl_->inherit_anew(*context);  // only now may a waiter outrank it
  impl_->run();
  return Status::kSuccess;
}

void Scheduler::set_priority_class(ContextId id, PriorityClass priority_class) {
  Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  context->desc.priority_class = priority_class;
  impl_->inherit_anew(*context);
  impl_->run();
}

void Scheduler::set_ahead_in_process(ContextId id, bool ahead) {
  Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  impl_->leave_process(*context);
  context->desc.ahead_in_process = ahead;
  impl_->join_process(*context);
}

size_t Scheduler::effective_level(ContextId id) const {
  const Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  return context->level;
}

void Scheduler::set_suspended(ContextId id, bool suspended) {
  Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  DXGKIT_CHECK(!context->desc.is_system);
  if (context->resuspend) {  // it runs out what it holds; afterwards it is suspended again, or not
    context->resuspend = suspended;
    return;
  }
  if (suspended && impl_->held_ && context->prepared != 0) {  // as a context suspended before
    context->resuspend = true;
    return;
  }
  if (context->suspended == suspended) return;
  impl_->change_selection(*context, [&] { context->suspended = suspended; });
  impl_->busy_retry_ = true;
  impl_->run();
}

void Scheduler::set_held(bool held) {
  if (impl_->held_ == held) return;
  impl_->held_ = held;
  for (auto& [id, context] : impl_->contexts_) {
    // Work that has its memory may run, so that the memory becomes free.
    if (held && context->suspended && context->prepared != 0) {
      impl_->change_selection(*context, [&] { context->suspended = false; });
      context->resuspend = true;
    } else if (!held && context->resuspend) {
      impl_->change_selection(*context, [&] { context->suspended = true; });
      context->resuspend = false;
    }
  }
  impl_->busy_retry_ = true;  // asked when nothing holds them any more
  impl_->work_ = ~uint64_t{0};
  impl_->run();
}

void Scheduler::skip_fences(uint32_t count) {
  constexpr uint32_t kQuarter = 1U << 30;
  constexpr uint32_t kMost = 1U << 31;
  for (NodeState& node : impl_->nodes_) {
    DXGKIT_CHECK(node.ring.empty());
    const uint32_t next = (node.next_fence.value + count + kQuarter) / kQuarter * kQuarter - count;
    if (node.desc.of_queue || next - node.last_completed.value >= kMost) continue;
    node.next_fence.value = next;
    if (node.next_fence.value == 0) node.next_fence.value = 1;  // SUB-14
  }
}

void Scheduler::hold_node(NodeOrdinal ordinal, bool held) {
  NodeState* node = impl_->find_node(ordinal);
  DXGKIT_CHECK(node != nullptr);
  if (node->held == held) return;
  node->held = held;
  impl_->touch(static_cast<size_t>(node - impl_->nodes_.data()));
  impl_->run();
}

void Scheduler::hold_engines(bool held) {
  if (impl_->engines_held_ == held) return;
  impl_->engines_held_ = held;
  impl_->work_ = ~uint64_t{0};
  impl_->run();
}

bool Scheduler::drained() const {
  // A packet on hardware is one or the other.
  if (impl_->pinned_ != 0 || impl_->paging_ != 0) return false;
  return std::ranges::none_of(impl_->nodes_, &NodeState::preemption_pending);
}

bool Scheduler::holds_memory(ContextId id) const {
  const Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  return context->prepared != 0 || on_hardware(id);
}

bool Scheduler::on_hardware(ContextId id) const {
  const Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  for (const NodeState& node : impl_->nodes_) {
    for (const Packet* packet : node.ring) {
      if (packet->context == context) return true;
    }
  }
  return false;
}

void Scheduler::abandon_hardware() {
  impl_->abandon_hardware();
  impl_->run();
}

size_t Scheduler::packets_of(ContextId id) const {
  const Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  return context->packets;
}

void Scheduler::when_idle(ContextId id, std::function<void()> then) {
  Context* context = impl_->find_context(id);
  DXGKIT_CHECK(context != nullptr);
  if (context->packets == 0) {
    then();
    return;
  }
  context->when_idle.push_back(std::move(then));
}

Status Scheduler::queue(ContextId context_id, PacketDesc desc) {
  Context* context = impl_->find_context(context_id);
  DXGKIT_CHECK(context != nullptr);
  if (context->failed) return Status::kDeviceRemoved;
  if (desc.kind == PacketKind::kPaging && !context->desc.is_system) {
    return Status::kInvalidParameter;
  }
  Packet* packet = impl_->allocate();
  packet->id = desc.id;
  packet->context = context;
  packet->kind = desc.kind;
  packet->points = std::move(desc.points);
  packet->at_submission = desc.at_submission;
  packet->broadcast = std::move(desc.broadcast);
  packet->order = impl_->next_order_++;
  if (desc.kind == PacketKind::kPaging) {
    packet->state = PacketState::kReady;
    ++impl_->paging_;
  }
  DXGKIT_CHECK(impl_->packet_table_.insert(desc.id.value, packet));
  context->queue.push_back(packet);
  ++context->packets;
  if (context->cursor == nullptr) context->cursor = packet;
  if (desc.kind == PacketKind::kSignal) impl_->signal_queued(*packet);
  trace::emit(trace::EventKind::kPacketQueued, desc.id.value, context_id.value,
              static_cast<uint64_t>(desc.kind), context->queue.size(),
              static_cast<uint16_t>(context->desc.node.value));
  impl_->mark_dirty(*context);
  if (!desc.selected_later) impl_->run();
  return Status::kSuccess;
}

void Scheduler::insert_after(PacketId existing_id, PacketId id) {
  Packet* existing = impl_->packet_table_.find(existing_id.value);
  DXGKIT_CHECK(existing != nullptr);
  DXGKIT_CHECK(existing->state == PacketState::kPreparing);
  Packet* packet = impl_->allocate();
  packet->id = id;
  packet->context = existing->context;
  packet->kind = PacketKind::kRender;
  packet->order = existing->order;  // as old as the packet it was part of
  ++impl_->parts_;
  packet->continues = true;
  DXGKIT_CHECK(impl_->packet_table_.insert(id.value, packet));
  existing->context->queue.insert_after(existing, packet);
  ++existing->context->packets;
  trace::emit(trace::EventKind::kPacketQueued, id.value, packet->context->id.value,
              static_cast<uint64_t>(packet->kind), packet->context->queue.size(),
              static_cast<uint16_t>(packet->context->desc.node.value));
}

void Scheduler::packet_ready(PacketId id) {
  Packet* packet = impl_->packet_table_.find(id.value);
  if (packet == nullptr) return;
  if (packet->state == PacketState::kPreparing) {
    packet->early_ready = true;
    return;
  }
  if (packet->state != PacketState::kWaiting) return;
  packet->state = PacketState::kReady;
  trace::emit(trace::EventKind::kPacketReady, id.value, packet->context->id.value, 0, 0,
              static_cast<uint16_t>(packet->context->desc.node.value));
  impl_->mark_dirty(*packet->context);
  impl_->run();
}

void Scheduler::retry_busy() {
  for (Context* context = impl_->busy_.front(); context != nullptr;
       context = IntrusiveList<Context, &Context::busy_link>::next(context)) {
    context->cursor->hopeless = false;
  }
  impl_->busy_retry_ = true;
  impl_->run();
}

void Scheduler::pump(int64_t now_ns) {
  impl_->enter(now_ns);
  impl_->check_quanta();
  impl_->run();
}

void Scheduler::pump() { impl_->run(); }

bool Scheduler::minds_time() const {
  return std::ranges::any_of(impl_->nodes_, [](const NodeState& node) {
    return node.desc.preemptible && !node.ring.empty();
  });
}

std::optional<int64_t> Scheduler::quantum_deadline() const {
  std::optional<int64_t> earliest;
  for (const NodeState& node : impl_->nodes_) {
    const std::optional<int64_t> end = impl_->quantum_end(node);
    if (end && (!earliest || *end < *earliest)) earliest = end;
  }
  return earliest;
}

void Scheduler::set_clock(std::function<int64_t()> now_ns) { impl_->clock_ = std::move(now_ns); }

FenceReport Scheduler::completed(NodeOrdinal ordinal, SubmissionFenceId fence, int64_t now_ns) {
  NodeState* node = impl_->find_node(ordinal);
  if (node == nullptr) return FenceReport::kUnknownNode;
  const size_t found = position(*node, fence);
  if (found == node->ring.size()) {
    const bool repeat = fence.value != 0 && fence == node->last_completed;
    // The driver may report a refused packet as complete, but need not (SUB-29).
    if (repeat && node->last_completed_refused) return FenceReport::kAccepted;
    return repeat ? FenceReport::kRepeated : FenceReport::kUnknownFence;
  }
  impl_->enter(now_ns);
  impl_->complete_up_to(*node, found + 1);
  impl_->run();
  return FenceReport::kAccepted;
}

FenceReport Scheduler::preempted(NodeOrdinal ordinal, SubmissionFenceId preemption,
                                 SubmissionFenceId last_completed, int64_t now_ns) {
  NodeState* node = impl_->find_node(ordinal);
  if (node == nullptr) return FenceReport::kUnknownNode;
  if (!node->preemption_pending) return FenceReport::kUnexpectedPreemption;
  if (node->preemption_unsent) return FenceReport::kUnexpectedPreemption;
  if (node->preemption != preemption) return FenceReport::kUnexpectedPreemption;
  size_t done = 0;
  if (last_completed != node->last_completed) {
    done = position(*node, last_completed) + 1;
    if (done > node->ring.size()) return FenceReport::kUnknownFence;
  }
  impl_->enter(now_ns);
  impl_->complete_up_to(*node, done);
  impl_->note_given_back(*node);
  impl_->requeue(*node);
  node->preemption_pending = false;
  impl_->run();
  return FenceReport::kAccepted;
}

FenceReport Scheduler::faulted(NodeOrdinal ordinal, SubmissionFenceId fence, int64_t now_ns,
                               PacketId* packet) {
  NodeState* node = impl_->find_node(ordinal);
  if (node == nullptr) return FenceReport::kUnknownNode;
  const size_t found = position(*node, fence);
  if (found == node->ring.size()) {
    const bool repeat = fence.value != 0 && fence == node->last_completed;
    return repeat ? FenceReport::kRepeated : FenceReport::kUnknownFence;
  }
  impl_->enter(now_ns);
  Packet* guilty = node->ring[found];
  Context* context = guilty->context;
  if (packet != nullptr) *packet = guilty->id;
  impl_->complete_up_to(*node, found + 1);
  guilty->outcome = PacketOutcome::kFaulted;
  impl_->change_selection(*context, [&] { context->faulted = true; });
  impl_->run();
  return FenceReport::kAccepted;
}

bool Scheduler::request_preemption(NodeOrdinal ordinal) {
  NodeState* node = impl_->find_node(ordinal);
  DXGKIT_CHECK(node != nullptr);
  if (!impl_->start_preemption(*node, trace::PreemptionReason::kAsked, nullptr)) return false;
  impl_->run();
  return true;
}

void Scheduler::halt() {
  impl_->halt();
  impl_->run();
}

SyncObjects& Scheduler::sync_objects() { return impl_->sync_; }

std::vector<QueuedSignal> Scheduler::queued_signals() const {
  std::vector<QueuedSignal> signals;
  for (const auto& [id, context] : impl_->contexts_) {
    for (const PacketList* list : {&context->flight, &context->queue}) {
      for (const Packet* packet = list->front(); packet != nullptr;
           packet = PacketList::next(packet)) {
        if (packet->kind != PacketKind::kSignal) continue;
        for (const SyncPoint& point : packet->points) signals.push_back({id, point});
      }
    }
  }
  return signals;
}

NodeStatus Scheduler::node_status(NodeOrdinal ordinal) const {
  const NodeState* node = impl_->find_node(ordinal);
  DXGKIT_CHECK(node != nullptr);
  return {.last_submitted = node->last_submitted,
          .last_completed = node->last_completed,
          .hardware_queue_length = node->ring.size(),
          .preemption_pending = node->preemption_pending,
          .progress_ns = node->progress_ns,
          .resetting = node->resetting || impl_->adapter_resetting_,
          .given_back = node->given_back};
}

size_t Scheduler::node_count() const {
  return static_cast<size_t>(std::ranges::count_if(
      impl_->nodes_, [](const NodeState& node) { return !node.desc.of_queue; }));
}

bool Scheduler::anything_on_hardware() const {
  return std::ranges::any_of(impl_->nodes_,
                             [](const NodeState& node) { return !node.ring.empty(); });
}

void Scheduler::set_depth(NodeOrdinal ordinal, uint32_t depth) {
  NodeState* node = impl_->find_node(ordinal);
  DXGKIT_CHECK(node != nullptr && node->ring.empty() && depth >= 1);
  node->desc.hardware_queue_depth = depth;
  node->ring.reserve(depth);
}

std::optional<std::pair<NodeOrdinal, SubmissionFenceId>> Scheduler::on_hardware(PacketId id) const {
  const Packet* packet = impl_->packet_table_.find(id.value);
  if (packet == nullptr || packet->state != PacketState::kHardware) return std::nullopt;
  return std::pair(packet->context->desc.node, packet->fence);
}

bool Scheduler::validate() const { return impl_->validate(); }

}  // namespace dxgkit::vidsch
