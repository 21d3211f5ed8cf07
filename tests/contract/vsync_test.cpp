// Vertical sync: what reports mean, when they are wanted, what goes wrong with them.
#include "dxgk/adapter/adapter.h"
#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const auto kInvalid = nt_status(Status::kInvalidParameter);

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

TEST_F(FlipTest, VerticalSyncIsSwitchedOffWhenIdle) {
  DXGKIT_COVERS("DISP-12", "INT-23");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        EXPECT_THAT(driver.controlled, IsEmpty()) << "nobody has flipped yet";
        const auto told = [&](size_t count) {
          for (int i = 0; i < 2000 && driver.controlled.size() < count; ++i) stack.settle();
          return driver.controlled;
        };
        ASSERT_EQ(client.flip(client.primaries[1]), 0);
        EXPECT_THAT(told(1), ElementsAre(true));
        driver.vsync();
        for (int i = 0; i < 9; ++i) driver.vsync();
        EXPECT_THAT(told(1), ElementsAre(true));
        driver.vsync();
        EXPECT_THAT(told(2), ElementsAre(true, false));
        ASSERT_EQ(client.flip(client.primaries[2]), 0);
        EXPECT_THAT(told(3), ElementsAre(true, false, true));
        driver.vsync();
        EXPECT_THAT(driver.control_irqls, ::testing::Each(nt::kPassiveLevel));
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](FlipDriver& driver) { driver.controls = driver.saves_power = true; });
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
        EXPECT_TRUE(stack.adapter().running());

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
