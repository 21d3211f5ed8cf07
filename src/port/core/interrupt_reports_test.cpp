// What one report says, by its type, and what a run of the ISR is told for: over a table filled by
// hand.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "port/core/core_world_test.h"
#include "port/core/interrupts.h"
#include "tests/support/covers.h"

namespace dxgkit::port {
namespace {

using Data = DXGKARGCB_NOTIFY_INTERRUPT_DATA;
using Type = InterruptReport::Type;

/// A vertical sync of `count` planes.
void show_planes(Data& data, UINT target, UINT adapters, ULONG count,
                 DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO* list) {
  data.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY;
  data.CrtcVsyncWithMultiPlaneOverlay = {.VidPnTargetId = target,
                                         .PhysicalAdapterMask = adapters,
                                         .MultiPlaneOverlayVsyncInfoCount = count,
                                         .pMultiPlaneOverlayVsyncInfo = list};
}

/// One call that the ISR makes: a report, or DxgkCbQueueDpc.
struct Call {
  bool queues = false;
  Data data{};
};

CoreWorld* g_world = nullptr;
std::vector<Call> g_calls;
BOOLEAN g_answer = TRUE;

BOOLEAN NTAPI isr(void*, ULONG) {
  Interrupts& interrupts = g_world->core().interrupts;
  for (const Call& call : g_calls) {
    if (call.queues) {
      static_cast<void>(interrupts.queue_dpc());
    } else {
      interrupts.notify_interrupt(call.data);
    }
  }
  return g_answer;
}
void NTAPI dpc(void*) { g_world->core().interrupts.notify_dpc(); }

void in_world(const std::function<void(CoreWorld&)>& body, uint32_t version = kInterfaceWddm32) {
  with_core(
      [&](CoreWorld& world) {
        g_world = &world;
        g_calls.clear();
        g_answer = TRUE;
        CoreWorld::set(world.table.table.DxgkDdiInterruptRoutine, &isr);
        CoreWorld::set(world.table.table.DxgkDdiDpcRoutine, &dpc);
        world.core().interrupts.connect();
        body(world);
        world.core().interrupts.disconnect();
        g_world = nullptr;
      },
      version);
}

constexpr Call kQueue{.queues = true};

Data of_type(DXGK_INTERRUPT_TYPE type) {
  Data data;
  std::memset(&data, 0, sizeof(data));
  data.InterruptType = type;
  return data;
}
/// A report of an engine's work or fault, of each type that has a node.
Data of_node(DXGK_INTERRUPT_TYPE type, uint32_t node, uint32_t fence = 0) {
  Data data = of_type(type);
  switch (type) {
    case DXGK_INTERRUPT_DMA_COMPLETED:
      data.DmaCompleted.NodeOrdinal = node;
      data.DmaCompleted.SubmissionFenceId = fence;
      break;
    case DXGK_INTERRUPT_DMA_PREEMPTED:
      data.DmaPreempted.NodeOrdinal = node;
      data.DmaPreempted.PreemptionFenceId = fence;
      break;
    case DXGK_INTERRUPT_DMA_FAULTED:
      data.DmaFaulted.NodeOrdinal = node;
      data.DmaFaulted.FaultedFenceId = fence;
      break;
    case DXGK_INTERRUPT_DMA_PAGE_FAULTED:
      data.DmaPageFaulted.NodeOrdinal = node;
      data.DmaPageFaulted.FaultedFenceId = fence;
      break;
    case DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED:
      data.MonitoredFenceSignaled.NodeOrdinal = node;
      break;
    case DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED:
      data.HwQueuePageFaulted.NodeOrdinal = node;
      break;
    case DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED:
      data.NativeFenceSignaled.NodeOrdinal = node;
      break;
    default:
      ADD_FAILURE() << "type " << int{type} << " has no node";
  }
  return data;
}

constexpr DXGK_INTERRUPT_TYPE kOfDma[] = {DXGK_INTERRUPT_DMA_COMPLETED,
                                          DXGK_INTERRUPT_DMA_PREEMPTED, DXGK_INTERRUPT_DMA_FAULTED,
                                          DXGK_INTERRUPT_DMA_PAGE_FAULTED};
constexpr DXGK_INTERRUPT_TYPE kOfOtherEngines[] = {DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED,
                                                   DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED,
                                                   DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED};
constexpr DXGK_INTERRUPT_TYPE kOfScreens[] = {DXGK_INTERRUPT_CRTC_VSYNC,
                                              DXGK_INTERRUPT_DISPLAYONLY_VSYNC,
                                              DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY,
                                              DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2,
                                              DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY3};

/// What reaches the host of reports that one run of the ISR makes.
std::vector<InterruptReport> told(CoreWorld& world, const std::vector<Data>& reports) {
  const size_t before = world.host.seen().size();
  g_calls.clear();
  for (const Data& data : reports) g_calls.push_back({.data = data});
  g_calls.push_back(kQueue);
  world.function.interrupt_line().raise();
  std::vector<InterruptReport> seen = world.host.seen();
  seen.erase(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(before));
  return seen;
}

/// Each member.
void expect_same(const InterruptReport& found, const InterruptReport& wanted) {
  EXPECT_EQ(found.type, wanted.type);
  EXPECT_EQ(found.raw_type, wanted.raw_type);
  EXPECT_EQ(found.fence, wanted.fence);
  EXPECT_EQ(found.last_completed, wanted.last_completed);
  EXPECT_EQ(found.node, wanted.node);
  EXPECT_EQ(found.engine, wanted.engine);
  EXPECT_EQ(found.status, wanted.status);
  EXPECT_EQ(found.address, wanted.address);
  EXPECT_EQ(found.flags, wanted.flags);
  EXPECT_EQ(found.primitive, wanted.primitive);
  EXPECT_EQ(found.pipeline_stage, wanted.pipeline_stage);
  EXPECT_EQ(found.bind_table_entry, wanted.bind_table_entry);
  EXPECT_EQ(found.page_table_level, wanted.page_table_level);
  EXPECT_EQ(found.error_code, wanted.error_code);
  EXPECT_EQ(found.process, wanted.process);
  EXPECT_EQ(found.source, wanted.source);
  EXPECT_EQ(found.planes, wanted.planes);
  EXPECT_EQ(found.highest_plane, wanted.highest_plane);
  EXPECT_EQ(found.planes_by_id, wanted.planes_by_id);
  EXPECT_EQ(found.failed, wanted.failed);
  EXPECT_EQ(found.fence64, wanted.fence64);
  EXPECT_EQ(found.handle, wanted.handle);
  EXPECT_EQ(found.handles, wanted.handles);
  EXPECT_EQ(found.legacy_fences_too, wanted.legacy_fences_too);
  EXPECT_EQ(found.in_engine_reset, wanted.in_engine_reset);
  EXPECT_EQ(found.inside_preempt, wanted.inside_preempt);
}

void* handle(uint64_t number) { return reinterpret_cast<void*>(number); }

/// All members of a type are different, and nothing else is said.
TEST(InterruptReports, EachMemberOfEachTypeArrives) {
  DXGKIT_COVERS("INT-01");
  std::array<DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO, 65> planes{};
  planes[0].LayerIndex = 3;
  planes[0].PhysicalAddress.QuadPart = 0x3000;
  planes[1].LayerIndex = 0;
  planes[1].PhysicalAddress.QuadPart = 0x5'0000'1000;
  planes[2].LayerIndex = 1;
  planes[2].PhysicalAddress.QuadPart = 0x7000;
  planes[63].LayerIndex = 9;
  planes[64].LayerIndex = 77;  // more than are read
  HANDLE fences[] = {handle(0xF1), handle(0xF2), handle(0xF3)};
  struct Row {
    const char* what;
    void (*fill)(Data& data, DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO*, HANDLE*);
    InterruptReport wanted;
  };
  const Row rows[] = {
      {"completed",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
         d.DmaCompleted = {.SubmissionFenceId = 11, .NodeOrdinal = 12, .EngineOrdinal = 13};
       },
       {.type = Type::kDmaCompleted,
        .raw_type = 1,
        .fence = 11,
        .node = 12,
        .engine = 13,
        .handles = {}}},
      {"preempted",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
         d.DmaPreempted = {.PreemptionFenceId = 21,
                           .LastCompletedFenceId = 22,
                           .NodeOrdinal = 23,
                           .EngineOrdinal = 24};
       },
       {.type = Type::kDmaPreempted,
        .raw_type = 2,
        .fence = 21,
        .last_completed = 22,
        .node = 23,
        .engine = 24,
        .handles = {}}},
      {"faulted",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_DMA_FAULTED;
         d.DmaFaulted = {
             .FaultedFenceId = 31, .Status = -32, .NodeOrdinal = 33, .EngineOrdinal = 34};
       },
       {.type = Type::kDmaFaulted,
        .raw_type = 4,
        .fence = 31,
        .node = 33,
        .engine = 34,
        .status = -32,
        .handles = {}}},
      {"vertical sync",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
         d.CrtcVsync.VidPnTargetId = 41;
         d.CrtcVsync.PhysicalAddress.QuadPart = 0x4'0000'2000;
         d.CrtcVsync.PhysicalAdapterMask = 43;
       },
       {.type = Type::kCrtcVsync,
        .raw_type = 3,
        .node = 41,
        .address = 0x4'0000'2000,
        .source = 41,
        .handles = {}}},
      {"vertical sync of planes",
       [](Data& d, auto* list, auto*) { show_planes(d, 51, 52, 3, list); },
       {.type = Type::kCrtcVsync,
        .raw_type = 7,
        .address = 0x5'0000'1000,
        .source = 51,
        .planes = 3,
        .highest_plane = 3,
        .handles = {}}},
      {"vertical sync of one plane that is not the first",
       [](Data& d, auto* list, auto*) { show_planes(d, 51, 0, 1, list); },
       {.type = Type::kCrtcVsync,
        .raw_type = 7,
        .source = 51,
        .planes = 1,
        .highest_plane = 3,
        .handles = {}}},
      {"vertical sync of more planes than are read",
       [](Data& d, auto* list, auto*) { show_planes(d, 53, 0, 65, list); },
       {.type = Type::kCrtcVsync,
        .raw_type = 7,
        .source = 53,
        .planes = 65,
        .highest_plane = 9,
        .handles = {}}},
      {"vertical sync of planes without a list",
       [](Data& d, auto*, auto*) { show_planes(d, 54, 0, 2, nullptr); },
       {.type = Type::kCrtcVsync, .raw_type = 7, .source = 54, .planes = 2, .handles = {}}},
      {"vertical sync of planes without addresses",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2;
         d.CrtcVsyncWithMultiPlaneOverlay2.VidPnTargetId = 55;
         d.CrtcVsyncWithMultiPlaneOverlay2.MultiPlaneOverlayVsyncInfoCount = 2;
       },
       {.type = Type::kCrtcVsync,
        .raw_type = DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2,
        .source = 55,
        .planes = 2,
        .planes_by_id = true,
        .handles = {}}},
      {"vertical sync of a display-only driver",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_DISPLAYONLY_VSYNC;
         d.DisplayOnlyVsync.VidPnTargetId = 61;
       },
       {.type = Type::kDisplayOnlyVsync, .raw_type = 5, .source = 61, .handles = {}}},
      {"a present that is done",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS;
         d.DisplayOnlyPresentProgress.VidPnSourceId = 71;
         d.DisplayOnlyPresentProgress.ProgressId = DXGK_PRESENT_DISPLAYONLY_PROGRESS_ID_COMPLETE;
       },
       {.type = Type::kPresentProgress, .raw_type = 6, .source = 71, .handles = {}}},
      {"a present that failed",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS;
         d.DisplayOnlyPresentProgress.VidPnSourceId = 72;
         d.DisplayOnlyPresentProgress.ProgressId = DXGK_PRESENT_DISPLAYONLY_PROGRESS_ID_FAILED;
       },
       {.type = Type::kPresentProgress,
        .raw_type = 6,
        .source = 72,
        .failed = true,
        .handles = {}}},
      {"page fault of a process",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
         auto& fault = d.DmaPageFaulted;
         fault.FaultedFenceId = 81;
         fault.FaultedPrimitiveAPISequenceNumber = 0x1'0000'0082;
         fault.FaultedPipelineStage = DXGK_RENDER_PIPELINE_STAGE_PIXEL_SHADER;
         fault.FaultedBindTableEntry = 84;
         fault.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(0x81);
         fault.FaultedVirtualAddress = 0x8'5000'0000;
         fault.NodeOrdinal = 36;
         fault.EngineOrdinal = 87;
         fault.PageTableLevel = 88;
         fault.FaultErrorCode.IsDeviceSpecificCodeReservedBit = 1;
         fault.FaultErrorCode.DeviceSpecificCode = 0x44;
         fault.FaultedProcessHandle = handle(0x8A);
       },
       {.type = Type::kDmaPageFaulted,
        .raw_type = 9,
        .fence = 81,
        .node = 36,
        .engine = 87,
        .address = 0x8'5000'0000,
        .flags = 0x81,
        .primitive = 0x1'0000'0082,
        .pipeline_stage = DXGK_RENDER_PIPELINE_STAGE_PIXEL_SHADER,
        .bind_table_entry = 84,
        .page_table_level = 88,
        .error_code = 0x89,
        .process = handle(0x8A),
        .handles = {}}},
      {"page fault whose process is not said",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
         d.DmaPageFaulted.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(0x7F);
         d.DmaPageFaulted.FaultedProcessHandle = handle(0x8A);
       },
       {.type = Type::kDmaPageFaulted, .raw_type = 9, .flags = 0x7F, .handles = {}}},
      {"monitored fence",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED;
         d.MonitoredFenceSignaled = {.NodeOrdinal = 91, .EngineOrdinal = 92};
       },
       {.type = Type::kMonitoredFenceSignaled,
        .raw_type = 11,
        .node = 91,
        .engine = 92,
        .handles = {}}},
      {"page fault of a queue",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED;
         auto& fault = d.HwQueuePageFaulted;
         fault.FaultedFenceId = 0x1'0000'0101;
         fault.FaultedVirtualAddress = 0x1'0200'0000;
         fault.FaultedHwQueue = handle(0x103);
         fault.NodeOrdinal = 104;
         fault.EngineOrdinal = 105;
         fault.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(0x81);
         fault.PageTableLevel = 107;
       },
       {.type = Type::kHwQueuePageFaulted,
        .raw_type = 12,
        .node = 104,
        .engine = 105,
        .address = 0x1'0200'0000,
        .flags = 0x81,
        .page_table_level = 107,
        .fence64 = 0x1'0000'0101,
        .handle = handle(0x103),
        .handles = {}}},
      {"suspended",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED;
         d.SuspendContextCompleted.hContext = handle(0x111);
         d.SuspendContextCompleted.ContextSuspendFence = 0x1'0000'0112;
       },
       {.type = Type::kSuspendCompleted,
        .raw_type = 17,
        .fence64 = 0x1'0000'0112,
        .handle = handle(0x111),
        .handles = {}}},
      {"native fences",
       [](Data& d, auto*, auto* list) {
         d.InterruptType = DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED;
         d.NativeFenceSignaled.NodeOrdinal = 121;
         d.NativeFenceSignaled.EngineOrdinal = 122;
         d.NativeFenceSignaled.SignaledNativeFenceCount = 3;
         d.NativeFenceSignaled.pSignaledNativeFenceArray = list;
       },
       {.type = Type::kNativeFenceSignaled,
        .raw_type = DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED,
        .node = 121,
        .engine = 122,
        .handles = {handle(0xF1), handle(0xF2), handle(0xF3)}}},
      {"any native fence, and the others",
       [](Data& d, auto*, auto*) {
         d.InterruptType = DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED;
         d.NativeFenceSignaled.SignaledNativeFenceCount = 3;
         d.Flags.EvaluateLegacyMonitoredFences = 1;
       },
       {.type = Type::kNativeFenceSignaled,
        .raw_type = DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED,
        .handles = {},
        .legacy_fences_too = true}},
      {"what nobody knows",
       [](Data& d, auto*, auto*) {
         std::memset(&d, 0x7F, sizeof(d));
         d.InterruptType = static_cast<DXGK_INTERRUPT_TYPE>(999);
       },
       {.raw_type = 999, .handles = {}}},
  };
  in_world([&](CoreWorld& world) {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.what);
      Data data = of_type(DXGK_INTERRUPT_DMA_COMPLETED);
      row.fill(data, planes.data(), fences);
      const std::vector<InterruptReport> seen = told(world, {data});
      ASSERT_EQ(seen.size(), 1U);
      expect_same(seen[0], row.wanted);
    }
    EXPECT_EQ(world.rules(), "");
  });
}

