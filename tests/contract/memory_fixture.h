// What tests of segments, placement and paging operations share.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/exercise.h"
#include "tests/contract/fixture.h"
#include "tests/contract/memory_gpu.h"

namespace dxgkit::contract {

/// What DxgkDdiBuildPagingBuffer was called for so far: of one kind; the kinds, in order.
inline std::vector<testing::PagingCall> operations(Stack& stack,
                                                   DXGK_BUILDPAGINGBUFFER_OPERATION operation) {
  std::vector<testing::PagingCall> calls = stack.miniport.calls().paging;
  std::erase_if(calls, [&](const auto& call) { return call.args.Operation != operation; });
  return calls;
}
inline size_t count(Stack& stack, DXGK_BUILDPAGINGBUFFER_OPERATION operation) {
  return operations(stack, operation).size();
}
inline std::vector<DXGK_BUILDPAGINGBUFFER_OPERATION> order(Stack& stack) {
  std::vector<DXGK_BUILDPAGINGBUFFER_OPERATION> found;
  for (const testing::PagingCall& call : stack.miniport.calls().paging)
    found.push_back(call.args.Operation);
  return found;
}

/// Where the driver was told the allocation is, by a packet that uses it.
inline uint64_t address_after_render(Stack& stack, Client& client, ContextBuffers& context,
                                     D3DKMT_HANDLE allocation) {
  EXPECT_EQ(client.render(context, work_on({allocation})), 0);
  stack.drive();
  return stack.miniport.calls().patches.back().allocations.at(0).physical_address;
}
/// The same by hand: WDDM 2.0 renders what its devices list, and here is none that does.
inline uint64_t address_after_page_in(Stack& stack, Client& client, D3DKMT_HANDLE allocation) {
  vidmm::Placement place;
  stack.blocking([&] {
    const auto placed = dxgk::Exercise::on(*stack.system, stack.luid)
                            ->memory()
                            .page_in(*client.process, allocation);
    ASSERT_TRUE(placed.has_value());
    place = *placed;
  });
  return place.gpu_address;
}
inline dxgk::Exercise exercise(Stack& stack) {
  return std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
}

/// A pattern by seed, and the check for it.
inline void fill(std::byte* memory, uint64_t bytes, uint64_t seed) {
  for (uint64_t i = 0; i < bytes; ++i)
    memory[i] = static_cast<std::byte>((i * 13 + seed * 101) >> (i % 5));
}
inline void expect_filled(const std::byte* memory, uint64_t bytes, uint64_t seed) {
  std::vector<std::byte> wanted(bytes);
  fill(wanted.data(), bytes, seed);
  EXPECT_EQ(std::memcmp(memory, wanted.data(), bytes), 0) << "content of " << seed;
}

}  // namespace dxgkit::contract
