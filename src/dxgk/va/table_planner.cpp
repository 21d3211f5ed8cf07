#include "dxgk/va/table_planner.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "dxgk/core/adapter_core.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/gpu_va_work.h"
#include "dxgk/va/page_table_memory.h"
#include "dxgk/va/paging_space.h"
#include "dxgk/va/piece_sources.h"
#include "dxgk/va/resident_places.h"
#include "dxgk/va/space_user.h"
#include "dxgk/va/table_eviction.h"

namespace dxgkit::dxgk {
namespace {

/// The entries a span lies in, whole: pages of 64 KiB, or large ones. That they become invalid
/// needs no table, whatever size they have.
gpuva::PageSpans whole_entries(const gpuva::Geometry& geometry, const gpuva::PageSpans& spans) {
  constexpr uint64_t k64 = 16;
  const uint64_t grain = geometry.large_pages ? std::max(geometry.leaf_pages(), k64) : k64;
  gpuva::PageSpans wide;
  for (const gpuva::PageSpan& span : spans) {
    const uint64_t first = align_down(span.first_page, grain);
    const uint64_t end = std::min(align_up(span.end_page(), grain), geometry.space_pages());
    wide.push_back({first, end - first});
  }
  std::ranges::sort(wide, {}, &gpuva::PageSpan::first_page);
  return wide;
}

gpuva::PageSpans spans_of(std::span<const gpuva::Mapping> mappings) {
  gpuva::PageSpans spans;
  for (const gpuva::Mapping& mapping : mappings) spans.push_back(mapping.span);
  return spans;
}

}  // namespace

Result<gpuva::TableGrant> TablePlanner::grant(const GpuSpace& space, const gpuva::TableNeed& need) {
  const gpuva::Geometry& geometry = floor_.spaces->geometry();
  const gpuva::TableLevel& level = geometry.levels[need.level];
  const SegmentId segment = space.of_paging ? level.paging_process_segment : level.segment;
  gpuva::TableGrant out{.table = gpuva::kNoTable, .entries = need.entries};
  uint64_t bytes = need.bytes;
  if (bytes == 0) {
    DXGKIT_ASSIGN_OR_RETURN(bytes, floor_.core.port().gpu_va().get_root_page_table_size(
                                       static_cast<uint32_t>(need.entries)));
  }
  const bool cpu = space.of_paging || geometry.update_mode == gpuva::UpdateMode::kCpuVirtual;
  DXGKIT_ASSIGN_OR_RETURN(out.table,
                          floor_.tables->allocate(segment, bytes, need.alignment_bytes, cpu));
  if (!space.of_paging) {
    if (const Status status = floor_.paging_space->show(out.table); !is_success(status)) {
      floor_.tables->free(out.table);
      return Error(status);
    }
  }
  return out;
}

void TablePlanner::plan_together(std::span<Planned> all, Tables tables) {
  // Tables of an attempt that came to nothing, for the next one.
  std::vector<Spare> spares;
  const auto same = [](const gpuva::TableNeed& a, const gpuva::TableNeed& b) {
    return a.level == b.level && a.of_64k_pages == b.of_64k_pages && a.bytes == b.bytes &&
           a.entries == b.entries && a.grows_root == b.grows_root;
  };
  const auto spare_all = [&](Planned& one) {
    spares.insert(spares.end(), one.used.begin(), one.used.end());
    one.used.clear();
  };
  const auto take = [&](Planned& one, const gpuva::TableNeed& need) DXGKIT_REQUIRES(on_lane) {
    const auto spare =
        std::ranges::find_if(spares, [&](const Spare& other) { return same(other.need, need); });
    if (spare != spares.end()) {
      one.used.push_back(*spare);
      spares.erase(spare);
      return true;
    }
    if (tables == Tables::kExisting) return false;
    const Result<gpuva::TableGrant> granted = grant(*one.space, need);
    if (granted.has_value()) one.used.push_back({need, *granted});
    return granted.has_value();
  };
  for (const Planned& one : all) ++one.space->planning;
  for (;;) {
    const uint64_t moves = floor_.places->moves();
    for (Planned& one : all) {
      if (!is_success(one.status)) continue;
      one.draft = one.space->tables.draft(one.changed, *one.source, one.with_root);
      one.version = one.space->version;
      for (const gpuva::TableNeed& need : one.draft.needs()) {
        if (take(one, need)) continue;
        one.status = Status::kNoMemory;
        spare_all(one);
        break;
      }
    }
    // Making room for a table may have moved what this is about.
    const bool stale =
        moves != floor_.places->moves() || std::ranges::any_of(all, [](const Planned& one) {
          return is_success(one.status) && one.version != one.space->version;
        });
    if (!stale) break;
    for (Planned& one : all) spare_all(one);
  }
  for (Planned& one : all) {
    --one.space->planning;
    if (!is_success(one.status)) continue;
    std::vector<gpuva::TableGrant> grants;
    for (const Spare& spare : one.used) grants.push_back(spare.grant);
    one.space->tables.commit(std::move(one.draft), grants, one.plan);
    ++one.space->version;
  }
  free_later(spares);
}

void TablePlanner::free_later(std::span<const Spare> spares) {
  if (spares.empty()) return;
  for (const Spare& one : spares) unused_.push_back(one.grant.table);
  floor_.core.lane().post([&floor = floor_]() DXGKIT_REQUIRES(on_lane) {
    if (floor.gpu_va != nullptr) floor.planner->free_unused();
  });
}

void TablePlanner::free_unused() {
  for (const gpuva::TableId table : std::exchange(unused_, {})) {
    if (!floor_.tables->contains(table)) continue;  // power was lost
    floor_.paging_space->hide(floor_.tables->at(table));
    floor_.tables->free(table);
  }
}

Status TablePlanner::plan(const std::shared_ptr<GpuSpace>& space,
                          std::span<const gpuva::PageSpan> changed,
                          const gpuva::PieceSource& source, gpuva::Plan* plan, bool with_root) {
  if (space->evicted) return Status::kSuccess;  // written when they come back
  return plan_all_tables(space, changed, source, plan, with_root);
}

Status TablePlanner::plan_all_tables(const std::shared_ptr<GpuSpace>& space,
                                     std::span<const gpuva::PageSpan> changed,
                                     const gpuva::PieceSource& source, gpuva::Plan* plan,
                                     bool with_root) {
  Planned one;
  one.space = space;
  one.changed.assign(changed.begin(), changed.end());
  one.source = &source;
  one.plan = plan;
  one.with_root = with_root;
  plan_together(std::span(&one, 1), Tables::kMore);
  return one.status;
}

void TablePlanner::append(const std::shared_ptr<GpuSpace>& space, gpuva::Plan steps, Work* work,
                          const std::shared_ptr<CompanionContext>& companion) {
  if (steps.steps.empty()) return;
  std::unique_ptr<BatchCopies> copies;
  const std::shared_ptr<SecondSpace> second =
      companion ? floor_.spaces->second_of(space->process) : nullptr;
  if (second) {
    copies = std::make_unique<BatchCopies>(BatchCopies{second, companion, {}});
    for (size_t i = 0; i < steps.steps.size(); ++i) {
      SecondSpace::Ranges ranges = second->ranges_of(steps.steps[i]);
      if (!ranges.empty()) copies->steps.emplace(i, std::move(ranges));
    }
  }
  work->push_back(
      std::make_unique<PlanWork>(*floor_.plan_effects, space, std::move(steps), std::move(copies)));
}

Status TablePlanner::plan_kernel_space(const std::shared_ptr<GpuSpace>& space,
                                       const gpuva::PageSpans& changed, Work* work) {
  gpuva::PageSpans all = space->owed;
  all.insert(all.end(), changed.begin(), changed.end());
  gpuva::Plan steps;
  DXGKIT_RETURN_IF_FAILED(
      plan(space, all, MappedPieces(floor_, *space), &steps, /*with_root=*/true));
  space->owed.clear();
  append(space, std::move(steps), work);
  return Status::kSuccess;
}

Status TablePlanner::point_kernel_space(const std::shared_ptr<GpuSpace>& space,
                                        gpuva::PageSpan changed, gpuva::Plan* steps) {
  return plan(space, std::span(&changed, 1), MappedPieces(floor_, *space), steps);
}

Status TablePlanner::plan_root(const std::shared_ptr<GpuSpace>& space, Work* work) {
  gpuva::Plan steps;
  DXGKIT_RETURN_IF_FAILED(
      plan(space, {}, MappedPieces(floor_, *space), &steps, /*with_root=*/true));
  append(space, std::move(steps), work);
  return Status::kSuccess;
}

Status TablePlanner::replan(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed,
                            Work* work, const std::shared_ptr<CompanionContext>& companion) {
  const MappedPieces pieces(floor_, *space);
  gpuva::Plan steps;
  if (!space->owed.empty()) {
    gpuva::PageSpans all = space->owed;
    all.insert(all.end(), changed.begin(), changed.end());
    if (is_success(plan(space, all, pieces, &steps))) {
      space->owed.clear();
      append(space, std::move(steps), work, companion);
      return Status::kSuccess;
    }
  }
  DXGKIT_RETURN_IF_FAILED(plan(space, changed, pieces, &steps));
  append(space, std::move(steps), work, companion);
  return Status::kSuccess;
}

void TablePlanner::replan_or_hide(const std::shared_ptr<GpuSpace>& space,
                                  const gpuva::PageSpans& changed, Work* work) {
  if (is_success(replan(space, changed, work))) return;
  hide(space, changed, work);
  fail_devices(space);
}

TablePlanner::Hidden TablePlanner::hide(const std::shared_ptr<GpuSpace>& space,
                                        const gpuva::PageSpans& changed, Work* work) {
  const gpuva::PageSpans hidden = whole_entries(floor_.spaces->geometry(), changed);
  const MappedPieces pieces(floor_, *space);
  gpuva::PageSpans expected = changed;
  expected.insert(expected.end(), space->owed.begin(), space->owed.end());
  std::ranges::sort(expected, {}, &gpuva::PageSpan::first_page);
  std::vector<gpuva::Piece> beside;
  for (const gpuva::PageSpan& span : hidden) AllBut(pieces, expected).pieces_in(span, &beside);
  const bool others =
      std::ranges::any_of(beside, [](const gpuva::Piece& one) { return one.source.valid(); });
  gpuva::Plan steps;
  DXGKIT_CHECK(is_success(plan(space, hidden, AllBut(pieces, hidden), &steps)));
  append(space, std::move(steps), work);
  space->owed.insert(space->owed.end(), hidden.begin(), hidden.end());
  return others ? Hidden::kOthersToo : Hidden::kChangedOnly;
}

void TablePlanner::fail_devices(const std::shared_ptr<GpuSpace>& space) {
  // Later: losing a device pages, and what is planned here is not queued yet.
  floor_.core.lane().post([&floor = floor_, space]() DXGKIT_REQUIRES(on_lane) {
    if (floor.gpu_va == nullptr) return;
    const std::vector<SpaceUser*> contexts = space->contexts;
    for (SpaceUser* context : contexts) context->fail_device(DeviceState::kErrorOutOfMemory);
  });
}

void TablePlanner::follow(AllocationId id, Tables tables, Work* work) {
  std::vector<Planned> all;
  std::deque<MappedPieces> sources;
  std::deque<gpuva::Plan> plans;
  for (const auto& [key, space] : floor_.spaces->all()) {
    if (space->evicted || space->addresses.mapping_count(id) == 0) continue;
    std::vector<gpuva::Mapping> mappings;
    space->addresses.mappings_of(id, &mappings);
    Planned& one = all.emplace_back();
    one.space = space;
    one.changed = spans_of(mappings);
    one.source = &sources.emplace_back(floor_, *space);
    one.plan = &plans.emplace_back();
  }
  plan_together(all, tables);
  for (Planned& one : all) {
    if (is_success(one.status)) {
      append(one.space, std::move(*one.plan), work);
    } else {
      // Nobody uses what moves. What is beside it may be in use by work that is prepared.
      const bool in_use = hide(one.space, one.changed, work) == Hidden::kOthersToo &&
                          floor_.table_eviction->in_use(*one.space);
      if (in_use || !floor_.table_eviction->room_may_come(*one.space)) fail_devices(one.space);
    }
  }
}

}  // namespace dxgkit::dxgk
