// Flips of a full driver's sources: what is on the screen, and what will be.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/display/display_core.h"
#include "dxgk/display/planes.h"
#include "dxgk/display/vsync_control.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/work/screen_flips.h"
#include "port/adapter_port.h"
#include "runtime/thread_annotations.h"
#include "vidsch/flip_queue.h"
#include "vidsch/sync_objects.h"

namespace dxgkit::dxgk {

class Context;
class Device;
class DisplayWorker;
class Monitors;

/// Lane: the adapter's, unless a function says otherwise. Level two, on the display worker, are the
/// calls that `work()` makes.
class Flips : public ScreenFlips, private VsyncControl::Owner {
 public:
  Flips(DisplayCore& display, DisplayWorker& worker, const Monitors& monitors);
  ~Flips() override;
  Flips(const Flips&) = delete;
  Flips& operator=(const Flips&) = delete;

  // --- caps; any thread
  Ways ways() const override {
    return {.by_register = mmio_, .immediate_by_register = immediate_mmio_, .no_wait = no_wait_};
  }
  bool intervals() const { return intervals_; }
  /// Overlay planes. Null: the driver has none.
  Planes* overlays() { return overlays_.get(); }

  // --- the mode side (Display)
  /// A mode set, or back to the kernel's own primary: `address` is shown on `targets`, the first of
  /// which leads (DISP-09). Pending flips are over.
  void show(uint32_t source, uint64_t address, std::span<const uint32_t> targets)
      DXGKIT_REQUIRES(on_lane);
  /// The same for a client's primary, which is pinned already and belongs to Flips from now on.
  void show_client(uint32_t source, const Ref<OpenedAllocation>& surface, uint64_t address)
      DXGKIT_REQUIRES(on_lane);
  /// Nothing is shown: pending flips are over.
  void hide(uint32_t source) DXGKIT_REQUIRES(on_lane);
  /// Everything ends: the adapter stops or has failed.
  void drop_all() DXGKIT_REQUIRES(on_lane);
  /// Of a client's that is on the screen, else null.
  const Ref<OpenedAllocation>& on_screen(uint32_t source) const DXGKIT_REQUIRES(on_lane);
  /// Nothing is shown, nothing pends, vertical sync is off, as after power-on; Display shows again
  /// what is to be shown.
  void hardware_was_reset() DXGKIT_REQUIRES(on_lane);
  /// Around a sleep: the client's primary on the screen may leave its place, and has one again,
  /// pinned. False: it is on the screen no more, because the hardware was reset meanwhile. Then
  /// nothing is done.
  void unpin(uint32_t source) DXGKIT_REQUIRES(on_lane);
  bool repin(uint32_t source, const OpenedAllocation& surface, uint64_t address)
      DXGKIT_REQUIRES(on_lane);
  /// Whether `opened` is on a screen, or will be.
  std::optional<uint32_t> shows(const OpenedAllocation& opened) const DXGKIT_REQUIRES(on_lane);

  /// SetDisplayMode has been called by the owner since the last change of mode by others.
  bool mode_is_clients(uint32_t source) const DXGKIT_REQUIRES(on_lane);

  // --- flips
  /// Changes with every change of what the source shows that is no flip.
  uint64_t mode(uint32_t source) const DXGKIT_REQUIRES(on_lane);
  Status prepare(FlipSubmission& flip) override DXGKIT_REQUIRES(on_lane);
  void abandon(const FlipSubmission& flip) override DXGKIT_REQUIRES(on_lane);
  uint64_t queue(const FlipSubmission& flip, bool by_driver) override DXGKIT_REQUIRES(on_lane);
  /// The packet behind which the flip waited has left; a driver's own flip: is being submitted.
  void reached(uint32_t source, uint64_t id, bool completed) DXGKIT_REQUIRES(on_lane);
  std::optional<vidsch::SyncPoint> before_write(const OpenedAllocation& opened) const override
      DXGKIT_REQUIRES(on_lane);
  vidsch::SyncPoint end_of(uint32_t source, uint64_t id) const override DXGKIT_REQUIRES(on_lane);
  uint32_t pending(const Device& device) const override DXGKIT_REQUIRES(on_lane);

  // --- vertical sync
  void on_vsync(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  uint64_t vsyncs(uint32_t source) const DXGKIT_REQUIRES(on_lane);
  /// Flips of a source so far, and those that are not over. Zeros: no such source.
  struct Counts {
    uint64_t frames = 0, cancelled = 0;  // shown; another came before, or the mode changed
    uint32_t queued = 0;
    uint64_t vsyncs = 0;       // of the output that leads
    int64_t vsync_ns = 0;      // when the last of them came; 0: none yet
    uint64_t frame_vsync = 0;  // the one of the last flip that was shown
  };
  Counts counts(uint32_t source) const DXGKIT_REQUIRES(on_lane);
  /// Somebody waits for the next vertical sync of `source`: reports are wanted until it comes.
  /// Returns vsyncs(source).
  uint64_t add_waiter(uint32_t source) DXGKIT_REQUIRES(on_lane);
  /// The adapter runs, or runs again: vertical syncs are reported to who needs them.
  void start() DXGKIT_REQUIRES(on_lane) { vsync_.start(); }
  /// What is due at level two: interrupts on or off, flips by register at PASSIVE_LEVEL. Off the
  /// lane. False: nothing was.
  bool work();

 private:
  struct Record;
  struct Source;
  struct Work;
  class PlanesOwner;
  /// Null: there is no such source.
  Source* find(uint32_t source) const DXGKIT_REQUIRES(on_lane);
  void program(Source& source, const vidsch::FlipRequest& flip, bool at_once)
      DXGKIT_REQUIRES(on_lane);
  /// DISP-09. In a clone the leading output has taken a flip at its vertical sync: the others take
  /// the same address at once, where the driver's registers can (FlipImmediateMmIo).
  void flip_others(Source& source) DXGKIT_REQUIRES(on_lane);
  static port::SourceAddressArgs arguments(const Source& source, const Record& record,
                                           bool at_once);
  void finish_done(Source& source) DXGKIT_REQUIRES(on_lane);
  void let_go(Ref<OpenedAllocation>& surface) DXGKIT_REQUIRES(on_lane);
  /// Every source that is shown has had VsyncIdleTimeout whole periods without activity (DISP-12).
  bool idle_long_enough() const DXGKIT_REQUIRES(on_lane);
  // VsyncControl::Owner
  bool vsync_needed() const override DXGKIT_REQUIRES(on_lane);
  void control_vsync(bool enabled) override DXGKIT_REQUIRES(on_lane);

  DisplayCore& display_;
  AdapterCore& core_;
  DisplayWorker& worker_;
  const Monitors& monitors_;
  bool mmio_ = false, no_wait_ = false, intervals_ = false, immediate_mmio_ = false;
  uint32_t depth_ = 1, planes_ = 1;
  std::vector<std::unique_ptr<Source>> sources_;
  uint64_t last_id_ = 0;
  bool dropped_ = false;
  VsyncControl vsync_;
  std::deque<Work> work_;
  const std::unique_ptr<Planes::Owner> overlays_owner_;
  const std::unique_ptr<Planes> overlays_;
};

}  // namespace dxgkit::dxgk
