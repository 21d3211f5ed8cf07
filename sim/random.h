// Random numbers from a written seed, for a world and its clients. The runtime's own choices are
// separate.
#pragma once

#include <cstdint>

namespace dxgkit::sim {

/// SplitMix64. The same seed gives the same numbers on every machine. Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// 0 to limit - 1; limit > 0.
  uint64_t below(uint64_t limit) { return next() % limit; }
  /// low to high, both included.
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  /// low to high, with every magnitude equally likely; low > 0.
  uint64_t magnitude(uint64_t low, uint64_t high) {
    uint64_t top = high;
    while (top / 2 >= low && below(3) != 0) top /= 2;
    return between(low, top);
  }
  bool chance(uint64_t per_million) { return below(1'000'000) < per_million; }
  bool percent(uint64_t percentage) { return below(100) < percentage; }

 private:
  uint64_t state_;
};

}  // namespace dxgkit::sim
