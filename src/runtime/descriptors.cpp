#include "runtime/descriptors.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/check.h"

namespace dxgkit::runtime {
namespace {

/// Milliseconds that poll may sleep, rounded up, so that it never comes back before the deadline.
int sleep_ms(Runtime& runtime, TimeNs deadline) {
  if (deadline == kForever) return -1;
  const DurationNs left = deadline - runtime.now();
  if (left <= 0) return 0;
  return static_cast<int>(std::min<DurationNs>((left - 1) / kMillisecond + 1, INT_MAX));
}

/// Waits for one socket. False: the deadline has passed.
bool wait_for(Runtime& runtime, int socket, bool output, TimeNs deadline) {
  DescriptorWait wait{.fd = socket, .input = !output, .output = output};
  return wait_for_descriptors(runtime, {&wait, 1}, deadline);
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

bool wait_for_descriptors(Runtime& runtime, std::span<DescriptorWait> waits, TimeNs deadline) {
  DXGKIT_CHECK(!runtime.is_simulated());
  constexpr size_t kMost = 1024;
  DXGKIT_CHECK(waits.size() <= kMost);
  pollfd entries[kMost];
  for (size_t i = 0; i < waits.size(); ++i) {
    const int wanted = (waits[i].input ? POLLIN : 0) | (waits[i].output ? POLLOUT : 0) | POLLRDHUP;
    entries[i] = {.fd = waits[i].fd, .events = static_cast<short>(wanted), .revents = 0};
    waits[i].ready = waits[i].ended = false;
  }
  while (true) {
    const int ready = poll(entries, waits.size(), sleep_ms(runtime, deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && (deadline == kForever || runtime.now() < deadline)) continue;
    if (ready <= 0) return false;
    break;
  }
  for (size_t i = 0; i < waits.size(); ++i) {
    waits[i].ready = entries[i].revents != 0;
    waits[i].ended = (entries[i].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
  }
  return true;
}

void set_event(int event) {
  pollfd entry{.fd = event, .events = POLLOUT, .revents = 0};
  if (poll(&entry, 1, 0) != 1 || entry.revents != POLLOUT) return;
  const uint64_t one = 1;
  // A process that has closed its end misses it.
  static_cast<void>(!write(event, &one, sizeof one));
}

ssize_t receive_message(Runtime& runtime, int socket, msghdr& message, TimeNs deadline) {
  const msghdr wanted = message;
  while (true) {
    const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0) return got;
    if (errno != EINTR && !would_block(errno)) return -1;
    message = wanted;
    if (errno == EINTR) continue;
    if (!wait_for(runtime, socket, /*output=*/false, deadline)) {
      errno = ETIMEDOUT;
      return -1;
    }
  }
}

ssize_t send_message(Runtime& runtime, int socket, const msghdr& message, TimeNs deadline) {
  while (true) {
    const ssize_t sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return sent;
    if (errno == EINTR) continue;
    if (!would_block(errno)) return -1;
    if (!wait_for(runtime, socket, /*output=*/true, deadline)) {
      errno = ETIMEDOUT;
      return -1;
    }
  }
}

ssize_t receive_standing_still(int socket, std::span<std::byte> to, DurationNs timeout_ns) {
  const auto real_now = [] {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * kSecond + now.tv_nsec;
  };
  const TimeNs deadline = real_now() + timeout_ns;
  while (true) {
    iovec part{.iov_base = to.data(), .iov_len = to.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_TRUNC);
    if (got >= 0) return got;
    if (errno == EINTR) continue;
    if (!would_block(errno)) return -1;
    const DurationNs left = deadline - real_now();
    if (left <= 0) {
      errno = ETIMEDOUT;
      return -1;
    }
    // In calls that an adapter's jail allows: poll knows whole milliseconds.
    const DurationNs wait_ms = (left + kMillisecond - 1) / kMillisecond;
    pollfd entry{.fd = socket, .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, static_cast<int>(std::min<DurationNs>(wait_ms, INT_MAX))) < 0 &&
        errno != EINTR)
      return -1;
  }
}

}  // namespace dxgkit::runtime
