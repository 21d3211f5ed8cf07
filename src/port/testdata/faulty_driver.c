// A driver that dies in DriverEntry, in the way FAULT says.
#include <ntddk.h>

NTSTATUS NoSuchKernelFunction(int);

NTSTATUS DriverEntry(PDRIVER_OBJECT object, PUNICODE_STRING path) {
  (void)object;
  (void)path;
#if FAULT == 1
  *(volatile int*)(ULONG_PTR)0x10 = 1;  // a store of its own
#elif FAULT == 2
  memcpy((void*)(ULONG_PTR)0x20, path, path->Length);  // in a function it was lent
#elif FAULT == 3
  return NoSuchKernelFunction(1);
#endif
  return STATUS_UNSUCCESSFUL;
}
