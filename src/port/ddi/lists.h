// The lists of DMA buffers. Our lists have the layout of the ABI's.
#pragma once

#include <dispmprt.h>

#include <cstddef>

#include "port/types.h"

namespace dxgkit::port {

static_assert(sizeof(AllocationListEntry) == sizeof(DXGK_ALLOCATIONLIST));
static_assert(offsetof(AllocationListEntry, bits) == 8 &&
              offsetof(DXGK_ALLOCATIONLIST, PhysicalAddress) == 16);
static_assert(offsetof(AllocationListEntry, physical_address) == 16);
static_assert(sizeof(PatchLocation) == sizeof(D3DDDI_PATCHLOCATIONLIST));
static_assert(offsetof(PatchLocation, allocation_offset) ==
              offsetof(D3DDDI_PATCHLOCATIONLIST, AllocationOffset));
static_assert(offsetof(PatchLocation, patch_offset) ==
              offsetof(D3DDDI_PATCHLOCATIONLIST, PatchOffset));
static_assert(offsetof(PatchLocation, split_offset) ==
              offsetof(D3DDDI_PATCHLOCATIONLIST, SplitOffset));

inline const DXGK_ALLOCATIONLIST* to_abi(const AllocationListEntry* list) {
  return reinterpret_cast<const DXGK_ALLOCATIONLIST*>(list);
}
inline const D3DDDI_PATCHLOCATIONLIST* to_abi(const PatchLocation* list) {
  return reinterpret_cast<const D3DDDI_PATCHLOCATIONLIST*>(list);
}
}  // namespace dxgkit::port
