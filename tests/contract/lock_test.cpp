// CPU access: the old Lock with all its flags, and renaming.
#include <algorithm>
#include <cstring>

#include "tests/contract/lock_fixture.h"

namespace dxgkit::contract {
namespace {

using LockTest = ContractTest;

struct BadLock {
  const char* sentence;
  NTSTATUS status;
  void (*broken)(D3DKMT_LOCK&, Client&);
};
class BadLocks : public ContractTest, public ::testing::WithParamInterface<BadLock> {};
TEST_P(BadLocks, AreRefusedAndNothingChanges) {
  DXGKIT_COVERS("ALLOC-37", "THUNK-03", "THUNK-04", "THUNK-05", "THUNK-01");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible | kAperture));
    D3DKMT_LOCK args = lock_args(handle);
    args.hDevice = client.device;
    GetParam().broken(args, client);
    const D3DKMT_LOCK given = args;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTLock(&args); }), GetParam().status);
    EXPECT_EQ(std::memcmp(&args, &given, sizeof args), 0);
    EXPECT_EQ(digest(stack, {&client}), before);
    D3DKMT_LOCK good = lock_args(handle);
    EXPECT_EQ(lock(client, good), 0);
    EXPECT_EQ(unlock(client, {handle}), 0);
    EXPECT_EQ(unlock(client, {handle}), kInvalid) << "the refused one did not count";
  });
}
const BadLock kBadLocks[] = {
    {"ReadOnlyAndWriteOnly", kInvalid,
     [](auto& a, auto&) { a.Flags.Value = kReadOnly | kWriteOnly; }},
    {"IgnoreSyncAndAcquireAperture", kInvalid,
     [](auto& a, auto&) { a.Flags.Value = kIgnoreSync | kAcquireAperture; }},
    {"IgnoreSyncAndAcquireApertureBesideDiscard", kInvalid,
     [](auto& a, auto&) { a.Flags.Value = kIgnoreSync | kAcquireAperture | kDiscard; }},
    {"UseAlternateVaAlone", kInvalid, [](auto& a, auto&) { a.Flags.Value = kUseAlternateVa; }},
    {"TheFirstReservedBit", kInvalid, [](auto& a, auto&) { a.Flags.Value = 1U << 11; }},
    {"TheLastReservedBit", kInvalid, [](auto& a, auto&) { a.Flags.Value = 1U << 31; }},
    {"AllBits", kInvalid, [](auto& a, auto&) { a.Flags.Value = UINT32_MAX; }},
    {"DeviceZero", kInvalid, [](auto& a, auto&) { a.hDevice = 0; }},
    {"DeviceMax", kInvalid, [](auto& a, auto&) { a.hDevice = UINT32_MAX; }},
    {"DeviceWithAStrayBit", kInvalid, [](auto& a, auto&) { a.hDevice |= 1; }},
    {"AnAllocationAsTheDevice", kInvalid, [](auto& a, auto&) { a.hDevice = a.hAllocation; }},
    {"AnotherDevice", kInvalid, [](auto& a, auto& c) { a.hDevice = c.make_device(); }},
    {"AllocationZero", kInvalid, [](auto& a, auto&) { a.hAllocation = 0; }},
    {"AllocationMax", kInvalid, [](auto& a, auto&) { a.hAllocation = UINT32_MAX; }},
    {"AllocationWithAStrayBit", kInvalid, [](auto& a, auto&) { a.hAllocation |= 2; }},
    {"TheDeviceAsTheAllocation", kInvalid, [](auto& a, auto&) { a.hAllocation = a.hDevice; }},
    {"FreedAllocation", kInvalid,
     [](auto& a, auto& c) {
       a.hAllocation = c.make_allocation();
       EXPECT_EQ(c.destroy_allocation(a.hAllocation, 2), 0);
     }},
    {"NotCpuVisible", kInvalid,
     [](auto& a, auto& c) {
       a.hAllocation = c.make_allocation(described(kHidden | kAperture, 0));
     }},
    {"IgnoreSyncWhereNoApertureCanHoldIt", kInvalid,
     [](auto& a, auto& c) {
       a.hAllocation = c.make_allocation(described(kVisible));
       a.Flags.Value = kIgnoreSync;
     }},
    {"APageBehindTheEnd", kInvalid,
     [](auto& a, auto&) {
       static const UINT pages[] = {0, 4};
       a.NumPages = 2;
       a.pPages = pages;
     }},
    {"TheLastPossiblePage", kInvalid,
     [](auto& a, auto&) {
       static const UINT pages[] = {UINT32_MAX};
       a.NumPages = 1;
       a.pPages = pages;
     }},
    {"NoPageList", kInvalid, [](auto& a, auto&) { a.NumPages = 1; }},
    {"ALongPageList", kInvalid, [](auto& a, auto&) { a.NumPages = UINT32_MAX; }},
    {"AnUnreadablePageList", nt_status(Status::kAccessViolation),
     [](auto& a, auto&) {
       a.NumPages = 1;
       a.pPages = reinterpret_cast<const UINT*>(uintptr_t{0x10});
     }},
};
INSTANTIATE_TEST_SUITE_P(Rows, BadLocks, ::testing::ValuesIn(kBadLocks),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(LockTest, OnlyWhatTheCpuMaySeeAndOnlyInTheProcessThatMadeIt) {
  DXGKIT_COVERS("ALLOC-34", "ALLOC-35");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    const D3DKMT_HANDLE hidden = maker.make_allocation(described(kHidden | kAperture, 0));
    D3DKMT_LOCK args = lock_args(hidden);
    EXPECT_EQ(lock(maker, args), kInvalid);
    void* address = nullptr;
    EXPECT_EQ(maker.lock(hidden, &address), 0) << "the new Lock takes it";
    EXPECT_EQ(maker.unlock(hidden), 0);

    ScriptedAllocation data = described(kVisible | kAperture);
    D3DDDI_ALLOCATIONINFO info{};
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = maker.device;
    create.NumAllocations = 1;
    create.pAllocationInfo = &info;
    create.Flags.CreateResource = create.Flags.CreateShared = 1;
    ASSERT_EQ(maker.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
    D3DDDI_OPENALLOCATIONINFO opened{};
    std::byte total[sizeof data];
    D3DKMT_OPENRESOURCE open{};
    open.hDevice = user.device;
    open.hGlobalShare = create.hGlobalShare;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo = &opened;
    open.pTotalPrivateDriverDataBuffer = total;
    open.TotalPrivateDriverDataBufferSize = sizeof total;
    ASSERT_EQ(user.call([&] { return D3DKMTOpenResource(&open); }), 0);
    const Digest before = digest(stack, {&maker, &user});
    args = lock_args(opened.hAllocation);
    EXPECT_EQ(lock(user, args), kInvalid);
    EXPECT_EQ(digest(stack, {&maker, &user}), before);
    args = lock_args(info.hAllocation);
    EXPECT_EQ(lock(maker, args), 0);
    EXPECT_EQ(unlock(maker, {info.hAllocation}), 0);
    EXPECT_EQ(user.lock(opened.hAllocation, &address), 0) << "the new Lock does";
    EXPECT_EQ(user.unlock(opened.hAllocation), 0);
    // Shared content is not renamed: its other users would not know.
    ContextBuffers context = maker.make_context();
    use(stack, maker, context, info.hAllocation);
    args = lock_args(info.hAllocation, kDiscard | kDonotWait);
    EXPECT_EQ(lock_now(maker, args), kBusy);
    EXPECT_EQ(args.hAllocation, info.hAllocation);
    stack.drive();
  });
}

