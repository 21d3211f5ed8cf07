// CPU access: the old Lock with all its flags, and renaming.
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "tests/contract/lock_fixture.h"

namespace dxgkit::contract {
namespace {

class LockTest : public ContractTest {
 protected:
  /// Locks of an adapter asleep, old and new, return when `end` takes the adapter away.
  static void locks_end_with(const std::function<Status(Stack&)>& end) {
    for (const bool old : {true, false}) {
      SCOPED_TRACE(old ? "D3DKMTLock" : "D3DKMTLock2");
      with_client([&](Stack& stack, Client& client) {
        const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible));
        stack.blocking([&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
        });
        D3DKMT_LOCK args = lock_args(handle);
        D3DKMT_LOCK2 args2{};
        args2.hDevice = client.device;
        args2.hAllocation = handle;
        NTSTATUS status = 1;
        Stack::Background locking(stack, [&] {
          status = old ? lock_now(client, args) : client.call([&] { return D3DKMTLock2(&args2); });
        });
        ASSERT_FALSE(locking.finished());
        stack.blocking([&] { EXPECT_EQ(end(stack), Status::kSuccess); });
        locking.finish();
        EXPECT_EQ(status, nt_status(Status::kDeviceRemoved));
        EXPECT_EQ(args.pData, nullptr);
        EXPECT_EQ(args2.pData, nullptr);
      });
    }
  }
};

