// The GPU scheduler: software queues per context, a bounded hardware queue per node, fences, sync
// objects.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "vidsch/policy.h"
#include "vidsch/sync_objects.h"

namespace dxgkit::vidsch {

enum class PacketKind {
  kRender,  // needs residency, then patch + submit
  kPaging,  // built by the memory manager; goes before rendering on its node; keeps its fence when
            // resubmitted (SUB-26)
  kWait,  // sync objects: holds the context's later packets until satisfied; never reaches hardware
  kSignal,  // sync objects: takes effect when every earlier packet of the context is done; never
            // reaches hardware
};

enum class PacketOutcome {
  kCompleted,
  kCancelled,  // not on hardware when the device went into error, the context was destroyed or the
               // adapter stopped (CANCEL-03); paging that a reset took off the hardware
  kFaulted,    // was on hardware when the device went into error
};

/// How far a packet had come when it retired.
enum class Reached {
  kQueue,  // never submitted
  // Was on hardware until it retired: it ran, a reset took it away, or the driver refused it.
  kHardware,
  kGivenBack,  // was on hardware, and came back unfinished by preemption or an engine's reset
};

/// The interface that the scheduler needs. dxgk implements it, tests fake it. All calls on the
/// lane.
class EnginePort {
 public:
  virtual ~EnginePort() = default;

