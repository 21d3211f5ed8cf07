// CPU events that the driver signals: sync objects with SignalByKmd (SYNC-24).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "base/status.h"
#include "port/ddi/cpu_event.h"
#include "runtime/sync.h"

namespace dxgkit::dxgk {

class AdapterCore;

/// Those of one adapter. Thread-safe; not on the lane, unless a call says otherwise.
class CpuEvents {
 public:
  explicit CpuEvents(AdapterCore& core);

  /// The driver has the entries: 3.0 or later.
  bool supported() const { return port_.supported(); }
  /// The driver's side of an event. `descriptor` is an eventfd, the caller's to close after end().
  /// A number above 0 by which the event is known; kNotSupported, or the driver's own failure.
  Result<uint64_t> create(void* driver_device, int descriptor);
  /// The driver's side goes, and signals that come later are findings. Idempotent.
  void end(uint64_t event);
  /// The driver's handle; null: there is no such event.
  void* driver_handle(uint64_t event);
  /// The adapter stops: the driver's side of all events that clients still hold.
  void stop();

  /// DxgkCbSignalEvent: sets the event. At most DISPATCH_LEVEL, any thread, the lane too.
  /// kInvalidParameter: there is no such event.
  Status signal(uint64_t event);

 private:
  struct Event {
    int descriptor = -1;
    void* driver_event = nullptr;
    bool in_driver = false;  // created there and not destroyed
  };

  port::CpuEventPort& port_;
  std::atomic<bool> used_{false};  // most adapters never have one
  runtime::Mutex mutex_;
  std::map<uint64_t, Event> events_ DXGKIT_GUARDED_BY(mutex_);
  uint64_t last_ DXGKIT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dxgkit::dxgk
