// Sync files: create, wait, open the fence.
#include <unistd.h>

#include <array>

#include "dxgk/sync/sync_file.h"
#include "dxgk/work/context.h"
#include "thunks/call.h"
#include "thunks/nt_names.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Context;
using dxgk::NtHandles;
using dxgk::Process;
using dxgk::Ref;
using dxgk::SharedSync;
using dxgk::SyncFile;
using dxgk::SyncObject;

/// kObjectTypeMismatch: the descriptor names something else.
Result<Ref<SyncFile>> file_by(Process& process, UINT64 handle) {
  process.system().impl().reap_nt_handles();
  DXGKIT_ASSIGN_OR_RETURN(const NtHandles::Named named,
                          find_named(process, reinterpret_cast<HANDLE>(uintptr_t{handle})));
  if (!named.file) return Error(dxgk::kObjectTypeMismatch);
  return named.file;
}

/// SYNC-39.
Status create_file(Process& process, D3DKMT_CREATESYNCFILE& args) {
  dxgk::System::Impl& system = process.system().impl();
  system.reap_nt_handles();
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncObject> object,
                                 process.handles().find<SyncObject>(args.hMonitoredFence));
  if (object->kind != vidsch::SyncKind::kMonitoredFence) return Status::kInvalidParameter;
  if (&object->floor() != &device->floor()) return Status::kInvalidParameter;
  DXGKIT_RETURN_IF_FAILED(object->may_wait());
  dxgk::AdapterCore& core = device->core();
  Status status = Status::kInvalidParameter;  // destroyed meanwhile
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (object->shared->gone) return;
    const std::array points = {vidsch::SyncPoint{.object = object->id, .value = args.FenceValue}};
    if (!dxgk::sync_in_reach(core, points)) return;  // SYNC-17
    ++object->shared->holds;
    status = Status::kSuccess;
  });
  DXGKIT_RETURN_IF_FAILED(status);
  NtHandles::Named named;
  named.file = dxgk::make_object<SyncFile>(object->shared, args.FenceValue);
  named.access = NtHandles::Access::kRead;
  const Result<NtHandles::Pair> ends = system.nt_handles.create_pair(named);
  status = ends.has_value() ? named.file->watch(ends->kept) : ends.error();
  if (!is_success(status)) {
    if (ends.has_value()) {
      close(ends->given);
      system.reap_nt_handles();  // lets go of the fence
    } else {
      dxgk::System::Impl::drop_holds(named);
    }
    return status;
  }
  args.hSyncFile = static_cast<UINT64>(ends->given);
  return Status::kSuccess;
}

/// SYNC-40: as D3DKMTWaitForSynchronizationObjectFromGpu with the fence and the value.
Status wait_file(Process& process, const D3DKMT_WAITSYNCFILE& args) {
  if (args.Reserved != 0) return Status::kInvalidParameter;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  dxgk::Device& device = context->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncFile> file, file_by(process, args.hSyncFile));
  if (&file->sync()->floor() != &device.floor()) return Status::kInvalidParameter;
  const std::array points = {vidsch::SyncPoint{.object = file->sync()->id, .value = file->value()}};
  return context->queue_sync(vidsch::PacketKind::kWait, points);
}

/// SYNC-41: the opening waits and does not signal.
Status open_file(Process& process, D3DKMT_OPENSYNCOBJECTFROMSYNCFILE& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncFile> file, file_by(process, args.hSyncFile));
  const Ref<SharedSync>& shared = file->sync();
  if (&shared->floor() != &device->floor()) return Status::kInvalidParameter;
  if (!shared->nt_security) return Status::kInvalidParameter;  // its creator did not share it
  DXGKIT_ASSIGN_OR_RETURN_STATUS(
      const Ref<SyncObject> object,
      device->sync().open_sync_object(shared, dxgk::SyncUse{.no_signal = true}));
  args.hSyncObject = object->handle;
  args.FenceValue = file->value();
  args.FenceValueCPUVirtualAddress = object->client_view->address();
  args.FenceValueGPUVirtualAddress = object->gpu_address;
  return Status::kSuccess;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCreateSyncFile(D3DKMT_CREATESYNCFILE* args) {
  return call<D3DKMTCreateSyncFile>(args, dxgkit::thunks::create_file);
}
NTSTATUS APIENTRY D3DKMTWaitSyncFile(const D3DKMT_WAITSYNCFILE* args) {
  return call<D3DKMTWaitSyncFile>(args, dxgkit::thunks::wait_file);
}
NTSTATUS APIENTRY D3DKMTOpenSyncObjectFromSyncFile(D3DKMT_OPENSYNCOBJECTFROMSYNCFILE* args) {
  return call<D3DKMTOpenSyncObjectFromSyncFile>(args, dxgkit::thunks::open_file);
}

}  // extern "C"
