// Layouts of the NT objects in a driver's memory, as far as this executive uses them.
//
// The sizes are facts of the x64 ABI, because drivers reserve the objects. The content is the
// executive's own. kernel_test.cpp compares every size with abi/include/ntddk.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dxgkit::nt {

enum class ObjectType : uint8_t {
  kNotificationEvent = 0,
  kSynchronizationEvent = 1,
  kMutant = 2,
  kSemaphore = 5,
  kThread = 6,
  kNotificationTimer = 8,
  kSynchronizationTimer = 9,
};

/// Head of every object that a thread can wait for (DISPATCHER_HEADER, 24 bytes).
struct DispatcherHeader {
  uint8_t type;
  uint8_t absolute, size, inserted;
  int32_t signal_state;  // guarded by the dispatcher lock of the kernel
  void* wait_list[2];    // kept as drivers expect it: an empty list
};
static_assert(sizeof(DispatcherHeader) == 24);

struct Kevent {  // KEVENT
  DispatcherHeader header;
};

struct Ksemaphore {  // KSEMAPHORE
  DispatcherHeader header;
  int32_t limit;
};
static_assert(sizeof(Ksemaphore) == 32);

struct Kmutant {  // KMUTANT
  DispatcherHeader header;
  void* list_entry[2];
  uint64_t owner;  // runtime thread number + 1
  uint8_t abandoned, apc_disable;
};
static_assert(sizeof(Kmutant) == 56);

struct FastMutex {  // FAST_MUTEX; also initialised inline by driver headers: count 1, owner null
  int32_t count;    // 1 free, 0 held, -1 held with waiters
  uint32_t padding;
  uint64_t owner;
  uint32_t contention;
  Kevent event;
  uint32_t old_irql;
};
static_assert(sizeof(FastMutex) == 56);

using DeferredRoutine = void(__attribute__((ms_abi)) *)(struct Kdpc*, void*, void*, void*);

struct Kdpc {  // KDPC
  uint8_t type, importance;
  uint16_t number;
  uint32_t padding;
  Kdpc* next;  // DpcListEntry: the queue of the thread that queued it
  uint64_t processor_history;
  DeferredRoutine routine;
  void* context;
  void* argument1;
  void* argument2;
  void* queued;  // DpcData: not null while queued; exchanged atomically
};
static_assert(sizeof(Kdpc) == 64);

struct Ktimer {  // KTIMER
  DispatcherHeader header;
  uint64_t due_time;
  void* list_entry[2];
  Kdpc* dpc;
  uint32_t processor, period_ms;
};
static_assert(sizeof(Ktimer) == 64);

struct Mdl {  // MDL; the page frame numbers follow
  Mdl* next;
  int16_t size;
  int16_t flags;
  uint32_t padding;
  void* process;
  void* mapped_system_va;
  void* start_va;
  uint32_t byte_count;
  uint32_t byte_offset;

  uint64_t* pages() { return reinterpret_cast<uint64_t*>(this + 1); }
  const uint64_t* pages() const { return reinterpret_cast<const uint64_t*>(this + 1); }
};
static_assert(sizeof(Mdl) == 48);

inline constexpr int16_t kMdlMappedToSystemVa = 0x0001;
inline constexpr int16_t kMdlPagesLocked = 0x0002;
inline constexpr int16_t kMdlSourceIsNonPagedPool = 0x0004;
inline constexpr int16_t kMdlAllocatedFixedSize = 0x0008;

struct ListEntry {  // LIST_ENTRY
  ListEntry* next;
  ListEntry* previous;
};

struct AnsiString {  // ANSI_STRING
  uint16_t length, maximum_length;
  char* buffer;
};
struct UnicodeString {  // UNICODE_STRING
  uint16_t length, maximum_length;
  char16_t* buffer;
};
static_assert(sizeof(UnicodeString) == 16);

struct ObjectAttributes {  // OBJECT_ATTRIBUTES
  uint32_t length;
  void* root_directory;
  UnicodeString* name;
  uint32_t attributes;
  void* security_descriptor;
  void* quality_of_service;
};
static_assert(sizeof(ObjectAttributes) == 48);

}  // namespace dxgkit::nt
