// Sleep under work, power that fails, components that rest.
#include "tests/contract/power_fixture.h"
#include "tests/sweep/calls.h"
#include "tests/sweep/story.h"

namespace dxgkit::sweep {
namespace {

using namespace contract;
using dxgk::PowerTarget;

}  // namespace

void tell_sleep(Scene& scene) {
  Stack stack;
  preserve(stack.miniport, 0, {.standby = true});
  preserve(stack.miniport, 1, {.standby = true, .partially = true, .end = 64 * kKibibyte});
  scene.play(stack, [&] {
    Client client(stack);
    const Scene::Mortal mortal(scene, client);
    ContextBuffers context = client.make_context(), second = client.make_context(1);
    const D3DKMT_HANDLE visible = client.make_allocation(64 * kKibibyte, kVisible),
                        hidden = client.make_allocation(64 * kKibibyte, kHidden),
                        mapped = client.make_allocation(64 * kKibibyte, kAperture);
    for (const PowerTarget target :
         {PowerTarget::kD3, PowerTarget::kStandby, PowerTarget::kHibernate}) {
      client.render(context, work_on({visible, hidden}));
      client.render(second, work_on({mapped}));
      stack.settle();
      static_cast<void>(go(stack, target));
      // A call that waits for the adapter to be awake.
      Stack::Background rendering(stack, [&] { client.render(context, work_on({hidden})); });
      static_cast<void>(rendering.finished(5));
      static_cast<void>(go(stack, PowerTarget::kD0));
    }
    // Power fails with work on hardware: its device is lost.
    client.render(context, work_on({hidden}));
    stack.settle();
    stack.blocking([&] {
      static_cast<void>(stack.system->power_failed(stack.luid, PowerTarget::kHibernate));
    });
    stack.miniport.forget_outstanding();  // also what came while power failed
    static_cast<void>(go(stack, PowerTarget::kD0));
    client.state();
    client.render(context, work_on({hidden}));
    client.wait_for_idle();
  });
}

/// Runtime power management; the driver completes its transitions itself.
void tell_components(Scene& scene) {
  Stack stack;
  ScriptedMiniport& miniport = stack.miniport;
  describe_components(miniport, true);
  miniport.hooks.set_power_component_f_state = [&miniport](UINT component, UINT) {
    miniport.callbacks().DxgkCbCompleteFStateTransition(miniport.callbacks().DeviceHandle,
                                                        component);
    return nt_status(Status::kSuccess);
  };
  scene.play(stack, [&] {
    Client client(stack);
    const Scene::Mortal mortal(scene, client);
    ContextBuffers context = client.make_context(0), second = client.make_context(1);
    const D3DKMT_HANDLE allocation = client.make_allocation(64 * kKibibyte, kHidden);
    client.render(context, work_on({allocation}));
    stack.settle();
    client.render(second, work_on({allocation}));
    client.wait_for_idle();
    stack.settle();
    bool active = true;
    miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      const DXGKRNL_INTERFACE& kernel = miniport.callbacks();
      (active ? kernel.DxgkCbSetPowerComponentActive : kernel.DxgkCbSetPowerComponentIdle)(
          kernel.DeviceHandle, 0);
      return nt_status(Status::kSuccess);
    };
    for (const bool now : {true, false}) {
      active = now;
      escape(client);
      stack.settle();
    }
    miniport.hooks.escape = nullptr;
    static_cast<void>(go(stack, PowerTarget::kD3));
    static_cast<void>(go(stack, PowerTarget::kD0));
    client.render(context, work_on({allocation}));
    client.wait_for_idle();
  });
}

}  // namespace dxgkit::sweep
