// Flips of drivers that make them by DMA buffer, and flips that something comes between.
#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/work/device.h"
#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;

TEST_F(FlipTest, ADriversOwnFlipIsAPacketThatSaysSo) {
  DXGKIT_COVERS("PREEMPT-02", "SUB-15", "SUB-16", "SUB-21", "DISP-05", "DISP-07");
  for (const bool no_wait : {false, true}) {
    flipping(
        [&](Stack& stack, FlipDriver& driver, FlipClient& client) {
          const size_t before = driver.addresses().size();
          const uint64_t shown = driver.last_address();
          ASSERT_EQ(client.flip(client.primaries[1], 3), 0);
          stack.settle();
          ASSERT_EQ(driver.presents.size(), 1U);
          EXPECT_NE(driver.presents[0].args.pDmaBuffer, nullptr);
          EXPECT_EQ(driver.presents[0].args.FlipInterval, 3);
          EXPECT_EQ(driver.presents[0].args.Flags.FlipWithNoWait, no_wait ? 1U : 0U);
          const auto submits = stack.miniport.calls().submits;
          ASSERT_EQ(driver.packets(), 1U);
          const DXGKARG_SUBMITCOMMAND& submit = submits.back().args;
          EXPECT_EQ(submit.Flags.Present, 1U);
          EXPECT_EQ(submit.Flags.Flip, 1U);
          EXPECT_EQ(submit.Flags.FlipWithNoWait, no_wait ? 1U : 0U);
          EXPECT_EQ(submit.VidPnSourceId, 0U);
          EXPECT_EQ(submit.FlipInterval, 3);
          stack.drive();
          EXPECT_EQ(driver.addresses().size(), before) << "the driver's commands set it";
          const auto patch = stack.miniport.calls().patches.back();
          const uint64_t address = patch.allocations[1].physical_address;
          EXPECT_NE(address, shown);
          Stack::Background next(stack, [&] { EXPECT_EQ(client.flip(client.primaries[2]), 0); });
          EXPECT_FALSE(next.finished()) << "the packet is done, the flip is not";
          driver.vsync(address);
          EXPECT_TRUE(next.finished());
          stack.drive();
          driver.vsync(stack.miniport.calls().patches.back().allocations[1].physical_address);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{"PREEMPT-02"});
        },
        [&](FlipDriver& driver) {
          driver.mmio = false;
          driver.intervals = true;
          driver.no_wait = no_wait;
        });
  }
}

// A flip that its driver refuses, or writes nothing for, leaves its surface to others: it moves and
// ends like any, and the next flip is made.
TEST_F(FlipTest, AFlipTheDriverDoesNotWriteIsAbandoned) {
  DXGKIT_COVERS("REND-15", "DISP-07");
  flipping(
      [&](Stack& stack, FlipDriver& driver, FlipClient& client) {
        driver.on_present = [](DXGKARG_PRESENT*) { return nt_status(Status::kNoMemory); };
        EXPECT_EQ(client.flip(client.primaries[1]), nt_status(Status::kNoMemory));
        driver.on_present = [](DXGKARG_PRESENT*) { return STATUS_SUCCESS; };
        EXPECT_EQ(client.flip(client.primaries[1]), nt_status(Status::kInvalidParameter));
        stack.drive();
        EXPECT_EQ(driver.packets(), 0U);
        driver.on_present = nullptr;
        const uint64_t shown = driver.last_address();
        EXPECT_EQ(client.destroy_allocation(client.primaries[1]), 0);
        EXPECT_EQ(client.flip(client.primaries[2]), 0);
        stack.drive();
        EXPECT_EQ(driver.packets(), 1U);
        const uint64_t address =
            stack.miniport.calls().patches.back().allocations[1].physical_address;
        EXPECT_NE(address, shown);
        driver.vsync(address);
      },
      [&](FlipDriver& driver) { driver.mmio = false; });
}

/// A driver whose presents are DMA buffers of two parts, and a kernel that takes them apart.
void in_two_parts(const std::function<void(Stack&, FlipDriver&, FlipClient&)>& body) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    Stack stack;
    FlipDriver driver(stack);
    driver.mmio = false;
    driver.intervals = true;
    stack.options.verifier.set(dxgk::VerifierSwitch::kTakeSplitPoint);
    driver.on_present = [](DXGKARG_PRESENT* args) {
      const UINT listed = args->pAllocationList[1].hDeviceSpecificAllocation != nullptr ? 1 : 2;
      *args->pPatchLocationListOut++ = patch_at(listed, 8);
      *args->pPatchLocationListOut++ = patch_at(listed, 56, 48);
      args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 80;
      return STATUS_SUCCESS;
    };
    ASSERT_EQ(stack.start(), Status::kSuccess);
    FlipClient client(stack, driver);
    body(stack, driver, client);
  });
}

