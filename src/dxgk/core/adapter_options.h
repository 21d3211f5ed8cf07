// What a host decides about an adapter, and what the adapter counts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "dxgk/core/timeout_policy.h"
#include "dxgk/core/verifier_switches.h"

namespace dxgkit::port {
class FaultInjector;
}

namespace dxgkit::verifier {
class SituationLog;
}

namespace dxgkit::dxgk {

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
  /// The first packet that is overdue ends the adapter if nothing was ever reported complete
  /// (TDR-01): recovery after recovery would bring nothing else.
  bool silence_ends_it = false;
  /// Processes at work are told this often to let go of what they did not use since (RES-19); 0:
  /// never.
  int64_t periodic_trim_ns = 0;
  /// Vertical syncs without anything to do before a driver that saves power there is told to stop
  /// reporting them (DISP-12, VsyncIdleTimeout); 0: never.
  uint32_t vsync_idle_periods = 10;
  /// The start may fail, for lack of memory its display, too: nothing is said (LIFE-11, DOD-03).
  bool may_fail_to_start = false;
  /// Changes what the driver answers, in simulation. Outlives the adapter.
  port::FaultInjector* faults = nullptr;
  /// Counts what the driver is confronted with. Outlives the adapter. Null: nobody wants to know.
  verifier::SituationLog* situations = nullptr;
  /// Content moves in sub-transfers of at most this many bytes (PAGE-19), and aperture segments are
  /// mapped in parts of at most this many; a multiple of 4096.
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
  uint64_t watch_preemptions = 0;  // asked for because a node did not get on for TdrDelay
  uint64_t patch_locations = 0, dma_bytes = 0, interrupts = 0, dpcs = 0, sync_signals = 0;
  /// Page-ins: transfers into memory, and returns into an aperture. Page-outs: transfers to system
  /// memory. `returns`: evicted allocations that came back, by a transfer, a fill or a map.
  uint64_t page_ins = 0, page_outs = 0, bytes_in = 0, bytes_out = 0, evictions = 0, returns = 0,
           fills = 0, aperture_maps = 0;
  uint64_t splits = 0, multipass_renders = 0, multipass_paging = 0;
  /// How often each switch of the verifier has changed the way, by VerifierSwitch.
  std::array<uint64_t, kVerifierSwitches> verifier_strikes = {};
};

}  // namespace dxgkit::dxgk
