// What the door tests run as driver code: each function is called by name.
#include <ntddk.h>

// Bound by the test to host functions, through doors.
ULONG64 HostSum(ULONG64 a, ULONG64 b, ULONG64 c, ULONG64 d, ULONG64 e, ULONG64 f, ULONG64 g,
                ULONG64 h, ULONG64 i, ULONG64 j, ULONG64 k, ULONG64 l);
ULONG64 HostStack(ULONG64 (*routine)(ULONG64), ULONG64 argument);
double HostScale(double value, double factor);
void HostPrint(char* out, ULONG64 size, const char* format, ...);
NTSTATUS NoSuchRoutine(int);

static KEVENT event;

#define EXPORTED __declspec(dllexport)

NTSTATUS DriverEntry(PDRIVER_OBJECT object, PUNICODE_STRING path) {
  (void)object, (void)path;
  return STATUS_SUCCESS;
}

/// Where this function's locals lie.
EXPORTED ULONG64 StackPointer(ULONG64 argument) {
  volatile ULONG64 local = argument;
  volatile ULONG64 address = (ULONG64)(ULONG_PTR)&local;
  return address;
}

EXPORTED ULONG64 ManyArguments(ULONG64 a, ULONG64 b, ULONG64 c, ULONG64 d, ULONG64 e, ULONG64 f,
                               ULONG64 g) {
  return HostSum(a, b, c, d, e, f, g, 8, 9, 10, 11, 12) * 2;
}

/// Values that live in kept registers, integer and vector, over many calls.
EXPORTED ULONG64 KeepsRegisters(ULONG64 seed) {
  ULONG64 i, a = seed, b = seed * 3, c = seed * 5, d = seed * 7, e = seed * 11, f = seed * 13;
  double v = 1.5, w = 2.5, x = 3.5, y = 4.5;
  for (i = 0; i < 10; ++i) {
    a += HostSum(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
    v = HostScale(v, 1.0) + w;
    b += a;
    c ^= b;
    d += c;
    e ^= d;
    f += e;
    x += y + v;
  }
  return a + b + c + d + e + f + (ULONG64)v + (ULONG64)x;
}

/// The host calls `routine` back while this function waits in the door.
EXPORTED ULONG64 Nested(ULONG64 argument) { return HostStack(StackPointer, argument); }

static ULONG64 DieInside(ULONG64 argument) {
  KeBugCheckEx(0xDEAD, argument, 0, 0, 0);
  return 0;
}
EXPORTED ULONG64 NestedDeath(ULONG64 argument) { return HostStack(DieInside, argument); }

EXPORTED ULONG64 Print(ULONG64 out) {
  HostPrint((char*)(ULONG_PTR)out, 64, "%d %d %d %d %d %d %d", 1, 2, 3, 4, 5, 6, 7);
  return 0;
}

EXPORTED __declspec(noinline) ULONG64 AllocateTooHigh(ULONG64 tag) {
  KIRQL old;
  void* block;
  KeRaiseIrql(5, &old);
  block = ExAllocatePoolWithTag(512, 16, (ULONG)tag);
  KeLowerIrql(old);
  if (block != 0) ExFreePoolWithTag(block, (ULONG)tag);
  return 0;
}

EXPORTED ULONG64 CallTheUnknown(ULONG64 argument) { return (ULONG64)NoSuchRoutine((int)argument); }

/// Writes `offset` bytes behind the start of a block of 24 bytes, then frees it.
EXPORTED __declspec(noinline) ULONG64 WriteAt(ULONG64 offset) {
  volatile UCHAR* block = ExAllocatePoolWithTag(512, 24, 'looP');
  block[(LONG64)offset] = 1;
  ExFreePoolWithTag((void*)block, 'looP');
  return 0;
}
EXPORTED __declspec(noinline) ULONG64 ReadAfterFree(ULONG64 offset) {
  volatile UCHAR* block = ExAllocatePoolWithTag(512, 24, 'looP');
  ExFreePoolWithTag((void*)block, 'looP');
  return block[(LONG64)offset];
}
EXPORTED ULONG64 FreeTwice(ULONG64 unused) {
  void* block = ExAllocatePoolWithTag(512, 24, 'looP');
  (void)unused;
  ExFreePoolWithTag(block, 'looP');
  ExFreePool(block);
  return 0;
}
EXPORTED ULONG64 Leak(ULONG64 damage) {
  volatile UCHAR* block = ExAllocatePoolWithTag(512, 24, 'looP');
  ExAllocatePoolWithTag(1, 5000, 'looP');
  if (damage != 0) block[25] = 1;
  return 0;
}
struct Queued {
  ULONG64 before[3];
  KTIMER timer;
  KDPC dpc;
};
static void NothingDpc(PKDPC object, PVOID context, PVOID a, PVOID b) {
  (void)object, (void)context, (void)a, (void)b;
}
/// Frees memory with a queued timer (0) or DPC (1) in it; 2: leaves the timer queued.
EXPORTED ULONG64 FreeQueued(ULONG64 what) {
  struct Queued* queued = ExAllocatePoolWithTag(512, sizeof(*queued), 'looP');
  LARGE_INTEGER due;
  KIRQL old;
  due.QuadPart = -100000000;
  KeInitializeDpc(&queued->dpc, NothingDpc, 0);
  KeInitializeTimer(&queued->timer);
  KeRaiseIrql(2, &old);
  if (what == 1) {
    KeInsertQueueDpc(&queued->dpc, 0, 0);
  } else {
    KeSetTimer(&queued->timer, due, &queued->dpc);
  }
  if (what != 2) ExFreePool(queued);
  KeLowerIrql(old);
  return 0;
}

/// Does not come back: 0 computes, 1 waits, 2 sleeps again and again, 3 stalls.
EXPORTED ULONG64 Hang(ULONG64 how) {
  LARGE_INTEGER interval;
  volatile ULONG64 count = 0;
  interval.QuadPart = -10000;
  KeInitializeEvent(&event, SynchronizationEvent, FALSE);
  for (;;) {
    if (how == 1) KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, 0);
    if (how == 2) KeDelayExecutionThread(KernelMode, FALSE, &interval);
    if (how == 3) KeStallExecutionProcessor(50);
    ++count;
  }
}

