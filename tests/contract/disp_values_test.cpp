// What the DDIs of a display carry, member by member, on the second of two sources; and what is
// refused at each bound without a call of the driver.
#include <algorithm>

#include "dxgk/adapter/adapter.h"
#include "dxgk/system_impl.h"
#include "tests/contract/display_fixture.h"
#include "vidpn/edid.h"
#include "vidpn/vidpn.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using Format = port::PointerShape::Format;

void two_outputs(DisplayStack& stack) {
  stack.display.config.sources = 2;
  stack.display.config.children = {ScriptedChild{.uid = 5}, ScriptedChild{.uid = 9}};
}

template <typename T>
uint32_t number(const T& member) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  return std::bit_cast<uint32_t>(member);
}

TEST_F(DisplayTest, ThePathOfAnUpdateIsCarriedWhole) {
  DXGKIT_COVERS("DOD-05");
  running(
      [](DisplayStack& stack) {
        const vidpn::Network before = *stack.displays.active_network(stack.luid);
        ASSERT_EQ(before.paths.size(), 2U);
        vidpn::Path path = before.paths[1];
        EXPECT_EQ(path.source, 1U);
        EXPECT_EQ(path.target, 9U);
        path.importance = 7;
        path.scaling = 3, path.scaling_support = 0x15;
        path.rotation = 2, path.rotation_support = 0x26;
        path.visible_from_active_top_left = {31, 32};
        path.visible_from_active_bottom_right = {33, 34};
        path.color_basis = 4;
        path.color_ranges = {41, 42, 43, 44};
        path.content = 2;
        path.copy_protection = 3;
        path.aps_trigger_bits = 51;
        path.copy_protection_support = 6;
        path.gamma_type = 2;
        path.gamma.assign(1536, std::byte{9});
        EXPECT_EQ(stack.displays.update_path(stack.luid, path), Status::kSuccess);
        ASSERT_EQ(stack.display.calls().paths.size(), 1U);
        const D3DKMDT_VIDPN_PRESENT_PATH told = stack.display.calls().paths[0];
        EXPECT_EQ(told.VidPnSourceId, 1U);
        EXPECT_EQ(told.VidPnTargetId, 9U);
        EXPECT_EQ(number(told.ImportanceOrdinal), 7U);
        EXPECT_EQ(number(told.ContentTransformation.Scaling), 3U);
        EXPECT_EQ(number(told.ContentTransformation.ScalingSupport), 0x15U);
        EXPECT_EQ(number(told.ContentTransformation.Rotation), 2U);
        EXPECT_EQ(number(told.ContentTransformation.RotationSupport), 0x26U);
        EXPECT_EQ(told.VisibleFromActiveTLOffset.cx, 31U);
        EXPECT_EQ(told.VisibleFromActiveTLOffset.cy, 32U);
        EXPECT_EQ(told.VisibleFromActiveBROffset.cx, 33U);
        EXPECT_EQ(told.VisibleFromActiveBROffset.cy, 34U);
        EXPECT_EQ(number(told.VidPnTargetColorBasis), 4U);
        EXPECT_EQ(told.VidPnTargetColorCoeffDynamicRanges.FirstChannel, 41U);
        EXPECT_EQ(told.VidPnTargetColorCoeffDynamicRanges.FourthChannel, 44U);
        EXPECT_EQ(number(told.Content), 2U);
        EXPECT_EQ(number(told.CopyProtection.CopyProtectionType), 3U);
        EXPECT_EQ(told.CopyProtection.APSTriggerBits, 51U);
        EXPECT_EQ(number(told.CopyProtection.CopyProtectionSupport), 6U);
        EXPECT_EQ(number(told.GammaRamp.Type), 2U);
        EXPECT_EQ(told.GammaRamp.DataSize, 1536U);
        EXPECT_NE(told.GammaRamp.Data.pRaw, nullptr);
        vidpn::Network wanted = before;
        wanted.paths[1] = path;
        EXPECT_EQ(*stack.displays.active_network(stack.luid), wanted);
        // Both ends name a path, and what the driver refuses changes nothing.
        vidpn::Path crossed = path;
        crossed.source = 0;
        EXPECT_EQ(stack.displays.update_path(stack.luid, crossed), Status::kInvalidParameter);
        for (const NTSTATUS answer : {STATUS_NOT_SUPPORTED, STATUS_NO_MEMORY}) {
          stack.display.answers["DxgkDdiUpdateActiveVidPnPresentPath"] = answer;
          path.content = 1;
          EXPECT_EQ(to_ntstatus(stack.displays.update_path(stack.luid, path)), answer);
          EXPECT_EQ(*stack.displays.active_network(stack.luid), wanted);
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"DOD-03"});
      },
      two_outputs);
}

