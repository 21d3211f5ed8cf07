#include "dxgk/va/table_eviction.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/gpu_va_work.h"
#include "dxgk/va/page_table_memory.h"
#include "dxgk/va/paging_space.h"
#include "dxgk/va/piece_sources.h"
#include "dxgk/va/space_user.h"
#include "dxgk/va/stand_in_pages.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

/// Nobody walks its tables, writes them, or is about to. Work that is queued and not prepared yet
/// has them brought when it is.
bool TableEviction::may_evict(const GpuSpace& space, Whose whose) const {
  if (space.of_paging || space.kernel_only) return false;
  if (space.planning != 0 || space.busy.use_count() != 1) return false;
  if (space.tables.root() == gpuva::kNoTable) return false;
  return std::ranges::all_of(space.contexts, [&](SpaceUser* context) DXGKIT_REQUIRES(on_lane) {
    if (context->names().of_hw_queue) return false;
    return whose == Whose::kIdle ? floor_.core.scheduler().packets_of(context->id()) == 0
                                 : !floor_.core.scheduler().holds_memory(context->id());
  });
}

bool TableEviction::in_segments() const {
  const gpuva::Geometry& geometry = floor_.spaces->geometry();
  return std::ranges::any_of(
      std::span(geometry.levels).first(geometry.level_count),
      [](const gpuva::TableLevel& level) { return level.segment != kSystemMemory; });
}

bool TableEviction::room_may_come(const GpuSpace& space) const {
  return in_segments() && ever_evicts(space);
}

bool TableEviction::tables_give_way(const Process& process) const {
  const std::shared_ptr<GpuSpace> space = floor_.spaces->of(process.number());
  return space && room_may_come(*space);
}

bool TableEviction::in_use(const GpuSpace& space) const {
  return std::ranges::any_of(space.contexts, [&](SpaceUser* context) DXGKIT_REQUIRES(on_lane) {
    return floor_.core.scheduler().holds_memory(context->id());
  });
}

bool TableEviction::let_tables_go() {
  const gpuva::Geometry& geometry = floor_.spaces->geometry();
  if (geometry.explicit_invalidation || floor_.core.failed()) return false;
  if (!in_segments()) return false;  // they are in nobody's way
  const auto evict_those = [&](Whose whose) DXGKIT_REQUIRES(on_lane) {
    bool any = false;
    for (const auto& [key, space] : floor_.spaces->all()) {
      if (!may_evict(*space, whose)) continue;
      evict_tables(*space);
      any = true;
    }
    return any;
  };
  if (evict_those(Whose::kIdle)) return true;
  // What runs or pages gives memory back by itself. Those who only wait must not keep each other,
  // or themselves, from running.
  if (floor_.core.scheduler().anything_on_hardware() || !floor_.paging->idle()) return false;
  return evict_those(Whose::kQueued);
}

void TableEviction::evict_tables(GpuSpace& space) {
  // Translations of the old root go before anything that is queued from now on, so before what
  // takes its place; a root there is set when the hardware has done that.
  if (space.shown_root != gpuva::kNoTable) {
    port::PagingOperation flush;
    flush.kind = port::PagingOperation::Kind::kFlushTlb;
    flush.flush.root = floor_.tables->at(space.shown_root).address;
    flush.flush.process = space.driver_process;
    floor_.paging->enqueue_plain(flush, nullptr);
    trace::emit(trace::EventKind::kTlbFlushed, space.process, 0, 0);
  }
  trace::emit(trace::EventKind::kPageTablesLost, space.process);
  gpuva::Plan plan;
  space.tables.destroy(&plan);
  ++space.version;
  space.evicted = true;
  space.shown_root = gpuva::kNoTable;
  space.shown_entries = 0;
  space.owed.clear();
  for (const gpuva::Step& step : plan.steps) {
    if (step.kind != gpuva::Step::Kind::kFree) continue;
    floor_.paging_space->hide(floor_.tables->at(step.table));
    floor_.tables->free(step.table);
  }
}

bool TableEviction::tables_are_away(const Process& process) const {
  const std::shared_ptr<GpuSpace> space = floor_.spaces->of(process.number());
  return space && space->evicted;
}

bool TableEviction::ever_evicts(const GpuSpace& space) const {
  if (space.of_paging || space.kernel_only || floor_.spaces->geometry().explicit_invalidation)
    return false;
  return std::ranges::none_of(space.contexts,
                              [](const SpaceUser* one) { return one->names().of_hw_queue; });
}

