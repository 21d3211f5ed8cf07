// The socket that clients come to.
#pragma once

#include <expected>
#include <optional>
#include <string>

#include "devices/vfiouser/connection.h"

namespace dxgkit::serve {

using vfiouser::Descriptor;

/// `given`, or dxgkit.sock in $XDG_RUNTIME_DIR. The error: neither is there.
std::expected<std::string, std::string> socket_path(const std::string& given);

/// Owns a listening socket, and its file if it made one.
class Listener {
 public:
  /// Listens at a path. A lock file beside it (PATH.lock) is held as long as the listener lives, so
  /// that of several brokers one takes the place of a socket nobody listens at. Only a socket that
  /// belongs to this user is taken away. The error is one sentence; then nothing was changed but
  /// the lock file.
  static std::expected<Listener, std::string> at(const std::string& path);
  /// The socket that systemd passes (LISTEN_PID, LISTEN_FDS). No value: it passes none. The error:
  /// it passes something else than one listening stream socket.
  static std::expected<std::optional<Listener>, std::string> passed();
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) = delete;
  /// Takes the socket's file away again, if it is still ours.
  ~Listener();

  int fd() const { return socket_.get(); }
  /// Of the socket's file; for people.
  const std::string& path() const { return path_; }

 private:
  Listener() = default;
  Descriptor socket_, lock_;
  std::string path_;
  uint64_t device_ = 0, inode_ = 0;  // of the file that at() made
};

}  // namespace dxgkit::serve
