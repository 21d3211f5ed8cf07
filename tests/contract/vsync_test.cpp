// Vertical sync: what reports mean, when they are wanted, what goes wrong with them.
#include "dxgk/adapter/adapter.h"
#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(FlipTest, AVerticalSyncWithoutAddressIsTold) {
  DXGKIT_COVERS("DISP-08");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    driver.vsync(0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"DISP-08"});
    driver.vsync();
  });
}

TEST_F(FlipTest, AWrongTargetOrAddressIsTold) {
  DXGKIT_COVERS("DISP-22", "DISP-23");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient&) {
    driver.vsync(driver.last_address(), 77);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"DISP-23"});
    driver.vsync(0x12345000);
    EXPECT_EQ(stack.rules(), (std::vector<std::string>{"DISP-23", "DISP-22"}));
  });
}

TEST_F(FlipTest, ARenderOnlyAdapterHasNoVerticalSync) {
  DXGKIT_COVERS("INT-20");
  running([](Stack& stack) {
    stack.expect_leaks = true;
    static_cast<void>(stack.miniport.vsync(0, 0x1000));
    stack.settle();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "INT-20");
    EXPECT_EQ(finding.bugcheck_code, 0x119U);
    EXPECT_EQ(finding.bugcheck_parameter, 0x7U);
  });
}

TEST_F(FlipTest, APlaneThatIsNotThereIsFatal) {
  DXGKIT_COVERS("INT-20");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient&) {
    DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO plane{};
    plane.PhysicalAddress.QuadPart = static_cast<LONGLONG>(driver.last_address());
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
    data.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY;
    data.CrtcVsyncWithMultiPlaneOverlay.VidPnTargetId = kTarget;
    data.CrtcVsyncWithMultiPlaneOverlay.MultiPlaneOverlayVsyncInfoCount = 1;
    data.CrtcVsyncWithMultiPlaneOverlay.pMultiPlaneOverlayVsyncInfo = &plane;
    static_cast<void>(stack.miniport.raise(data));
    stack.settle();
    EXPECT_THAT(stack.rules(), IsEmpty());
    plane.LayerIndex = 1;
    stack.expect_leaks = true;
    static_cast<void>(stack.miniport.raise(data));
    stack.settle();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "INT-20");
    EXPECT_EQ(finding.bugcheck_parameter, 0xEU);
  });
}

// There are as many planes as the caps say, and one where they say none.
TEST_F(FlipTest, PlanesAreThoseOfTheCaps) {
  DXGKIT_COVERS("INT-20");
  for (const UINT planes : {0U, 1U, 3U}) {
    for (const bool beyond : {false, true}) {
      SCOPED_TRACE(planes);
      bare([&](Stack& stack) {
        FlipDriver driver(stack);
        const auto caps_before = stack.miniport.config.caps;
        stack.miniport.config.caps = [&](DXGK_DRIVERCAPS& caps) {
          caps_before(caps);
          caps.MaxOverlayPlanes = planes;
        };
        ASSERT_EQ(stack.start(), Status::kSuccess);
        FlipClient client(stack, driver);
        std::vector<DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO> named(std::max(planes, 1U) +
                                                              (beyond ? 1 : 0));
        for (UINT i = 0; i < named.size(); ++i) {
          named[i].LayerIndex = i;
          named[i].PhysicalAddress.QuadPart = static_cast<LONGLONG>(driver.last_address());
        }
        DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
        data.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY;
        data.CrtcVsyncWithMultiPlaneOverlay.VidPnTargetId = kTarget;
        data.CrtcVsyncWithMultiPlaneOverlay.MultiPlaneOverlayVsyncInfoCount =
            static_cast<UINT>(named.size());
        data.CrtcVsyncWithMultiPlaneOverlay.pMultiPlaneOverlayVsyncInfo = named.data();
        stack.expect_leaks = beyond;
        static_cast<void>(stack.miniport.raise(data));
        stack.settle();
        if (beyond) {
          EXPECT_EQ(stack.only_finding().bugcheck_parameter, 0xEU);
        } else {
          EXPECT_THAT(stack.rules(), IsEmpty());
        }
      });
    }
  }
}

