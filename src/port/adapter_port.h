// The port of one adapter: all calls to and from its miniport.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "bus/machine.h"
#include "nt/kernel.h"
#include "port/adapter_host.h"
#include "port/core/levels.h"
#include "port/ddi/allocations.h"
#include "port/ddi/caps.h"
#include "port/ddi/children.h"
#include "port/ddi/clock.h"
#include "port/ddi/cpu_access.h"
#include "port/ddi/cpu_event.h"
#include "port/ddi/diagnostics.h"
#include "port/ddi/display_caps.h"
#include "port/ddi/gpu_va.h"
#include "port/ddi/hw_queue.h"
#include "port/ddi/hw_scheduling.h"
#include "port/ddi/interfaces.h"
#include "port/ddi/life.h"
#include "port/ddi/native_fence.h"
#include "port/ddi/notices.h"
#include "port/ddi/objects.h"
#include "port/ddi/overlays.h"
#include "port/ddi/paging.h"
#include "port/ddi/planes.h"
#include "port/ddi/power.h"
#include "port/ddi/protected_sessions.h"
#include "port/ddi/rendering.h"
#include "port/ddi/scanout.h"
#include "port/ddi/submission.h"
#include "port/ddi/targets.h"
#include "port/ddi/timeouts.h"
#include "port/ddi/vidpn.h"
#include "port/driver.h"
#include "port/types.h"
#include "runtime/runtime.h"
#include "verifier/findings.h"
#include "vidpn/types.h"

namespace dxgkit::verifier {
class SituationLog;
}

namespace dxgkit::port {

class FaultInjector;

/// One adapter of a driver: its DDIs by family, typed in our words. The port marshals structures by
/// the version the driver declared, sets and checks IRQL, checks the synchronisation class
/// (IRQL-04, IRQL-06), traces entry and exit, checks outputs against the rules and reports
/// findings. A missing optional DDI answers kNotSupported.
///
/// Threads: scheduler-class calls (patch, submit, preempt, cancel, build_paging) on the lane only;
/// level-zero calls on any thread; start, stop, power: exclusively.
class AdapterPort {
 public:
  AdapterPort(Driver& driver, nt::Kernel& kernel, bus::Machine& machine, bus::PciFunction& function,
              AdapterHost& host, verifier::Findings& findings);
  ~AdapterPort();

  // One class of the folder ddi for each family. They live as long as the adapter.
  LifePort& life() { return life_; }
  InterfacesPort& interfaces() { return interfaces_; }
  CapsPort& caps() { return caps_; }
  PowerPort& power() { return power_; }
  ObjectsPort& objects() { return objects_; }
  AllocationsPort& allocations() { return allocations_; }
  CpuAccessPort& cpu_access() { return cpu_access_; }
  GpuVaPort& gpu_va() { return gpu_va_; }
  RenderingPort& rendering() { return rendering_; }
  SubmissionPort& submission() { return submission_; }
  PagingPort& paging() { return paging_; }
  TimeoutPort& timeouts() { return timeouts_; }
  HwQueuePort& hw_queues() { return hw_queues_; }
  HwSchedulingPort& hw_scheduling() { return hw_scheduling_; }
  NativeFencePort& native_fences() { return native_fences_; }
  CpuEventPort& cpu_events() { return cpu_events_; }
  ClockPort& clock() { return clock_; }
  ChildPort& children() { return children_; }
  VidPnPort& vidpn() { return vidpn_; }
  ScanoutPort& scanout() { return scanout_; }
  OverlayPort& overlays() { return overlays_; }
  ProtectedSessionPort& protected_sessions() { return protected_sessions_; }
  NoticePort& notices() { return notices_; }
  DiagnosticPort& diagnostics() { return diagnostics_; }
  PlanesPort& planes() { return planes_; }
  TargetsPort& targets() { return targets_; }
  /// Synchronization levels two and three.
  SyncLevels& levels();

  /// Interrupts::raised_by_another.
  void interrupt_of_another_device();

  /// True if the driver has filled that entry of its table ("DxgkDdiCommitVidPn"). False for names
  /// that its version does not know.
  bool has_entry(std::string_view name) const;
  /// The version of a feature (DXGK_FEATURE_ID) that is enabled for the adapter; 0 if it is not.
  /// The driver hears the same (DxgkCbIsFeatureEnabled). Any thread.
  uint16_t enabled_feature(uint32_t feature) const;
  /// The handle that drivers give to the monitor interface and to every callback:
  /// DXGKRNL_INTERFACE::DeviceHandle.
  const void* device_handle() const;
  /// Compares the driver's patching with a reference (PATCH-13, PATCH-27). On by default; off costs
  /// nothing.
  void set_reference_checks(bool on);
  /// What the driver finds in outputs that it must write: caps, segments, node metadata, what it
  /// says of allocations, contexts, fences and displays, and in buffers and patch lists. 0 is the
  /// default. With anything else, members that are left as they were are findings (LIFE-29). While
  /// the adapter is idle.
  void set_output_fill(std::byte fill);
  std::byte output_fill() const;
  /// Sets the fault injector. Null, the default: the driver's own answers count. Set it before the
  /// adapter runs; it must outlive the adapter.
  void set_fault_injector(FaultInjector* faults);
  /// From now on counts there what the driver is confronted with. Before the adapter runs; the log
  /// must outlive it. Null, the default: nothing is looked at.
  void set_situation_log(verifier::SituationLog* log);

 private:
  std::unique_ptr<PortCore> core_;
  LifePort life_{*core_};
  InterfacesPort interfaces_{*core_};
  CapsPort caps_{*core_};
  PowerPort power_{*core_};
  ObjectsPort objects_{*core_};
  AllocationsPort allocations_{*core_};
  CpuAccessPort cpu_access_{*core_};
  GpuVaPort gpu_va_{*core_};
  RenderingPort rendering_{*core_};
  SubmissionPort submission_{*core_};
  PagingPort paging_{*core_};
  TimeoutPort timeouts_{*core_};
  HwQueuePort hw_queues_{*core_};
  HwSchedulingPort hw_scheduling_{*core_};
  NativeFencePort native_fences_{*core_};
  CpuEventPort cpu_events_{*core_};
  ClockPort clock_{*core_};
  ChildPort children_{*core_};
  VidPnPort vidpn_{*core_};
  ScanoutPort scanout_{*core_};
  OverlayPort overlays_{*core_};
  ProtectedSessionPort protected_sessions_{*core_};
  NoticePort notices_{*core_};
  DiagnosticPort diagnostics_{*core_};
  PlanesPort planes_{*core_};
  TargetsPort targets_{*core_};
};

}  // namespace dxgkit::port
