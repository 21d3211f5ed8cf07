/* nt_more.h: executive functions beyond nt_functions.h, and the helpers built on them.
 * A name declared here may be one the kernel side does not have: then the driver still compiles,
 * links and loads, and the call stops with a finding that names the import. Included by wdm.h.
 */
#ifndef DXGKIT_ABI_NT_MORE_H_
#define DXGKIT_ABI_NT_MORE_H_

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

/* Pool. */
PVOID NTAPI ExAllocatePoolWithQuotaTag(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);
PVOID NTAPI ExAllocatePoolWithTagPriority(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag,
                                          int Priority);
VOID NTAPI ExFreePool2(PVOID P, ULONG Tag, PVOID ExtendedParameters,
                       ULONG ExtendedParametersCount);
#if defined(DXGKIT_ABI_DRIVER)
#define ExAllocatePool(type, size) ExAllocatePoolWithTag(type, size, 0x20206F4E)
#define ExAllocatePoolWithQuota(type, size) ExAllocatePoolWithQuotaTag(type, size, 0x20206F4E)
#endif
#define POOL_QUOTA_FAIL_INSTEAD_OF_RAISE 8
#define POOL_RAISE_IF_ALLOCATION_FAILURE 16
#define POOL_NX_ALLOCATION 512
#define POOL_COLD_ALLOCATION 256

FORCEINLINE PVOID ExAllocatePoolZero(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag) {
  PVOID block = ExAllocatePoolWithTag(PoolType, NumberOfBytes, Tag);
  if (block) RtlZeroMemory(block, NumberOfBytes);
  return block;
}

FORCEINLINE PVOID ExAllocatePoolUninitialized(POOL_TYPE PoolType, SIZE_T NumberOfBytes,
                                              ULONG Tag) {
  return ExAllocatePoolWithTag(PoolType, NumberOfBytes, Tag);
}

#define DrvRtPoolNxOptIn 0x00000001
FORCEINLINE VOID ExInitializeDriverRuntime(ULONG RuntimeFlags) { (void)RuntimeFlags; }

/* Lookaside lists and interlocked lists. */
typedef PVOID NTAPI ALLOCATE_FUNCTION(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);
typedef ALLOCATE_FUNCTION* PALLOCATE_FUNCTION;
typedef VOID NTAPI FREE_FUNCTION(PVOID Buffer);
typedef FREE_FUNCTION* PFREE_FUNCTION;
VOID NTAPI ExInitializeNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside,
                                           PALLOCATE_FUNCTION Allocate, PFREE_FUNCTION Free,
                                           ULONG Flags, SIZE_T Size, ULONG Tag, USHORT Depth);
VOID NTAPI ExDeleteNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside);
PVOID NTAPI ExAllocateFromNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside);
VOID NTAPI ExFreeToNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside, PVOID Entry);
typedef NPAGED_LOOKASIDE_LIST PAGED_LOOKASIDE_LIST, *PPAGED_LOOKASIDE_LIST;
VOID NTAPI ExInitializePagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside,
                                          PALLOCATE_FUNCTION Allocate, PFREE_FUNCTION Free,
                                          ULONG Flags, SIZE_T Size, ULONG Tag, USHORT Depth);
VOID NTAPI ExDeletePagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside);
PVOID NTAPI ExAllocateFromPagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside);
VOID NTAPI ExFreeToPagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside, PVOID Entry);
PSLIST_ENTRY NTAPI ExpInterlockedPopEntrySList(PSLIST_HEADER ListHead);
PSLIST_ENTRY NTAPI ExpInterlockedPushEntrySList(PSLIST_HEADER ListHead, PSLIST_ENTRY ListEntry);
PSLIST_ENTRY NTAPI ExpInterlockedFlushSList(PSLIST_HEADER ListHead);
VOID NTAPI InitializeSListHead(PSLIST_HEADER SListHead);
USHORT NTAPI ExQueryDepthSList(PSLIST_HEADER SListHead);
#define InterlockedPopEntrySList ExpInterlockedPopEntrySList
#define InterlockedPushEntrySList ExpInterlockedPushEntrySList
#define InterlockedFlushSList ExpInterlockedFlushSList
#define ExInterlockedPopEntrySList(head, lock) ExpInterlockedPopEntrySList(head)
#define ExInterlockedPushEntrySList(head, entry, lock) ExpInterlockedPushEntrySList(head, entry)
#define ExInitializeSListHead InitializeSListHead

/* Memory. */
PVOID NTAPI MmAllocateContiguousNodeMemory(SIZE_T NumberOfBytes,
                                           PHYSICAL_ADDRESS LowestAcceptableAddress,
                                           PHYSICAL_ADDRESS HighestAcceptableAddress,
                                           PHYSICAL_ADDRESS BoundaryAddressMultiple, ULONG Protect,
                                           ULONG PreferredNode);
PVOID NTAPI MmAllocateNonCachedMemory(SIZE_T NumberOfBytes);
VOID NTAPI MmFreeNonCachedMemory(PVOID BaseAddress, SIZE_T NumberOfBytes);
PMDL NTAPI MmAllocatePagesForMdl(PHYSICAL_ADDRESS LowAddress, PHYSICAL_ADDRESS HighAddress,
                                 PHYSICAL_ADDRESS SkipBytes, SIZE_T TotalBytes);
