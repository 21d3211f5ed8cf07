// One adapter: where memory manager, scheduler and driver meet.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bus/machine.h"
#include "dxgk/adapter/gate.h"
#include "dxgk/device_state.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/object.h"
#include "dxgk/power/runtime_power.h"
#include "dxgk/process.h"
#include "dxgk/system.h"
#include "dxgk/va/gpu_va_rules.h"
#include "dxgk/work/packet.h"
#include "port/adapter_port.h"
#include "runtime/lane.h"
#include "runtime/sync.h"
#include "verifier/findings.h"
#include "vidmm/memory_manager.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

class ContextAllocations;
class CpuWindows;
class Display;
class GpuVa;
class HwQueues;
class NativeFences;
class Power;
class Residency;
class Timeout;

/// Life: start() .. stop(), driven by System. Everything marked "lane" is touched on lane() only.
///
/// Who may block where: thunks block on their own threads, through `block_until`; the lane never
/// blocks, it continues through callbacks (paging barriers, packet retirement). Driver calls at
/// level zero run on the caller's thread, scheduler-class calls on the lane, exclusive ones (start,
/// stop) with the gate closed and empty.
class Adapter : public Object,
                private port::AdapterHost,
                private vidsch::EnginePort,
                private PagingExecutor::Owner,
                private RuntimePower::Owner {
 public:
  static constexpr ObjectType kType = ObjectType::kAdapter;
  Adapter(System& system, Luid luid, runtime::Runtime& runtime, bus::Machine& machine,
          nt::Kernel& kernel, verifier::Findings& findings, port::Driver& driver,
          bus::PciFunction& function, const AdapterOptions& options);
  ~Adapter() override;

  Status start();
  void stop();
  /// LIFE-21: the hardware is gone; then as stop().
  void remove();

  Luid luid() const { return luid_; }
  /// False once stopped, removed or fatally failed: thunks answer kDeviceRemoved (THUNK-07).
  bool running() const { return !gate_.closed() && !fatal_.load(std::memory_order_acquire); }
  Gate& gate() { return gate_; }
  runtime::Lane& lane() { return lane_; }
  runtime::Runtime& runtime() { return runtime_; }
  bus::Machine& machine() { return machine_; }
  port::AdapterPort& port() { return *port_; }
  verifier::Findings& findings() { return findings_; }
  const port::DriverCaps& caps() const { return caps_; }
  const port::SegmentsInfo& segment_infos() const { return segment_infos_; }
  /// Null: the adapter has no GPU virtual addresses. Constant while it runs.
  const GpuVaModel* gpu_va_model() const {
    return gpu_va_model_.has_value() ? &*gpu_va_model_ : nullptr;
  }
  uint32_t interface_version() const { return driver_.interface_version(); }
  uint32_t video_present_sources() const { return start_info_.video_present_sources; }
  bool display_only() const { return driver_.display_only(); }
  System& system() { return system_; }
  nt::Kernel& kernel() { return kernel_; }
  bus::PciFunction& function() { return function_; }
  const AdapterOptions& options() const { return options_; }
  /// Lane. REND-28: true, and counted, if the switch is on.
  bool strikes(VerifierSwitch which) {
    if (!options_.verifier.has(which)) [[likely]]
      return false;
    ++counters_.verifier_strikes[static_cast<size_t>(which)];
    return true;
  }
  /// False after a fatal failure: the driver may not be called any more, or not for this adapter.
  bool running_or_starting() const { return !fatal_.load(std::memory_order_acquire); }
  bool driver_is_dead() const { return kernel_.driver_is_dead(); }
  /// Null for an adapter without video present sources (DISP-21).
  Display* display() { return display_.get(); }
  Power& power() { return *power_; }
  Timeout& timeout() { return *timeout_; }
  AdapterStatistics statistics();
  /// WDDM 2.0 on: devices say what is resident (MakeResident, Evict). Below, each packet's
  /// allocation list does (RES-24).
  bool explicit_residency() const { return explicit_residency_; }
  /// Counts, from 1, what may turn an allocation list that was in order into one that is refused:
  /// an allocation closes, is offered, or its mode is gone. Lane.
  uint64_t listing_changes() const { return listing_changes_; }
  void listing_changed() { ++listing_changes_; }

  // --- for the objects on it; lane
  // ------------------------------------------------------------------------------------
  /// False: a display-only adapter, or one that stopped.
  bool has_memory() const { return memory_ != nullptr; }
  /// Nothing of it will be done any more.
  bool failed() const { return failed_; }
  vidmm::MemoryManager& memory() { return *memory_; }
  vidsch::Scheduler& scheduler() { return *scheduler_; }
  PagingExecutor& paging() { return *paging_; }
  /// What unmapped apertures show (PAGE-29).
  bus::PageFrame dummy_page() const { return dummy_page_; }
  /// GPU virtual addresses; null in the patch model.
  GpuVa* gpu_va() { return gpu_va_.get(); }
  /// Null: no hardware queues.
  HwQueues* hw_queues() { return hw_queues_.get(); }
  /// Null: the driver has no native fences.
  NativeFences* native_fences() { return native_fences_.get(); }
  /// Lists and budgets; only with has_memory().
  Residency& residency() { return *residency_; }
  ContextAllocations& context_allocations() { return *context_allocations_; }
  /// What the CPU sees of allocations; only with has_memory().
  CpuWindows& cpu_windows() { return *cpu_windows_; }
  IdTable<Packet, PacketId>& packets() { return packets_; }
  IdTable<Allocation, AllocationId>& allocations() { return allocations_; }
  std::vector<Device*>& devices() { return devices_; }
  AdapterStatistics& counters() { return counters_; }
  ContextId new_context_id() { return ContextId{++last_context_id_}; }
  /// The driver's handle of the paging context; null without contexts.
  void* system_context() const { return system_context_; }
  /// Lane. Of those in an aperture segment (SEG-47).
  bool is_paging_buffer(AllocationId id) const;
  SyncObjectId new_sync_object_id() { return SyncObjectId{++last_sync_id_}; }
  /// Creates a context's packet and counts it as a user of its buffer.
  void queue_packet(Packet& packet);
  void drop_buffer_user(DmaBuffer& buffer);
  /// Selection, at the runtime's time; arms the timeout watch when work is on hardware.
  void pump();
  /// Something retired, completed or failed: blocked thunks look again.
  void progress();
  /// A driver rule with fatal outcome: stops this adapter (SimulatedBugcheck). Lane or any context.
  void fail(verifier::Finding finding);

  /// Closes and destroys openings (all of `resource` when given) once nothing uses them: unmap or
  /// discard, then DxgkDdiCloseAllocation, DxgkDdiDestroyAllocation, backing pages (ALLOC-26,
  /// ALLOC-27). Counts in Device::teardowns.
  void tear_down(Device& device, std::vector<Ref<OpenedAllocation>> openings,
                 Ref<Resource> resource);
  void advance_teardowns();
  /// One descriptor, or opening under way, less: the shared resource goes with its last holder.
  void drop_hold(SharedResource& resource);
  /// Nothing on the GPU, and nothing queued for it, uses the allocation.
  bool idle(const Allocation& allocation);
  /// The offer takes effect as soon as the allocation is idle (ALLOC-44).
  void offer_when_idle(Allocation& allocation);
  std::vector<Ref<SharedResource>>& shared_resources() { return shared_resources_; }
  /// An allocation without a driver object (a DMA buffer): unmapped, then its pages go back. Unused
  /// when called.
  void free_internal(Allocation& allocation);
  /// System pages go back; while the hardware may still write them (after a fatal failure) they
  /// wait for stop().
  void release_pages(std::span<const bus::PageFrame> pages);
  /// The allocation's backing, the client's or ours.
  void release_backing(Allocation& allocation);

  // --- for thunks; not on the lane
  // --------------------------------------------------------------------------------------
  /// Runs `ready` on the lane until it returns true; between tries waits for progress. False if the
  /// adapter failed or closed before that (`ready` is not asked again then).
  bool block_until(const std::function<bool()>& ready);
  /// The same for clients' calls that want memory: not asked while a power transition is under way.
  bool block_until_awake(const std::function<bool()>& ready);
  /// For destroying: runs `work` with stop() kept out, or, once stop() began, after it has ended;
  /// it then finds the driver side gone.
  void while_stable(const std::function<void()>& work);
  /// Runs `work` on the lane with nothing on hardware, and nothing going there meanwhile (level
  /// two, IRQL-03). False, not run: the adapter failed first, or is to be reset.
  bool run_with_idle_hardware(const std::function<void()>& work);
  /// DxgkDdiCreateProcess before the first device of a process, DestroyProcess after its last
  /// (LIFE-16).
  Status enter_process(Process& process);
  void leave_process(Process& process);
  /// The driver's handle of a process between the two; null below WDDM 2.0.
  void* driver_process(Process& process) const;

 private:
  friend class Exercise;  // drives by hand what scheduling and memory pressure do
  friend class GpuVa;
  friend class HwQueues;
  friend class NativeFences;  // fails it
  friend class Power;         // holds everything, empties segments, sleeps
  friend class Timeout;       // resets engines and all of it
  // adapter_start.cpp
  /// Everything between AddDevice and a running adapter. `*step`: the DDI that is at work.
  Status start_full(const char** step);
  /// A display-only adapter has no segments, no nodes, no system objects.
  Status start_display_only(const char** step);
  Status start_device();
  /// Children and what the driver needs for displays; null display_ for render-only adapters.
  Status describe_display(const char** step);
  /// LIFE-19: with the POST display left to who comes next, where the driver can.
  Status stop_device();
  void keep_post_display(bus::PostDisplay post, const port::DisplayInformation& left);
  Status check_caps();
  /// Entries that caps promise (CAPS-04).
  Status check_caps_entries();
  // start_rules.cpp
  /// LIFE-13.
  Status check_version_features();
  /// LIFE-15: one page is shown and hidden again.
  Status check_host_apertures(const char** step);
  /// CAPS-03, a warning.
  void check_software_key();
  Status check_display_only_caps();
  Status check_addressing();
  Status check_display_entries();
  Status check_segments(std::vector<vidmm::SegmentDesc>* segments);
  /// VA-01..03; fills gpu_va_model_ for a GpuMmu adapter.
  Status check_gpu_va_model();
  Status check_gpu_va_entries(const port::GpuMmuCaps& caps);
  /// A driver that fails a step of the start: a finding with the DDI and its status, unless one has
  /// said why already.
  void explain_failed_start(const char* ddi, Status status);
  Status refuse_start(const char* rule, const char* ddi, std::string actual, std::string expected,
                      std::string fix);
  Status make_system_objects();
  void destroy_system_objects();
  /// Paging buffers in an aperture segment (SEG-47): mapped through the first of them, which serves
  /// from system memory until then; unmapped the same way.
  Status map_paging_buffers();
  void unmap_paging_buffers();
  /// The frame buffer goes to system memory before the device stops (LIFE-18), on a null context.
  void evict_everything();
  void lose_devices(DeviceState state);

  // adapter_host.cpp: port::AdapterHost
  void on_interrupts(std::span<const port::InterruptReport> reports) override;
  void* get_handle_data(uint32_t handle, HandleType type, bool device_specific) override;
  uint32_t get_handle_parent(uint32_t allocation) override;
  uint32_t enum_handle_children(uint32_t resource, uint32_t index) override;
  void* acquire_handle_data(uint32_t handle, HandleType type, bool device_specific,
                            void** reference) override;
  void release_handle_data(void* reference) override;
  void on_fatal(const verifier::Finding& finding) override;
  void on_child_status(uint32_t child, bool connected) override;
  // context_allocations.cpp
  Status create_context_allocation(const port::ContextAllocationRequest& request,
                                   uint64_t* handle) override;
  Status destroy_context_allocation(uint64_t handle) override;
  bool has_context_allocation(uint64_t handle) override;
  Status update_context_allocation(uint64_t handle, std::span<const std::byte> data) override;
  Result<uint64_t> reserve_gpu_va(const port::GpuVaReservation& range) override;
  Status on_hw_context_invalid(void* context, bool collateral) override;
  void on_component(uint32_t component, ComponentEvent event) override;
  // levels.cpp
  void before_exclusive_ddi(const char* ddi, SyncLevel level) override;
  void check_idle(const char* ddi, SyncLevel level);  // lane
  Status exclude_access(bool evict, std::function<void(Status)> call) override;
  void serve_exclusions();
  /// No more of them; those that wait are told so. Not on the lane.
  void end_exclusions();
  void drain_reports();
  void handle_report(const port::InterruptReport& report);
  void report_fence_violation(const port::InterruptReport& report, vidsch::FenceReport outcome);
  void report_without_nodes(const port::InterruptReport& report);
  void handle_fault(const port::InterruptReport& report);
  void handle_vsync(const port::InterruptReport& report);
  void stop_after_failure();
  /// After Patch of a part of a buffer that several contexts run, against `broadcast_before_`.
  void check_broadcast_part(const Packet& packet);
  /// The scheduler is asked again when a quantum ends (SCHED-10).
  void watch_for_quantum();
  /// INT-18: whether a page fault asks for a reset, which then has begun.
  void reset_after_fault(const port::InterruptReport& report);

  // submission.cpp: vidsch::EnginePort
  Prepare prepare(PacketId packet) override;
  Submit submit(PacketId packet, NodeOrdinal node, SubmissionFenceId fence,
                bool resubmission) override;
  Submit submit_virtual(Packet& packet, NodeOrdinal node, SubmissionFenceId fence,
                        bool resubmission);
  /// SUB-24: zero-length, from the current context to none.
  Submit submit_context_switch(Packet& packet, NodeOrdinal node, SubmissionFenceId fence,
                               bool resubmission);
  void note_submission(Packet& packet, NodeOrdinal node, SubmissionFenceId fence, uint64_t bytes);
  void retired(PacketId packet, vidsch::PacketOutcome outcome, vidsch::Reached reached) override;
  void preempt(NodeOrdinal node, SubmissionFenceId preemption_fence) override;
  bool split(Packet& packet, AllocationId unplaceable);
  /// REND-28: at the first point there is.
  bool split_anyway(Packet& packet);
  /// Before the patch location `cut`, or those that share its SplitOffset.
  bool split_before(Packet& packet, uint32_t cut);
  /// A slot bound before patch location `cut` that what follows neither binds nor unbinds: fatal
  /// (REND-26).
  bool leaks_binding(const Packet& packet, uint32_t cut);
  void fill_allocation_list(const Packet& packet);
  port::PatchArgs patch_args(const Packet& packet, SubmissionFenceId fence);
  port::SubmitVirtualArgs virtual_args(Packet& packet);
  /// The driver is told that the packet will not run (again), if it is to be told of this one.
  void cancel_packet(Packet& packet, vidsch::Reached reached);
  /// A packet faulted on hardware: its device is lost; paging is fatal for the adapter (PAGE-49).
  void blame(const Packet& packet);

  // teardown.cpp
  /// One destroy request: a list of openings, or a resource with all of them (closed together,
  /// ALLOC-26).
  struct Teardown {
    enum class Phase { kInUse, kPaging, kDone };
    Phase phase = Phase::kInUse;
    Device* device = nullptr;
    std::vector<Ref<OpenedAllocation>> openings;
    Ref<Resource> resource;
    Ref<SharedResource> orphan;      // no device has it open any more: `device` is null
    std::vector<Allocation*> dying;  // those nothing holds any more, from kPaging on
    bool ends_resource = false;      // nothing holds the resource any more, likewise
  };
  /// Whether closing `teardown`'s openings ends `allocation`.
  static bool ends(const Teardown& teardown, const Allocation& allocation);
  bool quiet(const Allocation& allocation);
  void forget_shared(SharedResource& resource);
  /// At the end: descriptors hold nothing any more.
  void drop_shared_resources();
  bool teardown_ready(const Teardown& teardown);
  /// The handle is gone, and with it what the CPU had: work queued before may need it unlocked.
  void drop_locks(const Teardown& teardown);
  void begin_closing(Teardown& teardown);
  void finish_closing(Teardown& teardown);

  // RuntimePower::Owner
  Status set_component_f_state(uint32_t component, uint32_t f_state) override;
  void hold_node(NodeOrdinal node, bool held) override;
  void unexpected_completion(uint32_t component) override;
  void runtime_power_changed() override { progress(); }
  NodeOrdinal node_of(const Packet& packet) const;
  /// A packet that needs an engine comes or goes.
  void count_engine_work(const Packet& packet, bool comes);

  // PagingExecutor::Owner
  PagingTarget paging_target(AllocationId allocation) override;
  void queue_paging(Packet& packet) override;
  Packet& new_packet() override { return packets_.create(); }
  bool perform(const vidmm::PagingOp& op) override;
  std::unique_ptr<PagingWork> translate(const vidmm::PagingOp& op) override;
  void before(const vidmm::PagingOp& op, std::vector<std::unique_ptr<PagingWork>>* work) override;
  void behind(std::span<const vidmm::PagingOp> operations,
              std::vector<std::unique_ptr<PagingWork>>* work) override;
  void operation_done(const vidmm::PagingOp& op) override;
  void paging_failed(verifier::Finding finding) override { fail(std::move(finding)); }
  void count_multipass() override { ++counters_.multipass_paging; }

  System& system_;
  const Luid luid_;
  runtime::Runtime& runtime_;
  bus::Machine& machine_;
  nt::Kernel& kernel_;
  verifier::Findings& findings_;
  port::Driver& driver_;
  bus::PciFunction& function_;
  const AdapterOptions options_;
  runtime::Lane lane_;
  Gate gate_;
  runtime::Event stopped_;
  std::unique_ptr<port::AdapterPort> port_;

  port::StartInfo start_info_;
  bool device_started_ = false;
  bool was_running_ = false;  // its start has succeeded
  std::unique_ptr<Display> display_;
  const std::unique_ptr<Power> power_;
  const std::unique_ptr<Timeout> timeout_;
  port::DriverCaps caps_;
  port::SegmentsInfo segment_infos_;
  std::optional<GpuVaModel> gpu_va_model_;

  // Lane:
  std::unique_ptr<vidmm::MemoryManager> memory_;
  std::unique_ptr<vidsch::Scheduler> scheduler_;
  std::unique_ptr<PagingExecutor> paging_;
  std::unique_ptr<RuntimePower> runtime_power_;  // null: the driver has no power components
  bool rest_posted_ = false;                     // look for idle components is on its way
  std::unique_ptr<Residency> residency_;
  std::unique_ptr<ContextAllocations> context_allocations_;  // with memory_
  std::unique_ptr<CpuWindows> cpu_windows_;                  // likewise
  std::unique_ptr<GpuVa> gpu_va_;
  std::unique_ptr<HwQueues> hw_queues_;
  std::unique_ptr<NativeFences> native_fences_;
  bool explicit_residency_ = false;  // set at start
  uint64_t listing_changes_ = 1;
  IdTable<Packet, PacketId> packets_;
  IdTable<Allocation, AllocationId> allocations_;
  std::vector<Device*> devices_;
  AdapterStatistics counters_;
  uint64_t last_context_id_ = 0, last_sync_id_ = 0;
  bool failed_ = false;                                // stop_after_failure has run
  std::vector<std::unique_ptr<Teardown>> teardowns_;   // in order of request
  std::vector<Ref<SharedResource>> shared_resources_;  // those that are not gone
  bool advancing_teardowns_ = false;
  std::vector<bus::PageFrame> graveyard_;
  std::vector<std::unique_ptr<bus::UserMemory>> user_graveyard_;
  std::vector<AllocationId> pending_offers_;
  void advance_offers();
  void take_offer(Allocation& allocation);
  /// What a node said it had preempted last, to recognise work that ran on all the same.
  struct Preempted {
    bool any = false;
    SubmissionFenceId request, after;  // fences between the two came back unfinished
  };
  std::vector<Preempted> preempted_;                       // by node
  std::vector<uint64_t> submitted_;                        // by node: packets, resubmitted ones too
  DeviceState fault_state_ = DeviceState::kErrorDmaFault;  // of the report being handled
  const port::InterruptReport* page_fault_ = nullptr;      // likewise
  /// Says why a page fault came about, as far as the kernel knows (VA-28).
  void explain_page_fault(const Packet& packet);
  PacketId preparing_;  // packet inside prepare(), whose paging may complete before it returns
  bool prepared_inline_ = false;

  // System objects (LIFE-07): the paging process's device and context.
  void* system_process_ = nullptr;
  bool has_system_process_ = false;
  void* system_device_ = nullptr;
  bool has_system_device_ = false;
  void* system_context_ = nullptr;
  bool has_system_context_ = false;
  ContextId paging_context_;
  bus::PageFrame dummy_page_;
  bool has_dummy_page_ = false;
  std::vector<AllocationId> paging_buffers_;  // lane; in the aperture, by buffer index

  // Written by whoever breaks the rule, read by thunks on every call: release/acquire so that the
  // finding is visible.
  std::atomic<bool> fatal_{false};
  // Counts progress; blocked thunks wait on it.
  std::atomic<uint32_t> progress_{0};
  std::atomic<uint32_t> blocked_{0};

  runtime::Mutex reports_mutex_;  // innermost; interrupt context takes it
  std::vector<port::InterruptReport> reports_ DXGKIT_GUARDED_BY(reports_mutex_);
  bool drain_posted_ DXGKIT_GUARDED_BY(reports_mutex_) = false;
  std::vector<port::InterruptReport> draining_;  // lane
  /// DxgkCbExcludeAdapterAccess, in the order of the calls.
  struct Exclusion {
    bool evict = false;
    std::function<void(Status)> call;
  };
  runtime::Mutex exclusions_mutex_;  // innermost
  std::vector<Exclusion> exclusions_ DXGKIT_GUARDED_BY(exclusions_mutex_);
  std::unique_ptr<runtime::Thread> exclusion_thread_ DXGKIT_GUARDED_BY(exclusions_mutex_);
  bool exclusions_ended_ DXGKIT_GUARDED_BY(exclusions_mutex_) = false;
  std::atomic<uint32_t> exclusion_bell_{0};  // requests and the end; the thread waits on it
  std::unique_ptr<runtime::Timer> timer_;
  std::vector<std::byte> broadcast_before_;
  std::unique_ptr<runtime::Timer> quantum_timer_;
  std::optional<int64_t> quantum_due_;  // armed for; lane
  bool pumping_ = false;                // lane
  uint32_t holds_ = 0;                  // lane: nothing new goes to hardware
};

}  // namespace dxgkit::dxgk
