#include "dxgk/memory/device_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.h"
#include "base/short_vector.h"
#include "dxgk/core/client_memory.h"
#include "dxgk/core/process.h"
#include "dxgk/memory/allocation_rules.h"
#include "dxgk/memory/backing_pages.h"
#include "dxgk/memory/commitment.h"
#include "dxgk/memory/residency.h"
#include "dxgk/memory/shown_allocations.h"
#include "dxgk/memory/teardowns.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

DeviceMemory::DeviceMemory(MemoryFloor& floor, DeviceCore& device, DeviceSync& sync)
    : floor_(floor), core_(floor.core), device_(device), sync_(sync), process_(device.process()) {}

DeviceMemory::~DeviceMemory() = default;

Status DeviceMemory::create_allocations(std::span<AllocationRequest> requests,
                                        CreateOptions& options) {
  const GatePass pass(device_.gate());
  if (!pass || device_.lost()) return Status::kDeviceRemoved;
  const bool creates_resource = options.creates_resource;
  const std::span<const std::byte> private_data = options.private_data;
  HandleTable& handles = process_.handles();
  Ref<Resource> resource;
  if (creates_resource) {
    resource = make_object<Resource>();
    resource->device = Ref<DeviceMemory>(this);
  } else if (options.resource != 0) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(resource, handles.find<Resource>(options.resource));
    if (resource->device.get() != this) return Status::kInvalidParameter;
    if (resource->shared) return Status::kInvalidParameter;  // ALLOC-23
  }
  if (requests.empty() && !creates_resource) return Status::kInvalidParameter;

  // The driver creates them all in one call (ALLOC-01).
  ShortVector<port::AllocationInfo, 2> infos(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    infos[i].private_data = requests[i].private_data;
    infos[i].vidpn_source = requests[i].vidpn_source;
    infos[i].primary = requests[i].primary;
  }
  void* driver_resource = resource ? resource->driver_handle : nullptr;
  DXGKIT_RETURN_IF_FAILED(core_.port().allocations().create_allocations(
      infos, private_data, creates_resource, &driver_resource));
  if (creates_resource) resource->driver_handle = driver_resource;

  // From here on everything is undone on failure: openings closed, driver objects destroyed, pages
  // and handles returned.
  std::vector<Ref<OpenedAllocation>> openings_made;
  ShortVector<AllocationBacking, 1> backings(requests.size());
  std::shared_ptr<bus::PagesApart> group;
  if (options.shared && process_.client_memory() != nullptr)
    group = bus::PagesApart::make(core_.machine(), bus::PagesApart::Spare::kNone);
  bool opened = false;
  const Status status = [&]() -> Status {
    if (creates_resource) {  // before its allocations (ALLOC-58)
      DXGKIT_ASSIGN_OR_RETURN_STATUS(resource->handle, handles.insert_hidden(resource));
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      DXGKIT_RETURN_IF_FAILED(check_allocation_info(infos[i], core_, &backings[i].desc));
      DXGKIT_RETURN_IF_FAILED(back(requests[i], infos[i], group.get(), &backings[i]));
      Ref<OpenedAllocation> one = make_object<OpenedAllocation>();
      one->device = Ref<DeviceMemory>(this);
      one->resource = resource;
      one->driver_allocation = infos[i].handle;
      DXGKIT_ASSIGN_OR_RETURN_STATUS(one->handle, handles.insert_hidden(one));
      openings_made.push_back(std::move(one));
    }
    ShortVector<port::OpenInfo, 2> open_infos(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      open_infos[i].allocation_handle = openings_made[i]->handle;
      open_infos[i].private_data = requests[i].private_data;
    }
    if (!requests.empty()) {
      DXGKIT_RETURN_IF_FAILED(core_.port().allocations().open_allocations(
          device_.driver_handle(), open_infos, private_data,
          /*create=*/true, resource ? resource->handle : 0));
    }
    opened = true;
    for (size_t i = 0; i < requests.size(); ++i)
      openings_made[i]->device_specific = open_infos[i].device_specific;
    if (options.shared) {
      DXGKIT_ASSIGN_OR_RETURN_STATUS(resource->shared,
                                     make_shared(requests, options, driver_resource));
      for (size_t i = 0; i < requests.size(); ++i)
        resource->shared->members[i].driver_handle = infos[i].handle;
      resource->shared->pages_apart = group;
    }
    Status registered = Status::kSuccess;
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      registered = register_allocations(infos, backings, openings_made, resource, creates_resource);
    });
    return registered;
  }();
  if (group != nullptr) group->close();  // its pages are complete
  if (is_success(status)) {
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].handle = openings_made[i]->handle;
      handles.publish(requests[i].handle);
    }
    if (creates_resource) {
      options.resource = resource->handle;
      handles.publish(resource->handle);
    }
    if (resource && resource->shared) options.global = resource->shared->global;
    return status;
  }
  if (options.shared && resource->shared && resource->shared->global != 0)
    core_.global_shares().erase(resource->shared->global);
  if (opened) {
    std::vector<void*> device_specific;
    for (const Ref<OpenedAllocation>& one : openings_made)
      device_specific.push_back(one->device_specific);
    static_cast<void>(
        core_.port().allocations().close_allocations(device_.driver_handle(), device_specific));
  }
  for (const Ref<OpenedAllocation>& one : openings_made) handles.erase(one->handle);
  if (creates_resource && resource->handle != 0) handles.erase(resource->handle);
  std::vector<void*> driver_handles;
  for (const port::AllocationInfo& info : infos) driver_handles.push_back(info.handle);
  static_cast<void>(core_.port().allocations().destroy_allocations(
      driver_handles, creates_resource ? driver_resource : nullptr,
      creates_resource && driver_resource != nullptr));
  for (const AllocationBacking& backing : backings) {
    if (!backing.pages.empty() && backing.user_memory == nullptr)
      core_.machine().free_pages(backing.pages);
  }
  return status;
}

