#include "dxgk/memory/device_offer.h"

#include <algorithm>

#include "dxgk/core/process.h"
#include "dxgk/memory/commitment.h"
#include "dxgk/memory/offers.h"
#include "dxgk/memory/residency.h"

namespace dxgkit::dxgk {
namespace {

/// Back on the list of its device: before the device's next work at the latest it is resident.
void list_again(OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane) {
  if (opened.listing.count == 0 || opened.listing.listed) return;
  if (opened.listing.request != 0) return;  // a MakeResident that waits for room will list it
  opened.listing.listed = true;
  static_cast<void>(opened.device->residency->set.add(opened.allocation->id));
}

}  // namespace

Status DeviceOffers::targets_of(std::span<const Handle> handles, bool are_resources,
                                Targets* targets) {
  for (const Handle handle_of_one : handles) {
    std::vector<Ref<OpenedAllocation>>& list = targets->emplace_back();
    if (are_resources) {
      DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Resource> resource,
                                     process_.handles().find<Resource>(handle_of_one));
      if (resource->device.get() != &memory_) return Status::kInvalidParameter;
      core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
        for (OpenedAllocation* member : resource->members) list.emplace_back(member);
      });
    } else {
      DXGKIT_ASSIGN_OR_RETURN_STATUS(Ref<OpenedAllocation> opened,
                                     process_.handles().find<OpenedAllocation>(handle_of_one));
      if (opened->device.get() != &memory_) return Status::kInvalidParameter;
      list.push_back(std::move(opened));
    }
  }
  return Status::kSuccess;
}

Status DeviceOffers::offer(std::span<const Handle> handles, bool are_resources,
                           const OfferTerms& terms) {
  if (device_.lost()) return Status::kDeviceRemoved;
  Targets targets;
  DXGKIT_RETURN_IF_FAILED(targets_of(handles, are_resources, &targets));
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (device_.lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    for (const auto& list : targets) {
      for (const Ref<OpenedAllocation>& opened : list) {
        const Allocation* allocation = opened->allocation;
        // What others use, the display shows, the CPU looks at or the client owns is not one
        // device's to give up.
        if (opened->closing || allocation->shared != nullptr || allocation->primary ||
            allocation->user_memory != nullptr || core_.memory().lock_count(allocation->id) != 0) {
          status = Status::kInvalidParameter;
          return;
        }
      }
    }
    floor_.listing_changes.note();
    for (const auto& list : targets) {
      for (const Ref<OpenedAllocation>& opened : list) {
        opened->allocation->offer = terms.priority;
        opened->allocation->allows_decommit = terms.allow_decommit;
        floor_.offers->begin(*opened->allocation);
      }
    }
    if (terms.allow_decommit) floor_.may_decommit.store(true, std::memory_order_relaxed);
  });
  if (!is_success(status) || !terms.immediately) return status;
  const bool taken = core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    return std::ranges::all_of(targets, [](const auto& list) DXGKIT_REQUIRES(on_lane) {
      return std::ranges::all_of(list, [](const auto& opened) DXGKIT_REQUIRES(on_lane) {
        return opened->closing || !opened->allocation->offer_pending;
      });
    });
  });
  return taken ? Status::kSuccess : Status::kDeviceRemoved;
}

Status DeviceOffers::reclaim(std::span<const Handle> handles, bool are_resources,
                             bool all_or_nothing, std::vector<ReclaimResult>* results) {
  if (device_.lost()) return Status::kDeviceRemoved;
  Targets targets;
  DXGKIT_RETURN_IF_FAILED(targets_of(handles, are_resources, &targets));
  Status status = Status::kSuccess;
  results->assign(handles.size(), ReclaimResult::kOk);
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (const auto& list : targets) {
      for (const Ref<OpenedAllocation>& opened : list) {
        if (opened->closing) status = Status::kInvalidParameter;
      }
    }
    if (device_.lost()) status = Status::kDeviceRemoved;
    if (!is_success(status)) return;
    if (all_or_nothing) {
      std::vector<Allocation*> all;
      for (const auto& list : targets) {
        for (const Ref<OpenedAllocation>& opened : list) all.push_back(opened->allocation);
      }
      status = Commitment(floor_).recommit(all);
      if (!is_success(status)) return;
    }
    std::vector<const Allocation*> discarded;  // one may be named twice
    for (size_t i = 0; i < targets.size(); ++i) {
      const bool committed = std::ranges::all_of(
          targets[i], [this](const Ref<OpenedAllocation>& opened) DXGKIT_REQUIRES(on_lane) {
            return is_success(Commitment(floor_).recommit(*opened->allocation));
          });
      if (!committed) {
        (*results)[i] = ReclaimResult::kNotCommitted;
        continue;
      }
      for (const Ref<OpenedAllocation>& opened : targets[i]) {
        Allocation& allocation = *opened->allocation;
        if (allocation.allows_decommit) process_.note_commitment_change();
        allocation.offer = vidmm::OfferPriority::kNone;
        allocation.offer_pending = allocation.allows_decommit = false;
        if (core_.memory().reclaim(allocation.id)) discarded.push_back(&allocation);
        list_again(*opened);
        if (std::ranges::find(discarded, &allocation) != discarded.end())
          (*results)[i] = ReclaimResult::kDiscarded;
      }
    }
  });
  return status;
}

}  // namespace dxgkit::dxgk
