#include "port/adapter_port.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "dxgkit/abi_versions.h"
#include "port/port_world_test.h"
#include "port/support.h"

namespace dxgkit::port {
namespace {

using testing::ScriptedMiniport;

/// A DMA buffer in system memory with private data.
struct Buffer {
  explicit Buffer(uint32_t size = 4096, uint32_t private_size = 64)
      : dma(static_cast<std::byte*>(std::aligned_alloc(4096, size))), private_data(private_size) {
    std::memset(dma, 0, size);
    view.cpu = dma;
    view.size_bytes = size;
    view.physical_address = 0x1'2345'6000;
    view.private_data = private_data.data();
    view.private_size_bytes = private_size;
  }
  ~Buffer() { std::free(dma); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* dma;
  std::vector<std::byte> private_data;
  DmaBufferView view;
};

/// The whole way of one packet: render with a patch list, patch, submit, interrupt, DPC, report.
TEST(AdapterPort, TakesAPacketThereAndBack) {
  in_both_modes([] {
    PortWorld world;
    world.start();
    const auto device = world.adapter->create_device(0x40, false);
    ASSERT_TRUE(device.has_value());
    const auto context =
        world.adapter->create_context(device->handle, 0x80, NodeOrdinal{1}, 1, false, {});
    ASSERT_TRUE(context.has_value());
    EXPECT_EQ(context->dma_buffer_bytes, world.miniport.config.dma_buffer_bytes);

    Buffer buffer;
    std::array<std::byte, 64> command{};
    std::array<AllocationListEntry, 2> list{};
    list[1].device_handle = &list;
    std::array<PatchLocation, 1> patches{
        {{.allocation_index = 1, .allocation_offset = 0x10, .patch_offset = 24}}};
    std::array<PatchLocation, 8> patches_out{};
    RenderArgs render;
    render.context = context->handle;
    render.command = command.data();
    render.command_length = command.size();
    render.buffer = buffer.view;
    render.allocations = list.data();
    render.allocation_count = list.size();
    render.patches_in = patches.data();
    render.patches_in_count = patches.size();
    render.patches_out = patches_out.data();
    render.patches_out_capacity = patches_out.size();
    const RenderResult rendered = world.adapter->render(render);
    ASSERT_EQ(rendered.status, Status::kSuccess);
    EXPECT_EQ(rendered.dma_bytes, 64u);
    EXPECT_EQ(rendered.patch_count, 1u);

    list[1].set(true, SegmentId{2}, 0x2'0000'1000);
    PatchArgs patch;
    patch.context = context->handle;
    patch.buffer = buffer.view;
    patch.slice = {.start = 0, .end = 64, .private_start = 0, .private_end = 64};
    patch.allocations = list.data();
    patch.allocation_count = list.size();
    patch.patches = patches_out.data();
    patch.patch_count = 1;
    patch.patch_length = 1;
    patch.fence = SubmissionFenceId{7};
    ASSERT_EQ(world.adapter->patch(patch), Status::kSuccess);
    uint64_t word = 0;
    std::memcpy(&word, buffer.dma + 24, 8);
    EXPECT_EQ(word, 0x2'0000'1010u);

    SubmitArgs submit;
    submit.context = context->handle;
    submit.buffer = buffer.view;
    submit.slice = patch.slice;
    submit.fence = SubmissionFenceId{7};
    submit.node = NodeOrdinal{1};
    ASSERT_EQ(world.adapter->submit(submit), Status::kSuccess);
    EXPECT_EQ(world.miniport.outstanding(1), std::vector<uint32_t>{7});
    EXPECT_TRUE(world.host.seen().empty());

    EXPECT_TRUE(world.miniport.complete_next(1));
    const auto seen = world.host.seen();
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].type, InterruptReport::Type::kDmaCompleted);
    EXPECT_EQ(seen[0].fence, 7u);
    EXPECT_EQ(seen[0].node, 1u);
    EXPECT_EQ(world.host.irqls, std::vector<nt::Irql>{nt::kDispatchLevel});

    EXPECT_EQ(world.adapter->destroy_context(context->handle), Status::kSuccess);
    EXPECT_EQ(world.adapter->destroy_device(device->handle), Status::kSuccess);
    EXPECT_EQ(world.miniport.live_objects(), 0u);
    world.stop();
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

}  // namespace
}  // namespace dxgkit::port