NTSTATUS device_state(Client& client, D3DKMT_DEVICESTATE_TYPE type, D3DKMT_GETDEVICESTATE* args,
                      UINT source = 0) {
  *args = {};
  args->hDevice = client.device;
  args->StateType = type;
  args->PresentState.VidPnSourceId = source;
  return client.call([&] { return D3DKMTGetDeviceState(args); });
}

TEST_F(FlipTest, ADeviceIsToldWhatItsSourceHasShown) {
  DXGKIT_COVERS("THUNK-59", "THUNK-05");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    D3DKMT_GETDEVICESTATE state;
    const auto stats = [&] {
      EXPECT_EQ(device_state(client, D3DKMT_DEVICESTATE_PRESENT, &state), 0);
      return state.PresentState.PresentStats;
    };
    driver.vsync();
    const D3DKMT_PRESENT_STATS before = stats();
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    EXPECT_EQ(device_state(client, D3DKMT_DEVICESTATE_PRESENT_QUEUE, &state), 0);
    EXPECT_EQ(state.PresentQueueState.bQueuedPresentLimitReached, TRUE) << "the limit is one";
    runtime::Runtime::current().sleep_for(5 * runtime::kMillisecond);
    driver.vsync();
    const D3DKMT_PRESENT_STATS after = stats();
    EXPECT_EQ(after.PresentCount, before.PresentCount + 1);
    EXPECT_EQ(after.SyncRefreshCount, before.SyncRefreshCount + 1);
    EXPECT_EQ(after.PresentRefreshCount, after.SyncRefreshCount);
    EXPECT_GE(after.SyncQPCTime.QuadPart, before.SyncQPCTime.QuadPart + 50'000);
    EXPECT_EQ(device_state(client, D3DKMT_DEVICESTATE_PRESENT_QUEUE, &state), 0);
    EXPECT_EQ(state.PresentQueueState.bQueuedPresentLimitReached, FALSE);
    driver.vsync();
    EXPECT_EQ(stats().PresentRefreshCount, after.SyncRefreshCount) << "nothing new";
    EXPECT_EQ(device_state(client, D3DKMT_DEVICESTATE_PRESENT_DWM, &state), 0);
    EXPECT_EQ(state.PresentStateDWM.PresentStatsDWM.PresentCount, after.PresentCount);
    EXPECT_EQ(state.PresentStateDWM.PresentStatsDWM.SyncRefreshCount, after.SyncRefreshCount + 1);
    const Digest unchanged = digest(stack, {&client});
    for (const D3DKMT_DEVICESTATE_TYPE type :
         {D3DKMT_DEVICESTATE_PRESENT, D3DKMT_DEVICESTATE_PRESENT_DWM,
          D3DKMT_DEVICESTATE_PRESENT_QUEUE}) {
      EXPECT_EQ(device_state(client, type, &state, 1), nt_status(Status::kInvalidParameter));
      EXPECT_EQ(state.PresentState.PresentStats.PresentCount, 0U);
    }
    EXPECT_EQ(digest(stack, {&client}), unchanged);
  });
}

/// What the driver has been told after everything that is due has happened.
const std::vector<bool>& told(Stack& stack, const FlipDriver& driver) {
  for (int i = 0; i < 300; ++i) stack.settle();
  return driver.controlled;
}

