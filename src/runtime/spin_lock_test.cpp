// The lock of observers, with threads of the system.
#include "base/spin_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "runtime/runtime.h"

namespace dxgkit::runtime {
namespace {

// The state letter of a thread of this process: R while it runs or could, S while it sleeps.
char state_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '?' : text[name_end + 2];
}

TEST(SpinLock, OneThreadHasIt) {
  constexpr int kThreads = 4, kTurns = 20'000;
  const auto runtime = make_os_runtime();
  SpinLock lock;
  int turns = 0;  // as any other number would be, without the lock
  runtime->run_main([&] {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.push_back(runtime->spawn("taker", [&] {
        for (int turn = 0; turn < kTurns; ++turn) {
          const SpinGuard guard(lock);
          turns = turns + 1;
        }
      }));
    }
    for (const auto& thread : threads) thread->join();
  });
  EXPECT_EQ(turns, kThreads * kTurns);
}

// The holder may need the processor: with real-time priorities, or with more threads than
// processors.
TEST(SpinLock, WhoWaitsLongSleeps) {
  constexpr int kWaiters = 3;
  const auto runtime = make_os_runtime();
  SpinLock lock;
  std::atomic<pid_t> waiters[kWaiters] = {};
  std::atomic<int> had{0};
  runtime->run_main([&] {
    lock.lock();
    std::vector<std::unique_ptr<Thread>> threads;
    for (auto& waiter : waiters) {
      threads.push_back(runtime->spawn("waiter", [&] {
        waiter = gettid();
        const SpinGuard guard(lock);
        ++had;
      }));
    }
    for (const auto& waiter : waiters) {
      while (waiter == 0 || state_of(waiter) != 'S') runtime->yield();
    }
    EXPECT_EQ(had, 0);
    lock.unlock();
    for (const auto& thread : threads) thread->join();
  });
  EXPECT_EQ(had, kWaiters);
}

}  // namespace
}  // namespace dxgkit::runtime
