#include "wire/given_memory.h"

#include <algorithm>

#include "dxgk/memory/device_lock.h"
#include "dxgk/work/device.h"

namespace dxgkit::wire {

bool GivenMemory::locked(dxgk::Process& process, uint32_t device, uint32_t allocation,
                         WindowNote* note, UniqueFd* descriptor) {
  const auto found = process.handles().find<dxgk::Device>(device);
  if (!found.has_value()) return false;
  const auto given = (*found)->locks().give(allocation);
  if (!given.has_value()) return false;
  const bus::MemoryWindow& part = given->part.window;
  *descriptor = UniqueFd(part.fd);
  const runtime::MutexLock lock(mutex_);
  Window& window = windows_[allocation];
  if (window.object != given->part.object || window.offset != part.offset ||
      window.bytes != part.size || window.device != device) {
    window = {.id = ++last_id_,
              .object = given->part.object,
              .offset = part.offset,
              .bytes = part.size,
              .device = device,
              .original = given->original,
              .resource = given->resource};
  }
  note->bytes = window.bytes;
  note->offset = window.offset;
  note->id = window.id;
  return true;
}

void GivenMemory::destroyed(std::span<const uint32_t> allocations, uint32_t resource,
                            uint32_t device, std::vector<WindowNote>* ended) {
  std::vector<uint32_t> sorted(allocations.begin(), allocations.end());
  std::ranges::sort(sorted);
  const auto goes = [&](const Window& window) {
    return (resource != 0 && window.resource == resource) ||
           (device != 0 && window.device == device) ||
           std::ranges::binary_search(sorted, window.original);
  };
  const runtime::MutexLock lock(mutex_);
  std::erase_if(windows_, [&](const auto& entry) {
    if (!goes(entry.second)) return false;
    ended->push_back({.memory = static_cast<uint32_t>(Memory::kLock),
                      .owner = entry.first,
                      .id = entry.second.id});
    return true;
  });
}

size_t GivenMemory::count() const {
  const runtime::MutexLock lock(mutex_);
  return windows_.size();
}

}  // namespace dxgkit::wire
