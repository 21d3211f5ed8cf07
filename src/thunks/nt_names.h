// The objects behind HANDLE arguments.
#pragma once

#include <cstdint>

#include "thunks/call.h"

namespace dxgkit::thunks {

/// A HANDLE holds a file descriptor of any object. kInvalidHandle for a value that cannot be a
/// descriptor, kAccessDenied for one that gives no access (THUNK-24). Not on a lane.
inline Result<dxgk::NtHandles::Named> find_named(dxgk::Process& process, HANDLE handle) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value == 0 || value > INT32_MAX) return Error(Status::kInvalidHandle);
  DXGKIT_ASSIGN_OR_RETURN(dxgk::NtHandles::Named named,
                          process.system().impl().nt_handles.find(static_cast<int>(value)));
  if (named.access == dxgk::NtHandles::Access::kNone) return Error(Status::kAccessDenied);
  return named;
}

}  // namespace dxgkit::thunks
