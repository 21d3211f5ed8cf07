#include "tools/dxgkit/gl/channel.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "runtime/descriptors.h"

namespace dxgkit::gl {
namespace {

std::unexpected<std::string> failed(const char* late) {
  if (errno == ETIMEDOUT) return std::unexpected(std::string(late));
  if (errno == EPIPE || errno == ECONNRESET)
    return std::unexpected(std::string("it closed the connection"));
  return std::unexpected("the connection broke: " + std::generic_category().message(errno));
}

}  // namespace

std::expected<bool, std::string> SocketChannel::read(std::span<std::byte> out, bool begun) {
  while (!out.empty()) {
    iovec piece{out.data(), out.size()};
    msghdr message{};  // without room for descriptors: the system closes those that come
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    const ssize_t got = runtime::receive_message(
        runtime_, socket_.get(), message, begun ? runtime_.now() + timeout_ns_ : runtime::kForever);
    if (got < 0) return failed("it did not end a message in time");
    if (got == 0 && begun)
      return std::unexpected(std::string("it closed the connection in the middle of a message"));
    if (got == 0) return false;
    begun = true;
    out = out.subspan(static_cast<size_t>(got));
  }
  return true;
}

std::expected<void, std::string> SocketChannel::send(std::span<const std::byte> bytes, int fd) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  while (!bytes.empty()) {
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};  // it is only read
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (fd >= 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* const rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
    }
    const ssize_t sent =
        runtime::send_message(runtime_, socket_.get(), message, runtime_.now() + timeout_ns_);
    if (sent < 0) return failed("it did not take a reply in time");
    fd = -1;  // it goes with the first byte
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return {};
}

std::expected<void, std::string> SocketChannel::write(std::span<const std::byte> bytes) {
  return send(bytes, -1);
}

std::expected<void, std::string> SocketChannel::send_descriptor(int fd) {
  const std::byte one{};
  return send({&one, 1}, fd);
}

void SocketChannel::shut_down() { shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace dxgkit::gl
