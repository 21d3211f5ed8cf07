// What the CPU's ways into memory segments share: swizzling ranges, pages of host apertures.
#include "dxgk/adapter/adapter.h"
#include "dxgk/memory/residency.h"

namespace dxgkit::dxgk {

std::optional<uint32_t> Adapter::take_swizzling_range() {
  swizzling_ranges_.resize(caps_.number_of_swizzling_ranges);
  for (uint32_t range = 0; range < swizzling_ranges_.size(); ++range) {
    if (swizzling_ranges_[range]) continue;
    swizzling_ranges_[range] = true;
    return range;
  }
  return std::nullopt;
}

std::vector<uint32_t> Adapter::take_host_pages(SegmentId segment, uint64_t count) {
  std::vector<bool>& taken = host_apertures_[segment.value];
  taken.resize(segment_infos_.segments[segment.value - 1].host_aperture_pages);
  std::vector<uint32_t> pages;
  for (uint32_t page = 0; page < taken.size() && pages.size() < count; ++page) {
    if (!taken[page]) pages.push_back(page);
  }
  if (pages.size() < count) return {};
  for (const uint32_t page : pages) taken[page] = true;
  return pages;
}

void Adapter::drop_host_pages(SegmentId segment, std::span<const uint32_t> pages) {
  std::vector<bool>& taken = host_apertures_[segment.value];
  for (const uint32_t page : pages) taken[page] = false;
}

void Adapter::end_cpu_access(OpenedAllocation& opened) {
  CpuAccess* const cpu = opened.cpu_if_any();
  if (cpu == nullptr) return;
  if (cpu->swizzled) {
    cpu->swizzled = false;
    port_->release_swizzling_range(opened.driver_allocation, cpu->swizzling_data,
                                   cpu->swizzling_range);
    drop_swizzling_range(cpu->swizzling_range);
  }
  if (!cpu->host_pages.empty()) {
    // Of a driver that keeps them mapped other pages are used: nothing is lost but those.
    static_cast<void>(port_->unmap_cpu_host_aperture(cpu->host_segment, cpu->host_pages));
    drop_host_pages(cpu->host_segment, cpu->host_pages);
    cpu->host_pages.clear();
  }
}

bool Adapter::idle(const Allocation& allocation) {
  // Not pins: what is shown, or was asked to stay, is pinned without anybody working on it.
  for (const OpenedAllocation* opened : allocation.opened) {
    if (opened->uses != 0) return false;
    // Work at virtual addresses may reach all that is listed by the time it runs.
    if (gpu_va_ && residency_->has_work_with(*opened)) return false;
  }
  return true;
}

}  // namespace dxgkit::dxgk