TEST_F(FlipTest, OfAFlipInPartsTheLastOneFlips) {
  DXGKIT_COVERS("SUB-15", "SUB-16", "SUB-21", "REND-21", "PATCH-29");
  in_two_parts([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    ASSERT_EQ(client.render(client.context, work_on({})), 0);
    ASSERT_EQ(client.flip(client.primaries[1], 3), 0);
    stack.settle();
    EXPECT_EQ(stack.statistics().splits, 1U);
    ASSERT_EQ(driver.packets(), 2U) << "no room for the second part";
    const uint64_t address = stack.miniport.calls().patches.back().allocations[1].physical_address;
    Stack::Background next(stack, [&] { EXPECT_EQ(client.flip(client.primaries[2]), 0); });
    driver.vsync(address);
    EXPECT_FALSE(next.finished()) << "the part that flips has not been submitted";
    stack.miniport.complete_next(0);
    stack.settle();
    EXPECT_FALSE(next.finished());
    driver.vsync(address);
    EXPECT_TRUE(next.finished());
    const auto submits = stack.miniport.calls().submits;
    const auto patches = stack.miniport.calls().patches;
    ASSERT_GE(submits.size(), 3U);
    ASSERT_GE(patches.size(), 3U);
    EXPECT_EQ(patches[0].args.Flags.Value, 0U) << "rendered, not presented";
    for (size_t i = 0; i < 2; ++i) {
      SCOPED_TRACE(i);
      const DXGKARG_SUBMITCOMMAND& submit = submits[i + 1].args;
      EXPECT_EQ(submit.DmaBufferSubmissionStartOffset, i == 0 ? 0U : 48U);
      EXPECT_EQ(submit.DmaBufferSubmissionEndOffset, i == 0 ? 48U : 80U);
      EXPECT_EQ(submit.Flags.Present, 1U);
      EXPECT_EQ(patches[i + 1].args.Flags.Present, 1U);
      EXPECT_EQ(patches[i + 1].args.Flags.Value, 1U << 1) << "and nothing else";
      EXPECT_EQ(submit.Flags.Flip, i);
      EXPECT_EQ(submit.VidPnSourceId, i == 0 ? D3DDDI_ID_UNINITIALIZED : 0U);
      EXPECT_EQ(submit.FlipInterval, i == 0 ? 0 : 3);
    }
    stack.drive();
    driver.vsync(stack.miniport.calls().patches.back().allocations[1].physical_address);
    // The screen shows a flip that nobody has submitted yet.
    EXPECT_EQ(stack.rules(), (std::vector<std::string>{"PREEMPT-02", "DISP-22"}));
  });
}

TEST_F(FlipTest, APresentInPartsCountsUntilTheLastOneIsDone) {
  DXGKIT_COVERS("SCHED-16");
  in_two_parts([](Stack& stack, FlipDriver&, FlipClient& client) {
    ASSERT_EQ(client.limit(1, 1), 0);
    const RECT whole{0, 0, kWidth, kHeight};
    D3DKMT_PRESENT fill{};
    fill.hContext = client.context.handle;
    fill.Flags.ColorFill = 1;
    fill.SubRectCnt = 1;
    fill.pSrcSubRects = &whole;
    ASSERT_EQ(client.present(fill), 0);
    stack.settle();
    ASSERT_EQ(stack.statistics().splits, 1U);
    ASSERT_TRUE(stack.miniport.complete_next(0));
    stack.settle();
    Stack::Background next(stack, [&] { EXPECT_EQ(client.present(fill), 0); });
    EXPECT_FALSE(next.finished()) << "its second part is on hardware";
    ASSERT_TRUE(stack.miniport.complete_next(0));
    stack.settle();
    EXPECT_TRUE(next.finished());
    stack.drive();
  });
}

