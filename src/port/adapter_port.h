// The one door to a miniport, both ways, for one adapter.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bus/machine.h"
#include "nt/kernel.h"
#include "port/display_types.h"
#include "port/driver.h"
#include "port/types.h"
#include "runtime/runtime.h"
#include "verifier/findings.h"
#include "vidpn/types.h"

namespace dxgkit::port {

class FaultInjector;

/// What the port asks of dxgk when the driver calls back.
class AdapterHost {
 public:
  virtual ~AdapterHost() = default;
  /// Reports recorded by DxgkCbNotifyInterrupt since the last call, in order. Called from
  /// DxgkCbNotifyDpc (or after the synchronised routine that carried it), in interrupt context:
  /// post, do not block (INT-04).
  virtual void on_interrupts(std::span<const InterruptReport> reports) = 0;
  enum class HandleType { kAllocation, kResource, kContext, kDevice, kProcess };
  /// DxgkCbGetHandleData: the driver's handle behind a D3DKMT handle, or null (ALLOC-33). Any
  /// thread, below DISPATCH_LEVEL, may be inside a DDI made on the lane.
  virtual void* get_handle_data(uint32_t handle, HandleType type, bool device_specific) = 0;
  virtual uint32_t get_handle_parent(uint32_t allocation) = 0;
  virtual uint32_t enum_handle_children(uint32_t resource, uint32_t index) = 0;
  /// DxgkCbAcquireHandleData / ReleaseHandleData (ALLOC-32). Null: bad handle.
  virtual void* acquire_handle_data(uint32_t handle, HandleType type, bool device_specific,
                                    void** reference) = 0;
  virtual void release_handle_data(void* reference) = 0;
  /// DxgkCbCreateContextAllocation: memory of a context, or of all contexts of a device (RES-29).
  /// `*handle`, on success: what the driver names it by. PASSIVE_LEVEL, any thread.
  /// kInvalidParameter (RES-31, and what allocations may not be), kNoMemory, kDeviceRemoved.
  virtual Status create_context_allocation(const ContextAllocationRequest& request,
                                           uint64_t* handle) {
    static_cast<void>(request);
    static_cast<void>(handle);
    return Status::kNotSupported;
  }
  /// The handle is gone at once, the memory when nothing uses it. kInvalidParameter: no handle.
  virtual Status destroy_context_allocation(uint64_t handle) {
    static_cast<void>(handle);
    return Status::kNotSupported;
  }
  virtual bool has_context_allocation(uint64_t handle) {
    static_cast<void>(handle);
    return false;
  }
  /// DxgkCbUpdateContextAllocation: returns when the hardware has updated it (PAGE-43). `data` is
  /// read during the call. kInvalidParameter: no handle, or called from a DDI that keeps paging
  /// from going on; kNotSupported: no GPU virtual addresses; kNoMemory, kGraphicsAllocationBusy: no
  /// room for it; kDeviceRemoved.
  virtual Status update_context_allocation(uint64_t handle, std::span<const std::byte> data) {
    static_cast<void>(handle);
    static_cast<void>(data);
    return Status::kNotSupported;
  }
  /// The driver broke a rule that stops the adapter (a finding with kBugCheck was reported). Any
  /// context.
  virtual void on_fatal(const verifier::Finding& finding) = 0;
  /// DxgkCbIndicateChildStatus: something was plugged in or out. PASSIVE_LEVEL, any thread, also
  /// inside StartDevice: note it, ask the driver later.
  virtual void on_child_status(uint32_t child, bool connected) {
    static_cast<void>(child);
    static_cast<void>(connected);
  }
  /// DxgkCbReserveGpuVirtualAddressRange, on the thread that is inside create_process for that
  /// process: the start of the range, or an error the driver is told. kNotSupported: no such model
  /// here.
  virtual Result<uint64_t> reserve_gpu_va(const GpuVaReservation& range) {
    static_cast<void>(range);
    return Error(Status::kNotSupported);
  }
  /// DxgkCbInvalidateHwContext: the reset of an engine has hit this hardware context, named by the
  /// driver's handle (TDR-30). PASSIVE_LEVEL; inside DxgkDdiResetHwEngine on the lane, or on any
  /// thread. kInvalidParameter: no such context. kNotSupported: no hardware contexts here.
  virtual Status on_hw_context_invalid(void* context, bool collateral) {
    static_cast<void>(context);
    static_cast<void>(collateral);
    return Status::kNotSupported;
  }
  /// Right before a DDI of synchronization level two or three is made: the host has seen to the
  /// rest of what the level promises (IRQL-02, IRQL-03), and checks it here. The thread that makes
  /// the call, with nothing of the port held. A CHECK: whatever is wrong is our bug.
  enum class SyncLevel { kTwo, kThree };
  virtual void before_exclusive_ddi(const char* ddi, SyncLevel level) {
    static_cast<void>(ddi);
    static_cast<void>(level);
  }
  /// DxgkCbExcludeAdapterAccess (IRQL-11): later, on a thread of the host's, `call` once. With
  /// kSuccess: nobody uses the adapter and nobody is in the driver until it returns, and with
  /// `evict` no content is in a memory segment. With another status: nothing of that holds.
  /// PASSIVE_LEVEL, any thread: do not block. kDeviceRemoved: it is stopping, there is no call.
  virtual Status exclude_access(bool evict, std::function<void(Status)> call) {
    static_cast<void>(evict);
    static_cast<void>(call);
    return Status::kNotSupported;
  }
  /// DxgkCbSetPowerComponentActive / Idle / CompleteFStateTransition of a component. At most
  /// DISPATCH_LEVEL, any thread, the last also inside set_component_f_state: post, do not block.
  enum class ComponentEvent { kActive, kIdle, kTransitionDone };
  virtual void on_component(uint32_t component, ComponentEvent event) {
    static_cast<void>(component);
    static_cast<void>(event);
  }
};

/// DEVICE_POWER_STATE.
enum class PowerState : uint32_t { kD0 = 1, kD1 = 2, kD2 = 3, kD3 = 4 };
/// POWER_ACTION, those that DxgkDdiSetPowerState is documented to get.
enum class PowerAction : uint32_t { kSleep = 2, kHibernate = 3, kShutdown = 4 };

/// What displays need of the caps of a driver that declared `interface_version`.
DisplayCaps display_caps_of(const DriverCaps& caps, uint32_t interface_version);
FlipCaps flip_caps_of(const DriverCaps& caps, uint32_t interface_version);
/// A feature that WDDM 1.2 asks for, as the caps say it (LIFE-13).
struct FeatureCap {
  const char* name;  // of the member of DXGK_DRIVERCAPS
  bool set = false;
  bool of_display = false;  // asked of drivers with video present sources only
  bool is_new = false;      // no earlier version has it
};
/// Empty where the declared interface has no room for them.
std::vector<FeatureCap> features_of_wddm12(const DriverCaps& caps, uint32_t interface_version);

/// DDI calls of one adapter, typed in our words. The port marshals structures by the version the
/// driver declared, sets and checks IRQL, checks the synchronisation class (IRQL-04, IRQL-06),
/// traces entry and exit, checks outputs against the rules and reports findings. A missing optional
/// DDI answers kNotSupported.
///
/// Threads: scheduler-class calls (patch, submit, preempt, cancel, build_paging) on the lane only;
/// level-zero calls on any thread; start, stop, power: exclusively.
class AdapterPort {
 public:
  AdapterPort(Driver& driver, nt::Kernel& kernel, bus::Machine& machine, bus::PciFunction& function,
              AdapterHost& host, verifier::Findings& findings);
  ~AdapterPort();

