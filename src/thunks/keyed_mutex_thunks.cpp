// Keyed mutexes: create, open, acquire, release, destroy (SYNC-26).
#include "dxgk/sync/keyed_mutex.h"
#include "runtime/runtime.h"
#include "thunks/call.h"
#include "thunks/nt_names.h"

namespace dxgkit::thunks {
namespace {

using dxgk::KeyedMutex;
using dxgk::NtHandles;
using dxgk::Process;
using dxgk::Ref;
using dxgk::SharedKeyedMutex;

/// Private runtime data of a second form; the first forms have none.
template <typename Args>
Status capture_data(const Args& args, std::vector<std::byte>* data) {
  if constexpr (requires { args.pPrivateRuntimeData; })
    return capture<&Args::pPrivateRuntimeData>(args, data);
  return Status::kSuccess;
}

/// How much of it the caller takes; it can be written.
template <typename Args>
Status room_for_data(const Args& args, size_t* room) {
  *room = 0;
  if constexpr (requires { args.pPrivateRuntimeData; }) {
    DXGKIT_RETURN_IF_FAILED(check_room<&Args::pPrivateRuntimeData>(args));
    *room = count_of<&Args::pPrivateRuntimeData>(args);
  }
  return Status::kSuccess;
}

template <typename Args>
void give_data(Args& args, const std::vector<std::byte>& data) {
  if constexpr (requires { args.pPrivateRuntimeData; }) {
    // A caller whose buffer was unmapped since loses only that data.
    static_cast<void>(give<&Args::pPrivateRuntimeData>(args, data));
  }
}

template <typename Args>
Status create(Process& process, Args& args) {
  std::vector<std::byte> data;
  DXGKIT_RETURN_IF_FAILED(capture_data(args, &data));
  bool nt_security = false;
  if constexpr (requires { args.Flags; }) {
    if (args.Flags.Reserved != 0) return Status::kInvalidParameter;  // THUNK-03
    nt_security = args.Flags.NtSecuritySharing != 0;
  }
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<KeyedMutex> mutex,
                                 KeyedMutex::create(process.system().impl().global_shares, process,
                                                    args.InitialValue, data, nt_security));
  args.hKeyedMutex = mutex->handle;
  args.hSharedHandle = mutex->shared().global;
  return Status::kSuccess;
}

/// SYNC-37: private data of an opening is an input.
template <typename Args>
Status open(Process& process, Args& args) {
  process.system().impl().reap_nt_handles();
  DXGKIT_ASSIGN_OR_RETURN_STATUS(
      const Ref<SharedKeyedMutex> shared,
      process.system().impl().global_shares.find<SharedKeyedMutex>(args.hSharedHandle));
  std::vector<std::byte> data;
  DXGKIT_RETURN_IF_FAILED(capture_data(args, &data));
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<KeyedMutex> mutex,
                                 KeyedMutex::open(process, shared, data));
  args.hKeyedMutex = mutex->handle;
  return Status::kSuccess;
}

/// No descriptor names a keyed mutex alone: D3DKMTShareObjects takes it only together with its
/// resource, and then the descriptor is one of the resource (THUNK-23, THUNK-53).
Status open_nt(Process& process, const D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE& args) {
  process.system().impl().reap_nt_handles();
  DXGKIT_ASSIGN_OR_RETURN_STATUS([[maybe_unused]] const NtHandles::Named named,
                                 find_named(process, args.hNtHandle));
  return dxgk::kObjectTypeMismatch;
}

template <typename Args>
Status acquire(Process& process, Args& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<KeyedMutex> mutex,
                                 process.handles().find<KeyedMutex>(args.hKeyedMutex));
  int64_t timeout = 0;
  if (args.pTimeout != nullptr)
    DXGKIT_RETURN_IF_FAILED(capture_one<&Args::pTimeout>(args, &timeout));
  size_t room = 0;
  DXGKIT_RETURN_IF_FAILED(room_for_data(args, &room));
  KeyedMutex::Taken taken;
  const Status status =
      mutex->acquire(args.Key, args.pTimeout == nullptr ? nullptr : &timeout, room, &taken);
  args.FenceValue = taken.fence_value;  // 0 if it was not taken (SYNC-26, SYNC-38)
  give_data(args, taken.data);
  return status;
}

