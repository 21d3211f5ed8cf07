#include "devices/virtiogpu/renderer_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "base/companion_file.h"
#include "base/sealed_memory.h"
#include "runtime/descriptors.h"

extern char** environ;

namespace dxgkit::virtiogpu {
namespace {

std::string text_of(int error) { return std::generic_category().message(error); }

/// Closes what it was given when it ends.
struct Closing {
  explicit Closing(int fd_in) : fd(fd_in) {}
  ~Closing() {
    if (fd >= 0) close(fd);
  }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;
  int release() { return std::exchange(fd, -1); }
  int fd;
};

/// A copy of a descriptor whose number none of the renderer's own has.
int out_of_the_way(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, kRendererDescriptorsEnd); }

}  // namespace

std::string find_renderer() {
  const std::string renderer = find_companion({DXGKIT_RENDERER_FILE,
                                               DXGKIT_RENDERER_FROM_TOOL,
                                               {DXGKIT_BUILT_RENDERER, DXGKIT_INSTALLED_RENDERER}});
  return access(renderer.c_str(), X_OK) == 0 ? renderer : "";
}

std::expected<std::unique_ptr<RendererProcess>, std::string> RendererProcess::start(
    const RendererOptions& options) {
  auto renderer = prepare(options);
  if (!renderer.has_value()) return renderer;
  if (auto why = (*renderer)->spawn(); why.has_value()) return std::unexpected(std::move(*why));
  return renderer;
}

std::unique_ptr<Renderer> RendererProcess::another() {
  auto renderer = prepare(options_);
  if (!renderer.has_value()) return nullptr;
  (*renderer)->capsets_ = capsets_;
  return std::move(*renderer);
}

std::expected<std::unique_ptr<RendererProcess>, std::string> RendererProcess::prepare(
    const RendererOptions& options) {
  std::unique_ptr<RendererProcess> renderer(new RendererProcess(options));
  renderer->mailbox_fd_ = create_sealed_memory("dxgkit-mailbox", kMailboxBytes);
  if (renderer->mailbox_fd_ < 0)
    return std::unexpected("no memory for the renderer's mailbox: " + text_of(errno));
  void* const mapped =
      mmap(nullptr, kMailboxBytes, PROT_READ | PROT_WRITE, MAP_SHARED, renderer->mailbox_fd_, 0);
  if (mapped == MAP_FAILED)
    return std::unexpected("no memory for the renderer's mailbox: " + text_of(errno));
  renderer->mailbox_ = static_cast<std::byte*>(mapped);
  return renderer;
}

RendererProcess::~RendererProcess() {
  end();
  if (mailbox_ != nullptr) munmap(mailbox_, kMailboxBytes);
  if (mailbox_fd_ >= 0) close(mailbox_fd_);
}

