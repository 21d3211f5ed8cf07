// The mappings of each allocation in a space. Private to the module.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/id_slot.h"

namespace dxgkit::gpuva {

/// The number of mappings of an allocation, and hints to their starts. A hint is a small window of
/// pages. Every mapping has a hint. While there are few mappings, a hint is removed with its
/// mapping. With many mappings, some hints lead nowhere until they are cleaned. Most allocations
/// are mapped once; their hint takes no memory of its own.
class MappingOwner {
 public:
  MappingOwner() = default;
  ~MappingOwner() { free(); }
  MappingOwner(const MappingOwner&) = delete;
  MappingOwner& operator=(const MappingOwner&) = delete;

  uint32_t live() const { return is_list() ? list()->live : static_cast<uint32_t>(word_ & 1); }
  /// Hints of present and of removed mappings.
  std::span<const uint32_t> hints(uint32_t* only) const {
    if (is_list()) return {list()->hints(), list()->count};
    *only = static_cast<uint32_t>(word_ >> 1);
    return {only, live()};
  }
  void come(uint32_t window) {
    if (word_ == 0) {
      word_ = uint64_t{window} << 1 | 1;
      return;
    }
    if (!is_list()) {
      const auto first = static_cast<uint32_t>(word_ >> 1);
      grow(kFirst);
      list()->hints()[0] = first;
      list()->live = list()->count = 1;
    }
    ++list()->live;
    add(window);
  }
  void go(uint32_t window) {
    if (!is_list()) {
      word_ = 0;
      return;
    }
    if (--list()->live == 0) return free();
    uint32_t* const found = find(window);
    if (found == nullptr) return;
    *found = list()->hints()[--list()->count];
    if (list()->capacity > kFirst && list()->count < list()->capacity / 4)
      grow(std::max(list()->count, kFirst));
  }
  void move(uint32_t from, uint32_t to) {
    if (!is_list()) {
      word_ = uint64_t{to} << 1 | 1;
      return;
    }
    uint32_t* const found = find(from);
    if (found == nullptr) return add(to);
    *found = to;
  }
  /// Replaces the hints by fewer hints.
  void set_hints(std::span<const uint32_t> hints) {
    if (!is_list()) return;
    list()->count = static_cast<uint32_t>(hints.size());
    std::copy(hints.begin(), hints.end(), list()->hints());
  }
  bool worth_cleaning() const {
    return is_list() && list()->count > kFew && list()->count / 2 > list()->live;
  }
  size_t bytes() const { return is_list() ? size_of(list()->capacity) : 0; }
  /// Prefetches the memory that adding or removing a mapping will need.
  void expect() const {
    if (!is_list()) return;
    __builtin_prefetch(list());
    __builtin_prefetch(list()->hints() + kFirst);
  }

 private:
  static constexpr uint32_t kFew = 64;
  static constexpr uint32_t kFirst = 7;  // with the header before it, malloc gives this many anyway
  struct List {
    uint32_t live = 0, count = 0, capacity = 0;
    uint32_t* hints() { return reinterpret_cast<uint32_t*>(this + 1); }
    const uint32_t* hints() const { return reinterpret_cast<const uint32_t*>(this + 1); }
  };
  static size_t size_of(uint32_t capacity) { return sizeof(List) + capacity * sizeof(uint32_t); }
  bool is_list() const { return word_ != 0 && (word_ & 1) == 0; }
  List* list() { return reinterpret_cast<List*>(word_); }
  const List* list() const { return reinterpret_cast<const List*>(word_); }
  void free() {
    if (is_list()) ::operator delete(list());
    word_ = 0;
  }
  void grow(uint32_t capacity) {
    auto* const other = new (::operator new(size_of(capacity))) List{.capacity = capacity};
    if (is_list()) {
      other->live = list()->live;
      other->count = list()->count;
      std::copy_n(list()->hints(), other->count, other->hints());
    }
    free();
    word_ = reinterpret_cast<uintptr_t>(other);
  }
  void add(uint32_t window) {
    if (list()->count == list()->capacity) grow(list()->capacity + list()->capacity / 2);
    list()->hints()[list()->count++] = window;
  }
  /// Null if there are many, or it is not in the list.
  uint32_t* find(uint32_t window) {
    if (list()->count > kFew) return nullptr;
    const std::span<uint32_t> hints(list()->hints(), list()->count);
    size_t i = 0;
    // Compares four at once, because no prediction of the right one is possible.
    for (; i + 4 <= hints.size(); i += 4) {
      uint32_t same = 0;
      for (uint32_t lane = 0; lane < 4; ++lane)
        same |= static_cast<uint32_t>(hints[i + lane] == window) << lane;
      if (same != 0) return &hints[i + static_cast<size_t>(std::countr_zero(same))];
    }
    for (; i < hints.size(); ++i) {
      if (hints[i] == window) return &hints[i];
    }
    return nullptr;
  }

  // 0: no mapping; odd: the hint of the only mapping; otherwise the address of the list.
  uint64_t word_ = 0;
};

/// Owners by the slot of their id. The ids are in an array of their own, so that a look-up reads
/// nothing else. Blocks exist where there are owners.
class OwnerTable {
 public:
  /// Makes the owner if it does not exist.
  MappingOwner& at(uint32_t slot) { return made(slot).owners[slot % kBlock]; }
  /// Prefetch the memory of an owner, and then of its list.
  void expect(uint32_t slot) const {
    if (const MappingOwner* const owner = find(slot)) __builtin_prefetch(owner);
  }
  void expect_list(uint32_t slot) const {
    if (const MappingOwner* const owner = find(slot)) owner->expect();
  }
  AllocationId& id_at(uint32_t slot) { return made(slot).ids[slot % kBlock]; }
  /// Null if it was never made.
  const MappingOwner* find(uint32_t slot) const {
    const Block* const block = block_of(slot);
    return block == nullptr ? nullptr : &block->owners[slot % kBlock];
  }
  AllocationId id_of(uint32_t slot) const {
    const Block* const block = block_of(slot);
    return block == nullptr ? AllocationId{} : block->ids[slot % kBlock];
  }
  /// Calls visit(AllocationId, const MappingOwner&) for the owners that have mappings.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& block : blocks_) {
      for (size_t i = 0; block != nullptr && i < kBlock; ++i) {
        if (block->owners[i].live() > 0) visit(block->ids[i], block->owners[i]);
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
