#include "tools/dxgkit/client_calls.h"

#include <fmt/format.h>

#include "base/status.h"

namespace dxgkit::tool {
namespace {

class D3dkmtCalls final : public ClientCalls {
 public:
  explicit D3dkmtCalls(D3DKMT_HANDLE adapter) : adapter_(adapter) {}

  CallAnswer query_private(void* data, UINT bytes) override {
    D3DKMT_QUERYADAPTERINFO query{};
    query.hAdapter = adapter_;
    query.Type = KMTQAITYPE_UMDRIVERPRIVATE;
    query.pPrivateDriverData = data;
    query.PrivateDriverDataSize = bytes;
    return answer_of("D3DKMTQueryAdapterInfo", D3DKMTQueryAdapterInfo(&query));
  }
  void use_device(D3DKMT_HANDLE device) override { device_ = device; }

  CallAnswer create_context(D3DKMT_CREATECONTEXT& args) override {
    args.hDevice = device_;
    return answer_of("D3DKMTCreateContext", D3DKMTCreateContext(&args));
  }
  CallAnswer create_context_virtual(D3DKMT_CREATECONTEXTVIRTUAL& args) override {
    args.hDevice = device_;
    return answer_of("D3DKMTCreateContextVirtual", D3DKMTCreateContextVirtual(&args));
  }
  CallAnswer destroy_context(D3DKMT_HANDLE context) override {
    const D3DKMT_DESTROYCONTEXT destroy{.hContext = context};
    return answer_of("D3DKMTDestroyContext", D3DKMTDestroyContext(&destroy));
  }
  CallAnswer render(D3DKMT_RENDER& args) override {
    return answer_of("D3DKMTRender", D3DKMTRender(&args));
  }
  CallAnswer submit_command(const D3DKMT_SUBMITCOMMAND& args) override {
    return answer_of("D3DKMTSubmitCommand", D3DKMTSubmitCommand(&args));
  }
  CallAnswer present(const D3DKMT_PRESENT& args) override {
    D3DKMT_PRESENT present = args;
    return answer_of("D3DKMTPresent", D3DKMTPresent(&present));
  }
  CallAnswer set_display_mode(D3DKMT_HANDLE primary) override {
    D3DKMT_SETDISPLAYMODE set{};
    set.hDevice = device_;
    set.hPrimaryAllocation = primary;
    return answer_of("D3DKMTSetDisplayMode", D3DKMTSetDisplayMode(&set));
  }

  CallAnswer create_paging_queue(D3DKMT_CREATEPAGINGQUEUE& args) override {
    args.hDevice = device_;
    return with_removal(answer_of("D3DKMTCreatePagingQueue", D3DKMTCreatePagingQueue(&args)),
                        device_);
  }
  CallAnswer destroy_paging_queue(D3DKMT_HANDLE queue) override {
    D3DDDI_DESTROYPAGINGQUEUE destroy{.hPagingQueue = queue};
    return answer_of("D3DKMTDestroyPagingQueue", D3DKMTDestroyPagingQueue(&destroy));
  }
  CallAnswer make_resident(D3DDDI_MAKERESIDENT& args) override {
    return answer_of("D3DKMTMakeResident", D3DKMTMakeResident(&args));
  }
  CallAnswer evict(D3DKMT_EVICT& args) override {
    args.hDevice = device_;
    return with_removal(answer_of("D3DKMTEvict", D3DKMTEvict(&args)), device_);
  }
  CallAnswer map(D3DDDI_MAPGPUVIRTUALADDRESS& args) override {
    return answer_of("D3DKMTMapGpuVirtualAddress", D3DKMTMapGpuVirtualAddress(&args));
  }
  CallAnswer free(D3DGPU_VIRTUAL_ADDRESS address, D3DGPU_SIZE_T bytes) override {
    D3DKMT_FREEGPUVIRTUALADDRESS free{};
    free.hAdapter = adapter_;
    free.BaseAddress = address;
    free.Size = bytes;
    return with_removal(
        answer_of("D3DKMTFreeGpuVirtualAddress", D3DKMTFreeGpuVirtualAddress(&free)), device_);
  }