Status DeviceMemory::back(const AllocationRequest& request, const port::AllocationInfo& info,
                          bus::PagesApart* group, AllocationBacking* backing) {
  DXGKIT_RETURN_IF_FAILED(
      check_existing_memory(info, core_, request.user_memory != nullptr, request.user_bytes));
  const uint64_t bytes = backing->desc.size_bytes;
  if (request.user_memory == nullptr) {
    constexpr auto kMayGrow = bus::PagesApart::Objects::kMayGrow;
    Result<std::vector<bus::PageFrame>> pages =
        take_pages(bytes / kPageBytes, kMayGrow, &backing->charge, group);
    if (!pages.has_value() && floor_.may_decommit.load(std::memory_order_relaxed)) {
      // Offered content makes room for content that is wanted (ALLOC-59).
      const Result<uint64_t> freed = Commitment(floor_).decommit({.bytes = bytes});
      if (freed.has_value() && *freed != 0)
        pages = take_pages(bytes / kPageBytes, kMayGrow, &backing->charge, group);
    }
    DXGKIT_ASSIGN_OR_RETURN_STATUS(backing->pages, std::move(pages));
    return Status::kSuccess;
  }
  DXGKIT_ASSIGN_OR_RETURN_STATUS(backing->charge, MemoryCharge::take(quota_of(process_), bytes));
  DXGKIT_ASSIGN_OR_RETURN_STATUS(backing->user_memory, take_user_memory(request, bytes));
  const std::span<const bus::PageFrame> pages = backing->user_memory->pages();
  backing->pages.assign(pages.begin(), pages.end());
  return Status::kSuccess;
}

Result<std::vector<bus::PageFrame>> DeviceMemory::take_pages(uint64_t count,
                                                             bus::PagesApart::Objects objects,
                                                             MemoryCharge* charge,
                                                             bus::PagesApart* group) const {
  DXGKIT_ASSIGN_OR_RETURN(MemoryCharge taken,
                          MemoryCharge::take(quota_of(process_), count * kPageBytes));
  Result<std::vector<bus::PageFrame>> pages = Error(Status::kNoMemory);
  if (ClientMemory* const client = process_.client_memory(); client != nullptr)
    pages = (group != nullptr ? *group : client->pages()).allocate(count, objects);
  if (!pages.has_value()) pages = core_.machine().allocate_pages(count);
  if (pages.has_value()) *charge = std::move(taken);
  return pages;
}

Result<std::unique_ptr<bus::UserMemory>> DeviceMemory::take_user_memory(
    const AllocationRequest& request, uint64_t bytes) {
  if (ClientMemory* const client = process_.client_memory(); client != nullptr) {
    if (!client->can_give()) return Error(Status::kNotSupported);
    uint64_t number = 0;
    const auto ended = client->new_exchange(&number);
    return bus::UserMemory::elsewhere(core_.machine(), bytes, number, ended);
  }
  DXGKIT_ASSIGN_OR_RETURN(std::unique_ptr<bus::UserMemory> memory,
                          bus::UserMemory::capture(core_.machine(), request.user_memory, bytes));
  if (core_.options().verifier.has(VerifierSwitch::kFailProbeAndLock)) {
    // As if the pages could not be had the first time: all of them are let go of, and taken again.
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      static_cast<void>(core_.strikes(VerifierSwitch::kFailProbeAndLock));
    });
    memory.reset();
    DXGKIT_ASSIGN_OR_RETURN(memory,
                            bus::UserMemory::capture(core_.machine(), request.user_memory, bytes));
  }
  return memory;
}

