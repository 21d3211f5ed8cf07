// The address space of one segment: who has which range, and where room is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "vidmm/types.h"

namespace dxgkit::vidmm {

/// Used and free ranges of [0, size) by address, in one treap whose nodes know the largest free
/// range below them. Finding the lowest or highest fit, placing and releasing cost O(log ranges);
/// neighbours cost O(1). Offsets and sizes are bytes, multiples of 4096. Invariant (`validate`):
/// ranges tile the space, free ones never touch.
class RangeIndex {
 public:
  using Index = uint32_t;
  static constexpr Index kNone = 0xFFFFFFFF;

  explicit RangeIndex(uint64_t size_bytes);

  /// The lowest (highest) aligned offset inside [low, high) with that much room; nullopt if there
  /// is none. `alignment` is a power of two, at least 4096.
  std::optional<uint64_t> find(uint64_t size_bytes, uint64_t alignment, SearchFrom from,
                               uint64_t low, uint64_t high) const;
  /// Gives a free range to an owner (not 0) and returns its index, which stays valid until
  /// `release`. CHECKs that it is free.
  Index place(uint64_t offset, uint64_t size_bytes, uint64_t owner);
  void release(Index range);

  /// The range that covers an offset inside the segment.
  Index at(uint64_t offset) const;
  Index first() const { return first_; }
  Index next(Index range) const { return nodes_[range].next; }
  Index previous(Index range) const { return nodes_[range].previous; }
  uint64_t offset(Index range) const { return nodes_[range].offset; }
  uint64_t size(Index range) const { return nodes_[range].size; }
  uint64_t end(Index range) const { return nodes_[range].offset + nodes_[range].size; }
  /// 0: free.
  uint64_t owner(Index range) const { return nodes_[range].owner; }
  uint64_t largest_free() const { return root_ == kNone ? 0 : nodes_[root_].max_free; }
  uint64_t free_bytes() const { return free_bytes_; }
  bool validate() const;

  // --- what if: ranges marked as if they were free, without freeing them. ---
  /// Forgets all marks. O(1).
  void clear_marks() { ++epoch_; }
  struct Run {
    Index first = kNone, last = kNone;
  };
  /// Marks a used range and returns the run of free and marked ranges around it. O(1).
  Run mark(Index range);
  bool marked(Index range) const { return nodes_[range].epoch == epoch_ && owner(range) != 0; }

 private:
  struct Node {
    uint64_t offset = 0, size = 0, owner = 0, max_free = 0;
    Index left = kNone, right = kNone, previous = kNone, next = kNone;
    uint32_t heap = 0;
    // Valid at the two ends of a run when `epoch` is current: the other end.
    Index run_other = kNone;
    uint64_t epoch = 0;
  };
  uint64_t own_free(const Node& node) const { return node.owner == 0 ? node.size : 0; }
  uint64_t max_of(Index range) const { return range == kNone ? 0 : nodes_[range].max_free; }
  void pull(Index range);
  void split(Index root, uint64_t key, Index* left, Index* right);
  Index merge(Index left, Index right);
  Index insert_below(Index root, Index added);
  Index erase_below(Index root, uint64_t key);
  void refresh(Index root, uint64_t key);
  Index add_after(Index neighbour, uint64_t offset, uint64_t size, uint64_t owner);
  void remove(Index range);
  bool in_run(Index range) const;
  std::optional<uint64_t> find_below(Index root, uint64_t size, uint64_t alignment, SearchFrom from,
                                     uint64_t low, uint64_t high) const;

  std::vector<Node> nodes_;
  std::vector<Index> spare_;
  Index root_ = kNone;
  Index first_ = kNone;
  uint64_t size_ = 0;
  uint64_t free_bytes_ = 0;
  uint64_t epoch_ = 1;
  uint64_t counter_ = 0;
};

}  // namespace dxgkit::vidmm
