#include "tools/dxgkit/campaign/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "runtime/interrupt.h"

namespace dxgkit::tool::campaign {
namespace {

constexpr size_t kOutputMost = 16 << 20;

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string why_not(const std::string& what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

/// In the child of a fork, with everything prepared: only calls that are safe there.
[[noreturn]] void become(char* const* words, const char* folder, int out, int signal_at_end,
                         pid_t parent, int tell) {
  prctl(PR_SET_PDEATHSIG, signal_at_end);
  const int in = open("/dev/null", O_RDONLY);
  if (getppid() == parent && (*folder == '\0' || chdir(folder) == 0) && in >= 0 &&
      dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0)
    execvp(words[0], words);
  const int error = errno;
  static_cast<void>(!write(tell, &error, sizeof(error)));
  _exit(127);
}

/// The process, or the reason. `out` is its stdout and stderr.
std::expected<pid_t, std::string> spawn(const std::vector<std::string>& words,
                                        const std::string& folder, int out, int signal_at_end) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  int ends[2];  // closed by exec; an error number comes through it otherwise
  if (pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(why_not("pipe"));
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) become(pointers.data(), folder.c_str(), out, signal_at_end, parent, ends[1]);
  const int fork_error = errno;
  close(ends[1]);
  int error = child < 0 ? fork_error : 0;
  if (child > 0 && read(ends[0], &error, sizeof(error)) != sizeof(error)) error = 0;
  close(ends[0]);
  if (error == 0) return child;
  if (child > 0) waitpid(child, nullptr, 0);
  return std::unexpected(fmt::format("{} cannot be started: {}", words[0], std::strerror(error)));
}

}  // namespace

std::expected<Process, std::string> Process::start(const std::vector<std::string>& words,
                                                   const std::string& folder,
                                                   const std::string& log, int signal_at_end) {
  const char* const path = log.empty() ? "/dev/null" : log.c_str();
  const int out = log == kOwnOutput ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                                    : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (out < 0) return std::unexpected(why_not(path));
  const auto child = spawn(words, folder, out, signal_at_end);
  close(out);
  if (!child.has_value()) return std::unexpected(child.error());
  return Process(*child);
}

Process::Process(Process&& other) noexcept
    : number_(std::exchange(other.number_, 0)), code_(other.code_) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(number_, other.number_);
  std::swap(code_, other.code_);
  return *this;
}

Process::~Process() {
  if (number_ == 0) return;
  kill(number_, SIGKILL);
  waitpid(number_, nullptr, 0);
}

void Process::signal(int signal) const {
  if (number_ != 0) kill(number_, signal);
}

std::optional<int> Process::end() {
  int status = 0;
  if (number_ != 0) {
    if (waitpid(number_, &status, WNOHANG) == 0) return std::nullopt;
    number_ = 0;
    code_ = code_of(status);
  }
  return code_;
}

std::expected<Output, std::string> run_program(const std::vector<std::string>& words,
                                               const std::string& folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(why_not("pipe"));
  const auto child = spawn(words, folder, ends[1], SIGKILL);
  close(ends[1]);
  Output output;
  char block[4096];
  while (child.has_value()) {
    const ssize_t got = read(ends[0], block, sizeof(block));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (output.text.size() < kOutputMost) output.text.append(block, static_cast<size_t>(got));
  }
  close(ends[0]);
  if (!child.has_value()) return std::unexpected(child.error());
  int status = 0;
  while (waitpid(*child, &status, 0) < 0 && errno == EINTR) {
  }
  output.code = code_of(status);
  return output;
}

bool wait_or_interrupt(int ms) {
  // The descriptor stays readable after an interrupt: from then on only the time is waited for.
  pollfd one = {
      .fd = runtime::interrupted() ? -1 : runtime::interrupt_fd(), .events = POLLIN, .revents = 0};
  static_cast<void>(poll(&one, 1, ms));
  return runtime::interrupted();
}

}  // namespace dxgkit::tool::campaign
