#include "nt/pool_pages.h"

#include <sys/mman.h>

#include "base/check.h"
#include "base/fixed_memory.h"

namespace dxgkit::nt {

PoolPages::~PoolPages() {
  // Blocks of the arena that nobody closed: their addresses go with the arena.
  for (const auto& [address, run] : runs_) machine_.free_pool_pages(run.first, run.pages);
}

void PoolPages::note(std::byte* at, const Run& run) {
  SpinGuard guard(lock_);
  const auto address = reinterpret_cast<uint64_t>(at);
  runs_.emplace(address, run);
  places_.emplace(run.first.value, address);
}

PoolPages::Run PoolPages::forget(std::byte* at) {
  SpinGuard guard(lock_);
  const auto found = runs_.find(reinterpret_cast<uint64_t>(at));
  if (found == runs_.end()) return {};
  const Run run = found->second;
  places_.erase(run.first.value);
  runs_.erase(found);
  return run;
}

void PoolPages::give_back(const Run& run) {
  if (run.pages != 0) machine_.free_pool_pages(run.first, run.pages);
}

std::byte* PoolPages::map(uint64_t bytes) {
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  void* memory = MAP_FAILED;
  if (const auto first = machine_.allocate_pool_pages(bytes / kPageBytes); first.has_value()) {
    const bus::MemoryWindow window =
        machine_.window_of(bus::PhysicalAddress{first->value * kPageBytes}, bytes);
    memory = map_fixed(FixedRange::kMemory, bytes, kAccess, MAP_SHARED, window.fd, window.offset);
    if (memory == MAP_FAILED) {
      machine_.free_pool_pages(*first, bytes / kPageBytes);
      return nullptr;
    }
    note(static_cast<std::byte*>(memory), {bytes / kPageBytes, *first});
  } else {
    memory = map_fixed(FixedRange::kMemory, bytes, kAccess, MAP_PRIVATE | MAP_ANONYMOUS);
  }
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

void PoolPages::unmap(std::byte* memory, uint64_t bytes) {
  // Another thread may get the addresses as soon as they are free.
  const Run run = forget(memory);
  unmap_fixed(memory, bytes);
  give_back(run);
}

bool PoolPages::show(std::byte* first, uint64_t page_count) {
  const uint64_t bytes = page_count * kPageBytes;
  const auto frame = machine_.allocate_pool_pages(page_count);
  if (!frame.has_value()) return mprotect(first, bytes, PROT_READ | PROT_WRITE) == 0;
  const bus::MemoryWindow window =
      machine_.window_of(bus::PhysicalAddress{frame->value * kPageBytes}, bytes);
  if (mmap(first, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, window.fd,
           static_cast<off_t>(window.offset)) == MAP_FAILED) {
    machine_.free_pool_pages(*frame, page_count);
    return false;
  }
  note(first, {page_count, *frame});
  return true;
}

void PoolPages::hide(std::byte* first, uint64_t page_count) {
  const uint64_t bytes = page_count * kPageBytes;
  const Run run = forget(first);
  // Also where no page of the window was: the content goes.
  DXGKIT_CHECK(mmap(first, bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == first);
  give_back(run);
}

uint64_t PoolPages::physical_of(const void* pointer) const {
  const auto at = reinterpret_cast<uint64_t>(pointer);
  SpinGuard guard(lock_);
  auto run = runs_.upper_bound(at);
  if (run == runs_.begin()) return 0;
  --run;
  const uint64_t offset = at - run->first;
  return offset < run->second.pages * kPageBytes ? run->second.first.value * kPageBytes + offset
                                                 : 0;
}

void* PoolPages::address_of(uint64_t physical) const {
  SpinGuard guard(lock_);
  auto place = places_.upper_bound(physical / kPageBytes);
  if (place == places_.begin()) return nullptr;
  --place;
  const uint64_t offset = physical - place->first * kPageBytes;
  return offset < runs_.at(place->second).pages * kPageBytes
             ? reinterpret_cast<void*>(place->second + offset)
             : nullptr;
}

}  // namespace dxgkit::nt
