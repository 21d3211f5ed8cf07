// Power transitions: what stays, what leaves, in which order, and what the driver is told.
#include <cstring>
#include <optional>
#include <utility>

#include "tests/contract/power_fixture.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

using dxgk::PowerTarget;
using PowerTest = ContractTest;
using testing::PagingGpu;

dxgk::PowerOutcome go(Stack& stack, PowerTarget target, Status expected = Status::kSuccess) {
  dxgk::PowerOutcome outcome;
  stack.blocking([&] {
    const Result<dxgk::PowerOutcome> done = stack.system->set_power(stack.luid, target);
    EXPECT_EQ(done.has_value() ? Status::kSuccess : done.error(), expected);
    if (done.has_value()) outcome = *done;
  });
  return outcome;
}

struct Told {
  ULONG uid = 0;
  DEVICE_POWER_STATE state = PowerDeviceUnspecified;
  POWER_ACTION action = PowerActionNone;
  bool operator==(const Told&) const = default;
};
constexpr ULONG kAdapterUid = 0xFFFFFFFF;

/// What each SetPowerState call was told.
std::shared_ptr<std::vector<Told>> listen(Stack& stack) {
  auto told = std::make_shared<std::vector<Told>>();
  stack.miniport.hooks.set_power_state = [told](ULONG uid, DEVICE_POWER_STATE state,
                                                POWER_ACTION action) {
    told->push_back({uid, state, action});
    return nt_status(Status::kSuccess);
  };
  return told;
}

// Standby and hibernate by the three bits, row by row; content is intact in every one, and a kept
// segment causes no paging on the way down or up.
TEST_F(PowerTest, SegmentsAreKeptOrPurgedByTheirBits) {
  DXGKIT_COVERS("PWR-01", "PWR-05", "PWR-06", "PWR-08", "SEG-32", "SEG-33");
  constexpr uint64_t kEnd = 128 * kKibibyte - 1;
  struct Row {
    const char* sentence;
    Preserved bits;
    PowerTarget target;
    std::vector<bool> kept;  // of allocations at 0, 64K, 120K (straddles) and from 128K on
  };
  const Row rows[] = {
      {"000 standby purges", {}, PowerTarget::kStandby, {false, false, false, false}},
      {"000 hibernate purges", {}, PowerTarget::kHibernate, {false, false, false, false}},
      {"100 standby keeps", {true}, PowerTarget::kStandby, {true, true, true, true}},
      {"100 hibernate purges", {true}, PowerTarget::kHibernate, {false, false, false, false}},
      {"110 standby keeps", {true, true}, PowerTarget::kStandby, {true, true, true, true}},
      {"110 hibernate keeps", {true, true}, PowerTarget::kHibernate, {true, true, true, true}},
      {"101 standby keeps",
       {true, false, true, kEnd},
       PowerTarget::kStandby,
       {true, true, true, true}},
      {"101 hibernate keeps what ends at or below the boundary",
       {true, false, true, kEnd},
       PowerTarget::kHibernate,
       {true, true, false, false}},
      {"what ends at the boundary is kept",
       {true, false, true, 120 * kKibibyte - 1},
       PowerTarget::kHibernate,
       {true, true, false, false}},
      {"what begins below and ends above it is not",
       {true, false, true, 124 * kKibibyte - 1},
       PowerTarget::kHibernate,
       {true, true, false, false}},
      {"one byte less, and the last page does not lie wholly below",
       {true, false, true, 120 * kKibibyte - 2},
       PowerTarget::kHibernate,
       {true, false, false, false}},
      {"hybrid sleep purges as hibernation does",
       {true},
       PowerTarget::kHybridSleep,
       {false, false, false, false}},
      {"hybrid sleep keeps what hibernation keeps",
       {true, true},
       PowerTarget::kHybridSleep,
       {true, true, true, true}},
      {"D3 alone is like standby", {true}, PowerTarget::kD3, {true, true, true, true}},
      {"D1 purges what standby purges", {}, PowerTarget::kD1, {false, false, false, false}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.sentence);
    running(
        [&](Stack& stack) {
          PagingGpu gpu(stack.miniport, stack.machine);
          const auto told = listen(stack);
          {
            Client client(stack);
            ContextBuffers context = client.make_context();
            std::vector<Tagged> all;
            for (const uint64_t size : {64U, 56U, 32U, 64U})
              all.emplace_back(stack, gpu, client, size * kKibibyte, kHidden);
            for (size_t i = 0; i < all.size(); ++i) all[i].write(context, 1000 * (i + 1));
            ASSERT_EQ(all[1].placement().offset_bytes, 64 * kKibibyte);
            ASSERT_EQ(all[2].placement().offset_bytes, 120 * kKibibyte);
            stack.miniport.clear_calls();
            size_t expected_out = 0;
            const dxgk::PowerOutcome outcome = go(stack, row.target);
            std::vector<uint64_t> kept(3, 0);
            for (size_t i = 0; i < all.size(); ++i) {
              EXPECT_EQ(all[i].placement().segment == SegmentId{2}, row.kept[i]) << i;
              expected_out += row.kept[i] ? 0 : 1;
            }
            // The hardware forgets exactly what the driver never promised to keep.
            const bool deep =
                row.target == PowerTarget::kHibernate || row.target == PowerTarget::kHybridSleep;
            const bool keeps = deep ? row.bits.hibernate : row.bits.standby;
            kept[1] = keeps ? UINT64_MAX : deep && row.bits.partially ? row.bits.end + 1 : 0;
            gpu.lose_power(kept);
            EXPECT_EQ(outcome.written_back, expected_out);
            EXPECT_EQ(outcome.lost, 0U);
            if (expected_out == 0) {
              EXPECT_EQ(stack.miniport.count("DxgkDdiBuildPagingBuffer"), 0U);
            }
            go(stack, PowerTarget::kD0);
            ASSERT_EQ(told->size(), 2U);
            for (size_t i = 0; i < all.size(); ++i) {
              EXPECT_TRUE(all[i].intact()) << i;
              all[i].use(context);
              EXPECT_EQ(all[i].placement().segment, SegmentId{2});
              EXPECT_TRUE(all[i].intact()) << i << " after it came back";
            }
            EXPECT_EQ(stack.miniport.calls().paging.size(), 2 * expected_out);
            EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
          }
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          stack.miniport.hooks.set_power_state = nullptr;
        },
        [&](ScriptedMiniport& miniport) { preserve(miniport, 1, row.bits); });
  }
}

