// Objects by number, in blocks that never move.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dxgkit {

/// An array that grows and keeps addresses. Elements are made with their block of 64, by their
/// default constructor, and live as long as the slab: its user resets what is not used any more.
template <typename T>
class Slab {
 public:
  T& operator[](size_t number) { return (*blocks_[number / kBlock])[number % kBlock]; }
  const T& operator[](size_t number) const { return (*blocks_[number / kBlock])[number % kBlock]; }
  /// How many there are.
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
