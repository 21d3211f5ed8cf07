#include "dxgk/va/gpu_va_work.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/va/gpu_va_trace.h"
#include "dxgk/va/page_table_memory.h"
#include "dxgk/va/plan_effects.h"

namespace dxgkit::dxgk {
namespace {

/// Entries handed to the driver at a time: what they take stays in the cache.
constexpr uint64_t kEntriesMost = 4096;

/// Operations that bring or change the allocation's content have been queued and not been done by
/// the hardware; true also of what is no allocation.
bool content_under_way(AdapterCore& core, AllocationId allocation) DXGKIT_REQUIRES(on_lane) {
  const vidmm::MemoryManager& memory = core.memory();
  return !memory.contains(allocation) || memory.pending_operations(allocation) != 0;
}

}  // namespace

static_assert(sizeof(gpuva::Pte) == sizeof(port::PageTableEntry));

StepWriter::StepWriter(VaFloor& floor, GpuSpace& space, gpuva::Plan plan,
                       port::PageTableUpdateMode mode, const BatchCopies* copies)
    : floor_(floor), space_(space), plan_(std::move(plan)), mode_(mode), copies_(copies) {}

const SecondSpace::Ranges* StepWriter::at_copy() const {
  if (over() || copies_ == nullptr) return nullptr;
  const auto found = copies_->steps.find(step_);
  return found == copies_->steps.end() ? nullptr : &found->second;
}

void StepWriter::tell_copy() {
  if (trace::current() == nullptr) return;
  const gpuva::Step& step = plan_.steps[step_];
  std::vector<gpuva::Pte> entries(step.count);
  static_cast<void>(describe(step, 0, step.count, &entries));
}

const gpuva::Step* StepWriter::at_root_change() const {
  return over() ? nullptr : &plan_.steps[step_];
}

bool StepWriter::next(std::vector<port::PagingOperation>* operations) {
  using Kind = gpuva::Step::Kind;
  buffers_.clear();
  uint64_t entries = 0;
  const size_t before = operations->size();
  while (!over() && entries < kEntriesMost) {
    const gpuva::Step& step = plan_.steps[step_];
    if (step.kind == Kind::kSetRoot || at_copy() != nullptr) break;
    if (step.kind == Kind::kFree) {
      ++step_;
      continue;
    }
    if (step.kind == Kind::kFlush) {
      ++step_;
      if (space_.shown_root == gpuva::kNoTable) continue;  // nobody has translated anything
      port::PagingOperation flush;
      flush.kind = port::PagingOperation::Kind::kFlushTlb;
      flush.flush.root = floor_.tables->at(space_.shown_root).address;
      flush.flush.process = space_.driver_process;
      flush.flush.start = step.span.address();
      flush.flush.end = step.span.end_address();
      operations->push_back(flush);
      if (space_.kernel_only) continue;
      trace::emit(trace::EventKind::kTlbFlushed, space_.process, flush.flush.start,
                  flush.flush.end);
      continue;
    }
    // A repeated entry is one, however many it stands for.
    const uint64_t count =
        step.repeat ? step.count : std::min(step.count - done_, kEntriesMost - entries);
    DXGKIT_CHECK(count > 0);
    buffers_.emplace_back(step.repeat ? 1 : count);
    operations->push_back(describe(step, done_, count, &buffers_.back()));
    entries += buffers_.back().size();
    done_ += count;
    if (done_ == step.count) {
      done_ = 0;
      ++step_;
    }
  }
  return operations->size() != before;
}

port::PagingOperation StepWriter::describe(const gpuva::Step& step, uint64_t first, uint64_t count,
                                           std::vector<gpuva::Pte>* entries) {
  using Kind = gpuva::Step::Kind;
  const gpuva::Geometry& geometry = space_.tables.geometry();
  if (step.kind == Kind::kWriteDirectory) {
    for (uint64_t i = 0; i < count; ++i) {
      const gpuva::ChildTables& child = plan_.children[step.first_child + first + i];
      if (child.table == gpuva::kNoTable) {
        (*entries)[i] = {};
        continue;
      }
      const port::GpuPhysicalAddress& place = floor_.tables->at(child.table).address;
      (*entries)[i] =
          gpuva::directory_pte(place.segment, place.offset / kPageBytes, child.of_64k_pages);
    }
  } else {
    gpuva::fill_step(step, first, *entries, geometry.leaf_pages());
  }
  const TableMemory& table = floor_.tables->at(step.table);
  port::PagingOperation operation;
  operation.kind = port::PagingOperation::Kind::kUpdatePageTable;
  operation.size_bytes = count * sizeof(gpuva::Pte);
  if (step.level == 0 && step.allocation != gpuva::kNoAllocation) {
    operation.allocation = floor_.allocations.contains(step.allocation)
                               ? floor_.allocations.at(step.allocation).driver_handle
                               : nullptr;
    operation.page_table.allocation_offset_bytes = (step.offset_pages + first) * kPageBytes;
  }
  port::PageTableUpdate& update = operation.page_table;
  update.level = step.level;
  update.mode = mode_;
  update.table_cpu = table.cpu;
  update.table_physical = table.address;
  update.table_virtual = table.paging_va;
  update.entries = reinterpret_cast<const port::PageTableEntry*>(entries->data());
  update.start_index = static_cast<uint32_t>(step.start_index + first);
  update.count = static_cast<uint32_t>(count);
  update.repeat = step.repeat;
  update.initial_update = step.initial;
  update.use_64kb_pages = step.of_64k_pages;
  update.driver_protection = step.driver_protection;
  update.process = space_.driver_process;
  update.first_va = step.span.address() + (first << geometry.entry_shift(step.level)) * kPageBytes;
  gpu_va_trace::entries(space_, update);
  return operation;
}

PlanWork::PlanWork(PlanEffects& effects, std::shared_ptr<GpuSpace> space, gpuva::Plan plan,
                   std::unique_ptr<BatchCopies> copies)
    : effects_(effects),
      space_(std::move(space)),
      busy_(space_->busy),
      copies_(std::move(copies)),
      writer_(effects.floor(), *space_, std::move(plan), update_mode(space_->tables.geometry()),
              copies_.get()),
      after_content_(
          update_mode(space_->tables.geometry()) == port::PageTableUpdateMode::kCpuVirtual &&
          std::ranges::any_of(writer_.plan().steps,
                              [&core = effects.floor().core](const gpuva::Step& step)
                                  DXGKIT_REQUIRES(on_lane) {
                                    return step.kind == gpuva::Step::Kind::kWriteEntries &&
                                           step.source.kind == gpuva::PteSource::Kind::kRun &&
                                           content_under_way(core, step.allocation);
                                  })) {}

PlanWork::~PlanWork() {
  if (holding_) effects_.end_hold_later(space_);
}

void PlanWork::hold_contexts() {
  if (holding_) return;
  holding_ = true;
  effects_.begin_hold(*space_);
}

/// The copy whose tables are shown, in its context.
void PlanWork::copy(const SecondSpace::Ranges& ranges, Part* part) {
  port::PagingOperation operation;
  operation.kind = port::PagingOperation::Kind::kCopyPageTableEntries;
  operation.copies = copy_;
  for (const gpuva::PageTables::CopyRange& range : ranges)
    operation.size_bytes += range.count * sizeof(gpuva::Pte);
  part->operations.push_back(operation);
  part->context = copies_->context->handle;
  part->hold = std::make_shared<std::pair<std::shared_ptr<CompanionContext>, std::shared_ptr<int>>>(
      copies_->context, busy_);
  writer_.tell_copy();
  writer_.skip();
}

PagingWork::Next PlanWork::next(Part* part) {
  if (writer_.plan().contexts_idle) {
    hold_contexts();
    if (!effects_.contexts_idle(*space_)) return Next::kLater;
  }
  // The CPU writes at once: content that was still on its way when this was planned has to be there
  // by then, or whoever had the memory before is seen through the entries (VA-29).
  if (after_content_ && !effects_.floor().paging->hardware_idle()) return Next::kLater;
  part->operations.clear();
  part->context = nullptr;
  while (!writer_.next(&part->operations)) {
    if (const SecondSpace::Ranges* ranges = writer_.at_copy()) {
      if (!pointing_) {
        gpuva::Plan plan;
        copy_ = copies_->second->show_tables(*ranges, &plan);
        pointing_ =
            std::make_unique<StepWriter>(effects_.floor(), *copies_->second->space(),
                                         std::move(plan), update_mode(space_->tables.geometry()));
      }
      if (pointing_->next(&part->operations)) {
        part->hold = busy_;
        return Next::kPart;
      }
      pointing_.reset();
      copy(*ranges, part);
      return Next::kPart;
    }
    if (const gpuva::Step* step = writer_.at_root_change()) {
      // The table has to be complete, and nobody may be using the old one.
      hold_contexts();
      if (!effects_.floor().paging->hardware_idle() || !effects_.contexts_idle(*space_))
        return Next::kLater;
      effects_.set_root(*space_, *step);
      writer_.skip();
      continue;
    }
    if (std::exchange(told_, true)) return Next::kOver;
    // Tables that went, and contexts that wait, are for when the hardware has done all this.
    std::vector<gpuva::TableId> freed;
    for (const gpuva::Step& step : writer_.plan().steps) {
      if (step.kind == gpuva::Step::Kind::kFree) freed.push_back(step.table);
    }
    if (freed.empty() && !holding_) return Next::kOver;
    const bool held = std::exchange(holding_, false);
    part->hold = std::shared_ptr<void>(
        nullptr, [&effects = effects_, space = space_, busy = busy_, freed = std::move(freed),
                  held](void*) DXGKIT_REQUIRES(on_lane) {
          effects.free_later(freed);
          if (held) effects.end_hold_later(space);
        });
    return Next::kPart;
  }
  part->hold = busy_;
  return Next::kPart;
}

}  // namespace dxgkit::dxgk
