// DxgkDdiPatch and DXGKARG_PATCH, member by member.
#include <cstring>

#include "dxgk/adapter/adapter.h"
#include "port/fault_injector.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using PatchTest = ContractTest;

/// Patch calls of one kind.
std::vector<testing::PatchCall> patches_of(Stack& stack, bool paging) {
  std::vector<testing::PatchCall> calls = stack.miniport.calls().patches;
  std::erase_if(calls, [&](const auto& call) { return (call.args.Flags.Paging != 0) != paging; });
  return calls;
}
std::vector<testing::SubmitCall> submits_of(Stack& stack, bool paging) {
  std::vector<testing::SubmitCall> calls = stack.miniport.calls().submits;
  std::erase_if(calls, [&](const auto& call) { return (call.args.Flags.Paging != 0) != paging; });
  return calls;
}

/// 1 MiB of video memory: two allocations of 640 KiB cannot be there together, so that a buffer
/// that needs both is split.
void small_memory(ScriptedMiniport& miniport) { miniport.config.segments[1].size = kMebibyte; }

/// A DMA buffer of 1024 bytes that needs `first`, and from byte 512 on `second`.
Work split_work(D3DKMT_HANDLE first, D3DKMT_HANDLE second) {
  Work work;
  work.command_bytes = 1024;
  work.allocations = {{first}, {second}};
  work.patches = {patch_at(0, 16, 0), patch_at(0, 32, 0), patch_at(1, 528, 512)};
  return work;
}

TEST_F(PatchTest, ComesRightBeforeEachSubmissionOfAPatchingContext) {
  DXGKIT_COVERS("PATCH-01", "SUB-08");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE allocation = client.make_allocation();
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(client.render(context, work_on({allocation})), 0);
      stack.drive();
    }
    const ScriptedCalls calls = stack.miniport.calls();
    ASSERT_EQ(calls.patches.size(), calls.submits.size());
    ASSERT_EQ(submits_of(stack, false).size(), 3U);
    for (size_t i = 0; i < calls.order.size(); ++i) {
      if (calls.order[i] == "DxgkDdiSubmitCommand") {
        EXPECT_EQ(calls.order[i - 1], "DxgkDdiPatch") << i;
      }
    }
    for (size_t i = 0; i < calls.patches.size(); ++i) {
      const DXGKARG_PATCH& patch = calls.patches[i].args;
      const DXGKARG_SUBMITCOMMAND& submit = calls.submits[i].args;
      EXPECT_EQ(patch.DmaBufferSubmissionStartOffset, submit.DmaBufferSubmissionStartOffset);
      EXPECT_EQ(patch.DmaBufferSubmissionEndOffset, submit.DmaBufferSubmissionEndOffset);
    }
  });
}

TEST_F(PatchTest, NamesTheDriversContextWhereTheDriverMakesContexts) {
  DXGKIT_COVERS("PATCH-03", "SUB-02");
  with_client([](Stack& stack, Client& client) {
    void* made = nullptr;
    stack.miniport.hooks.create_context = [&](void* device, DXGKARG_CREATECONTEXT* args) {
      const NTSTATUS status = stack.miniport.default_create_context(device, args);
      made = args->hContext;
      return status;
    };
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation()})), 0);
    stack.drive();
    ASSERT_EQ(patches_of(stack, false).size(), 1U);
    EXPECT_EQ(patches_of(stack, false)[0].args.hContext, made);
    EXPECT_EQ(submits_of(stack, false)[0].args.hContext, made);
  });
}

void without_contexts(ScriptedMiniport& miniport) {
  miniport.config.multi_engine_aware = false;
  miniport.config.preemption_aware = false;
  miniport.config.cancel_command_aware = false;
  miniport.config.nodes = 1;
  miniport.config.paging_node = 0;
}

TEST_F(PatchTest, NamesTheDriversDeviceWhereTheDriverMakesNoContexts) {
  DXGKIT_COVERS("PATCH-02", "SUB-02", "SCHED-02");
  std::vector<void*> devices;
  running(
      [&](Stack& stack) {
        Client client(stack);
        ContextBuffers context = client.make_context();
        ASSERT_EQ(client.render(context, work_on({client.make_allocation()})), 0);
        stack.drive();
        ASSERT_EQ(devices.size(), 2U) << "the system device and the client's";
        EXPECT_EQ(stack.miniport.count("DxgkDdiCreateContext"), 0U);
        ASSERT_EQ(patches_of(stack, false).size(), 1U);
        EXPECT_EQ(patches_of(stack, false)[0].args.hDevice, devices[1]);
        EXPECT_EQ(submits_of(stack, false)[0].args.hDevice, devices[1]);
        ASSERT_EQ(patches_of(stack, true).size(), 1U);
        EXPECT_EQ(patches_of(stack, true)[0].args.hDevice, devices[0]);
        EXPECT_EQ(submits_of(stack, true)[0].args.hDevice, devices[0]);
        EXPECT_EQ(patches_of(stack, false)[0].args.DmaBufferPrivateDataSize, 256U);
      },
      [&](ScriptedMiniport& miniport) {
        without_contexts(miniport);
        miniport.hooks.create_device = [&](DXGKARG_CREATEDEVICE* args) {
          const NTSTATUS status = miniport.default_create_device(args);
          devices.push_back(args->hDevice);
          return status;
        };
      });
}

