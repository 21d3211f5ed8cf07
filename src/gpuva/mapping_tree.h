// Mapped ranges by address. Private to the module.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/lanes.h"
#include "gpuva/node_pool.h"

namespace dxgkit::gpuva {

/// Ranges of pages that do not overlap, each with a value, in B+trees with nodes of up to 31
/// entries. Gaps are no entries. Every 2^30 pages (4 TiB) begin another tree, so all keys are 31
/// bits wide and 32 of them are compared at once. A range that crosses such a border is kept as
/// several ranges. An entry takes about 20 bytes, divided by the fill of the nodes, which is 0.7 to
/// 1.
///
/// A separator in an inner node lies between the ranges of the children beside it. It need not be
/// the first key of the right child. So nothing above a leaf changes when a range begins elsewhere
/// or ends earlier. The first separator of a node is 0, whatever the node covers.
///
/// A Client hears of changes:
///   Value after(Value, uint64_t k)     the value of the rest of a range, from its k-th page on
///   bool continues(Value a, Value b)   `b` is the value that would follow on `a`
///   void added(const Entry&)           a range now begins there with such a value
///   void gone(const Entry&)            no range begins there any more; comes after all `added`
///   void moved(const Entry& old, const Entry& now)   gone and added at once, the same allocation
///   bool wants_cuts()                  whether `cut` is called
///   void cut(uint64_t first, uint64_t end)   these pages lost their mapping; in any order
class MappingTree {
 public:
  struct Value {
    uint32_t pages = 0;
    uint32_t attribute = 0;
    uint64_t where = 0;
  };
  struct Entry {
    uint64_t begin = 0;
    Value value;
    uint64_t end() const { return begin + value.pages; }
  };

  /// The first entry that ends behind a page. False: none.
  bool find_behind(uint64_t page, Entry* entry) const {
    uint64_t number = page >> kPartBits;
    if (number < parts_.size() && parts_[number].root != kNone) {
      const Part& part = parts_[number];
      const uint32_t key = low(page);
      Path path;
      const uint32_t upper = locate(part, key, path);
      const Leaf* leaf = &leaves_[path[0].node];
      uint32_t slot = first_behind(*leaf, key);
      if (slot == leaf->count && upper != kFiller) {
        locate(part, upper, path);
        leaf = &leaves_[path[0].node];
        slot = 0;
      }
      if (slot < leaf->count) {
        *entry = {number << kPartBits | leaf->key[slot], leaf->value[slot]};
        return true;
      }
    }
    const auto next = std::upper_bound(used_parts_.begin(), used_parts_.end(), number);
    if (next == used_parts_.end()) return false;
    number = *next;
    Path path;
    locate(parts_[number], 0, path);
    const Leaf& leaf = leaves_[path[0].node];
    *entry = {number << kPartBits | leaf.key[0], leaf.value[0]};
    return true;
  }
  /// The entry that covers a page. False: none.
  bool find(uint64_t page, Entry* entry) const {
    const uint64_t number = page >> kPartBits;
    if (number >= parts_.size() || parts_[number].root == kNone) return false;
    const uint32_t key = low(page);
    const Part& part = parts_[number];
    uint32_t node = part.root;
    for (uint32_t level = part.height; level > 0; --level) {
      const Inner& inner = inners_[node];
      node = inner.child[keys_at_most(inner.key, key) - 1];
      expect_node(level - 1, node);
    }
    const Leaf& leaf = leaves_[node];
    const uint32_t after = keys_at_most(leaf.key, key);
    if (after == 0) return false;
    const Value& value = leaf.value[after - 1];
    if (key - leaf.key[after - 1] >= value.pages) return false;
    *entry = {number << kPartBits | leaf.key[after - 1], value};
    return true;
  }

