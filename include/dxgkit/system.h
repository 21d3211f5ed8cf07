// Adapters: what can be asked of them, and done to them, beside D3DKMT.
#pragma once

#include <cstdint>

namespace dxgkit {

/// Names an adapter for D3DKMTOpenAdapterFromLuid. The parts of a LUID.
struct AdapterId {
  uint32_t low = 0;
  int32_t high = 0;
  bool operator==(const AdapterId&) const = default;
};

struct AdapterOptions {
  /// TdrDelay in ns where the registry does not say: how long work may take before the engine
  /// counts as hung. > 0.
  int64_t tdr_delay_ns = 2'000'000'000;
  /// Compares what the driver patches with a reference (PATCH-13, PATCH-27). Costs time.
  bool reference_checks = true;
};

/// Sums since the adapter started.
struct AdapterStatistics {
  uint64_t packets_submitted = 0;  // each time one went to hardware
  uint64_t packets_completed = 0, packets_cancelled = 0, packets_faulted = 0;
  uint64_t paging_packets = 0, page_ins = 0, page_outs = 0, bytes_in = 0, bytes_out = 0;
  uint64_t evictions = 0, patch_locations = 0, interrupts = 0;
  uint64_t engine_resets = 0, adapter_resets = 0;
};

/// D0 is awake. D1 to D3 are states of the device while the machine runs; the others take the
/// machine along.
enum class PowerState { kD0, kD1, kD2, kD3, kStandby, kHybridSleep, kHibernate };

}  // namespace dxgkit
