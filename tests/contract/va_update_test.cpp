// Batches of updates: all or nothing, in order, when their fence says so.
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using VaUpdateTest = GpuVaTest;
using Operation = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION;

constexpr uint64_t k64 = 64 * kKibibyte;

/// A client with a reservation, a pool that is resident, and a fence.
struct Tiles {
  explicit Tiles(GpuVaStack& stack_in) : stack(stack_in), client(stack_in) {
    pool = client.make_allocation(8 * kPage, kMemorySet);
    client.list({pool});
    stack.drive();
    base = client.make_reservation(4 * k64);
    fence = client.make_sync(D3DDDI_MONITORED_FENCE, 0, 1, &created);
  }
  uint64_t value() const {
    return *static_cast<volatile uint64_t*>(
        created.Info.MonitoredFence.FenceValueCPUVirtualAddress);
  }
  /// Of the pool that an address shows; nullopt: none.
  std::optional<uint64_t> page(uint64_t va) const {
    const auto walk = client.walk(va);
    if (!walk.valid || walk.zero) return std::nullopt;
    return (walk.place.offset - pool_start()) / kPage;
  }
  uint64_t pool_start() const {
    const auto lock = stack.adapter().core().memory().placement(pool_id());
    return lock.offset_bytes;
  }
  AllocationId pool_id() const;
  GpuVaStack& stack;
  VaClient client;
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 created{};
  D3DKMT_HANDLE pool = 0, fence = 0;
  uint64_t base = 0;
};

AllocationId Tiles::pool_id() const {
  return (*client.process->handles().find<dxgk::OpenedAllocation>(pool))->allocation->id;
}

