// Flips and presents where an interval, a part or a list makes the difference; periodic fences as a
// client makes them.
#include <unistd.h>

#include <atomic>
#include <utility>
#include <vector>

#include "dxgk/exercise.h"
#include "tests/contract/flip_fixture.h"
#include "tests/contract/two_adapters.h"

namespace dxgkit::contract {
namespace {

const RECT kAll{0, 0, kWidth, kHeight};

D3DKMT_PRESENT fill_of(const FlipClient& client) {
  D3DKMT_PRESENT args{};
  args.hContext = client.context.handle;
  args.Flags.ColorFill = 1;
  args.SubRectCnt = 1;
  args.pSrcSubRects = &kAll;
  return args;
}
uint64_t address_in(Stack& stack) {
  return stack.miniport.calls().patches.back().allocations[1].physical_address;
}

// Only flips that are to be seen at once go by register where others go by DMA buffer.
TEST_F(FlipTest, OnlyImmediateFlipsGoByTheImmediateRegister) {
  DXGKIT_COVERS("DISP-07", "REND-20");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        ASSERT_EQ(client.flip(client.primaries[1], 1), 0);
        EXPECT_NE(driver.presents.back().args.pDmaBuffer, nullptr);
        stack.drive();
        driver.vsync(address_in(stack));
        ASSERT_EQ(client.flip(client.primaries[2], 0), 0);
        EXPECT_EQ(driver.presents.back().args.pDmaBuffer, nullptr);
        stack.drive();
        driver.vsync();
      },
      [](FlipDriver& driver) {
        driver.mmio = false;
        driver.immediate_mmio = true;
      });
}

// A flip in parts flips with its last one.
TEST_F(FlipTest, TheLastPartFlips) {
  DXGKIT_COVERS("REND-09", "SUB-15");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        driver.on_present = [](DXGKARG_PRESENT* args) {
          const UINT part = args->MultipassOffset++;
          const NTSTATUS status = FlipDriver::write_part(args, 32 + 16 * part);
          return part == 2 ? status : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        };
        ASSERT_EQ(client.flip(client.primaries[1], 1), 0);
        stack.drive();
        std::vector<UINT> flips, ends;
        for (const auto& submit : stack.miniport.calls().submits) {
          if (submit.args.Flags.Paging != 0) continue;
          flips.push_back(submit.args.Flags.Flip);
          ends.push_back(submit.args.DmaBufferSubmissionEndOffset);
        }
        EXPECT_THAT(ends, ::testing::ElementsAre(32U, 48U, 64U));
        EXPECT_THAT(flips, ::testing::ElementsAre(0U, 0U, 1U));
        driver.vsync(address_in(stack));
        stack.drive();
        driver.on_present = nullptr;
      },
      [](FlipDriver& driver) { driver.mmio = false; });
}

// A present in parts is one present.
TEST_F(FlipTest, PartsOfAPresentCountOnce) {
  DXGKIT_COVERS("SCHED-16", "REND-09");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    ASSERT_EQ(client.limit(2, 0), 0);
    driver.on_present = [](DXGKARG_PRESENT* args) {
      const UINT part = args->MultipassOffset++;
      const NTSTATUS status = FlipDriver::write_part(args, 32 + 16 * part);
      return part == 2 ? status : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    };
    ASSERT_EQ(client.present(fill_of(client)), 0);
    Stack::Background second(stack, [&] { EXPECT_EQ(client.present(fill_of(client)), 0); });
    EXPECT_TRUE(second.finished());
    Stack::Background third(stack, [&] { EXPECT_EQ(client.present(fill_of(client)), 0); });
    EXPECT_FALSE(third.finished());
    second.finish();
    third.finish();
    stack.drive();
    driver.on_present = nullptr;
  });
}

