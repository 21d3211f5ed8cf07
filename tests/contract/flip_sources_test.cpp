// Flips of the second source, presents that never ran, flips under the switch that cuts everywhere.
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/verifier_switches.h"
#include "dxgk/display_exercise.h"
#include "dxgk/work/device.h"
#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

const RECT kAll{0, 0, kWidth, kHeight};

void two_screens(Stack& stack, FlipDriver& driver) {
  stack.miniport.config.children = 2;
  driver.display.config.children = {{.uid = kTarget}, {.uid = 2}};
}

/// Shows a primary on source 1 and flips to another one, in one DMA buffer of one part or two.
void flip_second_source(bool in_parts) {
  runtime::make_sim_runtime(1)->run_main([&] {
    Stack stack;
    FlipDriver driver(stack, 2);
    two_screens(stack, driver);
    driver.mmio = false;
    driver.intervals = true;
    if (in_parts) {
      stack.options.verifier.set(dxgk::VerifierSwitch::kTakeSplitPoint);
      driver.on_present = [](DXGKARG_PRESENT* args) {
        args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 64;
        *args->pPatchLocationListOut++ = patch_at(1, 8, 0);
        *args->pPatchLocationListOut++ = patch_at(1, 40, 32);
        return STATUS_SUCCESS;
      };
    }
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver, 0, false);
      D3DKMT_HANDLE primaries[2] = {};
      for (D3DKMT_HANDLE& primary : primaries) {
        ASSERT_EQ(client.create_primary(kWidth, 1, &primary), 0);
        ASSERT_EQ(client.render(client.context, work_on({primary})), 0);
        stack.drive();
      }
      ASSERT_EQ(client.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE, 1), 0);
      ASSERT_EQ(client.set_display_mode(primaries[0]), 0);
      stack.miniport.clear_calls();
      D3DKMT_PRESENT args = client.flip_of(primaries[1], 4);
      args.VidPnSourceId = 1;
      ASSERT_EQ(client.present(args), 0);
      stack.settle();
      ASSERT_EQ(driver.packets(), in_parts ? 2U : 1U);
      if (in_parts) {
        const DXGKARG_SUBMITCOMMAND first = stack.miniport.calls().submits.front().args;
        EXPECT_EQ(first.Flags.Flip, 0U);
        EXPECT_EQ(first.VidPnSourceId, D3DDDI_ID_UNINITIALIZED);
        EXPECT_EQ(first.FlipInterval, 0);
      }
      const DXGKARG_SUBMITCOMMAND submit = stack.miniport.calls().submits.back().args;
      EXPECT_EQ(submit.Flags.Flip, 1U);
      EXPECT_EQ(submit.VidPnSourceId, 1U);
      EXPECT_EQ(submit.FlipInterval, 4);
      stack.drive();
      driver.vsync(stack.miniport.calls().patches.back().allocations[1].physical_address, 2);
      stack.drive();
    }
  });
}

// A flip by DMA buffer names its source, which is not always the first.
TEST_F(FlipTest, AFlipOfTheSecondSourceSaysSo) {
  DXGKIT_COVERS("SUB-15", "SUB-16");
  for (const bool in_parts : {false, true}) {
    SCOPED_TRACE(in_parts);
    flip_second_source(in_parts);
  }
}