/// The process of a page fault is a member from WDDM 2.2 on; before, nothing is there.
TEST(InterruptReports, TheProcessOfAFaultIsReadWhereThereIsOne) {
  for (const auto& [version, read] :
       {std::pair(kInterfaceWddm20, false), std::pair(kInterfaceWddm22 - 1, false),
        std::pair(kInterfaceWddm22, true), std::pair(kInterfaceWddm32, true)}) {
    in_world(
        [&](CoreWorld& world) {
          Data data = of_type(DXGK_INTERRUPT_DMA_PAGE_FAULTED);
          data.DmaPageFaulted.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(128);
          data.DmaPageFaulted.FaultedProcessHandle = handle(0x77);
          EXPECT_EQ(told(world, {data}).at(0).process, read ? handle(0x77) : nullptr);
        },
        version);
  }
}

/// A list that cannot be is read as far as one may reach.
TEST(InterruptReports, NativeFencesAreReadUpToABound) {
  in_world([](CoreWorld& world) {
    std::vector<HANDLE> fences(5000);
    for (size_t i = 0; i < fences.size(); ++i) fences[i] = handle(i + 1);
    for (const uint32_t count : {0U, 4095U, 4096U, 4097U, 5000U}) {
      Data data = of_type(DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED);
      data.NativeFenceSignaled.SignaledNativeFenceCount = count;
      data.NativeFenceSignaled.pSignaledNativeFenceArray = fences.data();
      const InterruptReport report = told(world, {data}).at(0);
      ASSERT_EQ(report.handles.size(), std::min(count, 4096U));
      if (count > 0) {
        EXPECT_EQ(report.handles.back(), handle(report.handles.size()));
      }
    }
  });
}

