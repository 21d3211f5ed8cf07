// The scheduler's state and its one loop. Private to the module.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "trace/causes.h"
#include "vidsch/containers.h"
#include "vidsch/inheritance.h"
#include "vidsch/policy.h"
#include "vidsch/scheduler.h"

namespace dxgkit::vidsch {

struct ContextState;

//   queue()            prepare            selected             fence reported
//  ---------> kQueued ---------> kReady ------------> kHardware ------------> kDone --> gone
//  (retired)
//                |  ^ kWaiting -^   ^                    |
//                |  kBusy (asked again)                  | preempted
//                |                  '--------------------'
//   kWait:   kQueued -> kBlocked -> kPassed --> gone     kSignal:   kQueued -> kPassed --> gone
enum class PacketState : uint8_t {
  kQueued,
  kPreparing,  // inside EnginePort::prepare
  kBusy,
  kWaiting,
  kReady,
  kHardware,
  kDone,     // off the hardware queue, on the retirement list
  kBlocked,  // kWait at the head of its context, registered with the sync objects
  kPassed,   // kWait satisfied; kSignal in flight
};

struct PacketRecord {
  PacketId id;
  ContextState* context = nullptr;
  PacketKind kind = PacketKind::kRender;
  PacketState state = PacketState::kQueued;
  PacketOutcome outcome = PacketOutcome::kCompleted;
  SubmissionFenceId fence;
  // Order of queueing, adapter-wide, from 1; parts of a split packet share it.
  uint64_t order = 0;
  uint32_t refusals = 0;  // kBusy answers
  bool hopeless = false;  // refused although no other packet could free memory: holds back nothing
  bool early_ready = false;
  bool continues = false;  // a part of a DMA buffer, but not the first
  bool pinned = false;
  bool reached_hardware = false;
  bool given_back = false;   // returned since it was on hardware last
  bool refused = false;      // by the driver: counted as on hardware without being there (SUB-29)
  bool boosted = false;      // selected out of turn (SCHED-15): no reason to preempt
  bool credited = false;     // kSignal, blocked kWait: known to `Inheritance`
  uint32_t quanta_lost = 0;  // how often it was preempted for a used-up quantum
  // As in GivenBack. Valid while the last completed id of its node is `back_after`.
  uint32_t times_back = 0;
  int64_t back_ran_ns = 0;
  SubmissionFenceId back_after;
  std::vector<SyncPoint> points;
  bool at_submission = false;
  std::shared_ptr<Broadcast> broadcast;
  ListLink<PacketRecord> link;         // the context's queue or flight list
  ListLink<PacketRecord> retire_link;  // the retirement list
};
/// The contexts of one process, for in-process priority.
struct ProcessState {
  size_t contexts = 0;
  std::vector<ContextState*> ahead = {};
  uint32_t in_a_row = 0;  // turns that a context of `ahead` took from another context
};

using Packet = PacketRecord;
using PacketList = IntrusiveList<Packet, &Packet::link>;

struct ContextState {
  ContextId id;
  ContextDesc desc;
  size_t node = 0;
  size_t level = 0;
  PacketList queue;   // not on hardware
  PacketList flight;  // on hardware, with the signals and passed waits between and behind; ends
                      // before `queue` begins
  Packet* cursor = nullptr;  // first packet of `queue` that preparation has not passed
  Packet* blocked =
      nullptr;         // the wait registered with the sync objects; preempted packets may be ahead
  size_t packets = 0;  // packets that have not retired
  uint64_t turn = 0;   // place among equals: the lowest goes first; 0: none yet
  int64_t credit_ns = 0;  // the rest of its quantum; negative: a debt
  uint64_t own_turn = 0;  // a turn that it need not give to a context ahead in its process
  bool in_turn = false;   // has been given the quantum of its turn
  bool active = false;    // counted in NodeState::active_at
  size_t raised = 0;      // inherited level; 0: none
  ProcessState* process = nullptr;
  size_t prepared = 0;  // pinned render packets in `queue`
  bool failed = false;
  bool faulted = false;       // a packet faulted; fail_context must follow
  bool signals_held = false;  // the faulted packet has retired: signals behind it never fire
  bool suspended = false;
  bool resuspend = false;  // was suspended, but may run until the scheduler is no longer held
  bool destroyed = false;
  bool draining = false;  // an unsatisfied wait fails it
  std::vector<std::function<void()>> when_idle;
  ListLink<ContextState> ready_link;  // node's ready list of `level`: head is kReady
  ListLink<ContextState>
      prepare_link;  // node's prepare list of `level`: cursor is a kQueued render packet
  ListLink<ContextState> busy_link;  // cursor is kBusy
  ListLink<ContextState> dirty_link;