// Several allocations of one call: each element is what its client said of it.
TEST_F(FlipTest, EachElementOfACreationHasASourceOfItsOwn) {
  DXGKIT_COVERS("ALLOC-01", "THUNK-20");
  bare([](Stack& stack) {
    FlipDriver driver(stack, 2);
    two_screens(stack, driver);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver, 0, false);
      std::vector<UINT> hints;
      stack.miniport.hooks.create_allocation = [&](DXGKARG_CREATEALLOCATION* args) {
        for (UINT i = 0; i < args->NumAllocations; ++i) {
          const DXGK_ALLOCATIONINFO& one = args->pAllocationInfo[i];
          ScriptedAllocation data;
          std::memcpy(&data, one.pPrivateDriverData, sizeof data);
          hints.push_back(data.bank_hints);
        }
        return stack.miniport.default_create_allocation(args);
      };
      ScriptedAllocation data[3];
      D3DDDI_ALLOCATIONINFO infos[3] = {};
      for (UINT i = 0; i < 3; ++i) {
        data[i] = {.size = uint64_t{kWidth} * kHeight * 4,
                   .supported_read = 1,
                   .supported_write = 1,
                   .flags = 1};
        data[i].bank_hints = 40 + i;
        infos[i].pPrivateDriverData = &data[i];
        infos[i].PrivateDriverDataSize = sizeof data[i];
        infos[i].VidPnSourceId = i == 1 ? 1 : 0;
        infos[i].Flags.Primary = i == 0 ? 0 : 1;
      }
      D3DKMT_CREATEALLOCATION create{};
      create.hDevice = client.device;
      create.NumAllocations = 3;
      create.pAllocationInfo = infos;
      EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
      stack.miniport.hooks = {};
      EXPECT_EQ(hints, (std::vector<UINT>{40, 41, 42}));
      for (UINT i = 0; i < 3; ++i) {
        const auto opened =
            *client.process->handles().find<dxgk::OpenedAllocation>(infos[i].hAllocation);
        EXPECT_EQ(opened->allocation->primary, i != 0) << i;
        EXPECT_EQ(opened->allocation->vidpn_source, infos[i].VidPnSourceId) << i;
      }
    }
  });
}

// By register, too, each flip says its source, and so does what is shown after a sleep: the
// kernel's own pictures where nobody has shown any.
TEST_F(FlipTest, EachSourceIsToldByItsOwnNumber) {
  DXGKIT_COVERS("DISP-07", "DISP-11");
  bare([](Stack& stack) {
    FlipDriver driver(stack, 2);
    two_screens(stack, driver);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver, 0, false);
      D3DKMT_HANDLE primaries[2] = {};
      for (D3DKMT_HANDLE& primary : primaries) {
        ASSERT_EQ(client.create_primary(kWidth, 1, &primary), 0);
        ASSERT_EQ(client.render(client.context, work_on({primary})), 0);
        stack.drive();
      }
      ASSERT_EQ(client.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE, 1), 0);
      ASSERT_EQ(client.set_display_mode(primaries[0]), 0);
      D3DKMT_PRESENT args = client.flip_of(primaries[1], 1);
      args.VidPnSourceId = 1;
      ASSERT_EQ(client.present(args), 0);
      stack.settle();
      EXPECT_EQ(driver.addresses().back().VidPnSourceId, 1U);
      driver.vsync(driver.last_address(), 2);
      stack.drive();
      const HANDLE shown = driver.addresses().back().hAllocation;

      driver.display.clear_calls();
      const auto go = [&](dxgk::PowerTarget target) {
        stack.blocking(
            [&] { EXPECT_TRUE(stack.system->set_power(stack.luid, target).has_value()); });
      };
      go(dxgk::PowerTarget::kD3);
      go(dxgk::PowerTarget::kD0);
      using Seen = std::vector<std::pair<UINT, bool>>;
      Seen seen;
      for (const auto& one : driver.display.calls().visibilities)
        seen.emplace_back(one.VidPnSourceId, one.Visible != FALSE);
      EXPECT_EQ(seen, (Seen{{0, false}, {1, false}, {0, true}, {1, true}}));
      const auto addresses = driver.addresses();
      ASSERT_EQ(addresses.size(), 2U);
      EXPECT_EQ(addresses[0].VidPnSourceId, 0U);
      EXPECT_NE(addresses[0].hAllocation, shown);
      EXPECT_EQ(addresses[1].VidPnSourceId, 1U);
      EXPECT_EQ(addresses[1].hAllocation, shown);

      // A source that nobody saw before the sleep is not lit by its end; the other is.
      auto exercise = std::move(*dxgk::DisplayExercise::on(*stack.system, stack.luid));
      ASSERT_EQ(exercise.set_visible(0, false), Status::kSuccess);
      driver.display.clear_calls();
      go(dxgk::PowerTarget::kD3);
      go(dxgk::PowerTarget::kD0);
      seen.clear();
      for (const auto& one : driver.display.calls().visibilities)
        seen.emplace_back(one.VidPnSourceId, one.Visible != FALSE);
      EXPECT_EQ(seen, (Seen{{1, false}, {1, true}}));
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// The screen of one source is given back as that of the device that shows there, and of no other;
// what cannot be shown instead leaves nothing that stays in memory for it.
TEST_F(FlipTest, AScreenIsGivenBackByWhoShowsThere) {
  DXGKIT_COVERS("DISP-11", "DISP-18");
  bare([](Stack& stack) {
    FlipDriver driver(stack, 2);
    two_screens(stack, driver);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver, 0, false), stranger(stack, driver, 0, false);
      D3DKMT_HANDLE primary = 0;
      ASSERT_EQ(client.create_primary(kWidth, 1, &primary), 0);
      ASSERT_EQ(client.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE, 1), 0);
      ASSERT_EQ(client.set_display_mode(primary), 0);
      const size_t told = driver.addresses().size();
      EXPECT_EQ(stranger.own(D3DKMT_VIDPNSOURCEOWNER_UNOWNED, 1), 0) << "nothing of its own";
      EXPECT_EQ(driver.addresses().size(), told);

      const auto pins = [&] {
        uint32_t all = 0;
        stack.adapter().core().lane().run([&] {
          for (dxgk::Device* device : stack.adapter().floor().devices) {
            for (const dxgk::OpenedAllocation* opened : device->memory().openings)
              all += stack.adapter().core().memory().pin_count(opened->allocation->id);
          }
        });
        return all;
      };
      EXPECT_EQ(pins(), 2U) << "its own, and the kernel's of the other source";
      driver.display.answers["DxgkDdiSetVidPnSourceAddress"] = nt_status(Status::kInvalidParameter);
      EXPECT_EQ(client.own(D3DKMT_VIDPNSOURCEOWNER_UNOWNED, 1), 0);
      driver.display.answers.clear();
      EXPECT_EQ(driver.addresses().size(), told + 1);
      EXPECT_EQ(pins(), 1U) << "the kernel's picture of source 0 alone is seen";
    }
  });
}

