// One adapter: where memory manager, scheduler and driver meet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dxgk/adapter/driver_callbacks.h"
#include "dxgk/adapter/exclusive_checks.h"
#include "dxgk/adapter/paging_steps.h"
#include "dxgk/adapter/reset_effects.h"
#include "dxgk/adapter/start_rules.h"
#include "dxgk/adapter/upward_calls.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/device_state.h"
#include "dxgk/core/diagnostic_reports.h"
#include "dxgk/core/id_table.h"
#include "dxgk/core/object.h"
#include "dxgk/display/display_floor.h"
#include "dxgk/display/primaries.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/backing_pages.h"
#include "dxgk/memory/offers.h"
#include "dxgk/memory/paging_buffers.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/teardowns.h"
#include "dxgk/power/component_power.h"
#include "dxgk/power/exclusions.h"
#include "dxgk/sync/protected_session.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocation_calls.h"
#include "dxgk/work/driver_processes.h"
#include "dxgk/work/faults.h"
#include "dxgk/work/interrupt_reports.h"
#include "dxgk/work/selection.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/system_objects.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Budgets;
class ContextAllocations;
class CpuWindows;
class Display;
class HwQueues;
class NativeFences;
class Power;
class Residency;
class System;
class Timeout;

/// Makes the parts of one adapter, joins them, and starts and stops them. Life: start() .. stop(),
/// driven by System. Start and stop run with the gate closed and nobody inside.
class Adapter : public Object,
                private AdapterCore::Owner,
                private GpuVa::Owner,
                private Teardowns::Owner,
                private InterruptReports::Owner,
                private Submission::Owner,
                private ExclusiveChecks::Owner,
                private Primaries::Owner {
 public:
  static constexpr ObjectType kType = ObjectType::kAdapter;
  Adapter(System& system, Luid luid, const AdapterCore::Surroundings& around,
          const AdapterOptions& options);
  ~Adapter() override;

  Status start();
  void stop();
  /// LIFE-21: the hardware is gone; then as stop().
  void remove();
  AdapterStatistics statistics();

  AdapterCore& core() { return core_; }
  /// All parts, for those that stand on the floor they belong to.
  DisplayFloor& floor() { return floor_; }
  /// Null: the adapter has no GPU virtual addresses. Constant while it runs.
  const GpuVaModel* gpu_va_model() const {
    return gpu_va_model_.has_value() ? &*gpu_va_model_ : nullptr;
  }

 private:
  /// Everything between AddDevice and a running adapter. `*step`: the DDI that is at work.
  Status start_full(const char** step);
  /// A display-only adapter has no segments, no nodes, no system objects.
  Status start_display_only(const char** step);
  Status start_device();
  /// OPT-34, if the driver has runtime power management.
  void tell_runtime_power(port::PowerPort::RuntimePhase phase);
  /// A driver that has refused to start is asked why (OPT-24).
  void collect_info(port::DiagnosticPort::After after);
  /// The driver's children, and the interfaces for its own panel. An adapter without outputs has
  /// none, and is asked nothing.
  Status query_children(const char** step, std::vector<port::ChildInfo>* children);
  /// Makes display_; null for render-only adapters.
  Status describe_display(std::vector<port::ChildInfo> children);
  /// No part finds the display any more while it ends.
  void end_display();
  Status make_system_objects(const char** step);
  Status query_nodes(std::vector<port::NodeMetadata>* metadata,
                     std::vector<vidsch::NodeDesc>* nodes);
  /// All parts of an adapter with memory.
  void make_parts(const std::vector<vidmm::SegmentDesc>& segments,
                  const std::vector<vidsch::NodeDesc>& nodes) DXGKIT_REQUIRES(on_lane);
  void undo_start();
  /// LIFE-19: with the POST display left to who comes next, where the driver can.
  Status stop_device();
  /// The frame buffer goes to system memory before the device stops (LIFE-18), on a null context.
  void evict_everything();

  // AdapterCore::Owner
  void stop_after_failure() override DXGKIT_REQUIRES(on_lane);
  void pump() override DXGKIT_REQUIRES(on_lane) { selection_.pump(); }
  void advance_waiting() override DXGKIT_REQUIRES(on_lane);
  // GpuVa::Owner
  void lose_devices(DeviceState state) override DXGKIT_REQUIRES(on_lane);
  // Teardowns::Owner
  void allocation_closes(AllocationId allocation) override DXGKIT_REQUIRES(on_lane);
  void process_has_closed(AllocationId allocation, Process& process) override
      DXGKIT_REQUIRES(on_lane);
  void allocation_ends(AllocationId allocation) override DXGKIT_REQUIRES(on_lane);
  // InterruptReports::Owner
  void on_present_progress(const port::InterruptReport& report) override DXGKIT_REQUIRES(on_lane);
  bool on_vsync(const port::InterruptReport& report) override DXGKIT_REQUIRES(on_lane);
  // Submission::Owner
  void engine_work(NodeOrdinal node, bool comes) override DXGKIT_REQUIRES(on_lane);
  void flip_reached(uint32_t source, uint64_t flip, bool shown) override DXGKIT_REQUIRES(on_lane);
  // ExclusiveChecks::Owner
  bool leaves() const override { return was_running_ && !device_started_; }
  bool paging_is_idle() const override DXGKIT_REQUIRES(on_lane) {
    return paging_ == nullptr || paging_->idle();
  }
  bool must_be_empty(SegmentId segment) const override DXGKIT_REQUIRES(on_lane);
  // Primaries::Owner
  std::unique_ptr<Process> make_process(std::string name, uint32_t number) override;
  Result<Ref<Device>> make_device(Process& process) override;

  System& system_;
  AdapterCore core_;
  DisplayFloor floor_;
  StartRules rules_;
  DriverCallbacks callbacks_;
  PagingSteps paging_steps_;
  UpwardCalls upward_;
  ResetEffects reset_effects_;
  ExclusiveChecks exclusive_checks_;
  bool device_started_ = false;
  bool was_running_ = false;  // its start has succeeded
  bool logs_events_ = false;  // DxgkDdiControlEtwLogging was told so
  std::optional<GpuVaModel> gpu_va_model_;
  std::unique_ptr<Display> display_;
  const std::unique_ptr<Power> power_;
  const std::unique_ptr<Timeout> timeout_;
  Selection selection_;
  InterruptReports reports_;
  Exclusions exclusions_;
  ComponentPower component_power_;
  ContextAllocationCalls context_allocation_calls_;
  BackingPages backing_pages_;
  ProtectedSessions protected_sessions_;
  DiagnosticReports diagnostics_;
  // Those of make_parts: from there on all of them, until stop() has ended.
  std::unique_ptr<PagingExecutor> paging_;
  std::unique_ptr<Budgets> budgets_;
  std::unique_ptr<Residency> residency_;
  std::unique_ptr<ContextAllocations> context_allocations_;
  std::unique_ptr<CpuWindows> cpu_windows_;
  std::unique_ptr<GpuVa> gpu_va_;
  std::unique_ptr<HwQueues> hw_queues_;
  std::unique_ptr<NativeFences> native_fences_;
  std::unique_ptr<CpuEvents> cpu_events_;
  std::unique_ptr<Teardowns> teardowns_;
  std::unique_ptr<Offers> offers_;
  std::unique_ptr<PagingBuffers> paging_buffers_;
  std::unique_ptr<Faults> faults_;
  std::unique_ptr<Submission> submission_;
  std::unique_ptr<DriverProcesses> processes_;
  std::unique_ptr<SystemObjects> system_objects_;
};

}  // namespace dxgkit::dxgk
