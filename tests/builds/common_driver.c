// A driver of several C files with definitions in a header. The rest is examples/miniport/first.c,
// compiled with DxgkInitialize renamed to the function below.
#undef DxgkInitialize
#include <DispMprt.h>
#include <Ntddk.h>

#include "COMMON.H"

static DXGKDDI_START_DEVICE* start_device;

static NTSTATUS NTAPI start(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                            IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG sources, OUT_PULONG children) {
  const int before = Counts.Started;
  CountStart();
  if (Counts.Initialized != 1 || Counts.Started != before + 1) return STATUS_UNSUCCESSFUL;
  if (MoreCounts[3] != Counts.Started) return STATUS_UNSUCCESSFUL;
  return start_device(context, info, dxgk, sources, children);
}

NTSTATUS NTAPI common_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                 PDRIVER_INITIALIZATION_DATA data) {
  ++Counts.Initialized;
  start_device = data->DxgkDdiStartDevice;
  data->DxgkDdiStartDevice = start;
  return DxgkInitialize(driver, path, data);
}
