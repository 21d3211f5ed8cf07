// Monitored fences: rights of handles, the top of the pipeline, lost devices, 32 bits of storage.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <limits>

#include "tests/contract/sync_fixture.h"

namespace dxgkit::contract {
namespace {

using namespace sync_flag;
using SyncMonitoredTest = ContractTest;

constexpr uint64_t kMaximum = std::numeric_limits<uint64_t>::max();

TEST_F(SyncMonitoredTest, RightsAreTheHandlesNotTheObjects) {
  DXGKIT_COVERS("SYNC-11");
  running([](Stack& stack) {
    Client maker(stack, "maker"), user(stack, "user");
    const MonitoredFence mine = create_fence(maker, kNt | kNoWait);
    ASSERT_EQ(mine.status, 0);
    SharedHandle shared;
    ASSERT_EQ(share(maker, {mine.handle}, &shared.handle), 0);
    const MonitoredFence theirs = open_fence(user, shared.handle, kNoSignal);
    ASSERT_EQ(theirs.status, 0);
    ContextBuffers making = maker.make_context(), using_it = user.make_context();

    const Digest before = digest(stack, {&maker, &user});
    EXPECT_EQ(maker.wait_cpu(mine.handle, 0), kDenied) << "even what is reached";
    EXPECT_EQ(maker.wait_gpu(making, mine.handle, 0), kDenied);
    EXPECT_EQ(user.signal_cpu(theirs.handle, 5), kDenied);
    EXPECT_EQ(user.signal_gpu(using_it, theirs.handle, 5), kDenied);
    EXPECT_EQ(mine.value(), 0U);
    EXPECT_EQ(digest(stack, {&maker, &user}), before);

    EXPECT_EQ(maker.signal_cpu(mine.handle, 5), 0);
    EXPECT_EQ(theirs.value(), 5U) << "one object";
    EXPECT_EQ(user.wait_cpu(theirs.handle, 5), 0);
    EXPECT_EQ(maker.signal_gpu(making, mine.handle, 6), 0);
    stack.drive();
    EXPECT_EQ(user.wait_gpu(using_it, theirs.handle, 6), 0);
  });
}

TEST_F(SyncMonitoredTest, OneDeniedObjectRefusesTheWholeCall) {
  DXGKIT_COVERS("SYNC-11", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const MonitoredFence good = create_fence(client, 0);
    const MonitoredFence bad = create_fence(client, kNoSignal);
    const D3DKMT_HANDLE handles[] = {good.handle, bad.handle};
    const UINT64 values[] = {3, 3};
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU args{};
    args.hDevice = client.device;
    args.ObjectCount = 2;
    args.ObjectHandleArray = handles;
    args.FenceValueArray = values;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&args); }),
              kDenied);
    EXPECT_EQ(good.value(), 0U);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(SyncMonitoredTest, TheTopOfThePipelineDoesNotWaitForCompletion) {
  DXGKIT_COVERS("SYNC-12", "SYNC-05");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const MonitoredFence top = create_fence(client, kTopOfPipeline), done = create_fence(client, 0);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    const D3DKMT_HANDLE handles[] = {top.handle, done.handle};
    const UINT64 values[] = {1, 1};
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU args{};
    args.hContext = context.handle;
    args.ObjectCount = 2;
    args.ObjectHandleArray = handles;
    args.MonitoredFenceValueArray = values;
    ASSERT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObjectFromGpu(&args); }), 0);
    stack.settle();
    EXPECT_EQ(stack.miniport.outstanding(0).size(), 1U) << "with the hardware, not done";
    EXPECT_EQ(top.value(), 1U);
    EXPECT_EQ(done.value(), 0U);
    stack.drive();
    EXPECT_EQ(done.value(), 1U);
  });
}

TEST_F(SyncMonitoredTest, TheTopOfThePipelineWaitsForWorkThatIsNotWithTheHardware) {
  DXGKIT_COVERS("SYNC-12");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const MonitoredFence gate = create_fence(client, 0), top = create_fence(client, kTopOfPipeline);
    ASSERT_EQ(client.wait_gpu(context, gate.handle, 1), 0);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    ASSERT_EQ(client.signal_gpu(context, top.handle, 1), 0);
    stack.settle();
    EXPECT_EQ(top.value(), 0U) << "nothing was consumed";
    ASSERT_EQ(client.signal_cpu(gate.handle, 1), 0);
    stack.settle();
    EXPECT_EQ(top.value(), 1U);
    stack.drive();
  });
}

