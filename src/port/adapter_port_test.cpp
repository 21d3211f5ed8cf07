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
    const auto device = world.adapter->objects().create_device(0x40, false);
    ASSERT_TRUE(device.has_value());
    const auto context =
        world.adapter->objects().create_context(device->handle, 0x80, NodeOrdinal{1}, 1, false, {});
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
    const RenderResult rendered = world.adapter->rendering().render(render);
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
    ASSERT_EQ(world.adapter->submission().patch(patch), Status::kSuccess);
    uint64_t word = 0;
    std::memcpy(&word, buffer.dma + 24, 8);
    EXPECT_EQ(word, 0x2'0000'1010u);

    SubmitArgs submit;
    submit.context = context->handle;
    submit.buffer = buffer.view;
    submit.slice = patch.slice;
    submit.fence = SubmissionFenceId{7};
    submit.node = NodeOrdinal{1};
    ASSERT_EQ(world.adapter->submission().submit(submit), Status::kSuccess);
    EXPECT_EQ(world.miniport.outstanding(1), std::vector<uint32_t>{7});
    EXPECT_TRUE(world.host.seen().empty());

    EXPECT_TRUE(world.miniport.complete_next(1));
    const auto seen = world.host.seen();
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].type, InterruptReport::Type::kDmaCompleted);
    EXPECT_EQ(seen[0].fence, 7u);
    EXPECT_EQ(seen[0].node, 1u);
    EXPECT_EQ(world.host.irqls, std::vector<nt::Irql>{nt::kDispatchLevel});

    EXPECT_EQ(world.adapter->objects().destroy_context(context->handle), Status::kSuccess);
    EXPECT_EQ(world.adapter->objects().destroy_device(device->handle), Status::kSuccess);
    EXPECT_EQ(world.miniport.live_objects(), 0u);
    world.stop();
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

// --- life

/// The context of AddDevice is what every later DDI gets; a null context means "not mine" and
/// nothing follows.
TEST(AdapterPort, HandsTheContextOn) {
  DXGKIT_COVERS("LIFE-05", "LIFE-06");
  in_both_modes([] {
    {
      PortWorld world;
      world.start();  // the scripted driver finds itself through hAdapter in each of these calls
      EXPECT_EQ(world.miniport.count("DxgkDdiAddDevice"), 1u);
      EXPECT_EQ(world.miniport.count("DxgkDdiStartDevice"), 1u);
      EXPECT_EQ(world.miniport.count("DxgkDdiQueryAdapterInfo"), 1u);
      world.stop();
    }
    {
      PortWorld world;
      world.miniport.hooks.add_device = [](void** context) {
        *context = nullptr;
        return NTSTATUS{0};
      };
      ASSERT_EQ(world.load(), Status::kSuccess);
      EXPECT_EQ(world.adapter->life().add_device(), Status::kNotSupported);
      EXPECT_EQ(world.miniport.calls().order,
                (std::vector<std::string>{"DriverEntry", "DxgkDdiAddDevice"}));
    }
  });
}

/// Below 2.9 there are no early caps; from 2.9 they are asked before StartDevice, and refused if
/// they do not reach all memory.
TEST(AdapterPort, AsksEarlyCaps) {
  DXGKIT_COVERS("LIFE-07", "LIFE-14");
  in_both_modes([] {
    {
      PortWorld world;
      ASSERT_EQ(world.load(), Status::kSuccess);
      EXPECT_EQ(world.adapter->caps().query_early_caps(), Status::kSuccess);
      EXPECT_EQ(world.miniport.count("DxgkDdiQueryAdapterInfo"), 0u);
    }
    for (const bool reaches : {true, false}) {
      PortWorld world;
      world.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_9;
      world.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
        const NTSTATUS status = world.miniport.default_query_adapter_info(args);
        if (args->Type == DXGKQAITYPE_PHYSICAL_MEMORY_CAPS && !reaches) {
          static_cast<DXGK_PHYSICAL_MEMORY_CAPS*>(args->pOutputData)
              ->HighestVisibleAddress.QuadPart = 0xFFFFFFFF;
        }
        return status;
      };
      ASSERT_EQ(world.load(), Status::kSuccess);
      ASSERT_EQ(world.adapter->life().add_device(), Status::kSuccess);
      EXPECT_EQ(world.adapter->caps().query_early_caps(),
                reaches ? Status::kSuccess : Status::kDeviceConfigurationError);
      EXPECT_EQ(world.findings.count("LIFE-14"), reaches ? 0u : 1u);
      const auto queries = world.miniport.calls().queries;
      ASSERT_EQ(queries.size(), 3u);
      EXPECT_EQ(queries[0].args.Type, DXGKQAITYPE_WDDMDEVICECAPS);
      EXPECT_EQ(queries[1].args.Type, DXGKQAITYPE_PHYSICAL_MEMORY_CAPS);
      EXPECT_EQ(queries[2].args.Type, DXGKQAITYPE_IOMMU_CAPS);
      EXPECT_EQ(world.miniport.count("DxgkDdiStartDevice"), 0u);
      EXPECT_EQ(world.adapter->life().remove_device(), Status::kSuccess);
    }
  });
}

