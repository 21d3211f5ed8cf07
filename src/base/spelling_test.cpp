// Proves that a slip of the fingers finds its name, that other words find none, and that numbers
// agree with their nouns.
#include "base/spelling.h"

#include <gtest/gtest.h>

#include <array>

namespace dxgkit {
namespace {

TEST(Spelling, CountsSingleChanges) {
  EXPECT_EQ(spelling_distance("verify", "verify"), 0u);
  EXPECT_EQ(spelling_distance("VERIFY", "verify"), 0u);
  EXPECT_EQ(spelling_distance("verfy", "verify"), 1u);    // one too few
  EXPECT_EQ(spelling_distance("vverify", "verify"), 1u);  // one too many
  EXPECT_EQ(spelling_distance("berify", "verify"), 1u);   // a wrong one
  EXPECT_EQ(spelling_distance("evrify", "verify"), 1u);   // two exchanged
  EXPECT_EQ(spelling_distance("", "sim"), 3u);
  EXPECT_EQ(spelling_distance("sim", ""), 3u);
}

TEST(Spelling, SuggestsTheNearestNameOrNone) {
  constexpr std::array<std::string_view, 4> kNames = {"run", "rules", "framebuffer", "softgpu"};
  EXPECT_EQ(did_you_mean("softpgu", kNames), "; did you mean softgpu?");
  EXPECT_EQ(did_you_mean("rule", kNames), "; did you mean rules?");
  EXPECT_EQ(did_you_mean("frame", kNames), "; did you mean framebuffer?");  // its beginning
  EXPECT_EQ(did_you_mean("aquarium", kNames), "");
  EXPECT_EQ(did_you_mean("x", kNames), "");
  EXPECT_EQ(did_you_mean("", kNames), "");
  EXPECT_EQ(did_you_mean("x", std::span<const std::string_view>()), "");
}

TEST(Spelling, NumbersAgreeWithNouns) {
  EXPECT_EQ(counted(0, "node"), "0 nodes");
  EXPECT_EQ(counted(1, "node"), "1 node");
  EXPECT_EQ(counted(2, "node"), "2 nodes");
  EXPECT_EQ(counted(1, "entry", "entries"), "1 entry");
  EXPECT_EQ(counted(UINT64_MAX, "entry", "entries"), "18446744073709551615 entries");
}

}  // namespace
}  // namespace dxgkit
