// D3DKMTPresent: which arguments go together, copies and fills, who owns a source.
#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;

const RECT kAll{0, 0, kWidth, kHeight};

D3DKMT_PRESENT fill_of(const FlipClient& client, const RECT* rects, UINT count) {
  D3DKMT_PRESENT args{};
  args.hContext = client.context.handle;
  args.Flags.ColorFill = 1;
  args.Color = 0xFF336699;
  args.SubRectCnt = count;
  args.pSrcSubRects = rects;
  return args;
}

D3DKMT_PRESENT blt_of(const FlipClient& client, D3DKMT_HANDLE source, const RECT* rects,
                      UINT count) {
  D3DKMT_PRESENT args = fill_of(client, rects, count);
  args.Flags.ColorFill = 0;
  args.Flags.Blt = 1;
  args.hSource = source;
  return args;
}

/// Refused, and nothing has changed.
void refused(FlipClient& client, const char* what,
             const std::function<void(D3DKMT_PRESENT&)>& spoil, const D3DKMT_PRESENT& good,
             NTSTATUS status = kInvalid) {
  D3DKMT_PRESENT args = good;
  spoil(args);
  const Digest before = digest(client.stack, {&client});
  EXPECT_EQ(client.present(args), status) << what;
  EXPECT_EQ(digest(client.stack, {&client}), before) << what;
}

TEST_F(FlipTest, FlagsOfFlipsExcludeOthers) {
  DXGKIT_COVERS("DISP-14", "REND-19");
  flipping([](Stack&, FlipDriver&, FlipClient& client) {
    const D3DKMT_PRESENT good = client.flip_of(client.primaries[1]);
    const auto no = [&](const char* what, const std::function<void(D3DKMT_PRESENT&)>& spoil,
                        NTSTATUS status = kInvalid) { refused(client, what, spoil, good, status); };
    no("nothing", [](auto& a) { a.Flags.Flip = 0; });
    no("fill", [](auto& a) { a.Flags.ColorFill = 1; });
    no("blt", [](auto& a) { a.Flags.Blt = 1; });
    no("source key", [](auto& a) { a.Flags.SrcColorKey = 1; });
    no("destination key", [](auto& a) { a.Flags.DstColorKey = 1; });
    no("source rect", [](auto& a) { a.Flags.SrcRectValid = 1; });
    no("destination rect", [](auto& a) { a.Flags.DstRectValid = 1; });
    no("rotate", [](auto& a) { a.Flags.Rotate = 1; });
    no("restrict", [](auto& a) { a.Flags.RestrictVidPnSource = 1; });
    no("reserved", [](auto& a) { a.Flags.Reserved = 1; });
    no("no source", [](auto& a) { a.hSource = 0; });
    no("another source", [](auto& a) { a.VidPnSourceId = 1; });
    no("context", [](auto& a) { a.hContext ^= 0x40; });
    no("broadcast", [](auto& a) { a.BroadcastContextCount = 65; });
    no("broadcast to itself", [&](auto& a) {
      a.BroadcastContextCount = 1;
      a.BroadcastContext[0] = a.hContext;
    });
    no(
        "stereo", [](auto& a) { a.Flags.FlipStereo = 1; }, nt_status(Status::kInvalidParameter));
    const D3DKMT_HANDLE texture = client.make_allocation();
    no("no primary", [&](auto& a) { a.hSource = texture; });
    const D3DKMT_HANDLE other = client.make_device();
    D3DKMT_HANDLE theirs = 0;
    ASSERT_EQ(client.create_allocation({}, &theirs, other), 0);
    no("another device's", [&](auto& a) { a.hSource = theirs; });
  });
}

