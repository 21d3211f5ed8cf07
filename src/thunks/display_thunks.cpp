// Screens beside presents: their modes, their owners, their outputs.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/interface_versions.h"
#include "dxgk/display/display.h"
#include "dxgk/work/device.h"
#include "thunks/call.h"
#include "thunks/display_modes.h"
#include "thunks/source_owners.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::Display;
using dxgk::Process;
using dxgk::Ref;
using dxgk::SourceOwnership;

/// The pseudo handle of the calling process, the only process that a client can name.
bool is_this_process(HANDLE handle) { return reinterpret_cast<intptr_t>(handle) == -1; }

Status get_mode_list(Process& process, D3DKMT_GETDISPLAYMODELIST& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  Display* const display = adapter->floor().display;
  if (display == nullptr) return Status::kInvalidParameter;
  if (args.VidPnSourceId >= adapter->core().facts().start.video_present_sources)
    return Status::kInvalidParameter;
  const std::vector<D3DKMT_DISPLAYMODE> modes = display_modes_of(*display, args.VidPnSourceId);
  const auto count = static_cast<UINT>(modes.size());
  if (args.pModeList == nullptr) {
    args.ModeCount = count;
    return Status::kSuccess;
  }
  if (args.ModeCount < count) return Status::kBufferTooSmall;
  if (!give<&D3DKMT_GETDISPLAYMODELIST::pModeList>(args, modes)) return Status::kInvalidParameter;
  args.ModeCount = count;
  return Status::kSuccess;
}

Status query_ownership(Process& process, D3DKMT_QUERYVIDPNEXCLUSIVEOWNERSHIP& args) {
  if (!is_this_process(args.hProcess) || args.hWindow != nullptr) return Status::kInvalidParameter;
  for (const Ref<Adapter>& adapter : process.system().impl().running()) {
    dxgk::GatePass pass(adapter->core().gate());
    if (!pass || !adapter->core().running()) continue;
    Display* const display = adapter->floor().display;
    if (display == nullptr) continue;
    for (const auto& [source, ownership] : display->owned_by(process)) {
      if (ownership != SourceOwnership::kExclusive) continue;
      const dxgk::Luid luid = adapter->core().luid();
      args.VidPnSourceId = source;
      args.AdapterLuid.LowPart = luid.low;
      args.AdapterLuid.HighPart = luid.high;
      args.OwnerType = static_cast<D3DKMT_VIDPNSOURCEOWNER_TYPE>(ownership);
      return Status::kSuccess;
    }
  }
  args.VidPnSourceId = vidpn::kNoId;
  args.AdapterLuid = {};
  args.OwnerType = D3DKMT_VIDPNSOURCEOWNER_UNOWNED;
  return Status::kSuccess;
}

/// Output duplication and virtual modes do not exist here, so that their flags change nothing.
constexpr UINT kOwnerFlags = 3;  // AllowOutputDuplication, DisableDWMVirtualMode
constexpr UINT kUseNtHandles = 4;

Status set_owner1(Process& process, const D3DKMT_SETVIDPNSOURCEOWNER1& args) {
  if ((args.Flags.Value & ~kOwnerFlags) != 0) return Status::kInvalidParameter;
  return set_source_owners(process, args.Version0);
}

Status set_owner2(Process& process, const D3DKMT_SETVIDPNSOURCEOWNER2& args) {
  const UINT flags = args.Version1.Flags.Value;
  if ((flags & ~(kOwnerFlags | kUseNtHandles)) != 0) return Status::kInvalidParameter;
  if ((flags & kUseNtHandles) != 0) return Status::kNotSupported;  // sources have no NT handles
  if (args.pVidPnSourceNtHandles != nullptr) return Status::kInvalidParameter;
  return set_source_owners(process, args.Version1.Version0);
}

