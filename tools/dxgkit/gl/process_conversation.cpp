#include "tools/dxgkit/gl/process_conversation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/dxgkit/gl/record_message.h"

extern char** environ;

namespace dxgkit::gl {
namespace {

std::string system_text(int error) { return std::generic_category().message(error); }

/// This process's variables with another server.
std::vector<char*> variables_with(std::string& kernel) {
  std::vector<char*> variables;
  const std::string_view name = std::string_view(kernel).substr(0, kernel.find('=') + 1);
  for (char** one = environ; *one != nullptr; ++one) {
    if (!std::string_view(*one).starts_with(name)) variables.push_back(*one);
  }
  variables.push_back(kernel.data());
  variables.push_back(nullptr);
  return variables;
}

}  // namespace

std::expected<SessionProcess, std::string> SessionProcess::start(const std::string& program,
                                                                 const std::string& kernel,
                                                                 int connection) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return std::unexpected("its process cannot be started: " + system_text(errno));
  vfiouser::Descriptor ours(ends[0]);
  const vfiouser::Descriptor theirs(ends[1]);
  // Out of the way of the numbers that they get.
  const int least = kRecordSocket + 1;
  const vfiouser::Descriptor record(fcntl(theirs.get(), F_DUPFD_CLOEXEC, least));
  const vfiouser::Descriptor socket(fcntl(connection, F_DUPFD_CLOEXEC, least));
  std::string name = "gl_connection", check = kCheckOnly;
  std::vector<char*> arguments = {name.data()};
  if (connection < 0) arguments.push_back(check.data());
  arguments.push_back(nullptr);
  std::string server = "DXGKIT_SOCKET=" + kernel;
  std::vector<char*> variables = variables_with(server);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, record.get(), kRecordSocket);
  if (connection >= 0)
    posix_spawn_file_actions_adddup2(&actions, socket.get(), kProgramSocket);
  else
    posix_spawn_file_actions_addopen(&actions, kProgramSocket, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, kRecordSocket + 1);
  // It ends with its program or its kernel, and not by the terminal's Ctrl-C: the program may take
  // that for something else.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t process = 0;
  const int error = posix_spawn(&process, program.c_str(), &actions, &attributes, arguments.data(),
                                variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return std::unexpected(
        fmt::format("its process {} cannot be started: {}", program, system_text(error)));
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  SessionProcess started(process, fd, std::move(ours));
  if (fd < 0) return std::unexpected("its process cannot be watched: " + system_text(errno));
  return started;
}

SessionProcess::SessionProcess(SessionProcess&& other) noexcept
    : process_(std::exchange(other.process_, 0)),
      fd_(std::move(other.fd_)),
      record_(std::move(other.record_)) {}

SessionProcess::~SessionProcess() {
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void SessionProcess::kill_it() const {
  syscall(SYS_pidfd_send_signal, fd_.get(), SIGKILL, nullptr, 0);
}

ProgramRecord SessionProcess::wait(runtime::Runtime& runtime) {
  auto told = receive_record(runtime, record_.get());
  if (!told.has_value() || !told->has_value()) kill_it();  // unless it has ended
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = 0;
  ProgramRecord record;
  if (!told.has_value()) {
    record.wrong = told.error();
  } else if (told->has_value()) {
    record = std::move(**told);
  } else {
    record.wrong = WIFSIGNALED(status)
                       ? fmt::format("its process ended by signal {}", WTERMSIG(status))
                       : fmt::format("its process ended with exit code {}", WEXITSTATUS(status));
  }
  return record;
}

ProcessConversation::ProcessConversation(runtime::Runtime& runtime, vfiouser::Descriptor socket,
                                         const std::string& program, const std::string& kernel)
    : runtime_(runtime),
      socket_(std::move(socket)),
      process_(SessionProcess::start(program, kernel, socket_.get())) {}

ProgramRecord ProcessConversation::run() {
  ProgramRecord record;
  if (process_.has_value()) {
    record = process_->wait(runtime_);
  } else {
    record.wrong = process_.error();
  }
  shut_down();  // a process that was killed has left the program's end open here
  return record;
}

void ProcessConversation::shut_down() { shutdown(socket_.get(), SHUT_RDWR); }

void ProcessConversation::cancel() {
  if (process_.has_value()) process_->kill_it();
}

}  // namespace dxgkit::gl
