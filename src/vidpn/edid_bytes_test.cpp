// EDID read byte by byte: each field and bit of the layout with values no two alike, written out by
// hand, and the monitor that is made of them.
#include <gtest/gtest.h>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"
#include "vidpn/edid_blocks_test.h"

namespace dxgkit::vidpn {
namespace {

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

// Bytes behind the first block are ignored, and a caller may ignore the reason.
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

// Detailed timings first, then the timings of the block, of its descriptors, and the established
// ones.
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
