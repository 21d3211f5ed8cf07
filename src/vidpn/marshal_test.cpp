// Between the structures of the ABI and our values: every member, with numbers of which no two are
// alike.
#include "vidpn/marshal.h"

#include <gtest/gtest.h>

#include <cstring>

#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

Profile version(uint32_t interface_version) {
  Profile profile = full_profile();
  profile.interface_version = interface_version;
  return profile;
}

template <typename T>
void set(T* member, uint32_t value) {
  static_assert(sizeof(T) == sizeof value);
  std::memcpy(member, &value, sizeof value);
}

template <typename T>
uint32_t number(const T& member) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  uint32_t value = 0;
  std::memcpy(&value, &member, sizeof value);
  return value;
}

D3DKMDT_VIDEO_SIGNAL_INFO odd_signal_info() {
  D3DKMDT_VIDEO_SIGNAL_INFO info;
  std::memset(&info, 0, sizeof info);
  set(&info.VideoStandard, 19);
  info.TotalSize = {2201, 1126};
  info.ActiveSize = {1921, 1081};
  info.VSyncFreq = {60'001, 1003};
  info.HSyncFreq = {67'501, 7};
  info.PixelRate = 0x1234'5678'9ABC;
  set(&info.ScanLineOrdering, 0x15A);  // ordering 2, divider 43
  return info;
}

Signal odd_signal() {
  return {.standard = 19,
          .total = {2201, 1126},
          .active = {1921, 1081},
          .vsync = {60'001, 1003},
          .hsync = {67'501, 7},
          .pixel_rate = 0x1234'5678'9ABC,
          .scanline_ordering = 2,
          .vsync_divider = 43};
}

void expect_equal(const D3DKMDT_VIDEO_SIGNAL_INFO& info, const D3DKMDT_VIDEO_SIGNAL_INFO& wanted) {
  EXPECT_EQ(number(info.VideoStandard), number(wanted.VideoStandard));
  EXPECT_EQ(info.TotalSize.cx, wanted.TotalSize.cx);
  EXPECT_EQ(info.TotalSize.cy, wanted.TotalSize.cy);
  EXPECT_EQ(info.ActiveSize.cx, wanted.ActiveSize.cx);
  EXPECT_EQ(info.ActiveSize.cy, wanted.ActiveSize.cy);
  EXPECT_EQ(info.VSyncFreq.Numerator, wanted.VSyncFreq.Numerator);
  EXPECT_EQ(info.VSyncFreq.Denominator, wanted.VSyncFreq.Denominator);
  EXPECT_EQ(info.HSyncFreq.Numerator, wanted.HSyncFreq.Numerator);
  EXPECT_EQ(info.HSyncFreq.Denominator, wanted.HSyncFreq.Denominator);
  EXPECT_EQ(info.PixelRate, wanted.PixelRate);
  EXPECT_EQ(number(info.ScanLineOrdering), number(wanted.ScanLineOrdering));
}

TEST(Marshal, SourceModes) {
  const SourceMode wanted = {.id = 77,
                             .type = 3,
                             .surface = {1921, 1081},
                             .visible = {1919, 1079},
                             .stride_bytes = 7684,
                             .pixel_format = 22,
                             .color_basis = 4,
                             .access_mode = 2};
  D3DKMDT_VIDPN_SOURCE_MODE abi;
  std::memset(&abi, 0xCD, sizeof abi);
  to_abi(wanted, &abi);
  EXPECT_EQ(abi.Id, 77U);
  EXPECT_EQ(number(abi.Type), 3U);
  const D3DKMDT_GRAPHICS_RENDERING_FORMAT& graphics = abi.Format.Graphics;
  EXPECT_EQ(graphics.PrimSurfSize.cx, 1921U);
  EXPECT_EQ(graphics.PrimSurfSize.cy, 1081U);
  EXPECT_EQ(graphics.VisibleRegionSize.cx, 1919U);
  EXPECT_EQ(graphics.VisibleRegionSize.cy, 1079U);
  EXPECT_EQ(graphics.Stride, 7684U);
  EXPECT_EQ(number(graphics.PixelFormat), 22U);
  EXPECT_EQ(number(graphics.ColorBasis), 4U);
  EXPECT_EQ(number(graphics.PixelValueAccessMode), 2U);
  EXPECT_EQ(from_abi(abi), wanted);
}

// The scan line ordering has a divider above its three bits since WDDM 1.3, but OTHER is a whole
// number there.
TEST(Marshal, SignalsByInterfaceVersion) {
  D3DKMDT_VIDPN_TARGET_MODE abi;
  std::memset(&abi, 0, sizeof abi);
  abi.VideoSignalInfo = odd_signal_info();
  EXPECT_EQ(from_abi(version(0x5023), abi).signal, odd_signal());
  EXPECT_EQ(from_abi(version(0x4002), abi).signal, odd_signal());
  Signal old = odd_signal();
  old.scanline_ordering = 0x15A;
  old.vsync_divider = 0;
  EXPECT_EQ(from_abi(version(0x4001), abi).signal, old);
  EXPECT_EQ(from_abi(version(0x300E), abi).signal, old);
  // The six bits of the divider, and none above.
  set(&abi.VideoSignalInfo.ScanLineOrdering, 0xFFFF'FFFC);
  EXPECT_EQ(from_abi(version(0x4002), abi).signal.scanline_ordering, 4U);
  EXPECT_EQ(from_abi(version(0x4002), abi).signal.vsync_divider, 0x3FU);
  set(&abi.VideoSignalInfo.ScanLineOrdering, 255);
  EXPECT_EQ(from_abi(version(0x4002), abi).signal.scanline_ordering, 255U);
  EXPECT_EQ(from_abi(version(0x4002), abi).signal.vsync_divider, 0U);
  set(&abi.VideoSignalInfo.ScanLineOrdering, 0x1FF);
  EXPECT_EQ(from_abi(version(0x4002), abi).signal.scanline_ordering, 7U);
  EXPECT_EQ(from_abi(version(0x4002), abi).signal.vsync_divider, 0x3FU);
}

TEST(Marshal, TargetModesByInterfaceVersion) {
  const TargetMode wanted = {.id = 78,
                             .signal = odd_signal(),
                             .preference = 1,
                             .wire_formats = 0xABCD'E004,
                             .minimum_vsync = {48'001, 1001}};
  D3DKMDT_VIDPN_TARGET_MODE abi;
  std::memset(&abi, 0xCD, sizeof abi);
  to_abi(wanted, &abi);
  EXPECT_EQ(abi.Id, 78U);
  expect_equal(abi.VideoSignalInfo, odd_signal_info());
  EXPECT_EQ(abi.WireFormatAndPreference.Value, 0xABCD'E005U);
  EXPECT_EQ(abi.MinimumVSyncFreq.Numerator, 48'001U);
  EXPECT_EQ(abi.MinimumVSyncFreq.Denominator, 1001U);
  constexpr uint32_t kWddm29 = DXGKDDI_INTERFACE_VERSION_WDDM2_9;
  constexpr uint32_t kWddm22 = DXGKDDI_INTERFACE_VERSION_WDDM2_2;
  EXPECT_EQ(from_abi(version(kWddm29), abi), wanted);
  TargetMode old = wanted;
  old.minimum_vsync = {};
  EXPECT_EQ(from_abi(version(kWddm29 - 1), abi), old);
  EXPECT_EQ(from_abi(version(kWddm22), abi), old);
  old.preference = 0xABCD'E005;
  old.wire_formats = 0;
  EXPECT_EQ(from_abi(version(kWddm22 - 1), abi), old);
  // Both bits of the preference are one number.
  abi.WireFormatAndPreference.Value = 0xFFFF'FFFF;
  EXPECT_EQ(from_abi(version(kWddm22), abi).preference, 3U);
  EXPECT_EQ(from_abi(version(kWddm22), abi).wire_formats, 0xFFFF'FFFCU);
}

TEST(Marshal, MonitorModes) {
  const MonitorMode wanted = {.id = 79,
                              .signal = odd_signal(),
                              .color_basis = 4,
                              .color_ranges = {11, 12, 13, 14},
                              .origin = 5,
                              .preference = 1};
  D3DKMDT_MONITOR_SOURCE_MODE abi;
  std::memset(&abi, 0xCD, sizeof abi);
  to_abi(wanted, &abi);
  EXPECT_EQ(abi.Id, 79U);
  expect_equal(abi.VideoSignalInfo, odd_signal_info());
  EXPECT_EQ(number(abi.ColorBasis), 4U);
  EXPECT_EQ(abi.ColorCoeffDynamicRanges.FirstChannel, 11U);
  EXPECT_EQ(abi.ColorCoeffDynamicRanges.SecondChannel, 12U);
  EXPECT_EQ(abi.ColorCoeffDynamicRanges.ThirdChannel, 13U);
  EXPECT_EQ(abi.ColorCoeffDynamicRanges.FourthChannel, 14U);
  EXPECT_EQ(number(abi.Origin), 5U);
  EXPECT_EQ(number(abi.Preference), 1U);
  EXPECT_EQ(from_abi(full_profile(), abi), wanted);
}

TEST(Marshal, Paths) {
  Path wanted;
  wanted.source = 21, wanted.target = 22;
  wanted.importance = 3;
  wanted.scaling = 4, wanted.scaling_support = 0x15;
  wanted.rotation = 2, wanted.rotation_support = 0xA6;
  wanted.visible_from_active_top_left = {31, 32};
  wanted.visible_from_active_bottom_right = {33, 34};
  wanted.color_basis = 5;
  wanted.color_ranges = {41, 42, 43, 44};
  wanted.content = 2;
  wanted.copy_protection = 6;
  wanted.aps_trigger_bits = 51;
  wanted.copy_protection_support = 7;
  wanted.gamma_type = 8;
  D3DKMDT_VIDPN_PRESENT_PATH abi;
  std::memset(&abi, 0xCD, sizeof abi);
  std::vector<std::byte> gamma(1);
  to_abi(wanted, &gamma, &abi);
  EXPECT_EQ(abi.VidPnSourceId, 21U);
  EXPECT_EQ(abi.VidPnTargetId, 22U);
  EXPECT_EQ(number(abi.ImportanceOrdinal), 3U);
  EXPECT_EQ(number(abi.ContentTransformation.Scaling), 4U);
  EXPECT_EQ(number(abi.ContentTransformation.ScalingSupport), 0x15U);
  EXPECT_EQ(number(abi.ContentTransformation.Rotation), 2U);
  EXPECT_EQ(number(abi.ContentTransformation.RotationSupport), 0xA6U);
  EXPECT_EQ(abi.VisibleFromActiveTLOffset.cx, 31U);
  EXPECT_EQ(abi.VisibleFromActiveTLOffset.cy, 32U);
  EXPECT_EQ(abi.VisibleFromActiveBROffset.cx, 33U);
  EXPECT_EQ(abi.VisibleFromActiveBROffset.cy, 34U);
  EXPECT_EQ(number(abi.VidPnTargetColorBasis), 5U);
  EXPECT_EQ(abi.VidPnTargetColorCoeffDynamicRanges.FirstChannel, 41U);
  EXPECT_EQ(abi.VidPnTargetColorCoeffDynamicRanges.SecondChannel, 42U);
  EXPECT_EQ(abi.VidPnTargetColorCoeffDynamicRanges.ThirdChannel, 43U);
  EXPECT_EQ(abi.VidPnTargetColorCoeffDynamicRanges.FourthChannel, 44U);
  EXPECT_EQ(number(abi.Content), 2U);
  EXPECT_EQ(number(abi.CopyProtection.CopyProtectionType), 6U);
  EXPECT_EQ(abi.CopyProtection.APSTriggerBits, 51U);
  EXPECT_EQ(number(abi.CopyProtection.CopyProtectionSupport), 7U);
  EXPECT_EQ(number(abi.GammaRamp.Type), 8U);
  EXPECT_EQ(abi.GammaRamp.DataSize, 0U);
  EXPECT_EQ(abi.GammaRamp.Data.pRaw, nullptr);
  EXPECT_TRUE(gamma.empty());
  EXPECT_EQ(from_abi(abi), wanted);
  wanted.gamma.assign(5, std::byte{9});
  to_abi(wanted, &gamma, &abi);
  EXPECT_EQ(gamma, wanted.gamma);
  EXPECT_EQ(abi.GammaRamp.DataSize, 5U);
  EXPECT_EQ(abi.GammaRamp.Data.pRaw, gamma.data());
}

TEST(Marshal, FrequencyRangesAndDescriptors) {
  D3DKMDT_MONITOR_FREQUENCY_RANGE range;
  std::memset(&range, 0xCD, sizeof range);
  to_abi(FrequencyRange{.origin = 3,
                        .vsync_min = {48, 1},
                        .vsync_max = {75, 2},
                        .hsync_min = {30'000, 3},
                        .hsync_max = {85'000, 4},
                        .pixel_rate_max = 0x1'2345'6789},
         &range);
  EXPECT_EQ(number(range.Origin), 3U);
  const auto expect = [](const D3DDDI_RATIONAL& value, uint32_t numerator, uint32_t denominator) {
    EXPECT_EQ(value.Numerator, numerator);
    EXPECT_EQ(value.Denominator, denominator);
  };
  expect(range.RangeLimits.MinVSyncFreq, 48, 1);
  expect(range.RangeLimits.MaxVSyncFreq, 75, 2);
  expect(range.RangeLimits.MinHSyncFreq, 30'000, 3);
  expect(range.RangeLimits.MaxHSyncFreq, 85'000, 4);
  EXPECT_EQ(range.ConstraintType, D3DKMDT_MFRC_MAXPIXELRATE);
  EXPECT_EQ(range.Constraint.MaxPixelRate, 0x1'2345'6789U);

  const MonitorDescriptor wanted = {
      .id = 4, .type = 2, .data = std::vector<std::byte>(7, std::byte{6}), .origin = 3};
  D3DKMDT_MONITOR_DESCRIPTOR descriptor;
  std::memset(&descriptor, 0xCD, sizeof descriptor);
  std::vector<std::byte> data;
  to_abi(wanted, &data, &descriptor);
  EXPECT_EQ(data, wanted.data);
  EXPECT_EQ(descriptor.Id, 4U);
  EXPECT_EQ(number(descriptor.Type), 2U);
  EXPECT_EQ(descriptor.DataSize, 7U);
  EXPECT_EQ(descriptor.pData, data.data());
  EXPECT_EQ(number(descriptor.Origin), 3U);
}

TEST(Marshal, GammaTablesHaveTheSizeOfTheirType) {
  EXPECT_EQ(gamma_bytes(D3DDDI_GAMMARAMP_UNINITIALIZED), 0U);
  EXPECT_EQ(gamma_bytes(D3DDDI_GAMMARAMP_DEFAULT), 0U);
  EXPECT_EQ(gamma_bytes(D3DDDI_GAMMARAMP_RGB256x3x16), size_t{256 * 3 * 2});
  EXPECT_EQ(gamma_bytes(D3DDDI_GAMMARAMP_DXGI_1), sizeof(D3DDDI_GAMMA_RAMP_DXGI_1));
  EXPECT_EQ(gamma_bytes(D3DDDI_GAMMARAMP_MATRIX_3x4), sizeof(D3DKMDT_3x4_COLORSPACE_TRANSFORM));
  EXPECT_EQ(gamma_bytes(D3DDDI_GAMMARAMP_MATRIX_V2),
            sizeof(D3DKMDT_COLORSPACE_TRANSFORM_MATRIX_V2));
  EXPECT_EQ(gamma_bytes(99), 0U);
}

}  // namespace
}  // namespace dxgkit::vidpn