/// The callback table is sized and filled by the declared version, and DeviceHandle is the key to
/// every callback.
TEST(AdapterPort, GivesCallbacksByVersion) {
  DXGKIT_COVERS("LIFE-08");
  in_both_modes([] {
    for (const uint32_t version : {0x4002U, 0x5023U, 0xB004U, 0xF003U}) {
      PortWorld world;
      world.miniport.config.version = version;
      world.start();
      const DXGKRNL_INTERFACE callbacks = world.miniport.callbacks();
      EXPECT_EQ(callbacks.Size, abi::record_size("DXGKRNL_INTERFACE", version));
      EXPECT_EQ(callbacks.Version, version);
      const auto* bytes = reinterpret_cast<const std::byte*>(&callbacks);
      for (const abi::TableEntry& entry : abi::kDxgkrnlInterface) {
        if (!entry.name.starts_with("DxgkCb")) continue;
        uint64_t pointer = 0;
        std::memcpy(&pointer, bytes + entry.offset_bytes, 8);
        EXPECT_EQ(pointer != 0, entry.since <= version) << entry.name << " in " << version;
      }
      world.stop();
    }
    PortWorld world;
    world.start();
    DXGKRNL_INTERFACE callbacks = world.miniport.callbacks();
    DXGK_DEVICE_INFO info;
    {
      nt::CallFrame frame(world.kernel, "host", nt::kPassiveLevel);
      EXPECT_EQ(callbacks.DxgkCbGetDeviceInformation(callbacks.DeviceHandle, &info), 0);
      EXPECT_EQ(world.findings.count("LIFE-08"), 0u);
      int wrong = 0;
      EXPECT_EQ(callbacks.DxgkCbGetDeviceInformation(&wrong, &info),
                to_ntstatus(Status::kInvalidParameter));
      EXPECT_EQ(callbacks.DxgkCbQueueDpc(nullptr), FALSE);
    }
    EXPECT_EQ(world.findings.count("LIFE-08"), 2u);
    world.stop();
  });
}

/// Callbacks without an implementation are there and refuse.
TEST(AdapterPort, RefusesWhatItDoesNotSupport) {
  in_both_modes([] {
    PortWorld world;
    world.start();
    const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
    nt::CallFrame frame(world.kernel, "host", nt::kPassiveLevel);
    EXPECT_EQ(callbacks.DxgkCbQueryServices(callbacks.DeviceHandle, DxgkServicesAgp, nullptr),
              to_ntstatus(Status::kNotSupported));
    EXPECT_EQ(callbacks.DxgkCbEvalAcpiMethod(callbacks.DeviceHandle, 0, nullptr, 0, nullptr, 0),
              to_ntstatus(Status::kNotSupported));
    world.stop();
  });
}

