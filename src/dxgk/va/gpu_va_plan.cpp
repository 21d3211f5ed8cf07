// Planning page tables: what they are to say, where allocations are, and the memory for them.
#include <algorithm>
#include <utility>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/va/paging_space.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"

namespace dxgkit::dxgk {
namespace {

/// DXGK_ALLOCATIONINFOFLAGS_WDDM2_0.DisableLargePageMapping.
constexpr uint32_t kDisableLargePages = 1U << 7;

bool takes_away(vidmm::PagingOp::Kind kind) {
  using Kind = vidmm::PagingOp::Kind;
  return kind == Kind::kTransferOut || kind == Kind::kDiscard || kind == Kind::kUnmapAperture ||
         kind == Kind::kContentLost;
}

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

/// What others say, but of spans of which nothing is said. The spans are in order.
class AllBut final : public gpuva::PieceSource {
 public:
  AllBut(const gpuva::PieceSource& others, const gpuva::PageSpans& hidden)
      : others_(others), hidden_(hidden) {}
  void pieces_in(gpuva::PageSpan window, std::vector<gpuva::Piece>* out) const override {
    uint64_t page = window.first_page;
    for (const gpuva::PageSpan& span : hidden_) {
      if (span.end_page() <= page) continue;
      if (span.first_page >= window.end_page()) break;
      if (page < span.first_page) others_.pieces_in({page, span.first_page - page}, out);
      page = span.end_page();
    }
    if (page < window.end_page()) others_.pieces_in({page, window.end_page() - page}, out);
  }

 private:
  const gpuva::PieceSource& others_;
  const gpuva::PageSpans& hidden_;
};

/// What others say, with pages of the kernel's in place of what is not resident: so that all tables
/// are there that will be needed.
class AllThere final : public gpuva::PieceSource {
 public:
  AllThere(const gpuva::PieceSource& others, uint64_t dummy_page)
      : others_(others), dummy_page_(dummy_page) {}
  void pieces_in(gpuva::PageSpan window, std::vector<gpuva::Piece>* out) const override {
    const size_t before = out->size();
    others_.pieces_in(window, out);
    for (gpuva::Piece& piece : std::span(*out).subspan(before)) {
      if (piece.source.valid()) continue;
      piece.source.kind = gpuva::PteSource::Kind::kSame;
      piece.source.first_page = dummy_page_;
    }
  }

 private:
  const gpuva::PieceSource& others_;
  const uint64_t dummy_page_;
};

gpuva::PageSpans everything_mapped(const gpuva::AddressSpace& addresses,
                                   const gpuva::Geometry& geometry) {
  gpuva::PageSpans spans;
  addresses.for_each_in({0, geometry.space_pages()},
                        [&](const gpuva::Mapping& mapping) { spans.push_back(mapping.span); });
  return spans;
}

gpuva::PageSpans spans_of(std::span<const gpuva::Mapping> mappings) {
  gpuva::PageSpans spans;
  for (const gpuva::Mapping& mapping : mappings) spans.push_back(mapping.span);
  return spans;
}

}  // namespace

/// What a process's space maps, with the places its allocations have.
class GpuVa::Pieces final : public gpuva::PieceSource {
 public:
  Pieces(const GpuVa& owner, const GpuSpace& space) : owner_(owner), space_(space) {}

  void pieces_in(gpuva::PageSpan window, std::vector<gpuva::Piece>* out) const override {
    const size_t before = out->size();
    space_.addresses.for_each_in(window, [&](const gpuva::Mapping& mapping)
                                             DXGKIT_NO_THREAD_SAFETY_ANALYSIS {  // called here
                                               append(mapping, out);
                                             });
    if (space_.fixed.empty()) return;
    auto at = space_.fixed.upper_bound(window.first_page);
    if (at != space_.fixed.begin()) --at;
    for (; at != space_.fixed.end() && at->first < window.end_page(); ++at) {
      const gpuva::PageSpan whole = at->second.span;
      const uint64_t first = std::max(whole.first_page, window.first_page);
      const uint64_t end = std::min(whole.end_page(), window.end_page());
      if (first >= end) continue;
      gpuva::Piece piece = at->second;
      piece.source = piece.source.after(first - whole.first_page);
      piece.span = {first, end - first};
      out->push_back(piece);
    }
    std::sort(out->begin() + static_cast<std::ptrdiff_t>(before), out->end(),
              [](const gpuva::Piece& a, const gpuva::Piece& b) {
                return a.span.first_page < b.span.first_page;
              });
  }