Status release_owners(Process& process, HANDLE handle) {
  if (!is_this_process(handle)) return Status::kInvalidParameter;
  for (const Ref<Adapter>& adapter : process.system().impl().running()) {
    dxgk::GatePass pass(adapter->core().gate());
    if (!pass || !adapter->core().running()) continue;
    Display* const display = adapter->floor().display;
    if (display != nullptr && display->clients() != nullptr)
      display->clients()->release_process(process);
  }
  return Status::kSuccess;
}

Status invalidate_vidpn(Process& process, const D3DKMT_INVALIDATEACTIVEVIDPN& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  Display* const display = adapter->floor().display;
  if (display == nullptr) return vidpn::kInvalidDisplayAdapter;
  if (adapter->core().interface_version() >= kInterfaceWin7) return Status::kNotSupported;
  std::vector<std::byte> wish;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_INVALIDATEACTIVEVIDPN::pPrivateDriverData>(args, &wish));
  const Status status = display->take_recommendation(wish);
  const bool named = status == Status::kDeviceRemoved || status == Status::kNoMemory ||
                     status == Status::kNotSupported;
  // The page has one status for all other failures.
  return is_success(status) || named ? status : vidpn::kNoRecommendedFunctionalVidPn;
}

Status poll_children(Process& process, const D3DKMT_POLLDISPLAYCHILDREN& args) {
  const bool all = args.PollAllAdapters != 0;
  Ref<Adapter> one;
  if (!all) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(one, process.handles().find<Adapter>(args.hAdapter));
  }
  if (args.Reserved != 0) return Status::kInvalidParameter;
  const Display::Poll poll{.interruptible = args.PollInterruptible != 0,
                           .non_destructive_only = args.NonDestructiveOnly != 0,
                           .keep_modes = args.DisableModeReset != 0};
  const auto ask = [&](Adapter& adapter) -> Status {
    DXGKIT_ENTER(adapter);
    if (Display* const display = adapter.floor().display) display->poll_children(poll);
    return Status::kSuccess;
  };
  if (!all) return ask(*one);
  for (const Ref<Adapter>& adapter : process.system().impl().running())
    static_cast<void>(ask(*adapter));  // one that stops meanwhile has no outputs any more
  return Status::kSuccess;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTGetDisplayModeList(D3DKMT_GETDISPLAYMODELIST* args) {
  return call<D3DKMTGetDisplayModeList>(args, dxgkit::thunks::get_mode_list);
}
NTSTATUS APIENTRY D3DKMTQueryVidPnExclusiveOwnership(D3DKMT_QUERYVIDPNEXCLUSIVEOWNERSHIP* args) {
  return call<D3DKMTQueryVidPnExclusiveOwnership>(args, dxgkit::thunks::query_ownership);
}
NTSTATUS APIENTRY D3DKMTSetVidPnSourceOwner1(const D3DKMT_SETVIDPNSOURCEOWNER1* args) {
  return call<D3DKMTSetVidPnSourceOwner1>(args, dxgkit::thunks::set_owner1);
}
NTSTATUS APIENTRY D3DKMTSetVidPnSourceOwner2(const D3DKMT_SETVIDPNSOURCEOWNER2* args) {
  return call<D3DKMTSetVidPnSourceOwner2>(args, dxgkit::thunks::set_owner2);
}
NTSTATUS APIENTRY D3DKMTReleaseProcessVidPnSourceOwners(HANDLE process) {
  dxgkit::thunks::CallScope scope("D3DKMTReleaseProcessVidPnSourceOwners");
  if (!is_success(scope.admission())) return scope.finish(scope.admission());
  return scope.finish(dxgkit::thunks::release_owners(*scope.process(), process));
}
NTSTATUS APIENTRY D3DKMTInvalidateActiveVidPn(const D3DKMT_INVALIDATEACTIVEVIDPN* args) {
  return call<D3DKMTInvalidateActiveVidPn>(args, dxgkit::thunks::invalidate_vidpn);
}
NTSTATUS APIENTRY D3DKMTPollDisplayChildren(const D3DKMT_POLLDISPLAYCHILDREN* args) {
  return call<D3DKMTPollDisplayChildren>(args, dxgkit::thunks::poll_children);
}

}  // extern "C"
