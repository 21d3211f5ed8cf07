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

/// Owns the parts and puts them into the floor. Passes on to them that contexts come and go, and
/// that content moves. Lane: the adapter's, except where a call says otherwise.
class GpuVa {
 public:
  using Work = TablePlanner::Work;

  class Owner {
   public:
    virtual ~Owner() = default;
    /// Puts all devices in error.
    virtual void lose_devices(DeviceState state) DXGKIT_REQUIRES(on_lane) = 0;
  };

  /// Puts the parts into the floor. The destructor takes them out again.
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
  /// PAGE-43: brings a context allocation into its segment, has the driver update it, and calls
  /// `done` when the hardware has done so. The allocation stays there until then. kNoMemory,
  /// kGraphicsAllocationBusy: no room; nothing happened.
  Status update_context(AllocationId allocation, std::vector<std::byte> data,
                        std::function<void()> done) DXGKIT_REQUIRES(on_lane);

  // --- content that moves; from the paging executor ---
  void before(const vidmm::PagingOp& op, Work* work) DXGKIT_REQUIRES(on_lane);
  void behind(std::span<const vidmm::PagingOp> operations, Work* work) DXGKIT_REQUIRES(on_lane);
  /// The work that replaces a content operation; null: the operation stays (PAGE-16).
  std::unique_ptr<PagingWork> translate(const vidmm::PagingOp& op) DXGKIT_REQUIRES(on_lane);
  /// The allocation is about to go; nobody has it open any more.
  void forget(AllocationId allocation) DXGKIT_REQUIRES(on_lane) { places_.forget(allocation); }
  /// The process has no opening of the allocation left, so nothing of the allocation stays mapped
  /// to it (ALLOC-30).
  void forget(AllocationId allocation, const Process& process) DXGKIT_REQUIRES(on_lane);
  /// The allocation has moved, and its entries are not all written yet.
  bool entries_under_way(AllocationId allocation) const DXGKIT_REQUIRES(on_lane);
  /// The hardware has lost its power, or may have. Makes all tables again and sets the roots,
  /// before anything is paged. Queued paging is about tables that are gone: it is abandoned, and
  /// its callbacks run. Without memory for the tables all devices are lost (kErrorOutOfMemory).
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
