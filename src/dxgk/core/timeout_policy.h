// What is done about timeouts.
#pragma once

#include <cstdint>

namespace dxgkit::dxgk {

/// TDR-02..06, with the documented defaults. In the registry, under Control\GraphicsDrivers:
/// TdrLevel, TdrDelay and TdrDdiDelay (seconds), TdrDebugMode, TdrLimitCount, TdrLimitTime
/// (seconds).
struct TimeoutPolicy {
  uint32_t level = 3;       // 0 off, 1 bug check, 2 and 3 recover
  uint32_t debug_mode = 2;  // 0 note for a debugger, 1 ignore, 2 recover, 3 recover past the limits
  int64_t delay_ns = 2'000'000'000;      // 0 or less: no detection
  int64_t ddi_delay_ns = 5'000'000'000;  // threads inside the driver leave within this (TDR-04)
  uint32_t limit_count = 5;
  int64_t limit_time_ns = 60'000'000'000;
};

/// A timeout that somebody provokes to see the driver recover. It counts against no limit (TDR-05,
/// TDR-06).
enum class ProvokedTimeouts {
  kNone,
  kAnyReset,      // recovered as any other timeout
  kAdapterReset,  // always by a reset of the adapter, as if the driver could not reset one engine
};

}  // namespace dxgkit::dxgk
