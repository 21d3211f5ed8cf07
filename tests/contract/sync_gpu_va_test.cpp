// Monitored fences that engines write and contexts with GPU virtual addresses wait for.
#include "tests/contract/sync_fixture.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using namespace sync_flag;
using SyncGpuVaTest = GpuVaTest;

/// A client with a mapped, resident page of commands.
struct Submitter {
  explicit Submitter(GpuVaStack& stack_in, const char* name = "client")
      : stack(stack_in), client(stack_in, name) {
    memory = client.make_allocation(4 * kPage, kMemorySet);
    client.list({memory});
    stack.drive();
    va = client.make_mapping(memory, 4);
  }
  void submit(std::initializer_list<GpuCommand> commands, uint64_t at = 0) {
    ASSERT_TRUE(
        stack.gpu.write(client.process_handle(), va + at, dxgkit::testing::gpu_commands(commands)));
    ASSERT_EQ(client.submit(client.context, va + at, static_cast<uint32_t>(commands.size() * 24)),
              0);
  }
  NTSTATUS wait_gpu(D3DKMT_HANDLE object, uint64_t value) {
    ContextBuffers context;
    context.handle = client.context;
    return client.wait_gpu(context, object, value);
  }
  NTSTATUS signal_gpu(D3DKMT_HANDLE object, uint64_t value) {
    ContextBuffers context;
    context.handle = client.context;
    return client.signal_gpu(context, object, value);
  }
  GpuVaStack& stack;
  VaClient client;
  D3DKMT_HANDLE memory = 0;
  uint64_t va = 0;
};

TEST_F(SyncGpuVaTest, AnEngineSignalsByWritingToTheAddress) {
  DXGKIT_COVERS("SYNC-15", "SYNC-16", "SYNC-19");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    const MonitoredFence fence = create_fence(one.client, 0, 4);
    ASSERT_EQ(fence.status, 0);
    ASSERT_NE(fence.gpu, 0U);
    EXPECT_EQ(fence.gpu % 8, 0U);
    // A paging fence value returned later stands for it, too.
    one.client.make_mapping(one.memory, 1);
    const auto walk = one.client.walk(fence.gpu);
    ASSERT_TRUE(walk.valid);
    EXPECT_TRUE(walk.writable);
    EXPECT_EQ(stack.gpu.read(one.client.process_handle(), fence.gpu), 4U);
    NTSTATUS status = 1;
    Stack::Background wait(stack, [&] { status = one.client.wait_cpu(fence.handle, 9); });
    one.submit({GpuCommand::write(fence.gpu, 9)});
    EXPECT_FALSE(wait.finished());
    wait.finish();
    EXPECT_EQ(status, 0) << "noticed when the buffer completed";
    EXPECT_EQ(fence.value(), 9U);
    EXPECT_EQ(stack.gpu.faults().size(), 0U);
  });
}

TEST_F(SyncGpuVaTest, TheFenceInterruptMakesTheKernelLookAgain) {
  DXGKIT_COVERS("INT-24", "SYNC-19");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    const MonitoredFence fence = create_fence(one.client, 0);
    one.client.make_mapping(one.memory, 1);
    NTSTATUS status = 1;
    Stack::Background wait(stack, [&] { status = one.client.wait_cpu(fence.handle, 3); });
    EXPECT_FALSE(wait.finished());
    ASSERT_TRUE(stack.gpu.write(one.client.process_handle(), fence.gpu, 3));
    EXPECT_FALSE(wait.finished()) << "nobody has told";
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
    data.InterruptType = DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED;
    EXPECT_TRUE(stack.miniport.raise(data));
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(status, 0);
  });
}

