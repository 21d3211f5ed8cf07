// The driver makes memory for its contexts.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "dxgk/core/adapter_core.h"
#include "port/types.h"

namespace dxgkit::dxgk {

class ContextAllocations;
class GpuVa;

/// DxgkCbCreateContextAllocation and its kin: judges what the driver asks for (RES-31), then asks
/// ContextAllocations. Any thread.
class ContextAllocationCalls {
 public:
  explicit ContextAllocationCalls(AdapterCore& core) : core_(core) {}
  /// From here on there is memory. `gpu_va` is null in the patch model.
  void connect(ContextAllocations& context_allocations, GpuVa* gpu_va) {
    context_allocations_ = &context_allocations;
    gpu_va_ = gpu_va;
  }

  /// kInvalidParameter: a finding says what is wrong; kNotSupported: mapped at once; kNoMemory.
  Status create(const port::ContextAllocationRequest& request, uint64_t* handle);
  Status destroy(uint64_t handle);
  /// Writes through the paging context and returns when that is done. kNotSupported: the patch
  /// model. kGraphicsAllocationBusy: a power transition is under way.
  Status update(uint64_t handle, std::span<const std::byte> data);
  bool contains(uint64_t handle);

 private:
  AdapterCore& core_;
  ContextAllocations* context_allocations_ = nullptr;
  GpuVa* gpu_va_ = nullptr;
};

}  // namespace dxgkit::dxgk
