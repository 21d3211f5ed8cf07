#include "dxgk/display/client_primaries.h"

#include <deque>
#include <vector>

#include "dxgk/display/display_level_two.h"
#include "dxgk/display/display_worker.h"
#include "dxgk/display/surface_pins.h"

namespace dxgkit::dxgk {

ClientPrimaries::ClientPrimaries(DisplayCore& display, const Parts& parts)
    : display_(display),
      core_(display.core()),
      active_(parts.active),
      flips_(parts.flips),
      owners_(parts.owners),
      kernels_(parts.kernels),
      modes_(parts.modes),
      worker_(parts.worker) {}

Status ClientPrimaries::set_owners(Device& device, std::span<const uint32_t> sources,
                                   std::span<const SourceOwnership> types) {
  const GatePass pass(device.gate());
  if (!pass && !sources.empty()) return Status::kDeviceRemoved;
  const DisplayLock lock(display_);
  if (display_.stopped()) return Status::kDeviceRemoved;
  Status status = Status::kSuccess;
  std::vector<uint32_t> given_up;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (sources.empty()) {
      given_up = owners_.release(device);
      return;
    }
    status = owners_.set(device, sources, types);
    if (is_success(status)) {
      for (const uint32_t source : sources) {
        if (!owners_.owns(device, source)) given_up.push_back(source);
      }
    }
  });
  for (const uint32_t source : given_up) {
    bool theirs = false;
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      const Ref<OpenedAllocation>& screen = flips_.on_screen(source);
      theirs = screen && screen->device.get() == &device.memory();
    });
    if (theirs) give_back(source);
  }
  return status;
}

bool ClientPrimaries::owns(const Device& device, uint32_t source) {
  bool owned = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { owned = owners_.owns(device, source); });
  return owned;
}

void ClientPrimaries::release_process(const Process& process) {
  std::vector<Ref<Device>> owners;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { owners = owners_.owners_of(process); });
  for (const Ref<Device>& device : owners) static_cast<void>(set_owners(*device, {}, {}));
}

Status ClientPrimaries::set_display_mode(Device& device, const Ref<OpenedAllocation>& primary,
                                         const ModeOptions& options, uint32_t* private_format) {
  const GatePass pass(device.gate());
  if (!pass) return Status::kDeviceRemoved;
  worker_.wait_for_reset();
  const DisplayLock lock(display_);
  if (!core_.running()) return Status::kDeviceRemoved;
  if (display_.power() != port::PowerState::kD0) return Status::kInvalidParameter;
  const SurfaceHold held(core_, primary);
  if (!held || !primary->allocation->primary) return Status::kInvalidParameter;
  const uint32_t source = primary->allocation->vidpn_source;
  bool owner = false, stale = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    owner = owners_.owns(device, source);
    stale = primary->allocation->stale;
  });
  if (!owner) return Status::kGraphicsNotExclusiveModeOwner;  // DISP-19
  if (stale) return Status::kGraphicsAllocationInvalid;
  const auto said = core_.port().allocations().describe_allocation(primary->driver_allocation);
  if (!said.has_value())
    return said.error() == Status::kDeviceRemoved ? said.error() : Status::kInvalidParameter;
  const ModeWish wish{.size = {said->width, said->height},
                      .scanline_ordering = options.scanline_ordering,
                      .rotation = options.rotation,
                      .pixel_format = said->format};
  const bool is_shown = active_.shows(source, wish);
  if (!is_shown && options.preserve_vidpn) return Status::kInvalidParameter;
  if (const uint32_t current = kernels_.private_format(source); said->private_format != current) {
    // A surface in another format is shown in the mode that is set, or not at all.
    if (!is_shown) return Status::kInvalidParameter;
    *private_format = current;
    return kIncompatiblePrivateFormat;
  }
  if (!is_shown) {
    const Status status = modes_.set(source, wish);
    const bool is_offered = status != vidpn::kInvalidTransformation &&
                            status != vidpn::kInvalidSourceMode &&
                            status != vidpn::kInvalidTargetMode;
    if (!is_success(status)) return is_offered ? status : Status::kInvalidParameter;
  }
  const char* step = "";
  DXGKIT_RETURN_IF_FAILED(place(source, primary, /*again=*/false, &step));
  kernels_.unpin(source);
  bool closing = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { closing = primary->closing; });
  if (closing) give_back(source);  // who destroys it looked before it was shown
  return Status::kSuccess;
}

