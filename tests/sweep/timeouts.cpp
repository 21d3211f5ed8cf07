// Engines that hang: what is reset, and who is lost.
#include "tests/contract/tdr_fixture.h"
#include "tests/sweep/story.h"

namespace dxgkit::sweep {
namespace {

using namespace contract;

constexpr int64_t kShort = 20 * runtime::kMillisecond;

void tell_hangs(Scene& scene, Stack& stack) {
  dxgk::TimeoutPolicy policy;
  policy.delay_ns = kShort;
  stack.options.timeouts = policy;
  scene.play(stack, [&] {
    Client other(stack, "other");
    ContextBuffers theirs = other.make_context(1);
    Client client(stack);
    const Scene::Mortal mortal(scene, client);
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE allocation = client.make_allocation();
    client.render(context, work_on({allocation}));
    stack.drive();
    scene.hold(true);
    client.render(context, work_on({allocation}));
    client.render(context, work_on({allocation}));
    other.render(theirs, work_on({}));
    stack.settle();
    pass(5 * kShort);
    scene.hold(false);
    client.state();
    other.state();
    client.render(context, work_on({allocation}));
    // A device made after it works; then its paging hangs.
    Client next(stack, "next");
    ContextBuffers fresh = next.make_context();
    const D3DKMT_HANDLE small = next.make_allocation();
    next.render(fresh, work_on({small}));
    next.wait_for_idle();
    const D3DKMT_HANDLE paged = next.make_allocation();
    scene.hold(true);
    next.render(fresh, work_on({paged}));
    stack.settle();
    pass(5 * kShort);
    scene.hold(false);
    next.state();
    client.wait_for_idle();
  });
}

}  // namespace

void tell_engine_resets(Scene& scene) {
  Stack stack;
  EngineResets resets(stack.miniport);
  tell_hangs(scene, stack);
}

void tell_adapter_resets(Scene& scene) {
  Stack stack;
  tell_hangs(scene, stack);
}

}  // namespace dxgkit::sweep