/// Device information names the BARs and the interrupt; the BARs can be mapped, other ranges not.
TEST(AdapterPort, DescribesTheDevice) {
  in_both_modes([] {
    PortWorld world;
    world.start();
    const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
    {
      nt::CallFrame frame(world.kernel, "host", nt::kPassiveLevel);
      DXGK_DEVICE_INFO info;
      ASSERT_EQ(callbacks.DxgkCbGetDeviceInformation(callbacks.DeviceHandle, &info), 0);
      EXPECT_EQ(info.MiniportDeviceContext, world.miniport.adapter_context());
      const DEVICE_OBJECT* device = info.PhysicalDeviceObject;
      EXPECT_EQ(device->Type, 3);
      EXPECT_EQ(device->Size, sizeof(DEVICE_OBJECT));
      EXPECT_EQ(device->StackSize, 1);
      EXPECT_EQ(info.SystemMemorySize.QuadPart, 64 << 20);
      EXPECT_EQ(static_cast<uint64_t>(info.HighestPhysicalAddress.QuadPart),
                world.machine.highest_system_address().value);
      EXPECT_EQ(info.DockingState, DockStateUnsupported);
      EXPECT_EQ(info.DeviceRegistryPath.Length % 2, 0);
      EXPECT_NE(info.DeviceRegistryPath.Length, 0);
      EXPECT_EQ(info.DeviceRegistryPath.MaximumLength, info.DeviceRegistryPath.Length + 2);
      EXPECT_EQ(info.DeviceRegistryPath.Buffer[info.DeviceRegistryPath.Length / 2], u'\0');
      ASSERT_NE(device->DriverObject, nullptr) << "the bus driver's";
      EXPECT_EQ(device->DriverObject->DeviceObject, device);
      EXPECT_EQ(std::ranges::count(device->DriverObject->MajorFunction, nullptr), 0);
      const CM_PARTIAL_RESOURCE_LIST& list =
          info.TranslatedResourceList->List[0].PartialResourceList;
      ASSERT_EQ(list.Count, 3u);
      const bus::Bar& memory = world.miniport.function().bars()[1];
      EXPECT_EQ(list.PartialDescriptors[1].Type, CmResourceTypeMemory);
      EXPECT_EQ(static_cast<uint64_t>(list.PartialDescriptors[1].u.Memory.Start.QuadPart),
                memory.base.value);
      EXPECT_EQ(list.PartialDescriptors[1].u.Memory.Length, memory.size);
      EXPECT_EQ(list.PartialDescriptors[2].Type, CmResourceTypeInterrupt);
      PHYSICAL_ADDRESS address;
      address.QuadPart = static_cast<LONGLONG>(memory.base.value);
      void* mapped = nullptr;
      ASSERT_EQ(callbacks.DxgkCbMapMemory(callbacks.DeviceHandle, address, 4096, FALSE, FALSE,
                                          MmNonCached, &mapped),
                0);
      *static_cast<volatile uint32_t*>(mapped) = 0x12345678;
      EXPECT_EQ(callbacks.DxgkCbUnmapMemory(callbacks.DeviceHandle, mapped), 0);
      EXPECT_EQ(callbacks.DxgkCbUnmapMemory(callbacks.DeviceHandle, mapped),
                to_ntstatus(Status::kInvalidParameter));
      for (const auto& [in_io_space, user_mode] : {std::pair{TRUE, FALSE}, {FALSE, TRUE}}) {
        void* none = nullptr;
        EXPECT_EQ(callbacks.DxgkCbMapMemory(callbacks.DeviceHandle, address, 4096,
                                            static_cast<BOOLEAN>(in_io_space),
                                            static_cast<BOOLEAN>(user_mode), MmNonCached, &none),
                  to_ntstatus(Status::kNotSupported));
        EXPECT_EQ(none, nullptr);
      }
      address.QuadPart += static_cast<LONGLONG>(memory.size);
      EXPECT_EQ(callbacks.DxgkCbMapMemory(callbacks.DeviceHandle, address, 4096, FALSE, FALSE,
                                          MmNonCached, &mapped),
                to_ntstatus(Status::kInvalidParameter));
      address.QuadPart = static_cast<LONGLONG>(memory.base.value) - 1;
      EXPECT_EQ(callbacks.DxgkCbMapMemory(callbacks.DeviceHandle, address, 1, FALSE, FALSE,
                                          MmNonCached, &mapped),
                to_ntstatus(Status::kInvalidParameter));
      uint16_t vendor = 0;
      ULONG bytes = 0;
      EXPECT_EQ(callbacks.DxgkCbReadDeviceSpace(callbacks.DeviceHandle, DXGK_WHICHSPACE_CONFIG,
                                                &vendor, 0, 2, &bytes),
                0);
      EXPECT_EQ(vendor, world.miniport.function().identity().vendor_id);
      DXGKARGCB_GETHANDLEDATA arguments{};
      arguments.hObject = 21;
      arguments.Type = DXGK_HANDLE_ALLOCATION;
      arguments.Flags.DeviceSpecific = 1;
      EXPECT_EQ(callbacks.DxgkCbGetHandleData(&arguments), reinterpret_cast<void*>(42));
    }
    world.stop();
    // Of the second unmap.
    EXPECT_EQ(world.findings.count("LIFE-20"), 1u) << world.findings_text();
    EXPECT_EQ(world.findings.total(), 1u) << world.findings_text();
  });
}

/// Outputs of StartDevice that were not written are noticed; StopDevice is owed then.
TEST(AdapterPort, NoticesUnwrittenStartOutputs) {
  DXGKIT_COVERS("LIFE-09");
  in_both_modes([] {
    PortWorld world;
    world.miniport.hooks.start_device = [](DXGK_START_INFO*, DXGKRNL_INTERFACE*, ULONG* sources,
                                           ULONG*) {
      *sources = 0;
      return NTSTATUS{0};
    };
    ASSERT_EQ(world.load(), Status::kSuccess);
    ASSERT_EQ(world.adapter->life().add_device(), Status::kSuccess);
    const auto info = world.adapter->life().start_device();
    ASSERT_FALSE(info.has_value());
    EXPECT_EQ(info.error(), Status::kDeviceConfigurationError);
    EXPECT_EQ(world.findings.count("LIFE-09"), 1u);
    EXPECT_EQ(world.miniport.count("DxgkDdiStopDevice"), 1u);
    EXPECT_EQ(world.adapter->life().remove_device(), Status::kSuccess);
  });
}

/// What a video output leaves open is found where the driver succeeded.
TEST(AdapterPort, LooksAtTheChildrenOfASuccess) {
  DXGKIT_COVERS("CAPS-08");
  runtime::make_sim_runtime(1)->run_main([] {
    for (const NTSTATUS answer : {NTSTATUS{0}, to_ntstatus(Status::kNoMemory)}) {
      PortWorld world;
      world.miniport.config.children = 2;
      world.start();
      world.miniport.hooks.query_child_relations = [&](DXGK_CHILD_DESCRIPTOR* relations, ULONG) {
        relations[0].ChildDeviceType = TypeOther;
        relations[1].ChildDeviceType = TypeVideoOutput;
        relations[1].ChildUid = 7;
        return answer;
      };
      std::vector<ChildInfo> found;
      EXPECT_EQ(world.adapter->children().query_child_relations(2, &found), from_ntstatus(answer));
      EXPECT_EQ(found.size(), answer == 0 ? 2U : 0U);
      EXPECT_EQ(world.findings.count("CAPS-08"), answer == 0 ? 1U : 0U);
      world.stop();
    }
  });
}

