// Which uses make content that has to be kept.
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

using ResWrittenTest = ContractTest;

// A list entry that only reads leaves what is clean clean; one that writes does not, wherever it
// stands in the list.
TEST_F(ResWrittenTest, OnlyEntriesThatWriteMakeItDirty) {
  DXGKIT_COVERS("RES-15");
  for (const bool writes : {false, true}) {
    SCOPED_TRACE(writes);
    running(
        [&](Stack& stack) {
          ListingClient client(stack);
          ContextBuffers context = client.make_context();
          const D3DKMT_HANDLE other = client.make(1), a = client.make(1);
          const auto transfers = [&] {
            size_t count = 0;
            for (const auto& call : stack.miniport.calls().paging)
              count += call.args.Operation == DXGK_OPERATION_TRANSFER;
            return count;
          };
          client.list({other, a, a});
          stack.drive();
          ASSERT_EQ(client.evict({a}, /*NotWrittenTo*/ 2), 0);
          Work work = work_on({other, a});
          work.allocations[1].write = writes;
          ASSERT_EQ(client.render(context, work), 0);
          stack.drive();
          const size_t before = transfers();
          ASSERT_EQ(client.evict({a}), 0);
          stack.drive();
          EXPECT_EQ(client.where(a), D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT);
          EXPECT_EQ(transfers() - before, writes ? 1U : 0U);
        },
        explicit_residency);
  }
}

}  // namespace
}  // namespace dxgkit::contract
