// Between the ABI's structures and our values: each member with a number no other has, and what
// each interface version does not know.
#include "vidpn/marshal.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

Profile profile_of(uint32_t version) {
  Profile profile = full_profile();
  profile.interface_version = version;
  return profile;
}

Signal odd_signal() {
  return {.standard = 11,
          .total = {22, 33},
          .active = {44, 55},
          .vsync = {66, 77},
          .hsync = {88, 99},
          .pixel_rate = 0x1'2345'6789,
          .scanline_ordering = 3,
          .vsync_divider = 0x2A};
}

/// `memory` is `wanted` in all its bytes.
template <typename Abi>
void expect_bytes(const Abi& memory, const Abi& wanted) {
  EXPECT_EQ(std::memcmp(&memory, &wanted, sizeof wanted), 0);
}

/// A structure of which every byte is another one before it is written.
template <typename Abi>
Abi dirty() {
  Abi abi;
  std::memset(static_cast<void*>(&abi), 0xA5, sizeof abi);
  return abi;
}

template <typename Abi>
Abi zeroed() {
  Abi abi;
  std::memset(static_cast<void*>(&abi), 0, sizeof abi);
  return abi;
}

D3DKMDT_VIDEO_SIGNAL_INFO odd_signal_info() {
  auto info = zeroed<D3DKMDT_VIDEO_SIGNAL_INFO>();
  info.VideoStandard = static_cast<D3DKMDT_VIDEO_SIGNAL_STANDARD>(11);
  info.TotalSize = {22, 33};
  info.ActiveSize = {44, 55};
  info.VSyncFreq = {66, 77};
  info.HSyncFreq = {88, 99};
  info.PixelRate = 0x1'2345'6789;
  info.AdditionalSignalInfo.ScanLineOrdering =
      static_cast<D3DDDI_VIDEO_SIGNAL_SCANLINE_ORDERING>(3);
  info.AdditionalSignalInfo.VSyncFreqDivider = 0x2A;
  return info;
}

TEST(Marshal, SourceModes) {
  const SourceMode mode = {.id = 1,
                           .type = 2,
                           .surface = {3, 4},
                           .visible = {5, 6},
                           .stride_bytes = 7,
                           .pixel_format = 8,
                           .color_basis = 9,
                           .access_mode = 10};
  auto wanted = zeroed<D3DKMDT_VIDPN_SOURCE_MODE>();
  wanted.Id = 1;
  wanted.Type = static_cast<D3DKMDT_VIDPN_SOURCE_MODE_TYPE>(2);
  wanted.Format.Graphics.PrimSurfSize = {3, 4};
  wanted.Format.Graphics.VisibleRegionSize = {5, 6};
  wanted.Format.Graphics.Stride = 7;
  wanted.Format.Graphics.PixelFormat = static_cast<D3DDDIFORMAT>(8);
  wanted.Format.Graphics.ColorBasis = static_cast<D3DKMDT_COLOR_BASIS>(9);
  wanted.Format.Graphics.PixelValueAccessMode = static_cast<D3DKMDT_PIXEL_VALUE_ACCESS_MODE>(10);
  auto abi = dirty<D3DKMDT_VIDPN_SOURCE_MODE>();
  to_abi(mode, &abi);
  expect_bytes(abi, wanted);
  EXPECT_EQ(from_abi(wanted), mode);
}

TEST(Marshal, TargetModes) {
  const TargetMode mode = {.id = 1,
                           .signal = odd_signal(),
                           .preference = 1,
                           .wire_formats = 0xABCD'1230,
                           .minimum_vsync = {3, 4}};
  auto wanted = zeroed<D3DKMDT_VIDPN_TARGET_MODE>();
  wanted.Id = 1;
  wanted.VideoSignalInfo = odd_signal_info();
  wanted.WireFormatAndPreference.Value = 0xABCD'1231;
  wanted.MinimumVSyncFreq = {3, 4};
  auto abi = dirty<D3DKMDT_VIDPN_TARGET_MODE>();
  to_abi(mode, &abi);
  expect_bytes(abi, wanted);
  EXPECT_EQ(from_abi(profile_of(DXGKDDI_INTERFACE_VERSION_WDDM2_9), wanted), mode);
}

