// An address space tiled by ranges. Each range is free or has an owner.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/lanes.h"

namespace dxgkit {

enum class Fit { kLowest, kHighest };

/// The units [0, end) as ranges without gaps, ordered by address in a B+tree with nodes of up to 31
/// entries. An entry holds the start of a range and its owner (0: free). The range ends where the
/// next one begins. Free ranges never touch. Inner nodes know the largest free range below each
/// child, so the lowest or highest fit is one walk down, and each step is 32 comparisons at once.
///
/// The tree remembers the path to the last leaf. So a range that is found and then placed or
/// released costs one walk. Queries change the remembered path, so not even two queries may run at
/// once. The tree neither locks nor fails; arguments are CHECKed.
///
/// Cost of every operation: O(log ranges). Only finding may look at every free range that is large
/// enough but too short once aligned. Memory: three numbers per entry, and nodes that are at least
/// half full on average: 12 to 24 bytes a range with 32-bit keys.
template <std::unsigned_integral Key, std::unsigned_integral Value>
class TileTree {
 public:
  struct Range {
    Key begin = 0, end = 0;
    Value value = 0;
    Key size() const { return static_cast<Key>(end - begin); }
  };

  /// @param end  from 1 to the largest key less 1.
  explicit TileTree(Key end) : end_(end), free_(end) {
    DXGKIT_CHECK(end > 0 && end < kFiller);
    root_ = add_node();
    Node& leaf = node(root_);
    leaf.count = 1;
    leaf.key[0] = 0;
    leaf.most[0] = end;
    leaf.child[0] = 0;
  }

  Key end() const { return end_; }
  Key free() const { return free_; }
  Key largest_free() const { return lanes_most(node(root_).most.data()); }

  /// The range that covers a unit below `end()`.
  Range at(Key unit) const {
    Path path;
    const Key range_end = locate(unit, path);
    return entry(path, range_end);
  }
  /// The range that covers a unit, and its neighbours; (0, 0) beyond the edges.
  struct Around {
    Range before, self, after;
  };
  Around around(Key unit) const {
    Path path;
    Around found;
    const Key range_end = locate(unit, path);
    found.self = entry(path, range_end);
    const Node& leaf = node(path[0].node);
    const uint32_t slot = path[0].slot;
    if (slot > 0) {
      found.before = {leaf.key[slot - 1], leaf.key[slot], leaf.child[slot - 1]};
    } else if (found.self.begin > 0) {
      found.before = at(static_cast<Key>(found.self.begin - 1));
    }
    if (found.self.end < end_) found.after = at(found.self.end);
    return found;
  }

  /// The first unit of the lowest (highest) free stretch of `size` units inside [low, high) that
  /// begins at a multiple of `alignment`, a power of two.
  std::optional<Key> find(Key size, uint64_t alignment, Fit fit, Key low, Key high) const {
    high = std::min(high, end_);
    if (size == 0 || low >= high || high - low < size) return std::nullopt;
    const Wanted wanted{size, alignment, fit, low, high};
    Key found = 0;
    forget_leaf();
    if (!search(root_, height_, end_, wanted, &found)) return std::nullopt;
    return found;
  }

  /// Assigns part of a free range to an owner. `value` is not 0.
  void place(Key begin, Key size, Value value) {
    DXGKIT_CHECK(value != 0 && size > 0);
    Path path;
    const Key hole_end = locate(begin, path);
    Node& leaf = node(path[0].node);
    const uint32_t slot = path[0].slot;
    const Key hole = leaf.key[slot];
    DXGKIT_CHECK(leaf.child[slot] == 0 && size <= hole_end - begin);
    const Key range_end = static_cast<Key>(begin + size);
    const Key rest = static_cast<Key>(hole_end - range_end);
    const Key was = leaf.most[slot];
    free_ = static_cast<Key>(free_ - size);
    if (begin > hole) {
      leaf.most[slot] = static_cast<Key>(begin - hole);
      insert(path, begin, 0, value, was);
      if (rest == 0) return;
      locate(begin, path);
      insert(path, range_end, rest, 0, rest);
      return;
    }
    leaf.most[slot] = 0;
    leaf.child[slot] = value;
    if (rest == 0) return refresh(path, 0, was);
    insert(path, range_end, rest, 0, was);
  }

