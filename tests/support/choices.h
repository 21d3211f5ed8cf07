// Where a random test's decisions come from: a seed, or the bytes of a fuzzer's input.
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace dxgkit::testing {

/// A uniform random bit generator, as the standard library's are. From a seed: always the same
/// sequence. From bytes: two make a choice below 0xF000, or else announce eight that make any; once
/// they are used up it goes on as from a seed, so that loops which wait for luck end.
class Choices {
 public:
  using result_type = uint64_t;

  explicit Choices(uint64_t seed) : generator_(seed) {}
  /// The bytes outlive the object.
  explicit Choices(std::span<const uint8_t> input) : input_(input) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return UINT64_MAX; }

  result_type operator()() {
    if (input_.size() < 2) {
      input_ = {};
      return generator_();
    }
    const uint64_t choice = take(2);
    return choice < 0xF000 || input_.size() < 8 ? choice : take(8);
  }
  /// Nothing is left of the input; true from the start for a seed.
  bool exhausted() const { return input_.size() < 2; }

 private:
  uint64_t take(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= uint64_t{input_[i]} << (8 * i);
    input_ = input_.subspan(bytes);
    return value;
  }

  std::span<const uint8_t> input_;
  std::mt19937_64 generator_;
};

}  // namespace dxgkit::testing
