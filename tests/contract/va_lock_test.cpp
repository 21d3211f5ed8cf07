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

// Work at virtual addresses may write what was listed when it was queued. What has left the list
// since waits for that work, and for none that was queued behind.
TEST_F(VaLockTest, ALockWaitsForWorkThatWasQueuedWhileItWasListed) {
  DXGKIT_COVERS("ALLOC-38");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE other = client.make_allocation(kPage, kMemorySet);
    const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible));
    const uint64_t commands = client.make_mapping(other, 1);
    const auto queue = [&] { ASSERT_EQ(client.submit(client.context, commands, 0), 0); };
    for (int list = 0; list < 3; ++list) {  // lists come and go with work between them
      client.list({other, handle});
      stack.drive();
      queue();
      stack.drive();
      ASSERT_EQ(client.evict({handle}, 0), 0);
      stack.drive();
    }
    client.list({handle});
    stack.drive();
    queue();
    stack.settle();
    ASSERT_EQ(client.evict({handle}, 0), 0);
    queue();
    stack.settle();
    const auto lock_it = [&] {
      D3DKMT_LOCK args = lock_args(handle, kDonotWait);
      return lock_now(client, args);
    };
    EXPECT_EQ(lock_it(), kBusy) << "the first was queued while it was listed";
    ASSERT_TRUE(stack.miniport.complete_next(0));
    stack.settle();
    ASSERT_FALSE(stack.miniport.outstanding(0).empty());
    EXPECT_EQ(lock_it(), 0);
    EXPECT_EQ(unlock(client, {handle}), 0);
    stack.drive();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
