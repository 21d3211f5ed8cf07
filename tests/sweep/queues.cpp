// Hardware queues and native fences.
#include "tests/contract/hw_fixture.h"
#include "tests/contract/native_fixture.h"
#include "tests/contract/sync_fixture.h"
#include "tests/sweep/story.h"

namespace dxgkit::sweep {

using namespace contract;

namespace {

/// An engine writes the value through the first opening, if it still leads anywhere.
void signal_by_engine(const Scene& scene, NativeStack& stack, uint64_t value) {
  if (scene.device_is_gone() || stack.native->openings.empty()) return;
  testing::ScriptedNativeOpening& opening = *stack.native->openings[0];
  if (opening.gone) return;
  if (!stack.gpu.walk(opening.process, opening.args.CurrentValueGpuVa).valid) return;
  static_cast<void>(stack.native->signal(opening, value));
}

}  // namespace

void tell_hw_queues(Scene& scene) {
  HwStack stack(GpuVaConfig::gpu_physical_four_level());
  scene.play(stack, [&] {
    HwClient other(stack, "other");
    ClientQueue theirs = other.make_hw_queue();
    other.write({GpuCommand::write(other.va + kPage, 3)});
    HwClient client(stack);
    client.write({GpuCommand::write(client.va + kPage, 7)});
    const Scene::Mortal mortal(scene, client);
    ClientQueue first = client.make_hw_queue();
    ClientQueue second = client.make_hw_queue(client.make_hw_context(1));
    const MonitoredFence fence = create_fence(client, 0);
    client.submit(first);
    client.submit(second);
    other.submit(theirs);
    stack.drive();
    client.wait(second, fence.handle, 1);
    client.submit(second);
    client.submit(first);
    client.signal(first, fence.handle, 1);
    stack.drive();
    const D3DKMT_SETCONTEXTSCHEDULINGPRIORITY priority{first.context, -3};
    client.call([&] { return D3DKMTSetContextSchedulingPriority(&priority); });
    // What the queues use moves away and back while they have work.
    client.submit(first);
    client.evict({client.memory});
    client.make_resident({client.memory});
    stack.drive();
    client.submit(client.context, client.va, sizeof(GpuCommand));
    client.submit(second);
    stack.settle();
    client.destroy_hw_queue(second.handle);
    client.destroy_hw_context(second.context);
    other.submit(theirs);
    client.submit(first);
    client.wait_for_idle();
  });
  // Without what a fault took, addresses lead nowhere.
  if (scene.striker.has_struck()) stack.hw.faults = 0;
}

void tell_native_fences(Scene& scene) {
  NativeStack stack;
  scene.play(stack, [&] {
    VaClient other(stack, "other");
    VaClient client(stack);
    const Scene::Mortal mortal(scene, client);
    D3DKMT_CREATENATIVEFENCE create{};
    create.hDevice = client.device;
    create.Info.Flags.Value = sync_flag::kNt;
    client.call([&] { return D3DKMTCreateNativeFence(&create); });
    stack.drive();
    SharedHandle handle;
    share(client, {create.hSyncObject}, &handle.handle);
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE open{};
    open.hNtHandle = handle.handle;
    open.hDevice = other.device;
    if (handle.handle != nullptr)
      other.call([&] { return D3DKMTOpenNativeFenceFromNtHandle(&open); });
    handle.close();
    stack.drive();
    {
      Stack::Background waits(stack, [&] { client.wait_cpu(create.hSyncObject, 5); });
      Stack::Background waits_too(stack, [&] { other.wait_cpu(open.hSyncObject, 9); });
      static_cast<void>(waits.finished(5));
      // An engine signals it, and then the processors.
      signal_by_engine(scene, stack, 5);
      client.wait_gpu({.handle = client.context}, create.hSyncObject, 9);
      client.submit(client.context, 0, 0);
      client.signal_cpu(create.hSyncObject, 9);
      other.signal_cpu(open.hSyncObject, 9);
      stack.drive();
    }
    client.signal_gpu({.handle = client.context}, create.hSyncObject, 12);
    stack.drive();
    destroy_sync(other, open.hSyncObject);
    destroy_sync(client, create.hSyncObject);
    stack.drive();
  });
}

}  // namespace dxgkit::sweep