  CallAnswer create_allocation(D3DDDI_ALLOCATIONINFO2& info) override {
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = device_;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    return answer_of("D3DKMTCreateAllocation2", D3DKMTCreateAllocation2(&create));
  }
  CallAnswer destroy_allocations(const D3DKMT_HANDLE* list, UINT count) override {
    D3DKMT_DESTROYALLOCATION2 destroy{};
    destroy.hDevice = device_;
    destroy.phAllocationList = list;
    destroy.AllocationCount = count;
    return answer_of("D3DKMTDestroyAllocation2", D3DKMTDestroyAllocation2(&destroy));
  }
  CallAnswer lock(D3DKMT_HANDLE allocation, void** address) override {
    D3DKMT_LOCK2 lock{};
    lock.hDevice = device_;
    lock.hAllocation = allocation;
    CallAnswer answer = answer_of("D3DKMTLock2", D3DKMTLock2(&lock));
    *address = lock.pData;
    return answer;
  }
  CallAnswer unlock(D3DKMT_HANDLE allocation) override {
    D3DKMT_UNLOCK2 unlock{};
    unlock.hDevice = device_;
    unlock.hAllocation = allocation;
    return with_removal(answer_of("D3DKMTUnlock2", D3DKMTUnlock2(&unlock)), device_);
  }

  CallAnswer create_fence(D3DKMT_CREATESYNCHRONIZATIONOBJECT2& args) override {
    args.hDevice = device_;
    return answer_of("D3DKMTCreateSynchronizationObject2",
                     D3DKMTCreateSynchronizationObject2(&args));
  }
  CallAnswer destroy_fence(D3DKMT_HANDLE fence) override {
    const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy{.hSyncObject = fence};
    return answer_of("D3DKMTDestroySynchronizationObject",
                     D3DKMTDestroySynchronizationObject(&destroy));
  }
  CallAnswer signal_from_gpu(D3DKMT_HANDLE context, D3DKMT_HANDLE fence, UINT64 value) override {
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal{};
    signal.hContext = context;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence;
    signal.MonitoredFenceValueArray = &value;
    return answer_of("D3DKMTSignalSynchronizationObjectFromGpu",
                     D3DKMTSignalSynchronizationObjectFromGpu(&signal));
  }
  CallAnswer wait_from_gpu(D3DKMT_HANDLE context, D3DKMT_HANDLE fence, UINT64 value) override {
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait{};
    wait.hContext = context;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.MonitoredFenceValueArray = &value;
    return answer_of("D3DKMTWaitForSynchronizationObjectFromGpu",
                     D3DKMTWaitForSynchronizationObjectFromGpu(&wait));
  }
  CallAnswer wait_from_cpu(D3DKMT_HANDLE fence, UINT64 value) override {
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
    wait.hDevice = device_;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.FenceValueArray = &value;
    return answer_of("D3DKMTWaitForSynchronizationObjectFromCpu",
                     D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
  }

 private:
  const D3DKMT_HANDLE adapter_;
  D3DKMT_HANDLE device_ = 0;
};

}  // namespace

CallAnswer with_removal(CallAnswer answer, D3DKMT_HANDLE device) {
  if (!answer.refused()) return answer;
  D3DKMT_GETDEVICESTATE state{};
  state.hDevice = device;
  state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
  const bool works = from_ntstatus(D3DKMTGetDeviceState(&state)) == Status::kSuccess &&
                     state.ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE;
  if (!works) answer.error += ": for the device it is STATUS_DEVICE_REMOVED";
  return answer;
}

CallAnswer answer_of(const char* function, NTSTATUS status) {
  const Status known = from_ntstatus(status);
  if (known == Status::kPending) return {CallAnswer::Kind::kPending, {}};
  if (is_success(known)) return {};
  const std::string_view name = status_name(known);
  return {known == Status::kNoMemory ? CallAnswer::Kind::kNoMemory : CallAnswer::Kind::kFailed,
          fmt::format("{} answered {}", function,
                      name.empty() ? fmt::format("0x{:08X}", static_cast<uint32_t>(status))
                                   : std::string(name))};
}

std::string why_lost(D3DKMT_HANDLE device) {
  D3DKMT_GETDEVICESTATE state{};
  state.hDevice = device;
  state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
  if (D3DKMTGetDeviceState(&state) != 0) return {};
  switch (state.ExecutionState) {
    case D3DKMT_DEVICEEXECUTION_RESET:
      return "an adapter reset took its device";
    case D3DKMT_DEVICEEXECUTION_HUNG:
      return "its work hung, and its device was reset";
    case D3DKMT_DEVICEEXECUTION_STOPPED:
      return "its adapter was stopped";
    case D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY:
      return "its device ran out of memory: what its work uses did not fit";
    case D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT:
      return "its device is in error after an invalid command";
    case D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT:
      return "its device is in error after a page fault of the GPU";
    default:
      return {};
  }
}

std::unique_ptr<ClientCalls> make_d3dkmt_calls(D3DKMT_HANDLE adapter) {
  return std::make_unique<D3dkmtCalls>(adapter);
}

}  // namespace dxgkit::tool