  enum class Prepare {
    kReady,    // everything resident and pinned: may be submitted
    kWaiting,  // paging under way: Scheduler::packet_ready will be called
    kBusy,     // no room until other packets retire: asked again after the next retirement
    kFailed,   // cannot ever be brought in: the port puts the device in error; the packet is
               // cancelled
  };
  /// Called once per render packet when it comes near the head, in queue order per context. Called
  /// again after kBusy.
  virtual Prepare prepare(PacketId packet) = 0;
  enum class Submit {
    kTaken,
    /// The driver says that the packet is malformed: it never runs. The port puts the device in
    /// error. The fence counts as completed once all earlier fences of the node are (SUB-29).
    kRefused,
    kStopping,  // the driver failed a call that may not fail: the scheduler halts
  };
  /// Patches and submits.
  virtual Submit submit(PacketId packet, NodeOrdinal node, SubmissionFenceId fence,
                        bool resubmission) = 0;
  /// A packet retired; called exactly once per packet, in retirement order. The port unpins,
  /// recycles, reports.
  virtual void retired(PacketId packet, PacketOutcome outcome, Reached reached) = 0;
  /// Asks the driver to preempt the node (DxgkDdiPreemptCommand) with an id of the node's fence
  /// sequence.
  virtual void preempt(NodeOrdinal node, SubmissionFenceId preemption_fence) = 0;
};
// Every callback may call the scheduler and its sync objects. Work that such a call starts runs
// after the callback.

struct NodeDesc {
  NodeOrdinal node;
  uint32_t hardware_queue_depth = 2;  // HwQueuePacketCap, 2 when that is 0 (SCHED-07); >= 1
  bool preemptible = false;           // PreemptionAware
  SubmissionFenceId first_fence{1};   // the first id given out; tests start near the 32-bit wrap
  /// True for a hardware queue instead of an engine: the hardware takes its packets by itself, and
  /// one context at a time uses it. These nodes come after all engines in the list.
  bool of_queue = false;
};

struct ContextDesc {
  NodeOrdinal node;
  int32_t priority = 0;                                   // -7..+7 (SCHED-11)
  bool is_system = false;                                 // the paging context
  PriorityClass priority_class = PriorityClass::kNormal;  // of the context's process
  // 0: none; in-process priority compares contexts of equal process (SCHED-13).
  uint64_t process = 0;
  bool ahead_in_process = false;  // in-process priority 1
};

/// A signal in several contexts. It takes effect when the last of them has reached it (SYNC-06). If
/// one context cancels it, it never takes effect.
struct Broadcast {
  uint32_t missing = 0;
  std::function<void()> event = {};  // called when it takes effect; may be null (SYNC-07)
};

struct PacketDesc {
  PacketId id;  // chosen by the caller, unused before
  PacketKind kind = PacketKind::kRender;
  std::vector<SyncPoint> points = {};  // kWait, kSignal: objects and values
  /// kSignal: takes effect when every earlier packet of the context has gone to the hardware, even
  /// if not done (SYNC-05, SYNC-12).
  bool at_submission = false;
  // kSignal of several contexts; null: of this context only.
  std::shared_ptr<Broadcast> broadcast = {};
  /// Nothing is selected now: the caller has it done later (pump).
  bool selected_later = false;
};

/// A signal that has not taken effect yet, for reports.
struct QueuedSignal {
  ContextId context;
  SyncPoint point;
};

/// The scheduler's judgment of a fence report. Anything but kAccepted is the driver's fault, and
/// the caller turns it into a finding (INT-11, INT-12, INT-14, PREEMPT-09).
enum class FenceReport { kAccepted, kRepeated, kUnknownFence, kUnknownNode, kUnexpectedPreemption };

/// The packet at the head of a node's hardware queue came back by preemption, and nothing has
/// completed on the node since it did so first. For timeouts.
struct GivenBack {
  uint32_t times = 0;  // 0: none did
  int64_t ran_ns = 0;  // on hardware, all these times together
  PacketId packet;
};

struct NodeStatus {
  SubmissionFenceId last_submitted, last_completed;
  size_t hardware_queue_length = 0;
  bool preemption_pending = false;
  int64_t progress_ns =
      0;  // time of the last submission to an empty queue or completion: for timeouts
  bool resetting = false;
  GivenBack given_back;  // by the last preemption
};

/// The packet that the reset of an engine aborted.
struct EngineReset {
  bool in_range = false;     // false: the id is neither the last completed one nor on hardware
  bool on_hardware = false;  // the packet is; else it had finished already (TDR-15)
  PacketId packet;           // on_hardware
  PacketKind kind = PacketKind::kRender;  // on_hardware
  // The context of that packet; value 0: no packet has run on the node.
  ContextId context;
  size_t finished = 0, innocent = 0;  // packets before it, and behind it
};

/// Lane: the adapter's. Time comes in as arguments. Deterministic: equal calls give equal
/// decisions.
///
/// Selection: a preempted paging packet, then the paging context, then the highest class and
/// priority with a ready packet. Equals take turns. The context whose turn it is keeps the node,
/// and is prepared first, until it has used its quantum of hardware time or has nothing to run.
/// Time that a packet took beyond the quantum is taken off later turns (SCHED-10). A used-up
/// quantum preempts (preemptible nodes, `quantum_deadline`) only if an equal waits. A packet that
/// lost many quanta gets longer runs, so that hardware which restarts packets finishes it.
///
/// Lower priorities, except the idle class, share `starvation_percent` of the time when they want
/// it (SCHED-15). A ready packet asks for preemption if it has a higher priority than work on a
/// preemptible node's hardware queue (SCHED-09). A context runs at the priority of a blocked higher
/// one that waits for its queued signal, until the signal has taken effect.
///
/// Look-ahead: at most depth + 1 prepared render packets per node wait at or above a priority, plus
/// one of the context whose turn is next. No packet behind an unsatisfied wait is prepared, so
/// every packet that holds memory can finish. A kBusy packet holds back preparation of its priority
/// and below (after 8 refusals: of all) until it gets its memory. It does not hold back an equal on
/// its node whose turn is earlier, so contexts that do not fit together take turns. It also holds
/// back nothing if no other packet is left that could free memory.
///
/// Invariants (`validate`): hardware queues are bounded by depth and ordered by fence. Each context
/// is FIFO. Every packet is in exactly one queue. Fence ids of a node rise, skip 0, and survive the
/// 32-bit wrap.
class Scheduler {
 public:
  /// @param policy  valid (CHECKed).
  Scheduler(EnginePort& port, std::span<const NodeDesc> nodes, const SchedulingPolicy& policy = {});
  ~Scheduler();

