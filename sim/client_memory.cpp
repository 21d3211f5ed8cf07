// Residency, offers, the older lock: a client's calls about the place of its memory.
#include <algorithm>

#include "sim/client_call.h"

namespace dxgkit::sim {

bool Client::create_paging_queue() {
  D3DKMT_CREATEPAGINGQUEUE create{};
  create.hDevice = device_;
  create.Priority = D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL;
  const NTSTATUS status =
      call("D3DKMTCreatePagingQueue", [&] { return D3DKMTCreatePagingQueue(&create); });
  if (!accepted("D3DKMTCreatePagingQueue", status)) return false;
  paging_queue_ = create.hPagingQueue;
  paging_fence_ = create.hSyncObject;
  return true;
}

bool Client::make_resident(Context& context, std::span<Allocation* const> used) {
  if (!world_.plan.explicit_residency) return true;
  std::vector<D3DKMT_HANDLE> list;
  for (const Allocation* const allocation : used) {
    if (!allocation->resident) list.push_back(allocation->handle);
  }
  if (list.empty()) return true;
  asked_.assign(used.begin(), used.end());
  asked_bytes_ = 0;
  asked_staging_bytes_ = 0;
  for (const Allocation* const allocation : used) {
    const uint64_t bytes = align_up(allocation->size(), kPageBytes);
    asked_bytes_ += bytes;
    if (allocation->placement == SGPU_UMD_PLACE_STAGING) asked_staging_bytes_ += bytes;
  }
  D3DDDI_MAKERESIDENT resident{};
  resident.hPagingQueue = paging_queue_;
  resident.NumAllocations = static_cast<UINT>(list.size());
  resident.AllocationList = list.data();
  resident.Flags.CantTrimFurther = random_.percent(20) ? 1 : 0;
  NTSTATUS status = call("D3DKMTMakeResident", [&] { return D3DKMTMakeResident(&resident); });
  if (from_ntstatus(status) == Status::kNoMemory) {
    ++world_.counters.refused_calls;
    if (!trim(used)) return false;
    resident.NumAllocations = static_cast<UINT>(list.size());
    resident.Flags.CantTrimFurther = 1;
    status = call("D3DKMTMakeResident", [&] { return D3DKMTMakeResident(&resident); });
  }
  if (!accepted("D3DKMTMakeResident", status)) return false;
  for (Allocation* const allocation : used) allocation->resident = true;
  if (from_ntstatus(status) != Status::kPending) return true;
  after_paging(context, resident.PagingFenceValue);
  return true;
}

void Client::after_paging(Context& context, uint64_t value) {
  if (random_.percent(50)) {
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait{};
    wait.hContext = context.handle;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &paging_fence_;
    wait.MonitoredFenceValueArray = &value;
    const NTSTATUS status = call("D3DKMTWaitForSynchronizationObjectFromGpu",
                                 [&] { return D3DKMTWaitForSynchronizationObjectFromGpu(&wait); });
    if (accepted("D3DKMTWaitForSynchronizationObjectFromGpu", status)) return;
  }
  wait_for_paging(value);
}

void Client::wait_for_paging(uint64_t value) {
  unlock_all();
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
  wait.hDevice = device_;
  wait.ObjectCount = 1;
  wait.ObjectHandleArray = &paging_fence_;
  wait.FenceValueArray = &value;
  const NTSTATUS status = call("D3DKMTWaitForSynchronizationObjectFromCpu",
                               [&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&wait); });
  if (!accepted("D3DKMTWaitForSynchronizationObjectFromCpu", status))
    fail("a wait for residency was refused");
}

bool Client::evict(std::span<Allocation* const> allocations) {
  if (!world_.plan.explicit_residency || allocations.empty()) return true;
  std::vector<D3DKMT_HANDLE> list;
  for (const Allocation* const allocation : allocations) list.push_back(allocation->handle);
  D3DKMT_EVICT evict{};
  evict.hDevice = device_;
  evict.NumAllocations = static_cast<UINT>(list.size());
  evict.AllocationList = list.data();
  evict.Flags.EvictOnlyIfNecessary = random_.percent(50) ? 1 : 0;
  const NTSTATUS status = call("D3DKMTEvict", [&] { return D3DKMTEvict(&evict); });
  if (!accepted("D3DKMTEvict", status)) return false;
  for (Allocation* const allocation : allocations) allocation->resident = false;
  return true;
}

bool Client::may_not_fit() const {
  if (world_.strangers_work) return true;
  if (asked_bytes_ > world_.plan.vram_bytes) return true;
  if (asked_staging_bytes_ > world_.plan.aperture_bytes) return true;
  if (world_.plan.memory_model != 2) return false;
  uint64_t sum = 0;
  uint64_t largest = 0;
  for (const auto& allocation : allocations_) {
    const bool asked = std::ranges::find(asked_, allocation.get()) != asked_.end();
    if (!allocation->resident && !asked) continue;
    sum += allocation->size();
    largest = std::max(largest, allocation->size());
  }
  return sum > world_.plan.vram_bytes / 2 || largest > world_.plan.vram_bytes / 4;
}

bool Client::trim(std::span<Allocation* const> but) {
  std::vector<Allocation*> others;
  for (const auto& allocation : allocations_) {
    if (allocation->resident && std::ranges::find(but, allocation.get()) == but.end())
      others.push_back(allocation.get());
  }
  return evict(others);
}

