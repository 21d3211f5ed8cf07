// EDID written byte by byte, against bytes worked out by hand.
#include <gtest/gtest.h>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"
#include "vidpn/edid_blocks_test.h"

namespace dxgkit::vidpn {
namespace {

TEST(EdidBuild, TheDefaultMonitorIsWritten) {
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

TEST(EdidBuild, HeaderFieldsAreWritten) {
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

TEST(EdidBuild, DetailedFieldsAreWritten) {
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
TEST(EdidBuild, DetailedTimingsThatDoNotFitAreLeftOut) {
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

TEST(EdidBuild, StandardTimingsAreWritten) {
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
TEST(EdidBuild, EstablishedTimingsAreKnownByAllMembers) {
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
TEST(EdidBuild, EightStandardTimingsHaveAPlace) {
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
TEST(EdidBuild, DescriptorsAreSharedOut) {
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

TEST(EdidBuild, NamesAreWritten) {
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

TEST(EdidBuild, RangeLimitsAreWritten) {
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

TEST(EdidBuild, SlotsThatAreLeftAreDummies) {
  const Edid edid = named("x");
  for (size_t slot = 1; slot < 4; ++slot) {
    Bytes wanted(18);
    wanted[3] = 0x10;
    EXPECT_EQ(built_bytes(edid, 54 + 18 * slot, 18), wanted) << slot;
  }
}

}  // namespace
}  // namespace dxgkit::vidpn
