// Hardware scheduling: contexts that leave the engine and come back, engines that are reset.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/gpu_va_work.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/timeout.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {
namespace {

/// Between the reset of an engine and its resumption: what was reported before the reset is heard
/// first.
constexpr int64_t kSettleNs = runtime::kMillisecond;
/// Resets of an engine in a row that free nobody, before the adapter is given up (our choice, as
/// TdrLimitCount).
constexpr uint32_t kResetsMost = 5;

}  // namespace

// --- off the engine, and back ---

bool HwQueues::blocked(const HwQueue& queue) const {
  return adapter_reset_due_ || queue.hw_context().held != 0 || resetting(queue.node());
}

void HwQueues::refresh_holds(HwContext& context) {
  for (HwQueue* const queue : context.queues) {
    if (queue->place.has_value()) core_.scheduler().hold_node(*queue->place, blocked(*queue));
  }
}

void HwQueues::take_off(HwContext& context) {
  if (!scheduling_ || context.held++ != 0) return;
  refresh_holds(context);
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
  watch();
}

void HwQueues::let_go(HwContext& context) {
  if (!scheduling_) return;
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
  refresh_holds(context);
}

bool HwQueues::off(const HwContext& context) const {
  return !scheduling_ || context.running == HwContext::Running::kNo;
}

HwContext* HwQueues::context_of(const void* driver_handle) const {
  const auto found = std::ranges::find(contexts_, driver_handle, &HwContext::driver_handle);
  return found == contexts_.end() ? nullptr : *found;
}