TEST_F(LockTest, WaitsForTheGpuUnlessToldNotTo) {
  DXGKIT_COVERS("ALLOC-38");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible | kAperture));
    use(stack, client, context, handle);
    const Digest before = digest(stack, {&client});
    D3DKMT_LOCK args = lock_args(handle, kDonotWait);
    EXPECT_EQ(lock_now(client, args), kBusy);
    EXPECT_EQ(args.pData, nullptr);
    EXPECT_EQ(digest(stack, {&client}), before);
    {
      args = lock_args(handle, kIgnoreSync | kDonotWait);
      stack.drive();  // brings it in
      use(stack, client, context, handle);
      EXPECT_EQ(lock_now(client, args), 0) << "nobody asked about the GPU";
      EXPECT_NE(args.pData, nullptr);
      EXPECT_EQ(unlock(client, {handle}), 0);
    }
    args = lock_args(handle);
    NTSTATUS status = 1;
    Stack::Background waiting(stack, [&] { status = lock_now(client, args); });
    EXPECT_FALSE(waiting.finished());
    waiting.finish();
    EXPECT_EQ(status, 0);
    EXPECT_EQ(args.hAllocation, handle);
    EXPECT_EQ(args.GpuVirtualAddress, 0U);
    std::memset(args.pData, 0x5A, 16 * kKibibyte);
    D3DKMT_LOCK again = lock_args(handle, kDonotWait);
    EXPECT_EQ(lock_now(client, again), 0);
    EXPECT_EQ(again.pData, args.pData) << "nested, at the same address";
    EXPECT_EQ(unlock(client, {handle, handle}), 0);
    args = lock_args(handle, kDonotWait);
    EXPECT_EQ(lock_now(client, args), 0);
    EXPECT_EQ(static_cast<const uint8_t*>(args.pData)[16 * kKibibyte - 1], 0x5A);
    EXPECT_EQ(unlock(client, {handle}), 0);
  });
}