// A device that is lost locks nothing, and looks at nothing else first.
TEST_F(LockTest, ALostDeviceSaysSoWhateverIsNamed) {
  DXGKIT_COVERS("THUNK-07");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE allocation = client.make_allocation(described(kVisible));
    D3DKMT_MARKDEVICEASERROR mark{};
    mark.hDevice = client.device;
    mark.Reason = D3DKMT_DEVICE_ERROR_REASON_GENERIC;
    ASSERT_EQ(client.call([&] { return D3DKMTMarkDeviceAsError(&mark); }), 0);
    for (const D3DKMT_HANDLE named : {allocation, D3DKMT_HANDLE{0}, client.device}) {
      SCOPED_TRACE(named);
      D3DKMT_LOCK args = lock_args(named);
      args.hDevice = client.device;
      D3DKMT_LOCK2 args2{};
      args2.hDevice = client.device;
      args2.hAllocation = named;
      EXPECT_EQ(client.call([&] { return D3DKMTLock(&args); }), nt_status(Status::kDeviceRemoved));
      EXPECT_EQ(args.pData, nullptr);
      EXPECT_EQ(client.call([&] { return D3DKMTLock2(&args2); }),
                nt_status(Status::kDeviceRemoved));
      EXPECT_EQ(args2.pData, nullptr);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

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
    {"IgnoreReadSyncWhereNoApertureCanHoldIt", kInvalid,
     [](auto& a, auto& c) {
       a.hAllocation = c.make_allocation(described(kVisible));
       a.Flags.Value = kIgnoreReadSync;
     }},
    {"IgnoreReadSyncOfWhatIsSwizzled", kInvalid,
     [](auto& a, auto& c) {
       a.hAllocation = c.make_allocation(described(kVisible | kAperture, kCpuVisible | kSwizzled));
       a.Flags.Value = kIgnoreReadSync;
     }},
    {"IgnoreSyncOfWhatIsSwizzled", kInvalid,
     [](auto& a, auto& c) {
       a.hAllocation = c.make_allocation(described(kVisible | kAperture, kCpuVisible | kSwizzled));
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
    {"AnUnreadablePageList", nt_status(Status::kInvalidParameter),
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

TEST_F(LockTest, IgnoreReadSyncWaitsForWritesOnly) {
  DXGKIT_COVERS("ALLOC-61", "ALLOC-38");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    ContextBuffers other = client.make_context();
    const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible | kAperture));
    const D3DKMT_HANDLE beside = client.make_allocation(described(kVisible | kAperture));
    use(stack, client, context, handle);
    stack.drive();  // brings it in
    const auto work = [&](ContextBuffers& where, bool write) {
      Work some = work_on({beside, handle});
      some.allocations[0].write = !write;
      some.allocations[1].write = write;
      ASSERT_EQ(client.render(where, some), 0);
      stack.settle();
    };
    D3DKMT_LOCK args = lock_args(handle, kIgnoreReadSync | kDonotWait);
    work(context, false);
    D3DKMT_LOCK plain = lock_args(handle, kDonotWait);
    EXPECT_EQ(lock_now(client, plain), kBusy);
    EXPECT_EQ(lock_now(client, args), 0) << "it is only read";
    EXPECT_EQ(unlock(client, {handle}), 0);
    work(other, true);
    const Digest before = digest(stack, {&client});
    args = lock_args(handle, kIgnoreReadSync | kDonotWait);
    EXPECT_EQ(lock_now(client, args), kBusy) << "one of two pieces of work writes it";
    EXPECT_EQ(digest(stack, {&client}), before);
    args = lock_args(handle, kIgnoreReadSync);
    NTSTATUS status = 1;
    Stack::Background waiting(stack, [&] { status = lock_now(client, args); });
    EXPECT_FALSE(waiting.finished());
    waiting.finish();
    EXPECT_EQ(status, 0);
    EXPECT_EQ(unlock(client, {handle}), 0);
    stack.drive();
    work(context, true);
    args = lock_args(handle, kIgnoreReadSync | kIgnoreSync | kDonotWait);
    EXPECT_EQ(lock_now(client, args), 0) << "IgnoreSync asks for less";
    EXPECT_EQ(unlock(client, {handle}), 0);
    stack.drive();
    args = lock_args(handle, kIgnoreReadSync | kDonotWait);
    EXPECT_EQ(lock_now(client, args), 0) << "the writes have ended";
    EXPECT_EQ(unlock(client, {handle}), 0);
  });
}

TEST_F(LockTest, CachedContentIsLookedAtDuringWorkOnlyWhereAnApertureIsCoherent) {
  DXGKIT_COVERS("ALLOC-61");
  for (const bool coherent : {false, true}) {
    SCOPED_TRACE(coherent);
    with_client(
        [&](Stack& stack, Client& client) {
          const D3DKMT_HANDLE handle =
              client.make_allocation(described(kVisible | kAperture, kCpuVisible | kCached));
          const D3DKMT_HANDLE memory =
              client.make_allocation(described(kVisible, kCpuVisible | kCached));
          const Digest before = digest(stack, {&client});
          for (const UINT flag : {kIgnoreSync, kIgnoreReadSync}) {
            D3DKMT_LOCK args = lock_args(handle, flag);
            EXPECT_EQ(lock(client, args), coherent ? 0 : kInvalid) << flag;
            if (coherent) {
              EXPECT_EQ(unlock(client, {handle}), 0);
            }
            args = lock_args(memory, flag);
            EXPECT_EQ(lock(client, args), kInvalid) << flag;
          }
          EXPECT_EQ(digest(stack, {&client}), before);
        },
        [&](ScriptedMiniport& miniport) {
          miniport.config.segments[2].flags.CacheCoherent = coherent ? 1 : 0;
        });
  }
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

// The view is kept for the next lock. An address that is used too late reaches nothing of others.
TEST_F(LockTest, AnUnlockedAddressEndsWhenTheContentLeavesItsPlace) {
  with_client([](Stack& stack, Client& client) {
    const auto is_mapped = [](void* address) {
      unsigned char there = 0;
      return mincore(address, 1, &there) == 0;
    };
    ContextBuffers context = client.make_context();
    for (const bool destroyed : {true, false}) {
      SCOPED_TRACE(destroyed);
      const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible));
      ASSERT_EQ(client.render(context, work_on({handle})), 0);  // brings it into the segment
      stack.drive();
      D3DKMT_LOCK args = lock_args(handle);
      ASSERT_EQ(lock(client, args), 0);
      ASSERT_EQ(unlock(client, {handle}), 0);
      void* const first = args.pData;
      args = lock_args(handle);
      ASSERT_EQ(lock(client, args), 0);
      EXPECT_EQ(args.pData, first);
      ASSERT_EQ(unlock(client, {handle}), 0);
      ASSERT_TRUE(is_mapped(first));
      if (destroyed) {
        EXPECT_EQ(client.destroy_allocation(handle), 0);
      } else {
        stack.blocking([&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
        });
      }
      EXPECT_FALSE(is_mapped(first));
    }
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
    });
  });
}

