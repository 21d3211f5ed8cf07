// What a context is made of, and what a Render's offsets, lists and flags come to, with values that
// no neighbour shares.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/verifier_switches.h"
#include "tests/contract/memory_fixture.h"

namespace dxgkit::contract {
namespace {

using ListsTest = ContractTest;
using dxgk::VerifierSwitch;

TEST_F(ListsTest, AContextIsMadeOnItsNode) {
  DXGKIT_COVERS("SCHED-01");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context(2);
        ASSERT_EQ(client.render(context, Work{}), 0);
        stack.drive();
        const ScriptedCalls calls = stack.miniport.calls();
        EXPECT_EQ(calls.create_contexts.back().NodeOrdinal, 2U);
        EXPECT_EQ(calls.create_contexts.back().EngineAffinity, 1U);
        EXPECT_EQ(calls.submits.back().args.NodeOrdinal, 2U);
      },
      [](ScriptedMiniport& miniport) { miniport.config.nodes = 3; });
}

// Where the device stands in for its contexts, its sizes and its segment set are theirs.
TEST_F(ListsTest, WithoutContextsTheDeviceSaysWhatTheyAreMadeOf) {
  DXGKIT_COVERS("SCHED-02", "PATCH-05", "PATCH-07", "REND-14");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        EXPECT_EQ(context.command_bytes, 12 * kKibibyte);
        EXPECT_EQ(context.allocation_count, 40U);
        EXPECT_EQ(context.patch_count, 72U);
        ASSERT_EQ(client.render(context, Work{}), 0);
        stack.drive();
        const testing::RenderCall render = stack.miniport.calls().renders.at(0);
        EXPECT_EQ(render.args.DmaSize, 12 * kKibibyte);
        EXPECT_EQ(render.args.PatchLocationListOutSize, 72U);
        EXPECT_EQ(render.args.DmaBufferPrivateDataSize, 48U);
        const DXGKARG_SUBMITCOMMAND& submit = stack.miniport.calls().submits.back().args;
        ASSERT_EQ(submit.Flags.Paging, 0U);
        EXPECT_EQ(submit.DmaBufferSegmentId, 3U);
        EXPECT_GE(static_cast<uint64_t>(submit.DmaBufferPhysicalAddress.QuadPart), kApertureBase);
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.multi_engine_aware = miniport.config.preemption_aware = false;
        miniport.config.cancel_command_aware = false;
        miniport.config.nodes = 1;
        miniport.config.paging_node = 0;
        miniport.config.dma_segment_set = kAperture;
        miniport.config.dma_buffer_bytes = 12 * kKibibyte;
        miniport.config.dma_private_bytes = 48;
        miniport.config.allocation_list_size = 40;
        miniport.config.patch_list_size = 72;
      });
}

/// What no context can be made of.
struct Size {
  const char* sentence;
  void (*change)(dxgkit::testing::ScriptedConfig&);
  const char* said;
};
class ListsSize : public ContractTest, public ::testing::WithParamInterface<Size> {};
TEST_P(ListsSize, MakesNoContext) {
  DXGKIT_COVERS("REND-14");
  running(
      [](Stack& stack) {
        Client client(stack);
        const Digest before = digest(stack, {&client});
        ContextBuffers context;
        EXPECT_EQ(client.create_context(&context), nt_status(Status::kInvalidParameter));
        EXPECT_EQ(context.handle, 0U);
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.rule, "REND-14");
        EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
        EXPECT_EQ(finding.ddi, "DxgkDdiCreateContext");
        EXPECT_EQ(finding.actual, GetParam().said);
        Digest after = digest(stack, {&client});
        after.findings = before.findings;
        after.driver_calls = before.driver_calls;  // CreateContext and DestroyContext
        EXPECT_EQ(after, before);
      },
      [](ScriptedMiniport& miniport) { GetParam().change(miniport.config); });
}
constexpr uint32_t kMostBytes = 4U << 20, kMostEntries = 1U << 16;
const Size kSizes[] = {
    {"NoDmaBuffer", [](auto& config) { config.dma_buffer_bytes = 0; }, "DmaBufferSize is 0."},
    {"TooLargeADmaBuffer", [](auto& config) { config.dma_buffer_bytes = kMostBytes + 1; },
     "DmaBufferSize is 4194305."},
    {"TooMuchPrivateData", [](auto& config) { config.dma_private_bytes = kMostBytes + 1; },
     "DmaBufferPrivateDataSize is 4194305."},
    {"TooManyAllocations", [](auto& config) { config.allocation_list_size = kMostEntries + 1; },
     "AllocationListSize is 65537, PatchLocationListSize is 128."},
    {"TooManyPatches", [](auto& config) { config.patch_list_size = kMostEntries + 1; },
     "AllocationListSize is 64, PatchLocationListSize is 65537."},
};
INSTANTIATE_TEST_SUITE_P(Rows, ListsSize, ::testing::ValuesIn(kSizes),
                         [](const auto& row) { return std::string(row.param.sentence); });

