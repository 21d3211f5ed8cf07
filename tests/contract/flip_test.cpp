// Flips: when they are programmed, when they are done, who waits for them.
#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(FlipTest, AFlipByRegisterIsProgrammedAtDeviceLevel) {
  DXGKIT_COVERS("DISP-01", "DISP-02", "REND-20", "REND-17", "DISP-07", "REND-01");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const size_t before = driver.addresses().size();
    const uint64_t shown = driver.last_address();
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    ASSERT_EQ(driver.presents.size(), 1U);
    const PresentCall& present = driver.presents[0];
    EXPECT_EQ(present.args.pDmaBuffer, nullptr);
    EXPECT_EQ(present.args.DmaSize, 0U);
    EXPECT_EQ(present.args.Flags.Flip, 1U);
    EXPECT_EQ(present.args.Flags.Value, 4U);
    EXPECT_EQ(present.allocations[0].device_handle, nullptr);
    EXPECT_NE(present.allocations[1].device_handle, nullptr);
    EXPECT_EQ(present.allocations[2].device_handle, nullptr);
    const auto addresses = driver.addresses();
    ASSERT_EQ(addresses.size(), before + 1);
    const DXGKARG_SETVIDPNSOURCEADDRESS& address = addresses.back();
    EXPECT_EQ(driver.irqls.back(), nt::kDeviceLevel);
    EXPECT_EQ(driver.irqls.front(), nt::kPassiveLevel) << "the mode set";
    EXPECT_EQ(address.ContextCount, 1U);
    EXPECT_EQ(address.Context[0], present.context);
    EXPECT_EQ(address.Flags.Value, 4U) << "FlipOnNextVSync";
    EXPECT_NE(driver.last_address(), shown);
    EXPECT_EQ(address.PrimarySegment, 1U);
    EXPECT_EQ(driver.packets(), 0U) << "no packet for the GPU";

    // Busy until the vertical sync that shows it: the limit of one flip holds the next.
    Stack::Background next(stack, [&] { EXPECT_EQ(client.flip(client.primaries[2]), 0); });
    EXPECT_FALSE(next.finished());
    driver.vsync(shown);
    EXPECT_FALSE(next.finished()) << "the one before it is still on the screen";
    driver.vsync();
    EXPECT_TRUE(next.finished());
    EXPECT_EQ(driver.addresses().size(), before + 2);
    driver.vsync();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What goes to the screen at start is paged; its pages wait for the device to stop when that fails.
TEST_F(FlipTest, AStartThatFailsWhilePagingReturnsItsPages) {
  DXGKIT_COVERS("LIFE-12", "PATCH-31");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    stack.miniport.hooks.patch = [](const DXGKARG_PATCH*) {
      return nt_status(Status::kUnsuccessful);
    };
    EXPECT_LT(nt_status(stack.start()), 0);
    EXPECT_EQ(stack.only_finding().rule, "PATCH-31");
    EXPECT_EQ(stack.miniport.count("DxgkDdiStopDevice"), 1U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiRemoveDevice"), 1U);
  });
}

TEST_F(FlipTest, WithoutTheCapTheAddressIsSetAtPassiveLevel) {
  DXGKIT_COVERS("PREEMPT-02", "DISP-01");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        const size_t before = driver.addresses().size();
        ASSERT_EQ(client.flip(client.primaries[1], 0), 0);
        stack.blocking([&] {
          while (driver.addresses().size() == before) stack.settle();
        });
        EXPECT_EQ(driver.irqls.back(), nt::kPassiveLevel);
        EXPECT_EQ(driver.addresses().back().Flags.Value, 2U) << "FlipImmediate";
        driver.vsync();
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"PREEMPT-02"});
      },
      [](FlipDriver& driver) {
        driver.mmio = false;
        driver.immediate_mmio = true;
      });
}

