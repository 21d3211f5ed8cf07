// What the kernel counts, and what else clients ask it that is not about one structure.
#include <unistd.h>

#include <bit>
#include <cstring>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

constexpr NTSTATUS kInvalid = nt_status(Status::kInvalidParameter);
constexpr NTSTATUS kBadHandle = nt_status(Status::kInvalidHandle);
constexpr NTSTATUS kRefused = nt_status(Status::kNotSupported);
HANDLE own_process() { return reinterpret_cast<HANDLE>(static_cast<intptr_t>(-1)); }

class Statistics : public ContractTest {
 protected:
  static D3DKMT_QUERYSTATISTICS about(const Stack& stack, D3DKMT_QUERYSTATISTICS_TYPE type,
                                      ULONG which = 0) {
    D3DKMT_QUERYSTATISTICS args{};
    args.Type = type;
    args.AdapterLuid.LowPart = stack.luid.low;
    args.AdapterLuid.HighPart = stack.luid.high;
    args.hProcess = own_process();
    args.QuerySegment.SegmentId = which;
    return args;
  }
  static NTSTATUS ask(Client& client, D3DKMT_QUERYSTATISTICS* args) {
    return client.call([&] { return D3DKMTQueryStatistics(args); });
  }
  static D3DKMT_QUERYSTATISTICS_RESULT get(Client& client, D3DKMT_QUERYSTATISTICS_TYPE type,
                                           ULONG which = 0) {
    D3DKMT_QUERYSTATISTICS args = about(client.stack, type, which);
    EXPECT_EQ(ask(client, &args), 0) << type;
    return args.QueryResult;
  }
  /// Both packets of a node go through hardware, one after the other, for so long each.
  static void run(Stack& stack, Client& client, ContextBuffers& context, D3DKMT_HANDLE allocation,
                  runtime::DurationNs length) {
    ASSERT_EQ(client.render(context, work_on({allocation})), 0);
    stack.drive();
    ASSERT_EQ(client.render(context, work_on({allocation})), 0);
    stack.settle();
    runtime::Runtime::current().sleep_for(length);
    stack.drive();
  }
};

TEST_F(Statistics, NodesCountPacketsAndTheTimeOfTheirHardware) {
  DXGKIT_COVERS("THUNK-43");
  with_client([](Stack& stack, Client& client) {
    Client other(stack, "other");
    ContextBuffers context = client.make_context(0);
    const D3DKMT_HANDLE allocation = client.make_allocation();
    constexpr runtime::DurationNs kLength = 5'000'000;
    run(stack, client, context, allocation, kLength);
    const auto node = get(client, D3DKMT_QUERYSTATISTICS_NODE, 0).NodeInformation;
    const auto& render =
        node.GlobalInformation.PacketStatistics.DmaPacket[D3DKMT_ClientRenderBuffer];
    EXPECT_EQ(render.PacketSubmited, 2U);
    EXPECT_EQ(render.PacketCompleted, 2U);
    EXPECT_EQ(render.PacketPreempted, 0U);
    EXPECT_EQ(render.PacketFaulted, 0U);
    const auto& queue =
        node.GlobalInformation.PacketStatistics.QueuePacket[D3DKMT_RenderCommandBuffer];
    EXPECT_EQ(queue.PacketSubmited, 2U);
    EXPECT_EQ(queue.PacketCompleted, 2U);
    EXPECT_EQ(node.GlobalInformation.ContextSwitch, 1U);
    EXPECT_GE(node.GlobalInformation.RunningTime.QuadPart, kLength / 100);
    EXPECT_LT(node.GlobalInformation.RunningTime.QuadPart, 2 * kLength / 100);
    EXPECT_EQ(
        node.SystemInformation.PacketStatistics.DmaPacket[D3DKMT_ClientRenderBuffer].PacketSubmited,
        0U);
    const auto own = get(client, D3DKMT_QUERYSTATISTICS_PROCESS_NODE, 0).ProcessNodeInformation;
    EXPECT_EQ(own.PacketStatistics.DmaPacket[D3DKMT_ClientRenderBuffer].PacketCompleted, 2U);
    EXPECT_EQ(own.RunningTime.QuadPart, node.GlobalInformation.RunningTime.QuadPart);
    const auto theirs = get(other, D3DKMT_QUERYSTATISTICS_PROCESS_NODE, 0).ProcessNodeInformation;
    EXPECT_EQ(theirs.PacketStatistics.DmaPacket[D3DKMT_ClientRenderBuffer].PacketSubmited, 0U);
    EXPECT_EQ(theirs.RunningTime.QuadPart, 0);
    // Paging ran on node 1, for the system.
    const auto paging = get(client, D3DKMT_QUERYSTATISTICS_NODE, 1).NodeInformation;
    EXPECT_GT(paging.SystemInformation.PacketStatistics.DmaPacket[D3DKMT_SystemPagingBuffer]
                  .PacketCompleted,
              0U);
    EXPECT_EQ(std::memcmp(&paging.SystemInformation, &paging.GlobalInformation,
                          sizeof paging.GlobalInformation),
              0);
  });
}