// A screen reads: what was shown and never written is not written back when it leaves.
TEST_F(FlipTest, WhatAScreenShowsIsReadNotWritten) {
  DXGKIT_COVERS("ALLOC-08");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const D3DKMT_HANDLE clean = client.make_primary(), dirty = client.primaries[1];
    const auto transfers = [&] {
      return std::ranges::count_if(stack.miniport.calls().paging, [](const auto& call) {
        return call.args.Operation == DXGK_OPERATION_TRANSFER;
      });
    };
    const auto page_out = [&](D3DKMT_HANDLE handle) {
      stack.blocking([&] {
        EXPECT_EQ(dxgk::Exercise::on(*stack.system, stack.luid)
                      ->memory()
                      .page_out(*client.process, handle),
                  Status::kSuccess);
      });
    };
    Work reads = work_on({clean});
    reads.allocations[0].write = false;
    ASSERT_EQ(client.render(client.context, reads), 0);
    stack.drive();
    for (const D3DKMT_HANDLE shown : {clean, dirty, client.primaries[0]}) {
      ASSERT_EQ(client.flip(shown), 0) << ::testing::PrintToString(stack.rules());
      stack.settle();
      driver.vsync();
    }
    stack.drive();
    const auto before = transfers();
    page_out(clean);
    EXPECT_EQ(transfers(), before);
    page_out(dirty);
    EXPECT_EQ(transfers(), before + 1);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// The place of a primary that no packet has used is made on the way to its flip, which waits for
// it. Was it destroyed by then, nothing is flipped.
TEST_F(FlipTest, AFlipWaitsForThePlaceOfAPrimaryThatNoPacketUsed) {
  DXGKIT_COVERS("DISP-07");
  for (const bool destroyed : {false, true}) {
    SCOPED_TRACE(destroyed);
    flipping([destroyed](Stack& stack, FlipDriver& driver, FlipClient& client) {
      const D3DKMT_HANDLE unused = client.make_primary();
      const size_t told = driver.addresses().size();
      NTSTATUS status = 1;
      {
        Stack::Background flipping(stack, [&] { status = client.flip(unused); });
        EXPECT_FALSE(flipping.finished());
        EXPECT_EQ(driver.addresses().size(), told);
        EXPECT_TRUE(driver.presents.empty());
        if (destroyed) {
          EXPECT_EQ(client.destroy_allocation(unused), 0);
        }
        flipping.finish();
      }
      EXPECT_EQ(status, destroyed ? kInvalid : 0);
      stack.settle();
      EXPECT_EQ(driver.presents.size(), destroyed ? 0U : 1U);
      EXPECT_EQ(driver.addresses().size(), told + driver.presents.size());
      if (!destroyed) driver.vsync();
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  }
}

// Who only reads what is on the screen waits for nobody.
TEST_F(FlipTest, WhoReadsAPrimaryDoesNotWait) {
  DXGKIT_COVERS("SUB-37");
  flipping(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        ContextBuffers other = client.make_context();
        ASSERT_EQ(client.flip(client.primaries[1]), 0);
        stack.settle();
        Work reads = work_on({client.primaries[0]});
        reads.allocations[0].write = false;
        ASSERT_EQ(client.render(other, reads), 0);
        stack.drive();
        EXPECT_EQ(driver.packets(), 1U);
        driver.vsync();
        stack.drive();
      },
      [](FlipDriver& driver) { driver.no_wait = true; });
}

// With explicit residency the kernel sees to the place of what is, or comes, on the screen: nobody
// has to list it for a flip.
TEST_F(FlipTest, WhatIsShownNeedsNoList) {
  DXGKIT_COVERS("RES-25", "DISP-07");
  bare([](Stack& stack) {
    stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
    FlipDriver driver(stack);
    driver.mmio = false;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver, 0, false);
      client.primaries = {client.make_primary(), client.make_primary()};
      client.show();
      stack.miniport.clear_calls();
      stack.blocking([&] { EXPECT_EQ(client.flip(client.primaries[1]), 0); });
      stack.drive();
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      ASSERT_EQ(driver.packets(), 1U);
      EXPECT_NE(address_in(stack), 0U);
      driver.vsync(address_in(stack));
      ASSERT_EQ(client.present(fill_of(client)), 0) << "nor for a fill of the screen";
      stack.drive();
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      // A source that is not shown is the client's to list.
      D3DKMT_PRESENT copy = fill_of(client);
      copy.Flags.ColorFill = 0;
      copy.Flags.Blt = 1;
      copy.hSource = client.make_allocation();
      EXPECT_EQ(client.present(copy), nt_status(Status::kDeviceRemoved));
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
    }
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
  });
}

