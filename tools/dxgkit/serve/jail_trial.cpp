#include "tools/dxgkit/serve/jail_trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace dxgkit::serve {
namespace {

template <typename... Arguments>
Trial attempt(const char* name, long number, Arguments... arguments) {
  errno = 0;
  const long result = syscall(number, arguments...);
  return {.name = name, .result = result, .error = result < 0 ? errno : 0};
}

/// A call that may give a process: the child is gone at once.
template <typename... Arguments>
Trial attempt_process(const char* name, long number, Arguments... arguments) {
  const Trial trial = attempt(name, number, arguments...);
  if (trial.result == 0) _exit(0);
  if (trial.result > 0) waitpid(static_cast<pid_t>(trial.result), nullptr, 0);
  return trial;
}

}  // namespace

std::vector<Trial> try_forbidden() {
  int ends[2] = {-1, -1};
  struct stat status {};
  io_uring_params ring{};
  const char* const nothing[] = {nullptr};
  const sockaddr_un address{.sun_family = AF_UNIX, .sun_path = "/tmp/x"};
  const rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  return {
      // Files.
      attempt("open", SYS_open, "/etc/passwd", O_RDONLY),
      attempt("openat", SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY),
      attempt("openat2", SYS_openat2, AT_FDCWD, "/etc/passwd", nullptr, 0),
      attempt("creat", SYS_creat, "/tmp/dxgkit-made-in-jail", 0600),
      attempt("stat", SYS_stat, "/etc/passwd", &status),
      attempt("newfstatat", SYS_newfstatat, AT_FDCWD, "/etc/passwd", &status, 0),
      attempt("access", SYS_access, "/etc/passwd", F_OK),
      attempt("readlink", SYS_readlink, "/proc/self/exe", nullptr, 0),
      attempt("unlink", SYS_unlink, "/tmp/dxgkit-made-in-jail"),
      attempt("mkdir", SYS_mkdir, "/tmp/dxgkit-made-in-jail", 0700),
      attempt("chdir", SYS_chdir, "/"),
      attempt("mount", SYS_mount, "none", "/nonexistent-dxgkit", "tmpfs", 0, nullptr),
      // Sockets.
      attempt("socket", SYS_socket, AF_INET, SOCK_STREAM, 0),
      attempt("socketpair", SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, ends),
      attempt("connect", SYS_connect, 3, &address, sizeof address),
      attempt("bind", SYS_bind, 3, &address, sizeof address),
      attempt("accept4", SYS_accept4, 3, nullptr, nullptr, 0),
      // Processes.
      attempt_process("fork", SYS_fork),
      attempt_process("clone", SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr),
      attempt("clone3", SYS_clone3, nullptr, 0),
      attempt("execve", SYS_execve, "/nonexistent-dxgkit", nothing, nothing),
      attempt("execveat", SYS_execveat, 0, "", nothing, nothing, AT_EMPTY_PATH),
      attempt("unshare", SYS_unshare, CLONE_NEWUSER),
      attempt("kill", SYS_kill, getppid(), 0),
      attempt("tgkill", SYS_tgkill, getppid(), getppid(), 0),
      attempt("pidfd_open", SYS_pidfd_open, 1, 0),
      // Other processes' memory.
      attempt("ptrace", SYS_ptrace, PTRACE_TRACEME, 0, nullptr, nullptr),
      attempt("process_vm_readv", SYS_process_vm_readv, getppid(), nullptr, 0, nullptr, 0, 0),
      // New descriptors.
      attempt("memfd_create", SYS_memfd_create, "x", 0),
      attempt("pipe2", SYS_pipe2, ends, 0),
      attempt("eventfd2", SYS_eventfd2, 0, 0),
      attempt("epoll_create1", SYS_epoll_create1, 0),
      attempt("timerfd_create", SYS_timerfd_create, 0, 0),
      attempt("io_uring_setup", SYS_io_uring_setup, 1, &ring),
      attempt("userfaultfd", SYS_userfaultfd, 0),
      attempt("perf_event_open", SYS_perf_event_open, nullptr, 0, -1, -1, 0),
      attempt("bpf", SYS_bpf, 0, nullptr, 0),
      // What is allowed for one purpose only.
      attempt("fcntl(F_SETOWN)", SYS_fcntl, 0, F_SETOWN, getppid()),
      attempt("prctl(PR_SET_DUMPABLE)", SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0),
      attempt("prlimit64", SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, nullptr),
      attempt("ioctl", SYS_ioctl, 0, 0, nullptr),
      attempt("seccomp", SYS_seccomp, 99, 0, nullptr),
  };
}

std::string trial_text(const std::vector<Trial>& trials) {
  std::string text;
  for (const Trial& trial : trials)
    text +=
        fmt::format("{}: {}\n", trial.name,
                    trial.result >= 0 ? "it works" : std::generic_category().message(trial.error));
  return text;
}

}  // namespace dxgkit::serve
