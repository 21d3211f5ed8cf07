// Packets of which no two numbers are alike: a value that is lost, or comes from its neighbour, is
// seen.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract::odd {

inline constexpr uint32_t kNodes = 4, kPagingNode = 2, kNode = 3, kOtherNode = 1;
inline constexpr uint32_t kDmaBytes = 12 * 1024, kPrivateBytes = 208, kPrivateUsed = 40;
inline constexpr uint32_t kPagingBytes = 20 * 1024, kPagingPrivateBytes = 336,
                          kPagingPrivateUsed = 24;

/// Before the start: four nodes, paging on none of the ends, little hidden memory.
inline void driver(ScriptedMiniport& miniport) {
  miniport.config.nodes = kNodes;
  miniport.config.paging_node = kPagingNode;
  miniport.config.dma_buffer_bytes = kDmaBytes;
  miniport.config.dma_private_bytes = kPrivateBytes;
  miniport.config.paging_buffer_bytes = kPagingBytes;
  miniport.config.paging_private_bytes = kPagingPrivateBytes;
  miniport.config.segments[1].size = kMebibyte;
}

/// After the start: render and paging leave private bytes of their own.
inline void use_private_data(Stack& stack) {
  stack.miniport.hooks.render = [&stack](void* context, DXGKARG_RENDER* args) {
    auto* const data = static_cast<std::byte*>(args->pDmaBufferPrivateData);
    const NTSTATUS status = stack.miniport.default_render(context, args);
    std::memset(data, 0x77, kPrivateUsed);
    args->pDmaBufferPrivateData = data + kPrivateUsed;
    return status;
  };
  stack.miniport.hooks.build_paging = [&stack](DXGKARG_BUILDPAGINGBUFFER* args) {
    const NTSTATUS status = stack.miniport.default_build_paging(args);
    if (args->DmaBufferPrivateDataSize < kPagingPrivateUsed) return status;
    std::memset(args->pDmaBufferPrivateData, 0x33, kPagingPrivateUsed);
    args->pDmaBufferPrivateData =
        static_cast<std::byte*>(args->pDmaBufferPrivateData) + kPagingPrivateUsed;
    return status;
  };
}

// What split_work() comes to.
inline constexpr uint32_t kBytes = 1536, kSplit = 640;
inline constexpr uint32_t kListed = 5, kPatches = 7, kFirstPatches = 4, kRestPatches = 3;

/// One DMA buffer in two parts, as `first` and `second` do not fit together; both use `shared`. The
/// second part has two steps, and what has no room is not the first of its step.
inline Work split_work(D3DKMT_HANDLE first, D3DKMT_HANDLE shared, D3DKMT_HANDLE second) {
  Work work;
  work.command_bytes = kBytes;
  work.allocations = {{shared}, {first}, {0, false}, {second}, {shared, false}};
  work.patches = {patch_at(1, 24, 0, 8),  patch_at(0, 48),          patch_at(1, 72),
                  patch_at(4, 96),        patch_at(0, 712, kSplit), patch_at(3, 672, kSplit, 16),
                  patch_at(3, 1104, 1024)};
  return work;
}
/// Its three allocations.
struct Parts {
  explicit Parts(Client& client)
      : first(client.make_allocation(640 * kKibibyte, kHidden)),
        shared(client.make_allocation(64 * kKibibyte, kVisible)),
        second(client.make_allocation(576 * kKibibyte, kHidden)) {}
  D3DKMT_HANDLE first, shared, second;
  Work work() const { return split_work(first, shared, second); }
};

/// Runs what is on the paging node, and what that leads to there.
inline void page(Stack& stack) {
  stack.settle();
  while (stack.miniport.complete_next(kPagingNode)) stack.settle();
}

inline std::vector<testing::SubmitCall> submits(Stack& stack, bool paging) {
  std::vector<testing::SubmitCall> calls = stack.miniport.calls().submits;
  std::erase_if(calls, [&](const auto& call) { return (call.args.Flags.Paging != 0) != paging; });
  return calls;
}
inline std::vector<testing::PatchCall> patches(Stack& stack, bool paging) {
  std::vector<testing::PatchCall> calls = stack.miniport.calls().patches;
  std::erase_if(calls, [&](const auto& call) { return (call.args.Flags.Paging != 0) != paging; });
  return calls;
}
/// Cancelled paging has no lists (CANCEL-20); a packet of a client here always has them.
inline std::vector<testing::CancelCall> cancels(Stack& stack, bool paging) {
  std::vector<testing::CancelCall> calls = stack.miniport.calls().cancels;
  std::erase_if(calls,
                [&](const auto& call) { return (call.args.pAllocationList == nullptr) != paging; });
  return calls;
}

}  // namespace dxgkit::contract::odd