TEST_F(SyncMonitoredTest, SignalAtSubmissionAndBroadcastsFireWhenTheirContextsGetThere) {
  DXGKIT_COVERS("SYNC-05", "SYNC-06");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers one = client.make_context(), two = client.make_context();
    const MonitoredFence early = create_fence(client, 0), both = create_fence(client, 0);
    ASSERT_EQ(client.render(one, work_on({})), 0);
    ASSERT_EQ(client.render(two, work_on({})), 0);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 args{};
    const D3DKMT_HANDLE contexts[] = {one.handle, two.handle};
    const UINT64 value = 7;
    args.ObjectCount = 1;
    args.BroadcastContextCount = 2;
    args.BroadcastContextArray = contexts;
    args.MonitoredFenceValueArray = &value;
    const auto signal = [&](const MonitoredFence& fence, bool at_submission) {
      args.ObjectHandleArray = &fence.handle;
      args.Flags.SignalAtSubmission = at_submission ? 1 : 0;
      return client.call([&] { return D3DKMTSignalSynchronizationObjectFromGpu2(&args); });
    };
    ASSERT_EQ(signal(early, true), 0);
    ASSERT_EQ(signal(both, false), 0);
    stack.settle();
    EXPECT_EQ(early.value(), 7U);
    EXPECT_EQ(both.value(), 0U);
    ASSERT_TRUE(stack.miniport.complete_next(0));
    stack.settle();
    EXPECT_EQ(both.value(), 0U) << "one of two contexts";
    stack.drive();
    EXPECT_EQ(both.value(), 7U);

    const Digest before = digest(stack, {&client});
    args.BroadcastContextCount = 0;
    EXPECT_EQ(signal(both, false), kInvalid);
    args.BroadcastContextCount = 65;
    EXPECT_EQ(signal(both, false), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(SyncMonitoredTest, ACpuEventIsSetWhenAllContextsHaveComeToIt) {
  DXGKIT_COVERS("SYNC-07");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers one = client.make_context(), two = client.make_context();
    const int event = eventfd(0, EFD_NONBLOCK);
    ASSERT_EQ(client.render(one, work_on({})), 0);
    ASSERT_EQ(client.render(two, work_on({})), 0);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 args{};
    args.hContext = one.handle;
    args.BroadcastContextCount = 1;
    args.BroadcastContext[0] = two.handle;
    args.Flags.EnqueueCpuEvent = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&args); }), kInvalid);
    args.CpuEventHandle = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
    ASSERT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&args); }), 0);
    stack.settle();
    uint64_t count = 0;
    ASSERT_TRUE(stack.miniport.complete_next(0));
    stack.settle();
    EXPECT_LT(read(event, &count, sizeof count), 0) << "one of two";
    stack.drive();
    EXPECT_EQ(read(event, &count, sizeof count), static_cast<ssize_t>(sizeof count));
    close(event);
  });
}

TEST_F(SyncMonitoredTest, WhatIsNoEventIsNotWrittenTo) {
  DXGKIT_COVERS("THUNK-02");
  with_client([](Stack& stack, Client& client) {
    const ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
    const Digest before = digest(stack, {&client});
    const int closed = dup(ends[1]);
    close(closed);
    // A pipe, nothing, a number that is a pipe in its lower half only.
    const intptr_t handles[] = {ends[1], closed, intptr_t{1} << 32 | ends[1], -1};
    for (const intptr_t handle : handles) {
      SCOPED_TRACE(handle);
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 signal{};
      signal.hContext = context.handle;
      signal.Flags.EnqueueCpuEvent = 1;
      signal.CpuEventHandle = reinterpret_cast<HANDLE>(handle);
      EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&signal); }), kInvalid);
      const UINT64 reached = 0;
      D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
      wait.hDevice = client.device;
      wait.ObjectCount = 1;
      wait.ObjectHandleArray = &fence;
      wait.FenceValueArray = &reached;
      wait.hAsyncEvent = reinterpret_cast<HANDLE>(handle);
      EXPECT_EQ(client.call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&wait); }),
                kBadHandle);
      D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
      create.hDevice = client.device;
      create.Info.Type = D3DDDI_CPU_NOTIFICATION;
      create.Info.CPUNotification.Event = reinterpret_cast<HANDLE>(handle);
      EXPECT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject2(&create); }),
                kBadHandle);
    }
    stack.drive();
    uint64_t word = 0;
    EXPECT_LT(read(ends[0], &word, sizeof word), 0) << "written";
    EXPECT_EQ(digest(stack, {&client}), before);
    close(ends[0]);
    close(ends[1]);
  });
}

