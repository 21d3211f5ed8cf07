#include "tools/dxgkit/fuzz/fuzz_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace dxgkit::tool::fuzz {
namespace {

TEST(FuzzPlan, ReadsBackWhatItWrites) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    FuzzPlan plan = FuzzPlan::draw(seed, 40);
    plan.steps.erase(plan.steps.begin() + 7);
    const auto again = parse_reproducer("# why\n" + to_text({plan, {}}) + "# the end");
    ASSERT_TRUE(again.has_value()) << again.error();
    EXPECT_EQ(again->plan, plan);
    EXPECT_EQ(again->around, Surroundings{});
  }
  EXPECT_EQ(FuzzPlan::draw(3, 40), FuzzPlan::draw(3, 40));
}

TEST(FuzzPlan, KeepsTheOptionsOfTheRun) {
  const Reproducer whole{.plan = FuzzPlan::draw(3, 20),
                         .around = {.device = "./my gpu.so,size=4,note=#1",
                                    .client = "a client#2.so",
                                    .registry = "# values\n[service]\n\nMutant = \"a # b\"\n",
                                    .special_pool = true,
                                    .memory_bytes = 1 << 20,
                                    .vram_bytes = 4096}};
  const std::string text = to_text(whole);
  const auto again = parse_reproducer(text);
  ASSERT_TRUE(again.has_value()) << again.error();
  EXPECT_EQ(*again, whole);
  // Version 1 knew the plan alone.
  const auto old = parse_reproducer("dxgkit-fuzz 1\nseed 7\nsteps 1 2\nlate-interrupts 9\n");
  ASSERT_TRUE(old.has_value()) << old.error();
  EXPECT_EQ(old->plan, (FuzzPlan{.seed = 7, .steps = {1, 2}, .faults = {.late_interrupts = 9}}));
  EXPECT_EQ(old->around, Surroundings{});
  EXPECT_EQ(parse_reproducer("dxgkit-fuzz 1\nseed 1\nvram 4096\n").error(),
            "line 3: 'vram' is unknown");
}

TEST(FuzzPlan, SaysWhatIsWrongWithAText) {
  const auto error = [](std::string_view text) { return parse_reproducer(text).error(); };
  EXPECT_EQ(error("steps 1"), "line 1: it begins with 'dxgkit-fuzz 2'");
  EXPECT_EQ(error("dxgkit-fuzz 3\nseed 1\n"), "line 1: it begins with 'dxgkit-fuzz 2'");
  EXPECT_EQ(error("dxgkit-fuzz 2\nseed 1\nvram x\n"),
            "line 3: vram is a number of bytes up to 68719476736, not 'x'");
  EXPECT_EQ(error("dxgkit-fuzz 2\nspecial-pool 1\n"), "line 2: special-pool stands alone");
  EXPECT_EQ(error("dxgkit-fuzz 1\nsteps 1\n"), "line 1: there is no seed");
  EXPECT_EQ(error("dxgkit-fuzz 1\nseed x\n"), "line 2: 'x' is not a seed");
  EXPECT_EQ(error("dxgkit-fuzz 1\nseed 1 2\n"), "line 2: seed takes one number");
  EXPECT_EQ(error("dxgkit-fuzz 1\nseed 1\nsteps 4 4\n"),
            "line 3: step 4 is not above the one before");
  EXPECT_EQ(error("dxgkit-fuzz 1\nseed 1\nsteps 100000\n"),
            "line 3: '100000' is not a step below 100000");
  EXPECT_EQ(error("dxgkit-fuzz 1\nseed 1\nlost-interrupts 1000001"),
            "line 3: lost-interrupts is a number up to 1000000, not '1000001'");
  EXPECT_EQ(error("dxgkit-fuzz 1\nseed 1\nsurprise 1"), "line 3: 'surprise' is unknown");
  EXPECT_EQ(error("dxgkit-fuzz 1\nseed 18446744073709551616"),
            "line 2: '18446744073709551616' is not a seed");
}

TEST(FuzzPlan, MinimisesToTheStepsThatMatter) {
  FuzzPlan plan = FuzzPlan::draw(1, 200);
  plan.faults = {.lost_interrupts = 5, .late_interrupts = 7, .hang_at = {3, 0}};
  const auto has = [](const FuzzPlan& one, uint32_t step) {
    return std::ranges::binary_search(one.steps, step);
  };
  const auto still = [&](const FuzzPlan& one) {
    return has(one, 17) && has(one, 18) && has(one, 150) && one.faults.hang_at[0] != 0;
  };
  const Minimised least = minimise(plan, still, 10'000);
  EXPECT_EQ(least.plan.steps, (std::vector<uint32_t>{17, 18, 150}));
  EXPECT_EQ(least.plan.faults, (DeviceFaults{.hang_at = {3, 0}}));
  EXPECT_LT(least.tries, 120U);
  // Patience is kept to, and what comes out still holds.
  const Minimised some = minimise(plan, still, 10);
  EXPECT_EQ(some.tries, 10U);
  EXPECT_TRUE(still(some.plan));
  // Nothing matters.
  EXPECT_TRUE(minimise(
                  plan, [](const FuzzPlan&) { return true; }, 1'000)
                  .plan.steps.empty());
}

}  // namespace
}  // namespace dxgkit::tool::fuzz
