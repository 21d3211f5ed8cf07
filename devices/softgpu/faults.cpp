#include "devices/softgpu/faults.h"

namespace dxgkit::softgpu {

void FaultInjector::set(const FaultPlan& plan) {
  const runtime::MutexLock lock(mutex_);
  plan_ = plan;
  entries_ = {};
  for (size_t node = 0; node < plan.nodes.size(); ++node) {
    const NodeFaults& faults = plan.nodes[node];
    silent_[node].store(faults.lose_interrupt_per_million >= 1'000'000, std::memory_order_relaxed);
    reset_ns_[node].store(faults.reset_ns, std::memory_order_relaxed);
    preempts_when_idle_[node].store(faults.preempts_when_idle, std::memory_order_relaxed);
  }
  active_.store(true, std::memory_order_release);
}

bool FaultInjector::by_chance(uint32_t per_million) {
  if (per_million == 0) return false;
  return runtime_.random() % 1'000'000 < per_million;
}

EntryFate FaultInjector::entry_fate(uint32_t node, uint32_t fence) {
  if (!active_.load(std::memory_order_acquire)) return EntryFate::kNormal;
  const runtime::MutexLock lock(mutex_);
  NodeFaults& faults = plan_.nodes[node];
  ++entries_[node];
  if (faults.memory_error_at_entry == entries_[node]) {
    memory_errors_.fetch_add(1, std::memory_order_relaxed);
    return EntryFate::kMemoryError;
  }
  if (faults.hangs_max == 0) return EntryFate::kNormal;
  const bool chosen =
      faults.hang_always || faults.hang_at_fence == fence || faults.hang_at_entry == entries_[node];
  if (!chosen && !by_chance(faults.hang_per_million)) return EntryFate::kNormal;
  --faults.hangs_max;
  hangs_.fetch_add(1, std::memory_order_relaxed);
  return faults.hangs_late ? EntryFate::kHangsLate : EntryFate::kHangs;
}

InterruptFate FaultInjector::interrupt_fate(uint32_t node, uint32_t fence,
                                            runtime::DurationNs* late_by_ns) {
  if (!active_.load(std::memory_order_acquire)) return InterruptFate::kNormal;
  const runtime::MutexLock lock(mutex_);
  const NodeFaults& faults = plan_.nodes[node];
  *late_by_ns = faults.late_by_ns;
  const InterruptFate fate = draw_fate(faults, fence);
  if (fate != InterruptFate::kNormal)
    fates_[static_cast<size_t>(fate)].fetch_add(1, std::memory_order_relaxed);
  return fate;
}

InterruptFate FaultInjector::draw_fate(const NodeFaults& faults, uint32_t fence) {
  if (faults.lose_interrupt_at_fence == fence) return InterruptFate::kLost;
  if (faults.duplicate_interrupt_at_fence == fence) return InterruptFate::kDuplicate;
  if (faults.late_interrupt_at_fence == fence) return InterruptFate::kLate;
  if (by_chance(faults.lose_interrupt_per_million)) return InterruptFate::kLost;
  if (by_chance(faults.duplicate_interrupt_per_million)) return InterruptFate::kDuplicate;
  if (by_chance(faults.late_interrupt_per_million)) return InterruptFate::kLate;
  return InterruptFate::kNormal;
}

uint32_t FaultInjector::reported_fence(uint32_t node, uint32_t fence) {
  if (!active_.load(std::memory_order_acquire)) return fence;
  const runtime::MutexLock lock(mutex_);
  const auto& corrupt = plan_.nodes[node].corrupt_fences;
  const auto found = corrupt.find(fence);
  if (found == corrupt.end()) return fence;
  corrupted_.fetch_add(1, std::memory_order_relaxed);
  return found->second;
}

uint32_t FaultInjector::slow_factor(uint32_t node) {
  if (!active_.load(std::memory_order_acquire)) return 1;
  const runtime::MutexLock lock(mutex_);
  return plan_.nodes[node].slow_factor;
}

runtime::DurationNs FaultInjector::memory_error_after(uint32_t node) {
  const runtime::MutexLock lock(mutex_);
  return plan_.nodes[node].memory_error_after_ns;
}

}  // namespace dxgkit::softgpu