TEST_F(SyncMonitoredTest, ALostDeviceSetsTheMaximumOfWhatItMightHaveSignalled) {
  DXGKIT_COVERS("SYNC-13", "SYNC-22");
  running([](Stack& stack) {
    Client loser(stack, "loser"), other(stack, "other");
    ContextBuffers context = loser.make_context(), waiting = other.make_context();
    struct Row {
      const char* what;
      UINT flags;
      uint64_t after;
    };
    const Row rows[] = {{"signals", 0, kMaximum},
                        {"cannot wait", kNoWait, kMaximum},
                        {"cannot signal", kNoSignal, 2},
                        {"keeps its value", kNoSignalMaxValueOnTdr, 2}};
    std::vector<MonitoredFence> mine, theirs;
    std::vector<std::unique_ptr<SharedHandle>> handles;
    for (const Row& row : rows) {
      // Created by the one that lives on, opened by the one that will be lost.
      theirs.push_back(create_fence(other, kNt, 2));
      handles.push_back(std::make_unique<SharedHandle>());
      ASSERT_EQ(share(other, {theirs.back().handle}, &handles.back()->handle), 0);
      mine.push_back(open_fence(loser, handles.back()->handle, row.flags));
      ASSERT_EQ(mine.back().status, 0) << row.what;
    }
    NTSTATUS own = 1, foreign = 1;
    Stack::Background own_wait(stack, [&] { own = loser.wait_cpu(mine[0].handle, 9); });
    Stack::Background wait(stack, [&] { foreign = other.wait_cpu(theirs[0].handle, 1000); });
    ASSERT_EQ(other.wait_gpu(waiting, theirs[0].handle, 77), 0);
    ASSERT_EQ(other.render(waiting, work_on({})), 0);
    ASSERT_EQ(loser.render(context, work_on({})), 0);
    stack.settle();
    EXPECT_FALSE(own_wait.finished());
    EXPECT_FALSE(wait.finished());
    stack.miniport.faulted(0, stack.miniport.outstanding(0).at(0),
                           nt_status(Status::kUnsuccessful));
    EXPECT_TRUE(own_wait.finished());
    EXPECT_EQ(own, kRemoved) << "its own waits say that it is lost";
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(foreign, 0);
    for (size_t i = 0; i < std::size(rows); ++i)
      EXPECT_EQ(theirs[i].value(), rows[i].after) << rows[i].what;
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 1U) << "the other's context goes on";
    EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

TEST_F(SyncMonitoredTest, ADeviceThatIsDestroyedLeavesValuesAlone) {
  DXGKIT_COVERS("SYNC-13");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE device = client.make_device();
    const MonitoredFence mine = create_fence(client, kNt, 4);
    SharedHandle shared;
    ASSERT_EQ(share(client, {mine.handle}, &shared.handle), 0);
    ASSERT_EQ(open_fence(client, shared.handle, 0, device).status, 0);
    ASSERT_EQ(client.destroy_device(device), 0);
    EXPECT_EQ(mine.value(), 4U);
    static_cast<void>(stack);
  });
}

void narrow(ScriptedMiniport& miniport) {
  miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
  miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SchedulingCaps.No64BitAtomics = 1; };
}

TEST_F(SyncMonitoredTest, StorageOf32BitsIsExtendedByTheKernel) {
  DXGKIT_COVERS("SYNC-17", "SYNC-14");
  with_client(
      [](Stack& stack, Client& client) {
        constexpr uint64_t kStart = 0x1'FFFF'FFF0, kHalf = 0x7FFF'FFFF;
        const MonitoredFence fence = create_fence(client, 0, kStart);
        ASSERT_EQ(fence.status, 0);
        EXPECT_EQ(fence.value32(), 0xFFFF'FFF0U);
        EXPECT_EQ(fence.value() >> 32, 0U) << "the rest of the page is not the value's";
        NTSTATUS status = 1;
        Stack::Background wait(stack,
                               [&] { status = client.wait_cpu(fence.handle, kStart + 0x20); });
        EXPECT_FALSE(wait.finished());
        ASSERT_EQ(client.signal_cpu(fence.handle, kStart + 0x1F), 0);
        EXPECT_EQ(fence.value32(), 0xFU) << "past the wrap";
        EXPECT_FALSE(wait.finished());
        ASSERT_EQ(client.signal_cpu(fence.handle, kStart + 0x20), 0);
        EXPECT_TRUE(wait.finished());
        EXPECT_EQ(status, 0);
        EXPECT_EQ(client.wait_cpu(fence.handle, kStart), 0) << "reached long ago";

        ContextBuffers context = client.make_context();
        const Digest before = digest(stack, {&client});
        for (const uint64_t value :
             {kStart + 0x21 + kHalf, kStart + 0x1F - kHalf, uint64_t{0}, kMaximum}) {
          EXPECT_EQ(client.signal_cpu(fence.handle, value), kInvalid) << value;
          EXPECT_EQ(client.wait_cpu(fence.handle, value), kInvalid) << value;
          EXPECT_EQ(client.signal_gpu(context, fence.handle, value), kInvalid) << value;
          EXPECT_EQ(client.wait_gpu(context, fence.handle, value), kInvalid) << value;
        }
        EXPECT_EQ(fence.value32(), 0x10U);
        EXPECT_EQ(digest(stack, {&client}), before);
        EXPECT_EQ(client.signal_cpu(fence.handle, kStart + 0x20 + kHalf), 0) << "the furthest";

        const MonitoredFence wide = create_fence(client, kNoGpuAccess, kStart);
        EXPECT_EQ(wide.value(), kStart) << "never written by hardware: 64 bits";
        EXPECT_EQ(client.signal_cpu(wide.handle, kMaximum), 0);
        EXPECT_EQ(wide.value(), kMaximum);
      },
      narrow);
}

TEST_F(SyncMonitoredTest, ALostDeviceSetsTheMaximumOf32BitsToo) {
  DXGKIT_COVERS("SYNC-13", "SYNC-17");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const MonitoredFence fence = create_fence(client, 0, 6);
        ASSERT_EQ(client.render(context, work_on({})), 0);
        stack.settle();
        stack.miniport.faulted(0, stack.miniport.outstanding(0).at(0),
                               nt_status(Status::kUnsuccessful));
        stack.settle();
        EXPECT_EQ(fence.value32(), 0xFFFF'FFFFU);
      },
      narrow);
}

