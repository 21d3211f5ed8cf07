#include "bus/kept_views.h"

#include <algorithm>
#include <utility>

namespace dxgkit::bus {
namespace {

bool same(const MemoryWindow& a, const MemoryWindow& b) {
  return a.fd == b.fd && a.offset == b.offset && a.size == b.size;
}

Result<std::unique_ptr<CpuView>> make(std::span<const MemoryWindow> windows) {
  uint64_t bytes = 0;
  for (const MemoryWindow& window : windows) {
    if (!checked_add(bytes, window.size, &bytes)) return Error(Status::kInvalidParameter);
  }
  DXGKIT_ASSIGN_OR_RETURN(std::unique_ptr<CpuView> view, CpuView::create(bytes));
  DXGKIT_RETURN_ERROR_IF_FAILED(view->retarget(windows));
  return view;
}

}  // namespace

Result<std::unique_ptr<CpuView>> KeptViews::show(std::span<const MemoryWindow> windows) {
  // The one that was kept last is the likeliest.
  for (size_t i = kept_.size(); i-- > 0;) {
    if (std::ranges::equal(kept_[i].windows, windows, same)) return take(i).view;
  }
  Result<std::unique_ptr<CpuView>> view = make(windows);
  if (view.has_value() || view.error() != Status::kNoMemory || kept_.empty()) return view;
  clear();
  return make(windows);
}

void KeptViews::keep(std::unique_ptr<CpuView> view, std::vector<MemoryWindow> windows,
                     uint64_t owner) {
  bytes_ += view->size();
  windows_ += windows.size();
  kept_.push_back({std::move(view), std::move(windows), owner});
  while (kept_.size() > kViewsMost || bytes_ > kBytesMost || windows_ > kWindowsMost)
    static_cast<void>(take(0));
}

void KeptViews::drop(uint64_t owner) {
  for (size_t i = kept_.size(); i-- > 0;) {
    if (kept_[i].owner == owner) static_cast<void>(take(i));
  }
}

KeptViews::Kept KeptViews::take(size_t index) {
  Kept taken = std::move(kept_[index]);
  kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(index));
  bytes_ -= taken.view->size();
  windows_ -= taken.windows.size();
  return taken;
}

void KeptViews::clear() {
  kept_.clear();
  bytes_ = windows_ = 0;
}

}  // namespace dxgkit::bus
