// Networks as values: finding, pinning, what changed between two, what breaks the invariants.
#include "vidpn/network.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

using Texts = std::vector<std::string>;

/// Two sources on three targets; the second of each has modes 4, 5 and 6 with 5 pinned.
Network rich_network() {
  Profile profile = full_profile();
  profile.source_count = 3;
  profile.targets = {kTargetA, kTargetB, 0x300};
  const SourceTarget pairs[] = {{1, kTargetA}, {2, kTargetB}, {2, 0x300}};
  Network network = constraining_network(profile, pairs);
  for (uint32_t id = 4; id < 7; ++id) {
    SourceMode source = good_source_mode();
    source.id = id;
    source.stride_bytes += id;
    network.source_sets[2].modes.push_back(source);
    TargetMode target = good_target_mode();
    target.id = id;
    target.signal.active.width -= id;
    network.target_sets[kTargetB].modes.push_back(target);
  }
  network.source_sets[2].pinned = 5;
  network.target_sets[kTargetB].pinned = 5;
  network.multisampling[2] = {{4, 2}, {8, 1}};
  return network;
}

TEST(Networks, ConstrainingOnesHavePathsAndNothingElse) {
  const Network network = rich_network();
  ASSERT_EQ(network.paths.size(), 3U);
  const SourceTarget pairs[] = {{1, kTargetA}, {2, kTargetB}, {2, 0x300}};
  for (uint32_t i = 0; i < 3; ++i) {
    Path wanted;
    wanted.source = pairs[i].source;
    wanted.target = pairs[i].target;
    wanted.importance = i + 1;
    EXPECT_EQ(network.paths[i], wanted) << i;
    EXPECT_EQ(wanted.scaling, kTransformationUnpinned);
    EXPECT_EQ(wanted.rotation, kTransformationUnpinned);
  }
  EXPECT_EQ(network.source_sets.size(), 2U);
  EXPECT_EQ(network.target_sets.size(), 3U);
  EXPECT_EQ(network.source_sets.at(1), SourceModeSet{});
  EXPECT_EQ(network.target_sets.at(kTargetA), TargetModeSet{});
  EXPECT_EQ(network.target_sets.at(0x300), TargetModeSet{});
}

TEST(Networks, PathsAndModesAreFound) {
  const Network network = rich_network();
  EXPECT_EQ(network.find_path(2, kTargetB), &network.paths[1]);
  EXPECT_EQ(network.find_path(2, 0x300), &network.paths[2]);
  EXPECT_EQ(network.find_path(1, kTargetB), nullptr);
  EXPECT_EQ(network.find_path(2, kTargetA), nullptr);
  EXPECT_FALSE(network.has_source(0));
  EXPECT_TRUE(network.has_source(1));
  EXPECT_TRUE(network.has_source(2));
  EXPECT_FALSE(network.has_target(0));
  EXPECT_TRUE(network.has_target(kTargetA));
  EXPECT_TRUE(network.has_target(0x300));
  EXPECT_EQ(network.pinned_source_mode(0), nullptr);
  EXPECT_EQ(network.pinned_source_mode(1), nullptr);
  EXPECT_EQ(network.pinned_source_mode(2), &network.source_sets.at(2).modes[1]);
  EXPECT_EQ(network.pinned_target_mode(0), nullptr);
  EXPECT_EQ(network.pinned_target_mode(kTargetA), nullptr);
  EXPECT_EQ(network.pinned_target_mode(kTargetB), &network.target_sets.at(kTargetB).modes[1]);
  Profile profile = full_profile();
  EXPECT_TRUE(profile.has_target(kTargetB));
  EXPECT_FALSE(profile.has_target(kTargetB + 1));
}

TEST(Networks, PathIndependentRotationBeginsWithAVersion) {
  Profile profile = full_profile();
  profile.interface_version = 0x4002;
  EXPECT_FALSE(profile.path_independent_rotation());
  profile.interface_version = 0x4003;
  EXPECT_TRUE(profile.path_independent_rotation());
}

