// When a full driver reports vertical syncs, and what happens if it does not.
#pragma once

#include <memory>

#include "dxgk/display/display_core.h"
#include "runtime/runtime.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Decides when vertical sync interrupts are on (DISP-12, DISP-13). Notices when a vertical sync
/// that is needed does not come, and asks for a reset of the adapter then (TDR-31).
class VsyncControl {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// A flip or a waiter needs the next vertical sync.
    virtual bool vsync_needed() const DXGKIT_REQUIRES(on_lane) = 0;
    /// Has the driver told at level two, in the order of these calls. told() follows each.
    virtual void control_vsync(bool enabled) DXGKIT_REQUIRES(on_lane) = 0;
  };
  VsyncControl(DisplayCore& display, Owner& owner);
  ~VsyncControl();
  VsyncControl(const VsyncControl&) = delete;
  VsyncControl& operator=(const VsyncControl&) = delete;

  /// The adapter runs, or runs again. A driver that does not save power at vertical syncs reports
  /// them from now on; others do if somebody needs them.
  void start() DXGKIT_REQUIRES(on_lane);
  /// A flip or a waiter may need vertical syncs now.
  void look() DXGKIT_REQUIRES(on_lane);
  /// A vertical sync was reported.
  void on_vsync() DXGKIT_REQUIRES(on_lane);
  /// Nothing has needed vertical syncs for long enough. They are switched off if the driver saves
  /// power by that.
  void rest() DXGKIT_REQUIRES(on_lane);
  /// The driver has been told at level two.
  void told(bool enabled) DXGKIT_REQUIRES(on_lane);
  /// Vertical sync interrupts are off, as after power-on.
  void hardware_was_reset() DXGKIT_REQUIRES(on_lane) { on_ = wanted_ = false; }
  /// The adapter stops or has failed. Missing vertical syncs are not noticed any more.
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