TEST_F(PatchTest, ABufferInSystemMemoryHasSegmentZeroAndItsPhysicalAddress) {
  DXGKIT_COVERS("PATCH-05", "PATCH-06", "PATCH-09", "SUB-05", "SUB-06", "REND-02");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation()})), 0);
    stack.drive();
    const DXGKARG_PATCH patch = patches_of(stack, false)[0].args;
    const DXGKARG_SUBMITCOMMAND submit = submits_of(stack, false)[0].args;
    const auto physical = static_cast<uint64_t>(patch.DmaBufferPhysicalAddress.QuadPart);
    EXPECT_EQ(patch.DmaBufferSegmentId, 0U);
    EXPECT_EQ(submit.DmaBufferSegmentId, 0U);
    EXPECT_EQ(stack.machine.system_pointer(bus::PhysicalAddress{physical}, 16 * kKibibyte),
              patch.pDmaBuffer);
    EXPECT_EQ(reinterpret_cast<uint64_t>(patch.pDmaBuffer) % 4096, 0U);
    EXPECT_EQ(static_cast<uint64_t>(submit.DmaBufferPhysicalAddress.QuadPart), physical);
    EXPECT_EQ(stack.miniport.calls().renders[0].args.pDmaBuffer, patch.pDmaBuffer);
  });
}

