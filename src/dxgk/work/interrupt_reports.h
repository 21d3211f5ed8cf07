// What interrupts report, from the interrupt to the scheduler.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/cache_line.h"
#include "base/ids.h"
#include "dxgk/core/adapter_core.h"
#include "port/types.h"
#include "runtime/lane.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

class Faults;
class HwQueues;
class NativeFences;
class Timeout;

/// Keeps the reports of interrupts until the lane takes them in, in order.
class InterruptReports {
 public:
  /// Displays hear of what is about them. Lane.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_present_progress(const port::InterruptReport& report)
        DXGKIT_REQUIRES(on_lane) = 0;
    /// False: the adapter has no video present sources.
    virtual bool on_vsync(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane) = 0;
  };
  InterruptReports(AdapterCore& core, Owner& owner, Timeout& timeout)
      : core_(core), owner_(owner), timeout_(timeout) {}
  /// From here on there are nodes. Null: the adapter has none of these.
  void connect(Faults& faults, HwQueues* hw_queues, NativeFences* native_fences)
      DXGKIT_REQUIRES(on_lane) {
    faults_ = &faults;
    hw_queues_ = hw_queues;
    native_fences_ = native_fences;
  }

  /// Any context.
  void add(std::span<const port::InterruptReport> reports);
  /// Takes in what has been reported.
  void drain() DXGKIT_REQUIRES(on_lane);

 private:
  /// kDmaCompleted, the report of each submission, in few bytes.
  struct Completion {
    uint32_t fence, node, engine;
    uint16_t raw_type;  // there are not so many
    bool in_engine_reset, inside_preempt;
  };

  static port::InterruptReport report_of(const Completion& completion);
  void take_in(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  void handle(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  void report_fence_violation(const port::InterruptReport& report, vidsch::FenceReport outcome)
      DXGKIT_REQUIRES(on_lane);
  void report_without_nodes(const port::InterruptReport& report);
  void handle_vsync(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);

  AdapterCore& core_;
  Owner& owner_;
  Timeout& timeout_;
  runtime::Lane::RecurringWork drain_{[this]() DXGKIT_REQUIRES(on_lane) { drain(); }};
  Faults* faults_ = nullptr;
  HwQueues* hw_queues_ = nullptr;
  NativeFences* native_fences_ = nullptr;

  static constexpr size_t kFew = 3;  // as many as are in the cache line of the lock

  // Interrupt context takes the lock, the innermost one. Reports that have room are in its cache
  // line, so that they come to the lane by one transfer between processors. `reports_` are later.
  alignas(kCacheLineBytes) runtime::Mutex mutex_;
  bool drain_posted_ DXGKIT_GUARDED_BY(mutex_) = false;
  uint8_t completion_count_ DXGKIT_GUARDED_BY(mutex_) = 0;
  std::array<Completion, kFew> completions_ DXGKIT_GUARDED_BY(mutex_){};
  alignas(kCacheLineBytes) std::vector<port::InterruptReport> reports_ DXGKIT_GUARDED_BY(mutex_);
  // Lane:
  std::vector<port::InterruptReport> draining_ DXGKIT_GUARDED_BY(on_lane);
  /// What a node said it had preempted last, to recognise work that ran on all the same.
  struct Preempted {
    bool any = false;
    SubmissionFenceId request, after;  // fences between the two came back unfinished
  };
  std::vector<Preempted> preempted_;  // by node
};

}  // namespace dxgkit::dxgk
