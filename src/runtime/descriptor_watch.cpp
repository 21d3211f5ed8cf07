#include "runtime/descriptor_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"
#include "base/new_descriptors.h"

namespace dxgkit::runtime {

DescriptorWatch::~DescriptorWatch() {
  if (thread_ != nullptr) {
    ended_.store(1);
    runtime_.wake_all(ended_);
    if (end_event_ >= 0) DXGKIT_CHECK(eventfd_write(end_event_, 1) == 0);
    thread_->join();
  }
  for (const int copy : copies_) close(copy);
  if (poller_ >= 0) close(poller_);
  if (end_event_ >= 0) close(end_event_);
}

bool DescriptorWatch::add(int descriptor) {
  DXGKIT_CHECK(thread_ == nullptr);
  const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return false;
  copies_.push_back(copy);
  return true;
}

std::optional<size_t> DescriptorWatch::first_readable() const {
  std::vector<pollfd> entries;
  for (const int copy : copies_) entries.push_back({.fd = copy, .events = POLLIN, .revents = 0});
  // A signal may interrupt it although it does not block: the next look tells then.
  if (poll(entries.data(), entries.size(), 0) <= 0) return std::nullopt;
  for (size_t i = 0; i < entries.size(); ++i) {
    if ((entries[i].revents & POLLIN) != 0) return i;
  }
  return std::nullopt;
}

bool DescriptorWatch::start(std::function<void()> changed) {
  DXGKIT_CHECK(thread_ == nullptr);
  changed_ = std::move(changed);
  if (runtime_.is_simulated()) {
    thread_ = runtime_.spawn("descriptor watch", [this] { watch_in_sim(); });
    return true;
  }
  if (!make_descriptors(NewDescriptors::kPoller, 0, &poller_) ||
      !make_descriptors(NewDescriptors::kEvent, 0, &end_event_))
    return false;
  const auto watch = [this](int descriptor) {
    epoll_event event{};
    // Edges: one that stays readable is told once, and again when it is signalled again.
    event.events = EPOLLIN | EPOLLET;
    event.data.fd = descriptor;
    return epoll_ctl(poller_, EPOLL_CTL_ADD, descriptor, &event) == 0;
  };
  if (!watch(end_event_)) return false;
  for (const int copy : copies_) {
    if (!watch(copy)) return false;
  }
  thread_ = runtime_.spawn("descriptor watch", [this] { watch_in_os(); });
  return true;
}

void DescriptorWatch::watch_in_os() {
  while (ended_.load() == 0) {
    epoll_event event{};
    const int count = epoll_wait(poller_, &event, 1, -1);
    DXGKIT_CHECK(count >= 0 || errno == EINTR);
    if (count > 0 && event.data.fd != end_event_) changed_();
  }
}

void DescriptorWatch::watch_in_sim() {
  while (ended_.load() == 0) {
    if (first_readable().has_value()) changed_();
    runtime_.wait(ended_, 0, runtime_.now() + kSimPeriod);
  }
}

}  // namespace dxgkit::runtime
