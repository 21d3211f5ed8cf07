#include "tools/dxgkit/serve/supply.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/new_descriptors.h"
#include "runtime/descriptors.h"
#include "runtime/sync.h"

namespace dxgkit::serve {
namespace {

struct SupplyRequest {
  NewDescriptors kind{};
  uint32_t padding = 0;
  uint64_t bytes = 0;
};
struct SupplyAnswer {
  int32_t error = 0;  // errno; 0: the descriptors come along
};

constexpr size_t kMost = 2;

union Rights {
  char room[CMSG_SPACE(sizeof(int) * kMost)];
  cmsghdr align;
};

msghdr message_of(iovec& part, Rights& rights) {
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = rights.room;
  message.msg_controllen = sizeof rights.room;
  return message;
}

struct Link {
  runtime::Runtime* runtime = nullptr;
  int socket = -1;
  runtime::Mutex mutex;  // a leaf: held while the broker answers
};
Link the_link;

/// The descriptors of an answer; -1 where there is none.
std::array<int, kMost> rights_of(msghdr& message) {
  std::array<int, kMost> fds{-1, -1};
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
    return fds;
  std::memcpy(fds.data(), CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
  return fds;
}

bool ask_broker(NewDescriptors kind, uint64_t bytes, int* made) {
  const runtime::MutexLock lock(the_link.mutex);
  SupplyRequest request{.kind = kind, .bytes = bytes};
  iovec part{&request, sizeof request};
  msghdr sent{};
  sent.msg_iov = &part;
  sent.msg_iovlen = 1;
  SupplyAnswer answer{.error = EPIPE};
  iovec answer_part{&answer, sizeof answer};
  Rights rights{};
  msghdr received = message_of(answer_part, rights);
  // Without a broker the process ends soon; until then there is nothing to be had.
  if (runtime::send_message(*the_link.runtime, the_link.socket, sent, runtime::kForever) < 0 ||
      runtime::receive_message(*the_link.runtime, the_link.socket, received, runtime::kForever) !=
          ssize_t{sizeof answer}) {
    errno = EPIPE;
    return false;
  }
  const std::array<int, kMost> fds = rights_of(received);
  bool is_whole = answer.error == 0;
  for (int i = 0; i < count_of(kind); ++i) is_whole = is_whole && fds[static_cast<size_t>(i)] >= 0;
  if (is_whole) {
    std::memcpy(made, fds.data(), sizeof(int) * static_cast<size_t>(count_of(kind)));
    return true;
  }
  for (const int fd : fds) {
    if (fd >= 0) close(fd);
  }
  // All came, but this process may have no more of them.
  errno = answer.error == 0 ? EMFILE : answer.error;
  return false;
}

}  // namespace

void use_supply(runtime::Runtime& runtime, int socket) {
  the_link.runtime = &runtime;
  the_link.socket = socket;
  set_descriptor_supplier(ask_broker);
}

SupplyState answer_supply(int socket, uint64_t bytes_most) {
  SupplyRequest request;
  ssize_t got = 0;
  do {
    // Descriptors that come along are closed by the system.
    got = recv(socket, &request, sizeof request, MSG_DONTWAIT | MSG_TRUNC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return SupplyState::kNothing;
  if (got <= 0) return SupplyState::kEnded;
  if (got != ssize_t{sizeof request}) return SupplyState::kNonsense;

  SupplyAnswer answer;
  int made[kMost] = {-1, -1};
  const bool is_memory =
      request.kind == NewDescriptors::kMemory || request.kind == NewDescriptors::kSealableMemory;
  if (is_memory && (request.bytes == 0 || request.bytes > bytes_most))
    answer.error = ENOMEM;
  else if (!make_descriptors_here(request.kind, request.bytes, made))
    answer.error = errno;
  iovec part{&answer, sizeof answer};
  Rights rights{};
  msghdr message = message_of(part, rights);
  const size_t count = answer.error == 0 ? static_cast<size_t>(count_of(request.kind)) : 0;
  if (count == 0) {
    message.msg_control = nullptr;
    message.msg_controllen = 0;
  } else {
    message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * count);
    std::memcpy(CMSG_DATA(head), made, sizeof(int) * count);
  }
  while (true) {
    got = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (got >= 0 || errno != EINTR) break;
  }
  for (const int fd : made) {
    if (fd >= 0) close(fd);
  }
  return got >= 0 ? SupplyState::kAnswered : SupplyState::kNonsense;
}

}  // namespace dxgkit::serve