TEST_F(LockTest, ListsOfPagesAreCheckedAndTheEntireFlagMakesThemVoid) {
  DXGKIT_COVERS("THUNK-01", "ALLOC-37");
  with_client([](Stack&, Client& client) {
    const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible | kAperture));
    const UINT pages[] = {3, 0, 3};
    D3DKMT_LOCK args = lock_args(handle);
    args.NumPages = 3;
    args.pPages = pages;
    EXPECT_EQ(lock(client, args), 0);
    D3DKMT_LOCK entire = lock_args(handle, kLockEntire);
    entire.NumPages = UINT32_MAX;
    entire.pPages = reinterpret_cast<const UINT*>(uintptr_t{0x10});
    EXPECT_EQ(lock(client, entire), 0);
    EXPECT_EQ(unlock(client, {handle, handle}), 0);
  });
}

TEST_F(LockTest, UnlocksAreAllOrNothing) {
  DXGKIT_COVERS("THUNK-25", "THUNK-26", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE one = client.make_allocation(described(kVisible | kAperture));
    const D3DKMT_HANDLE two = client.make_allocation(described(kVisible | kAperture));
    Client stranger(stack, "stranger");
    for (int i = 0; i < 3; ++i) static_cast<void>(stranger.make_device());
    const D3DKMT_HANDLE foreign = stranger.make_allocation(described(kVisible | kAperture));
    D3DKMT_LOCK args = lock_args(one);
    ASSERT_EQ(lock(client, args), 0);
    const Digest before = digest(stack, {&client, &stranger});
    EXPECT_EQ(unlock(client, {}), kInvalid);
    EXPECT_EQ(unlock(client, {one, two}), kInvalid) << "the second is not locked";
    EXPECT_EQ(unlock(client, {one, one}), kInvalid) << "once only";
    EXPECT_EQ(unlock(client, {one, foreign}), kInvalid);
    EXPECT_EQ(unlock(client, {one, 0}), kInvalid);
    EXPECT_EQ(unlock(client, {one, UINT32_MAX}), kInvalid);
    EXPECT_EQ(unlock(client, {one, one | 1}), kInvalid);
    EXPECT_EQ(unlock(client, {one, client.device}), kInvalid);
    D3DKMT_UNLOCK bad{};
    bad.hDevice = client.device;
    bad.NumAllocations = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTUnlock(&bad); }), kInvalid);
    bad.phAllocations = reinterpret_cast<const D3DKMT_HANDLE*>(uintptr_t{0x10});
    EXPECT_EQ(client.call([&] { return D3DKMTUnlock(&bad); }), nt_status(Status::kAccessViolation));
    bad.phAllocations = &one;
    bad.NumAllocations = UINT32_MAX;
    EXPECT_EQ(client.call([&] { return D3DKMTUnlock(&bad); }), kInvalid);
    bad.NumAllocations = 1;
    bad.hDevice = client.make_device();
    EXPECT_EQ(client.call([&] { return D3DKMTUnlock(&bad); }), kInvalid) << "another device's";
    ASSERT_EQ(client.destroy_device(bad.hDevice), 0);
    Digest after = digest(stack, {&client, &stranger});
    after.driver_calls = before.driver_calls;  // the other device
    EXPECT_EQ(after, before);
    EXPECT_EQ(unlock(client, {one}), 0) << "still locked, once";
    EXPECT_EQ(unlock(client, {one}), kInvalid);
  });
}