TEST_F(SyncMonitoredTest, BadHandlesAndCountsAreRefused) {
  DXGKIT_COVERS("SYNC-32", "THUNK-01", "THUNK-04", "THUNK-05");
  running([](Stack& stack) {
    Client client(stack), stranger(stack, "stranger");
    ContextBuffers context = client.make_context();
    const MonitoredFence fence = create_fence(client, 0, 3);
    const MonitoredFence gone = create_fence(client, 0);
    // Another process's handles look the same; take one that is not in use here.
    D3DKMT_HANDLE foreign = 0;
    for (int i = 0; i < 8; ++i) foreign = create_fence(stranger, 0).handle;
    ASSERT_EQ(destroy_sync(client, gone.handle), 0);
    const Digest before = digest(stack, {&client, &stranger});
    for (const D3DKMT_HANDLE bad : {D3DKMT_HANDLE{0}, gone.handle, foreign, client.device,
                                    context.handle, fence.handle + 1, ~fence.handle}) {
      EXPECT_EQ(client.signal_cpu(bad, 9), kInvalid) << bad;
      EXPECT_EQ(client.wait_cpu(bad, 0), kInvalid) << bad;
      EXPECT_EQ(client.signal_gpu(context, bad, 9), kInvalid) << bad;
      EXPECT_EQ(client.wait_gpu(context, bad, 0), kInvalid) << bad;
      EXPECT_EQ(destroy_sync(client, bad), kInvalid) << bad;
    }
    const std::vector<D3DKMT_HANDLE> handles(1U << 16, fence.handle);
    const std::vector<UINT64> values(1U << 16, 4);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal{};
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
    signal.hDevice = wait.hDevice = client.device;
    signal.ObjectHandleArray = wait.ObjectHandleArray = handles.data();
    signal.FenceValueArray = wait.FenceValueArray = values.data();
    const auto both = [&](UINT count) {
      signal.ObjectCount = wait.ObjectCount = count;
      const NTSTATUS first =
          client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&signal); });
      EXPECT_EQ(client.call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&wait); }),
                first)
          << count;
      return first;
    };
    for (const UINT count : {0U, (1U << 16) + 1, UINT32_MAX}) EXPECT_EQ(both(count), kInvalid);
    signal.FenceValueArray = wait.FenceValueArray = reinterpret_cast<const UINT64*>(0x10);
    EXPECT_EQ(both(2), nt_status(Status::kInvalidParameter));
    signal.FenceValueArray = wait.FenceValueArray = nullptr;
    EXPECT_EQ(both(2), kInvalid);
    EXPECT_EQ(fence.value(), 3U);
    EXPECT_EQ(digest(stack, {&client, &stranger}), before);
    signal.FenceValueArray = wait.FenceValueArray = values.data();
    EXPECT_EQ(both(1U << 16), 0) << "the most there may be";
    EXPECT_EQ(fence.value(), 4U);
  });
}

TEST_F(SyncMonitoredTest, ALowerSignalChangesNothingFromTheGpuEither) {
  DXGKIT_COVERS("SYNC-08", "SYNC-23");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const MonitoredFence fence = create_fence(client, 0, 100);
    ASSERT_EQ(client.signal_gpu(context, fence.handle, 7), 0);
    stack.drive();
    EXPECT_EQ(fence.value(), 100U);
    EXPECT_EQ(client.wait_cpu(fence.handle, 100), 0);
    EXPECT_EQ(client.signal_cpu(fence.handle, kMaximum), 0);
    EXPECT_EQ(client.wait_cpu(fence.handle, kMaximum), 0);
  });
}

}  // namespace
}  // namespace dxgkit::contract
