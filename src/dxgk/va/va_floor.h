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

/// See SyncFloor. All null: the adapter has no GPU virtual addresses. GpuVa owns the parts below it
/// and fills them in.
struct VaFloor : MemoryFloor {
  using MemoryFloor::MemoryFloor;

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

}  // namespace dxgkit::dxgk
