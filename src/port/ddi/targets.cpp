#include "port/ddi/targets.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/unwritten.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kSetGamma{"DxgkDdiSetTargetGamma", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kSetContentType{"DxgkDdiSetTargetContentType", nt::kPassiveLevel,
                                  DdiClass::kLevelZero};
constexpr DdiInfo kSetCopyProtection{"DxgkDdiSetTargetAnalogCopyProtection", nt::kPassiveLevel,
                                     DdiClass::kLevelZero};
constexpr DdiInfo kUpdateLink{"DxgkDdiUpdateMonitorLinkInfo", nt::kPassiveLevel,
                              DdiClass::kLevelZero};
constexpr DdiInfo kSetTimings{"DxgkDdiSetTimingsFromVidPn", nt::kPassiveLevel, DdiClass::kLevelTwo};
constexpr DdiInfo kDetect{"DxgkDdiDisplayDetectControl", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kQueryChange{"DxgkDdiQueryConnectionChange", nt::kPassiveLevel,
                               DdiClass::kLevelZero};
/// STATUS_ALREADY_COMPLETE: all changes have been told.
constexpr Status kAlreadyComplete{0x000000FF};

}  // namespace

Status TargetsPort::set_gamma(const ::dxgkit::vidpn::Path& path) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiSetTargetGamma));
  std::vector<std::byte> table = path.gamma;  // the driver's to read, during the call
  DXGKARG_SETTARGETGAMMA arguments{};
  arguments.TargetId = path.target;
  arguments.GammaRamp.Type = static_cast<D3DDDI_GAMMARAMP_TYPE>(path.gamma_type);
  arguments.GammaRamp.DataSize = table.size();
  arguments.GammaRamp.Data.pRaw = table.empty() ? nullptr : table.data();
  DdiCall call(core_, kSetGamma, path.target);
  return call(core_.ddi.DxgkDdiSetTargetGamma, core_.context,
              static_cast<const DXGKARG_SETTARGETGAMMA*>(&arguments));
}

Status TargetsPort::set_content_type(const ::dxgkit::vidpn::Path& path) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiSetTargetContentType));
  DXGKARG_SETTARGETCONTENTTYPE arguments{};
  arguments.TargetId = path.target;
  arguments.ContentType = static_cast<D3DKMDT_VIDPN_PRESENT_PATH_CONTENT>(path.content);
  DdiCall call(core_, kSetContentType, path.target);
  return call(core_.ddi.DxgkDdiSetTargetContentType, core_.context,
              static_cast<const DXGKARG_SETTARGETCONTENTTYPE*>(&arguments));
}

Status TargetsPort::set_analog_copy_protection(const ::dxgkit::vidpn::Path& path) {
  DXGKIT_RETURN_IF_FAILED(
      callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiSetTargetAnalogCopyProtection));
  DXGKARG_SETTARGETANALOGCOPYPROTECTION arguments{};
  arguments.TargetId = path.target;
  arguments.CopyProtectionType =
      static_cast<D3DKMDT_VIDPN_PRESENT_PATH_COPYPROTECTION_TYPE>(path.copy_protection);
  arguments.APSTriggerBits = path.aps_trigger_bits;
  static_assert(sizeof arguments.CopyProtectionSupport == sizeof path.copy_protection_support);
  std::memcpy(&arguments.CopyProtectionSupport, &path.copy_protection_support,
              sizeof arguments.CopyProtectionSupport);
  DdiCall call(core_, kSetCopyProtection, path.target);
  return call(core_.ddi.DxgkDdiSetTargetAnalogCopyProtection, core_.context,
              static_cast<const DXGKARG_SETTARGETANALOGCOPYPROTECTION*>(&arguments));
}

Result<uint32_t> TargetsPort::update_monitor_link_info(uint32_t target) {
  DXGKIT_RETURN_ERROR_IF_FAILED(
      callable(core_, kInterfaceWddm21, core_.ddi.DxgkDdiUpdateMonitorLinkInfo));
  DXGKARG_UPDATEMONITORLINKINFO arguments{};
  arguments.VideoPresentTargetId = target;
  fill_output(core_, &arguments.MonitorLinkInfo.Capabilities);
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kUpdateLink, target);
    status = call(core_.ddi.DxgkDdiUpdateMonitorLinkInfo, core_.context, &arguments);
  }
  if (!is_success(status)) return Error(status);
  report_unwritten(core_, kUpdateLink.name, "DXGKARG_UPDATEMONITORLINKINFO",
                   "MonitorLinkInfo.Capabilities", &arguments.MonitorLinkInfo.Capabilities);
  return arguments.MonitorLinkInfo.Capabilities.Value;
}

