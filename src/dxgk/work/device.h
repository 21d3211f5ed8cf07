// A device: a client's container of contexts, allocations and sync objects on one adapter.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dxgk/core/arrival_list.h"
#include "dxgk/core/device_state.h"
#include "dxgk/core/gate.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/sharing.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/work/context.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Adapter;
class AdapterCore;
class HwContext;
class PagingQueue;
class Process;
struct DeviceResidency;
struct WorkFloor;

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

/// D3DKMTLock. Which combinations are legal is the thunk's to check (ALLOC-37).
struct LockRequest {
  Handle allocation = 0;            // in; out: another instance, after `discard` (ALLOC-39)
  uint32_t private_data = 0;        // for the driver, with `acquire_aperture`
  std::span<const uint32_t> pages;  // of the allocation, that will be touched; empty: all
  bool do_not_wait = false;
  bool ignore_sync = false;
  bool do_not_evict = false;
  bool acquire_aperture = false;
  bool alternate_va = false;  // the driver may choose the size of the range
  bool discard = false;
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

class Device : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kDevice;
  Device(Adapter& adapter, Process& process);
  ~Device() override;

  /// DxgkDdiCreateProcess if it is the process's first here (LIFE-16), then DxgkDdiCreateDevice.
  /// kNotSupported: a display-only adapter.
  /// The driver's failure passes through; nothing stays.
  static Result<Ref<Device>> create(Adapter& adapter, Process& process);

  /// ALLOC-01. With `creates_resource` a resource is made and its handle returned; with a non-zero
  /// `resource` the allocations join it, unless it is shared (ALLOC-23). All or nothing. The
  /// driver's documented failures pass through (ALLOC-03); kInvalidParameter for what it described
  /// wrongly (a finding says what); kNoMemory without backing pages.
  Status create_allocations(std::span<AllocationRequest> requests, CreateOptions& options);
  /// ALLOC-25, THUNK-22: all allocations of `shared` on this device, in one DxgkDdiOpenAllocation
  /// without Create. kInvalidParameter: it is on its way out. The driver's failure passes through;
  /// nothing stays then. kNotSupported: it is another adapter's, and cross-adapter.
  Status open_resource(const Ref<SharedResource>& shared, bool read_only, OpenedResource* out);
  /// Destroys by resource (all its allocations) or by list (ALLOC-29). The handles go at once; the
  /// driver's objects go when no queued work needs them (ALLOC-27); `synchronous` waits for that
  /// (ALLOC-28).
  Status destroy_allocations(Handle resource, std::span<const Handle> handles, bool synchronous);
  /// ALLOC-35, ALLOC-40..43. The address stays until the last unlock.
  Result<void*> lock(Handle allocation);
  Status unlock(Handle allocation);
  /// D3DKMTLock (ALLOC-34, 36..39). kGraphicsAllocationBusy: do_not_wait, and the GPU uses it.
  /// kGraphicsCantEvictPinnedAllocation: it would have to leave its segment, and may not.
  Result<void*> lock_legacy(LockRequest& request);
  /// D3DKMTUnlock: all of them, or none (THUNK-25).
  Status unlock_all(std::span<const Handle> allocations);

  /// ALLOC-44, ALLOC-45. `handles` name resources or allocations. kInvalidParameter: one is no such
  /// handle of this device, is locked, a primary or shared; nothing offered then.
  Status offer(std::span<const Handle> handles, bool are_resources, vidmm::OfferPriority priority);
  /// ALLOC-46. `lost`, one per handle: whether its content, or some of the resource's, is gone.
  /// What was not offered is not lost.
  Status reclaim(std::span<const Handle> handles, bool are_resources, std::vector<bool>* lost);

  /// SYNC-01..17. kInvalidParameter: SYNC-03; kInvalidHandle: no event; kNoMemory; kDeviceRemoved.
  Result<Ref<SyncObject>> create_sync_object(const SyncRequest& request);
  /// Another opening, with addresses and uses of its own. kInvalidParameter: it is on its way out.
  Result<Ref<SyncObject>> open_sync_object(const Ref<SharedSync>& shared, const SyncUse& use);
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

  /// Contexts, allocations, device in the driver; idempotent. When the device or the adapter ends.
  void close_driver_side();
  /// Its allocations have gone, or are on their way.
  bool closed() const DXGKIT_REQUIRES(on_lane) { return closed_; }

  /// First error wins; contexts fail, CPU waits end with kDeviceRemoved.
  void set_error(DeviceState state) DXGKIT_REQUIRES(on_lane);
  DeviceState state() const { return state_.load(std::memory_order_acquire); }
  bool lost() const { return state() != DeviceState::kActive; }

