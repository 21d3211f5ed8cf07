// Clients of full drivers: who owns a source, whose primary it shows. Who has a device has a full
// driver, so flips_ is there.
#include <fmt/format.h>

#include <algorithm>

#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/display/display_level_two.h"
#include "dxgk/display/flips.h"
#include "dxgk/memory/residency.h"
#include "dxgk/work/device.h"

namespace dxgkit::dxgk {
namespace {

// D3DDDIFORMAT: with and without alpha, four bytes per pixel.
constexpr uint32_t kA8R8G8B8 = 21, kX8R8G8B8 = 22, kA8B8G8R8 = 32, kX8B8G8R8 = 33;

bool same_or_twin(uint32_t a, uint32_t b) {
  const auto plain = [](uint32_t format) {
    if (format == kA8R8G8B8) return kX8R8G8B8;
    return format == kA8B8G8R8 ? kX8B8G8R8 : format;
  };
  return plain(a) == plain(b);
}

}  // namespace

void Display::on_vsync(const port::InterruptReport& report) {
  if (flips_) flips_->on_vsync(report);
}

Status Display::check_flip_depth() {
  constexpr uint32_t kDepthMost = 15;  // our choice: beyond any hardware
  const port::FlipCaps caps = port::flip_caps_of(core_.caps(), core_.interface_version());
  if (caps.max_queued_on_vsync <= kDepthMost) return Status::kSuccess;
  core_.findings().report(verifier::Finding{
      .rule = "DISP-06",
      .severity = verifier::Severity::kBugCheck,
      .ddi = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
      .actual = fmt::format("MaxQueuedFlipOnVSync is {}.", caps.max_queued_on_vsync),
      .expected = fmt::format("At most {} flips wait in hardware.", kDepthMost),
      .fix = "Report how many addresses the display takes before the next vertical sync: 1 for a "
             "single register.",
      .bugcheck_code = 0x119,
      .bugcheck_parameter = 0x4});
  return Status::kDeviceConfigurationError;
}

void Display::wake_worker() {
  events_.fetch_add(1);
  core_.runtime().wake_all(events_);
}

bool Display::has_target(uint32_t target) const {
  return std::ranges::any_of(children_, [&](const port::ChildInfo& child) {
    return child.uid == target && child.kind != port::ChildInfo::Kind::kOther;
  });
}

std::vector<uint32_t> Display::targets_of(uint32_t source) const {
  std::vector<uint32_t> targets;
  for (const vidpn::Path& path : active_.paths) {
    if (path.source == source) targets.push_back(path.target);
  }
  return targets;
}

Status Display::set_owners(Device& device, std::span<const uint32_t> sources,
                           std::span<const SourceOwnership> types) {
  const runtime::MutexLock lock(mutex_);
  if (stopped_) return Status::kDeviceRemoved;
  Status status = Status::kSuccess;
  std::vector<uint32_t> given_up;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (sources.empty()) {
      given_up = flips_->release_owner(device);
      return;
    }
    status = flips_->set_owners(device, sources, types);
    if (is_success(status)) {
      for (const uint32_t source : sources) {
        if (!flips_->owns(device, source)) given_up.push_back(source);
      }
    }
  });
  for (const uint32_t source : given_up) {
    bool theirs = false;
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      const Ref<OpenedAllocation>& screen = flips_->on_screen(source);
      theirs = screen && screen->device.get() == &device.memory();
    });
    if (theirs) give_back(source);
  }
  return status;
}

bool Display::is_exclusive(uint32_t source) {
  bool exclusive = false;
  core_.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { exclusive = flips_ && flips_->is_exclusive(source); });
  return exclusive;
}

Status Display::set_display_mode(Device& device, const Ref<OpenedAllocation>& primary) {
  wait_for_reset();
  const runtime::MutexLock lock(mutex_);
  if (stopped_ || !core_.running()) return Status::kDeviceRemoved;
  if (power_ != port::PowerState::kD0) return Status::kInvalidParameter;
  if (!primary->allocation->primary) return Status::kInvalidParameter;
  const uint32_t source = primary->allocation->vidpn_source;
  bool owner = false, stale = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    owner = flips_->owns(device, source);
    stale = primary->allocation->stale;
  });
  if (!owner) return Status::kGraphicsNotExclusiveModeOwner;  // DISP-19
  if (stale) return Status::kGraphicsAllocationInvalid;
  const auto said = core_.port().allocations().describe_allocation(primary->driver_allocation);
  if (!said.has_value())
    return said.error() == Status::kDeviceRemoved ? said.error() : Status::kInvalidParameter;
  const DisplayMode mode{said->width, said->height};
  if (mode_of(source) != mode) DXGKIT_RETURN_IF_FAILED(set_mode_locked(source, mode));
  const vidpn::SourceMode* set = active_.pinned_source_mode(source);
  if (set == nullptr || !same_or_twin(set->pixel_format, said->format))
    return Status::kInvalidParameter;
  const char* step = "";
  DXGKIT_RETURN_IF_FAILED(place_client(source, primary, /*again=*/false, &step));
  unpin_primary(sources_[source].current);
  return Status::kSuccess;
}

