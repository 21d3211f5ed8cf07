// Power components: when they are active, and what drivers may ask of them.
#include <utility>

#include "tests/contract/power_fixture.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

using dxgk::PowerTarget;
using testing::PagingGpu;
using PowerComponentTest = ContractTest;

struct Transition {
  UINT component = 0, f_state = 0;
  bool operator==(const Transition&) const = default;
};

// Engines rest while their nodes have no work and are up before the driver is asked to work; memory
// with any of them; a provider before whom it provides for.
TEST_F(PowerComponentTest, ComponentsAreActiveWhileTheirEnginesHaveWork) {
  DXGKIT_COVERS("PWR-12", "PWR-14");
  for (const bool driver_completes : {false, true}) {
    std::vector<Transition> made;
    std::vector<bool> up(4, true);
    bool worked_asleep = false;
    running(
        [&](Stack& stack) {
          stack.settle();
          for (UINT i = 0; i < 4; ++i) EXPECT_FALSE(up[i]) << i << " rests after the start";
          {
            Client client(stack);
            ContextBuffers context = client.make_context(0);
            const D3DKMT_HANDLE allocation = client.make_allocation(64 * kKibibyte, kHidden);
            stack.miniport.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND* args) {
              worked_asleep = worked_asleep || !up[args->NodeOrdinal] || !up[2];
              return stack.miniport.default_submit(args);
            };
            made.clear();
            ASSERT_EQ(client.render(context, work_on({allocation})), 0);
            stack.settle();
            EXPECT_TRUE(up[1]) << "the copy engine pages in";
            EXPECT_TRUE(up[3]) << "and needs its provider";
            stack.drive();
            EXPECT_EQ(client.wait_for_idle(), 0);
            stack.settle();
            for (UINT i = 0; i < 4; ++i) EXPECT_FALSE(up[i]) << i;
            const auto first = [&](Transition one) { return std::ranges::find(made, one); };
            EXPECT_LT(first({3, 0}), first({1, 0}));
            EXPECT_NE(first({0, 0}), made.end());
            EXPECT_NE(first({0, 2}), made.end()) << "the deepest state";
            EXPECT_NE(first({2, 1}), made.end());
            EXPECT_LT(first({1, 2}), first({3, 2}));
            stack.miniport.hooks.submit = nullptr;
          }
          EXPECT_FALSE(worked_asleep);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          stack.blocking([&] { static_cast<void>(stack.system->stop_adapter(stack.luid)); });
          stack.miniport.hooks = {};
        },
        [&](ScriptedMiniport& miniport) {
          describe_components(miniport, driver_completes);
          miniport.hooks.set_power_component_f_state = [&, driver_completes](UINT component,
                                                                             UINT f_state) {
            made.push_back({component, f_state});
            up[component] = f_state == 0;
            if (driver_completes) {
              miniport.callbacks().DxgkCbCompleteFStateTransition(miniport.callbacks().DeviceHandle,
                                                                  component);
            }
            return nt_status(Status::kSuccess);
          };
        });
  }
}

// A packet that goes in parts is work until its last part is done.
TEST_F(PowerComponentTest, AnEngineStaysUpBetweenThePartsOfAPacket) {
  DXGKIT_COVERS("PWR-12", "PWR-14");
  bare([](Stack& stack) {
    std::vector<bool> up(4, true);
    describe_components(stack.miniport, false);
    stack.miniport.hooks.set_power_component_f_state = [&](UINT component, UINT f_state) {
      up[component] = f_state == 0;
      return nt_status(Status::kSuccess);
    };
    stack.options.verifier.set(dxgk::VerifierSwitch::kTakeSplitPoint);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      Client client(stack);
      ContextBuffers context = client.make_context(0);
      const D3DKMT_HANDLE one = client.make_allocation(64 * kKibibyte, kHidden);
      const D3DKMT_HANDLE two = client.make_allocation(64 * kKibibyte, kHidden);
      ASSERT_EQ(client.render(context, work_on({one, two})), 0);
      stack.drive();
      EXPECT_FALSE(up[0]);
      Work work = work_on({one});
      work.command_bytes = 768;
      work.allocations.push_back({two});
      work.patches.push_back(patch_at(1, 528, 512));
      ASSERT_EQ(client.render(context, work), 0);
      stack.settle();
      ASSERT_EQ(stack.statistics().splits, 1U);
      EXPECT_TRUE(up[0]);
      ASSERT_TRUE(stack.miniport.complete_next(0)) << "the first part";
      stack.settle();
      ASSERT_EQ(stack.miniport.outstanding(0).size(), 1U) << "the rest";
      EXPECT_TRUE(up[0]);
      stack.drive();
      EXPECT_FALSE(up[0]);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    stack.blocking([&] { static_cast<void>(stack.system->stop_adapter(stack.luid)); });
    stack.miniport.hooks = {};
  });
}

