// The display half of an adapter: monitors, modes, primaries, flips.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/core/process.h"
#include "dxgk/display/active_vidpn.h"
#include "dxgk/display/client_primaries.h"
#include "dxgk/display/display_core.h"
#include "dxgk/display/display_floor.h"
#include "dxgk/display/display_only_presents.h"
#include "dxgk/display/display_types.h"
#include "dxgk/display/display_worker.h"
#include "dxgk/display/flips.h"
#include "dxgk/display/mode_setting.h"
#include "dxgk/display/monitors.h"
#include "dxgk/display/overlays.h"
#include "dxgk/display/owned_sources.h"
#include "dxgk/display/pointer.h"
#include "dxgk/display/primaries.h"
#include "dxgk/display/scanout.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/power/powered_display.h"
#include "port/adapter_port.h"
#include "runtime/descriptor_watch.h"
#include "runtime/thread_annotations.h"
#include "vidpn/vidpn.h"

namespace dxgkit::dxgk {

/// The display half of one adapter: makes the parts, joins them, starts and stops them.
///
/// Any thread outside the driver and off the lane: every public function takes the display mutex
/// and may block in the driver. Mode changes are level two, presents are level zero. Both are made
/// one at a time.
class Display : public PoweredDisplay, private DisplayWorker::Owner {
 public:
  /// `children`: as the driver described them. `sources`: at least 1.
  Display(DisplayFloor& floor, Primaries::Owner& owner, std::vector<port::ChildInfo> children,
          uint32_t sources);
  ~Display() override;
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  // --- driven by Adapter
  /// Checks what the driver declared (CAPS-07, DISP-06). kDeviceConfigurationError: a finding says
  /// why.
  Status describe();
  /// Asks for monitors, commits a functional VidPN and makes its sources visible. `*step` names the
  /// DDI at work. kDeviceRemoved: the adapter has failed. A driver that cannot show anything is no
  /// failure (a finding says why), nor is an adapter without monitors.
  Status start(const char** step);
  /// Ends the worker and the full driver's primaries, before the device stops. Idempotent.
  void stop();
  /// All reports of vertical syncs arrive here.
  void on_vsync(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  void on_adapter_failed() DXGKIT_REQUIRES(on_lane);
  /// The adapter is being reset: it shows nothing, and flips that pend are over.
  void hardware_was_reset() DXGKIT_REQUIRES(on_lane);

  // --- the parts
  /// Its post_target() is the one for StopDeviceAndReleasePostDisplayOwnership.
  const ActiveVidPn& active() const { return active_; }
  DisplayCore& shared() { return display_; }
  Monitors& monitors() { return monitors_; }
  DisplayWorker& worker() { return worker_; }
  ModeSetting& modes() { return modes_; }
  Pointer& pointer() { return pointer_; }
  DisplayOnlyPresents& presents() { return presents_; }
  /// Null: a display-only driver.
  Flips* flips() { return flips_.get(); }
  /// Null: a display-only driver.
  ClientPrimaries* clients() { return clients_.get(); }
  /// Null: a display-only driver.
  Primaries* primaries() { return primaries_.get(); }
  /// Null: a display-only driver.
  Overlays* overlays() { return overlays_.get(); }

  // --- for clients; see Displays for what they answer
  DisplayConfiguration configuration();
  vidpn::Network active_network();
  Status set_mode(uint32_t source, const DisplayMode& mode);
  Result<Scanout> scanout(uint32_t source);
  /// The global handle under which clients open the primary that is shown. kInvalidParameter: no
  /// such source. kNotSupported: nothing is shown, or a display-only driver.
  Result<Handle> shared_primary(uint32_t source);
  /// A device owns the source exclusively.
  bool is_exclusive(uint32_t source);
  /// The sources that the process owns, by id; none of a display-only driver.
  std::vector<std::pair<uint32_t, SourceOwnership>> owned_by(const Process& process);
  /// Which outputs D3DKMTPollDisplayChildren asks for.
  struct Poll {
    bool interruptible = false;         // also outputs that report by themselves
    bool non_destructive_only = false;  // the driver disturbs no screen
    bool keep_modes = false;            // monitors that came or went change no mode
  };
  /// Asks the driver for the status of its outputs, and acts on monitors that came or went.
  void poll_children(const Poll& poll);
  /// Commits the VidPN that the driver recommends. See ModeSetting::take_recommendation.
  /// kDeviceRemoved: stopped, asleep, or failed. Else the driver's failure; the screens show what
  /// they showed before.
  Status take_recommendation(std::span<const std::byte> wish);
  /// Blocks until the next vertical sync of the source, or until a descriptor of `others` is
  /// readable. Starts `others`, if it is not null and has any. Answers 0 for the vertical sync,
  /// else the position of the descriptor, from 1. kInvalidParameter: the source is not shown.
  /// kNotSupported: a display-only driver. kInsufficientResources: `others` cannot start.
  /// kDeviceRemoved: the adapter stops or fails.
  Result<size_t> wait_for_vblank(uint32_t source, runtime::DescriptorWatch* others = nullptr);
  Status scan_line(uint32_t source, bool* in_vertical_blank, uint32_t* line);

  // PoweredDisplay
  void suspend() override;
  void wake() override;
  Status set_power(port::PowerState state, port::PowerAction action) override;
  std::span<const port::ChildInfo> children() const override { return monitors_.children(); }

 private:
  // DisplayWorker::Owner
  void show_after_reset() override;
  bool work_on_flips() override;
  void monitor_changed(uint32_t child, bool connected) override;
  /// Full drivers: nothing is shown or owned any more.
  void end_flips() DXGKIT_REQUIRES(on_lane);

  DisplayCore display_;
  AdapterCore& core_;
  Monitors monitors_;
  DisplayWorker worker_;
  ActiveVidPn active_;
  DisplayOnlyPresents presents_;
  // Null for a display-only driver, and so is clients_:
  const std::unique_ptr<Flips> flips_;
  const std::unique_ptr<OwnedSources> owners_;
  const std::unique_ptr<Primaries> primaries_;
  const std::unique_ptr<Overlays> overlays_;
  ModeSetting modes_;
  Pointer pointer_;
  std::unique_ptr<ClientPrimaries> clients_;
  std::map<uint32_t, bool> shown_before_sleep_ DXGKIT_GUARDED_BY(display_mutex);
};

/// Null: the driver has no overlay planes. `display` may be null.
inline Planes* overlays_of(Display* display) {
  Flips* const flips = display == nullptr ? nullptr : display->flips();
  return flips == nullptr ? nullptr : flips->overlays();
}

}  // namespace dxgkit::dxgk