TEST(Networks, ModesOfTheSetArePinned) {
  Network network = rich_network();
  const Network before = network;
  EXPECT_EQ(pin_source_mode(network, 2, 7), kModeNotInModeSet);
  EXPECT_EQ(pin_source_mode(network, 1, 4), kModeNotInModeSet);
  EXPECT_EQ(pin_source_mode(network, 0, 4), kModeNotInModeSet);
  EXPECT_EQ(pin_target_mode(network, kTargetB, 7), kModeNotInModeSet);
  EXPECT_EQ(pin_target_mode(network, kTargetA, 4), kModeNotInModeSet);
  EXPECT_EQ(pin_target_mode(network, 2, 4), kModeNotInModeSet);
  EXPECT_EQ(network, before);
  EXPECT_EQ(pin_source_mode(network, 2, 6), Status::kSuccess);
  Network wanted = before;
  wanted.source_sets[2].pinned = 6;
  EXPECT_EQ(network, wanted);
  EXPECT_EQ(pin_target_mode(network, kTargetB, 4), Status::kSuccess);
  wanted.target_sets[kTargetB].pinned = 4;
  EXPECT_EQ(network, wanted);
}

// Scaling and rotation each for itself; what is pinned or not specified stays.
TEST(Networks, OpenTransformationsBecomeIdentity) {
  Network network = rich_network();
  network.paths[0].scaling = 3;
  network.paths[1].rotation = 4;
  network.paths[2].scaling = network.paths[2].rotation = kTransformationNotSpecified;
  Network wanted = network;
  wanted.paths[0].rotation = 1;
  wanted.paths[1].scaling = 1;
  pin_transformations(network);
  EXPECT_EQ(network, wanted);
}

struct Change {
  std::function<void(Network&)> make;
  Texts forth, back;  // what is said of the change, and of its reverse
};

