#include "tools/dxgkit/child.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "runtime/interrupt.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool {
namespace {

constexpr char kBeat = 0, kReturned = 1, kFinishing = 2;

}  // namespace

void Heartbeat::beat() { static_cast<void>(!write(fd_, &kBeat, 1)); }
void Heartbeat::finishing() { static_cast<void>(!write(fd_, &kFinishing, 1)); }

namespace {

/// What the child has said so far.
struct Said {
  bool over = false, finishing = false, returned = false;
  /// Waits for more, if the line is empty.
  void listen(int line) {
    char bytes[256];
    const ssize_t got = read(line, bytes, sizeof(bytes));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {  // the child closed its end
      over = true;
      return;
    }
    returned = bytes[got - 1] == kReturned;
    finishing = finishing || std::find(bytes, bytes + got, kFinishing) != bytes + got;
  }
};

/// Ends the child unless it writes its outputs. While it stands still, it says nothing new.
bool stop_child(pid_t child, int line, Said* said) {
  kill(child, SIGSTOP);
  siginfo_t info;
  const auto number = static_cast<id_t>(child);
  while (waitid(P_PID, number, &info, WEXITED | WSTOPPED | WNOWAIT) < 0 && errno == EINTR) {
  }
  pollfd waiting{.fd = line, .events = POLLIN, .revents = 0};
  while (!said->over && poll(&waiting, 1, 0) == 1) said->listen(line);
  if (said->over || said->finishing) {
    kill(child, SIGCONT);
    return false;
  }
  kill(child, SIGKILL);
  return true;
}

}  // namespace

ChildEnd run_in_child(const std::function<int(Heartbeat&)>& body, int patience_ms,
                      ChildInterrupts interrupts) {
  const bool ends_by_itself = interrupts == ChildInterrupts::kReachIt;
  int line[2];
  if (pipe(line) != 0) return {ChildEnd::Kind::kNotStarted, errno};
  std::fflush(nullptr);  // otherwise the child would print buffered text again
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    close(line[0]);
    close(line[1]);
    return {ChildEnd::Kind::kNotStarted, errno};
  }
  if (child == 0) {
    if (ends_by_itself) {
      runtime::share_interrupts_with_parent(parent);
    } else {
      runtime::leave_interrupts_to_parent(parent);
    }
    close(line[0]);
    // If the parent has ended, the child ends at its next beat, by SIGPIPE.
    Heartbeat heartbeat(line[1]);
    const int code = exit_code_of_output(body(heartbeat));
    std::fflush(nullptr);
    static_cast<void>(!write(line[1], &kReturned, 1));
    _exit(code);
  }
  close(line[1]);
  bool hung = false, stopped = false;
  Said said;
  while (!said.over) {
    pollfd waiting[2] = {{.fd = line[0], .events = POLLIN, .revents = 0},
                         {.fd = said.finishing || ends_by_itself ? -1 : runtime::interrupt_fd(),
                          .events = POLLIN,
                          .revents = 0}};
    const int ready = poll(waiting, 2, said.finishing ? -1 : patience_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      hung = true;
      kill(child, SIGKILL);
      break;
    }
    if (waiting[0].revents != 0) said.listen(line[0]);
    if (waiting[1].revents != 0 && !said.over && !said.finishing)
      stopped = stop_child(child, line[0], &said);
    if (stopped) break;
  }
  close(line[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (hung) return {ChildEnd::Kind::kHung, 0};
  if (stopped) return {ChildEnd::Kind::kInterrupted, 0};
  if (WIFSIGNALED(status)) return {ChildEnd::Kind::kKilled, WTERMSIG(status)};
  return {said.returned ? ChildEnd::Kind::kExited : ChildEnd::Kind::kLeft, WEXITSTATUS(status)};
}

}  // namespace dxgkit::tool
