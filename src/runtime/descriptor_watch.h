// Waits for descriptors of the system: events that belong to clients, not to the runtime.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/runtime.h"

namespace dxgkit::runtime {

/// Watches descriptors and tells when one becomes readable. Nothing is read from them.
///
/// add() first, then start(), both on one thread. The destructor ends the watch and waits for a
/// callback that runs; do not destroy it from the callback.
class DescriptorWatch {
 public:
  explicit DescriptorWatch(Runtime& runtime) : runtime_(runtime) {}
  ~DescriptorWatch();
  DescriptorWatch(const DescriptorWatch&) = delete;
  DescriptorWatch& operator=(const DescriptorWatch&) = delete;

  /// Adds a copy of `descriptor`, so that the caller may close its own. The same one may be added
  /// twice. False: it is not open, or the process may open no more descriptors.
  bool add(int descriptor);
  bool empty() const { return copies_.empty(); }
  /// The first descriptor that is readable now, by the order of add(). Any thread; does not block.
  std::optional<size_t> first_readable() const;
  /// From here on `changed` is called on a thread of the runtime whenever a descriptor may have
  /// become readable: at least once for each time that one becomes readable and stays so. os: as
  /// soon as it happens. sim: within kSimPeriod of virtual time. Once only.
  /// False: the system gives no descriptors for it. Cost: a thread.
  bool start(std::function<void()> changed);

  /// How often a simulation looks.
  static constexpr DurationNs kSimPeriod = 100 * kMicrosecond;

 private:
  void watch_in_os();
  void watch_in_sim();

  Runtime& runtime_;
  std::vector<int> copies_;
  std::function<void()> changed_;
  std::atomic<uint32_t> ended_{0};
  int poller_ = -1;     // os: an epoll descriptor
  int end_event_ = -1;  // os: readable when the watch ends
  std::unique_ptr<Thread> thread_;
};

}  // namespace dxgkit::runtime
