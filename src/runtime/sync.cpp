#include "runtime/sync.h"

#include "base/check.h"
#include "runtime/internal.h"

namespace dxgkit::runtime {
namespace {

constexpr uint32_t kUnlocked = 0;
constexpr uint32_t kLocked = 1;
constexpr uint32_t kContended = 2;

inline void interleave() {
  if (t_runtime != nullptr) t_runtime->interleave();
}

}  // namespace

void Mutex::lock() {
  interleave();
  uint32_t expected = kUnlocked;
  if (state_.compare_exchange_strong(expected, kLocked, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
    return;
  }
  Runtime& runtime = Runtime::current();
  WaitReason reason(runtime, "a mutex");
  while (state_.exchange(kContended, std::memory_order_acquire) != kUnlocked) {
    runtime.wait(state_, kContended);
  }
}

bool Mutex::try_lock() {
  interleave();
  uint32_t expected = kUnlocked;
  return state_.compare_exchange_strong(expected, kLocked, std::memory_order_acquire,
                                        std::memory_order_relaxed);
}

void Mutex::unlock() {
  const uint32_t before = state_.exchange(kUnlocked, std::memory_order_release);
  DXGKIT_CHECK(before != kUnlocked);
  // From here on the mutex may be destroyed; wake_one uses its address only.
  if (before == kContended) Runtime::current().wake_one(state_);
  interleave();
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
    interleave();
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
