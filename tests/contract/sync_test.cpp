// Synchronisation objects as clients see them.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>

#include "base/guarded_copy.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using SyncTest = ContractTest;

uint64_t value_of(const D3DKMT_CREATESYNCHRONIZATIONOBJECT2& fence) {
  return std::atomic_ref<uint64_t>(
             *static_cast<uint64_t*>(fence.Info.MonitoredFence.FenceValueCPUVirtualAddress))
      .load();
}

TEST_F(SyncTest, TypesAndFlagsThatMakeNoSenseAreRefused) {
  DXGKIT_COVERS("SYNC-01", "SYNC-03", "SYNC-09", "SYNC-10", "THUNK-03");
  with_client([](Stack& stack, Client& client) {
    const auto create = [&](UINT type, UINT flags, UINT initial = 0, UINT maximum = 1) {
      D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
      args.hDevice = client.device;
      args.Info.Type = static_cast<D3DDDI_SYNCHRONIZATIONOBJECT_TYPE>(type);
      args.Info.Flags.Value = flags;
      if (type == D3DDDI_SEMAPHORE) {
        args.Info.Semaphore.InitialCount = initial;
        args.Info.Semaphore.MaxCount = maximum;
      }
      return client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); });
    };
    constexpr UINT kShared = 1, kNtSharing = 2, kTop = 8, kNoSignal = 16, kNoWait = 32;
    const Digest before = digest(stack, {&client});
    for (const UINT type : {0U, 100U, UINT32_MAX})
      EXPECT_EQ(create(type, 0), nt_status(Status::kInvalidParameter)) << type;
    EXPECT_EQ(create(D3DDDI_SEMAPHORE, 0, 2, 1), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(create(D3DDDI_SEMAPHORE, 0, 1, 0), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(create(D3DDDI_MONITORED_FENCE, kNtSharing), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(create(D3DDDI_MONITORED_FENCE, kShared), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(create(D3DDDI_MONITORED_FENCE, kNoSignal | kNoWait),
              nt_status(Status::kInvalidParameter));
    for (const UINT flag : {kTop, kNoSignal, kNoWait})
      EXPECT_EQ(create(D3DDDI_FENCE, flag), nt_status(Status::kInvalidParameter)) << flag;
    EXPECT_EQ(create(D3DDDI_FENCE, 1U << 31), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(SyncTest, AMonitoredFenceIsReadableAndNotWritableByItsClient) {
  DXGKIT_COVERS("SYNC-15", "SYNC-18");
  with_client([](Stack& stack, Client& client) {
    static_cast<void>(stack);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence{};
    const D3DKMT_HANDLE handle = client.make_sync(D3DDDI_MONITORED_FENCE, 5, 1, &fence);
    void* address = fence.Info.MonitoredFence.FenceValueCPUVirtualAddress;
    EXPECT_EQ(reinterpret_cast<uint64_t>(address) % 8, 0U);
    EXPECT_EQ(value_of(fence), 5U);
    EXPECT_EQ(client.signal_cpu(handle, 9), 0);
    EXPECT_EQ(value_of(fence), 9U) << "visible at once";
    const uint64_t forged = 100;
    EXPECT_FALSE(guarded_copy(address, &forged, sizeof forged)) << "a write faults";
    EXPECT_EQ(value_of(fence), 9U);
  });
}

TEST_F(SyncTest, SignalsTakeEffectInStreamOrderAfterEarlierWorkCompleted) {
  DXGKIT_COVERS("SYNC-05", "SYNC-04");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence{};
    const D3DKMT_HANDLE handle = client.make_sync(D3DDDI_MONITORED_FENCE, 0, 1, &fence);
    for (uint64_t value = 1; value <= 3; ++value) {
      ASSERT_EQ(client.render(context, work_on({})), 0);
      ASSERT_EQ(client.signal_gpu(context, handle, value), 0);
    }
    stack.settle();
    for (uint64_t value = 0; value < 3; ++value) {
      EXPECT_EQ(value_of(fence), value);
      ASSERT_TRUE(stack.miniport.complete_next(0));
      stack.settle();
    }
    EXPECT_EQ(value_of(fence), 3U);
  });
}

TEST_F(SyncTest, AGpuWaitHoldsWhatIsBehindItAndNothingElse) {
  DXGKIT_COVERS("SYNC-20", "SYNC-05", "SYNC-29");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers held = client.make_context(), free = client.make_context();
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    ASSERT_EQ(client.render(held, work_on({})), 0);
    ASSERT_EQ(client.wait_gpu(held, fence, 3), 0) << "returns at once";
    ASSERT_EQ(client.render(held, work_on({})), 0);
    ASSERT_EQ(client.render(free, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 2U) << "before the wait, and the other context";
    runtime::Runtime::current().sleep_for(20 * runtime::kSecond);
    stack.settle();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "waiting is no timeout";
    ASSERT_EQ(client.signal_cpu(fence, 2), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 2U);
    ASSERT_EQ(client.signal_cpu(fence, 4), 0) << ">= is enough";
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 3U);
  });
}

TEST_F(SyncTest, ACpuWaitBlocksUntilTheValueIsThere) {
  DXGKIT_COVERS("SYNC-21", "SYNC-04");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE, 7);
    EXPECT_EQ(client.wait_cpu(fence, 7), 0) << "satisfied already: at once";
    ASSERT_EQ(client.render(context, work_on({})), 0);
    ASSERT_EQ(client.signal_gpu(context, fence, 8), 0);
    NTSTATUS status = 1;
    Stack::Background wait(stack, [&] { status = client.wait_cpu(fence, 8); });
    EXPECT_FALSE(wait.finished());
    wait.finish();
    EXPECT_EQ(status, 0);
  });
}

