// Internals of AdapterPort, for this folder only.
#pragma once

#include <dispmprt.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "port/adapter_port.h"
#include "port/driver_impl.h"
#include "port/fault_injector.h"
#include "runtime/sync.h"
#include "runtime/turnstile.h"
#include "trace/trace.h"

namespace dxgkit::port {

/// How a DDI may overlap with others (the DDI table of the rulebook).
enum class DdiClass {
  kLevelZero,        // fully reentrant
  kScheduler,        // level one, GPU scheduler class: never overlaps itself (IRQL-06)
  kLevelTwo,         // inside enter_level_two(): nobody else but ISR, DPC and kLevelZeroBeside
  kExclusive,        // level three: nobody else in the driver, but ISR, DPC and kLevelZeroBeside
  kLevelZeroBeside,  // QueryAdapterInfo: level zero, may overlap level three (IRQL-09)
};

struct DdiInfo {
  const char* name;
  nt::Irql irql;
  DdiClass ddi_class;
};

/// One argument-free state change of the interrupt path is small enough to be recorded whole.
struct IsrState {
  bool inside = false;         // an ISR runs (on interrupt_owner)
  bool reported = false;       // it called DxgkCbNotifyInterrupt
  bool queued_dpc = false;     // a DPC was queued, or was pending already, after the last report
  bool reported_crtc = false;  // a CRTC type was reported (INT-09)
};

/// Where what a driver builds was to go, and where it says it ended.
struct BuilderOutputs {
  struct Span {
    const void* start = nullptr;
    const void* end = nullptr;
    uint64_t room = 0;  // bytes
  };
  Span dma, patches, private_data;
};

struct AdapterPort::Impl {
  Impl(Driver& driver_in, nt::Kernel& kernel_in, bus::Machine& machine_in,
       bus::PciFunction& function_in, AdapterHost& host_in, verifier::Findings& findings_in);
  ~Impl();

  Driver::Impl& driver;
  nt::Kernel& kernel;
  bus::Machine& machine;
  bus::PciFunction& function;
  AdapterHost& host;
  verifier::Findings& findings;
  const DRIVER_INITIALIZATION_DATA& ddi;
  const uint32_t version;

  void* context = nullptr;  // from AddDevice: hAdapter of every DDI
  bool added = false, started = false;
  bool reference_checks = true;
  FaultInjector* faults = nullptr;  // set before the adapter runs
  std::optional<Status> callback_fails(const char* callback) const {
    if (faults == nullptr) [[likely]]
      return std::nullopt;
    return faults->before_callback(callback);
  }
  bool multi_engine_aware = false;
  bool low_irql_preempt = false;  // LowIrqlPreemptCommand (G-22)
  bool map_aperture2 = false;     // MapAperture2Supported (PAGE-30)
  uint32_t interrupt_message = 0;
  DXGKRNL_INTERFACE callbacks{};
  DXGK_START_INFO start_info{};
  std::vector<std::byte> resource_list;
  PhysicalDevice device;
  std::u16string registry_path;
  std::byte* guard_page =
      nullptr;  // inaccessible: what a driver gets where it may not look (SUB-11)

  // Who is inside the driver. Plain counters would do for the checks; they are atomic because a
  // wrong caller is a race.
  std::atomic<bool> scheduler_inside{false};
  std::atomic<bool> exclusive_inside{false};
  std::atomic<uint32_t> exclusive_thread{0};  // of a call of level two or three, + 1 (IRQL-11)
  runtime::Turnstile level_zero;              // barred while level two is held
  // 1: somebody holds level two, for a mode change or for as long as the adapter sleeps.
  std::atomic<uint32_t> level_two_taken{0};
  std::function<bool()> is_lane;  // set before the adapter runs; null: nobody is

  // Interrupts. `interrupt_lock` is the interrupt spin lock: ISR and synchronised routines hold it
  // at DIRQL.
  runtime::Mutex interrupt_lock;
  std::atomic<uint32_t> interrupt_owner{0};  // runtime thread number + 1, 0 when free
  std::atomic<bool> interrupt_again{
      false};  // raised by the owner itself: service once more before leaving
  std::atomic<bool> interrupt_connected{false};
  IsrState isr DXGKIT_GUARDED_BY(interrupt_lock);
  uint32_t silent_claims = 0, refusals = 0;     // in a row, guarded by interrupt_lock (INT-08)
  std::atomic<uint32_t> preempt_thread{0};      // the one inside DxgkDdiPreemptCommand, + 1
  uint64_t masked_nodes = 0;                    // guarded by interrupt_lock
  std::vector<InterruptReport> masked_reports;  // of those, guarded by interrupt_lock
  runtime::Mutex reports_lock;
  std::vector<InterruptReport> reports DXGKIT_GUARDED_BY(reports_lock);
  std::vector<InterruptReport> spare DXGKIT_GUARDED_BY(reports_lock);
  /// By node: the last preemption the driver reported (PREEMPT-07).
  std::array<std::atomic<uint32_t>, 64> last_preempted{};
  nt::Kdpc dpc{};
  std::atomic<uint32_t> dpc_state{0};  // 0 idle, 1 running, 2 running and wanted again (INT-06)

