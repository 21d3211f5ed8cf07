// Page tables that give way to what others need, and come back before anybody runs on them.
#include <algorithm>
#include <utility>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/va/paging_space.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

/// Nobody walks its tables, writes them, or is about to. Work that is queued and not prepared yet
/// has them brought when it is.
bool GpuVa::may_evict(const GpuSpace& space, Whose whose) const {
  if (space.of_paging || space.kernel_only) return false;
  if (space.planning != 0 || space.held != 0 || space.busy.use_count() != 1) return false;
  if (space.tables.root() == gpuva::kNoTable || space.restoring != 0) return false;
  return std::ranges::all_of(space.contexts, [&](Context* context) DXGKIT_REQUIRES(on_lane) {
    if (context->of_hw_queue()) return false;
    return whose == Whose::kIdle ? core_.scheduler().packets_of(context->id()) == 0
                                 : !core_.scheduler().holds_memory(context->id());
  });
}

bool GpuVa::let_tables_go() {
  if (geometry_.explicit_invalidation || core_.failed()) return false;
  const auto in_segment = [&](uint32_t level) {
    return geometry_.levels[level].segment != kSystemMemory;
  };
  bool any_level = false;
  for (uint32_t level = 0; level < geometry_.level_count; ++level)
    any_level = any_level || in_segment(level);
  if (!any_level) return false;  // they are in nobody's way
  const auto evict_those = [&](Whose whose) DXGKIT_REQUIRES(on_lane) {
    bool any = false;
    for (const auto& [number, space] : spaces_) {
      if (!may_evict(*space, whose)) continue;
      evict_tables(*space);
      any = true;
    }
    return any;
  };
  if (evict_those(Whose::kIdle)) return true;
  // What runs or pages gives memory back by itself. Those who only wait must not keep each other,
  // or themselves, from running.
  if (core_.scheduler().anything_on_hardware() || !adapter_.paging().idle()) return false;
  return evict_those(Whose::kQueued);
}

void GpuVa::evict_tables(GpuSpace& space) {
  // Translations of the old root go before anything that is queued from now on, so before what
  // takes its place; a root there is set when the hardware has done that.
  if (space.shown_root != gpuva::kNoTable) {
    port::PagingOperation flush;
    flush.kind = port::PagingOperation::Kind::kFlushTlb;
    flush.flush.root = memory_.at(space.shown_root).address;
    flush.flush.process = space.driver_process;
    adapter_.paging().enqueue_plain(flush, nullptr);
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
    if (paging_) paging_->hide(memory_.at(step.table));
    memory_.free(step.table);
  }
}

bool GpuVa::tables_are_away(const Process& process) const {
  const std::shared_ptr<GpuSpace> space = space_of(process.number());
  return space && space->evicted;
}

bool GpuVa::ever_evicts(const GpuSpace& space) const {
  if (space.of_paging || space.kernel_only || geometry_.explicit_invalidation) return false;
  return std::ranges::none_of(space.contexts, [](Context* one) { return one->of_hw_queue(); });
}

GpuVa::TableRoom GpuVa::table_room(const Process& process) {
  TableRoom room;
  const std::shared_ptr<GpuSpace> own = space_of(process.number());
  memory_.for_each([&](gpuva::TableId id, const TableMemory& table) DXGKIT_REQUIRES(on_lane) {
    if (table.room.value == 0) return;
    for (const auto& [number, space] : spaces_) {
      if (ever_evicts(*space) && space->tables.find(id).has_value()) return;
    }
    room.staying.push_back({table.room, false});
  });
  if (!own || !ever_evicts(*own)) return room;
  for (const gpuva::TableNeed& need : needs_of_all(*own)) {
    const SegmentId segment = geometry_.levels[need.level].segment;
    if (segment == kSystemMemory) continue;
    vidmm::AllocationDesc desc;
    desc.size_bytes = align_up(uint64_t{need.bytes}, kPageBytes);
    if (need.bytes == 0) {  // a root that grows
      const Result<uint64_t> bytes =
          core_.port().gpu_va().get_root_page_table_size(static_cast<uint32_t>(need.entries));
      if (!bytes.has_value()) continue;
      desc.size_bytes = align_up(*bytes, kPageBytes);
    }
    desc.alignment_bytes = std::max<uint64_t>(need.alignment_bytes, kPageBytes);
    desc.supported_read = desc.supported_write = vidmm::segment_bit(segment);
    room.own.push_back(desc);
  }
  return room;
}

GpuVa::TablesThere GpuVa::bring_tables(const Process& process) {
  const std::shared_ptr<GpuSpace> space = space_of(process.number());
  if (!space) return TablesThere::kYes;  // its process is going
  if (space->evicted) {
    Work work;
    if (!is_success(restore_tables(space, &work))) return TablesThere::kNoMemory;
    // Not from here: setting the root suspends contexts, and the scheduler is asking.
    const auto go = std::make_shared<bool>(false);
    work.insert(work.begin(), std::make_unique<CallWork>([go] { return *go; }));
    adapter_.paging().enqueue_work(std::move(work), [space] { --space->restoring; });
    core_.lane().post([&adapter = adapter_, go]() DXGKIT_REQUIRES(on_lane) {
      *go = true;
      if (adapter.gpu_va() != nullptr) adapter.paging().look_again();
    });
  }
  return space->restoring != 0 ? TablesThere::kSoon : TablesThere::kYes;
}

}  // namespace dxgkit::dxgk
