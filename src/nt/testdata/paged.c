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
