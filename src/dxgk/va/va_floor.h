// The parts of an adapter that the floor of GPU virtual addresses may use.
#pragma once

#include "dxgk/memory/memory_floor.h"

namespace dxgkit::dxgk {

class AddressSpaces;
class ClientAddresses;
class FaultExplainer;
class GpuVa;
class PageTableMemory;
class PagingSpace;
class PlanEffects;
class ResidentPlaces;
class StandInPages;
class SystemPages;
class TableEviction;
class TablePlanner;
class UpdateBatches;

/// The parts of the adapter's GPU virtual addresses. All null: it has none. GpuVa owns the parts
/// below it, fills them in, and empties all when it goes.
struct VaParts {
  GpuVa* gpu_va = nullptr;
  AddressSpaces* spaces = nullptr;
  ClientAddresses* client_addresses = nullptr;
  UpdateBatches* updates = nullptr;
  SystemPages* system_pages = nullptr;
  TableEviction* table_eviction = nullptr;
  FaultExplainer* fault_explainer = nullptr;
  PlanEffects* plan_effects = nullptr;
  // For the parts of GpuVa.
  TablePlanner* planner = nullptr;
  PageTableMemory* tables = nullptr;
  PagingSpace* paging_space = nullptr;
  ResidentPlaces* places = nullptr;
  StandInPages* stand_ins = nullptr;
};

/// See SyncFloor.
struct VaFloor : MemoryFloor, VaParts {
  using MemoryFloor::MemoryFloor;
};

}  // namespace dxgkit::dxgk