PVOID NTAPI MmMapLockedPages(PMDL MemoryDescriptorList, KPROCESSOR_MODE AccessMode);
PVOID NTAPI MmAllocateMappingAddress(SIZE_T NumberOfBytes, ULONG PoolTag);
VOID NTAPI MmFreeMappingAddress(PVOID BaseAddress, ULONG PoolTag);
PVOID NTAPI MmGetVirtualForPhysical(PHYSICAL_ADDRESS PhysicalAddress);
PPHYSICAL_MEMORY_RANGE NTAPI MmGetPhysicalMemoryRanges(VOID);
SIZE_T NTAPI MmSizeOfMdl(PVOID Base, SIZE_T Length);
NTSTATUS NTAPI MmProtectMdlSystemAddress(PMDL MemoryDescriptorList, ULONG NewProtect);
NTSTATUS NTAPI MmProtectDriverSection(PVOID AddressWithinSection, SIZE_T Size, ULONG Flags);
PVOID NTAPI MmLockPagableDataSection(PVOID AddressWithinSection);
VOID NTAPI MmUnlockPagableImageSection(PVOID ImageSectionHandle);
PVOID NTAPI MmPageEntireDriver(PVOID AddressWithinSection);
NTSTATUS NTAPI MmCopyMemory(PVOID TargetAddress, PVOID SourceAddress, SIZE_T NumberOfBytes,
                            ULONG Flags, SIZE_T* NumberOfBytesTransferred);
int NTAPI MmIsThisAnNtAsSystem(VOID);
#define MmLockPagableCodeSection(address) MmLockPagableDataSection((PVOID)(address))
VOID NTAPI IoBuildPartialMdl(PMDL SourceMdl, PMDL TargetMdl, PVOID VirtualAddress, ULONG Length);
VOID NTAPI KeFlushIoBuffers(PMDL Mdl, BOOLEAN ReadOperation, BOOLEAN DmaOperation);
#define PAGE_NOACCESS 0x01
#define PAGE_WRITECOPY 0x08
#define PAGE_EXECUTE 0x10
#define PAGE_EXECUTE_READ 0x20
#define PAGE_EXECUTE_READWRITE 0x40
#define PAGE_GUARD 0x100
#define MM_DONT_ZERO_ALLOCATION 0x00000001
#define MM_ALLOCATE_FROM_LOCAL_NODE_ONLY 0x00000002
#define MM_ALLOCATE_FULLY_REQUIRED 0x00000004
#define MM_ALLOCATE_NO_WAIT 0x00000008
#define MM_ALLOCATE_PREFER_CONTIGUOUS 0x00000010
#define MM_ALLOCATE_REQUIRE_CONTIGUOUS_CHUNKS 0x00000020
#define MmGetProcedureAddress(address) (address)
#define MmLargePages 0
FORCEINLINE VOID MmPrepareMdlForReuse(PMDL Mdl) {
  if ((Mdl->MdlFlags & MDL_PARTIAL_HAS_BEEN_MAPPED) != 0) {
    MmUnmapLockedPages(Mdl->MappedSystemVa, Mdl);
  }
}
FORCEINLINE PVOID MmGetSystemAddressForMdl(PMDL Mdl) {
  return MmGetSystemAddressForMdlSafe(Mdl, HighPagePriority);
}
#define MmGetMdlBaseVa(mdl) ((mdl)->StartVa)
#define BYTES_TO_PAGES64(size) (((size) >> PAGE_SHIFT) + (((size) & (PAGE_SIZE - 1)) != 0))
#define COMPUTE_PAGES_SPANNED(address, size) ADDRESS_AND_SIZE_TO_SPAN_PAGES(address, size)

/* Work items. */
VOID NTAPI ExQueueWorkItem(PWORK_QUEUE_ITEM WorkItem, WORK_QUEUE_TYPE QueueType);
VOID NTAPI IoQueueWorkItem(PIO_WORKITEM IoWorkItem, PIO_WORKITEM_ROUTINE WorkerRoutine,
                           WORK_QUEUE_TYPE QueueType, PVOID Context);
VOID NTAPI IoQueueWorkItemEx(PIO_WORKITEM IoWorkItem, PIO_WORKITEM_ROUTINE_EX WorkerRoutine,
                             WORK_QUEUE_TYPE QueueType, PVOID Context);
VOID NTAPI IoInitializeWorkItem(PVOID IoObject, PIO_WORKITEM IoWorkItem);
VOID NTAPI IoUninitializeWorkItem(PIO_WORKITEM IoWorkItem);
ULONG NTAPI IoSizeofWorkItem(VOID);
FORCEINLINE VOID ExInitializeWorkItem(PWORK_QUEUE_ITEM Item, PWORKER_THREAD_ROUTINE Routine,
                                      PVOID Context) {
  Item->WorkerRoutine = Routine;
  Item->Parameter = Context;
  Item->List.Flink = 0;
}

/* Locks. */
VOID NTAPI KeAcquireInStackQueuedSpinLock(PKSPIN_LOCK SpinLock, PKLOCK_QUEUE_HANDLE LockHandle);
VOID NTAPI KeReleaseInStackQueuedSpinLock(PKLOCK_QUEUE_HANDLE LockHandle);
VOID NTAPI KeAcquireInStackQueuedSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock,
                                                    PKLOCK_QUEUE_HANDLE LockHandle);
