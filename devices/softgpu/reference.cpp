#include "devices/softgpu/reference.h"

#include <algorithm>
#include <cstdlib>

namespace dxgkit::softgpu::reference {

namespace {

int64_t floor_divide(int64_t numerator, int64_t divisor) {
  const int64_t quotient = numerator / divisor;
  return numerator % divisor < 0 ? quotient - 1 : quotient;
}

uint8_t channel_at(const Image& image, int64_t x, int64_t y, uint32_t channel) {
  x = std::max<int64_t>(0, std::min<int64_t>(x, int64_t{image.width} - 1));
  y = std::max<int64_t>(0, std::min<int64_t>(y, int64_t{image.height} - 1));
  return image.rgba[static_cast<size_t>((y * image.width + x) * 4 + channel)];
}

int64_t weighted_sum(const Image& image, const Filter& filter, const std::vector<int16_t>& weights,
                     int64_t x, int64_t y, uint32_t channel) {
  int64_t sum = 0;
  for (uint32_t j = 0; j < filter.height; ++j) {
    for (uint32_t i = 0; i < filter.width; ++i) {
      const int64_t sample_x = x + i - filter.width / 2;
      const int64_t sample_y = y + j - filter.height / 2;
      sum +=
          int64_t{weights[j * filter.width + i]} * channel_at(image, sample_x, sample_y, channel);
    }
  }
  return sum;
}

}  // namespace

Filter box_filter(uint32_t side) {
  Filter filter;
  filter.width = side;
  filter.height = side;
  filter.weights.assign(size_t{side} * side, 1);
  filter.divisor = static_cast<int32_t>(side * side);
  return filter;
}

Filter gauss_filter(uint32_t side) {
  std::vector<int16_t> row{1};
  for (uint32_t n = 1; n < side; ++n) {  // next row of Pascal's triangle
    row.push_back(1);
    for (size_t i = row.size() - 2; i > 0; --i) row[i] = static_cast<int16_t>(row[i] + row[i - 1]);
  }
  Filter filter;
  filter.width = side;
  filter.height = side;
  filter.divisor = 0;
  for (const int16_t vertical : row) {
    for (const int16_t horizontal : row) {
      filter.weights.push_back(static_cast<int16_t>(vertical * horizontal));
      filter.divisor += filter.weights.back();
    }
  }
  return filter;
}

Filter sobel_filter() {
  Filter filter;
  filter.width = 3;
  filter.height = 3;
  filter.weights = {-1, 0, 1, -2, 0, 2, -1, 0, 1};
  filter.second_weights = {-1, -2, -1, 0, 0, 0, 1, 2, 1};
  filter.magnitude = Magnitude::kGradient;
  filter.alpha = Alpha::kKeep;
  return filter;
}

Image convolve_part(const Image& source, const Filter& filter, uint32_t x, uint32_t y,
                    uint32_t width, uint32_t height) {
  Image result{width, height, {}};
  result.rgba.reserve(size_t{width} * height * 4);
  for (uint32_t row = 0; row < height; ++row) {
    for (uint32_t column = 0; column < width; ++column) {
      for (uint32_t channel = 0; channel < 4; ++channel) {
        const int64_t at_x = int64_t{x} + column;
        const int64_t at_y = int64_t{y} + row;
        if (channel == 3 && filter.alpha == Alpha::kKeep) {
          result.rgba.push_back(channel_at(source, at_x, at_y, channel));
          continue;
        }
        int64_t sum = weighted_sum(source, filter, filter.weights, at_x, at_y, channel);
        if (filter.magnitude != Magnitude::kSigned) sum = std::abs(sum);
        if (filter.magnitude == Magnitude::kGradient) {
          sum += std::abs(weighted_sum(source, filter, filter.second_weights, at_x, at_y, channel));
        }
        const int64_t scaled = floor_divide(sum + filter.divisor / 2, filter.divisor) + filter.bias;
        result.rgba.push_back(static_cast<uint8_t>(std::clamp<int64_t>(scaled, 0, 255)));
      }
    }
  }
  return result;
}

Image convolve(const Image& source, const Filter& filter) {
  return convolve_part(source, filter, 0, 0, source.width, source.height);
}

Image downscale(const Image& source) {
  Image result{(source.width + 1) / 2, (source.height + 1) / 2, {}};
  for (uint32_t y = 0; y < result.height; ++y) {
    for (uint32_t x = 0; x < result.width; ++x) {
      for (uint32_t channel = 0; channel < 4; ++channel) {
        uint32_t sum = 2;  // half of the divisor: rounds to nearest, halves up
        for (const uint32_t dy : {0u, 1u}) {
          for (const uint32_t dx : {0u, 1u}) {
            sum += channel_at(source, int64_t{x} * 2 + dx, int64_t{y} * 2 + dy, channel);
          }
        }
        result.rgba.push_back(static_cast<uint8_t>(sum / 4));
      }
    }
  }
  return result;
}

uint64_t checksum_fnv1a64(std::span<const uint8_t> bytes) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a's 64-bit offset basis
  for (const uint8_t byte : bytes) {
    hash ^= byte;
    hash *= 1099511628211u;  // and its prime
  }
  return hash;
}

uint64_t checksum_sum64(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  for (const uint8_t byte : bytes) sum += byte;
  return sum;
}

}  // namespace dxgkit::softgpu::reference