// The worker is woken for more than monitors: for the mode set again after a reset, among others.
TEST_F(FlipTest, WaitingForAMonitorEndsHoweverOftenTheWorkerWasWoken) {
  DXGKIT_COVERS("DOD-06");
  flipping([](Stack& stack, FlipDriver&, FlipClient&) {
    for (int i = 0; i < 3; ++i) stack.adapter().floor().display->worker().set_again();
    stack.settle();
    const auto plug = [&](bool connected) {
      const DXGKRNL_INTERFACE& kernel = stack.miniport.callbacks();
      DXGK_CHILD_STATUS status{};
      status.Type = StatusConnection;
      status.ChildUid = kTarget;
      status.HotPlug.Connected = connected ? TRUE : FALSE;
      const nt::CallFrame frame(stack.kernel, "host", nt::kPassiveLevel);
      return kernel.DxgkCbIndicateChildStatus(kernel.DeviceHandle, &status);
    };
    EXPECT_EQ(plug(false), STATUS_SUCCESS);
    EXPECT_EQ(plug(true), STATUS_SUCCESS);
    dxgk::Displays displays(*stack.system);
    Stack::Background wait(
        stack, [&] { EXPECT_EQ(displays.wait_for_hot_plug(stack.luid), Status::kSuccess); });
    wait.finish();
    EXPECT_TRUE(wait.finished());
  });
}

// After a reset the kernel shows its own screen first: a mode that a client sets meanwhile comes
// behind that, and stays.
TEST_F(FlipTest, AModeSetWhileTheAdapterComesBackIsKept) {
  DXGKIT_COVERS("TDR-26", "DISP-14");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    stack.adapter().core().lane().run(
        [&] { stack.adapter().floor().display->hardware_was_reset(); });
    NTSTATUS status = -1;
    {
      Stack::Background mode(stack, [&] { status = client.set_display_mode(client.primaries[0]); });
      EXPECT_FALSE(mode.finished()) << "the kernel has not shown anything yet";
      stack.adapter().floor().display->worker().set_again();
      EXPECT_TRUE(mode.finished());
    }
    EXPECT_EQ(status, 0);
    EXPECT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    driver.vsync();
  });
}

TEST_F(FlipTest, TheEndOfAProcessEndsItsFlips) {
  DXGKIT_COVERS("DISP-11", "DISP-18");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const HANDLE kernels = driver.addresses().front().hAllocation;
    EXPECT_NE(kernels, nullptr);
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    ASSERT_EQ(client.render(client.context, work_on({client.primaries[2]})), 0);
    stack.settle();
    client.end();  // with a flip that no vertical sync has shown
    const auto addresses = driver.addresses();
    EXPECT_EQ(addresses.back().Flags.Value, 1U);
    FlipClient next(stack, driver);
    EXPECT_EQ(next.flip(next.primaries[1]), 0);
    stack.settle();
    driver.vsync();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(FlipTest, AFlipThatNeverComesLeavesNothingBehind) {
  DXGKIT_COVERS("SCHED-16");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const size_t before = driver.addresses().size();
    ASSERT_EQ(client.render(client.context, work_on({client.primaries[1]})), 0);
    ASSERT_EQ(client.flip(client.primaries[1]), 0);

    stack.settle();
    stack.adapter().core().lane().run([&] {
      for (dxgk::Device* device : stack.adapter().floor().devices) {
        if (device->handle == client.device) device->set_error(dxgk::DeviceState::kErrorDmaFault);
      }
    });
    stack.drive();
    EXPECT_EQ(driver.addresses().size(), before) << "its device is lost";
    EXPECT_EQ(client.flip(client.primaries[2]), nt_status(Status::kDeviceRemoved));
    FlipClient other(stack, driver, 2, false);
    EXPECT_EQ(other.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE), STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE);
    EXPECT_EQ(client.destroy_device(client.device), 0);
    client.device = 0;
    EXPECT_EQ(other.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE), 0);
  });
}

