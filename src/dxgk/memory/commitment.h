// Pages of offered content that the system may have back.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/memory_floor.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Process;

/// Which offers a trimming looks at.
struct DecommitRequest {
  const Process* process = nullptr;                       // null: of all processes
  uint64_t bytes = std::numeric_limits<uint64_t>::max();  // enough when so many are free
  bool lazy = false;             // only what lies in system memory: nothing is waited for
  bool only_repurposed = false;  // only what has lost its content to others already
};

/// Commitment of one adapter's allocations (ALLOC-59): an allocation that was offered with
/// AllowDecommit, whose offer has taken effect, can lose its backing pages. What it showed in a
/// segment leaves first, and its content is lost. Reclaiming gives it pages again.
///
/// Shared allocations, those of client memory and permanent copies (ALLOC-48) keep their pages.
class Commitment {
 public:
  explicit Commitment(MemoryFloor& floor) : floor_(floor) {}

  /// Bytes that decommit() could free now, of one process.
  uint64_t decommittable(const Process& process) DXGKIT_REQUIRES(on_lane);
  /// Frees pages, the least valuable offers first, until `request.bytes` are free or no fitting
  /// offer is left. Bytes freed; less than that if an offer ended meanwhile. kDeviceRemoved: the
  /// adapter failed. Blocks; any thread but the lane.
  Result<uint64_t> decommit(const DecommitRequest& request);
  /// Zeroed backing pages for an allocation that has lost its own; others keep theirs. kNoMemory:
  /// there are none.
  Status recommit(Allocation& allocation) DXGKIT_REQUIRES(on_lane);
  /// The same for several at once, whose offers go on: all, or none and kNoMemory.
  Status recommit(std::span<Allocation* const> allocations) DXGKIT_REQUIRES(on_lane);

 private:
  struct Outcome;
  bool may_go(const Allocation& allocation) const DXGKIT_REQUIRES(on_lane);
  std::vector<Allocation*> offers_of(const Process* process) DXGKIT_REQUIRES(on_lane);
  void choose(const DecommitRequest& request, const std::shared_ptr<Outcome>& outcome)
      DXGKIT_REQUIRES(on_lane);
  static uint64_t release(MemoryFloor& floor, Allocation& allocation) DXGKIT_REQUIRES(on_lane);
  static uint64_t release_if_gone(MemoryFloor& floor, AllocationId id) DXGKIT_REQUIRES(on_lane);

  MemoryFloor& floor_;
};

}  // namespace dxgkit::dxgk