TEST_F(Statistics, SegmentsAndProcessesAgreeOnMemory) {
  DXGKIT_COVERS("THUNK-43");
  with_client([](Stack& stack, Client& client) {
    Client other(stack, "other");
    const auto before = get(client, D3DKMT_QUERYSTATISTICS_SEGMENT, 1).SegmentInformation;
    ContextBuffers context = client.make_context(0);
    const D3DKMT_HANDLE allocation = client.make_allocation(3 * 4096, 1);  // segment 1 only
    ASSERT_EQ(client.render(context, work_on({allocation})), 0);
    stack.drive();
    const auto segment = get(client, D3DKMT_QUERYSTATISTICS_SEGMENT, 1).SegmentInformation;
    EXPECT_EQ(segment.BytesCommitted, before.BytesCommitted + 3 * 4096);
    EXPECT_EQ(segment.Memory.AllocsCommitted, before.Memory.AllocsCommitted + 1);
    EXPECT_EQ(segment.CommitLimit, stack.miniport.config.segments[0].size);
    EXPECT_EQ(segment.Aperture, 0U);
    const auto own =
        get(client, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, 1).ProcessSegmentInformation;
    EXPECT_EQ(own.BytesCommitted, 3U * 4096);
    EXPECT_EQ(own.VideoMemory.AllocsCommitted, 1U);
    EXPECT_EQ(get(other, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, 1)
                  .ProcessSegmentInformation.BytesCommitted,
              0U);
    const auto usage = get(client, D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE, 1U << 16);
    EXPECT_EQ(usage.SegmentUsageInformation.AllocatedBytes, segment.BytesCommitted);
    EXPECT_EQ(usage.SegmentUsageInformation.FreeBytes,
              segment.CommitLimit - segment.BytesCommitted);
    EXPECT_EQ(get(client, D3DKMT_QUERYSTATISTICS_SEGMENT, 3).SegmentInformation.Aperture, 1U);
    const auto adapter = get(client, D3DKMT_QUERYSTATISTICS_ADAPTER).AdapterInformation;
    EXPECT_EQ(adapter.NbSegments, 3U);
    EXPECT_EQ(adapter.NodeCount, 2U);
    EXPECT_EQ(adapter.VidPnSourceCount, 0U);
    EXPECT_EQ(adapter.TdrDetectedCount, 0U);
    const auto process = get(client, D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER);
    EXPECT_EQ(process.ProcessAdapterInformation.NodeCount, 2U);
    EXPECT_EQ(get(client, D3DKMT_QUERYSTATISTICS_PROCESS).ProcessInformation.NodeCount, 2U);
  });
}