// A periodic fence, through the thunk: its flags and numbers, and Time in units of 100 ns ahead of
// each vertical sync of its target.
TEST_F(FlipTest, APeriodicFenceIsMadeOfItsNumbers) {
  DXGKIT_COVERS("SYNC-25", "SYNC-01");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const auto make = [&](const std::function<void(D3DKMT_CREATESYNCHRONIZATIONOBJECT2&)>& change,
                          const std::atomic<uint64_t>** value = nullptr) {
      D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
      args.hDevice = client.device;
      args.Info.Type = D3DDDI_PERIODIC_MONITORED_FENCE;
      args.Info.PeriodicMonitoredFence.hAdapter = client.adapter;
      args.Info.PeriodicMonitoredFence.VidPnTargetId = kTarget;
      args.Info.PeriodicMonitoredFence.Time = 40'000;  // 4 ms
      change(args);
      const NTSTATUS status =
          client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); });
      if (value != nullptr) {
        *value = static_cast<const std::atomic<uint64_t>*>(
            args.Info.PeriodicMonitoredFence.FenceValueCPUVirtualAddress);
      }
      return status;
    };
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(make([](auto& args) { args.Info.PeriodicMonitoredFence.EngineAffinity = 2; }),
              kInvalid);
    EXPECT_EQ(make([](auto& args) { args.Info.Flags.Value = 32; }), kInvalid) << "NoWait";
    EXPECT_EQ(make([](auto& args) { args.Info.PeriodicMonitoredFence.VidPnTargetId = 7; }),
              kInvalid);
    EXPECT_EQ(make([](auto& args) { args.Info.PeriodicMonitoredFence.Time = 166'667; }), kInvalid)
        << "more than a frame of 60 Hz";
    EXPECT_EQ(digest(stack, {&client}), before);
    const std::atomic<uint64_t>* value = nullptr;
    ASSERT_EQ(make([](auto&) {}, &value), 0);
    ASSERT_NE(value, nullptr);
    const auto pass = [&](int64_t milliseconds) {
      runtime::Runtime::current().sleep_for(milliseconds * runtime::kMillisecond);
      stack.settle();
    };
    EXPECT_EQ(value->load(), 0U);
    driver.vsync();
    pass(16);
    driver.vsync();
    const uint64_t now = value->load();
    EXPECT_EQ(now, 2U);
    pass(11);
    EXPECT_EQ(value->load(), now);
    pass(2);
    EXPECT_EQ(value->load(), now + 1) << "4 ms before the next";
    pass(3);
    driver.vsync();
    EXPECT_EQ(value->load(), now + 1);
  });
}

