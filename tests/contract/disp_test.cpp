// Display-only adapters: start, modes, presents, plugging, power, and the screen they leave.
#include <cstring>

#include "dxgk/adapter/adapter.h"
#include "dxgk/system_impl.h"
#include "dxgk/work/device.h"
#include "dxgkit/abi_versions.h"
#include "tests/contract/display_fixture.h"
#include "vidpn/edid.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr const char* kStartOrder[] = {
    "DriverEntry",
    "DxgkDdiAddDevice",
    "DxgkDdiStartDevice",
    "DxgkDdiQueryChildRelations",
    "DxgkDdiQueryAdapterInfo",
    "DxgkDdiQueryChildStatus",
    "DxgkDdiQueryDeviceDescriptor",
    "DxgkDdiRecommendMonitorModes",
    "DxgkDdiRecommendFunctionalVidPn",
    "DxgkDdiIsSupportedVidPn",
    "DxgkDdiEnumVidPnCofuncModality",
    "DxgkDdiEnumVidPnCofuncModality",
    "DxgkDdiEnumVidPnCofuncModality",
    "DxgkDdiIsSupportedVidPn",
    "DxgkDdiQueryVidPnHWCapability",
    "DxgkDdiCommitVidPn",
    "DxgkDdiSetVidPnSourceVisibility",
};

/// The order up to and without the first call of `ddi`.
std::vector<std::string> order_before(const char* ddi) {
  std::vector<std::string> order;
  for (const char* name : kStartOrder) {
    if (std::string_view(name) == ddi) break;
    order.emplace_back(name);
  }
  return order;
}

