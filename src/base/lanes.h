// Comparisons of 32 numbers at once.
#pragma once

#include <algorithm>
#include <cstdint>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace dxgkit {

inline constexpr uint32_t kLanes = 32;

/// Bit i of the answer: values[i] >= limit. `values` has 32 elements, aligned to 16 bytes.
inline uint32_t lanes_at_least(const uint32_t* values, uint32_t limit) {
#ifdef __SSE2__
  // The processor has a signed comparison only, so both sides move down by half the range.
  const __m128i half = _mm_set1_epi32(static_cast<int32_t>(0x80000000U));
  const __m128i wanted = _mm_set1_epi32(static_cast<int32_t>(limit ^ 0x80000000U));
  const auto below = [&](uint32_t i) {
    const __m128i lane = _mm_load_si128(reinterpret_cast<const __m128i*>(values) + i);
    return _mm_cmpgt_epi32(wanted, _mm_xor_si128(lane, half));
  };
  const auto sixteen = [&](uint32_t i) {
    return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(
        _mm_packs_epi32(below(i), below(i + 1)), _mm_packs_epi32(below(i + 2), below(i + 3)))));
  };
  return ~(sixteen(0) | sixteen(4) << 16);
#else
  uint32_t mask = 0;
  for (uint32_t i = 0; i < kLanes; ++i) mask |= static_cast<uint32_t>(values[i] >= limit) << i;
  return mask;
#endif
}

/// The same, but cheaper, if all of `values` and `limit` are below 2^31.
inline uint32_t low_lanes_at_least(const uint32_t* values, uint32_t limit) {
#ifdef __SSE2__
  const __m128i wanted = _mm_set1_epi32(static_cast<int32_t>(limit));
  const auto below = [&](uint32_t i) {
    return _mm_cmpgt_epi32(wanted, _mm_load_si128(reinterpret_cast<const __m128i*>(values) + i));
  };
  const auto sixteen = [&](uint32_t i) {
    return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(
        _mm_packs_epi32(below(i), below(i + 1)), _mm_packs_epi32(below(i + 2), below(i + 3)))));
  };
  return ~(sixteen(0) | sixteen(4) << 16);
#else
  return lanes_at_least(values, limit);
#endif
}

uint32_t lanes_at_least(const uint64_t* values, uint64_t limit);

/// The largest of 32 values. 32-bit values are aligned to 16 bytes.
uint32_t lanes_most(const uint32_t* values);
template <typename T>
T lanes_most(const T* values) {
  T most = values[0];
  for (uint32_t i = 1; i < kLanes; ++i) most = std::max(most, values[i]);
  return most;
}

}  // namespace dxgkit
