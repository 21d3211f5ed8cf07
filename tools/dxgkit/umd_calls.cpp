// The client as a user-mode driver: it knows nothing but the runtime's handles and callbacks.
#include <d3dumddi.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "tools/dxgkit/client_calls.h"
#include "umd/hresult.h"
#include "umd/runtime_objects.h"

namespace dxgkit::tool {
namespace {

/// The name of what callbacks answer. Empty: none of those.
std::string_view name_of(HRESULT result) {
  switch (result) {
    case E_INVALIDARG:
      return "E_INVALIDARG";
    case E_OUTOFMEMORY:
      return "E_OUTOFMEMORY";
    case E_FAIL:
      return "E_FAIL";
    case D3DDDIERR_DEVICEREMOVED:
      return "D3DDDIERR_DEVICEREMOVED";
    case D3DDDIERR_NOTAVAILABLE:
      return "D3DDDIERR_NOTAVAILABLE";
    case D3DDDIERR_OUTOFVIDEOMEMORY:
      return "D3DDDIERR_OUTOFVIDEOMEMORY";
    case D3DDDIERR_WASSTILLDRAWING:
      return "D3DDDIERR_WASSTILLDRAWING";
    case D3DDDIERR_INVALIDHANDLE:
      return "D3DDDIERR_INVALIDHANDLE";
    case D3DDDIERR_INVALIDUSERBUFFER:
      return "D3DDDIERR_INVALIDUSERBUFFER";
    case D3DDDIERR_INVALIDINSTRUCTION:
      return "D3DDDIERR_INVALIDINSTRUCTION";
    case D3DDDIERR_PRIVILEGEDINSTRUCTION:
      return "D3DDDIERR_PRIVILEGEDINSTRUCTION";
    default:
      return {};
  }
}

CallAnswer answer(const char* callback, HRESULT result) {
  if (result == E_PENDING) return {CallAnswer::Kind::kPending, {}};
  if (SUCCEEDED(result)) return {};
  const std::string_view name = name_of(result);
  return {result == E_OUTOFMEMORY ? CallAnswer::Kind::kNoMemory : CallAnswer::Kind::kFailed,
          fmt::format("{} answered {}", callback,
                      name.empty() ? fmt::format("0x{:08X}", static_cast<uint32_t>(result))
                                   : std::string(name))};
}

HANDLE to_runtime(D3DKMT_HANDLE handle) {
  return reinterpret_cast<HANDLE>(static_cast<uintptr_t>(handle));
}
D3DKMT_HANDLE to_kernel(HANDLE handle) {
  return static_cast<D3DKMT_HANDLE>(reinterpret_cast<uintptr_t>(handle));
}

class UmdCalls final : public ClientCalls {
 public:
  explicit UmdCalls(D3DKMT_HANDLE adapter) : adapter_(adapter, D3D_UMD_INTERFACE_VERSION) {}

  CallAnswer query_private(void* data, UINT bytes) override {
    const D3DDDICB_QUERYADAPTERINFO query{.pPrivateDriverData = data,
                                          .PrivateDriverDataSize = bytes};
    return answer("pfnQueryAdapterInfoCb",
                  adapter_.callbacks().pfnQueryAdapterInfoCb(adapter_.handle(), &query));
  }
  void use_device(D3DKMT_HANDLE device) override { device_.emplace(adapter_, device); }

