#include "tools/dxgkit/serve/listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace dxgkit::serve {
namespace {

std::unexpected<std::string> failed(const std::string& path, const std::string& why) {
  return std::unexpected(fmt::format("cannot listen at {}: {}", path, why));
}
std::string text_of(int error) { return std::generic_category().message(error); }

/// A number that an environment variable holds.
std::optional<long> number_of(const char* name) {
  const char* const text = std::getenv(name);
  long number = 0;
  if (text == nullptr) return std::nullopt;
  const char* const end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

constexpr int kBacklog = 64;

}  // namespace

std::expected<std::string, std::string> socket_path(const std::string& given) {
  if (!given.empty()) return given;
  const char* const folder = std::getenv("XDG_RUNTIME_DIR");
  if (folder == nullptr || *folder != '/')
    return std::unexpected("--socket PATH is required where XDG_RUNTIME_DIR names no folder");
  return std::string(folder) + "/dxgkit.sock";
}

std::expected<Listener, std::string> Listener::at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return failed(path, "the path is empty or too long");
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);

  Listener listener;
  listener.path_ = path;
  listener.lock_ = Descriptor(
      open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!listener.lock_) return failed(path, text_of(errno));
  if (flock(listener.lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return failed(path, errno == EWOULDBLOCK ? "another server listens there" : text_of(errno));

  struct stat there {};
  if (lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode)) return failed(path, "there is a file of another kind");
    if (there.st_uid != geteuid()) return failed(path, "the socket there belongs to another user");
    // A server of another kind holds no lock of ours.
    const Descriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (connect(probe.get(), name, sizeof address) == 0 || errno != ECONNREFUSED)
      return failed(path, "another server listens there");
    if (unlink(path.c_str()) != 0) return failed(path, text_of(errno));
  }
  listener.socket_ = Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket_) return failed(path, text_of(errno));
  if (bind(listener.socket_.get(), name, sizeof address) != 0) return failed(path, text_of(errno));
  struct stat made {};
  if (lstat(path.c_str(), &made) == 0) {
    listener.device_ = made.st_dev;
    listener.inode_ = made.st_ino;
  }
  // Everybody may knock: the broker asks who it is (SO_PEERCRED). The folder may be stricter.
  constexpr mode_t kEverybody = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
  if (chmod(path.c_str(), kEverybody) != 0 || listen(listener.socket_.get(), kBacklog) != 0)
    return failed(path, text_of(errno));
  return listener;
}

std::expected<std::optional<Listener>, std::string> Listener::passed() {
  constexpr int kFirst = 3;
  const std::optional<long> process = number_of("LISTEN_PID");
  const std::optional<long> count = number_of("LISTEN_FDS");
  if (!process.has_value() || !count.has_value() || *process != getpid()) return std::nullopt;
  // What is started from here gets none of it.
  unsetenv("LISTEN_PID");
  unsetenv("LISTEN_FDS");
  unsetenv("LISTEN_FDNAMES");
  int listens = 0, type = 0;
  socklen_t size = sizeof listens;
  if (*count != 1 || getsockopt(kFirst, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 ||
      listens == 0 || getsockopt(kFirst, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      type != SOCK_STREAM)
    return std::unexpected("LISTEN_FDS: one listening stream socket is expected");
  Listener listener;
  listener.socket_ = Descriptor(kFirst);
  fcntl(kFirst, F_SETFD, FD_CLOEXEC);
  fcntl(kFirst, F_SETFL, fcntl(kFirst, F_GETFL) | O_NONBLOCK);
  sockaddr_un address{};
  size = sizeof address;
  if (getsockname(kFirst, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
      address.sun_family == AF_UNIX && size > offsetof(sockaddr_un, sun_path))
    listener.path_.assign(address.sun_path, strnlen(address.sun_path, sizeof address.sun_path));
  return listener;
}

Listener::~Listener() {
  struct stat now {};
  // Under the lock, so the file is ours if it is the same.
  if (inode_ != 0 && socket_ && lstat(path_.c_str(), &now) == 0 && now.st_dev == device_ &&
      now.st_ino == inode_)
    unlink(path_.c_str());
}

}  // namespace dxgkit::serve