// An idle period is a whole one, from one vertical sync to the next, in which nothing was to do.
// The one that ends a flip is none, and each count is seen from both sides.
TEST_F(FlipTest, VerticalSyncIsSwitchedOffAfterSoManyIdlePeriods) {
  DXGKIT_COVERS("DISP-12", "INT-23");
  for (const uint32_t periods : {10U, 1U, 3U}) {
    SCOPED_TRACE(periods);
    flipping(
        [&](Stack& stack, FlipDriver& driver, FlipClient& client) {
          EXPECT_THAT(driver.controlled, IsEmpty()) << "nobody has flipped yet";
          ASSERT_EQ(client.flip(client.primaries[1]), 0);
          EXPECT_THAT(told(stack, driver), ElementsAre(true));
          driver.vsync();  // ends the flip
          for (uint32_t i = 0; i + 1 < periods; ++i) driver.vsync();
          EXPECT_THAT(told(stack, driver), ElementsAre(true)) << "one period short";
          driver.vsync();
          EXPECT_THAT(told(stack, driver), ElementsAre(true, false));
          for (int i = 0; i < 30; ++i) driver.vsync();  // disabling is optional for the driver
          EXPECT_THAT(told(stack, driver), ElementsAre(true, false)) << "told once";
          ASSERT_EQ(client.flip(client.primaries[2]), 0);
          EXPECT_THAT(told(stack, driver), ElementsAre(true, false, true));
          driver.vsync();
          EXPECT_THAT(driver.control_irqls, ::testing::Each(nt::kPassiveLevel));
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](FlipDriver& driver) {
          driver.controls = driver.saves_power = true;
          driver.options().vsync_idle_periods = periods;
        });
  }
}

// Each kind of activity starts the count anew: a flip in time, one at once, one that is in the
// queue for several periods, a wait, a mode set.
TEST_F(FlipTest, ActivityStartsTheCountOfIdlePeriodsAnew) {
  DXGKIT_COVERS("DISP-12");
  enum class Activity { kFlip, kFlipAtOnce, kNoChange, kSlowFlip, kWait, kModeSet };
  for (const Activity activity : {Activity::kFlip, Activity::kFlipAtOnce, Activity::kNoChange,
                                  Activity::kSlowFlip, Activity::kWait, Activity::kModeSet}) {
    SCOPED_TRACE(static_cast<int>(activity));
    flipping(
        [&](Stack& stack, FlipDriver& driver, FlipClient& client) {
          ASSERT_EQ(client.flip(client.primaries[1]), 0);
          EXPECT_THAT(told(stack, driver), ElementsAre(true));
          driver.vsync();
          for (int i = 0; i < 2; ++i) driver.vsync();  // two of three
          if (activity == Activity::kWait) {
            D3DKMT_WAITFORVERTICALBLANKEVENT wait{};
            wait.hAdapter = client.adapter;
            Stack::Background waiting(stack, [&] {
              EXPECT_EQ(client.call([&] { return D3DKMTWaitForVerticalBlankEvent(&wait); }), 0);
            });
            EXPECT_FALSE(waiting.finished());
            driver.vsync();
            EXPECT_TRUE(waiting.finished());
          } else if (activity == Activity::kModeSet) {
            EXPECT_EQ(client.set_display_mode(client.primaries[0]), 0);
            driver.vsync();                              // the rest of a period
          } else if (activity == Activity::kNoChange) {  // over as soon as it is reached
            ASSERT_EQ(client.flip(client.primaries[1], 0), 0);
            stack.settle();
            driver.vsync();
          } else if (activity == Activity::kSlowFlip) {
            // The same surface for four syncs more.
            ASSERT_EQ(client.flip(client.primaries[1], 4), 0);
            stack.settle();
            for (int i = 0; i < 4; ++i) driver.vsync();
          } else {
            ASSERT_EQ(client.flip(client.primaries[2], activity == Activity::kFlip ? 1 : 0), 0);
            EXPECT_THAT(told(stack, driver), ElementsAre(true));
            driver.vsync();
          }
          for (int i = 0; i < 2; ++i) driver.vsync();
          EXPECT_THAT(told(stack, driver), ElementsAre(true)) << "one period short";
          // Nobody waits any more: a vertical sync that stays out is no timeout (TDR-31).
          runtime::Runtime::current().sleep_for(5'000 * runtime::kMillisecond);
          stack.settle();
          driver.vsync();
          EXPECT_THAT(told(stack, driver), ElementsAre(true, false));
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](FlipDriver& driver) {
          driver.controls = driver.saves_power = driver.immediate_mmio = driver.intervals = true;
          driver.options().vsync_idle_periods = 3;
        });
  }
}

TEST_F(FlipTest, WithATimeoutOfZeroItStaysOn) {
  DXGKIT_COVERS("DISP-12");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        ASSERT_EQ(client.flip(client.primaries[1]), 0);
        for (int i = 0; i < 30; ++i) driver.vsync();
        EXPECT_THAT(told(stack, driver), ElementsAre(true));
      },
      [](FlipDriver& driver) {
        driver.controls = driver.saves_power = true;
        driver.options().vsync_idle_periods = 0;
      });
}

