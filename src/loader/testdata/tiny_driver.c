// The smallest thing a loader can be tried on: functions, an import, a kernel variable, a pointer
// that needs relocating.
#include <ntddk.h>

static int counter = 40;
int* const pointer_to_counter = &counter;

int answer(void) { return *pointer_to_counter + 2; }

ULONG tag_of_allocation(void) {
  void* memory = ExAllocatePoolWithTag(NonPagedPoolNx, 64, 0x74736554);
  if (memory == 0) return 0;
  ExFreePoolWithTag(memory, 0x74736554);
  return 0x74736554;
}

BOOLEAN debugger_not_present(void) { return KD_DEBUGGER_NOT_PRESENT; }

NTSTATUS DriverEntry(PDRIVER_OBJECT object, PUNICODE_STRING path) {
  (void)object;
  return path->Length == 0 ? STATUS_INVALID_PARAMETER : STATUS_UNSUCCESSFUL;
}
