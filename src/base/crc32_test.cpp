// A checksum that other programs know.
#include "base/crc32.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace dxgkit {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Crc32, IsTheOneThatEverybodyKnows) {
  EXPECT_EQ(crc32({}), 0U);
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32(bytes_of("The quick brown fox jumps over the lazy dog")), 0x414FA339U);
}

TEST(Crc32, OfPiecesIsThatOfTheWhole) {
  std::vector<std::byte> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37);
  const uint32_t whole = crc32(bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut)
    EXPECT_EQ(crc32(std::span(bytes).subspan(cut), crc32(std::span(bytes).first(cut))), whole);
}

}  // namespace
}  // namespace dxgkit
