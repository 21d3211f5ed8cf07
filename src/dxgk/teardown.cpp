// Destroying allocations: handles go at once, the rest when nothing uses them any more.
#include "dxgk/adapter.h"
#include "dxgk/device.h"
#include "dxgk/residency.h"

namespace dxgkit::dxgk {

void Adapter::tear_down(Device& device, std::vector<Ref<OpenedAllocation>> openings,
                        Ref<Resource> resource) {
  auto teardown = std::make_unique<Teardown>();
  teardown->device = &device;
  teardown->openings = std::move(openings);
  teardown->resource = std::move(resource);
  for (const Ref<OpenedAllocation>& opened : teardown->openings) {
    opened->closing = true;
    residency_->forget(*opened);
  }
  ++device.teardowns;
  teardowns_.push_back(std::move(teardown));
  advance_teardowns();
}

bool Adapter::teardown_ready(const Teardown& teardown) {
  for (const Ref<OpenedAllocation>& opened : teardown.openings) {
    if (opened->uses != 0) return false;
    if (opened->driver_references != 0) return false;
    if (failed_) continue;  // paging is over: nothing pending will ever complete
    if (memory_->pin_count(opened->allocation->id) != 0) return false;
    if (memory_->pending_operations(opened->allocation->id) != 0) return false;
  }
  return true;
}

void Adapter::begin_closing(Teardown& teardown) {
  std::vector<vidmm::PagingOp> operations;
  std::vector<void*> device_specific;
  for (const Ref<OpenedAllocation>& opened : teardown.openings) {
    device_specific.push_back(opened->device_specific);
    Allocation& allocation = *opened->allocation;
    while (opened->locks > 0) {
      --opened->locks;
      DXGKIT_CHECK(memory_->unlock(allocation.id));
    }
    std::erase(allocation.opened, opened.get());
    if (!allocation.opened.empty() || failed_) continue;
    Result<std::vector<vidmm::PagingOp>> freed = memory_->destroy(allocation.id);
    DXGKIT_CHECK(freed.has_value());  // teardown_ready looked
    allocation.forgotten = true;
    operations.insert(operations.end(), freed->begin(), freed->end());
  }
  // A failure is recorded as a finding and changes nothing: the kernel's side goes on (SCHED-23).
  if (!device_specific.empty())
    static_cast<void>(port_->close_allocations(teardown.device->driver_handle(), device_specific));
  teardown.phase = Teardown::Phase::kPaging;
  if (failed_) {
    finish_closing(teardown);
  } else {
    paging_->enqueue(operations, [this, target = &teardown] { finish_closing(*target); });
  }
}

void Adapter::finish_closing(Teardown& teardown) {
  if (teardown.phase == Teardown::Phase::kDone) return;
  teardown.phase = Teardown::Phase::kDone;
  std::vector<void*> handles;
  for (const Ref<OpenedAllocation>& opened : teardown.openings) {
    if (opened->allocation->opened.empty()) handles.push_back(opened->allocation->driver_handle);
  }
  void* driver_resource = teardown.resource ? teardown.resource->driver_handle : nullptr;
  const bool destroy_resource = teardown.resource && driver_resource != nullptr;
  if (!handles.empty() || destroy_resource) {
    static_cast<void>(port_->destroy_allocations(handles, driver_resource, destroy_resource));
  }
  Device& device = *teardown.device;
  for (const Ref<OpenedAllocation>& opened : teardown.openings) {
    Allocation& allocation = *opened->allocation;
    if (allocation.opened.empty()) {
      release_pages(allocation.pages);
      allocations_.destroy(allocation);
    }
    opened->allocation = nullptr;
    opened->view.reset();
    if (opened->resource) std::erase(opened->resource->members, opened.get());
    std::erase(device.openings, opened.get());
  }
  if (teardown.resource) std::erase(device.resources, teardown.resource.get());
  --device.teardowns;
  progress();
}

void Adapter::free_internal(Allocation& allocation) {
  const AllocationId id = allocation.id;
  if (failed_) {
    release_pages(allocation.pages);
    allocations_.destroy(allocation);
    return;
  }
  Result<std::vector<vidmm::PagingOp>> freed = memory_->destroy(id);
  DXGKIT_CHECK(freed.has_value());  // nothing uses it, and what it was mapped for has run
  allocation.forgotten = true;
  paging_->enqueue(*freed, [this, id] {
    Allocation& gone = allocations_.at(id);
    release_pages(gone.pages);
    allocations_.destroy(gone);
  });
}

void Adapter::advance_teardowns() {
  if (advancing_teardowns_) return;  // the loop below looks at everything again
  advancing_teardowns_ = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < teardowns_.size();
         ++i) {  // by index: closing may start further teardowns
      Teardown& teardown = *teardowns_[i];
      if (teardown.phase == Teardown::Phase::kInUse && teardown_ready(teardown)) {
        begin_closing(teardown);
        changed = true;
      } else if (teardown.phase == Teardown::Phase::kPaging && failed_) {
        finish_closing(teardown);
        changed = true;
      }
    }
    std::erase_if(teardowns_,
                  [](const auto& teardown) { return teardown->phase == Teardown::Phase::kDone; });
  }
  advancing_teardowns_ = false;
}

void Adapter::release_pages(std::span<const bus::PageFrame> pages) {
  if (fatal_.load(std::memory_order_acquire)) {
    graveyard_.insert(graveyard_.end(), pages.begin(), pages.end());
  } else {
    machine_.free_pages(pages);
  }
}

}  // namespace dxgkit::dxgk