  // --- life
  // ---------------------------------------------------------------------------------------------------------
  /// kNotSupported: the driver said "not mine" (success with a null context, LIFE-05).
  Status add_device();
  struct StartInfo {
    uint32_t video_present_sources = 0, children = 0;
  };
  /// Connects the interrupt afterwards is wrong: it is connected before the call, as drivers expect
  /// interrupts from then on.
  Result<StartInfo> start_device();
  /// `out`: the children the driver described, at most `children`.
  Status query_child_relations(uint32_t children, std::vector<ChildInfo>* out = nullptr);
  Status stop_device();
  Status remove_device();
  /// DxgkDdiSetPowerState of a child or, without one, of the adapter, exclusively; for the adapter
  /// engines idle and video memory evicted (PWR-01). PWR-02: a failure is a violation and taken for
  /// success. kNotSupported without the entry. `action` is not passed on the way to D0 (PWR-04).
  Status set_power_state(std::optional<uint32_t> child, PowerState state,
                         PowerAction action = PowerAction::kSleep);
  /// DxgkDdiNotifySurpriseRemoval (LIFE-21): level zero, at any time, beside anything. The driver's
  /// own status. From now on every register access it makes is a violation (LIFE-22), told once per
  /// DDI. kNotSupported without the entry; then accesses are nobody's fault.
  Status notify_surprise_removal(bool in_hibernation);
  /// Power components, when DXGK_DRIVERCAPS.SupportRuntimePowerManagement is set. What the driver
  /// describes wrongly is a violation (PWR-12), and there are no components then.
  std::vector<PowerComponent> query_power_components();
  /// DxgkDdiSetPowerComponentFState; at most one call per component at a time, to or from F0 (the
  /// caller's duty). kNotSupported without the entry.
  Status set_component_f_state(uint32_t component, uint32_t f_state);