TEST(Differences, EachMemberAloneIsNamed) {
  const Texts another = {"path 2 -> 512 is another one"};
  const auto path = [&](auto change) {
    return Change{[=](Network& n) { change(n.paths[1]); }, another, another};
  };
  const std::vector<Change> changes = {
      {[](Network& n) { n.paths[1].scaling_support = 3; },
       {"path 2 -> 512: scaling support 0x0 -> 0x3"},
       {"path 2 -> 512: scaling support 0x3 -> 0x0"}},
      {[](Network& n) { n.paths[1].rotation_support = 0x11; },
       {"path 2 -> 512: rotation support 0x0 -> 0x11"},
       {"path 2 -> 512: rotation support 0x11 -> 0x0"}},
      {[](Network& n) { n.paths[1].copy_protection_support = 6; },
       {"path 2 -> 512: copy protection support 0x1 -> 0x6"},
       {"path 2 -> 512: copy protection support 0x6 -> 0x1"}},
      {[](Network& n) {
         n.paths[1].scaling_support = 3;
         n.paths[1].rotation_support = 0x11;
         n.paths[1].copy_protection_support = 6;
         n.paths[1].content = 2;
         n.paths[2].rotation = 2;
       },
       {"path 2 -> 512: scaling support 0x0 -> 0x3", "path 2 -> 512: rotation support 0x0 -> 0x11",
        "path 2 -> 512: copy protection support 0x1 -> 0x6", "path 2 -> 512 is another one",
        "path 2 -> 768 is another one"},
       {"path 2 -> 512: scaling support 0x3 -> 0x0", "path 2 -> 512: rotation support 0x11 -> 0x0",
        "path 2 -> 512: copy protection support 0x6 -> 0x1", "path 2 -> 512 is another one",
        "path 2 -> 768 is another one"}},
      path([](Path& p) { p.importance = 9; }),
      path([](Path& p) { p.scaling = 1; }),
      path([](Path& p) { p.rotation = 1; }),
      path([](Path& p) { p.visible_from_active_top_left.width = 1; }),
      path([](Path& p) { p.visible_from_active_top_left.height = 1; }),
      path([](Path& p) { p.visible_from_active_bottom_right.width = 1; }),
      path([](Path& p) { p.visible_from_active_bottom_right.height = 1; }),
      path([](Path& p) { p.color_basis = 1; }),
      path([](Path& p) { p.color_ranges[3] = 1; }),
      path([](Path& p) { p.content = 2; }),
      path([](Path& p) { p.copy_protection = 2; }),
      path([](Path& p) { p.aps_trigger_bits = 2; }),
      path([](Path& p) { p.gamma_type = 2; }),
      path([](Path& p) { p.gamma.push_back(std::byte{}); }),
      {[](Network& n) { n.paths.erase(n.paths.begin() + 1); },
       {"path 2 -> 512 removed"},
       {"path 2 -> 512 added"}},
      {[](Network& n) { std::swap(n.paths[0], n.paths[1]); },
       {"the order of paths or modes differs"},
       {"the order of paths or modes differs"}},
      {[](Network& n) { std::swap(n.source_sets[2].modes[0], n.source_sets[2].modes[1]); },
       {"the order of paths or modes differs"},
       {"the order of paths or modes differs"}},
      {[](Network& n) { n.multisampling[2][1].quality_levels = 3; },
       {"multisampling methods differ"},
       {"multisampling methods differ"}},
      {[](Network& n) { n.source_sets[2].modes.erase(n.source_sets[2].modes.begin()); },
       {"source 2: mode 4 (1920x1080 pitch 7684 A8R8G8B8) removed"},
       {"source 2: mode 4 (1920x1080 pitch 7684 A8R8G8B8) added"}},
      {[](Network& n) { n.source_sets[2].modes[2].stride_bytes = 8192; },
       {"source 2: mode 6 is now 1920x1080 pitch 8192 A8R8G8B8"},
       {"source 2: mode 6 is now 1920x1080 pitch 7686 A8R8G8B8"}},
      {[](Network& n) { n.source_sets[2].pinned = 6; },
       {"source 2: mode 6 pinned"},
       {"source 2: mode 5 pinned"}},
      {[](Network& n) { n.source_sets[2].pinned.reset(); },
       {"source 2: mode 5 unpinned"},
       {"source 2: mode 5 pinned"}},
      {[](Network& n) { n.source_sets.erase(2); },
       {"source 2: mode 4 (1920x1080 pitch 7684 A8R8G8B8) removed",
        "source 2: mode 5 (1920x1080 pitch 7685 A8R8G8B8) removed",
        "source 2: mode 6 (1920x1080 pitch 7686 A8R8G8B8) removed", "source 2: mode 5 unpinned"},
       {"source 2: mode 4 (1920x1080 pitch 7684 A8R8G8B8) added",
        "source 2: mode 5 (1920x1080 pitch 7685 A8R8G8B8) added",
        "source 2: mode 6 (1920x1080 pitch 7686 A8R8G8B8) added", "source 2: mode 5 pinned"}},
      {[](Network& n) { n.target_sets[kTargetB].modes.pop_back(); },
       {"target 512: mode 6 (1914x1080@60 (148500000 Hz, 2200x1125)) removed"},
       {"target 512: mode 6 (1914x1080@60 (148500000 Hz, 2200x1125)) added"}},
      {[](Network& n) { n.target_sets[kTargetB].modes[0].preference = 2; },
       {"target 512: mode 4 is now 1916x1080@60 (148500000 Hz, 2200x1125)"},
       {"target 512: mode 4 is now 1916x1080@60 (148500000 Hz, 2200x1125)"}},
      {[](Network& n) { n.target_sets[kTargetB].pinned = 4; },
       {"target 512: mode 4 pinned"},
       {"target 512: mode 5 pinned"}},
  };
  const Network before = rich_network();
  EXPECT_TRUE(differences(before, before).empty());
  for (size_t i = 0; i < changes.size(); ++i) {
    Network after = before;
    changes[i].make(after);
    EXPECT_EQ(differences(before, after), changes[i].forth) << i;
    EXPECT_EQ(differences(after, before), changes[i].back) << i;
  }
}

