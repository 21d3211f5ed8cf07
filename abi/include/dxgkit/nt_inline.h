/* nt_inline.h: helpers that are code inside the driver, not imports.
 * Included by wdm.h; not by itself.
 */
#ifndef DXGKIT_ABI_NT_INLINE_H_
#define DXGKIT_ABI_NT_INLINE_H_

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#define RtlCopyMemory(to, from, size) __builtin_memcpy((to), (from), (size))
#define RtlMoveMemory(to, from, size) __builtin_memmove((to), (from), (size))
#define RtlZeroMemory(to, size) __builtin_memset((to), 0, (size))
#define RtlFillMemory(to, size, value) __builtin_memset((to), (value), (size))
#define RtlEqualMemory(a, b, size) (__builtin_memcmp((a), (b), (size)) == 0)

FORCEINLINE VOID InitializeListHead(PLIST_ENTRY ListHead) {
  ListHead->Flink = ListHead;
  ListHead->Blink = ListHead;
}

FORCEINLINE BOOLEAN IsListEmpty(const LIST_ENTRY* ListHead) {
  return (BOOLEAN)(ListHead->Flink == ListHead);
}

FORCEINLINE BOOLEAN RemoveEntryList(PLIST_ENTRY Entry) {
  PLIST_ENTRY next = Entry->Flink;
  PLIST_ENTRY previous = Entry->Blink;
  previous->Flink = next;
  next->Blink = previous;
  return (BOOLEAN)(next == previous);
}

FORCEINLINE PLIST_ENTRY RemoveHeadList(PLIST_ENTRY ListHead) {
  PLIST_ENTRY entry = ListHead->Flink;
  RemoveEntryList(entry);
  return entry;
}

FORCEINLINE PLIST_ENTRY RemoveTailList(PLIST_ENTRY ListHead) {
  PLIST_ENTRY entry = ListHead->Blink;
  RemoveEntryList(entry);
  return entry;
}

FORCEINLINE VOID InsertHeadList(PLIST_ENTRY ListHead, PLIST_ENTRY Entry) {
  Entry->Flink = ListHead->Flink;
  Entry->Blink = ListHead;
  ListHead->Flink->Blink = Entry;
  ListHead->Flink = Entry;
}

FORCEINLINE VOID InsertTailList(PLIST_ENTRY ListHead, PLIST_ENTRY Entry) {
  Entry->Flink = ListHead;
  Entry->Blink = ListHead->Blink;
  ListHead->Blink->Flink = Entry;
  ListHead->Blink = Entry;
}

FORCEINLINE PVOID MmGetMdlVirtualAddress(const MDL* Mdl) {
  return (PVOID)((PCHAR)Mdl->StartVa + Mdl->ByteOffset);
}

FORCEINLINE ULONG MmGetMdlByteCount(const MDL* Mdl) { return Mdl->ByteCount; }

FORCEINLINE ULONG MmGetMdlByteOffset(const MDL* Mdl) { return Mdl->ByteOffset; }

FORCEINLINE PPFN_NUMBER MmGetMdlPfnArray(MDL* Mdl) { return (PPFN_NUMBER)(Mdl + 1); }

FORCEINLINE PVOID MmGetSystemAddressForMdlSafe(PMDL Mdl, ULONG Priority) {
  if ((Mdl->MdlFlags & (MDL_MAPPED_TO_SYSTEM_VA | MDL_SOURCE_IS_NONPAGED_POOL)) != 0) {
    return Mdl->MappedSystemVa;
  }
  return MmMapLockedPagesSpecifyCache(Mdl, KernelMode, MmCached, 0, FALSE, Priority);
}

