#include "dxgk/va/gpu_va.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/check.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"
#include "dxgk/va/gpu_va_trace.h"
#include "dxgk/va/gpu_va_work.h"
#include "dxgk/va/piece_sources.h"
#include "dxgk/va/second_space.h"
#include "dxgk/va/space_user.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

bool takes_away(vidmm::PagingOp::Kind kind) {
  using Kind = vidmm::PagingOp::Kind;
  return kind == Kind::kTransferOut || kind == Kind::kDiscard || kind == Kind::kUnmapAperture ||
         kind == Kind::kContentLost;
}

}  // namespace

GpuVa::GpuVa(VaFloor& floor, Owner& owner, const gpuva::Geometry& geometry)
    : floor_(floor),
      owner_(owner),
      stand_ins_(floor.core, geometry),
      tables_(floor),
      spaces_(floor, geometry),
      paging_space_(floor, geometry),
      plan_effects_(floor),
      planner_(floor),
      system_pages_(floor),
      table_eviction_(floor),
      updates_(floor),
      fault_explainer_(floor),
      client_addresses_(floor) {
  floor.gpu_va = this;
  floor.spaces = &spaces_;
  floor.client_addresses = &client_addresses_;
  floor.updates = &updates_;
  floor.system_pages = &system_pages_;
  floor.table_eviction = &table_eviction_;
  floor.fault_explainer = &fault_explainer_;
  floor.plan_effects = &plan_effects_;
  floor.planner = &planner_;
  floor.tables = &tables_;
  floor.paging_space = &paging_space_;
  floor.places = &places_;
  floor.stand_ins = &stand_ins_;
}

GpuVa::~GpuVa() { static_cast<VaParts&>(floor_) = {}; }

Status GpuVa::start(void* system_process, void* system_context, bus::PageFrame dummy_page) {
  DXGKIT_RETURN_IF_FAILED(stand_ins_.make(dummy_page));
  Status status = Status::kSuccess;
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    paging_space_.space()->driver_process = system_process;
    status = paging_space_.build(system_context, *floor_.paging);
  });
  return status;
}

void GpuVa::stop() {
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    plan_effects_.collect();
    free_tables();
    spaces_.clear();
    places_.clear();
  });
}

void GpuVa::free_tables() {
  trace::emit(trace::EventKind::kPageTablesLost);
  for (const auto& [key, space] : spaces_.all()) {
    gpuva::Plan unused;
    space->tables.destroy(&unused);
    ++space->version;
    space->shown_root = gpuva::kNoTable;
  }
  paging_space_.forget_tables();
  std::vector<gpuva::TableId> all;
  tables_.for_each([&](gpuva::TableId id, const TableMemory&) { all.push_back(id); });
  for (const gpuva::TableId id : all) tables_.free(id);
}

// --- contexts ---

Status GpuVa::attach(SpaceUser& context) {
  const std::shared_ptr<GpuSpace> space = spaces_.of(context.names().process);
  Work work;
  const bool restored = space->evicted;
  if (restored) {
    DXGKIT_RETURN_IF_FAILED(table_eviction_.restore_tables(space, &work));
  } else if (space->tables.root() == gpuva::kNoTable) {
    DXGKIT_RETURN_IF_FAILED(planner_.plan_root(space, &work));
  } else {
    static_cast<void>(planner_.replan(space, {}, &work));  // what is owed
  }
  space->contexts.push_back(&context);
  if (space->held != 0) context.keep_off(true);
  updates_.attach(context);
  work.push_back(std::make_unique<CallWork>(
      [this, space, id = context.id(), busy = space->busy]() DXGKIT_REQUIRES(on_lane) {
        const auto found = std::ranges::find(space->contexts, id, &SpaceUser::id);
        if (found == space->contexts.end()) return true;
        if (!floor_.paging->hardware_idle()) return false;
        plan_effects_.set_root_of(*space, **found);
        return true;
      }));
  floor_.paging->enqueue_work(std::move(work), [this, space, restored]() DXGKIT_REQUIRES(on_lane) {
    if (restored) --space->restoring;
    floor_.core.progress();
  });
  floor_.core.pump();
  return Status::kSuccess;
}

void GpuVa::detach(SpaceUser& context) {
  const std::shared_ptr<GpuSpace> space = spaces_.of(context.names().process);
  if (!space) return;
  if (std::erase(space->contexts, &context) != 0 && space->held != 0) context.keep_off(false);
  updates_.detach(context.id());
}

Status GpuVa::update_context(AllocationId allocation, std::vector<std::byte> data,
                             std::function<void()> done) {
  AdapterCore& core = floor_.core;
  const vidmm::Use use{allocation, true};
  const auto plan = floor_.residency->make_resident(std::span(&use, 1));
  if (!plan.has_value()) return plan.error().status;
  floor_.paging->enqueue(plan->operations, nullptr);
  Result<std::unique_ptr<PagingWork>> update = paging_space_.update_context(
      plan->placements.front(), core.memory().description(allocation).size_bytes, std::move(data));
  if (!update.has_value()) {
    core.memory().release(std::span(&use, 1));
    return update.error();
  }
  Work work;
  work.push_back(std::move(*update));
  floor_.paging->enqueue_work(std::move(work),
                              [&core, use, done = std::move(done)]() DXGKIT_REQUIRES(on_lane) {
                                core.memory().release(std::span(&use, 1));
                                done();
                                core.progress();
                              });
  core.pump();
  return Status::kSuccess;
}

// --- content that moves ---

