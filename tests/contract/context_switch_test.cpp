// SUB-24: the GPU is switched to no context before memory of its current context moves.
#include "dxgk/adapter/adapter.h"
#include "dxgk/exercise.h"
#include "dxgk/work/context_allocations.h"
#include "tests/contract/memory_fixture.h"
#include "tests/contract/tdr_fixture.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using ContextSwitch = ContractTest;
using testing::SubmitCall;

/// A driver that makes one allocation for each context it is asked for, or for its device.
class Saver {
 public:
  explicit Saver(Stack& stack) : stack_(stack) {
    stack.miniport.hooks.create_device = [this](DXGKARG_CREATEDEVICE* args) {
      if (args->Flags.SystemDevice == 0) kernel_device = args->hDevice;
      return stack_.miniport.default_create_device(args);
    };
    stack.miniport.hooks.create_context = [this](void* device, DXGKARG_CREATECONTEXT* args) {
      const bool system = args->Flags.SystemContext != 0;
      const bool first = std::exchange(fresh, false);
      const bool makes = !system && (first || (wanted && !shared));
      if (makes) make(args->hContext);
      const NTSTATUS status = stack_.miniport.default_create_context(device, args);
      (system ? paging : contexts).push_back(args->hContext);
      return status;
    };
  }
  void make(HANDLE context) {
    DXGKARGCB_CREATECONTEXTALLOCATION args{};
    args.hAdapter = stack_.miniport.callbacks().DeviceHandle;
    args.hDevice = kernel_device;
    args.hContext = shared ? nullptr : context;
    args.ContextAllocationFlags.SharedAcrossContexts = shared ? 1 : 0;
    args.hDriverAllocation = reinterpret_cast<HANDLE>(uint64_t{0xC0DE});
    args.Size = 64 * kKibibyte;
    args.SupportedSegmentSet = kHidden;
    EXPECT_EQ(stack_.miniport.callbacks().DxgkCbCreateContextAllocation(&args), 0);
  }

  bool wanted = true, shared = false, fresh = false;
  HANDLE kernel_device = nullptr;
  std::vector<HANDLE> contexts, paging;  // the driver's, as they were made

 private:
  Stack& stack_;
};

std::vector<DXGKARG_SUBMITCOMMAND> switches(Stack& stack) {
  std::vector<DXGKARG_SUBMITCOMMAND> found;
  for (const SubmitCall& call : stack.miniport.calls().submits) {
    if (call.args.Flags.ContextSwitch != 0) found.push_back(call.args);
  }
  return found;
}
void evict_all(Stack& stack) {
  stack.blocking([&] { EXPECT_EQ(exercise(stack).evict_all(), Status::kSuccess); });
}
size_t transfers(Stack& stack) { return count(stack, DXGK_OPERATION_TRANSFER); }

