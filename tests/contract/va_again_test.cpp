// Virtual submissions that come again, the private parts of paging, and faults that have no address
// to explain.
#include <bit>
#include <cstring>

#include "dxgk/adapter/adapter.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using VaAgainTest = GpuVaTest;
using dxgkit::testing::VirtualSubmitCall;

std::vector<VirtualSubmitCall> submits_of(GpuVaStack& stack, bool paging) {
  std::vector<VirtualSubmitCall> calls = stack.gpu.calls().submits;
  std::erase_if(calls, [&](const auto& call) { return (call.args.Flags.Paging != 0) != paging; });
  return calls;
}

/// A client with a resident page that holds an empty command buffer.
uint64_t commands_of(GpuVaStack& stack, VaClient& client) {
  const D3DKMT_HANDLE code = client.make_allocation(kPage, kMemorySet);
  client.list({code});
  stack.drive();
  const uint64_t va = client.make_mapping(code, 1);
  EXPECT_TRUE(stack.gpu.write(client.process_handle(), va, dxgkit::testing::gpu_commands({})));
  return va;
}

// Preempted before it was done, a packet comes again with a new fence, and says that it does.
TEST_F(VaAgainTest, WhatWasPreemptedSaysThatItComesAgain) {
  DXGKIT_COVERS("SUB-25", "SUB-26");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const uint64_t va = commands_of(stack, client);
    const D3DKMT_HANDLE high = client.make_context_virtual();
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY lower{};
    lower.hContext = client.context;
    lower.Priority = -1;
    ASSERT_EQ(client.call([&] { return D3DKMTSetContextSchedulingPriority(&lower); }), 0);
    stack.gpu.clear_calls();
    for (int i = 0; i < 2; ++i) ASSERT_EQ(client.submit(client.context, va, 24), 0);
    ASSERT_EQ(client.submit(high, va, 24), 0);
    stack.settle();
    const std::vector<VirtualSubmitCall> before = submits_of(stack, false);
    ASSERT_EQ(before.size(), 2U);
    const auto preempts = stack.miniport.calls().preempts;
    ASSERT_EQ(preempts.size(), 1U);
    stack.miniport.preempted(0, preempts[0].PreemptionFenceId, before[0].args.SubmissionFenceId);
    stack.drive();
    const std::vector<VirtualSubmitCall> after = submits_of(stack, false);
    ASSERT_EQ(after.size(), 4U);
    const UINT again[] = {0, 0, 0, 1};
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(after[i].args.Flags.Resubmission, again[i]) << i;
    EXPECT_EQ(after[3].args.hContext, before[1].args.hContext);
    EXPECT_GT(after[3].args.SubmissionFenceId, preempts[0].PreemptionFenceId);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// A driver that uses private data per paging operation is given back just the part of each
// submission: parts follow each other, and nothing is told twice.
TEST_F(VaAgainTest, EachPagingSubmissionHasItsPrivatePart) {
  DXGKIT_COVERS("PAGE-06", "SUB-32");
  constexpr uint32_t kUsed = 24;
  running(
      [](GpuVaStack& stack) {
        uint64_t used = 0, told = 0, following = 0;
        const std::byte* end = nullptr;
        stack.gpu.on_build = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
          const NTSTATUS status = stack.gpu.default_build(args);
          if (args->pDmaBuffer == nullptr || args->DmaBufferPrivateDataSize < kUsed) return status;
          auto* const data = static_cast<std::byte*>(args->pDmaBufferPrivateData);
          std::memset(data, 0x5A, kUsed);
          args->pDmaBufferPrivateData = data + kUsed;
          used += kUsed;
          return status;
        };
        stack.gpu.on_submit = [&](const DXGKARG_SUBMITCOMMANDVIRTUAL* args) {
          if (args->Flags.Paging != 0) {
            const auto* const data = static_cast<const std::byte*>(args->pDmaBufferPrivateData);
            following += data == end ? 1 : 0;
            end = data + args->DmaBufferPrivateDataSize;
            told += args->DmaBufferPrivateDataSize;
            for (const std::byte* one = data; one != end; ++one) EXPECT_EQ(*one, std::byte{0x5A});
          }
          return stack.gpu.default_submit_virtual(args);
        };
        VaClient client(stack);
        const D3DKMT_HANDLE pages[] = {client.make_allocation(kPage, kMemorySet),
                                       client.make_allocation(kPage, kMemorySet),
                                       client.make_allocation(kPage, kMemorySet)};
        // Each asks for pages before what the one before asked for has run.
        for (const D3DKMT_HANDLE page : pages)
          EXPECT_EQ(client.make_resident({page}), kPendingStatus);
        stack.drive();
        EXPECT_EQ(told, used);
        EXPECT_GT(following, 0U) << "several from one buffer";
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        stack.gpu.on_build = nullptr;
        stack.gpu.on_submit = nullptr;
      },
      [](GpuVaStack& stack) { stack.miniport.config.paging_private_bytes = 1000; });
}

