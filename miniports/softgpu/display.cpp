// Modes, primaries, flips and vertical syncs of the display variant (SOFTGPU_HAS_SCREEN).
#include "miniports/softgpu/driver.h"
//
#include "miniports/modes/output.h"

namespace softgpu {
namespace {

constexpr D3DDDIFORMAT kFormat = D3DDDIFMT_A8R8G8B8;  // what the display reads: blue first

modes::Size g_size;  // the one mode; width 0: no screen

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

NTSTATUS NTAPI DdiSetVisibility(IN_CONST_HANDLE context,
                                IN_CONST_PDXGKARG_SETVIDPNSOURCEVISIBILITY args) {
  write32(*adapter_of(context), SGPU_REG_SCANOUT_CONTROL,
          args->Visible != FALSE ? SGPU_SCANOUT_ENABLE : 0);
  return STATUS_SUCCESS;
}

/// At device level for flips: nothing but registers, and an allocation that is not paged.
NTSTATUS NTAPI DdiSetSourceAddress(IN_CONST_HANDLE context,
                                   IN_CONST_PDXGKARG_SETVIDPNSOURCEADDRESS args) {
  const Adapter& adapter = *adapter_of(context);
  const auto* surface = static_cast<const OpenAllocation*>(args->hAllocation);
  if (surface == nullptr || surface->pitch_bytes == 0) return STATUS_INVALID_PARAMETER;
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
}

ULONG screen_count(const Adapter& adapter) {
  return g_size.width != 0 && read32(adapter, SGPU_REG_SCANOUTS) != 0 ? 1 : 0;
}

void screen_caps(DXGK_DRIVERCAPS* caps) {
  if (g_size.width == 0) return;
  caps->FlipCaps.FlipImmediateMmIo = 1;
  caps->MaxQueuedFlipOnVSync = 1;  // one address register
  caps->SchedulingCaps.VSyncPowerSaveAware = 1;
}

void report_vsync(Adapter* adapter) {
  const ULONG64 shown = read64(*adapter, SGPU_REG_SCANOUT_SHOWN);
  // Nobody wants to know, or there is no primary yet that it could be about.
  if (adapter->vsync_cause == 0 || shown == 0) return;
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
  data.CrtcVsync.VidPnTargetId = modes::kOutput;
  data.CrtcVsync.PhysicalAddress.QuadPart = static_cast<LONGLONG>(shown);
  adapter->dxgk.DxgkCbNotifyInterrupt(adapter->dxgk.DeviceHandle, &data);
  adapter->dpc_wanted = true;
}

void screen_off(const Adapter& adapter) { write32(adapter, SGPU_REG_SCANOUT_CONTROL, 0); }

}  // namespace softgpu