  // Set once, by the notice of removal; read at the end of every DDI.
  std::atomic<bool> removed{false};
  std::atomic<uint64_t> lost_accesses_seen{0};
  // F-state calls under way, one bit per component (PWR-12, PWR-13).
  std::atomic<uint64_t> f_state_calls{0};
  // Engines between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine, one bit per node (INT-21).
  std::atomic<uint64_t> engines_in_reset{0};
  uint32_t power_components = 0;  // known to the driver; written before the adapter runs

  // From query_gpu_mmu; 0: not asked, or no usable answer.
  uint64_t leaf_coverage = 0;  // bytes that one leaf table translates
  uint32_t va_bits = 0;
  // Processes inside DxgkDdiCreateProcess (VA-09): their hDxgkProcess.
  runtime::Mutex creating_lock;
  std::vector<HANDLE> creating DXGKIT_GUARDED_BY(creating_lock);

  uint32_t wddm_model = 0;            // DXGK_DRIVERCAPS::WDDMVersion; 0: not asked or not said
  std::vector<SegmentInfo> segments;  // by id - 1, as the driver described them

  // MDLs of BuildPagingBuffer; scheduler class, so without a lock.
  // An MDL lives, and stays mapped if the driver mapped it, until the packet that needs it has
  // left: blocks in order of issue, the first of them number `mdls_released`.
  std::deque<std::vector<uint64_t>> mdls;
  std::vector<std::vector<uint64_t>> spare_mdls;
  uint64_t mdls_issued = 0, mdls_released = 0;

  // --- interrupts.cpp
  bool service_interrupt();
  void run_isr(nt::CallFrame& frame, bool* claimed);
  void end_isr_checks(bool claimed, const IsrState& seen);
  void leave_interrupt_lock(nt::CallFrame& frame);
  /// As the interrupt lock around a synchronised routine, for a DDI at device level. The caller
  /// does not hold it, and its frame is at device level.
  void enter_interrupt_lock();
  void leave_interrupt_lock();
  static void NTAPI dpc_routine(nt::Kdpc* dpc, void* impl, void*, void*);
  void run_driver_dpc();
  void notify_interrupt(const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data);
  void notify_dpc();
  bool queue_dpc();
  Status synchronize(PKSYNCHRONIZE_ROUTINE routine, void* routine_context, uint32_t message,
                     BOOLEAN* result);
  void disconnect_interrupt();
  /// Runs `work` at device level, as a routine of ours that excludes the ISR.
  void at_device_level(const char* what, const std::function<void()>& work);

  // --- callbacks.cpp
  void fill_callbacks();
  void build_resources();
  HANDLE handle() const { return const_cast<Impl*>(this); }
  /// The adapter a callback of the calling thread is for; null after a finding (LIFE-08).
  static Impl* of_handle(const char* callback, const void* handle);
  /// The same, started or not.
  static Impl* known_handle(const char* callback, const void* handle);
  /// The same for a callback without a handle.
  static Impl* of_caller(const char* callback);
  /// The callbacks are the driver's from StartDevice until StopDevice returns (LIFE-08), as is the
  /// interrupt.
  bool has_interface() const { return interrupt_connected.load(std::memory_order_relaxed); }
  static Impl* of_frame();
  /// INT-07, IRQL-12.
  void check_callback(const char* callback, nt::Irql highest, bool legal_in_isr);

  // --- exclusion.cpp
  /// IRQL-11.
  Status exclude_access(ULONG attributes, DXGKDDI_PROTECTED_CALLBACK routine,
                        void* routine_context);

  // --- adapter_power.cpp
  /// LIFE-22.
  void report_lost_accesses(const char* ddi_name);

  // --- adapter_display.cpp
  void enter_level_two();
  void leave_level_two();
  /// A level-zero call that found level two held: steps out of `inside` until it is over.
  void wait_for_level_two();

