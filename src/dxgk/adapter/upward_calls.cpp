#include "dxgk/adapter/upward_calls.h"

#include <utility>

#include "dxgk/display/display.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/va/system_pages.h"
#include "dxgk/va/table_eviction.h"
#include "dxgk/va/update_batches.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/timeout.h"

namespace dxgkit::dxgk {

bool UpwardCalls::hardware_resets() const { return floor_.timeout->resetting_adapter(); }

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
}

void UpwardCalls::device_ends(Device& device) {
  if (floor_.display != nullptr) floor_.display->clients()->device_ends(device);
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
