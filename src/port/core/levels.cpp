#include "port/core/levels.h"

namespace dxgkit::port {

void SyncLevels::enter_level_two() {
  while (level_two_taken_.exchange(1) != 0) runtime_.wait(level_two_taken_, 1);
  level_zero_.bar();
  level_zero_.wait_empty();
}

bool SyncLevels::enter_level_two_until(int64_t deadline_ns) {
  while (level_two_taken_.exchange(1) != 0) {
    if (runtime_.wait(level_two_taken_, 1, deadline_ns) == runtime::WaitResult::kTimedOut) {
      return false;
    }
  }
  level_zero_.bar();
  if (level_zero_.wait_empty_until(deadline_ns)) return true;
  leave_level_two();
  return false;
}

void SyncLevels::leave_level_two() {
  level_zero_.unbar();
  level_two_taken_.store(0);
  runtime_.wake_all(level_two_taken_);
}

void SyncLevels::wait_for_level_two() {
  // The lane itself makes the level-two calls of a full driver: it never waits for them.
  if (is_lane_ && is_lane_()) return level_zero_.enter_barred();
  while (!level_zero_.enter()) level_zero_.wait_unbarred();
}

}  // namespace dxgkit::port