TEST_F(PatchTest, ABufferInAnApertureSegmentHasItsIdAndBasePlusOffset) {
  DXGKIT_COVERS("PATCH-05", "PATCH-07", "SUB-05", "SUB-06", "PAGE-26", "REND-12");
  with_client(
      [](Stack& stack, Client& client) {
        // Something else sits at the aperture's start, so that the offset is not zero.
        ContextBuffers context = client.make_context();
        ContextBuffers other = client.make_context();
        const D3DKMT_HANDLE in_aperture = client.make_allocation(64 * kKibibyte, kAperture);
        ASSERT_EQ(client.render(other, work_on({in_aperture})), 0);
        ASSERT_EQ(client.render(context, work_on({in_aperture})), 0);
        stack.drive();
        const ScriptedCalls calls = stack.miniport.calls();
        EXPECT_EQ(calls.renders[1].args.DmaBufferSegmentId, 0U) << "not paged in yet";
        EXPECT_EQ(calls.renders[1].args.DmaBufferPhysicalAddress.QuadPart, 0);
        std::vector<uint64_t> offsets;
        for (const testing::PagingCall& call : calls.paging) {
          if (call.args.Operation != DXGK_OPERATION_MAP_APERTURE_SEGMENT) continue;
          if (call.args.MapApertureSegment.hAllocation != nullptr)
            continue;  // a DMA buffer's is null
          EXPECT_EQ(call.args.MapApertureSegment.SegmentId, 3U);
          EXPECT_EQ(call.args.MapApertureSegment.NumberOfPages, 4U);
          offsets.push_back(call.args.MapApertureSegment.OffsetInPages);
        }
        ASSERT_EQ(offsets.size(), 2U);
        const std::vector<testing::PatchCall> patches = patches_of(stack, false);
        ASSERT_EQ(patches.size(), 2U);
        for (size_t i = 0; i < 2; ++i) {
          const auto address =
              static_cast<uint64_t>(patches[i].args.DmaBufferPhysicalAddress.QuadPart);
          EXPECT_EQ(patches[i].args.DmaBufferSegmentId, 3U);
          EXPECT_EQ(address, 0x4'0000'0000U + offsets[i] * 4096);
          EXPECT_EQ(submits_of(stack, false)[i].args.DmaBufferSegmentId, 3U);
          EXPECT_EQ(static_cast<uint64_t>(
                        submits_of(stack, false)[i].args.DmaBufferPhysicalAddress.QuadPart),
                    address);
        }
        EXPECT_TRUE(offsets[0] != 0 || offsets[1] != 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) { miniport.config.dma_segment_set = kAperture; });
}

TEST_F(PatchTest, APartThatStartsLaterStillNamesTheWholeBufferAndLists) {
  DXGKIT_COVERS("PATCH-08", "PATCH-09", "PATCH-10", "PATCH-11", "PATCH-12", "PATCH-16", "PATCH-17",
                "PATCH-18", "PATCH-21", "PATCH-22", "PATCH-24", "PATCH-25", "PATCH-26", "SUB-06",
                "SUB-07", "SUB-08", "SUB-10", "SUB-12", "REND-21");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE first = client.make_allocation(640 * kKibibyte, kHidden);
        const D3DKMT_HANDLE second = client.make_allocation(640 * kKibibyte, kHidden);
        ASSERT_EQ(client.render(context, split_work(first, second)), 0);
        stack.drive();
        EXPECT_EQ(stack.statistics().splits, 1U);
        const std::vector<testing::PatchCall> patches = patches_of(stack, false);
        const std::vector<testing::SubmitCall> submits = submits_of(stack, false);
        ASSERT_EQ(patches.size(), 2U);
        ASSERT_EQ(submits.size(), 2U);
        const testing::RenderCall render = stack.miniport.calls().renders.at(0);
        const uint32_t starts[] = {0, 512}, ends[] = {512, 1024};
        const uint32_t first_element[] = {0, 2}, elements[] = {2, 1};
        for (size_t i = 0; i < 2; ++i) {
          const DXGKARG_PATCH& patch = patches[i].args;
          const DXGKARG_SUBMITCOMMAND& submit = submits[i].args;
          EXPECT_EQ(patch.pDmaBuffer, render.args.pDmaBuffer);
          const auto physical = static_cast<uint64_t>(patch.DmaBufferPhysicalAddress.QuadPart);
          EXPECT_EQ(stack.machine.system_pointer(bus::PhysicalAddress{physical}, 1),
                    patch.pDmaBuffer);
          EXPECT_EQ(submit.DmaBufferPhysicalAddress.QuadPart,
                    patch.DmaBufferPhysicalAddress.QuadPart);
          EXPECT_EQ(patch.DmaBufferSize, 16 * kKibibyte);
          EXPECT_EQ(submit.DmaBufferSize, 16 * kKibibyte);
          EXPECT_EQ(patch.DmaBufferSubmissionStartOffset, starts[i]);
          EXPECT_EQ(patch.DmaBufferSubmissionEndOffset, ends[i]);
          EXPECT_EQ(submit.DmaBufferSubmissionStartOffset, starts[i]);
          EXPECT_EQ(submit.DmaBufferSubmissionEndOffset, ends[i]);
          EXPECT_EQ(patch.DmaBufferPrivateDataSize, 256U);
          EXPECT_EQ(submit.DmaBufferPrivateDataSize, 256U);
          EXPECT_EQ(patch.DmaBufferPrivateDataSubmissionStartOffset, 0U);
          EXPECT_EQ(submit.DmaBufferPrivateDataSubmissionStartOffset, 0U);
          EXPECT_LE(patch.DmaBufferPrivateDataSubmissionEndOffset, 256U);
          EXPECT_EQ(submit.DmaBufferPrivateDataSubmissionEndOffset,
                    patch.DmaBufferPrivateDataSubmissionEndOffset);
          EXPECT_EQ(patch.AllocationListSize, 2U);
          EXPECT_EQ(patch.pAllocationList, patches[0].args.pAllocationList);
          EXPECT_EQ(patch.PatchLocationListSize, 3U);
          EXPECT_EQ(patch.pPatchLocationList, patches[0].args.pPatchLocationList);
          EXPECT_EQ(patch.PatchLocationListSubmissionStart, first_element[i]);
          EXPECT_EQ(patch.PatchLocationListSubmissionLength, elements[i]);
          ASSERT_EQ(patches[i].patches.size(), 3U);
          EXPECT_EQ(patches[i].patches[2].patch_offset, 528U);
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      small_memory);
}

TEST_F(PatchTest, PrivateDataIsTheSameFromRenderToSubmission) {
  DXGKIT_COVERS("PATCH-14", "PATCH-17", "PATCH-18", "SUB-09", "SUB-12", "REND-02");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.render = [&](void* context, DXGKARG_RENDER* args) {
      const NTSTATUS status = stack.miniport.default_render(context, args);
      std::memset(args->pDmaBufferPrivateData, 0x42, 40);
      args->pDmaBufferPrivateData = static_cast<std::byte*>(args->pDmaBufferPrivateData) + 40;
      return status;
    };
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation()})), 0);
    stack.drive();
    const testing::RenderCall render = stack.miniport.calls().renders.at(0);
    EXPECT_EQ(render.private_before, std::vector<std::byte>(256)) << "zero when the buffer is new";
    const testing::PatchCall patch = patches_of(stack, false).at(0);
    const testing::SubmitCall submit = submits_of(stack, false).at(0);
    EXPECT_EQ(patch.args.pDmaBufferPrivateData, render.args.pDmaBufferPrivateData);
    EXPECT_EQ(submit.args.pDmaBufferPrivateData, render.args.pDmaBufferPrivateData);
    EXPECT_EQ(patch.args.DmaBufferPrivateDataSubmissionStartOffset, 0U);
    EXPECT_EQ(patch.args.DmaBufferPrivateDataSubmissionEndOffset, 40U);
    EXPECT_EQ(submit.args.DmaBufferPrivateDataSubmissionEndOffset, 40U);
    std::vector<std::byte> expected(256);
    std::fill_n(expected.begin(), 40, std::byte{0x42});
    EXPECT_EQ(patch.private_data, expected);
    EXPECT_EQ(submit.private_data, expected);
  });
}

