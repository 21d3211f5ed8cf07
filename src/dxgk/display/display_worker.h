// The thread of a display: monitors that come and go, flips at level two, screens after a reset.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "dxgk/core/adapter_core.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Collects what is to be done off the lane and off the driver's callbacks, and has the owner do it
/// in turn: the screens after a reset, flips, then monitors in the order they were indicated.
class DisplayWorker {
 public:
  /// On the worker's thread, with no lock held.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void show_after_reset() = 0;
    /// One piece of work of flips. False: there was none.
    virtual bool work_on_flips() = 0;
    virtual void monitor_changed(uint32_t child, bool connected) = 0;
  };
  DisplayWorker(AdapterCore& core, Owner& owner) : core_(core), owner_(owner) {}

  void start();
  /// What was indicated and not yet served is dropped. Idempotent. Not on the lane.
  void stop();

  /// Any context.
  void wake();
  /// The driver has indicated a child's status. Any context.
  void add_hot_plug(uint32_t child, bool connected);
  /// Until every hot plug announced so far is served, or the worker has been stopped. Not on the
  /// lane.
  void wait_for_hot_plug();

  /// The adapter is being reset: nothing is shown.
  void hardware_was_reset() DXGKIT_REQUIRES(on_lane) { ++resets_; }
  /// It runs again, and is to show what it showed. Any thread.
  void set_again();
  /// What the kernel shows after a reset is there: a client's mode that is set before would be
  /// lost. Not on the lane, without the display mutex.
  void wait_for_reset();

 private:
  struct HotPlug {
    uint32_t child = 0;
    bool connected = false;
  };
  void run();

  AdapterCore& core_;
  Owner& owner_;
  uint64_t resets_ DXGKIT_GUARDED_BY(on_lane) = 0;        // of the adapter, begun
  uint64_t resets_shown_ DXGKIT_GUARDED_BY(on_lane) = 0;  // those after which it shows again

  // Leaf lock: callbacks take it.
  runtime::Mutex mutex_;
  std::vector<HotPlug> hot_plugs_ DXGKIT_GUARDED_BY(mutex_);
  uint32_t announced_ DXGKIT_GUARDED_BY(mutex_) = 0;  // hot plugs so far
  bool ending_ DXGKIT_GUARDED_BY(mutex_) = false;
  bool was_reset_ DXGKIT_GUARDED_BY(mutex_) = false;
  std::atomic<uint32_t> events_{0};  // counts; the thread waits on it
  std::atomic<uint32_t> served_{0};  // counts hot plugs; wait_for_hot_plug waits on it
  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace dxgkit::dxgk
