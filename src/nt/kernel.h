// The part of the NT executive that display miniports need: one Kernel per driver under test.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "bus/machine.h"
#include "nt/call_log.h"
#include "nt/door.h"
#include "nt/layout.h"
#include "runtime/runtime.h"
#include "verifier/findings.h"

namespace dxgkit::nt {

inline constexpr Irql kPassiveLevel = 0;
inline constexpr Irql kApcLevel = 1;
inline constexpr Irql kDispatchLevel = 2;
/// Device interrupt level of every adapter.
inline constexpr Irql kDeviceLevel = 5;
inline constexpr Irql kHighLevel = 15;
/// "PASSIVE_LEVEL", "DISPATCH_LEVEL", "DIRQL", ...
const char* irql_name(Irql irql);

/// One registry value; types are REG_* numbers.
struct RegistryValue {
  uint32_t type = 0;
  std::vector<std::byte> data;
  static RegistryValue dword(uint32_t value);
  static RegistryValue string(std::u16string_view value);  // REG_SZ, terminated
  static RegistryValue binary(std::span<const std::byte> value);
};

struct KernelConfig {
  /// Key path ("\\Registry\\Machine\\...", or kDeviceKey / kDriverKey) -> value name -> value.
  /// Names compare without case.
  std::map<std::string, std::map<std::string, RegistryValue>> registry = {};
  /// Pool allocations fail when the live bytes would exceed this.
  uint64_t pool_bytes_max = UINT64_MAX;
  /// Faults in driver code become findings. If off, a fault ends the process at the faulting
  /// instruction, for a debugger.
  bool catch_faults = true;
  /// Receives the driver's output (DbgPrintEx and relatives), line by line as given. Any thread.
  /// Null: the output is traced only.
  std::function<void(std::string_view)> debug_print = {};
  /// Usable bytes of the stack for code of a driver image, rounded up to pages; Windows gives 24
  /// KiB. 0: driver code runs on the thread's own stack. Code in no image (a driver compiled into a
  /// test) always does so.
  uint32_t driver_stack_bytes = 24 * 1024;
  /// Puts each pool block on pages of its own between inaccessible ones, its end at the end of a
  /// page. Freed blocks stay inaccessible for a while. So the first access outside a block, and any
  /// access after the free, is found at once (NT-10, NT-11). Costs two pages per block. Non-paged
  /// blocks of a page or more have a physical address and only canaries, like all blocks without
  /// this option.
  bool special_pool = false;
  /// See Kernel::set_hang_limit.
  runtime::DurationNs hang_limit = 0;
  /// Makes every call of an import by a driver image a trace event (kCallbackEnter).
  bool trace_imports = false;
  /// The processors that the driver sees, 1 to 64. Its code runs on any of them: only a thread that
  /// asked for some of them, and a DPC that was sent to one, can tell them apart.
  uint32_t processors = 1;

