#include "devices/vfiouser/connection.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "runtime/descriptors.h"

namespace dxgkit::vfiouser {
namespace {

constexpr size_t kPartsMost = 4;

std::string text_of(int error) { return std::generic_category().message(error); }

/// The address of a socket file; nullopt: the path is empty or too long.
std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::unexpected<std::string> no_path(const std::string& path) {
  return std::unexpected("'" + path + "' is no path of a socket: 1 to 107 characters");
}

/// Takes the descriptors out of a received message. False: some were lost, or there are other
/// things.
bool take_descriptors(msghdr& message, std::vector<Descriptor>* to) {
  std::vector<Descriptor> found;
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(one) + i * sizeof(int), sizeof(fd));
      found.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) return false;
  if (to == nullptr) return found.empty();
  for (Descriptor& one : found) to->push_back(std::move(one));
  return true;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Descriptor Descriptor::duplicate() const { return Descriptor(fcntl(fd_, F_DUPFD_CLOEXEC, 0)); }

Connection::Connection(runtime::Runtime& runtime, Descriptor socket, std::string peer)
    : runtime_(runtime), socket_(std::move(socket)), peer_(std::move(peer)) {}

Broken Connection::failed(const char* what, int error) const {
  if (error == ETIMEDOUT) return broken(std::string(what) + " in time");
  if (error == EPIPE || error == ECONNRESET)
    return {.closed = true, .why = "the " + peer_ + " closed the connection"};
  return {.why = "the connection to the " + peer_ + " broke: " + text_of(error)};
}

std::expected<void, Broken> Connection::send(Header header, std::initializer_list<ByteView> parts,
                                             std::span<const int> descriptors,
                                             runtime::TimeNs deadline) {
  DXGKIT_CHECK(parts.size() < kPartsMost);
  DXGKIT_CHECK(descriptors.size() <= kDescriptorsMost);
  size_t size = kHeaderBytes;
  for (const ByteView part : parts) size += part.size();
  header.size_bytes = static_cast<uint32_t>(size);
  std::array<std::byte, kHeaderBytes> head = encode(header);
  std::array<iovec, kPartsMost> pieces;
  size_t count = 0;
  pieces[count++] = {head.data(), head.size()};
  for (const ByteView part : parts) {
    // The system only reads them.
    if (!part.empty()) pieces[count++] = {const_cast<std::byte*>(part.data()), part.size()};
  }
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kDescriptorsMost * sizeof(int))> control{};
  msghdr message{};
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  for (size_t first = 0; first < count;) {
    message.msg_iov = &pieces[first];
    message.msg_iovlen = count - first;
    const ssize_t sent = runtime::send_message(runtime_, socket_.get(), message, deadline);
    if (sent < 0) return std::unexpected(failed("did not take a message", errno));
    message.msg_control = nullptr;  // they go with the first byte
    message.msg_controllen = 0;
    auto left = static_cast<size_t>(sent);
    while (first < count && left >= pieces[first].iov_len) left -= pieces[first++].iov_len;
    if (first == count) break;
    pieces[first].iov_base = static_cast<std::byte*>(pieces[first].iov_base) + left;
    pieces[first].iov_len -= left;
  }
  return {};
}

std::expected<void, Broken> Connection::fill(std::span<std::byte> out,
                                             std::vector<Descriptor>* descriptors,
                                             runtime::TimeNs deadline) {
  const bool at_start = descriptors != nullptr;
  bool begun = !at_start;
  while (!out.empty()) {
    iovec piece{out.data(), out.size()};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kDescriptorsMost * sizeof(int))> control;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    // Descriptors come with the first byte of a message.
    if (!begun) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
    }
    const ssize_t got = runtime::receive_message(runtime_, socket_.get(), message, deadline);
    if (got < 0)
      return std::unexpected(failed(begun ? "did not end a message" : "did not answer", errno));
    if (got == 0) {
      if (begun) return std::unexpected(broken("closed the connection in the middle of a message"));
      return std::unexpected(
          Broken{.closed = true, .why = "the " + peer_ + " closed the connection"});
    }
    if (!take_descriptors(message, begun ? nullptr : descriptors))
      return std::unexpected(broken("sent descriptors where none may be, or more than " +
                                    std::to_string(kDescriptorsMost)));
    begun = true;
    out = out.subspan(static_cast<size_t>(got));
  }
  return {};
}

std::expected<Message, Broken> Connection::receive(runtime::TimeNs deadline) {
  Message message;
  std::array<std::byte, kHeaderBytes> head;
  if (auto got = fill(head, &message.descriptors, deadline); !got)
    return std::unexpected(got.error());
  const auto header = decode_header(head);
  if (!header.has_value()) return std::unexpected(broken("sent " + header.error()));
  message.header = *header;
  message.payload.resize(header->size_bytes - kHeaderBytes);
  if (auto got = fill(message.payload, nullptr, deadline); !got)
    return std::unexpected(got.error());
  return message;
}

void Connection::shut_down() { shutdown(socket_.get(), SHUT_RDWR); }

std::expected<Descriptor, std::string> connect_to(const std::string& path) {
  const std::optional<sockaddr_un> address = address_of(path);
  if (!address.has_value()) return no_path(path);
  // It does not wait: a server with a full queue would keep us for ever.
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return std::unexpected("there is no socket left: " + text_of(errno));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0)
    return std::unexpected("no server answers at " + path + ": " + text_of(errno));
  return socket;
}

std::expected<Descriptor, std::string> listen_at(const std::string& path) {
  const std::optional<sockaddr_un> address = address_of(path);
  if (!address.has_value()) return no_path(path);
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
    if (connect_to(path).has_value())
      return std::unexpected("another server listens at " + path + " already");
    unlink(path.c_str());
  }
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return std::unexpected("there is no socket left: " + text_of(errno));
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0 ||
      listen(socket.get(), 8) != 0)
    return std::unexpected("cannot listen at " + path + ": " + text_of(errno));
  return socket;
}

}  // namespace dxgkit::vfiouser