// Two sources: each that is shown has to be idle, and one's syncs are not the other's.
TEST_F(FlipTest, EachSourceHasIdlePeriodsOfItsOwn) {
  DXGKIT_COVERS("DISP-12");
  constexpr uint32_t kOther = 3;
  for (const bool connected : {true, false}) {
    SCOPED_TRACE(connected);
    bare([&](Stack& stack) {
      FlipDriver driver(stack, 2);
      driver.controls = driver.saves_power = true;
      driver.display.config.sources = stack.miniport.config.children = 2;
      driver.display.config.children = {{.uid = kTarget}, {.uid = kOther, .connected = connected}};
      stack.options.vsync_idle_periods = 3;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      FlipClient client(stack, driver);
      uint64_t other = 0;
      for (const auto& call : driver.addresses()) {
        if (call.VidPnSourceId == 1) other = static_cast<uint64_t>(call.PrimaryAddress.QuadPart);
      }
      ASSERT_EQ(other != 0, connected);
      ASSERT_EQ(client.flip(client.primaries[1]), 0);
      const size_t before = told(stack, driver).size();
      EXPECT_TRUE(driver.controlled.back());
      driver.vsync();
      const auto all = [&](int count) {
        for (int i = 0; i < count && connected; ++i) driver.vsync(other, kOther);
      };
      all(1);  // the rest of its first period
      all(7);
      for (int i = 0; i < 2; ++i) driver.vsync();
      EXPECT_EQ(told(stack, driver).size(), before) << "idle for two periods only";
      if (connected) {
        // Something to do on the other: both have to be idle.
        D3DKMT_WAITFORVERTICALBLANKEVENT wait{};
        wait.hAdapter = client.adapter;
        wait.VidPnSourceId = 1;
        Stack::Background waiting(stack, [&] {
          EXPECT_EQ(client.call([&] { return D3DKMTWaitForVerticalBlankEvent(&wait); }), 0);
        });
        EXPECT_FALSE(waiting.finished());
        for (int i = 0; i < 5; ++i) driver.vsync();
        EXPECT_FALSE(waiting.finished()) << "another source's sync";
        all(1);
        EXPECT_TRUE(waiting.finished());
        all(2);
        EXPECT_EQ(told(stack, driver).size(), before);
        all(1);
      } else {
        driver.vsync();
      }
      EXPECT_GT(told(stack, driver).size(), before);
      EXPECT_FALSE(driver.controlled.back());
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  }
}

// DxgkDdiControlInterrupt3 is for one source: each that is shown is named.
TEST_F(FlipTest, EachShownSourceIsControlledByItsNumber) {
  DXGKIT_COVERS("DISP-12");
  using Told = std::vector<std::pair<UINT, DXGK_CRTC_VSYNC_STATE>>;
  static Told controls;
  const auto control3 = +[](const HANDLE, const DXGKARG_CONTROLINTERRUPT3* args) NTAPI {
    EXPECT_EQ(args->InterruptType, DXGK_INTERRUPT_CRTC_VSYNC);
    controls.emplace_back(args->VidPnSourceId, args->CrtcVsyncState);
    return NTSTATUS{STATUS_SUCCESS};
  };
  constexpr uint32_t kOther = 3;
  controls.clear();
  bare([&](Stack& stack) {
    stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_7;
    FlipDriver driver(stack, 2);
    driver.more_table = [&](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiControlInterrupt3 = control3;
    };
    driver.saves_power = true;
    driver.display.config.sources = stack.miniport.config.children = 2;
    driver.display.config.children = {{.uid = kTarget}, {.uid = kOther}};
    stack.options.vsync_idle_periods = 1;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver);
      controls.clear();
      ASSERT_EQ(client.flip(client.primaries[1]), 0);
      for (int i = 0; i < 300; ++i) stack.settle();
      EXPECT_EQ(controls, (Told{{0, DXGK_VSYNC_ENABLE}, {1, DXGK_VSYNC_ENABLE}}));
      driver.vsync();
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(FlipTest, WithoutTheCapItStaysOn) {
  DXGKIT_COVERS("DISP-12");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        for (int i = 0; i < 2000 && driver.controlled.empty(); ++i) stack.settle();
        ASSERT_EQ(client.flip(client.primaries[1]), 0);
        stack.settle();
        for (int i = 0; i < 30; ++i) driver.vsync();
        for (int i = 0; i < 100; ++i) stack.settle();
        EXPECT_THAT(driver.controlled, ElementsAre(true));
      },
      [](FlipDriver& driver) { driver.controls = true; });
}

TEST_F(FlipTest, ADriverThatCannotControlIsTold) {
  DXGKIT_COVERS("INT-23");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient&) {
        for (int i = 0; i < 2000 && driver.controlled.empty(); ++i) stack.settle();
        for (int i = 0; i < 100; ++i) stack.settle();
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"INT-23"});
      },
      [](FlipDriver& driver) {
        driver.controls = true;
        driver.control_answer = STATUS_NOT_IMPLEMENTED;
      });
}