  /// Frees the range that begins at `begin`. The range must have an owner.
  void release(Key begin) {
    Path path;
    Key range_end = locate(begin, path);
    DXGKIT_CHECK(entry(path, range_end).begin == begin && entry(path, range_end).value != 0);
    free_ = static_cast<Key>(free_ + (range_end - begin));
    if (range_end < end_ && path[0].slot + 1 == node(path[0].node).count) {
      // The neighbour is the first entry of another leaf.
      Path beside;
      const Key beside_end = locate(range_end, beside);
      if (entry(beside, beside_end).value == 0) {
        range_end = beside_end;
        erase(beside);
        locate(begin, path);
      }
    }
    Node& leaf = node(path[0].node);
    const uint32_t slot = path[0].slot;
    if (slot + 1 < leaf.count && leaf.child[slot + 1] == 0) {
      range_end = static_cast<Key>(leaf.key[slot + 1] + leaf.most[slot + 1]);
      drop(leaf, slot + 1);
    }
    if (slot > 0 && leaf.child[slot - 1] == 0) {
      leaf.most[slot - 1] = static_cast<Key>(range_end - leaf.key[slot - 1]);
      const Key grown = leaf.most[slot - 1];
      drop(leaf, slot);
      return settle(path, 0, grown);
    }
    leaf.child[slot] = 0;
    leaf.most[slot] = static_cast<Key>(range_end - begin);
    if (slot == 0 && begin > 0) {
      Path beside;
      locate(static_cast<Key>(begin - 1), beside);
      if (entry(beside, begin).value == 0) {
        erase(path);
        locate(static_cast<Key>(begin - 1), beside);
        Node& other = node(beside[0].node);
        const Key grown = static_cast<Key>(range_end - other.key[beside[0].slot]);
        other.most[beside[0].slot] = grown;
        return raise(beside, grown);
      }
    }
    settle(path, 0, static_cast<Key>(range_end - begin));
  }

