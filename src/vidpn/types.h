// Video present networks in our words: the content of a VidPN, of its mode sets and of a monitor.
// Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace dxgkit::vidpn {

/// A member the driver may leave open (D3DKMDT_FREQUENCY_NOTSPECIFIED,
/// D3DKMDT_DIMENSION_NOTSPECIFIED).
inline constexpr uint32_t kNotSpecified = 0xFFFFFFFE;
inline constexpr uint32_t kUninitialized = 0xFFFFFFFF;
/// D3DDDI_ID_UNINITIALIZED as the id of a source or target.
inline constexpr uint32_t kNoId = 0xFFFFFFFF;
inline constexpr uint32_t kSourcesMax = 16;

struct Size {
  uint32_t width = 0, height = 0;  // pixels
  bool operator==(const Size&) const = default;
};

/// numerator / denominator in Hz. Values compare member by member: 60/1 is not 60000/1000.
struct Rational {
  uint32_t numerator = 0, denominator = 0;
  bool operator==(const Rational&) const = default;
  bool specified() const { return numerator != kNotSpecified && denominator != kNotSpecified; }
  double hertz() const {
    return denominator == 0 ? 0.0 : static_cast<double>(numerator) / denominator;
  }
};

/// The signal on the wire. Enumerations hold the numbers of the ABI.
struct Signal {
  uint32_t standard = 0;  // D3DKMDT_VSS_*
  Size total = {}, active = {};
  Rational vsync = {}, hsync = {};
  uint64_t pixel_rate = 0;         // Hz
  uint32_t scanline_ordering = 0;  // D3DDDI_VSSLO_*, three bits since WDDM 1.3
  uint32_t vsync_divider = 0;      // six bits, Miracast only; 0 before WDDM 1.3
  bool operator==(const Signal&) const = default;
};

/// The pixels that are lit: ActiveSize, or TotalSize where a driver leaves that out (VIDPN-03).
inline Size lit_size(const Signal& signal) {
  return signal.active == Size{} ? signal.total : signal.active;
}

struct SourceMode {
  uint32_t id = 0;
  uint32_t type = 1;  // D3DKMDT_RMT_*; the rest is meaningful for graphics types
  Size surface = {}, visible = {};
  uint32_t stride_bytes = 0;
  uint32_t pixel_format = 0;  // D3DDDIFORMAT
  uint32_t color_basis = 0;   // D3DKMDT_CB_*
  uint32_t access_mode = 0;   // D3DKMDT_PVAM_*
  bool operator==(const SourceMode&) const = default;
};

struct TargetMode {
  uint32_t id = 0;
  Signal signal = {};
  uint32_t preference = 2;      // D3DKMDT_MP_*
  uint32_t wire_formats = 0;    // bits 2..31 of WireFormatAndPreference; 0 before WDDM 2.2
  Rational minimum_vsync = {};  // 0/0 before WDDM 2.9
  bool operator==(const TargetMode&) const = default;
};

/// The modes of one source, target or monitor, in the order they were added.
template <typename Mode>
struct ModeSet {
  std::vector<Mode> modes;
  std::optional<uint32_t> pinned = {};  // id of a member of `modes`
  bool operator==(const ModeSet&) const = default;
  const Mode* find(uint32_t id) const {
    for (const Mode& mode : modes)
      if (mode.id == id) return &mode;
    return nullptr;
  }
  /// Null if no mode is pinned.
  const Mode* pinned_mode() const { return pinned.has_value() ? find(*pinned) : nullptr; }
};
using SourceModeSet = ModeSet<SourceMode>;
using TargetModeSet = ModeSet<TargetMode>;

/// Bits of Path::scaling_support and Path::rotation_support.
inline constexpr uint32_t kScalingIdentity = 1, kScalingCentered = 2, kScalingStretched = 4,
                          kScalingAspectRatioCenteredMax = 8, kScalingCustom = 16;