// A device that owns both sources gives up the one it names, and keeps the other.
TEST_F(FlipTest, ASourceIsGivenUpAlone) {
  DXGKIT_COVERS("DISP-11", "DISP-18");
  bare([](Stack& stack) {
    FlipDriver driver(stack, 2);
    two_screens(stack, driver);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver);
      D3DKMT_HANDLE primary = 0;
      ASSERT_EQ(client.create_primary(kWidth, 1, &primary), 0);
      ASSERT_EQ(client.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE, 1), 0);
      ASSERT_EQ(client.set_display_mode(primary), 0);
      auto exercise = std::move(*dxgk::DisplayExercise::on(*stack.system, stack.luid));
      for (const uint32_t source : {0U, 1U}) {  // each is at a line of its own target
        bool blank = true;
        uint32_t line = 0;
        EXPECT_EQ(exercise.scan_line(source, &blank, &line), Status::kSuccess);
        EXPECT_FALSE(blank);
        EXPECT_EQ(line, 40 + (source == 0 ? kTarget : 2));
      }
      const size_t told = driver.addresses().size();
      ASSERT_EQ(client.own(D3DKMT_VIDPNSOURCEOWNER_UNOWNED, 1), 0);
      ASSERT_EQ(driver.addresses().size(), told + 1) << "the kernel's picture is back";
      EXPECT_EQ(driver.addresses().back().VidPnSourceId, 1U);
      ASSERT_EQ(client.flip(client.primaries[1]), 0) << "source 0 is still its own";
      stack.settle();
      driver.vsync();
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// A primary that goes takes the screen back only if it is there, or on its way there.
TEST_F(FlipTest, APrimaryThatIsNotShownGoesAlone) {
  DXGKIT_COVERS("DISP-11");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const HANDLE kernels = driver.addresses().front().hAllocation;
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    const size_t told = driver.addresses().size();
    stack.blocking([&] { EXPECT_EQ(client.destroy_allocation(client.primaries[2]), 0); });
    EXPECT_EQ(driver.addresses().size(), told);
    Stack::Background gone(stack,
                           [&] { EXPECT_EQ(client.destroy_allocation(client.primaries[1]), 0); });
    for (int i = 0; i < 20; ++i) stack.settle();
    driver.vsync();
    gone.finish();
    EXPECT_EQ(driver.addresses().back().hAllocation, kernels);
    EXPECT_EQ(driver.addresses().back().Flags.Value, 1U) << "ModeChange";
  });
}

