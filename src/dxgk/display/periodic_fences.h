// Monitored fences that vertical syncs signal (SYNC-25).
#pragma once

#include <cstdint>

#include "base/status.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

struct DisplayFloor;

/// The longest a periodic fence may be ahead of vertical syncs: the frame of the slowest display
/// that modes describe, 10 per second.
inline constexpr int64_t kFrameMostNs = 100'000'000;

/// A target has told a vertical sync: every periodic fence of it gets one value more, unless it had
/// it ahead of this one, as it asked for. How far the next one is the last two say; a fence that
/// was not signalled ahead, as before there are two, is signalled now: once per vertical sync in
/// any case. Lane.
void signal_periodic_fences(DisplayFloor& floor, uint32_t target) DXGKIT_REQUIRES(on_lane);

/// kInvalidParameter: the adapter has no such target, or the lead is longer than a frame of what it
/// shows; kFrameMostNs while it shows nothing. Any thread but the lane.
Status check_periodic(DisplayFloor& floor, uint32_t target, uint64_t lead_100ns);

}  // namespace dxgkit::dxgk
