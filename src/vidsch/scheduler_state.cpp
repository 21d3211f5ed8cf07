#include "vidsch/scheduler_state.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "trace/trace.h"

namespace dxgkit::vidsch {
namespace {

void note(trace::EventKind kind, const Packet& packet, uint64_t c = 0, uint64_t d = 0) {
  trace::emit(kind, packet.id.value, packet.context->id.value, c, d,
              static_cast<uint16_t>(packet.context->desc.node.value));
}

bool on_hardware_side(const Packet& packet) {
  return packet.state == PacketState::kHardware || packet.state == PacketState::kDone;
}

/// Levels below the result wait for this refused packet.
size_t gate_of(const Context& context) {
  if (context.cursor->hopeless) return 0;
  const size_t own = context.level + 1;
  return context.cursor->refusals >= kBusyPatience ? std::max(own, kSystemLevel) : own;
}

}  // namespace

Scheduler::Impl::Impl(EnginePort& port_in, std::span<const NodeDesc> nodes_in,
                      const SchedulingPolicy& policy_in)
    : port_(port_in), policy_(policy_in), sync_([this](ContextId id) { on_woken(id); }) {
  DXGKIT_CHECK(policy_.valid());
  DXGKIT_CHECK(!nodes_in.empty());
  DXGKIT_CHECK(nodes_in.size() <= 64);  // SCHED-03; `work_` has a bit for each
  nodes_.resize(nodes_in.size());
  for (size_t i = 0; i < nodes_in.size(); ++i) {
    NodeState& node = nodes_[i];
    node.desc = nodes_in[i];
    DXGKIT_CHECK(node.desc.hardware_queue_depth >= 1);
    DXGKIT_CHECK(node.desc.first_fence.value != 0);
    DXGKIT_CHECK(node.desc.node.value < 64);
    node.next_fence = node.desc.first_fence;
    node.ring.reserve(node.desc.hardware_queue_depth);
    const size_t ordinal = node.desc.node.value;
    if (node_of_ordinal_.size() <= ordinal) node_of_ordinal_.resize(ordinal + 1, kNoNode);
    DXGKIT_CHECK(node_of_ordinal_[ordinal] == kNoNode);
    node_of_ordinal_[ordinal] = i;
  }
}

// --- time ---

void Scheduler::Impl::enter(int64_t now) {
  now_ns_ = now;
  timed_ = true;
  if (!any_unstamped_) return;
  any_unstamped_ = false;
  for (NodeState& node : nodes_) {
    if (std::exchange(node.progress_unstamped, false)) node.progress_ns = now;
  }
}

void Scheduler::Impl::stamp(NodeState& node) {
  if (!timed_ && clock_) now_ns_ = clock_();
  node.progress_ns = now_ns_;
  node.progress_unstamped = !timed_ && !clock_;
  any_unstamped_ = any_unstamped_ || node.progress_unstamped;
}

// --- packets ---

Packet* Scheduler::Impl::allocate() {
  if (free_.empty()) {
    pool_.push_back(std::make_unique<std::array<Packet, 64>>());
    for (Packet& packet : *pool_.back()) free_.push_back(&packet);
  }
  return free_.pop_front();
}

void Scheduler::Impl::recycle(Packet* packet) {
  if (packet->credited) inheritance_gone(*packet);
  DXGKIT_CHECK(!packet->link.listed);
  DXGKIT_CHECK(!packet->retire_link.listed);
  *packet = Packet{};
  free_.push_front(packet);
}

/// `before`: a packet on the retirement list that must not retire earlier; null: the end of the
/// list.
void Scheduler::Impl::retire_later(Packet* packet, PacketOutcome outcome, Packet* before) {
  packet->outcome = outcome;
  packet->state = PacketState::kDone;
  using List = IntrusiveList<Packet, &Packet::retire_link>;
  retiring_.insert_after(before == nullptr ? retiring_.back() : List::previous(before), packet);
}

void Scheduler::Impl::leave(Packet* packet) {
  const PacketId id = packet->id;
  const PacketOutcome outcome = packet->outcome;
  Reached reached = packet->given_back ? Reached::kGivenBack : Reached::kHardware;
  if (!packet->reached_hardware) reached = Reached::kQueue;
  Context& context = *packet->context;
  if (packet->pinned) --pinned_;
  if (packet->kind == PacketKind::kPaging) --paging_;
  if (packet->continues) --parts_;
  if (outcome == PacketOutcome::kFaulted && reached != Reached::kQueue) context.signals_held = true;
  busy_retry_ = busy_retry_ || !busy_.empty();
  switch (outcome) {
    case PacketOutcome::kCompleted:
      note(trace::EventKind::kPacketCompleted, *packet, packet->fence.value);
      break;
    case PacketOutcome::kCancelled:
      note(trace::EventKind::kPacketCancelled, *packet);
      break;
    case PacketOutcome::kFaulted:
      note(trace::EventKind::kPacketFaulted, *packet, packet->fence.value);
      break;
  }
  packet_table_.erase(id.value);
  recycle(packet);
  if (--context.packets == 0) {
    set_active(context, false);
    for (auto& call : context.when_idle) idle_calls_.push_back(std::move(call));
    context.when_idle.clear();
    if (context.failed) sync_.abandon(context.id);
  } else {
    mark_dirty(context);
  }
  port_.retired(id, outcome, reached);
}

void Scheduler::Impl::add_prepared(Context& context, int change) {
  const auto delta = static_cast<size_t>(change);  // wraps for -1, and back in the sum
  context.prepared += delta;
  if (context.selectable()) {
    NodeState& node = nodes_[context.node];
    node.prepared_at[context.level] += delta;
    node.prepared_levels.set(context.level, node.prepared_at[context.level] != 0);
  } else {
    stalled_ += delta;
  }
}

// --- contexts ---

Context* Scheduler::Impl::find_context(ContextId id) const { return context_table_.find(id.value); }

void Scheduler::Impl::mark_dirty(Context& context) {
  if (!context.dirty_link.listed && !context.destroyed) dirty_.push_back(&context);
}

void Scheduler::Impl::unlist(Context& context) {
  NodeState& node = nodes_[context.node];
  if (node.owner[context.level] == &context) node.owner[context.level] = nullptr;
  if (node.successor == &context) node.successor = nullptr;
  unlist_ready(context);
  unlist_prepare(context);
  set_active(context, false);
  if (context.busy_link.listed) {
    busy_.erase(&context);
    work_ = ~uint64_t{0};  // packets that it held back may go on, on any node
  }
}

/// Puts the context on the lists that its head and its cursor call for.
void Scheduler::Impl::refresh(Context& context) {
  while (context.cursor != nullptr) {
    const Packet& packet = *context.cursor;
    const bool passed = packet.kind == PacketKind::kSignal || packet.kind == PacketKind::kPaging ||
                        packet.state == PacketState::kReady ||
                        packet.state == PacketState::kWaiting ||
                        packet.state == PacketState::kPassed;
    if (!passed) break;
    context.cursor = PacketList::next(context.cursor);
  }
  const bool selectable = context.selectable();
  set_active(context, selectable && context.packets != 0 && context.blocked == nullptr);
  const Packet* head = context.queue.front();
  const bool ready = selectable && head != nullptr && head->state == PacketState::kReady;
  if (ready != context.ready_link.listed) {
    if (ready) {
      list_ready(context);
    } else {
      unlist_ready(context);
    }
    touch(context.node);
  }
  const Packet* cursor = context.cursor;
  const bool wants = selectable && cursor != nullptr && cursor->kind == PacketKind::kRender &&
                     cursor->state == PacketState::kQueued;
  if (wants && !context.prepare_link.listed) {  // a busy or unlisted one is off that list already
    list_prepare(context);
    touch(context.node);
  }
  const bool busy = selectable && cursor != nullptr && cursor->state == PacketState::kBusy;
  if (busy && !context.busy_link.listed) {
    Context* before = busy_.back();
    while (before != nullptr && before->cursor->order > cursor->order) {
      before = IntrusiveList<Context, &Context::busy_link>::previous(before);
    }
    busy_.insert_after(before, &context);
  }
  // A context that is no longer busy is off the list already: in unlist() or in ask().
}

/// A failed context: all packets that are not on hardware retire, in queue order.
void Scheduler::Impl::cancel_all(Context& context) {
  NodeState& node = nodes_[context.node];
  unlist(context);
  add_prepared(context, -static_cast<int>(context.prepared));
  sync_.cancel_gpu_wait(context.id);
  for (Packet* packet = context.flight.front(); packet != nullptr;) {
    Packet* next = PacketList::next(packet);
    if (!on_hardware_side(*packet)) {
      context.flight.erase(packet);
      Packet* done = next;  // completed already, and behind this one in stream order
      while (done != nullptr && done->state != PacketState::kDone) done = PacketList::next(done);
      retire_later(packet, PacketOutcome::kCancelled, done);
    }
    packet = next;
  }
  context.cursor = nullptr;
  context.blocked = nullptr;
  while (Packet* packet = context.queue.pop_front()) {
    std::erase(node.resubmit, packet);
    retire_later(packet, PacketOutcome::kCancelled);
  }
}

/// A signal takes effect. Its callbacks run after this, or inside: the packet is off the lists.
void Scheduler::Impl::fire(Packet& packet) {
  const std::shared_ptr<Broadcast> broadcast = std::move(packet.broadcast);
  if (broadcast != nullptr && --broadcast->missing != 0) return;
  if (!is_success(sync_.signal(packet.points, packet.context->id)))
    packet.outcome = PacketOutcome::kFaulted;
  if (broadcast != nullptr && broadcast->event) broadcast->event();
}

/// Handles packets that need no hardware: fires signals whose turn has come, starts waits, follows
/// the head of the queue.
void Scheduler::Impl::process(Context& context) {
  if (context.failed) {
    cancel_all(context);
    return;
  }
  Packet* first = context.flight.front();
  if (first != nullptr && !on_hardware_side(*first) && !context.signals_held) {
    // Everything before it in the context has retired as completed, because the flight list is in
    // stream order.
    context.flight.erase(first);
    first->outcome = PacketOutcome::kCompleted;
    if (first->kind == PacketKind::kSignal) fire(*first);
    mark_dirty(context);
    leave(first);
    return;
  }
  Packet* head = context.queue.front();
  if (head != nullptr && context.selectable()) {
    if (head->kind == PacketKind::kWait && head->state == PacketState::kQueued) {
      head->state = PacketState::kBlocked;
      context.blocked = head;
      if (sync_.wait_gpu(context.id, head->points)) {
        head->state = PacketState::kPassed;
        context.blocked = nullptr;
      } else if (context.draining) {
        change_selection(context, [&] { context.failed = true; });
        cancel_all(context);
        return;
      } else {
        wait_blocked(*head);
      }
    }
    if (head->kind == PacketKind::kSignal && head->at_submission) {
      if (context.cursor == head) context.cursor = PacketList::next(head);
      context.queue.erase(head);
      head->outcome = PacketOutcome::kCompleted;
      fire(*head);
      mark_dirty(context);
      leave(head);
      return;
    }
    const bool passes = head->kind == PacketKind::kSignal || head->state == PacketState::kPassed;
    if (passes) {
      head->state = PacketState::kPassed;
      if (context.cursor == head) context.cursor = PacketList::next(head);
      context.queue.erase(head);
      context.flight.push_back(head);
      mark_dirty(context);
    }
  }
  refresh(context);
}

void Scheduler::Impl::on_woken(ContextId id) {
  Context* context = find_context(id);
  if (context == nullptr) return;
  Packet* blocked = std::exchange(context->blocked, nullptr);
  if (blocked == nullptr) return;
  blocked->state = PacketState::kPassed;
  if (blocked->credited) inheritance_gone(*blocked);
  mark_dirty(*context);
  run();
}

// --- preparation ---

/// Packets whose retirement may still free memory.
size_t Scheduler::Impl::outstanding() const { return pinned_ - stalled_ + paging_; }

size_t Scheduler::Impl::gate_level() const {
  size_t gate = 0;
  for (const Context* context = busy_.front(); context != nullptr;
       context = IntrusiveList<Context, &Context::busy_link>::next(context)) {
    gate = std::max(gate, gate_of(*context));
  }
  return gate;
}

void Scheduler::Impl::ask(Context& context) {
  Packet& packet = *context.cursor;
  if (context.busy_link.listed)
    busy_.erase(&context);  // it may have to move, and must not hold back itself
  packet.state = PacketState::kPreparing;
  packet.early_ready = false;
  const EnginePort::Prepare answer = port_.prepare(packet.id);
  // Packets retire from the loop only, and this is the loop, so `packet` is still alive.
  switch (answer) {
    case EnginePort::Prepare::kReady:
    case EnginePort::Prepare::kWaiting: {
      const bool ready = answer == EnginePort::Prepare::kReady || packet.early_ready;
      packet.state = ready ? PacketState::kReady : PacketState::kWaiting;
      packet.pinned = true;
      ++pinned_;
      add_prepared(context, 1);
      if (packet.continues) busy_retry_ = busy_retry_ || !busy_.empty();
      if (ready) note(trace::EventKind::kPacketReady, packet);
      break;
    }
    case EnginePort::Prepare::kBusy:
      packet.state = PacketState::kBusy;
      // While an equal has its turn, this packet waits for the end of that turn.
      if (!earlier_turn_at_work(context)) ++packet.refusals;
      // Stays so until retry_busy: draining the hardware for it again and again would not help.
      if (!packet.hopeless && outstanding() == 0) {
        packet.hopeless = true;
        if (packet.continues) busy_retry_ = true;
      }
      break;
    case EnginePort::Prepare::kFailed:
      packet.state = PacketState::kQueued;
      if (!context.failed) {
        change_selection(context, [&] { context.faulted = true; });
        context.cursor = PacketList::next(&packet);
        context.queue.erase(&packet);
        retire_later(&packet, PacketOutcome::kCancelled);
      }
      break;
  }
  if (context.failed) {
    mark_dirty(context);
  } else {
    refresh(context);
  }
}

/// Asks refused packets again, the oldest first; one that is refused again holds back younger ones
/// as usual.
bool Scheduler::Impl::retry_one() {
  if (held_ || adapter_resetting_) return false;
  if (busy_retry_) {
    busy_retry_ = false;
    retrying_ = true;
    retry_after_ = 0;
    retry_gate_ = 0;
  }
  if (!retrying_) return false;
  for (Context* context = busy_.front(); context != nullptr;
       context = IntrusiveList<Context, &Context::busy_link>::next(context)) {
    const uint64_t order = context->cursor->order;
    if (order <= retry_after_ || context->level < retry_gate_) continue;
    if (leaves_memory_to_part(*context)) continue;
    retry_after_ = order;
    ask(*context);
    if (context->busy_link.listed) retry_gate_ = std::max(retry_gate_, gate_of(*context));
    return true;
  }
  retrying_ = false;
  work_ = ~uint64_t{0};
  return false;
}

/// True if a packet of the context may be prepared below the gate of refused packets: the context's
/// turn on their node is earlier than theirs, or its packet is older than those of another node.
bool Scheduler::Impl::passes_gate(const Context& context) const {
  for (const Context* busy = busy_.front(); busy != nullptr;
       busy = IntrusiveList<Context, &Context::busy_link>::next(busy)) {
    const size_t gate = gate_of(*busy);
    if (context.level >= gate) continue;
    const bool equal = gate == busy->level + 1 && busy->level == context.level;
    // Nodes have no turns among each other: the older packet goes first, so that no node keeps all
    // memory.
    const bool before = busy->node == context.node ? busy->turn < context.turn
                                                   : busy->cursor->order < context.cursor->order;
    if (!equal || before) return false;
  }
  return true;
}

bool Scheduler::Impl::prepare_one(NodeState& node) {
  if (held_ || adapter_resetting_) return false;
  Context* context = next_to_prepare(node);
  if (context == nullptr) return false;
  unlist_prepare(*context);
  ask(*context);  // lists it again if it wants more
  return true;
}

// --- nodes ---

NodeState* Scheduler::Impl::find_node(NodeOrdinal node) {
  if (node.value >= node_of_ordinal_.size()) return nullptr;
  const size_t index = node_of_ordinal_[node.value];
  return index == kNoNode ? nullptr : &nodes_[index];
}

SubmissionFenceId Scheduler::Impl::take_fence(NodeState& node) {
  const SubmissionFenceId fence = node.next_fence;
  ++node.next_fence.value;
  if (node.next_fence.value == 0) node.next_fence.value = 1;  // SUB-14
  return fence;
}

/// True if a ready packet would have to queue behind work of lower priority (SCHED-09). Paging
/// neither preempts nor is a reason.
bool Scheduler::Impl::outranks_hardware(const NodeState& node) const {
  const size_t top = node.ready_levels.below(kSystemLevel);
  if (top == kLevels) return false;
  return std::ranges::any_of(node.ring, [&](const Packet* packet) {
    return !packet->boosted && packet->context->level < top;
  });
}

const Packet* Scheduler::Impl::first_ready(const NodeState& node, size_t level) {
  const Context* const context = node.ready[level].front();
  return context == nullptr ? nullptr : context->queue.front();
}

bool Scheduler::Impl::start_preemption(NodeState& node, trace::PreemptionReason reason,
                                       const Packet* waiting) {
  if (halted_ || !node.desc.preemptible || node.preemption_pending) return false;
  if (node.resetting || adapter_resetting_) return false;
  node.preemption_pending = true;
  node.preemption_unsent = true;
  node.preemption = take_fence(node);
  trace::emit(trace::EventKind::kWhyPreempted, waiting == nullptr ? 0 : waiting->id.value,
              waiting == nullptr ? 0 : waiting->context->id.value, static_cast<uint64_t>(reason),
              node.preemption.value, static_cast<uint16_t>(node.desc.node.value));
  touch(static_cast<size_t>(&node - nodes_.data()));
  return true;
}

bool Scheduler::Impl::submit_one(size_t index) {
  NodeState& node = nodes_[index];
  if (halted_ || node.resetting || adapter_resetting_) return false;
  if (node.preemption_unsent) {
    node.preemption_unsent = false;
    port_.preempt(node.desc.node, node.preemption);
    return true;
  }
  if (node.preemption_pending || is_held(node)) return false;
  Packet* packet = nullptr;
  bool boosted = false;
  const bool room = node.ring.size() < node.desc.hardware_queue_depth;
  if (!node.resubmit.empty()) {
    // Old fences go before any other (PREEMPT-13), so nothing overtakes them even while the head is
    // not theirs yet.
    if (!room || node.resubmit.front()->context->queue.front() != node.resubmit.front())
      return false;
    packet = node.resubmit.front();
    node.resubmit.pop_front();
  } else {
    if (node.desc.preemptible && node.ready[kSystemLevel].empty() && outranks_hardware(node)) {
      return start_preemption(node, trace::PreemptionReason::kOutranked,
                              first_ready(node, node.ready_levels.below(kSystemLevel)));
    }
    if (!room) return false;
    Context* picked = nullptr;
    if (!pick_for_parts(node, &picked)) {
      const size_t level = pick_level(node, &boosted);
      if (level != kLevels) picked = &pick_context(node, level);
    }
    if (picked == nullptr) return false;
    node.served_at[picked->level] = ++node.served;
    node.owner[picked->level] = picked;
    packet = picked->queue.front();
  }
  Context& context = *packet->context;
  unlist_ready(context);
  if (context.cursor == packet) context.cursor = PacketList::next(packet);
  context.queue.erase(packet);
  context.flight.push_back(packet);
  if (packet->pinned) add_prepared(context, -1);
  packet->state = PacketState::kHardware;
  packet->boosted = boosted;
  const bool resubmission = std::exchange(packet->reached_hardware, true);
  packet->given_back = false;
  if (!resubmission || packet->kind != PacketKind::kPaging) packet->fence = take_fence(node);
  node.last_submitted = packet->fence;
  if (node.ring.empty()) stamp(node);
  node.ring.push_back(packet);
  mark_dirty(context);
  touch(index);
  const EnginePort::Submit answer =
      port_.submit(packet->id, node.desc.node, packet->fence, resubmission);
  if (answer == EnginePort::Submit::kStopping) halt();
  if (answer == EnginePort::Submit::kRefused && !halted_) {
    packet->refused = true;
    retire_refused(node);
  }
  return true;
}

/// Retires packets at the front of the hardware queue that the driver refused, once none is before
/// them.
void Scheduler::Impl::retire_refused(NodeState& node) {
  while (!node.ring.empty() && node.ring.front()->refused) {
    Packet* packet = node.ring.front();
    node.last_completed = packet->fence;
    node.last_context = packet->context->id;
    node.last_completed_refused = true;
    node.ring.erase(node.ring.begin());
    retire_later(packet, PacketOutcome::kFaulted);
    stamp(node);
  }
  touch(static_cast<size_t>(&node - nodes_.data()));
}

/// The first `count` packets of the hardware queue are done.
void Scheduler::Impl::complete_up_to(NodeState& node, size_t count) {
  // Reported together: how long each took is not known.
  if (count > 0) {
    const int64_t each = (now_ns_ - node.progress_ns) / static_cast<int64_t>(count);
    for (size_t i = 0; i < count; ++i) charge(node, *node.ring[i], each);
  }
  for (size_t i = 0; i < count; ++i) {
    Packet* packet = node.ring[i];
    node.last_completed = packet->fence;
    node.last_context = packet->context->id;
    retire_later(packet,
                 packet->context->failed ? PacketOutcome::kFaulted : PacketOutcome::kCompleted);
  }
  node.ring.erase(node.ring.begin(), node.ring.begin() + static_cast<std::ptrdiff_t>(count));
  if (count > 0) {
    stamp(node);
    node.last_completed_refused = false;
  }
  retire_refused(node);
}

/// Preempted: the packets still on hardware go back to the front of their contexts' queues, in
/// order.
/// The engine answered a preemption: what is on hardware now did not complete.
void Scheduler::Impl::note_given_back(NodeState& node) {
  node.given_back = {};
  if (node.ring.empty()) return;
  Packet& head = *node.ring.front();
  if (head.context->failed) return;  // it retires instead of coming again
  if (head.times_back == 0 || head.back_after != node.last_completed) {
    head.times_back = 0;
    head.back_ran_ns = 0;
    head.back_after = node.last_completed;
  }
  ++head.times_back;
  head.back_ran_ns += now_ns_ - node.progress_ns;
  node.given_back = {head.times_back, head.back_ran_ns, head.id};
}

void Scheduler::Impl::requeue(NodeState& node) {
  if (!node.ring.empty()) {
    Packet& head = *node.ring.front();
    const int64_t ran_ns = now_ns_ - node.progress_ns;
    charge(node, head, ran_ns);
    if (node.preempting_quantum) ++head.quanta_lost;
  }
  node.preempting_quantum = false;
  for (Packet* packet : node.ring) {
    note(trace::EventKind::kPacketPreempted, *packet, packet->fence.value);
    const bool dead = packet->context->failed;
    // A refused packet was not really there (SUB-29).
    packet->given_back = !packet->refused;
    if (packet->kind == PacketKind::kPaging && !dead) node.resubmit.push_back(packet);
    if (dead) retire_later(packet, PacketOutcome::kFaulted);
  }
  for (size_t i = node.ring.size(); i-- > 0;) {
    Packet* packet = node.ring[i];
    Context& context = *packet->context;
    if (context.failed) continue;
    // The signals and waits behind it go back too, so that stream order is kept.
    Packet* last = nullptr;
    do {
      last = context.flight.back();
      context.flight.erase(last);
      context.queue.push_front(last);
    } while (last != packet);
    packet->state = PacketState::kReady;
    packet->boosted = false;
    packet->refused = false;
    if (packet->pinned) add_prepared(context, 1);
    mark_dirty(context);
  }
  node.ring.clear();
}

void Scheduler::Impl::halt() {
  if (halted_) return;
  halted_ = true;
  for (NodeState& node : nodes_) {
    for (Packet* packet : node.ring) retire_later(packet, PacketOutcome::kFaulted);
    node.ring.clear();
    node.preemption_pending = false;
    node.preemption_unsent = false;
  }
  for (auto& [id, context] : contexts_) {
    if (context->failed) continue;
    change_selection(*context, [&] { context->failed = true; });
  }
}

void Scheduler::Impl::abandon_hardware() {
  if (halted_) return;
  for (NodeState& node : nodes_) {
    for (Packet* packet : node.ring) {
      const bool paging = packet->kind == PacketKind::kPaging;
      retire_later(packet, paging ? PacketOutcome::kCancelled : PacketOutcome::kFaulted);
    }
    node.ring.clear();
    node.preemption_pending = false;
    node.preemption_unsent = false;
    touch(static_cast<size_t>(&node - nodes_.data()));
  }
  for (auto& [id, context] : contexts_) {
    if (!context->desc.is_system) continue;
    cancel_all(*context);
    mark_dirty(*context);
  }
}

// --- the loop ---

/// One action at a time, each with a consistent state afterwards, because each may call out and be
/// called back.
bool Scheduler::Impl::step() {
  if (Context* context = dirty_.pop_front()) {
    process(*context);
    return true;
  }
  if (Packet* packet = retiring_.pop_front()) {
    // Taken from the flight list only now: a signal behind it must not fire before it has retired.
    if (packet->link.listed) packet->context->flight.erase(packet);
    leave(packet);
    return true;
  }
  if (next_idle_call_ < idle_calls_.size()) {
    const std::function<void()> call = std::move(idle_calls_[next_idle_call_++]);
    if (next_idle_call_ == idle_calls_.size()) {
      idle_calls_.clear();
      next_idle_call_ = 0;
    }
    call();
    return true;
  }
  if (halted_) return false;
  if (retry_one()) return true;
  work_ &= nodes_.size() == 64 ? ~uint64_t{0} : (uint64_t{1} << nodes_.size()) - 1;
  while (work_ != 0) {
    const auto index = static_cast<size_t>(std::countr_zero(work_));
    if (prepare_one(nodes_[index])) return true;
    if (submit_one(index)) return true;
    work_ &= ~(uint64_t{1} << index);
  }
  return false;
}

void Scheduler::Impl::run() {
  if (running_) return;  // the loop further up the stack goes on
  running_ = true;
  while (step()) {
  }
  running_ = false;
  timed_ = false;
  graveyard_.clear();
}

// --- validation ---

bool Scheduler::Impl::validate_context(const Context& context) const {
  size_t packets = 0;
  size_t prepared = 0;
  uint64_t order = 0;
  for (const Packet* packet = context.flight.front(); packet != nullptr;
       packet = PacketList::next(packet)) {
    if (packet->context != &context || packet->order < order) return false;
    order = packet->order;
    ++packets;
  }
  bool cursor_seen = context.cursor == nullptr;
  for (const Packet* packet = context.queue.front(); packet != nullptr;
       packet = PacketList::next(packet)) {
    if (packet->context != &context || packet->order < order) return false;
    order = packet->order;
    if (packet->state == PacketState::kHardware || packet->state == PacketState::kDone)
      return false;
    if (packet->pinned) ++prepared;
    cursor_seen = cursor_seen || packet == context.cursor;
    ++packets;
  }
  for (const Packet* packet = retiring_.front(); packet != nullptr;
       packet = IntrusiveList<Packet, &Packet::retire_link>::next(packet)) {
    if (packet->context == &context && !packet->link.listed) ++packets;
  }
  // Inside the loop one packet may be retiring: on no list, but still counted.
  const bool counted = packets == context.packets || (running_ && packets + 1 == context.packets);
  return cursor_seen && counted && prepared == context.prepared;
}

bool Scheduler::Impl::validate() const {
  for (const NodeState& node : nodes_) {
    if (node.ring.size() > node.desc.hardware_queue_depth) return false;
    for (size_t i = 0; i < node.ring.size(); ++i) {
      const Packet& packet = *node.ring[i];
      if (packet.state != PacketState::kHardware || packet.fence.value == 0) return false;
      if (i > 0 && !fence_newer(packet.fence, node.ring[i - 1]->fence)) return false;
      if (!fence_newer(node.next_fence, packet.fence)) return false;
    }
    std::array<size_t, kLevels> prepared_at{};
    for (const auto& [id, context] : contexts_) {
      if (&nodes_[context->node] == &node && context->selectable()) {
        prepared_at[context->level] += context->prepared;
      }
    }
    if (prepared_at != node.prepared_at) return false;
  }
  size_t packets = 0;
  size_t parts = 0;
  for (const auto& [id, context] : contexts_) {
    if (!validate_context(*context)) return false;
    packets += context->packets;
    for (const PacketList* list : {&context->flight, &context->queue}) {
      for (const Packet* packet = list->front(); packet != nullptr;
           packet = PacketList::next(packet)) {
        parts += packet->continues ? 1 : 0;
      }
    }
  }
  for (const Packet* packet = retiring_.front(); packet != nullptr;
       packet = IntrusiveList<Packet, &Packet::retire_link>::next(packet)) {
    parts += packet->continues && !packet->link.listed ? 1 : 0;
  }
  if (parts != parts_) return false;
  if (packets != packet_table_.size() || stalled_ > pinned_) return false;
  if (!validate_sharing()) return false;
  if (!running_ && (!dirty_.empty() || !retiring_.empty())) return false;
  return sync_.validate();
}

}  // namespace dxgkit::vidsch
