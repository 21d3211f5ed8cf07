#include "dxgk/display/primaries.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "dxgk/display/display_level_two.h"
#include "dxgk/memory/sharing.h"

namespace dxgkit::dxgk {
namespace {

/// Number of the kernel's own process, which owns these primaries.
constexpr uint32_t kDisplayProcessNumber = 0xFFFF'FFFE;

}  // namespace

bool Primaries::is_kernels(const Process& process) {
  return process.number() == kDisplayProcessNumber;
}

Primaries::Primaries(DisplayCore& display, const ActiveVidPn& active, Flips& flips, Owner& owner)
    : display_(display), core_(display.core()), active_(active), flips_(flips), owner_(owner) {}

Primaries::~Primaries() = default;

bool Primaries::is_own(const DeviceMemory& device) const {
  return device_ && &device == &device_->memory();
}

Status Primaries::open_device(const char** step) {
  if (device_) return Status::kSuccess;
  process_ = owner_.make_process("display", kDisplayProcessNumber);
  Process::Scope scope(process_.get());
  *step = "DxgkDdiCreateDevice";
  Result<Ref<Device>> device = owner_.make_device(*process_);
  if (!device.has_value()) {
    process_.reset();
    return display_.failed_call(*step, device.error());
  }
  device_ = std::move(*device);
  return Status::kSuccess;
}

void Primaries::end() {
  for (auto& [id, source] : sources_) {
    drop(source.next);
    drop(source.current);
  }
  if (!device_) return;
  Process::Scope scope(process_.get());
  process_->handles().erase(device_->handle);
  device_->destroy();
  device_ = Ref<Device>();
  process_.reset();
}

Status Primaries::make(uint32_t source, const vidpn::SourceMode& mode, const char** step) {
  DXGKIT_RETURN_IF_FAILED(open_device(step));
  *step = "DxgkDdiGetStandardAllocationDriverData";
  Result<port::StandardAllocation> data =
      core_.port().allocations().describe_shared_primary({.source = source,
                                                          .width = mode.surface.width,
                                                          .height = mode.surface.height,
                                                          .format = mode.pixel_format});
  if (!data.has_value()) return display_.failed_call(*step, data.error());
  Process::Scope scope(process_.get());
  AllocationRequest request;
  request.private_data = data->allocation_data;
  request.vidpn_source = source;
  request.primary = true;
  CreateOptions options;
  options.private_data = data->resource_data;
  options.creates_resource = true;
  options.shared = true;  // clients get it from D3DKMTGetSharedPrimaryHandle
  *step = "DxgkDdiCreateAllocation";
  const size_t told = core_.findings().total();
  const Status status = device_->memory().create_allocations(std::span(&request, 1), options);
  if (!is_success(status)) {
    // It is no display DDI: like any other allocation, a primary may find no memory (ALLOC-03).
    const bool no_memory = status == Status::kNoMemory;
    if (no_memory || core_.findings().total() != told) return status;
    return display_.failed_call(*step, status);
  }
  Primary& next = sources_[source].next;
  next.resource = options.resource;
  Result<Ref<OpenedAllocation>> opened = process_->handles().find<OpenedAllocation>(request.handle);
  DXGKIT_CHECK(opened.has_value());
  next.opened = std::move(*opened);
  next.mode = mode;
  check(next);
  return Status::kSuccess;
}

void Primaries::check(Primary& primary) {
  const vidpn::SourceMode& mode = primary.mode;
  constexpr uint32_t kSamplesOfOne = 1;
  const auto tell = [&](std::string actual) {
    core_.findings().report(
        {.rule = "ALLOC-51",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiDescribeAllocation",
         .actual = std::move(actual),
         .expected =
             fmt::format("A primary of {} x {} pixels, format {}, without multisampling, as "
                         "it was asked for.",
                         mode.surface.width, mode.surface.height, mode.pixel_format),
         .fix =
             "Keep what DxgkDdiGetStandardAllocationDriverData was asked for in the private data "
             "of the allocation, and answer with it.",
         .why = "The kernel compares surfaces by it before it shows one in place of another."});
  };
  const Result<port::AllocationDescription> said =
      core_.port().allocations().describe_allocation(primary.opened->driver_allocation);
  if (!said.has_value()) {
    if (said.error() != Status::kNotSupported && said.error() != Status::kDeviceRemoved)
      tell(fmt::format("It answered 0x{:08X}.", static_cast<uint32_t>(said.error())));
    return;
  }
  primary.private_format = said->private_format;
  if (said->width == mode.surface.width && said->height == mode.surface.height &&
      said->format == mode.pixel_format && said->samples <= kSamplesOfOne) {
    return;
  }
  tell(fmt::format("It described {} x {} pixels, format {}, {} samples.", said->width, said->height,
                   said->format, said->samples));
}

void* Primaries::driver_handle(uint32_t source) {
  const Source& found = sources_[source];
  const Primary& primary = found.next.opened ? found.next : found.current;
  return primary.opened ? primary.opened->driver_allocation : nullptr;
}

Status Primaries::show_next(uint32_t source_id, const char** step) {
  Source& source = sources_[source_id];
  if (!source.next.opened) return Status::kSuccess;
  DXGKIT_RETURN_IF_FAILED(place(source_id, source.next, step));
  drop(source.current);
  source.current = std::move(source.next);
  source.next = Primary{};
  return Status::kSuccess;
}

Status Primaries::show_again(uint32_t source, const char** step) {
  return place(source, sources_[source].current, step);
}

bool Primaries::has(uint32_t source) { return opened(source) != nullptr; }

OpenedAllocation* Primaries::opened(uint32_t source) {
  return sources_[source].current.opened.get();
}

uint32_t Primaries::private_format(uint32_t source) {
  return sources_[source].current.private_format;
}

void Primaries::set_private_format(uint32_t source, uint32_t attribute) {
  sources_[source].current.private_format = attribute;
}

Status Primaries::place(uint32_t source, Primary& primary, const char** step) {
  // It is pinned already if no client's primary has replaced it.
  const bool had_pin = primary.pinned;
  const Result<PlacedSurface> placed = pin_and_show(source, *primary.opened, step);
  if (!placed.has_value()) return placed.error();
  if (had_pin) unpin(primary);
  primary.pinned = true;
  const std::vector<uint32_t> targets = active_.targets_of(source);
  core_.lane().run([&]()
                       DXGKIT_REQUIRES(on_lane) { flips_.show(source, placed->address, targets); });
  return Status::kSuccess;
}

Result<PlacedSurface> Primaries::pin_and_show(uint32_t source, const OpenedAllocation& surface,
                                              const char** step) {
  *step = "the memory manager";
  const Result<PlacedSurface> placed = pin_surface(display_, surface);
  if (!placed.has_value()) return Error(display_.failed_call(*step, placed.error()));
  *step = "DxgkDdiSetVidPnSourceAddress";
  const Status status = level_two(display_.floor(), [&] {
    return core_.port().scanout().set_source_address({.source = source,
                                                      .segment = placed->segment.value,
                                                      .address = placed->address,
                                                      .allocation = surface.driver_allocation});
  });
  if (is_success(status)) return *placed;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { unpin_surface(core_, surface); });
  return Error(display_.failed_call(*step, status));
}