TableEviction::TableRoom TableEviction::table_room(const Process& process) {
  TableRoom room;
  const std::shared_ptr<GpuSpace> own = floor_.spaces->of(process.number());
  floor_.tables->for_each([&](gpuva::TableId id, const TableMemory& table)
                              DXGKIT_REQUIRES(on_lane) {
                                if (table.room.value == 0) return;
                                for (const auto& [key, space] : floor_.spaces->all()) {
                                  if (ever_evicts(*space) && space->tables.contains(id)) return;
                                }
                                room.staying.push_back({table.room, false});
                              });
  if (!own || !ever_evicts(*own)) return room;
  const gpuva::Geometry& geometry = floor_.spaces->geometry();
  for (const gpuva::TableNeed& need : needs_of_all(*own)) {
    const SegmentId segment = geometry.levels[need.level].segment;
    if (segment == kSystemMemory) continue;
    vidmm::AllocationDesc desc;
    desc.size_bytes = align_up(uint64_t{need.bytes}, kPageBytes);
    if (need.bytes == 0) {  // a root that grows
      const Result<uint64_t> bytes =
          floor_.core.port().gpu_va().get_root_page_table_size(static_cast<uint32_t>(need.entries));
      if (!bytes.has_value()) continue;
      desc.size_bytes = align_up(*bytes, kPageBytes);
    }
    desc.alignment_bytes = std::max<uint64_t>(need.alignment_bytes, kPageBytes);
    desc.supported_read = desc.supported_write = vidmm::segment_bit(segment);
    room.own.push_back(desc);
  }
  return room;
}

TableEviction::Tables TableEviction::bring_tables(const Process& process) {
  const std::shared_ptr<GpuSpace> space = floor_.spaces->of(process.number());
  if (!space) return Tables::kThere;  // its process is going
  // A smaller list may be tried next, with the room of those tables that were found for this one.
  const auto no_room = [&]() DXGKIT_REQUIRES(on_lane) {
    floor_.planner->free_unused();
    return Tables::kNoRoom;
  };
  TablePlanner::Work work;
  if (space->evicted && space->restoring == 0) {
    if (!is_success(restore_tables(space, &work))) return no_room();
  } else if (!space->owed.empty() && room_may_come(*space)) {
    static_cast<void>(floor_.planner->replan(space, {}, &work));
    if (!space->owed.empty()) {
      // All tables together may fit where those that are missing do not.
      if (may_evict(*space, Whose::kQueued)) evict_tables(*space);
      return no_room();
    }
    if (!work.empty()) ++space->restoring;
  }
  if (!work.empty()) {
    // Not from here: setting the root suspends contexts, and the scheduler is asking.
    const auto go = std::make_shared<bool>(false);
    work.insert(work.begin(), std::make_unique<CallWork>([go] { return *go; }));
    floor_.paging->enqueue_work(std::move(work), [space] { --space->restoring; });
    floor_.core.lane().post([&floor = floor_, go]() DXGKIT_REQUIRES(on_lane) {
      *go = true;
      if (floor.gpu_va != nullptr) floor.paging->look_again();
    });
  }
  return space->restoring != 0 ? Tables::kSoon : Tables::kThere;
}

std::vector<gpuva::TableNeed> TableEviction::needs_of_all(const GpuSpace& space) const {
  const gpuva::PageSpans all = space.everything_mapped();
  const MappedPieces pieces(floor_, space);
  const gpuva::PageTables none(floor_.spaces->geometry());
  return none
      .draft(all, AllThere(pieces, floor_.stand_ins->dummy_page().value),
             /*with_root=*/true)
      .needs();
}

Status TableEviction::restore_tables(const std::shared_ptr<GpuSpace>& space,
                                     TablePlanner::Work* work) {
  TablePlanner& planner = *floor_.planner;
  const gpuva::PageSpans all = space->everything_mapped();
  // Room for every table now, or content that comes back takes it. Nobody runs until the second
  // plan has said what is true.
  const MappedPieces pieces(floor_, *space);
  gpuva::Plan steps;
  // Making room for them may move what the space maps. As they count as evicted until all have
  // their room, nobody plans those moves for a space whose root is not there; the second plan does.
  ++space->restoring;
  const Status status = planner.plan_all_tables(
      space, all, AllThere(pieces, floor_.stand_ins->dummy_page().value), &steps,
      /*with_root=*/true);
  if (!is_success(status)) {
    --space->restoring;
    return status;
  }
  space->evicted = false;
  planner.append(space, std::move(steps), work);
  gpuva::Plan truth;
  DXGKIT_CHECK(is_success(planner.plan(space, all, pieces, &truth)));
  planner.append(space, std::move(truth), work);
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
