// Each value a driver may give: a good one passes, one broken member is refused with the exact
// status and rule.
#include "vidpn/judge.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

/// Refusals and remarks of `judgments` are exactly this.
void expect_refusal(const Judgments& judgments, Status status, const char* rule,
                    const char* sentence) {
  EXPECT_EQ(outcome(judgments), status) << sentence << ": " << status_text(outcome(judgments));
  ASSERT_FALSE(judgments.empty()) << sentence;
  EXPECT_STREQ(judgments.back().rule, rule) << sentence;
  EXPECT_FALSE(judgments.back().actual.empty()) << sentence;
  EXPECT_FALSE(judgments.back().expected.empty()) << sentence;
  EXPECT_FALSE(judgments.back().fix.empty()) << sentence;
}

void expect_remark(const Judgments& judgments, const char* rule, const char* sentence) {
  EXPECT_EQ(outcome(judgments), Status::kSuccess) << sentence;
  ASSERT_EQ(judgments.size(), 1U) << sentence;
  EXPECT_STREQ(judgments.front().rule, rule) << sentence;
}

template <typename T>
struct Case {
  const char* sentence;
  std::function<void(T&)> change;
  Status status;  // kSuccess: a remark only
  const char* rule;
};

template <typename T, typename Judge>
void run(const std::vector<Case<T>>& cases, const T& good, const Judge& judge) {
  EXPECT_TRUE(judge(good).empty());
  for (const Case<T>& entry : cases) {
    T value = good;
    entry.change(value);
    if (is_success(entry.status)) {
      expect_remark(judge(value), entry.rule, entry.sentence);
    } else {
      expect_refusal(judge(value), entry.status, entry.rule, entry.sentence);
    }
  }
}

TEST(Judge, SignalsOfFullDrivers) {
  DXGKIT_COVERS("VIDPN-01", "VIDPN-02", "VIDPN-03", "VIDPN-12", "VIDPN-13");
  const Profile profile = full_profile();
  const std::vector<Case<TargetMode>> cases = {
      {"open vertical frequency",
       [](auto& m) {
         m.signal.vsync = {kNotSpecified, kNotSpecified};
       },
       kInvalidFrequency, "VIDPN-01"},
      {"zero numerator",
       [](auto& m) {
         m.signal.vsync = {0, 1};
       },
       kInvalidFrequency, "VIDPN-02"},
      {"zero denominator",
       [](auto& m) {
         m.signal.vsync = {60, 0};
       },
       kInvalidFrequency, "VIDPN-02"},
      {"uninitialized",
       [](auto& m) {
         m.signal.vsync = {kUninitialized, kUninitialized};
       },
       kInvalidFrequency, "VIDPN-02"},
      {"below 1 Hz",
       [](auto& m) {
         m.signal.vsync = {1, 2};
       },
       kInvalidFrequency, "VIDPN-02"},
      {"above 1000 Hz",
       [](auto& m) {
         m.signal.vsync = {60000, 1};
       },
       kInvalidFrequency, "VIDPN-02"},
      {"horizontal zero",
       [](auto& m) {
         m.signal.hsync = {0, 0};
       },
       kInvalidFrequency, "VIDPN-02"},
      {"half-open horizontal",
       [](auto& m) {
         m.signal.hsync = {kNotSpecified, 1};
       },
       Status::kSuccess, "VIDPN-02"},
      {"minimum above the frequency",
       [](auto& m) {
         m.minimum_vsync = {75, 1};
       },
       kInvalidFrequency, "VIDPN-02"},
      {"active size zero", [](auto& m) { m.signal.active.height = 0; }, kInvalidActiveRegion,
       "VIDPN-03"},
      {"active size left out", [](auto& m) { m.signal.active = {}; }, Status::kSuccess, "VIDPN-03"},
      {"active size open",
       [](auto& m) {
         m.signal.active = {kNotSpecified, kNotSpecified};
       },
       kInvalidActiveRegion, "VIDPN-03"},
      {"total below active", [](auto& m) { m.signal.total.width = 1919; }, kInvalidTotalRegion,
       "VIDPN-03"},
      {"total zero",
       [](auto& m) {
         m.signal.total = {0, 0};
       },
       kInvalidTotalRegion, "VIDPN-03"},
      {"no standard", [](auto& m) { m.signal.standard = 0; }, kInvalidTargetMode, "VIDPN-12"},
      {"unknown standard", [](auto& m) { m.signal.standard = 77; }, kInvalidTargetMode, "VIDPN-12"},
      {"no scan line ordering", [](auto& m) { m.signal.scanline_ordering = 0; },
       kInvalidScanlineOrdering, "VIDPN-12"},
      {"unknown scan line ordering", [](auto& m) { m.signal.scanline_ordering = 5; },
       kInvalidScanlineOrdering, "VIDPN-12"},
      {"a divider without Miracast", [](auto& m) { m.signal.vsync_divider = 2; }, Status::kSuccess,
       "VIDPN-12"},
      {"no preference", [](auto& m) { m.preference = 0; }, Status::kSuccess, "VIDPN-12"},
      {"pixel rate zero", [](auto& m) { m.signal.pixel_rate = 0; }, Status::kSuccess, "VIDPN-13"},
      {"pixel rate of the active area", [](auto& m) { m.signal.pixel_rate = 124'416'000; },
       Status::kSuccess, "VIDPN-13"},
      {"horizontal frequency of the active lines",
       [](auto& m) {
         m.signal.hsync = {64800, 1};
       },
       Status::kSuccess, "VIDPN-13"},
  };
  run<TargetMode>(cases, good_target_mode(),
                  [&](const TargetMode& mode) { return judge_target_mode(profile, mode); });
}

