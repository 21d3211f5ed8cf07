#include "dxgk/va/system_pages.h"

#include <algorithm>
#include <utility>

#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/table_planner.h"

namespace dxgkit::dxgk {

Result<uint64_t> SystemPages::map_system_page(uint32_t process, bus::PageFrame page,
                                              std::function<void()> then) {
  const std::shared_ptr<GpuSpace> space = floor_.spaces->of(process);
  if (!space) return Error(Status::kInvalidParameter);
  // What maps it is known by the id of an allocation that the memory manager has never heard of.
  Allocation& stand_in = floor_.allocations.create();
  gpuva::MapRequest request;
  request.allocation = stand_in.id;
  request.size_pages = request.allocation_pages = 1;
  request.protection.write = true;
  request.system = true;
  const Result<gpuva::MapOperation> claimed = space->addresses.claim(request, ++space->sequence);
  if (!claimed.has_value()) {
    floor_.allocations.destroy(stand_in);
    return Error(claimed.error());
  }
  const uint64_t address = claimed->mapping.span.address();
  pages_[stand_in.id.value] = {.page = page, .process = process, .address = address};
  gpuva::PageSpans changed;
  space->addresses.apply(*claimed, &changed);
  TablePlanner::Work work;
  if (const Status status = floor_.planner->replan(space, changed, &work); !is_success(status)) {
    DXGKIT_CHECK(
        is_success(space->addresses.free_system(address, kPageBytes, ++space->sequence, nullptr)));
    pages_.erase(stand_in.id.value);
    floor_.allocations.destroy(stand_in);
    return Error(status);
  }
  floor_.paging->enqueue_work(std::move(work), std::move(then));
  floor_.core.pump();
  return address;
}

void SystemPages::unmap_system_page(uint32_t process, uint64_t address,
                                    std::function<void()> then) {
  const std::shared_ptr<GpuSpace> space = floor_.spaces->of(process);
  gpuva::PageSpans changed;
  if (space) {
    DXGKIT_CHECK(
        is_success(space->addresses.free_system(address, kPageBytes, ++space->sequence, &changed)));
  }
  const auto found = std::ranges::find_if(pages_, [&](const auto& entry) {
    return entry.second.process == process && entry.second.address == address;
  });
  if (found != pages_.end()) {
    floor_.allocations.destroy(floor_.allocations.at(AllocationId{found->first}));
    pages_.erase(found);
  }
  // After a failure nothing of paging goes on: stop() ends what the hardware may still reach.
  if (!space || floor_.core.failed()) return then();
  TablePlanner::Work work;
  floor_.planner->replan_or_hide(space, changed, &work);
  floor_.paging->enqueue_work(std::move(work), std::move(then));
  floor_.core.pump();
}

std::optional<gpuva::PteSource> SystemPages::source(AllocationId allocation) const {
  const auto found = pages_.find(allocation.value);
  if (found == pages_.end()) return std::nullopt;
  const gpuva::Geometry& geometry = floor_.spaces->geometry();
  gpuva::PteSource source;
  source.kind = gpuva::PteSource::Kind::kSame;
  source.no_execute = geometry.no_execute;
  source.cache_coherent = geometry.cache_coherent;
  source.first_page = found->second.page.value;
  return source;
}

}  // namespace dxgkit::dxgk