VOID NTAPI KeReleaseInStackQueuedSpinLockFromDpcLevel(PKLOCK_QUEUE_HANDLE LockHandle);
BOOLEAN NTAPI KeTryToAcquireSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock);
BOOLEAN NTAPI KeTestSpinLock(PKSPIN_LOCK SpinLock);
KIRQL NTAPI KeAcquireSpinLockForDpc(PKSPIN_LOCK SpinLock);
VOID NTAPI KeReleaseSpinLockForDpc(PKSPIN_LOCK SpinLock, KIRQL OldIrql);
BOOLEAN NTAPI ExTryToAcquireFastMutex(PFAST_MUTEX FastMutex);
VOID NTAPI ExAcquireFastMutexUnsafe(PFAST_MUTEX FastMutex);
VOID NTAPI ExReleaseFastMutexUnsafe(PFAST_MUTEX FastMutex);
VOID NTAPI KeInitializeGuardedMutex(PKGUARDED_MUTEX Mutex);
VOID NTAPI KeAcquireGuardedMutex(PKGUARDED_MUTEX Mutex);
VOID NTAPI KeReleaseGuardedMutex(PKGUARDED_MUTEX Mutex);
BOOLEAN NTAPI KeTryToAcquireGuardedMutex(PKGUARDED_MUTEX Mutex);
VOID NTAPI KeEnterGuardedRegion(VOID);
VOID NTAPI KeLeaveGuardedRegion(VOID);
NTSTATUS NTAPI ExInitializeResourceLite(PERESOURCE Resource);
NTSTATUS NTAPI ExDeleteResourceLite(PERESOURCE Resource);
BOOLEAN NTAPI ExAcquireResourceExclusiveLite(PERESOURCE Resource, BOOLEAN Wait);
BOOLEAN NTAPI ExAcquireResourceSharedLite(PERESOURCE Resource, BOOLEAN Wait);
VOID NTAPI ExReleaseResourceLite(PERESOURCE Resource);
BOOLEAN NTAPI ExIsResourceAcquiredExclusiveLite(PERESOURCE Resource);
ULONG NTAPI ExIsResourceAcquiredSharedLite(PERESOURCE Resource);
PVOID NTAPI ExEnterCriticalRegionAndAcquireResourceExclusive(PERESOURCE Resource);
PVOID NTAPI ExEnterCriticalRegionAndAcquireResourceShared(PERESOURCE Resource);
VOID NTAPI ExReleaseResourceAndLeaveCriticalRegion(PERESOURCE Resource);
VOID NTAPI ExInitializePushLock(PEX_PUSH_LOCK PushLock);
VOID NTAPI ExAcquirePushLockExclusiveEx(PEX_PUSH_LOCK PushLock, ULONG Flags);
VOID NTAPI ExAcquirePushLockSharedEx(PEX_PUSH_LOCK PushLock, ULONG Flags);
VOID NTAPI ExReleasePushLockExclusiveEx(PEX_PUSH_LOCK PushLock, ULONG Flags);
VOID NTAPI ExReleasePushLockSharedEx(PEX_PUSH_LOCK PushLock, ULONG Flags);
#define ExAcquirePushLockExclusive(lock) ExAcquirePushLockExclusiveEx(lock, 0)
#define ExAcquirePushLockShared(lock) ExAcquirePushLockSharedEx(lock, 0)
#define ExReleasePushLockExclusive(lock) ExReleasePushLockExclusiveEx(lock, 0)
#define ExReleasePushLockShared(lock) ExReleasePushLockSharedEx(lock, 0)
KIRQL NTAPI ExAcquireSpinLockExclusive(PEX_SPIN_LOCK SpinLock);
VOID NTAPI ExReleaseSpinLockExclusive(PEX_SPIN_LOCK SpinLock, KIRQL OldIrql);
KIRQL NTAPI ExAcquireSpinLockShared(PEX_SPIN_LOCK SpinLock);
VOID NTAPI ExReleaseSpinLockShared(PEX_SPIN_LOCK SpinLock, KIRQL OldIrql);
VOID NTAPI ExInitializeRundownProtection(PEX_RUNDOWN_REF RunRef);
BOOLEAN NTAPI ExAcquireRundownProtection(PEX_RUNDOWN_REF RunRef);
VOID NTAPI ExReleaseRundownProtection(PEX_RUNDOWN_REF RunRef);
VOID NTAPI ExWaitForRundownProtectionRelease(PEX_RUNDOWN_REF RunRef);
VOID NTAPI ExRundownCompleted(PEX_RUNDOWN_REF RunRef);
LONG NTAPI KeReadStateSemaphore(PRKSEMAPHORE Semaphore);
LONG NTAPI KeReadStateMutex(PRKMUTEX Mutex);
BOOLEAN NTAPI KeReadStateTimer(PKTIMER Timer);
LONG NTAPI KePulseEvent(PRKEVENT Event, KPRIORITY Increment, BOOLEAN Wait);
BOOLEAN NTAPI KeSynchronizeExecution(PKINTERRUPT Interrupt,
                                     PKSYNCHRONIZE_ROUTINE SynchronizeRoutine,
                                     PVOID SynchronizeContext);
