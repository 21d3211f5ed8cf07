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

FORCEINLINE SHORT InterlockedIncrement16(volatile SHORT* Addend) {
  return __sync_add_and_fetch(Addend, 1);
}
FORCEINLINE SHORT InterlockedDecrement16(volatile SHORT* Addend) {
  return __sync_sub_and_fetch(Addend, 1);
}
FORCEINLINE LONG InterlockedAdd(volatile LONG* Addend, LONG Value) {
  return __sync_add_and_fetch(Addend, Value);
}
FORCEINLINE LONG InterlockedXor(volatile LONG* Target, LONG Value) {
  return __sync_fetch_and_xor(Target, Value);
}
FORCEINLINE LONG64 InterlockedAdd64(volatile LONG64* Addend, LONG64 Value) {
  return __sync_add_and_fetch(Addend, Value);
}
FORCEINLINE LONG64 InterlockedOr64(volatile LONG64* Target, LONG64 Value) {
  return __sync_fetch_and_or(Target, Value);
}
FORCEINLINE LONG64 InterlockedAnd64(volatile LONG64* Target, LONG64 Value) {
  return __sync_fetch_and_and(Target, Value);
}
FORCEINLINE LONG64 InterlockedXor64(volatile LONG64* Target, LONG64 Value) {
  return __sync_fetch_and_xor(Target, Value);
}
FORCEINLINE UCHAR InterlockedBitTestAndSet(volatile LONG* Base, LONG Bit) {
  LONG mask = (LONG)(1U << (Bit & 31));
  return (UCHAR)((__sync_fetch_and_or(Base + (Bit >> 5), mask) & mask) != 0);
}
FORCEINLINE UCHAR InterlockedBitTestAndReset(volatile LONG* Base, LONG Bit) {
  LONG mask = (LONG)(1U << (Bit & 31));
  return (UCHAR)((__sync_fetch_and_and(Base + (Bit >> 5), ~mask) & mask) != 0);
}
#if defined(DXGKIT_ABI_DRIVER)
#define InterlockedIncrementSizeT(target) InterlockedIncrement64((volatile LONG64*)(target))
#define InterlockedDecrementSizeT(target) InterlockedDecrement64((volatile LONG64*)(target))
#define InterlockedExchangeAddSizeT(target, value) \
  InterlockedExchangeAdd64((volatile LONG64*)(target), (LONG64)(value))
#define InterlockedAddSizeT(target, value) \
  InterlockedAdd64((volatile LONG64*)(target), (LONG64)(value))
#define InterlockedExchangeSubtract(target, value) InterlockedExchangeAdd(target, -(LONG)(value))
#define InterlockedIncrementULONG(target) \
  ((ULONG)InterlockedIncrement((volatile LONG*)(target)))
#define InterlockedDecrementULONG(target) \
  ((ULONG)InterlockedDecrement((volatile LONG*)(target)))
#define InterlockedIncrementAcquire InterlockedIncrement
#define InterlockedIncrementRelease InterlockedIncrement
#define InterlockedIncrementNoFence InterlockedIncrement
#define InterlockedDecrementAcquire InterlockedDecrement
#define InterlockedDecrementRelease InterlockedDecrement
#define InterlockedDecrementNoFence InterlockedDecrement
#define InterlockedExchangeAcquire InterlockedExchange
#define InterlockedExchangeNoFence InterlockedExchange
#define InterlockedCompareExchangeAcquire InterlockedCompareExchange
#define InterlockedCompareExchangeRelease InterlockedCompareExchange
#define InterlockedCompareExchangeNoFence InterlockedCompareExchange
#define InterlockedOrAcquire InterlockedOr
#define InterlockedOrRelease InterlockedOr
#define InterlockedOrNoFence InterlockedOr
#define InterlockedAndAcquire InterlockedAnd
#define InterlockedAndRelease InterlockedAnd
#define InterlockedAndNoFence InterlockedAnd
#define InterlockedExchangePointerAcquire InterlockedExchangePointer
#define InterlockedExchangePointerNoFence InterlockedExchangePointer
#define InterlockedCompareExchangePointerAcquire InterlockedCompareExchangePointer
#define InterlockedCompareExchangePointerNoFence InterlockedCompareExchangePointer
#endif

/* Plain accesses the compiler may not tear or repeat, with the order their names say. */
#define DXGKIT_ACCESS(type, suffix)                                                     \
  FORCEINLINE type Read##suffix##Acquire(const volatile type* Source) {                 \
    return __atomic_load_n(Source, __ATOMIC_ACQUIRE);                                   \
  }                                                                                     \
  FORCEINLINE type Read##suffix##NoFence(const volatile type* Source) {                 \
    return __atomic_load_n(Source, __ATOMIC_RELAXED);                                   \
  }                                                                                     \
  FORCEINLINE VOID Write##suffix##Release(volatile type* Destination, type Value) {     \
    __atomic_store_n(Destination, Value, __ATOMIC_RELEASE);                             \
  }                                                                                     \
  FORCEINLINE VOID Write##suffix##NoFence(volatile type* Destination, type Value) {     \
    __atomic_store_n(Destination, Value, __ATOMIC_RELAXED);                             \
  }
DXGKIT_ACCESS(LONG, )
DXGKIT_ACCESS(ULONG, ULong)
DXGKIT_ACCESS(LONG64, 64)
DXGKIT_ACCESS(ULONG64, ULong64)
#undef DXGKIT_ACCESS
FORCEINLINE PVOID ReadPointerAcquire(PVOID const volatile* Source) {
  return __atomic_load_n(Source, __ATOMIC_ACQUIRE);
}
FORCEINLINE PVOID ReadPointerNoFence(PVOID const volatile* Source) {
  return __atomic_load_n(Source, __ATOMIC_RELAXED);
}
FORCEINLINE VOID WritePointerRelease(PVOID volatile* Destination, PVOID Value) {
  __atomic_store_n(Destination, Value, __ATOMIC_RELEASE);
}
FORCEINLINE VOID WritePointerNoFence(PVOID volatile* Destination, PVOID Value) {
  __atomic_store_n(Destination, Value, __ATOMIC_RELAXED);
}

