// What the driver is told of the parts of one DMA buffer: patched, submitted, cancelled, flipped.
#include <fmt/format.h>

#include "tests/contract/odd_fixture.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

using Strings = std::vector<std::string>;
class SplitTest : public ContractTest {
 protected:
  /// A client of the odd driver.
  static void split(const std::function<void(Stack&, Client&)>& body,
                    const std::function<void(ScriptedMiniport&)>& prepare = nullptr) {
    with_client(
        [&](Stack& stack, Client& client) {
          odd::use_private_data(stack);
          body(stack, client);
          stack.miniport.hooks = {};
        },
        [&](ScriptedMiniport& miniport) {
          odd::driver(miniport);
          if (prepare) prepare(miniport);
        });
  }
};

/// Where a part begins and ends, in bytes and in patch locations.
struct Part {
  uint32_t start, end, patch_start, patches;
};
constexpr Part kParts[] = {{0, odd::kSplit, 0, odd::kFirstPatches},
                           {odd::kSplit, odd::kBytes, odd::kFirstPatches, odd::kRestPatches}};

void expect_part(const DXGKARG_CANCELCOMMAND& args, const testing::RenderCall& render,
                 const Part& part) {
  EXPECT_EQ(args.hContext, render.context);
  EXPECT_EQ(args.pDmaBuffer, render.args.pDmaBuffer);
  EXPECT_EQ(reinterpret_cast<uint64_t>(args.pDmaBuffer) % 4096, 0U);
  EXPECT_EQ(args.DmaBufferSize, odd::kDmaBytes);
  EXPECT_EQ(args.DmaBufferSubmissionStartOffset, part.start);
  EXPECT_EQ(args.DmaBufferSubmissionEndOffset, part.end);
  EXPECT_EQ(args.pDmaBufferPrivateData, render.args.pDmaBufferPrivateData);
  EXPECT_EQ(args.DmaBufferPrivateDataSize, odd::kPrivateBytes);
  EXPECT_EQ(args.DmaBufferPrivateDataSubmissionStartOffset, 0U);
  EXPECT_EQ(args.DmaBufferPrivateDataSubmissionEndOffset, odd::kPrivateUsed);
  EXPECT_EQ(args.pAllocationList, render.args.pAllocationList);
  EXPECT_EQ(args.AllocationListSize, odd::kListed);
  EXPECT_EQ(args.pPatchLocationList, render.args.pPatchLocationListOut);
  EXPECT_EQ(args.PatchLocationListSize, odd::kPatches);
  EXPECT_EQ(args.PatchLocationListSubmissionStart, part.patch_start);
  EXPECT_EQ(args.PatchLocationListSubmissionLength, part.patches);
  EXPECT_EQ(args.DmaBufferVirtualAddress, 0U);
  EXPECT_EQ(args.DmaBufferUmdPrivateDataSize, 0U);
}

// The first part is on hardware and faults: the rest is taken back from where it would have begun.
TEST_F(SplitTest, TheRestIsCancelledFromWhereItBegins) {
  DXGKIT_COVERS("CANCEL-24", "CANCEL-06", "CANCEL-07", "CANCEL-08", "CANCEL-09", "CANCEL-10",
                "CANCEL-11", "CANCEL-12", "CANCEL-13", "CANCEL-14", "CANCEL-15", "CANCEL-16");
  split([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context(odd::kNode);
    const odd::Parts parts(client);
    ASSERT_EQ(client.render(context, parts.work()), 0);
    odd::page(stack);
    ASSERT_EQ(stack.miniport.outstanding(odd::kNode).size(), 1U);
    ASSERT_EQ(stack.statistics().splits, 1U);
    stack.miniport.faulted(odd::kNode, stack.miniport.outstanding(odd::kNode)[0],
                           nt_status(Status::kUnsuccessful));
    stack.settle();
    const ScriptedCalls calls = stack.miniport.calls();
    ASSERT_EQ(calls.cancels.size(), 1U);
    expect_part(calls.cancels[0].args, calls.renders[0], kParts[1]);
    EXPECT_EQ(calls.cancels[0].patches.at(odd::kFirstPatches).patch_offset, 712U);
    // What was told at Patch of the first part is told of the second: the same lists and data.
    EXPECT_EQ(calls.cancels[0].args.pPatchLocationList,
              odd::patches(stack, false)[0].args.pPatchLocationList);
    stack.drive();
    EXPECT_EQ(stack.miniport.count("DxgkDdiCancelCommand"), 1U);
    EXPECT_EQ(stack.rules(), Strings{});
  });
}

