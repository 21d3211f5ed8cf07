// Members of arguments, each with a value of its own: what is given to the driver, and what is
// taken from it.
#include <array>
#include <cstring>

#include "port/fault_injector.h"
#include "port/port_world_test.h"

namespace dxgkit::port {
namespace {

void* const kDevice = reinterpret_cast<void*>(uint64_t{0x5000});
void* const kContext = reinterpret_cast<void*>(uint64_t{0x6000});
void* const kResource = reinterpret_cast<void*>(uint64_t{0x7000});

void* handle(uint64_t value) { return reinterpret_cast<void*>(value); }

void in_world(uint32_t version, const std::function<void(PortWorld&)>& body) {
  runtime::make_sim_runtime(1)->run_main([&] {
    PortWorld world;
    world.miniport.config.version = version;
    world.start();
    world.miniport.clear_calls();
    body(world);
    world.miniport.hooks = {};
    world.stop();
  });
}
void in_world(const std::function<void(PortWorld&)>& body) {
  in_world(DXGKDDI_INTERFACE_VERSION_WDDM3_2, body);
}

TEST(Arguments, OfCreateAllocation) {
  DXGKIT_COVERS("ALLOC-01", "ALLOC-02");
  for (const uint32_t version :
       {DXGKDDI_INTERFACE_VERSION_WDDM2_9, DXGKDDI_INTERFACE_VERSION_WDDM3_0}) {
    in_world(version, [version](PortWorld& world) {
      std::array<std::byte, 24> shared{};
      std::array<std::byte, 8> first{};
      std::array<std::byte, 16> second{};
      std::array<AllocationInfo, 2> infos;
      infos[0].private_data = first;
      infos[1].private_data = second;
      bool creates_resource = false;
      world.miniport.hooks.create_allocation = [&](DXGKARG_CREATEALLOCATION* args) {
        EXPECT_EQ(args->pPrivateDriverData, shared.data());
        EXPECT_EQ(args->PrivateDriverDataSize, 24U);
        EXPECT_EQ(args->NumAllocations, 2U);
        EXPECT_EQ(args->hResource, kResource);
        EXPECT_EQ(args->Flags.Resource, creates_resource ? 1U : 0U);
        EXPECT_EQ(args->pAllocationInfo[0].pPrivateDriverData, first.data());
        EXPECT_EQ(args->pAllocationInfo[0].PrivateDriverDataSize, 8U);
        EXPECT_EQ(args->pAllocationInfo[1].pPrivateDriverData, second.data());
        EXPECT_EQ(args->pAllocationInfo[1].PrivateDriverDataSize, 16U);
        for (uint32_t i = 0; i < 2; ++i) {
          DXGK_ALLOCATIONINFO& info = args->pAllocationInfo[i];
          const uint32_t base = 100 * (i + 1);
          info.hAllocation = handle(base);
          info.Size = base + 1;
          info.PitchAlignedSize = base + 2;
          info.Alignment = base + 3;
          info.SupportedReadSegmentSet = base + 4;
          info.SupportedWriteSegmentSet = base + 5;
          info.EvictionSegmentSet = base + 6;
          info.PreferredSegment.Value = base + 7;
          info.HintedBank.Value = base + 8;
          info.MaximumRenamingListLength = base + 9;
          info.Flags.Value = base + 10;
          info.AllocationPriority = base + 11;
          info.Flags2.Value = base + 12;
        }
        args->hResource = handle(0x7777);
        return STATUS_SUCCESS;
      };
      for (const bool creates : {true, false}) {
        creates_resource = creates;
        void* resource = kResource;
        ASSERT_EQ(world.adapter->create_allocations(infos, shared, creates, &resource),
                  Status::kSuccess);
        EXPECT_EQ(resource, handle(0x7777));
        for (uint32_t i = 0; i < 2; ++i) {
          const AllocationInfo& info = infos[i];
          const uint32_t base = 100 * (i + 1);
          EXPECT_EQ(info.handle, handle(base));
          EXPECT_EQ(info.size, base + 1);
          EXPECT_EQ(info.pitch_aligned_size, base + 2);
          EXPECT_EQ(info.alignment, base + 3);
          EXPECT_EQ(info.supported_read, base + 4);
          EXPECT_EQ(info.supported_write, base + 5);
          EXPECT_EQ(info.eviction, base + 6);
          EXPECT_EQ(info.preferred, base + 7);
          EXPECT_EQ(info.bank_hints, base + 8);
          EXPECT_EQ(info.maximum_renaming, base + 9);
          EXPECT_EQ(info.flags, base + 10);
          EXPECT_EQ(info.priority, base + 11);
          EXPECT_EQ(info.flags2, version >= DXGKDDI_INTERFACE_VERSION_WDDM3_0 ? base + 12 : 0);
        }
      }
      // Which elements have no handle is told.
      world.miniport.hooks.create_allocation = [&](DXGKARG_CREATEALLOCATION* args) {
        args->pAllocationInfo[0].hAllocation = kDevice;
        return STATUS_SUCCESS;
      };
      EXPECT_EQ(world.adapter->create_allocations(infos, {}, false, nullptr),
                Status::kInvalidParameter);
      ASSERT_EQ(world.findings.total(), 1U);
      EXPECT_NE(world.findings.all()[0].actual.find("in element 1."), std::string::npos);
      EXPECT_EQ(infos[0].handle, kDevice) << "for the caller to destroy";
    });
  }
}

// Without Flags.Create neither the data of the resource nor that of an allocation may change; what
// did is put back.
TEST(Arguments, OfOpenAllocationAreOnlyRead) {
  DXGKIT_COVERS("ALLOC-24");
  for (const bool create : {false, true}) {
    in_world([create](PortWorld& world) {
      std::array<std::byte, 8> first{}, second{};
      std::array<std::byte, 16> shared{};
      second[3] = shared[5] = std::byte{7};
      std::array<AdapterPort::OpenInfo, 2> infos;
      infos[0].allocation_handle = 0x40;
      infos[0].private_data = first;
      infos[1].allocation_handle = 0x80;
      infos[1].private_data = second;
      world.miniport.hooks.open_allocation = [&](void* device, const DXGKARG_OPENALLOCATION* args) {
        EXPECT_EQ(device, kDevice);
        EXPECT_EQ(args->NumAllocations, 2U);
        EXPECT_EQ(args->pPrivateDriverData, shared.data());
        EXPECT_EQ(args->PrivateDriverSize, 16U);
        EXPECT_EQ(args->Flags.Create, create ? 1U : 0U);
        EXPECT_EQ(args->Flags.ReadOnly, create ? 0U : 1U);
        EXPECT_EQ(args->pOpenAllocation[1].hAllocation, 0x80U);
        EXPECT_EQ(args->pOpenAllocation[1].pPrivateDriverData, second.data());
        EXPECT_EQ(args->pOpenAllocation[1].PrivateDriverDataSize, 8U);
        args->pOpenAllocation[0].hDeviceSpecificAllocation = handle(0x401);
        args->pOpenAllocation[1].hDeviceSpecificAllocation = handle(0x801);
        second[3] = std::byte{9};
        shared[5] = std::byte{9};
        return STATUS_SUCCESS;
      };
      EXPECT_EQ(world.adapter->open_allocations(kDevice, infos, shared, create, 0, !create),
                Status::kSuccess);
      EXPECT_EQ(infos[0].device_specific, handle(0x401));
      EXPECT_EQ(infos[1].device_specific, handle(0x801));
      ASSERT_EQ(world.findings.count("ALLOC-24"), create ? 1U : 2U) << world.findings_text();
      EXPECT_EQ(shared[5], std::byte{7});
      EXPECT_EQ(second[3], std::byte{create ? uint8_t{9} : uint8_t{7}});
      const std::string resource = world.findings.all()[0].actual;
      EXPECT_NE(resource.find("byte 5 of the private data of the resource"), std::string::npos);
      if (create) return;
      EXPECT_EQ(world.findings.all()[1].severity, verifier::Severity::kViolation);
      EXPECT_NE(world.findings.all()[1].actual.find("byte 3 of the private data of element 1"),
                std::string::npos);
    });
  }
}

// Private data of one byte is private data; only where there is none is the address one that must
// not be used.
TEST(Arguments, PrivateDataMayBeOneByte) {
  DXGKIT_COVERS("SUB-11");
  in_world([](PortWorld& world) {
    std::array<std::byte, 64> room{};
    std::byte own{};
    const void* given = nullptr;
    uint32_t size = 0;
    const auto take = [&](const void* data, uint32_t bytes) {
      given = data;
      size = bytes;
      return STATUS_SUCCESS;
    };
    auto& hooks = world.miniport.hooks;
    hooks.render = [&](void*, DXGKARG_RENDER* a) {
      return take(a->pDmaBufferPrivateData, a->DmaBufferPrivateDataSize);
    };
    hooks.patch = [&](const DXGKARG_PATCH* a) {
      return take(a->pDmaBufferPrivateData, a->DmaBufferPrivateDataSize);
    };
    hooks.submit = [&](const DXGKARG_SUBMITCOMMAND* a) {
      return take(a->pDmaBufferPrivateData, a->DmaBufferPrivateDataSize);
    };
    hooks.cancel = [&](const DXGKARG_CANCELCOMMAND* a) {
      return take(a->pDmaBufferPrivateData, a->DmaBufferPrivateDataSize);
    };
    hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* a) {
      return take(a->pDmaBufferPrivateData, a->DmaBufferPrivateDataSize);
    };
    for (const uint32_t bytes : {0U, 1U}) {
      const DmaBufferView buffer{.segment = SegmentId{1},
                                 .cpu = room.data(),
                                 .size_bytes = room.size(),
                                 .private_data = &own,
                                 .private_size_bytes = bytes};
      const PagingOperation operation;
      RenderArgs render;
      render.buffer = buffer;
      PatchArgs patch;
      patch.buffer = buffer;
      SubmitArgs submit;
      submit.buffer = buffer;
      SubmitVirtualArgs by_address;
      by_address.private_data = &own;
      by_address.private_bytes = bytes;
      BuildPagingArgs paging;
      paging.buffer = room.data();
      paging.buffer_bytes = room.size();
      paging.private_data = &own;
      paging.private_bytes = bytes;
      paging.operation = &operation;
      const std::pair<const char*, std::function<Status()>> calls[] = {
          {"render", [&] { return world.adapter->render(render).status; }},
          {"patch", [&] { return world.adapter->patch(patch); }},
          {"submit", [&] { return world.adapter->submit(submit); }},
          {"cancel", [&] { return world.adapter->cancel(patch); }},
          {"cancel by address", [&] { return world.adapter->cancel(by_address); }},
          {"build paging", [&] { return world.adapter->build_paging(paging).status; }},
      };
      for (const auto& [what, call] : calls) {
        SCOPED_TRACE(what);
        given = nullptr;
        EXPECT_EQ(call(), Status::kSuccess);
        EXPECT_EQ(size, bytes);
        EXPECT_NE(given, nullptr);
        EXPECT_EQ(given == &own, bytes == 1);
      }
    }
  });
}

TEST(Arguments, OfCancelCommand) {
  DXGKIT_COVERS("CANCEL-02");
  in_world([](PortWorld& world) {
    std::array<std::byte, 4096> room{};
    std::array<std::byte, 64> own{};
    std::array<AllocationListEntry, 3> list{};
    std::array<PatchLocation, 7> patches{};
    DXGKARG_CANCELCOMMAND seen{};
    world.miniport.hooks.cancel = [&](const DXGKARG_CANCELCOMMAND* args) {
      seen = *args;
      return STATUS_SUCCESS;
    };
    PatchArgs args;
    args.context = kContext;
    args.buffer = {.segment = SegmentId{1},
                   .cpu = room.data(),
                   .size_bytes = 4096,
                   .private_data = own.data(),
                   .private_size_bytes = 64};
    args.slice = {.start = 256, .end = 1024, .private_start = 16, .private_end = 48};
    args.allocations = list.data();
    args.allocation_count = 3;
    args.patches = patches.data();
    args.patch_count = 7;
    args.patch_start = 2;
    args.patch_length = 4;
    EXPECT_EQ(world.adapter->cancel(args), Status::kSuccess);
    EXPECT_EQ(seen.hContext, kContext);
    EXPECT_EQ(seen.pDmaBuffer, room.data());
    EXPECT_EQ(seen.DmaBufferSize, 4096U);
    EXPECT_EQ(seen.DmaBufferSubmissionStartOffset, 256U);
    EXPECT_EQ(seen.DmaBufferSubmissionEndOffset, 1024U);
    EXPECT_EQ(seen.pDmaBufferPrivateData, own.data());
    EXPECT_EQ(seen.DmaBufferPrivateDataSize, 64U);
    EXPECT_EQ(seen.DmaBufferPrivateDataSubmissionStartOffset, 16U);
    EXPECT_EQ(seen.DmaBufferPrivateDataSubmissionEndOffset, 48U);
    EXPECT_EQ(static_cast<const void*>(seen.pAllocationList), list.data());
    EXPECT_EQ(seen.AllocationListSize, 3U);
    EXPECT_EQ(static_cast<const void*>(seen.pPatchLocationList), patches.data());
    EXPECT_EQ(seen.PatchLocationListSize, 7U);
    EXPECT_EQ(seen.PatchLocationListSubmissionStart, 2U);
    EXPECT_EQ(seen.PatchLocationListSubmissionLength, 4U);
    EXPECT_EQ(seen.DmaBufferVirtualAddress, 0U);

    SubmitVirtualArgs by_address;
    by_address.context = kContext;
    by_address.buffer_va = 0x1'0000'4000;
    by_address.buffer_bytes = 512;
    by_address.private_data = own.data();
    by_address.private_bytes = 40;
    by_address.user_private_bytes = 24;
    EXPECT_EQ(world.adapter->cancel(by_address), Status::kSuccess);
    EXPECT_EQ(seen.hContext, kContext);
    EXPECT_EQ(seen.pDmaBuffer, nullptr);
    EXPECT_EQ(seen.DmaBufferSize, 512U);
    EXPECT_EQ(seen.DmaBufferSubmissionStartOffset, 0U);
    EXPECT_EQ(seen.DmaBufferSubmissionEndOffset, 512U);
    EXPECT_EQ(seen.pDmaBufferPrivateData, own.data());
    EXPECT_EQ(seen.DmaBufferPrivateDataSize, 40U);
    EXPECT_EQ(seen.DmaBufferPrivateDataSubmissionEndOffset, 40U);
    EXPECT_EQ(seen.DmaBufferVirtualAddress, 0x1'0000'4000U);
    EXPECT_EQ(seen.DmaBufferUmdPrivateDataSize, 24U);
    EXPECT_EQ(seen.PatchLocationListSize, 0U);
  });
}

TEST(Arguments, OfRender) {
  DXGKIT_COVERS("REND-03");
  in_world([](PortWorld& world) {
    std::array<std::byte, 4096> room{};
    std::array<std::byte, 64> own{}, command{};
    std::array<AllocationListEntry, 3> list{};
    std::array<PatchLocation, 5> in{};
    std::array<PatchLocation, 9> out{};
    RenderArgs args;
    args.context = kContext;
    args.command = command.data();
    args.command_length = 48;
    args.buffer = {.segment = SegmentId{3},
                   .physical_address = 0x4'0000'3000,
                   .cpu = room.data(),
                   .size_bytes = 4096,
                   .private_data = own.data(),
                   .private_size_bytes = 64};
    args.allocations = list.data();
    args.allocation_count = 3;
    args.patches_in = in.data();
    args.patches_in_count = 5;
    args.patches_out = out.data();
    args.patches_out_capacity = 9;
    args.multipass_offset = 77;
    const auto expect = [&](void* context, DXGKARG_RENDER* seen) {
      EXPECT_EQ(context, kContext);
      EXPECT_EQ(seen->pCommand, command.data());
      EXPECT_EQ(seen->CommandLength, 48U);
      EXPECT_EQ(seen->pDmaBuffer, room.data());
      EXPECT_EQ(seen->DmaSize, 4096U);
      EXPECT_EQ(seen->pDmaBufferPrivateData, own.data());
      EXPECT_EQ(seen->DmaBufferPrivateDataSize, 64U);
      EXPECT_EQ(static_cast<void*>(seen->pAllocationList), list.data());
      EXPECT_EQ(seen->AllocationListSize, 3U);
      EXPECT_EQ(static_cast<const void*>(seen->pPatchLocationListIn), in.data());
      EXPECT_EQ(seen->PatchLocationListInSize, 5U);
      EXPECT_EQ(static_cast<void*>(seen->pPatchLocationListOut), out.data());
      EXPECT_EQ(seen->PatchLocationListOutSize, 9U);
      EXPECT_EQ(seen->MultipassOffset, 77U);
      EXPECT_EQ(seen->DmaBufferSegmentId, 3U);
      EXPECT_EQ(seen->DmaBufferPhysicalAddress.QuadPart, 0x4'0000'3000);
      seen->pDmaBuffer = room.data() + 512;
      seen->pDmaBufferPrivateData = own.data() + 16;
      seen->pPatchLocationListOut += 4;
      seen->MultipassOffset = 78;
      return STATUS_SUCCESS;
    };
    world.miniport.hooks.render = world.miniport.hooks.render_km = expect;
    for (const bool km : {false, true}) {
      args.render_km = km;
      const RenderResult result = world.adapter->render(args);
      EXPECT_EQ(result.status, Status::kSuccess);
      EXPECT_EQ(result.dma_bytes, 512U);
      EXPECT_EQ(result.private_bytes, 16U);
      EXPECT_EQ(result.patch_count, 4U);
      EXPECT_EQ(result.multipass_offset, 78U);
    }
  });
}

/// Says that the driver has gone past its end.
struct Overrun : FaultInjector {
  std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
  std::optional<Status> before_paging(const PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes - 8; }
  uint32_t overrun(std::string_view) override { return 16; }
  void shape(SegmentsInfo*) override {}
};

// An injector that lets the driver go past its end does so where the driver has succeeded, as if it
// had said so.
TEST(Arguments, MayBeMadeToEndTooFar) {
  DXGKIT_COVERS("REND-08");
  Overrun overrun;
  for (const Status answer : {Status::kSuccess, Status::kInvalidParameter}) {
    runtime::make_sim_runtime(1)->run_main([&] {
      PortWorld world;
      ASSERT_EQ(world.load(), Status::kSuccess);
      world.adapter->set_fault_injector(&overrun);
      ASSERT_EQ(world.adapter->add_device(), Status::kSuccess);
      ASSERT_TRUE(world.adapter->start_device().has_value());
      std::array<std::byte, 64> room{};
      RenderArgs args;
      args.buffer.cpu = room.data();
      args.buffer.size_bytes = room.size();
      world.miniport.hooks.render = [&](void*, DXGKARG_RENDER* seen) {
        EXPECT_EQ(seen->DmaSize, 56U);
        return to_ntstatus(answer);
      };
      const bool fails = answer != Status::kSuccess;
      EXPECT_EQ(world.adapter->render(args).status, fails ? answer : Status::kUnsuccessful);
      ASSERT_EQ(world.findings.count("REND-08"), fails ? 0U : 1U);
      if (!fails) {
        EXPECT_NE(world.findings.all()[0].actual.find("80 bytes"), std::string::npos);
      }
      world.stop();
    });
  }
}

TEST(Arguments, OfMapApertureSegment) {
  DXGKIT_COVERS("PAGE-27", "PAGE-30");
  for (const bool second : {false, true}) {
    for (const bool coherent : {false, true}) {
      runtime::make_sim_runtime(1)->run_main([&] {
        PortWorld world;
        world.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM3_2;
        world.miniport.config.caps = [&](DXGK_DRIVERCAPS& caps) {
          caps.MemoryManagementCaps.MapAperture2Supported = second ? 1 : 0;
        };
        world.start();
        const std::array<uint64_t, 3> scattered = {0x100005, 0x100009, 0x100002};
        const std::array<uint64_t, 3> contiguous = {0x100005, 0x100006, 0x100007};
        std::array<std::byte, 64> room{};
        PagingOperation operation;
        operation.kind = PagingOperation::Kind::kMapAperture;
        operation.device = kDevice;
        operation.allocation = handle(0x8000);
        operation.segment = SegmentId{2};
        operation.offset_pages = 11;
        operation.page_count = 2;
        operation.mdl_offset_pages = 1;
        operation.cache_coherent = coherent;
        BuildPagingArgs args;
        args.buffer = room.data();
        args.buffer_bytes = room.size();
        args.operation = &operation;
        bool together = false;
        world.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* seen) {
          const auto check = [&](const auto& map) {
            EXPECT_EQ(map.hDevice, kDevice);
            EXPECT_EQ(map.hAllocation, handle(0x8000));
            EXPECT_EQ(map.SegmentId, 2U);
            EXPECT_EQ(map.OffsetInPages, 11U);
            EXPECT_EQ(map.NumberOfPages, 2U);
            EXPECT_EQ(map.Flags.CacheCoherent, coherent ? 1U : 0U);
          };
          if (!second) {
            EXPECT_EQ(seen->Operation, DXGK_OPERATION_MAP_APERTURE_SEGMENT);
            check(seen->MapApertureSegment);
            EXPECT_EQ(seen->MapApertureSegment.MdlOffset, 1U);
            const auto* mdl = reinterpret_cast<const nt::Mdl*>(seen->MapApertureSegment.pMdl);
            EXPECT_EQ(mdl->size, static_cast<int16_t>(sizeof(nt::Mdl) + 3 * sizeof(uint64_t)));
            EXPECT_EQ(mdl->byte_count, 3U * 4096);
            EXPECT_EQ(mdl->flags, nt::kMdlPagesLocked);
            return STATUS_SUCCESS;
          }
          EXPECT_EQ(seen->Operation, DXGK_OPERATION_MAP_APERTURE_SEGMENT2);
          const auto& map = seen->MapApertureSegment2;
          check(map);
          EXPECT_EQ(map.AdlOffset, 1U);
          EXPECT_EQ(map.Adl.PageCount, together ? 3U : static_cast<UINT32>(operation.pages.size()));
          EXPECT_EQ(map.Adl.Flags.Contiguous, together ? 1U : 0U);
          if (together) {
            EXPECT_EQ(map.Adl.BasePageNumber, 0x100005U);
          } else {
            EXPECT_EQ(static_cast<const void*>(map.Adl.Pages), operation.pages.data());
          }
          return STATUS_SUCCESS;
        };
        operation.pages = scattered;
        EXPECT_EQ(world.adapter->build_paging(args).status, Status::kSuccess);
        together = true;
        operation.pages = contiguous;
        EXPECT_EQ(world.adapter->build_paging(args).status, Status::kSuccess);
        world.miniport.hooks = {};
        world.stop();
      });
    }
  }
}

