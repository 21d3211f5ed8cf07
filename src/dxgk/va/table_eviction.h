// Page tables that give way to what others need, and come back before anybody runs on them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "dxgk/memory/residency.h"
#include "dxgk/va/gpu_space.h"
#include "dxgk/va/table_planner.h"
#include "dxgk/va/va_floor.h"
#include "runtime/thread_annotations.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

class Process;

/// Entries follow from the address space, so nothing is saved. Lane: the adapter's.
class TableEviction {
 public:
  explicit TableEviction(VaFloor& floor) : floor_(floor) {}

  /// Page tables of all processes that have no work anywhere are freed; if there are none and
  /// nothing runs or pages, those of processes none of whose work is prepared. False: there were
  /// none. Not those of hardware queues, whose work nobody announces, nor of drivers that want
  /// entries invalidated first (PAGE-39).
  bool let_tables_go() DXGKIT_REQUIRES(on_lane);
  /// The page tables of the process have been evicted.
  bool tables_are_away(const Process& process) const DXGKIT_REQUIRES(on_lane);
  /// What a list of a device of the process has to fit beside: the rooms of tables that stay, and
  /// the tables the process has, or would have, if they were made anew. Cost: O(mappings).
  using TableRoom = Residency::Owner::TableRoom;
  TableRoom table_room(const Process& process) DXGKIT_REQUIRES(on_lane);
  enum class TablesThere { kYes, kSoon, kNoMemory };
  /// Work of the process is about to run: evicted tables are planned again. kSoon: what is enqueued
  /// from now on in the paging executor comes behind their writing.
  TablesThere bring_tables(const Process& process) DXGKIT_REQUIRES(on_lane);
  /// Plans evicted tables again, appended to `work`; `GpuSpace::restoring` counts it until that is
  /// done. kNoMemory: they stay away.
  Status restore_tables(const std::shared_ptr<GpuSpace>& space, TablePlanner::Work* work)
      DXGKIT_REQUIRES(on_lane);

 private:
  enum class Whose { kIdle, kQueued };
  bool may_evict(const GpuSpace& space, Whose whose) const DXGKIT_REQUIRES(on_lane);
  /// Its tables are of the kind that may give way.
  bool ever_evicts(const GpuSpace& space) const DXGKIT_REQUIRES(on_lane);
  /// The tables that show all that is mapped, from none on.
  std::vector<gpuva::TableNeed> needs_of_all(const GpuSpace& space) const DXGKIT_REQUIRES(on_lane);
  void evict_tables(GpuSpace& space) DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
};

}  // namespace dxgkit::dxgk
