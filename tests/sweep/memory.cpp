// What is resident, and what the CPU sees of it.
#include "tests/contract/lock_fixture.h"
#include "tests/contract/res_fixture.h"
#include "tests/sweep/story.h"

namespace dxgkit::sweep {
namespace {

using namespace contract;

constexpr NTSTATUS kPending = nt_status(Status::kPending);

void on_trim(D3DKMT_TRIMNOTIFICATION*) {}

void* register_trim(Client& client) {
  D3DKMT_REGISTERTRIMNOTIFICATION args{};
  args.AdapterLuid.LowPart = client.stack.luid.low;
  args.AdapterLuid.HighPart = client.stack.luid.high;
  args.hDevice = client.device;
  args.Callback = on_trim;
  client.call([&] { return D3DKMTRegisterTrimNotification(&args); });
  return args.Handle;
}

}  // namespace

/// WDDM 2.0: lists, budgets, paging queues and their fences.
void tell_residency(Scene& scene) {
  Stack stack;
  explicit_residency(stack.miniport);
  scene.play(stack, [&] {
    ListingClient other(stack, "other");
    const D3DKMT_HANDLE theirs = other.make(6);
    other.make_resident({theirs});
    ListingClient client(stack);
    const Scene::Mortal mortal(scene, client);
    void* const trim = register_trim(client);
    const Queue second = client.make_queue(1);
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE a = client.make(4), b = client.make(4), c = client.make(8);
    NTSTATUS status = 0;
    const UINT64 first = client.make_resident({a, b}, &status).PagingFenceValue;
    if (status == kPending) client.wait_gpu(context, client.queue.fence, first);
    client.render(context, work_on({a, b}));
    stack.drive();
    client.memory();
    // More than fits: something of this client or the other one leaves.
    client.make_resident({c}, &status, kNoFlags, second.handle);
    client.evict({a});
    const UINT64 next =
        client.make_resident({c}, &status, cant_trim(), second.handle).PagingFenceValue;
    if (status == kPending) client.wait_cpu(second.fence, next);
    client.render(context, work_on({c}));
    client.evict({b});
    client.evict({b});
    other.make_resident({theirs});
    stack.drive();
    D3DKMT_CHANGEVIDEOMEMORYRESERVATION reserve{};
    reserve.hAdapter = client.adapter;
    reserve.MemorySegmentGroup = D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL;
    reserve.Reservation = 4 * kUnit;
    client.call([&] { return D3DKMTChangeVideoMemoryReservation(&reserve); });
    D3DKMT_OFFERALLOCATIONS offer{};
    offer.hDevice = client.device;
    offer.HandleList = &c;
    offer.NumAllocations = 1;
    offer.Priority = D3DKMT_OFFER_PRIORITY_NORMAL;
    client.call([&] { return D3DKMTOfferAllocations(&offer); });
    stack.drive();
    D3DDDI_RECLAIM_RESULT result{};
    D3DKMT_RECLAIMALLOCATIONS2 reclaim{};
    reclaim.hPagingQueue = client.queue.handle;
    reclaim.NumAllocations = 1;
    reclaim.HandleList = &c;
    reclaim.pResults = &result;
    client.call([&] { return D3DKMTReclaimAllocations2(&reclaim); });
    D3DKMT_UNREGISTERTRIMNOTIFICATION end_trim{trim, on_trim};
    client.call([&] { return D3DKMTUnregisterTrimNotification(&end_trim); });
    client.wait_for_idle();
    client.destroy_queue(second.handle);
    client.destroy_allocation(a);
  });
}

/// Locks through a CPU host aperture, in the second model.
void tell_host_aperture(Scene& scene) {
  Stack stack;
  HostAperture::prepare(stack.miniport);
  scene.play(stack, [&] {
    Client client(stack);
    const Scene::Mortal mortal(scene, client);
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE one = client.make_allocation(described(kVisible | kAperture));
    const D3DKMT_HANDLE two = client.make_allocation(described(kVisible | kAperture));
    for (const D3DKMT_HANDLE handle : {one, two}) {
      client.list({handle});
      client.render(context, work_on({handle}));
      stack.drive();
    }
    void* address = nullptr;
    client.lock(one, &address);
    client.lock(two, &address);  // the aperture has too few pages: it leaves
    client.render(context, work_on({one, two}));
    client.unlock(two);
    client.unlock(one);
    client.lock(two, &address);
    client.destroy_allocation(two, 2);
    D3DKMT_INVALIDATECACHE invalidate{client.device, one, 0, 4096};
    client.call([&] { return D3DKMTInvalidateCache(&invalidate); });
    client.wait_for_idle();
  });
}

/// Locks through swizzling ranges, and without them, below it.
void tell_swizzling(Scene& scene) {
  Stack stack;
  Swizzler driver(stack);
  Swizzler::prepare(stack.miniport);
  scene.play(stack, [&] {
    Client client(stack);
    const Scene::Mortal mortal(scene, client);
    ContextBuffers context = client.make_context();
    std::vector<D3DKMT_HANDLE> handles;
    for (int i = 0; i < 3; ++i) {
      handles.push_back(client.make_allocation(described(kVisible | kAperture)));
      client.render(context, work_on({handles.back()}));
      stack.drive();
    }
    // Two ranges for three allocations: the third takes the first one's, which is unlocked by then.
    for (const D3DKMT_HANDLE handle : handles) {
      D3DKMT_LOCK args = lock_args(handle, kAcquireAperture);
      lock(client, args);
      if (handle == handles[0]) unlock(client, {handle});
    }
    unlock(client, {handles[1], handles[2]});
    D3DKMT_LOCK discard = lock_args(handles[0], kDiscard | kLockEntire);
    lock(client, discard);
    client.render(context, work_on({handles[1]}));
    unlock(client, {discard.hAllocation});
    D3DKMT_LOCK busy = lock_args(handles[1], kDonotWait);
    lock(client, busy);
    unlock(client, {handles[1]});
    client.wait_for_idle();
  });
}

}  // namespace dxgkit::sweep