/// Each element becomes a child as the driver described it; the first empty one ends the list.
TEST(AdapterPort, ChildrenAreAsTheDriverSays) {
  runtime::make_sim_runtime(1)->run_main([] {
    PortWorld world;
    world.miniport.config.children = 6;
    world.start();
    world.miniport.hooks.query_child_relations = [](DXGK_CHILD_DESCRIPTOR* relations, ULONG) {
      constexpr DXGK_CHILD_DEVICE_TYPE kTypes[] = {TypeVideoOutput, TypeIntegratedDisplay,
                                                   TypeOther, TypeVideoOutput};
      constexpr DXGK_CHILD_DEVICE_HPD_AWARENESS kHears[] = {HpdAwarenessAlwaysConnected,
                                                            HpdAwarenessPolled, HpdAwarenessNone,
                                                            HpdAwarenessInterruptible};
      for (UINT i = 0; i < 4; ++i) {
        DXGK_CHILD_DESCRIPTOR& one = relations[i];
        one.ChildDeviceType = kTypes[i];
        one.ChildUid = 40 + i;
        one.AcpiUid = 50 + i;
        one.ChildCapabilities.HpdAwareness = kHears[i];
        if (kTypes[i] == TypeVideoOutput) {
          one.ChildCapabilities.Type.VideoOutput.InterfaceTechnology =
              i == 0 ? D3DKMDT_VOT_HDMI : D3DKMDT_VOT_DVI;
          one.ChildCapabilities.Type.VideoOutput.MonitorOrientationAwareness = D3DKMDT_MOA_NONE;
        } else if (kTypes[i] == TypeIntegratedDisplay) {
          one.ChildCapabilities.Type.IntegratedDisplayChild.InterfaceTechnology =
              D3DKMDT_VOT_INTERNAL;
        }
      }
      return NTSTATUS{0};
    };
    std::vector<ChildInfo> found;
    EXPECT_EQ(world.adapter->children().query_child_relations(6, &found), Status::kSuccess);
    using Kind = ChildInfo::Kind;
    using Awareness = ChildInfo::Awareness;
    struct Row {
      Kind kind;
      Awareness awareness;
      uint32_t technology;
    };
    const Row rows[] = {
        {Kind::kVideoOutput, Awareness::kAlwaysConnected, static_cast<uint32_t>(D3DKMDT_VOT_HDMI)},
        {Kind::kIntegratedDisplay, Awareness::kPolled, static_cast<uint32_t>(D3DKMDT_VOT_INTERNAL)},
        {Kind::kOther, Awareness::kNone, ChildInfo{}.technology},
        {Kind::kVideoOutput, Awareness::kInterruptible, static_cast<uint32_t>(D3DKMDT_VOT_DVI)}};
    ASSERT_EQ(found.size(), std::size(rows));
    for (uint32_t i = 0; i < 4; ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(found[i].kind, rows[i].kind);
      EXPECT_EQ(found[i].awareness, rows[i].awareness);
      EXPECT_EQ(found[i].technology, rows[i].technology);
      EXPECT_EQ(found[i].uid, 40 + i);
      EXPECT_EQ(found[i].acpi_uid, 50 + i);
    }
    world.stop();
  });
}

/// NumberOfChildren + 1 zeroed elements; a driver that fills the last one is found out.
TEST(AdapterPort, KeepsTheLastChildZero) {
  DXGKIT_COVERS("LIFE-10");
  in_both_modes([] {
    PortWorld world;
    world.miniport.config.children = 2;
    world.start();
    bool overrun = false;
    world.miniport.hooks.query_child_relations = [&](DXGK_CHILD_DESCRIPTOR* relations,
                                                     ULONG bytes) {
      EXPECT_EQ(bytes, 3 * sizeof(DXGK_CHILD_DESCRIPTOR));
      const DXGK_CHILD_DESCRIPTOR zero{};
      for (int i = 0; i < 3; ++i) EXPECT_EQ(std::memcmp(&relations[i], &zero, sizeof(zero)), 0);
      relations[0].ChildUid = 1;
      relations[1].ChildUid = 2;
      if (overrun) relations[2].ChildUid = 3;
      return NTSTATUS{0};
    };
    EXPECT_EQ(world.adapter->children().query_child_relations(2), Status::kSuccess);
    EXPECT_EQ(world.findings.count("LIFE-10"), 0u);
    overrun = true;
    EXPECT_EQ(world.adapter->children().query_child_relations(2), Status::kSuccess);
    EXPECT_EQ(world.findings.count("LIFE-10"), 1u);
    world.stop();
  });
}

// --- IRQL

