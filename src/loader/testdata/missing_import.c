// A driver that imports what no kernel exports.
#include <ntddk.h>

NTSTATUS NoSuchKernelFunction(int);

NTSTATUS DriverEntry(PDRIVER_OBJECT object, PUNICODE_STRING path) {
  (void)object;
  (void)path;
  return NoSuchKernelFunction(1);
}
