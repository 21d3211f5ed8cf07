// An allocation of softgpu that the CPU may lock, as a client asks for it.
#pragma once

#include <d3dkmthk.h>

#include <cstdint>

#include "miniports/softgpu/softgpu_umd.h"

namespace dxgkit {

/// The arguments of D3DKMTCreateAllocation2. They point at each other, so they stay where they are.
struct StagingAllocation {
  StagingAllocation(D3DKMT_HANDLE device, uint64_t bytes) {
    wanted.magic = SGPU_UMD_ALLOCATION_MAGIC;
    wanted.version = SGPU_UMD_VERSION;
    wanted.placement = SGPU_UMD_PLACE_STAGING;
    wanted.size_bytes = bytes;
    info.pPrivateDriverData = &wanted;
    info.PrivateDriverDataSize = sizeof wanted;
    create.hDevice = device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
  }
  StagingAllocation(const StagingAllocation&) = delete;
  StagingAllocation& operator=(const StagingAllocation&) = delete;

  SgpuUmdAllocation wanted{};
  D3DDDI_ALLOCATIONINFO2 info{};  // hAllocation after the call
  D3DKMT_CREATEALLOCATION create{};
};

}  // namespace dxgkit
