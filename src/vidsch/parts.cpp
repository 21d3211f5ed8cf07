// Parts of one DMA buffer (REND-25): on a node that cannot be preempted no other context runs
// between them.
//
//   prepared: first part        no other packet of the node is prepared; prepared ones go first
//   submitted: first part       only the next part goes, and paging
//   prepared: last part         other packets are prepared again
//   submitted: last part        other packets go
//
// So when the next part asks for memory, no packet that waits behind it on its node holds any. No
// state is kept: the rule is read off the queues for as long as any packet is a part. A context
// that cannot go on holds back nothing: one that is suspended or failed, or whose part was refused
// although no other packet could free memory. Other packets of the node may hold memory all the
// same: their context was suspended when the first part was prepared, or an engine's reset returned
// them. They go before a part that has no memory yet.
#include <algorithm>

#include "vidsch/scheduler_state.h"

namespace dxgkit::vidsch {
namespace {

/// The next part of a DMA buffer whose first part has its memory, if this part has none and may get
/// some.
const Packet* part_to_come(const Context& context) {
  for (const Packet* packet = context.queue.front(); packet != nullptr;
       packet = PacketList::next(packet)) {
    if (packet->kind != PacketKind::kRender || packet->pinned) continue;
    return packet->continues && !packet->hopeless ? packet : nullptr;
  }
  return nullptr;
}

}  // namespace

bool Scheduler::Impl::minds_parts(const NodeState& node) const {
  return parts_ != 0 && !node.desc.preemptible;
}

template <typename Is>
Context* Scheduler::Impl::other_on_node(const NodeState& node, const Context* self, Is&& is) const {
  for (const auto& [id, context] : contexts_) {
    if (context.get() == self || !context->selectable() || context->desc.is_system) continue;
    if (&nodes_[context->node] == &node && is(*context)) return context.get();
  }
  return nullptr;
}

/// It gets no memory now: another context of its node is between parts and still needs some.
bool Scheduler::Impl::leaves_memory_to_part(const Context& context) const {
  const NodeState& node = nodes_[context.node];
  if (!minds_parts(node) || part_to_come(context) != nullptr) return false;
  return other_on_node(node, &context, part_to_come) != nullptr;
}

/// The only context whose packet may be prepared on the node; null: any context.
Context* Scheduler::Impl::owner_of_part_to_come(const NodeState& node) const {
  return minds_parts(node) ? other_on_node(node, nullptr, part_to_come) : nullptr;
}

/// True if it is between two parts, and no other packet of its node must go first.
bool Scheduler::Impl::is_between_parts(const Context& context) const {
  const Packet* head = context.queue.front();
  if (head == nullptr || !head->continues) return false;
  if (head->pinned) return true;
  return other_on_node(nodes_[context.node], &context,
                       [](const Context& other) { return other.prepared != 0; }) == nullptr;
}

/// Its first part, and packets before that, wait until all packets of its node that hold memory are
/// on hardware.
bool Scheduler::Impl::lets_others_go(const Context& context) const {
  if (part_to_come(context) == nullptr) return false;
  return other_on_node(nodes_[context.node], &context, [](const Context& other) {
           return other.prepared != 0 && part_to_come(other) == nullptr;
         }) != nullptr;
}

/// True if parts decide what goes next on the node. The packet is then in *next; null: none.
bool Scheduler::Impl::pick_for_parts(NodeState& node, Context** next) {
  if (!minds_parts(node) || !node.ready[kSystemLevel].empty()) return false;
  const auto between = [this](const Context& context) { return is_between_parts(context); };
  *next = other_on_node(node, nullptr, between);
  if (*next != nullptr) {
    if (!(*next)->ready_link.listed) *next = nullptr;
    return true;
  }
  const auto waits = [this](const Context& context) { return lets_others_go(context); };
  if (other_on_node(node, nullptr, waits) == nullptr) return false;
  for (size_t level = node.ready_levels.highest(); level != kLevels;
       level = node.ready_levels.below(level)) {
    for (Context* context = node.ready[level].front(); context != nullptr;
         context = IntrusiveList<Context, &Context::ready_link>::next(context)) {
      if (waits(*context)) continue;
      *next = context;
      return true;
    }
  }
  return true;
}

}  // namespace dxgkit::vidsch