/// Each DDI is called at its level, and one that returns at another is caught.
TEST(AdapterPort, ChecksLevels) {
  DXGKIT_COVERS("IRQL-01");
  in_both_modes([] {
    PortWorld world;
    world.start();
    const auto current = reinterpret_cast<nt::Irql(NTAPI*)()>(
        const_cast<void*>(nt::find_export("KeGetCurrentIrql")->address));
    const auto raise = reinterpret_cast<nt::Irql(NTAPI*)(nt::Irql)>(
        const_cast<void*>(nt::find_export("KfRaiseIrql")->address));
    std::vector<nt::Irql> levels;
    world.miniport.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND*) {
      levels.push_back(current());
      return NTSTATUS{0};
    };
    world.miniport.hooks.patch = [&](const DXGKARG_PATCH*) {
      levels.push_back(current());
      return NTSTATUS{0};
    };
    world.miniport.hooks.preempt = [&](const DXGKARG_PREEMPTCOMMAND*) {
      levels.push_back(current());
      return NTSTATUS{0};
    };
    Buffer buffer;
    PatchArgs patch;
    patch.buffer = buffer.view;
    EXPECT_EQ(world.adapter->submission().patch(patch), Status::kSuccess);
    SubmitArgs submit;
    submit.buffer = buffer.view;
    EXPECT_EQ(world.adapter->submission().submit(submit), Status::kSuccess);
    EXPECT_EQ(world.adapter->submission().preempt(NodeOrdinal{0}, SubmissionFenceId{3}),
              Status::kSuccess);
    EXPECT_EQ(levels,
              (std::vector<nt::Irql>{nt::kPassiveLevel, nt::kDispatchLevel, nt::kDispatchLevel}));
    EXPECT_EQ(world.findings.total(), 0u);
    world.miniport.hooks.patch = [&](const DXGKARG_PATCH*) {
      raise(nt::kDispatchLevel);
      return NTSTATUS{0};
    };
    EXPECT_EQ(world.adapter->submission().patch(patch), Status::kSuccess);
    EXPECT_EQ(world.findings.count("IRQL-01"), 1u);
    EXPECT_EQ(world.adapter->submission().patch(patch),
              Status::kSuccess);  // the level was put back
    world.stop();
  });
}

/// Callbacks above their level are findings.
TEST(AdapterPort, ChecksCallbackLevels) {
  DXGKIT_COVERS("IRQL-12");
  in_both_modes([] {
    PortWorld world;
    world.start();
    world.miniport.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND*) {
      DXGKARGCB_GETHANDLEDATA arguments{};
      arguments.hObject = 1;
      arguments.Type = DXGK_HANDLE_ALLOCATION;
      world.miniport.callbacks().DxgkCbGetHandleData(&arguments);
      world.miniport.callbacks().DxgkCbQueueDpc(
          world.miniport.callbacks().DeviceHandle);  // any level
      return NTSTATUS{0};
    };
    Buffer buffer;
    SubmitArgs submit;
    submit.buffer = buffer.view;
    EXPECT_EQ(world.adapter->submission().submit(submit), Status::kSuccess);
    EXPECT_EQ(world.findings.count("IRQL-12"), 1u);
    EXPECT_EQ(world.findings.total(), 1u) << world.findings_text();
    world.stop();
  });
}

// --- power components
/// The driver's description of its components comes through, member by member.
TEST(AdapterPort, DescribesPowerComponents) {
  DXGKIT_COVERS("PWR-12");
  in_both_modes([] {
    PortWorld world;
    std::vector<UINT> asked;
    world.miniport.hooks.query_adapter_info =
        [&](const DXGKARG_QUERYADAPTERINFO* args) -> NTSTATUS {
      if (args->Type == DXGKQAITYPE_NUMPOWERCOMPONENTS) {
        EXPECT_EQ(args->InputDataSize, 0u);
        EXPECT_EQ(args->OutputDataSize, sizeof(UINT));
        *static_cast<UINT*>(args->pOutputData) = 4;
        return 0;
      }
      if (args->Type != DXGKQAITYPE_POWERCOMPONENTINFO)
        return world.miniport.default_query_adapter_info(args);
      EXPECT_EQ(args->InputDataSize, sizeof(UINT));
      asked.push_back(*static_cast<UINT*>(args->pInputData));
      auto& out = *static_cast<DXGK_POWER_RUNTIME_COMPONENT*>(args->pOutputData);
      const UINT index = asked.back();
      out.StateCount = index == 3 ? 8 : index + 1;
      out.ComponentMapping.ComponentType =
          index == 1 ? DXGK_POWER_COMPONENT_MEMORY : DXGK_POWER_COMPONENT_ENGINE;
      out.ComponentMapping.EngineDesc.NodeIndex = 10 + index;
      out.Flags.DriverCompletesFStateTransition = index == 1 ? 1 : 0;
      out.Flags.TransitionTo_F0_OnDx = index == 2 ? 1 : 0;
      out.ProviderCount = index == 3 ? 3 : 0;
      for (UINT i = 0; i < out.ProviderCount; ++i) out.Providers[i] = 2 - i;
      return 0;
    };
    world.start();
    const std::vector<PowerComponent> components = world.adapter->power().query_power_components();
    EXPECT_EQ(asked, (std::vector<UINT>{0, 1, 2, 3}));
    ASSERT_EQ(components.size(), 4u) << world.findings_text();
    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(components[i].kind,
                i == 1 ? PowerComponent::Kind::kMemory : PowerComponent::Kind::kEngine);
      EXPECT_EQ(components[i].target, 10 + i);
      EXPECT_EQ(components[i].state_count, i == 3 ? 8 : i + 1);
      EXPECT_EQ(components[i].driver_completes, i == 1);
      EXPECT_EQ(components[i].f0_on_dx, i == 2);
      EXPECT_EQ(components[i].providers,
                i == 3 ? (std::vector<uint32_t>{2, 1, 0}) : std::vector<uint32_t>{});
    }
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
    world.stop();
  });
}