TEST_F(FlipTest, AVerticalSyncThatStaysOutIsATimeout) {
  DXGKIT_COVERS("TDR-31", "DISP-13");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        ASSERT_EQ(client.flip(client.primaries[1]), 0);
        Stack::Background next(stack, [&] {
          EXPECT_EQ(client.flip(client.primaries[2]), nt_status(Status::kDeviceRemoved));
        });
        runtime::Runtime::current().sleep_for(1'900 * runtime::kMillisecond);
        stack.settle();
        EXPECT_THAT(stack.rules(), IsEmpty());
        driver.display.clear_calls();
        runtime::Runtime::current().sleep_for(300 * runtime::kMillisecond);
        next.finish();
        EXPECT_EQ(stack.only_finding().rule, "TDR-31");
        EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kViolation);
        EXPECT_EQ(stack.statistics().adapter_resets, 1U);
        EXPECT_TRUE(stack.adapter().core().running());

        // The mode is set again, with a primary of the kernel's own, and shown.
        for (int i = 0; i < 2000 && driver.display.calls().visibilities.empty(); ++i) stack.drive();
        const DisplayCalls again = driver.display.calls();
        ASSERT_EQ(again.commits.size(), 1U);
        EXPECT_EQ(again.shown.at(0).width, kWidth);
        ASSERT_EQ(again.addresses.size(), 1U);
        EXPECT_EQ(again.addresses[0].Flags.ModeChange, 1U);
        EXPECT_EQ(again.addresses[0].hAllocation, again.commits[0].hPrimaryAllocation);
        ASSERT_EQ(again.visibilities.size(), 1U);
        EXPECT_EQ(again.visibilities[0].Visible, TRUE);
        EXPECT_EQ(client.flip(client.primaries[2]), nt_status(Status::kDeviceRemoved));

        // And who comes next shows pictures there.
        client.end();
        FlipClient after(stack, driver);
        ASSERT_EQ(after.flip(after.primaries[1]), 0);
        for (int i = 0; i < 2000 && !driver.controlled.back(); ++i) stack.settle();
        EXPECT_TRUE(driver.controlled.back()) << "wanted, and told to the driver anew";
        driver.vsync();
        ASSERT_EQ(after.flip(after.primaries[2]), 0);
        stack.settle();
        driver.vsync();
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"TDR-31"});
      },
      [](FlipDriver& driver) { driver.controls = driver.saves_power = true; });
}

