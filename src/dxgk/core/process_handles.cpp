#include "dxgk/core/process_handles.h"

#include <utility>

#include "dxgk/core/process.h"

namespace dxgkit::dxgk {

uint64_t ProcessHandles::open(const Process& holder, std::shared_ptr<Process> target,
                              uint32_t access) {
  // Far from descriptors and from numbers of device contexts; steps of 4 as on Windows.
  constexpr uint64_t kFirst = 0x9C0000, kStep = 4;
  const uint64_t handle = kFirst + kStep * opened_++;
  entries_.emplace(handle, Entry{holder.number(), std::move(target), access});
  return handle;
}

bool ProcessHandles::close(const Process& holder, uint64_t handle) {
  const auto found = entries_.find(handle);
  if (found == entries_.end() || found->second.holder != holder.number()) return false;
  entries_.erase(found);
  return true;
}

void ProcessHandles::close_all(const Process& holder) {
  std::erase_if(entries_,
                [&](const auto& entry) { return entry.second.holder == holder.number(); });
}

Result<std::shared_ptr<Process>> ProcessHandles::find(const Process& holder, uint64_t handle,
                                                      uint32_t access) const {
  const auto found = entries_.find(handle);
  if (found == entries_.end() || found->second.holder != holder.number())
    return Error(Status::kInvalidHandle);
  if ((found->second.access & access) != access) return Error(Status::kAccessDenied);
  return found->second.target;
}

}  // namespace dxgkit::dxgk
