// The softgpu miniport with a fault, for tests of the tool's messages to a driver's author. The
// registry value "Mutant" of the driver's key chooses the fault; without it the driver has none.
// The rest of the driver is compiled with DxgkInitialize renamed to the function below.
#undef DxgkInitialize
#include <dispmprt.h>
#include <ntddk.h>

#include "miniports/softgpu/softgpu_umd.h"

namespace {

DRIVER_INITIALIZATION_DATA whole;  // the entries as the driver set them

// --- start ---
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

/// Registers that were never mapped.
NTSTATUS NTAPI read_no_registers(const PVOID adapter, PDXGK_START_INFO start,
                                 PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  PUCHAR volatile registers = nullptr;
  static_cast<void>(READ_REGISTER_ULONG(reinterpret_cast<volatile ULONG*>(registers + 0x40)));
  return whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
}

// --- queries ---
LONG query_count;
NTSTATUS NTAPI change_caps(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  if (args->Type == DXGKQAITYPE_DRIVERCAPS && ++query_count > 1)
    static_cast<DXGK_DRIVERCAPS*>(args->pOutputData)->MaxOverlays += 1;
  return status;
}

// --- objects ---
NTSTATUS NTAPI keep_device(IN_CONST_HANDLE) { return STATUS_SUCCESS; }
KSPIN_LOCK kept_lock;
NTSTATUS NTAPI keep_lock(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEDEVICE args) {
  KeInitializeSpinLock(&kept_lock);
  KIRQL old;
  KeRaiseIrql(DISPATCH_LEVEL, &old);
  KeAcquireSpinLockAtDpcLevel(&kept_lock);
  KeLowerIrql(old);
  return whole.DxgkDdiCreateDevice(adapter, args);
}

// --- memory ---
NTSTATUS NTAPI transfer_nothing(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation == DXGK_OPERATION_TRANSFER) return STATUS_SUCCESS;
  return whole.DxgkDdiBuildPagingBuffer(adapter, args);
}
NTSTATUS NTAPI fill_half(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation == DXGK_OPERATION_FILL && args->Fill.FillSize > 2 * PAGE_SIZE)
    args->Fill.FillSize -= PAGE_SIZE;
  return whole.DxgkDdiBuildPagingBuffer(adapter, args);
}

