// What happens in which order: several paging queues, and mappings that change beside work.
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using VaOrderTest = GpuVaTest;

AllocationId id_of(const VaClient& client, D3DKMT_HANDLE handle) {
  return (*client.process->handles().find<dxgk::OpenedAllocation>(handle))->allocation->id;
}

// The same address is mapped again and again through two queues of different priority. At every
// step of the hardware the page seen is that of some call, never goes back, and is at least that of
// the last call whose fence has come.
TEST_F(VaOrderTest, TwoQueuesNeverTurnDependentMapsRound) {
  DXGKIT_COVERS("PAGE-44", "VA-10", "VA-27");
  running([](GpuVaStack& stack) {
    constexpr uint64_t kCalls = 24;
    VaClient client(stack);
    const Queue urgent = client.make_queue(1);
    const D3DKMT_HANDLE pool = client.make_allocation(kCalls * kPage, kMemorySet);
    client.list({pool});
    stack.drive();
    const uint64_t va = client.make_mapping(pool, 1, 0x0400'0000);
    const uint64_t start =
        stack.adapter().core().memory().placement(id_of(client, pool)).offset_bytes;
    struct Asked {
      const Queue* queue;
      uint64_t fence;
    };
    std::vector<Asked> asked = {{&client.queue, 0}};
    uint64_t seen = 0;
    const auto look = [&] {
      const auto walk = client.walk(va);
      ASSERT_TRUE(walk.valid) << walk.why;
      const uint64_t now = (walk.place.offset - start) / kPage;
      ASSERT_LT(now, asked.size());
      ASSERT_GE(now, seen);
      seen = now;
      for (uint64_t call = 0; call < asked.size(); ++call) {
        if (asked[call].queue->value() >= asked[call].fence) {
          ASSERT_GE(now, call);
        }
      }
    };
    for (uint64_t call = 1; call < kCalls; ++call) {
      const Queue& queue = call % 3 == 0 ? urgent : client.queue;
      auto args = client.map_args(pool, 1, va);
      args.hPagingQueue = queue.handle;
      args.OffsetInPages = call;
      ASSERT_EQ(client.map(args) & ~kPendingStatus, 0);
      asked.push_back({&queue, args.PagingFenceValue});
      look();
      // The hardware does one thing now and then, so that calls meet each other half done.
      if (call % 4 == 0 && stack.miniport.complete_next(1)) {
        stack.settle();
        look();
      }
      if (HasFatalFailure()) return;
    }
    while (stack.miniport.complete_next(1)) {
      stack.settle();
      look();
      if (HasFatalFailure()) return;
    }
    stack.drive();
    look();
    EXPECT_EQ(seen, kCalls - 1);
  });
}

/// What its maker shares, and another process opens.
struct Shared {
  Shared(VaClient& maker, VaClient& user, uint64_t bytes) {
    ScriptedAllocation described;
    described.size = bytes;
    described.supported_read = described.supported_write = kMemorySet;
    D3DDDI_ALLOCATIONINFO2 info{};
    info.pPrivateDriverData = &described;
    info.PrivateDriverDataSize = sizeof described;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = maker.device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    create.Flags.CreateResource = create.Flags.CreateShared = 1;
    EXPECT_EQ(maker.call([&] { return D3DKMTCreateAllocation2(&create); }), 0);
    made = info.hAllocation;
    ScriptedAllocation total;
    D3DDDI_OPENALLOCATIONINFO2 again{};
    D3DKMT_OPENRESOURCE open{};
    open.hDevice = user.device;
    open.hGlobalShare = create.hGlobalShare;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &again;
    open.pTotalPrivateDriverDataBuffer = &total;
    open.TotalPrivateDriverDataBufferSize = sizeof total;
    EXPECT_EQ(user.call([&] { return D3DKMTOpenResource2(&open); }), 0);
    opened = again.hAllocation;
  }
  D3DKMT_HANDLE made = 0, opened = 0;
};

// One process brings in what another lists too. Whenever the other one's work is queued, it finds
// the entries that lead there: they are written behind the content.
TEST_F(VaOrderTest, WhatAnotherProcessBringsInIsNotUsedBeforeItsEntries) {
  DXGKIT_COVERS("RES-03", "VA-28");
  bool more = true;
  for (uint64_t steps = 0; more; ++steps) {
    SCOPED_TRACE(steps);
    running(
        GpuVaConfig::gpu_physical_four_level(),
        [&](GpuVaStack& stack) {
          VaClient maker(stack, "maker"), user(stack, "user"), holder(stack, "holder");
          const Shared data(maker, user, 2 * kUnit);
          const D3DKMT_HANDLE codes[] = {maker.make_allocation(kPage, kApertureSet),
                                         user.make_allocation(kPage, kApertureSet)};
          maker.list({data.made, codes[0]});
          user.list({data.opened, codes[1]});
          stack.drive();
          const uint64_t maker_code = maker.make_mapping(codes[0], 1);
          const uint64_t user_code = user.make_mapping(codes[1], 1);
          maker.make_mapping(data.made, 2 * kUnit / kPage);
          const uint64_t va = user.make_mapping(data.opened, 2 * kUnit / kPage);
          ASSERT_TRUE(stack.gpu.write(user.process_handle(), va, 7));
          ASSERT_TRUE(stack.gpu.write(user.process_handle(), user_code,
                                      dxgkit::testing::gpu_commands({GpuCommand::read(va)})));
          const D3DKMT_HANDLE wide = holder.make(kMemoryUnits - 1);
          EXPECT_GE(holder.make_resident({wide}, cant_trim()), 0);
          stack.drive();
          ASSERT_FALSE(maker.in_memory(data.made));

          ASSERT_EQ(maker.submit(maker.context, maker_code, 24), 0);
          stack.settle();
          more = true;
          for (uint64_t i = 0; i < steps && more; ++i) {
            more = stack.miniport.complete_next(1);
            stack.settle();
          }
          ASSERT_EQ(user.submit(user.context, user_code, 24), 0);
          stack.settle();
          // What may run runs before any more entries are written.
          while (stack.miniport.complete_next(0) || stack.miniport.complete_next(1)) stack.settle();
          stack.drive();
          EXPECT_TRUE(stack.gpu.faults().empty()) << stack.gpu.faults()[0].va;
          ASSERT_EQ(stack.gpu.reads().size(), 1U);
          EXPECT_EQ(stack.gpu.reads()[0].value, 7U);
          EXPECT_EQ(user.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [](GpuVaStack& stack) {
          stack.miniport.config.segments[0].size = kMemoryUnits * kUnit;
          stack.miniport.config.paging_buffer_bytes = 256;
        });
    if (HasFatalFailure()) return;
  }
}

// What waits for room is still to be used by work queued behind it: an offer meant for afterwards
// throws nothing away before.
TEST_F(VaOrderTest, AnOfferWaitsForWorkBehindAListThatWaitsForRoom) {
  DXGKIT_COVERS("ALLOC-44", "RES-02");
  running(
      [](GpuVaStack& stack) {
        VaClient client(stack), holder(stack, "holder");
        const D3DKMT_HANDLE code = client.make_allocation(kPage, kApertureSet);
        const D3DKMT_HANDLE data = client.make(2);
        client.list({code, data});
        stack.drive();
        const uint64_t at_code = client.make_mapping(code, 1), from = at_code + kPage / 2;
        const uint64_t va = client.make_mapping(data, 2 * kUnit / kPage);
        ASSERT_TRUE(stack.gpu.write(client.process_handle(), va, 7));
        ASSERT_TRUE(stack.gpu.write(client.process_handle(), at_code,
                                    dxgkit::testing::gpu_commands({GpuCommand::copy(va, from)})));
        ASSERT_EQ(client.evict({data}), 0);
        stack.drive();

        const D3DKMT_HANDLE wide = holder.make(kMemoryUnits - 1);
        const D3DKMT_HANDLE theirs = holder.make_allocation(kPage, kApertureSet);
        EXPECT_GE(holder.make_resident({wide, theirs}, cant_trim()), 0);
        stack.drive();
        ASSERT_TRUE(holder.in_memory(wide));
        const uint64_t at_theirs = holder.make_mapping(theirs, 1);
        ASSERT_EQ(holder.submit(holder.context, at_theirs, 24), 0);
        stack.settle();  // on the hardware from here on

        ASSERT_EQ(client.make_resident({data}, cant_trim()), kPendingStatus);
        stack.settle();
        ASSERT_FALSE(client.in_memory(data)) << "nothing leaves under work in flight";
        const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
        ASSERT_EQ(client.wait_gpu({.handle = client.context}, fence, 1), 0);
        ASSERT_EQ(client.submit(client.context, at_code, 24), 0);
        D3DKMT_OFFERALLOCATIONS offer{};
        offer.hDevice = client.device;
        offer.HandleList = &data;
        offer.NumAllocations = 1;
        offer.Priority = D3DKMT_OFFER_PRIORITY_LOW;
        ASSERT_EQ(client.call([&] { return D3DKMTOfferAllocations(&offer); }), 0);
        stack.drive();
        ASSERT_TRUE(client.in_memory(data));
        // Others take its room once more before the work may run.
        ASSERT_EQ(holder.submit(holder.context, at_theirs, 24), 0);
        stack.drive();
        ASSERT_TRUE(holder.in_memory(wide));
        ASSERT_EQ(client.signal_cpu(fence, 1), 0);
        stack.drive();
        EXPECT_EQ(stack.gpu.read(client.process_handle(), from), 7U);
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](GpuVaStack& stack) { stack.miniport.config.segments[0].size = kMemoryUnits * kUnit; });
}

// A request may be done before an older one of its queue, which waits: the fence says so only
// when all before it are done.
TEST_F(VaOrderTest, AMapDoesNotPassAListThatWaitsForRoom) {
  DXGKIT_COVERS("RES-06", "VA-30");
  // The GPU writes these tables, so that a map takes its time.
  running(
      GpuVaConfig::gpu_physical_four_level(),
      [](GpuVaStack& stack) {
        VaClient client(stack), holder(stack, "holder");
        const D3DKMT_HANDLE data = client.make(2);
        const D3DKMT_HANDLE wide = holder.make(kMemoryUnits - 1);
        const D3DKMT_HANDLE theirs = holder.make_allocation(kPage, kApertureSet);
        EXPECT_GE(holder.make_resident({wide, theirs}, cant_trim()), 0);
        stack.drive();
        const uint64_t at_theirs = holder.make_mapping(theirs, 1);
        // Tables are there already; what is mapped below needs room for none.
        const uint64_t place = client.make_reservation(kUnit);
        const D3DKMT_HANDLE small = client.make_allocation(2 * kPage, kApertureSet);
        client.list({small});
        stack.drive();
        client.make_mapping(small, 1, place);
        const uint64_t before = client.queue.value();
        ASSERT_EQ(holder.submit(holder.context, at_theirs, 24), 0);
        stack.settle();  // on the hardware from here on

        NTSTATUS status = 0;
        const D3DDDI_MAKERESIDENT waits = client.make_resident({data}, &status, cant_trim());
        ASSERT_EQ(status, kPendingStatus);
        stack.settle();
        ASSERT_FALSE(client.in_memory(data));
        D3DDDI_MAPGPUVIRTUALADDRESS map = client.map_args(small, 1, place + 2 * kPage);
        ASSERT_EQ(client.map(map), kPendingStatus);
        EXPECT_EQ(map.PagingFenceValue, waits.PagingFenceValue + 1);
        for (int i = 0; i < 20; ++i) {
          static_cast<void>(stack.miniport.complete_next(1));  // paging
          stack.settle();
        }
        EXPECT_FALSE(client.in_memory(data));
        EXPECT_EQ(client.queue.value(), before) << "nobody is told of the map either";
        stack.drive();
        EXPECT_TRUE(client.walk(place + 2 * kPage).valid);
        EXPECT_TRUE(client.in_memory(data));
        EXPECT_EQ(client.queue.value(), map.PagingFenceValue);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](GpuVaStack& stack) { stack.miniport.config.segments[0].size = kMemoryUnits * kUnit; });
}

// A hole is freed in the middle of what work on the hardware uses on both sides: neither the work
// nor what it finds there is touched, and the hole is nobody's before the call returns.
TEST_F(VaOrderTest, AFreeBesideRunningWorkLeavesItAlone) {
  DXGKIT_COVERS("VA-41", "VA-30");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE code = client.make_allocation(kPage, kMemorySet);
    const D3DKMT_HANDLE data = client.make_allocation(64 * kPage, kMemorySet);
    client.list({code, data});
    stack.drive();
    const uint64_t at_code = client.make_mapping(code, 1);
    const uint64_t va = client.make_mapping(data, 64);
    for (uint64_t page = 0; page < 64; ++page)
      ASSERT_TRUE(stack.gpu.write(client.process_handle(), va + page * kPage + 8, page + 1));
    const uint64_t hole = va + 20 * kPage, behind = va + 40 * kPage;
    ASSERT_TRUE(
        stack.gpu.write(client.process_handle(), at_code,
                        dxgkit::testing::gpu_commands({GpuCommand::write(hole - kPage, 77),
                                                       GpuCommand::copy(behind + 8, behind),
                                                       GpuCommand::write(va + 63 * kPage, 78)})));
    ASSERT_EQ(client.submit(client.context, at_code, 72), 0);
    stack.settle();  // on the hardware from here on
    NTSTATUS status = -1;
    Stack::Background call(stack, [&] {
      D3DKMT_FREEGPUVIRTUALADDRESS args{};
      args.hAdapter = client.adapter;
      args.BaseAddress = hole;
      args.Size = behind - hole;
      status = client.call([&] { return D3DKMTFreeGpuVirtualAddress(&args); });
    });
    // Paging is done first, then the work.
    for (int i = 0; i < 100 && !call.finished(20); ++i) {
      static_cast<void>(stack.miniport.complete_next(1));
      stack.settle();
    }
    ASSERT_TRUE(call.finished());
    EXPECT_EQ(status, 0);
    for (uint64_t page = 20; page < 40; ++page)
      EXPECT_FALSE(client.walk(va + page * kPage).valid) << page;
    EXPECT_EQ(stack.gpu.read(client.process_handle(), va + 63 * kPage), 0U) << "not done yet";
    stack.drive();
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.gpu.read(client.process_handle(), hole - kPage), 77U);
    EXPECT_EQ(stack.gpu.read(client.process_handle(), behind), 41U);
    EXPECT_EQ(stack.gpu.read(client.process_handle(), va + 63 * kPage), 78U);
    for (uint64_t page = 0; page < 64; ++page) {
      if (page >= 20 && page < 40) continue;
      EXPECT_EQ(stack.gpu.read(client.process_handle(), va + page * kPage + 8), page + 1);
    }
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

}  // namespace
}  // namespace dxgkit::contract
