// EDID: what is written is read back; what is hostile is refused or ignored, never read beyond.
#include "vidpn/edid.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"
#include "vidpn/judge.h"

namespace dxgkit::vidpn {
namespace {

void fix_checksum(std::vector<std::byte>* block) {
  uint32_t sum = 0;
  for (size_t i = 0; i < 127; ++i) sum += static_cast<uint8_t>((*block)[i]);
  (*block)[127] = static_cast<std::byte>(0U - sum);
}

TEST(Edid, WhatIsBuiltIsReadBack) {
  DXGKIT_COVERS("VIDPN-30");
  const std::vector<std::byte> block = build_edid(default_edid());
  ASSERT_EQ(block.size(), kEdidBlockBytes);
  uint32_t sum = 0;
  for (const std::byte value : block) sum += static_cast<uint8_t>(value);
  EXPECT_EQ(sum % 256, 0U);
  const Result<Edid> read = parse_edid(block);
  ASSERT_TRUE(read.has_value());
  const Edid wanted = default_edid();
  EXPECT_EQ(read->manufacturer, wanted.manufacturer);
  EXPECT_EQ(read->product, wanted.product);
  EXPECT_EQ(read->serial, wanted.serial);
  EXPECT_EQ(read->name, wanted.name);
  EXPECT_EQ(read->vsync_max_hz, wanted.vsync_max_hz);
  EXPECT_EQ(read->hsync_max_khz, wanted.hsync_max_khz);
  EXPECT_EQ(read->pixel_clock_max_mhz, wanted.pixel_clock_max_mhz);
  EXPECT_EQ(read->timings, wanted.timings);
}

TEST(Edid, LimitsBeyondAByteSurvive) {
  Edid edid = default_edid();
  edid.vsync_max_hz = 360;
  edid.hsync_max_khz = 400;
  const Result<Edid> read = parse_edid(build_edid(edid));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->vsync_max_hz, 360U);
  EXPECT_EQ(read->hsync_max_khz, 400U);
  EXPECT_EQ(read->vsync_min_hz, 48U);
}

TEST(Edid, InterlacedTimingsCountFrames) {
  Edid edid = default_edid();
  edid.timings = {{.pixel_clock_hz = 74'250'000,
                   .width = 1920,
                   .height = 1080,
                   .total_width = 2200,
                   .total_height = 1125,
                   .refresh_millihertz = 60'000,
                   .interlaced = true}};
  const Result<Edid> read = parse_edid(build_edid(edid));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->timings, edid.timings);
}

