// Shared resources: naming them, asking about them, opening them.
#include <unistd.h>

#include <algorithm>

#include "dxgk/display/display.h"
#include "dxgk/memory/sharing.h"
#include "dxgk/sync/keyed_mutex.h"
#include "dxgk/sync/sync_object.h"
#include "thunks/call.h"
#include "thunks/nt_names.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Device;
using dxgk::NtHandles;
using dxgk::OpenedAllocation;
using dxgk::Process;
using dxgk::Ref;
using dxgk::Resource;
using dxgk::SharedResource;

Result<NtHandles::Named> named_by(Process& process, HANDLE handle) {
  DXGKIT_ASSIGN_OR_RETURN(NtHandles::Named named, find_named(process, handle));
  if (!named.resource) return Error(dxgk::kObjectTypeMismatch);
  return named;
}

/// A global handle: any process that knows it has all rights.
Result<NtHandles::Named> named_by(Process& process, D3DKMT_HANDLE global) {
  DXGKIT_ASSIGN_OR_RETURN(const Ref<SharedResource> resource,
                          process.system().impl().global_shares.find<SharedResource>(global));
  return NtHandles::Named{resource, NtHandles::Access::kWrite};
}

/// The members that name the resource in a call of either kind.
template <typename Args>
auto name_in(const Args& args) {
  if constexpr (requires { args.hNtHandle; }) {
    return args.hNtHandle;
  } else {
    return args.hGlobalShare;
  }
}

Result<uint32_t> total_private_bytes(const SharedResource& shared) {
  std::vector<uint64_t> sizes;
  for (const SharedResource::Member& member : shared.members)
    sizes.push_back(member.private_data.size());
  return dxgk::total_private_bytes(sizes);
}

uint32_t size_of(const std::vector<std::byte>& data) { return static_cast<uint32_t>(data.size()); }

/// D3DKMT_QUERYRESOURCEINFO and its NT form agree in their outputs. The runtime's data itself comes
/// with the opening: on Windows a buffer given here stays as it was.
template <typename Args>
Status query_resource(Args& args, const Ref<Device>& device, const Ref<SharedResource>& shared) {
  if (&shared->floor() != &device->floor() && !shared->cross_adapter)
    return Status::kInvalidParameter;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(args.TotalPrivateDriverDataSize, total_private_bytes(*shared));
  args.ResourcePrivateDriverDataSize = size_of(shared->resource_data);
  args.PrivateRuntimeDataSize = size_of(shared->runtime_data);
  args.NumAllocations = static_cast<UINT>(shared->members.size());
  return Status::kSuccess;
}

/// The buffer for the data of an opening.
struct OpenBuffers {
  void* runtime = nullptr;
  UINT* runtime_bytes = nullptr;
  void* resource = nullptr;
  UINT* resource_bytes = nullptr;
  void* total = nullptr;
  UINT* total_bytes = nullptr;
  UINT count = 0;
};

/// A buffer has room for `data`, and can be written (THUNK-21).
Status check_room(void* client, UINT room, size_t bytes) {
  if (room < bytes) return Status::kInvalidParameter;
  if (bytes == 0) return Status::kSuccess;
  if (client == nullptr) return Status::kInvalidParameter;
  return writable(client, bytes) ? Status::kSuccess : Status::kAccessViolation;
}