TEST(Validate, EachInvariantAloneIsNamed) {
  const std::pair<std::function<void(Network&)>, const char*> rows[] = {
      {[](Network&) {}, ""},
      {[](Network& n) { n.paths[2].target = kTargetB; }, "target 512 is in two paths"},
      {[](Network& n) { n.paths[2].importance = 1; }, "importance 1 is given twice"},
      {[](Network& n) { n.source_sets[3]; }, "source 3 has a mode set and no path"},
      {[](Network& n) { n.target_sets[3]; }, "target 3 has a mode set and no path"},
      {[](Network& n) { n.source_sets[2].modes[2].id = 4; }, "source 2 has mode 4 twice"},
      {[](Network& n) { n.target_sets[kTargetB].modes[2].id = 4; }, "target 512 has mode 4 twice"},
      {[](Network& n) { n.source_sets[2].pinned = 7; },
       "source 2 has mode 7 pinned, which it does not hold"},
      {[](Network& n) { n.target_sets[kTargetA].pinned = 7; },
       "target 256 has mode 7 pinned, which it does not hold"},
      {[](Network& n) { n.multisampling[0]; }, "source 0 has multisampling methods and no path"},
  };
  for (const auto& [change, wanted] : rows) {
    Network network = rich_network();
    change(network);
    EXPECT_EQ(validate(network), wanted);
  }
}

TEST(Texts, SignalsAndSourceModesReadWell) {
  Signal signal = good_signal();
  signal.vsync = {60000, 1001};
  signal.scanline_ordering = D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST;
  EXPECT_EQ(to_text(signal), "1920x1080@60000/1001i (148500000 Hz, 2200x1125)");
  signal.scanline_ordering = D3DDDI_VSSLO_INTERLACED_LOWERFIELDFIRST;
  signal.pixel_rate = kNotSpecified;
  EXPECT_EQ(to_text(signal), "1920x1080@60000/1001i (2200x1125)");
  signal.scanline_ordering = D3DDDI_VSSLO_OTHER;
  signal.total = {kNotSpecified, kNotSpecified};
  signal.vsync = {kNotSpecified, kNotSpecified};
  signal.active.height = kUninitialized;
  EXPECT_EQ(to_text(signal), "1920xUNINITIALIZED@NOTSPECIFIED");
  signal.pixel_rate = 5;
  EXPECT_EQ(to_text(signal), "1920xUNINITIALIZED@NOTSPECIFIED (5 Hz)");
  signal.pixel_rate = 0;
  signal.total = {7, 8};
  EXPECT_EQ(to_text(signal), "1920xUNINITIALIZED@NOTSPECIFIED (7x8)");
  SourceMode mode = good_source_mode();
  const std::pair<uint32_t, const char*> formats[] = {{20, "R8G8B8"},
                                                      {21, "A8R8G8B8"},
                                                      {22, "X8R8G8B8"},
                                                      {23, "R5G6B5"},
                                                      {24, "X1R5G5B5"},
                                                      {25, "A1R5G5B5"},
                                                      {31, "A2B10G10R10"},
                                                      {32, "A8B8G8R8"},
                                                      {33, "X8B8G8R8"},
                                                      {35, "A2R10G10B10"},
                                                      {41, "P8"},
                                                      {113, "A16B16G16R16F"},
                                                      {119, "A2B10G10R10_XR_BIAS"},
                                                      {75, "format 0x4b"}};
  for (const auto& [format, name] : formats) {
    mode.pixel_format = format;
    EXPECT_EQ(to_text(mode), std::string("1920x1080 pitch 7680 ") + name);
  }
}

}  // namespace
}  // namespace dxgkit::vidpn