// The two-sided rule: what a full driver must say, a display-only one must leave open.
TEST(Judge, FrequenciesOfDisplayOnlyDrivers) {
  DXGKIT_COVERS("VIDPN-01");
  Profile profile = display_only_profile();
  TargetMode open{.signal = open_signal(), .preference = D3DKMDT_MP_PREFERRED};
  EXPECT_TRUE(judge_target_mode(profile, open).empty());
  expect_remark(judge_target_mode(profile, good_target_mode()), "VIDPN-01", "names a frequency");
  profile.vsync_control = true;
  EXPECT_TRUE(judge_target_mode(profile, good_target_mode()).empty());
  expect_refusal(judge_target_mode(profile, open), kInvalidFrequency, "VIDPN-01",
                 "controls vertical sync and names none");
  expect_refusal(judge_target_mode(full_profile(), open), kInvalidFrequency, "VIDPN-01",
                 "a full driver");
  const Judgment said = judge_target_mode(full_profile(), open).back();
  EXPECT_NE(said.actual.find("VSyncFreq NOTSPECIFIED"), std::string::npos) << said.actual;
  EXPECT_NE(said.fix.find("nominal timing (60/1)"), std::string::npos) << said.fix;
  EXPECT_NE(said.windows.find("0xC01E030A"), std::string::npos) << said.windows;
}

TEST(Judge, InterlacedSignalsCountFields) {
  DXGKIT_COVERS("VIDPN-13");
  TargetMode mode = good_target_mode();  // 1080i60: 30 frames of 1125 lines
  mode.signal.scanline_ordering = D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST;
  mode.signal.pixel_rate = 74'250'000;
  mode.signal.hsync = {33750, 1};
  EXPECT_TRUE(judge_target_mode(full_profile(), mode).empty());
}

