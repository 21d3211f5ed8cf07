// What the executive keeps beside memory, waits and threads: I/O objects, references, work items,
// registrations, the registry. Internal to this folder.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nt/io_layout.h"
#include "nt/kernel_impl.h"
#include "nt/nt_status.h"
#include "nt/registry_store.h"

namespace dxgkit::nt {

/// Kinds of objects; the index of the type object that `*PsThreadType` and relatives name.
enum class TypeIndex : uint8_t {
  kThread,
  kProcess,
  kEvent,
  kFile,
  kDevice,
  kDriver,
  kSemaphore,
  kKey,
  kCallback,
  kSymbolicLink,
  kNone,
};

/// References a driver holds on an object, beside handles.
struct ReferenceEntry {
  std::shared_ptr<void> object;  // kept alive; null for objects of the host (devices, drivers)
  TypeIndex type = TypeIndex::kNone;
  int64_t held = 0;
};

struct IrpEntry {
  uint64_t sequence = 0;
  bool system = false;  // built for one synchronous request: completion frees it
};

/// IO_WORKITEM, WORK_QUEUE_ITEM and relatives, as they wait for the worker.
struct WorkEntry {
  enum class Kind { kIo, kIoEx, kExecutive };
  Kind kind = Kind::kIo;
  void* item = nullptr;
  void* routine = nullptr;
  void* object = nullptr;
  void* context = nullptr;
};
struct IoWorkItem {
  uint64_t sequence = 0;
  void* object = nullptr;
  bool queued = false;
  bool allocated = true;  // false: the driver's own memory
};

/// A callback or notification a driver registered: a leak if it outlives the driver (NT-14).
struct Registration {
  const char* kind = "";
  uint64_t sequence = 0;
  std::shared_ptr<void> storage;
};

struct LookasideEntry {
  uint64_t sequence = 0;
};

struct Executive {
  /// Guards everything below. Nests in nothing, and nothing nests in it.
  mutable runtime::Mutex lock;
  uint64_t next_sequence = 1;

  // Objects: by address; looked up, never iterated for output but in order of `sequence`.
  std::map<const void*, ReferenceEntry> references;
  std::map<const void*, IrpEntry> irps;
  std::map<const void*, IoWorkItem> work_items;
  std::map<const void*, Registration> registrations;
  std::map<const void*, LookasideEntry> lookaside_lists;
  std::map<const void*, uint64_t> resources;  // ERESOURCE -> sequence

  /// \Device\DxgKrnl.
  DeviceObject graphics_device{};
  alignas(64) std::byte system_process[2048]{};

  std::deque<WorkEntry> work;
  std::vector<std::unique_ptr<runtime::Thread>> workers;
  size_t workers_idle = 0;
  bool work_stops = false;
  std::atomic<uint32_t> work_signal{0};       // futex word; counts changes of `work`
  std::atomic<uint32_t> work_outstanding{0};  // queued or running; futex word

  Registry registry;
  std::map<std::u16string, std::vector<std::byte>, NoCaseLess> files;  // virtual files
  uint64_t next_luid = 0x1000;
};

Executive& executive_of(Kernel& kernel);
inline Executive& executive() { return executive_of(CallFrame::current().kernel()); }

/// Address of the OBJECT_TYPE that stands for a kind.
const void* type_object(TypeIndex type);
/// Adds a reference of the driver. `object` keeps the memory alive.
void add_reference(Executive& state, const void* pointer, std::shared_ptr<void> object,
                   TypeIndex type);
/// A new handle for the driver's handle table.
void* make_handle(Kernel& kernel, HandleEntry entry);

/// Ends an IRP: status, completion routines, the caller's event. Returns its final status.
int32_t complete_irp(Kernel& kernel, Irp* irp, int32_t status, uint64_t information);

/// Runs what is queued and waits for it; no work item runs afterwards.
void stop_work(Kernel& kernel);
/// What the driver still holds of the above, appended in a fixed order.
void add_executive_leaks(const Kernel& kernel, std::vector<Leak>& leaks);
/// Forgets everything a driver left.
void clear_executive(Kernel& kernel);

/// A call of something that exists on Windows but is not provided and has no way to say so.
[[noreturn]] void refuse_call(const char* function, const char* why);

/// Text of a driver's UNICODE_STRING; empty if it is null, odd or has no buffer although it has a
/// length.
bool text_of(const UnicodeString* string, std::u16string_view* text);
/// The same, copied: reads driver memory with the copy lent to drivers, so that a bad pointer is
/// the driver's fault. Hold no lock. False as for text_of.
bool capture_text(const UnicodeString* string, std::u16string* text);
/// Copies from or to driver memory; a bad pointer is the driver's fault. Hold no lock.
void copy_driver(void* to, const void* from, size_t bytes);
/// Comparison as the object manager does it: upper-cased units.
bool same_text(std::u16string_view a, std::u16string_view b);
/// RtlUpcaseUnicodeChar: Latin, Greek, Cyrillic, Armenian; other scripts have no case.
char16_t upcase(char16_t unit);
char16_t downcase(char16_t unit);
std::u16string widen(std::string_view utf8);
std::string narrow(std::u16string_view text);

/// Checks that `pointer` is not null; otherwise a fault of the routine called, as on Windows:
/// bug check of NT-01.
template <typename T>
T& required(const char* function, const char* parameter, T* pointer);
[[noreturn]] void null_argument(const char* function, const char* parameter);
template <typename T>
T& required(const char* function, const char* parameter, T* pointer) {
  if (pointer == nullptr) [[unlikely]]
    null_argument(function, parameter);
  return *pointer;
}

}  // namespace dxgkit::nt
