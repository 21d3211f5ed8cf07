// What goes wrong between a driver and the executive: faults, levels, waits, what it leaves behind.
#include "tests/mutants/mutants.h"

extern "C" NTSTATUS NTAPI KeDoWhatNoKernelDoes(ULONG);

namespace mutants {
namespace {

using AtStart = void (*)();
AtStart at_start;
NTSTATUS NTAPI start_after(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                           IN_PDXGKRNL_INTERFACE table, OUT_PULONG sources, OUT_PULONG children) {
  at_start();
  return original.DxgkDdiStartDevice(context, info, table, sources, children);
}
template <typename Harm>
void with_start(DRIVER_INITIALIZATION_DATA* table, Harm harm) {
  at_start = harm;
  table->DxgkDdiStartDevice = start_after;
}

// --- faults ---

void reads_null(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] { (void)*reinterpret_cast<volatile ULONG*>(ULONG_PTR{0x18}); });
}
void calls_null(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] {
    void(NTAPI* volatile nothing)() = nullptr;
    nothing();
  });
}
void divides_by_zero(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] {
    volatile ULONG zero = 0;
    volatile ULONG result = 1;
    asm volatile("xor %%edx, %%edx\n\tdivl %1"
                 : "+a"(*const_cast<ULONG*>(&result))
                 : "r"(zero)
                 : "edx");
  });
}
void raises_status(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] { ExRaiseStatus(STATUS_INSUFFICIENT_RESOURCES); });
}
void fails_fast(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] { asm volatile("int $0x29" : : "c"(3)); });
}
void breaks_assertion(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] { asm volatile("int $0x2c"); });
}
void stops_for_debugger(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] { asm volatile("int3"); });
}
void masks_interrupts(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] { asm volatile("hlt"); });
}
void checks_bug(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] { KeBugCheckEx(0xD00D, 1, 2, 3, 4); });
}
void calls_unknown_import(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] { (void)KeDoWhatNoKernelDoes(1); });
}

[[gnu::noinline]] ULONG sink(volatile UCHAR* bytes) { return bytes[0]; }
[[gnu::noinline]] ULONG deeper(ULONG depth) {
  volatile UCHAR frame[512];
  frame[0] = static_cast<UCHAR>(depth);
  const ULONG below = depth == 0 ? 0 : deeper(depth - 1);
  return below + sink(frame);
}
void recurses_to_the_guard(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] { (void)deeper(1000); });
}

NTSTATUS entry_faults(PDRIVER_OBJECT, PUNICODE_STRING, DRIVER_INITIALIZATION_DATA*) {
  *reinterpret_cast<volatile ULONG*>(ULONG_PTR{0xFFFF800000000040}) = 1;
  return STATUS_SUCCESS;
}
NTSTATUS entry_spins(PDRIVER_OBJECT, PUNICODE_STRING, DRIVER_INITIALIZATION_DATA*) {
  volatile ULONG turns = 0;
  for (;;) turns = turns + 1;
}
NTSTATUS entry_waits_for_ever(PDRIVER_OBJECT, PUNICODE_STRING, DRIVER_INITIALIZATION_DATA*) {
  KEVENT never;
  KeInitializeEvent(&never, NotificationEvent, FALSE);
  return KeWaitForSingleObject(&never, Executive, KernelMode, FALSE, nullptr);
}

// --- levels and locks ---

void allocates_paged_at_dispatch(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] {
    KIRQL old = 0;
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    PVOID block = ExAllocatePoolWithTag(PagedPool, 64, 0x31676154);
    KeLowerIrql(old);
    if (block != nullptr) ExFreePoolWithTag(block, 0x31676154);
  });
}
void waits_at_dispatch(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] {
    KEVENT event;
    KeInitializeEvent(&event, NotificationEvent, TRUE);
    KIRQL old = 0;
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    (void)KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, nullptr);
    KeLowerIrql(old);
  });
}
KSPIN_LOCK lock;
void acquires_lock_twice(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] {
    KeInitializeSpinLock(&lock);
    const KIRQL old = KeAcquireSpinLockRaiseToDpc(&lock);
    KeAcquireSpinLockAtDpcLevel(&lock);
    KeReleaseSpinLock(&lock, old);
  });
}
void releases_free_lock(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] {
    KIRQL old = 0;
    KeInitializeSpinLock(&lock);
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    KeReleaseSpinLockFromDpcLevel(&lock);
    KeLowerIrql(old);
  });
}

// --- what stays behind ---

void leaks_pool(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] {
    for (ULONG i = 0; i < 3; ++i) (void)ExAllocatePoolWithTag(NonPagedPoolNx, 100, 0x6B61654C);
  });
}
void leaks_contiguous(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] {
    PHYSICAL_ADDRESS highest;
    highest.QuadPart = -1;
    (void)MmAllocateContiguousMemory(8192, highest);
  });
}
KTIMER timer;
KDPC dpc;
void NTAPI on_timer(PKDPC, PVOID, PVOID, PVOID) {}
void unloads_with_timer(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] {
    KeInitializeTimer(&timer);
    KeInitializeDpc(&dpc, on_timer, nullptr);
    LARGE_INTEGER due;
    due.QuadPart = -36'000'000'000;  // in an hour
    KeSetTimer(&timer, due, &dpc);
  });
}
KEVENT stop_thread;
void NTAPI thread_body(PVOID) {
  (void)KeWaitForSingleObject(&stop_thread, Executive, KernelMode, FALSE, nullptr);
  PsTerminateSystemThread(STATUS_SUCCESS);
}
void unloads_with_thread(DRIVER_INITIALIZATION_DATA* table) {
  with_start(table, [] {
    KeInitializeEvent(&stop_thread, NotificationEvent, FALSE);
    HANDLE handle = nullptr;
    if (NT_SUCCESS(
            PsCreateSystemThread(&handle, 0, nullptr, nullptr, nullptr, thread_body, nullptr)))
      ZwClose(handle);
  });
}

}  // namespace

const Mutant kExecutiveMutants[] = {
    {"reads_null", reads_null, nullptr},
    {"calls_null", calls_null, nullptr},
    {"divides_by_zero", divides_by_zero, nullptr},
    {"raises_status", raises_status, nullptr},
    {"fails_fast", fails_fast, nullptr},
    {"breaks_assertion", breaks_assertion, nullptr},
    {"stops_for_debugger", stops_for_debugger, nullptr},
    {"masks_interrupts", masks_interrupts, nullptr},
    {"checks_bug", checks_bug, nullptr},
    {"calls_unknown_import", calls_unknown_import, nullptr},
    {"recurses_to_the_guard", recurses_to_the_guard, nullptr},
    {"entry_faults", nullptr, entry_faults},
    {"entry_spins", nullptr, entry_spins},
    {"entry_waits_for_ever", nullptr, entry_waits_for_ever},
    {"allocates_paged_at_dispatch", allocates_paged_at_dispatch, nullptr},
    {"waits_at_dispatch", waits_at_dispatch, nullptr},
    {"acquires_lock_twice", acquires_lock_twice, nullptr},
    {"releases_free_lock", releases_free_lock, nullptr},
    {"leaks_pool", leaks_pool, nullptr},
    {"leaks_contiguous", leaks_contiguous, nullptr},
    {"unloads_with_timer", unloads_with_timer, nullptr},
    {"unloads_with_thread", unloads_with_thread, nullptr},
    {nullptr, nullptr, nullptr},
};

}  // namespace mutants