TEST_F(FlipTest, AFlipNeedsAnOwnerWhoHasSetTheMode) {
  DXGKIT_COVERS("DISP-14", "DISP-19");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    FlipClient client(stack, driver, 2, /*shows=*/false);
    EXPECT_EQ(client.flip(client.primaries[1]), kInvalid);
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.set_display_mode(client.primaries[0]),
              nt_status(Status::kGraphicsNotExclusiveModeOwner));
    EXPECT_EQ(digest(stack, {&client}), before);
    ASSERT_EQ(client.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE), 0);
    EXPECT_EQ(client.flip(client.primaries[1]), kInvalid) << "no SetDisplayMode yet";
    EXPECT_EQ(client.set_display_mode(client.primaries[0]), 0);
    EXPECT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    driver.vsync();
  });
}

TEST_F(FlipTest, CopiesAndFillsNeedTheirRects) {
  DXGKIT_COVERS("DISP-15", "DISP-16", "REND-19");
  flipping([](Stack&, FlipDriver&, FlipClient& client) {
    const D3DKMT_HANDLE texture = client.make_allocation();
    const D3DKMT_PRESENT fill = fill_of(client, &kAll, 1);
    const auto no_fill = [&](const char* what, const std::function<void(D3DKMT_PRESENT&)>& spoil) {
      refused(client, what, spoil, fill);
    };
    no_fill("no rects", [](auto& a) { a.SubRectCnt = 0; });
    no_fill("null rects", [](auto& a) { a.pSrcSubRects = nullptr; });
    no_fill("blt", [](auto& a) { a.Flags.Blt = 1; });
    no_fill("key", [](auto& a) { a.Flags.DstColorKey = 1; });
    no_fill("source rect", [](auto& a) { a.Flags.SrcRectValid = 1; });
    no_fill("do not wait", [](auto& a) { a.Flags.FlipDoNotWait = 1; });
    no_fill("destination", [&](auto& a) { a.hDestination = client.primaries[1]; });
    const D3DKMT_PRESENT blt = blt_of(client, texture, &kAll, 1);
    const auto no_blt = [&](const char* what, const std::function<void(D3DKMT_PRESENT&)>& spoil) {
      refused(client, what, spoil, blt);
    };
    no_blt("no rects", [](auto& a) { a.SubRectCnt = 0; });
    no_blt("no source", [](auto& a) { a.hSource = 0; });
    no_blt("flip", [](auto& a) { a.Flags.Flip = 1; });
    no_blt("restart", [](auto& a) { a.Flags.FlipRestart = 1; });
    no_blt("both keys", [](auto& a) { a.Flags.SrcColorKey = a.Flags.DstColorKey = 1; });
    const RECT empty{4, 4, 4, 8};
    no_blt("empty rect", [&](auto& a) { a.pSrcSubRects = &empty; });
    for (const RECT& bad : {empty, RECT{0, 0, -1, 8}, RECT{0, 9, 8, 8}}) {
      no_blt("no destination rect", [&](auto& a) { a.Flags.DstRectValid = 1, a.DstRect = bad; });
      no_blt("no source rect", [&](auto& a) { a.Flags.SrcRectValid = 1, a.SrcRect = bad; });
    }
    no_blt("destination without source rect",
           [&](auto& a) { a.hDestination = client.primaries[1]; });
    no_blt("no primary", [&](auto& a) {
      a.Flags.SrcRectValid = 1;
      a.SrcRect = kAll;
      a.hDestination = client.make_allocation();
    });
    no_blt("onto itself", [&](auto& a) {
      a.Flags.SrcRectValid = 1;
      a.SrcRect = kAll;
      a.hDestination = a.hSource = client.primaries[1];
    });
  });
}

TEST_F(FlipTest, AFillHasNoSource) {
  DXGKIT_COVERS("DISP-15");
  flipping([](Stack&, FlipDriver& driver, FlipClient& client) {
    const D3DKMT_HANDLE texture = client.make_allocation();
    refused(
        client, "source", [&](auto& a) { a.hSource = texture; }, fill_of(client, &kAll, 1));
    EXPECT_TRUE(driver.presents.empty());
  });
}