TEST_F(PatchTest, TheListIsTheDriversOwnWithFinalPlaces) {
  DXGKIT_COVERS("PATCH-19", "PATCH-21", "SEG-17");
  with_client([](Stack& stack, Client& client) {
    std::vector<void*> opened;
    stack.miniport.hooks.open_allocation = [&](void* device, const DXGKARG_OPENALLOCATION* args) {
      const NTSTATUS status = stack.miniport.default_open_allocation(device, args);
      opened.push_back(args->pOpenAllocation[0].hDeviceSpecificAllocation);
      return status;
    };
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE visible = client.make_allocation(64 * kKibibyte, 1U);
    const D3DKMT_HANDLE hidden = client.make_allocation(64 * kKibibyte, kHidden);
    const D3DKMT_HANDLE hidden2 = client.make_allocation(64 * kKibibyte, kHidden);
    Work work = work_on({visible, hidden, hidden2});
    work.allocations[1].write = false;
    ASSERT_EQ(client.render(context, work), 0);
    stack.drive();
    const testing::RenderCall render = stack.miniport.calls().renders.at(0);
    EXPECT_EQ(render.allocations[0].segment(), 0U) << "never paged in";
    const testing::PatchCall patch = patches_of(stack, false).at(0);
    ASSERT_EQ(patch.args.AllocationListSize, 3U);
    EXPECT_EQ(patch.args.pAllocationList, render.args.pAllocationList);
    std::vector<uint64_t> filled;  // where the kernel cleared them
    for (const testing::PagingCall& call : stack.miniport.calls().paging) {
      ASSERT_EQ(call.args.Operation, DXGK_OPERATION_FILL);
      filled.push_back(static_cast<uint64_t>(call.args.Fill.Destination.SegmentAddress.QuadPart));
    }
    ASSERT_EQ(filled.size(), 3U);
    const uint64_t bases[] = {0x1'0000'0000, 0x2'0000'0000, 0x2'0000'0000};
    const uint32_t segments[] = {1, 2, 2};
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(patch.allocations[i].device_handle, opened[i]);
      EXPECT_EQ(patch.allocations[i].segment(), segments[i]);
      EXPECT_EQ(patch.allocations[i].physical_address, filled[i]);
      EXPECT_GE(patch.allocations[i].physical_address, bases[i]);
      EXPECT_EQ(patch.allocations[i].write(), i != 1);
    }
    EXPECT_NE(filled[1], filled[2]);
  });
}

TEST_F(PatchTest, ForPagingThereAreNoListsAndTheFlagSaysSo) {
  DXGKIT_COVERS("PATCH-20", "PATCH-23", "PATCH-29", "PAGE-15", "SUB-21");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation()})), 0);
    stack.drive();
    const std::vector<testing::PatchCall> paging = patches_of(stack, true);
    ASSERT_EQ(paging.size(), 1U);
    const DXGKARG_PATCH& args = paging[0].args;
    EXPECT_EQ(args.pAllocationList, nullptr);
    EXPECT_EQ(args.AllocationListSize, 0U);
    EXPECT_EQ(args.pPatchLocationList, nullptr);
    EXPECT_EQ(args.PatchLocationListSize, 0U);
    EXPECT_EQ(args.PatchLocationListSubmissionStart, 0U);
    EXPECT_EQ(args.PatchLocationListSubmissionLength, 0U);
    EXPECT_EQ(args.Flags.Value, 1U) << "Paging and nothing else";
    EXPECT_EQ(submits_of(stack, true).at(0).args.Flags.Value, 1U);
    EXPECT_EQ(patches_of(stack, false).at(0).args.Flags.Value, 0U);
    EXPECT_EQ(submits_of(stack, false).at(0).args.Flags.Value, 0U);
  });
}

/// Two paging operations whose buffers are submitted one after the other from one paging buffer.
void two_paging_submissions(Stack& stack, Client& client) {
  ContextBuffers one = client.make_context();
  ContextBuffers two = client.make_context();
  ASSERT_EQ(client.render(one, work_on({client.make_allocation()})), 0);
  ASSERT_EQ(client.render(two, work_on({client.make_allocation()})), 0);
  stack.settle();
}

TEST_F(PatchTest, PagingSubmissionsOfOneBufferShareThePrivateRangeIfTheDriverLeavesIt) {
  DXGKIT_COVERS("PATCH-15", "PATCH-16", "PATCH-18", "PAGE-06", "SUB-09");
  with_client([](Stack& stack, Client& client) {
    two_paging_submissions(stack, client);
    const std::vector<testing::PatchCall> paging = patches_of(stack, true);
    ASSERT_EQ(paging.size(), 2U);
    EXPECT_EQ(paging[1].args.pDmaBuffer, paging[0].args.pDmaBuffer) << "one buffer";
    EXPECT_EQ(paging[0].args.DmaBufferSubmissionStartOffset, 0U);
    EXPECT_EQ(paging[0].args.DmaBufferSubmissionEndOffset, 64U);
    EXPECT_EQ(paging[1].args.DmaBufferSubmissionStartOffset, 64U);
    EXPECT_EQ(paging[1].args.DmaBufferSubmissionEndOffset, 128U);
    for (const testing::PatchCall& call : paging) {
      EXPECT_EQ(call.args.pDmaBufferPrivateData, paging[0].args.pDmaBufferPrivateData);
      EXPECT_EQ(call.args.DmaBufferPrivateDataSize, 64U);
      EXPECT_EQ(call.args.DmaBufferPrivateDataSubmissionStartOffset, 0U);
      EXPECT_EQ(call.args.DmaBufferPrivateDataSubmissionEndOffset, 64U);
    }
    stack.drive();
  });
}

TEST_F(PatchTest, PagingSubmissionsHaveOwnPrivateRangesIfTheDriverMovesThePointer) {
  DXGKIT_COVERS("PATCH-15", "PATCH-18", "PAGE-06", "SUB-09", "SUB-10");
  with_client([](Stack& stack, Client& client) {
    std::vector<void*> given;
    stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
      given.push_back(args->pDmaBufferPrivateData);
      args->pDmaBufferPrivateData = static_cast<std::byte*>(args->pDmaBufferPrivateData) + 24;
      return stack.miniport.default_build_paging(args);
    };
    two_paging_submissions(stack, client);
    const std::vector<testing::PatchCall> paging = patches_of(stack, true);
    const std::vector<testing::SubmitCall> submits = submits_of(stack, true);
    ASSERT_EQ(paging.size(), 2U);
    ASSERT_EQ(given.size(), 2U);
    EXPECT_EQ(given[1], static_cast<std::byte*>(given[0]) + 24);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(paging[i].args.pDmaBufferPrivateData, given[0]);
      EXPECT_EQ(paging[i].args.DmaBufferPrivateDataSize, 64U);
      EXPECT_EQ(paging[i].args.DmaBufferPrivateDataSubmissionStartOffset, 24 * i);
      EXPECT_EQ(paging[i].args.DmaBufferPrivateDataSubmissionEndOffset, 24 * (i + 1));
      EXPECT_EQ(submits[i].args.DmaBufferPrivateDataSubmissionStartOffset, 24 * i);
      EXPECT_EQ(submits[i].args.DmaBufferPrivateDataSubmissionEndOffset, 24 * (i + 1));
      EXPECT_EQ(submits[i].args.DmaBufferPrivateDataSize, 64U);
    }
    stack.drive();
  });
}