  // --- contexts ---
  Status create_context(ContextId id,
                        const ContextDesc& desc);  // kInvalidParameter: unknown node, bad priority
  /// Removes a context. True: no packet of the context was queued or on hardware, and it is gone
  /// now. False: still busy, state unchanged. Mutexes it owned become free (SYNC-27).
  bool destroy_context(ContextId id);
  /// The device of these contexts went into error. Queued packets retire as cancelled (queue
  /// order). Packets on hardware stay until they complete, and retire as faulted. Later `queue`
  /// answers kDeviceRemoved.
  void fail_context(ContextId id);
  /// The context is about to be destroyed. Queued packets still run. A wait that is still
  /// unsatisfied when its turn comes fails the context instead of holding it for ever (SCHED-22).
  void drain_context(ContextId id);
  Status set_priority(ContextId id, int32_t priority);
  /// SCHED-12: sets the class of the context's process. The caller does so for every context of the
  /// process.
  void set_priority_class(ContextId id, PriorityClass priority_class);
  /// SCHED-13: in-process priority. On a turn of a context of the same process, node and priority,
  /// this context's packets go first. It takes nothing from other processes. No effect without a
  /// process.
  void set_ahead_in_process(ContextId id, bool ahead);
  /// The priority at which the context is scheduled, boosts included. A larger number goes first.
  /// For tests and traces.
  size_t effective_level(ContextId id) const;
  /// RES-03, SCHED-17: a suspended context is not selected; its neighbours are. Packets already
  /// prepared keep their memory. System contexts cannot be suspended (CHECKed).
  void set_suspended(ContextId id, bool suspended);
  /// Power: while held, no further packet is prepared, so no packet takes memory. Prepared packets
  /// run to their end, also of suspended contexts, and paging goes on.
  void set_held(bool held);
  /// Nothing is submitted to the node while held. Packets on its hardware go on.
  void hold_node(NodeOrdinal node, bool held);
  /// The same for all engines at once, so that their hardware becomes idle and stays so. Hardware
  /// queues go on: what is on one may wait for what another has yet to bring (native fences).
  void hold_engines(bool held);
  /// Fence ids go on `count` ids before the next multiple of 2^30 on each node, where work has
  /// completed close enough to them (SUB-13: within half of all ids). Nothing is on hardware. Not
  /// of hardware queues.
  void skip_fences(uint32_t count);
  /// True if no packet holds memory, none is on hardware, no paging packet is left, and no
  /// preemption is pending.
  bool drained() const;
  /// True if a packet of the context holds memory or is on hardware.
  bool holds_memory(ContextId id) const;
  /// The hardware has lost its power and will never report its packets. Paging packets, queued ones
  /// included, retire as cancelled. Render packets on hardware retire as faulted. Pending
  /// preemptions are over. The caller fails the contexts that hold memory.
  void abandon_hardware();
  // --- resets: scheduler_reset.cpp ---
  /// Holds the node: until engine_was_reset or end_reset nothing is submitted to it, and no
  /// preemption is requested.
  void begin_reset(NodeOrdinal node);
  /// The reset was not needed. A preemption that was pending is pending again.
  void end_reset(NodeOrdinal node);
  /// The result that engine_was_reset would give. Changes nothing.
  EngineReset find_aborted(NodeOrdinal node, SubmissionFenceId last_aborted) const;
  /// The driver has reset the engine. `last_aborted` is the last id that the engine will never
  /// report (TDR-15..17). Packets before it are complete, it retires as faulted, and newer packets
  /// go back to their queues, paging first and with old ids. A pending preemption is over. The
  /// caller fails the device of `context`, which is not selected until then. Nothing changes unless
  /// the result is in range. CHECKs that no paging packet is hit: that needs an adapter reset.
  EngineReset engine_was_reset(NodeOrdinal node, SubmissionFenceId last_aborted, int64_t now_ns);
  /// Nothing is prepared or submitted on any node until end_adapter_reset.
  void begin_adapter_reset();
  /// Everything on hardware is gone. Render packets retire as faulted; paging packets, queued ones
  /// included, as cancelled. Each node's last completed id becomes its last submitted one (TDR-25).
  /// The caller fails the contexts that hold memory.
  void adapter_was_reset(int64_t now_ns);
  void end_adapter_reset();
  /// Contexts with packets on the node's hardware, oldest packet first, each once.
  std::vector<ContextId> contexts_on(NodeOrdinal node) const;
  /// Packets on the node's hardware with their fences, oldest first.
  std::vector<std::pair<PacketId, SubmissionFenceId>> packets_on(NodeOrdinal node) const;

