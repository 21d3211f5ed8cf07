// Where allocations are, as far as the paging executor's queue goes.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/ids.h"
#include "runtime/thread_annotations.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

/// Page-table entries are planned from these places. Lane: the adapter's.
class ResidentPlaces {
 public:
  /// Null: the allocation is in no segment.
  const vidmm::Placement* find(AllocationId allocation) const DXGKIT_REQUIRES(on_lane) {
    const auto found = places_.find(allocation.value);
    return found == places_.end() ? nullptr : &found->second;
  }
  bool contains(AllocationId allocation) const DXGKIT_REQUIRES(on_lane) {
    return places_.contains(allocation.value);
  }
  /// Counts changes: a plan is of now while this has not changed since.
  uint64_t moves() const DXGKIT_REQUIRES(on_lane) { return moves_; }
  /// When the allocation left its segment; nullopt: it is in one, or has not been.
  std::optional<int64_t> left_ns(AllocationId allocation) const DXGKIT_REQUIRES(on_lane) {
    const auto found = left_.find(allocation.value);
    return found == left_.end() ? std::nullopt : std::optional<int64_t>(found->second);
  }

  /// The allocation is there from now on.
  void put(AllocationId allocation, const vidmm::Placement& place) DXGKIT_REQUIRES(on_lane);
  /// It is in no segment from now on, without having left one for another's sake.
  void take(AllocationId allocation) DXGKIT_REQUIRES(on_lane);
  /// It leaves its segment at this time.
  void leave(AllocationId allocation, int64_t now_ns) DXGKIT_REQUIRES(on_lane);
  /// There is no such allocation any more.
  void forget(AllocationId allocation) DXGKIT_REQUIRES(on_lane);
  /// Keeps those places of which `keep(allocation, place)` says so. All count as moved.
  template <typename Keep>
  void keep_if(Keep keep) DXGKIT_REQUIRES(on_lane) {
    std::erase_if(
        places_, [&](const auto& entry) { return !keep(AllocationId{entry.first}, entry.second); });
    ++moves_;
  }
  void clear() DXGKIT_REQUIRES(on_lane) { places_.clear(); }

  /// The entries of the allocation's place are written once the paging executor has completed so
  /// many operations.
  void written_with(AllocationId allocation, uint64_t operations) DXGKIT_REQUIRES(on_lane) {
    written_with_[allocation.value] = operations;
  }
  /// The allocation has moved, and with so many operations completed its entries are not all
  /// written yet.
  bool entries_under_way(AllocationId allocation, uint64_t completed) const
      DXGKIT_REQUIRES(on_lane);

 private:
  // All are looked up only.
  std::unordered_map<uint64_t, vidmm::Placement> places_ DXGKIT_GUARDED_BY(on_lane);
  uint64_t moves_ DXGKIT_GUARDED_BY(on_lane) = 0;
  std::unordered_map<uint64_t, int64_t> left_ DXGKIT_GUARDED_BY(on_lane);
  std::unordered_map<uint64_t, uint64_t> written_with_ DXGKIT_GUARDED_BY(on_lane);
};

}  // namespace dxgkit::dxgk
