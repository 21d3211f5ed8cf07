// The softgpu miniport, which does not start, or starts in few machines. The registry value
// "Refuses" of the driver's key is the number of the entry that refuses. Before it does so, it asks
// for more memory than a machine has, and prints that it got none: tests look for both in the
// tool's texts.
#undef DxgkInitialize
#include <dispmprt.h>
#include <ntddk.h>

namespace {

enum Refusal : ULONG {
  kNone = 0,
  kDriverEntry = 1,
  kAddDevice = 2,
  kStartDevice = 3,
  kQueryAdapterInfo = 4,
  kCreateContext = 5,
  kNotMine = 6,    // AddDevice says that the device is another driver's; no finding comes of it
  kCountsAll = 7,  // StartDevice makes more calls than are kept
  kWantsMuch = 8,  // StartDevice needs 128 MiB in one piece, and goes on if it gets them
  kWantsFour = 9,  // StartDevice needs four processors, and goes on if it sees them
  kForeign = 10,   // it starts, and no client here knows its user mode
};

DRIVER_INITIALIZATION_DATA whole;

constexpr SIZE_T kTooMuch = SIZE_T{1} << 40, kMuch = SIZE_T{128} << 20;
constexpr ULONG kTag = 'ytpE', kProcessors = 4;

NTSTATUS refuse(NTSTATUS status) {
  PHYSICAL_ADDRESS highest;
  highest.QuadPart = -1;
  PVOID const memory = MmAllocateContiguousMemory(kTooMuch, highest);
  DbgPrintEx(0, 0, "refused: memory %p, status %x\n", memory, status);
  return status;
}

NTSTATUS NTAPI refuse_add(IN_CONST_PDEVICE_OBJECT, PVOID*) {
  return refuse(STATUS_INSUFFICIENT_RESOURCES);
}
NTSTATUS NTAPI refuse_foreign(IN_CONST_PDEVICE_OBJECT, PVOID*) {
  return refuse(STATUS_NOT_SUPPORTED);
}
NTSTATUS NTAPI refuse_start(IN_CONST_PVOID, PDXGK_START_INFO, PDXGKRNL_INTERFACE interface, PULONG,
                            PULONG) {
  DXGK_DEVICE_INFO info;
  interface->DxgkCbGetDeviceInformation(interface->DeviceHandle, &info);
  return refuse(STATUS_UNSUCCESSFUL);
}
NTSTATUS NTAPI refuse_query(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  if (args->Type == DXGKQAITYPE_QUERYSEGMENT3) return refuse(STATUS_NO_MEMORY);
  return whole.DxgkDdiQueryAdapterInfo(adapter, args);
}
NTSTATUS NTAPI refuse_private(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  if (args->Type == DXGKQAITYPE_UMDRIVERPRIVATE) return STATUS_NOT_SUPPORTED;
  return whole.DxgkDdiQueryAdapterInfo(adapter, args);
}
NTSTATUS NTAPI refuse_context(IN_CONST_HANDLE, INOUT_PDXGKARG_CREATECONTEXT) {
  return refuse(STATUS_NO_MEMORY);
}
NTSTATUS NTAPI refuse_at_last(IN_CONST_PVOID, PDXGK_START_INFO, PDXGKRNL_INTERFACE, PULONG,
                              PULONG) {
  constexpr ULONG kSizesAskedFor = 30;
  for (ULONG bytes = 1; bytes <= kSizesAskedFor; ++bytes) {
    if (PVOID const memory = ExAllocatePoolWithTag(NonPagedPoolNx, bytes, kTag))
      ExFreePoolWithTag(memory, kTag);
  }
  return refuse(STATUS_UNSUCCESSFUL);
}
NTSTATUS NTAPI start_with_much(IN_CONST_PVOID adapter, PDXGK_START_INFO start,
                               PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  PHYSICAL_ADDRESS highest;
  highest.QuadPart = -1;
  PVOID const memory = MmAllocateContiguousMemory(kMuch, highest);
  if (memory == nullptr) return STATUS_NO_MEMORY;
  MmFreeContiguousMemory(memory);
  return whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
}
NTSTATUS NTAPI start_with_four(IN_CONST_PVOID adapter, PDXGK_START_INFO start,
                               PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  const ULONG seen = KeQueryActiveProcessorCount(nullptr);
  DbgPrintEx(0, 0, "%u processors\n", seen);
  if (seen != kProcessors) return STATUS_UNSUCCESSFUL;
  return whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
}

void take(ULONG refusal, PDRIVER_INITIALIZATION_DATA data) {
  if (refusal == kAddDevice) data->DxgkDdiAddDevice = refuse_add;
  if (refusal == kNotMine) data->DxgkDdiAddDevice = refuse_foreign;
  if (refusal == kStartDevice) data->DxgkDdiStartDevice = refuse_start;
  if (refusal == kCountsAll) data->DxgkDdiStartDevice = refuse_at_last;
  if (refusal == kWantsMuch) data->DxgkDdiStartDevice = start_with_much;
  if (refusal == kWantsFour) data->DxgkDdiStartDevice = start_with_four;
  if (refusal == kQueryAdapterInfo) data->DxgkDdiQueryAdapterInfo = refuse_query;
  if (refusal == kForeign) data->DxgkDdiQueryAdapterInfo = refuse_private;
  if (refusal == kCreateContext) data->DxgkDdiCreateContext = refuse_context;
}

ULONG read_refusal(PUNICODE_STRING registry_path) {
  OBJECT_ATTRIBUTES attributes;
  InitializeObjectAttributes(&attributes, registry_path, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE,
                             nullptr, nullptr);
  HANDLE key = nullptr;
  if (!NT_SUCCESS(ZwOpenKey(&key, KEY_READ, &attributes))) return kNone;
  WCHAR value_name[] = {'R', 'e', 'f', 'u', 's', 'e', 's', 0};
  UNICODE_STRING name;
  RtlInitUnicodeString(&name, value_name);
  struct {
    KEY_VALUE_PARTIAL_INFORMATION information;
    ULONG room;
  } value;
  ULONG size = 0, refusal = kNone;
  if (NT_SUCCESS(
          ZwQueryValueKey(key, &name, KeyValuePartialInformation, &value, sizeof(value), &size)) &&
      value.information.DataLength == sizeof(refusal))
    refusal = *reinterpret_cast<const ULONG*>(value.information.Data);
  ZwClose(key);
  return refusal;
}

}  // namespace

extern "C" NTSTATUS NTAPI refusing_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path,
                                              PDRIVER_INITIALIZATION_DATA data) {
  whole = *data;
  const ULONG refusal = read_refusal(registry_path);
  if (refusal == kDriverEntry) return refuse(STATUS_UNSUCCESSFUL);
  take(refusal, data);
  return DxgkInitialize(driver, registry_path, data);
}