  /// Removes [begin, end) from the ranges that hold it.
  template <typename Client>
  void erase(uint64_t begin, uint64_t end, Client& client) {
    for (uint64_t page = begin; page < end;) {
      const uint64_t number = page >> kPartBits;
      if (number >= parts_.size()) return;
      const uint64_t part_end = std::min(end, (number + 1) << kPartBits);
      if (parts_[number].root == kNone) {
        const auto next = std::upper_bound(used_parts_.begin(), used_parts_.end(), number);
        if (next == used_parts_.end()) return;
        page = *next << kPartBits;
        continue;
      }
      replace(number, low(page), low_end(part_end, number), nullptr, client);
      page = part_end;
    }
  }
  /// Gives [begin, end) a value (its `pages` are ignored). CHECKs begin < end.
  template <typename Client>
  void put(uint64_t begin, uint64_t end, Value value, Client& client) {
    DXGKIT_CHECK(begin < end);
    for (uint64_t page = begin; page < end;) {
      const uint64_t number = page >> kPartBits;
      const uint64_t part_end = std::min(end, (number + 1) << kPartBits);
      if (number >= parts_.size()) parts_.resize(number + 1);
      Value here = client.after(value, page - begin);
      here.pages = static_cast<uint32_t>(part_end - page);
      replace(number, low(page), low_end(part_end, number), &here, client);
      page = part_end;
    }
  }

  size_t size() const { return size_; }
  size_t bytes() const {
    return leaves_.bytes() + inners_.bytes() + parts_.capacity() * sizeof(Part) +
           used_parts_.capacity() * sizeof(uint64_t);
  }
  /// Of these, the bytes that are not from the heap.
  size_t outside_heap() const { return leaves_.outside_heap() + inners_.outside_heap(); }
  bool validate() const;

 private:
  static constexpr uint32_t kPartBits = 30;
  static constexpr uint32_t kMost = kLanes - 1;  // an unused key is larger than all others
  static constexpr uint32_t kFew = 12;           // a node with fewer looks for a neighbour to join
  // Entries of a joined node at most: it has room to grow.
  static constexpr uint32_t kJoined = 26;
  static constexpr uint32_t kEvened = 54;  // two nodes with fewer share before one splits
  static constexpr uint32_t kFiller = ~uint32_t{0} >> 1;
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kHeightMost = 12;

  using Keys = std::array<uint32_t, kLanes>;
  struct alignas(64) Leaf {
    Leaf() { key.fill(kFiller); }
    Keys key;
    std::array<Value, kMost> value;
    uint32_t count = 0;
  };
  struct alignas(64) Inner {
    Inner() { key.fill(kFiller); }
    Keys key;
    std::array<uint32_t, kMost> child{};
    uint32_t count = 0;
  };
  struct Part {
    uint32_t root = kNone;
    uint32_t height = 0;  // levels between the root and the leaves
  };
  struct Step {
    uint32_t node, slot;
  };
  /// From the leaf up; slots of inner nodes only. Only the levels on the way to a leaf are set:
  /// setting all costs more than finding the leaf.
  using Path = std::array<Step, kHeightMost>;

  static uint32_t low(uint64_t page) {
    return static_cast<uint32_t>(page & ((uint64_t{1} << kPartBits) - 1));
  }
  static uint32_t low_end(uint64_t end, uint64_t number) {
    return static_cast<uint32_t>(end - (number << kPartBits));
  }
  static uint32_t keys_at_most(const Keys& keys, uint32_t limit) {
    return static_cast<uint32_t>(std::countr_zero(low_lanes_at_least(keys.data(), limit + 1)));
  }
  /// The slot of the first entry that ends behind `key`; `count` if there is none.
  static uint32_t first_behind(const Leaf& leaf, uint32_t key) {
    const uint32_t after = keys_at_most(leaf.key, key);
    const uint32_t before = after - (after > 0 ? 1 : 0);
    // Both outcomes are equally likely, so there is no branch. Without an entry before, the
    // difference wraps.
    const bool covered = key - leaf.key[before] < leaf.value[before].pages;
    return after - (covered ? 1 : 0);
  }