/// A pointer of odd sizes on source 1, as `change` makes it.
struct Pointer {
  const char* sentence;
  std::function<void(port::PointerShape&)> change;
  Status status;
};

TEST_F(DisplayTest, PointersAreRefusedAtTheirBounds) {
  DXGKIT_COVERS("DOD-07");
  const Pointer rows[] = {
      {"as large as may be",
       [](auto& s) { s.width = 24, s.height = 40, s.pitch_bytes = 96, s.hot_x = 23, s.hot_y = 39; },
       Status::kSuccess},
      {"one pixel", [](auto& s) { s.width = s.height = 1, s.pitch_bytes = 4; }, Status::kSuccess},
      {"no width", [](auto& s) { s.width = 0; }, Status::kInvalidParameter},
      {"no height", [](auto& s) { s.height = 0; }, Status::kInvalidParameter},
      {"too wide", [](auto& s) { s.width = 25, s.pitch_bytes = 100; }, Status::kInvalidParameter},
      {"too high", [](auto& s) { s.height = 41; }, Status::kInvalidParameter},
      {"row of exactly its pixels", [](auto& s) { s.pitch_bytes = 64; }, Status::kSuccess},
      {"row one byte short", [](auto& s) { s.pitch_bytes = 63; }, Status::kInvalidParameter},
      {"longest row", [](auto& s) { s.pitch_bytes = 65536, s.height = 2; }, Status::kSuccess},
      {"row too long", [](auto& s) { s.pitch_bytes = 65537, s.height = 2; },
       Status::kInvalidParameter},
      {"hot spot at the right edge", [](auto& s) { s.hot_x = 15; }, Status::kSuccess},
      {"hot spot right of it", [](auto& s) { s.hot_x = 16; }, Status::kInvalidParameter},
      {"hot spot at the lower edge", [](auto& s) { s.hot_y = 11; }, Status::kSuccess},
      {"hot spot below it", [](auto& s) { s.hot_y = 12; }, Status::kInvalidParameter},
      {"a source that is not there", [](auto& s) { s.source = 2; }, Status::kInvalidParameter},
      {"the last byte is read", [](auto& s) { s.pixels = s.pixels.first(80 * 11 + 64); },
       Status::kSuccess},
      {"the last byte is missing", [](auto& s) { s.pixels = s.pixels.first(80 * 11 + 63); },
       Status::kInvalidParameter},
      // Monochrome: a bit for each pixel, two masks one above the other.
      {"monochrome",
       [](auto& s) {
         s.format = Format::kMonochrome, s.width = 17, s.pitch_bytes = 3;
         s.pixels = s.pixels.first(3 * 24);
       },
       Status::kSuccess},
      {"monochrome, row a byte short",
       [](auto& s) { s.format = Format::kMonochrome, s.width = 17, s.pitch_bytes = 2; },
       Status::kInvalidParameter},
      {"monochrome, sixteen pixels are two bytes",
       [](auto& s) { s.format = Format::kMonochrome, s.width = 16, s.pitch_bytes = 2; },
       Status::kSuccess},
      {"monochrome, the second mask is a byte short",
       [](auto& s) {
         s.format = Format::kMonochrome, s.width = 17, s.pitch_bytes = 3;
         s.pixels = s.pixels.first(3 * 24 - 1);
       },
       Status::kInvalidParameter},
      {"masked colour, which the caps do not name",
       [](auto& s) { s.format = Format::kMaskedColor; }, Status::kNotSupported},
  };
  running(
      [&](DisplayStack& stack) {
        const std::vector<std::byte> pixels(size_t{65537} * 2, std::byte{0x5A});
        size_t told = 0;
        for (const Pointer& row : rows) {
          port::PointerShape shape{
              .source = 1, .width = 16, .height = 12, .pitch_bytes = 80, .pixels = pixels};
          row.change(shape);
          EXPECT_EQ(stack.displays.set_pointer_shape(stack.luid, shape), row.status)
              << row.sentence;
          told += is_success(row.status) ? 1 : 0;
          EXPECT_EQ(stack.display.count("DxgkDdiSetPointerShape"), told) << row.sentence;
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](DisplayStack& stack) {
        two_outputs(stack);
        stack.display.config.caps = [](DXGK_DRIVERCAPS& caps) {
          caps.MaxPointerWidth = 24;
          caps.MaxPointerHeight = 40;
        };
      });
}

TEST_F(DisplayTest, APointerIsCarriedWhole) {
  DXGKIT_COVERS("DOD-07");
  running(
      [](DisplayStack& stack) {
        const std::vector<std::byte> pixels(4096, std::byte{0x5A});
        for (const Format format : {Format::kMonochrome, Format::kColor, Format::kMaskedColor}) {
          port::PointerShape shape{
              .source = 1, .width = 16, .height = 12, .pitch_bytes = 80, .pixels = pixels};
          shape.hot_x = 3, shape.hot_y = 4;
          shape.format = format;
          EXPECT_EQ(stack.displays.set_pointer_shape(stack.luid, shape), Status::kSuccess);
          const DXGKARG_SETPOINTERSHAPE told = stack.display.calls().pointer_shapes.back();
          EXPECT_EQ(told.Flags.Monochrome, format == Format::kMonochrome ? 1U : 0U);
          EXPECT_EQ(told.Flags.Color, format == Format::kColor ? 1U : 0U);
          EXPECT_EQ(told.Flags.MaskedColor, format == Format::kMaskedColor ? 1U : 0U);
          EXPECT_EQ(told.VidPnSourceId, 1U);
          EXPECT_EQ(told.Width, 16U);
          EXPECT_EQ(told.Height, 12U);
          EXPECT_EQ(told.Pitch, 80U);
          EXPECT_EQ(told.XHot, 3U);
          EXPECT_EQ(told.YHot, 4U);
        }
        EXPECT_EQ(stack.displays.set_pointer_position(stack.luid, 1, 6, -7, false),
                  Status::kSuccess);
        const DXGKARG_SETPOINTERPOSITION place = stack.display.calls().pointer_positions.back();
        EXPECT_EQ(place.VidPnSourceId, 1U);
        EXPECT_EQ(place.X, 6);
        EXPECT_EQ(place.Y, -7);
        EXPECT_EQ(place.Flags.Visible, 0U);
        EXPECT_EQ(stack.displays.set_pointer_position(stack.luid, 2, 0, 0, true),
                  Status::kInvalidParameter);
        EXPECT_EQ(stack.display.calls().pointer_positions.size(), 1U);
      },
      [](DisplayStack& stack) {
        two_outputs(stack);
        stack.display.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.PointerCaps.MaskedColor = 1; };
      });
  running(
      [](DisplayStack& stack) {
        EXPECT_EQ(stack.displays.set_pointer_position(stack.luid, 0, 1, 1, true),
                  Status::kNotSupported);
        EXPECT_EQ(stack.display.count("DxgkDdiSetPointerPosition"), 0U);
      },
      [](DisplayStack& stack) {
        stack.display.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.PointerCaps.Value = 0; };
      });
}

