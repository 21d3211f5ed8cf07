// Hardware queues beyond the first: whose fault it is, which value, what a submission needs.
#include <optional>

#include "tests/contract/hw_fixture.h"
#include "tests/support/scripted_native_fences.h"

namespace dxgkit::contract {
namespace {

using HwQueueEdgesTest = HwTest;

/// With native fences, too.
class NativeHwStack : public HwStack {
 public:
  NativeHwStack()
      : HwStack(GpuVaConfig::gpu_physical_four_level()), native(std::in_place, miniport, gpu) {}
  ~NativeHwStack() {
    hw.paused = false;
    blocking([&] { system.reset(); });
    driver.reset();
    native.reset();
  }
  std::optional<testing::ScriptedNativeFences> native;
};

// A signal of native fences says whether fences of the old kind are to be looked at, and so do
// those of hardware queues: what the driver does not say it has not finished.
TEST_F(HwQueueEdgesTest, ASignalOfNativeFencesSaysWhetherQueuesAreLookedAt) {
  DXGKIT_COVERS("SYNC-34", "INT-24");
  const auto runtime = runtime::make_sim_runtime({.seed = 1, .stack_bytes = 512 * 1024});
  runtime->run_main([&] {
    NativeHwStack stack;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(queue), 0);
    stack.settle();
    ASSERT_TRUE(stack.hw.run_next(*stack.hw.queues[0], /*interrupt=*/false));
    const uint64_t before = stack.statistics().packets_completed;
    for (const bool legacy_too : {false, true}) {
      EXPECT_TRUE(stack.native->interrupt(nullptr, 0, legacy_too));
      stack.settle();
      EXPECT_EQ(stack.statistics().packets_completed, before + (legacy_too ? 1 : 0));
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Values are counted per queue, so two queues may have the same on hardware: the handle tells whose
// fault it is, and the value which work it was.
TEST_F(HwQueueEdgesTest, AFaultIsOfTheQueueAndTheValueItNames) {
  DXGKIT_COVERS("INT-16", "INT-11");
  running([](HwStack& stack) {
    HwClient fine(stack, "fine"), guilty(stack, "guilty");
    ClientQueue first = fine.make_hw_queue(), second = guilty.make_hw_queue();
    stack.hw.paused = true;
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(fine.submit(first), 0);
      ASSERT_EQ(guilty.submit(second), 0);
    }
    ASSERT_TRUE(stack.hw.run_next(*stack.hw.queues[1], /*interrupt=*/false));
    stack.hw.queues[1]->ring.clear();
    const auto before = stack.statistics();
    stack.hw.page_fault(*stack.hw.queues[1], 2);
    stack.settle();
    EXPECT_EQ(stack.statistics().packets_completed - before.packets_completed, 1U);
    EXPECT_EQ(stack.statistics().packets_faulted - before.packets_faulted, 1U);
    EXPECT_EQ(guilty.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    EXPECT_EQ(fine.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    stack.hw.paused = false;
    stack.drive();
    EXPECT_EQ(*first.cpu, 2U);
  });
}

TEST_F(HwQueueEdgesTest, AWrittenPrimaryIsResidentOrTheDevicePays) {
  DXGKIT_COVERS("RES-26");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    const D3DKMT_HANDLE there = client.make_allocation(kPage, kMemorySet);
    const D3DKMT_HANDLE away = client.make_allocation(kPage, kMemorySet);
    client.list({there});
    stack.drive();
    const D3DKMT_HANDLE primaries[] = {there, away};
    D3DKMT_SUBMITCOMMANDTOHWQUEUE args = client.submit_args(queue);
    args.NumPrimaries = 1;
    args.WrittenPrimaries = primaries;
    ASSERT_EQ(client.submit(args), 0);
    stack.drive();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    args = client.submit_args(queue);
    args.NumPrimaries = 2;
    args.WrittenPrimaries = primaries;
    EXPECT_EQ(client.submit(args), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
    EXPECT_EQ(stack.hw.submissions.size(), 1U);
  });
}

// What is looked at before it is queued comes with the fence value it will signal.
TEST_F(HwQueueEdgesTest, TheDriverIsShownTheFenceValue) {
  DXGKIT_COVERS("SUB-34");
  std::vector<DXGKARG_VALIDATESUBMITCOMMAND> shown;
  running(
      [&](HwStack& stack) {
        HwClient client(stack);
        static_cast<void>(client.make_hw_queue());
        ClientQueue queue = client.make_hw_queue();
        std::vector<std::byte> data(24, std::byte{0x3C});
        D3DKMT_SUBMITCOMMANDTOHWQUEUE args = client.submit_args(queue);
        args.HwQueueProgressFenceId = queue.next = 0x1'0000'0007;
        args.pPrivateDriverData = data.data();
        args.PrivateDriverDataSize = 24;
        ASSERT_EQ(client.submit(args), 0);
        ASSERT_EQ(shown.size(), 1U);
        EXPECT_EQ(shown[0].HwQueueProgressFenceId, 0x1'0000'0007U);
        EXPECT_EQ(shown[0].Flags.HardwareQueueSubmission, 1U);
        EXPECT_EQ(shown[0].ContextCount, 1U);
        EXPECT_EQ(shown[0].Context[0], stack.hw.queues[1].get());
        EXPECT_EQ(shown[0].Commands, client.va);
        EXPECT_EQ(shown[0].PrivateDriverDataSize, 24U);
        stack.drive();
      },
      [&](HwStack& stack) {
        stack.gpu.on_validate = [&](DXGKARG_VALIDATESUBMITCOMMAND* args) -> NTSTATUS {
          shown.push_back(*args);
          return 0;
        };
        stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_6;
      });
}

// After a failure nobody is alone with the driver, and nobody asks it for contexts.
TEST_F(HwQueueEdgesTest, AStoppedAdapterIsNobodysAlone) {
  DXGKIT_COVERS("IRQL-11", "SCHED-19");
  running([](HwStack& stack) {
    HwClient client(stack);
    static_cast<void>(client.make_hw_queue());
    stack.hw.page_fault(*stack.hw.queues[0], 3);  // of no work: fatal
    stack.settle();
    ASSERT_EQ(stack.only_finding().rule, "INT-11");
    stack.expect_leaks = true;
    std::vector<NTSTATUS> told;
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    {
      const nt::CallFrame frame(stack.kernel, "a thread of the driver", nt::kPassiveLevel);
      static_cast<void>(callbacks.DxgkCbExcludeAdapterAccess(
          callbacks.DeviceHandle, 0,
          [](void*, void* context, NTSTATUS status)
              NTAPI { static_cast<std::vector<NTSTATUS>*>(context)->push_back(status); },
          &told));
    }
    runtime::Runtime::current().sleep_for(10 * runtime::kMillisecond);
    stack.settle();
    EXPECT_EQ(told, std::vector<NTSTATUS>{nt_status(Status::kDeviceRemoved)});
    EXPECT_TRUE(stack.hw.suspends.empty());
  });
}

TEST_F(HwQueueEdgesTest, WithoutADelayNobodyWatches) {
  DXGKIT_COVERS("TDR-30", "TDR-02");
  running(
      [](HwStack& stack) {
        HwClient client(stack);
        ClientQueue queue = client.make_hw_queue();
        stack.hw.paused = true;
        ASSERT_EQ(client.submit(queue), 0);
        runtime::Runtime::current().sleep_for(60 * runtime::kSecond);
        stack.settle();
        EXPECT_TRUE(stack.hw.resets.empty());
        stack.hw.paused = false;
        stack.drive();
        EXPECT_EQ(*queue.cpu, 1U);
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      },
      [](HwStack& stack) { stack.options.tdr_delay_ns = 0; });
}

// As many primaries as the array of the structure's form in the driver's interface holds.
TEST_F(HwQueueEdgesTest, SixteenPrimariesMayBeWritten) {
  DXGKIT_COVERS("SUB-36");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    std::vector<D3DKMT_HANDLE> primaries;
    for (UINT i = 0; i <= D3DDDI_MAX_WRITTEN_PRIMARIES; ++i)
      primaries.push_back(client.make_allocation(kPage, kMemorySet));
    client.list(primaries);
    stack.drive();
    D3DKMT_SUBMITCOMMANDTOHWQUEUE args = client.submit_args(queue);
    args.WrittenPrimaries = primaries.data();
    args.NumPrimaries = D3DDDI_MAX_WRITTEN_PRIMARIES + 1;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.submit(args), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
    args.NumPrimaries = D3DDDI_MAX_WRITTEN_PRIMARIES;
    EXPECT_EQ(client.submit(args), 0);
    stack.drive();
    EXPECT_EQ(*queue.cpu, 1U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