TEST_F(ContextSwitch, ComesBeforeMemoryOfTheCurrentContextMoves) {
  DXGKIT_COVERS("SUB-24", "RES-29");
  with_client(
      [](Stack& stack, Client& client) {
        Saver saver(stack);
        saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
        ContextBuffers saved = client.make_context(0);
        saver.wanted = false;
        ContextBuffers other = client.make_context(1);
        const D3DKMT_HANDLE all = client.make_allocation(256 * kKibibyte, kHidden);
        ASSERT_EQ(client.render(saved, Work{}), 0);
        stack.drive();
        EXPECT_TRUE(switches(stack).empty());
        const uint32_t last = stack.miniport.last_completed(0);
        const size_t patches = stack.miniport.calls().patches.size();

        ASSERT_EQ(client.render(other, work_on({all})), 0);  // it wants all the memory there is
        stack.settle();
        ASSERT_EQ(switches(stack).size(), 1U);
        const DXGKARG_SUBMITCOMMAND sent = switches(stack).front();
        EXPECT_EQ(sent.hContext, saver.contexts.front());
        EXPECT_EQ(sent.NodeOrdinal, 0U);
        EXPECT_EQ(sent.DmaBufferSize, 0U);
        EXPECT_EQ(sent.DmaBufferSubmissionEndOffset - sent.DmaBufferSubmissionStartOffset, 0U);
        EXPECT_EQ(sent.Flags.Value, 1U << 6) << "nothing but ContextSwitch";
        EXPECT_TRUE(fence_newer(SubmissionFenceId{sent.SubmissionFenceId}, SubmissionFenceId{last}))
            << "a fence of its own";
        EXPECT_EQ(stack.miniport.calls().patches.size(), patches) << "there is nothing to patch";
        EXPECT_EQ(transfers(stack), 0U) << "the GPU may still save into it";

        ASSERT_TRUE(stack.miniport.complete_next(0));
        stack.settle();
        EXPECT_EQ(transfers(stack), 1U);
        stack.drive();
        EXPECT_EQ(stack.miniport.calls().submits.back().args.NodeOrdinal, 1U);
        EXPECT_EQ(switches(stack).size(), 1U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = 256 * kKibibyte; });
}

TEST_F(ContextSwitch, IsNotNeededWhereTheGpuHasSwitchedAlready) {
  DXGKIT_COVERS("SUB-24");
  with_client([](Stack& stack, Client& client) {
    Saver saver(stack);
    saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
    ContextBuffers saved = client.make_context(0);
    saver.wanted = false;
    ContextBuffers same_node = client.make_context(0);
    ASSERT_EQ(client.render(saved, Work{}), 0);
    stack.drive();
    ASSERT_EQ(client.render(same_node, Work{}), 0);
    stack.drive();
    evict_all(stack);
    EXPECT_EQ(transfers(stack), 1U);
    EXPECT_TRUE(switches(stack).empty());
    // Current again, switched away once, and then no more.
    ASSERT_EQ(client.render(saved, Work{}), 0);
    stack.drive();
    evict_all(stack);
    EXPECT_EQ(switches(stack).size(), 1U);
    stack.blocking([&] { EXPECT_EQ(exercise(stack).evict_all(), Status::kSuccess); });
    EXPECT_EQ(switches(stack).size(), 1U);
  });
}

TEST_F(ContextSwitch, GoesToEveryNodeThatIsCurrentWithAContextOfTheDevice) {
  DXGKIT_COVERS("SUB-24");
  with_client([](Stack& stack, Client& client) {
    Saver saver(stack);
    saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
    saver.shared = saver.fresh = true;
    ContextBuffers on_3d = client.make_context(0), on_copy = client.make_context(1);
    ASSERT_EQ(client.render(on_copy, Work{}), 0);
    stack.drive();
    ASSERT_EQ(client.render(on_3d, Work{}), 0);
    stack.drive();
    evict_all(stack);
    std::vector<std::pair<UINT, HANDLE>> sent;
    for (const DXGKARG_SUBMITCOMMAND& one : switches(stack))
      sent.emplace_back(one.NodeOrdinal, one.hContext);
    EXPECT_THAT(sent, ::testing::ElementsAre(std::pair{0U, saver.contexts[0]},
                                             std::pair{1U, saver.contexts[1]}));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Two contexts that use the same memory: the switch names the one whose work came last.
TEST_F(ContextSwitch, NamesTheContextThatIsCurrentAmongThoseThatShareMemory) {
  DXGKIT_COVERS("SUB-24", "RES-29");
  with_client([](Stack& stack, Client& client) {
    Saver saver(stack);
    saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
    saver.shared = saver.fresh = true;
    ContextBuffers first = client.make_context(0), second = client.make_context(0);
    for (ContextBuffers* context : {&first, &second}) {
      ASSERT_EQ(client.render(*context, Work{}), 0);
      stack.drive();
    }
    evict_all(stack);
    const std::vector<DXGKARG_SUBMITCOMMAND> sent = switches(stack);
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].hContext, saver.contexts[1]);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(ContextSwitch, SaysPagingWhereTheKernelsPagingIsCurrent) {
  DXGKIT_COVERS("SUB-24");
  bare([](Stack& stack) {
    Saver saver(stack);
    stack.miniport.config.paging_buffer_segment = 3;  // the aperture
    stack.miniport.config.auto_complete = true;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    stack.blocking([&] { EXPECT_EQ(exercise(stack).power_cycle(), Status::kSuccess); });
    const std::vector<DXGKARG_SUBMITCOMMAND> sent = switches(stack);
    ASSERT_EQ(sent.size(), 1U) << "the buffers that follow find it switched";
    EXPECT_EQ(sent[0].Flags.Value, 1U << 6 | 1U << 0) << "ContextSwitch and Paging";
    EXPECT_EQ(sent[0].NodeOrdinal, stack.miniport.config.paging_node);
    EXPECT_EQ(sent[0].hContext, saver.paging.front());
    EXPECT_EQ(sent[0].DmaBufferSize, 0U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Paging buffers that move concern the node where paging is current: not one where a client's
// context is, nor the paging node once a client has used it.
TEST_F(ContextSwitch, IsNotNeededForPagingBuffersWhereOthersAreCurrent) {
  DXGKIT_COVERS("SUB-24");
  for (const bool on_paging_node : {false, true}) {
    SCOPED_TRACE(on_paging_node);
    with_client(
        [&](Stack& stack, Client& client) {
          const UINT paging_node = stack.miniport.config.paging_node;
          ContextBuffers context = client.make_context(on_paging_node ? paging_node : 0);
          ASSERT_EQ(client.render(context, Work{}), 0);
          stack.drive();
          stack.miniport.clear_calls();
          stack.blocking([&] { EXPECT_EQ(exercise(stack).power_cycle(), Status::kSuccess); });
          const std::vector<DXGKARG_SUBMITCOMMAND> sent = switches(stack);
          // The first buffer to leave is unmapped by way of the other: then paging is current.
          for (const DXGKARG_SUBMITCOMMAND& one : sent) {
            EXPECT_EQ(one.NodeOrdinal, paging_node);
            EXPECT_EQ(one.Flags.Paging, 1U);
          }
          const std::vector<SubmitCall> submits = stack.miniport.calls().submits;
          ASSERT_FALSE(submits.empty());
          EXPECT_EQ(submits.front().args.Flags.ContextSwitch, on_paging_node ? 0U : 1U);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [](ScriptedMiniport& miniport) {
          miniport.config.paging_buffer_segment = 3;
          miniport.config.auto_complete = true;
        });
  }
}

TEST_F(ContextSwitch, AContextIsNotDestroyedWhileASwitchNamesIt) {
  DXGKIT_COVERS("SUB-24");
  with_client(
      [](Stack& stack, Client& client) {
        Saver saver(stack);
        saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
        ContextBuffers saved = client.make_context(0);
        saver.wanted = false;
        ContextBuffers other = client.make_context(1);
        const D3DKMT_HANDLE all = client.make_allocation(256 * kKibibyte, kHidden);
        ASSERT_EQ(client.render(saved, Work{}), 0);
        stack.drive();
        ASSERT_EQ(client.render(other, work_on({all})), 0);
        stack.settle();
        ASSERT_EQ(switches(stack).size(), 1U);
        Stack::Background gone(stack, [&] {
          const D3DKMT_DESTROYCONTEXT destroy{.hContext = saved.handle};
          EXPECT_EQ(client.call([&] { return D3DKMTDestroyContext(&destroy); }), 0);
        });
        EXPECT_FALSE(gone.finished());
        EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyContext"), 0U);
        ASSERT_TRUE(stack.miniport.complete_next(0));
        gone.finish();
        EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyContext"), 1U);
        stack.drive();
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = 256 * kKibibyte; });
}

TEST_F(ContextSwitch, OneThatHangsCostsTheAdapterAResetAndNothingIsCurrentAfterwards) {
  DXGKIT_COVERS("SUB-24", "TDR-26");
  with_client(
      [](Stack& stack, Client& client) {
        Saver saver(stack);
        saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
        ContextBuffers saved = client.make_context(0);
        saver.wanted = false;
        ContextBuffers other = client.make_context(1);
        const D3DKMT_HANDLE all = client.make_allocation(256 * kKibibyte, kHidden);
        ASSERT_EQ(client.render(saved, Work{}), 0);
        stack.drive();
        ASSERT_EQ(client.render(other, work_on({all})), 0);
        stack.settle();
        ASSERT_EQ(switches(stack).size(), 1U);
        stack.miniport.hooks.reset_from_timeout = [&]() -> NTSTATUS {
          stack.miniport.forget_outstanding();
          return 0;
        };
        wait_out(stack);
        EXPECT_EQ(stack.statistics().adapter_resets, 1U);
        Client next(stack, "next");
        ContextBuffers fresh = next.make_context(1);
        ASSERT_EQ(next.render(fresh, work_on({next.make_allocation(256 * kKibibyte, kHidden)})), 0);
        stack.drive();
        EXPECT_EQ(next.wait_for_idle(), 0);
        EXPECT_EQ(switches(stack).size(), 1U);
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = 256 * kKibibyte; });
}

// One that never got to the engine has no DMA buffer to tell the driver of.
TEST_F(ContextSwitch, OneThatDoesNotRunIsNotCancelled) {
  DXGKIT_COVERS("CANCEL-23");
  with_client(
      [](Stack& stack, Client& client) {
        Saver saver(stack);
        saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
        ContextBuffers saved = client.make_context(0);
        saver.wanted = false;
        ContextBuffers other = client.make_context(1);
        const D3DKMT_HANDLE all = client.make_allocation(256 * kKibibyte, kHidden);
        ASSERT_EQ(client.render(saved, Work{}), 0);
        stack.drive();
        dxgk::Adapter& adapter = stack.adapter();
        adapter.core().lane().run(
            [&] { adapter.core().scheduler().hold_node(NodeOrdinal{0}, true); });
        ASSERT_EQ(client.render(other, work_on({all})), 0);
        stack.settle();
        ASSERT_TRUE(switches(stack).empty()) << "it waits for its node";
        ASSERT_EQ(stack.statistics().packets_cancelled, 0U);
        stack.machine.pull_out(stack.miniport.function());
        stack.blocking(
            [&] { EXPECT_EQ(stack.system->remove_adapter(stack.luid), Status::kSuccess); });
        const ScriptedCalls calls = stack.miniport.calls();
        ASSERT_EQ(calls.cancels.size(), 1U) << "what waited for the memory";
        EXPECT_EQ(calls.cancels[0].args.hContext, saver.contexts.back());
        stack.miniport.hooks = {};
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = 256 * kKibibyte; });
}

// With GPU virtual addresses the same comes through the other submission DDI, at no address.
using VirtualContextSwitch = GpuVaTest;
TEST_F(VirtualContextSwitch, ComesThroughTheVirtualSubmission) {
  DXGKIT_COVERS("SUB-24");
  running(GpuVaConfig::gpu_physical_four_level(), [](GpuVaStack& stack) {
    VaClient client(stack);
    AllocationId saved;
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) -> NTSTATUS {
      DXGKARGCB_CREATECONTEXTALLOCATION args{};
      args.hAdapter = stack.miniport.callbacks().DeviceHandle;
      args.hDevice = reinterpret_cast<HANDLE>(uint64_t{client.device});
      args.hDriverAllocation = reinterpret_cast<HANDLE>(uint64_t{0xC0DE});
      args.ContextAllocationFlags.SharedAcrossContexts = 1;
      args.Size = 16 * kPage;
      args.SupportedSegmentSet = kMemorySet;
      const NTSTATUS status = stack.miniport.callbacks().DxgkCbCreateContextAllocation(&args);
      saved = AllocationId{reinterpret_cast<uint64_t>(args.hAllocation)};
      return status;
    };
    D3DKMT_ESCAPE escape{};
    escape.hAdapter = client.adapter;
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    ASSERT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
    std::vector<DXGKARG_SUBMITCOMMANDVIRTUAL> switches;
    stack.gpu.on_submit = [&](const DXGKARG_SUBMITCOMMANDVIRTUAL* args) {
      if (args->Flags.ContextSwitch != 0) switches.push_back(*args);
      return stack.gpu.default_submit_virtual(args);
    };
    const D3DKMT_HANDLE memory = client.make_allocation(4 * kPage, kMemorySet);
    client.list({memory});
    stack.drive();
    const uint64_t va = client.make_mapping(memory, 4);
    ASSERT_EQ(client.submit(client.context, va, sizeof(dxgkit::testing::GpuCommand)), 0);
    stack.drive();
    EXPECT_TRUE(switches.empty());
    stack.adapter().core().lane().run([&] {
      dxgk::Adapter& adapter = stack.adapter();
      EXPECT_TRUE(adapter.floor().context_allocations->let_go())
          << "held by the node that ran last";
      const auto leave = adapter.core().memory().evict(saved);
      ASSERT_TRUE(leave.has_value());
      adapter.floor().paging->enqueue(*leave, nullptr);
      adapter.core().pump();
    });
    ASSERT_EQ(switches.size(), 1U) << "at once, and the move waits for it";
    stack.drive();
    EXPECT_EQ(switches.size(), 1U);
    stack.adapter().core().lane().run([&] {
      EXPECT_EQ(stack.adapter().core().memory().placement(saved).segment, kSystemMemory);
    });
    EXPECT_EQ(switches[0].Flags.Value, 1U << 6);
    EXPECT_EQ(switches[0].NodeOrdinal, 0U);
    EXPECT_NE(switches[0].hContext, nullptr);
    EXPECT_EQ(switches[0].DmaBufferVirtualAddress, 0U);
    EXPECT_EQ(switches[0].DmaBufferSize, 0U);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    stack.gpu.on_submit = nullptr;
    stack.miniport.hooks.escape = nullptr;
  });
}

}  // namespace
}  // namespace dxgkit::contract
