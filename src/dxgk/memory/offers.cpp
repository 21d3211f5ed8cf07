#include "dxgk/memory/offers.h"

#include <span>

#include "dxgk/core/process.h"
#include "dxgk/memory/device_memory.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"

namespace dxgkit::dxgk {
namespace {

/// What is offered need not be resident, although its device lists it: the count stays (ALLOC-47).
void set_aside(const Allocation& allocation) DXGKIT_REQUIRES(on_lane) {
  for (OpenedAllocation* opened : allocation.opened) {
    if (!opened->listing.listed) continue;
    opened->listing.listed = false;
    static_cast<void>(opened->device->residency->set.remove(allocation.id));
  }
}

}  // namespace

void Offers::begin(Allocation& allocation) {
  core_.lane().assert_current();
  if (residency_.is_idle(allocation)) return take(allocation);
  if (allocation.offer_pending) return;
  allocation.offer_pending = true;
  pending_.push_back(allocation.id);
}

void Offers::take(Allocation& allocation) {
  allocation.offer_pending = false;
  set_aside(allocation);
  core_.memory().offer(allocation.id, allocation.offer);
  if (allocation.allows_decommit)
    allocation.opened.front()->device->device().process().note_commitment_change();
  if (!core_.options().verifier.has(VerifierSwitch::kAlwaysDiscardOffer) || core_.failed()) return;
  const Result<std::vector<vidmm::PagingOp>> gone = core_.memory().evict(allocation.id);
  if (!gone.has_value() || gone->empty()) return;
  static_cast<void>(core_.strikes(VerifierSwitch::kAlwaysDiscardOffer));
  paging_.enqueue(*gone, nullptr);
  core_.lane().post([this]() DXGKIT_REQUIRES(on_lane) {
    core_.pump();
  });  // we may be in the middle of something of the scheduler's
}

void Offers::advance() {
  core_.lane().assert_current();
  std::erase_if(pending_, [&](AllocationId id) DXGKIT_REQUIRES(on_lane) {
    if (core_.failed() || !allocations_.contains(id)) return true;
    Allocation& allocation = allocations_.at(id);
    if (allocation.forgotten || !allocation.offer_pending) return true;
    if (!residency_.is_idle(allocation)) return false;
    take(allocation);
    return true;
  });
}

}  // namespace dxgkit::dxgk