TEST_F(FlipTest, TheFlipWaitsForWhatItsContextRenders) {
  DXGKIT_COVERS("DISP-05");
  for (const bool no_wait : {false, true}) {
    flipping(
        [&](Stack& stack, FlipDriver& driver, FlipClient& client) {
          const size_t before = driver.addresses().size();
          ASSERT_EQ(client.render(client.context, work_on({client.primaries[1]})), 0);
          ASSERT_EQ(client.flip(client.primaries[1]), 0);
          const D3DKMT_HANDLE texture = client.make_allocation();
          ASSERT_EQ(client.render(client.context, work_on({texture})), 0);
          stack.settle();
          EXPECT_EQ(driver.addresses().size(), before) << "the picture is not there yet";
          stack.drive();
          EXPECT_EQ(driver.addresses().size(), before + 1);
          EXPECT_EQ(driver.presents.back().args.Flags.FlipWithNoWait, no_wait ? 1U : 0U);
          EXPECT_EQ(driver.packets(), no_wait ? 2U : 1U) << "the pipeline waits for the sync";
          driver.vsync();
          stack.drive();
          EXPECT_EQ(driver.packets(), 2U);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](FlipDriver& driver) { driver.no_wait = no_wait; });
  }
}

TEST_F(FlipTest, HardwareTakesSoManyFlips) {
  DXGKIT_COVERS("DISP-06");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        ASSERT_EQ(client.limit(0, 3), 0);
        const size_t before = driver.addresses().size();
        ASSERT_EQ(client.flip(client.primaries[1]), 0);
        ASSERT_EQ(client.flip(client.primaries[2]), 0);
        ASSERT_EQ(client.flip(client.primaries[0]), 0);
        stack.settle();
        ASSERT_EQ(driver.addresses().size(), before + 2);
        const auto addresses = driver.addresses();
        driver.vsync(static_cast<uint64_t>(addresses[before].PrimaryAddress.QuadPart));
        EXPECT_EQ(driver.addresses().size(), before + 3);
        driver.vsync(static_cast<uint64_t>(addresses[before + 1].PrimaryAddress.QuadPart));
        driver.vsync();
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](FlipDriver& driver) {
        driver.depth = 2;
        driver.no_wait = true;
      });
}

TEST_F(FlipTest, ADepthNoHardwareHasIsFatal) {
  DXGKIT_COVERS("DISP-06");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    driver.depth = 1000;
    EXPECT_EQ(stack.start(), Status::kDeviceConfigurationError);
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "DISP-06");
    EXPECT_EQ(finding.bugcheck_code, 0x119U);
    EXPECT_EQ(finding.bugcheck_parameter, 0x4U);
  });
}

TEST_F(FlipTest, IntervalsNeedTheirCap) {
  DXGKIT_COVERS("DISP-04");
  for (const bool cap : {false, true}) {
    flipping(
        [&](Stack& stack, FlipDriver& driver, FlipClient& client) {
          const Digest before = digest(stack, {&client});
          for (uint32_t interval = 2; interval <= 4; ++interval) {
            if (cap) break;
            EXPECT_EQ(client.flip(client.primaries[1], interval), kInvalid);
          }
          EXPECT_EQ(client.flip(client.primaries[1], 5), kInvalid);
          EXPECT_EQ(digest(stack, {&client}), before);
          const uint64_t shown = driver.last_address();
          const size_t count = driver.addresses().size();
          EXPECT_EQ(client.flip(client.primaries[1], cap ? 3 : 1), 0);
          stack.settle();
          int syncs = 0;
          while (driver.addresses().size() == count && syncs < 8) {
            driver.vsync(shown);
            ++syncs;
          }
          EXPECT_EQ(syncs, cap ? 2 : 0) << "shown at the third";
          driver.vsync();
          EXPECT_EQ(client.flip(client.primaries[2], 0), 0) << "at once always works";
          stack.settle();
          EXPECT_EQ(driver.addresses().back().Flags.Value, 2U) << "FlipImmediate";
          driver.vsync();
        },
        [&](FlipDriver& driver) { driver.intervals = cap; });
  }
}

