// Networks as values: built, compared, validated, and judged whole.
#include "vidpn/network.h"

#include <gtest/gtest.h>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

using Words = std::vector<std::string>;

/// Source 0 on both targets, source 1 on none yet.
Network two_paths() {
  Network network = clone_paths(full_profile());
  network.source_sets[0].modes = {good_source_mode(), good_source_mode()};
  network.source_sets[0].modes[0].id = 7;
  network.source_sets[0].modes[1].id = 8;
  network.source_sets[0].modes[1].stride_bytes = 8192;
  for (const uint32_t target : {kTargetA, kTargetB}) {
    network.target_sets[target].modes = {good_target_mode(), good_target_mode()};
    network.target_sets[target].modes[0].id = target + 1;
    network.target_sets[target].modes[1].id = target + 2;
    network.target_sets[target].modes[1].signal.pixel_rate = 148'600'000;
  }
  return network;
}

TEST(Networks, PathsAreFoundByBothEnds) {
  const SourceTarget pairs[] = {{0, kTargetB}, {1, kTargetA}};
  const Network network = constraining_network(full_profile(), pairs);
  ASSERT_EQ(network.paths.size(), 2U);
  EXPECT_EQ(network.find_path(0, kTargetB), &network.paths[0]);
  EXPECT_EQ(network.find_path(1, kTargetA), &network.paths[1]);
  EXPECT_EQ(network.find_path(0, kTargetA), nullptr);
  EXPECT_EQ(network.find_path(1, kTargetB), nullptr);
  EXPECT_TRUE(network.has_source(0) && network.has_source(1) && !network.has_source(2));
  EXPECT_TRUE(network.has_target(kTargetA) && network.has_target(kTargetB));
  EXPECT_FALSE(network.has_target(0));
  EXPECT_EQ(network.paths[0].importance, 1U);
  EXPECT_EQ(network.paths[1].importance, 2U);
  for (const Path& path : network.paths) {
    EXPECT_EQ(path.scaling, kTransformationUnpinned);
    EXPECT_EQ(path.rotation, kTransformationUnpinned);
  }
  EXPECT_EQ(network.source_sets.size(), 2U);
  EXPECT_EQ(network.target_sets.size(), 2U);
  EXPECT_EQ(validate(network), "");
}

TEST(Networks, ModesArePinnedByOwnerAndId) {
  Network network = two_paths();
  EXPECT_EQ(network.pinned_source_mode(0), nullptr);
  EXPECT_EQ(network.pinned_source_mode(1), nullptr);
  EXPECT_EQ(network.pinned_target_mode(kTargetB), nullptr);
  EXPECT_EQ(network.pinned_target_mode(99), nullptr);
  const Network before = network;
  EXPECT_EQ(pin_source_mode(network, 0, 9), kModeNotInModeSet);
  EXPECT_EQ(pin_source_mode(network, 1, 7), kModeNotInModeSet);
  EXPECT_EQ(pin_target_mode(network, kTargetA, kTargetB + 1), kModeNotInModeSet);
  EXPECT_EQ(pin_target_mode(network, 99, 1), kModeNotInModeSet);
  EXPECT_EQ(network, before);
  EXPECT_EQ(pin_source_mode(network, 0, 8), Status::kSuccess);
  EXPECT_EQ(network.pinned_source_mode(0), &network.source_sets[0].modes[1]);
  EXPECT_EQ(pin_target_mode(network, kTargetB, kTargetB + 2), Status::kSuccess);
  EXPECT_EQ(network.pinned_target_mode(kTargetB), &network.target_sets[kTargetB].modes[1]);
  EXPECT_EQ(network.pinned_target_mode(kTargetA), nullptr);
}

TEST(Networks, OnlyUnpinnedTransformationsBecomeIdentity) {
  Network network = clone_paths(full_profile());
  network.paths[0].scaling = 3;
  network.paths[1].rotation = 4;
  pin_transformations(network);
  EXPECT_EQ(network.paths[0].scaling, 3U);
  EXPECT_EQ(network.paths[0].rotation, 1U);
  EXPECT_EQ(network.paths[1].scaling, 1U);
  EXPECT_EQ(network.paths[1].rotation, 4U);
}

