// Internals of Kernel, shared by the files of this folder only.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "nt/context.h"
#include "nt/executable.h"
#include "nt/heap.h"
#include "nt/kernel.h"
#include "nt/polls.h"
#include "nt/pool.h"
#include "nt/stalls.h"
#include "nt/system_time.h"
#include "runtime/deadlock_note.h"
#include "runtime/sync.h"

namespace dxgkit::nt {

struct ContiguousBlock {
  uint64_t sequence = 0;
  bus::PageFrame first;
  uint64_t page_count = 0;
  Origin taken = {};
  uint64_t bytes = 0;                  // as asked for
  std::optional<uint32_t> cache = {};  // as asked for; none: the routine takes none
};

struct Mapping {
  enum class Kind { kIoSpace, kMdl, kView };
  uint64_t sequence = 0;
  Kind kind = Kind::kIoSpace;
  uint64_t bytes = 0;
  std::unique_ptr<bus::CpuView> view = {};  // kView
  Origin taken = {};
};

struct TimerEntry {
  uint64_t sequence = 0;
  std::unique_ptr<runtime::Timer> timer;
  bool armed = false;
  int64_t period_ns = 0;
  uint64_t generation = 0;
  Origin set_by = {};
};

/// A thread blocked on dispatcher objects. Lives on that thread's stack.
struct Waiter {
  std::span<DispatcherHeader* const> objects;
  bool wait_all = false;
  uint64_t thread = 0;
  std::atomic<uint32_t> woken{
      0};  // futex word; set under the dispatcher lock: 1 satisfied, 2 abandon
  int32_t satisfied_index = -1;
};

/// A call of the driver that waits in an export. Lives on the stack of its thread.
struct WaitingCall {
  const CallFrame* frame = nullptr;
  uint32_t thread = 0;  // its number
  WaitingCall* next = nullptr;
};

/// All of them, the newest first, for the report of one that waits for too long. Any thread. The
/// lock is held for moments, and is no point where a simulation switches threads.
class WaitingCalls {
 public:
  /// While one lives, the calling thread counts as waiting in `frame`.
  class Scope {
   public:
    Scope(WaitingCalls& calls, const CallFrame& frame);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WaitingCalls& calls_;
    WaitingCall call_;
  };
  /// A call, copied while it waited.
  struct Seen {
    std::string name;  // of the DDI or callback
    uint32_t thread = 0;
    bool in_door = false;
    DoorFrame door;  // while in_door
  };
  /// Without the calls of `thread`, by thread.
  std::vector<Seen> others(std::optional<uint32_t> thread);

