// A port whose driver has GPU virtual addresses, for the tests of this folder.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "port/port_world_test.h"
#include "tests/support/scripted_gpu_va.h"

namespace dxgkit::port {

using testing::GpuVaConfig;
using testing::ScriptedGpuVa;

inline constexpr SegmentId kHidden{2};

/// Keeps what DxgkCbReserveGpuVirtualAddressRange asked for.
class ReservingHost : public RecordingHost {
 public:
  Result<uint64_t> reserve_gpu_va(const GpuVaReservation& range) override {
    asked.push_back(range);
    return answer;
  }
  std::vector<GpuVaReservation> asked;
  Result<uint64_t> answer = uint64_t{0x4000'0000};
};

/// A port, a driver with an MMU, and a paging buffer.
struct GpuVaWorld {
  explicit GpuVaWorld(GpuVaConfig config = GpuVaConfig::gpu_physical_four_level())
      : gpu(world.miniport, world.machine, std::move(config)) {}
  ~GpuVaWorld() {
    world.adapter.reset();
    world.driver.reset();
  }
  void start() {
    auto result =
        Driver::load(world.kernel, world.findings, world.miniport.source(), &world.message);
    ASSERT_TRUE(result.has_value()) << world.message;
    world.driver = std::move(*result);
    world.adapter = std::make_unique<AdapterPort>(*world.driver, world.kernel, world.machine,
                                                  world.miniport.function(), host, world.findings);
    ASSERT_EQ(port().life().add_device(), Status::kSuccess);
    ASSERT_TRUE(port().life().start_device().has_value());
    ASSERT_TRUE(port().caps().query_driver_caps().has_value());
    const Result<GpuMmuCaps> caps = port().gpu_va().query_gpu_mmu();
    ASSERT_TRUE(caps.has_value());
    mmu = *caps;
    const auto pages = world.machine.allocate_contiguous(kBufferBytes / kPageBytes);
    ASSERT_TRUE(pages.has_value());
    buffer_address = pages->value * kPageBytes;
    buffer = world.machine.system_pointer(bus::PhysicalAddress{buffer_address}, kBufferBytes);
  }
  AdapterPort& port() { return *world.adapter; }

  /// A process, its device, a virtual context, its root.
  void* make_context(uint32_t handle, const RootPageTable& root, bool system = false) {
    const Result<void*> process = port().objects().create_process(system ? 0 : handle, system);
    EXPECT_TRUE(process.has_value());
    const Result<DeviceInfo> device = port().objects().create_device(handle + 1, system, *process);
    EXPECT_TRUE(device.has_value());
    const Result<ContextInfo> context = port().objects().create_context(
        device->handle, handle + 2, NodeOrdinal{0}, 1, system, {}, true);
    EXPECT_TRUE(context.has_value());
    EXPECT_EQ(port().gpu_va().set_root_page_table(context->handle, root), Status::kSuccess);
    return context->handle;
  }

  BuildPagingResult build(const PagingOperation& operation, uint32_t bytes = kBufferBytes,
                          uint32_t multipass = 0) {
    BuildPagingArgs args;
    args.buffer = bytes == 0 ? nullptr : buffer;
    args.buffer_bytes = bytes;
    args.buffer_physical_address = buffer_address;
    args.multipass_offset = multipass;
    args.operation = &operation;
    return port().paging().build_paging(args);
  }
  /// Builds, in as many passes as it takes, and lets the engine run it.
  size_t run(const PagingOperation& operation, void* context = nullptr,
             uint32_t bytes = kBufferBytes) {
    size_t passes = 0;
    for (uint32_t multipass = 0;;) {
      const BuildPagingResult built = build(operation, bytes, multipass);
      EXPECT_TRUE(built.status == Status::kSuccess ||
                  built.status == Status::kGraphicsInsufficientDmaBuffer);
      ++passes;
      SubmitArgs submit;
      submit.context = context;
      submit.buffer = {.segment = kSystemMemory,
                       .physical_address = buffer_address,
                       .cpu = buffer,
                       .size_bytes = bytes};
      submit.slice.end = built.bytes_written;
      submit.fence = SubmissionFenceId{++fence};
      submit.node = NodeOrdinal{1};
      submit.flags.paging = true;
      EXPECT_EQ(port().submission().submit(submit), Status::kSuccess);
      EXPECT_TRUE(world.miniport.complete(1, fence));
      if (built.status == Status::kSuccess || passes > 100) return passes;
      multipass = built.multipass_offset;
    }
  }

  /// Writes entries of a table of the hidden segment.
  size_t update(uint32_t level, uint64_t table, uint32_t first, std::vector<PageTableEntry> entries,
                uint64_t protection = 0, uint32_t bytes = kBufferBytes) {
    PagingOperation operation;
    operation.kind = PagingOperation::Kind::kUpdatePageTable;
    operation.page_table.level = level;
    operation.page_table.mode = PageTableUpdateMode::kGpuPhysical;
    operation.page_table.table_physical = {kHidden, table};
    operation.page_table.entries = entries.data();
    operation.page_table.start_index = first;
    operation.page_table.count = static_cast<uint32_t>(entries.size());
    operation.page_table.driver_protection = protection;
    return run(operation, nullptr, bytes);
  }
  static PageTableEntry pointing(SegmentId segment, uint64_t offset, uint64_t flags = 0) {
    return {gpuva::kPteValid | flags | uint64_t{segment.value} << gpuva::kPteSegmentShift,
            offset / kPageBytes};
  }
  /// Four levels above `leaf`, which then translates the first 2 MiB from 1 GiB on.
  static constexpr uint64_t kVa = uint64_t{1} << 30, kRoot = 0x10000, kLeaf = 0x16000;
  RootPageTable make_tables() {
    update(3, kRoot, 0, {pointing(kHidden, 0x12000)});
    update(2, 0x12000, 1, {pointing(kHidden, 0x14000)});
    update(1, 0x14000, 0, {pointing(kHidden, kLeaf)});
    return {{kHidden, kRoot}, 512};
  }
  bool submit_user(void* context, uint64_t va, uint32_t bytes, uint32_t node = 0) {
    SubmitVirtualArgs submit;
    submit.context = context;
    submit.buffer_va = va;
    submit.buffer_bytes = bytes;
    submit.fence = SubmissionFenceId{++fence};
    submit.node = NodeOrdinal{node};
    EXPECT_EQ(port().submission().submit_virtual(submit), Status::kSuccess);
    return world.miniport.complete(node, fence);
  }

  static constexpr uint32_t kBufferBytes = 16384;
  PortWorld world;
  ScriptedGpuVa gpu;
  ReservingHost host;
  GpuMmuCaps mmu;
  uint64_t buffer_address = 0;
  std::byte* buffer = nullptr;
  uint32_t fence = 0;
};

inline void in_world(const GpuVaConfig& config, const std::function<void(GpuVaWorld&)>& body,
                     const std::function<void(GpuVaWorld&)>& prepare = nullptr) {
  in_both_modes([&] {
    GpuVaWorld world(config);
    if (prepare) prepare(world);
    world.start();
    if (::testing::Test::HasFatalFailure()) return;
    body(world);
  });
}
inline void in_world(const std::function<void(GpuVaWorld&)>& body,
                     const std::function<void(GpuVaWorld&)>& prepare = nullptr) {
  in_world(GpuVaConfig::gpu_physical_four_level(), body, prepare);
}

}  // namespace dxgkit::port
