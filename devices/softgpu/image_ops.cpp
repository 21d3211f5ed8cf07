#include "devices/softgpu/image_ops.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace dxgkit::softgpu {

namespace {

// Sums of a stretch of one row: small enough for the first-level cache, a multiple of every vector
// width.
constexpr uint32_t kTile = 512;
constexpr uint32_t kVector = 8;

uint32_t clamp_index(int64_t index, uint32_t count) {
  return static_cast<uint32_t>(std::clamp<int64_t>(index, 0, int64_t{count} - 1));
}

}  // namespace

Convolver::Convolver(const SgpuConvolve& command, const std::byte* source)
    : command_(command),
      source_(source),
      taps_(pair_taps(command, command.kernel)),
      padded_elements_((command.output_width + command.kernel_width - 1) * SGPU_PIXEL_BYTES),
      rows_(command.kernel_height),
      row_of_(command.kernel_height) {
  if ((command.flags & SGPU_CONVOLVE_GRADIENT) != 0) taps2_ = pair_taps(command, command.kernel2);
  // Vectors may read (never use) up to one vector past the end.
  for (auto& row : rows_) row.resize(padded_elements_ + kVector);
  for (uint32_t i = 0; i + 1 < command.kernel_height; ++i) load_row(next_load_++);
}

std::vector<Convolver::TapPair> Convolver::pair_taps(const SgpuConvolve& command,
                                                     const SgpuI16* kernel) {
  std::vector<TapPair> pairs;
  for (uint32_t y = 0; y < command.kernel_height; ++y) {
    bool open = false;
    for (uint32_t x = 0; x < command.kernel_width; ++x) {
      const SgpuI16 weight = kernel[y * command.kernel_width + x];
      if (weight == 0) continue;
      const uint32_t low = static_cast<uint16_t>(weight);
      if (!open) {
        pairs.push_back({y, x * SGPU_PIXEL_BYTES, x * SGPU_PIXEL_BYTES, static_cast<int32_t>(low)});
      } else {
        pairs.back().offset1 = x * SGPU_PIXEL_BYTES;
        pairs.back().weights =
            static_cast<int32_t>(static_cast<uint32_t>(pairs.back().weights) | low << 16);
      }
      open = !open;
    }
  }
  return pairs;
}

/// Row `padded_row` counts from half a kernel above the first output row; both edges repeat.
void Convolver::load_row(uint32_t padded_row) {
  std::vector<int16_t>& row = rows_[padded_row % command_.kernel_height];
  const int64_t wanted_y =
      int64_t{command_.output_y} + padded_row - int64_t{command_.kernel_height / 2};
  const uint32_t y = clamp_index(wanted_y, command_.source_height);
  const auto* line =
      reinterpret_cast<const uint8_t*>(source_) + uint64_t{y} * command_.source_pitch;
  const int64_t first_x = int64_t{command_.output_x} - int64_t{command_.kernel_width / 2};
  const uint32_t pixels = padded_elements_ / SGPU_PIXEL_BYTES;
  uint32_t x = 0;
  const auto edge = [&](uint32_t until) {
    for (; x < until; ++x) {
      const uint32_t from = clamp_index(first_x + x, command_.source_width) * SGPU_PIXEL_BYTES;
      for (uint32_t c = 0; c < SGPU_PIXEL_BYTES; ++c)
        row[x * SGPU_PIXEL_BYTES + c] = line[from + c];
    }
  };
  const auto left = static_cast<uint32_t>(std::clamp<int64_t>(-first_x, 0, pixels));
  const auto inside = static_cast<uint32_t>(
      std::clamp<int64_t>(int64_t{command_.source_width} - first_x, left, pixels));
  edge(left);
  const uint8_t* in = line + (first_x + x) * int64_t{SGPU_PIXEL_BYTES};
  int16_t* out = row.data() + x * SGPU_PIXEL_BYTES;
  const uint32_t elements = (inside - x) * SGPU_PIXEL_BYTES;
  for (uint32_t i = 0; i < elements; ++i) out[i] = in[i];
  x = inside;
  edge(pixels);
}

void Convolver::accumulate(const std::vector<TapPair>& taps, uint32_t first, uint32_t count,
                           int32_t* sums) const {
  for (uint32_t i = 0; i < count; i += kVector) {
#if defined(__SSE2__)
    __m128i low = _mm_setzero_si128();
    __m128i high = _mm_setzero_si128();
    for (const TapPair& tap : taps) {
      const int16_t* row = row_of_[tap.row] + first + i;
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + tap.offset0));
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + tap.offset1));
      const __m128i weights = _mm_set1_epi32(tap.weights);
      low = _mm_add_epi32(low, _mm_madd_epi16(_mm_unpacklo_epi16(a, b), weights));
      high = _mm_add_epi32(high, _mm_madd_epi16(_mm_unpackhi_epi16(a, b), weights));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + i), low);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + i + 4), high);
