// A device: a client's container of contexts, allocations and sync objects on one adapter.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dxgk/allocation.h"
#include "dxgk/context.h"
#include "dxgk/device_state.h"
#include "dxgk/handle_table.h"
#include "dxgk/sync_object.h"
#include "port/types.h"

namespace dxgkit::dxgk {

class Adapter;
class PagingQueue;
class Process;
struct DeviceResidency;

struct AllocationRequest {
  std::span<std::byte> private_data;  // captured per-allocation data, in/out
  uint32_t vidpn_source = UINT32_MAX;
  bool primary = false;
  Handle handle = 0;  // out
};

struct SyncRequest {
  vidsch::SyncKind kind = vidsch::SyncKind::kMonitoredFence;
  uint64_t initial = 0, maximum = 0;
  int event_fd = -1;  // CPU notification
  bool of_paging_queue = false;
};

class Device : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kDevice;
  Device(Adapter& adapter, Process& process);
  ~Device() override;

  /// DxgkDdiCreateProcess if it is the process's first here (LIFE-16), then DxgkDdiCreateDevice.
  /// kNotSupported: a display-only adapter.
  /// The driver's failure passes through; nothing stays.
  static Result<Ref<Device>> create(Adapter& adapter, Process& process);

  /// ALLOC-01. With `creates_resource` a resource is made and its handle returned through
  /// `resource`; with a non-zero
  /// `*resource` the allocations join it. All or nothing. The driver's documented failures pass
  /// through (ALLOC-03); kInvalidParameter for what it described wrongly (a finding says what);
  /// kNoMemory without backing pages.
  Status create_allocations(std::span<AllocationRequest> requests,
                            std::span<const std::byte> private_data, bool creates_resource,
                            Handle* resource);
  /// Destroys by resource (all its allocations) or by list (ALLOC-29). The handles go at once; the
  /// driver's objects go when no queued work needs them (ALLOC-27); `synchronous` waits for that
  /// (ALLOC-28).
  Status destroy_allocations(Handle resource, std::span<const Handle> handles, bool synchronous);
  /// ALLOC-35, ALLOC-40..43. The address stays until the last unlock.
  Result<void*> lock(Handle allocation);
  Status unlock(Handle allocation);

  Result<Ref<SyncObject>> create_sync_object(const SyncRequest& request);
  void destroy_sync_object(Ref<SyncObject> object);
  /// Blocks until satisfied; kDeviceRemoved when the device is lost first (SYNC-22); kInvalidHandle
  /// when an object is destroyed (SYNC-28). With event_fd >= 0 it returns at once and the event is
  /// set later.
  Status wait_from_cpu(std::span<const vidsch::SyncPoint> points, vidsch::WaitMode mode,
                       int event_fd);
  Status signal_from_cpu(std::span<const vidsch::SyncPoint> points);

  /// Waits until nothing of the device is queued or on hardware (THUNK-31).
  Status wait_for_idle();
  /// Everything below goes, then DxgkDdiDestroyDevice (SCHED-23). The handle is gone already. Any
  /// thread but the lane.
  void destroy();

  /// Lane. First error wins; contexts fail, CPU waits end with kDeviceRemoved.
  void set_error(DeviceState state);
  DeviceState state() const { return state_.load(std::memory_order_acquire); }
  bool lost() const { return state() != DeviceState::kActive; }

  Adapter& adapter() { return adapter_; }
  Process& process() { return process_; }
  void* driver_handle() const { return info_.handle; }
  const port::DeviceInfo& info() const { return info_; }
  Handle handle = 0;

  // Lane:
  std::vector<Context*> contexts;           // creation order
  std::vector<OpenedAllocation*> openings;  // creation order, closing ones included
  std::vector<SyncObject*> sync_objects;
  std::vector<Resource*> resources;
  std::vector<PagingQueue*> paging_queues;
  std::unique_ptr<DeviceResidency> residency;  // null before it is on the adapter's list
  size_t teardowns = 0;                        // allocation destructions under way

 private:
  friend class Adapter;
  struct CpuWait;
  struct AllocationBacking {
    vidmm::AllocationDesc desc;
    std::vector<bus::PageFrame> pages;
  };
  void finish_wait(CpuWait& wait, Status status);
  /// Contexts, allocations, device in the driver; idempotent. When the device or the adapter ends.
  void close_driver_side();
  Status register_allocations(std::span<const port::AllocationInfo> infos,
                              std::span<AllocationBacking> backings,
                              std::span<const Ref<OpenedAllocation>> openings_made,
                              const Ref<Resource>& resource, bool creates_resource);
  bool try_lock(OpenedAllocation& opened, Status* status, void** address);
  bool lockable(const Allocation& allocation);
  /// Its supported sets name an aperture segment.
  bool reaches_aperture(const Allocation& allocation);

  Adapter& adapter_;
  const Ref<Adapter> adapter_reference_;
  Process& process_;
  port::DeviceInfo info_;
  // Written on the lane, read by thunks before they go there: release/acquire so that they see why.
  std::atomic<DeviceState> state_{DeviceState::kActive};
  std::vector<CpuWait*> cpu_waits_;  // lane
  bool closed_ = false;              // lane: the driver side is gone
};

}  // namespace dxgkit::dxgk