// Where the device stands in for the context, it is the device that is told of.
TEST_F(ListsTest, SizesOfADeviceAreTheDevices) {
  DXGKIT_COVERS("REND-14", "SCHED-02");
  running(
      [](Stack& stack) {
        Client client(stack);
        ContextBuffers context;
        EXPECT_EQ(client.create_context(&context), nt_status(Status::kInvalidParameter));
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.ddi, "DxgkDdiCreateDevice");
        EXPECT_EQ(finding.actual, "DmaBufferSize is 4194305.");
        EXPECT_EQ(finding.expected, "1 to 4194304 bytes.");
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.multi_engine_aware = miniport.config.preemption_aware = false;
        miniport.config.cancel_command_aware = false;
        miniport.config.nodes = 1;
        miniport.config.paging_node = 0;
        miniport.config.dma_buffer_bytes = kMostBytes + 1;
      });
}

// The largest of everything that a driver may ask for is had.
TEST_F(ListsTest, TheLargestSizesMakeAContext) {
  DXGKIT_COVERS("REND-14");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        EXPECT_EQ(context.command_bytes, kMostBytes);
        EXPECT_EQ(context.allocation_count, kMostEntries);
        EXPECT_EQ(context.patch_count, kMostEntries);
        ASSERT_EQ(client.render(context, Work{}), 0);
        stack.drive();
        const testing::RenderCall call = stack.miniport.calls().renders.at(0);
        EXPECT_EQ(call.args.DmaSize, kMostBytes);
        EXPECT_EQ(call.args.DmaBufferPrivateDataSize, kMostBytes);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.dma_buffer_bytes = miniport.config.dma_private_bytes = kMostBytes;
        miniport.config.allocation_list_size = miniport.config.patch_list_size = kMostEntries;
      });
}

TEST_F(ListsTest, TheCommandsStartAtTheirOffset) {
  DXGKIT_COVERS("REND-03", "THUNK-16");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const std::byte* const start = context.command;
    std::memset(context.command, 0x11, 96);
    std::memset(context.command + 96, 0x22, 40);
    D3DKMT_RENDER args{};
    args.hContext = context.handle;
    args.CommandOffset = 96;
    args.CommandLength = 40;
    ASSERT_EQ(client.call([&] { return D3DKMTRender(&args); }), 0);
    stack.drive();
    const testing::RenderCall call = stack.miniport.calls().renders.at(0);
    EXPECT_EQ(call.args.pCommand, start + 96);
    EXPECT_EQ(call.command, std::vector<std::byte>(40, std::byte{0x22}));
  });
}

// Bit by bit: what is defined of an entry is taken, what is reserved is refused, in an entry that
// names nothing, too.
TEST_F(ListsTest, ReservedBitsOfAnyEntryAreRefused) {
  DXGKIT_COVERS("THUNK-03", "REND-04");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE good = client.make_allocation();
    for (const bool last_is_null : {false, true}) {
      for (UINT bit = 0; bit < 32; ++bit) {
        SCOPED_TRACE(::testing::Message() << "bit " << bit << ", null " << last_is_null);
        context.allocations[0] = context.allocations[1] = {};
        context.allocations[0].hAllocation = good;
        context.allocations[1].hAllocation = last_is_null ? 0 : good;
        context.allocations[1].Value = 1U << bit;
        D3DKMT_RENDER args{};
        args.hContext = context.handle;
        args.CommandLength = 16;
        args.AllocationCount = 2;
        const Digest before = digest(stack, {&client});
        const NTSTATUS status = client.call([&] { return D3DKMTRender(&args); });
        EXPECT_EQ(status, bit < 5 ? 0 : nt_status(Status::kInvalidParameter));
        if (bit >= 5) {
          EXPECT_EQ(digest(stack, {&client}), before);
        }
        stack.drive();
      }
    }
  });
}