// --- work ---
NTSTATUS NTAPI fail_patch(IN_CONST_HANDLE, IN_CONST_PDXGKARG_PATCH) { return STATUS_UNSUCCESSFUL; }
NTSTATUS NTAPI trust_user_mode(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  // The first four bytes of the command as an offset, unchecked.
  ULONG offset = 0;
  RtlCopyMemory(&offset, args->pCommand, args->CommandLength < 4 ? args->CommandLength : 4);
  static_cast<volatile UCHAR*>(args->pDmaBuffer)[offset] = 0;
  return whole.DxgkDdiRender(context, args);
}
NTSTATUS NTAPI fill_otherwise(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  // Another pattern than the client's: the commands run to completion and have another effect.
  auto* const bytes = static_cast<UCHAR*>(const_cast<PVOID>(args->pCommand));
  for (ULONG at = sizeof(SgpuUmdBufferHeader);
       args->MultipassOffset == 0 && at + sizeof(SgpuUmdFill) <= args->CommandLength;) {
    auto* const fill = reinterpret_cast<SgpuUmdFill*>(bytes + at);
    if (fill->header.opcode == SGPU_UMD_OP_FILL) fill->pattern ^= 1;
    if (fill->header.size_bytes < sizeof(SgpuUmdCommand)) break;
    at += fill->header.size_bytes;
  }
  return whole.DxgkDdiRender(context, args);
}
NTSTATUS NTAPI ignore_preemption(IN_CONST_HANDLE, IN_CONST_PDXGKARG_PREEMPTCOMMAND) {
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI spin_in_render(IN_CONST_HANDLE, INOUT_PDXGKARG_RENDER) {
  for (volatile ULONG rounds = 0;; rounds = rounds + 1) {
  }
}

// --- reset, power, end ---
NTSTATUS NTAPI fail_reset(IN_CONST_HANDLE) { return STATUS_UNSUCCESSFUL; }
NTSTATUS NTAPI fail_power(const PVOID, ULONG, DEVICE_POWER_STATE, POWER_ACTION) {
  return STATUS_DEVICE_BUSY;
}
KEVENT never_set;
NTSTATUS NTAPI wait_in_stop(const PVOID adapter) {
  const NTSTATUS status = whole.DxgkDdiStopDevice(adapter);
  KeInitializeEvent(&never_set, NotificationEvent, FALSE);
  KeWaitForSingleObject(&never_set, Executive, KernelMode, FALSE, nullptr);
  return status;
}
NTSTATUS NTAPI leak_at_remove(const PVOID adapter) {
  static_cast<void>(ExAllocatePoolWithTag(NonPagedPoolNx, 100, 'kaeL'));
  return whole.DxgkDdiRemoveDevice(adapter);
}

/// The mutant's name is `text`, `characters` long.
bool is(const WCHAR* name, ULONG characters, const char* text) {
  for (ULONG i = 0; i < characters; ++i) {
    if (text[i] == 0 || name[i] != static_cast<WCHAR>(text[i])) return false;
  }
  return text[characters] == 0;
}

void break_one(const WCHAR* name, ULONG characters, PDRIVER_INITIALIZATION_DATA data) {
  const auto chosen = [&](const char* text) { return is(name, characters, text); };
  if (chosen("start_fails")) data->DxgkDdiStartDevice = fail_start;
  if (chosen("start_error_leaks")) data->DxgkDdiStartDevice = leak_when_start_fails;
  if (chosen("start_error_ignored")) data->DxgkDdiStartDevice = believe_device_information;
  if (chosen("registers_lost")) data->DxgkDdiStartDevice = read_no_registers;
  if (chosen("lock_kept")) data->DxgkDdiCreateDevice = keep_lock;
  if (chosen("stop_waits")) data->DxgkDdiStopDevice = wait_in_stop;
  if (chosen("caps_change")) data->DxgkDdiQueryAdapterInfo = change_caps;
  if (chosen("devices_leak")) data->DxgkDdiDestroyDevice = keep_device;
  if (chosen("transfers_nothing")) data->DxgkDdiBuildPagingBuffer = transfer_nothing;
  if (chosen("fills_half")) data->DxgkDdiBuildPagingBuffer = fill_half;
  if (chosen("patch_fails")) data->DxgkDdiPatch = fail_patch;
  if (chosen("render_trusts")) data->DxgkDdiRender = trust_user_mode;
  if (chosen("render_spins")) data->DxgkDdiRender = spin_in_render;
  if (chosen("fills_otherwise")) data->DxgkDdiRender = fill_otherwise;
  if (chosen("preempt_silent")) data->DxgkDdiPreemptCommand = ignore_preemption;
  if (chosen("reset_fails")) data->DxgkDdiResetFromTimeout = fail_reset;
  if (chosen("power_fails")) data->DxgkDdiSetPowerState = fail_power;
  if (chosen("pool_leaks")) data->DxgkDdiRemoveDevice = leak_at_remove;
  if (chosen("entry_missing")) data->DxgkDdiBuildPagingBuffer = nullptr;
  if (chosen("entry_faults")) *reinterpret_cast<volatile int*>(8) = 1;
}

}  // namespace

extern "C" NTSTATUS NTAPI mutant_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path,
                                            PDRIVER_INITIALIZATION_DATA data) {
  whole = *data;
  OBJECT_ATTRIBUTES attributes;
  InitializeObjectAttributes(&attributes, registry_path, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE,
                             nullptr, nullptr);
  HANDLE key = nullptr;
  if (NT_SUCCESS(ZwOpenKey(&key, KEY_READ, &attributes))) {
    WCHAR value_name[] = {'M', 'u', 't', 'a', 'n', 't', 0};
    UNICODE_STRING name;
    RtlInitUnicodeString(&name, value_name);
    struct {
      KEY_VALUE_PARTIAL_INFORMATION information;
      WCHAR text[32];
    } value;
    ULONG size = 0;
    if (NT_SUCCESS(ZwQueryValueKey(key, &name, KeyValuePartialInformation, &value, sizeof(value),
                                   &size)) &&
        value.information.DataLength >= sizeof(WCHAR)) {
      const auto* text = reinterpret_cast<const WCHAR*>(value.information.Data);
      break_one(text, value.information.DataLength / sizeof(WCHAR) - 1, data);
    }
    ZwClose(key);
  }
  return DxgkInitialize(driver, registry_path, data);
}