/// So many stalls of 50 microseconds.
EXPORTED ULONG64 Stall(ULONG64 times) {
  for (ULONG64 i = 0; i < times; ++i) KeStallExecutionProcessor(50);
  return times;
}

/// Each level takes more than 256 bytes.
EXPORTED __declspec(noinline) ULONG64 Recurse(ULONG64 depth) {
  volatile UCHAR buffer[256];
  buffer[depth & 255] = (UCHAR)depth;
  if (depth == 0) return buffer[0];
  return Recurse(depth - 1) + buffer[depth & 255];
}

EXPORTED ULONG64 Nothing(ULONG64 argument) { return argument; }

static KDPC dpc;
static KTIMER timer;
static ULONG64 dpc_stack, thread_stack;
static void DpcRoutine(PKDPC object, PVOID context, PVOID a, PVOID b) {
  (void)object, (void)context, (void)a, (void)b;
  dpc_stack = StackPointer(0);
  KeSetEvent(&event, 0, FALSE);
}
static void ThreadRoutine(PVOID context) {
  thread_stack = StackPointer(0);
  KeSetEvent((PRKEVENT)context, 0, FALSE);
  PsTerminateSystemThread(STATUS_SUCCESS);
}
/// Fills out[0] with the stack of a DPC of a timer, out[1] with that of a system thread.
EXPORTED ULONG64 OtherThreads(ULONG64 out) {
  LARGE_INTEGER due;
  HANDLE thread;
  due.QuadPart = -10;
  KeInitializeEvent(&event, SynchronizationEvent, FALSE);
  KeInitializeDpc(&dpc, DpcRoutine, 0);
  KeInitializeTimer(&timer);
  KeSetTimer(&timer, due, &dpc);
  KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, 0);
  PsCreateSystemThread(&thread, 0, 0, 0, 0, ThreadRoutine, &event);
  KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, 0);
  ZwClose(thread);
  ((ULONG64*)(ULONG_PTR)out)[0] = dpc_stack;
  ((ULONG64*)(ULONG_PTR)out)[1] = thread_stack;
  return StackPointer(0);
}

/// Calls whatever the test points at.
EXPORTED ULONG64 CallPointer(ULONG64 pointer) { return ((ULONG64(*)(void))(ULONG_PTR)pointer)(); }