DXGKARGCB_NOTIFY_INTERRUPT_DATA page_fault(uint32_t node, uint32_t fence, uint64_t address,
                                           uint32_t code = 0) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  std::memset(&data, 0, sizeof data);
  data.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
  data.DmaPageFaulted.FaultedFenceId = fence;
  data.DmaPageFaulted.NodeOrdinal = node;
  data.DmaPageFaulted.FaultedVirtualAddress = address;
  data.DmaPageFaulted.FaultErrorCode = std::bit_cast<DXGK_FAULT_ERROR_CODE>(code);
  return data;
}

// An address is explained unless a general code says that something else went wrong.
TEST_F(VaAgainTest, FaultsOfAnotherKindHaveNoAddressToExplain) {
  DXGKIT_COVERS("VA-28", "INT-19");
  struct Row {
    const char* name;
    uint32_t code;
    bool explained;
  };
  for (const Row& row : {Row{"page fault", 0, true}, Row{"a general error", 3U << 1, false},
                         Row{"a code of the device", 3U << 1 | 1U, true}}) {
    SCOPED_TRACE(row.name);
    running(GpuVaConfig::gpu_physical_four_level(), [&](GpuVaStack& stack) {
      VaClient client(stack);
      const uint64_t va = commands_of(stack, client);
      ASSERT_EQ(client.submit(client.context, va, 24), 0);
      stack.settle();
      const uint32_t fence = stack.miniport.outstanding(0).at(0);
      stack.miniport.retire(0, fence);
      stack.miniport.raise(page_fault(0, fence, 0x0BAD'0000, row.code));
      stack.settle();
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
      EXPECT_EQ(stack.rules(),
                row.explained ? std::vector<std::string>{"VA-28"} : std::vector<std::string>{});
      stack.drive();
    });
  }
}

// What a device is told of its page fault is the first.
TEST_F(VaAgainTest, TheFirstPageFaultOfADeviceStays) {
  DXGKIT_COVERS("INT-19", "THUNK-28");
  running(GpuVaConfig::gpu_physical_four_level(), [](GpuVaStack& stack) {
    VaClient client(stack);
    const uint64_t va = commands_of(stack, client);
    const D3DKMT_HANDLE other = client.make_context_virtual(1);
    ASSERT_EQ(client.submit(client.context, va, 24), 0);
    ASSERT_EQ(client.submit(other, va, 24), 0);
    stack.settle();
    for (const uint32_t node : {1U, 0U}) {
      const uint32_t fence = stack.miniport.outstanding(node).at(0);
      stack.miniport.retire(node, fence);
      stack.miniport.raise(page_fault(node, fence, 0x0BAD'0000 + node * kPage));
      stack.settle();
    }
    D3DKMT_GETDEVICESTATE ask{};
    ask.hDevice = client.device;
    ask.StateType = D3DKMT_DEVICESTATE_PAGE_FAULT;
    ASSERT_EQ(client.call([&] { return D3DKMTGetDeviceState(&ask); }), 0);
    EXPECT_EQ(ask.PageFaultState.FaultedVirtualAddress, 0x0BAD'0000 + kPage);
    stack.drive();
  });
}

}  // namespace
}  // namespace dxgkit::contract
