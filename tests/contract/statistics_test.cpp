// What the kernel counts, and what else clients ask it that is not about one structure.
#include <unistd.h>

#include <bit>
#include <cstring>

#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

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

/// What the questions with an index of a physical adapter answer for the one there is.
TEST_F(Statistics, TheFirstPhysicalAdapterIsTheAdapter) {
  DXGKIT_COVERS("THUNK-43");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context(0);
    ASSERT_EQ(client.render(context, work_on({client.make_allocation(3 * 4096, 1)})), 0);
    stack.drive();
    struct Row {
      D3DKMT_QUERYSTATISTICS_TYPE old, indexed;
      ULONG which;  // of both: a segment or node, as the old one says it
    };
    constexpr Row kRows[] = {
        {D3DKMT_QUERYSTATISTICS_ADAPTER, D3DKMT_QUERYSTATISTICS_ADAPTER2, 0},
        {D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER, D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2, 0},
        {D3DKMT_QUERYSTATISTICS_SEGMENT, D3DKMT_QUERYSTATISTICS_SEGMENT2, 1},
        {D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2, 1},
        {D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP,
         D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2, 0},
        {D3DKMT_QUERYSTATISTICS_NODE, D3DKMT_QUERYSTATISTICS_NODE2, 1},
        {D3DKMT_QUERYSTATISTICS_PROCESS_NODE, D3DKMT_QUERYSTATISTICS_PROCESS_NODE2, 0},
        {D3DKMT_QUERYSTATISTICS_PROCESS_NODE, D3DKMT_QUERYSTATISTICS_PROCESS_NODE2, 1},
        {D3DKMT_QUERYSTATISTICS_NODE, D3DKMT_QUERYSTATISTICS_NODE2, 0},
        {D3DKMT_QUERYSTATISTICS_SEGMENT, D3DKMT_QUERYSTATISTICS_SEGMENT2, 3},
        {D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2, 2},
        {D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP,
         D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2, 1},
    };
    for (const Row& row : kRows) {
      SCOPED_TRACE(row.indexed);
      D3DKMT_QUERYSTATISTICS old = about(stack, row.old, row.which);
      ASSERT_EQ(ask(client, &old), 0);
      // The index of the physical adapter comes first, 16 bits wide.
      D3DKMT_QUERYSTATISTICS indexed = about(stack, row.indexed, row.which << 16);
      ASSERT_EQ(ask(client, &indexed), 0);
      EXPECT_EQ(std::memcmp(&old.QueryResult, &indexed.QueryResult, sizeof old.QueryResult), 0);
    }
  });
}

/// What survives which sleep is told as the driver said it.
TEST_F(Statistics, ASegmentSaysWhatItKeepsInASleep) {
  DXGKIT_COVERS("THUNK-43");
  struct Row {
    UINT standby, hibernate;
  };
  for (const auto [standby, hibernate] : {Row{0, 0}, Row{1, 0}, Row{1, 1}}) {  // SEG-35
    with_client(
        [&](Stack&, Client& client) {
          const auto power =
              get(client, D3DKMT_QUERYSTATISTICS_SEGMENT, 1).SegmentInformation.PowerFlags;
          EXPECT_EQ(power.PreservedDuringStandby, standby);
          EXPECT_EQ(power.PreservedDuringHibernate, hibernate);
          EXPECT_EQ(power.PartiallyPreservedDuringHibernate, 0U);
        },
        [&](ScriptedMiniport& miniport) {
          miniport.config.segments[0].flags.PreservedDuringStandby = standby & 1U;
          miniport.config.segments[0].flags.PreservedDuringHibernate = hibernate & 1U;
        });
  }
}

