// The tile tree beside the slow, obvious allocator. For the unit test and the fuzzer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/tile_tree.h"
#include "tests/support/choices.h"

namespace dxgkit {

/// One value per unit: the slow, obvious allocator.
class Units {
 public:
  explicit Units(uint64_t units) : value_(units) {}
  std::optional<uint64_t> find(uint64_t size, uint64_t alignment, Fit fit, uint64_t low,
                               uint64_t high) const {
    std::optional<uint64_t> found;
    high = std::min<uint64_t>(high, value_.size());
    uint64_t stretch = 0;  // free units up to and with `unit`, inside the window
    for (uint64_t unit = low; unit < high; ++unit) {
      stretch = value_[unit] == 0 ? stretch + 1 : 0;
      // A place ends here if one of the aligned starts in this stretch is `size` units back.
      if (stretch < size) continue;
      if ((unit + 1 - size) % alignment != 0) continue;
      found = unit + 1 - size;
      if (fit == Fit::kLowest) return found;
    }
    return found;
  }
  void set(uint64_t unit, uint64_t size, uint32_t value) {
    std::fill_n(value_.begin() + static_cast<std::ptrdiff_t>(unit), size, value);
  }
  uint32_t value(uint64_t unit) const { return value_[unit]; }
  uint64_t largest_free() const {
    uint64_t most = 0;
    uint64_t stretch = 0;
    for (const uint32_t value : value_) {
      stretch = value == 0 ? stretch + 1 : 0;
      most = std::max(most, stretch);
    }
    return most;
  }

 private:
  std::vector<uint32_t> value_;
};

struct Shape {
  uint32_t units, sizes, alignments, steps;
};

template <typename Tree, typename Key>
void compare_with_units(testing::Choices random, const Shape& shape) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  Tree tree(static_cast<Key>(shape.units));
  Units model(shape.units);
  std::vector<std::pair<uint32_t, uint32_t>> live;  // begin, size
  uint32_t value = 0;
  uint32_t filling = 50;
  for (uint32_t step = 0; step < shape.steps; ++step) {
    if (step % 1024 == 0) filling = 20 + below(70);  // grows for a while, shrinks for a while
    const uint32_t size = 1 + below(shape.sizes);
    const uint64_t alignment = uint64_t{1} << below(shape.alignments);
    const uint32_t low = below(4) == 0 ? below(shape.units + 5) : 0;
    const uint32_t high = below(4) == 0 ? below(shape.units + 5) : shape.units;
    const Fit fit = below(2) == 0 ? Fit::kLowest : Fit::kHighest;
    const bool wants = live.empty() || below(100) < filling;
    if (wants) {
      const auto found = tree.find(static_cast<Key>(size), alignment, fit, static_cast<Key>(low),
                                   static_cast<Key>(high));
      const auto expected = model.find(size, alignment, fit, low, high);
      ASSERT_EQ(found.has_value(), expected.has_value()) << "step " << step;
      if (found.has_value()) {
        ASSERT_EQ(*found, *expected) << "step " << step;
        tree.place(*found, static_cast<Key>(size), ++value);
        model.set(*found, size, value);
        live.emplace_back(static_cast<uint32_t>(*found), size);
      }
    } else {
      const uint32_t chosen = below(static_cast<uint32_t>(live.size()));
      std::swap(live[chosen], live.back());
      tree.release(static_cast<Key>(live.back().first));
      model.set(live.back().first, live.back().second, 0);
      live.pop_back();
    }
    const uint32_t probe = below(shape.units);
    const auto around = tree.around(static_cast<Key>(probe));
    ASSERT_TRUE(around.self.begin <= probe && probe < around.self.end) << "step " << step;
    ASSERT_EQ(around.self.value, model.value(probe)) << "step " << step;
    if (around.self.begin > 0) {
      ASSERT_EQ(around.before.end, around.self.begin);
      ASSERT_EQ(around.before.value, model.value(around.self.begin - 1));
    } else {
      ASSERT_EQ(around.before.size(), 0U);
    }
    if (around.self.end < shape.units) {
      ASSERT_EQ(around.after.begin, around.self.end);
      ASSERT_EQ(around.after.value, model.value(around.self.end));
    } else {
      ASSERT_EQ(around.after.size(), 0U);
    }
    if (step % 64 == 0) {
      ASSERT_TRUE(tree.validate()) << "step " << step;
      ASSERT_EQ(tree.largest_free(), model.largest_free()) << "step " << step;
    }
  }
  ASSERT_TRUE(tree.validate());
}

}  // namespace dxgkit
