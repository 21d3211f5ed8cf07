#include "dxgk/work/hw_engine_resets.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/paging_executor.h"
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

HwEngineResets::HwEngineResets(WorkFloor& floor, HwQueues& all, size_t nodes)
    : floor_(floor),
      core_(floor.core),
      all_(all),
      scheduler_(floor.core.port().hw_scheduling()),
      fruitless_(nodes) {
  timer_ = core_.runtime().make_timer([this] {
    core_.lane().post_from_interrupt([this]() DXGKIT_REQUIRES(on_lane) { on_timer(); });
  });
  resume_timer_ = core_.runtime().make_timer([this] {
    core_.lane().post_from_interrupt([this]() DXGKIT_REQUIRES(on_lane) {
      for (uint32_t node = 0; node < fruitless_.size(); ++node) {
        if (resetting(NodeOrdinal{node})) resume_engine(NodeOrdinal{node});
      }
    });
  });
}

void HwEngineResets::adapter_was_reset() {
  resetting_ = 0;
  adapter_reset_due_ = false;
  hit_.clear();
  std::ranges::fill(fruitless_, 0U);
}

void HwEngineResets::engine_is_lost(NodeOrdinal node, const char* ddi, Status status) {
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
  for (HwContext* const context : all_.contexts()) all_.refresh_holds(*context);
  floor_.timeout->require_adapter_reset(node, std::string(ddi) + ": " + actual);
}

// --- silence ---

void HwEngineResets::watch() {
  const int64_t delay = core_.options().tdr_delay_ns;
  if (armed_ || delay <= 0) return;
  const bool work =
      std::ranges::any_of(all_.places(), [](const HwQueue* queue) DXGKIT_REQUIRES(on_lane) {
        return queue != nullptr && !queue->in_flight.empty();
      });
  const bool stopping = std::ranges::any_of(all_.contexts(), [](const HwContext* context) {
    return context->running == HwContext::Running::kStopping;
  });
  if (!work && !stopping) return;
  armed_ = true;
  timer_->arm(core_.runtime().now() + delay);
}

void HwEngineResets::on_timer() {
  armed_ = false;
  if (core_.failed() || adapter_reset_due_) return;
  const int64_t now = core_.runtime().now();
  const int64_t delay = core_.options().tdr_delay_ns;
  for (uint32_t i = 0; i < fruitless_.size(); ++i) {
    const NodeOrdinal node{i};
    if (resetting(node)) continue;
    all_.look_at_fences(node);  // an interrupt that got lost is no hang
    bool busy = false, late = false;
    int64_t progress = 0;
    for (const HwQueue* queue : all_.places()) {
      constexpr uint32_t kDisableGpuTimeout = 1;
      if (queue == nullptr || queue->node() != node || queue->in_flight.empty()) continue;
      if (queue->hw_context().held != 0 || (queue->flags() & kDisableGpuTimeout) != 0) continue;
      busy = true;
      progress = std::max(progress, queue->progress_ns);
    }
    for (const HwContext* context : all_.contexts()) {
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

bool HwEngineResets::reset_engine(NodeOrdinal node) {
  if (!all_.scheduling() || resetting(node) || core_.failed()) return false;
  resetting_ |= uint64_t{1} << node.value;
  for (HwContext* const context : all_.contexts()) all_.refresh_holds(*context);
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

void HwEngineResets::resume_engine(NodeOrdinal node) {
  if (core_.failed() || adapter_reset_due_) return;
  const Status status = scheduler_.resume_engine(node);
  if (!is_success(status)) {
    engine_is_lost(node, "DxgkDdiResumeHwEngine", status);
    return;
  }
  resetting_ &= ~(uint64_t{1} << node.value);
  const int64_t now = core_.runtime().now();
  for (HwContext* const context : all_.contexts()) {
    if (context->node() != node) continue;
    // Nothing of before runs on the engine: who was to leave it has.
    if (context->running == HwContext::Running::kStopping)
      context->running = HwContext::Running::kNo;
    for (HwQueue* const queue : context->queues) queue->progress_ns = now;
    all_.refresh_holds(*context);
  }
  floor_.paging->look_again();
  core_.pump();
  core_.progress();
  watch();
}

void HwEngineResets::lose(HwContext& context) {
  context.device().set_error(DeviceState::kHung);
  for (HwQueue* const queue : std::vector<HwQueue*>(context.queues)) {
    if (queue->in_flight.empty()) continue;
    // They will never be heard of again.
    static_cast<void>(core_.scheduler().completed(*queue->place, queue->in_flight.back().fence,
                                                  core_.runtime().now()));
  }
}

Status HwEngineResets::invalidate(void* driver_context) {
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    HwContext* const context = all_.context_of(driver_context);
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

void HwEngineResets::unexpected_report(const port::InterruptReport& report) {
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
