#include "dxgk/work/stale_reports.h"

#include <fmt/format.h>

namespace dxgkit::dxgk {

void StaleReports::engine_was_reset(NodeOrdinal node, const vidsch::NodeStatus& before,
                                    SubmissionFenceId preemption, SubmissionFenceId aborted) {
  last_.resize(core_.scheduler().node_count());
  last_[node.value] = {.any = true,
                       .whole = false,
                       .after = before.last_completed,
                       .upto = before.last_submitted,
                       .preemption = preemption,
                       .aborted = aborted};
}

void StaleReports::adapter_is_reset() {
  last_.resize(core_.scheduler().node_count());
  for (uint32_t i = 0; i < last_.size(); ++i) {
    const vidsch::NodeStatus status = core_.scheduler().node_status(NodeOrdinal{i});
    last_[i] = {.any = true,
                .whole = true,
                .after = status.last_completed,
                .upto = status.last_submitted,
                .preemption = SubmissionFenceId{},
                .aborted = status.last_submitted};
  }
}

bool StaleReports::is_stale(const port::InterruptReport& report, vidsch::FenceReport outcome) {
  using Type = port::InterruptReport::Type;
  if (report.node >= last_.size()) return false;
  const Reset& stale = last_[report.node];
  if (!stale.any) return false;
  const SubmissionFenceId fence{report.fence};
  const bool of_packet = fence_newer(fence, stale.after) && !fence_newer(fence, stale.upto);
  const bool of_request = report.type == Type::kDmaPreempted && fence == stale.preemption;
  if (!of_packet && !of_request) return false;
  // Only paging keeps its fence when it is submitted again: this one has come back since (TDR-17).
  if (outcome == vidsch::FenceReport::kRepeated && fence_newer(fence, stale.aborted)) return false;
  core_.findings().report(
      {.rule = stale.whole ? "TDR-22" : "TDR-13",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkCbNotifyInterrupt",
       .actual = fmt::format("Interrupt type {} named fence {} on node {}, which {} had ended: the "
                             "engine was still at it.",
                             report.raw_type, report.fence, report.node,
                             stale.whole ? "DxgkDdiResetFromTimeout" : "DxgkDdiResetEngine"),
       .expected = stale.whole
                       ? "When DxgkDdiResetFromTimeout returns the GPU does nothing any more."
                       : "When DxgkDdiResetEngine returns the hardware queue is empty, and what "
                         "was in it is never heard of again.",
       .fix = "Wait in the DDI until the hardware says that it has stopped, drop the queue, and "
              "clear the interrupt causes before you return.",
       .why = "The kernel has submitted the innocent packets again, under other fences, and given "
              "memory of the others away."});
  return true;
}

}  // namespace dxgkit::dxgk