/// Locks with Discard, fills and unlocks; the instance it got.
D3DKMT_HANDLE discard(Client& client, D3DKMT_HANDLE handle, uint8_t fill) {
  D3DKMT_LOCK args = lock_args(handle, kDiscard);
  EXPECT_EQ(lock_now(client, args), 0);
  std::memset(args.pData, fill, 16 * kKibibyte);
  EXPECT_EQ(unlock(client, {args.hAllocation}), 0);
  return args.hAllocation;
}

TEST_F(LockTest, DiscardOnABusyAllocationGivesAnotherInstanceOfTheSameDriverObject) {
  DXGKIT_COVERS("ALLOC-39", "ALLOC-36");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.create_allocation = [&](DXGKARG_CREATEALLOCATION* args) {
      const NTSTATUS status = stack.miniport.default_create_allocation(args);
      args->pAllocationInfo[0].MaximumRenamingListLength = 3;
      return status;
    };
    const D3DKMT_HANDLE first = client.make_allocation(described(kVisible | kAperture));
    ContextBuffers context = client.make_context();
    EXPECT_EQ(discard(client, first, 1), first) << "it is idle";
    use(stack, client, context, first);
    stack.miniport.clear_calls();
    const D3DKMT_HANDLE second = discard(client, first, 2);
    ASSERT_NE(second, first);
    EXPECT_TRUE(stack.miniport.calls().order.empty()) << "the driver is not asked";
    EXPECT_EQ(discard(client, second, 3), second) << "idle: used again";
    use(stack, client, context, second);
    const D3DKMT_HANDLE third = discard(client, second, 4);
    ASSERT_NE(third, second);
    ASSERT_NE(third, first);
    use(stack, client, context, third);

    // All three are busy and there may be no more: it waits, DonotWait or not.
    D3DKMT_LOCK args = lock_args(third, kDiscard | kDonotWait);
    NTSTATUS status = 1;
    {
      Stack::Background waiting(stack, [&] { status = lock_now(client, args); });
      EXPECT_FALSE(waiting.finished());
      const Digest before = digest(stack, {&client});
      D3DKMT_LOCK retired = lock_args(first);
      EXPECT_EQ(lock_now(client, retired), kInvalid) << "a retired instance";
      retired = lock_args(second, kDiscard);
      EXPECT_EQ(lock_now(client, retired), kInvalid);
      EXPECT_EQ(digest(stack, {&client}), before);
      waiting.finish();
    }
    EXPECT_EQ(status, 0);
    EXPECT_EQ(args.hAllocation, first) << "the cycle starts over";
    EXPECT_EQ(unlock(client, {first}), 0);
    stack.drive();
    // The three packets used three places and one object of the driver.
    std::vector<uint64_t> places;
    for (const auto& patch : stack.miniport.calls().patches)
      for (const auto& entry : patch.allocations) places.push_back(entry.physical_address);
    std::ranges::sort(places);
    places.erase(std::ranges::unique(places).begin(), places.end());
    EXPECT_EQ(places.size(), 3U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiCreateAllocation"), 0U)
        << "since the calls were cleared";

    // What was written to an instance is what the CPU sees in it.
    use(stack, client, context, first);
    const D3DKMT_HANDLE next = discard(client, first, 9);
    EXPECT_EQ(next, second);
    args = lock_args(second);
    ASSERT_EQ(lock(client, args), 0);
    EXPECT_EQ(static_cast<const uint8_t*>(args.pData)[0], 9);
    EXPECT_EQ(unlock(client, {second}), 0);

    // The first one takes the others along.
    EXPECT_EQ(client.destroy_allocation(second), kInvalid);
    EXPECT_EQ(client.destroy_allocation(first), 0);
    args = lock_args(second);
    EXPECT_EQ(lock_now(client, args), kInvalid);
    stack.drive();
    const ScriptedCalls calls = stack.miniport.calls();
    EXPECT_EQ(calls.closed_allocations.size(), 1U);
    EXPECT_EQ(calls.destroyed_allocations.size(), 1U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(LockTest, TheLengthOfARenamingListIsTheDriversOrUnlimited) {
  DXGKIT_COVERS("ALLOC-39");
  for (const UINT limit : {0U, 1U, 2U}) {
    with_client([&](Stack& stack, Client& client) {
      stack.miniport.hooks.create_allocation = [&](DXGKARG_CREATEALLOCATION* args) {
        const NTSTATUS status = stack.miniport.default_create_allocation(args);
        args->pAllocationInfo[0].MaximumRenamingListLength = limit;
        return status;
      };
      D3DKMT_HANDLE handle = client.make_allocation(described(kVisible | kAperture));
      ContextBuffers context = client.make_context();
      const UINT most = limit == 0 ? 6 : limit;
      std::vector<D3DKMT_HANDLE> seen{handle};
      use(stack, client, context, handle);
      while (seen.size() < most) {
        handle = discard(client, handle, 1);
        EXPECT_EQ(std::ranges::count(seen, handle), 0) << "all of them are busy";
        seen.push_back(handle);
        use(stack, client, context, handle);
      }
      if (limit == 0) return;
      D3DKMT_LOCK args = lock_args(handle, kDiscard);
      Stack::Background waiting(stack, [&] { EXPECT_EQ(lock_now(client, args), 0); });
      EXPECT_FALSE(waiting.finished());
      waiting.finish();
      EXPECT_EQ(args.hAllocation, seen[0]);
      EXPECT_EQ(unlock(client, {seen[0]}), 0);
    });
  }
}

// Until it has been locked, the instance in use before is not retired.
TEST_F(LockTest, AnInstanceIsUsedOnceItIsLockedNotWhileItIsWaitedFor) {
  DXGKIT_COVERS("ALLOC-39", "ALLOC-36", "ALLOC-41");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE first = client.make_allocation(described(kHidden | kAperture));
    use(stack, client, context, first);
    const D3DKMT_HANDLE second = discard(client, first, 1);
    ASSERT_NE(second, first);
    use(stack, client, context, second);
    stack.drive();  // both of them lie where the CPU cannot look
    use(stack, client, context, second);
    D3DKMT_LOCK args = lock_args(second, kDiscard);
    NTSTATUS status = 1;
    {
      Stack::Background waiting(stack, [&] { status = lock_now(client, args); });
      EXPECT_FALSE(waiting.finished()) << "the first leaves its segment, behind the packet";
      use(stack, client, context, second);
      D3DKMT_LOCK retired = lock_args(first);
      EXPECT_EQ(lock_now(client, retired), kInvalid);
      waiting.finish();
    }
    EXPECT_EQ(status, 0);
    EXPECT_EQ(args.hAllocation, second) << "idle by the time the first has left";
    EXPECT_EQ(unlock(client, {second}), 0);
    D3DKMT_LOCK retired = lock_args(first);
    EXPECT_EQ(lock_now(client, retired), kInvalid);
  });
}

TEST_F(LockTest, ADeviceThatEndsTakesItsInstancesAlong) {
  DXGKIT_COVERS("ALLOC-39", "THUNK-08");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE first = client.make_allocation(described(kVisible | kAperture));
    ContextBuffers context = client.make_context();
    use(stack, client, context, first);
    const D3DKMT_HANDLE second = discard(client, first, 1);
    ASSERT_NE(second, first);
    use(stack, client, context, second);
    D3DKMT_LOCK args = lock_args(second, kDiscard);
    ASSERT_EQ(lock_now(client, args), 0) << "and one is locked";
    ASSERT_EQ(client.destroy_device(client.device), 0);
    EXPECT_EQ(client.handles(), 1U) << "the adapter";
  });
}

