#include "dxgk/va/resident_places.h"

namespace dxgkit::dxgk {

void ResidentPlaces::put(AllocationId allocation, const vidmm::Placement& place) {
  ++moves_;
  places_[allocation.value] = place;
  left_.erase(allocation.value);
}

void ResidentPlaces::take(AllocationId allocation) {
  ++moves_;
  places_.erase(allocation.value);
}

void ResidentPlaces::leave(AllocationId allocation, int64_t now_ns) {
  take(allocation);
  left_[allocation.value] = now_ns;
}

void ResidentPlaces::forget(AllocationId allocation) {
  if (places_.erase(allocation.value) != 0) ++moves_;
  written_with_.erase(allocation.value);
  left_.erase(allocation.value);
}

bool ResidentPlaces::entries_under_way(AllocationId allocation, uint64_t completed) const {
  const auto found = written_with_.find(allocation.value);
  return found != written_with_.end() && completed < found->second;
}

}  // namespace dxgkit::dxgk
