// EDID byte by byte: each field and bit of the layout with values no two alike, written out by
// hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"
#include "vidpn/edid.h"

namespace dxgkit::vidpn {
namespace {

using Bytes = std::vector<uint8_t>;
using Kind = EdidTiming::Kind;

std::vector<std::byte> finished(Bytes bytes) {
  bytes[127] = 0;
  const uint32_t sum = std::accumulate(bytes.begin(), bytes.begin() + 128, 0U);
  bytes[127] = static_cast<uint8_t>(0U - sum);
  std::vector<std::byte> out(bytes.size());
  std::ranges::transform(bytes, out.begin(), [](uint8_t value) { return std::byte{value}; });
  return out;
}

/// A block that says nothing: revision 4, no timings, four dummy descriptors.
Bytes plain() {
  Bytes bytes(128);
  std::fill_n(bytes.begin() + 1, 6, uint8_t{0xFF});
  bytes[18] = 1;
  bytes[19] = 4;
  std::fill_n(bytes.begin() + 38, 16, uint8_t{1});
  for (size_t at = 54; at < 126; at += 18) bytes[at + 3] = 0x10;
  return bytes;
}

void put(Bytes* bytes, size_t at, const Bytes& values) {
  std::ranges::copy(values, bytes->begin() + static_cast<ptrdiff_t>(at));
}

Edid read(const Bytes& bytes) {
  const Result<Edid> edid = parse_edid(finished(bytes));
  EXPECT_TRUE(edid.has_value());
  return edid.has_value() ? *edid : Edid{};
}

/// A descriptor of small counts: its refresh rate is clock / (total_x * total_y).
Bytes small_timing(uint32_t clock_10khz, uint32_t width, uint32_t total_x, uint32_t height,
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

Edid of(const EdidTiming& timing, uint8_t revision = 4) {
  Edid edid;
  edid.revision = revision;
  edid.timings = {timing};
  return edid;
}

Edid named(const char* name) {
  Edid edid;
  edid.name = name;
  return edid;
}

std::vector<uint32_t> refreshes(const Edid& edid) {
  std::vector<uint32_t> all;
  for (const EdidTiming& timing : edid.timings) all.push_back(timing.refresh_millihertz);
  return all;
}

TEST(EdidBytes, HeaderFieldsAreRead) {
  Bytes bytes = plain();
  put(&bytes, 8, {0x07, 0x4D, 0x34, 0x12, 0x78, 0x56, 0xBC, 0x9A});
  bytes[19] = 3;
  bytes[126] = 5;
  const Edid edid = read(bytes);
  EXPECT_EQ(edid.manufacturer, "AZM");
  EXPECT_EQ(edid.product, 0x1234U);
  EXPECT_EQ(edid.serial, 0x9ABC5678U);
  EXPECT_EQ(edid.version, 1U);
  EXPECT_EQ(edid.revision, 3U);
  EXPECT_EQ(edid.extension_blocks, 5U);
  EXPECT_EQ(edid.name, "");
  EXPECT_FALSE(edid.has_range_limits);
  EXPECT_TRUE(edid.timings.empty());
  put(&bytes, 8, {0x03, 0x7F});  // 0, 27, 31: no letters
  EXPECT_EQ(read(bytes).manufacturer, "???");
}

// Anything behind the first block is nobody's business; a caller may not care why.
TEST(EdidBytes, OneBlockIsRead) {
  Bytes bytes = plain();
  bytes.resize(300, 0xAA);
  EXPECT_TRUE(parse_edid(finished(bytes)).has_value());
  bytes.resize(128);
  EXPECT_TRUE(parse_edid(finished(bytes)).has_value());
  const std::vector<std::byte> block = finished(bytes);
  EXPECT_EQ(parse_edid(std::span(block).first(127)).error(), Status::kInvalidParameter);
}

TEST(EdidBytes, DetailedFieldsAreRead) {
  DXGKIT_COVERS("VIDPN-30");
  struct Row {
    Bytes bytes;
    EdidTiming wanted;
  };
  const Row rows[] = {
      {{0x39, 0x30, 0x56, 0x23, 0x71, 0x56, 0x2D, 0x42},
       {.pixel_clock_hz = 123'450'000,
        .width = 0x756,
        .height = 0x456,
        .total_width = 0x756 + 0x123,
        .total_height = 0x456 + 0x22D,
        .refresh_millihertz = 34'142}},
      {{0x39, 0x30, 0x56, 0x23, 0x71, 0x56, 0x2D, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80},
       {.pixel_clock_hz = 123'450'000,
        .width = 0x756,
        .height = 2 * 0x456,
        .total_width = 0x756 + 0x123,
        .total_height = 2 * (0x456 + 0x22D) + 1,
        .refresh_millihertz = 34'132,
        .interlaced = true}},
      // A clock of which only the low or only the high byte is there.
      {{0xFF, 0, 100, 60, 0, 90, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7F},
       {.pixel_clock_hz = 2'550'000,
        .width = 100,
        .height = 90,
        .total_width = 160,
        .total_height = 100,
        .refresh_millihertz = 159'375}},
      {{0, 1, 100, 60, 0, 90, 10, 0},
       {.pixel_clock_hz = 2'560'000,
        .width = 100,
        .height = 90,
        .total_width = 160,
        .total_height = 100,
        .refresh_millihertz = 160'000}},
  };
  for (size_t slot = 0; slot < 4; ++slot) {
    for (const Row& row : rows) {
      Bytes bytes = plain();
      bytes[54 + 18 * slot + 3] = 0;
      put(&bytes, 54 + 18 * slot, row.bytes);
      const Edid edid = read(bytes);
      ASSERT_EQ(edid.timings.size(), 1U) << slot;
      EXPECT_EQ(edid.timings[0], row.wanted) << slot;
    }
  }
}

// Zero sizes and rates below 1 Hz or above 1000 Hz are no timings.
TEST(EdidBytes, SenselessTimingsAreLeftOut) {
  const std::pair<Bytes, std::vector<uint32_t>> rows[] = {
      {small_timing(6, 0, 10, 90, 100), {}},
      {small_timing(6, 10, 10, 0, 100), {}},
      {small_timing(6, 0, 0, 90, 100), {}},
      {small_timing(6, 10, 10, 0, 0), {}},
      {small_timing(6, 10, 10, 90, 100), {60'000}},
      {small_timing(1, 60, 100, 90, 100), {1'000}},
      {small_timing(1, 60, 73, 90, 137), {}},  // 999 mHz
      {small_timing(1000, 60, 100, 90, 100), {1'000'000}},
      {small_timing(1001, 60, 100, 90, 100), {}},
      {small_timing(859, 1, 1, 1, 1), {}},  // 65408 in 32 bits
  };
  size_t row = 0;
  for (const auto& [descriptor, wanted] : rows) {
    Bytes bytes = plain();
    put(&bytes, 54, descriptor);
    EXPECT_EQ(refreshes(read(bytes)), wanted) << row;
    ++row;
  }
}

// One timing is another one's double when size, interlacing and rounded rate are the same; each of
// them alone makes two.
TEST(EdidBytes, DoublesAreLeftOut) {
  Bytes bytes = plain();
  put(&bytes, 54, small_timing(6, 60, 100, 90, 100));
  put(&bytes, 72, small_timing(6, 61, 100, 90, 100));
  put(&bytes, 90, small_timing(6, 60, 100, 91, 100));
  put(&bytes, 108, small_timing(6, 60, 100, 45, 100, true));
  EXPECT_EQ(read(bytes).timings.size(), 4U);
  bytes = plain();
  put(&bytes, 54, small_timing(1190, 160, 489, 90, 409));  // 59499: 59 Hz
  put(&bytes, 72, small_timing(119, 160, 200, 90, 100));   // 59500: 60 Hz
  put(&bytes, 90, small_timing(1210, 160, 489, 90, 409));  // 60499: 60 Hz
  put(&bytes, 108, small_timing(121, 160, 200, 90, 100));  // 60500: 61 Hz
  EXPECT_EQ(refreshes(read(bytes)), (std::vector<uint32_t>{59'499, 59'500, 60'500}));
}

TEST(EdidBytes, StandardTimingsAreRead) {
  DXGKIT_COVERS("VIDPN-30");
  struct Row {
    uint8_t first, second, revision;
    uint32_t width, height, hertz;
  };
  const Row rows[] = {
      {0x01, 0x00, 4, 256, 160, 60},   {0x02, 0x01, 4, 264, 165, 61},
      {0x81, 0x00, 3, 1280, 800, 60},  {0x81, 0x00, 2, 1280, 1280, 60},
      {0x81, 0x41, 2, 1280, 960, 61},  {0x81, 0x82, 2, 1280, 1024, 62},
      {0x81, 0xC4, 2, 1280, 720, 64},  {0xFF, 0x7F, 4, 2288, 1716, 123},
      {0xD1, 0xE0, 4, 1920, 1080, 92}, {0x00, 0x41, 4, 0, 0, 0},
      {0x01, 0x01, 4, 0, 0, 0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(::testing::Message() << int{row.first} << " " << int{row.second});
    std::vector<EdidTiming> wanted;
    if (row.width != 0)
      wanted = {{.kind = Kind::kStandard,
                 .width = row.width,
                 .height = row.height,
                 .refresh_millihertz = row.hertz * 1000}};
    for (size_t slot = 0; slot < 8; ++slot) {
      Bytes bytes = plain();
      bytes[19] = row.revision;
      put(&bytes, 38 + 2 * slot, {row.first, row.second});
      EXPECT_EQ(read(bytes).timings, wanted) << slot;
    }
    // The same codes in a descriptor: six of them, and the byte behind them is none.
    for (size_t at = 5; at < 17; at += 2) {
      Bytes bytes = plain();
      bytes[19] = row.revision;
      put(&bytes, 72, {0, 0, 0, 0xFA, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0x0A});
      put(&bytes, 72 + at, {row.first, row.second});
      EXPECT_EQ(read(bytes).timings, wanted) << at;
    }
  }
}

// Detailed timings first, then those of the block, those of its descriptors, the established ones.
TEST(EdidBytes, TimingsComeInTheirOrder) {
  Bytes bytes = plain();
  bytes[35] = 0x20;
  put(&bytes, 38, {0x81, 0x40, 0xA9, 0x40});
  put(&bytes, 54, {0, 0, 0, 0xFA, 0, 0x95, 0x00, 0xB3, 0x00, 1, 1, 1, 1, 1, 1, 1, 1, 0x0A});
  put(&bytes, 72, small_timing(6, 60, 100, 90, 100));
  std::vector<uint32_t> widths;
  for (const EdidTiming& timing : read(bytes).timings) widths.push_back(timing.width);
  EXPECT_EQ(widths, (std::vector<uint32_t>{60, 1280, 1600, 1440, 1680, 640}));
}

TEST(EdidBytes, EachEstablishedBitIsItsTiming) {
  DXGKIT_COVERS("VIDPN-30");
  struct Row {
    uint32_t width, height, hertz;
  };
  // From bit 7 of byte 35 down to bit 7 of byte 37; below that the manufacturer's own.
  const Row rows[] = {{720, 400, 70},  {720, 400, 88},  {640, 480, 60},  {640, 480, 67},
                      {640, 480, 72},  {640, 480, 75},  {800, 600, 56},  {800, 600, 60},
                      {800, 600, 72},  {800, 600, 75},  {832, 624, 75},  {1024, 768, 87},
                      {1024, 768, 60}, {1024, 768, 70}, {1024, 768, 75}, {1280, 1024, 75},
                      {1152, 870, 75}};
  for (size_t bit = 0; bit < 24; ++bit) {
    std::vector<EdidTiming> wanted;
    if (bit < std::size(rows))
      wanted = {{.kind = Kind::kEstablished,
                 .width = rows[bit].width,
                 .height = rows[bit].height,
                 .refresh_millihertz = rows[bit].hertz * 1000,
                 .interlaced = bit == 11}};
    Bytes bytes = plain();
    bytes[35 + bit / 8] = static_cast<uint8_t>(0x80 >> bit % 8);
    EXPECT_EQ(read(bytes).timings, wanted) << bit;
    if (wanted.empty()) continue;
    // And back: the same bit, no standard timing.
    const std::vector<std::byte> built = build_edid(of(wanted[0]));
    for (size_t at = 35; at < 54; ++at)
      EXPECT_EQ(static_cast<uint8_t>(built[at]), bytes[at]) << bit << " " << at;
  }
}

TEST(EdidBytes, RangeLimitsAreRead) {
  DXGKIT_COVERS("VIDPN-30");
  for (const uint8_t revision : {uint8_t{3}, uint8_t{4}}) {
    for (uint32_t offsets = 0; offsets < 256; ++offsets) {
      Bytes bytes = plain();
      bytes[19] = revision;
      put(&bytes, 90, {0, 0, 0, 0xFD, static_cast<uint8_t>(offsets), 11, 22, 33, 44, 55});
      const Edid edid = read(bytes);
      ASSERT_TRUE(edid.has_range_limits);
      // Per pair of bits: 3 both limits, 2 the upper one, 255 more.
      const uint32_t vertical = revision < 4 ? 0 : offsets % 4;
      const uint32_t horizontal = revision < 4 ? 0 : offsets / 4 % 4;
      EXPECT_EQ(edid.vsync_min_hz, vertical == 3 ? 266U : 11U) << offsets;
      EXPECT_EQ(edid.vsync_max_hz, vertical >= 2 ? 277U : 22U) << offsets;
      EXPECT_EQ(edid.hsync_min_khz, horizontal == 3 ? 288U : 33U) << offsets;
      EXPECT_EQ(edid.hsync_max_khz, horizontal >= 2 ? 299U : 44U) << offsets;
      EXPECT_EQ(edid.pixel_clock_max_mhz, 550U);
      EXPECT_EQ(edid.name, "");
      EXPECT_TRUE(edid.timings.empty());
    }
  }
}

TEST(EdidBytes, NamesAreRead) {
  const std::pair<Bytes, const char*> rows[] = {
      {{'A', 'b', '\n', 'c', ' ', ' '}, "Ab"},
      {{'1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd'}, "123456789abcd"},
      {{' ', 'x', ' ', ' ', 'y', ' ', ' ', '\n'}, " x  y"},
      {{0x1F, 0x20, 0x7E, 0x7F, 0xFF, '\n'}, "? ~??"},
      {{' ', ' ', '\n'}, ""},
      {{'\n'}, ""},
  };
  for (const auto& [text, wanted] : rows) {
    for (size_t slot = 0; slot < 4; ++slot) {
      Bytes bytes = plain();
      bytes[54 + 18 * slot + 3] = 0xFC;
      put(&bytes, 54 + 18 * slot + 5, text);
      const Edid edid = read(bytes);
      EXPECT_EQ(edid.name, wanted);
      EXPECT_FALSE(edid.has_range_limits);
      EXPECT_TRUE(edid.timings.empty());
    }
  }
}

TEST(EdidBytes, TheDefaultMonitorIsWritten) {
  DXGKIT_COVERS("VIDPN-30");
  const Bytes wanted = {
      0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x00,              // header
      0x13, 0x0B, 0x80, 0x10, 0x01, 0x00, 0x00, 0x00,              // DXK 1080, serial 1
      0x01, 0x22, 0x01, 0x04,                                      // 2024, 1.4
      0xA5, 0x35, 0x1E, 0x78, 0x06,                                // digital, 53 x 30 cm, gamma 2.2
      0xEE, 0x91, 0xA3, 0x54, 0x4C, 0x99, 0x26, 0x0F, 0x50, 0x54,  // sRGB
      0x21, 0x08, 0x00,                                            // 640, 800, 1024
      0xB3, 0x00, 0x81, 0x80, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01,
      0x01, 0x02, 0x3A, 0x80, 0x18, 0x71, 0x38, 0x2D, 0x40, 0x58, 0x2C, 0x45, 0x00, 0x13, 0x2B,
      0x21, 0x00, 0x00, 0x1E, 0x01, 0x1D, 0x00, 0x72, 0x51, 0xD0, 0x1E, 0x20, 0x74, 0x3A, 0x23,
      0x00, 0x13, 0x2B, 0x21, 0x00, 0x00, 0x1E, 0x00, 0x00, 0x00, 0xFC, 0x00, 0x64, 0x78, 0x67,
      0x6B, 0x69, 0x74, 0x20, 0x31, 0x30, 0x38, 0x30, 0x70, 0x0A, 0x00, 0x00, 0x00, 0xFD, 0x00,
      0x30, 0x4B, 0x1E, 0x55, 0x11, 0x01, 0x0A, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x00, 0x7E};
  const std::vector<std::byte> built = build_edid(default_edid());
  ASSERT_EQ(built.size(), wanted.size());
  for (size_t at = 0; at < wanted.size(); ++at)
    EXPECT_EQ(static_cast<uint8_t>(built[at]), wanted[at]) << at;
}

Bytes built_bytes(const Edid& edid, size_t at, size_t count) {
  const std::vector<std::byte> built = build_edid(edid);
  EXPECT_TRUE(parse_edid(built).has_value());
  Bytes out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<uint8_t>(built[at + i]));
  return out;
}

TEST(EdidBytes, HeaderFieldsAreWritten) {
  Edid edid;
  edid.manufacturer = "AZM";
  edid.product = 0x1234;
  edid.serial = 0x9ABC5678;
  edid.revision = 3;
  edid.extension_blocks = 7;
  EXPECT_EQ(built_bytes(edid, 8, 12),
            (Bytes{0x07, 0x4D, 0x34, 0x12, 0x78, 0x56, 0xBC, 0x9A, 1, 34, 1, 3}));
  EXPECT_EQ(built_bytes(edid, 126, 1), (Bytes{7}));
  edid.manufacturer = "Z";
  EXPECT_EQ(built_bytes(edid, 8, 2), (Bytes{0x68, 0x21}));  // "ZAA"
  edid.manufacturer = "azb";                                // 33, 58, 34 in five bits
  EXPECT_EQ(built_bytes(edid, 8, 2), (Bytes{0x07, 0x42}));
}

TEST(EdidBytes, DetailedFieldsAreWritten) {
  DXGKIT_COVERS("VIDPN-30");
  struct Row {
    EdidTiming timing;
    Bytes wanted;
  };
  const Row rows[] = {
      {{.pixel_clock_hz = 123'459'999,
        .width = 1878,
        .height = 1110,
        .total_width = 2169,
        .total_height = 1667},
       {0x39, 0x30, 0x56, 0x23, 0x71, 0x56, 0x2D, 0x42, 0x5B, 0x2D, 0x1D, 0x0F}},
      {{.pixel_clock_hz = 300'000'000,
        .width = 2560,
        .height = 1440,
        .total_width = 3560,
        .total_height = 1640},
       {0x30, 0x75, 0x00, 0xE8, 0xA3, 0xA0, 0xC8, 0x50, 0x3A, 0x9D, 0x16, 0x45}},
      // Vertical pulse, then horizontal porch at the end of their bits.
      {{.pixel_clock_hz = 400'000'000,
        .width = 300,
        .height = 400,
        .total_width = 2000,
        .total_height = 1110},
       {0x40, 0x9C, 0x2C, 0xA4, 0x16, 0x90, 0xC6, 0x12, 0x16, 0x0B, 0xFF, 0x9F}},
      {{.pixel_clock_hz = 400'000'000,
        .width = 300,
        .height = 400,
        .total_width = 3600,
        .total_height = 1000},
       {0x40, 0x9C, 0x2C, 0xE4, 0x1C, 0x90, 0x58, 0x12, 0xFF, 0x06, 0x5F, 0xEF}},
      // The largest and the smallest there are.
      {{.pixel_clock_hz = 655'359'999,
        .width = 4095,
        .height = 4095,
        .total_width = 8190,
        .total_height = 8190},
       {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x83, 0xFF, 0xEF}},
      {{.pixel_clock_hz = 10'000, .width = 1, .height = 1, .total_width = 1, .total_height = 1},
       {0x01, 0x00, 0x01, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}},
  };
  for (const Row& row : rows) {
    Bytes wanted = row.wanted;
    wanted.insert(wanted.end(), {0x13, 0x2B, 0x21, 0x00, 0x00, 0x1E});  // 531 x 299 mm
    EXPECT_EQ(built_bytes(of(row.timing), 54, 18), wanted) << row.timing.width;
  }
  // Interlaced: the lines of one field.
  const EdidTiming fields = {.pixel_clock_hz = 74'250'000,
                             .width = 1920,
                             .height = 1080,
                             .total_width = 2200,
                             .total_height = 1125,
                             .interlaced = true};
  EXPECT_EQ(built_bytes(of(fields), 54, 18),
            (Bytes{0x01, 0x1D, 0x80, 0x18, 0x71, 0x1C, 0x16, 0x20, 0x58, 0x2C, 0x12, 0x00, 0x13,
                   0x2B, 0x21, 0x00, 0x00, 0x9E}));
}

// One step beyond what a descriptor can say, one member at a time: no descriptor, rather than a
// wrong one.
TEST(EdidBytes, DetailedTimingsThatDoNotFitAreLeftOut) {
  struct Row {
    const char* sentence;
    EdidTiming timing;
    bool fits;
  };
  const EdidTiming good = {.pixel_clock_hz = 10'000'000,
                           .width = 100,
                           .height = 90,
                           .total_width = 130,
                           .total_height = 110};
  const auto with = [&](auto change) {
    EdidTiming timing = good;
    change(timing);
    return timing;
  };
  const Row rows[] = {
      {"good", good, true},
      {"least clock", with([](auto& t) { t.pixel_clock_hz = 10'000; }), true},
      {"no clock", with([](auto& t) { t.pixel_clock_hz = 9'999; }), false},
      {"largest clock", with([](auto& t) { t.pixel_clock_hz = 655'359'999; }), true},
      {"larger clock", with([](auto& t) { t.pixel_clock_hz = 655'360'000; }), false},
      {"one pixel", with([](auto& t) { t.width = 1; }), true},
      {"no pixel", with([](auto& t) { t.width = 0; }), false},
      {"widest", with([](auto& t) { t.width = 4095, t.total_width = 4100; }), true},
      {"wider", with([](auto& t) { t.width = 4096, t.total_width = 4100; }), false},
      {"no blanking", with([](auto& t) { t.total_width = 100; }), true},
      {"less than none", with([](auto& t) { t.total_width = 99; }), false},
      {"most blanking", with([](auto& t) { t.total_width = 4195; }), true},
      {"more blanking", with([](auto& t) { t.total_width = 4196; }), false},
      {"one line", with([](auto& t) { t.height = 1; }), true},
      {"no line", with([](auto& t) { t.height = 0; }), false},
      {"highest", with([](auto& t) { t.height = 4095, t.total_height = 4100; }), true},
      {"higher", with([](auto& t) { t.height = 4096, t.total_height = 4100; }), false},
      {"no blank line", with([](auto& t) { t.total_height = 90; }), true},
      {"less than no blank line", with([](auto& t) { t.total_height = 89; }), false},
      {"most blank lines", with([](auto& t) { t.total_height = 4185; }), true},
      {"more blank lines", with([](auto& t) { t.total_height = 4186; }), false},
      {"highest field",
       with([](auto& t) { t.interlaced = true, t.height = 8190, t.total_height = 8201; }), true},
      {"higher field",
       with([](auto& t) { t.interlaced = true, t.height = 8192, t.total_height = 8201; }), false},
      {"a field without blanking", with([](auto& t) { t.interlaced = true, t.total_height = 91; }),
       true},
      {"a field of less", with([](auto& t) { t.interlaced = true, t.total_height = 90; }), false},
      {"a field of most blanking",
       with([](auto& t) { t.interlaced = true, t.total_height = 2 * (45 + 4095) + 1; }), true},
      {"a field of more blanking",
       with([](auto& t) { t.interlaced = true, t.total_height = 2 * (45 + 4096) + 1; }), false},
  };
  for (const Row& row : rows) {
    const Bytes built = built_bytes(of(row.timing), 54, 18);
    EXPECT_EQ(built[0] != 0 || built[1] != 0, row.fits) << row.sentence;
    EXPECT_EQ(built[3] == 0x10, !row.fits) << row.sentence;
    if (!row.fits) continue;
    Bytes bytes = plain();
    put(&bytes, 54, built);
    for (const EdidTiming& timing : read(bytes).timings) {
      EXPECT_EQ(timing.width, row.timing.width) << row.sentence;
      EXPECT_EQ(timing.height, row.timing.height) << row.sentence;
      EXPECT_EQ(timing.total_width, row.timing.total_width) << row.sentence;
      EXPECT_EQ(timing.total_height, row.timing.total_height) << row.sentence;
    }
  }
}

TEST(EdidBytes, StandardTimingsAreWritten) {
  DXGKIT_COVERS("VIDPN-30");
  struct Row {
    const char* sentence;
    uint32_t width, height, millihertz;
    bool interlaced;
    Bytes wanted;
    uint8_t revision = 4;
  };
  const Row rows[] = {
      {"16:10", 1280, 800, 61'000, false, {0x81, 0x01}},
      {"4:3", 1280, 960, 62'000, false, {0x81, 0x42}},
      {"5:4", 1280, 1024, 63'000, false, {0x81, 0x83}},
      {"16:9", 1280, 720, 64'000, false, {0x81, 0xC4}},
      {"no such shape", 1280, 768, 60'000, false, {1, 1}},
      {"a square before 1.3", 1280, 1280, 60'000, false, {0x81, 0x00}, 2},
      {"a square since", 1280, 1280, 60'000, false, {1, 1}, 3},
      {"16:10 before 1.3", 1280, 800, 60'000, false, {1, 1}, 2},
      {"16:10 since", 1280, 800, 60'000, false, {0x81, 0x00}, 3},
      {"not of eight pixels", 1284, 963, 60'000, false, {1, 1}},
      {"narrowest", 256, 192, 60'000, false, {0x01, 0x40}},
      {"narrower", 248, 186, 60'000, false, {1, 1}},
      {"widest", 2288, 1716, 60'000, false, {0xFF, 0x40}},
      {"wider", 2296, 1722, 60'000, false, {1, 1}},
      {"slowest", 1280, 960, 60'000, false, {0x81, 0x40}},
      {"slower", 1280, 960, 59'000, false, {1, 1}},
      {"fastest", 1280, 960, 123'000, false, {0x81, 0x7F}},
      {"faster", 1280, 960, 124'000, false, {1, 1}},
      {"between two rates", 1280, 960, 60'001, false, {1, 1}},
      {"interlaced", 1280, 960, 60'000, true, {1, 1}},
  };
  for (const Row& row : rows) {
    const EdidTiming timing = {.kind = Kind::kStandard,
                               .width = row.width,
                               .height = row.height,
                               .refresh_millihertz = row.millihertz,
                               .interlaced = row.interlaced};
    Bytes wanted(16, 1);
    put(&wanted, 0, row.wanted);
    EXPECT_EQ(built_bytes(of(timing, row.revision), 38, 16), wanted) << row.sentence;
    // An established timing that is none of the known ones is coded like it.
    EdidTiming unknown = timing;
    unknown.kind = Kind::kEstablished;
    EXPECT_EQ(built_bytes(of(unknown, row.revision), 38, 16), wanted) << row.sentence;
  }
}

// An established timing is known by width, height, rate and interlacing together.
TEST(EdidBytes, EstablishedTimingsAreKnownByAllMembers) {
  const EdidTiming known = {.kind = Kind::kEstablished,
                            .width = 1024,
                            .height = 768,
                            .refresh_millihertz = 87'000,
                            .interlaced = true};
  EXPECT_EQ(built_bytes(of(known), 35, 3), (Bytes{0, 0x10, 0}));
  for (int member = 0; member < 5; ++member) {
    EdidTiming other = known;
    if (member == 0) other.width = 1023;
    if (member == 1) other.height = 767;
    if (member == 2) other.refresh_millihertz = 86'999;
    if (member == 3) other.interlaced = false;
    if (member == 4) other.kind = Kind::kStandard;
    EXPECT_EQ(built_bytes(of(other), 35, 3), (Bytes{0, 0, 0})) << member;
  }
}

// Eight standard timings have a place, in their order; the ninth has none.
TEST(EdidBytes, EightStandardTimingsHaveAPlace) {
  Edid edid;
  Bytes wanted;
  for (uint32_t i = 0; i < 10; ++i) {
    edid.timings.push_back({.kind = Kind::kStandard,
                            .width = 1280,
                            .height = 960,
                            .refresh_millihertz = (60 + i) * 1000});
    if (i < 8) wanted.insert(wanted.end(), {0x81, static_cast<uint8_t>(0x40 + i)});
  }
  EXPECT_EQ(built_bytes(edid, 38, 16), wanted);
  EXPECT_EQ(built_bytes(edid, 54, 4), (Bytes{0, 0, 0, 0x10}));
}

// Name and limits take a descriptor each; detailed timings get the others, and what is left over
// becomes a standard timing.
TEST(EdidBytes, DescriptorsAreSharedOut) {
  DXGKIT_COVERS("VIDPN-30");
  for (int texts = 0; texts < 4; ++texts) {
    Edid edid;
    if ((texts & 1) != 0) edid.name = "N";
    edid.has_range_limits = (texts & 2) != 0;
    for (uint32_t i = 0; i < 5; ++i)
      edid.timings.push_back({.pixel_clock_hz = 50'000'000 + i * 10'000,
                              .width = 1280,
                              .height = 960,
                              .total_width = 1300,
                              .total_height = 970,
                              .refresh_millihertz = (70 + i) * 1000});
    const size_t taken = (edid.name.empty() ? 0U : 1U) + (edid.has_range_limits ? 1U : 0U);
    const size_t detailed = 4 - taken;
    for (size_t i = 0; i < detailed; ++i)
      EXPECT_EQ(built_bytes(edid, 54 + 18 * i, 1)[0], 0x88 + i) << texts;  // 5000 + i
    size_t next = detailed;
    if (!edid.name.empty()) {
      EXPECT_EQ(built_bytes(edid, 54 + 18 * next++, 7), (Bytes{0, 0, 0, 0xFC, 0, 'N', '\n'}));
    }
    if (edid.has_range_limits) {
      EXPECT_EQ(built_bytes(edid, 54 + 18 * next++, 5), (Bytes{0, 0, 0, 0xFD, 0}));
    }
    EXPECT_EQ(next, 4U);
    for (size_t i = 0; i < 5 - detailed; ++i)
      EXPECT_EQ(built_bytes(edid, 38 + 2 * i, 2),
                (Bytes{0x81, static_cast<uint8_t>(0x40 + 10 + detailed + i)}));
  }
}

TEST(EdidBytes, NamesAreWritten) {
  const std::pair<const char*, const char*> rows[] = {
      {"A", "A\n           "},
      {"123456789abc", "123456789abc\n"},
      {"123456789abcd", "123456789abcd"},
      {"123456789abcdef", "123456789abcd"},
  };
  for (const auto& [name, wanted] : rows) {
    const Bytes built = built_bytes(named(name), 54, 18);
    EXPECT_EQ(std::string(built.begin() + 5, built.end()), wanted);
    EXPECT_EQ(built_bytes(named(name), 54, 5), (Bytes{0, 0, 0, 0xFC, 0}));
  }
}

TEST(EdidBytes, RangeLimitsAreWritten) {
  struct Row {
    uint32_t vertical_min, vertical_max, horizontal_min, horizontal_max, clock;
    Bytes wanted;
  };
  const Row rows[] = {
      {40, 75, 30, 85, 170, {0x00, 40, 75, 30, 85, 17}},
      {255, 255, 254, 255, 2550, {0x00, 255, 255, 254, 255, 255}},
      {40, 256, 30, 85, 2560, {0x02, 40, 1, 30, 85, 255}},
      {256, 300, 30, 85, 179, {0x03, 1, 45, 30, 85, 17}},
      {40, 75, 30, 256, 10, {0x08, 40, 75, 30, 1, 1}},
      {40, 75, 256, 300, 9, {0x0C, 40, 75, 1, 45, 0}},
      {260, 280, 40, 400, 5000, {0x0B, 5, 25, 40, 145, 255}},
  };
  for (const Row& row : rows) {
    Edid edid;
    edid.has_range_limits = true;
    edid.vsync_min_hz = row.vertical_min;
    edid.vsync_max_hz = row.vertical_max;
    edid.hsync_min_khz = row.horizontal_min;
    edid.hsync_max_khz = row.horizontal_max;
    edid.pixel_clock_max_mhz = row.clock;
    Bytes wanted = {0, 0, 0, 0xFD};
    wanted.insert(wanted.end(), row.wanted.begin(), row.wanted.end());
    wanted.insert(wanted.end(), {1, '\n', ' ', ' ', ' ', ' ', ' ', ' '});
    EXPECT_EQ(built_bytes(edid, 54, 18), wanted) << row.clock;
  }
}

TEST(EdidBytes, SlotsThatAreLeftAreDummies) {
  const Edid edid = named("x");
  for (size_t slot = 1; slot < 4; ++slot) {
    Bytes wanted(18);
    wanted[3] = 0x10;
    EXPECT_EQ(built_bytes(edid, 54 + 18 * slot, 18), wanted) << slot;
  }
}

// Each kind of timing as the signal of a monitor mode.
TEST(EdidBytes, MonitorModesSayTheirSignal) {
  DXGKIT_COVERS("VIDPN-30");
  Bytes bytes = plain();
  bytes[36] = 0x10;  // 1024x768 interlaced
  put(&bytes, 38, {0x81, 0x42});
  put(&bytes, 54, {0x39, 0x30, 0x56, 0x23, 0x71, 0x56, 0x2D, 0x42});
  bytes[57] = 0x23;
  put(&bytes, 72, small_timing(7425, 1920, 2200, 540, 562, true));
  const Result<Monitor> monitor = monitor_from_edid(finished(bytes));
  ASSERT_TRUE(monitor.has_value());
  const Rational open{kNotSpecified, kNotSpecified};
  const Size open_size{kNotSpecified, kNotSpecified};
  const Signal wanted[] = {
      {.standard = 255,
       .total = {2169, 1667},
       .active = {1878, 1110},
       .vsync = {41'150'000, 1'205'241},
       .hsync = {41'150'000, 723},
       .pixel_rate = 123'450'000,
       .scanline_ordering = 1},
      {.standard = 255,
       .total = {2200, 1125},
       .active = {1920, 1080},
       .vsync = {60, 1},
       .hsync = {33'750, 1},
       .pixel_rate = 74'250'000,
       .scanline_ordering = 2},
      {.standard = 2,
       .total = open_size,
       .active = {1280, 960},
       .vsync = {62, 1},
       .hsync = open,
       .pixel_rate = kNotSpecified,
       .scanline_ordering = 1},
      {.standard = 1,
       .total = open_size,
       .active = {1024, 768},
       .vsync = {87, 1},
       .hsync = open,
       .pixel_rate = kNotSpecified,
       .scanline_ordering = 2},
  };
  ASSERT_EQ(monitor->modes.size(), std::size(wanted));
  for (uint32_t i = 0; i < std::size(wanted); ++i) {
    MonitorMode mode;
    mode.id = i + 1;
    mode.signal = wanted[i];
    mode.origin = D3DKMDT_MCO_MONITORDESCRIPTOR;
    mode.preference = i == 0 ? D3DKMDT_MP_PREFERRED : D3DKMDT_MP_NOTPREFERRED;
    EXPECT_EQ(monitor->modes[i], mode) << i << ": " << to_text(monitor->modes[i].signal);
  }
  EXPECT_TRUE(monitor->ranges.empty());
  // Only a first timing that is detailed is the preferred one.
  bytes = plain();
  put(&bytes, 38, {0x81, 0x42});
  ASSERT_EQ(monitor_from_edid(finished(bytes))->modes.size(), 1U);
  EXPECT_EQ(monitor_from_edid(finished(bytes))->modes[0].preference,
            static_cast<uint32_t>(D3DKMDT_MP_NOTPREFERRED));
}

TEST(EdidBytes, MonitorRangesComeFromTheLimits) {
  Edid edid = default_edid();
  edid.vsync_min_hz = 41;
  edid.hsync_min_khz = 31;
  edid.hsync_max_khz = 86;
  const Result<Monitor> monitor = monitor_from_edid(build_edid(edid));
  ASSERT_TRUE(monitor.has_value());
  const FrequencyRange wanted = {.origin = D3DKMDT_MCO_MONITORDESCRIPTOR,
                                 .vsync_min = {41, 1},
                                 .vsync_max = {75, 1},
                                 .hsync_min = {31'000, 1},
                                 .hsync_max = {86'000, 1},
                                 .pixel_rate_max = 170'000'000};
  EXPECT_EQ(monitor->ranges, std::vector<FrequencyRange>{wanted});
}

// A descriptor for each block that is promised and there whole.
TEST(EdidBytes, MonitorDescriptorsAreTheBlocks) {
  DXGKIT_COVERS("VIDPN-30");
  struct Row {
    uint8_t promised;
    size_t bytes, wanted;
  };
  for (const Row& row : {Row{0, 384, 1}, Row{1, 384, 2}, Row{2, 384, 3}, Row{3, 384, 3},
                         Row{3, 383, 2}, Row{3, 256, 2}, Row{3, 255, 1}, Row{3, 128, 1}}) {
    Bytes bytes = plain();
    bytes[126] = row.promised;
    bytes.resize(384);
    bytes[128] = 0xF0;
    bytes[129] = 0x12;
    bytes[256] = 0x02;
    bytes[383] = 0x34;
    std::vector<std::byte> all = finished(bytes);
    all.resize(row.bytes);
    const Result<Monitor> monitor = monitor_from_edid(all);
    ASSERT_TRUE(monitor.has_value());
    std::vector<MonitorDescriptor> wanted;
    const uint32_t types[] = {D3DKMDT_MDT_VESA_EDID_V1_BASEBLOCK, D3DKMDT_MDT_VESA_EDID_V1_BLOCKMAP,
                              D3DKMDT_MDT_OTHER};
    for (uint32_t i = 0; i < row.wanted; ++i) {
      const auto block = std::span(all).subspan(i * 128U, 128);
      wanted.push_back({.id = i,
                        .type = types[i],
                        .data = {block.begin(), block.end()},
                        .origin = D3DKMDT_MCO_MONITORDESCRIPTOR});
    }
    EXPECT_EQ(monitor->descriptors, wanted) << row.bytes;
  }
}

// Without descriptor: five sizes at 60 Hz of the default profile. An EDID without timings has the
// same.
TEST(EdidBytes, AMonitorThatSaysNothingHasTheDefaultModes) {
  DXGKIT_COVERS("VIDPN-30");
  const Size sizes[] = {{640, 480}, {800, 600}, {1024, 768}, {1280, 1024}, {1920, 1080}};
  std::vector<MonitorMode> wanted;
  for (uint32_t i = 0; i < 5; ++i) {
    MonitorMode mode;
    mode.id = i + 1;
    mode.signal = {.standard = D3DKMDT_VSS_VESA_DMT,
                   .total = {kNotSpecified, kNotSpecified},
                   .active = sizes[i],
                   .vsync = {60, 1},
                   .hsync = {kNotSpecified, kNotSpecified},
                   .pixel_rate = kNotSpecified,
                   .scanline_ordering = D3DDDI_VSSLO_PROGRESSIVE};
    mode.origin = D3DKMDT_MCO_DEFAULTMONITORPROFILE;
    mode.preference = i == 2 ? D3DKMDT_MP_PREFERRED : D3DKMDT_MP_NOTPREFERRED;
    wanted.push_back(mode);
  }
  const Monitor monitor = default_monitor();
  EXPECT_EQ(monitor.modes, wanted);
  EXPECT_TRUE(monitor.ranges.empty());
  EXPECT_TRUE(monitor.descriptors.empty());
  EXPECT_EQ(monitor_from_edid(finished(plain()))->modes, wanted);
}

}  // namespace
}  // namespace dxgkit::vidpn