// A driver that asks for an interface says where to write it.
TEST_F(FlipTest, AnInterfaceNeedsSomewhereToGo) {
  DXGKIT_COVERS("VIDPN-24");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    size_t asked = 0;
    driver.display.hooks["DxgkDdiCommitVidPn"] = [&] {
      const DXGKRNL_INTERFACE& kernel = stack.miniport.callbacks();
      const D3DKMDT_HVIDPN vidpn = driver.display.calls().commits.back().hFunctionalVidPn;
      const DXGK_VIDPN_INTERFACE* table = nullptr;
      const auto query = kernel.DxgkCbQueryVidPnInterface;
      EXPECT_EQ(query(vidpn, DXGK_VIDPN_INTERFACE_VERSION_V1, nullptr), kInvalid);
      EXPECT_EQ(query(vidpn, DXGK_VIDPN_INTERFACE_VERSION_V1, &table), STATUS_SUCCESS);
      EXPECT_NE(table, nullptr);
      const DXGK_MONITOR_INTERFACE* monitors = nullptr;
      const auto monitor = kernel.DxgkCbQueryMonitorInterface;
      EXPECT_EQ(monitor(kernel.DeviceHandle, DXGK_MONITOR_INTERFACE_VERSION_V1, nullptr), kInvalid);
      EXPECT_EQ(monitor(kernel.DeviceHandle, DXGK_MONITOR_INTERFACE_VERSION_V1, &monitors),
                STATUS_SUCCESS);
      EXPECT_NE(monitors, nullptr);
      ++asked;
    };
    ASSERT_EQ(stack.start(), Status::kSuccess);
    EXPECT_EQ(asked, 1U);
    driver.display.hooks.erase("DxgkDdiCommitVidPn");
  });
}

// Present tells its caller by its status only: what the caller writes into its structure meanwhile
// stays.
TEST_F(FlipTest, APresentWritesNothingBack) {
  DXGKIT_COVERS("THUNK-02");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    D3DKMT_PRESENT args = client.flip_of(client.primaries[1]);
    driver.on_present = [&](DXGKARG_PRESENT* present) {
      args.VidPnSourceId = 77;
      return FlipDriver::write_part(present, 32);
    };
    EXPECT_EQ(client.call([&] { return D3DKMTPresent(&args); }), 0);
    EXPECT_EQ(args.VidPnSourceId, 77U);
    driver.on_present = nullptr;
    stack.settle();
    driver.vsync();
  });
}

// Who waits for room is told when the device is lost, though what fills it still runs.
TEST_F(FlipTest, ALostDeviceWaitsForNoRoom) {
  DXGKIT_COVERS("SCHED-16", "THUNK-27");
  flipping([](Stack& stack, FlipDriver&, FlipClient& client) {
    D3DKMT_PRESENT fill{};
    fill.hContext = client.context.handle;
    fill.Flags.ColorFill = 1;
    fill.SubRectCnt = 1;
    fill.pSrcSubRects = &kAll;
    ContextBuffers other = client.make_context(1);
    ASSERT_EQ(client.present(fill), 0);
    stack.drive();
    ASSERT_EQ(client.limit(1, 0), 0);
    ASSERT_EQ(client.present(fill), 0);
    ASSERT_EQ(client.render(other, Work{}), 0);
    stack.settle();
    ASSERT_EQ(stack.miniport.outstanding(0).size(), 1U);
    ASSERT_EQ(stack.miniport.outstanding(1).size(), 1U);
    Stack::Background waiting(
        stack, [&] { EXPECT_EQ(client.present(fill), nt_status(Status::kDeviceRemoved)); });
    EXPECT_FALSE(waiting.finished());
    stack.miniport.faulted(1, stack.miniport.outstanding(1).at(0),
                           nt_status(Status::kUnsuccessful));
    stack.settle();
    EXPECT_TRUE(waiting.finished());
    EXPECT_EQ(stack.miniport.outstanding(0).size(), 1U);
    stack.drive();
  });
}

