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

/// How far a packet had come when it left.
enum class Reached {
  kQueue,      // never submitted
  kHardware,   // was on hardware until it left: it ran, a reset took it away, or it was refused
  kGivenBack,  // was on hardware, and came back unfinished by preemption or an engine's reset
};

/// What the scheduler asks of the world; dxgk implements it, tests fake it. All calls on the lane.
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
  /// Called once per render packet when it nears the head, in queue order per context; again after
  /// kBusy.
  virtual Prepare prepare(PacketId packet) = 0;
  enum class Submit {
    kTaken,
    /// Malformed, says the driver: it never runs. The port puts the device in error; the fence
    /// counts as completed once the node's earlier ones are (SUB-29).
    kRefused,
    kStopping,  // the driver failed a call that may not fail: the scheduler halts
  };
  /// Patches and submits.
  virtual Submit submit(PacketId packet, NodeOrdinal node, SubmissionFenceId fence,
                        bool resubmission) = 0;
  /// A packet left, exactly once per packet, in retirement order. The port unpins, recycles,
  /// reports.
  virtual void retired(PacketId packet, PacketOutcome outcome, Reached reached) = 0;
  /// Asks the driver to preempt the node (DxgkDdiPreemptCommand) with an id of the node's fence
  /// sequence.
  virtual void preempt(NodeOrdinal node, SubmissionFenceId preemption_fence) = 0;
};
// Every callback may call the scheduler and its sync objects again; what such a call starts runs
// after the callback.

struct NodeDesc {
  NodeOrdinal node;
  uint32_t hardware_queue_depth = 2;  // HwQueuePacketCap, 2 when that is 0 (SCHED-07); >= 1
  bool preemptible = false;           // PreemptionAware
  SubmissionFenceId first_fence{1};   // the first id given out; tests start near the 32-bit wrap
  /// Not an engine but a queue the hardware works off by itself: one context at a time uses it.
  /// Behind all engines in the list.
  bool of_queue = false;
};

struct ContextDesc {
  NodeOrdinal node;
  int32_t priority = 0;                                   // -7..+7 (SCHED-11)
  bool is_system = false;                                 // the paging context
  PriorityClass priority_class = PriorityClass::kNormal;  // of its process
  uint64_t process = 0;           // 0: of none; names those in-process priority is about (SCHED-13)
  bool ahead_in_process = false;  // in-process priority 1
};

/// A signal in several contexts, which takes effect when the last of them has come to it (SYNC-06).
/// One that is cancelled on the way never does.
struct Broadcast {
  uint32_t missing = 0;
  std::function<void()> event = {};  // also called then; may be null (SYNC-07)
};

struct PacketDesc {
  PacketId id;  // the caller's, unused before
  PacketKind kind = PacketKind::kRender;
  std::vector<SyncPoint> points = {};  // kWait, kSignal: objects and values
  /// kSignal: takes effect when every earlier packet of the context is with the hardware, not done
  /// (SYNC-05, SYNC-12).
  bool at_submission = false;
  std::shared_ptr<Broadcast> broadcast = {};  // kSignal of several contexts; null: of this one
};

/// A signal that is still to be made, for reports.
struct QueuedSignal {
  ContextId context;
  SyncPoint point;
};

/// What a fence report from the driver turned out to be; anything but kAccepted is the driver's
/// fault and the caller turns it into a finding (INT-11, INT-12, INT-14, PREEMPT-09).
enum class FenceReport { kAccepted, kRepeated, kUnknownFence, kUnknownNode, kUnexpectedPreemption };

struct NodeStatus {
  SubmissionFenceId last_submitted, last_completed;
  size_t hardware_queue_length = 0;
  bool preemption_pending = false;
  int64_t progress_ns =
      0;  // time of the last submission to an empty queue or completion: for timeouts
  bool resetting = false;
};

/// Whom the reset of an engine hit.
struct EngineReset {
  bool in_range = false;     // false: the id is neither the last completed one nor on hardware
  bool on_hardware = false;  // the packet is; else it had finished already (TDR-15)
  PacketId packet;           // on_hardware
  PacketKind kind = PacketKind::kRender;  // on_hardware
  ContextId context;                  // whose it is, or was; value 0: nothing has run on the node
  size_t finished = 0, innocent = 0;  // packets before it, and behind it
};

