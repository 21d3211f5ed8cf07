// Events behind one context and behind several, and signals that one lost context stops.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>

#include "tests/contract/sync_fixture.h"

namespace dxgkit::contract {
namespace {

using SyncEventsTest = ContractTest;

bool was_set(int event) {
  uint64_t count = 0;
  return read(event, &count, sizeof count) == static_cast<ssize_t>(sizeof count);
}

// One context is all contexts, too: its event is set when its work is done, or, asked for at
// submission, when that is with the hardware.
TEST_F(SyncEventsTest, AnEventBehindOneContextIsSet) {
  DXGKIT_COVERS("SYNC-07", "SYNC-05");
  for (const bool at_submission : {false, true}) {
    SCOPED_TRACE(at_submission);
    with_client([&](Stack& stack, Client& client) {
      ContextBuffers context = client.make_context(1);
      ASSERT_EQ(client.render(context, work_on({})), 0);
      const int event = eventfd(0, EFD_NONBLOCK);
      D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 args{};
      args.hContext = context.handle;
      args.Flags.EnqueueCpuEvent = 1;
      args.Flags.SignalAtSubmission = at_submission ? 1 : 0;
      args.CpuEventHandle = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
      ASSERT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&args); }), 0);
      stack.settle();
      ASSERT_EQ(stack.miniport.outstanding(1).size(), 1U);
      EXPECT_EQ(was_set(event), at_submission);
      stack.drive();
      EXPECT_EQ(was_set(event), !at_submission) << "once";
      EXPECT_FALSE(was_set(event));
      close(event);
    });
  }
}

// A client's event may have a full counter, to which nobody can write without blocking. It is set
// already. A kernel that writes nevertheless never comes back.
TEST_F(SyncEventsTest, AFullEventStopsNothing) {
  DXGKIT_COVERS("SYNC-07");
  with_client([&](Stack& stack, Client& client) {
    const int event = eventfd(0, 0);
    ASSERT_EQ(eventfd_write(event, UINT64_MAX - 1), 0);
    const HANDLE handle = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
    const MonitoredFence fence = create_fence(client, 0, 0);
    const UINT64 value = 1;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
    wait.hDevice = client.device;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence.handle;
    wait.FenceValueArray = &value;
    wait.hAsyncEvent = handle;
    ASSERT_EQ(client.call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&wait); }), 0);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
    create.hDevice = client.device;
    create.Info.Type = D3DDDI_CPU_NOTIFICATION;
    create.Info.CPUNotification.Event = handle;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject2(&create); }), 0);
    ContextBuffers context = client.make_context(1);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    ASSERT_EQ(client.signal_gpu(context, create.hSyncObject, 1), 0);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 behind{};
    behind.hContext = context.handle;
    behind.Flags.EnqueueCpuEvent = 1;
    behind.CpuEventHandle = handle;
    ASSERT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&behind); }), 0);
    EXPECT_EQ(client.signal_cpu(fence.handle, 1), 0);
    stack.settle();
    stack.drive();
    eventfd_t count = 0;
    ASSERT_EQ(eventfd_read(event, &count), 0);
    EXPECT_EQ(count, UINT64_MAX - 1);
    close(event);
  });
}

// A signal that several contexts have to come to is refused if one of them never will, and leaves
// nothing behind in the others.
TEST_F(SyncEventsTest, OneLostContextRefusesABroadcast) {
  DXGKIT_COVERS("SYNC-06", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE second = client.make_device();
    ContextBuffers alive = client.make_context(), lost;
    ASSERT_EQ(client.create_context(&lost, 1, second), 0);
    const MonitoredFence fence = create_fence(client, 0, 3);
    ASSERT_EQ(client.render(lost, work_on({})), 0);
    stack.settle();
    stack.miniport.faulted(1, stack.miniport.outstanding(1).at(0),
                           nt_status(Status::kUnsuccessful));
    stack.settle();
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 args{};
    args.hContext = alive.handle;
    args.BroadcastContextCount = 1;
    args.BroadcastContext[0] = lost.handle;
    args.ObjectCount = 1;
    args.ObjectHandleArray[0] = fence.handle;
    args.Fence.FenceValue = 9;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&args); }), kRemoved);
    stack.drive();
    EXPECT_EQ(fence.value(), 3U);
    EXPECT_EQ(digest(stack, {&client}), before);
    args.BroadcastContextCount = 0;
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&args); }), 0);
    stack.drive();
    EXPECT_EQ(fence.value(), 9U);
  });
}

// The kernel keeps a descriptor of its own, which may be number 0, and may be one too many.
TEST_F(SyncEventsTest, TheKernelsOwnDescriptorMayBeTheFirstOrOneTooMany) {
  DXGKIT_COVERS("SYNC-07");
  with_client([&](Stack& stack, Client& client) {
    const int event = eventfd(0, EFD_NONBLOCK);
    const MonitoredFence fence = create_fence(client, 0, 0);
    UINT64 value = 0;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
    wait.hDevice = client.device;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence.handle;
    wait.FenceValueArray = &value;
    wait.hAsyncEvent = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
    const auto waits = [&] {
      return client.call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&wait); });
    };
    const int input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    ASSERT_GE(input, 3);
    close(STDIN_FILENO);
    value = 1;
    EXPECT_EQ(waits(), 0);
    EXPECT_NE(fcntl(STDIN_FILENO, F_GETFD), -1) << "it is the kernel's now";
    EXPECT_EQ(client.signal_cpu(fence.handle, 1), 0);
    stack.settle();
    EXPECT_TRUE(was_set(event));
    EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), -1) << "closed";
    ASSERT_EQ(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);

    ContextBuffers context = client.make_context(1);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
    create.hDevice = client.device;
    create.Info.Type = D3DDDI_CPU_NOTIFICATION;
    create.Info.CPUNotification.Event = wait.hAsyncEvent;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 behind{};
    behind.hContext = context.handle;
    behind.Flags.EnqueueCpuEvent = 1;
    behind.CpuEventHandle = wait.hAsyncEvent;
    const Digest untouched = digest(stack, {&client});
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    value = 2;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const std::array refused = {
        waits(), client.call([&] { return D3DKMTCreateSynchronizationObject2(&create); }),
        client.call([&] { return D3DKMTSignalSynchronizationObject2(&behind); })};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_THAT(refused, ::testing::Each(nt_status(Status::kNoMemory)));
    EXPECT_EQ(digest(stack, {&client}), untouched);
    EXPECT_EQ(client.signal_cpu(fence.handle, 2), 0);
    stack.settle();
    EXPECT_FALSE(was_set(event)) << "nobody waits";
    close(event);
  });
}

}  // namespace
}  // namespace dxgkit::contract
