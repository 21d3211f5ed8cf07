// Faults that a test may plant in the software GPU. No register reaches them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

#include "devices/softgpu/softgpu_hw.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"

namespace dxgkit::softgpu {

/// The faults of one node. Chances are per million entries, drawn from Runtime::random.
struct NodeFaults {
  /// The engine stops dead when it begins this fence, until reset.
  std::optional<uint32_t> hang_at_fence;
  /// The same at its n-th entry, from 1, counted from when the plan was set.
  std::optional<uint32_t> hang_at_entry;
  /// The same on every entry, and by chance.
  bool hang_always = false;
  uint32_t hang_per_million = 0;
  /// The number of hangs after which the plan is used up.
  uint32_t hangs_max = UINT32_MAX;
  /// The entries that hang have done all but complete. A reset makes them complete first.
  bool hangs_late = false;
  /// The n-th entry, counted as for hang_at_entry, stops with SGPU_FAULT_MEMORY before its first
  /// command: an uncorrectable error in memory.
  std::optional<uint32_t> memory_error_at_entry;
  runtime::DurationNs memory_error_after_ns = 0;  // so long after the entry has begun
  /// Lets a reset take so long, in any mode.
  runtime::DurationNs reset_ns = 0;
  /// The engine answers a preemption when its ring is empty, and not before.
  bool preempts_when_idle = false;

  /// The completion of this fence sets its cause but never drives the line. Below: the same by
  /// chance; if all are lost, those of preemptions and faults are, too.
  std::optional<uint32_t> lose_interrupt_at_fence;
  uint32_t lose_interrupt_per_million = 0;
  /// The completion interrupt comes twice.
  std::optional<uint32_t> duplicate_interrupt_at_fence;
  uint32_t duplicate_interrupt_per_million = 0;
  /// The completion interrupt comes late_by_ns after the fence register has changed.
  std::optional<uint32_t> late_interrupt_at_fence;
  uint32_t late_interrupt_per_million = 0;
  runtime::DurationNs late_by_ns = runtime::kMillisecond;
  /// When one of these fences completes, the engine reports another number.
  std::map<uint32_t, uint32_t> corrupt_fences;

  /// Multiplies every modelled duration. In os mode, where work takes no modelled time, an engine
  /// with a factor above 1 waits for the modelled time.
  uint32_t slow_factor = 1;
};

struct FaultPlan {
  std::array<NodeFaults, SGPU_NODE_COUNT> nodes;
  /// Accesses that touch VRAM offsets [begin, end) raise SGPU_FAULT_MEMORY. Empty by default.
  uint64_t bad_vram_begin = 0;
  uint64_t bad_vram_end = 0;
};

enum class EntryFate { kNormal, kHangs, kHangsLate, kMemoryError };
enum class InterruptFate { kNormal, kLost, kDuplicate, kLate };

/// Applies a plan. Thread-safe. Costs nothing while there is no plan.
class FaultInjector {
 public:
  explicit FaultInjector(runtime::Runtime& runtime) : runtime_(runtime) {}
  void set(const FaultPlan& plan);

  /// A node begins an entry: decides its fate.
  EntryFate entry_fate(uint32_t node, uint32_t fence);
  InterruptFate interrupt_fate(uint32_t node, uint32_t fence, runtime::DurationNs* late_by_ns);
  /// The fence number that is reported when `fence` completes.
  uint32_t reported_fence(uint32_t node, uint32_t fence);
  uint32_t slow_factor(uint32_t node);
  runtime::DurationNs memory_error_after(uint32_t node);
  runtime::DurationNs reset_time(uint32_t node) const {
    return reset_ns_[node].load(std::memory_order_relaxed);
  }
  bool preempts_when_idle(uint32_t node) const {
    return preempts_when_idle_[node].load(std::memory_order_relaxed);
  }
  /// True while every completion interrupt of the node is lost: then its other interrupts are, too.
  bool is_silent(uint32_t node) const { return silent_[node].load(std::memory_order_relaxed); }
  /// The number of completions with this fate so far. kNormal is not counted.
  uint64_t count(InterruptFate fate) const {
    return fates_[static_cast<size_t>(fate)].load(std::memory_order_relaxed);
  }
  /// The number of entries at which an engine stopped dead or met an error in memory, and of
  /// completions reported as another fence.
  uint64_t hangs() const { return hangs_.load(std::memory_order_relaxed); }
  uint64_t memory_errors() const { return memory_errors_.load(std::memory_order_relaxed); }
  uint64_t corrupted() const { return corrupted_.load(std::memory_order_relaxed); }

 private:
  InterruptFate draw_fate(const NodeFaults& faults, uint32_t fence);
  bool by_chance(uint32_t per_million);

  runtime::Runtime& runtime_;
  // Read without the lock on every entry. A plan that is set meanwhile takes effect at the next
  // read.
  std::atomic<bool> active_{false};
  // Of the plan, read without the lock as well.
  std::array<std::atomic<bool>, std::tuple_size_v<decltype(FaultPlan::nodes)>> silent_{},
      preempts_when_idle_{};
  std::array<std::atomic<runtime::DurationNs>, std::tuple_size_v<decltype(FaultPlan::nodes)>>
      reset_ns_{};
  std::array<std::atomic<uint64_t>, 4> fates_{};
  std::atomic<uint64_t> hangs_{0}, memory_errors_{0}, corrupted_{0};
  runtime::Mutex mutex_;
  FaultPlan plan_ DXGKIT_GUARDED_BY(mutex_);
  std::array<uint32_t, SGPU_NODE_COUNT> entries_ DXGKIT_GUARDED_BY(mutex_) = {};
};

}  // namespace dxgkit::softgpu