// Neither part was submitted when the device was lost: each is told, in order.
TEST_F(SplitTest, EachPartThatWasNotSubmittedIsCancelledInOrder) {
  DXGKIT_COVERS("CANCEL-24", "CANCEL-04", "CANCEL-09", "CANCEL-10", "CANCEL-16");
  split([](Stack& stack, Client& client) {
    ContextBuffers busy = client.make_context(odd::kNode),
                   context = client.make_context(odd::kNode);
    for (int i = 0; i < 2; ++i) ASSERT_EQ(client.render(busy, work_on({})), 0);
    const odd::Parts parts(client);
    ASSERT_EQ(client.render(context, parts.work()), 0);
    odd::page(stack);
    ASSERT_EQ(stack.miniport.outstanding(odd::kNode).size(), 2U) << "no room for a part";
    ASSERT_EQ(stack.statistics().splits, 1U);
    stack.miniport.faulted(odd::kNode, stack.miniport.outstanding(odd::kNode)[0],
                           nt_status(Status::kUnsuccessful));
    stack.settle();
    const ScriptedCalls calls = stack.miniport.calls();
    ASSERT_EQ(calls.cancels.size(), 2U);
    for (size_t i = 0; i < 2; ++i) {
      SCOPED_TRACE(i);
      expect_part(calls.cancels[i].args, calls.renders[2], kParts[i]);
    }
    stack.drive();
    EXPECT_EQ(stack.miniport.count("DxgkDdiCancelCommand"), 2U);
  });
}