Status Display::check_flip(Device& device, uint32_t source, const Ref<OpenedAllocation>& surface,
                           uint64_t* mode) {
  const runtime::MutexLock lock(mutex_);
  if (stopped_) return Status::kDeviceRemoved;
  const Allocation& allocation = *surface->allocation;
  if (!allocation.primary || allocation.vidpn_source != source) return Status::kInvalidParameter;
  bool ready = false, stale = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    ready = flips_->owns(device, source) && flips_->mode_is_clients(source);
    stale = allocation.stale;
    *mode = flips_->mode(source);
  });
  if (stale) return Status::kGraphicsAllocationInvalid;  // DISP-17
  if (!ready) return Status::kInvalidParameter;          // DISP-14
  const vidpn::SourceMode* set = active_.pinned_source_mode(source);
  if (set == nullptr) return Status::kGraphicsAllocationInvalid;
  const auto said = core_.port().allocations().describe_allocation(surface->driver_allocation);
  if (!said.has_value()) return Status::kGraphicsAllocationInvalid;
  const bool fits = said->width == set->surface.width && said->height == set->surface.height &&
                    same_or_twin(said->format, set->pixel_format);
  return fits ? Status::kSuccess : Status::kGraphicsAllocationInvalid;  // DISP-03
}

Result<Ref<OpenedAllocation>> Display::opened_screen(Device& device, uint32_t source) {
  const runtime::MutexLock lock(mutex_);
  const auto found = sources_.find(source);
  if (stopped_) return Error(Status::kDeviceRemoved);
  if (found == sources_.end()) return Error(Status::kInvalidParameter);
  Ref<OpenedAllocation> shown;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { shown = flips_->on_screen(source); });
  if (shown) {
    if (shown->device.get() != &device.memory()) return Error(Status::kGraphicsAllocationBusy);
    return shown;
  }
  shown = found->second.current.opened;
  if (!shown) return Error(Status::kInvalidParameter);
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

Status Display::wait_for_vblank(uint32_t source) {
  if (flips_ == nullptr) return Status::kNotSupported;
  bool shown = false;
  uint64_t before = 0;
  {
    const runtime::MutexLock lock(mutex_);
    shown = !stopped_ && active_.has_source(source);
  }
  if (!shown) return Status::kInvalidParameter;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { before = flips_->add_waiter(source); });
  const bool came = core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    return flips_->vsyncs(source) != before || core_.gate().closed();
  });
  return came && !core_.gate().closed() ? Status::kSuccess : Status::kDeviceRemoved;
}

Status Display::scan_line(uint32_t source, bool* in_vertical_blank, uint32_t* line) {
  std::optional<uint32_t> target;
  {
    const runtime::MutexLock lock(mutex_);
    target = target_of(source);
  }
  if (!target.has_value()) return Status::kInvalidParameter;
  return core_.port().scanout().get_scan_line(*target, in_vertical_blank, line);
}

Status Display::place_client(uint32_t source, const Ref<OpenedAllocation>& surface, bool again,
                             const char** step) {
  const Result<Placed> placed = pin_and_show(source, *surface, step);
  if (!placed.has_value()) return placed.error();
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (again) {
      flips_->repin(source, placed->segment, placed->address);
    } else {
      flips_->show_client(source, surface, placed->segment, placed->address);
    }
  });
  return Status::kSuccess;
}

void Display::give_back(uint32_t source) {
  Primary& own = sources_[source].current;
  const char* step = "";
  // Suspended, memory is being emptied: wake() brings it back and shows it.
  const bool awake = power_ == port::PowerState::kD0;
  if (awake && own.opened && is_success(place_primary(source, own, &step))) return;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { flips_->hide(source); });
}

void Display::before_destroy(DeviceMemory& device, const Ref<Resource>& resource,
                             std::span<const Ref<OpenedAllocation>> targets) {
  if (device_ && &device == &device_->memory()) return;
  std::vector<uint32_t> affected;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const auto look = [&](const OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane) {
      if (const auto source = flips_->shows(opened); source.has_value())
        affected.push_back(*source);
    };
    for (const Ref<OpenedAllocation>& opened : targets) look(*opened);
    if (!resource) return;
    for (const OpenedAllocation* opened : resource->members) look(*opened);
  });
  if (affected.empty()) return;
  const runtime::MutexLock lock(mutex_);
  if (stopped_) return;
  for (const uint32_t source : affected) give_back(source);
}

void Display::device_ends(Device& device) {
  if (&device == device_.get()) return;
  std::vector<uint32_t> shown, owned;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (uint32_t source = 0; source < source_count_; ++source) {
      const Ref<OpenedAllocation>& screen = flips_->on_screen(source);
      if ((screen && screen->device.get() == &device.memory()) ||
          (flips_->owns(device, source) && flips_->pending(device) != 0))
        shown.push_back(source);
    }
    owned = flips_->release_owner(device);
  });
  if (shown.empty()) return;
  const runtime::MutexLock lock(mutex_);
  if (stopped_) return;
  for (const uint32_t source : shown) give_back(source);
}

}  // namespace dxgkit::dxgk
