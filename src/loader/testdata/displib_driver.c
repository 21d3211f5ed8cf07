// Calls the display library and nothing else.
#include <dispmprt.h>
#include <ntddk.h>

NTSTATUS DriverEntry(PDRIVER_OBJECT object, PUNICODE_STRING path) {
  if (path == 0) return DxgkUnInitialize(object);
  if (path->Length == 0)
    return DxgkInitializeDisplayOnlyDriver(object, path, (PKMDDOD_INITIALIZATION_DATA)object);
  return DxgkInitialize(object, path, (PDRIVER_INITIALIZATION_DATA)object);
}
