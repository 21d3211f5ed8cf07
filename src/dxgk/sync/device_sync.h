// The sync objects of a device, and the CPU threads that wait for sync objects through it.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/device_core.h"
#include "dxgk/sync/sync_floor.h"
#include "dxgk/sync/sync_object.h"
#include "runtime/thread_annotations.h"
#include "vidsch/sync_objects.h"

namespace dxgkit::dxgk {

/// A part of a device, counted with it.
class DeviceSync {
 public:
  DeviceSync(SyncFloor& floor, DeviceCore& device)
      : floor_(floor), core_(floor.core), device_(device) {}
  DeviceSync(const DeviceSync&) = delete;
  DeviceSync& operator=(const DeviceSync&) = delete;

  void add_reference() { device_.add_reference(); }
  void drop_reference() { device_.drop_reference(); }
  DeviceCore& device() { return device_; }

  // --- not on the lane ---
  /// SYNC-01..17. kInvalidParameter: SYNC-03; kInvalidHandle: no event; kNoMemory; kDeviceRemoved.
  Result<Ref<SyncObject>> create_sync_object(const SyncRequest& request);
  /// Another opening, with addresses and uses of its own. kInvalidParameter: it is on its way out.
  Result<Ref<SyncObject>> open_sync_object(const Ref<SharedSync>& shared, const SyncUse& use);
  /// Blocks until satisfied; kDeviceRemoved when the device is lost first (SYNC-22); kInvalidHandle
  /// when an object is destroyed (SYNC-28). With event_fd >= 0 it returns at once and the event is
  /// set later.
  Status wait_from_cpu(std::span<const vidsch::SyncPoint> points, vidsch::WaitMode mode,
                       int event_fd);
  Status signal_from_cpu(std::span<const vidsch::SyncPoint> points);  // kInvalidParameter: SYNC-35

  // --- lane ---
  /// The device is lost: waits of CPU threads end with kDeviceRemoved.
  void cancel_waits() DXGKIT_REQUIRES(on_lane);
  /// SYNC-13: every monitored fence the lost device might have signalled is set to the maximum, so
  /// that whoever waits for it goes on, save where its handle says otherwise, and paging fences,
  /// which the kernel signals. Called where a device goes into error, for whatever reason but its
  /// own destruction.
  void release_fences_of_lost() DXGKIT_REQUIRES(on_lane);

  std::vector<SyncObject*> objects DXGKIT_GUARDED_BY(on_lane);  // open on the device, in order

 private:
  struct CpuWait;
  /// kDeviceRemoved: the device is lost; kInvalidParameter: a point is out of reach
  /// (sync_in_reach).
  Status check(std::span<const vidsch::SyncPoint> points) const DXGKIT_REQUIRES(on_lane);
  void finish_wait(CpuWait& wait, Status status) DXGKIT_REQUIRES(on_lane);
  /// A sync object's GPU address, and clients may use its handle. On failure it is closed.
  Status complete(const Ref<SyncObject>& object);

  SyncFloor& floor_;
  AdapterCore& core_;
  DeviceCore& device_;
  std::vector<CpuWait*> cpu_waits_ DXGKIT_GUARDED_BY(on_lane);
};

}  // namespace dxgkit::dxgk
