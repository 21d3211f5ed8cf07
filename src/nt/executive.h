// The executive's state apart from memory, waits and threads: I/O objects, references, work items,
// registrations, the registry. Internal to this folder.
#pragma once

#include <deque>
#include <functional>
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

/// References of a driver to an object, apart from handles.
struct ReferenceEntry {
  std::shared_ptr<void> object;  // kept alive; null for objects of the host (devices, drivers)
  TypeIndex type = TypeIndex::kNone;
  int64_t held = 0;
  uint64_t sequence = 0;  // of the first that is held
  Origin taken = {};
};

struct IrpEntry {
  uint64_t sequence = 0;
  bool system = false;    // built for one synchronous request: completion frees it
  HeapBlock memory = {};  // none: the driver's own, given to IoInitializeIrp
};

/// IO_WORKITEM, WORK_QUEUE_ITEM and relatives while they wait for the worker.
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
  HeapBlock memory = {};  // none: the driver's own
  bool allocated() const { return memory != nullptr; }
};

/// A callback or notification a driver registered: a leak if it outlives the driver (NT-14).
struct Registration {
  const char* kind = "";
  uint64_t sequence = 0;
  std::shared_ptr<void> storage;
};

struct LookasideEntry {
  uint64_t sequence = 0;
  bool custom_free = false;  // the driver's own routine
};

/// The owners of an ERESOURCE. Threads are named by their KTHREAD pointers.
struct ResourceState {
  uint64_t sequence = 0;
  const void* owner = nullptr;
  uint32_t depth = 0;
  std::map<const void*, uint32_t> shared;  // looked up only
  uint32_t exclusive_waiters = 0, shared_waiters = 0;
  std::atomic<uint32_t> changes{0};  // futex word
};

struct Executive {
  /// Guards everything below. It nests in no lock, and no lock nests in it.
  mutable runtime::Mutex lock;
  uint64_t next_sequence = 1;

  // Objects by address. They are looked up, and iterated for output in order of `sequence` only.
  std::map<const void*, ReferenceEntry> references;
  std::map<const void*, IrpEntry> irps;
  std::map<const void*, IoWorkItem> work_items;
  std::map<const void*, Registration> registrations;
  std::map<const void*, LookasideEntry> lookaside_lists;
  std::map<const void*, std::shared_ptr<ResourceState>> resources;  // by ERESOURCE
  std::map<const void*, std::vector<bus::PageFrame>> page_mdls;     // MmAllocatePagesForMdl
  std::vector<std::shared_ptr<void>> retired;  // deleted, but a call may still be running

  /// \Device\DxgKrnl.
  DeviceObject graphics_device{};
  alignas(16) std::byte system_process[2048]{};

  std::deque<WorkEntry> work;
  std::vector<std::unique_ptr<runtime::Thread>> workers;
  size_t workers_idle = 0;
  bool work_stops = false;
  std::atomic<uint32_t> work_signal{0};       // futex word; counts changes of `work`
  std::atomic<uint32_t> work_outstanding{0};  // queued or running; futex word

  Registry registry;
  std::function<void(std::u16string_view name)> value_asked;           // see watch_registry
  std::map<std::u16string, std::vector<std::byte>, NoCaseLess> files;  // virtual files
  uint64_t next_luid = 0x1000;
};

Executive& executive_of(Kernel& kernel);
inline Executive& executive() { return executive_of(CallFrame::current().kernel()); }

/// The bodies of exports that refuse every call.
DXGKIT_NT_ABI inline int32_t refuse_status() { return ntstatus::kNotSupported; }
DXGKIT_NT_ABI inline void* refuse_pointer() { return nullptr; }

/// The address of the OBJECT_TYPE that stands for a kind.
const void* type_object(TypeIndex type);
/// Adds a reference of the driver. `object` keeps the memory alive.
void add_reference(Executive& state, const void* pointer, std::shared_ptr<void> object,
                   TypeIndex type);
/// A new handle for the driver's handle table.
void* make_handle(Kernel& kernel, HandleEntry entry);