// Every member of both structures, of both parts. The buffer lies where the kernel put it.
TEST_F(SplitTest, EveryMemberOfPatchAndSubmissionIsThePartsOwn) {
  DXGKIT_COVERS("PATCH-03", "PATCH-08", "PATCH-09", "PATCH-10", "PATCH-11", "PATCH-12", "PATCH-14",
                "PATCH-16", "PATCH-17", "PATCH-18", "PATCH-19", "PATCH-21", "PATCH-22", "PATCH-24",
                "PATCH-25", "PATCH-26", "PATCH-28", "PATCH-30", "SUB-02", "SUB-06", "SUB-07",
                "SUB-08", "SUB-09", "SUB-10", "SUB-12", "SUB-17", "SUB-18", "SUB-19", "REND-21");
  for (const bool aperture : {false, true}) {
    SCOPED_TRACE(aperture ? "in an aperture" : "in system memory");
    split(
        [&](Stack& stack, Client& client) {
          ContextBuffers context = client.make_context(odd::kNode);
          const odd::Parts parts(client);
          ASSERT_EQ(client.render(context, parts.work()), 0);
          stack.drive();
          ASSERT_EQ(stack.statistics().splits, 1U);
          const testing::RenderCall render = stack.miniport.calls().renders.at(0);
          const auto patches = odd::patches(stack, false);
          const auto submits = odd::submits(stack, false);
          ASSERT_EQ(patches.size(), 2U);
          ASSERT_EQ(submits.size(), 2U);
          for (size_t i = 0; i < 2; ++i) {
            SCOPED_TRACE(i);
            const Part& part = kParts[i];
            const DXGKARG_PATCH& patch = patches[i].args;
            EXPECT_EQ(patch.hContext, render.context);
            EXPECT_EQ(patch.DmaBufferSegmentId, aperture ? 3U : 0U);
            EXPECT_EQ(patch.pDmaBuffer, render.args.pDmaBuffer);
            EXPECT_EQ(patch.DmaBufferSize, odd::kDmaBytes);
            EXPECT_EQ(patch.DmaBufferSubmissionStartOffset, part.start);
            EXPECT_EQ(patch.DmaBufferSubmissionEndOffset, part.end);
            EXPECT_EQ(patch.pDmaBufferPrivateData, render.args.pDmaBufferPrivateData);
            EXPECT_EQ(patch.DmaBufferPrivateDataSize, odd::kPrivateBytes);
            EXPECT_EQ(patch.DmaBufferPrivateDataSubmissionStartOffset, 0U);
            EXPECT_EQ(patch.DmaBufferPrivateDataSubmissionEndOffset, odd::kPrivateUsed);
            EXPECT_EQ(patches[i].private_data[odd::kPrivateUsed - 1], std::byte{0x77});
            EXPECT_EQ(patch.pAllocationList, render.args.pAllocationList);
            EXPECT_EQ(patch.AllocationListSize, odd::kListed);
            EXPECT_EQ(patch.pPatchLocationList, render.args.pPatchLocationListOut);
            EXPECT_EQ(patch.PatchLocationListSize, odd::kPatches);
            EXPECT_EQ(patch.PatchLocationListSubmissionStart, part.patch_start);
            EXPECT_EQ(patch.PatchLocationListSubmissionLength, part.patches);
            EXPECT_EQ(patch.EngineOrdinal, 0U);
            EXPECT_EQ(patch.Flags.Value, 0U);
            const DXGKARG_SUBMITCOMMAND& submit = submits[i].args;
            EXPECT_EQ(submit.hContext, render.context);
            EXPECT_EQ(submit.DmaBufferSegmentId, patch.DmaBufferSegmentId);
            EXPECT_EQ(submit.DmaBufferPhysicalAddress.QuadPart,
                      patch.DmaBufferPhysicalAddress.QuadPart);
            EXPECT_EQ(submit.DmaBufferSize, odd::kDmaBytes);
            EXPECT_EQ(submit.DmaBufferSubmissionStartOffset, part.start);
            EXPECT_EQ(submit.DmaBufferSubmissionEndOffset, part.end);
            EXPECT_EQ(submit.pDmaBufferPrivateData, render.args.pDmaBufferPrivateData);
            EXPECT_EQ(submit.DmaBufferPrivateDataSize, odd::kPrivateBytes);
            EXPECT_EQ(submit.DmaBufferPrivateDataSubmissionStartOffset, 0U);
            EXPECT_EQ(submit.DmaBufferPrivateDataSubmissionEndOffset, odd::kPrivateUsed);
            EXPECT_EQ(submit.SubmissionFenceId, patch.SubmissionFenceId);
            EXPECT_EQ(submit.SubmissionFenceId, i + 1);
            EXPECT_EQ(submit.VidPnSourceId, D3DDDI_ID_UNINITIALIZED);
            EXPECT_EQ(submit.FlipInterval, 0);
            EXPECT_EQ(submit.Flags.Value, 0U);
            EXPECT_EQ(submit.EngineOrdinal, 0U);
            EXPECT_EQ(submit.DmaBufferVirtualAddress, 0U);
            EXPECT_EQ(submit.NodeOrdinal, odd::kNode);
          }
          // Where the listed allocations are, of each part: only what it needs has to be there.
          const auto& first = patches[0].allocations;
          const auto& second = patches[1].allocations;
          EXPECT_EQ(first[1].segment(), 2U);
          EXPECT_EQ(second[3].segment(), 2U);
          EXPECT_EQ(first[0].segment(), 1U);
          EXPECT_EQ(second[2].segment(), 0U) << "a NULL entry";
          EXPECT_EQ(second[4].segment(), 1U);
          EXPECT_TRUE(second[3].write());
          EXPECT_FALSE(second[4].write());
          EXPECT_EQ(first[0].physical_address, second[0].physical_address);
          uint64_t bytes = 0;
          for (const testing::SubmitCall& call : stack.miniport.calls().submits) {
            bytes += call.args.DmaBufferSubmissionEndOffset;
            bytes -= call.args.DmaBufferSubmissionStartOffset;
          }
          EXPECT_EQ(stack.statistics().dma_bytes, bytes) << "each byte once";
          EXPECT_EQ(stack.rules(), Strings{});
        },
        [&](ScriptedMiniport& miniport) { miniport.config.dma_segment_set = aperture ? 4 : 0; });
  }
}

// Each context runs a copy of its own, with the private data that the driver left in the first one.
TEST_F(SplitTest, ABroadcastCopiesThePrivateData) {
  DXGKIT_COVERS("SUB-35", "PATCH-12");
  split([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context(odd::kNode),
                   other = client.make_context(odd::kOtherNode);
    D3DKMT_RENDER args{};
    args.hContext = context.handle;
    args.CommandLength = 64;
    args.BroadcastContextCount = 1;
    args.BroadcastContext[0] = other.handle;
    ASSERT_EQ(client.call([&] { return D3DKMTRender(&args); }), 0);
    stack.drive();
    const auto patches = odd::patches(stack, false);
    ASSERT_EQ(patches.size(), 2U);
    EXPECT_NE(patches[0].args.pDmaBufferPrivateData, patches[1].args.pDmaBufferPrivateData);
    for (const testing::PatchCall& call : patches) {
      EXPECT_EQ(call.args.DmaBufferPrivateDataSubmissionEndOffset, odd::kPrivateUsed);
      EXPECT_EQ(call.private_data[0], std::byte{0x77});
      EXPECT_EQ(call.private_data[odd::kPrivateUsed - 1], std::byte{0x77});
    }
    EXPECT_EQ(stack.rules(), Strings{});
  });
}