FORCEINLINE VOID MmInitializeMdl(PMDL Mdl, PVOID BaseVa, SIZE_T Length) {
  Mdl->Next = 0;
  Mdl->Size = (CSHORT)(sizeof(MDL) +
                       sizeof(PFN_NUMBER) * ADDRESS_AND_SIZE_TO_SPAN_PAGES(BaseVa, Length));
  Mdl->MdlFlags = 0;
  Mdl->StartVa = PAGE_ALIGN(BaseVa);
  Mdl->ByteOffset = BYTE_OFFSET(BaseVa);
  Mdl->ByteCount = (ULONG)Length;
}

FORCEINLINE VOID ExInitializeFastMutex(PFAST_MUTEX FastMutex) {
  FastMutex->Count = 1;
  FastMutex->Owner = 0;
  FastMutex->Contention = 0;
  KeInitializeEvent(&FastMutex->Event, SynchronizationEvent, FALSE);
}

FORCEINLINE PIO_STACK_LOCATION IoGetCurrentIrpStackLocation(PIRP Irp) {
  return Irp->Tail.Overlay.CurrentStackLocation;
}

FORCEINLINE PIO_STACK_LOCATION IoGetNextIrpStackLocation(PIRP Irp) {
  return Irp->Tail.Overlay.CurrentStackLocation - 1;
}

FORCEINLINE LONG InterlockedIncrement(volatile LONG* Addend) {
  return __sync_add_and_fetch(Addend, 1);
}

FORCEINLINE LONG InterlockedDecrement(volatile LONG* Addend) {
  return __sync_sub_and_fetch(Addend, 1);
}

FORCEINLINE LONG InterlockedExchange(volatile LONG* Target, LONG Value) {
  return __atomic_exchange_n(Target, Value, __ATOMIC_SEQ_CST);
}

FORCEINLINE LONG InterlockedExchangeAdd(volatile LONG* Addend, LONG Value) {
  return __sync_fetch_and_add(Addend, Value);
}

FORCEINLINE LONG InterlockedCompareExchange(volatile LONG* Target, LONG Exchange, LONG Comperand) {
  return __sync_val_compare_and_swap(Target, Comperand, Exchange);
}

FORCEINLINE LONG InterlockedOr(volatile LONG* Target, LONG Value) {
  return __sync_fetch_and_or(Target, Value);
}

FORCEINLINE LONG InterlockedAnd(volatile LONG* Target, LONG Value) {
  return __sync_fetch_and_and(Target, Value);
}

FORCEINLINE LONG64 InterlockedIncrement64(volatile LONG64* Addend) {
  return __sync_add_and_fetch(Addend, 1);
}

FORCEINLINE LONG64 InterlockedDecrement64(volatile LONG64* Addend) {
  return __sync_sub_and_fetch(Addend, 1);
}

FORCEINLINE LONG64 InterlockedExchange64(volatile LONG64* Target, LONG64 Value) {
  return __atomic_exchange_n(Target, Value, __ATOMIC_SEQ_CST);
}

FORCEINLINE LONG64 InterlockedExchangeAdd64(volatile LONG64* Addend, LONG64 Value) {
  return __sync_fetch_and_add(Addend, Value);
}

FORCEINLINE LONG64 InterlockedCompareExchange64(volatile LONG64* Target, LONG64 Exchange,
                                                LONG64 Comperand) {
  return __sync_val_compare_and_swap(Target, Comperand, Exchange);
}

FORCEINLINE PVOID InterlockedExchangePointer(PVOID volatile* Target, PVOID Value) {
  return __atomic_exchange_n(Target, Value, __ATOMIC_SEQ_CST);
}

FORCEINLINE PVOID InterlockedCompareExchangePointer(PVOID volatile* Target, PVOID Exchange,
                                                    PVOID Comperand) {
  return __sync_val_compare_and_swap(Target, Comperand, Exchange);
}

#define KeMemoryBarrier() __sync_synchronize()
#define YieldProcessor() __builtin_ia32_pause()
#define PAGED_CODE() ((void)0)
#define NT_ASSERT(e) ((void)0)
#define ASSERT(e) ((void)0)

#endif  /* DXGKIT_ABI_NT_INLINE_H_ */
