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
#include "dxgk/core/adapter_options.h"
#include "dxgk/power/power_target.h"
#include "dxgk/work/timeout_report.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "verifier/findings.h"
#include "vidsch/policy.h"

namespace dxgkit::dxgk {

class Adapter;
class Process;

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
  /// SCHED-12, of all contexts of `process`, on all adapters. kInvalidParameter: `caller` lacks the
  /// privilege; state unchanged. Any thread but a lane.
  Status set_priority_class(const Process& caller, Process& process,
                            vidsch::PriorityClass priority_class);
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
