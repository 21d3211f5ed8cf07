#include "tools/dxgkit/power.h"

#include <utility>

namespace dxgkit::tool {
namespace {

dxgk::PowerTarget target_of(PowerStep step) {
  switch (step) {
    case PowerStep::kStandby:
      return dxgk::PowerTarget::kStandby;
    case PowerStep::kHibernate:
      return dxgk::PowerTarget::kHibernate;
    case PowerStep::kHybrid:
      return dxgk::PowerTarget::kHybridSleep;
    case PowerStep::kD1:
      return dxgk::PowerTarget::kD1;
    case PowerStep::kD2:
      return dxgk::PowerTarget::kD2;
    case PowerStep::kD3:
    case PowerStep::kRemove:
      break;
  }
  return dxgk::PowerTarget::kD3;
}

}  // namespace

PowerRunner::PowerRunner(runtime::Runtime& runtime, dxgk::System& system, dxgk::Luid adapter,
                         PowerPlan plan, std::function<void()> unplug)
    : runtime_(runtime),
      system_(system),
      adapter_(adapter),
      plan_(std::move(plan)),
      unplug_(std::move(unplug)) {
  if (!plan_.empty()) thread_ = runtime_.spawn("power", [this] { run(); });
}

PowerRunner::~PowerRunner() { static_cast<void>(finish()); }

std::vector<PowerDone> PowerRunner::finish() {
  if (thread_) {
    cancelled_.store(true);
    system_.nudge(adapter_);
    thread_->join();
    thread_.reset();
  }
  return done_;
}

void PowerRunner::run() {
  for (const PlannedPower& planned : plan_) {
    if (!system_.wait_for_packets(adapter_, planned.packets, cancelled_)) return;
    PowerDone done;
    done.planned = planned;
    if (const auto now = system_.statistics(adapter_); now.has_value()) {
      done.packets = now->packets_completed;
      last_ = *now;
    }
    const runtime::TimeNs began = runtime_.now();
    if (planned.step == PowerStep::kRemove) {
      unplug_();
      done.status = system_.remove_adapter(adapter_);
    } else {
      const Result<dxgk::PowerOutcome> down = system_.set_power(adapter_, target_of(planned.step));
      done.status = down.has_value() ? Status::kSuccess : down.error();
      if (down.has_value()) {
        done.outcome = *down;
        const Result<dxgk::PowerOutcome> up = system_.set_power(adapter_, dxgk::PowerTarget::kD0);
        if (!up.has_value()) done.status = up.error();
      }
      last_.reset();
    }
    done.time_ns = runtime_.now() - began;
    done_.push_back(done);
    if (!is_success(done.status)) return;
  }
}

}  // namespace dxgkit::tool
