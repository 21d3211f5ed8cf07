// Flips and presents where an interval, a part or a list makes the difference; periodic fences as a
// client makes them.
#include <atomic>

#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

const auto kInvalid = nt_status(Status::kInvalidParameter);
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

}  // namespace
}  // namespace dxgkit::contract
