// Where a power transition goes, and what it did.
#pragma once

#include <cstdint>

namespace dxgkit::dxgk {

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

}  // namespace dxgkit::dxgk
