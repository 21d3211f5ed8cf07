#include "tools/dxgkit/gl/program.h"

#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "runtime/descriptors.h"

namespace dxgkit::gl {
namespace {

constexpr runtime::DurationNs kEndPatienceNs = 5 * runtime::kSecond;

/// What a shell says of an end.
int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

std::vector<std::string> gl_environment(const std::string& socket, bool has_display) {
  std::vector<std::string> variables = {
      "GALLIUM_DRIVER=virpipe",
      "LIBGL_ALWAYS_SOFTWARE=1",      // no look for hardware: virpipe is among the software drivers
      "VTEST_SOCKET_NAME=" + socket,  // newer Mesa; Debian 12's knows one path only
  };
  if (!has_display) variables.emplace_back("EGL_PLATFORM=surfaceless");
  return variables;
}

std::expected<Program, std::string> Program::start(const std::vector<std::string>& command,
                                                   const std::vector<std::string>& environment) {
  std::vector<char*> arguments, variables;
  for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  const auto is_set_anew = [&](std::string_view inherited) {
    const std::string_view name = inherited.substr(0, inherited.find('=') + 1);
    for (const std::string& one : environment) {
      if (one.starts_with(name)) return true;
    }
    return false;
  };
  for (char** one = environ; *one != nullptr; ++one) {
    if (!is_set_anew(*one)) variables.push_back(*one);
  }
  for (const std::string& one : environment) variables.push_back(const_cast<char*>(one.c_str()));
  variables.push_back(nullptr);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t process = 0;
  const int error = posix_spawnp(&process, arguments[0], nullptr, &attributes, arguments.data(),
                                 variables.data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    return std::unexpected(command[0] +
                           " cannot be started: " + std::generic_category().message(error));
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  Program program(process, fd);
  if (fd < 0)
    return std::unexpected("the end of a process cannot be awaited: " +
                           std::generic_category().message(errno));
  return program;
}

Program::Program(Program&& other) noexcept
    : process_(std::exchange(other.process_, 0)), fd_(std::exchange(other.fd_, -1)) {}

Program::~Program() {
  if (process_ != 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  if (fd_ >= 0) close(fd_);
}

int Program::wait(runtime::Runtime& runtime, int stop_fd) {
  runtime::DescriptorWait waits[] = {{.fd = fd_}, {.fd = stop_fd}};
  static_cast<void>(runtime::wait_for_descriptors(runtime, waits));
  if (!waits[0].ready) {
    kill(process_, SIGTERM);
    runtime::DescriptorWait again[] = {{.fd = fd_}};
    if (!runtime::wait_for_descriptors(runtime, again, runtime.now() + kEndPatienceNs))
      kill(process_, SIGKILL);
  }
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = 0;
  return code_of(status);
}

}  // namespace dxgkit::gl
