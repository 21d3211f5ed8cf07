// Where DMA buffers are cut, what each part needs, and what is asked of a driver when parts run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/core/verifier_switches.h"
#include "tests/contract/memory_fixture.h"
#include "trace/causes.h"
#include "trace/trace.h"

namespace dxgkit::contract {
namespace {

using PartsTest = ContractTest;
using dxgk::VerifierSwitch;

constexpr uint64_t kBig = 640 * kKibibyte;  // two of them do not fit

/// 1 MiB of hidden memory.
void little_memory(ScriptedMiniport& miniport) { miniport.config.segments[1].size = kMebibyte; }

std::vector<testing::PatchCall> patches_of(Stack& stack) {
  std::vector<testing::PatchCall> calls = stack.miniport.calls().patches;
  std::erase_if(calls, [](const auto& call) { return call.args.Flags.Paging != 0; });
  return calls;
}
size_t rendering(Stack& stack) {
  const auto submits = stack.miniport.calls().submits;
  return static_cast<size_t>(
      std::ranges::count_if(submits, [](const auto& call) { return call.args.Flags.Paging == 0; }));
}

// A buffer is cut where the step begins that first needs what has no room: not where that is needed
// last, and not in the middle of the step.
TEST_F(PartsTest, ACutIsWhereTheFirstStepBeginsThatDoesNotFit) {
  DXGKIT_COVERS("REND-21", "PATCH-25", "PATCH-26");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        Work work;
        work.command_bytes = 1024;
        work.allocations = {{client.make_allocation(kBig, kHidden)},
                            {client.make_allocation(64 * kKibibyte, kHidden)},
                            {client.make_allocation(kBig, kHidden)}};
        work.patches = {patch_at(0, 16, 0), patch_at(1, 528, 512), patch_at(2, 544, 512),
                        patch_at(2, 784, 768)};
        ASSERT_EQ(client.render(context, work), 0);
        stack.drive();
        const std::vector<testing::PatchCall> patches = patches_of(stack);
        ASSERT_EQ(patches.size(), 2U);
        const std::vector<UINT> wanted[] = {{0, 512, 0, 1}, {512, 1024, 1, 3}};
        for (size_t i = 0; i < 2; ++i) {
          const DXGKARG_PATCH& args = patches[i].args;
          EXPECT_EQ(
              (std::vector<UINT>{
                  args.DmaBufferSubmissionStartOffset, args.DmaBufferSubmissionEndOffset,
                  args.PatchLocationListSubmissionStart, args.PatchLocationListSubmissionLength}),
              wanted[i])
              << i;
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      little_memory);
}

// What a part needs beside the memory its context saves into is brought in for it.
TEST_F(PartsTest, APartNeedsItsOwnMemoryAndTheContexts) {
  DXGKIT_COVERS("RES-29", "REND-21");
  with_client(
      [](Stack& stack, Client& client) {
        stack.miniport.hooks.create_context = [&](void* device, DXGKARG_CREATECONTEXT* args) {
          if (args->Flags.SystemContext == 0) {
            DXGKARGCB_CREATECONTEXTALLOCATION saved{};
            saved.hAdapter = stack.miniport.callbacks().DeviceHandle;
            saved.hDevice = reinterpret_cast<HANDLE>(uint64_t{client.device});
            saved.hContext = args->hContext;
            saved.hDriverAllocation = reinterpret_cast<HANDLE>(uint64_t{0xC0DE});
            saved.Size = 64 * kKibibyte;
            saved.SupportedSegmentSet = kHidden;
            EXPECT_EQ(stack.miniport.callbacks().DxgkCbCreateContextAllocation(&saved), 0);
          }
          return stack.miniport.default_create_context(device, args);
        };
        ContextBuffers context = client.make_context();
        Work work;
        work.command_bytes = 1024;
        work.allocations = {{client.make_allocation(kBig, kHidden)},
                            {client.make_allocation(kBig, kHidden)}};
        work.patches = {patch_at(0, 16, 0), patch_at(1, 528, 512)};
        ASSERT_EQ(client.render(context, work), 0);
        stack.drive();
        const std::vector<testing::PatchCall> patches = patches_of(stack);
        ASSERT_EQ(patches.size(), 2U);
        for (size_t i = 0; i < 2; ++i) {
          EXPECT_EQ(patches[i].allocations[i].segment(), 2U) << "what part " << i << " uses";
          EXPECT_NE(patches[i].allocations[i].physical_address, 0U);
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        stack.miniport.hooks.create_context = nullptr;
      },
      little_memory);
}

/// What is no leak although the second part says nothing of slot 6.
struct Silence {
  const char* sentence;
  std::function<void(Work&)> say;
  bool no_dma_patching = false;
};
class PartsSilence : public ContractTest, public ::testing::WithParamInterface<Silence> {};
TEST_P(PartsSilence, LeaksNothing) {
  DXGKIT_COVERS("REND-26", "REND-23");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        Work work;
        work.command_bytes = 1024;
        work.allocations = {
            {client.make_allocation(kBig, kHidden)}, {0}, {client.make_allocation(kBig, kHidden)}};
        work.patches = {patch_at(0, 16, 0, 0, 5), patch_at(0, 32, 0, 0, 6)};
        GetParam().say(work);
        EXPECT_EQ(client.render(context, work), 0);
        stack.drive();
        EXPECT_EQ(stack.statistics().splits, 1U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        EXPECT_EQ(rendering(stack), 2U);
      },
      [](ScriptedMiniport& miniport) {
        little_memory(miniport);
        if (!GetParam().no_dma_patching) return;
        miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SchedulingCaps.NoDmaPatching = 1; };
      });
}
const Silence kSilences[] = {
    {"UnboundBeforeTheCut",
     [](Work& work) {
       work.patches.push_back(patch_at(1, 48, 0, 0, 6));
       work.patches.push_back(patch_at(2, 528, 512, 0, 5));
     }},
    {"WithNoDmaPatching", [](Work& work) { work.patches.push_back(patch_at(2, 528, 512, 0, 5)); },
     true},
    {"BitsBesideTheSlotSayNothing",
     [](Work& work) {
       work.patches[1].Value |= 0xA5000000U;
       work.patches.push_back(patch_at(2, 528, 512, 0, 5));
       work.patches.push_back(patch_at(1, 544, 512, 0, 6));
     }},
    {"NorBehindTheCut",
     [](Work& work) {
       work.patches.push_back(patch_at(2, 528, 512, 0, 5));
       work.patches.back().Value |= 0x5A000000U;
       work.patches.push_back(patch_at(2, 544, 512, 0, 6));
       work.patches.back().Value |= 0x81000000U;
     }},
    {"NorWhereItIsUnbound",
     [](Work& work) {
       work.patches.push_back(patch_at(1, 48, 0, 0, 6));
       work.patches.back().Value |= 0xC3000000U;
       work.patches.push_back(patch_at(2, 528, 512, 0, 5));
     }},
};
INSTANTIATE_TEST_SUITE_P(Rows, PartsSilence, ::testing::ValuesIn(kSilences),
                         [](const auto& row) { return std::string(row.param.sentence); });

// Rendering waits for paging that somebody else's packet started.
TEST_F(PartsTest, WorkWaitsForMemoryThatComesInForAnother) {
  DXGKIT_COVERS("SCHED-14");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers first = client.make_context(), second = client.make_context();
    const D3DKMT_HANDLE both = client.make_allocation(64 * kKibibyte, kHidden);
    ASSERT_EQ(client.render(first, work_on({both})), 0);
    stack.settle();
    ASSERT_EQ(stack.miniport.outstanding(1).size(), 1U) << "the fill, on the paging node";
    ASSERT_EQ(client.render(second, work_on({both})), 0);
    stack.settle();
    EXPECT_EQ(rendering(stack), 0U);
    EXPECT_EQ(stack.miniport.outstanding(1).size(), 1U) << "and it comes in once";
    ASSERT_TRUE(stack.miniport.complete_next(1));
    stack.settle();
    EXPECT_EQ(rendering(stack), 2U);
    stack.drive();
  });
}

