// The committed VidPN answers for its sources; a source without a path shows nothing.
#include "dxgk/display/active_vidpn.h"

#include <gtest/gtest.h>

namespace dxgkit::dxgk {
namespace {

/// Source 0 on targets 5 and 6, 800 x 600; source 1 has no path.
vidpn::Network clone() {
  vidpn::Network network;
  network.paths.push_back({.source = 0, .target = 5});
  network.paths.push_back({.source = 0, .target = 6});
  vidpn::SourceModeSet& set = network.source_sets[0];
  vidpn::SourceMode mode;
  mode.id = 1;
  mode.surface = {800, 600};
  set.modes.push_back(mode);
  set.pinned = mode.id;
  return network;
}

TEST(ActiveVidPn, ASourceIsShownOnItsTargetsTheFirstLeads) {
  ActiveVidPn active;
  EXPECT_EQ(active.post_target(), vidpn::kNoId);
  active.commit(clone());
  EXPECT_EQ(active.target_of(0), 5U);
  EXPECT_EQ(active.targets_of(0), (std::vector<uint32_t>{5, 6}));
  EXPECT_EQ(active.mode_of(0), (DisplayMode{800, 600}));
  EXPECT_EQ(active.post_target(), 5U);
  EXPECT_EQ(active.find_path(0, 6), &active.network().paths[1]);
}

TEST(ActiveVidPn, ASourceWithoutAPathShowsNothing) {
  ActiveVidPn active;
  active.commit(clone());
  EXPECT_EQ(active.target_of(1), std::nullopt);
  EXPECT_TRUE(active.targets_of(1).empty());
  EXPECT_EQ(active.mode_of(1), std::nullopt);
  EXPECT_FALSE(active.visible(1));
  EXPECT_EQ(active.find_path(1, 5), nullptr);
}

TEST(ActiveVidPn, VisibilityIsOfASourceAndEndsForAllAtOnce) {
  ActiveVidPn active;
  active.commit(clone());
  active.set_visible(0, true);
  active.set_visible(1, true);
  active.set_visible(1, false);
  EXPECT_TRUE(active.visible(0));
  EXPECT_FALSE(active.visible(1));
  active.hide_all();
  EXPECT_FALSE(active.visible(0));
}

}  // namespace
}  // namespace dxgkit::dxgk
