// What is known of each allocation that is mapped in a space. Private to the module.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/id_slot.h"

namespace dxgkit::gpuva {

/// An allocation with mappings, and hints where they begin: a hint is a small window of pages. For
/// every mapping its window is there; others may be, once each mapping there went. So keeping
/// track costs one store when a mapping comes and nothing when it goes.
struct MappingOwner {
  AllocationId id{};
  uint32_t live = 0;  // mappings
  uint32_t count = 0, capacity = 0;
  bool crowded = false;  // waits to be cleaned
  std::unique_ptr<uint32_t[]> hints;

  void add_hint(uint32_t window) {
    if (count > 0 && hints[count - 1] == window) return;
    if (count == capacity) {
      const uint32_t more = std::max(2U, capacity + capacity / 2);
      auto larger = std::make_unique_for_overwrite<uint32_t[]>(more);
      std::copy_n(hints.get(), count, larger.get());
      hints = std::move(larger);
      capacity = more;
    }
    hints[count++] = window;
  }
  bool worth_cleaning() const { return count > 2 * live + 16; }
};

/// Owners by the slot of their id. Blocks exist where there are owners.
class OwnerTable {
 public:
  MappingOwner& at(uint32_t slot) {
    const size_t block = slot / kBlock;
    if (block >= blocks_.size()) blocks_.resize(block + 1);
    if (blocks_[block] == nullptr) blocks_[block] = std::make_unique<Block>();
    return (*blocks_[block])[slot % kBlock];
  }
  const MappingOwner* find(uint32_t slot) const {
    const size_t block = slot / kBlock;
    if (block >= blocks_.size() || blocks_[block] == nullptr) return nullptr;
    return &(*blocks_[block])[slot % kBlock];
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& block : blocks_) {
      if (block == nullptr) continue;
      for (const MappingOwner& owner : *block) {
        if (owner.live > 0) visit(owner);
      }
    }
  }
  size_t bytes() const {
    size_t bytes = blocks_.capacity() * sizeof(blocks_[0]);
    for (const auto& block : blocks_) {
      if (block == nullptr) continue;
      bytes += sizeof(Block);
      for (const MappingOwner& owner : *block) bytes += owner.capacity * sizeof(uint32_t);
    }
    return bytes;
  }

 private:
  static constexpr size_t kBlock = 64;
  using Block = std::array<MappingOwner, kBlock>;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace dxgkit::gpuva
