#include <optional>

#include "base/check.h"
#include "runtime/internal.h"
#include "trace/trace.h"

namespace dxgkit::runtime {

class TimerQueue::QueuedTimer final : public Timer {
 public:
  QueuedTimer(TimerQueue& queue, std::function<void()> callback)
      : queue_(queue), callback_(std::make_shared<std::function<void()>>(std::move(callback))) {}

  ~QueuedTimer() override {
    MutexLock lock(queue_.mutex_);
    queue_.disarm(*this);
    if (queue_.running_ != this) return;
    if (t_runtime == &queue_.runtime_ && t_runtime->thread_number() == queue_.thread_number_) {
      queue_.running_ =
          nullptr;  // destroyed by its own callback: serve() must not look at it again
      return;
    }
    WaitReason reason(queue_.runtime_, "a running timer callback to return");
    while (queue_.running_ == this) {
      const uint32_t seen = queue_.finished_.load(std::memory_order_relaxed);
      queue_.mutex_.unlock();
      queue_.runtime_.wait(queue_.finished_, seen);
      queue_.mutex_.lock();
    }
  }

  void arm(TimeNs due) override {
    // Once the lock is free the callback may run, and destroy this timer.
    TimerQueue& queue = queue_;
    {
      MutexLock lock(queue_.mutex_);
      queue_.disarm(*this);
      recorder_ = trace::current();
      key_ = Key{due, queue_.next_sequence_++};
      queue_.armed_.emplace(*key_, this);
      if (queue_.thread_ == nullptr) {
        queue_.thread_ = queue_.spawn_service_([served = &queue_] { served->serve(); });
      }
      if (queue_.armed_.begin()->second != this) return;
      queue_.changed_.fetch_add(1, std::memory_order_relaxed);
    }
    queue.runtime_.wake_all(queue.changed_);
  }

  bool cancel() override {
    MutexLock lock(queue_.mutex_);
    return queue_.disarm(*this);
  }

 private:
  friend class TimerQueue;

  TimerQueue& queue_;
  // Shared with serve(), so that a callback may destroy its own timer.
  std::shared_ptr<std::function<void()>> callback_;
  // Guarded by the queue's mutex, which the analysis cannot tell from `queue_.mutex_`.
  std::optional<Key> key_;
  trace::Recorder* recorder_ = nullptr;
};

bool TimerQueue::disarm(QueuedTimer& timer) {
  if (!timer.key_.has_value()) return false;
  armed_.erase(*timer.key_);
  timer.key_.reset();
  return true;
}

TimerQueue::~TimerQueue() = default;

std::unique_ptr<Timer> TimerQueue::make(std::function<void()> callback) {
  return std::make_unique<QueuedTimer>(*this, std::move(callback));
}

void TimerQueue::serve() {
  MutexLock lock(mutex_);
  thread_number_ = runtime_.thread_number();
  while (!stopping_) {
    const TimeNs due = armed_.empty() ? kForever : armed_.begin()->first.first;
    if (due == kForever || due > runtime_.now()) {
      const uint32_t seen = changed_.load(std::memory_order_relaxed);
      mutex_.unlock();
      {
        WaitReason reason(runtime_, "the next timer");
        runtime_.wait(changed_, seen, due);
      }
      mutex_.lock();
      continue;
    }
    QueuedTimer* timer = armed_.begin()->second;
    disarm(*timer);
    running_ = timer;
    const std::shared_ptr<std::function<void()>> callback = timer->callback_;
    trace::Recorder* const recorder = timer->recorder_;
    mutex_.unlock();
    // In sim all threads share one OS thread and with it the current recorder.
    if (!runtime_.is_simulated()) trace::set_current(recorder);
    (*callback)();
    if (!runtime_.is_simulated()) trace::set_current(nullptr);
    mutex_.lock();
    running_ = nullptr;
    finished_.fetch_add(1, std::memory_order_relaxed);
    mutex_.unlock();
    runtime_.wake_all(finished_);
    mutex_.lock();
  }
}

void TimerQueue::stop() {
  std::unique_ptr<Thread> thread;
  {
    MutexLock lock(mutex_);
    thread = std::move(thread_);
    if (thread == nullptr) return;
    stopping_ = true;
    changed_.fetch_add(1, std::memory_order_relaxed);
  }
  runtime_.wake_all(changed_);
  thread->join();
  MutexLock lock(mutex_);
  stopping_ = false;
}

}  // namespace dxgkit::runtime
