#include "dxgk/memory/residency_properties.h"

#include <algorithm>

#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/allocation_rules.h"
#include "dxgk/memory/memory_floor.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/paging_queue.h"
#include "dxgk/memory/residency.h"

namespace dxgkit::dxgk {
namespace {

/// The preference as it is declared, in five slots of six bits: id, then the direction.
void set_preferences(uint32_t preferred, vidmm::AllocationDesc* desc) {
  for (uint32_t i = 0; i < desc->preferred.size(); ++i) {
    const uint32_t slot = preferred >> (6 * i);
    desc->preferred[i] = {SegmentId{slot & 0x1FU}, (slot >> 5 & 1U) != 0
                                                       ? vidmm::SearchFrom::kTop
                                                       : vidmm::SearchFrom::kBottom};
  }
}

}  // namespace

port::PropertyUpdate AllocationProperties::news_of(const OpenedAllocation& opened,
                                                   const port::PropertyUpdate& update) {
  const Allocation& allocation = *opened.allocation;
  const vidmm::AllocationDesc& now = floor_.core.memory().description(allocation.id);
  port::PropertyUpdate news = update;
  if (news.supported == now.supported_read && now.supported_read == now.supported_write)
    news.supported.reset();
  if (news.preferred.has_value()) {
    vidmm::AllocationDesc asked = now;
    set_preferences(*news.preferred, &asked);
    const auto same = [](const vidmm::SegmentPreference& a, const vidmm::SegmentPreference& b) {
      return a.segment == b.segment && a.from == b.from;
    };
    if (std::ranges::equal(asked.preferred, now.preferred, same)) news.preferred.reset();
  }
  if (news.accessed_physically == ((allocation.info_flags & kAllocationAccessedPhysically) != 0))
    news.accessed_physically.reset();
  if (news.unmoveable == now.unmoveable) news.unmoveable.reset();
  return news;
}

Status AllocationProperties::update(PagingQueue& queue, OpenedAllocation& opened,
                                    const port::PropertyUpdate& update, uint64_t* fence) {
  if (opened.closing) return Status::kInvalidParameter;
  Allocation& allocation = *opened.allocation;
  // The client's own memory and what is shown live where the driver said (ALLOC-16, ALLOC-20).
  if (update.supported.has_value() && (allocation.user_memory != nullptr || allocation.primary))
    return Status::kInvalidParameter;
  vidmm::MemoryManager& memory = floor_.core.memory();
  const vidmm::AllocationDesc old = memory.description(allocation.id);
  vidmm::AllocationDesc desc = old;
  if (update.supported.has_value()) desc.supported_read = desc.supported_write = *update.supported;
  if (update.preferred.has_value()) set_preferences(*update.preferred, &desc);
  if (update.unmoveable.has_value()) desc.unmoveable = *update.unmoveable;
  for (const vidmm::SegmentPreference& preference : desc.preferred) {
    if (preference.segment == kSystemMemory) continue;
    if ((vidmm::segment_bit(preference.segment) & desc.supported_write) == 0)
      return Status::kInvalidParameter;
  }
  DXGKIT_RETURN_IF_FAILED(memory.redescribe(allocation.id, desc));
  const SegmentId segment = memory.placement(allocation.id).segment;
  std::vector<vidmm::PagingOp> operations;
  if (segment != kSystemMemory && (vidmm::segment_bit(segment) & desc.supported_write) == 0) {
    static_cast<void>(floor_.residency->let_go(allocation));
    Result<std::vector<vidmm::PagingOp>> leaving = memory.evict(allocation.id);
    if (!leaving.has_value()) {
      DXGKIT_CHECK(is_success(memory.redescribe(allocation.id, old)));
      return leaving.error();
    }
    operations = std::move(*leaving);
  }
  if (update.accessed_physically.has_value()) {
    if (*update.accessed_physically) {
      allocation.info_flags |= kAllocationAccessedPhysically;
    } else {
      allocation.info_flags &= ~uint32_t{kAllocationAccessedPhysically};
    }
  }
  *fence = 0;
  if (operations.empty()) return Status::kSuccess;
  *fence = queue.begin();
  floor_.paging->enqueue(operations, [owner = Ref<PagingQueue>(&queue), value = *fence]()
                                         DXGKIT_REQUIRES(on_lane) { owner->finish(value); });
  floor_.core.pump();
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