TEST(Differences, OfPaths) {
  const Network before = two_paths();
  const auto said = [&](const Network& after) { return differences(before, after); };
  EXPECT_EQ(said(before), Words{});
  Network after = before;
  after.paths[1].scaling_support = 5;
  EXPECT_EQ(said(after), Words{"path 0 -> 512: scaling support 0x0 -> 0x5"});
  after = before;
  after.paths[1].rotation_support = 0x11;
  EXPECT_EQ(said(after), Words{"path 0 -> 512: rotation support 0x0 -> 0x11"});
  after = before;
  after.paths[0].copy_protection_support = 7;
  EXPECT_EQ(said(after), Words{"path 0 -> 256: copy protection support 0x1 -> 0x7"});
  after.paths[0].scaling_support = 1;
  after.paths[0].rotation_support = 2;
  EXPECT_EQ(said(after), (Words{"path 0 -> 256: scaling support 0x0 -> 0x1",
                                "path 0 -> 256: rotation support 0x0 -> 0x2",
                                "path 0 -> 256: copy protection support 0x1 -> 0x7"}));
  after.paths[0].importance = 9;
  EXPECT_EQ(said(after).back(), "path 0 -> 256 is another one");
  EXPECT_EQ(said(after).size(), 4U);
  after = before;
  after.paths[1].content = 2;
  EXPECT_EQ(said(after), Words{"path 0 -> 512 is another one"});
  after = before;
  after.paths[1].source = 1;
  EXPECT_EQ(said(after), (Words{"path 0 -> 512 removed", "path 1 -> 512 added"}));
  after = before;
  std::swap(after.paths[0], after.paths[1]);
  EXPECT_EQ(said(after), Words{"the order of paths or modes differs"});
  after = before;
  after.multisampling[0] = {{4, 2}};
  EXPECT_EQ(said(after), Words{"multisampling methods differ"});
}

TEST(Differences, OfModeSets) {
  const Network before = two_paths();
  const auto said = [&](const Network& after) { return differences(before, after); };
  Network after = before;
  after.source_sets[0].modes[1].stride_bytes = 8448;
  EXPECT_EQ(said(after), Words{"source 0: mode 8 is now 1920x1080 pitch 8448 A8R8G8B8"});
  after = before;
  after.source_sets[0].modes.pop_back();
  EXPECT_EQ(said(after), Words{"source 0: mode 8 (1920x1080 pitch 8192 A8R8G8B8) removed"});
  EXPECT_EQ(differences(after, before),
            Words{"source 0: mode 8 (1920x1080 pitch 8192 A8R8G8B8) added"});
  after = before;
  after.target_sets[kTargetB].pinned = kTargetB + 2;
  EXPECT_EQ(said(after), Words{"target 512: mode 514 pinned"});
  EXPECT_EQ(differences(after, before), Words{"target 512: mode 514 unpinned"});
  after = before;
  std::swap(after.source_sets[0].modes[0], after.source_sets[0].modes[1]);
  EXPECT_EQ(said(after), Words{"the order of paths or modes differs"});
  // A set that is not there has no modes.
  after = before;
  after.target_sets.erase(kTargetB);
  EXPECT_EQ(said(after),
            (Words{"target 512: mode 513 (1920x1080@60 (148500000 Hz, 2200x1125)) removed",
                   "target 512: mode 514 (1920x1080@60 (148600000 Hz, 2200x1125)) removed"}));
  EXPECT_EQ(differences(after, before),
            (Words{"target 512: mode 513 (1920x1080@60 (148500000 Hz, 2200x1125)) added",
                   "target 512: mode 514 (1920x1080@60 (148600000 Hz, 2200x1125)) added"}));
}

TEST(Networks, InvariantsAreNamed) {
  const Network good = two_paths();
  EXPECT_EQ(validate(good), "");
  Network bad = good;
  bad.paths[1].target = kTargetA;
  EXPECT_EQ(validate(bad), "target 256 is in two paths");
  bad = good;
  bad.paths[1].importance = 1;
  EXPECT_EQ(validate(bad), "importance 1 is given twice");
  bad = good;
  bad.source_sets[1];
  EXPECT_EQ(validate(bad), "source 1 has a mode set and no path");
  bad = good;
  bad.target_sets[5];
  EXPECT_EQ(validate(bad), "target 5 has a mode set and no path");
  bad = good;
  bad.source_sets[0].modes[1].id = 7;
  EXPECT_EQ(validate(bad), "source 0 has mode 7 twice");
  bad = good;
  bad.target_sets[kTargetB].modes[1].id = kTargetB + 1;
  EXPECT_EQ(validate(bad), "target 512 has mode 513 twice");
  bad = good;
  bad.target_sets[kTargetA].pinned = 3;
  EXPECT_EQ(validate(bad), "target 256 has mode 3 pinned, which it does not hold");
  bad = good;
  bad.multisampling[1] = {{1, 1}};
  EXPECT_EQ(validate(bad), "source 1 has multisampling methods and no path");
}

