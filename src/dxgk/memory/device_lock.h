// CPU access to the allocations of a device: Lock2, and the old Lock with renaming.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "base/status.h"
#include "bus/pages_apart.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/device_memory.h"
#include "runtime/thread_annotations.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

/// D3DKMTLock. Which combinations are legal is the thunk's to check (ALLOC-37).
struct LockRequest {
  Handle allocation = 0;            // in; out: another instance, after `discard` (ALLOC-39)
  uint32_t private_data = 0;        // for the driver, with `acquire_aperture`
  std::span<const uint32_t> pages;  // of the allocation, that will be touched; empty: all
  bool do_not_wait = false;
  bool ignore_sync = false;
  bool ignore_read_sync = false;  // waits for what writes it, not for what reads it
  bool do_not_evict = false;
  bool acquire_aperture = false;
  bool alternate_va = false;  // the driver may choose the size of the range
  bool discard = false;
};

/// Public calls come from any thread but the lane.
class DeviceLocks {
 public:
  explicit DeviceLocks(DeviceMemory& memory)
      : floor_(memory.floor()),
        core_(memory.core()),
        device_(memory.device()),
        memory_(memory),
        process_(memory.device().process()) {}

  /// ALLOC-35, ALLOC-40..43. The address stays until the last unlock.
  Result<void*> lock(Handle allocation);
  Status unlock(Handle allocation);
  /// D3DKMTLock (ALLOC-34, 36..39). kGraphicsAllocationBusy: do_not_wait, and the GPU uses it.
  /// kGraphicsCantEvictPinnedAllocation: it would have to leave its segment, and may not.
  Result<void*> lock_legacy(LockRequest& request);
  /// D3DKMTUnlock: all of them, or none (THUNK-25).
  Status unlock_all(std::span<const Handle> allocations);
  /// For a client that cannot be given the memory itself: `use` gets the bytes that a lock shows,
  /// on the lane, once. False, without a call: the handle names no allocation of the device, or it
  /// is not locked.
  bool with_view(Handle allocation, const std::function<void(std::span<std::byte>)>& use);
  /// What a lock shows, as memory that a client in another process can be given: nothing else is in
  /// the memory object. It stays so until the last unlock.
  struct Given {
    bus::PagesApart::Part part;  // with a descriptor of the caller's
    Handle original = 0;         // the allocation that it goes with, itself or the first instance
    Handle resource = 0;
  };
  /// nullopt: as for with_view, or it lies in memory that others use, too.
  std::optional<Given> give(Handle allocation);
  /// The memory object for the client's own pages (ALLOC-20), with a descriptor of the caller's,
  /// and the number of the exchange. nullopt: the backing is not the client's.
  std::optional<std::pair<bus::PagesApart::Part, uint64_t>> give_user_memory(Handle allocation);

 private:
  /// Where its pages lie, with a descriptor of the caller's; -1: among those of others.
  bus::PagesApart::Part part_with_descriptor(const Allocation& allocation,
                                             const bus::PagesApart& of_process)
      DXGKIT_REQUIRES(on_lane);
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
  bool lockable(const Allocation& allocation) DXGKIT_REQUIRES(on_lane);
  /// The CPU may look while the GPU uses it (ALLOC-61).
  bool may_look_on(const Allocation& allocation) DXGKIT_REQUIRES(on_lane);
  bool alternate_va_fits(const Allocation& allocation, bool asked) DXGKIT_REQUIRES(on_lane);
  /// Its supported sets name a segment of the kind.
  bool reaches_aperture(const Allocation& allocation) DXGKIT_REQUIRES(on_lane) {
    return reaches(allocation, vidmm::SegmentKind::kAperture);
  }
  bool reaches_memory(const Allocation& allocation) DXGKIT_REQUIRES(on_lane) {
    return reaches(allocation, vidmm::SegmentKind::kMemory);
  }
  /// `coherent`: one that is CacheCoherent.
  bool reaches(const Allocation& allocation, vidmm::SegmentKind kind, bool coherent = false)
      DXGKIT_REQUIRES(on_lane);

  MemoryFloor& floor_;
  AdapterCore& core_;
  DeviceCore& device_;
  const DeviceMemory& memory_;
  Process& process_;
};

}  // namespace dxgkit::dxgk
