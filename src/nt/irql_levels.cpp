// At which levels a driver may call each export: the table behind NT-07.
//
// What is not listed may be called at any level, or its page says nothing. A level that depends on
// the arguments (paged pool, waits) is listed with its loosest bound here; the function checks the
// rest.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "nt/kernel_impl.h"

namespace dxgkit::nt {
namespace {

struct Levels {
  std::string_view name;
  Irql max;
  Irql min = kPassiveLevel;
};

// Sorted by name.
constexpr Levels kLevels[] = {
    {"EtwRegister", kPassiveLevel},
    {"EtwUnregister", kPassiveLevel},
    {"ExAcquireFastMutex", kApcLevel},
    {"ExAcquireFastMutexUnsafe", kApcLevel},
    {"ExAcquireResourceExclusiveLite", kApcLevel},
    {"ExAcquireResourceSharedLite", kApcLevel},
    {"ExAllocatePool", kDispatchLevel},
    {"ExAllocatePool2", kDispatchLevel},
    {"ExAllocatePool3", kDispatchLevel},
    {"ExAllocatePoolWithTag", kDispatchLevel},
    {"ExAllocatePoolZero", kDispatchLevel},
    {"ExAllocateTimer", kDispatchLevel},
    {"ExCancelTimer", kDispatchLevel},
    {"ExDeleteNPagedLookasideList", kDispatchLevel},
    {"ExDeletePagedLookasideList", kApcLevel},
    {"ExDeleteResourceLite", kApcLevel},
    {"ExDeleteTimer", kDispatchLevel},
    {"ExFreePool", kDispatchLevel},
    {"ExFreePool2", kDispatchLevel},
    {"ExFreePoolWithTag", kDispatchLevel},
    {"ExInitializeFastMutex", kDispatchLevel},
    {"ExInitializeNPagedLookasideList", kDispatchLevel},
    {"ExInitializePagedLookasideList", kApcLevel},
    {"ExInitializeResourceLite", kDispatchLevel},
    {"ExQueueWorkItem", kDispatchLevel},
    {"ExReleaseFastMutex", kApcLevel},
    {"ExReleaseFastMutexUnsafe", kApcLevel},
    {"ExReleaseResourceLite", kDispatchLevel},
    {"ExSetTimer", kDispatchLevel},
    {"ExTryToAcquireFastMutex", kApcLevel},
    {"IoAllocateIrp", kDispatchLevel},
    {"IoAllocateMdl", kDispatchLevel},
    {"IoAllocateWorkItem", kDispatchLevel},
    {"IoBuildDeviceIoControlRequest", kPassiveLevel},
    {"IoCreateNotificationEvent", kPassiveLevel},
    {"IoCreateSynchronizationEvent", kPassiveLevel},
    {"IoFreeIrp", kDispatchLevel},
    {"IoFreeMdl", kDispatchLevel},
    {"IoFreeWorkItem", kDispatchLevel},
    {"IoGetDeviceObjectPointer", kPassiveLevel},
    {"IoGetDeviceProperty", kPassiveLevel},
    {"IoOpenDeviceRegistryKey", kPassiveLevel},
    {"IoQueueWorkItem", kDispatchLevel},
    {"IofCallDriver", kDispatchLevel},
    {"IofCompleteRequest", kDispatchLevel},
    {"KeAcquireInStackQueuedSpinLock", kDispatchLevel},
    {"KeAcquireInStackQueuedSpinLockAtDpcLevel", kHighLevel, kDispatchLevel},
    {"KeAcquireSpinLock", kDispatchLevel},
    {"KeAcquireSpinLockAtDpcLevel", kHighLevel, kDispatchLevel},
    {"KeAcquireSpinLockRaiseToDpc", kDispatchLevel},
    {"KeCancelTimer", kDispatchLevel},
    {"KeClearEvent", kDispatchLevel},
    {"KeDelayExecutionThread", kApcLevel},
    {"KeEnterCriticalRegion", kApcLevel},
    {"KeFlushQueuedDpcs", kPassiveLevel},
    {"KeInitializeTimer", kDispatchLevel},
    {"KeInitializeTimerEx", kDispatchLevel},
    {"KeLeaveCriticalRegion", kApcLevel},
    {"KeReadStateEvent", kDispatchLevel},
    {"KeReadStateTimer", kDispatchLevel},
    {"KeReleaseInStackQueuedSpinLock", kDispatchLevel, kDispatchLevel},
    {"KeReleaseMutex", kDispatchLevel},
    {"KeReleaseSemaphore", kDispatchLevel},
    {"KeReleaseSpinLockFromDpcLevel", kHighLevel, kDispatchLevel},
    {"KeResetEvent", kDispatchLevel},
    {"KeSetEvent", kDispatchLevel},
    {"KeSetPriorityThread", kPassiveLevel},
    {"KeSetTimer", kDispatchLevel},
    {"KeSetTimerEx", kDispatchLevel},
    {"KeTryToAcquireSpinLockAtDpcLevel", kHighLevel, kDispatchLevel},
    {"KeWaitForMultipleObjects", kDispatchLevel},
    {"KeWaitForSingleObject", kDispatchLevel},
    {"MmAllocateContiguousMemory", kDispatchLevel},
    {"MmAllocateContiguousMemorySpecifyCache", kDispatchLevel},
    {"MmAllocatePagesForMdl", kApcLevel},
    {"MmAllocatePagesForMdlEx", kApcLevel},
    {"MmBuildMdlForNonPagedPool", kDispatchLevel},
    {"MmFreeContiguousMemory", kDispatchLevel},
    {"MmFreeContiguousMemorySpecifyCache", kDispatchLevel},
    {"MmFreePagesFromMdl", kApcLevel},
    {"MmGetSystemRoutineAddress", kPassiveLevel},
    {"MmIsAddressValid", kDispatchLevel},
    {"MmMapIoSpace", kDispatchLevel},
    {"MmMapIoSpaceEx", kDispatchLevel},
    {"MmMapLockedPages", kDispatchLevel},
    {"MmMapLockedPagesSpecifyCache", kDispatchLevel},
    {"MmProbeAndLockPages", kDispatchLevel},
    {"MmUnlockPages", kDispatchLevel},
    {"MmUnmapIoSpace", kDispatchLevel},
    {"MmUnmapLockedPages", kDispatchLevel},
    {"ObReferenceObjectByHandle", kPassiveLevel},
    {"ObReferenceObjectByHandleWithTag", kPassiveLevel},
    {"ObfDereferenceObject", kDispatchLevel},
    {"ObfDereferenceObjectWithTag", kDispatchLevel},
    {"ObfReferenceObject", kDispatchLevel},
    {"ObfReferenceObjectWithTag", kDispatchLevel},
    {"PsCreateSystemThread", kPassiveLevel},
    {"PsTerminateSystemThread", kPassiveLevel},
    {"RtlAnsiStringToUnicodeString", kPassiveLevel},
    {"RtlFreeUnicodeString", kPassiveLevel},
    {"RtlIntegerToUnicodeString", kPassiveLevel},
    {"RtlQueryRegistryValues", kPassiveLevel},
    {"RtlUnicodeStringToAnsiString", kPassiveLevel},
    {"RtlWriteRegistryValue", kPassiveLevel},
    {"ZwClose", kPassiveLevel},
    {"ZwCreateFile", kPassiveLevel},
    {"ZwCreateKey", kPassiveLevel},
    {"ZwDeleteKey", kPassiveLevel},
    {"ZwDeleteValueKey", kPassiveLevel},
    {"ZwEnumerateKey", kPassiveLevel},
    {"ZwEnumerateValueKey", kPassiveLevel},
    {"ZwFlushKey", kPassiveLevel},
    {"ZwLoadDriver", kPassiveLevel},
    {"ZwOpenKey", kPassiveLevel},
    {"ZwQueryKey", kPassiveLevel},
    {"ZwQueryValueKey", kPassiveLevel},
    {"ZwReadFile", kPassiveLevel},
    {"ZwSetValueKey", kPassiveLevel},
    {"ZwUnloadDriver", kPassiveLevel},
    {"ZwWriteFile", kPassiveLevel},
};
static_assert(std::ranges::is_sorted(kLevels, {}, &Levels::name));

/// Assembly that works on the caller's registers or stack.
constexpr std::string_view kDirect[] = {"__C_specific_handler",
                                        "__chkstk",
                                        "_local_unwind",
                                        "_setjmp",
                                        "_setjmpex",
                                        "longjmp",
                                        "memcpy",
                                        "memmove",
                                        "memset"};

}  // namespace

void set_levels(Export& entry) {
  const auto found =
      std::ranges::lower_bound(kLevels, std::string_view(entry.name), {}, &Levels::name);
  if (found != std::end(kLevels) && found->name == entry.name) {
    entry.irql_max = found->max;
    entry.irql_min = found->min;
  }
  if (std::ranges::find(kDirect, std::string_view(entry.name)) != std::end(kDirect))
    entry.direct = true;
}

}  // namespace dxgkit::nt
