// Overlays of clients of full drivers, as WDDM 1.x has them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/core/object.h"
#include "dxgk/display/active_vidpn.h"
#include "dxgk/display/display_core.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/work/device.h"
#include "port/adapter_port.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// An overlay of a device on one source. A client's handle names it until the client destroys it
/// or the device, also while the hardware is off.
class Overlay : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kOverlay;
  Overlay(Device& device_in, uint32_t source_in)
      : Object(kType), device(&device_in), source(source_in) {}

  const Ref<Device> device;
  const uint32_t source;
  Handle handle = 0;
  /// The driver's name; null: the driver has none any more.
  void* driver_handle DXGKIT_GUARDED_BY(display_mutex) = nullptr;
  /// What it shows, pinned. Null: the hardware is off (OPT-03).
  Ref<OpenedAllocation> shown DXGKIT_GUARDED_BY(on_lane);
};

/// What a client shows through an overlay.
struct OverlayRequest {
  Ref<OpenedAllocation> surface;  // of the overlay's device
  port::Rect destination, source;
  std::span<const std::byte> private_data;
};

/// Makes overlays, moves them and turns them off.
///
/// An overlay is off once its allocation is destroyed, its source gets another mode, or the adapter
/// sleeps or is reset (OPT-03). Only a new overlay shows anything again.
///
/// Any thread outside the driver and off the lane, but where a comment says otherwise. A public
/// function takes the display mutex, unless it requires it. No two calls of the driver overlap.
class Overlays {
 public:
  Overlays(DisplayCore& display, const ActiveVidPn& active) : display_(display), active_(active) {}
  Overlays(const Overlays&) = delete;
  Overlays& operator=(const Overlays&) = delete;

  /// D3DKMTCreateOverlay. kNotSupported: the driver has no overlays. kInsufficientResources: it has
  /// as many as its caps allow. kInvalidParameter: nothing is shown on the source, or the surface
  /// is offered, locked out or being destroyed. kDeviceRemoved. Else the driver's failure, or the
  /// memory manager's; nothing stays then.
  Result<Handle> create(Device& device, uint32_t source, const OverlayRequest& request);
  /// D3DKMTUpdateOverlay. kInvalidParameter: the overlay is off. The rest as create(); after a
  /// failure it shows what it showed.
  Status update(Overlay& overlay, const OverlayRequest& request);
  /// D3DKMTFlipOverlay: another surface in the same place.
  Status flip(Overlay& overlay, const OverlayRequest& request);
  /// D3DKMTDestroyOverlay. The handle is gone already.
  void destroy(Overlay& overlay);
  bool is_on(const Overlay& overlay);

  // --- what turns overlays off
  /// The source gets another mode.
  void turn_off(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// The adapter sleeps.
  void turn_off_all() DXGKIT_REQUIRES(display_mutex);
  /// The adapter stops.
  void end_all() DXGKIT_REQUIRES(display_mutex);
  /// See ShownAllocations::after_closing.
  void allocations_end(const Ref<Resource>& resource,
                       std::span<const Ref<OpenedAllocation>> targets);
  /// Nothing can be made on the device any more: its overlays and their handles end.
  void device_ends(Device& device);
  /// The adapter is reset, or has failed. The driver keeps its side until the client lets go.
  void hardware_is_off() DXGKIT_REQUIRES(on_lane);

 private:
  using Tell = std::function<Status(const port::OverlaySurface&)>;
  /// kSuccess: an overlay on the source can show something.
  Status ready(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// Pins the surface, tells the driver of it, and lets go of the one before.
  Status show(Overlay& overlay, const Ref<OpenedAllocation>& surface, const Tell& tell)
      DXGKIT_REQUIRES(display_mutex);
  /// Of an overlay that is on.
  Status change(Overlay& overlay, const OverlayRequest& request, const Tell& tell)
      DXGKIT_REQUIRES(display_mutex);
  void turn_off(Overlay& overlay) DXGKIT_REQUIRES(display_mutex);
  void end(Overlay& overlay) DXGKIT_REQUIRES(display_mutex);
  void let_go(Overlay& overlay) DXGKIT_REQUIRES(on_lane);
  /// Sets Allocation::on_overlay.
  void note(const Ref<OpenedAllocation>& surface) DXGKIT_REQUIRES(on_lane);
  /// A copy: the list changes meanwhile.
  std::vector<Ref<Overlay>> all();

  DisplayCore& display_;
  const ActiveVidPn& active_;
  std::vector<Ref<Overlay>> overlays_ DXGKIT_GUARDED_BY(on_lane);  // in creation order
  uint64_t times_off_ DXGKIT_GUARDED_BY(on_lane) = 0;              // hardware_is_off()
  // How many there are: without any, nobody goes to the lane to look.
  std::atomic<uint32_t> count_{0};
};

}  // namespace dxgkit::dxgk
