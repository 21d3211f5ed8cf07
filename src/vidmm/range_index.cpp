#include "vidmm/range_index.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "base/check.h"

namespace dxgkit::vidmm {
namespace {

/// Treap priorities: well spread and the same in every run (splitmix64).
uint32_t spread(uint64_t counter) {
  uint64_t x = counter * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<uint32_t>(x >> 32);
}

}  // namespace

RangeIndex::RangeIndex(uint64_t size_bytes) : size_(size_bytes), free_bytes_(size_bytes) {
  DXGKIT_CHECK(size_bytes > 0 && size_bytes % kPageBytes == 0);
  first_ = add_after(kNone, 0, size_bytes, 0);
}

void RangeIndex::pull(Index range) {
  Node& node = nodes_[range];
  node.max_free = std::max({own_free(node), max_of(node.left), max_of(node.right)});
}

/// Parts a tree into what lies below `key` and the rest.
void RangeIndex::split(Index root, uint64_t key, Index* left, Index* right) {
  if (root == kNone) {
    *left = *right = kNone;
    return;
  }
  if (nodes_[root].offset < key) {
    *left = root;
    Index inner = kNone;
    split(nodes_[root].right, key, &inner, right);
    nodes_[root].right = inner;
  } else {
    *right = root;
    Index inner = kNone;
    split(nodes_[root].left, key, left, &inner);
    nodes_[root].left = inner;
  }
  pull(root);
}

RangeIndex::Index RangeIndex::merge(Index left, Index right) {
  if (left == kNone) return right;
  if (right == kNone) return left;
  if (nodes_[left].heap > nodes_[right].heap) {
    nodes_[left].right = merge(nodes_[left].right, right);
    pull(left);
    return left;
  }
  nodes_[right].left = merge(left, nodes_[right].left);
  pull(right);
  return right;
}

RangeIndex::Index RangeIndex::insert_below(Index root, Index added) {
  if (root == kNone) return added;
  if (nodes_[added].heap > nodes_[root].heap) {
    Index left = kNone;
    Index right = kNone;
    split(root, nodes_[added].offset, &left, &right);
    nodes_[added].left = left;
    nodes_[added].right = right;
    pull(added);
    return added;
  }
  if (nodes_[added].offset < nodes_[root].offset) {
    nodes_[root].left = insert_below(nodes_[root].left, added);
  } else {
    nodes_[root].right = insert_below(nodes_[root].right, added);
  }
  pull(root);
  return root;
}

RangeIndex::Index RangeIndex::erase_below(Index root, uint64_t key) {
  DXGKIT_CHECK(root != kNone);
  if (nodes_[root].offset == key) return merge(nodes_[root].left, nodes_[root].right);
  if (key < nodes_[root].offset) {
    nodes_[root].left = erase_below(nodes_[root].left, key);
  } else {
    nodes_[root].right = erase_below(nodes_[root].right, key);
  }
  pull(root);
  return root;
}

/// Brings the sums on the way to `key` up to date.
void RangeIndex::refresh(Index root, uint64_t key) {
  if (key < nodes_[root].offset) {
    refresh(nodes_[root].left, key);
  } else if (key > nodes_[root].offset) {
    refresh(nodes_[root].right, key);
  }
  pull(root);
}

RangeIndex::Index RangeIndex::add_after(Index neighbour, uint64_t offset, uint64_t size,
                                        uint64_t owner) {
  Index added = kNone;
  if (spare_.empty()) {
    added = static_cast<Index>(nodes_.size());
    nodes_.emplace_back();
  } else {
    added = spare_.back();
    spare_.pop_back();
  }
  Node& node = nodes_[added];
  node = {};
  node.offset = offset;
  node.size = size;
  node.owner = owner;
  node.heap = spread(++counter_);
  node.previous = neighbour;
  node.next = neighbour == kNone ? first_ : nodes_[neighbour].next;
  if (neighbour == kNone) {
    first_ = added;
  } else {
    nodes_[neighbour].next = added;
  }
  if (node.next != kNone) nodes_[node.next].previous = added;
  pull(added);
  root_ = insert_below(root_, added);
  return added;
}

void RangeIndex::remove(Index range) {
  const Node& node = nodes_[range];
  root_ = erase_below(root_, node.offset);
  if (node.previous == kNone) {
    first_ = node.next;
  } else {
    nodes_[node.previous].next = node.next;
  }
  if (node.next != kNone) nodes_[node.next].previous = node.previous;
  spare_.push_back(range);
}

RangeIndex::Index RangeIndex::at(uint64_t offset) const {
  DXGKIT_CHECK(offset < size_);
  Index range = root_;
  while (true) {
    const Node& node = nodes_[range];
    if (offset < node.offset) {
      range = node.left;
    } else if (offset - node.offset < node.size) {
      return range;
    } else {
      range = node.right;
    }
  }
}

std::optional<uint64_t> RangeIndex::find_below(Index root, uint64_t size, uint64_t alignment,
                                               SearchFrom from, uint64_t low, uint64_t high) const {
  if (root == kNone || nodes_[root].max_free < size) return std::nullopt;
  const Node& node = nodes_[root];
  const bool left_in_window = node.offset > low;
  const bool right_in_window = node.offset + node.size < high;
  const auto self = [&]() -> std::optional<uint64_t> {
    if (node.owner != 0) return std::nullopt;
    const uint64_t begin = std::max(node.offset, low);
    const uint64_t end = std::min(node.offset + node.size, high);
    if (begin >= end || end - begin < size) return std::nullopt;
    if (from == SearchFrom::kTop) {
      const uint64_t start = align_down(end - size, alignment);
      return start >= begin ? std::optional(start) : std::nullopt;
    }
    uint64_t start = 0;
    if (!checked_align_up(begin, alignment, &start)) return std::nullopt;
    return range_within(start, size, end) ? std::optional(start) : std::nullopt;
  };
  const bool bottom_up = from == SearchFrom::kBottom;
  if (bottom_up ? left_in_window : right_in_window) {
    const Index side = bottom_up ? node.left : node.right;
    if (const auto found = find_below(side, size, alignment, from, low, high)) return found;
  }
  if (const auto found = self()) return found;
  if (bottom_up ? right_in_window : left_in_window) {
    const Index side = bottom_up ? node.right : node.left;
    return find_below(side, size, alignment, from, low, high);
  }
  return std::nullopt;
}

std::optional<uint64_t> RangeIndex::find(uint64_t size_bytes, uint64_t alignment, SearchFrom from,
                                         uint64_t low, uint64_t high) const {
  return find_below(root_, size_bytes, alignment, from, low, high);
}

RangeIndex::Index RangeIndex::place(uint64_t offset, uint64_t size_bytes, uint64_t owner) {
  DXGKIT_CHECK(owner != 0 && size_bytes > 0);
  const Index range = at(offset);
  DXGKIT_CHECK(nodes_[range].owner == 0);
  const uint64_t old_offset = nodes_[range].offset;
  const uint64_t old_end = end(range);
  DXGKIT_CHECK(range_within(offset, size_bytes, old_end));
  nodes_[range].offset = offset;
  nodes_[range].size = size_bytes;
  nodes_[range].owner = owner;
  nodes_[range].epoch = 0;
  refresh(root_, offset);  // the order of keys is unchanged, only the sums are not
  free_bytes_ -= size_bytes;
  if (old_offset < offset) add_after(nodes_[range].previous, old_offset, offset - old_offset, 0);
  if (offset + size_bytes < old_end) {
    add_after(range, offset + size_bytes, old_end - offset - size_bytes, 0);
  }
  return range;
}

void RangeIndex::release(Index range) {
  DXGKIT_CHECK(nodes_[range].owner != 0);
  free_bytes_ += nodes_[range].size;
  nodes_[range].owner = 0;
  nodes_[range].epoch = 0;
  const Index next = nodes_[range].next;
  if (next != kNone && nodes_[next].owner == 0) {
    const uint64_t size = nodes_[next].size;
    remove(next);
    nodes_[range].size += size;
  }
  const Index previous = nodes_[range].previous;
  if (previous != kNone && nodes_[previous].owner == 0) {
    const uint64_t size = nodes_[range].size;
    remove(range);
    nodes_[previous].size += size;
    nodes_[previous].epoch = 0;
    range = previous;
  }
  refresh(root_, nodes_[range].offset);
}

bool RangeIndex::in_run(Index range) const {
  return range != kNone && (nodes_[range].owner == 0 || nodes_[range].epoch == epoch_);
}

RangeIndex::Run RangeIndex::mark(Index range) {
  DXGKIT_CHECK(nodes_[range].owner != 0);
  const auto other_end = [&](Index edge) {
    return nodes_[edge].epoch == epoch_ ? nodes_[edge].run_other : edge;
  };
  Run run{range, range};
  const Index previous = nodes_[range].previous;
  if (in_run(previous)) run.first = other_end(previous);
  const Index next = nodes_[range].next;
  if (in_run(next)) run.last = other_end(next);
  nodes_[range].epoch = epoch_;
  nodes_[run.first].epoch = epoch_;
  nodes_[run.first].run_other = run.last;
  nodes_[run.last].epoch = epoch_;
  nodes_[run.last].run_other = run.first;
  return run;
}

bool RangeIndex::validate() const {
  uint64_t offset = 0;
  uint64_t free_bytes = 0;
  uint64_t largest = 0;
  Index previous = kNone;
  for (Index range = first_; range != kNone; range = nodes_[range].next) {
    const Node& node = nodes_[range];
    if (node.offset != offset || node.size == 0 || node.previous != previous) return false;
    const bool is_free = node.owner == 0;
    if (is_free && previous != kNone && nodes_[previous].owner == 0) return false;
    if (is_free) free_bytes += node.size;
    if (is_free) largest = std::max(largest, node.size);
    if (at(offset) != range) return false;
    const uint64_t below = std::max({own_free(node), max_of(node.left), max_of(node.right)});
    if (node.max_free != below) return false;
    offset += node.size;
    previous = range;
  }
  return offset == size_ && free_bytes == free_bytes_ && largest == largest_free();
}

}  // namespace dxgkit::vidmm
