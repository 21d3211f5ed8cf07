// Patched work on a WDDM 1.3 driver: placement, locks, split DMA buffers, offers, sharing.
#include <array>

#include "tests/sweep/story.h"

namespace dxgkit::sweep {
namespace {

using contract::ContextBuffers;
using contract::kKibibyte;
using contract::patch_at;
using contract::Work;
using contract::work_on;

constexpr uint32_t kVisible = 1U << 0, kHidden = 1U << 1, kAperture = 1U << 2;

}  // namespace

void tell_patching(Scene& scene) {
  Stack stack;
  // Two allocations of the story fill a segment.
  stack.miniport.config.segments[0].size = 128 * kKibibyte;
  stack.miniport.config.segments[1].size = 128 * kKibibyte;
  scene.play(stack, [&] {
    Client client(stack);
    const Scene::Mortal mortal(scene, client);
    ContextBuffers context = client.make_context();
    std::array<D3DKMT_HANDLE, 3> hidden{};
    for (D3DKMT_HANDLE& handle : hidden) handle = client.make_allocation(64 * kKibibyte, kHidden);
    const D3DKMT_HANDLE visible = client.make_allocation({.size = 64 * kKibibyte,
                                                          .supported_read = kVisible | kAperture,
                                                          .supported_write = kVisible | kAperture,
                                                          .flags = 1});
    client.render(context, work_on({hidden[0], hidden[1]}));
    stack.drive();
    // The third one evicts; the fourth use splits the buffer, as not all fit at once.
    client.render(context, work_on({hidden[2]}));
    Work work = work_on({hidden[0], hidden[1], hidden[2]});
    for (D3DDDI_PATCHLOCATIONLIST& patch : work.patches) patch.SplitOffset = patch.PatchOffset;
    client.render(context, work);
    void* address = nullptr;
    client.lock(visible, &address);
    client.unlock(visible);
    client.render(context, work_on({visible}));
    client.wait_for_idle();
    client.destroy_allocation(hidden[1]);
    client.destroy_context(context.handle);
  });
}

}  // namespace dxgkit::sweep
