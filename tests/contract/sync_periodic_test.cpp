// Monitored fences that vertical syncs signal.
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/display/periodic_fences.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/work/device.h"
#include "dxgk/work/sync_report.h"
#include "tests/contract/sync_fixture.h"

namespace dxgkit::contract {
namespace {

using SyncPeriodicTest = ContractTest;

/// Made below the thunk, which asks the display whether the target is there.
class Periodic {
 public:
  Periodic(Stack& stack, Client& client, uint32_t target, int64_t lead_ns) : stack_(stack) {
    client.as_client([&] {
      dxgk::SyncRequest request;
      request.periodic = true;
      request.target = target;
      request.lead_ns = lead_ns;
      const auto device = client.process->handles().find<dxgk::Device>(client.device);
      object = *(*device)->sync().create_sync_object(request);
    });
  }
  uint64_t value() const {
    uint64_t value = 0;
    stack_.adapter().core().lane().run(
        [&] { value = stack_.adapter().core().scheduler().sync_objects().value(object->id); });
    return value;
  }
  dxgk::Ref<dxgk::SyncObject> object;

 private:
  Stack& stack_;
};

void vsync(Stack& stack, uint32_t target) {
  stack.adapter().core().lane().run(
      [&] { dxgk::signal_periodic_fences(stack.adapter().floor(), target); });
}
void pass(int64_t milliseconds) {
  runtime::Runtime::current().sleep_for(milliseconds * runtime::kMillisecond);
}

TEST_F(SyncPeriodicTest, EachVerticalSyncOfItsTargetSignalsOnce) {
  DXGKIT_COVERS("SYNC-25");
  with_client([](Stack& stack, Client& client) {
    const Periodic fence(stack, client, 4, 0), other(stack, client, 5, 0);
    NTSTATUS status = 1;
    Stack::Background wait(stack, [&] { status = client.wait_cpu(fence.object->handle, 3); });
    pass(1);
    std::string text;
    stack.adapter().core().lane().run(
        [&] { text = dxgk::describe_waits(stack.adapter().floor()); });
    EXPECT_THAT(text, ::testing::HasSubstr("could signal it: the kernel, at a vertical sync\n"));
    for (uint64_t i = 1; i <= 3; ++i) {
      EXPECT_FALSE(wait.finished());
      vsync(stack, 4);
      EXPECT_EQ(fence.value(), i);
      pass(16);
    }
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(status, 0);
    EXPECT_EQ(other.value(), 0U);
    EXPECT_EQ(client.signal_cpu(fence.object->handle, 9), kDenied) << "nobody else signals it";
    EXPECT_EQ(fence.value(), 3U);
  });
}

TEST_F(SyncPeriodicTest, ALeadSignalsAheadAndNeverTwice) {
  DXGKIT_COVERS("SYNC-25");
  with_client([](Stack& stack, Client& client) {
    const Periodic fence(stack, client, 0, 4 * runtime::kMillisecond);
    vsync(stack, 0);
    EXPECT_EQ(fence.value(), 1U) << "how long a frame is nobody knows yet";
    pass(16);
    vsync(stack, 0);
    EXPECT_EQ(fence.value(), 2U);
    for (uint64_t frame = 3; frame <= 5; ++frame) {
      pass(11);
      EXPECT_EQ(fence.value(), frame - 1);
      pass(2);
      EXPECT_EQ(fence.value(), frame) << "4 ms before the next";
      pass(3);
      vsync(stack, 0);
      EXPECT_EQ(fence.value(), frame) << "which does not count again";
    }
    pass(5);
    vsync(stack, 0);
    EXPECT_EQ(fence.value(), 6U) << "earlier than expected: not ahead, and not lost";
    ASSERT_EQ(destroy_sync(client, fence.object->handle), 0);
    pass(100);
    vsync(stack, 0);
  });
}

TEST_F(SyncPeriodicTest, TargetsThatAreNotThereAreRefused) {
  DXGKIT_COVERS("SYNC-25", "SYNC-01");
  with_client([](Stack& stack, Client& client) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
    args.hDevice = client.device;
    args.Info.Type = D3DDDI_PERIODIC_MONITORED_FENCE;
    const Digest before = digest(stack, {&client});
    for (const D3DKMT_HANDLE adapter : {D3DKMT_HANDLE{0}, client.device, client.adapter}) {
      args.Info.PeriodicMonitoredFence.hAdapter = adapter;
      EXPECT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); }), kInvalid)
          << "it renders only";
    }
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

}  // namespace
}  // namespace dxgkit::contract
