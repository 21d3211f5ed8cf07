// What DxgkDdiCreateAllocation may answer, and what the memory manager makes of it.
#pragma once

#include "base/status.h"
#include "port/types.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

class AdapterCore;

/// Positions of DXGK_ALLOCATIONINFOFLAGS.
enum AllocationFlag : uint32_t {
  kAllocationCpuVisible = 1U << 0,
  kAllocationPermanentSysMem = 1U << 1,
  kAllocationCached = 1U << 2,
  kAllocationProtected = 1U << 3,
  kAllocationExistingSysMem = 1U << 4,
  kAllocationExistingKernelSysMem = 1U << 5,
  kAllocationFromEndOfSegment = 1U << 6,
  kAllocationSwizzled = 1U << 7,
  kAllocationOverlay = 1U << 8,
  kAllocationCapture = 1U << 9,
  kAllocationUseAlternateVa = 1U << 10,
  kAllocationHistoryBuffer = 1U << 14,
  kAllocationAccessedPhysically = 1U << 15,  // from WDDM 2.0 on, as the next one
  kAllocationExplicitResidencyNotification = 1U << 16,
};
/// D3DDDI_ALLOCATIONPRIORITY_NORMAL.
inline constexpr uint32_t kAllocationPriorityNormal = 0x78000000;

/// Positions of DXGK_ALLOCATIONINFOFLAGS2, from WDDM 3.2 on.
enum AllocationFlag2 : uint32_t { kAllocationNotifyEviction = 1U << 4 };

/// ALLOC-05..09, 13..19, 49. `ddi`: who described it. kInvalidParameter with a finding for what
/// cannot be used; milder violations are reported and the value Windows would use is taken.
/// @param desc  as it was made; gets what `info` says
Status check_allocation_info(const port::AllocationInfo& info, AdapterCore& core,
                             vidmm::AllocationDesc* desc,
                             const char* ddi = "DxgkDdiCreateAllocation");

/// ALLOC-20: the driver says ExistingSysMem exactly where the client gives memory, of
/// `user_bytes` (0: as the driver says), and supports aperture segments only there.
/// kInvalidParameter with a finding.
Status check_existing_memory(const port::AllocationInfo& info, AdapterCore& core, bool given,
                             uint64_t user_bytes);

}  // namespace dxgkit::dxgk
