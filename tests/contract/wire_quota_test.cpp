// Quotas of a user whose clients are in other processes: memory and packets that have not
// completed. A call over a quota has one exact status, and nothing has changed.
#include <cstring>

#include "tests/contract/elsewhere.h"

namespace dxgkit::contract {
namespace {

using dxgk::ClientQuota;

constexpr uint64_t kPlenty = uint64_t{1} << 30;

std::shared_ptr<ClientQuota> quota_of(uint64_t memory_bytes, uint64_t submissions) {
  return std::make_shared<ClientQuota>(
      ClientQuota::Limits{.memory_bytes = memory_bytes, .submissions = submissions});
}

/// One allocation of system memory; its call.
struct Creation {
  Creation(D3DKMT_HANDLE device, uint64_t bytes) {
    description.size = bytes;
    description.supported_read = description.supported_write = kAperture;
    description.flags = 1;  // CpuVisible
    info.pPrivateDriverData = &description;
    info.PrivateDriverDataSize = sizeof description;
    args.hDevice = device;
    args.NumAllocations = 1;
    args.pAllocationInfo2 = &info;
  }
  ScriptedAllocation description;
  D3DDDI_ALLOCATIONINFO2 info{};
  D3DKMT_CREATEALLOCATION args{};
};

NTSTATUS make_fence(Elsewhere& far, D3DKMT_HANDLE device,
                    D3DKMT_CREATESYNCHRONIZATIONOBJECT2* out) {
  *out = {};
  out->hDevice = device;
  out->Info.Type = D3DDDI_MONITORED_FENCE;
  return far.call("D3DKMTCreateSynchronizationObject2", *out);
}

NTSTATUS render(Elsewhere& far, const D3DKMT_CREATECONTEXT& context) {
  std::memset(context.pCommandBuffer, 0, 64);
  D3DKMT_RENDER args{};
  args.hContext = context.hContext;
  args.CommandLength = 64;
  return far.call("D3DKMTRender", args);
}

struct WireQuotaTest : ContractTest {};

TEST_F(WireQuotaTest, AllocationsOverTheMemoryAreRefused) {
  with_client([](Stack& stack, Client& client) {
    const auto quota = quota_of(3 * kBytes, kPlenty);
    Elsewhere far(client, quota);
    const D3DKMT_HANDLE first = far.make_allocation(kAperture);
    EXPECT_EQ(quota->memory_bytes(), kBytes);
    const size_t handles = client.handles();
    const uint64_t free = stack.machine.free_page_count();
    Creation over(client.device, 2 * kBytes + kPageBytes);
    EXPECT_EQ(far.call("D3DKMTCreateAllocation2", over.args), STATUS_NO_MEMORY);
    EXPECT_EQ(over.info.hAllocation, 0U);
    EXPECT_EQ(quota->memory_bytes(), kBytes);
    EXPECT_EQ(quota->refusals(), 1U);
    EXPECT_EQ(client.handles(), handles);
    EXPECT_EQ(stack.machine.free_page_count(), free);

    Creation fits(client.device, 2 * kBytes);
    EXPECT_EQ(far.call("D3DKMTCreateAllocation2", fits.args), 0);
    EXPECT_EQ(quota->memory_bytes(), 3 * kBytes);
    EXPECT_EQ(far.destroy(first), 0);
    stack.drive();
    EXPECT_EQ(quota->memory_bytes(), 2 * kBytes);
    EXPECT_EQ(far.destroy(fits.info.hAllocation), 0);
    stack.drive();
    EXPECT_EQ(quota->memory_bytes(), 0U);
  });
}

/// What a user's processes have together counts, and what another user has does not.
TEST_F(WireQuotaTest, ProcessesOfAUserShareItsQuota) {
  running([](Stack& stack) {
    Client first(stack), second(stack), stranger(stack);
    const auto quota = quota_of(2 * kBytes, kPlenty), other = quota_of(2 * kBytes, kPlenty);
    Elsewhere one(first, quota), two(second, quota), three(stranger, other);
    one.make_allocation(kAperture);
    two.make_allocation(kAperture);
    Creation over(first.device, kPageBytes);
    EXPECT_EQ(one.call("D3DKMTCreateAllocation2", over.args), STATUS_NO_MEMORY);
    three.make_allocation(kAperture);
    EXPECT_EQ(other->memory_bytes(), kBytes);
    second.end();
    stack.drive();
    EXPECT_EQ(quota->memory_bytes(), kBytes) << "the process has ended";
    EXPECT_EQ(one.call("D3DKMTCreateAllocation2", over.args), 0);
  });
}

TEST_F(WireQuotaTest, PagesOfFencesCount) {
  with_client([](Stack& stack, Client& client) {
    const auto quota = quota_of(kPageBytes, kPlenty);
    Elsewhere far(client, quota);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 first, second;
    ASSERT_EQ(make_fence(far, client.device, &first), 0);
    EXPECT_EQ(quota->memory_bytes(), kPageBytes);
    const size_t handles = client.handles();
    const uint64_t free = stack.machine.free_page_count();
    EXPECT_EQ(make_fence(far, client.device, &second), STATUS_NO_MEMORY);
    EXPECT_EQ(second.hSyncObject, 0U);
    EXPECT_EQ(client.handles(), handles);
    EXPECT_EQ(stack.machine.free_page_count(), free);
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy{.hSyncObject = first.hSyncObject};
    EXPECT_EQ(far.call("D3DKMTDestroySynchronizationObject", destroy), 0);
    EXPECT_EQ(quota->memory_bytes(), 0U);
    EXPECT_EQ(make_fence(far, client.device, &second), 0);
  });
}

TEST_F(WireQuotaTest, BuffersOfContextsCount) {
  with_client([](Stack& stack, Client& client) {
    const auto quota = quota_of(kPlenty, kPlenty);
    Elsewhere far(client, quota);
    D3DKMT_CREATECONTEXT context{};
    context.hDevice = client.device;
    ASSERT_EQ(far.call("D3DKMTCreateContext", context), 0);
    const uint64_t lists = context.AllocationListSize * sizeof(D3DDDI_ALLOCATIONLIST) +
                           context.PatchLocationListSize * sizeof(D3DDDI_PATCHLOCATIONLIST);
    const uint64_t buffers = context.CommandBufferSize + lists;
    EXPECT_EQ(quota->memory_bytes(), buffers);
    EXPECT_EQ(render(far, context), 0);
    EXPECT_GE(quota->memory_bytes(), buffers + context.CommandBufferSize) << "a DMA buffer";
    stack.drive();
    D3DKMT_DESTROYCONTEXT destroy{.hContext = context.hContext};
    EXPECT_EQ(far.call("D3DKMTDestroyContext", destroy), 0);
    stack.drive();
    EXPECT_EQ(quota->memory_bytes(), 0U);

    Client poor(stack);
    const auto little = quota_of(buffers - 1, kPlenty);
    Elsewhere poorly(poor, little);
    const size_t handles = poor.handles();
    D3DKMT_CREATECONTEXT refused{};
    refused.hDevice = poor.device;
    EXPECT_EQ(poorly.call("D3DKMTCreateContext", refused), STATUS_NO_MEMORY);
    EXPECT_EQ(refused.hContext, 0U);
    EXPECT_EQ(poor.handles(), handles);
    EXPECT_EQ(little->memory_bytes(), 0U);
  });
}

/// The copy of a locked allocation counts twice, for both sides have one. The lock itself is not
/// refused: who has the allocation may look at it.
TEST_F(WireQuotaTest, CopiesOfLockedContentCount) {
  with_client([](Stack& stack, Client& client) {
    stack.machine.fix_system_memory();  // so content cannot be given by descriptor
    const auto quota = quota_of(kBytes, kPlenty);
    Elsewhere far(client, quota);
    const D3DKMT_HANDLE allocation = far.make_allocation(kAperture);
    EXPECT_EQ(quota->memory_bytes(), kBytes);
    far.lock(allocation);
    EXPECT_EQ(far.windows->count(), 1U);
    EXPECT_EQ(quota->memory_bytes(), 3 * kBytes);
    far.unlock(allocation);
    EXPECT_EQ(quota->memory_bytes(), kBytes);
  });
}

TEST_F(WireQuotaTest, SubmissionsOverTheDepthAreRefused) {
  with_client([](Stack& stack, Client& client) {
    const auto quota = quota_of(kPlenty, 3);
    Elsewhere far(client, quota);
    D3DKMT_CREATECONTEXT context{};
    context.hDevice = client.device;
    ASSERT_EQ(far.call("D3DKMTCreateContext", context), 0);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence;
    ASSERT_EQ(make_fence(far, client.device, &fence), 0);
    EXPECT_EQ(render(far, context), 0);
    EXPECT_EQ(render(far, context), 0);
    EXPECT_EQ(quota->submissions(), 2U);
    const UINT64 one = 1;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait{};
    wait.hContext = context.hContext;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence.hSyncObject;
    wait.MonitoredFenceValueArray = &one;
    EXPECT_EQ(far.call("D3DKMTWaitForSynchronizationObjectFromGpu", wait), 0);
    EXPECT_EQ(quota->submissions(), 3U);

    const uint64_t memory = quota->memory_bytes();
    const size_t rendered = stack.miniport.count("DxgkDdiRender");
    EXPECT_EQ(render(far, context), STATUS_NO_MEMORY);
    EXPECT_EQ(far.call("D3DKMTWaitForSynchronizationObjectFromGpu", wait), STATUS_NO_MEMORY);
    EXPECT_EQ(stack.miniport.count("DxgkDdiRender"), rendered);
    EXPECT_EQ(quota->submissions(), 3U);
    EXPECT_EQ(quota->memory_bytes(), memory);
    EXPECT_EQ(quota->refusals(), 2U);

    // The CPU's signal queues nothing, and ends the wait.
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal{};
    signal.hDevice = client.device;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence.hSyncObject;
    signal.FenceValueArray = &one;
    EXPECT_EQ(far.call("D3DKMTSignalSynchronizationObjectFromCpu", signal), 0);
    stack.drive();
    EXPECT_EQ(quota->submissions(), 0U);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(render(far, context), 0) << i;
    EXPECT_EQ(render(far, context), STATUS_NO_MEMORY);
    client.end();
    stack.drive();
    EXPECT_EQ(quota->submissions(), 0U) << "the process has ended";
    EXPECT_EQ(quota->memory_bytes(), 0U);
  });
}

/// A broadcast is one packet for each context, and goes to all of them or none.
TEST_F(WireQuotaTest, ABroadcastCountsForEachContext) {
  with_client([](Stack& stack, Client& client) {
    const auto quota = quota_of(kPlenty, 2);
    Elsewhere far(client, quota);
    D3DKMT_CREATECONTEXT contexts[3] = {};
    for (D3DKMT_CREATECONTEXT& one : contexts) {
      one.hDevice = client.device;
      ASSERT_EQ(far.call("D3DKMTCreateContext", one), 0);
    }
    D3DKMT_RENDER args{};
    args.hContext = contexts[0].hContext;
    args.CommandLength = 64;
    args.BroadcastContextCount = 2;
    args.BroadcastContext[0] = contexts[1].hContext;
    args.BroadcastContext[1] = contexts[2].hContext;
    const D3DKMT_RENDER before = args;
    EXPECT_EQ(far.call("D3DKMTRender", args), STATUS_NO_MEMORY);
    EXPECT_EQ(std::memcmp(&args, &before, sizeof args), 0);
    EXPECT_EQ(quota->submissions(), 0U);
    args.BroadcastContextCount = 1;
    EXPECT_EQ(far.call("D3DKMTRender", args), 0);
    EXPECT_EQ(quota->submissions(), 2U);
    stack.drive();
    EXPECT_EQ(quota->submissions(), 0U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
