// Paging buffers that the driver wants in an aperture segment.
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using PagingBufferTest = ContractTest;

constexpr UINT kApertureSegment = 3;

// Each paging buffer is mapped into the aperture at start, through packets from system memory; from
// then on every submission names segment and address of that mapping, and stopping unmaps them
// again.
TEST_F(PagingBufferTest, LiveInTheApertureTheDriverNamed) {
  DXGKIT_COVERS("SEG-47", "PATCH-07", "SUB-06");
  with_client(
      [](Stack& stack, Client& client) {
        size_t mapped = 0;
        for (const auto& call : stack.miniport.calls().paging) {
          if (call.args.Operation == DXGK_OPERATION_MAP_APERTURE_SEGMENT) {
            EXPECT_EQ(call.args.MapApertureSegment.SegmentId, kApertureSegment);
            EXPECT_EQ(call.args.MapApertureSegment.hAllocation, nullptr);
            ++mapped;
          }
        }
        EXPECT_EQ(mapped, 4U);
        const size_t before = stack.miniport.calls().submits.size();
        const D3DKMT_HANDLE allocation = client.make_allocation(64 * kKibibyte, kHidden);
        ContextBuffers context = client.make_context();
        ASSERT_EQ(client.render(context, work_on({allocation})), nt_status(Status::kSuccess));
        ASSERT_EQ(client.wait_for_idle(), nt_status(Status::kSuccess));
        const auto submits = stack.miniport.calls().submits;
        const auto& segments = stack.miniport.config.segments;
        size_t paging = 0;
        for (size_t i = before; i < submits.size(); ++i) {
          if (submits[i].args.Flags.Paging == 0) continue;
          ++paging;
          EXPECT_EQ(submits[i].args.DmaBufferSegmentId, kApertureSegment);
          const auto address =
              static_cast<uint64_t>(submits[i].args.DmaBufferPhysicalAddress.QuadPart);
          EXPECT_GE(address, segments[kApertureSegment - 1].base_address);
          EXPECT_LT(address, segments[kApertureSegment - 1].base_address +
                                 segments[kApertureSegment - 1].size);
          EXPECT_EQ(address % 4096, 0U);
        }
        EXPECT_GT(paging, 0U);
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.paging_buffer_segment = kApertureSegment;
        miniport.config.auto_complete = true;
      });
}

}  // namespace
}  // namespace dxgkit::contract
