#include "vidpn/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/interface_versions.h"
#include "vidpn/vidpn.h"

namespace dxgkit::vidpn {
namespace {

using verifier::Confidence;
using verifier::Severity;

// Signals are described by 16-bit counts in every timing standard.
constexpr uint32_t kDimensionMax = 65535;

constexpr uint32_t kA8R8G8B8 = 21;
constexpr uint32_t kP8 = 41;

struct ScanoutFormat {
  uint32_t format;
  uint32_t bytes_per_pixel;
};
// D3DDDIFORMAT values a display engine scans out.
constexpr ScanoutFormat kScanoutFormats[] = {{20, 3}, {21, 4},  {22, 4}, {23, 2}, {24, 2},
                                             {25, 2}, {31, 4},  {32, 4}, {33, 4}, {35, 4},
                                             {41, 1}, {113, 8}, {119, 4}};

std::string hertz_text(const Rational& value) {
  const auto part = [](uint32_t number) {
    if (number == kNotSpecified) return std::string("NOTSPECIFIED");
    if (number == kUninitialized) return std::string("UNINITIALIZED");
    return fmt::format("{}", number);
  };
  return part(value.numerator) + "/" + part(value.denominator);
}

bool sensible(const Size& size) {
  return size.width >= 1 && size.width <= kDimensionMax && size.height >= 1 &&
         size.height <= kDimensionMax;
}

bool names_frequency(const Rational& value) {
  return value.numerator != 0 && value.denominator != 0 && value.numerator != kUninitialized &&
         value.denominator != kUninitialized;
}

bool half_open(const Rational& value) {
  return (value.numerator == kNotSpecified) != (value.denominator == kNotSpecified);
}

bool vertical_in_range(const Rational& value) {
  return value.numerator >= value.denominator &&
         value.numerator <= uint64_t{1000} * value.denominator;
}

bool differs(double left, double right) { return std::abs(left - right) > 0.02 * right; }

/// Collects; `refuse` ends the judgment.
class Judge {
 public:
  explicit Judge(std::string subject) : subject_(std::move(subject)) {}

  bool refused() const { return !list_.empty() && !is_success(list_.back().status); }
  void refuse(Judgment judgment) { add(std::move(judgment)); }
  void remark(Judgment judgment) { add(std::move(judgment)); }
  Judgments take() { return std::move(list_); }

 private:
  void add(Judgment judgment) {
    judgment.actual = subject_ + " " + judgment.actual;
    list_.push_back(std::move(judgment));
  }

