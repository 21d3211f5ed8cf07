#include "bench/null_gpu.h"

#include "bench/harness.h"

namespace dxgkit::bench {

NullGpu::NullGpu(runtime::Runtime& runtime)
    : runtime_(runtime), function_(bus::PciIdentity{.vendor_id = 0x1DEA, .device_id = 0x0000}, {}) {
  attach_driver(this);
  engine_ = runtime.spawn("null engine", [this] {
    use_second_core();
    run();
  });
}

NullGpu::~NullGpu() {
  stop_.store(true, std::memory_order_release);
  doorbell_.fetch_add(1, std::memory_order_acq_rel);
  runtime_.wake_all(doorbell_);
  engine_->join();
  attach_driver(nullptr);
}

void NullGpu::submit(uint32_t fence) {
  doorbell_.store(fence, std::memory_order_release);
  runtime_.wake_one(doorbell_);
}

void NullGpu::run() {
  uint32_t seen = 0;
  for (;;) {
    const uint32_t fence = doorbell_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    if (fence == seen) {
      runtime_.wait(doorbell_, seen);
      continue;
    }
    seen = fence;
    if (const runtime::DurationNs duration = duration_; duration != 0) {
      const runtime::TimeNs from = runtime_.now();
      seen_at_.store(from, std::memory_order_release);
      while (runtime_.now() < from + duration) {
      }
      done_at_.store(runtime_.now(), std::memory_order_release);
    }
    completed_.store(fence, std::memory_order_release);
    function_.interrupt_line().raise();
  }
}

}  // namespace dxgkit::bench