FORCEINLINE VOID PushEntryList(PSINGLE_LIST_ENTRY ListHead, PSINGLE_LIST_ENTRY Entry) {
  Entry->Next = ListHead->Next;
  ListHead->Next = Entry;
}
FORCEINLINE PSINGLE_LIST_ENTRY PopEntryList(PSINGLE_LIST_ENTRY ListHead) {
  PSINGLE_LIST_ENTRY first = ListHead->Next;
  if (first) ListHead->Next = first->Next;
  return first;
}
FORCEINLINE VOID AppendTailList(PLIST_ENTRY ListHead, PLIST_ENTRY ListToAppend) {
  PLIST_ENTRY end = ListHead->Blink;
  ListHead->Blink->Flink = ListToAppend;
  ListHead->Blink = ListToAppend->Blink;
  ListToAppend->Blink->Flink = ListHead;
  ListToAppend->Blink = end;
}

FORCEINLINE PVOID RtlSecureZeroMemory(PVOID Block, SIZE_T Size) {
  volatile UCHAR* at = (volatile UCHAR*)Block;
  while (Size--) *at++ = 0;
  return Block;
}
#define RtlZeroBytes RtlZeroMemory
#define RtlCopyBytes RtlCopyMemory
#define RtlFillBytes RtlFillMemory
#if defined(DXGKIT_ABI_DRIVER)
#define RtlCopyMemoryNonTemporal RtlCopyMemory
#define RtlCopyVolatileMemory(to, from, size) RtlCopyMemory((PVOID)(to), (PVOID)(from), size)
#define CopyMemory RtlCopyMemory
#define MoveMemory RtlMoveMemory
#define ZeroMemory RtlZeroMemory
#define FillMemory RtlFillMemory
#define SecureZeroMemory RtlSecureZeroMemory
#endif

FORCEINLINE VOID RtlInitEmptyUnicodeString(PUNICODE_STRING String, PWCHAR Buffer, USHORT Size) {
  String->Length = 0;
  String->MaximumLength = Size;
  String->Buffer = Buffer;
}
FORCEINLINE VOID RtlInitEmptyAnsiString(PANSI_STRING String, PCHAR Buffer, USHORT Size) {
  String->Length = 0;
  String->MaximumLength = Size;
  String->Buffer = Buffer;
}
FORCEINLINE LARGE_INTEGER RtlConvertLongToLargeInteger(LONG Value) {
  LARGE_INTEGER result;
  result.QuadPart = Value;
  return result;
}
FORCEINLINE LARGE_INTEGER RtlConvertUlongToLargeInteger(ULONG Value) {
  LARGE_INTEGER result;
  result.QuadPart = Value;
  return result;
}
#define RtlCheckBit(bitmap, bit) \
  ((((PLONG)(bitmap)->Buffer)[(bit) / 32] >> ((bit) % 32)) & 1)
#define RtlIsZeroLuid(luid) ((BOOLEAN)(((luid)->LowPart | (luid)->HighPart) == 0))
#define RtlEqualLuid(a, b) ((a)->LowPart == (b)->LowPart && (a)->HighPart == (b)->HighPart)
#define RtlRetrieveUlong(to, from) __builtin_memcpy((to), (from), sizeof(ULONG))
#define RtlStoreUlong(to, value) (*(ULONG*)(to) = (value))

#define KeMemoryBarrier() __sync_synchronize()
#define YieldProcessor() __builtin_ia32_pause()
#if defined(DXGKIT_ABI_DRIVER)
#define MemoryBarrier() __sync_synchronize()
#define KeMemoryBarrierWithoutFence() __asm__ volatile("" ::: "memory")
#define BitScanForward _BitScanForward
#define BitScanReverse _BitScanReverse
#define BitScanForward64 _BitScanForward64
#define BitScanReverse64 _BitScanReverse64
#define FlagOn(flags, bits) ((flags) & (bits))
#define BooleanFlagOn(flags, bits) ((BOOLEAN)(((flags) & (bits)) != 0))
#define SetFlag(flags, bits) ((flags) |= (bits))
#define ClearFlag(flags, bits) ((flags) &= ~(bits))
#define PAGED_CODE_LOCKED() ((void)0)
#define ASSERTMSG(message, e) ((void)0)
#define RTL_SOFT_ASSERT(e) ((void)0)
#define RTL_VERIFY(e) ((void)(e))
#define NT_VERIFY(e) ((void)(e))
#define NT_ASSERTMSG(message, e) ((void)0)
#define NT_FRE_ASSERT(e) ((e) ? (void)0 : __debugbreak())
#define NT_ASSERT_ASSUME(e) ((void)0)
#define NT_ANALYSIS_ASSUME(e) ((void)0)
#define ASSUME(e) __builtin_assume(e)
#endif
#define PAGED_CODE() ((void)0)
/* With DBG defined to 1, a failed assertion is a breakpoint, as in a checked build. */
#if defined(DXGKIT_ABI_DRIVER) && defined(DBG) && DBG
#define NT_ASSERT(e) ((e) ? (void)0 : __debugbreak())
#define ASSERT(e) ((e) ? (void)0 : __debugbreak())
#else
#define NT_ASSERT(e) ((void)0)
#define ASSERT(e) ((void)0)
#endif

#endif  /* DXGKIT_ABI_NT_INLINE_H_ */
