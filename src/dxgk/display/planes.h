// Overlay planes of a full driver's sources: presents of several planes at once.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/display/display_core.h"
#include "dxgk/memory/allocation.h"
#include "port/adapter_port.h"
#include "port/plane_types.h"
#include "runtime/thread_annotations.h"
#include "vidsch/sync_objects.h"

namespace dxgkit::dxgk {

class Context;
class Device;
class DisplayWorker;

/// D3DKMTPresentMultiPlaneOverlay, with flags, handles and rectangles checked.
struct PlanePresent {
  struct Plane {
    uint32_t layer = 0;  // 0 is on top
    bool enabled = false;
    uint32_t interval = 1;  // vertical syncs the picture before stays; 0: none, at once
    Ref<OpenedAllocation> surface = {};  // null: the plane is switched off
    port::PlaneAttributes attributes = {};
    uint32_t max_flip_line = ~0U;
    std::vector<std::byte> private_data = {};
  };
  uint32_t source = 0;
  uint64_t mode = 0;  // Flips::mode when the surfaces were seen to fit it
  std::vector<Plane> planes;
  std::vector<Ref<Context>> contexts;  // of one device; the originating one first
  bool do_not_wait = false;
  uint32_t duration_100ns = 0;
  std::optional<port::PostComposition> post_composition;
};

/// The planes of all sources of an adapter. Planes that a present does not name stay as they are,
/// and presents of different planes do not wait for each other. What the planes show ends with the
/// next mode change of their source, whose primary is then the only plane.
///
/// Lane: the adapter's, unless a function says otherwise.
class Planes {
 public:
  /// What planes ask of the rest of the screen. Lane.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual uint64_t new_flip_id() DXGKIT_REQUIRES(on_lane) = 0;
    virtual uint64_t mode(uint32_t source) const DXGKIT_REQUIRES(on_lane) = 0;
    /// A vertical sync of the source is needed now.
    virtual void planes_need_vsync(uint32_t source) DXGKIT_REQUIRES(on_lane) = 0;
    /// Flips of the device by D3DKMTPresent that have not ended.
    virtual uint32_t pending_flips(const Device& device) const DXGKIT_REQUIRES(on_lane) = 0;
    /// The output whose vertical syncs lead the source.
    virtual std::optional<uint32_t> leading_target(uint32_t source) const
        DXGKIT_REQUIRES(on_lane) = 0;
  };
  Planes(DisplayCore& display, DisplayWorker& worker, Owner& owner);
  ~Planes();
  Planes(const Planes&) = delete;
  Planes& operator=(const Planes&) = delete;

  /// MaxOverlayPlanes; 0 if the driver has no function that sets planes. Any thread.
  uint32_t most() const { return most_; }

  /// Blocks over the device's limit of flips (SCHED-16). kGraphicsAllocationBusy: over it, with
  /// do_not_wait. kGraphicsAllocationInvalid: the mode has changed since. kInvalidParameter: the
  /// driver has said that the source's planes are supported no longer (set_disabled). Else as
  /// D3DKMTPresent. Caller's thread.
  Status present(const PlanePresent& request);

  /// The packet behind which the present waited has left. Ids of others are ignored.
  void reached(uint64_t id, bool completed) DXGKIT_REQUIRES(on_lane);
  /// Planes of the source have been set since its last mode change.
  bool active(uint32_t source) const DXGKIT_REQUIRES(on_lane);
  bool needs_vsync(uint32_t source) const DXGKIT_REQUIRES(on_lane);
  /// A vertical sync of an active source.
  void on_vsync(uint32_t source, const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  /// The mode of the source changes, or it shows nothing: its presents are over.
  void reset(uint32_t source) DXGKIT_REQUIRES(on_lane);

  /// Of the source whose plane shows the surface, or will.
  std::optional<uint32_t> shows(const OpenedAllocation& opened) const DXGKIT_REQUIRES(on_lane);
  /// As ScreenFlips::before_write and ScreenFlips::pending.
  std::optional<vidsch::SyncPoint> before_write(const OpenedAllocation& opened) const
      DXGKIT_REQUIRES(on_lane);
  uint32_t pending(const Device& device) const DXGKIT_REQUIRES(on_lane);

  /// DxgkCbMultiPlaneOverlayDisabled, and the end of that by a check that the driver affirms.
  void set_disabled(uint32_t source, bool disabled) DXGKIT_REQUIRES(on_lane);

  /// One call that is due at PASSIVE_LEVEL. False: none was. The display worker's thread.
  bool work();

 private:
  struct Present;
  struct Plane;
  struct Source;
  struct Work;
  Status prepare(const PlanePresent& request, bool* pinned) DXGKIT_REQUIRES(on_lane);
  void unprepare(const PlanePresent& request) DXGKIT_REQUIRES(on_lane);
  Status tell_driver(const PlanePresent& request);
  void queue(const PlanePresent& request) DXGKIT_REQUIRES(on_lane);
  Plane& plane(Source& source, uint32_t layer) DXGKIT_REQUIRES(on_lane);
  bool may_go(const Source& source, size_t index) const DXGKIT_REQUIRES(on_lane);
  void advance(Source& source) DXGKIT_REQUIRES(on_lane);
  void program(Source& source, Present& present) DXGKIT_REQUIRES(on_lane);
  void answered(Source& source, Present& present, Status status, const port::PlaneAnswer& answer,
                bool at_passive) DXGKIT_REQUIRES(on_lane);
  void refused(Source& source, Present& present, Status status) DXGKIT_REQUIRES(on_lane);
  void plane_done(Source& source, Present& present, size_t index, bool shown)
      DXGKIT_REQUIRES(on_lane);
  void drop_finished(Source& source) DXGKIT_REQUIRES(on_lane);
  void let_go(Ref<OpenedAllocation>& surface) DXGKIT_REQUIRES(on_lane);
  bool in_hardware(const Source& source) const DXGKIT_REQUIRES(on_lane);

  DisplayCore& display_;
  AdapterCore& core_;
  DisplayWorker& worker_;
  Owner& owner_;
  uint32_t most_ = 0, depth_ = 1;
  bool hw_queue_ = false, immediate_ = false, no_wait_ = false;
  std::vector<std::unique_ptr<Source>> sources_;
  std::deque<Work> work_ DXGKIT_GUARDED_BY(on_lane);
};

}  // namespace dxgkit::dxgk