  /// True if a packet of the context is on hardware.
  bool on_hardware(ContextId id) const;
  /// The number of packets, queued and on hardware.
  size_t packets_of(ContextId id) const;
  /// Calls back (on the lane) once the context has no packet; at once if it has none. For
  /// WaitForIdle and destruction.
  void when_idle(ContextId id, std::function<void()> then);

  // --- packets ---
  /// Appends to the context's software queue. kDeviceRemoved for a failed context or after halt,
  /// kInvalidParameter for kPaging outside a system context (state unchanged). A kSignal that
  /// breaks its object's limits when it takes effect retires as kFaulted. Cost: O(1), no allocation
  /// once the pools have grown.
  Status queue(ContextId context, PacketDesc packet);
  /// From inside `prepare(existing)` only: appends a render packet directly behind `existing` in
  /// its context, ahead of everything queued later. For a buffer that must run in parts (REND-21):
  /// on nodes that are not preemptible no other context runs between them, as long as the next part
  /// can be brought in and the context is selected (REND-25).
  void insert_after(PacketId existing, PacketId packet);
  /// The paging that a kWaiting prepare started is done. May come before that prepare returns.
  /// Ignored for packets that have retired meanwhile.
  void packet_ready(PacketId packet);
  /// Memory was freed or unpinned by other means, so kBusy packets are asked again.
  void retry_busy();
  /// Drives selection: prepares heads, and submits ready packets while hardware queues have room.
  /// Call it after any change; every mutating call here does so itself. Calls without a time do not
  /// move the clock. Work that they start counts as started at the next call with a time, unless a
  /// clock is set. So call pump(now) before you read `progress_ns`.
  void pump(int64_t now_ns);
  /// True if the time makes a difference to pump(): a packet on hardware has a quantum.
  bool minds_time() const;
  /// pump() for cases in which the time makes no difference, or a clock is set and no quantum needs
  /// a check now.
  void pump();
  /// The latest time for the next `pump`: then a quantum on a preemptible node is used up while an
  /// equal waits. nullopt: no such time. Cost: linear in nodes.
  std::optional<int64_t> quantum_deadline() const;
  /// Sets the clock for calls without a time argument. Optional.
  void set_clock(std::function<int64_t()> now_ns);

  // --- reports from the driver ---
  FenceReport completed(NodeOrdinal node, SubmissionFenceId fence,
                        int64_t now_ns);  // every id up to it (INT-10)
  FenceReport preempted(NodeOrdinal node, SubmissionFenceId preemption,
                        SubmissionFenceId last_completed, int64_t now_ns);
  /// DMA_FAULTED: earlier ids are complete, and this packet retires as faulted (its id goes to
  /// *packet, which may be null). The caller fails the device. Until then the context is not
  /// selected and its signals do not fire (SCHED-17).
  FenceReport faulted(NodeOrdinal node, SubmissionFenceId fence, int64_t now_ns, PacketId* packet);

  /// Requests preemption if the node can be preempted and no request is pending (PREEMPT-05).
  /// Returns false if it made no request. Nothing is submitted to the node until the answer.
  bool request_preemption(NodeOrdinal node);
  /// Adapter stop or fatal finding: nothing more is submitted. Packets that are queued or on
  /// hardware retire as cancelled or faulted.
  void halt();

  // --- sync objects: see sync_objects.h ---
  SyncObjects& sync_objects();
  /// Signals that are queued and have not taken effect, by context id and in stream order.
  std::vector<QueuedSignal> queued_signals() const;

  NodeStatus node_status(NodeOrdinal node) const;
  /// The number of engines, without hardware queues.
  size_t node_count() const;
  /// True if a packet is on hardware, in any queue.
  bool anything_on_hardware() const;
  /// How many packets may be in a hardware queue that is empty now; >= 1.
  void set_depth(NodeOrdinal node, uint32_t depth);
  /// The node and the fence of a packet on hardware; nullopt if it is not on hardware.
  std::optional<std::pair<NodeOrdinal, SubmissionFenceId>> on_hardware(PacketId packet) const;
  bool validate() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::vidsch
