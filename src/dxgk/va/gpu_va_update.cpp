// Update batches, queued per context and carried out when their fence says so; and updates of
// context allocations.
#include <algorithm>
#include <utility>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/memory/residency.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/va/gpu_va_trace.h"
#include "dxgk/va/paging_space.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

/// Update batches of one context that may wait before their caller does (VA-40).
constexpr size_t kUpdatesMost = 128;

}  // namespace

Status GpuVa::update(Context& context, SyncObject& fence, uint64_t value, bool wait,
                     std::vector<GpuVaUpdate> updates) {
  Status status = Status::kSuccess;
  bool wants_companion = false;
  const auto attempt = [&]() DXGKIT_REQUIRES(on_lane) {
    if (context.device().lost()) {
      status = Status::kDeviceRemoved;
      return true;
    }
    const auto companion = companions_.find(context.id());
    status = Status::kInvalidParameter;
    if (companion == companions_.end()) return true;  // destroyed meanwhile
    if (companion->second.queue.size() >= kUpdatesMost) return false;
    const std::shared_ptr<GpuSpace> space = space_of(context.device().process().number());
    std::vector<gpuva::UpdateOperation> operations;
    for (GpuVaUpdate& update : updates) {
      if (update.opened) {
        if (update.opened->closing) return true;
        update.operation.allocation = update.opened->allocation->id;
        update.operation.whole_allocation_pages =
            update.opened->allocation->size_bytes / kPageBytes;
      }
      if ((update.operation.driver_protection & gpuva::kUniqueDriverProtection) != 0)
        unique_seen_ = true;
      operations.push_back(update.operation);
    }
    status = space->addresses.check_update(operations);
    if (!is_success(status)) return true;
    if (!companion->second.driver && !companion->second.refused && second_space(space->process)) {
      if (companion->second.making) return false;
      wants_companion = companion->second.making = true;
      return true;
    }
    companion->second.queue.push_back({.fence = Ref<SyncObject>(&fence),
                                       .value = value,
                                       .sequence = ++space->sequence,
                                       .wait = wait,
                                       .updates = std::move(updates),
                                       .pools = {}});
    hold_pools(*space, &companion->second.queue.back());
    show_pools(space->process, companion->second.queue.back().updates);
    advance(context.id());
    return true;
  };
  bool asked = core_.block_until_awake(attempt);
  if (std::exchange(wants_companion, false)) {
    make_companion(context);
    asked = core_.block_until_awake(attempt);
  }
  return asked ? status : Status::kDeviceRemoved;
}

/// What it maps, and what the sources of its copies show now, as far as it is in a segment.
void GpuVa::hold_pools(const GpuSpace& space, PendingUpdate* update) {
  std::vector<AllocationId> named;
  for (const GpuVaUpdate& one : update->updates) {
    const gpuva::UpdateOperation& operation = one.operation;
    if (one.opened) named.push_back(operation.allocation);
    if (operation.kind != gpuva::UpdateOperation::Kind::kCopy) continue;
    space.addresses.for_each_in(
        {operation.source_address / kPageBytes, operation.size_bytes / kPageBytes},
        [&](const gpuva::Mapping& mapping) { named.push_back(mapping.allocation); });
  }
  std::ranges::sort(named);
  named.erase(std::unique(named.begin(), named.end()), named.end());
  for (const AllocationId id : named) {
    if (!resident_.contains(id.value)) continue;
    const vidmm::Use use{id, false};
    const auto plan = core_.memory().make_resident(std::span(&use, 1));
    if (!plan.has_value()) continue;
    adapter_.paging().enqueue(plan->operations, nullptr);
    update->pools.push_back(use);
  }
}