/// One DMA buffer in three parts. The last one needs what the first one needed, too, and there is
/// no room for it beside what the second one needs.
Work three_parts(Client& client, uint32_t last_slot) {
  const D3DKMT_HANDLE first = client.make_allocation(600 * kKibibyte, kHidden);
  const D3DKMT_HANDLE again = client.make_allocation(400 * kKibibyte, kHidden);
  const D3DKMT_HANDLE second = client.make_allocation(640 * kKibibyte, kHidden);
  const D3DKMT_HANDLE shared = client.make_allocation(64 * kKibibyte, kVisible);
  Work work;
  work.command_bytes = odd::kBytes;
  work.allocations = {{first}, {again}, {0, false}, {second}, {shared}};
  work.patches = {patch_at(0, 24, 0, 0, 1),
                  patch_at(1, 48, 0, 0, 2),
                  patch_at(0, 60, 0, 0, 1),
                  patch_at(1, 72, 0, 0, 2),
                  patch_at(3, 400, 384, 0, 1),
                  patch_at(4, 420, 384, 0, 3),
                  patch_at(2, 1100, 1024, 0, 1),
                  patch_at(1, 1200, 1024, 0, 2),
                  patch_at(4, 1300, 1024, 0, last_slot)};
  return work;
}

// A part is cut out of what is left, which begins neither at byte 0 nor at patch location 0. What
// an earlier DMA buffer said behind the end of the list is nobody's.
TEST_F(SplitTest, APartInTheMiddleBeginsAndEndsWhereItsNeighboursDo) {
  DXGKIT_COVERS("REND-21", "REND-26", "PATCH-10", "PATCH-11", "PATCH-25", "PATCH-26");
  for (const bool leaks : {false, true}) {
    SCOPED_TRACE(leaks);
    split([&](Stack& stack, Client& client) {
      stack.expect_leaks = leaks;
      ContextBuffers context = client.make_context(odd::kNode);
      const Work work = three_parts(client, leaks ? 4 : 3);
      Work before;
      before.allocations = {work.allocations[4]};
      before.command_bytes = odd::kBytes;
      for (uint32_t i = 0; i < 16; ++i)
        before.patches.push_back(patch_at(0, 24 + 8 * i, 0, 0, i == 9 ? 99 : 3));
      ASSERT_EQ(client.render(context, before), 0);
      stack.drive();
      stack.miniport.clear_calls();
      ASSERT_EQ(client.render(context, work), 0);
      stack.drive();
      const auto patches = odd::patches(stack, false);
      if (leaks) {
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.rule, "REND-26");
        EXPECT_EQ(finding.actual,
                  "The part of the DMA buffer from offset 1024 on neither reprograms nor unbinds "
                  "slot 3, which holds allocation index 4 since before.");
        return;
      }
      EXPECT_EQ(stack.statistics().splits, 2U);
      constexpr Part kThree[] = {{0, 384, 0, 4}, {384, 1024, 4, 2}, {1024, odd::kBytes, 6, 3}};
      ASSERT_EQ(patches.size(), 3U);
      for (size_t i = 0; i < 3; ++i) {
        SCOPED_TRACE(i);
        EXPECT_EQ(patches[i].args.DmaBufferSubmissionStartOffset, kThree[i].start);
        EXPECT_EQ(patches[i].args.DmaBufferSubmissionEndOffset, kThree[i].end);
        EXPECT_EQ(patches[i].args.PatchLocationListSize, 9U);
        EXPECT_EQ(patches[i].args.PatchLocationListSubmissionStart, kThree[i].patch_start);
        EXPECT_EQ(patches[i].args.PatchLocationListSubmissionLength, kThree[i].patches);
        for (size_t k = 0; k < 4; ++k)
          EXPECT_EQ(patches[i].allocations[k].segment() == 2U && k != 2, k == 1 ? i != 1
                                                                         : k == 0
                                                                             ? i == 0
                                                                             : k == 3 && i == 1)
              << k;
      }
      EXPECT_EQ(stack.rules(), Strings{});
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    });
  }
}

