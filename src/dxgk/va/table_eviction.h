// Evicts the page tables of processes that do not run, and makes them again before they do.
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

/// Nothing is saved of evicted tables: their entries follow from the address space. Lane: the
/// adapter's.
class TableEviction {
 public:
  explicit TableEviction(VaFloor& floor) : floor_(floor) {}

  /// Evicts the page tables of all processes that have no work queued or running. If there are
  /// none, and nothing runs or pages, evicts those of processes whose queued work is not prepared
  /// yet. Processes with hardware queues keep their tables, because nobody announces their work.
  /// All processes keep theirs where the driver wants entries invalidated first (PAGE-39). False:
  /// no table was evicted.
  bool let_tables_go() DXGKIT_REQUIRES(on_lane);
  /// The page tables of the process have been evicted.
  bool tables_are_away(const Process& process) const DXGKIT_REQUIRES(on_lane);
  /// What a residency list of the process has to fit beside: the memory of tables that are never
  /// evicted, and the tables that the process would have if all of them were made. Cost:
  /// O(mappings).
  using TableRoom = Residency::Owner::TableRoom;
  TableRoom table_room(const Process& process) DXGKIT_REQUIRES(on_lane);
  /// Work of the process runs, or is prepared to.
  bool in_use(const GpuSpace& space) const DXGKIT_REQUIRES(on_lane);
  /// Work of the space can wait for memory for its tables: it is prepared only once bring_tables()
  /// has brought what the space owes (GpuSpace::owed).
  bool room_may_come(const GpuSpace& space) const DXGKIT_REQUIRES(on_lane);
  /// The same of the process's space; false: it has none.
  bool tables_give_way(const Process& process) const DXGKIT_REQUIRES(on_lane);
  /// See Residency::Owner.
  using Tables = Residency::Owner::Tables;
  Tables bring_tables(const Process& process) DXGKIT_REQUIRES(on_lane);
  /// Plans evicted tables again and appends the work to `work`. GpuSpace::restoring is counted up;
  /// the caller counts it down when the work is done. kNoMemory: the tables stay evicted.
  Status restore_tables(const std::shared_ptr<GpuSpace>& space, TablePlanner::Work* work)
      DXGKIT_REQUIRES(on_lane);

 private:
  enum class Whose { kIdle, kQueued };
  bool may_evict(const GpuSpace& space, Whose whose) const DXGKIT_REQUIRES(on_lane);
  /// Some level has its tables in a segment. Elsewhere they are in nobody's way, and there is no
  /// room to wait for.
  bool in_segments() const;
  /// The tables of the space may be evicted at some time.
  bool ever_evicts(const GpuSpace& space) const DXGKIT_REQUIRES(on_lane);
  /// The tables that show all that is mapped, from none on.
  std::vector<gpuva::TableNeed> needs_of_all(const GpuSpace& space) const DXGKIT_REQUIRES(on_lane);
  void evict_tables(GpuSpace& space) DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
};

}  // namespace dxgkit::dxgk
