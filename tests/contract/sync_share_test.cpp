// Synchronisation objects of several processes.
#include "tests/contract/sync_fixture.h"

namespace dxgkit::contract {
namespace {

using namespace sync_flag;
using SyncShareTest = ContractTest;

NTSTATUS create(Client& client, D3DDDI_SYNCHRONIZATIONOBJECT_TYPE type, UINT flags,
                D3DKMT_CREATESYNCHRONIZATIONOBJECT2* args) {
  *args = {};
  args->hDevice = client.device;
  args->Info.Type = type;
  args->Info.Flags.Value = flags;
  if (type == D3DDDI_SEMAPHORE) args->Info.Semaphore.MaxCount = 4;
  return client.call([&] { return D3DKMTCreateSynchronizationObject2(args); });
}

NTSTATUS open_global(Client& client, D3DKMT_HANDLE global, D3DKMT_HANDLE* out) {
  D3DKMT_OPENSYNCHRONIZATIONOBJECT args{};
  args.hSharedHandle = global;
  const NTSTATUS status = client.call([&] { return D3DKMTOpenSynchronizationObject(&args); });
  *out = args.hSyncObject;
  return status;
}

NTSTATUS open_nt(Client& client, HANDLE handle, D3DKMT_HANDLE* out) {
  D3DKMT_OPENSYNCOBJECTFROMNTHANDLE args{};
  args.hNtHandle = handle;
  const NTSTATUS status = client.call([&] { return D3DKMTOpenSyncObjectFromNtHandle(&args); });
  *out = args.hSyncObject;
  return status;
}

TEST_F(SyncShareTest, AGlobalHandleOpensTheObjectInAnyProcess) {
  DXGKIT_COVERS("SYNC-32", "THUNK-24", "SYNC-09");
  running([](Stack& stack) {
    auto maker = std::make_unique<Client>(stack, "maker");
    Client user(stack, "user");
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 made;
    ASSERT_EQ(create(*maker, D3DDDI_SEMAPHORE, kShared, &made), 0);
    const D3DKMT_HANDLE global = made.Info.SharedHandle;
    EXPECT_EQ(global & 0x3FU, 2U) << "no process handle looks like it";
    EXPECT_EQ(destroy_sync(*maker, global), kInvalid);
    EXPECT_EQ(user.signal_cpu(made.hSyncObject, 0), kInvalid)
        << "the maker's handle is the maker's";
    EXPECT_EQ(user.signal_cpu(global, 0), kInvalid) << "a global handle is for opening";

    D3DKMT_HANDLE opened = 0, again = 0;
    ASSERT_EQ(open_global(user, global, &opened), 0);
    ContextBuffers theirs = user.make_context(0), mine = maker->make_context(1);
    ASSERT_EQ(user.wait_gpu(theirs, opened, 0), 0);
    ASSERT_EQ(user.render(theirs, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 0U);
    ASSERT_EQ(maker->signal_gpu(mine, made.hSyncObject, 0), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 1U);

    maker->end();  // one opening of two
    EXPECT_EQ(user.signal_gpu(theirs, opened, 0), 0);
    EXPECT_EQ(user.wait_gpu(theirs, opened, 0), 0);
    ASSERT_EQ(user.render(theirs, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 2U);
    EXPECT_EQ(open_global(user, global, &again), 0) << "it lives as long as one is open";
    EXPECT_EQ(destroy_sync(user, again), 0);
    EXPECT_EQ(destroy_sync(user, opened), 0);
    const Digest before = digest(stack, {&user});
    EXPECT_EQ(open_global(user, global, &again), kInvalid) << "gone with the last";
    EXPECT_EQ(digest(stack, {&user}), before);
  });
}

TEST_F(SyncShareTest, ADescriptorOpensTheObjectAndHoldsIt) {
  DXGKIT_COVERS("SYNC-32", "SYNC-15", "THUNK-23");
  running([](Stack& stack) {
    Client user(stack, "user");
    SharedHandle shared;
    const uint64_t pages = stack.machine.free_page_count();
    {
      Client maker(stack, "maker");
      const MonitoredFence fence = create_fence(maker, kNt, 3);
      ASSERT_EQ(share(maker, {fence.handle}, &shared.handle), 0);
      ASSERT_EQ(maker.signal_cpu(fence.handle, 8), 0);
      maker.end();
    }
    MonitoredFence mine = open_fence(user, shared.handle);
    ASSERT_EQ(mine.status, 0);
    EXPECT_EQ(mine.value(), 8U) << "the same object, after its maker's end";
    D3DKMT_HANDLE plain = 0;
    ASSERT_EQ(open_nt(user, shared.handle, &plain), 0);
    EXPECT_EQ(user.signal_cpu(plain, 9), 0);
    EXPECT_EQ(mine.value(), 9U);
    EXPECT_EQ(destroy_sync(user, plain), 0);
    EXPECT_EQ(destroy_sync(user, mine.handle), 0);
    mine = open_fence(user, shared.handle);
    ASSERT_EQ(mine.status, 0) << "the descriptor held it";
    EXPECT_EQ(mine.value(), 9U);
    shared.close();
    EXPECT_EQ(destroy_sync(user, mine.handle), 0);
    stack.settle();
    EXPECT_EQ(stack.machine.free_page_count(), pages) << "gone with its page";
  });
}

// What was opened without a device is shared like what was made on one.
TEST_F(SyncShareTest, WhoHasOpenedAnObjectMayShareItFurther) {
  DXGKIT_COVERS("SYNC-32", "THUNK-23");
  running([](Stack& stack) {
    Client user(stack, "user"), third(stack, "third");
    SharedHandle first, second;
    {
      Client maker(stack, "maker");
      const MonitoredFence fence = create_fence(maker, kNt, 3);
      ASSERT_EQ(share(maker, {fence.handle}, &first.handle), 0);
      maker.end();
    }
    D3DKMT_HANDLE plain = 0;
    ASSERT_EQ(open_nt(user, first.handle, &plain), 0);
    ASSERT_EQ(share(user, {plain}, &second.handle), 0);
    first.close();
    EXPECT_EQ(destroy_sync(user, plain), 0);
    MonitoredFence fence = open_fence(third, second.handle);
    ASSERT_EQ(fence.status, 0) << "the second descriptor holds it";
    EXPECT_EQ(fence.value(), 3U);
    EXPECT_EQ(destroy_sync(third, fence.handle), 0);
  });
}

TEST_F(SyncShareTest, TheLastCloseWakesWaitersAndTheOthersDoNot) {
  DXGKIT_COVERS("SYNC-32", "SYNC-28");
  running([](Stack& stack) {
    Client one(stack, "one"), two(stack, "two");
    const MonitoredFence made = create_fence(one, kNt);
    SharedHandle shared;
    ASSERT_EQ(share(one, {made.handle}, &shared.handle), 0);
    const MonitoredFence opened = open_fence(two, shared.handle);
    ASSERT_EQ(opened.status, 0);
    shared.close();
    NTSTATUS status = 1;
    Stack::Background wait(stack, [&] { status = two.wait_cpu(opened.handle, 5); });
    EXPECT_FALSE(wait.finished());
    EXPECT_EQ(destroy_sync(one, made.handle), 0);
    EXPECT_FALSE(wait.finished());
    EXPECT_EQ(destroy_sync(two, opened.handle), 0);
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(status, kBadHandle);
  });
}

TEST_F(SyncShareTest, OpeningWhatIsNotThereIsRefused) {
  DXGKIT_COVERS("SYNC-32", "THUNK-05", "THUNK-23", "THUNK-24");
  running([](Stack& stack) {
    Client client(stack);
    const MonitoredFence plain = create_fence(client, 0), fence = create_fence(client, kNt);
    SharedHandle shared, none;
    ASSERT_EQ(share(client, {fence.handle}, &shared.handle), 0);
    ASSERT_EQ(share(client, {fence.handle}, &none.handle, 0), 0);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const auto handle_of = [](int fd) {
      return reinterpret_cast<HANDLE>(static_cast<uintptr_t>(fd));
    };
    const Digest before = digest(stack, {&client});
    D3DKMT_HANDLE out = 77;
    for (const D3DKMT_HANDLE bad : {0U, 2U, 0x4000'0002U, fence.handle, UINT32_MAX})
      EXPECT_EQ(open_global(client, bad, &out), kInvalid) << bad;
    struct Row {
      HANDLE handle;
      NTSTATUS expected;
    };
    for (const Row& row : {Row{nullptr, kBadHandle}, Row{handle_of(1000), kBadHandle},
                           Row{reinterpret_cast<HANDLE>(~uintptr_t{0}), kBadHandle},
                           Row{handle_of(ends[0]), kTypeMismatch}, Row{none.handle, kDenied}}) {
      EXPECT_EQ(open_nt(client, row.handle, &out), row.expected) << row.handle;
      EXPECT_EQ(open_fence(client, row.handle).status, row.expected) << row.handle;
    }
    EXPECT_EQ(open_fence(client, shared.handle, 0, plain.handle).status, kInvalid) << "no device";
    EXPECT_EQ(open_fence(client, shared.handle, kNoSignal | kNoWait).status, kInvalid);
    EXPECT_EQ(open_fence(client, shared.handle, 1U << 20).status, kInvalid);
    HANDLE unused = nullptr;
    EXPECT_EQ(share(client, {plain.handle}, &unused), kInvalid) << "not made for it";
    EXPECT_EQ(share(client, {fence.handle, fence.handle}, &unused), kInvalid);
    EXPECT_EQ(share(client, {fence.handle, plain.handle}, &unused), kInvalid);
    EXPECT_EQ(unused, nullptr);
    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE query{};
    query.hDevice = client.device;
    query.hNtHandle = shared.handle;
    EXPECT_EQ(client.call([&] { return D3DKMTQueryResourceInfoFromNtHandle(&query); }),
              kTypeMismatch)
        << "a sync object is no resource";
    EXPECT_EQ(digest(stack, {&client}), before);
    close(ends[0]);
    close(ends[1]);
  });
}

TEST_F(SyncShareTest, AMutexOfAnotherProcessIsFreedWhenItsOwnerDies) {
  DXGKIT_COVERS("SYNC-27", "SYNC-02");
  running([](Stack& stack) {
    auto owner = std::make_unique<Client>(stack, "owner");
    Client next(stack, "next");
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 made;
    ASSERT_EQ(create(*owner, D3DDDI_SYNCHRONIZATION_MUTEX, kShared, &made), 0);
    D3DKMT_HANDLE opened = 0;
    ASSERT_EQ(open_global(next, made.Info.SharedHandle, &opened), 0);
    ContextBuffers context = owner->make_context(), waiting = next.make_context();
    const auto acquire = [](Client& client, const ContextBuffers& on, D3DKMT_HANDLE mutex) {
      D3DKMT_WAITFORSYNCHRONIZATIONOBJECT args{};
      args.hContext = on.handle;
      args.ObjectCount = 1;
      args.ObjectHandleArray[0] = mutex;
      return client.call([&] { return D3DKMTWaitForSynchronizationObject(&args); });
    };
    ASSERT_EQ(acquire(*owner, context, made.hSyncObject), 0);
    stack.settle();
    ASSERT_EQ(acquire(next, waiting, opened), 0);
    ASSERT_EQ(next.render(waiting, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 0U);
    owner->end();
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 1U);
  });
}

TEST_F(SyncShareTest, AStoppedAdapterRefusesToOpenAndLetsClose) {
  DXGKIT_COVERS("THUNK-07", "SYNC-32");
  running([](Stack& stack) {
    Client client(stack);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 made;
    ASSERT_EQ(create(client, D3DDDI_FENCE, kShared, &made), 0);
    D3DKMT_HANDLE opened = 0;
    ASSERT_EQ(open_global(client, made.Info.SharedHandle, &opened), 0);
    SharedHandle shared;
    const MonitoredFence fence = create_fence(client, kNt);
    ASSERT_EQ(share(client, {fence.handle}, &shared.handle), 0);
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    D3DKMT_HANDLE again = 0;
    EXPECT_EQ(open_global(client, made.Info.SharedHandle, &again), kRemoved);
    EXPECT_EQ(open_fence(client, shared.handle).status, kRemoved);
    EXPECT_EQ(client.signal_cpu(fence.handle, 1), kRemoved);
    EXPECT_EQ(destroy_sync(client, opened), 0);
    EXPECT_EQ(destroy_sync(client, fence.handle), 0);
  });
}

}  // namespace
}  // namespace dxgkit::contract