// A recording says which allocation of which packet has no room yet, and for whom another one left.
TEST_F(PartsTest, ARecordingSaysWhoWaitsForRoomAndWhoMadeIt) {
  DXGKIT_COVERS("SCHED-14");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers first = client.make_context(), second = client.make_context();
        const D3DKMT_HANDLE holds = client.make_allocation(kBig, kHidden);
        const D3DKMT_HANDLE fits = client.make_allocation(64 * kKibibyte, kHidden);
        const D3DKMT_HANDLE waits = client.make_allocation(kBig, kHidden);
        const auto id = [&](D3DKMT_HANDLE handle) {
          return (*client.process->handles().find<dxgk::OpenedAllocation>(handle))
              ->allocation->id.value;
        };
        ASSERT_EQ(client.render(first, work_on({holds})), 0);
        stack.settle();
        while (stack.miniport.complete_next(1)) stack.settle();  // paging
        ASSERT_EQ(rendering(stack), 1U);
        trace::Recorder* const of_the_test = trace::current();
        trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
        trace::set_current(&recorder);
        ASSERT_EQ(client.render(second, work_on({fits, waits})), 0);
        stack.settle();
        EXPECT_EQ(rendering(stack), 1U);
        stack.drive();
        stack.blocking([&] {
          auto by_hand = dxgk::Exercise::on(*stack.system, stack.luid);
          EXPECT_TRUE(by_hand->memory().page_in(*client.process, holds).has_value());
        });
        trace::set_current(of_the_test);
        uint64_t waiting = 0;
        std::vector<std::array<uint64_t, 3>> made_room;  // who left, for whom, for which packet
        for (const trace::Event& event : recorder.events()) {
          if (event.kind == static_cast<uint16_t>(trace::EventKind::kWhyBusy)) {
            EXPECT_EQ(event.c, static_cast<uint64_t>(trace::BusyReason::kNoRoom));
            EXPECT_EQ(event.d, id(waits));
            waiting = event.a;
          } else if (event.kind == static_cast<uint16_t>(trace::EventKind::kWhyEvicted)) {
            EXPECT_EQ(event.b, static_cast<uint64_t>(trace::EvictionReason::kRoom));
            made_room.push_back({event.a, event.c, event.d});
          }
        }
        EXPECT_NE(waiting, 0U);
        using Evicted = std::array<uint64_t, 3>;
        EXPECT_THAT(made_room, ::testing::ElementsAre(Evicted{id(holds), id(waits), waiting},
                                                      Evicted{id(waits), id(holds), 0}))
            << "by hand: for no packet";
        EXPECT_EQ(rendering(stack), 2U);
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      },
      little_memory);
}