  // --- findings
  Status violation(const char* rule, const char* ddi_name, std::string actual, std::string expected,
                   std::string fix, Status answer);
  /// A finding of kBugCheck; tells the host.
  void fatal(const char* rule, const char* ddi_name, uint32_t code, uint32_t parameter,
             std::string actual, std::string expected, std::string fix);
  void irql_violation(const DdiInfo& info, nt::Irql got);
  /// NT-22: an answer that is no NTSTATUS at all.
  void check_answer(const DdiInfo& info, int32_t answer);

  /// REND-08: how far Render or Present advanced what it was given, into `result`; fatal, and
  /// kUnsuccessful there, if that was further than there was room.
  void measure_outputs(const DdiInfo& info, const BuilderOutputs& outputs, RenderResult* result);

  // --- queries
  Status query(DXGK_QUERYADAPTERINFOTYPE type, const void* in, uint32_t in_bytes, void* out,
               uint32_t out_bytes);
};

/// The status as findings show it: 0xc000000d.
std::string hex(Status status);

/// One DDI call: frame, class check, trace, IRQL check.
class DdiCall {
 public:
  DdiCall(AdapterPort::Impl& impl, const DdiInfo& info, uint64_t argument = 0,
          uint16_t node = trace::kNoNode)
      : impl_(prepared(impl, info)),
        info_(info),
        frame_(impl.kernel, info.name, info.irql),
        node_(node) {
    frame_.owner = &impl;
    enter();
    if (trace::Recorder* recorder = trace::current(); recorder != nullptr) [[unlikely]] {
      recorder->record(trace::EventKind::kDdiEnter, recorder->name_id(info.name), info.irql,
                       argument, 0, node);
    }
  }
  ~DdiCall() { leave(); }
  DdiCall(const DdiCall&) = delete;
  DdiCall& operator=(const DdiCall&) = delete;

  /// Calls the entry; kDeviceRemoved if the driver died inside (a finding was reported and the host
  /// knows).
  template <typename Entry, typename... A>
  Status operator()(Entry entry, A... arguments) {
    if (impl_.faults != nullptr) [[unlikely]] {
      if (const std::optional<Status> answer = impl_.faults->before_ddi(info_.name)) {
        completed_ = true;
        return done(*answer);
      }
    }
    int32_t status = to_ntstatus(Status::kDeviceRemoved);
    completed_ = frame_.call(entry, &status, arguments...);
    if (!completed_) return done(Status::kDeviceRemoved);
    if (frame_.irql() != info_.irql) [[unlikely]] {
      impl_.irql_violation(info_, frame_.irql());
      frame_.restore_entry_irql();
    }
    if (status != 0) [[unlikely]]
      impl_.check_answer(info_, status);
    return done(from_ntstatus(status));
  }
  /// The same for an entry that returns nothing.
  template <typename Entry, typename... A>
  Status no_answer(Entry entry, A... arguments) {
    completed_ = frame_.call_void(entry, arguments...);
    if (!completed_) return done(Status::kDeviceRemoved);
    if (frame_.irql() != info_.irql) [[unlikely]] {
      impl_.irql_violation(info_, frame_.irql());
      frame_.restore_entry_irql();
    }
    return done(Status::kSuccess);
  }
  /// The same for an entry that returns a number; untouched unless kSuccess is answered.
  template <typename Entry, typename R, typename... A>
  Status value(Entry entry, R* result, A... arguments) {
    completed_ = frame_.call(entry, result, arguments...);
    if (!completed_) return done(Status::kDeviceRemoved);
    if (frame_.irql() != info_.irql) [[unlikely]] {
      impl_.irql_violation(info_, frame_.irql());
      frame_.restore_entry_irql();
    }
    return done(Status::kSuccess);
  }
  bool completed() const { return completed_; }

 private:
  Status done(Status status) {
    if (trace::Recorder* recorder = trace::current(); recorder != nullptr) [[unlikely]] {
      recorder->record(trace::EventKind::kDdiExit, recorder->name_id(info_.name),
                       static_cast<uint32_t>(to_ntstatus(status)), frame_.irql(), 0, node_);
    }
    return status;
  }
  /// Before this thread has a frame of this call.
  static AdapterPort::Impl& prepared(AdapterPort::Impl& impl, const DdiInfo& info) {
    if (info.ddi_class == DdiClass::kLevelTwo) [[unlikely]]
      impl.host.before_exclusive_ddi(info.name, AdapterHost::SyncLevel::kTwo);
    if (info.ddi_class == DdiClass::kExclusive) [[unlikely]]
      impl.host.before_exclusive_ddi(info.name, AdapterHost::SyncLevel::kThree);
    return impl;
  }
  void enter();
  void leave();

