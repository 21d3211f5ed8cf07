// Lists of several elements that go to hardware queues, and private data that comes back: each
// element is looked at, and each is what it is.
#include <sys/mman.h>

#include <cstring>

#include "tests/contract/hw_fixture.h"
#include "tests/contract/two_adapters.h"

namespace dxgkit::contract {
namespace {

using HwQueuePointsTest = HwTest;

struct Fence {
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 made{};
  D3DKMT_HANDLE handle = 0;
  explicit Fence(HwClient& client)
      : handle(client.make_sync(D3DDDI_MONITORED_FENCE, 0, 1, &made)) {}
  uint64_t value() const {
    return *static_cast<const uint64_t*>(made.Info.MonitoredFence.FenceValueCPUVirtualAddress);
  }
};

NTSTATUS wait_all(HwClient& client, D3DKMT_HANDLE queue, std::vector<D3DKMT_HANDLE> objects,
                  std::vector<uint64_t> values) {
  D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE args{};
  args.hHwQueue = queue;
  args.ObjectCount = static_cast<UINT>(objects.size());
  args.ObjectHandleArray = objects.data();
  args.FenceValueArray = values.data();
  return client.call([&] { return D3DKMTSubmitWaitForSyncObjectsToHwQueue(&args); });
}

NTSTATUS signal_all(HwClient& client, std::vector<D3DKMT_HANDLE> queues,
                    std::vector<D3DKMT_HANDLE> objects, std::vector<uint64_t> values,
                    UINT flags = 0) {
  D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE args{};
  args.Flags.Value = flags;
  args.BroadcastHwQueueCount = static_cast<UINT>(queues.size());
  args.BroadcastHwQueueArray = queues.data();
  args.ObjectCount = static_cast<UINT>(objects.size());
  args.ObjectHandleArray = objects.data();
  args.FenceValueArray = values.data();
  return client.call([&] { return D3DKMTSubmitSignalSyncObjectsToHwQueue(&args); });
}

TEST_F(HwQueuePointsTest, EachObjectOfAListHasItsOwnValue) {
  DXGKIT_COVERS("SYNC-06", "SYNC-20");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    Fence first(client), second(client), third(client);
    ASSERT_EQ(
        signal_all(client, {queue.handle}, {first.handle, second.handle, third.handle}, {3, 5, 4}),
        0);
    stack.drive();
    EXPECT_EQ(first.value(), 3U);
    EXPECT_EQ(second.value(), 5U);
    EXPECT_EQ(third.value(), 4U);

    Fence gate(client), other(client), done(client);
    ASSERT_EQ(wait_all(client, queue.handle, {gate.handle, other.handle}, {1, 7}), 0);
    ASSERT_EQ(client.signal(queue, done.handle, 1), 0);
    ASSERT_EQ(client.signal_cpu(gate.handle, 7), 0);
    stack.drive();
    EXPECT_EQ(done.value(), 0U) << "the second is waited for";
    ASSERT_EQ(client.signal_cpu(other.handle, 6), 0);
    stack.drive();
    EXPECT_EQ(done.value(), 0U) << "with the value of its own";
    ASSERT_EQ(client.signal_cpu(other.handle, 7), 0);
    stack.drive();
    EXPECT_EQ(done.value(), 1U);
  });
}

TEST_F(HwQueuePointsTest, AValueGoesBackOnlyIfTheSignalMayRewind) {
  DXGKIT_COVERS("SYNC-05", "SYNC-06");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    Fence fence(client);
    constexpr UINT kAllowFenceRewind = 4, kBoth = 5;
    ASSERT_EQ(signal_all(client, {queue.handle}, {fence.handle}, {9}), 0);
    stack.drive();
    ASSERT_EQ(fence.value(), 9U);
    ASSERT_EQ(signal_all(client, {queue.handle}, {fence.handle}, {6}, kAllowFenceRewind), 0);
    stack.drive();
    EXPECT_EQ(fence.value(), 6U);
    ASSERT_EQ(signal_all(client, {queue.handle}, {fence.handle}, {2}, kBoth), 0);
    stack.drive();
    EXPECT_EQ(fence.value(), 2U);
    const NTSTATUS without = signal_all(client, {queue.handle}, {fence.handle}, {1});
    stack.drive();
    EXPECT_EQ(fence.value(), 2U) << without;
  });
}