  CallAnswer create_context(D3DKMT_CREATECONTEXT& args) override {
    D3DDDICB_CREATECONTEXT create{};
    create.NodeOrdinal = args.NodeOrdinal;
    create.EngineAffinity = args.EngineAffinity;
    create.Flags = args.Flags;
    create.pPrivateDriverData = args.pPrivateDriverData;
    create.PrivateDriverDataSize = args.PrivateDriverDataSize;
    CallAnswer done = answer("pfnCreateContextCb", table().pfnCreateContextCb(device(), &create));
    args.hContext = to_kernel(create.hContext);
    args.pCommandBuffer = create.pCommandBuffer;
    args.CommandBufferSize = create.CommandBufferSize;
    args.pAllocationList = create.pAllocationList;
    args.AllocationListSize = create.AllocationListSize;
    args.pPatchLocationList = create.pPatchLocationList;
    args.PatchLocationListSize = create.PatchLocationListSize;
    return done;
  }
  CallAnswer create_context_virtual(D3DKMT_CREATECONTEXTVIRTUAL& args) override {
    D3DDDICB_CREATECONTEXTVIRTUAL create{};
    create.NodeOrdinal = args.NodeOrdinal;
    create.EngineAffinity = args.EngineAffinity;
    create.Flags = args.Flags;
    create.pPrivateDriverData = args.pPrivateDriverData;
    create.PrivateDriverDataSize = args.PrivateDriverDataSize;
    CallAnswer done =
        answer("pfnCreateContextVirtualCb", table().pfnCreateContextVirtualCb(device(), &create));
    args.hContext = to_kernel(create.hContext);
    return done;
  }
  CallAnswer destroy_context(D3DKMT_HANDLE context) override {
    const D3DDDICB_DESTROYCONTEXT destroy{.hContext = to_runtime(context)};
    return answer("pfnDestroyContextCb", table().pfnDestroyContextCb(device(), &destroy));
  }
  CallAnswer render(D3DKMT_RENDER& args) override {
    D3DDDICB_RENDER render{};
    render.hContext = to_runtime(args.hContext);
    render.CommandOffset = args.CommandOffset;
    render.CommandLength = args.CommandLength;
    render.NumAllocations = args.AllocationCount;
    render.NumPatchLocations = args.PatchLocationCount;
    CallAnswer done = answer("pfnRenderCb", table().pfnRenderCb(device(), &render));
    args.pNewCommandBuffer = render.pNewCommandBuffer;
    args.NewCommandBufferSize = render.NewCommandBufferSize;
    args.pNewAllocationList = render.pNewAllocationList;
    args.NewAllocationListSize = render.NewAllocationListSize;
    args.pNewPatchLocationList = render.pNewPatchLocationList;
    args.NewPatchLocationListSize = render.NewPatchLocationListSize;
    return done;
  }
  CallAnswer submit_command(const D3DKMT_SUBMITCOMMAND& args) override {
    D3DDDICB_SUBMITCOMMAND submit{};
    submit.Commands = args.Commands;
    submit.CommandLength = args.CommandLength;
    submit.BroadcastContextCount = args.BroadcastContextCount;
    for (UINT i = 0; i < args.BroadcastContextCount; ++i)
      submit.BroadcastContext[i] = to_runtime(args.BroadcastContext[i]);
    submit.pPrivateDriverData = args.pPrivateDriverData;
    submit.PrivateDriverDataSize = args.PrivateDriverDataSize;
    submit.NumPrimaries = args.NumPrimaries;
    std::ranges::copy(args.WrittenPrimaries, submit.WrittenPrimaries);
    return answer("pfnSubmitCommandCb", table().pfnSubmitCommandCb(device(), &submit));
  }
  CallAnswer present(const D3DKMT_PRESENT& args) override {
    device_->begin_present(args);  // the application presents, and then the driver does
    D3DDDICB_PRESENT present{};
    present.hSrcAllocation = args.hSource;
    present.hDstAllocation = args.hDestination;
    present.hContext = to_runtime(args.hContext);
    CallAnswer done = answer("pfnPresentCb", table().pfnPresentCb(device(), &present));
    device_->end_present();
    return done;
  }
  CallAnswer set_display_mode(D3DKMT_HANDLE primary) override {
    D3DDDICB_SETDISPLAYMODE set{};
    set.hPrimaryAllocation = primary;
    return answer("pfnSetDisplayModeCb", table().pfnSetDisplayModeCb(device(), &set));
  }

  CallAnswer create_paging_queue(D3DKMT_CREATEPAGINGQUEUE& args) override {
    D3DDDICB_CREATEPAGINGQUEUE create{};
    create.Priority = args.Priority;
    create.PhysicalAdapterIndex = args.PhysicalAdapterIndex;
    CallAnswer done = answer_of_device("pfnCreatePagingQueueCb",
                                       table().pfnCreatePagingQueueCb(device(), &create));
    args.hPagingQueue = create.hPagingQueue;
    args.hSyncObject = create.hSyncObject;
    args.FenceValueCPUVirtualAddress = create.FenceValueCPUVirtualAddress;
    return done;
  }
  CallAnswer destroy_paging_queue(D3DKMT_HANDLE queue) override {
    const D3DDDI_DESTROYPAGINGQUEUE destroy{.hPagingQueue = queue};
    return answer("pfnDestroyPagingQueueCb", table().pfnDestroyPagingQueueCb(device(), &destroy));
  }
  CallAnswer make_resident(D3DDDI_MAKERESIDENT& args) override {
    return answer("pfnMakeResidentCb", table().pfnMakeResidentCb(device(), &args));
  }
  CallAnswer evict(D3DKMT_EVICT& args) override {
    D3DDDICB_EVICT evict{};
    evict.NumAllocations = args.NumAllocations;
    evict.AllocationList = args.AllocationList;
    evict.Flags = args.Flags;
    CallAnswer done = answer_of_device("pfnEvictCb", table().pfnEvictCb(device(), &evict));
    args.NumBytesToTrim = evict.NumBytesToTrim;
    return done;
  }
  CallAnswer map(D3DDDI_MAPGPUVIRTUALADDRESS& args) override {
    return answer("pfnMapGpuVirtualAddressCb", table().pfnMapGpuVirtualAddressCb(device(), &args));
  }
  CallAnswer free(D3DGPU_VIRTUAL_ADDRESS address, D3DGPU_SIZE_T bytes) override {
    const D3DDDICB_FREEGPUVIRTUALADDRESS free{.BaseAddress = address, .Size = bytes};
    return answer_of_device("pfnFreeGpuVirtualAddressCb",
                            table().pfnFreeGpuVirtualAddressCb(device(), &free));
  }

