// Allocations: create, destroy, CPU access, priority, residency status, offers.
#include "umd/call.h"

namespace dxgkit::umd {
namespace {

// The lists of results are the driver's, and the kernel fills them.
static_assert(D3DDDI_RESIDENCYSTATUS_RESIDENTINGPUMEMORY ==
              static_cast<int>(D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY));
static_assert(D3DDDI_RESIDENCYSTATUS_NOTRESIDENT ==
              static_cast<int>(D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT));
static_assert(D3DDDI_OFFER_PRIORITY_LOW == static_cast<int>(D3DKMT_OFFER_PRIORITY_LOW));
static_assert(D3DDDI_OFFER_PRIORITY_AUTO == static_cast<int>(D3DKMT_OFFER_PRIORITY_AUTO));

HRESULT allocate(const RuntimeDevice& device, D3DDDICB_ALLOCATE& args) {
  RuntimeResource* resource = nullptr;
  if (args.hResource != nullptr) {
    resource = RuntimeResource::find(args.hResource);
    if (resource == nullptr || &resource->device() != &device) return E_INVALIDARG;
  }
  D3DKMT_CREATEALLOCATION create{};
  create.hDevice = device.kernel_handle();
  create.pPrivateDriverData = args.pPrivateDriverData;
  create.PrivateDriverDataSize = args.PrivateDriverDataSize;
  create.NumAllocations = args.NumAllocations;
  create.pAllocationInfo = args.pAllocationInfo;
  if (resource != nullptr) {
    create.hResource = resource->kernel_handle();
    create.Flags.CreateResource = create.hResource == 0 ? 1 : 0;
    create.Flags.CreateShared = create.hResource == 0 && resource->shared() ? 1 : 0;
  }
  const HRESULT result = to_hresult(D3DKMTCreateAllocation(&create));
  if (!succeeded(result)) return result;
  args.hKMResource = create.hResource;
  if (create.Flags.CreateResource != 0) resource->set(create.hResource, create.hGlobalShare);
  return result;
}

/// A resource with all that it has, or a list, which is ignored beside a resource.
HRESULT deallocate(const RuntimeDevice& device, HANDLE resource_handle, UINT count,
                   const D3DKMT_HANDLE* list, D3DDDICB_DESTROYALLOCATION2FLAGS flags) {
  D3DKMT_DESTROYALLOCATION2 destroy{};
  destroy.hDevice = device.kernel_handle();
  destroy.Flags = flags;
  if (resource_handle != nullptr) {
    if (!find_resource(device, resource_handle, &destroy.hResource)) return E_INVALIDARG;
  } else {
    destroy.AllocationCount = count;
    destroy.phAllocationList = list;
  }
  const HRESULT result = to_hresult(D3DKMTDestroyAllocation2(&destroy));
  if (succeeded(result) && destroy.hResource != 0)
    RuntimeResource::find(resource_handle)->set(0, 0);
  return result;
}

HRESULT set_priority(const RuntimeDevice& device, const D3DDDICB_SETPRIORITY& args) {
  D3DKMT_SETALLOCATIONPRIORITY set{};
  set.hDevice = device.kernel_handle();
  if (args.hResource != nullptr && !find_resource(device, args.hResource, &set.hResource))
    return E_INVALIDARG;
  set.phAllocationList = args.HandleList;
  set.AllocationCount = args.NumAllocations;
  set.pPriorities = args.pPriorities;
  return to_hresult(D3DKMTSetAllocationPriority(&set));
}

HRESULT query_residency(const RuntimeDevice& device, const D3DDDICB_QUERYRESIDENCY& args) {
  D3DKMT_QUERYALLOCATIONRESIDENCY query{};
  query.hDevice = device.kernel_handle();
  if (args.hResource != nullptr && !find_resource(device, args.hResource, &query.hResource))
    return E_INVALIDARG;
  query.phAllocationList = args.HandleList;
  query.AllocationCount = args.NumAllocations;
  query.pResidencyStatus =
      reinterpret_cast<D3DKMT_ALLOCATIONRESIDENCYSTATUS*>(args.pResidencyStatus);
  return to_hresult(D3DKMTQueryAllocationResidency(&query));
}

HRESULT lock(const RuntimeDevice& device, D3DDDICB_LOCK& args) {
  D3DKMT_LOCK lock{};
  lock.hDevice = device.kernel_handle();
  lock.hAllocation = args.hAllocation;
  lock.PrivateDriverData = args.PrivateDriverData;
  lock.NumPages = args.NumPages;
  lock.pPages = args.pPages;
  lock.Flags = args.Flags;
  const HRESULT result = to_hresult(D3DKMTLock(&lock));
  if (!succeeded(result)) return result;
  args.hAllocation = lock.hAllocation;  // another one after Discard
  args.pData = lock.pData;
  args.GpuVirtualAddress = lock.GpuVirtualAddress;
  return result;
}

HRESULT lock2(const RuntimeDevice& device, D3DDDICB_LOCK2& args) {
  D3DKMT_LOCK2 lock{};
  lock.hDevice = device.kernel_handle();
  lock.hAllocation = args.hAllocation;
  lock.Flags = args.Flags;
  const HRESULT result = to_hresult(D3DKMTLock2(&lock));
  if (succeeded(result)) args.pData = lock.pData;
  return result;
}

/// The kernel's resources of a list of the runtime's. False: one is none of the device's.
bool find_resources(const RuntimeDevice& device, const HANDLE* handles, UINT count,
                    std::vector<D3DKMT_HANDLE>* kernel) {
  std::vector<HANDLE> captured;
  if (!is_success(thunks::capture_array(handles, count, thunks::kMaxListElements, &captured)))
    return false;
  for (const HANDLE handle : captured) {
    kernel->emplace_back();
    if (!find_resource(device, handle, &kernel->back())) return false;
  }
  return true;
}

HRESULT offer(const RuntimeDevice& device, const D3DDDICB_OFFERALLOCATIONS2& args) {
  if (args.Flags.Reserved != 0) return E_INVALIDARG;  // the kernel has another flag more
  std::vector<D3DKMT_HANDLE> resources;
  if (args.pResources != nullptr &&
      !find_resources(device, args.pResources, args.NumAllocations, &resources))
    return E_INVALIDARG;
  D3DKMT_OFFERALLOCATIONS offer{};
  offer.hDevice = device.kernel_handle();
  offer.pResources = args.pResources != nullptr ? resources.data() : nullptr;
  offer.HandleList = args.HandleList;
  offer.NumAllocations = args.NumAllocations;
  offer.Priority = static_cast<D3DKMT_OFFER_PRIORITY>(args.Priority);
  offer.Flags.AllowDecommit = args.Flags.AllowDecommit;
  return to_hresult(D3DKMTOfferAllocations(&offer));
}

HRESULT offer_without_flags(const RuntimeDevice& device, const D3DDDICB_OFFERALLOCATIONS& args) {
  D3DDDICB_OFFERALLOCATIONS2 same{};
  same.pResources = args.pResources;
  same.HandleList = args.HandleList;
  same.NumAllocations = args.NumAllocations;
  same.Priority = args.Priority;
  return offer(device, same);
}

HRESULT reclaim(const RuntimeDevice& device, const D3DDDICB_RECLAIMALLOCATIONS& args) {
  std::vector<D3DKMT_HANDLE> resources;
  if (args.pResources != nullptr &&
      !find_resources(device, args.pResources, args.NumAllocations, &resources))
    return E_INVALIDARG;
  D3DKMT_RECLAIMALLOCATIONS reclaim{};
  reclaim.hDevice = device.kernel_handle();
  reclaim.pResources = args.pResources != nullptr ? resources.data() : nullptr;
  reclaim.HandleList = args.HandleList;
  reclaim.pDiscarded = args.pDiscarded;
  reclaim.NumAllocations = args.NumAllocations;
  return to_hresult(D3DKMTReclaimAllocations(&reclaim));
}

/// Of version 2 and 3, which only name the results differently.
template <typename Args>
HRESULT reclaim_with_queue(const RuntimeDevice& device, Args& args) {
  std::vector<D3DKMT_HANDLE> resources;
  if (args.pResources != nullptr &&
      !find_resources(device, args.pResources, args.NumAllocations, &resources))
    return E_INVALIDARG;
  D3DKMT_RECLAIMALLOCATIONS2 reclaim{};
  reclaim.hPagingQueue = args.PagingQueue;
  reclaim.NumAllocations = args.NumAllocations;
  reclaim.pResources = args.pResources != nullptr ? resources.data() : nullptr;
  reclaim.HandleList = args.HandleList;
  if constexpr (requires { args.pResults; }) {
    reclaim.pResults = args.pResults;
  } else {
    reclaim.pDiscarded = args.pDiscarded;
  }
  const HRESULT result = to_hresult(D3DKMTReclaimAllocations2(&reclaim));
  if (succeeded(result)) args.PagingFenceValue = reclaim.PagingFenceValue;
  return result;
}

}  // namespace

HRESULT APIENTRY AllocateCb(HANDLE device, D3DDDICB_ALLOCATE* args) {
  return device_call(device, args, Outputs::kOnSuccess, allocate);
}
HRESULT APIENTRY DeallocateCb(HANDLE device, const D3DDDICB_DEALLOCATE* args) {
  return device_call(device, args, Outputs::kNever, [](auto& on, auto& in) {
    return deallocate(on, in.hResource, in.NumAllocations, in.HandleList, {});
  });
}
HRESULT APIENTRY Deallocate2Cb(HANDLE device, const D3DDDICB_DEALLOCATE2* args) {
  return device_call(device, args, Outputs::kNever, [](auto& on, auto& in) {
    return deallocate(on, in.hResource, in.NumAllocations, in.HandleList, in.Flags);
  });
}
HRESULT APIENTRY SetPriorityCb(HANDLE device, D3DDDICB_SETPRIORITY* args) {
  return device_call(device, args, Outputs::kNever, set_priority);
}
HRESULT APIENTRY QueryResidencyCb(HANDLE device, const D3DDDICB_QUERYRESIDENCY* args) {
  return device_call(device, args, Outputs::kNever, query_residency);
}
HRESULT APIENTRY LockCb(HANDLE device, D3DDDICB_LOCK* args) {
  return device_call(device, args, Outputs::kOnSuccess, lock);
}
HRESULT APIENTRY UnlockCb(HANDLE device, const D3DDDICB_UNLOCK* args) {
  return device_call(device, args, Outputs::kNever, [](auto& on, auto& in) {
    D3DKMT_UNLOCK unlock{};
    unlock.hDevice = on.kernel_handle();
    unlock.NumAllocations = in.NumAllocations;
    unlock.phAllocations = in.phAllocations;
    return to_hresult(D3DKMTUnlock(&unlock));
  });
}
HRESULT APIENTRY Lock2Cb(HANDLE device, D3DDDICB_LOCK2* args) {
  return device_call(device, args, Outputs::kOnSuccess, lock2);
}
HRESULT APIENTRY Unlock2Cb(HANDLE device, const D3DDDICB_UNLOCK2* args) {
  return device_call(device, args, Outputs::kNever, [](auto& on, auto& in) {
    const D3DKMT_UNLOCK2 unlock{.hDevice = on.kernel_handle(), .hAllocation = in.hAllocation};
    return to_hresult(D3DKMTUnlock2(&unlock));
  });
}
HRESULT APIENTRY InvalidateCacheCb(HANDLE device, const D3DDDICB_INVALIDATECACHE* args) {
  return device_call(device, args, Outputs::kNever, [](auto& on, auto& in) {
    D3DKMT_INVALIDATECACHE invalidate{};
    invalidate.hDevice = on.kernel_handle();
    invalidate.hAllocation = in.hAllocation;
    invalidate.Offset = in.Offset;
    invalidate.Length = in.Length;
    return to_hresult(D3DKMTInvalidateCache(&invalidate));
  });
}
HRESULT APIENTRY OfferAllocationsCb(HANDLE device, const D3DDDICB_OFFERALLOCATIONS* args) {
  return device_call(device, args, Outputs::kNever, offer_without_flags);
}
HRESULT APIENTRY OfferAllocations2Cb(HANDLE device, const D3DDDICB_OFFERALLOCATIONS2* args) {
  return device_call(device, args, Outputs::kNever, offer);
}
HRESULT APIENTRY ReclaimAllocationsCb(HANDLE device, const D3DDDICB_RECLAIMALLOCATIONS* args) {
  return device_call(device, args, Outputs::kNever, reclaim);
}
HRESULT APIENTRY ReclaimAllocations2Cb(HANDLE device, D3DDDICB_RECLAIMALLOCATIONS2* args) {
  return device_call(device, args, Outputs::kOnSuccess,
                     reclaim_with_queue<D3DDDICB_RECLAIMALLOCATIONS2>);
}
HRESULT APIENTRY ReclaimAllocations3Cb(HANDLE device, D3DDDICB_RECLAIMALLOCATIONS3* args) {
  return device_call(device, args, Outputs::kOnSuccess,
                     reclaim_with_queue<D3DDDICB_RECLAIMALLOCATIONS3>);
}
HRESULT APIENTRY UpdateAllocationPropertyCb(HANDLE device, D3DDDI_UPDATEALLOCPROPERTY* args) {
  return forward(device, args, D3DKMTUpdateAllocationProperty);
}

}  // namespace dxgkit::umd
