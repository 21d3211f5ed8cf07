// A device's allocations: create, destroy, lock.
#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.h"
#include "dxgk/adapter.h"
#include "dxgk/allocation_rules.h"
#include "dxgk/device.h"
#include "dxgk/process.h"
#include "dxgk/residency.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

Status Device::create_allocations(std::span<AllocationRequest> requests,
                                  std::span<const std::byte> private_data, bool creates_resource,
                                  Handle* resource_handle) {
  if (lost()) return Status::kDeviceRemoved;
  HandleTable& handles = process_.handles();
  Ref<Resource> resource;
  if (creates_resource) {
    resource = make_object<Resource>();
    resource->device = Ref<Device>(this);
  } else if (*resource_handle != 0) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(resource, handles.find<Resource>(*resource_handle));
    if (resource->device.get() != this) return Status::kInvalidParameter;
  }
  if (requests.empty() && !creates_resource) return Status::kInvalidParameter;

  // The driver creates them all in one call (ALLOC-01).
  std::vector<port::AllocationInfo> infos(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    infos[i].private_data = requests[i].private_data;
    infos[i].vidpn_source = requests[i].vidpn_source;
    infos[i].primary = requests[i].primary;
  }
  void* driver_resource = resource ? resource->driver_handle : nullptr;
  DXGKIT_RETURN_IF_FAILED(
      adapter_.port().create_allocations(infos, private_data, creates_resource, &driver_resource));
  if (creates_resource) resource->driver_handle = driver_resource;

  // From here on everything is undone on failure: openings closed, driver objects destroyed, pages
  // and handles returned.
  std::vector<Ref<OpenedAllocation>> openings_made;
  std::vector<AllocationBacking> backings(requests.size());
  bool opened = false;
  const Status status = [&]() -> Status {
    for (size_t i = 0; i < requests.size(); ++i) {
      DXGKIT_RETURN_IF_FAILED(check_allocation_info(infos[i], adapter_, &backings[i].desc));
      DXGKIT_ASSIGN_OR_RETURN_STATUS(
          backings[i].pages,
          adapter_.machine().allocate_pages(backings[i].desc.size_bytes / kPageBytes));
      Ref<OpenedAllocation> one = make_object<OpenedAllocation>();
      one->device = Ref<Device>(this);
      one->resource = resource;
      one->driver_allocation = infos[i].handle;
      DXGKIT_ASSIGN_OR_RETURN_STATUS(one->handle, handles.insert_hidden(one));
      openings_made.push_back(std::move(one));
    }
    if (creates_resource) {
      DXGKIT_ASSIGN_OR_RETURN_STATUS(resource->handle, handles.insert_hidden(resource));
    }
    std::vector<port::AdapterPort::OpenInfo> open_infos(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      open_infos[i].allocation_handle = openings_made[i]->handle;
      open_infos[i].private_data = requests[i].private_data;
    }
    if (!requests.empty()) {
      DXGKIT_RETURN_IF_FAILED(adapter_.port().open_allocations(info_.handle, open_infos,
                                                               private_data, /*create=*/true,
                                                               resource ? resource->handle : 0));
    }
    opened = true;
    for (size_t i = 0; i < requests.size(); ++i)
      openings_made[i]->device_specific = open_infos[i].device_specific;
    Status registered = Status::kSuccess;
    adapter_.lane().run([&] {
      registered = register_allocations(infos, backings, openings_made, resource, creates_resource);
    });
    return registered;
  }();
  if (is_success(status)) {
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].handle = openings_made[i]->handle;
      handles.publish(requests[i].handle);
    }
    if (creates_resource) {
      *resource_handle = resource->handle;
      handles.publish(resource->handle);
    }
    return status;
  }
  if (opened) {
    std::vector<void*> device_specific;
    for (const Ref<OpenedAllocation>& one : openings_made)
      device_specific.push_back(one->device_specific);
    static_cast<void>(adapter_.port().close_allocations(info_.handle, device_specific));
  }
  for (const Ref<OpenedAllocation>& one : openings_made) handles.erase(one->handle);
  if (creates_resource && resource->handle != 0) handles.erase(resource->handle);
  std::vector<void*> driver_handles;
  for (const port::AllocationInfo& info : infos) driver_handles.push_back(info.handle);
  static_cast<void>(adapter_.port().destroy_allocations(
      driver_handles, creates_resource ? driver_resource : nullptr,
      creates_resource && driver_resource != nullptr));
  for (const AllocationBacking& backing : backings) {
    if (!backing.pages.empty()) adapter_.machine().free_pages(backing.pages);
  }
  return status;
}

