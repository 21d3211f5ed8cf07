#include "dxgk/memory/trim.h"

#include <algorithm>

#include "dxgk/core/process.h"

namespace dxgkit::dxgk {

TrimNotifier::TrimNotifier(runtime::Runtime& runtime) : runtime_(runtime) {}

TrimNotifier::~TrimNotifier() { stop(); }

uint64_t TrimNotifier::add(DeviceMemory& device, Process& process, const void* owner,
                           Callback callback) {
  runtime::MutexLock lock(mutex_);
  auto one = std::make_shared<Registration>();
  one->number = ++last_number_;
  one->device = &device;
  one->process = &process;
  one->owner = owner;
  one->callback = std::move(callback);
  registrations_.push_back(std::move(one));
  if (thread_ == nullptr) thread_ = runtime_.spawn("trim", [this] { run(); });
  return last_number_;
}

template <typename Which>
bool TrimNotifier::remove_where(const Which& which) {
  bool found = false;
  for (;;) {
    const uint32_t seen = deliveries_.load(std::memory_order_acquire);
    bool busy = false;
    {
      runtime::MutexLock lock(mutex_);
      const uint64_t delivering = delivering_.load(std::memory_order_acquire);
      // The one inside its callback is taken off when it is out, unless it is who asks.
      const bool own = thread_number_ != 0 && runtime_.thread_number() == thread_number_;
      const auto gone = [&](const auto& one) {
        if (!which(*one)) return false;
        found = true;
        if (one->number == delivering && !own) busy = true;
        one->pending = false;
        return one->number != delivering || own;
      };
      std::erase_if(registrations_, gone);
    }
    if (!busy) return found;
    runtime::WaitReason reason(runtime_, "a trim callback that is being removed");
    runtime_.wait(deliveries_, seen);
  }
}

bool TrimNotifier::remove(const Process& process, uint64_t number, const void* owner) {
  return remove_where([&](const Registration& one) {
    return one.number == number && one.process == &process && one.owner == owner;
  });
}

void TrimNotifier::remove_all(const DeviceMemory& device) {
  static_cast<void>(remove_where([&](const Registration& one) { return one.device == &device; }));
}

void TrimNotifier::notify(const Process& process, const TrimNotice& notice) {
  {
    runtime::MutexLock lock(mutex_);
    for (const auto& one : registrations_) {
      if (one->process != &process) continue;
      const TrimNotice waiting = one->pending ? one->notice : TrimNotice{};
      one->notice = notice;
      one->pending = true;
      // The rest of what was not delivered yet still holds.
      if (!notice.to_budget && waiting.to_budget) {
        one->notice.to_budget = true;
        one->notice.bytes = waiting.bytes;
      }
      if (!notice.periodic && !notice.restart_periodic) {
        one->notice.periodic = waiting.periodic;
        one->notice.restart_periodic = waiting.restart_periodic;
      }
    }
  }
  events_.fetch_add(1, std::memory_order_release);
  runtime_.wake_all(events_);
}

void TrimNotifier::stop() {
  std::unique_ptr<runtime::Thread> thread;
  {
    runtime::MutexLock lock(mutex_);
    for (const auto& one : registrations_) one->pending = false;
    thread = std::move(thread_);
  }
  if (thread == nullptr) return;
  stopping_.store(true, std::memory_order_release);
  events_.fetch_add(1, std::memory_order_release);
  runtime_.wake_all(events_);
  thread->join();
}

void TrimNotifier::run() {
  {
    runtime::MutexLock lock(mutex_);
    thread_number_ = runtime_.thread_number();
  }
  for (;;) {
    const uint32_t seen = events_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_acquire)) return;
    if (deliver_one()) continue;
    runtime::WaitReason reason(runtime_, "somebody to be told to trim");
    runtime_.wait(events_, seen);
  }
}

bool TrimNotifier::deliver_one() {
  std::shared_ptr<Registration> next;
  TrimNotice notice;
  {
    runtime::MutexLock lock(mutex_);
    const auto found =
        std::ranges::find_if(registrations_, [](const auto& one) { return one->pending; });
    if (found == registrations_.end()) return false;
    next = *found;
    next->pending = false;
    notice = next->notice;
    delivering_.store(next->number, std::memory_order_release);
  }
  {
    Process::Scope scope(next->process);
    next->callback(notice);
  }
  delivering_.store(0, std::memory_order_release);
  deliveries_.fetch_add(1, std::memory_order_release);
  runtime_.wake_all(deliveries_);
  return true;
}

}  // namespace dxgkit::dxgk