Status DeviceMemory::register_allocations(std::span<const port::AllocationInfo> infos,
                                          std::span<AllocationBacking> backings,
                                          std::span<const Ref<OpenedAllocation>> openings_made,
                                          const Ref<Resource>& resource, bool creates_resource) {
  if (device_.lost()) return Status::kDeviceRemoved;
  if (resource && resource->closing) return Status::kInvalidParameter;
  std::vector<Allocation*> made;
  for (size_t i = 0; i < infos.size(); ++i) {
    Allocation& allocation = floor_.allocations.create();
    made.push_back(&allocation);
    allocation.driver_handle = infos[i].handle;
    allocation.size_bytes = backings[i].desc.size_bytes;
    allocation.info_flags = infos[i].flags;
    if ((infos[i].flags & kAllocationCapture) != 0) floor_.captures.fetch_add(1);
    allocation.cpu_visible = backings[i].desc.cpu_visible;
    allocation.cached = backings[i].desc.cached;
    allocation.primary = infos[i].primary;
    allocation.vidpn_source = static_cast<uint8_t>(infos[i].vidpn_source);
    allocation.maximum_renaming = infos[i].maximum_renaming;
    if (const Status status = core_.memory().create(allocation.id, backings[i].desc);
        !is_success(status)) {
      floor_.allocations.destroy(allocation);
      made.pop_back();
      for (Allocation* undone : made) {
        DXGKIT_CHECK(core_.memory().destroy(undone->id).has_value());
        floor_.allocations.destroy(*undone);
      }
      return status;
    }
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    Allocation& allocation = *made[i];
    allocation.pages = FrameList(backings[i].pages);
    backings[i].pages.clear();
    allocation.user_memory = std::move(backings[i].user_memory);
    floor_.backing_pages->charge(allocation, std::move(backings[i].charge));
    // What the client has there already is content.
    if (allocation.user_memory != nullptr) core_.memory().mark_cpu_written(allocation.id);
    OpenedAllocation& one = *openings_made[i];
    one.allocation = &allocation;
    allocation.opened.push_back(&one);
    openings.push_back(&one);
    if (resource) resource->members.push_back(&one);
    if (resource && resource->shared) {
      allocation.shared = resource->shared.get();
      resource->shared->members[i].allocation = &allocation;
    }
    trace::emit(trace::EventKind::kAllocationCreated, allocation.id.value, process_.number(), 0,
                allocation.size_bytes);
  }
  if (creates_resource) resources.push_back(resource.get());
  if (resource && resource->shared) {
    resource->shared->resources = 1;
    resource->shared->gone = false;
    floor_.teardowns->add_shared(resource->shared);
  }
  return Status::kSuccess;
}

Status DeviceMemory::destroy_allocations(Handle resource_handle, std::span<const Handle> list,
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
      // A shared resource goes as a whole: what others have open stays complete.
      if (opened->resource && opened->resource->shared) return Status::kInvalidParameter;
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
  core_.lane().run([&] {  // a lock on another thread may be about to make one
    for (const Ref<OpenedAllocation>& opened : targets) {
      if (opened->is_instance()) status = Status::kInvalidParameter;  // goes with the first
    }
  });
  if (!is_success(status)) return status;
  if (floor_.shown != nullptr) floor_.shown->before_destroy(*this, resource, targets);
  std::vector<Handle> gone;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
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
                           [](const auto& opened)
                               DXGKIT_REQUIRES(on_lane) { return opened->closing; })) {
      status = Status::kInvalidParameter;  // another thread was first
      return;
    }
    for (const Ref<OpenedAllocation>& opened : targets) {
      trace::emit(trace::EventKind::kAllocationDestroyed, opened->allocation->id.value);
    }
    for (const Ref<OpenedAllocation>& opened : targets) {
      for (const Ref<OpenedAllocation>& instance : opened->instances())
        gone.push_back(instance->handle);
    }
    floor_.teardowns->begin(*this, targets, resource);
    core_.pump();
  });
  DXGKIT_RETURN_IF_FAILED(status);
  if (floor_.shown != nullptr) floor_.shown->after_closing(*this, resource, targets);
  for (const Handle instance : gone) handles.erase(instance);
  for (const Ref<OpenedAllocation>& opened : targets) handles.erase(opened->handle);
  if (resource) handles.erase(resource->handle);
  if (synchronous) {
    static_cast<void>(core_.block_until([&] {
      return std::all_of(targets.begin(), targets.end(),
                         [](const auto& opened) { return opened->allocation == nullptr; });
    }));
  }
  return Status::kSuccess;
}

void DeviceMemory::close() {
  closed_ = true;
  // Resources go whole, stand-alone allocations one by one: drivers are written for the groups
  // that clients make. Those being destroyed already are on their way.
  for (Resource* resource : resources.all()) {
    std::vector<Ref<OpenedAllocation>> members;
    for (OpenedAllocation* member : resource->members) {
      if (!member->closing) members.emplace_back(member);
    }
    if (!resource->closing) {
      resource->closing = true;
      floor_.teardowns->begin(*this, std::move(members), Ref<Resource>(resource));
    }
  }
  std::vector<Ref<OpenedAllocation>> rest;
  for (OpenedAllocation* opened : openings.all()) {
    if (!opened->closing) rest.emplace_back(opened);
  }
  for (Ref<OpenedAllocation>& opened : rest) {
    std::vector<Ref<OpenedAllocation>> alone;
    alone.push_back(std::move(opened));
    floor_.teardowns->begin(*this, std::move(alone), Ref<Resource>());
  }
}

}  // namespace dxgkit::dxgk
