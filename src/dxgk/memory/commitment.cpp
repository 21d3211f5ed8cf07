#include "dxgk/memory/commitment.h"

#include <algorithm>
#include <memory>

#include "dxgk/core/process.h"
#include "dxgk/memory/backing_pages.h"
#include "dxgk/memory/device_memory.h"
#include "dxgk/memory/paging_executor.h"

namespace dxgkit::dxgk {

/// What one trimming has reached so far. Lane.
struct Commitment::Outcome {
  uint64_t bytes = 0;
  size_t leaving = 0;  // allocations whose way out of a segment is not over
};

bool Commitment::may_go(const Allocation& allocation) const {
  if (allocation.offer == vidmm::OfferPriority::kNone || allocation.offer_pending) return false;
  if (!allocation.allows_decommit || allocation.pages.empty()) return false;
  if (allocation.forgotten || allocation.borrows_pages || allocation.user_memory) return false;
  if (allocation.keeps_system_copy() || allocation.instance) return false;
  const vidmm::MemoryManager& memory = floor_.core.memory();
  return memory.lock_count(allocation.id) == 0 && memory.pin_count(allocation.id) == 0;
}

std::vector<Allocation*> Commitment::offers_of(const Process* process) {
  std::vector<Allocation*> offers;
  for (const DeviceMemory* device : floor_.device_memories) {
    if (process != nullptr && &device->device().process() != process) continue;
    for (const OpenedAllocation* opened : device->openings) {
      if (opened->closing) continue;
      if (may_go(*opened->allocation)) offers.push_back(opened->allocation);
    }
  }
  // AUTO goes by eviction priority among all content: here behind the offers that name theirs.
  std::ranges::stable_sort(offers, {}, [](const Allocation* one) DXGKIT_REQUIRES(on_lane) {
    return static_cast<int>(one->offer);
  });
  return offers;
}

uint64_t Commitment::decommittable(const Process& process) {
  uint64_t bytes = 0;
  for (const Allocation* allocation : offers_of(&process)) bytes += allocation->size_bytes;
  return bytes;
}

uint64_t Commitment::release(MemoryFloor& floor, Allocation& allocation) {
  floor.core.memory().give_up_content(allocation.id);
  floor.backing_pages->release(allocation);
  allocation.pages = FrameList();
  allocation.opened.front()->device->device().process().note_commitment_change();
  return allocation.size_bytes;
}

Result<uint64_t> Commitment::decommit(const DecommitRequest& request) {
  AdapterCore& core = floor_.core;
  const auto outcome = std::make_shared<Outcome>();
  bool waits = false;
  const bool asked = core.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    choose(request, outcome);
    waits = outcome->leaving != 0;
    if (waits) core.pump();
    return true;
  });
  if (!asked) return Error(Status::kDeviceRemoved);
  if (waits && !core.block_until([&] { return outcome->leaving == 0; }))
    return Error(Status::kDeviceRemoved);
  return outcome->bytes;
}

void Commitment::choose(const DecommitRequest& request, const std::shared_ptr<Outcome>& outcome) {
  vidmm::MemoryManager& memory = floor_.core.memory();
  uint64_t chosen = 0;  // bytes, with those on their way out
  for (Allocation* allocation : offers_of(request.process)) {
    if (chosen >= request.bytes) return;
    const AllocationId id = allocation->id;
    if (request.only_repurposed && !memory.discarded(id)) continue;
    const bool away = memory.placement(id).segment == kSystemMemory;
    if (away && memory.pending_operations(id) == 0) {
      outcome->bytes += release(floor_, *allocation);
      chosen += allocation->size_bytes;
      continue;
    }
    if (request.lazy) continue;
    const Result<std::vector<vidmm::PagingOp>> way_out = memory.evict(id);
    if (!way_out.has_value()) continue;  // something holds it where it is
    chosen += allocation->size_bytes;
    ++outcome->leaving;
    floor_.paging->enqueue(*way_out, [&floor = floor_, id, outcome]() DXGKIT_REQUIRES(on_lane) {
      --outcome->leaving;
      outcome->bytes += release_if_gone(floor, id);
      floor.core.progress();
    });
  }
}

uint64_t Commitment::release_if_gone(MemoryFloor& floor, AllocationId id) {
  if (!floor.allocations.contains(id)) return 0;
  Allocation& allocation = floor.allocations.at(id);
  const vidmm::MemoryManager& memory = floor.core.memory();
  // Its owner may have taken it back meanwhile, and brought it in again.
  if (!Commitment(floor).may_go(allocation) || memory.placement(id).segment != kSystemMemory)
    return 0;
  return memory.pending_operations(id) == 0 ? release(floor, allocation) : 0;
}

Status Commitment::recommit(Allocation& allocation) {
  if (!allocation.pages.empty()) return Status::kSuccess;
  const DeviceMemory& owner = *allocation.opened.front()->device;
  MemoryCharge charge;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const std::vector<bus::PageFrame> pages,
                                 owner.take_pages(allocation.size_bytes / kPageBytes,
                                                  bus::PagesApart::Objects::kAsTheyAre, &charge));
  allocation.pages = FrameList(pages);
  floor_.backing_pages->charge(allocation, std::move(charge));
  return Status::kSuccess;
}

Status Commitment::recommit(std::span<Allocation* const> allocations) {
  std::vector<Allocation*> given;
  for (Allocation* allocation : allocations) {
    if (!allocation->pages.empty()) continue;
    if (const Status status = recommit(*allocation); !is_success(status)) {
      for (Allocation* undone : given) release(floor_, *undone);
      return status;
    }
    given.push_back(allocation);
  }
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
