// One node: a ring, a thread that drains it, and the command processor behind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "devices/softgpu/address_space.h"
#include "devices/softgpu/faults.h"
#include "devices/softgpu/interrupts.h"
#include "devices/softgpu/mmu.h"
#include "devices/softgpu/softgpu_hw.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"

namespace dxgkit::softgpu {

/// The duration of work where time is modelled (simulation, or a slowed engine). Bandwidths are in
/// bytes per microsecond, so 16'000 is 16 GB/s. The defaults resemble a small discrete GPU on PCIe.
struct Timing {
  runtime::DurationNs entry_ns = 500;
  runtime::DurationNs command_ns = 200;
  uint64_t bus_bytes_per_us = 16'000;
  uint64_t vram_bytes_per_us = 200'000;
  uint64_t taps_per_us = 1'000'000;  // kernel weights times pixels
};

/// The parts that all engines of a GPU share.
struct EngineContext {
  runtime::Runtime& runtime;
  AddressSpace& memory;
  Mmu& mmu;
  Interrupts& interrupts;
  FaultInjector& faults;
  Timing timing;
  /// A semaphore may have changed: every engine that waits on one reads it again.
  std::function<void()> semaphore_changed;
};

/// Any thread may use the registers. The engine has a thread of its own.
class Engine {
 public:
  Engine(EngineContext& context, uint32_t node);
  ~Engine();  // call stop() first
  Engine(const Engine&) = delete;

  /// Abandons work in progress and joins the thread. Registers still answer. Call it once.
  void stop();

  /// Stops the engine at once, waits until it is at rest, and gives its registers power-on values.
  void lose_power();

  /// Register offsets are SGPU_NODE_*; `offset` is that of a 32-bit or 64-bit register.
  uint64_t read(uint32_t offset);
  void write(uint32_t offset, uint64_t value);
  void semaphore_doorbell();
  /// True if the engine works, or has work that it will begin by itself.
  bool may_access_memory() const;

 private:
  /// How a buffer, or one command of it, ended.
  enum class Outcome { kDone, kEnd, kFaulted, kReset, kPreempted };
  /// Field b of kHardwareEnd.
  enum class TraceEnd : uint64_t { kFinished = 0, kFaulted = 1, kPreempted = 2, kReset = 3 };

  void run();
  bool fetch(SgpuRingEntry* entry);
  void execute(const SgpuRingEntry& entry);
  bool is_sound(const SgpuRingEntry& entry) const;  // virtual_ and space_ are set
  Outcome run_buffer(const SgpuRingEntry& entry);
  /// Copies the command at `offset` out of a virtual buffer, if its size is legal.
  Outcome fetch_virtual(const SgpuRingEntry& entry, uint64_t offset, SgpuCommandHeader* header);
  void complete(const SgpuRingEntry& entry);
  void answer_preemption(uint32_t stopped_fence, uint32_t stopped_offset);
  void take_reset();
  void trace_end(uint32_t fence, TraceEnd how);
  void report_fault(Fault fault, uint32_t fence, uint32_t offset);
  void interrupt(uint32_t cause);  // of a preemption or a fault
  void ring_bell();
  void hang();

  bool reset_requested() const { return reset_.load(std::memory_order_acquire); }
  bool preemption_requested() const {
    return preempt_request_.load(std::memory_order_acquire) != 0;
  }
  /// A request that ends work.
  bool must_give_way() const {
    return preemption_requested() && !context_.faults.preempts_when_idle(node_);
  }
  bool must_stop() const { return reset_requested() || stop_.load(std::memory_order_acquire); }
  uint32_t status() const;

  // --- commands (commands.cpp)
  Outcome run_command(const SgpuCommandHeader& header, uint64_t offset);
  /// The `count` bytes that begin `in_command` bytes into the command at `offset`; the command
  /// contains them.
  void read_command(uint64_t offset, uint64_t in_command, void* out, uint64_t count) const;
  template <typename Command>
  bool fetch_command(const SgpuCommandHeader& header, uint64_t offset, Command* command);
  template <typename Command>
  bool fetch_list(const SgpuCommandHeader& header, uint64_t offset, Command* command);
  Outcome fault(uint32_t reason, uint64_t address = 0);
  Outcome fault(Fault fault_of_access);
  Outcome fence_write(const SgpuFenceWrite& command);
  Outcome sem_signal(const SgpuSemSignal& command);
  Outcome sem_wait(const SgpuSemWait& command);
  Outcome copy(const SgpuCopy& command);
  Outcome copy_pages(const SgpuCopyPages& command);
  Outcome fill(const SgpuFill& command);
  Outcome blit2d(const SgpuBlit2d& command);
  Outcome convolve(const SgpuConvolve& command);
  Outcome downscale(const SgpuDownscale& command);
  Outcome checksum(const SgpuChecksum& command);
  Outcome map_aperture(const SgpuMapAperture& command);
  Outcome unmap_aperture(const SgpuUnmapAperture& command);
  Outcome delay(const SgpuDelay& command);
  Outcome write_ptes(const SgpuCommandHeader& header, uint64_t offset);
  Outcome copy_ptes(const SgpuCopyPtes& command);
  Outcome flush_tlb(const SgpuFlushTlb& command);
  /// Stores list_ as page table entries. A list of one element is repeated `count` times.
  Outcome store_entries(uint64_t count);

