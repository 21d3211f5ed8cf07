#include "bus/page_allocator.h"

#include <algorithm>
#include <iterator>

#include "base/arithmetic.h"
#include "base/check.h"

namespace dxgkit::bus {

PageAllocator::PageAllocator(uint64_t page_count)
    : page_count_(page_count), free_count_(page_count) {
  if (page_count > 0) insert(0, page_count);
}

void PageAllocator::insert(uint64_t first, uint64_t count) {
  by_address_.emplace(first, count);
  by_size_.emplace(count, first);
}

void PageAllocator::erase(Extents::iterator extent) {
  by_size_.erase({extent->second, extent->first});
  by_address_.erase(extent);
}

void PageAllocator::resize(Extents::iterator extent, uint64_t first, uint64_t count) {
  auto by_size = by_size_.extract({extent->second, extent->first});
  by_size.value() = {count, first};
  by_size_.insert(std::move(by_size));
  extent->second = count;
  if (extent->first == first) return;
  const auto next = std::next(extent);
  auto by_address = by_address_.extract(extent);
  by_address.key() = first;
  by_address_.insert(next, std::move(by_address));
}

void PageAllocator::carve(Extents::iterator extent, uint64_t first, uint64_t count) {
  const uint64_t begin = extent->first;
  const uint64_t end = begin + extent->second;
  const uint64_t behind = first + count;
  free_count_ -= count;
  if (first > begin) {
    resize(extent, begin, first - begin);
    if (behind < end) insert(behind, end - behind);
  } else if (behind < end) {
    resize(extent, behind, end - behind);
  } else {
    erase(extent);
  }
}

std::optional<uint64_t> PageAllocator::allocate_contiguous(uint64_t count, uint64_t alignment,
                                                           uint64_t origin, uint64_t end) {
  DXGKIT_CHECK(count > 0);
  DXGKIT_CHECK(is_power_of_two(alignment));
  if (count > free_count_) return std::nullopt;
  const auto aligned_start = [&](uint64_t first) {
    return align_up(origin + first, alignment) - origin;
  };
  if (end < page_count_) {
    for (auto it = by_address_.begin(); it != by_address_.end() && it->first < end; ++it) {
      const uint64_t first = aligned_start(it->first);
      const uint64_t skipped = first - it->first;
      if (skipped > it->second || it->second - skipped < count) continue;
      if (!range_within(first, count, end)) return std::nullopt;
      carve(it, first, count);
      return first;
    }
    return std::nullopt;
  }
  // An extent of count + alignment - 1 pages fits wherever it starts.
  uint64_t sure = 0;
  if (checked_add(count, alignment - 1, &sure)) {
    const auto found = by_size_.lower_bound({sure, 0});
    if (found != by_size_.end()) {
      const uint64_t first = aligned_start(found->second);
      carve(by_address_.find(found->second), first, count);
      return first;
    }
  }
  if (alignment == 1) return std::nullopt;
  for (auto it = by_size_.lower_bound({count, 0}); it != by_size_.end(); ++it) {
    const uint64_t first = aligned_start(it->second);
    const uint64_t skipped = first - it->second;
    if (skipped > it->first) continue;
    if (it->first - skipped < count) continue;
    carve(by_address_.find(it->second), first, count);
    return first;
  }
  return std::nullopt;
}

bool PageAllocator::allocate_scattered(uint64_t count, std::vector<uint64_t>& out) {
  if (count > free_count_) return false;
  out.reserve(out.size() + count);
  uint64_t length = 1;
  uint64_t next_length = 1;
  bool from_bottom = true;
  uint64_t left = count;
  while (left > 0) {
    uint64_t run = std::min(length, left);
    const auto extent = from_bottom ? by_address_.begin() : std::prev(by_address_.end());
    run = std::min(run, extent->second);
    const uint64_t first = from_bottom ? extent->first : extent->first + extent->second - run;
    carve(extent, first, run);
    for (uint64_t i = 0; i < run; ++i) out.push_back(first + i);
    left -= run;
    from_bottom = !from_bottom;
    length = std::exchange(next_length, length + next_length);
  }
  return true;
}

void PageAllocator::release(uint64_t first, uint64_t count) {
  DXGKIT_CHECK(count > 0);
  DXGKIT_CHECK(range_within(first, count, page_count_));
  free_count_ += count;
  const auto after = by_address_.lower_bound(first);
  if (after != by_address_.end()) DXGKIT_CHECK(first + count <= after->first);
  const bool joins_after = after != by_address_.end() && first + count == after->first;
  if (after != by_address_.begin()) {
    const auto before = std::prev(after);
    DXGKIT_CHECK(before->first + before->second <= first);
    if (before->first + before->second == first) {
      const uint64_t more = count + (joins_after ? after->second : 0);
      if (joins_after) erase(after);
      resize(before, before->first, before->second + more);
      return;
    }
  }
  if (joins_after) {
    resize(after, first, count + after->second);
  } else {
    insert(first, count);
  }
}

bool PageAllocator::validate() const {
  if (by_address_.size() != by_size_.size()) return false;
  uint64_t total = 0;
  uint64_t previous_end = 0;
  bool any = false;
  for (const auto& [first, count] : by_address_) {
    if (count == 0) return false;
    if (any && first <= previous_end) return false;  // equal would be adjacent: not merged
    if (!range_within(first, count, page_count_)) return false;
    if (!by_size_.contains({count, first})) return false;
    previous_end = first + count;
    any = true;
    total += count;
  }
  return total == free_count_;
}

}  // namespace dxgkit::bus