Status Device::register_allocations(std::span<const port::AllocationInfo> infos,
                                    std::span<AllocationBacking> backings,
                                    std::span<const Ref<OpenedAllocation>> openings_made,
                                    const Ref<Resource>& resource, bool creates_resource) {
  if (lost()) return Status::kDeviceRemoved;
  if (resource && resource->closing) return Status::kInvalidParameter;
  std::vector<Allocation*> made;
  for (size_t i = 0; i < infos.size(); ++i) {
    Allocation& allocation = adapter_.allocations().create();
    made.push_back(&allocation);
    allocation.driver_handle = infos[i].handle;
    allocation.size_bytes = backings[i].desc.size_bytes;
    allocation.info_flags = infos[i].flags;
    allocation.cpu_visible = backings[i].desc.cpu_visible;
    allocation.cached = backings[i].desc.cached;
    if (const Status status = adapter_.memory().create(allocation.id, backings[i].desc);
        !is_success(status)) {
      adapter_.allocations().destroy(allocation);
      made.pop_back();
      for (Allocation* undone : made) {
        DXGKIT_CHECK(adapter_.memory().destroy(undone->id).has_value());
        openings_made[static_cast<size_t>(&undone - made.data())]->allocation = nullptr;
        adapter_.allocations().destroy(*undone);
      }
      return status;
    }
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    Allocation& allocation = *made[i];
    allocation.pages = std::move(backings[i].pages);
    backings[i].pages.clear();
    for (const bus::PageFrame page : allocation.pages) allocation.frames.push_back(page.value);
    OpenedAllocation& one = *openings_made[i];
    one.allocation = &allocation;
    allocation.opened.push_back(&one);
    openings.push_back(&one);
    if (resource) resource->members.push_back(&one);
    trace::emit(trace::EventKind::kAllocationCreated, allocation.id.value, 0, 0,
                allocation.size_bytes);
  }
  if (creates_resource) resources.push_back(resource.get());
  return Status::kSuccess;
}

Status Device::destroy_allocations(Handle resource_handle, std::span<const Handle> list,
                                   bool synchronous) {
  HandleTable& handles = process_.handles();
  Ref<Resource> resource;
  std::vector<Ref<OpenedAllocation>> targets;
  if (resource_handle != 0) {  // ALLOC-29: the list is not looked at
    DXGKIT_ASSIGN_OR_RETURN_STATUS(resource, handles.find<Resource>(resource_handle));
    if (resource->device.get() != this) return Status::kInvalidParameter;
  } else {
    if (list.empty()) return Status::kInvalidParameter;
    for (const Handle handle_of_one : list) {
      DXGKIT_ASSIGN_OR_RETURN_STATUS(Ref<OpenedAllocation> opened,
                                     handles.find<OpenedAllocation>(handle_of_one));
      if (opened->device.get() != this) return Status::kInvalidParameter;
      if (!targets.empty() && targets.front()->resource.get() != opened->resource.get())
        return Status::kInvalidParameter;
      if (std::any_of(targets.begin(), targets.end(),
                      [&](const auto& other) { return other.get() == opened.get(); })) {
        return Status::kInvalidParameter;
      }
      targets.push_back(std::move(opened));
    }
  }
  Status status = Status::kSuccess;
  std::vector<Handle> gone;
  adapter_.lane().run([&] {
    if (closed_) return;  // adapter stopped: the driver side went then; only the handles are left
    if (resource) {
      if (resource->closing) {
        status = Status::kInvalidParameter;
        return;
      }
      resource->closing = true;
      for (OpenedAllocation* member : resource->members) {
        if (!member->closing) targets.emplace_back(member);
      }
    } else if (std::any_of(targets.begin(), targets.end(),
                           [](const auto& opened) { return opened->closing; })) {
      status = Status::kInvalidParameter;  // another thread was first
      return;
    }
    for (const Ref<OpenedAllocation>& opened : targets) {
      trace::emit(trace::EventKind::kAllocationDestroyed, opened->allocation->id.value);
    }
    adapter_.tear_down(*this, targets, resource);
    adapter_.pump();
  });
  DXGKIT_RETURN_IF_FAILED(status);
  for (const Ref<OpenedAllocation>& opened : targets) handles.erase(opened->handle);
  if (resource) handles.erase(resource->handle);
  if (synchronous) {
    static_cast<void>(adapter_.block_until([&] {
      return std::all_of(targets.begin(), targets.end(),
                         [](const auto& opened) { return opened->allocation == nullptr; });
    }));
  }
  return Status::kSuccess;
}

