// The scheduler's questions, answered with memory manager and driver: prepare, patch and submit,
// retire.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/id_table.h"
#include "dxgk/work/node_counters.h"
#include "dxgk/work/packet.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"
#include "trace/causes.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

class ClientQuota;
class ContextAllocations;
class Faults;
class HwQueues;
class PagingExecutor;
class Residency;
class TableEviction;
class Timeout;

/// Packets from the queue to their end. A packet retires exactly once; what it pins it unpins then.
///
/// Lane: the adapter's.
class Submission : public vidsch::EnginePort {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// A packet that needs the node's engine was queued; or such a packet has left.
    virtual void engine_work(NodeOrdinal node, bool comes) DXGKIT_REQUIRES(on_lane) = 0;
    /// The flip of a source came to the packet that carries it, or ended without one.
    virtual void flip_reached(uint32_t source, uint64_t flip, bool shown)
        DXGKIT_REQUIRES(on_lane) = 0;
  };
  struct Parts {
    PagingExecutor& paging;
    Residency& residency;
    ContextAllocations& context_allocations;
    Timeout& timeout;
    Faults& faults;
    TableEviction* table_eviction = nullptr;  // null: the patch model
    HwQueues* hw_queues = nullptr;            // null: there are none
  };
  Submission(AdapterCore& core, Owner& owner, const Parts& parts)
      : core_(core),
        owner_(owner),
        paging_(parts.paging),
        residency_(parts.residency),
        context_allocations_(parts.context_allocations),
        timeout_(parts.timeout),
        faults_(parts.faults),
        table_eviction_(parts.table_eviction),
        hw_queues_(parts.hw_queues) {}

  IdTable<Packet, PacketId>& packets() DXGKIT_REQUIRES(on_lane) { return packets_; }
  const NodeCounters& nodes() const DXGKIT_REQUIRES(on_lane) { return nodes_; }
  /// Where the kernel's paging runs.
  void set_paging_context(ContextId context) DXGKIT_REQUIRES(on_lane) { paging_context_ = context; }
  /// Queues a context's packet and counts it as a user of its buffer.
  void queue(Packet& packet) DXGKIT_REQUIRES(on_lane);
  void queue_paging(Packet& packet) DXGKIT_REQUIRES(on_lane);

  // --- vidsch::EnginePort ---
  Prepare prepare(PacketId packet) override DXGKIT_REQUIRES(on_lane);
  Submit submit(PacketId packet, NodeOrdinal node, SubmissionFenceId fence,
                bool resubmission) override DXGKIT_REQUIRES(on_lane);
  void retired(PacketId packet, vidsch::PacketOutcome outcome, vidsch::Reached reached) override
      DXGKIT_REQUIRES(on_lane);
  void preempt(NodeOrdinal node, SubmissionFenceId preemption_fence) override
      DXGKIT_REQUIRES(on_lane);

 private:
  Submit submit_virtual(Packet& packet, NodeOrdinal node, SubmissionFenceId fence,
                        bool resubmission) DXGKIT_REQUIRES(on_lane);
  /// SUB-24: zero-length, from the current context to none.
  Submit submit_context_switch(Packet& packet, NodeOrdinal node, SubmissionFenceId fence,
                               bool resubmission) DXGKIT_REQUIRES(on_lane);
  void note_submission(Packet& packet, NodeOrdinal node, SubmissionFenceId fence, uint64_t bytes)
      DXGKIT_REQUIRES(on_lane);
  bool split(Packet& packet, AllocationId unplaceable) DXGKIT_REQUIRES(on_lane);
  /// For the trace: why the packet cannot be prepared yet.
  static void note_busy(const Packet& packet, trace::BusyReason reason, AllocationId allocation);
  /// REND-28: at the first point there is.
  bool split_anyway(Packet& packet) DXGKIT_REQUIRES(on_lane);
  /// Before the patch location `cut`, or those that share its SplitOffset.
  bool split_before(Packet& packet, uint32_t cut) DXGKIT_REQUIRES(on_lane);
  /// A slot bound before patch location `cut` that what follows neither binds nor unbinds: fatal
  /// (REND-26).
  bool leaks_binding(const Packet& packet, uint32_t cut) DXGKIT_REQUIRES(on_lane);
  void fill_allocation_list(const Packet& packet) DXGKIT_REQUIRES(on_lane);
  port::PatchArgs patch_args(const Packet& packet, SubmissionFenceId fence)
      DXGKIT_REQUIRES(on_lane);
  port::SubmitVirtualArgs virtual_args(Packet& packet) DXGKIT_REQUIRES(on_lane);
  /// After Patch of a part of a buffer that several contexts run, against `broadcast_before_`.
  void check_broadcast_part(const Packet& packet) DXGKIT_REQUIRES(on_lane);
  /// The driver is told that the packet will not run (again), if it is to be told of this one.
  void cancel_packet(Packet& packet, vidsch::Reached reached) DXGKIT_REQUIRES(on_lane);
  NodeCounters::Work work_of(const Packet& packet) const DXGKIT_REQUIRES(on_lane);
  NodeOrdinal node_of(const Packet& packet) const DXGKIT_REQUIRES(on_lane);
  void count_engine_work(const Packet& packet, bool comes) DXGKIT_REQUIRES(on_lane);
  /// Where packets of a client count for its user. Null: nowhere.
  static ClientQuota* quota_of(const Packet& packet) DXGKIT_REQUIRES(on_lane);

  AdapterCore& core_;
  Owner& owner_;
  PagingExecutor& paging_;
  Residency& residency_;
  ContextAllocations& context_allocations_;
  Timeout& timeout_;
  Faults& faults_;
  TableEviction* const table_eviction_;
  HwQueues* const hw_queues_;
  IdTable<Packet, PacketId> packets_;
  ContextId paging_context_;
  std::vector<uint64_t> submitted_;  // by node: packets, resubmitted ones too
  NodeCounters nodes_ DXGKIT_GUARDED_BY(on_lane);
  std::vector<std::byte> broadcast_before_;
  PacketId preparing_;  // packet inside prepare(), whose paging may complete before it returns
  bool prepared_inline_ = false;
};

}  // namespace dxgkit::dxgk