// Content that its owner gave up is dropped without a transfer, and the address ends as well.
TEST_F(LockTest, AnUnlockedAddressEndsWhenOfferedContentIsDropped) {
  DXGKIT_COVERS("ALLOC-36");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible));
    ASSERT_EQ(client.render(context, work_on({handle})), 0);
    stack.drive();
    D3DKMT_LOCK args = lock_args(handle);
    ASSERT_EQ(lock(client, args), 0);
    ASSERT_EQ(unlock(client, {handle}), 0);
    D3DKMT_OFFERALLOCATIONS offer{};
    offer.hDevice = client.device;
    offer.HandleList = &handle;
    offer.NumAllocations = 1;
    offer.Priority = D3DKMT_OFFER_PRIORITY_LOW;
    ASSERT_EQ(client.call([&] { return D3DKMTOfferAllocations(&offer); }), 0);
    stack.drive();
    unsigned char there = 0;
    EXPECT_EQ(mincore(args.pData, 1, &there), 0);
    stack.miniport.clear_calls();
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
    });
    for (const testing::PagingCall& call : stack.miniport.calls().paging)
      EXPECT_NE(call.args.Operation, DXGK_OPERATION_TRANSFER);
    EXPECT_NE(mincore(args.pData, 1, &there), 0);
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
    });
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
    EXPECT_EQ(client.call([&] { return D3DKMTUnlock(&bad); }),
              nt_status(Status::kInvalidParameter));
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

