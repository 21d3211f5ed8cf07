#include "base/lanes.h"

#include <algorithm>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace dxgkit {
namespace {

uint32_t plain_at_least(const uint64_t* values, uint64_t limit) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < kLanes; ++i) mask |= static_cast<uint32_t>(values[i] >= limit) << i;
  return mask;
}

#ifdef __x86_64__
__attribute__((target("avx2"))) uint32_t avx2_at_least(const uint64_t* values, uint64_t limit) {
  constexpr uint64_t kHalf = uint64_t{1} << 63;  // the comparison is a signed one
  const __m256i half = _mm256_set1_epi64x(static_cast<int64_t>(kHalf));
  const __m256i wanted = _mm256_set1_epi64x(static_cast<int64_t>(limit ^ kHalf));
  uint32_t below = 0;
  for (uint32_t i = 0; i < kLanes; i += 4) {
    const __m256i lane = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + i));
    const __m256i less = _mm256_cmpgt_epi64(wanted, _mm256_xor_si256(lane, half));
    below |= static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(less))) << i;
  }
  return ~below;
}

__attribute__((target("avx2"))) uint32_t avx2_most(const uint32_t* values) {
  const auto* wide = reinterpret_cast<const __m256i*>(values);
  const __m256i a = _mm256_max_epu32(_mm256_loadu_si256(wide), _mm256_loadu_si256(wide + 1));
  const __m256i b = _mm256_max_epu32(_mm256_loadu_si256(wide + 2), _mm256_loadu_si256(wide + 3));
  const __m256i eight = _mm256_max_epu32(a, b);
  __m128i most = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0x4E));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(most));
}

const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
#endif

}  // namespace

uint32_t lanes_most(const uint32_t* values) {
#ifdef __x86_64__
  if (has_avx2) return avx2_most(values);
#endif
  return *std::max_element(values, values + kLanes);
}

uint32_t lanes_at_least(const uint64_t* values, uint64_t limit) {
#ifdef __x86_64__
  if (has_avx2) return avx2_at_least(values, limit);
#endif
  return plain_at_least(values, limit);
}

}  // namespace dxgkit
