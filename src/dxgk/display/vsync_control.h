// Vertical sync interrupts of a full driver: on while somebody needs them, and watched meanwhile.
#pragma once

#include <memory>

#include "dxgk/display/display_core.h"
#include "runtime/runtime.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Decides when the driver reports vertical syncs (DISP-12, DISP-13), and finds those that stay out
/// (TDR-31): the adapter is reset then.
class VsyncControl {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// A flip or a waiter needs the next vertical sync.
    virtual bool vsync_needed() const DXGKIT_REQUIRES(on_lane) = 0;
    /// The driver is to be told at level two, in the order of these calls; then told() is due.
    virtual void control_vsync(bool enabled) DXGKIT_REQUIRES(on_lane) = 0;
  };
  VsyncControl(DisplayCore& display, Owner& owner);
  ~VsyncControl();
  VsyncControl(const VsyncControl&) = delete;
  VsyncControl& operator=(const VsyncControl&) = delete;

  /// The adapter runs, or runs again: who waits for vertical syncs, or does not save power at them,
  /// has them reported from now on.
  void start() DXGKIT_REQUIRES(on_lane);
  /// Something may need vertical syncs that did not before.
  void look() DXGKIT_REQUIRES(on_lane);
  void on_vsync() DXGKIT_REQUIRES(on_lane);
  /// Nothing has needed them for long enough: off, if the driver saves power by that.
  void rest() DXGKIT_REQUIRES(on_lane);
  /// The driver has been told.
  void told(bool enabled) DXGKIT_REQUIRES(on_lane);
  /// They are off, as after power-on.
  void hardware_was_reset() DXGKIT_REQUIRES(on_lane) { on_ = wanted_ = false; }
  /// The adapter stops or has failed: nothing is watched any more.
  void end() DXGKIT_REQUIRES(on_lane);

 private:
  void want(bool on) DXGKIT_REQUIRES(on_lane);
  void on_watch() DXGKIT_REQUIRES(on_lane);

  DisplayCore& display_;
  AdapterCore& core_;
  Owner& owner_;
  const bool saves_power_;
  bool on_ DXGKIT_GUARDED_BY(on_lane) = false;      // as the driver was told last
  bool wanted_ DXGKIT_GUARDED_BY(on_lane) = false;  // as it will be told
  bool ended_ DXGKIT_GUARDED_BY(on_lane) = false;
  // The last vertical sync, or since when one is needed.
  runtime::TimeNs sign_of_life_ DXGKIT_GUARDED_BY(on_lane) = 0;
  bool watching_ DXGKIT_GUARDED_BY(on_lane) = false;
  std::unique_ptr<runtime::Timer> watch_;  // null once it has ended
};

}  // namespace dxgkit::dxgk