// The node cannot be preempted: what another context wants of it, however urgent, waits for the
// last part; paging is done between them.
TEST_F(SplitTest, NoOtherContextRunsBetweenThePartsWithoutPreemption) {
  DXGKIT_COVERS("REND-25");
  split(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context(odd::kNode);
        ContextBuffers equal = client.make_context(odd::kNode);
        ContextBuffers urgent = client.make_context(odd::kNode);
        D3DKMT_SETCONTEXTSCHEDULINGPRIORITY low{.hContext = context.handle, .Priority = -3};
        ASSERT_EQ(client.call([&] { return D3DKMTSetContextSchedulingPriority(&low); }), 0);
        low.hContext = equal.handle;
        ASSERT_EQ(client.call([&] { return D3DKMTSetContextSchedulingPriority(&low); }), 0);
        const odd::Parts parts(client);
        ASSERT_EQ(client.render(context, parts.work()), 0);
        for (int i = 0; i < 2; ++i) {
          ASSERT_EQ(client.render(urgent, work_on({parts.shared})), 0);
          ASSERT_EQ(client.render(equal, work_on({})), 0);
        }
        stack.drive();
        ASSERT_EQ(stack.statistics().splits, 1U);
        const ScriptedCalls calls = stack.miniport.calls();
        std::string order;
        for (const testing::SubmitCall& call : calls.submits) {
          EXPECT_EQ(call.args.NodeOrdinal, odd::kNode);
          const bool part = call.args.hContext == calls.renders[0].context;
          order += call.args.Flags.Paging != 0 ? '.' : part ? 'P' : '-';
        }
        const size_t first = order.find('P'), second = order.rfind('P');
        ASSERT_LT(first, second) << order;
        const std::string between = order.substr(first + 1, second - first - 1);
        EXPECT_NE(between.find('.'), std::string::npos) << order;
        EXPECT_EQ(between.find('-'), std::string::npos) << order;
        EXPECT_EQ(std::ranges::count(order, '-'), 4) << order;
        EXPECT_EQ(stack.rules(), Strings{});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.preemption_aware = false;
        miniport.config.paging_node = odd::kNode;
      });
}

// With a list of its own a device may let go of what it queued work for: it stays until the last
// part is done.
TEST_F(SplitTest, WhatLeavesTheResidencyListWaitsForTheLastPart) {
  DXGKIT_COVERS("RES-16", "REND-21");
  bare([](Stack& stack) {
    explicit_residency(stack.miniport);
    stack.options.verifier.set(dxgk::VerifierSwitch::kTakeSplitPoint);
    stack.miniport.config.hw_queue_packet_cap = 1;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    ListingClient client(stack);
    ContextBuffers context = client.make_context(0), other = client.make_context(1);
    const D3DKMT_HANDLE one = client.make(3), older = client.make(1);
    ASSERT_TRUE(is_success(from_ntstatus(client.make_resident({one, older}))));
    stack.drive();
    // Older work runs for as long: what was evicted behind it does not wait for the parts.
    ASSERT_EQ(client.render(other, work_on({older})), 0);
    stack.settle();
    ASSERT_EQ(stack.miniport.outstanding(1).size(), 1U);
    ASSERT_EQ(client.evict({older}), 0);
    Work work;
    work.command_bytes = odd::kBytes;
    work.allocations = {{one}};
    work.patches = {patch_at(0, 24), patch_at(0, 672, odd::kSplit)};
    ASSERT_EQ(client.render(context, work), 0);
    stack.settle();
    ASSERT_EQ(stack.statistics().splits, 1U);
    ASSERT_EQ(client.evict({one}), 0);
    stack.settle();
    ASSERT_TRUE(client.in_memory(one));
    ASSERT_TRUE(client.in_memory(older));
    ASSERT_TRUE(stack.miniport.complete_next(1));
    stack.settle();
    ASSERT_TRUE(stack.miniport.complete_next(1)) << "the older one leaves";
    stack.settle();
    EXPECT_FALSE(client.in_memory(older));
    ASSERT_TRUE(stack.miniport.complete_next(0));
    stack.settle();
    ASSERT_EQ(stack.miniport.outstanding(0).size(), 1U) << "the second part";
    EXPECT_TRUE(stack.miniport.outstanding(stack.miniport.config.paging_node).empty())
        << "its memory goes while it runs";
    EXPECT_TRUE(client.in_memory(one));
    stack.drive();
    EXPECT_FALSE(client.in_memory(one));
  });
}

}  // namespace
}  // namespace dxgkit::contract
