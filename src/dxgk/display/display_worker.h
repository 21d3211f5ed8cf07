// The thread of a display: it serves hot plugs, flips at level two, and screens after a reset.
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

/// Does work that may run neither on the lane nor in a driver's callback. In each round the owner
/// first shows the screens after a reset, then works on flips, then takes up hot plugs in the order
/// in which the driver indicated them.
class DisplayWorker {
 public:
  /// Called on the worker's thread, with no lock held.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void show_after_reset() = 0;
    /// Does one piece of work of flips. False: there was none.
    virtual bool work_on_flips() = 0;
    virtual void monitor_changed(uint32_t child, bool connected) = 0;
  };
  DisplayWorker(AdapterCore& core, Owner& owner) : core_(core), owner_(owner) {}

  void start();
  /// Ends the thread. Hot plugs that it has not served are dropped. Idempotent. Not on the lane.
  void stop();

  /// In place of a child: the driver has changes of its outputs to tell (DISP-37).
  static constexpr uint32_t kConnectors = UINT32_MAX;

  /// There may be work of flips. Any context.
  void wake();
  /// The driver has indicated a child's status. Any context.
  void add_hot_plug(uint32_t child, bool connected);
  /// Blocks until every hot plug indicated so far is served, or the worker has stopped. Not on the
  /// lane.
  void wait_for_hot_plug();

  /// The adapter is being reset: nothing is shown.
  void hardware_was_reset() DXGKIT_REQUIRES(on_lane) { ++resets_; }
  /// The adapter runs again and is to show what it showed before. Any thread.
  void set_again();
  /// Blocks until the kernel has shown its screens after a reset: they would replace a mode that a
  /// client sets before. Not on the lane, without the display mutex.
  void wait_for_reset();

 private:
  struct HotPlug {
    uint32_t child = 0;
    bool connected = false;
  };
  void run();

  AdapterCore& core_;
  Owner& owner_;
  uint64_t resets_ DXGKIT_GUARDED_BY(on_lane) = 0;        // resets of the adapter so far
  uint64_t resets_shown_ DXGKIT_GUARDED_BY(on_lane) = 0;  // of them: the screens are shown again

  // Innermost: callbacks take it.
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
