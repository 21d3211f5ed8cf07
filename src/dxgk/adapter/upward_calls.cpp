#include "dxgk/adapter/upward_calls.h"

#include <utility>
#include <vector>

#include "dxgk/display/display.h"
#include "dxgk/display/display_level_two.h"
#include "dxgk/memory/allocation_rules.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/va/system_pages.h"
#include "dxgk/va/table_eviction.h"
#include "dxgk/va/update_batches.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/timeout.h"

namespace dxgkit::dxgk {

bool UpwardCalls::hardware_resets() const { return floor_.timeout->adapter_reset().under_way(); }

bool UpwardCalls::tables_are_away(const Process& process) const {
  return floor_.gpu_va != nullptr && floor_.table_eviction->tables_are_away(process);
}

UpwardCalls::TableRoom UpwardCalls::table_room(const Process& process) {
  return floor_.gpu_va != nullptr ? floor_.table_eviction->table_room(process) : TableRoom{};
}

bool UpwardCalls::tables_give_way(const Process& process) const {
  return floor_.gpu_va != nullptr && floor_.table_eviction->tables_give_way(process);
}

UpwardCalls::Tables UpwardCalls::bring_tables(const Process& process) {
  return floor_.gpu_va != nullptr ? floor_.table_eviction->bring_tables(process) : Tables::kThere;
}

bool UpwardCalls::let_tables_go() {
  return floor_.gpu_va != nullptr && floor_.table_eviction->let_tables_go();
}

bool UpwardCalls::let_tables_go(vidmm::SegmentSet wanted) {
  if (floor_.gpu_va == nullptr) return false;
  const gpuva::Geometry& geometry = floor_.spaces->geometry();
  vidmm::SegmentSet tables = 0;
  for (uint32_t level = 0; level < geometry.level_count; ++level)
    tables |= vidmm::segment_bit(geometry.levels[level].segment);
  return (tables & wanted) != 0 && floor_.table_eviction->let_tables_go();
}

bool UpwardCalls::entries_under_way(AllocationId allocation) {
  return floor_.gpu_va != nullptr && floor_.gpu_va->entries_under_way(allocation);
}

bool UpwardCalls::let_idle_go() {
  const bool nodes = floor_.context_allocations->let_go_idle();
  const bool pools = floor_.gpu_va != nullptr && floor_.updates->let_go();
  return nodes || pools;
}

void UpwardCalls::before_destroy(DeviceMemory& device, const Ref<Resource>& resource,
                                 std::span<const Ref<OpenedAllocation>> targets) {
  if (floor_.display != nullptr)
    floor_.display->clients()->before_destroy(device, resource, targets);
  if (floor_.captures.load() == 0) return;
  stop_captures(targets);
  if (!resource) return;
  std::vector<Ref<OpenedAllocation>> members;
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (OpenedAllocation* member : resource->members) members.emplace_back(member);
  });
  stop_captures(members);
}

void UpwardCalls::after_closing(DeviceMemory& device, const Ref<Resource>& resource,
                                std::span<const Ref<OpenedAllocation>> targets) {
  if (floor_.display == nullptr) return;
  floor_.display->overlays()->allocations_end(resource, targets);
  floor_.display->clients()->before_destroy(device, resource, targets);
}

void UpwardCalls::device_ends(Device& device) {
  if (floor_.display != nullptr) floor_.display->clients()->device_ends(device);
}

void UpwardCalls::stop_captures(std::span<const Ref<OpenedAllocation>> openings) {
  for (const Ref<OpenedAllocation>& opened : openings) {
    bool captures = false;
    floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      captures = !opened->closing && (opened->allocation->info_flags & kAllocationCapture) != 0 &&
                 opened->allocation->shared == nullptr;
    });
    if (!captures) continue;
    static_cast<void>(level_two(floor_, [&] {
      return floor_.core.port().allocations().stop_capture(opened->driver_allocation);
    }));
  }
}

void UpwardCalls::before_memory_ends(Device& device) {
  if (floor_.display != nullptr) floor_.display->overlays()->device_ends(device);
  if (floor_.captures.load() == 0) return;
  std::vector<Ref<OpenedAllocation>> openings;
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (OpenedAllocation* opened : device.memory().openings.all()) openings.emplace_back(opened);
  });
  stop_captures(openings);
}

Result<uint64_t> UpwardCalls::map_system_page(uint32_t process, bus::PageFrame page,
                                              std::function<void()> then) {
  return floor_.system_pages->map_system_page(process, page, std::move(then));
}

void UpwardCalls::unmap_system_page(uint32_t process, uint64_t address,
                                    std::function<void()> then) {
  floor_.system_pages->unmap_system_page(process, address, std::move(then));
}

}  // namespace dxgkit::dxgk
