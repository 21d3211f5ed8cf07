// The effect of engine and adapter resets on packets.
#include <algorithm>

#include "base/check.h"
#include "vidsch/scheduler.h"
#include "vidsch/scheduler_state.h"

namespace dxgkit::vidsch {
namespace {

size_t place_of(const NodeState& node, SubmissionFenceId fence) {
  const auto found = std::ranges::find(node.ring, fence, &Packet::fence);
  return static_cast<size_t>(found - node.ring.begin());
}

EngineReset aborted_at(const NodeState& node, SubmissionFenceId last_aborted) {
  EngineReset reset;
  const size_t found = place_of(node, last_aborted);
  reset.on_hardware = found != node.ring.size();
  reset.in_range = reset.on_hardware || last_aborted == node.last_completed;
  if (!reset.in_range) return reset;
  reset.innocent = node.ring.size();
  reset.context = node.last_context;
  if (!reset.on_hardware) return reset;
  const Packet& packet = *node.ring[found];
  reset.packet = packet.id;
  reset.kind = packet.kind;
  reset.context = packet.context->id;
  reset.finished = found;
  reset.innocent -= found + 1;
  return reset;
}

}  // namespace

void Scheduler::begin_reset(NodeOrdinal ordinal) {
  NodeState* node = impl_->find_node(ordinal);
  DXGKIT_CHECK(node != nullptr);
  node->resetting = true;
}

void Scheduler::end_reset(NodeOrdinal ordinal) {
  NodeState* node = impl_->find_node(ordinal);
  DXGKIT_CHECK(node != nullptr);
  node->resetting = false;
  impl_->touch(static_cast<size_t>(node - impl_->nodes_.data()));
  impl_->run();
}

EngineReset Scheduler::find_aborted(NodeOrdinal ordinal, SubmissionFenceId last_aborted) const {
  const NodeState* node = impl_->find_node(ordinal);
  DXGKIT_CHECK(node != nullptr);
  return aborted_at(*node, last_aborted);
}

EngineReset Scheduler::engine_was_reset(NodeOrdinal ordinal, SubmissionFenceId last_aborted,
                                        int64_t now_ns) {
  NodeState* node = impl_->find_node(ordinal);
  DXGKIT_CHECK(node != nullptr);
  const EngineReset reset = aborted_at(*node, last_aborted);
  if (!reset.in_range || impl_->halted_) return reset;
  DXGKIT_CHECK(!reset.on_hardware || reset.kind != PacketKind::kPaging);
  impl_->enter(now_ns);
  if (reset.on_hardware) {
    Packet* aborted = node->ring[reset.finished];
    Context* context = aborted->context;
    impl_->complete_up_to(*node, reset.finished + 1);
    aborted->outcome = PacketOutcome::kFaulted;
    impl_->change_selection(*context, [&] { context->faulted = true; });
  }
  impl_->requeue(*node);
  node->preemption_pending = false;
  node->preemption_unsent = false;
  node->resetting = false;
  impl_->stamp(*node);
  impl_->touch(static_cast<size_t>(node - impl_->nodes_.data()));
  impl_->run();
  return reset;
}

void Scheduler::begin_adapter_reset() { impl_->adapter_resetting_ = true; }

void Scheduler::adapter_was_reset(int64_t now_ns) {
  impl_->enter(now_ns);
  impl_->abandon_hardware();
  for (NodeState& node : impl_->nodes_) {
    node.last_completed = node.last_submitted;
    node.resubmit.clear();
    node.resetting = false;
    impl_->stamp(node);
  }
  impl_->run();
}

void Scheduler::end_adapter_reset() {
  impl_->adapter_resetting_ = false;
  impl_->busy_retry_ = true;
  impl_->work_ = ~uint64_t{0};
  impl_->run();
}

std::vector<ContextId> Scheduler::contexts_on(NodeOrdinal ordinal) const {
  const NodeState* node = impl_->find_node(ordinal);
  DXGKIT_CHECK(node != nullptr);
  std::vector<ContextId> contexts;
  for (const Packet* packet : node->ring) {
    if (std::ranges::find(contexts, packet->context->id) == contexts.end())
      contexts.push_back(packet->context->id);
  }
  return contexts;
}

std::vector<std::pair<PacketId, SubmissionFenceId>> Scheduler::packets_on(
    NodeOrdinal ordinal) const {
  const NodeState* node = impl_->find_node(ordinal);
  DXGKIT_CHECK(node != nullptr);
  std::vector<std::pair<PacketId, SubmissionFenceId>> packets;
  for (const Packet* packet : node->ring) packets.emplace_back(packet->id, packet->fence);
  return packets;
}

}  // namespace dxgkit::vidsch
