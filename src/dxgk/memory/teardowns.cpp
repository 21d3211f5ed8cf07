#include "dxgk/memory/teardowns.h"

#include <algorithm>
#include <utility>

#include "base/short_vector.h"
#include "dxgk/memory/backing_pages.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/device_memory.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

void Teardowns::begin(DeviceMemory& device, std::vector<Ref<OpenedAllocation>> openings,
                      Ref<Resource> resource) {
  core_.lane().assert_current();
  auto teardown = std::make_unique<Teardown>();
  teardown->device = &device;
  teardown->openings = std::move(openings);
  teardown->resource = std::move(resource);
  // The instances of a rename list go with the first one, which has the driver's object.
  for (size_t i = 0, count = teardown->openings.size(); i < count; ++i) {
    const std::span<const Ref<OpenedAllocation>> instances = teardown->openings[i]->instances();
    teardown->openings.insert(teardown->openings.end(), instances.begin(), instances.end());
  }
  listing_changes_.note();
  for (const Ref<OpenedAllocation>& opened : teardown->openings) {
    opened->closing = true;
    residency_.forget(*opened);
    if (opened->allocation != nullptr) owner_.allocation_closes(opened->allocation->id);
  }
  ++device.teardowns;
  teardowns_.push_back(std::move(teardown));
  advance();
}

void Teardowns::forget_shared(SharedResource& resource) {
  resource.gone = true;
  if (resource.global != 0) core_.global_shares().erase(resource.global);
  std::erase_if(shared_, [&](const auto& one) { return one.get() == &resource; });
}

void Teardowns::drop_hold(SharedResource& resource) {
  if (resource.gone) return;  // the adapter's end took it, whoever held it
  DXGKIT_CHECK(resource.holds > 0);
  --resource.holds;
  if (resource.alive()) return;
  auto teardown = std::make_unique<Teardown>();
  teardown->orphan = Ref<SharedResource>(&resource);
  forget_shared(resource);
  teardowns_.push_back(std::move(teardown));
  advance();
}

void Teardowns::end_shared_resources() {
  for (const Ref<SharedResource>& resource : std::vector(shared_)) {
    if (resource->holds == 0) continue;  // its devices are closing it already
    resource->holds = 1;
    drop_hold(*resource);
  }
}

bool Teardowns::quiet(const Allocation& allocation) {
  if (core_.failed()) return true;  // paging is over: nothing pending will ever complete
  return core_.memory().pin_count(allocation.id) == 0 &&
         core_.memory().pending_operations(allocation.id) == 0;
}

bool Teardowns::ends(const Teardown& teardown, const Allocation& allocation) {
  if (allocation.shared == nullptr) return true;
  // Members of a shared resource are opened and closed together.
  return teardown.resource && allocation.shared->holds == 0 && allocation.shared->resources == 1;
}

bool Teardowns::ready(const Teardown& teardown) {
  if (teardown.orphan) {
    return std::ranges::all_of(teardown.orphan->members,
                               [&](const auto& member)
                                   DXGKIT_REQUIRES(on_lane) { return quiet(*member.allocation); });
  }
  for (const Ref<OpenedAllocation>& opened : teardown.openings) {
    if (opened->uses != 0) return false;
    if (opened->driver_references != 0) return false;
    if (opened->listing.listed && !core_.failed()) return false;  // for work queued before
    if (ends(teardown, *opened->allocation) && !quiet(*opened->allocation)) return false;
  }
  return true;
}

void Teardowns::drop_locks(const Teardown& teardown) {
  bool any = false;
  for (const Ref<OpenedAllocation>& opened : teardown.openings) {
    if (opened->locks == 0) continue;
    any = true;
    if (!core_.failed() && opened->allocation->keeps_system_copy() &&
        !ends(teardown, *opened->allocation))
      cpu_windows_.write_up(*opened);  // others go on with it
    // On the way up from sleep what was locked moves, and is not locked for a while.
    for (; opened->locks > 0; --opened->locks)
      DXGKIT_CHECK(core_.memory().unlock(opened->allocation->id) || core_.failed() ||
                   !core_.power_phase().awake());
    if (!core_.failed()) cpu_windows_.put_away(*opened);  // else finish_closing keeps it readable
    cpu_windows_.close(*opened);
  }
  if (!any || core_.failed()) return;
  residency_.room_changed();
  residency_.advance();
  core_.scheduler().retry_busy();
}

