// Each flag of the synchronisation thunks by itself, and counts at their bounds.
#include <sys/eventfd.h>
#include <unistd.h>

#include <bit>

#include "tests/contract/sync_fixture.h"

namespace dxgkit::contract {
namespace {

using SyncFlagsTest = ContractTest;
constexpr NTSTATUS kUnsupported = nt_status(Status::kNotSupported);

TEST_F(SyncFlagsTest, EachFlagOfACreation) {
  DXGKIT_COVERS("SYNC-09", "SYNC-10", "THUNK-03");
  with_client([](Stack& stack, Client& client) {
    for (const bool monitored : {false, true}) {
      for (UINT bit = 0; bit < 32; ++bit) {
        SCOPED_TRACE(::testing::Message() << "bit " << bit << ", monitored " << monitored);
        NTSTATUS wanted = kInvalid;
        if (bit == 0 && !monitored) wanted = 0;                        // Shared
        if (bit == 2 || bit == 9 || bit == 10) wanted = kUnsupported;  // nothing honours them
        if (bit >= 3 && bit <= 5 && monitored) wanted = 0;
        if (bit == 6 || bit == 7) wanted = 0;
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
        args.hDevice = client.device;
        args.Info.Type = monitored ? D3DDDI_MONITORED_FENCE : D3DDDI_FENCE;
        args.Info.Flags.Value = 1U << bit;
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); }), wanted);
        if (wanted == 0) {
          EXPECT_EQ(destroy_sync(client, args.hSyncObject), 0);
        } else {
          EXPECT_EQ(digest(stack, {&client}), before);
        }
      }
    }
  });
}

/// Calls `call` with each flag alone: those in `allowed` are taken.
void each_flag(const char* what, UINT allowed, const std::function<NTSTATUS(UINT)>& call) {
  for (UINT bit = 0; bit < 32; ++bit) {
    const bool taken = (allowed >> bit & 1U) != 0;
    EXPECT_EQ(call(1U << bit), taken ? 0 : kInvalid) << what << ", bit " << bit;
  }
}

// Bit 0 of the affinity is the adapter. There are no links, so that other bits name nothing.
TEST_F(SyncFlagsTest, AMonitoredFenceIsForTheOneEngine) {
  DXGKIT_COVERS("SYNC-01", "INT-12");
  with_client([](Stack& stack, Client& client) {
    for (const UINT affinity : {0U, 1U, 2U, 3U, 0x8000'0001U}) {
      SCOPED_TRACE(affinity);
      D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
      args.hDevice = client.device;
      args.Info.Type = D3DDDI_MONITORED_FENCE;
      args.Info.MonitoredFence.EngineAffinity = affinity;
      const Digest before = digest(stack, {&client});
      const NTSTATUS status =
          client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); });
      EXPECT_EQ(status, affinity <= 1 ? 0 : kInvalid);
      if (affinity > 1) {
        EXPECT_EQ(digest(stack, {&client}), before);
      }
    }
  });
}

