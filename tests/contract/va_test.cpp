// What a mapping does: entries that follow the allocation, in every kind of table.
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::HasSubstr;
using VaTest = GpuVaTest;

TEST_F(VaTest, AResidentAllocationIsReachedThroughItsMapping) {
  DXGKIT_COVERS("VA-04", "VA-26", "VA-27", "VA-45");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE allocation = client.make_allocation(8 * kPage, kMemorySet);
    client.list({allocation});
    stack.drive();
    const uint64_t va = client.make_mapping(allocation, 8);
    ASSERT_NE(va, 0U);
    const auto first = client.walk(va);
    ASSERT_TRUE(first.valid) << first.why;
    EXPECT_EQ(first.place.segment, SegmentId{1});
    EXPECT_TRUE(first.writable);
    for (uint64_t page = 0; page < 8; ++page) {
      const auto walk = client.walk(va + page * kPage + 5);
      ASSERT_TRUE(walk.valid) << walk.why;
      EXPECT_EQ(walk.place.offset, first.place.offset + page * kPage + 5);
    }
    EXPECT_FALSE(client.walk(va + 8 * kPage).valid);
    EXPECT_FALSE(client.walk(va - kPage).valid);
    EXPECT_EQ(client.free_va(va, 8 * kPage), 0);
    EXPECT_FALSE(client.walk(va).valid);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Mapped first, resident later; evicted, and back somewhere else.
TEST_F(VaTest, EntriesFollowResidency) {
  DXGKIT_COVERS("VA-29", "RES-23");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE allocation = client.make_allocation(4 * kPage, kMemorySet);
    const uint64_t va = client.make_mapping(allocation, 4);
    EXPECT_FALSE(client.walk(va).valid);
    client.list({allocation});
    stack.drive();
    ASSERT_TRUE(client.walk(va).valid) << client.walk(va).why;
    EXPECT_TRUE(stack.gpu.write(client.process_handle(), va + 3 * kPage, 0x1234567887654321));
    EXPECT_EQ(client.evict({allocation}), 0);
    stack.drive();
    EXPECT_FALSE(client.walk(va).valid);
    client.list({allocation});
    stack.drive();
    ASSERT_TRUE(client.walk(va).valid);
    EXPECT_EQ(stack.gpu.read(client.process_handle(), va + 3 * kPage), 0x1234567887654321U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Nothing tells the kernel what work at virtual addresses writes. What it wrote the second time it
// was there is as good as what it wrote the first time.
TEST_F(VaTest, WhatWorkWroteIsNeverDropped) {
  DXGKIT_COVERS("RES-15", "VA-29");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE code = client.make_allocation(kPage, kMemorySet);
    const D3DKMT_HANDLE data = client.make_allocation(4 * kPage, kMemorySet);
    client.list({code, data});
    stack.drive();
    const uint64_t at_code = client.make_mapping(code, 1);
    const uint64_t va = client.make_mapping(data, 4);
    for (uint64_t round = 1; round < 4; ++round) {
      ASSERT_TRUE(
          stack.gpu.write(client.process_handle(), at_code,
                          dxgkit::testing::gpu_commands({GpuCommand::write(va + kPage, round)})));
      ASSERT_EQ(client.submit(client.context, at_code, 24), 0);
      stack.drive();
      ASSERT_EQ(client.evict({data}), 0);
      stack.drive();
      EXPECT_FALSE(client.walk(va).valid);
      client.list({data});
      stack.drive();
      EXPECT_EQ(stack.gpu.read(client.process_handle(), va + kPage), round);
    }
    // Its owner knows better, and loses what it said was not there.
    ASSERT_EQ(client.submit(client.context, at_code, 24), 0);
    stack.drive();
    ASSERT_EQ(client.evict({data}, 2), 0);  // NotWrittenTo
    stack.drive();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

TEST_F(VaTest, WorkRunsAtVirtualAddresses) {
  DXGKIT_COVERS("SUB-01", "SUB-30", "SUB-31", "THUNK-18");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE allocation = client.make_allocation(4 * kPage, kMemorySet);
    client.list({allocation});
    stack.drive();
    const uint64_t va = client.make_mapping(allocation, 4);
    ASSERT_TRUE(
        stack.gpu.write(client.process_handle(), va,
                        dxgkit::testing::gpu_commands({GpuCommand::write(va + 2 * kPage, 77)})));
    ASSERT_EQ(client.submit(client.context, va, 64), 0);
    stack.drive();
    EXPECT_EQ(stack.gpu.read(client.process_handle(), va + 2 * kPage), 77U);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    // An address nobody mapped: the device pays, nobody else.
    VaClient other(stack, "other");
    ASSERT_EQ(client.submit(client.context, va + kMebibyte, 64), 0);
    stack.drive();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"VA-28"}) << "and it is said why";
  });
}

}  // namespace
}  // namespace dxgkit::contract
