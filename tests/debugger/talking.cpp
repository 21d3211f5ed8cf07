// The softgpu miniport, which prints addresses of all kinds when it starts. The rest of the driver
// is compiled with DxgkInitialize renamed to the function below.
#undef DxgkInitialize
#include <dispmprt.h>
#include <ntddk.h>

namespace {

constexpr ULONG kTag = 'klaT';
DXGKDDI_START_DEVICE* start_device;
// In the ELF twin only data can hold the address of an import.
decltype(&DbgPrint) volatile import = DbgPrint;

void print_pool(const char* what, POOL_TYPE type, SIZE_T bytes) {
  PVOID const memory = ExAllocatePoolWithTag(type, bytes, kTag);
  DbgPrint("talking: %s at %p", what, memory);
  if (memory != nullptr) ExFreePoolWithTag(memory, kTag);
}

void print_device_memory(PDXGKRNL_INTERFACE dxgk) {
  DXGK_DEVICE_INFO info;
  RtlZeroMemory(&info, sizeof(info));
  if (!NT_SUCCESS(dxgk->DxgkCbGetDeviceInformation(dxgk->DeviceHandle, &info))) return;
  const CM_PARTIAL_RESOURCE_LIST& list = info.TranslatedResourceList->List[0].PartialResourceList;
  for (ULONG i = 0; i < list.Count; ++i) {
    const CM_PARTIAL_RESOURCE_DESCRIPTOR& resource = list.PartialDescriptors[i];
    if (resource.Type != CmResourceTypeMemory) continue;
    PVOID memory = nullptr;
    if (!NT_SUCCESS(dxgk->DxgkCbMapMemory(dxgk->DeviceHandle, resource.u.Memory.Start, PAGE_SIZE,
                                          FALSE, FALSE, MmNonCached, &memory)))
      continue;
    DbgPrint("talking: device memory at %p", memory);
    dxgk->DxgkCbUnmapMemory(dxgk->DeviceHandle, memory);
  }
}

NTSTATUS NTAPI talk(IN_CONST_PVOID context, IN_PDXGK_START_INFO info, IN_PDXGKRNL_INTERFACE dxgk,
                    OUT_PULONG sources, OUT_PULONG children) {
  ULONG local = 0;
  DbgPrint("talking: code at %p", reinterpret_cast<PVOID>(&talk));
  DbgPrint("talking: data at %p", static_cast<PVOID>(&start_device));
  DbgPrint("talking: stack at %p", static_cast<PVOID>(&local));
  DbgPrint("talking: import at %p", reinterpret_cast<PVOID>(import));
  DbgPrint("talking: callback at %p", reinterpret_cast<PVOID>(dxgk->DxgkCbMapMemory));
  print_pool("small pool", NonPagedPoolNx, 40);
  print_pool("a page of pool", NonPagedPoolNx, PAGE_SIZE);
  print_pool("paged pool", PagedPool, 40);
  print_pool("executable pool", NonPagedPool, 40);
  print_device_memory(dxgk);
  const NTSTATUS status = start_device(context, info, dxgk, sources, children);
  DbgPrint("talking: adapter at %p", context);
  return status;
}

}  // namespace

extern "C" NTSTATUS NTAPI talking_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                             PDRIVER_INITIALIZATION_DATA data) {
  start_device = data->DxgkDdiStartDevice;
  data->DxgkDdiStartDevice = talk;
  return DxgkInitialize(driver, path, data);
}