/// INT-09: work and faults of engines before vertical syncs, in one run. Each pair of types.
TEST(InterruptReports, TheOrderOfCausesIsThatOfEachType) {
  DXGKIT_COVERS("INT-09");
  in_world([](CoreWorld& world) {
    size_t wrong = 0;
    const auto expect = [&](const Data& first, const Data& second, bool is_wrong) {
      wrong += is_wrong ? 1 : 0;
      EXPECT_EQ(told(world, {first, second}).size(), 2U) << "told all the same";
      ASSERT_EQ(world.findings.count("INT-09"), wrong)
          << int{first.InterruptType} << " before " << int{second.InterruptType};
    };
    for (const DXGK_INTERRUPT_TYPE screen : kOfScreens) {
      for (const DXGK_INTERRUPT_TYPE dma : kOfDma) {
        expect(of_type(screen), of_node(dma, 1), true);
        expect(of_node(dma, 1), of_type(screen), false);
      }
      for (const DXGK_INTERRUPT_TYPE other : kOfOtherEngines)
        expect(of_type(screen), of_node(other, 1), false);
      for (const DXGK_INTERRUPT_TYPE next : kOfScreens)
        expect(of_type(screen), of_type(next), false);
    }
    for (const DXGK_INTERRUPT_TYPE first : kOfDma) {
      for (const DXGK_INTERRUPT_TYPE next : kOfDma)
        expect(of_node(first, 1), of_node(next, 1), false);
    }
    const Data progress = of_type(DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS);
    expect(progress, of_node(DXGK_INTERRUPT_DMA_COMPLETED, 1), false);
    // Between two stands something else: the first is not forgotten.
    told(world,
         {of_type(DXGK_INTERRUPT_CRTC_VSYNC), of_node(DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED, 0),
          of_node(DXGK_INTERRUPT_DMA_COMPLETED, 0)});
    EXPECT_EQ(world.findings.count("INT-09"), wrong + 1);
    // The next run begins anew.
    told(world, {of_node(DXGK_INTERRUPT_DMA_COMPLETED, 0)});
    EXPECT_EQ(world.findings.total(), wrong + 1) << world.rules();
  });
}