// A shape of a format that the driver does not draw is not for it, whatever else it draws.
TEST_F(DisplayTest, APointerIsOfAFormatOfTheCaps) {
  DXGKIT_COVERS("DOD-07");
  const std::pair<Format, UINT> formats[] = {
      {Format::kMonochrome, 1}, {Format::kColor, 2}, {Format::kMaskedColor, 4}};
  for (UINT drawn = 0; drawn < 8; ++drawn) {
    SCOPED_TRACE(drawn);
    running(
        [&](DisplayStack& stack) {
          const std::vector<std::byte> pixels(4096, std::byte{0x5A});
          for (const auto& [format, flag] : formats) {
            const port::PointerShape shape{.source = 0,
                                           .format = format,
                                           .width = 16,
                                           .height = 12,
                                           .pitch_bytes = 80,
                                           .pixels = pixels};
            EXPECT_EQ(stack.displays.set_pointer_shape(stack.luid, shape),
                      (drawn & flag) != 0 ? Status::kSuccess : Status::kNotSupported)
                << flag;
          }
        },
        [&](DisplayStack& stack) {
          stack.display.config.caps = [drawn](DXGK_DRIVERCAPS& caps) {
            caps.PointerCaps.Value = drawn;
          };
        });
  }
}

// Children and adapter are told why they go down; on the way up there is no reason.
TEST_F(DisplayTest, EachDeviceIsToldThePowerAction) {
  DXGKIT_COVERS("PWR-04");
  using Entry = decltype(KMDDOD_INITIALIZATION_DATA::DxgkDdiSetPowerState);
  static Entry original;
  static std::vector<std::pair<ULONG, POWER_ACTION>> told;
  told.clear();
  running(
      [](DisplayStack& stack) {
        using dxgk::PowerTarget;
        constexpr ULONG adapter = DISPLAY_ADAPTER_HW_ID;
        const auto nothing = static_cast<POWER_ACTION>(0x5A5A5A5A);  // that a driver could mean
        const std::pair<PowerTarget, POWER_ACTION> targets[] = {
            {PowerTarget::kStandby, PowerActionSleep},
            {PowerTarget::kHibernate, PowerActionHibernate}};
        for (const auto& [target, action] : targets) {
          EXPECT_TRUE(stack.system->set_power(stack.luid, target).has_value());
          EXPECT_THAT(told, ElementsAre(std::pair{ULONG{5}, action}, std::pair{ULONG{9}, action},
                                        std::pair{adapter, action}));
          told.clear();
          EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kD0).has_value());
          EXPECT_THAT(told, ElementsAre(std::pair{adapter, nothing}, std::pair{ULONG{5}, nothing},
                                        std::pair{ULONG{9}, nothing}));
          told.clear();
        }
      },
      [](DisplayStack& stack) {
        two_outputs(stack);
        stack.display.config.table = [](KMDDOD_INITIALIZATION_DATA& table) {
          original = table.DxgkDdiSetPowerState;
          table.DxgkDdiSetPowerState = [](PVOID context, ULONG uid, DEVICE_POWER_STATE state,
                                          POWER_ACTION action) NTAPI -> NTSTATUS {
            told.emplace_back(uid, action);
            return original(context, uid, state, action);
          };
        };
      });
}