// Power that fails again before the screen's turn: it stays dark, and comes with the next wake.
TEST_F(FlipTest, AScreenIsNotLitWhilePowerHasFailed) {
  DXGKIT_COVERS("PWR-03", "PWR-10", "DISP-11");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    stack.miniport.config.paging_buffer_segment = 3;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    FlipClient client(stack, driver);
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    driver.vsync();
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD3).has_value());
    });
    const size_t seen = driver.display.calls().visibilities.size();
    const size_t addresses = driver.addresses().size();
    Status status = Status::kSuccess;
    Stack::Background wakes(stack, [&] {
      const auto woken = stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0);
      status = woken.has_value() ? Status::kSuccess : woken.error();
    });
    ASSERT_FALSE(wakes.finished()) << "paging buffers come first";
    stack.miniport.forget_outstanding();
    EXPECT_EQ(stack.system->power_failed(stack.luid, dxgk::PowerTarget::kD3), Status::kSuccess);
    wakes.finish();
    EXPECT_EQ(status, Status::kRetry);
    EXPECT_EQ(driver.display.calls().visibilities.size(), seen);
    EXPECT_EQ(driver.addresses().size(), addresses);
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
    });
    const auto visibilities = driver.display.calls().visibilities;
    ASSERT_EQ(visibilities.size(), seen + 1);
    EXPECT_EQ(visibilities.back().Visible, TRUE);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(FlipTest, AClientsPrimaryIsBackAfterASleep) {
  DXGKIT_COVERS("DISP-11", "PWR-03", "PWR-04");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    driver.vsync();
    const HANDLE shown = driver.addresses().back().hAllocation;
    // The screen is told first on the way down, and last on the way up (PWR-03).
    using Told = std::vector<std::pair<ULONG, DEVICE_POWER_STATE>>;
    Told told;
    std::vector<POWER_ACTION> actions;
    stack.miniport.hooks.set_power_state = [&](ULONG uid, DEVICE_POWER_STATE state,
                                               POWER_ACTION action) {
      told.emplace_back(uid, state);
      actions.push_back(action);
      return nt_status(Status::kSuccess);
    };
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kHibernate).has_value());
    });
    EXPECT_EQ(told, (Told{{kTarget, PowerDeviceD3}, {DISPLAY_ADAPTER_HW_ID, PowerDeviceD3}}));
    EXPECT_EQ(actions, (std::vector{PowerActionHibernate, PowerActionHibernate}))
        << "each is told why (PWR-04)";
    told.clear();
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
    });
    EXPECT_EQ(told, (Told{{DISPLAY_ADAPTER_HW_ID, PowerDeviceD0}, {kTarget, PowerDeviceD0}}));
    stack.miniport.hooks.set_power_state = nullptr;
    const auto visibilities = driver.display.calls().visibilities;
    ASSERT_GE(visibilities.size(), 2U);
    EXPECT_EQ(visibilities[visibilities.size() - 2].Visible, FALSE);
    EXPECT_EQ(visibilities.back().Visible, TRUE) << "seen again";
    EXPECT_EQ(visibilities.back().VidPnSourceId, 0U);
    EXPECT_EQ(driver.addresses().back().hAllocation, shown);
    EXPECT_EQ(driver.addresses().back().Flags.Value, 1U) << "ModeChange";
    driver.vsync();  // the kernel knows what is on the screen
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    stack.blocking([&] { EXPECT_EQ(client.flip(client.primaries[2]), 0); });
    stack.settle();
    driver.vsync();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// A driver that wants all memory out has the screen's out, too, and it is shown again afterwards.
TEST_F(FlipTest, AnExclusionThatEmptiesMemoryTakesTheScreenDown) {
  DXGKIT_COVERS("IRQL-11", "DISP-11");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    driver.vsync();
    const HANDLE shown = driver.addresses().back().hAllocation;
    const size_t before = driver.addresses().size();
    struct Seen {
      Stack& stack;
      NTSTATUS status = 1;
      size_t left = 99;
    } seen{stack};
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    {
      const nt::CallFrame frame(stack.kernel, "a thread of the driver", nt::kPassiveLevel);
      EXPECT_EQ(callbacks.DxgkCbExcludeAdapterAccess(
                    callbacks.DeviceHandle, DXGK_EXCLUDE_EVICT_ALL,
                    [](void*, void* context, NTSTATUS status) NTAPI {
                      auto& me = *static_cast<Seen*>(context);
                      me.status = status;
                      me.left = me.stack.adapter().core().memory().usage(SegmentId{1}).allocations;
                    },
                    &seen),
                0);
    }
    for (int i = 0; i < 20; ++i) {
      runtime::Runtime::current().sleep_for(runtime::kMillisecond);
      stack.drive();
    }
    EXPECT_EQ(seen.status, 0);
    EXPECT_EQ(seen.left, 0U);
    ASSERT_GT(driver.addresses().size(), before);
    EXPECT_EQ(driver.addresses().back().hAllocation, shown);
    EXPECT_EQ(driver.addresses().back().Flags.Value, 1U) << "ModeChange";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(FlipTest, OtherSeedsGiveTheSameFlips) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    flipping(
        [](Stack& stack, FlipDriver& driver, FlipClient& client) {
          for (size_t i = 1; i <= 9; ++i) {
            ASSERT_EQ(client.render(client.context, work_on({client.primaries[i % 3]})), 0);
            ASSERT_EQ(client.flip(client.primaries[i % 3]), 0);
            stack.drive();
            driver.vsync();
          }
          size_t flips = 0;
          for (const auto& address : driver.addresses()) flips += address.Flags.Value == 4 ? 1 : 0;
          EXPECT_EQ(flips, 9U);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        nullptr, seed);
  }
}

}  // namespace
}  // namespace dxgkit::contract