// One is kept in standby, one in hibernation as well, and one nowhere.
TEST_F(Statistics, SegmentsSayWhatSleepLeavesThem) {
  DXGKIT_COVERS("THUNK-43");
  with_client(
      [](Stack&, Client& client) {
        for (ULONG id = 1; id <= 3; ++id) {
          SCOPED_TRACE(id);
          const auto flags =
              get(client, D3DKMT_QUERYSTATISTICS_SEGMENT, id).SegmentInformation.PowerFlags;
          EXPECT_EQ(flags.PreservedDuringStandby, id <= 2 ? 1U : 0U);
          EXPECT_EQ(flags.PreservedDuringHibernate, id == 2 ? 1U : 0U);
          EXPECT_EQ(flags.PartiallyPreservedDuringHibernate, 0U);
        }
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.segments[0].flags.PreservedDuringStandby = 1;
        miniport.config.segments[1].flags.PreservedDuringStandby = 1;
        miniport.config.segments[1].flags.PreservedDuringHibernate = 1;
      });
}

// The forms that name a physical adapter: there is one, and it answers what the others do.
TEST_F(Statistics, ThereIsOnePhysicalAdapter) {
  DXGKIT_COVERS("THUNK-43", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context(0);
    ASSERT_EQ(client.render(context, work_on({client.make_allocation(3 * 4096, 1)})), 0);
    stack.drive();
    for (const USHORT physical : {USHORT{0}, USHORT{1}}) {
      SCOPED_TRACE(physical);
      D3DKMT_QUERYSTATISTICS args = about(stack, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2);
      args.QueryProcessSegment2 = {};
      args.QueryProcessSegment2.PhysicalAdapterIndex = physical;
      args.QueryProcessSegment2.SegmentId = 1;
      EXPECT_EQ(ask(client, &args), physical == 0 ? 0 : kInvalid);
      EXPECT_EQ(args.QueryResult.ProcessSegmentInformation.BytesCommitted,
                physical == 0 ? 3U * 4096 : 0U);
      args = about(stack, D3DKMT_QUERYSTATISTICS_SEGMENT2);
      args.QuerySegment2 = {};
      args.QuerySegment2.PhysicalAdapterIndex = physical;
      args.QuerySegment2.SegmentId = 1;
      EXPECT_EQ(ask(client, &args), physical == 0 ? 0 : kInvalid);
      EXPECT_EQ(args.QueryResult.SegmentInformation.BytesCommitted, physical == 0 ? 3U * 4096 : 0U);
    }
  });
}

