#include "tests/contract/res_fixture.h"

#include <atomic>

namespace dxgkit::contract {

void explicit_residency(ScriptedMiniport& miniport) {
  miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
  dxgkit::testing::ScriptedSegment memory = miniport.config.segments[1];
  memory.size = kMemoryUnits * kUnit;
  miniport.config.segments = {memory, miniport.config.segments[2]};
}

D3DDDI_MAKERESIDENT_FLAGS cant_trim(bool must_succeed) {
  D3DDDI_MAKERESIDENT_FLAGS flags{};
  flags.CantTrimFurther = 1;
  flags.MustSucceed = must_succeed ? 1 : 0;
  return flags;
}

uint64_t Queue::value() const {
  if (address == nullptr) return 0;
  return std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(address)).load();
}

NTSTATUS ListingClient::create_queue(Queue* out, int priority, UINT physical_adapter,
                                     D3DKMT_HANDLE on) {
  D3DKMT_CREATEPAGINGQUEUE args{};
  args.hDevice = on == 0 ? device : on;
  args.Priority = static_cast<D3DDDI_PAGINGQUEUE_PRIORITY>(priority);
  args.PhysicalAdapterIndex = physical_adapter;
  const NTSTATUS status = call([&] { return D3DKMTCreatePagingQueue(&args); });
  *out = {args.hPagingQueue, args.hSyncObject, args.FenceValueCPUVirtualAddress};
  return status;
}

Queue ListingClient::make_queue(int priority) {
  Queue made;
  EXPECT_EQ(create_queue(&made, priority), 0);
  return made;
}

NTSTATUS ListingClient::destroy_queue(D3DKMT_HANDLE which) {
  D3DDDI_DESTROYPAGINGQUEUE args{};
  args.hPagingQueue = which;
  NTSTATUS status = 0;
  stack.blocking([&] { status = call([&] { return D3DKMTDestroyPagingQueue(&args); }); });
  return status;
}

D3DDDI_MAKERESIDENT ListingClient::make_resident(std::vector<D3DKMT_HANDLE> list, NTSTATUS* status,
                                                 D3DDDI_MAKERESIDENT_FLAGS flags,
                                                 D3DKMT_HANDLE on) {
  D3DDDI_MAKERESIDENT args{};
  args.hPagingQueue = on == 0 ? queue.handle : on;
  args.NumAllocations = static_cast<UINT>(list.size());
  args.AllocationList = list.data();
  args.PriorityList = reinterpret_cast<const UINT*>(uintptr_t{0x10});  // RES-10: never looked at
  args.Flags = flags;
  args.PagingFenceValue = args.NumBytesToTrim = 0x5C5C5C5C;
  *status = call([&] { return D3DKMTMakeResident(&args); });
  return args;
}

NTSTATUS ListingClient::make_resident(std::vector<D3DKMT_HANDLE> list,
                                      D3DDDI_MAKERESIDENT_FLAGS flags) {
  NTSTATUS status = 0;
  static_cast<void>(make_resident(std::move(list), &status, flags));
  return status;
}

NTSTATUS ListingClient::evict(std::vector<D3DKMT_HANDLE> list, UINT flags, uint64_t* trim) {
  D3DKMT_EVICT args{};
  args.hDevice = device;
  args.NumAllocations = static_cast<UINT>(list.size());
  args.AllocationList = list.data();
  args.Flags.Value = flags;
  args.NumBytesToTrim = 0x5C5C5C5C;
  const NTSTATUS status = call([&] { return D3DKMTEvict(&args); });
  if (trim != nullptr) *trim = args.NumBytesToTrim;
  return status;
}

D3DKMT_QUERYVIDEOMEMORYINFO ListingClient::memory(D3DKMT_MEMORY_SEGMENT_GROUP group) {
  D3DKMT_QUERYVIDEOMEMORYINFO args{};
  args.hAdapter = adapter;
  args.MemorySegmentGroup = group;
  EXPECT_EQ(call([&] { return D3DKMTQueryVideoMemoryInfo(&args); }), 0);
  return args;
}

D3DKMT_ALLOCATIONRESIDENCYSTATUS ListingClient::where(D3DKMT_HANDLE allocation) {
  D3DKMT_ALLOCATIONRESIDENCYSTATUS answer{};
  D3DKMT_QUERYALLOCATIONRESIDENCY args{};
  args.hDevice = device;
  args.phAllocationList = &allocation;
  args.AllocationCount = 1;
  args.pResidencyStatus = &answer;
  EXPECT_EQ(call([&] { return D3DKMTQueryAllocationResidency(&args); }), 0);
  return answer;
}

}  // namespace dxgkit::contract