KIRQL NTAPI KeAcquireInterruptSpinLock(PKINTERRUPT Interrupt);
VOID NTAPI KeReleaseInterruptSpinLock(PKINTERRUPT Interrupt, KIRQL OldIrql);
BOOLEAN NTAPI KeAreApcsDisabled(VOID);
BOOLEAN NTAPI KeAreAllApcsDisabled(VOID);
#define KeWaitForMutexObject KeWaitForSingleObject
KIRQL NTAPI KeRaiseIrqlToDpcLevel(VOID);

/* Processors, time, threads. */
ULONG NTAPI KeGetCurrentProcessorNumberEx(PPROCESSOR_NUMBER ProcNumber);
ULONG NTAPI KeQueryActiveProcessorCount(PKAFFINITY ActiveProcessors);
ULONG NTAPI KeQueryActiveProcessorCountEx(USHORT GroupNumber);
ULONG NTAPI KeQueryMaximumProcessorCount(VOID);
ULONG NTAPI KeQueryMaximumProcessorCountEx(USHORT GroupNumber);
KAFFINITY NTAPI KeQueryActiveProcessors(VOID);
VOID NTAPI KeSetSystemAffinityThread(KAFFINITY Affinity);
KAFFINITY NTAPI KeSetSystemAffinityThreadEx(KAFFINITY Affinity);
VOID NTAPI KeRevertToUserAffinityThread(VOID);
VOID NTAPI KeRevertToUserAffinityThreadEx(KAFFINITY Affinity);
ULONGLONG NTAPI KeQueryUnbiasedInterruptTime(VOID);
ULONGLONG NTAPI KeQueryInterruptTimePrecise(PULONG64 QpcTimeStamp);
VOID NTAPI KeQuerySystemTimePrecise(PLARGE_INTEGER CurrentTime);
VOID NTAPI ExSystemTimeToLocalTime(PLARGE_INTEGER SystemTime, PLARGE_INTEGER LocalTime);
VOID NTAPI RtlTimeToTimeFields(PLARGE_INTEGER Time, PTIME_FIELDS TimeFields);
BOOLEAN NTAPI RtlTimeFieldsToTime(PTIME_FIELDS TimeFields, PLARGE_INTEGER Time);
ULONG NTAPI ExSetTimerResolution(ULONG DesiredTime, BOOLEAN SetResolution);
KPRIORITY NTAPI KeQueryPriorityThread(PKTHREAD Thread);
LONG NTAPI KeSetBasePriorityThread(PKTHREAD Thread, LONG Increment);
PETHREAD NTAPI PsGetCurrentThread(VOID);
HANDLE NTAPI PsGetProcessId(PEPROCESS Process);
HANDLE NTAPI PsGetThreadId(PETHREAD Thread);
PEPROCESS NTAPI IoGetCurrentProcess(VOID);
PEPROCESS NTAPI PsGetThreadProcess(PETHREAD Thread);
BOOLEAN NTAPI PsIsSystemThread(PETHREAD Thread);
BOOLEAN NTAPI PsGetVersion(PULONG MajorVersion, PULONG MinorVersion, PULONG BuildNumber,
                           PUNICODE_STRING CSDVersion);
NTSTATUS NTAPI PsLookupProcessByProcessId(HANDLE ProcessId, PEPROCESS* Process);
KPROCESSOR_MODE NTAPI ExGetPreviousMode(VOID);
VOID NTAPI KeStackAttachProcess(PRKPROCESS Process, PVOID ApcState);
VOID NTAPI KeUnstackDetachProcess(PVOID ApcState);
NTSTATUS NTAPI KeExpandKernelStackAndCallout(PVOID Callout, PVOID Parameter, SIZE_T Size);
VOID NTAPI KeFlushQueuedDpcs(VOID);
BOOLEAN NTAPI KeRegisterBugCheckCallback(PKBUGCHECK_CALLBACK_RECORD CallbackRecord,
                                         PKBUGCHECK_CALLBACK_ROUTINE CallbackRoutine, PVOID Buffer,
                                         ULONG Length, PUCHAR Component);
BOOLEAN NTAPI KeDeregisterBugCheckCallback(PKBUGCHECK_CALLBACK_RECORD CallbackRecord);
NTSTATUS NTAPI KeSaveExtendedProcessorState(ULONG64 Mask, PXSTATE_SAVE XStateSave);
VOID NTAPI KeRestoreExtendedProcessorState(PXSTATE_SAVE XStateSave);
#define KeInitializeCallbackRecord(record) ((record)->State = BufferEmpty)
#define KeGetCurrentProcessorNumber() KeGetCurrentProcessorNumberEx(0)
#define KeGetCurrentProcessorIndex() KeGetCurrentProcessorNumberEx(0)
FORCEINLINE NTSTATUS KeSaveFloatingPointState(PKFLOATING_SAVE FloatSave) {
  (void)FloatSave;
  return STATUS_SUCCESS;
}
FORCEINLINE NTSTATUS KeRestoreFloatingPointState(PKFLOATING_SAVE FloatSave) {
  (void)FloatSave;
  return STATUS_SUCCESS;
}
/* In ticks of KeQueryTimeIncrement. */
#define KeQueryTickCount(count) \
  (*(ULONGLONG*)(count) = KeQueryInterruptTime() / KeQueryTimeIncrement())

