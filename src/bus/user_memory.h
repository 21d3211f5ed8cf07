// Memory of a client that devices can reach too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bus/machine.h"
#include "bus/pages_apart.h"

namespace dxgkit::bus {

/// Whole pages of the process whose content lies in system pages of the machine while this object
/// lives. So the process and devices see the same bytes. The constructor replaces the mapping of
/// the pages and copies their content. The destructor does the reverse.
///
/// No other thread may write to the range during the exchange: the write could be lost.
class UserMemory {
 public:
  /// kInvalidParameter: the range is null, not page-aligned, not whole pages, empty or wrapping; or
  /// not mapped readable and writable everywhere; or a shared mapping, which includes the memory of
  /// a CpuView or another UserMemory. kNoMemory: there are no system pages, or the system refuses.
  /// Nothing has changed then.
  static Result<std::unique_ptr<UserMemory>> capture(Machine& machine, void* address,
                                                     uint64_t size_bytes);
  /// The same for a client in another process: `bytes` bytes of zeros, whole pages, in a memory
  /// object of their own. The client copies its content there and maps the object in the place of
  /// its pages. `ended` is called when no device reaches them any more, so that the client may have
  /// private memory again. kNoMemory: as PagesApart; `ended` is not called then.
  /// @param number  what number() returns
  static Result<std::unique_ptr<UserMemory>> elsewhere(Machine& machine, uint64_t bytes,
                                                       uint64_t number,
                                                       std::function<void()> ended);
  /// Pages that the client has unmapped or replaced meanwhile stay as they are.
  ~UserMemory();
  UserMemory(const UserMemory&) = delete;
  UserMemory& operator=(const UserMemory&) = delete;

  std::span<const PageFrame> pages() const { return pages_; }
  /// Where a client in another process has them; null: it is in this one.
  const PagesApart* group() const { return group_.get(); }
  uint64_t number() const { return number_; }

 private:
  UserMemory(Machine& machine, std::byte* address, std::vector<PageFrame> pages)
      : machine_(machine), address_(address), pages_(std::move(pages)), kept_(pages_.size()) {}
  Status exchange();
  std::byte* content(size_t page) const;
  /// Makes private memory with the content of our pages, where our pages are still mapped.
  void exchange_back();

  Machine& machine_;
  std::byte* const address_;  // null: of another process
  const std::vector<PageFrame> pages_;
  // Pages that the process kept, against all rules; they are never given to others.
  std::vector<bool> kept_;
  std::shared_ptr<PagesApart> group_;  // of another process
  uint64_t number_ = 0;
  std::function<void()> ended_;
};

}  // namespace dxgkit::bus