size_t functional_findings(const Network& network) {
  verifier::Findings findings;
  const bool fine = check_functional(network, full_profile(), findings, "DxgkDdiCommitVidPn");
  EXPECT_EQ(fine, findings.total() == 0);
  for (const verifier::Finding& finding : findings.all()) {
    EXPECT_EQ(finding.ddi, "DxgkDdiCommitVidPn");
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    EXPECT_EQ(finding.confidence, verifier::Confidence::kDocumented);
  }
  return findings.total();
}

Network functional() {
  Network network = two_paths();
  EXPECT_EQ(pin_source_mode(network, 0, 8), Status::kSuccess);
  for (const uint32_t target : {kTargetA, kTargetB})
    EXPECT_EQ(pin_target_mode(network, target, target + 2), Status::kSuccess);
  pin_transformations(network);
  EXPECT_EQ(functional_findings(network), 0U);
  return network;
}

TEST(Functional, PathsNameWhatTheAdapterHas) {
  DXGKIT_COVERS("VIDPN-17");
  const auto moved = [](uint32_t source, uint32_t target) {
    Network network = functional();
    Path& path = network.paths[1];
    if (source != path.source) {
      network.source_sets[source] = network.source_sets[0];
      path.source = source;
    }
    if (target != path.target) {
      network.target_sets[target] = network.target_sets[kTargetB];
      network.target_sets.erase(kTargetB);
      path.target = target;
    }
    return functional_findings(network);
  };
  EXPECT_EQ(moved(1, kTargetB), 0U);
  EXPECT_EQ(moved(2, kTargetB), 1U);
  EXPECT_EQ(moved(1, 5), 1U);
}

TEST(Functional, ShownTransformationsAreSupported) {
  DXGKIT_COVERS("VIDPN-20");
  const auto shown = [](uint32_t scaling, uint32_t scalings, uint32_t rotation,
                        uint32_t rotations) {
    Network network = functional();
    Path& path = network.paths[1];
    path.scaling = scaling, path.scaling_support = scalings;
    path.rotation = rotation, path.rotation_support = rotations;
    return functional_findings(network);
  };
  for (uint32_t scaling = 1; scaling <= 5; ++scaling) {
    const uint32_t bit = 1U << (scaling - 1);
    EXPECT_EQ(shown(scaling, bit, 1, 0), 0U) << scaling;
    EXPECT_EQ(shown(scaling, 0x1F & ~bit, 1, 0), 1U) << scaling;
  }
  EXPECT_EQ(shown(3, 0, 1, 0), 0U);  // nothing was said
  EXPECT_EQ(shown(0, 2, 1, 0), 0U);
  EXPECT_EQ(shown(6, 1, 1, 0), 0U);
  EXPECT_EQ(shown(254, 2, 1, 0), 0U);
  for (uint32_t rotation = 1; rotation <= 16; ++rotation) {
    const uint32_t bit = 1U << (rotation - 1) % 4;
    EXPECT_EQ(shown(1, 0, rotation, 0xF0 | bit), 0U) << rotation;
    EXPECT_EQ(shown(1, 0, rotation, 0xF0 | (0xF & ~bit)), 1U) << rotation;
  }
  EXPECT_EQ(shown(1, 0, 2, 0x10), 0U);  // offsets alone say nothing of rotations
  EXPECT_EQ(shown(1, 0, 0, 0x12), 0U);
  EXPECT_EQ(shown(1, 0, 17, 0x12), 0U);
  EXPECT_EQ(shown(2, 1, 2, 0x11), 1U);  // one path, one finding
}