  // --- questions at start
  // -------------------------------------------------------------------------------------------------
  /// PHYSICAL_MEMORY_CAPS / IOMMU_CAPS for 2.9 and up; a no-op success below (LIFE-07).
  Status query_early_caps();
  Result<DriverCaps> query_driver_caps();
  /// The two passes with the type of the driver's model (SEG-01..04). Only what the wire says;
  /// meaning is checked by dxgk.
  Result<SegmentsInfo> query_segments();
  /// GPUMMUCAPS, then PAGETABLELEVELDESC per level. Only what the wire says; meaning is checked by
  /// dxgk. kNotSupported below WDDM 2.0; a driver that fails them, or writes past the structure,
  /// has said nothing: its status, or kDeviceConfigurationError after a finding (LIFE-13). From its
  /// success on the port knows what a reservation has to be a multiple of.
  Result<GpuMmuCaps> query_gpu_mmu();
  /// @param out  may be null; untouched on failure.
  Status get_node_metadata(NodeOrdinal node, NodeMetadata* out = nullptr);
  /// D3DKMTQueryAdapterInfo(UMDRIVERPRIVATE): buffers already captured.
  Status query_umd_private(std::span<const std::byte> in, std::span<std::byte> out);

  // --- objects
  // ---------------------------------------------------------------------------------------------------------------
  /// `system`: the paging process. The driver may call AdapterHost::reserve_gpu_va inside (VA-09).
  /// A null handle and kSuccess below 2.0.
  Result<void*> create_process(uint32_t process_handle, bool system);
  Status destroy_process(void* process);
  /// `process`: the driver's handle of the process the device is in; from WDDM 2.0 on.
  Result<DeviceInfo> create_device(uint32_t device_handle, bool system, void* process = nullptr);
  Status destroy_device(void* device);
  Result<ContextInfo> create_context(void* device, uint32_t context_handle, NodeOrdinal node,
                                     uint32_t engine_affinity, bool system,
                                     std::span<std::byte> private_data,
                                     bool virtual_addressing = false);
  Status destroy_context(void* context);
  // adapter_gpu_va.cpp
  /// DxgkDdiSetRootPageTable (VA-06): lane, PASSIVE_LEVEL, nothing of the context runs or waits in
  /// the hardware queue. kNotSupported without the entry.
  Status set_root_page_table(void* context, const RootPageTable& root);
  /// DxgkDdiGetRootPageTableSize, with two levels only (VA-05): the bytes a root with at least
  /// `entry_count` entries takes; a multiple of the page. kDeviceConfigurationError after a finding
  /// when it is not, or is 0. kNotSupported without the entry. Any thread.
  Result<uint64_t> get_root_page_table_size(uint32_t entry_count);
  /// One DxgkDdiCreateAllocation for the whole array (ALLOC-01). `resource` in/out: driver's
  /// resource handle when `creates_resource` or adding to one; null otherwise.
  Status create_allocations(std::span<AllocationInfo> infos,
                            std::span<const std::byte> private_data, bool creates_resource,
                            void** resource);
  Status destroy_allocations(std::span<void* const> handles, void* resource, bool destroy_resource);
  struct OpenInfo {
    uint32_t allocation_handle = 0;  // D3DKMT handle, for DxgkCbGetHandleData
    std::span<std::byte> private_data;
    void* device_specific = nullptr;  // out
  };
  Status open_allocations(void* device, std::span<OpenInfo> infos,
                          std::span<const std::byte> private_data, bool create,
                          uint32_t resource_handle, bool read_only = false);
  /// DxgkDdiValidateUpdateAllocationProperty, from WDDM 2.1 on: level zero. The driver's own
  /// status; kNotSupported without the entry: nobody can vouch for the change.
  Status validate_property_update(void* allocation, const PropertyUpdate& update);
  Status close_allocations(void* device, std::span<void* const> device_specific);
  // adapter_cpu_access.cpp; lane, which keeps calls of these classes apart (IRQL-04)
  struct SwizzlingRange {
    void* allocation = nullptr;  // hAllocation
    uint32_t private_data = 0, range = 0;
    SegmentId segment;
    uint64_t size_bytes = 0;  // in/out with `size_may_change`
    bool size_may_change = false;
    uint64_t address = 0;  // in: where the CPU sees it unswizzled; out: where it should map it
  };
  /// DxgkDdiAcquireSwizzlingRange. kNotSupported: from WDDM 2.0 on, or without the entry. The
  /// driver's two refusals pass through.
  Status acquire_swizzling_range(SwizzlingRange* range);
  void release_swizzling_range(void* allocation, uint32_t private_data, uint32_t range);
  /// DxgkDdiMapCpuHostAperture: `aperture_pages[i]` shows page `segment_pages[i]`. kNotSupported
  /// without the entry.
  Status map_cpu_host_aperture(void* allocation, SegmentId segment,
                               std::span<const uint32_t> aperture_pages,
                               std::span<const uint64_t> segment_pages);
  /// kNotSupported without the entry.
  Status unmap_cpu_host_aperture(SegmentId segment, std::span<const uint32_t> aperture_pages);
  Status escape(void* device, void* context, uint32_t flags, std::span<std::byte> data);

