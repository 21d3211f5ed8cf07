// Client processes with GPU virtual addresses.
#include <algorithm>

#include "thunks/client.h"
#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

Answer<Client::PagingQueue*> Client::paging_queue(D3DKMT_HANDLE device) {
  const auto found = paging_queues_.find(device);
  if (found != paging_queues_.end()) return &found->second;
  D3DKMT_CREATEPAGINGQUEUE create{};
  create.hDevice = device;
  create.Priority = D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL;
  DXGKIT_VERIFY_TRY(check_answer("D3DKMTCreatePagingQueue", D3DKMTCreatePagingQueue(&create)));
  PagingQueue& queue = paging_queues_[device];
  queue = {create.hPagingQueue, create.hSyncObject, 0};
  return &queue;
}

Answer<uint64_t> Client::map(D3DKMT_HANDLE device, const MapWish& wish) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  const Answer<PagingQueue*> queue = paging_queue(device);
  if (!queue) return std::unexpected(queue.error());
  D3DDDI_MAPGPUVIRTUALADDRESS map{};
  map.hPagingQueue = (*queue)->handle;
  map.BaseAddress = wish.base;
  map.MinimumAddress = wish.minimum;
  map.hAllocation = wish.allocation;
  map.OffsetInPages = wish.offset_pages;
  map.SizeInPages = wish.pages;
  map.DriverProtection = wish.driver_protection;
  if (wish.allocation == 0) {
    map.Protection.Zero = wish.no_access ? 0 : 1;
    map.Protection.NoAccess = wish.no_access ? 1 : 0;
  } else {
    map.Protection.Write = wish.execute || wish.read_only ? 0 : 1;
    map.Protection.Execute = wish.execute ? 1 : 0;
  }
  const NTSTATUS status = D3DKMTMapGpuVirtualAddress(&map);
  DXGKIT_VERIFY_TRY(check_answer("D3DKMTMapGpuVirtualAddress", status));
  (*queue)->value = std::max((*queue)->value, map.PagingFenceValue);
  return map.VirtualAddress;
}

Answer<uint64_t> Client::reserve(D3DKMT_HANDLE device, uint64_t size_bytes, uint64_t base) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  const Answer<PagingQueue*> queue = paging_queue(device);
  if (!queue) return std::unexpected(queue.error());
  D3DDDI_RESERVEGPUVIRTUALADDRESS reserve{};
  reserve.hPagingQueue = (*queue)->handle;
  reserve.BaseAddress = base;
  reserve.Size = size_bytes;
  DXGKIT_VERIFY_TRY(
      check_answer("D3DKMTReserveGpuVirtualAddress", D3DKMTReserveGpuVirtualAddress(&reserve)));
  (*queue)->value = std::max((*queue)->value, reserve.PagingFenceValue);
  return reserve.VirtualAddress;
}

Answer<void> Client::free_addresses(uint64_t base, uint64_t size_bytes) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_FREEGPUVIRTUALADDRESS free{};
  free.hAdapter = adapter_;
  free.BaseAddress = base;
  free.Size = size_bytes;
  return check_answer("D3DKMTFreeGpuVirtualAddress", D3DKMTFreeGpuVirtualAddress(&free));
}

Answer<void> Client::make_resident(D3DKMT_HANDLE device,
                                   std::span<const D3DKMT_HANDLE> allocations) {
  begin_call();
  {
    const thunks::ClientScope scope(bench_.system(), process_);
    const Answer<PagingQueue*> queue = paging_queue(device);
    if (!queue) return std::unexpected(queue.error());
    D3DDDI_MAKERESIDENT resident{};
    resident.hPagingQueue = (*queue)->handle;
    resident.NumAllocations = static_cast<UINT>(allocations.size());
    resident.AllocationList = allocations.data();
    resident.Flags.CantTrimFurther = 1;
    DXGKIT_VERIFY_TRY(check_answer("D3DKMTMakeResident", D3DKMTMakeResident(&resident)));
    (*queue)->value = std::max((*queue)->value, resident.PagingFenceValue);
  }
  return wait_paging(device);
}

Answer<void> Client::evict(D3DKMT_HANDLE device, std::span<const D3DKMT_HANDLE> allocations) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_EVICT evict{};
  evict.hDevice = device;
  evict.NumAllocations = static_cast<UINT>(allocations.size());
  evict.AllocationList = allocations.data();
  evict.Flags.EvictOnlyIfNecessary = 1;
  return check_answer("D3DKMTEvict", D3DKMTEvict(&evict));
}

Answer<void> Client::wait_paging(D3DKMT_HANDLE device) {
  const auto queue = paging_queues_.find(device);
  if (queue == paging_queues_.end() || queue->second.value == 0) return {};
  return wait_fence(device, queue->second.fence, queue->second.value);
}

NTSTATUS Client::try_submit(D3DKMT_HANDLE context, uint64_t commands, uint32_t command_bytes,
                            std::span<std::byte> private_data, bool null_rendering) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_SUBMITCOMMAND submit{};
  submit.Commands = commands;
  submit.CommandLength = command_bytes;
  submit.Flags.NullRendering = null_rendering ? 1 : 0;
  submit.BroadcastContextCount = 1;
  submit.BroadcastContext[0] = context;
  submit.pPrivateDriverData = private_data.empty() ? nullptr : private_data.data();
  submit.PrivateDriverDataSize = static_cast<UINT>(private_data.size());
  ++submissions_;
  return D3DKMTSubmitCommand(&submit);
}

Answer<D3DKMT_HANDLE> Client::create_fence(D3DKMT_HANDLE device) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
  create.hDevice = device;
  create.Info.Type = D3DDDI_MONITORED_FENCE;
  DXGKIT_VERIFY_TRY(check_answer("D3DKMTCreateSynchronizationObject2",
                                 D3DKMTCreateSynchronizationObject2(&create)));
  return create.hSyncObject;
}

Answer<void> Client::wait_fence(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, uint64_t value) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
  wait.hDevice = device;
  wait.ObjectCount = 1;
  wait.ObjectHandleArray = &fence;
  wait.FenceValueArray = &value;
  return check_answer("D3DKMTWaitForSynchronizationObjectFromCpu",
                      D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
}

Answer<void> Client::update(D3DKMT_HANDLE device, D3DKMT_HANDLE context, D3DKMT_HANDLE fence,
                            uint64_t value,
                            std::span<D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION> operations) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_UPDATEGPUVIRTUALADDRESS update{};
  update.hDevice = device;
  update.hContext = context;
  update.hFenceObject = fence;
  update.NumOperations = static_cast<UINT>(operations.size());
  update.Operations = operations.data();
  update.FenceValue = value;
  return check_answer("D3DKMTUpdateGpuVirtualAddress", D3DKMTUpdateGpuVirtualAddress(&update));
}

}  // namespace dxgkit::tool::verify
