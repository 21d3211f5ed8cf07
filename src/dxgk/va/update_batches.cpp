#include "dxgk/va/update_batches.h"

#include <algorithm>
#include <utility>

#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/gpu_va_trace.h"
#include "dxgk/va/gpu_va_work.h"
#include "dxgk/va/mapping_undo.h"
#include "dxgk/va/plan_effects.h"
#include "dxgk/va/resident_places.h"
#include "dxgk/va/space_user.h"
#include "dxgk/va/table_planner.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

/// Update batches of one context that may wait before their caller does (VA-40).
constexpr size_t kUpdatesMost = 128;

}  // namespace

void UpdateBatches::attach(SpaceUser& context) { companions_[context.id()].context = &context; }

void UpdateBatches::detach(ContextId context) {
  const auto companion = companions_.find(context);
  if (companion == companions_.end()) return;
  if (companion->second.waiting.has_value())
    floor_.core.scheduler().sync_objects().cancel_wait(*companion->second.waiting);
  for (PendingUpdate& update : companion->second.queue) release_pools(&update.pools);
  release_pools(&companion->second.running_pools);
  // Batches that are queued still run in it: it keeps its root.
  if (companion->second.driver) left_[context] = std::move(companion->second.driver);
  companions_.erase(companion);
}

Status UpdateBatches::update(SpaceUser& context, SyncObject& fence, uint64_t value, bool wait,
                             std::vector<GpuVaUpdate> updates) {
  Status status = Status::kSuccess;
  bool wants_companion = false;
  const auto attempt = [&]() DXGKIT_REQUIRES(on_lane) {
    if (context.device_lost()) {
      status = Status::kDeviceRemoved;
      return true;
    }
    const auto companion = companions_.find(context.id());
    status = Status::kInvalidParameter;
    if (companion == companions_.end()) return true;  // destroyed meanwhile
    if (companion->second.queue.size() >= kUpdatesMost) return false;
    const std::shared_ptr<GpuSpace> space = floor_.spaces->of(context.names().process);
    std::vector<gpuva::UpdateOperation> operations;
    for (GpuVaUpdate& update : updates) {
      if (update.opened) {
        if (update.opened->closing) return true;
        update.operation.allocation = update.opened->allocation->id;
        update.operation.whole_allocation_pages =
            update.opened->allocation->size_bytes / kPageBytes;
      }
      floor_.spaces->note_protection(update.operation.driver_protection);
      operations.push_back(update.operation);
    }
    status = space->addresses.check_update(operations);
    if (!is_success(status)) return true;
    if (!companion->second.driver && !companion->second.refused &&
        floor_.spaces->second_of(space->process)) {
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
  bool asked = floor_.core.block_until_awake(attempt);
  if (std::exchange(wants_companion, false)) {
    make_companion(context);
    asked = floor_.core.block_until_awake(attempt);
  }
  return asked ? status : Status::kDeviceRemoved;
}

/// What it maps, and what the sources of its copies show now, as far as it is in a segment.
void UpdateBatches::hold_pools(const GpuSpace& space, PendingUpdate* update) {
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
    if (!floor_.places->contains(id)) continue;
    const vidmm::Use use{id, false};
    const auto plan = floor_.core.memory().make_resident(std::span(&use, 1));
    if (!plan.has_value()) continue;
    floor_.paging->enqueue(plan->operations, nullptr);
    update->pools.push_back(use);
  }
}

void UpdateBatches::release_pools(std::vector<vidmm::Use>* pools) {
  const std::vector<vidmm::Use> uses = std::exchange(*pools, {});
  if (uses.empty() || floor_.core.failed()) return;
  floor_.core.memory().release(uses);
  for (const vidmm::Use& use : uses) {
    // Its client may have evicted it meanwhile: now it leaves (RES-14).
    const Allocation& allocation = floor_.allocations.at(use.allocation);
    bool stays = false;
    for (const OpenedAllocation* opened : allocation.opened)
      stays = stays || opened->listing.listed || opened->listing.leave_lazily;
    if (stays) continue;
    if (const auto operations = floor_.core.memory().evict(use.allocation); operations.has_value())
      floor_.paging->enqueue(*operations, nullptr);
  }
}

bool UpdateBatches::let_go() {
  bool any = false;
  for (auto& [id, companion] : companions_) {
    const auto end = [&](std::vector<vidmm::Use>* pools) DXGKIT_REQUIRES(on_lane) {
      if (pools->empty()) return;
      any = true;
      floor_.core.memory().release(*pools);
      pools->clear();
    };
    for (PendingUpdate& update : companion.queue) end(&update.pools);
    end(&companion.running_pools);
  }
  return any;
}

void UpdateBatches::let_go(AllocationId allocation) {
  for (auto& [id, companion] : companions_) {
    const auto end = [&](std::vector<vidmm::Use>* pools) DXGKIT_REQUIRES(on_lane) {
      const auto found = std::ranges::find(*pools, allocation, &vidmm::Use::allocation);
      if (found == pools->end()) return;
      if (!floor_.core.failed()) floor_.core.memory().release(std::span(&*found, 1));
      pools->erase(found);
    };
    for (PendingUpdate& update : companion.queue) end(&update.pools);
    end(&companion.running_pools);
  }
}

/// The head of a context's update queue waits for its fence.
void UpdateBatches::advance(ContextId id) {
  const auto found = companions_.find(id);
  if (found == companions_.end() || found->second.queue.empty()) return;
  Companion& companion = found->second;
  if (companion.running) return;  // also while the head waits for its fence
  const PendingUpdate& head = companion.queue.front();
  vidsch::SyncObjects& objects = floor_.core.scheduler().sync_objects();
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

void UpdateBatches::run_update(ContextId id) {
  Companion& companion = companions_.at(id);
  PendingUpdate update = std::move(companion.queue.front());
  companion.queue.pop_front();
  companion.running_pools = std::move(update.pools);
  floor_.core.progress();                   // somebody may be waiting to queue one more
  SpaceUser& context = *companion.context;  // attached as long as there is a companion
  const std::shared_ptr<GpuSpace> space = floor_.spaces->of(context.names().process);
  std::vector<gpuva::UpdateOperation> operations;
  for (const GpuVaUpdate& one : update.updates) {
    operations.push_back(one.operation);
    if (!one.opened || !one.opened->closing) continue;
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
    space->unmapped.note(UnmappedRanges::going(
        space->addresses, span, "by D3DKMTUpdateGpuVirtualAddress", floor_.core.runtime()));
  const MappingUndo undo(space->addresses, std::move(destinations));
  gpuva::PageSpans changed;
  space->addresses.apply_update(operations, update.sequence, &changed);
  TablePlanner::Work work;
  if (!is_success(floor_.planner->replan(space, changed, &work, companion.driver))) {
    // All of it or nothing. The fence is set all the same: who waits for it is not left hanging.
    undo.put_back(space->addresses, update.sequence);
    context.fail_device(DeviceState::kErrorOutOfMemory);
  } else {
    trace::emit(trace::EventKind::kGpuVaUpdated, space->process, id.value, operations.size(),
                update.value);
    gpu_va_trace::changed(*space, changed);
  }
  floor_.paging->enqueue_work(std::move(work), [this, id, fence = update.fence,
                                                value = update.value]() DXGKIT_REQUIRES(on_lane) {
    vidsch::SyncObjects& objects = floor_.core.scheduler().sync_objects();
    const vidsch::SyncPoint point{.object = fence->id, .value = value + 1};
    if (objects.contains(fence->id)) static_cast<void>(objects.signal(std::span(&point, 1)));
    floor_.core.progress();  // its context may be waiting to go
    const auto companion_now = companions_.find(id);
    if (companion_now == companions_.end()) return;
    companion_now->second.running = false;
    release_pools(&companion_now->second.running_pools);
    advance(id);
  });
  floor_.core.pump();
}

void UpdateBatches::make_companion(SpaceUser& context) {
  const Result<port::ContextInfo> made = floor_.core.port().objects().create_context(
      context.names().driver_device, context.names().handle,
      NodeOrdinal{floor_.core.caps().paging_node}, 1,
      /*system=*/true, {}, /*virtual_addressing=*/true);
  bool orphan = false;
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    floor_.core.progress();
    const auto found = companions_.find(context.id());
    orphan = found == companions_.end();
    if (orphan) return;
    Companion& companion = found->second;
    companion.refused = !made.has_value();
    if (companion.refused) return;
    companion.driver = std::make_shared<CompanionContext>(CompanionContext{made->handle});
    const std::shared_ptr<GpuSpace> space = floor_.spaces->kernel_space_of(context.names().process);
    space->kernel_contexts.push_back(made->handle);
    TablePlanner::Work work;
    work.push_back(std::make_unique<CallWork>(
        [this, space, companion = companion.driver]() DXGKIT_REQUIRES(on_lane) {
          // Before its first copy. Gone: nobody runs on it any more.
          const auto& all = space->kernel_contexts;
          if (std::ranges::find(all, companion->handle) != all.end() &&
              space->shown_root != gpuva::kNoTable) {
            floor_.plan_effects->set_kernel_root(*space, companion->handle);
          }
          return true;
        }));
    floor_.paging->enqueue_work(std::move(work),
                                [this]() DXGKIT_REQUIRES(on_lane) { floor_.core.progress(); });
    floor_.core.pump();
  });
  if (orphan && made.has_value())
    static_cast<void>(floor_.core.port().objects().destroy_context(made->handle));
}

void* UpdateBatches::take_companion(ContextId context, uint32_t process) {
  std::shared_ptr<CompanionContext> companion;
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const auto found = left_.find(context);
    if (found == left_.end()) return;
    companion = std::move(found->second);
    left_.erase(found);
  });
  if (!companion) return nullptr;
  static_cast<void>(floor_.core.block_until([&] { return companion.use_count() == 1; }));
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (const std::shared_ptr<GpuSpace> second = floor_.spaces->kernel_space_of(process))
      std::erase(second->kernel_contexts, companion->handle);
  });
  return companion->handle;
}

void UpdateBatches::show_pools(uint32_t process, std::span<const GpuVaUpdate> updates) {
  using Kind = gpuva::UpdateOperation::Kind;
  const std::shared_ptr<SecondSpace> second = floor_.spaces->second_of(process);
  if (!second) return;
  TablePlanner::Work work;
  for (const GpuVaUpdate& update : updates) {
    const gpuva::UpdateOperation& operation = update.operation;
    if (!update.opened || update.opened->closing) continue;
    const bool protect = operation.kind == Kind::kMapProtect;
    if (!protect && operation.kind != Kind::kMap) continue;
    second->show_pool(operation.allocation, operation.whole_allocation_pages,
                      protect ? operation.protection : gpuva::Protection{.write = true},
                      protect ? operation.driver_protection : 0, &work);
    // Making room for the next one's tables queues operations: none may come before these.
    if (!work.empty()) floor_.paging->enqueue_work(std::exchange(work, {}), nullptr);
  }
}

}  // namespace dxgkit::dxgk