std::vector<uint32_t> nodes_of(const std::vector<InterruptReport>& reports) {
  std::vector<uint32_t> nodes;
  for (const InterruptReport& report : reports) nodes.push_back(report.node);
  return nodes;
}

/// TDR-09, INT-21: what engines of a masked node have to say waits, of every DMA type, and of that
/// node only.
TEST(InterruptReports, EachDmaTypeOfAMaskedNodeWaits) {
  DXGKIT_COVERS("TDR-09");
  for (const uint32_t node : {0U, 5U, 63U}) {
    SCOPED_TRACE(node);
    in_world([&](CoreWorld& world) {
      Interrupts& interrupts = world.core().interrupts;
      const auto unmask = [&](uint64_t nodes, bool tell) {
        nt::CallFrame frame(world.kernel, "unmask", nt::kPassiveLevel);
        const size_t before = world.host.seen().size();
        interrupts.unmask(nodes, tell);
        std::vector<InterruptReport> seen = world.host.seen();
        seen.erase(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(before));
        return seen;
      };
      interrupts.mask(uint64_t{1} << node);
      interrupts.mask(uint64_t{1} << 9);  // the first stays masked
      std::vector<Data> reports;
      uint32_t fence = 100;
      for (const DXGK_INTERRUPT_TYPE type : kOfDma) {
        for (const uint32_t of : {node, 9U, node ^ 1U, 64U, 64 + node}) {
          if (of == 9 && node == 9) continue;
          reports.push_back(of_node(type, of, ++fence));
        }
      }
      // Others of masked nodes, too, are no work.
      for (const DXGK_INTERRUPT_TYPE type : kOfOtherEngines) reports.push_back(of_node(type, node));
      std::vector<uint32_t> at_once;
      for (int i = 0; i < 4; ++i) at_once.insert(at_once.end(), {node ^ 1U, 64U, 64 + node});
      at_once.insert(at_once.end(), 3, node);
      EXPECT_EQ(nodes_of(told(world, reports)), at_once);

      // One of the nodes: its own, in their order. The other's still wait.
      const std::vector<InterruptReport> own = unmask(uint64_t{1} << node, true);
      ASSERT_EQ(own.size(), 4U);
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(own[i].node, node);
        EXPECT_EQ(own[i].fence, 101 + 5 * i);
        EXPECT_EQ(own[i].raw_type, static_cast<uint32_t>(kOfDma[i]));
      }
      EXPECT_EQ(told(world, {of_node(DXGK_INTERRUPT_DMA_COMPLETED, node)}).size(), 1U);
      EXPECT_EQ(told(world, {of_node(DXGK_INTERRUPT_DMA_COMPLETED, 9, 7)}).size(), 0U);
      EXPECT_TRUE(unmask(uint64_t{1} << node, true).empty());
      // Of several at once; dropped ones do not come later.
      interrupts.mask(uint64_t{1} << node);
      EXPECT_TRUE(told(world, {of_node(DXGK_INTERRUPT_DMA_COMPLETED, node)}).empty());
      EXPECT_TRUE(unmask(uint64_t{1} << node, false).empty());
      EXPECT_EQ(unmask(uint64_t{1} << 9 | uint64_t{1} << node, true).size(), 5U);
      EXPECT_TRUE(unmask(~uint64_t{0}, true).empty());
      EXPECT_EQ(told(world, {of_node(DXGK_INTERRUPT_DMA_COMPLETED, 9)}).size(), 1U);
      EXPECT_EQ(world.rules(), "");
    });
  }
}

