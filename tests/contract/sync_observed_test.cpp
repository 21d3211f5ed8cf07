// What public tests have seen Windows do with synchronization objects and keyed mutexes, where no
// page says it.
#include "tests/contract/sync_fixture.h"

namespace dxgkit::contract {
namespace {

using SyncObservedTest = ContractTest;

TEST_F(SyncObservedTest, CpusWaitForAndSignalMonitoredFencesOnly) {
  DXGKIT_COVERS("SYNC-36", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const MonitoredFence fence = create_fence(client, 0);
    for (const auto type : {D3DDDI_SYNCHRONIZATION_MUTEX, D3DDDI_SEMAPHORE, D3DDDI_FENCE}) {
      SCOPED_TRACE(static_cast<int>(type));
      const D3DKMT_HANDLE object = client.make_sync(type, 0, 4);
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(client.wait_cpu(object, 0), kInvalid);
      EXPECT_EQ(client.signal_cpu(object, 1), kInvalid);
      // Beside one that is fine, too.
      const D3DKMT_HANDLE both[] = {fence.handle, object};
      const UINT64 values[] = {1, 1};
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU args{};
      args.hDevice = client.device;
      args.ObjectCount = 2;
      args.ObjectHandleArray = both;
      args.FenceValueArray = values;
      EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&args); }),
                kInvalid);
      EXPECT_EQ(fence.value(), 0U);
      EXPECT_EQ(digest(stack, {&client}), before);
    }
    EXPECT_EQ(client.signal_cpu(fence.handle, 1), 0);
    EXPECT_EQ(client.wait_cpu(fence.handle, 1), 0);
  });
}

TEST_F(SyncObservedTest, ACpuLowersAFenceOnlyIfItSaysSo) {
  DXGKIT_COVERS("SYNC-35", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const MonitoredFence first = create_fence(client, 0), second = create_fence(client, 0, 9);
    const D3DKMT_HANDLE handles[] = {first.handle, second.handle};
    const auto signal = [&](uint64_t a, uint64_t b, bool rewind) {
      const UINT64 values[] = {a, b};
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU args{};
      args.hDevice = client.device;
      args.ObjectCount = 2;
      args.ObjectHandleArray = handles;
      args.FenceValueArray = values;
      args.Flags.AllowFenceRewind = rewind ? 1 : 0;
      return client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&args); });
    };
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(signal(5, 8, false), kInvalid);
    EXPECT_EQ(first.value(), 0U) << "nothing of the call";
    EXPECT_EQ(second.value(), 9U);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(signal(5, 9, false), 0) << "the same value is no lower one";
    EXPECT_EQ(first.value(), 5U);
    EXPECT_EQ(signal(6, 8, true), 0);
    EXPECT_EQ(second.value(), 8U);
  });
}

TEST_F(SyncObservedTest, ASemaphoreMayHaveNoPlaces) {
  DXGKIT_COVERS("SYNC-03");
  with_client([](Stack&, Client& client) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT args{};
    args.hDevice = client.device;
    args.Info.Type = D3DDDI_SEMAPHORE;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject(&args); }), 0);
    EXPECT_NE(args.hSyncObject, 0U);
    EXPECT_EQ(destroy_sync(client, args.hSyncObject), 0);
    args.Info.Semaphore.InitialCount = 1;
    args.hSyncObject = 0;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject(&args); }), kInvalid);
    EXPECT_EQ(args.hSyncObject, 0U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