void GpuVa::release_pools(std::vector<vidmm::Use>* pools) {
  const std::vector<vidmm::Use> uses = std::exchange(*pools, {});
  if (uses.empty() || core_.failed()) return;
  core_.memory().release(uses);
  for (const vidmm::Use& use : uses) {
    // Its client may have evicted it meanwhile: now it leaves (RES-14).
    const Allocation& allocation = adapter_.allocations().at(use.allocation);
    bool stays = false;
    for (const OpenedAllocation* opened : allocation.opened)
      stays = stays || opened->listing.listed || opened->listing.leave_lazily;
    if (stays) continue;
    if (const auto operations = core_.memory().evict(use.allocation); operations.has_value())
      adapter_.paging().enqueue(*operations, nullptr);
  }
}

bool GpuVa::let_go() {
  bool any = false;
  for (auto& [id, companion] : companions_) {
    const auto end = [&](std::vector<vidmm::Use>* pools) DXGKIT_REQUIRES(on_lane) {
      if (pools->empty()) return;
      any = true;
      if (!core_.failed()) core_.memory().release(*pools);
      pools->clear();
    };
    for (PendingUpdate& update : companion.queue) end(&update.pools);
    end(&companion.running_pools);
  }
  return any;
}

void GpuVa::let_go(AllocationId allocation) {
  for (auto& [id, companion] : companions_) {
    const auto end = [&](std::vector<vidmm::Use>* pools) DXGKIT_REQUIRES(on_lane) {
      const auto found = std::ranges::find(*pools, allocation, &vidmm::Use::allocation);
      if (found == pools->end()) return;
      if (!core_.failed()) core_.memory().release(std::span(&*found, 1));
      pools->erase(found);
    };
    for (PendingUpdate& update : companion.queue) end(&update.pools);
    end(&companion.running_pools);
  }
}

Context& GpuVa::context_of(ContextId id) const {
  for (const auto& [number, space] : spaces_) {
    const auto found = std::ranges::find(space->contexts, id, &Context::id);
    if (found != space->contexts.end()) return **found;
  }
  DXGKIT_CHECK(false);  // a companion lives as long as its context
}

/// The head of a context's update queue waits for its fence.
void GpuVa::advance(ContextId id) {
  const auto found = companions_.find(id);
  if (found == companions_.end() || found->second.queue.empty()) return;
  Companion& companion = found->second;
  if (companion.running || companion.waiting.has_value()) return;
  const PendingUpdate& head = companion.queue.front();
  vidsch::SyncObjects& objects = core_.scheduler().sync_objects();
  companion.running = true;
  if (!head.wait || !objects.contains(head.fence->id)) {
    run_update(id);
    return;
  }
  const vidsch::SyncPoint point{.object = head.fence->id, .value = head.value};
  struct Moment {
    bool inside = true, at_once = false;
  };
  const auto moment = std::make_shared<Moment>();
  const vidsch::CpuWaitId wait =
      objects.wait_cpu(std::span(&point, 1), vidsch::WaitMode::kAll,
                       [this, id, moment](Status) DXGKIT_REQUIRES(on_lane) {
                         if (moment->inside) {
                           moment->at_once = true;
                           return;
                         }
                         companions_.at(id).waiting.reset();  // detach() cancels the wait
                         run_update(id);
                       });
  moment->inside = false;
  if (moment->at_once) {
    run_update(id);
  } else {
    companion.waiting = wait;
  }
}