  /// The paths that IoOpenDeviceRegistryKey opens as device key and as driver key, and the
  /// RegistryPath of DriverEntry.
  static constexpr const char* kDeviceKey = "\\Registry\\Machine\\dxgkit\\Device";
  static constexpr const char* kSoftwareKey = "\\Registry\\Machine\\dxgkit\\Driver";
  /// The values that IoGetDeviceProperty returns: see docs/registry.md.
  static constexpr const char* kPropertiesKey = "\\Registry\\Machine\\dxgkit\\Properties";
  static constexpr const char* kDriverKey =
      "\\Registry\\Machine\\System\\CurrentControlSet\\Services\\dxgkit";
};

/// Code of a driver in this process; see Kernel::add_image.
struct DriverImage {
  std::string name;  // "softgpu.sys", for findings
  const std::byte* base = nullptr;
  uint64_t size = 0;
  /// The x64 exception directory as it lies in the image (12-byte RUNTIME_FUNCTION entries,
  /// sorted). Empty: no handlers and no unwinding.
  std::span<const std::byte> functions = {};
  /// "SgpuPatch+0x14" or empty. Not called in a signal handler.
  std::function<std::string(uint64_t rva)> symbol = {};
  std::string path = {};  // of its file, for the debugging information; empty: unknown
};

/// A range of addresses. A driver's access to it becomes a finding; see Kernel::add_fault_range.
struct FaultRange {
  const void* start = nullptr;
  uint64_t size = 0;
  const char* rule = "";      // of the finding
  const char* what = "";      // "the private data of a packet that has none"
  const char* expected = "";  // full sentences
  const char* fix = "";
};

class Kernel;
class PoolHeap;
struct ActiveDispatch;

/// The number of calls of driver code by the calling OS thread so far.
extern constinit thread_local uint64_t t_driver_calls;
/// Where every call of driver code leaves its name, a literal, for the last words of this process.
/// Null: nowhere. Set before the first call.
extern constinit std::atomic<const char*>* g_call_note;

/// One call into driver code, on the caller's stack: the call's kernel, its IRQL, and the place
/// where an abandoned call returns.
///
/// Frames of one thread form a stack in Runtime::thread_slot(kNt). Functions that a driver calls
/// find their kernel and IRQL there. When the last frame at or above DISPATCH_LEVEL ends, its
/// destructor runs the thread's queued DPCs.
///
/// Abandoning. A bug check in the driver, or a call of an import that does not exist, cannot
/// return. Control goes back to the innermost frame that was entered through `call`, as if the
/// driver had returned, and `abandoned()` is true there. Driver frames in between are lost, and the
/// locks they hold stay held, so no code may call that driver again. Our own code never lies
/// between a driver and the frame it is abandoned to, except leaf functions of nt that hold
/// nothing.
class CallFrame : private DoorFrame {
 public:
  /// `name` must live as long as the kernel: a literal such as "DxgkDdiPatch".
  inline CallFrame(Kernel& kernel, const char* name, Irql irql);
  ~CallFrame() {
    if (root_->dpc_head_ != nullptr) [[unlikely]]
      end_root_work();
    *slot_ = previous_;
    if (stack_ != nullptr) release_driver_stack(stack_);
  }
  CallFrame(const CallFrame&) = delete;
  CallFrame& operator=(const CallFrame&) = delete;

  /// Calls `function(arguments...)` of the driver. Code of a driver image runs on the thread's
  /// driver stack, other code on the caller's. False if the call was abandoned; then *result is
  /// unchanged.
  template <typename R, typename... P, typename... A>
  bool call(R(DXGKIT_NT_ABI* function)(P...), R* result, A... arguments) {
    prepare(reinterpret_cast<const void*>(function), stack_arguments_of(function));
    redirect(function);
    const R value = function(arguments...);
    if (!finish()) return false;
    *result = value;
    return true;
  }
  template <typename... P, typename... A>
  bool call_void(void(DXGKIT_NT_ABI* function)(P...), A... arguments) {
    prepare(reinterpret_cast<const void*>(function), stack_arguments_of(function));
    redirect(function);
    function(arguments...);
    return finish();
  }

  /// The innermost frame of the calling thread; null outside driver calls.
  static CallFrame* current_or_null() {
    void** const slots = runtime::detail::t_thread_slots;
    return slots == nullptr ? nullptr : static_cast<CallFrame*>(slots[0]);
  }
  /// The same, but the thread must have a frame. A driver that calls from a thread without one is
  /// our bug.
  static CallFrame& current();

  Kernel& kernel() const { return kernel_; }
  const char* name() const { return name_; }
  CallFrame* previous() const { return previous_; }
  bool abandoned() const { return abandoned_; }
  Irql irql() const { return current_irql; }
  Irql entry_irql() const { return entry_irql_; }
  /// Raises only. Returns the old level.
  Irql raise(Irql irql);
  /// Lowers (or keeps) the level. Runs the thread's DPCs when it falls below DISPATCH_LEVEL.
  void lower(Irql irql);
  /// Restores the level after the driver returned, without a check.
  void restore_entry_irql() { current_irql = entry_irql_; }

  /// Leaves driver code for good: see the class comment. Does not return.
  [[noreturn]] void abandon();

