// Synchronisation objects: values, CPU and GPU waiters.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace dxgkit::vidsch {

enum class SyncKind { kMutex, kSemaphore, kFence, kCpuNotification, kMonitoredFence };

struct SyncDesc {
  SyncKind kind = SyncKind::kMonitoredFence;
  uint64_t initial = 0;  // fence value; semaphore count; mutex: 1 = created owned
  uint64_t maximum = 0;  // semaphore only (SYNC-03)
  /// kMonitoredFence, kFence: the address where the value is published with release order (null:
  /// none). It must outlive the object.
  std::atomic<uint64_t>* storage = nullptr;
  /// kMonitoredFence, instead of `storage`: the low half only, as hardware without 64-bit atomics
  /// writes it. The value read there is within 2^31 of the value before (SYNC-17).
  std::atomic<uint32_t>* storage32 = nullptr;
  /// kMonitoredFence: called with the least value that a waiter here waits for, whenever that
  /// changes. UINT64_MAX: no waiters. The value is read once more after each call, so that a signal
  /// that missed the new value is not lost. Must not call back in here.
  std::function<void(uint64_t least)> watched = {};
  /// kMonitoredFence with `storage`: stores a higher value (or an allowed rewind) there, in place
  /// of this class. Must not call back in here.
  std::function<void(uint64_t value)> store = {};
  /// kCpuNotification: called when a signal reaches it.
  std::function<void()> notify = {};
};

/// An object and a value to wait for or to signal. The value is ignored for mutex, semaphore,
/// notification.
struct SyncPoint {
  SyncObjectId object{};
  uint64_t value = 0;
  bool allow_rewind = false;  // signals only (SYNC-08)
};

enum class WaitMode { kAll, kAny };

/// A pending wait, for reports.
struct WaitInfo {
  ContextId context;  // 0: a wait of the CPU
  WaitMode mode = WaitMode::kAll;
  struct Point {
    SyncObjectId object;  // 0: destroyed meanwhile
    SyncKind kind = SyncKind::kMonitoredFence;
    uint64_t value = 0, current = 0;
    ContextId owner;  // of a mutex; 0: not known
    bool reached = false;
  };
  std::vector<Point> points;
};
/// The outcome of a CPU wait.
using WaitDone = std::function<void(Status)>;  // kSuccess; kInvalidHandle: object destroyed
                                               // (SYNC-28); kDeviceRemoved
using CpuWaitId = uint64_t;

/// Lane: the adapter's (the scheduler's). Callbacks run on the lane.
class SyncObjects {
 public:
  /// @param woken  called for each context whose wait became satisfied, so that the scheduler can
  ///        pump.
  explicit SyncObjects(std::function<void(ContextId)> woken);
  ~SyncObjects();

  /// kInvalidParameter, with nothing kept: semaphore with initial > maximum, mutex with
  /// initial > 1.
  Status create(SyncObjectId id, SyncDesc desc);
  /// Wakes CPU waiters with kInvalidHandle, and lets GPU waits pass (SYNC-28).
  void destroy(SyncObjectId id);
  bool contains(SyncObjectId id) const;
  SyncKind kind(SyncObjectId id) const;
  uint64_t value(SyncObjectId id) const;
  /// False if a fence of 32 bits is further than UINT32_MAX / 2 from the value: neither waits nor
  /// signals may name it (SYNC-17). True for everything else.
  bool in_reach(const SyncPoint& point) const;

  /// Signals all points. The objects are known to exist. A fence never falls unless allow_rewind
  /// (SYNC-08). kInvalidParameter, with nothing changed, if a semaphore would pass its maximum or a
  /// mutex is free. Points whose object was destroyed meanwhile (queued signals) have no effect.
  /// `from` is the signalling context for the trace; 0 for the CPU.
  Status signal(std::span<const SyncPoint> points, ContextId from = ContextId{});
  /// One CPU wait; `done` runs at once if already satisfied. Latched: later rewinds do not undo it
  /// (SYNC-23).
  CpuWaitId wait_cpu(std::span<const SyncPoint> points, WaitMode mode, WaitDone done);
  /// Withdraws a wait (time-out, device error) without calling `done`. Returns false if the wait
  /// has ended already.
  bool cancel_wait(CpuWaitId wait);
  /// A GPU wait of a context. It consumes semaphores and mutexes when satisfied. True: satisfied
  /// now; otherwise `woken` follows.
  bool wait_gpu(ContextId context, std::span<const SyncPoint> points);
  void cancel_gpu_wait(ContextId context);
  /// The context is gone or has failed: its mutexes go to the next waiter (SYNC-27).
  void abandon(ContextId context);
  /// The GPU or CPU wrote a storage word directly: re-reads every object with waiters (SYNC-19).
  void reread();
  /// The same for the named objects, with or without waiters. Unknown objects are ignored.
  void reread(std::span<const SyncObjectId> objects);
  /// Every pending wait, in the order in which they came.
  std::vector<WaitInfo> waits() const;
  bool validate() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::vidsch
