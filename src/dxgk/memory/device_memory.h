// The memory of a device: its allocations, resources and paging queues.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "bus/machine.h"
#include "bus/pages_apart.h"
#include "bus/user_memory.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/arrival_list.h"
#include "dxgk/core/client_quota.h"
#include "dxgk/core/device_core.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/memory_floor.h"
#include "dxgk/memory/sharing.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

class DeviceSync;
class PagingQueue;
struct DeviceResidency;

struct AllocationRequest {
  std::span<std::byte> private_data;  // captured per-allocation data, in/out
  uint32_t vidpn_source = UINT32_MAX;
  bool primary = false;
  /// The backing store, if the client gives it (ALLOC-20): page-aligned, `user_bytes` long; 0: as
  /// long as the driver says.
  void* user_memory = nullptr;
  uint64_t user_bytes = 0;
  Handle handle = 0;  // out
};

/// What else a creation says.
struct CreateOptions {
  std::span<const std::byte> private_data;  // of the resource
  bool creates_resource = false;
  bool shared = false;       // the resource can be opened by others
  bool nt_security = false;  // through descriptors only, made by ShareObjects (ALLOC-22)
  bool cross_adapter = false;
  std::span<const std::byte> runtime_data;  // kept for those who open it
  Handle resource = 0;                      // in: the one to add to; out: the one made
  Handle global = 0;                        // out: of a shared resource without nt_security
};

/// A shared resource as one device opened it.
struct OpenedResource {
  Handle resource = 0;
  std::vector<Handle> allocations;  // in creation order
};

/// A part of a device, counted with it.
class DeviceMemory {
 public:
  DeviceMemory(MemoryFloor& floor, DeviceCore& device, DeviceSync& sync);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void add_reference() { device_.add_reference(); }
  void drop_reference() { device_.drop_reference(); }
  DeviceCore& device() { return device_; }
  const DeviceCore& device() const { return device_; }
  AdapterCore& core() { return core_; }
  /// Where paging queues get their fences.
  DeviceSync& sync() { return sync_; }
  /// Of the adapter it is on.
  MemoryFloor& floor() { return floor_; }

  // --- not on the lane ---
  /// ALLOC-01. With `creates_resource` a resource is made and its handle returned; with a non-zero
  /// `resource` the allocations join it, unless it is shared (ALLOC-23). All or nothing. The
  /// driver's documented failures pass through (ALLOC-03); kInvalidParameter for what it described
  /// wrongly (a finding says what); kNoMemory without backing pages, or over the user's quota.
  Status create_allocations(std::span<AllocationRequest> requests, CreateOptions& options);
  /// ALLOC-25, THUNK-22: all allocations of `shared` on this device, in one DxgkDdiOpenAllocation
  /// without Create. kInvalidParameter: it is on its way out. The driver's failure passes through;
  /// nothing stays then. kNotSupported: it is another adapter's, and cross-adapter.
  Status open_resource(const Ref<SharedResource>& shared, bool read_only, OpenedResource* out);
  /// Destroys by resource (all its allocations) or by list (ALLOC-29). The handles go at once; the
  /// driver's objects go when no queued work needs them (ALLOC-27); `synchronous` waits for that
  /// (ALLOC-28).
  Status destroy_allocations(Handle resource, std::span<const Handle> handles, bool synchronous);
  /// Backing pages. Those of a client in another process are apart from others' if the system
  /// allows it. `group`: of a resource; null: of the process. kNoMemory. Any thread; on the lane
  /// with Objects::kAsTheyAre only.
  /// @param charge  what counts for the user from now on; kNoMemory over its quota
  Result<std::vector<bus::PageFrame>> take_pages(uint64_t count, bus::PagesApart::Objects objects,
                                                 MemoryCharge* charge,
                                                 bus::PagesApart* group = nullptr) const;

  // --- lane ---
  /// Nothing is made any more, and what there is begins to be destroyed. Counts in `teardowns`.
  void close() DXGKIT_REQUIRES(on_lane);
  /// Its allocations have gone, or are on their way.
  bool closed() const DXGKIT_REQUIRES(on_lane) { return closed_; }

  ArrivalList<OpenedAllocation> openings
      DXGKIT_GUARDED_BY(on_lane);  // creation order, closing ones included
  ArrivalList<Resource> resources DXGKIT_GUARDED_BY(on_lane);
  std::vector<PagingQueue*> paging_queues DXGKIT_GUARDED_BY(on_lane);
  std::unique_ptr<DeviceResidency> residency;       // null before it is on the adapter's list
  size_t teardowns DXGKIT_GUARDED_BY(on_lane) = 0;  // allocation destructions under way

 private:
  struct AllocationBacking {
    vidmm::AllocationDesc desc;
    std::vector<bus::PageFrame> pages;
    std::unique_ptr<bus::UserMemory> user_memory;  // owns `pages`, when the client gave them
    MemoryCharge charge;
  };
  Status register_allocations(std::span<const port::AllocationInfo> infos,
                              std::span<AllocationBacking> backings,
                              std::span<const Ref<OpenedAllocation>> openings_made,
                              const Ref<Resource>& resource, bool creates_resource)
      DXGKIT_REQUIRES(on_lane);
  /// The adapter-wide side of a resource that is about to be made shared, with its global handle.
  /// Any thread: nobody else sees it yet.
  Result<Ref<SharedResource>> make_shared(std::span<const AllocationRequest> requests,
                                          const CreateOptions& options,
                                          void* driver_resource) DXGKIT_NO_THREAD_SAFETY_ANALYSIS;
  /// Backing pages for what the driver described.
  Status back(const AllocationRequest& request, const port::AllocationInfo& info,
              bus::PagesApart* group, AllocationBacking* backing);
  /// The client's memory as backing.
  Result<std::unique_ptr<bus::UserMemory>> take_user_memory(const AllocationRequest& request,
                                                            uint64_t bytes);

  MemoryFloor& floor_;
  AdapterCore& core_;
  DeviceCore& device_;
  DeviceSync& sync_;
  Process& process_;
  bool closed_ DXGKIT_GUARDED_BY(on_lane) = false;
};

}  // namespace dxgkit::dxgk
