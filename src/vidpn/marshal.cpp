#include "vidpn/marshal.h"

#include <algorithm>
#include <cstring>

#include "base/interface_versions.h"

namespace dxgkit::vidpn {
namespace {

// The driver wrote these structures: an enumeration in them may hold any number, so they are read
// and written as numbers.
template <typename T>
uint32_t raw(const T& member) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  uint32_t value = 0;
  std::memcpy(&value, &member, sizeof value);
  return value;
}

template <typename T>
void set_raw(T* member, uint32_t value) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  std::memcpy(member, &value, sizeof value);
}

Size size(const D3DKMDT_2DREGION& region) { return {region.cx, region.cy}; }
D3DKMDT_2DREGION region(const Size& size) { return {size.width, size.height}; }
Rational rational(const D3DDDI_RATIONAL& value) { return {value.Numerator, value.Denominator}; }
D3DDDI_RATIONAL rational(const Rational& value) { return {value.numerator, value.denominator}; }

std::array<uint32_t, 4> ranges(const D3DKMDT_COLOR_COEFF_DYNAMIC_RANGES& from) {
  return {from.FirstChannel, from.SecondChannel, from.ThirdChannel, from.FourthChannel};
}
D3DKMDT_COLOR_COEFF_DYNAMIC_RANGES ranges(const std::array<uint32_t, 4>& from) {
  return {from[0], from[1], from[2], from[3]};
}

Signal from_abi(const Profile& profile, const D3DKMDT_VIDEO_SIGNAL_INFO& info) {
  Signal signal;
  signal.standard = raw(info.VideoStandard);
  signal.total = size(info.TotalSize);
  signal.active = size(info.ActiveSize);
  signal.vsync = rational(info.VSyncFreq);
  signal.hsync = rational(info.HSyncFreq);
  // NOTSPECIFIED is a 32-bit number in a 64-bit member.
  signal.pixel_rate = info.PixelRate;
  const uint32_t bits = raw(info.ScanLineOrdering);
  if (bits == D3DDDI_VSSLO_OTHER || profile.interface_version < kInterfaceWddm13) {
    signal.scanline_ordering = bits;
  } else {
    signal.scanline_ordering = bits & 7U;
    signal.vsync_divider = bits >> 3 & 0x3FU;
  }
  return signal;
}

void to_abi(const Signal& signal, D3DKMDT_VIDEO_SIGNAL_INFO* out) {
  set_raw(&out->VideoStandard, signal.standard);
  out->TotalSize = region(signal.total);
  out->ActiveSize = region(signal.active);
  out->VSyncFreq = rational(signal.vsync);
  out->HSyncFreq = rational(signal.hsync);
  out->PixelRate = signal.pixel_rate;
  set_raw(&out->ScanLineOrdering, signal.scanline_ordering | signal.vsync_divider << 3);
}

}  // namespace

SourceMode from_abi(const D3DKMDT_VIDPN_SOURCE_MODE& mode) {
  SourceMode out;
  out.id = mode.Id;
  out.type = raw(mode.Type);
  const D3DKMDT_GRAPHICS_RENDERING_FORMAT& graphics = mode.Format.Graphics;
  out.surface = size(graphics.PrimSurfSize);
  out.visible = size(graphics.VisibleRegionSize);
  out.stride_bytes = graphics.Stride;
  out.pixel_format = raw(graphics.PixelFormat);
  out.color_basis = raw(graphics.ColorBasis);
  out.access_mode = raw(graphics.PixelValueAccessMode);
  return out;
}

void to_abi(const SourceMode& mode, D3DKMDT_VIDPN_SOURCE_MODE* out) {
  std::memset(out, 0, sizeof *out);
  out->Id = mode.id;
  set_raw(&out->Type, mode.type);
  D3DKMDT_GRAPHICS_RENDERING_FORMAT& graphics = out->Format.Graphics;
  graphics.PrimSurfSize = region(mode.surface);
  graphics.VisibleRegionSize = region(mode.visible);
  graphics.Stride = mode.stride_bytes;
  set_raw(&graphics.PixelFormat, mode.pixel_format);
  set_raw(&graphics.ColorBasis, mode.color_basis);
  set_raw(&graphics.PixelValueAccessMode, mode.access_mode);
}

TargetMode from_abi(const Profile& profile, const D3DKMDT_VIDPN_TARGET_MODE& mode) {
  TargetMode out;
  out.id = mode.Id;
  out.signal = from_abi(profile, mode.VideoSignalInfo);
  const uint32_t bits = mode.WireFormatAndPreference.Value;
  if (profile.interface_version < kInterfaceWddm22) {
    out.preference = bits;
  } else {
    out.preference = bits & 3U;
    out.wire_formats = bits & ~3U;
  }
  if (profile.interface_version >= kInterfaceWddm29)
    out.minimum_vsync = rational(mode.MinimumVSyncFreq);
  return out;
}

void to_abi(const TargetMode& mode, D3DKMDT_VIDPN_TARGET_MODE* out) {
  std::memset(out, 0, sizeof *out);
  out->Id = mode.id;
  to_abi(mode.signal, &out->VideoSignalInfo);
  out->WireFormatAndPreference.Value = mode.preference | mode.wire_formats;
  out->MinimumVSyncFreq = rational(mode.minimum_vsync);
}

