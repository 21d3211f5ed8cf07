// Marshalling and checks of render, patch, submit, preempt, cancel and paging.
#include <array>
#include <cstring>

#include "port/fault_injector.h"
#include "port/port_world_test.h"

namespace dxgkit::port {
namespace {

using testing::ScriptedMiniport;
constexpr NTSTATUS kOk = 0;

/// Everything of a submission that has no natural default, different in each member.
struct Packet {
  Packet() : storage(3 * 4096 / 8) {
    patch.context = &patch;
    patch.buffer = {.segment = SegmentId{3},
                    .physical_address = 0x4'0000'3000,
                    .cpu = reinterpret_cast<std::byte*>(storage.data()),
                    .size_bytes = 8192,
                    .private_data = private_data.data(),
                    .private_size_bytes = static_cast<uint32_t>(private_data.size())};
    patch.slice = {.start = 256, .end = 1024, .private_start = 0, .private_end = 48};
    list[0].device_handle = &list[0];
    list[0].set(false, SegmentId{1}, 0x1'0000'2000);
    list[1].device_handle = &list[1];
    list[1].set(true, SegmentId{2}, 0x2'0000'7000);
    patch.allocations = list.data();
    patch.allocation_count = static_cast<uint32_t>(list.size());
    for (uint32_t i = 0; i < patches.size(); ++i) {
      patches[i] = {.allocation_index = i % 2,
                    .slot_id = i,
                    .driver_id = 7 + i,
                    .allocation_offset = 16 * i,
                    .patch_offset = 256 + 64 * i};
    }
    patch.patches = patches.data();
    patch.patch_count = static_cast<uint32_t>(patches.size());
    patch.patch_start = 2;
    patch.patch_length = 3;
    patch.fence = SubmissionFenceId{0x1234};
    submit.context = patch.context;
    submit.buffer = patch.buffer;
    submit.slice = patch.slice;
    submit.fence = patch.fence;
    submit.node = NodeOrdinal{1};
  }
  std::vector<uint64_t> storage;
  std::array<std::byte, 64> private_data{};
  std::array<AllocationListEntry, 2> list{};
  std::array<PatchLocation, 6> patches{};
  PatchArgs patch;
  SubmitArgs submit;
};

/// Every member of DXGKARG_PATCH, from a submission whose part starts in the middle of the buffer.
TEST(AdapterWork, FillsPatch) {
  DXGKIT_COVERS("PATCH-07", "PATCH-08", "PATCH-09", "PATCH-10", "PATCH-11", "PATCH-12", "PATCH-14",
                "PATCH-16", "PATCH-17", "PATCH-18", "PATCH-19", "PATCH-21", "PATCH-22", "PATCH-24",
                "PATCH-25", "PATCH-26", "PATCH-28", "PATCH-29", "PATCH-30");
  in_both_modes([] {
    PortWorld world;
    world.start();
    Packet packet;
    ASSERT_EQ(world.adapter->submission().patch(packet.patch), Status::kSuccess);
    const auto calls = world.miniport.calls().patches;
    ASSERT_EQ(calls.size(), 1u);
    const DXGKARG_PATCH& args = calls[0].args;
    EXPECT_EQ(args.hContext, packet.patch.context);
    EXPECT_EQ(args.DmaBufferSegmentId, 3u);
    EXPECT_EQ(args.DmaBufferPhysicalAddress.QuadPart, 0x4'0000'3000);
    EXPECT_EQ(args.pDmaBuffer, packet.storage.data());
    EXPECT_EQ(args.DmaBufferSize, 8192u);
    EXPECT_EQ(args.DmaBufferSubmissionStartOffset, 256u);
    EXPECT_EQ(args.DmaBufferSubmissionEndOffset, 1024u);
    EXPECT_EQ(args.pDmaBufferPrivateData, packet.private_data.data());
    EXPECT_EQ(args.DmaBufferPrivateDataSize, 64u);
    EXPECT_EQ(args.DmaBufferPrivateDataSubmissionStartOffset, 0u);
    EXPECT_EQ(args.DmaBufferPrivateDataSubmissionEndOffset, 48u);
    EXPECT_EQ(static_cast<const void*>(args.pAllocationList), packet.list.data());
    EXPECT_EQ(args.AllocationListSize, 2u);
    EXPECT_EQ(static_cast<const void*>(args.pPatchLocationList), packet.patches.data());
    EXPECT_EQ(args.PatchLocationListSize, 6u);
    EXPECT_EQ(args.PatchLocationListSubmissionStart, 2u);
    EXPECT_EQ(args.PatchLocationListSubmissionLength, 3u);
    EXPECT_EQ(args.SubmissionFenceId, 0x1234u);
    EXPECT_EQ(args.Flags.Value, 0u);
    EXPECT_EQ(args.EngineOrdinal, 0u);
    const DXGK_ALLOCATIONLIST& entry = args.pAllocationList[1];
    EXPECT_EQ(entry.hDeviceSpecificAllocation, &packet.list[1]);
    EXPECT_EQ(entry.WriteOperation, 1u);
    EXPECT_EQ(entry.SegmentId, 2u);
    EXPECT_EQ(entry.PhysicalAddress.QuadPart, 0x2'0000'7000);
    world.stop();
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

/// Paging work may come without a context, lists or private data; the flag tells, and unreadable
/// private data is no address.
TEST(AdapterWork, FillsPagingPatch) {
  DXGKIT_COVERS("PATCH-04", "PATCH-05", "PATCH-06", "PATCH-20", "PATCH-23");
  in_both_modes([] {
    PortWorld world;
    world.start();
    Packet packet;
    PatchArgs patch;
    patch.buffer = packet.patch.buffer;
    patch.buffer.segment = kSystemMemory;
    patch.buffer.physical_address = 0x1'8000'0000;
    patch.slice = {.start = 64, .end = 128, .private_start = 0, .private_end = 64};
    patch.flags.paging = true;
    ASSERT_EQ(world.adapter->submission().patch(patch), Status::kSuccess);
    const DXGKARG_PATCH args = world.miniport.calls().patches.at(0).args;
    EXPECT_EQ(args.hContext, nullptr);
    EXPECT_EQ(args.DmaBufferSegmentId, 0u);
    EXPECT_EQ(args.DmaBufferPhysicalAddress.QuadPart, 0x1'8000'0000);
    EXPECT_EQ(args.pAllocationList, nullptr);
    EXPECT_EQ(args.AllocationListSize, 0u);
    EXPECT_EQ(args.pPatchLocationList, nullptr);
    EXPECT_EQ(args.PatchLocationListSize, 0u);
    EXPECT_EQ(args.PatchLocationListSubmissionStart, 0u);
    EXPECT_EQ(args.PatchLocationListSubmissionLength, 0u);
    EXPECT_EQ(args.Flags.Value, 1u);
    world.stop();
  });
}

/// Every member of DXGKARG_SUBMITCOMMAND; members without meaning hold no usable value, and
/// versions have their own members.
TEST(AdapterWork, FillsSubmit) {
  DXGKIT_COVERS("SUB-06", "SUB-07", "SUB-08", "SUB-09", "SUB-10", "SUB-12", "SUB-15", "SUB-16",
                "SUB-17", "SUB-18", "SUB-19", "SUB-21");
  in_both_modes([] {
    PortWorld world;
    world.start();
    Packet packet;
    ASSERT_EQ(world.adapter->submission().submit(packet.submit), Status::kSuccess);
    packet.submit.flags.present = true;
    packet.submit.flags.flip = true;
    packet.submit.vidpn_source = 1;
    packet.submit.flip_interval = 2;
    ASSERT_EQ(world.adapter->submission().submit(packet.submit), Status::kSuccess);
    packet.submit.flags.flip = false;
    packet.submit.flags.flip_with_no_wait = true;
    ASSERT_EQ(world.adapter->submission().submit(packet.submit), Status::kSuccess);
    packet.submit.flags = {.redirected_present = true, .null_rendering = true};
    ASSERT_EQ(world.adapter->submission().submit(packet.submit), Status::kSuccess);
    const auto calls = world.miniport.calls().submits;
    ASSERT_EQ(calls.size(), 4u);
    const DXGKARG_SUBMITCOMMAND& args = calls[0].args;
    EXPECT_EQ(args.hContext, packet.submit.context);
    EXPECT_EQ(args.DmaBufferSegmentId, 3u);
    EXPECT_EQ(args.DmaBufferPhysicalAddress.QuadPart, 0x4'0000'3000);
    EXPECT_EQ(args.DmaBufferSize, 8192u);
    EXPECT_EQ(args.DmaBufferSubmissionStartOffset, 256u);
    EXPECT_EQ(args.DmaBufferSubmissionEndOffset, 1024u);
    EXPECT_EQ(args.pDmaBufferPrivateData, packet.private_data.data());
    EXPECT_EQ(args.DmaBufferPrivateDataSize, 64u);
    EXPECT_EQ(args.DmaBufferPrivateDataSubmissionStartOffset, 0u);
    EXPECT_EQ(args.DmaBufferPrivateDataSubmissionEndOffset, 48u);
    EXPECT_EQ(args.SubmissionFenceId, 0x1234u);
    EXPECT_EQ(args.VidPnSourceId, D3DDDI_ID_UNINITIALIZED);
    EXPECT_EQ(args.FlipInterval, 0);
    EXPECT_EQ(args.Flags.Value, 0u);
    EXPECT_EQ(args.EngineOrdinal, 0u);
    EXPECT_EQ(args.DmaBufferVirtualAddress, 0u);
    EXPECT_EQ(args.NodeOrdinal, 1u);
    EXPECT_EQ(calls[1].args.VidPnSourceId, 1u);
    EXPECT_EQ(calls[1].args.FlipInterval, 2);
    EXPECT_EQ(calls[1].args.Flags.Present, 1u);
    EXPECT_EQ(calls[1].args.Flags.Flip, 1u);
    EXPECT_EQ(calls[1].args.Flags.FlipWithNoWait, 0u);
    // A flip without wait has a source and no interval; a submission without flip has neither.
    EXPECT_EQ(calls[2].args.VidPnSourceId, 1u);
    EXPECT_EQ(calls[2].args.FlipInterval, 0);
    EXPECT_EQ(calls[2].args.Flags.Flip, 0u);
    EXPECT_EQ(calls[2].args.Flags.FlipWithNoWait, 1u);
    EXPECT_EQ(calls[3].args.VidPnSourceId, D3DDDI_ID_UNINITIALIZED);
    EXPECT_EQ(calls[3].args.FlipInterval, 0);
    EXPECT_EQ(calls[3].args.Flags.Present, 0u);
    EXPECT_EQ(calls[3].args.Flags.RedirectedPresent, 1u);
    EXPECT_EQ(calls[3].args.Flags.NullRendering, 1u);
    world.stop();
  });
}

/// Resubmission is told from 2.0 on only.
TEST(AdapterWork, TellsResubmissionByVersion) {
  DXGKIT_COVERS("SUB-25");
  in_both_modes([] {
    for (const auto& [version, told] : {std::pair{0x4002U, 0U}, {0x5023U, 1U}}) {
      PortWorld world;
      world.miniport.config.version = version;
      world.start();
      Packet packet;
      ASSERT_EQ(world.adapter->submission().submit(packet.submit), Status::kSuccess);
      packet.submit.flags.resubmission = true;
      ASSERT_EQ(world.adapter->submission().submit(packet.submit), Status::kSuccess);
      const auto calls = world.miniport.calls().submits;
      EXPECT_EQ(calls[0].args.Flags.Resubmission, 0u);
      EXPECT_EQ(calls[1].args.Flags.Resubmission, told);
      world.stop();
    }
  });
}

/// With private data of size 0 the driver gets an address that it may not look behind: doing so is
/// a finding with the rule's id, which stops the adapter and not the process.
TEST(AdapterWork, GuardsMissingPrivateData) {
  DXGKIT_COVERS("SUB-11");
  in_both_modes([] {
    PortWorld world;
    world.start();
    Packet packet;
    packet.submit.buffer.private_data = nullptr;
    packet.submit.buffer.private_size_bytes = 0;
    bool look = false;
    world.miniport.config.record = false;
    world.miniport.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND* args) {
      EXPECT_EQ(args->DmaBufferPrivateDataSize, 0u);
      EXPECT_NE(args->pDmaBufferPrivateData, nullptr);
      if (look) {
        *static_cast<volatile char*>(args->pDmaBufferPrivateData) = 1;
        ADD_FAILURE() << "the write went through";
      }
      return kOk;
    };
    EXPECT_EQ(world.adapter->submission().submit(packet.submit), Status::kSuccess);
    EXPECT_EQ(world.findings.total(), 0u);
    look = true;
    EXPECT_EQ(world.adapter->submission().submit(packet.submit), Status::kDeviceRemoved);
    EXPECT_EQ(world.findings.count("SUB-11"), 1u);
    ASSERT_EQ(world.host.fatal.size(), 1u);
    EXPECT_EQ(world.host.fatal[0].ddi, "DxgkDdiSubmitCommand");
  });
}

/// A driver that writes outside its part, or not what the lists say, is found out; an exact one is
/// not, nor with checks off.
TEST(AdapterWork, ChecksPatching) {
  DXGKIT_COVERS("PATCH-13", "PATCH-27");
  in_both_modes([] {
    PortWorld world;
    world.start();
    Packet packet;
    const auto at = [&](uint32_t offset) {
      return reinterpret_cast<std::byte*>(packet.storage.data()) + offset;
    };
    ASSERT_EQ(world.adapter->submission().patch(packet.patch), Status::kSuccess);
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();

    for (const uint32_t outside : {255U, 1024U, 8191U}) {
      world.miniport.hooks.patch = [&](const DXGKARG_PATCH* args) {
        *at(outside) ^= std::byte{1};
        return world.miniport.default_patch(args);
      };
      const size_t before = world.findings.count("PATCH-13");
      EXPECT_EQ(world.adapter->submission().patch(packet.patch), Status::kSuccess);
      EXPECT_EQ(world.findings.count("PATCH-13"), before + 1) << outside;
    }
    EXPECT_EQ(world.findings.count("PATCH-27"), 0u);

    world.miniport.hooks.patch = [&](const DXGKARG_PATCH* args) {
      const NTSTATUS status = world.miniport.default_patch(args);
      std::memset(at(256 + 64 * 4), 0, 8);  // the last element of the range
      return status;
    };
    EXPECT_EQ(world.adapter->submission().patch(packet.patch), Status::kSuccess);
    EXPECT_EQ(world.findings.count("PATCH-27"), 1u);

    world.adapter->set_reference_checks(false);
    EXPECT_EQ(world.adapter->submission().patch(packet.patch), Status::kSuccess);
    EXPECT_EQ(world.findings.count("PATCH-27"), 1u);
    world.stop();
  });
}

/// The part of an element with which the driver's value is compared, at each bound: inside the
/// submission's part, four or eight bytes, as far as the address and the part reach.
TEST(AdapterWork, ComparesPatchedWordsAsFarAsTheyGo) {
  DXGKIT_COVERS("PATCH-27");
  constexpr uint64_t kLow = 0x1234'5670, kHigh = 0x2'1234'5670;
  struct Case {
    const char* what;
    uint64_t address;  // of the allocation
    uint32_t offset;   // of the word in the buffer; its part is [256, 1024)
    uint64_t written;  // eight bytes, or as many as the buffer's part has
    bool wrong;
    uint32_t allocation = 1;  // index
    bool has_handle = true, has_segment = true;
    uint32_t allocation_offset = 0;
    uint32_t entries = 2;  // of the list
  };
  const Case cases[] = {
      {"eight bytes", kHigh, 512, kHigh, false},
      {"the upper half", kHigh, 512, kLow, true},
      {"the lower half", kHigh, 512, kHigh + 4, true},
      {"the last eight bytes", kHigh, 1016, kHigh, false},
      {"their upper half", kHigh, 1016, kLow, true},
      {"no room for the upper half", kHigh, 1020, kLow, false},
      {"a byte less than eight", kHigh, 1017, kLow, false},
      {"no room and wrong", kHigh, 1020, kLow + 4, true},
      {"four bytes", kLow, 512, kLow | 0xFFFF'FFFF'0000'0000, false},
      {"four wrong bytes", kLow, 512, kLow + 1, true},
      {"the largest of four bytes", 0xFFFF'FFF0, 512, 0xFFFF'FFF0 | uint64_t{7} << 32, false},
      {"an offset that carries into the upper half", 0xFFFF'FFF0, 512, 0x1'0000'0000, false, 1,
       true, true, 0x10},
      {"the same without it", 0xFFFF'FFF0, 512, 0, true, 1, true, true, 0x10},
      {"the last four bytes", kLow, 1020, kLow + 1, true},
      {"three bytes", kLow, 1021, 0, false},
      {"behind the part", kLow, 1024, 0, false},
      {"the first word", kLow, 256, kLow + 1, true},
      {"a byte before the part", kLow, 255, 0, false},
      {"no entry of the list", kLow, 512, 0, false, 2},
      {"the entry behind the list", kLow, 512, 0, false, 1, true, true, 0, 1},
      {"the last entry of the list", kLow, 512, 0, true},
      {"an entry without an allocation", kLow, 512, 0, false, 1, false},
      {"an entry without a place", kLow, 512, 0, false, 1, true, false},
  };
  runtime::make_sim_runtime(1)->run_main([&] {
    for (const Case& c : cases) {
      SCOPED_TRACE(c.what);
      PortWorld world;
      world.start();
      // The driver writes addresses, so each word is judged.
      Packet first;
      first.list[1].set(false, SegmentId{2}, kLow);
      first.patches[2] = {.allocation_index = 1, .patch_offset = 512};
      first.patch.patch_length = 1;
      world.miniport.hooks.patch = [&](const DXGKARG_PATCH*) {
        std::memcpy(reinterpret_cast<std::byte*>(first.storage.data()) + 512, &kLow, 4);
        return kOk;
      };
      EXPECT_EQ(world.adapter->submission().patch(first.patch), Status::kSuccess);
      Packet packet;
      packet.list[1].set(false, c.has_segment ? SegmentId{2} : SegmentId{0}, c.address);
      if (!c.has_handle) packet.list[1].device_handle = nullptr;
      packet.patch.allocation_count = c.entries;
      packet.patches[2] = {.allocation_index = c.allocation,
                           .allocation_offset = c.allocation_offset,
                           .patch_offset = c.offset};
      packet.patch.patch_length = 1;
      std::byte* const word = reinterpret_cast<std::byte*>(packet.storage.data()) + c.offset;
      const size_t room = c.offset < 1024 ? std::min<size_t>(8, 1024 - c.offset) : 0;
      world.miniport.hooks.patch = [&](const DXGKARG_PATCH*) {
        if (c.offset >= 256) std::memcpy(word, &c.written, room);
        return kOk;
      };
      EXPECT_EQ(world.adapter->submission().patch(packet.patch), Status::kSuccess);
      EXPECT_EQ(world.findings.count("PATCH-27"), c.wrong ? 1u : 0u);
      EXPECT_EQ(world.findings.total(), c.wrong ? 1u : 0u) << world.findings_text();
      world.stop();
    }
  });
}

/// Calls that have no way back: any answer but success is fatal, with the code and parameter of the
/// rule, and the host is told.
TEST(AdapterWork, TreatsFailureOfFinalCallsAsFatal) {
  DXGKIT_COVERS("PATCH-31", "SUB-27", "PREEMPT-11", "CANCEL-18");
  in_both_modes([] {
    PortWorld world;
    world.start();
    Packet packet;
    const auto fail = [](auto*) { return to_ntstatus(Status::kInvalidParameter); };
    world.miniport.hooks.patch = fail;
    world.miniport.hooks.submit = fail;
    world.miniport.hooks.preempt = fail;
    world.miniport.hooks.cancel = fail;
    EXPECT_EQ(world.adapter->submission().patch(packet.patch), Status::kInvalidParameter);
    EXPECT_EQ(world.adapter->submission().submit(packet.submit), Status::kInvalidParameter);
    EXPECT_EQ(world.adapter->submission().preempt(NodeOrdinal{0}, SubmissionFenceId{1}),
              Status::kInvalidParameter);
    EXPECT_EQ(world.adapter->submission().cancel(packet.patch), Status::kInvalidParameter);
    ASSERT_EQ(world.host.fatal.size(), 4u);
    const auto expect = [&](size_t index, const char* rule, uint32_t parameter) {
      EXPECT_EQ(world.host.fatal[index].rule, rule);
      EXPECT_EQ(world.host.fatal[index].severity, verifier::Severity::kBugCheck);
      EXPECT_EQ(world.host.fatal[index].bugcheck_code, 0x119u);
      EXPECT_EQ(world.host.fatal[index].bugcheck_parameter, parameter);
      EXPECT_EQ(world.findings.count(rule), 1u);
    };
    expect(0, "PATCH-31", 3);
    expect(1, "SUB-27", 2);
    expect(2, "PREEMPT-11", 2);
    expect(3, "CANCEL-18", 9);
    world.stop();
  });
}

struct RenderSetup {
  RenderSetup() {
    args.command = command.data();
    args.command_length = static_cast<uint32_t>(command.size());
    args.buffer.cpu = reinterpret_cast<std::byte*>(dma.data());
    args.buffer.size_bytes = 4096;
    args.buffer.private_data = private_data.data();
    args.buffer.private_size_bytes = static_cast<uint32_t>(private_data.size());
    args.patches_out = patches.data();
    args.patches_out_capacity = static_cast<uint32_t>(patches.size());
  }
  std::vector<uint64_t> dma = std::vector<uint64_t>(512);
  std::array<std::byte, 32> command{};
  std::array<std::byte, 32> private_data{};
  std::array<PatchLocation, 4> patches{};
  RenderArgs args;
};

/// Pointers that come back out of bounds, in either direction or between elements, stop the
/// adapter.
TEST(AdapterWork, BoundsWhatRenderReturns) {
  DXGKIT_COVERS("REND-08");
  in_both_modes([] {
    struct Case {
      const char* what;
      std::function<void(DXGKARG_RENDER*)> change;
      bool legal;
    };
    const Case cases[] = {
        {"all of the buffer",
         [](auto* a) { a->pDmaBuffer = static_cast<std::byte*>(a->pDmaBuffer) + 4096; }, true},
        {"one byte more",
         [](auto* a) { a->pDmaBuffer = static_cast<std::byte*>(a->pDmaBuffer) + 4097; }, false},
        {"before the start",
         [](auto* a) { a->pDmaBuffer = static_cast<std::byte*>(a->pDmaBuffer) - 1; }, false},
        {"null", [](auto* a) { a->pDmaBuffer = nullptr; }, false},
        {"all patches", [](auto* a) { a->pPatchLocationListOut += 4; }, true},
        {"one patch more", [](auto* a) { a->pPatchLocationListOut += 5; }, false},
        {"half a patch",
         [](auto* a) {
           a->pPatchLocationListOut = reinterpret_cast<D3DDDI_PATCHLOCATIONLIST*>(
               reinterpret_cast<std::byte*>(a->pPatchLocationListOut) + 12);
         },
         false},
        {"all private data",
         [](auto* a) {
           a->pDmaBufferPrivateData = static_cast<std::byte*>(a->pDmaBufferPrivateData) + 32;
         },
         true},
        {"private data overrun",
         [](auto* a) {
           a->pDmaBufferPrivateData = static_cast<std::byte*>(a->pDmaBufferPrivateData) + 33;
         },
         false},
    };
    PortWorld world;
    world.start();
    const auto device = world.adapter->objects().create_device(1, false);
    const auto context =
        world.adapter->objects().create_context(device->handle, 2, NodeOrdinal{0}, 1, false, {});
    for (const Case& c : cases) {
      RenderSetup setup;
      setup.args.context = context->handle;
      world.miniport.hooks.render = [&](void*, DXGKARG_RENDER* args) {
        c.change(args);
        return kOk;
      };
      const size_t before = world.findings.count("REND-08");
      const RenderResult result = world.adapter->rendering().render(setup.args);
      EXPECT_EQ(result.status, c.legal ? Status::kSuccess : Status::kUnsuccessful) << c.what;
      EXPECT_EQ(world.findings.count("REND-08") - before, c.legal ? 0u : 1u) << c.what;
      if (!c.legal) {
        EXPECT_EQ(world.host.fatal.back().bugcheck_code, 0x10Eu);
        EXPECT_EQ(world.host.fatal.back().bugcheck_parameter, 0x12u);
        EXPECT_EQ(result.dma_bytes, 0u);
      }
    }
    EXPECT_EQ(world.adapter->objects().destroy_context(context->handle), Status::kSuccess);
    EXPECT_EQ(world.adapter->objects().destroy_device(device->handle), Status::kSuccess);
    world.stop();
  });
}

/// A byte behind the buffer or its private data is seen where there is a guard and checks are on.
TEST(AdapterWork, SeesWhoWritesBehindTheBuffersOfRender) {
  DXGKIT_COVERS("REND-08");
  struct Case {
    bool guarded, private_guarded, checks, writes_private;
    bool seen() const { return checks && (writes_private ? private_guarded : guarded); }
  };
  runtime::make_sim_runtime(1)->run_main([] {
    for (uint32_t bits = 0; bits < 16; ++bits) {
      const Case c{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
      SCOPED_TRACE(bits);
      PortWorld world;
      world.start();
      world.adapter->set_reference_checks(c.checks);
      std::vector<std::byte> dma(512 + kGuardBytes), private_data(48 + kGuardBytes);
      const auto device = world.adapter->objects().create_device(1, false);
      const auto context =
          world.adapter->objects().create_context(device->handle, 2, NodeOrdinal{0}, 1, false, {});
      RenderSetup setup;
      setup.args.context = context->handle;
      setup.args.buffer.cpu = dma.data();
      setup.args.buffer.size_bytes = 512;
      setup.args.buffer.private_data = private_data.data();
      setup.args.buffer.private_size_bytes = 48;
      setup.args.buffer.guarded = c.guarded;
      setup.args.buffer.private_guarded = c.private_guarded;
      world.miniport.hooks.render = [&](void*, DXGKARG_RENDER*) {
        (c.writes_private ? private_data[48] : dma[512]) = std::byte{0x77};
        return kOk;
      };
      const RenderResult result = world.adapter->rendering().render(setup.args);
      EXPECT_EQ(world.findings.count("REND-08"), c.seen() ? 1U : 0U);
      EXPECT_EQ(world.findings.total(), c.seen() ? 1U : 0U) << world.findings_text();
      EXPECT_EQ(result.status, c.seen() ? Status::kUnsuccessful : Status::kSuccess);
      if (c.seen()) {
        const char* const place = c.writes_private ? "private data" : "DMA buffer";
        EXPECT_NE(world.findings.all()[0].actual.find(place), std::string::npos);
      }
      EXPECT_EQ(world.adapter->objects().destroy_context(context->handle), Status::kSuccess);
      EXPECT_EQ(world.adapter->objects().destroy_device(device->handle), Status::kSuccess);
      world.stop();
    }
  });
}

/// Where a driver is told of less room than there is, a guard lies behind that, if it fits.
TEST(AdapterWork, SeesWhoWritesBehindLessRoom) {
  DXGKIT_COVERS("REND-08");
  struct Less : FaultInjector {
    std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
    std::optional<Status> before_paging(const PagingOperation&, uint32_t) override {
      return std::nullopt;
    }
    uint32_t room(std::string_view ddi, uint32_t bytes) override {
      return ddi == "DxgkDdiRender" ? less : bytes;
    }
    void shape(SegmentsInfo*) override {}
    uint32_t less = 0;
  };
  constexpr uint32_t kBytes = 512;
  runtime::make_sim_runtime(1)->run_main([] {
    for (const uint32_t room : {8U, kBytes - kGuardBytes, kBytes - kGuardBytes + 1}) {
      for (const bool checks : {true, false}) {
        SCOPED_TRACE(room);
        PortWorld world;
        world.start();
        world.adapter->set_reference_checks(checks);
        Less injector;
        injector.less = room;
        world.adapter->set_fault_injector(&injector);
        std::vector<std::byte> dma(kBytes + kGuardBytes);
        const auto device = world.adapter->objects().create_device(1, false);
        const auto context = world.adapter->objects().create_context(device->handle, 2,
                                                                     NodeOrdinal{0}, 1, false, {});
        RenderSetup setup;
        setup.args.context = context->handle;
        setup.args.buffer.cpu = dma.data();
        setup.args.buffer.size_bytes = kBytes;
        world.miniport.hooks.render = [&](void*, DXGKARG_RENDER* args) {
          EXPECT_EQ(args->DmaSize, room);
          dma[room] = std::byte{0x77};
          return kOk;
        };
        const bool seen = checks && room + kGuardBytes <= kBytes;
        EXPECT_EQ(world.adapter->rendering().render(setup.args).status,
                  seen ? Status::kUnsuccessful : Status::kSuccess);
        EXPECT_EQ(world.findings.count("REND-08"), seen ? 1U : 0U);
        world.adapter->set_fault_injector(nullptr);
        EXPECT_EQ(world.adapter->objects().destroy_context(context->handle), Status::kSuccess);
        EXPECT_EQ(world.adapter->objects().destroy_device(device->handle), Status::kSuccess);
        world.stop();
      }
    }
  });
}

/// An injector that leaves all commands readable leaves them where the client put them.
TEST(AdapterWork, CommandsThatCanBeReadLieWhereTheClientPutThem) {
  DXGKIT_COVERS("REND-03");
  struct Idle : FaultInjector {
    std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
    std::optional<Status> before_paging(const PagingOperation&, uint32_t) override {
      return std::nullopt;
    }
    uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
    void shape(SegmentsInfo*) override {}
  };
  runtime::make_sim_runtime(1)->run_main([] {
    PortWorld world;
    world.start();
    Idle injector;
    world.adapter->set_fault_injector(&injector);
    const auto device = world.adapter->objects().create_device(1, false);
    const auto context =
        world.adapter->objects().create_context(device->handle, 2, NodeOrdinal{0}, 1, false, {});
    RenderSetup setup;
    setup.args.context = context->handle;
    world.miniport.hooks.render = [&](void*, DXGKARG_RENDER* args) {
      EXPECT_EQ(args->pCommand, setup.command.data());
      EXPECT_EQ(args->CommandLength, setup.command.size());
      EXPECT_EQ(args->DmaSize, setup.args.buffer.size_bytes);
      return kOk;
    };
    EXPECT_EQ(world.adapter->rendering().render(setup.args).status, Status::kSuccess);
    EXPECT_EQ(world.miniport.count("DxgkDdiRender"), 1U);
    world.adapter->set_fault_injector(nullptr);
    EXPECT_EQ(world.adapter->objects().destroy_context(context->handle), Status::kSuccess);
    EXPECT_EQ(world.adapter->objects().destroy_device(device->handle), Status::kSuccess);
    world.stop();
  });
}

/// An injector that says it has written too much is believed where the driver succeeded, and no
/// driver's failure is made one of bounds.
TEST(AdapterWork, AnOverrunIsOfASuccess) {
  struct Overrunning : FaultInjector {
    std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
    std::optional<Status> before_paging(const PagingOperation&, uint32_t) override {
      return std::nullopt;
    }
    uint32_t room(std::string_view ddi, uint32_t bytes) override {
      return ddi == "DxgkDdiRender" ? bytes / 2 : bytes;
    }
    uint32_t overrun(std::string_view ddi) override { return ddi == "DxgkDdiRender" ? much : 0; }
    void shape(SegmentsInfo*) override {}
    uint32_t much = 8;
  };
  runtime::make_sim_runtime(1)->run_main([] {
    for (const NTSTATUS answer : {kOk, to_ntstatus(Status::kGraphicsInsufficientDmaBuffer),
                                  to_ntstatus(Status::kNoMemory)}) {
      for (const uint32_t much : {0U, 8U}) {
        SCOPED_TRACE(much);
        PortWorld world;
        world.start();
        Overrunning injector;
        injector.much = much;
        world.adapter->set_fault_injector(&injector);
        uint32_t room = 0;
        world.miniport.hooks.render = [&](void*, DXGKARG_RENDER* args) {
          room = args->DmaSize;
          return answer;
        };
        const auto device = world.adapter->objects().create_device(1, false);
        const auto context = world.adapter->objects().create_context(device->handle, 2,
                                                                     NodeOrdinal{0}, 1, false, {});
        RenderSetup setup;
        setup.args.context = context->handle;
        const RenderResult result = world.adapter->rendering().render(setup.args);
        const bool over = answer == kOk && much != 0;
        EXPECT_EQ(room, 2048U);
        EXPECT_EQ(result.status, over ? Status::kUnsuccessful : from_ntstatus(answer));
        EXPECT_EQ(world.findings.count("REND-08"), over ? 1U : 0U);
        world.adapter->set_fault_injector(nullptr);
        EXPECT_EQ(world.adapter->objects().destroy_context(context->handle), Status::kSuccess);
        EXPECT_EQ(world.adapter->objects().destroy_device(device->handle), Status::kSuccess);
        world.stop();
      }
    }
  });
}

/// Documented codes pass, any other becomes STATUS_INVALID_PARAMETER and a finding.
TEST(AdapterWork, KnowsTheCodesOfRender) {
  DXGKIT_COVERS("REND-16");
  in_both_modes([] {
    PortWorld world;
    world.start();
    const auto device = world.adapter->objects().create_device(1, false);
    const auto context =
        world.adapter->objects().create_context(device->handle, 2, NodeOrdinal{0}, 1, false, {});
    const auto render_with = [&](Status status) {
      RenderSetup setup;
      setup.args.context = context->handle;
      world.miniport.hooks.render = [&](void*, DXGKARG_RENDER*) { return to_ntstatus(status); };
      return world.adapter->rendering().render(setup.args).status;
    };
    for (const Status legal :
         {Status::kNoMemory, Status::kGraphicsInsufficientDmaBuffer, Status::kPrivilegedInstruction,
          Status::kIllegalInstruction, Status::kInvalidParameter, Status::kInvalidUserBuffer,
          Status::kInvalidHandle, Status::kGraphicsDriverMismatch,
          Status::kGraphicsGpuExceptionOnDevice}) {
      EXPECT_EQ(render_with(legal), legal);
    }
    EXPECT_EQ(world.findings.count("REND-16"), 0u);
    for (const Status illegal : {Status::kPending, Status::kUnsuccessful, Status::kAccessDenied}) {
      EXPECT_EQ(render_with(illegal), Status::kInvalidParameter);
    }
    EXPECT_EQ(world.findings.count("REND-16"), 3u);
    EXPECT_TRUE(world.host.fatal.empty());
    EXPECT_EQ(world.adapter->objects().destroy_context(context->handle), Status::kSuccess);
    EXPECT_EQ(world.adapter->objects().destroy_device(device->handle), Status::kSuccess);
    world.stop();
  });
}

struct PagingSetup {
  PagingSetup() {
    args.buffer = reinterpret_cast<std::byte*>(buffer.data());
    args.buffer_bytes = 4096;
    args.private_data = private_data.data();
    args.private_bytes = static_cast<uint32_t>(private_data.size());
    args.operation = &operation;
  }
  std::vector<uint64_t> buffer = std::vector<uint64_t>(512);
  std::array<std::byte, 64> private_data{};
  PagingOperation operation;
  BuildPagingArgs args;
};

/// Segment sides carry an address, system-memory sides an MDL with exactly the pages; offsets go
/// where the rule says.
TEST(AdapterWork, FillsTransfers) {
  DXGKIT_COVERS("PAGE-17");
  in_both_modes([] {
    PortWorld world;
    world.start();
    PagingSetup setup;
    const std::array<uint64_t, 3> pages = {0x100005, 0x100009, 0x100002};
    int allocation = 0;
    setup.operation.kind = PagingOperation::Kind::kTransfer;
    setup.operation.allocation = &allocation;
    setup.operation.transfer_offset = 4096;
    setup.operation.size_bytes = 8192;
    setup.operation.mdl_offset_pages = 1;
    setup.operation.source.pages = pages;
    setup.operation.destination.segment = SegmentId{2};
    setup.operation.destination.segment_address = 0x2'0000'0000 + 0x5000;
    setup.operation.transfer_end = false;
    const BuildPagingResult result = world.adapter->paging().build_paging(setup.args);
    ASSERT_EQ(result.status, Status::kSuccess);
    EXPECT_EQ(result.bytes_written, sizeof(testing::PagingRecord));
    const auto call = world.miniport.calls().paging.at(0);
    EXPECT_EQ(call.args.Operation, DXGK_OPERATION_TRANSFER);
    EXPECT_EQ(call.args.DmaSize, 4096u);
    EXPECT_EQ(call.args.Transfer.hAllocation, &allocation);
    EXPECT_EQ(call.args.Transfer.TransferOffset, 4096u);
    EXPECT_EQ(call.args.Transfer.TransferSize, 8192u);
    EXPECT_EQ(call.args.Transfer.MdlOffset, 1u);
    EXPECT_EQ(call.args.Transfer.Source.SegmentId, 0u);
    EXPECT_EQ(call.source_pages, (std::vector<uint64_t>{0x100005, 0x100009, 0x100002}));
    EXPECT_EQ(call.args.Transfer.Destination.SegmentId, 2u);
    EXPECT_EQ(call.args.Transfer.Destination.SegmentAddress.QuadPart, 0x2'0000'5000);
    EXPECT_EQ(call.args.Transfer.Flags.TransferStart, 1u);
    EXPECT_EQ(call.args.Transfer.Flags.TransferEnd, 0u);
    EXPECT_EQ(call.args.Transfer.Flags.AllocationIsIdle, 0u);
    world.stop();
  });
}

/// Out-of-bounds pointers, undocumented codes and BUSY at the wrong time are fatal, each with its
/// parameter.
TEST(AdapterWork, ChecksWhatPagingReturns) {
  DXGKIT_COVERS("PAGE-05", "PAGE-06", "PAGE-07", "PAGE-13");
  in_both_modes([] {
    struct Case {
      const char* rule;
      uint32_t parameter;
      PagingOperation::Kind kind;
      bool idle;
      std::function<NTSTATUS(DXGKARG_BUILDPAGINGBUFFER*)> answer;
    };
    using Kind = PagingOperation::Kind;
    const auto busy = [](auto*) { return to_ntstatus(Status::kGraphicsAllocationBusy); };
    const Case cases[] = {
        {"PAGE-05", 0x12, Kind::kFill, false,
         [](auto* a) {
           a->pDmaBuffer = static_cast<std::byte*>(a->pDmaBuffer) + 4097;
           return kOk;
         }},
        {"PAGE-05", 0x12, Kind::kFill, false,
         [](auto* a) {
           a->pDmaBuffer = static_cast<std::byte*>(a->pDmaBuffer) - 8;
           return kOk;
         }},
        {"PAGE-06", 0x13, Kind::kFill, false,
         [](auto* a) {
           a->pDmaBufferPrivateData = static_cast<std::byte*>(a->pDmaBufferPrivateData) + 65;
           return kOk;
         }},
        {"PAGE-07", 0xB, Kind::kFill, false, [](auto*) { return to_ntstatus(Status::kNoMemory); }},
        {"PAGE-07", 0xB, Kind::kTransfer, false,
         [](auto*) { return to_ntstatus(Status::kPending); }},
        {"PAGE-13", 0xB, Kind::kFill, false, busy},
        {"PAGE-13", 0xB, Kind::kTransfer, true, busy},
        {nullptr, 0, Kind::kTransfer, false, busy},
        {nullptr, 0, Kind::kDiscardContent, false, busy},
        {nullptr, 0, Kind::kFill, false,
         [](auto* a) {
           a->MultipassOffset = 9;
           return to_ntstatus(Status::kGraphicsInsufficientDmaBuffer);
         }},
    };
    PortWorld world;
    world.start();
    for (const Case& c : cases) {
      PagingSetup setup;
      setup.operation.kind = c.kind;
      setup.operation.allocation_is_idle = c.idle;
      world.miniport.hooks.build_paging = c.answer;
      const size_t before = world.host.fatal.size();
      const BuildPagingResult result = world.adapter->paging().build_paging(setup.args);
      if (c.rule == nullptr) {
        EXPECT_NE(result.status, Status::kUnsuccessful);
        EXPECT_EQ(world.host.fatal.size(), before);
        if (c.kind == Kind::kFill) {
          EXPECT_EQ(result.multipass_offset, 9u);
        }
        continue;
      }
      EXPECT_EQ(result.status, Status::kUnsuccessful) << c.rule;
      EXPECT_EQ(result.bytes_written, 0u);
      ASSERT_EQ(world.host.fatal.size(), before + 1) << c.rule;
      EXPECT_EQ(world.host.fatal.back().rule, c.rule);
      EXPECT_EQ(world.host.fatal.back().bugcheck_code, 0x10Eu);
      EXPECT_EQ(world.host.fatal.back().bugcheck_parameter, c.parameter);
    }
    world.stop();
  });
}

/// A driver is told of less private data than there is, and keeps to it or not.
TEST(AdapterWork, PrivateDataOfPagingMayBeShort) {
  DXGKIT_COVERS("PAGE-06");
  struct Short : FaultInjector {
    std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
    std::optional<Status> before_paging(const PagingOperation&, uint32_t) override {
      return std::nullopt;
    }
    uint32_t room(std::string_view what, uint32_t bytes) override {
      return what == kPagingPrivateRoom ? 8 : bytes;
    }
    void shape(SegmentsInfo*) override {}
  };
  runtime::make_sim_runtime(1)->run_main([] {
    for (const size_t moved : {size_t{8}, size_t{9}}) {
      SCOPED_TRACE(moved);
      PortWorld world;
      world.start();
      Short injector;
      world.adapter->set_fault_injector(&injector);
      uint32_t told = 0;
      world.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
        told = args->DmaBufferPrivateDataSize;
        args->pDmaBufferPrivateData = static_cast<std::byte*>(args->pDmaBufferPrivateData) + moved;
        return kOk;
      };
      PagingSetup setup;
      setup.operation.kind = PagingOperation::Kind::kFill;
      const BuildPagingResult result = world.adapter->paging().build_paging(setup.args);
      EXPECT_EQ(told, 8U);
      EXPECT_EQ(world.host.fatal.size(), moved == 8 ? 0U : 1U);
      if (moved == 8) {
        EXPECT_EQ(result.private_bytes_written, 8U);
      } else {
        EXPECT_EQ(world.host.fatal.back().rule, "PAGE-06");
      }
      world.adapter->set_fault_injector(nullptr);
      world.stop();
    }
  });
}

/// Create and open: null handles and undocumented codes are findings; what the driver said about
/// the allocation comes through.
TEST(AdapterWork, ChecksAllocations) {
  DXGKIT_COVERS("ALLOC-02", "ALLOC-03");
  in_both_modes([] {
    PortWorld world;
    world.start();
    testing::ScriptedAllocation wanted;
    wanted.size = 12345;
    wanted.alignment = 65536;
    wanted.supported_write = 3;
    wanted.priority = 77;
    std::array<AllocationInfo, 2> infos;
    infos[0].private_data = {reinterpret_cast<std::byte*>(&wanted), sizeof(wanted)};
    ASSERT_EQ(world.adapter->allocations().create_allocations(infos, {}, false, nullptr),
              Status::kSuccess);
    EXPECT_NE(infos[0].handle, nullptr);
    EXPECT_EQ(infos[0].size, 12345u);
    EXPECT_EQ(infos[0].alignment, 65536u);
    EXPECT_EQ(infos[0].supported_write, 3u);
    EXPECT_EQ(infos[0].priority, 77u);
    EXPECT_EQ(infos[1].size, 65536u);
    const std::array<void*, 2> handles = {infos[0].handle, infos[1].handle};
    EXPECT_EQ(world.adapter->allocations().destroy_allocations(handles, nullptr, false),
              Status::kSuccess);
    EXPECT_EQ(world.miniport.live_objects(), 0u);

    world.miniport.hooks.create_allocation = [](auto*) { return kOk; };
    EXPECT_EQ(world.adapter->allocations().create_allocations(infos, {}, false, nullptr),
              Status::kInvalidParameter);
    EXPECT_EQ(world.findings.count("ALLOC-02"), 1u);
    world.miniport.hooks.create_allocation = [](auto*) {
      return to_ntstatus(Status::kAccessDenied);
    };
    EXPECT_EQ(world.adapter->allocations().create_allocations(infos, {}, false, nullptr),
              Status::kAccessDenied);
    world.miniport.hooks.create_allocation = [](auto*) { return to_ntstatus(Status::kPending); };
    EXPECT_EQ(world.adapter->allocations().create_allocations(infos, {}, false, nullptr),
              Status::kInvalidParameter);
    EXPECT_EQ(world.findings.count("ALLOC-03"), 2u);
    for (const Status legal :
         {Status::kInvalidParameter, Status::kNoMemory, Status::kGraphicsDriverMismatch}) {
      world.miniport.hooks.create_allocation = [&](auto*) { return to_ntstatus(legal); };
      EXPECT_EQ(world.adapter->allocations().create_allocations(infos, {}, false, nullptr), legal);
    }
    EXPECT_EQ(world.findings.count("ALLOC-03"), 2u);

    const auto device = world.adapter->objects().create_device(1, false);
    world.miniport.hooks.open_allocation = [](void*, auto*) { return kOk; };
    std::array<OpenInfo, 1> opened;
    EXPECT_EQ(world.adapter->allocations().open_allocations(device->handle, opened, {}, true, 0),
              Status::kInvalidParameter);
    EXPECT_EQ(world.findings.count("ALLOC-02"), 2u);
    EXPECT_EQ(world.adapter->objects().destroy_device(device->handle), Status::kSuccess);
    world.stop();
  });
}

/// hResource is the driver's to write for a new resource only; what else it writes is not taken.
TEST(AdapterWork, TakesAResourceHandleForANewResource) {
  DXGKIT_COVERS("ALLOC-62");
  in_both_modes([] {
    PortWorld world;
    world.start();
    static int mine, given;
    world.miniport.hooks.create_allocation = [](DXGKARG_CREATEALLOCATION* args) {
      args->hResource = &mine;
      return kOk;
    };
    const auto create = [&](bool creates, void** resource) {
      return world.adapter->allocations().create_allocations({}, {}, creates, resource);
    };
    void* resource = nullptr;
    EXPECT_EQ(create(true, &resource), Status::kSuccess);
    EXPECT_EQ(resource, &mine);
    EXPECT_EQ(create(true, &resource), Status::kSuccess) << "written, and not changed";
    EXPECT_EQ(world.findings.count("ALLOC-62"), 0U);
    resource = &given;
    EXPECT_EQ(create(true, &resource), Status::kSuccess);
    EXPECT_EQ(resource, &given);
    EXPECT_EQ(world.findings.count("ALLOC-62"), 1U);
    resource = nullptr;
    EXPECT_EQ(create(false, &resource), Status::kSuccess);
    EXPECT_EQ(resource, nullptr);
    EXPECT_EQ(create(false, nullptr), Status::kSuccess);
    EXPECT_EQ(world.findings.count("ALLOC-62"), 3U);
    world.stop();
  });
}

/// A bug check inside a DDI stops the adapter, not the process: the call comes back, and the driver
/// is never called again.
TEST(AdapterWork, SurvivesABugCheck) {
  in_both_modes([] {
    PortWorld world;
    world.start();
    Packet packet;
    const auto bug_check = reinterpret_cast<void(NTAPI*)(uint32_t)>(
        const_cast<void*>(nt::find_export("KeBugCheck")->address));
    world.miniport.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND*) -> NTSTATUS {
      bug_check(0x116);
      ADD_FAILURE() << "a bug check returned";
      return 0;
    };
    EXPECT_EQ(world.adapter->submission().submit(packet.submit), Status::kDeviceRemoved);
    ASSERT_EQ(world.host.fatal.size(), 1u);
    EXPECT_EQ(world.host.fatal[0].bugcheck_code, 0x116u);
    EXPECT_EQ(nt::CallFrame::current_or_null(), nullptr);
    EXPECT_EQ(world.adapter->submission().patch(packet.patch), Status::kDeviceRemoved);
    EXPECT_EQ(world.miniport.count("DxgkDdiPatch"), 0u);
    EXPECT_EQ(world.adapter->life().stop_device(), Status::kDeviceRemoved);
    EXPECT_EQ(world.adapter->life().remove_device(), Status::kDeviceRemoved);
  });
}

}  // namespace
}  // namespace dxgkit::port
