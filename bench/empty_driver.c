// A full driver image whose entries do nothing: what a call into an image costs.
#define DXGKDDI_INTERFACE_VERSION 0x4002  // WDDM 1.3
#include <dispmprt.h>
#include <ntddk.h>

static ULONG context;

static NTSTATUS APIENTRY AddDevice(IN_CONST_PDEVICE_OBJECT device, OUT_PPVOID out) {
  (void)device;
  *out = &context;
  return STATUS_SUCCESS;
}
static NTSTATUS APIENTRY StartDevice(IN_CONST_PVOID device, IN_PDXGK_START_INFO info,
                                     IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG sources,
                                     OUT_PULONG children) {
  (void)device, (void)info, (void)dxgk;
  *sources = 0;
  *children = 0;
  return STATUS_SUCCESS;
}
static NTSTATUS APIENTRY QueryCurrentFence(IN_CONST_HANDLE adapter,
                                           INOUT_PDXGKARG_QUERYCURRENTFENCE fence) {
  (void)adapter;
  fence->CurrentFence = 1;
  return STATUS_SUCCESS;
}
static NTSTATUS Succeed(void) { return STATUS_SUCCESS; }

NTSTATUS DriverEntry(PDRIVER_OBJECT object, PUNICODE_STRING path) {
  static DRIVER_INITIALIZATION_DATA table;
  table.Version = DXGKDDI_INTERFACE_VERSION;
  table.DxgkDdiAddDevice = AddDevice;
  table.DxgkDdiStartDevice = StartDevice;
  table.DxgkDdiQueryCurrentFence = QueryCurrentFence;
#define SUCCEED(entry) *(void**)&table.entry = (void*)Succeed
  SUCCEED(DxgkDdiStopDevice);
  SUCCEED(DxgkDdiRemoveDevice);
  SUCCEED(DxgkDdiUnload);
  SUCCEED(DxgkDdiInterruptRoutine);
  SUCCEED(DxgkDdiDpcRoutine);
  SUCCEED(DxgkDdiSetPowerState);
  SUCCEED(DxgkDdiQueryAdapterInfo);
  SUCCEED(DxgkDdiCreateDevice);
  SUCCEED(DxgkDdiDestroyDevice);
  SUCCEED(DxgkDdiCreateAllocation);
  SUCCEED(DxgkDdiDestroyAllocation);
  SUCCEED(DxgkDdiOpenAllocation);
  SUCCEED(DxgkDdiCloseAllocation);
  SUCCEED(DxgkDdiBuildPagingBuffer);
  SUCCEED(DxgkDdiPreemptCommand);
  SUCCEED(DxgkDdiResetFromTimeout);
  SUCCEED(DxgkDdiRestartFromTimeout);
  SUCCEED(DxgkDdiGetNodeMetadata);
  SUCCEED(DxgkDdiRender);
  SUCCEED(DxgkDdiPatch);
  SUCCEED(DxgkDdiSubmitCommand);
  return DxgkInitialize(object, path, &table);
}
