// Memory of a client that devices reach too.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bus/machine.h"

namespace dxgkit::bus {

/// Whole pages of the process whose content lies in system pages of the machine while this lives:
/// the process and devices see the same bytes. Made by exchanging what is mapped there; the end
/// exchanges it back, content included.
///
/// No other thread may write to the range while it is exchanged: the write could be lost.
class UserMemory {
 public:
  /// kInvalidParameter: null, not page-aligned, not whole pages, empty or wrapping; not mapped
  /// readable and writable everywhere; or a shared mapping, which includes what a CpuView or
  /// another UserMemory shows. kNoMemory: no system pages, or the system refuses. Nothing changed.
  static Result<std::unique_ptr<UserMemory>> capture(Machine& machine, void* address,
                                                     uint64_t size_bytes);
  /// What the client unmapped or replaced meanwhile stays as it is.
  ~UserMemory();
  UserMemory(const UserMemory&) = delete;
  UserMemory& operator=(const UserMemory&) = delete;

  std::span<const PageFrame> pages() const { return pages_; }

 private:
  UserMemory(Machine& machine, std::byte* address, std::vector<PageFrame> pages)
      : machine_(machine), address_(address), pages_(std::move(pages)), kept_(pages_.size()) {}
  Status exchange();
  std::byte* content(size_t page) const;
  /// Private memory with the content of our pages, where those are still shown.
  void exchange_back();

  Machine& machine_;
  std::byte* const address_;
  const std::vector<PageFrame> pages_;
  std::vector<bool> kept_;  // by the process, against all rules: never given to others
};

}  // namespace dxgkit::bus