std::optional<std::string> RendererProcess::launch() {
  const auto failed = [this](const char* what, int error) {
    return options_.program + ": " + what + ": " + text_of(error);
  };
  int ends[2], life[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return failed("no socket is left for the renderer", errno);
  Closing ours(ends[0]), theirs(ends[1]);
  if (pipe2(life, O_CLOEXEC) != 0) return failed("no pipe is left for the renderer", errno);
  Closing their_life(life[0]), our_life(life[1]);

  Closing socket(out_of_the_way(theirs.fd)), shared(out_of_the_way(mailbox_fd_)),
      memory(out_of_the_way(options_.memory)), pipe(out_of_the_way(their_life.fd));
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  int error = 0;
  const auto wanted = [&error](int result) {
    if (error == 0) error = result;
  };
  wanted(posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
  wanted(posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0));
  wanted(posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0));
  wanted(posix_spawn_file_actions_adddup2(&actions, socket.fd, kRendererSocket));
  wanted(posix_spawn_file_actions_adddup2(&actions, shared.fd, kRendererMailbox));
  wanted(posix_spawn_file_actions_adddup2(&actions, memory.fd, kRendererMemory));
  wanted(posix_spawn_file_actions_adddup2(&actions, pipe.fd, kRendererLife));
  wanted(posix_spawn_file_actions_addclosefrom_np(&actions, kRendererDescriptorsEnd));
  // A process group of its own: Ctrl-C on the terminal is for the program, which ends the renderer.
  wanted(posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  wanted(posix_spawnattr_setsigmask(&attributes, &none));
  wanted(posix_spawnattr_setsigdefault(&attributes, &all));
  std::array<char*, 2> arguments = {options_.program.data(), nullptr};
  if (error == 0)
    error = posix_spawn(&process_, options_.program.c_str(), &actions, &attributes,
                        arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    process_ = -1;
    return failed("the renderer does not start", error);
  }
  life_ = our_life.release();
  is_used_ = false;
  const runtime::MutexLock lock(mutex_);
  socket_ = ours.release();
  is_shut_ = false;
  return std::nullopt;
}

std::optional<std::string> RendererProcess::spawn() {
  if (auto why = launch(); why.has_value()) return why;
  Question question;
  question.ask = Ask::kStart;
  question.number = static_cast<uint32_t>(options_.data_bytes >> 20);
  Answer answer;
  auto why = exchange(question, &answer);
  std::optional<std::vector<Capset>> capsets;
  if (!why.has_value()) {
    capsets = read_capsets(answer, mailbox());
    if (answer.error != 0) {
      why = "it cannot draw on this computer: " + text_of(static_cast<int>(answer.error));
    } else if (!capsets.has_value()) {
      why = "it has no capability sets that make sense";
    } else if (!capsets_.empty() && *capsets != capsets_) {
      why = "it has other capability sets than the renderer before";
    }
  }
  if (why.has_value()) {
    end();
    return options_.program + ": " + *why;
  }
  // Whoever asks has a view of them, and a renderer that is there again has the same ones.
  if (capsets_.empty()) capsets_ = std::move(*capsets);
  return std::nullopt;
}

void RendererProcess::end() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  process_ = -1;
  if (life_ >= 0) close(std::exchange(life_, -1));
  const runtime::MutexLock lock(mutex_);
  if (socket_ >= 0) close(std::exchange(socket_, -1));
}

std::optional<std::string> RendererProcess::exchange(const Question& question, Answer* answer) {
  constexpr const char* kReset = "a reset came";
  int socket = -1;
  {
    const runtime::MutexLock lock(mutex_);
    if (is_interrupted_) return kReset;
    is_asking_ = true;
    socket = socket_;
  }
  Question sent = question;
  sent.sequence = ++sequence_;
  std::optional<std::string> why;
  // Not send(), which an adapter's jail refuses.
  iovec part{.iov_base = &sent, .iov_len = sizeof sent};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof sent)) {
    why = receive(socket, sent.sequence, answer);
  } else {
    why = errno == EPIPE ? "it has ended" : "it takes no question: " + text_of(errno);
  }
  const runtime::MutexLock lock(mutex_);
  is_asking_ = false;
  if (why.has_value() && is_shut_) return kReset;
  return why;
}

std::optional<std::string> RendererProcess::receive(int socket, uint32_t sequence, Answer* answer) {
  const ssize_t got = runtime::receive_standing_still(
      socket, std::as_writable_bytes(std::span(answer, 1)), options_.timeout);
  if (got == 0 || (got < 0 && errno == ECONNRESET)) return "it has ended";
  if (got < 0 && errno == ETIMEDOUT)
    return "no answer in " + std::to_string(options_.timeout / runtime::kMillisecond) + " ms";
  if (got < 0) return "its connection broke: " + text_of(errno);
  if (got != static_cast<ssize_t>(sizeof *answer) || answer->sequence != sequence ||
      answer->bytes > kMailboxBytes)
    return "an answer that makes no sense";
  return std::nullopt;
}

bool RendererProcess::ask(const Question& question, Answer* answer) {
  if (!why_lost_.empty()) return false;
  std::optional<std::string> why;
  if (process_ < 0) why = spawn();
  if (question.ask != Ask::kCapset) is_used_ = true;
  if (!why.has_value()) why = exchange(question, answer);
  if (!why.has_value()) return true;
  why_lost_ = "the renderer is lost: " + *why;
  return false;
}

void RendererProcess::interrupt() {
  const runtime::MutexLock lock(mutex_);
  is_interrupted_ = true;
  if (!is_asking_) return;
  is_shut_ = true;
  shutdown(socket_, SHUT_RDWR);
}

void RendererProcess::restart() {
  bool is_whole = why_lost_.empty() && !is_used_;
  {
    const runtime::MutexLock lock(mutex_);
    is_whole &= !is_shut_;
    is_interrupted_ = false;
  }
  if (!is_whole) end();
  why_lost_.clear();
}

}  // namespace dxgkit::virtiogpu