MonitorMode from_abi(const Profile& profile, const D3DKMDT_MONITOR_SOURCE_MODE& mode) {
  MonitorMode out;
  out.id = mode.Id;
  out.signal = from_abi(profile, mode.VideoSignalInfo);
  out.color_basis = raw(mode.ColorBasis);
  out.color_ranges = ranges(mode.ColorCoeffDynamicRanges);
  out.origin = raw(mode.Origin);
  out.preference = raw(mode.Preference);
  return out;
}

void to_abi(const MonitorMode& mode, D3DKMDT_MONITOR_SOURCE_MODE* out) {
  std::memset(out, 0, sizeof *out);
  out->Id = mode.id;
  to_abi(mode.signal, &out->VideoSignalInfo);
  set_raw(&out->ColorBasis, mode.color_basis);
  out->ColorCoeffDynamicRanges = ranges(mode.color_ranges);
  set_raw(&out->Origin, mode.origin);
  set_raw(&out->Preference, mode.preference);
}

Path from_abi(const D3DKMDT_VIDPN_PRESENT_PATH& path) {
  Path out;
  out.source = path.VidPnSourceId;
  out.target = path.VidPnTargetId;
  out.importance = raw(path.ImportanceOrdinal);
  const D3DKMDT_VIDPN_PRESENT_PATH_TRANSFORMATION& shown = path.ContentTransformation;
  out.scaling = raw(shown.Scaling);
  out.scaling_support = raw(shown.ScalingSupport);
  out.rotation = raw(shown.Rotation);
  out.rotation_support = raw(shown.RotationSupport);
  out.visible_from_active_top_left = size(path.VisibleFromActiveTLOffset);
  out.visible_from_active_bottom_right = size(path.VisibleFromActiveBROffset);
  out.color_basis = raw(path.VidPnTargetColorBasis);
  out.color_ranges = ranges(path.VidPnTargetColorCoeffDynamicRanges);
  out.content = raw(path.Content);
  out.copy_protection = raw(path.CopyProtection.CopyProtectionType);
  out.aps_trigger_bits = path.CopyProtection.APSTriggerBits;
  out.copy_protection_support = raw(path.CopyProtection.CopyProtectionSupport);
  out.gamma_type = raw(path.GammaRamp.Type);
  return out;
}

void to_abi(const Path& path, std::vector<std::byte>* gamma, D3DKMDT_VIDPN_PRESENT_PATH* out) {
  std::memset(out, 0, sizeof *out);
  out->VidPnSourceId = path.source;
  out->VidPnTargetId = path.target;
  set_raw(&out->ImportanceOrdinal, path.importance);
  D3DKMDT_VIDPN_PRESENT_PATH_TRANSFORMATION& shown = out->ContentTransformation;
  set_raw(&shown.Scaling, path.scaling);
  set_raw(&shown.ScalingSupport, path.scaling_support);
  set_raw(&shown.Rotation, path.rotation);
  set_raw(&shown.RotationSupport, path.rotation_support);
  out->VisibleFromActiveTLOffset = region(path.visible_from_active_top_left);
  out->VisibleFromActiveBROffset = region(path.visible_from_active_bottom_right);
  set_raw(&out->VidPnTargetColorBasis, path.color_basis);
  out->VidPnTargetColorCoeffDynamicRanges = ranges(path.color_ranges);
  set_raw(&out->Content, path.content);
  set_raw(&out->CopyProtection.CopyProtectionType, path.copy_protection);
  out->CopyProtection.APSTriggerBits = path.aps_trigger_bits;
  set_raw(&out->CopyProtection.CopyProtectionSupport, path.copy_protection_support);
  *gamma = path.gamma;
  set_raw(&out->GammaRamp.Type, path.gamma_type);
  out->GammaRamp.DataSize = gamma->size();
  out->GammaRamp.Data.pRaw = gamma->empty() ? nullptr : gamma->data();
}

void to_abi(const FrequencyRange& range, D3DKMDT_MONITOR_FREQUENCY_RANGE* out) {
  std::memset(out, 0, sizeof *out);
  set_raw(&out->Origin, range.origin);
  out->RangeLimits = {rational(range.vsync_min), rational(range.vsync_max),
                      rational(range.hsync_min), rational(range.hsync_max)};
  out->ConstraintType = D3DKMDT_MFRC_MAXPIXELRATE;
  out->Constraint.MaxPixelRate = range.pixel_rate_max;
}

void to_abi(const MonitorDescriptor& descriptor, std::vector<std::byte>* data,
            D3DKMDT_MONITOR_DESCRIPTOR* out) {
  std::memset(out, 0, sizeof *out);
  *data = descriptor.data;
  out->Id = descriptor.id;
  set_raw(&out->Type, descriptor.type);
  out->DataSize = data->size();
  out->pData = data->data();
  set_raw(&out->Origin, descriptor.origin);
}

size_t gamma_bytes(uint32_t type) {
  switch (type) {
    case D3DDDI_GAMMARAMP_RGB256x3x16:
      return sizeof(D3DDDI_GAMMA_RAMP_RGB256x3x16);
    case D3DDDI_GAMMARAMP_DXGI_1:
      return sizeof(D3DDDI_GAMMA_RAMP_DXGI_1);
    case D3DDDI_GAMMARAMP_MATRIX_3x4:
      return sizeof(D3DKMDT_3x4_COLORSPACE_TRANSFORM);
    case D3DDDI_GAMMARAMP_MATRIX_V2:
      return sizeof(D3DKMDT_COLORSPACE_TRANSFORM_MATRIX_V2);
    default:
      return 0;
  }
}

}  // namespace dxgkit::vidpn
