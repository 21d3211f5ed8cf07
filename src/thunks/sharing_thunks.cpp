// Shared resources: naming them, asking about them, opening them.
#include <unistd.h>

#include <algorithm>

#include "dxgk/display/display.h"
#include "dxgk/memory/sharing.h"
#include "dxgk/sync/keyed_mutex.h"
#include "dxgk/sync/protected_session.h"
#include "dxgk/sync/sync_object.h"
#include "thunks/call.h"
#include "thunks/nt_names.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Device;
using dxgk::NtHandles;
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

/// Infos: the list of the call's form. The buffers that the kernel fills can be written (THUNK-21).
template <auto Infos, typename Args>
Status open_resource(const Ref<Device>& device, const Ref<SharedResource>& shared, bool read_only,
                     Args& args) {
  using Info = ElementOf<Infos>;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const uint32_t total, total_private_bytes(*shared));
  if (args.NumAllocations != shared->members.size()) return Status::kInvalidParameter;
  if (args.PrivateRuntimeDataSize != shared->runtime_data.size()) return Status::kInvalidParameter;
  if (args.ResourcePrivateDriverDataSize != shared->resource_data.size())
    return Status::kInvalidParameter;
  if (args.TotalPrivateDriverDataBufferSize < total) return Status::kNoMemory;
  if (!has_room<&Args::pPrivateRuntimeData>(args, shared->runtime_data.size()) ||
      !has_room<&Args::pResourcePrivateDriverData>(args, shared->resource_data.size()) ||
      !has_room<&Args::pTotalPrivateDriverDataBuffer>(args, total))
    return Status::kInvalidParameter;
  std::vector<Info> infos;
  DXGKIT_RETURN_IF_FAILED(capture<Infos>(args, &infos));
  if (!give<Infos>(args, infos)) return Status::kInvalidParameter;

  dxgk::OpenedResource opened;
  DXGKIT_RETURN_IF_FAILED(device->memory().open_resource(shared, read_only, &opened));
  // A caller whose buffers went away since loses only that.
  auto* next = static_cast<std::byte*>(args.pTotalPrivateDriverDataBuffer);
  std::vector<std::byte> all_data;
  for (size_t i = 0; i < infos.size(); ++i) {
    const std::vector<std::byte>& data = shared->members[i].private_data;
    infos[i].hAllocation = opened.allocations[i];
    infos[i].pPrivateDriverData = data.empty() ? nullptr : next;
    infos[i].PrivateDriverDataSize = size_of(data);
    if constexpr (requires { infos[i].GpuVirtualAddress; })
      infos[i].GpuVirtualAddress = 0;  // as at creation (THUNK-20)
    all_data.insert(all_data.end(), data.begin(), data.end());
    next += data.size();
  }
  static_cast<void>(give<&Args::pTotalPrivateDriverDataBuffer>(args, all_data));
  static_cast<void>(give<&Args::pPrivateRuntimeData>(args, shared->runtime_data));
  static_cast<void>(give<&Args::pResourcePrivateDriverData>(args, shared->resource_data));
  static_cast<void>(give<Infos>(args, infos));
  args.TotalPrivateDriverDataBufferSize = total;  // the other sizes are the caller's
  args.hResource = opened.resource;
  return Status::kSuccess;
}

template <typename Args>
Status query(Process& process, Args& args) {
  process.system().impl().reap_nt_handles();
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const NtHandles::Named named, named_by(process, name_in(args)));
  return query_resource(args, device, named.resource);
}

template <auto Infos, typename Args>
Status open(Process& process, Args& args) {
  process.system().impl().reap_nt_handles();
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const NtHandles::Named named, named_by(process, name_in(args)));
  return open_resource<Infos>(device, named.resource, named.access == NtHandles::Access::kRead,
                              args);
}

Status open_global(Process& process, D3DKMT_OPENRESOURCE& args) {
  return open<&D3DKMT_OPENRESOURCE::pOpenAllocationInfo>(process, args);
}

Status open_global2(Process& process, D3DKMT_OPENRESOURCE& args) {
  return open<&D3DKMT_OPENRESOURCE::pOpenAllocationInfo2>(process, args);
}