TEST_F(DisplayTest, ABugCheckPictureFitsOrIsNotAskedFor) {
  DXGKIT_COVERS("CAPS-05");
  running([](DisplayStack& stack) {
    const std::vector<std::byte> pixels(size_t{65536} * 4);
    struct Row {
      uint32_t width, height;
      size_t bytes;
    };
    for (const Row& row : {Row{0, 4, 64}, Row{4, 0, 64}, Row{65536, 1, size_t{65536} * 4},
                           Row{1, 65536, size_t{65536} * 4}, Row{8, 4, 127}}) {
      EXPECT_EQ(stack.displays.show_bug_check(stack.luid, std::span(pixels).first(row.bytes),
                                              row.width, row.height),
                Status::kInvalidParameter);
    }
    EXPECT_EQ(stack.display.count("DxgkDdiSystemDisplayEnable"), 0U);
    // As large as the screen, and one more in each direction.
    EXPECT_EQ(stack.displays.show_bug_check(stack.luid, pixels, 64, 48), Status::kSuccess);
    EXPECT_EQ(stack.displays.show_bug_check(stack.luid, pixels, 65, 48), Status::kInvalidParameter);
    EXPECT_EQ(stack.displays.show_bug_check(stack.luid, pixels, 64, 49), Status::kInvalidParameter);
    EXPECT_EQ(stack.display.count("DxgkDdiSystemDisplayWrite"), 1U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// A rectangle is all there is to carry, and the whole picture is only where nothing is named.
TEST_F(DisplayTest, NothingIsAddedToWhatAPresentNames) {
  DXGKIT_COVERS("DOD-04");
  running([](DisplayStack& stack) {
    ASSERT_EQ(stack.present(1, {{2, 3, 5, 7}}), Status::kSuccess);
    ASSERT_EQ(stack.present(2, {}, {{1, 2, {10, 10, 12, 12}}}), Status::kSuccess);
    ASSERT_EQ(stack.present(3), Status::kSuccess);
    const DisplayCalls calls = stack.display.calls();
    ASSERT_EQ(calls.presents.size(), 3U);
    ASSERT_EQ(calls.presents[0].dirty.size(), 1U);
    EXPECT_EQ(calls.presents[0].dirty[0].left, 2);
    EXPECT_EQ(calls.presents[0].dirty[0].bottom, 7);
    EXPECT_TRUE(calls.presents[0].moves.empty());
    EXPECT_TRUE(calls.presents[1].dirty.empty());
    EXPECT_EQ(calls.presents[1].moves.size(), 1U);
    ASSERT_EQ(calls.presents[2].dirty.size(), 1U);
    EXPECT_EQ(calls.presents[2].dirty[0].right, 64);
    EXPECT_EQ(calls.presents[2].dirty[0].bottom, 48);
  });
}

// The picture that the kernel keeps of a source is as large as its mode; firmware's frame buffer is
// what is on the screen in firmware's mode only.
TEST_F(DisplayTest, APictureIsAsLargeAsItsMode) {
  DXGKIT_COVERS("DOD-05");
  running([](DisplayStack& stack) {
    const uint64_t large = stack.machine.free_page_count();
    EXPECT_TRUE(stack.displays.scanout(stack.luid, 0).has_value());
    ASSERT_EQ(stack.displays.set_mode(stack.luid, 0, {32, 32}), Status::kSuccess);
    EXPECT_EQ(stack.machine.free_page_count(), large + 2) << "one page instead of three";
    EXPECT_EQ(stack.displays.scanout(stack.luid, 0).error(), Status::kNotSupported);
    ASSERT_EQ(stack.displays.set_mode(stack.luid, 0, {64, 48}), Status::kSuccess);
    EXPECT_EQ(stack.machine.free_page_count(), large);
    EXPECT_TRUE(stack.displays.scanout(stack.luid, 0).has_value());
  });
}

// Firmware's frame buffer need not begin where its memory does.
TEST_F(DisplayTest, APictureBeginsAtTheOffsetOfTheScreen) {
  DXGKIT_COVERS("DOD-05");
  runtime::make_sim_runtime(1)->run_main([] {
    DisplayStack stack(
        {.width = 64, .height = 48, .pitch_bytes = 320, .offset_bytes = 3 * 4096 + 64});
    ASSERT_EQ(stack.start(), Status::kSuccess);
    ASSERT_EQ(stack.present(1), Status::kSuccess);
    const auto picture = stack.displays.scanout(stack.luid, 0);
    ASSERT_TRUE(picture.has_value());
    EXPECT_EQ(picture->pixels, stack.display.screen().screen().pixels);
    EXPECT_EQ(stack.display.screen().pixel(63, 47), 0x012F3FU);
    EXPECT_EQ(stack.displays.scanout(stack.luid, 1).error(), Status::kInvalidParameter)
        << "no such source";
  });
}

// A picture that has no memory when a mode set is taken back is made when there is some again.
TEST_F(DisplayTest, APictureThatIsLostIsMadeAgain) {
  DXGKIT_COVERS("DOD-03");
  running([](DisplayStack& stack) {
    std::vector<std::pair<bus::PageFrame, uint64_t>> taken;
    stack.display.hooks["DxgkDdiCommitVidPn"] = [&] {
      for (uint64_t pages = 1U << 16; pages != 0; pages /= 2) {
        for (auto got = stack.machine.allocate_contiguous(pages); got.has_value();
             got = stack.machine.allocate_contiguous(pages))
          taken.emplace_back(*got, pages);
      }
    };
    stack.display.answers["DxgkDdiCommitVidPn"] = STATUS_NO_MEMORY;
    EXPECT_EQ(stack.displays.set_mode(stack.luid, 0, {32, 32}), Status::kNoMemory);
    stack.display.hooks.clear();
    stack.display.answers.clear();
    EXPECT_EQ(stack.machine.free_page_count(), 1U) << "that of the mode that was not set";
    EXPECT_EQ(stack.mode(), (dxgk::DisplayMode{64, 48}));
    EXPECT_EQ(stack.present(1), Status::kNoMemory);
    EXPECT_EQ(stack.display.count("DxgkDdiPresentDisplayOnly"), 0U);
    for (const auto& [first, pages] : taken) stack.machine.free_contiguous(first, pages);
    EXPECT_EQ(stack.present(1), Status::kSuccess);
    EXPECT_EQ(stack.display.screen().pixel(63, 47), 0x012F3FU);
  });
}

// Who is asked to be where it is hears nothing.
TEST_F(DisplayTest, APowerStateIsToldOnce) {
  DXGKIT_COVERS("PWR-03");
  running([](DisplayStack& stack) {
    using port::PowerState;
    for (const PowerState state : {PowerState::kD0, PowerState::kD3, PowerState::kD0}) {
      EXPECT_EQ(stack.displays.set_power(stack.luid, state), Status::kSuccess);
      stack.display.clear_calls();
      EXPECT_EQ(stack.displays.set_power(stack.luid, state), Status::kSuccess);
      EXPECT_TRUE(stack.display.calls().order.empty());
    }
  });
}

TEST_F(DisplayTest, RectanglesMayTouchEachEdge) {
  DXGKIT_COVERS("DOD-04");
  running([](DisplayStack& stack) {
    for (const port::Rect& rect : {port::Rect{0, 5, 1, 6}, port::Rect{5, 0, 6, 1},
                                   port::Rect{0, 0, 64, 48}, port::Rect{63, 47, 64, 48}})
      EXPECT_EQ(stack.present(1, {rect}), Status::kSuccess) << rect.left << "," << rect.top;
    for (const port::MoveRect& move :
         {port::MoveRect{0, 3, {1, 1, 2, 2}}, port::MoveRect{3, 0, {1, 1, 2, 2}},
          port::MoveRect{62, 46, {0, 0, 2, 2}}})
      EXPECT_EQ(stack.present(1, {{0, 0, 1, 1}}, {move}), Status::kSuccess);
    const size_t told = stack.display.count("DxgkDdiPresentDisplayOnly");
    for (const port::MoveRect& move :
         {port::MoveRect{62, 47, {0, 0, 2, 2}}, port::MoveRect{63, 46, {0, 0, 2, 2}},
          port::MoveRect{0, -1, {0, 0, 2, 2}}})
      EXPECT_EQ(stack.present(1, {}, {move}), Status::kInvalidParameter);
    EXPECT_EQ(stack.display.count("DxgkDdiPresentDisplayOnly"), told);
  });
}

TEST_F(DisplayTest, AMoveEndsWhereItsSourceEnds) {
  DXGKIT_COVERS("DOD-04");
  running([](DisplayStack& stack) {
    // As far as the bottom right corner, from there, and one pixel further.
    for (const port::MoveRect& move :
         {port::MoveRect{62, 46, {30, 40, 32, 42}}, port::MoveRect{10, 0, {62, 46, 64, 48}}})
      EXPECT_EQ(stack.present(1, {}, {move}), Status::kSuccess);
    const size_t told = stack.display.count("DxgkDdiPresentDisplayOnly");
    EXPECT_EQ(told, 2U);
    for (const port::MoveRect& move :
         {port::MoveRect{62, 47, {30, 40, 32, 42}}, port::MoveRect{63, 46, {30, 40, 32, 42}}})
      EXPECT_EQ(stack.present(1, {}, {move}), Status::kInvalidParameter);
    EXPECT_EQ(stack.display.count("DxgkDdiPresentDisplayOnly"), told);
  });
}

/// A present on source 1, on a thread of its own.
class SecondPresenter {
 public:
  explicit SecondPresenter(DisplayStack& stack)
      : pixels_(DisplayStack::picture(64, 48, 1)),
        thread_(runtime::Runtime::current().spawn("presenter", [this, &stack] {
          status_ = stack.displays.present(
              stack.luid,
              {.source = 1, .pixels = pixels_, .pitch_bytes = 256, .moves = {}, .dirty = {}});
        })) {}
  Status join() {
    thread_->join();
    return status_;
  }

 private:
  std::vector<std::byte> pixels_;
  Status status_ = Status::kPending;
  std::unique_ptr<runtime::Thread> thread_;
};

void until_pending(DisplayStack& stack) {
  while (stack.display.pending_presents() == 0)
    runtime::Runtime::current().sleep_for(runtime::kMicrosecond);
}

// The time to report begins with the present, and belongs to its source.
TEST_F(DisplayTest, APendingPresentOfTheSecondSourceHasItsWholeTime) {
  DXGKIT_COVERS("DOD-01", "DOD-02");
  const auto prepare = [](DisplayStack& stack) {
    two_outputs(stack);
    stack.display.config.asynchronous = true;
  };
  running(
      [](DisplayStack& stack) {
        runtime::Runtime::current().sleep_for(5 * runtime::kSecond);
        for (int i = 0; i < 2; ++i) {
          SecondPresenter presenter(stack);
          until_pending(stack);
          runtime::Runtime::current().sleep_for(1900 * runtime::kMillisecond);
          stack.display.finish_present();
          EXPECT_EQ(presenter.join(), Status::kSuccess);
        }
        SecondPresenter failing(stack);
        until_pending(stack);
        stack.display.finish_present(/*failed=*/true);
        EXPECT_EQ(failing.join(), Status::kUnsuccessful);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"DOD-03"});
      },
      prepare);
  running(
      [](DisplayStack& stack) {
        SecondPresenter presenter(stack);
        EXPECT_EQ(presenter.join(), Status::kDeviceRemoved);
        EXPECT_THAT(stack.only_finding().actual, ::testing::HasSubstr("for source 1"));
        // Nothing reaches the driver of an adapter that failed.
        stack.display.clear_calls();
        EXPECT_EQ(stack.displays.set_power(stack.luid, port::PowerState::kD3),
                  Status::kDeviceRemoved);
        EXPECT_EQ(stack.displays.set_mode(stack.luid, 0, {32, 32}), Status::kDeviceRemoved);
        EXPECT_EQ(stack.displays.set_pointer_position(stack.luid, 0, 1, 1, true),
                  Status::kDeviceRemoved);
        EXPECT_EQ(stack.displays.set_pointer_shape(stack.luid, {}), Status::kDeviceRemoved);
        EXPECT_EQ(stack.displays.update_path(stack.luid, {}), Status::kDeviceRemoved);
        EXPECT_EQ(stack.display.calls().order.size(), 0U);
      },
      prepare);
}

// TdrDelay 0 is no limit; the shortest limit is one.
TEST_F(DisplayTest, WithoutALimitAPendingPresentWaits) {
  DXGKIT_COVERS("DOD-01");
  running(
      [](DisplayStack& stack) {
        SecondPresenter presenter(stack);
        until_pending(stack);
        runtime::Runtime::current().sleep_for(100 * runtime::kSecond);
        stack.display.finish_present();
        EXPECT_EQ(presenter.join(), Status::kSuccess);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](DisplayStack& stack) {
        two_outputs(stack);
        stack.display.config.asynchronous = true;
        stack.options.tdr_delay_ns = 0;
      });
  running(
      [](DisplayStack& stack) {
        EXPECT_EQ(stack.present(1), Status::kDeviceRemoved);
        EXPECT_EQ(stack.only_finding().rule, "DOD-01");
      },
      [](DisplayStack& stack) {
        stack.display.config.asynchronous = true;
        stack.options.tdr_delay_ns = 1;
      });
}

TEST_F(DisplayTest, TheCapsOfTheScreenAreToldAsTheyAre) {
  DXGKIT_COVERS("CAPS-06", "CAPS-05");
  running(
      [](DisplayStack& stack) {
        EXPECT_EQ(stack.only_finding().rule, "CAPS-06");
        EXPECT_EQ(stack.only_finding().actual, "SupportNonVGA is 0, SupportSmoothRotation is 1.");
      },
      [](DisplayStack& stack) {
        stack.display.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportNonVGA = FALSE; };
        // Without the promise nobody asks for the entries.
        stack.display.config.table = [](KMDDOD_INITIALIZATION_DATA& table) {
          table.DxgkDdiSystemDisplayEnable = nullptr;
        };
      });
  running(
      [](DisplayStack& stack) {
        EXPECT_EQ(stack.only_finding().actual, "SupportNonVGA is 1, SupportSmoothRotation is 0.");
      },
      [](DisplayStack& stack) {
        stack.display.config.caps = [](DXGK_DRIVERCAPS& caps) {
          caps.SupportSmoothRotation = FALSE;
        };
      });
}

/// A detailed timing of a small screen at 60 Hz.
std::vector<std::byte> small_edid(uint32_t width, uint32_t height) {
  vidpn::Edid edid = vidpn::default_edid();
  edid.timings = {{.pixel_clock_hz = 120'000,
                   .width = width,
                   .height = height,
                   .total_width = 50,
                   .total_height = 40,
                   .refresh_millihertz = 60'000}};
  return vidpn::build_edid(edid);
}

// The monitor's own size is chosen among what the driver offers, by both sides of it.
TEST_F(DisplayTest, TheMonitorsOwnSizeIsShown) {
  DXGKIT_COVERS("DOD-05");
  running(
      [](DisplayStack& stack) {
        EXPECT_EQ(stack.mode(), (dxgk::DisplayMode{40, 24}));
      },
      [](DisplayStack& stack) {
        stack.display.config.sizes = {{40, 30}, {36, 24}, {40, 24}, {44, 24}};
        stack.display.config.children[0].edid = small_edid(40, 24);
      });
  // A size that is not offered is passed over.
  running(
      [](DisplayStack& stack) {
        EXPECT_EQ(stack.mode(), (dxgk::DisplayMode{40, 30}));
      },
      [](DisplayStack& stack) {
        stack.display.config.sizes = {{40, 30}, {36, 24}};
        stack.display.config.children[0].edid = small_edid(40, 24);
      });
}

TEST_F(DisplayTest, AFailedCommitIsTakenBackSourceBySource) {
  DXGKIT_COVERS("DOD-03");
  running(
      [](DisplayStack& stack) {
        stack.display.answers["DxgkDdiCommitVidPn"] = STATUS_NO_MEMORY;
        stack.display.clear_calls();
        EXPECT_EQ(stack.displays.set_mode(stack.luid, 1, {32, 32}), Status::kNoMemory);
        const DisplayCalls calls = stack.display.calls();
        ASSERT_EQ(calls.visibilities.size(), 2U);
        for (const DXGKARG_SETVIDPNSOURCEVISIBILITY& one : calls.visibilities)
          EXPECT_EQ(one.VidPnSourceId, 1U);
        EXPECT_EQ(calls.visibilities[0].Visible, FALSE);
        EXPECT_EQ(calls.visibilities[1].Visible, TRUE);
        EXPECT_TRUE(stack.visible(1));
        EXPECT_EQ(stack.mode(1), (dxgk::DisplayMode{64, 48}));
        stack.display.answers.clear();

        // Sources 1 and 2 alone are shown, and the second of them fails after sleep: the first is
        // committed once more.
        stack.display.plug(5, false);
        ASSERT_EQ(stack.displays.wait_for_hot_plug(stack.luid), Status::kSuccess);
        EXPECT_EQ(stack.mode(0), dxgk::DisplayMode{});
        EXPECT_EQ(stack.displays.set_power(stack.luid, port::PowerState::kD3), Status::kSuccess);
        stack.display.clear_calls();
        size_t commits = 0;
        stack.display.hooks["DxgkDdiCommitVidPn"] = [&] {
          if (++commits == 2) {
            stack.display.answers["DxgkDdiCommitVidPn"] = STATUS_NO_MEMORY;
          } else {
            stack.display.answers.clear();
          }
        };
        EXPECT_EQ(stack.displays.set_power(stack.luid, port::PowerState::kD0), Status::kNoMemory);
        std::vector<uint32_t> affected;
        for (const DXGKARG_COMMITVIDPN& one : stack.display.calls().commits)
          affected.push_back(one.AffectedVidPnSourceId);
        EXPECT_THAT(affected, ElementsAre(1U, 2U, 1U));
        stack.display.hooks.clear();
      },
      [](DisplayStack& stack) {
        stack.display.config.sources = 3;
        stack.display.config.children = {ScriptedChild{.uid = 5}, ScriptedChild{.uid = 9},
                                         ScriptedChild{.uid = 7}};
      });
}

/// Acquires a monitor's mode set inside a DDI and never releases it.
void hold_monitor_modes(const void* adapter) {
  const void* table = nullptr;
  ASSERT_EQ(vidpn::Manager::query_monitor_interface(adapter, 1, &table), Status::kSuccess);
  D3DKMDT_HMONITORSOURCEMODESET set = nullptr;
  const DXGK_MONITORSOURCEMODESET_INTERFACE* functions = nullptr;
  EXPECT_EQ(static_cast<const DXGK_MONITOR_INTERFACE*>(table)->pfnAcquireMonitorSourceModeSet(
                const_cast<void*>(adapter), 5, &set, &functions),
            0);
}

// What a driver holds at the end of a DDI is said of that DDI; of one that did not come back,
// nothing is.
TEST_F(DisplayTest, WhatIsHeldIsToldOfTheDdiThatReturned) {
  DXGKIT_COVERS("VIDPN-07");
  for (const char* ddi : {"DxgkDdiIsSupportedVidPn", "DxgkDdiEnumVidPnCofuncModality",
                          "DxgkDdiQueryVidPnHWCapability", "DxgkDdiCommitVidPn",
                          "DxgkDdiRecommendMonitorModes", "DxgkDdiRecommendFunctionalVidPn"}) {
    SCOPED_TRACE(ddi);
    for (const bool returns : {true, false}) {
      running(
          [&](DisplayStack& stack) {
            const void* adapter =
                stack.system->impl().find(stack.luid)->core().port().device_handle();
            bool once = true;
            stack.display.hooks[ddi] = [&] {
              if (!std::exchange(once, false)) return;
              hold_monitor_modes(adapter);
              if (!returns) stack.kernel.bug_check("LIFE-01", "KeBugCheck", 0xE2, 0, "", "", "");
            };
            // Both outputs go and come: each DDI of the mode side is asked, the monitor at 5 being
            // there all the time but for its own.
            const bool recommended = std::string_view(ddi) == "DxgkDdiRecommendFunctionalVidPn";
            const bool monitors = std::string_view(ddi) == "DxgkDdiRecommendMonitorModes";
            if (recommended || monitors) {
              stack.display.plug(5, false);
              ASSERT_EQ(stack.displays.wait_for_hot_plug(stack.luid), Status::kSuccess);
              stack.display.plug(5, true);
              static_cast<void>(stack.displays.wait_for_hot_plug(stack.luid));
            } else {
              static_cast<void>(stack.displays.set_mode(stack.luid, 0, {32, 32}));
            }
            EXPECT_FALSE(once) << "it was asked";
            const std::vector<verifier::Finding> all = stack.findings.all();
            ASSERT_EQ(all.size(), 1U);
            EXPECT_EQ(all[0].rule, returns ? "VIDPN-07" : "LIFE-01");
            if (returns) {
              EXPECT_EQ(all[0].ddi, ddi);
            }
            stack.display.hooks.clear();
            stack.expect_leaks = !returns;
          },
          [](DisplayStack& stack) { stack.display.config.children[0].uid = 5; });
    }
  }
}

// What a driver acquired outside a call of the mode side is told when the device stops.
TEST_F(DisplayTest, WhatIsHeldIsToldAtStop) {
  DXGKIT_COVERS("VIDPN-07");
  running(
      [](DisplayStack& stack) {
        const void* adapter = stack.system->impl().find(stack.luid)->core().port().device_handle();
        stack.display.hooks["DxgkDdiPresentDisplayOnly"] = [&] { hold_monitor_modes(adapter); };
        EXPECT_EQ(stack.present(1), Status::kSuccess);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        stack.stop();
        EXPECT_EQ(stack.only_finding().rule, "VIDPN-07");
        EXPECT_EQ(stack.only_finding().ddi, "DxgkDdiStopDevice");
        stack.display.hooks.clear();
      },
      [](DisplayStack& stack) { stack.display.config.children[0].uid = 5; });
}

}  // namespace
}  // namespace dxgkit::contract
