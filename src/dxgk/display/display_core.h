// The display mutex of an adapter, and the state that all its display parts share.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/power/power_floor.h"
#include "port/adapter_port.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class DXGKIT_CAPABILITY("role") DisplayMutexRole {};

/// "The display mutex of the adapter at hand is held", for the analysis: a DisplayLock gives it.
/// The name stands for the display mutexes of all adapters, as on_lane stands for all lanes.
inline constexpr DisplayMutexRole display_mutex;

/// The display mutex, and what every display part asks before it acts. The parts share one.
class DisplayCore {
 public:
  /// `sources`: the number of video present sources, at least 1.
  DisplayCore(PowerFloor& floor, uint32_t sources);
  DisplayCore(const DisplayCore&) = delete;
  DisplayCore& operator=(const DisplayCore&) = delete;

  // --- any thread
  PowerFloor& floor() { return floor_; }
  AdapterCore& core() { return core_; }
  bool display_only() const { return display_only_; }
  uint32_t source_count() const { return source_count_; }
  bool has_source(uint32_t source) const { return source < source_count_; }
  /// Only Power's mutex is taken before it. It is held across DDIs, and never taken on the lane.
  runtime::Mutex& mutex() { return mutex_; }

  /// Nothing is shown any more. The adapter's gate has been closed before, so that it is not
  /// running() either.
  bool stopped() const DXGKIT_REQUIRES(display_mutex) { return stopped_; }
  void set_stopped() DXGKIT_REQUIRES(display_mutex) { stopped_ = true; }
  /// What the driver was told last. Of a full driver: D3 from Display::suspend() to wake(), else
  /// D0.
  port::PowerState power() const DXGKIT_REQUIRES(display_mutex) { return power_; }
  void set_power(port::PowerState state) DXGKIT_REQUIRES(display_mutex) { power_ = state; }

  /// A DDI has failed. If the adapter still runs, a finding tells of it (DOD-03). Returns `status`.
  /// Any thread.
  Status failed_call(const char* ddi, Status status);

 private:
  PowerFloor& floor_;
  AdapterCore& core_;
  const bool display_only_;
  const uint32_t source_count_;
  runtime::Mutex mutex_;
  bool stopped_ DXGKIT_GUARDED_BY(display_mutex) = false;
  port::PowerState power_ DXGKIT_GUARDED_BY(display_mutex) = port::PowerState::kD0;
};

/// Holds the display mutex during its life.
class DXGKIT_SCOPED_CAPABILITY DisplayLock {
 public:
  explicit DisplayLock(DisplayCore& display)
      DXGKIT_ACQUIRE(display_mutex) DXGKIT_NO_THREAD_SAFETY_ANALYSIS : mutex_(display.mutex()) {
    mutex_.lock();
  }
  ~DisplayLock() DXGKIT_RELEASE() DXGKIT_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }
  DisplayLock(const DisplayLock&) = delete;
  DisplayLock& operator=(const DisplayLock&) = delete;

 private:
  runtime::Mutex& mutex_;
};

}  // namespace dxgkit::dxgk
