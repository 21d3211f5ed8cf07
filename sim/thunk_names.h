// The thunks that clients call. A client may die in each of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "base/check.h"

namespace dxgkit::sim {

inline constexpr std::array<std::string_view, 46> kThunkNames = {
    "D3DKMTChangeVideoMemoryReservation",
    "D3DKMTCloseAdapter",
    "D3DKMTCreateAllocation2",
    "D3DKMTCreateContext",
    "D3DKMTCreateContextVirtual",
    "D3DKMTCreateDevice",
    "D3DKMTCreatePagingQueue",
    "D3DKMTCreateSynchronizationObject2",
    "D3DKMTDestroyAllocation2",
    "D3DKMTDestroyContext",
    "D3DKMTDestroyDevice",
    "D3DKMTDestroySynchronizationObject",
    "D3DKMTEnumAdapters",
    "D3DKMTEvict",
    "D3DKMTFlushHeapTransitions",
    "D3DKMTFreeGpuVirtualAddress",
    "D3DKMTGetDeviceState",
    "D3DKMTLock",
    "D3DKMTLock2",
    "D3DKMTMakeResident",
    "D3DKMTMapGpuVirtualAddress",
    "D3DKMTMarkDeviceAsError",
    "D3DKMTOfferAllocations",
    "D3DKMTOpenAdapterFromLuid",
    "D3DKMTOpenResource2",
    "D3DKMTOpenSyncObjectFromNtHandle2",
    "D3DKMTOpenSyncObjectNtHandleFromName",
    "D3DKMTQueryAdapterInfo",
    "D3DKMTQueryStatistics",
    "D3DKMTQueryVideoMemoryInfo",
    "D3DKMTReclaimAllocations",
    "D3DKMTReclaimAllocations2",
    "D3DKMTRender",
    "D3DKMTReserveGpuVirtualAddress",
    "D3DKMTSetAllocationPriority",
    "D3DKMTSetContextSchedulingPriority",
    "D3DKMTShareObjects",
    "D3DKMTSignalSynchronizationObjectFromCpu",
    "D3DKMTSignalSynchronizationObjectFromGpu",
    "D3DKMTSubmitCommand",
    "D3DKMTUnlock",
    "D3DKMTUnlock2",
    "D3DKMTUpdateGpuVirtualAddress",
    "D3DKMTWaitForIdle",
    "D3DKMTWaitForSynchronizationObjectFromCpu",
    "D3DKMTWaitForSynchronizationObjectFromGpu"};

/// A name that is not listed is a mistake of the simulation.
inline size_t thunk_index(std::string_view name) {
  const auto found = std::ranges::find(kThunkNames, name);
  DXGKIT_CHECK(found != kThunkNames.end());
  return static_cast<size_t>(found - kThunkNames.begin());
}

}  // namespace dxgkit::sim
