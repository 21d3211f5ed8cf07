#include "dxgk/display/overlays.h"

#include <algorithm>
#include <utility>

#include "dxgk/core/process.h"
#include "dxgk/display/surface_pins.h"

namespace dxgkit::dxgk {
namespace {

port::OverlayInfo overlay_info(const OverlayRequest& request, const port::OverlaySurface& surface) {
  return {.surface = surface,
          .destination = request.destination,
          .source = request.source,
          .private_data = request.private_data};
}

}  // namespace

Status Overlays::ready(uint32_t source) {
  if (!display_.core().running()) return Status::kDeviceRemoved;
  if (!display_.core().port().overlays().complete()) return Status::kNotSupported;
  if (display_.power() != port::PowerState::kD0) return Status::kInvalidParameter;
  return active_.network().has_source(source) ? Status::kSuccess : Status::kInvalidParameter;
}

std::vector<Ref<Overlay>> Overlays::all() {
  std::vector<Ref<Overlay>> copy;
  if (count_.load() == 0) return copy;
  display_.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) { copy = overlays_; });
  return copy;
}

void Overlays::note(const Ref<OpenedAllocation>& surface) {
  if (surface->allocation == nullptr) return;
  surface->allocation->on_overlay =
      std::ranges::any_of(overlays_, [&](const Ref<Overlay>& other) DXGKIT_REQUIRES(on_lane) {
        return other->shown && other->shown->allocation == surface->allocation;
      });
}

void Overlays::let_go(Overlay& overlay) {
  if (!overlay.shown) return;
  const Ref<OpenedAllocation> before = std::exchange(overlay.shown, {});
  unpin_surface(display_.core(), *before);
  --before->uses;
  note(before);
  display_.core().progress();
}

Status Overlays::show(Overlay& overlay, const Ref<OpenedAllocation>& surface, const Tell& tell) {
  AdapterCore& core = display_.core();
  bool usable = false, ended = false;
  uint64_t as_of = 0;
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    usable = !surface->closing && !surface->is_instance() && !surface->allocation->stale &&
             surface->allocation->offer == vidmm::OfferPriority::kNone;
    // From here on it is not offered (ALLOC-44).
    if (!usable) return;
    surface->allocation->on_overlay = true;
    ++surface->uses;  // while it is shown, it is there, whoever destroys it (ALLOC-27)
    as_of = times_off_;
  });
  if (!usable) return Status::kInvalidParameter;
  const Result<PlacedSurface> placed = pin_surface(display_, *surface);
  Status status = placed.has_value() ? tell({.allocation = surface->driver_allocation,
                                             .segment = placed->segment.value,
                                             .address = placed->address})
                                     : placed.error();
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (is_success(status) && times_off_ != as_of) status = Status::kDeviceRemoved;
    ended = is_success(status) && surface->closing;
    if (is_success(status)) {
      let_go(overlay);
      overlay.shown = surface;
    } else {
      if (placed.has_value()) unpin_surface(core, *surface);
      --surface->uses;
    }
    note(surface);
    core.progress();
  });
  if (!ended) return status;
  turn_off(overlay);  // another thread destroys what it shows now
  return Status::kInvalidParameter;
}

Result<Handle> Overlays::create(Device& device, uint32_t source, const OverlayRequest& request) {
  const GatePass pass(device.gate());
  if (!pass || device.lost()) return Error(Status::kDeviceRemoved);
  AdapterCore& core = display_.core();
  const DisplayLock lock(display_);
  DXGKIT_RETURN_ERROR_IF_FAILED(ready(source));
  const uint32_t most = port::display_caps_of(core.caps(), core.interface_version()).max_overlays;
  if (most == 0) return Error(Status::kNotSupported);
  size_t on = 0;
  for (const Ref<Overlay>& other : all()) on += other->driver_handle != nullptr ? 1 : 0;
  if (on >= most) return Error(Status::kInsufficientResources);
  const Ref<Overlay> overlay = make_object<Overlay>(device, source);
  HandleTable& handles = device.process().handles();
  DXGKIT_ASSIGN_OR_RETURN(overlay->handle, handles.insert_hidden(overlay));
  count_.fetch_add(1);
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { overlays_.push_back(overlay); });
  const Status status =
      show(*overlay, request.surface,
           [&](const port::OverlaySurface& surface) DXGKIT_REQUIRES(display_mutex) {
             const Result<void*> made =
                 core.port().overlays().create(source, overlay_info(request, surface));
             if (!made.has_value()) return made.error();
             overlay->driver_handle = *made;
             return Status::kSuccess;
           });
  if (!is_success(status)) {
    handles.erase(overlay->handle);
    end(*overlay);
    return Error(status);
  }
  handles.publish(overlay->handle);
  return overlay->handle;
}