// What only drivers of other kinds of present know is refused by name, each alone.
TEST_F(FlipTest, OtherKindsOfPresentAreRefusedByName) {
  DXGKIT_COVERS("DISP-15", "DISP-16");
  using Change = void (*)(D3DKMT_PRESENTFLAGS&);
  const std::pair<const char*, Change> kinds[] = {
      {"FlipStereo", [](auto& f) { f.FlipStereo = 1; }},
      {"FlipStereoTemporaryMono", [](auto& f) { f.FlipStereoTemporaryMono = 1; }},
      {"FlipStereoPreferRight", [](auto& f) { f.FlipStereoPreferRight = 1; }},
      {"BltStereoUseRight", [](auto& f) { f.BltStereoUseRight = 1; }},
      {"PresentToBitmap", [](auto& f) { f.PresentToBitmap = 1; }},
      {"RedirectedFlip", [](auto& f) { f.RedirectedFlip = 1; }},
      {"RedirectedBlt", [](auto& f) { f.RedirectedBlt = 1; }},
      {"PresentHistoryTokenOnly", [](auto& f) { f.PresentHistoryTokenOnly = 1; }},
      {"PresentDDA", [](auto& f) { f.PresentDDA = 1; }},
      {"CrossAdapter", [](auto& f) { f.CrossAdapter = 1; }},
      {"PresentIndirect", [](auto& f) { f.PresentIndirect = 1; }},
      {"PresentHMD", [](auto& f) { f.PresentHMD = 1; }},
      {"RemoteSession", [](auto& f) { f.RemoteSession = 1; }},
      {"FlipDoNotFlip", [](auto& f) { f.FlipDoNotFlip = 1; }},
      {"FlipRestart", [](auto& f) { f.FlipRestart = 1; }},
  };
  flipping([&](Stack& stack, FlipDriver& driver, FlipClient& client) {
    for (const auto& [name, change] : kinds) {
      SCOPED_TRACE(name);
      D3DKMT_PRESENT flip = client.flip_of(client.primaries[1]);
      change(flip.Flags);
      EXPECT_EQ(client.present(flip), nt_status(Status::kInvalidParameter));
    }
    EXPECT_TRUE(driver.presents.empty());
    stack.settle();
    EXPECT_EQ(driver.packets(), 0U);
    EXPECT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    driver.vsync();
  });
}

// A primary is for a source that there is.
TEST_F(FlipTest, APrimaryNamesASource) {
  DXGKIT_COVERS("ALLOC-16");
  for (const uint32_t sources : {1U, 2U}) {
    bare([&](Stack& stack) {
      FlipDriver driver(stack, sources);
      stack.miniport.config.children = sources;
      driver.display.config.children = {{.uid = kTarget}};
      if (sources == 2) driver.display.config.children.push_back({.uid = 2});
      ASSERT_EQ(stack.start(), Status::kSuccess);
      FlipClient client(stack, driver, 0, false);
      D3DKMT_HANDLE primary = 0;
      const Digest before = digest(stack, {&client});
      for (const UINT source : {sources, sources + 1, UINT{D3DDDI_ID_UNINITIALIZED}}) {
        EXPECT_EQ(client.create_primary(kWidth, source, &primary), kInvalid) << source;
        EXPECT_EQ(primary, 0U);
      }
      EXPECT_EQ(digest(stack, {&client}), before);
      EXPECT_EQ(client.create_primary(kWidth, sources - 1, &primary), 0);
    });
  }
}

// While another device's surface is on the screen nobody else copies or fills there.
TEST_F(FlipTest, TheScreenIsTheDevicesThatShowsThere) {
  DXGKIT_COVERS("DISP-15");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    driver.vsync();
    {
      FlipClient other(stack, driver, 0, false);
      EXPECT_EQ(other.present(fill_of(other)), nt_status(Status::kGraphicsAllocationBusy));
      EXPECT_TRUE(driver.presents.empty() || driver.presents.back().args.Flags.ColorFill == 0);
    }
    EXPECT_EQ(client.present(fill_of(client)), 0);
    stack.drive();
    EXPECT_EQ(driver.presents.back().args.Flags.ColorFill, 1U);
  });
}