// What was found of a list that was refused is not taken for the one before it, right after the
// start as little as later.
TEST_F(ListsTest, ARefusedListIsNotRemembered) {
  DXGKIT_COVERS("REND-04", "REND-06");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE good = client.make_allocation(64 * kKibibyte, kHidden),
                        other = client.make_allocation(64 * kKibibyte, kHidden);
    const auto told = [&] {
      EXPECT_EQ(client.render(context, work_on({good})), 0);
      stack.drive();
      return stack.miniport.calls().patches.back().allocations.at(0);
    };
    const void* const first = told().device_handle;
    for (int i = 0; i < 3; ++i) {
      stack.blocking([&] { EXPECT_EQ(exercise(stack).evict_all(), Status::kSuccess); });
      Work refused = work_on({other, good});
      refused.allocations[1].handle = 0x7FFFFFC0;
      EXPECT_EQ(client.render(context, refused), nt_status(Status::kInvalidHandle));
      const port::AllocationListEntry entry = told();
      EXPECT_EQ(entry.device_handle, first);
      EXPECT_EQ(entry.segment(), 2U) << "it was brought in, and not the other one";
      if (i == 1) {
        ASSERT_EQ(client.destroy_allocation(client.make_allocation(), 2), 0);
      }
    }
  });
}

