// A device's openings of shared resources.
#include "dxgk/core/process.h"
#include "dxgk/memory/device_memory.h"
#include "dxgk/memory/teardowns.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

Result<Ref<SharedResource>> DeviceMemory::make_shared(std::span<const AllocationRequest> requests,
                                                      const CreateOptions& options,
                                                      void* driver_resource) {
  Ref<SharedResource> shared = make_object<SharedResource>(floor_);
  shared->gone = true;  // nobody opens it before it is registered; global handles can be guessed
  shared->nt_security = options.nt_security;
  shared->cross_adapter = options.cross_adapter;
  shared->creator = process_.number();
  shared->driver_handle = driver_resource;
  shared->runtime_data.assign(options.runtime_data.begin(), options.runtime_data.end());
  shared->resource_data.assign(options.private_data.begin(), options.private_data.end());
  for (const AllocationRequest& request : requests) {
    SharedResource::Member& member = shared->members.emplace_back();
    member.private_data.assign(request.private_data.begin(), request.private_data.end());
  }
  if (!options.nt_security) {  // ALLOC-22
    DXGKIT_ASSIGN_OR_RETURN(shared->global, core_.global_shares().insert(shared));
  }
  return shared;
}

Status DeviceMemory::open_resource(const Ref<SharedResource>& shared, bool read_only,
                                   OpenedResource* out) {
  const GatePass pass(device_.gate());
  if (!pass || device_.lost()) return Status::kDeviceRemoved;
  if (&shared->floor() != &floor_)
    return shared->cross_adapter ? Status::kNotSupported : Status::kInvalidParameter;
  HandleTable& handles = process_.handles();
  bool held = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (shared->gone) return;
    ++shared->holds;  // until its openings are registered, or given up
    held = true;
  });
  if (!held) return Status::kInvalidParameter;

  Ref<Resource> resource = make_object<Resource>();
  resource->device = Ref<DeviceMemory>(this);
  resource->shared = shared;
  resource->driver_handle = shared->driver_handle;
  std::vector<Ref<OpenedAllocation>> opened;
  std::vector<std::vector<std::byte>> data;  // the driver's copy: the kept one stays as it is
  std::vector<void*> device_specific;
  const Status status = [&]() -> Status {
    std::vector<port::OpenInfo> infos(shared->members.size());
    // The resource first (ALLOC-58).
    DXGKIT_ASSIGN_OR_RETURN_STATUS(resource->handle, handles.insert_hidden(resource));
    for (size_t i = 0; i < infos.size(); ++i) {
      Ref<OpenedAllocation> one = make_object<OpenedAllocation>();
      one->device = Ref<DeviceMemory>(this);
      one->resource = resource;
      one->driver_allocation = shared->members[i].driver_handle;
      one->read_only = read_only;
      DXGKIT_ASSIGN_OR_RETURN_STATUS(one->handle, handles.insert_hidden(one));
      infos[i].allocation_handle = one->handle;
      data.push_back(shared->members[i].private_data);
      infos[i].private_data = data.back();
      opened.push_back(std::move(one));
    }
    if (!infos.empty()) {
      DXGKIT_RETURN_IF_FAILED(core_.port().allocations().open_allocations(
          device_.driver_handle(), infos, shared->resource_data,
          /*create=*/false, resource->handle, read_only));
    }
    for (size_t i = 0; i < infos.size(); ++i) {
      opened[i]->device_specific = infos[i].device_specific;
      device_specific.push_back(infos[i].device_specific);
    }
    return Status::kSuccess;
  }();
  Status registered = status;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (is_success(registered) && device_.lost()) registered = Status::kDeviceRemoved;
    if (is_success(registered)) {
      for (size_t i = 0; i < opened.size(); ++i) {
        OpenedAllocation& one = *opened[i];
        one.allocation = shared->members[i].allocation;
        one.allocation->opened.push_back(&one);
        openings.push_back(&one);
        resource->members.push_back(&one);
      }
      resources.push_back(resource.get());
      ++shared->resources;
      floor_.teardowns->drop_hold(*shared);
    }
  });
  if (is_success(registered)) {
    out->resource = resource->handle;
    for (const Ref<OpenedAllocation>& one : opened) {
      out->allocations.push_back(one->handle);
      handles.publish(one->handle);
    }
    handles.publish(resource->handle);
    return registered;
  }
  if (!device_specific.empty())
    static_cast<void>(
        core_.port().allocations().close_allocations(device_.driver_handle(), device_specific));
  for (const Ref<OpenedAllocation>& one : opened) handles.erase(one->handle);
  handles.erase(resource->handle);
  // After the driver's side is closed: this may have been the last holder (ALLOC-26).
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { floor_.teardowns->drop_hold(*shared); });
  return registered;
}

}  // namespace dxgkit::dxgk