TEST_F(FlipTest, ACopyIsAPacketWithTheThreeEntries) {
  DXGKIT_COVERS("REND-17", "REND-18", "SUB-21", "REND-01");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const D3DKMT_HANDLE texture = client.make_allocation();
    const RECT rects[] = {{-5, -5, 10, 10}, {60, 60, 80, 80}, {100, 100, 120, 120}};
    ASSERT_EQ(client.present(blt_of(client, texture, rects, 3)), 0);
    stack.drive();
    ASSERT_EQ(driver.presents.size(), 1U);
    const PresentCall& call = driver.presents[0];
    EXPECT_EQ(call.args.Flags.Value, 1U);
    EXPECT_NE(call.args.pDmaBuffer, nullptr);
    EXPECT_EQ(call.allocations[0].device_handle, nullptr);
    EXPECT_NE(call.allocations[1].device_handle, nullptr);
    EXPECT_NE(call.allocations[2].device_handle, nullptr);
    EXPECT_FALSE(call.allocations[1].write());
    EXPECT_TRUE(call.allocations[2].write());
    ASSERT_EQ(call.sub_rects.size(), 2U) << "clipped to the screen";
    EXPECT_EQ(call.sub_rects[0].left, 0);
    EXPECT_EQ(call.sub_rects[0].right, 10);
    EXPECT_EQ(call.sub_rects[1].bottom, 64);
    const auto submits = stack.miniport.calls().submits;
    ASSERT_FALSE(submits.empty());
    const DXGKARG_SUBMITCOMMAND& submit = submits.back().args;
    EXPECT_EQ(submit.Flags.Present, 1U);
    EXPECT_EQ(submit.Flags.Flip, 0U);
    EXPECT_EQ(submit.VidPnSourceId, D3DDDI_ID_UNINITIALIZED);
    const auto patch = stack.miniport.calls().patches.back();
    EXPECT_EQ(patch.allocations[2].segment(), 1U) << "the screen's";
    // One key is taken, whichever it is.
    for (const bool of_source : {true, false}) {
      D3DKMT_PRESENT keyed = blt_of(client, texture, rects, 1);
      (of_source ? keyed.Flags.SrcColorKey : keyed.Flags.DstColorKey) = 1;
      ASSERT_EQ(client.present(keyed), 0);
      stack.drive();
      EXPECT_EQ(driver.presents.back().args.Flags.SrcColorKey, of_source ? 1U : 0U);
      EXPECT_EQ(driver.presents.back().args.Flags.DstColorKey, of_source ? 0U : 1U);
    }
    // Rectangles of its own: the destination's limits the parts, and the source's goes along.
    D3DKMT_PRESENT part = blt_of(client, texture, rects, 2);
    part.Flags.DstRectValid = part.Flags.SrcRectValid = 1;
    part.DstRect = {2, 3, 32, 62};
    part.SrcRect = {1, 1, 31, 60};
    ASSERT_EQ(client.present(part), 0);
    stack.drive();
    EXPECT_EQ(std::memcmp(&driver.presents.back().args.DstRect, &part.DstRect, sizeof(RECT)), 0);
    EXPECT_EQ(std::memcmp(&driver.presents.back().args.SrcRect, &part.SrcRect, sizeof(RECT)), 0);
    ASSERT_EQ(driver.presents.back().sub_rects.size(), 1U);
    const RECT clipped{2, 3, 10, 10};
    EXPECT_EQ(std::memcmp(driver.presents.back().sub_rects.data(), &clipped, sizeof(RECT)), 0);
    driver.presents.resize(1);
    // A fill has no source.
    ASSERT_EQ(client.present(fill_of(client, &kAll, 1)), 0);
    stack.drive();
    EXPECT_EQ(driver.presents[1].allocations[1].device_handle, nullptr);
    EXPECT_EQ(driver.presents[1].args.Color, 0xFF336699U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// The list is the kernel's from the first present on, also before anybody else has used the memory.
TEST_F(FlipTest, TheFirstUseOfAnAdapterMayBeAFill) {
  DXGKIT_COVERS("REND-17");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver, 0, false);
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(client.present(fill_of(client, &kAll, 1)), 0);
        stack.drive();
        ASSERT_EQ(driver.presents.size(), size_t{1} + static_cast<size_t>(i));
        const port::AllocationListEntry& screen = driver.presents.back().allocations[2];
        EXPECT_NE(screen.device_handle, nullptr);
        EXPECT_EQ(screen.physical_address, driver.last_address());
        EXPECT_TRUE(screen.write());
      }
    }
  });
}