/// Counts and indexes out of bounds are a violation each, and there are no components then.
TEST(AdapterPort, ChecksPowerComponents) {
  DXGKIT_COVERS("PWR-12");
  struct Case {
    const char* what;
    UINT count;
    bool legal;
    std::function<void(UINT index, DXGK_POWER_RUNTIME_COMPONENT&)> change;
  };
  const auto nothing = [](UINT, DXGK_POWER_RUNTIME_COMPONENT&) {};
  const Case cases[] = {
      {"none", 0, true, nothing},
      {"as many as there can be", 64, true, nothing},
      {"one more", 65, false, nothing},
      {"no state", 3, false, [](UINT i, auto& c) { c.StateCount = i == 1 ? 0 : 1; }},
      {"eight states", 3, true, [](UINT, auto& c) { c.StateCount = 8; }},
      {"nine states", 3, false, [](UINT i, auto& c) { c.StateCount = i == 2 ? 9 : 1; }},
      {"all providers", 17, true,
       [](UINT i, auto& c) {
         c.ProviderCount = i == 0 ? static_cast<ULONG>(std::size(c.Providers)) : 0;
         for (ULONG k = 0; k < c.ProviderCount; ++k) c.Providers[k] = k;
       }},
      {"one provider more", 17, false,
       [](UINT, auto& c) { c.ProviderCount = static_cast<ULONG>(std::size(c.Providers)) + 1; }},
      {"a provider that is none", 3, false,
       [](UINT i, auto& c) {
         c.ProviderCount = i == 2 ? 2 : 0;
         c.Providers[1] = 3;
       }},
      {"the last one as a provider", 3, true,
       [](UINT i, auto& c) {
         c.ProviderCount = i == 0 ? 1 : 0;
         c.Providers[0] = 2;
       }},
  };
  runtime::make_sim_runtime(1)->run_main([&] {
    for (const Case& c : cases) {
      SCOPED_TRACE(c.what);
      PortWorld world;
      world.miniport.hooks.query_adapter_info =
          [&](const DXGKARG_QUERYADAPTERINFO* args) -> NTSTATUS {
        if (args->Type == DXGKQAITYPE_NUMPOWERCOMPONENTS) {
          *static_cast<UINT*>(args->pOutputData) = c.count;
          return 0;
        }
        if (args->Type != DXGKQAITYPE_POWERCOMPONENTINFO)
          return world.miniport.default_query_adapter_info(args);
        auto& out = *static_cast<DXGK_POWER_RUNTIME_COMPONENT*>(args->pOutputData);
        out.StateCount = 1;
        c.change(*static_cast<UINT*>(args->pInputData), out);
        return 0;
      };
      world.start();
      EXPECT_EQ(world.adapter->power().query_power_components().size(), c.legal ? c.count : 0);
      EXPECT_EQ(world.findings.count("PWR-12"), c.legal ? 0u : 1u);
      EXPECT_EQ(world.findings.total(), c.legal ? 0u : 1u) << world.findings_text();
      world.stop();
    }
  });
}

// --- segments

