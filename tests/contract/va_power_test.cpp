// Page tables across sleep: what the memory forgets is made again before anything is paged.
#include "dxgk/adapter/adapter.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

class VaPowerTest : public GpuVaTest {
 protected:
  /// Standby, during which segments forget, and back.
  static void sleep_and_wake(GpuVaStack& stack) {
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
      if (state == PowerDeviceD3) stack.gpu.lose_power();
      return STATUS_SUCCESS;
    };
    for (const dxgk::PowerTarget target : {dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kD0}) {
      Status status = Status::kSuccess;
      stack.blocking([&] {
        const auto done = stack.system->set_power(stack.luid, target);
        if (!done.has_value()) status = done.error();
      });
      ASSERT_EQ(status, Status::kSuccess) << ::testing::PrintToString(stack.rules());
    }
    stack.miniport.hooks.set_power_state = nullptr;
    stack.drive();
  }
};

TEST_F(VaPowerTest, MappingsAndContentComeBack) {
  DXGKIT_COVERS("PAGE-02", "VA-29", "VA-06");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    VaClient other(stack, "other");
    const D3DKMT_HANDLE a = client.make_allocation(600 * kPage, kMemorySet);
    const D3DKMT_HANDLE away = client.make_allocation(kPage, kMemorySet);
    const D3DKMT_HANDLE theirs = other.make_allocation(kPage, kMemorySet);
    client.list({a});
    other.list({theirs});
    stack.drive();
    const uint64_t va = client.make_mapping(a, 600);
    const uint64_t nowhere = client.make_mapping(away, 1);
    const uint64_t at_theirs = other.make_mapping(theirs, 1);
    for (uint64_t page = 0; page < 600; page += 50)
      ASSERT_TRUE(stack.gpu.write(client.process_handle(), va + page * kPage, page + 1));
    ASSERT_TRUE(stack.gpu.write(other.process_handle(), at_theirs,
                                dxgkit::testing::gpu_commands({GpuCommand::read(at_theirs)})));
    for (int round = 0; round < 2; ++round) {
      sleep_and_wake(stack);
      if (HasFatalFailure()) return;
      // Lists are taken back as they are used.
      ASSERT_EQ(client.submit(client.context, va + 599 * kPage, 0), 0);
      ASSERT_EQ(other.submit(other.context, at_theirs, 24), 0);
      stack.drive();
      ASSERT_TRUE(client.walk(va).valid) << client.walk(va).why;
      for (uint64_t page = 0; page < 600; page += 50)
        EXPECT_EQ(stack.gpu.read(client.process_handle(), va + page * kPage), page + 1);
      EXPECT_FALSE(client.walk(nowhere).valid);
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      EXPECT_TRUE(stack.gpu.faults().empty());
    }
    // And go on changing.
    EXPECT_EQ(client.free_va(va, 600 * kPage), 0);
    EXPECT_FALSE(client.walk(va).valid);
    EXPECT_NE(client.make_mapping(a, 10), 0U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