Result<void*> Device::lock(Handle allocation_handle) {
  if (lost()) return Error(Status::kDeviceRemoved);
  DXGKIT_ASSIGN_OR_RETURN(const Ref<OpenedAllocation> opened,
                          process_.handles().find<OpenedAllocation>(allocation_handle));
  if (opened->device.get() != this) return Error(Status::kInvalidParameter);
  Status status = Status::kSuccess;
  void* address = nullptr;
  // Content on the move has no place a CPU could look at: wait until it has arrived.
  const bool settled = adapter_.block_until([&] {
    if (opened->closing || lost()) {
      status = opened->closing ? Status::kInvalidParameter : Status::kDeviceRemoved;
      return true;
    }
    return try_lock(*opened, &status, &address);
  });
  if (!settled) return Error(Status::kDeviceRemoved);
  if (!is_success(status)) return Error(status);
  return address;
}

bool Device::try_lock(OpenedAllocation& opened, Status* status, void** address) {
  Allocation& allocation = *opened.allocation;
  vidmm::MemoryManager& memory = adapter_.memory();
  if (opened.locks == 0) {
    if (!lockable(allocation)) {
      *status = Status::kInvalidParameter;  // ALLOC-35
      return true;
    }
    if (memory.pending_operations(allocation.id) != 0) return false;
    const vidmm::Placement place = memory.placement(allocation.id);
    const bool in_memory_segment =
        place.segment != kSystemMemory &&
        memory.segments()[place.segment.value - 1].kind == vidmm::SegmentKind::kMemory;
    if (in_memory_segment &&
        !(memory.segments()[place.segment.value - 1].cpu_visible && !allocation.cached)) {
      // ALLOC-41: no CPU window there (or none that is coherent, ALLOC-42): it moves to system
      // memory, if it may come back to where the CPU can look.
      if (!reaches_aperture(allocation)) {
        *status = Status::kGraphicsCantEvictPinnedAllocation;
        return true;
      }
      Result<std::vector<vidmm::PagingOp>> moved = memory.evict(allocation.id);
      if (!moved.has_value() && adapter_.residency().let_go(allocation))
        moved = memory.evict(allocation.id);
      if (!moved.has_value())
        return false;  // in use by the GPU: asked again when something retired
      adapter_.paging().enqueue(*moved, nullptr);
      adapter_.pump();
      return memory.pending_operations(allocation.id) == 0 && try_lock(opened, status, address);
    }
    if (opened.view == nullptr) {
      Result<std::unique_ptr<bus::CpuView>> view = bus::CpuView::create(allocation.size_bytes);
      if (!view.has_value()) {
        *status = view.error();
        return true;
      }
      opened.view = std::move(*view);
    }
    std::vector<bus::MemoryWindow> windows;
    if (in_memory_segment) {
      const vidmm::SegmentDesc& segment = memory.segments()[place.segment.value - 1];
      windows.push_back(adapter_.machine().window_of(
          bus::PhysicalAddress{segment.cpu_translated_address + place.offset_bytes},
          allocation.size_bytes));
    } else {
      for (const bus::PageFrame page : allocation.pages) {
        windows.push_back(adapter_.machine().window_of(
            bus::PhysicalAddress{page.value * kPageBytes}, kPageBytes));
      }
      memory.mark_cpu_written(allocation.id);
    }
    if (const Status shown = opened.view->retarget(windows); !is_success(shown)) {
      *status = shown;
      return true;
    }
  }
  memory.lock(allocation.id);
  ++opened.locks;
  *address = opened.view->address();
  trace::emit(trace::EventKind::kLocked, allocation.id.value);
  return true;
}

bool Device::lockable(const Allocation& allocation) {
  return allocation.cpu_visible || reaches_aperture(allocation) ||
         adapter_.memory().placement(allocation.id).segment == kSystemMemory;
}

bool Device::reaches_aperture(const Allocation& allocation) {
  const vidmm::AllocationDesc& desc = adapter_.memory().description(allocation.id);
  for (const vidmm::SegmentDesc& segment : adapter_.memory().segments()) {
    if (segment.kind == vidmm::SegmentKind::kAperture &&
        ((desc.supported_read | desc.supported_write) & vidmm::segment_bit(segment.id)) != 0) {
      return true;
    }
  }
  return false;
}

Status Device::unlock(Handle allocation_handle) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<OpenedAllocation> opened,
                                 process_.handles().find<OpenedAllocation>(allocation_handle));
  if (opened->device.get() != this) return Status::kInvalidParameter;
  Status status = Status::kSuccess;
  adapter_.lane().run([&] {
    if (opened->locks == 0 || opened->closing) {  // THUNK-26
      status = Status::kInvalidParameter;
      return;
    }
    --opened->locks;
    DXGKIT_CHECK(adapter_.memory().unlock(opened->allocation->id));
    if (opened->locks == 0) opened->view.reset();
    trace::emit(trace::EventKind::kUnlocked, opened->allocation->id.value);
    adapter_.residency().advance();
    adapter_.scheduler().retry_busy();
    adapter_.pump();
  });
  return status;
}

}  // namespace dxgkit::dxgk