// A fill goes to the screen of the source it names.
TEST_F(FlipTest, AFillIsOfTheSourceItNames) {
  DXGKIT_COVERS("DISP-15");
  for (const bool shows : {false, true}) {  // else the kernel's own surfaces are on both
    bare([&](Stack& stack) {
      FlipDriver driver(stack, 2);
      stack.miniport.config.children = 2;
      driver.display.config.children = {{.uid = kTarget}, {.uid = 2}};
      ASSERT_EQ(stack.start(), Status::kSuccess);
      FlipClient client(stack, driver, 2, shows);
      std::vector<const void*> filled;
      for (const UINT source : {0U, 1U, 0U, 1U}) {
        D3DKMT_PRESENT args = fill_of(client);
        args.VidPnSourceId = source;
        ASSERT_EQ(client.present(args), 0) << source;
        stack.drive();
        filled.push_back(driver.presents.back().allocations[2].device_handle);
      }
      EXPECT_NE(filled[0], nullptr);
      EXPECT_NE(filled[1], nullptr);
      EXPECT_NE(filled[0], filled[1]);
      EXPECT_EQ(filled[2], filled[0]);
      EXPECT_EQ(filled[3], filled[1]);
    });
  }
}

// A rectangle counts where its flag says so, and then it has to be one.
TEST_F(FlipTest, AFillIsOfTheRectangleItNames) {
  DXGKIT_COVERS("REND-18", "THUNK-05");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    constexpr RECT kSome{8, 16, 40, 24}, kNone{40, 16, 8, 24};
    for (const auto& [rect, named] : {std::pair{kSome, true}, {kSome, false}, {kNone, false}}) {
      D3DKMT_PRESENT args = fill_of(client);
      args.Flags.DstRectValid = named ? 1 : 0;
      args.DstRect = rect;
      ASSERT_EQ(client.present(args), 0);
      stack.drive();
      const RECT told = driver.presents.back().args.DstRect;
      EXPECT_EQ(told.left, named ? 8 : 0);
      EXPECT_EQ(told.top, named ? 16 : 0);
      EXPECT_EQ(told.right == 40, named);
      EXPECT_EQ(told.bottom == 24, named);
    }
    const size_t before = driver.presents.size();
    D3DKMT_PRESENT args = fill_of(client);
    args.Flags.DstRectValid = 1;
    args.DstRect = kNone;
    EXPECT_EQ(client.present(args), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(driver.presents.size(), before);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Formats of the screen and of what is shown there differ in alpha at most.
// Like other monitored fences, a periodic one is shared by NT handles alone, and if it was made for
// that.
TEST_F(FlipTest, APeriodicFenceIsSharedByNtHandlesOnly) {
  DXGKIT_COVERS("SYNC-25", "SYNC-09");
  flipping([](Stack& stack, FlipDriver&, FlipClient& client) {
    constexpr UINT kShared = 1, kNtSecuritySharing = 2;
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
    args.hDevice = client.device;
    args.Info.Type = D3DDDI_PERIODIC_MONITORED_FENCE;
    args.Info.PeriodicMonitoredFence.hAdapter = client.adapter;
    args.Info.PeriodicMonitoredFence.VidPnTargetId = kTarget;
    const auto make = [&](UINT flags) {
      args.Info.Flags.Value = flags;
      return client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); });
    };
    const auto share = [&] {
      HANDLE shared = nullptr;
      const NTSTATUS status = client.call(
          [&] { return D3DKMTShareObjects(1, &args.hSyncObject, nullptr, GENERIC_ALL, &shared); });
      if (shared != nullptr) close(static_cast<int>(reinterpret_cast<intptr_t>(shared)));
      return status;
    };
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(make(kShared), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    ASSERT_EQ(make(0), 0);
    EXPECT_EQ(share(), kInvalid);
    ASSERT_EQ(make(kShared | kNtSecuritySharing), 0);
    EXPECT_EQ(share(), 0);
  });
}