void HwQueues::suspend_completed(const port::InterruptReport& report) {
  HwContext* const context = context_of(report.handle);
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

void HwQueues::all_leave() {
  for (HwContext* const context : contexts_) {
    away_.emplace_back(context);
    take_off(*context);
  }
}

bool HwQueues::all_off() const {
  return std::ranges::all_of(
      away_, [&](const Ref<HwContext>& one) DXGKIT_REQUIRES(on_lane) { return off(*one); });
}

void HwQueues::all_come_back() {
  for (const Ref<HwContext>& context : std::exchange(away_, {})) let_go(*context);
}

// --- content that moves ---

void HwQueues::before(const vidmm::PagingOp& op, std::vector<std::unique_ptr<PagingWork>>* work) {
  using Kind = vidmm::PagingOp::Kind;
  const bool leaves =
      op.kind == Kind::kTransferOut || op.kind == Kind::kDiscard || op.kind == Kind::kUnmapAperture;
  if (!scheduling_ || !leaves || contexts_.empty()) return;
  const auto asked = std::make_shared<bool>(false);
  work->push_back(
      std::make_unique<CallWork>([this, asked, id = op.allocation]() DXGKIT_REQUIRES(on_lane) {
        std::deque<std::vector<Ref<HwContext>>>& taken = moves_[id.value];
        if (!std::exchange(*asked, true)) {
          std::vector<Ref<HwContext>> concerned;
          for (HwContext* const context : contexts_) {
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

void HwQueues::operation_done(const vidmm::PagingOp& op) {
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

void HwQueues::power_failed() {
  const std::map<uint64_t, std::deque<std::vector<Ref<HwContext>>>> moves =
      std::exchange(moves_, {});
  for (HwContext* const context : contexts_) {
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
  for (HwContext* const context : contexts_) {
    if (context->held != 0) context->running = HwContext::Running::kNo;
  }
}

void HwQueues::adapter_was_reset() {
  power_failed();
  resetting_ = 0;
  adapter_reset_due_ = false;
  hit_.clear();
  std::ranges::fill(fruitless_, 0U);
  for (HwContext* const context : contexts_) refresh_holds(*context);
}

void HwQueues::device_lost(Device& device) {
  for (HwContext* const context : device.hw_contexts) {
    for (HwQueue* const queue : context->queues) release_fence(*queue);
  }
}

void HwQueues::release_fence(HwQueue& queue) {
  if (!queue.device().lost() || !queue.in_flight.empty() || !queue.has_progress_fence()) return;
  const vidsch::SyncPoint point{queue.progress_fence().id, std::numeric_limits<uint64_t>::max(),
                                false};
  static_cast<void>(core_.scheduler().sync_objects().signal(std::span(&point, 1)));
}

void HwQueues::engine_is_lost(NodeOrdinal node, const char* ddi, Status status) {
  const std::string actual =
      is_success(status)
          ? fmt::format(
                "Work of hardware queues of node {} does not end, and resetting the engine "
                "names nobody and frees nobody.",
                node.value)
          : fmt::format("It returned 0x{:08X} for node {}.",
                        static_cast<uint32_t>(to_ntstatus(status)), node.value);
  core_.findings().report(verifier::Finding{
      .rule = "TDR-30",
      .severity = verifier::Severity::kViolation,
      .ddi = ddi,
      .actual = actual,
      .expected = "An engine is reset, and resumed, with STATUS_SUCCESS.",
      .fix = "Bring the engine back to a state in which it takes work; what was on it may be given "
             "up with DxgkCbInvalidateHwContext.",
      .windows = "The whole adapter is reset."});
  adapter_reset_due_ = true;
  for (HwContext* const context : contexts_) refresh_holds(*context);
  floor_.timeout->require_adapter_reset(node, std::string(ddi) + ": " + actual);
}

// --- silence ---

void HwQueues::watch() {
  const int64_t delay = core_.options().tdr_delay_ns;
  if (armed_ || delay <= 0) return;
  const bool work = std::ranges::any_of(places_, [](const HwQueue* queue) DXGKIT_REQUIRES(on_lane) {
    return queue != nullptr && !queue->in_flight.empty();
  });
  const bool stopping = std::ranges::any_of(contexts_, [](const HwContext* context) {
    return context->running == HwContext::Running::kStopping;
  });
  if (!work && !stopping) return;
  armed_ = true;
  timer_->arm(core_.runtime().now() + delay);
}

void HwQueues::on_timer() {
  armed_ = false;
  if (core_.failed() || adapter_reset_due_) return;
  const int64_t now = core_.runtime().now();
  const int64_t delay = core_.options().tdr_delay_ns;
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    const NodeOrdinal node{i};
    if (resetting(node)) continue;
    look_at_fences(node);  // an interrupt that got lost is no hang
    bool busy = false, late = false;
    int64_t progress = 0;
    for (const HwQueue* queue : places_) {
      constexpr uint32_t kDisableGpuTimeout = 1;
      if (queue == nullptr || queue->node() != node || queue->in_flight.empty()) continue;
      if (queue->hw_context().held != 0 || (queue->flags() & kDisableGpuTimeout) != 0) continue;
      busy = true;
      progress = std::max(progress, queue->progress_ns);
    }
    for (const HwContext* context : contexts_) {
      late =
          late || (context->node() == node && context->running == HwContext::Running::kStopping &&
                   now - context->suspended_since >= delay);
    }
    if (!late && (!busy || now - progress < delay)) continue;
    if (++fruitless_[i] > kResetsMost) {
      engine_is_lost(node, "DxgkDdiResetHwEngine", Status::kSuccess);
    } else if (!reset_engine(node)) {
      engine_is_lost(node, "DxgkDdiSubmitCommandToHwQueue", Status::kSuccess);
    }
    if (core_.failed() || adapter_reset_due_) return;
  }
  core_.pump();
  watch();
}

bool HwQueues::reset_engine(NodeOrdinal node) {
  if (!scheduling_ || resetting(node) || core_.failed()) return false;
  resetting_ |= uint64_t{1} << node.value;
  for (HwContext* const context : contexts_) refresh_holds(*context);
  hit_.clear();
  collecting_ = true;
  const Status status = scheduler_.reset_engine(node);
  collecting_ = false;
  if (!is_success(status)) {
    engine_is_lost(node, "DxgkDdiResetHwEngine", status);
    return true;
  }
  for (HwContext* const context : std::exchange(hit_, {})) lose(*context);
  resume_timer_->arm(core_.runtime().now() + kSettleNs);
  return true;
}

void HwQueues::resume_engine(NodeOrdinal node) {
  if (core_.failed() || adapter_reset_due_) return;
  const Status status = scheduler_.resume_engine(node);
  if (!is_success(status)) {
    engine_is_lost(node, "DxgkDdiResumeHwEngine", status);
    return;
  }
  resetting_ &= ~(uint64_t{1} << node.value);
  const int64_t now = core_.runtime().now();
  for (HwContext* const context : contexts_) {
    if (context->node() != node) continue;
    // Nothing of before runs on the engine: who was to leave it has.
    if (context->running == HwContext::Running::kStopping)
      context->running = HwContext::Running::kNo;
    for (HwQueue* const queue : context->queues) queue->progress_ns = now;
    refresh_holds(*context);
  }
  floor_.paging->look_again();
  core_.pump();
  core_.progress();
  watch();
}

void HwQueues::lose(HwContext& context) {
  context.device().set_error(DeviceState::kHung);
  for (HwQueue* const queue : std::vector<HwQueue*>(context.queues)) {
    if (queue->in_flight.empty()) continue;
    // They will never be heard of again.
    static_cast<void>(core_.scheduler().completed(*queue->place, queue->in_flight.back().fence,
                                                  core_.runtime().now()));
  }
}

Status HwQueues::invalidate(void* driver_context) {
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    HwContext* const context = context_of(driver_context);
    if (context == nullptr) {
      status = Status::kInvalidParameter;
    } else if (collecting_) {
      if (std::ranges::find(hit_, context) == hit_.end()) hit_.push_back(context);
    } else {
      lose(*context);
      core_.pump();
    }
  });
  return status;
}

void HwQueues::unexpected_report(const port::InterruptReport& report) {
  core_.fail(verifier::Finding{
      .rule = "INT-21",
      .severity = verifier::Severity::kBugCheck,
      .ddi = "DxgkCbNotifyInterrupt",
      .actual = fmt::format("Interrupt type {} of node {} was reported after DxgkDdiResetHwEngine "
                            "had returned and before DxgkDdiResumeHwEngine was called.",
                            report.raw_type, report.node),
      .expected = "An engine that has been reset reports nothing until it is resumed.",
      .fix = "Mask the engine's interrupts in DxgkDdiResetHwEngine, drop what is pending, and "
             "unmask them in DxgkDdiResumeHwEngine.",
      .bugcheck_code = 0x119,
      .bugcheck_parameter = 0x10});
}

}  // namespace dxgkit::dxgk
