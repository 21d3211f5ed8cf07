// A DMA buffer: what a driver builds commands in, and what travels with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "bus/machine.h"
#include "dxgk/memory/allocation.h"
#include "port/types.h"

namespace dxgkit::dxgk {

class DmaBufferPool;

/// A DMA buffer with everything that travels with it. Owned by its context's pool; packets count as
/// users.
///
/// Lane: the adapter's, except while a render call owns it exclusively (between acquire and
/// queueing).
struct DmaBuffer {
  port::DmaBufferView
      view;  // segment and address filled at submission when it lives in an aperture segment
  bus::PageFrame pages;  // contiguous backing
  uint64_t page_count = 0;
  uint64_t gpu_va = 0;  // of a paging buffer, in the paging process's space
  std::vector<std::byte> private_storage;
  std::vector<port::AllocationListEntry>
      allocations;  // as the driver got it at Render; places refilled at Patch
  /// By list index; null where the client's entry was NULL. Each counts in OpenedAllocation::uses,
  /// which keeps it alive: no thread but the lane's pays for a packet's references.
  std::vector<OpenedAllocation*> references;
  /// Those of `references` that its commands may write. Each counts in OpenedAllocation::writes.
  std::vector<OpenedAllocation*> written;
  std::vector<port::PatchLocation> patches;
  uint32_t allocation_count = 0, patch_count = 0;
  AllocationId memory;  // in an aperture segment: its allocation in vidmm; value 0 when contiguous
                        // system memory
  uint32_t users = 0;
  uint64_t places_as_of = 0;     // MemoryManager::plans() when places were put in `allocations`
  uint32_t broadcast_bytes = 0;  // commands in it, if they went to several contexts (PREEMPT-17)
  DmaBufferPool* pool = nullptr;
};

}  // namespace dxgkit::dxgk