TEST_F(FlipTest, AlphaIsNoOtherFormat) {
  DXGKIT_COVERS("DISP-03", "DISP-14");
  constexpr D3DDDIFORMAT formats[] = {D3DDDIFMT_A8R8G8B8, D3DDDIFMT_X8R8G8B8, D3DDDIFMT_A8B8G8R8,
                                      D3DDDIFMT_X8B8G8R8, D3DDDIFMT_R5G6B5};
  flipping([&](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const D3DDDIFORMAT screen = driver.format;
    ASSERT_TRUE(screen == D3DDDIFMT_A8R8G8B8 || screen == D3DDDIFMT_X8R8G8B8);
    for (const D3DDDIFORMAT format : formats) {
      SCOPED_TRACE(format);
      const bool twin = format == D3DDDIFMT_A8R8G8B8 || format == D3DDDIFMT_X8R8G8B8;
      driver.format = format;
      EXPECT_EQ(client.set_display_mode(client.primaries[0]), twin ? 0 : kInvalid);
      EXPECT_EQ(client.flip(client.primaries[1]),
                twin ? 0 : nt_status(Status::kGraphicsAllocationInvalid));
      stack.settle();
      if (twin) driver.vsync();
    }
    driver.format = screen;
  });
}

// The blank of a screen is waited for with the adapter it is on: a device, if one is named, is of
// that adapter too.
TEST_F(FlipTest, WaitingForABlankTakesADeviceOfItsAdapter) {
  DXGKIT_COVERS("DISP-19");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    const SecondAdapter second(stack);
    FlipClient client(stack, driver);
    const D3DKMT_HANDLE stranger = second.make_device(client);
    const auto wait = [&](D3DKMT_HANDLE device, UINT source) {
      D3DKMT_WAITFORVERTICALBLANKEVENT args{};
      args.hAdapter = client.adapter;
      args.hDevice = device;
      args.VidPnSourceId = source;
      return client.call([&] { return D3DKMTWaitForVerticalBlankEvent(&args); });
    };
    EXPECT_EQ(wait(stranger, 0), kInvalid);
    EXPECT_EQ(wait(client.device, 1), kInvalid) << "nothing is shown there";
    for (const D3DKMT_HANDLE device : {D3DKMT_HANDLE{0}, client.device}) {
      Stack::Background waiting(stack, [&] { EXPECT_EQ(wait(device, 0), 0); });
      EXPECT_FALSE(waiting.finished());
      driver.vsync();
      waiting.finish();
    }
  });
}

/// What the driver says it leaves on the screen, in place of the scripted display's answer.
DXGK_DISPLAY_INFORMATION* g_left = nullptr;
NTSTATUS NTAPI leave(void*, D3DDDI_VIDEO_PRESENT_TARGET_ID target, DXGK_DISPLAY_INFORMATION* left) {
  *left = *g_left;
  left->TargetId = target;
  return STATUS_SUCCESS;
}

