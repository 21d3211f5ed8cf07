// Where the kernel's side rebuilds a call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>

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
  /// For what the server keeps about the call: until `clear` like the blocks.
  std::pmr::memory_resource* notes() { return &notes_; }
  /// An address that can be neither read nor written.
  void* bad() const { return base_; }

 private:
  /// What most calls need no more of.
  static constexpr size_t kNotesBytes = size_t{6} << 10;

  std::byte* base_ = nullptr;
  size_t used_ = 0;
  alignas(16) std::array<std::byte, kNotesBytes> notes_room_;
  std::pmr::monotonic_buffer_resource notes_{notes_room_.data(), notes_room_.size()};
};

}  // namespace dxgkit::wire
