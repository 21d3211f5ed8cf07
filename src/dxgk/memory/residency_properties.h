// D3DKMTUpdateAllocationProperty: what clients change of allocations.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "dxgk/memory/allocation.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class PagingQueue;
struct MemoryFloor;

/// One update. Lane: the adapter's.
class AllocationProperties {
 public:
  explicit AllocationProperties(MemoryFloor& floor) : floor_(floor) {}

  /// What of `update` says something new of the allocation (THUNK-33).
  port::PropertyUpdate news_of(const OpenedAllocation& opened, const port::PropertyUpdate& update)
      DXGKIT_REQUIRES(on_lane);
  /// Changes what the client may change of an allocation; the driver has agreed. What is in a
  /// segment it may not be in any more leaves it: `*fence` of the queue (0: at once). The next work
  /// of who lists it brings it back. kInvalidParameter: the preference is no part of the set, or no
  /// segment of it can hold the size; kGraphicsAllocationBusy: it would have to leave, and work in
  /// flight or the CPU uses it. Nothing changed then (RES-32).
  Status update(PagingQueue& queue, OpenedAllocation& opened, const port::PropertyUpdate& update,
                uint64_t* fence) DXGKIT_REQUIRES(on_lane);

 private:
  MemoryFloor& floor_;
};

}  // namespace dxgkit::dxgk
