// A thread and a flag outside of every runtime, for a library that hosts a runtime in a program
// whose threads are not its own. All other code has a Runtime, and uses that.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace dxgkit::runtime {

/// A flag that is set once. Any thread, also one of no runtime; it needs no construction and no
/// destruction.
class HostFlag {
 public:
  bool is_set() const { return word_.load(std::memory_order_acquire) != 0; }
  /// Wakes everyone who waits.
  void set();
  /// Blocks until the flag is set.
  void wait() const;

 private:
  std::atomic<uint32_t> word_{0};
};

/// Blocks while `word` holds `value`. Whoever changes the word calls wake_host_waiters after it.
void wait_while(const std::atomic<uint32_t>& word, uint32_t value);
void wake_host_waiters(const std::atomic<uint32_t>& word);

/// A lock for threads of no runtime. Not recursive.
class HostMutex {
 public:
  void lock() {
    if (word_.exchange(1, std::memory_order_acquire) == 0) return;
    while (word_.exchange(2, std::memory_order_acquire) != 0) wait_while(word_, 2);
  }
  void unlock() {
    if (word_.exchange(0, std::memory_order_release) == 2) wake_host_waiters(word_);
  }

 private:
  std::atomic<uint32_t> word_{0};  // 0 free, 1 held, 2 held and perhaps waited for
};

class HostMutexLock {
 public:
  explicit HostMutexLock(HostMutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~HostMutexLock() { mutex_.unlock(); }
  HostMutexLock(const HostMutexLock&) = delete;
  HostMutexLock& operator=(const HostMutexLock&) = delete;

 private:
  HostMutex& mutex_;
};

/// In a forked child, on its only thread: the thread no longer belongs to the parent's runtime,
/// whose other threads are not there. Scopes that bound it must not end in the child.
void leave_runtime_of_parent();
/// From now on calls leave_runtime_of_parent and then `in_child` in every forked child of the
/// process.
void when_forked(void (*in_child)());

/// A thread that belongs to no runtime. Aborts if the system has no thread left.
class HostThread {
 public:
  HostThread(const std::string& name, std::function<void()> body);
  /// The thread must have been joined.
  ~HostThread();
  HostThread(const HostThread&) = delete;
  HostThread& operator=(const HostThread&) = delete;

  /// Blocks until the body has returned. Once, and not from the thread itself.
  void join();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dxgkit::runtime
