#include "port/ddi/hw_queue.h"

#include <cstring>

#include "port/port_world_test.h"

namespace dxgkit::port {
namespace {

/// The arguments of the driver below, and its answers.
struct Seen {
  void* parent = nullptr;
  DXGKARG_CREATEHWCONTEXT context{};
  DXGKARG_CREATEHWQUEUE queue{};
  DXGKARG_SUBMITCOMMANDTOHWQUEUE submission{};
  void* destroyed = nullptr;
  nt::Irql irql = 0;
  Status answer = Status::kSuccess;
};
Seen* g_seen = nullptr;

NTSTATUS answer() {
  g_seen->irql = nt::CallFrame::current().irql();
  return to_ntstatus(g_seen->answer);
}
NTSTATUS NTAPI create_context(void* device, DXGKARG_CREATEHWCONTEXT* args) {
  g_seen->parent = device;
  g_seen->context = *args;
  args->hHwContext = &g_seen->context;
  return answer();
}
NTSTATUS NTAPI create_queue(void* context, DXGKARG_CREATEHWQUEUE* args) {
  g_seen->parent = context;
  g_seen->queue = *args;
  args->hHwQueue = &g_seen->queue;
  return answer();
}
NTSTATUS NTAPI destroy(void* handle) {
  g_seen->destroyed = handle;
  return answer();
}
NTSTATUS NTAPI submit(void*, const DXGKARG_SUBMITCOMMANDTOHWQUEUE* args) {
  g_seen->submission = *args;
  return answer();
}

void fill(DRIVER_INITIALIZATION_DATA& table) {
  table.DxgkDdiCreateHwContext =
      reinterpret_cast<decltype(table.DxgkDdiCreateHwContext)>(&create_context);
  table.DxgkDdiDestroyHwContext =
      reinterpret_cast<decltype(table.DxgkDdiDestroyHwContext)>(&destroy);
  table.DxgkDdiCreateHwQueue =
      reinterpret_cast<decltype(table.DxgkDdiCreateHwQueue)>(&create_queue);
  table.DxgkDdiDestroyHwQueue = reinterpret_cast<decltype(table.DxgkDdiDestroyHwQueue)>(&destroy);
  table.DxgkDdiSubmitCommandToHwQueue =
      reinterpret_cast<decltype(table.DxgkDdiSubmitCommandToHwQueue)>(&submit);
}

void in_world(uint32_t version, bool has_entries,
              const std::function<void(HwQueuePort&, Seen&)>& body) {
  in_both_modes([&] {
    Seen seen;
    g_seen = &seen;
    PortWorld world;
    world.miniport.config.version = version;
    if (has_entries) world.miniport.config.table = fill;
    world.start();
    body(world.adapter->hw_queues(), seen);
    EXPECT_TRUE(world.findings.all().empty()) << world.findings_text();
    world.stop();
    g_seen = nullptr;
  });
}

TEST(HwQueue, EveryMemberArrives) {
  in_world(DXGKDDI_INTERFACE_VERSION_WDDM2_2, true, [](HwQueuePort& port, Seen& seen) {
    std::byte data[24] = {};
    const Result<void*> context = port.create_hw_context(&port, 0x40, NodeOrdinal{1}, 3, data);
    ASSERT_TRUE(context.has_value());
    EXPECT_EQ(*context, &seen.context) << "the driver's";
    EXPECT_EQ(seen.parent, &port);
    EXPECT_EQ(seen.context.hHwContext, reinterpret_cast<void*>(0x40));
    EXPECT_EQ(seen.context.NodeOrdinal, 1U);
    EXPECT_EQ(seen.context.EngineAffinity, 3U);
    EXPECT_EQ(seen.context.Flags.Value, 0U);
    EXPECT_NE(seen.context.pPrivateDriverData, nullptr) << "a copy between guards";
    EXPECT_EQ(seen.context.PrivateDriverDataSize, 24U);
    EXPECT_EQ(seen.irql, nt::kPassiveLevel);

    HwQueueArgs wanted;
    wanted.handle = 0x80;
    wanted.flags = 5;
    wanted.private_data = std::span(data).first(8);
    wanted.progress_fence = 0xC0;
    wanted.progress_fence_cpu = data;
    wanted.progress_fence_va = 0x12'3456'7000;
    const Result<void*> queue = port.create_hw_queue(*context, wanted);
    ASSERT_TRUE(queue.has_value());
    EXPECT_EQ(*queue, &seen.queue);
    EXPECT_EQ(seen.parent, *context);
    EXPECT_EQ(seen.queue.hHwQueue, reinterpret_cast<void*>(0x80));
    EXPECT_EQ(seen.queue.Flags.Value, 5U);
    EXPECT_NE(seen.queue.pPrivateDriverData, nullptr) << "a copy between guards";
    EXPECT_EQ(seen.queue.PrivateDriverDataSize, 8U);
    EXPECT_EQ(seen.queue.hHwQueueProgressFence, 0xC0U);
    EXPECT_EQ(seen.queue.HwQueueProgressFenceCPUVirtualAddress, data);
    EXPECT_EQ(seen.queue.HwQueueProgressFenceGPUVirtualAddress, 0x12'3456'7000U);
    EXPECT_EQ(seen.irql, nt::kPassiveLevel);

    HwQueueSubmission work;
    work.queue = *queue;
    work.progress_fence = 0x1'0000'0001;
    work.buffer_va = 0x7'0000'0000;
    work.buffer_bytes = 4096;
    work.private_data = data;
    work.private_bytes = 16;
    work.progress_fence_va = wanted.progress_fence_va;
    work.progress_fence_cpu = data;
    EXPECT_EQ(port.submit(work), Status::kSuccess);
    EXPECT_EQ(seen.irql, nt::kDispatchLevel);
    EXPECT_EQ(seen.submission.hHwQueue, *queue);
    EXPECT_EQ(seen.submission.HwQueueProgressFenceId, 0x1'0000'0001U) << "64 bits";
    EXPECT_EQ(seen.submission.DmaBufferVirtualAddress, 0x7'0000'0000U);
    EXPECT_EQ(seen.submission.DmaBufferSize, 4096U);
    EXPECT_EQ(seen.submission.pDmaBufferPrivateData, data);
    EXPECT_EQ(seen.submission.DmaBufferPrivateDataSize, 16U);
    EXPECT_EQ(seen.submission.Flags.Value, 0U) << "a user's buffer";
    EXPECT_EQ(seen.submission.HwQueueProgressFenceGpuVa, 0x12'3456'7000U);
    EXPECT_EQ(seen.submission.HwQueueProgressFenceCpuVa, data);
    work.present = true;
    work.private_bytes = 0;
    EXPECT_EQ(port.submit(work), Status::kSuccess);
    EXPECT_EQ(seen.submission.Flags.Value, 2U) << "Present alone";
    EXPECT_NE(seen.submission.pDmaBufferPrivateData, data) << "size 0: a guard page";

    EXPECT_EQ(port.destroy_hw_queue(*queue), Status::kSuccess);
    EXPECT_EQ(seen.destroyed, *queue);
    EXPECT_EQ(port.destroy_hw_context(*context), Status::kSuccess);
    EXPECT_EQ(seen.destroyed, *context);
  });
}

TEST(HwQueue, TheDriversRefusalIsPassedOn) {
  in_world(DXGKDDI_INTERFACE_VERSION_WDDM2_2, true, [](HwQueuePort& port, Seen& seen) {
    seen.answer = Status::kNoMemory;
    EXPECT_EQ(port.create_hw_context(nullptr, 1, NodeOrdinal{0}, 1, {}).error(), Status::kNoMemory);
    EXPECT_EQ(port.create_hw_queue(nullptr, {}).error(), Status::kNoMemory);
    EXPECT_EQ(port.submit({}), Status::kNoMemory);
    EXPECT_EQ(port.destroy_hw_queue(nullptr), Status::kNoMemory);
    EXPECT_EQ(port.destroy_hw_context(nullptr), Status::kNoMemory);
  });
}

TEST(HwQueue, WithoutTheEntriesNobodyIsCalled) {
  for (const auto& [version, has_entries] :
       {std::pair{uint32_t{DXGKDDI_INTERFACE_VERSION_WDDM2_2}, false},
        std::pair{uint32_t{DXGKDDI_INTERFACE_VERSION_WDDM2_1}, true}}) {
    in_world(version, has_entries, [](HwQueuePort& port, Seen& seen) {
      EXPECT_EQ(port.create_hw_context(nullptr, 1, NodeOrdinal{0}, 1, {}).error(),
                Status::kNotSupported);
      EXPECT_EQ(port.create_hw_queue(nullptr, {}).error(), Status::kNotSupported);
      EXPECT_EQ(port.submit({}), Status::kNotSupported);
      EXPECT_EQ(port.destroy_hw_queue(nullptr), Status::kNotSupported);
      EXPECT_EQ(port.destroy_hw_context(nullptr), Status::kNotSupported);
      EXPECT_EQ(seen.parent, nullptr);
    });
  }
}

}  // namespace
}  // namespace dxgkit::port
