#include "dxgk/va/plan_effects.h"

#include <algorithm>

#include "base/check.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/page_table_memory.h"
#include "dxgk/va/paging_space.h"
#include "dxgk/va/space_user.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

bool PlanEffects::contexts_idle(const GpuSpace& space) {
  const bool idle = std::ranges::all_of(
      space.contexts,
      [](SpaceUser* context) DXGKIT_REQUIRES(on_lane) { return context->off_engines(); });
  contexts_in_the_way_ = !idle;
  return idle;
}

void PlanEffects::begin_hold(GpuSpace& space) {
  if (space.held++ != 0) return;
  for (SpaceUser* context : space.contexts) context->keep_off(true);
}

port::RootPageTable PlanEffects::shown_root(const GpuSpace& space) {
  return {.address = floor_.tables->at(space.shown_root).address,
          .entry_count = static_cast<uint32_t>(space.shown_entries)};
}

void PlanEffects::set_root(GpuSpace& space, const gpuva::Step& step) {
  space.shown_root = step.table;
  space.shown_entries = step.count;
  for (SpaceUser* context : space.contexts) set_root_of(space, *context);
  for (void* context : space.kernel_contexts) set_kernel_root(space, context);
}

void PlanEffects::set_root_of(GpuSpace& space, SpaceUser& context) {
  const port::RootPageTable place = shown_root(space);
  if (!context.knows_root(place)) {
    trace::emit(trace::EventKind::kGpuVaRoot, space.process, context.id().value,
                place.address.offset, place.address.segment.value);
    port::AdapterPort& port = floor_.core.port();
    if (!is_success(port.gpu_va().set_root_page_table(context.names().driver_handle, place)))
      return;
    context.root_was_set(place);
  }
  context.rooted = true;
}

void PlanEffects::set_kernel_root(const GpuSpace& space, void* context) {
  // A driver that refuses loses the adapter; nothing else comes back.
  static_cast<void>(floor_.core.port().gpu_va().set_root_page_table(context, shown_root(space)));
}

std::optional<PlanEffects::Root> PlanEffects::root_of(uint32_t process) {
  const std::shared_ptr<GpuSpace> space = floor_.spaces->of(process);
  if (!space || space->shown_root == gpuva::kNoTable || space->restoring != 0) return std::nullopt;
  const port::RootPageTable root = shown_root(*space);
  return Root{root.address, root.entry_count};
}

void PlanEffects::collect() {
  if (std::exchange(collecting_, true)) return;
  // Tables that went with what they showed: not those that only gave way, as they come back.
  if (!freed_.empty() && !floor_.core.failed()) floor_.residency->room_changed();
  PageTableMemory& tables = *floor_.tables;
  while (!freed_.empty() || !unheld_.empty()) {
    for (const gpuva::TableId table : std::exchange(freed_, {})) {
      if (!tables.contains(table)) continue;  // of before power went
      floor_.paging_space->hide(tables.at(table));
      tables.free(table);
    }
    for (const std::shared_ptr<GpuSpace>& space : std::exchange(unheld_, {})) {
      DXGKIT_CHECK(space->held > 0);
      if (--space->held != 0) continue;
      for (SpaceUser* context : space->contexts) context->keep_off(false);
    }
  }
  if (std::exchange(contexts_in_the_way_, false)) floor_.paging->look_again();
  collecting_ = false;
}

}  // namespace dxgkit::dxgk