/* Objects, handles, files. */
NTSTATUS NTAPI ObReferenceObjectByPointer(PVOID Object, ACCESS_MASK DesiredAccess,
                                          POBJECT_TYPE ObjectType, KPROCESSOR_MODE AccessMode);
NTSTATUS NTAPI ObOpenObjectByPointer(PVOID Object, ULONG HandleAttributes, PVOID PassedAccessState,
                                     ACCESS_MASK DesiredAccess, POBJECT_TYPE ObjectType,
                                     KPROCESSOR_MODE AccessMode, PHANDLE Handle);
VOID NTAPI ObMakeTemporaryObject(PVOID Object);
#define ObReferenceObjectWithTag ObfReferenceObjectWithTag
#define ObDereferenceObjectWithTag ObfDereferenceObjectWithTag
#define ObDereferenceObjectDeferDelete ObfDereferenceObject
NTSTATUS NTAPI ZwReadFile(HANDLE FileHandle, HANDLE Event, PVOID ApcRoutine, PVOID ApcContext,
                          PIO_STATUS_BLOCK IoStatusBlock, PVOID Buffer, ULONG Length,
                          PLARGE_INTEGER ByteOffset, PULONG Key);
NTSTATUS NTAPI ZwWriteFile(HANDLE FileHandle, HANDLE Event, PVOID ApcRoutine, PVOID ApcContext,
                           PIO_STATUS_BLOCK IoStatusBlock, PVOID Buffer, ULONG Length,
                           PLARGE_INTEGER ByteOffset, PULONG Key);
NTSTATUS NTAPI ZwOpenFile(PHANDLE FileHandle, ACCESS_MASK DesiredAccess,
                          POBJECT_ATTRIBUTES ObjectAttributes, PIO_STATUS_BLOCK IoStatusBlock,
                          ULONG ShareAccess, ULONG OpenOptions);
NTSTATUS NTAPI ZwDeleteKey(HANDLE KeyHandle);
NTSTATUS NTAPI ZwDeleteValueKey(HANDLE KeyHandle, PUNICODE_STRING ValueName);
NTSTATUS NTAPI ZwEnumerateKey(HANDLE KeyHandle, ULONG Index,
                              KEY_INFORMATION_CLASS KeyInformationClass, PVOID KeyInformation,
                              ULONG Length, PULONG ResultLength);
NTSTATUS NTAPI ZwEnumerateValueKey(HANDLE KeyHandle, ULONG Index,
                                   KEY_VALUE_INFORMATION_CLASS KeyValueInformationClass,
                                   PVOID KeyValueInformation, ULONG Length, PULONG ResultLength);
NTSTATUS NTAPI ZwQueryKey(HANDLE KeyHandle, KEY_INFORMATION_CLASS KeyInformationClass,
                          PVOID KeyInformation, ULONG Length, PULONG ResultLength);
NTSTATUS NTAPI ZwMapViewOfSection(HANDLE SectionHandle, HANDLE ProcessHandle, PVOID* BaseAddress,
                                  ULONG_PTR ZeroBits, SIZE_T CommitSize,
                                  PLARGE_INTEGER SectionOffset, PSIZE_T ViewSize,
                                  int InheritDisposition, ULONG AllocationType,
                                  ULONG Win32Protect);
NTSTATUS NTAPI ZwUnmapViewOfSection(HANDLE ProcessHandle, PVOID BaseAddress);
NTSTATUS NTAPI ZwOpenSection(PHANDLE SectionHandle, ACCESS_MASK DesiredAccess,
                             POBJECT_ATTRIBUTES ObjectAttributes);
NTSTATUS NTAPI ZwSetEvent(HANDLE EventHandle, PLONG PreviousState);
NTSTATUS NTAPI ZwCreateEvent(PHANDLE EventHandle, ACCESS_MASK DesiredAccess,
                             POBJECT_ATTRIBUTES ObjectAttributes, EVENT_TYPE EventType,
                             BOOLEAN InitialState);
NTSTATUS NTAPI ZwWaitForSingleObject(HANDLE Handle, BOOLEAN Alertable, PLARGE_INTEGER Timeout);
NTSTATUS NTAPI ZwAllocateVirtualMemory(HANDLE ProcessHandle, PVOID* BaseAddress,
                                       ULONG_PTR ZeroBits, PSIZE_T RegionSize,
                                       ULONG AllocationType, ULONG Protect);
NTSTATUS NTAPI ZwFreeVirtualMemory(HANDLE ProcessHandle, PVOID* BaseAddress, PSIZE_T RegionSize,
                                   ULONG FreeType);
#define NtCurrentProcess() ((HANDLE)(LONG_PTR)-1)
#define ZwCurrentProcess() NtCurrentProcess()
#define NtCurrentThread() ((HANDLE)(LONG_PTR)-2)
#define ZwCurrentThread() NtCurrentThread()
NTSTATUS NTAPI RtlQueryRegistryValues(ULONG RelativeTo, PCWSTR Path,
                                      PRTL_QUERY_REGISTRY_TABLE QueryTable, PVOID Context,
                                      PVOID Environment);
NTSTATUS NTAPI RtlQueryRegistryValuesEx(ULONG RelativeTo, PCWSTR Path,
                                        PRTL_QUERY_REGISTRY_TABLE QueryTable, PVOID Context,
                                        PVOID Environment);
