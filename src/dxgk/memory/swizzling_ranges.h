// Which allocation has which of a driver's swizzling ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "port/adapter_port.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// The ranges in which a driver of before WDDM 2.0 shows allocations to the CPU, unswizzled.
///
/// A range stays with its allocation and private data after the last unlock: the next lock with
/// both takes it without a call (ALLOC-52). It goes back to the driver before the allocation leaves
/// its place or is destroyed, and when another lock needs it.
///
/// Lane: the adapter's, which keeps calls of this class apart (IRQL-04).
class SwizzlingRanges {
 public:
  /// `count`: NumberOfSwizzlingRanges.
  SwizzlingRanges(port::AdapterPort& port, uint32_t count) : port_(port), ranges_(count) {}

  struct Request {
    AllocationId allocation;
    void* driver_allocation = nullptr;
    uint32_t private_data = 0;
    SegmentId segment;
    uint64_t size_bytes = 0;
    bool size_may_change = false;  // UseAlternateVA
    uint64_t address = 0;          // where the CPU sees it unswizzled; 0: nowhere
    bool operator==(const Request&) const DXGKIT_REQUIRES(on_lane) = default;
  };
  struct Shown {
    uint32_t range = 0;
    uint64_t address = 0, size_bytes = 0;  // as the driver answered
  };
  /// The range is in use until end_use(). Nothing: the driver refused, or all ranges are in use.
  std::optional<Shown> acquire(const Request& request) DXGKIT_REQUIRES(on_lane);
  void end_use(uint32_t range) DXGKIT_REQUIRES(on_lane);
  /// Before the content leaves its place: used ranges of the allocation go back to the driver, too.
  void release_of(AllocationId allocation) DXGKIT_REQUIRES(on_lane);

 private:
  struct Range {
    bool set_up = false;
    Request request;
    Shown shown;
    uint32_t uses = 0;  // locks
    uint64_t last_use = 0;
  };
  void release(Range& range) DXGKIT_REQUIRES(on_lane);
  /// The set-up range nobody uses whose last use is the longest ago; null: there is none.
  Range* oldest_unused() DXGKIT_REQUIRES(on_lane);

  port::AdapterPort& port_;
  std::vector<Range> ranges_;  // by RangeId
  uint64_t uses_ = 0;
};

}  // namespace dxgkit::dxgk