TEST_F(VaUpdateTest, ABatchWaitsForItsFenceAndSetsItOneHigher) {
  DXGKIT_COVERS("VA-36", "VA-38");
  running([](GpuVaStack& stack) {
    Tiles tiles(stack);
    ASSERT_EQ(tiles.client.update(tiles.client.context, tiles.fence, 4,
                                  {map_op(tiles.pool, tiles.base, 2 * kPage),
                                   map_op(tiles.pool, tiles.base + kPage, kPage, 5 * kPage)}),
              0);
    stack.drive();
    EXPECT_EQ(tiles.page(tiles.base), std::nullopt) << "the fence has not come yet";
    ASSERT_EQ(tiles.client.signal_cpu(tiles.fence, 4), 0);
    stack.drive();
    EXPECT_EQ(tiles.page(tiles.base), 0U);
    EXPECT_EQ(tiles.page(tiles.base + kPage), 5U) << "in array order";
    EXPECT_EQ(tiles.value(), 5U);
    // Without waiting: at once.
    ASSERT_EQ(tiles.client.update(tiles.client.context, tiles.fence, 9,
                                  {unmap_op(tiles.base, kPage)}, /*do_not_wait=*/true),
              0);
    stack.drive();
    EXPECT_EQ(tiles.page(tiles.base), std::nullopt);
    EXPECT_EQ(tiles.value(), 10U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(VaUpdateTest, CopiesMoveAsIfThroughABufferAndMapsRepeat) {
  DXGKIT_COVERS("VA-36", "VA-37");
  running([](GpuVaStack& stack) {
    Tiles tiles(stack);
    ASSERT_EQ(
        tiles.client.update(tiles.client.context, tiles.fence, 0,
                            {map_op(tiles.pool, tiles.base, 4 * kPage, 2 * kPage),
                             copy_op(tiles.base, tiles.base + kPage, 3 * kPage),
                             map_op(tiles.pool, tiles.base + k64, 6 * kPage, 3 * kPage, 2 * kPage)},
                            true),
        0);
    stack.drive();
    const std::vector<uint64_t> copied = {2, 2, 3, 4};
    for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(tiles.page(tiles.base + i * kPage), copied[i]);
    const std::vector<uint64_t> repeated = {3, 4, 3, 4, 3, 4};
    for (uint64_t i = 0; i < 6; ++i)
      EXPECT_EQ(tiles.page(tiles.base + k64 + i * kPage), repeated[i]);
  });
}

// A process that closes one of two openings keeps what it mapped through it, copies included, until
// it closes the other: GPU virtual addresses are the process's.
TEST_F(VaUpdateTest, WhatAClosedOpeningMappedIsCopiedWhileAnotherIsOpen) {
  DXGKIT_COVERS("ALLOC-30", "VA-07", "VA-36");
  running([](GpuVaStack& stack) {
    Tiles tiles(stack);
    VaClient& client = tiles.client;
    ScriptedAllocation data;
    data.size = 2 * kPage;
    data.supported_read = data.supported_write = kMemorySet;
    D3DDDI_ALLOCATIONINFO2 made{};
    made.pPrivateDriverData = &data;
    made.PrivateDriverDataSize = sizeof data;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &made;
    create.Flags.CreateResource = create.Flags.CreateShared = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&create); }), 0);
    client.list({made.hAllocation});
    stack.drive();
    ScriptedAllocation total;
    D3DDDI_OPENALLOCATIONINFO2 again{};
    D3DKMT_OPENRESOURCE open{};
    open.hDevice = client.device;
    open.hGlobalShare = create.hGlobalShare;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &again;
    open.pTotalPrivateDriverDataBuffer = &total;
    open.TotalPrivateDriverDataBufferSize = sizeof total;
    ASSERT_EQ(client.call([&] { return D3DKMTOpenResource2(&open); }), 0);
    const auto close = [&](D3DKMT_HANDLE resource) {
      D3DKMT_DESTROYALLOCATION2 args{};
      args.hDevice = client.device;
      args.hResource = resource;
      stack.blocking(
          [&] { EXPECT_EQ(client.call([&] { return D3DKMTDestroyAllocation2(&args); }), 0); });
      stack.drive();
    };

    ASSERT_EQ(client.update(client.context, tiles.fence, 0,
                            {map_op(again.hAllocation, tiles.base, kPage, kPage)}, true),
              0);
    stack.drive();
    close(open.hResource);
    ASSERT_EQ(client.update(client.context, tiles.fence, 1,
                            {copy_op(tiles.base, tiles.base + k64, kPage)}, true),
              0);
    stack.drive();
    ASSERT_TRUE(client.walk(tiles.base).valid);
    ASSERT_TRUE(client.walk(tiles.base + k64).valid);
    EXPECT_EQ(client.walk(tiles.base + k64).place.offset, client.walk(tiles.base).place.offset);

    close(create.hResource);
    EXPECT_FALSE(client.walk(tiles.base).valid);
    EXPECT_FALSE(client.walk(tiles.base + k64).valid);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(VaUpdateTest, OneBadOperationRefusesTheBatch) {
  DXGKIT_COVERS("VA-35", "VA-37");
  running([](GpuVaStack& stack) {
    Tiles tiles(stack);
    const uint64_t other = tiles.client.make_reservation(k64);
    const uint64_t mapped = tiles.client.make_mapping(tiles.pool, 4);
    const Operation good = map_op(tiles.pool, tiles.base, kPage);
    Operation protect = good;
    protect.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT;
    protect.MapProtect.Protection = protection(kSystemUseOnly);
    Operation zero = protect;
    zero.MapProtect.Protection = protection(kZero);
    Operation unknown = good;
    unknown.OperationType = static_cast<D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE>(4);
    const std::vector<std::pair<const char*, Operation>> rows = {
        {"two reservations", map_op(tiles.pool, other, kPage)},
        {"misaligned base", map_op(tiles.pool, tiles.base + 1, kPage)},
        {"misaligned size", map_op(tiles.pool, tiles.base, 100)},
        {"no size", map_op(tiles.pool, tiles.base, 0)},
        {"misaligned offset", map_op(tiles.pool, tiles.base, kPage, 5)},
        {"past the pool", map_op(tiles.pool, tiles.base, 2 * kPage, 7 * kPage)},
        {"does not divide", map_op(tiles.pool, tiles.base, 3 * kPage, 0, 2 * kPage)},
        {"size wraps", map_op(tiles.pool, tiles.base, ~uint64_t{4095})},
        {"past the reservation", map_op(tiles.pool, tiles.base + 4 * k64 - kPage, 2 * kPage)},
        {"no allocation", map_op(0, tiles.base, kPage)},
        {"no such allocation", map_op(tiles.fence, tiles.base, kPage)},
        {"copy from two ranges", copy_op(other - kPage, tiles.base, 2 * kPage)},
        {"unmap to write", unmap_op(tiles.base, kPage, kWrite)},
        {"unknown", unknown},
        {"a range that Map gave", map_op(tiles.pool, mapped, kPage)},
        {"a copy from what Map gave", copy_op(mapped, tiles.base, kPage)},
        {"a copy from nothing", copy_op(tiles.base + 64 * k64, tiles.base, kPage)},
        {"a copy that is misaligned", copy_op(tiles.base + 1, tiles.base, kPage)},
        {"a copy whose source wraps", copy_op(~uint64_t{4095}, tiles.base, 2 * kPage)},
        {"system use", protect},
        {"zeros with an allocation", zero},
        {"zero and no access", unmap_op(tiles.base, kPage, kZero | kNoAccess)},
        {"offset wraps", map_op(tiles.pool, tiles.base, 2 * kPage, ~uint64_t{4095})},
        {"repeat misaligned", map_op(tiles.pool, tiles.base, 2 * kPage, 0, 100)},
        {"repeat above the size", map_op(tiles.pool, tiles.base, kPage, 0, 2 * kPage)},
    };
    for (const auto& [what, bad] : rows) {
      SCOPED_TRACE(what);
      const Digest before = digest(stack, {&tiles.client});
      EXPECT_EQ(tiles.client.update(tiles.client.context, tiles.fence, 0, {good, bad}, true),
                nt_status(Status::kInvalidParameter));
      stack.drive();
      EXPECT_EQ(digest(stack, {&tiles.client}), before);
      EXPECT_EQ(tiles.page(tiles.base), std::nullopt);
      EXPECT_EQ(tiles.value(), 0U);
    }
  });
}

// What is around the operations: whose context, which fence, and members nobody has defined.
TEST_F(VaUpdateTest, TheCallItselfIsLookedAt) {
  DXGKIT_COVERS("VA-35", "VA-38");
  running([](GpuVaStack& stack) {
    Tiles tiles(stack);
    VaClient& client = tiles.client;
    const D3DKMT_HANDLE first = std::exchange(client.device, client.make_device());
    const D3DKMT_HANDLE foreign_context = client.make_context_virtual();
    const D3DKMT_HANDLE second = std::exchange(client.device, first);
    std::vector<Operation> operations = {map_op(tiles.pool, tiles.base, kPage)};
    using Args = D3DKMT_UPDATEGPUVIRTUALADDRESS;
    const std::vector<std::pair<const char*, std::function<void(Args&)>>> rows = {
        {"no device", [](Args& a) { a.hDevice = 0; }},
        {"another device", [&](Args& a) { a.hDevice = second; }},
        {"no context", [](Args& a) { a.hContext = 0; }},
        {"a context of another device", [&](Args& a) { a.hContext = foreign_context; }},
        {"no fence", [](Args& a) { a.hFenceObject = 0; }},
        {"a paging queue's fence", [&](Args& a) { a.hFenceObject = client.queue.fence; }},
        {"something else", [&](Args& a) { a.hFenceObject = tiles.pool; }},
        {"no operations", [](Args& a) { a.NumOperations = 0; }},
        {"no list", [](Args& a) { a.Operations = nullptr; }},
        {"reserved 0", [](Args& a) { a.Reserved0 = 1; }},
        {"reserved 1", [](Args& a) { a.Reserved1 = 1; }},
        {"flags", [](Args& a) { a.Flags.Reserved = 1; }},
    };
    for (const auto& [what, change] : rows) {
      SCOPED_TRACE(what);
      const Digest before = digest(stack, {&client});
      Args args{};
      args.hDevice = client.device;
      args.hContext = client.context;
      args.hFenceObject = tiles.fence;
      args.NumOperations = 1;
      args.Operations = operations.data();
      args.Flags.DoNotWait = 1;
      change(args);
      EXPECT_EQ(client.call([&] { return D3DKMTUpdateGpuVirtualAddress(&args); }),
                nt_status(Status::kInvalidParameter));
      stack.drive();
      EXPECT_EQ(digest(stack, {&client}), before);
      EXPECT_EQ(tiles.page(tiles.base), std::nullopt);
      EXPECT_EQ(tiles.value(), 0U);
    }
  });
}

TEST_F(VaUpdateTest, APoolThatMovesIsFoundWhereItIsThen) {
  DXGKIT_COVERS("VA-39");
  running([](GpuVaStack& stack) {
    Tiles tiles(stack);
    ASSERT_EQ(tiles.client.update(tiles.client.context, tiles.fence, 1,
                                  {map_op(tiles.pool, tiles.base, 8 * kPage)}),
              0);
    // Away, and back behind something else.
    const D3DKMT_HANDLE other = tiles.client.make(1);
    EXPECT_EQ(tiles.client.evict({tiles.pool}), 0);
    stack.drive();
    tiles.client.list({other});
    stack.drive();
    tiles.client.list({tiles.pool});
    stack.drive();
    ASSERT_EQ(tiles.client.signal_cpu(tiles.fence, 1), 0);
    stack.drive();
    for (uint64_t page = 0; page < 8; ++page)
      EXPECT_EQ(tiles.page(tiles.base + page * kPage), page);
  });
}

// A pool that a queued batch maps stays though its client evicts it, until the batch has run; then
// it leaves. So does what a copy's source shows.
TEST_F(VaUpdateTest, PoolsStayUntilWhatNamesThemHasRun) {
  DXGKIT_COVERS("RES-28");
  running([](GpuVaStack& stack) {
    Tiles tiles(stack);
    VaClient& client = tiles.client;
    const D3DKMT_HANDLE source = client.make_allocation(8 * kPage, kMemorySet);
    const D3DKMT_HANDLE bystander = client.make_allocation(8 * kPage, kMemorySet);
    client.list({source, bystander});
    ASSERT_EQ(client.update(client.context, tiles.fence, 0,
                            {map_op(source, tiles.base + k64, 2 * kPage)}, true),
              0);
    stack.drive();
    ASSERT_EQ(client.update(client.context, tiles.fence, 5,
                            {map_op(tiles.pool, tiles.base, 2 * kPage),
                             copy_op(tiles.base + k64, tiles.base + 2 * k64, 2 * kPage)}),
              0);
    ASSERT_EQ(client.evict({tiles.pool, source, bystander}), 0);
    stack.drive();
    EXPECT_TRUE(client.in_memory(tiles.pool));
    EXPECT_TRUE(client.in_memory(source));
    EXPECT_FALSE(client.in_memory(bystander));
    ASSERT_EQ(client.signal_cpu(tiles.fence, 5), 0);
    stack.drive();
    EXPECT_EQ(tiles.value(), 6U);
    EXPECT_FALSE(client.in_memory(tiles.pool));
    EXPECT_FALSE(client.in_memory(source));
    EXPECT_FALSE(client.walk(tiles.base).valid);
    client.list({tiles.pool, source});
    stack.drive();
    EXPECT_EQ(tiles.page(tiles.base + kPage), 1U);
    EXPECT_TRUE(client.walk(tiles.base + 2 * k64).valid);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What a batch holds is nobody's hostage while its fence does not come: others get the room, the
// pool can be destroyed, its context too, and power may go.
TEST_F(VaUpdateTest, PoolsOfABatchThatNeverRunsAreNoHostages) {
  DXGKIT_COVERS("RES-28");
  enum class Way { kPressure, kDestroy, kContext, kPower, kEnd };
  for (const Way way : {Way::kPressure, Way::kDestroy, Way::kContext, Way::kPower, Way::kEnd}) {
    SCOPED_TRACE(static_cast<int>(way));
    running(
        [&](GpuVaStack& stack) {
          Tiles tiles(stack);
          VaClient& client = tiles.client;
          const D3DKMT_HANDLE second = client.make_context_virtual();
          ASSERT_EQ(client.update(second, tiles.fence, 5, {map_op(tiles.pool, tiles.base, kPage)}),
                    0);
          ASSERT_EQ(client.evict({tiles.pool}), 0);
          stack.drive();
          ASSERT_TRUE(client.in_memory(tiles.pool));
          switch (way) {
            case Way::kPressure: {
              VaClient other(stack, "other");
              const uint64_t all = stack.adapter().core().memory().segments()[0].size_bytes;
              const D3DKMT_HANDLE large = other.make_allocation(all, kMemorySet);
              other.list({large});
              stack.drive();
              EXPECT_TRUE(other.in_memory(large));
              EXPECT_FALSE(client.in_memory(tiles.pool));
              break;
            }
            case Way::kDestroy: {
              const uint64_t pages = stack.machine.free_page_count();
              EXPECT_EQ(client.destroy_allocation(tiles.pool), 0);
              stack.drive();
              EXPECT_EQ(stack.machine.free_page_count(), pages + 8);
              break;
            }
            case Way::kContext: {
              NTSTATUS status = -1;
              stack.blocking([&] { status = client.destroy_context(second); });
              EXPECT_EQ(status, 0);
              stack.drive();
              EXPECT_FALSE(client.in_memory(tiles.pool));
              break;
            }
            case Way::kPower:
              for (const dxgk::PowerTarget target :
                   {dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kD0}) {
                stack.blocking(
                    [&] { EXPECT_TRUE(stack.system->set_power(stack.luid, target).has_value()); });
              }
              stack.drive();
              client.list({tiles.pool});
              ASSERT_EQ(client.signal_cpu(tiles.fence, 5), 0);
              stack.drive();
              EXPECT_EQ(tiles.value(), 6U);
              ASSERT_EQ(client.submit(client.context, tiles.base, 0), 0);
              stack.drive();
              EXPECT_EQ(tiles.page(tiles.base), 0U);
              break;
            case Way::kEnd:  // everything stops with the batch queued
              break;
          }
          EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [](GpuVaStack& stack) { stack.miniport.config.segments[0].size = 2 * kMebibyte; });
    if (HasFatalFailure()) return;
  }
}

TEST_F(VaUpdateTest, WhatWasFreedSinceIsLeftAlone) {
  DXGKIT_COVERS("VA-42");
  running([](GpuVaStack& stack) {
    Tiles tiles(stack);
    ASSERT_EQ(tiles.client.update(tiles.client.context, tiles.fence, 1,
                                  {map_op(tiles.pool, tiles.base, 4 * kPage, 4 * kPage)}),
              0);
    ASSERT_EQ(tiles.client.free_va(tiles.base, 4 * k64), 0);
    ASSERT_EQ(tiles.client.make_mapping(tiles.pool, 2, tiles.base), tiles.base);
    ASSERT_EQ(tiles.client.signal_cpu(tiles.fence, 1), 0);
    stack.drive();
    EXPECT_EQ(tiles.page(tiles.base), 0U);
    EXPECT_EQ(tiles.page(tiles.base + kPage), 1U);
    EXPECT_EQ(tiles.page(tiles.base + 2 * kPage), std::nullopt);
    EXPECT_EQ(tiles.value(), 2U);
  });
}

TEST_F(VaUpdateTest, TooManyQueuedMakeTheCallerWait) {
  DXGKIT_COVERS("VA-40");
  running([](GpuVaStack& stack) {
    Tiles tiles(stack);
    for (uint64_t i = 0; i < 128; ++i) {
      ASSERT_EQ(tiles.client.update(tiles.client.context, tiles.fence, i * 2 + 2,
                                    {map_op(tiles.pool, tiles.base, kPage)}),
                0);
    }
    // The 129th waits until one of them is done.
    NTSTATUS status = -1;
    Stack::Background call(stack, [&] {
      status = tiles.client.update(tiles.client.context, tiles.fence, 1000,
                                   {map_op(tiles.pool, tiles.base, kPage)});
    });
    EXPECT_FALSE(call.finished());
    ASSERT_EQ(tiles.client.signal_cpu(tiles.fence, 2), 0);
    call.finish();
    EXPECT_EQ(status, 0);
    ASSERT_EQ(tiles.client.signal_cpu(tiles.fence, 1000), 0);
    stack.drive();
    EXPECT_EQ(tiles.value(), 1001U);
  });
}

TEST_F(VaUpdateTest, QueuedUpdatesEndWithTheirContextAndDevice) {
  DXGKIT_COVERS("VA-38");
  running([](GpuVaStack& stack) {
    Tiles tiles(stack);
    const D3DKMT_HANDLE second = tiles.client.make_context_virtual();
    for (const D3DKMT_HANDLE context : {tiles.client.context, second}) {
      ASSERT_EQ(
          tiles.client.update(context, tiles.fence, 7, {map_op(tiles.pool, tiles.base, kPage)}), 0);
    }
    NTSTATUS status = -1;
    stack.blocking([&] { status = tiles.client.destroy_context(second); });
    EXPECT_EQ(status, 0);
    ASSERT_EQ(tiles.client.signal_cpu(tiles.fence, 7), 0);
    stack.drive();
    EXPECT_EQ(tiles.value(), 8U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
