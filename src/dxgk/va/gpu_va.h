// GPU virtual addresses of an adapter: the parts that keep address spaces and page tables true as
// content moves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dxgk/core/device_state.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/client_addresses.h"
#include "dxgk/va/fault_explainer.h"
#include "dxgk/va/page_table_memory.h"
#include "dxgk/va/paging_space.h"
#include "dxgk/va/plan_effects.h"
#include "dxgk/va/resident_places.h"
#include "dxgk/va/stand_in_pages.h"
#include "dxgk/va/system_pages.h"
#include "dxgk/va/table_eviction.h"
#include "dxgk/va/table_planner.h"
#include "dxgk/va/update_batches.h"
#include "dxgk/va/va_floor.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Process;
class SpaceUser;

/// Owns the parts, and is in the floor together with them. Knows when contexts come and content
/// moves. Lane: the adapter's, except where a call says otherwise.
class GpuVa {
 public:
  using Work = TablePlanner::Work;

  class Owner {
   public:
    virtual ~Owner() = default;
    /// All devices are in error.
    virtual void lose_devices(DeviceState state) DXGKIT_REQUIRES(on_lane) = 0;
  };

  /// Fills in the floor; the end of this takes the parts out again.
  GpuVa(VaFloor& floor, Owner& owner, const gpuva::Geometry& geometry);
  ~GpuVa();
  GpuVa(const GpuVa&) = delete;
  GpuVa& operator=(const GpuVa&) = delete;

  /// The paging process's space: layout, tables, buffers (PAGE-02). Not on the lane.
  Status start(void* system_process, void* system_context, bus::PageFrame dummy_page);
  /// Frees all tables; no paging after it. Not on the lane.
  void stop();

  // --- contexts ---
  /// Gives the context its root as soon as that is complete. kNoMemory: there is none.
  Status attach(SpaceUser& context) DXGKIT_REQUIRES(on_lane);
  void detach(SpaceUser& context) DXGKIT_REQUIRES(on_lane);
  /// PAGE-43: a context allocation comes to its segment and stays until the driver has been asked
  /// to update it and the hardware has done so; then `done`. kNoMemory, kGraphicsAllocationBusy:
  /// no room; nothing happened.
  Status update_context(AllocationId allocation, std::vector<std::byte> data,
                        std::function<void()> done) DXGKIT_REQUIRES(on_lane);

  // --- content that moves; from the paging executor ---
  void before(const vidmm::PagingOp& op, Work* work) DXGKIT_REQUIRES(on_lane);
  void behind(std::span<const vidmm::PagingOp> operations, Work* work) DXGKIT_REQUIRES(on_lane);
  /// What stands for a content operation; null: itself (PAGE-16).
  std::unique_ptr<PagingWork> translate(const vidmm::PagingOp& op) DXGKIT_REQUIRES(on_lane);
  /// The allocation is about to go; nobody has it open any more.
  void forget(AllocationId allocation) DXGKIT_REQUIRES(on_lane) { places_.forget(allocation); }
  /// The process has no opening of the allocation left: nothing of it is mapped to it any more
  /// (ALLOC-30).
  void forget(AllocationId allocation, const Process& process) DXGKIT_REQUIRES(on_lane);
  /// The allocation has moved, and its entries are not all written yet.
  bool entries_under_way(AllocationId allocation) const DXGKIT_REQUIRES(on_lane);
  /// The hardware has lost its power, or may have: all tables are made again, and roots set. Before
  /// anything is paged: what is queued is about tables that go, and is abandoned; who waited for it
  /// goes on. Without memory for the tables all devices are lost (kErrorOutOfMemory).
  void rebuild() DXGKIT_REQUIRES(on_lane);

 private:
  Status build_again() DXGKIT_REQUIRES(on_lane);
  void free_tables() DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
  Owner& owner_;
  StandInPages stand_ins_;
  PageTableMemory tables_;
  AddressSpaces spaces_;
  ResidentPlaces places_;
  PagingSpace paging_space_;
  PlanEffects plan_effects_;
  TablePlanner planner_;
  SystemPages system_pages_;
  TableEviction table_eviction_;
  UpdateBatches updates_;
  FaultExplainer fault_explainer_;
  ClientAddresses client_addresses_;
};

}  // namespace dxgkit::dxgk