// Clean content and content nobody wrote leaves without a transfer; aperture mappings are undone.
TEST_F(PowerTest, WhatNeedsNoTransferIsDropped) {
  DXGKIT_COVERS("PWR-07");
  running([](Stack& stack) {
    PagingGpu gpu(stack.miniport, stack.machine);
    {
      Client client(stack);
      ContextBuffers context = client.make_context();
      Tagged dirty(stack, gpu, client, 64 * kKibibyte, kHidden);
      Tagged clean(stack, gpu, client, 64 * kKibibyte, kHidden);
      Tagged mapped(stack, gpu, client, 64 * kKibibyte, kAperture);
      dirty.write(context, 100);
      clean.write(context, 200);
      mapped.write(context, 300);
      go(stack, PowerTarget::kStandby);
      go(stack, PowerTarget::kD0);
      dirty.write(context, 400);
      clean.use(context);
      mapped.use(context);
      stack.miniport.clear_calls();
      const dxgk::PowerOutcome outcome = go(stack, PowerTarget::kHibernate);
      EXPECT_EQ(outcome.written_back, 1U);
      EXPECT_EQ(outcome.bytes_written_back, 64 * kKibibyte);
      EXPECT_EQ(outcome.dropped, 2U);
      EXPECT_EQ(outcome.kept, 0U);
      size_t transfers = 0, unmaps = 0;
      for (const testing::PagingCall& call : stack.miniport.calls().paging) {
        transfers += call.args.Operation == DXGK_OPERATION_TRANSFER ? 1 : 0;
        unmaps += call.args.Operation == DXGK_OPERATION_UNMAP_APERTURE_SEGMENT ? 1 : 0;
      }
      EXPECT_EQ(transfers, 1U);
      EXPECT_EQ(unmaps, 1U);
      gpu.lose_power({0, 0, 0});
      go(stack, PowerTarget::kD0);
      for (Tagged* one : {&dirty, &clean, &mapped}) {
        one->use(context);
        EXPECT_TRUE(one->intact());
      }
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Offered content is not written back: it is lost, and who reclaims it is told.
TEST_F(PowerTest, OfferedContentIsDropped) {
  DXGKIT_COVERS("PWR-07");
  running([](Stack& stack) {
    PagingGpu gpu(stack.miniport, stack.machine);
    {
      Client client(stack);
      ContextBuffers context = client.make_context();
      Tagged offered(stack, gpu, client, 64 * kKibibyte, kHidden);
      Tagged kept(stack, gpu, client, 64 * kKibibyte, kHidden);
      offered.write(context, 1);
      kept.write(context, 100);
      const D3DKMT_HANDLE handle = offered.handle();
      D3DKMT_OFFERALLOCATIONS offer{};
      offer.hDevice = client.device;
      offer.HandleList = &handle;
      offer.NumAllocations = 1;
      offer.Priority = D3DKMT_OFFER_PRIORITY_HIGH;
      ASSERT_EQ(client.call([&] { return D3DKMTOfferAllocations(&offer); }), 0);
      const dxgk::PowerOutcome outcome = go(stack, PowerTarget::kHibernate);
      EXPECT_EQ(outcome.written_back, 1U);
      EXPECT_EQ(outcome.dropped, 1U);
      gpu.lose_power({0, 0, 0});
      go(stack, PowerTarget::kD0);
      BOOL discarded = FALSE;
      D3DKMT_RECLAIMALLOCATIONS reclaim{};
      reclaim.hDevice = client.device;
      reclaim.HandleList = &handle;
      reclaim.NumAllocations = 1;
      reclaim.pDiscarded = &discarded;
      ASSERT_EQ(client.call([&] { return D3DKMTReclaimAllocations(&reclaim); }), 0);
      EXPECT_NE(discarded, FALSE);
      EXPECT_TRUE(kept.intact());
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// The purge belongs to no context, and is over before the driver hears of the state.
TEST_F(PowerTest, ThePurgeCarriesNoContextAndEndsBeforeTheDriverIsTold) {
  DXGKIT_COVERS("PWR-01", "PWR-09");
  running([](Stack& stack) {
    PagingGpu gpu(stack.miniport, stack.machine);
    {
      Client client(stack);
      ContextBuffers context = client.make_context();
      Tagged one(stack, gpu, client, 64 * kKibibyte, kHidden);
      one.write(context, 1);
      size_t outstanding = 0;
      stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
        if (state != PowerDeviceD0) {
          outstanding = stack.miniport.outstanding(0).size() + stack.miniport.outstanding(1).size();
        }
        return nt_status(Status::kSuccess);
      };
      stack.miniport.clear_calls();
      go(stack, PowerTarget::kStandby);
      const ScriptedCalls calls = stack.miniport.calls();
      ASSERT_EQ(calls.submits.size(), 1U);
      EXPECT_EQ(calls.submits[0].args.hContext, nullptr);
      EXPECT_EQ(calls.submits[0].args.Flags.Paging, 1U);
      EXPECT_EQ(calls.patches.at(0).args.hContext, nullptr);
      EXPECT_EQ(outstanding, 0U);
      EXPECT_EQ(calls.order.back(), "DxgkDdiSetPowerState");
      go(stack, PowerTarget::kD0);
      one.use(context);
      EXPECT_EQ(stack.miniport.calls().submits.back().args.hContext != nullptr, true);
      stack.miniport.hooks.set_power_state = nullptr;
    }
  });
}

// Work that has its memory runs to its end before the purge; work that has none waits for the
// resume, and so do clients' calls; nothing is lost.
TEST_F(PowerTest, WorkIsDrainedOrWaits) {
  DXGKIT_COVERS("PWR-01", "PWR-10");
  running([](Stack& stack) {
    {
      Client client(stack);
      ContextBuffers context = client.make_context();
      const D3DKMT_HANDLE allocation = client.make_allocation(64 * kKibibyte, kHidden);
      ASSERT_EQ(client.render(context, work_on({allocation})), 0);
      stack.drive();
      constexpr size_t kQueued = 12;
      for (size_t i = 0; i < kQueued; ++i)
        ASSERT_EQ(client.render(context, work_on({allocation})), 0);
      stack.settle();
      stack.miniport.clear_calls();
      {
        Stack::Background sleeping(stack, [&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kStandby).has_value());
        });
        EXPECT_FALSE(sleeping.finished()) << "work is on hardware, and nothing completes it";
        EXPECT_EQ(stack.miniport.count("DxgkDdiSetPowerState"), 0U);
        sleeping.finish();
      }
      EXPECT_EQ(stack.miniport.count("DxgkDdiSetPowerState"), 1U);
      const size_t before = stack.statistics().packets_completed;
      EXPECT_LT(stack.adapter().scheduler().packets_of(ContextId{2}), kQueued);
      EXPECT_GT(stack.adapter().scheduler().packets_of(ContextId{2}), 0U);
      // Asleep: a client's call waits, nothing reaches the driver.
      const size_t calls = stack.miniport.calls().order.size();
      Stack::Background calling(
          stack, [&] { EXPECT_EQ(client.render(context, work_on({allocation})), 0); });
      EXPECT_FALSE(calling.finished());
      EXPECT_EQ(stack.miniport.calls().order.size(), calls);
      go(stack, PowerTarget::kD0);
      calling.finish();
      stack.drive();
      EXPECT_GT(stack.statistics().packets_completed, before);
      EXPECT_EQ(client.wait_for_idle(), 0);
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Children hear before the adapter on the way down and after it on the way up; the reason is told
// on the way down only.
TEST_F(PowerTest, TheDriverHearsDeviceStateAndReason) {
  DXGKIT_COVERS("PWR-04");
  struct Row {
    PowerTarget target;
    DEVICE_POWER_STATE state;
    POWER_ACTION action;
  };
  for (const Row& row : {Row{PowerTarget::kD1, PowerDeviceD1, PowerActionSleep},
                         Row{PowerTarget::kD2, PowerDeviceD2, PowerActionSleep},
                         Row{PowerTarget::kD3, PowerDeviceD3, PowerActionSleep},
                         Row{PowerTarget::kStandby, PowerDeviceD3, PowerActionSleep},
                         Row{PowerTarget::kHybridSleep, PowerDeviceD3, PowerActionSleep},
                         Row{PowerTarget::kHibernate, PowerDeviceD3, PowerActionHibernate}}) {
    running([&](Stack& stack) {
      const auto told = listen(stack);
      go(stack, row.target);
      go(stack, row.target);  // is there already
      go(stack, row.target == PowerTarget::kD1 ? PowerTarget::kD2 : PowerTarget::kD1,
         Status::kInvalidParameter);
      ASSERT_EQ(told->size(), 1U);
      EXPECT_EQ(told->at(0), (Told{kAdapterUid, row.state, row.action}));
      go(stack, PowerTarget::kD0);
      go(stack, PowerTarget::kD0);
      ASSERT_EQ(told->size(), 2U);
      EXPECT_EQ(told->at(1).state, PowerDeviceD0);
      EXPECT_GT(static_cast<uint32_t>(told->at(1).action), 8U) << "no POWER_ACTION";
      stack.miniport.hooks.set_power_state = nullptr;
    });
  }
}

// A driver that fails a transition is told that it may not, and goes through it all the same.
TEST_F(PowerTest, AFailureIsAViolationAndTakenForSuccess) {
  DXGKIT_COVERS("PWR-02");
  running([](Stack& stack) {
    stack.miniport.hooks.set_power_state = [](ULONG, DEVICE_POWER_STATE, POWER_ACTION) {
      return nt_status(Status::kUnsuccessful);
    };
    go(stack, PowerTarget::kStandby);
    EXPECT_EQ(stack.only_finding().rule, "PWR-02");
    go(stack, PowerTarget::kD0);
    EXPECT_EQ(stack.findings.count("PWR-02"), 2U);
    EXPECT_TRUE(stack.adapter().running());
    stack.miniport.hooks.set_power_state = nullptr;
  });
}

// A success that is not STATUS_SUCCESS is a success.
TEST_F(PowerTest, EverySuccessCodeCounts) {
  DXGKIT_COVERS("PWR-02");
  running([](Stack& stack) {
    stack.miniport.hooks.set_power_state = [](ULONG, DEVICE_POWER_STATE, POWER_ACTION) {
      return nt_status(Status::kPending);
    };
    go(stack, PowerTarget::kStandby);
    go(stack, PowerTarget::kD0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    stack.miniport.hooks.set_power_state = nullptr;
  });
}

// The capability that switches self-refresh off in S3 makes standby forget, and nothing else.
TEST_F(PowerTest, NoSelfRefreshInStandbyPurges) {
  DXGKIT_COVERS("PWR-11");
  for (const bool disabled : {false, true}) {
    running(
        [&](Stack& stack) {
          PagingGpu gpu(stack.miniport, stack.machine);
          ListingClient client(stack);
          ContextBuffers context = client.make_context();
          Tagged one(stack, gpu, client, 64 * kKibibyte, kHidden);
          EXPECT_TRUE(is_success(from_ntstatus(client.make_resident({one.handle()}))));
          stack.drive();
          one.write(context, 1);
          go(stack, PowerTarget::kStandby);
          EXPECT_EQ(one.placement().segment == SegmentId{2}, !disabled);
          go(stack, PowerTarget::kD0);
          one.use(context);
          go(stack, PowerTarget::kHibernate);
          EXPECT_EQ(one.placement().segment, SegmentId{2}) << "hibernation has its own bit";
          go(stack, PowerTarget::kD0);
        },
        [&](ScriptedMiniport& miniport) {
          miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_4;
          preserve(miniport, 1, {true, true});
          miniport.config.caps = [disabled](DXGK_DRIVERCAPS& caps) {
            caps.MemoryManagementCaps.DisableSelfRefreshVRAMInS3 = disabled ? 1 : 0;
          };
        });
  }
}

// Caps may be asked beside SetPowerState, and while the adapter sleeps; it is not woken for it.
TEST_F(PowerTest, AQueryRunsBesideATransition) {
  DXGKIT_COVERS("PWR-15");
  running([](Stack& stack) {
    Status inside = Status::kUnsuccessful;
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE, POWER_ACTION) {
      const auto thread = runtime::Runtime::current().spawn("asks", [&] {
        const auto caps = stack.adapter().port().query_driver_caps();
        inside = caps.has_value() ? Status::kSuccess : caps.error();
      });
      thread->join();
      return nt_status(Status::kSuccess);
    };
    go(stack, PowerTarget::kStandby);
    EXPECT_EQ(inside, Status::kSuccess);
    stack.miniport.clear_calls();
    EXPECT_TRUE(stack.adapter().port().query_driver_caps().has_value());
    EXPECT_EQ(stack.miniport.calls().order, std::vector<std::string>{"DxgkDdiQueryAdapterInfo"});
    go(stack, PowerTarget::kD0);
    stack.miniport.hooks.set_power_state = nullptr;
  });
}

// Paging buffers in the aperture leave it last and are back first, before anything that needs them.
TEST_F(PowerTest, PagingBuffersComeBackFirst) {
  DXGKIT_COVERS("PWR-10");
  running(
      [](Stack& stack) {
        {
          Client client(stack);
          ContextBuffers context = client.make_context();
          const D3DKMT_HANDLE allocation = client.make_allocation(64 * kKibibyte, kHidden);
          ASSERT_EQ(client.render(context, work_on({allocation})), 0);
          stack.drive();
          go(stack, PowerTarget::kHibernate);
          ASSERT_EQ(stack.adapter().memory().usage(SegmentId{3}).allocations, 0U);
          ASSERT_EQ(client.process == nullptr, false);
          stack.miniport.clear_calls();
          go(stack, PowerTarget::kD0);
          const ScriptedCalls calls = stack.miniport.calls();
          EXPECT_EQ(calls.order.front(), "DxgkDdiSetPowerState");
          ASSERT_EQ(calls.paging.size(), 4U);
          for (const testing::PagingCall& call : calls.paging)
            EXPECT_EQ(call.args.Operation, DXGK_OPERATION_MAP_APERTURE_SEGMENT);
          stack.miniport.clear_calls();
          ASSERT_EQ(client.render(context, work_on({allocation})), 0);
          stack.drive();
          ASSERT_FALSE(stack.miniport.calls().submits.empty());
          EXPECT_EQ(stack.miniport.calls().submits[0].args.DmaBufferSegmentId, 3U)
              << "paging from the aperture again";
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) { miniport.config.paging_buffer_segment = 3; });
}

// An allocation of a memory segment that a CPU has locked leaves too; the address shows its content
// all the time, and it is back before anything runs.
TEST_F(PowerTest, ALockedAllocationLeavesAndComesBackUnderItsAddress) {
  DXGKIT_COVERS("PWR-05", "PWR-10");
  running([](Stack& stack) {
    {
      Client client(stack);
      ContextBuffers context = client.make_context();
      ScriptedAllocation description;
      description.size = 64 * kKibibyte;
      description.supported_read = description.supported_write = kVisible;
      description.flags = 1;  // CpuVisible
      const D3DKMT_HANDLE allocation = client.make_allocation(description);
      ASSERT_EQ(client.render(context, work_on({allocation})), 0);
      stack.drive();
      void* address = nullptr;
      ASSERT_EQ(client.lock(allocation, &address), 0);
      // The transfer of this test's hardware: what the CPU wrote through the window.
      static_cast<std::byte*>(address)[5] = std::byte{0x77};
      stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
        if (args->Operation == DXGK_OPERATION_TRANSFER) {
          const bool out = args->Transfer.Destination.SegmentId == 0;
          const std::vector<testing::PagingCall> calls = stack.miniport.calls().paging;
          const testing::PagingCall& call = calls.back();
          const auto where =
              static_cast<uint64_t>(out ? args->Transfer.Source.SegmentAddress.QuadPart
                                        : args->Transfer.Destination.SegmentAddress.QuadPart);
          void* window = stack.machine.map_io(
              bus::PhysicalAddress{stack.miniport.function().bars()[1].base.value + where -
                                   stack.miniport.config.segments[0].base_address},
              args->Transfer.TransferSize);
          for (uint64_t i = 0; i < args->Transfer.TransferSize / 4096; ++i) {
            std::byte* video = static_cast<std::byte*>(window) + i * 4096;
            std::byte* page = stack.machine.system_pointer(
                bus::PhysicalAddress{(out ? call.destination_pages : call.source_pages).at(i) *
                                     4096},
                4096);
            std::memcpy(out ? page : video, out ? video : page, 4096);
            if (out) std::memset(video, 0xEE, 4096);  // power goes
          }
          stack.machine.unmap_io(window, args->Transfer.TransferSize);
        }
        return stack.miniport.default_build_paging(args);
      };
      go(stack, PowerTarget::kStandby);
      EXPECT_EQ(static_cast<std::byte*>(address)[5], std::byte{0x77});
      static_cast<std::byte*>(address)[6] = std::byte{0x78};
      stack.miniport.clear_calls();
      go(stack, PowerTarget::kD0);
      EXPECT_EQ(stack.miniport.calls().paging.size(), 1U) << "back before anything ran";
      EXPECT_EQ(static_cast<std::byte*>(address)[5], std::byte{0x77});
      EXPECT_EQ(static_cast<std::byte*>(address)[6], std::byte{0x78});
      ASSERT_EQ(client.render(context, work_on({allocation})), 0);
      EXPECT_GT(stack.drive(), 0U) << "the lock holds up nobody";
      EXPECT_EQ(client.unlock(allocation), 0);
      stack.miniport.hooks.build_paging = nullptr;
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Explicit residency: what a device lists leaves with everything else, and is back before its next
// work runs.
TEST_F(PowerTest, ListsComeBackBeforeTheirWorkRuns) {
  DXGKIT_COVERS("PWR-10");
  running(
      [](Stack& stack) {
        PagingGpu gpu(stack.miniport, stack.machine);
        {
          ListingClient client(stack);
          ContextBuffers context = client.make_context();
          Tagged one(stack, gpu, client, 64 * kKibibyte, kHidden);
          Tagged other(stack, gpu, client, 64 * kKibibyte, kHidden);
          ASSERT_TRUE(
              is_success(from_ntstatus(client.make_resident({one.handle(), other.handle()}))));
          stack.drive();
          one.write(context, 100);
          other.write(context, 200);
          EXPECT_EQ(go(stack, PowerTarget::kHibernate).kept, 0U);
          gpu.lose_power({0, 0, 0});
          go(stack, PowerTarget::kD0);
          one.use(context);
          EXPECT_TRUE(one.intact());
          EXPECT_TRUE(other.intact());
          EXPECT_EQ(other.placement().segment, SegmentId{2}) << "the whole list is there";
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      });
}

// An adapter that sleeps is woken before it is stopped; whoever waited at the gate is told.
TEST_F(PowerTest, StoppingWakesFirst) {
  DXGKIT_COVERS("LIFE-18");
  running([](Stack& stack) {
    const auto told = listen(stack);
    Client client(stack);
    go(stack, PowerTarget::kHibernate);
    NTSTATUS answer = 0;
    Stack::Background calling(stack, [&] {
      D3DKMT_HANDLE handle = 0;
      answer = client.create_allocation({}, &handle);
    });
    EXPECT_FALSE(calling.finished());
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    calling.finish();
    EXPECT_EQ(answer, nt_status(Status::kDeviceRemoved));
    ASSERT_EQ(told->size(), 2U);
    EXPECT_EQ(told->back().state, PowerDeviceD0);
    EXPECT_EQ(stack.miniport.calls().order.back(), "DxgkDdiRemoveDevice");
    stack.miniport.hooks.set_power_state = nullptr;
  });
}

// --- power components

/// Two engines and their memory; the copy engine's provider is component 3.
void describe_components(ScriptedMiniport& miniport, bool driver_completes) {
  miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportRuntimePowerManagement = TRUE; };
  miniport.hooks.query_adapter_info = [&miniport,
                                       driver_completes](const DXGKARG_QUERYADAPTERINFO* args) {
    if (args->Type == DXGKQAITYPE_NUMPOWERCOMPONENTS) {
      *static_cast<UINT*>(args->pOutputData) = 4;
      return nt_status(Status::kSuccess);
    }
    if (args->Type != DXGKQAITYPE_POWERCOMPONENTINFO)
      return miniport.default_query_adapter_info(args);
    const UINT index = *static_cast<UINT*>(args->pInputData);
    auto* out = static_cast<DXGK_POWER_RUNTIME_COMPONENT*>(args->pOutputData);
    out->StateCount = index == 2 ? 2 : 3;
    out->Flags.DriverCompletesFStateTransition = driver_completes ? 1 : 0;
    out->Flags.TransitionTo_F0_OnDx = index == 0 ? 1 : 0;
    out->ComponentMapping.ComponentType = index < 2    ? DXGK_POWER_COMPONENT_ENGINE
                                          : index == 2 ? DXGK_POWER_COMPONENT_MEMORY
                                                       : DXGK_POWER_COMPONENT_OTHER;
    out->ComponentMapping.EngineDesc.NodeIndex = index;
    if (index == 1) {
      out->ProviderCount = 1;
      out->Providers[0] = 3;
    }
    return nt_status(Status::kSuccess);
  };
}

struct Transition {
  UINT component = 0, f_state = 0;
  bool operator==(const Transition&) const = default;
};

// Engines rest while their nodes have no work and are up before the driver is asked to work; memory
// with any of them; a provider before whom it provides for.
TEST_F(PowerTest, ComponentsAreActiveWhileTheirEnginesHaveWork) {
  DXGKIT_COVERS("PWR-12", "PWR-14");
  for (const bool driver_completes : {false, true}) {
    std::vector<Transition> made;
    std::vector<bool> up(4, true);
    bool worked_asleep = false;
    running(
        [&](Stack& stack) {
          stack.settle();
          for (UINT i = 0; i < 4; ++i) EXPECT_FALSE(up[i]) << i << " rests after the start";
          {
            Client client(stack);
            ContextBuffers context = client.make_context(0);
            const D3DKMT_HANDLE allocation = client.make_allocation(64 * kKibibyte, kHidden);
            stack.miniport.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND* args) {
              worked_asleep = worked_asleep || !up[args->NodeOrdinal] || !up[2];
              return stack.miniport.default_submit(args);
            };
            made.clear();
            ASSERT_EQ(client.render(context, work_on({allocation})), 0);
            stack.settle();
            EXPECT_TRUE(up[1]) << "the copy engine pages in";
            EXPECT_TRUE(up[3]) << "and needs its provider";
            stack.drive();
            EXPECT_EQ(client.wait_for_idle(), 0);
            stack.settle();
            for (UINT i = 0; i < 4; ++i) EXPECT_FALSE(up[i]) << i;
            const auto first = [&](Transition one) { return std::ranges::find(made, one); };
            EXPECT_LT(first({3, 0}), first({1, 0}));
            EXPECT_NE(first({0, 0}), made.end());
            EXPECT_NE(first({0, 2}), made.end()) << "the deepest state";
            EXPECT_NE(first({2, 1}), made.end());
            EXPECT_LT(first({1, 2}), first({3, 2}));
            stack.miniport.hooks.submit = nullptr;
          }
          EXPECT_FALSE(worked_asleep);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          stack.blocking([&] { static_cast<void>(stack.system->stop_adapter(stack.luid)); });
          stack.miniport.hooks = {};
        },
        [&](ScriptedMiniport& miniport) {
          describe_components(miniport, driver_completes);
          miniport.hooks.set_power_component_f_state = [&, driver_completes](UINT component,
                                                                             UINT f_state) {
            made.push_back({component, f_state});
            up[component] = f_state == 0;
            if (driver_completes) {
              miniport.callbacks().DxgkCbCompleteFStateTransition(miniport.callbacks().DeviceHandle,
                                                                  component);
            }
            return nt_status(Status::kSuccess);
          };
        });
  }
}

// Without the capability nobody asks for components or moves one.
TEST_F(PowerTest, WithoutTheCapabilityThereAreNoComponents) {
  DXGKIT_COVERS("PWR-12");
  running([](Stack& stack) {
    EXPECT_EQ(stack.miniport.count("DxgkDdiSetPowerComponentFState"), 0U);
    for (const testing::QueryCall& query : stack.miniport.calls().queries) {
      EXPECT_NE(query.args.Type, DXGKQAITYPE_NUMPOWERCOMPONENTS);
      EXPECT_NE(query.args.Type, DXGKQAITYPE_POWERCOMPONENTINFO);
    }
  });
}

// What the driver calls back for components: active holds one up, idle lets it go; an index it
// never reported, a completion nobody waits for, and activating inside a transition are violations.
TEST_F(PowerTest, CallbacksForComponentsAreChecked) {
  DXGKIT_COVERS("PWR-12", "PWR-13");
  std::vector<bool> up(4, true);
  bool activate_inside = false;
  running(
      [&](Stack& stack) {
        const DXGKRNL_INTERFACE& dxgk = stack.miniport.callbacks();
        const HANDLE device = dxgk.DeviceHandle;
        stack.settle();
        EXPECT_FALSE(up[3]);
        const auto inside_a_ddi = [&](const std::function<void()>& body) {
          stack.miniport.hooks.query_current_fence = [&](DXGKARG_QUERYCURRENTFENCE* args) {
            body();
            return stack.miniport.default_query_current_fence(args);
          };
          stack.adapter().lane().run([&] {
            static_cast<void>(stack.adapter().port().query_current_fence(NodeOrdinal{0}));
          });
          stack.miniport.hooks.query_current_fence = nullptr;
          stack.settle();
        };
        inside_a_ddi([&] { dxgk.DxgkCbSetPowerComponentActive(device, 3); });
        EXPECT_TRUE(up[3]);
        inside_a_ddi([&] { dxgk.DxgkCbSetPowerComponentIdle(device, 3); });
        EXPECT_FALSE(up[3]);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        inside_a_ddi([&] { dxgk.DxgkCbSetPowerComponentActive(device, 4); });
        EXPECT_EQ(stack.only_finding().rule, "PWR-12");
        inside_a_ddi([&] { dxgk.DxgkCbCompleteFStateTransition(device, 3); });
        EXPECT_EQ(stack.findings.count("PWR-12"), 2U);
        activate_inside = true;
        inside_a_ddi([&] { dxgk.DxgkCbSetPowerComponentActive(device, 3); });
        EXPECT_EQ(stack.findings.count("PWR-13"), 1U);
        EXPECT_TRUE(stack.adapter().running());
        stack.blocking([&] { static_cast<void>(stack.system->stop_adapter(stack.luid)); });
        stack.miniport.hooks = {};
      },
      [&](ScriptedMiniport& miniport) {
        describe_components(miniport, false);
        miniport.hooks.set_power_component_f_state = [&](UINT component, UINT f_state) {
          up[component] = f_state == 0;
          if (std::exchange(activate_inside, false)) {
            miniport.callbacks().DxgkCbSetPowerComponentActive(miniport.callbacks().DeviceHandle,
                                                               component);
          }
          return nt_status(Status::kSuccess);
        };
      });
}

// Around device states a component that asks for it is in F0, the others rest, and none moves while
// the device is off.
TEST_F(PowerTest, DeviceStatesTakeComponentsAlong) {
  DXGKIT_COVERS("PWR-12");
  std::vector<bool> up(4, true);
  bool off = false, moved_off = false;
  running(
      [&](Stack& stack) {
        std::vector<bool> seen;
        stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
          if (state != PowerDeviceD0) seen = up;
          off = state != PowerDeviceD0;
          return nt_status(Status::kSuccess);
        };
        go(stack, PowerTarget::kStandby);
        EXPECT_EQ(seen, (std::vector<bool>{true, false, false, false}));
        stack.settle();
        go(stack, PowerTarget::kD0);
        stack.settle();
        EXPECT_EQ(up, (std::vector<bool>{false, false, false, false}));
        EXPECT_FALSE(moved_off);
        stack.blocking([&] { static_cast<void>(stack.system->stop_adapter(stack.luid)); });
        stack.miniport.hooks = {};
      },
      [&](ScriptedMiniport& miniport) {
        describe_components(miniport, false);
        miniport.hooks.set_power_component_f_state = [&](UINT component, UINT f_state) {
          moved_off = moved_off || off;
          up[component] = f_state == 0;
          return nt_status(Status::kSuccess);
        };
      });
}

// --- surprise removal

void pull_out(Stack& stack) {
  stack.miniport.forget_outstanding();
  stack.machine.pull_out(stack.miniport.function());
}

// The driver is told at once, beside a DDI that is still running; clients get an error, software is
// cleaned up in the order of a stop, and nothing is leaked.
TEST_F(PowerTest, SurpriseRemovalTellsTheDriverAndCleansUpInSoftware) {
  DXGKIT_COVERS("LIFE-21", "LIFE-18");
  running(
      [](Stack& stack) {
        PagingGpu gpu(stack.miniport, stack.machine);
        ListingClient client(stack);
        ContextBuffers context = client.make_context();
        Tagged one(stack, gpu, client, 64 * kKibibyte, kHidden);
        ASSERT_TRUE(is_success(from_ntstatus(client.make_resident({one.handle()}))));
        stack.drive();
        one.write(context, 1);
        ASSERT_EQ(client.render(context, work_on({one.handle()})), 0);
        stack.settle();
        ASSERT_FALSE(stack.miniport.outstanding(0).empty());
        std::optional<DXGK_SURPRISE_REMOVAL_TYPE> type;
        bool inside = false, beside = false;
        stack.miniport.hooks.notify_surprise_removal = [&](DXGK_SURPRISE_REMOVAL_TYPE given) {
          type = given;
          beside = inside;
          return nt_status(Status::kSuccess);
        };
        stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
          inside = true;
          runtime::Runtime::current().sleep_for(runtime::kMillisecond);
          inside = false;
          return nt_status(Status::kSuccess);
        };
        stack.miniport.clear_calls();
        Stack::Background escaping(stack, [&] {
          uint32_t data = 0;
          D3DKMT_ESCAPE escape{};
          escape.hAdapter = client.adapter;
          escape.hDevice = client.device;
          escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
          escape.pPrivateDriverData = &data;
          escape.PrivateDriverDataSize = sizeof(data);
          client.call([&] { return D3DKMTEscape(&escape); });
        });
        EXPECT_FALSE(escaping.finished(2));
        pull_out(stack);
        stack.blocking(
            [&] { EXPECT_EQ(stack.system->remove_adapter(stack.luid), Status::kSuccess); });
        escaping.finish();
        ASSERT_TRUE(type.has_value());
        EXPECT_EQ(*type, DxgkRemovalPnPNotify);
        EXPECT_TRUE(beside);
        const std::vector<std::string> order = stack.miniport.calls().order;
        EXPECT_EQ(order.back(), "DxgkDdiRemoveDevice");
        EXPECT_EQ(stack.miniport.count("DxgkDdiStopDevice"), 1U);
        const auto told = std::ranges::find(order, "DxgkDdiNotifySurpriseRemoval");
        EXPECT_EQ(std::find(told, order.end(), "DxgkDdiBuildPagingBuffer"), order.end());
        EXPECT_EQ(std::find(told, order.end(), "DxgkDdiSubmitCommand"), order.end());
        EXPECT_NE(std::find(told, order.end(), "DxgkDdiDestroyAllocation"), order.end());
        EXPECT_EQ(client.render(context, work_on({one.handle()})),
                  nt_status(Status::kDeviceRemoved));
        EXPECT_EQ(client.wait_for_idle(), nt_status(Status::kDeviceRemoved));
        EXPECT_EQ(stack.miniport.live_objects(), 0U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        EXPECT_EQ(stack.system->set_power(stack.luid, PowerTarget::kD0).error(),
                  Status::kInvalidParameter);
        stack.miniport.hooks = {};
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportSurpriseRemoval = TRUE; };
      });
}

// Pulled out asleep: seen on the way up; the driver hears the other type, and no D0.
TEST_F(PowerTest, RemovalInHibernationIsSeenOnTheWayUp) {
  DXGKIT_COVERS("LIFE-21");
  running(
      [](Stack& stack) {
        const auto told = listen(stack);
        std::optional<DXGK_SURPRISE_REMOVAL_TYPE> type;
        stack.miniport.hooks.notify_surprise_removal = [&](DXGK_SURPRISE_REMOVAL_TYPE given) {
          type = given;
          return nt_status(Status::kSuccess);
        };
        Client client(stack);
        go(stack, PowerTarget::kHibernate);
        pull_out(stack);
        go(stack, PowerTarget::kD0, Status::kDeviceRemoved);
        stack.blocking(
            [&] { EXPECT_EQ(stack.system->remove_adapter(stack.luid), Status::kSuccess); });
        ASSERT_TRUE(type.has_value());
        EXPECT_EQ(*type, DxgkRemovalHibernation);
        ASSERT_EQ(told->size(), 1U) << "no way to D0";
        EXPECT_EQ(stack.miniport.calls().order.back(), "DxgkDdiRemoveDevice");
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        stack.miniport.hooks = {};
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.caps = [](DXGK_DRIVERCAPS& caps) {
          caps.SupportSurpriseRemovalInHibernation = TRUE;
        };
      });
}

// A driver that does not support it is not called, and is stopped all the same; one that fails too.
TEST_F(PowerTest, WithoutSupportTheDriverIsStoppedUntold) {
  DXGKIT_COVERS("LIFE-21");
  for (const bool fails : {false, true}) {
    running(
        [&](Stack& stack) {
          stack.miniport.hooks.notify_surprise_removal = [](DXGK_SURPRISE_REMOVAL_TYPE) {
            return nt_status(Status::kUnsuccessful);
          };
          pull_out(stack);
          stack.blocking(
              [&] { EXPECT_EQ(stack.system->remove_adapter(stack.luid), Status::kSuccess); });
          EXPECT_EQ(stack.miniport.count("DxgkDdiNotifySurpriseRemoval"), fails ? 1U : 0U);
          EXPECT_EQ(stack.only_finding().rule, "LIFE-21");
          EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kWarning);
          EXPECT_EQ(stack.miniport.calls().order.back(), "DxgkDdiRemoveDevice");
          stack.miniport.hooks = {};
        },
        [&](ScriptedMiniport& miniport) {
          miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
          miniport.config.caps = [fails](DXGK_DRIVERCAPS& caps) {
            caps.SupportSurpriseRemoval = fails ? TRUE : FALSE;
          };
        });
  }
}

// Registers of a function that was pulled out read all ones; a driver that still asks them after
// the notice is told, by DDI.
TEST_F(PowerTest, AccessesAfterTheNoticeAreViolations) {
  DXGKIT_COVERS("LIFE-22");
  running(
      [](Stack& stack) {
        void* registers = stack.machine.map_io(stack.miniport.function().bars()[0].base, 4096);
        ASSERT_NE(registers, nullptr);
        uint64_t value = 0;
        stack.miniport.hooks.notify_surprise_removal = [&](DXGK_SURPRISE_REMOVAL_TYPE) {
          static_cast<void>(stack.machine.read_register(registers, 4));  // did not know yet
          return nt_status(Status::kSuccess);
        };
        stack.miniport.hooks.stop_device = [&] {
          value = stack.machine.read_register(registers, 4);
          stack.machine.write_register(registers, 4, 1);
          return nt_status(Status::kSuccess);
        };
        pull_out(stack);
        stack.blocking(
            [&] { EXPECT_EQ(stack.system->remove_adapter(stack.luid), Status::kSuccess); });
        EXPECT_EQ(value, 0xFFFFFFFFU);
        EXPECT_EQ(stack.only_finding().rule, "LIFE-22");
        EXPECT_EQ(stack.only_finding().ddi, "DxgkDdiStopDevice");
        EXPECT_TRUE(stack.only_finding().actual.starts_with("2 "));
        EXPECT_TRUE(stack.machine.unmap_io(registers, 4096));
        stack.miniport.hooks = {};
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportSurpriseRemoval = TRUE; };
      });
}

}  // namespace
}  // namespace dxgkit::contract
