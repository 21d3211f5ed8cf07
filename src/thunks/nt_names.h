// The objects behind HANDLE arguments.
#pragma once

#include <cstdint>
#include <string>

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

/// Of the access rights only reading and writing mean something here.
inline dxgk::NtHandles::Access access_of(DWORD desired) {
  constexpr DWORD kSharedAllocationWrite = 1, kGenericAll = 0x1000'0000,
                  kGenericWrite = 0x4000'0000, kMaximumAllowed = 0x0200'0000;
  if ((desired & (kSharedAllocationWrite | kGenericAll | kGenericWrite | kMaximumAllowed)) != 0)
    return dxgk::NtHandles::Access::kWrite;
  return desired == 0 ? dxgk::NtHandles::Access::kNone : dxgk::NtHandles::Access::kRead;
}

/// What object attributes say of a name.
struct ObjectName {
  std::u16string text;  // with the path of its directory; empty: none
  dxgk::NtHandles::Case spelling = dxgk::NtHandles::Case::kMatters;  // OBJ_CASE_INSENSITIVE
  bool inherit = false;                                              // OBJ_INHERIT
};

/// Object attributes, as they were captured; what they point to is read once. A name below a root
/// directory is one of that directory; without a root directory it is a path (THUNK-58). `needed`:
/// kWrite to give the name, kRead to look for it. kInvalidParameter: attributes or a name that
/// cannot be read or are malformed. kInvalidHandle, kObjectTypeMismatch: RootDirectory is no
/// handle, or none of a directory. kAccessDenied: the directory was opened without that right.
Result<ObjectName> capture_object_name(dxgk::Process& process, const OBJECT_ATTRIBUTES& attributes,
                                       dxgk::NtHandles::Access needed);

/// The descriptor as a client's HANDLE; with `inherit` programs that the client starts have it.
HANDLE give_handle(int fd, bool inherit);

}  // namespace dxgkit::thunks