/// Lane: the adapter's. Time comes in as arguments. Deterministic: equal calls give equal
/// decisions. Selection: a preempted paging packet, then the paging context, then the highest
/// class and priority with a ready packet. Equals take turns: whose turn it is keeps the node, and
/// is prepared first, until it has used its quantum of hardware time or has nothing to run; what a
/// packet took beyond the quantum is taken off later turns (SCHED-10). A used-up quantum preempts
/// (preemptible nodes, `quantum_deadline`) only if an equal waits; a packet that lost many quanta
/// gets longer runs, so hardware that starts packets over gets through.
/// Lower priorities share `starvation_percent` of the time when they want it, the idle class
/// excepted (SCHED-15). A ready packet of higher priority than work on a preemptible node's
/// hardware queue asks for preemption (SCHED-09). A context whose queued signal a blocked context
/// of higher priority waits for runs at that priority until the signal has taken effect.
/// Look-ahead: at most depth + 1 prepared render packets per node wait at or above a priority, and
/// one of the context whose turn is next. Packets behind a wait that is not satisfied are not
/// prepared, so whatever holds memory can finish. A kBusy packet holds back preparation of its
/// priority and below, after 8 refusals of all, until it gets its memory; but not of an equal on
/// its node whose turn is earlier, so contexts that do not fit together change by turns; unless
/// nothing is left that could free any. Invariants
/// (`validate`): hardware queues bounded by depth and ordered by fence; per context FIFO; every
/// packet is in exactly one queue; fence ids of a node rise, skip 0, and survive the 32-bit wrap.
class Scheduler {
 public:
  /// The policy is valid (CHECKed).
  Scheduler(EnginePort& port, std::span<const NodeDesc> nodes, const SchedulingPolicy& policy = {});
  ~Scheduler();

  // --- contexts ---
  Status create_context(ContextId id,
                        const ContextDesc& desc);  // kInvalidParameter: unknown node, bad priority
  /// True if nothing of the context is queued or on hardware and it is gone now; false: still busy,
  /// state unchanged. Mutexes it owned become free (SYNC-27).
  bool destroy_context(ContextId id);
  /// The device of these contexts went into error: queued packets retire as cancelled (queue
  /// order), those on hardware stay until they complete and retire as faulted. Later `queue`
  /// answers kDeviceRemoved.
  void fail_context(ContextId id);
  /// The context is about to be destroyed: what is queued still runs, but a wait nobody has
  /// satisfied by the time its turn comes fails the context instead of holding it for ever
  /// (SCHED-22).
  void drain_context(ContextId id);
  Status set_priority(ContextId id, int32_t priority);
  /// SCHED-12: of the process it belongs to; the caller tells every context of it.
  void set_priority_class(ContextId id, PriorityClass priority_class);
  /// SCHED-13: its packets go before those of other contexts of its process with the same priority
  /// on the node, whenever the turn of one of those comes; it takes nothing from other processes.
  /// Without a process: no effect.
  void set_ahead_in_process(ContextId id, bool ahead);
  /// The priority it is scheduled at, boosts included. Bigger goes first; for tests and traces.
  size_t effective_level(ContextId id) const;
  /// RES-03, SCHED-17: a suspended context is not selected; neighbours are. Packets already
  /// prepared keep their memory. System contexts cannot be suspended (CHECKed).
  void set_suspended(ContextId id, bool suspended);
  /// Power: while held nothing is prepared that is not yet, so nothing takes memory; what is
  /// prepared runs to its end, that of suspended contexts too, and paging goes on.
  void set_held(bool held);
  /// Nothing is submitted to the node while held; what is on its hardware goes on.
  void hold_node(NodeOrdinal node, bool held);
  /// No packet holds memory, none is on hardware, no paging packet is left, no preemption pends.
  bool drained() const;
  /// Some packet of the context holds memory or is on hardware.
  bool holds_memory(ContextId id) const;
  /// The hardware has lost its power: it will never report what is on it. Paging packets, queued
  /// ones included, retire as cancelled, render packets on hardware as faulted; pending preemptions
  /// are over. The caller fails the contexts that hold memory.
  void abandon_hardware();
  // --- resets: scheduler_reset.cpp ---
  /// Nothing is submitted to the node, nor asked of it, until engine_was_reset or end_reset.
  void begin_reset(NodeOrdinal node);
  /// It was not needed; a preemption that pends still does.
  void end_reset(NodeOrdinal node);
  /// What engine_was_reset would find; changes nothing.
  EngineReset find_aborted(NodeOrdinal node, SubmissionFenceId last_aborted) const;
  /// The driver has reset the engine, and `last_aborted` is the last id it will never hear of
  /// again (TDR-15..17): packets before it are complete, it retires as faulted, newer ones go back
  /// to where they came from, paging first and with old ids. A preemption that pended is over. The
  /// caller fails the device of `context`; until then that is not selected. Nothing changes unless
  /// the result is in range. CHECKs that no paging packet is hit: that needs an adapter reset.
  EngineReset engine_was_reset(NodeOrdinal node, SubmissionFenceId last_aborted, int64_t now_ns);
  /// Nothing is prepared or submitted anywhere until end_adapter_reset.
  void begin_adapter_reset();
  /// Everything on hardware is gone: render packets retire as faulted, paging, queued paging too,
  /// as cancelled, and each node's last completed id is its last submitted one (TDR-25). The caller
  /// fails the contexts that hold memory.
  void adapter_was_reset(int64_t now_ns);
  void end_adapter_reset();
  /// Contexts with packets on the node's hardware, oldest packet first, each once.
  std::vector<ContextId> contexts_on(NodeOrdinal node) const;
  /// Packets on the node's hardware with their fences, oldest first.
  std::vector<std::pair<PacketId, SubmissionFenceId>> packets_on(NodeOrdinal node) const;