Status Overlays::change(Overlay& overlay, const OverlayRequest& request, const Tell& tell) {
  DXGKIT_RETURN_IF_FAILED(ready(overlay.source));
  bool on = false;
  display_.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) { on = bool{overlay.shown}; });
  if (!on) return Status::kInvalidParameter;
  return show(overlay, request.surface, tell);
}

Status Overlays::update(Overlay& overlay, const OverlayRequest& request) {
  const DisplayLock lock(display_);
  return change(overlay, request,
                [&](const port::OverlaySurface& surface) DXGKIT_REQUIRES(display_mutex) {
                  return display_.core().port().overlays().update(overlay.driver_handle,
                                                                  overlay_info(request, surface));
                });
}

Status Overlays::flip(Overlay& overlay, const OverlayRequest& request) {
  const DisplayLock lock(display_);
  return change(overlay, request,
                [&](const port::OverlaySurface& surface) DXGKIT_REQUIRES(display_mutex) {
                  return display_.core().port().overlays().flip(overlay.driver_handle, surface,
                                                                request.private_data);
                });
}

bool Overlays::is_on(const Overlay& overlay) {
  bool on = false;
  display_.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) { on = bool{overlay.shown}; });
  return on;
}

void Overlays::turn_off(Overlay& overlay) {
  // A failure has been told (OPT-06).
  if (void* const gone = std::exchange(overlay.driver_handle, nullptr); gone != nullptr)
    static_cast<void>(display_.core().port().overlays().destroy(gone));
  display_.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) { let_go(overlay); });
}

void Overlays::turn_off(uint32_t source) {
  for (const Ref<Overlay>& overlay : all()) {
    if (overlay->source == source) turn_off(*overlay);
  }
}

void Overlays::turn_off_all() {
  for (const Ref<Overlay>& overlay : all()) turn_off(*overlay);
}

void Overlays::end(Overlay& overlay) {
  turn_off(overlay);
  size_t gone = 0;
  display_.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    gone = std::erase_if(overlays_, [&](const Ref<Overlay>& one) { return one.get() == &overlay; });
  });
  count_.fetch_sub(static_cast<uint32_t>(gone));
}

void Overlays::end_all() {
  for (const Ref<Overlay>& overlay : all()) end(*overlay);
}

void Overlays::destroy(Overlay& overlay) {
  const DisplayLock lock(display_);
  end(overlay);
}

void Overlays::allocations_end(const Ref<Resource>& resource,
                               std::span<const Ref<OpenedAllocation>> targets) {
  if (count_.load() == 0) return;
  std::vector<Ref<Overlay>> affected;
  display_.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (const Ref<Overlay>& overlay : overlays_) {
      const OpenedAllocation* const shown = overlay->shown.get();
      if (shown == nullptr) continue;
      const bool listed = std::ranges::any_of(
          targets, [&](const Ref<OpenedAllocation>& one) { return one.get() == shown; });
      if (listed || (resource && shown->resource.get() == resource.get()))
        affected.push_back(overlay);
    }
  });
  if (affected.empty()) return;
  const DisplayLock lock(display_);
  for (const Ref<Overlay>& overlay : affected) turn_off(*overlay);
}

void Overlays::device_ends(Device& device) {
  std::vector<Ref<Overlay>> own = all();
  std::erase_if(own, [&](const Ref<Overlay>& one) { return one->device.get() != &device; });
  for (const Ref<Overlay>& overlay : own) {
    device.process().handles().erase(overlay->handle);
    destroy(*overlay);
  }
}

void Overlays::hardware_is_off() {
  ++times_off_;
  for (const Ref<Overlay>& overlay : overlays_) let_go(*overlay);
}

}  // namespace dxgkit::dxgk