void GpuVa::run_update(ContextId id) {
  Companion& companion = companions_.at(id);
  PendingUpdate update = std::move(companion.queue.front());
  companion.queue.pop_front();
  companion.running_pools = std::move(update.pools);
  core_.progress();  // somebody may be waiting to queue one more
  Device& device = context_of(id).device();
  const std::shared_ptr<GpuSpace> space = space_of(device.process().number());
  std::vector<gpuva::UpdateOperation> operations;
  for (const GpuVaUpdate& one : update.updates) {
    operations.push_back(one.operation);
    if (!one.opened || (!one.opened->closing && one.opened->allocation != nullptr)) continue;
    gpuva::UpdateOperation& gone = operations.back();  // destroyed meanwhile
    gone = {.kind = gpuva::UpdateOperation::Kind::kUnmap,
            .base_address = gone.base_address,
            .size_bytes = gone.size_bytes,
            .protection = {.no_access = true}};
  }
  gpuva::PageSpans destinations;
  for (const gpuva::UpdateOperation& operation : operations)
    destinations.push_back(
        {operation.base_address / kPageBytes, operation.size_bytes / kPageBytes});
  for (const gpuva::PageSpan& span : destinations)
    note(*space, going(*space, span, "by D3DKMTUpdateGpuVirtualAddress"));
  const Undo undo = remember(*space, std::move(destinations));
  gpuva::PageSpans changed;
  space->addresses.apply_update(operations, update.sequence, &changed);
  Work work;
  if (!is_success(replan(space, changed, &work, companion.driver))) {
    // All of it or nothing. The fence is set all the same: who waits for it is not left hanging.
    put_back(*space, undo, update.sequence);
    device.set_error(DeviceState::kErrorOutOfMemory);
  } else {
    trace::emit(trace::EventKind::kGpuVaUpdated, space->process, id.value, operations.size(),
                update.value);
    gpu_va_trace::changed(*space, changed);
  }
  adapter_.paging().enqueue_work(
      std::move(work),
      [this, id, fence = update.fence, value = update.value]() DXGKIT_REQUIRES(on_lane) {
        vidsch::SyncObjects& objects = core_.scheduler().sync_objects();
        const vidsch::SyncPoint point{.object = fence->id, .value = value + 1};
        if (objects.contains(fence->id)) static_cast<void>(objects.signal(std::span(&point, 1)));
        core_.progress();  // its context may be waiting to go
        const auto companion_now = companions_.find(id);
        if (companion_now == companions_.end()) return;
        companion_now->second.running = false;
        release_pools(&companion_now->second.running_pools);
        advance(id);
      });
  core_.pump();
}

// --- the paging process's windows ---

std::vector<UniqueRange> GpuVa::unique_ranges(AllocationId allocation) const {
  std::vector<UniqueRange> found;
  if (!unique_seen_) return found;
  std::vector<gpuva::Mapping> mappings;
  for (const auto& [number, space] : spaces_) space->addresses.mappings_of(allocation, &mappings);
  for (const gpuva::Mapping& mapping : mappings) {
    if ((mapping.driver_protection & gpuva::kUniqueDriverProtection) == 0) continue;
    gpuva::for_each_stretch(mapping, [&](gpuva::PageSpan span, uint64_t page) {
      found.push_back({{page, span.pages}, mapping.driver_protection});
    });
  }
  std::ranges::sort(found, {}, [](const UniqueRange& range) { return range.pages.first_page; });
  std::vector<UniqueRange> joined;
  for (const UniqueRange& range : found) {
    const bool continues = !joined.empty() &&
                           joined.back().driver_protection == range.driver_protection &&
                           joined.back().pages.end_page() >= range.pages.first_page;
    if (!continues) {
      joined.push_back(range);
      continue;
    }
    gpuva::PageSpan& last = joined.back().pages;
    last.pages = std::max(last.end_page(), range.pages.end_page()) - last.first_page;
  }
  return joined;
}

Status GpuVa::update_context(AllocationId allocation, std::vector<std::byte> data,
                             std::function<void()> done) {
  const vidmm::Use use{allocation, true};
  const auto plan = adapter_.residency().make_resident(std::span(&use, 1));
  if (!plan.has_value()) return plan.error().status;
  adapter_.paging().enqueue(plan->operations, nullptr);
  Result<std::unique_ptr<PagingWork>> update = paging_->update_context(
      plan->placements.front(), core_.memory().description(allocation).size_bytes, std::move(data));
  if (!update.has_value()) {
    core_.memory().release(std::span(&use, 1));
    return update.error();
  }
  Work work;
  work.push_back(std::move(*update));
  adapter_.paging().enqueue_work(std::move(work),
                                 [this, use, done = std::move(done)]() DXGKIT_REQUIRES(on_lane) {
                                   core_.memory().release(std::span(&use, 1));
                                   done();
                                   core_.progress();
                                 });
  core_.pump();
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