TEST_F(LockTest, CachedContentIsLookedAtOutsideMemorySegmentsOnly) {
  DXGKIT_COVERS("ALLOC-42");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE apart =
        client.make_allocation(described(kVisible | kAperture, kCpuVisible | kCached));
    const D3DKMT_HANDLE stuck = client.make_allocation(described(kVisible, kCpuVisible | kCached));
    const D3DKMT_HANDLE aperture =
        client.make_allocation(described(kAperture, kCpuVisible | kCached));
    D3DKMT_LOCK args = lock_args(stuck);
    EXPECT_EQ(lock(client, args), 0) << "not resident";
    EXPECT_EQ(unlock(client, {stuck}), 0);
    for (const D3DKMT_HANDLE handle : {apart, stuck, aperture}) {
      ASSERT_EQ(client.render(context, work_on({handle})), 0);
      stack.drive();
    }
    const uint64_t out = stack.statistics().page_outs;
    args = lock_args(aperture);
    EXPECT_EQ(lock(client, args), 0) << "coherent where it is";
    EXPECT_EQ(unlock(client, {aperture}), 0);
    EXPECT_EQ(stack.statistics().page_outs, out);
    args = lock_args(apart);
    EXPECT_EQ(lock(client, args), 0);
    EXPECT_EQ(stack.statistics().page_outs, out + 1) << "it left the segment for that";
    EXPECT_EQ(unlock(client, {apart}), 0);
    const Digest before = digest(stack, {&client});
    args = lock_args(stuck);
    EXPECT_EQ(lock(client, args), kCantEvict);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(LockTest, WhatWouldHaveToLeaveStaysWhenToldSo) {
  DXGKIT_COVERS("ALLOC-41", "ALLOC-37");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE handle = client.make_allocation(described(kHidden | kAperture));
    ASSERT_EQ(client.render(context, work_on({handle})), 0);
    stack.drive();
    const Digest before = digest(stack, {&client});
    D3DKMT_LOCK args = lock_args(handle, kDonotEvict);
    EXPECT_EQ(lock(client, args), kCantEvict);
    EXPECT_EQ(digest(stack, {&client}), before);
    args = lock_args(handle);
    EXPECT_EQ(lock(client, args), 0);
    EXPECT_EQ(stack.statistics().page_outs, 1U);
    EXPECT_EQ(unlock(client, {handle}), 0);
  });
}