  /// Prefetches memory.
  template <typename Node>
  static void expect(const Node& node) {
    const auto* bytes = reinterpret_cast<const char*>(&node);
#pragma GCC unroll 16
    for (size_t line = 0; line < sizeof(Node); line += 64) __builtin_prefetch(bytes + line);
  }
  void expect_node(uint32_t level, uint32_t node) const {
    if (level == 0) return expect(leaves_[node]);
    expect(inners_[node]);
  }

  /// Walks to the leaf whose ranges may begin at `key`. Returns the start of the next leaf's
  /// ranges.
  uint32_t locate(const Part& part, uint32_t key, Path& path) const {
    uint32_t upper = kFiller;
    uint32_t node = part.root;
    for (uint32_t level = part.height; level > 0; --level) {
      const Inner& inner = inners_[node];
      const uint32_t after = keys_at_most(inner.key, key);
      path[level] = {node, after - 1};
      upper = std::min(upper, inner.key[after]);
      node = inner.child[after - 1];
      expect_node(level - 1, node);
    }
    path[0].node = node;
    return upper;
  }

  template <typename Client>
  void replace(uint64_t number, uint32_t begin, uint32_t end, const Value* value, Client& client) {
    Part& part = parts_[number];
    if (part.root == kNone) {
      if (value == nullptr) return;
      part = {.root = leaves_.add(), .height = 0};
      used_parts_.insert(std::lower_bound(used_parts_.begin(), used_parts_.end(), number), number);
    }
    Path path;
    uint32_t upper = locate(part, begin, path);
    if (upper < end) {
      // Ranges in the leaves behind are removed first, one leaf at a time. The tree changes
      // meanwhile.
      for (uint32_t from = upper; from < end; from = upper) {
        upper = locate(part, from, path);
        in_leaf(number, path, from, end, nullptr, client);
      }
      upper = locate(part, begin, path);
      if (upper < end && value != nullptr) raise_separator(path, end);
    }
    in_leaf(number, path, begin, end, value, client);
  }

  /// Changes the leaf at the end of `path`. With a value, no range behind the leaf overlaps.
  ///
  ///   before   ....|==A==|..|==B==|=====C=====|..       first: A, last: behind C
  ///   range           [----------------)
  ///   after    ....|A'|======new=======|==C'==|..
  ///
  /// `new` joins A' or C', or neighbours that touch it, if it continues them.
  template <typename Client>
  void in_leaf(uint64_t number, const Path& path, uint32_t begin, uint32_t end, const Value* value,
               Client& client) {
    const Leaf& leaf = leaves_[path[0].node];
    const uint64_t base = number << kPartBits;
    uint32_t first = first_behind(leaf, begin);
    uint32_t last = first;
    const auto end_of = [&](uint32_t slot) { return leaf.key[slot] + leaf.value[slot].pages; };
    const auto entry = [&](uint32_t slot) {
      return Entry{base | leaf.key[slot], leaf.value[slot]};
    };
    while (leaf.key[last] < end) ++last;
    if (client.wants_cuts()) {
      for (uint32_t i = first; i < last; ++i)
        client.cut(base + std::max(leaf.key[i], begin), base + std::min(end_of(i), end));
    }
    if (first == last && value == nullptr) return;

    std::array<Entry, 3> now;
    uint32_t count = 0;
    if (first < last && leaf.key[first] < begin) {
      now[0] = entry(first);
      now[0].value.pages = begin - leaf.key[first];
      count = 1;
    }
    const bool rest = first < last && end_of(last - 1) > end;
    Entry after;
    if (rest) {
      const uint32_t cut = end - leaf.key[last - 1];
      after = {base + end, client.after(leaf.value[last - 1], cut)};
      after.value.pages = leaf.value[last - 1].pages - cut;
    }
    if (value != nullptr) {
      if (count == 0 && first > 0 && end_of(first - 1) == begin &&
          client.continues(leaf.value[first - 1], *value)) {
        now[count++] = entry(--first);
        now[0].value.pages += value->pages;
      } else if (count == 1 && client.continues(now[0].value, *value)) {
        now[0].value.pages += value->pages;
      } else {
        now[count++] = {base | begin, *value};
      }
      Value& middle = now[count - 1].value;
      if (rest && client.continues(middle, after.value)) {
        middle.pages += after.value.pages;
      } else if (rest) {
        now[count++] = after;
      } else if (last < leaf.count && leaf.key[last] == end &&
                 client.continues(middle, leaf.value[last])) {
        middle.pages += leaf.value[last++].pages;
      }
    } else if (rest) {
      now[count++] = after;
    }
    // A range that keeps its start is the same range, whatever its length.
    const bool kept = count > 0 && first < last && now[0].begin == (base | leaf.key[first]) &&
                      now[0].value.where == leaf.value[first].where &&
                      now[0].value.attribute == leaf.value[first].attribute;
    // A range that lost its start has only moved.
    const uint32_t old_first = first + (kept ? 1 : 0);
    const bool moved = rest && old_first < last && now[count - 1].begin == after.begin;
    for (uint32_t i = kept ? 1 : 0; i < count - (moved ? 1 : 0); ++i) client.added(now[i]);
    for (uint32_t i = old_first; i < last - (moved ? 1 : 0); ++i) client.gone(entry(i));
    if (moved) client.moved(entry(last - 1), now[count - 1]);
    splice(number, path, first, last, now.data(), count);
  }