TEST_F(SyncTest, WaitAnyNeedsOneAndWaitAllEveryObject) {
  DXGKIT_COVERS("SYNC-21");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE fences[] = {client.make_sync(D3DDDI_MONITORED_FENCE),
                                    client.make_sync(D3DDDI_MONITORED_FENCE)};
    const UINT64 values[] = {1, 1};
    const auto wait = [&](bool any) {
      D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU args{};
      args.hDevice = client.device;
      args.ObjectCount = 2;
      args.ObjectHandleArray = fences;
      args.FenceValueArray = values;
      args.Flags.WaitAny = any ? 1 : 0;
      return client.call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&args); });
    };
    NTSTATUS any = 1, all = 1;
    Stack::Background wait_any(stack, [&] { any = wait(true); });
    Stack::Background wait_all(stack, [&] { all = wait(false); });
    EXPECT_FALSE(wait_any.finished());
    ASSERT_EQ(client.signal_cpu(fences[1], 1), 0);
    EXPECT_TRUE(wait_any.finished());
    EXPECT_FALSE(wait_all.finished());
    ASSERT_EQ(client.signal_cpu(fences[0], 1), 0);
    EXPECT_TRUE(wait_all.finished());
    EXPECT_EQ(any, 0);
    EXPECT_EQ(all, 0);
  });
}

TEST_F(SyncTest, AnEventIsSetLaterAndTheCallReturnsAtOnce) {
  DXGKIT_COVERS("SYNC-21");
  with_client([](Stack& stack, Client& client) {
    static_cast<void>(stack);
    const int event = eventfd(0, EFD_NONBLOCK);
    ASSERT_GE(event, 0);
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    const UINT64 value = 2;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU args{};
    args.hDevice = client.device;
    args.ObjectCount = 1;
    args.ObjectHandleArray = &fence;
    args.FenceValueArray = &value;
    args.hAsyncEvent = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
    EXPECT_EQ(client.call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&args); }), 0);
    uint64_t count = 0;
    EXPECT_LT(read(event, &count, sizeof count), 0) << "not yet";
    ASSERT_EQ(client.signal_cpu(fence, 2), 0);
    EXPECT_EQ(read(event, &count, sizeof count), static_cast<ssize_t>(sizeof count));
    EXPECT_EQ(count, 1U);
    EXPECT_EQ(client.call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&args); }), 0);
    EXPECT_EQ(read(event, &count, sizeof count), static_cast<ssize_t>(sizeof count))
        << "satisfied already";
    args.hAsyncEvent = reinterpret_cast<HANDLE>(intptr_t{1000000});
    const UINT64 later = 9;
    args.FenceValueArray = &later;
    EXPECT_LT(client.call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&args); }), 0)
        << "no such event";
    close(event);
  });
}

