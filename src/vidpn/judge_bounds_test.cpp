// The judge at each of its bounds, from both sides: what is just allowed passes without a word,
// what is just beyond is refused or remarked on.
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"
#include "vidpn/judge.h"

namespace dxgkit::vidpn {
namespace {

using verifier::Confidence;
using verifier::Severity;

/// "" when there is nothing to say; else rule and status of each judgment.
std::string said(const Judgments& judgments) {
  std::string text;
  for (const Judgment& judgment : judgments) {
    if (!text.empty()) text += ", ";
    text += judgment.rule;
    if (!is_success(judgment.status)) text += " " + status_text(judgment.status);
  }
  return text;
}

template <typename T>
struct Row {
  const char* sentence;
  std::function<void(T&)> change;
  const char* said;
};

template <typename T, typename Judge>
void run(const T& good, const std::vector<Row<T>>& rows, const Judge& judge) {
  EXPECT_EQ(said(judge(good)), "");
  for (const Row<T>& row : rows) {
    T value = good;
    row.change(value);
    EXPECT_EQ(said(judge(value)), row.said) << row.sentence;
  }
}

constexpr const char* kFrequency1 = "VIDPN-01 STATUS_GRAPHICS_INVALID_FREQUENCY";
constexpr const char* kFrequency2 = "VIDPN-02 STATUS_GRAPHICS_INVALID_FREQUENCY";
constexpr const char* kActive = "VIDPN-03 STATUS_GRAPHICS_INVALID_ACTIVE_REGION";
constexpr const char* kTotal = "VIDPN-03 STATUS_GRAPHICS_INVALID_TOTAL_REGION";
constexpr const char* kStandard = "VIDPN-12 STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_TARGET_MODE";
constexpr const char* kOrdering = "VIDPN-12 STATUS_GRAPHICS_INVALID_SCANLINE_ORDERING";

/// A signal whose sizes and frequencies may change one by one without a contradiction: nothing but
/// the vertical frequency is named.
TargetMode loose_mode() {
  TargetMode mode = good_target_mode();
  mode.signal.total = {kNotSpecified, kNotSpecified};
  mode.signal.hsync = {kNotSpecified, kNotSpecified};
  mode.signal.pixel_rate = kNotSpecified;
  return mode;
}

TEST(JudgeBounds, Signals) {
  DXGKIT_COVERS("VIDPN-02", "VIDPN-03", "VIDPN-12");
  using Rows = std::vector<Row<TargetMode>>;
  const Rows rows = {
      {"first standard", [](auto& m) { m.signal.standard = 1; }, ""},
      {"last standard", [](auto& m) { m.signal.standard = 31; }, ""},
      {"beyond the standards", [](auto& m) { m.signal.standard = 32; }, kStandard},
      {"below OTHER", [](auto& m) { m.signal.standard = 254; }, kStandard},
      {"beyond OTHER", [](auto& m) { m.signal.standard = 256; }, kStandard},
      {"smallest active size",
       [](auto& m) {
         m.signal.active = {1, 1};
       },
       ""},
      {"largest active size",
       [](auto& m) {
         m.signal.active = {65535, 65535};
       },
       ""},
      {"active width 0",
       [](auto& m) {
         m.signal.active = {0, 1};
       },
       kActive},
      {"active height 0",
       [](auto& m) {
         m.signal.active = {1, 0};
       },
       kActive},
      {"active width 65536",
       [](auto& m) {
         m.signal.active = {65536, 1};
       },
       kActive},
      {"active height 65536",
       [](auto& m) {
         m.signal.active = {1, 65536};
       },
       kActive},
      {"total as active",
       [](auto& m) {
         m.signal.total = {1920, 1080};
       },
       ""},
      {"largest total",
       [](auto& m) {
         m.signal.total = {65535, 65535};
       },
       ""},
      {"total one pixel short",
       [](auto& m) {
         m.signal.total = {1919, 1080};
       },
       kTotal},
      {"total one line short",
       [](auto& m) {
         m.signal.total = {1920, 1079};
       },
       kTotal},
      {"total too wide",
       [](auto& m) {
         m.signal.total = {65536, 1080};
       },
       kTotal},
      {"total too high",
       [](auto& m) {
         m.signal.total = {1920, 65536};
       },
       kTotal},
      {"only the total width open",
       [](auto& m) {
         m.signal.total = {kNotSpecified, 1080};
       },
       kTotal},
      {"only the total height open",
       [](auto& m) {
         m.signal.total = {1920, kNotSpecified};
       },
       kTotal},
      {"exactly 1 Hz",
       [](auto& m) {
         m.signal.vsync = {7, 7};
       },
       ""},
      {"just below 1 Hz",
       [](auto& m) {
         m.signal.vsync = {6, 7};
       },
       kFrequency2},
      {"exactly 1000 Hz",
       [](auto& m) {
         m.signal.vsync = {7000, 7};
       },
       ""},
      {"just above 1000 Hz",
       [](auto& m) {
         m.signal.vsync = {7001, 7};
       },
       kFrequency2},
      {"1000 Hz of large numbers",
       [](auto& m) {
         m.signal.vsync = {4'000'000'000, 4'000'000};
       },
       ""},
      {"uninitialized numerator",
       [](auto& m) {
         m.signal.hsync = {kUninitialized, 1};
       },
       kFrequency2},
      {"uninitialized denominator",
       [](auto& m) {
         m.signal.hsync = {60, kUninitialized};
       },
       kFrequency2},
      {"horizontal numerator 0",
       [](auto& m) {
         m.signal.hsync = {0, 1};
       },
       kFrequency2},
      {"horizontal denominator 0",
       [](auto& m) {
         m.signal.hsync = {1, 0};
       },
       kFrequency2},
      {"half-open horizontal",
       [](auto& m) {
         m.signal.hsync = {1, kNotSpecified};
       },
       "VIDPN-02"},
      {"half-open vertical",
       [](auto& m) {
         m.signal.vsync = {60, kNotSpecified};
       },
       "VIDPN-02, VIDPN-01 STATUS_GRAPHICS_INVALID_FREQUENCY"},
      {"half-open vertical the other way",
       [](auto& m) {
         m.signal.vsync = {kNotSpecified, 1};
       },
       "VIDPN-02, VIDPN-01 STATUS_GRAPHICS_INVALID_FREQUENCY"},
      {"ordering 1", [](auto& m) { m.signal.scanline_ordering = 1; }, ""},
      {"ordering 3", [](auto& m) { m.signal.scanline_ordering = 3; }, ""},
      {"ordering 0", [](auto& m) { m.signal.scanline_ordering = 0; }, kOrdering},
      {"ordering 4", [](auto& m) { m.signal.scanline_ordering = 4; }, kOrdering},
      {"ordering 254", [](auto& m) { m.signal.scanline_ordering = 254; }, kOrdering},
      {"ordering OTHER", [](auto& m) { m.signal.scanline_ordering = 255; }, ""},
      {"ordering 256", [](auto& m) { m.signal.scanline_ordering = 256; }, kOrdering},
      {"preferred", [](auto& m) { m.preference = 1; }, ""},
      {"not preferred", [](auto& m) { m.preference = 2; }, ""},
      {"preference 3", [](auto& m) { m.preference = 3; }, "VIDPN-12"},
      {"open pixel rate of 64 bits", [](auto& m) { m.signal.pixel_rate = UINT64_MAX; }, ""},
  };
  run<TargetMode>(loose_mode(), rows,
                  [](const TargetMode& mode) { return judge_target_mode(full_profile(), mode); });
}

TEST(JudgeBounds, NumbersOfASignalAgreeWithinTwoPercent) {
  DXGKIT_COVERS("VIDPN-13");
  const std::vector<Row<TargetMode>> rows = {
      {"rate 1.9 % high", [](auto& m) { m.signal.pixel_rate = 101'900'000; }, ""},
      {"rate 2.1 % high", [](auto& m) { m.signal.pixel_rate = 102'100'000; }, "VIDPN-13"},
      {"rate 1.9 % low", [](auto& m) { m.signal.pixel_rate = 98'100'000; }, ""},
      {"rate 2.1 % low", [](auto& m) { m.signal.pixel_rate = 97'900'000; }, "VIDPN-13"},
      {"rate open", [](auto& m) { m.signal.pixel_rate = kNotSpecified; }, ""},
      {"rate 0", [](auto& m) { m.signal.pixel_rate = 0; }, "VIDPN-13"},
      {"lines 1.9 % high",
       [](auto& m) {
         m.signal.hsync = {101'900, 1};
       },
       ""},
      {"lines 2.1 % high",
       [](auto& m) {
         m.signal.hsync = {102'100, 1};
       },
       "VIDPN-13"},
      {"lines 1.9 % low",
       [](auto& m) {
         m.signal.hsync = {98'100, 1};
       },
       ""},
      {"lines 2.1 % low",
       [](auto& m) {
         m.signal.hsync = {97'900, 1};
       },
       "VIDPN-13"},
      {"lines as a fraction",
       [](auto& m) {
         m.signal.hsync = {300'000, 3};
       },
       ""},
      {"lines open",
       [](auto& m) {
         m.signal.hsync = {kNotSpecified, kNotSpecified};
       },
       ""},
      {"both wrong",
       [](auto& m) {
         m.signal.pixel_rate = 1;
         m.signal.hsync = {1, 1};
       },
       "VIDPN-13, VIDPN-13"},
      {"nothing to compare with: total open",
       [](auto& m) {
         m.signal.pixel_rate = 1;
         m.signal.hsync = {1, 1};
         m.signal.total = {kNotSpecified, kNotSpecified};
       },
       ""},
      {"rate 0 with the total open",
       [](auto& m) {
         m.signal.pixel_rate = 0;
         m.signal.total = {kNotSpecified, kNotSpecified};
       },
       "VIDPN-13"},
      {"interlaced, counted as frames", [](auto& m) { m.signal.scanline_ordering = 2; },
       "VIDPN-13, VIDPN-13"},
      {"interlaced from the lower field",
       [](auto& m) {
         m.signal.scanline_ordering = 3;
         m.signal.pixel_rate = 50'000'000;
         m.signal.hsync = {50'000, 1};
       },
       ""},
      {"another ordering counts frames", [](auto& m) { m.signal.scanline_ordering = 255; }, ""},
  };
  TargetMode good = good_target_mode();
  good.signal.active = {900, 900};
  good.signal.total = {1000, 1000};
  good.signal.vsync = {300, 3};
  good.signal.hsync = {100'000, 1};
  good.signal.pixel_rate = 100'000'000;
  run<TargetMode>(good, rows,
                  [](const TargetMode& mode) { return judge_target_mode(full_profile(), mode); });
  // A display-only driver without frequencies has nothing that could disagree.
  TargetMode open{.signal = open_signal(), .preference = D3DKMDT_MP_PREFERRED};
  open.signal.pixel_rate = 5;
  EXPECT_EQ(said(judge_target_mode(display_only_profile(), open)), "");
}

TEST(JudgeBounds, TheDividerIsKnownSinceWddm13) {
  DXGKIT_COVERS("VIDPN-12");
  TargetMode mode = loose_mode();
  mode.signal.vsync_divider = 1;
  Profile profile = full_profile();
  profile.interface_version = 0x4002;
  EXPECT_EQ(said(judge_target_mode(profile, mode)), "VIDPN-12");
  profile.interface_version = 0x4001;
  EXPECT_EQ(said(judge_target_mode(profile, mode)), "");
}

TEST(JudgeBounds, TheMinimumFrequencyOfATarget) {
  DXGKIT_COVERS("VIDPN-02");
  const std::vector<Row<TargetMode>> rows = {
      {"as the frequency",
       [](auto& m) {
         m.minimum_vsync = {120, 2};
       },
       ""},
      {"just above the frequency",
       [](auto& m) {
         m.minimum_vsync = {121, 2};
       },
       kFrequency2},
      {"1 Hz",
       [](auto& m) {
         m.minimum_vsync = {2, 2};
       },
       ""},
      {"below 1 Hz",
       [](auto& m) {
         m.minimum_vsync = {1, 2};
       },
       kFrequency2},
      {"numerator 0",
       [](auto& m) {
         m.minimum_vsync = {0, 1};
       },
       kFrequency2},
      {"denominator 0",
       [](auto& m) {
         m.minimum_vsync = {1, 0};
       },
       kFrequency2},
      {"uninitialized",
       [](auto& m) {
         m.minimum_vsync = {kUninitialized, kUninitialized};
       },
       kFrequency2},
      {"open",
       [](auto& m) {
         m.minimum_vsync = {kNotSpecified, kNotSpecified};
       },
       ""},
      {"half-open",
       [](auto& m) {
         m.minimum_vsync = {kNotSpecified, 1};
       },
       ""},
  };
  run<TargetMode>(good_target_mode(), rows,
                  [](const TargetMode& mode) { return judge_target_mode(full_profile(), mode); });
  // Beside an open vertical frequency the minimum stands alone.
  TargetMode open{.signal = open_signal(), .preference = D3DKMDT_MP_PREFERRED};
  open.minimum_vsync = {1000, 1};
  EXPECT_EQ(said(judge_target_mode(display_only_profile(), open)), "");
  open.minimum_vsync = {1001, 1};
  EXPECT_EQ(said(judge_target_mode(display_only_profile(), open)), kFrequency2);
  // Large numbers are compared exactly.
  TargetMode large = loose_mode();
  large.signal.vsync = {3'000'000'000, 50'000'000};
  large.minimum_vsync = {3'000'000'001, 50'000'000};
  EXPECT_EQ(said(judge_target_mode(full_profile(), large)), kFrequency2);
  large.minimum_vsync = {3'000'000'000, 50'000'001};
  EXPECT_EQ(said(judge_target_mode(full_profile(), large)), "");
}

TEST(JudgeBounds, SourceModes) {
  DXGKIT_COVERS("VIDPN-10", "VIDPN-11");
  constexpr const char* kType = "VIDPN-10 STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE_MODE";
  constexpr const char* kSurface = "VIDPN-10 STATUS_GRAPHICS_INVALID_PRIMARYSURFACE_SIZE";
  constexpr const char* kVisible = "VIDPN-10 STATUS_GRAPHICS_INVALID_VISIBLEREGION_SIZE";
  constexpr const char* kBasis = "VIDPN-10 STATUS_GRAPHICS_INVALID_COLORBASIS";
  constexpr const char* kAccess = "VIDPN-10 STATUS_GRAPHICS_INVALID_PIXELVALUEACCESSMODE";
  const std::vector<Row<SourceMode>> rows = {
      {"type 1", [](auto& m) { m.type = 1; }, ""},
      {"type 3", [](auto& m) { m.type = 3; }, ""},
      {"type 4", [](auto& m) { m.type = 4; }, ""},
      {"type 5", [](auto& m) { m.type = 5; }, kType},
      {"graphics types have a size", [](auto& m) { m.type = 3, m.surface = {}; }, kSurface},
      {"a text mode has no members", [](auto& m) { m = {.type = 2}; }, ""},
      {"smallest",
       [](auto& m) {
         m.surface = m.visible = {1, 1};
         m.stride_bytes = 4;
       },
       ""},
      {"surface width 0", [](auto& m) { m.surface.width = 0; }, kSurface},
      {"surface height 0", [](auto& m) { m.surface.height = 0; }, kSurface},
      {"surface too wide", [](auto& m) { m.surface.width = 65536; }, kSurface},
      {"surface too high", [](auto& m) { m.surface.height = 65536; }, kSurface},
      {"a surface beyond what is seen",
       [](auto& m) {
         m.surface = {65535, 65535};
         m.stride_bytes = 65535 * 4;
       },
       ""},
      {"visible width 0", [](auto& m) { m.visible.width = 0; }, kVisible},
      {"visible height 0", [](auto& m) { m.visible.height = 0; }, kVisible},
      {"visible one line too many", [](auto& m) { m.visible.height = 1081; }, kVisible},
      {"visible smaller",
       [](auto& m) {
         m.visible = {1919, 1079};
       },
       ""},
      {"basis 1", [](auto& m) { m.color_basis = 1; }, ""},
      {"basis 3", [](auto& m) { m.color_basis = 3; }, ""},
      {"basis 4", [](auto& m) { m.color_basis = 4; }, "VIDPN-10"},
      {"basis 5", [](auto& m) { m.color_basis = 5; }, "VIDPN-10"},
      {"basis 6", [](auto& m) { m.color_basis = 6; }, kBasis},
      {"access mode 4", [](auto& m) { m.access_mode = 4; }, kAccess},
      {"preset palette for true colour", [](auto& m) { m.access_mode = 2; }, kAccess},
      {"settable palette for true colour", [](auto& m) { m.access_mode = 3; }, kAccess},
      {"preset palette", [](auto& m) { m.pixel_format = 41, m.access_mode = 2; }, ""},
      {"settable palette", [](auto& m) { m.pixel_format = 41, m.access_mode = 3; }, ""},
      {"P8 read directly", [](auto& m) { m.pixel_format = 41; }, "VIDPN-10"},
      {"P8 with access mode 4", [](auto& m) { m.pixel_format = 41, m.access_mode = 4; }, kAccess},
  };
  const auto judge = [](const SourceMode& mode) { return judge_source_mode(full_profile(), mode); };
  run<SourceMode>(good_source_mode(), rows, judge);

  struct Format {
    uint32_t format, bytes;
  };
  for (const Format& entry :
       {Format{20, 3}, Format{21, 4}, Format{22, 4}, Format{23, 2}, Format{24, 2}, Format{25, 2},
        Format{31, 4}, Format{32, 4}, Format{33, 4}, Format{35, 4}, Format{41, 1}, Format{113, 8},
        Format{119, 4}}) {
    SCOPED_TRACE(entry.format);
    SourceMode mode = good_source_mode();
    mode.pixel_format = entry.format;
    mode.access_mode = entry.format == 41 ? 3 : 1;
    mode.stride_bytes = 1920 * entry.bytes;
    EXPECT_EQ(said(judge(mode)), "");
    EXPECT_EQ(said(judge_source_mode(display_only_profile(), mode)),
              entry.format == 21 ? "" : "VIDPN-11 STATUS_GRAPHICS_INVALID_PIXELFORMAT");
    --mode.stride_bytes;
    EXPECT_EQ(said(judge(mode)), "VIDPN-10 STATUS_GRAPHICS_INVALID_STRIDE");
  }
}

TEST(JudgeBounds, MonitorModes) {
  DXGKIT_COVERS("VIDPN-21");
  constexpr const char* kMode = "VIDPN-21 STATUS_GRAPHICS_INVALID_MONITOR_SOURCE_MODE";
  const std::vector<Row<MonitorMode>> rows = {
      {"basis 1", [](auto& m) { m.color_basis = 1; }, ""},
      {"basis 5", [](auto& m) { m.color_basis = 5; }, ""},
      {"basis 6", [](auto& m) { m.color_basis = 6; }, kMode},
      {"preference 1", [](auto& m) { m.preference = 1; }, ""},
      {"preference 2", [](auto& m) { m.preference = 2; }, ""},
      {"preference 3", [](auto& m) { m.preference = 3; }, kMode},
      {"origin 4", [](auto& m) { m.origin = 4; }, "VIDPN-21"},
      {"origin 6", [](auto& m) { m.origin = 6; }, "VIDPN-21"},
  };
  run<MonitorMode>(good_monitor_mode(), rows, [](const MonitorMode& mode) {
    return judge_monitor_mode(full_profile(), mode);
  });
}

Path good_path() {
  Path path;
  path.source = 1;
  path.target = kTargetB;
  path.importance = 2;
  path.scaling = path.rotation = 1;
  return path;
}

TEST(JudgeBounds, NewPaths) {
  DXGKIT_COVERS("VIDPN-17", "VIDPN-20");
  constexpr const char* kImportance = "VIDPN-17 STATUS_GRAPHICS_INVALID_PATH_IMPORTANCE_ORDINAL";
  constexpr const char* kTransformation =
      "VIDPN-20 STATUS_GRAPHICS_INVALID_PATH_CONTENT_GEOMETRY_TRANSFORMATION";
  constexpr const char* kContent = "VIDPN-17 STATUS_GRAPHICS_INVALID_PATH_CONTENT_TYPE";
  constexpr const char* kProtection = "VIDPN-17 STATUS_GRAPHICS_INVALID_COPYPROTECTION_TYPE";
  const std::vector<Row<Path>> rows = {
      {"last importance", [](auto& p) { p.importance = 16; }, ""},
      {"beyond the importances", [](auto& p) { p.importance = 17; }, kImportance},
      {"scaling 5", [](auto& p) { p.scaling = 5; }, ""},
      {"scaling 6", [](auto& p) { p.scaling = 6; }, kTransformation},
      {"scaling 253", [](auto& p) { p.scaling = 253; }, kTransformation},
      {"scaling unpinned", [](auto& p) { p.scaling = 254; }, ""},
      {"scaling not specified", [](auto& p) { p.scaling = 255; }, ""},
      {"scaling 256", [](auto& p) { p.scaling = 256; }, kTransformation},
      {"rotation 0", [](auto& p) { p.rotation = 0; }, kTransformation},
      {"rotation 16", [](auto& p) { p.rotation = 16; }, ""},
      {"rotation 253", [](auto& p) { p.rotation = 253; }, kTransformation},
      {"rotation unpinned", [](auto& p) { p.rotation = 254; }, ""},
      {"rotation not specified", [](auto& p) { p.rotation = 255; }, ""},
      {"rotation 256", [](auto& p) { p.rotation = 256; }, kTransformation},
      {"content 2", [](auto& p) { p.content = 2; }, ""},
      {"content 254", [](auto& p) { p.content = 254; }, kContent},
      {"content not specified", [](auto& p) { p.content = 255; }, ""},
      {"protection 3", [](auto& p) { p.copy_protection = 3; }, ""},
      {"protection 4", [](auto& p) { p.copy_protection = 4; }, kProtection},
      {"no protection", [](auto& p) { p.copy_protection = 0; }, "VIDPN-17"},
      {"no colour basis", [](auto& p) { p.color_basis = 0; }, "VIDPN-17"},
      {"no gamma ramp", [](auto& p) { p.gamma_type = 0; }, "VIDPN-17"},
      {"the same source again", [](auto& p) { p.source = 0; }, ""},
  };
  const Network network = one_path(full_profile());
  run<Path>(good_path(), rows,
            [&](const Path& path) { return judge_new_path(full_profile(), network, path); });
  // Before path-independent rotation there are four rotations.
  Profile old = full_profile();
  old.interface_version = 0x4002;
  Path path = good_path();
  path.rotation = 4;
  EXPECT_EQ(said(judge_new_path(old, network, path)), "");
  path.rotation = 5;
  EXPECT_EQ(said(judge_new_path(old, network, path)), kTransformation);
  old.interface_version = 0x4003;
  EXPECT_EQ(said(judge_new_path(old, network, path)), "");
  // The sixteenth path is the last.
  Profile many = full_profile();
  many.targets.clear();
  std::vector<SourceTarget> pairs;
  for (uint32_t target = 0; target < 16; ++target) {
    many.targets.push_back(target);
    if (target < 15) pairs.push_back({0, target});
  }
  path = good_path();
  path.target = 15;
  path.importance = 16;
  EXPECT_EQ(said(judge_new_path(many, constraining_network(many, pairs), path)), "");
}

TEST(JudgeBounds, PinnedTransformationsAreSupported) {
  DXGKIT_COVERS("VIDPN-20");
  const Path network_path = one_path(full_profile()).paths.front();
  const auto judge = [&](uint32_t scaling, uint32_t scalings, uint32_t rotation,
                         uint32_t rotations) {
    Path path = network_path;
    path.scaling = scaling;
    path.rotation = rotation;
    Path update = path;
    update.scaling_support = scalings;
    update.rotation_support = rotations;
    return said(judge_path_support(full_profile(), path, update, true));
  };
  for (uint32_t scaling = 1; scaling <= 5; ++scaling) {
    EXPECT_EQ(judge(scaling, 1U << (scaling - 1), 1, 0), "") << scaling;
    EXPECT_EQ(judge(scaling, 0x1F & ~(1U << (scaling - 1)), 1, 0), "VIDPN-20") << scaling;
  }
  EXPECT_EQ(judge(0, 2, 1, 0), "");
  EXPECT_EQ(judge(6, 2, 1, 0), "");
  EXPECT_EQ(judge(254, 2, 1, 0), "");
  // Rotations 5 to 16 are those of 1 to 4, shown at an offset.
  for (uint32_t rotation = 1; rotation <= 16; ++rotation) {
    const uint32_t bit = 1U << (rotation - 1) % 4;
    EXPECT_EQ(judge(1, 0, rotation, 0xF0 | bit), "") << rotation;
    EXPECT_EQ(judge(1, 0, rotation, 0xF0 | (0xF & ~bit)), "VIDPN-20") << rotation;
  }
  EXPECT_EQ(judge(1, 0, 0, 0x12), "");
  EXPECT_EQ(judge(1, 0, 17, 0x12), "");
  EXPECT_EQ(judge(1, 0, 2, 0xF0), "");
  EXPECT_EQ(judge(2, 1, 2, 0x11), "VIDPN-20, VIDPN-20");
  // Each offset will do, and each rotation needs one.
  for (uint32_t bit = 0; bit < 4; ++bit) {
    EXPECT_EQ(judge(1, 0, 254, 0x10U << bit | 1), "");
    EXPECT_EQ(judge(1, 0, 254, 1U << bit), "VIDPN-04 STATUS_INVALID_PARAMETER");
  }
}

// How sure we are, and how grave it is, is part of what is said.
TEST(JudgeBounds, SeverityAndConfidence) {
  const auto check = [](const Judgments& judgments, Severity severity, Confidence confidence) {
    ASSERT_EQ(judgments.size(), 1U);
    EXPECT_EQ(judgments[0].severity, severity) << judgments[0].actual;
    EXPECT_EQ(judgments[0].confidence, confidence) << judgments[0].actual;
  };
  const TargetMode open{.signal = open_signal(), .preference = D3DKMDT_MP_PREFERRED};
  check(judge_target_mode(full_profile(), open), Severity::kViolation, Confidence::kMeasured);
  Profile profile = display_only_profile();
  check(judge_target_mode(profile, good_target_mode()), Severity::kWarning, Confidence::kInferred);
  profile.vsync_control = true;
  check(judge_target_mode(profile, open), Severity::kViolation, Confidence::kDocumented);
  TargetMode mode = good_target_mode();
  mode.signal.hsync = {kNotSpecified, 1};
  check(judge_target_mode(full_profile(), mode), Severity::kViolation, Confidence::kInferred);
  mode = good_target_mode();
  mode.signal.pixel_rate = 0;
  check(judge_target_mode(full_profile(), mode), Severity::kWarning, Confidence::kInferred);
  mode.signal.pixel_rate = 1;
  check(judge_target_mode(full_profile(), mode), Severity::kWarning, Confidence::kInferred);
  mode = good_target_mode();
  mode.signal.hsync = {1, 1};
  check(judge_target_mode(full_profile(), mode), Severity::kWarning, Confidence::kInferred);
  mode = good_target_mode();
  mode.signal.vsync_divider = 3;
  check(judge_target_mode(full_profile(), mode), Severity::kWarning, Confidence::kInferred);
  mode = good_target_mode();
  mode.preference = 0;
  check(judge_target_mode(full_profile(), mode), Severity::kWarning, Confidence::kInferred);
  SourceMode source = good_source_mode();
  source.color_basis = 0;
  check(judge_source_mode(full_profile(), source), Severity::kViolation, Confidence::kInferred);
  Path path = one_path(full_profile()).paths.front();
  Path update = path;
  update.rotation_support = 1;
  check(judge_path_support(full_profile(), path, update, true), Severity::kBugCheck,
        Confidence::kMeasured);
  check(judge_path_support(full_profile(), path, update, false), Severity::kViolation,
        Confidence::kMeasured);
}

}  // namespace
}  // namespace dxgkit::vidpn
