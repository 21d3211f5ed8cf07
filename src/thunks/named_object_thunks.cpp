// Shared objects by name.
#include <fcntl.h>

#include <memory>
#include <string>

#include "dxgk/memory/memory_floor.h"
#include "dxgk/memory/sharing.h"
#include "dxgk/sync/keyed_mutex.h"
#include "dxgk/sync/sync_object.h"
#include "thunks/call.h"
#include "thunks/client.h"
#include "thunks/nt_names.h"

namespace dxgkit::thunks {
namespace {

using dxgk::NtHandles;
using dxgk::Process;

/// One more descriptor is about to hold what is named. False, with nothing held: a part of it is on
/// its way out.
bool hold_again(const NtHandles::Named& named) {
  NtHandles::Named held;
  const auto hold = [](dxgk::AdapterCore& core, auto& shared) {
    bool alive = false;
    core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (shared.gone) return;
      ++shared.holds;
      alive = true;
    });
    return alive;
  };
  bool whole = true;
  if (named.resource) {
    whole = hold(named.resource->floor().core, *named.resource);
    if (whole) held.resource = named.resource;
  }
  if (whole && named.sync) {
    whole = hold(named.sync->floor().core, *named.sync);
    if (whole) held.sync = named.sync;
  }
  if (whole && named.mutex) {
    whole = named.mutex->take_hold();
    if (whole) held.mutex = named.mutex;
  }
  if (!whole) dxgk::System::Impl::drop_holds(held);
  return whole;
}

enum class Wanted { kResource, kSync };

/// A new descriptor for the object of that name. All failures are the caller's: the pages of these
/// calls know no other.
template <typename Args>
Status open_name(Process& process, Args& args, Wanted wanted) {
  dxgk::System::Impl& system = process.system().impl();
  system.reap_nt_handles();
  OBJECT_ATTRIBUTES attributes;
  DXGKIT_RETURN_IF_FAILED(capture_one<&Args::pObjAttrib>(args, &attributes));
  Result<ObjectName> name = capture_object_name(process, attributes, NtHandles::Access::kRead);
  if (!name.has_value() || name->text.empty()) return Status::kInvalidParameter;
  Result<NtHandles::Named> found = system.nt_handles.find(name->text, name->spelling);
  if (!found.has_value()) return Status::kInvalidParameter;
  const bool fits = wanted == Wanted::kResource ? static_cast<bool>(found->resource)
                                                : found->sync && !found->resource;
  if (!fits) return Status::kInvalidParameter;
  found->access = access_of(args.dwDesiredAccess);
  if (!hold_again(*found)) return Status::kInvalidParameter;
  const Result<int> fd = system.nt_handles.create(*found, std::move(name->text), name->spelling);
  if (!fd.has_value()) {
    dxgk::System::Impl::drop_holds(*found);
    return Status::kInvalidParameter;
  }
  args.hNtHandle = give_handle(*fd, name->inherit);
  return Status::kSuccess;
}

}  // namespace

Result<ObjectName> capture_object_name(Process& process, const OBJECT_ATTRIBUTES& attributes,
                                       NtHandles::Access needed) {
  constexpr ULONG kAttributes = OBJ_INHERIT | OBJ_PERMANENT | OBJ_EXCLUSIVE | OBJ_CASE_INSENSITIVE |
                                OBJ_OPENIF | OBJ_OPENLINK | OBJ_KERNEL_HANDLE |
                                OBJ_FORCE_ACCESS_CHECK | OBJ_IGNORE_IMPERSONATED_DEVICEMAP |
                                OBJ_DONT_REPARSE;
  if (attributes.Length != sizeof attributes || (attributes.Attributes & ~kAttributes) != 0)
    return Error(Status::kInvalidParameter);
  ObjectName name;
  if ((attributes.Attributes & OBJ_CASE_INSENSITIVE) != 0)
    name.spelling = NtHandles::Case::kIgnored;
  name.inherit = (attributes.Attributes & OBJ_INHERIT) != 0;
  std::u16string path;
  if (attributes.RootDirectory != nullptr) {
    DXGKIT_ASSIGN_OR_RETURN(const NtHandles::Named root,
                            find_named(process, attributes.RootDirectory));
    if (root.directory == nullptr) return Error(dxgk::kObjectTypeMismatch);
    if (needed == NtHandles::Access::kWrite && root.access != NtHandles::Access::kWrite)
      return Error(Status::kAccessDenied);
    path = *root.directory + u'\\';
  }
  if (attributes.ObjectName == nullptr) return name;
  UNICODE_STRING text;
  if (!is_success(capture_one<&OBJECT_ATTRIBUTES::ObjectName>(attributes, &text)) ||
      text.Length % sizeof(WCHAR) != 0 || text.Length > text.MaximumLength ||
      !is_success(capture<&UNICODE_STRING::Buffer>(text, &name.text)))
    return Error(Status::kInvalidParameter);
  // Below a directory no name is a path from the root.
  if (!path.empty() && name.text.starts_with(u'\\')) return Error(Status::kInvalidParameter);
  if (!name.text.empty()) name.text = path + name.text;
  return name;
}

HANDLE give_handle(int fd, bool inherit) {
  if (inherit) static_cast<void>(fcntl(fd, F_SETFD, 0));  // it was made to close at execution
  return reinterpret_cast<HANDLE>(static_cast<uintptr_t>(fd));
}

int open_object_directory(dxgk::System& system, std::u16string path, ObjectDirectoryUse use) {
  NtHandles::Named named;
  named.directory = std::make_shared<const std::u16string>(std::move(path));
  named.access = use == ObjectDirectoryUse::kNameObjects ? NtHandles::Access::kWrite
                                                         : NtHandles::Access::kRead;
  const Result<int> fd = system.impl().nt_handles.create(named);
  return fd.has_value() ? *fd : -1;
}

}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTOpenNtHandleFromName(D3DKMT_OPENNTHANDLEFROMNAME* args) {
  using namespace dxgkit::thunks;
  return call<D3DKMTOpenNtHandleFromName>(
      args, [](dxgkit::dxgk::Process& process, D3DKMT_OPENNTHANDLEFROMNAME& in) {
        return open_name(process, in, Wanted::kResource);
      });
}
NTSTATUS APIENTRY
D3DKMTOpenSyncObjectNtHandleFromName(D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME* args) {
  using namespace dxgkit::thunks;
  return call<D3DKMTOpenSyncObjectNtHandleFromName>(
      args, [](dxgkit::dxgk::Process& process, D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME& in) {
        return open_name(process, in, Wanted::kSync);
      });
}

}  // extern "C"