TEST_F(SyncTest, AFenceIsNotLoweredWithoutTheFlag) {
  DXGKIT_COVERS("SYNC-35");
  with_client([](Stack& stack, Client& client) {
    static_cast<void>(stack);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence{};
    const D3DKMT_HANDLE handle = client.make_sync(D3DDDI_MONITORED_FENCE, 10, 1, &fence);
    EXPECT_EQ(client.signal_cpu(handle, 4), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(value_of(fence), 10U);
    const UINT64 value = 4;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU args{};
    args.hDevice = client.device;
    args.ObjectCount = 1;
    args.ObjectHandleArray = &handle;
    args.FenceValueArray = &value;
    args.Flags.AllowFenceRewind = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&args); }), 0);
    EXPECT_EQ(value_of(fence), 4U);
  });
}

TEST_F(SyncTest, AMutexHasOneOwnerAtATime) {
  DXGKIT_COVERS("SYNC-02");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers one = client.make_context(), two = client.make_context();
    const D3DKMT_HANDLE mutex = client.make_sync(D3DDDI_SYNCHRONIZATION_MUTEX);
    const auto acquire = [&](const ContextBuffers& context) {
      D3DKMT_WAITFORSYNCHRONIZATIONOBJECT args{};
      args.hContext = context.handle;
      args.ObjectCount = 1;
      args.ObjectHandleArray[0] = mutex;
      return client.call([&] { return D3DKMTWaitForSynchronizationObject(&args); });
    };
    const auto release = [&](const ContextBuffers& context) {
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECT args{};
      args.hContext = context.handle;
      args.ObjectCount = 1;
      args.ObjectHandleArray[0] = mutex;
      return client.call([&] { return D3DKMTSignalSynchronizationObject(&args); });
    };
    ASSERT_EQ(acquire(one), 0);
    ASSERT_EQ(client.render(one, work_on({})), 0);
    ASSERT_EQ(acquire(two), 0);
    ASSERT_EQ(client.render(two, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 1U);
    ASSERT_EQ(release(one), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 2U);
  });
}

TEST_F(SyncTest, LegacyCallsTakeUpTo32Objects) {
  DXGKIT_COVERS("SYNC-06", "SYNC-07");
  with_client([](Stack& stack, Client& client) {
    const ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_FENCE);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 signal{};
    signal.hContext = context.handle;
    for (D3DKMT_HANDLE& handle : signal.ObjectHandleArray) handle = fence;
    signal.ObjectCount = 32;
    signal.Fence.FenceValue = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&signal); }), 0);
    stack.drive();
    const Digest before = digest(stack, {&client});
    for (const UINT count : {0U, 33U, UINT32_MAX}) {
      signal.ObjectCount = count;
      EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&signal); }),
                nt_status(Status::kInvalidParameter));
    }
    signal.ObjectCount = 1;
    signal.BroadcastContextCount = 65;
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&signal); }),
              nt_status(Status::kInvalidParameter));
    signal.BroadcastContextCount = 0;
    signal.Flags.EnqueueCpuEvent = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&signal); }),
              nt_status(Status::kInvalidParameter))
        << "EnqueueCpuEvent needs ObjectCount 0";
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(SyncTest, AWaitOnALostDeviceEndsWithDeviceRemoved) {
  DXGKIT_COVERS("SYNC-22");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    NTSTATUS status = 1;
    Stack::Background wait(stack, [&] { status = client.wait_cpu(fence, 1); });
    EXPECT_FALSE(wait.finished());
    ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.settle();
    stack.miniport.faulted(0, stack.miniport.outstanding(0).at(0),
                           nt_status(Status::kUnsuccessful));
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(status, nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(client.wait_cpu(fence, 1), nt_status(Status::kDeviceRemoved));
  });
}

