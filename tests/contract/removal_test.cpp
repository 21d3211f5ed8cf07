// Surprise removal: what the driver is told, and what is cleaned up without it.
#include <cstring>
#include <optional>

#include "tests/contract/power_fixture.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

using dxgk::PowerTarget;
using testing::PagingGpu;
using RemovalTest = ContractTest;

void pull_out(Stack& stack) {
  stack.miniport.forget_outstanding();
  stack.machine.pull_out(stack.miniport.function());
}

// The driver is told at once, beside a DDI that is still running; clients get an error, software is
// cleaned up in the order of a stop, and nothing is leaked.
TEST_F(RemovalTest, SurpriseRemovalTellsTheDriverAndCleansUpInSoftware) {
  DXGKIT_COVERS("LIFE-21", "LIFE-18");
  running(
      [](Stack& stack) {
        PagingGpu gpu(stack.miniport, stack.machine);
        ListingClient client(stack);
        ContextBuffers context = client.make_context();
        Tagged one(stack, gpu, client, 64 * kKibibyte, kHidden);
        ASSERT_TRUE(is_success(from_ntstatus(client.make_resident({one.handle()}))));
        stack.drive();
        one.write(context, 1);
        ASSERT_EQ(client.render(context, work_on({one.handle()})), 0);
        stack.settle();
        ASSERT_FALSE(stack.miniport.outstanding(0).empty());
        std::optional<DXGK_SURPRISE_REMOVAL_TYPE> type;
        bool inside = false, beside = false;
        stack.miniport.hooks.notify_surprise_removal = [&](DXGK_SURPRISE_REMOVAL_TYPE given) {
          type = given;
          beside = inside;
          return nt_status(Status::kSuccess);
        };
        stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
          inside = true;
          runtime::Runtime::current().sleep_for(runtime::kMillisecond);
          inside = false;
          return nt_status(Status::kSuccess);
        };
        stack.miniport.clear_calls();
        Stack::Background escaping(stack, [&] {
          uint32_t data = 0;
          D3DKMT_ESCAPE escape{};
          escape.hAdapter = client.adapter;
          escape.hDevice = client.device;
          escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
          escape.pPrivateDriverData = &data;
          escape.PrivateDriverDataSize = sizeof(data);
          client.call([&] { return D3DKMTEscape(&escape); });
        });
        EXPECT_FALSE(escaping.finished(2));
        pull_out(stack);
        stack.blocking(
            [&] { EXPECT_EQ(stack.system->remove_adapter(stack.luid), Status::kSuccess); });
        escaping.finish();
        ASSERT_TRUE(type.has_value());
        EXPECT_EQ(*type, DxgkRemovalPnPNotify);
        EXPECT_TRUE(beside);
        const std::vector<std::string> order = stack.miniport.calls().order;
        EXPECT_EQ(order.back(), "DxgkDdiRemoveDevice");
        EXPECT_EQ(stack.miniport.count("DxgkDdiStopDevice"), 1U);
        const auto told = std::ranges::find(order, "DxgkDdiNotifySurpriseRemoval");
        EXPECT_EQ(std::find(told, order.end(), "DxgkDdiBuildPagingBuffer"), order.end());
        EXPECT_EQ(std::find(told, order.end(), "DxgkDdiSubmitCommand"), order.end());
        EXPECT_NE(std::find(told, order.end(), "DxgkDdiDestroyAllocation"), order.end());
        EXPECT_EQ(client.render(context, work_on({one.handle()})),
                  nt_status(Status::kDeviceRemoved));
        EXPECT_EQ(client.wait_for_idle(), nt_status(Status::kDeviceRemoved));
        EXPECT_EQ(stack.miniport.live_objects(), 0U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        EXPECT_EQ(stack.system->set_power(stack.luid, PowerTarget::kD0).error(),
                  Status::kInvalidParameter);
        stack.miniport.hooks = {};
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportSurpriseRemoval = TRUE; };
      });
}

