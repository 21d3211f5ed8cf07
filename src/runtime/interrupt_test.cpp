// Proves what an interrupt does to a process and to the processes that it forks. Each case runs in
// a process of its own, because signals belong to processes.
#include "runtime/interrupt.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace dxgkit::runtime {
namespace {

bool readable(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) == 1;
}

/// What waitpid says of a process that runs `body`.
int status_of(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Interrupt, TheFirstSignalIsAQuestionAndTheSecondTheEnd) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const int first = status_of([signal] {
      if (interrupt_fd() != -1 || interrupted()) return 1;
      catch_interrupts();
      if (interrupted() || readable(interrupt_fd())) return 2;
      raise(signal);
      return interrupted() && readable(interrupt_fd()) ? 0 : 3;
    });
    EXPECT_TRUE(WIFEXITED(first));
    EXPECT_EQ(WEXITSTATUS(first), 0);
    const int second = status_of([signal] {
      catch_interrupts();
      raise(signal);
      raise(signal);
      return 0;
    });
    ASSERT_TRUE(WIFSIGNALED(second));
    EXPECT_EQ(WTERMSIG(second), signal);
  }
}

TEST(Interrupt, AForkedProcessLeavesItToItsParent) {
  const int status = status_of([] {
    catch_interrupts();
    raise(SIGINT);  // before the fork: the child is not asked
    const pid_t parent = getpid();
    const int inner = status_of([parent] {
      leave_interrupts_to_parent(parent);
      raise(SIGINT);
      raise(SIGTERM);
      return interrupted() ? 1 : 7;
    });
    return WIFEXITED(inner) && WEXITSTATUS(inner) == 7 && interrupted() ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(Interrupt, AForkedProcessEndsWithItsParent) {
  int line[2];
  ASSERT_EQ(pipe(line), 0);
  const int status = status_of([&line] {
    int ready[2];
    if (pipe(ready) != 0) return 1;
    const pid_t parent = getpid();
    if (fork() == 0) {
      leave_interrupts_to_parent(parent);
      static_cast<void>(!write(ready[1], "", 1));
      pause();
      _exit(0);
    }
    char byte;
    return read(ready[0], &byte, 1) == 1 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  close(line[1]);
  char byte;
  EXPECT_EQ(read(line[0], &byte, 1), 0);  // the end of the file: no process holds the other end
  close(line[0]);
}

}  // namespace
}  // namespace dxgkit::runtime
