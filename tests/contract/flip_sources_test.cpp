// Flips of the second source, presents that never ran, flips under the switch that cuts everywhere.
#include "dxgk/core/verifier_switches.h"
#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

const RECT kAll{0, 0, kWidth, kHeight};

// A flip by DMA buffer names its source, which is not always the first.
TEST_F(FlipTest, AFlipOfTheSecondSourceSaysSo) {
  DXGKIT_COVERS("SUB-15", "SUB-16");
  bare([](Stack& stack) {
    FlipDriver driver(stack, 2);
    stack.miniport.config.children = 2;
    driver.display.config.children = {{.uid = kTarget}, {.uid = 2}};
    driver.mmio = false;
    driver.intervals = true;
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
      ASSERT_EQ(driver.packets(), 1U);
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
    for (int i = 0; i < 2; ++i) EXPECT_EQ(fill(client.context.handle), 0) << i;
    stack.drive();
  });
}

// What is cut flips once, with its last part.
TEST_F(FlipTest, TheLastPartFlips) {
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

}  // namespace
}  // namespace dxgkit::contract
