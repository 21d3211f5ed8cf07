// What the verifier asks of a display driver beyond mode sets: one DDI at a time, with calls that
// fail, and nothing of it changes what the kernel shows.
#include "dxgk/display_exercise.h"

#include <algorithm>
#include <cstring>

#include "tests/contract/display_fixture.h"
#include "vidpn/edid.h"

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

/// What the driver was asked of descriptors: whose, from where, how much.
struct DescriptorPart {
  ULONG child = 0, offset = 0, bytes = 0;
  bool operator==(const DescriptorPart&) const = default;
};
std::ostream& operator<<(std::ostream& out, const DescriptorPart& part) {
  return out << part.child << ": " << part.offset << ", " << part.bytes;
}
std::vector<DescriptorPart> parts_asked;
std::vector<std::byte> descriptor_there;

NTSTATUS NTAPI answer_descriptor(const PVOID, ULONG child, DXGK_DEVICE_DESCRIPTOR* args) {
  parts_asked.push_back({child, args->DescriptorOffset, args->DescriptorLength});
  if (child != 2) return STATUS_GRAPHICS_CHILD_DESCRIPTOR_NOT_SUPPORTED;
  if (args->DescriptorOffset >= descriptor_there.size())
    return STATUS_MONITOR_NO_MORE_DESCRIPTOR_DATA;
  const size_t bytes =
      std::min<size_t>(args->DescriptorLength, descriptor_there.size() - args->DescriptorOffset);
  std::memcpy(args->DescriptorBuffer, descriptor_there.data() + args->DescriptorOffset, bytes);
  return STATUS_SUCCESS;
}

// Each kind of part is asked for once: inside, to the end, over the end, behind it.
TEST_F(DisplayExerciseTest, ADescriptorIsAskedForInParts) {
  DXGKIT_COVERS("DOD-03");
  running(
      [](DisplayStack& stack) {
        Exercise exercise = on(stack);
        EXPECT_EQ(exercise.connected_targets(), (std::vector<uint32_t>{1, 2}));
        parts_asked.clear();
        EXPECT_EQ(exercise.ask_descriptor_parts(1), 0U) << "it has none";
        parts_asked.clear();
        EXPECT_EQ(exercise.ask_descriptor_parts(2), 9U);
        const std::vector<DescriptorPart> expected = {{2, 0, 1},     {2, 0, 64},   {2, 1, 127},
                                                      {2, 100, 28},  {2, 64, 128}, {2, 0, 256},
                                                      {2, 127, 128}, {2, 64, 65},  {2, 128, 128}};
        ASSERT_GE(parts_asked.size(), expected.size());
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                               parts_asked.end() - static_cast<ptrdiff_t>(expected.size())))
            << ::testing::PrintToString(parts_asked);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](DisplayStack& stack) {
        descriptor_there = vidpn::build_edid(vidpn::default_edid());
        ASSERT_EQ(descriptor_there.size(), 128U);
        stack.display.config.children = {{.uid = 1}, {.uid = 2}};
        stack.display.config.table = [](KMDDOD_INITIALIZATION_DATA& table) {
          table.DxgkDdiQueryDeviceDescriptor = answer_descriptor;
        };
      });
}

TEST_F(DisplayExerciseTest, ModesAreRecommendedForAMonitorThatIsThere) {
  DXGKIT_COVERS("VIDPN-34");
  running([](DisplayStack& stack) {
    Exercise exercise = on(stack);
    const size_t before = stack.display.count("DxgkDdiRecommendMonitorModes");
    const Exercise::Answer answer = exercise.recommend_monitor_modes(1);
    EXPECT_EQ(answer.status, Status::kSuccess);
    EXPECT_EQ(answer.failed, nullptr);
    EXPECT_EQ(stack.display.count("DxgkDdiRecommendMonitorModes"), before + 1);
    EXPECT_NE(exercise.recommend_monitor_modes(1, 1).failed, nullptr);
    EXPECT_EQ(exercise.recommend_monitor_modes(7).status, Status::kInvalidParameter);
    EXPECT_EQ(stack.display.count("DxgkDdiRecommendMonitorModes"), before + 2);
    EXPECT_EQ(exercise.fill_primary(0, 1), Status::kNotSupported) << "it has no primary";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What the verifier asks with each of these goes to the driver while the adapter runs, and never
// after a fatal failure.
TEST_F(DisplayExerciseTest, AnAdapterThatHasFailedIsAskedNothing) {
  running([](DisplayStack& stack) {
    Exercise exercise = on(stack);
    const vidpn::Network fresh = one_path(exercise);
    const vidpn::Path path = exercise.active().paths.at(0);
    stack.display.config.asynchronous = true;  // and no progress is reported
    EXPECT_EQ(stack.present(1), Status::kDeviceRemoved);
    EXPECT_EQ(stack.only_finding().rule, "DOD-01");
    stack.display.clear_calls();
    const std::vector<std::byte> pixels = DisplayStack::picture(64, 48, 5);
    EXPECT_EQ(exercise.is_supported(&fresh).status, Status::kDeviceRemoved);
    EXPECT_EQ(exercise.enumerate(fresh, {}).status, Status::kDeviceRemoved);
    EXPECT_EQ(exercise.recommend_monitor_modes(1).status, Status::kDeviceRemoved);
    EXPECT_EQ(exercise.commit_again(0, 0).status, Status::kDeviceRemoved);
    EXPECT_EQ(exercise.clear(), Status::kDeviceRemoved);
    EXPECT_EQ(exercise.clear_and_show(), Status::kDeviceRemoved);
    EXPECT_EQ(exercise.update_path(path), Status::kDeviceRemoved);
    EXPECT_EQ(exercise.set_visible(0, false), Status::kDeviceRemoved);
    EXPECT_EQ(exercise.descriptor(1).error(), Status::kDeviceRemoved);
    EXPECT_EQ(exercise.ask_descriptor_parts(1), 0U);
    EXPECT_EQ(exercise.fill_primary(0, 1), Status::kDeviceRemoved);
    EXPECT_EQ(exercise.present({.pixels = pixels, .pitch_bytes = 256}), Status::kDeviceRemoved);
    exercise.ask_other_interrupts();
    EXPECT_THAT(stack.display.calls().order, ::testing::IsEmpty());
    EXPECT_EQ(stack.rules().size(), 1U);
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
