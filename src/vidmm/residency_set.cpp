#include "vidmm/residency_set.h"

#include <utility>

#include "base/check.h"

namespace dxgkit::vidmm {

bool ResidencySet::add(AllocationId id) {
  const auto [found, added] = slots_.try_emplace(id.value, entries_.size());
  if (added) entries_.push_back({.id = id});
  ++entries_[found->second].reasons;
  return added;
}

bool ResidencySet::remove(AllocationId id) {
  const auto found = slots_.find(id.value);
  DXGKIT_CHECK(found != slots_.end());
  size_t slot = found->second;
  if (--entries_[slot].reasons != 0) return false;
  if (slot < pinned_) {
    const Use use{id, false};
    memory_.release(std::span(&use, 1));
    swap_entries(slot, --pinned_);
    slot = pinned_;
  }
  swap_entries(slot, entries_.size() - 1);
  entries_.pop_back();
  slots_.erase(id.value);
  return true;
}

void ResidencySet::swap_entries(size_t a, size_t b) {
  if (a == b) return;
  std::swap(entries_[a], entries_[b]);
  slots_[entries_[a].id.value] = a;
  slots_[entries_[b].id.value] = b;
}

std::expected<ResidencySet::Held, Status> ResidencySet::hold() {
  Held held;
  held.first = pinned_;
  if (this->held()) return held;
  std::vector<Use> uses;
  for (size_t i = pinned_; i < entries_.size(); ++i) {
    uses.push_back({entries_[i].id, false});
  }
  auto plan = memory_.make_resident(uses);
  if (!plan.has_value()) return std::unexpected(plan.error().status);
  for (size_t i = 0; i < uses.size(); ++i) {
    const Entry& entry = entries_[pinned_ + i];
    // Even if it is where it was when the list was last held. It may have been evicted and paged in
    // again by another plan, or moved, clean.
    memory_.assume_written(entry.id);
    held.must_wait = held.must_wait || memory_.pending_operations(entry.id) != 0;
  }
  held.operations = std::move(plan->operations);
  held.must_wait = held.must_wait || !held.operations.empty();
  pinned_ = entries_.size();
  return held;
}

void ResidencySet::release(bool used) {
  for (size_t i = 0; i < pinned_; ++i) {
    const Use use{entries_[i].id, false};
    if (used) memory_.note_use(use.allocation);
    memory_.release(std::span(&use, 1));
  }
  pinned_ = 0;
}

}  // namespace dxgkit::vidmm
