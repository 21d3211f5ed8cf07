// Work that is patched, on a WDDM 1.3 driver: placement, locks, split DMA buffers, offers, sharing.
#include <array>
#include <bit>

#include "tests/contract/sync_fixture.h"
#include "tests/sweep/calls.h"
#include "tests/sweep/story.h"

namespace dxgkit::sweep {
namespace {

using namespace contract;

void offer(Client& client, D3DKMT_HANDLE handle) {
  D3DKMT_OFFERALLOCATIONS args{};
  args.hDevice = client.device;
  args.HandleList = &handle;
  args.NumAllocations = 1;
  args.Priority = D3DKMT_OFFER_PRIORITY_LOW;
  client.call([&] { return D3DKMTOfferAllocations(&args); });
}
void reclaim(Client& client, D3DKMT_HANDLE handle) {
  BOOL lost = 0;
  D3DKMT_RECLAIMALLOCATIONS args{};
  args.hDevice = client.device;
  args.HandleList = &handle;
  args.NumAllocations = 1;
  args.pDiscarded = &lost;
  client.call([&] { return D3DKMTReclaimAllocations(&args); });
}

/// A shared resource of one allocation.
struct Shared {
  D3DKMT_HANDLE resource = 0, allocation = 0, global = 0;
};
Shared create_shared(Client& client, bool by_nt_handle) {
  constexpr UINT kGlobal = 3, kNt = kGlobal | 1U << 6;
  ScriptedAllocation data{.size = 64 * kKibibyte, .flags = 1};
  D3DDDI_ALLOCATIONINFO2 info{};
  info.pPrivateDriverData = &data;
  info.PrivateDriverDataSize = sizeof data;
  D3DKMT_CREATEALLOCATION args{};
  args.hDevice = client.device;
  args.NumAllocations = 1;
  args.pAllocationInfo2 = &info;
  args.Flags = std::bit_cast<D3DKMT_CREATEALLOCATIONFLAGS>(by_nt_handle ? kNt : kGlobal);
  client.call([&] { return D3DKMTCreateAllocation2(&args); });
  return {args.hResource, info.hAllocation, args.hGlobalShare};
}

/// Opens it by its global handle, or by `nt` if that is there; the allocation.
D3DKMT_HANDLE open_shared(Client& client, D3DKMT_HANDLE global, HANDLE nt) {
  std::array<char, 64> runtime{}, resource{};
  std::array<std::byte, sizeof(ScriptedAllocation)> total{};
  D3DDDI_OPENALLOCATIONINFO2 info{};
  if (nt == nullptr) {
    D3DKMT_QUERYRESOURCEINFO query{};
    query.hDevice = client.device;
    query.hGlobalShare = global;
    client.call([&] { return D3DKMTQueryResourceInfo(&query); });
    D3DKMT_OPENRESOURCE args{};
    args.hDevice = client.device;
    args.hGlobalShare = global;
    args.NumAllocations = 1;
    args.pOpenAllocationInfo2 = &info;
    args.pPrivateRuntimeData = runtime.data();
    args.pResourcePrivateDriverData = resource.data();
    args.pTotalPrivateDriverDataBuffer = total.data();
    args.TotalPrivateDriverDataBufferSize = total.size();
    client.call([&] { return D3DKMTOpenResource2(&args); });
    return info.hAllocation;
  }
  D3DKMT_OPENRESOURCEFROMNTHANDLE args{};
  args.hDevice = client.device;
  args.hNtHandle = nt;
  args.NumAllocations = 1;
  args.pOpenAllocationInfo2 = &info;
  args.pPrivateRuntimeData = runtime.data();
  args.pResourcePrivateDriverData = resource.data();
  args.pTotalPrivateDriverDataBuffer = total.data();
  args.TotalPrivateDriverDataBufferSize = total.size();
  client.call([&] { return D3DKMTOpenResourceFromNtHandle(&args); });
  return info.hAllocation;
}

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
    // The third one evicts. Then not all fit at once, so that the buffer is split.
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

void tell_sharing(Scene& scene) {
  Stack stack;
  stack.miniport.config.segments[1].size = 192 * kKibibyte;
  scene.play(stack, [&] {
    Client other(stack, "other");
    ContextBuffers theirs = other.make_context(1);
    Client client(stack);
    const Scene::Mortal mortal(scene, client);
    ContextBuffers context = client.make_context();
    const Shared global = create_shared(client, false), nt = create_shared(client, true);
    SharedHandle handle;
    share(client, {nt.resource}, &handle.handle);
    const D3DKMT_HANDLE opened = open_shared(other, global.global, nullptr);
    D3DKMT_HANDLE opened_nt = 0;
    if (handle.handle != nullptr) opened_nt = open_shared(other, 0, handle.handle);
    handle.close();
    client.render(context, work_on({global.allocation, nt.allocation}));
    other.render(theirs, work_on({opened, opened_nt}));
    stack.drive();
    escape(client);

    const D3DKMT_HANDLE offered = client.make_allocation(64 * kKibibyte, kHidden);
    client.render(context, work_on({offered}));
    offer(client, offered);
    stack.drive();
    const D3DKMT_HANDLE large = client.make_allocation(192 * kKibibyte, kHidden);
    client.render(context, work_on({large}));
    stack.drive();
    reclaim(client, offered);
    const UINT high = 0xA000'0000;
    D3DKMT_SETALLOCATIONPRIORITY priority{};
    priority.hDevice = client.device;
    priority.phAllocationList = &offered;
    priority.AllocationCount = 1;
    priority.pPriorities = &high;
    client.call([&] { return D3DKMTSetAllocationPriority(&priority); });
    client.render(context, work_on({offered, global.allocation}));
    other.render(theirs, work_on({opened}));
    D3DKMT_DESTROYALLOCATION2 destroy{};
    destroy.hDevice = client.device;
    destroy.hResource = global.resource;
    client.call([&] { return D3DKMTDestroyAllocation2(&destroy); });
    // The process ends with its work in flight.
    client.render(context, work_on({large}));
  });
}

}  // namespace dxgkit::sweep
