// A picture is read row by row, whatever lies between the rows.
#include "dxgk/display/scanout.h"

#include <gtest/gtest.h>

#include <vector>

namespace dxgkit::dxgk {
namespace {

TEST(Scanout, ColoursAreTurnedAroundAndThePitchIsLeftOut) {
  constexpr uint64_t kPitch = 12;  // one pixel too many
  std::vector<std::byte> memory(2 * kPitch, std::byte{0xEE});
  const auto put = [&](uint64_t at, uint8_t blue, uint8_t green, uint8_t red) {
    memory[at] = std::byte{blue};
    memory[at + 1] = std::byte{green};
    memory[at + 2] = std::byte{red};
  };
  put(0, 1, 2, 3);
  put(4, 4, 5, 6);
  put(kPitch, 7, 8, 9);
  put(kPitch + 4, 10, 11, 12);
  const Scanout picture = picture_of(memory.data(), {2, 2}, kPitch);
  EXPECT_EQ(picture.width, 2U);
  EXPECT_EQ(picture.height, 2U);
  const std::vector<uint8_t> expected = {3, 2, 1, 255, 6, 5, 4, 255, 9, 8, 7, 255, 12, 11, 10, 255};
  EXPECT_EQ(picture.pixels, expected);
}

}  // namespace
}  // namespace dxgkit::dxgk
