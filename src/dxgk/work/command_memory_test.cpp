// Buffers that a client fills: zero when new, and replaced as a whole.
#include "dxgk/work/command_memory.h"

#include <gtest/gtest.h>

namespace dxgkit::dxgk {
namespace {

TEST(CommandMemory, IsNullBeforeItIsAllocated) {
  const CommandMemory memory;
  EXPECT_EQ(memory.buffers().command, nullptr);
  EXPECT_EQ(memory.buffers().allocation_count, 0U);
}

TEST(CommandMemory, NewBuffersAreZeroAndHaveTheSizesAskedFor) {
  CommandMemory memory;
  ASSERT_EQ(memory.allocate(64, 3, 5), Status::kSuccess);
  memory.buffers().command[0] = std::byte{7};
  memory.buffers().allocations[2].handle = 9;
  ASSERT_EQ(memory.allocate(128, 4, 6), Status::kSuccess);
  const ClientBuffers& buffers = memory.buffers();
  EXPECT_EQ(buffers.command_bytes, 128U);
  EXPECT_EQ(buffers.allocation_count, 4U);
  EXPECT_EQ(buffers.patch_count, 6U);
  EXPECT_EQ(buffers.command[0], std::byte{0});
  EXPECT_EQ(buffers.allocations[2].handle, 0U);
}

}  // namespace
}  // namespace dxgkit::dxgk