// The screen that a driver leaves is rows of pixels inside the BAR that firmware showed, up to its
// last byte, whichever BAR that is.
TEST_F(FlipTest, WhatIsLeftOnTheScreenLiesInItsBar) {
  DXGKIT_COVERS("DOD-08", "LIFE-19");
  struct Row {
    const char* what;
    UINT width, height, pitch;
    int64_t from_start, from_end;  // one of them: of the first pixel
    bool good;
  };
  const Row rows[] = {
      {"all of a small screen", 16, 8, 64, 0x3000, 0, true},
      {"one pixel", 1, 1, 4, 0, 0, true},
      {"to the end", 16, 8, 64, 0, -512, true},
      {"beyond the end", 16, 8, 64, 0, -508, false},
      {"before the start", 16, 8, 64, -4, 0, false},
      {"no width", 0, 8, 64, 0, 0, false},
      {"no height", 16, 0, 64, 0, 0, false},
      {"rows that overlap", 16, 8, 60, 0, 0, false},
  };
  constexpr uint32_t kBar = 1;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    bare([&](Stack& stack) {
      FlipDriver driver(stack);
      driver.more_table = [](DRIVER_INITIALIZATION_DATA& table) {
        table.DxgkDdiStopDeviceAndReleasePostDisplayOwnership = leave;
      };
      const auto caps = stack.miniport.config.caps;
      stack.miniport.config.caps = [caps](DXGK_DRIVERCAPS& out) {
        caps(out);
        out.SupportNonVGA = TRUE;
      };
      ASSERT_EQ(stack.start(), Status::kSuccess);
      bus::PciFunction& function = stack.miniport.function();
      const bus::Bar& bar = function.bars()[kBar];
      const bus::PostDisplay firmware{
          .bar = kBar, .offset_bytes = 0x1000, .width = 8, .height = 8, .pitch_bytes = 32};
      function.set_post_display(firmware);
      DXGK_DISPLAY_INFORMATION left{};
      left.Width = row.width;
      left.Height = row.height;
      left.Pitch = row.pitch;
      left.ColorFormat = D3DDDIFMT_X8R8G8B8;
      const int64_t offset =
          row.from_end == 0 ? row.from_start : static_cast<int64_t>(bar.size) + row.from_end;
      left.PhysicAddress.QuadPart = static_cast<int64_t>(bar.base.value) + offset;
      g_left = &left;
      stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
      g_left = nullptr;
      const auto post = function.post_display();
      ASSERT_TRUE(post.has_value());
      if (row.good) {
        EXPECT_EQ(post->bar, kBar);
        EXPECT_EQ(static_cast<int64_t>(post->offset_bytes), offset);
        EXPECT_EQ(post->width, row.width);
        EXPECT_EQ(post->height, row.height);
        EXPECT_EQ(post->pitch_bytes, row.pitch);
        EXPECT_EQ(post->target_id, kTarget);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      } else {
        EXPECT_EQ(*post, firmware) << "unchanged";
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"DOD-08"});
      }
    });
  }
}

// A primary that finds no place while the processor holds all memory is not shown: what was on the
// screen is still there.
TEST_F(FlipTest, AModeWhosePrimaryFindsNoPlaceIsNotSet) {
  DXGKIT_COVERS("DISP-11", "DOD-03");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    stack.miniport.config.segments[0].size = kMebibyte;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      Client client(stack);
      const uint64_t shown = driver.last_address();
      const size_t told = driver.addresses().size();
      const D3DKMT_HANDLE greedy = client.make_allocation({.size = kMebibyte - 16 * kKibibyte,
                                                           .supported_read = 1,
                                                           .supported_write = 1,
                                                           .flags = 1});
      ContextBuffers context = client.make_context();
      ASSERT_EQ(client.render(context, work_on({greedy})), 0);
      stack.drive();
      void* address = nullptr;
      ASSERT_EQ(client.lock(greedy, &address), 0);
      driver.made = 32;
      dxgk::Displays displays(*stack.system);
      EXPECT_EQ(displays.set_mode(stack.luid, 0, {32, 32}), Status::kGraphicsAllocationBusy);
      EXPECT_EQ(driver.addresses().size(), told);
      EXPECT_EQ(driver.last_address(), shown);
      EXPECT_EQ(client.unlock(greedy), 0);
      EXPECT_EQ(displays.set_mode(stack.luid, 0, {32, 32}), Status::kSuccess);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"DOD-03"});
  });
}