/// THUNK-23: objects shared with the resource are opened with it. The room for the mutex's data is
/// either none or enough.
Status open_nt(Process& process, D3DKMT_OPENRESOURCEFROMNTHANDLE& args) {
  using Args = D3DKMT_OPENRESOURCEFROMNTHANDLE;
  process.system().impl().reap_nt_handles();
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const NtHandles::Named named, named_by(process, args.hNtHandle));
  if (!named.mutex) {
    DXGKIT_RETURN_IF_FAILED(open<&Args::pOpenAllocationInfo2>(process, args));
    args.hKeyedMutex = 0;
    args.hSyncObject = 0;
    return Status::kSuccess;
  }
  DXGKIT_RETURN_IF_FAILED(check_room<&Args::pKeyedMutexPrivateRuntimeData>(args));
  const size_t room = args.KeyedMutexPrivateRuntimeDataSize;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<dxgk::KeyedMutex> mutex,
                                 dxgk::KeyedMutex::open(process, named.mutex, {}));
  const std::vector<std::byte> data = room == 0 ? std::vector<std::byte>{} : mutex->data();
  Ref<dxgk::SyncObject> sync;
  const auto open_rest = [&]() -> Status {
    if (data.size() > room) return Status::kInvalidParameter;
    DXGKIT_ASSIGN_OR_RETURN_STATUS(sync, dxgk::SyncObject::open(process, nullptr, named.sync, {}));
    return open<&Args::pOpenAllocationInfo2>(process, args);  // last: it writes the caller's arrays
  };
  if (const Status status = open_rest(); !is_success(status)) {
    process.handles().erase(mutex->handle);
    mutex->close();
    if (sync) {
      process.handles().erase(sync->handle);
      sync->close();
    }
    return status;
  }
  process.handles().publish(sync->handle);
  args.hKeyedMutex = mutex->handle;
  args.hSyncObject = sync->handle;
  static_cast<void>(give<&Args::pKeyedMutexPrivateRuntimeData>(args, data));
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

/// Holds the object behind a handle of ShareObjects, for a descriptor. kInvalidParameter: the
/// handle was not made for sharing, belongs to another process, or its object is being destroyed.
Status hold(const Ref<Resource>& resource, NtHandles::Named* named) {
  dxgk::AdapterCore& core = resource->device->core();
  DXGKIT_ENTER_CORE(core);
  if (resource->device->device().lost()) return Status::kDeviceRemoved;
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
  if (!object->shared->nt_security) return Status::kInvalidParameter;
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
  if (!mutex->shared().nt_security) return Status::kInvalidParameter;
  if (!mutex->shared().take_hold()) return Status::kInvalidParameter;
  named->mutex = mutex->shared_reference();
  return Status::kSuccess;
}

Status hold(const Ref<dxgk::ProtectedSession>& session, NtHandles::Named* named) {
  const Ref<dxgk::SharedSession>& shared = session->shared;
  DXGKIT_ENTER_CORE(shared->floor().core);
  if (!shared->floor().protected_sessions->take_hold(*shared)) return Status::kInvalidParameter;
  named->session = shared;
  return Status::kSuccess;
}

using ShareArguments = arguments::D3DKMTShareObjectsArguments;
constexpr size_t kMaxObjects = kMostOf<&ShareArguments::hObjects>;
static_assert(kMaxObjects == 3);  // a resource, a keyed mutex, a sync object

/// Holds what `handle` names, if it is a T.
template <typename T>
Status hold_one(Process& process, D3DKMT_HANDLE handle, NtHandles::Named* named) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<T> object, process.handles().find<T>(handle));
  return hold(object, named);
}