#else
    std::fill_n(sums + i, kVector, 0);
    for (const TapPair& tap : taps) {
      const int16_t* row = row_of_[tap.row] + first + i;
      const auto w0 = static_cast<int16_t>(tap.weights & 0xFFFF);
      const auto w1 = static_cast<int16_t>(tap.weights >> 16);
      for (uint32_t j = 0; j < kVector; ++j) {
        sums[i + j] += row[tap.offset0 + j] * w0 + row[tap.offset1 + j] * w1;
      }
    }
#endif
  }
}

void Convolver::next_row(std::byte* out) {
  load_row(next_load_++);
  for (uint32_t k = 0; k < command_.kernel_height; ++k) {
    row_of_[k] = rows_[(row_ + k) % command_.kernel_height].data();
  }
  // floor((n + floor(d / 2)) / d) + bias, clamped, without a division: with t = n + floor(d / 2) +
  // bias * d the value is floor(t / d), and 0 for t < 0. (t + 0.5) / d stays at least 0.5 / d away
  // from every integer, more than the error of two roundings for t < 2^34, so that truncating the
  // product is exact.
  const double reciprocal = 1.0 / command_.divisor;
  const double addend = static_cast<double>(command_.divisor / 2) +
                        static_cast<double>(command_.bias) * command_.divisor + 0.5;
  const double largest = 256.0 * command_.divisor;
  const bool absolute = (command_.flags & SGPU_CONVOLVE_ABS) != 0;
  const bool gradient = (command_.flags & SGPU_CONVOLVE_GRADIENT) != 0;
  const uint32_t elements = command_.output_width * SGPU_PIXEL_BYTES;
  std::array<int32_t, kTile> sums;
  std::array<int32_t, kTile> sums2;
  for (uint32_t first = 0; first < elements; first += kTile) {
    const uint32_t count = std::min(kTile, elements - first);
    accumulate(taps_, first, count, sums.data());
    if (gradient) {
      accumulate(taps2_, first, count, sums2.data());
      for (uint32_t i = 0; i < count; ++i) sums[i] = std::abs(sums[i]) + std::abs(sums2[i]);
    } else if (absolute) {
      for (uint32_t i = 0; i < count; ++i) sums[i] = std::abs(sums[i]);
    }
    auto* bytes = reinterpret_cast<uint8_t*>(out) + first;
    for (uint32_t i = 0; i < count; ++i) {
      double t = sums[i] + addend;
      t = t > 0.0 ? t : 0.0;
      t = t < largest ? t : largest;
      const auto value = static_cast<int32_t>(t * reciprocal);
      bytes[i] = static_cast<uint8_t>(value < 255 ? value : 255);
    }
  }
  if ((command_.flags & SGPU_CONVOLVE_KEEP_ALPHA) != 0) {
    const uint64_t y = uint64_t{command_.output_y} + row_;
    const std::byte* line =
        source_ + y * command_.source_pitch + uint64_t{command_.output_x} * SGPU_PIXEL_BYTES;
    for (uint32_t i = 3; i < elements; i += SGPU_PIXEL_BYTES) out[i] = line[i];
  }
  ++row_;
}

void downscale_row(const std::byte* upper, const std::byte* lower, uint32_t source_width,
                   std::byte* out) {
  const auto* a = reinterpret_cast<const uint8_t*>(upper);
  const auto* b = reinterpret_cast<const uint8_t*>(lower);
  auto* result = reinterpret_cast<uint8_t*>(out);
  const uint32_t pairs = source_width / 2;
  for (uint32_t x = 0; x < pairs; ++x) {
    for (uint32_t c = 0; c < 4; ++c) {
      const uint32_t i = x * 8 + c;
      result[x * 4 + c] = static_cast<uint8_t>((a[i] + a[i + 4] + b[i] + b[i + 4] + 2) >> 2);
    }
  }
  if (source_width % 2 == 0) return;
  for (uint32_t c = 0; c < 4; ++c) {
    const uint32_t i = pairs * 8 + c;
    result[pairs * 4 + c] = static_cast<uint8_t>((2 * a[i] + 2 * b[i] + 2) >> 2);
  }
}

uint64_t fnv1a64(uint64_t state, const std::byte* bytes, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    state = (state ^ static_cast<uint64_t>(bytes[i])) * kFnvPrime;
  }
  return state;
}

uint64_t sum_bytes(const std::byte* bytes, uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) sum += static_cast<uint64_t>(bytes[i]);
  return sum;
}

}  // namespace dxgkit::softgpu
