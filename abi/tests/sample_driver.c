/* The smallest miniport that links: takes a lock, reads an exported variable, registers itself. */
/* initguid.h goes first, so that the headers after it define their GUIDs here. */
// clang-format off
#include <initguid.h>
#include <dispmprt.h>
// clang-format on

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath) {
  static DRIVER_INITIALIZATION_DATA data;
  KSPIN_LOCK lock;
  KIRQL old_irql;
  KeInitializeSpinLock(&lock);
  KeAcquireSpinLock(&lock, &old_irql);
  KeReleaseSpinLock(&lock, old_irql);
  if (IsEqualGUID(&GUID_DEVINTERFACE_I2C, &GUID_DEVINTERFACE_OPM)) return STATUS_NOT_SUPPORTED;
  if (*PsThreadType == 0) return STATUS_UNSUCCESSFUL;
  data.Version = DXGKDDI_INTERFACE_VERSION;
  return DxgkInitialize(DriverObject, RegistryPath, &data);
}
