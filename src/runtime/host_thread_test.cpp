#include "runtime/host_thread.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/runtime.h"

namespace dxgkit::runtime {
namespace {

TEST(HostThread, RunsItsBodyOutsideOfEveryRuntime) {
  HostFlag begun, go_on;
  bool outside = false;
  HostThread thread("a name that is longer than fifteen bytes", [&] {
    outside = Runtime::current_or_null() == nullptr;
    begun.set();
    go_on.wait();
  });
  begun.wait();
  EXPECT_TRUE(begun.is_set());
  EXPECT_FALSE(go_on.is_set());
  go_on.set();
  thread.join();
  EXPECT_TRUE(outside);
}

TEST(HostThread, WakesEveryoneWhoWaitsForAWord) {
  std::atomic<uint32_t> word{7}, passed{0};
  const auto wait = [&] {
    wait_while(word, 7);
    passed.fetch_add(1);
  };
  HostThread first("first", wait), second("second", wait);
  EXPECT_EQ(passed.load(), 0u);
  word.store(8);
  wake_host_waiters(word);
  first.join();
  second.join();
  EXPECT_EQ(passed.load(), 2u);
}

TEST(HostThread, AForkedChildBelongsToNoRuntime) {
  const auto parent = make_os_runtime();
  parent->run_main([&] {
    const pid_t child = fork();
    if (child == 0) {
      leave_runtime_of_parent();
      int code = Runtime::current_or_null() == nullptr ? 0 : 1;
      const auto own = make_os_runtime();  // and it can have one of its own
      own->run_main([&] { code |= Runtime::current_or_null() == own.get() ? 0 : 2; });
      _exit(code);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(Runtime::current_or_null(), parent.get());
  });
}

TEST(HostThread, EveryForkOfAHostLeavesTheRuntimeAndIsTold) {
  static bool told = false;
  const auto end_of = [](pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  // In a process of its own, whose forks no other test makes.
  const pid_t host = fork();
  if (host == 0) {
    when_forked([] { told = Runtime::current_or_null() == nullptr; });
    const auto parent = make_os_runtime();
    int code = -1;
    parent->run_main([&] {
      const pid_t child = fork();
      if (child == 0) _exit(told && Runtime::current_or_null() == nullptr ? 0 : 1);
      code = end_of(child);
    });
    _exit(code == 0 && !told ? 0 : 1);
  }
  EXPECT_EQ(end_of(host), 0);
}

}  // namespace
}  // namespace dxgkit::runtime