Status ClientPrimaries::set_private_format(Device& device, uint32_t source, uint32_t attribute) {
  worker_.wait_for_reset();
  const DisplayLock lock(display_);
  if (!core_.running()) return Status::kDeviceRemoved;
  if (!display_.has_source(source) || display_.power() != port::PowerState::kD0)
    return Status::kInvalidParameter;
  if (!core_.port().has_entry("DxgkDdiSetDisplayPrivateDriverFormat")) return Status::kNotSupported;
  bool owner = false;
  Ref<OpenedAllocation> shown;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    owner = owners_.owns(device, source);
    shown = flips_.on_screen(source);
  });
  if (!owner) return Status::kGraphicsNotExclusiveModeOwner;
  if (!shown) shown = Ref<OpenedAllocation>(kernels_.opened(source));
  void* const primary = shown ? shown->driver_allocation : nullptr;
  const Status status = level_two(display_.floor(), [&] {
    return core_.port().scanout().set_private_format(source, primary, attribute);
  });
  if (is_success(status)) kernels_.set_private_format(source, attribute);
  return status;
}

Status ClientPrimaries::check_flip(Device& device, uint32_t source,
                                   const Ref<OpenedAllocation>& surface, uint64_t* mode) {
  const DisplayLock lock(display_);
  if (display_.stopped()) return Status::kDeviceRemoved;
  const SurfaceHold held(core_, surface);
  if (!held) return Status::kInvalidParameter;
  const Allocation& allocation = *surface->allocation;
  if (!allocation.primary || allocation.vidpn_source != source) return Status::kInvalidParameter;
  bool ready = false, stale = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    ready = owners_.owns(device, source) && flips_.mode_is_clients(source);
    stale = allocation.stale;
    *mode = flips_.mode(source);
  });
  if (stale) return Status::kGraphicsAllocationInvalid;  // DISP-17
  if (!ready) return Status::kInvalidParameter;          // DISP-14
  const vidpn::SourceMode* set = active_.network().pinned_source_mode(source);
  if (set == nullptr) return Status::kGraphicsAllocationInvalid;
  const auto said = core_.port().allocations().describe_allocation(surface->driver_allocation);
  if (!said.has_value()) return Status::kGraphicsAllocationInvalid;
  const bool fits = said->width == set->surface.width && said->height == set->surface.height &&
                    same_pixels(said->format, set->pixel_format);
  return fits ? Status::kSuccess : Status::kGraphicsAllocationInvalid;  // DISP-03
}

Status ClientPrimaries::check_planes(Device& device, uint32_t source,
                                     std::span<const Ref<OpenedAllocation>> surfaces,
                                     std::vector<DisplayMode>* sizes, DisplayMode* screen,
                                     uint64_t* mode) {
  const DisplayLock lock(display_);
  if (display_.stopped()) return Status::kDeviceRemoved;
  std::deque<SurfaceHold> held;
  for (const Ref<OpenedAllocation>& surface : surfaces) {
    if (!held.emplace_back(core_, surface)) return Status::kInvalidParameter;
  }
  bool ready = false, stale = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    ready = owners_.owns(device, source) && flips_.mode_is_clients(source);
    for (const Ref<OpenedAllocation>& surface : surfaces)
      stale = stale || surface->allocation->stale;
    *mode = flips_.mode(source);
  });
  for (const Ref<OpenedAllocation>& surface : surfaces) {
    const Allocation& allocation = *surface->allocation;
    if (!allocation.primary || allocation.vidpn_source != source) return Status::kInvalidParameter;
  }
  if (stale) return Status::kGraphicsAllocationInvalid;  // DISP-17
  const std::optional<DisplayMode> shown = active_.mode_of(source);
  if (!ready || !shown.has_value()) return Status::kInvalidParameter;  // DISP-14
  *screen = *shown;
  for (const Ref<OpenedAllocation>& surface : surfaces) {
    const auto said = core_.port().allocations().describe_allocation(surface->driver_allocation);
    if (!said.has_value()) return Status::kGraphicsAllocationInvalid;
    sizes->push_back({said->width, said->height});
  }
  return Status::kSuccess;
}