inline constexpr uint32_t kRotationIdentity = 1, kRotation90 = 2, kRotation180 = 4,
                          kRotation270 = 8, kRotationOffset0 = 16, kRotationOffset90 = 32,
                          kRotationOffset180 = 64, kRotationOffset270 = 128;
inline constexpr uint32_t kTransformationUnpinned = 254, kTransformationNotSpecified = 255;

/// One source shown on one target.
struct Path {
  uint32_t source = kNoId, target = kNoId;
  uint32_t importance = 1;  // D3DKMDT_VPPI_*, unique in a topology
  uint32_t scaling = kTransformationUnpinned, scaling_support = 0;
  uint32_t rotation = kTransformationUnpinned, rotation_support = 0;
  Size visible_from_active_top_left = {}, visible_from_active_bottom_right = {};
  uint32_t color_basis = 3;  // of the target: D3DKMDT_CB_SCRGB
  std::array<uint32_t, 4> color_ranges = {8, 8, 8, 0};
  uint32_t content = 1;          // D3DKMDT_VPPC_*
  uint32_t copy_protection = 1;  // D3DKMDT_VPPMT_*
  uint32_t aps_trigger_bits = 0;
  uint32_t copy_protection_support = 1;  // bit 0: none, 1: APS trigger, 2: full
  uint32_t gamma_type = 1;               // D3DDDI_GAMMARAMP_*
  std::vector<std::byte> gamma = {};     // the table; empty for the default ramp
  bool operator==(const Path&) const = default;
};

struct MultisamplingMethod {
  uint32_t samples = 0, quality_levels = 0;
  bool operator==(const MultisamplingMethod&) const = default;
};

/// The whole content of a VidPN. A value: copy, compare, keep.
///
/// Invariants (see validate() in network.h): sets and methods exist only for sources and targets
/// that are in `paths`. A target is in at most one path. Mode ids are unique in their set.
struct Network {
  std::vector<Path> paths;                        // in the order they were added
  std::map<uint32_t, SourceModeSet> source_sets;  // by source id
  std::map<uint32_t, TargetModeSet> target_sets;  // by target id
  std::map<uint32_t, std::vector<MultisamplingMethod>> multisampling;  // by source id
  bool operator==(const Network&) const = default;

  const Path* find_path(uint32_t source, uint32_t target) const;
  bool has_source(uint32_t source) const;
  bool has_target(uint32_t target) const;
  /// Null if the source (target) has no set or no pinned mode.
  const SourceMode* pinned_source_mode(uint32_t source) const;
  const TargetMode* pinned_target_mode(uint32_t target) const;
};

struct MonitorMode {
  uint32_t id = 0;
  Signal signal = {};
  uint32_t color_basis = 2;  // D3DKMDT_CB_SRGB
  std::array<uint32_t, 4> color_ranges = {8, 8, 8, 0};
  uint32_t origin = 2;      // D3DKMDT_MCO_*
  uint32_t preference = 2;  // D3DKMDT_MP_*
  bool operator==(const MonitorMode&) const = default;
};

struct FrequencyRange {
  uint32_t origin = 2;
  Rational vsync_min = {}, vsync_max = {}, hsync_min = {}, hsync_max = {};
  uint64_t pixel_rate_max = 0;  // Hz
  bool operator==(const FrequencyRange&) const = default;
};

struct MonitorDescriptor {
  uint32_t id = 0;
  uint32_t type = 1;            // D3DKMDT_MDT_*
  std::vector<std::byte> data;  // one 128-byte EDID block
  uint32_t origin = 2;
  bool operator==(const MonitorDescriptor&) const = default;
};

/// The kernel's knowledge of the monitor at one target.
struct Monitor {
  std::vector<MonitorMode> modes;  // preferred first, as the EDID names them
  std::vector<FrequencyRange> ranges;
  std::vector<MonitorDescriptor> descriptors;
  bool operator==(const Monitor&) const = default;
};

}  // namespace dxgkit::vidpn
