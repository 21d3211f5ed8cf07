// Plans of page tables: what they are to say, and the memory for them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/va/gpu_space.h"
#include "dxgk/va/second_space.h"
#include "dxgk/va/va_floor.h"
#include "gpuva/page_tables.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Lane: the adapter's.
///
/// Page-table work is planned when something is decided, and enters the paging executor's queue at
/// once. The executor keeps that order, together with the content operations. So the last plan
/// holds in the end, a table never names a place that its allocation has left, and an address is
/// freed after everything that was queued for it (VA-42). An entry is valid while its page is
/// mapped and the allocation is in a segment (VA-29). So entries become invalid before an operation
/// that takes the allocation out of its segment, and are written after one that brings it in.
class TablePlanner {
 public:
  using Work = std::vector<std::unique_ptr<PagingWork>>;

  /// A table that was allocated and not used.
  struct Spare {
    gpuva::TableNeed need;
    gpuva::TableGrant grant;
  };
  /// What is planned of one space, together with that of others.
  struct Planned {
    std::shared_ptr<GpuSpace> space;
    gpuva::PageSpans changed;
    const gpuva::PieceSource* source = nullptr;
    gpuva::Plan* plan = nullptr;
    bool with_root = false;
    Status status = Status::kSuccess;  // kNoMemory: nothing happened to this one
    // While it is made:
    gpuva::PageTables::Draft draft = {};
    uint64_t version = 0;
    std::vector<Spare> used = {};
  };
  enum class Tables { kExisting, kMore };

  explicit TablePlanner(VaFloor& floor) : floor_(floor) {}

  /// Tables for what changed, and the steps that write it. kNoMemory: nothing happened.
  Status plan(const std::shared_ptr<GpuSpace>& space, std::span<const gpuva::PageSpan> changed,
              const gpuva::PieceSource& source, gpuva::Plan* plan, bool with_root = false)
      DXGKIT_REQUIRES(on_lane);
  /// The same for a space whose tables are evicted, of which plan() plans nothing.
  Status plan_all_tables(const std::shared_ptr<GpuSpace>& space,
                         std::span<const gpuva::PageSpan> changed, const gpuva::PieceSource& source,
                         gpuva::Plan* plan, bool with_root) DXGKIT_REQUIRES(on_lane);
  /// One plan per space. None is made before all have their tables: making room for a table queues
  /// operations, which a plan that is made and not queued would come behind.
  void plan_together(std::span<Planned> all, Tables tables) DXGKIT_REQUIRES(on_lane);
  /// The steps become work. With `companion` what a second space shows is copied there.
  void append(const std::shared_ptr<GpuSpace>& space, gpuva::Plan steps, Work* work,
              const std::shared_ptr<CompanionContext>& companion = nullptr)
      DXGKIT_REQUIRES(on_lane);

  /// The first root of a space.
  Status plan_root(const std::shared_ptr<GpuSpace>& space, Work* work) DXGKIT_REQUIRES(on_lane);
  /// Plans `changed` in a process's space, and what is owed there, appended to `work`. kNoMemory:
  /// nothing happened.
  Status replan(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed, Work* work,
                const std::shared_ptr<CompanionContext>& companion = nullptr)
      DXGKIT_REQUIRES(on_lane);
  /// The same for changes that cannot be undone: without memory for tables it hides them, and the
  /// devices with contexts in the space are in error.
  void replan_or_hide(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed,
                      Work* work) DXGKIT_REQUIRES(on_lane);
  /// For want of memory for tables the entries concerned become invalid, which needs no table, and
  /// the pages are owed (GpuSpace::owed). kOthersToo: an entry of 64 KiB, or a large one, showed
  /// pages beside those that changed.
  enum class Hidden { kChangedOnly, kOthersToo };
  Hidden hide(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed, Work* work)
      DXGKIT_REQUIRES(on_lane);
  /// Plans every mapping of the allocation again, for the place where the allocation is now. A
  /// space without memory for tables hides them, and its next work waits until the memory is there.
  /// Where it cannot wait, or work that is prepared uses pages that are hidden beside them, the
  /// devices with contexts in the space are in error.
  void follow(AllocationId allocation, Tables tables, Work* work) DXGKIT_REQUIRES(on_lane);

  /// Plans `changed` in a second space, with its root; appended to `work`. kNoMemory: nothing
  /// happened.
  Status plan_kernel_space(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed,
                           Work* work) DXGKIT_REQUIRES(on_lane);
  /// The same for pages whose tables are there, when their turn has come.
  Status point_kernel_space(const std::shared_ptr<GpuSpace>& space, gpuva::PageSpan changed,
                            gpuva::Plan* plan) DXGKIT_REQUIRES(on_lane);

  /// Tables of plans that came to nothing give their room back, which else happens when the lane is
  /// free. Not from inside a plan: whoever gets the room plans too, and would queue that before
  /// this plan is queued.
  void free_unused() DXGKIT_REQUIRES(on_lane);

 private:
  Result<gpuva::TableGrant> grant(const GpuSpace& space, const gpuva::TableNeed& need)
      DXGKIT_REQUIRES(on_lane);
  void fail_devices(const std::shared_ptr<GpuSpace>& space) DXGKIT_REQUIRES(on_lane);
  void free_later(std::span<const Spare> spares) DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
  std::vector<gpuva::TableId> unused_ DXGKIT_GUARDED_BY(on_lane);  // and not freed yet
};

}  // namespace dxgkit::dxgk