// A flip whose primary finds no place for now waits for one, as any other work.
TEST_F(FlipTest, AFlipWaitsForAPlaceForItsPrimary) {
  DXGKIT_COVERS("DISP-07");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    stack.miniport.config.segments[0].size = kMebibyte;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver);
      constexpr uint64_t kPrimary = 16 * kKibibyte;  // one of them is on the screen
      void* address = nullptr;
      D3DKMT_HANDLE greedy[2] = {};
      for (const uint64_t size : {kMebibyte - 2 * kPrimary, kPrimary}) {
        D3DKMT_HANDLE& one = greedy[size == kPrimary ? 1 : 0];
        one = client.make_allocation(
            {.size = size, .supported_read = 1, .supported_write = 1, .flags = 1});
        ASSERT_EQ(client.render(client.context, work_on({one})), 0);
        stack.drive();
        ASSERT_EQ(client.lock(one, &address), 0);
      }
      const size_t told = driver.addresses().size();
      NTSTATUS status = 1;
      {
        Stack::Background flipping(stack, [&] { status = client.flip(client.primaries[1]); });
        EXPECT_FALSE(flipping.finished());
        EXPECT_EQ(driver.addresses().size(), told);
        EXPECT_EQ(client.unlock(greedy[1]), 0);
        flipping.finish();
      }
      EXPECT_EQ(status, 0);
      stack.drive();
      EXPECT_EQ(driver.addresses().size(), told + 1);
      driver.vsync();
      EXPECT_EQ(client.unlock(greedy[0]), 0);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// A primary is an allocation like any other: the driver may have no memory for it. Any other
// failure is the driver's mistake. What was on the screen is still there.
TEST_F(FlipTest, AModeWhosePrimaryCannotBeMadeIsNotSet) {
  DXGKIT_COVERS("DOD-03");
  const std::pair<NTSTATUS, std::vector<std::string>> rows[] = {
      {STATUS_NO_MEMORY, {}}, {STATUS_INVALID_PARAMETER, {"DOD-03"}}};
  for (const auto& row : rows) {
    bare([&row](Stack& stack) {
      const auto& [answer, rules] = row;
      FlipDriver driver(stack);
      ASSERT_EQ(stack.start(), Status::kSuccess);
      const uint64_t shown = driver.last_address();
      driver.made = 32;
      const auto make =
          std::exchange(stack.miniport.hooks.create_allocation,
                        [status = answer](DXGKARG_CREATEALLOCATION*) { return status; });
      dxgk::Displays displays(*stack.system);
      EXPECT_EQ(nt_status(displays.set_mode(stack.luid, 0, {32, 32})), answer);
      EXPECT_EQ(driver.last_address(), shown);
      stack.miniport.hooks.create_allocation = make;
      stack.blocking([&] {
        EXPECT_EQ(displays.set_mode(stack.luid, 0, {32, 32}), Status::kSuccess);
      });
      EXPECT_EQ(stack.rules(), rules);
    });
  }
}

// The commit that takes a source off the screen names the primary that is still there.
TEST_F(FlipTest, ACommitThatHidesASourceNamesItsPrimary) {
  DXGKIT_COVERS("DOD-06", "DISP-03");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    const DXGKARG_COMMITVIDPN shown = driver.display.calls().commits.back();
    ASSERT_NE(shown.hPrimaryAllocation, nullptr);
    {
      const DXGKRNL_INTERFACE& kernel = stack.miniport.callbacks();
      DXGK_CHILD_STATUS gone{};
      gone.Type = StatusConnection;
      gone.ChildUid = kTarget;
      const nt::CallFrame frame(stack.kernel, "host", nt::kPassiveLevel);
      const auto indicate = kernel.DxgkCbIndicateChildStatus;
      EXPECT_EQ(indicate(kernel.DeviceHandle, &gone), STATUS_SUCCESS);
    }
    dxgk::Displays displays(*stack.system);
    stack.blocking([&] { EXPECT_EQ(displays.wait_for_hot_plug(stack.luid), Status::kSuccess); });
    const DisplayCalls calls = driver.display.calls();
    ASSERT_EQ(calls.commits.size(), 2U);
    EXPECT_EQ(calls.shown.back().width, 0U);
    EXPECT_EQ(calls.commits.back().AffectedVidPnSourceId, 0U);
    EXPECT_EQ(calls.commits.back().hPrimaryAllocation, shown.hPrimaryAllocation);
  });
}

}  // namespace
}  // namespace dxgkit::contract