TEST(Marshal, MonitorModes) {
  const MonitorMode mode = {.id = 1,
                            .signal = odd_signal(),
                            .color_basis = 9,
                            .color_ranges = {3, 4, 5, 6},
                            .origin = 7,
                            .preference = 8};
  auto wanted = zeroed<D3DKMDT_MONITOR_SOURCE_MODE>();
  wanted.Id = 1;
  wanted.VideoSignalInfo = odd_signal_info();
  wanted.ColorBasis = static_cast<D3DKMDT_COLOR_BASIS>(9);
  wanted.ColorCoeffDynamicRanges = {3, 4, 5, 6};
  wanted.Origin = static_cast<D3DKMDT_MONITOR_CAPABILITIES_ORIGIN>(7);
  wanted.Preference = static_cast<D3DKMDT_MODE_PREFERENCE>(8);
  auto abi = dirty<D3DKMDT_MONITOR_SOURCE_MODE>();
  to_abi(mode, &abi);
  expect_bytes(abi, wanted);
  EXPECT_EQ(from_abi(profile_of(DXGKDDI_INTERFACE_VERSION_WDDM2_9), wanted), mode);
}

// A member that a version does not have is read as part of the older member, or as zero.
TEST(Marshal, MembersOfLaterVersionsAreNotRead) {
  struct Row {
    uint32_t version, ordering, divider, preference, wire_formats;
    Rational minimum;
  };
  constexpr uint32_t kBits = 3 | 0x2A << 3 | 0xFFFFFE00;  // ordering 3, divider 42, reserved ones
  constexpr uint32_t kWire = 0xABCD'1231;
  const Row rows[] = {
      {DXGKDDI_INTERFACE_VERSION_WDDM1_3 - 1, kBits, 0, kWire, 0, {}},
      {DXGKDDI_INTERFACE_VERSION_WDDM1_3, 3, 0x2A, kWire, 0, {}},
      {DXGKDDI_INTERFACE_VERSION_WDDM2_2 - 1, 3, 0x2A, kWire, 0, {}},
      {DXGKDDI_INTERFACE_VERSION_WDDM2_2, 3, 0x2A, 1, kWire - 1, {}},
      {DXGKDDI_INTERFACE_VERSION_WDDM2_9 - 1, 3, 0x2A, 1, kWire - 1, {}},
      {DXGKDDI_INTERFACE_VERSION_WDDM2_9, 3, 0x2A, 1, kWire - 1, {3, 4}},
      {DXGKDDI_INTERFACE_VERSION_WDDM3_0, 3, 0x2A, 1, kWire - 1, {3, 4}},
  };
  auto target = zeroed<D3DKMDT_VIDPN_TARGET_MODE>();
  std::memcpy(&target.VideoSignalInfo.ScanLineOrdering, &kBits, sizeof kBits);
  target.WireFormatAndPreference.Value = kWire;
  target.MinimumVSyncFreq = {3, 4};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.version);
    const Profile profile = profile_of(row.version);
    const TargetMode mode = from_abi(profile, target);
    EXPECT_EQ(mode.signal.scanline_ordering, row.ordering);
    EXPECT_EQ(mode.signal.vsync_divider, row.divider);
    EXPECT_EQ(mode.preference, row.preference);
    EXPECT_EQ(mode.wire_formats, row.wire_formats);
    EXPECT_EQ(mode.minimum_vsync, row.minimum);
    // OTHER is one number of all bits, not an ordering with a divider.
    auto other = zeroed<D3DKMDT_MONITOR_SOURCE_MODE>();
    other.VideoSignalInfo.ScanLineOrdering = D3DDDI_VSSLO_OTHER;
    EXPECT_EQ(from_abi(profile, other).signal.scanline_ordering, 255U);
    EXPECT_EQ(from_abi(profile, other).signal.vsync_divider, 0U);
  }
}