  AdapterPort::Impl& impl_;
  const DdiInfo& info_;
  nt::CallFrame frame_;
  uint16_t node_;
  bool completed_ = false;
};

inline void DdiCall::enter() {
  switch (info_.ddi_class) {
    case DdiClass::kScheduler:
      // A load and a store, not a read-modify-write: only the lane may call, so a race here is the
      // bug itself.
      DXGKIT_CHECK(!impl_.scheduler_inside.load(std::memory_order_relaxed));
      impl_.scheduler_inside.store(true, std::memory_order_relaxed);
      DXGKIT_CHECK(!impl_.exclusive_inside.load(std::memory_order_relaxed));
      break;
    case DdiClass::kLevelZero:
      if (!impl_.level_zero.enter()) [[unlikely]]
        impl_.wait_for_level_two();
      DXGKIT_CHECK(!impl_.exclusive_inside.load(std::memory_order_relaxed));
      break;
    case DdiClass::kLevelTwo:
      // Not that it is empty: who is refused just now counts up and down again.
      DXGKIT_CHECK(impl_.level_zero.barred());
      DXGKIT_CHECK(!impl_.scheduler_inside.load());
      DXGKIT_CHECK(!impl_.exclusive_inside.exchange(true));
      impl_.exclusive_thread.store(impl_.kernel.runtime().thread_number() + 1);
      break;
    case DdiClass::kExclusive:
      DXGKIT_CHECK(!impl_.exclusive_inside.exchange(true));
      DXGKIT_CHECK(impl_.level_zero.barred() || impl_.level_zero.empty());
      DXGKIT_CHECK(!impl_.scheduler_inside.load());
      impl_.exclusive_thread.store(impl_.kernel.runtime().thread_number() + 1);
      break;
    case DdiClass::kLevelZeroBeside:
      break;
  }
}

inline void DdiCall::leave() {
  if (impl_.removed.load(std::memory_order_relaxed)) [[unlikely]]
    impl_.report_lost_accesses(info_.name);
  switch (info_.ddi_class) {
    case DdiClass::kScheduler:
      impl_.scheduler_inside.store(false, std::memory_order_relaxed);
      break;
    case DdiClass::kLevelZero:
      impl_.level_zero.leave();
      break;
    case DdiClass::kLevelTwo:
    case DdiClass::kExclusive:
      impl_.exclusive_thread.store(0);
      impl_.exclusive_inside.store(false);
      break;
    case DdiClass::kLevelZeroBeside:
      break;
  }
}

/// What DXGKARG_SUBMITCOMMAND and its virtual form say in the same words: fence, node, flags,
/// flips.
template <typename Args, typename Arguments>
void fill_submission(const AdapterPort::Impl& port, const Args& args, Arguments* out) {
  Arguments& arguments = *out;
  arguments.SubmissionFenceId = args.fence.value;
  arguments.Flags.Paging = args.flags.paging ? 1 : 0;
  arguments.Flags.Present = args.flags.present ? 1 : 0;
  arguments.Flags.RedirectedPresent = args.flags.redirected_present ? 1 : 0;
  arguments.Flags.NullRendering = args.flags.null_rendering ? 1 : 0;
  arguments.Flags.Flip = args.flags.flip ? 1 : 0;
  arguments.Flags.FlipWithNoWait = args.flags.flip_with_no_wait ? 1 : 0;
  if (port.version >= kInterfaceWin8) {
    arguments.Flags.ContextSwitch = args.flags.context_switch ? 1 : 0;
    arguments.NodeOrdinal = args.node.value;
  }
  if (port.version >= kInterfaceWddm20)
    arguments.Flags.Resubmission = args.flags.resubmission ? 1 : 0;  // SUB-25
  // Members without meaning in this submission hold a value no driver can mistake for one (SUB-15,
  // SUB-16).
  const bool flips = args.flags.flip || args.flags.flip_with_no_wait;
  arguments.VidPnSourceId = flips ? args.vidpn_source : D3DDDI_ID_UNINITIALIZED;
  arguments.FlipInterval =
      static_cast<D3DDDI_FLIPINTERVAL_TYPE>(args.flags.flip ? args.flip_interval : 0);
}

// --- adapter_gpu_va.cpp
/// What a virtual paging operation points to during the call.
struct VirtualScratch {
  std::vector<DXGK_BUILDPAGINGBUFFER_COPY_RANGE> ranges;
};
/// Operation and its union member for the kinds from kTransferVirtual on.
void fill_virtual_operation(DXGKARG_BUILDPAGINGBUFFER& arguments, const PagingOperation& operation,
                            VirtualScratch* scratch);

/// True once the driver must not be called any more: after a bug check of its own.
inline bool is_dead(const AdapterPort::Impl& impl) { return impl.kernel.driver_is_dead(); }

}  // namespace dxgkit::port
