#include "dxgk/memory/paging_buffers.h"

#include <algorithm>
#include <span>

#include "base/arithmetic.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/teardowns.h"

namespace dxgkit::dxgk {

Status PagingBuffers::map() {
  if (core_.facts().virtual_addresses) return Status::kSuccess;  // they have virtual addresses
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (size_t i = 0; i < paging_.buffer_count() && is_success(status); ++i) {
      const DmaBuffer& buffer = paging_.buffer(i);
      Allocation& allocation = allocations_.create();
      allocation.size_bytes = align_up(buffer.view.size_bytes, kPageBytes);
      std::vector<bus::PageFrame> pages;
      for (uint64_t page = 0; page < allocation.size_bytes / kPageBytes; ++page)
        pages.push_back(bus::PageFrame{buffer.pages.value + page});
      allocation.pages = FrameList(pages);
      allocation.borrows_pages = true;  // the executor's
      vidmm::AllocationDesc desc;
      desc.size_bytes = allocation.size_bytes;
      desc.alignment_bytes = kPageBytes;
      desc.supported_read = desc.supported_write =
          vidmm::segment_bit(SegmentId{core_.segment_infos().paging_buffer_segment});
      desc.cpu_visible = true;
      desc.pinned = true;
      status = core_.memory().create(allocation.id, desc);
      if (!is_success(status)) {
        allocations_.destroy(allocation);
        return;
      }
      core_.memory().mark_cpu_written(allocation.id);
      const vidmm::Use use{allocation.id, false};
      const auto plan = core_.memory().make_resident(std::span(&use, 1));
      if (!plan.has_value()) {
        status = plan.error().status;
        DXGKIT_CHECK(core_.memory().destroy(allocation.id).has_value());
        allocations_.destroy(allocation);
        return;
      }
      mapped_.push_back(allocation.id);
      paging_.enqueue(plan->operations,
                      [this, i, place = plan->placements.front()]()
                          DXGKIT_REQUIRES(on_lane) { paging_.move_buffer(i, place); });
    }
    core_.pump();
  });
  // Power may fail meanwhile: then the rest waits for it.
  const bool mapped = core_.block_until(
      [&]() DXGKIT_REQUIRES(on_lane) { return paging_.idle() || core_.power_phase().off(); });
  return is_success(status) && !mapped ? Status::kDeviceConfigurationError : status;
}

bool PagingBuffers::contains(AllocationId id) const {
  return std::ranges::find(mapped_, id) != mapped_.end();
}

bool PagingBuffers::empty() const {
  bool none = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { none = mapped_.empty(); });
  return none;
}

void PagingBuffers::unmap() {
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (size_t i = 0; i < mapped_.size(); ++i) {
      paging_.move_buffer(i, vidmm::Placement{});
      if (core_.failed()) continue;
      const vidmm::Use use{mapped_[i], false};
      core_.memory().release(std::span(&use, 1));
      teardowns_.free_internal(allocations_.at(mapped_[i]));
    }
    mapped_.clear();
  });
  static_cast<void>(core_.block_until(
      [&]() DXGKIT_REQUIRES(on_lane) { return paging_.idle() || core_.power_phase().off(); }));
}

void PagingBuffers::drop() {
  for (size_t i = 0; i < mapped_.size(); ++i) {
    paging_.move_buffer(i, vidmm::Placement{});
    const vidmm::Use use{mapped_[i], false};
    core_.memory().release(std::span(&use, 1));
    teardowns_.free_internal(allocations_.at(mapped_[i]));
  }
  mapped_.clear();
}

}  // namespace dxgkit::dxgk