// Discard renames what nobody else knows of: all else is waited for. (Primaries: cpu_window_test;
// shared allocations: above.)
TEST_F(LockTest, OnlyAnAllocationOfOneUserIsRenamed) {
  DXGKIT_COVERS("ALLOC-39", "ALLOC-38", "ALLOC-49", "ALLOC-20");
  constexpr uint32_t kExisting = 1U << 4, kOverlay = 1U << 8;
  alignas(4096) static std::byte memory[16 * kKibibyte];
  struct Row {
    const char* sentence;
    uint32_t segments, flags;
    bool existing, locked, renamed;
  };
  const Row rows[] = {
      {"a plain one", kVisible | kAperture, kCpuVisible, false, false, true},
      {"one that may not leave its segment", kVisible, kCpuVisible | kOverlay, false, false, false},
      {"the client's own memory", kAperture, kCpuVisible | kExisting, true, false, false},
      {"one that is locked already", kVisible | kAperture, kCpuVisible, false, true, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.sentence);
    with_client([&](Stack& stack, Client& client) {
      ScriptedAllocation data = described(row.segments, row.flags);
      D3DDDI_ALLOCATIONINFO info{};
      info.pSystemMem = row.existing ? memory : nullptr;
      info.pPrivateDriverData = &data;
      info.PrivateDriverDataSize = sizeof data;
      D3DKMT_CREATEALLOCATION create{};
      create.hDevice = client.device;
      create.NumAllocations = 1;
      create.pAllocationInfo = &info;
      ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
      const D3DKMT_HANDLE handle = info.hAllocation;
      ContextBuffers context = client.make_context();
      ASSERT_EQ(client.render(context, work_on({handle})), 0);
      stack.drive();
      D3DKMT_LOCK first = lock_args(handle);
      if (row.locked) {
        ASSERT_EQ(lock_now(client, first), 0);
      }
      use(stack, client, context, handle);
      const size_t handles = client.handles();
      D3DKMT_LOCK args = lock_args(handle, kDiscard | kDonotWait);
      if (row.renamed || row.locked) {
        EXPECT_EQ(lock_now(client, args), 0);
        EXPECT_EQ(args.hAllocation != handle, row.renamed);
        EXPECT_EQ(args.pData == first.pData, row.locked);
        EXPECT_EQ(unlock(client, {args.hAllocation}), 0);
      } else {
        EXPECT_EQ(lock_now(client, args), kBusy);
        EXPECT_EQ(args.hAllocation, handle);
      }
      EXPECT_EQ(client.handles(), handles + (row.renamed ? 1 : 0));
      if (row.locked) {
        EXPECT_EQ(unlock(client, {handle}), 0);
      }
      stack.drive();
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  }
}

// An instance is what the first one is: where that is not looked at in a memory segment, neither is
// this; and what the driver was told of the first one is the object of both.
TEST_F(LockTest, AnInstanceIsLikeTheFirstOne) {
  DXGKIT_COVERS("ALLOC-39", "ALLOC-42", "ALLOC-48");
  constexpr uint32_t kPermanent = 1U << 1;
  struct Row {
    const char* sentence;
    uint32_t flags;
    uint64_t page_outs;  // for the CPU to look
    bool in_the_segment;
  };
  for (const Row& row :
       {Row{"plain", kCpuVisible, 0, true}, Row{"cached", kCpuVisible | kCached, 1, false},
        Row{"with a copy in system memory", kCpuVisible | kPermanent, 0, false}}) {
    SCOPED_TRACE(row.sentence);
    with_client([&](Stack& stack, Client& client) {
      const D3DKMT_HANDLE first =
          client.make_allocation(described(kVisible | kAperture, row.flags));
      ContextBuffers context = client.make_context();
      use(stack, client, context, first);
      const D3DKMT_HANDLE second = discard(client, first, 1);
      ASSERT_NE(second, first);
      ASSERT_EQ(client.render(context, work_on({second})), 0);
      stack.drive();
      const auto calls = stack.miniport.calls();
      // Paging names the object of both, too.
      std::vector<HANDLE> named;
      for (const testing::PagingCall& call : calls.paging) {
        if (call.args.Operation == DXGK_OPERATION_TRANSFER)
          named.push_back(call.args.Transfer.hAllocation);
        if (call.args.Operation == DXGK_OPERATION_FILL) named.push_back(call.args.Fill.hAllocation);
      }
      ASSERT_GE(named.size(), 2U);
      EXPECT_NE(named[0], nullptr);
      EXPECT_THAT(named, ::testing::Each(named[0]));
      auto patches = calls.patches;
      std::erase_if(patches, [](const auto& call) { return call.allocations.empty(); });  // paging
      const port::AllocationListEntry old = patches.front().allocations.at(0);
      const port::AllocationListEntry entry = patches.back().allocations.at(0);
      EXPECT_EQ(entry.device_handle, old.device_handle);
      EXPECT_NE(entry.physical_address, old.physical_address);
      ASSERT_EQ(entry.segment(), 1U);
      const uint64_t out = stack.statistics().page_outs;
      D3DKMT_LOCK args = lock_args(second);
      ASSERT_EQ(lock(client, args), 0);
      EXPECT_EQ(stack.statistics().page_outs, out + row.page_outs);
      std::memcpy(static_cast<char*>(args.pData) + 3 * kPageBytes, "seen", 5);
      const uint64_t place =
          entry.physical_address - stack.miniport.config.segments[0].base_address;
      const uint64_t bar = stack.miniport.function().bars()[1].base.value;
      void* const io =
          stack.machine.map_io(bus::PhysicalAddress{bar + place + 3 * kPageBytes}, kPageBytes);
      ASSERT_NE(io, nullptr);
      EXPECT_EQ(std::memcmp(io, "seen", 5) == 0, row.in_the_segment);
      EXPECT_TRUE(stack.machine.unmap_io(io, kPageBytes));
      EXPECT_EQ(unlock(client, {second}), 0);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  }
}

// There are no pages for another instance: Discard waits for one of those there are.
TEST_F(LockTest, WithoutMemoryForAnotherInstanceDiscardWaits) {
  DXGKIT_COVERS("ALLOC-39");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE first = client.make_allocation(described(kVisible | kAperture));
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({first})), 0);
    stack.drive();
    use(stack, client, context, first);
    const Result<std::vector<bus::PageFrame>> taken =
        stack.machine.allocate_pages(stack.machine.free_page_count() - 3);
    ASSERT_TRUE(taken.has_value());
    const Digest before = digest(stack, {&client});
    D3DKMT_LOCK args = lock_args(first, kDiscard);
    NTSTATUS status = 1;
    {
      Stack::Background waiting(stack, [&] { status = lock_now(client, args); });
      EXPECT_FALSE(waiting.finished());
      EXPECT_EQ(digest(stack, {&client}), before);
      waiting.finish();
    }
    EXPECT_EQ(status, 0);
    EXPECT_EQ(args.hAllocation, first);
    EXPECT_EQ(unlock(client, {first}), 0);
    stack.machine.free_pages(*taken);
  });
}