  /// Every range in order.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (Key unit = 0; unit < end_;) {
      const Range range = at(unit);
      visit(range);
      unit = range.end;
    }
  }
  /// The bytes that this object holds on the heap.
  size_t bytes() const {
    return chunks_.size() * sizeof(Chunk) + chunks_.capacity() * sizeof(chunks_[0]) +
           spare_.capacity() * sizeof(spare_[0]);
  }
  bool validate() const {
    Key unit = 0;
    Key free_units = 0;
    bool after_free = false;
    return validate_below(root_, height_, end_, &unit, &free_units, &after_free) && unit == end_ &&
           free_units == free_;
  }

 private:
  // A node has one more key than entries. Unused keys are larger than all others, so a search needs
  // no count, and there is always an unused key.
  static constexpr uint32_t kMost = kLanes - 1;
  static constexpr uint32_t kFew = 15;     // a node with fewer looks for a neighbour to join
  static constexpr uint32_t kJoined = 28;  // entries of a joined node at most: it has room to grow
  static constexpr Key kFiller = static_cast<Key>(~Key{0});
  static constexpr uint32_t kHeightMost = 16;

  struct alignas(64) Node {
    Node() { key.fill(kFiller); }
    std::array<Key, kLanes> key{};  // start of the range, or of the first range of the child
    // Leaf: size in units if free; otherwise the largest free range below.
    std::array<Key, kLanes> most{};
    std::array<Value, kMost> child{};  // leaf: the owner; otherwise the number of a node
    uint32_t count = 0;
  };
  static constexpr uint32_t kChunk = 16;
  using Chunk = std::array<Node, kChunk>;
  struct Step {
    uint32_t node = 0, slot = 0;
  };
  using Path = std::array<Step, kHeightMost>;  // from the leaf up
  struct Wanted {
    Key size;
    uint64_t alignment;
    Fit fit;
    Key low, high;
  };

  Node& node(uint32_t number) { return (*chunks_[number / kChunk])[number % kChunk]; }
  const Node& node(uint32_t number) const { return (*chunks_[number / kChunk])[number % kChunk]; }

  uint32_t add_node() {
    if (spare_.empty()) {
      const auto first = static_cast<uint32_t>(chunks_.size()) * kChunk;
      chunks_.push_back(std::make_unique<Chunk>());
      for (uint32_t i = kChunk; i-- > 0;) spare_.push_back(first + i);
    }
    const uint32_t number = spare_.back();
    spare_.pop_back();
    return number;
  }
  void free_node(uint32_t number) {
    node(number) = Node();
    spare_.push_back(number);
  }

  /// Prefetches a whole leaf before its first use. The nodes above are in the cache.
  static void expect(const Node& wanted) {
    const auto* bytes = reinterpret_cast<const char*>(&wanted);
    for (size_t line = 0; line < sizeof(Node); line += 64) __builtin_prefetch(bytes + line);
  }

  /// Walks to the range that covers a unit. Returns the end of that range.
  Key locate(Key unit, Path& path) const {
    DXGKIT_CHECK(unit < end_);
    const bool known = unit >= leaf_begin_ && unit < leaf_end_;
    uint32_t level = known ? 0 : height_;
    uint32_t number = known ? leaf_path_[0].node : root_;
    if (!known) leaf_end_ = end_;
    for (;; --level) {
      const Node& here = node(number);
      const auto after = static_cast<uint32_t>(
          std::countr_zero(lanes_at_least(here.key.data(), static_cast<Key>(unit + 1))));
      leaf_path_[level] = {number, after - 1};
      const Key next = here.key[after];
      if (level == 0) {
        if (!known) leaf_begin_ = here.key[0];
        for (uint32_t i = 0; i <= height_; ++i) path[i] = leaf_path_[i];
        return next != kFiller ? next : leaf_end_;
      }
      if (next != kFiller) leaf_end_ = next;
      number = static_cast<uint32_t>(here.child[after - 1]);
      if (level <= 2) expect(node(number));
    }
  }
  /// Inner nodes change, or the start of a range in the leaf changes.
  void forget_leaf() const { leaf_begin_ = leaf_end_ = 0; }
  Range entry(const Path& path, Key range_end) const {
    const Node& leaf = node(path[0].node);
    return {leaf.key[path[0].slot], range_end, leaf.child[path[0].slot]};
  }

  static bool fits_in(Key begin, Key range_end, const Wanted& wanted, Key* found) {
    const uint64_t low = std::max(begin, wanted.low);
    const uint64_t high = std::min(range_end, wanted.high);
    if (low >= high || high - low < wanted.size) return false;
    if (wanted.fit == Fit::kHighest) {
      const uint64_t start = (high - wanted.size) & ~(wanted.alignment - 1);
      *found = static_cast<Key>(start);
      return start >= low;
    }
    uint64_t start = 0;
    if (__builtin_add_overflow(low, wanted.alignment - 1, &start)) return false;
    start &= ~(wanted.alignment - 1);
    *found = static_cast<Key>(start);
    return start <= high && high - start >= wanted.size;
  }

  bool search(uint32_t number, uint32_t level, Key node_end, const Wanted& wanted,
              Key* found) const {
    const Node& here = node(number);
    uint32_t candidates = lanes_at_least(here.most.data(), wanted.size);
    if (wanted.low > here.key[0]) {
      const uint32_t above = lanes_at_least(here.key.data(), static_cast<Key>(wanted.low + 1));
      candidates &= ~uint32_t{0} << (std::countr_zero(above) - 1);
    }
    if (wanted.high < node_end) candidates &= ~lanes_at_least(here.key.data(), wanted.high);
    while (candidates != 0) {
      const auto slot =
          static_cast<uint32_t>(wanted.fit == Fit::kLowest ? std::countr_zero(candidates)
                                                           : 31 - std::countl_zero(candidates));
      candidates &= ~(uint32_t{1} << slot);
      leaf_path_[level] = {number, slot};
      if (level == 0) {
        const Key begin = here.key[slot];
        if (!fits_in(begin, static_cast<Key>(begin + here.most[slot]), wanted, found)) continue;
        leaf_begin_ = here.key[0];
        leaf_end_ = node_end;
        return true;
      }
      const auto child = static_cast<uint32_t>(here.child[slot]);
      if (level <= 2) expect(node(child));
      const Key next = here.key[slot + 1];
      if (search(child, level - 1, next == kFiller ? node_end : next, wanted, found)) return true;
    }
    return false;
  }

  template <typename T, size_t kSize>
  static void move_up(std::array<T, kSize>& values, uint32_t slot, uint32_t count) {
    std::memmove(&values[slot] + 1, &values[slot], (count - slot) * sizeof(T));
  }
  template <typename T, size_t kSize>
  static void move_down(std::array<T, kSize>& values, uint32_t slot, uint32_t count) {
    std::memmove(&values[slot], &values[slot] + 1, (count - slot - 1) * sizeof(T));
  }
  static void add(Node& here, uint32_t slot, Key key, Key most, Value child) {
    move_up(here.key, slot, here.count);
    move_up(here.most, slot, here.count);
    move_up(here.child, slot, here.count);
    here.key[slot] = key;
    here.most[slot] = most;
    here.child[slot] = child;
    ++here.count;
  }
  static void drop(Node& here, uint32_t slot) {
    move_down(here.key, slot, here.count);
    move_down(here.most, slot, here.count);
    move_down(here.child, slot, here.count);
    --here.count;
    here.key[here.count] = kFiller;
    here.most[here.count] = 0;
  }
  /// Moves the entries of `from` from `first` on behind the entries of `to`.
  static void move_tail(Node& from, uint32_t first, Node& to) {
    for (uint32_t i = first; i < from.count; ++i) {
      to.key[to.count] = from.key[i];
      to.most[to.count] = from.most[i];
      to.child[to.count] = from.child[i];
      ++to.count;
      from.key[i] = kFiller;
      from.most[i] = 0;
    }
    from.count = first;
  }

  /// Updates what the nodes above know about a changed node. The changed free ranges had, and have,
  /// at most `was` units.
  void refresh(const Path& path, uint32_t level, Key was = kFiller) {
    for (; level < height_; ++level) {
      Key& known = node(path[level + 1].node).most[path[level + 1].slot];
      if (was < known) return;  // another range is the largest
      const Key most = lanes_most(node(path[level].node).most.data());
      if (known == most) return;
      was = std::max(known, most);
      known = most;
    }
  }
  /// The same when no range shrank and a free range of `most` units was added.
  void raise(const Path& path, Key most) {
    for (uint32_t level = 1; level <= height_; ++level) {
      Key& known = node(path[level].node).most[path[level].slot];
      if (known >= most) return;
      known = most;
    }
  }

  /// Adds an entry behind the entry that `path` leads to, which may have changed. `was` is as in
  /// refresh().
  void insert(Path& path, Key key, Key most, Value value, Key was) {
    for (uint32_t level = 0;; ++level) {
      const uint32_t number = path[level].node;
      Node& here = node(number);
      const uint32_t slot = path[level].slot + 1;
      if (here.count < kMost) {
        add(here, slot, key, most, value);
        return level == 0 ? refresh(path, 0, was) : refresh(path, level);
      }
      forget_leaf();
      const uint32_t added = add_node();
      Node& right = node(added);
      // A tree that grows at its end keeps full nodes.
      const uint32_t keep = slot == kMost && is_last(path, level) ? kMost : kLanes / 2;
      move_tail(here, keep, right);
      if (slot <= keep && keep != kMost) {
        add(here, slot, key, most, value);
      } else {
        add(right, slot - keep, key, most, value);
      }
      if (level == height_) {
        DXGKIT_CHECK(height_ + 1 < kHeightMost);
        const uint32_t top = add_node();
        add(node(top), 0, 0, 0, static_cast<Value>(number));
        root_ = top;
        ++height_;
        path[height_] = {top, 0};
      }
      node(path[level + 1].node).most[path[level + 1].slot] = lanes_most(here.most.data());
      key = right.key[0];
      most = lanes_most(right.most.data());
      value = static_cast<Value>(added);
    }
  }
  bool is_last(const Path& path, uint32_t level) const {
    for (uint32_t above = level + 1; above <= height_; ++above) {
      if (path[above].slot + 1 != node(path[above].node).count) return false;
    }
    return true;
  }

  /// Removes the entry that `path` leads to. The entry before it covers its units from now on.
  void erase(const Path& path) {
    drop(node(path[0].node), path[0].slot);
    settle(path, 0);
  }

  /// Repairs the tree after entries of the node at `level` were removed: joins a small node with a
  /// neighbour, and corrects what the nodes above know. `grown`: no free range of the leaf shrank,
  /// and one of so many units was added.
  void settle(const Path& path, uint32_t level, Key grown = 0) {
    for (;; ++level) {
      Node& here = node(path[level].node);
      if (level == height_) {
        while (height_ > 0 && node(root_).count == 1) {
          forget_leaf();
          const uint32_t old = root_;
          root_ = static_cast<uint32_t>(node(old).child[0]);
          free_node(old);
          --height_;
        }
        return;
      }
      Node& above = node(path[level + 1].node);
      const uint32_t slot = path[level + 1].slot;
      if (here.count > 0 && above.key[slot] != here.key[0]) {
        forget_leaf();
        for (uint32_t up = level + 1; up <= height_; ++up) {
          node(path[up].node).key[path[up].slot] = here.key[0];
          if (path[up].slot != 0) break;
        }
      }
      if (here.count >= kFew)
        return level == 0 && grown != 0 ? raise(path, grown) : refresh(path, level);
      const auto joins = [&](uint32_t left) {
        const Node& a = node(static_cast<uint32_t>(above.child[left]));
        const Node& b = node(static_cast<uint32_t>(above.child[left + 1]));
        return a.count + b.count <= kJoined;
      };
      uint32_t left = slot;
      if (slot > 0 && joins(slot - 1)) {
        left = slot - 1;
      } else if (slot + 1 == above.count || !joins(slot)) {
        if (here.count > 0) return refresh(path, level);
        forget_leaf();
        free_node(path[level].node);
        drop(above, slot);
        continue;
      }
      forget_leaf();
      Node& kept = node(static_cast<uint32_t>(above.child[left]));
      const auto gone = static_cast<uint32_t>(above.child[left + 1]);
      move_tail(node(gone), 0, kept);
      free_node(gone);
      above.most[left] = lanes_most(kept.most.data());
      above.key[left] = kept.key[0];  // changes if the left node was empty
      drop(above, left + 1);
    }
  }

  bool validate_below(uint32_t number, uint32_t level, Key node_end, Key* unit, Key* free_units,
                      bool* after_free) const {
    const Node& here = node(number);
    if (here.count == 0 || here.count > kMost) return false;
    for (uint32_t i = here.count; i < kLanes; ++i) {
      if (here.key[i] != kFiller || here.most[i] != 0) return false;
    }
    for (uint32_t i = 0; i < here.count; ++i) {
      if (here.key[i] != *unit) return false;
      const Key entry_end = i + 1 < here.count ? here.key[i + 1] : node_end;
      if (entry_end <= here.key[i]) return false;
      if (level > 0) {
        const auto child = static_cast<uint32_t>(here.child[i]);
        if (lanes_most(node(child).most.data()) != here.most[i]) return false;
        if (!validate_below(child, level - 1, entry_end, unit, free_units, after_free))
          return false;
        continue;
      }
      const bool is_free = here.child[i] == 0;
      if (here.most[i] != (is_free ? entry_end - here.key[i] : 0)) return false;
      if (is_free && *after_free) return false;
      if (is_free) *free_units = static_cast<Key>(*free_units + here.most[i]);
      *after_free = is_free;
      *unit = entry_end;
    }
    return true;
  }

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<uint32_t> spare_;
  uint32_t root_ = 0;
  uint32_t height_ = 0;  // levels between the root and the leaves
  // The last leaf: the path to it, and the units that it covers. kNone: no leaf.
  mutable Path leaf_path_{};
  mutable Key leaf_begin_ = 0, leaf_end_ = 0;
  Key end_ = 0;
  Key free_ = 0;
};

}  // namespace dxgkit