TEST_F(PatchTest, TheFenceIsTheOneOfTheFollowingSubmission) {
  DXGKIT_COVERS("PATCH-28");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE allocation = client.make_allocation();
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(client.render(context, work_on({allocation})), 0);
      stack.drive();
    }
    const ScriptedCalls calls = stack.miniport.calls();
    ASSERT_EQ(calls.patches.size(), 6U);
    for (size_t i = 0; i < calls.patches.size(); ++i)
      EXPECT_EQ(calls.patches[i].args.SubmissionFenceId, calls.submits[i].args.SubmissionFenceId);
  });
}

TEST_F(PatchTest, FlagsNameNullRenderingAndRedirectedPresentOnlyWhereAskedFor) {
  DXGKIT_COVERS("PATCH-29", "SUB-21", "SUB-23");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    Work null_work = work_on({client.make_allocation()});
    null_work.flags.NullRendering = 1;
    Work redirected = work_on({});
    redirected.flags.PresentRedirected = 1;
    ASSERT_EQ(client.render(context, null_work), 0);
    ASSERT_EQ(client.render(context, redirected), 0);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    D3DDDI_CREATECONTEXTFLAGS flags{};
    flags.NullRendering = 1;
    ContextBuffers null_context;
    ASSERT_EQ(client.create_context(&null_context, 0, 0, flags), 0);
    stack.drive();
    ASSERT_EQ(client.render(null_context, work_on({})), 0);
    stack.drive();
    const std::vector<testing::PatchCall> patches = patches_of(stack, false);
    const std::vector<testing::SubmitCall> submits = submits_of(stack, false);
    ASSERT_EQ(patches.size(), 4U);
    EXPECT_EQ(patches[0].args.Flags.Value, 1U << 3) << "NullRendering of the thunk";
    EXPECT_EQ(patches[1].args.Flags.Value, 1U << 2) << "RedirectedPresent";
    EXPECT_EQ(patches[2].args.Flags.Value, 0U);
    EXPECT_EQ(patches[3].args.Flags.Value, 1U << 3) << "NullRendering of the context";
    EXPECT_EQ(submits[0].args.Flags.NullRendering, 1U);
    EXPECT_EQ(submits[1].args.Flags.RedirectedPresent, 1U);
    EXPECT_EQ(submits[2].args.Flags.Value, 0U);
    EXPECT_EQ(submits[3].args.Flags.NullRendering, 1U);
  });
}

TEST_F(PatchTest, EngineOrdinalIsZero) {
  DXGKIT_COVERS("PATCH-30", "SUB-17");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers zero = client.make_context(0);
    ContextBuffers one = client.make_context(1);
    ASSERT_EQ(client.render(zero, work_on({client.make_allocation()})), 0);
    ASSERT_EQ(client.render(one, work_on({client.make_allocation()})), 0);
    stack.drive();
    const ScriptedCalls calls = stack.miniport.calls();
    ASSERT_EQ(calls.patches.size(), 4U);
    for (const testing::PatchCall& call : calls.patches) EXPECT_EQ(call.args.EngineOrdinal, 0U);
    for (const testing::SubmitCall& call : calls.submits) EXPECT_EQ(call.args.EngineOrdinal, 0U);
  });
}

TEST_F(PatchTest, WritingBehindThePartIsFoundAndTheAdapterGoesOn) {
  DXGKIT_COVERS("PATCH-13");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE allocation = client.make_allocation();
    stack.miniport.hooks.patch = [&](const DXGKARG_PATCH* args) {
      if (args->Flags.Paging == 0)
        static_cast<uint8_t*>(args->pDmaBuffer)[args->DmaBufferSubmissionEndOffset] ^= 1;
      return stack.miniport.default_patch(args);
    };
    ASSERT_EQ(client.render(context, work_on({allocation})), 0);
    stack.drive();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "PATCH-13");
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    EXPECT_EQ(finding.ddi, "DxgkDdiPatch");
    stack.miniport.hooks.patch = nullptr;
    EXPECT_EQ(client.render(context, work_on({allocation})), 0);
    EXPECT_EQ(stack.drive(), 1U) << "it goes on";
  });
}

TEST_F(PatchTest, WritingBeforeThePartIsFound) {
  DXGKIT_COVERS("PATCH-13");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE first = client.make_allocation(640 * kKibibyte, kHidden);
        const D3DKMT_HANDLE second = client.make_allocation(640 * kKibibyte, kHidden);
        stack.miniport.hooks.patch = [&](const DXGKARG_PATCH* args) {
          if (args->DmaBufferSubmissionStartOffset == 512)
            static_cast<uint8_t*>(args->pDmaBuffer)[511] ^= 1;
          return stack.miniport.default_patch(args);
        };
        ASSERT_EQ(client.render(context, split_work(first, second)), 0);
        stack.drive();
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"PATCH-13"});
      },
      small_memory);
}