/// THUNK-23: a resource, a sync object, a protected session, or a resource, a keyed mutex and a
/// sync object in this order. Nothing is held on failure.
Status hold_together(Process& process, std::span<const D3DKMT_HANDLE> handles,
                     NtHandles::Named* named) {
  Status status = Status::kInvalidParameter;
  if (handles.size() == 1) {
    const auto sync = process.handles().find<dxgk::SyncObject>(handles[0]);
    const auto session = process.handles().find<dxgk::ProtectedSession>(handles[0]);
    status = sync.has_value()      ? hold(*sync, named)
             : session.has_value() ? hold(*session, named)
                                   : hold_one<Resource>(process, handles[0], named);
  } else if (handles.size() == kMaxObjects) {
    status = hold_one<Resource>(process, handles[0], named);
    if (is_success(status)) status = hold_one<dxgk::KeyedMutex>(process, handles[1], named);
    if (is_success(status)) status = hold_one<dxgk::SyncObject>(process, handles[2], named);
  }
  // One device for all: objects that are opened together are used together.
  if (named->resource && named->sync && &named->resource->floor() != &named->sync->floor())
    status = Status::kInvalidParameter;
  if (!is_success(status)) dxgk::System::Impl::drop_holds(*named);
  return status;
}

Status share_objects(Process& process, const ShareArguments& args) {
  process.system().impl().reap_nt_handles();
  std::vector<D3DKMT_HANDLE> handles;
  DXGKIT_RETURN_IF_FAILED(capture<&ShareArguments::hObjects>(args, &handles));
  if (!has_room<&ShareArguments::phSharedNtHandle>(args, 1)) return Status::kInvalidParameter;
  ObjectName name;
  if (args.pObjectAttributes != nullptr) {
    OBJECT_ATTRIBUTES attributes;
    DXGKIT_RETURN_IF_FAILED(capture_one<&ShareArguments::pObjectAttributes>(args, &attributes));
    DXGKIT_ASSIGN_OR_RETURN_STATUS(
        name, capture_object_name(process, attributes, NtHandles::Access::kWrite));
  }
  NtHandles::Named named;
  named.access = access_of(args.dwDesiredAccess);
  DXGKIT_RETURN_IF_FAILED(hold_together(process, handles, &named));
  const Result<int> fd =
      process.system().impl().nt_handles.create(named, std::move(name.text), name.spelling);
  if (!fd.has_value()) {
    dxgk::System::Impl::drop_holds(named);
    return fd.error();
  }
  const HANDLE handle = give_handle(*fd, name.inherit);
  if (give_one<&ShareArguments::phSharedNtHandle>(args, handle)) return Status::kSuccess;
  close(*fd);
  process.system().impl().reap_nt_handles();
  return Status::kInvalidParameter;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTQueryResourceInfo(D3DKMT_QUERYRESOURCEINFO* args) {
  return call<D3DKMTQueryResourceInfo>(args, dxgkit::thunks::query<D3DKMT_QUERYRESOURCEINFO>);
}
NTSTATUS APIENTRY D3DKMTQueryResourceInfoFromNtHandle(D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE* args) {
  return call<D3DKMTQueryResourceInfoFromNtHandle>(
      args, dxgkit::thunks::query<D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE>);
}
NTSTATUS APIENTRY D3DKMTOpenResource(D3DKMT_OPENRESOURCE* args) {
  return call<D3DKMTOpenResource>(args, dxgkit::thunks::open_global);
}
NTSTATUS APIENTRY D3DKMTOpenResource2(D3DKMT_OPENRESOURCE* args) {
  return call<D3DKMTOpenResource2>(args, dxgkit::thunks::open_global2);
}
NTSTATUS APIENTRY D3DKMTOpenResourceFromNtHandle(D3DKMT_OPENRESOURCEFROMNTHANDLE* args) {
  return call<D3DKMTOpenResourceFromNtHandle>(args, dxgkit::thunks::open_nt);
}
NTSTATUS APIENTRY D3DKMTGetSharedPrimaryHandle(D3DKMT_GETSHAREDPRIMARYHANDLE* args) {
  return call<D3DKMTGetSharedPrimaryHandle>(args, dxgkit::thunks::shared_primary);
}
NTSTATUS APIENTRY D3DKMTShareObjects(UINT count, const D3DKMT_HANDLE* handles,
                                     OBJECT_ATTRIBUTES* attributes, DWORD desired_access,
                                     HANDLE* shared_handle) {
  dxgkit::thunks::CallScope scope("D3DKMTShareObjects");
  if (!is_success(scope.admission())) return scope.finish(scope.admission());
  return scope.finish(dxgkit::thunks::share_objects(
      *scope.process(), {count, handles, attributes, desired_access, shared_handle}));
}

}  // extern "C"