TEST_F(SyncFlagsTest, EachFlagOfSignalsAndWaits) {
  DXGKIT_COVERS("THUNK-03", "SYNC-07");
  with_client([](Stack& stack, Client& client) {
    const ContextBuffers context = client.make_context();
    const MonitoredFence fence = create_fence(client, 0, 7);
    const UINT64 value = 7;
    each_flag("signal from CPU", 1U << 2, [&](UINT flags) {
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU args{};
      args.hDevice = client.device;
      args.ObjectCount = 1;
      args.ObjectHandleArray = &fence.handle;
      args.FenceValueArray = &value;
      args.Flags = std::bit_cast<decltype(args.Flags)>(flags);
      return client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&args); });
    });
    each_flag("wait from CPU", 1U << 0, [&](UINT flags) {
      D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU args{};
      args.hDevice = client.device;
      args.ObjectCount = 1;
      args.ObjectHandleArray = &fence.handle;
      args.FenceValueArray = &value;
      args.Flags = std::bit_cast<decltype(args.Flags)>(flags);
      return client.call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&args); });
    });
    // EnqueueCpuEvent names no objects: with one it is refused, in the form without an event
    // always.
    each_flag("signal from GPU", 1U << 0 | 1U << 2, [&](UINT flags) {
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 args{};
      args.ObjectCount = 1;
      args.ObjectHandleArray = &fence.handle;
      args.MonitoredFenceValueArray = &value;
      args.BroadcastContextCount = 1;
      args.BroadcastContextArray = &context.handle;
      args.Flags = std::bit_cast<decltype(args.Flags)>(flags);
      return client.call([&] { return D3DKMTSignalSynchronizationObjectFromGpu2(&args); });
    });
    each_flag("legacy signal", 1U << 0 | 1U << 2, [&](UINT flags) {
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 args{};
      args.hContext = context.handle;
      args.ObjectCount = 1;
      args.ObjectHandleArray[0] = fence.handle;
      args.Fence.FenceValue = value;
      args.Flags = std::bit_cast<decltype(args.Flags)>(flags);
      return client.call([&] { return D3DKMTSignalSynchronizationObject2(&args); });
    });
    const D3DKMT_HANDLE legacy = client.make_sync(D3DDDI_FENCE, 5);
    each_flag("first signal", 1U << 0 | 1U << 2, [&](UINT flags) {
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECT args{};
      args.hContext = context.handle;
      args.ObjectCount = 1;
      args.ObjectHandleArray[0] = legacy;
      args.Flags = std::bit_cast<decltype(args.Flags)>(flags);
      return client.call([&] { return D3DKMTSignalSynchronizationObject(&args); });
    });
    stack.drive();
    EXPECT_EQ(fence.value(), 7U);
  });
}

// The oldest form has no value: it signals 0, which takes effect on a fence with AllowFenceRewind,
// and takes effect early with SignalAtSubmission.
TEST_F(SyncFlagsTest, TheFirstFormDoesWhatItsFlagsSay) {
  DXGKIT_COVERS("SYNC-05", "SYNC-08");
  for (const UINT flags : {0U, 1U, 4U, 5U}) {
    SCOPED_TRACE(flags);
    with_client([&](Stack& stack, Client& client) {
      const bool at_submission = (flags & 1U) != 0, rewinds = (flags & 4U) != 0;
      const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_FENCE, 5);
      ContextBuffers signals = client.make_context(0), waits = client.make_context(1);
      ASSERT_EQ(client.render(signals, work_on({})), 0);
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECT args{};
      args.hContext = signals.handle;
      args.ObjectCount = 1;
      args.ObjectHandleArray[0] = fence;
      args.Flags = std::bit_cast<decltype(args.Flags)>(flags);
      ASSERT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject(&args); }), 0);
      stack.settle();
      const auto runs = [&] {
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 wait{};
        wait.hContext = waits.handle;
        wait.ObjectCount = 1;
        wait.ObjectHandleArray[0] = fence;
        wait.Fence.FenceValue = 3;
        EXPECT_EQ(client.call([&] { return D3DKMTWaitForSynchronizationObject2(&wait); }), 0);
        EXPECT_EQ(client.render(waits, work_on({})), 0);
        stack.settle();
        return !stack.miniport.outstanding(1).empty();
      };
      EXPECT_EQ(runs(), !(at_submission && rewinds)) << "while the work is on hardware";
    });
    with_client([&](Stack& stack, Client& client) {
      const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_FENCE, 5);
      ContextBuffers context = client.make_context();
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECT args{};
      args.hContext = context.handle;
      args.ObjectCount = 1;
      args.ObjectHandleArray[0] = fence;
      args.Flags = std::bit_cast<decltype(args.Flags)>(flags);
      ASSERT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject(&args); }), 0);
      stack.drive();
      D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 wait{};
      wait.hContext = context.handle;
      wait.ObjectCount = 1;
      wait.ObjectHandleArray[0] = fence;
      wait.Fence.FenceValue = 3;
      EXPECT_EQ(client.call([&] { return D3DKMTWaitForSynchronizationObject2(&wait); }), 0);
      EXPECT_EQ(client.render(context, work_on({})), 0);
      stack.settle();
      EXPECT_EQ(stack.miniport.outstanding(0).empty(), (flags & 4U) != 0);
    });
  }
}