  /// The thread acquired or released a spin lock. The driver call during which it was acquired must
  /// not end before it is released (NT-16).
  void hold_spin_lock(const void* lock) {
    const uint32_t index = root_->held_count_++;
    if (index < kHeldLocksMax) root_->held_locks_[index] = {lock, caller(), name_};
  }
  void drop_spin_lock(const void* lock);
  struct HeldLock {
    const void* lock;
    const void* caller;  // in the image; null: unknown
    const char* ddi;
  };
  /// Where this thread acquired the lock; null if that is not known.
  const HeldLock* held_lock(const void* lock) const;

  /// Queues for this thread; false if it was queued already (on any thread). Any IRQL.
  bool queue_dpc(Kdpc& dpc, void* argument1, void* argument2);
  /// Removes the DPC from this thread's queue; false if it is not there. Any IRQL.
  bool remove_dpc(Kdpc& dpc);
  /// The processors that the driver chose for this thread in the running call, bit n for number n;
  /// 0: all. Returns the choice before it.
  uint64_t choose_processors(uint64_t mask) { return std::exchange(root_->processor_mask_, mask); }
  /// The number of the processor that this thread is on.
  uint32_t processor() const {
    return root_->processor_mask_ == 0
               ? 0
               : static_cast<uint32_t>(std::countr_zero(root_->processor_mask_));
  }
  /// A pointer of the port, which callbacks read again: the adapter. Null by default.
  void* owner = nullptr;
  /// The driver's system thread whose first frame this is, or null.
  void* thread = nullptr;
  /// The time of the first sleep of the running call, + 1 ns; 0: none yet (hang.cpp).
  runtime::TimeNs slept_since = 0;

  // --- stacks (see door.h)
  /// True while code of a driver image, called through this frame, is inside a door: it called the
  /// host function that asks.
  bool in_door() const { return driver_sp != base_sp; }
  /// The driver's registers at that call; only while in_door().
  const DoorFrame& door() const { return *this; }
  /// The call is being abandoned after a fault in it: another fault there is not the driver's.
  void forget_call() { callee = nullptr; }
  /// The address from which the driver image called, or null if not in_door().
  const void* caller() const { return in_door() ? reinterpret_cast<const void*>(rip) : nullptr; }
  /// The driver stack of code called through this frame; 0 bytes if there is none.
  uint64_t driver_stack_low() const { return stack_low; }
  uint64_t driver_stack_bytes() const { return stack_bytes; }
  /// While driver code runs: the host stack pointer (16-byte aligned) below which host code may
  /// run. Fault handlers need it.
  std::byte* host_stack() const { return host_sp; }
  /// The door has already reported the level of the running export.
  bool irql_was_reported() const { return irql_reported != 0; }
  /// The number of the driver's call in the thread's CallLog; 0 without one.
  uint64_t logged_call_number() const { return in_door() && logged != 0 ? logged_call : 0; }

  // --- exceptions (see seh.h)
  /// Exceptions of the driver code called through this frame that are being handled.
  ActiveDispatch* dispatches = nullptr;
  /// Driver code stopped at `pc` on stack `sp` without a door, at a fault. Host code that serves
  /// the fault counts as called from there.
  void stopped_at(uint64_t sp, const void* pc) {
    driver_sp = sp & ~uint64_t{15};
    rip = reinterpret_cast<uint64_t>(pc);
    callee = nullptr;
  }
  /// Driver code (a filter, a handler) runs below host code that waits for it, so doors continue
  /// below that host code.
  std::byte** lower_host_stack() {
    if (whole_host_stack_ == nullptr) whole_host_stack_ = host_sp;
    return &host_sp;
  }
  /// Restores host_stack().
  void raise_host_stack(std::byte* to) {
    host_sp = to;
    if (to == whole_host_stack_) whole_host_stack_ = nullptr;
  }

 private:
  friend class Kernel;
  void run_dpcs();
  void end_root_work();
  void report_held_locks();
  void take_stack();
  inline void prepare(const void* function, uint32_t stack_argument_count);
  /// Hidden from the optimiser, which would otherwise use the calling convention with which `enter`
  /// is declared.
  template <typename F>
  static void redirect(F& function) {
    function = reinterpret_cast<F>(&dxgkit_nt_enter);
    asm("" : "+r"(function));
  }
  bool finish() {
    if (can_abandon_) [[likely]] {
      can_abandon_ = false;
      if (root_->held_count_ > held_at_entry_) [[unlikely]]
        report_held_locks();
      return true;
    }
    abandoned_ = true;
    return false;
  }