TEST_F(Statistics, ASegmentSaysWhoSeesIt) {
  DXGKIT_COVERS("THUNK-43");
  for (const bool visible : {false, true}) {
    for (const bool of_system : {false, true}) {
      with_client(
          [&](Stack&, Client& client) {
            const auto segment = get(client, D3DKMT_QUERYSTATISTICS_SEGMENT, 1).SegmentInformation;
            EXPECT_EQ(segment.SegmentProperties.FullyCPUVisible, visible ? 1U : 0U);
            EXPECT_EQ(segment.SegmentProperties.SystemMemory, of_system ? 1U : 0U);
          },
          [&](ScriptedMiniport& miniport) {
            miniport.config.segments[0].flags.CpuVisible = visible ? 1 : 0;
            miniport.config.segments[0].flags.PopulatedFromSystemMemory = of_system ? 1 : 0;
          });
    }
  }
}

/// Numbers that are all different: two nodes, three segments of two groups, another process.
TEST_F(Statistics, EachNumberHasItsOwnSource) {
  DXGKIT_COVERS("THUNK-43");
  with_client([](Stack& stack, Client& client) {
    Client other(stack, "other");
    ContextBuffers context = client.make_context(0), theirs = other.make_context(0);
    const D3DKMT_HANDLE two = client.make_allocation(2 * 4096, 1),
                        three = client.make_allocation(3 * 4096, 1),
                        second = client.make_allocation(5 * 4096, 2),
                        foreign = other.make_allocation(7 * 4096, 1);
    ASSERT_EQ(client.render(context, work_on({two, three, second})), 0);
    ASSERT_EQ(other.render(theirs, work_on({foreign})), 0);
    stack.drive();
    const auto& segments = stack.miniport.config.segments;
    const auto own = [&](ULONG id) {
      return get(client, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, id).ProcessSegmentInformation;
    };
    EXPECT_EQ(own(1).BytesCommitted, 5U * 4096);
    EXPECT_EQ(own(1).VideoMemory.AllocsCommitted, 2U);
    EXPECT_EQ(own(2).BytesCommitted, 5U * 4096);
    EXPECT_EQ(own(2).VideoMemory.AllocsCommitted, 1U);
    EXPECT_EQ(own(3).BytesCommitted, 0U);
    uint64_t committed[3] = {}, sizes[3] = {};
    for (ULONG id = 1; id <= 3; ++id) {
      const auto segment = get(client, D3DKMT_QUERYSTATISTICS_SEGMENT, id).SegmentInformation;
      committed[id - 1] = segment.BytesCommitted;
      sizes[id - 1] = segment.CommitLimit;
      EXPECT_EQ(segment.CommitLimit, segments[id - 1].size);
      EXPECT_EQ(segment.BytesResident, segment.BytesCommitted);
      EXPECT_EQ(segment.Memory.AllocsResident, segment.Memory.AllocsCommitted);
      EXPECT_EQ(segment.SegmentProperties.SegmentType,
                id == 3 ? D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_APERTURE
                        : D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_MEMORY);
      EXPECT_EQ(segment.SegmentProperties.SegmentGroup, id == 3
                                                            ? D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL
                                                            : D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL);
      EXPECT_EQ(segment.SegmentProperties.FullyCPUVisible, segments[id - 1].flags.CpuVisible);
      EXPECT_EQ(segment.SegmentProperties.SystemMemory, 0U);
      const auto usage =
          get(client, D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE, id << 16).SegmentUsageInformation;
      EXPECT_EQ(usage.AllocatedBytes, segment.BytesCommitted);
    }
    EXPECT_NE(committed[0], committed[1]);
    const auto local =
        get(client, D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE, 0).SegmentGroupUsageInformation;
    EXPECT_EQ(local.AllocatedBytes, committed[0] + committed[1]);
    EXPECT_EQ(local.FreeBytes, sizes[0] + sizes[1] - committed[0] - committed[1]);
    const auto far = get(client, D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE, 1U << 16)
                         .SegmentGroupUsageInformation;
    EXPECT_EQ(far.AllocatedBytes, committed[2]);
    EXPECT_EQ(far.FreeBytes, sizes[2] - committed[2]);
    for (const ULONG group : {0U, 1U}) {
      D3DKMT_QUERYVIDEOMEMORYINFO info{};
      info.hAdapter = client.adapter;
      info.MemorySegmentGroup = static_cast<D3DKMT_MEMORY_SEGMENT_GROUP>(group);
      ASSERT_EQ(client.call([&] { return D3DKMTQueryVideoMemoryInfo(&info); }), 0);
      const auto ours = get(client, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, group)
                            .ProcessSegmentGroupInformation;
      EXPECT_EQ(ours.Budget, info.Budget);
      EXPECT_EQ(ours.Usage, info.CurrentUsage);
      EXPECT_EQ(ours.Requested, info.CurrentUsage);
      EXPECT_NE(ours.Budget, 0U);
    }
    const auto sums = stack.statistics();
    const auto adapter = get(client, D3DKMT_QUERYSTATISTICS_ADAPTER).AdapterInformation;
    EXPECT_EQ(adapter.ReferenceDmaBuffer.NbCall, sums.packets_submitted);
    EXPECT_EQ(adapter.PagingTransfer.BytesTransferredFromMdlToMemory, sums.bytes_in);
    EXPECT_EQ(adapter.PagingTransfer.BytesTransferredFromMemoryToMdl, sums.bytes_out);
    EXPECT_EQ(adapter.PagingFault.Evictions.Count, sums.evictions);
    EXPECT_EQ(adapter.Flags.NumberOfMemoryGroups, 2U);
    EXPECT_EQ(
        get(client, D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER).ProcessAdapterInformation.NbSegments,
        3U);
  });
}