 private:
  void append(const gpuva::Mapping& mapping, std::vector<gpuva::Piece>* out) const
      DXGKIT_REQUIRES(on_lane) {
    gpuva::Piece piece;
    piece.span = mapping.span;
    piece.driver_protection = mapping.driver_protection;
    piece.allocation = mapping.allocation;
    piece.offset_pages = mapping.offset_pages;
    if (mapping.protection.zero) {
      owner_.zero_source(&piece.source);
    } else if (owner_.system_source(mapping.allocation, &piece.source)) {
      piece.allocation = gpuva::kNoAllocation;  // no driver knows it
    } else if (mapping.allocation != gpuva::kNoAllocation) {
      const auto found = owner_.resident_.find(mapping.allocation.value);
      if (found != owner_.resident_.end()) {
        place(mapping, found->second, out, piece);
        return;
      }
    }
    out->push_back(piece);
  }

  void place(const gpuva::Mapping& mapping, const vidmm::Placement& where,
             std::vector<gpuva::Piece>* out, gpuva::Piece piece) const DXGKIT_REQUIRES(on_lane) {
    const gpuva::Geometry& geometry = owner_.geometry_;
    vidmm::MemoryManager& memory = owner_.core_.memory();
    const vidmm::SegmentDesc& segment = memory.segments()[where.segment.value - 1];
    const Allocation& allocation = owner_.adapter_.allocations().at(mapping.allocation);
    piece.source.kind = gpuva::PteSource::Kind::kRun;
    piece.source.segment = where.segment;
    piece.source.read_only = !mapping.protection.write && geometry.read_only;
    piece.source.no_execute = !mapping.protection.execute && geometry.no_execute;
    piece.source.cache_coherent = allocation.cached && geometry.cache_coherent &&
                                  segment.kind == vidmm::SegmentKind::kAperture;
    piece.pages_64k =
        segment.use_64kb_pages &&
        memory.description(mapping.allocation).alignment_bytes % (16 * kPageBytes) == 0;
    piece.large_pages = geometry.large_pages && (allocation.info_flags & kDisableLargePages) == 0;
    const uint64_t base = where.offset_bytes / kPageBytes;
    gpuva::for_each_stretch(mapping, [&](gpuva::PageSpan span, uint64_t page) {  // VA-37
      piece.span = span;
      piece.offset_pages = page;
      piece.source.first_page = base + page;
      out->push_back(piece);
    });
  }

