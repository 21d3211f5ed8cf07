#include "bus/page_owners.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace dxgkit::bus {

void PageOwners::add(uint64_t first, uint64_t count, int fd, std::shared_ptr<PageOwner> owner) {
  ranges_[first] = {count, fd, std::move(owner)};
}

std::shared_ptr<PageOwner> PageOwners::remove(uint64_t first) {
  const auto found = ranges_.find(first);
  DXGKIT_CHECK(found != ranges_.end());
  std::shared_ptr<PageOwner> owner = std::move(found->second.owner);
  ranges_.erase(found);
  return owner;
}

PageOwners::Found PageOwners::find(uint64_t frame) const {
  const auto after = ranges_.upper_bound(frame);
  const Found none{.until = after == ranges_.end() ? UINT64_MAX : after->first};
  if (after == ranges_.begin()) return none;
  const auto& [first, range] = *std::prev(after);
  if (frame - first >= range.count) return none;
  return {.first = first, .until = first + range.count, .fd = range.fd, .owner = range.owner.get()};
}

void PageOwners::split(uint64_t first, uint64_t count, std::vector<Returned>& returned,
                       const std::function<void(uint64_t, uint64_t)>& release) const {
  for (const uint64_t end = first + count; first < end;) {
    const Found found = find(first);
    const uint64_t some = std::min(found.until, end) - first;
    if (found.owner == nullptr)
      release(first, some);
    else
      returned.push_back({ranges_.at(found.first).owner, first, some});
    first += some;
  }
}

}  // namespace dxgkit::bus
