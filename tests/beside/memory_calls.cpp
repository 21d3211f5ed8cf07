// Calls on adapters with paging queues, GPU virtual addresses, hardware queues, native fences.
#include "tests/beside/calls.h"

namespace dxgkit::beside {
namespace {

using namespace contract;

std::vector<D3DKMT_HANDLE> one(D3DKMT_HANDLE handle) { return {handle}; }

void destroys_queue(World& world) {
  world.destroy = [&world] {
    static_cast<void>(world.listing->destroy_queue(world.listing->queue.handle));
  };
}

D3DDDI_MAKERESIDENT make_resident_of(World& world, D3DKMT_HANDLE allocation) {
  D3DDDI_MAKERESIDENT args{};
  args.hPagingQueue = world.listing->queue.handle;
  args.NumAllocations = 1;
  args.AllocationList = world.keep(one(allocation));
  return args;
}

const Row kRows[] = {
    {"D3DKMTCreatePagingQueue", Ground::kResidency,
     [](World& world) {
       D3DKMT_CREATEPAGINGQUEUE args{};
       args.hDevice = world.client->device;
       world.calls(D3DKMTCreatePagingQueue, args);
     }},
    {"D3DKMTDestroyPagingQueue", Ground::kResidency,
     [](World& world) {
       D3DDDI_DESTROYPAGINGQUEUE args{};
       args.hPagingQueue = world.listing->queue.handle;
       world.calls(D3DKMTDestroyPagingQueue, args);
       destroys_queue(world);
     }},
    {"D3DKMTMakeResident", Ground::kResidency,
     [](World& world) {
       world.calls(D3DKMTMakeResident, make_resident_of(world, world.listing->make(2)));
       destroys_queue(world);
     }},
    {"D3DKMTMakeResident of a destroyed allocation", Ground::kResidency,
     [](World& world) {
       const D3DKMT_HANDLE allocation = world.listing->make(2);
       world.calls(D3DKMTMakeResident, make_resident_of(world, allocation));
       world.destroys_allocation(allocation);
     }},
    {"D3DKMTEvict", Ground::kResidency,
     [](World& world) {
       const D3DKMT_HANDLE allocation = world.listing->make(2);
       world.client->list({allocation});
       world.stack->drive();
       D3DKMT_EVICT args{};
       args.hDevice = world.client->device;
       args.NumAllocations = 1;
       args.AllocationList = world.keep(one(allocation));
       world.calls(D3DKMTEvict, args);
       world.destroys_allocation(allocation);
     }},
    {"D3DKMTUpdateAllocationProperty", Ground::kResidency,
     [](World& world) {
       D3DDDI_UPDATEALLOCPROPERTY args{};
       args.hPagingQueue = world.listing->queue.handle;
       args.hAllocation = world.listing->make(2);
       args.SupportedSegmentSet = kMemorySet | kApertureSet;
       args.SetSupportedSegmentSet = 1;
       world.calls(D3DKMTUpdateAllocationProperty, args);
       world.destroys_allocation(args.hAllocation);
     }},
    {"D3DKMTReclaimAllocations2", Ground::kResidency,
     [](World& world) {
       const D3DKMT_HANDLE allocation = world.listing->make(2);
       world.client->list({allocation});
       world.stack->drive();
       D3DKMT_OFFERALLOCATIONS offer{};
       offer.hDevice = world.client->device;
       offer.HandleList = &allocation;
       offer.NumAllocations = 1;
       offer.Priority = D3DKMT_OFFER_PRIORITY_NORMAL;
       EXPECT_EQ(world.client->call([&] { return D3DKMTOfferAllocations(&offer); }), 0);
       D3DKMT_RECLAIMALLOCATIONS2 args{};
       args.hPagingQueue = world.listing->queue.handle;
       args.NumAllocations = 1;
       args.HandleList = world.keep(one(allocation));
       args.pResults = world.keep(std::vector<D3DDDI_RECLAIM_RESULT>(1));
       world.calls(D3DKMTReclaimAllocations2, args);
       world.destroys_allocation(allocation);
     }},
    {"D3DKMTQueryVideoMemoryInfo", Ground::kResidency,
     [](World& world) {
       D3DKMT_QUERYVIDEOMEMORYINFO args{};
       args.hAdapter = world.client->adapter;
       world.calls(D3DKMTQueryVideoMemoryInfo, args);
       world.closes_adapter();
     }},
    {"D3DKMTChangeVideoMemoryReservation", Ground::kResidency,
     [](World& world) {
       D3DKMT_CHANGEVIDEOMEMORYRESERVATION args{};
       args.hAdapter = world.client->adapter;
       args.Reservation = kUnit;
       world.calls(D3DKMTChangeVideoMemoryReservation, args);
       world.closes_adapter();
     }},
    {"D3DKMTRegisterTrimNotification", Ground::kResidency,
     [](World& world) {
       D3DKMT_REGISTERTRIMNOTIFICATION args{};
       args.AdapterLuid.LowPart = world.stack->luid.low;
       args.hDevice = world.client->device;
       args.Callback = [](D3DKMT_TRIMNOTIFICATION*) {};
       world.calls(D3DKMTRegisterTrimNotification, args);
     }},

    {"D3DKMTCreateContextVirtual", Ground::kQueues,
     [](World& world) {
       D3DKMT_CREATECONTEXTVIRTUAL args{};
       args.hDevice = world.client->device;
       world.calls(D3DKMTCreateContextVirtual, args);
     }},
    {"D3DKMTSubmitCommand", Ground::kQueues,
     [](World& world) {
       world.hw->write({GpuCommand::write(world.hw->va + kPage, 7)});
       D3DKMT_SUBMITCOMMAND args{};
       args.Commands = world.hw->va;
       args.CommandLength = sizeof(GpuCommand);
       args.BroadcastContextCount = 1;
       args.BroadcastContext[0] = world.va->context;
       world.calls(D3DKMTSubmitCommand, args);
       world.destroys_context(world.va->context);
     }},
    {"D3DKMTReserveGpuVirtualAddress", Ground::kQueues,
     [](World& world) {
       D3DDDI_RESERVEGPUVIRTUALADDRESS args{};
       args.hPagingQueue = world.listing->queue.handle;
       args.Size = 64 * kKibibyte;
       args.ReservationType = D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS;
       world.calls(D3DKMTReserveGpuVirtualAddress, args);
       destroys_queue(world);
     }},
    {"D3DKMTMapGpuVirtualAddress", Ground::kQueues,
     [](World& world) {
       const D3DKMT_HANDLE allocation = world.client->make_allocation(2 * kPage, kMemorySet);
       world.calls(D3DKMTMapGpuVirtualAddress, world.va->map_args(allocation, 2));
       world.destroys_allocation(allocation);
     }},
    {"D3DKMTFreeGpuVirtualAddress", Ground::kQueues,
     [](World& world) {
       D3DKMT_FREEGPUVIRTUALADDRESS args{};
       args.hAdapter = world.client->adapter;
       args.BaseAddress = world.va->make_reservation(64 * kKibibyte);
       args.Size = 64 * kKibibyte;
       world.calls(D3DKMTFreeGpuVirtualAddress, args);
       world.closes_adapter();
     }},
    {"D3DKMTUpdateGpuVirtualAddress", Ground::kQueues,
     [](World& world) {
       const uint64_t base = world.va->make_reservation(64 * kKibibyte);
       D3DKMT_UPDATEGPUVIRTUALADDRESS args{};
       args.hDevice = world.client->device;
       args.hContext = world.va->context;
       args.hFenceObject = world.client->make_sync(D3DDDI_MONITORED_FENCE);
       args.NumOperations = 1;
       args.Operations =
           world.keep(std::vector<UpdateOperation>{map_op(world.hw->memory, base, kPage)});
       args.FenceValue = 1;
       world.calls(D3DKMTUpdateGpuVirtualAddress, args);
       world.destroys_context(world.va->context);
     },
     /*leaves=*/1},
    {"D3DKMTCreateHwContext", Ground::kQueues,
     [](World& world) {
       D3DKMT_CREATEHWCONTEXT args{};
       args.hDevice = world.client->device;
       world.calls(D3DKMTCreateHwContext, args);
     }},
    {"D3DKMTDestroyHwContext", Ground::kQueues,
     [](World& world) {
       const D3DKMT_DESTROYHWCONTEXT args{.hHwContext = world.hw->make_hw_context()};
       world.calls(D3DKMTDestroyHwContext, args);
       world.destroy = [&world, context = args.hHwContext] {
         static_cast<void>(world.hw->destroy_hw_context(context));
       };
     }},
    {"D3DKMTCreateHwQueue", Ground::kQueues,
     [](World& world) {
       D3DKMT_CREATEHWQUEUE args{};
       args.hHwContext = world.hw->make_hw_context();
       world.calls(D3DKMTCreateHwQueue, args);
       world.destroy = [&world, context = args.hHwContext] {
         static_cast<void>(world.hw->destroy_hw_context(context));
       };
     }},
    {"D3DKMTDestroyHwQueue", Ground::kQueues,
     [](World& world) {
       const D3DKMT_DESTROYHWQUEUE args{.hHwQueue = world.hw->make_hw_queue().handle};
       world.calls(D3DKMTDestroyHwQueue, args);
       world.destroy = [&world, queue = args.hHwQueue] {
         static_cast<void>(world.hw->destroy_hw_queue(queue));
       };
     }},
    {"D3DKMTSetContextSchedulingPriority of a hardware context", Ground::kQueues,
     [](World& world) {
       const D3DKMT_SETCONTEXTSCHEDULINGPRIORITY args{world.hw->make_hw_context(), -2};
       world.calls(D3DKMTSetContextSchedulingPriority, args);
       world.destroy = [&world, context = args.hContext] {
         static_cast<void>(world.hw->destroy_hw_context(context));
       };
     }},
    {"D3DKMTSubmitCommandToHwQueue", Ground::kQueues,
     [](World& world) {
       world.hw->write({GpuCommand::write(world.hw->va + kPage, 7)});
       ClientQueue queue = world.hw->make_hw_queue();
       world.calls(D3DKMTSubmitCommandToHwQueue, world.hw->submit_args(queue));
       world.destroy = [&world, handle = queue.handle] {
         static_cast<void>(world.hw->destroy_hw_queue(handle));
       };
     }},
    {"D3DKMTSubmitWaitForSyncObjectsToHwQueue", Ground::kQueues,
     [](World& world) {
       const ClientQueue queue = world.hw->make_hw_queue();
       D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE args{};
       args.hHwQueue = queue.handle;
       args.ObjectCount = 1;
       args.ObjectHandleArray = world.keep(one(world.client->make_sync(D3DDDI_MONITORED_FENCE, 3)));
       args.FenceValueArray = world.keep(std::vector<UINT64>{3});
       world.calls(D3DKMTSubmitWaitForSyncObjectsToHwQueue, args);
       world.destroy = [&world, handle = queue.handle] {
         static_cast<void>(world.hw->destroy_hw_queue(handle));
       };
     }},
    {"D3DKMTSubmitSignalSyncObjectsToHwQueue", Ground::kQueues,
     [](World& world) {
       const ClientQueue queue = world.hw->make_hw_queue();
       D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE args{};
       args.BroadcastHwQueueCount = 1;
       args.BroadcastHwQueueArray = world.keep(one(queue.handle));
       args.ObjectCount = 1;
       args.ObjectHandleArray = world.keep(one(world.client->make_sync(D3DDDI_MONITORED_FENCE)));
       args.FenceValueArray = world.keep(std::vector<UINT64>{3});
       world.calls(D3DKMTSubmitSignalSyncObjectsToHwQueue, args);
       world.destroy = [&world, handle = queue.handle] {
         static_cast<void>(world.hw->destroy_hw_queue(handle));
       };
     }},
    {"D3DKMTCreateSynchronizationObject2 with an address", Ground::kQueues,
     [](World& world) {
       D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
       args.hDevice = world.client->device;
       args.Info.Type = D3DDDI_MONITORED_FENCE;
       args.Info.Flags.Value = sync_flag::kNt;
       world.calls(D3DKMTCreateSynchronizationObject2, args);
     }},
    {"D3DKMTOpenSyncObjectFromNtHandle2 with an address", Ground::kQueues,
     [](World& world) {
       const D3DKMT_HANDLE fence = create_fence(*world.client, sync_flag::kNt).handle;
       auto& shared = *world.keep(
           std::vector<std::shared_ptr<SharedHandle>>{std::make_shared<SharedHandle>()});
       EXPECT_EQ(share(*world.client, {fence}, &shared->handle), 0);
       D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 args{};
       args.hDevice = world.client->device;
       args.hNtHandle = shared->handle;
       world.calls(D3DKMTOpenSyncObjectFromNtHandle2, args);
       world.destroys_sync(fence);
     }},

    {"D3DKMTCreateNativeFence", Ground::kNative,
     [](World& world) {
       D3DKMT_CREATENATIVEFENCE args{};
       args.hDevice = world.client->device;
       args.Info.Flags.Value = sync_flag::kNt;
       world.calls(D3DKMTCreateNativeFence, args);
     }},
    {"D3DKMTOpenNativeFenceFromNtHandle", Ground::kNative,
     [](World& world) {
       D3DKMT_CREATENATIVEFENCE create{};
       create.hDevice = world.client->device;
       create.Info.Flags.Value = sync_flag::kNt;
       world.stack->blocking([&] {
         EXPECT_EQ(world.client->call([&] { return D3DKMTCreateNativeFence(&create); }), 0);
       });
       auto& shared = *world.keep(
           std::vector<std::shared_ptr<SharedHandle>>{std::make_shared<SharedHandle>()});
       EXPECT_EQ(share(*world.client, {create.hSyncObject}, &shared->handle), 0);
       D3DKMT_OPENNATIVEFENCEFROMNTHANDLE args{};
       args.hDevice = world.client->device;
       args.hNtHandle = shared->handle;
       world.calls(D3DKMTOpenNativeFenceFromNtHandle, args);
       world.destroys_sync(create.hSyncObject);
     }},
    {"D3DKMTSignalSynchronizationObjectFromCpu of a native fence", Ground::kNative,
     [](World& world) {
       D3DKMT_CREATENATIVEFENCE create{};
       create.hDevice = world.client->device;
       world.stack->blocking([&] {
         EXPECT_EQ(world.client->call([&] { return D3DKMTCreateNativeFence(&create); }), 0);
       });
       D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU args{};
       args.hDevice = world.client->device;
       args.ObjectCount = 1;
       args.ObjectHandleArray = world.keep(one(create.hSyncObject));
       args.FenceValueArray = world.keep(std::vector<UINT64>{4});
       world.calls(D3DKMTSignalSynchronizationObjectFromCpu, args);
       world.destroys_sync(create.hSyncObject);
     }},
};

}  // namespace

std::vector<Row> memory_rows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace dxgkit::beside