/// A packet that leaves hardware before its end and comes back counts twice there, and once in the
/// queue; one that fails is neither complete nor preempted.
TEST_F(Statistics, NodesTellPreemptedAndFaultedPackets) {
  DXGKIT_COVERS("THUNK-43");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers low = client.make_context(0), high = client.make_context(0);
    ASSERT_EQ(client.render(low, work_on({})), 0);
    ASSERT_EQ(client.render(high, work_on({})), 0);
    stack.drive();
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY priority{low.handle, -1};
    ASSERT_EQ(client.call([&] { return D3DKMTSetContextSchedulingPriority(&priority); }), 0);
    const auto global = [&] {
      return get(client, D3DKMT_QUERYSTATISTICS_NODE, 0).NodeInformation.GlobalInformation;
    };
    const auto render = [&] {
      return global().PacketStatistics.DmaPacket[D3DKMT_ClientRenderBuffer];
    };
    const auto before = render();
    stack.miniport.clear_calls();
    for (int i = 0; i < 2; ++i) ASSERT_EQ(client.render(low, work_on({})), 0);  // hardware is full
    stack.settle();
    ASSERT_EQ(client.render(high, work_on({})), 0);
    stack.settle();
    ASSERT_EQ(stack.miniport.calls().preempts.size(), 1U);
    stack.miniport.preempted(0, stack.miniport.calls().preempts[0].PreemptionFenceId,
                             stack.miniport.last_completed(0));
    stack.settle();
    EXPECT_EQ(render().PacketPreempted, before.PacketPreempted + 1);
    stack.drive();
    const auto after = render();
    EXPECT_EQ(after.PacketSubmited, before.PacketSubmited + 3 + after.PacketPreempted);
    EXPECT_EQ(after.PacketCompleted, before.PacketCompleted + 3);
    EXPECT_EQ(after.PacketFaulted, before.PacketFaulted);
    const auto& queue = global().PacketStatistics.QueuePacket[D3DKMT_RenderCommandBuffer];
    EXPECT_EQ(queue.PacketSubmited, before.PacketSubmited + 3);
    EXPECT_EQ(queue.PacketCompleted, after.PacketCompleted);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    ASSERT_EQ(client.render(low, work_on({})), 0);
    stack.settle();
    stack.miniport.faulted(0, stack.miniport.outstanding(0).at(0),
                           nt_status(Status::kUnsuccessful));
    stack.settle();
    EXPECT_EQ(render().PacketFaulted, before.PacketFaulted + 1);
    EXPECT_EQ(render().PacketCompleted, after.PacketCompleted);
  });
}