TEST_F(Statistics, RefusesWhatIsNotThere) {
  DXGKIT_COVERS("THUNK-43", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    struct Row {
      const char* what;
      D3DKMT_QUERYSTATISTICS_TYPE type;
      ULONG which;
      NTSTATUS status;
    };
    constexpr Row kRows[] = {
        {"segment 0", D3DKMT_QUERYSTATISTICS_SEGMENT, 0, kInvalid},
        {"a segment behind the last", D3DKMT_QUERYSTATISTICS_SEGMENT, 4, kInvalid},
        {"the same of a process", D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, 4, kInvalid},
        {"a node behind the last", D3DKMT_QUERYSTATISTICS_NODE, 2, kInvalid},
        {"the same of a process", D3DKMT_QUERYSTATISTICS_PROCESS_NODE, 2, kInvalid},
        {"a source of an adapter without", D3DKMT_QUERYSTATISTICS_VIDPNSOURCE, 0, kInvalid},
        {"a group behind the last", D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, 2, kInvalid},
        {"a second physical adapter", D3DKMT_QUERYSTATISTICS_NODE2, 1, kInvalid},
        {"a source's process", D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE, 0, kRefused},
        {"performance", D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER, 0, kRefused},
        {"no type", static_cast<D3DKMT_QUERYSTATISTICS_TYPE>(20), 0, kInvalid},
    };
    const Digest before = digest(stack, {&client});
    for (const Row& row : kRows) {
      SCOPED_TRACE(row.what);
      D3DKMT_QUERYSTATISTICS args = about(stack, row.type, row.which);
      std::memset(&args.QueryResult, 0xA5, sizeof args.QueryResult);
      const D3DKMT_QUERYSTATISTICS sent = args;
      EXPECT_EQ(ask(client, &args), row.status);
      EXPECT_EQ(std::memcmp(&args, &sent, sizeof args), 0);
    }
    D3DKMT_QUERYSTATISTICS args = about(stack, D3DKMT_QUERYSTATISTICS_PROCESS);
    args.hProcess = nullptr;
    EXPECT_EQ(ask(client, &args), kBadHandle);
    args = about(stack, D3DKMT_QUERYSTATISTICS_ADAPTER);
    args.AdapterLuid.LowPart += 7;
    EXPECT_EQ(ask(client, &args), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

NTSTATUS NTAPI calibrate(HANDLE, UINT32 node, UINT32 engine, DXGKARG_CALIBRATEGPUCLOCK* clock) {
  EXPECT_EQ(nt::CallFrame::current().irql(), nt::kDispatchLevel);
  EXPECT_EQ(engine, 0U);
  clock->GpuFrequency = 19'200'000;
  clock->GpuClockCounter = 1000 + node;
  clock->CpuClockCounter = 77;
  return node == 0 ? 0 : nt_status(Status::kInsufficientResources);
}

TEST_F(Statistics, TheDriverReadsItsClock) {
  DXGKIT_COVERS("THUNK-44", "THUNK-05");
  with_client(
      [](Stack& stack, Client& client) {
        D3DKMT_QUERYCLOCKCALIBRATION args{};
        args.hAdapter = client.adapter;
        const auto call = [&] {
          return client.call([&] { return D3DKMTQueryClockCalibration(&args); });
        };
        EXPECT_EQ(call(), 0);
        EXPECT_EQ(args.ClockData.GpuFrequency, 19'200'000U);
        EXPECT_EQ(args.ClockData.GpuClockCounter, 1000U);
        EXPECT_EQ(args.ClockData.CpuClockCounter, 77U);
        args.ClockData.GpuClockCounter = 5;
        args.NodeOrdinal = 1;
        EXPECT_EQ(call(), nt_status(Status::kInsufficientResources));
        EXPECT_EQ(args.ClockData.GpuClockCounter, 5U);
        const Digest before = digest(stack, {&client});
        args.NodeOrdinal = 2;
        EXPECT_EQ(call(), kInvalid);
        args.NodeOrdinal = 0;
        args.PhysicalAdapterIndex = 1;
        EXPECT_EQ(call(), kInvalid);
        EXPECT_EQ(digest(stack, {&client}), before);
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
          table.DxgkDdiCalibrateGpuClock = calibrate;
        };
      });
  with_client([](Stack&, Client& client) {
    D3DKMT_QUERYCLOCKCALIBRATION args{};
    args.hAdapter = client.adapter;
    EXPECT_EQ(client.call([&] { return D3DKMTQueryClockCalibration(&args); }), kRefused);
  });
}

TEST_F(Statistics, AMarkedDeviceIsInError) {
  DXGKIT_COVERS("THUNK-51", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    D3DKMT_MARKDEVICEASERROR args{};
    args.hDevice = client.device;
    const auto mark = [&](D3DKMT_DEVICE_ERROR_REASON reason) {
      args.Reason = reason;
      return client.call([&] { return D3DKMTMarkDeviceAsError(&args); });
    };
    const Digest before = digest(stack, {&client});
    for (const int bad : {0, 1, -1})
      EXPECT_EQ(mark(static_cast<D3DKMT_DEVICE_ERROR_REASON>(bad)), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE second = client.make_device();
    EXPECT_EQ(mark(D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR), 0);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
    ContextBuffers other;
    EXPECT_EQ(client.create_context(&other, 0, second), 0) << "another device of the process";
    EXPECT_EQ(mark(D3DKMT_DEVICE_ERROR_REASON_GENERIC), 0) << "once more";
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
  });
}

TEST_F(Statistics, SmallQuestionsHaveSmallAnswers) {
  DXGKIT_COVERS("THUNK-52", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const Digest before = digest(stack, {&client});
    D3DKMT_GETSHAREDRESOURCEADAPTERLUID luid{};
    const auto ask_luid = [&] {
      return client.call([&] { return D3DKMTGetSharedResourceAdapterLuid(&luid); });
    };
    EXPECT_EQ(ask_luid(), kInvalid) << "neither";
    luid.hGlobalShare = 2;
    EXPECT_EQ(ask_luid(), kInvalid) << "no such handle";
    luid.hNtHandle = own_process();
    EXPECT_EQ(ask_luid(), kInvalid) << "both";
    luid.hGlobalShare = 0;
    EXPECT_EQ(ask_luid(), kInvalid);
    EXPECT_EQ(luid.AdapterLuid.LowPart, 0U);

    D3DKMT_ISFEATUREENABLED feature{};
    feature.hAdapter = client.adapter;
    const auto ask_feature = [&](DXGK_FEATURE_ID id) {
      feature.FeatureId = id;
      EXPECT_EQ(client.call([&] { return D3DKMTIsFeatureEnabled(&feature); }), 0);
      return std::pair(feature.Result.KnownFeature != 0, feature.Result.Enabled != 0);
    };
    EXPECT_EQ(ask_feature(DXGK_FEATURE_HWSCH), std::pair(true, false));
    EXPECT_EQ(ask_feature(DXGK_FEATURE_HWFLIPQUEUE), std::pair(false, false));

    D3DKMT_TRIMPROCESSCOMMITMENT trim{};
    const auto ask_trim = [&] {
      return client.call([&] { return D3DKMTTrimProcessCommitment(&trim); });
    };
    EXPECT_EQ(ask_trim(), kInvalid) << "no size";
    trim.cbSize = sizeof trim;
    EXPECT_EQ(ask_trim(), kBadHandle) << "no process";
    trim.hProcess = own_process();
    trim.Flags.Reserved = 1;
    EXPECT_EQ(ask_trim(), kInvalid);
    trim.Flags.Reserved = 0;
    trim.NumBytesDecommitted = 5;
    EXPECT_EQ(ask_trim(), 0);
    EXPECT_EQ(trim.NumBytesDecommitted, 0U);
    D3DKMT_QUERYPROCESSOFFERINFO offers{};
    const auto ask_offers = [&] {
      return client.call([&] { return D3DKMTQueryProcessOfferInfo(&offers); });
    };
    offers.cbSize = sizeof offers;
    EXPECT_EQ(ask_offers(), kBadHandle);
    offers.hProcess = own_process();
    offers.cbSize = sizeof offers - 1;
    EXPECT_EQ(ask_offers(), kInvalid);
    offers.cbSize = sizeof offers;
    offers.DecommittableBytes = 5;
    EXPECT_EQ(ask_offers(), 0);
    EXPECT_EQ(offers.DecommittableBytes, 0U);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(Statistics, AFlushReturnsWhenPagingHasEnded) {
  DXGKIT_COVERS("THUNK-52");
  with_client([](Stack& stack, Client& client) {
    D3DKMT_FLUSHHEAPTRANSITIONS args{client.adapter};
    EXPECT_EQ(client.call([&] { return D3DKMTFlushHeapTransitions(&args); }), 0) << "none";
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE allocation = client.make_allocation();
    ASSERT_EQ(client.render(context, work_on({allocation})), 0);
    stack.settle();
    NTSTATUS status = -1;
    Stack::Background flush(
        stack, [&] { status = client.call([&] { return D3DKMTFlushHeapTransitions(&args); }); });
    EXPECT_FALSE(flush.finished()) << "the allocation is on its way in";
    flush.finish();
    EXPECT_EQ(status, 0);
  });
}

}  // namespace
}  // namespace dxgkit::contract
