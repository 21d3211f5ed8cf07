// Keyed mutexes.
#include <cstring>
#include <string>

#include "nt/system_time.h"
#include "tests/contract/sync_fixture.h"

namespace dxgkit::contract {
namespace {

using KeyedMutexTest = ContractTest;

constexpr int64_t kMillisecond100ns = 10'000;
constexpr NTSTATUS kAbandoned = 0x80;
constexpr UINT kMostData = 1U << 20;

struct Mutex {
  NTSTATUS status = 0;
  D3DKMT_HANDLE handle = 0, global = 0;
};

Mutex create(Client& client, uint64_t key, std::string data = {}, bool nt = false) {
  D3DKMT_CREATEKEYEDMUTEX2 args{};
  args.InitialValue = key;
  args.pPrivateRuntimeData = data.data();
  args.PrivateRuntimeDataSize = static_cast<UINT>(data.size());
  args.Flags.NtSecuritySharing = nt ? 1 : 0;
  const NTSTATUS status = client.call([&] { return D3DKMTCreateKeyedMutex2(&args); });
  return {status, args.hKeyedMutex, args.hSharedHandle};
}

NTSTATUS open(Client& client, D3DKMT_HANDLE global, D3DKMT_HANDLE* out, char* data = nullptr,
              UINT bytes = 0) {
  D3DKMT_OPENKEYEDMUTEX2 args{};
  args.hSharedHandle = global;
  args.pPrivateRuntimeData = data;
  args.PrivateRuntimeDataSize = bytes;
  const NTSTATUS status = client.call([&] { return D3DKMTOpenKeyedMutex2(&args); });
  *out = args.hKeyedMutex;
  return status;
}

/// `timeout`: 100 ns units; null waits for ever.
NTSTATUS acquire(Client& client, D3DKMT_HANDLE mutex, uint64_t key, const int64_t* timeout,
                 uint64_t* fence = nullptr) {
  LARGE_INTEGER large{};
  if (timeout != nullptr) large.QuadPart = *timeout;
  D3DKMT_ACQUIREKEYEDMUTEX args{};
  args.hKeyedMutex = mutex;
  args.Key = key;
  args.pTimeout = timeout == nullptr ? nullptr : &large;
  args.FenceValue = 0xDEAD;
  const NTSTATUS status = client.call([&] { return D3DKMTAcquireKeyedMutex(&args); });
  if (fence != nullptr) *fence = args.FenceValue;
  return status;
}
NTSTATUS poll(Client& client, D3DKMT_HANDLE mutex, uint64_t key, uint64_t* fence = nullptr) {
  const int64_t now = 0;
  return acquire(client, mutex, key, &now, fence);
}

NTSTATUS release(Client& client, D3DKMT_HANDLE mutex, uint64_t key, uint64_t fence = 0) {
  D3DKMT_RELEASEKEYEDMUTEX args{};
  args.hKeyedMutex = mutex;
  args.Key = key;
  args.FenceValue = fence;
  return client.call([&] { return D3DKMTReleaseKeyedMutex(&args); });
}

NTSTATUS destroy(Client& client, D3DKMT_HANDLE mutex) {
  D3DKMT_DESTROYKEYEDMUTEX args{mutex};
  return client.call([&] { return D3DKMTDestroyKeyedMutex(&args); });
}

TEST_F(KeyedMutexTest, WhoeverHasTheKeyTheLastOwnerLeftIsNext) {
  DXGKIT_COVERS("SYNC-26");
  running([](Stack& stack) {
    Client one(stack, "one", false), two(stack, "two", false);
    const Mutex mutex = create(one, 5);
    ASSERT_EQ(mutex.status, 0);
    D3DKMT_HANDLE theirs = 0;
    ASSERT_EQ(open(two, mutex.global, &theirs), 0);
    uint64_t fence = 1;
    EXPECT_EQ(poll(one, mutex.handle, 4, &fence), kTimedOut) << "another key";
    EXPECT_EQ(fence, 0U) << "and there is no value";
    EXPECT_EQ(poll(one, mutex.handle, 5, &fence), 0);
    EXPECT_EQ(fence, 0U);
    EXPECT_EQ(poll(two, theirs, 5), kTimedOut) << "owned";
    EXPECT_EQ(poll(one, mutex.handle, 5), kTimedOut) << "also by the asker";

    NTSTATUS status = 1;
    Stack::Background wait(stack, [&] { status = acquire(two, theirs, 9, nullptr, &fence); });
    EXPECT_FALSE(wait.finished());
    EXPECT_EQ(release(one, mutex.handle, 8, 41), 0);
    EXPECT_FALSE(wait.finished()) << "released to another key";
    EXPECT_EQ(poll(one, mutex.handle, 8, &fence), 0);
    EXPECT_EQ(fence, 41U);
    EXPECT_EQ(release(one, mutex.handle, 9, 42), 0);
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(status, 0);
    EXPECT_EQ(fence, 42U) << "the last owner's";
  });
}

TEST_F(KeyedMutexTest, TimeoutsAreRelativeOrDates) {
  DXGKIT_COVERS("SYNC-26");
  running([](Stack& stack) {
    Client client(stack, "client", false);
    runtime::Runtime& runtime = runtime::Runtime::current();
    const Mutex mutex = create(client, 0);
    ASSERT_EQ(poll(client, mutex.handle, 0), 0);
    int64_t before = runtime.now();
    int64_t timeout = -30 * kMillisecond100ns;
    EXPECT_EQ(acquire(client, mutex.handle, 0, &timeout), kTimedOut);
    EXPECT_GE(runtime.now() - before, 30 * runtime::kMillisecond);
    EXPECT_LT(runtime.now() - before, 31 * runtime::kMillisecond);
    before = runtime.now();
    timeout = nt::kSystemTimeAtStart + before / 100 + 50 * kMillisecond100ns;
    EXPECT_EQ(acquire(client, mutex.handle, 0, &timeout), kTimedOut);
    EXPECT_GE(runtime.now() - before, 49 * runtime::kMillisecond);
    EXPECT_LT(runtime.now() - before, 51 * runtime::kMillisecond);
    before = runtime.now();
    timeout = 1;  // in 1601
    EXPECT_EQ(acquire(client, mutex.handle, 0, &timeout), kTimedOut);
    EXPECT_LT(runtime.now() - before, runtime::kMillisecond);
    // A release in time.
    timeout = -100 * kMillisecond100ns;
    NTSTATUS status = 1;
    Stack::Background wait(stack, [&] { status = acquire(client, mutex.handle, 3, &timeout); });
    runtime.sleep_for(20 * runtime::kMillisecond);
    EXPECT_EQ(release(client, mutex.handle, 3), 0);
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(status, 0);
  });
}

TEST_F(KeyedMutexTest, RuntimeDataGoesFromOwnerToOwner) {
  DXGKIT_COVERS("SYNC-26");
  running([](Stack& stack) {
    Client one(stack, "one", false), two(stack, "two", false);
    const Mutex mutex = create(one, 0, "made");
    ASSERT_EQ(mutex.status, 0);
    D3DKMT_HANDLE theirs = 0;
    char data[16] = {};
    const Digest before = digest(stack, {&one, &two});
    EXPECT_EQ(open(two, mutex.global, &theirs, data, 3), kInvalid) << "too little room";
    EXPECT_EQ(open(two, mutex.global, &theirs, nullptr, 4), kInvalid);
    EXPECT_EQ(open(two, mutex.global, &theirs, reinterpret_cast<char*>(0x10), 4),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&one, &two}), before);
    EXPECT_EQ(open(two, mutex.global, &theirs), 0) << "none is asked for";
    EXPECT_EQ(destroy(two, theirs), 0);
    EXPECT_EQ(open(two, mutex.global, &theirs, data, sizeof data), 0);
    EXPECT_STREQ(data, "") << "nothing is written";

    const int64_t now = 0;
    LARGE_INTEGER zero{};
    zero.QuadPart = now;
    D3DKMT_ACQUIREKEYEDMUTEX2 acquiring{};
    acquiring.hKeyedMutex = mutex.handle;
    acquiring.pTimeout = &zero;
    acquiring.pPrivateRuntimeData = data;
    acquiring.PrivateRuntimeDataSize = sizeof data;
    ASSERT_EQ(one.call([&] { return D3DKMTAcquireKeyedMutex2(&acquiring); }), 0);
    EXPECT_STREQ(data, "made") << "the opening changed nothing";
    char next[] = "left by one";
    D3DKMT_RELEASEKEYEDMUTEX2 releasing{};
    releasing.hKeyedMutex = mutex.handle;
    releasing.Key = 1;
    releasing.pPrivateRuntimeData = next;
    releasing.PrivateRuntimeDataSize = sizeof next;
    ASSERT_EQ(one.call([&] { return D3DKMTReleaseKeyedMutex2(&releasing); }), 0);

    acquiring.hKeyedMutex = theirs;
    acquiring.Key = 1;
    acquiring.PrivateRuntimeDataSize = 4;
    EXPECT_EQ(two.call([&] { return D3DKMTAcquireKeyedMutex2(&acquiring); }), kInvalid)
        << "too little room";
    acquiring.PrivateRuntimeDataSize = sizeof data;
    EXPECT_EQ(two.call([&] { return D3DKMTAcquireKeyedMutex2(&acquiring); }), 0)
        << "and the refused one did not take it";
    EXPECT_STREQ(data, "left by one");
  });
}

