// Adapters: their options, statistics and power states, which D3DKMT does not offer.
#pragma once

#include <cstdint>

namespace dxgkit {

/// The two halves of an adapter's LUID, as D3DKMTOpenAdapterFromLuid takes it.
struct AdapterId {
  uint32_t low = 0;
  int32_t high = 0;
  bool operator==(const AdapterId&) const = default;
};

struct AdapterOptions {
  /// How long one piece of work may take before its engine counts as hung, in ns, > 0. TdrDelay in
  /// the registry takes precedence.
  int64_t tdr_delay_ns = 2'000'000'000;
  /// Compares what the driver patches with a reference (PATCH-13, PATCH-27). Costs time.
  bool reference_checks = true;
};

/// Sums since the adapter started.
struct AdapterStatistics {
  uint64_t packets_submitted = 0;  // counts a packet each time it goes to the hardware
  uint64_t packets_completed = 0, packets_cancelled = 0, packets_faulted = 0;
  uint64_t paging_packets = 0, page_ins = 0, page_outs = 0, bytes_in = 0, bytes_out = 0;
  uint64_t evictions = 0, patch_locations = 0, interrupts = 0;
  uint64_t engine_resets = 0, adapter_resets = 0;
};

/// In D0 the device is awake. D1 to D3 put the device to sleep while the machine runs. The other
/// states put the whole machine to sleep.
enum class PowerState { kD0, kD1, kD2, kD3, kStandby, kHybridSleep, kHibernate };

}  // namespace dxgkit
