// Sequenced lists, lookaside lists and interlocked arithmetic.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "nt/executive.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

// --- SLIST_HEADER
// The low 16 bits are the depth, and a sequence number is above them. The second word is the first
// entry. Its bit 0 serves as a lock: entries are 16-byte aligned, so the bit is free.

struct SlistEntry {  // SLIST_ENTRY
  SlistEntry* next;
};
struct SlistHeader {  // SLIST_HEADER
  std::atomic<uint64_t> depth_and_sequence;
  std::atomic<uint64_t> first;
};
static_assert(sizeof(SlistHeader) == 16);
constexpr uint64_t kListLocked = 1;
constexpr uint64_t kOneChange = 1ULL << 16;

class LockedList {
 public:
  explicit LockedList(SlistHeader& header) : header_(header) {
    for (;;) {
      first_ = header.first.fetch_or(kListLocked, std::memory_order_acquire);
      if ((first_ & kListLocked) == 0) return;
      CallFrame::current().kernel().runtime().yield();
    }
  }
  ~LockedList() { header_.first.store(first_, std::memory_order_release); }
  LockedList(const LockedList&) = delete;
  LockedList& operator=(const LockedList&) = delete;

  SlistEntry* first() const { return reinterpret_cast<SlistEntry*>(first_); }
  void set(SlistEntry* entry, int depth_change) {
    first_ = reinterpret_cast<uint64_t>(entry);
    const uint64_t old = header_.depth_and_sequence.load(std::memory_order_relaxed);
    const auto depth = static_cast<uint16_t>(
        depth_change == 0 ? 0 : static_cast<int>(old & 0xFFFF) + depth_change);
    header_.depth_and_sequence.store(((old & ~0xFFFFULL) + kOneChange) | depth,
                                     std::memory_order_relaxed);
  }

 private:
  SlistHeader& header_;
  uint64_t first_;
};

[[noreturn]] void misaligned(const char* function, const void* address) {
  CallFrame::current().kernel().bug_check(
      "NT-01", function, 0x7E, 0x80000002,  // STATUS_DATATYPE_MISALIGNMENT
      fmt::format("{} is not aligned to 16 bytes.", address),
      "Heads and entries of sequenced lists are aligned to 16 bytes.",
      "Declare them with DECLSPEC_ALIGN(16), or allocate them from pool.");
}
void require_aligned(const char* function, const void* address) {
  if (reinterpret_cast<uint64_t>(address) % 16 != 0) misaligned(function, address);
}

DXGKIT_NT_ABI void initialize_slist(SlistHeader* header) {
  SlistHeader& given = required("InitializeSListHead", "SListHead", header);
  require_aligned("InitializeSListHead", header);
  given.depth_and_sequence = 0;
  given.first = 0;
}
DXGKIT_NT_ABI SlistEntry* push_slist(SlistHeader* header, SlistEntry* entry) {
  SlistHeader& given = required("ExpInterlockedPushEntrySList", "ListHead", header);
  required("ExpInterlockedPushEntrySList", "ListEntry", entry);
  require_aligned("ExpInterlockedPushEntrySList", header);
  require_aligned("ExpInterlockedPushEntrySList", entry);
  LockedList list(given);
  SlistEntry* const before = list.first();
  entry->next = before;
  list.set(entry, 1);
  return before;
}
DXGKIT_NT_ABI SlistEntry* pop_slist(SlistHeader* header) {
  SlistHeader& given = required("ExpInterlockedPopEntrySList", "ListHead", header);
  require_aligned("ExpInterlockedPopEntrySList", header);
  LockedList list(given);
  SlistEntry* const entry = list.first();
  if (entry != nullptr) {
    const auto depth = static_cast<int>(given.depth_and_sequence.load() & 0xFFFF);
    list.set(entry->next, depth == 1 ? 0 : -1);
  }
  return entry;
}
DXGKIT_NT_ABI SlistEntry* flush_slist(SlistHeader* header) {
  SlistHeader& given = required("ExpInterlockedFlushSList", "ListHead", header);
  require_aligned("ExpInterlockedFlushSList", header);
  LockedList list(given);
  SlistEntry* const entry = list.first();
  list.set(nullptr, 0);
  return entry;
}
DXGKIT_NT_ABI uint16_t query_depth_slist(const SlistHeader* header) {
  return static_cast<uint16_t>(
      required("ExQueryDepthSList", "SListHead", header).depth_and_sequence.load() & 0xFFFF);
}
DXGKIT_NT_ABI SlistEntry* push_slist_locked(SlistHeader* header, SlistEntry* entry, void*) {
  return push_slist(header, entry);
}
DXGKIT_NT_ABI SlistEntry* pop_slist_locked(SlistHeader* header, void*) { return pop_slist(header); }
DXGKIT_NT_ABI SlistEntry* first_slist(const SlistHeader* header) {
  return reinterpret_cast<SlistEntry*>(
      required("FirstEntrySList", "SListHead", header).first.load() & ~kListLocked);
}

// --- lookaside lists: read inline by drivers, so every member is where Windows has it

