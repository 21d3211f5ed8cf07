#include "dxgk/va/gpu_va.h"

#include <algorithm>
#include <utility>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/memory/paging_queue.h"
#include "dxgk/memory/residency.h"
#include "dxgk/va/gpu_va_trace.h"
#include "dxgk/va/paging_space.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"

namespace dxgkit::dxgk {
GpuVa::GpuVa(Adapter& adapter, const gpuva::Geometry& geometry)
    : adapter_(adapter), core_(adapter.core()), geometry_(geometry), memory_(adapter) {}

GpuVa::~GpuVa() {
  if (has_zero_page_) core_.machine().free_contiguous(zero_page_, 1);
}

Status GpuVa::start(void* system_process, void* system_context) {
  if (!geometry_.zero) {
    // VA-22: a page of zeros nobody can write stands for them.
    DXGKIT_ASSIGN_OR_RETURN_STATUS(zero_page_, core_.machine().allocate_contiguous(1));
    has_zero_page_ = true;
  }
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    paging_->space()->driver_process = system_process;
    status = paging_->build(system_context, adapter_.paging());
  });
  return status;
}

void GpuVa::stop() {
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    collect();
    free_tables();
    spaces_.clear();
    seconds_.clear();
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

// --- processes ---

void GpuVa::process_begins(uint32_t process) {
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (process == 0) {
      paging_ = std::make_unique<PagingSpace>(*this, geometry_);
    } else {
      spaces_[process] = std::make_shared<GpuSpace>(geometry_, process);
    }
    gpu_va_trace::space(*space_of(process));
  });
}

void GpuVa::process_made(uint32_t process, void* driver_process) {
  core_.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { space_of(process)->driver_process = driver_process; });
}

void GpuVa::process_ends(uint32_t process) {
  bool done = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const std::shared_ptr<GpuSpace> space = space_of(process);
    if (core_.failed()) {
      done = true;
      return;  // stop() frees what is left
    }
    Work work;
    for (const std::shared_ptr<GpuSpace>& one : {space, space_of(process | kSecond)}) {
      if (!one) continue;
      gpuva::Plan plan;
      one->tables.destroy(&plan);
      one->ended = true;
      ++one->version;
      append(one, std::move(plan), &work);
    }
    adapter_.paging().enqueue_work(std::move(work), [&done] { done = true; });
    core_.pump();
  });
  static_cast<void>(core_.block_until([&] { return done; }));
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    collect();
    if (!done) return;
    spaces_.erase(process);
    spaces_.erase(process | kSecond);
    seconds_.erase(process);
    trace::emit(trace::EventKind::kGpuVaSpaceEnded, process);
    core_.progress();  // who waits for room may have it now
  });
}

Result<uint64_t> GpuVa::reserve_for_driver(const port::GpuVaReservation& range) {
  Result<uint64_t> address = Error(Status::kInvalidParameter);
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
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
  const bool restored = space->evicted;
  if (restored) {
    DXGKIT_RETURN_IF_FAILED(restore_tables(space, &work));
  } else if (space->tables.root() == gpuva::kNoTable) {
    DXGKIT_RETURN_IF_FAILED(plan_root(space, &work));
  } else {
    static_cast<void>(replan(space, {}, &work));  // what is owed
  }
  space->contexts.push_back(&context);
  if (space->held != 0) set_off(context, true);
  const ContextId id = context.id();
  companions_[id];
  work.push_back(
      std::make_unique<CallWork>([this, space, id, busy = space->busy]() DXGKIT_REQUIRES(on_lane) {
        const auto found = std::ranges::find(space->contexts, id, &Context::id);
        if (found == space->contexts.end()) return true;
        if (!hardware_idle()) return false;
        set_root_of(*space, **found);
        return true;
      }));
  adapter_.paging().enqueue_work(std::move(work),
                                 [this, space, restored]() DXGKIT_REQUIRES(on_lane) {
                                   if (restored) --space->restoring;
                                   core_.progress();
                                 });
  core_.pump();
  return Status::kSuccess;
}

void GpuVa::detach(Context& context) {
  const std::shared_ptr<GpuSpace> space = space_of(context.device().process().number());
  if (!space) return;
  if (std::erase(space->contexts, &context) != 0 && space->held != 0) set_off(context, false);
  const auto companion = companions_.find(context.id());
  if (companion == companions_.end()) return;
  if (companion->second.waiting.has_value())
    core_.scheduler().sync_objects().cancel_wait(*companion->second.waiting);
  for (PendingUpdate& update : companion->second.queue) release_pools(&update.pools);
  release_pools(&companion->second.running_pools);
  // Batches that are queued still run in it: it keeps its root.
  if (companion->second.driver)
    left_companions_[context.id()] = std::move(companion->second.driver);
  companions_.erase(companion);
}

std::optional<GpuVa::Root> GpuVa::root_of(uint32_t process) {
  const std::shared_ptr<GpuSpace> space = space_of(process);
  if (!space || space->shown_root == gpuva::kNoTable || space->restoring != 0) return std::nullopt;
  return Root{memory_.at(space->shown_root).address, static_cast<uint32_t>(space->shown_entries)};
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
    if (!is_success(core_.port().gpu_va().set_root_page_table(context.driver_handle(), place)))
      return;
    if (queues != nullptr) queues->root_was_set(context, place);
  }
  companions_[context.id()].rooted = true;
}

void GpuVa::set_off(Context& context, bool off) {
  core_.scheduler().set_suspended(context.id(), off);
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
  for (void* context : space.kernel_contexts) set_kernel_root(space, context);
}