// What lies beside the screen is nothing to draw.
TEST_F(FlipTest, NothingIsDrawnBesideTheScreen) {
  DXGKIT_COVERS("REND-18");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    constexpr LONG kEnd = kWidth;
    const RECT beside[] = {
        {kEnd, 0, kEnd + 8, 8}, {0, kEnd, 8, kEnd + 8}, {-8, 0, 0, 8}, {0, -8, 8, 0}};
    D3DKMT_PRESENT fill{};
    fill.hContext = client.context.handle;
    fill.Flags.ColorFill = 1;
    fill.SubRectCnt = 4;
    fill.pSrcSubRects = beside;
    EXPECT_EQ(client.present(fill), 0);
    stack.settle();
    EXPECT_TRUE(driver.presents.empty());
    EXPECT_EQ(driver.packets(), 0U);
  });
}

// Presents that leave with their context, having never run, count no more.
TEST_F(FlipTest, PresentsThatWereDroppedMakeRoomForOthers) {
  DXGKIT_COVERS("SCHED-16", "SCHED-22");
  flipping([](Stack& stack, FlipDriver&, FlipClient& client) {
    ASSERT_EQ(client.limit(2, 0), 0);
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    const ContextBuffers stuck = client.make_context();
    ASSERT_EQ(client.wait_gpu(stuck, fence, 1), 0);  // for ever
    const auto fill = [&](D3DKMT_HANDLE context) {
      D3DKMT_PRESENT args{};
      args.hContext = context;
      args.Flags.ColorFill = 1;
      args.SubRectCnt = 1;
      args.pSrcSubRects = &kAll;
      return client.present(args);
    };
    for (int i = 0; i < 2; ++i) ASSERT_EQ(fill(stuck.handle), 0);
    Stack::Background third(stack, [&] { EXPECT_EQ(fill(client.context.handle), 0); });
    EXPECT_FALSE(third.finished());
    Stack::Background end(stack, [&] { EXPECT_EQ(client.destroy_context(stuck.handle), 0); });
    EXPECT_TRUE(third.finished()) << "nothing has run since";
    third.finish();
    end.finish();
    stack.drive();  // the third's packet: both calls may have been over before
    for (int i = 0; i < 2; ++i) EXPECT_EQ(fill(client.context.handle), 0) << i;
    stack.drive();
  });
}

// What is cut flips once, with its last part.
TEST_F(FlipTest, WhatIsCutFlipsOnceWithItsLastPart) {
  DXGKIT_COVERS("REND-28", "SUB-15");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    driver.mmio = false;
    stack.options.verifier.set(dxgk::VerifierSwitch::kTakeSplitPoint);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver);
      driver.on_present = [](DXGKARG_PRESENT* args) {
        std::memset(args->pDmaBuffer, 0x50, 64);
        args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 64;
        *args->pPatchLocationListOut++ = patch_at(1, 8, 0);
        *args->pPatchLocationListOut++ = patch_at(1, 40, 32);
        return STATUS_SUCCESS;
      };
      ASSERT_EQ(client.flip(client.primaries[1]), 0);
      stack.settle();
      ASSERT_EQ(driver.packets(), 2U);
      const auto& submits = stack.miniport.calls().submits;
      const DXGKARG_SUBMITCOMMAND first = submits[submits.size() - 2].args;
      EXPECT_EQ(first.Flags.Flip, 0U);
      EXPECT_EQ(first.DmaBufferSubmissionEndOffset, 32U);
      const DXGKARG_SUBMITCOMMAND last = submits.back().args;
      EXPECT_EQ(last.Flags.Flip, 1U);
      EXPECT_EQ(last.DmaBufferSubmissionStartOffset, 32U);
      EXPECT_EQ(last.DmaBufferSubmissionEndOffset, 64U);
      stack.drive();
      EXPECT_EQ(driver.packets(), 2U);
      driver.vsync(stack.miniport.calls().patches.back().allocations[1].physical_address);
      stack.drive();
      driver.on_present = nullptr;
    }
  });
}