Status TargetsPort::set_timings(void* vidpn, std::span<TimingPath> paths,
                                bool* connection_changes) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiSetTimingsFromVidPn));
  constexpr UINT kEightBits = D3DKMDT_BITS_PER_COMPONENT_08;
  std::vector<DXGK_SET_TIMING_PATH_INFO> infos(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    std::memset(&infos[i], 0, sizeof infos[i]);
    infos[i].VidPnTargetId = paths[i].target;
    infos[i].SelectedWireFormat.Rgb = kEightBits;
    infos[i].Input.VidPnPathUpdates = static_cast<DXGK_PATH_UPDATE>(paths[i].update);
    infos[i].Input.Active = paths[i].active ? 1 : 0;
  }
  DXGK_SET_TIMING_RESULTS results{};
  DXGKARG_SETTIMINGSFROMVIDPN arguments{};
  arguments.hFunctionalVidPn = static_cast<D3DKMDT_HVIDPN>(vidpn);
  arguments.pResultsFlags = &results;
  arguments.PathCount = static_cast<UINT>(infos.size());
  arguments.pSetTimingPathInfo = infos.data();
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kSetTimings, paths.size());
    status = call(core_.ddi.DxgkDdiSetTimingsFromVidPn, core_.context, &arguments);
  }
  *connection_changes = is_success(status) && results.ConnectionStatusChanges != 0;
  if (!is_success(status)) return status;
  for (size_t i = 0; i < paths.size(); ++i) {
    const DXGK_CONNECTION_CHANGE& state = infos[i].TargetState;
    paths[i].recheck_planes = infos[i].Output.RecheckMPO != 0;
    paths[i].failed = state.ConnectionStatus == LinkConfigurationFailed ||
                      state.ConnectionStatus == MonitorStatusDisconnected ||
                      state.ConnectionStatus == TargetStatusDisconnected;
    if (state.TargetId == paths[i].target &&
        state.ConnectionStatus != ConnectionStatusUninitialized)
      continue;
    (void)core_.violation(
        "DISP-34", kSetTimings.name,
        fmt::format("TargetState of path {} names target {} with status {}.", i, state.TargetId,
                    static_cast<uint32_t>(state.ConnectionStatus)),
        fmt::format("It says what became of target {}, also if nothing has changed.",
                    paths[i].target),
        "Copy the last connection change of the target into TargetState.", Status::kSuccess);
  }
  return status;
}

Status TargetsPort::detect(Detect what, uint32_t target, bool non_destructive_only) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiDisplayDetectControl));
  DXGKARG_DISPLAYDETECTCONTROL arguments{};
  arguments.TargetId = target & 0xFFFFFF;
  arguments.Type = static_cast<DXGK_DISPLAYDETECTCONTROLTYPE>(what);
  arguments.NonDestructiveOnly = non_destructive_only ? 1 : 0;
  DdiCall call(core_, kDetect, static_cast<uint64_t>(what));
  return call(core_.ddi.DxgkDdiDisplayDetectControl, core_.context,
              static_cast<const DXGKARG_DISPLAYDETECTCONTROL*>(&arguments));
}

Result<std::optional<ConnectionChange>> TargetsPort::next_connection_change() {
  DXGKIT_RETURN_ERROR_IF_FAILED(
      callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiQueryConnectionChange));
  DXGKARG_QUERYCONNECTIONCHANGE arguments{};
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kQueryChange);
    status = call(core_.ddi.DxgkDdiQueryConnectionChange, core_.context, &arguments);
  }
  if (status == kAlreadyComplete) return std::optional<ConnectionChange>();
  if (!is_success(status)) return Error(status);
  const DXGK_CONNECTION_CHANGE& change = arguments.ConnectionChange;
  ConnectionChange told{.id = change.ConnectionChangeId, .target = change.TargetId};
  if (change.ConnectionStatus == MonitorStatusConnected)
    told.kind = ConnectionChange::Kind::kMonitorConnected;
  if (change.ConnectionStatus == MonitorStatusDisconnected)
    told.kind = ConnectionChange::Kind::kMonitorDisconnected;
  return std::optional(told);
}

}  // namespace dxgkit::port
