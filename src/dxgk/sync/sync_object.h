// Synchronisation objects: what clients share, and each opening of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bus/machine.h"
#include "bus/page_apart.h"
#include "dxgk/core/client_quota.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/core/object.h"
#include "runtime/runtime.h"
#include "runtime/thread_annotations.h"
#include "vidsch/sync_objects.h"

namespace dxgkit::dxgk {

class AdapterCore;
class DeviceSync;
class Process;
class SyncObject;
struct SyncFloor;

/// How one device uses an object: a matter of its handle, not of the object (SYNC-11).
struct SyncUse {
  bool no_signal = false;
  bool no_wait = false;
  bool top_of_pipeline = false;  // its signals do not wait for earlier work to complete (SYNC-12)
  bool keeps_value_on_reset = false;  // the device's loss does not set the maximum (SYNC-13)
  bool no_gpu_access = false;         // no GPU virtual address (SYNC-14)
};

struct SyncRequest {
  vidsch::SyncKind kind = vidsch::SyncKind::kMonitoredFence;
  uint64_t initial = 0, maximum = 0;
  int event_fd = -1;  // CPU notification
  /// Of a CPU notification: only the driver sets it (SYNC-24). `driver_device`: its handle.
  bool signal_by_kmd = false;
  void* driver_device = nullptr;
  bool of_paging_queue = false;
  bool shared = false;       // others can open it
  bool nt_security = false;  // through descriptors only, made by ShareObjects
  /// A monitored fence that vertical syncs of a target signal, nobody else (SYNC-25).
  bool periodic = false;
  uint32_t target = 0;
  int64_t lead_ns = 0;  // how much earlier than the vertical sync
  /// A monitored fence that engines wait for by themselves (SYNC-30). `private_data`: in/out,
  /// port::kNativeFencePrivateBytes.
  bool native = false, intra_gpu = false;
  std::span<std::byte> private_data = {};
  SyncUse use = {};
};

/// The adapter's object behind the openings. It ends with its last opening and hold (SYNC-32); a
/// global handle does not hold it.
class SharedSync : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kSharedSync;
  explicit SharedSync(SyncFloor& floor);
  ~SharedSync() override;
  /// Storage of a monitored fence, the duplicate of an event. kNoMemory; kInvalidHandle: no event.
  static Result<Ref<SharedSync>> create(SyncFloor& floor, const SyncRequest& request,
                                        vidsch::SyncDesc* desc);

  /// Of the adapter it is on.
  SyncFloor& floor() const { return floor_; }
  /// One opening, or descriptor, less. Lane.
  void drop_hold() DXGKIT_REQUIRES(on_lane);
  /// Ends it if nothing has it open any more.
  void end_if_unused() DXGKIT_REQUIRES(on_lane);

  // Constant once clients can name it.
  SyncObjectId id;
  vidsch::SyncKind kind = vidsch::SyncKind::kMonitoredFence;
  bool shared = false, nt_security = false, periodic = false;
  bool no_gpu_access = false;  // of its creation: nobody gets an address (SYNC-14)
  bool narrow = false;         // 32 bits of storage (SYNC-17)
  Handle global = 0;
  // Monitored fence: one page of system memory, the value at its start.
  bus::PageFrame page;
  bool has_page = false;
  std::unique_ptr<bus::PageApart> page_apart;  // where other processes are given the page
  MemoryCharge charge;                         // of its pages, to the user that made it
  std::atomic<uint64_t>* storage = nullptr;    // null: 32 bits, or no fence
  // Native: the monitored value's page, and the driver's handle, once it has one.
  bool native = false;
  bus::PageFrame monitored_page;
  void* driver_handle = nullptr;
  uint64_t cpu_event = 0;  // of CpuEvents; 0: the driver does not signal it
  // Periodic:
  uint32_t target = 0;
  int64_t lead_ns = 0;

  // Lane:
  std::vector<SyncObject*> openings DXGKIT_GUARDED_BY(on_lane);  // in order
  uint32_t holds DXGKIT_GUARDED_BY(on_lane) = 0;  // descriptors, and openings under way
  bool gone DXGKIT_GUARDED_BY(on_lane) = true;  // not there yet, or not any more: cannot be opened
  bool in_driver = false;                       // native: created there and not destroyed
  uint32_t driver_openings DXGKIT_GUARDED_BY(on_lane) = 0;  // native: open there, or being opened
  std::unique_ptr<runtime::Timer> timer
      DXGKIT_GUARDED_BY(on_lane);  // periodic with a lead: for the next vertical sync
  int64_t last_vsync_ns DXGKIT_GUARDED_BY(on_lane) = -1;  // -1: none yet
  bool ahead DXGKIT_GUARDED_BY(on_lane) =
      false;  // the next vertical sync has been signalled already

 private:
  SyncFloor& floor_;
  const Ref<Object> adapter_;  // kept
  int event_fd_ = -1;
};

/// An opening: what a client's handle names.
class SyncObject : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kSyncObject;
  SyncObject();
  ~SyncObject() override;
  uint64_t trace_id() const override { return id.value; }

  /// A handle for `process`, hidden. `device` may be null: the process's own, without addresses.
  /// `first`: of a creation, how the scheduler knows the object. Not on the lane.
  /// kInvalidParameter: it is on its way out, or what `first` says makes no sense; kDeviceRemoved;
  /// kNoMemory. Nothing stays then.
  static Result<Ref<SyncObject>> open(Process& process, DeviceSync* device,
                                      const Ref<SharedSync>& shared, const SyncUse& use,
                                      vidsch::SyncDesc* first = nullptr);
  /// The handle is gone already. The last closing ends the object: CPU waiters get kInvalidHandle,
  /// GPU waits fall through (SYNC-28). Idempotent. Any thread.
  void close();

  SyncFloor& floor() const { return shared->floor(); }
  /// SYNC-11; kAccessDenied otherwise.
  Status may_signal() const {
    if (shared->cpu_event != 0) return Status::kInvalidParameter;  // SYNC-24
    return use.no_signal || shared->periodic ? Status::kAccessDenied : Status::kSuccess;
  }
  Status may_wait() const {
    if (shared->cpu_event != 0) return Status::kInvalidParameter;  // SYNC-24
    return use.no_wait ? Status::kAccessDenied : Status::kSuccess;
  }

  Ref<SharedSync> shared;
  Ref<DeviceSync> device;      // null: opened by a global handle or descriptor for the process
  Process* process = nullptr;  // null once closed; lane
  Handle handle = 0;
  SyncObjectId id;
  vidsch::SyncKind kind = vidsch::SyncKind::kMonitoredFence;
  SyncUse use;
  std::unique_ptr<bus::CpuView> client_view;          // monitored fence: read-only (SYNC-15)
  uint64_t gpu_address = 0;                           // 0: none
  uint64_t monitored_gpu_address = 0;                 // of a native fence
  void* driver_handle = nullptr;                      // of a native fence, once it is open there
  bool in_driver DXGKIT_GUARDED_BY(on_lane) = false;  // it is
  bool of_paging_queue = false;                       // goes with its queue, never alone (PAGE-47)
};

/// SYNC-17: no point is too far from what its fence of 32 bits says now. Lane.
bool sync_in_reach(AdapterCore& core, std::span<const vidsch::SyncPoint> points)
    DXGKIT_REQUIRES(on_lane);

/// What ends with a process beside its devices: openings of sync objects, keyed mutexes and
/// protected sessions. Wakes
/// whoever waits for its mutexes through it. Not on a lane.
void close_sync_of(Process& process);

}  // namespace dxgkit::dxgk
