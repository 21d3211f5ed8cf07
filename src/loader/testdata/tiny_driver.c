// The smallest thing a loader can be tried on: functions, an import, a kernel variable, a pointer
// that needs relocating, a stack cookie, a call through a pointer.
#include <ntddk.h>

#if defined(__ELF__)
#define EXPORTED
#else
#define EXPORTED __declspec(dllexport)
#endif

static int counter = 40;
EXPORTED int* const pointer_to_counter = &counter;

EXPORTED int answer(void) { return *pointer_to_counter + 2; }
// Only the file's own symbol table has its name.
static __attribute__((noinline)) int hidden(void) { return *pointer_to_counter - 2; }
EXPORTED int (*address_of_hidden(void))(void) { return hidden; }

EXPORTED ULONG tag_of_allocation(void) {
  void* memory = ExAllocatePoolWithTag(NonPagedPoolNx, 64, 0x74736554);
  if (memory == 0) return 0;
  ExFreePoolWithTag(memory, 0x74736554);
  return 0x74736554;
}

EXPORTED BOOLEAN debugger_not_present(void) { return KD_DEBUGGER_NOT_PRESENT; }

#if !defined(__ELF__)
extern ULONG_PTR __security_cookie;
EXPORTED ULONG_PTR cookie(void) { return __security_cookie; }

/* The compiler guards this frame: on return the cookie on the stack is compared. */
EXPORTED int sum_of_guarded(int size) {
  volatile char bytes[64];
  int sum = 0;
  for (int i = 0; i < size && i < 64; ++i) bytes[i] = (char)i;
  for (int i = 0; i < size && i < 64; ++i) sum += bytes[i];
  return sum;
}

/* What control flow guard makes of a call through a pointer: the target is in rax. */
extern void (*const volatile __guard_dispatch_icall_fptr)(void);
EXPORTED int call_guarded(void) {
  int result = 0;
  __asm__ volatile("leaq answer(%%rip), %%rax\n\tcallq *__guard_dispatch_icall_fptr(%%rip)"
                   : "=a"(result)
                   :
                   : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
  return result;
}
#endif

NTSTATUS DriverEntry(PDRIVER_OBJECT object, PUNICODE_STRING path) {
  (void)object;
  return path->Length == 0 ? STATUS_INVALID_PARAMETER : STATUS_UNSUCCESSFUL;
}
