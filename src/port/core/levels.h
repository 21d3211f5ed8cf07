// The threads inside a driver, and the threads that may enter: the synchronization levels of DDIs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/check.h"
#include "port/core/ddi_info.h"
#include "runtime/runtime.h"
#include "runtime/turnstile.h"

namespace dxgkit::port {

/// The synchronization levels of one adapter (IRQL-02 to IRQL-06). Every DDI passes through enter()
/// and leave(). Their checks abort, because a breach is our bug.
///
/// Level two (mode setting) is a span: enter_level_two() waits for the level-zero calls inside and
/// keeps new ones out. Any thread, PASSIVE_LEVEL, unless a method says more.
class SyncLevels {
 public:
  explicit SyncLevels(runtime::Runtime& runtime) : runtime_(runtime) {}

  /// Enters level two, in which no other thread is in the driver. Waits until all level-zero calls
  /// have left; new ones wait outside until leave_level_two(). Not on the lane; not recursive. A
  /// full driver's level-two calls are made on the lane, so that scheduler-class calls stay out.
  /// set_lane_check, before the adapter runs, tells how to recognise the lane.
  void enter_level_two();
  void leave_level_two();
  /// enter_level_two with a deadline. False: not entered, because a thread is still in the driver.
  bool enter_level_two_until(int64_t deadline_ns);
  void set_lane_check(std::function<bool()> is_lane) { is_lane_ = std::move(is_lane); }

  /// A DDI of this class begins on this thread. A level-zero call waits while level two is held.
  void enter(DdiClass ddi_class);
  void leave(DdiClass ddi_class);
  /// True if this thread is inside a DDI of level two or three (IRQL-11).
  bool has_adapter_to_itself() const {
    return exclusive_thread_.load() == runtime_.thread_number() + 1;
  }

 private:
  /// A level-zero call found level two held: waits until it is released.
  void wait_for_level_two();

  runtime::Runtime& runtime_;
  // Plain counters would do for the checks. They are atomic because a wrong caller is a race.
  std::atomic<bool> scheduler_inside_{false};
  std::atomic<bool> exclusive_inside_{false};
  std::atomic<uint32_t> exclusive_thread_{0};  // the thread in a call of level two or three, + 1
  runtime::Turnstile level_zero_;              // barred while level two is held
  // 1: level two is held, for a mode change or for as long as the adapter sleeps.
  std::atomic<uint32_t> level_two_taken_{0};
  std::function<bool()> is_lane_;  // null: no thread is the lane
};

inline void SyncLevels::enter(DdiClass ddi_class) {
  switch (ddi_class) {
    case DdiClass::kScheduler:
      // A load and a store, not a read-modify-write: only the lane may call, so a race here is
      // itself the bug.
      DXGKIT_CHECK(!scheduler_inside_.load(std::memory_order_relaxed));
      scheduler_inside_.store(true, std::memory_order_relaxed);
      DXGKIT_CHECK(!exclusive_inside_.load(std::memory_order_relaxed));
      break;
    case DdiClass::kLevelZero:
      if (!level_zero_.enter()) [[unlikely]]
        wait_for_level_two();
      DXGKIT_CHECK(!exclusive_inside_.load(std::memory_order_relaxed));
      break;
    case DdiClass::kLevelTwo:
      // This does not check that the turnstile is empty: a refused thread counts up and down again.
      DXGKIT_CHECK(level_zero_.barred());
      DXGKIT_CHECK(!scheduler_inside_.load());
      DXGKIT_CHECK(!exclusive_inside_.exchange(true));
      exclusive_thread_.store(runtime_.thread_number() + 1);
      break;
    case DdiClass::kExclusive:
      DXGKIT_CHECK(!exclusive_inside_.exchange(true));
      DXGKIT_CHECK(level_zero_.barred() || level_zero_.empty());
      DXGKIT_CHECK(!scheduler_inside_.load());
      exclusive_thread_.store(runtime_.thread_number() + 1);
      break;
    case DdiClass::kLevelZeroBeside:
      break;
  }
}

inline void SyncLevels::leave(DdiClass ddi_class) {
  switch (ddi_class) {
    case DdiClass::kScheduler:
      scheduler_inside_.store(false, std::memory_order_relaxed);
      break;
    case DdiClass::kLevelZero:
      level_zero_.leave();
      break;
    case DdiClass::kLevelTwo:
    case DdiClass::kExclusive:
      exclusive_thread_.store(0);
      exclusive_inside_.store(false);
      break;
    case DdiClass::kLevelZeroBeside:
      break;
  }
}

}  // namespace dxgkit::port
