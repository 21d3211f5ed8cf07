// Content that moves through the paging process's windows, several moves at a time.
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using VaWindowTest = GpuVaTest;

constexpr uint64_t kMoves = 20;

/// Allocations of a page with content that can be told apart, listed and mapped.
struct Pages {
  Pages(GpuVaStack& stack, VaClient& client, uint64_t first) : first_value(first) {
    for (uint64_t i = 0; i < kMoves; ++i)
      allocations.push_back(client.make_allocation(kPage, kMemorySet));
    client.list(allocations);
    stack.drive();
    for (uint64_t i = 0; i < kMoves; ++i) {
      addresses.push_back(client.make_mapping(allocations[i], 1));
      EXPECT_TRUE(stack.gpu.write(client.process_handle(), addresses[i], first + i));
    }
  }
  uint64_t first_value;
  std::vector<D3DKMT_HANDLE> allocations;
  std::vector<uint64_t> addresses;
};

// A window is somebody else's when the hardware has done the move, not when it has been built. The
// CPU writes entries while earlier moves are still queued, so it would pull the window from under
// them. More moves than windows: those wait for their turn.
TEST_F(VaWindowTest, MovesInFlightKeepTheirWindows) {
  DXGKIT_COVERS("PAGE-31");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    Pages here(stack, client, 100);
    ASSERT_EQ(client.evict(here.allocations), 0);
    stack.drive();
    // What takes the same places, so that nothing is right only because it never moved.
    Pages there(stack, client, 500);
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(client.evict(there.allocations), 0);
      stack.drive();
      for (const uint64_t address : there.addresses) EXPECT_FALSE(client.walk(address).valid);
      client.list(here.allocations);
      stack.drive();
      for (uint64_t i = 0; i < kMoves; ++i) {
        EXPECT_EQ(stack.gpu.read(client.process_handle(), here.addresses[i]), here.first_value + i)
            << i;
      }
      std::swap(here, there);
    }
  });
}

}  // namespace
}  // namespace dxgkit::contract
