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

// The function's power goes when the driver has been told, and is back before it is told again.
TEST_F(PowerTest, TheFunctionsPowerGoesLastAndComesFirst) {
  DXGKIT_COVERS("PWR-01");
  struct Row {
    PowerTarget target;
    bus::FunctionPower left;
  };
  for (const Row& row : {Row{PowerTarget::kD3, bus::FunctionPower::kStandby},
                         Row{PowerTarget::kStandby, bus::FunctionPower::kStandby},
                         Row{PowerTarget::kHibernate, bus::FunctionPower::kHibernate}}) {
    SCOPED_TRACE(static_cast<int>(row.target));
    std::vector<bus::FunctionPower> changes;
    std::vector<size_t> told;  // changes before each of the driver's calls
    running(
        [&](Stack& stack) {
          stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE, POWER_ACTION) {
            told.push_back(changes.size());
            return STATUS_SUCCESS;
          };
          changes.clear();
          go(stack, row.target);
          EXPECT_THAT(told, ::testing::ElementsAre(0U));
          EXPECT_THAT(changes, ::testing::ElementsAre(row.left));
          go(stack, PowerTarget::kD0);
          EXPECT_THAT(told, ::testing::ElementsAre(0U, 2U));
          EXPECT_THAT(changes, ::testing::ElementsAre(row.left, bus::FunctionPower::kOn));
          stack.miniport.hooks.set_power_state = nullptr;
        },
        [&](ScriptedMiniport& miniport) {
          miniport.function().on_power([&](bus::FunctionPower power) { changes.push_back(power); });
        });
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
      EXPECT_LT(stack.adapter().core().scheduler().packets_of(ContextId{2}), kQueued);
      EXPECT_GT(stack.adapter().core().scheduler().packets_of(ContextId{2}), 0U);
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
    EXPECT_TRUE(stack.adapter().core().running());
    stack.miniport.hooks.set_power_state = nullptr;
  });
}

// An adapter that fails on the way up is gone, and says so.
TEST_F(PowerTest, AFailureOnTheWayUpIsNoSuccess) {
  DXGKIT_COVERS("LIFE-18", "PWR-02");
  running([](Stack& stack) {
    go(stack, PowerTarget::kStandby);
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE, POWER_ACTION) {
      stack.adapter().core().fail(verifier::Finding{.rule = "LIFE-18",
                                                    .severity = verifier::Severity::kBugCheck,
                                                    .ddi = "DxgkDdiSetPowerState",
                                                    .actual = "It fails.",
                                                    .expected = "It does not.",
                                                    .fix = "None."});
      return nt_status(Status::kSuccess);
    };
    go(stack, PowerTarget::kD0, Status::kDeviceRemoved);
    stack.miniport.hooks.set_power_state = nullptr;
    EXPECT_FALSE(stack.adapter().core().running());
    EXPECT_EQ(stack.rules().size(), 1U);
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
        const auto caps = stack.adapter().core().port().caps().query_driver_caps();
        inside = caps.has_value() ? Status::kSuccess : caps.error();
      });
      thread->join();
      return nt_status(Status::kSuccess);
    };
    go(stack, PowerTarget::kStandby);
    EXPECT_EQ(inside, Status::kSuccess);
    stack.miniport.clear_calls();
    EXPECT_TRUE(stack.adapter().core().port().caps().query_driver_caps().has_value());
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
          ASSERT_EQ(stack.adapter().core().memory().usage(SegmentId{3}).allocations, 0U);
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

// In an aperture that keeps what it maps they stay, and nothing is built for that.
TEST_F(PowerTest, PagingBuffersStayInAnApertureThatIsKept) {
  DXGKIT_COVERS("PWR-08", "PWR-10");
  running(
      [](Stack& stack) {
        const size_t buffers = stack.adapter().core().memory().usage(SegmentId{3}).allocations;
        ASSERT_EQ(buffers, 4U);
        stack.miniport.clear_calls();
        go(stack, PowerTarget::kStandby);
        EXPECT_EQ(stack.adapter().core().memory().usage(SegmentId{3}).allocations, buffers);
        go(stack, PowerTarget::kD0);
        EXPECT_TRUE(stack.miniport.calls().paging.empty());
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.paging_buffer_segment = 3;
        preserve(miniport, 2, {.standby = true});
      });
}

