// What clients do with GPU virtual addresses: reserve, map and free them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/va/gpu_space.h"
#include "dxgk/va/table_planner.h"
#include "dxgk/va/va_floor.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class PagingQueue;
class Process;

/// What a call of the client came to.
struct GpuVaOutcome {
  Status status = Status::kSuccess;  // failures change nothing
  uint64_t address = 0;
  uint64_t fence = 0;  // of the paging queue, once the page tables say so; 0: they do (VA-27)
};

/// All calls are on the client's thread, and block.
class ClientAddresses {
 public:
  explicit ClientAddresses(VaFloor& floor) : floor_(floor) {}

  /// VA-11..31. kNoMemory also without memory for page tables; kNotSupported: VA-22.
  GpuVaOutcome map(PagingQueue& queue, gpuva::MapRequest request,
                   const Ref<OpenedAllocation>& opened);
  /// VA-32..34. `queue` may be null: nothing to write then. The first one that succeeds makes the
  /// process's second space, if the GPU writes page tables; kNoMemory also without tables for that.
  GpuVaOutcome reserve(Process& process, PagingQueue* queue, const gpuva::ReserveRequest& request);
  /// VA-41. When the call returns, nothing on the GPU reaches the addresses any more.
  Status free(Process& process, uint64_t base, uint64_t size);

 private:
  using Work = TablePlanner::Work;
  /// Hands work to the executor with a fence of the queue around it.
  void enqueue(PagingQueue* queue, Work work, uint64_t* fence) DXGKIT_REQUIRES(on_lane);
  /// A claim or reservation takes effect at once; the paging executor's queue keeps the order.
  /// kNoMemory: it has been undone.
  Status take_effect(const std::shared_ptr<GpuSpace>& space, const gpuva::MapOperation& operation,
                     Work* work) DXGKIT_REQUIRES(on_lane);
  /// The process has a second space, if it needs one (VA-34).
  Status ensure_second(const GpuSpace& space, Work* work) DXGKIT_REQUIRES(on_lane);
  bool can_map_zero() const;
  uint64_t wished_alignment(const gpuva::MapRequest& request) const DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
};

}  // namespace dxgkit::dxgk
