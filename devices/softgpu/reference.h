// The results that the software GPU's image commands must produce, computed plainly on the CPU.
//
// Written from manual.md and not from the engine. Tests compare the two byte for byte.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dxgkit::softgpu::reference {

/// 8 bits per channel, R G B A, rows without gaps.
struct Image {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint8_t> rgba;  // width * height * 4
  bool operator==(const Image&) const = default;
};

enum class Magnitude { kSigned, kAbsolute, kGradient };
enum class Alpha { kFilter, kKeep };

/// A kernel of odd sides up to 7, and the treatment of its sum. Values as SgpuConvolve allows them.
struct Filter {
  uint32_t width = 1;
  uint32_t height = 1;
  std::vector<int16_t> weights;         // width * height, row by row
  std::vector<int16_t> second_weights;  // for kGradient
  int32_t divisor = 1;
  int32_t bias = 0;
  Magnitude magnitude = Magnitude::kSigned;
  Alpha alpha = Alpha::kFilter;
};

/// Averages over side x side pixels; side odd, up to 7.
Filter box_filter(uint32_t side);
/// Binomial weights: the usual integer stand-in for a Gauss filter; side 3, 5 or 7.
Filter gauss_filter(uint32_t side);
/// |gx| + |gy| of Sobel's 3x3 kernels, alpha kept.
Filter sobel_filter();

/// The whole image, edges repeated.
Image convolve(const Image& source, const Filter& filter);
/// The output rectangle alone; equal to cutting it out of convolve(source).
Image convolve_part(const Image& source, const Filter& filter, uint32_t x, uint32_t y,
                    uint32_t width, uint32_t height);
/// Half the size, rounded up; 2x2 averages, edges repeated.
Image downscale(const Image& source);
/// CHECKSUM of kind SGPU_CHECKSUM_FNV1A64 and SGPU_CHECKSUM_SUM64.
uint64_t checksum_fnv1a64(std::span<const uint8_t> bytes);
uint64_t checksum_sum64(std::span<const uint8_t> bytes);

}  // namespace dxgkit::softgpu::reference
