// NT system time, computed from the runtime's clock.
#pragma once

#include <cstdint>

#include "runtime/runtime.h"

namespace dxgkit::nt {

/// NT system time (100 ns since 1601) when a runtime's clock reads 0: a fixed date, so that runs
/// repeat.
inline constexpr int64_t kSystemTimeAtStart = 133'800'000'000'000'000;

/// A clock tick in 100 ns units, the answer of KeQueryTimeIncrement: 1/64 s, the common value.
inline constexpr uint32_t kSystemTimeTick = 156'250;

/// An NT timeout as a time of the runtime whose clock reads `now`. Negative values are relative
/// (100 ns units), positive ones are dates since 1601, 0 is now, and null is for ever.
inline runtime::TimeNs deadline_of(runtime::TimeNs now, const int64_t* timeout) {
  if (timeout == nullptr) return runtime::kForever;
  const int64_t units = *timeout;
  if (units <= 0) {
    const uint64_t magnitude = 0 - static_cast<uint64_t>(units);
    if (magnitude > static_cast<uint64_t>(runtime::kForever - now) / 100) return runtime::kForever;
    return now + static_cast<runtime::TimeNs>(magnitude * 100);
  }
  const int64_t since_start = units - kSystemTimeAtStart;
  if (since_start <= 0) return 0;
  return since_start > runtime::kForever / 100 ? runtime::kForever : since_start * 100;
}

}  // namespace dxgkit::nt