TEST_F(PatchTest, AWrongAddressIsFoundAndTheAdapterGoesOn) {
  DXGKIT_COVERS("PATCH-27", "REND-07");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE allocation = client.make_allocation();
    // The driver that trusts the address of Render, which was 0 then.
    stack.miniport.hooks.patch = [](const DXGKARG_PATCH*) { return NTSTATUS{0}; };
    Work work = work_on({allocation});
    work.patches[0].AllocationOffset = 0x80;
    ASSERT_EQ(client.render(context, work), 0);
    stack.drive();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "PATCH-27");
    EXPECT_EQ(finding.severity, verifier::Severity::kWarning) << "it may have its own tables";
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    stack.miniport.hooks.patch = nullptr;
    ASSERT_EQ(client.render(context, work), 0);
    stack.drive();
    EXPECT_EQ(stack.findings.total(), 1U) << "PhysicalAddress + AllocationOffset is right";
    stack.miniport.hooks.patch = [&](const DXGKARG_PATCH* args) {
      const NTSTATUS status = stack.miniport.default_patch(args);
      static_cast<uint8_t*>(args->pDmaBuffer)[work.patches[0].PatchOffset] ^= 1;
      return status;
    };
    ASSERT_EQ(client.render(context, work), 0);
    stack.drive();
    EXPECT_EQ(stack.findings.total(), 2U);
    EXPECT_EQ(stack.findings.all().back().severity, verifier::Severity::kViolation);
  });
}

// The engine decodes a segment from its base address. A driver that writes where the processor sees
// the allocation is told so, whatever its offset; one that leaves out the base of a segment that no
// processor sees has written a wrong address like any.
TEST_F(PatchTest, WhereTheProcessorSeesAnAllocationIsToldFromAnyWrongAddress) {
  DXGKIT_COVERS("FIELD-02", "PATCH-27");
  for (const bool seen : {true, false}) {
    SCOPED_TRACE(seen);
    with_client([&](Stack& stack, Client& client) {
      ContextBuffers context = client.make_context();
      const uint32_t set = seen ? 1U << 0 : kHidden;
      const D3DKMT_HANDLE before = client.make_allocation(64 * kKibibyte, set);
      const D3DKMT_HANDLE allocation = client.make_allocation(64 * kKibibyte, set);
      ASSERT_EQ(client.render(context, work_on({before})), 0);  // so that the offset is not zero
      stack.drive();
      const testing::ScriptedSegment& segment = stack.miniport.config.segments[seen ? 0 : 1];
      const uint64_t cpu =
          stack.adapter().core().segment_infos().segments[seen ? 0 : 1].cpu_translated_address;
      ASSERT_EQ(cpu != 0, seen);
      uint64_t offset = 0;
      stack.miniport.hooks.patch = [&](const DXGKARG_PATCH* args) {
        if (args->Flags.Paging != 0) return stack.miniport.default_patch(args);
        const D3DDDI_PATCHLOCATIONLIST& patch =
            args->pPatchLocationList[args->PatchLocationListSubmissionStart];
        offset = static_cast<uint64_t>(
                     args->pAllocationList[patch.AllocationIndex].PhysicalAddress.QuadPart) -
                 segment.base_address;
        const uint64_t wrong = cpu + offset + patch.AllocationOffset;
        std::memcpy(static_cast<std::byte*>(args->pDmaBuffer) + patch.PatchOffset, &wrong, 8);
        return NTSTATUS{0};
      };
      Work work = work_on({allocation});
      work.patches[0].AllocationOffset = 0x80;
      ASSERT_EQ(client.render(context, work), 0);
      stack.drive();
      EXPECT_NE(offset, 0U);
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, seen ? "FIELD-02" : "PATCH-27");
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      stack.miniport.hooks.patch = nullptr;
    });
  }
}

// The same wherever the segment begins: at a multiple of 4 GiB the offset is the low half of the
// address, too.
TEST_F(PatchTest, AnOffsetWithoutItsBaseIsAWrongAddress) {
  DXGKIT_COVERS("PATCH-27");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE before = client.make_allocation(64 * kKibibyte, kHidden);
        const D3DKMT_HANDLE allocation = client.make_allocation(64 * kKibibyte, kHidden);
        const uint64_t base = stack.miniport.config.segments[1].base_address;
        ASSERT_NE(base & UINT32_MAX, 0U);
        stack.miniport.hooks.patch = [&](const DXGKARG_PATCH* args) {
          if (args->Flags.Paging != 0) return stack.miniport.default_patch(args);
          for (UINT i = 0; i < args->PatchLocationListSubmissionLength; ++i) {
            const D3DDDI_PATCHLOCATIONLIST& patch =
                args->pPatchLocationList[args->PatchLocationListSubmissionStart + i];
            const auto address = static_cast<uint64_t>(
                args->pAllocationList[patch.AllocationIndex].PhysicalAddress.QuadPart);
            if (i == 1) {
              EXPECT_NE(address, base);
            }
            const uint64_t wrong =
                i == 0 ? 0x1234'5678'9ABC : address - base + patch.AllocationOffset;
            std::memcpy(static_cast<std::byte*>(args->pDmaBuffer) + patch.PatchOffset, &wrong, 8);
          }
          return NTSTATUS{0};
        };
        // No word of this driver is right. The first one might be a number of its own.
        Work work = work_on({before, allocation});
        work.patches[1].AllocationOffset = 0x80;
        ASSERT_EQ(client.render(context, work), 0);
        stack.drive();
        const std::vector<verifier::Finding> all = stack.findings.all();
        ASSERT_EQ(all.size(), 2U);
        EXPECT_EQ(all[0].rule, "PATCH-27");
        EXPECT_EQ(all[0].severity, verifier::Severity::kWarning);
        EXPECT_EQ(all[1].rule, "PATCH-27");
        EXPECT_EQ(all[1].severity, verifier::Severity::kViolation);
        stack.miniport.hooks.patch = nullptr;
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.segments[1].base_address += 256 * kMebibyte;
      });
}

