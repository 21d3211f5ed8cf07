#include "tools/dxgkit/serve/control.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace dxgkit::serve {

bool send_control(int socket, ControlMessage message, std::string_view text, int descriptor) {
  text = text.substr(0, kControlTextMost);
  message.text_bytes = static_cast<uint32_t>(text.size());
  iovec parts[] = {{&message, sizeof message}, {const_cast<char*>(text.data()), text.size()}};
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = 2;
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    header.msg_control = room;
    header.msg_controllen = sizeof room;
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
  while (true) {
    if (sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
    if (errno != EINTR) return false;
  }
}

ControlState receive_control(int socket, ControlReceived* received) {
  constexpr size_t kDescriptorsMost = 16;  // more are closed by the system
  std::array<char, kControlTextMost> text;
  iovec parts[] = {{&received->message, sizeof received->message}, {text.data(), text.size()}};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int) * kDescriptorsMost)];
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = 2;
  header.msg_control = room;
  header.msg_controllen = sizeof room;
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? ControlState::kNothing : ControlState::kEnded;
  }
  received->descriptor = Descriptor();
  for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(one) + i * sizeof fd, sizeof fd);
      Descriptor owned(fd);
      if (!received->descriptor) received->descriptor = std::move(owned);
    }
  }
  if (got == 0) return ControlState::kEnded;
  const auto bytes = static_cast<size_t>(got);
  if (bytes < sizeof received->message || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      bytes - sizeof received->message != received->message.text_bytes)
    return ControlState::kNonsense;
  received->text.assign(text.data(), received->message.text_bytes);
  return ControlState::kMessage;
}

}  // namespace dxgkit::serve
