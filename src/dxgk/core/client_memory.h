// The memory that a client in another process shares with the kernel.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "bus/pages_apart.h"
#include "runtime/sync.h"

namespace dxgkit::dxgk {

/// Of a process that is a client in another process of the system, and so cannot be given the
/// addresses that the kernel has. Any thread.
class ClientMemory {
 public:
  /// A memory object of the client in the place of its own pages: whole pages, and nobody can make
  /// it shorter.
  struct Lent {
    Lent() = default;
    Lent(int descriptor, uint64_t size, std::function<void()> when_ended)
        : fd(descriptor), bytes(size), ended(std::move(when_ended)) {}
    Lent(Lent&& other) noexcept
        : fd(std::exchange(other.fd, -1)), bytes(other.bytes), ended(std::move(other.ended)) {}
    ~Lent() {
      if (fd >= 0) close(fd);
    }
    int fd = -1;  // owned
    uint64_t bytes = 0;
    std::function<void()> ended;
  };

  explicit ClientMemory(bus::Machine& machine) : pages_(bus::PagesApart::make(machine)) {}

  /// The backing of its allocations.
  bus::PagesApart& pages() { return *pages_; }
  /// The process has ended: pages go back with the last allocation.
  void end() { pages_->close(); }

  /// For the next call: what the client has at an address that means nothing here.
  void lend(const void* address, Lent lent) {
    const runtime::MutexLock lock(mutex_);
    lent_.insert_or_assign(address, std::make_unique<Lent>(std::move(lent)));
  }
  /// Null: nothing of this size is lent at the address.
  std::unique_ptr<Lent> take(const void* address, uint64_t bytes) {
    const runtime::MutexLock lock(mutex_);
    const auto found = lent_.find(address);
    if (found == lent_.end() || found->second->bytes != bytes) return nullptr;
    std::unique_ptr<Lent> lent = std::move(found->second);
    lent_.erase(found);
    return lent;
  }
  /// The call is over.
  void end_loan(const void* address) {
    const runtime::MutexLock lock(mutex_);
    lent_.erase(address);
  }

 private:
  const std::shared_ptr<bus::PagesApart> pages_;
  runtime::Mutex mutex_;
  std::map<const void*, std::unique_ptr<Lent>> lent_ DXGKIT_GUARDED_BY(mutex_);
};

}  // namespace dxgkit::dxgk
