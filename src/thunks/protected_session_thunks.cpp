// Protected sessions.
#include <algorithm>
#include <utility>

#include "dxgk/sync/protected_session.h"
#include "dxgk/work/device.h"
#include "thunks/call.h"
#include "thunks/nt_names.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Device;
using dxgk::NtHandles;
using dxgk::Process;
using dxgk::ProtectedSession;
using dxgk::Ref;
using dxgk::SharedSession;

Result<Ref<SharedSession>> session_named_by(Process& process, HANDLE handle) {
  process.system().impl().reap_nt_handles();
  DXGKIT_ASSIGN_OR_RETURN(const NtHandles::Named named, find_named(process, handle));
  if (!named.session) return Error(dxgk::kObjectTypeMismatch);
  return named.session;
}

Status create_session(Process& process, D3DKMT_CREATEPROTECTEDSESSION& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<dxgk::SyncObject> fence,
                                 process.handles().find<dxgk::SyncObject>(args.hSyncObject));
  std::vector<std::byte> data, runtime_data;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_CREATEPROTECTEDSESSION::pPrivateDriverData>(args, &data));
  DXGKIT_RETURN_IF_FAILED(
      capture<&D3DKMT_CREATEPROTECTEDSESSION::pPrivateRuntimeData>(args, &runtime_data));
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<ProtectedSession> session,
                                 device->floor().protected_sessions->create(
                                     *device, *fence, std::move(data), std::move(runtime_data)));
  args.hHandle = session->handle;
  return Status::kSuccess;
}

Status destroy_session(Process& process, D3DKMT_DESTROYPROTECTEDSESSION& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<ProtectedSession> session,
                                 process.handles().take<ProtectedSession>(args.hHandle));
  dxgk::SyncFloor& floor = session->shared->floor();
  floor.core.while_stable([&] { floor.protected_sessions->close(*session); });
  return Status::kSuccess;
}

Status open_session(Process& process, D3DKMT_OPENPROTECTEDSESSIONFROMNTHANDLE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SharedSession> shared,
                                 session_named_by(process, args.hNtHandle));
  DXGKIT_ENTER_CORE(shared->floor().core);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<ProtectedSession> session,
                                 shared->floor().protected_sessions->open(process, shared));
  args.hHandle = session->handle;
  return Status::kSuccess;
}

Status session_status(Process& process, D3DKMT_QUERYPROTECTEDSESSIONSTATUS& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<ProtectedSession> session,
                                 process.handles().find<ProtectedSession>(args.hHandle));
  args.Status = session->shared->valid.load() ? D3DKMT_PROTECTED_SESSION_STATUS_OK
                                              : D3DKMT_PROTECTED_SESSION_STATUS_INVALID;
  return Status::kSuccess;
}

using SessionInfo = D3DKMT_QUERYPROTECTEDSESSIONINFOFROMNTHANDLE;

/// THUNK-21: room that is given has to be enough.
template <auto Room>
Status check_session_room(const SessionInfo& args, const std::vector<std::byte>& data) {
  if (args.*Room == nullptr) return Status::kSuccess;
  if (count_of<Room>(args) < data.size()) return Status::kBufferTooSmall;
  return has_room<Room>(args, data.size()) ? Status::kSuccess : Status::kInvalidParameter;
}

template <auto Room>
void give_session_data(const SessionInfo& args, const std::vector<std::byte>& data) {
  if (args.*Room != nullptr && !data.empty()) static_cast<void>(give<Room>(args, data));
}

/// Without a buffer the call tells its size.
Status session_info(Process& process, SessionInfo& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SharedSession> shared,
                                 session_named_by(process, args.hNtHandle));
  DXGKIT_RETURN_IF_FAILED(
      check_session_room<&SessionInfo::pPrivateDriverData>(args, shared->private_data));
  DXGKIT_RETURN_IF_FAILED(
      check_session_room<&SessionInfo::pPrivateRuntimeData>(args, shared->runtime_data));
  give_session_data<&SessionInfo::pPrivateDriverData>(args, shared->private_data);
  give_session_data<&SessionInfo::pPrivateRuntimeData>(args, shared->runtime_data);
  args.PrivateDriverDataSize = static_cast<UINT>(shared->private_data.size());
  args.PrivateRuntimeDataSize = static_cast<UINT>(shared->runtime_data.size());
  return Status::kSuccess;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCreateProtectedSession(D3DKMT_CREATEPROTECTEDSESSION* args) {
  return call<D3DKMTCreateProtectedSession>(args, dxgkit::thunks::create_session);
}
NTSTATUS APIENTRY D3DKMTDestroyProtectedSession(D3DKMT_DESTROYPROTECTEDSESSION* args) {
  return call<D3DKMTDestroyProtectedSession>(args, dxgkit::thunks::destroy_session);
}
NTSTATUS APIENTRY
D3DKMTOpenProtectedSessionFromNtHandle(D3DKMT_OPENPROTECTEDSESSIONFROMNTHANDLE* args) {
  return call<D3DKMTOpenProtectedSessionFromNtHandle>(args, dxgkit::thunks::open_session);
}
NTSTATUS APIENTRY D3DKMTQueryProtectedSessionStatus(D3DKMT_QUERYPROTECTEDSESSIONSTATUS* args) {
  return call<D3DKMTQueryProtectedSessionStatus>(args, dxgkit::thunks::session_status);
}
NTSTATUS APIENTRY
D3DKMTQueryProtectedSessionInfoFromNtHandle(D3DKMT_QUERYPROTECTEDSESSIONINFOFROMNTHANDLE* args) {
  return call<D3DKMTQueryProtectedSessionInfoFromNtHandle>(args, dxgkit::thunks::session_info);
}

}  // extern "C"