bool Client::offer(Allocation& allocation) {
  D3DKMT_OFFERALLOCATIONS offer{};
  offer.hDevice = device_;
  offer.HandleList = &allocation.handle;
  offer.NumAllocations = 1;
  offer.Priority = static_cast<D3DKMT_OFFER_PRIORITY>(
      random_.between(D3DKMT_OFFER_PRIORITY_LOW, D3DKMT_OFFER_PRIORITY_AUTO));
  const NTSTATUS status =
      call("D3DKMTOfferAllocations", [&] { return D3DKMTOfferAllocations(&offer); });
  if (!accepted("D3DKMTOfferAllocations", status)) return false;
  allocation.offered = true;
  return true;
}

bool Client::reclaim(Allocation& allocation) {
  BOOL discarded = 0;
  if (world_.plan.explicit_residency) {
    // It comes back when there is room beside the rest of the list: make some, or it never does.
    Allocation* const self = &allocation;
    if (!trim(std::span(&self, 1))) return false;
    D3DKMT_RECLAIMALLOCATIONS2 reclaim{};
    reclaim.hPagingQueue = paging_queue_;
    reclaim.HandleList = &allocation.handle;
    reclaim.pDiscarded = &discarded;
    reclaim.NumAllocations = 1;
    const NTSTATUS status =
        call("D3DKMTReclaimAllocations2", [&] { return D3DKMTReclaimAllocations2(&reclaim); });
    if (!accepted("D3DKMTReclaimAllocations2", status)) return false;
    if (reclaim.PagingFenceValue != 0) wait_for_paging(reclaim.PagingFenceValue);
  } else {
    D3DKMT_RECLAIMALLOCATIONS reclaim{};
    reclaim.hDevice = device_;
    reclaim.HandleList = &allocation.handle;
    reclaim.pDiscarded = &discarded;
    reclaim.NumAllocations = 1;
    const NTSTATUS status =
        call("D3DKMTReclaimAllocations", [&] { return D3DKMTReclaimAllocations(&reclaim); });
    if (!accepted("D3DKMTReclaimAllocations", status)) return false;
  }
  allocation.offered = false;
  if (discarded == 0) return true;
  ++world_.counters.offers_discarded;
  allocation.content.open(0, allocation.size());  // anything that was ever its own
  return true;
}

bool Client::lock_discarding(Allocation& allocation) {
  unlock_all();  // it may wait for an instance to become idle, and that for room
  D3DKMT_LOCK lock{};
  lock.hDevice = device_;
  lock.hAllocation = allocation.handle;
  lock.Flags.LockEntire = 1;
  lock.Flags.Discard = 1;
  const NTSTATUS status = call("D3DKMTLock", [&] { return D3DKMTLock(&lock); });
  if (!accepted("D3DKMTLock", status)) return false;
  if (lock.hAllocation != allocation.handle) {
    ++world_.counters.renamings;
    allocation.handle = lock.hAllocation;
  }
  allocation.locked = static_cast<std::byte*>(lock.pData);
  allocation.content.open(0, allocation.size());
  allocation.written = {};
  allocation.read.clear();
  return true;
}

void Client::unlock_older(Allocation& allocation) {
  allocation.locked = nullptr;
  D3DKMT_UNLOCK unlock{};
  unlock.hDevice = device_;
  unlock.NumAllocations = 1;
  unlock.phAllocations = &allocation.handle;
  const NTSTATUS status = call("D3DKMTUnlock", [&] { return D3DKMTUnlock(&unlock); });
  static_cast<void>(accepted("D3DKMTUnlock", status));
}

void Client::op_allocation_priority() {
  Allocation* const allocation = any_allocation();
  if (allocation == nullptr || allocation->resource != 0) return;
  const UINT priority = static_cast<UINT>(random_.next()) | 1U;
  D3DKMT_SETALLOCATIONPRIORITY set{};
  set.hDevice = device_;
  set.phAllocationList = &allocation->handle;
  set.AllocationCount = 1;
  set.pPriorities = &priority;
  const NTSTATUS status =
      call("D3DKMTSetAllocationPriority", [&] { return D3DKMTSetAllocationPriority(&set); });
  static_cast<void>(accepted("D3DKMTSetAllocationPriority", status));
}

void Client::check_budget() {
  for (const auto group :
       {D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL, D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL}) {
    D3DKMT_QUERYVIDEOMEMORYINFO query{};
    query.hAdapter = adapter_;
    query.MemorySegmentGroup = group;
    NTSTATUS status =
        call("D3DKMTQueryVideoMemoryInfo", [&] { return D3DKMTQueryVideoMemoryInfo(&query); });
    if (!accepted("D3DKMTQueryVideoMemoryInfo", status)) return;
    ++world_.counters.property_checks;
    const bool local = group == D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL;
    const uint64_t size = local ? world_.plan.vram_bytes : world_.plan.aperture_bytes;
    if (query.CurrentUsage > size || query.Budget > size)  // P12
      fail(fmt::format("the budget is {} and the usage {} of {} bytes", query.Budget,
                       query.CurrentUsage, size));
    if (!world_.plan.faults.has(FaultKind::kBudgetCut)) continue;
    // A reservation of one process reduces the budgets of the others. When no more faults are
    // injected, it is released.
    D3DKMT_CHANGEVIDEOMEMORYRESERVATION change{};
    change.hAdapter = adapter_;
    change.MemorySegmentGroup = group;
    if (!world_.faults.healed())
      change.Reservation = random_.below(query.AvailableForReservation + 1);
    status = call("D3DKMTChangeVideoMemoryReservation",
                  [&] { return D3DKMTChangeVideoMemoryReservation(&change); });
    // Others may have reserved since it asked.
    if (is_success(from_ntstatus(status))) world_.faults.count(FaultKind::kBudgetCut);
  }
}

}  // namespace dxgkit::sim