void GpuVa::before(const vidmm::PagingOp& op, Work* work) {
  floor_.core.lane().assert_current();
  if (!takes_away(op.kind) || !places_.contains(op.allocation)) return;
  places_.leave(op.allocation, floor_.core.runtime().now());
  // Entries become invalid only, and the operations of this plan are not all queued yet: nobody
  // may be sent away for a table now.
  planner_.follow(op.allocation, TablePlanner::Tables::kExisting, work);
}

void GpuVa::behind(std::span<const vidmm::PagingOp> operations, Work* work) {
  floor_.core.lane().assert_current();
  vidmm::MemoryManager& memory = floor_.core.memory();
  for (const vidmm::PagingOp& op : operations) {
    const AllocationId id = op.allocation;
    if (!memory.contains(id)) continue;  // it is being destroyed
    const vidmm::Placement place = memory.placement(id);
    const bool there = place.segment != kSystemMemory && !memory.parked(id);
    const vidmm::Placement* const known = places_.find(id);
    const bool was_there = known != nullptr;
    if (there == was_there && (!there || *known == place)) continue;
    if (there) {
      places_.put(id, place);
    } else {
      places_.take(id);
    }
    planner_.follow(id, TablePlanner::Tables::kMore, work);
    places_.written_with(id, floor_.paging->enqueued() + work->size());
  }
}

bool GpuVa::entries_under_way(AllocationId allocation) const {
  return places_.entries_under_way(allocation, floor_.paging->completed());
}

std::unique_ptr<PagingWork> GpuVa::translate(const vidmm::PagingOp& op) {
  using Kind = vidmm::PagingOp::Kind;
  const auto nothing = [] { return std::make_unique<CallWork>([] { return true; }); };
  // Tables leave on the way down only; until power goes they are where they were.
  if (tables_.is_room(op.allocation)) return nothing();
  switch (op.kind) {
    case Kind::kFill:
    case Kind::kTransferIn:
    case Kind::kTransferOut:
    case Kind::kWriteUp:
    case Kind::kWriteBack:
      return paging_space_.transfer(op, floor_.paging->target(op.allocation));
    case Kind::kDiscard:  // physical operations are for drivers without this model (PAGE-16)
    case Kind::kContentLost:
      return nothing();
    default:
      return nullptr;
  }
}

void GpuVa::forget(AllocationId allocation, const Process& process) {
  const std::shared_ptr<GpuSpace> space = spaces_.of(process.number());
  if (const std::shared_ptr<SecondSpace> second = spaces_.second_of(process.number())) {
    Work work;
    second->forget(allocation, &work);
    if (!work.empty()) floor_.paging->enqueue_work(std::move(work), nullptr);
  }
  if (space->addresses.mapping_count(allocation) == 0) return;
  std::vector<gpuva::Mapping> mappings;
  space->addresses.mappings_of(allocation, &mappings);
  for (const gpuva::Mapping& mapping :
       std::span(mappings).first(std::min<size_t>(mappings.size(), 16))) {
    space->unmapped.note(UnmappedRanges::going(space->addresses, mapping.span,
                                               "as its allocation was destroyed or closed",
                                               floor_.core.runtime()));
  }
  gpuva::PageSpans changed;
  space->addresses.drop_allocation(allocation, &changed);
  gpu_va_trace::changed(*space, changed);
  Work work;
  planner_.replan_or_hide(space, changed, &work);
  if (!work.empty()) floor_.paging->enqueue_work(std::move(work), nullptr);
}

// --- everything at once ---

void GpuVa::rebuild() {
  floor_.core.lane().assert_current();
  const std::vector<std::function<void()>> late = floor_.paging->abandon();
  plan_effects_.collect();
  tables_.begin_reuse();
  free_tables();
  const Status status = build_again();
  tables_.end_reuse();
  if (!is_success(status)) owner_.lose_devices(DeviceState::kErrorOutOfMemory);
  for (const std::function<void()>& done : late) done();
}

Status GpuVa::build_again() {
  // Paging's own first: without them nothing of anybody moves any more.
  DXGKIT_RETURN_IF_FAILED(paging_space_.rebuild());
  // What was under way when power went has not happened.
  vidmm::MemoryManager& memory = floor_.core.memory();
  places_.keep_if([&](AllocationId id, const vidmm::Placement& place) {
    return memory.contains(id) && memory.placement(id) == place && !memory.parked(id);
  });
  for (const auto& [number, second] : spaces_.seconds()) second->reset_slots();
  std::vector<TablePlanner::Planned> all;
  std::deque<MappedPieces> sources;
  std::deque<gpuva::Plan> plans;
  for (const auto& [key, space] : spaces_.all()) {
    if (space->ended) continue;
    space->owed.clear();
    space->evicted = false;
    TablePlanner::Planned& one = all.emplace_back();
    one.space = space;
    one.changed = space->everything_mapped();
    for (const auto& [first, piece] : space->fixed) one.changed.push_back(piece.span);
    one.source = &sources.emplace_back(floor_, *space);
    one.plan = &plans.emplace_back();
    one.with_root = !space->contexts.empty() || space->kernel_only;
  }
  planner_.plan_together(all, TablePlanner::Tables::kMore);
  Work work;
  for (TablePlanner::Planned& one : all) {
    if (is_success(one.status)) {
      planner_.append(one.space, std::move(*one.plan), &work);
    } else if (spaces_.geometry().explicit_invalidation) {
      return one.status;
    } else {
      one.space->evicted = true;  // tried again before anybody runs there
    }
  }
  // Nobody runs before they are written.
  std::vector<std::shared_ptr<GpuSpace>> again;
  for (const TablePlanner::Planned& one : all) again.push_back(one.space);
  for (const std::shared_ptr<GpuSpace>& space : again) ++space->restoring;
  floor_.paging->enqueue_work(std::move(work), [again] {
    for (const std::shared_ptr<GpuSpace>& space : again) --space->restoring;
  });
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