  std::string subject_;
  Judgments list_;
};

void judge_frequency_kinds(const Profile& profile, const Signal& signal, Judge* judge) {
  const bool open = !signal.vsync.specified();
  const bool display_only = profile.kind == DriverKind::kDisplayOnly;
  if (open && !display_only) {
    judge->refuse(
        {.status = kInvalidFrequency,
         .rule = "VIDPN-01",
         .actual = fmt::format("has VSyncFreq {}, and the driver is a full WDDM driver.",
                               hertz_text(signal.vsync)),
         .expected = "A full driver names the vertical frequency of every target and monitor mode; "
                     "NOTSPECIFIED is allowed for display-only drivers alone.",
         .fix = "Give a nominal timing (60/1) with matching HSyncFreq and PixelRate, even when "
                "the hardware has no real signal.",
         .why = "The kernel paces presents of a full driver by this frequency.",
         .windows = "pfnAddMode fails with STATUS_GRAPHICS_INVALID_FREQUENCY (0xC01E030A); the "
                    "screen stays black.",
         .confidence = Confidence::kMeasured});
    return;
  }
  if (open && display_only && profile.vsync_control) {
    judge->refuse(
        {.status = kInvalidFrequency,
         .rule = "VIDPN-01",
         .actual = "has VSyncFreq NOTSPECIFIED, and the driver has DxgkDdiControlInterrupt and "
                   "DxgkDdiGetScanLine.",
         .expected = "A display-only driver that controls vertical sync names PixelRate, HSyncFreq "
                     "and VSyncFreq; only one without these DDIs leaves them open.",
         .fix = "Name the timing, or leave both DDIs out of KMDDOD_INITIALIZATION_DATA.",
         .confidence = Confidence::kDocumented});
    return;
  }
  if (!open && display_only && !profile.vsync_control) {
    judge->remark(
        {.rule = "VIDPN-01",
         .actual = fmt::format("has VSyncFreq {}, and the driver has no DxgkDdiControlInterrupt.",
                               hertz_text(signal.vsync)),
         .expected = "A display-only driver that does not control vertical sync sets PixelRate, "
                     "HSyncFreq and VSyncFreq to D3DKMDT_FREQUENCY_NOTSPECIFIED.",
         .fix = "Set all three to D3DKMDT_FREQUENCY_NOTSPECIFIED.",
         .why = "The kernel simulates vertical sync for such drivers.",
         .severity = Severity::kWarning});
  }
}

void judge_frequencies(const Profile& profile, const Signal& signal, Judge* judge) {
  const auto bad = [&](const char* member, const Rational& value, const char* expected) {
    judge->refuse({.status = kInvalidFrequency,
                   .rule = "VIDPN-02",
                   .actual = fmt::format("has {} {}.", member, hertz_text(value)),
                   .expected = expected,
                   .fix = fmt::format("Fill {} as a fraction, for example 60/1.", member)});
  };
  for (const auto& [member, value] :
       {std::pair{"VSyncFreq", signal.vsync}, std::pair{"HSyncFreq", signal.hsync}}) {
    if (half_open(value)) {
      judge->remark({.rule = "VIDPN-02",
                     .actual = fmt::format("has {} {}.", member, hertz_text(value)),
                     .expected = "Numerator and denominator are both NOTSPECIFIED, or neither.",
                     .fix = fmt::format("Set both parts of {}.", member)});
    } else if (value.specified() && !names_frequency(value)) {
      return bad(member, value, "Numerator and denominator are not zero and not UNINITIALIZED.");
    }
  }
  if (signal.vsync.specified() && !vertical_in_range(signal.vsync))
    return bad("VSyncFreq", signal.vsync, "A vertical frequency is between 1 and 1000 Hz.");
  judge_frequency_kinds(profile, signal, judge);
}

void judge_agreement(const Signal& signal, Judge* judge) {
  const bool total_known = signal.total.width != kNotSpecified;
  const bool rate_known = signal.pixel_rate != kNotSpecified;
  if (signal.pixel_rate == 0 || signal.pixel_rate == kUninitialized) {
    judge->remark({.rule = "VIDPN-13",
                   .actual = fmt::format("has PixelRate {}.", signal.pixel_rate),
                   .expected = "PixelRate is the pixel clock in Hz, or NOTSPECIFIED.",
                   .fix = "Set PixelRate to TotalSize.cx * TotalSize.cy * VSyncFreq."});
    return;
  }
  if (!total_known || !signal.vsync.specified()) return;
  // An interlaced frame takes two fields, and VSyncFreq counts fields.
  const bool interlaced = signal.scanline_ordering == 2 || signal.scanline_ordering == 3;
  const double frames = signal.vsync.hertz() / (interlaced ? 2 : 1);
  const double lines = signal.total.height * frames;
  const double pixels = signal.total.width * lines;
  if (rate_known && differs(static_cast<double>(signal.pixel_rate), pixels)) {
    judge->remark(
        {.rule = "VIDPN-13",
         .actual = fmt::format("has PixelRate {}, while TotalSize {} at {:.3f} Hz makes {:.0f}.",
                               signal.pixel_rate, to_text(signal.total), frames, pixels),
         .expected = "Pixel rate = total width x total height x frames per second.",
         .fix = "Put the blanking into TotalSize, or correct PixelRate."});
  }
  if (signal.hsync.specified() && differs(signal.hsync.hertz(), lines)) {
    judge->remark(
        {.rule = "VIDPN-13",
         .actual = fmt::format("has HSyncFreq {:.3f} Hz, while {} lines at {:.3f} Hz make {:.3f}.",
                               signal.hsync.hertz(), signal.total.height, frames, lines),
         .expected = "Horizontal frequency = total height x frames per second.",
         .fix = "Correct HSyncFreq, or the height of TotalSize."});
  }
}

void judge_signal(const Profile& profile, const Signal& signal, Status invalid_mode, Judge* judge) {
  if (signal.standard == 0 || (signal.standard > 31 && signal.standard != 255)) {
    return judge->refuse({.status = invalid_mode,
                          .rule = "VIDPN-12",
                          .actual = fmt::format("has VideoStandard {}.", signal.standard),
                          .expected = "VideoStandard is a value of D3DKMDT_VIDEO_SIGNAL_STANDARD.",
                          .fix = "Set D3DKMDT_VSS_OTHER when no standard fits."});
  }
  if (signal.active == Size{} && sensible(signal.total)) {
    judge->remark({.rule = "VIDPN-03",
                   .actual = fmt::format("has ActiveSize {}.", to_text(signal.active)),
                   .expected = "Both sides of ActiveSize are 1 to 65535 pixels.",
                   .fix = "Set ActiveSize to the visible resolution of the mode.",
                   .windows = "The mode is taken: drivers in use leave ActiveSize out. The kernel "
                              "takes TotalSize for it."});
  } else if (!sensible(signal.active)) {
    return judge->refuse({.status = kInvalidActiveRegion,
                          .rule = "VIDPN-03",
                          .actual = fmt::format("has ActiveSize {}.", to_text(signal.active)),
                          .expected = "Both sides of ActiveSize are 1 to 65535 pixels.",
                          .fix = "Set ActiveSize to the visible resolution of the mode."});
  }
  const bool total_open =
      signal.total.width == kNotSpecified && signal.total.height == kNotSpecified;
  if (!total_open && (!sensible(signal.total) || signal.total.width < signal.active.width ||
                      signal.total.height < signal.active.height)) {
    return judge->refuse({.status = kInvalidTotalRegion,
                          .rule = "VIDPN-03",
                          .actual = fmt::format("has TotalSize {} and ActiveSize {}.",
                                                to_text(signal.total), to_text(signal.active)),
                          .expected = "TotalSize holds ActiveSize and the blanking, or both its "
                                      "sides are D3DKMDT_DIMENSION_NOTSPECIFIED.",
                          .fix = "Add the blanking to ActiveSize."});
  }
  judge_frequencies(profile, signal, judge);
  if (judge->refused()) return;
  const uint32_t ordering = signal.scanline_ordering;
  if ((ordering < 1 || ordering > 3) && ordering != 255) {
    return judge->refuse({.status = kInvalidScanlineOrdering,
                          .rule = "VIDPN-12",
                          .actual = fmt::format("has ScanLineOrdering {}.", ordering),
                          .expected = "ScanLineOrdering is PROGRESSIVE, one of the two INTERLACED "
                                      "values, or OTHER.",
                          .fix = "Set D3DDDI_VSSLO_PROGRESSIVE."});
  }
  if (profile.interface_version >= kInterfaceWddm13 && signal.vsync_divider != 0) {
    judge->remark({.rule = "VIDPN-12",
                   .actual = fmt::format("has VSyncFreqDivider {}.", signal.vsync_divider),
                   .expected = "VSyncFreqDivider is 0 for a target that is not Miracast.",
                   .fix = "Write ScanLineOrdering through the union, or zero the structure first.",
                   .severity = Severity::kWarning});
  }
  judge_agreement(signal, judge);
}

void judge_pixels(const Profile& profile, const SourceMode& mode, Judge* judge) {
  const auto* found = std::ranges::find(kScanoutFormats, mode.pixel_format, &ScanoutFormat::format);
  if (found == std::end(kScanoutFormats)) {
    return judge->refuse({.status = kInvalidPixelFormat,
                          .rule = "VIDPN-11",
                          .actual = fmt::format("has PixelFormat {:#x}.", mode.pixel_format),
                          .expected = "PixelFormat is one that a display scans out.",
                          .fix = "Use D3DDDIFMT_A8R8G8B8 (21)."});
  }
  if (profile.kind == DriverKind::kDisplayOnly && mode.pixel_format != kA8R8G8B8) {
    return judge->refuse(
        {.status = kInvalidPixelFormat,
         .rule = "VIDPN-11",
         .actual = fmt::format("has PixelFormat {} in a display-only driver.", mode.pixel_format),
         .expected = "Source modes of display-only drivers are D3DDDIFMT_A8R8G8B8 "
                     "(21).",
         .fix = "Offer A8R8G8B8 and convert in PresentDisplayOnly.",
         .windows = "The mode never reaches the mode list."});
  }
  const uint64_t line_bytes = uint64_t{mode.surface.width} * found->bytes_per_pixel;
  if (mode.stride_bytes < line_bytes) {
    return judge->refuse(
        {.status = kInvalidStride,
         .rule = "VIDPN-10",
         .actual = fmt::format("has Stride {} for {} pixels of {} bytes.", mode.stride_bytes,
                               mode.surface.width, found->bytes_per_pixel),
         .expected = fmt::format("Stride is at least {} bytes.", line_bytes),
         .fix = "Set Stride to the bytes from one scan line to the next."});
  }
  const bool palette = mode.access_mode == 2 || mode.access_mode == 3;
  if (mode.access_mode > 3 || (palette && mode.pixel_format != kP8)) {
    return judge->refuse({.status = kInvalidAccessMode,
                          .rule = "VIDPN-10",
                          .actual = fmt::format("has PixelValueAccessMode {} with PixelFormat {}.",
                                                mode.access_mode, mode.pixel_format),
                          .expected = "Pixels of a format with colours are accessed directly.",
                          .fix = "Set D3DKMDT_PVAM_DIRECT."});
  }
  if (mode.access_mode == 0 || (mode.pixel_format == kP8 && !palette)) {
    judge->remark({.rule = "VIDPN-10",
                   .actual = fmt::format("has PixelValueAccessMode {} with PixelFormat {}.",
                                         mode.access_mode, mode.pixel_format),
                   .expected = "PixelValueAccessMode says how pixels are read: directly, or "
                               "through a palette for P8.",
                   .fix = "Set D3DKMDT_PVAM_DIRECT."});
  }
}

}  // namespace

Status outcome(const Judgments& judgments) {
  return judgments.empty() ? Status::kSuccess : judgments.back().status;
}

Judgments judge_source_mode(const Profile& profile, const SourceMode& mode) {
  Judge judge(fmt::format("Source mode {}", mode.id));
  const bool text = mode.type == 2;
  if (mode.type == 0 || mode.type > 4) {
    judge.refuse({.status = kInvalidSourceMode,
                  .rule = "VIDPN-10",
                  .actual = fmt::format("has Type {}.", mode.type),
                  .expected = "Type is a graphics or text mode.",
                  .fix = "Set D3DKMDT_RMT_GRAPHICS before adding the mode."});
  } else if (text) {
    if (profile.kind == DriverKind::kDisplayOnly) {
      judge.remark({.rule = "VIDPN-10",
                    .actual = "has Type D3DKMDT_RMT_TEXT.",
                    .expected = "What a display-only driver shows are pixels: a graphics mode.",
                    .fix = "Set D3DKMDT_RMT_GRAPHICS before adding the mode."});
    }
    return judge.take();
  } else if (!sensible(mode.surface)) {
    judge.refuse({.status = kInvalidPrimarySurfaceSize,
                  .rule = "VIDPN-10",
                  .actual = fmt::format("has PrimSurfSize {}.", to_text(mode.surface)),
                  .expected = "Both sides of PrimSurfSize are 1 to 65535 pixels.",
                  .fix = "Set PrimSurfSize to the resolution of the mode."});
  } else if (!sensible(mode.visible) || mode.visible.width > mode.surface.width ||
             mode.visible.height > mode.surface.height) {
    judge.refuse({.status = kInvalidVisibleRegionSize,
                  .rule = "VIDPN-10",
                  .actual = fmt::format("has VisibleRegionSize {} and PrimSurfSize {}.",
                                        to_text(mode.visible), to_text(mode.surface)),
                  .expected = "The visible region lies inside the surface.",
                  .fix = "Set VisibleRegionSize = PrimSurfSize."});
  } else if (mode.color_basis > 5) {
    judge.refuse({.status = kInvalidColorBasis,
                  .rule = "VIDPN-10",
                  .actual = fmt::format("has ColorBasis {}.", mode.color_basis),
                  .expected = "ColorBasis is a value of D3DKMDT_COLOR_BASIS.",
                  .fix = "Set D3DKMDT_CB_SCRGB."});
  } else {
    if (mode.color_basis == 0 || mode.color_basis > 3) {
      judge.remark({.rule = "VIDPN-10",
                    .actual = fmt::format("has ColorBasis {}.", mode.color_basis),
                    .expected = "The colour basis of a primary is SCRGB, SRGB or INTENSITY.",
                    .fix = "Set D3DKMDT_CB_SCRGB."});
    }
    judge_pixels(profile, mode, &judge);
  }
  return judge.take();
}

Judgments judge_target_mode(const Profile& profile, const TargetMode& mode) {
  Judge judge(fmt::format("Target mode {}", mode.id));
  judge_signal(profile, mode.signal, kInvalidTargetMode, &judge);
  if (judge.refused()) return judge.take();
  const Rational& minimum = mode.minimum_vsync;
  const bool given = minimum.numerator != 0 || minimum.denominator != 0;
  if (given && minimum.specified()) {
    const bool above = names_frequency(minimum) && mode.signal.vsync.specified() &&
                       uint64_t{minimum.numerator} * mode.signal.vsync.denominator >
                           uint64_t{mode.signal.vsync.numerator} * minimum.denominator;
    if (!names_frequency(minimum) || !vertical_in_range(minimum) || above) {
      judge.refuse({.status = kInvalidFrequency,
                    .rule = "VIDPN-02",
                    .actual = fmt::format("has MinimumVSyncFreq {} and VSyncFreq {}.",
                                          hertz_text(minimum), hertz_text(mode.signal.vsync)),
                    .expected = "MinimumVSyncFreq is 0/0 or a frequency of 1 Hz up to VSyncFreq.",
                    .fix = "Leave MinimumVSyncFreq 0/0 without variable refresh."});
      return judge.take();
    }
  }
  if (mode.preference != 1 && mode.preference != 2) {
    judge.remark({.rule = "VIDPN-12",
                  .actual = fmt::format("has Preference {}.", mode.preference),
                  .expected = "Preference is PREFERRED or NOTPREFERRED.",
                  .fix = "Set D3DKMDT_MP_NOTPREFERRED, and PREFERRED for the monitor's own mode."});
  }
  return judge.take();
}

Judgments judge_monitor_mode(const Profile& profile, const MonitorMode& mode) {
  Judge judge(fmt::format("Monitor mode {}", mode.id));
  judge_signal(profile, mode.signal, kInvalidMonitorMode, &judge);
  if (judge.refused()) return judge.take();
  if (mode.color_basis == 0 || mode.color_basis > 5 || mode.preference == 0 ||
      mode.preference > 2) {
    judge.refuse({.status = kInvalidMonitorMode,
                  .rule = "VIDPN-21",
                  .actual = fmt::format("has ColorBasis {} and Preference {}.", mode.color_basis,
                                        mode.preference),
                  .expected = "A monitor mode names its colour basis and its preference.",
                  .fix = "Set D3DKMDT_CB_SRGB and D3DKMDT_MP_NOTPREFERRED."});
    return judge.take();
  }
  const auto& bits = mode.color_ranges;  // of red, green, blue, and a fourth that may be none
  if (bits[0] == 0 || bits[1] == 0 || bits[2] == 0) {
    judge.remark({.rule = "VIDPN-21",
                  .actual = fmt::format("has ColorCoeffDynamicRanges {}, {}, {}.", bits[0], bits[1],
                                        bits[2]),
                  .expected = "Each of the first three channels has so many bits.",
                  .fix = "Set 8 for each channel of an ordinary monitor."});
  }
  constexpr uint32_t kOriginDriver = 5;
  if (mode.origin != kOriginDriver) {
    judge.remark({.rule = "VIDPN-21",
                  .actual = fmt::format("has Origin {}.", mode.origin),
                  .expected = "A mode that a driver adds has Origin D3DKMDT_MCO_DRIVER (5).",
                  .fix = "Set D3DKMDT_MCO_DRIVER."});
  }
  return judge.take();
}

Judgments judge_new_path(const Profile& profile, const Network& network, const Path& path) {
  Judge judge(fmt::format("A path from source {} to target {}", path.source, path.target));
  const auto refuse = [&](Status status, const char* rule, std::string actual, std::string expected,
                          std::string fix) {
    judge.refuse({.status = status,
                  .rule = rule,
                  .actual = std::move(actual),
                  .expected = std::move(expected),
                  .fix = std::move(fix)});
    return judge.take();
  };
  const uint32_t rotation_max = profile.path_independent_rotation() ? 16 : 4;
  const bool scaling_known =
      (path.scaling >= 1 && path.scaling <= 5) || path.scaling == 254 || path.scaling == 255;
  const bool rotation_known = (path.rotation >= 1 && path.rotation <= rotation_max) ||
                              path.rotation == 254 || path.rotation == 255;
  if (path.source >= profile.source_count) {
    return refuse(kInvalidSource, "VIDPN-17", "names a source that is not there.",
                  fmt::format("Sources are 0 to {}: StartDevice returned {}.",
                              profile.source_count - 1, profile.source_count),
                  "Use an id below NumberOfVideoPresentSources.");
  }
  if (!profile.has_target(path.target)) {
    return refuse(kInvalidTarget, "VIDPN-17", "names a target that is not there.",
                  "A target is the ChildUid of a video output of DxgkDdiQueryChildRelations.",
                  "Use the ids given there.");
  }
  if (network.find_path(path.source, path.target) != nullptr) {
    return refuse(kPathAlreadyInTopology, "VIDPN-17", "is in the topology already.",
                  "A path is added once.", "Look for it with pfnAcquirePathInfo first.");
  }
  if (network.has_target(path.target)) {
    return refuse(kInvalidVidPnTopology, "VIDPN-17", "takes a target that another path has.",
                  "A target shows one source; a source may be on several targets.",
                  "Remove the other path first.");
  }
  if (network.paths.size() >= kPathsMax) {
    return refuse(
        kMaxPathsReached, "VIDPN-17", fmt::format("would be path {}.", network.paths.size() + 1),
        fmt::format("A topology has at most {} paths.", kPathsMax), "Remove paths first.");
  }
  const bool importance_taken = std::ranges::any_of(
      network.paths, [&](const Path& other) { return other.importance == path.importance; });
  if (path.importance == 0 || path.importance > kPathsMax || importance_taken) {
    return refuse(kInvalidImportance, "VIDPN-17",
                  fmt::format("has ImportanceOrdinal {}{}.", path.importance,
                              importance_taken ? ", which another path has" : ""),
                  "Importance starts at D3DKMDT_VPPI_PRIMARY (1) and is unique in a topology.",
                  "Set the next free ordinal.");
  }
  if (!scaling_known || !rotation_known) {
    return refuse(kInvalidTransformation, "VIDPN-20",
                  fmt::format("has Scaling {} and Rotation {}.", path.scaling, path.rotation),
                  "Both are set: to a transformation, UNPINNED or NOTSPECIFIED.",
                  "Set D3DKMDT_VPPS_IDENTITY and D3DKMDT_VPPR_IDENTITY.");
  }
  if (path.content > 2 && path.content != 255) {
    return refuse(kInvalidPathContent, "VIDPN-17", fmt::format("has Content {}.", path.content),
                  "Content is GRAPHICS, VIDEO or NOTSPECIFIED.", "Set D3DKMDT_VPPC_GRAPHICS.");
  }
  if (path.copy_protection > 3) {
    return refuse(kInvalidCopyProtection, "VIDPN-17",
                  fmt::format("has CopyProtectionType {}.", path.copy_protection),
                  "CopyProtectionType is a value of its enumeration.",
                  "Set D3DKMDT_VPPMT_NOPROTECTION.");
  }
  if (path.content == 0 || path.copy_protection == 0 || path.color_basis == 0 ||
      path.gamma_type == 0) {
    judge.remark({.rule = "VIDPN-17",
                  .actual = fmt::format("has Content {}, CopyProtectionType {}, "
                                        "VidPnTargetColorBasis {} and GammaRamp.Type {}.",
                                        path.content, path.copy_protection, path.color_basis,
                                        path.gamma_type),
                  .expected = "None of them is left UNINITIALIZED.",
                  .fix = "Fill the whole structure before pfnAddPath."});
  }
  return judge.take();
}

Judgments judge_path_support(const Profile& profile, const Path& path, const Path& update,
                             bool test_signing) {
  Judge judge(fmt::format("The update of path {} -> {}", path.source, path.target));
  constexpr uint32_t kRotations = kRotationIdentity | kRotation90 | kRotation180 | kRotation270;
  constexpr uint32_t kOffsets =
      kRotationOffset0 | kRotationOffset90 | kRotationOffset180 | kRotationOffset270;
  const uint32_t rotations = update.rotation_support & kRotations;
  if (profile.path_independent_rotation() && rotations != 0 &&
      (update.rotation_support & kOffsets) == 0) {
    judge.refuse(
        {.status = Status::kInvalidParameter,
         .rule = "VIDPN-04",
         .actual = fmt::format("has RotationSupport {:#x} without any offset bit.",
                               update.rotation_support),
         .expected = "With path-independent rotation (interface version 0x4003 and later) a "
                     "supported rotation goes with a supported offset.",
         .fix = "Set RotationSupport.Offset0 = 1 beside Identity.",
         .why = "Clone paths may be rotated against each other, so each path says its offsets.",
         .windows = "A test-signed Windows stops with bug check 0x113, subtype 0x1C, and again at "
                    "the next boot.",
         .severity = test_signing ? Severity::kBugCheck : Severity::kViolation,
         .confidence = Confidence::kMeasured,
         .bugcheck_code = 0x113,
         .bugcheck_parameter = 0x1C});
    return judge.take();
  }
  const bool scaling_pinned = path.scaling >= 1 && path.scaling <= 5;
  if (scaling_pinned && update.scaling_support != 0 &&
      (update.scaling_support >> (path.scaling - 1) & 1U) == 0) {
    judge.remark({.rule = "VIDPN-20",
                  .actual = fmt::format("has ScalingSupport {:#x}, while scaling {} is pinned.",
                                        update.scaling_support, path.scaling),
                  .expected = "A pinned transformation is a supported one.",
                  .fix = "Name the pinned scaling, or fail the call for this VidPN."});
  }
  const uint32_t content_rotation = (path.rotation - 1) % 4;
  const bool rotation_pinned = path.rotation >= 1 && path.rotation <= 16;
  if (rotation_pinned && rotations != 0 && (rotations >> content_rotation & 1U) == 0) {
    judge.remark({.rule = "VIDPN-20",
                  .actual = fmt::format("has RotationSupport {:#x}, while rotation {} is pinned.",
                                        update.rotation_support, path.rotation),
                  .expected = "A pinned transformation is a supported one.",
                  .fix = "Name the pinned rotation, or fail the call for this VidPN."});
  }
  return judge.take();
}

std::string status_text(Status status) {
  struct Name {
    Status status;
    const char* name;
  };
  static constexpr Name kNames[] = {
      {kInvalidDisplayAdapter, "INVALID_DISPLAY_ADAPTER"},
      {kInvalidVidPnTopology, "INVALID_VIDPN_TOPOLOGY"},
      {kVidPnTopologyNotSupported, "VIDPN_TOPOLOGY_NOT_SUPPORTED"},
      {kInvalidVidPn, "INVALID_VIDPN"},
      {kInvalidSource, "INVALID_VIDEO_PRESENT_SOURCE"},
      {kInvalidTarget, "INVALID_VIDEO_PRESENT_TARGET"},
      {kModeNotPinned, "MODE_NOT_PINNED"},
      {kInvalidSourceModeSet, "INVALID_VIDPN_SOURCEMODESET"},
      {kInvalidTargetModeSet, "INVALID_VIDPN_TARGETMODESET"},
      {kInvalidFrequency, "INVALID_FREQUENCY"},
      {kInvalidActiveRegion, "INVALID_ACTIVE_REGION"},
      {kInvalidTotalRegion, "INVALID_TOTAL_REGION"},
      {kInvalidSourceMode, "INVALID_VIDEO_PRESENT_SOURCE_MODE"},
      {kInvalidTargetMode, "INVALID_VIDEO_PRESENT_TARGET_MODE"},
      {kPinnedModeMustRemain, "PINNED_MODE_MUST_REMAIN_IN_SET"},
      {kPathAlreadyInTopology, "PATH_ALREADY_IN_TOPOLOGY"},
      {kModeAlreadyInModeSet, "MODE_ALREADY_IN_MODESET"},
      {kInvalidPath, "INVALID_VIDPN_PRESENT_PATH"},
      {kInvalidFrequencyRangeSet, "INVALID_MONITOR_FREQUENCYRANGESET"},
      {kInvalidFrequencyRange, "INVALID_MONITOR_FREQUENCYRANGE"},
      {kNoPreferredMode, "NO_PREFERRED_MODE"},
      {kStaleModeSet, "STALE_MODESET"},
      {kInvalidMonitorModeSet, "INVALID_MONITOR_SOURCEMODESET"},
      {kInvalidMonitorMode, "INVALID_MONITOR_SOURCE_MODE"},
      {kNoRecommendedFunctionalVidPn, "NO_RECOMMENDED_FUNCTIONAL_VIDPN"},
      {kModeIdMustBeUnique, "MODE_ID_MUST_BE_UNIQUE"},
      {kPathNotInTopology, "PATH_NOT_IN_TOPOLOGY"},
      {kInvalidDescriptorSet, "INVALID_MONITORDESCRIPTORSET"},
      {kInvalidDescriptor, "INVALID_MONITORDESCRIPTOR"},
      {kResourcesNotRelated, "RESOURCES_NOT_RELATED"},
      {kMonitorNotConnected, "MONITOR_NOT_CONNECTED"},
      {kSourceNotInTopology, "SOURCE_NOT_IN_TOPOLOGY"},
      {kInvalidPrimarySurfaceSize, "INVALID_PRIMARYSURFACE_SIZE"},
      {kInvalidVisibleRegionSize, "INVALID_VISIBLEREGION_SIZE"},
      {kInvalidStride, "INVALID_STRIDE"},
      {kInvalidPixelFormat, "INVALID_PIXELFORMAT"},
      {kInvalidColorBasis, "INVALID_COLORBASIS"},
      {kInvalidAccessMode, "INVALID_PIXELVALUEACCESSMODE"},
      {kTargetNotInTopology, "TARGET_NOT_IN_TOPOLOGY"},
      {kInvalidImportance, "INVALID_PATH_IMPORTANCE_ORDINAL"},
      {kInvalidTransformation, "INVALID_PATH_CONTENT_GEOMETRY_TRANSFORMATION"},
      {kInvalidGammaRamp, "INVALID_GAMMA_RAMP"},
      {kModeNotInModeSet, "MODE_NOT_IN_MODESET"},
      {kDataSetIsEmpty, "DATASET_IS_EMPTY"},
      {kNoMoreElements, "NO_MORE_ELEMENTS_IN_DATASET"},
      {kInvalidPathContent, "INVALID_PATH_CONTENT_TYPE"},
      {kInvalidCopyProtection, "INVALID_COPYPROTECTION_TYPE"},
      {kUnassignedModeSetExists, "UNASSIGNED_MODESET_ALREADY_EXISTS"},
      {kInvalidScanlineOrdering, "INVALID_SCANLINE_ORDERING"},
      {kMaxPathsReached, "MAX_NUM_PATHS_REACHED"},
  };
  for (const Name& name : kNames)
    if (name.status == status) return std::string("STATUS_GRAPHICS_") + name.name;
  if (const std::string_view known = status_name(status); !known.empty()) return std::string(known);
  return fmt::format("{:#010x}", static_cast<uint32_t>(status));
}

}  // namespace dxgkit::vidpn
