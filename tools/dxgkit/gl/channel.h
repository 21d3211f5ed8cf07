// The bytes between a GL program and its session.
#pragma once

#include <cstddef>
#include <expected>
#include <span>
#include <string>

#include "devices/vfiouser/connection.h"
#include "runtime/runtime.h"

namespace dxgkit::gl {

/// Errors are one sentence without a full stop, and the end of the connection.
class Channel {
 public:
  virtual ~Channel() = default;
  /// Blocks until `out` is full. False: the program has closed the connection before its first
  /// byte.
  /// @param begun  a message is under way: its rest has to come in time
  virtual std::expected<bool, std::string> read(std::span<std::byte> out, bool begun) = 0;
  virtual std::expected<void, std::string> write(std::span<const std::byte> bytes) = 0;
  /// Sends a byte with a descriptor, which stays the caller's.
  virtual std::expected<void, std::string> send_descriptor(int fd) = 0;
};

/// A Unix stream socket. Real threads only; one thread uses it.
class SocketChannel final : public Channel {
 public:
  /// @param timeout_ns  how long the rest of a message, or room for a reply, may take
  SocketChannel(runtime::Runtime& runtime, vfiouser::Descriptor socket,
                runtime::DurationNs timeout_ns)
      : runtime_(runtime), socket_(std::move(socket)), timeout_ns_(timeout_ns) {}

  std::expected<bool, std::string> read(std::span<std::byte> out, bool begun) override;
  std::expected<void, std::string> write(std::span<const std::byte> bytes) override;
  std::expected<void, std::string> send_descriptor(int fd) override;
  /// Ends both directions: calls return. Any thread.
  void shut_down();

 private:
  std::expected<void, std::string> send(std::span<const std::byte> bytes, int fd);
  runtime::Runtime& runtime_;
  const vfiouser::Descriptor socket_;
  const runtime::DurationNs timeout_ns_;
};

}  // namespace dxgkit::gl