void Primaries::unpin(uint32_t source) { unpin(sources_[source].current); }

void Primaries::unpin(Primary& primary) {
  if (!primary.opened || !primary.pinned) return;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { unpin_surface(core_, *primary.opened); });
  primary.pinned = false;
}

void Primaries::drop(Primary& primary) {
  if (!primary.opened) return;
  Process::Scope scope(process_.get());
  unpin(primary);
  // DISP-17: clients that have it open still find it, but can show it no more.
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (primary.opened->allocation != nullptr) primary.opened->allocation->stale = true;
    display_.floor().listing_changes.note();
  });
  static_cast<void>(device_->memory().destroy_allocations(primary.resource, {}, true));
  primary = Primary{};
}

void Primaries::drop(uint32_t source) { drop(sources_[source].current); }

void Primaries::drop_next(uint32_t source) { drop(sources_[source].next); }

Result<Handle> Primaries::shared(uint32_t source) {
  const OpenedAllocation* const shown = opened(source);
  if (shown == nullptr) return Error(Status::kNotSupported);
  return shown->resource->shared->global;
}

Result<Scanout> Primaries::scanout(uint32_t source, const DisplayMode& mode) {
  const Primary& primary = sources_[source].current;
  if (!primary.opened) return Error(Status::kNotSupported);
  Process::Scope scope(process_.get());
  const uint64_t pitch = primary.mode.stride_bytes;
  const uint64_t needed = pitch * (mode.height - 1) + uint64_t{mode.width} * kPixelBytes;
  if (pitch < uint64_t{mode.width} * kPixelBytes || needed > primary.opened->allocation->size_bytes)
    return Error(Status::kNotSupported);
  const Handle handle = primary.opened->handle;
  const Result<void*> address = device_->locks().lock(handle);
  if (!address.has_value()) return Error(Status::kNotSupported);
  Scanout picture = picture_of(static_cast<const std::byte*>(*address), mode, pitch);
  static_cast<void>(device_->locks().unlock(handle));
  return picture;
}

}  // namespace dxgkit::dxgk
