// Modes, primaries, flips and vertical syncs of the display variant (SOFTGPU_HAS_SCREEN).
#include "miniports/softgpu/driver.h"
//
#include "miniports/modes/output.h"

namespace softgpu {
namespace {

constexpr D3DDDIFORMAT kFormat = D3DDDIFMT_A8R8G8B8;  // what the display reads: blue first

modes::Size g_size;  // the one mode; width 0: no screen
ULONG g_planes;      // overlay planes that the driver uses; 0: none

#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
using CheckArguments = DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT2;
using SetArguments = DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY2;
using Plane = DXGK_MULTIPLANE_OVERLAY_PLANE2;
using Attributes = DXGK_MULTIPLANE_OVERLAY_ATTRIBUTES2;
#else
using CheckArguments = DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT;
using SetArguments = DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY;
using Plane = DXGK_MULTIPLANE_OVERLAY_PLANE;
using Attributes = DXGK_MULTIPLANE_OVERLAY_ATTRIBUTES;
#endif

Adapter* adapter_of(const void* context) {
  return static_cast<Adapter*>(const_cast<void*>(context));
}

modes::ModeTable table(const Adapter& adapter) {
  modes::ModeTable result = {};
  result.dxgk = &adapter.dxgk;
  result.sizes = &g_size;
  result.size_count = 1;
  result.refresh_hz = read32(adapter, SGPU_REG_SCANOUT_REFRESH);
  result.rotation_offsets = true;
  return result;
}

NTSTATUS NTAPI DdiIsSupportedVidPn(IN_CONST_HANDLE context, INOUT_PDXGKARG_ISSUPPORTEDVIDPN args) {
  return modes::is_supported(table(*adapter_of(context)), args);
}

NTSTATUS NTAPI DdiEnumVidPnCofuncModality(IN_CONST_HANDLE context,
                                          IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  return modes::enumerate(table(*adapter_of(context)), args);
}

NTSTATUS NTAPI DdiRecommendMonitorModes(IN_CONST_HANDLE context,
                                        IN_CONST_PDXGKARG_RECOMMENDMONITORMODES_CONST args) {
  return modes::recommend_monitor_mode(table(*adapter_of(context)), args, g_size);
}

NTSTATUS NTAPI DdiCommitVidPn(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_COMMITVIDPN_CONST args) {
  // There is one mode: what is shown of it, address and visibility say.
  modes::Shown shown = {};
  return modes::read_commit(table(*adapter_of(context)), args, &shown);
}

/// A rectangle as the device takes it; 0 if it is none that the device can have.
ULONG64 device_rect(LONG left, LONG top, LONG right, LONG bottom) {
  constexpr LONG kMost = 0xFFFF;
  if (left < 0 || top < 0 || left >= right || top >= bottom || right > kMost || bottom > kMost)
    return 0;
  return SGPU_PLANE_RECT(left, top, right - left, bottom - top);
}
ULONG64 device_rect(const RECT& rect) {
  return device_rect(rect.left, rect.top, rect.right, rect.bottom);
}
/// ClipRect begins at the corner of the destination.
ULONG64 clip_of(const Attributes& plane) {
  const LONG x = plane.DstRect.left, y = plane.DstRect.top;
  return device_rect(x + plane.ClipRect.left, y + plane.ClipRect.top, x + plane.ClipRect.right,
                     y + plane.ClipRect.bottom);
}

bool can_show(const OpenAllocation* surface, const Attributes& plane) {
  if (surface == nullptr || surface->pitch_bytes == 0) return false;
  if (plane.Flags.Value != 0 || plane.Rotation != D3DDDI_ROTATION_IDENTITY) return false;
  if (plane.VideoFrameFormat != DXGK_MULTIPLANE_OVERLAY_VIDEO_FRAME_FORMAT_PROGRESSIVE ||
      plane.StereoFormat != DXGK_MULTIPLANE_OVERLAY_STEREO_FORMAT_MONO)
    return false;
  return device_rect(plane.SrcRect) != 0 && device_rect(plane.DstRect) != 0 &&
         clip_of(plane) != 0 && static_cast<UINT>(plane.SrcRect.right) <= surface->width &&
         static_cast<UINT>(plane.SrcRect.bottom) <= surface->height;
}

NTSTATUS NTAPI DdiCheckPlanes(IN_CONST_HANDLE, CheckArguments* args) {
  args->ReturnInfo.Value = 0;
  args->Supported = TRUE;
  for (UINT i = 0; i < args->PlaneCount; ++i) {
    const auto* surface = static_cast<const OpenAllocation*>(args->pPlanes[i].hAllocation);
    if (i < g_planes && can_show(surface, args->pPlanes[i].PlaneAttributes)) continue;
    args->Supported = FALSE;
    args->ReturnInfo.FailingPlane = i & 0xF;
    break;
  }
  return STATUS_SUCCESS;
}

/// At device level: nothing but registers and memory that is not paged.
NTSTATUS NTAPI DdiSetPlanes(IN_CONST_HANDLE context, const SetArguments* args) {
  Adapter* adapter = adapter_of(context);
  for (UINT i = 0; i < args->PlaneCount; ++i) {
    const Plane& plane = args->pPlanes[i];
    if (plane.LayerIndex >= g_planes) return STATUS_INVALID_PARAMETER;
    if (plane.Enabled != FALSE &&
        !can_show(static_cast<const OpenAllocation*>(plane.hAllocation), plane.PlaneAttributes))
      return STATUS_INVALID_PARAMETER;
  }
  for (UINT i = 0; i < args->PlaneCount; ++i) {
    const Plane& plane = args->pPlanes[i];
    const Attributes& how = plane.PlaneAttributes;
    const ULONG layer = plane.LayerIndex;
    DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO& told = adapter->plane_info[layer];
    ULONG control = 0;
    if (plane.Enabled != FALSE) {
      const auto* surface = static_cast<const OpenAllocation*>(plane.hAllocation);
      control = SGPU_PLANE_ENABLE | (how.Blend.AlphaBlend != 0 ? SGPU_PLANE_BLEND : 0);
      write64(*adapter, SGPU_PLANE_REG(layer, SGPU_PLANE_ADDRESS),
              static_cast<ULONG64>(plane.AllocationAddress.QuadPart));
      write64(*adapter, SGPU_PLANE_REG(layer, SGPU_PLANE_SOURCE), device_rect(how.SrcRect));
      write64(*adapter, SGPU_PLANE_REG(layer, SGPU_PLANE_TARGET), device_rect(how.DstRect));
      write64(*adapter, SGPU_PLANE_REG(layer, SGPU_PLANE_CLIP), clip_of(how));
      write32(*adapter, SGPU_PLANE_REG(layer, SGPU_PLANE_PITCH), surface->pitch_bytes);
    }
    write32(*adapter, SGPU_PLANE_REG(layer, SGPU_PLANE_CONTROL), control);
    told.PlaneAttributes.SrcRect = how.SrcRect;
    told.PlaneAttributes.DstRect = how.DstRect;
    told.PlaneAttributes.ClipRect = how.ClipRect;
    told.PlaneAttributes.Rotation = how.Rotation;
    told.PlaneAttributes.Blend = how.Blend;
    told.PlaneAttributes.StretchQuality = how.StretchQuality;
  }
  // Last, so that a vertical sync in between takes all of them or none.
  for (UINT i = 0; i < args->PlaneCount; ++i) {
    write32(*adapter, SGPU_PLANE_REG(args->pPlanes[i].LayerIndex, SGPU_PLANE_COMMIT),
            args->Flags.FlipOnNextVSync == 0 ? SGPU_PLANE_NOW : 0);
  }
  adapter->planes_set = true;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiSetVisibility(IN_CONST_HANDLE context,
                                IN_CONST_PDXGKARG_SETVIDPNSOURCEVISIBILITY args) {
  write32(*adapter_of(context), SGPU_REG_SCANOUT_CONTROL,
          args->Visible != FALSE ? SGPU_SCANOUT_ENABLE : 0);
  return STATUS_SUCCESS;
}

/// At device level for flips: nothing but registers, and an allocation that is not paged.
NTSTATUS NTAPI DdiSetSourceAddress(IN_CONST_HANDLE context,
                                   IN_CONST_PDXGKARG_SETVIDPNSOURCEADDRESS args) {
  Adapter& adapter = *adapter_of(context);
  const auto* surface = static_cast<const OpenAllocation*>(args->hAllocation);
  if (surface == nullptr || surface->pitch_bytes == 0) return STATUS_INVALID_PARAMETER;
  adapter.planes_set = false;  // the device switches them off with the address
  write32(adapter, SGPU_REG_SCANOUT_SIZE, surface->width | surface->height << 16);
  write32(adapter, SGPU_REG_SCANOUT_PITCH, surface->pitch_bytes);
  const bool now = args->Flags.FlipOnNextVSync == 0;
  write64(adapter, SGPU_REG_SCANOUT_ADDRESS,
          static_cast<ULONG64>(args->PrimaryAddress.QuadPart) | (now ? SGPU_SCANOUT_NOW : 0));
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiGetStandardAllocation(IN_CONST_HANDLE,
                                        INOUT_PDXGKARG_GETSTANDARDALLOCATIONDRIVERDATA args) {
  // Shadow, staging and GDI surfaces are for what this driver does not do.
  if (args->StandardAllocationType != D3DKMDT_STANDARDALLOCATION_SHAREDPRIMARYSURFACE) {
    return STATUS_NOT_SUPPORTED;
  }
  if (args->pAllocationPrivateDriverData != nullptr) {
    const D3DKMDT_SHAREDPRIMARYSURFACEDATA& wanted = *args->pCreateSharedPrimarySurfaceData;
    SgpuUmdAllocation surface = {};
    surface.magic = SGPU_UMD_ALLOCATION_MAGIC;
    surface.version = SGPU_UMD_VERSION;
    surface.kind = SGPU_UMD_KIND_SURFACE;
    surface.placement = SGPU_UMD_PLACE_VRAM;
    surface.width = wanted.Width;
    surface.height = wanted.Height;
    RtlCopyMemory(args->pAllocationPrivateDriverData, &surface, sizeof(surface));
  }
  args->AllocationPrivateDriverDataSize = sizeof(SgpuUmdAllocation);
  args->ResourcePrivateDriverDataSize = 0;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDescribeAllocation(IN_CONST_HANDLE, INOUT_PDXGKARG_DESCRIBEALLOCATION args) {
  const auto* surface = static_cast<const OpenAllocation*>(args->hAllocation);
  args->Width = surface->width;
  args->Height = surface->height;
  args->Format = kFormat;
  args->MultisampleMethod = {};
  args->RefreshRate = {};
  args->PrivateDriverFormatAttribute = 0;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiPresent(IN_CONST_HANDLE, INOUT_PDXGKARG_PRESENT args) {
  // Flips go through registers and need no commands; copies are user mode's own.
  return args->Flags.Flip != 0 ? STATUS_SUCCESS : STATUS_ILLEGAL_INSTRUCTION;
}

NTSTATUS NTAPI DdiGetScanLine(IN_CONST_HANDLE context, INOUT_PDXGKARG_GETSCANLINE args) {
  const ULONG line = read32(*adapter_of(context), SGPU_REG_SCANOUT_LINE);
  args->InVerticalBlank = (line & SGPU_SCANOUT_IN_BLANK) != 0;
  args->ScanLine = line & ~SGPU_SCANOUT_IN_BLANK;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiControlInterrupt(IN_CONST_HANDLE context, IN_CONST_DXGK_INTERRUPT_TYPE type,
                                   IN_BOOLEAN enable) {
  if (type != DXGK_INTERRUPT_CRTC_VSYNC) return STATUS_NOT_IMPLEMENTED;
  Adapter* adapter = adapter_of(context);
  return at_device_level(adapter, [&] {
    adapter->vsync_cause = enable ? SGPU_INT_VSYNC : 0;
    if (adapter->interrupts_on) {
      write32(*adapter, SGPU_REG_INT_ENABLE, SGPU_INT_ALL | adapter->vsync_cause);
    }
  });
}

}  // namespace

NTSTATUS read_screen_size(PUNICODE_STRING registry_path) {
  static const WCHAR kName[] = {'S', 'c', 'r', 'e', 'e', 'n', 'S', 'i', 'z', 'e', 0};
  ULONG size = 0;
  const NTSTATUS status = read_setting(registry_path, kName, &size);
  if (!NT_SUCCESS(status)) return status;
  g_size = {size & 0xFFFF, size >> 16};
  static const WCHAR kPlanes[] = {'O', 'v', 'e', 'r', 'l', 'a', 'y',
                                  'P', 'l', 'a', 'n', 'e', 's', 0};
  g_planes = 0;
  const NTSTATUS planes = read_setting(registry_path, kPlanes, &g_planes);
  if (!NT_SUCCESS(planes)) return planes;
  if (g_planes > SGPU_PLANE_COUNT) return STATUS_INVALID_PARAMETER;
  return (g_size.width == 0) == (g_size.height == 0) ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
}

void add_screen_entries(DRIVER_INITIALIZATION_DATA* data) {
  if (g_size.width == 0) return;
  data->DxgkDdiQueryChildRelations = modes::query_child_relations;
  data->DxgkDdiQueryChildStatus = modes::query_child_status;
  data->DxgkDdiQueryDeviceDescriptor = modes::query_device_descriptor;
  data->DxgkDdiIsSupportedVidPn = DdiIsSupportedVidPn;
  data->DxgkDdiRecommendFunctionalVidPn = modes::recommend_functional_vidpn;
  data->DxgkDdiEnumVidPnCofuncModality = DdiEnumVidPnCofuncModality;
  data->DxgkDdiRecommendMonitorModes = DdiRecommendMonitorModes;
  data->DxgkDdiCommitVidPn = DdiCommitVidPn;
  data->DxgkDdiUpdateActiveVidPnPresentPath = modes::update_active_path;
  data->DxgkDdiQueryVidPnHWCapability = modes::query_vidpn_hw_capability;
  data->DxgkDdiSetVidPnSourceVisibility = DdiSetVisibility;
  data->DxgkDdiSetVidPnSourceAddress = DdiSetSourceAddress;
  data->DxgkDdiGetStandardAllocationDriverData = DdiGetStandardAllocation;
  data->DxgkDdiDescribeAllocation = DdiDescribeAllocation;
  data->DxgkDdiPresent = DdiPresent;
  data->DxgkDdiGetScanLine = DdiGetScanLine;
  data->DxgkDdiControlInterrupt = DdiControlInterrupt;
  if (g_planes == 0) return;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
  data->DxgkDdiCheckMultiPlaneOverlaySupport2 = DdiCheckPlanes;
  data->DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2 = DdiSetPlanes;
#else
  data->DxgkDdiCheckMultiPlaneOverlaySupport = DdiCheckPlanes;
  data->DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay = DdiSetPlanes;
#endif
}

ULONG screen_count(const Adapter& adapter) {
  return g_size.width != 0 && read32(adapter, SGPU_REG_SCANOUTS) != 0 ? 1 : 0;
}

void screen_caps(DXGK_DRIVERCAPS* caps) {
  if (g_size.width == 0) return;
  caps->FlipCaps.FlipImmediateMmIo = 1;
  caps->MaxQueuedFlipOnVSync = 1;  // one address register
  caps->SchedulingCaps.VSyncPowerSaveAware = 1;
  caps->MaxOverlayPlanes = g_planes;
  caps->SupportMultiPlaneOverlay = g_planes != 0 ? TRUE : FALSE;
}

void report_vsync(Adapter* adapter) {
  const ULONG64 shown = read64(*adapter, SGPU_REG_SCANOUT_SHOWN);
  // Nobody wants to know, or there is no primary yet that it could be about.
  if (adapter->vsync_cause == 0 || shown == 0) return;
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  if (adapter->planes_set) {
    for (ULONG layer = 0; layer < SGPU_PLANE_COUNT; ++layer) {
      const ULONG64 address = read64(*adapter, SGPU_PLANE_REG(layer, SGPU_PLANE_SHOWN));
      adapter->plane_info[layer].LayerIndex = layer;
      adapter->plane_info[layer].Enabled = address != 0 ? TRUE : FALSE;
      adapter->plane_info[layer].PhysicalAddress.QuadPart = static_cast<LONGLONG>(address);
    }
    data.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY;
    data.CrtcVsyncWithMultiPlaneOverlay.VidPnTargetId = modes::kOutput;
    data.CrtcVsyncWithMultiPlaneOverlay.MultiPlaneOverlayVsyncInfoCount = g_planes;
    data.CrtcVsyncWithMultiPlaneOverlay.pMultiPlaneOverlayVsyncInfo = adapter->plane_info;
  } else {
    data.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
    data.CrtcVsync.VidPnTargetId = modes::kOutput;
    data.CrtcVsync.PhysicalAddress.QuadPart = static_cast<LONGLONG>(shown);
  }
  adapter->dxgk.DxgkCbNotifyInterrupt(adapter->dxgk.DeviceHandle, &data);
  adapter->dpc_wanted = true;
}

void screen_off(const Adapter& adapter) { write32(adapter, SGPU_REG_SCANOUT_CONTROL, 0); }

}  // namespace softgpu
