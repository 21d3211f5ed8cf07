// The graphics kernel of one machine: its adapters and the processes that use them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bus/machine.h"
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

struct AdapterOptions {
  CheckLevel check_level = CheckLevel::kReference;
  /// A node without progress this long, with work on it, is a timeout (TdrDelay): a finding, and
  /// the adapter stops.
  int64_t tdr_delay_ns = 2'000'000'000;
  /// Changes what the driver answers, in simulation. Outlives the adapter.
  port::FaultInjector* faults = nullptr;
  /// Content moves in sub-transfers of at most this many bytes (PAGE-19); a multiple of 4096.
  uint64_t transfer_chunk_bytes = uint64_t{64} << 20;
};

/// Sums over an adapter's life, for summaries and tests.
struct AdapterStatistics {
  uint64_t packets_submitted = 0, paging_packets = 0, packets_completed = 0, packets_cancelled = 0,
           packets_faulted = 0;
  uint64_t patch_locations = 0, dma_bytes = 0, interrupts = 0, dpcs = 0, sync_signals = 0;
  uint64_t page_ins = 0, page_outs = 0, bytes_in = 0, bytes_out = 0, evictions = 0, fills = 0,
           aperture_maps = 0;
  uint64_t splits = 0, multipass_renders = 0, multipass_paging = 0;
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

  /// The adapters that are running, in start order.
  std::vector<Luid> adapters() const;
  Result<AdapterStatistics> statistics(Luid adapter) const;

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