// An adapter that fails while the driver makes a context leaves none.
TEST_F(ListsTest, AContextOfAnAdapterThatFailsMeanwhileIsNone) {
  DXGKIT_COVERS("THUNK-07");
  with_client([](Stack& stack, Client& client) {
    stack.expect_leaks = true;
    stack.miniport.hooks.create_context = [&](void* device, DXGKARG_CREATECONTEXT* args) {
      stack.miniport.raise(ScriptedMiniport::completed_data(2, 1));  // there is no node 2
      stack.settle();
      return stack.miniport.default_create_context(device, args);
    };
    const size_t handles = client.handles();
    ContextBuffers context;
    EXPECT_EQ(client.create_context(&context), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(client.handles(), handles);
    EXPECT_EQ(stack.only_finding().rule, "INT-12");
    stack.miniport.hooks.create_context = nullptr;
  });
}

// A pass that writes something is progress, whether or not MultipassOffset says so.
TEST_F(ListsTest, AnyOutputOfAPassIsProgress) {
  DXGKIT_COVERS("REND-09");
  with_client([](Stack& stack, Client& client) {
    uint32_t passes = 0;
    stack.miniport.hooks.render = [&](void*, DXGKARG_RENDER* args) {
      args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 64;
      return ++passes == 5 ? NTSTATUS{0} : nt_status(Status::kGraphicsInsufficientDmaBuffer);
    };
    ContextBuffers context = client.make_context();
    EXPECT_EQ(client.render(context, Work{}), 0);
    stack.drive();
    EXPECT_EQ(passes, 5U);
    EXPECT_EQ(stack.statistics().packets_completed, 5U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    stack.miniport.hooks.render = nullptr;
  });
}

// Many passes are no finding while each begins where the one before it ended.
TEST_F(ListsTest, AsManyPassesAsItTakesAreTaken) {
  DXGKIT_COVERS("REND-09");
  with_client([](Stack& stack, Client& client) {
    constexpr uint32_t kPasses = 100;
    uint32_t passes = 0;
    stack.miniport.hooks.render = [&](void*, DXGKARG_RENDER* args) {
      EXPECT_EQ(args->MultipassOffset, 16 * passes);
      args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 64;
      args->MultipassOffset += 16;
      return ++passes == kPasses ? NTSTATUS{0} : nt_status(Status::kGraphicsInsufficientDmaBuffer);
    };
    ContextBuffers context = client.make_context();
    stack.blocking([&] { EXPECT_EQ(client.render(context, Work{}), 0); });
    stack.drive();
    EXPECT_EQ(passes, kPasses);
    EXPECT_EQ(stack.statistics().packets_completed, kPasses);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    stack.miniport.hooks.render = nullptr;
  });
}

// One pass without progress is forgiven as often as the next one gets on, by either of the two.
TEST_F(ListsTest, ProgressOfEitherKindForgivesAPassWithout) {
  DXGKIT_COVERS("REND-09");
  for (const bool writes : {true, false}) {
    SCOPED_TRACE(writes ? "bytes" : "the offset");
    with_client([&](Stack& stack, Client& client) {
      uint32_t passes = 0;
      stack.miniport.hooks.render = [&](void*, DXGKARG_RENDER* args) {
        if (++passes == 8) return NTSTATUS{0};
        if (passes % 2 == 0 && writes)
          args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 64;
        if (passes % 2 == 0 && !writes) args->MultipassOffset += 16;
        return nt_status(Status::kGraphicsInsufficientDmaBuffer);
      };
      ContextBuffers context = client.make_context();
      EXPECT_EQ(client.render(context, Work{}), 0);
      stack.drive();
      EXPECT_EQ(passes, 8U);
      EXPECT_EQ(stack.statistics().multipass_renders, 7U);
      EXPECT_EQ(stack.statistics().packets_completed, writes ? 3U : 0U);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      stack.miniport.hooks.render = nullptr;
    });
  }
}

// The device is lost while its work is translated: nothing of it is queued, and what the driver did
// wrong in it is said all the same.
TEST_F(ListsTest, WhatIsLostDuringTheTranslationIsNotQueued) {
  DXGKIT_COVERS("THUNK-27", "PATCH-27");
  for (const bool wrong : {false, true}) {
    SCOPED_TRACE(wrong);
    with_client([&](Stack& stack, Client& client) {
      ContextBuffers context = client.make_context();
      ASSERT_EQ(client.render(context, Work{}), 0);
      stack.settle();
      const uint32_t fence = stack.miniport.outstanding(0).at(0);
      stack.miniport.hooks.render = [&](void* driver_context, DXGKARG_RENDER* args) {
        const NTSTATUS status = stack.miniport.default_render(driver_context, args);
        if (wrong) *args->pPatchLocationListOut++ = patch_at(3, 16);
        stack.miniport.faulted(0, fence, nt_status(Status::kUnsuccessful));
        stack.settle();
        return status;
      };
      const uint64_t submitted = stack.statistics().packets_submitted;
      EXPECT_EQ(client.render(context, Work{}),
                nt_status(wrong ? Status::kInvalidParameter : Status::kDeviceRemoved));
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
      EXPECT_EQ(stack.rules(),
                wrong ? std::vector<std::string>{"PATCH-27"} : std::vector<std::string>{});
      EXPECT_EQ(stack.statistics().packets_submitted, submitted);
      stack.drive();
      EXPECT_EQ(stack.statistics().packets_submitted, submitted);
      stack.miniport.hooks.render = nullptr;
    });
  }
}

// A list like the one before is filled in with the places of now, not of then.
TEST_F(ListsTest, TheSameListIsToldThePlacesOfNow) {
  DXGKIT_COVERS("REND-06");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE a = client.make_allocation(64 * kKibibyte, kHidden);
    const auto told = [&] {
      EXPECT_EQ(client.render(context, work_on({a})), 0);
      stack.drive();
      return stack.miniport.calls().renders.back().allocations.at(0);
    };
    EXPECT_EQ(told().segment(), 0U);
    const port::AllocationListEntry there = told();
    EXPECT_EQ(there.segment(), 2U);
    EXPECT_GE(there.physical_address, kHiddenBase);
    stack.blocking([&] { EXPECT_EQ(exercise(stack).evict_all(), Status::kSuccess); });
    const port::AllocationListEntry gone = told();
    EXPECT_EQ(gone.segment(), 0U);
    EXPECT_EQ(gone.physical_address, 0U);
  });
}

