#include "runtime/sync.h"

#include "base/check.h"
#include "runtime/internal.h"

namespace dxgkit::runtime {

void Mutex::wait_for_turn() {
  Runtime& runtime = Runtime::current();
  WaitReason reason(runtime, "a mutex");
  while (state_.exchange(kContended, std::memory_order_acquire) != kUnlocked) {
    runtime.wait(state_, kContended);
  }
}

void Mutex::wake_next(uint32_t before) {
  DXGKIT_CHECK(before == kContended);
  Runtime::current().wake_one(state_);
}

void MutexLock::release_below(const void* limit) {
  void** const slots = detail::t_thread_slots;
  if (slots == nullptr) return;
  while (slots[kSlot] != nullptr && slots[kSlot] < limit) {
    auto* const lock = static_cast<MutexLock*>(slots[kSlot]);
    slots[kSlot] = lock->outer_;
    lock->mutex_.unlock();
  }
}

void Event::set() {
  if (state_.exchange(1, std::memory_order_acq_rel) == 0) {
    if (t_runtime != nullptr) t_runtime->wake_all(state_);
  }
}

void Event::reset() { state_.store(0, std::memory_order_release); }

WaitResult Event::wait(TimeNs deadline) {
  if (is_set()) {
    detail::interleave();
    return WaitResult::kWoken;
  }
  Runtime& runtime = Runtime::current();
  WaitReason reason(runtime, "an event");
  while (!is_set()) {
    if (runtime.wait(state_, 0, deadline) == WaitResult::kTimedOut) {
      return is_set() ? WaitResult::kWoken : WaitResult::kTimedOut;
    }
  }
  return WaitResult::kWoken;
}

}  // namespace dxgkit::runtime