  Adapter& adapter() { return adapter_; }
  /// What the device and all below it work with.
  WorkFloor& floor() { return floor_; }
  AdapterCore& core() { return core_; }
  Process& process() { return process_; }
  void* driver_handle() const { return info_.handle; }
  const port::DeviceInfo& info() const { return info_; }
  /// Whoever hands the driver's device to the driver is inside; it is destroyed when nobody is.
  Gate& gate() { return gate_; }
  Handle handle = 0;

  // Lane:
  std::vector<Context*> contexts DXGKIT_GUARDED_BY(on_lane);  // creation order
  ArrivalList<OpenedAllocation> openings
      DXGKIT_GUARDED_BY(on_lane);  // creation order, closing ones included
  std::vector<SyncObject*> sync_objects DXGKIT_GUARDED_BY(on_lane);
  ArrivalList<Resource> resources DXGKIT_GUARDED_BY(on_lane);
  std::vector<PagingQueue*> paging_queues DXGKIT_GUARDED_BY(on_lane);
  std::vector<HwContext*> hw_contexts
      DXGKIT_GUARDED_BY(on_lane);              // creation order; their queues are in `contexts`
  std::unique_ptr<DeviceResidency> residency;  // null before it is on the adapter's list
  size_t teardowns DXGKIT_GUARDED_BY(on_lane) = 0;  // allocation destructions under way
  std::vector<vidmm::Use> shared_memory
      DXGKIT_GUARDED_BY(on_lane);  // context allocations of all contexts (RES-29)
  std::optional<port::InterruptReport> page_fault
      DXGKIT_GUARDED_BY(on_lane);  // the one that cost it (INT-19)
  // SCHED-16: presents that have not run, and how many there may be; the same of flips.
  static constexpr uint32_t kPresentLimit = 3, kFlipLimit = 1;
  uint32_t queued_presents = 0, present_limit = kPresentLimit, flip_limit = kFlipLimit;

 private:
  struct CpuWait;
  struct AllocationBacking {
    vidmm::AllocationDesc desc;
    std::vector<bus::PageFrame> pages;
    std::unique_ptr<bus::UserMemory> user_memory;  // owns `pages`, when the client gave them
  };
  void finish_wait(CpuWait& wait, Status status) DXGKIT_REQUIRES(on_lane);
  /// A sync object's GPU address, and clients may use its handle. On failure it is closed.
  Status complete(const Ref<SyncObject>& object);
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
              AllocationBacking* backing);
  /// False: not now, ask again after progress.
  bool try_lock(OpenedAllocation& opened, const LockRequest& how, Status* status, void** address)
      DXGKIT_REQUIRES(on_lane);
  bool try_lock_legacy(OpenedAllocation& opened, LockRequest& request, Status* status,
                       void** address) DXGKIT_REQUIRES(on_lane);
  /// The instance a discarding lock gets: idle, or null while all are busy and no more may be
  /// made.
  OpenedAllocation* next_instance(OpenedAllocation& current) DXGKIT_REQUIRES(on_lane);
  Ref<OpenedAllocation> make_instance(OpenedAllocation& first) DXGKIT_REQUIRES(on_lane);
  /// Shows where the content is now. kRetry: the CPU cannot see it there.
  Status show(OpenedAllocation& opened, const LockRequest& how, const vidmm::Placement& place)
      DXGKIT_REQUIRES(on_lane);
  void end_lock(OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane);
  using Targets = std::vector<std::vector<Ref<OpenedAllocation>>>;  // one list per handle
  Status targets_of(std::span<const Handle> handles, bool are_resources, Targets* targets);
  bool lockable(const Allocation& allocation) DXGKIT_REQUIRES(on_lane);
  bool alternate_va_fits(const Allocation& allocation, bool asked) DXGKIT_REQUIRES(on_lane);
  /// Its supported sets name a segment of the kind.
  bool reaches_aperture(const Allocation& allocation) DXGKIT_REQUIRES(on_lane) {
    return reaches(allocation, vidmm::SegmentKind::kAperture);
  }
  bool reaches_memory(const Allocation& allocation) DXGKIT_REQUIRES(on_lane) {
    return reaches(allocation, vidmm::SegmentKind::kMemory);
  }
  bool reaches(const Allocation& allocation, vidmm::SegmentKind kind) DXGKIT_REQUIRES(on_lane);

  Adapter& adapter_;
  WorkFloor& floor_;
  AdapterCore& core_;
  const Ref<Adapter> adapter_reference_;
  Process& process_;
  port::DeviceInfo info_;
  Gate gate_;
  // Written on the lane, read by thunks before they go there: release/acquire so that they see why.
  std::atomic<DeviceState> state_{DeviceState::kActive};
  std::vector<CpuWait*> cpu_waits_ DXGKIT_GUARDED_BY(on_lane);
  bool closing_ DXGKIT_GUARDED_BY(on_lane) = false;  // the driver side goes
  bool closed_ DXGKIT_GUARDED_BY(on_lane) = false;
};

}  // namespace dxgkit::dxgk
