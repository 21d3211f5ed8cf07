// One connection: whole messages with their descriptors, over a Unix stream socket.
#pragma once

#include <expected>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/vfiouser/protocol.h"
#include "runtime/runtime.h"

namespace dxgkit::vfiouser {

/// Owns a descriptor of the process; -1: none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// A second descriptor for the same object; none if the system refuses.
  Descriptor duplicate() const;

 private:
  int fd_ = -1;
};

struct Message {
  Header header;
  Bytes payload;
  std::vector<Descriptor> descriptors;
};

/// Why a connection is of no use any more.
struct Broken {
  bool closed = false;  // the other side closed it between two messages
  std::string why;      // one sentence without a full stop: "the server ..."
};

/// Real threads only. One thread at a time receives, and one at a time sends.
class Connection {
 public:
  /// @param peer  "server" or "client", for texts
  Connection(runtime::Runtime& runtime, Descriptor socket, std::string peer);

  /// Blocks until all of the message is on its way. Fills in the header's size; `parts` follow it.
  /// The descriptors stay the caller's; at most kDescriptorsMost. After an error the connection is
  /// of no use.
  std::expected<void, Broken> send(Header header, std::initializer_list<ByteView> parts,
                                   std::span<const int> descriptors, runtime::TimeNs deadline);
  /// Blocks until a whole message has come. After an error the connection is of no use.
  std::expected<Message, Broken> receive(runtime::TimeNs deadline);
  /// Ends both directions: the other side sees the end, and calls here return. Any thread.
  void shut_down();
  int fd() const { return socket_.get(); }

 private:
  std::expected<void, Broken> fill(std::span<std::byte> out, std::vector<Descriptor>* descriptors,
                                   runtime::TimeNs deadline);
  Broken broken(const std::string& what) const { return {.why = "the " + peer_ + " " + what}; }
  Broken failed(const char* what, int error) const;

  runtime::Runtime& runtime_;
  const Descriptor socket_;
  const std::string peer_;
};

/// A connection to the server that listens at `path`. The error is one sentence without a full
/// stop.
std::expected<Descriptor, std::string> connect_to(const std::string& path);
/// A socket that listens at `path`. A socket file that nobody listens at any more is replaced.
std::expected<Descriptor, std::string> listen_at(const std::string& path);

}  // namespace dxgkit::vfiouser