  Kernel& kernel_;
  const char* name_;
  CallFrame* previous_;
  CallFrame* root_;
  void** slot_;
  Kdpc* dpc_head_ = nullptr;  // of the root frame only
  Kdpc* dpc_tail_ = nullptr;
  DriverStack* stack_ = nullptr;  // taken by this frame
  uint64_t processor_mask_ = 0;   // of the root frame only
  // Of the root frame only: the spin locks of the thread, as far as they have room, oldest first.
  static constexpr uint32_t kHeldLocksMax = 8;
  std::array<HeldLock, kHeldLocksMax> held_locks_;
  uint32_t held_count_ = 0;
  uint32_t held_at_entry_ = 0;             // when the driver was called through this frame
  std::byte* whole_host_stack_ = nullptr;  // what `enter` set, while host_sp is lowered
  Irql entry_irql_;
  bool can_abandon_ = false;
  bool abandoned_ = false;
};

/// Raises the level of the calling thread's innermost frame for a scope.
class IrqlScope {
 public:
  explicit IrqlScope(Irql irql) : frame_(CallFrame::current()), old_(frame_.raise(irql)) {}
  ~IrqlScope() { frame_.lower(old_); }
  IrqlScope(const IrqlScope&) = delete;
  IrqlScope& operator=(const IrqlScope&) = delete;

 private:
  CallFrame& frame_;
  Irql old_;
};

enum class Support { kSupported, kPartial, kRefused };
/// A function or variable that a driver may import.
struct Export {
  const char* name;
  const void* address;
  Support support;
  const char* note;         // what is partial or refused; empty when supported
  uint32_t data_bytes = 0;  // size of a variable; 0: a function
  uint32_t stack_arguments = kUnknownStackArguments;  // at most; see door.h
  ResultKind result_kind = ResultKind::kUnknown;
  // From the table in irql_levels.cpp.
  Irql irql_max = 15;
  Irql irql_min = 0;
  /// Runs on the driver's stack with the driver's registers: assembly that must not go through a
  /// door.
  bool direct = false;
};
/// All exports, sorted by name: the support table.
std::span<const Export> exports();
/// The initial entry of a driver object's MajorFunction. It completes the request: plug and play
/// ones with the status they came with, others as invalid.
const void* unhandled_request();
/// Null if there is no export of that name.
const Export* find_export(std::string_view name);
/// The export of that name, which must be one, as a function.
template <typename Signature>
Signature* export_function(const char* name) {
  return reinterpret_cast<Signature*>(const_cast<void*>(find_export(name)->address));
}

/// An object that a driver still owns; see Kernel::leaks.
struct Leak {
  std::string what;  // "pool", "contiguous memory", "MDL", "mapping", "timer", "thread", "handle",
                     // "queued DPC"
  std::string tag;   // pool tag, or empty
  uint64_t count = 0;
  uint64_t bytes = 0;
  std::string first = {};        // allocator of the first: "SgpuStart+0x14 in DxgkDdiStartDevice"
  const void* caller = nullptr;  // where in the image; null if unknown
};

/// The NT state of one driver. Functions of the export table reach it through the calling thread's
/// frame.
class Kernel {
 public:
  Kernel(runtime::Runtime& runtime, bus::Machine& machine, verifier::Findings& findings,
         KernelConfig config = {});
  /// Ends the driver's system threads at their next wait, and frees leaked objects silently (see
  /// report_leaks).
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  runtime::Runtime& runtime() const { return runtime_; }
  bus::Machine& machine() const { return machine_; }
  verifier::Findings& findings() const { return findings_; }
  const KernelConfig& config() const { return config_; }

  /// Reports a violation of `rule` by the code that runs in the calling thread's innermost frame.
  void violation(const char* rule, const char* function, std::string actual, std::string expected,
                 std::string fix);
  /// Reports a finding of kBugCheck and abandons the driver call. `function` is the function that
  /// the driver called.
  [[noreturn]] void bug_check(const char* rule, const char* function, uint32_t code,
                              uint32_t parameter, std::string actual, std::string expected,
                              std::string fix);
  /// The same for a finding with more details. Its severity becomes kBugCheck.
  [[noreturn]] void bug_check(verifier::Finding&& finding);
  /// Called once, with the first kBugCheck finding raised here, before the call is abandoned. The
  /// port stops its adapter.
  void set_fatal_handler(std::function<void(const verifier::Finding&)> handler);
  /// True after bug_check: the driver must not be called again.
  bool driver_is_dead() const { return dead_.load(std::memory_order_relaxed); }