// A flip in a DMA buffer that leaves with its context, having never run, is none: nothing waits for
// its vertical sync.
TEST_F(FlipTest, AFlipThatWasNeverSubmittedMakesRoomForOthers) {
  DXGKIT_COVERS("SCHED-16", "SCHED-22", "DISP-07");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        ASSERT_EQ(client.limit(0, 1), 0);
        const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
        const ContextBuffers stuck = client.make_context();
        ASSERT_EQ(client.wait_gpu(stuck, fence, 1), 0);  // for ever
        D3DKMT_PRESENT args = client.flip_of(client.primaries[1]);
        args.hContext = stuck.handle;
        ASSERT_EQ(client.present(args), 0);
        Stack::Background next(stack, [&] { EXPECT_EQ(client.flip(client.primaries[2]), 0); });
        EXPECT_FALSE(next.finished());
        ASSERT_EQ(client.destroy_context(stuck.handle), 0);
        EXPECT_TRUE(next.finished()) << "no vertical sync has come";
        stack.drive();
        EXPECT_EQ(driver.packets(), 1U);
        driver.vsync(stack.miniport.calls().patches.back().allocations[1].physical_address);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"PREEMPT-02"});
      },
      [](FlipDriver& driver) { driver.mmio = false; });
}

// Owners are set source by source, all or none.
TEST_F(FlipTest, EachSourceIsTakenInItsOwnWayOrNone) {
  DXGKIT_COVERS("DISP-14");
  bare([](Stack& stack) {
    FlipDriver driver(stack, 2);
    two_screens(stack, driver);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient first(stack, driver, 0, false), second(stack, driver, 0, false);
      const auto own = [&](FlipClient& client, std::vector<D3DKMT_VIDPNSOURCEOWNER_TYPE> types,
                           std::vector<UINT> sources) {
        D3DKMT_SETVIDPNSOURCEOWNER args{};
        args.hDevice = client.device;
        args.pType = types.data();
        args.pVidPnSourceId = sources.data();
        args.VidPnSourceCount = static_cast<UINT>(sources.size());
        NTSTATUS status = 0;
        stack.blocking(
            [&] { status = client.call([&] { return D3DKMTSetVidPnSourceOwner(&args); }); });
        return status;
      };
      const auto exclusive = [&](UINT source) {
        D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP args{first.adapter, source};
        return first.call([&] { return D3DKMTCheckVidPnExclusiveOwnership(&args); });
      };
      constexpr auto kExclusive = D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE;
      constexpr auto kEmulated = D3DKMT_VIDPNSOURCEOWNER_EMULATED;
      constexpr auto kInUse = static_cast<NTSTATUS>(0xC01E0342);
      constexpr auto kNoSource = static_cast<NTSTATUS>(0xC01E0304);
      ASSERT_EQ(own(first, {kExclusive}, {1}), 0);
      EXPECT_EQ(own(second, {kExclusive, kExclusive}, {0, 1}), kInUse);
      EXPECT_EQ(own(second, {kExclusive, kExclusive}, {0, 2}), kNoSource);
      EXPECT_EQ(own(second, {kEmulated, D3DKMT_VIDPNSOURCEOWNER_SHARED}, {0, 1}), kInUse);
      EXPECT_EQ(own(first, {kExclusive, kEmulated}, {0, 1}), kInvalid) << "it gives up first";
      EXPECT_EQ(exclusive(0), 0) << "nothing was taken";
      EXPECT_EQ(exclusive(1), STATUS_GRAPHICS_PRESENT_OCCLUDED);
      EXPECT_EQ(own(first, {kEmulated, kExclusive}, {0, 1}), 0);
      EXPECT_EQ(exclusive(0), 0);
      EXPECT_EQ(exclusive(1), STATUS_GRAPHICS_PRESENT_OCCLUDED);
      EXPECT_EQ(own(second, {kExclusive}, {0}), kInUse) << "emulated";
    }
  });
}

}  // namespace
}  // namespace dxgkit::contract
