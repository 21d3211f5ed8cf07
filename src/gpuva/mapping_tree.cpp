#include "gpuva/mapping_tree.h"

#include <utility>

namespace dxgkit::gpuva {
namespace {

/// Moves the entries from `from` on to `to` and beyond; `count` is the number before.
template <typename T, size_t kSize>
void shift(std::array<T, kSize>& values, uint32_t from, uint32_t to, uint32_t count) {
  std::memmove(values.data() + to, values.data() + from, (count - from) * sizeof(T));
}

}  // namespace

/// One leaf has too many entries: a neighbour takes some, or another leaf is made.
void MappingTree::overflow(Part& part, const Path& path, uint32_t first, uint32_t last,
                           const Entry* entries, uint32_t count) {
  struct {
    std::array<uint32_t, 2 * kLanes + 2> key;
    std::array<Value, 2 * kLanes + 2> value;
    uint32_t count = 0;
    void add(uint32_t k, const Value& v) {
      key[count] = k;
      value[count++] = v;
    }
    void add(const Leaf& leaf, uint32_t from, uint32_t to) {
      for (uint32_t i = from; i < to; ++i) add(leaf.key[i], leaf.value[i]);
    }
    void give(Leaf& leaf, uint32_t from, uint32_t to) const {
      leaf.key.fill(kFiller);
      leaf.count = to - from;
      std::copy(key.begin() + from, key.begin() + to, leaf.key.begin());
      std::copy(value.begin() + from, value.begin() + to, leaf.value.begin());
    }
  } all;
  Leaf& leaf = leaves_[path[0].node];
  const uint32_t total = leaf.count - (last - first) + count;
  const auto add_all = [&] {
    all.add(leaf, 0, first);
    for (uint32_t i = 0; i < count; ++i) all.add(low(entries[i].begin), entries[i].value);
    all.add(leaf, last, leaf.count);
  };
  const bool appends = last == leaf.count && is_last(part, path, 1);
  if (part.height > 0 && !appends) {
    Inner& parent = inners_[path[1].node];
    const uint32_t slot = path[1].slot;
    if (slot + 1 < parent.count) {
      Leaf& right = leaves_[parent.child[slot + 1]];
      if (total + right.count <= kEvened) {
        add_all();
        all.add(right, 0, right.count);
        all.give(leaf, 0, all.count / 2);
        all.give(right, all.count / 2, all.count);
        parent.key[slot + 1] = right.key[0];
        return;
      }
    }
    if (slot > 0) {
      Leaf& left = leaves_[parent.child[slot - 1]];
      if (total + left.count <= kEvened) {
        all.add(left, 0, left.count);
        add_all();
        all.give(left, 0, all.count / 2);
        all.give(leaf, all.count / 2, all.count);
        parent.key[slot] = leaf.key[0];
        return;
      }
    }
  }
  add_all();
  // A tree that grows at its end keeps full leaves.
  const uint32_t keep = appends ? kMost : total / 2;
  const uint32_t added = leaves_.add();
  all.give(leaf, 0, keep);
  all.give(leaves_[added], keep, total);
  insert_child(part, path, 1, all.key[keep], added);
}

/// After a leaf lost entries: joins it with a neighbour if it is small.
void MappingTree::settle(uint64_t number, const Path& path) {
  Part& part = parts_[number];
  Leaf& leaf = leaves_[path[0].node];
  if (leaf.count == 0) {
    leaves_.free(path[0].node);
    if (part.height == 0) return drop_part(number);
    return remove_child(number, path, 1, path[1].slot);
  }
  if (part.height == 0) return;
  const Inner& parent = inners_[path[1].node];
  uint32_t slot = path[1].slot;
  const auto joins = [&](uint32_t left) {
    return leaves_[parent.child[left]].count + leaves_[parent.child[left + 1]].count <= kJoined;
  };
  if (slot > 0 && joins(slot - 1)) {
    --slot;
  } else if (slot + 1 == parent.count || !joins(slot)) {
    return;
  }
  Leaf& left = leaves_[parent.child[slot]];
  const uint32_t gone = parent.child[slot + 1];
  const Leaf& right = leaves_[gone];
  std::copy_n(right.key.begin(), right.count, left.key.begin() + left.count);
  std::copy_n(right.value.begin(), right.count, left.value.begin() + left.count);
  left.count += right.count;
  leaves_.free(gone);
  remove_child(number, path, 1, slot + 1);
}

void MappingTree::drop_part(uint64_t number) {
  parts_[number].root = kNone;
  used_parts_.erase(std::lower_bound(used_parts_.begin(), used_parts_.end(), number));
}

/// The leaf now covers keys up to `key`, where the next range begins at the earliest.
void MappingTree::raise_separator(const Path& path, uint32_t key) {
  for (uint32_t level = 1; level < kHeightMost; ++level) {
    Inner& inner = inners_[path[level].node];
    const uint32_t next = path[level].slot + 1;
    if (next == inner.count) continue;
    inner.key[next] = key;
    return;
  }
}

void MappingTree::remove_child(uint64_t number, const Path& path, uint32_t level, uint32_t slot) {
  Part& part = parts_[number];
  Inner& inner = inners_[path[level].node];
  // The neighbour takes over the range of the child.
  const uint32_t separator = std::max(slot, 1U);
  shift(inner.child, slot + 1, slot, inner.count);
  if (separator < inner.count) shift(inner.key, separator + 1, separator, inner.count);
  --inner.count;
  inner.key[inner.count] = kFiller;
  if (level == part.height) {
    if (inner.count > 1) return;
    part.root = inner.child[0];
    inners_.free(path[level].node);
    --part.height;
    return;
  }
  if (inner.count == 0) {
    inners_.free(path[level].node);
    return remove_child(number, path, level + 1, path[level + 1].slot);
  }
  if (inner.count >= kFew) return;
  const Inner& parent = inners_[path[level + 1].node];
  uint32_t left_slot = path[level + 1].slot;
  const auto joins = [&](uint32_t left) {
    return inners_[parent.child[left]].count + inners_[parent.child[left + 1]].count <= kJoined;
  };
  if (left_slot > 0 && joins(left_slot - 1)) {
    --left_slot;
  } else if (left_slot + 1 == parent.count || !joins(left_slot)) {
    return;
  }
  Inner& left = inners_[parent.child[left_slot]];
  const uint32_t gone = parent.child[left_slot + 1];
  const Inner& right = inners_[gone];
  std::copy_n(right.key.begin(), right.count, left.key.begin() + left.count);
  std::copy_n(right.child.begin(), right.count, left.child.begin() + left.count);
  left.key[left.count] = parent.key[left_slot + 1];
  left.count += right.count;
  inners_.free(gone);
  remove_child(number, path, level + 1, left_slot + 1);
}

/// Adds a child behind the child on `path` at `level`.
void MappingTree::insert_child(Part& part, const Path& path, uint32_t level, uint32_t key,
                               uint32_t child) {
  if (level > part.height) {
    DXGKIT_CHECK(level < kHeightMost);
    const uint32_t top = inners_.add();
    Inner& root = inners_[top];
    root.key[0] = 0;
    root.child[0] = part.root;
    root.key[1] = key;
    root.child[1] = child;
    root.count = 2;
    part = {.root = top, .height = level};
    return;
  }
  Inner& inner = inners_[path[level].node];
  uint32_t slot = path[level].slot + 1;
  const auto add = [&](Inner& to, uint32_t at) {
    shift(to.key, at, at + 1, to.count);
    shift(to.child, at, at + 1, to.count);
    to.key[at] = key;
    to.child[at] = child;
    ++to.count;
  };
  if (inner.count < kMost) return add(inner, slot);
  const uint32_t keep = slot == kMost && is_last(part, path, level + 1) ? kMost : kLanes / 2;
  const uint32_t added = inners_.add();
  Inner& right = inners_[added];
  right.count = kMost - keep;
  std::copy_n(inner.key.begin() + keep, right.count, right.key.begin());
  std::copy_n(inner.child.begin() + keep, right.count, right.child.begin());
  std::fill(inner.key.begin() + keep, inner.key.begin() + inner.count, kFiller);
  inner.count = keep;
  if (slot <= keep && keep != kMost) {
    add(inner, slot);
  } else {
    add(right, slot - keep);
  }
  const uint32_t between = std::exchange(right.key[0], 0);
  insert_child(part, path, level + 1, between, added);
}

bool MappingTree::is_last(const Part& part, const Path& path, uint32_t level) const {
  for (; level <= part.height; ++level) {
    if (path[level].slot + 1 != inners_[path[level].node].count) return false;
  }
  return true;
}

bool MappingTree::validate_below(uint32_t node, uint32_t level, uint64_t lower, uint64_t upper,
                                 size_t* entries, uint64_t* last_end) const {
  if (level == 0) {
    const Leaf& leaf = leaves_[node];
    if (leaf.count == 0 || leaf.count > kMost) return false;
    for (uint32_t i = leaf.count; i < kLanes; ++i) {
      if (leaf.key[i] != kFiller) return false;
    }
    for (uint32_t i = 0; i < leaf.count; ++i) {
      const uint64_t begin = leaf.key[i];
      const uint64_t end = begin + leaf.value[i].pages;
      if (end == begin || begin < *last_end || begin < lower || end > upper) return false;
      *last_end = end;
    }
    *entries += leaf.count;
    return true;
  }
  const Inner& inner = inners_[node];
  if (inner.count == 0 || inner.count > kMost || inner.key[0] != 0) return false;
  for (uint32_t i = inner.count; i < kLanes; ++i) {
    if (inner.key[i] != kFiller) return false;
  }
  for (uint32_t i = 0; i < inner.count; ++i) {
    const uint64_t child_lower = i == 0 ? lower : inner.key[i];
    const uint64_t child_upper = i + 1 < inner.count ? inner.key[i + 1] : upper;
    if (child_lower < lower || child_upper > upper || child_lower >= child_upper) return false;
    if (!validate_below(inner.child[i], level - 1, child_lower, child_upper, entries, last_end))
      return false;
  }
  return true;
}

bool MappingTree::validate() const {
  size_t entries = 0;
  size_t used = 0;
  for (uint64_t number = 0; number < parts_.size(); ++number) {
    const Part& part = parts_[number];
    if (part.root == kNone) continue;
    if (used >= used_parts_.size() || used_parts_[used++] != number) return false;
    uint64_t last_end = 0;
    if (!validate_below(part.root, part.height, 0, uint64_t{1} << kPartBits, &entries, &last_end))
      return false;
  }
  return used == used_parts_.size() && entries == size_;
}

}  // namespace dxgkit::gpuva