  /// Some packet of the context is on hardware.
  bool on_hardware(ContextId id) const;
  /// Queued and on hardware.
  size_t packets_of(ContextId id) const;
  /// Calls back (on the lane) once the context has no packet; at once if it has none. For
  /// WaitForIdle and destruction.
  void when_idle(ContextId id, std::function<void()> then);

  // --- packets ---
  /// Appends to the context's software queue; kDeviceRemoved for a failed context or after halt,
  /// kInvalidParameter for kPaging outside a system context (state unchanged). A kSignal that
  /// breaks its object's limits when it takes effect retires as kFaulted. Cost: O(1), no allocation
  /// once the pools have grown.
  Status queue(ContextId context, PacketDesc packet);
  /// From inside `prepare(existing)` only: appends a render packet directly behind `existing` in
  /// its context, ahead of everything queued later. For a buffer that must run in parts (REND-21):
  /// on nodes that are not preemptible no other context runs between them, as long as the next part
  /// can be brought in and the context is selected (REND-25).
  void insert_after(PacketId existing, PacketId packet);
  /// The paging a kWaiting prepare started is done. May come before that prepare returns. Ignored
  /// for packets gone meanwhile.
  void packet_ready(PacketId packet);
  /// Memory was freed or unpinned by other means: kBusy packets are asked again.
  void retry_busy();
  /// Drives selection: prepares heads, submits what is ready while hardware queues have room. Call
  /// after anything changed (every mutating call here does it itself). Calls without a time do not
  /// move the clock: work they start counts as started at the next call with one, unless a clock is
  /// set; so pump(now) before reading `progress_ns`.
  void pump(int64_t now_ns);
  /// Whether the time makes a difference to pump(): something on hardware has a quantum.
  bool minds_time() const;
  /// pump() where it does not, or where a clock is set and no quantum has to be looked at now.
  void pump();
  /// When `pump` is due at the latest, because a quantum on a preemptible node is then used up
  /// while an equal waits; nullopt: no such time. Cost: linear in nodes.
  std::optional<int64_t> quantum_deadline() const;
  /// Gives calls without a time argument one. Optional.
  void set_clock(std::function<int64_t()> now_ns);

  // --- reports from the driver ---
  FenceReport completed(NodeOrdinal node, SubmissionFenceId fence,
                        int64_t now_ns);  // every id up to it (INT-10)
  FenceReport preempted(NodeOrdinal node, SubmissionFenceId preemption,
                        SubmissionFenceId last_completed, int64_t now_ns);
  /// DMA_FAULTED: earlier ids are complete, this packet retires as faulted (its id goes to *packet,
  /// which may be null). The caller fails the device; until then the context is not selected and
  /// its signals do not fire (SCHED-17).
  FenceReport faulted(NodeOrdinal node, SubmissionFenceId fence, int64_t now_ns, PacketId* packet);

  /// Asks for preemption if the node can and none is pending (PREEMPT-05). False if not asked.
  /// Nothing is submitted to the node until the answer.
  bool request_preemption(NodeOrdinal node);
  /// Adapter stop or fatal finding: nothing more is submitted; everything queued or on hardware
  /// retires as cancelled/faulted.
  void halt();

  // --- sync objects: see sync_objects.h ---
  SyncObjects& sync_objects();
  /// Signals queued and not made yet, by context id and in stream order.
  std::vector<QueuedSignal> queued_signals() const;

  NodeStatus node_status(NodeOrdinal node) const;
  /// Engines: without the hardware's own queues.
  size_t node_count() const;
  /// Some packet is on hardware, in whatever queue.
  bool anything_on_hardware() const;
  /// How many packets may be in a hardware queue that is empty now; >= 1.
  void set_depth(NodeOrdinal node, uint32_t depth);
  /// On which node and with which fence a packet is on hardware; nullopt if it is not.
  std::optional<std::pair<NodeOrdinal, SubmissionFenceId>> on_hardware(PacketId packet) const;
  bool validate() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::vidsch
