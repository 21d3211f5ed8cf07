// Protected sessions: what processes share, and each opening of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "dxgk/core/device_core.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/core/object.h"
#include "dxgk/sync/sync_object.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class AdapterCore;
class Process;
struct SyncFloor;

/// The adapter's session behind the openings. The driver's side ends with its last opening and
/// descriptor, or when the adapter stops (OPT-08).
class SharedSession : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kSharedSession;
  explicit SharedSession(SyncFloor& floor);
  ~SharedSession() override;

  /// Of the adapter it is on.
  SyncFloor& floor() const { return floor_; }

  // Constant once clients can name it.
  uint64_t number = 0;  // the kernel's name, as the driver knows it
  void* driver_handle = nullptr;
  std::vector<std::byte> private_data, runtime_data;
  Ref<SharedSync> fence;  // counts changes of `valid` (OPT-09); held
  /// As the driver has said last. Any thread.
  std::atomic<bool> valid{true};

  // Of ProtectedSessions, under its mutex:
  uint32_t uses = 0;       // openings and descriptors
  bool in_driver = false;  // the driver has made its side
  bool gone = false;       // the driver has it no more

 private:
  SyncFloor& floor_;
  const Ref<Object> adapter_;  // kept
};

/// An opening: what a client's handle names.
class ProtectedSession : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kProtectedSession;
  ProtectedSession(Ref<SharedSession> shared_in, DeviceCore* device_in);

  const Ref<SharedSession> shared;
  const Ref<DeviceCore> device;  // null: opened by a descriptor, for the process
  Handle handle = 0;
  bool open = true;  // under the mutex of ProtectedSessions
};

/// The protected sessions of one adapter. Any thread but the lane, unless a function says more.
class ProtectedSessions {
 public:
  explicit ProtectedSessions(SyncFloor& floor);
  ~ProtectedSessions();
  ProtectedSessions(const ProtectedSessions&) = delete;
  ProtectedSessions& operator=(const ProtectedSessions&) = delete;

  /// D3DKMTCreateProtectedSession. `fence` is open in the device's process. kNotSupported: the
  /// driver has no sessions. kInvalidParameter: the fence is none that the kernel can signal.
  /// kDeviceRemoved, kNoMemory. Else the driver's failure. Nothing stays then.
  Result<Ref<ProtectedSession>> create(DeviceCore& device, const SyncObject& fence,
                                       std::vector<std::byte> data,
                                       std::vector<std::byte> runtime_data);
  /// Another opening. kInvalidParameter: it is on its way out.
  Result<Ref<ProtectedSession>> open(Process& process, const Ref<SharedSession>& shared);
  /// The handle is gone already. While the adapter is stable (AdapterCore::while_stable).
  /// Idempotent.
  void close(ProtectedSession& session);
  /// One descriptor more; false: it is on its way out.
  bool take_hold(SharedSession& shared);
  /// One less. As close().
  void drop_hold(SharedSession& shared);

  /// Nothing can be made on the device any more: openings of the device and their handles end.
  void device_ends(DeviceCore& device);
  /// The adapter stops: the driver's sessions end, and what clients have open is invalid.
  void stop();
  /// DxgkCbSetProtectedSessionStatus. kInvalidParameter: no such session. Also inside DDIs.
  Status set_status(uint64_t number, bool valid);

 private:
  Result<Ref<ProtectedSession>> add(Process& process, const Ref<SharedSession>& shared,
                                    DeviceCore* device);
  /// One use less. True: it was the last; end() follows.
  bool drop_use(SharedSession& shared);
  /// The driver's side, if it has one, and the fence.
  void end(SharedSession& shared);

  SyncFloor& floor_;
  AdapterCore& core_;
  runtime::Mutex mutex_;                                                // innermost
  std::vector<Ref<SharedSession>> sessions_ DXGKIT_GUARDED_BY(mutex_);  // in order of creation
  uint64_t last_ DXGKIT_GUARDED_BY(mutex_) = 0;
  // How many there are: without any, nobody takes the mutex.
  std::atomic<uint32_t> count_{0};
};

}  // namespace dxgkit::dxgk
