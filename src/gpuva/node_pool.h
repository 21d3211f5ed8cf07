// Memory for the nodes of a tree. Private to the module.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/large_block.h"

namespace dxgkit::gpuva {

/// Nodes by number. Nodes do not move. A number holds the chunk and the cache line in it, so one
/// load from a table that stays cached finds a node. The first chunks are small and from the heap.
/// Once the tree is larger than the processor's table of small pages covers, chunks come in large
/// pages.
template <typename Node>
class NodePool {
 public:
  NodePool() = default;
  NodePool(const NodePool&) = delete;
  NodePool& operator=(const NodePool&) = delete;

  Node& operator[](uint32_t number) { return *at(number); }
  const Node& operator[](uint32_t number) const { return *at(number); }

  /// A new node.
  uint32_t add() {
    uint32_t number = 0;
    if (!spare_.empty()) {
      number = spare_.back();
      spare_.pop_back();
    } else {
      if (next_ == end_) add_chunk();
      number = next_;
      next_ += kNodeLines;
    }
    new (at(number)) Node;
    return number;
  }
  void free(uint32_t number) { spare_.push_back(number); }

  size_t bytes() const { return heap_bytes() + outside_heap(); }
  size_t outside_heap() const { return large_.size() * LargeBlock::kBytes; }

 private:
  static_assert(std::is_trivially_destructible_v<Node> && sizeof(Node) % 64 == 0);
  static constexpr uint32_t kLineBits = 15;  // 2 MiB of lines of 64 bytes
  static constexpr uint32_t kLineMask = (1U << kLineBits) - 1;
  static constexpr uint32_t kNodeLines = sizeof(Node) / 64;
  static constexpr size_t kFirstNodes = 16;
  static constexpr size_t kSmallMost = size_t{8} << 20;  // 2048 small pages translate this much
  static constexpr size_t kChunkMost = LargeBlock::kBytes / 2;

  struct alignas(64) Line {
    std::byte bytes[64];
  };

  Node* at(uint32_t number) const {
    return reinterpret_cast<Node*>(chunks_[number >> kLineBits] + (number & kLineMask));
  }
  void add_chunk() {
    DXGKIT_CHECK(chunks_.size() < size_t{1} << (32 - kLineBits));
    size_t nodes = 0;
    if (small_bytes_ < kSmallMost) {
      // An eighth more, so that little is unused.
      nodes = std::max(std::min(small_bytes_ / 8, kChunkMost) / sizeof(Node), kFirstNodes);
      small_.push_back(std::make_unique_for_overwrite<Line[]>(nodes * kNodeLines));
      small_bytes_ += nodes * sizeof(Node);
      chunks_.push_back(small_.back().get());
    } else {
      nodes = LargeBlock::kBytes / sizeof(Node);
      large_.emplace_back();
      chunks_.push_back(reinterpret_cast<Line*>(large_.back().data()));
    }
    next_ = static_cast<uint32_t>(chunks_.size() - 1) << kLineBits;
    end_ = next_ + static_cast<uint32_t>(nodes) * kNodeLines;
  }
  size_t heap_bytes() const {
    return small_bytes_ + small_.capacity() * sizeof(small_[0]) +
           large_.capacity() * sizeof(large_[0]) + chunks_.capacity() * sizeof(chunks_[0]) +
           spare_.capacity() * sizeof(uint32_t);
  }

  std::vector<Line*> chunks_;
  std::vector<uint32_t> spare_;
  uint32_t next_ = 0, end_ = 0;  // the nodes of the last chunk that were never used
  std::vector<std::unique_ptr<Line[]>> small_;
  std::vector<LargeBlock> large_;
  size_t small_bytes_ = 0;
};

}  // namespace dxgkit::gpuva
