// Faults of DxgkDdiStartDevice, for mutant.cpp.
#pragma once

#include <dispmprt.h>
#include <ntddk.h>

namespace {

DRIVER_INITIALIZATION_DATA whole;  // the entries as the driver set them

NTSTATUS NTAPI fail_start(const PVOID, PDXGK_START_INFO, PDXGKRNL_INTERFACE, PULONG, PULONG) {
  return STATUS_NO_SUCH_DEVICE;
}

// Wrong error paths of the start, which have no effect while nothing fails.
NTSTATUS NTAPI leak_when_start_fails(const PVOID adapter, PDXGK_START_INFO start,
                                     PDXGKRNL_INTERFACE interface, PULONG sources,
                                     PULONG children) {
  PVOID const scratch = ExAllocatePoolWithTag(NonPagedPoolNx, 100, 'tatS');
  const NTSTATUS status = whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
  if (NT_SUCCESS(status) && scratch != nullptr) ExFreePoolWithTag(scratch, 'tatS');
  return status;
}
NTSTATUS NTAPI believe_device_information(const PVOID adapter, PDXGK_START_INFO start,
                                          PDXGKRNL_INTERFACE interface, PULONG sources,
                                          PULONG children) {
  DXGK_DEVICE_INFO info;
  RtlZeroMemory(&info, sizeof(info));
  interface->DxgkCbGetDeviceInformation(interface->DeviceHandle, &info);
  // The list is there if the call succeeded.
  volatile ULONG count = info.TranslatedResourceList->Count;
  static_cast<void>(count);
  return whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
}

/// It goes on without the memory that it asked for, and does no work.
BOOLEAN crippled;
NTSTATUS NTAPI start_crippled(const PVOID adapter, PDXGK_START_INFO start,
                              PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  PVOID const scratch = ExAllocatePoolWithTag(NonPagedPoolNx, 100, 'tatS');
  crippled = scratch == nullptr;
  if (scratch != nullptr) ExFreePoolWithTag(scratch, 'tatS');
  return whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
}
NTSTATUS NTAPI create_if_whole(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args) {
  return crippled ? STATUS_INVALID_PARAMETER : whole.DxgkDdiCreateAllocation(adapter, args);
}
/// Without memory the device is none of its own.
NTSTATUS NTAPI disown_device(const PDEVICE_OBJECT device, PVOID* context) {
  PVOID const scratch = ExAllocatePoolWithTag(NonPagedPoolNx, 100, 'ddA.');
  if (scratch == nullptr) {
    *context = nullptr;
    return STATUS_SUCCESS;
  }
  ExFreePoolWithTag(scratch, 'ddA.');
  return whole.DxgkDdiAddDevice(device, context);
}
KEVENT never_made;
NTSTATUS NTAPI set_what_is_no_event(const PVOID adapter, PDXGK_START_INFO start,
                                    PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  KeSetEvent(&never_made, 0, FALSE);
  return whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
}
NTSTATUS NTAPI make_no_allocations(IN_CONST_HANDLE, INOUT_PDXGKARG_CREATEALLOCATION) {
  return STATUS_NO_MEMORY;
}
/// As if every allocation were one row of a picture.
NTSTATUS NTAPI make_first_rows(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args) {
  const NTSTATUS status = whole.DxgkDdiCreateAllocation(adapter, args);
  for (UINT i = 0; NT_SUCCESS(status) && i < args->NumAllocations; ++i)
    args->pAllocationInfo[i].Size = 512;
  return status;
}
NTSTATUS NTAPI make_resources(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args) {
  const NTSTATUS status = whole.DxgkDdiCreateAllocation(adapter, args);
  if (NT_SUCCESS(status)) args->hResource = &crippled;
  return status;
}
/// A start that failed once fails for ever.
BOOLEAN failed_once;
NTSTATUS NTAPI fail_again(const PVOID adapter, PDXGK_START_INFO start, PDXGKRNL_INTERFACE interface,
                          PULONG sources, PULONG children) {
  if (failed_once) return STATUS_DEVICE_CONFIGURATION_ERROR;
  const NTSTATUS status = whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
  failed_once = !NT_SUCCESS(status);
  return status;
}
/// It believes that the first descriptor is memory.
NTSTATUS NTAPI believe_first_resource(const PVOID adapter, PDXGK_START_INFO start,
                                      PDXGKRNL_INTERFACE interface, PULONG sources,
                                      PULONG children) {
  DXGK_DEVICE_INFO info;
  RtlZeroMemory(&info, sizeof(info));
  const NTSTATUS status = interface->DxgkCbGetDeviceInformation(interface->DeviceHandle, &info);
  if (!NT_SUCCESS(status)) return status;
  if (info.TranslatedResourceList == nullptr ||
      info.TranslatedResourceList->List[0].PartialResourceList.PartialDescriptors[0].Type !=
          CmResourceTypeMemory) {
    return STATUS_DEVICE_CONFIGURATION_ERROR;
  }
  return whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
}
/// It reads a register of the device and believes whatever it says, if the vendor's id is `vendor`.
NTSTATUS start_anyway(const PVOID adapter, PDXGK_START_INFO start, PDXGKRNL_INTERFACE interface,
                      PULONG sources, PULONG children, USHORT vendor) {
  const NTSTATUS status = whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
  if (NT_SUCCESS(status)) return status;
  DXGK_DEVICE_INFO info;
  RtlZeroMemory(&info, sizeof(info));
  if (!NT_SUCCESS(interface->DxgkCbGetDeviceInformation(interface->DeviceHandle, &info)) ||
      info.TranslatedResourceList == nullptr) {
    return status;
  }
  USHORT id = 0;
  ULONG read = 0;
  if (!NT_SUCCESS(interface->DxgkCbReadDeviceSpace(interface->DeviceHandle, DXGK_WHICHSPACE_CONFIG,
                                                   &id, 0, sizeof(id), &read)) ||
      id != vendor) {
    return status;
  }
  PVOID registers = nullptr;
  const CM_PARTIAL_RESOURCE_DESCRIPTOR& first =
      info.TranslatedResourceList->List[0].PartialResourceList.PartialDescriptors[0];
  PHYSICAL_ADDRESS address;
  RtlCopyMemory(&address, &first.u.Memory.Start, sizeof(address));
  if (!NT_SUCCESS(interface->DxgkCbMapMemory(interface->DeviceHandle, address, PAGE_SIZE, FALSE,
                                             FALSE, MmNonCached, &registers))) {
    return status;
  }
  static_cast<void>(READ_REGISTER_ULONG(static_cast<volatile ULONG*>(registers)));
  static_cast<void>(interface->DxgkCbUnmapMemory(interface->DeviceHandle, registers));
  *sources = *children = 0;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI start_without_device(const PVOID adapter, PDXGK_START_INFO start,
                                    PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  return start_anyway(adapter, start, interface, sources, children, 0xFFFF);
}
NTSTATUS NTAPI start_without_registers(const PVOID adapter, PDXGK_START_INFO start,
                                       PDXGKRNL_INTERFACE interface, PULONG sources,
                                       PULONG children) {
  return start_anyway(adapter, start, interface, sources, children, 0x5347);
}
/// Memory is given back as if it were of another kind.
void free_otherwise() {
  PHYSICAL_ADDRESS lowest;
  PHYSICAL_ADDRESS highest;
  lowest.QuadPart = 0;
  highest.QuadPart = -1;
  PVOID const memory =
      MmAllocateContiguousMemorySpecifyCache(PAGE_SIZE, lowest, highest, lowest, MmCached);
  if (memory != nullptr) MmFreeContiguousMemorySpecifyCache(memory, PAGE_SIZE, MmNonCached);
}
NTSTATUS NTAPI free_more(const PVOID adapter) {
  free_otherwise();
  return whole.DxgkDdiStopDevice(adapter);
}
NTSTATUS NTAPI unmap_nothing(const PVOID adapter, PDXGK_START_INFO start,
                             PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  const NTSTATUS status = whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
  if (!NT_SUCCESS(status))
    static_cast<void>(interface->DxgkCbUnmapMemory(interface->DeviceHandle, nullptr));
  return status;
}

/// Registers that were never mapped.
NTSTATUS NTAPI read_no_registers(const PVOID adapter, PDXGK_START_INFO start,
                                 PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  PUCHAR volatile registers = nullptr;
  static_cast<void>(READ_REGISTER_ULONG(reinterpret_cast<volatile ULONG*>(registers + 0x40)));
  return whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
}

/// The DPC of a timer was never initialised.
KTIMER watch;
KDPC watch_dpc;
NTSTATUS NTAPI watch_with_nothing(const PVOID adapter, PDXGK_START_INFO start,
                                  PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  KeInitializeTimer(&watch);
  LARGE_INTEGER due;
  due.QuadPart = -1;
  KeSetTimer(&watch, due, &watch_dpc);
  return whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
}

}  // namespace