/// INT-21: each report of a node whose engine is being reset says so; of others, and of none, not.
TEST(InterruptReports, EachTypeOfAnEngineInResetSaysSo) {
  DXGKIT_COVERS("INT-21");
  for (const uint32_t node : {0U, 1U, 63U}) {
    in_world([&](CoreWorld& world) {
      Interrupts& interrupts = world.core().interrupts;
      interrupts.enter_engine_reset(NodeOrdinal{node});
      const auto in_reset = [&](const Data& data) {
        return told(world, {data}).at(0).in_engine_reset;
      };
      for (const bool inside : {true, false}) {
        for (const DXGK_INTERRUPT_TYPE type : kOfDma) {
          EXPECT_EQ(in_reset(of_node(type, node)), inside) << int{type};
          EXPECT_FALSE(in_reset(of_node(type, node ^ 1U))) << int{type};
          EXPECT_FALSE(in_reset(of_node(type, 64 + node))) << int{type};
        }
        for (const DXGK_INTERRUPT_TYPE type : kOfOtherEngines) {
          EXPECT_EQ(in_reset(of_node(type, node)), inside) << int{type};
          EXPECT_FALSE(in_reset(of_node(type, node ^ 1U))) << int{type};
        }
        for (const DXGK_INTERRUPT_TYPE type : kOfScreens) {
          Data data = of_type(type);
          data.CrtcVsync.VidPnTargetId = node;
          EXPECT_FALSE(in_reset(data)) << int{type};
        }
        if (inside) interrupts.leave_engine_reset(NodeOrdinal{node});
      }
      // Several, one of which comes out; then all.
      interrupts.enter_engine_reset(NodeOrdinal{2});
      interrupts.enter_engine_reset(NodeOrdinal{3});
      interrupts.leave_engine_reset(NodeOrdinal{2});
      EXPECT_FALSE(in_reset(of_node(DXGK_INTERRUPT_DMA_FAULTED, 2)));
      EXPECT_TRUE(in_reset(of_node(DXGK_INTERRUPT_DMA_FAULTED, 3)));
      interrupts.forget_engine_resets();
      EXPECT_FALSE(in_reset(of_node(DXGK_INTERRUPT_DMA_FAULTED, 3)));
    });
  }
}

