// What the driver calls back for: interrupts and handles.
#include <fmt/format.h>

#include "base/interface_versions.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/device.h"
#include "dxgk/display/display.h"
#include "dxgk/driver_handles.h"
#include "dxgk/power/power.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/sync/periodic_fences.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/timeout.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

/// Bits of DXGK_PAGE_FAULT_FLAGS.
constexpr uint32_t kPageFaultFenceInvalid = 1U << 1;
constexpr uint32_t kPageFaultFatal = 1U << 4;
constexpr uint32_t kPageFaultAdapterReset = 1U << 2, kPageFaultEngineReset = 1U << 3;
constexpr uint32_t kPageFaultResets =
    kPageFaultAdapterReset | kPageFaultEngineReset | kPageFaultFatal;

}  // namespace

void Adapter::on_interrupts(std::span<const port::InterruptReport> reports) {
  bool post = false;
  {
    runtime::MutexLock lock(reports_mutex_);
    reports_.insert(reports_.end(), reports.begin(), reports.end());
    post = !drain_posted_;
    drain_posted_ = true;
  }
  if (post) lane_.post_from_interrupt([this] { drain_reports(); });
}

void Adapter::drain_reports() {
  {
    runtime::MutexLock lock(reports_mutex_);
    draining_.swap(reports_);
    drain_posted_ = false;
  }
  ++counters_.dpcs;
  for (const port::InterruptReport& report : draining_) {
    ++counters_.interrupts;
    // News of a life before the power went: nobody waits for it any more.
    if (!failed_ && !power_->off()) handle_report(report);
  }
  draining_.clear();
  pump();
}

void Adapter::handle_report(const port::InterruptReport& report) {
  using Type = port::InterruptReport::Type;
  if (report.type == Type::kPresentProgress) {
    if (display_) display_->on_progress(report);
    return;
  }
  if (!scheduler_) {  // display-only: nothing was ever submitted
    report_without_nodes(report);
    return;
  }
  const NodeOrdinal node{report.node};
  const int64_t now = runtime_.now();
  if ((report.type == Type::kDmaCompleted || report.type == Type::kDmaPreempted ||
       report.type == Type::kDmaFaulted) &&
      report.engine != 0) {  // INT-12: there are no links here
    report_fence_violation(report, vidsch::FenceReport::kUnknownNode);
    return;
  }
  if (report.in_engine_reset && hw_queues_) {
    hw_queues_->unexpected_report(report);
    return;
  }
  switch (report.type) {
    case Type::kMonitoredFenceSignaled:
      scheduler_->sync_objects().reread();  // INT-24; more than the engine's processes' is harmless
      if (hw_queues_) hw_queues_->look_at_fences(node);
      break;
    case Type::kNativeFenceSignaled:
      if (native_fences_) native_fences_->signaled(report);
      break;
    case Type::kHwQueuePageFaulted:
      if (hw_queues_) hw_queues_->page_faulted(report);
      break;
    case Type::kSuspendCompleted:
      if (hw_queues_) hw_queues_->suspend_completed(report);
      break;
    case Type::kDmaCompleted: {
      const vidsch::FenceReport outcome =
          scheduler_->completed(node, SubmissionFenceId{report.fence}, now);
      if (outcome != vidsch::FenceReport::kAccepted) report_fence_violation(report, outcome);
      scheduler_->sync_objects().reread();  // SYNC-19
      break;
    }
    case Type::kDmaPreempted: {
      const vidsch::FenceReport outcome = scheduler_->preempted(
          node, SubmissionFenceId{report.fence}, SubmissionFenceId{report.last_completed}, now);
      if (outcome != vidsch::FenceReport::kAccepted) {
        report_fence_violation(report, outcome);
        break;
      }
      if (preempted_.size() <= report.node) preempted_.resize(report.node + 1);
      preempted_[report.node] = {.any = true,
                                 .request = SubmissionFenceId{report.fence},
                                 .after = SubmissionFenceId{report.last_completed}};
      timeout_->preemption_answered(report);
      progress();
      break;
    }
    case Type::kDmaFaulted:
    case Type::kDmaPageFaulted:
      handle_fault(report);
      break;
    case Type::kCrtcVsync:
      signal_periodic_fences(*this, report.source);
      handle_vsync(report);
      break;
    case Type::kDisplayOnlyVsync:
    case Type::kPresentProgress:
    case Type::kOther:
      break;
  }
}

