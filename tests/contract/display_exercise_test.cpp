// What the verifier asks of a display driver beyond mode sets: one DDI at a time, with calls that
// fail, and nothing of it changes what the kernel shows.
#include "dxgk/display_exercise.h"

#include "tests/contract/display_fixture.h"

namespace dxgkit::contract {
namespace {

using Exercise = dxgk::DisplayExercise;

class DisplayExerciseTest : public DisplayTest {
 protected:
  static Exercise on(DisplayStack& stack) {
    return std::move(*Exercise::on(*stack.system, stack.luid));
  }
  static vidpn::Network one_path(const Exercise& exercise) {
    const vidpn::SourceTarget path{0, exercise.profile().targets.front()};
    return vidpn::constraining_network(exercise.profile(), std::span(&path, 1));
  }
};

TEST_F(DisplayExerciseTest, EachDdiIsCalledOnceWithWhatIsGiven) {
  DXGKIT_COVERS("VIDPN-32");
  running([](DisplayStack& stack) {
    Exercise exercise = on(stack);
    const Exercise::Answer nothing = exercise.is_supported(nullptr);
    EXPECT_EQ(nothing.status, Status::kSuccess);
    EXPECT_TRUE(nothing.supported);
    const vidpn::Network fresh = one_path(exercise);
    EXPECT_TRUE(exercise.is_supported(&fresh).supported);
    const size_t before = stack.display.calls().enumerations.size();
    const Exercise::Answer offered =
        exercise.enumerate(fresh, {vidpn::Pivot::Kind::kRotation, 0, 1});
    EXPECT_EQ(offered.status, Status::kSuccess);
    EXPECT_EQ(offered.failed, nullptr);
    EXPECT_FALSE(offered.network.source_sets.at(0).modes.empty());
    ASSERT_EQ(stack.display.calls().enumerations.size(), before + 1);
    const DXGKARG_ENUMVIDPNCOFUNCMODALITY asked = stack.display.calls().enumerations.back();
    EXPECT_EQ(asked.EnumPivotType, D3DKMDT_EPT_ROTATION);
    EXPECT_EQ(asked.EnumPivot.VidPnSourceId, 0U);
    EXPECT_EQ(asked.EnumPivot.VidPnTargetId, 1U);
    // A mode that nobody offered.
    vidpn::Network pinned = offered.network;
    vidpn::SourceMode& mode = pinned.source_sets.at(0).modes.front();
    mode.surface.width += 8;
    pinned.source_sets.at(0).pinned = mode.id;
    const Exercise::Answer other = exercise.is_supported(&pinned);
    EXPECT_EQ(other.status, Status::kSuccess);
    EXPECT_FALSE(other.supported);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayExerciseTest, AFunctionFailsByNumberAndTheDriverAnswersForIt) {
  DXGKIT_COVERS("VIDPN-34");
  running([](DisplayStack& stack) {
    Exercise exercise = on(stack);
    const vidpn::Network fresh = one_path(exercise);
    EXPECT_STREQ(exercise.enumerate(fresh, {}, 1).failed, "DxgkCbQueryVidPnInterface");
    EXPECT_STREQ(exercise.enumerate(fresh, {}, 2).failed, "pfnGetTopology");
    EXPECT_EQ(exercise.enumerate(fresh, {}, 2).status, Status::kNoMemory);
    EXPECT_STREQ(exercise.is_supported(&fresh, 2).failed, "pfnGetTopology");
    EXPECT_EQ(exercise.enumerate(fresh, {}, 1000).failed, nullptr);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayExerciseTest, ACommitThatFailsLeavesWhatIsShown) {
  DXGKIT_COVERS("VIDPN-34", "DOD-03");
  running([](DisplayStack& stack) {
    Exercise exercise = on(stack);
    ASSERT_EQ(stack.present(3), Status::kSuccess);
    const Exercise::Answer answer = exercise.commit_again(0, 1);
    EXPECT_EQ(answer.status, Status::kNoMemory);
    EXPECT_STREQ(answer.failed, "DxgkCbQueryVidPnInterface");
    EXPECT_TRUE(stack.visible());
    EXPECT_EQ(stack.mode(), (dxgk::DisplayMode{64, 48}));
    EXPECT_EQ(stack.present(4), Status::kSuccess);
    EXPECT_EQ(exercise.commit_again(0, 0).status, Status::kSuccess);
    EXPECT_EQ(exercise.commit_again(7, 0).status, Status::kInvalidParameter);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayExerciseTest, WhatIsHiddenCanBePresented) {
  DXGKIT_COVERS("DOD-11");
  running([](DisplayStack& stack) {
    Exercise exercise = on(stack);
    ASSERT_EQ(exercise.set_visible(0, false), Status::kSuccess);
    EXPECT_FALSE(exercise.visible(0));
    EXPECT_EQ(stack.present(5), Status{0xC01E0006});  // PRESENT_OCCLUDED, without the driver
    const std::vector<std::byte> pixels = DisplayStack::picture(64, 48, 5);
    EXPECT_EQ(exercise.present({.pixels = pixels, .pitch_bytes = 256}), Status::kSuccess);
    EXPECT_EQ(stack.display.calls().count("DxgkDdiPresentDisplayOnly"), 1U);
    ASSERT_EQ(exercise.set_visible(0, true), Status::kSuccess);
    EXPECT_EQ(exercise.clear_and_show(), Status::kSuccess);
    EXPECT_TRUE(stack.visible());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayExerciseTest, NoAdapterNoExercise) {
  bare([](DisplayStack& stack) {
    ASSERT_EQ(stack.start(), Status::kSuccess);
    EXPECT_TRUE(Exercise::on(*stack.system, stack.luid).has_value());
    stack.stop();
    const Result<Exercise> none = Exercise::on(*stack.system, stack.luid);
    ASSERT_FALSE(none.has_value());
    EXPECT_EQ(none.error(), Status::kInvalidParameter);
  });
}

}  // namespace
}  // namespace dxgkit::contract