  /// Replaces the entries in slots [first, last).
  void splice(uint64_t number, const Path& path, uint32_t first, uint32_t last,
              const Entry* entries, uint32_t count) {
    Leaf& leaf = leaves_[path[0].node];
    const uint32_t old_count = leaf.count;
    const uint32_t new_count = old_count - (last - first) + count;
    size_ += new_count;
    size_ -= old_count;
    if (new_count > kMost) return overflow(parts_[number], path, first, last, entries, count);
    // There are few entries, and their number varies: this loop is faster than memmove.
    const auto move = [&](uint32_t from) {
      leaf.key[from + new_count - old_count] = leaf.key[from];
      leaf.value[from + new_count - old_count] = leaf.value[from];
    };
    if (new_count > old_count) {
      for (uint32_t i = old_count; i-- > last;) move(i);
    } else if (new_count < old_count) {
      for (uint32_t i = last; i < old_count; ++i) move(i);
      for (uint32_t i = new_count; i < old_count; ++i) leaf.key[i] = kFiller;
    }
    leaf.count = new_count;
    for (uint32_t i = 0; i < count; ++i) {
      leaf.key[first + i] = low(entries[i].begin);
      leaf.value[first + i] = entries[i].value;
    }
    if (new_count < old_count && new_count < kFew) settle(number, path);
  }
  void overflow(Part& part, const Path& path, uint32_t first, uint32_t last, const Entry* entries,
                uint32_t count);
  void settle(uint64_t number, const Path& path);
  void drop_part(uint64_t number);
  void raise_separator(const Path& path, uint32_t key);
  void remove_child(uint64_t number, const Path& path, uint32_t level, uint32_t slot);
  void insert_child(Part& part, const Path& path, uint32_t level, uint32_t key, uint32_t child);
  bool is_last(const Part& part, const Path& path, uint32_t level) const;
  bool validate_below(uint32_t node, uint32_t level, uint64_t lower, uint64_t upper,
                      size_t* entries, uint64_t* last_end) const;

  NodePool<Leaf> leaves_;
  NodePool<Inner> inners_;
  std::vector<Part> parts_;           // by the high bits of a page
  std::vector<uint64_t> used_parts_;  // those with a root, in order
  size_t size_ = 0;
};

}  // namespace dxgkit::gpuva
