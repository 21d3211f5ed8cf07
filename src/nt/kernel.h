// The NT executive as far as display miniports need it: one Kernel per driver under test.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bus/machine.h"
#include "nt/layout.h"
#include "runtime/runtime.h"
#include "verifier/findings.h"

/// Marks a function that crosses the driver door: Win64 calling convention.
#define DXGKIT_NT_ABI __attribute__((ms_abi))

namespace dxgkit::nt {

using Irql = uint8_t;
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
  std::map<std::string, std::map<std::string, RegistryValue>> registry;
  /// Pool allocations fail beyond this many live bytes.
  uint64_t pool_bytes_max = UINT64_MAX;
  /// Faults in driver code become findings. Off: they end the process at the faulting instruction,
  /// for a debugger.
  bool catch_faults = true;
  /// What the driver prints (DbgPrintEx and relatives), line by line as given. Any thread. Null:
  /// traced only.
  std::function<void(std::string_view)> debug_print;

  /// What IoOpenDeviceRegistryKey opens as device key and as driver key, and what DriverEntry gets
  /// as RegistryPath.
  static constexpr const char* kDeviceKey = "\\Registry\\Machine\\dxgkit\\Device";
  static constexpr const char* kSoftwareKey = "\\Registry\\Machine\\dxgkit\\Driver";
  /// Values that IoGetDeviceProperty answers from: see docs/registry.md.
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
  /// sorted); empty: no handlers, no unwinding.
  std::span<const std::byte> functions = {};
  /// "SgpuPatch+0x14 (adapter.cpp:120)" or empty. Not called in a signal handler.
  std::function<std::string(uint64_t rva)> symbol = {};
};

/// A piece of address space whose misuse by a driver becomes a finding; see
/// Kernel::add_fault_range.
struct FaultRange {
  const void* start = nullptr;
  uint64_t size = 0;
  const char* rule = "";      // of the finding
  const char* what = "";      // "the private data of a packet that has none"
  const char* expected = "";  // full sentences
  const char* fix = "";
};

class Kernel;

/// One call into driver code, on the caller's stack: who calls, at which IRQL, and where an
/// abandoned call comes back.
///
/// Frames of one thread form a stack in Runtime::thread_slot(kNt). Everything a driver calls finds
/// its kernel and IRQL there. When the last frame at or above DISPATCH_LEVEL is left, the thread's
/// queued DPCs run in the destructor.
///
/// Abandoning. A bug check in the driver, or a call of an import that does not exist, cannot
/// return. Such a call jumps back to the innermost frame that was entered through `call` (longjmp),
/// where `abandoned()` is true. Driver frames in between are simply forgotten: the locks they hold
/// stay held, so nobody may call that driver again. Our own code never lies between a driver and
/// the frame it is abandoned to, except leaf functions of nt that hold nothing.
class CallFrame {
 public:
  /// `name` must live as long as the frame: a literal such as "DxgkDdiPatch".
  CallFrame(Kernel& kernel, const char* name, Irql irql);
  ~CallFrame();
  CallFrame(const CallFrame&) = delete;
  CallFrame& operator=(const CallFrame&) = delete;

  /// Calls `function(arguments...)` of the driver. False if the call was abandoned; then *result is
  /// untouched.
  template <typename R, typename... P, typename... A>
  [[gnu::noinline]] bool call(R(DXGKIT_NT_ABI* function)(P...), R* result, A... arguments) {
    can_abandon_ = true;
    if (_setjmp(jump_) == 0) {
      *result = function(arguments...);
      can_abandon_ = false;
      return true;
    }
    abandoned_ = true;
    return false;
  }
  template <typename... P, typename... A>
  [[gnu::noinline]] bool call_void(void(DXGKIT_NT_ABI* function)(P...), A... arguments) {
    can_abandon_ = true;
    if (_setjmp(jump_) == 0) {
      function(arguments...);
      can_abandon_ = false;
      return true;
    }
    abandoned_ = true;
    return false;
  }

  /// The innermost frame of the calling thread; null outside driver calls.
  static CallFrame* current_or_null();
  /// As above; a driver that calls in from a thread without a frame is our bug.
  static CallFrame& current();

  Kernel& kernel() const { return kernel_; }
  const char* name() const { return name_; }
  CallFrame* previous() const { return previous_; }
  bool abandoned() const { return abandoned_; }
  Irql irql() const { return irql_; }
  Irql entry_irql() const { return entry_irql_; }
  /// Raises only. Returns the old level.
  Irql raise(Irql irql);
  /// Lowers (or keeps); runs the thread's DPCs when the level falls below DISPATCH_LEVEL.
  void lower(Irql irql);
  /// After the driver returned: puts the level back without a check.
  void restore_entry_irql() { irql_ = entry_irql_; }

  /// Leaves driver code for good: see the class comment. Never returns.
  [[noreturn]] void abandon();

  /// Queues for this thread; false if it was queued already (on any thread). Any IRQL.
  bool queue_dpc(Kdpc& dpc, void* argument1, void* argument2);
  /// What the port wants to find again from a callback: its adapter. Null by default.
  void* owner = nullptr;
  /// The driver's system thread this frame is the bottom of, or null.
  void* thread = nullptr;