  CallAnswer create_allocation(D3DDDI_ALLOCATIONINFO2& info) override {
    D3DDDI_ALLOCATIONINFO one{};
    one.pSystemMem = info.pSystemMem;
    one.pPrivateDriverData = info.pPrivateDriverData;
    one.PrivateDriverDataSize = info.PrivateDriverDataSize;
    one.VidPnSourceId = info.VidPnSourceId;
    one.Flags.Primary = info.Flags.Primary;
    D3DDDICB_ALLOCATE allocate{};
    allocate.NumAllocations = 1;
    allocate.pAllocationInfo = &one;
    CallAnswer done = answer("pfnAllocateCb", table().pfnAllocateCb(device(), &allocate));
    info.hAllocation = one.hAllocation;
    return done;
  }
  CallAnswer destroy_allocations(const D3DKMT_HANDLE* list, UINT count) override {
    const D3DDDICB_DEALLOCATE2 deallocate{
        .hResource = nullptr, .NumAllocations = count, .HandleList = list, .Flags = {}};
    return answer("pfnDeallocate2Cb", table().pfnDeallocate2Cb(device(), &deallocate));
  }
  CallAnswer lock(D3DKMT_HANDLE allocation, void** address) override {
    D3DDDICB_LOCK2 lock{};
    lock.hAllocation = allocation;
    CallAnswer done = answer("pfnLock2Cb", table().pfnLock2Cb(device(), &lock));
    *address = lock.pData;
    return done;
  }
  CallAnswer unlock(D3DKMT_HANDLE allocation) override {
    const D3DDDICB_UNLOCK2 unlock{.hAllocation = allocation};
    return answer_of_device("pfnUnlock2Cb", table().pfnUnlock2Cb(device(), &unlock));
  }

  CallAnswer create_fence(D3DKMT_CREATESYNCHRONIZATIONOBJECT2& args) override {
    D3DDDICB_CREATESYNCHRONIZATIONOBJECT2 create{};
    create.Info = args.Info;
    CallAnswer done = answer("pfnCreateSynchronizationObject2Cb",
                             table().pfnCreateSynchronizationObject2Cb(device(), &create));
    args.Info = create.Info;
    args.hSyncObject = create.hSyncObject;
    return done;
  }
  CallAnswer destroy_fence(D3DKMT_HANDLE fence) override {
    const D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT destroy{.hSyncObject = fence};
    return answer("pfnDestroySynchronizationObjectCb",
                  table().pfnDestroySynchronizationObjectCb(device(), &destroy));
  }
  CallAnswer signal_from_gpu(D3DKMT_HANDLE context, D3DKMT_HANDLE fence, UINT64 value) override {
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal{};
    signal.hContext = to_runtime(context);
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence;
    signal.MonitoredFenceValueArray = &value;
    return answer("pfnSignalSynchronizationObjectFromGpuCb",
                  table().pfnSignalSynchronizationObjectFromGpuCb(device(), &signal));
  }
  CallAnswer wait_from_gpu(D3DKMT_HANDLE context, D3DKMT_HANDLE fence, UINT64 value) override {
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait{};
    wait.hContext = to_runtime(context);
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.MonitoredFenceValueArray = &value;
    return answer("pfnWaitForSynchronizationObjectFromGpuCb",
                  table().pfnWaitForSynchronizationObjectFromGpuCb(device(), &wait));
  }
  CallAnswer wait_from_cpu(D3DKMT_HANDLE fence, UINT64 value) override {
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.FenceValueArray = &value;
    return answer("pfnWaitForSynchronizationObjectFromCpuCb",
                  table().pfnWaitForSynchronizationObjectFromCpuCb(device(), &wait));
  }

 private:
  const D3DDDI_DEVICECALLBACKS& table() const { return device_->callbacks(); }
  HANDLE device() { return device_->handle(); }
  /// The runtime asks what became of the device.
  CallAnswer answer_of_device(const char* callback, HRESULT result) const {
    return with_removal(answer(callback, result), device_->kernel_handle());
  }

  umd::RuntimeAdapter adapter_;
  std::optional<umd::RuntimeDevice> device_;  // from use_device on
};

}  // namespace

std::unique_ptr<ClientCalls> make_umd_calls(D3DKMT_HANDLE adapter) {
  return std::make_unique<UmdCalls>(adapter);
}

CallsMaker maker_of(ClientApi api) {
  return api == ClientApi::kUmd ? make_umd_calls : make_d3dkmt_calls;
}

}  // namespace dxgkit::tool
