#include "wire/channel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace dxgkit::wire {
namespace {

struct Head {
  uint32_t bytes = 0;
  uint32_t descriptors = 0;
};

union Control {
  char space[CMSG_SPACE(sizeof(int) * kMaxFrameDescriptors)];
  cmsghdr align;
};

/// Sends everything; descriptors with the first byte.
bool send_all(int socket, const void* data, size_t bytes, std::span<const int> descriptors) {
  const auto* at = static_cast<const char*>(data);
  while (bytes != 0) {
    iovec piece{const_cast<char*>(at), bytes};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    Control control{};
    if (!descriptors.empty()) {
      const size_t size = descriptors.size() * sizeof(int);
      message.msg_control = control.space;
      message.msg_controllen = CMSG_SPACE(size);
      cmsghdr* const head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(size);
      std::memcpy(CMSG_DATA(head), descriptors.data(), size);
    }
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    descriptors = {};
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

/// Reads up to `bytes`; descriptors that come along are appended. 0: the end. Below 0: broken.
ssize_t receive_some(int socket, std::byte* to, size_t bytes, std::vector<UniqueFd>* descriptors) {
  iovec piece{to, bytes};
  Control control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.space;
  message.msg_controllen = sizeof control.space;
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return -1;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      descriptors->emplace_back(fd);
    }
  }
  return (message.msg_flags & MSG_CTRUNC) != 0 ? -1 : got;
}

}  // namespace

/// The most bytes of a frame that goes by one system call.
constexpr size_t kTogether = 4096;

bool send_frame(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  if (bytes.size() > kMaxFrameBytes || descriptors.size() > kMaxFrameDescriptors) return false;
  const Head head{static_cast<uint32_t>(bytes.size()), static_cast<uint32_t>(descriptors.size())};
  if (bytes.size() <= kTogether) {
    std::array<std::byte, sizeof head + kTogether> all;
    std::memcpy(all.data(), &head, sizeof head);
    if (!bytes.empty()) std::memcpy(all.data() + sizeof head, bytes.data(), bytes.size());
    return send_all(socket, all.data(), sizeof head + bytes.size(), descriptors);
  }
  return send_all(socket, &head, sizeof head, descriptors) &&
         send_all(socket, bytes.data(), bytes.size(), {});
}

bool send_frame(int socket, std::span<const std::byte> bytes,
                std::span<const UniqueFd> descriptors) {
  std::vector<int> numbers;
  for (const UniqueFd& one : descriptors) numbers.push_back(one.get());
  return send_frame(socket, bytes, std::span<const int>(numbers));
}

Received receive_frame(int socket, Frame* frame) {
  frame->bytes.clear();
  frame->descriptors.clear();
  const auto broken = [&] {
    frame->bytes.clear();
    frame->descriptors.clear();
    return Received::kBroken;
  };
  // What is short comes by one system call. Nothing follows a frame before it is answered.
  Head head;
  std::array<std::byte, sizeof head + kTogether> first;
  size_t got = 0;
  while (got < sizeof head) {
    const ssize_t some =
        receive_some(socket, first.data() + got, first.size() - got, &frame->descriptors);
    if (some == 0 && got == 0) return Received::kEnd;
    if (some <= 0) return broken();
    got += static_cast<size_t>(some);
  }
  std::memcpy(&head, first.data(), sizeof head);
  if (head.bytes > kMaxFrameBytes || head.descriptors > kMaxFrameDescriptors ||
      got - sizeof head > head.bytes || frame->descriptors.size() > head.descriptors)
    return broken();
  frame->bytes.assign(first.data() + sizeof head, first.data() + got);
  constexpr size_t kStep = size_t{64} << 10;
  while (frame->bytes.size() < head.bytes) {
    const size_t before = frame->bytes.size();
    const size_t want = std::min<size_t>(head.bytes - before, std::max(before, kStep));
    frame->bytes.resize(before + want);
    const ssize_t some =
        receive_some(socket, frame->bytes.data() + before, want, &frame->descriptors);
    if (some <= 0) return broken();
    frame->bytes.resize(before + static_cast<size_t>(some));
    if (frame->descriptors.size() > head.descriptors) return broken();
  }
  return frame->descriptors.size() == head.descriptors ? Received::kFrame : broken();
}

}  // namespace dxgkit::wire
