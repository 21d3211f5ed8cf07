// Which entries of a table are valid. Private to the module.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace dxgkit::gpuva {

/// A set of numbers below a limit, with their count.
class ValidBits {
 public:
  void reset(uint64_t limit) {
    words_.assign((limit + 63) / 64, 0);
    count_ = 0;
  }
  void clear() {
    words_ = {};
    count_ = 0;
  }
  uint64_t count() const { return count_; }
  /// How many of [first, first + count) are in the set.
  uint64_t count(uint64_t first, uint64_t count) const {
    uint64_t found = 0;
    if (count_ == 0) return 0;
    for_each_word(first, count, [&](size_t word, uint64_t mask) {
      found += static_cast<uint64_t>(std::popcount(words_[word] & mask));
    });
    return found;
  }
  bool has(uint64_t number) const {
    return count_ > 0 && (words_[number / 64] >> (number % 64) & 1) != 0;
  }
  void set(uint64_t first, uint64_t count) {
    for_each_word(first, count, [&](size_t word, uint64_t mask) {
      count_ += static_cast<uint64_t>(std::popcount(mask & ~words_[word]));
      words_[word] |= mask;
    });
  }
  void unset(uint64_t first, uint64_t count) {
    if (count_ == 0) return;
    for_each_word(first, count, [&](size_t word, uint64_t mask) {
      count_ -= static_cast<uint64_t>(std::popcount(mask & words_[word]));
      words_[word] &= ~mask;
    });
  }
  size_t bytes() const { return words_.capacity() * sizeof(uint64_t); }

 private:
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
  std::vector<uint64_t> words_;
  uint64_t count_ = 0;
};

}  // namespace dxgkit::gpuva