// The switch hides places from the driver; what the client said of writing it does not hide.
TEST_F(ListsTest, AHiddenPlaceIsStillWritten) {
  DXGKIT_COVERS("REND-28", "REND-04");
  for (const dxgk::CheckLevel checks : {dxgk::CheckLevel::kOff, dxgk::CheckLevel::kReference}) {
    bare([&](Stack& stack) {
      stack.options.check_level = checks;
      stack.options.verifier.set(VerifierSwitch::kNeverPrepatch);
      ASSERT_EQ(stack.start(), Status::kSuccess);
      Client client(stack);
      ContextBuffers context = client.make_context();
      Work work = work_on({client.make_allocation(64 * kKibibyte, kHidden),
                           client.make_allocation(64 * kKibibyte, kHidden)});
      work.allocations[1].write = false;
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(client.render(context, work), 0);
        stack.drive();
      }
      const std::vector<port::AllocationListEntry> told =
          stack.miniport.calls().renders.back().allocations;
      EXPECT_EQ(told[0].segment(), 0U);
      EXPECT_EQ(told[1].segment(), 0U);
      EXPECT_TRUE(told[0].write());
      EXPECT_FALSE(told[1].write());
      const testing::PatchCall patch = stack.miniport.calls().patches.back();
      EXPECT_TRUE(patch.allocations[0].write());
      EXPECT_FALSE(patch.allocations[1].write());
      EXPECT_EQ(patch.allocations[1].segment(), 2U) << "in time for the packet";
    });
  }
}

// What a driver writes behind its buffer is looked for where checks are wanted.
TEST_F(ListsTest, WritesBehindTheBufferAreSeenWithReferenceChecks) {
  DXGKIT_COVERS("REND-08");
  for (const dxgk::CheckLevel checks : {dxgk::CheckLevel::kOff, dxgk::CheckLevel::kReference}) {
    const bool seen = checks == dxgk::CheckLevel::kReference;
    SCOPED_TRACE(seen);
    bare([&](Stack& stack) {
      stack.options.check_level = checks;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      Client client(stack);
      ContextBuffers context = client.make_context();
      stack.miniport.hooks.render = [&](void* driver_context, DXGKARG_RENDER* args) {
        static_cast<std::byte*>(args->pDmaBuffer)[args->DmaSize] ^= std::byte{0x55};
        return stack.miniport.default_render(driver_context, args);
      };
      EXPECT_EQ(client.render(context, work_on({})), seen ? nt_status(Status::kUnsuccessful) : 0);
      EXPECT_EQ(stack.rules(),
                seen ? std::vector<std::string>{"REND-08"} : std::vector<std::string>{});
      stack.miniport.hooks.render = nullptr;
      stack.drive();
    });
  }
}

// A client that was given longer lists has a driver that is given as many places for its own.
TEST_F(ListsTest, TheDriversListGrowsWithTheClients) {
  DXGKIT_COVERS("REND-14", "THUNK-15");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    D3DKMT_RENDER args{};
    args.hContext = context.handle;
    args.CommandLength = 16;
    args.NewPatchLocationListSize = 200;
    args.Flags.ResizePatchLocationList = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTRender(&args); }), 0);
    EXPECT_EQ(args.NewCommandBufferSize, 16 * kKibibyte) << "nobody asked";
    EXPECT_EQ(args.NewAllocationListSize, 64U);
    ASSERT_EQ(args.NewPatchLocationListSize, 200U);
    D3DKMT_RENDER next{};
    next.hContext = context.handle;
    next.CommandLength = 16;
    ASSERT_EQ(client.call([&] { return D3DKMTRender(&next); }), 0);
    stack.drive();
    const std::vector<testing::RenderCall> renders = stack.miniport.calls().renders;
    EXPECT_EQ(renders[0].args.PatchLocationListOutSize, 128U);
    EXPECT_EQ(renders[1].args.PatchLocationListOutSize, 200U);
  });
}