TEST_F(DisplayTest, StartAsksInOrderAndShowsTheModeFirmwareSet) {
  DXGKIT_COVERS("DOD-09", "DOD-05", "LIFE-05");
  running([](DisplayStack& stack) {
    const DisplayCalls calls = stack.display.calls();
    EXPECT_THAT(calls.order, ElementsAreArray(kStartOrder));
    ASSERT_EQ(calls.enumerations.size(), 3U);
    EXPECT_EQ(calls.enumerations[0].EnumPivotType, D3DKMDT_EPT_NOPIVOT);
    EXPECT_EQ(calls.enumerations[1].EnumPivotType, D3DKMDT_EPT_VIDPNSOURCE);
    EXPECT_EQ(calls.enumerations[1].EnumPivot.VidPnSourceId, 0U);
    EXPECT_EQ(calls.enumerations[2].EnumPivotType, D3DKMDT_EPT_VIDPNTARGET);
    EXPECT_EQ(calls.enumerations[2].EnumPivot.VidPnTargetId, 1U);
    ASSERT_EQ(calls.commits.size(), 1U);
    EXPECT_EQ(calls.commits[0].AffectedVidPnSourceId, 0U);
    EXPECT_EQ(calls.commits[0].hPrimaryAllocation, nullptr);
    EXPECT_EQ(calls.shown[0].width, 64U);
    EXPECT_EQ(calls.shown[0].height, 48U);
    EXPECT_EQ(calls.shown[0].target, 1U);
    ASSERT_EQ(calls.visibilities.size(), 1U);
    EXPECT_EQ(calls.visibilities[0].Visible, TRUE);
    EXPECT_EQ(stack.mode(), (dxgk::DisplayMode{64, 48}));
    EXPECT_TRUE(stack.visible());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayTest, TheDriverLearnsWhereFirmwareLeftThePicture) {
  DXGKIT_COVERS("DOD-09");
  running([](DisplayStack& stack) {
    const DXGK_DISPLAY_INFORMATION post = stack.display.calls().post;
    EXPECT_EQ(post.Width, 64U);
    EXPECT_EQ(post.Height, 48U);
    EXPECT_EQ(post.Pitch, 320U);
    EXPECT_EQ(post.ColorFormat, D3DDDIFMT_X8R8G8B8);
    EXPECT_EQ(static_cast<uint64_t>(post.PhysicAddress.QuadPart),
              stack.display.function().bars()[0].base.value);
    EXPECT_EQ(post.TargetId, D3DDDI_ID_UNINITIALIZED);
  });
}

struct CapsVersion {
  const char* sentence;
  uint32_t version, bytes;
};
class DisplayCapsSize : public DisplayTest, public ::testing::WithParamInterface<CapsVersion> {};
TEST_P(DisplayCapsSize, IsThatOfTheDeclaredVersion) {
  DXGKIT_COVERS("CAPS-01", "CAPS-10", "DOD-09");
  running(
      [](DisplayStack& stack) {
        const DisplayCalls calls = stack.display.calls();
        const auto caps = std::ranges::find(calls.queries, DXGKQAITYPE_DRIVERCAPS,
                                            &DXGKARG_QUERYADAPTERINFO::Type);
        ASSERT_NE(caps, calls.queries.end());
        EXPECT_EQ(caps->OutputDataSize, GetParam().bytes);
        const bool extended =
            std::ranges::any_of(calls.queries, [](const DXGKARG_QUERYADAPTERINFO& one) {
              return one.Type == DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION;
            });
        EXPECT_EQ(extended, GetParam().version >= DXGKDDI_INTERFACE_VERSION_WDDM2_0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](DisplayStack& stack) { stack.display.config.version = GetParam().version; });
}
const CapsVersion kCapsVersions[] = {
    {"Win8", 0x300E, abi::record_size("DXGK_DRIVERCAPS", 0x300E)},
    {"Wddm13", 0x4002, 552},
    {"Wddm20", 0x5023, 576},
    {"Wddm26", 0xB004, 584},
};
INSTANTIATE_TEST_SUITE_P(Rows, DisplayCapsSize, ::testing::ValuesIn(kCapsVersions),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(DisplayTest, APresentReachesTheScreenWithItsRectanglesOnly) {
  DXGKIT_COVERS("DOD-04", "DOD-02");
  in_both([](DisplayStack& stack) {
    framebuffer::FrameBuffer& screen = stack.display.screen();
    ASSERT_EQ(stack.present(0), Status::kSuccess);
    EXPECT_EQ(screen.pixel(0, 0), 0x000000U);
    EXPECT_EQ(screen.pixel(63, 47), 0x002F3FU);
    ASSERT_EQ(stack.present(1, {{2, 3, 5, 7}}, {{0, 0, {10, 10, 12, 12}}}), Status::kSuccess);
    EXPECT_EQ(screen.pixel(2, 3), 0x010302U);
    EXPECT_EQ(screen.pixel(4, 6), 0x010604U);
    EXPECT_EQ(screen.pixel(5, 6), 0x000605U) << "right is exclusive";
    EXPECT_EQ(screen.pixel(4, 7), 0x000704U) << "bottom is exclusive";
    EXPECT_EQ(screen.pixel(11, 11), 0x010B0BU) << "the move's destination";
    EXPECT_EQ(screen.pixel(12, 11), 0x000B0CU);
    const DisplayCalls calls = stack.display.calls();
    ASSERT_EQ(calls.presents.size(), 2U);
    const DXGKARG_PRESENT_DISPLAYONLY& whole = calls.presents[0].args;
    EXPECT_EQ(whole.BytesPerPixel, 4U);
    EXPECT_EQ(whole.Pitch, 256);
    EXPECT_EQ(whole.Flags.Value, 0U);
    EXPECT_EQ(whole.NumMoves, 0U);
    EXPECT_EQ(whole.pMoves, nullptr);
    EXPECT_EQ(whole.NumDirtyRects, 1U);
    EXPECT_EQ(whole.pfnPresentDisplayOnlyProgress, nullptr);
    EXPECT_NE(stack.machine.physical_of(whole.pSource).value, 0U) << "kernel memory";
    EXPECT_EQ(calls.presents[1].args.NumMoves, 1U);
    EXPECT_EQ(calls.presents[1].args.NumDirtyRects, 1U);
    const auto scanout = stack.displays.scanout(stack.luid, 0);
    ASSERT_TRUE(scanout.has_value());
    EXPECT_EQ(scanout->width, 64U);
    EXPECT_EQ(scanout->pixels, screen.screen().pixels);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

struct BadPresent {
  const char* sentence;
  std::vector<port::Rect> dirty;
  std::vector<port::MoveRect> moves;
  uint32_t source = 0, pitch = 256;
  size_t bytes = 256 * 48;
};
class DisplayBadPresent : public DisplayTest, public ::testing::WithParamInterface<BadPresent> {};
TEST_P(DisplayBadPresent, IsRefusedAndTheDriverHearsNothing) {
  DXGKIT_COVERS("DOD-04");
  running([](DisplayStack& stack) {
    const std::vector<std::byte> pixels(GetParam().bytes);
    EXPECT_EQ(stack.displays.present(stack.luid, {.source = GetParam().source,
                                                  .pixels = pixels,
                                                  .pitch_bytes = GetParam().pitch,
                                                  .moves = GetParam().moves,
                                                  .dirty = GetParam().dirty}),
              Status::kInvalidParameter);
    EXPECT_EQ(stack.display.count("DxgkDdiPresentDisplayOnly"), 0U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}
constexpr int32_t kFar = INT32_MAX;
const BadPresent kBadPresents[] = {
    {"NoSuchSource", {}, {}, 1},
    {"PitchTooSmall", {}, {}, 0, 255},
    {"TooFewBytes", {}, {}, 0, 256, 256 * 48 - 1},
    {"LeftOutside", {{-1, 0, 1, 1}}, {}},
    {"TopOutside", {{0, -1, 1, 1}}, {}},
    {"RightOutside", {{0, 0, 65, 1}}, {}},
    {"BottomOutside", {{0, 0, 1, 49}}, {}},
    {"Empty", {{5, 5, 5, 6}}, {}},
    {"InsideOut", {{5, 5, 4, 6}}, {}},
    {"Huge", {{0, 0, kFar, kFar}}, {}},
    {"MoveToOutside", {}, {{0, 0, {60, 0, 65, 1}}}},
    {"MoveFromOutside", {}, {{63, 0, {0, 0, 2, 1}}}},
    {"MoveFromNegative", {}, {{-1, 0, {0, 0, 2, 1}}}},
    {"MoveFromFar", {}, {{kFar, kFar, {0, 0, 2, 1}}}},
};
INSTANTIATE_TEST_SUITE_P(Rows, DisplayBadPresent, ::testing::ValuesIn(kBadPresents),
                         [](const auto& row) { return std::string(row.param.sentence); });

/// Presents on a thread of its own, as an application would, while the test is the hardware.
class Presenter {
 public:
  Presenter(DisplayStack& stack, uint32_t seed)
      : thread_(runtime::Runtime::current().spawn("presenter", [this, &stack, seed] {
          status_ = stack.present(seed);
          done_.store(true, std::memory_order_release);
        })) {}
  bool done() const { return done_.load(std::memory_order_acquire); }
  Status join() {
    thread_->join();
    return status_;
  }

 private:
  Status status_ = Status::kPending;
  std::atomic<bool> done_{false};  // release/acquire: publishes status_
  std::unique_ptr<runtime::Thread> thread_;
};

void wait_for_pending(DisplayStack& stack) {
  while (stack.display.pending_presents() == 0)
    runtime::Runtime::current().sleep_for(runtime::kMicrosecond);
}

TEST_F(DisplayTest, APendingPresentEndsWithItsProgressInterrupt) {
  DXGKIT_COVERS("DOD-01", "DOD-02");
  in_both(
      [](DisplayStack& stack) {
        for (uint32_t seed = 1; seed <= 3; ++seed) {
          Presenter presenter(stack, seed);
          wait_for_pending(stack);
          for (int i = 0; i < 50; ++i) runtime::Runtime::current().sleep_for(runtime::kMicrosecond);
          EXPECT_FALSE(presenter.done()) << "nothing was reported yet";
          stack.display.finish_present();
          EXPECT_EQ(presenter.join(), Status::kSuccess);
          EXPECT_EQ(stack.display.screen().pixel(3, 2), seed << 16 | 0x0203U);
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](DisplayStack& stack) { stack.display.config.asynchronous = true; });
}

TEST_F(DisplayTest, ProgressMayComeBeforeThePendingAnswer) {
  DXGKIT_COVERS("DOD-02");
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    running(
        [](DisplayStack& stack) {
          Presenter presenter(stack, 7);
          wait_for_pending(stack);
          stack.display.finish_present();
          EXPECT_EQ(presenter.join(), Status::kSuccess);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [](DisplayStack& stack) { stack.display.config.asynchronous = true; }, seed);
  }
}

TEST_F(DisplayTest, AFailedProgressIsTheDriversFailure) {
  DXGKIT_COVERS("DOD-03");
  running(
      [](DisplayStack& stack) {
        Presenter presenter(stack, 1);
        wait_for_pending(stack);
        stack.display.finish_present(/*failed=*/true);
        EXPECT_EQ(presenter.join(), Status::kUnsuccessful);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"DOD-03"});
      },
      [](DisplayStack& stack) { stack.display.config.asynchronous = true; });
}

TEST_F(DisplayTest, APresentMayFailForWantOfMemoryOnly) {
  DXGKIT_COVERS("DOD-03");
  const std::pair<NTSTATUS, bool> rows[] = {{STATUS_NO_MEMORY, true},
                                            {STATUS_INSUFFICIENT_RESOURCES, true},
                                            {STATUS_INVALID_PARAMETER, false}};
  for (const auto& [answer, may] : rows) {
    SCOPED_TRACE(answer);
    running([&, answer = answer, may = may](DisplayStack& stack) {
      ASSERT_EQ(stack.present(1), Status::kSuccess);
      stack.display.answers["DxgkDdiPresentDisplayOnly"] = answer;
      EXPECT_EQ(nt_status(stack.present(2)), answer);
      EXPECT_EQ(stack.rules(),
                may ? std::vector<std::string>{} : std::vector<std::string>{"DOD-03"});
      EXPECT_EQ(stack.display.screen().pixel(3, 2), 1U << 16 | 0x0203U) << "what was there before";
    });
  }
}

TEST_F(DisplayTest, APendingPresentWithoutProgressStopsTheAdapter) {
  DXGKIT_COVERS("DOD-01");
  running(
      [](DisplayStack& stack) {
        EXPECT_EQ(stack.present(1), Status::kDeviceRemoved);
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.rule, "DOD-01");
        EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
        EXPECT_EQ(finding.bugcheck_code, 0x116U);
        EXPECT_THAT(finding.actual, ::testing::HasSubstr("STATUS_PENDING"));
        EXPECT_THAT(finding.actual, ::testing::HasSubstr("2000 ms"));
        EXPECT_EQ(stack.present(2), Status::kDeviceRemoved);
        EXPECT_EQ(stack.display.count("DxgkDdiPresentDisplayOnly"), 1U);
      },
      [](DisplayStack& stack) { stack.display.config.asynchronous = true; });
}

DXGKARGCB_NOTIFY_INTERRUPT_DATA progress_of(uint32_t source) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
  data.InterruptType = DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS;
  data.DisplayOnlyPresentProgress.VidPnSourceId = source;
  return data;
}

/// Virtual time enough for an interrupt to be acted on.
void let_reports_arrive() { runtime::Runtime::current().sleep_for(10 * runtime::kMillisecond); }

TEST_F(DisplayTest, APresentThatSucceedsAndIsReportedToo) {
  DXGKIT_COVERS("DOD-02");
  running([](DisplayStack& stack) {
    stack.display.hooks["DxgkDdiPresentDisplayOnly"] = [&] {
      stack.display.interrupt(progress_of(0));
      let_reports_arrive();
    };
    EXPECT_EQ(stack.present(1), Status::kSuccess);
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "DOD-02");
    EXPECT_EQ(finding.ddi, "DxgkDdiPresentDisplayOnly");
    stack.display.hooks.clear();
    EXPECT_EQ(stack.present(2), Status::kSuccess) << "the adapter goes on";
    EXPECT_EQ(stack.rules().size(), 1U);
  });
}

TEST_F(DisplayTest, ProgressOfNothingIsAViolation) {
  DXGKIT_COVERS("DOD-02");
  running([](DisplayStack& stack) {
    stack.display.interrupt(progress_of(0));
    let_reports_arrive();
    EXPECT_EQ(stack.only_finding().rule, "DOD-02");
    EXPECT_EQ(stack.present(1), Status::kSuccess) << "the adapter goes on";
  });
}

TEST_F(DisplayTest, ADisplayOnlyDriverHasNoNodesToReportFor) {
  DXGKIT_COVERS("CAPS-09");
  running([](DisplayStack& stack) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
    data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
    stack.display.interrupt(data);
    let_reports_arrive();
    EXPECT_EQ(stack.only_finding().rule, "CAPS-09");
    EXPECT_EQ(stack.present(1), Status::kSuccess);
  });
}

struct FailingDdi {
  const char* ddi;
  NTSTATUS status;
  bool starts;  // the adapter runs on, dark
  const char* rule;
  std::vector<std::string> after;  // calls that follow
};
class DisplayFailingDdi : public DisplayTest, public ::testing::WithParamInterface<FailingDdi> {};
TEST_P(DisplayFailingDdi, IsUnwoundAndToldOnce) {
  DXGKIT_COVERS("DOD-03", "LIFE-11", "LIFE-12");
  bare([](DisplayStack& stack) {
    const FailingDdi& row = GetParam();
    stack.display.answers[row.ddi] = row.status;
    const Status started = stack.start();
    EXPECT_EQ(is_success(started), row.starts);
    if (!row.starts) {
      EXPECT_EQ(to_ntstatus(started), row.status);
    }
    std::vector<std::string> expected = order_before(row.ddi);
    expected.emplace_back(row.ddi);
    expected.insert(expected.end(), row.after.begin(), row.after.end());
    EXPECT_THAT(stack.display.calls().order, ElementsAreArray(expected));
    EXPECT_EQ(stack.only_finding().rule, row.rule);
    EXPECT_EQ(stack.only_finding().ddi.substr(0, std::strlen(row.ddi)), row.ddi);
    if (!row.starts) {
      EXPECT_TRUE(stack.system->adapters().empty());
      return;
    }
    EXPECT_FALSE(stack.visible());
    EXPECT_FALSE(is_success(stack.displays.present(stack.luid, {})));
    EXPECT_EQ(stack.display.count("DxgkDdiPresentDisplayOnly"), 0U);
  });
}
const FailingDdi kFailingDdis[] = {
    {"DxgkDdiAddDevice", STATUS_NO_MEMORY, false, "LIFE-07", {}},
    {"DxgkDdiStartDevice", STATUS_NO_MEMORY, false, "LIFE-11", {"DxgkDdiRemoveDevice"}},
    {"DxgkDdiQueryChildRelations",
     STATUS_NO_MEMORY,
     false,
     "LIFE-12",
     {"DxgkDdiStopDevice", "DxgkDdiRemoveDevice"}},
    {"DxgkDdiQueryAdapterInfo",
     STATUS_NO_MEMORY,
     false,
     "LIFE-12",
     {"DxgkDdiStopDevice", "DxgkDdiRemoveDevice"}},
    {"DxgkDdiQueryChildStatus", STATUS_NO_MEMORY, true, "DOD-03", {}},
    {"DxgkDdiCommitVidPn", STATUS_NO_MEMORY, true, "DOD-03", {}},
    {"DxgkDdiQueryVidPnHWCapability", STATUS_NO_MEMORY, true, "DOD-03", {}},
    {"DxgkDdiSetVidPnSourceVisibility", STATUS_NO_MEMORY, true, "DOD-03", {}},
    {"DxgkDdiEnumVidPnCofuncModality", STATUS_NO_MEMORY, true, "DOD-03", {}},
    {"DxgkDdiIsSupportedVidPn", STATUS_NO_MEMORY, true, "DOD-03", {}},
};
INSTANTIATE_TEST_SUITE_P(Rows, DisplayFailingDdi, ::testing::ValuesIn(kFailingDdis),
                         [](const auto& row) { return std::string(row.param.ddi + 7); });

// Who starts a driver with less than it needs does not hear of its lack of memory.
TEST_F(DisplayTest, AStartThatMayFailIsNotBlamedForItsLackOfMemory) {
  DXGKIT_COVERS("DOD-03");
  for (const bool may : {false, true}) {
    for (const NTSTATUS answer :
         {STATUS_NO_MEMORY, STATUS_INSUFFICIENT_RESOURCES, STATUS_UNSUCCESSFUL}) {
      SCOPED_TRACE(::testing::Message() << may << " " << answer);
      bare([&](DisplayStack& stack) {
        stack.options.may_fail_to_start = may;
        stack.display.answers["DxgkDdiCommitVidPn"] = answer;
        EXPECT_EQ(stack.start(), Status::kSuccess) << "it runs on, dark";
        EXPECT_FALSE(stack.visible());
        const bool excused = may && answer != STATUS_UNSUCCESSFUL;
        EXPECT_EQ(stack.rules(),
                  excused ? std::vector<std::string>{} : std::vector<std::string>{"DOD-03"});
      });
    }
  }
}

TEST_F(DisplayTest, WhatHasNoOpinionDoesNoHarm) {
  DXGKIT_COVERS("DOD-05", "DOD-09");
  for (const char* ddi : {"DxgkDdiQueryDeviceDescriptor", "DxgkDdiRecommendFunctionalVidPn"}) {
    running(
        [](DisplayStack& stack) {
          EXPECT_EQ(stack.mode(), (dxgk::DisplayMode{64, 48}));
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](DisplayStack& stack) { stack.display.answers[ddi] = STATUS_NOT_SUPPORTED; });
  }
}

TEST_F(DisplayTest, AFailingPresentIsToldAndTheNextOneWorks) {
  DXGKIT_COVERS("DOD-03");
  running([](DisplayStack& stack) {
    stack.display.answers["DxgkDdiPresentDisplayOnly"] = STATUS_UNSUCCESSFUL;
    EXPECT_EQ(stack.present(1), Status::kUnsuccessful);
    EXPECT_EQ(stack.only_finding().rule, "DOD-03");
    stack.display.answers.clear();
    EXPECT_EQ(stack.present(2), Status::kSuccess);
    EXPECT_EQ(stack.display.screen().pixel(0, 0), 0x020000U);
  });
}

TEST_F(DisplayTest, AModeIsSetWhileTheSourceIsInvisible) {
  DXGKIT_COVERS("DOD-05");
  running([](DisplayStack& stack) {
    const auto configuration = stack.displays.configuration(stack.luid);
    ASSERT_TRUE(configuration.has_value());
    EXPECT_THAT(configuration->sources[0].modes,
                ElementsAre(dxgk::DisplayMode{64, 48}, dxgk::DisplayMode{32, 32}));
    stack.display.clear_calls();
    EXPECT_EQ(stack.displays.set_mode(stack.luid, 0, {32, 32}), Status::kSuccess);
    const DisplayCalls calls = stack.display.calls();
    EXPECT_THAT(calls.order,
                ElementsAre("DxgkDdiIsSupportedVidPn", "DxgkDdiEnumVidPnCofuncModality",
                            "DxgkDdiEnumVidPnCofuncModality", "DxgkDdiEnumVidPnCofuncModality",
                            "DxgkDdiIsSupportedVidPn", "DxgkDdiQueryVidPnHWCapability",
                            "DxgkDdiSetVidPnSourceVisibility", "DxgkDdiCommitVidPn",
                            "DxgkDdiSetVidPnSourceVisibility"));
    EXPECT_EQ(calls.visibilities[0].Visible, FALSE);
    EXPECT_EQ(calls.visibilities[1].Visible, TRUE);
    EXPECT_EQ(calls.shown[0].width, 32U);
    EXPECT_EQ(stack.mode(), (dxgk::DisplayMode{32, 32}));
    ASSERT_EQ(stack.present(1), Status::kSuccess);
    EXPECT_EQ(stack.display.calls().presents[0].args.Pitch, 128);
    EXPECT_EQ(stack.displays.set_mode(stack.luid, 0, {32, 32}), Status::kSuccess);
    EXPECT_EQ(stack.display.count("DxgkDdiCommitVidPn"), 1U) << "it is that already";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayTest, AModeTheDriverDoesNotOfferIsRefused) {
  DXGKIT_COVERS("DOD-05");
  running([](DisplayStack& stack) {
    EXPECT_EQ(stack.displays.set_mode(stack.luid, 0, {33, 32}), vidpn::kInvalidSourceMode);
    EXPECT_EQ(stack.displays.set_mode(stack.luid, 1, {32, 32}), Status::kInvalidParameter);
    EXPECT_EQ(stack.mode(), (dxgk::DisplayMode{64, 48}));
    EXPECT_TRUE(stack.visible());
    EXPECT_EQ(stack.display.count("DxgkDdiCommitVidPn"), 1U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayTest, AFailingModeSetLeavesWhatWasShown) {
  DXGKIT_COVERS("DOD-03");
  running([](DisplayStack& stack) {
    ASSERT_EQ(stack.present(1), Status::kSuccess);
    stack.display.answers["DxgkDdiCommitVidPn"] = STATUS_NO_MEMORY;
    EXPECT_EQ(stack.displays.set_mode(stack.luid, 0, {32, 32}), Status::kNoMemory);
    EXPECT_EQ(stack.only_finding().rule, "DOD-03");
    EXPECT_EQ(stack.mode(), (dxgk::DisplayMode{64, 48}));
    EXPECT_TRUE(stack.visible()) << "made visible again";
    stack.display.answers.clear();
    EXPECT_EQ(stack.present(2), Status::kSuccess);
    EXPECT_EQ(stack.display.screen().pixel(63, 47), 0x022F3FU);
    EXPECT_EQ(stack.displays.set_mode(stack.luid, 0, {32, 32}), Status::kSuccess);
  });
}

TEST_F(DisplayTest, PluggingInReadsTheMonitorAndShows) {
  DXGKIT_COVERS("DOD-06");
  in_both(
      [](DisplayStack& stack) {
        EXPECT_EQ(stack.mode(), dxgk::DisplayMode{});
        EXPECT_EQ(stack.display.count("DxgkDdiCommitVidPn"), 0U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "no monitor is no failure";
        stack.display.clear_calls();
        stack.display.plug(1, true);
        ASSERT_EQ(stack.displays.wait_for_hot_plug(stack.luid), Status::kSuccess);
        const std::vector<std::string> order = stack.display.calls().order;
        ASSERT_GE(order.size(), 3U);
        EXPECT_EQ(order[0], "DxgkDdiQueryDeviceDescriptor");
        EXPECT_EQ(order[1], "DxgkDdiRecommendMonitorModes");
        EXPECT_EQ(stack.mode(), (dxgk::DisplayMode{64, 48}));
        EXPECT_EQ(stack.present(1), Status::kSuccess);
        stack.display.clear_calls();
        stack.display.plug(1, false);
        ASSERT_EQ(stack.displays.wait_for_hot_plug(stack.luid), Status::kSuccess);
        EXPECT_THAT(stack.display.calls().order,
                    ElementsAre("DxgkDdiSetVidPnSourceVisibility", "DxgkDdiCommitVidPn"));
        EXPECT_EQ(stack.display.calls().shown[0].width, 0U);
        EXPECT_EQ(stack.mode(), dxgk::DisplayMode{});
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](DisplayStack& stack) { stack.display.config.children[0].connected = false; });
}

TEST_F(DisplayTest, AShownSourceStaysOnItsTargetWhenAnotherIsPlugged) {
  DXGKIT_COVERS("DOD-06");
  running(
      [](DisplayStack& stack) {
        EXPECT_EQ(stack.mode(0), (dxgk::DisplayMode{64, 48}));
        EXPECT_EQ(stack.mode(1), dxgk::DisplayMode{});
        stack.display.clear_calls();
        stack.display.plug(2, true);
        ASSERT_EQ(stack.displays.wait_for_hot_plug(stack.luid), Status::kSuccess);
        const auto configuration = stack.displays.configuration(stack.luid);
        EXPECT_EQ(configuration->sources[0].target, 5U);
        EXPECT_EQ(configuration->sources[1].target, 2U);
        const DisplayCalls calls = stack.display.calls();
        ASSERT_EQ(calls.commits.size(), 1U) << "the source that is shown is left alone";
        EXPECT_EQ(calls.commits[0].AffectedVidPnSourceId, 1U);
        ASSERT_EQ(calls.visibilities.size(), 1U);
        EXPECT_EQ(calls.visibilities[0].VidPnSourceId, 1U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](DisplayStack& stack) {
        stack.display.config.sources = 2;
        stack.display.config.children = {ScriptedChild{.uid = 2, .connected = false},
                                         ScriptedChild{.uid = 5}};
      });
}

TEST_F(DisplayTest, PluggingAStrangerIsAViolation) {
  DXGKIT_COVERS("CAPS-09");
  running([](DisplayStack& stack) {
    stack.display.plug(9, true);
    ASSERT_EQ(stack.displays.wait_for_hot_plug(stack.luid), Status::kSuccess);
    EXPECT_EQ(stack.only_finding().rule, "CAPS-09");
    EXPECT_TRUE(stack.visible());
  });
}

TEST_F(DisplayTest, AMonitorWithADescriptorIsKnownByIt) {
  DXGKIT_COVERS("DOD-06", "CAPS-08");
  running(
      [](DisplayStack& stack) {
        EXPECT_TRUE(stack.displays.configuration(stack.luid)->targets[0].has_descriptor);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](DisplayStack& stack) {
        stack.display.config.children[0].edid = vidpn::build_edid(vidpn::default_edid());
      });
  running(
      [](DisplayStack& stack) {
        EXPECT_FALSE(stack.displays.configuration(stack.luid)->targets[0].has_descriptor);
        EXPECT_EQ(stack.only_finding().rule, "CAPS-08");
        EXPECT_TRUE(stack.visible()) << "the default modes do";
      },
      [](DisplayStack& stack) {
        stack.display.config.children[0].edid = vidpn::build_edid(vidpn::default_edid());
        stack.display.config.children[0].edid[20] ^= std::byte{1};
      });
}

TEST_F(DisplayTest, ThePostDisplayIsLeftToWhoComesNext) {
  DXGKIT_COVERS("LIFE-19", "DOD-08");
  running([](DisplayStack& stack) {
    stack.display.clear_calls();
    stack.stop();
    EXPECT_THAT(
        stack.display.calls().order,
        ElementsAre("DxgkDdiStopDeviceAndReleasePostDisplayOwnership", "DxgkDdiRemoveDevice"));
    EXPECT_EQ(stack.display.calls().released_target, 1U);
    const auto post = stack.display.function().post_display();
    ASSERT_TRUE(post.has_value());
    EXPECT_EQ(post->width, 64U);
    EXPECT_EQ(post->target_id, 1U);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    EXPECT_EQ(stack.display.calls().post.TargetId, 1U) << "the next driver is told";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayTest, StopDeviceFollowsAFailedRelease) {
  DXGKIT_COVERS("LIFE-19");
  running([](DisplayStack& stack) {
    stack.display.answers["DxgkDdiStopDeviceAndReleasePostDisplayOwnership"] = STATUS_NOT_SUPPORTED;
    stack.display.clear_calls();
    stack.stop();
    EXPECT_THAT(stack.display.calls().order,
                ElementsAre("DxgkDdiStopDeviceAndReleasePostDisplayOwnership", "DxgkDdiStopDevice",
                            "DxgkDdiRemoveDevice"));
  });
}

TEST_F(DisplayTest, WithoutSupportNonVgaNothingIsReleased) {
  DXGKIT_COVERS("LIFE-19", "CAPS-06");
  running(
      [](DisplayStack& stack) {
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"CAPS-06"});
        stack.display.clear_calls();
        stack.stop();
        EXPECT_THAT(stack.display.calls().order,
                    ElementsAre("DxgkDdiStopDevice", "DxgkDdiRemoveDevice"));
      },
      [](DisplayStack& stack) {
        stack.display.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportNonVGA = FALSE; };
      });
}

TEST_F(DisplayTest, AReleasedDisplayLiesInTheBar) {
  DXGKIT_COVERS("DOD-08");
  running([](DisplayStack& stack) {
    // Success without a word about the display.
    stack.display.answers["DxgkDdiStopDeviceAndReleasePostDisplayOwnership"] = STATUS_SUCCESS;
    stack.expect_leaks = true;
    stack.stop();
    EXPECT_EQ(stack.only_finding().rule, "DOD-08");
    EXPECT_EQ(stack.display.function().post_display()->target_id, UINT32_MAX) << "unchanged";
  });
}

TEST_F(DisplayTest, PowerGoesDownAndComesBackWithTheMode) {
  DXGKIT_COVERS("PWR-03", "PWR-04");
  running([](DisplayStack& stack) {
    stack.display.clear_calls();
    EXPECT_EQ(stack.displays.set_power(stack.luid, port::PowerState::kD3), Status::kSuccess);
    EXPECT_THAT(stack.display.calls().order,
                ElementsAre("DxgkDdiSetVidPnSourceVisibility", "DxgkDdiSetPowerState",
                            "DxgkDdiSetPowerState"));
    EXPECT_THAT(stack.display.calls().powers,
                ElementsAre(std::pair{ULONG{1}, PowerDeviceD3},
                            std::pair{ULONG{DISPLAY_ADAPTER_HW_ID}, PowerDeviceD3}));
    EXPECT_EQ(stack.present(1), Status{0xC01E0006}) << "STATUS_GRAPHICS_PRESENT_OCCLUDED";
    EXPECT_EQ(stack.display.count("DxgkDdiPresentDisplayOnly"), 0U);
    stack.display.clear_calls();
    EXPECT_EQ(stack.displays.set_power(stack.luid, port::PowerState::kD0), Status::kSuccess);
    const DisplayCalls calls = stack.display.calls();
    EXPECT_THAT(calls.powers, ElementsAre(std::pair{ULONG{DISPLAY_ADAPTER_HW_ID}, PowerDeviceD0},
                                          std::pair{ULONG{1}, PowerDeviceD0}));
    EXPECT_EQ(calls.count("DxgkDdiCommitVidPn"), 1U);
    EXPECT_EQ(calls.order.back(), "DxgkDdiSetVidPnSourceVisibility");
    EXPECT_EQ(stack.present(2), Status::kSuccess);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// A display-only adapter goes down and comes back by the same rules as a full one.
TEST_F(DisplayTest, TheSystemsPowerStatesReachADisplayOnlyDriver) {
  DXGKIT_COVERS("PWR-02", "PWR-03", "PWR-04");
  using dxgk::PowerTarget;
  struct Row {
    PowerTarget target;
    DEVICE_POWER_STATE told;
    bus::FunctionPower left;
  };
  const Row rows[] = {
      {PowerTarget::kD1, PowerDeviceD1, bus::FunctionPower::kOn},
      {PowerTarget::kD2, PowerDeviceD2, bus::FunctionPower::kOn},
      {PowerTarget::kD3, PowerDeviceD3, bus::FunctionPower::kStandby},
      {PowerTarget::kStandby, PowerDeviceD3, bus::FunctionPower::kStandby},
      {PowerTarget::kHybridSleep, PowerDeviceD3, bus::FunctionPower::kHibernate},
      {PowerTarget::kHibernate, PowerDeviceD3, bus::FunctionPower::kHibernate},
  };
  std::vector<bus::FunctionPower> left;
  running(
      [&](DisplayStack& stack) {
        const auto go = [&](PowerTarget target) {
          const Result<dxgk::PowerOutcome> done = stack.system->set_power(stack.luid, target);
          return done.has_value() ? Status::kSuccess : done.error();
        };
        for (const Row& row : rows) {
          SCOPED_TRACE(static_cast<int>(row.target));
          stack.display.clear_calls();
          left.clear();
          std::vector<size_t> changes;  // of the device's power, before each of the driver's calls
          stack.display.hooks["DxgkDdiSetPowerState"] = [&] { changes.push_back(left.size()); };
          EXPECT_EQ(go(row.target), Status::kSuccess);
          EXPECT_THAT(changes, ElementsAre(0U, 0U)) << "the driver is told while it has power";
          EXPECT_THAT(left, ElementsAre(row.left));
          EXPECT_THAT(stack.display.calls().powers,
                      ElementsAre(std::pair{ULONG{1}, row.told},
                                  std::pair{ULONG{DISPLAY_ADAPTER_HW_ID}, row.told}));
          EXPECT_EQ(go(row.target), Status::kSuccess) << "it is there";
          const PowerTarget other =
              row.target == PowerTarget::kD3 ? PowerTarget::kStandby : PowerTarget::kD3;
          EXPECT_EQ(go(other), Status::kInvalidParameter) << "by way of D0 only";
          EXPECT_EQ(stack.display.calls().powers.size(), 2U);
          stack.display.clear_calls();
          left.clear();
          changes.clear();
          EXPECT_EQ(go(PowerTarget::kD0), Status::kSuccess);
          EXPECT_THAT(left, ElementsAre(bus::FunctionPower::kOn));
          EXPECT_THAT(changes, ElementsAre(1U, 1U)) << "and when it has power again";
          EXPECT_THAT(stack.display.calls().powers,
                      ElementsAre(std::pair{ULONG{DISPLAY_ADAPTER_HW_ID}, PowerDeviceD0},
                                  std::pair{ULONG{1}, PowerDeviceD0}));
          EXPECT_EQ(go(PowerTarget::kD0), Status::kSuccess);
          EXPECT_EQ(stack.display.calls().powers.size(), 2U);
          EXPECT_EQ(stack.present(1), Status::kSuccess);
        }
        // What is shown cannot be hidden: nothing has changed, and it may be tried again.
        stack.display.hooks.clear();
        stack.display.clear_calls();
        left.clear();
        stack.display.answers["DxgkDdiSetVidPnSourceVisibility"] = STATUS_NO_MEMORY;
        EXPECT_EQ(go(PowerTarget::kD3), Status::kNoMemory);
        EXPECT_THAT(stack.display.calls().powers, ElementsAre());
        EXPECT_THAT(left, ElementsAre());
        stack.display.answers.clear();
        EXPECT_EQ(go(PowerTarget::kStandby), Status::kSuccess) << "it was still on";
        EXPECT_EQ(go(PowerTarget::kD0), Status::kSuccess);
        EXPECT_EQ(stack.system->power_failed(stack.luid, PowerTarget::kD3), Status::kNotSupported);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"DOD-03"});
      },
      [&](DisplayStack& stack) {
        stack.display.function().on_power([&](bus::FunctionPower power) { left.push_back(power); });
      });
}

TEST_F(DisplayTest, PointersAreThoseOfTheCaps) {
  DXGKIT_COVERS("DOD-07");
  running([](DisplayStack& stack) {
    std::vector<std::byte> pixels(16 * 16 * 4, std::byte{0x5A});
    port::PointerShape shape{.width = 16, .height = 16, .pitch_bytes = 64, .pixels = pixels};
    EXPECT_EQ(stack.displays.set_pointer_shape(stack.luid, shape), Status::kSuccess);
    EXPECT_EQ(stack.displays.set_pointer_position(stack.luid, 0, -3, 40, true), Status::kSuccess);
    const DisplayCalls calls = stack.display.calls();
    ASSERT_EQ(calls.pointer_shapes.size(), 1U);
    EXPECT_EQ(calls.pointer_shapes[0].Flags.Color, 1U);
    EXPECT_EQ(calls.pointer_pixels, pixels);
    ASSERT_EQ(calls.pointer_positions.size(), 1U);
    EXPECT_EQ(calls.pointer_positions[0].X, -3);
    EXPECT_EQ(calls.pointer_positions[0].Flags.Visible, 1U);
    stack.display.clear_calls();
    shape.format = port::PointerShape::Format::kMaskedColor;
    EXPECT_EQ(stack.displays.set_pointer_shape(stack.luid, shape), Status::kNotSupported);
    shape.format = port::PointerShape::Format::kColor;
    shape.width = 33;
    EXPECT_EQ(stack.displays.set_pointer_shape(stack.luid, shape), Status::kInvalidParameter);
    shape.width = 16;
    shape.height = 17;
    EXPECT_EQ(stack.displays.set_pointer_shape(stack.luid, shape), Status::kInvalidParameter);
    shape.height = 16;
    shape.hot_x = 16;
    EXPECT_EQ(stack.displays.set_pointer_shape(stack.luid, shape), Status::kInvalidParameter);
    EXPECT_EQ(stack.display.calls().order.size(), 0U);
  });
}

TEST_F(DisplayTest, TheActivePathIsUpdated) {
  DXGKIT_COVERS("DOD-05");
  running([](DisplayStack& stack) {
    vidpn::Path path = stack.displays.active_network(stack.luid)->paths.at(0);
    path.content = 2;
    EXPECT_EQ(stack.displays.update_path(stack.luid, path), Status::kSuccess);
    const DisplayCalls calls = stack.display.calls();
    ASSERT_EQ(calls.paths.size(), 1U);
    EXPECT_EQ(calls.paths[0].VidPnTargetId, 1U);
    EXPECT_EQ(static_cast<uint32_t>(calls.paths[0].Content), 2U);
    EXPECT_EQ(stack.displays.active_network(stack.luid)->paths.at(0).content, 2U);
    path.target = 7;
    EXPECT_EQ(stack.displays.update_path(stack.luid, path), Status::kInvalidParameter);
    EXPECT_EQ(stack.display.count("DxgkDdiUpdateActiveVidPnPresentPath"), 1U);
  });
}

TEST_F(DisplayTest, ABugCheckIsWrittenToTheScreen) {
  DXGKIT_COVERS("CAPS-05");
  running([](DisplayStack& stack) {
    const std::vector<std::byte> blue = DisplayStack::picture(8, 4, 0xAA);
    EXPECT_EQ(stack.displays.show_bug_check(stack.luid, blue, 8, 4), Status::kSuccess);
    EXPECT_EQ(stack.display.screen().pixel(7, 3), 0xAA0307U);
    EXPECT_EQ(stack.display.count("DxgkDdiSystemDisplayEnable"), 1U);
    EXPECT_EQ(stack.displays.show_bug_check(stack.luid, blue, 9, 4), Status::kInvalidParameter);
  });
}

TEST_F(DisplayTest, NothingRendersOnADisplayOnlyAdapter) {
  DXGKIT_COVERS("DOD-09");
  running([](DisplayStack& stack) {
    const dxgk::Ref<dxgk::Adapter> adapter = stack.system->impl().find(stack.luid);
    dxgk::Process& process = stack.system->create_process("client");
    EXPECT_EQ(dxgk::Device::create(*adapter, adapter->floor(), process).error(),
              Status::kNotSupported);
    stack.system->end_process(process);
    EXPECT_TRUE(stack.system->statistics(stack.luid).has_value());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayTest, AnotherSeedGivesTheSameAnswers) {
  DXGKIT_COVERS("DOD-06");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    running(
        [](DisplayStack& stack) {
          Presenter presenter(stack, 3);
          stack.display.plug(1, false);
          stack.display.plug(1, true);
          static_cast<void>(presenter.join());
          ASSERT_EQ(stack.displays.wait_for_hot_plug(stack.luid), Status::kSuccess);
          EXPECT_EQ(stack.mode(), (dxgk::DisplayMode{64, 48}));
          EXPECT_EQ(stack.present(4), Status::kSuccess);
          EXPECT_EQ(stack.display.screen().pixel(1, 1), 0x040101U);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        nullptr, seed);
  }
}

}  // namespace
}  // namespace dxgkit::contract
