#include "dxgk/work/interrupt_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dxgk/sync/native_fences.h"
#include "dxgk/work/faults.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/timeout.h"

namespace dxgkit::dxgk {

void InterruptReports::add(std::span<const port::InterruptReport> reports) {
  bool post = false;
  {
    runtime::MutexLock lock(mutex_);
    for (const port::InterruptReport& report : reports) {
      if (report.type == port::InterruptReport::Type::kDmaCompleted && reports_.empty() &&
          completion_count_ < kFew) {
        completions_[completion_count_++] = {
            report.fence,           report.node,
            report.engine,          static_cast<uint16_t>(report.raw_type),
            report.in_engine_reset, report.inside_preempt};
      } else {
        reports_.push_back(report);
      }
    }
    post = !drain_posted_;
    drain_posted_ = true;
  }
  if (post) core_.lane().post_from_interrupt(drain_);
}

void InterruptReports::drain() {
  std::array<Completion, kFew> completions;
  size_t count = 0;
  {
    runtime::MutexLock lock(mutex_);
    count = std::exchange(completion_count_, uint8_t{0});
    std::copy_n(completions_.begin(), count, completions.begin());
    if (!reports_.empty()) draining_.swap(reports_);
    drain_posted_ = false;
  }
  ++core_.counters().dpcs;
  for (size_t i = 0; i < count; ++i) take_in(report_of(completions[i]));
  for (const port::InterruptReport& report : draining_) take_in(report);
  draining_.clear();
  core_.pump();
}

port::InterruptReport InterruptReports::report_of(const Completion& completion) {
  port::InterruptReport report;
  report.type = port::InterruptReport::Type::kDmaCompleted;
  report.raw_type = completion.raw_type;
  report.fence = completion.fence;
  report.node = completion.node;
  report.engine = completion.engine;
  report.in_engine_reset = completion.in_engine_reset;
  report.inside_preempt = completion.inside_preempt;
  return report;
}

void InterruptReports::take_in(const port::InterruptReport& report) {
  ++core_.counters().interrupts;
  // News of a life before the power went: nobody waits for it any more.
  if (!core_.failed() && !core_.power_phase().off()) handle(report);
}

void InterruptReports::handle(const port::InterruptReport& report) {
  core_.lane().assert_current();
  using Type = port::InterruptReport::Type;
  if (report.type == Type::kPresentProgress) {
    owner_.on_present_progress(report);
    return;
  }
  if (!core_.has_scheduler()) {  // display-only: nothing was ever submitted
    report_without_nodes(report);
    return;
  }
  const NodeOrdinal node{report.node};
  const int64_t now = core_.runtime().now();
  if ((report.type == Type::kDmaCompleted || report.type == Type::kDmaPreempted ||
       report.type == Type::kDmaFaulted) &&
      report.engine != 0) {  // INT-12: there are no links here
    report_fence_violation(report, vidsch::FenceReport::kUnknownNode);
    return;
  }
  if (report.in_engine_reset && hw_queues_) {
    hw_queues_->resets().unexpected_report(report);
    return;
  }
  switch (report.type) {
    case Type::kMonitoredFenceSignaled:
      core_.scheduler()
          .sync_objects()
          .reread();  // INT-24; more than the engine's processes' is harmless
      if (hw_queues_) hw_queues_->look_at_fences(node);
      break;
    case Type::kNativeFenceSignaled:
      if (!native_fences_ || !native_fences_->signaled(report)) break;
      if (report.legacy_fences_too && hw_queues_) hw_queues_->look_at_fences(node);
      break;
    case Type::kHwQueuePageFaulted:
      if (hw_queues_) hw_queues_->page_faulted(report);
      break;
    case Type::kSuspendCompleted:
      if (hw_queues_) hw_queues_->suspension().completed(report);
      break;
    case Type::kDmaCompleted: {
      const vidsch::FenceReport outcome =
          core_.scheduler().completed(node, SubmissionFenceId{report.fence}, now);
      if (outcome != vidsch::FenceReport::kAccepted) report_fence_violation(report, outcome);
      core_.scheduler().sync_objects().reread();  // SYNC-19
      break;
    }
    case Type::kDmaPreempted: {
      const vidsch::FenceReport outcome = core_.scheduler().preempted(
          node, SubmissionFenceId{report.fence}, SubmissionFenceId{report.last_completed}, now);
      if (outcome != vidsch::FenceReport::kAccepted) {
        report_fence_violation(report, outcome);
        break;
      }
      if (preempted_.size() <= report.node) preempted_.resize(report.node + 1);
      preempted_[report.node] = {.any = true,
                                 .request = SubmissionFenceId{report.fence},
                                 .after = SubmissionFenceId{report.last_completed}};
      timeout_.preemption_answered(report);
      core_.progress();
      break;
    }
    case Type::kDmaFaulted:
    case Type::kDmaPageFaulted:
      report_fence_violation(report, faults_->handle(report));
      break;
    case Type::kCrtcVsync:
      handle_vsync(report);
      break;
    case Type::kDisplayOnlyVsync:
    case Type::kPresentProgress:
    case Type::kOther:
      break;
  }
}

void InterruptReports::report_without_nodes(const port::InterruptReport& report) {
  using Type = port::InterruptReport::Type;
  if (report.type == Type::kDisplayOnlyVsync || report.type == Type::kOther) return;
  core_.findings().report(verifier::Finding{
      .rule = "CAPS-09",
      .severity = verifier::Severity::kViolation,
      .ddi = "DxgkCbNotifyInterrupt",
      .actual = fmt::format("A display-only driver reported interrupt type {}.", report.raw_type),
      .expected = "It reports DISPLAYONLY_VSYNC and DISPLAYONLY_PRESENT_PROGRESS only.",
      .fix = "Use the display-only types; there is no node and no flip to report for."});
}

void InterruptReports::handle_vsync(const port::InterruptReport& report) {
  if (owner_.on_vsync(report)) return;
  core_.fail(verifier::Finding{
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

void InterruptReports::report_fence_violation(const port::InterruptReport& report,
                                              vidsch::FenceReport outcome) {
  if (outcome != vidsch::FenceReport::kAccepted && timeout_.stale().is_stale(report, outcome))
    return;
  const bool known_node = report.node < core_.scheduler().node_count();
  vidsch::NodeStatus status;
  if (known_node) status = core_.scheduler().node_status(NodeOrdinal{report.node});
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
      core_.findings().report(std::move(finding));
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
      finding.expected = fmt::format("NodeOrdinal is below {} and EngineOrdinal is 0.",
                                     core_.scheduler().node_count());
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
  core_.fail(std::move(finding));
}

}  // namespace dxgkit::dxgk