/// A buffer of two steps with room for both, for `contexts` contexts.
NTSTATUS two_steps(Client& client, std::vector<ContextBuffers> contexts) {
  Work work;
  ContextBuffers& first = contexts.front();
  const D3DKMT_HANDLE a = client.make_allocation(64 * kKibibyte, kHidden);
  const D3DKMT_HANDLE b = client.make_allocation(64 * kKibibyte, kHidden);
  for (size_t i = 0; i < 2; ++i) {
    first.allocations[i] = {};
    first.allocations[i].hAllocation = i == 0 ? a : b;
    first.allocations[i].Value = 1;
    first.patches[i] = patch_at(static_cast<uint32_t>(i), static_cast<uint32_t>(256 * i + 16),
                                static_cast<uint32_t>(256 * i));
  }
  D3DKMT_RENDER args{};
  args.hContext = first.handle;
  args.CommandLength = 512;
  args.AllocationCount = args.PatchLocationCount = 2;
  args.BroadcastContextCount = static_cast<UINT>(contexts.size() - 1);
  for (size_t i = 1; i < contexts.size(); ++i) args.BroadcastContext[i - 1] = contexts[i].handle;
  return client.call([&] { return D3DKMTRender(&args); });
}

// A switch that cuts everywhere leaves whole what several contexts run, whose parts would have to
// be in step.
TEST_F(PartsTest, ABroadcastIsCutOnlyWhereItMustBe) {
  DXGKIT_COVERS("REND-28", "PREEMPT-17");
  for (const bool broadcast : {false, true}) {
    SCOPED_TRACE(broadcast);
    bare([&](Stack& stack) {
      stack.options.verifier.set(VerifierSwitch::kTakeSplitPoint);
      ASSERT_EQ(stack.start(), Status::kSuccess);
      Client client(stack);
      std::vector<ContextBuffers> contexts = {client.make_context()};
      if (broadcast) contexts.push_back(client.make_context(1));
      ASSERT_EQ(two_steps(client, contexts), 0);
      stack.drive();
      EXPECT_EQ(stack.statistics().splits, broadcast ? 0U : 1U);
      EXPECT_EQ(rendering(stack), 2U);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  }
}

// For all or for none: what one of them has no memory for runs on no other either.
TEST_F(PartsTest, ABroadcastThatOneCannotTakeRunsNowhere) {
  DXGKIT_COVERS("SUB-35");
  for (const size_t poor : {0U, 1U}) {  // the other one has a buffer from before
    SCOPED_TRACE(poor);
    with_client([&](Stack& stack, Client& client) {
      ContextBuffers contexts[] = {client.make_context(), client.make_context(1),
                                   client.make_context(1)};
      for (size_t i = 0; i < 3; ++i) {
        if (i == poor + 1) continue;
        ASSERT_EQ(client.render(contexts[i], Work{}), 0);
      }
      stack.drive();
      std::vector<std::pair<bus::PageFrame, uint64_t>> taken;
      for (uint64_t pages = 1U << 16; pages != 0; pages /= 2) {
        for (auto got = stack.machine.allocate_contiguous(pages); got.has_value();
             got = stack.machine.allocate_contiguous(pages))
          taken.emplace_back(*got, pages);
      }
      const uint64_t submitted = stack.statistics().packets_submitted;
      const auto broadcast = [&] {
        D3DKMT_RENDER args{};
        args.hContext = contexts[0].handle;
        args.CommandLength = 64;
        args.BroadcastContextCount = 2;
        args.BroadcastContext[0] = contexts[1].handle;
        args.BroadcastContext[1] = contexts[2].handle;
        const NTSTATUS status = client.call([&] { return D3DKMTRender(&args); });
        stack.drive();
        return status;
      };
      EXPECT_EQ(broadcast(), nt_status(Status::kNoMemory));
      EXPECT_EQ(stack.statistics().packets_submitted, submitted);
      for (const auto& [first, pages] : taken) stack.machine.free_contiguous(first, pages);
      EXPECT_EQ(broadcast(), 0);
      EXPECT_EQ(stack.statistics().packets_submitted, submitted + 3);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  }
}

// Under the switch each submission is patched twice, the same both times.
TEST_F(PartsTest, PatchingAgainIsPatchingTheSame) {
  DXGKIT_COVERS("REND-28", "PATCH-32");
  bare([](Stack& stack) {
    stack.options.verifier.set(VerifierSwitch::kAlwaysRepatch);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    ASSERT_EQ(two_steps(client, {client.make_context()}), 0);
    stack.drive();
    const ScriptedCalls calls = stack.miniport.calls();
    ASSERT_EQ(calls.patches.size(), 2 * calls.submits.size());
    ASSERT_GE(calls.submits.size(), 2U) << "paging, and the packet";
    for (size_t i = 0; i < calls.patches.size(); i += 2) {
      const DXGKARG_PATCH &one = calls.patches[i].args, &again = calls.patches[i + 1].args;
      EXPECT_EQ(one.SubmissionFenceId, again.SubmissionFenceId);
      EXPECT_EQ(one.pDmaBuffer, again.pDmaBuffer);
      EXPECT_EQ(one.PatchLocationListSubmissionLength, again.PatchLocationListSubmissionLength);
    }
  });
}

// Both ends of a broadcast buffer are looked at when a part is patched: the last part may not touch
// what is before it, the first not what is behind it.
TEST_F(PartsTest, EachPartOfABroadcastKeepsToItself) {
  DXGKIT_COVERS("PREEMPT-17");
  struct Row {
    bool last;
    uint32_t byte;
    const char* said;
  };
  const Row rows[] = {{false, 256, "[0, 256) of a DMA buffer of 512"},
                      {false, 511, "[0, 256) of a DMA buffer of 512"},
                      {true, 0, "[256, 512) of a DMA buffer of 512"},
                      {true, 255, "[256, 512) of a DMA buffer of 512"}};
  for (const auto& [last, byte, said] : rows) {
    SCOPED_TRACE(byte);
    with_client(
        [&](Stack& stack, Client& client) {
          ContextBuffers first = client.make_context(), second = client.make_context();
          const D3DKMT_HANDLE big[] = {client.make_allocation(kBig, kHidden),
                                       client.make_allocation(kBig, kHidden)};
          stack.miniport.hooks.patch = [&](const DXGKARG_PATCH* args) {
            auto* const bytes = static_cast<uint8_t*>(args->pDmaBuffer);
            const bool is_last = args->DmaBufferSubmissionStartOffset != 0;
            if (args->Flags.Paging == 0) {
              // Its own bytes are its own, to both ends.
              ++bytes[args->DmaBufferSubmissionStartOffset];
              ++bytes[args->DmaBufferSubmissionEndOffset - 1];
              if (is_last == last) ++bytes[byte];
            }
            return stack.miniport.default_patch(args);
          };
          for (size_t i = 0; i < 2; ++i) {
            first.allocations[i] = {};
            first.allocations[i].hAllocation = big[i];
            first.allocations[i].Value = 1;
            first.patches[i] =
                patch_at(static_cast<uint32_t>(i), static_cast<uint32_t>(256 * i + 16),
                         static_cast<uint32_t>(256 * i));
          }
          D3DKMT_RENDER args{};
          args.hContext = first.handle;
          args.CommandLength = 512;
          args.AllocationCount = args.PatchLocationCount = 2;
          args.BroadcastContextCount = 1;
          args.BroadcastContext[0] = second.handle;
          ASSERT_EQ(client.call([&] { return D3DKMTRender(&args); }), 0);
          stack.drive();
          EXPECT_EQ(stack.statistics().splits, 2U) << "each of them in two parts";
          EXPECT_EQ(std::ranges::count(stack.rules(), "PREEMPT-17"), 1) << "the repeat is counted";
          const std::vector<verifier::Finding> all = stack.findings.all();
          const auto found = std::ranges::find(all, "PREEMPT-17", &verifier::Finding::rule);
          ASSERT_NE(found, all.end());
          EXPECT_EQ(found->severity, verifier::Severity::kViolation);
          EXPECT_EQ(found->confidence, verifier::Confidence::kInferred);
          EXPECT_EQ(
              found->actual,
              fmt::format("For bytes {} that several contexts run, it changed the byte at {}.",
                          said, byte));
          stack.miniport.hooks.patch = nullptr;
        },
        little_memory);
  }
}

// What no context can hold loses the device. What the same call queues for the next context then
// leaves at once, as all that is cancelled.
TEST_F(PartsTest, ABroadcastThatLosesItsDeviceLeavesEveryQueue) {
  DXGKIT_COVERS("REND-24", "SUB-35", "CANCEL-04");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers first = client.make_context(), second = client.make_context(1);
        for (size_t i = 0; i < 2; ++i) {
          first.allocations[i] = {};
          first.allocations[i].hAllocation = client.make_allocation(kBig, kHidden);
          first.allocations[i].Value = 1;
          first.patches[i] = patch_at(static_cast<uint32_t>(i), static_cast<uint32_t>(16 * i));
        }
        D3DKMT_RENDER args{};
        args.hContext = first.handle;
        args.CommandLength = 512;
        args.AllocationCount = args.PatchLocationCount = 2;
        args.BroadcastContextCount = 1;
        args.BroadcastContext[0] = second.handle;
        EXPECT_EQ(client.call([&] { return D3DKMTRender(&args); }), 0);
        stack.settle();
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
        EXPECT_EQ(stack.statistics().packets_cancelled, 2U);
        const ScriptedCalls calls = stack.miniport.calls();
        ASSERT_EQ(calls.cancels.size(), 2U);
        EXPECT_EQ(calls.cancels[0].args.hContext, calls.renders.at(0).context);
        EXPECT_NE(calls.cancels[1].args.hContext, calls.cancels[0].args.hContext);
        EXPECT_EQ(rendering(stack), 0U);
        EXPECT_EQ(client.destroy_context(second.handle), 0) << "nothing is left in its queue";
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      little_memory);
}

}  // namespace
}  // namespace dxgkit::contract
