// Destroying allocations: handles go at once, the rest when nothing uses them any more.
#pragma once

#include <memory>
#include <vector>

#include "base/ids.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/id_table.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/listing_changes.h"
#include "dxgk/memory/sharing.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class BackingPages;
class CpuWindows;
class DeviceMemory;
class PagingExecutor;
class Process;
class Residency;

/// Closes and destroys openings once nothing uses them: unmap or discard, then
/// DxgkDdiCloseAllocation, DxgkDdiDestroyAllocation, backing pages (ALLOC-26, ALLOC-27). Requests
/// go in the order they came, except that one that is in use holds up no other. Knows the shared
/// resources of the adapter, as their last user's end is a request, too.
///
/// Lane: the adapter's.
class Teardowns {
 public:
  /// GPU virtual addresses hear of what goes. In the patch model nobody does.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// An opening of the allocation closes: page tables of idle processes may give way.
    virtual void allocation_closes(AllocationId allocation) DXGKIT_REQUIRES(on_lane) = 0;
    /// No device of the process has it open any more (ALLOC-30).
    virtual void process_has_closed(AllocationId allocation, Process& process)
        DXGKIT_REQUIRES(on_lane) = 0;
    virtual void allocation_ends(AllocationId allocation) DXGKIT_REQUIRES(on_lane) = 0;
  };
  struct Parts {
    IdTable<Allocation, AllocationId>& allocations;
    ListingChanges& listing_changes;
    PagingExecutor& paging;
    Residency& residency;
    CpuWindows& cpu_windows;
    BackingPages& backing;
  };
  Teardowns(AdapterCore& core, Owner& owner, const Parts& parts)
      : core_(core),
        owner_(owner),
        allocations_(parts.allocations),
        listing_changes_(parts.listing_changes),
        paging_(parts.paging),
        residency_(parts.residency),
        cpu_windows_(parts.cpu_windows),
        backing_(parts.backing) {}

  /// One list of openings, or all of `resource` when given. Counts in DeviceMemory::teardowns.
  void begin(DeviceMemory& device, std::vector<Ref<OpenedAllocation>> openings,
             Ref<Resource> resource) DXGKIT_REQUIRES(on_lane);
  /// Something may not be in use any more.
  void advance() DXGKIT_REQUIRES(on_lane);
  bool empty() const DXGKIT_REQUIRES(on_lane) { return teardowns_.empty(); }
  /// An allocation without a driver object (a DMA buffer): unmapped, then its pages go back. Unused
  /// when called.
  void free_internal(Allocation& allocation) DXGKIT_REQUIRES(on_lane);

  void add_shared(Ref<SharedResource> resource) DXGKIT_REQUIRES(on_lane) {
    shared_.push_back(std::move(resource));
  }
  /// One descriptor, or opening under way, less: the shared resource goes with its last holder.
  void drop_hold(SharedResource& resource) DXGKIT_REQUIRES(on_lane);
  /// At the end: descriptors hold nothing any more.
  void end_shared_resources() DXGKIT_REQUIRES(on_lane);

 private:
  /// One destroy request: a list of openings, or a resource with all of them (closed together,
  /// ALLOC-26).
  struct Teardown {
    enum class Phase { kInUse, kPaging, kDone };
    Phase phase = Phase::kInUse;
    DeviceMemory* device = nullptr;
    std::vector<Ref<OpenedAllocation>> openings;
    Ref<Resource> resource;
    Ref<SharedResource> orphan;      // no device has it open any more: `device` is null
    std::vector<Allocation*> dying;  // those nothing holds any more, from kPaging on
    bool ends_resource = false;      // nothing holds the resource any more, likewise
  };
  /// Whether closing `teardown`'s openings ends `allocation`.
  static bool ends(const Teardown& teardown, const Allocation& allocation) DXGKIT_REQUIRES(on_lane);
  bool quiet(const Allocation& allocation) DXGKIT_REQUIRES(on_lane);
  void forget_shared(SharedResource& resource) DXGKIT_REQUIRES(on_lane);
  bool ready(const Teardown& teardown) DXGKIT_REQUIRES(on_lane);
  /// The handle is gone, and with it what the CPU had: work queued before may need it unlocked.
  void drop_locks(const Teardown& teardown) DXGKIT_REQUIRES(on_lane);
  void begin_closing(Teardown& teardown) DXGKIT_REQUIRES(on_lane);
  void finish_closing(Teardown& teardown) DXGKIT_REQUIRES(on_lane);

  AdapterCore& core_;
  Owner& owner_;
  IdTable<Allocation, AllocationId>& allocations_;
  ListingChanges& listing_changes_;
  PagingExecutor& paging_;
  Residency& residency_;
  CpuWindows& cpu_windows_;
  BackingPages& backing_;
  std::vector<std::unique_ptr<Teardown>> teardowns_;  // in order of request
  std::vector<Ref<SharedResource>> shared_;           // those that are not gone
  bool advancing_ = false;
};

}  // namespace dxgkit::dxgk
