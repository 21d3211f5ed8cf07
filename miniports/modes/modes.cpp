#include "miniports/modes/modes.h"

namespace modes {
namespace {

constexpr UINT kPixelBytes = 4;

/// A VidPN that is open for the length of one DDI.
struct Network {
  D3DKMDT_HVIDPN handle = nullptr;
  const DXGK_VIDPN_INTERFACE* functions = nullptr;
  D3DKMDT_HVIDPNTOPOLOGY topology = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* paths = nullptr;
};

NTSTATUS open(const ModeTable& table, D3DKMDT_HVIDPN handle, Network* out) {
  out->handle = handle;
  const NTSTATUS status = table.dxgk->DxgkCbQueryVidPnInterface(
      handle, DXGK_VIDPN_INTERFACE_VERSION_V1, &out->functions);
  if (!NT_SUCCESS(status)) return status;
  return out->functions->pfnGetTopology(handle, &out->topology, &out->paths);
}

void fill_signal(const Size& size, UINT refresh_hz, D3DKMDT_VIDEO_SIGNAL_INFO* signal) {
  signal->VideoStandard = D3DKMDT_VSS_OTHER;
  signal->TotalSize.cx = signal->ActiveSize.cx = size.width;
  signal->TotalSize.cy = signal->ActiveSize.cy = size.height;
  if (refresh_hz == 0) {
    signal->VSyncFreq.Numerator = signal->VSyncFreq.Denominator = D3DKMDT_FREQUENCY_NOTSPECIFIED;
    signal->HSyncFreq.Numerator = signal->HSyncFreq.Denominator = D3DKMDT_FREQUENCY_NOTSPECIFIED;
    signal->PixelRate = D3DKMDT_FREQUENCY_NOTSPECIFIED;
  } else {
    signal->VSyncFreq.Numerator = refresh_hz;
    signal->VSyncFreq.Denominator = 1;
    signal->HSyncFreq.Numerator = refresh_hz * size.height;
    signal->HSyncFreq.Denominator = 1;
    signal->PixelRate = SIZE_T{refresh_hz} * size.width * size.height;
  }
  signal->ScanLineOrdering = D3DDDI_VSSLO_PROGRESSIVE;
}

/// The size pinned on a source, or {0, 0}.
NTSTATUS pinned_source_size(const Network& network, D3DDDI_VIDEO_PRESENT_SOURCE_ID source,
                            Size* size) {
  *size = {0, 0};
  D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
  const DXGK_VIDPNSOURCEMODESET_INTERFACE* modes = nullptr;
  NTSTATUS status =
      network.functions->pfnAcquireSourceModeSet(network.handle, source, &set, &modes);
  if (!NT_SUCCESS(status)) return status;
  const D3DKMDT_VIDPN_SOURCE_MODE* pinned = nullptr;
  status = modes->pfnAcquirePinnedModeInfo(set, &pinned);
  if (NT_SUCCESS(status) && pinned != nullptr) {
    *size = {pinned->Format.Graphics.PrimSurfSize.cx, pinned->Format.Graphics.PrimSurfSize.cy};
    (void)modes->pfnReleaseModeInfo(set, pinned);
  }
  const NTSTATUS released = network.functions->pfnReleaseSourceModeSet(network.handle, set);
  return NT_SUCCESS(status) ? released : status;
}

NTSTATUS pinned_target_size(const Network& network, D3DDDI_VIDEO_PRESENT_TARGET_ID target,
                            Size* size) {
  *size = {0, 0};
  D3DKMDT_HVIDPNTARGETMODESET set = nullptr;
  const DXGK_VIDPNTARGETMODESET_INTERFACE* modes = nullptr;
  NTSTATUS status =
      network.functions->pfnAcquireTargetModeSet(network.handle, target, &set, &modes);
  if (!NT_SUCCESS(status)) return status;
  const D3DKMDT_VIDPN_TARGET_MODE* pinned = nullptr;
  status = modes->pfnAcquirePinnedModeInfo(set, &pinned);
  if (NT_SUCCESS(status) && pinned != nullptr) {
    *size = {pinned->VideoSignalInfo.ActiveSize.cx, pinned->VideoSignalInfo.ActiveSize.cy};
    (void)modes->pfnReleaseModeInfo(set, pinned);
  }
  const NTSTATUS released = network.functions->pfnReleaseTargetModeSet(network.handle, set);
  return NT_SUCCESS(status) ? released : status;
}

/// A size fits unless another one is pinned at the other end of the path.
bool fits(const Size& size, const Size& pinned) {
  return pinned.width == 0 || (pinned.width == size.width && pinned.height == size.height);
}

NTSTATUS add_source_mode(const DXGK_VIDPNSOURCEMODESET_INTERFACE& modes,
                         D3DKMDT_HVIDPNSOURCEMODESET set, const Size& size) {
  D3DKMDT_VIDPN_SOURCE_MODE* mode = nullptr;
  NTSTATUS status = modes.pfnCreateNewModeInfo(set, &mode);
  if (!NT_SUCCESS(status)) return status;
  mode->Type = D3DKMDT_RMT_GRAPHICS;
  D3DKMDT_GRAPHICS_RENDERING_FORMAT& format = mode->Format.Graphics;
  format.PrimSurfSize.cx = format.VisibleRegionSize.cx = size.width;
  format.PrimSurfSize.cy = format.VisibleRegionSize.cy = size.height;
  format.Stride = size.width * kPixelBytes;
  format.PixelFormat = D3DDDIFMT_A8R8G8B8;
  format.ColorBasis = D3DKMDT_CB_SCRGB;
  format.PixelValueAccessMode = D3DKMDT_PVAM_DIRECT;
  status = modes.pfnAddMode(set, mode);
  if (!NT_SUCCESS(status)) (void)modes.pfnReleaseModeInfo(set, mode);
  return status;
}

NTSTATUS assign_source_modes(const ModeTable& table, const Network& network,
                             D3DDDI_VIDEO_PRESENT_SOURCE_ID source, const Size& pinned_target) {
  D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
  const DXGK_VIDPNSOURCEMODESET_INTERFACE* modes = nullptr;
  NTSTATUS status =
      network.functions->pfnCreateNewSourceModeSet(network.handle, source, &set, &modes);
  if (!NT_SUCCESS(status)) return status;
  for (UINT i = 0; i < table.size_count && NT_SUCCESS(status); ++i) {
    if (fits(table.sizes[i], pinned_target)) status = add_source_mode(*modes, set, table.sizes[i]);
  }
  if (NT_SUCCESS(status))
    return network.functions->pfnAssignSourceModeSet(network.handle, source, set);
  (void)network.functions->pfnReleaseSourceModeSet(network.handle, set);
  return status;
}

NTSTATUS add_target_mode(const DXGK_VIDPNTARGETMODESET_INTERFACE& modes,
                         D3DKMDT_HVIDPNTARGETMODESET set, const Size& size, UINT refresh_hz,
                         bool preferred) {
  D3DKMDT_VIDPN_TARGET_MODE* mode = nullptr;
  NTSTATUS status = modes.pfnCreateNewModeInfo(set, &mode);
  if (!NT_SUCCESS(status)) return status;
  fill_signal(size, refresh_hz, &mode->VideoSignalInfo);
  mode->Preference = preferred ? D3DKMDT_MP_PREFERRED : D3DKMDT_MP_NOTPREFERRED;
  status = modes.pfnAddMode(set, mode);
  if (!NT_SUCCESS(status)) (void)modes.pfnReleaseModeInfo(set, mode);
  return status;
}

NTSTATUS assign_target_modes(const ModeTable& table, const Network& network,
                             D3DDDI_VIDEO_PRESENT_TARGET_ID target, const Size& pinned_source) {
  D3DKMDT_HVIDPNTARGETMODESET set = nullptr;
  const DXGK_VIDPNTARGETMODESET_INTERFACE* modes = nullptr;
  NTSTATUS status =
      network.functions->pfnCreateNewTargetModeSet(network.handle, target, &set, &modes);
  if (!NT_SUCCESS(status)) return status;
  bool preferred = true;
  for (UINT i = 0; i < table.size_count && NT_SUCCESS(status); ++i) {
    if (!fits(table.sizes[i], pinned_source)) continue;
    status = add_target_mode(*modes, set, table.sizes[i], table.refresh_hz, preferred);
    preferred = false;
  }
  if (NT_SUCCESS(status))
    return network.functions->pfnAssignTargetModeSet(network.handle, target, set);
  (void)network.functions->pfnReleaseTargetModeSet(network.handle, set);
  return status;
}

/// No scaling, no rotation: what a linear frame buffer can. The pivot and what is pinned stay.
NTSTATUS update_support(const ModeTable& table, const Network& network,
                        const DXGKARG_ENUMVIDPNCOFUNCMODALITY* args,
                        const D3DKMDT_VIDPN_PRESENT_PATH* path) {
  D3DKMDT_VIDPN_PRESENT_PATH own = *path;
  D3DKMDT_VIDPN_PRESENT_PATH_TRANSFORMATION& support = own.ContentTransformation;
  const bool is_pivot = args->EnumPivot.VidPnSourceId == path->VidPnSourceId &&
                        args->EnumPivot.VidPnTargetId == path->VidPnTargetId;
  const bool scaling = support.Scaling == D3DKMDT_VPPS_UNPINNED &&
                       (args->EnumPivotType != D3DKMDT_EPT_SCALING || !is_pivot);
  const bool rotation = support.Rotation == D3DKMDT_VPPR_UNPINNED &&
                        (args->EnumPivotType != D3DKMDT_EPT_ROTATION || !is_pivot);
  if (!scaling && !rotation) return STATUS_SUCCESS;
  if (scaling) {
    support.ScalingSupport = {};
    support.ScalingSupport.Identity = 1;
  }
  if (rotation) {
    support.RotationSupport = {};
    support.RotationSupport.Identity = 1;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM1_3_PATH_INDEPENDENT_ROTATION
    if (table.rotation_offsets) support.RotationSupport.Offset0 = 1;
#else
    (void)table;
#endif
  }
  return network.paths->pfnUpdatePathSupportInfo(network.topology, &own);
}

NTSTATUS enumerate_path(const ModeTable& table, const Network& network,
                        const DXGKARG_ENUMVIDPNCOFUNCMODALITY* args,
                        const D3DKMDT_VIDPN_PRESENT_PATH* path) {
  const bool source_is_pivot = args->EnumPivotType == D3DKMDT_EPT_VIDPNSOURCE &&
                               args->EnumPivot.VidPnSourceId == path->VidPnSourceId;
  const bool target_is_pivot = args->EnumPivotType == D3DKMDT_EPT_VIDPNTARGET &&
                               args->EnumPivot.VidPnTargetId == path->VidPnTargetId;
  Size source = {0, 0}, target = {0, 0};
  NTSTATUS status = pinned_source_size(network, path->VidPnSourceId, &source);
  if (NT_SUCCESS(status)) status = pinned_target_size(network, path->VidPnTargetId, &target);
  if (NT_SUCCESS(status) && source.width == 0 && !source_is_pivot)
    status = assign_source_modes(table, network, path->VidPnSourceId, target);
  if (NT_SUCCESS(status) && target.width == 0 && !target_is_pivot)
    status = assign_target_modes(table, network, path->VidPnTargetId, source);
  if (NT_SUCCESS(status)) status = update_support(table, network, args, path);
  return status;
}

/// Whether the pinned modes of the path are in the table, and another mode can be pinned beside
/// them; no transformation is.
NTSTATUS check_path(const ModeTable& table, const Network& network,
                    const D3DKMDT_VIDPN_PRESENT_PATH* path, BOOLEAN* supported) {
  Size source = {0, 0}, target = {0, 0};
  NTSTATUS status = pinned_source_size(network, path->VidPnSourceId, &source);
  if (NT_SUCCESS(status)) status = pinned_target_size(network, path->VidPnTargetId, &target);
  if (!NT_SUCCESS(status)) return status;
  bool known = false;
  for (UINT i = 0; i < table.size_count; ++i)
    known = known || (fits(table.sizes[i], source) && fits(table.sizes[i], target));
  const auto& shown = path->ContentTransformation;
  const bool scaled = shown.Scaling != D3DKMDT_VPPS_IDENTITY &&
                      shown.Scaling != D3DKMDT_VPPS_UNPINNED &&
                      shown.Scaling != D3DKMDT_VPPS_NOTSPECIFIED;
  const bool rotated = shown.Rotation != D3DKMDT_VPPR_IDENTITY &&
                       shown.Rotation != D3DKMDT_VPPR_UNPINNED &&
                       shown.Rotation != D3DKMDT_VPPR_NOTSPECIFIED;
  if (!known || scaled || rotated) *supported = FALSE;
  return status;
}

/// Runs `look` on every path until it fails.
template <typename Look>
NTSTATUS for_each_path(const Network& network, const Look& look) {
  const D3DKMDT_VIDPN_PRESENT_PATH* path = nullptr;
  NTSTATUS status = network.paths->pfnAcquireFirstPathInfo(network.topology, &path);
  while (NT_SUCCESS(status) && path != nullptr) {
    status = look(path);
    const D3DKMDT_VIDPN_PRESENT_PATH* next = nullptr;
    if (NT_SUCCESS(status))
      status = network.paths->pfnAcquireNextPathInfo(network.topology, path, &next);
    (void)network.paths->pfnReleasePathInfo(network.topology, path);
    path = next;
  }
  return NT_SUCCESS(status) ? STATUS_SUCCESS : status;
}

}  // namespace

NTSTATUS is_supported(const ModeTable& table, DXGKARG_ISSUPPORTEDVIDPN* args) {
  args->IsVidPnSupported = TRUE;
  if (args->hDesiredVidPn == nullptr) return STATUS_SUCCESS;  // nothing shown is always possible
  Network network;
  const NTSTATUS status = open(table, args->hDesiredVidPn, &network);
  if (!NT_SUCCESS(status)) return status;
  return for_each_path(network, [&](const D3DKMDT_VIDPN_PRESENT_PATH* path) {
    SIZE_T count = 0;
    const NTSTATUS counted =
        network.paths->pfnGetNumPathsFromSource(network.topology, path->VidPnSourceId, &count);
    if (!NT_SUCCESS(counted)) return counted;
    if (count > 1) args->IsVidPnSupported = FALSE;  // no clones
    return check_path(table, network, path, &args->IsVidPnSupported);
  });
}

NTSTATUS enumerate(const ModeTable& table, const DXGKARG_ENUMVIDPNCOFUNCMODALITY* args) {
  Network network;
  const NTSTATUS status = open(table, args->hConstrainingVidPn, &network);
  if (!NT_SUCCESS(status)) return status;
  return for_each_path(network, [&](const D3DKMDT_VIDPN_PRESENT_PATH* path) {
    return enumerate_path(table, network, args, path);
  });
}

NTSTATUS read_commit(const ModeTable& table, const DXGKARG_COMMITVIDPN* args, Shown* shown) {
  *shown = {};
  Network network;
  NTSTATUS status = open(table, args->hFunctionalVidPn, &network);
  if (!NT_SUCCESS(status)) return status;
  const D3DDDI_VIDEO_PRESENT_SOURCE_ID source = args->AffectedVidPnSourceId;
  SIZE_T count = 0;
  status = network.paths->pfnGetNumPathsFromSource(network.topology, source, &count);
  if (status == STATUS_GRAPHICS_SOURCE_NOT_IN_TOPOLOGY) return STATUS_SUCCESS;
  if (!NT_SUCCESS(status)) return status;
  if (count == 0) return STATUS_SUCCESS;
  D3DDDI_VIDEO_PRESENT_TARGET_ID target = 0;
  status = network.paths->pfnEnumPathTargetsFromSource(network.topology, source, 0, &target);
  if (!NT_SUCCESS(status)) return status;

  D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
  const DXGK_VIDPNSOURCEMODESET_INTERFACE* modes = nullptr;
  status = network.functions->pfnAcquireSourceModeSet(network.handle, source, &set, &modes);
  if (!NT_SUCCESS(status)) return status;
  const D3DKMDT_VIDPN_SOURCE_MODE* pinned = nullptr;
  status = modes->pfnAcquirePinnedModeInfo(set, &pinned);
  if (NT_SUCCESS(status) && pinned != nullptr) {
    const D3DKMDT_GRAPHICS_RENDERING_FORMAT& format = pinned->Format.Graphics;
    bool known = false;
    for (UINT i = 0; i < table.size_count; ++i) {
      known = known || (table.sizes[i].width == format.PrimSurfSize.cx &&
                        table.sizes[i].height == format.PrimSurfSize.cy);
    }
    if (known) {
      *shown = {format.PrimSurfSize.cx, format.PrimSurfSize.cy, format.Stride, format.PixelFormat,
                target};
    } else {
      status = STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE_MODE;
    }
    (void)modes->pfnReleaseModeInfo(set, pinned);
  }
  (void)network.functions->pfnReleaseSourceModeSet(network.handle, set);
  return NT_SUCCESS(status) ? STATUS_SUCCESS : status;
}

NTSTATUS recommend_monitor_mode(const ModeTable& table, const DXGKARG_RECOMMENDMONITORMODES* args,
                                const Size& size) {
  const DXGK_MONITORSOURCEMODESET_INTERFACE* modes = args->pMonitorSourceModeSetInterface;
  D3DKMDT_MONITOR_SOURCE_MODE* mode = nullptr;
  NTSTATUS status = modes->pfnCreateNewModeInfo(args->hMonitorSourceModeSet, &mode);
  if (!NT_SUCCESS(status)) return status;
  fill_signal(size, table.refresh_hz, &mode->VideoSignalInfo);
  mode->ColorBasis = D3DKMDT_CB_SRGB;
  mode->ColorCoeffDynamicRanges = {8, 8, 8, 8};
  mode->Origin = D3DKMDT_MCO_DRIVER;
  mode->Preference = D3DKMDT_MP_NOTPREFERRED;
  status = modes->pfnAddMode(args->hMonitorSourceModeSet, mode);
  if (NT_SUCCESS(status)) return STATUS_SUCCESS;
  (void)modes->pfnReleaseModeInfo(args->hMonitorSourceModeSet, mode);
  // A monitor that has the mode already needs no advice.
  return status == STATUS_GRAPHICS_MODE_ALREADY_IN_MODESET ? STATUS_SUCCESS : status;
}

}  // namespace modes