void GpuVa::set_kernel_root(const GpuSpace& space, void* context) {
  const port::RootPageTable place{.address = memory_.at(space.shown_root).address,
                                  .entry_count = static_cast<uint32_t>(space.shown_entries)};
  // A driver that refuses loses the adapter; nothing else comes back.
  static_cast<void>(core_.port().gpu_va().set_root_page_table(context, place));
}

bool GpuVa::hardware_idle() const { return adapter_.paging().hardware_idle(); }

bool GpuVa::content_under_way(AllocationId allocation) const {
  const vidmm::MemoryManager& memory = core_.memory();
  return !memory.contains(allocation) || memory.pending_operations(allocation) != 0;
}

bool GpuVa::contexts_idle(const GpuSpace& space) {
  const bool idle =
      std::ranges::all_of(space.contexts, [&](Context* context) DXGKIT_REQUIRES(on_lane) {
        const HwQueues* const queues = context->of_hw_queue() ? adapter_.hw_queues() : nullptr;
        if (queues != nullptr && queues->scheduling())
          return queues->off(static_cast<HwQueue*>(context)->hw_context());
        return !core_.scheduler().on_hardware(context->id());
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
  // Tables that went with what they showed: not those that only gave way, as they come back.
  if (!freed_.empty() && !core_.failed()) adapter_.residency().room_changed();
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
        bytes, core_.port().gpu_va().get_root_page_table_size(static_cast<uint32_t>(need.entries)));
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

// --- content that moves ---

std::unique_ptr<PagingWork> GpuVa::translate(const vidmm::PagingOp& op) {
  using Kind = vidmm::PagingOp::Kind;
  const auto nothing = [] { return std::make_unique<CallWork>([] { return true; }); };
  // Tables leave on the way down only; until power goes they are where they were.
  if (memory_.is_room(op.allocation)) return nothing();
  switch (op.kind) {
    case Kind::kFill:
    case Kind::kTransferIn:
    case Kind::kTransferOut:
    case Kind::kWriteUp:
    case Kind::kWriteBack:
      return paging_->transfer(op, adapter_.paging().target(op.allocation));
    case Kind::kDiscard:  // physical operations are for drivers without this model (PAGE-16)
    case Kind::kContentLost:
      return nothing();
    default:
      return nullptr;
  }
}

void GpuVa::forget(AllocationId allocation) {
  if (resident_.erase(allocation.value) != 0) ++moves_;
  written_with_.erase(allocation.value);
  left_.erase(allocation.value);
}

void GpuVa::forget(AllocationId allocation, const Process& process) {
  const std::shared_ptr<GpuSpace> space = space_of(process.number());
  if (!space) return;
  if (const std::shared_ptr<SecondSpace> second = second_space(process.number())) {
    Work work;
    second->forget(allocation, &work);
    if (!work.empty()) adapter_.paging().enqueue_work(std::move(work), nullptr);
  }
  if (space->addresses.mapping_count(allocation) == 0) return;
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
  // Without anything to write the entries are as they are to be, but perhaps only once what is
  // queued has run: of an allocation that leaves, the hardware still has the old ones.
  if (work.empty() && (queue == nullptr || adapter_.paging().idle())) return;
  if (queue == nullptr) {
    adapter_.paging().enqueue_work(std::move(work), nullptr);
    core_.pump();
    return;
  }
  const uint64_t value = queue->begin();
  // Done at once, or later.
  const auto done = std::make_shared<bool>(false);
  adapter_.paging().enqueue_work(
      std::move(work), [done, value, queue = Ref<PagingQueue>(queue)]() DXGKIT_REQUIRES(on_lane) {
        *done = true;
        queue->finish(value);
      });
  core_.pump();
  if (!*done) *fence = value;
}

GpuVaOutcome GpuVa::map(PagingQueue& queue, gpuva::MapRequest request,
                        const Ref<OpenedAllocation>& opened) {
  GpuVaOutcome outcome;
  DeviceCore& device = queue.device().device();
  const bool asked = core_.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    outcome.status = [&]() DXGKIT_REQUIRES(on_lane) {
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
  const vidmm::AllocationDesc desc = core_.memory().description(request.allocation);
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
  const bool asked = core_.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    outcome.status = [&]() DXGKIT_REQUIRES(on_lane) {
      const std::shared_ptr<GpuSpace> space = space_of(process.number());
      if (!space) return Status::kInvalidParameter;  // no device of the process here
      if (request.zero && !can_map_zero()) return Status::kNotSupported;
      const Result<gpuva::MapOperation> reserved =
          space->addresses.reserve(request, ++space->sequence);
      if (!reserved.has_value()) return reserved.error();
      Work work;
      if (const Status status = ensure_second(*space, &work); !is_success(status)) {
        DXGKIT_CHECK(is_success(space->addresses.free(reserved->mapping.span.address(),
                                                      request.size, ++space->sequence, nullptr)));
        return status;
      }
      if (gpuva::AddressSpace::needs_apply(*reserved))
        if (const Status status = take_effect(space, *reserved, &work); !is_success(status)) {
          adapter_.paging().enqueue_work(std::move(work), nullptr);  // the second space stays
          return status;
        }
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
  bool asked = core_.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
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
    core_.pump();
    return true;
  });
  if (asked && is_success(status)) asked = core_.block_until([&] { return done; });
  return asked ? status : Status::kDeviceRemoved;
}

}  // namespace dxgkit::dxgk