TEST_F(FlipTest, APresentInPartsIsSeveralPackets) {
  DXGKIT_COVERS("REND-18", "REND-09");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    driver.on_present = [&](DXGKARG_PRESENT* args) {
      const UINT part = args->MultipassOffset;
      EXPECT_EQ(args->SubRectCnt, 3U) << "the whole list each time";
      const NTSTATUS status = FlipDriver::write_part(args, 32 + part * 16);
      args->MultipassOffset = part + 1;
      return part == 2 ? status : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    };
    const RECT rects[] = {{0, 0, 8, 8}, {8, 0, 16, 8}, {16, 0, 24, 8}};
    ASSERT_EQ(client.present(fill_of(client, rects, 3)), 0);
    stack.drive();
    ASSERT_EQ(driver.presents.size(), 3U);
    std::vector<UINT> ends;
    for (const auto& submit : stack.miniport.calls().submits) {
      if (submit.args.Flags.Present != 0) ends.push_back(submit.args.DmaBufferSubmissionEndOffset);
    }
    EXPECT_THAT(ends, ElementsAre(32U, 48U, 64U));
    // Without progress it is the driver's fault.
    driver.on_present = [](DXGKARG_PRESENT*) { return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER; };
    EXPECT_EQ(client.present(fill_of(client, rects, 3)), kInvalid);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"REND-09"});
  });
}

TEST_F(FlipTest, ADriversFailureIsTheCallers) {
  DXGKIT_COVERS("REND-15", "REND-16");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    for (const NTSTATUS status : {STATUS_NO_MEMORY, STATUS_GRAPHICS_CANNOTCOLORCONVERT}) {
      driver.on_present = [&](DXGKARG_PRESENT*) { return status; };
      EXPECT_EQ(client.flip(client.primaries[1]), status);
      EXPECT_EQ(client.present(fill_of(client, &kAll, 1)), status);
    }
    driver.on_present = [](DXGKARG_PRESENT*) { return STATUS_UNSUCCESSFUL; };
    EXPECT_EQ(client.flip(client.primaries[1]), kInvalid);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"REND-16"});
    driver.on_present = nullptr;
    EXPECT_EQ(client.flip(client.primaries[1]), 0) << "nothing is left of those";
    stack.settle();
    driver.vsync();
    driver.on_present = [](DXGKARG_PRESENT*) { return STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE; };
    EXPECT_EQ(client.flip(client.primaries[2]), STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    EXPECT_EQ(client.flip(client.primaries[2]), nt_status(Status::kDeviceRemoved));
  });
}

TEST_F(FlipTest, AGpuExceptionInAFillLosesTheDevice) {
  DXGKIT_COVERS("REND-15");
  flipping([](Stack&, FlipDriver& driver, FlipClient& client) {
    driver.on_present = [](DXGKARG_PRESENT*) { return STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE; };
    EXPECT_EQ(client.present(fill_of(client, &kAll, 1)), STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
  });
}

// In a fill it is the driver that asks for more and more; it is told how often, and where it stood.
TEST_F(FlipTest, AFillWithoutProgressIsStopped) {
  DXGKIT_COVERS("REND-09", "REND-18");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    uint32_t passes = 0;
    driver.on_present = [&](DXGKARG_PRESENT* args) {
      if (++passes == 1) args->MultipassOffset = 5;
      return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    };
    EXPECT_EQ(client.present(fill_of(client, &kAll, 1)), kInvalid);
    EXPECT_EQ(passes, 3U);
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "REND-09");
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    EXPECT_EQ(finding.ddi, "DxgkDdiPresent");
    EXPECT_EQ(finding.actual,
              "It asked for another DMA buffer 2 times without writing anything or moving "
              "MultipassOffset (5).");
    // Progress of either kind forgives the pass before.
    passes = 0;
    driver.on_present = [&](DXGKARG_PRESENT* args) -> NTSTATUS {
      ++passes;
      if (passes == 2) args->MultipassOffset += 3;
      if (passes == 4) args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 16;
      return passes == 6 ? FlipDriver::write_part(args, 32)
                         : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    };
    EXPECT_EQ(client.present(fill_of(client, &kAll, 1)), 0);
    EXPECT_EQ(passes, 6U);
    driver.on_present = nullptr;
    stack.drive();
  });
}

