// The parts of an adapter that the floor of GPU virtual addresses may use.
#pragma once

#include "dxgk/memory/memory_floor.h"

namespace dxgkit::dxgk {

class GpuVa;

/// See SyncFloor.
struct VaFloor : MemoryFloor {
  using MemoryFloor::MemoryFloor;

  GpuVa* gpu_va = nullptr;  // null: the adapter has no GPU virtual addresses
};

}  // namespace dxgkit::dxgk
