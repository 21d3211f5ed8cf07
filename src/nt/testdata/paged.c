// A driver with pageable parts: pool, code and data.
#include <ntddk.h>

#define EXPORTED __declspec(dllexport)
#ifdef _WIN32
#define PAGED_CODE_SECTION __attribute__((section("PAGE")))
#else
#define PAGED_CODE_SECTION
#endif

NTSTATUS DriverEntry(PDRIVER_OBJECT object, PUNICODE_STRING path) {
  (void)object, (void)path;
  return STATUS_SUCCESS;
}

static volatile UCHAR* block;
static ULONG64 block_bytes;
static KSPIN_LOCK lock;

EXPORTED ULONG64 TakePaged(ULONG64 bytes) {
  block = (volatile UCHAR*)ExAllocatePoolWithTag(PagedPool, bytes, 0x67615054);
  block_bytes = bytes;
  return (ULONG64)(ULONG_PTR)block;
}
EXPORTED ULONG64 FreePaged(ULONG64 nothing) {
  ExFreePoolWithTag((PVOID)block, 0x67615054);
  return nothing;
}
/// Writes all of it and reads it back.
EXPORTED ULONG64 SumPaged(ULONG64 value) {
  ULONG64 sum = 0, i;
  for (i = 0; i < block_bytes; ++i) block[i] = (UCHAR)value;
  for (i = 0; i < block_bytes; ++i) sum += block[i];
  return sum;
}
EXPORTED ULONG64 SumPagedUnderLock(ULONG64 value) {
  KIRQL old;
  ULONG64 sum;
  old = KeAcquireSpinLockRaiseToDpc(&lock);
  sum = SumPaged(value);
  KeReleaseSpinLock(&lock, old);
  return sum;
}

typedef ULONG64 (*ANSWER)(VOID);
/// Copies a function that answers 42 to `at` and calls it.
__attribute__((noinline)) static ULONG64 run_at(volatile UCHAR* at) {
  static const UCHAR code[] = {0xB8, 42, 0, 0, 0, 0xC3};  // mov eax, 42; ret
  ULONG64 i;
  for (i = 0; i < sizeof code; ++i) at[i] = code[i];
  const ULONG64 answer = ((ANSWER)(ULONG_PTR)at)();
  return answer + 1;
}
static ULONG64 run_in_block(PVOID memory) {
  ULONG64 answer;
  if (memory == NULL) return 0;
  answer = run_at((volatile UCHAR*)memory);
  answer = run_at((volatile UCHAR*)memory + 16);
  ExFreePoolWithTag(memory, 0x65646F43);
  return answer;
}
EXPORTED ULONG64 RunInPool(ULONG64 type) {
  return run_in_block(ExAllocatePoolWithTag((POOL_TYPE)(type & 0xFFFF), type >> 16, 0x65646F43));
}
EXPORTED ULONG64 RunInPool2(ULONG64 flags) {
  return run_in_block(ExAllocatePool2(flags, 100, 0x65646F43));
}
EXPORTED ULONG64 RunInContiguous(ULONG64 bytes) {
  PHYSICAL_ADDRESS highest;
  ULONG64 answer;
  highest.QuadPart = -1;
  PVOID memory = MmAllocateContiguousMemory(bytes, highest);
  if (memory == NULL) return 0;
  answer = run_at((volatile UCHAR*)memory + bytes - 16);
  MmFreeContiguousMemory(memory);
  return answer;
}
EXPORTED ULONG64 RunOnStack(ULONG64 nothing) {
  UCHAR code[64];
  return run_at(code) + nothing;
}
/// Keeps so many handles, and a reference to the object of each.
EXPORTED ULONG64 KeepHandles(ULONG64 count) {
  ULONG64 kept = 0;
  while (kept < count) {
    HANDLE handle = NULL;
    PVOID object = NULL;
    if (IoCreateNotificationEvent(NULL, &handle) == NULL) break;
    if (!NT_SUCCESS(ObReferenceObjectByHandle(handle, 0, NULL, KernelMode, &object, NULL))) break;
    ++kept;
  }
  return kept;
}
/// Code in executable memory that reads address 0.
EXPORTED ULONG64 FaultInPool(ULONG64 nothing) {
  static const UCHAR code[] = {0x31, 0xC0, 0x8A, 0x00, 0xC3};  // xor eax, eax; mov al, [rax]; ret
  volatile UCHAR* const memory =
      (volatile UCHAR*)ExAllocatePoolWithTag(NonPagedPoolExecute, 64, 0x65646F43);
  ULONG64 i;
  for (i = 0; i < sizeof code; ++i) memory[i] = code[i];
  return ((ANSWER)(ULONG_PTR)memory)() + nothing;
}

PAGED_CODE_SECTION __attribute__((noinline)) static ULONG64 paged_square(ULONG64 value) {
  volatile ULONG64 copy = value;
  return copy * copy;
}
EXPORTED ULONG64 SquarePaged(ULONG64 value) { return paged_square(value); }
EXPORTED ULONG64 SquarePagedUnderLock(ULONG64 value) {
  KIRQL old;
  ULONG64 result;
  old = KeAcquireSpinLockRaiseToDpc(&lock);
  result = paged_square(value);
  KeReleaseSpinLock(&lock, old);
  return result;
}
/// The same with the section held.
EXPORTED ULONG64 SquareHeldUnderLock(ULONG64 value) {
  PVOID handle = MmLockPagableDataSection((PVOID)&paged_square);
  const ULONG64 result = SquarePagedUnderLock(value);
  MmUnlockPagableImageSection(handle);
  return result;
}