 private:
  friend class Kernel;
  void run_dpcs();

  Kernel& kernel_;
  const char* name_;
  CallFrame* previous_;
  CallFrame* root_;
  void** slot_;
  Kdpc* dpc_head_ = nullptr;  // of the root frame only
  Kdpc* dpc_tail_ = nullptr;
  Irql irql_, entry_irql_;
  bool can_abandon_ = false;
  bool abandoned_ = false;
  jmp_buf jump_;
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
/// A function or variable a driver may import.
struct Export {
  const char* name;
  const void* address;
  Support support;
  const char* note;         // what is partial or refused; empty when supported
  uint32_t data_bytes = 0;  // size of a variable; 0: a function
};
/// All exports, sorted by name: the support table.
std::span<const Export> exports();
/// Null if there is none of that name.
const Export* find_export(std::string_view name);

/// What a driver still owns; see Kernel::leaks.
struct Leak {
  std::string what;  // "pool", "contiguous memory", "MDL", "mapping", "timer", "thread", "handle",
                     // "queued DPC"
  std::string tag;   // pool tag, or empty
  uint64_t count = 0;
  uint64_t bytes = 0;
};

/// Everything one driver's NT world holds. Functions of the export table reach it through the
/// calling thread's frame.
class Kernel {
 public:
  Kernel(runtime::Runtime& runtime, bus::Machine& machine, verifier::Findings& findings,
         KernelConfig config = {});
  /// Ends the driver's system threads at their next wait and frees what was leaked, silently (see
  /// report_leaks).
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  runtime::Runtime& runtime() const { return runtime_; }
  bus::Machine& machine() const { return machine_; }
  verifier::Findings& findings() const { return findings_; }
  const KernelConfig& config() const { return config_; }

  /// Reports a violation of `rule` by the code that is running in the calling thread's innermost
  /// frame.
  void violation(const char* rule, const char* function, std::string actual, std::string expected,
                 std::string fix);
  /// A finding of kBugCheck, then the driver call is abandoned. `function` is what the driver
  /// called.
  [[noreturn]] void bug_check(const char* rule, const char* function, uint32_t code,
                              uint32_t parameter, std::string actual, std::string expected,
                              std::string fix);
  /// Called once with the first kBugCheck finding raised here, before the call is abandoned. The
  /// port stops its adapter.
  void set_fatal_handler(std::function<void(const verifier::Finding&)> handler);
  /// True after bug_check: the driver must not be called again.
  bool driver_is_dead() const;

  /// What the driver has not given back, in a fixed order. Call when it is quiet (after Unload).
  std::vector<Leak> leaks() const;
  /// One LIFE-20 violation per leak; returns their number. Frees what it can, so that the host does
  /// not leak.
  size_t report_leaks(const char* when);

  /// Where DxgkInitialize and DxgkInitializeDisplayOnlyDriver go: set by the port around
  /// DriverEntry.
  using InitializeHook = std::function<int32_t(const void* initialization_data, bool display_only)>;
  void set_initialize_hook(InitializeHook hook);

  /// An import that does not exist here: the address a driver gets for `name`. Calling it reports a
  /// finding and abandons the driver call. The same name gives the same address. Not thread-safe;
  /// load time only.
  const void* unresolved_import(std::string_view name);

  /// A fault of this code becomes an exception of the driver, or, unhandled, a bug check finding
  /// (NT-01) and an abandoned call, instead of the end of the process. Not while the driver runs.
  void add_image(DriverImage image);
  void remove_image(const std::byte* base);
  /// A fault at an address of the range becomes a bug check finding and an abandoned call. Not
  /// while the driver runs; the texts must live as long as the range.
  void add_fault_range(FaultRange range);
  void remove_fault_range(const void* start);

  /// An MDL that the kernel made goes: a mapping the driver made through it goes with it, silently,
  /// as on Windows.
  void release_mdl(const void* mdl);

  /// Waits until every DPC queued so far has run. PASSIVE_LEVEL.
  void flush_dpcs();
  /// Nothing of the driver runs any more: timers are cancelled, DPCs drained, system threads leave
  /// at their next wait and are joined. Before the image is unmapped. The kernel can serve another
  /// driver afterwards.
  void quiesce();

  /// The adapter that callbacks without an adapter argument mean on the driver's own threads; null
  /// if there is none.
  void* default_owner() const;
  void set_default_owner(void* owner);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  friend class CallFrame;
  runtime::Runtime& runtime_;
  bus::Machine& machine_;
  verifier::Findings& findings_;
  KernelConfig config_;
  std::unique_ptr<Impl> impl_;
};

/// Puts a file where the kernel's driver can open it for reading ("\\SystemRoot\\firmware.bin").
/// Paths compare without case; an older file of that path is replaced. Thread: any.
void add_file(Kernel& kernel, std::string_view path, std::vector<std::byte> data);

/// Runs `body` as driver code would run on this thread: tests and the tool use it to call exports
/// directly.
inline void with_frame(Kernel& kernel, Irql irql, const std::function<void()>& body) {
  CallFrame frame(kernel, "host", irql);
  body();
}

}  // namespace dxgkit::nt
