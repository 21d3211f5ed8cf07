#include "port/ddi/vidpn.h"

#include <cstring>
#include <vector>

#include "port/core/ddi_call.h"
#include "port/core/guarded_output.h"
#include "port/core/port_core.h"
#include "port/ddi/unwritten.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kIsSupportedVidPn{"DxgkDdiIsSupportedVidPn", nt::kPassiveLevel,
                                    DdiClass::kLevelZero};
constexpr DdiInfo kEnumVidPnCofuncModality{"DxgkDdiEnumVidPnCofuncModality", nt::kPassiveLevel,
                                           DdiClass::kLevelZero};
constexpr DdiInfo kQueryVidPnHWCapability{"DxgkDdiQueryVidPnHWCapability", nt::kPassiveLevel,
                                          DdiClass::kLevelZero};
constexpr DdiInfo kRecommendFunctionalVidPn{"DxgkDdiRecommendFunctionalVidPn", nt::kPassiveLevel,
                                            DdiClass::kLevelTwo};
constexpr DdiInfo kRecommendMonitorModes{"DxgkDdiRecommendMonitorModes", nt::kPassiveLevel,
                                         DdiClass::kLevelTwo,
                                         verifier::Situation::kVidpnRecommendModes};
constexpr DdiInfo kCommitVidPn{"DxgkDdiCommitVidPn", nt::kPassiveLevel, DdiClass::kLevelTwo};
constexpr DdiInfo kUpdateActiveVidPnPresentPath{"DxgkDdiUpdateActiveVidPnPresentPath",
                                                nt::kPassiveLevel, DdiClass::kLevelTwo,
                                                verifier::Situation::kVidpnActivePath};
constexpr DdiInfo kSetVidPnSourceVisibility{"DxgkDdiSetVidPnSourceVisibility", nt::kPassiveLevel,
                                            DdiClass::kLevelTwo};

D3DKMDT_HVIDPN vidpn_of(void* handle) { return static_cast<D3DKMDT_HVIDPN>(handle); }

D3DKMDT_ENUMCOFUNCMODALITY_PIVOT_TYPE pivot_of(EnumPivot pivot) {
  switch (pivot) {
    case EnumPivot::kNone:
      return D3DKMDT_EPT_NOPIVOT;
    case EnumPivot::kSource:
      return D3DKMDT_EPT_VIDPNSOURCE;
    case EnumPivot::kTarget:
      return D3DKMDT_EPT_VIDPNTARGET;
    case EnumPivot::kScaling:
      return D3DKMDT_EPT_SCALING;
    case EnumPivot::kRotation:
      return D3DKMDT_EPT_ROTATION;
  }
  return D3DKMDT_EPT_NOPIVOT;
}

/// A 32-bit set of flags as the ABI's record of bit fields.
template <typename Bits>
void set_bits(Bits& bits, uint32_t value) {
  static_assert(sizeof(bits) == sizeof(value));
  std::memcpy(&bits, &value, sizeof(value));
}

}  // namespace

Result<bool> VidPnPort::is_supported_vidpn(void* vidpn) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (core_.ddi.DxgkDdiIsSupportedVidPn == nullptr) return Error(Status::kNotSupported);
  DXGKARG_ISSUPPORTEDVIDPN arguments{};
  arguments.hDesiredVidPn = vidpn_of(vidpn);
  arguments.IsVidPnSupported = kPoisonByte;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->reach(vidpn == nullptr ? verifier::Situation::kVidpnNoneSupported
                                             : verifier::Situation::kVidpnIsSupported);
  DdiCall call(core_, kIsSupportedVidPn);
  const Status status = call(core_.ddi.DxgkDdiIsSupportedVidPn, core_.context, &arguments);
  if (!is_success(status)) return Error(status);
  if (arguments.IsVidPnSupported == kPoisonByte) {
    (void)core_.violation(
        "CAPS-08", kIsSupportedVidPn.name, "It succeeded without writing IsVidPnSupported.",
        "IsVidPnSupported tells whether the VidPN can be made functional.",
        "Write TRUE or FALSE on every path that returns success.", Status::kSuccess);
    return false;
  }
  return arguments.IsVidPnSupported != FALSE;
}