NTSTATUS NTAPI RtlWriteRegistryValue(ULONG RelativeTo, PCWSTR Path, PCWSTR ValueName,
                                     ULONG ValueType, PVOID ValueData, ULONG ValueLength);
NTSTATUS NTAPI RtlCheckRegistryKey(ULONG RelativeTo, PWSTR Path);
NTSTATUS NTAPI RtlCreateRegistryKey(ULONG RelativeTo, PWSTR Path);
NTSTATUS NTAPI RtlDeleteRegistryValue(ULONG RelativeTo, PCWSTR Path, PCWSTR ValueName);

/* Scatter-gather lists and bus-master adapters. */
typedef struct _SCATTER_GATHER_ELEMENT {
  PHYSICAL_ADDRESS Address;
  ULONG Length;
  ULONG_PTR Reserved;
} SCATTER_GATHER_ELEMENT, *PSCATTER_GATHER_ELEMENT;
typedef struct _SCATTER_GATHER_LIST {
  ULONG NumberOfElements;
  ULONG_PTR Reserved;
#if defined(__cplusplus) || !defined(DXGKIT_ABI_NATIVE)
  __extension__ SCATTER_GATHER_ELEMENT Elements[];
#else
  SCATTER_GATHER_ELEMENT Elements[];
#endif
} SCATTER_GATHER_LIST, *PSCATTER_GATHER_LIST;
typedef struct _DEVICE_DESCRIPTION {
  ULONG Version;
  BOOLEAN Master;
  BOOLEAN ScatterGather;
  BOOLEAN DemandMode;
  BOOLEAN AutoInitialize;
  BOOLEAN Dma32BitAddresses;
  BOOLEAN IgnoreCount;
  BOOLEAN Reserved1;
  BOOLEAN Dma64BitAddresses;
  ULONG BusNumber;
  ULONG DmaChannel;
  INTERFACE_TYPE InterfaceType;
  ULONG DmaWidth;
  ULONG DmaSpeed;
  ULONG MaximumLength;
  ULONG DmaPort;
} DEVICE_DESCRIPTION, *PDEVICE_DESCRIPTION;
#define DEVICE_DESCRIPTION_VERSION 0
#define DEVICE_DESCRIPTION_VERSION1 1
#define DEVICE_DESCRIPTION_VERSION2 2
struct _DMA_ADAPTER* NTAPI IoGetDmaAdapter(PDEVICE_OBJECT PhysicalDeviceObject,
                                           PDEVICE_DESCRIPTION DeviceDescription,
                                           PULONG NumberOfMapRegisters);

/* Devices and requests. */
NTSTATUS NTAPI IoCreateDevice(PDRIVER_OBJECT DriverObject, ULONG DeviceExtensionSize,
                              PUNICODE_STRING DeviceName, ULONG DeviceType,
                              ULONG DeviceCharacteristics, BOOLEAN Exclusive,
                              PDEVICE_OBJECT* DeviceObject);
VOID NTAPI IoDeleteDevice(PDEVICE_OBJECT DeviceObject);
NTSTATUS NTAPI IoCreateSymbolicLink(PUNICODE_STRING SymbolicLinkName, PUNICODE_STRING DeviceName);
NTSTATUS NTAPI IoDeleteSymbolicLink(PUNICODE_STRING SymbolicLinkName);
NTSTATUS NTAPI IoRegisterDeviceInterface(PDEVICE_OBJECT PhysicalDeviceObject,
                                         const GUID* InterfaceClassGuid,
                                         PUNICODE_STRING ReferenceString,
                                         PUNICODE_STRING SymbolicLinkName);
NTSTATUS NTAPI IoSetDeviceInterfaceState(PUNICODE_STRING SymbolicLinkName, BOOLEAN Enable);
NTSTATUS NTAPI IoGetDeviceInterfaces(const GUID* InterfaceClassGuid,
                                     PDEVICE_OBJECT PhysicalDeviceObject, ULONG Flags,
                                     PWSTR* SymbolicLinkList);
PDEVICE_OBJECT NTAPI IoAttachDeviceToDeviceStack(PDEVICE_OBJECT SourceDevice,
                                                 PDEVICE_OBJECT TargetDevice);
VOID NTAPI IoDetachDevice(PDEVICE_OBJECT TargetDevice);
PDEVICE_OBJECT NTAPI IoGetAttachedDeviceReference(PDEVICE_OBJECT DeviceObject);
VOID NTAPI IofCompleteRequest(PIRP Irp, CHAR PriorityBoost);
#define IoCompleteRequest(irp, boost) IofCompleteRequest(irp, boost)
PIRP NTAPI IoAllocateIrp(CHAR StackSize, BOOLEAN ChargeQuota);
VOID NTAPI IoFreeIrp(PIRP Irp);
BOOLEAN NTAPI IoCancelIrp(PIRP Irp);
VOID NTAPI IoReuseIrp(PIRP Irp, NTSTATUS Iostatus);
NTSTATUS NTAPI IoReportTargetDeviceChangeAsynchronous(PDEVICE_OBJECT PhysicalDeviceObject,
                                                      PVOID NotificationStructure, PVOID Callback,
                                                      PVOID Context);
