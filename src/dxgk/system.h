// The graphics kernel of one machine: its adapters and the processes that use them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bus/machine.h"
#include "dxgk/verifier_switches.h"
#include "dxgk/work/timeout_report.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "verifier/findings.h"

namespace dxgkit::port {
class FaultInjector;
}

namespace dxgkit::dxgk {

class Adapter;
class Process;

/// Locally unique id of an adapter, as clients name it (LUID).
struct Luid {
  uint32_t low = 0;
  int32_t high = 0;
  auto operator<=>(const Luid&) const = default;
};

/// How much of the driver's work is checked against a reference while it runs.
enum class CheckLevel { kOff, kReference };

/// Which packets DxgkDdiCancelCommand is called for; its pages say two things (gap G-09).
enum class CancelReading {
  kNeverSubmitted,  // those that never were in the hardware queue, as the function's page says
  kAlsoGivenBack,   // those, too, that came back from it, as the structure's page may be read
};

struct AdapterOptions {
  CheckLevel check_level = CheckLevel::kReference;
  /// TdrDelay, where the registry does not say (TDR-01).
  int64_t tdr_delay_ns = 2'000'000'000;
  /// In place of what the registry says, `tdr_delay_ns` included.
  std::optional<TimeoutPolicy> timeouts = {};
  /// Processes at work are told this often to let go of what they did not use since (RES-19); 0:
  /// never.
  int64_t periodic_trim_ns = 0;
  /// Vertical syncs without anything to do before a driver that saves power there is told to stop
  /// reporting them (DISP-12, VsyncIdleTimeout); 0: never.
  uint32_t vsync_idle_periods = 10;
  /// Changes what the driver answers, in simulation. Outlives the adapter.
  port::FaultInjector* faults = nullptr;
  /// Content moves in sub-transfers of at most this many bytes (PAGE-19); a multiple of 4096.
  uint64_t transfer_chunk_bytes = uint64_t{64} << 20;
  /// Rare paths, taken always (REND-28).
  VerifierSwitches verifier = {};
  CancelReading cancel_reading = CancelReading::kNeverSubmitted;  // CANCEL-21
};

/// Sums over an adapter's life, for summaries and tests.
struct AdapterStatistics {
  /// `packets_submitted`: each time one went to hardware; `packets_resubmitted` of them had been
  /// there before, and were preempted or reset.
  uint64_t packets_submitted = 0, packets_resubmitted = 0, paging_packets = 0,
           packets_completed = 0, packets_cancelled = 0, packets_faulted = 0;
  uint64_t engine_resets = 0, adapter_resets = 0;
  uint64_t patch_locations = 0, dma_bytes = 0, interrupts = 0, dpcs = 0, sync_signals = 0;
  uint64_t page_ins = 0, page_outs = 0, bytes_in = 0, bytes_out = 0, evictions = 0, fills = 0,
           aperture_maps = 0;
  uint64_t splits = 0, multipass_renders = 0, multipass_paging = 0;
  /// How often each switch of the verifier has changed the way, by VerifierSwitch.
  std::array<uint64_t, kVerifierSwitches> verifier_strikes = {};
};

/// Where a power transition goes. D1 to D3 are device states while the machine runs on; the others
/// take the machine along and the adapter to D3.
enum class PowerTarget { kD0, kD1, kD2, kD3, kStandby, kHybridSleep, kHibernate };

/// What a way down did, in allocations (internal ones included).
struct PowerOutcome {
  uint64_t kept = 0;          // stay in their segments
  uint64_t written_back = 0;  // left, content to system memory
  uint64_t bytes_written_back = 0;
  uint64_t dropped = 0;  // left without a transfer: clean, given up, or mapped through an aperture
  uint64_t lost = 0;     // content went with a power failure; their devices are lost
  bool operator==(const PowerOutcome&) const = default;
};

/// Owns adapters and processes. Made inside a runtime (Runtime::current()). Thread-safe.
class System {
 public:
  System(runtime::Runtime& runtime, bus::Machine& machine, nt::Kernel& kernel,
         verifier::Findings& findings);
  /// Stops every adapter (LIFE-18), ends every process.
  ~System();

  /// AddDevice .. paging buffers (LIFE-07). On failure the driver's StopDevice / RemoveDevice have
  /// been called as LIFE-11 and LIFE-12 say, a finding names DDI, status and rule, and
  /// kDeviceConfigurationError or the DDI's own failure is returned. `driver` and `function` must
  /// outlive the adapter.
  Result<Luid> start_adapter(port::Driver& driver, bus::PciFunction& function,
                             const AdapterOptions& options = {});
  /// LIFE-18. Open handles of clients survive and answer kDeviceRemoved. kInvalidParameter:
  /// unknown.
  Status stop_adapter(Luid adapter);

  /// Takes an adapter to a power state and back, at level three (PWR-01..11). Down: new work is
  /// held, what has its memory runs to its end, what the state does not preserve goes to system
  /// memory, then the driver is told. Up: the driver, paging buffers, what CPUs have locked; the
  /// rest comes back as it is used. Clients' calls wait meanwhile; CPU writes through locked
  /// addresses of memory segments must not come during a call (Windows freezes processes). What a
  /// state is in now: success, nothing done. Blocks; any thread but the lane.
  /// kInvalidParameter: unknown adapter, or from one low state to another. kRetry: power failed on
  /// the way up, the adapter sleeps as before. kGraphicsAllocationBusy: something cannot leave, the
  /// adapter is awake. kDeviceRemoved: it failed, is stopping, or is gone (remove_adapter is due).
  /// A driver's failure is a violation and taken for success (PWR-02).
  Result<PowerOutcome> set_power(Luid adapter, PowerTarget target);
  /// The platform's power went away, as it would be for `during`: in the middle of a transition,
  /// which then goes on with what is left, or without one. Work on hardware is over, segments keep
  /// what they keep, content that was only elsewhere is lost, and with it the devices that opened
  /// it or had work with memory (DeviceState::kReset). The adapter sleeps afterwards (a transition
  /// under way: when that ends); set_power(kD0) wakes it. kInvalidParameter: unknown, kD0, or
  /// asleep already. kNotSupported: display-only.
  Status power_failed(Luid adapter, PowerTarget during);
  /// Blocks until the adapter has completed so many packets since its start: true. False when it
  /// fails, is gone, or `cancelled` is set and nudge() called. Any thread but the lane.
  bool wait_for_packets(Luid adapter, uint64_t completed, const std::atomic<bool>& cancelled);
  /// Whoever waits for the adapter to get on looks again.
  void nudge(Luid adapter);
  /// Surprise removal: the hardware has left the bus (bus::Machine::pull_out). Notifies the driver
  /// where it supports that (LIFE-21), fails everything open with kDeviceRemoved, stops and removes
  /// the adapter, software only. kInvalidParameter: unknown.
  Status remove_adapter(Luid adapter);

  /// The adapters that are running, in start order.
  std::vector<Luid> adapters() const;
  Result<AdapterStatistics> statistics(Luid adapter) const;
  /// Report events of timeouts since its start (TDR-07), oldest first.
  Result<std::vector<TimeoutReport>> timeouts(Luid adapter) const;

  /// A client process: an id space of handles. It lives until `end_process`.
  Process& create_process(std::string name);
  /// Process exit: destroys everything the process owns, in order (THUNK-08). Blocks until its work
  /// is drained or aborted. Its threads may be inside thunks, also blocked there: those end with an
  /// error, later ones answer STATUS_PROCESS_IS_TERMINATING, and all have left before this returns.
  void end_process(Process& process);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::dxgk
