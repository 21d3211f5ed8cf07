// Which page frames are free. Bookkeeping only: touches no page content.
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

  /// The smallest free extent that surely fits, lowest address first; nullopt if none (state
  /// unchanged).
  /// @param count      pages, > 0.
  /// @param alignment  pages, power of two; applies to `origin` + index.
  /// @param origin     frame number of index 0, so that alignment is that of the bus address.
  /// @param end        page the extent ends before; below page_count the lowest address that fits
  ///                   is taken.
  /// Cost: O(log n); linear in free extents only when nothing has room for count + alignment, or
  /// `end` matters.
  std::optional<uint64_t> allocate_contiguous(uint64_t count, uint64_t alignment = 1,
                                              uint64_t origin = 0, uint64_t end = UINT64_MAX);

  /// Appends `count` pages to `out`, in runs taken alternately from both ends of the free space
  /// with lengths 1, 1, 2, 3, 5, 8...: two or more pages are contiguous only when memory is nearly
  /// full, and yet n pages are O(log n) runs. False if there are not enough (nothing changes).
  /// Cost: O(count + log^2 n).
  bool allocate_scattered(uint64_t count, std::vector<uint64_t>& out);

  /// Gives [first, first + count) back. Aborts when a page of it is free already: our bug.
  void release(uint64_t first, uint64_t count);

  uint64_t free_count() const { return free_count_; }
  uint64_t page_count() const { return page_count_; }
  size_t extent_count() const { return by_address_.size(); }
  bool validate() const;

 private:
  using Extents = std::map<uint64_t, uint64_t>;  // first -> count
  void insert(uint64_t first, uint64_t count);
  void erase(Extents::iterator extent);
  /// Cuts [first, first + count) out of `extent`.
  void carve(Extents::iterator extent, uint64_t first, uint64_t count);

  uint64_t page_count_;
  uint64_t free_count_;
  Extents by_address_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // (count, first)
};

}  // namespace dxgkit::bus