  // --- work
  // -------------------------------------------------------------------------------------------------------------------
  RenderResult render(const RenderArgs& args);  // caller's thread, level zero
  Status patch(const PatchArgs& args);          // lane
  Status submit(const SubmitArgs& args);        // lane, DISPATCH_LEVEL
  /// DxgkDdiSubmitCommandVirtual: lane, DISPATCH_LEVEL. kInvalidParameter is the driver's judgement
  /// of the buffer (SUB-28): the packet did not start, SUB-29 says what follows; any other answer
  /// but success was fatal and is kUnsuccessful.
  Status submit_virtual(const SubmitVirtualArgs& args);
  /// DxgkDdiValidateSubmitCommand (SUB-34): before the software queue, any thread, PASSIVE_LEVEL.
  /// The driver's refusal, or kSuccess; kNotSupported without the entry, which every driver below
  /// WDDM 2.5 is: then there is nothing to validate.
  Status validate_submit(const ValidateSubmitArgs& args);
  /// Lane, DISPATCH_LEVEL. `idle`: all work of the node has been reported, so the driver reports
  /// the preemption before it returns (PREEMPT-07).
  Status preempt(NodeOrdinal node, SubmissionFenceId fence, bool idle = false);
  Status cancel(const PatchArgs& args);  // lane
  /// Of a context with virtual addressing: no DMA buffer of ours, no lists (CANCEL-17). Lane.
  Status cancel(const SubmitVirtualArgs& args);
  BuildPagingResult build_paging(const BuildPagingArgs& args);  // lane
  /// MDLs given to the driver so far. What it got stays valid until it is released, because drivers
  /// map an MDL while they build and use the mapping while the packet runs. Lane.
  uint64_t paging_mdls_issued() const;
  /// Unmaps and takes back the first `count` MDLs ever issued. Lane.
  void release_paging_mdls(uint64_t count);
  Result<uint32_t> query_current_fence(NodeOrdinal node);

