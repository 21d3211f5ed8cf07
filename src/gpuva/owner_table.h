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

/// How many mappings an allocation has, and hints where they begin: a hint is a small window of
/// pages. For every mapping there is one. While there are few, a hint goes with its mapping; of
/// many, some lead nowhere until they are cleaned away.
class MappingOwner {
 public:
  MappingOwner() = default;
  ~MappingOwner() { clear_hints(); }
  MappingOwner(const MappingOwner&) = delete;
  MappingOwner& operator=(const MappingOwner&) = delete;

  uint32_t live = 0;  // mappings

  void add_hint(uint32_t window) {
    if (count_ == capacity_) resize(capacity_ + capacity_ / 2 + 1);
    hints()[count_++] = window;
  }
  void remove_hint(uint32_t window) {
    if (count_ > kFew) return;
    uint32_t* const end = hints() + count_;
    uint32_t* const found = std::find(hints(), end, window);
    if (found == end) return;
    *found = hints()[--count_];
    if (capacity_ > kInside && count_ < capacity_ / 4) resize(std::max(count_, kInside));
  }
  void replace_hint(uint32_t window, uint32_t other) {
    uint32_t* const end = hints() + count_;
    uint32_t* const found = count_ > kFew ? end : std::find(hints(), end, window);
    if (found == end) return add_hint(other);
    *found = other;
  }
  void clear_hints() {
    count_ = 0;
    resize(kInside);
  }
  /// Asks for memory that a mapping to come or go will need.
  void expect() const { __builtin_prefetch(hints() + count_); }
  uint32_t* hints() { return capacity_ > kInside ? outside_ : inside_.data(); }
  const uint32_t* hints() const { return capacity_ > kInside ? outside_ : inside_.data(); }
  uint32_t count() const { return count_; }
  void cut_to(uint32_t count) { count_ = count; }
  bool worth_cleaning() const { return count_ > kFew && count_ / 2 > live; }
  size_t bytes() const { return capacity_ > kInside ? capacity_ * sizeof(uint32_t) : 0; }

  bool crowded = false;  // waits to be cleaned

 private:
  static constexpr uint32_t kFew = 64;
  static constexpr uint32_t kInside = 2;  // most allocations are mapped once
  void resize(uint32_t wanted) {
    uint32_t* const old = capacity_ > kInside ? outside_ : nullptr;
    if (wanted > kInside) {
      auto* const other = new uint32_t[wanted];
      std::copy_n(hints(), count_, other);
      outside_ = other;
    } else if (old != nullptr) {
      std::array<uint32_t, kInside> kept{};
      std::copy_n(old, count_, kept.begin());
      inside_ = kept;
    }
    delete[] old;
    capacity_ = std::max(wanted, kInside);
  }
  uint32_t count_ = 0, capacity_ = kInside;
  union {
    std::array<uint32_t, kInside> inside_{};
    uint32_t* outside_;
  };
};

/// Owners by the slot of their id, and the ids apart from them, so that a lookup meets nothing
/// else. Blocks exist where there are owners.
class OwnerTable {
 public:
  /// Makes it exist.
  MappingOwner& at(uint32_t slot) { return made(slot).owners[slot % kBlock]; }
  /// Asks for an owner before it is needed.
  void expect(uint32_t slot) const {
    if (const MappingOwner* const owner = find(slot)) __builtin_prefetch(owner);
  }
  AllocationId& id_at(uint32_t slot) { return made(slot).ids[slot % kBlock]; }
  /// Null: never made.
  const MappingOwner* find(uint32_t slot) const {
    const Block* const block = block_of(slot);
    return block == nullptr ? nullptr : &block->owners[slot % kBlock];
  }
  AllocationId id_of(uint32_t slot) const {
    const Block* const block = block_of(slot);
    return block == nullptr ? AllocationId{} : block->ids[slot % kBlock];
  }
  /// Calls visit(AllocationId, const MappingOwner&) for those with mappings.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& block : blocks_) {
      for (size_t i = 0; block != nullptr && i < kBlock; ++i) {
        if (block->owners[i].live > 0) visit(block->ids[i], block->owners[i]);
      }
    }
  }
  size_t bytes() const {
    size_t bytes = blocks_.capacity() * sizeof(blocks_[0]);
    for (const auto& block : blocks_) bytes += block != nullptr ? sizeof(Block) : 0;
    for_each([&](AllocationId, const MappingOwner& owner) { bytes += owner.bytes(); });
    return bytes;
  }

 private:
  static constexpr size_t kBlock = 128;
  struct Block {
    std::array<AllocationId, kBlock> ids;
    std::array<MappingOwner, kBlock> owners;
  };
  Block& made(uint32_t slot) {
    const size_t block = slot / kBlock;
    if (block >= blocks_.size()) blocks_.resize(block + 1);
    if (blocks_[block] == nullptr) blocks_[block] = std::make_unique<Block>();
    return *blocks_[block];
  }
  const Block* block_of(uint32_t slot) const {
    const size_t block = slot / kBlock;
    return block < blocks_.size() ? blocks_[block].get() : nullptr;
  }
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace dxgkit::gpuva