template <typename Args>
Status release(Process& process, Args& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<KeyedMutex> mutex,
                                 process.handles().find<KeyedMutex>(args.hKeyedMutex));
  std::vector<std::byte> data;
  DXGKIT_RETURN_IF_FAILED(capture_data(args, &data));
  return mutex->release(args.Key, args.FenceValue, data.empty() ? nullptr : &data);
}

Status destroy(Process& process, const D3DKMT_DESTROYKEYEDMUTEX& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<KeyedMutex> mutex,
                                 process.handles().take<KeyedMutex>(args.hKeyedMutex));
  mutex->close();
  return Status::kSuccess;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCreateKeyedMutex(D3DKMT_CREATEKEYEDMUTEX* args) {
  return call<D3DKMTCreateKeyedMutex>(args, dxgkit::thunks::create<D3DKMT_CREATEKEYEDMUTEX>);
}
NTSTATUS APIENTRY D3DKMTCreateKeyedMutex2(D3DKMT_CREATEKEYEDMUTEX2* args) {
  return call<D3DKMTCreateKeyedMutex2>(args, dxgkit::thunks::create<D3DKMT_CREATEKEYEDMUTEX2>);
}
NTSTATUS APIENTRY D3DKMTOpenKeyedMutex(D3DKMT_OPENKEYEDMUTEX* args) {
  return call<D3DKMTOpenKeyedMutex>(args, dxgkit::thunks::open<D3DKMT_OPENKEYEDMUTEX>);
}
NTSTATUS APIENTRY D3DKMTOpenKeyedMutex2(D3DKMT_OPENKEYEDMUTEX2* args) {
  return call<D3DKMTOpenKeyedMutex2>(args, dxgkit::thunks::open<D3DKMT_OPENKEYEDMUTEX2>);
}
NTSTATUS APIENTRY D3DKMTOpenKeyedMutexFromNtHandle(D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE* args) {
  return call<D3DKMTOpenKeyedMutexFromNtHandle>(args, dxgkit::thunks::open_nt);
}
NTSTATUS APIENTRY D3DKMTAcquireKeyedMutex(D3DKMT_ACQUIREKEYEDMUTEX* args) {
  return call<D3DKMTAcquireKeyedMutex>(args, dxgkit::thunks::acquire<D3DKMT_ACQUIREKEYEDMUTEX>);
}
NTSTATUS APIENTRY D3DKMTAcquireKeyedMutex2(D3DKMT_ACQUIREKEYEDMUTEX2* args) {
  return call<D3DKMTAcquireKeyedMutex2>(args, dxgkit::thunks::acquire<D3DKMT_ACQUIREKEYEDMUTEX2>);
}
NTSTATUS APIENTRY D3DKMTReleaseKeyedMutex(D3DKMT_RELEASEKEYEDMUTEX* args) {
  return call<D3DKMTReleaseKeyedMutex>(args, dxgkit::thunks::release<D3DKMT_RELEASEKEYEDMUTEX>);
}
NTSTATUS APIENTRY D3DKMTReleaseKeyedMutex2(D3DKMT_RELEASEKEYEDMUTEX2* args) {
  return call<D3DKMTReleaseKeyedMutex2>(args, dxgkit::thunks::release<D3DKMT_RELEASEKEYEDMUTEX2>);
}
NTSTATUS APIENTRY D3DKMTDestroyKeyedMutex(const D3DKMT_DESTROYKEYEDMUTEX* args) {
  return call<D3DKMTDestroyKeyedMutex>(args, dxgkit::thunks::destroy);
}

}  // extern "C"
