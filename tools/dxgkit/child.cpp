#include "tools/dxgkit/child.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace dxgkit::tool {
namespace {

constexpr char kBeat = 0, kReturned = 1;

}  // namespace

void Heartbeat::beat() { static_cast<void>(!write(fd_, &kBeat, 1)); }

ChildEnd run_in_child(const std::function<int(Heartbeat&)>& body, int patience_ms) {
  int line[2];
  if (pipe(line) != 0) return {ChildEnd::Kind::kNotStarted, errno};
  std::fflush(nullptr);  // otherwise the child would print buffered text again
  const pid_t child = fork();
  if (child < 0) {
    close(line[0]);
    close(line[1]);
    return {ChildEnd::Kind::kNotStarted, errno};
  }
  if (child == 0) {
    close(line[0]);
    // If the parent has ended, the child ends at its next beat, by SIGPIPE.
    Heartbeat heartbeat(line[1]);
    const int code = body(heartbeat);
    std::fflush(nullptr);
    static_cast<void>(!write(line[1], &kReturned, 1));
    _exit(code);
  }
  close(line[1]);
  bool hung = false, returned = false;
  while (true) {
    pollfd waiting{.fd = line[0], .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, patience_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      hung = true;
      kill(child, SIGKILL);
      break;
    }
    char bytes[256];
    const ssize_t got = read(line[0], bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;  // the child closed its end: it is over
    returned = bytes[got - 1] == kReturned;
  }
  close(line[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (hung) return {ChildEnd::Kind::kHung, 0};
  if (WIFSIGNALED(status)) return {ChildEnd::Kind::kKilled, WTERMSIG(status)};
  return {returned ? ChildEnd::Kind::kExited : ChildEnd::Kind::kLeft, WEXITSTATUS(status)};
}

}  // namespace dxgkit::tool