/// PREEMPT-07: the last preemption that each node reported, and which reports came while the driver
/// was asked.
TEST(InterruptReports, PreemptionsAreKeptByNode) {
  DXGKIT_COVERS("PREEMPT-07");
  in_world([](CoreWorld& world) {
    Interrupts& interrupts = world.core().interrupts;
    const auto last = [&](uint32_t node) { return interrupts.last_preempted(NodeOrdinal{node}); };
    interrupts.begin_preempt();
    EXPECT_TRUE(told(world, {of_node(DXGK_INTERRUPT_DMA_PREEMPTED, 1, 31)}).at(0).inside_preempt);
    EXPECT_TRUE(told(world, {of_node(DXGK_INTERRUPT_DMA_COMPLETED, 1, 99)}).at(0).inside_preempt);
    interrupts.end_preempt();
    EXPECT_FALSE(told(world, {of_node(DXGK_INTERRUPT_DMA_PREEMPTED, 63, 32)}).at(0).inside_preempt);
    EXPECT_EQ(last(0), 0U);
    EXPECT_EQ(last(1), 31U);
    EXPECT_EQ(last(63), 32U);
    for (const DXGK_INTERRUPT_TYPE type : {DXGK_INTERRUPT_DMA_COMPLETED, DXGK_INTERRUPT_DMA_FAULTED,
                                           DXGK_INTERRUPT_DMA_PAGE_FAULTED})
      told(world, {of_node(type, 1, 50)});
    EXPECT_EQ(last(1), 31U);
    // One that is held back counts all the same.
    interrupts.mask(2);
    EXPECT_TRUE(told(world, {of_node(DXGK_INTERRUPT_DMA_PREEMPTED, 1, 33)}).empty());
    EXPECT_EQ(last(1), 33U);
  });
}

