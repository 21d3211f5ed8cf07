// Paging buffers in an aperture segment (SEG-47).
#pragma once

#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/id_table.h"
#include "dxgk/memory/allocation.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class PagingExecutor;
class Teardowns;

/// Maps the executor's buffers where the driver wants them. They serve from system memory until the
/// first of them has mapped them, and again after they were unmapped.
class PagingBuffers {
 public:
  PagingBuffers(AdapterCore& core, IdTable<Allocation, AllocationId>& allocations,
                PagingExecutor& paging, Teardowns& teardowns)
      : core_(core), allocations_(allocations), paging_(paging), teardowns_(teardowns) {}

  /// Not on the lane. Nothing to do where buffers have virtual addresses.
  Status map();
  void unmap();
  /// As unmap, where what was mapped is gone, or is about to go.
  void drop() DXGKIT_REQUIRES(on_lane);
  /// None is mapped. On the lane or off it.
  bool empty() const;
  bool contains(AllocationId id) const DXGKIT_REQUIRES(on_lane);

 private:
  AdapterCore& core_;
  IdTable<Allocation, AllocationId>& allocations_;
  PagingExecutor& paging_;
  Teardowns& teardowns_;
  std::vector<AllocationId> mapped_ DXGKIT_GUARDED_BY(on_lane);  // by buffer index
};

}  // namespace dxgkit::dxgk
