// Where an adapter stands between on and off.
#pragma once

#include <cstdint>

#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Power (power/) writes it; whoever needs memory or the driver reads it.
///
/// Lane: the adapter's.
struct PowerPhase {
  enum class Phase : uint8_t { kAwake, kFalling, kAsleep, kRising, kExcluding };
  Phase phase = Phase::kAwake;
  bool lost = false;  // power failed in the transition under way

  /// False from the hold to the release of a transition: clients that want memory wait.
  bool awake() const DXGKIT_REQUIRES(on_lane) { return phase == Phase::kAwake; }
  bool asleep() const DXGKIT_REQUIRES(on_lane) { return phase == Phase::kAsleep; }
  /// The hardware is off: the driver may be called for its wake-up only.
  bool off() const DXGKIT_REQUIRES(on_lane) { return asleep() || lost; }
};

}  // namespace dxgkit::dxgk