TEST(Judge, SourceModes) {
  DXGKIT_COVERS("VIDPN-10", "VIDPN-11");
  const Profile profile = full_profile();
  const std::vector<Case<SourceMode>> cases = {
      {"no type", [](auto& m) { m.type = 0; }, kInvalidSourceMode, "VIDPN-10"},
      {"unknown type", [](auto& m) { m.type = 9; }, kInvalidSourceMode, "VIDPN-10"},
      {"no size", [](auto& m) { m.surface = {}; }, kInvalidPrimarySurfaceSize, "VIDPN-10"},
      {"no visible region", [](auto& m) { m.visible = {}; }, kInvalidVisibleRegionSize, "VIDPN-10"},
      {"visible beyond the surface", [](auto& m) { m.visible.width = 1921; },
       kInvalidVisibleRegionSize, "VIDPN-10"},
      {"stride zero", [](auto& m) { m.stride_bytes = 0; }, kInvalidStride, "VIDPN-10"},
      {"stride in pixels", [](auto& m) { m.stride_bytes = 1920; }, kInvalidStride, "VIDPN-10"},
      {"stride one byte short", [](auto& m) { m.stride_bytes = 7679; }, kInvalidStride, "VIDPN-10"},
      {"no format", [](auto& m) { m.pixel_format = 0; }, kInvalidPixelFormat, "VIDPN-11"},
      {"a depth format", [](auto& m) { m.pixel_format = D3DDDIFMT_D24S8; }, kInvalidPixelFormat,
       "VIDPN-11"},
      {"unknown colour basis", [](auto& m) { m.color_basis = 99; }, kInvalidColorBasis, "VIDPN-10"},
      {"no colour basis", [](auto& m) { m.color_basis = 0; }, Status::kSuccess, "VIDPN-10"},
      {"no access mode", [](auto& m) { m.access_mode = 0; }, Status::kSuccess, "VIDPN-10"},
      {"a palette for true colour", [](auto& m) { m.access_mode = D3DKMDT_PVAM_SETTABLEPALETTE; },
       kInvalidAccessMode, "VIDPN-10"},
  };
  run<SourceMode>(cases, good_source_mode(),
                  [&](const SourceMode& mode) { return judge_source_mode(profile, mode); });
  SourceMode wide = good_source_mode();
  wide.pixel_format = D3DDDIFMT_X8R8G8B8;
  EXPECT_TRUE(judge_source_mode(profile, wide).empty());
  expect_refusal(judge_source_mode(display_only_profile(), wide), kInvalidPixelFormat, "VIDPN-11",
                 "display-only drivers have one format");
  SourceMode text = good_source_mode();
  text.type = D3DKMDT_RMT_TEXT;
  EXPECT_TRUE(judge_source_mode(profile, text).empty());
  expect_remark(judge_source_mode(display_only_profile(), text), "VIDPN-10", "text for pixels");
}

TEST(Judge, MonitorModes) {
  DXGKIT_COVERS("VIDPN-21", "VIDPN-01");
  const Profile profile = full_profile();
  const std::vector<Case<MonitorMode>> cases = {
      {"origin EDID", [](auto& m) { m.origin = 2; }, Status::kSuccess, "VIDPN-21"},
      {"no colour basis", [](auto& m) { m.color_basis = 0; }, kInvalidMonitorMode, "VIDPN-21"},
      {"no preference", [](auto& m) { m.preference = 0; }, kInvalidMonitorMode, "VIDPN-21"},
      {"open frequency",
       [](auto& m) {
         m.signal.vsync = {kNotSpecified, kNotSpecified};
       },
       kInvalidFrequency, "VIDPN-01"},
      {"no standard", [](auto& m) { m.signal.standard = 0; }, kInvalidMonitorMode, "VIDPN-12"},
  };
  run<MonitorMode>(cases, good_monitor_mode(),
                   [&](const MonitorMode& mode) { return judge_monitor_mode(profile, mode); });
  for (size_t channel = 0; channel < 4; ++channel) {
    MonitorMode mode = good_monitor_mode();
    mode.color_ranges[channel] = 0;
    if (channel == 3) {
      EXPECT_TRUE(judge_monitor_mode(profile, mode).empty()) << "a fourth channel may be none";
      continue;
    }
    expect_remark(judge_monitor_mode(profile, mode), "VIDPN-21", "a color of no bits");
  }
}

