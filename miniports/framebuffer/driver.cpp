// A display-only driver for a linear frame buffer: shows what it is handed, in the mode it found.
#include <ntddk.h>

#include "miniports/modes/output.h"

namespace framebuffer {
namespace {

constexpr ULONG kPoolTag = 0x42465844;  // "DXFB"
constexpr UINT kPixelBytes = 4;

struct Adapter {
  DXGKRNL_INTERFACE dxgk;
  DXGK_DISPLAY_INFORMATION post;  // what firmware, or the driver before, set: the only mode
  UCHAR* screen;                  // mapped while started
  modes::Size size;
  modes::Shown shown;  // by the last commit
  bool visible;
  bool powered;

  modes::ModeTable table() const {
    modes::ModeTable result = {};
    result.dxgk = &dxgk;
    result.sizes = &size;
    result.size_count = 1;
    result.rotation_offsets = true;
    return result;
  }
  ULONG* row(UINT y) const { return reinterpret_cast<ULONG*>(screen + SIZE_T{y} * post.Pitch); }
};

Adapter* adapter_of(const void* context) {
  return static_cast<Adapter*>(const_cast<void*>(context));
}

void blacken(const Adapter& adapter) {
  for (UINT y = 0; y < adapter.size.height; ++y)
    RtlZeroMemory(adapter.row(y), SIZE_T{adapter.size.width} * kPixelBytes);
}

/// A rectangle of the picture, if it lies inside the mode.
void copy(const Adapter& adapter, const DXGKARG_PRESENT_DISPLAYONLY& present, const RECT& rect) {
  if (rect.left < 0 || rect.top < 0 || rect.right > static_cast<LONG>(adapter.size.width) ||
      rect.bottom > static_cast<LONG>(adapter.size.height) || rect.left >= rect.right)
    return;
  const SIZE_T bytes = static_cast<SIZE_T>(rect.right - rect.left) * kPixelBytes;
  for (LONG y = rect.top; y < rect.bottom; ++y) {
    const UCHAR* from = static_cast<const UCHAR*>(present.pSource) +
                        static_cast<LONG64>(y) * present.Pitch +
                        static_cast<SIZE_T>(rect.left) * kPixelBytes;
    RtlCopyMemory(adapter.row(static_cast<UINT>(y)) + rect.left, from, bytes);
  }
}

NTSTATUS NTAPI DdiAddDevice(IN_CONST_PDEVICE_OBJECT, OUT_PPVOID context) {
  void* adapter = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof(Adapter), kPoolTag);
  if (adapter == nullptr) return STATUS_NO_MEMORY;
  RtlZeroMemory(adapter, sizeof(Adapter));
  *context = adapter;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiRemoveDevice(IN_CONST_PVOID context) {
  ExFreePoolWithTag(const_cast<void*>(context), kPoolTag);
  return STATUS_SUCCESS;
}

void NTAPI DdiUnload() {}

NTSTATUS NTAPI DdiStartDevice(IN_CONST_PVOID context, IN_PDXGK_START_INFO,
                              IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG sources, OUT_PULONG children) {
  Adapter* adapter = adapter_of(context);
  RtlZeroMemory(adapter, sizeof(*adapter));
  adapter->dxgk = *dxgk;
  *sources = *children = 1;
  NTSTATUS status =
      adapter->dxgk.DxgkCbAcquirePostDisplayOwnership(adapter->dxgk.DeviceHandle, &adapter->post);
  if (!NT_SUCCESS(status)) return status;
  // No registers: without a mode that somebody else set there is nothing this driver can do.
  if (adapter->post.Width == 0 || adapter->post.Pitch / kPixelBytes < adapter->post.Width)
    return STATUS_DEVICE_CONFIGURATION_ERROR;
  adapter->size = {adapter->post.Width, adapter->post.Height};
  PVOID screen = nullptr;
  status = adapter->dxgk.DxgkCbMapMemory(adapter->dxgk.DeviceHandle, adapter->post.PhysicAddress,
                                         adapter->post.Pitch * adapter->post.Height, FALSE, FALSE,
                                         MmWriteCombined, &screen);
  if (!NT_SUCCESS(status)) return status;
  adapter->screen = static_cast<UCHAR*>(screen);
  adapter->powered = true;
  return STATUS_SUCCESS;
}

void stop(Adapter* adapter) {
  if (adapter->screen == nullptr) return;
  (void)adapter->dxgk.DxgkCbUnmapMemory(adapter->dxgk.DeviceHandle, adapter->screen);
  adapter->screen = nullptr;
}

NTSTATUS NTAPI DdiStopDevice(IN_CONST_PVOID context) {
  stop(adapter_of(context));
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiStopAndRelease(PVOID context, D3DDDI_VIDEO_PRESENT_TARGET_ID,
                                 PDXGK_DISPLAY_INFORMATION left) {
  Adapter* adapter = adapter_of(context);
  // The next driver finds the mode, and a black screen rather than our last picture.
  blacken(*adapter);
  *left = adapter->post;
  left->TargetId = modes::kOutput;
  stop(adapter);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiQueryAdapterInfo(IN_CONST_HANDLE, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  if (args->Type != DXGKQAITYPE_DRIVERCAPS) return STATUS_NOT_SUPPORTED;
  if (args->OutputDataSize < sizeof(DXGK_DRIVERCAPS)) return STATUS_BUFFER_TOO_SMALL;
  auto* caps = static_cast<DXGK_DRIVERCAPS*>(args->pOutputData);
  RtlZeroMemory(caps, sizeof(*caps));
  caps->HighestAcceptableAddress.QuadPart = -1;
  caps->WDDMVersion = DXGKDDI_WDDMv1_2;
  caps->SupportNonVGA = TRUE;
  caps->SupportSmoothRotation = TRUE;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiSetPowerState(IN_CONST_PVOID context, IN_ULONG uid, IN_DEVICE_POWER_STATE state,
                                IN_POWER_ACTION) {
  if (uid == DISPLAY_ADAPTER_HW_ID) adapter_of(context)->powered = state == PowerDeviceD0;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiIsSupportedVidPn(IN_CONST_HANDLE context, INOUT_PDXGKARG_ISSUPPORTEDVIDPN args) {
  return is_supported(adapter_of(context)->table(), args);
}

NTSTATUS NTAPI DdiEnumVidPnCofuncModality(IN_CONST_HANDLE context,
                                          IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  return enumerate(adapter_of(context)->table(), args);
}

NTSTATUS NTAPI DdiRecommendMonitorModes(IN_CONST_HANDLE context,
                                        IN_CONST_PDXGKARG_RECOMMENDMONITORMODES_CONST args) {
  return recommend_monitor_mode(adapter_of(context)->table(), args, adapter_of(context)->size);
}

NTSTATUS NTAPI DdiCommitVidPn(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_COMMITVIDPN_CONST args) {
  Adapter* adapter = adapter_of(context);
  modes::Shown shown = {};
  const NTSTATUS status = read_commit(adapter->table(), args, &shown);
  if (!NT_SUCCESS(status)) return status;
  adapter->shown = shown;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiSetVisibility(IN_CONST_HANDLE context,
                                IN_CONST_PDXGKARG_SETVIDPNSOURCEVISIBILITY args) {
  Adapter* adapter = adapter_of(context);
  adapter->visible = args->Visible != FALSE;
  if (!adapter->visible) blacken(*adapter);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiPresentDisplayOnly(IN_CONST_HANDLE context,
                                     IN_CONST_PDXGKARG_PRESENT_DISPLAYONLY present) {
  const Adapter& adapter = *adapter_of(context);
  if (present->BytesPerPixel != kPixelBytes || present->Flags.Rotate != 0)
    return STATUS_INVALID_PARAMETER;
  if (adapter.shown.width == 0 || !adapter.visible || !adapter.powered) return STATUS_SUCCESS;
  // The source is the whole new picture, so what moved can be had from its destination there.
  for (ULONG i = 0; i < present->NumMoves; ++i)
    copy(adapter, *present, present->pMoves[i].DestRect);
  for (ULONG i = 0; i < present->NumDirtyRects; ++i)
    copy(adapter, *present, present->pDirtyRect[i]);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiSystemDisplayEnable(PVOID context, D3DDDI_VIDEO_PRESENT_TARGET_ID,
                                      PDXGKARG_SYSTEM_DISPLAY_ENABLE_FLAGS, UINT* width,
                                      UINT* height, D3DDDIFORMAT* format) {
  const Adapter& adapter = *adapter_of(context);
  *width = adapter.size.width;
  *height = adapter.size.height;
  *format = D3DDDIFMT_X8R8G8B8;
  blacken(adapter);
  return STATUS_SUCCESS;
}

void NTAPI DdiSystemDisplayWrite(PVOID context, PVOID source, UINT width, UINT height, UINT stride,
                                 UINT x, UINT y) {
  const Adapter& adapter = *adapter_of(context);
  for (UINT line = 0; line < height && y + line < adapter.size.height; ++line) {
    const auto* from =
        reinterpret_cast<const ULONG*>(static_cast<const UCHAR*>(source) + SIZE_T{line} * stride);
    ULONG* to = adapter.row(y + line);
    for (UINT i = 0; i < width && x + i < adapter.size.width; ++i) to[x + i] = from[i];
  }
}

}  // namespace
}  // namespace framebuffer

extern "C" NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path) {
  using namespace framebuffer;
  KMDDOD_INITIALIZATION_DATA table;
  RtlZeroMemory(&table, sizeof(table));
  table.Version = DXGKDDI_INTERFACE_VERSION;
  table.DxgkDdiAddDevice = DdiAddDevice;
  table.DxgkDdiStartDevice = DdiStartDevice;
  table.DxgkDdiStopDevice = DdiStopDevice;
  table.DxgkDdiRemoveDevice = DdiRemoveDevice;
  table.DxgkDdiQueryChildRelations = modes::query_child_relations;
  table.DxgkDdiQueryChildStatus = modes::query_child_status;
  table.DxgkDdiQueryDeviceDescriptor = modes::query_device_descriptor;
  table.DxgkDdiSetPowerState = DdiSetPowerState;
  table.DxgkDdiUnload = DdiUnload;
  table.DxgkDdiQueryAdapterInfo = DdiQueryAdapterInfo;
  table.DxgkDdiIsSupportedVidPn = DdiIsSupportedVidPn;
  table.DxgkDdiRecommendFunctionalVidPn = modes::recommend_functional_vidpn;
  table.DxgkDdiEnumVidPnCofuncModality = DdiEnumVidPnCofuncModality;
  table.DxgkDdiSetVidPnSourceVisibility = DdiSetVisibility;
  table.DxgkDdiCommitVidPn = DdiCommitVidPn;
  table.DxgkDdiUpdateActiveVidPnPresentPath = modes::update_active_path;
  table.DxgkDdiRecommendMonitorModes = DdiRecommendMonitorModes;
  table.DxgkDdiQueryVidPnHWCapability = modes::query_vidpn_hw_capability;
  table.DxgkDdiPresentDisplayOnly = DdiPresentDisplayOnly;
  table.DxgkDdiStopDeviceAndReleasePostDisplayOwnership = DdiStopAndRelease;
  table.DxgkDdiSystemDisplayEnable = DdiSystemDisplayEnable;
  table.DxgkDdiSystemDisplayWrite = DdiSystemDisplayWrite;
  return DxgkInitializeDisplayOnlyDriver(driver, registry_path, &table);
}
