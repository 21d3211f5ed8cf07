// Leaves by number. Private to the module.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/check.h"

namespace dxgkit::gpuva {

/// Objects by number, in order, that do not move. Blocks of 512 exist only where there are objects,
/// so a number is found in few steps and the next number in one.
template <typename T>
class LeafTable {
 public:
  /// Null if there is none.
  T* find(uint64_t number) const {
    const auto block = blocks_.find(number / kBlock);
    return block == blocks_.end() ? nullptr : block->second->leaves[number % kBlock].get();
  }
  T& make(uint64_t number) {
    std::unique_ptr<Block>& block = blocks_[number / kBlock];
    if (block == nullptr) block = std::make_unique<Block>();
    std::unique_ptr<T>& leaf = block->leaves[number % kBlock];
    DXGKIT_CHECK(leaf == nullptr);
    leaf = std::make_unique<T>();
    block->used[number % kBlock / 64] |= uint64_t{1} << (number % 64);
    ++block->count;
    return *leaf;
  }
  /// The object with a number; it must exist.
  void erase(uint64_t number) {
    const auto found = blocks_.find(number / kBlock);
    DXGKIT_CHECK(found != blocks_.end());
    Block& block = *found->second;
    DXGKIT_CHECK(block.leaves[number % kBlock] != nullptr);
    block.leaves[number % kBlock].reset();
    block.used[number % kBlock / 64] &= ~(uint64_t{1} << (number % 64));
    if (--block.count == 0) blocks_.erase(found);
  }
  void clear() { blocks_.clear(); }

  /// Calls visit(uint64_t, T&) for the objects in [first, end), in order.
  template <typename Visit>
  void for_each_in(uint64_t first, uint64_t end, Visit visit) const {
    for (auto block = blocks_.lower_bound(first / kBlock); block != blocks_.end(); ++block) {
      const uint64_t base = block->first * kBlock;
      for (uint64_t word = base < first ? (first - base) / 64 : 0; word < kWords; ++word) {
        for (uint64_t left = block->second->used[word]; left != 0; left &= left - 1) {
          const auto slot = word * 64 + static_cast<uint64_t>(std::countr_zero(left));
          if (base + slot < first) continue;
          if (base + slot >= end) return;
          visit(base + slot, *block->second->leaves[slot]);
        }
      }
    }
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    for_each_in(0, ~uint64_t{0}, visit);
  }

 private:
  static constexpr uint64_t kBlock = 512;
  static constexpr uint64_t kWords = kBlock / 64;
  struct Block {
    std::array<uint64_t, kWords> used{};
    std::array<std::unique_ptr<T>, kBlock> leaves;
    size_t count = 0;
  };
  std::map<uint64_t, std::unique_ptr<Block>> blocks_;
};

}  // namespace dxgkit::gpuva
