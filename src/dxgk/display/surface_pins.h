// Surfaces that the display reads: pinned where they are.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/status.h"
#include "dxgk/display/display_core.h"
#include "dxgk/memory/allocation.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Where a surface is that the display reads.
struct PlacedSurface {
  SegmentId segment;
  uint64_t address = 0;
};

/// A client's surface while one of its calls looks at it: the allocation and the driver's object
/// stay, also if another thread destroys them meanwhile (ALLOC-27). Not on the lane.
class SurfaceHold {
 public:
  SurfaceHold(AdapterCore& core, const Ref<OpenedAllocation>& surface);
  ~SurfaceHold();
  SurfaceHold(const SurfaceHold&) = delete;
  SurfaceHold& operator=(const SurfaceHold&) = delete;
  /// False: it is being destroyed already, and nothing of it may be looked at.
  explicit operator bool() const { return held_; }

 private:
  AdapterCore& core_;
  const Ref<OpenedAllocation> surface_;
  bool held_ = false;
};

/// Brings a surface, a client's too, where the display can read it, pins it there, and waits for
/// its content (DISP-11). unpin_surface() follows. Off the lane. kDeviceRemoved: the adapter has
/// failed meanwhile. Else the failure of the memory manager; nothing is pinned then.
Result<PlacedSurface> pin_surface(DisplayCore& display, const OpenedAllocation& surface);

/// The display reads the surface no more. Nothing is left to do if the adapter has failed, or if
/// the allocation is gone.
void unpin_surface(AdapterCore& core, const OpenedAllocation& surface) DXGKIT_REQUIRES(on_lane);

}  // namespace dxgkit::dxgk
