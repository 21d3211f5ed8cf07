#include "dxgk/work/hw_suspension.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/gpu_va_work.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

HwSuspension::HwSuspension(WorkFloor& floor, HwQueues& all)
    : floor_(floor), core_(floor.core), all_(all), scheduler_(floor.core.port().hw_scheduling()) {}

void HwSuspension::take_off(HwContext& context) {
  if (!all_.scheduling() || context.held++ != 0) return;
  all_.refresh_holds(context);
  if (context.running != HwContext::Running::kYes) return;
  context.running = HwContext::Running::kStopping;
  context.suspended_since = core_.runtime().now();
  const uint64_t fence = ++context.suspend_fence;
  const Status status = scheduler_.suspend(context.driver_handle(), fence);
  if (status == Status::kSuccess) {
    context.running = HwContext::Running::kNo;
    return;
  }
  if (status != Status::kPending) {
    core_.findings().report(verifier::Finding{
        .rule = "SCHED-19",
        .severity = verifier::Severity::kViolation,
        .ddi = "DxgkDdiSuspendContext",
        .actual = fmt::format("It returned 0x{:08X}.", static_cast<uint32_t>(to_ntstatus(status))),
        .expected = "STATUS_SUCCESS if the context is suspended already, else STATUS_PENDING and "
                    "an interrupt SUSPEND_CONTEXT_COMPLETED with the fence.",
        .fix = "Ask the engine to preempt the context, and report its contextSuspendFence when it "
               "has.",
        .why = "A context that does not leave its engine keeps its memory where it is."});
  }
  all_.resets().watch();
}

void HwSuspension::let_go(HwContext& context) {
  if (!all_.scheduling()) return;
  DXGKIT_CHECK(context.held > 0);
  if (--context.held != 0) return;
  if (context.running != HwContext::Running::kYes && !core_.failed()) {
    context.running = HwContext::Running::kYes;
    const Status status = scheduler_.resume(context.driver_handle());
    if (!is_success(status)) {
      core_.findings().report(verifier::Finding{
          .rule = "SCHED-19",
          .severity = verifier::Severity::kViolation,
          .ddi = "DxgkDdiResumeContext",
          .actual =
              fmt::format("It returned 0x{:08X}.", static_cast<uint32_t>(to_ntstatus(status))),
          .expected = "STATUS_SUCCESS: a suspended context may run again.",
          .fix = "Let the engine choose the context again."});
    }
  }
  for (HwQueue* const queue : context.queues) queue->progress_ns = core_.runtime().now();
  all_.refresh_holds(context);
}

bool HwSuspension::off(const HwContext& context) const {
  return !all_.scheduling() || context.running == HwContext::Running::kNo;
}

void HwSuspension::completed(const port::InterruptReport& report) {
  HwContext* const context = all_.context_of(report.handle);
  const uint64_t issued = context == nullptr ? 0 : context->suspend_fence;
  if (report.fence64 == 0 || report.fence64 > issued) {
    core_.fail(verifier::Finding{
        .rule = "SCHED-20",
        .severity = verifier::Severity::kBugCheck,
        .ddi = "DxgkCbNotifyInterrupt",
        .actual = context == nullptr
                      ? fmt::format("SUSPEND_CONTEXT_COMPLETED named context {} that does not "
                                    "exist, with ContextSuspendFence {}.",
                                    report.handle == nullptr ? "NULL" : "handle", report.fence64)
                      : fmt::format("SUSPEND_CONTEXT_COMPLETED has ContextSuspendFence {}; the "
                                    "last one issued for the context is {}.",
                                    report.fence64, issued),
        .expected = "A value that a DxgkDdiSuspendContext for this context was given.",
        .fix = "Keep the contextSuspendFence of each request, and report that value when the "
               "engine has let the context go.",
        .bugcheck_code = 0x119,
        .bugcheck_parameter = 0x11});
    return;
  }
  // An earlier request's answer comes late: the context has been resumed since.
  if (report.fence64 != issued || context->running != HwContext::Running::kStopping) return;
  context->running = HwContext::Running::kNo;
  floor_.paging->look_again();
  core_.progress();
}

void HwSuspension::all_leave() {
  for (HwContext* const context : all_.contexts()) {
    away_.emplace_back(context);
    take_off(*context);
  }
}

bool HwSuspension::all_off() const {
  return std::ranges::all_of(
      away_, [&](const Ref<HwContext>& one) DXGKIT_REQUIRES(on_lane) { return off(*one); });
}

void HwSuspension::all_come_back() {
  for (const Ref<HwContext>& context : std::exchange(away_, {})) let_go(*context);
}

std::vector<Ref<HwContext>> HwSuspension::give_up() {
  std::vector<Ref<HwContext>> kept = std::exchange(away_, {});
  for (const auto& [allocation, queue] : std::exchange(moves_, {})) {
    for (const std::vector<Ref<HwContext>>& taken : queue)
      kept.insert(kept.end(), taken.begin(), taken.end());
  }
  return kept;
}

// --- content that moves ---

void HwSuspension::before(const vidmm::PagingOp& op,
                          std::vector<std::unique_ptr<PagingWork>>* work) {
  using Kind = vidmm::PagingOp::Kind;
  const bool leaves =
      op.kind == Kind::kTransferOut || op.kind == Kind::kDiscard || op.kind == Kind::kUnmapAperture;
  if (!all_.scheduling() || !leaves || all_.contexts().empty()) return;
  const auto asked = std::make_shared<bool>(false);
  work->push_back(
      std::make_unique<CallWork>([this, asked, id = op.allocation]() DXGKIT_REQUIRES(on_lane) {
        std::deque<std::vector<Ref<HwContext>>>& taken = moves_[id.value];
        if (!std::exchange(*asked, true)) {
          std::vector<Ref<HwContext>> concerned;
          for (HwContext* const context : all_.contexts()) {
            if (context->closed) continue;
            if (!floor_.spaces->maps(context->device().process().number(), id)) continue;
            concerned.emplace_back(context);
            take_off(*context);
          }
          taken.push_back(std::move(concerned));
        }
        return std::ranges::all_of(taken.back(), [&](const Ref<HwContext>& context) DXGKIT_REQUIRES(
                                                     on_lane) { return off(*context); });
      }));
}

void HwSuspension::operation_done(const vidmm::PagingOp& op) {
  const auto found = moves_.find(op.allocation.value);
  if (found == moves_.end()) return;
  using Kind = vidmm::PagingOp::Kind;
  const bool leaves =
      op.kind == Kind::kTransferOut || op.kind == Kind::kDiscard || op.kind == Kind::kUnmapAperture;
  if (!leaves) return;
  const std::vector<Ref<HwContext>> taken = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) moves_.erase(found);
  for (const Ref<HwContext>& context : taken) let_go(*context);
}

void HwSuspension::power_failed() {
  const std::map<uint64_t, std::deque<std::vector<Ref<HwContext>>>> moves =
      std::exchange(moves_, {});
  for (HwContext* const context : all_.contexts()) {
    context->running = HwContext::Running::kYes;
    context->root.reset();  // told again when power is back
  }
  for (const auto& [allocation, queue] : moves) {
    for (const std::vector<Ref<HwContext>>& taken : queue) {
      for (const Ref<HwContext>& context : taken) let_go(*context);
    }
  }
  // Whom somebody else still holds is off: nothing is on an engine, and what was asked will not be
  // answered.
  for (HwContext* const context : all_.contexts()) {
    if (context->held != 0) context->running = HwContext::Running::kNo;
  }
}

}  // namespace dxgkit::dxgk
