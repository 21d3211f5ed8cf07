// Opening synchronisation objects of other processes: by global handle, by descriptor.
#include "thunks/call.h"
#include "thunks/nt_names.h"
#include "thunks/sync_support.h"

namespace dxgkit::thunks {
namespace {

using dxgk::NtHandles;
using dxgk::Process;
using dxgk::Ref;
using dxgk::SharedSync;
using dxgk::SyncObject;

Result<Ref<SharedSync>> named_by(Process& process, HANDLE handle) {
  process.system().impl().reap_nt_handles();
  DXGKIT_ASSIGN_OR_RETURN(const NtHandles::Named named, find_named(process, handle));
  // A handle that bundles objects is one of its resource (THUNK-53).
  if (!named.sync || named.resource) return Error(dxgk::kObjectTypeMismatch);
  return named.sync;
}

/// An opening of the process's own, without device and addresses.
Status open_for_process(Process& process, const Ref<SharedSync>& shared, D3DKMT_HANDLE* handle) {
  DXGKIT_ENTER_CORE(shared->floor().core);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncObject> object,
                                 SyncObject::open(process, nullptr, shared, {}));
  process.handles().publish(object->handle);
  *handle = object->handle;
  return Status::kSuccess;
}

Status open_global(Process& process, D3DKMT_OPENSYNCHRONIZATIONOBJECT& args) {
  process.system().impl().reap_nt_handles();
  DXGKIT_ASSIGN_OR_RETURN_STATUS(
      const Ref<SharedSync> shared,
      process.system().impl().global_shares.find<SharedSync>(args.hSharedHandle));
  return open_for_process(process, shared, &args.hSyncObject);
}

Status open_nt(Process& process, D3DKMT_OPENSYNCOBJECTFROMNTHANDLE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SharedSync> shared, named_by(process, args.hNtHandle));
  return open_for_process(process, shared, &args.hSyncObject);
}

Status open_nt2(Process& process, D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SharedSync> shared, named_by(process, args.hNtHandle));
  if (&shared->floor() != &device->floor()) return Status::kInvalidParameter;
  const bool monitored = shared->has_page;
  // It has Shared and NtSecuritySharing already.
  DXGKIT_RETURN_IF_FAILED(check_sync_flags(
      args.Flags.Value & ~(sync_flags::kShared | sync_flags::kNtSecuritySharing), monitored));
  // Addresses for one GPU of a link: there are no links here, bit 0 is the adapter (INT-12).
  if (monitored && args.MonitoredFence.EngineAffinity > 1) return Status::kInvalidParameter;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(
      const Ref<SyncObject> object,
      device->sync().open_sync_object(shared, sync_use_of(args.Flags.Value)));
  args.hSyncObject = object->handle;
  if (monitored) {
    args.MonitoredFence.FenceValueCPUVirtualAddress = object->client_view->address();
    args.MonitoredFence.FenceValueGPUVirtualAddress = object->gpu_address;
  }
  return Status::kSuccess;
}

Status open_native(Process& process, D3DKMT_OPENNATIVEFENCEFROMNTHANDLE& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  if (device->floor().native_fences == nullptr) return Status::kNotSupported;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SharedSync> shared, named_by(process, args.hNtHandle));
  if (&shared->floor() != &device->floor() || !shared->native) return Status::kInvalidParameter;
  const UINT flags = args.Flags.Value & ~(sync_flags::kShared | sync_flags::kNtSecuritySharing);
  DXGKIT_RETURN_IF_FAILED(check_native_flags(flags, args.EngineAffinity));
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncObject> object,
                                 device->sync().open_sync_object(shared, sync_use_of(flags)));
  args.hSyncObject = object->handle;
  args.NativeFenceMapping = native_mapping(*object);
  return Status::kSuccess;
}

}  // namespace

D3DDDI_NATIVEFENCEMAPPING native_mapping(const SyncObject& object) {
  D3DDDI_NATIVEFENCEMAPPING mapping = {};
  mapping.CurrentValueCpuVa = object.client_view->address();
  mapping.CurrentValueGpuVa = object.gpu_address;
  mapping.MonitoredValueGpuVa = object.monitored_gpu_address;
  return mapping;
}

Status check_native_flags(UINT flags, UINT engine_affinity) {
  DXGKIT_RETURN_IF_FAILED(check_sync_flags(flags, /*monitored=*/true));
  // A fence that engines cannot reach is not a native fence.
  if ((flags & sync_flags::kNoGpuAccess) != 0) return Status::kInvalidParameter;
  return engine_affinity > 1 ? Status::kInvalidParameter : Status::kSuccess;  // no links here
}

}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTOpenSynchronizationObject(D3DKMT_OPENSYNCHRONIZATIONOBJECT* args) {
  return call<D3DKMTOpenSynchronizationObject>(args, dxgkit::thunks::open_global);
}
NTSTATUS APIENTRY D3DKMTOpenSyncObjectFromNtHandle(D3DKMT_OPENSYNCOBJECTFROMNTHANDLE* args) {
  return call<D3DKMTOpenSyncObjectFromNtHandle>(args, dxgkit::thunks::open_nt);
}
NTSTATUS APIENTRY D3DKMTOpenSyncObjectFromNtHandle2(D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2* args) {
  return call<D3DKMTOpenSyncObjectFromNtHandle2>(args, dxgkit::thunks::open_nt2);
}
NTSTATUS APIENTRY D3DKMTOpenNativeFenceFromNtHandle(D3DKMT_OPENNATIVEFENCEFROMNTHANDLE* args) {
  return call<D3DKMTOpenNativeFenceFromNtHandle>(args, dxgkit::thunks::open_native);
}

}  // extern "C"