/// Ends an IRP: status, completion routines, the caller's event. Returns its final status.
int32_t complete_irp(Kernel& kernel, Irp* irp, int32_t status, uint64_t information);

/// Runs the queued work items and waits for them. No work item runs afterwards.
void stop_work(Kernel& kernel);
/// Appends the objects above that the driver still holds, in a fixed order.
void add_executive_leaks(const Kernel& kernel, std::vector<Leak>& leaks);
/// Drops everything that a driver left.
void clear_executive(Kernel& kernel);

/// The KTHREAD pointer of the calling thread.
void* current_thread_object();

/// The address at which a driver can call one of our functions.
const void* address_for_driver(Kernel& kernel, const char* name, const void* function);

/// Calls a driver routine that the driver named in a call, at the level of that call. If the
/// routine is abandoned, so is the caller: hold nothing.
template <typename R, typename... P, typename... A>
R call_driver(const char* name, R(DXGKIT_NT_ABI* routine)(P...), A... arguments) {
  CallFrame& outer = CallFrame::current();
  const auto enter = [&](auto&& call) {
    bool returned = false;
    {
      CallFrame frame(outer.kernel(), name, outer.irql());
      frame.owner = outer.owner;
      returned = call(frame);
      if (returned && frame.irql() != frame.entry_irql()) {
        outer.kernel().violation(
            "IRQL-01", name,
            std::string("The routine returned at ") + irql_name(frame.irql()) + ".",
            "A routine returns at the level it was called at.",
            "Pair every raise, lower and spin-lock call in the routine.");
        frame.restore_entry_irql();
      }
    }
    if (!returned) outer.abandon();
  };
  if constexpr (std::is_void_v<R>) {
    enter([&](CallFrame& frame) { return frame.call_void(routine, arguments...); });
  } else {
    R result{};
    enter([&](CallFrame& frame) { return frame.call(routine, &result, arguments...); });
    return result;
  }
}

/// KeSetTimerEx with a period in ns. True if it was armed before.
bool set_kernel_timer(Kernel& kernel, Ktimer& timer, int64_t due, int64_t period_ns, Kdpc* dpc);

/// KSPIN_LOCKs of drivers, level unchanged.
void acquire_driver_spin_lock(const char* function, uint64_t* lock);
void release_driver_spin_lock(const char* function, uint64_t* lock);
class SpinLockScope {
 public:
  SpinLockScope(const char* function, uint64_t* lock) : function_(function), lock_(lock) {
    acquire_driver_spin_lock(function, lock);
  }
  ~SpinLockScope() { release_driver_spin_lock(function_, lock_); }
  SpinLockScope(const SpinLockScope&) = delete;
  SpinLockScope& operator=(const SpinLockScope&) = delete;

 private:
  const char* function_;
  uint64_t* lock_;
};

/// A call of a routine that exists on Windows, is not provided here, and cannot report an error.
[[noreturn]] void refuse_call(const char* function, const char* why);

/// The text of a driver's UNICODE_STRING. Empty if the pointer is null, the length is odd, or a
/// length has no buffer.
bool text_of(const UnicodeString* string, std::u16string_view* text);
/// The same as a copy. Reads driver memory with the copy routine lent to drivers, so that a bad
/// pointer is the driver's fault. Hold no lock. False as for text_of.
bool capture_text(const UnicodeString* string, std::u16string* text);
/// Copies from or to driver memory; a bad pointer is the driver's fault. Hold no lock.
void copy_driver(void* to, const void* from, size_t bytes);
/// Compares as the object manager does: upper-cased units.
bool same_text(std::u16string_view a, std::u16string_view b);
/// RtlUpcaseUnicodeChar: Latin, Greek, Cyrillic, Armenian; other scripts have no case.
char16_t upcase(char16_t unit);
char16_t downcase(char16_t unit);
std::u16string widen(std::string_view utf8);
std::string narrow(std::u16string_view text);

/// Checks that `pointer` is not null. A null pointer is a fault of the called routine, as on
/// Windows: bug check of NT-01.
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