TEST_F(SyncGpuVaTest, AWaitHoldsWhatIsQueuedBehindItUntilAnotherContextWrites) {
  DXGKIT_COVERS("SYNC-20", "SYNC-19", "SYNC-05");
  running([](GpuVaStack& stack) {
    Submitter one(stack, "one"), two(stack, "two");
    const MonitoredFence fence = create_fence(one.client, kNt);
    SharedHandle shared;
    ASSERT_EQ(share(one.client, {fence.handle}, &shared.handle), 0);
    const MonitoredFence theirs = open_fence(two.client, shared.handle);
    ASSERT_EQ(theirs.status, 0);
    one.client.make_mapping(one.memory, 1);
    two.client.make_mapping(two.memory, 1);
    EXPECT_EQ(one.client.walk(fence.gpu).cpu, two.client.walk(theirs.gpu).cpu) << "one page";
    one.submit({GpuCommand::write(one.va + kPage, 1)});
    ASSERT_EQ(one.wait_gpu(fence.handle, 2), 0) << "returns at once";
    one.submit({GpuCommand::write(one.va + kPage, 2)}, 2 * kPage);
    stack.drive();
    EXPECT_EQ(stack.gpu.read(one.client.process_handle(), one.va + kPage), 1U);
    two.submit({GpuCommand::write(theirs.gpu, 2)});
    stack.drive();
    EXPECT_EQ(stack.gpu.read(one.client.process_handle(), one.va + kPage), 2U);
    ASSERT_EQ(one.signal_gpu(fence.handle, 5), 0) << "by packet";
    stack.drive();
    EXPECT_EQ(theirs.value(), 5U);
  });
}

TEST_F(SyncGpuVaTest, WithoutGpuAccessThereIsNoAddress) {
  DXGKIT_COVERS("SYNC-14");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    const MonitoredFence fence = create_fence(one.client, kNoGpuAccess | kNt);
    EXPECT_EQ(fence.gpu, 0U);
    SharedHandle shared, of_other;
    ASSERT_EQ(share(one.client, {fence.handle}, &shared.handle), 0);
    EXPECT_EQ(open_fence(one.client, shared.handle).gpu, 0U) << "a matter of the object";
    const MonitoredFence other = create_fence(one.client, kNt);
    ASSERT_EQ(share(one.client, {other.handle}, &of_other.handle), 0);
    EXPECT_EQ(open_fence(one.client, of_other.handle, kNoGpuAccess).gpu, 0U) << "and of a handle";
    ASSERT_EQ(one.signal_gpu(fence.handle, 2), 0) << "packets do";
    stack.drive();
    EXPECT_EQ(fence.value(), 2U);
  });
}

TEST_F(SyncGpuVaTest, ADestroyedFenceIsReachedByNoEngine) {
  DXGKIT_COVERS("SYNC-16", "SYNC-32", "VA-41");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    const uint64_t pages = [&] {
      stack.settle();
      return stack.machine.free_page_count();
    }();
    const MonitoredFence fence = create_fence(one.client, 0), rest = create_fence(one.client, 0);
    one.client.make_mapping(one.memory, 1);
    ASSERT_TRUE(one.client.walk(fence.gpu).valid);
    const Digest before = digest(stack, {&one.client});
    EXPECT_EQ(one.client.free_va(fence.gpu, kPage), kInvalid) << "the kernel's range";
    EXPECT_EQ(digest(stack, {&one.client}), before);
    ASSERT_EQ(destroy_sync(one.client, fence.handle), 0);
    stack.drive();
    EXPECT_FALSE(one.client.walk(fence.gpu).valid);
    EXPECT_TRUE(one.client.walk(rest.gpu).valid);
    ASSERT_EQ(destroy_sync(one.client, rest.handle), 0);
    stack.drive();
    EXPECT_GE(stack.machine.free_page_count() + 8, pages) << "pages of tables may stay";
    one.submit({GpuCommand::write(fence.gpu, 1)});
    stack.drive();
    ASSERT_EQ(stack.gpu.faults().size(), 1U);
    EXPECT_EQ(stack.gpu.faults()[0].va, fence.gpu);
  });
}

TEST_F(SyncGpuVaTest, AddressesSurviveALossOfPower) {
  DXGKIT_COVERS("SYNC-16");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    const MonitoredFence fence = create_fence(one.client, 0, 5);
    one.client.make_mapping(one.memory, 1);
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
      if (state == PowerDeviceD3) stack.gpu.lose_power();
      return STATUS_SUCCESS;
    };
    stack.blocking([&] {
      for (const dxgk::PowerTarget target : {dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kD0})
        EXPECT_TRUE(stack.system->set_power(stack.luid, target).has_value());
    });
    stack.miniport.hooks.set_power_state = nullptr;
    stack.drive();
    EXPECT_EQ(stack.gpu.read(one.client.process_handle(), fence.gpu), 5U);
    ASSERT_EQ(one.client.signal_cpu(fence.handle, 6), 0);
    EXPECT_EQ(stack.gpu.read(one.client.process_handle(), fence.gpu), 6U) << "the same page";
  });
}

}  // namespace
}  // namespace dxgkit::contract