TEST_F(LockTest, CacheInvalidationChecksItsRangeAndDoesNothingHere) {
  DXGKIT_COVERS("THUNK-34");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible | kAperture));
    const D3DKMT_HANDLE freed = client.make_allocation();
    ASSERT_EQ(client.destroy_allocation(freed, 2), 0);
    const D3DKMT_HANDLE other = client.make_device();
    const Digest before = digest(stack, {&client});
    const uint64_t size = 16 * kKibibyte;
    struct Row {
      D3DKMT_HANDLE device, allocation;
      uint64_t offset, length;
      NTSTATUS status;
    };
    const Row rows[] = {
        {client.device, handle, 0, size, 0},
        {client.device, handle, size, 0, 0},
        {client.device, handle, 1, size - 1, 0},
        {client.device, handle, 0, size + 1, kInvalid},
        {client.device, handle, size + 1, 0, kInvalid},
        {client.device, handle, size - 1, 2, kInvalid},
        {client.device, handle, UINT64_MAX, 2, kInvalid},
        {client.device, handle, 2, UINT64_MAX, kInvalid},
        {client.device, 0, 0, 0, kInvalid},
        {client.device, UINT32_MAX, 0, 0, kInvalid},
        {client.device, freed, 0, 0, kInvalid},
        {client.device, client.device, 0, 0, kInvalid},
        {0, handle, 0, 0, kInvalid},
        {other, handle, 0, 0, kInvalid},
    };
    for (const Row& row : rows) {
      D3DKMT_INVALIDATECACHE args{};
      args.hDevice = row.device;
      args.hAllocation = row.allocation;
      args.Offset = row.offset;
      args.Length = row.length;
      EXPECT_EQ(client.call([&] { return D3DKMTInvalidateCache(&args); }), row.status)
          << row.offset << " " << row.length;
    }
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

}  // namespace
}  // namespace dxgkit::contract