/// Two queries of one type, chosen by the version; the first with no array, the second with one of
/// the size reported.
TEST(AdapterPort, AsksForSegmentsTwice) {
  DXGKIT_COVERS("SEG-01", "SEG-02", "SEG-03", "SEG-10", "SEG-11");
  struct Case {
    uint32_t version;
    DXGK_QUERYADAPTERINFOTYPE type;
  };
  in_both_modes([] {
    for (const Case& c : {Case{DXGKDDI_INTERFACE_VERSION_VISTA, DXGKQAITYPE_QUERYSEGMENT},
                          Case{DXGKDDI_INTERFACE_VERSION_WIN7, DXGKQAITYPE_QUERYSEGMENT},
                          Case{DXGKDDI_INTERFACE_VERSION_WIN8, DXGKQAITYPE_QUERYSEGMENT3},
                          Case{DXGKDDI_INTERFACE_VERSION_WDDM1_3, DXGKQAITYPE_QUERYSEGMENT3},
                          Case{DXGKDDI_INTERFACE_VERSION_WDDM2_0, DXGKQAITYPE_QUERYSEGMENT4},
                          Case{DXGKDDI_INTERFACE_VERSION_WDDM2_6, DXGKQAITYPE_QUERYSEGMENT4}}) {
      PortWorld world;
      world.miniport.config.version = c.version;
      size_t looked = 0;
      world.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
        // The members that the second pass fills are empty before.
        const auto all_zero = [&](const void* array, size_t bytes) {
          const auto* const start = static_cast<const std::byte*>(array);
          EXPECT_TRUE(
              std::all_of(start, start + bytes, [](std::byte b) { return b == std::byte{0}; }));
          looked += bytes;
        };
        if (args->Type == DXGKQAITYPE_QUERYSEGMENT) {
          const auto* const out = static_cast<DXGK_QUERYSEGMENTOUT*>(args->pOutputData);
          if (out->pSegmentDescriptor != nullptr)
            all_zero(out->pSegmentDescriptor, 3 * sizeof(DXGK_SEGMENTDESCRIPTOR));
        } else if (args->Type == DXGKQAITYPE_QUERYSEGMENT3) {
          const auto* const out = static_cast<DXGK_QUERYSEGMENTOUT3*>(args->pOutputData);
          if (out->pSegmentDescriptor != nullptr)
            all_zero(out->pSegmentDescriptor, 3 * sizeof(DXGK_SEGMENTDESCRIPTOR3));
        } else if (args->Type == DXGKQAITYPE_QUERYSEGMENT4) {
          const auto* const out = static_cast<DXGK_QUERYSEGMENTOUT4*>(args->pOutputData);
          if (out->pSegmentDescriptor != nullptr)
            all_zero(out->pSegmentDescriptor, 3 * out->SegmentDescriptorStride);
        }
        return world.miniport.default_query_adapter_info(args);
      };
      world.start();
      world.miniport.clear_calls();
      const auto segments = world.adapter->caps().query_segments();
      EXPECT_GT(looked, 0u);
      ASSERT_TRUE(segments.has_value()) << c.version << world.findings_text();
      ASSERT_EQ(segments->segments.size(), 3u);
      EXPECT_EQ(segments->segments[1].base_address, 0x2'0000'0000u);
      EXPECT_EQ(segments->segments[1].size, 256u << 20);
      EXPECT_EQ(segments->paging_buffer_bytes, world.miniport.config.paging_buffer_bytes);
      const auto queries = world.miniport.calls().queries;
      ASSERT_EQ(queries.size(), 2u);
      for (const auto& query : queries) {
        EXPECT_EQ(query.args.Type, c.type);
        EXPECT_EQ(query.in.size(), c.type == DXGKQAITYPE_QUERYSEGMENT4 ? 4u : 24u);
        EXPECT_TRUE(std::ranges::all_of(query.in, [](std::byte b) { return b == std::byte{0}; }));
      }
      for (int pass = 0; pass < 2; ++pass) {
        if (c.type == DXGKQAITYPE_QUERYSEGMENT4) {
          DXGK_QUERYSEGMENTOUT4 out;
          ASSERT_EQ(queries[static_cast<size_t>(pass)].out_before.size(), sizeof(out));
          std::memcpy(&out, queries[static_cast<size_t>(pass)].out_before.data(), sizeof(out));
          EXPECT_EQ(out.NbSegment, pass == 0 ? 0u : 3u);
        } else {
          DXGK_QUERYSEGMENTOUT3 out;
          ASSERT_EQ(queries[static_cast<size_t>(pass)].out_before.size(), sizeof(out));
          std::memcpy(&out, queries[static_cast<size_t>(pass)].out_before.data(), sizeof(out));
          EXPECT_EQ(out.pSegmentDescriptor == nullptr, pass == 0);
          if (pass == 1) {
            EXPECT_EQ(out.NbSegment, 3u);
          }
        }
      }
      EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
      world.stop();
    }
  });
}

/// The first pass may write the count only; failing it refuses the start; another count in the
/// second pass too.
TEST(AdapterPort, ChecksSegmentPasses) {
  DXGKIT_COVERS("SEG-04", "SEG-05", "SEG-06");
  in_both_modes([] {
    for (const uint32_t version : {0x4002U, 0x5023U}) {
      PortWorld world;
      world.miniport.config.version = version;
      world.start();
      int pass = 0;
      std::function<NTSTATUS(int, const DXGKARG_QUERYADAPTERINFO*)> misbehave;
      world.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
        return misbehave(++pass, args);
      };
      const auto first_member = [](const DXGKARG_QUERYADAPTERINFO* args) -> UINT& {
        return *static_cast<UINT*>(args->pOutputData);
      };

      misbehave = [&](int n, const DXGKARG_QUERYADAPTERINFO* args) {
        const NTSTATUS status = world.miniport.default_query_adapter_info(args);
        if (n == 1)
          static_cast<DXGK_QUERYSEGMENTOUT3*>(args->pOutputData)->PagingBufferSize =
              4096;  // same place in both
        return status;
      };
      EXPECT_TRUE(world.adapter->caps().query_segments().has_value());
      EXPECT_EQ(world.findings.count("SEG-04"), 1u);

      pass = 0;
      misbehave = [](int, const DXGKARG_QUERYADAPTERINFO*) {
        return to_ntstatus(Status::kNoMemory);
      };
      EXPECT_EQ(world.adapter->caps().query_segments().error(), Status::kDeviceConfigurationError);
      EXPECT_EQ(world.findings.count("SEG-04"), 2u);

      pass = 0;
      misbehave = [&](int n, const DXGKARG_QUERYADAPTERINFO* args) {
        const NTSTATUS status = world.miniport.default_query_adapter_info(args);
        if (n == 2) first_member(args) = 2;
        return status;
      };
      EXPECT_EQ(world.adapter->caps().query_segments().error(), Status::kDeviceConfigurationError);
      EXPECT_EQ(world.findings.count("SEG-05"), 1u);

      for (const UINT count : {0U, 33U}) {
        pass = 0;
        misbehave = [&](int, const DXGKARG_QUERYADAPTERINFO* args) {
          first_member(args) = count;
          return NTSTATUS{0};
        };
        EXPECT_EQ(world.adapter->caps().query_segments().error(),
                  Status::kDeviceConfigurationError);
      }
      EXPECT_EQ(world.findings.count("SEG-06"), 2u);
      world.stop();
    }
  });
}

