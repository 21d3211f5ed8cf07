// Offer and reclaim: content its owner can do without.
#include <algorithm>

#include "dxgk/adapter/adapter.h"
#include "dxgk/device.h"
#include "dxgk/memory/residency.h"
#include "dxgk/process.h"

namespace dxgkit::dxgk {
namespace {

/// What is offered need not be resident, although its device lists it: the count stays (ALLOC-47).
void set_aside(const Allocation& allocation) {
  for (OpenedAllocation* opened : allocation.opened) {
    if (!opened->listing.listed) continue;
    opened->listing.listed = false;
    static_cast<void>(opened->device->residency->set.remove(allocation.id));
  }
}

/// Back on the list of its device: before the device's next work at the latest it is resident.
void list_again(OpenedAllocation& opened) {
  if (opened.listing.count == 0 || opened.listing.listed) return;
  if (opened.listing.request != 0) return;  // a MakeResident that waits for room will list it
  opened.listing.listed = true;
  static_cast<void>(opened.device->residency->set.add(opened.allocation->id));
}

}  // namespace

Status Device::targets_of(std::span<const Handle> handles, bool are_resources, Targets* targets) {
  for (const Handle handle_of_one : handles) {
    std::vector<Ref<OpenedAllocation>>& list = targets->emplace_back();
    if (are_resources) {
      DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Resource> resource,
                                     process_.handles().find<Resource>(handle_of_one));
      if (resource->device.get() != this) return Status::kInvalidParameter;
      adapter_.lane().run([&] {
        for (OpenedAllocation* member : resource->members) list.emplace_back(member);
      });
    } else {
      DXGKIT_ASSIGN_OR_RETURN_STATUS(Ref<OpenedAllocation> opened,
                                     process_.handles().find<OpenedAllocation>(handle_of_one));
      if (opened->device.get() != this) return Status::kInvalidParameter;
      list.push_back(std::move(opened));
    }
  }
  return Status::kSuccess;
}

Status Device::offer(std::span<const Handle> handles, bool are_resources,
                     vidmm::OfferPriority priority) {
  if (lost()) return Status::kDeviceRemoved;
  Targets targets;
  DXGKIT_RETURN_IF_FAILED(targets_of(handles, are_resources, &targets));
  Status status = Status::kSuccess;
  adapter_.lane().run([&] {
    if (lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    for (const auto& list : targets) {
      for (const Ref<OpenedAllocation>& opened : list) {
        const Allocation* allocation = opened->allocation;
        // What others use, the display shows, the CPU looks at or the client owns is not one
        // device's to give up.
        if (opened->closing || allocation->shared != nullptr || allocation->primary ||
            allocation->user_memory != nullptr ||
            adapter_.memory().lock_count(allocation->id) != 0) {
          status = Status::kInvalidParameter;
          return;
        }
      }
    }
    adapter_.listing_changed();
    for (const auto& list : targets) {
      for (const Ref<OpenedAllocation>& opened : list) {
        opened->allocation->offer = priority;
        adapter_.offer_when_idle(*opened->allocation);
      }
    }
  });
  return status;
}

Status Device::reclaim(std::span<const Handle> handles, bool are_resources,
                       std::vector<bool>* lost_content) {
  if (lost()) return Status::kDeviceRemoved;
  Targets targets;
  DXGKIT_RETURN_IF_FAILED(targets_of(handles, are_resources, &targets));
  Status status = Status::kSuccess;
  lost_content->assign(handles.size(), false);
  adapter_.lane().run([&] {
    for (const auto& list : targets) {
      for (const Ref<OpenedAllocation>& opened : list) {
        if (opened->closing) status = Status::kInvalidParameter;
      }
    }
    if (lost()) status = Status::kDeviceRemoved;
    if (!is_success(status)) return;
    std::vector<const Allocation*> discarded;  // one may be named twice
    for (size_t i = 0; i < targets.size(); ++i) {
      for (const Ref<OpenedAllocation>& opened : targets[i]) {
        Allocation& allocation = *opened->allocation;
        allocation.offer = vidmm::OfferPriority::kNone;
        allocation.offer_pending = false;
        if (adapter_.memory().reclaim(allocation.id)) discarded.push_back(&allocation);
        list_again(*opened);
        if (std::ranges::find(discarded, &allocation) != discarded.end()) (*lost_content)[i] = true;
      }
    }
  });
  return status;
}

void Adapter::offer_when_idle(Allocation& allocation) {
  if (idle(allocation)) return take_offer(allocation);
  if (allocation.offer_pending) return;
  allocation.offer_pending = true;
  pending_offers_.push_back(allocation.id);
}

void Adapter::take_offer(Allocation& allocation) {
  allocation.offer_pending = false;
  set_aside(allocation);
  memory_->offer(allocation.id, allocation.offer);
  if (!options_.verifier.has(VerifierSwitch::kAlwaysDiscardOffer) || failed_) return;
  const Result<std::vector<vidmm::PagingOp>> gone = memory_->evict(allocation.id);
  if (!gone.has_value() || gone->empty()) return;
  static_cast<void>(strikes(VerifierSwitch::kAlwaysDiscardOffer));
  paging_->enqueue(*gone, nullptr);
  lane_.post([this] { pump(); });  // we may be in the middle of something of the scheduler's
}

void Adapter::advance_offers() {
  std::erase_if(pending_offers_, [&](AllocationId id) {
    if (failed_ || !allocations_.contains(id)) return true;
    Allocation& allocation = allocations_.at(id);
    if (allocation.forgotten || !allocation.offer_pending) return true;
    if (!idle(allocation)) return false;
    take_offer(allocation);
    return true;
  });
}

}  // namespace dxgkit::dxgk