TEST(Marshal, Paths) {
  const std::vector<std::byte> table = {std::byte{1}, std::byte{2}, std::byte{3}};
  const Path path = {.source = 1,
                     .target = 2,
                     .importance = 3,
                     .scaling = 4,
                     .scaling_support = 5,
                     .rotation = 6,
                     .rotation_support = 7,
                     .visible_from_active_top_left = {8, 9},
                     .visible_from_active_bottom_right = {10, 11},
                     .color_basis = 12,
                     .color_ranges = {13, 14, 15, 16},
                     .content = 17,
                     .copy_protection = 18,
                     .aps_trigger_bits = 19,
                     .copy_protection_support = 20,
                     .gamma_type = 21,
                     .gamma = table};
  auto wanted = zeroed<D3DKMDT_VIDPN_PRESENT_PATH>();
  const auto number = [](auto* member, uint32_t value) {
    static_assert(sizeof *member == sizeof value);
    std::memcpy(static_cast<void*>(member), &value, sizeof value);
  };
  wanted.VidPnSourceId = 1;
  wanted.VidPnTargetId = 2;
  number(&wanted.ImportanceOrdinal, 3);
  number(&wanted.ContentTransformation.Scaling, 4);
  number(&wanted.ContentTransformation.ScalingSupport, 5);
  number(&wanted.ContentTransformation.Rotation, 6);
  number(&wanted.ContentTransformation.RotationSupport, 7);
  wanted.VisibleFromActiveTLOffset = {8, 9};
  wanted.VisibleFromActiveBROffset = {10, 11};
  number(&wanted.VidPnTargetColorBasis, 12);
  wanted.VidPnTargetColorCoeffDynamicRanges = {13, 14, 15, 16};
  number(&wanted.Content, 17);
  number(&wanted.CopyProtection.CopyProtectionType, 18);
  wanted.CopyProtection.APSTriggerBits = 19;
  number(&wanted.CopyProtection.CopyProtectionSupport, 20);
  number(&wanted.GammaRamp.Type, 21);
  wanted.GammaRamp.DataSize = 3;
  auto abi = dirty<D3DKMDT_VIDPN_PRESENT_PATH>();
  std::vector<std::byte> gamma;
  to_abi(path, &gamma, &abi);
  EXPECT_EQ(gamma, table);
  wanted.GammaRamp.Data.pRaw = gamma.data();
  expect_bytes(abi, wanted);
  Path without = path;  // the table is behind a pointer
  without.gamma.clear();
  EXPECT_EQ(from_abi(wanted), without);
  abi = dirty<D3DKMDT_VIDPN_PRESENT_PATH>();
  to_abi(without, &gamma, &abi);
  wanted.GammaRamp.DataSize = 0;
  wanted.GammaRamp.Data.pRaw = nullptr;
  expect_bytes(abi, wanted);
}

TEST(Marshal, FrequencyRanges) {
  const FrequencyRange range = {.origin = 5,
                                .vsync_min = {1, 2},
                                .vsync_max = {3, 4},
                                .hsync_min = {6, 7},
                                .hsync_max = {8, 9},
                                .pixel_rate_max = 0x1'2345'6789};
  auto wanted = zeroed<D3DKMDT_MONITOR_FREQUENCY_RANGE>();
  wanted.Origin = D3DKMDT_MCO_DRIVER;
  wanted.RangeLimits.MinVSyncFreq = {1, 2};
  wanted.RangeLimits.MaxVSyncFreq = {3, 4};
  wanted.RangeLimits.MinHSyncFreq = {6, 7};
  wanted.RangeLimits.MaxHSyncFreq = {8, 9};
  wanted.ConstraintType = D3DKMDT_MFRC_MAXPIXELRATE;
  wanted.Constraint.MaxPixelRate = 0x1'2345'6789;
  auto abi = dirty<D3DKMDT_MONITOR_FREQUENCY_RANGE>();
  to_abi(range, &abi);
  expect_bytes(abi, wanted);
}

TEST(Marshal, Descriptors) {
  const MonitorDescriptor descriptor = {
      .id = 3, .type = 2, .data = {std::byte{7}, std::byte{8}}, .origin = 5};
  auto abi = dirty<D3DKMDT_MONITOR_DESCRIPTOR>();
  std::vector<std::byte> data;
  to_abi(descriptor, &data, &abi);
  EXPECT_EQ(data, descriptor.data);
  auto wanted = zeroed<D3DKMDT_MONITOR_DESCRIPTOR>();
  wanted.Id = 3;
  wanted.Type = D3DKMDT_MDT_VESA_EDID_V1_BLOCKMAP;
  wanted.DataSize = 2;
  wanted.pData = data.data();
  wanted.Origin = D3DKMDT_MCO_DRIVER;
  expect_bytes(abi, wanted);
}

TEST(Marshal, GammaTablesHaveTheSizeOfTheirType) {
  DXGKIT_COVERS("VIDPN-17");
  const std::pair<uint32_t, size_t> rows[] = {
      {D3DDDI_GAMMARAMP_UNINITIALIZED, 0},
      {D3DDDI_GAMMARAMP_DEFAULT, 0},
      {D3DDDI_GAMMARAMP_RGB256x3x16, sizeof(D3DDDI_GAMMA_RAMP_RGB256x3x16)},
      {D3DDDI_GAMMARAMP_DXGI_1, sizeof(D3DDDI_GAMMA_RAMP_DXGI_1)},
      {D3DDDI_GAMMARAMP_MATRIX_3x4, sizeof(D3DKMDT_3x4_COLORSPACE_TRANSFORM)},
      {D3DDDI_GAMMARAMP_MATRIX_V2, sizeof(D3DKMDT_COLORSPACE_TRANSFORM_MATRIX_V2)},
      {6, 0},
      {UINT32_MAX, 0}};
  for (const auto& [type, bytes] : rows) EXPECT_EQ(gamma_bytes(type), bytes) << type;
}

}  // namespace
}  // namespace dxgkit::vidpn
