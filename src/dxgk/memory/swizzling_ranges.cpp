#include "dxgk/memory/swizzling_ranges.h"

#include <algorithm>

#include "base/check.h"

namespace dxgkit::dxgk {

std::optional<SwizzlingRanges::Shown> SwizzlingRanges::acquire(const Request& request) {
  for (Range& range : ranges_) {
    if (!range.set_up || range.request.allocation != request.allocation ||
        range.request.private_data != request.private_data) {
      continue;
    }
    if (range.request == request) {
      ++range.uses;
      range.last_use = ++uses_;
      return range.shown;
    }
    // For another size, or from when it lay elsewhere.
    if (range.uses == 0) release(range);
  }
  auto found = std::ranges::find_if(ranges_, [](const Range& range) { return !range.set_up; });
  Range* target = found != ranges_.end() ? &*found : oldest_unused();
  if (target == nullptr) return std::nullopt;
  if (target->set_up) release(*target);
  const auto id = static_cast<uint32_t>(target - ranges_.data());
  for (;;) {
    port::SwizzlingRange asked{.allocation = request.driver_allocation,
                               .private_data = request.private_data,
                               .range = id,
                               .segment = request.segment,
                               .size_bytes = request.size_bytes,
                               .size_may_change = request.size_may_change,
                               .address = request.address};
    const Status status = port_.cpu_access().acquire_swizzling_range(&asked);
    if (is_success(status)) {
      *target = {.set_up = true,
                 .request = request,
                 .shown = {id, asked.address, asked.size_bytes},
                 .uses = 1,
                 .last_use = ++uses_};
      return target->shown;
    }
    // ALLOC-53: something behind the ranges has run out. Another range may have it.
    if (status != Status::kGraphicsUnswizzlingApertureUnavailable) return std::nullopt;
    Range* const victim = oldest_unused();
    if (victim == nullptr) return std::nullopt;
    release(*victim);
  }
}

void SwizzlingRanges::end_use(uint32_t range) {
  DXGKIT_CHECK(ranges_[range].uses > 0);
  --ranges_[range].uses;
}

void SwizzlingRanges::release_of(AllocationId allocation) {
  for (Range& range : ranges_) {
    if (range.set_up && range.request.allocation == allocation) release(range);
  }
}

void SwizzlingRanges::release(Range& range) {
  const auto id = static_cast<uint32_t>(&range - ranges_.data());
  port_.cpu_access().release_swizzling_range(range.request.driver_allocation,
                                             range.request.private_data, id);
  range = {};
}

SwizzlingRanges::Range* SwizzlingRanges::oldest_unused() {
  Range* oldest = nullptr;
  for (Range& range : ranges_) {
    if (!range.set_up || range.uses != 0) continue;
    if (oldest == nullptr || range.last_use < oldest->last_use) oldest = &range;
  }
  return oldest;
}

}  // namespace dxgkit::dxgk