// Each of the three grows alone, and what nobody asks for stays.
TEST_F(ListsTest, EachBufferGrowsByItself) {
  DXGKIT_COVERS("REND-14", "THUNK-15");
  const UINT sizes[] = {16 * 1024, 64, 128}, wishes[] = {20 * 1024, 100, 200};
  for (size_t which = 0; which < 3; ++which) {
    SCOPED_TRACE(which);
    with_client([&](Stack& stack, Client& client) {
      ContextBuffers context = client.make_context();
      D3DKMT_RENDER args{};
      args.hContext = context.handle;
      args.CommandLength = 16;
      args.NewCommandBufferSize = wishes[0];
      args.NewAllocationListSize = wishes[1];
      args.NewPatchLocationListSize = wishes[2];
      args.Flags.ResizeCommandBuffer = which == 0 ? 1 : 0;
      args.Flags.ResizeAllocationList = which == 1 ? 1 : 0;
      args.Flags.ResizePatchLocationList = which == 2 ? 1 : 0;
      ASSERT_EQ(client.call([&] { return D3DKMTRender(&args); }), 0);
      EXPECT_EQ(args.NewCommandBufferSize, which == 0 ? wishes[0] : sizes[0]);
      EXPECT_EQ(args.NewAllocationListSize, which == 1 ? wishes[1] : sizes[1]);
      EXPECT_EQ(args.NewPatchLocationListSize, which == 2 ? wishes[2] : sizes[2]);
      EXPECT_NE(args.pNewCommandBuffer, context.command) << "all three are new";
      stack.drive();
    });
  }
  // The most there is of each, whatever is wished.
  with_client([&](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    D3DKMT_RENDER args{};
    args.hContext = context.handle;
    args.CommandLength = 16;
    args.NewCommandBufferSize = args.NewAllocationListSize = args.NewPatchLocationListSize =
        UINT32_MAX;
    args.Flags.ResizeCommandBuffer = args.Flags.ResizeAllocationList =
        args.Flags.ResizePatchLocationList = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTRender(&args); }), 0);
    EXPECT_EQ(args.NewCommandBufferSize, kMostBytes);
    EXPECT_EQ(args.NewAllocationListSize, kMostEntries);
    EXPECT_EQ(args.NewPatchLocationListSize, kMostEntries);
    stack.drive();
  });
}

// However little private data there is, nobody writes behind it.
TEST_F(ListsTest, ASingleByteOfPrivateDataIsGuarded) {
  DXGKIT_COVERS("REND-08");
  with_client(
      [](Stack& stack, Client& client) {
        stack.miniport.hooks.render = [&](void* context, DXGKARG_RENDER* args) {
          static_cast<std::byte*>(args->pDmaBufferPrivateData)[1] = std::byte{0x5A};
          return stack.miniport.default_render(context, args);
        };
        ContextBuffers context = client.make_context();
        EXPECT_LT(client.render(context, Work{}), 0);
        EXPECT_EQ(stack.only_finding().rule, "REND-08");
        EXPECT_EQ(stack.only_finding().bugcheck_parameter, 0x12U);
        stack.miniport.hooks.render = nullptr;
      },
      [](ScriptedMiniport& miniport) { miniport.config.dma_private_bytes = 1; });
}

// The first slot behind the last, and the last.
TEST_F(ListsTest, SlotsEndBelowTheMaximum) {
  DXGKIT_COVERS("REND-22");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    Work work = work_on({client.make_allocation()});
    work.patches[0] = patch_at(0, 16, 0, 0, 255);
    EXPECT_EQ(client.render(context, work), 0);
    stack.drive();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    work.patches[0] = patch_at(0, 16, 0, 0, 256);
    EXPECT_EQ(client.render(context, work), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(stack.only_finding().rule, "REND-22");
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed - stack.statistics().paging_packets, 1U);
  });
}

// Two entries may name one allocation, and one of them writes it: then its content goes back when
// it leaves, whichever of the two is mentioned first.
TEST_F(ListsTest, WrittenInOneEntryIsWritten) {
  DXGKIT_COVERS("REND-04");
  for (const bool first_writes : {false, true}) {
    SCOPED_TRACE(first_writes);
    with_client([&](Stack& stack, Client& client) {
      ContextBuffers context = client.make_context();
      // Another one comes before it in the list, whose content is where it is anyway.
      const D3DKMT_HANDLE other = client.make_allocation(64 * kKibibyte, kAperture);
      const D3DKMT_HANDLE a = client.make_allocation(64 * kKibibyte, kHidden);
      const auto leave = [&] {
        stack.blocking([&] { EXPECT_EQ(exercise(stack).evict_all(), Status::kSuccess); });
        return count(stack, DXGK_OPERATION_TRANSFER);
      };
      ASSERT_EQ(client.render(context, work_on({a})), 0);
      stack.drive();
      ASSERT_EQ(leave(), 1U);
      Work reads = work_on({a});
      reads.allocations[0].write = false;
      ASSERT_EQ(client.render(context, reads), 0);
      stack.drive();
      ASSERT_EQ(leave(), 2U) << "in, and not out again: nobody wrote";
      Work both = work_on({other, a, a});
      both.allocations[0].write = both.allocations[first_writes ? 2 : 1].write = false;
      ASSERT_EQ(client.render(context, both), 0);
      stack.drive();
      EXPECT_EQ(leave(), 4U) << "in and out";
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
