// What no D3DKMT function reaches, for the exerciser that verifies a driver: residency by name,
// power, resets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "bus/machine.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/core/object.h"
#include "dxgk/core/timeout_policy.h"
#include "dxgk/memory_exercise.h"
#include "dxgk/system.h"
#include "port/types.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

class Adapter;
class Process;
struct DisplayFloor;

/// Works on one running adapter that nobody else uses meanwhile: clients may have allocations, but
/// no work queued and no thread inside. Not on the lane. Every call answers kDeviceRemoved once the
/// adapter has failed. A display-only adapter has neither memory nor engines: only the questions
/// and repeat_queries are for it, the rest answers kNotSupported.
class Exercise {
 public:
  /// kInvalidParameter: no such adapter is running.
  static Result<Exercise> on(System& system, Luid luid);
  ~Exercise();
  Exercise(Exercise&&) noexcept;

  // --- what it is ---
  const port::DriverCaps& caps() const;
  const std::vector<port::SegmentInfo>& segments() const;
  uint32_t interface_version() const;
  uint32_t video_present_sources() const;
  bool running() const;
  /// True if the bus addresses lead to one memory BAR of the adapter, or to system memory.
  bool cpu_reaches(uint64_t bus_address, uint64_t size_bytes) const;

  /// LIFE-17: asks caps and, of a full driver, segments and node metadata again; each difference is
  /// a finding. The driver's own failure passes through.
  Status repeat_queries();

  /// What the driver finds, from now on, in outputs that it must write; 0 as at the start. With
  /// anything else, what it leaves as it was is a finding (LIFE-29), repeat_queries included.
  void fill_outputs(std::byte fill);

  /// TDR-29: asks for debug information as after a timeout, with a buffer of `bytes`.
  void collect_debug_info(uint32_t bytes);

  /// No engine has a packet or owes an answer to a preemption. The driver is not asked.
  bool engines_are_idle();
  /// INT-22: asks each idle node for its fence. One that is not the last completed is a finding.
  /// The number of nodes that answered.
  Result<uint32_t> query_fences();

  /// INT-08: another device on the adapter's interrupt line interrupts, once. The adapter has no
  /// work; an ISR that claims the interrupt is a finding.
  void interrupt_of_another_device();

  // --- GPU virtual addresses ---
  /// Where the page tables of a process begin, as contexts were told last.
  struct GpuVaRoot {
    SegmentId segment;  // kSystemMemory: `offset_bytes` is a bus address
    uint64_t offset_bytes = 0;
    uint32_t entries = 0;
  };
  /// Pages of 4 KiB an address space has; 0: the adapter has no such addresses.
  uint64_t gpu_va_pages() const;
  /// What the driver says of its page tables.
  struct GpuVaFacts {
    bool read_only = false, no_execute = false, zero = false;
    /// Pages of 4 KiB that one table covers, from the leaf up to below the root.
    std::vector<uint64_t> table_pages;
  };
  /// Empty without such addresses.
  GpuVaFacts gpu_va_facts() const;
  /// kNotSupported: there are no such addresses; kInvalidParameter: no context of it has a root, or
  /// its tables are being written again, show pages of the kernel's until then, and nobody runs.
  Result<GpuVaRoot> gpu_va_root(Process& process);

  // --- memory ---
  /// What can be done with it by hand. The exercise outlives it.
  MemoryExercise memory() const;
  /// Everything leaves memory and aperture segments. kGraphicsAllocationBusy if something is locked
  /// or in use.
  Status evict_all();

  // --- exclusive ---
  /// Evicts, goes to D3 and comes back (PWR-01). With GPU virtual addresses as the system would:
  /// segments keep what they say they keep, and all page tables are made again (PAGE-02).
  Status power_cycle();
  /// An idle adapter is reset as after a timeout: ResetFromTimeout, clean-up, RestartFromTimeout.
  /// Content was evicted before, so none is lost, and page tables are made again. A failure of
  /// either is a bug check (TDR-23).
  Status reset();
  /// The same, and nothing was evicted before: what only memory segments held is lost, and the
  /// driver is told of each allocation with a transfer of no bytes (PAGE-22); mappings of aperture
  /// segments go, unless some of their segment belong to DMA or paging buffers.
  Status reset_losing_content();
  /// Asks an idle node for preemption and waits for the answer (PREEMPT-07). kNotSupported: the
  /// node cannot be preempted. Blocks until the driver answers or the adapter fails for its
  /// silence.
  Status preempt_idle(NodeOrdinal node);

  /// Fence ids of all nodes go on `count` ids before the next multiple of 2^30; they wrap at 2^32
  /// (SUB-13). A node that has completed nothing since the last call may keep its ids. The adapter
  /// is idle.
  void skip_fences(uint32_t count);

  // --- timeouts ---
  /// What is done about timeouts (the registry may say), which are detected only at level 1 and 3.
  const TimeoutPolicy& timeout_policy() const;
  /// Says what the next recovery is for. Those behind it are as usual again, so that a driver that
  /// does not get on runs into the limits. kNone takes it back.
  void provoke_timeouts(ProvokedTimeouts provoked);
  /// Until the next call, a node that completes nothing is asked for a preemption after
  /// `patience_ns`, if that is less than TdrDelay; 0: after TdrDelay, as usual. What has no end is
  /// given back sooner then. Timeouts come as usual.
  void ask_silent_nodes_after(int64_t patience_ns);

 private:
  explicit Exercise(Ref<Adapter> adapter);
  DisplayFloor& floor() const;
  /// Page tables that leave have to be made again before anything is paged.
  enum class Tables { kStay, kLeave };
  Status empty_segments(Tables tables);
  /// `work` with nothing of anybody in segments, paging buffers included.
  Status without_content(Status (*work)(DisplayFloor& floor));
  static Status reset_device(DisplayFloor& floor, bool losing_content);
  /// Between the two DDIs of a reset. What is built for the driver here runs after the restart.
  static void lose_tables(DisplayFloor& floor, bool losing_content) DXGKIT_REQUIRES(on_lane);
  static void lose_content(DisplayFloor& floor) DXGKIT_REQUIRES(on_lane);
  Ref<Adapter> adapter_;
};

}  // namespace dxgkit::dxgk