// From WDDM 2.0 on nobody would list another instance as resident, so there is none: Discard beside
// IgnoreSync asks for no more than IgnoreSync, which needs an aperture.
TEST_F(LockTest, InTheSecondModelNothingIsRenamed) {
  DXGKIT_COVERS("ALLOC-39", "ALLOC-37");
  for (const bool second : {false, true}) {
    SCOPED_TRACE(second);
    with_client(
        [&](Stack& stack, Client& client) {
          const D3DKMT_HANDLE alone = client.make_allocation(described(kVisible));
          const D3DKMT_HANDLE either = client.make_allocation(described(kVisible | kAperture));
          const Digest before = digest(stack, {&client});
          D3DKMT_LOCK args = lock_args(alone, kDiscard | kIgnoreSync);
          EXPECT_EQ(lock_now(client, args), second ? kInvalid : 0);
          if (!second) {
            EXPECT_EQ(args.hAllocation, alone);
            EXPECT_EQ(unlock(client, {alone}), 0);
          }
          args = lock_args(either, kDiscard | kIgnoreSync);
          EXPECT_EQ(lock_now(client, args), 0);
          EXPECT_EQ(args.hAllocation, either);
          EXPECT_EQ(unlock(client, {either}), 0);
          EXPECT_EQ(digest(stack, {&client}), before);
        },
        [&](ScriptedMiniport& miniport) {
          if (second) miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
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

// An instance that cannot be locked does not take the place of the one in use.
TEST_F(LockTest, AnInstanceThatCannotBeLockedIsNotUsed) {
  DXGKIT_COVERS("ALLOC-39", "ALLOC-36");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE first = client.make_allocation(described(kHidden | kAperture));
    use(stack, client, context, first);
    const D3DKMT_HANDLE second = discard(client, first, 1);
    ASSERT_NE(second, first);
    use(stack, client, context, second);
    stack.drive();  // both of them lie where the CPU cannot look
    use(stack, client, context, second);
    const Digest before = digest(stack, {&client});
    D3DKMT_LOCK args = lock_args(second, kDiscard | kDonotEvict);
    EXPECT_EQ(lock_now(client, args), kCantEvict) << "the first one, which is idle";
    EXPECT_EQ(args.hAllocation, second);
    EXPECT_EQ(args.pData, nullptr);
    D3DKMT_LOCK retired = lock_args(first);
    EXPECT_EQ(lock_now(client, retired), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    stack.drive();
    args = lock_args(second);
    EXPECT_EQ(lock(client, args), 0);
    EXPECT_EQ(unlock(client, {second}), 0);
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

TEST_F(LockTest, CachedContentIsLookedAtInACoherentSegment) {
  DXGKIT_COVERS("ALLOC-42");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE handle =
            client.make_allocation(described(kVisible, kCpuVisible | kCached));
        ASSERT_EQ(client.render(context, work_on({handle})), 0);
        stack.drive();
        const uint64_t out = stack.statistics().page_outs;
        D3DKMT_LOCK args = lock_args(handle);
        EXPECT_EQ(lock(client, args), 0);
        EXPECT_EQ(unlock(client, {handle}), 0);
        EXPECT_EQ(stack.statistics().page_outs, out) << "it is seen where it is";
      },
      [](ScriptedMiniport& miniport) {
        for (auto& segment : miniport.config.segments) segment.flags.CacheCoherent = 1;
      });
}

// What the CPU writes while an aperture shows it is content wherever it goes then.
TEST_F(LockTest, WhatIsWrittenThroughAnApertureIsContent) {
  DXGKIT_COVERS("ALLOC-41", "PAGE-24");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        ScriptedAllocation description = described(kHidden | kAperture);
        description.preferred = 3;  // the aperture, from its beginning
        const D3DKMT_HANDLE written = client.make_allocation(description);
        const D3DKMT_HANDLE other = client.make_allocation(described(kAperture));
        Work reads = work_on({written});
        reads.allocations[0].write = false;
        ASSERT_EQ(client.render(context, reads), 0);
        stack.drive();
        ASSERT_EQ(count(stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT), 1U);
        D3DKMT_LOCK args = lock_args(written);
        ASSERT_EQ(lock(client, args), 0);
        EXPECT_EQ(unlock(client, {written}), 0);
        stack.blocking([&] { EXPECT_EQ(exercise(stack).evict_all(), Status::kSuccess); });
        use(stack, client, context, other);  // there is no room beside it
        while (stack.miniport.complete_next(1)) stack.settle();
        ContextBuffers beside = client.make_context();
        ASSERT_EQ(client.render(beside, reads), 0);
        stack.drive();
        EXPECT_EQ(count(stack, DXGK_OPERATION_TRANSFER), 1U);
        EXPECT_EQ(count(stack, DXGK_OPERATION_FILL), 0U);
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[2].size = 16 * kKibibyte; });
}

// The process has no address space left for what the lock is to show.
TEST_F(LockTest, WithoutAddressSpaceALockFailsAndNothingChanges) {
  DXGKIT_COVERS("ALLOC-40");
  with_client([](Stack& stack, Client& client) {
    ScriptedAllocation data = described(kVisible | kAperture);
    data.size = 32 * kMebibyte;
    const D3DKMT_HANDLE handle = client.make_allocation(data);
    const Digest before = digest(stack, {&client});
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit old{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
    rlimit little = old;
    little.rlim_cur = pages * kPageBytes + 16 * kMebibyte;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &little), 0);
    D3DKMT_LOCK args = lock_args(handle);
    const NTSTATUS status = lock_now(client, args);
    void* address = nullptr;
    const NTSTATUS second = client.lock(handle, &address);
    ASSERT_EQ(setrlimit(RLIMIT_AS, &old), 0);
    EXPECT_EQ(status, nt_status(Status::kNoMemory));
    EXPECT_EQ(args.pData, nullptr);
    EXPECT_EQ(second, nt_status(Status::kNoMemory));
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(unlock(client, {handle}), kInvalid) << "it is not locked";
    ASSERT_EQ(lock_now(client, args), 0);
    static_cast<char*>(args.pData)[32 * kMebibyte - 1] = 'x';
    EXPECT_EQ(unlock(client, {handle}), 0);
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

// Where the GPU only reads, the CPU may look: what may be read there may come back there.
TEST_F(LockTest, WhatIsReadThroughAnApertureMayLeaveForIt) {
  DXGKIT_COVERS("ALLOC-41", "ALLOC-35");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    ScriptedAllocation description = described(kHidden | kAperture);
    description.supported_write = kHidden;
    const D3DKMT_HANDLE handle = client.make_allocation(description);
    ASSERT_EQ(client.render(context, work_on({handle})), 0);
    stack.drive();
    void* address = nullptr;
    EXPECT_EQ(client.lock(handle, &address), 0);
    EXPECT_EQ(stack.statistics().page_outs, 1U);
    EXPECT_EQ(client.unlock(handle), 0);
  });
}

// Two threads lock what has to leave for it: the second one finds it locked when its turn comes.
TEST_F(LockTest, TwoThreadsLockWhatHasToLeaveFirst) {
  DXGKIT_COVERS("ALLOC-41", "ALLOC-38");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE handle = client.make_allocation(described(kHidden | kAperture));
    use(stack, client, context, handle);
    ASSERT_TRUE(stack.miniport.complete_next(1)) << "the fill";
    stack.settle();
    ASSERT_EQ(stack.miniport.outstanding(0).size(), 1U) << "the GPU uses it";
    struct Look {
      NTSTATUS status = 1;
      D3DKMT_LOCK2 args{};
    } looks[2];
    std::vector<std::unique_ptr<Stack::Background>> threads;
    for (Look& look : looks) {
      look.args.hDevice = client.device;
      look.args.hAllocation = handle;
      threads.push_back(std::make_unique<Stack::Background>(
          stack, [&] { look.status = client.call([&] { return D3DKMTLock2(&look.args); }); }));
      EXPECT_FALSE(threads.back()->finished());
    }
    for (const auto& thread : threads) thread->finish();
    for (const Look& look : looks) {
      EXPECT_EQ(look.status, 0);
      EXPECT_EQ(look.args.pData, looks[0].args.pData);
    }
    EXPECT_NE(looks[0].args.pData, nullptr);
    EXPECT_EQ(stack.statistics().page_outs, 1U);
    EXPECT_EQ(client.unlock(handle), 0);
    EXPECT_EQ(client.unlock(handle), 0);
    EXPECT_EQ(client.unlock(handle), kInvalid);
  });
}