void Teardowns::begin_closing(Teardown& teardown) {
  std::vector<vidmm::PagingOp> operations;
  ShortVector<void*, 8> device_specific;
  if (teardown.orphan) {
    for (const SharedResource::Member& member : teardown.orphan->members)
      teardown.dying.push_back(member.allocation);
  }
  for (const Ref<OpenedAllocation>& opened : teardown.openings) {
    if (!opened->is_instance()) device_specific.push_back(opened->device_specific);
    Allocation& allocation = *opened->allocation;
    allocation.opened.erase(opened.get());
    if (core_.facts().virtual_addresses && !core_.failed()) {
      bool open_elsewhere = false;  // in the same process
      for (const OpenedAllocation* other : allocation.opened)
        open_elsewhere |=
            &other->device->device().process() == &teardown.device->device().process();
      // ALLOC-30
      if (!open_elsewhere)
        owner_.process_has_closed(allocation.id, teardown.device->device().process());
    }
    if (ends(teardown, allocation)) teardown.dying.push_back(&allocation);
  }
  if (teardown.resource && teardown.resource->shared) {
    SharedResource& shared = *teardown.resource->shared;
    --shared.resources;
    teardown.ends_resource = !shared.alive();  // else others have it open, or a descriptor names it
    if (teardown.ends_resource) forget_shared(shared);
  } else {
    teardown.ends_resource = teardown.resource || teardown.orphan;
  }
  for (Allocation* allocation : teardown.dying) {
    if (core_.failed()) break;
    trace::emit(trace::EventKind::kAllocationDestroyed, allocation->id.value, 0, 0,
                allocation->size_bytes);
    owner_.allocation_ends(allocation->id);
    cpu_windows_.forget(*allocation);
    Result<std::vector<vidmm::PagingOp>> freed = core_.memory().destroy(allocation->id);
    DXGKIT_CHECK(freed.has_value());  // teardown_ready looked
    allocation->forgotten = true;
    operations.insert(operations.end(), freed->begin(), freed->end());
  }
  // A failure is recorded as a finding and changes nothing: the kernel's side goes on (SCHED-23).
  if (!device_specific.empty())
    static_cast<void>(core_.port().allocations().close_allocations(
        teardown.device->device().driver_handle(), device_specific));
  teardown.phase = Teardown::Phase::kPaging;
  if (core_.failed()) {
    finish_closing(teardown);
  } else {
    paging_.enqueue(operations, [this, target = &teardown]()
                                    DXGKIT_REQUIRES(on_lane) { finish_closing(*target); });
  }
}

void Teardowns::finish_closing(Teardown& teardown) {
  if (teardown.phase == Teardown::Phase::kDone) return;
  teardown.phase = Teardown::Phase::kDone;
  ShortVector<void*, 8> handles;
  for (const Allocation* allocation : teardown.dying) {
    if (!allocation->instance) handles.push_back(allocation->driver_handle);
  }
  void* driver_resource = teardown.resource ? teardown.resource->driver_handle
                          : teardown.orphan ? teardown.orphan->driver_handle
                                            : nullptr;
  const bool destroy_resource = teardown.ends_resource && driver_resource != nullptr;
  if (!handles.empty() || destroy_resource) {
    static_cast<void>(
        core_.port().allocations().destroy_allocations(handles, driver_resource, destroy_resource));
  }
  for (Allocation* allocation : teardown.dying) {
    backing_.release(*allocation);
    allocations_.destroy(*allocation);
  }
  for (const Ref<OpenedAllocation>& opened : teardown.openings) {
    opened->allocation = nullptr;
    if (CpuAccess* const cpu = opened->cpu_if_any()) {
      // Of an adapter that is gone clients have addresses still, until they let go of their
      // handles.
      if (core_.failed() && cpu->view) {
        cpu->view->show_nothing();
      } else {
        cpu->view.reset();
      }
      cpu->instances.clear();
    }
    if (opened->resource) std::erase(opened->resource->members, opened.get());
    teardown.device->openings.erase(opened.get());
  }
  if (teardown.resource) teardown.device->resources.erase(teardown.resource.get());
  if (teardown.device != nullptr) --teardown.device->teardowns;
  // Others were refused for want of the room this had, and nothing else may tell them.
  if (!core_.failed()) {
    residency_.room_changed();
    core_.scheduler().retry_busy();
  }
  core_.progress();
}

void Teardowns::free_internal(Allocation& allocation) {
  const AllocationId id = allocation.id;
  if (core_.failed()) {
    if (!allocation.borrows_pages) backing_.release(allocation.pages.frames());
    allocations_.destroy(allocation);
    return;
  }
  trace::emit(trace::EventKind::kAllocationDestroyed, id.value, 0, 0, allocation.size_bytes);
  Result<std::vector<vidmm::PagingOp>> freed = core_.memory().destroy(id);
  DXGKIT_CHECK(freed.has_value());  // nothing uses it, and what it was mapped for has run
  allocation.forgotten = true;
  paging_.enqueue(*freed, [this, id]() DXGKIT_REQUIRES(on_lane) {
    Allocation& gone = allocations_.at(id);
    if (!gone.borrows_pages) backing_.release(gone.pages.frames());
    allocations_.destroy(gone);
  });
}

void Teardowns::advance() {
  core_.lane().assert_current();
  if (advancing_) return;  // the loop below looks at everything again
  if (core_.power_phase().off() && !core_.failed())
    return;  // no paging, no DDI: the release looks again
  advancing_ = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < teardowns_.size();
         ++i) {  // by index: closing may start further teardowns
      Teardown& teardown = *teardowns_[i];
      if (teardown.phase == Teardown::Phase::kInUse) drop_locks(teardown);
      if (teardown.phase == Teardown::Phase::kInUse && ready(teardown)) {
        begin_closing(teardown);
        changed = true;
      } else if (teardown.phase == Teardown::Phase::kPaging && core_.failed()) {
        finish_closing(teardown);
        changed = true;
      }
    }
    std::erase_if(teardowns_,
                  [](const auto& teardown) { return teardown->phase == Teardown::Phase::kDone; });
  }
  advancing_ = false;
}

}  // namespace dxgkit::dxgk