Status VidPnPort::enum_cofunc_modality(void* vidpn, EnumPivot pivot, uint32_t source,
                                       uint32_t target) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiEnumVidPnCofuncModality == nullptr) return Status::kNotSupported;
  DXGKARG_ENUMVIDPNCOFUNCMODALITY arguments{};
  arguments.hConstrainingVidPn = vidpn_of(vidpn);
  arguments.EnumPivotType = pivot_of(pivot);
  arguments.EnumPivot.VidPnSourceId = source;
  arguments.EnumPivot.VidPnTargetId = target;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->display.enumerated(pivot);
  DdiCall call(core_, kEnumVidPnCofuncModality, static_cast<uint64_t>(pivot));
  return call(core_.ddi.DxgkDdiEnumVidPnCofuncModality, core_.context,
              static_cast<const DXGKARG_ENUMVIDPNCOFUNCMODALITY*>(&arguments));
}

Result<uint32_t> VidPnPort::query_vidpn_hw_capability(void* vidpn, uint32_t source,
                                                      uint32_t target) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (core_.ddi.DxgkDdiQueryVidPnHWCapability == nullptr) return Error(Status::kNotSupported);
  DXGKARG_QUERYVIDPNHWCAPABILITY arguments{};
  arguments.hFunctionalVidPn = vidpn_of(vidpn);
  arguments.SourceId = source;
  arguments.TargetId = target;
  fill_output(core_, &arguments.VidPnHWCaps);
  DdiCall call(core_, kQueryVidPnHWCapability);
  const Status status = call(core_.ddi.DxgkDdiQueryVidPnHWCapability, core_.context, &arguments);
  if (!is_success(status)) return Error(status);
  report_unwritten(core_, kQueryVidPnHWCapability.name, "DXGKARG_QUERYVIDPNHWCAPABILITY",
                   "VidPnHWCaps", &arguments.VidPnHWCaps);
  uint32_t caps = 0;
  std::memcpy(&caps, &arguments.VidPnHWCaps, sizeof(caps));
  return caps;
}

Status VidPnPort::recommend_functional_vidpn(void* vidpn, std::span<const uint32_t> targets,
                                             std::span<const std::byte> private_data) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiRecommendFunctionalVidPn == nullptr) return Status::kNotSupported;
  std::vector<uint32_t> order(targets.begin(), targets.end());
  DXGKARG_RECOMMENDFUNCTIONALVIDPN arguments{};
  arguments.NumberOfVidPnTargets = static_cast<UINT>(order.size());
  arguments.pVidPnTargetPrioritizationVector = order.data();
  arguments.hRecommendedFunctionalVidPn = vidpn_of(vidpn);
  arguments.RequestReason = DXGK_RFVR_USERMODE;
  const GuardedOutput copy(private_data);
  arguments.pPrivateDriverData = private_data.empty() ? nullptr : copy.data();
  arguments.PrivateDriverDataSize = size_of(private_data);
  DdiCall call(core_, kRecommendFunctionalVidPn);
  const Status status = call(core_.ddi.DxgkDdiRecommendFunctionalVidPn, core_.context,
                             static_cast<const DXGKARG_RECOMMENDFUNCTIONALVIDPN*>(&arguments));
  static_cast<void>(copy.check(core_, kRecommendFunctionalVidPn.name, "pPrivateDriverData"));
  return status;
}

Status VidPnPort::recommend_monitor_modes(uint32_t target, void* mode_set,
                                          const void* mode_set_interface) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiRecommendMonitorModes == nullptr) return Status::kNotSupported;
  DXGKARG_RECOMMENDMONITORMODES arguments{};
  arguments.VideoPresentTargetId = target;
  arguments.hMonitorSourceModeSet = static_cast<D3DKMDT_HMONITORSOURCEMODESET>(mode_set);
  arguments.pMonitorSourceModeSetInterface =
      static_cast<const DXGK_MONITORSOURCEMODESET_INTERFACE*>(mode_set_interface);
  DdiCall call(core_, kRecommendMonitorModes, target);
  return call(core_.ddi.DxgkDdiRecommendMonitorModes, core_.context,
              static_cast<const DXGKARG_RECOMMENDMONITORMODES*>(&arguments));
}