// It waits for the adapter to wake up, which it never does.
TEST_F(LockTest, ALockInSleepReturnsWhenTheAdapterStops) {
  DXGKIT_COVERS("ALLOC-38");
  locks_end_with([](Stack& stack) { return stack.system->stop_adapter(stack.luid); });
}

// The same where the adapter is pulled out in its sleep.
TEST_F(LockTest, ALockInSleepReturnsWhenTheAdapterHasGone) {
  DXGKIT_COVERS("ALLOC-38");
  locks_end_with([](Stack& stack) { return stack.system->remove_adapter(stack.luid); });
}

// What a client in another process sees of a lock: only what is locked, by its own device.
TEST_F(LockTest, OnlyWhatItsDeviceHasLockedIsShown) {
  DXGKIT_COVERS("THUNK-25");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE locked = client.make_allocation(described(kVisible));
    const D3DKMT_HANDLE unlocked = client.make_allocation(described(kVisible));
    const D3DKMT_HANDLE other = client.make_device();
    D3DKMT_LOCK args = lock_args(locked);
    ASSERT_EQ(lock(client, args), 0);
    const auto shown = [&](D3DKMT_HANDLE device, D3DKMT_HANDLE allocation) {
      std::pair<const void*, size_t> seen{nullptr, 0};
      const auto of = client.process->handles().find<dxgk::Device>(device);
      const bool any = (*of)->locks().with_view(allocation, [&](std::span<std::byte> view) {
        seen = {view.data(), view.size()};
      });
      EXPECT_EQ(any, seen.first != nullptr);
      return seen;
    };
    EXPECT_EQ(shown(client.device, locked),
              std::pair(static_cast<const void*>(args.pData), size_t{16 * kKibibyte}));
    for (const auto& [device, allocation] :
         {std::pair(other, locked), std::pair(client.device, unlocked),
          std::pair(client.device, client.device), std::pair(client.device, D3DKMT_HANDLE{0})}) {
      EXPECT_EQ(shown(device, allocation).first, nullptr);
    }
    EXPECT_EQ(unlock(client, {locked}), 0);
    EXPECT_EQ(shown(client.device, locked).first, nullptr);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
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
