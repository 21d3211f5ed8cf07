// The interface that the port needs from dxgk when the driver calls back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "port/diagnostic_types.h"
#include "port/types.h"
#include "verifier/findings.h"

namespace dxgkit::port {

/// Implemented by dxgk. The port calls it when the driver calls back.
class AdapterHost {
 public:
  virtual ~AdapterHost() = default;
  /// Reports recorded by DxgkCbNotifyInterrupt since the last call, in order. Called from
  /// DxgkCbNotifyDpc (or after the synchronised routine that called it), in interrupt context:
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
  /// On success `*handle` is the driver's name for it. PASSIVE_LEVEL, any thread. kInvalidParameter
  /// (RES-31, and what allocations may not be), kNoMemory, kDeviceRemoved.
  virtual Status create_context_allocation(const ContextAllocationRequest& request,
                                           uint64_t* handle) {
    static_cast<void>(request);
    static_cast<void>(handle);
    return Status::kNotSupported;
  }
  /// Ends the handle at once, and frees the memory when no work uses it. kInvalidParameter: no such
  /// handle.
  virtual Status destroy_context_allocation(uint64_t handle) {
    static_cast<void>(handle);
    return Status::kNotSupported;
  }
  virtual bool has_context_allocation(uint64_t handle) {
    static_cast<void>(handle);
    return false;
  }
  /// DxgkCbUpdateContextAllocation: returns when the hardware has updated the allocation (PAGE-43).
  /// `data` is read during the call. kInvalidParameter: no such handle, or the caller is inside a
  /// DDI that keeps paging from going on. kNotSupported: no GPU virtual addresses. kNoMemory,
  /// kGraphicsAllocationBusy: no room for it. kDeviceRemoved.
  virtual Status update_context_allocation(uint64_t handle, std::span<const std::byte> data) {
    static_cast<void>(handle);
    static_cast<void>(data);
    return Status::kNotSupported;
  }
  /// The driver broke a rule that stops the adapter; a finding with kBugCheck was reported. Any
  /// context.
  virtual void on_fatal(const verifier::Finding& finding) = 0;
  /// DxgkCbIndicateChildStatus: a connector was plugged in or out. PASSIVE_LEVEL, any thread, also
  /// inside StartDevice: note it, and ask the driver later.
  virtual void on_child_status(uint32_t child, bool connected) {
    static_cast<void>(child);
    static_cast<void>(connected);
  }
  /// DxgkCbIndicateConnectorChange: the driver has changes of its outputs to tell. PASSIVE_LEVEL,
  /// any thread: note it, and ask the driver later.
  virtual void on_connector_change() {}
  /// DxgkCbMultiPlaneOverlayDisabled: the planes of a source are supported no longer.
  /// PASSIVE_LEVEL, any thread: note it.
  virtual void on_planes_disabled(uint32_t source) { static_cast<void>(source); }
  /// DxgkCbReserveGpuVirtualAddressRange, on the thread that is inside create_process for that
  /// process. Returns the start of the range, or an error for the driver. kNotSupported: no such
  /// model here.
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
  /// DxgkCbSetProtectedSessionStatus, of a session by the kernel's name. PASSIVE_LEVEL, any thread,
  /// also inside create(). kInvalidParameter: no such session.
  virtual Status set_protected_session_status(uint64_t session, bool valid) {
    static_cast<void>(session);
    static_cast<void>(valid);
    return Status::kNotSupported;
  }
  /// DxgkCbReportDiagnostic, of a type that is enabled. At most DISPATCH_LEVEL, any thread.
  /// kUnsuccessful: it could not be kept.
  virtual Status on_diagnostic(DiagnosticReport report) {
    static_cast<void>(report);
    return Status::kNotSupported;
  }
  /// DxgkCbSignalEvent with CpuEventObject: sets the event that DxgkDdiCreateCpuEvent named. At
  /// most DISPATCH_LEVEL, any thread: do not block. kInvalidParameter: there is no such event.
  virtual Status signal_cpu_event(uint64_t event) {
    static_cast<void>(event);
    return Status::kNotSupported;
  }
  /// Called right before a DDI of synchronization level two or three. The host has arranged the
  /// rest of what the level promises (IRQL-02, IRQL-03), and checks it here. On the thread that
  /// makes the call, with no lock of the port held. A failed check is our bug and aborts.
  enum class SyncLevel { kTwo, kThree };
  virtual void before_exclusive_ddi(const char* ddi, SyncLevel level) {
    static_cast<void>(ddi);
    static_cast<void>(level);
  }
  /// DxgkCbExcludeAdapterAccess (IRQL-11): calls `call` once, later, on a thread of the host. With
  /// kSuccess: until `call` returns no thread uses the adapter or is inside the driver, and with
  /// `evict` no content is in a memory segment. With another status none of that holds.
  /// PASSIVE_LEVEL, any thread: do not block. kDeviceRemoved: the adapter is stopping, and `call`
  /// is not called.
  virtual Status exclude_access(bool evict, std::function<void(Status)> call) {
    static_cast<void>(evict);
    static_cast<void>(call);
    return Status::kNotSupported;
  }
  /// DxgkCbSetPowerComponentActive / Idle / CompleteFStateTransition of a component. At most
  /// DISPATCH_LEVEL, any thread; the last also inside set_component_f_state: post, do not block.
  enum class ComponentEvent { kActive, kIdle, kTransitionDone };
  virtual void on_component(uint32_t component, ComponentEvent event) {
    static_cast<void>(component);
    static_cast<void>(event);
  }
};

}  // namespace dxgkit::port