/// INT-03 and INT-08, by what a run of the ISR did and answered.
TEST(InterruptReports, ARunOfTheIsrIsJudgedByWhatItDid) {
  DXGKIT_COVERS("INT-03", "INT-08");
  const Call report{.data = of_node(DXGK_INTERRUPT_DMA_COMPLETED, 0, 1)};
  struct Row {
    const char* what;
    std::vector<Call> calls;
    BOOLEAN answer;
    const char* rules;
  };
  const Row rows[] = {
      {"nothing, not its own", {}, FALSE, ""},
      {"nothing, its own", {}, TRUE, ""},
      {"a report and a DPC", {report, kQueue}, TRUE, ""},
      {"reports and a DPC", {report, report, kQueue}, TRUE, ""},
      {"a DPC only", {kQueue}, TRUE, ""},
      {"a DPC only, not its own", {kQueue}, FALSE, ""},
      {"a report without a DPC", {report}, TRUE, "INT-03 "},
      {"a report behind the DPC", {report, kQueue, report}, TRUE, "INT-03 "},
      {"a report that is not its own", {report, kQueue}, FALSE, "INT-08 "},
      {"both", {report}, FALSE, "INT-03 INT-08 "},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    in_world([&](CoreWorld& world) {
      g_calls = row.calls;
      g_answer = row.answer;
      EXPECT_EQ(world.function.interrupt_line().raise(), row.answer != FALSE);
      EXPECT_EQ(world.rules(), row.rules);
    });
  }
}

/// INT-08: many of one kind in a row are found, once; whatever comes between begins the row anew.
TEST(InterruptReports, OnlyARowOfRefusalsOrSilentClaimsIsFound) {
  DXGKIT_COVERS("INT-08");
  const std::vector<Call> work = {{.data = of_node(DXGK_INTERRUPT_DMA_COMPLETED, 0, 1)}, kQueue};
  struct Row {
    const char* what;
    std::vector<Call> calls;  // of those in the row
    BOOLEAN answer;
    int many;                  // the one that is found
    std::vector<Call> others;  // what breaks the row
    BOOLEAN other_answer;
  };
  const Row rows[] = {
      {"refusals, a silent claim", {}, FALSE, 100, {}, TRUE},
      {"refusals, work", {}, FALSE, 100, work, TRUE},
      {"claims, a refusal", {}, TRUE, 1000, {}, FALSE},
      {"claims, work", {}, TRUE, 1000, work, TRUE},
      {"claims, a DPC", {}, TRUE, 1000, {kQueue}, TRUE},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    in_world([&](CoreWorld& world) {
      bus::InterruptLine& line = world.function.interrupt_line();
      const auto run = [&](int times) {
        g_calls = row.calls;
        g_answer = row.answer;
        for (int i = 0; i < times; ++i) static_cast<void>(line.raise());
      };
      run(row.many - 1);
      g_calls = row.others;
      g_answer = row.other_answer;
      static_cast<void>(line.raise());
      run(row.many - 1);
      EXPECT_EQ(world.rules(), "");
      run(1);
      EXPECT_EQ(world.rules(), "INT-08 ");
      EXPECT_EQ(world.findings.total(), 1U);
      run(row.many - 1);
      EXPECT_EQ(world.findings.count("INT-08"), 1U) << "it has been said";
    });
  }
}