TEST_F(FlipTest, AFlipToWhatIsShownWaitsForVerticalBlank) {
  DXGKIT_COVERS("DISP-10");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const size_t before = driver.addresses().size();
    ASSERT_EQ(client.flip(client.primaries[0]), 0);
    Stack::Background next(stack, [&] { EXPECT_EQ(client.flip(client.primaries[1]), 0); });
    EXPECT_FALSE(next.finished());
    EXPECT_EQ(driver.addresses().size(), before) << "there is nothing to program";
    driver.vsync();
    EXPECT_TRUE(next.finished());
    EXPECT_EQ(driver.addresses().size(), before + 1);
    driver.vsync();
  });
}

TEST_F(FlipTest, WhoWritesAPrimaryWaitsUntilItIsOffTheScreen) {
  DXGKIT_COVERS("SUB-37");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        ContextBuffers other = client.make_context();
        ASSERT_EQ(client.flip(client.primaries[1]), 0);
        stack.settle();
        ASSERT_EQ(client.render(other, work_on({client.primaries[0]})), 0);
        stack.drive();
        EXPECT_EQ(driver.packets(), 0U) << "0 is on the screen";
        ASSERT_EQ(client.render(client.context, work_on({client.primaries[1]})), 0)
            << "1 will stay there: nobody could wait for that";
        stack.drive();
        EXPECT_EQ(driver.packets(), 1U);
        driver.vsync();
        stack.drive();
        EXPECT_EQ(driver.packets(), 2U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](FlipDriver& driver) { driver.no_wait = true; });
}

TEST_F(FlipTest, QueuedLimitsBlock) {
  DXGKIT_COVERS("SCHED-16");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    D3DKMT_SETQUEUEDLIMIT get{};
    get.hDevice = client.device;
    get.Type = D3DKMT_GET_QUEUEDLIMIT_PRESENT;
    ASSERT_EQ(client.call([&] { return D3DKMTSetQueuedLimit(&get); }), 0);
    EXPECT_EQ(get.QueuedPresentLimit, 3U);
    EXPECT_EQ(get.QueuedPendingFlipLimit, 1U);
    ASSERT_EQ(client.limit(1, 2), 0);
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    ASSERT_EQ(client.flip(client.primaries[2]), 0);
    D3DKMT_PRESENT third = client.flip_of(client.primaries[0]);
    third.Flags.FlipDoNotWait = 1;
    EXPECT_EQ(client.present(third), nt_status(Status::kGraphicsAllocationBusy));
    ASSERT_EQ(client.limit(0, 0), 0);
    ASSERT_EQ(client.call([&] { return D3DKMTSetQueuedLimit(&get); }), 0);
    EXPECT_EQ(get.QueuedPresentLimit, 3U) << "0 is the default";
    EXPECT_EQ(get.QueuedPendingFlipLimit, 1U);
    get.Type = static_cast<D3DKMT_QUEUEDLIMIT_TYPE>(9);
    EXPECT_EQ(client.call([&] { return D3DKMTSetQueuedLimit(&get); }), kInvalid);
    stack.settle();
    driver.vsync();
    driver.vsync();
  });
}

TEST_F(FlipTest, TheScreenGoesBackToTheKernelsPrimary) {
  DXGKIT_COVERS("DISP-11", "DISP-18");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const auto kernels = driver.addresses().front();
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    driver.vsync();
    // Destroyed while it is shown: nothing is left on the screen that is gone.
    stack.blocking([&] { EXPECT_EQ(client.destroy_allocation(client.primaries[1]), 0); });
    EXPECT_EQ(driver.addresses().back().hAllocation, kernels.hAllocation);
    EXPECT_EQ(driver.addresses().back().Flags.Value, 1U) << "ModeChange";
    EXPECT_EQ(client.flip(client.primaries[0]), kInvalid) << "until SetDisplayMode";
    EXPECT_EQ(client.set_display_mode(client.primaries[0]), 0);
    EXPECT_EQ(client.disown(), 0);
    EXPECT_EQ(driver.addresses().back().hAllocation, kernels.hAllocation);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