template <typename Info>
Status open_resource(const Ref<Device>& device, const Ref<SharedResource>& shared, bool read_only,
                     const OpenBuffers& out, Info* client_infos, D3DKMT_HANDLE* resource) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const uint32_t total, total_private_bytes(*shared));
  if (out.count != shared->members.size()) return Status::kInvalidParameter;
  DXGKIT_RETURN_IF_FAILED(check_room(out.runtime, *out.runtime_bytes, shared->runtime_data.size()));
  DXGKIT_RETURN_IF_FAILED(
      check_room(out.resource, *out.resource_bytes, shared->resource_data.size()));
  DXGKIT_RETURN_IF_FAILED(check_room(out.total, *out.total_bytes, total));
  std::vector<Info> infos;
  DXGKIT_RETURN_IF_FAILED(capture_array(client_infos, out.count, kMaxListElements, &infos));
  if (!infos.empty() && !guarded_copy(client_infos, infos.data(), infos.size() * sizeof(Info)))
    return Status::kAccessViolation;

  dxgk::OpenedResource opened;
  DXGKIT_RETURN_IF_FAILED(device->memory().open_resource(shared, read_only, &opened));
  // A caller whose buffers went away since loses only that.
  auto* next = static_cast<std::byte*>(out.total);
  for (size_t i = 0; i < infos.size(); ++i) {
    const std::vector<std::byte>& data = shared->members[i].private_data;
    infos[i].hAllocation = opened.allocations[i];
    infos[i].pPrivateDriverData = data.empty() ? nullptr : next;
    infos[i].PrivateDriverDataSize = size_of(data);
    if constexpr (requires { infos[i].GpuVirtualAddress; })
      infos[i].GpuVirtualAddress = 0;  // as at creation (THUNK-20)
    if (data.empty()) continue;
    static_cast<void>(guarded_copy(next, data.data(), data.size()));
    next += data.size();
  }
  const auto give = [](void* client, const std::vector<std::byte>& data) {
    if (!data.empty()) static_cast<void>(guarded_copy(client, data.data(), data.size()));
  };
  give(out.runtime, shared->runtime_data);
  give(out.resource, shared->resource_data);
  *out.runtime_bytes = size_of(shared->runtime_data);
  *out.resource_bytes = size_of(shared->resource_data);
  *out.total_bytes = total;
  if (!infos.empty())
    static_cast<void>(guarded_copy(client_infos, infos.data(), infos.size() * sizeof(Info)));
  *resource = opened.resource;
  return Status::kSuccess;
}

template <typename Args>
Status query(Process& process, Args& args) {
  process.system().impl().reap_nt_handles();
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const NtHandles::Named named, named_by(process, name_in(args)));
  return query_resource(args, device, named.resource);
}

/// `infos`: the list of the call's form.
template <typename Args, typename Info>
Status open(Process& process, Args& args, Info* infos) {
  process.system().impl().reap_nt_handles();
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const NtHandles::Named named, named_by(process, name_in(args)));
  const OpenBuffers out{.runtime = args.pPrivateRuntimeData,
                        .runtime_bytes = &args.PrivateRuntimeDataSize,
                        .resource = args.pResourcePrivateDriverData,
                        .resource_bytes = &args.ResourcePrivateDriverDataSize,
                        .total = args.pTotalPrivateDriverDataBuffer,
                        .total_bytes = &args.TotalPrivateDriverDataBufferSize,
                        .count = args.NumAllocations};
  return open_resource(device, named.resource, named.access == NtHandles::Access::kRead, out, infos,
                       &args.hResource);
}

Status open_global(Process& process, D3DKMT_OPENRESOURCE& args) {
  return open(process, args, args.pOpenAllocationInfo);
}

Status open_global2(Process& process, D3DKMT_OPENRESOURCE& args) {
  return open(process, args, args.pOpenAllocationInfo2);
}

/// THUNK-23: objects shared with the resource are opened with it. The room for the mutex's data is
/// either none or enough.
Status open_nt(Process& process, D3DKMT_OPENRESOURCEFROMNTHANDLE& args) {
  process.system().impl().reap_nt_handles();
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const NtHandles::Named named, named_by(process, args.hNtHandle));
  if (!named.mutex && !named.sync) {
    DXGKIT_RETURN_IF_FAILED(open(process, args, args.pOpenAllocationInfo2));
    args.hKeyedMutex = 0;
    args.hSyncObject = 0;
    return Status::kSuccess;
  }
  std::vector<std::byte> data;
  if (named.mutex && args.KeyedMutexPrivateRuntimeDataSize != 0) {
    if (args.KeyedMutexPrivateRuntimeDataSize > kMaxPrivateBytes) return Status::kInvalidParameter;
    data.resize(args.KeyedMutexPrivateRuntimeDataSize);
    if (args.pKeyedMutexPrivateRuntimeData == nullptr) return Status::kInvalidParameter;
    if (!writable(args.pKeyedMutexPrivateRuntimeData, data.size())) return Status::kAccessViolation;
  }
  // The resource last: it alone writes the caller's arrays.
  Ref<dxgk::KeyedMutex> mutex;
  if (named.mutex) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(mutex, dxgk::KeyedMutex::open(process, named.mutex, &data));
  }
  Ref<dxgk::SyncObject> sync;
  Status status = Status::kSuccess;
  if (named.sync) {
    Result<Ref<dxgk::SyncObject>> opened = dxgk::SyncObject::open(process, nullptr, named.sync, {});
    if (opened.has_value()) sync = *opened;
    if (!opened.has_value()) status = opened.error();
  }
  if (is_success(status)) status = open(process, args, args.pOpenAllocationInfo2);
  if (!is_success(status)) {
    if (mutex) {
      process.handles().erase(mutex->handle);
      mutex->close();
    }
    if (sync) {
      process.handles().erase(sync->handle);
      sync->close();
    }
    return status;
  }
  if (sync) process.handles().publish(sync->handle);
  args.hKeyedMutex = mutex ? mutex->handle : 0;
  args.hSyncObject = sync ? sync->handle : 0;
  if (!data.empty())
    static_cast<void>(guarded_copy(args.pKeyedMutexPrivateRuntimeData, data.data(), data.size()));
  return Status::kSuccess;
}