  const GpuVa& owner_;
  const GpuSpace& space_;
};

void GpuVa::plan_together(std::span<Planned> all, Tables tables) {
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
    const uint64_t moves = moves_;
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
    const bool stale = moves != moves_ || std::ranges::any_of(all, [](const Planned& one) {
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
  for (const Spare& one : spares) {
    if (paging_) paging_->hide(memory_.at(one.grant.table));
    memory_.free(one.grant.table);
  }
}

Status GpuVa::plan(const std::shared_ptr<GpuSpace>& space, std::span<const gpuva::PageSpan> changed,
                   const gpuva::PieceSource& source, gpuva::Plan* plan, bool with_root) {
  if (space->evicted) return Status::kSuccess;  // written when they come back
  Planned one;
  one.space = space;
  one.changed.assign(changed.begin(), changed.end());
  one.source = &source;
  one.plan = plan;
  one.with_root = with_root;
  plan_together(std::span(&one, 1), Tables::kMore);
  return one.status;
}

void GpuVa::append(const std::shared_ptr<GpuSpace>& space, gpuva::Plan steps, Work* work,
                   const std::shared_ptr<CompanionContext>& companion) {
  if (steps.steps.empty()) return;
  std::unique_ptr<BatchCopies> copies;
  const std::shared_ptr<SecondSpace> second = companion ? second_space(space->process) : nullptr;
  if (second) {
    copies = std::make_unique<BatchCopies>(BatchCopies{second, companion, {}});
    for (size_t i = 0; i < steps.steps.size(); ++i) {
      SecondSpace::Ranges ranges = second->ranges_of(steps.steps[i]);
      if (!ranges.empty()) copies->steps.emplace(i, std::move(ranges));
    }
    if (copies->steps.empty()) copies.reset();
  }
  work->push_back(std::make_unique<PlanWork>(*this, space, std::move(steps), std::move(copies)));
}

Status GpuVa::plan_kernel_space(const std::shared_ptr<GpuSpace>& space,
                                const gpuva::PageSpans& changed, Work* work) {
  gpuva::PageSpans all = space->owed;
  all.insert(all.end(), changed.begin(), changed.end());
  gpuva::Plan steps;
  DXGKIT_RETURN_IF_FAILED(plan(space, all, Pieces(*this, *space), &steps, /*with_root=*/true));
  space->owed.clear();
  append(space, std::move(steps), work);
  return Status::kSuccess;
}

Status GpuVa::point_kernel_space(const std::shared_ptr<GpuSpace>& space, gpuva::PageSpan changed,
                                 gpuva::Plan* steps) {
  return plan(space, std::span(&changed, 1), Pieces(*this, *space), steps);
}

Status GpuVa::plan_root(const std::shared_ptr<GpuSpace>& space, Work* work) {
  gpuva::Plan steps;
  DXGKIT_RETURN_IF_FAILED(plan(space, {}, Pieces(*this, *space), &steps, /*with_root=*/true));
  append(space, std::move(steps), work);
  return Status::kSuccess;
}

std::vector<gpuva::TableNeed> GpuVa::needs_of_all(const GpuSpace& space) const {
  const gpuva::PageSpans all = everything_mapped(space.addresses, geometry_);
  const Pieces pieces(*this, space);
  const gpuva::PageTables none(geometry_);
  return none
      .draft(all, AllThere(pieces, adapter_.system_objects().dummy_page().value),
             /*with_root=*/true)
      .needs();
}

Status GpuVa::restore_tables(const std::shared_ptr<GpuSpace>& space, Work* work) {
  const gpuva::PageSpans all = everything_mapped(space->addresses, geometry_);
  // Room for every table now, or content that comes back takes it. Nobody runs until the second
  // plan has said what is true.
  const Pieces pieces(*this, *space);
  gpuva::Plan steps;
  space->evicted = false;
  const Status status =
      plan(space, all, AllThere(pieces, adapter_.system_objects().dummy_page().value), &steps,
           /*with_root=*/true);
  space->evicted = !is_success(status);
  if (space->evicted) return status;
  ++space->restoring;
  append(space, std::move(steps), work);
  gpuva::Plan truth;
  DXGKIT_CHECK(is_success(plan(space, all, pieces, &truth)));
  append(space, std::move(truth), work);
  return Status::kSuccess;
}

Status GpuVa::replan(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed,
                     Work* work, const std::shared_ptr<CompanionContext>& companion) {
  const Pieces pieces(*this, *space);
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
  if (changed.empty()) return Status::kSuccess;
  DXGKIT_RETURN_IF_FAILED(plan(space, changed, pieces, &steps));
  append(space, std::move(steps), work, companion);
  return Status::kSuccess;
}

void GpuVa::replan_or_hide(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed,
                           Work* work) {
  if (!is_success(replan(space, changed, work))) hide(space, changed, work);
}

void GpuVa::hide(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed,
                 Work* work) {
  const gpuva::PageSpans hidden = whole_entries(geometry_, changed);
  const Pieces pieces(*this, *space);
  gpuva::Plan steps;
  DXGKIT_CHECK(is_success(plan(space, hidden, AllBut(pieces, hidden), &steps)));
  append(space, std::move(steps), work);
  space->owed.insert(space->owed.end(), hidden.begin(), hidden.end());
  // Later: losing a device pages, and what is planned here is not queued yet.
  core_.lane().post([&adapter = adapter_, space]() DXGKIT_REQUIRES(on_lane) {
    if (adapter.gpu_va() == nullptr) return;
    const std::vector<Context*> contexts = space->contexts;
    for (Context* context : contexts) context->device().set_error(DeviceState::kErrorOutOfMemory);
  });
}

// --- content that moves ---

void GpuVa::follow(AllocationId id, Tables tables, Work* work) {
  std::vector<Planned> all;
  std::deque<Pieces> sources;
  std::deque<gpuva::Plan> plans;
  for (const auto& [number, space] : spaces_) {
    if (space->evicted || space->addresses.mapping_count(id) == 0) continue;
    std::vector<gpuva::Mapping> mappings;
    space->addresses.mappings_of(id, &mappings);
    Planned& one = all.emplace_back();
    one.space = space;
    one.changed = spans_of(mappings);
    one.source = &sources.emplace_back(*this, *space);
    one.plan = &plans.emplace_back();
  }
  plan_together(all, tables);
  for (Planned& one : all) {
    if (is_success(one.status)) {
      append(one.space, std::move(*one.plan), work);
    } else {  // whoever maps it faults instead of reaching something else
      hide(one.space, one.changed, work);
    }
  }
}

void GpuVa::before(const vidmm::PagingOp& op, Work* work) {
  if (!takes_away(op.kind) || resident_.erase(op.allocation.value) == 0) return;
  ++moves_;
  left_[op.allocation.value] = core_.runtime().now();
  // Entries become invalid only, and the operations of this plan are not all queued yet: nobody
  // may be sent away for a table now.
  follow(op.allocation, Tables::kExisting, work);
}

void GpuVa::behind(std::span<const vidmm::PagingOp> operations, Work* work) {
  for (const vidmm::PagingOp& op : operations) {
    const AllocationId id = op.allocation;
    if (!core_.memory().contains(id)) continue;  // it is being destroyed
    const vidmm::Placement place = core_.memory().placement(id);
    const bool there = place.segment != kSystemMemory && !core_.memory().parked(id);
    const auto known = resident_.find(id.value);
    const bool was_there = known != resident_.end();
    if (there == was_there && (!there || known->second == place)) continue;
    ++moves_;
    if (there) {
      resident_[id.value] = place;
      left_.erase(id.value);
    } else {
      resident_.erase(known);
    }
    follow(id, Tables::kMore, work);
    written_with_[id.value] = adapter_.paging().enqueued() + work->size();
  }
}

bool GpuVa::entries_under_way(AllocationId allocation) const {
  const auto found = written_with_.find(allocation.value);
  return found != written_with_.end() && adapter_.paging().completed() < found->second;
}

// --- everything at once ---

void GpuVa::rebuild() {
  const std::vector<std::function<void()>> late = adapter_.paging().abandon();
  collect();
  memory_.begin_reuse();
  free_tables();
  const Status status = build_again();
  memory_.end_reuse();
  if (!is_success(status)) {
    for (Device* device : adapter_.devices()) device->set_error(DeviceState::kErrorOutOfMemory);
  }
  for (const std::function<void()>& done : late) done();
}

Status GpuVa::build_again() {
  // Paging's own first: without them nothing of anybody moves any more.
  DXGKIT_RETURN_IF_FAILED(paging_->rebuild());
  // What was under way when power went has not happened.
  vidmm::MemoryManager& memory = core_.memory();
  std::erase_if(resident_, [&](const auto& entry) {
    const AllocationId id{entry.first};
    return !memory.contains(id) || memory.placement(id) != entry.second || memory.parked(id);
  });
  ++moves_;
  for (const auto& [number, second] : seconds_) second->reset_slots();
  std::vector<Planned> all;
  std::deque<Pieces> sources;
  std::deque<gpuva::Plan> plans;
  for (const auto& [number, space] : spaces_) {
    if (space->ended) continue;
    space->owed.clear();
    space->evicted = false;
    Planned& one = all.emplace_back();
    one.space = space;
    one.changed = everything_mapped(space->addresses, geometry_);
    for (const auto& [first, piece] : space->fixed) one.changed.push_back(piece.span);
    one.source = &sources.emplace_back(*this, *space);
    one.plan = &plans.emplace_back();
    one.with_root = !space->contexts.empty() || space->kernel_only;
  }
  plan_together(all, Tables::kMore);
  Work work;
  for (Planned& one : all) {
    if (is_success(one.status)) {
      append(one.space, std::move(*one.plan), &work);
    } else if (geometry_.explicit_invalidation) {
      return one.status;
    } else {
      one.space->evicted = true;  // tried again before anybody runs there
    }
  }
  // Nobody runs before they are written.
  std::vector<std::shared_ptr<GpuSpace>> again;
  for (const Planned& one : all) again.push_back(one.space);
  for (const std::shared_ptr<GpuSpace>& space : again) ++space->restoring;
  adapter_.paging().enqueue_work(std::move(work), [again] {
    for (const std::shared_ptr<GpuSpace>& space : again) --space->restoring;
  });
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
