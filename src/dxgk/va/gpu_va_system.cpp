// Pages of system memory that the kernel shows to engines at addresses of a process.
#include <algorithm>
#include <utility>

#include "dxgk/adapter/adapter.h"
#include "dxgk/memory/paging_queue.h"
#include "dxgk/va/gpu_va.h"

namespace dxgkit::dxgk {

Result<uint64_t> GpuVa::map_system_page(uint32_t process, bus::PageFrame page,
                                        std::function<void()> then) {
  const std::shared_ptr<GpuSpace> space = space_of(process);
  if (!space) return Error(Status::kInvalidParameter);
  // What maps it is known by the id of an allocation that the memory manager has never heard of.
  Allocation& stand_in = adapter_.allocations().create();
  gpuva::MapRequest request;
  request.allocation = stand_in.id;
  request.size_pages = request.allocation_pages = 1;
  request.protection.write = true;
  request.system = true;
  const Result<gpuva::MapOperation> claimed = space->addresses.claim(request, ++space->sequence);
  if (!claimed.has_value()) {
    adapter_.allocations().destroy(stand_in);
    return Error(claimed.error());
  }
  const uint64_t address = claimed->mapping.span.address();
  system_pages_[stand_in.id.value] = {.page = page, .process = process, .address = address};
  gpuva::PageSpans changed;
  space->addresses.apply(*claimed, &changed);
  Work work;
  if (const Status status = replan(space, changed, &work); !is_success(status)) {
    DXGKIT_CHECK(
        is_success(space->addresses.free_system(address, kPageBytes, ++space->sequence, nullptr)));
    system_pages_.erase(stand_in.id.value);
    adapter_.allocations().destroy(stand_in);
    return Error(status);
  }
  adapter_.paging().enqueue_work(std::move(work), std::move(then));
  core_.pump();
  return address;
}

void GpuVa::unmap_system_page(uint32_t process, uint64_t address, std::function<void()> then) {
  const std::shared_ptr<GpuSpace> space = space_of(process);
  gpuva::PageSpans changed;
  if (space) {
    DXGKIT_CHECK(
        is_success(space->addresses.free_system(address, kPageBytes, ++space->sequence, &changed)));
  }
  const auto found = std::ranges::find_if(system_pages_, [&](const auto& entry) {
    return entry.second.process == process && entry.second.address == address;
  });
  if (found != system_pages_.end()) {
    adapter_.allocations().destroy(adapter_.allocations().at(AllocationId{found->first}));
    system_pages_.erase(found);
  }
  // After a failure nothing of paging goes on: stop() ends what the hardware may still reach.
  if (!space || core_.failed()) {
    if (then) then();
    return;
  }
  Work work;
  replan_or_hide(space, changed, &work);
  adapter_.paging().enqueue_work(std::move(work), std::move(then));
  core_.pump();
}

bool GpuVa::system_source(AllocationId allocation, gpuva::PteSource* source) const {
  const auto found = system_pages_.find(allocation.value);
  if (found == system_pages_.end()) return false;
  source->kind = gpuva::PteSource::Kind::kSame;
  source->no_execute = geometry_.no_execute;
  source->cache_coherent = geometry_.cache_coherent;
  source->first_page = found->second.page.value;
  return true;
}

}  // namespace dxgkit::dxgk