void Adapter::report_without_nodes(const port::InterruptReport& report) {
  using Type = port::InterruptReport::Type;
  if (report.type == Type::kDisplayOnlyVsync || report.type == Type::kOther) return;
  findings_.report(verifier::Finding{
      .rule = "CAPS-09",
      .severity = verifier::Severity::kViolation,
      .ddi = "DxgkCbNotifyInterrupt",
      .actual = fmt::format("A display-only driver reported interrupt type {}.", report.raw_type),
      .expected = "It reports DISPLAYONLY_VSYNC and DISPLAYONLY_PRESENT_PROGRESS only.",
      .fix = "Use the display-only types; there is no node and no flip to report for."});
}

void Adapter::handle_vsync(const port::InterruptReport& report) {
  if (display_) return display_->on_vsync(report);
  fail(verifier::Finding{
      .rule = "INT-20",
      .severity = verifier::Severity::kBugCheck,
      .ddi = "DxgkCbNotifyInterrupt",
      .actual = fmt::format("An adapter without video present sources reported a vertical sync of "
                            "target {}.",
                            report.source),
      .expected = "A render-only adapter has nothing that scans out.",
      .fix = "Report vertical syncs only where NumberOfVideoPresentSources is not 0.",
      .bugcheck_code = 0x119,
      .bugcheck_parameter = 0x7});
}

void Adapter::on_child_status(uint32_t child, bool connected) {
  if (display_) display_->on_child_status(child, connected);
}

void Adapter::on_component(uint32_t component, ComponentEvent event) {
  lane_.post_from_interrupt([this, component, event] {
    if (runtime_power_ && !failed_) runtime_power_->on_event(component, event);
  });
}

void Adapter::handle_fault(const port::InterruptReport& report) {
  const bool page_fault = report.type == port::InterruptReport::Type::kDmaPageFaulted;
  if (page_fault)
    trace::emit(trace::EventKind::kGpuVaFault, report.fence, report.address, report.flags,
                report.page_table_level, static_cast<uint16_t>(report.node));
  if (!page_fault && interface_version() >= kInterfaceWddm20) {  // G-11: the same effect, and said
    findings_.report(
        verifier::Finding{.rule = "INT-15",
                          .severity = verifier::Severity::kViolation,
                          .ddi = "DxgkCbNotifyInterrupt",
                          .actual = fmt::format("DMA_FAULTED was reported for fence {} of node {}.",
                                                report.fence, report.node),
                          .expected = "From WDDM 2.0 on this type is reserved for the system.",
                          .fix = "Report DMA_PAGE_FAULTED, or let the packet time out."});
  }
  if (page_fault && (report.flags & kPageFaultFatal) != 0) {
    fail(verifier::Finding{.rule = "INT-18",
                           .severity = verifier::Severity::kBugCheck,
                           .ddi = "DxgkCbNotifyInterrupt",
                           .actual = fmt::format("DMA_PAGE_FAULTED has PageFaultFlags 0x{:X}: a "
                                                 "fatal hardware error.",
                                                 report.flags),
                           .expected = "The hardware goes on after a page fault.",
                           .fix = "Report a fatal error only when no reset can help.",
                           .bugcheck_code = 0x119,
                           .bugcheck_parameter = 0xC});
    return;
  }
  if (page_fault && (report.flags & kPageFaultFenceInvalid) != 0 &&
      (report.fence != 0 || (report.flags & kPageFaultResets) == 0)) {
    fail(verifier::Finding{
        .rule = "INT-17",
        .severity = verifier::Severity::kBugCheck,
        .ddi = "DxgkCbNotifyInterrupt",
        .actual = fmt::format("DMA_PAGE_FAULTED has PageFaultFlags 0x{:X} and FaultedFenceId {}.",
                              report.flags, report.fence),
        .expected = "With FENCE_INVALID the fence is 0 and a reset is asked for.",
        .fix = "Set ENGINE_RESET_REQUIRED or ADAPTER_RESET_REQUIRED, or name the faulted fence.",
        .bugcheck_code = 0x119,
        .bugcheck_parameter = 0xD});
    return;
  }
  if (page_fault && (report.flags & kPageFaultResets) != 0 &&
      report.node >= scheduler_->node_count()) {
    report_fence_violation(report, vidsch::FenceReport::kUnknownNode);
    return;
  }
  if (!page_fault || (report.flags & kPageFaultFenceInvalid) == 0) {
    fault_state_ = page_fault ? DeviceState::kErrorDmaPageFault : DeviceState::kErrorDmaFault;
    page_fault_ = page_fault ? &report : nullptr;
    const vidsch::FenceReport outcome = scheduler_->faulted(
        NodeOrdinal{report.node}, SubmissionFenceId{report.fence}, runtime_.now(), nullptr);
    page_fault_ = nullptr;
    if (outcome != vidsch::FenceReport::kAccepted) {
      report_fence_violation(report, outcome);
      return;
    }
  }
  if (page_fault) reset_after_fault(report);
}