Result<Ref<OpenedAllocation>> ClientPrimaries::opened_screen(Device& device, uint32_t source) {
  const DisplayLock lock(display_);
  if (display_.stopped()) return Error(Status::kDeviceRemoved);
  if (!display_.has_source(source)) return Error(Status::kInvalidParameter);
  Ref<OpenedAllocation> shown;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { shown = flips_.on_screen(source); });
  if (shown) {
    if (shown->device.get() != &device.memory()) return Error(Status::kGraphicsAllocationBusy);
    return shown;
  }
  shown = Ref<OpenedAllocation>(kernels_.opened(source));
  if (!shown) return Error(Status::kInvalidParameter);
  const SurfaceHold held(core_, shown);
  if (!held) return Error(Status::kInvalidParameter);
  Ref<OpenedAllocation> own;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (OpenedAllocation* opened : shown->allocation->opened) {
      if (opened->device.get() == &device.memory() && !opened->closing)
        own = Ref<OpenedAllocation>(opened);
    }
  });
  if (own) return own;
  OpenedResource opened;
  DXGKIT_RETURN_ERROR_IF_FAILED(
      device.memory().open_resource(shown->resource->shared, /*read_only=*/false, &opened));
  return device.process().handles().find<OpenedAllocation>(opened.allocations.front());
}

Status ClientPrimaries::place(uint32_t source, const Ref<OpenedAllocation>& surface, bool again,
                              const char** step) {
  const Result<PlacedSurface> placed = kernels_.pin_and_show(source, *surface, step);
  if (!placed.has_value()) return placed.error();
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!again) {
      flips_.show_client(source, surface, placed->address);
    } else if (!flips_.repin(source, *surface, placed->address)) {
      unpin_surface(core_, *surface);
      status = Status::kDeviceRemoved;
    }
  });
  return status;
}

void ClientPrimaries::give_back(uint32_t source) {
  const char* step = "";
  // Suspended, memory is being emptied: wake() brings it back and shows it.
  const bool awake = display_.power() == port::PowerState::kD0;
  if (awake && kernels_.has(source) && is_success(kernels_.show_again(source, &step))) return;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { flips_.hide(source); });
}

void ClientPrimaries::before_destroy(DeviceMemory& device, const Ref<Resource>& resource,
                                     std::span<const Ref<OpenedAllocation>> targets) {
  if (kernels_.is_own(device)) return;
  std::vector<uint32_t> affected;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const auto look = [&](const OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane) {
      if (const auto source = flips_.shows(opened); source.has_value()) affected.push_back(*source);
    };
    for (const Ref<OpenedAllocation>& opened : targets) look(*opened);
    if (!resource) return;
    for (const OpenedAllocation* opened : resource->members) look(*opened);
  });
  if (affected.empty()) return;
  const DisplayLock lock(display_);
  if (display_.stopped()) return;
  for (const uint32_t source : affected) give_back(source);
}

void ClientPrimaries::device_ends(Device& device) {
  if (kernels_.is_own(device)) return;
  std::vector<uint32_t> shown, owned;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (uint32_t source = 0; source < display_.source_count(); ++source) {
      const Ref<OpenedAllocation>& screen = flips_.on_screen(source);
      if ((screen && screen->device.get() == &device.memory()) ||
          (owners_.owns(device, source) && flips_.pending(device) != 0))
        shown.push_back(source);
    }
    owned = owners_.release(device);
  });
  if (shown.empty()) return;
  const DisplayLock lock(display_);
  if (display_.stopped()) return;
  for (const uint32_t source : shown) give_back(source);
}

}  // namespace dxgkit::dxgk
