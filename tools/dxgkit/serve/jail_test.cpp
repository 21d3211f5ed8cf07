// The jail: what a process can do before and after it closes. Each case is a child process, because
// there is no way back.
#include "tools/dxgkit/serve/jail.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/host_thread.h"
#include "tools/dxgkit/serve/control.h"
#include "tools/dxgkit/serve/jail_trial.h"

namespace dxgkit::serve {
namespace {

/// What `body` returns in a child process.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = body();
    static_cast<void>(!write(ends[1], text.data(), text.size()));
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char bytes[4096];
  for (ssize_t got = 0; (got = read(ends[0], bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << text;
  return text;
}

std::string closed() {
  const auto renounced = renounce_privileges();
  if (!renounced.has_value()) return renounced.error();
  const auto jail = close_jail({});
  return jail.has_value() ? "" : jail.error();
}

/// Every trial with the error that the jail gives it.
std::string all_refused() {
  std::string text;
  for (const Trial& trial : try_forbidden())
    text += std::string(trial.name) + (std::strcmp(trial.name, "clone3") == 0
                                           ? ": Function not implemented\n"
                                           : ": Operation not permitted\n");
  return text;
}

// The list is part of what is promised: a call more is a decision.
TEST(Jail, HasTheseSystemCallsAndNoOthers) {
  std::vector<std::string> names;
  std::set<int> numbers;
  for (const SystemCall& call : system_calls()) {
    names.emplace_back(call.name);
    numbers.insert(call.number);
    EXPECT_GT(std::strlen(call.why), 5U) << call.name;
  }
  EXPECT_LE(names.size(), 40U);
  EXPECT_EQ(numbers.size(), names.size()) << "one of them is there twice";
  EXPECT_THAT(
      names,
      testing::UnorderedElementsAre(
          "futex", "recvmsg", "sendmsg", "poll", "epoll_wait", "epoll_ctl", "shutdown", "read",
          "write", "mmap", "munmap", "mprotect", "madvise", "mincore", "brk", "clone", "clone3",
          "restart_syscall", "exit", "exit_group", "rt_sigprocmask", "rt_sigaction", "rt_sigreturn",
          "sigaltstack", "tgkill", "gettid", "getpid", "prctl", "sched_yield", "clock_gettime",
          "clock_nanosleep", "membarrier", "timer_create", "timer_settime", "timer_delete", "rseq",
          "fstat", "fcntl", "prlimit64", "close"));
  EXPECT_THAT(system_call_table(), testing::HasSubstr("clone            threads, and nothing but"));
}

// Otherwise the next test would pass without a jail.
TEST(Jail, OutsideOfItTheTrialsWork) {
  const std::string text = in_child([] { return trial_text(try_forbidden()); });
  for (const char* name : {"open", "openat", "newfstatat", "socketpair", "fork", "clone", "ptrace",
                           "memfd_create", "pipe2", "eventfd2", "epoll_create1"})
    EXPECT_THAT("\n" + text, testing::HasSubstr("\n" + std::string(name) + ": it works\n"));
}

TEST(Jail, RefusesFilesSocketsProcessesTracingAndNewDescriptors) {
  const std::string text = in_child([] {
    const std::string error = closed();
    return error.empty() ? trial_text(try_forbidden()) : error;
  });
  EXPECT_EQ(text, in_child(all_refused));
}

TEST(Jail, HoldsThreadsThatWereThereBeforeAndThatComeAfter) {
  const std::string text = in_child([] {
    std::atomic<uint32_t> is_closed{0};
    std::string from_old, from_new;
    runtime::HostThread old("old", [&] {
      runtime::wait_while(is_closed, 0);
      from_old = trial_text(try_forbidden());
    });
    const std::string error = closed();
    is_closed.store(1);
    runtime::wake_host_waiters(is_closed);
    old.join();
    if (!error.empty()) return error;
    runtime::HostThread young("young", [&] { from_new = trial_text(try_forbidden()); });
    young.join();
    return from_old + from_new;
  });
  const std::string refused = in_child(all_refused);
  EXPECT_EQ(text, refused + refused);
}

// What is promised to stay: memory, threads, messages with descriptors, events.
TEST(Jail, LeavesWhatAnAdapterNeeds) {
  const std::string text = in_child([]() -> std::string {
    int ends[2], pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0 || pipe2(ends, 0) != 0) return "setup";
    const int event = eventfd(0, 0);
    const std::string error = closed();
    if (!error.empty()) return error;
    void* const memory =
        mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || munmap(memory, 1 << 20) != 0) return "memory";
    std::vector<char> large(size_t{64} << 20, 'x');
    ControlMessage message;
    message.kind = Control::kConnection;
    if (!send_control(pair[0], message, "text", event)) return "no message";
    ControlReceived received;
    if (receive_control(pair[1], &received) != ControlState::kMessage || !received.descriptor)
      return "no descriptor";
    const uint64_t one = 1;
    if (write(received.descriptor.get(), &one, sizeof one) != sizeof one) return "no event";
    uint64_t count = 0;
    if (read(event, &count, sizeof count) != sizeof count || count != 1) return "no count";
    const int copy = fcntl(event, F_DUPFD_CLOEXEC, 100);
    return copy >= 100 ? "fine" : "no copy";
  });
  EXPECT_EQ(text, "fine");
}

TEST(Jail, LimitsMemoryAndDescriptors) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve memory without end";
#endif
  const std::string text = in_child([]() -> std::string {
    const int event = eventfd(0, 0);
    if (!renounce_privileges().has_value()) return "setup";
    if (!close_jail({.data_bytes = 64 << 20, .descriptors = 50}).has_value()) return "no jail";
    void* const memory =
        mmap(nullptr, 128 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED || errno != ENOMEM) return "memory without end";
    for (int i = 0; i < 50; ++i) {
      if (fcntl(event, F_DUPFD_CLOEXEC, 0) < 0) return errno == EMFILE ? "fine" : "another error";
    }
    return "descriptors without end";
  });
  EXPECT_EQ(text, "fine");
}

}  // namespace
}  // namespace dxgkit::serve