// D3DKMDT_VIDEO_SIGNAL_INFO: what is not measured in the EDID is said not to be specified.
TEST(Edid, EachKindOfTimingGivesItsSignal) {
  DXGKIT_COVERS("VIDPN-30");
  Edid edid = default_edid();
  const EdidTiming detailed{.pixel_clock_hz = 74'250'000,
                            .width = 1920,
                            .height = 1080,
                            .total_width = 2200,
                            .total_height = 1125,
                            .refresh_millihertz = 60'000};
  EdidTiming interlaced = detailed;
  interlaced.interlaced = true;
  edid.timings = {detailed,
                  interlaced,
                  {.kind = EdidTiming::Kind::kStandard,
                   .width = 1280,
                   .height = 1024,
                   .refresh_millihertz = 75'000},
                  {.kind = EdidTiming::Kind::kEstablished,
                   .width = 800,
                   .height = 600,
                   .refresh_millihertz = 60'000}};
  const Result<Monitor> monitor = monitor_from_edid(build_edid(edid));
  ASSERT_TRUE(monitor.has_value());
  ASSERT_EQ(monitor->modes.size(), 4U);
  for (size_t i = 0; i < 2; ++i) {
    SCOPED_TRACE(i);
    const Signal& signal = monitor->modes[i].signal;
    EXPECT_EQ(signal.standard, static_cast<uint32_t>(D3DKMDT_VSS_OTHER));
    EXPECT_EQ(signal.active, (Size{1920, 1080}));
    EXPECT_EQ(signal.total, (Size{2200, 1125}));
    EXPECT_EQ(signal.vsync, (Rational{i == 0 ? 30U : 60U, 1}));
    EXPECT_EQ(signal.hsync, (Rational{33'750, 1}));
    EXPECT_EQ(signal.pixel_rate, 74'250'000U);
    EXPECT_EQ(signal.scanline_ordering,
              static_cast<uint32_t>(i == 0 ? D3DDDI_VSSLO_PROGRESSIVE
                                           : D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST));
  }
  const Signal& standard = monitor->modes[2].signal;
  EXPECT_EQ(standard.standard, static_cast<uint32_t>(D3DKMDT_VSS_VESA_GTF));
  EXPECT_EQ(standard.vsync, (Rational{75, 1}));
  EXPECT_EQ(standard.total, (Size{kNotSpecified, kNotSpecified}));
  EXPECT_EQ(monitor->modes[3].signal.standard, static_cast<uint32_t>(D3DKMDT_VSS_VESA_DMT));
}

TEST(Edid, RefusesWhatIsNoEdid) {
  const std::vector<std::byte> good = build_edid(default_edid());
  std::string why;
  EXPECT_EQ(parse_edid(std::span(good).first(127), &why).error(), Status::kInvalidParameter);
  EXPECT_NE(why.find("128"), std::string::npos);
  std::vector<std::byte> bad = good;
  bad[0] = std::byte{1};
  fix_checksum(&bad);
  EXPECT_EQ(parse_edid(bad, &why).error(), Status::kInvalidParameter);
  EXPECT_NE(why.find("begin"), std::string::npos);
  bad = good;
  bad[60] ^= std::byte{1};
  EXPECT_EQ(parse_edid(bad, &why).error(), Status::kInvalidParameter);
  EXPECT_NE(why.find("add up"), std::string::npos);
  bad = good;
  bad[18] = std::byte{2};
  fix_checksum(&bad);
  EXPECT_EQ(parse_edid(bad, &why).error(), Status::kInvalidParameter);
  EXPECT_NE(why.find("version"), std::string::npos);
  EXPECT_FALSE(monitor_from_edid(bad).has_value());
}

TEST(Edid, MonitorModesComeFromIt) {
  DXGKIT_COVERS("VIDPN-30");
  std::vector<std::byte> bytes = build_edid(default_edid());
  bytes[126] = std::byte{3};  // three extensions promised, one there
  fix_checksum(&bytes);
  bytes.resize(2 * kEdidBlockBytes + 5);
  const Result<Monitor> monitor = monitor_from_edid(bytes);
  ASSERT_TRUE(monitor.has_value());
  ASSERT_EQ(monitor->modes.size(), default_edid().timings.size());
  const MonitorMode& preferred = monitor->modes.front();
  EXPECT_EQ(preferred.preference, static_cast<uint32_t>(D3DKMDT_MP_PREFERRED));
  EXPECT_EQ(preferred.signal, good_signal());
  for (size_t i = 1; i < monitor->modes.size(); ++i) {
    EXPECT_EQ(monitor->modes[i].preference, static_cast<uint32_t>(D3DKMDT_MP_NOTPREFERRED));
    EXPECT_EQ(outcome(judge_monitor_mode(full_profile(), monitor->modes[i])), Status::kSuccess);
  }
  ASSERT_EQ(monitor->ranges.size(), 1U);
  EXPECT_EQ(monitor->ranges[0].pixel_rate_max, 170'000'000U);
  ASSERT_EQ(monitor->descriptors.size(), 2U);
  EXPECT_EQ(monitor->descriptors[0].type,
            static_cast<uint32_t>(D3DKMDT_MDT_VESA_EDID_V1_BASEBLOCK));
  EXPECT_EQ(monitor->descriptors[1].type, static_cast<uint32_t>(D3DKMDT_MDT_OTHER));
  const Monitor fallback = default_monitor();
  EXPECT_TRUE(fallback.descriptors.empty());
  EXPECT_EQ(fallback.modes[2].signal.active, (Size{1024, 768}));
  EXPECT_EQ(fallback.modes[2].preference, static_cast<uint32_t>(D3DKMDT_MP_PREFERRED));
}

// Any bytes: no crash, sane timings only, and the monitor made of them passes our own judgment.
// Seed printed.
TEST(Edid, HostileBytes) {
  DXGKIT_COVERS("VIDPN-30");
  constexpr uint32_t kSeed = 20261121;
  RecordProperty("seed", static_cast<int>(kSeed));
  std::mt19937 random(kSeed);
  const std::vector<std::byte> good = build_edid(default_edid());
  size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes = good;
    bytes.resize(random() % 300);
    const auto changes = static_cast<uint32_t>(random() % 40);
    for (uint32_t i = 0; i < changes && !bytes.empty(); ++i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (bytes.size() >= kEdidBlockBytes && random() % 4 != 0) {
      std::copy_n(good.begin(), 8, bytes.begin());
      bytes[18] = std::byte{1};
      fix_checksum(&bytes);
    }
    const Result<Edid> read = parse_edid(bytes);
    if (!read.has_value()) continue;
    ++accepted;
    for (const EdidTiming& timing : read->timings) {
      EXPECT_GT(timing.width, 0U);
      EXPECT_GT(timing.height, 0U);
      EXPECT_GE(timing.refresh_millihertz, 1000U);
    }
    const Result<Monitor> monitor = monitor_from_edid(bytes);
    ASSERT_TRUE(monitor.has_value());
    EXPECT_FALSE(monitor->modes.empty());
    for (const MonitorMode& mode : monitor->modes)
      ASSERT_EQ(outcome(judge_monitor_mode(full_profile(), mode)), Status::kSuccess)
          << to_text(mode.signal) << " seed " << kSeed << " round " << round;
    // An EDID that was read can be written, and reads back the same.
    const Result<Edid> again = parse_edid(build_edid(*read));
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->name, read->name.substr(0, 13));
  }
  EXPECT_GT(accepted, 1000U);
}

}  // namespace
}  // namespace dxgkit::vidpn