// As many contexts as the array holds, and not one more, though what is behind it may look like
// one.
TEST_F(SyncFlagsTest, ABroadcastHasSixtyFourContextsAtMost) {
  DXGKIT_COVERS("SYNC-06");
  with_client([](Stack& stack, Client& client) {
    const ContextBuffers context = client.make_context();
    const MonitoredFence fence = create_fence(client, 0);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 args{};
    args.hContext = context.handle;
    args.ObjectCount = 1;
    args.ObjectHandleArray[0] = fence.handle;
    for (D3DKMT_HANDLE& one : args.BroadcastContext) one = context.handle;
    args.Fence.FenceValue = context.handle;  // behind the array
    args.BroadcastContextCount = 65;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&args); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    args.BroadcastContextCount = 64;
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&args); }), 0);
    stack.drive();
    EXPECT_EQ(fence.value(), context.handle);
  });
}

// An event may be asked for in either form, at submission in either.
TEST_F(SyncFlagsTest, AnEventOfTheSecondFormComesAtSubmission) {
  DXGKIT_COVERS("SYNC-07");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers one = client.make_context(0), two = client.make_context(1);
    const D3DKMT_HANDLE contexts[] = {one.handle, two.handle};
    for (ContextBuffers* context : {&one, &two}) ASSERT_EQ(client.render(*context, work_on({})), 0);
    for (const bool at_submission : {false, true}) {
      const int event = eventfd(0, EFD_NONBLOCK);
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 args{};
      args.BroadcastContextCount = 2;
      args.BroadcastContextArray = contexts;
      args.CpuEventHandle = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
      args.Flags.EnqueueCpuEvent = 1;
      args.Flags.SignalAtSubmission = at_submission ? 1 : 0;
      ASSERT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObjectFromGpu2(&args); }), 0);
      stack.settle();
      uint64_t count = 0;
      const bool set = read(event, &count, sizeof count) == static_cast<ssize_t>(sizeof count);
      EXPECT_EQ(set, at_submission);
      if (!at_submission) stack.drive();
      for (ContextBuffers* context : {&one, &two})
        ASSERT_EQ(client.render(*context, work_on({})), 0);
      stack.settle();
      close(event);
    }
    stack.drive();
  });
}

// A mutex is made owned or free. Owned, it holds up whoever wants it until it is signalled.
TEST_F(SyncFlagsTest, AMutexIsMadeOwnedOrFree) {
  DXGKIT_COVERS("SYNC-02");
  for (const bool owned : {false, true}) {
    SCOPED_TRACE(owned);
    with_client([&](Stack& stack, Client& client) {
      const D3DKMT_HANDLE mutex = client.make_sync(D3DDDI_SYNCHRONIZATION_MUTEX, owned ? 1 : 0);
      ContextBuffers first = client.make_context(0), second = client.make_context(1);
      ASSERT_EQ(client.wait_gpu(first, mutex, 0), 0);
      ASSERT_EQ(client.render(first, work_on({})), 0);
      stack.settle();
      EXPECT_EQ(stack.miniport.outstanding(0).empty(), owned);
      if (owned) {
        ASSERT_EQ(client.signal_gpu(second, mutex, 0), 0);
        stack.settle();
        EXPECT_FALSE(stack.miniport.outstanding(0).empty());
      }
      ASSERT_EQ(client.wait_gpu(second, mutex, 0), 0);
      ASSERT_EQ(client.render(second, work_on({})), 0);
      stack.settle();
      EXPECT_TRUE(stack.miniport.outstanding(1).empty()) << "the first one has it";
      ASSERT_EQ(client.signal_gpu(first, mutex, 0), 0);
      stack.drive();
      EXPECT_EQ(stack.statistics().packets_completed, 2U);
    });
  }
}

