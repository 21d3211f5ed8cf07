// Shared objects by name.
#include <unistd.h>

#include <string>

#include "dxgk/memory/memory_floor.h"
#include "dxgk/memory/sharing.h"
#include "dxgk/sync/keyed_mutex.h"
#include "dxgk/sync/sync_object.h"
#include "thunks/call.h"
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
  if (args.pObjAttrib == nullptr) return Status::kInvalidParameter;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(std::u16string name, capture_object_name(args.pObjAttrib));
  if (name.empty()) return Status::kInvalidParameter;
  Result<NtHandles::Named> found = system.nt_handles.find(name);
  if (!found.has_value()) return Status::kInvalidParameter;
  const bool fits = wanted == Wanted::kResource ? static_cast<bool>(found->resource)
                                                : found->sync && !found->resource;
  if (!fits) return Status::kInvalidParameter;
  found->access = access_of(args.dwDesiredAccess);
  if (!hold_again(*found)) return Status::kInvalidParameter;
  const Result<int> fd = system.nt_handles.create(*found, std::move(name));
  if (!fd.has_value()) {
    dxgk::System::Impl::drop_holds(*found);
    return Status::kInvalidParameter;
  }
  args.hNtHandle = reinterpret_cast<HANDLE>(static_cast<uintptr_t>(*fd));
  return Status::kSuccess;
}

}  // namespace

Result<std::u16string> capture_object_name(const OBJECT_ATTRIBUTES* client) {
  constexpr size_t kMostBytes = 1024;  // our choice
  OBJECT_ATTRIBUTES attributes;
  if (!guarded_copy(&attributes, client, sizeof attributes) ||
      attributes.Length != sizeof attributes)
    return Error(Status::kInvalidParameter);
  if (attributes.RootDirectory != nullptr) return Error(Status::kNotSupported);
  if (attributes.ObjectName == nullptr) return std::u16string();
  UNICODE_STRING text;
  if (!guarded_copy(&text, attributes.ObjectName, sizeof text))
    return Error(Status::kInvalidParameter);
  if (text.Length % sizeof(WCHAR) != 0 || text.Length > kMostBytes ||
      text.Length > text.MaximumLength)
    return Error(Status::kInvalidParameter);
  std::u16string name(text.Length / sizeof(WCHAR), u'\0');
  if (!name.empty() &&
      (text.Buffer == nullptr || !guarded_copy(name.data(), text.Buffer, text.Length)))
    return Error(Status::kInvalidParameter);
  return name;
}

}  // namespace dxgkit::thunks

using dxgkit::thunks::call;
using dxgkit::thunks::WriteBack;

extern "C" {

NTSTATUS APIENTRY D3DKMTOpenNtHandleFromName(D3DKMT_OPENNTHANDLEFROMNAME* args) {
  using namespace dxgkit::thunks;
  return call("D3DKMTOpenNtHandleFromName", args, WriteBack::kOnSuccess,
              [](dxgkit::dxgk::Process& process, D3DKMT_OPENNTHANDLEFROMNAME& in) {
                return open_name(process, in, Wanted::kResource);
              });
}
NTSTATUS APIENTRY
D3DKMTOpenSyncObjectNtHandleFromName(D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME* args) {
  using namespace dxgkit::thunks;
  return call("D3DKMTOpenSyncObjectNtHandleFromName", args, WriteBack::kOnSuccess,
              [](dxgkit::dxgk::Process& process, D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME& in) {
                return open_name(process, in, Wanted::kSync);
              });
}

}  // extern "C"