  bool selectable() const { return !failed && !faulted && !suspended; }
};
using Context = ContextState;

inline constexpr uint32_t kBusyPatience = 8;

struct NodeState {
  NodeDesc desc;
  std::vector<Packet*> ring;  // the hardware queue, oldest first; at most desc.hardware_queue_depth
  std::deque<Packet*> resubmit;  // preempted paging packets, by fence
  std::array<IntrusiveList<Context, &Context::ready_link>, kLevels> ready;
  std::array<IntrusiveList<Context, &Context::prepare_link>, kLevels> prepare;
  // Levels at which the next three arrays are not empty.
  LevelSet ready_levels, prepare_levels, prepared_levels;
  std::array<size_t, kLevels> prepared_at{};  // Context::prepared of selectable contexts, by level
  std::array<size_t, kLevels> active_at{};    // contexts with something to run, by level
  std::array<Context*, kLevels> owner{};      // the context whose turn it is
  // The last context prepared beyond the look-ahead, because its turn was next.
  Context* successor = nullptr;
  std::array<uint64_t, kLevels> served_at{};
  uint64_t served = 0;
  uint64_t turns = 0;  // number of turns given out
  int64_t owed = 0;    // percent-nanoseconds that the levels below are owed (SCHED-15)
  SubmissionFenceId next_fence{1};
  SubmissionFenceId last_submitted;
  SubmissionFenceId last_completed;
  bool last_completed_refused = false;
  SubmissionFenceId preemption;
  ContextId last_context;  // the context whose packet completed last
  bool held = false;
  bool resetting = false;
  bool preemption_pending = false;
  bool preemption_unsent = false;  // the loop still has to tell the port
  bool preempting_quantum = false;
  GivenBack given_back;
  int64_t progress_ns = 0;
  bool progress_unstamped = false;
};

struct Scheduler::Impl {
  Impl(EnginePort& port_in, std::span<const NodeDesc> nodes_in, const SchedulingPolicy& policy_in);

  // Time.
  void enter(int64_t now);
  void stamp(NodeState& node);

  // Packets.
  Packet* allocate();
  void recycle(Packet* packet);
  void retire_later(Packet* packet, PacketOutcome outcome, Packet* before = nullptr);
  void leave(Packet* packet);
  void add_prepared(Context& context, int change);

  // Contexts.
  Context* find_context(ContextId id) const;
  void mark_dirty(Context& context);
  void refresh(Context& context);
  void unlist(Context& context);
  void cancel_all(Context& context);
  void process(Context& context);
  void fire(Packet& packet);
  template <typename Change>
  void change_selection(Context& context, Change&& change);

  // Nodes.
  NodeState* find_node(NodeOrdinal node);
  void touch(size_t node) { work_ |= uint64_t{1} << node; }
  SubmissionFenceId take_fence(NodeState& node);

  // Sharing: policy.cpp.
  int64_t slice(const NodeState& node, size_t level) const;
  void set_active(Context& context, bool active);
  void list_ready(Context& context);
  void unlist_ready(Context& context);
  void list_prepare(Context& context);
  void unlist_prepare(Context& context);
  bool begin_turn(Context& context);
  void to_the_back(Context& context);
  void relist(Context& context);
  void charge(NodeState& node, const Packet& packet, int64_t time_ns);
  size_t share_due(const NodeState& node, const LevelSet& wanting) const;
  size_t pick_level(NodeState& node, bool* boosted);
  Context& pick_context(NodeState& node, size_t level);
  Context* ahead_of(Context& context, bool ready);
  Context& user_of_turn(Context& context, bool ready);
  bool earlier_turn_at_work(const Context& context) const;
  bool passes_gate(const Context& context) const;
  std::optional<int64_t> quantum_end(const NodeState& node) const;
  void check_quanta();
  Context* next_to_prepare(NodeState& node);

  void join_process(Context& context);
  void leave_process(Context& context);

