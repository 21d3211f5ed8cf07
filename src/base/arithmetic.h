// Checked arithmetic for numbers that came from outside.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

namespace dxgkit {

inline constexpr uint64_t kPageBytes = 4096;

/// Stores a + b and returns true, or returns false on overflow and leaves *sum unspecified.
template <std::integral T>
[[nodiscard]] constexpr bool checked_add(T a, T b, T* sum) {
  return !__builtin_add_overflow(a, b, sum);
}

template <std::integral T>
[[nodiscard]] constexpr bool checked_mul(T a, T b, T* product) {
  return !__builtin_mul_overflow(a, b, product);
}

/// True if [offset, offset + size) lies inside [0, limit), with no wrap. An empty range at the end
/// fits.
[[nodiscard]] constexpr bool range_within(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

constexpr bool is_power_of_two(uint64_t value) { return std::has_single_bit(value); }

/// Rounds up to a power-of-two alignment; false if the result does not fit.
[[nodiscard]] constexpr bool checked_align_up(uint64_t value, uint64_t alignment,
                                              uint64_t* aligned) {
  uint64_t sum = 0;
  if (!checked_add(value, alignment - 1, &sum)) return false;
  *aligned = sum & ~(alignment - 1);
  return true;
}

/// Rounds up. The caller knows that the result fits.
constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr uint64_t align_down(uint64_t value, uint64_t alignment) {
  return value & ~(alignment - 1);
}

}  // namespace dxgkit
