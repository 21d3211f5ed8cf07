#include "dxgk/va/page_table_memory.h"

#include <algorithm>

#include "base/check.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/backing_pages.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"
#include "dxgk/memory/teardowns.h"

namespace dxgkit::dxgk {

PageTableMemory::~PageTableMemory() { DXGKIT_CHECK(tables_.empty()); }

Result<gpuva::TableId> PageTableMemory::allocate(SegmentId segment, uint64_t bytes,
                                                 uint64_t alignment_bytes, bool cpu_writes) {
  TableMemory table;
  table.bytes = align_up(bytes, kPageBytes);
  if (segment != kSystemMemory) {
    DXGKIT_RETURN_ERROR_IF_FAILED(place(&table, segment, alignment_bytes, cpu_writes));
  } else if (!take_spare(alignment_bytes, &table)) {
    DXGKIT_ASSIGN_OR_RETURN(
        const bus::PageFrame pages,
        floor_.core.machine().allocate_contiguous(table.bytes / kPageBytes, alignment_bytes));
    table.address = {kSystemMemory, pages.value * kPageBytes};
    table.cpu = floor_.core.machine().system_pointer(bus::PhysicalAddress{table.address.offset},
                                                     table.bytes);
  }
  const gpuva::TableId id{++last_id_};
  tables_.emplace(id, table);
  return id;
}

Status PageTableMemory::place(TableMemory* table, SegmentId segment, uint64_t alignment_bytes,
                              bool cpu_writes) {
  vidmm::MemoryManager& memory = floor_.core.memory();
  const vidmm::SegmentDesc& desc = memory.segments()[segment.value - 1];
  // An aperture shows system pages, which would do as well.
  if (desc.kind != vidmm::SegmentKind::kMemory) return Status::kNotSupported;
  if (cpu_writes && !desc.cpu_visible) return Status::kNotSupported;
  Allocation& allocation = floor_.allocations.create();
  allocation.size_bytes = table->bytes;
  vidmm::AllocationDesc wanted;
  wanted.size_bytes = table->bytes;
  wanted.alignment_bytes = std::max(alignment_bytes, kPageBytes);
  wanted.supported_read = wanted.supported_write = vidmm::segment_bit(segment);
  wanted.from_end_of_segment = true;
  wanted.pinned = true;
  Status status = memory.create(allocation.id, wanted);
  if (!is_success(status)) {
    floor_.allocations.destroy(allocation);
    return status;
  }
  const vidmm::Use use{allocation.id, true};
  const auto plan = floor_.residency->make_resident(std::span(&use, 1));
  if (!plan.has_value()) {
    DXGKIT_CHECK(memory.destroy(allocation.id).has_value());
    floor_.allocations.destroy(allocation);
    return Status::kNoMemory;
  }
  // Who makes room for it leaves first. Its own first content is written by page-table updates, so
  // nothing is filled.
  std::vector<vidmm::PagingOp> others;
  std::vector<vidmm::PagingOp> own;
  for (const vidmm::PagingOp& op : plan->operations)
    (op.allocation == allocation.id ? own : others).push_back(op);
  if (!others.empty()) floor_.paging->enqueue(others, nullptr);
  for (const vidmm::PagingOp& op : own) memory.operation_done(op);
  memory.release(std::span(&use, 1));  // it stays, as nothing pinned moves
  rooms_.insert(allocation.id);
  const vidmm::Placement& placed = plan->placements.front();
  table->room = allocation.id;
  table->address = {placed.segment, placed.offset_bytes};
  if (desc.cpu_visible) {
    table->cpu = static_cast<std::byte*>(floor_.core.machine().map_io(
        bus::PhysicalAddress{desc.cpu_translated_address + placed.offset_bytes}, table->bytes));
    table->mapped = table->cpu != nullptr;
  }
  return Status::kSuccess;
}

void PageTableMemory::free(gpuva::TableId id) {
  TableMemory table = at(id);
  tables_.erase(id);
  if (table.mapped) DXGKIT_CHECK(floor_.core.machine().unmap_io(table.cpu, table.bytes));
  if (table.room.value == 0) {
    if (reusing_) {
      table.paging_va = 0;
      spares_.push_back(table);
    } else {
      release(table);
    }
    return;
  }
  rooms_.erase(table.room);
  floor_.teardowns->free_internal(floor_.allocations.at(table.room));
}

void PageTableMemory::begin_reuse() { reusing_ = true; }

void PageTableMemory::end_reuse() {
  reusing_ = false;
  for (const TableMemory& spare : spares_) release(spare);
  spares_.clear();
}

bool PageTableMemory::take_spare(uint64_t alignment_bytes, TableMemory* table) {
  const auto spare = std::ranges::find_if(spares_, [&](const TableMemory& one) {
    return one.bytes == table->bytes &&
           one.address.offset % std::max(alignment_bytes, kPageBytes) == 0;
  });
  if (spare == spares_.end()) return false;
  *table = *spare;
  spares_.erase(spare);
  return true;
}

void PageTableMemory::release(const TableMemory& table) {
  std::vector<bus::PageFrame> pages;
  for (uint64_t page = 0; page < table.bytes / kPageBytes; ++page)
    pages.push_back(bus::PageFrame{table.address.offset / kPageBytes + page});
  floor_.backing_pages->release(pages);
}

TableMemory& PageTableMemory::at(gpuva::TableId id) {
  const auto found = tables_.find(id);
  DXGKIT_CHECK(found != tables_.end());
  return found->second;
}

}  // namespace dxgkit::dxgk
