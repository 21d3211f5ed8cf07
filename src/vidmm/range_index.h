// The address space of one segment: used ranges with their owners, and free ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/arithmetic.h"
#include "base/tile_tree.h"
#include "vidmm/types.h"

namespace dxgkit::vidmm {

/// Used and free ranges of [0, size) by address. Offsets and sizes are bytes, multiples of 4096. A
/// range has no number of its own: its `Index` is its first page. Every operation costs O(log
/// ranges) unless its comment says otherwise. Invariant (`validate`): ranges tile the space, and
/// free ranges never touch.
class RangeIndex {
 public:
  using Index = uint64_t;
  static constexpr Index kNone = ~uint64_t{0};

  /// @param size  a multiple of 4096, not 0; CHECKed.
  explicit RangeIndex(uint64_t size_bytes);

  /// The lowest (highest) aligned offset inside [low, high) with that much room; nullopt if there
  /// is none. `alignment` is a power of two, at least 4096. Exact: it checks free ranges that are
  /// large enough but not aligned one by one.
  std::optional<uint64_t> find(uint64_t size_bytes, uint64_t alignment, SearchFrom from,
                               uint64_t low, uint64_t high) const;
  /// Gives a free range to an owner (not 0) and returns its index, which stays valid until
  /// `release`. CHECKs that the range is free. Clears all marks.
  Index place(uint64_t offset, uint64_t size_bytes, uint32_t owner);
  /// Frees a used range. Clears all marks.
  void release(Index range);

  /// The range that covers an offset inside the segment.
  Index at(uint64_t offset) const { return about(offset / kPageBytes).begin; }
  Index first() const { return 0; }
  Index next(Index range) const;
  Index previous(Index range) const;
  /// O(1).
  uint64_t offset(Index range) const { return range * kPageBytes; }
  uint64_t size(Index range) const { return end(range) - offset(range); }
  uint64_t end(Index range) const { return about(range).end * kPageBytes; }
  /// The owner; 0: free.
  uint32_t owner(Index range) const { return about(range).owner; }
  uint64_t largest_free() const;
  uint64_t free_bytes() const;
  /// The bytes that this object holds on the heap.
  size_t bytes() const;
  bool validate() const;

  // --- what if: ranges marked as if they were free, without freeing them. ---
  /// Clears all marks. O(1).
  void clear_marks();
  struct Run {
    Index first = kNone, last = kNone;
  };
  /// Marks a used range and returns the run of free and marked ranges around it.
  Run mark(Index range);
  /// O(1).
  bool marked(Index range) const { return find_mark(range) != nullptr; }

 private:
  // 32-bit keys reach 16 TiB; few segments are larger.
  using Narrow = TileTree<uint32_t, uint32_t>;
  using Wide = TileTree<uint64_t, uint32_t>;
  struct About {
    uint64_t begin, end;
    uint32_t owner;
  };
  /// A marked range, or the free end of a run. At both ends of a run it holds the other end.
  struct Mark {
    uint64_t epoch = 0;  // differs from epoch_ in an unused place of the table
    Index range = 0, other = 0;
    bool used = false;
  };
  static std::variant<Narrow, Wide> make_tree(uint64_t pages);
  About about(uint64_t page) const;
  const Mark* lookup(Index range) const;
  const Mark* find_mark(Index range) const;
  Mark& add_mark(Index range);
  Mark& slot_of(Index range);

  std::variant<Narrow, Wide> tree_;
  std::vector<Mark> marks_;  // open addressing, a power of two of places or none
  size_t marks_live_ = 0;
  uint64_t epoch_ = 1;
  uint64_t size_ = 0;
};

}  // namespace dxgkit::vidmm