TEST(Judge, NewPaths) {
  DXGKIT_COVERS("VIDPN-17", "VIDPN-20");
  const Profile profile = full_profile();
  const Network network = one_path(profile);
  Path good;
  good.source = 1;
  good.target = kTargetB;
  good.importance = 2;
  good.scaling = D3DKMDT_VPPS_IDENTITY;
  good.rotation = D3DKMDT_VPPR_IDENTITY;
  const std::vector<Case<Path>> cases = {
      {"a source beyond the count", [](auto& p) { p.source = 2; }, kInvalidSource, "VIDPN-17"},
      {"an unknown target", [](auto& p) { p.target = 1; }, kInvalidTarget, "VIDPN-17"},
      {"the same path", [](auto& p) { p.source = 0, p.target = kTargetA; }, kPathAlreadyInTopology,
       "VIDPN-17"},
      {"a target taken", [](auto& p) { p.target = kTargetA; }, kInvalidVidPnTopology, "VIDPN-17"},
      {"importance zero", [](auto& p) { p.importance = 0; }, kInvalidImportance, "VIDPN-17"},
      {"importance taken", [](auto& p) { p.importance = 1; }, kInvalidImportance, "VIDPN-17"},
      {"no scaling", [](auto& p) { p.scaling = 0; }, kInvalidTransformation, "VIDPN-20"},
      {"unknown rotation", [](auto& p) { p.rotation = 17; }, kInvalidTransformation, "VIDPN-20"},
      {"unknown content", [](auto& p) { p.content = 3; }, kInvalidPathContent, "VIDPN-17"},
      {"unknown protection", [](auto& p) { p.copy_protection = 4; }, kInvalidCopyProtection,
       "VIDPN-17"},
      {"content left open", [](auto& p) { p.content = 0; }, Status::kSuccess, "VIDPN-17"},
  };
  run<Path>(cases, good, [&](const Path& path) { return judge_new_path(profile, network, path); });
  good.rotation = D3DKMDT_VPPR_ROTATE90_OFFSET90;
  expect_refusal(judge_new_path(display_only_profile(), network, good), kInvalidTransformation,
                 "VIDPN-20", "offsets are not known before path-independent rotation");
}

TEST(Judge, TopologiesHaveABoundedNumberOfPaths) {
  DXGKIT_COVERS("VIDPN-17");
  Profile profile = full_profile();
  profile.targets.clear();
  std::vector<SourceTarget> pairs;
  for (uint32_t target = 0; target <= kPathsMax; ++target) {
    profile.targets.push_back(target);
    if (target < kPathsMax) pairs.push_back({0, target});
  }
  const Network network = constraining_network(profile, pairs);
  Path path = network.paths.front();
  path.target = kPathsMax;
  path.importance = kPathsMax;
  expect_refusal(judge_new_path(profile, network, path), kMaxPathsReached, "VIDPN-17", "one more");
}

TEST(Judge, RotationNeedsAnOffset) {
  DXGKIT_COVERS("VIDPN-04", "VIDPN-20");
  Path path = one_path(full_profile()).paths.front();
  Path update = path;
  update.rotation_support = kRotationIdentity;
  const Judgments refused = judge_path_support(full_profile(), path, update, true);
  expect_refusal(refused, Status::kInvalidParameter, "VIDPN-04", "Identity alone");
  EXPECT_EQ(refused.back().severity, verifier::Severity::kBugCheck);
  EXPECT_EQ(refused.back().bugcheck_code, 0x113U);
  EXPECT_EQ(refused.back().bugcheck_parameter, 0x1CU);
  EXPECT_EQ(judge_path_support(full_profile(), path, update, false).back().severity,
            verifier::Severity::kViolation);
  update.rotation_support = kRotationIdentity | kRotationOffset0;
  EXPECT_TRUE(judge_path_support(full_profile(), path, update, true).empty());
  update.rotation_support = 0;
  EXPECT_TRUE(judge_path_support(full_profile(), path, update, true).empty());
  // Before path-independent rotation the offset bits do not exist.
  update.rotation_support = kRotationIdentity;
  EXPECT_TRUE(judge_path_support(display_only_profile(), path, update, true).empty());
  path.rotation = D3DKMDT_VPPR_ROTATE90;
  expect_remark(judge_path_support(display_only_profile(), path, update, true), "VIDPN-20",
                "what is pinned is not supported");
  path.rotation = D3DKMDT_VPPR_IDENTITY;
  path.scaling = D3DKMDT_VPPS_STRETCHED;
  update.scaling_support = kScalingIdentity | kScalingCentered;
  expect_remark(judge_path_support(display_only_profile(), path, update, true), "VIDPN-20",
                "scaling");
}

}  // namespace
}  // namespace dxgkit::vidpn
