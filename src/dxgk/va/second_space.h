// A process's second address space, which only the kernel uses: page-table entries are copied there
// (VA-34, PAGE-40).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "dxgk/memory/paging_executor.h"
#include "dxgk/va/gpu_space.h"
#include "gpuva/page_tables.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class PageTableMemory;
class StandInPages;
class TablePlanner;

/// A context of the driver's that runs with the root of a second space, on behalf of one of the
/// process's contexts (VA-38). Whoever holds it may have work for it under way.
struct CompanionContext {
  void* handle = nullptr;
};

/// Lane: the adapter's. Made with the process's first reservation, where the GPU writes page
/// tables; a driver whose tables the CPU writes needs none (PAGE-40).
///
/// From the bottom: the paging buffers, at the addresses they have in the paging process's space;
/// slots through which tables of both spaces are seen, each at a multiple of 64 KiB; pools, whole,
/// once for each way update batches map them. Pools are ordinary mappings, so their entries follow
/// the content. What a batch maps is copied from there: the entries it gets are those of the place
/// the pool has when the copy runs. Slots are pointed when a copy's turn comes; the paging queue
/// keeps that in order, as all of it runs on the paging node.
class SecondSpace {
 public:
  static constexpr size_t kSlots = 32;
  using Work = std::vector<std::unique_ptr<PagingWork>>;
  using Ranges = std::vector<gpuva::PageTables::CopyRange>;

  struct Parts {
    TablePlanner& planner;
    PageTableMemory& tables;
    const PagingExecutor& paging;
    const StandInPages& stand_ins;
  };
  SecondSpace(const Parts& parts, const GpuSpace& of);
  ~SecondSpace();

  /// Lays it out; what writes its tables, and sets its root, is appended to `work`. kNoMemory: no
  /// tables for it, nothing happened.
  Status build(Work* work) DXGKIT_REQUIRES(on_lane);
  const std::shared_ptr<GpuSpace>& space() const DXGKIT_REQUIRES(on_lane) { return space_; }

  /// Update batches will map the allocation like this: all of it is seen here from now on, until
  /// `forget`. Without memory for tables it is not, and batches write their entries.
  void show_pool(AllocationId pool, uint64_t pages, gpuva::Protection protection,
                 uint64_t driver_protection, Work* work) DXGKIT_REQUIRES(on_lane);
  /// Nothing of the process maps the allocation any more.
  void forget(AllocationId pool, Work* work) DXGKIT_REQUIRES(on_lane);
  bool shows(AllocationId pool) const DXGKIT_REQUIRES(on_lane);

  /// Where the entries of a step are to be had, as far as what is queued says; empty: nowhere, they
  /// have to be written. Cost: O(leaf tables concerned).
  Ranges ranges_of(const gpuva::Step& step) const DXGKIT_REQUIRES(on_lane);
  /// Points slots at the tables of a copy. `plan`: what has to be written for it, possibly nothing.
  std::vector<port::PageTableCopy> show_tables(std::span<const gpuva::PageTables::CopyRange> ranges,
                                               gpuva::Plan* plan) DXGKIT_REQUIRES(on_lane);
  /// The tables are about to be made again: slots show nothing.
  void reset_slots() DXGKIT_REQUIRES(on_lane);

 private:
  struct Way {
    AllocationId pool;
    bool write = false, execute = false;
    uint64_t driver_protection = 0;
    auto operator<=>(const Way&) const DXGKIT_REQUIRES(on_lane) = default;
  };
  Way way_of(AllocationId pool, gpuva::Protection protection, uint64_t driver_protection) const
      DXGKIT_REQUIRES(on_lane);
  uint64_t slot_page(size_t slot) const DXGKIT_REQUIRES(on_lane) {
    return first_slot_ + slot * slot_pages_;
  }
  /// The page its table begins at.
  uint64_t show(gpuva::TableId table, gpuva::Plan* plan) DXGKIT_REQUIRES(on_lane);

  const Parts parts_;
  const gpuva::Geometry geometry_;
  const std::shared_ptr<GpuSpace> space_;
  std::map<Way, gpuva::PageSpan> pools_;
  uint64_t first_slot_ = 0, slot_pages_ = 0, table_pages_ = 0;
  std::vector<gpuva::TableId> slots_;  // what each shows; kNoTable: nothing
  size_t next_slot_ = 0;               // the one that changes next
};

/// Which steps of a plan are copies, and where they run.
struct BatchCopies {
  std::shared_ptr<SecondSpace> second;
  std::shared_ptr<CompanionContext> context;
  std::map<size_t, SecondSpace::Ranges> steps;  // by index of the step
};

}  // namespace dxgkit::dxgk