  /// An address in a command: virtual or physical, as the ring entry says.
  Fault resolve(uint64_t address, uint64_t size, Access access, Range& out);
  Fault resolve_word(uint64_t address, uint32_t width, Access access, std::byte** out);
  Fault resolve_table(uint64_t address, uint64_t size, Access access, uint32_t flags, Range& out);

  Fault resolve_rect(uint64_t address, uint32_t pitch, uint64_t width_bytes, uint32_t height,
                     Access access, Range& out);
  /// The whole of a resolved range in one piece: in place, or copied into source_scratch_.
  const std::byte* gather(const Range& range);
  bool move_between(const Range& from, const Range& to, bool backwards);
  /// Calls `make_row(y, out)` for each row of a resolved rectangle and stores the row. May return
  /// kReset between rows.
  template <typename MakeRow>
  Outcome write_rows(const Range& rect, uint32_t pitch, uint64_t width_bytes, uint32_t height,
                     MakeRow make_row);

  /// Lets modelled time pass. Returns false if a reset interrupted it.
  bool spend(runtime::DurationNs duration);
  /// Waits in real or virtual time. Returns kPreempted only if asked to.
  Outcome wait_until(runtime::TimeNs due, bool preemptible);
  /// The duration of a transfer of `bytes`, by the memory where a resolved range begins.
  runtime::DurationNs transfer_time(const Range& range, uint64_t bytes) const;

  EngineContext& context_;
  runtime::Runtime& runtime_;
  const uint32_t node_;

  // Counts events that the thread must handle: doorbells, control, preemption, semaphores. The
  // thread reads the count before it checks the rest, so it never sleeps through an event.
  std::atomic<uint32_t> bell_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> reset_{false};
  std::atomic<uint32_t> tail_{0};
  std::atomic<uint32_t> preempt_request_{0};

  // Guards the configuration against the fetch: a ring cannot be moved while the thread uses it.
  // Leaf lock.
  runtime::Mutex mutex_;
  uint64_t ring_base_ DXGKIT_GUARDED_BY(mutex_) = 0;
  uint32_t ring_size_ DXGKIT_GUARDED_BY(mutex_) = 0;
  const std::byte* ring_ DXGKIT_GUARDED_BY(mutex_) = nullptr;  // resolved when enabled

  // Written by the thread (or under mutex_ while it rests). Registers read it at any time.
  std::atomic<uint32_t> head_{0};
  std::atomic<bool> enabled_{false};
  std::atomic<bool> busy_{false};
  std::atomic<bool> faulted_{false};
  std::atomic<uint32_t> waiting_{0};
  std::atomic<uint32_t> completed_fence_{0};
  std::atomic<uint32_t> current_fence_{0};
  std::atomic<uint32_t> fetched_fence_{0};
  std::atomic<uint32_t> aborted_fence_{0};
  std::atomic<uint32_t> preempt_done_{0};
  std::atomic<uint32_t> preempt_completed_{0};
  std::atomic<uint32_t> preempt_fence_{0};
  std::atomic<uint32_t> preempt_offset_{0};
  std::atomic<uint32_t> fault_reason_{0};
  std::atomic<uint32_t> fault_fence_{0};
  std::atomic<uint64_t> fault_address_{0};
  std::atomic<uint32_t> fault_offset_{0};
  std::atomic<uint32_t> fault_detail_{0};
  std::atomic<uint64_t> fault_root_{0};
  std::atomic<uint64_t> executed_{0};

  // Used by the thread only.
  Range buffer_;
  Range source_;
  Range destination_;
  bool virtual_ = false;                  // the entry in execution
  bool privileged_ = false;               // may use commands that belong to the kernel
  VirtualSpace space_;                    // if virtual_
  std::vector<std::byte> command_bytes_;  // the command in execution, if virtual_
  std::vector<uint64_t> list_;
  std::vector<std::byte> source_scratch_;
  std::vector<std::byte> destination_scratch_;
  Fault pending_fault_;
  bool executing_ = false;       // kHardwareStart was emitted, kHardwareEnd not yet
  uint32_t stopped_offset_ = 0;  // the offset of the command that faulted or was preempted

  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace dxgkit::softgpu
