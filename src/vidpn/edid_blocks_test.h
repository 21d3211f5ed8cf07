// EDID blocks put together by hand, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "vidpn/edid.h"

namespace dxgkit::vidpn {

using Bytes = std::vector<uint8_t>;
using Kind = EdidTiming::Kind;

inline std::vector<std::byte> finished(Bytes bytes) {
  bytes[127] = 0;
  const uint32_t sum = std::accumulate(bytes.begin(), bytes.begin() + 128, 0U);
  bytes[127] = static_cast<uint8_t>(0U - sum);
  std::vector<std::byte> out(bytes.size());
  std::ranges::transform(bytes, out.begin(), [](uint8_t value) { return std::byte{value}; });
  return out;
}

/// A block that says nothing: revision 4, no timings, four dummy descriptors.
inline Bytes plain() {
  Bytes bytes(128);
  std::fill_n(bytes.begin() + 1, 6, uint8_t{0xFF});
  bytes[18] = 1;
  bytes[19] = 4;
  std::fill_n(bytes.begin() + 38, 16, uint8_t{1});
  for (size_t at = 54; at < 126; at += 18) bytes[at + 3] = 0x10;
  return bytes;
}

inline void put(Bytes* bytes, size_t at, const Bytes& values) {
  std::ranges::copy(values, bytes->begin() + static_cast<ptrdiff_t>(at));
}

inline Edid read(const Bytes& bytes) {
  const Result<Edid> edid = parse_edid(finished(bytes));
  EXPECT_TRUE(edid.has_value());
  return edid.has_value() ? *edid : Edid{};
}

/// A descriptor of small counts: its refresh rate is clock / (total_x * total_y).
inline Bytes small_timing(uint32_t clock_10khz, uint32_t width, uint32_t total_x, uint32_t height,
                          uint32_t total_y, bool interlaced = false) {
  const uint32_t blank_x = total_x - width;
  const uint32_t blank_y = total_y - height;
  Bytes bytes(18);
  bytes[0] = static_cast<uint8_t>(clock_10khz);
  bytes[1] = static_cast<uint8_t>(clock_10khz >> 8);
  bytes[2] = static_cast<uint8_t>(width);
  bytes[3] = static_cast<uint8_t>(blank_x);
  bytes[4] = static_cast<uint8_t>(width / 256 * 16 + blank_x / 256);
  bytes[5] = static_cast<uint8_t>(height);
  bytes[6] = static_cast<uint8_t>(blank_y);
  bytes[7] = static_cast<uint8_t>(height / 256 * 16 + blank_y / 256);
  bytes[17] = interlaced ? 0x80 : 0;
  return bytes;
}

inline Edid of(const EdidTiming& timing, uint8_t revision = 4) {
  Edid edid;
  edid.revision = revision;
  edid.timings = {timing};
  return edid;
}

inline Edid named(const char* name) {
  Edid edid;
  edid.name = name;
  return edid;
}

}  // namespace dxgkit::vidpn