TEST_F(PatchTest, ADriverThatAddsToThePlaceholderIsFoundWhenTheBufferIsPatchedAgain) {
  DXGKIT_COVERS("PATCH-32", "PATCH-27");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers low = client.make_context();
    ContextBuffers high = client.make_context();
    const D3DKMT_HANDLE allocation = client.make_allocation();
    ASSERT_EQ(client.render(high, work_on({allocation})), 0);  // brings it in
    stack.drive();
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY priority{};
    priority.hContext = low.handle;
    priority.Priority = -1;
    ASSERT_EQ(client.call([&] { return D3DKMTSetContextSchedulingPriority(&priority); }), 0);
    stack.miniport.hooks.render = [&](void*, DXGKARG_RENDER* args) {
      std::memset(args->pDmaBuffer, 0, args->CommandLength);
      args->pPatchLocationListOut[0] = args->pPatchLocationListIn[0];
      ++args->pPatchLocationListOut;
      args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + args->CommandLength;
      return NTSTATUS{0};
    };
    stack.miniport.hooks.patch = [&](const DXGKARG_PATCH* args) {
      for (UINT i = 0; i < args->PatchLocationListSubmissionLength; ++i) {
        std::byte* word =
            static_cast<std::byte*>(args->pDmaBuffer) + args->pPatchLocationList[i].PatchOffset;
        uint64_t value = 0;
        std::memcpy(&value, word, 8);
        value += static_cast<uint64_t>(args->pAllocationList[0].PhysicalAddress.QuadPart);
        std::memcpy(word, &value, 8);
      }
      return NTSTATUS{0};
    };
    ASSERT_EQ(client.render(low, work_on({allocation})), 0);
    stack.settle();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "the first time it is right";
    ASSERT_EQ(client.render(high, work_on({allocation})), 0);
    stack.settle();
    const std::vector<DXGKARG_PREEMPTCOMMAND> preempts = stack.miniport.calls().preempts;
    ASSERT_EQ(preempts.size(), 1U);
    stack.miniport.preempted(0, preempts[0].PreemptionFenceId, stack.miniport.last_completed(0));
    stack.drive();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"PATCH-27"});
  });
}

TEST_F(PatchTest, AFailureStopsTheAdapter) {
  DXGKIT_COVERS("PATCH-31", "THUNK-07");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    stack.miniport.hooks.patch = [](const DXGKARG_PATCH*) { return nt_status(Status::kNoMemory); };
    ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.settle();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "PATCH-31");
    EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(finding.bugcheck_code, 0x119U);
    EXPECT_EQ(finding.bugcheck_parameter, 3U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 0U);
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
  });
}

TEST_F(PatchTest, WhatIsOnHardwareDoesNotMoveBeforeItsCompletion) {
  DXGKIT_COVERS("PATCH-33", "RES-21", "SUB-38");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers one = client.make_context();
        ContextBuffers two = client.make_context();
        const D3DKMT_HANDLE first = client.make_allocation(640 * kKibibyte, kHidden);
        const D3DKMT_HANDLE second = client.make_allocation(640 * kKibibyte, kHidden);
        ASSERT_EQ(client.render(one, work_on({first})), 0);
        stack.settle();
        ASSERT_TRUE(stack.miniport.complete_next(1)) << "the fill";
        stack.settle();
        ASSERT_EQ(stack.miniport.outstanding(0).size(), 1U);
        ASSERT_EQ(client.render(two, work_on({second})), 0);
        stack.settle();
        EXPECT_EQ(stack.miniport.calls().paging.size(), 1U) << "nothing is evicted under the GPU";
        EXPECT_TRUE(stack.miniport.outstanding(1).empty());
        ASSERT_TRUE(stack.miniport.complete_next(0));
        stack.settle();
        const std::vector<testing::PagingCall> paging = stack.miniport.calls().paging;
        ASSERT_GE(paging.size(), 2U);
        EXPECT_EQ(paging[1].args.Operation, DXGK_OPERATION_TRANSFER)
            << "written: it goes out with content";
        stack.drive();
        EXPECT_EQ(submits_of(stack, false).size(), 2U);
      },
      small_memory);
}

