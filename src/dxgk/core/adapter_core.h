// What every part of an adapter stands on: its lane, its driver, its findings, and waiting.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/cache_line.h"
#include "base/ids.h"
#include "dxgk/core/adapter_environment.h"
#include "dxgk/core/gate.h"
#include "dxgk/core/power_phase.h"
#include "port/adapter_port.h"
#include "runtime/lane.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"
#include "verifier/findings.h"
#include "vidmm/memory_manager.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

/// What the driver has said of itself at start. Constant while the adapter runs.
struct AdapterFacts {
  port::DriverCaps caps;
  port::SegmentsInfo segments;
  port::StartInfo start;
  std::vector<port::NodeMetadata> nodes;  // by ordinal; empty elements below WDDM 1.3
  /// WDDM 2.0 on: devices say what is resident (MakeResident, Evict). Below, each packet's
  /// allocation list does (RES-24).
  bool explicit_residency = false;
  /// The adapter has GPU virtual addresses. Else it patches.
  bool virtual_addresses = false;
  /// DxgkDdiCreateProcess is an entry of the WDDM 2.0 model. A driver whose caps name an older
  /// model is not asked, whatever the version of its table (LIFE-16).
  bool told_of_processes() const { return explicit_residency || virtual_addresses; }
};

/// Where an adapter is, and what it works with. The parts above share one and own none of it.
///
/// Who may block where: thunks block on their own threads, in `block_until`; the lane never blocks,
/// it continues through callbacks.
///
/// Life: memory() and scheduler() exist from the middle of a full adapter's start to its end,
/// port() from the beginning of the start to the end of the stop.
class AdapterCore : public AdapterEnvironment {
 public:
  /// What the core asks of the parts above it. All on the lane.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// The adapter has failed for good: everything that runs or waits ends.
    virtual void stop_after_failure() DXGKIT_REQUIRES(on_lane) = 0;
    /// The scheduler selects work.
    virtual void pump() DXGKIT_REQUIRES(on_lane) = 0;
    /// What waits for memory, for idle allocations or for room looks again.
    virtual void advance_waiting() DXGKIT_REQUIRES(on_lane) = 0;
  };
  AdapterCore(Owner& owner, Luid luid, const Surroundings& around, const AdapterOptions& options);
  AdapterCore(const AdapterCore&) = delete;
  AdapterCore& operator=(const AdapterCore&) = delete;

  /// Any thread.
  runtime::Lane& lane() { return lane_; }
  Gate& gate() { return gate_; }

  // --- the driver; any thread ---
  port::AdapterPort& port() { return *port_; }
  void open_port(port::AdapterHost& host);
  void close_port() { port_.reset(); }
  bool has_port() const { return port_ != nullptr; }
  uint32_t interface_version() const { return interface_version_; }
  bool display_only() const { return display_only_; }
  const AdapterFacts& facts() const { return facts_; }
  /// While the adapter starts.
  AdapterFacts& learn() { return facts_; }
  const port::DriverCaps& caps() const { return facts_.caps; }
  const port::SegmentsInfo& segment_infos() const { return facts_.segments; }

  // --- failure ---
  /// False once stopped, removed or fatally failed: thunks answer kDeviceRemoved (THUNK-07).
  bool running() const { return !gate_.closed() && !fatal(); }
  /// False after a fatal failure: the driver may not be called any more, or not for this adapter.
  bool running_or_starting() const { return !fatal(); }
  bool fatal() const { return fatal_.load(std::memory_order_acquire); }
  /// Fatal from now on. False: it was already.
  bool become_fatal() { return !fatal_.exchange(true); }
  /// A driver rule with fatal outcome: stops this adapter (SimulatedBugcheck). Any context.
  void fail(verifier::Finding finding);
  /// The same, after the port has reported the finding.
  void fail_as_reported();
  /// Nothing of the adapter will be done any more.
  bool failed() const DXGKIT_REQUIRES(on_lane) { return failed_; }
  void set_failed() DXGKIT_REQUIRES(on_lane) { failed_ = true; }

  // --- state of the lane ---
  vidmm::MemoryManager& memory() DXGKIT_REQUIRES(on_lane) { return *memory_; }
  vidsch::Scheduler& scheduler() DXGKIT_REQUIRES(on_lane) { return *scheduler_; }
  /// False: a display-only adapter, or one that has not got that far. Any thread: both are made
  /// once, before the adapter lets clients in.
  bool has_memory() const DXGKIT_NO_THREAD_SAFETY_ANALYSIS { return memory_ != nullptr; }
  bool has_scheduler() const DXGKIT_NO_THREAD_SAFETY_ANALYSIS { return scheduler_ != nullptr; }
  void set_memory(std::unique_ptr<vidmm::MemoryManager> memory) DXGKIT_REQUIRES(on_lane) {
    memory_ = std::move(memory);
  }
  void set_scheduler(std::unique_ptr<vidsch::Scheduler> scheduler) DXGKIT_REQUIRES(on_lane) {
    scheduler_ = std::move(scheduler);
  }
  AdapterStatistics& counters() DXGKIT_REQUIRES(on_lane) { return counters_; }
  PowerPhase& power_phase() DXGKIT_REQUIRES(on_lane) { return power_phase_; }
  ContextId new_context_id() DXGKIT_REQUIRES(on_lane) { return ContextId{++last_context_id_}; }
  SyncObjectId new_sync_object_id() DXGKIT_REQUIRES(on_lane) {
    return SyncObjectId{++last_sync_id_};
  }
  /// REND-28: true, and counted, if the switch is on.
  bool strikes(VerifierSwitch which) DXGKIT_REQUIRES(on_lane) {
    if (!options_.verifier.has(which)) [[likely]]
      return false;
    ++counters_.verifier_strikes[static_cast<size_t>(which)];
    return true;
  }
  /// Selection, at the runtime's time; arms the timeout watch when work is on hardware.
  void pump() DXGKIT_REQUIRES(on_lane) { owner_.pump(); }
  /// Something retired, completed or failed: what waits looks again, blocked thunks too.
  void progress() DXGKIT_REQUIRES(on_lane);

  // --- waiting; not on the lane ---
  /// Runs `ready` on the lane until it returns true; between tries waits for progress. False if the
  /// adapter failed or closed before that (`ready` is not asked again then).
  bool block_until(const std::function<bool()>& ready);
  /// The same for clients' calls that want memory: not asked while a power transition is under way.
  bool block_until_awake(const std::function<bool()>& ready);
  /// A thread that waits for progress by itself: for as long as this lives it is woken.
  class Waiting {
   public:
    explicit Waiting(AdapterCore& core) : core_(core) { core_.blocked_.fetch_add(1); }
    ~Waiting() { core_.blocked_.fetch_sub(1); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    /// Look at this before what you wait for, then wait for it to change.
    uint32_t seen() const { return core_.progress_.load(); }
    runtime::WaitResult wait_until(runtime::TimeNs deadline, uint32_t seen) {
      return core_.runtime().wait(core_.progress_, seen, deadline);
    }
    /// Runs work of the lane meanwhile.
    void wait_helping(uint32_t seen) { core_.lane_.wait_helping(core_.progress_, seen); }

   private:
    AdapterCore& core_;
  };
  /// For destroying: runs `work` with the stop kept out, or, once the stop began, after it has
  /// ended; `work` then finds the driver side gone.
  void while_stable(const std::function<void()>& work);
  /// The stop has ended.
  void set_stopped() { stopped_.set(); }

 private:
  Owner& owner_;
  const uint32_t interface_version_;
  const bool display_only_;
  runtime::Lane lane_;
  // Interrupts use what stands before and behind, and not the gate, which each call of a client
  // writes.
  alignas(kCacheLineBytes) Gate gate_;
  alignas(kCacheLineBytes) runtime::Event stopped_;
  std::unique_ptr<port::AdapterPort> port_;
  AdapterFacts facts_;

  // Lane:
  std::unique_ptr<vidmm::MemoryManager> memory_ DXGKIT_GUARDED_BY(on_lane);
  std::unique_ptr<vidsch::Scheduler> scheduler_ DXGKIT_GUARDED_BY(on_lane);
  AdapterStatistics counters_ DXGKIT_GUARDED_BY(on_lane);
  PowerPhase power_phase_ DXGKIT_GUARDED_BY(on_lane);
  uint64_t last_context_id_ DXGKIT_GUARDED_BY(on_lane) = 0, last_sync_id_
                                                            DXGKIT_GUARDED_BY(on_lane) = 0;
  bool failed_ DXGKIT_GUARDED_BY(on_lane) = false;

  // Written by whoever breaks the rule, read by thunks on every call: release/acquire so that the
  // finding is visible.
  std::atomic<bool> fatal_{false};
  // Counts progress; blocked thunks wait on it.
  std::atomic<uint32_t> progress_{0};
  std::atomic<uint32_t> blocked_{0};
};

}  // namespace dxgkit::dxgk