// Of each list the second element is one that may not be there.
TEST_F(HwQueuePointsTest, EveryElementIsOfTheAdapterAndOfTheRightKind) {
  DXGKIT_COVERS("THUNK-04", "THUNK-05", "SUB-36", "SYNC-11");
  running([](HwStack& stack) {
    SecondAdapter second(stack);
    {
      HwClient client(stack);
      ClientQueue queue = client.make_hw_queue();
      const D3DKMT_HANDLE elsewhere = second.make_device(client);
      D3DKMT_HANDLE theirs = 0;
      ASSERT_EQ(client.create_allocation({}, &theirs, elsewhere), 0);
      D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
      create.hDevice = elsewhere;
      create.Info.Type = D3DDDI_MONITORED_FENCE;
      ASSERT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject2(&create); }), 0);
      const D3DKMT_HANDLE their_fence = create.hSyncObject;
      const D3DKMT_HANDLE mine = client.make_allocation(kPage, kMemorySet);
      client.list({mine});
      stack.drive();
      Fence fence(client);
      const D3DKMT_HANDLE semaphore = client.make_sync(D3DDDI_SEMAPHORE, 0, 4);
      const Digest before = digest(stack, {&client});
      const auto submit = [&](std::vector<D3DKMT_HANDLE> primaries) {
        ClientQueue copy = queue;
        D3DKMT_SUBMITCOMMANDTOHWQUEUE args = client.submit_args(copy);
        args.NumPrimaries = static_cast<UINT>(primaries.size());
        args.WrittenPrimaries = primaries.data();
        return client.submit(args);
      };
      EXPECT_EQ(submit({theirs}), kInvalid);
      EXPECT_EQ(submit({mine, theirs}), kInvalid);
      EXPECT_EQ(submit({mine, 0}), kInvalid);
      for (const D3DKMT_HANDLE wrong : {their_fence, semaphore, queue.handle, 0U}) {
        EXPECT_EQ(wait_all(client, queue.handle, {fence.handle, wrong}, {1, 1}), kInvalid) << wrong;
        EXPECT_EQ(wait_all(client, queue.handle, {wrong, fence.handle}, {1, 1}), kInvalid) << wrong;
        EXPECT_EQ(signal_all(client, {queue.handle}, {fence.handle, wrong}, {1, 1}), kInvalid);
        EXPECT_EQ(signal_all(client, {queue.handle}, {wrong, fence.handle}, {1, 1}), kInvalid);
      }
      EXPECT_EQ(wait_all(client, queue.handle, {}, {}), kInvalid);
      EXPECT_EQ(signal_all(client, {queue.handle}, {}, {}), kInvalid);
      EXPECT_EQ(digest(stack, {&client}), before);
      EXPECT_EQ(fence.value(), 0U);
      ClientQueue copy = queue;
      ASSERT_EQ(client.submit(copy), 0) << "none of it lost the device";
      stack.drive();
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      client.end();
    }
  });
}

TEST_F(HwQueuePointsTest, WhatTheDriverWritesIntoPrivateDataComesBack) {
  DXGKIT_COVERS("THUNK-05");
  running([](HwStack& stack) {
    HwClient client(stack);
    D3DKMT_CREATEHWQUEUE args{};
    args.hHwContext = client.make_hw_context();
    std::vector<std::byte> data(24, std::byte{0x3C});
    args.pPrivateDriverData = data.data();
    args.PrivateDriverDataSize = 24;
    NTSTATUS answer = nt_status(Status::kNoMemory);
    stack.hw.on_create_queue = [&](void*, DXGKARG_CREATEHWQUEUE* given) {
      EXPECT_EQ(given->PrivateDriverDataSize, 24U);
      std::memset(given->pPrivateDriverData, 0x77, given->PrivateDriverDataSize);
      return answer;
    };
    EXPECT_EQ(client.create_hw_queue(args), answer);
    EXPECT_EQ(data, std::vector<std::byte>(24, std::byte{0x3C})) << "not from a refused call";
    answer = 0;
    EXPECT_EQ(client.create_hw_queue(args), 0);
    EXPECT_EQ(data, std::vector<std::byte>(24, std::byte{0x77}));
    // What cannot be written is refused before the driver hears of it.
    void* const page = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    const Digest before = digest(stack, {&client});
    args.pPrivateDriverData = page;
    EXPECT_EQ(client.create_hw_queue(args), kInvalid);
    D3DKMT_CREATEHWCONTEXT context{};
    context.hDevice = client.device;
    context.pPrivateDriverData = page;
    context.PrivateDriverDataSize = 8;
    EXPECT_EQ(client.create_hw_context(context), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    context.PrivateDriverDataSize = 0;
    EXPECT_EQ(client.create_hw_context(context), 0) << "there is nothing to write";
    munmap(page, kPage);
    stack.hw.on_create_queue = nullptr;
  });
}

}  // namespace
}  // namespace dxgkit::contract
