// Turns, shares and quanta: how contexts divide a node.
#include "vidsch/policy.h"

#include <algorithm>

#include "base/check.h"
#include "vidsch/scheduler_state.h"

namespace dxgkit::vidsch {
namespace {

/// The most contexts passed over in one search because of their debts. It keeps a search short.
constexpr size_t kMostPassed = 8;

template <typename List>
void insert_by_turn(List& list, Context* context) {
  if (list.empty() || context->turn < list.front()->turn) {
    list.push_front(context);
    return;
  }
  // A turn just given out is the highest, so this ends at once, except for a context that comes
  // back in the middle of its turn.
  Context* before = list.back();
  while (before->turn > context->turn) before = List::previous(before);
  list.insert_after(before, context);
}

}  // namespace

/// The length of a turn with so many competitors.
int64_t Scheduler::Impl::slice(const NodeState& node, size_t level) const {
  const auto sharers = static_cast<int64_t>(std::max<size_t>(1, node.active_at[level]));
  const int64_t share = std::max(policy_.round_ns / sharers, policy_.grace_ns);
  return std::min(share, policy_.quantum_ns);
}

void Scheduler::Impl::set_active(Context& context, bool active) {
  if (context.active == active) return;
  context.active = active;
  NodeState& node = nodes_[context.node];
  size_t& count = node.active_at[context.level];
  active ? ++count : --count;
  if (!active || context.desc.is_system) return;
  if (context.turn == 0) {
    context.turn = ++node.turns;
    return;
  }
  const int64_t quantum = slice(node, context.level);
  // It keeps its place, so a context that pauses is served soon. It saves up at most one quantum of
  // the time it did not use.
  const uint64_t rounds =
      std::min<uint64_t>((node.turns - context.turn) / count, policy_.debt_quanta + 1U);
  context.credit_ns = std::min(quantum, context.credit_ns + static_cast<int64_t>(rounds) * quantum);
}

void Scheduler::Impl::list_ready(Context& context) {
  NodeState& node = nodes_[context.node];
  insert_by_turn(node.ready[context.level], &context);
  node.ready_levels.set(context.level, true);
}

void Scheduler::Impl::unlist_ready(Context& context) {
  if (!context.ready_link.listed) return;
  NodeState& node = nodes_[context.node];
  node.ready[context.level].erase(&context);
  node.ready_levels.set(context.level, !node.ready[context.level].empty());
}

void Scheduler::Impl::list_prepare(Context& context) {
  NodeState& node = nodes_[context.node];
  insert_by_turn(node.prepare[context.level], &context);
  node.prepare_levels.set(context.level, true);
}

void Scheduler::Impl::unlist_prepare(Context& context) {
  if (!context.prepare_link.listed) return;
  NodeState& node = nodes_[context.node];
  node.prepare[context.level].erase(&context);
  node.prepare_levels.set(context.level, !node.prepare[context.level].empty());
}

/// At the front of its equals: it gets its quantum, less its debt. False: it owes more than that,
/// and goes to the back.
bool Scheduler::Impl::begin_turn(Context& context) {
  const int64_t quantum = slice(nodes_[context.node], context.level);
  if (!context.in_turn) context.credit_ns += quantum;
  // More may share by now than when it began.
  context.credit_ns = std::min(context.credit_ns, quantum);
  context.in_turn = context.credit_ns > 0;
  if (!context.in_turn) to_the_back(context);
  return context.in_turn;
}

void Scheduler::Impl::to_the_back(Context& context) {
  context.in_turn = false;
  context.turn = ++nodes_[context.node].turns;
  relist(context);
}

void Scheduler::Impl::relist(Context& context) {
  if (context.ready_link.listed) {
    unlist_ready(context);
    list_ready(context);
  }
  if (context.prepare_link.listed) {
    unlist_prepare(context);
    list_prepare(context);
  }
}

/// The packet had the hardware for so long.
void Scheduler::Impl::charge(NodeState& node, const Packet& packet, int64_t time_ns) {
  Context& context = *packet.context;
  if (context.desc.is_system || packet.refused) return;
  const int64_t time = std::clamp(time_ns, policy_.least_charge_ns, int64_t{1} << 50);
  const int64_t percent = policy_.starvation_percent;
  const size_t below = (node.ready_levels | node.prepare_levels).below(context.level);
  const bool wanted = below != kLevels && below >= kFirstServedLevel;
  if (packet.boosted) {
    node.owed -= time * (100 - percent);
  } else {
    node.owed = wanted ? std::min(node.owed + time * percent, policy_.quantum_ns * 100) : 0;
  }
  // Work that was running when the turn ended is a debt, which grows with its time.
  const int64_t debt_most = policy_.debt_quanta * policy_.quantum_ns;
  context.credit_ns = std::max(context.credit_ns - time, -debt_most);
  if (context.credit_ns > 0) return;
  const bool alone = node.active_at[context.level] <= (context.active ? 1U : 0U);
  if (alone) {
    context.credit_ns = 0;
    context.in_turn = false;  // begins the next one at once
  } else if (context.in_turn) {
    to_the_back(context);
  }
}

/// The level below the highest of `wanting` that has waited longest, if its share is due.
size_t Scheduler::Impl::share_due(const NodeState& node, const LevelSet& wanting) const {
  if (node.owed <= policy_.least_charge_ns * (100 - int64_t{policy_.starvation_percent})) {
    return kLevels;
  }
  // The time of a packet is known when the packet is done.
  if (std::ranges::any_of(node.ring, &Packet::boosted)) return kLevels;
  size_t oldest = kLevels;
  const size_t top = wanting.below(kSystemLevel);
  if (top == kLevels) return kLevels;
  for (size_t level = wanting.below(top); level != kLevels && level >= kFirstServedLevel;
       level = wanting.below(level)) {
    if (oldest == kLevels || node.served_at[level] < node.served_at[oldest]) oldest = level;
  }
  return oldest;
}

size_t Scheduler::Impl::pick_level(NodeState& node, bool* boosted) {
  *boosted = false;
  const size_t top = node.ready_levels.highest();
  if (top == kLevels || top == kSystemLevel) return top;
  const size_t due = share_due(node, node.ready_levels);
  if (due == kLevels) return top;
  *boosted = true;
  return due;
}

/// A listed context of the same process, node and level that goes before this one (SCHED-13); null:
/// none. The level must be the same: a lower one would at once be preempted for this one.
Context* Scheduler::Impl::ahead_of(Context& context, bool ready) {
  if (context.process == nullptr || context.desc.ahead_in_process) return nullptr;
  for (Context* other : context.process->ahead) {
    if (other->node != context.node || other->level != context.level) continue;
    if (ready ? other->ready_link.listed : other->prepare_link.listed) return other;
  }
  return nullptr;
}

/// The context that uses this turn: it, or a context of its process that goes ahead of it. That
/// context takes over the turn and gives up its own, so the process has no more turns than before.
Context& Scheduler::Impl::user_of_turn(Context& context, bool ready) {
  Context* ahead = ahead_of(context, ready);
  if (ahead == nullptr) return context;
  uint32_t& in_a_row = context.process->in_a_row;
  if (++in_a_row > policy_.ahead_in_a_row) {
    // Its own turn. No further check until that ends.
    if (in_a_row == policy_.ahead_in_a_row + 1) context.own_turn = context.turn;
    if (context.own_turn == context.turn) return context;
    in_a_row = 1;
  }
  std::swap(context.turn, ahead->turn);
  std::swap(context.credit_ns, ahead->credit_ns);
  std::swap(context.in_turn, ahead->in_turn);
  relist(context);
  relist(*ahead);
  return *ahead;
}

Context& Scheduler::Impl::pick_context(NodeState& node, size_t level) {
  auto& ready = node.ready[level];
  if (level == kSystemLevel) return *ready.front();
  for (size_t left = std::min(ready.size(), kMostPassed); left > 0; --left) {
    // Out of turn, because no context whose turn it is can run: it gets no quantum for that.
    const Context* earlier = node.prepare[level].front();
    if (earlier != nullptr && earlier->turn < ready.front()->turn) return *ready.front();
    if (begin_turn(*ready.front())) break;
  }
  return user_of_turn(*ready.front(), true);
}

bool Scheduler::Impl::earlier_turn_at_work(const Context& context) const {
  const Context* owner = nodes_[context.node].owner[context.level];
  return owner != nullptr && owner != &context && owner->active && owner->turn < context.turn;
}

/// The context whose packet is prepared next; null: none for now.
Context* Scheduler::Impl::next_to_prepare(NodeState& node) {
  if (Context* owner = owner_of_part_to_come(node); owner != nullptr)
    return owner->prepare_link.listed ? owner : nullptr;  // or refused
  const size_t gate = gate_level();
  // A share that is due has no effect if higher levels keep all look-ahead.
  const size_t due = share_due(node, node.ready_levels | node.prepare_levels);
  if (due != kLevels && due >= gate && node.prepared_at[due] == 0 && !node.prepare[due].empty()) {
    return node.prepare[due].front();
  }
  const size_t limit = node.desc.hardware_queue_depth + policy_.look_ahead;
  const LevelSet levels = node.prepare_levels | node.prepared_levels;
  size_t prepared = 0;
  for (size_t level = levels.highest(); level != kLevels && level + 1 >= gate;
       level = levels.below(level)) {
    prepared += node.prepared_at[level];
    auto& list = node.prepare[level];
    for (size_t left = std::min(list.size(), kMostPassed); left > 1; --left) {
      if (begin_turn(*list.front())) break;
    }
    Context* first = list.front();
    if (first != nullptr) first = &user_of_turn(*first, false);
    if (prepared >= limit) {
      // Contexts before it have used their turns but hold their places in the look-ahead.
      const Context* ready = node.ready[level].front();
      const bool next =
          first != nullptr && first->prepared == 0 && ready != nullptr && first->turn < ready->turn;
      // One at a time: otherwise all contexts would get memory.
      const Context* before = node.successor;
      const bool under_way = before != nullptr && before->prepared != 0 &&
                             before->queue.front()->state != PacketState::kReady;
      if (!next || under_way) return nullptr;
      if (!passes_gate(*first)) return nullptr;
      node.successor = first;
      return first;
    }
    if (first == nullptr) continue;
    return passes_gate(*first) ? first : nullptr;
  }
  return nullptr;
}

/// The time when the packet at the head of the hardware has used its quantum and the grace, if an
/// equal waits for that.
std::optional<int64_t> Scheduler::Impl::quantum_end(const NodeState& node) const {
  if (!node.desc.preemptible || node.preemption_pending || is_held(node)) return {};
  if (node.ring.empty() || node.progress_unstamped) return {};
  const Packet& head = *node.ring.front();
  const Context& context = *head.context;
  if (context.desc.is_system || context.failed) return {};
  const size_t level = context.level;
  const auto other_than_own = [&](const auto& list) {
    return !list.empty() && (list.front() != &context || list.size() > 1);
  };
  bool wanted = other_than_own(node.ready[level]) || other_than_own(node.prepare[level]) ||
                std::ranges::any_of(node.ring, [&](const Packet* packet) {
                  return packet->context != &context && packet->context->level == level;
                });
  // Served out of turn, at the expense of higher levels.
  const size_t top = node.ready_levels.below(kSystemLevel);
  if (head.boosted) wanted = wanted || (top != kLevels && top > level);
  if (!wanted) return {};
  const int64_t quantum = slice(node, level);
  int64_t allowed = head.boosted ? quantum : std::max(context.credit_ns, int64_t{0});
  if (head.quanta_lost > policy_.patient_preemptions) {
    const uint32_t more = std::min(head.quanta_lost - policy_.patient_preemptions, 30U);
    allowed = std::max(allowed, quantum << more);
  }
  return node.progress_ns + allowed + policy_.grace_ns;
}

void Scheduler::Impl::check_quanta() {
  for (NodeState& node : nodes_) {
    const std::optional<int64_t> end = quantum_end(node);
    if (!end || *end > now_ns_) continue;
    node.preempting_quantum =
        start_preemption(node, trace::PreemptionReason::kQuantum,
                         first_ready(node, node.ring.front()->context->level));
  }
}

// --- processes ---

void Scheduler::Impl::join_process(Context& context) {
  if (context.desc.process == 0) return;
  std::unique_ptr<ProcessState>& process = processes_[context.desc.process];
  if (process == nullptr) process = std::make_unique<ProcessState>();
  ++process->contexts;
  if (context.desc.ahead_in_process) process->ahead.push_back(&context);
  context.process = process.get();
}

void Scheduler::Impl::leave_process(Context& context) {
  if (context.process == nullptr) return;
  std::erase(context.process->ahead, &context);
  if (--context.process->contexts == 0) processes_.erase(context.desc.process);
  context.process = nullptr;
}

// --- validation ---

bool Scheduler::Impl::validate_sharing() const {
  for (const NodeState& node : nodes_) {
    for (size_t level = 0; level < kLevels; ++level) {
      const bool used = !node.ready[level].empty() || !node.prepare[level].empty() ||
                        node.prepared_at[level] != 0 || node.owner[level] != nullptr;
      const bool marked = node.ready_levels.contains(level) ||
                          node.prepare_levels.contains(level) ||
                          node.prepared_levels.contains(level);
      if (!used && !marked) continue;
      if (node.ready_levels.contains(level) == node.ready[level].empty()) return false;
      if (node.prepare_levels.contains(level) == node.prepare[level].empty()) return false;
      if (node.prepared_levels.contains(level) != (node.prepared_at[level] != 0)) return false;
      uint64_t turn = 0;
      for (const Context* context = node.ready[level].front(); context != nullptr;
           context = IntrusiveList<Context, &Context::ready_link>::next(context)) {
        if (context->turn < turn || context->level != level) return false;
        turn = context->turn;
      }
      if (node.owner[level] != nullptr && find_context(node.owner[level]->id) != node.owner[level])
        return false;
    }
    std::array<size_t, kLevels> active_at{};
    for (const auto& [id, context] : contexts_) {
      if (&nodes_[context->node] == &node && context->active) ++active_at[context->level];
    }
    if (active_at != node.active_at) return false;
  }
  for (const auto& [id, context] : contexts_) {
    if (context->level != std::max(own_level(*context), context->raised)) return false;
    if (context->active && context->packets == 0) return false;
  }
  return true;
}

}  // namespace dxgkit::vidsch
