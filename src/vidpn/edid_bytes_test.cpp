// EDID byte by byte: where each value stands in a block, and both sides of each bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"
#include "vidpn/edid.h"

namespace dxgkit::vidpn {
namespace {

using Bytes = std::vector<uint8_t>;
using Kind = EdidTiming::Kind;

Bytes numbers(std::span<const std::byte> block) {
  Bytes out;
  for (const std::byte value : block) out.push_back(static_cast<uint8_t>(value));
  return out;
}

Bytes part(const std::vector<std::byte>& block, size_t at, size_t count) {
  return numbers(std::span(block).subspan(at, count));
}

Bytes descriptor(const std::vector<std::byte>& block, size_t index) {
  return part(block, 54 + 18 * index, 18);
}

/// A block without any timing, EDID 1.`revision`, with `bytes` at `at`.
struct Raw {
  std::vector<std::byte> block;

  explicit Raw(uint8_t revision = 4) {
    Edid edid;
    edid.manufacturer = "ABC";
    edid.revision = revision;
    block = build_edid(edid);
  }
  Raw& put(size_t at, const Bytes& bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) block[at + i] = static_cast<std::byte>(bytes[i]);
    return *this;
  }
  Edid read() {
    uint32_t sum = 0;
    for (size_t i = 0; i < 127; ++i) sum += static_cast<uint8_t>(block[i]);
    block[127] = static_cast<std::byte>(0U - sum);
    const Result<Edid> edid = parse_edid(block);
    EXPECT_TRUE(edid.has_value());
    return edid.has_value() ? *edid : Edid{};
  }
};

/// 18 bytes of a detailed timing. Blanking of a field, as the bytes count it.
Bytes detailed(uint32_t clock, uint32_t width, uint32_t blank_x, uint32_t lines, uint32_t blank_y,
               bool interlaced = false) {
  Bytes out(18);
  const auto low = [](uint32_t value) { return static_cast<uint8_t>(value); };
  out[0] = low(clock), out[1] = low(clock >> 8);
  out[2] = low(width), out[3] = low(blank_x), out[4] = low(width >> 8 << 4 | blank_x >> 8);
  out[5] = low(lines), out[6] = low(blank_y), out[7] = low(lines >> 8 << 4 | blank_y >> 8);
  out[17] = interlaced ? 0x80 : 0;
  return out;
}

EdidTiming coded(Kind kind, uint32_t width, uint32_t height, uint32_t hertz,
                 bool interlaced = false) {
  return {.kind = kind,
          .width = width,
          .height = height,
          .refresh_millihertz = hertz * 1000,
          .interlaced = interlaced};
}

EdidTiming signal(uint32_t clock, uint32_t width, uint32_t total_width, uint32_t height,
                  uint32_t total_height, bool interlaced = false) {
  EdidTiming timing{.pixel_clock_hz = clock,
                    .width = width,
                    .height = height,
                    .total_width = total_width,
                    .total_height = total_height,
                    .interlaced = interlaced};
  const uint64_t pixels = uint64_t{total_width} * total_height;
  if (pixels != 0)
    timing.refresh_millihertz =
        static_cast<uint32_t>(uint64_t{clock} * 1000 * (interlaced ? 2 : 1) / pixels);
  return timing;
}

Edid with_timings(std::vector<EdidTiming> timings) {
  Edid edid;
  edid.manufacturer = "ABC";
  edid.timings = std::move(timings);
  return edid;
}

constexpr uint8_t kUnused[] = {0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
const Bytes kDummy(std::begin(kUnused), std::end(kUnused));

TEST(EdidBytes, EachValueStandsInItsPlace) {
  DXGKIT_COVERS("VIDPN-30");
  Edid edid = with_timings({signal(594'000'000, 2560, 4560, 1440, 1940),
                            signal(74'250'000, 1920, 2200, 1080, 1125, true),
                            coded(Kind::kStandard, 1680, 1050, 75),
                            coded(Kind::kEstablished, 832, 624, 75)});
  edid.manufacturer = "AZM";
  edid.product = 0xB2C3;
  edid.serial = 0x1A2B3C4D;
  edid.revision = 4;
  edid.name = "dxg 27";
  edid.has_range_limits = true;
  edid.vsync_min_hz = 300, edid.vsync_max_hz = 360;
  edid.hsync_min_khz = 30, edid.hsync_max_khz = 400;
  edid.pixel_clock_max_mhz = 600;
  edid.extension_blocks = 2;
  const std::vector<std::byte> block = build_edid(edid);
  ASSERT_EQ(block.size(), 128U);
  EXPECT_EQ(part(block, 0, 8), (Bytes{0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x00}));
  EXPECT_EQ(part(block, 8, 2), (Bytes{0x07, 0x4D}));  // 1, 26, 13 of five bits each
  EXPECT_EQ(part(block, 10, 6), (Bytes{0xC3, 0xB2, 0x4D, 0x3C, 0x2B, 0x1A}));
  EXPECT_EQ(part(block, 16, 9), (Bytes{1, 34, 1, 4, 0xA5, 53, 30, 120, 6}));
  EXPECT_EQ(part(block, 25, 10),
            (Bytes{0xEE, 0x91, 0xA3, 0x54, 0x4C, 0x99, 0x26, 0x0F, 0x50, 0x54}));
  EXPECT_EQ(part(block, 35, 3), (Bytes{0, 0x20, 0}));
  EXPECT_EQ(part(block, 38, 16), (Bytes{179, 0x0F, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(descriptor(block, 0), (Bytes{0x08, 0xE8, 0x00, 0xD0, 0xA7, 0xA0, 0xF4, 0x51, 0x74, 0x3A,
                                         0xC7, 0x9B, 0x13, 0x2B, 0x21, 0, 0, 0x1E}));
  EXPECT_EQ(descriptor(block, 1), (Bytes{0x01, 0x1D, 0x80, 0x18, 0x71, 0x1C, 0x16, 0x20, 0x58, 0x2C,
                                         0x12, 0x00, 0x13, 0x2B, 0x21, 0, 0, 0x9E}));
  EXPECT_EQ(descriptor(block, 2), (Bytes{0, 0, 0, 0xFC, 0, 'd', 'x', 'g', ' ', '2', '7', '\n', ' ',
                                         ' ', ' ', ' ', ' ', ' '}));
  EXPECT_EQ(descriptor(block, 3), (Bytes{0, 0, 0, 0xFD, 0x0B, 45, 105, 30, 145, 60, 1, '\n', ' ',
                                         ' ', ' ', ' ', ' ', ' '}));
  EXPECT_EQ(part(block, 126, 1), (Bytes{2}));

  const Result<Edid> read = parse_edid(block);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->manufacturer, "AZM");
  EXPECT_EQ(read->product, 0xB2C3U);
  EXPECT_EQ(read->serial, 0x1A2B3C4DU);
  EXPECT_EQ(read->version, 1U);
  EXPECT_EQ(read->revision, 4U);
  EXPECT_EQ(read->name, "dxg 27");
  EXPECT_TRUE(read->has_range_limits);
  EXPECT_EQ(read->vsync_min_hz, 300U);
  EXPECT_EQ(read->vsync_max_hz, 360U);
  EXPECT_EQ(read->hsync_min_khz, 30U);
  EXPECT_EQ(read->hsync_max_khz, 400U);
  EXPECT_EQ(read->pixel_clock_max_mhz, 600U);
  EXPECT_EQ(read->extension_blocks, 2U);
  EXPECT_EQ(read->timings, edid.timings);
}

TEST(EdidBytes, PorchAndPulseOfManyLinesStopAt63) {
  const std::vector<std::byte> block =
      build_edid(with_timings({signal(655'350'000, 4095, 8190, 4095, 8190)}));
  EXPECT_EQ(descriptor(block, 0), (Bytes{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0x83,
                                         0xFF, 0x6F, 0x13, 0x2B, 0x21, 0, 0, 0x1E}));
  EXPECT_EQ(descriptor(block, 1), kDummy);
  EXPECT_EQ(descriptor(block, 3), kDummy);
}

TEST(EdidBytes, TheDefaultMonitorSaysWhatItIs) {
  const Edid edid = default_edid();
  EXPECT_EQ(edid.manufacturer, "DXK");
  EXPECT_EQ(edid.product, 0x1080U);
  EXPECT_EQ(edid.serial, 1U);
  EXPECT_EQ(edid.name, "dxgkit 1080p");
  const std::vector<std::byte> block = build_edid(edid);
  EXPECT_EQ(descriptor(block, 3),
            (Bytes{0, 0, 0, 0xFD, 0, 48, 75, 30, 85, 17, 1, '\n', ' ', ' ', ' ', ' ', ' ', ' '}));
  EXPECT_EQ(
      edid.timings,
      (std::vector<EdidTiming>{
          signal(148'500'000, 1920, 2200, 1080, 1125), signal(74'250'000, 1280, 1650, 720, 750),
          coded(Kind::kStandard, 1680, 1050, 60), coded(Kind::kStandard, 1280, 1024, 60),
          coded(Kind::kEstablished, 640, 480, 60), coded(Kind::kEstablished, 800, 600, 60),
          coded(Kind::kEstablished, 1024, 768, 60)}));
}

TEST(EdidBytes, LettersAreFiveBitsEach) {
  const auto letters = [](uint32_t value) {
    Raw raw;
    raw.put(8, {static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)});
    return raw.read().manufacturer;
  };
  EXPECT_EQ(letters(1 << 10 | 26 << 5 | 13), "AZM");
  EXPECT_EQ(letters(26 << 10 | 1 << 5 | 26), "ZAZ");
  EXPECT_EQ(letters(0 << 10 | 27 << 5 | 31), "???");
  EXPECT_EQ(letters(0x8000 | 2 << 10 | 3 << 5 | 4), "BCD");  // the top bit is nobody's
  // What is not given is an A.
  Edid edid;
  edid.manufacturer = "X";
  EXPECT_EQ(parse_edid(build_edid(edid))->manufacturer, "XAA");
}

TEST(EdidBytes, NamesEndAtTheLineAndLoseTheirPadding) {
  const auto name = [](std::string_view text) {
    Bytes bytes = {0, 0, 0, 0xFC, 0};
    bytes.insert(bytes.end(), text.begin(), text.end());
    bytes.resize(18, ' ');
    Raw raw;
    raw.put(54 + 18 * 2, bytes);
    return raw.read().name;
  };
  EXPECT_EQ(name("a b  \nrest"), "a b");
  EXPECT_EQ(name("all thirteen!"), "all thirteen!");
  EXPECT_EQ(name("      "), "");
  EXPECT_EQ(name(std::string_view("\x1F\x20~\x7F\x80.", 6)), "? ~??.");
  // Written, a long name is cut after 13 and has no end of line.
  Edid edid = with_timings({});
  edid.name = "more than thirteen";
  EXPECT_EQ(parse_edid(build_edid(edid))->name, "more than thi");
}

TEST(EdidBytes, LimitsBeyond255AreWrittenWithOffsets) {
  const auto limits = [](uint32_t v_min, uint32_t v_max, uint32_t h_min, uint32_t h_max,
                         uint32_t clock) {
    Edid edid = with_timings({});
    edid.has_range_limits = true;
    edid.vsync_min_hz = v_min, edid.vsync_max_hz = v_max;
    edid.hsync_min_khz = h_min, edid.hsync_max_khz = h_max;
    edid.pixel_clock_max_mhz = clock;
    const std::vector<std::byte> block = build_edid(edid);
    const Bytes all = descriptor(block, 0);
    const Result<Edid> read = parse_edid(block);
    EXPECT_EQ(read->vsync_min_hz, v_min);
    EXPECT_EQ(read->vsync_max_hz, v_max);
    EXPECT_EQ(read->hsync_min_khz, h_min);
    EXPECT_EQ(read->hsync_max_khz, h_max);
    return Bytes(all.begin() + 4, all.begin() + 10);
  };
  EXPECT_EQ(limits(1, 255, 2, 254, 2540), (Bytes{0x00, 1, 255, 2, 254, 254}));
  EXPECT_EQ(limits(255, 256, 100, 200, 2550), (Bytes{0x02, 255, 1, 100, 200, 255}));
  EXPECT_EQ(limits(256, 257, 100, 200, 2560), (Bytes{0x03, 1, 2, 100, 200, 255}));
  EXPECT_EQ(limits(50, 60, 255, 256, 10), (Bytes{0x08, 50, 60, 255, 1, 1}));
  EXPECT_EQ(limits(50, 60, 256, 510, 0), (Bytes{0x0C, 50, 60, 1, 255, 0}));
  EXPECT_EQ(limits(300, 400, 50, 300, 100), (Bytes{0x0B, 45, 145, 50, 45, 10}));
}

TEST(EdidBytes, OffsetsOfLimitsAreReadSinceRevision4) {
  struct Row {
    uint8_t revision, offsets;
    uint32_t v_min, v_max, h_min, h_max;
  };
  const Row rows[] = {{4, 0, 5, 6, 7, 8},      {4, 1, 5, 6, 7, 8},          {4, 2, 5, 261, 7, 8},
                      {4, 3, 260, 261, 7, 8},  {4, 4, 5, 6, 7, 8},          {4, 8, 5, 6, 7, 263},
                      {4, 12, 5, 6, 262, 263}, {4, 15, 260, 261, 262, 263}, {3, 15, 5, 6, 7, 8},
                      {5, 2, 5, 261, 7, 8}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.revision * 100 + row.offsets);
    Raw raw(row.revision);
    raw.put(54 + 18, {0, 0, 0, 0xFD, row.offsets, 5, 6, 7, 8, 9});
    const Edid edid = raw.read();
    EXPECT_TRUE(edid.has_range_limits);
    EXPECT_EQ(edid.vsync_min_hz, row.v_min);
    EXPECT_EQ(edid.vsync_max_hz, row.v_max);
    EXPECT_EQ(edid.hsync_min_khz, row.h_min);
    EXPECT_EQ(edid.hsync_max_khz, row.h_max);
    EXPECT_EQ(edid.pixel_clock_max_mhz, 90U);
  }
}

TEST(EdidBytes, AllEstablishedTimings) {
  const EdidTiming all[] = {
      coded(Kind::kEstablished, 720, 400, 70),  coded(Kind::kEstablished, 720, 400, 88),
      coded(Kind::kEstablished, 640, 480, 60),  coded(Kind::kEstablished, 640, 480, 67),
      coded(Kind::kEstablished, 640, 480, 72),  coded(Kind::kEstablished, 640, 480, 75),
      coded(Kind::kEstablished, 800, 600, 56),  coded(Kind::kEstablished, 800, 600, 60),
      coded(Kind::kEstablished, 800, 600, 72),  coded(Kind::kEstablished, 800, 600, 75),
      coded(Kind::kEstablished, 832, 624, 75),  coded(Kind::kEstablished, 1024, 768, 87, true),
      coded(Kind::kEstablished, 1024, 768, 60), coded(Kind::kEstablished, 1024, 768, 70),
      coded(Kind::kEstablished, 1024, 768, 75), coded(Kind::kEstablished, 1280, 1024, 75),
      coded(Kind::kEstablished, 1152, 870, 75)};
  for (size_t i = 0; i < std::size(all); ++i) {
    SCOPED_TRACE(i);
    Bytes bits(3);
    bits[i / 8] = static_cast<uint8_t>(0x80 >> i % 8);
    EXPECT_EQ(Raw().put(35, bits).read().timings, std::vector<EdidTiming>{all[i]});
    EXPECT_EQ(part(build_edid(with_timings({all[i]})), 35, 3), bits);
  }
  const std::vector<EdidTiming> wanted(std::begin(all), std::end(all));
  EXPECT_EQ(Raw().put(35, {0xFF, 0xFF, 0xFF}).read().timings, wanted);
  EXPECT_EQ(part(build_edid(with_timings(wanted)), 35, 3), (Bytes{0xFF, 0xFF, 0x80}));
  // One that is none of them becomes a standard timing where it can be coded.
  const EdidTiming unknown[] = {
      coded(Kind::kEstablished, 1600, 1200, 60), coded(Kind::kEstablished, 640, 480, 61),
      coded(Kind::kEstablished, 1280, 960, 75), coded(Kind::kEstablished, 1280, 800, 75)};
  const std::vector<std::byte> block =
      build_edid(with_timings({unknown[0], unknown[1], unknown[2], unknown[3],
                               coded(Kind::kEstablished, 640, 480, 60, true)}));
  EXPECT_EQ(part(block, 35, 3), (Bytes{0, 0, 0}));
  EXPECT_EQ(part(block, 38, 10), (Bytes{169, 0x40, 49, 0x41, 129, 0x4F, 129, 0x0F, 1, 1}));
}

TEST(EdidBytes, StandardTimingsAreReadByTheirAspect) {
  const auto read = [](uint8_t first, uint8_t second, uint8_t revision) {
    // The last of the eight, with the others unused in both ways.
    Raw raw(revision);
    raw.put(38, {0, 0, 0, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, first, second});
    return raw.read().timings;
  };
  const auto one = [](uint32_t width, uint32_t height, uint32_t hertz) {
    return std::vector<EdidTiming>{coded(Kind::kStandard, width, height, hertz)};
  };
  EXPECT_EQ(read(129, 0 << 6 | 0, 3), one(1280, 800, 60));
  EXPECT_EQ(read(129, 0 << 6 | 0, 2), one(1280, 1280, 60));
  EXPECT_EQ(read(129, 1 << 6 | 1, 3), one(1280, 960, 61));
  EXPECT_EQ(read(129, 2 << 6 | 2, 3), one(1280, 1024, 62));
  EXPECT_EQ(read(129, 3 << 6 | 63, 3), one(1280, 720, 123));
  EXPECT_EQ(read(255, 3 << 6, 4), one(2288, 1287, 60));
  EXPECT_EQ(read(1, 0, 4), one(256, 160, 60));
  EXPECT_EQ(read(1, 2, 4), one(256, 160, 62));
  EXPECT_EQ(read(2, 1, 4), one(264, 165, 61));
  EXPECT_TRUE(read(1, 1, 4).empty());
  EXPECT_TRUE(read(0, 0x40, 4).empty());
}

TEST(EdidBytes, StandardTimingsOfADescriptorComeAfterTheEight) {
  Raw raw;
  raw.put(38, {49, 0x40});
  raw.put(54 + 18 * 3,
          {0, 0, 0, 0xFA, 0, 61, 0x41, 71, 0x42, 81, 0x43, 91, 0x44, 101, 0x45, 111, 0x46, 0x51});
  const std::vector<EdidTiming> wanted = {
      coded(Kind::kStandard, 640, 480, 60), coded(Kind::kStandard, 736, 552, 61),
      coded(Kind::kStandard, 816, 612, 62), coded(Kind::kStandard, 896, 672, 63),
      coded(Kind::kStandard, 976, 732, 64), coded(Kind::kStandard, 1056, 792, 65),
      coded(Kind::kStandard, 1136, 852, 66)};
  EXPECT_EQ(raw.read().timings, wanted);
  // Since revision 3 aspect 0 is 16:10 here too.
  Raw old(2);
  old.put(54, {0, 0, 0, 0xFA, 0, 129, 0});
  EXPECT_EQ(old.read().timings, (std::vector<EdidTiming>{coded(Kind::kStandard, 1280, 1280, 60)}));
}

TEST(EdidBytes, StandardTimingsAreWrittenWhereTheyCanBeCoded) {
  struct Row {
    EdidTiming timing;
    Bytes code;
  };
  const auto standard = [](uint32_t width, uint32_t height, uint32_t hertz) {
    return coded(Kind::kStandard, width, height, hertz);
  };
  EdidTiming between = standard(1280, 800, 60);
  between.refresh_millihertz = 60'001;
  EdidTiming interlaced = standard(1280, 800, 60);
  interlaced.interlaced = true;
  const Bytes none = {1, 1};
  const Row rows[] = {{standard(1280, 800, 60), {129, 0x00}},
                      {standard(1280, 960, 61), {129, 0x41}},
                      {standard(1280, 1024, 123), {129, 0xBF}},
                      {standard(1280, 720, 62), {129, 0xC2}},
                      {standard(256, 192, 60), {1, 0x40}},
                      {standard(2288, 1716, 60), {255, 0x40}},
                      {standard(248, 186, 60), none},
                      {standard(2296, 1722, 60), none},
                      {standard(1284, 963, 60), none},
                      {standard(1280, 801, 60), none},
                      {standard(1280, 1280, 60), none},
                      {standard(1280, 800, 59), none},
                      {standard(1280, 800, 124), none},
                      {standard(256, 160, 61), none},  // its code says that the entry is unused
                      {standard(256, 160, 62), {1, 0x02}},
                      {standard(264, 165, 61), {2, 0x01}},
                      {between, none},
                      {interlaced, none}};
  for (const Row& row : rows) {
    SCOPED_TRACE(::testing::Message() << row.timing.width << "x" << row.timing.height << " at "
                                      << row.timing.refresh_millihertz);
    const std::vector<std::byte> block = build_edid(with_timings({row.timing}));
    EXPECT_EQ(part(block, 38, 2), row.code);
    EXPECT_EQ(part(block, 40, 2), none);
    EXPECT_EQ(parse_edid(block)->timings,
              row.code == none ? std::vector<EdidTiming>{} : std::vector<EdidTiming>{row.timing});
  }
  // Before revision 3 aspect 0 is a square.
  Edid old = with_timings({standard(1280, 800, 60), standard(1280, 1280, 60)});
  old.revision = 2;
  EXPECT_EQ(part(build_edid(old), 38, 4), (Bytes{129, 0x00, 1, 1}));
  EXPECT_EQ(parse_edid(build_edid(old))->timings,
            std::vector<EdidTiming>{standard(1280, 1280, 60)});
}

TEST(EdidBytes, AtMostEightStandardTimings) {
  std::vector<EdidTiming> timings;
  for (uint32_t i = 0; i < 9; ++i)
    timings.push_back(coded(Kind::kStandard, 640 + 32 * i, (640 + 32 * i) * 3 / 4, 60 + i));
  const std::vector<std::byte> block = build_edid(with_timings(timings));
  timings.pop_back();
  EXPECT_EQ(parse_edid(block)->timings, timings);
}

TEST(EdidBytes, DetailedTimingsAreReadFromTwelveBitCounts) {
  Raw raw;
  raw.put(54, detailed(0xE808, 0xA12, 0x734, 0x5A6, 0x389));
  raw.put(54 + 18 * 2, detailed(0x1D01, 0x780, 0x118, 0x21C, 0x16, true));
  const std::vector<EdidTiming> wanted = {
      signal(594'000'000, 0xA12, 0xA12 + 0x734, 0x5A6, 0x5A6 + 0x389),
      signal(74'250'000, 1920, 2200, 1080, 1125, true)};
  EXPECT_EQ(raw.read().timings, wanted);
  EXPECT_EQ(wanted[1].refresh_millihertz, 60'000U);
  // Either byte of the clock makes a descriptor a timing.
  for (const uint32_t clock : {0x00FFU, 0xFF00U}) {
    Raw one;
    one.put(54 + 18 * 3, detailed(clock, 2000, 200, 1000, 50));
    EXPECT_EQ(one.read().timings,
              std::vector<EdidTiming>{signal(clock * 10'000, 2000, 2200, 1000, 1050)});
  }
}

TEST(EdidBytes, TimingsWithoutSenseAreLeftOut) {
  struct Row {
    const char* sentence;
    Bytes bytes;
    size_t timings;
  };
  const Row rows[] = {
      {"no width", detailed(100, 0, 10, 100, 10), 0},
      {"no height", detailed(100, 100, 10, 0, 10), 0},
      {"nothing at all", detailed(100, 0, 0, 0, 0), 0},
      {"no width, no blanking", detailed(100, 0, 0, 100, 10), 0},
      {"exactly 1 Hz", detailed(100, 900, 100, 900, 100), 1},
      {"below 1 Hz", detailed(100, 900, 101, 900, 100), 0},
      {"exactly 1000 Hz", detailed(10'000, 900, 100, 90, 10), 1},
      {"above 1000 Hz", detailed(10'000, 899, 100, 90, 10), 0},
      {"interlaced at 1 Hz", detailed(100, 1000, 0, 900, 99, true), 1},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.sentence);
    EXPECT_EQ(Raw().put(54, row.bytes).read().timings.size(), row.timings);
  }
}

// A timing is there once: as it is named first, with the frequency rounded to whole hertz.
TEST(EdidBytes, TheSameTimingIsNamedOnce) {
  const auto count = [](const Bytes& first, const Bytes& second) {
    Raw raw;
    raw.put(54, first).put(54 + 18, second);
    return raw.read().timings.size();
  };
  const Bytes sixty = detailed(10'000, 900, 100, 900, 100);  // 100 Hz
  EXPECT_EQ(count(sixty, sixty), 1U);
  EXPECT_EQ(count(sixty, detailed(9'951, 900, 100, 900, 100)), 1U);   // 99.51 Hz
  EXPECT_EQ(count(sixty, detailed(9'950, 900, 100, 900, 100)), 1U);   // 99.5 Hz
  EXPECT_EQ(count(sixty, detailed(9'949, 900, 100, 900, 100)), 2U);   // 99.49 Hz
  EXPECT_EQ(count(sixty, detailed(10'049, 900, 100, 900, 100)), 1U);  // 100.49 Hz
  EXPECT_EQ(count(sixty, detailed(10'050, 900, 100, 900, 100)), 2U);  // 100.5 Hz
  EXPECT_EQ(count(sixty, detailed(10'000, 899, 101, 900, 100)), 2U);
  EXPECT_EQ(count(sixty, detailed(10'000, 900, 100, 899, 101)), 2U);
  EXPECT_EQ(count(sixty, detailed(5'003, 900, 100, 450, 50, true)), 2U);  // 100 fields
  // Detailed before standard before established, whatever the order of their bytes.
  Raw raw;
  raw.put(35, {0x20, 0x08, 0}).put(38, {49, 0x40, 97, 0x40});
  raw.put(54, detailed(2'520, 640, 160, 480, 45));  // 60 Hz
  const std::vector<EdidTiming> timings = raw.read().timings;
  ASSERT_EQ(timings.size(), 2U);
  EXPECT_EQ(timings[0], signal(25'200'000, 640, 800, 480, 525));
  EXPECT_EQ(timings[1], coded(Kind::kStandard, 1024, 768, 60));
}

TEST(EdidBytes, DetailedTimingsAreWrittenWhereTheyFit) {
  struct Row {
    const char* sentence;
    EdidTiming timing;
    bool fits;
  };
  const Row rows[] = {
      {"smallest clock", signal(10'000, 2, 4, 2, 3), true},
      {"clock too small", signal(9'999, 2, 4, 2, 3), false},
      {"largest clock", signal(655'350'000, 1000, 1001, 1000, 1001), true},
      {"last hertz of the largest clock", signal(655'359'999, 1000, 1001, 1000, 1001), true},
      {"clock too large", signal(655'360'000, 1000, 1001, 1000, 1001), false},
      {"one pixel", signal(20'000, 1, 3, 2, 3), true},
      {"no pixel", signal(20'000, 0, 3, 2, 3), false},
      {"4095 pixels", signal(20'000'000, 0xFFF, 0x1000, 2, 3), true},
      {"4096 pixels", signal(20'000'000, 0x1000, 0x1001, 2, 3), false},
      {"one line", signal(20'000, 2, 3, 1, 2), true},
      {"no line", signal(20'000, 2, 3, 0, 2), false},
      {"4095 lines", signal(20'000'000, 2, 3, 0xFFF, 0x1000), true},
      {"4096 lines", signal(20'000'000, 2, 3, 0x1000, 0x1001), false},
      {"4095 lines in a field", signal(20'000'000, 2, 3, 0x1FFE, 0x2001, true), true},
      {"4096 lines in a field", signal(20'000'000, 2, 3, 0x2000, 0x2003, true), false},
      {"no horizontal blanking", signal(20'000'000, 1000, 1000, 100, 101), true},
      {"total width below the width", signal(20'000'000, 1000, 999, 100, 101), false},
      {"4095 pixels of blanking", signal(20'000'000, 1, 0x1000, 100, 101), true},
      {"4096 pixels of blanking", signal(20'000'000, 1, 0x1001, 100, 101), false},
      {"one line of blanking", signal(20'000'000, 1000, 1001, 100, 101), true},
      {"no line of blanking", signal(20'000'000, 1000, 1001, 100, 100), false},
      {"total height below the height", signal(20'000'000, 1000, 1001, 100, 99), false},
      {"4095 lines of blanking", signal(20'000'000, 100, 101, 1, 0x1000), true},
      {"4096 lines of blanking", signal(20'000'000, 100, 101, 1, 0x1001), false},
      {"one line of blanking in a field", signal(20'000'000, 1000, 1001, 200, 203, true), true},
      {"half a line of blanking in a field", signal(20'000'000, 1000, 1001, 200, 201, true), false},
      {"no line of blanking in a field", signal(20'000'000, 1000, 1001, 200, 200, true), false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.sentence);
    const std::vector<std::byte> block = build_edid(with_timings({row.timing}));
    const Bytes first = descriptor(block, 0);
    EXPECT_EQ(first != kDummy, row.fits);
    if (!row.fits) continue;
    EXPECT_EQ(first[0] | first[1] << 8, static_cast<int>(row.timing.pixel_clock_hz / 10'000));
    EXPECT_EQ(first[2] | (first[4] & 0xF0) << 4, static_cast<int>(row.timing.width));
    EXPECT_EQ(first[3] | (first[4] & 0x0F) << 8,
              static_cast<int>(row.timing.total_width - row.timing.width));
    const int fields = row.timing.interlaced ? 2 : 1;
    const int lines = first[5] | (first[7] & 0xF0) << 4;
    EXPECT_EQ(lines * fields, static_cast<int>(row.timing.height));
    EXPECT_EQ((lines + (first[6] | (first[7] & 0x0F) << 8)) * fields + fields - 1,
              static_cast<int>(row.timing.total_height));
  }
}

TEST(EdidBytes, NameAndLimitsTakeADescriptorEach) {
  std::vector<EdidTiming> timings;
  for (uint32_t i = 0; i < 5; ++i)
    timings.push_back(signal(10'000'000 + i * 10'000, 500, 600, 400, 410));
  struct Row {
    const char* name;
    bool limits;
    size_t detailed;
  };
  for (const Row& row :
       {Row{"", false, 4}, Row{"n", false, 3}, Row{"", true, 3}, Row{"n", true, 2}}) {
    Edid edid = with_timings(timings);
    edid.name = row.name;
    edid.has_range_limits = row.limits;
    const std::vector<std::byte> block = build_edid(edid);
    size_t found = 0;
    for (size_t i = 0; i < 4; ++i) {
      const Bytes bytes = descriptor(block, i);
      if (bytes[0] == 0 && bytes[1] == 0) continue;
      EXPECT_EQ(bytes[0] | bytes[1] << 8, static_cast<int>(1000 + found));
      ++found;
    }
    EXPECT_EQ(found, row.detailed);
    const Result<Edid> read = parse_edid(block);
    EXPECT_EQ(read->name, row.name);
    EXPECT_EQ(read->has_range_limits, row.limits);
  }
  // A detailed timing that has no descriptor left becomes a standard one where it can.
  std::vector<EdidTiming> many(4, timings[0]);
  EdidTiming whole = coded(Kind::kDetailed, 1280, 960, 75);
  whole.pixel_clock_hz = 100'000'000, whole.total_width = 1300, whole.total_height = 1000;
  many.push_back(whole);
  EXPECT_EQ(part(build_edid(with_timings(many)), 38, 4), (Bytes{129, 0x4F, 1, 1}));
}

TEST(EdidMonitor, SignalsNameWhatTheTimingNames) {
  DXGKIT_COVERS("VIDPN-30");
  Edid edid = with_timings(
      {signal(148'350'000, 1920, 2200, 1080, 1125), signal(74'250'000, 1920, 2000, 540, 1125, true),
       coded(Kind::kStandard, 1280, 800, 75), coded(Kind::kEstablished, 1024, 768, 87, true)});
  edid.has_range_limits = true;
  edid.vsync_min_hz = 48, edid.vsync_max_hz = 76;
  edid.hsync_min_khz = 31, edid.hsync_max_khz = 87;
  edid.pixel_clock_max_mhz = 230;
  edid.extension_blocks = 2;
  std::vector<std::byte> bytes = build_edid(edid);
  bytes.resize(3 * kEdidBlockBytes);
  bytes[kEdidBlockBytes] = std::byte{0xF0};
  bytes[2 * kEdidBlockBytes] = std::byte{0x02};
  const Result<Monitor> monitor = monitor_from_edid(bytes);
  ASSERT_TRUE(monitor.has_value());
  constexpr uint32_t kDmt = 1, kGtf = 2, kOther = 255, kFromDescriptor = 2;
  constexpr Rational kOpen = {kNotSpecified, kNotSpecified};
  constexpr Size kOpenSize = {kNotSpecified, kNotSpecified};
  const Monitor wanted = {
      .modes = {{.id = 1,
                 .signal = {.standard = kOther,
                            .total = {2200, 1125},
                            .active = {1920, 1080},
                            .vsync = {1978, 33},
                            .hsync = {741'750, 11},
                            .pixel_rate = 148'350'000,
                            .scanline_ordering = 1},
                 .origin = kFromDescriptor,
                 .preference = 1},
                {.id = 2,
                 .signal = {.standard = kOther,
                            .total = {2000, 1125},
                            .active = {1920, 540},
                            .vsync = {66, 1},
                            .hsync = {37'125, 1},
                            .pixel_rate = 74'250'000,
                            .scanline_ordering = 2},
                 .origin = kFromDescriptor,
                 .preference = 2},
                {.id = 3,
                 .signal = {.standard = kGtf,
                            .total = kOpenSize,
                            .active = {1280, 800},
                            .vsync = {75, 1},
                            .hsync = kOpen,
                            .pixel_rate = kNotSpecified,
                            .scanline_ordering = 1},
                 .origin = kFromDescriptor,
                 .preference = 2},
                {.id = 4,
                 .signal = {.standard = kDmt,
                            .total = kOpenSize,
                            .active = {1024, 768},
                            .vsync = {87, 1},
                            .hsync = kOpen,
                            .pixel_rate = kNotSpecified,
                            .scanline_ordering = 2},
                 .origin = kFromDescriptor,
                 .preference = 2}},
      .ranges = {{.vsync_min = {48, 1},
                  .vsync_max = {76, 1},
                  .hsync_min = {31'000, 1},
                  .hsync_max = {87'000, 1},
                  .pixel_rate_max = 230'000'000}},
      .descriptors = {{.id = 0, .type = 1, .data = {bytes.begin(), bytes.begin() + 128}},
                      {.id = 1, .type = 2, .data = {bytes.begin() + 128, bytes.begin() + 256}},
                      {.id = 2, .type = 255, .data = {bytes.begin() + 256, bytes.end()}}}};
  ASSERT_EQ(monitor->modes.size(), wanted.modes.size());
  for (size_t i = 0; i < wanted.modes.size(); ++i) {
    EXPECT_EQ(monitor->modes[i], wanted.modes[i]) << i << ": " << to_text(monitor->modes[i].signal);
  }
  EXPECT_EQ(*monitor, wanted);
}

TEST(EdidMonitor, OnlyTheFirstDetailedTimingIsPreferred) {
  // A block without detailed timing names no preferred mode; without limits, no range.
  const Result<Monitor> plain =
      monitor_from_edid(build_edid(with_timings({coded(Kind::kEstablished, 640, 480, 60)})));
  ASSERT_TRUE(plain.has_value());
  ASSERT_EQ(plain->modes.size(), 1U);
  EXPECT_EQ(plain->modes[0].preference, 2U);
  EXPECT_TRUE(plain->ranges.empty());
  // Without any timing the modes are those Windows assumes.
  const Result<Monitor> none = monitor_from_edid(build_edid(with_timings({})));
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->modes, default_monitor().modes);
  ASSERT_EQ(none->descriptors.size(), 1U);
  EXPECT_EQ(none->descriptors[0].data, build_edid(with_timings({})));
}

TEST(EdidMonitor, TheAssumedMonitorHasFiveModes) {
  const Monitor monitor = default_monitor();
  constexpr Size kSizes[] = {{640, 480}, {800, 600}, {1024, 768}, {1280, 1024}, {1920, 1080}};
  ASSERT_EQ(monitor.modes.size(), std::size(kSizes));
  for (uint32_t i = 0; i < std::size(kSizes); ++i) {
    const MonitorMode wanted = {.id = i + 1,
                                .signal = {.standard = 1,
                                           .total = {kNotSpecified, kNotSpecified},
                                           .active = kSizes[i],
                                           .vsync = {60, 1},
                                           .hsync = {kNotSpecified, kNotSpecified},
                                           .pixel_rate = kNotSpecified,
                                           .scanline_ordering = 1},
                                .origin = 1,
                                .preference = i == 2 ? 1U : 2U};
    EXPECT_EQ(monitor.modes[i], wanted) << i;
  }
  EXPECT_TRUE(monitor.ranges.empty());
  EXPECT_TRUE(monitor.descriptors.empty());
}

}  // namespace
}  // namespace dxgkit::vidpn
