#include "tools/dxgkit/serve/process_world.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

extern char** environ;

namespace dxgkit::serve {
namespace {

std::unexpected<std::string> there_is_no(const char* what, int error) {
  return std::unexpected(fmt::format("{}: {}", what, std::generic_category().message(error)));
}

/// posix_spawn's lists, with the first error that came.
class Spawn {
 public:
  Spawn() {
    wanted(posix_spawn_file_actions_init(&actions_));
    wanted(posix_spawnattr_init(&attributes_));
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  void open(int number, int flags) {
    wanted(posix_spawn_file_actions_addopen(&actions_, number, "/dev/null", flags, 0));
  }
  void give(int fd, int number) { wanted(posix_spawn_file_actions_adddup2(&actions_, fd, number)); }
  void close_from(int number) {
    wanted(posix_spawn_file_actions_addclosefrom_np(&actions_, number));
  }
  /// Ctrl-C on the terminal is for the broker, which ends its processes.
  void clean_signals() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    wanted(posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    wanted(posix_spawnattr_setsigmask(&attributes_, &none));
    wanted(posix_spawnattr_setsigdefault(&attributes_, &all));
  }
  /// 0, or errno.
  int run(pid_t* process, const char* program, char** arguments) {
    if (error_ == 0)
      error_ = posix_spawn(process, program, &actions_, &attributes_, arguments, environ);
    return error_;
  }

 private:
  void wanted(int result) {
    if (error_ == 0) error_ = result;
  }
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
  int error_ = 0;
};

/// Makes a connection of whole messages. `theirs` has a number that none of the process's own
/// descriptors has.
bool connect(Descriptor* ours, Descriptor* theirs) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  *ours = Descriptor(ends[0]);
  const Descriptor other(ends[1]);
  *theirs = Descriptor(fcntl(other.get(), F_DUPFD_CLOEXEC, kAdapterDescriptorsEnd));
  return static_cast<bool>(*theirs);
}

}  // namespace

std::optional<Peer> peer_of_socket(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  Peer peer{
      .user = credentials.uid, .group = credentials.gid, .process = credentials.pid, .groups = {}};
  size = 0;
  // The first call says how many there are.
  if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, nullptr, &size) != 0 && errno == ERANGE) {
    peer.groups.resize(size / sizeof(gid_t));
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, peer.groups.data(), &size) != 0)
      peer.groups.clear();
  }
  return peer;
}

std::optional<Peer> ProcessWorld::peer_of(int socket) { return peer_of_socket(socket); }

std::expected<BrokerWorld::Started, std::string> ProcessWorld::start(size_t adapter,
                                                                     uint32_t luid) {
  int errors[2];
  Started started;
  Descriptor control, supply;  // theirs
  if (!connect(&started.control, &control) || !connect(&started.supply, &supply))
    return there_is_no("a socket", errno);
  if (pipe2(errors, O_CLOEXEC) != 0) return there_is_no("a pipe", errno);
  started.errors = Descriptor(errors[0]);
  const Descriptor their_errors(errors[1]);
  // Neither side waits for the other.
  fcntl(errors[0], F_SETFL, O_NONBLOCK);
  fcntl(errors[1], F_SETFL, O_NONBLOCK);

  Spawn spawn;
  spawn.open(STDIN_FILENO, O_RDONLY);
  spawn.open(STDOUT_FILENO, O_WRONLY);
  spawn.give(their_errors.get(), STDERR_FILENO);
  spawn.give(control.get(), kAdapterControl);
  spawn.give(supply.get(), kAdapterSupply);
  spawn.close_from(kAdapterDescriptorsEnd);
  spawn.clean_signals();
  std::vector<std::string> words = arguments_(adapter, luid);
  words.insert(words.begin(), "dxgkit");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t process = -1;
  if (const int error = spawn.run(&process, "/proc/self/exe", arguments.data()); error != 0)
    return there_is_no("a process", error);
  started.process = process;
  started.ended = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!started.ended) {
    const int error = errno;
    kill(process);
    while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
    }
    return there_is_no("a descriptor of a process", error);
  }
  fcntl(started.ended.get(), F_SETFD, FD_CLOEXEC);
  return started;
}

void ProcessWorld::kill(int32_t process) { ::kill(process, SIGKILL); }

std::string ProcessWorld::how_ended(int32_t process) {
  int status = 0;
  pid_t found = 0;
  do {
    found = waitpid(process, &status, WNOHANG);
  } while (found < 0 && errno == EINTR);
  if (found != process) return "it ended";
  if (WIFSIGNALED(status))
    return fmt::format("it ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("it ended with exit code {}", WEXITSTATUS(status));
}

uint64_t ProcessWorld::memory_of(int32_t process) {
  const Descriptor file(open(fmt::format("/proc/{}/statm", process).c_str(), O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  if (!file || read(file.get(), text, sizeof text - 1) <= 0) return 0;
  unsigned long long all = 0, resident = 0;
  if (std::sscanf(text, "%llu %llu", &all, &resident) != 2) return 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::expected<Descriptor, std::string> ProcessWorld::make_recording(const std::string& folder,
                                                                    const std::string& name) {
  constexpr int kNumbers = 100;
  for (int number = 1; number <= kNumbers; ++number) {
    const std::string path = number == 1 ? fmt::format("{}/{}.dxgk", folder, name)
                                         : fmt::format("{}/{}-{}.dxgk", folder, name, number);
    // What clients do is nobody else's matter.
    Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
    if (file) return file;
    if (errno != EEXIST) return std::unexpected(fmt::format("{}: {}", path, strerror(errno)));
  }
  return std::unexpected(fmt::format("{}/{}.dxgk: there are too many already", folder, name));
}

void ProcessWorld::say(const std::string& line) {
  if (say_) return say_(line);
  const std::string text = line + '\n';
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stdout));
  std::fflush(stdout);
}

}  // namespace dxgkit::serve