/// What is cancelled in its queue has taken no time of hardware.
TEST_F(Statistics, NodesCountNoTimeOfWhatNeverGotThere) {
  DXGKIT_COVERS("THUNK-43");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context(0);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.drive();
    const auto running = [&] {
      return get(client, D3DKMT_QUERYSTATISTICS_NODE, 0)
          .NodeInformation.GlobalInformation.RunningTime.QuadPart;
    };
    const auto before = running();
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    ASSERT_EQ(client.wait_gpu(context, fence, 1), 0);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.settle();
    runtime::Runtime::current().sleep_for(5 * runtime::kMillisecond);
    ASSERT_EQ(client.destroy_context(context.handle), 0);
    EXPECT_EQ(stack.statistics().packets_cancelled, 1U);
    EXPECT_EQ(running(), before);
  });
}

/// Flips that were shown, that were not, and that are under way, source by source.
TEST_F(Statistics, ASourceCountsItsFlips) {
  DXGKIT_COVERS("THUNK-43");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver);
      const auto source = [&] {
        return get(client, D3DKMT_QUERYSTATISTICS_VIDPNSOURCE, 0)
            .VidPnSourceInformation.GlobalInformation;
      };
      ASSERT_EQ(client.limit(0, 4), 0);
      const auto before = source();
      for (const size_t i : {1U, 2U}) ASSERT_EQ(client.flip(client.primaries[i]), 0);
      stack.settle();
      EXPECT_EQ(source().QueuedPresent, 2U);
      EXPECT_EQ(source().Frame, before.Frame);
      driver.vsync();
      EXPECT_EQ(source().QueuedPresent, 1U);
      EXPECT_EQ(source().Frame, before.Frame + 1);
      EXPECT_EQ(source().CancelledFrame, before.CancelledFrame);
      driver.vsync();
      EXPECT_EQ(source().QueuedPresent, 0U);
      EXPECT_EQ(source().Frame, before.Frame + 2);
      // One that the next mode overtakes is never shown.
      ASSERT_EQ(client.flip(client.primaries[1]), 0);
      stack.settle();
      ASSERT_EQ(client.set_display_mode(client.primaries[0]), 0);
      EXPECT_EQ(source().CancelledFrame, before.CancelledFrame + 1);
      EXPECT_EQ(source().Frame, before.Frame + 2);
      EXPECT_EQ(get(client, D3DKMT_QUERYSTATISTICS_ADAPTER).AdapterInformation.VidPnSourceCount,
                1U);
      EXPECT_EQ(get(client, D3DKMT_QUERYSTATISTICS_PROCESS).ProcessInformation.VidPnSourceCount,
                1U);
      EXPECT_EQ(get(client, D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER)
                    .ProcessAdapterInformation.VidPnSourceCount,
                1U);
      D3DKMT_QUERYSTATISTICS none = about(stack, D3DKMT_QUERYSTATISTICS_VIDPNSOURCE, 1);
      EXPECT_EQ(ask(client, &none), kInvalid);
    }
  });
}