TEST(Functional, AClonedSourceIsNamedOnce) {
  DXGKIT_COVERS("VIDPN-16");
  Network network = functional();
  network.source_sets[0].pinned.reset();
  EXPECT_EQ(functional_findings(network), 1U);
  network.target_sets[kTargetB].pinned.reset();
  EXPECT_EQ(functional_findings(network), 2U);
  // Two sources without a pinned mode are two findings.
  network = functional();
  network.paths[1].source = 1;
  network.source_sets[1];
  EXPECT_EQ(functional_findings(network), 1U);
  network.source_sets[0].pinned.reset();
  EXPECT_EQ(functional_findings(network), 2U);
}

size_t cofunctional_findings(const Network& before, const Network& after, const Pivot& pivot = {}) {
  verifier::Findings findings;
  const bool fine = check_cofunctional(before, after, pivot, full_profile(), findings);
  EXPECT_EQ(fine, findings.total() == 0);
  EXPECT_EQ(findings.total(), findings.count("VIDPN-19"));
  for (const verifier::Finding& finding : findings.all())
    EXPECT_EQ(finding.ddi, "DxgkDdiEnumVidPnCofuncModality");
  return findings.total();
}

TEST(Cofunctional, ThePivotAndPinnedSetsStay) {
  DXGKIT_COVERS("VIDPN-19");
  const Network before = two_paths();
  const Pivot pivot = {.kind = Pivot::Kind::kTarget, .target = kTargetB};
  EXPECT_EQ(cofunctional_findings(before, before, pivot), 0U);
  Network after = before;
  after.target_sets[kTargetB].modes.pop_back();
  EXPECT_EQ(cofunctional_findings(before, after), 0U);
  EXPECT_EQ(cofunctional_findings(before, after, pivot), 1U);
  // The target of a scaling pivot is no pivot itself.
  EXPECT_EQ(cofunctional_findings(before, after,
                                  {.kind = Pivot::Kind::kScaling, .source = 0, .target = kTargetB}),
            0U);
  after = before;
  after.source_sets[0].modes.pop_back();
  EXPECT_EQ(cofunctional_findings(
                before, after, {.kind = Pivot::Kind::kRotation, .source = 0, .target = kTargetB}),
            0U);
  EXPECT_EQ(cofunctional_findings(before, after, {.kind = Pivot::Kind::kSource, .source = 0}), 1U);
  EXPECT_EQ(cofunctional_findings(before, after, {.kind = Pivot::Kind::kSource, .source = 1}), 0U);

  // What a pinned set may become: the same modes in the same order with the same pin, whatever
  // their ids.
  Network pinned = before;
  pinned.target_sets[kTargetB].pinned = kTargetB + 2;
  const auto changed = [&](const auto& change) {
    Network network = pinned;
    change(network.target_sets[kTargetB]);
    return cofunctional_findings(pinned, network);
  };
  EXPECT_EQ(changed([](auto&) {}), 0U);
  EXPECT_EQ(changed([](auto& set) { set.modes[0].id = 1, set.modes[1].id = 2, set.pinned = 2; }),
            0U);
  EXPECT_EQ(changed([](auto& set) { set.pinned = set.modes[0].id; }), 1U);
  EXPECT_EQ(changed([](auto& set) { set.pinned.reset(); }), 1U);
  EXPECT_EQ(changed([](auto& set) { set.modes[0].signal.active.width = 1919; }), 1U);
  EXPECT_EQ(changed([](auto& set) { set.modes.push_back(set.modes[0]); }), 1U);
  EXPECT_EQ(changed([](auto& set) { std::swap(set.modes[0], set.modes[1]); }), 1U);
}

TEST(Cofunctional, OtherSetsHaveModesAndNoPin) {
  DXGKIT_COVERS("VIDPN-19");
  const Network before = two_paths();
  Network after = before;
  after.source_sets[0].pinned = 7;
  EXPECT_EQ(cofunctional_findings(before, after), 1U);
  after.target_sets[kTargetA].modes.clear();
  EXPECT_EQ(cofunctional_findings(before, after), 2U);
  // A pivot without a mode is as it was.
  Network empty = before;
  empty.source_sets[0].modes.clear();
  EXPECT_EQ(cofunctional_findings(empty, empty, {.kind = Pivot::Kind::kSource, .source = 0}), 0U);
  EXPECT_EQ(cofunctional_findings(empty, empty), 1U);
  // A set that left with its path is not asked for.
  after = before;
  after.target_sets.erase(kTargetB);
  EXPECT_EQ(cofunctional_findings(before, after), 0U);
}

}  // namespace
}  // namespace dxgkit::vidpn