/// Calls a routine of the kernel with a pointer to where no memory is.
EXPORTED __declspec(noinline) ULONG64 PassBadPointer(ULONG64 how) {
  UCHAR bytes[64];
  UNICODE_STRING text;
  volatile ULONG64 size = sizeof(bytes);
  KIRQL old;
  LARGE_INTEGER now;
  now.QuadPart = 0;
  memset(bytes, 0, sizeof(bytes));
  switch (how) {
    case 0:
      return READ_REGISTER_ULONG((volatile ULONG*)(ULONG_PTR)0x10);
    case 1:
      WRITE_REGISTER_ULONG((volatile ULONG*)(ULONG_PTR)0x20, 1);
      break;
    case 2:
      memcpy((void*)(ULONG_PTR)0x30, bytes, size);
      break;
    case 3:
      memset((void*)(ULONG_PTR)0x40, 0, size);
      break;
    case 4:
      KeSetEvent((PRKEVENT)(ULONG_PTR)0x50, 0, FALSE);
      break;
    case 5:
      return (ULONG64)KeWaitForSingleObject((void*)(ULONG_PTR)0x60, Executive, KernelMode, FALSE,
                                            &now);
    case 6:
      text.Length = text.MaximumLength = 16;
      text.Buffer = (PWCH)(ULONG_PTR)0x70000000000;
      return RtlEqualUnicodeString(&text, &text, TRUE);
    case 7:
      WRITE_REGISTER_ULONG((volatile ULONG*)(ULONG_PTR)0xDDDDDDDDDDDDDDD0, 1);
      break;
    default:
      KeRaiseIrql(2, &old);
      WRITE_REGISTER_ULONG((volatile ULONG*)(ULONG_PTR)0x80, 1);
      KeLowerIrql(old);
      break;
  }
  return 0;
}

static KSPIN_LOCK spin_lock;
/// Returns with the spin lock held, at the level it was called at.
EXPORTED __declspec(noinline) ULONG64 KeepSpinLock(ULONG64 argument) {
  KIRQL old;
  KeInitializeSpinLock(&spin_lock);
  KeRaiseIrql(2, &old);
  KeAcquireSpinLockAtDpcLevel(&spin_lock);
  KeLowerIrql(old);
  return argument;
}
/// Acquires what KeepSpinLock left, and releases it.
EXPORTED ULONG64 UseSpinLock(ULONG64 argument) {
  KIRQL old = KeAcquireSpinLockRaiseToDpc(&spin_lock);
  KeReleaseSpinLock(&spin_lock, old);
  return argument;
}
static void SpinLockThread(PVOID context) {
  (void)context;
  UseSpinLock(0);
  PsTerminateSystemThread(STATUS_SUCCESS);
}
static void KeepingThread(PVOID context) {
  KIRQL old;
  KeAcquireSpinLock(&spin_lock, &old);
  KeLowerIrql(old);
  KeInitializeEvent(&event, NotificationEvent, FALSE);
  KeSetEvent((PRKEVENT)context, 0, FALSE);
  KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, 0);
  PsTerminateSystemThread(STATUS_SUCCESS);
}
/// 0: waits for the end of a thread that waits for an event; 1: for the spin lock which that thread
/// keeps; 2: starts a thread that waits for the lock, and returns.
EXPORTED ULONG64 WaitForThread(ULONG64 how) {
  KEVENT kept;
  HANDLE handle;
  PVOID thread;
  if (how == 2) {
    PsCreateSystemThread(&handle, 0, 0, 0, 0, SpinLockThread, 0);
    return 0;
  }
  KeInitializeSpinLock(&spin_lock);
  KeInitializeEvent(&kept, SynchronizationEvent, FALSE);
  PsCreateSystemThread(&handle, 0, 0, 0, 0, KeepingThread, &kept);
  KeWaitForSingleObject(&kept, Executive, KernelMode, FALSE, 0);
  if (how == 1) return UseSpinLock(0);
  ObReferenceObjectByHandle(handle, 0, 0, KernelMode, &thread, 0);
  KeWaitForSingleObject(thread, Executive, KernelMode, FALSE, 0);
  return 0;
}
