// Helpers for the thunks of synchronisation objects.
#pragma once

#include <d3dkmthk.h>
#include <sys/stat.h>

#include <climits>

#include "base/new_descriptors.h"
#include "base/status.h"
#include "dxgk/sync/sync_object.h"

namespace dxgkit::thunks {

/// D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS, by bit.
namespace sync_flags {
inline constexpr UINT kShared = 1U << 0;
inline constexpr UINT kNtSecuritySharing = 1U << 1;
inline constexpr UINT kCrossAdapter = 1U << 2;
inline constexpr UINT kTopOfPipeline = 1U << 3;
inline constexpr UINT kNoSignal = 1U << 4;
inline constexpr UINT kNoWait = 1U << 5;
inline constexpr UINT kNoSignalMaxValueOnTdr = 1U << 6;
inline constexpr UINT kNoGpuAccess = 1U << 7;
inline constexpr UINT kSignalByKmd = 1U << 8;
inline constexpr UINT kUnused = 1U << 9;
inline constexpr UINT kUnwaitCpuWaitersOnlyOnDestroy = 1U << 10;
inline constexpr UINT kDefined = (1U << 11) - 1;
}  // namespace sync_flags

/// Checks the flags (SYNC-09, SYNC-10, THUNK-03). kNotSupported: a flag that this kernel does not
/// honour.
Status check_sync_flags(UINT flags, bool monitored);
dxgk::SyncUse sync_use_of(UINT flags);

/// Flags and affinity of a native fence, as above.
Status check_native_flags(UINT flags, UINT engine_affinity);
/// The addresses of its values, for the client that opened it.
D3DDDI_NATIVEFENCEMAPPING native_mapping(const dxgk::SyncObject& object);

/// A client's event is an eventfd here. -1 if the handle is not one: other descriptors are data of
/// other owners, and no client may make the kernel write to them.
inline int event_descriptor(HANDLE event) {
  const auto number = reinterpret_cast<intptr_t>(event);
  struct stat kind {};
  if (number < 0 || number > INT_MAX || !descriptor_status(static_cast<int>(number), &kind))
    return -1;
  return (kind.st_mode & S_IFMT) == 0 ? static_cast<int>(number) : -1;  // an anonymous inode
}

}  // namespace dxgkit::thunks