TEST_F(KeyedMutexTest, RoomForDataHasALimit) {
  DXGKIT_COVERS("SYNC-26", "THUNK-05");
  running([](Stack& stack) {
    Client client(stack, "client", false);
    std::string most(kMostData, 'd');
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(create(client, 0, most + "d").status, kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    const Mutex mutex = create(client, 0, most);
    ASSERT_EQ(mutex.status, 0);
    std::vector<char> data(kMostData + 1, '?');
    LARGE_INTEGER zero{};
    D3DKMT_ACQUIREKEYEDMUTEX2 acquiring{};
    acquiring.hKeyedMutex = mutex.handle;
    acquiring.pTimeout = &zero;
    acquiring.pPrivateRuntimeData = data.data();
    acquiring.PrivateRuntimeDataSize = kMostData + 1;
    EXPECT_EQ(client.call([&] { return D3DKMTAcquireKeyedMutex2(&acquiring); }), kInvalid);
    acquiring.PrivateRuntimeDataSize = kMostData;
    ASSERT_EQ(client.call([&] { return D3DKMTAcquireKeyedMutex2(&acquiring); }), 0)
        << "it was not taken";
    EXPECT_EQ(std::string(data.data(), data.size()), most + "?");
    D3DKMT_RELEASEKEYEDMUTEX2 releasing{};
    releasing.hKeyedMutex = mutex.handle;
    releasing.pPrivateRuntimeData = data.data();
    releasing.PrivateRuntimeDataSize = kMostData + 1;
    EXPECT_EQ(client.call([&] { return D3DKMTReleaseKeyedMutex2(&releasing); }), kInvalid);
    EXPECT_EQ(poll(client, mutex.handle, 0), kTimedOut) << "it is still owned";
    releasing.PrivateRuntimeDataSize = kMostData;
    EXPECT_EQ(client.call([&] { return D3DKMTReleaseKeyedMutex2(&releasing); }), 0);
  });
}

TEST_F(KeyedMutexTest, OnlyTheOwnerReleases) {
  DXGKIT_COVERS("SYNC-26", "THUNK-04", "THUNK-05");
  running([](Stack& stack) {
    Client one(stack, "one"), two(stack, "two", false);
    const Mutex mutex = create(one, 0);
    D3DKMT_HANDLE theirs = 0;
    ASSERT_EQ(open(two, mutex.global, &theirs), 0);
    EXPECT_EQ(release(one, mutex.handle, 3), kInvalid) << "nobody owns it";
    ASSERT_EQ(poll(one, mutex.handle, 0), 0);
    EXPECT_EQ(release(two, theirs, 3), kInvalid);
    EXPECT_EQ(release(one, mutex.handle, 0), 0);
    const Digest before = digest(stack, {&one, &two});
    for (const D3DKMT_HANDLE bad : {0U, mutex.global, one.device, mutex.handle + 0x40 * 100}) {
      EXPECT_EQ(poll(one, bad, 0), kInvalid) << bad;
      EXPECT_EQ(release(one, bad, 0), kInvalid) << bad;
      EXPECT_EQ(destroy(one, bad), kInvalid) << bad;
    }
    D3DKMT_ACQUIREKEYEDMUTEX args{};
    args.hKeyedMutex = mutex.handle;
    args.pTimeout = reinterpret_cast<LARGE_INTEGER*>(0x10);
    EXPECT_EQ(one.call([&] { return D3DKMTAcquireKeyedMutex(&args); }),
              nt_status(Status::kInvalidParameter));
    D3DKMT_CREATEKEYEDMUTEX2 reserved{};
    reserved.Flags.Value = 2;
    EXPECT_EQ(one.call([&] { return D3DKMTCreateKeyedMutex2(&reserved); }), kInvalid);
    EXPECT_EQ(digest(stack, {&one, &two}), before);
    EXPECT_EQ(poll(two, theirs, 0), 0) << "still free";
  });
}

TEST_F(KeyedMutexTest, ADeadOwnerAbandonsIt) {
  DXGKIT_COVERS("SYNC-38", "THUNK-08");
  running([](Stack& stack) {
    auto owner = std::make_unique<Client>(stack, "owner", false);
    Client next(stack, "next", false);
    const Mutex mutex = create(*owner, 7);
    D3DKMT_HANDLE theirs = 0, second = 0;
    ASSERT_EQ(open(next, mutex.global, &theirs), 0);
    ASSERT_EQ(poll(*owner, mutex.handle, 7), 0);
    NTSTATUS status = 1;
    uint64_t fence = 1;
    Stack::Background wait(stack, [&] { status = acquire(next, theirs, 7, nullptr, &fence); });
    EXPECT_FALSE(wait.finished());
    owner->end();
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(status, kAbandoned);
    EXPECT_EQ(fence, 0U);
    fence = 1;
    EXPECT_EQ(poll(next, theirs, 7, &fence), kAbandoned) << "and so it stays";
    EXPECT_EQ(fence, 0U);
    EXPECT_EQ(poll(next, theirs, 8), kAbandoned) << "whatever the key";
    EXPECT_EQ(release(next, theirs, 7), kInvalid) << "nobody owns it";
    ASSERT_EQ(open(next, mutex.global, &second), 0);
    EXPECT_EQ(poll(next, second, 7), kAbandoned);
    // By its handle alone, too.
    const Mutex other = create(next, 1);
    ASSERT_EQ(open(next, other.global, &second), 0);
    ASSERT_EQ(poll(next, other.handle, 1), 0);
    EXPECT_EQ(destroy(next, other.handle), 0);
    EXPECT_EQ(poll(next, second, 1), kAbandoned);
  });
}

TEST_F(KeyedMutexTest, WhoOpensItGivesTheDataItDoesNotHave) {
  DXGKIT_COVERS("SYNC-37");
  running([](Stack& stack) {
    Client one(stack, "one", false), two(stack, "two", false);
    const Mutex mutex = create(one, 0);
    D3DKMT_HANDLE theirs = 0, again = 0;
    char first[] = "first", second[] = "later";
    ASSERT_EQ(open(two, mutex.global, &theirs, first, sizeof first), 0);
    ASSERT_EQ(open(two, mutex.global, &again, second, sizeof second), 0);
    EXPECT_STREQ(second, "later") << "it is an input";
    EXPECT_EQ(open(two, mutex.global, &again, second, sizeof second - 1), kInvalid)
        << "less than the mutex has";
    char data[16] = {};
    LARGE_INTEGER zero{};
    D3DKMT_ACQUIREKEYEDMUTEX2 acquiring{};
    acquiring.hKeyedMutex = mutex.handle;
    acquiring.pTimeout = &zero;
    acquiring.pPrivateRuntimeData = data;
    acquiring.PrivateRuntimeDataSize = sizeof data;
    ASSERT_EQ(one.call([&] { return D3DKMTAcquireKeyedMutex2(&acquiring); }), 0);
    EXPECT_STREQ(data, "first");
  });
}

TEST_F(KeyedMutexTest, AProcessThatEndsWakesItsWaiters) {
  DXGKIT_COVERS("SYNC-28", "THUNK-08");
  running([](Stack& stack) {
    Client holder(stack, "holder", false);
    auto waiter = std::make_unique<Client>(stack, "waiter", false);
    const Mutex mutex = create(holder, 0);
    ASSERT_EQ(poll(holder, mutex.handle, 0), 0);
    D3DKMT_HANDLE theirs = 0;
    ASSERT_EQ(open(*waiter, mutex.global, &theirs), 0);
    NTSTATUS status = 1;
    Stack::Background wait(stack, [&] { status = acquire(*waiter, theirs, 0, nullptr); });
    EXPECT_FALSE(wait.finished());
    waiter->end();
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(status, kInvalid);
    // Likewise who destroys the handle another thread waits on.
    D3DKMT_HANDLE second = 0;
    ASSERT_EQ(open(holder, mutex.global, &second), 0);
    Stack::Background own(stack, [&] { status = acquire(holder, second, 0, nullptr); });
    EXPECT_FALSE(own.finished());
    EXPECT_EQ(destroy(holder, second), 0);
    EXPECT_TRUE(own.finished());
    EXPECT_EQ(status, kInvalid);
  });
}

TEST_F(KeyedMutexTest, ItEndsWithItsLastOpening) {
  DXGKIT_COVERS("SYNC-32", "THUNK-24");
  running([](Stack& stack) {
    Client one(stack, "one", false), two(stack, "two", false);
    const Mutex mutex = create(one, 0), hidden = create(one, 0, {}, true);
    EXPECT_EQ(mutex.global & 0x3FU, 2U);
    EXPECT_EQ(hidden.global, 0U) << "descriptors name it";
    D3DKMT_HANDLE theirs = 0;
    ASSERT_EQ(open(two, mutex.global, &theirs), 0);
    EXPECT_EQ(destroy(one, mutex.handle), 0);
    D3DKMT_HANDLE again = 0;
    EXPECT_EQ(open(one, mutex.global, &again), 0);
    EXPECT_EQ(destroy(one, again), 0);
    EXPECT_EQ(destroy(two, theirs), 0);
    EXPECT_EQ(open(one, mutex.global, &again), kInvalid);
    HANDLE unused = nullptr;
    EXPECT_EQ(share(one, {hidden.handle}, &unused), kInvalid) << "only with a resource (THUNK-23)";
  });
}

TEST_F(KeyedMutexTest, ABundleOpensResourceMutexAndSyncObject) {
  DXGKIT_COVERS("THUNK-23", "THUNK-53", "SYNC-32");
  running([](Stack& stack) {
    Client maker(stack, "maker"), user(stack, "user");
    ScriptedAllocation description;
    D3DDDI_ALLOCATIONINFO2 info{};
    info.pPrivateDriverData = &description;
    info.PrivateDriverDataSize = sizeof description;
    D3DKMT_CREATEALLOCATION creation{};
    creation.hDevice = maker.device;
    creation.NumAllocations = 1;
    creation.pAllocationInfo2 = &info;
    creation.Flags.CreateResource = 1;
    creation.Flags.CreateShared = 1;
    creation.Flags.NtSecuritySharing = 1;
    ASSERT_EQ(maker.call([&] { return D3DKMTCreateAllocation2(&creation); }), 0);
    const Mutex mutex = create(maker, 0, "key", true);
    const MonitoredFence fence = create_fence(maker, sync_flag::kNt, 6);
    const Mutex global_mutex = create(maker, 0);
    HANDLE unused = nullptr;
    const D3DKMT_HANDLE resource = creation.hResource;
    for (const std::vector<D3DKMT_HANDLE>& wrong : {
             std::vector{resource, global_mutex.handle, fence.handle},
             {resource, mutex.handle},
             {resource, fence.handle},
             {mutex.handle, fence.handle},
             {resource, resource, resource},
             {resource, fence.handle, mutex.handle},
             {mutex.handle, resource, fence.handle},
             {fence.handle, mutex.handle, resource},
             {info.hAllocation, mutex.handle, fence.handle},
             {resource, mutex.handle, fence.handle, fence.handle},
         })
      EXPECT_EQ(share(maker, wrong, &unused), kInvalid);
    EXPECT_EQ(unused, nullptr);
    SharedHandle shared;
    ASSERT_EQ(share(maker, {creation.hResource, mutex.handle, fence.handle}, &shared.handle), 0);
    maker.end();

    D3DDDI_OPENALLOCATIONINFO2 opened{};
    std::vector<std::byte> total(sizeof(ScriptedAllocation));
    char data[8] = {};
    D3DKMT_OPENRESOURCEFROMNTHANDLE args{};
    args.hDevice = user.device;
    args.hNtHandle = shared.handle;
    args.NumAllocations = 1;
    args.pOpenAllocationInfo2 = &opened;
    args.pTotalPrivateDriverDataBuffer = total.data();
    args.TotalPrivateDriverDataBufferSize = static_cast<UINT>(total.size());
    args.pKeyedMutexPrivateRuntimeData = data;
    args.KeyedMutexPrivateRuntimeDataSize = 1;
    const Digest before = digest(stack, {&user});
    EXPECT_EQ(user.call([&] { return D3DKMTOpenResourceFromNtHandle(&args); }), kInvalid)
        << "too little room for the mutex's data";
    std::vector<char> room(kMostData + 1, '?');
    args.pKeyedMutexPrivateRuntimeData = room.data();
    args.KeyedMutexPrivateRuntimeDataSize = kMostData + 1;
    EXPECT_EQ(user.call([&] { return D3DKMTOpenResourceFromNtHandle(&args); }), kInvalid)
        << "more than the kernel looks at";
    args.pKeyedMutexPrivateRuntimeData = reinterpret_cast<void*>(uintptr_t{0x10});
    args.KeyedMutexPrivateRuntimeDataSize = sizeof data;
    EXPECT_EQ(user.call([&] { return D3DKMTOpenResourceFromNtHandle(&args); }), kInvalid);
    args.pKeyedMutexPrivateRuntimeData = data;
    args.NumAllocations = 2;
    EXPECT_EQ(user.call([&] { return D3DKMTOpenResourceFromNtHandle(&args); }), kInvalid);
    EXPECT_EQ(digest(stack, {&user}), before);
    args.NumAllocations = 1;
    ASSERT_EQ(user.call([&] { return D3DKMTOpenResourceFromNtHandle(&args); }), 0);
    EXPECT_STREQ(data, "key");
    EXPECT_NE(args.hResource, 0U);
    EXPECT_EQ(poll(user, args.hKeyedMutex, 0), 0);
    EXPECT_EQ(user.wait_cpu(args.hSyncObject, 6), 0);
    // Without room, nothing of the data; with the most room there may be, all of it.
    D3DKMT_OPENRESOURCEFROMNTHANDLE more = args;
    more.pKeyedMutexPrivateRuntimeData = nullptr;
    more.KeyedMutexPrivateRuntimeDataSize = 0;
    ASSERT_EQ(user.call([&] { return D3DKMTOpenResourceFromNtHandle(&more); }), 0);
    more.pKeyedMutexPrivateRuntimeData = room.data();
    more.KeyedMutexPrivateRuntimeDataSize = 3;
    ASSERT_EQ(user.call([&] { return D3DKMTOpenResourceFromNtHandle(&more); }), 0);
    more.KeyedMutexPrivateRuntimeDataSize = kMostData;
    ASSERT_EQ(user.call([&] { return D3DKMTOpenResourceFromNtHandle(&more); }), 0);
    EXPECT_EQ(std::string(room.data(), 5), "key??") << "and no byte behind it";
    // It is a handle of the resource, and of nothing else.
    const Digest opened_all = digest(stack, {&user});
    D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE again{};
    again.hNtHandle = shared.handle;
    EXPECT_EQ(user.call([&] { return D3DKMTOpenKeyedMutexFromNtHandle(&again); }), kTypeMismatch);
    EXPECT_EQ(again.hKeyedMutex, 0U);
    EXPECT_EQ(open_fence(user, shared.handle).status, kTypeMismatch);
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE plain{};
    plain.hNtHandle = shared.handle;
    EXPECT_EQ(user.call([&] { return D3DKMTOpenSyncObjectFromNtHandle(&plain); }), kTypeMismatch);
    EXPECT_EQ(digest(stack, {&user}), opened_all);
  });
}

TEST_F(KeyedMutexTest, AHandleOfAnotherKindOpensNoMutex) {
  DXGKIT_COVERS("THUNK-23", "SYNC-26");
  running([](Stack& stack) {
    Client client(stack);
    const MonitoredFence fence = create_fence(client, sync_flag::kNt, 6);
    SharedHandle shared;
    ASSERT_EQ(share(client, {fence.handle}, &shared.handle), 0);
    D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE args{};
    args.hNtHandle = shared.handle;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTOpenKeyedMutexFromNtHandle(&args); }), kTypeMismatch);
    EXPECT_EQ(args.hKeyedMutex, 0U);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

}  // namespace
}  // namespace dxgkit::contract
