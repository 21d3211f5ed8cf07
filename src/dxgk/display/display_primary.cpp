// Primaries of full drivers: made by the kernel, pinned while they are shown.
#include <fmt/format.h>

#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/display/display_level_two.h"
#include "dxgk/memory/residency.h"
#include "dxgk/work/device.h"

namespace dxgkit::dxgk {
namespace {

/// The kernel's own process, which owns what is shown before any client comes.
constexpr uint32_t kDisplayProcessNumber = 0xFFFF'FFFE;

}  // namespace

bool Display::is_kernels(const Process& process) {
  return process.number() == kDisplayProcessNumber;
}

void* Display::primary_of(const Source& source) const {
  const Primary& primary = source.next.opened ? source.next : source.current;
  return primary.opened ? primary.opened->driver_allocation : nullptr;
}

Status Display::open_owner(const char** step) {
  if (device_) return Status::kSuccess;
  process_ = std::make_unique<Process>(adapter_.system(), "display", kDisplayProcessNumber);
  Process::Scope scope(process_.get());
  *step = "DxgkDdiCreateDevice";
  Result<Ref<Device>> device = Device::create(adapter_, adapter_.floor(), *process_);
  if (!device.has_value()) {
    process_.reset();
    return failed_call(*step, device.error());
  }
  device_ = std::move(*device);
  return Status::kSuccess;
}

void Display::close_owner() {
  if (!device_) return;
  Process::Scope scope(process_.get());
  process_->handles().erase(device_->handle);
  device_->destroy();
  device_ = Ref<Device>();
  process_.reset();
}

Status Display::make_primary(uint32_t source, const vidpn::SourceMode& mode, const char** step) {
  DXGKIT_RETURN_IF_FAILED(open_owner(step));
  *step = "DxgkDdiGetStandardAllocationDriverData";
  Result<port::StandardAllocation> data =
      core_.port().allocations().describe_shared_primary({.source = source,
                                                          .width = mode.surface.width,
                                                          .height = mode.surface.height,
                                                          .format = mode.pixel_format});
  if (!data.has_value()) return failed_call(*step, data.error());
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
  if (!is_success(status))
    return core_.findings().total() != told ? status : failed_call(*step, status);
  Primary& next = sources_[source].next;
  next.resource = options.resource;
  Result<Ref<OpenedAllocation>> opened = process_->handles().find<OpenedAllocation>(request.handle);
  DXGKIT_CHECK(opened.has_value());
  next.opened = std::move(*opened);
  next.mode = mode;
  check_primary(*next.opened, mode);
  return Status::kSuccess;
}

void Display::check_primary(const OpenedAllocation& opened, const vidpn::SourceMode& mode) {
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
      core_.port().allocations().describe_allocation(opened.driver_allocation);
  if (!said.has_value()) {
    if (said.error() != Status::kNotSupported && said.error() != Status::kDeviceRemoved)
      tell(fmt::format("It answered 0x{:08X}.", static_cast<uint32_t>(said.error())));
    return;
  }
  if (said->width == mode.surface.width && said->height == mode.surface.height &&
      said->format == mode.pixel_format && said->samples <= kSamplesOfOne) {
    return;
  }
  tell(fmt::format("It described {} x {} pixels, format {}, {} samples.", said->width, said->height,
                   said->format, said->samples));
}

Status Display::show_primary(uint32_t source_id, const char** step) {
  Source& source = sources_[source_id];
  if (!source.next.opened) return Status::kSuccess;
  DXGKIT_RETURN_IF_FAILED(place_primary(source_id, source.next, step));
  drop_primary(source.current);
  source.current = std::move(source.next);
  source.next = Primary{};
  return Status::kSuccess;
}

Status Display::place_primary(uint32_t source_id, Primary& next, const char** step) {
  const bool had_pin = next.pinned;  // it stays pinned under a client's only while that is placed
  const Result<Placed> placed = pin_and_show(source_id, *next.opened, step);
  if (!placed.has_value()) return placed.error();
  if (had_pin) unpin_primary(next);
  next.pinned = true;
  const std::vector<uint32_t> targets = targets_of(source_id);
  core_.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { flips_->show(source_id, placed->address, targets); });
  return Status::kSuccess;
}

