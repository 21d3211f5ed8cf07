// Starts and stops, with clients inside.
#include "tests/sweep/story.h"

namespace dxgkit::sweep {

using namespace contract;

/// Two starts of one driver; the first adapter stops under its clients' work.
void tell_life(Scene& scene) {
  Stack stack;
  scene.play(stack, [&] {
    Client client(stack);
    const Scene::Mortal mortal(scene, client);
    D3DKMT_ENUMADAPTERS2 enumerate{};
    client.call([&] { return D3DKMTEnumAdapters2(&enumerate); });
    D3DKMT_OPENADAPTERFROMLUID open{};
    open.AdapterLuid.LowPart = stack.luid.low;
    client.call([&] { return D3DKMTOpenAdapterFromLuid(&open); });
    uint64_t data = 0;
    D3DKMT_QUERYADAPTERINFO query{open.hAdapter, KMTQAITYPE_UMDRIVERPRIVATE, &data, sizeof data};
    client.call([&] { return D3DKMTQueryAdapterInfo(&query); });
    const D3DKMT_CLOSEADAPTER close{open.hAdapter};
    client.call([&] { return D3DKMTCloseAdapter(&close); });
    const D3DKMT_HANDLE second = client.make_device();
    ContextBuffers context = client.make_context(), other;
    client.create_context(&other, 1, second);
    const D3DKMT_SETCONTEXTSCHEDULINGPRIORITY priority{context.handle, -2};
    client.call([&] { return D3DKMTSetContextSchedulingPriority(&priority); });
    const D3DKMT_HANDLE allocation = client.make_allocation();
    client.render(context, work_on({allocation}));
    client.destroy_device(second);
    client.render(context, work_on({allocation}));
    stack.settle();
    // It stops with work on hardware, and a client that still holds everything.
    stack.blocking([&] { static_cast<void>(stack.system->stop_adapter(stack.luid)); });
    client.render(context, work_on({allocation}));
    client.wait_for_idle();
    client.destroy_allocation(allocation);
    scene.start_again();
  });
}

}  // namespace dxgkit::sweep