  // --- timeouts (adapter_timeout.cpp)
  // --------------------------------------------------------------------------------------------
  /// The entries of per-engine recovery are there.
  bool has_engine_reset() const;
  /// DxgkDdiQueryDependentEngineGroup: lane. Nodes below `node_count`, one bit each. TDR-12 broken
  /// was fatal, as was the driver's failure: kUnsuccessful then.
  Result<uint64_t> query_dependent_engines(NodeOrdinal node, uint32_t node_count);
  /// DxgkDdiQueryEngineStatus: lane. Whether the engine is responsive. A failure was reported
  /// (TDR-10) and passes through.
  Result<bool> query_engine_status(NodeOrdinal node);
  /// DxgkDdiResetEngine: lane. LastAbortedFenceId, as the driver says. A failure was reported
  /// (TDR-20) and passes through.
  Result<uint32_t> reset_engine(NodeOrdinal node);
  /// DxgkDdiCollectDbgInfo, or its successor where the driver has it (TDR-29): any thread. What the
  /// driver left in the buffer, trailing zeros cut off; empty without the entry.
  std::vector<std::byte> collect_debug_info(uint32_t reason);
  /// DxgkDdiResetFromTimeout: lane, inside level two. The driver's own status (TDR-23).
  Status reset_from_timeout();
  Status restart_from_timeout();
  /// From now on DMA interrupts of these nodes are kept back; one step at interrupt level (TDR-09).
  void mask_engines(uint64_t nodes);
  /// They come again. Those kept back are told now, or forgotten (INT-21).
  void unmask_engines(uint64_t nodes, bool tell);
  /// Returns when no DPC is queued or runs. Not from a DPC.
  void flush_dpcs();
  /// enter_level_two, with an end to its patience. False: not entered, somebody is in the driver.
  bool enter_level_two_until(int64_t deadline_ns);

  // --- displays (adapter_display.cpp); an entry the driver does not have answers kNotSupported
  // -------------------------------------------------------------------------------------------------
  /// Whether the driver has filled that entry of its table ("DxgkDdiCommitVidPn"). False for names
  /// its version does not know.
  bool has_entry(std::string_view name) const;
  /// What drivers give the monitor interface, and every callback: DXGKRNL_INTERFACE::DeviceHandle.
  const void* device_handle() const;

  /// Level two: no other thread in the driver. Waits until those inside level zero have left; they
  /// wait outside until leave_level_two(). Not on the lane; not recursive. A full driver's
  /// level-two calls are made on the lane, so that scheduler-class calls stay out: say how to tell
  /// with set_lane_check, before the adapter runs.
  void enter_level_two();
  void leave_level_two();
  void set_lane_check(std::function<bool()> is_lane);