/// INT-08: interrupts of another device on the line. They are in no row.
TEST(InterruptReports, AnInterruptOfAnotherDeviceIsClaimedByMistakeOnly) {
  DXGKIT_COVERS("INT-08");
  const Call report{.data = of_node(DXGK_INTERRUPT_DMA_COMPLETED, 0, 1)};
  struct Row {
    const char* what;
    std::vector<Call> calls;
    BOOLEAN answer;
    const char* rules;
  };
  const Row rows[] = {
      {"left to it", {}, FALSE, ""},
      {"claimed", {}, TRUE, "INT-08 "},
      {"its own came just then", {report, kQueue}, TRUE, ""},
      {"a DPC was queued", {kQueue}, TRUE, ""},
      {"reported and left to it", {report, kQueue}, FALSE, "INT-08 "},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    in_world([&](CoreWorld& world) {
      g_calls = row.calls;
      g_answer = row.answer;
      world.core().interrupts.raised_by_another();
      EXPECT_EQ(world.rules(), row.rules);
    });
  }
  // A cause of its own is dismissed by what the routine does, and cannot be there again and again.
  in_world([&](CoreWorld& world) {
    const auto interrupt = [&](std::vector<Call> calls, BOOLEAN answer) {
      g_calls = std::move(calls);
      g_answer = answer;
      world.core().interrupts.raised_by_another();
    };
    for (int round = 0; round < 2; ++round) {
      for (const std::vector<Call>& between : {std::vector<Call>{}, {report, kQueue}}) {
        interrupt({kQueue}, TRUE);
        interrupt({kQueue}, TRUE);
        interrupt(between, between.empty() ? FALSE : TRUE);
      }
    }
    EXPECT_EQ(world.rules(), "");
    for (int i = 0; i < 2; ++i) interrupt({kQueue}, TRUE);
    EXPECT_EQ(world.rules(), "");
    interrupt({kQueue}, TRUE);
    EXPECT_EQ(world.rules(), "INT-08 ");
    interrupt({kQueue}, TRUE);
    EXPECT_EQ(world.findings.total(), 1U) << "it has been said";
  });
  in_world([](CoreWorld& world) {
    g_answer = FALSE;
    for (int i = 0; i < 60; ++i) {
      static_cast<void>(world.function.interrupt_line().raise());
      world.core().interrupts.raised_by_another();
    }
    EXPECT_EQ(world.rules(), "");
    for (int i = 0; i < 40; ++i) static_cast<void>(world.function.interrupt_line().raise());
    EXPECT_EQ(world.rules(), "INT-08 ");
  });
}

/// A synchronised routine: what it answers, without a place for the answer, inside another, and
/// none at all.
TEST(InterruptReports, ASynchronisedRoutineAnswers) {
  DXGKIT_COVERS("INT-02", "INT-28");
  in_world([](CoreWorld& world) {
    Interrupts& interrupts = world.core().interrupts;
    nt::CallFrame frame(world.kernel, "caller", nt::kPassiveLevel);
    interrupts.set_message(5);
    static int runs;
    static nt::Irql level;
    runs = 0;
    constexpr auto yes = +[](void*) NTAPI -> BOOLEAN {
      ++runs;
      level = nt::CallFrame::current().irql();
      return TRUE;
    };
    constexpr auto no = +[](void*) NTAPI -> BOOLEAN {
      ++runs;
      return FALSE;
    };
    BOOLEAN result = FALSE;
    EXPECT_EQ(interrupts.synchronize(yes, nullptr, 5, &result), Status::kSuccess);
    EXPECT_EQ(result, TRUE);
    EXPECT_EQ(level, nt::kDeviceLevel);
    EXPECT_EQ(interrupts.synchronize(no, nullptr, 5, &result), Status::kSuccess);
    EXPECT_EQ(result, FALSE);
    EXPECT_EQ(interrupts.synchronize(yes, nullptr, 5, nullptr), Status::kSuccess);
    EXPECT_EQ(runs, 3);
    result = 77;
    EXPECT_EQ(interrupts.synchronize(nullptr, nullptr, 5, &result), Status::kInvalidParameter);
    EXPECT_EQ(result, 77);
    EXPECT_EQ(world.rules(), "");
    for (const uint32_t message : {0U, 4U, 6U}) {
      EXPECT_EQ(interrupts.synchronize(yes, nullptr, message, nullptr), Status::kSuccess);
    }
    EXPECT_EQ(world.findings.count("INT-02"), 3U);
    EXPECT_EQ(runs, 6);
    // Inside another it would wait for ever on Windows (INT-28). Here the lock stays with the outer
    // one, and reports are in order in both.
    constexpr auto outer = +[](void* opaque) NTAPI -> BOOLEAN {
      Interrupts& mine = *static_cast<Interrupts*>(opaque);
      constexpr auto inner = +[](void* same) NTAPI -> BOOLEAN {
        static_cast<Interrupts*>(same)->notify_interrupt(
            of_node(DXGK_INTERRUPT_DMA_COMPLETED, 0, 8));
        return TRUE;
      };
      EXPECT_EQ(mine.synchronize(inner, &mine, 5, nullptr), Status::kSuccess);
      mine.notify_interrupt(of_node(DXGK_INTERRUPT_DMA_COMPLETED, 0, 9));
      return mine.queue_dpc() ? TRUE : FALSE;
    };
    EXPECT_EQ(interrupts.synchronize(outer, &interrupts, 5, &result), Status::kSuccess);
    EXPECT_EQ(result, TRUE);
    EXPECT_EQ(world.host.seen().size(), 2U);
    EXPECT_EQ(world.findings.count("INT-28"), 1U);
    EXPECT_EQ(world.findings.total(), 4U) << world.rules();
    interrupts.disconnect();
    EXPECT_EQ(interrupts.synchronize(yes, nullptr, 5, &result), Status::kUnsuccessful);
    EXPECT_EQ(runs, 6);
  });
}

}  // namespace
}  // namespace dxgkit::port