/// A stride wider than our descriptor is followed; one that leaves the array is refused.
TEST(AdapterPort, FollowsTheDescriptorStride) {
  DXGKIT_COVERS("SEG-09");
  in_both_modes([] {
    for (const SIZE_T extra : {SIZE_T{64}, SIZE_T{1} << 40}) {
      PortWorld world;
      world.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      world.start();
      world.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
        auto* out = static_cast<DXGK_QUERYSEGMENTOUT4*>(args->pOutputData);
        if (out->NbSegment == 0) return world.miniport.default_query_adapter_info(args);
        const SIZE_T wide = out->SegmentDescriptorStride + extra;
        out->SegmentDescriptorStride = extra == 64 ? wide : 0;
        if (extra == 64) {
          EXPECT_EQ(world.miniport.default_query_adapter_info(args), 0);
        }
        out->SegmentDescriptorStride = wide;
        return NTSTATUS{0};
      };
      const auto segments = world.adapter->caps().query_segments();
      if (extra == 64) {
        ASSERT_TRUE(segments.has_value());
        EXPECT_EQ(segments->segments[2].base_address, 0x4'0000'0000u);
        EXPECT_EQ(segments->segments[2].size, 64u << 20);
      } else {
        EXPECT_EQ(segments.error(), Status::kDeviceConfigurationError);
        EXPECT_EQ(world.findings.count("SEG-09"), 1u);
      }
      world.stop();
    }
  });
}

/// Bank tables: not read without UseBanking, and never the last entry, which may be missing.
TEST(AdapterPort, ReadsBankTables) {
  DXGKIT_COVERS("SEG-24", "SEG-26");
  in_both_modes([] {
    auto* area = static_cast<std::byte*>(std::aligned_alloc(4096, 4096));
    auto* two = reinterpret_cast<SIZE_T*>(area + 4096 -
                                          2 * sizeof(SIZE_T));  // AddressSanitizer guards the end
    two[0] = 1 << 20;
    two[1] = 2 << 20;
    PortWorld world;
    world.miniport.config.segments[0].bank_count = 77;
    world.miniport.config.segments[0].bank_table = reinterpret_cast<SIZE_T*>(16);  // dangling
    world.miniport.config.segments[1].flags.UseBanking = 1;
    world.miniport.config.segments[1].bank_count = 3;
    world.miniport.config.segments[1].bank_table = two;
    world.start();
    const auto segments = world.adapter->caps().query_segments();
    ASSERT_TRUE(segments.has_value());
    EXPECT_EQ(segments->segments[0].bank_count, 0u);
    EXPECT_EQ(segments->segments[1].bank_count, 3u);
    EXPECT_EQ(segments->segments[1].bank_ends, (std::vector<uint64_t>{1 << 20, 2 << 20}));
    world.stop();
    std::free(area);
  });
}

// --- caps

/// The caps buffer has the size of the declared version, and writing past it is a finding, also
/// behind all that the newest version has.
TEST(AdapterPort, SizesCapsByVersion) {
  in_both_modes([] {
    for (const auto& [version, size] :
         {std::pair{0x4002U, 552U}, {0x5023U, 576U}, {0xB004U, 584U}, {0xF003U, 592U}}) {
      PortWorld world;
      world.miniport.config.version = version;
      world.start();
      const auto queries = world.miniport.calls().queries;
      ASSERT_EQ(queries.size(), 1u);
      EXPECT_EQ(queries[0].args.OutputDataSize, size);
      for (const size_t place : {size_t{size}, sizeof(DXGK_DRIVERCAPS) + 32}) {
        world.miniport.hooks.query_adapter_info = [place](const DXGKARG_QUERYADAPTERINFO* args) {
          static_cast<std::byte*>(args->pOutputData)[place] = std::byte{1};
          return NTSTATUS{0};
        };
        EXPECT_EQ(world.adapter->caps().query_driver_caps().error(),
                  Status::kDeviceConfigurationError);
      }
      world.stop();
    }
  });
}
}  // namespace
}  // namespace dxgkit::port
