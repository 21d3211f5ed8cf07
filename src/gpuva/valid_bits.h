// The valid entries of a table. Private to the module.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace dxgkit::gpuva {

/// A set of numbers below a limit, with their count. The bits of a leaf of usual size are inside
/// the object.
class ValidBits {
 public:
  void reset(uint64_t limit) {
    const size_t words = (limit + 63) / 64;
    if (words > inside_.size()) {
      outside_.assign(words, 0);
    } else {
      inside_.fill(0);
    }
    count_ = 0;
  }
  uint64_t count() const { return count_; }
  /// The number of elements in [first, first + count).
  uint64_t count(uint64_t first, uint64_t count) const {
    uint64_t found = 0;
    if (count_ == 0) return 0;
    for_each_word(first, count,
                  [&](size_t word, uint64_t mask) { found += ones(words()[word] & mask); });
    return found;
  }
  bool has(uint64_t number) const {
    return count_ > 0 && (words()[number / 64] >> (number % 64) & 1) != 0;
  }
  void set(uint64_t first, uint64_t count) {
    uint64_t* const bits = words();
    for_each_word(first, count, [&](size_t word, uint64_t mask) {
      count_ += ones(mask & ~bits[word]);
      bits[word] |= mask;
    });
  }
  void unset(uint64_t first, uint64_t count) {
    if (count_ == 0) return;
    uint64_t* const bits = words();
    for_each_word(first, count, [&](size_t word, uint64_t mask) {
      count_ -= ones(mask & bits[word]);
      bits[word] &= ~mask;
    });
  }

 private:
  /// All or none are the usual cases.
  static uint64_t ones(uint64_t word) {
    if (word == 0) return 0;
    if (word == ~uint64_t{0}) return 64;
    return static_cast<uint64_t>(std::popcount(word));
  }
  template <typename Visit>
  static void for_each_word(uint64_t first, uint64_t count, Visit visit) {
    for (uint64_t at = first; at < first + count;) {
      const uint64_t in_word = std::min(64 - at % 64, first + count - at);
      const uint64_t mask = (in_word == 64 ? ~uint64_t{0} : (uint64_t{1} << in_word) - 1)
                            << (at % 64);
      visit(static_cast<size_t>(at / 64), mask);
      at += in_word;
    }
  }
  uint64_t* words() { return outside_.empty() ? inside_.data() : outside_.data(); }
  const uint64_t* words() const { return outside_.empty() ? inside_.data() : outside_.data(); }

  std::array<uint64_t, 8> inside_{};
  std::vector<uint64_t> outside_;
  uint64_t count_ = 0;
};

}  // namespace dxgkit::gpuva
