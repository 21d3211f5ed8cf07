// SUB-24 and SUB-25: a switch to no context that has to come again.
#include "dxgk/adapter/adapter.h"
#include "dxgk/work/context_allocations.h"
#include "tests/contract/memory_fixture.h"
#include "tests/contract/tdr_fixture.h"

namespace dxgkit::contract {
namespace {

using SwitchAgainTest = ContractTest;

// The node does not answer in time, is asked to preempt, and gives the switch back: it comes again
// with its fence, as paging does, and from WDDM 2.0 on says that it does.
TEST_F(SwitchAgainTest, ASwitchThatWasPreemptedSaysThatItComesAgain) {
  DXGKIT_COVERS("SUB-24", "SUB-25", "SUB-26");
  for (const uint32_t version :
       {DXGKDDI_INTERFACE_VERSION_WDDM1_3, DXGKDDI_INTERFACE_VERSION_WDDM2_0}) {
    SCOPED_TRACE(version);
    with_client(
        [&](Stack& stack, Client& client) {
          AllocationId saved;
          stack.miniport.hooks.create_context = [&](void* device, DXGKARG_CREATECONTEXT* args) {
            DXGKARGCB_CREATECONTEXTALLOCATION create{};
            create.hAdapter = stack.miniport.callbacks().DeviceHandle;
            create.hDevice = reinterpret_cast<HANDLE>(uint64_t{client.device});
            create.hContext = args->hContext;
            create.hDriverAllocation = reinterpret_cast<HANDLE>(uint64_t{0xC0DE});
            create.Size = 64 * kKibibyte;
            create.SupportedSegmentSet = kHidden;
            EXPECT_EQ(stack.miniport.callbacks().DxgkCbCreateContextAllocation(&create), 0);
            saved = AllocationId{reinterpret_cast<uint64_t>(create.hAllocation)};
            return stack.miniport.default_create_context(device, args);
          };
          ContextBuffers context = client.make_context(2);
          stack.miniport.hooks.create_context = nullptr;
          ASSERT_EQ(client.render(context, Work{}), 0);
          stack.drive();
          stack.adapter().core().lane().run([&] {
            dxgk::Adapter& adapter = stack.adapter();
            EXPECT_TRUE(adapter.floor().context_allocations->let_go());
            const auto leave = adapter.core().memory().evict(saved);
            ASSERT_TRUE(leave.has_value());
            adapter.floor().paging->enqueue(*leave, nullptr);
            adapter.core().pump();
          });
          stack.settle();
          const auto first = stack.miniport.calls().submits.back().args;
          ASSERT_EQ(first.Flags.ContextSwitch, 1U);
          EXPECT_EQ(first.NodeOrdinal, 2U);
          EXPECT_EQ(first.Flags.Resubmission, 0U);
          for (int i = 0; i < 20 && stack.miniport.calls().preempts.empty(); ++i) {
            runtime::Runtime::current().sleep_for(250 * runtime::kMillisecond);
            stack.settle();
          }
          const auto preempts = stack.miniport.calls().preempts;
          ASSERT_EQ(preempts.size(), 1U);
          EXPECT_EQ(preempts[0].NodeOrdinal, 2U);
          stack.miniport.preempted(2, preempts[0].PreemptionFenceId,
                                   stack.miniport.last_completed(2));
          stack.settle();
          const auto again = stack.miniport.calls().submits.back().args;
          ASSERT_EQ(again.Flags.ContextSwitch, 1U);
          EXPECT_EQ(again.NodeOrdinal, 2U);
          EXPECT_EQ(again.SubmissionFenceId, first.SubmissionFenceId);
          EXPECT_EQ(again.Flags.Resubmission,
                    version >= DXGKDDI_INTERFACE_VERSION_WDDM2_0 ? 1U : 0U);
          stack.drive();
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](ScriptedMiniport& miniport) {
          miniport.config.version = version;
          miniport.config.nodes = 3;
        });
  }
}

}  // namespace
}  // namespace dxgkit::contract
