// The free page frames of a memory. Bookkeeping only: it touches no page content.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace dxgkit::bus {

/// Free extents of [0, page_count), by address and by size.
///
/// Not thread-safe: the owner locks. Page numbers are indices from 0. Invariant: free extents are
/// disjoint and never adjacent; `validate()` checks it. Every choice depends only on the history of
/// calls.
class PageAllocator {
 public:
  explicit PageAllocator(uint64_t page_count);

  /// The smallest free extent that surely fits, lowest address first; nullopt if there is none
  /// (state unchanged).
  /// @param count  pages, > 0.
  /// @param alignment  pages, power of two; applies to `origin` + index.
  /// @param origin  frame number of index 0, so that alignment is that of the bus address.
  /// @param end  the extent ends before this page. Below page_count, the lowest address that fits
  ///        is taken.
  /// Cost: O(log n). Linear in free extents only if no extent has room for count + alignment, or if
  /// `end` matters.
  std::optional<uint64_t> allocate_contiguous(uint64_t count, uint64_t alignment = 1,
                                              uint64_t origin = 0, uint64_t end = UINT64_MAX);

  /// Appends `count` pages to `out`. They are runs taken alternately from both ends of the free
  /// space, with lengths 1, 1, 2, 3, 5, 8... So several pages are contiguous only if memory is
  /// nearly full, and n pages are still O(log n) runs. Returns false, and changes nothing, if there
  /// are not enough. Cost: O(count + log^2 n).
  bool allocate_scattered(uint64_t count, std::vector<uint64_t>& out);

  /// Frees [first, first + count). A page that is free already is our bug and aborts.
  void release(uint64_t first, uint64_t count);

  uint64_t free_count() const { return free_count_; }
  uint64_t page_count() const { return page_count_; }
  size_t extent_count() const { return by_address_.size(); }
  bool validate() const;

 private:
  using Extents = std::map<uint64_t, uint64_t>;  // first -> count
  void insert(uint64_t first, uint64_t count);
  void erase(Extents::iterator extent);
  /// Gives `extent` other bounds, between its neighbours. Its place in memory is used again.
  void resize(Extents::iterator extent, uint64_t first, uint64_t count);
  /// Cuts [first, first + count) out of `extent`.
  void carve(Extents::iterator extent, uint64_t first, uint64_t count);

  uint64_t page_count_;
  uint64_t free_count_;
  Extents by_address_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // (count, first)
};

}  // namespace dxgkit::bus