  /// The objects that the driver has not released, in a fixed order. Call it when the driver is
  /// quiet (after Unload).
  std::vector<Leak> leaks() const;
  /// Reports one LIFE-20 violation per leak and returns their number. Frees what it can, so that
  /// the host does not leak.
  size_t report_leaks(const char* when);

  /// The functions behind DxgkInitialize and DxgkInitializeDisplayOnlyDriver. The port sets them
  /// around DriverEntry.
  using InitializeHook = std::function<int32_t(const void* initialization_data, bool display_only)>;
  void set_initialize_hook(InitializeHook hook);

  /// The address that a driver gets for an import that does not exist here. A call of it reports a
  /// finding and abandons the driver call. The same name gives the same address. Not thread-safe;
  /// load time only.
  const void* unresolved_import(std::string_view name, std::string_view library = {});

  /// The address that an image driver gets for an export: a stub that moves the call to the host
  /// stack and back, checks the level (NT-07), and traces it if asked for. Variables, and exports
  /// that must run on the driver's stack, are returned as they are. The same export gives the same
  /// address. Any thread; the address lives as long as the kernel.
  const void* door(const Export& target);
  /// The same for any Win64 function of ours that an image driver calls: a callback, or an entry of
  /// an interface. `name` must live as long as the kernel. The same (function, name) gives the same
  /// address; null gives null.
  const void* door(const char* name, const void* function,
                   uint32_t stack_arguments = kUnknownStackArguments, Irql irql_max = 15,
                   ResultKind result_kind = ResultKind::kUnknown);
  /// True if `address` lies in the guard of a driver stack that the calling thread uses: driver
  /// code overran its stack (NT-03). Signal-safe.
  static bool is_stack_guard(const void* address);

  /// True if `address` is code or data of an image added with add_image.
  bool is_driver_code(const void* address) const {
    return reinterpret_cast<uint64_t>(address) - code_low_ < code_bytes_ ||
           (several_images_ && is_code_of_any_image(address));
  }
  /// True if `address` lies in special pool; a fault there is NT-10 or NT-11. Signal-safe.
  bool is_special_pool(const void* address) const;
  /// True if the driver is an image, whose calls come through doors.
  bool runs_an_image() const { return code_bytes_ != 0; }
  /// Image, offset and symbol of a return address in a driver image; empty elsewhere. Not in a
  /// signal handler.
  verifier::Place place_of(const void* address) const;
  /// The same for a function that the driver put into its table.
  verifier::Place entry_place_of(const void* function) const;

  /// Adds driver code. A fault of this code becomes an exception of the driver. An unhandled
  /// exception becomes a bug check finding (NT-01) and an abandoned call, and does not end the
  /// process. Not while the driver runs.
  void add_image(DriverImage image);
  void remove_image(const std::byte* base);
  /// Makes a fault at an address of the range a bug check finding and an abandoned call. Not while
  /// the driver runs. The texts must live as long as the range.
  void add_fault_range(FaultRange range);
  void remove_fault_range(const void* start);

  /// Memory for more that drivers see by address.
  PoolHeap& heap();

  /// Frees an MDL that the kernel made. A mapping that the driver made through it ends too,
  /// silently, as on Windows.
  void release_mdl(const void* mdl);

  /// Limits the time of a call of DriverEntry, a DDI, a DPC or a timer to `limit` ns. A longer call
  /// becomes a bug check finding (NT-20) and is abandoned. Waits and sleeps count in the runtime's
  /// time, computation in processor time. 0, the default: no limit. Threads and work items of the
  /// driver are not watched. A loop in a call is stopped only on a thread that entered the driver
  /// after this call.
  void set_hang_limit(runtime::DurationNs limit);
  runtime::DurationNs hang_limit() const { return hang_limit_.load(std::memory_order_relaxed); }

