#include "dxgk/work/selection.h"

#include "dxgk/work/timeout.h"

namespace dxgkit::dxgk {

void Selection::start() {
  quantum_timer_ = core_.runtime().make_timer([this] {
    core_.lane().post_from_interrupt([this]() DXGKIT_REQUIRES(on_lane) {
      quantum_due_.reset();
      pump();
    });
  });
}

void Selection::pump() {
  if (core_.failed() || !core_.has_scheduler() || holds_ != 0) return;
  if (core_.scheduler().minds_time()) {
    core_.scheduler().pump(core_.runtime().now());
  } else {
    core_.scheduler().pump();  // looking at the clock would cost more than all the rest
  }
  timeout_.watch();
  if (core_.scheduler().minds_time()) watch_for_quantum();
}

bool Selection::run_with_idle_hardware(const std::function<void()>& work) {
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    ++holds_;
    core_.scheduler().hold_engines(true);
  });
  bool ran = false;
  static_cast<void>(core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    // What is on hardware may be what hangs.
    if (core_.scheduler().anything_on_hardware()) return timeout_.resetting();
    if (!core_.failed()) {
      work();
      ran = true;
    }
    return true;
  }));
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (--holds_ == 0) core_.scheduler().hold_engines(false);
    pump();
  });
  return ran;
}

void Selection::watch_for_quantum() {
  const std::optional<int64_t> due = core_.scheduler().quantum_deadline();
  // One that rings early finds nothing to do and is set again.
  if (!due || (quantum_due_ && *quantum_due_ <= *due)) return;
  quantum_due_ = due;
  quantum_timer_->arm(*due);
}

}  // namespace dxgkit::dxgk