void Adapter::reset_after_fault(const port::InterruptReport& report) {
  const bool adapter = (report.flags & kPageFaultAdapterReset) != 0;
  if (!adapter && (report.flags & kPageFaultEngineReset) == 0) return;
  std::string cause = fmt::format(
      "The driver reported a page fault at {:#x} on node {} with PageFaultFlags {:#x}: {} has to "
      "be reset.",
      report.address, report.node, report.flags, adapter ? "the adapter" : "the engine");
  if (adapter) {
    timeout_->require_adapter_reset(NodeOrdinal{report.node}, std::move(cause));
  } else {
    timeout_->require_engine_reset(NodeOrdinal{report.node}, std::move(cause));
  }
}

void Adapter::report_fence_violation(const port::InterruptReport& report,
                                     vidsch::FenceReport outcome) {
  if (outcome != vidsch::FenceReport::kAccepted && timeout_->is_stale(report, outcome)) return;
  const bool known_node = report.node < scheduler_->node_count();
  vidsch::NodeStatus status;
  if (known_node) status = scheduler_->node_status(NodeOrdinal{report.node});
  verifier::Finding finding;
  finding.ddi = "DxgkCbNotifyInterrupt";
  finding.actual = fmt::format(
      "Interrupt type {} named fence {} on node {}, engine {}; last submitted {}, last completed "
      "{}.",
      report.raw_type, report.fence, report.node, report.engine, status.last_submitted.value,
      status.last_completed.value);
  finding.severity = verifier::Severity::kBugCheck;
  finding.bugcheck_code = 0x119;
  finding.bugcheck_parameter = 0x1;
  switch (outcome) {
    case vidsch::FenceReport::kAccepted:
      return;
    case vidsch::FenceReport::kRepeated:
      finding.rule = "INT-11";
      finding.severity = verifier::Severity::kViolation;
      finding.bugcheck_code = 0;
      finding.bugcheck_parameter = 0;
      finding.expected = "Each fence is reported complete once.";
      finding.fix = "Remember the last fence you reported per node and report only newer ones.";
      findings_.report(std::move(finding));
      return;
    case vidsch::FenceReport::kUnknownFence:
      finding.rule =
          report.type == port::InterruptReport::Type::kDmaPreempted ? "PREEMPT-09" : "INT-11";
      finding.expected =
          "The fence is outstanding on that node: submitted, not yet complete, not preempted.";
      finding.fix =
          "Report the SubmissionFenceId the kernel gave with the packet the engine finished; nodes "
          "count separately.";
      if (report.type == port::InterruptReport::Type::kDmaCompleted &&
          report.node < preempted_.size() && preempted_[report.node].any) {
        const Preempted& last = preempted_[report.node];
        const SubmissionFenceId fence{report.fence};
        if (fence_newer(fence, last.after) && fence_newer(last.request, fence)) {
          finding.actual = fmt::format(
              "Fence {} of node {} was reported complete after DMA_PREEMPTED (PreemptionFenceId "
              "{}, LastCompletedFenceId {}) had said it was preempted: it was still running.",
              report.fence, report.node, last.request.value, last.after.value);
          finding.expected =
              "DMA_PREEMPTED is reported once the engine has stopped at a DMA boundary; what was "
              "not complete then does not run on.";
          finding.fix =
              "Report DMA_PREEMPTED from the interrupt that says the engine has stopped, with the "
              "last fence it finished as LastCompletedFenceId.";
          finding.why =
              "The kernel submits preempted packets again: work that ran on is done twice.";
        }
      }
      break;
    case vidsch::FenceReport::kUnknownNode:
      finding.rule = "INT-12";
      finding.expected =
          fmt::format("NodeOrdinal is below {} and EngineOrdinal is 0.", scheduler_->node_count());
      finding.fix =
          "Fill NodeOrdinal with the node the packet was submitted to, EngineOrdinal with 0.";
      break;
    case vidsch::FenceReport::kUnexpectedPreemption:
      finding.rule = "INT-14";
      finding.expected =
          "PreemptionFenceId is that of the one outstanding DxgkDdiPreemptCommand of the node.";
      finding.fix =
          "Report DMA_PREEMPTED once per request, with the PreemptionFenceId of that request.";
      break;
  }
  fail(std::move(finding));
}

