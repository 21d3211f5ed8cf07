// Memory of page tables: system pages, or room of a memory segment. It never moves; it goes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "base/status.h"
#include "bus/machine.h"
#include "dxgk/memory/memory_floor.h"
#include "gpuva/page_tables.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"
#include "vidmm/memory_manager.h"

namespace dxgkit::dxgk {

/// One table's memory.
struct TableMemory {
  port::GpuPhysicalAddress address;
  uint64_t bytes = 0;
  std::byte* cpu = nullptr;  // null: not visible to the CPU
  uint64_t paging_va = 0;    // update mode kGpuVirtual: in the paging process's space; else 0
  AllocationId room;         // in a memory segment; value 0 in system memory
  bool mapped = false;       // `cpu` is a window of the machine's
};

/// Lane: the adapter's. What page tables say follows from address spaces, so their content is never
/// saved: tables that lose their memory are built again.
class PageTableMemory {
 public:
  explicit PageTableMemory(MemoryFloor& floor) : floor_(floor) {}
  ~PageTableMemory();

  /// Aligned, of undefined content; may make others leave their places. kNoMemory: neither pages
  /// nor room; kNotSupported: `cpu_writes` in a segment the CPU does not see. Nothing stays then.
  Result<gpuva::TableId> allocate(SegmentId segment, uint64_t bytes, uint64_t alignment_bytes,
                                  bool cpu_writes) DXGKIT_REQUIRES(on_lane);
  /// Nothing on the GPU refers to it, nor will.
  void free(gpuva::TableId table) DXGKIT_REQUIRES(on_lane);
  /// From here on system pages of tables that are freed wait for those that are allocated: what is
  /// built again needs no memory that others could have taken meanwhile.
  void begin_reuse() DXGKIT_REQUIRES(on_lane);
  /// What nobody took is free.
  void end_reuse() DXGKIT_REQUIRES(on_lane);
  TableMemory& at(gpuva::TableId table) DXGKIT_REQUIRES(on_lane);
  bool contains(gpuva::TableId table) const DXGKIT_REQUIRES(on_lane) {
    return tables_.contains(table);
  }
  /// The allocation is some table's room: no content of it is worth a copy.
  bool is_room(AllocationId allocation) const DXGKIT_REQUIRES(on_lane) {
    return rooms_.contains(allocation);
  }
  /// visit(id, table), in the order they were allocated.
  template <typename Visit>
  void for_each(Visit visit) const DXGKIT_REQUIRES(on_lane) {
    for (const auto& [id, table] : tables_) visit(id, table);
  }

 private:
  bool take_spare(uint64_t alignment_bytes, TableMemory* table) DXGKIT_REQUIRES(on_lane);
  void release(const TableMemory& table) DXGKIT_REQUIRES(on_lane);
  Status place(TableMemory* table, SegmentId segment, uint64_t alignment_bytes, bool cpu_writes)
      DXGKIT_REQUIRES(on_lane);

  MemoryFloor& floor_;
  std::map<gpuva::TableId, TableMemory> tables_;
  std::set<AllocationId> rooms_;
  std::vector<TableMemory> spares_;  // in system memory; while reusing_
  bool reusing_ = false;
  uint64_t last_id_ = 0;
};

}  // namespace dxgkit::dxgk
