#include "dxgk/memory/backing_pages.h"

#include <utility>

#include "dxgk/memory/allocation.h"

namespace dxgkit::dxgk {

void BackingPages::charge(const Allocation& allocation, MemoryCharge charge) {
  if (charge.counts()) charges_.insert_or_assign(allocation.id, std::move(charge));
}

void BackingPages::release(Allocation& allocation) {
  charges_.erase(allocation.id);
  if (allocation.user_memory == nullptr) {
    release(allocation.pages.frames());
  } else if (core_.fatal()) {
    kept_of_clients_.push_back(std::move(allocation.user_memory));
  }  // else it ends with its allocation
}

void BackingPages::release(std::span<const bus::PageFrame> pages) {
  if (core_.fatal()) {
    kept_.insert(kept_.end(), pages.begin(), pages.end());
  } else {
    core_.machine().free_pages(pages);
  }
}

void BackingPages::return_kept() {
  if (!kept_.empty()) core_.machine().free_pages(kept_);
  kept_.clear();
  kept_of_clients_.clear();
}

}  // namespace dxgkit::dxgk