  /// Waits until every DPC queued so far has run. PASSIVE_LEVEL.
  void flush_dpcs();
  /// Ends all activity of the driver: timers are cancelled, DPCs drained, and system threads leave
  /// at their next wait and are joined. Call it before the image is unmapped. The kernel can serve
  /// another driver afterwards.
  void quiesce();

  /// The adapter that callbacks without an adapter argument mean on the driver's own threads; null
  /// if there is none.
  void* default_owner() const;
  void set_default_owner(void* owner);

  struct Impl;
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }

 private:
  friend class CallFrame;
  bool is_code_of_any_image(const void* address) const;
  /// Call it after every change of impl_->images.
  void images_changed();

  uint64_t code_low_ = 0, code_bytes_ = 0;  // the first image
  std::atomic<bool> dead_{false};           // beside the code: each call of a DDI reads both
  bool several_images_ = false;
  std::atomic<runtime::DurationNs> hang_limit_{0};
  uint32_t stack_bytes_ = 0;  // config().driver_stack_bytes in whole pages
  runtime::Runtime& runtime_;
  bus::Machine& machine_;
  verifier::Findings& findings_;
  KernelConfig config_;
  std::unique_ptr<Impl> impl_;
};

/// Adds a file that the kernel's driver can open for reading ("\\SystemRoot\\firmware.bin"). Paths
/// compare without case, and an older file of that path is replaced. Any thread.
void add_file(Kernel& kernel, std::string_view path, std::vector<std::byte> data);

inline CallFrame::CallFrame(Kernel& kernel, const char* name, Irql irql)
    : kernel_(kernel), name_(name), entry_irql_(irql) {
  static_assert(static_cast<size_t>(runtime::ThreadSlot::kNt) == 0);
  void** const slots = runtime::detail::t_thread_slots;
  slot_ = slots != nullptr ? slots : &kernel.runtime().thread_slot(0);
  current_irql = irql;
  irql_reported = 0;
  CallLog* const log = CallLog::of(slot_);
  logged = log == nullptr ? 0 : kLogged;
  previous_ = static_cast<CallFrame*>(*slot_);
  if (log != nullptr && previous_ == nullptr && irql == kPassiveLevel) [[unlikely]]
    log->begin(name);
  if (previous_ == nullptr) {
    root_ = this;
    driver_sp = base_sp = stack_low = stack_bytes = 0;
  } else {
    root_ = previous_->root_;
    driver_sp = base_sp = previous_->driver_sp;
    stack_low = previous_->stack_low;
    stack_bytes = previous_->stack_bytes;
  }
  *slot_ = this;
}

inline void CallFrame::prepare(const void* function, uint32_t stack_argument_count) {
  can_abandon_ = true;
  held_at_entry_ = root_->held_count_;
  irql_reported = 0;
  slept_since = 0;
  ++t_driver_calls;
  if (g_call_note != nullptr) [[unlikely]]
    g_call_note->store(name_, std::memory_order_relaxed);
  target = function;
  stack_arguments = stack_argument_count;
  if (!kernel_.is_driver_code(function)) {
    entry_sp = 0;
    return;
  }
  if (base_sp == 0) take_stack();
  entry_sp = base_sp & ~uint64_t{15};
}

/// Where the calling thread last was in a driver, for the last words of a process.
struct StoppedCall {
  const char* ddi = "";     // the call that is running; "": none
  const char* import = "";  // the routine that the driver had called and that has not returned
  // The driver's code that ran last: it was interrupted, it called `import`, or it is a return
  // address that was found on the stack. "": unknown.
  const char* image = "";
  const char* path = "";  // of the image's file
  uint64_t rva = 0;
};

/// For a handler of processor faults and aborts. `context` is the handler's third argument. It
/// reads the kernel's memory, which a driver may have overwritten: a fault in here is the caller's
/// to survive.
StoppedCall stopped_call(const void* context);

/// Runs `body` as driver code would run on this thread. Tests and the tool use it to call exports
/// directly.
inline void with_frame(Kernel& kernel, Irql irql, const std::function<void()>& body) {
  CallFrame frame(kernel, "host", irql);
  body();
}

}  // namespace dxgkit::nt
