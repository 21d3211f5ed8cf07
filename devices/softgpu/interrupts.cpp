#include "devices/softgpu/interrupts.h"

#include <algorithm>

namespace dxgkit::softgpu {

Interrupts::Interrupts(runtime::Runtime& runtime, bus::InterruptLine& line)
    : runtime_(runtime), line_(line) {
  thread_ = runtime_.spawn("softgpu.irq", [this] { run(); });
}

Interrupts::~Interrupts() {
  stop_.store(true, std::memory_order_release);
  bell_.fetch_add(1, std::memory_order_acq_rel);
  runtime_.wake_all(bell_);
  thread_->join();
}

void Interrupts::set(uint32_t cause) {
  status_.fetch_or(cause, std::memory_order_acq_rel);
  deliver();
}

void Interrupts::set_later(uint32_t cause, runtime::DurationNs delay) {
  {
    const runtime::MutexLock lock(late_mutex_);
    late_.push_back({runtime_.now() + delay, cause});
  }
  bell_.fetch_add(1, std::memory_order_acq_rel);
  runtime_.wake_all(bell_);
}

void Interrupts::lose_power() {
  enable_.store(0, std::memory_order_release);
  status_.store(0, std::memory_order_release);
  unmasked_.store(false, std::memory_order_release);
  const runtime::MutexLock lock(late_mutex_);
  late_.clear();
}

void Interrupts::enable(uint32_t causes) {
  enable_.store(causes, std::memory_order_release);
  if ((status() & causes) == 0) return;
  unmasked_.store(true, std::memory_order_release);
  bell_.fetch_add(1, std::memory_order_acq_rel);
  runtime_.wake_all(bell_);
}

void Interrupts::deliver() {
  if ((status() & enabled()) == 0) return;
  const runtime::MutexLock lock(deliver_mutex_);
  for (int round = 0; (status() & enabled()) != 0; ++round) {
    if (round == kRoundsMax) {
      storms_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    // The interrupt is not claimed: on a machine with one device the system would switch the line
    // off. The cause stays, and the next event raises it again.
    if (!line_.raise()) return;
  }
}

void Interrupts::run() {
  while (true) {
    const uint32_t seen = bell_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    if (unmasked_.exchange(false, std::memory_order_acq_rel)) deliver();
    uint32_t due_causes = 0;
    runtime::TimeNs next = runtime::kForever;
    {
      const runtime::MutexLock lock(late_mutex_);
      const runtime::TimeNs now = runtime_.now();
      std::erase_if(late_, [&](const Late& late) {
        if (late.due > now) {
          next = std::min(next, late.due);
          return false;
        }
        due_causes |= late.cause;
        return true;
      });
    }
    if (due_causes != 0) {
      set(due_causes);
      continue;
    }
    runtime_.wait(bell_, seen, next);
  }
}

}  // namespace dxgkit::softgpu
