// What an interrupt report says, member by member, and what becomes of reports that are kept back.
#include <array>
#include <cstring>

#include "port/port_world_test.h"

namespace dxgkit::port {
namespace {

using Data = DXGKARGCB_NOTIFY_INTERRUPT_DATA;
using Type = InterruptReport::Type;

template <typename T>
T handle(uint64_t value) {
  return reinterpret_cast<T>(value);
}

/// What the host hears of one report.
InterruptReport told(const Data& data, uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM3_2) {
  InterruptReport report;
  runtime::make_sim_runtime(1)->run_main([&] {
    PortWorld world;
    world.miniport.config.version = version;
    world.start();
    EXPECT_TRUE(world.miniport.raise(data));
    const std::vector<InterruptReport> seen = world.host.seen();
    ASSERT_EQ(seen.size(), 1U);
    report = seen[0];
    world.stop();
  });
  EXPECT_EQ(report.raw_type, static_cast<uint32_t>(data.InterruptType));
  return report;
}

Data data_of(DXGK_INTERRUPT_TYPE type) {
  Data data{};
  data.InterruptType = type;
  return data;
}

TEST(Report, OfAnEngineNamesFenceNodeAndEngine) {
  DXGKIT_COVERS("INT-01");
  Data data = data_of(DXGK_INTERRUPT_DMA_COMPLETED);
  data.DmaCompleted = {.SubmissionFenceId = 11, .NodeOrdinal = 2, .EngineOrdinal = 3};
  InterruptReport report = told(data);
  EXPECT_EQ(report.type, Type::kDmaCompleted);
  EXPECT_EQ(report.fence, 11U);
  EXPECT_EQ(report.node, 2U);
  EXPECT_EQ(report.engine, 3U);

  data = data_of(DXGK_INTERRUPT_DMA_PREEMPTED);
  data.DmaPreempted = {
      .PreemptionFenceId = 12, .LastCompletedFenceId = 9, .NodeOrdinal = 4, .EngineOrdinal = 5};
  report = told(data);
  EXPECT_EQ(report.type, Type::kDmaPreempted);
  EXPECT_EQ(report.fence, 12U);
  EXPECT_EQ(report.last_completed, 9U);
  EXPECT_EQ(report.node, 4U);
  EXPECT_EQ(report.engine, 5U);

  data = data_of(DXGK_INTERRUPT_DMA_FAULTED);
  data.DmaFaulted = {
      .FaultedFenceId = 13, .Status = STATUS_UNSUCCESSFUL, .NodeOrdinal = 6, .EngineOrdinal = 7};
  report = told(data);
  EXPECT_EQ(report.type, Type::kDmaFaulted);
  EXPECT_EQ(report.fence, 13U);
  EXPECT_EQ(report.status, STATUS_UNSUCCESSFUL);
  EXPECT_EQ(report.node, 6U);
  EXPECT_EQ(report.engine, 7U);

  data = data_of(DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED);
  data.MonitoredFenceSignaled = {.NodeOrdinal = 3, .EngineOrdinal = 2};
  report = told(data);
  EXPECT_EQ(report.type, Type::kMonitoredFenceSignaled);
  EXPECT_EQ(report.node, 3U);
  EXPECT_EQ(report.engine, 2U);

  data = data_of(DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED);
  data.SuspendContextCompleted = {.hContext = handle<HANDLE>(0x5000),
                                  .ContextSuspendFence = 0x1'0000'0007};
  report = told(data);
  EXPECT_EQ(report.type, Type::kSuspendCompleted);
  EXPECT_EQ(report.handle, handle<void*>(0x5000));
  EXPECT_EQ(report.fence64, 0x1'0000'0007U);
}

TEST(Report, OfAPageFaultSaysWhereAndWhy) {
  DXGKIT_COVERS("INT-01");
  Data data = data_of(DXGK_INTERRUPT_DMA_PAGE_FAULTED);
  auto& fault = data.DmaPageFaulted;
  fault.FaultedFenceId = 21;
  fault.FaultedPrimitiveAPISequenceNumber = 0x2'0000'0022;
  fault.FaultedPipelineStage = static_cast<DXGK_RENDER_PIPELINE_STAGE>(5);
  fault.FaultedBindTableEntry = 23;
  fault.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(InterruptReport::kFaultWrite |
                                                            InterruptReport::kFaultProcessValid);
  fault.FaultedVirtualAddress = 0x7'0000'1000;
  fault.NodeOrdinal = 2;
  fault.EngineOrdinal = 3;
  fault.PageTableLevel = 4;
  const uint32_t code = 0x8000'0019;
  std::memcpy(&fault.FaultErrorCode, &code, sizeof code);
  fault.FaultedProcessHandle = handle<HANDLE>(0x6000);
  InterruptReport report = told(data);
  EXPECT_EQ(report.type, Type::kDmaPageFaulted);
  EXPECT_EQ(report.fence, 21U);
  EXPECT_EQ(report.primitive, 0x2'0000'0022U);
  EXPECT_EQ(report.pipeline_stage, 5U);
  EXPECT_EQ(report.bind_table_entry, 23U);
  EXPECT_EQ(report.flags, 129U);
  EXPECT_EQ(report.address, 0x7'0000'1000U);
  EXPECT_EQ(report.node, 2U);
  EXPECT_EQ(report.engine, 3U);
  EXPECT_EQ(report.page_table_level, 4U);
  EXPECT_EQ(report.error_code, code);
  EXPECT_EQ(report.process, handle<void*>(0x6000));
  EXPECT_EQ(told(data, DXGKDDI_INTERFACE_VERSION_WDDM2_1).process, nullptr) << "no such member yet";
  EXPECT_EQ(told(data, DXGKDDI_INTERFACE_VERSION_WDDM2_2).process, handle<void*>(0x6000));
  fault.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(InterruptReport::kFaultWrite);
  report = told(data);
  EXPECT_EQ(report.process, nullptr) << "the driver does not vouch for it";
  EXPECT_EQ(report.flags, 1U);

  data = data_of(DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED);
  auto& queue = data.HwQueuePageFaulted;
  queue.FaultedFenceId = 0x3'0000'0031;
  queue.FaultedVirtualAddress = 0x8'0000'2000;
  queue.FaultedHwQueue = handle<HANDLE>(0x7000);
  queue.NodeOrdinal = 5;
  queue.EngineOrdinal = 6;
  queue.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(2);
  queue.PageTableLevel = 3;
  report = told(data);
  EXPECT_EQ(report.type, Type::kHwQueuePageFaulted);
  EXPECT_EQ(report.fence64, 0x3'0000'0031U);
  EXPECT_EQ(report.address, 0x8'0000'2000U);
  EXPECT_EQ(report.handle, handle<void*>(0x7000));
  EXPECT_EQ(report.node, 5U);
  EXPECT_EQ(report.engine, 6U);
  EXPECT_EQ(report.flags, 2U);
  EXPECT_EQ(report.page_table_level, 3U);
}

TEST(Report, OfAScreenNamesTargetOrSource) {
  DXGKIT_COVERS("INT-01");
  Data data = data_of(DXGK_INTERRUPT_CRTC_VSYNC);
  data.CrtcVsync.VidPnTargetId = 31;
  data.CrtcVsync.PhysicalAddress.QuadPart = 0x4'0000'3000;
  InterruptReport report = told(data);
  EXPECT_EQ(report.type, Type::kCrtcVsync);
  EXPECT_EQ(report.source, 31U);
  EXPECT_EQ(report.address, 0x4'0000'3000U);
  EXPECT_EQ(report.planes, 0U);

  std::array<DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO, 3> planes{};
  planes[0].LayerIndex = 2;
  planes[0].PhysicalAddress.QuadPart = 0x5000;
  planes[1].LayerIndex = 0;
  planes[1].PhysicalAddress.QuadPart = 0x6000;
  planes[2].LayerIndex = 1;
  planes[2].PhysicalAddress.QuadPart = 0x7000;
  data = data_of(DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY);
  auto& overlay = data.CrtcVsyncWithMultiPlaneOverlay;
  overlay.VidPnTargetId = 32;
  overlay.MultiPlaneOverlayVsyncInfoCount = 3;
  overlay.pMultiPlaneOverlayVsyncInfo = planes.data();
  report = told(data);
  EXPECT_EQ(report.type, Type::kCrtcVsync);
  EXPECT_EQ(report.source, 32U);
  EXPECT_EQ(report.planes, 3U);
  EXPECT_EQ(report.highest_plane, 2U);
  EXPECT_EQ(report.address, 0x6000U) << "of plane 0";
  overlay.MultiPlaneOverlayVsyncInfoCount = 1;
  report = told(data);
  EXPECT_EQ(report.planes, 1U);
  EXPECT_EQ(report.address, 0U);
  overlay.pMultiPlaneOverlayVsyncInfo = nullptr;
  EXPECT_EQ(told(data).highest_plane, 0U);

  data = data_of(DXGK_INTERRUPT_DISPLAYONLY_VSYNC);
  data.DisplayOnlyVsync.VidPnTargetId = 33;
  report = told(data);
  EXPECT_EQ(report.type, Type::kDisplayOnlyVsync);
  EXPECT_EQ(report.source, 33U);

  data = data_of(DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS);
  data.DisplayOnlyPresentProgress.VidPnSourceId = 34;
  data.DisplayOnlyPresentProgress.ProgressId = DXGK_PRESENT_DISPLAYONLY_PROGRESS_ID_COMPLETE;
  report = told(data);
  EXPECT_EQ(report.type, Type::kPresentProgress);
  EXPECT_EQ(report.source, 34U);
  EXPECT_FALSE(report.failed);
  data.DisplayOnlyPresentProgress.ProgressId = DXGK_PRESENT_DISPLAYONLY_PROGRESS_ID_FAILED;
  EXPECT_TRUE(told(data).failed);

  EXPECT_EQ(told(data_of(DXGK_INTERRUPT_PERIODIC_MONITORED_FENCE_SIGNALED)).type, Type::kOther);
}

TEST(Report, OfNativeFencesListsThem) {
  DXGKIT_COVERS("INT-01");
  std::vector<HANDLE> fences;
  for (uint64_t i = 1; i <= 5000; ++i) fences.push_back(handle<HANDLE>(i * 16));
  Data data = data_of(DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED);
  auto& signaled = data.NativeFenceSignaled;
  signaled.NodeOrdinal = 3;
  signaled.EngineOrdinal = 4;
  signaled.SignaledNativeFenceCount = 2;
  signaled.pSignaledNativeFenceArray = fences.data();
  InterruptReport report = told(data);
  EXPECT_EQ(report.type, Type::kNativeFenceSignaled);
  EXPECT_EQ(report.node, 3U);
  EXPECT_EQ(report.engine, 4U);
  EXPECT_FALSE(report.legacy_fences_too);
  EXPECT_EQ(report.handles, (std::vector<void*>{handle<void*>(16), handle<void*>(32)}));
  data.Flags.EvaluateLegacyMonitoredFences = 1;
  EXPECT_TRUE(told(data).legacy_fences_too);
  signaled.SignaledNativeFenceCount = 5000;
  EXPECT_EQ(told(data).handles.size(), 4096U);
  signaled.pSignaledNativeFenceArray = nullptr;
  EXPECT_TRUE(told(data).handles.empty());
}

// Reports of masked engines wait; those of one engine can be told while the others still wait, and
// what is not told is forgotten.
TEST(Report, OfAMaskedEngineIsKeptBack) {
  DXGKIT_COVERS("TDR-09", "INT-21");
  in_both_modes([] {
    PortWorld world;
    world.start();
    const auto complete = [&](uint32_t node, uint32_t fence) {
      EXPECT_TRUE(world.miniport.raise(testing::ScriptedMiniport::completed_data(node, fence)));
    };
    const auto fences = [&] {
      std::vector<uint32_t> all;
      for (const InterruptReport& report : world.host.seen()) all.push_back(report.fence);
      return all;
    };
    world.adapter->mask_engines(0b1010);
    complete(1, 11);
    complete(3, 31);
    complete(2, 21);
    complete(1, 12);
    complete(3, 32);
    EXPECT_EQ(fences(), (std::vector<uint32_t>{21}));
    world.adapter->unmask_engines(0b0010, true);
    EXPECT_EQ(fences(), (std::vector<uint32_t>{21, 11, 12}));
    complete(1, 13);
    complete(3, 33);
    EXPECT_EQ(fences(), (std::vector<uint32_t>{21, 11, 12, 13}));
    world.adapter->unmask_engines(0b1000, false);
    complete(3, 34);
    EXPECT_EQ(fences(), (std::vector<uint32_t>{21, 11, 12, 13, 34}));
    world.stop();
  });
}

/// A callback of the scripted driver's table, from inside its ISR or a synchronised routine.
void stop_the_machine() {
  reinterpret_cast<void(NTAPI*)(uint32_t)>(
      const_cast<void*>(nt::find_export("KeBugCheck")->address))(0x116);
}

// An ISR that stops the machine is not judged, and the DPC it queued does not run.
TEST(Report, OfAnIsrThatStopsTheMachineIsNoDpcs) {
  in_both_modes([] {
    PortWorld world;
    world.start();
    world.miniport.hooks.interrupt = [&](ULONG) -> BOOLEAN {
      const DXGKRNL_INTERFACE& table = world.miniport.callbacks();
      auto data = testing::ScriptedMiniport::completed_data(0, 5);
      table.DxgkCbQueueDpc(table.DeviceHandle);
      table.DxgkCbNotifyInterrupt(table.DeviceHandle, &data);
      stop_the_machine();
      return TRUE;
    };
    EXPECT_FALSE(world.miniport.raise_line());
    EXPECT_EQ(world.findings.total(), 1U) << world.findings_text();
    EXPECT_EQ(world.miniport.count("DxgkDdiDpcRoutine"), 0U);
    EXPECT_TRUE(world.host.seen().empty());
    EXPECT_FALSE(world.miniport.raise_line()) << "and the ISR neither";
  });
}

// A synchronised routine may have no use for its answer; one that stops the machine ends the DDI
// that asked for it.
TEST(Report, OfASynchronisedRoutineNeedsNoAnswer) {
  DXGKIT_COVERS("IRQL-10");
  in_both_modes([] {
    PortWorld world;
    world.start();
    bool stop = false, came_back = false;
    constexpr auto routine = +[](void* stops) NTAPI -> BOOLEAN {
      if (*static_cast<bool*>(stops)) stop_the_machine();
      return TRUE;
    };
    BOOLEAN result = FALSE;
    world.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      const DXGKRNL_INTERFACE& table = world.miniport.callbacks();
      const NTSTATUS status = table.DxgkCbSynchronizeExecution(table.DeviceHandle, routine, &stop,
                                                               0, stop ? &result : nullptr);
      came_back = true;
      return status;
    };
    EXPECT_EQ(world.adapter->escape(nullptr, nullptr, 0, {}), Status::kSuccess);
    EXPECT_TRUE(came_back);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
    stop = true;
    came_back = false;
    EXPECT_EQ(world.adapter->escape(nullptr, nullptr, 0, {}), Status::kDeviceRemoved);
    EXPECT_FALSE(came_back);
    EXPECT_EQ(result, FALSE);
    EXPECT_EQ(world.findings.total(), 1U) << world.findings_text();
  });
}

}  // namespace
}  // namespace dxgkit::port
