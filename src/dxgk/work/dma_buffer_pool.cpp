#include "dxgk/work/dma_buffer_pool.h"

#include <algorithm>
#include <utility>

#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/backing_pages.h"
#include "dxgk/memory/memory_floor.h"
#include "dxgk/memory/teardowns.h"

namespace dxgkit::dxgk {

DmaBufferPool::DmaBufferPool(MemoryFloor& floor, const port::ContextInfo& info,
                             std::shared_ptr<ClientQuota> quota)
    : floor_(floor), core_(floor.core), info_(info), quota_(std::move(quota)) {}

DmaBufferPool::~DmaBufferPool() { DXGKIT_CHECK(buffers_.empty()); }

Result<std::unique_ptr<DmaBuffer>> DmaBufferPool::make_buffer() {
  auto buffer = std::make_unique<DmaBuffer>();
  buffer->pool = this;
  // A buffer that is placed in a segment is as long as the driver said and no longer.
  buffer->view.guarded = info_.dma_buffer_segment_set == 0;
  buffer->page_count =
      align_up(uint64_t{info_.dma_buffer_bytes} + (buffer->view.guarded ? port::kGuardBytes : 0),
               kPageBytes) /
      kPageBytes;
  DXGKIT_ASSIGN_OR_RETURN(buffer->pages, core_.machine().allocate_contiguous(buffer->page_count));
  const uint64_t physical = buffer->pages.value * kPageBytes;
  buffer->private_storage.assign(size_t{info_.dma_private_bytes} + port::kGuardBytes,
                                 std::byte{0});  // REND-02
  buffer->view.private_guarded = info_.dma_private_bytes != 0;
  buffer->view.cpu =
      core_.machine().system_pointer(bus::PhysicalAddress{physical}, info_.dma_buffer_bytes);
  buffer->view.size_bytes = info_.dma_buffer_bytes;
  buffer->view.private_data =
      info_.dma_private_bytes == 0 ? nullptr : buffer->private_storage.data();
  buffer->view.private_size_bytes = info_.dma_private_bytes;
  buffer->view.physical_address = physical;
  if (info_.dma_buffer_segment_set == 0) return buffer;

  // In an aperture segment: the memory manager places it like any allocation, pinned while in use;
  // until then it has no address (REND-12).
  Allocation& memory = floor_.allocations.create();
  std::vector<bus::PageFrame> pages;
  for (uint64_t i = 0; i < buffer->page_count; ++i)
    pages.push_back(bus::PageFrame{buffer->pages.value + i});
  memory.pages = FrameList(pages);
  memory.size_bytes = buffer->page_count * kPageBytes;
  vidmm::AllocationDesc desc;
  desc.size_bytes = memory.size_bytes;
  desc.alignment_bytes = kPageBytes;
  desc.supported_read = desc.supported_write = info_.dma_buffer_segment_set;
  desc.cpu_visible = true;
  if (const Status status = core_.memory().create(memory.id, desc); !is_success(status)) {
    floor_.allocations.destroy(memory);
    core_.machine().free_contiguous(buffer->pages, buffer->page_count);
    return Error(status);
  }
  buffer->memory = memory.id;
  buffer->view.physical_address = 0;
  return buffer;
}

Result<DmaBuffer*> DmaBufferPool::acquire() {
  if (free_.empty()) {
    const uint64_t bytes = uint64_t{info_.dma_buffer_bytes} + info_.dma_private_bytes;
    DXGKIT_ASSIGN_OR_RETURN(MemoryCharge charge, MemoryCharge::take(quota_, bytes));
    DXGKIT_ASSIGN_OR_RETURN(std::unique_ptr<DmaBuffer> buffer, make_buffer());
    if (charge.counts()) charges_.push_back(std::move(charge));
    free_.push_back(buffer.get());
    buffers_.push_back(std::move(buffer));
  }
  DmaBuffer* buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void DmaBufferPool::recycle(DmaBuffer& buffer) {
  for (OpenedAllocation* const one : buffer.written) {
    DXGKIT_CHECK(one->writes > 0);
    --one->writes;
  }
  buffer.written.clear();
  for (OpenedAllocation* const reference : buffer.references) {
    if (reference == nullptr) continue;
    DXGKIT_CHECK(reference->uses > 0);
    --reference->uses;
  }
  buffer.references.clear();
  buffer.allocation_count = 0;
  buffer.patch_count = 0;
  if (buffer.memory.value != 0) {
    const vidmm::Placement place = core_.memory().placement(buffer.memory);
    buffer.view.segment = place.segment;
    buffer.view.physical_address = place.gpu_address;
  }
  free_.push_back(&buffer);
}

void DmaBufferPool::clear() {
  DXGKIT_CHECK(free_.size() == buffers_.size());
  for (const std::unique_ptr<DmaBuffer>& buffer : buffers_) {
    if (buffer->memory.value != 0) {
      floor_.teardowns->free_internal(floor_.allocations.at(buffer->memory));
    } else {
      std::vector<bus::PageFrame> pages;
      for (uint64_t i = 0; i < buffer->page_count; ++i)
        pages.push_back(bus::PageFrame{buffer->pages.value + i});
      floor_.backing_pages->release(pages);
    }
  }
  buffers_.clear();
  free_.clear();
  charges_.clear();
}

void DmaBufferPool::drop_user(DmaBuffer& buffer) {
  DXGKIT_CHECK(buffer.users > 0);
  if (--buffer.users == 0) buffer.pool->recycle(buffer);
}

}  // namespace dxgkit::dxgk