  // Level zero or one; the caller keeps calls of one class apart.
  /// Whether something is plugged in.
  Result<bool> query_child_status(uint32_t child, bool non_destructive_only);
  /// The EDID with its extension blocks, as the driver read it: hostile bytes, a multiple of 128.
  Result<std::vector<std::byte>> query_device_descriptor(uint32_t child);
  Result<bool> is_supported_vidpn(void* vidpn);
  Status enum_cofunc_modality(void* vidpn, EnumPivot pivot, uint32_t source, uint32_t target);
  /// DXGKARG_QUERYVIDPNHWCAPABILITY::VidPnHWCaps.
  Result<uint32_t> query_vidpn_hw_capability(void* vidpn, uint32_t source, uint32_t target);
  /// STATUS_SUCCESS, or kPending: progress comes as an interrupt, and the pixels stay until then.
  Status present_display_only(const PresentDisplayOnlyArgs& args);
  Status set_pointer_position(uint32_t source, int32_t x, int32_t y, bool visible);
  Status set_pointer_shape(const PointerShape& shape);
  /// DxgkDdiDescribeAllocation of a primary or a possible present source, and of nothing else
  /// (ALLOC-31): level zero. The driver's own status; kNotSupported without the entry.
  Result<AllocationDescription> describe_allocation(void* allocation);
  struct StandardAllocation {
    std::vector<std::byte> allocation_data, resource_data;
  };
  /// DxgkDdiGetStandardAllocationDriverData for a shared primary: sizes, then data.
  Result<StandardAllocation> describe_shared_primary(const PrimarySurface& surface);
  /// The same for existing system memory, as a GDI surface of bytes (ALLOC-20). Any thread.
  Result<StandardAllocation> describe_existing_memory(uint64_t size_bytes);

  // Inside level two.
  /// The driver writes its proposal into the VidPN.
  Status recommend_functional_vidpn(void* vidpn, std::span<const uint32_t> targets);
  Status recommend_monitor_modes(uint32_t target, void* mode_set, const void* mode_set_interface);
  /// `affected_source`: UINT32_MAX - 2 (D3DDDI_ID_ALL) for all.
  Status commit_vidpn(void* vidpn, uint32_t affected_source, void* primary);
  Status update_active_present_path(const vidpn::Path& path);
  Status set_source_visibility(uint32_t source, bool visible);
  /// Of a mode change; or of a flip of a driver without FlipOnVSyncMmIo (DISP-01).
  Status set_source_address(const SourceAddressArgs& args);
  /// DxgkDdiControlInterrupt, 2 or 3, for the vertical sync of `source` (INT-23): the newest entry
  /// the driver has. Its own failure is a violation. kNotSupported without any: it reports always.
  Status control_vsync(uint32_t source, bool enabled);

  // Flips (adapter_present.cpp).
  /// DxgkDdiPresent: caller's thread, level zero. As render(): bounds are checked, undocumented
  /// codes are a violation.
  RenderResult present(const PresentArgs& args);
  /// Of a flip of a driver with FlipOnVSyncMmIo: at device level, beside no ISR (DISP-01). Lane.
  Status flip(const SourceAddressArgs& args);
  /// Level zero. kNotSupported without the entry.
  Status get_scan_line(uint32_t target, bool* in_vertical_blank, uint32_t* line);

  // Exclusively, as start and stop.
  /// LIFE-19. Failure, kNotSupported included: the device runs on and stop_device() is owed.
  Status stop_device_and_release(uint32_t target, DisplayInformation* out);

  // At HIGH_LEVEL, as in a bug check: the driver works alone, from whatever state it is in.
  Status system_display_enable(uint32_t target, uint32_t* width, uint32_t* height,
                               uint32_t* format);
  /// Pixels of four bytes, blue first.
  Status system_display_write(std::span<const std::byte> pixels, uint32_t width, uint32_t height,
                              uint32_t stride_bytes, uint32_t x, uint32_t y);

  /// Compares the driver's patching with a reference (PATCH-13, PATCH-27). On at first; off costs
  /// nothing.
  void set_reference_checks(bool on);
  /// Null, as at first: the driver answers for itself. Before the adapter runs; must outlive it.
  void set_fault_injector(FaultInjector* faults);
  bool has_patch() const;
  bool has_cancel() const;

  struct Impl;  // opaque

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::port