/// Each handle, by its kind and its number.
TEST_F(Statistics, EachHandleIsOfItsKind) {
  DXGKIT_COVERS("THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const Digest before = digest(stack, {&client});
    D3DKMT_QUERYCLOCKCALIBRATION clock{};
    clock.hAdapter = client.device;
    EXPECT_EQ(client.call([&] { return D3DKMTQueryClockCalibration(&clock); }), kInvalid);
    D3DKMT_MARKDEVICEASERROR mark{client.adapter, D3DKMT_DEVICE_ERROR_REASON_GENERIC};
    EXPECT_EQ(client.call([&] { return D3DKMTMarkDeviceAsError(&mark); }), kInvalid);
    D3DKMT_FLUSHHEAPTRANSITIONS flush{client.device};
    EXPECT_EQ(client.call([&] { return D3DKMTFlushHeapTransitions(&flush); }), kInvalid);
    D3DKMT_ISFEATUREENABLED feature{};
    feature.hAdapter = client.device;
    feature.FeatureId = DXGK_FEATURE_HWSCH;
    EXPECT_EQ(client.call([&] { return D3DKMTIsFeatureEnabled(&feature); }), kInvalid);
    D3DKMT_QUERYSTATISTICS high = about(stack, D3DKMT_QUERYSTATISTICS_ADAPTER);
    high.AdapterLuid.HighPart += 1;
    EXPECT_EQ(ask(client, &high), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    feature.hAdapter = client.adapter;
    for (const auto& [id, known] :
         {std::pair(DXGK_FEATURE_HWSCH, 1U), std::pair(DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT, 1U),
          std::pair(DXGK_FEATURE_NATIVE_FENCE, 1U), std::pair(DXGK_FEATURE_HWFLIPQUEUE, 0U)}) {
      feature.FeatureId = id;
      ASSERT_EQ(client.call([&] { return D3DKMTIsFeatureEnabled(&feature); }), 0);
      EXPECT_EQ(feature.Result.Version, 0U);
      EXPECT_EQ(feature.Result.Enabled, 0U);
      EXPECT_EQ(feature.Result.KnownFeature, known);
      EXPECT_EQ(feature.Result.SupportedByDriver, 0U);
      EXPECT_EQ(feature.Result.SupportedOnCurrentConfig, known);
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
        {"a node of a second physical adapter", D3DKMT_QUERYSTATISTICS_NODE2, 1, kInvalid},
        {"the same of a process", D3DKMT_QUERYSTATISTICS_PROCESS_NODE2, 1, kInvalid},
        {"a second physical adapter", D3DKMT_QUERYSTATISTICS_ADAPTER2, 1, kInvalid},
        {"the same of a process", D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2, 1, kInvalid},
        {"a segment of a second one", D3DKMT_QUERYSTATISTICS_SEGMENT2, 1, kInvalid},
        {"the same of a process", D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2, 1, kInvalid},
        {"its use", D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE, 1 + (1U << 16), kInvalid},
        {"a group of a second one", D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2, 1, kInvalid},
        {"its use", D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE, 1, kInvalid},
        {"the use of a group behind the last", D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE, 2U << 16,
         kInvalid},
        {"a group behind the last", D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2, 2U << 16,
         kInvalid},
        {"the use of a segment behind the last", D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE, 4U << 16,
         kInvalid},
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
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY priority{context.handle, -1};
    // The pages of these two know no lost device.
    EXPECT_EQ(client.call([&] { return D3DKMTSetContextSchedulingPriority(&priority); }), kInvalid);
    D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY within{context.handle, 1};
    EXPECT_EQ(client.call([&] { return D3DKMTSetContextInProcessSchedulingPriority(&within); }),
              kInvalid);
    ContextBuffers other;
    EXPECT_EQ(client.create_context(&other, 0, second), 0) << "another device of the process";
    EXPECT_EQ(mark(D3DKMT_DEVICE_ERROR_REASON_GENERIC), 0) << "once more";
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
  });
}

TEST_F(Statistics, AGlobalHandleNamesTheAdapterOfItsResource) {
  DXGKIT_COVERS("THUNK-52");
  with_client([](Stack& stack, Client& client) {
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.Flags.CreateResource = create.Flags.CreateShared = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&create); }), 0);
    D3DKMT_GETSHAREDRESOURCEADAPTERLUID luid{};
    luid.hGlobalShare = create.hGlobalShare;
    EXPECT_EQ(client.call([&] { return D3DKMTGetSharedResourceAdapterLuid(&luid); }), 0);
    EXPECT_EQ(luid.AdapterLuid.LowPart, stack.luid.low);
    EXPECT_EQ(luid.AdapterLuid.HighPart, stack.luid.high);
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
