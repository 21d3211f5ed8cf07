// Fences, semaphores, mutexes: on the GPU, on the CPU, between processes.
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/contract/sync_fixture.h"
#include "tests/sweep/story.h"

namespace dxgkit::sweep {
namespace {

using namespace contract;

void acquire(Client& client, D3DKMT_HANDLE mutex, uint64_t key) {
  LARGE_INTEGER timeout{};
  timeout.QuadPart = -10'000;  // a millisecond
  D3DKMT_ACQUIREKEYEDMUTEX2 args{};
  args.hKeyedMutex = mutex;
  args.Key = key;
  args.pTimeout = &timeout;
  client.call([&] { return D3DKMTAcquireKeyedMutex2(&args); });
}
void release(Client& client, D3DKMT_HANDLE mutex, uint64_t key) {
  D3DKMT_RELEASEKEYEDMUTEX2 args{};
  args.hKeyedMutex = mutex;
  args.Key = key;
  client.call([&] { return D3DKMTReleaseKeyedMutex2(&args); });
}
/// A signal of the old kind behind the context's work.
void signal_old(Client& client, D3DKMT_HANDLE context, D3DKMT_HANDLE object) {
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 args{};
  args.hContext = context;
  args.ObjectCount = 1;
  args.ObjectHandleArray[0] = object;
  client.call([&] { return D3DKMTSignalSynchronizationObject2(&args); });
}
void wait_old(Client& client, D3DKMT_HANDLE context, D3DKMT_HANDLE object) {
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 args{};
  args.hContext = context;
  args.ObjectCount = 1;
  args.ObjectHandleArray[0] = object;
  client.call([&] { return D3DKMTWaitForSynchronizationObject2(&args); });
}

}  // namespace

void tell_synchronization(Scene& scene) {
  Stack stack;
  scene.play(stack, [&] {
    Client other(stack, "other");
    ContextBuffers theirs = other.make_context(1);
    Client client(stack);
    const Scene::Mortal mortal(scene, client);
    ContextBuffers first = client.make_context(0), second = client.make_context(1);
    const MonitoredFence fence = create_fence(client, sync_flag::kNt);
    SharedHandle handle;
    share(client, {fence.handle}, &handle.handle);
    MonitoredFence opened;
    if (handle.handle != nullptr) opened = open_fence(other, handle.handle);
    handle.close();
    const D3DKMT_HANDLE semaphore = client.make_sync(D3DDDI_SEMAPHORE, 0, 4);
    const D3DKMT_HANDLE mutex = client.make_sync(D3DDDI_SYNCHRONIZATION_MUTEX);
    const D3DKMT_HANDLE allocation = client.make_allocation();

    // The second context, and the other process, go on when the first has worked.
    client.wait_gpu(second, fence.handle, 1);
    client.render(second, work_on({allocation}));
    other.wait_gpu(theirs, opened.handle, 1);
    other.render(theirs, work_on({}));
    client.render(first, work_on({allocation}));
    client.signal_gpu(first, fence.handle, 1);
    {
      Stack::Background waits(stack, [&] { client.wait_cpu(fence.handle, 1); });
      stack.drive();
      client.signal_cpu(fence.handle, 2);  // should the GPU's signal have failed
    }
    signal_old(client, first.handle, semaphore);
    wait_old(client, second.handle, semaphore);
    wait_old(client, second.handle, mutex);
    client.render(second, work_on({}));
    signal_old(client, second.handle, mutex);
    const int event = eventfd(0, EFD_NONBLOCK);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 told{};
    told.hContext = second.handle;
    told.Flags.EnqueueCpuEvent = 1;
    told.CpuEventHandle = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
    client.call([&] { return D3DKMTSignalSynchronizationObject2(&told); });
    stack.drive();
    close(event);

    D3DKMT_CREATEKEYEDMUTEX2 create{};
    create.InitialValue = 5;
    client.call([&] { return D3DKMTCreateKeyedMutex2(&create); });
    D3DKMT_OPENKEYEDMUTEX2 open{};
    open.hSharedHandle = create.hSharedHandle;
    other.call([&] { return D3DKMTOpenKeyedMutex2(&open); });
    acquire(client, create.hKeyedMutex, 5);
    acquire(other, open.hKeyedMutex, 6);
    release(client, create.hKeyedMutex, 6);
    acquire(other, open.hKeyedMutex, 6);

    // Two waits that a signal of the CPU ends, and one that the end of the object ends.
    {
      Stack::Background waits(stack, [&] { client.wait_cpu(fence.handle, 7); });
      Stack::Background waits_too(stack, [&] { other.wait_cpu(opened.handle, 7); });
      client.wait_gpu(first, fence.handle, 7);
      client.render(first, work_on({allocation}));
      stack.drive();
      client.signal_cpu(fence.handle, 7);
      other.signal_cpu(opened.handle, 7);
    }
    client.wait_gpu(first, fence.handle, 9);
    client.render(first, work_on({}));
    destroy_sync(client, fence.handle);
    other.signal_cpu(opened.handle, 9);
    destroy_sync(client, semaphore);
    client.destroy_context(second.handle);
  });
}

}  // namespace dxgkit::sweep