using AllocateFunction = void*(DXGKIT_NT_ABI*)(uint32_t, uint64_t, uint32_t, void*);
using FreeFunction = void(DXGKIT_NT_ABI*)(void*, void*);

struct Lookaside {  // GENERAL_LOOKASIDE
  SlistHeader list;
  uint16_t depth, depth_max;
  uint32_t allocates, allocate_misses, frees, free_misses;
  uint32_t pool_type, tag, size;
  const void* allocate;
  const void* free;
  ListEntry links;
  uint32_t last_allocates, last_misses, future[2];
};
static_assert(sizeof(Lookaside) == 96 && offsetof(Lookaside, allocate) == 48);
constexpr uint16_t kLookasideDepth = 4, kLookasideDepthMax = 256;

/// Both shapes of the routine (with and without the list as last argument) end here.
DXGKIT_NT_ABI void* allocate_default(uint32_t type, uint64_t bytes, uint32_t tag, void*) {
  const auto pool =
      export_function<void * DXGKIT_NT_ABI(uint32_t, uint64_t, uint32_t)>("ExAllocatePoolWithTag");
  return pool(type, bytes, tag);
}
DXGKIT_NT_ABI void free_default(void* memory, void*) {
  const auto pool = export_function<void DXGKIT_NT_ABI(void*)>("ExFreePool");
  pool(memory);
}

void initialize_lookaside(const char* function, Lookaside* list, const void* allocate,
                          const void* free, uint32_t pool_type, uint64_t size, uint32_t tag) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  required(function, "Lookaside", list);
  require_aligned(function, list);
  Executive& state = executive_of(kernel);
  std::memset(static_cast<void*>(list), 0, sizeof(*list));
  list->depth = kLookasideDepth;
  list->depth_max = kLookasideDepthMax;
  list->pool_type = pool_type;
  list->tag = tag;
  list->size = static_cast<uint32_t>(std::max<uint64_t>(size, sizeof(SlistEntry)));
  list->allocate = allocate != nullptr
                       ? allocate
                       : address_for_driver(kernel, "lookaside allocation",
                                            reinterpret_cast<const void*>(&allocate_default));
  list->free = free != nullptr ? free
                               : address_for_driver(kernel, "lookaside free",
                                                    reinterpret_cast<const void*>(&free_default));
  list->links = {&list->links, &list->links};
  bool again = false;
  {
    runtime::MutexLock lock(state.lock);
    again = !state.lookaside_lists
                 .insert_or_assign(list, LookasideEntry{state.next_sequence++, free != nullptr})
                 .second;
  }
  if (again) {
    kernel.violation(
        "NT-31", function,
        fmt::format("{} is initialised a second time.", static_cast<void*>(list)),
        "A lookaside list is deleted before its memory is used again.",
        "Delete it before freeing or reinitialising; what it holds is lost otherwise.");
  }
}

DXGKIT_NT_ABI void initialize_npaged(Lookaside* list, const void* allocate, const void* free,
                                     uint32_t flags, uint64_t size, uint32_t tag, uint16_t) {
  constexpr uint32_t kNx = 512;
  initialize_lookaside("ExInitializeNPagedLookasideList", list, allocate, free, flags & kNx, size,
                       tag);
}
DXGKIT_NT_ABI void initialize_paged(Lookaside* list, const void* allocate, const void* free,
                                    uint32_t, uint64_t size, uint32_t tag, uint16_t) {
  constexpr uint32_t kPagedPool = 1;
  initialize_lookaside("ExInitializePagedLookasideList", list, allocate, free, kPagedPool, size,
                       tag);
}
DXGKIT_NT_ABI int32_t initialize_ex(Lookaside* list, const void* allocate, const void* free,
                                    uint32_t pool_type, uint32_t flags, uint64_t size, uint32_t tag,
                                    uint16_t depth) {
  constexpr uint32_t kRaise = 1, kNoPrefill = 2;
  if ((flags & ~(kRaise | kNoPrefill)) != 0 || flags == (kRaise | kNoPrefill))
    return kInvalidParameter;
  if (depth != 0) return kInvalidParameter;
  if (size > UINT32_MAX) return kInvalidParameter;
  initialize_lookaside("ExInitializeLookasideListEx", list, allocate, free, pool_type, size, tag);
  return kSuccess;
}

