#include "dxgk/display/surface_pins.h"

#include <span>

#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"

namespace dxgkit::dxgk {

SurfaceHold::SurfaceHold(AdapterCore& core, const Ref<OpenedAllocation>& surface)
    : core_(core), surface_(surface) {
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    held_ = !surface_->closing;
    if (held_) ++surface_->uses;
  });
}

SurfaceHold::~SurfaceHold() {
  if (!held_) return;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    --surface_->uses;
    if (surface_->closing) core_.progress();  // its destruction waits for it
  });
}

Result<PlacedSurface> pin_surface(DisplayCore& display, const OpenedAllocation& surface) {
  AdapterCore& core = display.core();
  const vidmm::Use use{surface.allocation->id, false};
  Status status = Status::kSuccess;
  vidmm::Placement place;
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const auto plan = display.floor().residency->make_resident(std::span(&use, 1));
    if (!plan.has_value()) {
      status = plan.error().status;
      return;
    }
    place = plan->placements.front();
    display.floor().paging->enqueue(plan->operations, nullptr);
    core.pump();
  });
  if (!is_success(status)) return Error(status);
  const bool settled = core.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    return core.memory().pending_operations(use.allocation) == 0;
  });
  if (!settled) return Error(Status::kDeviceRemoved);
  const port::SegmentInfo& segment = core.segment_infos().segments.at(place.segment.value - 1);
  return PlacedSurface{place.segment, segment.base_address + place.offset_bytes};
}

void unpin_surface(AdapterCore& core, const OpenedAllocation& surface) {
  if (!core.has_memory() || core.failed()) return;
  const vidmm::Use use{surface.allocation->id, false};
  core.memory().release(std::span(&use, 1));
}

}  // namespace dxgkit::dxgk