VOID NTAPI IoInvalidateDeviceRelations(PDEVICE_OBJECT DeviceObject, int Type);
VOID NTAPI IoInvalidateDeviceState(PDEVICE_OBJECT PhysicalDeviceObject);
NTSTATUS NTAPI IoOpenDriverRegistryKey(PDRIVER_OBJECT DriverObject, int RegKeyType,
                                       ACCESS_MASK DesiredAccess, ULONG Flags,
                                       PHANDLE DriverRegKey);
NTSTATUS NTAPI IoOpenDeviceInterfaceRegistryKey(PUNICODE_STRING SymbolicLinkName,
                                                ACCESS_MASK DesiredAccess,
                                                PHANDLE DeviceInterfaceRegKey);
NTSTATUS NTAPI IoWMIRegistrationControl(PDEVICE_OBJECT DeviceObject, ULONG Action);
VOID NTAPI IoSetStartIoAttributes(PDEVICE_OBJECT DeviceObject, BOOLEAN DeferredStartIo,
                                  BOOLEAN NonCancelable);
BOOLEAN NTAPI IoIsOperationSynchronous(PIRP Irp);
ULONG NTAPI HalGetBusDataByOffset(BUS_DATA_TYPE BusDataType, ULONG BusNumber, ULONG SlotNumber,
                                  PVOID Buffer, ULONG Offset, ULONG Length);
ULONG NTAPI HalSetBusDataByOffset(BUS_DATA_TYPE BusDataType, ULONG BusNumber, ULONG SlotNumber,
                                  PVOID Buffer, ULONG Offset, ULONG Length);
POWER_STATE NTAPI PoSetPowerState(PDEVICE_OBJECT DeviceObject, POWER_STATE_TYPE Type,
                                  POWER_STATE State);
NTSTATUS NTAPI PoRequestPowerIrp(PDEVICE_OBJECT DeviceObject, UCHAR MinorFunction,
                                 POWER_STATE PowerState, PVOID CompletionFunction, PVOID Context,
                                 PIRP* Irp);
NTSTATUS NTAPI PoCallDriver(PDEVICE_OBJECT DeviceObject, PIRP Irp);
VOID NTAPI PoStartNextPowerIrp(PIRP Irp);
NTSTATUS NTAPI PoRegisterPowerSettingCallback(PDEVICE_OBJECT DeviceObject, const GUID* SettingGuid,
                                              PVOID Callback, PVOID Context, PVOID* Handle);
NTSTATUS NTAPI PoUnregisterPowerSettingCallback(PVOID Handle);

FORCEINLINE VOID IoSkipCurrentIrpStackLocation(PIRP Irp) {
  Irp->CurrentLocation++;
  Irp->Tail.Overlay.CurrentStackLocation++;
}
FORCEINLINE VOID IoSetNextIrpStackLocation(PIRP Irp) {
  Irp->CurrentLocation--;
  Irp->Tail.Overlay.CurrentStackLocation--;
}
FORCEINLINE VOID IoCopyCurrentIrpStackLocationToNext(PIRP Irp) {
  PIO_STACK_LOCATION from = IoGetCurrentIrpStackLocation(Irp);
  PIO_STACK_LOCATION to = IoGetNextIrpStackLocation(Irp);
  RtlCopyMemory(to, from, FIELD_OFFSET(IO_STACK_LOCATION, CompletionRoutine));
  to->Control = 0;
}
FORCEINLINE VOID IoSetCompletionRoutine(PIRP Irp, PIO_COMPLETION_ROUTINE CompletionRoutine,
                                        PVOID Context, BOOLEAN InvokeOnSuccess,
                                        BOOLEAN InvokeOnError, BOOLEAN InvokeOnCancel) {
  PIO_STACK_LOCATION next = IoGetNextIrpStackLocation(Irp);
  next->CompletionRoutine = CompletionRoutine;
  next->Context = Context;
  next->Control = (UCHAR)((InvokeOnSuccess ? SL_INVOKE_ON_SUCCESS : 0) |
                          (InvokeOnError ? SL_INVOKE_ON_ERROR : 0) |
                          (InvokeOnCancel ? SL_INVOKE_ON_CANCEL : 0));
}
FORCEINLINE VOID IoMarkIrpPending(PIRP Irp) {
  IoGetCurrentIrpStackLocation(Irp)->Control |= SL_PENDING_RETURNED;
}

/* Strings. */
VOID NTAPI RtlInitString(PSTRING DestinationString, PCSZ SourceString);
NTSTATUS NTAPI RtlUnicodeStringToAnsiString(PANSI_STRING DestinationString,
                                            PCUNICODE_STRING SourceString,
                                            BOOLEAN AllocateDestinationString);
VOID NTAPI RtlFreeAnsiString(PANSI_STRING AnsiString);
NTSTATUS NTAPI RtlUnicodeStringToInteger(PCUNICODE_STRING String, ULONG Base, PULONG Value);
NTSTATUS NTAPI RtlInt64ToUnicodeString(ULONGLONG Value, ULONG Base, PUNICODE_STRING String);
NTSTATUS NTAPI RtlAppendUnicodeToString(PUNICODE_STRING Destination, PCWSTR Source);
NTSTATUS NTAPI RtlAppendUnicodeStringToString(PUNICODE_STRING Destination,
                                              PCUNICODE_STRING Source);