TEST_F(FlipTest, PresentsOverTheLimitBlock) {
  DXGKIT_COVERS("SCHED-16");
  flipping([](Stack& stack, FlipDriver&, FlipClient& client) {
    ASSERT_EQ(client.limit(2, 0), 0);
    for (int i = 0; i < 2; ++i) ASSERT_EQ(client.present(fill_of(client, &kAll, 1)), 0);
    Stack::Background third(stack,
                            [&] { EXPECT_EQ(client.present(fill_of(client, &kAll, 1)), 0); });
    EXPECT_FALSE(third.finished());
    third.finish();
    stack.drive();
  });
}

TEST_F(FlipTest, AnOwnedSourceIsRefused) {
  DXGKIT_COVERS("DISP-18");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    FlipClient first(stack, driver, 0, false);
    FlipClient second(stack, driver, 0, false);
    const auto exclusive = [&] {
      D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP check{};
      check.hAdapter = second.adapter;
      return second.call([&] { return D3DKMTCheckVidPnExclusiveOwnership(&check); });
    };
    EXPECT_EQ(exclusive(), 0);
    EXPECT_EQ(first.own(D3DKMT_VIDPNSOURCEOWNER_SHARED), STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE);
    EXPECT_EQ(first.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVEGDI), kInvalid);
    EXPECT_EQ(first.own(static_cast<D3DKMT_VIDPNSOURCEOWNER_TYPE>(5)), kInvalid);
    EXPECT_EQ(first.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE, 1),
              STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE);
    EXPECT_EQ(exclusive(), 0) << "nothing of that";
    // Without sources there are no lists either.
    D3DKMT_VIDPNSOURCEOWNER_TYPE wanted = D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE;
    UINT source = 0;
    for (const bool types : {true, false}) {
      D3DKMT_SETVIDPNSOURCEOWNER args{};
      args.hDevice = first.device;
      args.pType = types ? &wanted : nullptr;
      args.pVidPnSourceId = types ? nullptr : &source;
      NTSTATUS status = 0;
      stack.blocking(
          [&] { status = first.call([&] { return D3DKMTSetVidPnSourceOwner(&args); }); });
      EXPECT_EQ(status, kInvalid);
    }
    EXPECT_EQ(first.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE), 0);
    EXPECT_EQ(exclusive(), STATUS_GRAPHICS_PRESENT_OCCLUDED);
    EXPECT_EQ(first.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE), 0) << "again";
    EXPECT_EQ(first.own(D3DKMT_VIDPNSOURCEOWNER_EMULATED), kInvalid);
    EXPECT_EQ(first.own(D3DKMT_VIDPNSOURCEOWNER_SHARED), kInvalid);
    for (const auto type : {D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE, D3DKMT_VIDPNSOURCEOWNER_EMULATED})
      EXPECT_EQ(second.own(type), STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE);
    EXPECT_EQ(second.own(D3DKMT_VIDPNSOURCEOWNER_UNOWNED), 0) << "nothing of its own";
    EXPECT_EQ(exclusive(), STATUS_GRAPHICS_PRESENT_OCCLUDED);
    EXPECT_EQ(first.disown(), 0);
    EXPECT_EQ(exclusive(), 0);
    EXPECT_EQ(second.own(D3DKMT_VIDPNSOURCEOWNER_EMULATED), 0);
    EXPECT_EQ(exclusive(), 0);
    EXPECT_EQ(second.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE), kInvalid);
    EXPECT_EQ(first.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE), STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE);
    EXPECT_EQ(second.destroy_device(second.device), 0) << "its end gives it up";
    second.device = 0;
    EXPECT_EQ(first.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE), 0);
  });
}

