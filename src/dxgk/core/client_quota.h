// What all client processes of one user have of a kernel, and how much that may be.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "base/status.h"

namespace dxgkit::dxgk {

/// Counts for one user, shared by its processes. Whoever hosts the kernel makes it and says what
/// the limits are. It lives as long as something is counted. Any thread.
class ClientQuota {
 public:
  struct Limits {
    uint64_t memory_bytes = std::numeric_limits<uint64_t>::max();
    uint64_t submissions = std::numeric_limits<uint64_t>::max();
  };
  explicit ClientQuota(const Limits& limits) : limits_(limits) {}

  /// System memory of its processes: the backing of allocations, pages of fences, command buffers
  /// of contexts, and copies of locked content.
  uint64_t memory_bytes() const { return memory_.load(std::memory_order_relaxed); }
  /// Packets of its processes in the scheduler's queues and on hardware.
  uint64_t submissions() const { return queued_.load(std::memory_order_relaxed); }
  /// Calls that were refused for a limit.
  uint64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }

  /// False: the limit does not allow it, and nothing has changed but the count of refusals.
  bool take_memory(uint64_t bytes) { return take(memory_, bytes, limits_.memory_bytes); }
  /// Counts what cannot be refused any more.
  void add_memory(uint64_t bytes) { memory_.fetch_add(bytes, std::memory_order_relaxed); }
  void give_memory(uint64_t bytes) { memory_.fetch_sub(bytes, std::memory_order_relaxed); }

  /// Room for packets of a call that is about to be made, until leave(). False: as take_memory().
  bool enter(uint64_t packets) { return take(entered_and_queued_, packets, limits_.submissions); }
  void leave(uint64_t packets) {
    entered_and_queued_.fetch_sub(packets, std::memory_order_relaxed);
  }
  /// One packet came into a queue, or has left it for good.
  void queued() {
    queued_.fetch_add(1, std::memory_order_relaxed);
    entered_and_queued_.fetch_add(1, std::memory_order_relaxed);
  }
  void retired() {
    queued_.fetch_sub(1, std::memory_order_relaxed);
    entered_and_queued_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  bool take(std::atomic<uint64_t>& count, uint64_t more, uint64_t most) {
    uint64_t now = count.load(std::memory_order_relaxed);
    do {
      if (now > most || more > most - now) {
        refusals_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
    } while (!count.compare_exchange_weak(now, now + more, std::memory_order_relaxed));
    return true;
  }

  const Limits limits_;
  std::atomic<uint64_t> memory_{0}, queued_{0}, entered_and_queued_{0}, refusals_{0};
};

/// Memory that counts until this ends. Empty: it counts for nobody.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryCharge&& other) noexcept { *this = std::move(other); }
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    std::swap(quota_, other.quota_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryCharge() {
    if (quota_ != nullptr) quota_->give_memory(bytes_);
  }

  /// kNoMemory: the limit does not allow it. No quota: there is no limit.
  static Result<MemoryCharge> take(const std::shared_ptr<ClientQuota>& quota, uint64_t bytes) {
    if (quota != nullptr && !quota->take_memory(bytes)) return Error(Status::kNoMemory);
    return MemoryCharge(quota, bytes);
  }
  /// Whatever the limit is.
  static MemoryCharge add(const std::shared_ptr<ClientQuota>& quota, uint64_t bytes) {
    if (quota != nullptr) quota->add_memory(bytes);
    return MemoryCharge(quota, bytes);
  }
  bool counts() const { return quota_ != nullptr; }

 private:
  MemoryCharge(std::shared_ptr<ClientQuota> quota, uint64_t bytes)
      : quota_(std::move(quota)), bytes_(bytes) {}

  std::shared_ptr<ClientQuota> quota_;
  uint64_t bytes_ = 0;
};

}  // namespace dxgkit::dxgk
