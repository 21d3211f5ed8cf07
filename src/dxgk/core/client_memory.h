// The memory that a client in another process shares with the kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bus/pages_apart.h"
#include "dxgk/core/client_quota.h"
#include "dxgk/core/process.h"
#include "runtime/sync.h"

namespace dxgkit::dxgk {

/// Of a process whose client is in another process of the system, and so cannot be given the
/// addresses that the kernel has. Any thread.
class ClientMemory : public std::enable_shared_from_this<ClientMemory> {
 public:
  /// `quota`: of its user; null: there is no limit.
  explicit ClientMemory(bus::Machine& machine, std::shared_ptr<ClientQuota> quota = nullptr)
      : machine_(machine), pages_(bus::PagesApart::make(machine)), quota_(std::move(quota)) {}

  /// Whether anything can be given by descriptor.
  bool can_give() const { return !machine_.system_memory_is_fixed(); }
  /// The backing of its allocations.
  bus::PagesApart& pages() { return *pages_; }
  const std::shared_ptr<ClientQuota>& quota() const { return quota_; }
  /// The process has ended: pages go back with the last allocation.
  void end() { pages_->close(); }

  /// What is called when memory of the client that is an allocation is the client's alone again.
  /// The number names it.
  std::function<void()> new_exchange(uint64_t* number) {
    const runtime::MutexLock lock(mutex_);
    *number = ++last_exchange_;
    return [self = shared_from_this(), one = *number] {
      const runtime::MutexLock inner(self->mutex_);
      self->ended_.push_back(one);
    };
  }
  /// The numbers of those that have ended since the last call.
  std::vector<uint64_t> take_ended() {
    const runtime::MutexLock lock(mutex_);
    return std::exchange(ended_, {});
  }

 private:
  bus::Machine& machine_;
  const std::shared_ptr<bus::PagesApart> pages_;
  const std::shared_ptr<ClientQuota> quota_;
  runtime::Mutex mutex_;
  uint64_t last_exchange_ DXGKIT_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> ended_ DXGKIT_GUARDED_BY(mutex_);
};

/// What counts for a process's user. Null: nothing does.
inline std::shared_ptr<ClientQuota> quota_of(const Process& process) {
  const ClientMemory* const client = process.client_memory();
  return client == nullptr ? nullptr : client->quota();
}

}  // namespace dxgkit::dxgk
