// Streams of uses made from a seed, and a digest of what was seen on the way. Shared by tests that
// compare with exact numbers.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

namespace dxgkit::vidmm {

/// FNV-1a over numbers.
class Seen {
 public:
  void add(uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      sum_ = (sum_ ^ (value & 0xFF)) * 0x100000001B3ULL;
      value >>= 8;
    }
  }
  void add_float(float value) { add(std::bit_cast<uint32_t>(value)); }
  void add_double(double value) { add(std::bit_cast<uint64_t>(value)); }
  uint64_t sum() const { return sum_; }

 private:
  uint64_t sum_ = 0xCBF29CE484222325ULL;
};

/// The allocations that submission number `now` uses. std::mt19937 gives the same numbers
/// everywhere; the standard's distributions do not.
using Stream = std::function<std::vector<uint32_t>(uint64_t now, std::mt19937& random)>;

/// Names `each` allocations per submission, one after another and then again.
inline Stream loop_of(uint32_t count, uint32_t each) {
  return [=](uint64_t now, std::mt19937&) {
    std::vector<uint32_t> list;
    for (uint32_t i = 0; i < each; ++i)
      list.push_back(static_cast<uint32_t>((now * each + i) % count));
    return list;
  };
}

/// A few allocations are used often, most seldom.
inline Stream skewed(uint32_t count) {
  return [=](uint64_t, std::mt19937& random) {
    const double u = static_cast<double>(random()) / 4294967296.0;
    return std::vector<uint32_t>{static_cast<uint32_t>(u * u * u * count)};
  };
}

/// Each allocation has a period of its own; every third one alternates between a short and a long
/// interval.
inline Stream periods(uint32_t count) {
  return [=](uint64_t now, std::mt19937&) {
    std::vector<uint32_t> list;
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t period = 5 + 3 * (i % 17) + i / 8;
      const uint64_t at = (now + i) % (2 * period);
      if (at == 0 || at == (i % 3 == 0 ? period / 3 : period)) list.push_back(i);
    }
    return list;
  };
}

/// Every frame uses a hot set, at times an allocation twice; a scan over the others runs beside it
/// and is seldom used again.
inline Stream hot_and_scan(uint32_t hot, uint32_t count) {
  return [=](uint64_t now, std::mt19937& random) {
    std::vector<uint32_t> list{static_cast<uint32_t>(now % hot)};
    list.push_back(hot + static_cast<uint32_t>(now / 2 % (count - hot)));
    if (random() % 5 == 0) list.push_back(static_cast<uint32_t>(random() % hot));
    return list;
  };
}

/// A loop over one set for a while, then over another, and long pauses between.
inline Stream phases(uint32_t count) {
  return [=](uint64_t now, std::mt19937& random) {
    const uint32_t width = count / 3;
    const auto begin = static_cast<uint32_t>(now / 900 % 5 * (count / 6));
    if (random() % 7 == 0) return std::vector<uint32_t>{static_cast<uint32_t>(random() % count)};
    return std::vector<uint32_t>{(begin + static_cast<uint32_t>(now % width)) % count};
  };
}

}  // namespace dxgkit::vidmm