// A driver that writes behind its room is found out where the room is guarded, and only there; so
// is one that writes and does not say so.
TEST(Arguments, OfBuildPagingBufferAreKeptTo) {
  DXGKIT_COVERS("PAGE-05", "PAGE-06");
  struct Row {
    const char* what;
    bool guarded, private_guarded;
    size_t writes, writes_private;  // offset; SIZE_MAX: nowhere
    const char* rule;
    std::vector<const char*> said;
  };
  constexpr size_t kNowhere = SIZE_MAX;
  const Row rows[] = {
      {"behind the buffer", true, false, 64 + 3, kNowhere, "PAGE-05", {"0x5a 3 bytes behind"}},
      {"behind the private data",
       false,
       true,
       kNowhere,
       16 + 5,
       "PAGE-06",
       {"0x5a 5 bytes behind"}},
      {"unguarded", false, false, 64 + 3, 16 + 5, nullptr, {}},
      {"without saying so",
       false,
       false,
       20,
       kNowhere,
       "PAGE-05",
       {"at least 21 bytes", "0 to 0x14"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    in_world([&](PortWorld& world) {
      std::array<std::byte, 8192> room{};
      std::array<std::byte, 8192> own{};
      const PagingOperation operation;
      BuildPagingArgs args;
      args.buffer = room.data();
      args.buffer_bytes = 64;
      args.private_data = own.data();
      args.private_bytes = 16;
      args.guarded = row.guarded;
      args.private_guarded = row.private_guarded;
      args.operation = &operation;
      world.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER*) {
        if (row.writes != kNowhere) room[row.writes] = std::byte{0x5A};
        if (row.writes_private != kNowhere) own[row.writes_private] = std::byte{0x5A};
        return STATUS_SUCCESS;
      };
      const BuildPagingResult result = world.adapter->build_paging(args);
      EXPECT_EQ(result.status, row.rule == nullptr ? Status::kSuccess : Status::kUnsuccessful);
      ASSERT_EQ(world.findings.total(), row.rule == nullptr ? 0U : 1U) << world.findings_text();
      if (row.rule == nullptr) return;
      EXPECT_EQ(world.findings.all()[0].rule, row.rule);
      const std::string text = verifier::to_text(world.findings.all()[0]);
      for (const char* part : row.said) EXPECT_NE(text.find(part), std::string::npos) << text;
    });
  }
}

// What a node says of itself is believed from the version on that has the member.
TEST(Arguments, OfGetNodeMetadata) {
  struct Row {
    uint32_t version;
    bool scheduling, release;
    uint32_t most;
  };
  for (const Row& row : {Row{DXGKDDI_INTERFACE_VERSION_WDDM2_1, false, false, 0},
                         Row{DXGKDDI_INTERFACE_VERSION_WDDM2_2, true, false, 0},
                         Row{DXGKDDI_INTERFACE_VERSION_WDDM2_4, true, false, 0},
                         Row{DXGKDDI_INTERFACE_VERSION_WDDM2_5, true, true, 5}}) {
    SCOPED_TRACE(row.version);
    in_world(row.version, [&](PortWorld& world) {
      for (const int which : {0, 1, 2}) {
        world.miniport.hooks.get_node_metadata = [&](UINT node, DXGKARG_GETNODEMETADATA* out) {
          EXPECT_EQ(node, 1U);
          out->Flags.ContextSchedulingSupported = which == 0 ? 1 : 0;
          out->Flags.RingBufferFenceRelease = which == 1 ? 1 : 0;
          out->Flags.MaxInFlightHwQueueBuffers = which == 2 ? 5 : 0;
          return STATUS_SUCCESS;
        };
        NodeMetadata metadata{.context_scheduling = true,
                              .ring_buffer_fence_release = true,
                              .max_in_flight_buffers = 9};
        EXPECT_EQ(world.adapter->get_node_metadata(NodeOrdinal{1}, &metadata), Status::kSuccess);
        EXPECT_EQ(metadata.context_scheduling, which == 0 && row.scheduling);
        EXPECT_EQ(metadata.ring_buffer_fence_release, which == 1 && row.release);
        EXPECT_EQ(metadata.max_in_flight_buffers, which == 2 ? row.most : 0U);
      }
      world.miniport.hooks.get_node_metadata = [](UINT, DXGKARG_GETNODEMETADATA*) {
        return STATUS_INVALID_PARAMETER;
      };
      NodeMetadata metadata{.max_in_flight_buffers = 9};
      EXPECT_EQ(world.adapter->get_node_metadata(NodeOrdinal{1}, &metadata),
                Status::kInvalidParameter);
      EXPECT_EQ(metadata.max_in_flight_buffers, 9U) << "untouched";
    });
  }
}

}  // namespace
}  // namespace dxgkit::port
