// Where the kernel's side rebuilds a call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dxgkit::wire {

/// Memory for the blocks of one call at a time, between two pages that nobody can touch. Address
/// space only until it is used.
class Arena {
 public:
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// False: the system gives no address space.
  bool there() const { return base_ != nullptr; }
  /// Aligned to 16 bytes. Null: the arena is full.
  std::byte* take(size_t bytes);
  /// Forgets all blocks, and gives memory of a large call back.
  void clear();
  /// An address that can be neither read nor written.
  void* bad() const { return base_; }

 private:
  std::byte* base_ = nullptr;
  size_t used_ = 0;
};

}  // namespace dxgkit::wire
