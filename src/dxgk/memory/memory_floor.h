// The parts of an adapter that the memory floor may use.
#pragma once

#include <atomic>
#include <vector>

#include "base/ids.h"
#include "dxgk/core/id_table.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/listing_changes.h"
#include "dxgk/sync/sync_floor.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class BackingPages;
class Budgets;
class CpuWindows;
class DeviceMemory;
class Offers;
class PagingBuffers;
class PagingExecutor;
class Residency;
class ShownAllocations;
class Teardowns;

/// See SyncFloor.
struct MemoryFloor : SyncFloor {
  using SyncFloor::SyncFloor;

  IdTable<Allocation, AllocationId> allocations DXGKIT_GUARDED_BY(on_lane);
  std::vector<DeviceMemory*> device_memories DXGKIT_GUARDED_BY(on_lane);  // creation order
  ListingChanges listing_changes;
  /// A client has offered something with AllowDecommit: who finds no pages may look for such.
  std::atomic<bool> may_decommit{false};
  BackingPages* backing_pages = nullptr;
  Budgets* budgets = nullptr;         // what each process may keep
  CpuWindows* cpu_windows = nullptr;  // what the CPU sees of allocations
  Offers* offers = nullptr;
  PagingBuffers* paging_buffers = nullptr;
  PagingExecutor* paging = nullptr;
  Residency* residency = nullptr;
  ShownAllocations* shown = nullptr;  // the display, as memory knows it
  Teardowns* teardowns = nullptr;
};

}  // namespace dxgkit::dxgk