NTSTATUS NTAPI RtlUpcaseUnicodeString(PUNICODE_STRING DestinationString,
                                      PCUNICODE_STRING SourceString,
                                      BOOLEAN AllocateDestinationString);
WCHAR NTAPI RtlUpcaseUnicodeChar(WCHAR SourceCharacter);
BOOLEAN NTAPI RtlPrefixUnicodeString(PCUNICODE_STRING String1, PCUNICODE_STRING String2,
                                     BOOLEAN CaseInSensitive);
LONG NTAPI RtlCompareString(const STRING* String1, const STRING* String2, BOOLEAN CaseInSensitive);
BOOLEAN NTAPI RtlEqualString(const STRING* String1, const STRING* String2,
                             BOOLEAN CaseInSensitive);
VOID NTAPI RtlCopyString(PSTRING DestinationString, const STRING* SourceString);
NTSTATUS NTAPI RtlGUIDFromString(PCUNICODE_STRING GuidString, GUID* Guid);
NTSTATUS NTAPI RtlStringFromGUID(REFGUID Guid, PUNICODE_STRING GuidString);
NTSTATUS NTAPI RtlGetVersion(PRTL_OSVERSIONINFOW VersionInformation);
NTSTATUS NTAPI RtlVerifyVersionInfo(PRTL_OSVERSIONINFOEXW VersionInfo, ULONG TypeMask,
                                    ULONGLONG ConditionMask);
BOOLEAN NTAPI RtlIsNtDdiVersionAvailable(ULONG Version);
SIZE_T NTAPI RtlCompareMemory(const VOID* Source1, const VOID* Source2, SIZE_T Length);
ULONG NTAPI RtlRandomEx(PULONG Seed);
ULONG NTAPI RtlRandom(PULONG Seed);
USHORT NTAPI RtlCaptureStackBackTrace(ULONG FramesToSkip, ULONG FramesToCapture, PVOID* BackTrace,
                                      PULONG BackTraceHash);
VOID NTAPI RtlRaiseException(PEXCEPTION_RECORD ExceptionRecord);
DECLSPEC_NORETURN VOID NTAPI ExRaiseStatus(NTSTATUS Status);
DECLSPEC_NORETURN VOID NTAPI ExRaiseAccessViolation(VOID);
DECLSPEC_NORETURN VOID NTAPI ExRaiseDatatypeMisalignment(VOID);
NTSTATUS NTAPI RtlCmEncodeMemIoResource(PCM_PARTIAL_RESOURCE_DESCRIPTOR Descriptor, UCHAR Type,
                                        ULONGLONG Length, ULONGLONG Start);
ULONGLONG NTAPI RtlCmDecodeMemIoResource(PCM_PARTIAL_RESOURCE_DESCRIPTOR Descriptor,
                                         PULONGLONG Start);
/* Bitmaps. */
VOID NTAPI RtlSetAllBits(PRTL_BITMAP BitMapHeader);
ULONG NTAPI RtlFindClearBitsAndSet(PRTL_BITMAP BitMapHeader, ULONG NumberToFind, ULONG HintIndex);
ULONG NTAPI RtlFindSetBits(PRTL_BITMAP BitMapHeader, ULONG NumberToFind, ULONG HintIndex);
ULONG NTAPI RtlFindSetBitsAndClear(PRTL_BITMAP BitMapHeader, ULONG NumberToFind, ULONG HintIndex);
ULONG NTAPI RtlNumberOfSetBits(PRTL_BITMAP BitMapHeader);
ULONG NTAPI RtlNumberOfClearBits(PRTL_BITMAP BitMapHeader);
BOOLEAN NTAPI RtlAreBitsSet(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG Length);
BOOLEAN NTAPI RtlAreBitsClear(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG Length);
VOID NTAPI RtlSetBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber);
VOID NTAPI RtlClearBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber);
BOOLEAN NTAPI RtlTestBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber);

/* Debugging. */
VOID NTAPI DbgBreakPointWithStatus(ULONG Status);
NTSTATUS NTAPI DbgQueryDebugFilterState(ULONG ComponentId, ULONG Level);
VOID NTAPI RtlAssert(PVOID FailedAssertion, PVOID FileName, ULONG LineNumber, PSTR Message);
ULONG CDECL DbgPrintReturnControlC(PCSTR Format, ...);
ULONG NTAPI vDbgPrintExWithPrefix(PCSTR Prefix, ULONG ComponentId, ULONG Level, PCSTR Format,
                                  DXGKIT_VA_LIST arglist);
#define DPFLTR_SYSTEM_ID 0
#define DPFLTR_DEFAULT_ID 101
#define DPFLTR_MASK 0x80000000U
#define DBG_STATUS_CONTROL_C 1
#if defined(DXGKIT_ABI_DRIVER)
#define DbgBreakPoint() __debugbreak()
#define KdPrint(arguments) ((void)0)
#define KdPrintEx(arguments) ((void)0)
#define KdBreakPoint() ((void)0)
#if DBG
#undef KdPrint
#undef KdPrintEx
#undef KdBreakPoint
#define KdPrint(arguments) DbgPrint arguments
#define KdPrintEx(arguments) DbgPrintEx arguments
#define KdBreakPoint() DbgBreakPoint()
#endif
#endif

#endif  /* DXGKIT_ABI_NT_MORE_H_ */
