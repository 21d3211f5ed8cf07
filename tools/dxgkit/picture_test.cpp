#include "tools/dxgkit/picture.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "devices/softgpu/reference.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool {
namespace {

class PictureFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("dxgkit-picture-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_),
                                             std::filesystem::directory_iterator()));
  }

  std::filesystem::path folder_;
};

// A written picture reads back the same, alpha and odd sizes included.
TEST_F(PictureFile, ComesBackAsItWasWritten) {
  for (const auto& [width, height] :
       {std::pair(1U, 1U), std::pair(3U, 7U), std::pair(200U, 111U)}) {
    Picture picture = draw_picture(width, height, 3);
    picture.pixels[3] = 17;  // alpha of the first pixel
    ASSERT_TRUE(write_png(path("a.png"), picture).has_value());
    const auto read = read_png(path("a.png"));
    ASSERT_TRUE(read.has_value()) << read.error();
    EXPECT_TRUE(*read == picture);
  }
  EXPECT_EQ(files(), 1U) << "a temporary file stayed behind";
}

// Cut anywhere, a PNG is refused with one line that names the file.
TEST_F(PictureFile, TruncatedAnywhereIsRefused) {
  ASSERT_TRUE(write_png(path("whole.png"), draw_picture(40, 30, 3)).has_value());
  const std::string whole = *read_file(path("whole.png"));
  for (size_t size = 0; size + 12 < whole.size();
       size += 1 + size / 16) {  // the last 12 bytes are the end mark
    ASSERT_TRUE(write_file(path("cut.png"), whole.substr(0, size)).has_value());
    const auto read = read_png(path("cut.png"));
    ASSERT_FALSE(read.has_value()) << size << " of " << whole.size() << " bytes";
    EXPECT_TRUE(read.error().starts_with(path("cut.png"))) << read.error();
    EXPECT_EQ(read.error().find('\n'), std::string::npos);
  }
}

// No single damaged byte makes the reader crash or answer with a picture of another size.
TEST_F(PictureFile, DamagedBytesNeverCrash) {
  const Picture picture = draw_picture(20, 20, 3);
  ASSERT_TRUE(write_png(path("whole.png"), picture).has_value());
  const std::string whole = *read_file(path("whole.png"));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x5A);
    ASSERT_TRUE(write_file(path("damaged.png"), damaged).has_value());
    const auto read = read_png(path("damaged.png"));
    if (read.has_value()) {
      EXPECT_EQ(read->pixels.size(), read->size_bytes());
      EXPECT_TRUE(read->width == 20 && read->height == 20) << at;
    }
  }
}

// Sizes from a file are believed only within limits: a header that promises 2^31 pixels costs no
// memory.
TEST_F(PictureFile, HugeSizesAreRefusedBeforeMemoryIsTaken) {
  // Signature and IHDR of a 32769 x 1 picture, with its right CRC.
  const std::string header("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x80\x01\0\0\0\x01\x08\x06\0\0\0", 29);
  uint32_t crc = 0xFFFFFFFFU;
  for (size_t i = 12; i < header.size(); ++i) {
    crc ^= static_cast<uint8_t>(header[i]);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  crc = ~crc;
  std::string file = header;
  for (const int shift : {24, 16, 8, 0}) file += static_cast<char>(crc >> shift);
  file += std::string("\0\0\0\0IDAT", 8);  // reading the header goes on to the first data
  ASSERT_TRUE(write_file(path("huge.png"), file).has_value());
  const auto read = read_png(path("huge.png"));
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().find("too many"), std::string::npos) << read.error();
}

TEST_F(PictureFile, MissingFoldersAndOtherFilesAreNamed) {
  EXPECT_EQ(read_png(path("none.png")).error(), path("none.png") + ": No such file or directory");
  EXPECT_EQ(read_png(folder_.string()).error(), folder_.string() + ": is a folder");
  ASSERT_TRUE(write_file(path("text.png"), "hello").has_value());
  EXPECT_TRUE(
      read_png(path("text.png")).error().starts_with(path("text.png") + ": not a readable PNG"));
  EXPECT_FALSE(write_file(path("no/such/folder"), "x").has_value());
  EXPECT_FALSE(check_writable(path("no/such")).has_value());
  EXPECT_FALSE(check_writable(folder_.string()).has_value());
  EXPECT_TRUE(check_writable(path("new")).has_value());
}

// A failed write leaves what was there.
TEST_F(PictureFile, FailedWriteKeepsTheOldFile) {
  std::filesystem::create_directory(path("taken"));
  ASSERT_TRUE(write_file(path("taken/inside"), "x").has_value());
  EXPECT_FALSE(
      write_file(path("taken"), "bytes").has_value());  // a folder cannot be replaced by a file
  EXPECT_EQ(files(), 1U);
}

// The drawn picture is the same on every machine, and has something in it for filters to find.
TEST(DrawnPicture, IsFixedAndNotFlat) {
  const Picture picture = draw_picture(256, 256, 1);
  EXPECT_EQ(softgpu::reference::checksum_fnv1a64(picture.pixels), 17073162897567492226U);
  std::set<uint32_t> colours;
  for (size_t i = 0; i < picture.pixels.size(); i += 4) {
    colours.insert(uint32_t{picture.pixels[i]} << 16 | uint32_t{picture.pixels[i + 1]} << 8 |
                   picture.pixels[i + 2]);
  }
  EXPECT_GT(colours.size(), 1000U);
  EXPECT_FALSE(draw_picture(256, 256, 2) == picture);
}

// For pages: fewer pixels, none of them transparent, and a small picture stays as it is.
TEST(SmallerPicture, TakesEveryNthPixelAndIsOpaque) {
  const Picture picture = draw_picture(100, 60, 1);
  const Picture small = smaller(picture, 40);  // every third
  EXPECT_EQ(small.width, 34U);
  EXPECT_EQ(small.height, 20U);
  ASSERT_EQ(small.pixels.size(), small.size_bytes());
  for (const auto& [x, y] : {std::pair(0U, 0U), std::pair(33U, 19U), std::pair(5U, 7U)}) {
    const uint8_t* const is = small.pixels.data() + y * small.pitch() + x * 4;
    const uint8_t* const was = picture.pixels.data() + 3 * y * picture.pitch() + 3 * x * 4;
    EXPECT_TRUE(std::equal(is, is + 3, was)) << x << ", " << y;
    EXPECT_EQ(is[3], 255);
  }
  EXPECT_EQ(smaller(picture, 100).width, 100U);
  EXPECT_EQ(smaller(picture, 99).width, 50U);
}

}  // namespace
}  // namespace dxgkit::tool