Status shared_primary(Process& process, D3DKMT_GETSHAREDPRIMARYHANDLE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<dxgk::Adapter> adapter,
                                 process.handles().find<dxgk::Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  dxgk::Display* const display = adapter->floor().display;
  if (display == nullptr) return Status::kInvalidParameter;  // it has no sources
  DXGKIT_ASSIGN_OR_RETURN_STATUS(args.hSharedPrimary, display->shared_primary(args.VidPnSourceId));
  return Status::kSuccess;
}

/// The shared resource a handle of `process` names: itself, or one of its allocations.
Result<Ref<Resource>> resource_of(Process& process, D3DKMT_HANDLE handle) {
  Result<Ref<Resource>> resource = process.handles().find<Resource>(handle);
  if (resource.has_value()) return resource;
  DXGKIT_ASSIGN_OR_RETURN(const Ref<OpenedAllocation> opened,
                          process.handles().find<OpenedAllocation>(handle));
  if (!opened->resource) return Error(Status::kInvalidParameter);
  return opened->resource;
}

/// Holds the object behind a handle of ShareObjects, for a descriptor. kInvalidParameter: the
/// handle was not made for sharing, belongs to another process, or its object is being destroyed.
Status hold(const Ref<Resource>& resource, NtHandles::Named* named) {
  dxgk::AdapterCore& core = resource->device->core();
  DXGKIT_ENTER_CORE(core);
  if (resource->device->device().lost()) return Status::kDeviceRemoved;
  if (named->resource) return Status::kInvalidParameter;
  if (!resource->shared || !resource->shared->nt_security) return Status::kInvalidParameter;
  bool held = false;
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (resource->closing || resource->shared->gone) return;
    ++resource->shared->holds;
    held = true;
  });
  if (!held) return Status::kInvalidParameter;  // another thread destroys it
  named->resource = resource->shared;
  return Status::kSuccess;
}

Status hold(const Ref<dxgk::SyncObject>& object, NtHandles::Named* named) {
  dxgk::AdapterCore& core = object->floor().core;
  DXGKIT_ENTER_CORE(core);
  if (object->device && object->device->device().lost()) return Status::kDeviceRemoved;
  if (named->sync || !object->shared->nt_security) return Status::kInvalidParameter;
  bool held = false;
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (object->shared->gone) return;
    ++object->shared->holds;
    held = true;
  });
  if (!held) return Status::kInvalidParameter;
  named->sync = object->shared;
  return Status::kSuccess;
}

Status hold(const Ref<dxgk::KeyedMutex>& mutex, NtHandles::Named* named) {
  if (named->mutex || !mutex->shared().nt_security) return Status::kInvalidParameter;
  if (!mutex->shared().take_hold()) return Status::kInvalidParameter;
  named->mutex = mutex->shared_reference();
  return Status::kSuccess;
}

/// THUNK-23: a resource, with or without a keyed mutex and a sync object, or a sync object alone.
/// Nothing is held on failure.
Status hold_together(Process& process, std::span<const D3DKMT_HANDLE> handles,
                     NtHandles::Named* named) {
  Status status = Status::kSuccess;
  for (const D3DKMT_HANDLE handle : handles) {
    if (const auto sync = process.handles().find<dxgk::SyncObject>(handle); sync.has_value()) {
      status = hold(*sync, named);
    } else if (const auto mutex = process.handles().find<dxgk::KeyedMutex>(handle);
               mutex.has_value()) {
      status = hold(*mutex, named);
    } else {
      const Result<Ref<Resource>> resource = resource_of(process, handle);
      status = resource.has_value() ? hold(*resource, named) : resource.error();
    }
    if (!is_success(status)) break;
  }
  const bool alone = handles.size() == 1 && named->sync;
  if (is_success(status) && !named->resource && !alone) status = Status::kInvalidParameter;
  // One device for all: objects that are opened together are used together.
  if (is_success(status) && named->resource && named->sync &&
      &named->resource->floor() != &named->sync->floor())
    status = Status::kInvalidParameter;
  if (!is_success(status)) dxgk::System::Impl::drop_holds(*named);
  return status;
}