/// Gives every kept block to the free routine; false if the list is unknown.
void empty_lookaside(const char* function, Lookaside* list, bool forget) {
  required(function, "Lookaside", list);
  Executive& state = executive();
  bool known = false, custom = false;
  {
    runtime::MutexLock lock(state.lock);
    const auto found = state.lookaside_lists.find(list);
    known = found != state.lookaside_lists.end();
    custom = known && found->second.custom_free;
    if (known && forget) state.lookaside_lists.erase(found);
  }
  if (!known) {
    CallFrame::current().kernel().bug_check(
        "NT-31", function, 0xC4, static_cast<uint32_t>(reinterpret_cast<uint64_t>(list)),
        fmt::format("{} is no initialised lookaside list.", static_cast<void*>(list)),
        "A lookaside list is deleted once.", "Look for a second delete, or a missing initialise.");
  }
  while (SlistEntry* entry = pop_slist(&list->list)) {
    if (custom) {
      call_driver("lookaside free routine", std::bit_cast<FreeFunction>(list->free),
                  static_cast<void*>(entry), static_cast<void*>(list));
    } else {
      free_default(entry, list);
    }
  }
}
DXGKIT_NT_ABI void delete_npaged(Lookaside* list) {
  empty_lookaside("ExDeleteNPagedLookasideList", list, true);
}
DXGKIT_NT_ABI void delete_paged(Lookaside* list) {
  empty_lookaside("ExDeletePagedLookasideList", list, true);
}
DXGKIT_NT_ABI void delete_ex(Lookaside* list) {
  empty_lookaside("ExDeleteLookasideListEx", list, true);
}
DXGKIT_NT_ABI void flush_ex(Lookaside* list) {
  empty_lookaside("ExFlushLookasideListEx", list, false);
}

// --- single lists and sums under the caller's spin lock

struct SingleEntry {  // SINGLE_LIST_ENTRY
  SingleEntry* next;
};
DXGKIT_NT_ABI SingleEntry* pop_entry(SingleEntry* head, uint64_t* lock) {
  const SpinLockScope held("ExInterlockedPopEntryList", lock);
  SingleEntry* const first = head->next;
  if (first != nullptr) head->next = first->next;
  return first;
}
DXGKIT_NT_ABI SingleEntry* push_entry(SingleEntry* head, SingleEntry* entry, uint64_t* lock) {
  const SpinLockScope held("ExInterlockedPushEntryList", lock);
  SingleEntry* const first = head->next;
  entry->next = first;
  head->next = entry;
  return first;
}
DXGKIT_NT_ABI int64_t add_large(int64_t* sum, int64_t increment, uint64_t* lock) {
  const SpinLockScope held("ExInterlockedAddLargeInteger", lock);
  const int64_t old = *sum;
  *sum = static_cast<int64_t>(static_cast<uint64_t>(old) + static_cast<uint64_t>(increment));
  return old;
}
DXGKIT_NT_ABI uint32_t add_ulong(uint32_t* sum, uint32_t increment, uint64_t* lock) {
  const SpinLockScope held("ExInterlockedAddUlong", lock);
  const uint32_t old = *sum;
  *sum = old + increment;
  return old;
}
DXGKIT_NT_ABI void add_statistic(int64_t* sum, uint32_t increment) {
  __atomic_fetch_add(sum, int64_t{increment}, __ATOMIC_SEQ_CST);
}

}  // namespace

std::span<const Export> list_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("ExDeleteLookasideListEx", delete_ex, kSupported, ""),
      DXGKIT_EXPORT("ExDeleteNPagedLookasideList", delete_npaged, kSupported, ""),
      DXGKIT_EXPORT("ExDeletePagedLookasideList", delete_paged, kSupported, ""),
      DXGKIT_EXPORT("ExFlushLookasideListEx", flush_ex, kSupported, ""),
      DXGKIT_EXPORT("ExInitializeLookasideListEx", initialize_ex, kPartial,
                    "the depth does not adapt"),
      DXGKIT_EXPORT("ExInitializeNPagedLookasideList", initialize_npaged, kPartial,
                    "the depth does not adapt"),
      DXGKIT_EXPORT("ExInitializePagedLookasideList", initialize_paged, kPartial,
                    "the depth does not adapt"),
      DXGKIT_EXPORT("ExInterlockedAddLargeInteger", add_large, kSupported, ""),
      DXGKIT_EXPORT("ExInterlockedAddLargeStatistic", add_statistic, kSupported, ""),
      DXGKIT_EXPORT("ExInterlockedAddUlong", add_ulong, kSupported, ""),
      DXGKIT_EXPORT("ExInterlockedFlushSList", flush_slist, kSupported, ""),
      DXGKIT_EXPORT("ExInterlockedPopEntryList", pop_entry, kSupported, ""),
      DXGKIT_EXPORT("ExInterlockedPopEntrySList", pop_slist_locked, kSupported, ""),
      DXGKIT_EXPORT("ExInterlockedPushEntryList", push_entry, kSupported, ""),
      DXGKIT_EXPORT("ExInterlockedPushEntrySList", push_slist_locked, kSupported, ""),
      DXGKIT_EXPORT("ExQueryDepthSList", query_depth_slist, kSupported, ""),
      DXGKIT_EXPORT("ExpInterlockedFlushSList", flush_slist, kSupported, ""),
      DXGKIT_EXPORT("ExpInterlockedPopEntrySList", pop_slist, kSupported, ""),
      DXGKIT_EXPORT("ExpInterlockedPushEntrySList", push_slist, kSupported, ""),
      DXGKIT_EXPORT("FirstEntrySList", first_slist, kSupported, ""),
      DXGKIT_EXPORT("InitializeSListHead", initialize_slist, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