// When power fails instead, those of an aperture that forgets are mapped once more.
TEST_F(PowerTest, PagingBuffersComeBackAfterPowerFailed) {
  DXGKIT_COVERS("PWR-08", "PWR-10");
  for (const bool kept : {false, true}) {
    SCOPED_TRACE(kept);
    running(
        [&](Stack& stack) {
          stack.miniport.clear_calls();
          stack.blocking([&] {
            EXPECT_EQ(stack.system->power_failed(stack.luid, PowerTarget::kStandby),
                      Status::kSuccess);
          });
          EXPECT_EQ(stack.adapter().core().memory().usage(SegmentId{3}).allocations,
                    kept ? 4U : 0U);
          go(stack, PowerTarget::kD0);
          EXPECT_EQ(stack.adapter().core().memory().usage(SegmentId{3}).allocations, 4U);
          const ScriptedCalls calls = stack.miniport.calls();
          ASSERT_EQ(calls.paging.size(), kept ? 0U : 4U);
          for (const testing::PagingCall& call : calls.paging)
            EXPECT_EQ(call.args.Operation, DXGK_OPERATION_MAP_APERTURE_SEGMENT);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](ScriptedMiniport& miniport) {
          miniport.config.paging_buffer_segment = 3;
          preserve(miniport, 2, {.standby = kept});
        });
  }
}

