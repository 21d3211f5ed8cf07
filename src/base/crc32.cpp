#include "base/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace dxgkit {
namespace {

static_assert(std::endian::native == std::endian::little);

using Table = std::array<uint32_t, 256>;
/// Table n has the checksums of a byte with n zero bytes behind it, so that sixteen bytes are
/// looked up side by side.
using Tables = std::array<Table, 16>;

consteval Tables make_tables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) * 0xEDB88320U);
    tables[0][i] = value;
  }
  for (size_t n = 1; n < tables.size(); ++n) {
    for (uint32_t i = 0; i < 256; ++i) {
      const uint32_t value = tables[n - 1][i];
      tables[n][i] = (value >> 8) ^ tables[0][value & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t value = ~before;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 16; left -= 16, at += 16) {
    std::array<uint64_t, 2> words{};
    std::memcpy(words.data(), at, sizeof words);
    words[0] ^= value;
    value = 0;
    for (size_t i = 0; i < 8; ++i)
      value ^=
          kTables[15 - i][words[0] >> (8 * i) & 0xFF] ^ kTables[7 - i][words[1] >> (8 * i) & 0xFF];
  }
  for (; left != 0; --left, ++at)
    value = kTables[0][(value ^ static_cast<uint32_t>(*at)) & 0xFF] ^ (value >> 8);
  return ~value;
}

}  // namespace dxgkit