Status share_objects(Process& process, UINT count, const D3DKMT_HANDLE* client_handles,
                     const OBJECT_ATTRIBUTES* client_attributes, DWORD desired_access,
                     HANDLE* client_result) {
  process.system().impl().reap_nt_handles();
  constexpr UINT kMaxObjects = 3;  // an allocation, a keyed mutex, a sync object
  if (count == 0) return Status::kInvalidParameter;
  std::vector<D3DKMT_HANDLE> handles;
  // The pointers are the arguments themselves, so bad ones are invalid parameters (THUNK-01).
  if (!is_success(capture_array(client_handles, count, kMaxObjects, &handles)))
    return Status::kInvalidParameter;
  if (client_result == nullptr) return Status::kInvalidParameter;
  if (!writable(client_result, sizeof *client_result)) return Status::kInvalidParameter;
  std::u16string name;
  if (client_attributes != nullptr) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(name, capture_object_name(client_attributes));
  }
  NtHandles::Named named;
  named.access = access_of(desired_access);
  DXGKIT_RETURN_IF_FAILED(hold_together(process, handles, &named));
  const Result<int> fd = process.system().impl().nt_handles.create(named, std::move(name));
  if (!fd.has_value()) {
    dxgk::System::Impl::drop_holds(named);
    return fd.error();
  }
  HANDLE handle = reinterpret_cast<HANDLE>(static_cast<uintptr_t>(*fd));
  if (guarded_copy(client_result, &handle, sizeof handle)) return Status::kSuccess;
  close(*fd);
  process.system().impl().reap_nt_handles();
  return Status::kInvalidParameter;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;
using dxgkit::thunks::WriteBack;

extern "C" {

NTSTATUS APIENTRY D3DKMTQueryResourceInfo(D3DKMT_QUERYRESOURCEINFO* args) {
  return call("D3DKMTQueryResourceInfo", args, WriteBack::kOnSuccess,
              dxgkit::thunks::query<D3DKMT_QUERYRESOURCEINFO>);
}
NTSTATUS APIENTRY D3DKMTQueryResourceInfoFromNtHandle(D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE* args) {
  return call("D3DKMTQueryResourceInfoFromNtHandle", args, WriteBack::kOnSuccess,
              dxgkit::thunks::query<D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE>);
}
NTSTATUS APIENTRY D3DKMTOpenResource(D3DKMT_OPENRESOURCE* args) {
  return call("D3DKMTOpenResource", args, WriteBack::kOnSuccess, dxgkit::thunks::open_global);
}
NTSTATUS APIENTRY D3DKMTOpenResource2(D3DKMT_OPENRESOURCE* args) {
  return call("D3DKMTOpenResource2", args, WriteBack::kOnSuccess, dxgkit::thunks::open_global2);
}
NTSTATUS APIENTRY D3DKMTOpenResourceFromNtHandle(D3DKMT_OPENRESOURCEFROMNTHANDLE* args) {
  return call("D3DKMTOpenResourceFromNtHandle", args, WriteBack::kOnSuccess,
              dxgkit::thunks::open_nt);
}
NTSTATUS APIENTRY D3DKMTGetSharedPrimaryHandle(D3DKMT_GETSHAREDPRIMARYHANDLE* args) {
  return call("D3DKMTGetSharedPrimaryHandle", args, WriteBack::kOnSuccess,
              dxgkit::thunks::shared_primary);
}
NTSTATUS APIENTRY D3DKMTShareObjects(UINT count, const D3DKMT_HANDLE* handles,
                                     OBJECT_ATTRIBUTES* attributes, DWORD desired_access,
                                     HANDLE* shared_handle) {
  dxgkit::thunks::CallScope scope("D3DKMTShareObjects");
  if (!is_success(scope.admission())) return scope.finish(scope.admission());
  return scope.finish(dxgkit::thunks::share_objects(*scope.process(), count, handles, attributes,
                                                    desired_access, shared_handle));
}

}  // extern "C"
