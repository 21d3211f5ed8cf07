// What a debugger shows of a process that stands still: in a simulation it does between two calls.
#include "dxgk/debug_text.h"

#include <d3dkmthk.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "dxgkit/stack.h"
#include "miniports/softgpu/softgpu_umd.h"

namespace dxgkit {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(DebugText, ShowsAdaptersWorkAndAllocations) {
  StackOptions options;
  options.mode = Mode::kSimulation;
  options.devices = {"softgpu"};
  EXPECT_STREQ(dxgkit_debug_text(1), "nothing\n");
  bool ran = false;
  const auto outcome = Stack::run(options, [&](Stack& stack) {
    const Expected<std::string> path = bundled_driver("softgpu");
    ASSERT_TRUE(path.has_value());
    const Expected<Driver*> driver = stack.load(*path);
    ASSERT_TRUE(driver.has_value());
    const Expected<AdapterId> adapter = stack.start(**driver);
    ASSERT_TRUE(adapter.has_value());
    EXPECT_THAT(
        dxgkit_debug_text(1),
        MatchesRegex("adapter 0:1: 0 devices, 0 contexts, [0-9]+ allocations?\n"
                     "  node 0: 0 on hardware, submitted [0-9]+, completed [0-9]+\n"
                     "  node 1: 0 on hardware, submitted [0-9]+, completed [0-9]+\n"
                     "  segment 1: [0-9]+ of [0-9]+ bytes are free, [0-9]+ allocations?\n"
                     "  segment 2: [0-9]+ of [0-9]+ bytes are free, [0-9]+ allocations?\n"));
    EXPECT_STREQ(dxgkit_debug_text(2), "adapter 0:1\n");
    EXPECT_STREQ(dxgkit_debug_text(3), "adapter 0:1\n");
    EXPECT_STREQ(dxgkit_debug_text(4), "nothing\n");
    const auto client = stack.make_client("client");
    {
      const ClientProcess::Attach attach(*client);
      D3DKMT_OPENADAPTERFROMLUID open{};
      open.AdapterLuid.LowPart = adapter->low;
      open.AdapterLuid.HighPart = adapter->high;
      ASSERT_EQ(D3DKMTOpenAdapterFromLuid(&open), 0);
      D3DKMT_CREATEDEVICE device{};
      device.hAdapter = open.hAdapter;
      ASSERT_EQ(D3DKMTCreateDevice(&device), 0);
      EXPECT_THAT(dxgkit_debug_text(1), HasSubstr("adapter 0:1: 1 device, 0 contexts, "));
      D3DKMT_CREATECONTEXT context{};
      context.hDevice = device.hDevice;
      ASSERT_EQ(D3DKMTCreateContext(&context), 0);
      SgpuUmdAllocation wanted{};
      wanted.magic = SGPU_UMD_ALLOCATION_MAGIC;
      wanted.version = SGPU_UMD_VERSION;
      wanted.placement = SGPU_UMD_PLACE_STAGING;
      wanted.size_bytes = 4096;
      D3DDDI_ALLOCATIONINFO info{};
      info.pPrivateDriverData = &wanted;
      info.PrivateDriverDataSize = sizeof(wanted);
      D3DKMT_CREATEALLOCATION allocation{};
      allocation.hDevice = device.hDevice;
      allocation.NumAllocations = 1;
      allocation.pAllocationInfo = &info;
      ASSERT_EQ(D3DKMTCreateAllocation(&allocation), 0);
      EXPECT_EQ(
          std::string(dxgkit_debug_text(3)),
          fmt::format("adapter 0:1\n  allocation 0x{:X}: 4096 bytes in system memory, used by "
                      "0 packets, locked 0 times\n",
                      info.hAllocation));
      // A wait that nobody ends holds what is submitted behind it.
      D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence{};
      fence.hDevice = device.hDevice;
      fence.Info.Type = D3DDDI_MONITORED_FENCE;
      ASSERT_EQ(D3DKMTCreateSynchronizationObject2(&fence), 0);
      const UINT64 value = 7;
      D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait{};
      wait.hContext = context.hContext;
      wait.ObjectCount = 1;
      wait.ObjectHandleArray = &fence.hSyncObject;
      wait.MonitoredFenceValueArray = &value;
      ASSERT_EQ(D3DKMTWaitForSynchronizationObjectFromGpu(&wait), 0);
      SgpuUmdBufferHeader header{};
      header.magic = SGPU_UMD_BUFFER_MAGIC;
      header.version = SGPU_UMD_VERSION;
      header.size_bytes = sizeof(header) + sizeof(SgpuUmdFill);
      SgpuUmdFill fill{};
      fill.header.opcode = SGPU_UMD_OP_FILL;
      fill.header.size_bytes = sizeof(fill);
      fill.size_bytes = 4096;
      std::memcpy(context.pCommandBuffer, &header, sizeof(header));
      std::memcpy(static_cast<char*>(context.pCommandBuffer) + sizeof(header), &fill, sizeof(fill));
      context.pAllocationList[0] = {};
      context.pAllocationList[0].hAllocation = info.hAllocation;
      context.pAllocationList[0].WriteOperation = 1;
      D3DKMT_RENDER render{};
      render.hContext = context.hContext;
      render.CommandLength = header.size_bytes;
      render.AllocationCount = 1;
      ASSERT_EQ(D3DKMTRender(&render), 0);
      EXPECT_EQ(std::string(dxgkit_debug_text(2)),
                fmt::format("adapter 0:1\n  context 0x{:X} of process \"client\": 2 packets\n",
                            context.hContext));
      EXPECT_THAT(dxgkit_debug_text(4), HasSubstr(" to reach 7, which is at 0; could signal it: "));
    }
    ran = true;
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_TRUE(ran);
  EXPECT_STREQ(dxgkit_debug_text(1), "nothing\n") << "a system that is gone is not shown";
  for (const int none : {-1, 0, 5})
    EXPECT_STREQ(dxgkit_debug_text(none), "1: adapters, 2: packets, 3: allocations, 4: waits\n");
}

}  // namespace
}  // namespace dxgkit
