#include "dxgk/memory/allocation.h"

#include <algorithm>

#include "dxgk/memory/device_memory.h"
#include "dxgk/memory/sharing.h"

namespace dxgkit::dxgk {

OpenedAllocation::OpenedAllocation() : Object(kType) {}
OpenedAllocation::~OpenedAllocation() = default;

CpuAccess& OpenedAllocation::cpu() {
  if (cpu_ == nullptr) cpu_ = std::make_unique<CpuAccess>();
  return *cpu_;
}

OpenedAllocation& OpenedAllocation::current_instance() {
  OpenedAllocation& first = first_instance();
  const CpuAccess* const list = first.cpu_.get();
  return list == nullptr || list->current == 0 ? first : *list->instances[list->current - 1];
}

void OpenedAllocation::make_current_instance() {
  CpuAccess& list = first_instance().cpu();
  const auto found = std::ranges::find(list.instances, this, &Ref<OpenedAllocation>::get);
  list.current =
      found == list.instances.end() ? 0 : static_cast<size_t>(found - list.instances.begin()) + 1;
}

std::span<const Ref<OpenedAllocation>> OpenedAllocation::instances() const {
  if (cpu_ == nullptr) return {};
  return cpu_->instances;
}

OpeningList::Iterator& OpeningList::Iterator::operator++() {
  at_ = at_->next_opening;
  return *this;
}

void OpeningList::push_back(OpenedAllocation* opened) {
  OpenedAllocation** link = &first_;
  while (*link != nullptr) link = &(*link)->next_opening;
  *link = opened;
}

void OpeningList::erase(OpenedAllocation* opened) {
  for (OpenedAllocation** link = &first_; *link != nullptr; link = &(*link)->next_opening) {
    if (*link != opened) continue;
    *link = std::exchange(opened->next_opening, nullptr);
    return;
  }
}

Resource::Resource() : Object(kType) {}
Resource::~Resource() = default;

}  // namespace dxgkit::dxgk
