#include "dxgk/gpu_va.h"

#include <algorithm>
#include <utility>

#include "dxgk/adapter.h"
#include "dxgk/context.h"
#include "dxgk/device.h"
#include "dxgk/gpu_va_trace.h"
#include "dxgk/hw_queue.h"
#include "dxgk/paging_queue.h"
#include "dxgk/paging_space.h"
#include "dxgk/process.h"

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
  gpuva::PageSpans joined;
  for (const gpuva::PageSpan& span : wide) {
    if (joined.empty() || joined.back().end_page() < span.first_page) {
      joined.push_back(span);
    } else {
      joined.back().pages =
          std::max(joined.back().end_page(), span.end_page()) - joined.back().first_page;
    }
  }
  return joined;
}

/// What others say, but of spans of which nothing is said. The spans are in order and apart.
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
    space_.addresses.for_each_in(window,
                                 [&](const gpuva::Mapping& mapping) { append(mapping, out); });
  }

 private:
  void append(const gpuva::Mapping& mapping, std::vector<gpuva::Piece>* out) const {
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
             std::vector<gpuva::Piece>* out, gpuva::Piece piece) const {
    const gpuva::Geometry& geometry = owner_.geometry_;
    vidmm::MemoryManager& memory = owner_.adapter_.memory();
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

GpuVa::GpuVa(Adapter& adapter, const gpuva::Geometry& geometry)
    : adapter_(adapter), geometry_(geometry), memory_(adapter) {}

GpuVa::~GpuVa() {
  if (has_zero_page_) adapter_.machine().free_contiguous(zero_page_, 1);
}

Status GpuVa::start(void* system_process, void* system_context) {
  if (!geometry_.zero) {
    // VA-22: a page of zeros nobody can write stands for them.
    DXGKIT_ASSIGN_OR_RETURN_STATUS(zero_page_, adapter_.machine().allocate_contiguous(1));
    has_zero_page_ = true;
  }
  Status status = Status::kSuccess;
  adapter_.lane().run([&] {
    paging_->space()->driver_process = system_process;
    status = paging_->build(system_context, adapter_.paging());
  });
  return status;
}

void GpuVa::stop() {
  adapter_.lane().run([&] {
    collect();
    free_tables();
    spaces_.clear();
    resident_.clear();
    for (const auto& [id, page] : system_pages_)
      adapter_.allocations().destroy(adapter_.allocations().at(AllocationId{id}));
    system_pages_.clear();
  });
}

void GpuVa::free_tables() {
  trace::emit(trace::EventKind::kPageTablesLost);
  for (const auto& [number, space] : spaces_) {
    gpuva::Plan unused;
    space->tables.destroy(&unused);
    ++space->version;
    space->shown_root = gpuva::kNoTable;
  }
  if (paging_) paging_->forget_tables();
  std::vector<gpuva::TableId> all;
  memory_.for_each([&](gpuva::TableId id, const TableMemory&) { all.push_back(id); });
  for (const gpuva::TableId id : all) memory_.free(id);
}

Status GpuVa::rebuild() {
  collect();
  free_tables();
  DXGKIT_RETURN_IF_FAILED(paging_->rebuild());
  // What was under way when power went has not happened.
  vidmm::MemoryManager& memory = adapter_.memory();
  std::erase_if(resident_, [&](const auto& entry) {
    const AllocationId id{entry.first};
    return !memory.contains(id) || memory.placement(id) != entry.second || memory.parked(id);
  });
  ++moves_;
  std::vector<Planned> all;
  std::deque<Pieces> sources;
  std::deque<gpuva::Plan> plans;
  for (const auto& [number, space] : spaces_) {
    space->owed.clear();
    Planned& one = all.emplace_back();
    one.space = space;
    space->addresses.for_each_in({0, geometry_.space_pages()}, [&](const gpuva::Mapping& mapping) {
      one.changed.push_back(mapping.span);
    });
    one.source = &sources.emplace_back(*this, *space);
    one.plan = &plans.emplace_back();
    one.with_root = !space->contexts.empty();
  }
  plan_together(all, Tables::kMore);
  Work work;
  for (Planned& one : all) {
    DXGKIT_RETURN_IF_FAILED(one.status);
    append(one.space, std::move(*one.plan), &work);
  }
  adapter_.paging().enqueue_work(std::move(work), nullptr);
  return Status::kSuccess;
}

// --- processes ---

void GpuVa::process_begins(uint32_t process) {
  adapter_.lane().run([&] {
    if (process == 0) {
      paging_ = std::make_unique<PagingSpace>(*this, geometry_);
    } else {
      spaces_[process] = std::make_shared<GpuSpace>(geometry_, process);
    }
    gpu_va_trace::space(*space_of(process));
  });
}

void GpuVa::process_made(uint32_t process, void* driver_process) {
  adapter_.lane().run([&] { space_of(process)->driver_process = driver_process; });
}

void GpuVa::process_ends(uint32_t process) {
  bool done = false;
  adapter_.lane().run([&] {
    const std::shared_ptr<GpuSpace> space = space_of(process);
    if (adapter_.failed()) {
      done = true;
      return;  // stop() frees what is left
    }
    gpuva::Plan plan;
    space->tables.destroy(&plan);
    ++space->version;
    Work work;
    if (!plan.steps.empty())
      work.push_back(std::make_unique<PlanWork>(*this, space, std::move(plan)));
    adapter_.paging().enqueue_work(std::move(work), [&done] { done = true; });
    adapter_.pump();
  });
  static_cast<void>(adapter_.block_until([&] { return done; }));
  adapter_.lane().run([&] {
    collect();
    if (!done) return;
    spaces_.erase(process);
    trace::emit(trace::EventKind::kGpuVaSpaceEnded, process);
  });
}

Result<uint64_t> GpuVa::reserve_for_driver(const port::GpuVaReservation& range) {
  Result<uint64_t> address = Error(Status::kInvalidParameter);
  adapter_.lane().run([&] {
    const std::shared_ptr<GpuSpace> space = space_of(range.process);
    if (!space) return;
    address = space->addresses.reserve_for_driver({.base = range.base,
                                                   .size = range.size,
                                                   .alignment = range.alignment,
                                                   .allow_user_mapping = range.user_mappable},
                                                  geometry_.leaf_bytes());
    if (address.has_value())
      trace::emit(trace::EventKind::kGpuVaReserved, space->process, *address, range.size, 2);
  });
  return address;
}

std::shared_ptr<GpuSpace> GpuVa::space_of(uint32_t process) const {
  if (process == 0) return paging_ ? paging_->space() : nullptr;
  const auto found = spaces_.find(process);
  return found == spaces_.end() ? nullptr : found->second;
}

// --- contexts ---

Status GpuVa::attach(Context& context) {
  const std::shared_ptr<GpuSpace> space = space_of(context.device().process().number());
  Work work;
  if (space->tables.root() == gpuva::kNoTable) {
    gpuva::Plan steps;
    DXGKIT_RETURN_IF_FAILED(plan(space, {}, Pieces(*this, *space), &steps, /*with_root=*/true));
    work.push_back(std::make_unique<PlanWork>(*this, space, std::move(steps)));
  } else {
    static_cast<void>(replan(space, {}, &work));  // what is owed
  }
  space->contexts.push_back(&context);
  if (space->held != 0) set_off(context, true);
  const ContextId id = context.id();
  companions_[id];
  work.push_back(std::make_unique<CallWork>([this, space, id] {
    const auto found = std::ranges::find(space->contexts, id, &Context::id);
    if (found == space->contexts.end()) return true;
    if (!hardware_idle()) return false;
    set_root_of(*space, **found);
    return true;
  }));
  adapter_.paging().enqueue_work(std::move(work), [this] { adapter_.progress(); });
  adapter_.pump();
  return Status::kSuccess;
}

void GpuVa::detach(Context& context) {
  const std::shared_ptr<GpuSpace> space = space_of(context.device().process().number());
  if (!space) return;
  if (std::erase(space->contexts, &context) != 0 && space->held != 0) set_off(context, false);
  const auto companion = companions_.find(context.id());
  if (companion == companions_.end()) return;
  if (companion->second.waiting.has_value())
    adapter_.scheduler().sync_objects().cancel_wait(*companion->second.waiting);
  companions_.erase(companion);
}

bool GpuVa::has_root(const Context& context) const {
  const auto found = companions_.find(context.id());
  return found != companions_.end() && found->second.rooted;
}

void GpuVa::set_root_of(GpuSpace& space, Context& context) {
  const gpuva::TableId root = space.shown_root;
  const port::RootPageTable place{.address = memory_.at(root).address,
                                  .entry_count = static_cast<uint32_t>(space.shown_entries)};
  const HwQueues* const queues = context.of_hw_queue() ? adapter_.hw_queues() : nullptr;
  if (queues == nullptr || !queues->has_root(context, place)) {
    trace::emit(trace::EventKind::kGpuVaRoot, space.process, context.id().value,
                place.address.offset, place.address.segment.value);
    if (!is_success(adapter_.port().set_root_page_table(context.driver_handle(), place))) return;
    if (queues != nullptr) queues->root_was_set(context, place);
  }
  companions_[context.id()].rooted = true;
}

void GpuVa::set_off(Context& context, bool off) {
  adapter_.scheduler().set_suspended(context.id(), off);
  if (!context.of_hw_queue()) return;
  HwContext& on_engine = static_cast<HwQueue&>(context).hw_context();
  if (off) {
    adapter_.hw_queues()->take_off(on_engine);
  } else {
    adapter_.hw_queues()->let_go(on_engine);
  }
}

bool GpuVa::maps(uint32_t process, AllocationId allocation) const {
  const std::shared_ptr<GpuSpace> space = space_of(process);
  return space && space->addresses.mapping_count(allocation) != 0;
}

void GpuVa::set_root(GpuSpace& space, const gpuva::Step& step) {
  space.shown_root = step.table;
  space.shown_entries = step.count;
  for (Context* context : space.contexts) set_root_of(space, *context);
}

bool GpuVa::hardware_idle() const { return adapter_.paging().hardware_idle(); }

bool GpuVa::contexts_idle(const GpuSpace& space) {
  const bool idle = std::ranges::all_of(space.contexts, [&](Context* context) {
    const HwQueues* const queues = context->of_hw_queue() ? adapter_.hw_queues() : nullptr;
    if (queues != nullptr && queues->scheduling())
      return queues->off(static_cast<HwQueue*>(context)->hw_context());
    return !adapter_.scheduler().on_hardware(context->id());
  });
  contexts_in_the_way_ = !idle;
  return idle;
}

void GpuVa::begin_hold(GpuSpace& space) {
  if (space.held++ != 0) return;
  for (Context* context : space.contexts) set_off(*context, true);
}

void GpuVa::collect() {
  if (std::exchange(collecting_, true)) return;
  while (!freed_.empty() || !unheld_.empty()) {
    for (const gpuva::TableId table : std::exchange(freed_, {})) {
      if (!memory_.contains(table)) continue;  // of before power went
      if (paging_) paging_->hide(memory_.at(table));
      memory_.free(table);
    }
    for (const std::shared_ptr<GpuSpace>& space : std::exchange(unheld_, {})) {
      DXGKIT_CHECK(space->held > 0);
      if (--space->held != 0) continue;
      for (Context* context : space->contexts) set_off(*context, false);
    }
  }
  if (std::exchange(contexts_in_the_way_, false)) adapter_.paging().look_again();
  collecting_ = false;
}

// --- planning ---

port::PageTableUpdateMode GpuVa::update_mode() const {
  return static_cast<port::PageTableUpdateMode>(geometry_.update_mode);
}

void* GpuVa::driver_allocation(AllocationId id) const {
  return adapter_.allocations().contains(id) ? adapter_.allocations().at(id).driver_handle
                                             : nullptr;
}

void GpuVa::zero_source(gpuva::PteSource* source) const {
  if (geometry_.zero) {
    source->kind = gpuva::PteSource::Kind::kZero;
    return;
  }
  source->kind = gpuva::PteSource::Kind::kSame;
  source->read_only = true;
  source->no_execute = geometry_.no_execute;
  source->first_page = zero_page_.value;
}

Result<gpuva::TableGrant> GpuVa::grant(const GpuSpace& space, const gpuva::TableNeed& need) {
  const gpuva::TableLevel& level = geometry_.levels[need.level];
  const SegmentId segment = space.of_paging ? level.paging_process_segment : level.segment;
  gpuva::TableGrant out{.table = gpuva::kNoTable, .entries = need.entries};
  uint64_t bytes = need.bytes;
  if (bytes == 0) {
    DXGKIT_ASSIGN_OR_RETURN(
        bytes, adapter_.port().get_root_page_table_size(static_cast<uint32_t>(need.entries)));
  }
  const bool cpu = space.of_paging || geometry_.update_mode == gpuva::UpdateMode::kCpuVirtual;
  DXGKIT_ASSIGN_OR_RETURN(out.table, memory_.allocate(segment, bytes, need.alignment_bytes, cpu));
  if (paging_ && !space.of_paging) {
    if (const Status status = paging_->show(out.table); !is_success(status)) {
      memory_.free(out.table);
      return Error(status);
    }
  }
  return out;
}

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
  const auto take = [&](Planned& one, const gpuva::TableNeed& need) {
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
  Planned one;
  one.space = space;
  one.changed.assign(changed.begin(), changed.end());
  one.source = &source;
  one.plan = plan;
  one.with_root = with_root;
  plan_together(std::span(&one, 1), Tables::kMore);
  return one.status;
}

void GpuVa::append(const std::shared_ptr<GpuSpace>& space, gpuva::Plan steps, Work* work) {
  if (steps.steps.empty()) return;
  work->push_back(std::make_unique<PlanWork>(*this, space, std::move(steps)));
}

Status GpuVa::replan(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed,
                     Work* work) {
  const Pieces pieces(*this, *space);
  gpuva::Plan steps;
  if (!space->owed.empty()) {
    gpuva::PageSpans all = space->owed;
    all.insert(all.end(), changed.begin(), changed.end());
    if (is_success(plan(space, all, pieces, &steps))) {
      space->owed.clear();
      append(space, std::move(steps), work);
      return Status::kSuccess;
    }
  }
  if (changed.empty()) return Status::kSuccess;
  DXGKIT_RETURN_IF_FAILED(plan(space, changed, pieces, &steps));
  append(space, std::move(steps), work);
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
  adapter_.lane().post([&adapter = adapter_, space] {
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
    if (space->addresses.mapping_count(id) == 0) continue;
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
  left_[op.allocation.value] = adapter_.runtime().now();
  // Entries become invalid only, and the operations of this plan are not all queued yet: nobody
  // may be sent away for a table now.
  follow(op.allocation, Tables::kExisting, work);
}

void GpuVa::behind(std::span<const vidmm::PagingOp> operations, Work* work) {
  for (const vidmm::PagingOp& op : operations) {
    const AllocationId id = op.allocation;
    if (!adapter_.memory().contains(id)) continue;  // it is being destroyed
    const vidmm::Placement place = adapter_.memory().placement(id);
    const bool there = place.segment != kSystemMemory && !adapter_.memory().parked(id);
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
  }
}

std::unique_ptr<PagingWork> GpuVa::translate(const vidmm::PagingOp& op) {
  using Kind = vidmm::PagingOp::Kind;
  const auto nothing = [] { return std::make_unique<CallWork>([] { return true; }); };
  // Tables leave on the way down only; until power goes they are where they were.
  if (memory_.is_room(op.allocation)) return nothing();
  switch (op.kind) {
    case Kind::kFill:
    case Kind::kTransferIn:
    case Kind::kTransferOut:
      return paging_->transfer(op, adapter_.paging_target(op.allocation));
    case Kind::kDiscard:  // physical operations are for drivers without this model (PAGE-16)
    case Kind::kContentLost:
      return nothing();
    default:
      return nullptr;
  }
}

void GpuVa::forget(AllocationId allocation) {
  if (resident_.erase(allocation.value) != 0) ++moves_;
  left_.erase(allocation.value);
}

void GpuVa::forget(AllocationId allocation, const Process& process) {
  const std::shared_ptr<GpuSpace> space = space_of(process.number());
  if (!space || space->addresses.mapping_count(allocation) == 0) return;
  std::vector<gpuva::Mapping> mappings;
  space->addresses.mappings_of(allocation, &mappings);
  for (const gpuva::Mapping& mapping :
       std::span(mappings).first(std::min<size_t>(mappings.size(), 16)))
    note(*space, going(*space, mapping.span, "as its allocation was destroyed or closed"));
  gpuva::PageSpans changed;
  space->addresses.drop_allocation(allocation, &changed);
  gpu_va_trace::changed(*space, changed);
  Work work;
  replan_or_hide(space, changed, &work);
  if (!work.empty()) adapter_.paging().enqueue_work(std::move(work), nullptr);
}

// --- the client's calls ---

void GpuVa::enqueue(PagingQueue* queue, Work work, uint64_t* fence) {
  *fence = 0;
  if (work.empty()) return;
  if (queue == nullptr) {
    adapter_.paging().enqueue_work(std::move(work), nullptr);
    adapter_.pump();
    return;
  }
  const uint64_t value = queue->begin();
  // Done at once, or later.
  const auto done = std::make_shared<bool>(false);
  adapter_.paging().enqueue_work(std::move(work), [done, value, queue = Ref<PagingQueue>(queue)] {
    *done = true;
    queue->finish(value);
  });
  adapter_.pump();
  if (!*done) *fence = value;
}

GpuVaOutcome GpuVa::map(PagingQueue& queue, gpuva::MapRequest request,
                        const Ref<OpenedAllocation>& opened) {
  GpuVaOutcome outcome;
  Device& device = queue.device();
  const bool asked = adapter_.block_until_awake([&] {
    outcome.status = [&] {
      if (device.lost()) return Status::kDeviceRemoved;
      const std::shared_ptr<GpuSpace> space = space_of(device.process().number());
      if (opened) {
        if (opened->closing) return Status::kInvalidParameter;
        request.allocation = opened->allocation->id;
        request.allocation_pages = opened->allocation->size_bytes / kPageBytes;
      }
      if (request.protection.zero && !can_map_zero()) return Status::kNotSupported;  // VA-22
      if ((request.driver_protection & gpuva::kUniqueDriverProtection) != 0) unique_seen_ = true;
      request.alignment_bytes = wished_alignment(request);
      const Result<gpuva::MapOperation> claimed =
          space->addresses.claim(request, ++space->sequence);
      if (!claimed.has_value()) return claimed.error();
      Work work;
      const Status status = take_effect(space, *claimed, &work);
      if (!is_success(status)) return status;
      outcome.address = claimed->mapping.span.address();
      enqueue(&queue, std::move(work), &outcome.fence);
      return Status::kSuccess;
    }();
    return true;
  });
  if (!asked) outcome.status = Status::kDeviceRemoved;
  return outcome;
}

uint64_t GpuVa::wished_alignment(const gpuva::MapRequest& request) const {
  if (request.allocation == gpuva::kNoAllocation) return kPageBytes;
  const vidmm::AllocationDesc desc = adapter_.memory().description(request.allocation);
  constexpr uint64_t k64 = 16 * kPageBytes;
  return geometry_.leaf_table_bytes_64k != 0 && desc.alignment_bytes % k64 == 0 ? k64 : kPageBytes;
}

bool GpuVa::can_map_zero() const { return geometry_.zero || geometry_.read_only; }

GpuVa::Undo GpuVa::remember(const GpuSpace& space, gpuva::PageSpans spans) {
  Undo undo{std::move(spans), {}};
  for (const gpuva::PageSpan& span : undo.spans) {
    space.addresses.for_each_in(
        span, [&](const gpuva::Mapping& mapping) { undo.mappings.push_back(mapping); });
  }
  return undo;
}

void GpuVa::put_back(GpuSpace& space, const Undo& undo, uint64_t sequence) {
  gpuva::MapOperation operation;
  operation.sequence = sequence;
  for (const gpuva::PageSpan& span : undo.spans) {
    operation.mapping = {.span = span, .protection = {.no_access = true}};
    space.addresses.apply(operation, nullptr);
  }
  for (const gpuva::Mapping& mapping : undo.mappings) {
    operation.mapping = mapping;
    space.addresses.apply(operation, nullptr);
  }
}

Status GpuVa::take_effect(const std::shared_ptr<GpuSpace>& space,
                          const gpuva::MapOperation& operation, Work* work) {
  const gpuva::PageSpan span = operation.mapping.span;
  const Undo undo = remember(*space, {span});
  const auto gone = going(*space, span, "as D3DKMTMapGpuVirtualAddress took its place");
  gpuva::PageSpans changed;
  space->addresses.apply(operation, &changed);
  const Status status = replan(space, changed, work);
  if (is_success(status)) {
    note(*space, gone);
    gpu_va_trace::changed(*space, changed);
    return status;
  }
  if (operation.claimed) {
    DXGKIT_CHECK(is_success(
        space->addresses.free(span.address(), span.size_bytes(), ++space->sequence, nullptr)));
  } else {
    put_back(*space, undo, operation.sequence);
  }
  return status;
}

GpuVaOutcome GpuVa::reserve(Process& process, PagingQueue* queue,
                            const gpuva::ReserveRequest& request) {
  GpuVaOutcome outcome;
  const bool asked = adapter_.block_until_awake([&] {
    outcome.status = [&] {
      const std::shared_ptr<GpuSpace> space = space_of(process.number());
      if (!space) return Status::kInvalidParameter;  // no device of the process here
      if (request.zero && !can_map_zero()) return Status::kNotSupported;
      const Result<gpuva::MapOperation> reserved =
          space->addresses.reserve(request, ++space->sequence);
      if (!reserved.has_value()) return reserved.error();
      Work work;
      if (gpuva::AddressSpace::needs_apply(*reserved))
        DXGKIT_RETURN_IF_FAILED(take_effect(space, *reserved, &work));
      outcome.address = reserved->mapping.span.address();
      trace::emit(trace::EventKind::kGpuVaReserved, space->process, outcome.address, request.size,
                  request.zero ? 1 : 0);
      enqueue(queue, std::move(work), &outcome.fence);
      return Status::kSuccess;
    }();
    return true;
  });
  if (!asked) outcome.status = Status::kDeviceRemoved;
  return outcome;
}

Status GpuVa::free(Process& process, uint64_t base, uint64_t size) {
  Status status = Status::kSuccess;
  bool done = false;
  bool asked = adapter_.block_until_awake([&] {
    const std::shared_ptr<GpuSpace> space = space_of(process.number());
    status = Status::kInvalidParameter;
    if (!space) return true;
    gpuva::PageSpans changed;
    const auto gone =
        going(*space, {base / kPageBytes, size / kPageBytes}, "by D3DKMTFreeGpuVirtualAddress");
    status = space->addresses.free(base, size, ++space->sequence, &changed);
    if (!is_success(status)) return true;
    note(*space, gone);
    trace::emit(trace::EventKind::kGpuVaFreed, space->process, base, size);
    gpu_va_trace::changed(*space, changed);
    Work work;
    replan_or_hide(space, changed, &work);
    adapter_.paging().enqueue_work(std::move(work), [&done] { done = true; });
    adapter_.pump();
    return true;
  });
  if (asked && is_success(status)) asked = adapter_.block_until([&] { return done; });
  return asked ? status : Status::kDeviceRemoved;
}

}  // namespace dxgkit::dxgk