TEST_F(FlipTest, AnOldPrimaryIsInvalidAfterAModeChange) {
  DXGKIT_COVERS("DISP-17", "DISP-03");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    D3DKMT_GETSHAREDPRIMARYHANDLE shared{};
    shared.hAdapter = client.adapter;
    ASSERT_EQ(client.call([&] { return D3DKMTGetSharedPrimaryHandle(&shared); }), 0);
    D3DDDI_OPENALLOCATIONINFO opened{};
    std::byte total[sizeof(ScriptedAllocation)];
    D3DKMT_OPENRESOURCE open{};
    open.hDevice = client.device;
    open.hGlobalShare = shared.hSharedPrimary;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo = &opened;
    open.pTotalPrivateDriverDataBuffer = total;
    open.TotalPrivateDriverDataBufferSize = sizeof total;
    ASSERT_EQ(client.call([&] { return D3DKMTOpenResource(&open); }), 0);
    dxgk::Displays displays(*stack.system);
    driver.made = 32;
    stack.blocking([&] {
      EXPECT_EQ(displays.set_mode(stack.luid, 0, {32, 32}), Status::kSuccess);
    });
    const NTSTATUS invalid = nt_status(Status::kGraphicsAllocationInvalid);
    EXPECT_EQ(client.render(client.context, work_on({opened.hAllocation})), invalid);
    EXPECT_EQ(client.flip(opened.hAllocation), invalid);
    // The client's own do not fit any more; with the old mode they do.
    driver.made = kWidth;
    EXPECT_EQ(client.flip(client.primaries[1]), kInvalid) << "the mode is not its own";
    EXPECT_EQ(client.set_display_mode(client.primaries[1]), 0);
    EXPECT_EQ(client.flip(client.primaries[2]), 0);
    stack.settle();
    driver.vsync();
    driver.made = 32;
    EXPECT_EQ(client.flip(client.primaries[0]), invalid) << "it does not fit";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(FlipTest, BroadcastContextsAllHaveToBeThere) {
  DXGKIT_COVERS("DISP-02");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    ContextBuffers other = client.make_context();
    ASSERT_EQ(client.render(other, work_on({client.make_allocation()})), 0);
    D3DKMT_PRESENT args = client.flip_of(client.primaries[1]);
    args.BroadcastContextCount = 1;
    args.BroadcastContext[0] = other.handle;
    const size_t before = driver.addresses().size();
    ASSERT_EQ(client.present(args), 0);
    stack.settle();
    EXPECT_EQ(driver.addresses().size(), before);
    stack.drive();
    ASSERT_EQ(driver.addresses().size(), before + 1);
    EXPECT_EQ(driver.addresses().back().ContextCount, 2U);
    EXPECT_NE(driver.addresses().back().Context[0], driver.addresses().back().Context[1]);
    driver.vsync();
    stack.drive();
  });
}

// A copy between two surfaces, too, is of the screen that it names.
TEST_F(FlipTest, ACopyNamesAScreenThatThereIs) {
  DXGKIT_COVERS("DISP-16");
  flipping([](Stack&, FlipDriver&, FlipClient& client) {
    D3DKMT_PRESENT good = blt_of(client, client.primaries[1], &kAll, 1);
    good.hDestination = client.primaries[2];
    for (const UINT source : {1U, 77U, ~0U})
      refused(
          client, "no such source", [&](auto& a) { a.VidPnSourceId = source; }, good);
  });
}

}  // namespace
}  // namespace dxgkit::contract