// An injector may leave a patch out where the places are those of DxgkDdiRender, and nowhere else.
class Sparing final : public port::FaultInjector {
 public:
  std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
  std::optional<Status> before_paging(const port::PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
  void shape(port::SegmentsInfo*) override {}
  bool spares_patch() override {
    ++spared;
    return true;
  }
  size_t spared = 0;
};

struct SparedCase {
  const char* sentence;
  std::function<void(Stack&, Client&, ContextBuffers&)> work;
  size_t submitted, spared;
  std::function<void(ScriptedMiniport&)> prepare;
};

/// The client's second buffer, when the first has brought everything in.
void render_twice(Stack& stack, Client& client, ContextBuffers& context, const Work& work,
                  D3DKMT_HANDLE also = 0) {
  for (int i = 0; i < 2; ++i) {
    if (also == 0) {
      ASSERT_EQ(client.render(context, work), 0);
    } else {
      context.allocations[0] = {};
      context.allocations[0].hAllocation = work.allocations[0].handle;
      context.patches[0] = work.patches[0];
      D3DKMT_RENDER args{};
      args.hContext = context.handle;
      args.CommandLength = 64;
      args.AllocationCount = args.PatchLocationCount = 1;
      args.BroadcastContextCount = 1;
      args.BroadcastContext[0] = also;
      ASSERT_EQ(client.call([&] { return D3DKMTRender(&args); }), 0);
    }
    stack.drive();
  }
}

TEST_F(PatchTest, AnInjectorSparesOnlyWhatWasToldWhereItIs) {
  DXGKIT_COVERS("PATCH-01", "REND-07");
  const auto wddm2 = [](ScriptedMiniport& miniport) {
    miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
  };
  const std::vector<SparedCase> cases = {
      {"once it is there",
       [](Stack& stack, Client& client, ContextBuffers& context) {
         render_twice(stack, client, context, work_on({client.make_allocation()}));
       },
       2, 1, nullptr},
      {"nothing to patch",
       [](Stack& stack, Client& client, ContextBuffers& context) {
         render_twice(stack, client, context, Work());
       },
       2, 0, nullptr},
      {"for several contexts",
       [](Stack& stack, Client& client, ContextBuffers& context) {
         const ContextBuffers other = client.make_context();
         render_twice(stack, client, context, work_on({client.make_allocation()}), other.handle);
       },
       4, 0, nullptr},
      {"one of two has left",
       [](Stack& stack, Client& client, ContextBuffers& context) {
         const D3DKMT_HANDLE stays = client.make_allocation(kPageBytes, kHidden);
         const D3DKMT_HANDLE first = client.make_allocation(640 * kKibibyte, kHidden);
         const D3DKMT_HANDLE second = client.make_allocation(640 * kKibibyte, kHidden);
         for (const D3DKMT_HANDLE moves : {first, second, first}) {
           ASSERT_EQ(client.render(context, work_on({stays, moves})), 0);
           stack.drive();
         }
       },
       3, 0, small_memory},
      {"the part behind the first",
       [](Stack& stack, Client& client, ContextBuffers& context) {
         const D3DKMT_HANDLE first = client.make_allocation(640 * kKibibyte, kHidden);
         const D3DKMT_HANDLE second = client.make_allocation(640 * kKibibyte, kHidden);
         for (int i = 0; i < 2; ++i) {
           ASSERT_EQ(client.render(context, split_work(first, second)), 0);
           stack.drive();
         }
       },
       4, 0, small_memory},
      {"listed",
       [](Stack& stack, Client& client, ContextBuffers& context) {
         const D3DKMT_HANDLE allocation = client.make_allocation();
         client.list({allocation});
         stack.drive();
         render_twice(stack, client, context, work_on({allocation}));
       },
       2, 2, wddm2},
      {"one has moved within its segment",
       [](Stack& stack, Client& client, ContextBuffers& context) {
         ContextBuffers other = client.make_context();
         const D3DKMT_HANDLE below = client.make_allocation(256 * kKibibyte, kHidden);
         const D3DKMT_HANDLE moves = client.make_allocation(512 * kKibibyte, kHidden);
         const D3DKMT_HANDLE all = client.make_allocation(kMebibyte, kHidden);
         const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
         for (const D3DKMT_HANDLE one : {below, moves}) {
           ASSERT_EQ(client.render(context, work_on({one})), 0);
           stack.drive();
         }
         const uint64_t before = patches_of(stack, false).back().allocations[0].physical_address;
         ASSERT_EQ(client.wait_gpu(context, fence, 1), 0);
         ASSERT_EQ(client.render(context, work_on({moves})), 0);
         ASSERT_EQ(client.render(other, work_on({all})), 0);
         stack.drive();
         ASSERT_EQ(client.signal_cpu(fence, 1), 0);
         stack.drive();
         const auto last = patches_of(stack, false).back().allocations[0];
         EXPECT_EQ(last.segment(), 2U);
         EXPECT_NE(last.physical_address, before);
       },
       4, 0, small_memory},
  };
  for (const SparedCase& one : cases) {
    SCOPED_TRACE(one.sentence);
    bare([&](Stack& stack) {
      Sparing injector;
      if (one.prepare) one.prepare(stack.miniport);
      stack.options.faults = &injector;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      {
        Client client(stack);
        ContextBuffers context = client.make_context();
        one.work(stack, client, context);
        EXPECT_EQ(submits_of(stack, false).size(), one.submitted);
        EXPECT_EQ(injector.spared, one.spared);
        EXPECT_EQ(patches_of(stack, false).size(), one.submitted - one.spared);
      }
      stack.blocking([&] { stack.system.reset(); });
      stack.driver.reset();
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
