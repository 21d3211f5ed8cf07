// The softgpu miniport, which prints addresses of all kinds when it starts and when it pages. The
// rest of the driver is compiled with DxgkInitialize renamed to the function below.
#undef DxgkInitialize
#include <dispmprt.h>
#include <ntddk.h>

namespace {

constexpr ULONG kTag = 'klaT';
DXGKDDI_START_DEVICE* start_device;
DXGKDDI_BUILDPAGINGBUFFER* build;
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

/// The kernel's own objects that a driver gets, and the structures it asks for.
void print_objects(PDXGKRNL_INTERFACE dxgk) {
  DbgPrint("talking: device handle at %p", dxgk->DeviceHandle);
  DXGK_DEVICE_INFO info;
  RtlZeroMemory(&info, sizeof(info));
  if (!NT_SUCCESS(dxgk->DxgkCbGetDeviceInformation(dxgk->DeviceHandle, &info))) return;
  DbgPrint("talking: physical device at %p", static_cast<PVOID>(info.PhysicalDeviceObject));
  DbgPrint("talking: driver object at %p",
           static_cast<PVOID>(info.PhysicalDeviceObject->DriverObject));
  DbgPrint("talking: process at %p", static_cast<PVOID>(PsGetCurrentProcess()));
  if (PMDL const mdl = IoAllocateMdl(&start_device, sizeof(start_device), FALSE, FALSE, nullptr);
      mdl != nullptr) {
    DbgPrint("talking: list of pages at %p", static_cast<PVOID>(mdl));
    IoFreeMdl(mdl);
  }
  if (PIRP const irp = IoAllocateIrp(2, FALSE); irp != nullptr) {
    DbgPrint("talking: request at %p", static_cast<PVOID>(irp));
    IoFreeIrp(irp);
  }
  if (PIO_WORKITEM const item = IoAllocateWorkItem(info.PhysicalDeviceObject); item != nullptr) {
    DbgPrint("talking: work item at %p", reinterpret_cast<PVOID>(item));
    IoFreeWorkItem(item);
  }
  HANDLE thread = nullptr;
  const auto run = [](PVOID) {
    DbgPrint("talking: thread at %p", static_cast<PVOID>(KeGetCurrentThread()));
  };
  if (!NT_SUCCESS(PsCreateSystemThread(&thread, THREAD_ALL_ACCESS, nullptr, nullptr, nullptr, run,
                                       nullptr)))
    return;
  PVOID object = nullptr;
  if (NT_SUCCESS(ObReferenceObjectByHandle(thread, THREAD_ALL_ACCESS, *PsThreadType, KernelMode,
                                           &object, nullptr))) {
    KeWaitForSingleObject(object, Executive, KernelMode, FALSE, nullptr);
    ObDereferenceObject(object);
  }
  ZwClose(thread);
}

NTSTATUS NTAPI build_paging_buffer(IN_CONST_HANDLE adapter,
                                   IN_PDXGKARG_BUILDPAGINGBUFFER arguments) {
  if (arguments->Operation == DXGK_OPERATION_TRANSFER) {
    PMDL const mdl = arguments->Transfer.Source.SegmentId == 0
                         ? arguments->Transfer.Source.pMdl
                         : arguments->Transfer.Destination.pMdl;
    DbgPrint("talking: pages to transfer at %p", static_cast<PVOID>(mdl));
  }
  DbgPrint("talking: paging buffer at %p", arguments->pDmaBuffer);
  return build(adapter, arguments);
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
  print_objects(dxgk);
  const NTSTATUS status = start_device(context, info, dxgk, sources, children);
  DbgPrint("talking: adapter at %p", context);
  return status;
}

}  // namespace

extern "C" NTSTATUS NTAPI talking_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                             PDRIVER_INITIALIZATION_DATA data) {
  start_device = data->DxgkDdiStartDevice;
  data->DxgkDdiStartDevice = talk;
  build = data->DxgkDdiBuildPagingBuffer;
  data->DxgkDdiBuildPagingBuffer = build_paging_buffer;
  return DxgkInitialize(driver, path, data);
}
