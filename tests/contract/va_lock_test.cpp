// CPU access beside GPU virtual addresses: what a reset does to windows, where no operation tells.
#include <cstring>

#include "dxgk/exercise.h"
#include "tests/contract/lock_fixture.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

class VaLockTest : public GpuVaTest {};

TEST_F(VaLockTest, AResetTakesPagesOfAHostApertureBack) {
  DXGKIT_COVERS("TDR-24", "TDR-28", "ALLOC-41");
  for (const bool hang : {false, true}) {
    running(
        [hang](GpuVaStack& stack) {
          VaClient client(stack);
          HostAperture::mapped.clear();
          HostAperture::unmapped.clear();
          const D3DKMT_HANDLE handle = client.make_allocation(described(kHidden | kAperture));
          client.list({handle});
          stack.drive();
          void* address = nullptr;
          ASSERT_EQ(client.lock(handle, &address), 0);
          ASSERT_EQ(HostAperture::mapped.size(), 1U);
          EXPECT_EQ(HostAperture::mapped[0][0], 2U);
          auto* text = static_cast<char*>(address);
          std::memcpy(text, "in the window", 14);
          const auto reset = stack.miniport.hooks.reset_from_timeout;
          size_t before = 99;
          stack.miniport.hooks.reset_from_timeout = [&] {
            if (before == 99) before = HostAperture::unmapped.size();
            return reset();
          };
          if (hang) {
            ASSERT_EQ(client.submit(client.context, kPage, 0), 0);
            runtime::Runtime::current().sleep_for(10 * runtime::kSecond);
          } else {
            stack.blocking([&] {
              EXPECT_EQ(dxgk::Exercise::on(*stack.system, stack.luid)->reset_losing_content(),
                        Status::kSuccess);
            });
          }
          stack.miniport.hooks.reset_from_timeout = reset;
          EXPECT_EQ(before, 0U);
          EXPECT_EQ(HostAperture::unmapped.size(), 1U);
          EXPECT_STREQ(text, "") << "of the backing pages";
          EXPECT_EQ(client.unlock(handle), 0);
          EXPECT_EQ(HostAperture::unmapped.size(), 1U);
        },
        [](GpuVaStack& stack) {
          ScriptedMiniport& miniport = stack.miniport;
          miniport.config.table = [table = miniport.config.table](DRIVER_INITIALIZATION_DATA& out) {
            if (table) table(out);
            HostAperture::lend_entries(out);
          };
          HostAperture::of_segment(miniport, 1, 32 * kMebibyte);
        });
  }
}

// Work at virtual addresses uses what its device lists. What is not listed is idle.
TEST_F(VaLockTest, WhatIsNotListedIsNotWaitedFor) {
  DXGKIT_COVERS("ALLOC-38", "RES-01");
  for (const bool listed : {false, true}) {
    SCOPED_TRACE(listed);
    running(GpuVaConfig::gpu_physical_four_level(), [listed](GpuVaStack& stack) {
      VaClient client(stack);
      const D3DKMT_HANDLE handle = client.make_allocation(described(kHidden | kAperture));
      const D3DKMT_HANDLE code = client.make_allocation(kPage, kMemorySet);
      client.list({code});
      if (listed) client.list({handle});
      stack.drive();
      const uint64_t va = client.make_mapping(code, 1);
      ASSERT_TRUE(stack.gpu.write(client.process_handle(), va, dxgkit::testing::gpu_commands({})));
      ASSERT_EQ(client.submit(client.context, va, 24), 0);
      stack.settle();
      D3DKMT_LOCK args = lock_args(handle, kDonotWait);
      EXPECT_EQ(lock_now(client, args), listed ? kBusy : 0);
      if (!listed) {
        EXPECT_EQ(unlock(client, {handle}), 0);
      }
      stack.drive();
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