TEST_F(SyncTest, DestroyingAnObjectWakesItsWaitersAndLetsGpuWaitsThrough) {
  DXGKIT_COVERS("SYNC-28", "SYNC-32");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    NTSTATUS status = 1;
    Stack::Background wait(stack, [&] { status = client.wait_cpu(fence, 1); });
    EXPECT_FALSE(wait.finished());
    ASSERT_EQ(client.wait_gpu(context, fence, 1), 0);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.settle();
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 0U);
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy{fence};
    EXPECT_EQ(client.call([&] { return D3DKMTDestroySynchronizationObject(&destroy); }), 0);
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(status, nt_status(Status::kInvalidHandle));
    stack.settle();
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 1U);
    stack.drive();
    EXPECT_EQ(client.signal_cpu(fence, 2), nt_status(Status::kInvalidParameter))
        << "the handle is gone";
  });
}

TEST_F(SyncTest, ACpuNotificationIsSetWhenTheContextReachesTheSignal) {
  DXGKIT_COVERS("SYNC-24");
  with_client([](Stack& stack, Client& client) {
    const int event = eventfd(0, EFD_NONBLOCK);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
    create.hDevice = client.device;
    create.Info.Type = D3DDDI_CPU_NOTIFICATION;
    EXPECT_LT(client.call([&] { return D3DKMTCreateSynchronizationObject2(&create); }), 0)
        << "no event";
    create.Info.CPUNotification.Event = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
    ASSERT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject2(&create); }), 0);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({})), 0);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT signal{};
    signal.hContext = context.handle;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray[0] = create.hSyncObject;
    ASSERT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject(&signal); }), 0);
    stack.settle();
    uint64_t count = 0;
    EXPECT_LT(read(event, &count, sizeof count), 0) << "the packet before has not completed";
    stack.drive();
    EXPECT_EQ(read(event, &count, sizeof count), static_cast<ssize_t>(sizeof count));
    close(event);
  });
}

// The event is the object's own as long as there is one, whatever number it has; what is no event
// makes none.
TEST_F(SyncTest, ACpuNotificationKeepsItsEventAndLetsItGo) {
  DXGKIT_COVERS("SYNC-24");
  with_client([](Stack& stack, Client& client) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
    create.hDevice = client.device;
    create.Info.Type = D3DDDI_CPU_NOTIFICATION;
    const int event = eventfd(0, EFD_NONBLOCK);
    const int input = dup(STDIN_FILENO);
    create.Info.CPUNotification.Event = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
    close(STDIN_FILENO);  // the lowest number is free
    EXPECT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject2(&create); }), 0);
    EXPECT_NE(fcntl(STDIN_FILENO, F_GETFD), -1);
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy{create.hSyncObject};
    EXPECT_EQ(client.call([&] { return D3DKMTDestroySynchronizationObject(&destroy); }), 0);
    EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), -1);
    if (input >= 0) {
      EXPECT_EQ(dup2(input, STDIN_FILENO), STDIN_FILENO);
      close(input);
    }
    close(event);

    create.hSyncObject = 0;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject2(&create); }),
              nt_status(Status::kInvalidHandle))
        << "closed";
    EXPECT_EQ(create.hSyncObject, 0U);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(SyncTest, WaitForIdleWaitsForTheDevicesWork) {
  DXGKIT_COVERS("THUNK-31");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({})), 0);
    D3DKMT_WAITFORIDLE idle{};
    idle.hDevice = client.device;
    NTSTATUS status = 1;
    Stack::Background wait(stack,
                           [&] { status = client.call([&] { return D3DKMTWaitForIdle(&idle); }); });
    EXPECT_FALSE(wait.finished());
    wait.finish();
    EXPECT_EQ(status, 0);
    EXPECT_EQ(stack.statistics().packets_completed, 1U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
