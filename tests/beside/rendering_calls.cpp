// Calls on an adapter that patches: devices, contexts, allocations, resources, synchronisation.
#include <bit>
#include <cstring>

#include "tests/beside/calls.h"

namespace dxgkit::beside {
namespace {

using namespace contract;

ScriptedAllocation visible() { return {.flags = 1}; }

/// A shared resource with one allocation; its global handle, or with `nt` its own one.
D3DKMT_HANDLE make_shared(World& world, bool nt) {
  D3DDDI_ALLOCATIONINFO2 info{};
  ScriptedAllocation data = visible();
  info.pPrivateDriverData = &data;
  info.PrivateDriverDataSize = sizeof data;
  D3DKMT_CREATEALLOCATION args{};
  args.hDevice = world.client->device;
  args.NumAllocations = 1;
  args.pAllocationInfo2 = &info;
  args.Flags = std::bit_cast<D3DKMT_CREATEALLOCATIONFLAGS>(nt ? 0x43U : 3U);
  EXPECT_EQ(world.client->call([&] { return D3DKMTCreateAllocation2(&args); }), 0);
  return nt ? args.hResource : args.hGlobalShare;
}

template <typename Opening>
void room_for_one(World& world, Opening* args) {
  args->hDevice = world.client->device;
  args->NumAllocations = 1;
  args->pOpenAllocationInfo2 = world.keep(std::vector<D3DDDI_OPENALLOCATIONINFO2>(1));
  args->pTotalPrivateDriverDataBuffer =
      world.keep(std::vector<std::byte>(sizeof(ScriptedAllocation)));
  args->TotalPrivateDriverDataBufferSize = sizeof(ScriptedAllocation);
}

/// Closed when the world ends.
HANDLE keep_shared(World& world, D3DKMT_HANDLE object) {
  auto& shared =
      *world.keep(std::vector<std::shared_ptr<SharedHandle>>{std::make_shared<SharedHandle>()});
  EXPECT_EQ(share(*world.client, {object}, &shared->handle), 0);
  return shared->handle;
}

std::vector<D3DKMT_HANDLE> one(D3DKMT_HANDLE handle) { return {handle}; }

template <typename Args>
Args on_device(const World& world) {
  Args args{};
  args.hDevice = world.client->device;
  return args;
}

template <typename Args>
void list_of_one(World& world, Args* args, D3DKMT_HANDLE allocation) {
  args->hDevice = world.client->device;
  args->phAllocationList = world.keep(one(allocation));
  args->AllocationCount = 1;
  world.destroys_allocation(allocation);
}

void create_allocation(World& world, UINT count) {
  std::vector<D3DDDI_ALLOCATIONINFO> infos(count);
  for (D3DDDI_ALLOCATIONINFO& info : infos) {
    info.pPrivateDriverData = world.keep(std::vector<ScriptedAllocation>(1));
    info.PrivateDriverDataSize = sizeof(ScriptedAllocation);
  }
  auto args = on_device<D3DKMT_CREATEALLOCATION>(world);
  args.NumAllocations = count;
  args.pAllocationInfo = world.keep(std::move(infos));
  world.calls(D3DKMTCreateAllocation, args);
}

template <typename Function, typename Args>
void legacy(World& world, Function* function, Args args, D3DDDI_SYNCHRONIZATIONOBJECT_TYPE type) {
  const ContextBuffers context = world.client->make_context();
  const D3DKMT_HANDLE object = world.client->make_sync(type, 1, 2);
  args.hContext = context.handle;
  args.ObjectCount = 1;
  args.ObjectHandleArray[0] = object;
  world.calls(function, args);
  world.destroys_context(context.handle);
}

template <typename Function, typename Args>
void from_cpu(World& world, Function* function, Args args) {
  const D3DKMT_HANDLE object = world.client->make_sync(D3DDDI_MONITORED_FENCE);
  args.hDevice = world.client->device;
  args.ObjectCount = 1;
  args.ObjectHandleArray = world.keep(one(object));
  args.FenceValueArray = world.keep(std::vector<UINT64>{5});
  world.calls(function, args);
  world.destroys_sync(object);
}

template <typename Function, typename Args>
void from_gpu(World& world, Function* function, Args args) {
  const ContextBuffers context = world.client->make_context();
  args.hContext = context.handle;
  args.ObjectCount = 1;
  args.ObjectHandleArray = world.keep(one(world.client->make_sync(D3DDDI_MONITORED_FENCE)));
  args.MonitoredFenceValueArray = world.keep(std::vector<UINT64>{5});
  world.calls(function, args);
  world.destroys_context(context.handle);
}

template <typename Function, typename Args>
void of_context(World& world, Function* function, Args args) {
  args.hContext = world.client->make_context().handle;
  world.calls(function, args);
  world.destroys_context(args.hContext);
}

void create_sync(World& world, D3DDDI_SYNCHRONIZATIONOBJECT_TYPE type, UINT flags = 0) {
  auto args = on_device<D3DKMT_CREATESYNCHRONIZATIONOBJECT2>(world);
  args.Info.Type = type;
  args.Info.Flags.Value = flags;
  if (type == D3DDDI_SEMAPHORE) args.Info.Semaphore.MaxCount = 2;
  world.calls(D3DKMTCreateSynchronizationObject2, args);
}

const Row kRows[] = {
    {"D3DKMTCreateDevice", Ground::kPatching,
     [](World& world) {
       D3DKMT_CREATEDEVICE args{};
       args.hAdapter = world.client->adapter;
       world.calls(D3DKMTCreateDevice, args);
       world.closes_adapter();
     }},
    {"D3DKMTDestroyDevice", Ground::kPatching,
     [](World& world) {
       world.calls(D3DKMTDestroyDevice, on_device<D3DKMT_DESTROYDEVICE>(world));
     }},
    {"D3DKMTGetDeviceState", Ground::kPatching,
     [](World& world) {
       auto args = on_device<D3DKMT_GETDEVICESTATE>(world);
       args.StateType = D3DKMT_DEVICESTATE_EXECUTION;
       world.calls(D3DKMTGetDeviceState, args);
     }},
    {"D3DKMTWaitForIdle", Ground::kPatching,
     [](World& world) {
       ContextBuffers context = world.client->make_context();
       EXPECT_EQ(world.client->render(context, work_on({})), 0);
       world.calls(D3DKMTWaitForIdle, on_device<D3DKMT_WAITFORIDLE>(world));
       world.destroys_context(context.handle);
     }},
    {"D3DKMTMarkDeviceAsError", Ground::kPatching,
     [](World& world) {
       auto args = on_device<D3DKMT_MARKDEVICEASERROR>(world);
       args.Reason = D3DKMT_DEVICE_ERROR_REASON_GENERIC;
       world.calls(D3DKMTMarkDeviceAsError, args);
     }},
    {"D3DKMTEscape", Ground::kPatching,
     [](World& world) {
       world.stack->miniport.hooks.escape = [](const DXGKARG_ESCAPE*) { return NTSTATUS{0}; };
       auto args = on_device<D3DKMT_ESCAPE>(world);
       args.hAdapter = world.client->adapter;
       args.hContext = world.client->make_context().handle;
       args.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
       args.pPrivateDriverData = world.keep(std::vector<uint32_t>(1));
       args.PrivateDriverDataSize = 4;
       world.calls(D3DKMTEscape, args);
       world.destroys_context(args.hContext);
     }},
    {"D3DKMTCreateContext", Ground::kPatching,
     [](World& world) {
       world.calls(D3DKMTCreateContext, on_device<D3DKMT_CREATECONTEXT>(world));
     }},
    {"D3DKMTDestroyContext", Ground::kPatching,
     [](World& world) { of_context(world, D3DKMTDestroyContext, D3DKMT_DESTROYCONTEXT{}); }},
    {"D3DKMTSetContextSchedulingPriority", Ground::kPatching,
     [](World& world) {
       of_context(world, D3DKMTSetContextSchedulingPriority,
                  D3DKMT_SETCONTEXTSCHEDULINGPRIORITY{.hContext = 0, .Priority = -2});
     }},
    {"D3DKMTGetContextSchedulingPriority", Ground::kPatching,
     [](World& world) {
       of_context(world, D3DKMTGetContextSchedulingPriority, D3DKMT_GETCONTEXTSCHEDULINGPRIORITY{});
     }},
    {"D3DKMTSetContextInProcessSchedulingPriority", Ground::kPatching,
     [](World& world) {
       of_context(world, D3DKMTSetContextInProcessSchedulingPriority,
                  D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY{.hContext = 0, .Priority = 1});
     }},
    {"D3DKMTGetContextInProcessSchedulingPriority", Ground::kPatching,
     [](World& world) {
       of_context(world, D3DKMTGetContextInProcessSchedulingPriority,
                  D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY{});
     }},
    {"D3DKMTRender", Ground::kPatching,
     [](World& world) {
       ContextBuffers context = world.client->make_context();
       const D3DKMT_HANDLE allocation = world.client->make_allocation();
       world.call = [client = world.client, context, allocation]() mutable {
         return client->render(context, work_on({allocation}));
       };
       world.destroys_context(context.handle);
     }},
    {"D3DKMTRender of a destroyed allocation", Ground::kPatching,
     [](World& world) {
       ContextBuffers context = world.client->make_context();
       const D3DKMT_HANDLE allocation = world.client->make_allocation();
       world.call = [client = world.client, context, allocation]() mutable {
         return client->render(context, work_on({allocation}));
       };
       world.destroys_allocation(allocation);
     }},
    {"D3DKMTCreateAllocation", Ground::kPatching,
     [](World& world) { create_allocation(world, 2); }},
    {"D3DKMTCreateAllocation2", Ground::kPatching,
     [](World& world) {
       D3DDDI_ALLOCATIONINFO2 info{};
       info.pPrivateDriverData = world.keep(std::vector<ScriptedAllocation>(1));
       info.PrivateDriverDataSize = sizeof(ScriptedAllocation);
       auto args = on_device<D3DKMT_CREATEALLOCATION>(world);
       args.NumAllocations = 1;
       args.pAllocationInfo2 = &world.keep_one(info);
       args.Flags = std::bit_cast<D3DKMT_CREATEALLOCATIONFLAGS>(3U);
       world.calls(D3DKMTCreateAllocation2, args);
     }},
    {"D3DKMTCreateAllocation2 in a resource", Ground::kPatching,
     [](World& world) {
       auto resource = on_device<D3DKMT_CREATEALLOCATION>(world);
       resource.Flags = std::bit_cast<D3DKMT_CREATEALLOCATIONFLAGS>(1U);
       EXPECT_EQ(world.client->call([&] { return D3DKMTCreateAllocation2(&resource); }), 0);
       D3DDDI_ALLOCATIONINFO2 info{};
       info.pPrivateDriverData = world.keep(std::vector<ScriptedAllocation>(1));
       info.PrivateDriverDataSize = sizeof(ScriptedAllocation);
       auto args = on_device<D3DKMT_CREATEALLOCATION>(world);
       args.hResource = resource.hResource;
       args.NumAllocations = 1;
       args.pAllocationInfo2 = &world.keep_one(info);
       world.calls(D3DKMTCreateAllocation2, args);
       world.destroys_resource(resource.hResource);
     }},
    {"D3DKMTDestroyAllocation2 of a resource", Ground::kPatching,
     [](World& world) {
       static_cast<void>(make_shared(world, false));
       auto args = on_device<D3DKMT_DESTROYALLOCATION2>(world);
       args.hResource = make_shared(world, true);
       world.calls(D3DKMTDestroyAllocation2, args);
       world.destroys_resource(args.hResource);
     }},
    {"D3DKMTDestroyAllocation", Ground::kPatching,
     [](World& world) {
       D3DKMT_DESTROYALLOCATION args{};
       list_of_one(world, &args, world.client->make_allocation());
       world.calls(D3DKMTDestroyAllocation, args);
     }},
    {"D3DKMTDestroyAllocation2", Ground::kPatching,
     [](World& world) {
       D3DKMT_DESTROYALLOCATION2 args{};
       list_of_one(world, &args, world.client->make_allocation());
       args.Flags.Value = 2;  // at once
       world.calls(D3DKMTDestroyAllocation2, args);
     }},
    {"D3DKMTQueryResourceInfo", Ground::kPatching,
     [](World& world) {
       auto args = on_device<D3DKMT_QUERYRESOURCEINFO>(world);
       args.hGlobalShare = make_shared(world, false);
       world.calls(D3DKMTQueryResourceInfo, args);
     }},
    {"D3DKMTQueryResourceInfoFromNtHandle", Ground::kPatching,
     [](World& world) {
       auto args = on_device<D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE>(world);
       args.hNtHandle = keep_shared(world, make_shared(world, true));
       world.calls(D3DKMTQueryResourceInfoFromNtHandle, args);
     }},
    {"D3DKMTOpenResource2", Ground::kPatching,
     [](World& world) {
       D3DKMT_OPENRESOURCE args{};
       room_for_one(world, &args);
       args.hGlobalShare = make_shared(world, false);
       world.calls(D3DKMTOpenResource2, args);
     }},
    {"D3DKMTOpenResourceFromNtHandle", Ground::kPatching,
     [](World& world) {
       D3DKMT_OPENRESOURCEFROMNTHANDLE args{};
       room_for_one(world, &args);
       args.hNtHandle = keep_shared(world, make_shared(world, true));
       world.calls(D3DKMTOpenResourceFromNtHandle, args);
     }},
    {"D3DKMTShareObjects of a resource", Ground::kPatching,
     [](World& world) {
       const D3DKMT_HANDLE resource = make_shared(world, true);
       auto shared = std::make_shared<SharedHandle>();
       world.call = [client = world.client, resource, shared] {
         return share(*client, {resource}, &shared->handle);
       };
     },
     /*leaves=*/2},
    {"D3DKMTShareObjects of a fence", Ground::kPatching,
     [](World& world) {
       const D3DKMT_HANDLE fence = create_fence(*world.client, sync_flag::kNt).handle;
       auto shared = std::make_shared<SharedHandle>();
       world.call = [client = world.client, fence, shared] {
         return share(*client, {fence}, &shared->handle);
       };
       world.destroys_sync(fence);
     }},
    {"D3DKMTLock2", Ground::kPatching,
     [](World& world) {
       auto args = on_device<D3DKMT_LOCK2>(world);
       args.hAllocation = world.client->make_allocation(visible());
       world.calls(D3DKMTLock2, args);
       world.destroys_allocation(args.hAllocation);
     }},
    {"D3DKMTUnlock2", Ground::kPatching,
     [](World& world) {
       auto args = on_device<D3DKMT_UNLOCK2>(world);
       args.hAllocation = world.client->make_allocation(visible());
       void* address = nullptr;
       EXPECT_EQ(world.client->lock(args.hAllocation, &address), 0);
       world.calls(D3DKMTUnlock2, args);
       world.destroys_allocation(args.hAllocation);
     }},
    {"D3DKMTLock", Ground::kPatching,
     [](World& world) {
       auto args = on_device<D3DKMT_LOCK>(world);
       args.hAllocation = world.client->make_allocation(visible());
       world.calls(D3DKMTLock, args);
       world.destroys_allocation(args.hAllocation);
     }},
    {"D3DKMTUnlock", Ground::kPatching,
     [](World& world) {
       auto lock = on_device<D3DKMT_LOCK>(world);
       lock.hAllocation = world.client->make_allocation(visible());
       EXPECT_EQ(world.client->call([&] { return D3DKMTLock(&lock); }), 0);
       auto args = on_device<D3DKMT_UNLOCK>(world);
       args.NumAllocations = 1;
       args.phAllocations = world.keep(one(lock.hAllocation));
       world.calls(D3DKMTUnlock, args);
       world.destroys_allocation(lock.hAllocation);
     }},
    {"D3DKMTInvalidateCache", Ground::kPatching,
     [](World& world) {
       auto args = on_device<D3DKMT_INVALIDATECACHE>(world);
       args.hAllocation = world.client->make_allocation(visible());
       args.Length = 64;
       world.calls(D3DKMTInvalidateCache, args);
       world.destroys_allocation(args.hAllocation);
     }},
    {"D3DKMTOfferAllocations", Ground::kPatching,
     [](World& world) {
       const D3DKMT_HANDLE allocation = world.client->make_allocation();
       auto args = on_device<D3DKMT_OFFERALLOCATIONS>(world);
       args.HandleList = world.keep(one(allocation));
       args.NumAllocations = 1;
       args.Priority = D3DKMT_OFFER_PRIORITY_NORMAL;
       world.calls(D3DKMTOfferAllocations, args);
       world.destroys_allocation(allocation);
     }},
    {"D3DKMTReclaimAllocations", Ground::kPatching,
     [](World& world) {
       const D3DKMT_HANDLE allocation = world.client->make_allocation();
       auto offer = on_device<D3DKMT_OFFERALLOCATIONS>(world);
       offer.HandleList = &allocation;
       offer.NumAllocations = 1;
       offer.Priority = D3DKMT_OFFER_PRIORITY_NORMAL;
       EXPECT_EQ(world.client->call([&] { return D3DKMTOfferAllocations(&offer); }), 0);
       auto args = on_device<D3DKMT_RECLAIMALLOCATIONS>(world);
       args.HandleList = world.keep(one(allocation));
       args.NumAllocations = 1;
       args.pDiscarded = world.keep(std::vector<BOOL>(1));
       world.calls(D3DKMTReclaimAllocations, args);
       world.destroys_allocation(allocation);
     }},
    {"D3DKMTSetAllocationPriority", Ground::kPatching,
     [](World& world) {
       D3DKMT_SETALLOCATIONPRIORITY args{};
       list_of_one(world, &args, world.client->make_allocation());
       args.pPriorities = world.keep(std::vector<UINT>{D3DDDI_ALLOCATIONPRIORITY_HIGH});
       world.calls(D3DKMTSetAllocationPriority, args);
     }},
    {"D3DKMTGetAllocationPriority", Ground::kPatching,
     [](World& world) {
       D3DKMT_GETALLOCATIONPRIORITY args{};
       list_of_one(world, &args, world.client->make_allocation());
       args.pPriorities = world.keep(std::vector<UINT>(1));
       world.calls(D3DKMTGetAllocationPriority, args);
     }},
    {"D3DKMTQueryAllocationResidency", Ground::kPatching,
     [](World& world) {
       D3DKMT_QUERYALLOCATIONRESIDENCY args{};
       list_of_one(world, &args, world.client->make_allocation());
       args.pResidencyStatus = world.keep(std::vector<D3DKMT_ALLOCATIONRESIDENCYSTATUS>(1));
       world.calls(D3DKMTQueryAllocationResidency, args);
     }},
    {"D3DKMTFlushHeapTransitions", Ground::kPatching,
     [](World& world) {
       world.calls(D3DKMTFlushHeapTransitions,
                   D3DKMT_FLUSHHEAPTRANSITIONS{.hAdapter = world.client->adapter});
       world.closes_adapter();
     }},
    {"D3DKMTCreateSynchronizationObject", Ground::kPatching,
     [](World& world) {
       auto args = on_device<D3DKMT_CREATESYNCHRONIZATIONOBJECT>(world);
       args.Info.Type = D3DDDI_SYNCHRONIZATION_MUTEX;
       world.calls(D3DKMTCreateSynchronizationObject, args);
     }},
    {"D3DKMTCreateSynchronizationObject2 of a semaphore", Ground::kPatching,
     [](World& world) { create_sync(world, D3DDDI_SEMAPHORE, sync_flag::kShared); }},
    {"D3DKMTCreateSynchronizationObject2 of a monitored fence", Ground::kPatching,
     [](World& world) { create_sync(world, D3DDDI_MONITORED_FENCE, sync_flag::kNt); }},
    {"D3DKMTDestroySynchronizationObject", Ground::kPatching,
     [](World& world) {
       const D3DKMT_HANDLE fence = world.client->make_sync(D3DDDI_MONITORED_FENCE);
       world.calls(D3DKMTDestroySynchronizationObject, D3DKMT_DESTROYSYNCHRONIZATIONOBJECT{fence});
       world.destroys_sync(fence);
     }},
    {"D3DKMTSignalSynchronizationObject", Ground::kPatching,
     [](World& world) {
       legacy(world, D3DKMTSignalSynchronizationObject, D3DKMT_SIGNALSYNCHRONIZATIONOBJECT{},
              D3DDDI_SEMAPHORE);
     }},
    {"D3DKMTSignalSynchronizationObject2", Ground::kPatching,
     [](World& world) {
       D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 args{};
       args.BroadcastContextCount = 1;
       args.BroadcastContext[0] = world.client->make_context(1).handle;
       args.Fence.FenceValue = 7;
       legacy(world, D3DKMTSignalSynchronizationObject2, args, D3DDDI_FENCE);
     }},
    {"D3DKMTWaitForSynchronizationObject", Ground::kPatching,
     [](World& world) {
       legacy(world, D3DKMTWaitForSynchronizationObject, D3DKMT_WAITFORSYNCHRONIZATIONOBJECT{},
              D3DDDI_SEMAPHORE);
     }},
    {"D3DKMTWaitForSynchronizationObject2", Ground::kPatching,
     [](World& world) {
       D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 args{};
       args.Fence.FenceValue = 1;
       legacy(world, D3DKMTWaitForSynchronizationObject2, args, D3DDDI_FENCE);
     }},
    {"D3DKMTSignalSynchronizationObjectFromCpu", Ground::kPatching,
     [](World& world) {
       from_cpu(world, D3DKMTSignalSynchronizationObjectFromCpu,
                D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU{});
     }},
    {"D3DKMTWaitForSynchronizationObjectFromCpu", Ground::kPatching,
     [](World& world) {
       from_cpu(world, D3DKMTWaitForSynchronizationObjectFromCpu,
                D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU{});
       const D3DKMT_HANDLE object =
           world.keep_one(world.client->make_sync(D3DDDI_MONITORED_FENCE, 9));
       auto args = on_device<D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU>(world);
       args.ObjectCount = 1;
       args.ObjectHandleArray = world.keep(one(object));
       args.FenceValueArray = world.keep(std::vector<UINT64>{9});
       world.calls(D3DKMTWaitForSynchronizationObjectFromCpu, args);
       world.destroys_sync(object);
     }},
    {"D3DKMTSignalSynchronizationObjectFromGpu", Ground::kPatching,
     [](World& world) {
       from_gpu(world, D3DKMTSignalSynchronizationObjectFromGpu,
                D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU{});
     }},
    {"D3DKMTSignalSynchronizationObjectFromGpu2", Ground::kPatching,
     [](World& world) {
       const ContextBuffers context = world.client->make_context();
       D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 args{};
       args.ObjectCount = 1;
       args.ObjectHandleArray =
           world.keep(one(create_fence(*world.client, sync_flag::kTopOfPipeline).handle));
       args.BroadcastContextCount = 1;
       args.BroadcastContextArray = world.keep(one(context.handle));
       args.MonitoredFenceValueArray = world.keep(std::vector<UINT64>{5});
       world.calls(D3DKMTSignalSynchronizationObjectFromGpu2, args);
       world.destroys_context(context.handle);
     }},
    {"D3DKMTWaitForSynchronizationObjectFromGpu", Ground::kPatching,
     [](World& world) {
       from_gpu(world, D3DKMTWaitForSynchronizationObjectFromGpu,
                D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU{});
     }},
    {"D3DKMTOpenSynchronizationObject", Ground::kPatching,
     [](World& world) {
       D3DKMT_CREATESYNCHRONIZATIONOBJECT2 made{};
       made.hDevice = world.client->device;
       made.Info.Type = D3DDDI_SEMAPHORE;
       made.Info.Semaphore.MaxCount = 2;
       made.Info.Flags.Value = sync_flag::kShared;
       EXPECT_EQ(world.client->call([&] { return D3DKMTCreateSynchronizationObject2(&made); }), 0);
       D3DKMT_OPENSYNCHRONIZATIONOBJECT args{};
       args.hSharedHandle = made.Info.SharedHandle;
       world.calls(D3DKMTOpenSynchronizationObject, args);
       world.destroys_sync(made.hSyncObject);
     }},
    {"D3DKMTOpenSyncObjectFromNtHandle", Ground::kPatching,
     [](World& world) {
       const D3DKMT_HANDLE fence = create_fence(*world.client, sync_flag::kNt).handle;
       D3DKMT_OPENSYNCOBJECTFROMNTHANDLE args{};
       args.hNtHandle = keep_shared(world, fence);
       world.calls(D3DKMTOpenSyncObjectFromNtHandle, args);
       world.destroys_sync(fence);
     }},
    {"D3DKMTOpenSyncObjectFromNtHandle2", Ground::kPatching,
     [](World& world) {
       const D3DKMT_HANDLE fence = create_fence(*world.client, sync_flag::kNt).handle;
       auto args = on_device<D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2>(world);
       args.hNtHandle = keep_shared(world, fence);
       world.calls(D3DKMTOpenSyncObjectFromNtHandle2, args);
       world.destroys_sync(fence);
     }},
    {"D3DKMTCreateSyncFile", Ground::kPatching,
     [](World& world) {
       const D3DKMT_HANDLE fence = create_fence(*world.client, sync_flag::kNt).handle;
       auto args = std::make_shared<D3DKMT_CREATESYNCFILE>();
       args->hDevice = world.client->device;
       args->hMonitoredFence = fence;
       args->FenceValue = 4;
       world.call = [args] {
         const NTSTATUS status = D3DKMTCreateSyncFile(args.get());
         if (status == 0) ::close(static_cast<int>(args->hSyncFile));
         return status;
       };
       world.destroys_sync(fence);
     }},
};

}  // namespace

std::vector<Row> rendering_rows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace dxgkit::beside
