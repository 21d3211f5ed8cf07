// A device's paging queue: requests that page memory in, their order, and the fence that tells when
// each is done.
#pragma once

#include <cstdint>
#include <deque>

#include "dxgk/core/handle_table.h"
#include "dxgk/core/object.h"
#include "dxgk/sync/sync_object.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class DeviceMemory;
class Process;

class PagingQueue : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kPagingQueue;
  PagingQueue(DeviceMemory& device, int32_t priority);
  ~PagingQueue() override;

  /// @param priority  -1, 0 or 1 (THUNK-30); else kInvalidParameter. kNoMemory, kDeviceRemoved:
  /// nothing stays.
  static Result<Ref<PagingQueue>> create(DeviceMemory& device, int32_t priority);
  /// The handle is gone already. Waits for the operations, then takes the fence along (PAGE-47).
  /// Any thread but the lane.
  void destroy();

  /// The fence value of a request that is not done yet: above 0, rising by one (PAGE-44). A
  /// request done at once has no value: its caller answers 0 (PAGE-45).
  uint64_t begin() DXGKIT_REQUIRES(on_lane);
  /// The request is done. The fence passes it when every earlier one is, too. Once per value.
  void finish(uint64_t value) DXGKIT_REQUIRES(on_lane);
  /// Nothing begun is unfinished.
  bool idle() const DXGKIT_REQUIRES(on_lane) { return unfinished_.empty(); }

  DeviceMemory& device() { return *device_; }
  /// Of its device. Any thread.
  bool device_lost() const;
  Process& process();
  int32_t priority() const { return priority_; }
  /// An ordinary monitored fence (PAGE-46).
  SyncObject& fence() { return *fence_; }
  Handle handle = 0;

 private:
  const Ref<DeviceMemory> device_;
  const int32_t priority_;
  Ref<SyncObject> fence_;
  // Lane:
  uint64_t last_begun_ DXGKIT_GUARDED_BY(on_lane) = 0;
  std::deque<bool> unfinished_
      DXGKIT_GUARDED_BY(on_lane);  // values after the fence's, in order; true: done out of turn
};

}  // namespace dxgkit::dxgk