// The first form of the call knows mutex and semaphore, with their counts, and nothing else.
TEST_F(SyncFlagsTest, TheFirstFormMakesMutexesAndSemaphores) {
  DXGKIT_COVERS("SYNC-02", "SYNC-03");
  with_client([](Stack& stack, Client& client) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT args{};
    const auto make = [&](D3DDDI_SYNCHRONIZATIONOBJECT_TYPE type) {
      args.hDevice = client.device;
      args.hSyncObject = 0;
      args.Info.Type = type;
      return client.call([&] { return D3DKMTCreateSynchronizationObject(&args); });
    };
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(make(D3DDDI_FENCE), kInvalid);
    EXPECT_EQ(make(D3DDDI_MONITORED_FENCE), kInvalid);
    args.Info.Semaphore.MaxCount = 1;
    args.Info.Semaphore.InitialCount = 2;
    EXPECT_EQ(make(D3DDDI_SEMAPHORE), kInvalid) << "more than there may be";
    EXPECT_EQ(digest(stack, {&client}), before);
    args.Info.Semaphore.MaxCount = 2;
    args.Info.Semaphore.InitialCount = 1;
    ASSERT_EQ(make(D3DDDI_SEMAPHORE), 0);
    const D3DKMT_HANDLE semaphore = args.hSyncObject;
    ContextBuffers first = client.make_context(0), second = client.make_context(1);
    for (ContextBuffers* context : {&first, &second}) {
      ASSERT_EQ(client.wait_gpu(*context, semaphore, 0), 0);
      ASSERT_EQ(client.render(*context, work_on({})), 0);
    }
    stack.settle();
    EXPECT_FALSE(stack.miniport.outstanding(0).empty()) << "one was there";
    EXPECT_TRUE(stack.miniport.outstanding(1).empty());
    ASSERT_EQ(client.signal_gpu(first, semaphore, 0), 0);
    stack.drive();
    for (const bool owned : {false, true}) {
      args.Info.SynchronizationMutex.InitialState = owned ? TRUE : FALSE;
      ASSERT_EQ(make(D3DDDI_SYNCHRONIZATION_MUTEX), 0);
      ContextBuffers third = client.make_context(0);
      ASSERT_EQ(client.wait_gpu(third, args.hSyncObject, 0), 0);
      ASSERT_EQ(client.render(third, work_on({})), 0);
      stack.settle();
      EXPECT_EQ(stack.miniport.outstanding(0).empty(), owned);
      if (owned) {
        EXPECT_EQ(client.signal_gpu(second, args.hSyncObject, 0), 0);
      }
      stack.drive();
    }
    EXPECT_EQ(stack.statistics().packets_completed, 4U);
  });
}

// What is signalled at the top of the pipeline is waited for like any other.
TEST_F(SyncFlagsTest, TheTopOfThePipelineIsWaitedFor) {
  DXGKIT_COVERS("SYNC-12", "SYNC-20", "SYNC-21");
  with_client([](Stack& stack, Client& client) {
    const MonitoredFence top = create_fence(client, sync_flag::kTopOfPipeline, 3);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.wait_gpu(context, top.handle, 4), 0);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    Stack::Background wait(stack, [&] { EXPECT_EQ(client.wait_cpu(top.handle, 4), 0); });
    EXPECT_FALSE(wait.finished());
    EXPECT_TRUE(stack.miniport.outstanding(0).empty());
    ASSERT_EQ(client.signal_cpu(top.handle, 4), 0);
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(stack.miniport.outstanding(0).size(), 1U);
    stack.drive();
  });
}

// The legacy calls ask for the same rights as the others.
TEST_F(SyncFlagsTest, ALegacyWaitNeedsTheRightToWaitOnly) {
  DXGKIT_COVERS("SYNC-11", "SYNC-06");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const MonitoredFence to_wait = create_fence(client, sync_flag::kNoSignal, 5);
    const MonitoredFence to_signal = create_fence(client, sync_flag::kNoWait, 5);
    ASSERT_EQ(to_wait.status, 0);
    ASSERT_EQ(to_signal.status, 0);
    const auto wait = [&](D3DKMT_HANDLE object) {
      D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 args{};
      args.hContext = context.handle;
      args.ObjectCount = 1;
      args.ObjectHandleArray[0] = object;
      args.Fence.FenceValue = 5;
      return client.call([&] { return D3DKMTWaitForSynchronizationObject2(&args); });
    };
    const auto signal = [&](D3DKMT_HANDLE object) {
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 args{};
      args.hContext = context.handle;
      args.ObjectCount = 1;
      args.ObjectHandleArray[0] = object;
      args.Fence.FenceValue = 6;
      return client.call([&] { return D3DKMTSignalSynchronizationObject2(&args); });
    };
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(wait(to_signal.handle), kDenied);
    EXPECT_EQ(signal(to_wait.handle), kDenied);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(wait(to_wait.handle), 0);
    EXPECT_EQ(signal(to_signal.handle), 0);
    stack.drive();
    EXPECT_EQ(to_signal.value(), 6U);
    EXPECT_EQ(to_wait.value(), 5U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