TEST_F(FlipTest, OneThatStaysOutForGoodIsFatalInTheEnd) {
  DXGKIT_COVERS("TDR-31", "TDR-05");
  flipping(
      [](Stack& stack, FlipDriver&, FlipClient& client) {
        stack.expect_leaks = true;
        D3DKMT_WAITFORVERTICALBLANKEVENT wait{};
        wait.hAdapter = client.adapter;
        Stack::Background waiting(stack, [&] {
          EXPECT_EQ(client.call([&] { return D3DKMTWaitForVerticalBlankEvent(&wait); }),
                    nt_status(Status::kDeviceRemoved));
        });
        for (int i = 0; i < 200; ++i) {
          runtime::Runtime::current().sleep_for(100 * runtime::kMillisecond);
          stack.drive();
        }
        waiting.finish();
        EXPECT_EQ(stack.statistics().adapter_resets, 5U);
        EXPECT_EQ(stack.rules(), (std::vector<std::string>{"TDR-31", "TDR-05"}));
      },
      [](FlipDriver& driver) { driver.controls = driver.saves_power = true; });
}

// The display worker wants the driver to itself, with idle hardware: what hangs there is not its
// fault, and the reset comes all the same.
TEST_F(FlipTest, AHangUnderAChangeOfTheDisplayIsRecovered) {
  DXGKIT_COVERS("TDR-21", "TDR-26");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        Client other(stack, "other");
        ContextBuffers context = other.make_context();
        ASSERT_EQ(other.render(context, work_on({})), 0);
        stack.settle();
        D3DKMT_WAITFORVERTICALBLANKEVENT wait{};
        wait.hAdapter = client.adapter;
        Stack::Background waiting(stack, [&] {
          EXPECT_EQ(client.call([&] { return D3DKMTWaitForVerticalBlankEvent(&wait); }), 0);
        });
        EXPECT_FALSE(waiting.finished());
        EXPECT_THAT(driver.controlled, IsEmpty()) << "a packet is on hardware";
        stack.miniport.hooks.reset_from_timeout = [&]() -> NTSTATUS {
          stack.miniport.forget_outstanding();
          return 0;
        };
        runtime::Runtime::current().sleep_for(4'100 * runtime::kMillisecond);
        for (int i = 0; i < 500 && driver.controlled.empty(); ++i) stack.drive();
        EXPECT_EQ(stack.statistics().adapter_resets, 1U);
        EXPECT_THAT(driver.controlled, ElementsAre(true));
        driver.vsync();
        waiting.finish();
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"TDR-01"});
      },
      [](FlipDriver& driver) { driver.controls = driver.saves_power = true; });
}

TEST_F(FlipTest, ClientsWaitForVerticalBlankAndReadTheScanLine) {
  DXGKIT_COVERS("DISP-12");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        D3DKMT_WAITFORVERTICALBLANKEVENT wait{};
        wait.hAdapter = client.adapter;
        Stack::Background waiting(stack, [&] {
          EXPECT_EQ(client.call([&] { return D3DKMTWaitForVerticalBlankEvent(&wait); }), 0);
        });
        EXPECT_FALSE(waiting.finished());
        for (int i = 0; i < 2000 && driver.controlled.empty(); ++i) stack.settle();
        EXPECT_THAT(driver.controlled, ElementsAre(true)) << "somebody wants to know";
        driver.vsync();
        EXPECT_TRUE(waiting.finished());
        D3DKMT_WAITFORVERTICALBLANKEVENT wrong = wait;
        wrong.VidPnSourceId = 1;
        EXPECT_EQ(client.call([&] { return D3DKMTWaitForVerticalBlankEvent(&wrong); }), kInvalid);
        D3DKMT_GETSCANLINE line{};
        line.hAdapter = client.adapter;
        ASSERT_EQ(client.call([&] { return D3DKMTGetScanLine(&line); }), 0);
        EXPECT_EQ(line.ScanLine, 40 + kTarget);
        EXPECT_EQ(line.InVerticalBlank, FALSE);
        line.VidPnSourceId = 1;
        EXPECT_EQ(client.call([&] { return D3DKMTGetScanLine(&line); }), kInvalid);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](FlipDriver& driver) { driver.controls = driver.saves_power = true; });
}

}  // namespace
}  // namespace dxgkit::contract