void* Adapter::get_handle_data(uint32_t handle, HandleType type, bool device_specific) {
  if (device_specific && type != HandleType::kAllocation) return nullptr;  // ALLOC-33
  switch (type) {
    case HandleType::kAllocation: {
      const Ref<OpenedAllocation> opened = find_for_driver<OpenedAllocation>(handle);
      if (!opened || &opened->device->adapter() != this) return nullptr;
      return device_specific ? opened->device_specific : opened->driver_allocation;
    }
    case HandleType::kResource: {
      const Ref<Resource> resource = find_for_driver<Resource>(handle);
      return resource && &resource->device->adapter() == this ? resource->driver_handle : nullptr;
    }
    case HandleType::kContext: {
      const Ref<Context> context = find_for_driver<Context>(handle);
      return context && &context->device().adapter() == this ? context->driver_handle() : nullptr;
    }
    case HandleType::kDevice: {
      const Ref<Device> device = find_for_driver<Device>(handle);
      return device && &device->adapter() == this ? device->driver_handle() : nullptr;
    }
    case HandleType::kProcess:
      return nullptr;
  }
  return nullptr;
}

uint32_t Adapter::get_handle_parent(uint32_t allocation) {
  const Ref<OpenedAllocation> opened = find_for_driver<OpenedAllocation>(allocation);
  if (!opened || &opened->device->adapter() != this) return 0;
  return opened->resource ? opened->resource->handle : 0;
}

uint32_t Adapter::enum_handle_children(uint32_t resource, uint32_t index) {
  const Ref<Resource> found = find_for_driver<Resource>(resource);
  if (!found || &found->device->adapter() != this) return 0;
  uint32_t child = 0;
  lane_.run([&] {
    if (index < found->members.size()) child = found->members[index]->handle;
  });
  return child;
}

Result<uint64_t> Adapter::reserve_gpu_va(const port::GpuVaReservation& range) {
  return gpu_va_ ? gpu_va_->reserve_for_driver(range) : Error(Status::kNotSupported);
}

Status Adapter::on_hw_context_invalid(void* context, bool collateral) {
  static_cast<void>(collateral);  // the device is lost either way
  return hw_queues_ ? hw_queues_->invalidate(context) : Status::kNotSupported;
}

void* Adapter::acquire_handle_data(uint32_t handle, HandleType type, bool device_specific,
                                   void** reference) {
  *reference = nullptr;
  if (type != HandleType::kAllocation)
    return nullptr;  // only allocations can be held (see the support table)
  const Ref<OpenedAllocation> opened = find_for_driver<OpenedAllocation>(handle);
  if (!opened || &opened->device->adapter() != this) return nullptr;
  bool held = false;
  lane_.run([&] {
    if (opened->closing) return;
    ++opened->driver_references;
    opened->add_reference();
    held = true;
  });
  if (!held) return nullptr;
  *reference = opened.get();
  return device_specific ? opened->device_specific : opened->driver_allocation;
}

void Adapter::release_handle_data(void* reference) {
  if (reference == nullptr) return;
  auto* opened = static_cast<OpenedAllocation*>(reference);
  lane_.run([&] {
    DXGKIT_CHECK(opened->driver_references > 0);
    --opened->driver_references;
    progress();
  });
  opened->drop_reference();
}

}  // namespace dxgkit::dxgk
