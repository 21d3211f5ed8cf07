// Judgments at their bounds: the last value that passes and the first that does not, one clause at
// a time, with how bad and how sure the sentence is.
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"
#include "vidpn/judge.h"

namespace dxgkit::vidpn {
namespace {

using verifier::Confidence;
using verifier::Severity;

/// The last judgment; an empty rule: there is none.
struct Said {
  Status status = Status::kSuccess;
  std::string_view rule = {};
  Severity severity = Severity::kViolation;
  Confidence confidence = Confidence::kInferred;
};
constexpr Said kNothing = {};
constexpr Said kWarning12 = {Status::kSuccess, "VIDPN-12", Severity::kWarning};
constexpr Said kRemark12 = {Status::kSuccess, "VIDPN-12", Severity::kViolation};
constexpr Said kRemark13 = {Status::kSuccess, "VIDPN-13", Severity::kViolation};
constexpr Said kFrequency = {kInvalidFrequency, "VIDPN-02"};
constexpr Said kHalfOpen = {Status::kSuccess, "VIDPN-02"};

void expect_said(const Judgments& judgments, const Said& wanted, size_t row) {
  EXPECT_EQ(outcome(judgments), wanted.status) << row << " " << status_text(outcome(judgments));
  EXPECT_EQ(judgments.empty(), wanted.rule.empty()) << row;
  if (judgments.empty()) return;
  const Judgment& last = judgments.back();
  EXPECT_EQ(last.rule, wanted.rule) << row << " " << last.actual;
  EXPECT_EQ(last.severity, wanted.severity) << row << " " << last.actual;
  EXPECT_EQ(last.confidence, wanted.confidence) << row << " " << last.actual;
  EXPECT_EQ(judgments.size(), 1U) << row << " " << judgments.front().actual;
  EXPECT_EQ(last.bugcheck_code, 0U);
  EXPECT_EQ(last.bugcheck_parameter, 0U);
}

template <typename T>
using Rows = std::vector<std::pair<std::function<void(T&)>, Said>>;

template <typename T, typename Judge>
void run(const T& good, const Rows<T>& rows, const Judge& judge) {
  for (size_t i = 0; i < rows.size(); ++i) {
    T value = good;
    rows[i].first(value);
    expect_said(judge(value), rows[i].second, i);
  }
}

/// A signal that agrees with itself whatever its vertical frequency: the rest is left open.
Signal free_signal() {
  Signal signal = good_signal();
  signal.total = {kNotSpecified, kNotSpecified};
  signal.hsync = {kNotSpecified, kNotSpecified};
  signal.pixel_rate = kNotSpecified;
  return signal;
}

void run_signals(const Rows<Signal>& rows, const Signal& good) {
  const Profile profile = full_profile();
  run<Signal>(good, rows, [&](const Signal& signal) {
    TargetMode mode = good_target_mode();
    mode.signal = signal;
    return judge_target_mode(profile, mode);
  });
}

TEST(JudgeBounds, StandardsAndSizes) {
  DXGKIT_COVERS("VIDPN-03", "VIDPN-12");
  const Said standard = {kInvalidTargetMode, "VIDPN-12"};
  const Said active = {kInvalidActiveRegion, "VIDPN-03"};
  const Said total = {kInvalidTotalRegion, "VIDPN-03"};
  const auto size = [](Size of_active, Size of_total) {
    return [=](Signal& signal) {
      signal.active = of_active;
      signal.total = of_total;
      signal.pixel_rate = kNotSpecified;
      signal.hsync = {kNotSpecified, kNotSpecified};
    };
  };
  constexpr uint32_t kOpen = kNotSpecified;
  const Rows<Signal> rows = {
      {[](Signal& s) { s.standard = 0; }, standard},
      {[](Signal& s) { s.standard = 1; }, kNothing},
      {[](Signal& s) { s.standard = 31; }, kNothing},
      {[](Signal& s) { s.standard = 32; }, standard},
      {[](Signal& s) { s.standard = 254; }, standard},
      {[](Signal& s) { s.standard = 255; }, kNothing},
      {[](Signal& s) { s.standard = 256; }, standard},
      {size({1, 1}, {1, 1}), kNothing},
      {size({65535, 65535}, {65535, 65535}), kNothing},
      {size({0, 0}, {9, 9}), {Status::kSuccess, "VIDPN-03", Severity::kViolation}},
      {size({0, 0}, {0, 9}), active},
      {size({0, 0}, {kOpen, kOpen}), active},
      {size({0, 5}, {9, 9}), active},
      {size({5, 0}, {9, 9}), active},
      {size({65536, 5}, {65536, 9}), active},
      {size({5, 65536}, {9, 65536}), active},
      {size({5, 6}, {5, 6}), kNothing},
      {size({5, 6}, {4, 6}), total},
      {size({5, 6}, {5, 5}), total},
      {size({5, 6}, {65536, 6}), total},
      {size({5, 6}, {5, 65536}), total},
      {size({5, 6}, {kOpen, kOpen}), kNothing},
      {size({5, 6}, {kOpen, 6}), total},
      {size({5, 6}, {5, kOpen}), total},
  };
  run_signals(rows, good_signal());
}

// A refusal ends the judgment, also where a remark came before it.
TEST(JudgeBounds, ARefusalIsTheLastThatIsSaid) {
  DXGKIT_COVERS("VIDPN-02");
  TargetMode mode = good_target_mode();
  mode.signal.vsync = {60, kNotSpecified};  // a remark
  mode.signal.hsync = {0, 1};               // refused
  mode.signal.scanline_ordering = 0;        // would be, too
  const Judgments judgments = judge_target_mode(full_profile(), mode);
  ASSERT_EQ(judgments.size(), 2U);
  EXPECT_EQ(judgments.front().status, Status::kSuccess);
  EXPECT_EQ(outcome(judgments), kInvalidFrequency);
}

TEST(JudgeBounds, VerticalFrequencies) {
  DXGKIT_COVERS("VIDPN-01", "VIDPN-02");
  const Said open = {kInvalidFrequency, "VIDPN-01", Severity::kViolation, Confidence::kMeasured};
  const auto vsync = [](uint32_t numerator, uint32_t denominator) {
    return [=](Signal& signal) { signal.vsync = {numerator, denominator}; };
  };
  constexpr uint32_t kOpen = kNotSpecified;
  constexpr uint32_t kNone = kUninitialized;
  const Rows<Signal> rows = {
      {vsync(7, 7), kNothing},
      {vsync(6, 7), kFrequency},
      {vsync(7000, 7), kNothing},
      {vsync(7001, 7), kFrequency},
      {vsync(0, 7), kFrequency},
      {vsync(7, 0), kFrequency},
      {vsync(kNone, 7), kFrequency},
      {vsync(7, kNone), kFrequency},
      {vsync(kOpen, kOpen), open},
      // A thousand times the denominator is more than 32 bits.
      {vsync(4'000'000'000, 5'000'000), kNothing},
  };
  run_signals(rows, free_signal());
  // Half open is said, and then taken for open.
  for (const auto& change : {vsync(kOpen, 7), vsync(7, kOpen)}) {
    TargetMode mode = good_target_mode();
    mode.signal = free_signal();
    change(mode.signal);
    const Judgments judgments = judge_target_mode(full_profile(), mode);
    ASSERT_EQ(judgments.size(), 2U);
    expect_said({judgments[0]}, kHalfOpen, 0);
    expect_said({judgments[1]}, open, 1);
  }
}

TEST(JudgeBounds, HorizontalFrequencies) {
  DXGKIT_COVERS("VIDPN-02", "VIDPN-13");
  const auto hsync = [](uint32_t numerator, uint32_t denominator) {
    return [=](Signal& signal) { signal.hsync = {numerator, denominator}; };
  };
  constexpr uint32_t kOpen = kNotSpecified;
  constexpr uint32_t kNone = kUninitialized;
  const Rows<Signal> rows = {
      {hsync(kOpen, kOpen), kNothing},
      {hsync(kOpen, 7), kHalfOpen},
      {hsync(7, kOpen), kHalfOpen},
      {hsync(0, 7), kFrequency},
      {hsync(7, 0), kFrequency},
      {hsync(kNone, 7), kFrequency},
      {hsync(7, kNone), kFrequency},
      // 1125 lines, 60 times: two per cent more or less is the same.
      {hsync(68'849, 1), kNothing},
      {hsync(68'851, 1), kRemark13},
      {hsync(66'151, 1), kNothing},
      {hsync(66'149, 1), kRemark13},
  };
  run_signals(rows, good_signal());
}

TEST(JudgeBounds, DisplayOnlyDriversSayWhatTheyControl) {
  DXGKIT_COVERS("VIDPN-01");
  Profile profile = display_only_profile();
  TargetMode mode = good_target_mode();
  expect_said(judge_target_mode(profile, mode), {Status::kSuccess, "VIDPN-01", Severity::kWarning},
              0);
  mode.signal = open_signal();
  expect_said(judge_target_mode(profile, mode), kNothing, 1);
  profile.vsync_control = true;
  expect_said(judge_target_mode(profile, mode),
              {kInvalidFrequency, "VIDPN-01", Severity::kViolation, Confidence::kDocumented}, 2);
  // Full drivers control it whatever the profile says.
  profile = full_profile();
  profile.vsync_control = true;
  expect_said(judge_target_mode(profile, good_target_mode()), kNothing, 3);
}

TEST(JudgeBounds, OrderingsAndDividers) {
  DXGKIT_COVERS("VIDPN-12");
  const Said ordering = {kInvalidScanlineOrdering, "VIDPN-12"};
  const Rows<Signal> rows = {
      {[](Signal& s) { s.scanline_ordering = 0; }, ordering},
      {[](Signal& s) { s.scanline_ordering = 1; }, kNothing},
      {[](Signal& s) { s.scanline_ordering = 2; }, kNothing},
      {[](Signal& s) { s.scanline_ordering = 3; }, kNothing},
      {[](Signal& s) { s.scanline_ordering = 4; }, ordering},
      {[](Signal& s) { s.scanline_ordering = 254; }, ordering},
      {[](Signal& s) { s.scanline_ordering = 255; }, kNothing},
      {[](Signal& s) { s.vsync_divider = 1; }, kWarning12},
  };
  run_signals(rows, free_signal());
  TargetMode mode = good_target_mode();
  mode.signal.vsync_divider = 1;
  Profile profile = full_profile();
  profile.interface_version = DXGKDDI_INTERFACE_VERSION_WDDM1_3;
  expect_said(judge_target_mode(profile, mode), kWarning12, 0);
  profile.interface_version = DXGKDDI_INTERFACE_VERSION_WDDM1_3 - 1;
  expect_said(judge_target_mode(profile, mode), kNothing, 1);
}

// A display-only driver may leave the rate open, and not uninitialized.
TEST(JudgeBounds, AnUninitializedRateIsNoRate) {
  DXGKIT_COVERS("VIDPN-13");
  TargetMode mode = good_target_mode();
  mode.signal = open_signal();
  expect_said(judge_target_mode(display_only_profile(), mode), kNothing, 0);
  mode.signal.pixel_rate = kUninitialized;
  expect_said(judge_target_mode(display_only_profile(), mode), kRemark13, 1);
}

// Pixel rate and horizontal frequency are compared with what total size and frames make, when all
// of it is said.
TEST(JudgeBounds, RatesAgree) {
  DXGKIT_COVERS("VIDPN-13");
  const Rows<Signal> rows = {
      {[](Signal& s) { s.pixel_rate = 0; }, kRemark13},
      {[](Signal& s) { s.pixel_rate = kNotSpecified; }, kNothing},
      {[](Signal& s) { s.pixel_rate = 151'469'999; }, kNothing},  // 2 % of 148.5 MHz
      {[](Signal& s) { s.pixel_rate = 151'470'001; }, kRemark13},
      {[](Signal& s) { s.pixel_rate = 145'530'001; }, kNothing},
      {[](Signal& s) { s.pixel_rate = 145'529'999; }, kRemark13},
      {[](Signal& s) { s.total.width = 2000; }, kRemark13},
      {[](Signal& s) {
         s.total = {kNotSpecified, kNotSpecified};
       },
       kNothing},
      {[](Signal& s) {
         s.total = {kNotSpecified, kNotSpecified};
         s.pixel_rate = 0;
       },
       kRemark13},
      {[](Signal& s) {
         s.pixel_rate = kNotSpecified;
         s.hsync.numerator = 1000;
       },
       kRemark13},
      {[](Signal& s) {
         s.hsync = {kNotSpecified, kNotSpecified};
         s.pixel_rate = 1000;
       },
       kRemark13},
      // Interlaced: half as many frames as fields.
      {[](Signal& s) {
         s.scanline_ordering = D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST;
         s.pixel_rate /= 2;
         s.hsync.denominator = 2;
       },
       kNothing},
      {[](Signal& s) {
         s.scanline_ordering = D3DDDI_VSSLO_INTERLACED_LOWERFIELDFIRST;
         s.pixel_rate /= 2;
         s.hsync.denominator = 2;
       },
       kNothing},
      {[](Signal& s) {
         s.scanline_ordering = D3DDDI_VSSLO_OTHER;
         s.hsync.denominator = 2;
       },
       kRemark13},
  };
  run_signals(rows, good_signal());
  // Both are said.
  TargetMode mode = good_target_mode();
  mode.signal.hsync.numerator = 1000;
  mode.signal.pixel_rate = 1000;
  EXPECT_EQ(judge_target_mode(full_profile(), mode).size(), 2U);
  // An open frequency makes nothing to compare with.
  mode.signal.vsync = {kNotSpecified, kNotSpecified};
  EXPECT_TRUE(judge_target_mode(display_only_profile(), mode).empty());
}

TEST(JudgeBounds, TargetModes) {
  DXGKIT_COVERS("VIDPN-02", "VIDPN-12");
  const auto minimum = [](uint32_t numerator, uint32_t denominator) {
    return [=](TargetMode& mode) { mode.minimum_vsync = {numerator, denominator}; };
  };
  constexpr uint32_t kOpen = kNotSpecified;
  const Rows<TargetMode> rows = {
      {minimum(0, 0), kNothing},
      {minimum(0, 1), kFrequency},
      {minimum(1, 0), kFrequency},
      {minimum(kUninitialized, 1), kFrequency},
      {minimum(30, kUninitialized), kFrequency},
      {minimum(kOpen, kOpen), kNothing},
      {minimum(2, 2), kNothing},
      {minimum(1, 2), kFrequency},
      {minimum(120, 2), kNothing},
      {minimum(121, 2), kFrequency},
      {[](TargetMode& m) {  // 119.88 is not above 120000/1001, whatever the parts
         m.signal = free_signal();
         m.signal.vsync = {120'000, 1001};
         m.minimum_vsync = {119'880, 1000};
       },
       kNothing},
      {[](TargetMode& m) {
         m.signal = free_signal();
         m.signal.vsync = {120'000, 1001};
         m.minimum_vsync = {120'000, 1000};
       },
       kFrequency},
      {[](TargetMode& m) { m.preference = 0; }, kRemark12},
      {[](TargetMode& m) { m.preference = 1; }, kNothing},
      {[](TargetMode& m) { m.preference = 2; }, kNothing},
      {[](TargetMode& m) { m.preference = 3; }, kRemark12},
  };
  const Profile profile = full_profile();
  run<TargetMode>(good_target_mode(), rows,
                  [&](const TargetMode& mode) { return judge_target_mode(profile, mode); });
  // Beside an open frequency the minimum is bounded by 1 to 1000 Hz alone.
  TargetMode open = good_target_mode();
  open.signal = open_signal();
  run<TargetMode>(
      open,
      {{minimum(1, 1), kNothing},
       {minimum(1000, 1), kNothing},
       {minimum(1001, 1), kFrequency},
       {minimum(1, 2), kFrequency}},
      [](const TargetMode& mode) { return judge_target_mode(display_only_profile(), mode); });
}

TEST(JudgeBounds, MonitorModes) {
  DXGKIT_COVERS("VIDPN-21");
  const Said bad = {kInvalidMonitorMode, "VIDPN-21"};
  const Said origin = {Status::kSuccess, "VIDPN-21"};
  const Rows<MonitorMode> rows = {
      {[](MonitorMode& m) { m.color_basis = 0; }, bad},
      {[](MonitorMode& m) { m.color_basis = 1; }, kNothing},
      {[](MonitorMode& m) { m.color_basis = 5; }, kNothing},
      {[](MonitorMode& m) { m.color_basis = 6; }, bad},
      {[](MonitorMode& m) { m.preference = 0; }, bad},
      {[](MonitorMode& m) { m.preference = 1; }, kNothing},
      {[](MonitorMode& m) { m.preference = 2; }, kNothing},
      {[](MonitorMode& m) { m.preference = 3; }, bad},
      {[](MonitorMode& m) { m.origin = 4; }, origin},
      {[](MonitorMode& m) { m.origin = 6; }, origin},
      {[](MonitorMode& m) { m.signal.standard = 0; }, {kInvalidMonitorMode, "VIDPN-12"}},
  };
  const Profile profile = full_profile();
  run<MonitorMode>(good_monitor_mode(), rows,
                   [&](const MonitorMode& mode) { return judge_monitor_mode(profile, mode); });
}

TEST(JudgeBounds, SourceModes) {
  DXGKIT_COVERS("VIDPN-10", "VIDPN-11");
  const Said type = {kInvalidSourceMode, "VIDPN-10"};
  const Said surface = {kInvalidPrimarySurfaceSize, "VIDPN-10"};
  const Said visible = {kInvalidVisibleRegionSize, "VIDPN-10"};
  const Said basis = {kInvalidColorBasis, "VIDPN-10"};
  const Said access = {kInvalidAccessMode, "VIDPN-10"};
  const Said format = {kInvalidPixelFormat, "VIDPN-11"};
  const Said remark = {Status::kSuccess, "VIDPN-10"};
  const auto palette = [](uint32_t pixel_format, uint32_t access_mode) {
    return [=](SourceMode& mode) {
      mode.pixel_format = pixel_format;
      mode.access_mode = access_mode;
    };
  };
  const auto shown = [](Size whole, Size part) {
    return [=](SourceMode& mode) {
      mode.surface = whole;
      mode.visible = part;
      mode.stride_bytes = 1 << 20;
    };
  };
  const Rows<SourceMode> rows = {
      {[](SourceMode& m) { m.type = 0; }, type},
      {[](SourceMode& m) { m.type = 3; }, kNothing},
      {[](SourceMode& m) { m.type = 4; }, kNothing},
      {[](SourceMode& m) { m.type = 5; }, type},
      // Text has no pixels to speak of.
      {[](SourceMode& m) { m = {.type = 2}; }, kNothing},
      {[](SourceMode& m) { m = {.type = 3}; }, surface},
      {shown({1, 1}, {1, 1}), kNothing},
      {shown({65535, 65535}, {65535, 65535}), kNothing},
      {shown({0, 5}, {1, 1}), surface},
      {shown({5, 0}, {1, 1}), surface},
      {shown({65536, 5}, {1, 1}), surface},
      {shown({5, 65536}, {1, 1}), surface},
      {shown({5, 6}, {5, 6}), kNothing},
      {shown({5, 6}, {4, 3}), kNothing},
      {shown({5, 6}, {0, 6}), visible},
      {shown({5, 6}, {5, 0}), visible},
      {shown({5, 6}, {6, 6}), visible},
      {shown({5, 6}, {5, 7}), visible},
      {[](SourceMode& m) { m.color_basis = 0; }, remark},
      {[](SourceMode& m) { m.color_basis = 1; }, kNothing},
      {[](SourceMode& m) { m.color_basis = 3; }, kNothing},
      {[](SourceMode& m) { m.color_basis = 4; }, remark},
      {[](SourceMode& m) { m.color_basis = 5; }, remark},
      {[](SourceMode& m) { m.color_basis = 6; }, basis},
      {[](SourceMode& m) { m.pixel_format = 19; }, format},
      {palette(21, 0), remark},
      {palette(21, 1), kNothing},
      {palette(21, 2), access},
      {palette(21, 3), access},
      {palette(21, 4), access},
      {palette(41, 0), remark},
      {palette(41, 1), remark},
      {palette(41, 2), kNothing},
      {palette(41, 3), kNothing},
      {palette(41, 4), access},
  };
  const Profile profile = full_profile();
  run<SourceMode>(good_source_mode(), rows,
                  [&](const SourceMode& mode) { return judge_source_mode(profile, mode); });
  // A line holds its pixels, whatever their bytes.
  const std::pair<uint32_t, uint32_t> formats[] = {{20, 3}, {21, 4},  {22, 4}, {23, 2}, {24, 2},
                                                   {25, 2}, {31, 4},  {32, 4}, {33, 4}, {35, 4},
                                                   {41, 1}, {113, 8}, {119, 4}};
  for (const auto& [pixel_format, bytes] : formats) {
    SourceMode mode = good_source_mode();
    mode.pixel_format = pixel_format;
    mode.access_mode = pixel_format == 41 ? 2 : 1;
    mode.stride_bytes = 1920 * bytes;
    expect_said(judge_source_mode(profile, mode), kNothing, pixel_format);
    --mode.stride_bytes;
    expect_said(judge_source_mode(profile, mode), {kInvalidStride, "VIDPN-10"}, pixel_format);
    mode.stride_bytes = 1920 * bytes;
    expect_said(judge_source_mode(display_only_profile(), mode),
                pixel_format == 21 ? kNothing : format, pixel_format);
  }
}

TEST(JudgeBounds, NewPaths) {
  DXGKIT_COVERS("VIDPN-17", "VIDPN-20");
  Profile profile = full_profile();
  profile.source_count = 3;
  const Network network = one_path(profile);
  Path good;
  good.source = 2;
  good.target = kTargetB;
  good.importance = 16;
  good.scaling = D3DKMDT_VPPS_IDENTITY;
  good.rotation = D3DKMDT_VPPR_IDENTITY;
  const Said source = {kInvalidSource, "VIDPN-17"};
  const Said target = {kInvalidTarget, "VIDPN-17"};
  const Said twice = {kPathAlreadyInTopology, "VIDPN-17"};
  const Said taken = {kInvalidVidPnTopology, "VIDPN-17"};
  const Said importance = {kInvalidImportance, "VIDPN-17"};
  const Said transformation = {kInvalidTransformation, "VIDPN-20"};
  const Said content = {kInvalidPathContent, "VIDPN-17"};
  const Said protection = {kInvalidCopyProtection, "VIDPN-17"};
  const Said open = {Status::kSuccess, "VIDPN-17"};
  Rows<Path> rows = {
      {[](Path&) {}, kNothing},
      {[](Path& p) { p.source = 3; }, source},
      {[](Path& p) { p.target = kTargetB + 1; }, target},
      {[](Path& p) { p.source = 0, p.target = kTargetA; }, twice},
      {[](Path& p) { p.source = 1, p.target = kTargetA; }, taken},
      {[](Path& p) { p.source = 0; }, kNothing},
      {[](Path& p) { p.importance = 0; }, importance},
      {[](Path& p) { p.importance = 1; }, importance},
      {[](Path& p) { p.importance = 2; }, kNothing},
      {[](Path& p) { p.importance = 17; }, importance},
      {[](Path& p) { p.content = 0; }, open},
      {[](Path& p) { p.content = 2; }, kNothing},
      {[](Path& p) { p.content = 3; }, content},
      {[](Path& p) { p.content = 254; }, content},
      {[](Path& p) { p.content = 255; }, kNothing},
      {[](Path& p) { p.content = 256; }, content},
      {[](Path& p) { p.copy_protection = 0; }, open},
      {[](Path& p) { p.copy_protection = 3; }, kNothing},
      {[](Path& p) { p.copy_protection = 4; }, protection},
      {[](Path& p) { p.color_basis = 0; }, open},
      {[](Path& p) { p.gamma_type = 0; }, open},
  };
  for (const uint32_t value : {0U, 1U, 5U, 6U, 253U, 254U, 255U, 256U}) {
    const bool known = (value >= 1 && value <= 5) || value == 254 || value == 255;
    rows.push_back({[=](Path& p) { p.scaling = value; }, known ? kNothing : transformation});
  }
  run<Path>(good, rows, [&](const Path& path) { return judge_new_path(profile, network, path); });
  // Rotations with an offset come with path-independent rotation.
  for (const auto& [version, most] : {std::pair{0x4002U, 4U}, std::pair{0x4003U, 16U}}) {
    profile.interface_version = version;
    rows.clear();
    for (const uint32_t value : {0U, 1U, most, most + 1, 253U, 254U, 255U, 256U}) {
      const bool known = (value >= 1 && value <= most) || value == 254 || value == 255;
      rows.push_back({[=](Path& p) { p.rotation = value; }, known ? kNothing : transformation});
    }
    run<Path>(good, rows, [&](const Path& path) { return judge_new_path(profile, network, path); });
  }
}

TEST(JudgeBounds, SixteenPathsAreATopology) {
  DXGKIT_COVERS("VIDPN-17");
  Profile profile = full_profile();
  profile.targets.clear();
  std::vector<SourceTarget> pairs;
  for (uint32_t target = 0; target < 17; ++target) {
    profile.targets.push_back(target);
    if (target < 16) pairs.push_back({0, target});
  }
  Network network = constraining_network(profile, pairs);
  Path path = network.paths.front();
  path.target = 16;
  expect_said(judge_new_path(profile, network, path), {kMaxPathsReached, "VIDPN-17"}, 0);
  path.importance = network.paths.back().importance;
  network.paths.pop_back();
  expect_said(judge_new_path(profile, network, path), kNothing, 1);
}

TEST(JudgeBounds, PathSupport) {
  DXGKIT_COVERS("VIDPN-04", "VIDPN-20");
  const Profile full = full_profile();
  const Path path = one_path(full).paths.front();
  // Each rotation alone wants an offset; each offset alone will do.
  for (const uint32_t rotation : {0U, 1U, 2U, 4U, 8U}) {
    for (const uint32_t offset : {0U, 16U, 32U, 64U, 128U, 256U}) {
      Path update = path;
      update.rotation_support = rotation | offset;
      const bool lacks = rotation != 0 && (offset == 0 || offset == 256);
      for (const bool test_signing : {false, true}) {
        const Judgments judgments = judge_path_support(full, path, update, test_signing);
        ASSERT_EQ(judgments.size(), lacks ? 1U : 0U) << rotation << " " << offset;
        if (!lacks) continue;
        EXPECT_EQ(judgments[0].status, Status::kInvalidParameter);
        EXPECT_STREQ(judgments[0].rule, "VIDPN-04");
        EXPECT_EQ(judgments[0].severity, test_signing ? Severity::kBugCheck : Severity::kViolation);
        EXPECT_EQ(judgments[0].confidence, Confidence::kMeasured);
        EXPECT_EQ(judgments[0].bugcheck_code, 0x113U);
        EXPECT_EQ(judgments[0].bugcheck_parameter, 0x1CU);
      }
    }
  }
  const Said remark = {Status::kSuccess, "VIDPN-20"};
  // A pinned scaling is one of the named ones; one that is not pinned may be any.
  for (uint32_t scaling = 0; scaling < 8; ++scaling) {
    for (const uint32_t support : {0U, 1U, 2U, 4U, 8U, 16U, 32U, 31U}) {
      Path pinned = path;
      pinned.scaling = scaling;
      Path update = pinned;
      update.scaling_support = support;
      const uint32_t bits[] = {0, 1, 2, 4, 8, 16};
      const bool lacks =
          scaling >= 1 && scaling <= 5 && support != 0 && (support & bits[scaling]) == 0;
      expect_said(judge_path_support(full, pinned, update, true), lacks ? remark : kNothing,
                  scaling * 100 + support);
    }
  }
  // Rotations count 0, 90, 180, 270 within each offset.
  for (uint32_t rotation = 0; rotation < 20; ++rotation) {
    for (uint32_t support = 0; support < 16; ++support) {
      Path pinned = path;
      pinned.rotation = rotation;
      Path update = pinned;
      update.rotation_support = support | kRotationOffset0;
      const bool lacks = rotation >= 1 && rotation <= 16 && support != 0 &&
                         (support & 1U << (rotation + 3) % 4) == 0;
      expect_said(judge_path_support(full, pinned, update, true), lacks ? remark : kNothing,
                  rotation * 100 + support);
    }
  }
}

}  // namespace
}  // namespace dxgkit::vidpn
