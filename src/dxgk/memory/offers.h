// Content that clients have offered, until the offer takes effect.
#pragma once

#include <vector>

#include "base/ids.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/id_table.h"
#include "dxgk/memory/allocation.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class PagingExecutor;
class Residency;

/// An offer takes effect as soon as the allocation is idle (ALLOC-44): from then on the memory
/// manager may drop the content.
///
/// Lane: the adapter's.
class Offers {
 public:
  Offers(AdapterCore& core, IdTable<Allocation, AllocationId>& allocations, PagingExecutor& paging,
         Residency& residency)
      : core_(core), allocations_(allocations), paging_(paging), residency_(residency) {}

  /// `allocation.offer` says with which priority.
  void begin(Allocation& allocation) DXGKIT_REQUIRES(on_lane);
  /// Something may have become idle.
  void advance() DXGKIT_REQUIRES(on_lane);
  bool empty() const DXGKIT_REQUIRES(on_lane) { return pending_.empty(); }

 private:
  void take(Allocation& allocation) DXGKIT_REQUIRES(on_lane);

  AdapterCore& core_;
  IdTable<Allocation, AllocationId>& allocations_;
  PagingExecutor& paging_;
  Residency& residency_;
  std::vector<AllocationId> pending_;
};

}  // namespace dxgkit::dxgk
