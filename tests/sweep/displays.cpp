// Screens: modes, owners, flips and presents of a full driver; a display-only driver.
#include "dxgk/displays.h"

#include "tests/contract/flip_fixture.h"
#include "tests/sweep/calls.h"
#include "tests/sweep/story.h"

namespace dxgkit::sweep {
namespace {

using namespace contract;

/// Vertical syncs until `call` has come back, a hundred at most.
void with_vsyncs(Scene& scene, Stack& stack, FlipDriver& driver,
                 const std::function<void()>& call) {
  Stack::Background background(stack, call);
  for (int i = 0; i < 100 && !background.finished(5); ++i) {
    if (scene.device_is_gone() || driver.addresses().empty()) break;
    driver.vsync();
  }
}

}  // namespace

void tell_flips(Scene& scene) {
  Stack stack;
  FlipDriver driver(stack);
  driver.controls = true;
  scene.play(stack, [&] {
    FlipClient client(stack, driver);
    const Scene::Mortal mortal(scene, client);
    for (const size_t next : {1U, 2U, 0U})
      with_vsyncs(scene, stack, driver, [&] { client.flip(client.primaries[next]); });
    client.limit(3, 2);
    client.render(client.context, work_on({client.primaries[1]}));
    with_vsyncs(scene, stack, driver, [&] { client.flip(client.primaries[1]); });
    stack.drive();
    D3DKMT_PRESENT blt{};
    blt.hContext = client.context.handle;
    blt.hSource = client.make_allocation();
    blt.Flags.Blt = 1;
    blt.SrcRect = blt.DstRect = {0, 0, 32, 32};
    with_vsyncs(scene, stack, driver, [&] { client.present(blt); });
    D3DKMT_WAITFORVERTICALBLANKEVENT blank{client.adapter, client.device, 0};
    with_vsyncs(scene, stack, driver,
                [&] { client.call([&] { return D3DKMTWaitForVerticalBlankEvent(&blank); }); });
    D3DKMT_GETSCANLINE line{};
    line.hAdapter = client.adapter;
    client.call([&] { return D3DKMTGetScanLine(&line); });
    D3DKMT_GETSHAREDPRIMARYHANDLE primary{};
    primary.hAdapter = client.adapter;
    client.call([&] { return D3DKMTGetSharedPrimaryHandle(&primary); });
    const D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP check{client.adapter, 0};
    client.call([&] { return D3DKMTCheckVidPnExclusiveOwnership(&check); });
    // Another size, and back to what the kernel shows.
    client.set_display_mode(client.make_primary(32));
    client.disown();
    client.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE);
    client.disown();
    client.destroy_allocation(client.primaries[1]);
    client.wait_for_idle();
  });
}

/// The same driver asleep, and with its monitor unplugged.
void tell_screen_power(Scene& scene) {
  Stack stack;
  FlipDriver driver(stack);
  scene.play(stack, [&] {
    dxgk::Displays displays(*stack.system);
    FlipClient client(stack, driver);
    const Scene::Mortal mortal(scene, client);
    with_vsyncs(scene, stack, driver, [&] { client.flip(client.primaries[1]); });
    for (const dxgk::PowerTarget target : {dxgk::PowerTarget::kD3, dxgk::PowerTarget::kD0,
                                           dxgk::PowerTarget::kHibernate, dxgk::PowerTarget::kD0})
      stack.blocking([&] { static_cast<void>(stack.system->set_power(stack.luid, target)); });
    with_vsyncs(scene, stack, driver, [&] { client.flip(client.primaries[2]); });
    bool connected = false;
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      const DXGKRNL_INTERFACE& kernel = stack.miniport.callbacks();
      DXGK_CHILD_STATUS status{};
      status.Type = StatusConnection;
      status.ChildUid = kTarget;
      status.HotPlug.Connected = connected ? 1 : 0;
      return kernel.DxgkCbIndicateChildStatus(kernel.DeviceHandle, &status);
    };
    for (const bool now : {false, true}) {
      connected = now;
      escape(client);
      static_cast<void>(displays.wait_for_hot_plug(stack.luid));
    }
    stack.miniport.hooks.escape = nullptr;
    port::PointerShape shape;
    shape.width = shape.height = 8;
    shape.pitch_bytes = 32;
    const std::vector<std::byte> pixels(256);
    shape.pixels = pixels;
    static_cast<void>(displays.set_pointer_shape(stack.luid, shape));
    static_cast<void>(displays.set_pointer_position(stack.luid, 0, 3, 4, true));
  });
}

void tell_display_only(Scene& scene) {
  DisplayStack stack;
  stack.display.config.asynchronous = true;
  stack.display.config.caps = [](DXGK_DRIVERCAPS& caps) {
    caps.PointerCaps.Color = 1;
    caps.MaxPointerWidth = caps.MaxPointerHeight = 32;
  };
  scene.play(stack, [&] {
    const auto present = [&](uint32_t seed) {
      if (stack.mode().width != 0) static_cast<void>(stack.present(seed));
    };
    present(1);
    if (stack.mode().width != 0)
      static_cast<void>(stack.present(
          2, {{0, 0, 8, 8}}, {{.source_x = 4, .source_y = 4, .destination = {8, 8, 16, 16}}}));
    const Result<dxgk::DisplayConfiguration> shown = stack.displays.configuration(stack.luid);
    if (shown.has_value() && !shown->sources.empty() && !shown->sources[0].modes.empty())
      static_cast<void>(stack.displays.set_mode(stack.luid, 0, shown->sources[0].modes.back()));
    present(3);
    port::PointerShape shape;
    shape.width = shape.height = 8;
    shape.pitch_bytes = 32;
    const std::vector<std::byte> pixels(256);
    shape.pixels = pixels;
    static_cast<void>(stack.displays.set_pointer_shape(stack.luid, shape));
    static_cast<void>(stack.displays.set_pointer_position(stack.luid, 0, 3, 4, true));
    for (const bool connected : {false, true}) {
      if (!scene.device_is_gone()) stack.display.plug(1, connected);
      static_cast<void>(stack.displays.wait_for_hot_plug(stack.luid));
    }
    present(4);
    static_cast<void>(stack.displays.set_power(stack.luid, port::PowerState::kD3));
    static_cast<void>(stack.displays.set_power(stack.luid, port::PowerState::kD0));
    present(5);
    const Result<vidpn::Network> network = stack.displays.active_network(stack.luid);
    if (network.has_value() && !network->paths.empty())
      static_cast<void>(stack.displays.update_path(stack.luid, network->paths.front()));
    for (const dxgk::PowerTarget target : {dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kD0})
      static_cast<void>(stack.system->set_power(stack.luid, target));
    present(6);
  });
}

}  // namespace dxgkit::sweep