// What waits in a queue for a fence is no work of the engine.
TEST_F(PowerComponentTest, AnEngineRestsWhileItsQueueWaitsForAFence) {
  DXGKIT_COVERS("PWR-12", "PWR-14");
  bare([](Stack& stack) {
    std::vector<bool> up(4, true);
    describe_components(stack.miniport, false);
    stack.miniport.hooks.set_power_component_f_state = [&](UINT component, UINT f_state) {
      up[component] = f_state == 0;
      return nt_status(Status::kSuccess);
    };
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      Client client(stack);
      ContextBuffers context = client.make_context(0), other = client.make_context(0);
      const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_FENCE);
      stack.drive();
      ASSERT_EQ(client.wait_gpu(context, fence, 1), 0);
      stack.settle();
      EXPECT_FALSE(up[0]);
      ASSERT_EQ(client.signal_gpu(other, fence, 1), 0);
      stack.settle();
      EXPECT_FALSE(up[0]) << "nor is a signal";
      const D3DKMT_HANDLE used = client.make_allocation(64 * kKibibyte, kHidden);
      ASSERT_EQ(client.render(context, work_on({used})), 0);
      stack.settle();
      while (stack.miniport.complete_next(1)) stack.settle();  // paging
      EXPECT_TRUE(up[0]) << "the packet behind the wait is";
      stack.drive();
      EXPECT_FALSE(up[0]);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    stack.blocking([&] { static_cast<void>(stack.system->stop_adapter(stack.luid)); });
    stack.miniport.hooks = {};
  });
}

// Without the capability nobody asks for components or moves one.
TEST_F(PowerComponentTest, WithoutTheCapabilityThereAreNoComponents) {
  DXGKIT_COVERS("PWR-12");
  running([](Stack& stack) {
    EXPECT_EQ(stack.miniport.count("DxgkDdiSetPowerComponentFState"), 0U);
    for (const testing::QueryCall& query : stack.miniport.calls().queries) {
      EXPECT_NE(query.args.Type, DXGKQAITYPE_NUMPOWERCOMPONENTS);
      EXPECT_NE(query.args.Type, DXGKQAITYPE_POWERCOMPONENTINFO);
    }
  });
}

// What the driver calls back for components: active holds one up, idle lets it go; an index it
// never reported, a completion nobody waits for, and activating inside a transition are violations.
TEST_F(PowerComponentTest, CallbacksForComponentsAreChecked) {
  DXGKIT_COVERS("PWR-12", "PWR-13");
  std::vector<bool> up(4, true);
  bool activate_inside = false;
  running(
      [&](Stack& stack) {
        const DXGKRNL_INTERFACE& dxgk = stack.miniport.callbacks();
        const HANDLE device = dxgk.DeviceHandle;
        stack.settle();
        EXPECT_FALSE(up[3]);
        const auto inside_a_ddi = [&](const std::function<void()>& body) {
          stack.miniport.hooks.query_current_fence = [&](DXGKARG_QUERYCURRENTFENCE* args) {
            body();
            return stack.miniport.default_query_current_fence(args);
          };
          stack.adapter().core().lane().run([&] {
            static_cast<void>(
                stack.adapter().core().port().submission().query_current_fence(NodeOrdinal{0}));
          });
          stack.miniport.hooks.query_current_fence = nullptr;
          stack.settle();
        };
        inside_a_ddi([&] { dxgk.DxgkCbSetPowerComponentActive(device, 3); });
        EXPECT_TRUE(up[3]);
        inside_a_ddi([&] { dxgk.DxgkCbSetPowerComponentIdle(device, 3); });
        EXPECT_FALSE(up[3]);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        inside_a_ddi([&] { dxgk.DxgkCbSetPowerComponentActive(device, 4); });
        EXPECT_EQ(stack.only_finding().rule, "PWR-12");
        inside_a_ddi([&] { dxgk.DxgkCbCompleteFStateTransition(device, 3); });
        EXPECT_EQ(stack.findings.count("PWR-12"), 2U);
        activate_inside = true;
        inside_a_ddi([&] { dxgk.DxgkCbSetPowerComponentActive(device, 3); });
        EXPECT_EQ(stack.findings.count("PWR-13"), 1U);
        EXPECT_TRUE(stack.adapter().core().running());
        stack.blocking([&] { static_cast<void>(stack.system->stop_adapter(stack.luid)); });
        stack.miniport.hooks = {};
      },
      [&](ScriptedMiniport& miniport) {
        describe_components(miniport, false);
        miniport.hooks.set_power_component_f_state = [&](UINT component, UINT f_state) {
          up[component] = f_state == 0;
          if (std::exchange(activate_inside, false)) {
            miniport.callbacks().DxgkCbSetPowerComponentActive(miniport.callbacks().DeviceHandle,
                                                               component);
          }
          return nt_status(Status::kSuccess);
        };
      });
}

// Around device states a component that asks for it is in F0, the others rest, and none moves while
// the device is off.
TEST_F(PowerComponentTest, DeviceStatesTakeComponentsAlong) {
  DXGKIT_COVERS("PWR-12");
  std::vector<bool> up(4, true);
  bool off = false, moved_off = false;
  running(
      [&](Stack& stack) {
        std::vector<bool> seen;
        stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
          if (state != PowerDeviceD0) seen = up;
          off = state != PowerDeviceD0;
          return nt_status(Status::kSuccess);
        };
        go(stack, PowerTarget::kStandby);
        EXPECT_EQ(seen, (std::vector<bool>{true, false, false, false}));
        stack.settle();
        go(stack, PowerTarget::kD0);
        stack.settle();
        EXPECT_EQ(up, (std::vector<bool>{false, false, false, false}));
        EXPECT_FALSE(moved_off);
        stack.blocking([&] { static_cast<void>(stack.system->stop_adapter(stack.luid)); });
        stack.miniport.hooks = {};
      },
      [&](ScriptedMiniport& miniport) {
        describe_components(miniport, false);
        miniport.hooks.set_power_component_f_state = [&](UINT component, UINT f_state) {
          moved_off = moved_off || off;
          up[component] = f_state == 0;
          return nt_status(Status::kSuccess);
        };
      });
}

}  // namespace
}  // namespace dxgkit::contract