// What is listed and has its content in system memory is mapped once more before its work runs.
TEST_F(PowerTest, ListsComeBackAfterPowerFailed) {
  DXGKIT_COVERS("PWR-10");
  running(
      [](Stack& stack) {
        PagingGpu gpu(stack.miniport, stack.machine);
        {
          ListingClient client(stack);
          ContextBuffers context = client.make_context();
          Tagged one(stack, gpu, client, 64 * kKibibyte, kAperture);
          ASSERT_TRUE(is_success(from_ntstatus(client.make_resident({one.handle()}))));
          stack.drive();
          one.write(context, 100);
          stack.blocking([&] {
            EXPECT_EQ(stack.system->power_failed(stack.luid, PowerTarget::kHibernate),
                      Status::kSuccess);
          });
          gpu.lose_power({0, 0, 0});
          EXPECT_EQ(one.placement().segment, kSystemMemory);
          go(stack, PowerTarget::kD0);
          EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
          one.use(context);
          EXPECT_EQ(one.placement().segment, SegmentId{3});
          EXPECT_TRUE(one.intact());
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      });
}

// The driver fails while they leave: nothing else is moved on hardware that is given up.
TEST_F(PowerTest, AFailureWhilePagingBuffersLeaveEndsTheTransition) {
  DXGKIT_COVERS("PWR-05");
  running(
      [](Stack& stack) {
        {
          Client client(stack);
          ContextBuffers context = client.make_context();
          const D3DKMT_HANDLE allocation = client.make_allocation(64 * kKibibyte, kHidden);
          ASSERT_EQ(client.render(context, work_on({allocation})), 0);
          stack.drive();
          const uint64_t evictions = stack.statistics().evictions;
          stack.miniport.hooks.build_paging = [](DXGKARG_BUILDPAGINGBUFFER* args) {
            return args->Operation == DXGK_OPERATION_UNMAP_APERTURE_SEGMENT
                       ? nt_status(Status::kUnsuccessful)
                       : nt_status(Status::kSuccess);
          };
          stack.blocking([&] {
            EXPECT_FALSE(stack.system->set_power(stack.luid, PowerTarget::kHibernate).has_value());
          });
          stack.miniport.hooks.build_paging = nullptr;
          EXPECT_EQ(stack.miniport.count("DxgkDdiSetPowerState"), 0U);
          EXPECT_EQ(stack.adapter().core().memory().usage(SegmentId{2}).allocations, 1U);
          EXPECT_EQ(stack.statistics().evictions, evictions);
          EXPECT_EQ(client.render(context, work_on({allocation})),
                    nt_status(Status::kDeviceRemoved));
        }
        EXPECT_EQ(stack.rules().size(), 1U);
      },
      [](ScriptedMiniport& miniport) { miniport.config.paging_buffer_segment = 3; });
}

// Each transition tells what itself has lost.
TEST_F(PowerTest, WhatOneTransitionLostIsNotToldOfTheNext) {
  DXGKIT_COVERS("PWR-05");
  running([](Stack& stack) {
    {
      Client client(stack);
      ContextBuffers context = client.make_context();
      const D3DKMT_HANDLE allocation = client.make_allocation(64 * kKibibyte, kHidden);
      ASSERT_EQ(client.render(context, work_on({allocation})), 0);
      stack.drive();
      ASSERT_EQ(client.render(context, work_on({allocation})), 0);
      stack.settle();
      size_t lost = 0;
      {
        Stack::Background sleeping(stack, [&] {
          const auto outcome = stack.system->set_power(stack.luid, PowerTarget::kStandby);
          ASSERT_TRUE(outcome.has_value());
          lost = outcome->lost;
        });
        ASSERT_FALSE(sleeping.finished()) << "work is on hardware";
        stack.miniport.forget_outstanding();
        EXPECT_EQ(stack.system->power_failed(stack.luid, PowerTarget::kStandby), Status::kSuccess);
        sleeping.finish();
      }
      EXPECT_EQ(lost, 1U);
      go(stack, PowerTarget::kD0);
      stack.blocking([&] {
        const auto outcome = stack.system->set_power(stack.luid, PowerTarget::kStandby);
        ASSERT_TRUE(outcome.has_value());
        EXPECT_EQ(outcome->lost, 0U);
      });
      go(stack, PowerTarget::kD0);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
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

// It was where the CPU sees it because there was no room elsewhere. After a sleep there is, and it
// does not go where the CPU's address would show something else.
TEST_F(PowerTest, ALockedAllocationDoesNotComeBackWhereTheCpuCannotSeeIt) {
  DXGKIT_COVERS("PWR-05", "PWR-10", "ALLOC-40");
  running(
      [](Stack& stack) {
        {
          Client client(stack);
          ContextBuffers context = client.make_context();
          const D3DKMT_HANDLE fills = client.make_allocation(256 * kKibibyte, kHidden);
          ScriptedAllocation description;
          description.size = 64 * kKibibyte;
          description.supported_read = description.supported_write = kVisible | kHidden;
          description.preferred = 2;
          description.flags = 1;  // CpuVisible
          const D3DKMT_HANDLE allocation = client.make_allocation(description);
          ASSERT_EQ(client.render(context, work_on({fills, allocation})), 0);
          stack.drive();
          const auto placed = [&] {
            return (*client.process->handles().find<dxgk::OpenedAllocation>(allocation))
                ->allocation->id;
          };
          const auto segment = [&] {
            SegmentId found;
            stack.adapter().core().lane().run(
                [&] { found = stack.adapter().core().memory().placement(placed()).segment; });
            return found;
          };
          ASSERT_EQ(segment(), SegmentId{1});
          void* address = nullptr;
          ASSERT_EQ(client.lock(allocation, &address), 0);
          go(stack, PowerTarget::kStandby);
          ASSERT_EQ(segment(), kSystemMemory);
          go(stack, PowerTarget::kD0);
          EXPECT_NE(segment(), SegmentId{2}) << "the CPU has it locked, and does not see that";
          EXPECT_EQ(client.unlock(allocation), 0);
          ASSERT_EQ(client.render(context, work_on({allocation})), 0);
          stack.drive();
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = 256 * kKibibyte; });
}

// What is locked behind an aperture is in its pages all the time: nothing of it moves for the lock.
TEST_F(PowerTest, ALockedAllocationBehindAnApertureDoesNotComeBackForItsLock) {
  DXGKIT_COVERS("PWR-05", "PWR-10");
  running(
      [](Stack& stack) {
        {
          Client client(stack);
          ContextBuffers context = client.make_context();
          ScriptedAllocation description;
          description.size = 64 * kKibibyte;
          description.supported_read = description.supported_write = kAperture;
          description.flags = 1;  // CpuVisible
          const D3DKMT_HANDLE allocation = client.make_allocation(description);
          ASSERT_EQ(client.render(context, work_on({allocation})), 0);
          stack.drive();
          void* address = nullptr;
          ASSERT_EQ(client.lock(allocation, &address), 0);
          static_cast<std::byte*>(address)[5] = std::byte{0x77};
          go(stack, PowerTarget::kStandby);
          stack.miniport.clear_calls();
          go(stack, PowerTarget::kD0);
          EXPECT_TRUE(stack.miniport.calls().paging.empty());
          EXPECT_EQ(static_cast<std::byte*>(address)[5], std::byte{0x77});
          EXPECT_EQ(client.unlock(allocation), 0);
          EXPECT_EQ(client.unlock(allocation), kInvalid) << "it was locked once";
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[2].flags.CpuVisible = 1; });
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

}  // namespace
}  // namespace dxgkit::contract