// Pulled out asleep: seen on the way up; the driver hears the other type, and no D0.
TEST_F(RemovalTest, RemovalInHibernationIsSeenOnTheWayUp) {
  DXGKIT_COVERS("LIFE-21");
  running(
      [](Stack& stack) {
        const auto told = listen(stack);
        std::optional<DXGK_SURPRISE_REMOVAL_TYPE> type;
        stack.miniport.hooks.notify_surprise_removal = [&](DXGK_SURPRISE_REMOVAL_TYPE given) {
          type = given;
          return nt_status(Status::kSuccess);
        };
        Client client(stack);
        go(stack, PowerTarget::kHibernate);
        pull_out(stack);
        go(stack, PowerTarget::kD0, Status::kDeviceRemoved);
        stack.blocking(
            [&] { EXPECT_EQ(stack.system->remove_adapter(stack.luid), Status::kSuccess); });
        ASSERT_TRUE(type.has_value());
        EXPECT_EQ(*type, DxgkRemovalHibernation);
        ASSERT_EQ(told->size(), 1U) << "no way to D0";
        EXPECT_EQ(stack.miniport.calls().order.back(), "DxgkDdiRemoveDevice");
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        stack.miniport.hooks = {};
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.caps = [](DXGK_DRIVERCAPS& caps) {
          caps.SupportSurpriseRemovalInHibernation = TRUE;
        };
      });
}

// A driver that does not support it is not called, and is stopped all the same; one that fails too.
TEST_F(RemovalTest, WithoutSupportTheDriverIsStoppedUntold) {
  DXGKIT_COVERS("LIFE-21");
  for (const bool fails : {false, true}) {
    running(
        [&](Stack& stack) {
          stack.miniport.hooks.notify_surprise_removal = [](DXGK_SURPRISE_REMOVAL_TYPE) {
            return nt_status(Status::kUnsuccessful);
          };
          pull_out(stack);
          stack.blocking(
              [&] { EXPECT_EQ(stack.system->remove_adapter(stack.luid), Status::kSuccess); });
          EXPECT_EQ(stack.miniport.count("DxgkDdiNotifySurpriseRemoval"), fails ? 1U : 0U);
          EXPECT_EQ(stack.only_finding().rule, "LIFE-21");
          EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kWarning);
          EXPECT_EQ(stack.miniport.calls().order.back(), "DxgkDdiRemoveDevice");
          stack.miniport.hooks = {};
        },
        [&](ScriptedMiniport& miniport) {
          miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
          miniport.config.caps = [fails](DXGK_DRIVERCAPS& caps) {
            caps.SupportSurpriseRemoval = fails ? TRUE : FALSE;
          };
        });
  }
}

// Registers of a function that was pulled out read all ones; a driver that still asks them after
// the notice is told, by DDI.
TEST_F(RemovalTest, AccessesAfterTheNoticeAreViolations) {
  DXGKIT_COVERS("LIFE-22");
  running(
      [](Stack& stack) {
        void* registers = stack.machine.map_io(stack.miniport.function().bars()[0].base, 4096);
        ASSERT_NE(registers, nullptr);
        uint64_t value = 0;
        stack.miniport.hooks.notify_surprise_removal = [&](DXGK_SURPRISE_REMOVAL_TYPE) {
          static_cast<void>(stack.machine.read_register(registers, 4));  // did not know yet
          return nt_status(Status::kSuccess);
        };
        stack.miniport.hooks.stop_device = [&] {
          value = stack.machine.read_register(registers, 4);
          stack.machine.write_register(registers, 4, 1);
          return nt_status(Status::kSuccess);
        };
        pull_out(stack);
        stack.blocking(
            [&] { EXPECT_EQ(stack.system->remove_adapter(stack.luid), Status::kSuccess); });
        EXPECT_EQ(value, 0xFFFFFFFFU);
        EXPECT_EQ(stack.only_finding().rule, "LIFE-22");
        EXPECT_EQ(stack.only_finding().ddi, "DxgkDdiStopDevice");
        EXPECT_TRUE(stack.only_finding().actual.starts_with("2 "));
        EXPECT_TRUE(stack.machine.unmap_io(registers, 4096));
        stack.miniport.hooks = {};
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportSurpriseRemoval = TRUE; };
      });
}

}  // namespace
}  // namespace dxgkit::contract