  // Parts of a DMA buffer: parts.cpp.
  bool minds_parts(const NodeState& node) const;
  template <typename Is>
  Context* other_on_node(const NodeState& node, const Context* self, Is&& is) const;
  bool leaves_memory_to_part(const Context& context) const;
  Context* owner_of_part_to_come(const NodeState& node) const;
  bool is_between_parts(const Context& context) const;
  bool lets_others_go(const Context& context) const;
  bool pick_for_parts(NodeState& node, Context** next);

  // Inheritance.
  size_t own_level(const Context& context) const;
  void set_level(Context& context);
  void raise(Context& context, size_t level);
  void raise_signallers(Context& waiter);
  void signal_queued(Packet& packet);
  void wait_blocked(Packet& packet);
  void inheritance_gone(Packet& packet);
  void inherit_anew(Context& context);
  bool validate_sharing() const;

  bool is_held(const NodeState& node) const {
    return node.held || (engines_held_ && !node.desc.of_queue);
  }
  bool outranks_hardware(const NodeState& node) const;
  /// The packet that goes next on that level, or null.
  static const Packet* first_ready(const NodeState& node, size_t level);
  /// `waiting`: the packet on whose behalf, for the trace, or null.
  bool start_preemption(NodeState& node, trace::PreemptionReason reason, const Packet* waiting);
  bool prepare_one(NodeState& node);
  bool submit_one(size_t index);
  void retire_refused(NodeState& node);
  void ask(Context& context);
  bool retry_one();
  size_t gate_level() const;
  size_t outstanding() const;
  void complete_up_to(NodeState& node, size_t count);
  void requeue(NodeState& node);
  void note_given_back(NodeState& node);
  void halt();
  void abandon_hardware();

  // The loop.
  bool step();
  void run();
  void on_woken(ContextId id);
  bool validate() const;
  bool validate_context(const Context& context) const;

  EnginePort& port_;
  const SchedulingPolicy policy_;
  SyncObjects sync_;
  Inheritance inheritance_;
  std::map<uint64_t, std::unique_ptr<ProcessState>> processes_;
  std::vector<NodeState> nodes_;
  std::vector<size_t> node_of_ordinal_;
  std::map<ContextId, std::unique_ptr<Context>> contexts_;
  IdTable<Context> context_table_;
  std::vector<std::unique_ptr<Context>>
      graveyard_;  // destroyed contexts that the loop may still read
  std::vector<std::unique_ptr<std::array<Packet, 64>>> pool_;
  PacketList free_;
  IdTable<Packet> packet_table_;
  IntrusiveList<Packet, &Packet::retire_link> retiring_;
  IntrusiveList<Context, &Context::dirty_link> dirty_;
  IntrusiveList<Context, &Context::busy_link> busy_;  // by the order of their cursor packets
  std::vector<std::function<void()>> idle_calls_;
  size_t next_idle_call_ = 0;
  uint64_t work_ = 0;  // nodes to look at, one bit each
  uint64_t next_order_ = 1;
  size_t pinned_ = 0;   // packets that hold memory
  size_t stalled_ = 0;  // those in queues of contexts that are not selected
  size_t paging_ = 0;   // paging packets that have not retired
  size_t parts_ = 0;    // packets that continue a DMA buffer
  bool busy_retry_ = false;
  bool retrying_ = false;
  uint64_t retry_after_ = 0;
  size_t retry_gate_ = 0;  // levels below this one wait for the refused older packet
  bool running_ = false;
  bool halted_ = false;
  bool held_ = false;
  bool engines_held_ = false;
  bool adapter_resetting_ = false;
  int64_t now_ns_ = 0;
  bool timed_ = false;
  bool any_unstamped_ = false;
  std::function<int64_t()> clock_;
};

inline constexpr size_t kNoNode = static_cast<size_t>(-1);

/// Changes level or selectability, and keeps all sums and lists right.
template <typename Change>
void Scheduler::Impl::change_selection(Context& context, Change&& change) {
  const int prepared = static_cast<int>(context.prepared);
  unlist(context);
  add_prepared(context, -prepared);
  change();
  add_prepared(context, prepared);
  busy_retry_ = busy_retry_ || !busy_.empty();
  mark_dirty(context);
  touch(context.node);
}

}  // namespace dxgkit::vidsch