 private:
  void lock() {
    while (busy_.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() { busy_.clear(std::memory_order_release); }

  std::atomic_flag busy_;
  WaitingCall* first_ = nullptr;
};

/// A system thread of the driver: the object behind its KTHREAD pointer and handles.
struct ThreadObject {
  DispatcherHeader header{};
  uint64_t references = 1;
  std::unique_ptr<runtime::Thread> thread;
  uint64_t sequence = 0;
  std::string name;
  bool ended = false;
  Origin started_by = {};
};

struct KeyObject {
  std::shared_ptr<struct RegistryKey> key;
};
struct NamedEventObject {
  Kevent event{};
};

struct OpenFile {
  std::vector<std::byte> data;
  uint64_t position = 0;
};

struct HandleEntry {
  enum class Kind { kThread, kKey, kEvent, kFile } kind = Kind::kKey;
  std::shared_ptr<ThreadObject> thread;
  std::shared_ptr<KeyObject> key;
  std::shared_ptr<NamedEventObject> event;
  std::shared_ptr<OpenFile> file = {};
  uint64_t sequence = 0;
  Origin taken = {};
};

struct MdlEntry {
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  Origin taken = {};
  HeapBlock memory = {};
};

/// Pages of stubs.
struct DoorBlock {
  DoorBlock();
  ~DoorBlock();
  DoorBlock(const DoorBlock&) = delete;
  DoorBlock& operator=(const DoorBlock&) = delete;
  /// Null if there is no room. The target must not move.
  const void* add(const DoorTarget& target);
  /// Any code of up to room() bytes.
  const void* add_code(std::span<const uint8_t> bytes);
  size_t room() const;
  uint8_t* writable = nullptr;
  const uint8_t* code = nullptr;
  size_t used = 0;
};

/// All doors of a kernel. Any thread.
struct Doors {
  const void* make(DoorTarget target);
  runtime::Mutex lock;
  std::deque<DoorTarget> targets;  // never moved
  std::vector<std::unique_ptr<DoorBlock>> blocks;
  std::map<std::pair<const void*, std::string_view>, const void*> stubs;  // looked up only
};

/// Copies of instructions that touched device memory, by their bytes; see emulate.cpp.
struct EmulatorStubs {
  runtime::Mutex lock;
  std::map<std::string, const void*> code;  // looked up only
  std::vector<std::unique_ptr<DoorBlock>> blocks;
};

struct UnresolvedImport {
  std::string name, library;
};

struct Executive;  // executive.h
std::shared_ptr<Executive> make_executive(PoolHeap& heap, const KernelConfig& config);

/// What calls of the driver have stalled (stalls.h). A lock would be a scheduling point, and change
/// each run whose driver polls.
class StallCounter {
 public:
  /// @param since  of the running call of this frame, which tells it from those before it.
  void add(const CallFrame& frame, runtime::TimeNs since, runtime::DurationNs length);
  std::optional<Stall> take_longest();

 private:
  struct Call {
    runtime::TimeNs since = 0;
    runtime::DurationNs length = 0;
  };
  std::atomic_flag busy_;
  std::map<const CallFrame*, Call> calls_;  // looked up only
  Stall longest_;
};

/// Counts looks of the driver between which it does nothing else (polls.h).
class LookCounter {
 public:
  void add(const CallFrame& frame, runtime::TimeNs now);
  std::optional<Polling> take_densest();

 private:
  const CallFrame* frame_ = nullptr;  // compared only
  uint64_t calls_ = 0;                // of the driver, at its last look
  runtime::TimeNs at_ = 0;
  uint32_t looks_ = 0;
  Polling densest_;
};

struct Kernel::Impl {
  explicit Impl(bus::Machine& machine) : pool_pages(machine), heap(pool_pages) {}

  PoolPages pool_pages;
  PoolHeap heap;  // the objects below lie in it, so it goes last
  std::shared_ptr<Executive> executive;
  Doors doors;
  uint8_t number_of_processors = 1;  // the driver's KeNumberProcessors
  EmulatorStubs emulator;
  std::atomic<std::byte> stack_fill{std::byte{0}};  // see stack_fill.h
  // Futex word, 1: the kernel ends, and waiting driver threads are abandoned.
  std::atomic<uint32_t> ending{0};
  std::atomic<uint32_t> word_waiters{0};  // threads in wait_for_word
  WaitingCalls waiting_calls;
  std::optional<runtime::DeadlockNote> deadlock_note;  // tells of these
  std::atomic<runtime::DurationNs> thread_delay{0};    // see set_thread_delay
  StallCounter stalls;
  mutable LookCounter looks;  // read by who only looks at the kernel
  std::function<void(const verifier::Finding&)> fatal_handler;
  std::function<bool(std::string_view routine)> allocation_fault;  // see pool.h
  bool allocation_fails(const char* routine) const {
    if (!allocation_fault || !allocation_fault(routine)) return false;
    CallLog::note("this run makes the call fail");
    return true;
  }
  InitializeHook initialize_hook;
  std::atomic<void*> default_owner{nullptr};

  // Memory. Lock order: none of these locks nests in another.
  mutable runtime::Mutex memory_lock;
  std::map<const void*, PoolBlock> pool;  // looked up, never iterated for output
  std::unique_ptr<SpecialArena> arena;    // null unless special_pool
  std::deque<FreedBlock> freed;           // oldest first
  uint64_t freed_pages = 0;               // of those in the arena
  std::map<const void*, ContiguousBlock> contiguous;
  std::map<const void*, Mapping> mappings;
  std::map<const void*, MdlEntry> mdls;
  uint64_t pool_bytes = 0;
  uint64_t next_sequence = 1;

  // Dispatcher objects, waiters, timers, threads, handles.
  mutable runtime::Mutex dispatcher_lock;
  std::list<Waiter*> waiters;  // in order of arrival
  std::map<const void*, TimerEntry> timers;
  uint64_t next_timer = 1;  // sequence of the next that is set
  std::map<uint64_t, HandleEntry> handles;
  std::map<const void*, std::shared_ptr<ThreadObject>> threads;  // by KTHREAD pointer
  uint64_t next_handle = 4;

  // DPCs queued or running; futex word for flush_dpcs.
  std::atomic<uint32_t> dpcs_outstanding{0};

  // Changed only while the driver does not run; the fault handler reads it.
  std::vector<FaultRange> fault_ranges;
  std::vector<DriverImage> images;
  ExecutableBlocks executable;  // the fault handler reads it, too
  // Places where threads that ran out of stack were reported. A list through the first word of
  // each.
  std::atomic<void*> emergency_stacks{nullptr};

  std::map<std::string, const void*, std::less<>> traps;
  std::vector<std::pair<void*, size_t>> trap_pages;
  std::deque<UnresolvedImport> trap_imports;
};

/// Signals a dispatcher object and hands it to waiters in order. The caller holds
/// `dispatcher_lock`.
void release_waiters(Kernel& kernel);
/// The end of a wait with this NT timeout, in runtime time.
runtime::TimeNs deadline_of(Kernel& kernel, const int64_t* timeout);
/// The common body of the waits. Returns the index of the object, or STATUS_TIMEOUT.
int32_t wait_for_objects(const char* function, std::span<DispatcherHeader* const> objects,
                         bool wait_all, const int64_t* timeout);
/// The name of the frame that a thread of PsCreateSystemThread runs in.
inline constexpr const char* kSystemThread = "system thread";
/// Makes every thread blocked in a wait leave the driver for good. Later waits do so at once.
void abandon_waiters(Kernel& kernel);
/// KeSetEvent without the IRQL check.
int32_t set_event(Kernel& kernel, Kevent& event);
/// The time when a wait of the running driver call counts as hanging; kForever: never.
runtime::TimeNs hang_deadline(CallFrame& frame);
/// Reports NT-20 for a wait that lasted until hang_deadline. `object` says for what: "spin lock
/// 0x1234".
[[noreturn]] void report_wait(CallFrame& frame, const char* function, std::string object);
/// "event 0x1234 (driver.sys+0x5678 ready)", with the owner of a mutex, and of a thread what it
/// waits for. Takes the dispatcher lock.
std::string describe_object(Kernel& kernel, const DispatcherHeader* object);
/// A sentence for each thread that waits in the driver, but for `thread`: with its stack, and with
/// `before` in front.
std::string describe_waits(Kernel& kernel, std::optional<uint32_t> thread, const char* before);
/// The name of the thread that owns a lock, by its number + 1.
std::string owner_name(Kernel& kernel, uint64_t owner);
/// One wait of driver code for `word` to leave `expected`. Leaves the driver if the kernel ends.
/// False: it lasted until `hangs`, and the caller reports it.
[[nodiscard]] bool wait_for_word(CallFrame& frame, const std::atomic<uint32_t>& word,
                                 uint32_t expected, runtime::TimeNs hangs);
/// Called before a sleep of the driver. Reports NT-20 if the running call has slept for too long in
/// all.
void check_sleep(CallFrame& frame, const char* function);
/// Called after a stall of the driver (stalls.h), behind check_sleep.
void count_stall(CallFrame& frame, runtime::DurationNs length);
/// Call it before the calling OS thread runs driver code that may loop for ever.
void watch_driver_thread();
/// Works once per process; later calls do nothing.
void install_fault_handler();
/// Gives the calling OS thread a stack for the fault handler. Once per thread.
void make_signal_stack();
void free_emergency_stacks(Kernel::Impl& state);
/// The bug check for an unhandled exception of driver code.
[[noreturn]] void report_unhandled(CallFrame& frame, const ExceptionRecord& record,
                                   const Context& context);
/// The place of driver code: image, symbol, registers, frames.
verifier::Place describe_place(const Kernel::Impl& state, const Context& context);
/// Makes `context` that of the driver's call that led there, if the stack begins with an address to
/// return to. False: it does not, and nothing has changed.
bool step_back(const Kernel::Impl& state, Context* context);
/// Cancels the driver's armed timers, and waits for running callbacks.
void cancel_all_timers(Kernel& kernel);
/// Frees leaked pool, contiguous memory and mappings.
void free_leaked_memory(Kernel& kernel);

/// NT-07: `function` was called at a level outside its range.
void report_irql(CallFrame& frame, const char* function, Irql lowest, Irql highest);
/// Reports NT-07 if the caller runs above `highest` and its door has not done so. Returns true if
/// the level is allowed.
bool require_irql(CallFrame& frame, const char* function, Irql highest);

/// Undoes MmMapIoSpace or DxgkCbMapMemory; false if `pointer` is not such a mapping of the driver.
/// @param mapped_bytes  receives the size of the mapping that was ended; may be null.
bool unmap_io(Kernel& kernel, void* pointer, uint64_t* mapped_bytes = nullptr);
/// MmMapIoSpace for the calling thread's kernel; null if the range is in no BAR. The port uses it
/// too.
void* map_io_for_driver(uint64_t physical, uint64_t bytes);

/// One line of an export table.
#define DXGKIT_EXPORT(name, function, support, note)                                         \
  ::dxgkit::nt::Export {                                                                     \
    name, reinterpret_cast<const void*>(&function), ::dxgkit::nt::Support::support, note, 0, \
        ::dxgkit::nt::stack_arguments_of(&function), ::dxgkit::nt::result_kind_of(&function) \
  }

std::span<const Export> memory_exports();
std::span<const Export> pool_exports();
std::span<const Export> sync_exports();
std::span<const Export> thread_exports();
std::span<const Export> timer_exports();
std::span<const Export> registry_exports();
std::span<const Export> string_exports();
std::span<const Export> debug_exports();
std::span<const Export> io_exports();
std::span<const Export> object_exports();
std::span<const Export> work_exports();
std::span<const Export> registry_rtl_exports();
std::span<const Export> system_exports();
std::span<const Export> refused_exports();
std::span<const Export> file_exports();
std::span<const Export> resource_exports();
/// device_resources.cpp
std::span<const Export> device_resource_exports();
std::span<const Export> list_exports();
std::span<const Export> lock_exports();
std::span<const Export> rtl_exports();
std::span<const Export> crt_exports();
std::span<const Export> page_exports();
std::span<const Export> exception_exports();
std::span<const Export> probe_exports();

/// The processors of the machine, bit n for number n.
uint64_t active_processors(const Kernel& kernel);
/// The variable KeNumberProcessors of drivers that are no image; an image has its kernel's.
extern const uint8_t kNumberProcessors;

/// The documented levels of an export, and whether it runs on the driver's stack: irql_levels.cpp.
void set_levels(Export& entry);

/// True if a part of the range is memory that the kernel knows as its own. See probe.cpp.
bool is_kernel_memory(Kernel& kernel, uint64_t start, uint64_t bytes);

}  // namespace dxgkit::nt