Status VidPnPort::commit_vidpn(void* vidpn, uint32_t affected_source, void* primary) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiCommitVidPn == nullptr) return Status::kNotSupported;
  DXGKARG_COMMITVIDPN arguments{};
  arguments.hFunctionalVidPn = vidpn_of(vidpn);
  arguments.AffectedVidPnSourceId = affected_source;
  arguments.MonitorConnectivityChecks = D3DKMDT_MCC_ENFORCE;
  arguments.hPrimaryAllocation = primary;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->display.committed();
  DdiCall call(core_, kCommitVidPn, affected_source);
  return call(core_.ddi.DxgkDdiCommitVidPn, core_.context,
              static_cast<const DXGKARG_COMMITVIDPN*>(&arguments));
}

Status VidPnPort::update_active_present_path(const ::dxgkit::vidpn::Path& path) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiUpdateActiveVidPnPresentPath == nullptr) return Status::kNotSupported;
  DXGKARG_UPDATEACTIVEVIDPNPRESENTPATH arguments{};
  D3DKMDT_VIDPN_PRESENT_PATH& info = arguments.VidPnPresentPathInfo;
  info.VidPnSourceId = path.source;
  info.VidPnTargetId = path.target;
  info.ImportanceOrdinal = static_cast<D3DKMDT_VIDPN_PRESENT_PATH_IMPORTANCE>(path.importance);
  D3DKMDT_VIDPN_PRESENT_PATH_TRANSFORMATION& transformation = info.ContentTransformation;
  transformation.Scaling = static_cast<D3DKMDT_VIDPN_PRESENT_PATH_SCALING>(path.scaling);
  transformation.Rotation = static_cast<D3DKMDT_VIDPN_PRESENT_PATH_ROTATION>(path.rotation);
  set_bits(transformation.ScalingSupport, path.scaling_support);
  set_bits(transformation.RotationSupport, path.rotation_support);
  info.VisibleFromActiveTLOffset = {path.visible_from_active_top_left.width,
                                    path.visible_from_active_top_left.height};
  info.VisibleFromActiveBROffset = {path.visible_from_active_bottom_right.width,
                                    path.visible_from_active_bottom_right.height};
  info.VidPnTargetColorBasis = static_cast<D3DKMDT_COLOR_BASIS>(path.color_basis);
  std::memcpy(&info.VidPnTargetColorCoeffDynamicRanges, path.color_ranges.data(),
              sizeof(info.VidPnTargetColorCoeffDynamicRanges));
  info.Content = static_cast<D3DKMDT_VIDPN_PRESENT_PATH_CONTENT>(path.content);
  info.CopyProtection.CopyProtectionType =
      static_cast<D3DKMDT_VIDPN_PRESENT_PATH_COPYPROTECTION_TYPE>(path.copy_protection);
  info.CopyProtection.APSTriggerBits = path.aps_trigger_bits;
  set_bits(info.CopyProtection.CopyProtectionSupport, path.copy_protection_support);
  std::vector<std::byte> gamma = path.gamma;  // the driver's to read, during the call
  info.GammaRamp.Type = static_cast<D3DDDI_GAMMARAMP_TYPE>(path.gamma_type);
  info.GammaRamp.DataSize = gamma.size();
  info.GammaRamp.Data.pRaw = gamma.empty() ? nullptr : gamma.data();
  DdiCall call(core_, kUpdateActiveVidPnPresentPath);
  return call(core_.ddi.DxgkDdiUpdateActiveVidPnPresentPath, core_.context,
              static_cast<const DXGKARG_UPDATEACTIVEVIDPNPRESENTPATH*>(&arguments));
}

Status VidPnPort::set_source_visibility(uint32_t source, bool visible) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiSetVidPnSourceVisibility == nullptr) return Status::kNotSupported;
  DXGKARG_SETVIDPNSOURCEVISIBILITY arguments{};
  arguments.VidPnSourceId = source;
  arguments.Visible = visible ? TRUE : FALSE;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->display.visible(source, visible);
  DdiCall call(core_, kSetVidPnSourceVisibility, source);
  return call(core_.ddi.DxgkDdiSetVidPnSourceVisibility, core_.context,
              static_cast<const DXGKARG_SETVIDPNSOURCEVISIBILITY*>(&arguments));
}

}  // namespace dxgkit::port
