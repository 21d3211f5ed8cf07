// Update batches, queued per context and carried out when their fence says so.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/va/gpu_space.h"
#include "dxgk/va/second_space.h"
#include "dxgk/va/va_floor.h"
#include "runtime/thread_annotations.h"
#include "vidmm/memory_manager.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

class SpaceUser;

/// One operation of an update batch with the allocation it names.
struct GpuVaUpdate {
  gpuva::UpdateOperation operation;
  Ref<OpenedAllocation> opened;
};

/// D3DKMTUpdateGpuVirtualAddress (VA-35..40). Each context has a queue of batches. Where the
/// process has a second space, the context also has a companion: a context of the driver's in which
/// entries are copied. Lane: the adapter's, except where a call says otherwise.
class UpdateBatches {
 public:
  explicit UpdateBatches(VaFloor& floor) : floor_(floor) {}

  /// Queues a batch, which takes effect as a whole or not at all. It waits for `fence` to reach
  /// `value`, and then sets the fence to `value` + 1. The call blocks while too many batches of the
  /// context are queued. Not on the lane.
  Status update(SpaceUser& context, SyncObject& fence, uint64_t value, bool wait,
                std::vector<GpuVaUpdate> updates);

  void attach(SpaceUser& context) DXGKIT_REQUIRES(on_lane);
  /// What the context has queued never takes effect.
  void detach(ContextId context) DXGKIT_REQUIRES(on_lane);
  /// Takes the companion that `detach` left, once no work runs in it: the caller has the driver
  /// destroy it. Null: there is none. Not on the lane.
  void* take_companion(ContextId context, uint32_t process);

  /// Releases the allocations that queued batches keep in their segments (RES-28), because others
  /// need the room, or power goes. Our choice: a fence that is never signalled keeps no memory for
  /// ever. True: something was released.
  bool let_go() DXGKIT_REQUIRES(on_lane);
  /// The same for one allocation, which is about to be destroyed.
  void let_go(AllocationId allocation) DXGKIT_REQUIRES(on_lane);

 private:
  struct PendingUpdate {
    Ref<SyncObject> fence;
    uint64_t value = 0, sequence = 0;
    bool wait = false;
    std::vector<GpuVaUpdate> updates;
    std::vector<vidmm::Use> pools;  // what it maps or copies stays where it is (RES-28)
  };
  /// A context's queue of update batches (VA-38).
  struct Companion {
    SpaceUser* context = nullptr;
    std::deque<PendingUpdate> queue;
    std::optional<vidsch::CpuWaitId> waiting;
    bool running = false;
    std::vector<vidmm::Use> running_pools;     // likewise, of the batch that runs
    std::shared_ptr<CompanionContext> driver;  // null: not made
    bool making = false, refused = false;      // by the driver: entries are written then
  };

  void hold_pools(const GpuSpace& space, PendingUpdate* update) DXGKIT_REQUIRES(on_lane);
  void release_pools(std::vector<vidmm::Use>* pools) DXGKIT_REQUIRES(on_lane);
  /// Asks the driver for the context that batches of this one run in: once, `making` says so. Not
  /// on the lane.
  void make_companion(SpaceUser& context);
  /// What a batch maps is seen in the second space.
  void show_pools(uint32_t process, std::span<const GpuVaUpdate> updates) DXGKIT_REQUIRES(on_lane);
  void advance(ContextId id) DXGKIT_REQUIRES(on_lane);
  void run_update(ContextId id) DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
  std::map<ContextId, Companion> companions_ DXGKIT_GUARDED_BY(on_lane);
  std::map<ContextId, std::shared_ptr<CompanionContext>> left_
      DXGKIT_GUARDED_BY(on_lane);  // of detached contexts
};

}  // namespace dxgkit::dxgk