Result<Display::Placed> Display::pin_and_show(uint32_t source_id, const OpenedAllocation& surface,
                                              const char** step) {
  // DISP-11: it stays where the display reads it, until another one is shown.
  *step = "the memory manager";
  const vidmm::Use use{surface.allocation->id, false};
  Status status = Status::kSuccess;
  vidmm::Placement place;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const auto plan = adapter_.residency().make_resident(std::span(&use, 1));
    if (!plan.has_value()) {
      status = plan.error().status;
      return;
    }
    place = plan->placements.front();
    adapter_.paging().enqueue(plan->operations, nullptr);
    core_.pump();
  });
  if (!is_success(status)) return Error(failed_call(*step, status));
  const bool settled = core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    return core_.memory().pending_operations(use.allocation) == 0;
  });
  if (!settled) return Error(Status::kDeviceRemoved);
  const port::SegmentInfo& segment = core_.segment_infos().segments.at(place.segment.value - 1);
  *step = "DxgkDdiSetVidPnSourceAddress";
  const Placed placed{place.segment, segment.base_address + place.offset_bytes};
  status = level_two(adapter_, [&] {
    return core_.port().scanout().set_source_address({.source = source_id,
                                                      .segment = place.segment.value,
                                                      .address = placed.address,
                                                      .allocation = surface.driver_allocation});
  });
  if (is_success(status)) return placed;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!core_.failed()) core_.memory().release(std::span(&use, 1));
  });
  return Error(failed_call(*step, status));
}

void Display::unpin_primary(Primary& primary) {
  if (!primary.opened || !primary.pinned) return;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const vidmm::Use use{primary.opened->allocation->id, false};
    if (core_.has_memory() && primary.opened->allocation != nullptr)
      core_.memory().release(std::span(&use, 1));
  });
  primary.pinned = false;
}

void Display::drop_primary(Primary& primary) {
  if (!primary.opened) return;
  Process::Scope scope(process_.get());
  unpin_primary(primary);
  // DISP-17: who has it open still finds it, and that it is of no use.
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (primary.opened->allocation != nullptr) primary.opened->allocation->stale = true;
    adapter_.floor().listing_changes.note();
  });
  static_cast<void>(device_->memory().destroy_allocations(primary.resource, {}, true));
  primary = Primary{};
}

Result<Handle> Display::shared_primary(uint32_t source) {
  runtime::MutexLock lock(mutex_);
  const auto found = sources_.find(source);
  if (found == sources_.end()) return Error(Status::kInvalidParameter);
  const Primary& primary = found->second.current;
  if (!primary.opened) return Error(Status::kNotSupported);
  return primary.opened->resource->shared->global;
}

Result<Scanout> Display::scanout_primary(const Source& source, const DisplayMode& mode) {
  const Primary& primary = source.current;
  if (!primary.opened) return Error(Status::kNotSupported);
  Process::Scope scope(process_.get());
  const uint64_t pitch = primary.mode.stride_bytes;
  const uint64_t needed = pitch * (mode.height - 1) + uint64_t{mode.width} * 4;
  if (pitch < uint64_t{mode.width} * 4 || needed > primary.opened->allocation->size_bytes)
    return Error(Status::kNotSupported);
  const Handle handle = primary.opened->handle;
  const Result<void*> address = device_->locks().lock(handle);
  if (!address.has_value()) return Error(Status::kNotSupported);
  Scanout picture = picture_of(static_cast<const std::byte*>(*address), mode, pitch);
  static_cast<void>(device_->locks().unlock(handle));
  return picture;
}

}  // namespace dxgkit::dxgk
