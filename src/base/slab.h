// Objects by number, in blocks that never move.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dxgkit {

/// An array that grows and keeps the addresses of its elements. Elements come in blocks of 64. They
/// are default-constructed with their block and live as long as the slab. The user resets elements
/// that are no longer used.
template <typename T>
class Slab {
 public:
  T& operator[](size_t number) { return (*blocks_[number / kBlock])[number % kBlock]; }
  const T& operator[](size_t number) const { return (*blocks_[number / kBlock])[number % kBlock]; }
  /// The number of elements.
  size_t size() const { return blocks_.size() * kBlock; }
  /// Makes elements until there are at least so many.
  void grow_to(size_t count) {
    while (size() < count) blocks_.push_back(std::make_unique<Block>());
  }

 private:
  static constexpr size_t kBlock = 64;
  using Block = std::array<T, kBlock>;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace dxgkit
